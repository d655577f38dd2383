"""pyctcdecode's beam search for CTC without a language model. tests/test_calls.py judges what it returns."""

import logging

import numpy as np
from recording import question, record, sixteenths

logging.disable(logging.WARNING)  # it misses a language model
from pyctcdecode import build_ctcdecoder  # noqa: E402

INPUTS = {"two frames": np.log([[2, 1], [2, 1]]), "four frames": sixteenths(31, 4, 3),
          "six frames": 2 * sixteenths(32, 6, 4)}
EVERYTHING = -1e9


def read(logits, **options):
    """Labels and score of the best strings."""
    decoder = build_ctcdecoder(["", *"abc"[:logits.shape[1] - 1]])
    beams = decoder.decode_beams(logits, beam_width=1000, **options)
    return [[["abc".index(letter) + 1 for letter in beam[0]], beam[-2]] for beam in beams[:4]]


@question
def strings():
    """decode_beams: the four best strings, a beam of 1000, both thresholds out of reach; logits given."""
    return {name: {"logits": logits, "added": read(logits, beam_prune_logp=EVERYTHING, token_min_logp=EVERYTHING)}
            for name, logits in INPUTS.items()}


record()

"""flashlight-text's beam search for CTC without a lexicon or a language model. tests/test_calls.py judges it."""

import itertools

import numpy as np
from flashlight.lib.text.decoder import CriterionType, LexiconFreeDecoder, LexiconFreeDecoderOptions, ZeroLM
from recording import question, record, sixteenths

INPUTS = {"two frames": np.log([[2, 1], [2, 1]]), "four frames": sixteenths(31, 4, 3),
          "six frames": 2 * sixteenths(32, 6, 4)}
BLANK, EVERYTHING = 0, 1e9


def read(logits, log_add, beam):
    """Labels and score of the best strings; nothing is pruned by its score."""
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    emissions = np.ascontiguousarray(log_probs, dtype=np.float32)
    T, V = emissions.shape
    options = LexiconFreeDecoderOptions(
        beam_size=beam, beam_size_token=V, beam_threshold=EVERYTHING, lm_weight=0.0, sil_score=0.0, log_add=log_add,
        criterion_type=CriterionType.CTC)
    decoder = LexiconFreeDecoder(options, ZeroLM(), -1, BLANK, [])
    return [[labels(each.tokens), each.score] for each in decoder.decode(emissions.ctypes.data, T, V)[:4]]


def labels(tokens):
    """Its tokens are a path, with -1 before and after it."""
    return [k for k, _ in itertools.groupby(tokens) if k not in (-1, BLANK)]


@question
def strings():
    """LexiconFreeDecoder with ZeroLM: the four best strings, with log_add and without, a beam of 1000; logits given."""
    return {name: {"logits": logits, "added": read(logits, True, 1000), "largest": read(logits, False, 1000)}
            for name, logits in INPUTS.items()}


record()

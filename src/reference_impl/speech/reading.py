"""What a network hears in utterances, greedily, and how far that is from what was said. Needs torch; no loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..decoding.error_rates import ErrorRate, error_rate
from ..decoding.greedy import peaks
from ..networks.transducer import Transducer, decode
from .batches import Example, batch_of
from .delays import word_delays
from .features import HOP
from .letters import spell
from .networks import SUBSAMPLING
from .training import as_tensors

__all__ = ["SECONDS_A_FRAME", "Heard", "logits_of", "read", "scored"]

#: From one frame of an encoder to the next.
SECONDS_A_FRAME = SUBSAMPLING * HOP


@torch.no_grad()
def logits_of(network, found: Sequence[Example], *, size=32) -> list[np.ndarray]:
    """Logits (T', 29) float64 of a CTC network for each example, without padding.

    Parameters
    ----------
    network : CTCNetwork
        In evaluation mode.
    found : sequence of Example
    size : int
        Utterances at a time.
    """
    logits = []
    for first in range(0, len(found), size):
        frames, frame_lengths, *_ = as_tensors(batch_of(found[first:first + size]))
        rows, lengths = network(frames, frame_lengths)
        logits += [row[:length].double().numpy() for row, length in zip(rows, lengths, strict=True)]
    return logits


def read(network, found: Sequence[Example], *, size=32) -> list[list[tuple[int, int]]]:
    """What a network reads by greedy decoding: for each example a list of (frame, letter).

    Parameters
    ----------
    network : CTCNetwork or Transducer
        In evaluation mode.
    found : sequence of Example
    size : int
        Utterances at a time.
    """
    if not isinstance(network, Transducer):
        return [list(peaks(logits).items()) for logits in logits_of(network, found, size=size)]
    heard = []
    for first in range(0, len(found), size):
        frames, frame_lengths, *_ = as_tensors(batch_of(found[first:first + size]))
        heard += decode(network, frames, frame_lengths)
    return heard


@dataclass(frozen=True)
class Heard:
    """What a network heard, and how well.

    Attributes
    ----------
    texts : list of str
    letters, words : ErrorRate
        With 95 % intervals from resampled *voices*: what one voice makes hard is hard in all its utterances. From five
        voices an interval is rough, and rather too short.
    delays : (N,) float array
        Seconds from the true end of each word that was read right to its last letter; empty if the times are unknown.
    """

    texts: list[str]
    letters: ErrorRate
    words: ErrorRate
    delays: np.ndarray


def scored(read: Sequence[Sequence[tuple[int, int]]], found: Sequence[Example]) -> Heard:
    """Error rates and delays of what was read.

    Examples
    --------
    >>> from reference_impl.speech.corpus import Span, Utterance
    >>> said = Utterance("", "", "go on", np.zeros(8000), 8000, (Span("go", 0.1, 0.4), Span("on", 0.4, 0.7)))
    >>> heard = scored([[(9, 9), (14, 17), (20, 1), (22, 17), (36, 15)]], [Example(None, None, said)])
    >>> heard.texts, heard.letters.rate, heard.words.rate, heard.delays.round(3).tolist()
    (['go om'], 0.2, 0.5, [-0.1])
    """
    said = [each.utterance for each in found]
    texts = [spell(label for _, label in letters) for letters in read]
    timed = [word_delays(letters, utterance, SECONDS_A_FRAME)
             for letters, utterance in zip(read, said, strict=True) if utterance.words]
    voices = [each.voice for each in said]
    return Heard(texts, error_rate(texts, [each.text for each in said], groups=voices),
                 error_rate([text.split() for text in texts], [each.text.split() for each in said], groups=voices),
                 np.concatenate([np.zeros(0), *timed]))

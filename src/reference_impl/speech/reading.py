"""What a network hears in utterances, greedily, and how far that is from what was said. Needs torch; no loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..decoding.error_rates import ErrorRate, error_rate
from ..decoding.greedy import peaks
from ..networks.transducer import Transducer, decode
from ..torch_impl import rnnt_loss
from .batches import Example, batch_of
from .delays import word_delays
from .features import HOP
from .letters import BLANK, spell
from .networks import SUBSAMPLING
from .training import as_tensors

__all__ = ["SECONDS_A_FRAME", "Heard", "label_posteriors", "logits_of", "read", "scored"]

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


def label_posteriors(network, found: Sequence[Example], *, size=32) -> list[np.ndarray]:
    """When a transducer writes each letter, given the transcript: the posteriors of its label arcs.

    Parameters
    ----------
    network : Transducer
        In evaluation mode.
    found : sequence of Example
    size : int
        Utterances at a time.

    Returns
    -------
    list of (T', U) float32 arrays
        Probability that letter u is written in frame t; each column adds up to 1.

    Examples
    --------
    >>> from reference_impl.speech.networks import Transducer
    >>> silence = Example(np.zeros((6, 40), np.float32), np.array([9, 17]), None)
    >>> label_posteriors(Transducer(8).eval(), [silence])[0].sum(0).round(4).tolist()
    [1.0, 1.0]
    """
    posteriors = []
    for first in range(0, len(found), size):
        frames, frame_lengths, targets, target_lengths = as_tensors(batch_of(found[first:first + size]))
        with torch.no_grad():
            logits, lengths = network(frames, frame_lengths, targets)
        log_probs = logits.log_softmax(-1).requires_grad_()
        loss = rnnt_loss(log_probs, targets, lengths, target_lengths, reduction="sum", inputs="log_probs")
        occupancy = -torch.autograd.grad(loss, log_probs)[0]
        of_labels = occupancy.sum(-1) - occupancy[..., BLANK]
        posteriors += [each[:T, :U].numpy() for each, T, U in zip(of_labels, lengths, target_lengths, strict=True)]
    return posteriors


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

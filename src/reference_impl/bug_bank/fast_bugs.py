"""Five of the planted CTC bugs again, vectorised over the states, so that a network can be trained with them.

The bugs of the bank run the explicit recursions: most of a second for a batch of speech. These have the same names and
the same mechanisms, take a hundredth of a second, and return what the bank's return, which a test compares, for
at least one frame and wherever an alignment exists. ``torch_candidate.torch_loss`` makes a torch loss of one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ctc
from .._softmax import log_softmax
from .._validation import check_targets
from .checks import Candidate, over_batch

__all__ = ["FAST_BUGS"]


def _arriving(emissions, skip):
    """Log mass (T, S) of the prefixes that have come to each state, without the emission there."""
    mass = np.full(emissions.shape, -np.inf)
    mass[0, :2] = 0.0
    for t in range(1, len(mass)):
        before = mass[t - 1] + emissions[t - 1]
        mass[t] = before
        mass[t, 1:] = np.logaddexp(mass[t, 1:], before[:-1])
        mass[t, 2:] = np.logaddexp(mass[t, 2:], np.where(skip[2:], before[:-2], -np.inf))
    return mass


def _may_skip(extended):
    """Whether a path may enter a state from two states before: a label, unless the label before is the same."""
    return (np.arange(len(extended)) % 2 == 1) & (extended != np.roll(extended, 2))


def _never(extended):
    return np.zeros(len(extended), dtype=bool)


def _to_any_label(extended):
    return np.arange(len(extended)) % 2 == 1


def _all(states):
    return states


def _of_eight_labels(states):
    return np.where(np.arange(states.shape[1]) < 17, states, 0.0)


def _one(gradient: Callable, may_skip: Callable = _may_skip, counted: Callable = _all):
    """Loss and gradient of one utterance. ``gradient`` is made of probs and occupancy, (T, V) each."""
    def one(logits, targets, blank):
        log_probs, targets = log_softmax(logits), check_targets(targets, logits.shape[1], blank)
        extended = ctc.extended_targets(targets, blank=blank)
        emissions = log_probs[:, extended]
        a = _arriving(emissions, may_skip(extended)) + emissions
        log_z = np.logaddexp.reduce(a[-1, -2:])
        if log_z == -np.inf:
            return np.inf, np.zeros_like(logits)
        b = _arriving(emissions[::-1, ::-1], may_skip(extended[::-1]))[::-1, ::-1]
        probs, occupancy = np.exp(log_probs), np.zeros_like(log_probs)
        np.add.at(occupancy, (slice(None), extended), counted(np.exp(a + b - log_z)))
        return -log_z, gradient(probs, occupancy)
    return one


def _right(probs, occupancy):
    return probs - occupancy


_MADE = {
    "skip between equal labels": _one(_right, may_skip=_to_any_label),
    "gradient divided by T, loss not": _one(lambda probs, occupancy: (probs - occupancy) / len(probs)),
    "skip forbidden": _one(_right, may_skip=_never),
    "right loss, wrong gradient of many labels": _one(_right, counted=_of_eight_labels),
    "emission counted twice": _one(lambda probs, occupancy: probs - occupancy * probs),
}
#: Candidates with respect to the logits, by the name that the bug has in :data:`reference_impl.bug_bank.BUGS`.
FAST_BUGS = {name: Candidate("ctc", "logits", over_batch(one, "ctc")) for name, one in _MADE.items()}

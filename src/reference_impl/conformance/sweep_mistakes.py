"""What a mistake in one of the two sweeps makes of loss and gradient, while all else is right.

The mistakes in alpha and beta themselves are those of `ctc_mistakes.py` and `vectors/mistakes.py`, with some that only
show together with the other sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .. import ctc, rnnt
from .._softmax import log_softmax
from . import ctc_mistakes
from .vectors.mistakes import rnnt_sweeps

__all__ = ["sweep_mistakes"]


def sweep_mistakes(kind, field) -> dict[str, Callable]:
    """Functions of a problem of one utterance, by the sentence that names the mistake.

    ``field`` is "loss", "grad_logits" or "grad_log_probs".
    """
    made = _ctc if kind == "ctc" else _rnnt
    return {f"In {sweep}: {said[0].lower()}{said[1:]}": partial(made, field, **{sweep: mistake})
            for sweep, mistakes in _MISTAKES[kind].items() if field != "loss" or sweep == "alpha"
            for said, mistake in mistakes.items()}


def _ctc(field, problem, alpha=None, beta=None):
    log_probs, targets, blank = log_softmax(problem.logits), problem.targets, problem.blank
    before = (alpha or partial(ctc_mistakes.alpha))(log_probs, targets, blank)
    z = ctc_mistakes.extended(targets, blank)
    log_z = np.logaddexp.reduce(before[-1, -2:])
    if field == "loss":
        return -log_z
    after = beta(log_probs, targets, blank) if beta else ctc.log_beta(log_probs, targets, blank=blank)
    occupied = np.zeros(log_probs.shape)
    if log_z > -np.inf:
        np.add.at(occupied.T, z, np.exp(before + after - log_z).T)
    return _gradient(field, log_probs, occupied)


def _gradient(field, log_probs, occupied):
    """As code for CTC has it, the mass of a frame is 1; in RNN-T it is what the node's arcs add up to."""
    if field == "grad_log_probs":
        return -occupied
    node = 1.0 if log_probs.ndim == 2 and occupied.any() else occupied.sum(-1, keepdims=True)
    return np.exp(log_probs) * node - occupied


def _rnnt(field, problem, alpha=None, beta=None):
    log_probs, targets, blank = log_softmax(problem.logits), problem.targets, problem.blank
    before = rnnt_sweeps(problem, **alpha)[0] if alpha else rnnt.log_alpha(log_probs, targets, blank=blank)
    after = rnnt_sweeps(problem, **beta)[1][:-1, :-1] if beta else rnnt.log_beta(log_probs, targets, blank=blank)
    T, U = before.shape[0], len(targets)
    log_z = before[-1, -1] + log_probs[-1, -1, blank]
    if field == "loss":
        return -log_z
    occupied = np.zeros(log_probs.shape)
    if log_z > -np.inf:
        after_blank = np.full((T, U + 1), -np.inf)
        after_blank[:-1] = after[1:]
        after_blank[-1, -1] = 0.0
        occupied[..., blank] = np.exp(before + log_probs[..., blank] + after_blank - log_z)
        occupied[:, np.arange(U), targets] += np.exp(
            before[:, :-1] + log_probs[:, np.arange(U), targets] + after[:, 1:] - log_z)
    return _gradient(field, log_probs, occupied)


def _of_other_labels(log_probs, targets, blank):
    """Beta as alpha of the reversed frames, where the labels should have been reversed as well."""
    turned = ctc_mistakes.alpha(np.asarray(log_probs)[::-1], targets, blank)[::-1, ::-1]
    z = ctc_mistakes.extended(targets, blank)
    return turned - np.asarray(log_probs)[:, z[::-1]]


def _steps(mistakes):
    """Those that leave the shape, and the logarithms."""
    others = "shape", "logarithms", "There are", "is missing", "It is alpha", "It is beta"
    return {said: mistake for said, mistake in mistakes.items() if not any(words in said for words in others)}


_MISTAKES = {
    "ctc": {
        "alpha": {
            **_steps(ctc_mistakes.LOG_ALPHA),
            "It is updated in place: a state reads its neighbours in the same frame, not in the frame before.":
                partial(ctc_mistakes.alpha, in_place=True),
            "The states wrap around: the last ones flow into the first.": partial(ctc_mistakes.alpha, wraps=True),
        },
        "beta": {
            **_steps(ctc_mistakes.LOG_BETA),
            "Whether a skip is allowed is asked of the state that it leaves, not of the one that it enters.":
                partial(ctc_mistakes.beta, asks_source=True),
            "The frames are reversed, and the labels are not.": _of_other_labels,
        },
    },
    "rnnt": {
        "alpha": {
            "An arc reads the distribution of the node that it leads to.": {"entered": True},
            "It reads the label of another row.": {"shift": 1},
            "It reads the label of the row before.": {"shift": -1},
            "A label is weighed as a blank is.": {"blank_for_label": True},
            "A label takes a frame, as in the monotonic RNN-T.": {"diagonal": True},
            "It takes the best way where it should add all of them (a maximum for a sum).": {"add": np.maximum},
            "No label is emitted in the first frame.": {"no_label_at": 0},
            "No label is emitted in the last frame.": {"no_label_at": -1},
            "No blank is emitted in the first row.": {"no_blank_in": 0},
            "No blank is emitted in the last row.": {"no_blank_in": -1},
        },
        "beta": {
            "The last blank is missing.": {"final": False},
            "An arc reads the distribution of the node that it leads to.": {"entered": True},
            "It reads the label of another row.": {"shift": 1},
            "It reads the label of the row before.": {"shift": -1},
            "A label is weighed as a blank is.": {"blank_for_label": True},
            "A label takes a frame, as in the monotonic RNN-T.": {"diagonal": True},
            "It takes the best way where it should add all of them (a maximum for a sum).": {"add": np.maximum},
            "Blanks leave the grid in every row of the last frame; only at u = U they may.": {"every_row": True},
            "No label is emitted in the first frame.": {"no_label_at": 0},
            "No label is emitted in the last frame.": {"no_label_at": -1},
            "No blank is emitted in the first row.": {"no_blank_in": 0},
            "No blank is emitted in the last row.": {"no_blank_in": -1},
        },
    },
}

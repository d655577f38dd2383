"""Inputs that questions about CTC share: utterances of every kind that has gone wrong somewhere."""

from __future__ import annotations

import numpy as np

from reference_impl import log_softmax

from .question import Case

__all__ = ["scores", "utterances"]


def scores(rng, T, V=4):
    return log_softmax(1.5 * rng.normal(size=(T, V)))


def utterances(rng) -> list[Case]:
    """Log-probs, targets and blank: labels that differ, labels that repeat, and edges."""
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    masked = scores(rng, 5)
    masked[2, [a, 0]] = -np.inf
    last = rng.permutation([0, 1, 2])  # the blank is symbol 3
    return [
        Case("different labels", {"log_probs": scores(rng, 6), "targets": np.array([a, b, c]), "blank": 0}),
        Case("different labels", {"log_probs": scores(rng, 4), "targets": last[:2], "blank": 3}),
        Case("equal labels", {"log_probs": scores(rng, 7), "targets": np.array([a, a, b]), "blank": 0}),
        Case("edges", {"log_probs": scores(rng, 3), "targets": np.array([], dtype=np.int64), "blank": 0}),
        Case("edges", {"log_probs": scores(rng, 1), "targets": np.array([b]), "blank": 0}),
        Case("edges", {"log_probs": masked, "targets": np.array([a, b]), "blank": 0}),
    ]

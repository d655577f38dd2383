"""Inputs that questions about RNN-T share: grids of every kind that has gone wrong somewhere."""

from __future__ import annotations

import numpy as np

from reference_impl import log_softmax

from .question import Case

__all__ = ["blocked", "scores", "utterances", "with_logits"]


def scores(rng, T, rows, V=4):
    return log_softmax(1.5 * rng.normal(size=(T, rows, V)))


def _case(group, log_probs, targets, blank=0):
    return Case(group, {"log_probs": log_probs, "targets": np.array(targets, dtype=np.int64), "blank": blank})


def utterances(rng) -> list[Case]:
    """Log-probs, targets and blank: labels, and edges."""
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    masked = scores(rng, 4, 3)
    masked[1, 0, 0] = masked[2, 1, b] = masked[0, 2, a] = -np.inf  # a blank, a next label, and a symbol of no path
    repeated = int(rng.integers(1, 3))  # the blank is symbol 3
    return [
        _case("labels", scores(rng, 5, 3), [a, b]),
        _case("labels", scores(rng, 3, 3), [repeated, repeated], blank=3),
        _case("labels", scores(rng, 2, 4), [b, a, c]),
        _case("edges", scores(rng, 3, 1), []),
        _case("edges", scores(rng, 1, 3), [c, a]),
        _case("edges", masked, [a, b]),
    ]


def blocked(rng) -> Case:
    """The only label is masked in every frame: there is no alignment."""
    label = int(rng.integers(1, 4))
    log_probs = scores(rng, 3, 2)
    log_probs[:, 0, label] = -np.inf
    return _case("no alignment", log_probs, [label])


def with_logits(case, rng) -> Case:
    """The case with logits in the place of log-probs: the same distributions, moved node by node."""
    log_probs = case.arguments["log_probs"]
    others = {name: value for name, value in case.arguments.items() if name != "log_probs"}
    moved = log_probs + rng.normal(size=(*log_probs.shape[:2], 1))
    return Case(case.group, {"logits": moved, **others}, case.facts)

"""The inputs of the test vectors, drawn from a generator: every kind of utterance that has gone wrong somewhere.

Logits are multiples of 1/64: exact in float32, and but for the group "numerics" in float16, so that what a port is off
by is its own doing.
"""

from __future__ import annotations

import numpy as np

from ..problem import Problem

__all__ = ["GROUPS", "problems"]

#: What the cases of a group are there for.
GROUPS = {
    "labels": "Targets whose labels differ.",
    "repeats": "Labels that occur twice, side by side or apart.",
    "short": "Empty targets, one frame, one symbol.",
    "blank": "The blank is not symbol 0.",
    "masks": "Logits that are -inf, and alignments that avoid them.",
    "no alignment": "The loss is inf, and every gradient exactly 0.",
    "numerics": "Logits so large, or probabilities so small, that exp over- or underflows; many frames.",
    "batch": "Utterances of several lengths side by side. Padding may hold anything and has gradient 0.",
    "fastemit": "FastEmit: gradients with lambda > 0, as libraries return them. Optional.",
}


class _Drawing:
    """Draws utterances of one loss."""

    def __init__(self, loss, rng):
        self.loss, self.rng = loss, rng

    def logits(self, T, U, V):
        shape = (T, V) if self.loss == "ctc" else (T, U + 1, V)
        return np.round(64 * 1.5 * self.rng.normal(size=shape)) / 64 + 0.0

    def labels(self, count, V):
        """Labels that differ, as many as there are."""
        return self.rng.permutation(range(1, V))[:count]

    def one(self, group, name, T, targets, V, blank=0, **more):
        targets = np.array(targets, dtype=np.int64)
        return Problem(group, name, self.logits(T, len(targets), V), targets, blank, **more)

    def masked(self, group, name, T, targets, V, *entries):
        problem = self.one(group, name, T, targets, V)
        for entry in entries:
            problem.logits[entry] = -np.inf
        return problem

    def batch(self, name, fill, label_fill, sizes, V, blank=0):
        T, U = max(T for T, _ in sizes) + 1, max(len(targets) for _, targets in sizes) + 1
        logits = np.full((len(sizes), *self.logits(T, U, V).shape), fill, dtype=float)
        targets = np.full((len(sizes), U), label_fill, dtype=np.int64)
        problem = Problem("batch", name, logits, targets, blank, np.array([T for T, _ in sizes]),
                          np.array([len(targets) for _, targets in sizes]))
        for b, (place, _) in enumerate(problem.utterances()):
            targets[b, :len(sizes[b][1])] = sizes[b][1]
            logits[place] = self.logits(sizes[b][0], len(sizes[b][1]), V)
        return problem


def problems(loss, rng, *, long=True) -> list[Problem]:
    """All problems of a loss; without ``long`` those of an assignment, which has no long ones and no FastEmit."""
    draw = _Drawing(loss, rng)
    a, b, c = (int(k) for k in draw.labels(3, 4))
    found = [
        draw.one("labels", "one-label", 3, [a], 4),
        draw.one("labels", "two-labels", 4, [a, b], 4),
        draw.one("labels", "three-labels", 6, [c, a, b], 5),
        draw.one("labels", "as-many-labels-as-frames", 3, [b, c, a], 4),
        draw.one("repeats", "side-by-side", 5, [a, a, b], 4),
        draw.one("repeats", "apart", 5, [a, b, a], 4),
        draw.one("repeats", "three-in-a-row", 5, [c, c, c], 4),
        draw.one("short", "empty-target", 4, [], 4),
        draw.one("short", "one-frame", 1, [b], 4),
        draw.one("short", "one-frame-empty-target", 1, [], 4),
        draw.one("short", "one-symbol", 3, [], 1),
        draw.one("short", "two-symbols", 4, [1], 2),
        draw.one("blank", "last", 5, rng.permutation([1, 2]), 4, blank=3),
        draw.one("blank", "in-between", 5, [0, 0, 4], 5, blank=2),
        draw.one("numerics", "all-logits-near-1000", 4, [a, b], 4),
        draw.one("numerics", "far-apart", 6, [b, a], 4),
        draw.one("numerics", "improbable-target", 8, [a, b, c, a], 4),
    ]
    near, far, improbable = found[-3:]
    near.logits[...] += 1000
    far.logits[...] = np.round(40 * far.logits)
    improbable.logits[..., 1:] -= 250
    if loss == "ctc":
        found += [
            draw.masked("masks", "label-elsewhere", 4, [a], 4, np.s_[:, c]),
            draw.masked("masks", "on-the-way", 5, [a, b], 4, np.s_[2, [a, 0]]),
            draw.masked("no alignment", "whole-frame-masked", 4, [a], 4, np.s_[2]),
            draw.masked("no alignment", "label-masked", 4, [a, b], 4, np.s_[:, b]),
            draw.one("no alignment", "too-few-frames", 2, [a, b, c], 4),
            draw.one("no alignment", "equal-labels-too-few-frames", 3, [a, a, a], 4),
            draw.one("no alignment", "equal-labels-one-frame-short", 2, [b, b], 4),
        ]
    else:
        found += [
            draw.masked("masks", "label-elsewhere", 4, [a], 4, np.s_[:, :, c]),
            draw.masked("masks", "on-the-way", 4, [a, b], 4, np.s_[1, 1, [b, 0]]),
            draw.masked("masks", "whole-node-masked", 4, [a, b], 4, np.s_[2, 1]),
            draw.masked("no alignment", "last-blank-masked", 3, [a, b], 4, np.s_[-1, -1, 0]),
            draw.masked("no alignment", "label-masked", 4, [a, b], 4, np.s_[:, 1, b]),
            draw.masked("no alignment", "only-node-masked", 1, [], 4, np.s_[0, 0]),
        ]
    sizes = [(5, [a, b]), (3, []), (4, [c, c]), (2, [b])]
    found.append(draw.batch("finite-padding", 7.0, 0, sizes, 4))
    found.append(draw.batch("nan-padding", np.nan, -1, sizes[::-1], 4))
    found.append(draw.batch("blank-last", 7.0, 0, [(2, [2, 0]), (4, [1, 2])], 4, blank=3))
    if long:
        found.append(draw.one("numerics", "long", 40 if loss == "ctc" else 12, rng.integers(1, 4, 8), 4))
        found.append(draw.batch("one-without-alignment", 7.0, 0, [(3, [c]), (2, [b, b]), (4, [a, c])], 4))
    if long and loss == "rnnt":
        found[-1].logits[1, 1, 2, 0] = -np.inf
        found += [draw.one("fastemit", "small", 4, [a, b], 4, fastemit_lambda=1 / 64),
                  draw.one("fastemit", "large", 4, [b, b, a], 4, fastemit_lambda=0.5),
                  draw.one("fastemit", "empty-target", 3, [], 4, fastemit_lambda=0.5)]
    return found

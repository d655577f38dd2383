"""The smallest input on which something fails: fewer frames, labels and symbols, plainer numbers. It judges nothing."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from .problem import Problem

__all__ = ["small", "smallest"]

#: The largest sizes of the utterances that are all tried before the failing one itself is cut down.
_T, _U, _V = 4, 3, 4


def smallest(fails: Callable[[Problem], bool], start: Problem, *, tries=600,
             seconds=math.inf) -> Problem:
    """The smallest problem that still fails.

    All utterances of up to four frames, three labels and four symbols are tried in the order of their size, each with
    equal scores and with two sets of plain numbers. If none fails, the failing one itself loses frames, labels, symbols
    and utterances, and its numbers become plainer, as long as it fails.

    Parameters
    ----------
    fails : callable
        Whether a problem fails; one that cannot be asked does not.
    start : Problem
        A problem that fails.
    tries : int
        At most so many are tried.
    seconds : float
        On the clock, after which no other is tried; what is then found depends on the machine.

    Examples
    --------
    >>> start = Problem("", "", np.random.default_rng(0).normal(size=(9, 5)), np.array([1, 4, 4, 2]))
    >>> found = smallest(lambda problem: len(problem.targets) > 1 and problem.targets[0] == problem.targets[1], start)
    >>> found.logits.tolist(), found.targets.tolist()
    ([[0.0, 0.0]], [1, 1])
    """
    left, end = [tries], time.monotonic() + seconds

    def still(problem):
        left[0] -= 1
        return left[0] >= 0 and time.monotonic() < end and bool(fails(problem))

    for problem in small(start):
        if left[0] < tries // 3 or time.monotonic() > end:
            break
        if still(problem):
            return problem
    return _cut(still, start)


def small(start) -> Iterator[Problem]:
    """Utterances no larger than a problem in any size, smallest first, each with equal scores and two sets of others.

    Examples
    --------
    >>> found = list(small(Problem("", "", np.zeros((2, 2)), np.array([1]))))
    >>> [(each.logits.shape, each.targets.tolist()) for each in found[::3]]
    [((1, 2), []), ((1, 2), [1]), ((2, 2), []), ((2, 2), [1])]
    """
    T, U, V = start.frames, start.targets.shape[-1], start.logits.shape[-1]
    last = start.blank != 0
    sizes = itertools.product(range(1, min(T, _T) + 1), range(min(U, _U) + 1), range(2, min(V, _V) + 1))
    for T, U, V in sorted(sizes, key=lambda size: (size[0] * (size[1] + 1) * size[2], size)):
        for labels in _patterns(U, V - 1):
            targets = np.array(labels, dtype=np.int64) - last
            shape = (T, V) if start.loss == "ctc" else (T, U + 1, V)
            for scores in _plain(shape):
                yield Problem(start.group, "smallest", scores, targets, V - 1 if last else 0,
                              fastemit_lambda=start.fastemit_lambda)


def _patterns(U, most):
    """Targets of U labels, but for the names of the labels: 1 1, 1 2; 1 1 1, 1 1 2, 1 2 1, ..."""
    def grown(pattern):
        if len(pattern) == U:
            yield pattern
        else:
            for label in range(1, min(max(pattern, default=0) + 1, most) + 1):
                yield from grown((*pattern, label))
    return list(grown(()))


def _plain(shape):
    yield np.zeros(shape)
    for seed in range(2):
        yield np.random.default_rng(seed).integers(-2, 3, shape).astype(float)


def _cut(still, problem):
    """Take away whatever can go, again and again."""
    while True:
        smaller = next((each for each in _simpler(problem) if still(each)), None)
        if smaller is None:
            return replace(problem, name=f"{problem.name}, cut down")
        problem = smaller


def _simpler(problem):
    if problem.is_batch:
        yield from (one for _, one in problem.utterances())
        for b in range(len(problem.logits)):
            if len(problem.logits) > 1:
                yield _take(problem, b)
        yield from _trimmed(problem)
    else:
        yield from _without_frames(problem)
        yield from _without_labels(problem)
    yield from _without_symbols(problem)
    yield from _plainer(problem)


def _take(problem, b):
    """A batch without one utterance."""
    def rest(array):
        return None if array is None else np.delete(array, b, axis=0)
    return replace(problem, **{name: rest(getattr(problem, name)) for name in
                               ("logits", "targets", "logit_lengths", "target_lengths", "upstream")})


def _trimmed(problem):
    """A batch with a frame or a label less: the last of its axis, or the last of an utterance, which leaves padding."""
    T, U, rnnt = problem.logits.shape[1], problem.targets.shape[1], problem.loss == "rnnt"
    if T > 1:
        yield replace(problem, logits=problem.logits[:, :-1], logit_lengths=np.minimum(problem.logit_lengths, T - 1))
    if U > 0:
        yield replace(problem, logits=problem.logits[:, :, :-1] if rnnt else problem.logits,
                      targets=problem.targets[:, :-1], target_lengths=np.minimum(problem.target_lengths, U - 1))
    for name, least in (("logit_lengths", 1), ("target_lengths", 0)):
        lengths = getattr(problem, name)
        for b in np.flatnonzero(lengths > least):
            yield replace(problem, **{name: lengths - (np.arange(len(lengths)) == b)})


def _without_frames(problem):
    T = len(problem.logits)
    for count in (T // 2, 1):
        if 0 < count < T:
            for start in range(0, T - count + 1, count):
                yield replace(problem, logits=np.delete(problem.logits, slice(start, start + count), axis=0))


def _without_labels(problem):
    for u in range(len(problem.targets)):
        logits = problem.logits if problem.loss == "ctc" else np.delete(problem.logits, u, axis=1)
        yield replace(problem, logits=logits, targets=np.delete(problem.targets, u))


def _without_symbols(problem):
    for k in range(problem.logits.shape[-1]):
        if k != problem.blank and k not in problem.targets and problem.logits.shape[-1] > 2:
            yield replace(problem, logits=np.delete(problem.logits, k, axis=-1),
                          targets=problem.targets - (problem.targets > k), blank=problem.blank - (problem.blank > k))


def _plainer(problem):
    """Whole numbers, then zeros, everywhere and frame by frame; what is infinite or NaN stays."""
    finite = np.isfinite(problem.logits)
    for plain in (np.zeros_like(problem.logits), np.round(problem.logits)):
        changed = np.where(finite, plain, problem.logits)
        if not np.array_equal(changed, problem.logits, equal_nan=True):
            yield replace(problem, logits=changed)
    axis = 1 if problem.is_batch else 0
    for t in range(problem.frames):
        place = (slice(None),) * axis + (t,)
        changed = problem.logits.copy()
        changed[place] = np.where(finite[place], 0.0, changed[place])
        if not np.array_equal(changed, problem.logits, equal_nan=True):
            yield replace(problem, logits=changed)

"""Small cases for everybody, smallest first: the rungs on which a wrong answer is shown. They earn no points.

A submission answers only what it is asked, so it is asked these besides its hidden cases. They are the small utterances
of the conformance kit's shrinker, with probabilities that a hand can add up, and edges. Nothing in them is secret.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from reference_impl import log_softmax
from reference_impl.conformance.problem import LOSSES, Problem
from reference_impl.conformance.shrinking import small

from .question import Case, Ladder

__all__ = ["GRADIENT", "LOSS", "LOG_ALPHA", "LOG_BETA", "Ladder", "ctc", "of_another_loss", "of_log_probs", "of_logits",
           "rnnt"]

#: What an answer is to a problem of the conformance kit.
LOG_ALPHA, LOG_BETA, LOSS, GRADIENT = "log_alpha", "log_beta", "loss", "gradient"
#: The largest sizes.
_T, _U, _V = 3, 2, 3


def of_log_probs(field, problems, sign=1.0, **more) -> Ladder:
    """A question about log-probs, targets and blank, and ``more`` arguments that are the same in all small cases."""
    return Ladder(problems, lambda problem: Case("", {**_arguments(problem, "log_probs"), **more}),
                  lambda case: _problem(case, "log_probs"), field, "log_probs", sign)


def of_logits(field, problems, sign=1.0, **more) -> Ladder:
    """The same about logits."""
    return Ladder(problems, lambda problem: Case("", {**_arguments(problem, "logits"), **more}),
                  lambda case: _problem(case, "logits"), field, "logits", sign)


def of_another_loss(problems, scores="log_probs", paths=None, mass="probability") -> Ladder:
    """A question about a loss that the kit does not have, of log-probs or logits, targets and blank.

    ``paths`` of log-probs, targets, blank and rule are its paths, as text, with the ``mass`` of each.
    """
    def paths_of(case):
        given = case.arguments
        return paths(log_softmax(given[scores]) if scores == "logits" else given[scores], given["targets"],
                     given["blank"], case.facts["rule"])

    return Ladder(problems, lambda problem: Case("", _arguments(problem, scores)), paths_of=paths and paths_of,
                  mass=mass)


def _arguments(problem, scores):
    given = log_softmax(problem.logits) if scores == "log_probs" else problem.logits
    return {scores: given, "targets": problem.targets, "blank": problem.blank}


def _problem(case, scores):
    """FastEmit's fields are gradients where lambda is 0, and what they are elsewhere the kit can't tell.

    Nor can it of log-probs that were masked, and do not add up to 1: it normalises what it is given.
    """
    given = case.arguments[scores]
    if case.arguments.get("lam") or scores == "log_probs" and not np.allclose(np.logaddexp.reduce(given, axis=-1), 0):
        return None
    return Problem("", "", case.arguments[scores], case.arguments["targets"], case.arguments["blank"])


@cache
def ctc(*, impossible=False, logits=False) -> tuple[Problem, ...]:
    """Utterances for CTC; some without an alignment if ``impossible``."""
    return _sorted([each for each in _utterances("ctc", logits) if impossible or _possible(each)])


@cache
def rnnt(*, impossible=False, logits=False, most=None) -> tuple[Problem, ...]:
    """Utterances for RNN-T; some without an alignment if ``impossible``, and no more than ``most``."""
    found = [each for each in _utterances("rnnt", logits) if impossible or _possible(each)]
    return _sorted(found if most is None else [each for each in found if each.logits.size <= most])


def _utterances(kind, logits):
    """Plain numbers: whole ones for logits, and for log-probs the logs of whole ones, whose probabilities are plain."""
    plain = (lambda scores: scores) if logits else (lambda scores: np.log(scores + 3))
    for blank in (0, 1):
        shape = (_T, _V) if kind == "ctc" else (_T, _U + 1, _V)
        start = Problem("", "", np.zeros(shape), np.zeros(_U, dtype=np.int64), blank)
        each = 0
        for problem in small(start):  # in threes: equal scores, and two sets of others, of which one is taken
            if each % 3 < 2:
                yield replace(problem, logits=plain(problem.logits))
            each += 1
    rng = np.random.default_rng(3)

    def problem(T, targets, V, blank=0):
        shape = (T, V) if kind == "ctc" else (T, len(targets) + 1, V)
        scores = rng.integers(-2, 3, shape).astype(float)
        return Problem("", "", plain(scores), np.array(targets, dtype=np.int64), blank)

    for T in (1, 2, 3):
        for blank in (0, 2):
            yield problem(T, [], 3, blank)
    row = () if kind == "ctc" else (0,)
    for T, targets, t, symbol in ((2, [1], 0, 1), (2, [1], 1, 1), (2, [1], 0, 0), (2, [1], 1, 2), (3, [1, 2], 1, 0),
                                  (3, [1, 2], 1, 2)):
        masked = problem(T, targets, 3)
        masked.logits[(t, *row, symbol)] = -np.inf
        yield masked
    yield problem(2, [1], 4, 3)
    yield problem(3, [2, 1], 4, 3)
    yield problem(2, [1, 2, 1], 3)
    yield problem(4, [1, 2, 3], 4)
    yield problem(4, [1, 2, 1], 3)
    yield problem(5, [2, 1, 1], 3)
    gone = problem(2, [1], 3)
    gone.logits[(slice(None), *row, 1)] = -np.inf
    yield gone


def _possible(problem):
    module = LOSSES[problem.loss]
    return module.loss(log_softmax(problem.logits), problem.targets, blank=problem.blank) < np.inf


def _sorted(problems):
    """By size. What has one path only, with one frame or an empty target, comes last: nothing is summed there."""
    def size(problem):
        T, U, V = len(problem.logits), len(problem.targets), problem.logits.shape[-1]
        return (T == 1 or U == 0, T * (U + 1) * V, not np.isfinite(problem.logits).all(), problem.blank != 0,
                bool(np.ptp(problem.logits)))

    for problem in problems:
        for array in (problem.logits, problem.targets):
            array.setflags(write=False)
    return tuple(sorted(problems, key=size))

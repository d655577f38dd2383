"""Assignment 2: the backward recursion, and the same Z at every frame."""

from __future__ import annotations

import numpy as np

from reference_impl import ctc, log_softmax
from reference_impl.conformance import ctc_mistakes

from . import ladders
from .ctc_inputs import utterances
from .question import Case, Question

__all__ = ["QUESTIONS"]


# --- suffixes, counted by hand ---


def _counted(targets, frames_left, state, **options):
    """Ways to spend the frames that are left, from a state that has just been emitted.

    One frame more is as good as a blank that may be skipped, where there is one pair of equal labels ahead.
    """
    return round(np.exp(ctc_mistakes.beta(np.zeros((frames_left + 1, 3)), targets, 0, **options)[0, state]))


COUNT_MISTAKES = {
    "As if the blank between two equal labels could be skipped, or as if a frame more were left.":
        lambda targets, frames_left, state: _counted(targets, frames_left + 1, state),
    "The ways that end in the last label are missing, or one frame of those that are left.":
        lambda targets, frames_left, state: _counted(targets, frames_left - 1, state),
    "It is the number of strings of symbols.": lambda targets, frames_left, state: 3**frames_left,
}


def suffix_cases(rng):
    """One pair of equal labels ahead, 5 to 40 ways, and every mistake gives another number."""
    while True:
        U, frames_left = int(rng.integers(3, 5)), int(rng.integers(4, 7))
        targets, state = [int(k) for k in rng.integers(1, 3, U)], int(rng.integers(2 * U - 1))
        facts = {"targets": targets, "frames_left": frames_left, "state": state}
        ahead = targets[state // 2:]
        pairs = sum(a == b for a, b in zip(ahead, ahead[1:], strict=False))
        right = _counted(**facts)
        numbers = {right, *(mistake(**facts) for mistake in COUNT_MISTAKES.values())}
        if pairs == 1 and 5 <= right <= 40 and len(numbers) == 1 + len(COUNT_MISTAKES):
            return [Case("number", facts=facts)]


# --- from alpha and beta to Z ---


def table_cases(rng):
    return [_tables("frames", *case.arguments.values()) for case in utterances(rng)[:4]]


def _tables(group, log_probs, targets, blank):
    return Case(group, {name: f(log_probs, targets, blank=blank) for name, f in (
        ("log_alpha", ctc.log_alpha), ("log_beta", _log_beta))})


def _log_beta(log_probs, targets, blank):
    return ctc.log_beta(log_probs, targets, blank=blank)


def log_z_of_frames(log_alpha, log_beta):
    return np.logaddexp.reduce(log_alpha + log_beta, axis=1)


def _blank_at_start(log_probs, targets, blank):
    return -np.logaddexp.reduce(_log_beta(log_probs, targets, blank)[0, :2] + log_probs[0, blank])


QUESTIONS = [
    Question("number_of_suffixes", {"number": 0.5}, suffix_cases, _counted, COUNT_MISTAKES),
    Question("log_beta", {"different labels": 1.0, "equal labels": 0.5, "edges": 0.5}, utterances,
             _log_beta, ctc_mistakes.LOG_BETA, ladder=ladders.of_log_probs(ladders.LOG_BETA, ladders.ctc)),
    Question("log_z_of_frames", {"frames": 0.5}, table_cases, log_z_of_frames, {
        "It adds logarithms over the states, where it should add probabilities.":
            lambda log_alpha, log_beta: np.where(np.isfinite(log_alpha + log_beta), log_alpha + log_beta, 0).sum(1),
        "It adds over the frames; add over the states of each frame.":
            lambda log_alpha, log_beta: np.logaddexp.reduce(log_alpha + log_beta, axis=0),
        "It takes the best state of each frame, not the sum.":
            lambda log_alpha, log_beta: (log_alpha + log_beta).max(axis=1),
        "It adds up alpha over the states, and beta, and multiplies the sums; it is the products that are added up.":
            lambda log_alpha, log_beta: np.logaddexp.reduce(log_alpha, axis=1) + np.logaddexp.reduce(log_beta, axis=1),
        "It is Z, not log Z.": lambda log_alpha, log_beta: np.exp(log_z_of_frames(log_alpha, log_beta)),
        "It is minus log Z.": lambda log_alpha, log_beta: -log_z_of_frames(log_alpha, log_beta),
        "It is log Z once; every frame has one.": lambda log_alpha, log_beta: log_z_of_frames(log_alpha, log_beta)[0],
        "It adds the last two states only; any state may be on a path.":
            lambda log_alpha, log_beta: np.logaddexp.reduce((log_alpha + log_beta)[:, -2:], axis=1),
        "It adds the first two states only; any state may be on a path.":
            lambda log_alpha, log_beta: np.logaddexp.reduce((log_alpha + log_beta)[:, :2], axis=1),
    }, ladder=ladders.Ladder(ladders.ctc, lambda problem: _tables(
        "", log_softmax(problem.logits), problem.targets, problem.blank))),
    Question("loss_from_beta", {"different labels": 0.5, "equal labels": 0.25, "edges": 0.25}, utterances,
             lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank),
             {**ctc_mistakes.LOSS_FROM_BETA,
              "At frame 0 it weighs the label by the blank's log-prob.": _blank_at_start,
              "It divides by the number of frames.":
                  lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank) / len(log_probs)},
             ladder=ladders.of_log_probs(ladders.LOSS, ladders.ctc), helpers={"log_beta": _log_beta}),
]

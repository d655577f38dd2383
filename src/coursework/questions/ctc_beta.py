"""Assignment 2: the backward recursion, and the same Z at every frame."""

from __future__ import annotations

import numpy as np

from reference_impl import ctc
from reference_impl.conformance import ctc_mistakes

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
    cases = []
    for case in utterances(rng)[:4]:
        arguments = case.arguments["log_probs"], case.arguments["targets"]
        both = (f(*arguments, blank=case.arguments["blank"]) for f in (ctc.log_alpha, ctc.log_beta))
        cases.append(Case("frames", dict(zip(("log_alpha", "log_beta"), both, strict=True))))
    return cases


def log_z_of_frames(log_alpha, log_beta):
    return np.logaddexp.reduce(log_alpha + log_beta, axis=1)


QUESTIONS = [
    Question("number_of_suffixes", {"number": 0.5}, suffix_cases, _counted, COUNT_MISTAKES),
    Question("log_beta", {"different labels": 1.0, "equal labels": 0.5, "edges": 0.5}, utterances,
             lambda log_probs, targets, blank: ctc.log_beta(log_probs, targets, blank=blank), ctc_mistakes.LOG_BETA),
    Question("log_z_of_frames", {"frames": 0.5}, table_cases, log_z_of_frames, {
        "It adds logarithms over the states, where it should add probabilities.":
            lambda log_alpha, log_beta: np.where(np.isfinite(log_alpha + log_beta), log_alpha + log_beta, 0).sum(1),
        "It adds over the frames; add over the states of each frame.":
            lambda log_alpha, log_beta: np.logaddexp.reduce(log_alpha + log_beta, axis=0),
        "It takes the best state of each frame, not the sum.":
            lambda log_alpha, log_beta: (log_alpha + log_beta).max(axis=1),
        "It is Z, not log Z.": lambda log_alpha, log_beta: np.exp(log_z_of_frames(log_alpha, log_beta)),
        "It is minus log Z.": lambda log_alpha, log_beta: -log_z_of_frames(log_alpha, log_beta),
    }),
    Question("loss_from_beta", {"different labels": 0.5, "equal labels": 0.25, "edges": 0.25}, utterances,
             lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank),
             ctc_mistakes.LOSS_FROM_BETA),
]

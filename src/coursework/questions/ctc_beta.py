"""Assignment 2: the backward recursion, and the same Z at every frame."""

from __future__ import annotations

from functools import partial

import numpy as np

from reference_impl import ctc

from .ctc_alpha import extended, wrong_steps
from .ctc_inputs import utterances
from .question import Case, Question

__all__ = ["QUESTIONS"]


def beta(log_probs, targets, blank, *, skip=None, ends=(1, 2), moves=(0, 1, 2), frame=1, add=np.logaddexp,
         leaves=False):
    """The recursion, with a place for each thing that can go wrong in it."""
    z = extended(targets, blank)
    S, T = len(z), len(log_probs)
    skip = skip or (lambda s: z[s] != blank and z[s] != z[s - 2])
    found = np.full((T, S), -np.inf)
    found[-1, [S - back for back in ends or range(1, S + 1) if back <= S]] = 0.0
    for t in reversed(range(T - 1)):
        for s in range(S):
            for up in moves:
                if s + up >= S or up == 2 and not skip(s + up):
                    continue
                step = log_probs[t + frame, z[s if leaves else s + up]]
                found[t, s] = add(found[t, s], found[t + 1, s + up] + step)
    return found


def _emissions(log_probs, targets, blank):
    return np.asarray(log_probs)[:, extended(targets, blank)]


# --- endings, counted by hand ---


def ending_cases(rng):
    first, second = (int(k) for k in rng.permutation([1, 2]))
    targets, state = [([first, first, second], 1), ([first, second, second], 1), ([first, second, second], 2),
                      ([first, second, second], 3)][rng.integers(4)]
    return [Case("number", facts={"targets": targets, "frames_left": 4, "state": state})]


def _counted(targets, frames_left, state, **options):
    """Ways to spend the frames that are left, from a state that has just been emitted.

    One frame more is as good as a blank that may be skipped, where there is one pair of equal labels ahead.
    """
    return round(np.exp(beta(np.zeros((frames_left + 1, 3)), targets, 0, **options)[0, state]))


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


# --- the loss ---


def loss(log_probs, targets, blank, *, first=2, emits=True, add=np.logaddexp):
    start = ctc.log_beta(log_probs, targets, blank=blank)[0]
    if emits:
        start = start + _emissions(log_probs, targets, blank)[0]
    return -add.reduce(start[:first])


QUESTIONS = [
    Question("number_of_endings", {"number": 1.0}, ending_cases, _counted, {
        "As if the blank between two equal labels could be skipped, or as if a frame more were left.":
            lambda targets, frames_left, state: _counted(targets, frames_left + 1, state),
        "The ways that end in the last label are missing, or one frame of those that are left.":
            lambda targets, frames_left, state: _counted(targets, frames_left - 1, state),
        "It is the number of strings of symbols.": lambda targets, frames_left, state: 3**frames_left,
    }),
    Question("log_beta", {"different labels": 3.0, "equal labels": 2.0, "edges": 1.0}, utterances,
             lambda log_probs, targets, blank: ctc.log_beta(log_probs, targets, blank=blank), {
        "It has the emission of frame t in it, as in the paper of 2006; here beta begins after it.":
            lambda log_probs, targets, blank: beta(log_probs, targets, blank) + _emissions(log_probs, targets, blank),
        **wrong_steps(beta),
        "It takes the emission of frame t for that of frame t + 1.": partial(beta, frame=0),
        "It ends in the last blank only; a path may end in the last label, too.": partial(beta, ends=(1,)),
        "It ends in the last label only; a path may end in the blank behind it.": partial(beta, ends=(2,)),
        "It ends in every state; a path ends in one of the last two.": partial(beta, ends=()),
        "It takes the best ending where it should add all of them (a maximum for a sum).":
            partial(beta, add=np.maximum),
        "Its frames run backward: row 0 is the last frame.":
            lambda log_probs, targets, blank: beta(log_probs, targets, blank)[::-1],
        "It is alpha: the way from the beginning, not from the end.":
            lambda log_probs, targets, blank: ctc.log_alpha(log_probs, targets, blank=blank),
    }),
    Question("log_z_of_frames", {"frames": 1.0}, table_cases, log_z_of_frames, {
        "It adds logarithms over the states, where it should add probabilities.":
            lambda log_alpha, log_beta: np.where(np.isfinite(log_alpha + log_beta), log_alpha + log_beta, 0).sum(1),
        "It adds over the frames; add over the states of each frame.":
            lambda log_alpha, log_beta: np.logaddexp.reduce(log_alpha + log_beta, axis=0),
        "It takes the best state of each frame, not the sum.":
            lambda log_alpha, log_beta: (log_alpha + log_beta).max(axis=1),
        "It is Z, not log Z.": lambda log_alpha, log_beta: np.exp(log_z_of_frames(log_alpha, log_beta)),
        "It is minus log Z.": lambda log_alpha, log_beta: -log_z_of_frames(log_alpha, log_beta),
    }),
    Question("loss_from_beta", {"different labels": 1.0, "equal labels": 0.5, "edges": 0.5}, utterances,
             lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank), {
        "The emission of frame 0 is missing: beta begins after it.": partial(loss, emits=False),
        "It begins in the first blank only; a path may begin with the first label as well.": partial(loss, first=1),
        "It adds up all states of frame 0; a path begins in one of the first two.": partial(loss, first=None),
        "Its sign is wrong: the loss is minus log Z.": lambda *a, **k: -loss(*a, **k),
        "It takes the better of two beginnings, not their sum.": partial(loss, add=np.maximum),
    }),
]

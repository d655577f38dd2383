"""Assignment 1: which alignments CTC sums over, and the forward recursion."""

from __future__ import annotations

from functools import partial
from math import comb

import numpy as np

from reference_impl import ctc
from reference_impl.lattice import forward
from reference_impl.semiring import COUNT
from reference_impl.topology import ctc_lattice

from .ctc_inputs import scores, utterances
from .question import Case, Question

__all__ = ["QUESTIONS"]


# --- how many alignments, by hand ---


def path_cases(rng):
    """Two equal labels side by side, in one or two frames more than are needed."""
    first, second = rng.permutation([1, 2])
    targets = [int(k) for k in ([first, first, second], [first, second, second])[rng.integers(2)]]
    return [Case("number", facts={"targets": targets, "T": 5 + int(rng.integers(2))})]


def path_count(targets, T):
    lattice = ctc_lattice(targets, T, 3)
    return int(forward(lattice, lattice.arc_weights(np.zeros(lattice.shape), COUNT), COUNT)[-1])


# --- the extended target ---


def extended(targets, blank, *, first=True, last=True, between=True):
    states = []
    for u, label in enumerate(targets):
        states += ([blank] if (first if u == 0 else between) else []) + [int(label)]
    if last and len(targets) or not len(targets):
        states.append(blank)
    return np.array(states)


def extended_cases(rng):
    blank = int(rng.integers(1, 4))
    labels = [k for k in range(5) if k != blank]
    return [Case("labels", {"targets": rng.choice(labels, 3), "blank": blank}),
            Case("labels", {"targets": np.repeat(rng.choice(labels), 2), "blank": 4 if blank != 4 else 0}),
            Case("empty target", {"targets": np.array([], dtype=np.int64), "blank": blank})]


# --- the forward recursion ---


def alpha(log_probs, targets, blank, *, skip=None, begin=2, moves=(0, 1, 2), frame=0, add=np.logaddexp, leaves=False,
          later=True):
    """The recursion, with a place for each thing that can go wrong in it."""
    z = extended(targets, blank)
    S, T = len(z), len(log_probs)
    skip = skip or (lambda s: z[s] != blank and z[s] != z[s - 2])
    found = np.full((T, S), -np.inf)
    for s in range(min(begin, S)):
        found[0, s] = log_probs[0, z[s]]
    for t in range(1, T):
        for s in range(S):
            for back in moves:
                if back > s or back == 2 and not skip(s):
                    continue
                step = log_probs[t - frame, z[s - back if leaves else s]] if later else 0.0
                found[t, s] = add(found[t, s], found[t - 1, s - back] + step)
    return found


def _no_first_emission(log_probs, targets, blank):
    z = extended(targets, blank)
    without = np.array(log_probs, dtype=float)
    without[0, list(z[:2])] = 0.0
    return alpha(without, targets, blank)


def wrong_steps(recursion):
    """The mistakes about steps, which either recursion can make."""
    def between_equal_labels(log_probs, targets, blank):
        return recursion(log_probs, targets, blank, skip=lambda s: extended(targets, blank)[s] != blank)

    return {
        "It skips the blank between two equal labels; there a blank has to be passed.": between_equal_labels,
        "It never skips a blank; from a label the next one may follow at once, if it is another.":
            partial(recursion, skip=lambda s: False),
        "It skips labels, too: from a blank to the next blank. Only a blank may be skipped.":
            partial(recursion, skip=lambda s: True),
        "It does not stay in a state; a label or a blank may last several frames.": partial(recursion, moves=(1, 2)),
        "It never moves on to the next state; a state may be left for the one behind it.":
            partial(recursion, moves=(0, 2)),
        "It multiplies by the emission of the state that is left, not of the one that is entered.":
            partial(recursion, leaves=True),
        "It returns probabilities, not their logarithms.":
            lambda *arguments, **named: np.exp(recursion(*arguments, **named)),
        "Frames and states are exchanged: the shape is (2U+1, T).":
            lambda *arguments, **named: recursion(*arguments, **named).T,
    }


ALPHA_MISTAKES = {
    **wrong_steps(alpha),
    "It begins in the first blank only; a path may begin with the first label as well.": partial(alpha, begin=1),
    "It begins in every state; a path begins in one of the first two.": partial(alpha, begin=10**6),
    "It takes the emission of the frame before.": partial(alpha, frame=1),
    "It leaves out the emission of frame 0.": _no_first_emission,
    "It has the emission of frame 0 only; every frame emits.": partial(alpha, later=False),
    "It takes the best beginning where it should add all of them (a maximum for a sum).":
        partial(alpha, add=np.maximum),
    "The last blank is missing: there are 2U states.":
        lambda log_probs, targets, blank: alpha(log_probs, targets, blank)[:, :-1],
    "The first blank is missing.":
        lambda log_probs, targets, blank: alpha(log_probs, targets, blank)[:, 1:],
    "It is beta: the way from the end, not from the beginning.":
        lambda log_probs, targets, blank: ctc.log_beta(log_probs, targets, blank=blank),
}


# --- the loss ---


def loss(log_probs, targets, blank, *, ends=2, add=np.logaddexp, **options):
    return -add.reduce(alpha(log_probs, targets, blank, add=add, **options)[-1, -ends:])


LOSS_MISTAKES = {
    "It ends in the last blank only; a path may end in the last label, too.": partial(loss, ends=1),
    "It ends in the last label only; a path may end in the blank behind it.":
        lambda log_probs, targets, blank: -ctc.log_alpha(log_probs, targets, blank=blank)[-1, -2],
    "It adds up all states of the last frame; only the last two are complete.": partial(loss, ends=0),
    "Its sign is wrong: the loss is minus log Z.": lambda *a, **k: -loss(*a, **k),
    "It divides by the number of labels.": lambda log_probs, targets, blank: (
        loss(log_probs, targets, blank) / max(len(targets), 1)),
    "It divides by the number of frames.": lambda log_probs, targets, blank: (
        loss(log_probs, targets, blank) / len(log_probs)),
    "It is the best path's score, not the sum over all paths.": partial(loss, add=np.maximum),
    "It skips the blank between two equal labels; there a blank has to be passed.":
        lambda log_probs, targets, blank: loss(log_probs, targets, blank,
                                               skip=lambda s: extended(targets, blank)[s] != blank),
    "It is the probability, not minus its logarithm.": lambda *a, **k: np.exp(-loss(*a, **k)),
}


def loss_cases(rng):
    cases = [Case({"different labels": "labels", "equal labels": "labels"}.get(case.group, "edges"), case.arguments)
             for case in utterances(rng)]
    a = int(rng.integers(1, 4))
    return [*cases, Case("no alignment", {"log_probs": scores(rng, 2), "targets": np.array([a, a]), "blank": 0})]


QUESTIONS = [
    Question("number_of_alignments", {"number": 1.0}, path_cases, path_count, {
        "As many as if no two labels were equal; the blank between equal labels costs a frame.":
            lambda targets, T: comb(T + len(targets), 2 * len(targets)),
        "As many as there are ways to choose a frame for each label; a label may last several frames.":
            lambda targets, T: comb(T, len(targets)),
        "As many as an RNN-T has.": lambda targets, T: comb(T + len(targets) - 1, len(targets)),
        "As many as there are strings of symbols.": lambda targets, T: 3**T,
    }),
    Question("extended_target", {"labels": 0.5, "empty target": 0.5}, extended_cases, extended, {
        "The last blank is missing.": partial(extended, last=False),
        "The first blank is missing.": partial(extended, first=False),
        "There are no blanks between the labels.": partial(extended, between=False),
        "There are no blanks.": partial(extended, first=False, last=False, between=False),
    }),
    Question("log_alpha", {"different labels": 3.0, "equal labels": 2.0, "edges": 1.0}, utterances,
             lambda log_probs, targets, blank: ctc.log_alpha(log_probs, targets, blank=blank), ALPHA_MISTAKES),
    Question("loss", {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}, loss_cases,
             lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank), LOSS_MISTAKES),
]

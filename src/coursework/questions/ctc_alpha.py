"""Assignment 1: which alignments CTC sums over, and the forward recursion."""

from __future__ import annotations

from functools import partial
from math import comb

import numpy as np

from reference_impl import ctc
from reference_impl.conformance import ctc_mistakes
from reference_impl.conformance.ctc_mistakes import extended
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


def extended_cases(rng):
    blank = int(rng.integers(1, 4))
    labels = [k for k in range(5) if k != blank]
    return [Case("labels", {"targets": rng.choice(labels, 3), "blank": blank}),
            Case("labels", {"targets": np.repeat(rng.choice(labels), 2), "blank": 4 if blank != 4 else 0}),
            Case("empty target", {"targets": np.array([], dtype=np.int64), "blank": blank})]


# --- the loss ---


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
             lambda log_probs, targets, blank: ctc.log_alpha(log_probs, targets, blank=blank), ctc_mistakes.LOG_ALPHA),
    Question("loss", {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}, loss_cases,
             lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank), ctc_mistakes.LOSS),
]

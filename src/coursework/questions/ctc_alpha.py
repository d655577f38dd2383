"""Assignment 1: which alignments CTC sums over, and the forward recursion."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from math import comb

import numpy as np

from reference_impl import ctc
from reference_impl.conformance import ctc_mistakes
from reference_impl.conformance.ctc_mistakes import extended
from reference_impl.lattice import forward
from reference_impl.semiring import COUNT
from reference_impl.topology import ctc_lattice

from . import ladders
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


def _labels_first(targets, blank):
    states = np.full(2 * len(targets) + 1, blank)
    states[:-1:2] = targets
    return states


def extended_cases(rng):
    blank = int(rng.integers(1, 4))
    labels = [k for k in range(5) if k != blank]
    return [Case("labels", {"targets": rng.permutation(labels)[:3], "blank": blank}),
            Case("labels", {"targets": np.repeat(rng.choice(labels), 2), "blank": 4 if blank != 4 else 0}),
            Case("empty target", {"targets": np.array([], dtype=np.int64), "blank": blank})]


def _target_of(problem):
    return Case("", {"targets": problem.targets, "blank": problem.blank})


def _targets():
    """One problem for each target and blank."""
    return tuple({(tuple(each.targets.tolist()), each.blank): each for each in reversed(ladders.ctc())}.values())[::-1]


# --- the loss ---


def _log_alpha(log_probs, targets, blank):
    return ctc.log_alpha(log_probs, targets, blank=blank)


def _zero_infinity(log_probs, targets, blank):
    loss = ctc.loss(log_probs, targets, blank=blank)
    return loss if loss < np.inf else 0.0


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
        "Blanks and labels are exchanged: the labels stand in the odd states, 1, 3 and so on.": _labels_first,
        "It takes symbol 0 for the blank, whatever `blank` is.": lambda targets, blank: extended(targets, 0),
        "The labels are in reverse order.": lambda targets, blank: extended(targets[::-1], blank),
        "A label that is equal to the one before it is left out; it stands twice.":
            lambda targets, blank: extended([k for k, _ in groupby(targets.tolist())], blank),
        "It is the target alone. There are no blanks.": lambda targets, blank: np.array(targets),
    }, ladder=ladders.Ladder(_targets, _target_of)),
    Question("log_alpha", {"different labels": 3.0, "equal labels": 2.0, "edges": 1.0}, utterances,
             _log_alpha, ctc_mistakes.LOG_ALPHA, ladder=ladders.of_log_probs(ladders.LOG_ALPHA, ladders.ctc),
             helpers={"extended_target": extended}),
    Question("loss", {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}, loss_cases,
             lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank),
             {**ctc_mistakes.LOSS,
              "It is 0 where no alignment exists (zero_infinity); there it is inf.": _zero_infinity},
             ladder=ladders.of_log_probs(ladders.LOSS, partial(ladders.ctc, impossible=True)),
             helpers={"extended_target": extended, "log_alpha": _log_alpha}),
]

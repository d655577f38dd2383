"""Assignment 1: which alignments CTC sums over, and the forward recursion."""

from __future__ import annotations

from functools import partial
from itertools import groupby, product
from math import comb

import numpy as np

from reference_impl import ctc, log_softmax
from reference_impl.conformance import ctc_mistakes
from reference_impl.conformance.ctc_mistakes import extended
from reference_impl.semiring import COUNT

from . import ladders
from .ctc_inputs import scores, utterances
from .question import Case, Question

__all__ = ["QUESTIONS"]


# --- how many alignments, by hand ---


def path_count(targets, T, frame, symbol):
    """Alignments that do not have the symbol in the frame."""
    log_probs = np.zeros((T, 3))
    log_probs[frame, symbol] = -np.inf
    return int(ctc.Z(log_probs, targets, semiring=COUNT))


def all_paths(targets, T, frame, symbol):
    """As if no symbol were ruled out."""
    return sum(path_count(targets, T, frame, k) for k in range(3)) // 2  # each is left out once of three times


COUNT_MISTAKES = {
    "The symbol is not ruled out; strings with it in that frame have the probability 0.": all_paths,
    "As many as have the symbol in the frame; those are the ones that do not count.":
        lambda **facts: all_paths(**facts) - path_count(**facts),
    "As many as if no two labels were equal; the blank between equal labels costs a frame.":
        lambda targets, T, frame, symbol: comb(T + len(targets), 2 * len(targets)),
    "As many as there are ways to choose a frame for each label; a label may last several frames.":
        lambda targets, T, frame, symbol: comb(T, len(targets)),
    "As many as an RNN-T has.": lambda targets, T, frame, symbol: comb(T + len(targets) - 1, len(targets)),
    "As many as there are strings of symbols.": lambda targets, T, frame, symbol: 3**T,
}


def path_cases(rng):
    """Two equal labels side by side, 5 to 24 strings, and every mistake gives another number."""
    while True:
        T, U = int(rng.integers(4, 8)), int(rng.integers(2, 5))
        facts = {"targets": [int(k) for k in rng.integers(1, 3, U)], "T": T, "frame": int(rng.integers(T)),
                 "symbol": int(rng.integers(3))}
        right = path_count(**facts)
        numbers = {right, *(mistake(**facts) for mistake in COUNT_MISTAKES.values())}
        pairs = zip(facts["targets"], facts["targets"][1:], strict=False)
        if any(a == b for a, b in pairs) and 5 <= right <= 24 and len(numbers) == 1 + len(COUNT_MISTAKES):
            return [Case("number", facts=facts)]


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


# --- the recursion, and the loss ---


def _improbable(rng):
    """Labels so improbable that the product of three is no float: its logarithm is near -1500."""
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    logits = 1.5 * rng.normal(size=(6, 4))
    logits[:, 1:] -= 500
    return Case("edges", {"log_probs": log_softmax(logits), "targets": np.array([a, b, c]), "blank": 0})


def alpha_cases(rng):
    return [*utterances(rng), _improbable(rng)]


def _in_probabilities(log_probs, targets, blank):
    """The recursion without logarithms, which are taken in the end."""
    z, y = extended(targets, blank), np.exp(log_probs)
    found = np.zeros((len(y), len(z)))
    found[0, :2] = y[0, z[:2]]
    for t, s in product(range(1, len(y)), range(len(z))):
        skips = s > 1 and z[s] != blank and z[s] != z[s - 2]
        found[t, s] = y[t, z[s]] * found[t - 1, max(s - 1 - skips, 0):s + 1].sum()
    with np.errstate(divide="ignore"):
        return np.log(found)


_UNDERFLOWS = "It adds up probabilities, which underflow to 0; add their logarithms (log-sum-exp)."


def _log_alpha(log_probs, targets, blank):
    return ctc.log_alpha(log_probs, targets, blank=blank)


def _zero_infinity(log_probs, targets, blank):
    loss = ctc.loss(log_probs, targets, blank=blank)
    return loss if loss < np.inf else 0.0


def loss_cases(rng):
    cases = [Case({"different labels": "labels", "equal labels": "labels"}.get(case.group, "edges"), case.arguments)
             for case in alpha_cases(rng)]
    a = int(rng.integers(1, 4))
    return [*cases, Case("no alignment", {"log_probs": scores(rng, 2), "targets": np.array([a, a]), "blank": 0})]


QUESTIONS = [
    Question("number_of_alignments", {"number": 1.0}, path_cases, path_count, COUNT_MISTAKES),
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
    Question("log_alpha", {"different labels": 3.0, "equal labels": 2.0, "edges": 1.0}, alpha_cases, _log_alpha,
             {**ctc_mistakes.LOG_ALPHA, _UNDERFLOWS: _in_probabilities},
             ladder=ladders.of_log_probs(ladders.LOG_ALPHA, ladders.ctc),
             helpers={"extended_target": extended}),
    Question("loss", {"labels": 1.0, "edges": 0.5, "no alignment": 0.5}, loss_cases,
             lambda log_probs, targets, blank: ctc.loss(log_probs, targets, blank=blank),
             {**ctc_mistakes.LOSS,
              "It is 0 where no alignment exists (zero_infinity); there it is inf.": _zero_infinity,
              _UNDERFLOWS: lambda log_probs, targets, blank: -np.logaddexp.reduce(
                  _in_probabilities(log_probs, targets, blank)[-1, -2:])},
             ladder=ladders.of_log_probs(ladders.LOSS, partial(ladders.ctc, impossible=True)),
             helpers={"extended_target": extended, "log_alpha": _log_alpha}),
]

"""Exam questions about CTC: alignments, Z, occupancies and gradients of a few frames. Keys by the book's package."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np

from reference_impl import ctc
from reference_impl.lattice import arc_posteriors
from reference_impl.semiring import COUNT, MAX, REAL
from reference_impl.topology import ctc_lattice

from .item import Item, Kind, table

__all__ = ["KINDS"]

_SYMBOLS = r"\varnothing", "a", "b"
_LETTERS = "∅ab"


def _word(targets):
    return "".join(_LETTERS[k] for k in targets)


def _count(targets, T):
    return int(ctc.Z(np.zeros((T, 3)), targets, semiring=COUNT))


def _repeats(targets):
    return sum(a == b for a, b in zip(targets, targets[1:], strict=False))


def _probabilities(rng, T):
    """Tenths, none of them 0, that add up to 1 in each frame."""
    rows = []
    for _ in range(T):
        cuts = sorted(int(c) for c in rng.choice(range(1, 10), 2, replace=False))
        rows.append([Fraction(part, 10) for part in (cuts[0], cuts[1] - cuts[0], 10 - cuts[1])])
    return np.array(rows, dtype=object)


def _occupancy(y, targets):
    lattice = ctc_lattice(targets, len(y), 3)
    weights = lattice.arc_weights(y, REAL)
    return lattice.occupancy(arc_posteriors(lattice, weights, REAL))


def _targets(rng, low, high):
    return [int(k) for k in rng.integers(1, 3, int(rng.integers(low, high + 1)))]


# --- the kinds ---


def alignments(rng):
    targets = _targets(rng, 2, 4)
    T = len(targets) + _repeats(targets) + int(rng.integers(1, 3))
    U = len(targets)
    return Item(
        f"How many strings of {T} symbols over $\\varnothing$, $a$, $b$ collapse to *{_word(targets)}* by CTC's rule?",
        _count(targets, T), {
            "As if no two labels were equal.": comb(T + U, 2 * U),
            "A frame for each label, and blanks elsewhere: a label may last several frames.": comb(T, U),
            "The number of paths of an RNN-T.": comb(T + U - 1, U),
            "A frame too few.": _count(targets, T - 1),
            "As if no blank could be skipped.": comb(T + 1, 2 * U),
        }, "By the forward recursion with all weights 1.", {"targets": targets, "T": T})


def shortest(rng):
    targets = _targets(rng, 3, 6)
    right = next(T for T in range(1, 20) if _count(targets, T))
    U = len(targets)
    return Item(
        f"How many frames does an utterance need at least, so that CTC's loss of the target "
        f"*{_word(targets)}* is finite?",
        right, {
            "The labels alone; equal neighbours need a blank between them.": U,
            "A blank between any two labels.": 2 * U - 1,
            "All states, one frame each.": 2 * U + 1,
            "A blank too many.": right + 1,
            "As many as there are different labels.": len(set(targets)),
        }, "A frame for each label, and one for each blank between equal neighbours.", {"targets": targets})


def total(rng):
    T, targets = ((2, [1]), (3, [1, 2]), (3, [2, 2]), (2, [2]), (3, [1]))[rng.integers(5)]
    y = _probabilities(rng, T)
    right, best = ctc.Z(y, targets, semiring=REAL), _best(y, targets)
    last = ctc.alpha(y, targets, semiring=REAL)[-1]
    return Item(
        f"A network says\n\n{table(y, _SYMBOLS, T)}\n\nWhat is $Z$, the probability of the target "
        f"*{_word(targets)}* by CTC?", right, {
            "The best path alone.": best,
            "The paths that end in the last blank alone.": last[-1],
            "The paths that end in the last label alone.": last[-2],
            "The sum of all states of the last frame.": last.sum(),
            "The best path is left out.": right - best,
        }, "All strings that collapse to the target, each with the product of its probabilities, added up.",
        {"y": y, "targets": targets})


def _best(y, targets):
    """The largest product: from logarithms, to the nearest fraction in tenths."""
    log_best = ctc.Z(np.log(y.astype(float)), targets, semiring=MAX)
    scale = 10 ** len(y)
    return Fraction(round(float(np.exp(log_best)) * scale), scale)


def posterior(rng):
    targets = ([1], [2], [1, 2])[rng.integers(3)]
    T = len(targets) + 1
    y = _probabilities(rng, T)
    used, t = _occupancy(y, targets), int(rng.integers(T))
    k = int(rng.choice([0, *targets]))
    z, right = ctc.Z(y, targets, semiring=REAL), used[t, k]
    return Item(
        f"A network says\n\n{table(y, _SYMBOLS, T)}\n\nand the target is *{_word(targets)}*. What is the occupancy "
        f"$E_{{{t}}}({_SYMBOLS[k]})$?", right, {
            "The mass of the paths, not divided by $Z$.": right * z,
            "What the network says.": y[t, k],
            "Divided by the probability of the symbol: minus the derivative with respect to that.": right / y[t, k],
            "What is missing to 1.": 1 - right,
            "Of another frame.": used[t - 1, k],
        }, "The mass of the paths that emit the symbol in the frame, divided by the mass of all.",
        {"y": y, "targets": targets, "t": t, "k": k})


def logit_gradient(rng):
    targets = ([1], [2], [2, 1])[rng.integers(3)]
    T = len(targets) + 1
    y = _probabilities(rng, T)
    used, t, k = _occupancy(y, targets), int(rng.integers(T)), int(rng.integers(3))
    right = y[t, k] - used[t, k]
    return Item(
        f"The softmax of the logits $u_t(k)$ is\n\n{table(y, _SYMBOLS, T)}\n\nand the target is "
        f"*{_word(targets)}*. What is $\\partial L / \\partial u_{{{t}}}({_SYMBOLS[k]})$ of CTC's loss $L = -\\log Z$?",
        right, {
            "The sign is reversed.": -right,
            "With respect to the log-prob: the softmax term is missing.": -used[t, k],
            "The occupancy is missing.": y[t, k],
            "With respect to the probability.": -used[t, k] / y[t, k],
            "The mass is not divided by $Z$.": y[t, k] - used[t, k] * ctc.Z(y, targets, semiring=REAL),
        }, "Belief minus occupancy.", {"y": y, "targets": targets, "t": t, "k": k})


KINDS = [
    Kind("alignments", "CTC", 3, 6, alignments),
    Kind("shortest", "CTC", 2, 2, shortest),
    Kind("total", "CTC", 4, 7, total),
    Kind("posterior", "CTC", 4, 8, posterior),
    Kind("logit_gradient", "CTC", 4, 8, logit_gradient),
]

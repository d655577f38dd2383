"""Checks of the equations of the chapter on handwritten digits. The left sides come from strings, not recursions."""

from fractions import Fraction
from functools import cache
from math import comb

import numpy as np
import pytest
from brute_force import ctc_alpha, ctc_occupancy, ctc_strings, ctc_z, probabilities, stands_in

from reference_impl.equations import check_equation

# no repeat, one repeat early, one late, two, one label, none
TARGETS = [[1, 2], [1, 1, 2], [2, 1, 1], [1, 1, 1], [1], []]
SHAPES = [(len(targets) + extra, targets) for targets in TARGETS for extra in (2, 3)]


@cache
def count_beginnings(T, targets):
    """Strings of t + 1 symbols that stand in state s: the brute-force alpha of weights 1."""
    return ctc_alpha(np.ones((T, 1 + max(targets, default=1)), dtype=int), targets)


@cache
def all_strings(T, targets):
    return ctc_strings(np.ones((T, 1 + max(targets, default=1))), targets)


def strings(T, targets):
    return all_strings(T, tuple(targets))


def repeats(labels):
    return sum(a == b for a, b in zip(labels, labels[1:], strict=False))


def begun(targets):
    """U_s and R_s: labels begun in state s, and repeats among them."""
    labels = [targets[:(s + 1) // 2] for s in range(2 * len(targets) + 1)]
    return [len(part) for part in labels], [repeats(part) for part in labels]


def to_come(targets):
    """U'_s and R'_s: labels at or after state s, and repeats among them."""
    labels = [targets[s // 2:] for s in range(2 * len(targets) + 1)]
    return [len(part) for part in labels], [repeats(part) for part in labels]


@pytest.mark.equation("eq-digits-beginnings")
def test_beginnings():
    """Number of beginnings in a state, by trying every string, against a binomial coefficient."""
    def rhs(targets, U, R, t, s):
        return comb(t + U[s] - R[s], s)

    def lhs(targets, U, R, t, s):
        return count_beginnings(5, tuple(targets))[t, s]

    cases = [(targets, *begun(targets), t, s)
             for targets in TARGETS for t in range(5) for s in range(2 * len(targets) + 1)]
    check_equation("eq-digits-beginnings", lhs, rhs, cases)


@pytest.mark.equation("eq-digits-flat-occupancy")
def test_flat_occupancy():
    """Share of the strings that are in a state at a frame, by trying every string, against three binomials."""
    def rhs(targets, U_, R_, later_U, later_R, T, U, R, t, s):
        return (comb(t + U_[s] - R_[s], s) * comb(T - 1 - t + later_U[s] - later_R[s], 2 * U - s)
                / Fraction(comb(T + U - R, 2 * U)))

    def lhs(targets, U_, R_, later_U, later_R, T, U, R, t, s):
        through = sum(stands_in(string, t, s, targets) for string in strings(T, targets))
        return Fraction(through, len(strings(T, targets)))

    cases = [(targets, *begun(targets), *to_come(targets), T, len(targets), repeats(targets), t, s)
             for T, targets in SHAPES[::2] for t in range(T) for s in range(2 * len(targets) + 1)]
    check_equation("eq-digits-flat-occupancy", lhs, rhs, cases)


@pytest.mark.equation("eq-digits-blank-frames")
def test_blank_frames():
    """Mean number of blanks in the strings that collapse to a target, by counting, against the closed form."""
    def rhs(targets, T, U, R):
        return (U + 1) * Fraction(T + U + 1 - R) / (2 * U + 1) - (U + 1 - R)

    def lhs(targets, T, U, R):
        return Fraction(sum(string.count(0) for string in strings(T, targets)), len(strings(T, targets)))

    cases = [(targets, T, len(targets), repeats(targets)) for T, targets in SHAPES]
    check_equation("eq-digits-blank-frames", lhs, rhs, cases)


class Dual:
    """value + slope * epsilon with epsilon^2 = 0: exact derivatives of rational functions."""

    def __init__(self, value, slope=0):
        self.value, self.slope = Fraction(value), Fraction(slope)

    def __mul__(self, other):
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)

    def __add__(self, other):
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    def __truediv__(self, other):
        return Dual(self.value / other.value, (self.slope * other.value - self.value * other.slope) / other.value**2)

    __rmul__, __radd__ = __mul__, __add__


def softmax_in_weight(exp_logits, h, k, j):
    """Probabilities as functions of W_kj: e^u_t(k) gets the factor e^(W h) = 1 + h epsilon, for W near its value."""
    y = np.empty(exp_logits.shape, dtype=object)
    for t, m in np.ndindex(y.shape):
        y[t, m] = Dual(exp_logits[t, m], exp_logits[t, m] * h[t, j] if m == k else 0)
    return y / y.sum(axis=1, keepdims=True)


@pytest.mark.equation("eq-digits-grad-weights")
def test_grad_weights():
    """Derivative of -log Z with respect to an output weight, by dual numbers, against the sum over frames."""
    def rhs(x, targets, y, E, h, k, j, T):
        return sum((y[t, k] - E[t, k]) * h[t, j] for t in range(0, T))

    def lhs(x, targets, y, E, h, k, j, T):
        z = ctc_z(softmax_in_weight(x, h, k, j), targets)
        return -z.slope / z.value

    cases = []
    for seed, (T, targets) in enumerate([(3, [1, 2]), (4, [1, 1]), (3, [2])]):
        x = probabilities(seed, (T, 3))
        y = x / x.sum(axis=1, keepdims=True)
        h = np.random.default_rng(seed).integers(-9, 10, size=(T, 2)).astype(object)
        cases += [(x, targets, y, ctc_occupancy(y, targets), h, k, j, T) for k in range(3) for j in range(2)]
    check_equation("eq-digits-grad-weights", lhs, rhs, cases)

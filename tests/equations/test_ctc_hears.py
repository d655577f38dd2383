"""Checks of the equations of the chapter in which CTC hears: one label in T frames, by its odds, e^zeta."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from brute_force import slope_at
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, zero_outside

NOTATION = Notation({r"e^{\zeta_{#t}}": "odds[#t]", "y_{#t}": "y[#t]"}, over={"s": "range(T)"})
QUANTITIES = Quantities(
    {"odds": "T", "y": "T"},
    {"T = 1": lambda T: T == 1, "T = 2": lambda T: T == 2, "t = 0": lambda t: t == 0,
     "t = T - 1": lambda t, T: t == T - 1, "t = s": lambda t, s: t == s, "t < s": lambda t, s: t < s,
     "t > s": lambda t, s: t > s, "all odds equal": lambda odds: len(set(odds.array)) == 1})


def path_sum(odds):
    """Z: the label in one of the frames, the blank in all others, for each of the frames."""
    y = [each / (1 + each) for each in odds]
    return sum(prod(y[s] if s == t else 1 - y[s] for s in range(len(y))) for t in range(len(y)))


@pytest.mark.equation("eq-hears-one-label", patterns={r"\frac{\partial L}{\partial \zeta_t}": "slope"})
def test_one_label():
    """The derivative of -log of the sum over the paths in the log-odds of a frame."""
    def rhs(slope, y, odds, t, T):
        return y[t] - odds[t] / sum(odds[s] for s in range(T))

    def cases():
        for odds in ([3], [2, 2], [Fraction(1, 2), 3], [5, 2, Fraction(1, 3)], [1, 7, 2, Fraction(4, 5)]):
            odds = np.array([Fraction(each) for each in odds], dtype=object)
            for t in range(len(odds)):
                slope = -odds[t] * slope_at(path_sum, odds, t) / path_sum(odds)
                yield slope, zero_outside(odds / (1 + odds)), zero_outside(odds, zero=5), t, len(odds)

    check_equation("eq-hears-one-label", first, rhs, cases())


@pytest.mark.equation("eq-hears-rivals", patterns={
    r"T^2\, \frac{\partial (E_t - y_t)}{\partial \zeta_s}": "scaled_slope"})
def test_rivals():
    """The derivative of evidence minus belief in the log-odds of any frame, where all beliefs are 1 / T."""
    def rhs(scaled_slope, t, s, T):
        return (t == s) - 1

    def cases():
        for T in (2, 3, 5):
            odds = np.full(T, Fraction(1, T - 1), dtype=object)
            for t, s in np.ndindex(T, T):
                def difference(odds, t=t):
                    return odds[t] / sum(odds) - odds[t] / (1 + odds[t])

                yield T**2 * odds[s] * slope_at(difference, odds, s), t, s, T

    check_equation("eq-hears-rivals", first, rhs, cases(), left_out={
        "T = 1": "a single frame has all the evidence, and its odds grow without bound"})

"""Checks of the equations of the chapter on how kernels fail: clamps, and two values of log Z that disagree."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import notation
import numpy as np
import pytest
import ranges
from brute_force import RNNT_INPUTS, rnnt_alpha, rnnt_beta_beyond, rnnt_occupancy, rnnt_z
from brute_force import RNNT_INPUTS_BY_SIZE as INPUTS
from tex_to_python import Notation

from reference_impl import log_softmax, rnnt
from reference_impl.as_published.mismatch import mismatch, mismatch_bound, sure_of_labels
from reference_impl.equations import Quantities, check_equation
from reference_impl.semiring import LOG32
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"\log \alpha(#t, #u)": "log_alpha[#t, #u]",
    r"\log \beta(#t, #u)": "log_beta[#t, #u]",
    r"\log Z": "log_z",
})
QUANTITIES = ranges.RNNT | Quantities(
    {"log_alpha": "T, U + 1", "log_beta": "T + 1, U + 1"},
    {"a node without paths": lambda gamma, log_alpha: (gamma == 0).any(),
     "0 < G < 1": lambda G, c: 0 < G < 1, "G > 1": lambda G, c: G > 1, "c = 0": lambda c: c == 0,
     "clipped from above": lambda entry, G, c: G * entry > c, "clipped from below": lambda entry, G, c: G * entry < -c,
     "not clipped": lambda entry, G, c: abs(G * entry) < c})


def clip(c, entry):
    return max(-c, min(c, entry))


@pytest.mark.equation("eq-kernels-clamp-scale", patterns={
    r"\operatorname{clip}_{#c}(#g)": "clip(#c, #g)", "g": "entry"})
def test_clamp_scale():
    """A clamped multiple of a number against the multiple of one clamped at another bound."""
    def lhs(entry, G, c):
        return clip(c, G * entry)

    def rhs(entry, G, c):
        return G * clip(c / G, entry)

    numbers = [Fraction(-9, 10), Fraction(-1, 30), Fraction(0), Fraction(1, 50), Fraction(2, 3)]
    check_equation("eq-kernels-clamp-scale", lhs, rhs, product(
        numbers, (Fraction(1, 8), Fraction(1), Fraction(3)), (Fraction(1, 5), Fraction(1, 50), Fraction(0))),
        algebraic={"no source": "two numbers, clamped at different bounds"})
    below_0 = Fraction(-1), Fraction(-3), Fraction(1, 5)
    assert lhs(*below_0) == Fraction(1, 5) == -rhs(*below_0)


@pytest.mark.equation("eq-kernels-magnitudes", over={
    "t,u": "for t, u in np.ndindex(gamma.shape) if gamma[t, u] > 0"})
def test_magnitudes():
    """Logarithms of enumerated prefixes and suffixes, weighted by the enumerated shares of paths, against Z and H;
    both sides are mutated. A mask keeps paths from a node."""
    def left(log_alpha, log_beta, gamma, log_z, T, U, H):
        return sum(gamma[t, u] * (abs(log_alpha[t, u]) + abs(log_beta[t, u]))
                   for t, u in np.ndindex(gamma.shape) if gamma[t, u] > 0)

    def right(log_alpha, log_beta, gamma, log_z, T, U, H):
        return (T + U) * abs(log_z) + H

    def logarithms(array):
        return np.array([[math.log(each) if each else -np.inf for each in row] for row in array])

    def cases():
        masked, targets = RNNT_INPUTS[0][0].copy(), RNNT_INPUTS[0][1]
        masked[0, 1, targets[1]] = Fraction(0)
        for x, labels in [*INPUTS, (masked, targets)]:
            y = softmax(x)
            gamma = rnnt_occupancy(y, labels).sum(axis=-1).astype(float)
            H = -sum(g * math.log(g) for g in gamma.flat if g > 0)
            yield (logarithms(rnnt_alpha(y, labels)), logarithms(rnnt_beta_beyond(y, labels)), gamma,
                   math.log(rnnt_z(y, labels)), len(y), len(labels), H)

    check_equation("eq-kernels-magnitudes", left, right, cases(), tolerance=1e-12)
    check_equation("eq-kernels-magnitudes", right, left, cases(), tolerance=1e-12)


def mismatch_and_bound(margin, semiring, seed):
    """|a - b| of a model that is sure of the labels, not of their frames, and |log Z| times the bound on rho."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(1, 5, size=6)
    log_probs = log_softmax(sure_of_labels(rng, labels, 24, 5, margin=margin, noise=1.0)).astype(semiring.dtype)
    a, b, _ = mismatch(log_probs, labels, semiring=semiring)
    return abs(float(a) - float(b)), mismatch_bound(log_probs, labels) * rnnt.loss(log_probs, labels)


@pytest.mark.parametrize("margin", [0, 7, 14, 21])
def test_mismatch_bound(margin):
    """The two values of log Z differ by no more than the bound says for float32; in float16 they do: it can fail."""
    half = replace(LOG32, name="log, float16", zero=np.float16(-np.inf), one=np.float16(0), dtype=np.float16,
                   read=np.float16)
    for seed in range(5):
        apart, bound = mismatch_and_bound(margin, LOG32, seed)
        assert apart <= bound
    assert any(np.greater(*mismatch_and_bound(margin, half, seed)) for seed in range(5))

"""Checks of the equations of the chapter on handwritten digits. The left sides come from strings, not recursions."""

from fractions import Fraction
from math import comb, prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import (
    Target,
    blank_of,
    ctc_alpha,
    ctc_occupancy_of_nodes,
    ctc_strings,
    ctc_through,
    ctc_z,
    each_entry,
    probabilities,
    slope_at,
)
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.CTC | Notation({
    "N_{#t}(#s)": "N[#t, #s]", r"\gamma_{#t}(#s)": "gamma[#t, #s]", "U_{#s}": "begun[#s]", "R_{#s}": "begun_again[#s]",
    "U'_{#s}": "later[#s]", "R'_{#s}": "later_again[#s]", r"\psi_{#t}(#j)": "h[#t, #j]"})
QUANTITIES = ranges.CTC | Quantities(
    {"N": "T, 2 U + 1", "gamma": "T, 2 U + 1", "begun": "2 U + 1", "begun_again": "2 U + 1", "later": "2 U + 1",
     "later_again": "2 U + 1", "h": "T, H"},
    {"R = 0": lambda R: R == 0, "R > 0": lambda R: R > 0, "T = U + R": lambda T, U, R: T == U + R,
     "h < 0": lambda h: (h.array < 0).any(), "h = 0": lambda h: (h.array == 0).any()})

# symbols and target: no repeat, one repeat early, one late, two, one label, none; another blank
TARGETS = [(3, [1, 2]), (3, [1, 1, 2]), (3, [2, 1, 1]), (2, [1, 1, 1]), (2, [1]), (2, []), (4, Target([0, 3], blank=2))]


def ones(T, V):
    """Weights of a flat softmax, times V: the mass of strings is their number."""
    return np.full((T, V), Fraction(1), dtype=object)


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
    """Number of prefixes in a state, by trying every string, against a binomial coefficient."""
    def lhs(N, begun, begun_again, t, s):
        return N[t, s]

    def rhs(N, begun, begun_again, t, s):
        return comb(t + begun[s] - begun_again[s], s)

    check_equation("eq-digits-beginnings", lhs, rhs, (
        (N, *begun(targets), t, s) for T in (1, 5) for V, targets in TARGETS
        for N in [ctc_alpha(ones(T, V), targets)] for t, s in np.ndindex(N.shape)))


def _flat():
    """With frames just enough, and two more: the share of the strings in each state; T, U, R, V, and the target."""
    for V, targets in TARGETS:
        U, R = len(targets), repeats(targets)
        for T in (max(U + R, 1), U + R + 2):
            yield ctc_through(ones(T, V), targets) / ctc_z(ones(T, V), targets), T, U, R, V, targets


@pytest.mark.equation("eq-digits-flat-occupancy")
def test_flat_occupancy():
    """Share of the strings that are in a state at a frame, by trying every string, against three binomials."""
    def lhs(gamma, begun, begun_again, later, later_again, T, U, R, t, s):
        return gamma[t, s]

    def rhs(gamma, begun, begun_again, later, later_again, T, U, R, t, s):
        return (comb(t + begun[s] - begun_again[s], s) * comb(T - 1 - t + later[s] - later_again[s], 2 * U - s)
                / Fraction(comb(T + U - R, 2 * U)))

    check_equation("eq-digits-flat-occupancy", lhs, rhs, (
        (gamma, *begun(targets), *to_come(targets), T, U, R, t, s)
        for gamma, T, U, R, _, targets in _flat() for t, s in np.ndindex(gamma.shape)))


@pytest.mark.equation("eq-digits-blank-frames", over={
    r"t,\; s \text{ even}": "for t in range(T) for s in range(0, 2 * U + 1, 2)"})
def test_blank_frames():
    """Shares of the strings that are in a blank state, by trying every string, against the closed form."""
    def lhs(gamma, T, U, R):
        return sum(gamma[t, s] for t in range(T) for s in range(0, 2 * U + 1, 2))

    def rhs(gamma, T, U, R):
        return (U + 1) * Fraction(T + U + 1 - R) / (2 * U + 1) - (U + 1 - R)

    check_equation("eq-digits-blank-frames", lhs, rhs, (flat[:4] for flat in _flat()))


def test_blanks_are_counted():
    """The sum over the blank states is the mean number of blanks in the strings that collapse to the target."""
    for gamma, T, _, _, V, targets in _flat():
        blanks = [string.count(blank_of(targets)) for string in ctc_strings(ones(T, V), targets)]
        assert gamma[:, ::2].sum() == Fraction(sum(blanks), len(blanks))


def test_flat_without_alignment():
    """With fewer than U + R frames there is no string, and the shares would be 0 / 0."""
    assert ctc_z(ones(2, 2), [1, 1]) == comb(2 + 2 - 1, 4) == 0 == ctc_through(ones(2, 2), [1, 1]).sum()


@pytest.mark.equation("eq-digits-grad-weights", patterns={r"\frac{\partial L}{\partial W_{kj}}": "slope"})
def test_grad_weights():
    """sympy: derivative of -log of the sum over strings with respect to an output weight W, which is in the logits of
    all frames, against the sum over frames; occupancies from alpha and beta."""
    def rhs(slope, y, occupancy, h, k, j, T):
        return sum((y[t, k] - occupancy[t, k]) * h[t, j] for t in range(0, T))

    def cases():
        for seed, (T, V, H, targets) in enumerate([(3, 3, 2, [1, 2]), (1, 3, 4, [2]), (5, 2, 1, [1, 1, 1]),
                                                   (3, 2, 3, []), (3, 4, 2, Target([3, 0], blank=2))]):
            h = np.random.default_rng(seed).integers(-2, 3, size=(T, H)).astype(object)
            exp_b, exp_W = [2, 3, 5, 7][:V], probabilities(seed, (V, H))
            y = y_of(exp_W, exp_b, h)
            arrays = zero_outside(y, zero=5), zero_outside(ctc_occupancy_of_nodes(y, targets)), zero_outside(h, zero=5)
            for k, j in np.ndindex(V, H):
                slope = slope_at(lambda exp_W, exp_b=exp_b, h=h, targets=targets: ctc_z(
                    y_of(exp_W, exp_b, h), targets), exp_W, k, j)
                yield -exp_W[k, j] / ctc_z(y, targets) * slope, *arrays, k, j, T

    check_equation("eq-digits-grad-weights", lambda slope, *_: slope, rhs, cases())


def y_of(exp_W, exp_b, h):
    """Softmax of the logits b_k + sum_j W_kj psi_t(j), whose exponentials are powers, as h is of whole numbers."""
    return softmax(each_entry((len(h), len(exp_b)), lambda t, k: exp_b[k] * prod(
        exp_W[k, j] ** each for j, each in enumerate(h[t]))))

"""Checks of the equations of the chapter on k2's kernel, on the grid with one more column, which holds the end."""

from fractions import Fraction
from itertools import cycle
from math import comb

import notation
import numpy as np
import pytest
import ranges
import sympy
from brute_force import RNNT_INPUTS_BY_SIZE as INPUTS
from brute_force import (
    RNNT_SHAPES,
    blank_of,
    rnnt_beta_beyond,
    rnnt_occupancy,
    rnnt_paths,
    rnnt_z,
    slopes_in_logs,
)
from exact_logarithms import Log, exp
from k2_grid import alpha_beyond, alpha_by_recursion, ones, shares, visits_beyond
from sides import first
from tex_to_python import Notation

from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside

NOTATION = notation.RNNT | Notation({
    r"\bar p(#t, #u)": "p_bar[#t, #u]",
    r"\bar p_G(#t, #u)": "p_bar[#t, #u]",
    r"r_y(#t, #u)": "by_label[#t, #u]",
    r"r_\varnothing(#t, #u)": "by_blank[#t, #u]",
})
# ``visits`` is gamma on the grid with one more column
QUANTITIES = ranges.RNNT | Quantities(
    {"k2_alpha": "T + 1, U + 1", "visits": "T + 1, U + 1", "p_bar": "T + 1, U + 1", "by_label": "T + 1, U + 1",
     "by_blank": "T + 1, U + 1"},
    {"t = T": (lambda t, T, k2_alpha: t == T, lambda t, T, visits: t == T, lambda t, T, U, p_bar: t == T),
     "n = 0": lambda n: n == 0, "n = T + U": lambda n, T, U: n == T + U,
     "G = 1": lambda G: G == 1, "G = 0": lambda G: G == 0, "G < 0": lambda G: G < 0})


@computed(kind="exact difference")
def adjoints(y, labels):
    """d log Z / d log alpha(t, u): Z of the recursion is affine in a factor on the node."""
    def z(factors):
        return alpha_by_recursion(y, labels, factors)[-1, -1]

    slopes = np.empty((y.shape[0] + 1, y.shape[1]), dtype=object)
    for node in np.ndindex(slopes.shape):
        slopes[node] = exact_difference(z, ones(y), node, h=5) / z(ones(y))
    return slopes


def k2_nodes(y):
    """The nodes of the grid with one more column."""
    return np.ndindex(y.shape[0] + 1, y.shape[1])


@pytest.mark.equation("eq-kernels-k2-forward", patterns={r"\alpha(#t, #u)": "k2_alpha[#t, #u]"})
def test_k2_forward():
    """Enumerated prefixes on the grid with one more column, against their last steps."""
    def lhs(k2_alpha, y, blank, labels, t, u):
        return k2_alpha[t, u]

    def rhs(k2_alpha, y, blank, labels, t, u):
        return k2_alpha[t, u - 1] * y[t, u - 1, labels[u - 1]] + k2_alpha[t - 1, u] * y[t - 1, u, blank]

    check_equation("eq-kernels-k2-forward", lhs, rhs, (
        (alpha, zero_outside(y), blank_of(labels), zero_outside(labels, zero=-1), t, u) for y, labels in INPUTS
        for alpha in [zero_outside(alpha_beyond(y, labels))] for t, u in k2_nodes(y) if t + u > 0))


@pytest.mark.equation("eq-kernels-k2-total", patterns={r"\alpha(#t, #u)": "k2_alpha[#t, #u]"})
def test_k2_total():
    """Z over all paths against the forward recursion, run up to the corner of the grid with one more column."""
    def rhs(z, k2_alpha, T, U):
        return k2_alpha[T, U]

    check_equation("eq-kernels-k2-total", first, rhs, (
        (rnnt_z(y, labels), zero_outside(alpha_by_recursion(y, labels, ones(y))), len(y), len(labels))
        for y, labels in INPUTS))


@computed(kind="sympy")
def slopes_of_logadd(A, B):
    """The derivatives of log(e^a + e^b) with respect to a and b, at e^a = A and e^b = B."""
    a, b = sympy.symbols("a b", real=True)
    at = {a: sympy.log(sympy.Rational(A)), b: sympy.log(sympy.Rational(B))}
    slopes = [sympy.Rational(sympy.diff(sympy.log(sympy.exp(a) + sympy.exp(b)), v).subs(at)) for v in (a, b)]
    return [Fraction(int(slope.p), int(slope.q)) for slope in slopes]


@pytest.mark.equation("eq-kernels-logadd", patterns={
    r"\frac{\partial p}{\partial p_y}": "by_a", r"\frac{\partial p}{\partial p_\varnothing}": "by_b", "p_y": "a"})
def test_logadd():
    """sympy: the derivatives of log(e^a + e^b) with respect to a and b, against the two shares."""
    def lhs(by_a, by_b, a, p):
        return by_a, by_b

    def rhs(by_a, by_b, a, p):
        return exp(a - p), 1 - exp(a - p)

    check_equation("eq-kernels-logadd", lhs, rhs, (
        (*slopes_of_logadd(A, B), Log(Fraction(A)), Log(Fraction(A + B))) for A, B in [(2, 5), (3, 4), (7, 1), (1, 1)]))


def flows():
    """The adjoints by exact differences, and the shares by enumeration, for each node but the end; and t, u."""
    for y, labels in INPUTS:
        arrays = [zero_outside(each) for each in (adjoints(y, labels), *shares(y, labels))]
        for t, u in k2_nodes(y):
            if (t, u) != (len(y), len(labels)):
                yield y, labels, *arrays, t, u


@pytest.mark.equation("eq-kernels-adjoint")
def test_adjoint():
    """Z recomputed from a changed alpha(t, u) against the same of the two nodes after it, through their shares."""
    def lhs(p_bar, by_label, by_blank, T, U, t, u):
        return p_bar[t, u]

    def rhs(p_bar, by_label, by_blank, T, U, t, u):
        return p_bar[t, u + 1] * by_label[t, u + 1] + p_bar[t + 1, u] * by_blank[t + 1, u]

    check_equation("eq-kernels-adjoint", lhs, rhs, (
        (*arrays, len(y), len(labels), t, u) for y, labels, *arrays, t, u in flows()))


@pytest.mark.equation("eq-kernels-adjoint-arcs", patterns={
    r"\frac{\partial \log Z}{\partial \log y(t, u)}": "by_log_label",
    r"\frac{\partial \log Z}{\partial \log \varnothing(t, u)}": "by_log_blank"})
def test_adjoint_arcs():
    """sympy: slopes of log of the path sum in the log-probs of label and blank, against the flow into the node after
    it. An arc that is not there has slope 0."""
    def lhs(by_log_label, by_log_blank, p_bar, by_label, by_blank, t, u):
        return by_log_label, by_log_blank

    def rhs(by_log_label, by_log_blank, p_bar, by_label, by_blank, t, u):
        return p_bar[t, u + 1] * by_label[t, u + 1], p_bar[t + 1, u] * by_blank[t + 1, u]

    def cases():
        for y, labels, *arrays, t, u in flows():
            if t < len(y):
                slopes = -slopes_in_logs(y, rnnt_paths(y, labels))[t, u]
                yield (slopes[labels[u]] if u < len(labels) else 0), slopes[blank_of(labels)], *arrays, t, u

    check_equation("eq-kernels-adjoint-arcs", lhs, rhs, cases(),
                   left_out={"t = T": "no arc leaves the column of the end"})


@computed(kind="recursion")
def swept(by_label, by_blank, G):
    """The sweep back from the end, started with G."""
    p_bar = by_label * 0
    p_bar[-1, -1] += G
    for t, u in reversed(list(np.ndindex(p_bar.shape))):
        if u + 1 < p_bar.shape[1]:
            p_bar[t, u] += p_bar[t, u + 1] * by_label[t, u + 1]
        if t + 1 < len(p_bar):
            p_bar[t, u] += p_bar[t + 1, u] * by_blank[t + 1, u]
    return p_bar


STARTS = Fraction(1), Fraction(-3, 7), Fraction(0)


@pytest.mark.equation("eq-kernels-linear", patterns={r"\gamma(#t, #u)": "visits[#t, #u]"})
def test_linear():
    """The sweep started with G against G times the enumerated share of paths through the node."""
    def lhs(p_bar, G, visits, t, u):
        return p_bar[t, u]

    def rhs(p_bar, G, visits, t, u):
        return G * visits[t, u]

    check_equation("eq-kernels-linear", lhs, rhs, (
        (p_bar, G, visits, t, u) for (y, labels), G in zip(INPUTS, cycle(STARTS), strict=False)
        for p_bar in [zero_outside(swept(*shares(y, labels), G))] for visits in [zero_outside(visits_beyond(y, labels))]
        for t, u in k2_nodes(y)))


@pytest.mark.equation("eq-kernels-conserved", conditions={r"n = 0, \dots, T + U": "0 <= n <= T + U"})
def test_conserved():
    """What the sweep started with, against its values along each anti-diagonal of the extended grid."""
    def rhs(G, p_bar, n, T, U):
        return sum(p_bar[t, n - t] for t in range(0, T + 1))

    check_equation("eq-kernels-conserved", first, rhs, (
        (G, p_bar, n, len(y), len(labels)) for (y, labels), G in zip(INPUTS, cycle(STARTS), strict=False)
        for p_bar in [zero_outside(swept(*shares(y, labels), G))] for n in range(len(y) + len(labels) + 1)),
        equivalent={
            "shift bound: range(0, T + 1) -> range(0 - 1, T + 1)": "nothing stands before the first column",
            "shift bound: range(0, T + 1) -> range(0, T + 1 + 1)": "nothing stands behind the column of the end"})


@pytest.mark.equation("eq-kernels-flat")
def test_flat():
    """Node occupancies by enumeration where all scores are equal, against ratios of numbers of paths."""
    def lhs(gamma, T, U, t, u):
        return gamma[t, u]

    def rhs(gamma, T, U, t, u):
        return Fraction(comb(t + u, u) * comb(T - 1 - t + U - u, U - u), comb(T + U - 1, U))

    def cases():
        for T, V, labels in [*RNNT_SHAPES, (4, 3, [1, 1, 2])]:
            gamma = rnnt_occupancy(np.full((T, len(labels) + 1, V), Fraction(1, V)), labels).sum(axis=-1)
            for t, u in np.ndindex(gamma.shape):
                yield zero_outside(gamma), T, len(labels), t, u

    check_equation("eq-kernels-flat", lhs, rhs, cases())


def test_masses_agree():
    """The masses that the checks above take from enumeration belong together, and with those of the recursion."""
    for y, labels in INPUTS:
        alpha, beyond = alpha_beyond(y, labels), rnnt_beta_beyond(y, labels)
        assert np.array_equal(alpha * beyond / rnnt_z(y, labels), visits_beyond(y, labels))
        assert np.array_equal(alpha_by_recursion(y, labels, ones(y)), alpha)
        assert np.array_equal(adjoints(y, labels), visits_beyond(y, labels))

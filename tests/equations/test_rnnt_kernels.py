"""Checks of the equations of the chapter on RNN-T kernels. Kernels work with logarithms; here a logarithm is an exact
object, so that a line of a kernel can be run as it stands and compared with ``==``."""

import functools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pytest
import sympy
from brute_force import (
    BLANK,
    RNNT_SHAPES,
    next_label,
    probabilities,
    rnnt_alpha,
    rnnt_beta,
    rnnt_beta_beyond,
    rnnt_grad_probs,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_paths,
    rnnt_z,
)
from sympy.polys.fields import field

from reference_impl import log_softmax, rnnt
from reference_impl.equations import check_equation, zero_outside
from reference_impl.semiring import LOG32
from reference_impl.symbolic import softmax

V = 4


@dataclass(frozen=True)
class Log:
    """The logarithm of an exact number, by what it does: to add is to multiply. ``exp`` takes it off again."""

    of: Any

    def __add__(self, other):
        return Log(self.of * other.of)

    def __sub__(self, other):
        return Log(self.of / other.of)

    def __neg__(self):
        return Log(1 / self.of)


def exp(log):
    return log.of


MINUS_INFINITY = Log(Fraction(0))


def logs(array):
    """An array of exact numbers as logarithms; outside it, the logarithm of 0."""
    taken = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        taken[index] = Log(Fraction(array[index]))
    return zero_outside(taken, zero=MINUS_INFINITY)


def test_log():
    """The exact logarithm against math."""
    a, b = Log(Fraction(3, 7)), Log(Fraction(2, 5))
    assert exp(a + b) == Fraction(6, 35) and exp(a - b) == Fraction(15, 14) and exp(-a) == Fraction(7, 3)
    assert exp(MINUS_INFINITY + a) == 0


def slope_in_logit(x, labels, index):
    """sympy: the path sum as a rational function of the one exponential ``x[index]`` = e^a, -log of it differentiated
    with respect to a, the number put in."""
    rationals, symbol = field("x", sympy.QQ)
    letters = np.empty(x.shape, dtype=object)
    for place in np.ndindex(x.shape):
        letters[place] = rationals(sympy.QQ(x[place].numerator, x[place].denominator))
    letters[index] = symbol
    y = softmax(letters)
    z = rnnt_z(y, labels)
    slope = -symbol * z.diff(symbol) / z
    at = sympy.QQ(x[index].numerator, x[index].denominator)
    value = slope.numer.evaluate(0, at) / slope.denom.evaluate(0, at)
    return Fraction(int(value.numerator), int(value.denominator))


class Kernel:
    """What a kernel has before its last loop, as exact logarithms, by enumeration; and the slopes that are wanted."""

    def __init__(self, seed, T, labels):
        self.T, self.U, self.labels = T, len(labels), labels
        self.x = probabilities(seed, (T, self.U + 1, V))  # the exponentials of the logits
        self.y = softmax(self.x)
        self.z = rnnt_z(self.y, labels)
        self.alpha, self.beta = rnnt_alpha(self.y, labels), rnnt_beta(self.y, labels)
        self.e = rnnt_occupancy(self.y, labels)
        self.gamma = self.e.sum(axis=-1)
        self.e_blank = self.e[..., BLANK]
        self.e_label = np.array([[self.e[t, u, labels[u]] if u < self.U else Fraction(0) for u in range(self.U + 1)]
                                 for t in range(T)], dtype=object)
        normaliser = self.x.sum(axis=-1)
        factor = self.alpha / (self.z * normaliser)
        self.g = self.x * factor[..., None]
        self.slope = np.empty(self.x.shape, dtype=object)
        self.by_log_prob = np.empty(self.x.shape, dtype=object)
        for index in np.ndindex(self.x.shape):
            self.slope[index] = slope_in_logit(self.x, labels, index)
            self.by_log_prob[index] = -self.y[index] / self.z * rnnt_grad_probs(self.y, labels, *index)

    def entries(self, wanted):
        """The entries (t, u, k) for which ``wanted(kernel, t, u, k)`` holds."""
        return [index for index in np.ndindex(self.x.shape) if wanted(self, *index)]


@functools.cache  # seconds, and only for who runs these tests
def kernels():
    return [Kernel(seed, T, labels) for seed, (T, labels) in enumerate(RNNT_SHAPES)]


def is_last(kernel, t, u, k):
    return k == BLANK and t == kernel.T - 1 and u == kernel.U


def is_inner_blank(kernel, t, u, k):
    return k == BLANK and t < kernel.T - 1


def is_label(kernel, t, u, k):
    return k == next_label(kernel.labels, u)


def is_other(kernel, t, u, k):
    return not (is_last(kernel, t, u, k) or is_inner_blank(kernel, t, u, k) or is_label(kernel, t, u, k))


def first(slope, *_):
    return slope


@pytest.mark.equation("eq-kernels-exp-g")
def test_exp_g():
    """g added up from logarithms of enumerated masses and of the exponentials of the logits, against softmax."""
    def lhs(a, log_alpha, log_z, d, y, alpha, z, t, u, k):
        return exp(a[t, u, k] + log_alpha[t, u] - log_z - d[t, u])

    def rhs(a, log_alpha, log_z, d, y, alpha, z, t, u, k):
        return y[t, u, k] * alpha[t, u] / z

    check_equation("eq-kernels-exp-g", lhs, rhs, [
        (logs(c.x), logs(c.alpha), Log(c.z), logs(c.x.sum(axis=-1)), zero_outside(c.y), zero_outside(c.alpha), c.z,
         *index) for c in kernels() for index in np.ndindex(c.x.shape)])


def cpu_cases(wanted):
    return [(c.by_log_prob[index], logs(c.y), logs(c.alpha), logs(c.beta), Log(c.z), c.T, c.U, *index)
            for c in kernels() for index in c.entries(wanted)]


@pytest.mark.equation("eq-kernels-cpu-blank")
def test_cpu_blank():
    """-y / Z times the exact difference quotient of the path sum, against the CPU kernel's line for a blank."""
    def rhs(slope, log_y, log_alpha, log_beta, log_z, T, U, t, u, k):
        return -exp(log_y[t, u, BLANK] + log_alpha[t, u] + log_beta[t + 1, u] - log_z)

    check_equation("eq-kernels-cpu-blank", first, rhs, cpu_cases(is_inner_blank))


@pytest.mark.equation("eq-kernels-cpu-label")
def test_cpu_label():
    """-y / Z times the exact difference quotient of the path sum, against the CPU kernel's line for a label."""
    def rhs(slope, log_y, log_alpha, log_beta, log_z, l, t, u):
        return -exp(log_y[t, u, l[u]] + log_alpha[t, u] + log_beta[t, u + 1] - log_z)

    check_equation("eq-kernels-cpu-label", first, rhs, [
        (c.by_log_prob[t, u, k], logs(c.y), logs(c.alpha), logs(c.beta), Log(c.z), zero_outside(c.labels, zero=3), t, u)
        for c in kernels() for t, u, k in c.entries(is_label)])


@pytest.mark.equation("eq-kernels-cpu-last")
def test_cpu_last():
    """-y / Z times the exact difference quotient of the path sum, against the CPU kernel's line for the last blank."""
    def rhs(slope, log_y, log_alpha, log_beta, log_z, T, U, t, u, k):
        return -exp(log_y[T - 1, U, BLANK] + log_alpha[T - 1, U] - log_z)

    check_equation("eq-kernels-cpu-last", first, rhs, cpu_cases(is_last))


def fused_cases(wanted):
    return [(c.slope[index], logs(c.g), logs(c.beta), c.T, c.U, *index)
            for c in kernels() for index in c.entries(wanted)]


@pytest.mark.equation("eq-kernels-case-last")
def test_case_last():
    """sympy's slope of the path sum in a logit against the first case of the fused kernel."""
    def rhs(slope, g, log_beta, T, U, t, u, k):
        return exp(g[T - 1, U, BLANK] + log_beta[T - 1, U]) - exp(g[T - 1, U, BLANK])

    check_equation("eq-kernels-case-last", first, rhs, fused_cases(is_last), equivalent={
        "drop term: g[T - 1, U, BLANK] + log_beta[T - 1, U] -> log_beta[T - 1, U]":
            "g is 0 there: all that arrives at the last node leaves by this blank"})


@pytest.mark.equation("eq-kernels-case-blank")
def test_case_blank():
    """sympy's slope of the path sum in a logit against the second case of the fused kernel."""
    def rhs(slope, g, log_beta, T, U, t, u, k):
        return exp(g[t, u, BLANK] + log_beta[t, u]) - exp(g[t, u, BLANK] + log_beta[t + 1, u])

    check_equation("eq-kernels-case-blank", first, rhs, fused_cases(is_inner_blank))


@pytest.mark.equation("eq-kernels-case-label")
def test_case_label():
    """sympy's slope of the path sum in a logit against the third case of the fused kernel."""
    def rhs(slope, g, log_beta, l, t, u):
        return exp(g[t, u, l[u]] + log_beta[t, u]) - exp(g[t, u, l[u]] + log_beta[t, u + 1])

    check_equation("eq-kernels-case-label", first, rhs, [
        (c.slope[t, u, k], logs(c.g), logs(c.beta), zero_outside(c.labels, zero=3), t, u)
        for c in kernels() for t, u, k in c.entries(is_label)])


@pytest.mark.equation("eq-kernels-case-other")
def test_case_other():
    """sympy's slope of the path sum in a logit against the last case, blanks below the last row among them."""
    def rhs(slope, g, log_beta, T, U, t, u, k):
        return exp(g[t, u, k] + log_beta[t, u])

    cases = fused_cases(is_other)
    assert any(k == BLANK and t == T - 1 for _, _, _, T, _, t, _, k in cases)
    check_equation("eq-kernels-case-other", first, rhs, cases)


@pytest.mark.equation("eq-kernels-last-node")
def test_last_node():
    """sympy's slope in the logit of the last blank against its probability minus 1."""
    def rhs(slope, y, T, U):
        return y[T - 1, U, BLANK] - 1

    check_equation("eq-kernels-last-node", first, rhs, [
        (c.slope[c.T - 1, c.U, BLANK], zero_outside(c.y), c.T, c.U) for c in kernels()])


@pytest.mark.equation("eq-kernels-split-blank")
def test_split_blank():
    """sympy's slope in a blank's logit against the two enumerated posteriors, each times the other's probability."""
    def rhs(slope, y, e_blank, e_label, t, u):
        return y[t, u, BLANK] * e_label[t, u] - (1 - y[t, u, BLANK]) * e_blank[t, u]

    check_equation("eq-kernels-split-blank", first, rhs, [
        (c.slope[t, u, BLANK], zero_outside(c.y), zero_outside(c.e_blank), zero_outside(c.e_label), t, u)
        for c in kernels() for t, u in np.ndindex(c.gamma.shape)])


@pytest.mark.equation("eq-kernels-split-label")
def test_split_label():
    """sympy's slope in a label's logit against the two enumerated posteriors."""
    def rhs(slope, y, e_blank, e_label, l, t, u):
        return y[t, u, l[u]] * e_blank[t, u] - (1 - y[t, u, l[u]]) * e_label[t, u]

    check_equation("eq-kernels-split-label", first, rhs, [
        (c.slope[t, u, k], zero_outside(c.y), zero_outside(c.e_blank), zero_outside(c.e_label),
         zero_outside(c.labels, zero=3), t, u) for c in kernels() for t, u, k in c.entries(is_label)])


@pytest.mark.equation("eq-kernels-recover")
def test_recover():
    """Enumerated occupancies against sympy's slopes in the logits of two symbols, of which no path uses the second."""
    def rhs(occupied, y, slope, t, u, k, j):
        return y[t, u, k] / y[t, u, j] * slope[t, u, j] - slope[t, u, k]

    check_equation("eq-kernels-recover", first, rhs, [
        (c.e[t, u, k], zero_outside(c.y, zero=Fraction(5)), zero_outside(c.slope, zero=Fraction(5)), t, u, k, j)
        for c in kernels() for t, u, k in np.ndindex(c.x.shape) for j in range(1, V) if j != next_label(c.labels, u)])


# k2: one more column, which holds the end.

class Extended:
    """Exact masses on the grid with T + 1 columns, weights as they come (not normalised), by enumeration."""

    def __init__(self, seed, T, labels):
        self.T, self.U, self.labels = T, len(labels), labels
        self.w = probabilities(seed, (T, self.U + 1, 3))
        self.z = rnnt_z(self.w, labels)
        self.blank = np.vstack([self.w[..., BLANK], np.full((1, self.U + 1), Fraction(0), dtype=object)])
        self.label = np.full((T + 1, self.U + 1), Fraction(0), dtype=object)
        for t, u in np.ndindex(T, self.U):
            self.label[t, u] = self.w[t, u, labels[u]]
        inside = rnnt_alpha(self.w, labels)
        # a path of u labels that has left frame T - 1 is a path of the shorter target
        beyond = [rnnt_z(self.w[:, :u + 1], labels[:u]) for u in range(self.U + 1)]
        self.alpha = np.vstack([inside, np.array([beyond], dtype=object)])
        occupancy = rnnt_occupancy(self.w, labels)
        end = np.full((1, self.U + 1), Fraction(0), dtype=object)
        end[0, self.U] = Fraction(1)
        self.gamma = np.vstack([occupancy.sum(axis=-1), end])
        self.by_blank, self.by_label = self.alpha * 0, self.alpha * 0
        for t, u in np.ndindex(self.alpha.shape):
            if t > 0:
                self.by_blank[t, u] = self.alpha[t - 1, u] * self.blank[t - 1, u] / self.alpha[t, u]
            if u > 0:
                self.by_label[t, u] = self.alpha[t, u - 1] * self.label[t, u - 1] / self.alpha[t, u]

    def recursion(self, node=None, value=None):
        """Alpha by the recursion; if one node is given another value, what comes after it follows suit."""
        alpha = self.alpha * 0
        for t, u in np.ndindex(alpha.shape):
            if t == u == 0:
                alpha[t, u] = Fraction(1)
            if t > 0:
                alpha[t, u] += alpha[t - 1, u] * self.blank[t - 1, u]
            if u > 0:
                alpha[t, u] += alpha[t, u - 1] * self.label[t, u - 1]
            if (t, u) == node:
                alpha[t, u] = value
        return alpha

    def adjoint(self, node):
        """d log Z / d log alpha(node), everything after the node computed anew: Z is affine in alpha(node)."""
        here, end = self.alpha[node], (self.T, self.U)
        return (self.recursion(node, here + 5)[end] - self.recursion(node, here)[end]) / 5 * here / self.z

    def adjoints(self):
        array = np.empty(self.alpha.shape, dtype=object)
        for node in np.ndindex(array.shape):
            array[node] = self.adjoint(node)
        return array


GRIDS = [Extended(seed, T, labels) for seed, (T, labels) in enumerate(RNNT_SHAPES)]


def grid_nodes(start=True):
    for c in GRIDS:
        for t, u in np.ndindex(c.alpha.shape):
            if start or t + u > 0:
                yield c, t, u


@pytest.mark.equation("eq-kernels-k2-forward")
def test_k2_forward():
    """Enumerated beginnings on the grid with one more column, against their last steps."""
    def lhs(alpha, blank, y, t, u):
        return alpha[t, u]

    def rhs(alpha, blank, y, t, u):
        return alpha[t, u - 1] * y[t, u - 1] + alpha[t - 1, u] * blank[t - 1, u]

    check_equation("eq-kernels-k2-forward", lhs, rhs, [
        (zero_outside(c.alpha), zero_outside(c.blank), zero_outside(c.label), t, u)
        for c, t, u in grid_nodes(start=False)])


@pytest.mark.equation("eq-kernels-k2-total")
def test_k2_total():
    """Z over all paths against the forward recursion, run up to the corner of the grid with one more column."""
    def rhs(z, alpha, T, U):
        return alpha[T, U]

    check_equation("eq-kernels-k2-total", first, rhs, [(c.z, zero_outside(c.recursion()), c.T, c.U) for c in GRIDS])


@pytest.mark.equation("eq-kernels-logadd")
def test_logadd():
    """sympy: the derivatives of log(e^a + e^b) with respect to a and b, against the two shares."""
    a, b = sympy.symbols("a b", real=True)

    def lhs(A, B, p):
        """At e^a = A and e^b = B."""
        at = {a: sympy.log(A), b: sympy.log(B)}
        slopes = [sympy.diff(sympy.log(sympy.exp(a) + sympy.exp(b)), v).subs(at) for v in (a, b)]
        return np.array([Fraction(int(s.p), int(s.q)) for s in map(sympy.Rational, slopes)], dtype=object)

    def rhs(A, B, p):
        return np.array([exp(Log(A) - p), 1 - exp(Log(A) - p)], dtype=object)

    check_equation("eq-kernels-logadd", lhs, rhs, [
        (Fraction(A), Fraction(B), Log(Fraction(A + B))) for A, B in [(2, 5), (3, 4), (7, 1)]])


@pytest.mark.equation("eq-kernels-adjoint")
def test_adjoint():
    """Z recomputed from a changed alpha(t, u) against the same of the two nodes after it, through their shares."""
    def lhs(p, by_blank, by_label, t, u):
        return p[t, u]

    def rhs(p, by_blank, by_label, t, u):
        return p[t, u + 1] * by_label[t, u + 1] + p[t + 1, u] * by_blank[t + 1, u]

    check_equation("eq-kernels-adjoint", lhs, rhs, [
        (zero_outside(c.adjoints()), zero_outside(c.by_blank), zero_outside(c.by_label), t, u)
        for c, t, u in grid_nodes() if (t, u) != (c.T, c.U)])


@pytest.mark.equation("eq-kernels-adjoint-arcs")
def test_adjoint_arcs():
    """w / Z times the exact difference of the path sum, label and blank, against the flow into the node after it."""
    def lhs(slopes, p, by_blank, by_label, t, u):
        return slopes

    def rhs(slopes, p, by_blank, by_label, t, u):
        return np.array([p[t, u + 1] * by_label[t, u + 1], p[t + 1, u] * by_blank[t + 1, u]], dtype=object)

    cases = []
    for c, t, u in grid_nodes():
        if t < c.T:
            slopes = [Fraction(0), Fraction(0)]
            for place, k in enumerate([next_label(c.labels, u), BLANK]):
                if k >= 0:
                    slopes[place] = c.w[t, u, k] / c.z * rnnt_grad_probs(c.w, c.labels, t, u, k)
            cases.append((np.array(slopes, dtype=object), zero_outside(c.adjoints()), zero_outside(c.by_blank),
                          zero_outside(c.by_label), t, u))
    check_equation("eq-kernels-adjoint-arcs", lhs, rhs, cases)


def swept(c, G):
    """The sweep back from the end, started with G: exact products of shares."""
    p = c.alpha * 0
    p[c.T, c.U] = G
    for t, u in reversed(list(np.ndindex(p.shape))):
        if u < c.U:
            p[t, u] += p[t, u + 1] * c.by_label[t, u + 1]
        if t < c.T:
            p[t, u] += p[t + 1, u] * c.by_blank[t + 1, u]
    return p


@pytest.mark.equation("eq-kernels-linear")
def test_linear():
    """The sweep started with G against G times the enumerated share of paths through the node."""
    def lhs(p, G, gamma, t, u):
        return p[t, u]

    def rhs(p, G, gamma, t, u):
        return G * gamma[t, u]

    check_equation("eq-kernels-linear", lhs, rhs, [
        (zero_outside(swept(c, G)), G, zero_outside(c.gamma), t, u)
        for c, t, u in grid_nodes() for G in (Fraction(1), Fraction(-3, 7))])


@pytest.mark.equation("eq-kernels-conserved")
def test_conserved():
    """What the sweep started with, against its values along each anti-diagonal of the extended grid."""
    def rhs(G, p, n, T):
        return sum(p[t, n - t] for t in range(0, T + 1))

    check_equation("eq-kernels-conserved", first, rhs, [
        (G, zero_outside(swept(c, G), zero=Fraction(0)), n, c.T)
        for c in GRIDS for G in (Fraction(1), Fraction(-3, 7)) for n in range(c.T + c.U + 1)],
        equivalent={
            "shift bound: range(0, T + 1) -> range(0 - 1, T + 1)": "nothing stands before the first column",
            "shift bound: range(0, T + 1) -> range(0, T + 1 + 1)": "nothing stands behind the column of the end"})


@pytest.mark.equation("eq-kernels-flat")
def test_flat():
    """Node occupancies by enumeration where all scores are equal, against ratios of numbers of paths."""
    def rhs(gamma, T, U, t, u):
        return Fraction(comb(t + u, u) * comb(T - 1 - t + U - u, U - u), comb(T + U - 1, U))

    cases = []
    for T, labels in [*RNNT_SHAPES, (4, [1, 1, 2])]:
        y = np.full((T, len(labels) + 1, 3), Fraction(1, 3), dtype=object)
        gamma = rnnt_occupancy(y, labels).sum(axis=-1)
        cases += [(gamma[t, u], T, len(labels), t, u) for t, u in np.ndindex(gamma.shape)]
    check_equation("eq-kernels-flat", first, rhs, cases)


@pytest.mark.equation("eq-kernels-clamp-scale")
def test_clamp_scale():
    """A clamped multiple of every logit gradient (sympy) against the multiple of one clamped at another bound."""
    def clip(g, c):
        return max(-c, min(c, g))

    def lhs(g, G, c):
        return clip(G * g, c)

    def rhs(g, G, c):
        return G * clip(g, c / G)

    cases = [(g, G, c) for kernel in kernels()[:2] for g in kernel.slope.flat
             for G in (Fraction(1, 8), Fraction(3)) for c in (Fraction(1, 5), Fraction(1, 50))]
    check_equation("eq-kernels-clamp-scale", lhs, rhs, cases)


def test_masses_agree():
    """The masses that the checks above take from enumeration belong together."""
    for c in GRIDS:
        beyond = rnnt_beta_beyond(c.w, c.labels)
        assert np.array_equal(c.alpha * beyond / c.z, c.gamma)
        assert c.z == sum(rnnt_mass(c.w, entries) for entries in rnnt_paths(c.w, c.labels))


@pytest.mark.equation("eq-kernels-magnitudes")
def test_magnitudes():
    """Logarithms of enumerated beginnings and endings, weighted by the enumerated shares of paths, against Z and H."""
    def lhs(alpha, beta, gamma, log_z, T, U, H):
        nodes = [(t, u) for t, u in np.ndindex(gamma.shape) if gamma[t, u] > 0]
        return sum(gamma[n] * (abs(math.log(alpha[n])) + abs(math.log(beta[n]))) for n in nodes)

    def rhs(alpha, beta, gamma, log_z, T, U, H):
        return (T + U) * abs(log_z) + H

    def uncertainty(gamma):
        return -sum(g * math.log(g) for g in gamma.flat if g > 0)

    check_equation("eq-kernels-magnitudes", lhs, rhs, [
        (c.alpha, c.beta, c.gamma, math.log(c.z), c.T, c.U, uncertainty(c.gamma)) for c in kernels()], tolerance=1e-12)


def mismatch_and_bound(margin, semiring, seed):
    """|a - b| of a model that is sure of the labels, not of their frames, and |log Z| times R of the chapter."""
    rng = np.random.default_rng(seed)
    T, U, V = 24, 6, 5
    labels = rng.integers(1, V, size=U)
    logits = rng.normal(size=(T, U + 1, V))
    logits[..., BLANK] += margin
    logits[:, range(U), labels] += margin
    logits[-1, :U, BLANK] -= 2 * margin
    log_probs = log_softmax(logits).astype(semiring.dtype)
    a = rnnt.Z(log_probs, labels, semiring=semiring)
    b = rnnt.beta(log_probs, labels, semiring=semiring)[0, 0]
    gamma = rnnt.occupancy(log_probs, labels).sum(axis=-1)
    H = -(gamma * np.log(np.where(gamma > 0, gamma, 1))).sum()
    return abs(float(a) - float(b)), 2.0**-23 * ((T + U + 1) * rnnt.loss(log_probs, labels) + 7 * H)


@pytest.mark.parametrize("margin", [0, 7, 14, 21])
def test_mismatch_bound(margin):
    """The two values of log Z differ by no more than R says for float32; in float16 they do, so that R can fail."""
    half = replace(LOG32, name="log, float16", zero=np.float16(-np.inf), one=np.float16(0), dtype=np.float16,
                   read=np.float16)
    for seed in range(5):
        apart, bound = mismatch_and_bound(margin, LOG32, seed)
        assert apart <= bound
    assert any(np.greater(*mismatch_and_bound(margin, half, seed)) for seed in range(5))

"""Checks of the equations of the chapter on RNN-T kernels. Kernels work with logarithms; here a logarithm is an exact
object, so that a line of a kernel can be run as it stands and compared with ``==``."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import cycle, product
from math import comb

import notation
import numpy as np
import pytest
import ranges
import sympy
from brute_force import (
    RNNT_INPUTS,
    RNNT_SHAPES,
    Target,
    blank_of,
    next_label,
    rnnt_alpha,
    rnnt_arcs_of_nodes,
    rnnt_beta_beyond,
    rnnt_grad_logits,
    rnnt_occupancy,
    rnnt_paths,
    rnnt_z,
    slopes_in_logs,
    zero,
)
from exact_logarithms import MINUS_INFINITY, Log, exp, logs
from sides import first
from tex_to_python import Notation

from reference_impl import log_softmax, rnnt
from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.semiring import LOG32
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"g_{#t,#u}(#k)": "g[#t, #u, #k]",
    r"\log \alpha(#t, #u)": "log_alpha[#t, #u]",
    r"\log \beta(#t, #u)": "log_beta[#t, #u]",
    r"\log \varnothing(#t, #u)": "log_y[#t, #u, blank]",
    r"\log y(#t, #u)": "log_y[#t, #u, labels[#u]]",
    r"\log Z": "log_z",
    r"\bar p(#t, #u)": "p_bar[#t, #u]",
    r"\bar p_G(#t, #u)": "p_bar[#t, #u]",
    r"r_y(#t, #u)": "by_label[#t, #u]",
    r"r_\varnothing(#t, #u)": "by_blank[#t, #u]",
})
# k2's grid has one more column, which holds the end; ``visits`` is gamma on it
QUANTITIES = ranges.RNNT | Quantities(
    {"beta": "T + 1, U + 1", "log_alpha": "T, U + 1", "log_beta": "T + 1, U + 1", "g": "T, U + 1, V",
     "log_y": "T, U + 1, V", "slopes": "T, U + 1, V", "k2_alpha": "T + 1, U + 1", "visits": "T + 1, U + 1",
     "p_bar": "T + 1, U + 1", "by_label": "T + 1, U + 1", "by_blank": "T + 1, U + 1"},
    {"the blank of the last frame where labels are missing":
         lambda blank, t, u, k, T, U: k == blank and t == T - 1 and u < U,
     "a node without paths": lambda gamma, log_alpha: (gamma == 0).any(),
     "t = T": (lambda t, T, k2_alpha: t == T, lambda t, T, visits: t == T, lambda t, T, U, p_bar: t == T),
     "n = 0": lambda n: n == 0, "n = T + U": lambda n, T, U: n == T + U,
     "G = 1": lambda G, p_bar: G == 1, "G = 0": lambda G, p_bar: G == 0, "G < 0": lambda G, p_bar: G < 0,
     "0 < G < 1": lambda G, c: 0 < G < 1, "G > 1": lambda G, c: G > 1, "c = 0": lambda c: c == 0,
     "clipped from above": lambda entry, G, c: G * entry > c, "clipped from below": lambda entry, G, c: G * entry < -c,
     "not clipped": lambda entry, G, c: abs(G * entry) < c})
INPUTS = sorted(RNNT_INPUTS, key=lambda case: case[0].size)  # runs with random numbers end at the first that differs
BLANK_BEFORE_LAST_FRAME = {end: "for t < T - 1" for end in ("T = 1", "t = T - 1")}
LABEL = {end: "for u < U" for end in ("U = 0", "u = U")}


def test_log():
    """The exact logarithm against math."""
    a, b = Log(Fraction(3, 7)), Log(Fraction(2, 5))
    assert exp(a + b) == Fraction(6, 35) and exp(a - b) == Fraction(15, 14) and exp(-a) == Fraction(7, 3)
    assert exp(MINUS_INFINITY + a) == 0
    assert max(a, b) == a and (a < b) == (math.log(3 / 7) < math.log(2 / 5))


@computed(kind="recursion")
def alpha_by_recursion(y, labels, factors):
    """k2's forward recursion on the grid with one more column; what is at a node is multiplied by the node's factor,
    and all that comes after it follows suit."""
    T, U = len(y), len(labels)
    alpha = np.full((T + 1, U + 1), zero(y), dtype=object)
    for t, u in np.ndindex(alpha.shape):
        if t == u == 0:
            alpha[t, u] += 1
        if u > 0 and t < T:
            alpha[t, u] += alpha[t, u - 1] * y[t, u - 1, labels[u - 1]]
        if t > 0:
            alpha[t, u] += alpha[t - 1, u] * y[t - 1, u, blank_of(labels)]
        alpha[t, u] *= factors[t, u]
    return alpha


def ones(y):
    return np.full((y.shape[0] + 1, y.shape[1]), Fraction(1))


def kernel_g(x, labels):
    """def-kernels-g by what a kernel has: logits, the logarithms of their sums, alpha and Z of its own sweep."""
    alpha, d = alpha_by_recursion(softmax(x), labels, ones(x)), logs(x.sum(axis=-1))
    a, log_alpha, log_z = logs(x), logs(alpha), Log(alpha[-1, -1])
    g = np.empty(x.shape, dtype=object)
    for t, u, k in np.ndindex(x.shape):
        g[t, u, k] = a[t, u, k] + log_alpha[t, u] - log_z - d[t, u]
    return zero_outside(g, zero=MINUS_INFINITY)


def last_blank(y, labels, t, u, k):
    return k == blank_of(labels) and t == len(y) - 1 and u == len(labels)


def inner_blank(y, labels, t, u, k):
    return k == blank_of(labels) and t < len(y) - 1


def label(y, labels, t, u, k):
    return k == next_label(labels, u)


def other(*entry):
    return not (last_blank(*entry) or inner_blank(*entry) or label(*entry))


def entries(y, labels, wanted):
    return [index for index in np.ndindex(y.shape) if wanted(y, labels, *index)]


@pytest.mark.equation("eq-kernels-exp-g")
def test_exp_g():
    """The exponential of g, made of the kernel's own sweep, against softmax, enumerated beginnings and paths."""
    def lhs(g, y, alpha, z, blank, t, u, k):
        return exp(g[t, u, k])

    def rhs(g, y, alpha, z, blank, t, u, k):
        return 1 / z * y[t, u, k] * alpha[t, u]

    def cases():
        for x, labels in INPUTS:
            y = softmax(x)
            g, alpha, z = kernel_g(x, labels), zero_outside(rnnt_alpha(y, labels)), rnnt_z(y, labels)
            for index in np.ndindex(x.shape):
                yield g, zero_outside(y), alpha, z, blank_of(labels), *index

    check_equation("eq-kernels-exp-g", lhs, rhs, cases())


def cpu_cases(wanted):
    """sympy: the slope of -log of the path sum in a log-prob; the masses that the CPU kernel has, by enumeration."""
    for y, labels in INPUTS:
        slopes, log_y, log_alpha = slopes_in_logs(y, rnnt_paths(y, labels)), logs(y), logs(rnnt_alpha(y, labels))
        log_beta, log_z = logs(rnnt_beta_beyond(y, labels)), Log(rnnt_z(y, labels))
        for t, u, k in entries(y, labels, wanted):
            yield (slopes[t, u, k], log_y, log_alpha, log_beta, log_z, blank_of(labels), zero_outside(labels, zero=-1),
                   t, u)


@pytest.mark.equation("eq-kernels-cpu-blank", patterns={
    r"\frac{\partial L}{\partial \log y_{t,u}(\varnothing)}": "slope"})
def test_cpu_blank():
    """sympy: the slope of -log of the path sum in a blank's log-prob, against the CPU kernel's line for a blank."""
    def rhs(slope, log_y, log_alpha, log_beta, log_z, blank, t, u):
        return -exp(log_y[t, u, blank] + log_alpha[t, u] + log_beta[t + 1, u] - log_z)

    check_equation("eq-kernels-cpu-blank", first, rhs, (
        (*masses, blank, t, u) for *masses, blank, _, t, u in cpu_cases(inner_blank)),
        left_out=BLANK_BEFORE_LAST_FRAME)


@pytest.mark.equation("eq-kernels-cpu-label", patterns={
    r"\frac{\partial L}{\partial \log y_{t,u}(l_u)}": "slope"})
def test_cpu_label():
    """sympy: the slope of -log of the path sum in a label's log-prob, against the CPU kernel's line for a label."""
    def rhs(slope, log_y, log_alpha, log_beta, log_z, blank, labels, t, u):
        return -exp(log_y[t, u, labels[u]] + log_alpha[t, u] + log_beta[t, u + 1] - log_z)

    check_equation("eq-kernels-cpu-label", first, rhs, cpu_cases(label), left_out=LABEL)


@pytest.mark.equation("eq-kernels-cpu-last", patterns={
    r"\frac{\partial L}{\partial \log y_{T-1,U}(\varnothing)}": "slope"})
def test_cpu_last():
    """sympy: the slope of -log of the path sum in the last blank's log-prob, against the line for it."""
    def rhs(slope, log_y, log_alpha, log_z, blank, T, U):
        return -exp(log_y[T - 1, U, blank] + log_alpha[T - 1, U] - log_z)

    check_equation("eq-kernels-cpu-last", first, rhs, (
        (slopes_in_logs(y, rnnt_paths(y, labels))[-1, -1, blank_of(labels)], logs(y), logs(rnnt_alpha(y, labels)),
         Log(rnnt_z(y, labels)), blank_of(labels), len(y), len(labels)) for y, labels in INPUTS))


def fused_cases(wanted):
    """sympy: the slope of -log of the path sum in a logit; g, and the logarithms of enumerated endings."""
    for x, labels in INPUTS:
        slopes, g = rnnt_grad_logits(x, labels), kernel_g(x, labels)
        log_beta = logs(rnnt_beta_beyond(softmax(x), labels))
        for t, u, k in entries(x, labels, wanted):
            yield slopes[t, u, k], g, log_beta, blank_of(labels), zero_outside(labels, zero=-1), t, u, k


@pytest.mark.equation("eq-kernels-case-last", patterns={
    r"\frac{\partial L}{\partial a_{T-1,U}(\varnothing)}": "grad_logits"})
def test_case_last():
    """sympy's slope of the path sum in a logit against the first case of the fused kernel."""
    def rhs(grad_logits, g, log_beta, blank, T, U):
        return exp(g[T - 1, U, blank] + log_beta[T - 1, U]) - exp(g[T - 1, U, blank])

    check_equation("eq-kernels-case-last", first, rhs, (
        (*arrays, blank, t + 1, u) for *arrays, blank, _, t, u, _ in fused_cases(last_blank)), equivalent={
        "drop term: g[T - 1, U, blank] + log_beta[T - 1, U] -> log_beta[T - 1, U]":
            "g is 0 there: all that arrives at the last node leaves by this blank"})


@pytest.mark.equation("eq-kernels-case-blank", patterns={
    r"\frac{\partial L}{\partial a_{t,u}(\varnothing)}": "grad_logits"})
def test_case_blank():
    """sympy's slope of the path sum in a logit against the second case of the fused kernel."""
    def rhs(grad_logits, g, log_beta, blank, t, u):
        return exp(g[t, u, blank] + log_beta[t, u]) - exp(g[t, u, blank] + log_beta[t + 1, u])

    check_equation("eq-kernels-case-blank", first, rhs, (
        (*arrays, blank, t, u) for *arrays, blank, _, t, u, _ in fused_cases(inner_blank)),
        left_out=BLANK_BEFORE_LAST_FRAME)


@pytest.mark.equation("eq-kernels-case-label", patterns={
    r"\frac{\partial L}{\partial a_{t,u}(l_u)}": "grad_logits"})
def test_case_label():
    """sympy's slope of the path sum in a logit against the third case of the fused kernel."""
    def rhs(grad_logits, g, log_beta, blank, labels, t, u):
        return exp(g[t, u, labels[u]] + log_beta[t, u]) - exp(g[t, u, labels[u]] + log_beta[t, u + 1])

    check_equation("eq-kernels-case-label", first, rhs, (case[:-1] for case in fused_cases(label)), left_out=LABEL)


@pytest.mark.equation("eq-kernels-case-other")
def test_case_other():
    """sympy's slope of the path sum in a logit against the last case, blanks below the last row among them."""
    def rhs(grad_logits, g, log_beta, blank, t, u, k):
        return exp(g[t, u, k] + log_beta[t, u])

    check_equation("eq-kernels-case-other", first, rhs, (
        (*arrays, blank, t, u, k) for *arrays, blank, _, t, u, k in fused_cases(other)))


@pytest.mark.equation("eq-kernels-last-node", patterns={
    r"\frac{\partial L}{\partial a_{T-1,U}(\varnothing)}": "grad_logits"})
def test_last_node():
    """sympy's slope in the logit of the last blank against its probability minus 1."""
    def rhs(grad_logits, y, blank, T, U):
        return y[T - 1, U, blank] - 1

    check_equation("eq-kernels-last-node", first, rhs, (
        (grad_logits, zero_outside(softmax(x)), blank_of(labels), len(x), len(labels))
        for x, labels in INPUTS for grad_logits in [rnnt_grad_logits(x, labels)[-1, -1, blank_of(labels)]]))


def posteriors():
    """Labels, slopes in a node's logits by sympy, softmax, arc posteriors from alpha and beta; and t, u."""
    for x, labels in INPUTS:
        y, grad_logits = softmax(x), rnnt_grad_logits(x, labels)
        arcs = [zero_outside(each) for each in rnnt_arcs_of_nodes(y, labels)]
        for t, u in np.ndindex(y.shape[:2]):
            yield labels, grad_logits[t, u], zero_outside(y), *arcs, t, u


@pytest.mark.equation("eq-kernels-split-blank", patterns={
    r"\frac{\partial L}{\partial a_{t,u}(\varnothing)}": "grad_logits"})
def test_split_blank():
    """sympy's slope in a blank's logit against the two posteriors, each times the other's probability."""
    def rhs(grad_logits, y, e_blank, e_label, blank, t, u):
        return y[t, u, blank] * e_label[t, u] - (1 - y[t, u, blank]) * e_blank[t, u]

    check_equation("eq-kernels-split-blank", first, rhs, (
        (slopes[blank_of(labels)], *arrays, blank_of(labels), t, u) for labels, slopes, *arrays, t, u in posteriors()))


@pytest.mark.equation("eq-kernels-split-label", patterns={
    r"\frac{\partial L}{\partial a_{t,u}(l_u)}": "grad_logits"})
def test_split_label():
    """sympy's slope in a label's logit against the two posteriors."""
    def rhs(grad_logits, y, e_blank, e_label, blank, labels, t, u):
        return y[t, u, labels[u]] * e_blank[t, u] - (1 - y[t, u, labels[u]]) * e_label[t, u]

    check_equation("eq-kernels-split-label", first, rhs, (
        (slopes[labels[u]], *arrays, blank_of(labels), zero_outside(labels, zero=-1), t, u)
        for labels, slopes, *arrays, t, u in posteriors() if u < len(labels)), left_out=LABEL)


@pytest.mark.equation("eq-kernels-recover", patterns={
    r"\frac{\partial L}{\partial a_{t,u}(j)}": "slopes[t, u, j]",
    r"\frac{\partial L}{\partial a_{t,u}(k)}": "slopes[t, u, k]"})
def test_recover():
    """Enumerated occupancies against sympy's slopes in the logits of two symbols, of which no path uses the second."""
    def lhs(occupancy, y, slopes, blank, t, u, k, j):
        return occupancy[t, u, k]

    def rhs(occupancy, y, slopes, blank, t, u, k, j):
        return y[t, u, k] / y[t, u, j] * slopes[t, u, j] - slopes[t, u, k]

    def cases():
        for x, labels in INPUTS:
            arrays = rnnt_occupancy(softmax(x), labels), softmax(x), rnnt_grad_logits(x, labels)
            arrays = [zero_outside(each, zero=Fraction(5)) for each in arrays]
            for t, u, k, j in np.ndindex(*x.shape, x.shape[-1]):
                if j not in (blank_of(labels), next_label(labels, u)):
                    yield *arrays, blank_of(labels), t, u, k, j

    check_equation("eq-kernels-recover", lhs, rhs, cases())


# k2: one more column, which holds the end.


def alpha_beyond(y, labels):
    """alpha by enumeration of beginnings, with one more column: a path of u labels that has left frame T - 1 is a path
    of the shorter target."""
    blank = blank_of(labels)
    beyond = [rnnt_z(y[:, :u + 1], Target(labels[:u], blank)) for u in range(len(labels) + 1)]
    return np.vstack([rnnt_alpha(y, labels), np.array([beyond], dtype=object)])


def visits_beyond(y, labels):
    """gamma by enumeration of paths, with one more column: all end in its last row."""
    column = np.full((1, len(labels) + 1), Fraction(0))
    column[0, -1] += 1
    return np.vstack([rnnt_occupancy(y, labels).sum(axis=-1), column])


def shares(y, labels):
    """Of the mass of all beginnings at a node, the parts that came by label and by blank."""
    alpha, (T, rows, _) = alpha_beyond(y, labels), y.shape
    by_label, by_blank = alpha * 0, alpha * 0
    by_label[:T, 1:] = alpha[:T, :-1] * y[:, range(rows - 1), list(labels)] / alpha[:T, 1:]
    by_blank[1:] = alpha[:-1] * y[..., blank_of(labels)] / alpha[1:]
    return by_label, by_blank


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
    """Enumerated beginnings on the grid with one more column, against their last steps."""
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
    r"\frac{\partial p}{\partial a}": "by_a", r"\frac{\partial p}{\partial b}": "by_b"})
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


def test_masses_agree():
    """The masses that the checks above take from enumeration belong together, and with those of the recursion."""
    for y, labels in INPUTS:
        alpha, beyond = alpha_beyond(y, labels), rnnt_beta_beyond(y, labels)
        assert np.array_equal(alpha * beyond / rnnt_z(y, labels), visits_beyond(y, labels))
        assert np.array_equal(alpha_by_recursion(y, labels, ones(y)), alpha)
        assert np.array_equal(adjoints(y, labels), visits_beyond(y, labels))


@pytest.mark.equation("eq-kernels-magnitudes", over={
    "t,u": "for t, u in np.ndindex(gamma.shape) if gamma[t, u] > 0"})
def test_magnitudes():
    """Logarithms of enumerated beginnings and endings, weighted by the enumerated shares of paths, against Z and H;
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
    """|a - b| of a model that is sure of the labels, not of their frames, and |log Z| times R of the chapter."""
    rng = np.random.default_rng(seed)
    T, U, V = 24, 6, 5
    labels = rng.integers(1, V, size=U)
    logits = rng.normal(size=(T, U + 1, V))
    logits[..., 0] += margin
    logits[:, range(U), labels] += margin
    logits[-1, :U, 0] -= 2 * margin
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

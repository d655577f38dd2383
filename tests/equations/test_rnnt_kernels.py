"""Checks of the equations of the chapter on RNN-T kernels. Kernels work with logarithms; here a logarithm is an exact
object, so that a line of a kernel can be run as it stands and compared with ``==``."""

import math
from fractions import Fraction

import notation
import numpy as np
import pytest
import ranges
from brute_force import RNNT_INPUTS_BY_SIZE as INPUTS
from brute_force import (
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
)
from exact_logarithms import MINUS_INFINITY, Log, exp, logs
from k2_grid import alpha_by_recursion, ones
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"g_{#t,#u}(#k)": "g[#t, #u, #k]",
    r"\log \alpha(#t, #u)": "log_alpha[#t, #u]",
    r"\log \beta(#t, #u)": "log_beta[#t, #u]",
    r"\log \varnothing(#t, #u)": "log_y[#t, #u, blank]",
    r"\log y(#t, #u)": "log_y[#t, #u, labels[#u]]",
    r"\log Z": "log_z",
})
QUANTITIES = ranges.RNNT | Quantities(
    {"log_alpha": "T, U + 1", "log_beta": "T + 1, U + 1", "g": "T, U + 1, V", "log_y": "T, U + 1, V",
     "slopes": "T, U + 1, V"},
    {"the blank of the last frame where labels are missing":
         lambda blank, t, u, k, T, U: k == blank and t == T - 1 and u < U})
BLANK_BEFORE_LAST_FRAME = {end: "for t < T - 1" for end in ("T = 1", "t = T - 1")}
LABEL = {end: "for u < U" for end in ("U = 0", "u = U")}


def test_log():
    """The exact logarithm against math."""
    a, b = Log(Fraction(3, 7)), Log(Fraction(2, 5))
    assert exp(a + b) == Fraction(6, 35) and exp(a - b) == Fraction(15, 14) and exp(-a) == Fraction(7, 3)
    assert exp(MINUS_INFINITY + a) == 0
    assert max(a, b) == a and (a < b) == (math.log(3 / 7) < math.log(2 / 5))


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
    """The exponential of g, made of the kernel's own sweep, against softmax, enumerated prefixes and paths."""
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
    """sympy: the slope of -log of the path sum in a logit; g, and the logarithms of enumerated suffixes."""
    for x, labels in INPUTS:
        slopes, g = rnnt_grad_logits(x, labels), kernel_g(x, labels)
        log_beta = logs(rnnt_beta_beyond(softmax(x), labels))
        for t, u, k in entries(x, labels, wanted):
            yield slopes[t, u, k], g, log_beta, blank_of(labels), zero_outside(labels, zero=-1), t, u, k


@pytest.mark.equation("eq-kernels-case-last", patterns={
    r"\frac{\partial L}{\partial z_{T-1,U}(\varnothing)}": "grad_logits"})
def test_case_last():
    """sympy's slope of the path sum in a logit against the first case of the fused kernel."""
    def rhs(grad_logits, g, log_beta, blank, T, U):
        return exp(g[T - 1, U, blank] + log_beta[T - 1, U]) - exp(g[T - 1, U, blank])

    check_equation("eq-kernels-case-last", first, rhs, (
        (*arrays, blank, t + 1, u) for *arrays, blank, _, t, u, _ in fused_cases(last_blank)), equivalent={
        "drop term: g[T - 1, U, blank] + log_beta[T - 1, U] -> log_beta[T - 1, U]":
            "g is 0 there: all that arrives at the last node leaves by this blank"})


@pytest.mark.equation("eq-kernels-case-blank", patterns={
    r"\frac{\partial L}{\partial z_{t,u}(\varnothing)}": "grad_logits"})
def test_case_blank():
    """sympy's slope of the path sum in a logit against the second case of the fused kernel."""
    def rhs(grad_logits, g, log_beta, blank, t, u):
        return exp(g[t, u, blank] + log_beta[t, u]) - exp(g[t, u, blank] + log_beta[t + 1, u])

    check_equation("eq-kernels-case-blank", first, rhs, (
        (*arrays, blank, t, u) for *arrays, blank, _, t, u, _ in fused_cases(inner_blank)),
        left_out=BLANK_BEFORE_LAST_FRAME)


@pytest.mark.equation("eq-kernels-case-label", patterns={
    r"\frac{\partial L}{\partial z_{t,u}(l_u)}": "grad_logits"})
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
    r"\frac{\partial L}{\partial z_{T-1,U}(\varnothing)}": "grad_logits"})
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
    r"\frac{\partial L}{\partial z_{t,u}(\varnothing)}": "grad_logits"})
def test_split_blank():
    """sympy's slope in a blank's logit against the two posteriors, each times the other's probability."""
    def rhs(grad_logits, y, e_blank, e_label, blank, t, u):
        return y[t, u, blank] * e_label[t, u] - (1 - y[t, u, blank]) * e_blank[t, u]

    check_equation("eq-kernels-split-blank", first, rhs, (
        (slopes[blank_of(labels)], *arrays, blank_of(labels), t, u) for labels, slopes, *arrays, t, u in posteriors()))


@pytest.mark.equation("eq-kernels-split-label", patterns={
    r"\frac{\partial L}{\partial z_{t,u}(l_u)}": "grad_logits"})
def test_split_label():
    """sympy's slope in a label's logit against the two posteriors."""
    def rhs(grad_logits, y, e_blank, e_label, blank, labels, t, u):
        return y[t, u, labels[u]] * e_blank[t, u] - (1 - y[t, u, labels[u]]) * e_label[t, u]

    check_equation("eq-kernels-split-label", first, rhs, (
        (slopes[labels[u]], *arrays, blank_of(labels), zero_outside(labels, zero=-1), t, u)
        for labels, slopes, *arrays, t, u in posteriors() if u < len(labels)), left_out=LABEL)


@pytest.mark.equation("eq-kernels-recover", patterns={
    r"\frac{\partial L}{\partial z_{t,u}(j)}": "slopes[t, u, j]",
    r"\frac{\partial L}{\partial z_{t,u}(k)}": "slopes[t, u, k]"})
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

"""Checks of the equations of the chapter on the CTC gradient. The left sides come from strings, not from recursions."""

from fractions import Fraction

import numpy as np
import pytest
from brute_force import (
    ctc_alpha,
    ctc_beta,
    ctc_occupancy,
    ctc_strings,
    ctc_z,
    extended,
    mass,
    probabilities,
    slopes_in_logs,
    stands_in,
)

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, softmax

# a skip, a repeat, a skip after a repeat, one label, none
TARGETS = [[1, 2], [1, 1], [2, 2, 1], [1], []]
INPUTS = [(probabilities(seed, (4 + len(targets) // 3, 3)), targets) for seed, targets in enumerate(TARGETS)]


def skip(targets):
    """kappa: 1 where a path may enter a state from two states below."""
    labels = extended(targets)
    return [int(s >= 2 and labels[s] != labels[s - 2]) for s in range(len(labels))]


def occupancy_over(alpha, beta, labels, y, t, k):
    """Mass of the nodes of frame t that emit k."""
    return sum((alpha[t, s] * beta[t, s] for s in range(len(labels)) if labels[s] == k), Fraction(0))


def grad_probs(y, targets, t, k):
    """dZ/dy of the brute-force sum, by an exact difference."""
    return exact_difference(lambda y: ctc_z(y, targets), y, (t, k), h=3)


@pytest.mark.equation("eq-ctc-alpha-start")
def test_alpha_start():
    """First column of alpha against beginnings of one symbol."""
    def rhs(alpha, y, labels, s):
        return (s <= 1) * y[0, labels[s]]

    cases = [(ctc_alpha(y, targets), y, extended(targets), s)
             for y, targets in INPUTS for s in range(2 * len(targets) + 1)]
    check_equation("eq-ctc-alpha-start", lambda alpha, y, labels, s: alpha[0, s], rhs, cases)


@pytest.mark.equation("eq-ctc-alpha")
def test_alpha_recursion():
    """Each alpha by enumeration of strings against the recursion from the alphas one frame earlier."""
    def rhs(alpha, y, labels, kappa, t, s):
        return (alpha[t - 1, s] + alpha[t - 1, s - 1] + kappa[s] * alpha[t - 1, s - 2]) * y[t, labels[s]]

    cases = [(zero_outside(ctc_alpha(y, targets)), y, extended(targets), skip(targets), t, s)
             for y, targets in INPUTS for t in range(1, len(y)) for s in range(2 * len(targets) + 1)]
    check_equation("eq-ctc-alpha", lambda alpha, y, labels, kappa, t, s: alpha[t, s], rhs, cases)


@pytest.mark.equation("eq-ctc-total")
def test_total():
    """Z over all strings against the last two alphas."""
    def rhs(z, alpha, T, S):
        return alpha[T - 1, S - 1] + alpha[T - 1, S - 2]

    cases = [(ctc_z(y, targets), zero_outside(ctc_alpha(y, targets)), len(y), 2 * len(targets) + 1)
             for y, targets in INPUTS]
    check_equation("eq-ctc-total", lambda z, alpha, T, S: z, rhs, cases)


@pytest.mark.equation("eq-ctc-beta-end")
def test_beta_end():
    """Last column of beta: whether the empty ending completes the target."""
    def rhs(beta, T, S, s):
        return +(s >= S - 2)

    cases = [(ctc_beta(y, targets), len(y), 2 * len(targets) + 1, s)
             for y, targets in INPUTS for s in range(2 * len(targets) + 1)]
    check_equation("eq-ctc-beta-end", lambda beta, T, S, s: beta[T - 1, s], rhs, cases)


@pytest.mark.equation("eq-ctc-beta")
def test_beta_recursion():
    """Each beta by enumeration of strings against the recursion from the betas one frame later."""
    def rhs(beta, y, labels, kappa, t, s):
        return (y[t + 1, labels[s]] * beta[t + 1, s] + y[t + 1, labels[s + 1]] * beta[t + 1, s + 1]
                + kappa[s + 2] * y[t + 1, labels[s + 2]] * beta[t + 1, s + 2])

    cases = [(zero_outside(ctc_beta(y, targets)), y, zero_outside(extended(targets)), zero_outside(skip(targets)), t, s)
             for y, targets in INPUTS for t in range(len(y) - 1) for s in range(2 * len(targets) + 1)]
    check_equation("eq-ctc-beta", lambda beta, y, labels, kappa, t, s: beta.array[t, s], rhs, cases)


@pytest.mark.equation("eq-ctc-node-mass")
def test_node_mass():
    """alpha * beta against the strings that stand in state s at frame t."""
    def lhs(alpha, beta, strings, y, targets, t, s):
        return alpha[t, s] * beta[t, s]

    def rhs(alpha, beta, strings, y, targets, t, s):
        return sum(mass(y, string) * stands_in(string, t, s, targets) for string in strings)

    cases = [(ctc_alpha(y, targets), ctc_beta(y, targets), ctc_strings(y, targets), y, targets, t, s)
             for y, targets in INPUTS for t in range(len(y)) for s in range(2 * len(targets) + 1)]
    check_equation("eq-ctc-node-mass", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-frame-sum")
def test_frame_sum():
    """Z over all strings against the sum over the states of each frame."""
    def rhs(z, alpha, beta, t, S):
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S))

    cases = [(ctc_z(y, targets), ctc_alpha(y, targets), ctc_beta(y, targets), t, 2 * len(targets) + 1)
             for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-frame-sum", lambda z, alpha, beta, t, S: z, rhs, cases)


def _entries():
    for y, targets in INPUTS:
        alpha, beta, z = ctc_alpha(y, targets), ctc_beta(y, targets), ctc_z(y, targets)
        for t, k in np.ndindex(y.shape):
            yield grad_probs(y, targets, t, k), alpha, beta, extended(targets), z, y, t, k, 2 * len(targets) + 1


@pytest.mark.equation("eq-ctc-grad-probs")
def test_grad_probs():
    """Exact difference of the sum over strings against the masses of the nodes that emit k, divided by y."""
    def rhs(derivative, alpha, beta, labels, z, y, t, k, S):
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k) / y[t, k]

    check_equation("eq-ctc-grad-probs", lambda derivative, *_: derivative, rhs, _entries())


@pytest.mark.equation("eq-ctc-grad-probs-no-division")
def test_grad_probs_no_division():
    """The same without dividing by y, also where y is 0."""
    def rhs(derivative, alpha, beta, labels, kappa, t, k, S):
        return sum((alpha[t - 1, s] + alpha[t - 1, s - 1] + kappa[s] * alpha[t - 1, s - 2]) * beta[t, s]
                   for s in range(0, S) if labels[s] == k)

    cases = []
    for y, targets in INPUTS:
        for t, k in np.ndindex(y.shape):
            with_zero = y.copy()
            with_zero[t, k] = Fraction(0)
            alpha, S = zero_outside(ctc_alpha(with_zero, targets)), 2 * len(targets) + 1
            if t >= 1:
                cases.append((grad_probs(with_zero, targets, t, k), alpha, ctc_beta(with_zero, targets),
                              extended(targets), skip(targets), t, k, S))
    below = {"shift bound: range(0, S) -> range(0 - 1, S)": "state -1 adds 0: alpha reads as 0 outside the lattice"}
    check_equation("eq-ctc-grad-probs-no-division", lambda derivative, *_: derivative, rhs, cases, equivalent=below)


@pytest.mark.equation("eq-ctc-chain")
def test_chain():
    """sympy: log of the sum over strings with y = e^v, differentiated with respect to v, against y / Z dZ/dy."""
    def lhs(slope, derivative, z, y, t, k):
        return slope

    def rhs(slope, derivative, z, y, t, k):
        return y[t, k] / z * derivative[t, k]

    cases = []
    for y, targets in INPUTS[0], INPUTS[1]:
        slopes = -slopes_in_logs(y, [list(enumerate(string)) for string in ctc_strings(y, targets)])
        derivative = np.empty(y.shape, dtype=object)
        for t, k in np.ndindex(y.shape):
            derivative[t, k] = grad_probs(y, targets, t, k)
        cases += [(slopes[t, k], zero_outside(derivative), ctc_z(y, targets), zero_outside(y), t, k)
                  for t, k in np.ndindex(y.shape)]
    check_equation("eq-ctc-chain", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-grad-log-probs")
def test_grad_log_probs():
    """-y / Z times the exact difference against minus the occupancy computed from alpha and beta."""
    def lhs(derivative, occupancy, z, y, t, k):
        return -y[t, k] / z * derivative

    def rhs(derivative, occupancy, z, y, t, k):
        return -occupancy[t, k]

    cases = []
    for derivative, alpha, beta, labels, z, y, t, k, _ in _entries():
        occupancy = np.array([[occupancy_over(alpha, beta, labels, y, i, j) / z for j in range(3)]
                              for i in range(len(y))], dtype=object)
        cases.append((derivative, occupancy, z, y, t, k))
    check_equation("eq-ctc-grad-log-probs", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-expectation")
def test_expectation():
    """The occupancy from alpha and beta against the probability of k in frame t among the strings."""
    def lhs(occupancy, strings, z, y, t, k):
        return occupancy

    def rhs(occupancy, strings, z, y, t, k):
        return sum(mass(y, string) / z * (string[t] == k) for string in strings)

    cases = [(occupancy_over(alpha, beta, labels, y, t, k) / z, ctc_strings(y, [j for j in labels if j]), z, y, t, k)
             for _, alpha, beta, labels, z, y, t, k, _ in _entries()]
    check_equation("eq-ctc-expectation", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-occupancy-sum")
def test_occupancy_sum():
    """The occupancies of each frame add up to 1."""
    def rhs(occupancy, t, V):
        return sum(occupancy[t, k] for k in range(0, V))

    cases = [(zero_outside(ctc_occupancy(y, targets), zero=5), t, y.shape[1])
             for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-occupancy-sum", lambda occupancy, t, V: 1, rhs, cases)


@pytest.mark.equation("eq-ctc-log-softmax")
def test_log_softmax():
    """sympy: derivative of each log-prob with respect to each logit, as rational functions of x = e^u."""
    x = field_grid("x", (2, 3))
    y = softmax(x)

    def lhs(y, t, j, k):
        return x[t, k] * y[t, j].diff(x[t, k]) / y[t, j]

    def rhs(y, t, j, k):
        return (j == k) - y[t, k]

    check_equation("eq-ctc-log-softmax", lhs, rhs, [(y, t, j, k) for t in range(2) for j, k in np.ndindex(3, 3)])


def _logit_cases():
    for T, targets in [(2, [1]), (3, [1, 2]), (3, [1, 1]), (2, [])]:
        x = field_grid("x", (T, 3))
        y = softmax(x)
        strings = ctc_strings(y, targets)
        z = sum(_product(y, string) for string in strings)
        occupancy = np.array([[sum(_product(y, string) for string in strings if string[t] == k) / z for k in range(3)]
                              for t in range(T)], dtype=object)
        for t, k in np.ndindex(x.shape):
            yield -x[t, k] * z.diff(x[t, k]) / z, occupancy, y, t, k, 3


def _product(y, string):
    result = 1
    for t, k in enumerate(string):
        result = result * y[t, k]
    return result


@pytest.mark.equation("eq-ctc-logits-chain")
def test_logits_chain():
    """sympy: derivative of -log of the sum over strings with respect to each logit, against the chain rule."""
    def rhs(derivative, occupancy, y, t, k, V):
        return -sum(occupancy[t, j] * ((j == k) - y[t, k]) for j in range(0, V))

    check_equation("eq-ctc-logits-chain", lambda derivative, *_: derivative, rhs, _logit_cases())


@pytest.mark.equation("eq-ctc-grad-logits")
def test_grad_logits():
    """sympy: the same derivative against softmax minus occupancy, as rational functions."""
    def rhs(derivative, occupancy, y, t, k, V):
        return y[t, k] - occupancy[t, k]

    check_equation("eq-ctc-grad-logits", lambda derivative, *_: derivative, rhs, _logit_cases())


@pytest.mark.equation("eq-ctc-beta-2006")
def test_beta_2006():
    """Endings that contain frame t itself, by enumeration of whole strings, against y times beta."""
    def lhs(beta, y, labels, targets, t, s):
        through = [string for string in ctc_strings(y, targets) if stands_in(string, t, s, targets)]
        return sum({string[t:]: mass(y, string[t:], t) for string in through}.values(), Fraction(0))

    def rhs(beta, y, labels, targets, t, s):
        return y[t, labels[s]] * beta[t, s]

    cases = [(ctc_beta(y, targets), y, extended(targets), targets, t, s)
             for y, targets in INPUTS for t in range(len(y)) for s in range(2 * len(targets) + 1)
             if any(stands_in(string, t, s, targets) for string in ctc_strings(y, targets))]
    check_equation("eq-ctc-beta-2006", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-grad-logits-2006")
def test_grad_logits_2006():
    """y - occupancy by enumeration against the formula with the emission in both alpha and beta."""
    def lhs(occupancy, alpha, beta_2006, labels, z, y, t, k, S):
        return y[t, k] - occupancy[t, k]

    def rhs(occupancy, alpha, beta_2006, labels, z, y, t, k, S):
        return y[t, k] - 1 / (z * y[t, k]) * sum(
            alpha[t, s] * beta_2006[t, s] for s in range(0, S) if labels[s] == k)

    cases = []
    for _, alpha, beta, labels, z, y, t, k, S in _entries():
        beta_2006 = np.array([[y[i, labels[s]] * beta[i, s] for s in range(S)] for i in range(len(y))], dtype=object)
        cases.append((ctc_occupancy(y, [j for j in labels if j]), alpha, beta_2006, labels, z, y, t, k, S))
    check_equation("eq-ctc-grad-logits-2006", lhs, rhs, cases)

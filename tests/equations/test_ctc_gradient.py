"""Checks of the equations of the chapter on the CTC gradient. The left sides come from strings, not from recursions."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from brute_force import CTC_INPUTS as INPUTS
from brute_force import (
    ctc_alpha,
    ctc_beta,
    ctc_beta_2006,
    ctc_grad_probs,
    ctc_occupancy,
    ctc_skip,
    ctc_strings,
    ctc_z,
    extended,
    mass,
    probabilities,
    slopes_in_logs,
    stands_in,
    states,
)

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, softmax

# frames and targets of the cases in which sympy differentiates with respect to every score
BY_SYMPY = [(2, [1]), (3, [1, 2]), (3, [1, 1]), (2, [])]


def occupancy_over(alpha, beta, labels, y, t, k):
    """Mass of the nodes of frame t that emit k."""
    return sum((alpha[t, s] * beta[t, s] for s in range(len(labels)) if labels[s] == k), Fraction(0))


def _entries():
    for y, targets in INPUTS:
        alpha, beta, z = ctc_alpha(y, targets), ctc_beta(y, targets), ctc_z(y, targets)
        for t, k in np.ndindex(y.shape):
            yield ctc_grad_probs(y, targets, t, k), alpha, beta, extended(targets), z, y, t, k, 2 * len(targets) + 1


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
                cases.append((ctc_grad_probs(with_zero, targets, t, k), alpha, ctc_beta(with_zero, targets),
                              extended(targets), ctc_skip(targets), t, k, S))
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
            derivative[t, k] = ctc_grad_probs(y, targets, t, k)
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


@pytest.mark.equation("eq-ctc-shared")
def test_shared():
    """The occupancy from alpha and beta against the shares of strings that use each arc into frame t with symbol k."""
    def rhs(occupancy, posterior, labels, t, k, S):
        return sum(posterior[t, r, s] for s in range(0, S) for r in range(0, S) if labels[s] == k)

    cases = []
    for y, targets in INPUTS:
        T, S, z = len(y), 2 * len(targets) + 1, ctc_z(y, targets)
        posterior = np.full((T, S, S), Fraction(0), dtype=object)
        for string in ctc_strings(y, targets):
            for t, r, s in np.ndindex(T, S, S):
                if t >= 1 and stands_in(string, t - 1, r, targets) and stands_in(string, t, s, targets):
                    posterior[t, r, s] += mass(y, string) / z
        alpha, beta = ctc_alpha(y, targets), ctc_beta(y, targets)
        cases += [(occupancy_over(alpha, beta, extended(targets), y, t, k) / z, zero_outside(posterior, zero=5),
                   extended(targets), t, k, S) for t in range(1, T) for k in range(3)]
    check_equation("eq-ctc-shared", lambda occupancy, *_: occupancy, rhs, cases)


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
    for T, targets in BY_SYMPY:
        x = field_grid("x", (T, 3))
        y = softmax(x)
        z, occupancy = ctc_z(y, targets), ctc_occupancy(y, targets)
        for t, k in np.ndindex(x.shape):
            yield -x[t, k] * z.diff(x[t, k]) / z, occupancy, y, t, k, 3


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


@pytest.mark.equation("eq-ctc-numerator")
def test_numerator():
    """Z of the softmax, by strings, against the same sum in x divided by the sums of all frames."""
    def rhs(z, n, D, T):
        return n / prod(D[t] for t in range(0, T))

    cases = [(ctc_z(x / x.sum(axis=1, keepdims=True), targets), ctc_z(x, targets),
              zero_outside(x.sum(axis=1), zero=5), len(x)) for x, targets in INPUTS]
    check_equation("eq-ctc-numerator", lambda z, n, D, T: z, rhs, cases)


@pytest.mark.equation("eq-ctc-numerator-slope")
def test_numerator_slope():
    """sympy: derivative of -log Z of the softmax with respect to each logit, against the slopes of log D and log N."""
    def rhs(derivative, x, D, N, dN, t, k):
        return x[t, k] * (1 / D[t] - 1 / N * dN[t, k])

    cases = []
    for T, targets in BY_SYMPY:
        x = field_grid("x", (T, 3))
        z, N = ctc_z(softmax(x), targets), ctc_z(x, targets)
        dN = np.array([[N.diff(x[t, k]) for k in range(3)] for t in range(T)], dtype=object)
        cases += [(-x[t, k] * z.diff(x[t, k]) / z, x, x.sum(axis=1), N, dN, t, k) for t, k in np.ndindex(x.shape)]
    check_equation("eq-ctc-numerator-slope", lambda derivative, *_: derivative, rhs, cases)


@pytest.mark.equation("eq-ctc-cleared")
def test_cleared():
    """Exact differences of the path sum in x on one side, alpha and beta by strings on the other; both are mutated."""
    def left(x, D, N, dN, M, t, k):
        return x[t, k] * (D[t] * dN[t, k] - N)

    def right(x, D, N, dN, M, t, k):
        return D[t] * M[t, k] - x[t, k] * N

    cases = []
    for x, targets in INPUTS:
        alpha, beta, labels = ctc_alpha(x, targets), ctc_beta(x, targets), extended(targets)
        dN, M = np.empty(x.shape, dtype=object), np.empty(x.shape, dtype=object)
        for t, k in np.ndindex(x.shape):
            dN[t, k], M[t, k] = ctc_grad_probs(x, targets, t, k), occupancy_over(alpha, beta, labels, x, t, k)
        cases += [(x, x.sum(axis=1), ctc_z(x, targets), dN, M, t, k) for t, k in np.ndindex(x.shape)]
    check_equation("eq-ctc-cleared", left, right, cases)
    check_equation("eq-ctc-cleared", right, left, cases)


@pytest.mark.equation("eq-ctc-exact-difference")
def test_exact_difference():
    """Exact differences with several steps, times y, against the masses of the nodes that emit k."""
    def lhs(y, targets, alpha, beta, labels, t, k, S):
        uses = {y[t, k] * exact_difference(lambda y: ctc_z(y, targets), y, (t, k), h) for h in (1, Fraction(-2, 7))}
        (use,) = uses  # the same for every step
        return use

    def rhs(y, targets, alpha, beta, labels, t, k, S):
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    cases = [(y, targets, ctc_alpha(y, targets), ctc_beta(y, targets), extended(targets), t, k, 2 * len(targets) + 1)
             for y, targets in INPUTS for t, k in np.ndindex(y.shape)]
    check_equation("eq-ctc-exact-difference", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-beta-2006")
def test_beta_2006():
    """Endings that begin with the emission of frame t, by strings, against y times the endings after it, by strings."""
    def lhs(beta_2006, beta, y, labels, t, s):
        return beta_2006[t, s]

    def rhs(beta_2006, beta, y, labels, t, s):
        return y[t, labels[s]] * beta[t, s]

    cases = [(ctc_beta_2006(y, targets), ctc_beta(y, targets), y, extended(targets), t, s)
             for y, targets in INPUTS for t, s in states(y, targets)]
    check_equation("eq-ctc-beta-2006", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-grad-logits-2006")
def test_grad_logits_2006():
    """sympy: derivative of -log Z of the softmax with respect to each logit, at integers x = e^u, against the formula
    with the emission in both alpha and beta, both by strings."""
    def rhs(derivative, alpha, beta_2006, labels, z, y, t, k, S):
        return y[t, k] - 1 / (z * y[t, k]) * sum(
            alpha[t, s] * beta_2006[t, s] for s in range(0, S) if labels[s] == k)

    cases = []
    for T, targets in BY_SYMPY:
        x, point = field_grid("x", (T, 3)), 7 * probabilities(T, (T, 3))
        z = ctc_z(softmax(x), targets)
        at = [int(value) for value in point.flat]
        y = point / point.sum(axis=1, keepdims=True)
        for t, k in np.ndindex(x.shape):
            slope = -x[t, k] * z.diff(x[t, k]) / z
            cases.append((Fraction(int(slope.numer(*at)), int(slope.denom(*at))), ctc_alpha(y, targets),
                          ctc_beta_2006(y, targets), extended(targets), ctc_z(y, targets), y, t, k,
                          2 * len(targets) + 1))
    check_equation("eq-ctc-grad-logits-2006", lambda derivative, *_: derivative, rhs, cases)

"""Checks of the equations of the chapter on the 2006 route. The left sides come from strings and exact differences."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from brute_force import CTC_INPUTS as INPUTS
from brute_force import (
    ctc_alpha,
    ctc_alpha_arriving,
    ctc_beta,
    ctc_beta_2006,
    ctc_grad_probs,
    ctc_occupancy,
    ctc_partial,
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
from enumeration import collapse
from sympy import QQ
from sympy.polys.fields import field

from reference_impl import ctc
from reference_impl.as_published.ctc_conventions import convert, rescaled_alpha, rescaled_beta
from reference_impl.equations import check_equation, zero_outside

# beside the independent entries of INPUTS, entries that are a softmax: x_t(k) / sum_j x_t(j)
SCORES = [probabilities(10 + seed, y.shape) for seed, (y, _) in enumerate(INPUTS)]
SOFTMAX = [(x / x.sum(axis=1, keepdims=True), targets) for x, (_, targets) in zip(SCORES, INPUTS, strict=True)]


def beta_2006(y, targets):
    """As the paper defines it: strings from frame t on that begin with l'_s and collapse to the labels still owed."""
    def wanted(string, t, s):
        return string[0] == extended(targets)[s] and collapse(string, 0) == list(targets[s // 2:])

    return ctc_partial(y, targets, lambda t: range(t, len(y)), wanted)


def by_symbol(y, targets):
    """M: the products alpha beta, added over the states that carry a symbol."""
    alpha_beta = ctc_alpha(y, targets) * beta_2006(y, targets)
    return np.array([[sum((alpha_beta[t, s] for s, label in enumerate(extended(targets)) if label == k), Fraction(0))
                      for k in range(y.shape[1])] for t in range(len(y))], dtype=object)


# Recursion, total, zeros

def test_two_forms_of_beta():
    """The definition by what a state still owes is the one by what completes the whole target."""
    for y, targets in INPUTS:
        assert (beta_2006(y, targets) == ctc_beta_2006(y, targets)).all()


@pytest.mark.equation("eq-ctc-2006-beta-end")
def test_beta_end():
    """Last column of beta against strings of one symbol."""
    def rhs(beta, y, labels, T, S, s):
        return (s >= S - 2) * y[T - 1, labels[s]]

    cases = [(beta_2006(y, targets), y, extended(targets), len(y), 2 * len(targets) + 1, s)
             for y, targets in INPUTS for s in range(2 * len(targets) + 1)]
    check_equation("eq-ctc-2006-beta-end", lambda beta, y, labels, T, S, s: beta[T - 1, s], rhs, cases)


@pytest.mark.equation("eq-ctc-2006-beta")
def test_beta_recursion():
    """Each beta by enumeration of strings against the recursion from the betas one frame later."""
    def rhs(beta, y, labels, kappa, t, s):
        return y[t, labels[s]] * (beta[t + 1, s] + beta[t + 1, s + 1] + kappa[s + 2] * beta[t + 1, s + 2])

    cases = [(zero_outside(beta_2006(y, targets)), y, extended(targets), zero_outside(ctc_skip(targets)), t, s)
             for y, targets in INPUTS for t, s in states(y[1:], targets)]
    check_equation("eq-ctc-2006-beta", lambda beta, y, labels, kappa, t, s: beta[t, s], rhs, cases)


@pytest.mark.equation("eq-ctc-2006-beta-total")
def test_beta_total():
    """Z over all strings against the first two betas."""
    def rhs(z, beta):
        return beta[0, 0] + beta[0, 1]

    cases = [(ctc_z(y, targets), zero_outside(beta_2006(y, targets))) for y, targets in INPUTS]
    check_equation("eq-ctc-2006-beta-total", lambda z, beta: z, rhs, cases)


def pruned(y, targets, keep):
    """The forward recursion, with every state set to 0 that ``keep(t, s)`` does not keep."""
    labels, kappa = extended(targets), ctc_skip(targets)
    alpha = np.full((len(y), len(labels)), Fraction(0), dtype=object)
    for t, s in states(y, targets):
        before = zero_outside(alpha)
        entering = before[t - 1, s] + before[t - 1, s - 1] + kappa[s] * before[t - 1, s - 2] if t else int(s <= 1)
        alpha[t, s] = keep(t, s) * entering * y[t, labels[s]]
    return alpha


@pytest.mark.equation("eq-ctc-2006-pruned-alpha")
def test_pruned_alpha():
    """The recursion with states set to 0 after each frame against the alphas by enumeration, 0 in these states."""
    def rhs(pruned, alpha, T, S, t, s):
        return (s >= S - 2 * (T - t)) * alpha[t, s]

    cases = []
    for y, targets in INPUTS:
        T, S = len(y), 2 * len(targets) + 1
        left = pruned(y, targets, lambda t, s, T=T, S=S: s + 2 * (T - 1 - t) >= S - 2)  # two states a frame
        cases += [(left, ctc_alpha(y, targets), T, S, t, s) for t, s in states(y, targets)]
    check_equation("eq-ctc-2006-pruned-alpha", lambda pruned, alpha, T, S, t, s: pruned[t, s], rhs, cases)


@pytest.mark.equation("eq-ctc-2006-pruned-beta")
def test_pruned_beta():
    """The same of the reversed problem, turned around, against the betas by enumeration."""
    def rhs(pruned, beta, t, s):
        return (s <= 2 * t + 1) * beta[t, s]

    cases = []
    for y, targets in INPUTS:
        T, S = len(y), 2 * len(targets) + 1
        left = pruned(y[::-1], targets[::-1], lambda t, s, T=T, S=S: s + 2 * (T - 1 - t) >= S - 2)[::-1, ::-1]
        cases += [(left, beta_2006(y, targets), t, s) for t, s in states(y, targets)]
    check_equation("eq-ctc-2006-pruned-beta", lambda pruned, beta, t, s: pruned[t, s], rhs, cases)


# Through a state, through a frame

@pytest.mark.equation("eq-ctc-2006-state")
def test_state():
    """alpha * beta against the strings that stand in state s at frame t, times the emission."""
    def lhs(alpha, beta, strings, y, labels, targets, t, s):
        return alpha[t, s] * beta[t, s]

    def rhs(alpha, beta, strings, y, labels, targets, t, s):
        return y[t, labels[s]] * sum(mass(y, string) * stands_in(string, t, s, targets) for string in strings)

    cases = [(ctc_alpha(y, targets), beta_2006(y, targets), ctc_strings(y, targets), y, extended(targets), targets,
              t, s) for y, targets in INPUTS for t, s in states(y, targets)]
    check_equation("eq-ctc-2006-state", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-frame-sum")
def test_frame_sum():
    """Z over all strings against the sum over the states of each frame, the emission divided out once."""
    def rhs(z, alpha, beta, y, labels, t, S):
        return sum(alpha[t, s] * beta[t, s] / y[t, labels[s]] for s in range(0, S))

    cases = [(ctc_z(y, targets), ctc_alpha(y, targets), beta_2006(y, targets), y, extended(targets), t,
              2 * len(targets) + 1) for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-2006-frame-sum", lambda z, alpha, beta, y, labels, t, S: z, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-square")
def test_square():
    """alpha * beta against beginnings before t, endings after t, and the emission squared."""
    def lhs(alpha, beta_2006, arriving, beta, y, labels, t, s):
        return alpha[t, s] * beta_2006[t, s]

    def rhs(alpha, beta_2006, arriving, beta, y, labels, t, s):
        return y[t, labels[s]] ** 2 * arriving[t, s] * beta[t, s]

    cases = [(ctc_alpha(y, targets), beta_2006(y, targets), ctc_alpha_arriving(y, targets), ctc_beta(y, targets), y,
              extended(targets), t, s) for y, targets in INPUTS for t, s in states(y, targets)]
    check_equation("eq-ctc-2006-square", lhs, rhs, cases)


# The gradient with respect to the probabilities

def _states_moved():
    """Each state that carries k: alpha beta of its frame at y, and at y with one entry moved by h and by -h."""
    h = Fraction(1, 5)
    for y, targets in INPUTS:
        alpha, beta = ctc_alpha(y, targets), beta_2006(y, targets)
        for t, k in np.ndindex(y.shape):
            moved = {}
            for sign in (+1, -1):
                there = y.copy()
                there[t, k] += sign * h
                moved[sign] = ctc_alpha(there, targets)[t] * beta_2006(there, targets)[t], there[t, k]
            for s, label in enumerate(extended(targets)):
                if label == k:
                    (up, y_up), (down, y_down) = moved[+1], moved[-1]
                    prime = (up[s] - down[s]) / (2 * h)  # exact: alpha beta is a quadratic polynomial in y_t(k)
                    quotient = (up[s] / y_up - down[s] / y_down) / (2 * h)
                    yield prime, quotient, alpha, beta, y, t, k, s


@pytest.mark.equation("eq-ctc-2006-prime")
def test_prime():
    """Exact central difference of alpha * beta by enumeration against 2 / y times it."""
    def rhs(prime, quotient, alpha, beta, y, t, k, s):
        return 2 / y[t, k] * alpha[t, s] * beta[t, s]

    check_equation("eq-ctc-2006-prime", lambda prime, *_: prime, rhs, _states_moved())


@pytest.mark.equation("eq-ctc-2006-quotient")
def test_quotient():
    """Exact difference of alpha * beta / y against the quotient rule."""
    def rhs(prime, quotient, alpha, beta, y, t, k, s):
        return 1 / y[t, k] ** 2 * (prime * y[t, k] - alpha[t, s] * beta[t, s])

    check_equation("eq-ctc-2006-quotient", lambda prime, quotient, *_: quotient, rhs, _states_moved())


@pytest.mark.equation("eq-ctc-2006-grad-probs")
def test_grad_probs():
    """Exact difference of the sum over strings against alpha * beta over y squared."""
    def rhs(derivative, alpha, beta, labels, y, t, k, S):
        return 1 / y[t, k] ** 2 * sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    cases = [(ctc_grad_probs(y, targets, t, k), ctc_alpha(y, targets), beta_2006(y, targets), extended(targets), y,
              t, k, 2 * len(targets) + 1) for y, targets in INPUTS for t, k in np.ndindex(y.shape)]
    check_equation("eq-ctc-2006-grad-probs", lambda derivative, *_: derivative, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-linear")
def test_linear():
    """Z over all strings against beginnings before t, one emission, endings after t."""
    def rhs(z, y, arriving, beta, labels, t, S):
        return sum(y[t, labels[s]] * arriving[t, s] * beta[t, s] for s in range(0, S))

    cases = [(ctc_z(y, targets), y, ctc_alpha_arriving(y, targets), ctc_beta(y, targets), extended(targets), t,
              2 * len(targets) + 1) for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-2006-linear", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-coefficient")
def test_coefficient():
    """Exact difference against beginnings before t times endings after t, also where y is 0."""
    def rhs(derivative, arriving, beta, labels, t, k, S):
        return sum(arriving[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    cases = []
    for y, targets in INPUTS:
        for t, k in np.ndindex(y.shape):
            with_zero = y.copy()
            with_zero[t, k] = Fraction(0)
            cases += [(ctc_grad_probs(at, targets, t, k), ctc_alpha_arriving(at, targets), ctc_beta(at, targets),
                       extended(targets), t, k, 2 * len(targets) + 1) for at in (y, with_zero)]
    check_equation("eq-ctc-2006-coefficient", lambda derivative, *_: derivative, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-grad-log")
def test_grad_log():
    """sympy's derivative of the log of the sum over strings against alpha * beta over Z and y squared."""
    def rhs(slope, alpha, beta, labels, z, y, t, k, S):
        return 1 / (z * y[t, k] ** 2) * sum(alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    cases = []
    for y, targets in INPUTS[0], INPUTS[1]:
        slopes = -slopes_in_logs(y, [list(enumerate(string)) for string in ctc_strings(y, targets)]) / y
        cases += [(slopes[t, k], ctc_alpha(y, targets), beta_2006(y, targets), extended(targets), ctc_z(y, targets), y,
                   t, k, 2 * len(targets) + 1) for t, k in np.ndindex(y.shape)]
    check_equation("eq-ctc-2006-grad-log", lambda slope, *_: slope, rhs, cases)


# Through the softmax

_, EPSILON = field("epsilon", QQ)


def at_zero(f):
    """Value and slope of a rational function of epsilon, at 0."""
    f = f + 0 * EPSILON
    values = [g.numer.coeff(1) / g.denom.coeff(1) for g in (f, f.diff(EPSILON))]
    return [Fraction(int(value.numerator), int(value.denominator)) for value in values]


def softmax_slopes(row, k):
    """d y(j) / d u(k) for every j: x = e^u, so the logit is moved by x(k) -> x(k) (1 + epsilon)."""
    x = [QQ(v.numerator, v.denominator) * (1 + EPSILON * (j == k)) for j, v in enumerate(row)]
    return [y / sum(x) for y in x]


def grad_logits(x, targets, t, k):
    """d(-log Z) / d u_t(k) of the sum over strings, Z as a rational function of epsilon: no chain rule of ours."""
    y = x / x.sum(axis=1, keepdims=True)
    moved, z = softmax_slopes(x[t], k), 0
    for string in ctc_strings(y, targets):
        rest = mass(y, string) / y[t, string[t]]
        z += QQ(rest.numerator, rest.denominator) * moved[string[t]]
    value, slope = at_zero(z)
    return -slope / value


def _through_the_softmax():
    """Derivative with respect to a logit; M, Z, y; d log Z / dy by exact differences, dy / du by sympy."""
    for x, (y, targets) in zip(SCORES, SOFTMAX, strict=True):
        M, z, (T, V) = by_symbol(y, targets), ctc_z(y, targets), y.shape
        slope = np.array([[ctc_grad_probs(y, targets, t, j) / z for j in range(V)] for t in range(T)], dtype=object)
        for t, k in np.ndindex(T, V):
            jacobian = [at_zero(f)[1] for f in softmax_slopes(x[t], k)]
            yield grad_logits(x, targets, t, k), M, z, y, slope, jacobian, t, k, V


@pytest.mark.equation("eq-ctc-2006-chain")
def test_chain():
    """The derivative of -log Z with respect to a logit against the sum over the probabilities of its frame."""
    def rhs(derivative, M, z, y, slope, jacobian, t, k, V):
        return -sum(slope[t, j] * jacobian[j] for j in range(0, V))

    check_equation("eq-ctc-2006-chain", lambda derivative, *_: derivative, rhs, _through_the_softmax())


@pytest.mark.equation("eq-ctc-2006-substituted")
def test_substituted():
    """The same with both derivatives put in."""
    def rhs(derivative, M, z, y, slope, jacobian, t, k, V):
        return -sum(M[t, j] / (z * y[t, j] ** 2) * y[t, j] * ((j == k) - y[t, k]) for j in range(0, V))

    check_equation("eq-ctc-2006-substituted", lambda derivative, *_: derivative, rhs, _through_the_softmax())


@pytest.mark.equation("eq-ctc-2006-cancelled")
def test_cancelled():
    """The same with one y cancelled and the sign taken inside."""
    def rhs(derivative, M, z, y, slope, jacobian, t, k, V):
        return sum((y[t, k] - (j == k)) * M[t, j] / (z * y[t, j]) for j in range(0, V))

    check_equation("eq-ctc-2006-cancelled", lambda derivative, *_: derivative, rhs, _through_the_softmax())


@pytest.mark.equation("eq-ctc-2006-split")
def test_split():
    """The same as two sums."""
    def rhs(derivative, M, z, y, slope, jacobian, t, k, V):
        return (y[t, k] / z * sum(M[t, j] / y[t, j] for j in range(0, V))
                - sum((j == k) * M[t, j] / (z * y[t, j]) for j in range(0, V)))

    below = {"shift bound: range(0, V) -> range(0 - 1, V)": "of the second sum, where the bracket is 0 at j = -1"}
    cases = _through_the_softmax()
    check_equation("eq-ctc-2006-split", lambda derivative, *_: derivative, rhs, cases, equivalent=below)


@pytest.mark.equation("eq-ctc-2006-regrouped")
def test_regrouped():
    """Z over all strings against the sum over the whole vocabulary."""
    def rhs(z, M, y, t, V):
        return sum(M[t, j] / y[t, j] for j in range(0, V))

    cases = [(ctc_z(y, targets), by_symbol(y, targets), y, t, y.shape[1])
             for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-2006-regrouped", lambda z, *_: z, rhs, cases)


# Rescaling

def _hats():
    """alpha and beta divided by random numbers, some of them negative, one for each frame."""
    for seed, (x, (y, targets)) in enumerate(zip(SCORES, SOFTMAX, strict=True)):
        c, d = (probabilities(seed + shift, (len(y),)) * (-1) ** np.arange(len(y)) for shift in (30, 40))
        yield x, y, targets, c, d, ctc_alpha(y, targets) / c[:, None], beta_2006(y, targets) / d[:, None]


@pytest.mark.equation("eq-ctc-2006-scaled-total")
def test_scaled_total():
    """The sum over a frame of scaled variables against Z by enumeration, divided by both scales."""
    def lhs(alpha, beta, y, labels, z, c, d, t):
        return sum(alpha[t, s] * beta[t, s] / y[t, label] for s, label in enumerate(labels))

    def rhs(alpha, beta, y, labels, z, c, d, t):
        return z / (c[t] * d[t])

    cases = [(alpha, beta, y, extended(targets), ctc_z(y, targets), c, d, t)
             for _, y, targets, c, d, alpha, beta in _hats() for t in range(len(y))]
    check_equation("eq-ctc-2006-scaled-total", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-grad-scaled")
def test_grad_scaled():
    """Derivative with respect to a logit, of the sum over strings, against the formula in scaled variables."""
    def rhs(derivative, alpha, beta, y, labels, z, t, k, S):
        return y[t, k] - 1 / (z[t] * y[t, k]) * sum(
            alpha[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    cases = []
    for x, y, targets, _, _, alpha, beta in _hats():
        labels = extended(targets)
        z = [sum(alpha[t, s] * beta[t, s] / y[t, label] for s, label in enumerate(labels)) for t in range(len(y))]
        cases += [(grad_logits(x, targets, t, k), alpha, beta, y, labels, z, t, k, len(labels))
                  for t, k in np.ndindex(y.shape)]
    check_equation("eq-ctc-2006-grad-scaled", lambda derivative, *_: derivative, rhs, cases)


def prune_alpha(y, targets):
    alpha, S = ctc_alpha(y, targets), 2 * len(targets) + 1
    for t, s in states(y, targets):
        alpha[t, s] *= s >= S - 2 * (len(y) - t)
    return alpha


def prune_beta(y, targets):
    beta = beta_2006(y, targets)
    for t, s in states(y, targets):
        beta[t, s] *= s <= 2 * t + 1
    return beta


@pytest.mark.equation("eq-ctc-2006-alpha-hat")
def test_alpha_hat():
    """The rescaled recursion, with and without pruning, against alpha by enumeration over the product of the scales."""
    def lhs(hat, alpha, C, t, s):
        return hat[t, s]

    def rhs(hat, alpha, C, t, s):
        return alpha[t, s] / prod(C[i] for i in range(0, t + 1))

    cases = []
    for y, targets in INPUTS:
        for prune, alpha in (True, prune_alpha(y, targets)), (False, ctc_alpha(y, targets)):
            hat, C = rescaled_alpha(y, targets, prune=prune)
            cases += [(hat, alpha, C, t, s) for t, s in states(y, targets)]
    check_equation("eq-ctc-2006-alpha-hat", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-beta-hat")
def test_beta_hat():
    """The rescaled recursion, with and without pruning, against beta by enumeration over the product of the scales."""
    def lhs(hat, beta, D, T, t, s):
        return hat[t, s]

    def rhs(hat, beta, D, T, t, s):
        return beta[t, s] / prod(D[i] for i in range(t, T))

    cases = []
    for y, targets in INPUTS:
        for prune, beta in (True, prune_beta(y, targets)), (False, beta_2006(y, targets)):
            hat, D = rescaled_beta(y, targets, prune=prune)
            cases += [(hat, beta, D, len(y), t, s) for t, s in states(y, targets)]
    check_equation("eq-ctc-2006-beta-hat", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-scales-product")
def test_scales_product():
    """The product of the first scales against the sum of a frame of alpha by enumeration."""
    def rhs(C, alpha, t, S):
        return sum(alpha[t, s] for s in range(0, S))

    cases = [(rescaled_alpha(y, targets, prune=False)[1], zero_outside(ctc_alpha(y, targets), zero=5), t,
              2 * len(targets) + 1) for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-2006-scales-product", lambda C, alpha, t, S: prod(C[:t + 1]), rhs, cases)


@pytest.mark.equation("eq-ctc-2006-loss-alpha")
def test_loss_alpha():
    """Z over all strings against the part of the last frame that ends, times the product of the scales."""
    def rhs(z, hat, C, T, S):
        return (hat[T - 1, S - 1] + hat[T - 1, S - 2]) * prod(C[t] for t in range(0, T))

    cases = []
    for y, targets in INPUTS:
        for prune in (True, False):
            hat, C = rescaled_alpha(y, targets, prune=prune)
            cases.append((ctc_z(y, targets), zero_outside(hat), zero_outside(C), len(y), 2 * len(targets) + 1))
    check_equation("eq-ctc-2006-loss-alpha", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-loss-pruned")
def test_loss_pruned():
    """Z over all strings, also where there is none, against the product of the scales of the pruned recursion."""
    def rhs(z, C, T):
        return prod(C[t] for t in range(0, T))

    cases = [(ctc_z(y, targets), zero_outside(rescaled_alpha(y, targets)[1]), len(y))
             for y, targets in [*INPUTS, (INPUTS[1][0][:2], [1, 1]), (INPUTS[2][0][:3], [2, 2, 1])]]
    check_equation("eq-ctc-2006-loss-pruned", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-loss-beta")
def test_loss_beta():
    """Z over all strings against the part of the first frame where paths begin, times the product of the scales."""
    def rhs(z, hat, D, T):
        return (hat[0, 0] + hat[0, 1]) * prod(D[t] for t in range(0, T))

    cases = []
    for y, targets in INPUTS:
        for prune in (True, False):
            hat, D = rescaled_beta(y, targets, prune=prune)
            cases.append((ctc_z(y, targets), zero_outside(hat), zero_outside(D), len(y)))
    check_equation("eq-ctc-2006-loss-beta", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-ctc-2006-loss-beta-pruned")
def test_loss_beta_pruned():
    """Z over all strings against the product of the scales of the pruned backward recursion."""
    def rhs(z, D, T):
        return prod(D[t] for t in range(0, T))

    cases = [(ctc_z(y, targets), zero_outside(rescaled_beta(y, targets)[1]), len(y)) for y, targets in INPUTS]
    check_equation("eq-ctc-2006-loss-beta-pruned", lambda z, *_: z, rhs, cases)


# In the log domain

@pytest.mark.equation("eq-ctc-2006-kernel")
def test_kernel():
    """Softmax minus occupancy, by enumeration in fractions, against the formula of the kernels in floats."""
    def lhs(y, occupancy, log_y, m, log_z, t, k):
        return float(y[t, k] - occupancy[t, k])

    def rhs(y, occupancy, log_y, m, log_z, t, k):
        return np.exp(log_y[t, k]) - np.exp(m[t, k] - log_y[t, k] - log_z)

    cases = []
    for y, targets in SOFTMAX:
        log_y = np.log(y.astype(float))
        thesis = ctc.log_alpha(log_y, targets), ctc.log_beta(log_y, targets)
        log_alpha, log_beta = convert(*thesis, log_y, targets, source="thesis", target="2006")
        m = np.full(y.shape, -np.inf)
        np.logaddexp.at(m, np.s_[:, extended(targets)], log_alpha + log_beta)
        cases += [(y, ctc_occupancy(y, targets), log_y, m, float(np.log(float(ctc_z(y, targets)))), t, k)
                  for t, k in np.ndindex(y.shape)]
    check_equation("eq-ctc-2006-kernel", lhs, rhs, cases, tolerance=1e-12)

"""Checks of the equations of the chapter on the CTC loss. The left sides come from strings, not from recursions."""

from fractions import Fraction
from itertools import product
from math import ceil, comb, prod

import numpy as np
import pytest
from brute_force import CTC_INPUTS as INPUTS
from brute_force import (
    ctc_alpha,
    ctc_alpha_arriving,
    ctc_beta,
    ctc_beta_2006,
    ctc_skip,
    ctc_strings,
    ctc_z,
    extended,
    mass,
    probabilities,
    stands_in,
    states,
)
from enumeration import collapse

from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import target_patterns

# every pattern of repeats of up to three labels, in every number of frames up to five
PATTERNS = [(probabilities(T, (T, 4)), targets)
            for T in range(1, 6) for U in range(4) for targets in target_patterns(U)]
UNDEFINED = 7


def repeats(targets):
    """r_1 .. r_{U-1}; reading r_0 or r_U is a mistake that shows."""
    r = [UNDEFINED, *(int(a == b) for a, b in zip(targets, targets[1:], strict=False))]
    return zero_outside(np.array(r, dtype=object), zero=UNDEFINED)


@pytest.mark.equation("eq-ctc-append")
def test_append():
    """The collapse map on a string that grew by one symbol, against the collapse map before."""
    def rhs(rho, k):
        return collapse(rho, 0) + (0 if k == 0 else 0 if k == rho[-1] else 1) * [k]

    cases = [(rho, k) for n in range(1, 5) for rho in product(range(3), repeat=n) for k in range(3)]
    check_equation("eq-ctc-append", lambda rho, k: collapse([*rho, k], 0), rhs, cases)


@pytest.mark.equation("eq-ctc-normalised")
def test_normalised():
    """Z by strings, added up over all targets, against the product of the frames' sums, also where these are not 1."""
    def lhs(y, T, V):
        targets = (target for U in range(T + 1) for target in product(range(1, V), repeat=U))
        return sum(ctc_z(y.array, target) for target in targets)

    def rhs(y, T, V):
        return prod(sum(y[t, k] for k in range(0, V)) for t in range(0, T))

    cases = [(zero_outside(probabilities(T, (T, V)), zero=UNDEFINED), T, V) for T, V in [(3, 3), (4, 2), (1, 3)]]
    check_equation("eq-ctc-normalised", lhs, rhs, cases)


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

    cases = [(zero_outside(ctc_alpha(y, targets)), y, extended(targets), ctc_skip(targets), t, s)
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

    cases = [(zero_outside(ctc_beta(y, targets)), y, zero_outside(extended(targets)),
              zero_outside(ctc_skip(targets)), t, s)
             for y, targets in INPUTS for t in range(len(y) - 1) for s in range(2 * len(targets) + 1)]
    check_equation("eq-ctc-beta", lambda beta, y, labels, kappa, t, s: beta.array[t, s], rhs, cases)


@pytest.mark.equation("eq-ctc-beta-total")
def test_beta_total():
    """Z over all strings against the endings of the two states in which a path may begin."""
    def rhs(z, y, labels, beta):
        return y[0, labels[0]] * beta[0, 0] + y[0, labels[1]] * beta[0, 1]

    cases = [(ctc_z(y, targets), y, zero_outside(extended(targets), zero=2), zero_outside(ctc_beta(y, targets)))
             for y, targets in INPUTS]
    check_equation("eq-ctc-beta-total", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-ctc-node-mass")
def test_node_mass():
    """alpha * beta against the strings that stand in state s at frame t."""
    def lhs(alpha, beta, strings, y, targets, t, s):
        return alpha[t, s] * beta[t, s]

    def rhs(alpha, beta, strings, y, targets, t, s):
        return sum(mass(y, string) * stands_in(string, t, s, targets) for string in strings)

    cases = [(ctc_alpha(y, targets), ctc_beta(y, targets), ctc_strings(y, targets), y, targets, t, s)
             for y, targets in INPUTS for t, s in states(y, targets)]
    check_equation("eq-ctc-node-mass", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-frame-sum")
def test_frame_sum():
    """Z over all strings against the sum over the states of each frame."""
    def rhs(z, alpha, beta, t, S):
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S))

    cases = [(ctc_z(y, targets), ctc_alpha(y, targets), ctc_beta(y, targets), t, 2 * len(targets) + 1)
             for y, targets in INPUTS for t in range(len(y))]
    check_equation("eq-ctc-frame-sum", lambda z, alpha, beta, t, S: z, rhs, cases)


@pytest.mark.equation("eq-ctc-alpha-zeros")
def test_alpha_zeros():
    """Where there is a beginning, by strings, against the frames that labels and blanks before repeats take."""
    def rhs(alpha, r, t, s):
        return +(s // 2 + sum(r[j] for j in range(1, ceil(s / 2))) <= t)

    cases = [(alpha, repeats(targets), t, s)
             for y, targets in PATTERNS for alpha in [ctc_alpha(y, targets)] for t, s in states(y, targets)]
    check_equation("eq-ctc-alpha-zeros", lambda alpha, r, t, s: alpha[t, s] > 0, rhs, cases)


@pytest.mark.equation("eq-ctc-beta-zeros")
def test_beta_zeros():
    """Where there is an ending, by strings, against the frames that the rest of the target takes."""
    def rhs(beta, r, t, s, T, U):
        return +(U - ceil(s / 2) + sum(r[j] for j in range(s // 2 + 1, U)) <= T - 1 - t)

    cases = [(beta, repeats(targets), t, s, len(y), len(targets))
             for y, targets in PATTERNS for beta in [ctc_beta(y, targets)] for t, s in states(y, targets)]
    check_equation("eq-ctc-beta-zeros", lambda beta, r, t, s, T, U: beta[t, s] > 0, rhs, cases)


@pytest.mark.equation("eq-ctc-path-count")
def test_path_count():
    """The number of strings that collapse to the target against the binomial coefficient, feasible or not."""
    def rhs(targets, T, U, R):
        return comb(T + U - R, 2 * U)

    cases = [(targets, T, len(targets), sum(a == b for a, b in zip(targets, targets[1:], strict=False)))
             for T in range(7) for U in range(4) for targets in target_patterns(U)]

    def lhs(targets, T, U, R):
        return len(ctc_strings(np.ones((T, 1 + len(set(targets)))), targets))

    check_equation("eq-ctc-path-count", lhs, rhs, cases)


def _conventions():
    for y, targets in INPUTS:
        alphas = ctc_alpha(y, targets), ctc_alpha_arriving(y, targets)
        betas = ctc_beta(y, targets), ctc_beta_2006(y, targets)
        for t, s in states(y, targets):
            yield *alphas, *betas, y, extended(targets), t, s


@pytest.mark.equation("eq-ctc-conventions-alpha")
def test_conventions_alpha():
    """Beginnings with the emission of the node against beginnings without it, both by strings."""
    def rhs(alpha, arriving, beta, beta_2006, y, labels, t, s):
        return y[t, labels[s]] * arriving[t, s]

    def lhs(alpha, arriving, beta, beta_2006, y, labels, t, s):
        return alpha[t, s]

    check_equation("eq-ctc-conventions-alpha", lhs, rhs, _conventions())


@pytest.mark.equation("eq-ctc-conventions-beta")
def test_conventions_beta():
    """Endings without the emission of the node against endings that begin with it, both by strings."""
    def rhs(alpha, arriving, beta, beta_2006, y, labels, t, s):
        return beta_2006[t, s] / y[t, labels[s]]

    def lhs(alpha, arriving, beta, beta_2006, y, labels, t, s):
        return beta[t, s]

    check_equation("eq-ctc-conventions-beta", lhs, rhs, _conventions())


def _node_mass(alpha, arriving, beta, beta_2006, y, labels, t, s):
    """The mass through the node by whole strings."""
    targets = [label for label in labels if label]
    return sum((mass(y, string) for string in ctc_strings(y, targets) if stands_in(string, t, s, targets)),
               Fraction(0))


@pytest.mark.equation("eq-ctc-conventions-2006")
def test_conventions_2006():
    """The mass through a node by whole strings against the 2006 pair, divided by the emission once."""
    def rhs(alpha, arriving, beta, beta_2006, y, labels, t, s):
        return alpha[t, s] * beta_2006[t, s] / y[t, labels[s]]

    check_equation("eq-ctc-conventions-2006", _node_mass, rhs, _conventions())


@pytest.mark.equation("eq-ctc-conventions-arcs")
def test_conventions_arcs():
    """The mass through a node by whole strings against the pair of weights on leaving arcs."""
    def rhs(alpha, arriving, beta, beta_2006, y, labels, t, s):
        return arriving[t, s] * beta_2006[t, s]

    check_equation("eq-ctc-conventions-arcs", _node_mass, rhs, _conventions())


@pytest.mark.equation("eq-ctc-conventions-neither")
def test_conventions_neither():
    """The mass through a node by whole strings against the pair without the emission, multiplied by it once."""
    def rhs(alpha, arriving, beta, beta_2006, y, labels, t, s):
        return arriving[t, s] * y[t, labels[s]] * beta[t, s]

    check_equation("eq-ctc-conventions-neither", _node_mass, rhs, _conventions())

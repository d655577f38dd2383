"""Checks of the equations of the chapter on the CTC loss. The left sides come from strings, not from recursions."""

from fractions import Fraction
from itertools import product
from math import ceil, comb, prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import (
    CTC_INPUTS,
    Target,
    ctc_alpha,
    ctc_alpha_arriving,
    ctc_beta,
    ctc_beta_2006,
    ctc_skip,
    ctc_strings,
    ctc_through,
    ctc_z,
    every_target,
    extended,
    mass,
    probabilities,
    stands_in,
    states,
)
from enumeration import collapse
from tex_to_python import Notation

from reference_impl import ctc
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.semiring import REAL
from reference_impl.symbolic import target_patterns


def repeats(targets):
    return [int(a == b) for a, b in zip(targets, targets[1:], strict=False)]


def _fewest(targets):
    """Frames that a target needs."""
    return len(targets) + sum(repeats(targets))


def _plain(values):
    return getattr(values, "array", values)


ZERO = "an entry of y that is 0"
NOTATION = notation.CTC | Notation({r"\alpha^-_{#t}(#s)": "arriving[#t, #s]", "[ l_j = l_{j-1} ]": "r[j]"})
QUANTITIES = ranges.CTC | Quantities(
    {"arriving": "T, 2 U + 1", "beta_2006": "T, 2 U + 1", "through": "T, 2 U + 1"},
    {"a blank that is not 0": (*ranges.CTC.ends["a blank that is not 0"], lambda blank: blank != 0),
     "T < U + R": (lambda T, U, R: T < U + R, lambda T, labels: T < _fewest(_plain(labels)[1::2]),
                   lambda T, targets: T < _fewest(targets)),
     ZERO: lambda y: (_plain(y) == 0).any()})


def _with_zero(seed, shape, *entry):
    y = probabilities(seed, shape)
    y[entry] = Fraction(0)
    return y


# besides, an impossible symbol, too few frames for a repeat, and for the labels alone
INPUTS = [*CTC_INPUTS, (_with_zero(8, (3, 3), 1, 1), [1, 2]), (probabilities(9, (2, 3)), [1, 1]),
          (probabilities(10, (2, 3)), [1, 2, 1])]
UNDEFINED = 7


def _patterns(frames):
    """Every pattern of repeats of up to three labels; the blank is the first symbol, or, in 2, 4, ... frames, the
    last one."""
    for T in frames:
        for targets in (targets for U in range(4) for targets in target_patterns(U)):
            V = 1 + len(set(targets))
            yield T, V, Target([k - 1 for k in targets], blank=V - 1) if T in {2, 4, 6} else targets


def _nodes():
    """Every pattern in every number of frames up to five: y, the targets, r, t, s."""
    for T, V, targets in _patterns(range(1, 6)):
        y = probabilities(T, (T, V))
        for t, s in states(y, targets):
            yield y, targets, _r(targets), t, s


def _r(targets):
    """Whether labels 1 .. U - 1 are repeats; reading r[0] or r[U] is a mistake that shows."""
    return zero_outside(np.array([UNDEFINED, *repeats(targets)], dtype=object), zero=UNDEFINED)


@computed(kind="walking")
def spelled(string, blank):
    """What a string collapses to."""
    return collapse(string, blank)


@pytest.mark.equation("eq-ctc-append")
def test_append():
    """The collapse map on a string that grew by one symbol, against the collapse map before."""
    def lhs(rho, k, blank):
        return spelled([*rho, k], blank)

    def rhs(rho, k, blank):
        return spelled(rho, blank) + (0 if k == blank else 0 if k == rho[-1] else 1) * [k]

    check_equation("eq-ctc-append", lhs, rhs, (
        (list(rho), k, blank) for blank, longest in [(0, 4), (2, 2)] for n in range(1, longest + 1)
        for rho in product(range(3), repeat=n) for k in range(3)))


@pytest.mark.equation("eq-ctc-normalised", patterns={"Z(l)": "ctc_z(y.array, l)"}, over={"l": "every"})
def test_normalised():
    """Z by strings, added up over all targets, against the product of the frames' sums, also where these are not 1.
    The targets go up to one label more than there are frames."""
    def lhs(y, every, T, V):
        return sum(ctc_z(y.array, targets) for targets in every)

    def rhs(y, every, T, V):
        return prod(sum(y[t, k] for k in range(0, V)) for t in range(0, T))

    check_equation("eq-ctc-normalised", lhs, rhs, (
        (zero_outside(_with_zero(T, (T, V), 0, 1), zero=UNDEFINED), every_target(T, V, blank), T, V)
        for T, V, blank in [(3, 3, 0), (4, 2, 1), (1, 3, 2)]))


@pytest.mark.equation("eq-ctc-alpha-start")
def test_alpha_start():
    """First column of alpha against prefixes of one symbol."""
    def lhs(alpha, y, labels, s):
        return alpha[0, s]

    def rhs(alpha, y, labels, s):
        return (s <= 1) * y[0, labels[s]]

    check_equation("eq-ctc-alpha-start", lhs, rhs, (
        (ctc_alpha(y, targets), y, extended(targets), s)
        for y, targets in INPUTS for s in range(2 * len(targets) + 1)))


@pytest.mark.equation("eq-ctc-alpha", "eq-short-alpha")
def test_alpha_recursion():
    """Each alpha by enumeration of strings against the recursion from the alphas one frame earlier."""
    def lhs(alpha, y, labels, kappa, t, s):
        return alpha[t, s]

    def rhs(alpha, y, labels, kappa, t, s):
        return (alpha[t - 1, s] + alpha[t - 1, s - 1] + kappa[s] * alpha[t - 1, s - 2]) * y[t, labels[s]]

    cases = [(zero_outside(ctc_alpha(y, targets)), y, extended(targets), ctc_skip(targets), t, s)
             for y, targets in INPUTS for t, s in states(y, targets) if t >= 1]
    left_out = {end: "for t >= 1" for end in ("T = 1", "t = 0")}
    check_equation("eq-ctc-alpha", lhs, rhs, cases, left_out=left_out)
    check_equation("eq-short-alpha", lhs, rhs, cases, left_out=left_out)


@pytest.mark.equation("eq-ctc-total")
def test_total():
    """Z over all strings against the last two alphas."""
    def rhs(z, alpha, T, S):
        return alpha[T - 1, S - 1] + alpha[T - 1, S - 2]

    check_equation("eq-ctc-total", lambda z, alpha, T, S: z, rhs, (
        (ctc_z(y, targets), zero_outside(ctc_alpha(y, targets)), len(y), 2 * len(targets) + 1)
        for y, targets in INPUTS))


def test_no_frames():
    """Without frames the empty target has one string, the empty one, and Z = 1; both formulas for Z would read 0."""
    y = np.ones((0, 2))
    assert ctc_strings(y, []) == [()] and ctc_strings(y, [1]) == []
    assert ctc.Z(y, [], semiring=REAL) == 1 and ctc.Z(y, [1], semiring=REAL) == 0
    alpha, beta = (zero_outside(f(y, [], semiring=REAL)) for f in (ctc.alpha, ctc.beta))
    assert alpha[-1, 0] + alpha[-1, -1] == 0 == beta[0, 0] + beta[0, 1]


@pytest.mark.equation("eq-ctc-beta-end")
def test_beta_end():
    """Last column of beta: whether the empty suffix completes the target."""
    def lhs(beta, T, S, s):
        return beta[T - 1, s]

    def rhs(beta, T, S, s):
        return +(s >= S - 2)

    check_equation("eq-ctc-beta-end", lhs, rhs, (
        (ctc_beta(y, targets), len(y), 2 * len(targets) + 1, s)
        for y, targets in INPUTS for s in range(2 * len(targets) + 1)))


@pytest.mark.equation("eq-ctc-beta")
def test_beta_recursion():
    """Each beta by enumeration of strings against the recursion from the betas one frame later."""
    def lhs(beta, y, labels, kappa, t, s):
        return beta[t, s]

    def rhs(beta, y, labels, kappa, t, s):
        return (y[t + 1, labels[s]] * beta[t + 1, s] + y[t + 1, labels[s + 1]] * beta[t + 1, s + 1]
                + kappa[s + 2] * y[t + 1, labels[s + 2]] * beta[t + 1, s + 2])

    check_equation("eq-ctc-beta", lhs, rhs, (
        (zero_outside(ctc_beta(y, targets)), y, zero_outside(extended(targets)), zero_outside(ctc_skip(targets)), t, s)
        for y, targets in INPUTS for t, s in states(y, targets) if t <= len(y) - 2),
        left_out={end: "for t <= T - 2" for end in ("T = 1", "t = T - 1")})


@pytest.mark.equation("eq-ctc-beta-total")
def test_beta_total():
    """Z over all strings against the suffixes of the two states in which a path may begin."""
    def rhs(z, y, labels, beta):
        return y[0, labels[0]] * beta[0, 0] + y[0, labels[1]] * beta[0, 1]

    check_equation("eq-ctc-beta-total", lambda z, *_: z, rhs, (
        (ctc_z(y, targets), y, zero_outside(extended(targets), zero=1), zero_outside(ctc_beta(y, targets)))
        for y, targets in INPUTS))


@pytest.mark.equation("eq-ctc-node-mass", patterns={r"w(\pi)": "mass(y, pi)"}, over={
    r"\substack{\pi \,:\; \mathcal B(\pi) = l, \\ \text{in state } s \text{ at frame } t}":
    "for pi in strings if stands_in(pi, t, s, targets)"})
def test_node_mass():
    """alpha * beta against the strings that stand in state s at frame t."""
    def lhs(alpha, beta, strings, y, targets, t, s):
        return alpha[t, s] * beta[t, s]

    def rhs(alpha, beta, strings, y, targets, t, s):
        return sum(mass(y, string) * stands_in(string, t, s, targets) for string in strings)

    check_equation("eq-ctc-node-mass", lhs, rhs, (
        (ctc_alpha(y, targets), ctc_beta(y, targets), ctc_strings(y, targets), y, targets, t, s)
        for y, targets in INPUTS for t, s in states(y, targets)))


@pytest.mark.equation("eq-ctc-frame-sum")
def test_frame_sum():
    """Z over all strings against the sum over the states of each frame."""
    def rhs(z, alpha, beta, t, S):
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S))

    check_equation("eq-ctc-frame-sum", lambda z, alpha, beta, t, S: z, rhs, (
        (ctc_z(y, targets), ctc_alpha(y, targets), ctc_beta(y, targets), t, 2 * len(targets) + 1)
        for y, targets in INPUTS for t in range(len(y))))


@pytest.mark.equation("eq-ctc-alpha-zeros")
def test_alpha_zeros():
    """Where there is a prefix, by strings, against the frames that labels and blanks before repeats take."""
    def lhs(alpha, r, t, s):
        return alpha[t, s] > 0

    def rhs(alpha, r, t, s):
        return +(s // 2 + sum(r[j] for j in range(1, ceil(s / 2))) <= t)

    check_equation("eq-ctc-alpha-zeros", lhs, rhs, (
        (ctc_alpha(y, targets), r, t, s) for y, targets, r, t, s in _nodes()), left_out={ZERO: "for y > 0"})


@pytest.mark.equation("eq-ctc-beta-zeros")
def test_beta_zeros():
    """Where there is a suffix, by strings, against the frames that the rest of the target takes."""
    def lhs(beta, r, t, s, T, U):
        return beta[t, s] > 0

    def rhs(beta, r, t, s, T, U):
        return +(U - ceil(s / 2) + sum(r[j] for j in range(s // 2 + 1, U)) <= T - 1 - t)

    check_equation("eq-ctc-beta-zeros", lhs, rhs, (
        (ctc_beta(y, targets), r, t, s, len(y), len(targets)) for y, targets, r, t, s in _nodes()),
        left_out={ZERO: "for y > 0"})


def test_zeros_of_y():
    """With an entry of y that is 0, alpha and beta vanish at more nodes than the proposition says."""
    y = _with_zero(8, (3, 3), 1, 0)
    assert ctc_alpha(y, [1, 1])[1, 2] == 0 == ctc_beta(y, [1, 1])[0, 1]
    assert ctc_alpha(y + 1, [1, 1])[1, 2] > 0 < ctc_beta(y + 1, [1, 1])[0, 1]


@pytest.mark.equation("eq-ctc-path-count", patterns={"N(T, l)": "count"})
def test_path_count():
    """The number of strings that collapse to the target against the binomial coefficient, feasible or not."""
    def rhs(count, T, U, R):
        return comb(T + U - R, 2 * U)

    check_equation("eq-ctc-path-count", lambda count, T, U, R: count, rhs, (
        (len(ctc_strings(np.ones((T, V)), targets)), T, len(targets), sum(repeats(targets)))
        for T, V, targets in _patterns(range(7))), left_out={ZERO: "paths are counted, whatever y is"})


def _at_nodes(*masses, without_zero=False):
    """At every node: the arrays of masses, y, labels, t, s."""
    for y, targets in INPUTS:
        if not (without_zero and (y == 0).any()):
            arrays = [of(y, targets) for of in masses]
            for t, s in states(y, targets):
                yield *arrays, y, extended(targets), t, s


NO_ZERO = {ZERO: "for y > 0"}
POSITIVE = {r"\text{where } y_t(l'_s) > 0": "y[t, labels[s]] > 0"}


@pytest.mark.equation("eq-ctc-conventions-alpha")
def test_conventions_alpha():
    """Prefixes with the emission of the node against prefixes without it, both by strings."""
    def lhs(alpha, arriving, y, labels, t, s):
        return alpha[t, s]

    def rhs(alpha, arriving, y, labels, t, s):
        return y[t, labels[s]] * arriving[t, s]

    check_equation("eq-ctc-conventions-alpha", lhs, rhs, _at_nodes(ctc_alpha, ctc_alpha_arriving))


@pytest.mark.equation("eq-ctc-conventions-beta", conditions=POSITIVE)
def test_conventions_beta():
    """Suffixes without the emission of the node against suffixes that begin with it, both by strings."""
    def lhs(beta, beta_2006, y, labels, t, s):
        return beta[t, s]

    def rhs(beta, beta_2006, y, labels, t, s):
        return beta_2006[t, s] / y[t, labels[s]]

    cases = _at_nodes(ctc_beta, ctc_beta_2006, without_zero=True)
    check_equation("eq-ctc-conventions-beta", lhs, rhs, cases, left_out=NO_ZERO)


@pytest.mark.equation("eq-ctc-conventions-2006")
def test_conventions_2006():
    """The mass through a node by whole strings against the 2006 pair, divided by the emission once."""
    def lhs(through, alpha, beta, beta_2006, y, labels, t, s):
        return through[t, s]

    def rhs(through, alpha, beta, beta_2006, y, labels, t, s):
        return alpha[t, s] * beta_2006[t, s] / y[t, labels[s]]

    cases = _at_nodes(ctc_through, ctc_alpha, ctc_beta, ctc_beta_2006, without_zero=True)
    check_equation("eq-ctc-conventions-2006", lhs, rhs, cases, left_out=NO_ZERO)


def test_conventions_at_zero():
    """Where the emission is 0, so is the 2006 pair, whatever the other masses are: nothing can be divided out."""
    nodes = _at_nodes(ctc_alpha, ctc_alpha_arriving, ctc_beta, ctc_beta_2006)
    at_zero = [[array[t, s] for array in arrays] for *arrays, y, labels, t, s in nodes if y[t, labels[s]] == 0]
    assert [alpha == beta_2006 == 0 < arriving * beta for alpha, arriving, beta, beta_2006 in at_zero] == [True]


@pytest.mark.equation("eq-ctc-conventions-arcs")
def test_conventions_arcs():
    """The mass through a node, by prefixes with its emission and suffixes without, against the pair the other way."""
    def lhs(alpha, beta, arriving, beta_2006, y, labels, t, s):
        return alpha[t, s] * beta[t, s]

    def rhs(alpha, beta, arriving, beta_2006, y, labels, t, s):
        return arriving[t, s] * beta_2006[t, s]

    cases = _at_nodes(ctc_alpha, ctc_beta, ctc_alpha_arriving, ctc_beta_2006)
    check_equation("eq-ctc-conventions-arcs", lhs, rhs, cases)


@pytest.mark.equation("eq-ctc-conventions-neither")
def test_conventions_neither():
    """The mass through a node by whole strings against the pair without the emission, multiplied by it once."""
    def lhs(through, alpha, beta, arriving, y, labels, t, s):
        return through[t, s]

    def rhs(through, alpha, beta, arriving, y, labels, t, s):
        return arriving[t, s] * y[t, labels[s]] * beta[t, s]

    cases = _at_nodes(ctc_through, ctc_alpha, ctc_beta, ctc_alpha_arriving)
    check_equation("eq-ctc-conventions-neither", lhs, rhs, cases)

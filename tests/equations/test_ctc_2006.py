"""Checks of the equations of the chapter on the 2006 route. The left sides come from strings and exact differences."""

from fractions import Fraction
from math import prod

import notation
import numpy as np
import pytest
import ranges
import sympy
from brute_force import (
    CTC_INPUTS,
    blank_of,
    ctc_alpha,
    ctc_alpha_arriving,
    ctc_beta,
    ctc_beta_2006,
    ctc_grad_probs,
    ctc_partial,
    ctc_skip,
    ctc_strings,
    ctc_z,
    each_entry,
    extended,
    grad_logit,
    mass,
    probabilities,
    slope_at,
    stands_in,
    states,
)
from enumeration import collapse
from sides import first
from tex_to_python import Notation

from reference_impl import ctc
from reference_impl.as_published import ctc_conventions
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.CTC | Notation(
    patterns={
        r"\alpha^-_{#t}(#s)": "arriving[#t, #s]",
        r"\dot\alpha_{#t}(#s)": "pruned[#t, #s]",
        r"\dot\beta^\circ_{#t}(#s)": "pruned[#t, #s]",
        r"\hat\alpha_{#t}(#s)": "alpha_hat[#t, #s]",
        r"\hat\beta_{#t}(#s)": "beta_hat[#t, #s]",
        r"\hat Z_{#t}": "z_hat[#t]",
        r"M_{#t}(#k)": "M[#t, #k]",
        r"\log M_{#t}(#k)": "m[#t, #k]",
        r"\log y_{#t}(#k)": "log_y[#t, #k]",
        r"\frac{\partial \log Z}{\partial y_{#t}(#k)}": "slopes[#t, #k]",
        r"\frac{\partial y_{#t}(#j)}{\partial z_{#t}(#k)}": "jacobian[#t, #j, #k]",
    },
)
QUANTITIES = ranges.CTC | Quantities(
    shapes={name: "T, 2 U + 1" for name in ["beta_2006", "arriving", "pruned", "alpha_hat", "beta_hat"]}
    | {name: "T, V" for name in ["M", "m", "log_y", "slopes"]} | {name: "T" for name in ["C", "D", "c", "d", "z_hat"]}
    | {"jacobian": "T, V, V"},
    ends={
        "a dead node": (lambda alpha, beta_2006: (alpha * beta_2006 == 0).any(), ranges.CTC.ends["a dead node"]),
        "Z = 0": lambda z: z == 0,
        "a probability of 0": lambda y: (y == 0).any(),
        "s too far from the end": lambda t, s, T, U: s < 2 * U + 1 - 2 * (T - t),
        "s too far from the start": lambda t, s: s > 2 * t + 1,
        "pruned": lambda prune: prune,
        "not pruned": lambda prune: not prune,
        "c_t < 0 < d_t": lambda c, d, t: c[t] < 0 < d[t],
        "d_t < 0 < c_t": lambda c, d, t: d[t] < 0 < c[t],
        "c_t < 0, d_t < 0": lambda c, d, t: c[t] < 0 and d[t] < 0,
        "c_t > 0, d_t > 0": lambda c, d, t: c[t] > 0 and d[t] > 0,
    },
)


def with_zeros(y, *entries):
    """The same, 0 at these entries."""
    y = y.copy()
    for entry in entries:
        y[entry] = Fraction(0)
    return y


# a symbol of probability 0 that no label is; then a label and a blank
UNUSED = [(with_zeros(probabilities(20, (4, 3)), (1, 2), (3, 2)), [1])]
USED = [(with_zeros(probabilities(21, (4, 3)), (1, 1), (3, 0)), [1, 2]),
        (with_zeros(probabilities(22, (4, 3)), (0, 0), (2, 1)), [1, 1])]
# a repeat and a target that are too long for their frames
WITHOUT_PATH = [(probabilities(23, (2, 3)), [1, 1]), (probabilities(24, (3, 3)), [2, 2, 1]),
                (probabilities(25, (2, 4)), [1, 2, 1])]
WITH_PATH = [*CTC_INPUTS, *UNUSED, *USED]
INPUTS = [*WITH_PATH, *WITHOUT_PATH]
NO_STATE_OF_0 = [*CTC_INPUTS, *UNUSED, *WITHOUT_PATH]
NO_PATH = {"Z = 0": "for Z > 0"}
POSITIVE = {"a probability of 0": "for positive probabilities"}


@computed
def beta_owed(y, targets):
    """As the paper defines it: strings from frame t on that begin with l'_s and collapse to the labels still owed."""
    def wanted(string, t, s):
        return string[0] == extended(targets)[s] and collapse(string, blank_of(targets)) == list(targets[s // 2:])

    return ctc_partial(y, targets, lambda t: range(t, len(y)), wanted)


def by_symbol(y, targets):
    """M: the products alpha beta, added over the states that carry a symbol."""
    alpha_beta, M = ctc_alpha(y, targets) * beta_owed(y, targets), y * 0
    for t, s in states(y, targets):
        M[t, extended(targets)[s]] += alpha_beta[t, s]
    return M


# Recursion, total, zeros

def test_two_forms_of_beta():
    """The definition by what a state still owes is the one by what completes the whole target."""
    for y, targets in INPUTS:
        assert (beta_owed(y, targets) == ctc_beta_2006(y, targets)).all()


@pytest.mark.equation("eq-ctc-2006-beta-end")
def test_beta_end():
    """Last column of beta against strings of one symbol."""
    def lhs(beta_2006, y, labels, T, S, s):
        return beta_2006[T - 1, s]

    def rhs(beta_2006, y, labels, T, S, s):
        return (s >= S - 2) * y[T - 1, labels[s]]

    check_equation("eq-ctc-2006-beta-end", lhs, rhs, (
        (beta_owed(y, targets), y, extended(targets), len(y), 2 * len(targets) + 1, s)
        for y, targets in INPUTS for s in range(2 * len(targets) + 1)))


@pytest.mark.equation("eq-ctc-2006-beta")
def test_beta_recursion():
    """Each beta by enumeration of strings against the recursion from the betas one frame later."""
    def lhs(beta_2006, y, labels, kappa, t, s):
        return beta_2006[t, s]

    def rhs(beta_2006, y, labels, kappa, t, s):
        return y[t, labels[s]] * (
            beta_2006[t + 1, s] + beta_2006[t + 1, s + 1] + kappa[s + 2] * beta_2006[t + 1, s + 2])

    check_equation("eq-ctc-2006-beta", lhs, rhs, (
        (zero_outside(beta_owed(y, targets)), y, extended(targets), zero_outside(ctc_skip(targets)), t, s)
        for y, targets in INPUTS for t, s in states(y[1:], targets)),
        left_out={end: "for earlier frames than the last" for end in ("T = 1", "t = T - 1")})


@pytest.mark.equation("eq-ctc-2006-beta-total")
def test_beta_total():
    """Z over all strings against the first two betas."""
    def rhs(z, beta_2006):
        return beta_2006[0, 0] + beta_2006[0, 1]

    check_equation("eq-ctc-2006-beta-total", first, rhs, (
        (ctc_z(y, targets), zero_outside(beta_owed(y, targets))) for y, targets in INPUTS))


@computed(kind="recursion")
def forwards(y, targets, prune, rescale):
    """The forward recursion as displayed, and the scales C. With ``prune``, the states s < S - 2(T - t) of each frame
    are set to 0; with ``rescale``, the frame is then divided by its sum; the next frame is computed from what is left.
    """
    labels, kappa, T, S = extended(targets), ctc_skip(targets), len(y), 2 * len(targets) + 1
    alpha, C = zero_outside(y[:, labels] * 0), y[:, 0] * 0 + 1
    for t, s in states(y, targets):
        arriving = alpha[t - 1, s] + alpha[t - 1, s - 1] + kappa[s] * alpha[t - 1, s - 2] if t > 0 else int(s <= 1)
        alpha.array[t, s] = 0 if prune and s < S - 2 * (T - t) else arriving * y[t, labels[s]]
        if rescale and s == S - 1:
            C[t] = _divided(alpha.array[t])
    return alpha.array, C


@computed(kind="recursion")
def backwards(y, targets, prune, rescale):
    """The backward recursion as displayed, and the scales D. With ``prune``, the states s > 2t + 1 of each frame are
    set to 0; with ``rescale``, the frame is then divided by its sum; the frame before is computed from what is left."""
    labels, kappa, T, S = extended(targets), zero_outside(ctc_skip(targets)), len(y), 2 * len(targets) + 1
    beta, D = zero_outside(y[:, labels] * 0), y[:, 0] * 0 + 1
    for t, s in reversed(list(states(y, targets))):
        leaving = (beta[t + 1, s] + beta[t + 1, s + 1] + kappa[s + 2] * beta[t + 1, s + 2] if t < T - 1
                   else int(s >= S - 2))
        beta.array[t, s] = 0 if prune and s > 2 * t + 1 else leaving * y[t, labels[s]]
        if rescale and s == 0:
            D[t] = _divided(beta.array[t])
    return beta.array, D


def _divided(frame):
    """Divide a frame by its sum, in place, unless nothing is left in it; the sum."""
    scale = frame.sum()
    if scale != 0:
        frame /= scale
    return scale


def without_late(alpha):
    """0 where fewer than two states are left for each frame left."""
    T, S = alpha.shape
    return each_entry(alpha.shape, lambda t, s: (s >= S - 2 * (T - t)) * alpha[t, s])


def without_early(beta):
    """0 where more than two states have been passed in each frame."""
    return each_entry(beta.shape, lambda t, s: (s <= 2 * t + 1) * beta[t, s])


@pytest.mark.equation("eq-ctc-2006-pruned-alpha")
def test_pruned_alpha():
    """The recursion with states set to 0 in each frame against the alphas by enumeration, 0 in these states."""
    def lhs(pruned, alpha, T, S, t, s):
        return pruned[t, s]

    def rhs(pruned, alpha, T, S, t, s):
        return (s >= S - 2 * (T - t)) * alpha[t, s]

    check_equation("eq-ctc-2006-pruned-alpha", lhs, rhs, (
        (forwards(y, targets, prune=True, rescale=False)[0], ctc_alpha(y, targets), len(y), 2 * len(targets) + 1, t, s)
        for y, targets in INPUTS for t, s in states(y, targets)),
        left_out={"not pruned": "it is about pruning"})


@pytest.mark.equation("eq-ctc-2006-pruned-beta")
def test_pruned_beta():
    """The same of the backward recursion and the betas by enumeration."""
    def lhs(pruned, beta_2006, t, s):
        return pruned[t, s]

    def rhs(pruned, beta_2006, t, s):
        return (s <= 2 * t + 1) * beta_2006[t, s]

    check_equation("eq-ctc-2006-pruned-beta", lhs, rhs, (
        (backwards(y, targets, prune=True, rescale=False)[0], beta_owed(y, targets), t, s)
        for y, targets in INPUTS for t, s in states(y, targets)),
        left_out={"not pruned": "it is about pruning"})


# Through a state, through a frame

@pytest.mark.equation("eq-ctc-2006-state", patterns={r"w(\pi)": "mass(y, pi)"}, over={
    r"\substack{\pi \,:\; \mathcal B(\pi) = l, \\ \text{in state } s \text{ at frame } t}":
    "for pi in strings if stands_in(pi, t, s, targets)"})
def test_state():
    """alpha * beta against the strings that stand in state s at frame t, times the emission."""
    def lhs(alpha, beta_2006, strings, y, labels, targets, t, s):
        return alpha[t, s] * beta_2006[t, s]

    def rhs(alpha, beta_2006, strings, y, labels, targets, t, s):
        return y[t, labels[s]] * sum(mass(y, string) * stands_in(string, t, s, targets) for string in strings)

    check_equation("eq-ctc-2006-state", lhs, rhs, (
        (ctc_alpha(y, targets), beta_owed(y, targets), ctc_strings(y, targets), y, extended(targets), targets, t, s)
        for y, targets in INPUTS for t, s in states(y, targets)))


@pytest.mark.equation("eq-ctc-2006-frame-sum")
def test_frame_sum():
    """Z over all strings against the sum over the states of each frame, the emission divided out once."""
    check_equation("eq-ctc-2006-frame-sum", first, frame_sum, _frames(NO_STATE_OF_0))


def frame_sum(z, alpha, beta_2006, y, labels, t, S):
    return sum(alpha[t, s] * beta_2006[t, s] / y[t, labels[s]] for s in range(0, S))


def _frames(inputs):
    for y, targets in inputs:
        for t in range(len(y)):
            yield (ctc_z(y, targets), ctc_alpha(y, targets), beta_owed(y, targets), y, extended(targets), t,
                   2 * len(targets) + 1)


def test_frame_sum_at_a_state_of_probability_0():
    """It is 0 / 0 there."""
    for z, alpha, beta_2006, y, labels, t, S in _frames(USED):
        if (y[t, labels] == 0).any():
            with pytest.raises(ZeroDivisionError):
                frame_sum(z, alpha, beta_2006, y, labels, t, S)


def arriving_at(alpha, targets):
    """alpha^- of the alphas one frame earlier, as defined."""
    before, kappa = zero_outside(alpha), ctc_skip(targets)
    return each_entry(alpha.shape, lambda t, s: Fraction(s <= 1) if t == 0 else (
        before[t - 1, s] + before[t - 1, s - 1] + kappa[s] * before[t - 1, s - 2]))


def test_two_forms_of_arriving():
    """The mass that arrives, by its definition, is that of the strings before frame t, and y times it is alpha."""
    for y, targets in INPUTS:
        arriving = arriving_at(ctc_alpha(y, targets), targets)
        assert (arriving == ctc_alpha_arriving(y, targets)).all()
        assert (y[:, extended(targets)] * arriving == ctc_alpha(y, targets)).all()


@pytest.mark.equation("eq-ctc-2006-square")
def test_square():
    """alpha * beta against what arrives at t, by its definition, suffixes after t, and the emission squared."""
    def lhs(alpha, beta_2006, arriving, beta, y, labels, t, s):
        return alpha[t, s] * beta_2006[t, s]

    def rhs(alpha, beta_2006, arriving, beta, y, labels, t, s):
        return y[t, labels[s]] ** 2 * arriving[t, s] * beta[t, s]

    check_equation("eq-ctc-2006-square", lhs, rhs, (
        (alpha, beta_owed(y, targets), arriving_at(alpha, targets), ctc_beta(y, targets), y, extended(targets), t, s)
        for y, targets in INPUTS for alpha in [ctc_alpha(y, targets)] for t, s in states(y, targets)))


# The gradient with respect to the probabilities

STEP = Fraction(1, 5)


@computed(kind="exact difference")
def slopes_of_products(y, targets, t, k, divided):
    """Derivatives with respect to y_t(k) of alpha beta, or alpha beta / y_t(k), at each state of frame t: alpha beta by
    enumeration is quadratic in y_t(k), so a central difference is exact."""
    ends = []
    for step in (STEP, -STEP):
        moved = y.copy()
        moved[t, k] += step
        products = ctc_alpha(moved, targets)[t] * beta_owed(moved, targets)[t]
        ends.append(products / moved[t, k] if divided else products)
    return (ends[0] - ends[1]) / (2 * STEP)


def _states_of_symbols(divided):
    for y, targets in NO_STATE_OF_0:
        for t, s in states(y, targets):
            k = extended(targets)[s]
            slope = slopes_of_products(y, targets, t, k, divided)[s]
            yield slope, ctc_alpha(y, targets), beta_owed(y, targets), y, targets, t, k, s


OF_SYMBOL = {"k in no label": "for l'_s = k"}
PRIME = r"\frac{\partial\, \alpha_t(s)\, \beta^\circ_t(s)}{\partial y_t(k)}"


@pytest.mark.equation("eq-ctc-2006-prime", patterns={PRIME: "prime"})
def test_prime():
    """Exact central difference of alpha * beta by enumeration against 2 / y times it."""
    def rhs(prime, alpha, beta_2006, y, targets, t, k, s):
        return 2 / y[t, k] * alpha[t, s] * beta_2006[t, s]

    check_equation("eq-ctc-2006-prime", first, rhs, _states_of_symbols(divided=False), left_out=OF_SYMBOL)


@pytest.mark.equation("eq-ctc-2006-quotient", patterns={
    r"\frac{\partial}{\partial y_t(k)} \frac{\alpha_t(s)\, \beta^\circ_t(s)}{y_t(k)}": "slope", PRIME: "prime"})
def test_quotient():
    """Exact difference of alpha * beta / y against the quotient rule."""
    def rhs(slope, prime, alpha, beta_2006, y, targets, t, k, s):
        return 1 / y[t, k] ** 2 * (prime * y[t, k] - alpha[t, s] * beta_2006[t, s])

    check_equation("eq-ctc-2006-quotient", first, rhs, (
        (slope, prime, *case) for (slope, *case), (prime, *_) in
        zip(_states_of_symbols(divided=True), _states_of_symbols(divided=False), strict=True)), left_out=OF_SYMBOL)


def _entries(inputs, where):
    for y, targets in inputs:
        for t, k in np.argwhere(where(y)).tolist():
            yield y, targets, t, k


@pytest.mark.equation("eq-ctc-2006-grad-probs")
def test_grad_probs():
    """Exact difference of the sum over strings against alpha * beta over y squared."""
    check_equation("eq-ctc-2006-grad-probs", first, slope_of_z, _slopes_of_z(lambda y: y != 0))


def slope_of_z(grad_probs, alpha, beta_2006, labels, y, t, k, S):
    return 1 / y[t, k] ** 2 * sum(alpha[t, s] * beta_2006[t, s] for s in range(0, S) if labels[s] == k)


def _slopes_of_z(where):
    for y, targets, t, k in _entries(INPUTS, where):
        yield (ctc_grad_probs(y, targets, t, k), ctc_alpha(y, targets), beta_owed(y, targets), extended(targets), y,
               t, k, 2 * len(targets) + 1)


def test_grad_probs_at_a_probability_of_0():
    """It is 0 / 0 there, and the derivative may be another number than 0."""
    cases = list(_slopes_of_z(lambda y: y == 0))
    for case in cases:
        with pytest.raises(ZeroDivisionError):
            slope_of_z(*case)
    assert any(grad_probs != 0 for grad_probs, *_ in cases)


@pytest.mark.equation("eq-ctc-2006-linear")
def test_linear():
    """Z over all strings against what arrives at t, by its definition, one emission, suffixes after t."""
    def rhs(z, y, arriving, beta, labels, t, S):
        return sum(y[t, labels[s]] * arriving[t, s] * beta[t, s] for s in range(0, S))

    check_equation("eq-ctc-2006-linear", first, rhs, (
        (ctc_z(y, targets), y, arriving_at(ctc_alpha(y, targets), targets), ctc_beta(y, targets), extended(targets), t,
         2 * len(targets) + 1) for y, targets in INPUTS for t in range(len(y))))


@pytest.mark.equation("eq-ctc-2006-coefficient")
def test_coefficient():
    """Exact difference against what arrives at t, by its definition, times suffixes after t, also where y is 0."""
    def rhs(grad_probs, arriving, beta, labels, t, k, S):
        return sum(arriving[t, s] * beta[t, s] for s in range(0, S) if labels[s] == k)

    check_equation("eq-ctc-2006-coefficient", first, rhs, (
        (ctc_grad_probs(at, targets, t, k), arriving_at(ctc_alpha(at, targets), targets), ctc_beta(at, targets),
         extended(targets), t, k, 2 * len(targets) + 1)
        for y, targets in [*CTC_INPUTS, *WITHOUT_PATH] for t, k in np.ndindex(y.shape)
        for at in (y, with_zeros(y, (t, k)))))


@computed(kind="sympy")
def slope_of_log_z(y, targets, t, k):
    """d log Z / dy_t(k), where sympy differentiates the logarithm of the sum over strings."""
    symbol, moved = sympy.Symbol("y"), y.copy()
    moved[t, k] = symbol
    at = sympy.Rational(y[t, k].numerator, y[t, k].denominator)
    found = sympy.Rational(sympy.log(ctc_z(moved, targets)).diff(symbol).subs(symbol, at))
    return Fraction(int(found.p), int(found.q))


@pytest.mark.equation("eq-ctc-2006-grad-log", patterns={r"\frac{\partial \log Z}{\partial y_t(k)}": "slope"})
def test_grad_log():
    """sympy's derivative of the log of the sum over strings against alpha * beta over Z and y squared."""
    def rhs(slope, alpha, beta_2006, labels, z, y, t, k, S):
        return 1 / (z * y[t, k] ** 2) * sum(alpha[t, s] * beta_2006[t, s] for s in range(0, S) if labels[s] == k)

    check_equation("eq-ctc-2006-grad-log", first, rhs, (
        (slope_of_log_z(y, targets, t, k), ctc_alpha(y, targets), beta_owed(y, targets), extended(targets),
         ctc_z(y, targets), y, t, k, 2 * len(targets) + 1) for y, targets, t, k in
        _entries(WITH_PATH, lambda y: y != 0)), left_out=NO_PATH)


# Through the softmax

def _through_the_softmax(inputs):
    """sympy: the derivatives of -log of the sum over strings with respect to each logit log x; x, y, targets."""
    for x, targets in inputs:
        yield grad_logits_of(x, targets), x, softmax(x), targets


def grad_logits_of(x, targets):
    return each_entry(x.shape, lambda t, k: grad_logit(lambda y: ctc_z(y, targets), x, t, k))


def softmax_jacobian(x):
    """sympy: dy_t(j) / dz_t(k) for z = log x."""
    return each_entry((*x.shape, x.shape[1]), lambda t, j, k: x[t, k] * slope_at(lambda row: softmax(row)[j], x[t], k))


@pytest.mark.equation("eq-ctc-2006-chain")
def test_chain():
    """The derivative of -log Z with respect to a logit against the sum over the probabilities of its frame: d log Z /
    dy and dy / dz by sympy."""
    def rhs(grad_logits, slopes, jacobian, t, k, V):
        return -sum(slopes[t, j] * jacobian[t, j, k] for j in range(0, V))

    def cases():
        for grad_logits, x, y, targets in _through_the_softmax(CTC_INPUTS):
            slopes = each_entry(y.shape, lambda t, j, y=y, targets=targets: slope_of_log_z(y, targets, t, j))
            jacobian = softmax_jacobian(x)
            for t, k in np.ndindex(y.shape):
                yield grad_logits[t, k], slopes, jacobian, t, k, x.shape[1]

    check_equation("eq-ctc-2006-chain", first, rhs, cases(), left_out=POSITIVE)


def _lines(inputs):
    """What the lines of the derivation are made of."""
    for grad_logits, _, y, targets in _through_the_softmax(inputs):
        M, z = by_symbol(y, targets), ctc_z(y, targets)
        for t, k in np.ndindex(y.shape):
            yield grad_logits[t, k], M, z, y, targets, t, k, y.shape[1]


@pytest.mark.equation("eq-ctc-2006-substituted")
def test_substituted():
    """The same derivative against the sum with both derivatives put in."""
    check_equation("eq-ctc-2006-substituted", first, substituted, _lines(CTC_INPUTS), left_out=NO_PATH | POSITIVE)


def substituted(grad_logits, M, z, y, targets, t, k, V):
    return -sum(M[t, j] / (z * y[t, j] ** 2) * y[t, j] * ((j == k) - y[t, k]) for j in range(0, V))


@pytest.mark.equation("eq-ctc-2006-cancelled")
def test_cancelled():
    """The same with one y cancelled and the sign taken inside."""
    check_equation("eq-ctc-2006-cancelled", first, cancelled, _lines(CTC_INPUTS), left_out=NO_PATH | POSITIVE)


def cancelled(grad_logits, M, z, y, targets, t, k, V):
    return sum((y[t, k] - (j == k)) * (M[t, j] / (z * y[t, j])) for j in range(0, V))


@pytest.mark.equation("eq-ctc-2006-split")
def test_split():
    """The same as two sums."""
    below = {"shift bound: range(0, V) -> range(0 - 1, V)": "of the second sum, where the bracket is 0 at j = -1"}
    check_equation("eq-ctc-2006-split", first, split, _lines(CTC_INPUTS), equivalent=below,
                   left_out=NO_PATH | POSITIVE)


def split(grad_logits, M, z, y, targets, t, k, V):
    return (y[t, k] / z * sum(M[t, j] / y[t, j] for j in range(0, V))
            - sum((j == k) * (M[t, j] / (z * y[t, j])) for j in range(0, V)))


@pytest.mark.equation("eq-ctc-2006-regrouped")
def test_regrouped():
    """Z over all strings against the sum over the whole vocabulary."""
    check_equation("eq-ctc-2006-regrouped", first, regrouped, (
        (ctc_z(y, targets), by_symbol(y, targets), y, t, y.shape[1])
        for y, targets in [*CTC_INPUTS, *WITHOUT_PATH] for t in range(len(y))), left_out=POSITIVE)


def regrouped(z, M, y, t, V):
    return sum(M[t, j] / y[t, j] for j in range(0, V))


@pytest.mark.parametrize("line", [substituted, cancelled, split])
def test_lines_where_a_symbol_is_masked(line):
    """They divide by each probability of the frame: 0 / 0 if one is 0, though no label has this symbol."""
    for _, M, z, y, targets, t, k, V in _lines([(softmax(y), targets) for y, targets in UNUSED]):
        assert z > 0 and (M[y == 0] == 0).all()
        if (y[t] == 0).any():
            with pytest.raises(ZeroDivisionError):
                line(None, M, z, y, targets, t, k, V)
            with pytest.raises(ZeroDivisionError):
                regrouped(z, M, y, t, V)
        else:
            assert regrouped(z, M, y, t, V) == z


# Rescaling

def frame_sums(alpha_hat, beta_hat, y, targets):
    """Z hat, as defined."""
    return (alpha_hat * beta_hat / y[:, extended(targets)]).sum(axis=1)


def _hats(inputs):
    """alpha and beta of y = softmax(x) divided by numbers of their frame: random ones of both signs, and those of the
    recursions, pruned or not."""
    for seed, (x, targets) in enumerate(inputs):
        y = softmax(x)
        signs = (-1) ** np.arange(seed, seed + len(y)), (-1) ** (np.arange(seed, seed + len(y)) // 2)
        c, d = (sign * probabilities(seed + shift, len(y)) for sign, shift in zip(signs, (30, 40), strict=True))
        yield x, y, targets, c, d, ctc_alpha(y, targets) / c[:, None], beta_owed(y, targets) / d[:, None]
        for prune in (True, False):
            (alpha_hat, C), (beta_hat, D) = (sweep(y, targets, prune, rescale=True) for sweep in (forwards, backwards))
            yield x, y, targets, np.cumprod(C), np.cumprod(D[::-1])[::-1], alpha_hat, beta_hat


@pytest.mark.equation("eq-ctc-2006-scaled-total")
def test_scaled_total():
    """The sum over a frame of scaled variables against Z by enumeration, divided by both scales."""
    def lhs(z_hat, z, c, d, t):
        return z_hat[t]

    def rhs(z_hat, z, c, d, t):
        return z / (c[t] * d[t])

    check_equation("eq-ctc-2006-scaled-total", lhs, rhs, (
        (frame_sums(alpha_hat, beta_hat, y, targets), ctc_z(y, targets), c, d, t)
        for _, y, targets, c, d, alpha_hat, beta_hat in _hats(CTC_INPUTS) for t in range(len(y))),
        left_out=NO_PATH | POSITIVE)


def scaled_gradient(grad_logits, alpha_hat, beta_hat, y, labels, z_hat, t, k, S):
    return y[t, k] - 1 / (z_hat[t] * y[t, k]) * sum(
        alpha_hat[t, s] * beta_hat[t, s] for s in range(0, S) if labels[s] == k)


@pytest.mark.equation("eq-ctc-2006-grad-scaled")
def test_grad_scaled():
    """Derivative with respect to a logit, of the sum over strings, against the formula in scaled variables."""
    def cases():
        for x, y, targets, _, _, alpha_hat, beta_hat in _hats(CTC_INPUTS):
            grad_logits, z_hat = grad_logits_of(x, targets), frame_sums(alpha_hat, beta_hat, y, targets)
            for t, k in np.ndindex(y.shape):
                yield (grad_logits[t, k], alpha_hat, beta_hat, y, extended(targets), z_hat, t, k, 2 * len(targets) + 1)

    check_equation("eq-ctc-2006-grad-scaled", first, scaled_gradient, cases(), left_out=POSITIVE)


def test_a_scale_per_state_does_not_cancel():
    """Scales that depend on s are what the theorem leaves out: the gradient comes out wrong."""
    x, targets = CTC_INPUTS[0]
    y, per_state = softmax(x), 1 + np.arange(5)
    alpha_hat, beta_hat = ctc_alpha(y, targets) / per_state, beta_owed(y, targets)
    z_hat = frame_sums(alpha_hat, beta_hat, y, targets)
    wrong = scaled_gradient(None, alpha_hat, beta_hat, y, extended(targets), z_hat, 1, 1, 5)
    assert wrong != grad_logits_of(x, targets)[1, 1]


package_alpha = computed(ctc_conventions.rescaled_alpha, kind="recursion")
package_beta = computed(ctc_conventions.rescaled_beta, kind="recursion")


def _alpha_hats(inputs, *prunings):
    """Hats and scales by the displayed recursion, and by the package's."""
    for y, targets in inputs:
        for prune in prunings:
            yield y, targets, prune, *forwards(y, targets, prune, rescale=True)
            yield y, targets, prune, *package_alpha(y, targets, blank=blank_of(targets), prune=prune)


def _beta_hats(inputs, *prunings):
    for y, targets in inputs:
        for prune in prunings:
            yield y, targets, prune, *backwards(y, targets, prune, rescale=True)
            yield y, targets, prune, *package_beta(y, targets, blank=blank_of(targets), prune=prune)


@pytest.mark.equation("eq-ctc-2006-alpha-hat")
def test_alpha_hat():
    """The rescaled recursion, with and without pruning, against alpha by enumeration over the product of the scales."""
    def lhs(alpha_hat, alpha, C, t, s):
        return alpha_hat[t, s]

    def rhs(alpha_hat, alpha, C, t, s):
        return alpha[t, s] / prod(C[tau] for tau in range(0, t + 1))

    check_equation("eq-ctc-2006-alpha-hat", lhs, rhs, (
        (alpha_hat, alpha, C, t, s) for y, targets, prune, alpha_hat, C in _alpha_hats(WITH_PATH, True, False)
        for whole in [ctc_alpha(y, targets)] for alpha in [without_late(whole) if prune else whole]
        for t, s in states(y, targets)))


@pytest.mark.equation("eq-ctc-2006-beta-hat")
def test_beta_hat():
    """The rescaled recursion, with and without pruning, against beta by enumeration over the product of the scales."""
    def lhs(beta_hat, beta_2006, D, T, t, s):
        return beta_hat[t, s]

    def rhs(beta_hat, beta_2006, D, T, t, s):
        return beta_2006[t, s] / prod(D[tau] for tau in range(t, T))

    check_equation("eq-ctc-2006-beta-hat", lhs, rhs, (
        (beta_hat, beta_2006, D, len(y), t, s) for y, targets, prune, beta_hat, D in _beta_hats(WITH_PATH, True, False)
        for whole in [beta_owed(y, targets)] for beta_2006 in [without_early(whole) if prune else whole]
        for t, s in states(y, targets)))


@pytest.mark.equation("eq-ctc-2006-scales-product")
def test_scales_product():
    """The product of the first scales against the sum of a frame of alpha by enumeration."""
    def lhs(C, alpha, t, S):
        return prod(C[:t + 1])

    def rhs(C, alpha, t, S):
        return sum(alpha[t, s] for s in range(0, S))

    check_equation("eq-ctc-2006-scales-product", lhs, rhs, (
        (C, zero_outside(ctc_alpha(y, targets), zero=5), t, 2 * len(targets) + 1)
        for y, targets, _, _, C in _alpha_hats(WITH_PATH, False) for t in range(len(y))),
        left_out={"pruned": "without pruning"})


def test_scales_product_with_pruning():
    """It is less by what comes too late."""
    for y, targets, _, _, C in _alpha_hats(WITH_PATH, True):
        alpha = ctc_alpha(y, targets)
        lost = alpha.sum(axis=1) - np.cumprod(C)
        assert (lost == (alpha - without_late(alpha)).sum(axis=1)).all()


@pytest.mark.equation("eq-ctc-2006-loss-alpha")
def test_loss_alpha():
    """Z over all strings against the part of the last frame that ends, times the product of the scales."""
    def rhs(z, alpha_hat, C, T, S):
        return (alpha_hat[T - 1, S - 1] + alpha_hat[T - 1, S - 2]) * prod(C[t] for t in range(0, T))

    check_equation("eq-ctc-2006-loss-alpha", first, rhs, (
        (ctc_z(y, targets), zero_outside(alpha_hat), zero_outside(C), len(y), 2 * len(targets) + 1)
        for y, targets, _, alpha_hat, C in _alpha_hats(INPUTS, True, False)))


PRUNED = {"not pruned": "with pruning"}


@pytest.mark.equation("eq-ctc-2006-loss-pruned", conditions={r"\text{(pruned)}": "prune"})
def test_loss_pruned():
    """Z over all strings, also where there is none, against the product of the scales of the pruned recursion."""
    def rhs(z, C, T, prune):
        return prod(C[t] for t in range(0, T))

    check_equation("eq-ctc-2006-loss-pruned", first, rhs, (
        (ctc_z(y, targets), zero_outside(C), len(y), prune)
        for y, targets, prune, _, C in _alpha_hats(INPUTS, True)), left_out=PRUNED)


@pytest.mark.equation("eq-ctc-2006-loss-beta")
def test_loss_beta():
    """Z over all strings against the part of the first frame where paths begin, times the product of the scales."""
    def rhs(z, beta_hat, D, T):
        return (beta_hat[0, 0] + beta_hat[0, 1]) * prod(D[t] for t in range(0, T))

    check_equation("eq-ctc-2006-loss-beta", first, rhs, (
        (ctc_z(y, targets), zero_outside(beta_hat), zero_outside(D), len(y))
        for y, targets, _, beta_hat, D in _beta_hats(INPUTS, True, False)))


@pytest.mark.equation("eq-ctc-2006-loss-beta-pruned", conditions={r"\text{(pruned)}": "prune"})
def test_loss_beta_pruned():
    """The same of the pruned backward recursion."""
    def rhs(z, D, T, prune):
        return prod(D[t] for t in range(0, T))

    check_equation("eq-ctc-2006-loss-beta-pruned", first, rhs, (
        (ctc_z(y, targets), zero_outside(D), len(y), prune)
        for y, targets, prune, _, D in _beta_hats(INPUTS, True)), left_out=PRUNED)


@pytest.mark.parametrize("hats", [_alpha_hats, _beta_hats])
def test_losses_without_pruning(hats):
    """The product of the scales is then never less than Z, and mostly more."""
    products = [(prod(scales), ctc_z(y, targets)) for y, targets, _, _, scales in hats(INPUTS, False)]
    assert all(product >= z for product, z in products) and any(product > z for product, z in products)


def test_no_path_shows_in_a_scale():
    """Without a path, some frame of each pruned recursion has nothing left."""
    for *_, scales in [*_alpha_hats(WITHOUT_PATH, True), *_beta_hats(WITHOUT_PATH, True)]:
        assert 0 in scales.tolist()


# In the log domain

@computed(kind="recursion")
def log_sums(log_y, targets):
    """log M: the package's log alpha and log beta, the emission in both, added up by symbol."""
    blank = blank_of(targets)
    thesis = (sweep(log_y, targets, blank=blank) for sweep in (ctc.log_alpha, ctc.log_beta))
    log_alpha, log_beta = ctc_conventions.convert(*thesis, log_y, targets, source="thesis", target="2006", blank=blank)
    m = np.full(log_y.shape, -np.inf)
    np.logaddexp.at(m, np.s_[:, extended(targets)], log_alpha + log_beta)
    return m


@pytest.mark.equation("eq-ctc-2006-kernel")
def test_kernel():
    """sympy: the derivative of -log of the sum over strings with respect to each logit, in fractions, against the
    formula of the kernels in floats."""
    def cases():
        for grad_logits, _, y, targets in _through_the_softmax(CTC_INPUTS):
            for t, k in np.ndindex(y.shape):
                yield grad_logits[t, k], *_of_kernel(y, targets), targets, t, k

    check_equation("eq-ctc-2006-kernel", lambda grad_logits, *_: float(grad_logits), kernel, cases(), tolerance=1e-12,
                   left_out=NO_PATH | POSITIVE)


def kernel(grad_logits, log_y, m, z, targets, t, k):
    return np.exp(log_y[t, k]) - np.exp(m[t, k] - log_y[t, k] - np.log(z))


@np.errstate(divide="ignore")
def _of_kernel(y, targets):
    log_y = np.log(y.astype(float))
    return log_y, log_sums(log_y, targets), float(ctc_z(y, targets))


@pytest.mark.parametrize("inputs", [UNUSED, WITHOUT_PATH])
@np.errstate(divide="ignore", invalid="ignore")
def test_kernel_is_nan(inputs):
    """Where a symbol is masked, and everywhere if there is no path."""
    for x, targets in inputs:
        y, z = softmax(x), ctc_z(softmax(x), targets)
        for t, k in np.ndindex(y.shape):
            assert np.isnan(kernel(None, *_of_kernel(y, targets), targets, t, k)) == (z == 0 or y[t, k] == 0)

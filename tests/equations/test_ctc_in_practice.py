"""Checks of the equations of the chapter on CTC in practice. Sums over strings; the scores are not normalised."""

from fractions import Fraction
from itertools import product
from math import prod

import notation
import numpy as np
import pytest
import ranges
import sympy
from brute_force import (
    CTC_INPUTS,
    Target,
    blank_of,
    ctc_emissions,
    ctc_occupancy,
    ctc_strings,
    ctc_z,
    every_target,
    grad_logit,
    mass,
    probabilities,
    slopes_in_logs,
)
from enumeration import collapse
from sides import first
from sympy import QQ
from sympy.polys.rings import ring
from tex_to_python import Notation

from reference_impl import batched, ctc, log_softmax
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax, target_patterns

NOTATION = notation.CTC | Notation({
    r"g_{#t}(#k)": "r[#t, #k]", r"e^{\phi_{#t}(#k)}": "w[#t, #k]", r"q(#k)": "q[#k]", r"l_{#j}": "targets[#j]"})
QUANTITIES = ranges.CTC | Quantities(
    {"r": "T, V", "w": "T, V", "phi": "T, V", "c": "T", "q": "V"},
    {"G < 0": lambda G: G < 0, "G = 0": lambda G: G == 0, "lambda < 1": lambda lambda_: lambda_ < 1,
     "lambda > 1": lambda lambda_: lambda_ > 1, "a prior above 1": lambda q: (q.array > 1).any(),
     "a weight of 0": lambda omega, i: omega[i] == 0})

#: weights e^phi of scores that are no log-probs, a target, and an upstream gradient
INPUTS = [(w, targets, Fraction(2 - i, 5)) for i, (w, targets) in enumerate(CTC_INPUTS)]
FEW_STRINGS = [INPUTS[i] for i in (1, 2, 4, 5, 6, 7)]  # for sympy's expressions
#: inputs e^z of a softmax, a target, and the strength of a prior
PRIORS = [(x, targets, sympy.Rational(1 + i % 4, 2)) for i, (x, targets) in enumerate(CTC_INPUTS)]
PRIOR = np.array([sympy.Rational(*each) ** 2 for each in [(3, 4), (1, 2), (4, 3), (2, 5)]], dtype=object)


def occupancy_of_nodes(w, targets):
    """alpha beta, added up over the states of a symbol, over the sum of all strings."""
    return ctc_emissions(w, targets) / ctc_z(w, targets)


def returned(w, targets, G):
    """What torch hands back for the scores: the definition, with occupancies from alpha and beta."""
    return G * (w - occupancy_of_nodes(w, targets))


def frame_totals(w):
    return zero_outside(w.sum(axis=1), zero=5)


def prior(V):
    return zero_outside(PRIOR[:V], zero=sympy.Rational(1, 49))


def divided(y, q, lambda_):
    """The weights y / q^lambda; the priors are squares, so that a power of one half is a fraction too."""
    factors = q.array ** -lambda_
    return y * [int(each.p) for each in factors] / [int(each.q) for each in factors]


@computed(kind="sympy")
def derivative(of, symbol, at):
    """A derivative at logarithms of fractions."""
    value = sympy.Rational(of.diff(symbol).subs(at))
    return Fraction(int(value.p), int(value.q))


@pytest.mark.equation("eq-practice-other-loss", patterns={
    r"\frac{\partial}{\partial \phi_t(k)} (#f)": "derivative(#f, phi[t, k], at)", r"L(\phi)": "L",
    r"e^{\phi_{#t}(#k)}": "sympy.exp(phi[#t, #k])"})
def test_other_loss():
    """What torch returns, from alpha and beta, against sympy's derivative of L plus the totals of the frames."""
    def lhs(r, G, L, phi, T, V, t, k, at):
        return r[t, k]

    def rhs(r, G, L, phi, T, V, t, k, at):
        total = L + sum(sum(sympy.exp(phi[tau, j]) for j in range(0, V)) for tau in range(0, T))
        return G * derivative(total, phi[t, k], at)

    def cases():
        for w, targets, G in FEW_STRINGS:
            phi = np.array(sympy.symbols(f"phi:{w.size}", real=True), dtype=object).reshape(w.shape)
            L = -sympy.log(sum(sympy.exp(sum(phi[t, k] for t, k in enumerate(s))) for s in ctc_strings(w, targets)))
            at = {symbol: sympy.log(sympy.Rational(value.numerator, value.denominator))
                  for symbol, value in zip(phi.flat, w.flat, strict=True)}
            for t, k in np.ndindex(w.shape):
                # beyond its range phi reads as the entry that is moved, so that no term too many goes unnoticed
                yield returned(w, targets, G), G, L, zero_outside(phi, zero=phi[t, k]), *w.shape, t, k, at

    check_equation("eq-practice-other-loss", lhs, rhs, cases())


@pytest.mark.equation("eq-practice-frame-sum")
def test_frame_sum():
    """Sum over the symbols of what torch returns, from alpha and beta, against the total of the frame."""
    def lhs(r, G, c, t, V):
        return sum(r[t, k] for k in range(V))

    def rhs(r, G, c, t, V):
        return G * (c[t] - 1)

    check_equation("eq-practice-frame-sum", lhs, rhs, (
        (zero_outside(returned(w, targets, G), zero=5), G, frame_totals(w), t, w.shape[1])
        for w, targets, G in INPUTS for t in range(len(w))))


@pytest.mark.equation("eq-practice-repair", patterns={r"\frac{\partial L}{\partial \phi_t(k)}": "slope"})
def test_repair():
    """sympy: -log of the sum over strings with weights e^phi, differentiated with respect to phi, upstream included,
    against the repaired gradient, from alpha and beta."""
    def lhs(slope, r, G, w, t, k):
        return G * slope

    def rhs(slope, r, G, w, t, k):
        return r[t, k] - G * w[t, k]

    def cases():
        for w, targets, G in FEW_STRINGS:
            slopes = slopes_in_logs(w, [list(enumerate(string)) for string in ctc_strings(w, targets)])
            for t, k in np.ndindex(w.shape):
                yield slopes[t, k], zero_outside(returned(w, targets, G)), G, zero_outside(w), t, k

    check_equation("eq-practice-repair", lhs, rhs, cases())


@computed(kind="sympy")
def second_slope(w, targets, entry, other):
    """d/dphi = w d/dw, twice, of -log of the sum over strings as a polynomial of two entries."""
    symbols = ring("v, w", QQ)[1:]
    first, second = symbols if entry != other else symbols[:1] * 2
    moved = np.array([QQ(value.numerator, value.denominator) for value in w.flat], dtype=object).reshape(w.shape)
    at = moved[entry], moved[other]
    moved[entry], moved[other] = first, second
    rational = first.ring.to_field()
    z, first, second = (rational(first.ring(each)) for each in (ctc_z(moved, targets), first, second))
    slope = second * (-first * z.diff(first) / z).diff(second)
    found = slope.numer(*at) / slope.denom(*at)
    return Fraction(int(found.numerator), int(found.denominator))


@computed
def ctc_joint(w, targets):
    """Probability that frame t carries k and frame tau carries j, of each (t, k, tau, j)."""
    joint = np.full(2 * w.shape, Fraction(0), dtype=object)
    for string in ctc_strings(w, targets):
        for one, other in product(enumerate(string), repeat=2):
            joint[one + other] += mass(w, string)
    return joint / ctc_z(w, targets)


@pytest.mark.equation("eq-practice-hessian", patterns={
    r"\frac{\partial^2 L}{\partial \phi_t(k)\, \partial \phi_\tau(j)}": "second",
    r"E_{#t,#s}(#k, #j)": "joint[#t, #k, #s, #j]"})
def test_hessian():
    """sympy: second derivatives of -log of the sum over strings, against occupancies of one frame, from alpha and beta,
    and of two, from strings."""
    def rhs(second, occupancy, joint, t, k, tau, j):
        return occupancy[t, k] * occupancy[tau, j] - joint[t, k, tau, j]

    def cases():
        for T, V, targets in [(3, 3, [1, 2]), (4, 2, [1, 1]), (1, 3, [2]), (3, 2, []), (5, 2, [1, 1, 1]),
                              (2, 4, Target([3], blank=2))]:
            w = probabilities(T, (T, V))
            arrays = zero_outside(occupancy_of_nodes(w, targets)), zero_outside(ctc_joint(w, targets))
            for t, k, tau, j in np.ndindex(2 * w.shape):
                yield second_slope(w, targets, (t, k), (tau, j)), *arrays, t, k, tau, j

    check_equation("eq-practice-hessian", first, rhs, cases())


@pytest.mark.equation("eq-practice-prior", patterns={
    r"\frac{\partial}{\partial z_t(k)}\, L(\log y - \lambda \log q)": "grad_logits"})
def test_prior():
    """sympy: derivative by each logit of -log of the sum over strings of y / q^lambda, against softmax minus the
    occupancy of these weights, from alpha and beta."""
    def rhs(grad_logits, y, occupancy, q, lambda_, t, k):
        return y[t, k] - occupancy[t, k]

    check_equation("eq-practice-prior", first, rhs, (
        (grad_behind_a_prior(x, q, lambda_, targets, t, k), zero_outside(y),
         zero_outside(occupancy_of_nodes(w, targets)), q, lambda_, t, k)
        for x, y, q, lambda_, w, targets in _behind_a_prior() for t, k in np.ndindex(x.shape)))


def _behind_a_prior():
    """x = e^z, its softmax y, prior q, its strength, the weights y / q^lambda, and the target."""
    for x, targets, lambda_ in PRIORS:
        y, q = softmax(x), prior(x.shape[1])
        yield x, y, q, lambda_, divided(y, q, lambda_), targets


def grad_behind_a_prior(x, q, lambda_, targets, t, k):
    """sympy: the derivative of -log of the sum over strings of y / q^lambda with respect to a logit."""
    return grad_logit(lambda y: ctc_z(divided(y, q, lambda_), targets), x, t, k)


@pytest.mark.equation("eq-practice-torch-logits")
def test_torch_logits():
    """What torch returns, from alpha and beta, through log-softmax, against weights, occupancies from strings, and
    totals."""
    def lhs(r, G, w, occupancy, c, y, t, k, V):
        return r[t, k] - y[t, k] * sum(r[t, j] for j in range(V))

    def rhs(r, G, w, occupancy, c, y, t, k, V):
        return G * (w[t, k] - occupancy[t, k] - (c[t] - 1) * y[t, k])

    check_equation("eq-practice-torch-logits", lhs, rhs, (
        (zero_outside(returned(w, targets, G), zero=5), G, zero_outside(w), zero_outside(ctc_occupancy(w, targets)),
         frame_totals(w), zero_outside(y), t, k, w.shape[1])
        for i, (_, y, _, _, w, targets) in enumerate(_behind_a_prior()) for G in [Fraction(2 - i, 5)]
        for t, k in np.ndindex(w.shape)))


@pytest.mark.equation("eq-practice-prior-error")
def test_prior_error():
    """What torch returns, from alpha and beta, through log-softmax, minus sympy's derivative, against inverse priors
    alone."""
    def lhs(r, grad_logits, w, c, y, q, lambda_, t, k, V):
        return r[t, k] - y[t, k] * sum(r[t, j] for j in range(V)) - grad_logits

    def rhs(r, grad_logits, w, c, y, q, lambda_, t, k, V):
        return y[t, k] * (q[k] ** -lambda_ - sum(y[t, j] * q[j] ** -lambda_ for j in range(0, V)))

    check_equation("eq-practice-prior-error", lhs, rhs, (
        (zero_outside(returned(w, targets, 1), zero=5), grad_behind_a_prior(x, q, lambda_, targets, t, k),
         zero_outside(w), frame_totals(w), zero_outside(y, zero=1), q, lambda_, t, k, w.shape[1])
        for x, y, q, lambda_, w, targets in _behind_a_prior() for t, k in np.ndindex(x.shape)))


@pytest.mark.equation("eq-practice-all-targets", patterns={"Z(l)": "ctc_z(w, l)"}, over={"l": "every"})
def test_all_targets():
    """Z of all targets, up to one label more than there are frames, added up, against the product of the totals."""
    def lhs(w, every, c, T):
        return sum(ctc_z(w, targets) for targets in every)

    def rhs(w, every, c, T):
        return prod(c[t] for t in range(0, T))

    check_equation("eq-practice-all-targets", lhs, rhs, (
        (w, every_target(T, V, blank), frame_totals(w), T)
        for T, V, blank in [(1, 3, 2), (2, 3, 0), (4, 2, 1), (3, 3, 0)] for w in [probabilities(T, (T, V))]))


def grad_reduction(omega, xs, targets, i, t, k):
    """sympy: the derivative of the weighted sum of the losses of a batch, which is -log of the product of the Z to the
    power of their weights, with respect to one logit."""
    z = [ctc_z(softmax(x), labels) ** weight for x, labels, weight in zip(xs, targets, omega.array, strict=True)]
    others = prod(z[:i] + z[i + 1:])
    return grad_logit(lambda y: ctc_z(y, targets[i]) ** omega[i] * others.numerator / others.denominator, xs[i], t, k)


@pytest.mark.equation("eq-practice-weighted", patterns={
    r"\frac{\partial \mathcal L}{\partial z_{i,t}(k)}": "grad_logits", r"y_{#i,#t}(#k)": "ys[#i][#t, #k]",
    r"E_{#i,#t}(#k)": "occupancies[#i][#t, #k]"})
def test_weighted():
    """sympy: derivative of the weighted sum of losses by each logit, against weight times softmax minus occupancy, from
    alpha and beta."""
    def rhs(grad_logits, omega, ys, occupancies, i, t, k):
        return omega[i] * (ys[i][t, k] - occupancies[i][t, k])

    def cases():
        for which in [(0, 4, 5), (6,), (7, 7)]:
            xs, targets = zip(*(CTC_INPUTS[each] for each in which), strict=True)
            omega = zero_outside(np.array([3, 0, -2], dtype=object)[:len(xs)])
            ys = [softmax(x) for x in xs]
            occupancies = [occupancy_of_nodes(y, labels) for y, labels in zip(ys, targets, strict=True)]
            for i, x in enumerate(xs):
                for t, k in np.ndindex(x.shape):
                    yield grad_reduction(omega, xs, targets, i, t, k), omega, ys, occupancies, i, t, k

    check_equation("eq-practice-weighted", first, rhs, cases())


def test_weighted_without_alignment():
    """An utterance without an alignment has gradient 0 in a batch, where softmax minus an occupancy of 0 is not 0."""
    logits, targets = np.log(np.array([[[1.0, 2, 3]] * 3] * 2)), np.array([[1, 1]] * 2)
    losses, gradient = batched.ctc_loss(logits, targets, np.array([3, 2]), np.array([2, 2]))
    assert losses[0] < losses[1] == np.inf and ctc_strings(np.ones((2, 3)), [1, 1]) == []
    assert gradient[0].any() and not gradient[1].any()
    log_probs = log_softmax(logits[1, :2])
    assert (np.exp(log_probs) - ctc.occupancy(log_probs, [1, 1]) > 0).all()


@computed
def total(w, targets):
    """The sum over all strings, also over the one of no frames."""
    strings = product(range(w.shape[1]), repeat=len(w))
    return sum((mass(w, string) for string in strings if collapse(string, blank_of(targets)) == list(targets)),
               Fraction(0))


@pytest.mark.equation("eq-practice-feasible")
def test_feasible():
    """Whether any string of T symbols collapses to the target, against the number of frames that it needs."""
    def lhs(z, targets, T, U):
        return z > 0

    def rhs(z, targets, T, U):
        return T >= U + sum(targets[j] == targets[j - 1] for j in range(1, U))

    patterns = [targets for U in range(4) for targets in target_patterns(U)]
    check_equation("eq-practice-feasible", lhs, rhs, (
        (total(np.full((T, 1 + len({*targets})), Fraction(1), dtype=object), targets), targets, T, len(targets))
        for targets in [*patterns, Target([0, 0, 1], blank=2)] for T in range(7)))


def test_feasible_with_masks():
    """With masks Z can be 0 though there are frames enough."""
    w = np.array([[Fraction(1), Fraction(0)]] * 3)
    assert total(w, []) == 1 and total(w, [1]) == 0

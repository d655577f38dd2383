"""Checks of the equations of the chapter on CTC in practice. Sums over strings; the scores are not normalised."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
import sympy
from brute_force import ctc_grad_probs, ctc_occupancy, ctc_strings, ctc_z, mass, probabilities
from sympy import exp

from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, softmax

TARGETS = [[1, 2], [1, 1], [2], []]
#: weights e^a of scores that are no log-probs, and an upstream gradient
INPUTS = [(probabilities(seed, (3, 3)), targets, Fraction(2 + seed, 5)) for seed, targets in enumerate(TARGETS)]
PRIOR = np.array([Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], dtype=object)


def returned(w, targets, G):
    """What torch hands back for the scores: the definition, with occupancies from enumeration."""
    return G * (w - ctc_occupancy(w, targets))


def frame_totals(w):
    return zero_outside(np.array([sum(frame) for frame in w], dtype=object), zero=5)


def behind_a_prior(seed, strength):
    """Softmax probabilities of random positive numbers, and the weights y / q^strength."""
    y = softmax(probabilities(seed, (3, 3)))
    return y, y / PRIOR**strength


@pytest.mark.equation("eq-practice-other-loss")
def test_other_loss():
    """What torch returns against sympy's derivative of L plus the totals of the frames, at log of rational numbers."""
    def rhs(gradient, G, L, a, T, V, t, k, at):
        return at(G * sympy.diff(L + sum(sum(exp(a[tau, j]) for j in range(0, V)) for tau in range(0, T)), a[t, k]))

    cases = []
    for w, targets, G in INPUTS[:3]:
        T, V = w.shape
        a = np.array(sympy.symbols(f"a:{w.size}", real=True), dtype=object).reshape(w.shape)
        L = -sympy.log(sum(sympy.prod([exp(a[t, k]) for t, k in enumerate(s)]) for s in ctc_strings(w, targets)))
        logs = {symbol: sympy.log(sympy.Rational(value.numerator, value.denominator))
                for symbol, value in zip(a.flat, w.flat, strict=True)}

        def at(expression, logs=logs):
            return sympy.simplify(expression.subs(logs))

        r = returned(w, targets, G)
        for t, k in [(0, 0), (0, 2), (1, 1), (2, 2), (2, 0)]:
            # beyond its range a reads as the entry that is moved, so that no term too many goes unnoticed
            cases.append((sympy.Rational(r[t, k].numerator, r[t, k].denominator),
                          sympy.Rational(G.numerator, G.denominator), L, zero_outside(a, zero=a[t, k]), T, V, t, k, at))
    check_equation("eq-practice-other-loss", lambda gradient, *_: gradient, rhs, cases)


@pytest.mark.equation("eq-practice-frame-sum")
def test_frame_sum():
    """Sum over the symbols of what torch returns against the total of the frame."""
    def lhs(r, G, c, t):
        return sum(r[t])

    def rhs(r, G, c, t):
        return G * (c[t] - 1)

    cases = [(returned(w, targets, G), G, frame_totals(w), t) for w, targets, G in INPUTS for t in range(3)]
    check_equation("eq-practice-frame-sum", lhs, rhs, cases)


@pytest.mark.equation("eq-practice-repair")
def test_repair():
    """-w / Z times an exact difference of the sum over strings, upstream included, against the repaired gradient."""
    def lhs(gradient, r, G, w, t, k):
        return G * gradient

    def rhs(gradient, r, G, w, t, k):
        return r[t, k] - G * w[t, k]

    cases = []
    for w, targets, G in INPUTS:
        for t, k in np.ndindex(w.shape):
            cases.append((-w[t, k] / ctc_z(w, targets) * ctc_grad_probs(w, targets, t, k),
                          zero_outside(returned(w, targets, G)), G, zero_outside(w), t, k))
    check_equation("eq-practice-repair", lhs, rhs, cases)


@pytest.mark.equation("eq-practice-hessian")
def test_hessian():
    """sympy: d/da = w d/dw, twice, of -log of the sum over strings, against occupancies of one and of two frames."""
    def rhs(second, E, joint, t, k, tau, j):
        return E[t, k] * E[tau, j] - joint[t, k, tau, j]

    cases = []
    for targets in ([1, 2], [1, 1]):
        w = field_grid("w", (3, 3))
        z, E, joint = ctc_z(w, targets), ctc_occupancy(w, targets), np.zeros((3, 3, 3, 3), dtype=object)
        for string in ctc_strings(w, targets):
            for (t, k), (tau, j) in product(enumerate(string), repeat=2):
                joint[t, k, tau, j] += mass(w, string) / z
        for t, k, tau, j in product(range(3), repeat=4):
            first = -w[t, k] * z.diff(w[t, k]) / z
            cases.append((w[tau, j] * first.diff(w[tau, j]), zero_outside(E), zero_outside(joint), t, k, tau, j))
    check_equation("eq-practice-hessian", lambda second, *_: second, rhs, cases)


@pytest.mark.equation("eq-practice-prior")
def test_prior():
    """sympy: derivative by each logit of -log of the sum over strings of y / q^lambda, against softmax - occupancy."""
    def rhs(gradient, y, E, t, k):
        return y[t, k] - E[t, k]

    cases = []
    for targets, strength in ([1], 1), ([1, 2], 2), ([], 1):
        x = field_grid("x", (2, 3))
        y = softmax(x)
        w = y * np.array([2, 3, 6], dtype=object) ** strength
        z, E = ctc_z(w, targets), zero_outside(ctc_occupancy(w, targets))
        cases += [(-x[t, k] * z.diff(x[t, k]) / z, zero_outside(y), E, t, k) for t, k in np.ndindex(x.shape)]
    check_equation("eq-practice-prior", lambda gradient, *_: gradient, rhs, cases)


@pytest.mark.equation("eq-practice-torch-logits")
def test_torch_logits():
    """What torch returns, through log-softmax, against the same in terms of weights, occupancies and totals."""
    def lhs(r, G, w, E, c, y, t, k):
        return r[t, k] - y[t, k] * sum(r[t])

    def rhs(r, G, w, E, c, y, t, k):
        return G * (w[t, k] - E[t, k] - (c[t] - 1) * y[t, k])

    cases = []
    for seed, (_, targets, G) in enumerate(INPUTS):
        y, w = behind_a_prior(seed, 1 + seed % 2)
        cases += [(returned(w, targets, G), G, zero_outside(w), zero_outside(ctc_occupancy(w, targets)),
                   frame_totals(w), zero_outside(y), t, k) for t, k in np.ndindex(w.shape)]
    check_equation("eq-practice-torch-logits", lhs, rhs, cases)


@pytest.mark.equation("eq-practice-prior-error")
def test_prior_error():
    """The surplus of torch's gradient over the right one, both from enumeration, against inverse priors alone."""
    def lhs(y, q, strength, t, k, V, targets):
        w = y / q.array**strength
        r = returned(w, targets, 1)
        return r[t, k] - y[t, k] * sum(r[t]) - (y[t, k] - ctc_occupancy(w, targets)[t, k])

    def rhs(y, q, strength, t, k, V, targets):
        return y[t, k] * (q[k]**-strength - sum(y[t, j] * q[j]**-strength for j in range(0, V)))

    cases = [(behind_a_prior(seed, 0)[0], zero_outside(PRIOR, zero=Fraction(1, 7)), strength, t, k, 3, targets)
             for seed, (targets, strength) in enumerate([([1, 2], 1), ([1, 1], 2), ([], 3)])
             for t, k in np.ndindex(3, 3)]
    check_equation("eq-practice-prior-error", lhs, rhs, cases)


@pytest.mark.equation("eq-practice-all-targets")
def test_all_targets():
    """Z of every target that can be spelled in T frames, added up, against the product of the totals of the frames."""
    def lhs(w, c, T):
        every = (targets for U in range(T + 1) for targets in product(range(1, w.shape[1]), repeat=U))
        return sum(ctc_z(w, list(targets)) for targets in every)

    def rhs(w, c, T):
        return prod(c[t] for t in range(0, T))

    cases = [(probabilities(seed, (T, 3)), T) for seed, T in enumerate((1, 2, 4))]
    check_equation("eq-practice-all-targets", lhs, rhs, [(w, frame_totals(w), T) for w, T in cases])


@pytest.mark.equation("eq-practice-weighted")
def test_weighted():
    """sympy: derivative of the weighted sum of two losses by each logit, against weight times softmax - occupancy."""
    def rhs(gradient, omega, y, E, b, t, k):
        return omega[b] * (y[b, t, k] - E[b, t, k])

    x, targets, omega = field_grid("x", (2, 2, 2)), ([1], []), np.array([3, 5], dtype=object)
    y = softmax(x)
    z = [ctc_z(y[b], targets[b]) for b in range(2)]
    E = np.array([ctc_occupancy(y[b], targets[b]) for b in range(2)])
    cases = []
    for b, t, k in np.ndindex(x.shape):
        gradient = -sum(omega[i] * x[b, t, k] * z[i].diff(x[b, t, k]) / z[i] for i in range(2))
        cases.append((gradient, zero_outside(omega), zero_outside(y), zero_outside(E), b, t, k))
    check_equation("eq-practice-weighted", lambda gradient, *_: gradient, rhs, cases)


@pytest.mark.equation("eq-practice-feasible")
def test_feasible():
    """Whether any string of T symbols collapses to the target, against the number of frames that it needs."""
    def lhs(l, T, U):
        ones = np.full((T, 3), Fraction(1), dtype=object)
        return sum(mass(ones, string) for string in ctc_strings(ones, l)) > 0

    def rhs(l, T, U):
        return T >= U + sum(l[j] == l[j - 1] for j in range(1, U))

    targets = [[], [1], [1, 2], [1, 1], [1, 2, 1], [1, 1, 2], [2, 1, 1], [1, 1, 1]]
    check_equation("eq-practice-feasible", lhs, rhs, [(l, T, len(l)) for l in targets for T in range(7)])

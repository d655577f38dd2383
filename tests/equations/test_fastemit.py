"""Checks of the equations of the chapter on FastEmit. Posteriors, masses and losses come from enumerated paths."""

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest
import sympy
from brute_force import (
    BLANK,
    RNNT_INPUTS,
    RNNT_SHAPES,
    next_label,
    probabilities,
    rnnt_alpha,
    rnnt_beta_beyond,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_paths,
    rnnt_z,
    zero,
)

from reference_impl.differences import exact_difference, random_integers
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, softmax

V = 3
LAM = Fraction(2, 5)


def through(y, labels, *entries):
    """The mass of the paths that use all of the given entries."""
    return sum((rnnt_mass(y, path) for path in rnnt_paths(y, labels) if set(entries) <= set(path)), zero(y))


def factor(labels, t, u, k, lam):
    """c: 1 for a blank, 1 + lambda for the next label."""
    return 1 + lam * (k == next_label(labels, u))


def arcs(y, labels):
    """Posteriors of the blank arcs and of the label arcs, each (T, U+1)."""
    posteriors = rnnt_occupancy(y, labels)
    e_blank, e_label = posteriors[:, :, BLANK], posteriors[:, :, BLANK] * 0
    for u, label in enumerate(labels):
        e_label[:, u] = posteriors[:, u, label]
    return e_blank, e_label


def log_softmax_slopes():
    """d log y_j / d a_k as rational functions of x = e^a, by sympy, at one node."""
    x = field_grid("x", (V,))
    y = softmax(x)
    return [[x[k] * y[j].diff(x[k]) / y[j] for k in range(V)] for j in range(V)]


def by_logit(lam):
    """(minus the factors' share of each posterior, carried to the logits by sympy's derivatives of log-softmax), y,
    labels, t, u, k, with y the softmax of random logits."""
    slopes = log_softmax_slopes()
    for seed, (T, labels) in enumerate(RNNT_SHAPES):
        x = random_integers(np.random.default_rng(seed), (T, len(labels) + 1, V), bits=6)
        y = np.array([[[Fraction(e, sum(row)) for e in row] for row in rows] for rows in x], dtype=object)
        posteriors = rnnt_occupancy(y, labels)
        for t, u, k in np.ndindex(y.shape):
            value = -sum(factor(labels, t, u, j, lam) * posteriors[t, u, j] * _at(slopes[j][k], x[t, u])
                         for j in range(V))
            yield value, y, labels, t, u, k


def _at(slope, x):
    """A rational function at integers, as a Fraction."""
    return Fraction(int(slope.numer(*x)), int(slope.denom(*x)))


@pytest.mark.equation("eq-fastemit-logits")
def test_logits():
    """The field carried through log-softmax by sympy's derivatives against the closed form."""
    def rhs(value, y, e_blank, e_label, labels, lam, t, u, k):
        return (y[t, u, k] * (e_blank[t, u] + (1 + lam) * e_label[t, u])
                - (k == BLANK) * e_blank[t, u] - (1 + lam) * (k == labels[u]) * e_label[t, u])

    cases = [(value, zero_outside(y), *map(zero_outside, arcs(y, labels)), zero_outside(labels, -1), LAM, t, u, k)
             for value, y, labels, t, u, k in by_logit(LAM)]
    check_equation("eq-fastemit-logits", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-fastemit-split")
def test_split():
    """The field carried through log-softmax against the gradient, and lambda times a cross-entropy's."""
    def rhs(value, gradient, y, e_label, labels, lam, t, u, k):
        return gradient + lam * e_label[t, u] * (y[t, u, k] - (k == labels[u]))

    pairs = zip(by_logit(LAM), by_logit(0), strict=True)
    cases = [(value, gradient, zero_outside(y), zero_outside(arcs(y, labels)[1]), zero_outside(labels, -1), LAM, *index)
             for (value, y, labels, *index), (gradient, *_) in pairs]
    check_equation("eq-fastemit-split", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-fastemit-fused")
def test_fused():
    """The field carried through log-softmax against alpha and beta, as a GPU kernel computes it."""
    def rhs(value, y, alpha, beta, z, labels, lam, t, u, k):
        return y[t, u, k] * alpha[t, u] / z * (
            beta[t, u] + lam * y[t, u, labels[u]] * beta[t, u + 1]
            - (k == BLANK) * beta[t + 1, u] - (1 + lam) * (k == labels[u]) * beta[t, u + 1])

    cases = [(value, zero_outside(y), zero_outside(rnnt_alpha(y, labels)), zero_outside(rnnt_beta_beyond(y, labels)),
              rnnt_z(y, labels), zero_outside(labels, -1), LAM, t, u, k)
             for value, y, labels, t, u, k in by_logit(LAM)]
    check_equation("eq-fastemit-fused", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-fastemit-last-node")
def test_last_node():
    """The field of the last node, carried through log-softmax, against softmax minus one-hot: no lambda."""
    def rhs(value, y, T, U, k):
        return y[T - 1, U, k] - (k == BLANK)

    cases = [(value, zero_outside(y), len(y), len(labels), k)
             for value, y, labels, t, u, k in by_logit(LAM) if (t, u) == (len(y) - 1, len(labels))]
    check_equation("eq-fastemit-last-node", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-fastemit-forgotten")
def test_forgotten():
    """The sum over V when 1 + lambda is missing in the softmax term."""
    def lhs(y, e_blank, e_label, labels, lam, t, u):
        e_blank, e_label = e_blank[t, u], e_label[t, u]
        return sum(y.array[t, u, k] * (e_blank + e_label) - (k == BLANK) * e_blank
                   - (1 + lam) * (k == next_label(labels, u)) * e_label for k in range(V))

    def rhs(y, e_blank, e_label, labels, lam, t, u):
        return -lam * e_label[t, u]

    cases = [(zero_outside(y), *map(zero_outside, arcs(y, labels)), labels, LAM, t, u)
             for _, y, labels, t, u, k in by_logit(LAM) if k == 0]
    check_equation("eq-fastemit-forgotten", lhs, rhs, cases)


def label_masses(y, labels):
    """M_n from alpha, the label's step, and beta, by enumeration of beginnings and endings."""
    alpha, beta = rnnt_alpha(y, labels), rnnt_beta_beyond(y, labels)
    T, U = len(y), len(labels)
    return np.array([sum((alpha[n - u, u] * y[n - u, u, labels[u]] * beta[n - u, u + 1]
                          for u in range(U) if 0 <= n - u < T), Fraction(0)) for n in range(T + U)], dtype=object)


def payoff(y, labels, n, lam):
    """Z + lambda M_n: each path counts 1 + lambda times if its step n is a label."""
    return sum((rnnt_mass(y, path) * (1 + lam * (path[n][2] != BLANK)) for path in rnnt_paths(y, labels)), Fraction(0))


@pytest.mark.equation("eq-fastemit-own-diagonal")
def test_own_diagonal():
    """Exact differences of Z + lambda M_n in the entries of its own diagonal against the posteriors."""
    def rhs(slope, lam, posteriors, M, z, labels, t, u, k):
        return (1 + lam * (k == labels[u])) * posteriors[t, u, k] / (1 + lam * M[t + u] / z)

    cases = []
    for y, labels in RNNT_INPUTS:
        for t, u, k in np.ndindex(y.shape):
            def own(y, labels=labels, n=t + u):
                return payoff(y, labels, n, LAM)

            slope = y[t, u, k] * exact_difference(own, y, (t, u, k), h=5) / own(y)
            cases.append((slope, LAM, zero_outside(rnnt_occupancy(y, labels)), zero_outside(label_masses(y, labels)),
                          rnnt_z(y, labels), zero_outside(labels, -1), t, u, k))
    check_equation("eq-fastemit-own-diagonal", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-fastemit-label-count")
def test_label_count():
    """U Z against the label masses of all diagonals."""
    def rhs(M, z, T, U):
        return sum(M[n] for n in range(0, T + U))

    cases = [(zero_outside(label_masses(y, labels), 5), rnnt_z(y, labels), len(y), len(labels))
             for y, labels in RNNT_INPUTS]
    check_equation("eq-fastemit-label-count", lambda M, z, T, U: U * z, rhs, cases, equivalent={
        "shift bound: range(0, T + U) -> range(0, T + U - 1)": "the last step of every path is a blank: M = 0 there"})


def fields(y, labels, lam):
    """The field with respect to the log-probs, as rational functions of the probabilities."""
    posteriors = rnnt_occupancy(y, labels)
    field = np.empty(y.shape, dtype=object)
    for t, u, k in np.ndindex(y.shape):
        field[t, u, k] = -factor(labels, t, u, k, lam) * posteriors[t, u, k]
    return field


def asymmetry(y, field, i, j):
    """d v_i / d log y_j - d v_j / d log y_i, by sympy."""
    return y[j] * field[i].diff(y[j]) - y[i] * field[j].diff(y[i])


SMALL = [(2, [1], 2), (3, [1], 2), (2, [1, 1], 2)]


@pytest.mark.equation("eq-fastemit-asymmetry")
def test_asymmetry():
    """sympy: the antisymmetric part of the field's Jacobian against lambda times the covariance of two arcs."""
    def rhs(difference, lam, z_ij, z_i, z_j, z):
        return lam * (z_ij / z - z_i * z_j / z**2)

    lam, cases = 3, []
    for T, labels, symbols in SMALL:
        y = field_grid("y", (T, len(labels) + 1, symbols))
        field, z = fields(y, labels, lam), rnnt_z(y, labels)
        for i in product(range(T), range(len(labels) + 1), [BLANK]):
            for j in ((t, u, label) for t in range(T) for u, label in enumerate(labels)):
                cases.append((asymmetry(y, field, i, j), lam, through(y, labels, i, j), through(y, labels, i),
                              through(y, labels, j), z))
    assert any(difference != 0 for difference, *_ in cases)
    check_equation("eq-fastemit-asymmetry", lambda difference, *_: difference, rhs, cases)


@pytest.mark.equation("eq-fastemit-branch")
def test_branch():
    """sympy: the antisymmetric part for the two arcs of one node against their posteriors."""
    def rhs(difference, lam, e_blank, e_label, t, u):
        return -lam * e_blank[t, u] * e_label[t, u]

    lam, cases = 3, []
    for T, labels, symbols in SMALL:
        y = field_grid("y", (T, len(labels) + 1, symbols))
        field = fields(y, labels, lam)
        e_blank, e_label = (zero_outside(array, y.flat[0] * 0) for array in arcs(y, labels))
        for t in range(T):
            for u, label in enumerate(labels):
                cases.append((asymmetry(y, field, (t, u, BLANK), (t, u, label)), lam, e_blank, e_label, t, u))
    check_equation("eq-fastemit-branch", lambda difference, *_: difference, rhs, cases)


@pytest.mark.equation("eq-fastemit-logit-asymmetry")
def test_logit_asymmetry():
    """sympy: the antisymmetric part with respect to the logits of blank and a third symbol at one node."""
    def rhs(difference, lam, e_blank, e_label, y, t, u, r):
        return lam * e_blank[t, u] * e_label[t, u] * y[t, u, r]

    lam, cases = 3, []
    for T, labels, t, u, r in [(2, [1], 0, 0, 2), (3, [2], 1, 0, 1), (2, [2, 1], 0, 1, 2)]:
        own = field_grid("x", (V,))
        one = own[0] / own[0]
        x = random_integers(np.random.default_rng(T), (T, len(labels) + 1, V), bits=4) * one
        x[t, u] = own
        y = softmax(x)
        field = fields(y, labels, lam)[t, u]
        pushed = field - y[t, u] * field.sum()
        difference = own[r] * pushed[BLANK].diff(own[r]) - own[BLANK] * pushed[r].diff(own[BLANK])
        nothing = one - one
        cases.append((difference, lam, *(zero_outside(array, nothing) for array in arcs(y, labels)),
                      zero_outside(y, nothing), t, u, r))
    check_equation("eq-fastemit-logit-asymmetry", lambda difference, *_: difference, rhs, cases)


def work(y, labels, lam, i, j, p, q):
    """The integral of the field's components i and j round the rectangle p x q of the two log-probs."""
    nodes, weights = np.polynomial.legendre.leggauss(30)

    def field(at, entry):
        moved = y.copy()
        moved[i], moved[j] = exp(at[0]), exp(at[1])
        return -factor(labels, *entry, lam) * through(moved, labels, entry) / rnnt_z(moved, labels)

    def side(entry, ends, point):
        middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        return half * sum(w * field(point(middle + half * s), entry) for s, w in zip(nodes, weights, strict=True))

    return (side(i, p, lambda s: (s, q[0])) + side(j, q, lambda s: (p[1], s))
            + side(i, p[::-1], lambda s: (s, q[1])) + side(j, q[::-1], lambda s: (p[0], s)))


@pytest.mark.equation("eq-fastemit-loop")
def test_loop():
    """The line integral round a rectangle, by Gauss quadrature, against four losses."""
    def rhs(integral, lam, L):
        return lam * (L[1, 1] - L[1, 0] - L[0, 1] + L[0, 0])

    cases = []
    for case, i, j in [(0, (0, 0, 0), (0, 0, 1)), (0, (1, 0, 0), (2, 1, 2)), (2, (0, 1, 0), (1, 2, 1))]:
        y, labels = RNNT_INPUTS[case]
        y, lam, p, q = y.astype(float), 0.4, (-1.5, 1.0), (-0.5, 2.0)
        corners = np.empty((2, 2))
        for a, b in np.ndindex(2, 2):
            moved = y.copy()
            moved[i], moved[j] = exp(p[a]), exp(q[b])
            corners[a, b] = -log(rnnt_z(moved, labels))
        cases.append((work(y, labels, lam, i, j, p, q), lam, corners))
    check_equation("eq-fastemit-loop", lambda integral, *_: integral, rhs, cases, tolerance=1e-12)


@pytest.mark.equation("eq-fastemit-bonus")
def test_bonus():
    """Z with every label's probability times C, by enumeration, against a power of C."""
    def rhs(rewarded, C, U, z):
        return C**U * z

    C, cases = Fraction(3, 2), []
    for y, labels in RNNT_INPUTS:
        rewarded = y * C
        rewarded[:, :, BLANK] = y[:, :, BLANK]
        cases.append((rnnt_z(rewarded, labels), C, len(labels), rnnt_z(y, labels)))
    check_equation("eq-fastemit-bonus", lambda rewarded, *_: rewarded, rhs, cases)


@pytest.mark.equation("eq-fastemit-delay")
def test_delay():
    """sympy: -log of the sum over paths, D = e^(d/2), differentiated, against expected emission times."""
    def rhs(slope, e_label, T, U):
        return sum((t - Fraction(T - 1, 2)) * e_label[t, u] for t in range(0, T) for u in range(0, U))

    D, at, cases = sympy.Symbol("D"), Fraction(3, 2), []
    for y, labels in RNNT_INPUTS:
        T = len(y)
        z = sum(sympy.Rational(*rnnt_mass(y, path).as_integer_ratio())
                * D**sum(T - 1 - 2 * t for t, _, k in path if k != BLANK) for path in rnnt_paths(y, labels))
        slope = (-D / 2 * sympy.diff(z, D) / z).subs(D, sympy.Rational(3, 2))
        moved = y.copy()
        for t in range(T):
            moved[t, :, 1:] = y[t, :, 1:] * at**(T - 1 - 2 * t)
        e_label = dict(np.ndenumerate(arcs(moved, labels)[1][:, :len(labels)]))  # an index outside raises
        cases.append((Fraction(int(slope.p), int(slope.q)), e_label, T, len(labels)))
    check_equation("eq-fastemit-delay", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-fastemit-surrogate-slope")
def test_surrogate_slope():
    """sympy: the value of the surrogate differentiated, posteriors included, against field and covariances."""
    def rhs(slope, v, c, y, covariance, entries, j):
        return v[j] - sum(c[i] * log(y[i]) * covariance[i, j] for i in entries)

    y, labels = probabilities(7, (2, 2, 2)), [1]
    lam, paths, entries = Fraction(1, 2), rnnt_paths(y, labels), list(np.ndindex(y.shape))
    c = {i: factor(labels, *i, lam) for i in entries}
    z, posteriors = rnnt_z(y, labels), rnnt_occupancy(y, labels)
    s = dict(zip(entries, sympy.symbols(f"s:{y.size}", real=True), strict=True))
    point = {s[i]: sympy.log(sympy.Rational(*y[i].as_integer_ratio())) for i in entries}
    masses = [sympy.exp(sum(s[i] for i in path)) for path in paths]
    symbolic = {i: sum(m for m, path in zip(masses, paths, strict=True) if i in path) / sum(masses) for i in entries}
    value = -sum(sympy.Rational(*c[i].as_integer_ratio()) * symbolic[i] * s[i] for i in entries)
    v = {i: -c[i] * posteriors[i] for i in entries}
    covariance = {(i, j): through(y, labels, i, j) / z - posteriors[i] * posteriors[j]
                  for i, j in product(entries, repeat=2)}
    cases = [(float(sympy.diff(value, s[j]).subs(point).evalf(30)), v, c, y, covariance, entries, j) for j in entries]
    check_equation("eq-fastemit-surrogate-slope", lambda slope, *_: slope, rhs, cases, tolerance=1e-12)


@pytest.mark.equation("eq-fastemit-balance")
def test_balance():
    """The mean of two utterances' fields at a shared node, by enumeration, against the polynomial."""
    def rhs(value, p, r, lam):
        return p * (lam * r * (1 - p) - (1 - r))

    cases = []
    for p, r, lam in [(Fraction(1, 3), Fraction(4, 5), Fraction(1, 2)), (Fraction(3, 4), Fraction(9, 10), Fraction(2))]:
        value = 0
        for share, label in ((r, 1), (1 - r, 2)):
            y = np.full((2, 2, V), Fraction(0), dtype=object)
            y[0, 0], y[1, 0, label], y[:, 1, BLANK] = [1 - p, p, 0], 1, 1
            field = fields(y, [label], lam)[0, 0]
            value += share * (field - y[0, 0] * field.sum())[BLANK]
        cases.append((value, p, r, lam))
    check_equation("eq-fastemit-balance", lambda value, *_: value, rhs, cases)

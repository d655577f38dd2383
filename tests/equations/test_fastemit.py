"""Checks of the equations of the chapter on FastEmit. On one side stand derivatives, line integrals and sums over
enumerated paths, on the other posteriors and masses of alpha, step and beta."""

from fractions import Fraction
from itertools import cycle, product
from math import exp, log

import mpmath
import notation
import numpy as np
import pytest
import ranges
from brute_force import RNNT_INPUTS as INPUTS
from brute_force import (
    Target,
    blank_of,
    each_entry,
    expected_uses,
    grad_logit,
    next_label,
    probabilities,
    rnnt_alpha,
    rnnt_arcs_of_nodes,
    rnnt_beta_beyond,
    rnnt_gamma,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_occupancy_of_nodes,
    rnnt_paths,
    rnnt_z,
    slope_at,
    zero,
)
from sides import first
from sympy import QQ
from sympy.polys.fields import field
from tex_to_python import Notation

from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({r"\lambda": "lam", "M_{#n}": "M[#n]"})
QUANTITIES = ranges.RNNT | Quantities(ends={
    "lambda = 0": lambda lam: lam == 0,
    "0 < lambda < 1": lambda lam: 0 < lam < 1,
    "lambda > 1": lambda lam: lam > 1,
    "n = 0": lambda n: n == 0,
    "n = T + U - 1": lambda n, T, U: n == T + U - 1,
    "d < 0, constant": lambda C: C < 1,
    "d < 0": lambda D: D < 1,
    "d = 0": lambda D: D == 1,
    "no bet": lambda p: p == 0,
    "descent bets": lambda p, r, lam: lam * r * (1 - p) > 1 - r,
    "descent is at rest": lambda p, r, lam: p > 0 and lam * r * (1 - p) == 1 - r,
    "descent waits": lambda p, r, lam: lam * r * (1 - p) < 1 - r,
})
LAMBDAS = [Fraction(2, 5), 0, 3, 0, 3, Fraction(2, 5), Fraction(2, 5), 3]
WITH_LAMBDA = list(zip(INPUTS, LAMBDAS, strict=True))
NO_LABEL = "no label leaves the last row"


def factors(y, labels, lam):
    """c: 1 + lambda for the next label of each row, else 1."""
    return each_entry(y.shape, lambda t, u, k: 1 + lam * (k == next_label(labels, u)))


def entries_of(y, labels):
    """The entries (t, u, k) of the blank arcs, and of the label arcs."""
    T, rows = y.shape[:2]
    return (list(product(range(T), range(rows), [blank_of(labels)])),
            [(t, u, label) for t in range(T) for u, label in enumerate(labels)])


@computed(kind="sympy")
def log_softmax_slopes(x):
    """d log y_j / d z_k of each node, [..., j, k], where x = e^z."""
    def slope(*index):
        *node, j, k = index
        row = x[tuple(node)]
        return row[k] * slope_at(lambda row: softmax(row)[j], row, k) / softmax(row)[j]

    return each_entry((*x.shape, x.shape[-1]), slope)


def _fields():
    """w: the field of the log-probs, of enumerated occupancies, through sympy's derivatives of log-softmax; x = e^z."""
    for (x, labels), lam in WITH_LAMBDA:
        v = -factors(x, labels, lam) * rnnt_occupancy(softmax(x), labels)
        yield (v[..., None] * log_softmax_slopes(x)).sum(axis=-2), x, softmax(x), labels, lam


def arcs(y, labels):
    """Posteriors of the blank arcs and of the label arcs, of alpha, step and beta."""
    return [zero_outside(each) for each in rnnt_arcs_of_nodes(y, labels)]


@pytest.mark.equation("eq-fastemit-logits", patterns={"v^z_{t,u}(k)": "w"})
def test_logits():
    """The field carried through log-softmax by sympy's derivatives against the closed form."""
    def rhs(w, y, e_blank, e_label, labels, blank, lam, t, u, k):
        return (y[t, u, k] * (e_blank[t, u] + (1 + lam) * e_label[t, u])
                - (k == blank) * e_blank[t, u] - (1 + lam) * (k == labels[u]) * e_label[t, u])

    check_equation("eq-fastemit-logits", first, rhs, (
        (w[index], zero_outside(y), *posteriors, zero_outside(labels, -1), blank_of(labels), lam, *index)
        for w, _, y, labels, lam in _fields() for posteriors in [arcs(y, labels)] for index in np.ndindex(y.shape)))


@pytest.mark.equation("eq-fastemit-split", patterns={"v^z_{t,u}(k)": "w"})
def test_split():
    """The field carried through log-softmax against sympy's gradient of -log of the path sum, and lambda times a
    cross-entropy's."""
    def rhs(w, grad_logits, y, e_label, labels, blank, lam, t, u, k):
        return grad_logits + lam * e_label[t, u] * (y[t, u, k] - (k == labels[u]))

    def cases():
        for w, x, y, labels, lam in _fields():
            _, e_label = arcs(y, labels)
            for index in np.ndindex(y.shape):
                gradient = grad_logit(lambda y, labels=labels: rnnt_z(y, labels), x, *index)
                yield (w[index], gradient, zero_outside(y), e_label, zero_outside(labels, -1), blank_of(labels), lam,
                       *index)

    check_equation("eq-fastemit-split", first, rhs, cases())


@pytest.mark.equation("eq-fastemit-fused", patterns={"v^z_{t,u}(k)": "w"})
def test_fused():
    """The field carried through log-softmax against alpha and beta, as a GPU kernel computes it."""
    def rhs(w, y, alpha, beta, z, labels, blank, lam, t, u, k):
        return y[t, u, k] * alpha[t, u] / z * (
            beta[t, u] + lam * y[t, u, labels[u]] * beta[t, u + 1]
            - (k == blank) * beta[t + 1, u] - (1 + lam) * (k == labels[u]) * beta[t, u + 1])

    check_equation("eq-fastemit-fused", first, rhs, (
        (w[index], zero_outside(y), zero_outside(alpha), zero_outside(beta), z, zero_outside(labels, -1),
         blank_of(labels), lam, *index)
        for w, _, y, labels, lam in _fields()
        for alpha, beta, z in [(rnnt_alpha(y, labels), rnnt_beta_beyond(y, labels), rnnt_z(y, labels))]
        for index in np.ndindex(y.shape)))


@pytest.mark.equation("eq-fastemit-last-node", patterns={"v^z_{T-1,U}(k)": "w"})
def test_last_node():
    """The field of the last node, carried through log-softmax, against softmax minus one-hot: no lambda."""
    def rhs(w, y, blank, lam, T, U, k):
        return y[T - 1, U, k] - (k == blank)

    check_equation("eq-fastemit-last-node", first, rhs, (
        (w[-1, -1, k], zero_outside(y), blank_of(labels), lam, len(y), len(labels), k)
        for w, _, y, labels, lam in _fields() for k in range(y.shape[-1])))


@pytest.mark.equation("eq-fastemit-forgotten")
def test_forgotten():
    """The sum over V when 1 + lambda is missing in the softmax term: with gamma and e of alpha, step and beta, and with
    enumerated occupancies."""
    def lhs(y, gamma, occupancy, e_label, lam, t, u, V):
        return sum(y[t, u, k] * gamma[t, u] - occupancy[t, u, k] for k in range(V)) - lam * e_label[t, u]

    def rhs(y, gamma, occupancy, e_label, lam, t, u, V):
        return -lam * e_label[t, u]

    check_equation("eq-fastemit-forgotten", lhs, rhs, (
        (y, gamma, occupancy, e_label, lam, t, u, y.shape[-1])
        for (x, labels), lam in WITH_LAMBDA for y in [softmax(x)] for _, e_label in [arcs(y, labels)]
        for gamma, occupancy in [(rnnt_gamma(y, labels), rnnt_occupancy(y, labels))]
        for t, u in np.ndindex(y.shape[:2])))


def label_masses(y, labels):
    """M_n from alpha, the label's step, and beta, by enumeration of prefixes and suffixes."""
    alpha, beta = rnnt_alpha(y, labels), rnnt_beta_beyond(y, labels)
    T, U = len(y), len(labels)
    return np.array([sum((alpha[n - u, u] * y[n - u, u, labels[u]] * beta[n - u, u + 1]
                          for u in range(U) if 0 <= n - u < T), Fraction(0)) for n in range(T + U)], dtype=object)


@computed(kind="exact difference")
def objective_slope(y, labels, lam, n, *entry):
    """The slope in log y of an entry of log(Z + lambda M_n), where each path counts 1 + lambda times if its step n is a
    label."""
    def objective(y):
        return sum((rnnt_mass(y, path) * (1 + lam * (path[n][2] != blank_of(labels)))
                    for path in rnnt_paths(y, labels)), zero(y))

    return y[entry] * exact_difference(objective, y, entry, h=5) / objective(y)


@pytest.mark.equation("eq-fastemit-own-diagonal", patterns={
    r"\frac{\partial \log (Z + \lambda M_n)}{\partial \log y_{t,u}(k)}": "slope"})
def test_own_diagonal():
    """Exact differences of Z + lambda M_n in the entries of its own diagonal against the posteriors."""
    def rhs(slope, lam, occupancy, M, z, labels, blank, n, t, u, k):
        return (1 + lam * (k == labels[u])) * occupancy[t, u, k] / (1 + lam * M[n] / z)

    check_equation("eq-fastemit-own-diagonal", first, rhs, (
        (objective_slope(y, labels, lam, t + u, t, u, k), lam, zero_outside(occupancy), zero_outside(M), z,
         zero_outside(labels, -1), blank_of(labels), t + u, t, u, k)
        for (y, labels), lam in WITH_LAMBDA
        for occupancy, M in [(rnnt_occupancy_of_nodes(y, labels), label_masses(y, labels))]
        for z in [rnnt_z(y, labels)] for t, u, k in np.ndindex(y.shape)))


@pytest.mark.equation("eq-fastemit-label-count")
def test_label_count():
    """U Z, by enumerated paths, against the label masses of all diagonals."""
    def rhs(M, z, T, U):
        return sum(M[n] for n in range(0, T + U))

    check_equation("eq-fastemit-label-count", lambda M, z, T, U: U * z, rhs, (
        (zero_outside(label_masses(y, labels), 5), rnnt_z(y, labels), len(y), len(labels)) for y, labels in INPUTS),
        equivalent={"shift bound: range(0, T + U) -> range(0, T + U - 1)":
                    "the last step of every path is a blank: M = 0 there"})


def _as_functions(array, ring):
    """The same fractions, as rational functions."""
    return each_entry(array.shape, lambda *index: ring(QQ(array[index].numerator, array[index].denominator)))


@computed(kind="sympy")
def field_slopes(y, labels, lam):
    """d v_i / d log y_j, [i + j], of the field of alpha, step and beta: a rational function of each y_j in turn. The
    other entries than those of arcs are on no path."""
    slopes = np.full(2 * y.shape, Fraction(0), dtype=object)
    ring, symbol = field("s", QQ)
    for j in sum(entries_of(y, labels), []):
        moved = _as_functions(y, ring)
        moved[j] = symbol
        v = -_as_functions(factors(y, labels, lam), ring) * rnnt_occupancy_of_nodes(moved, labels)
        for i in sum(entries_of(y, labels), []):
            slopes[i + j] = y[j] * _slope(v[i], symbol, y[j])
    return slopes


def _slope(function, symbol, at):
    """The derivative of a rational function of one symbol, at a fraction."""
    derivative, at = function.diff(symbol), QQ(at.numerator, at.denominator)
    found = derivative.numer.evaluate(0, at) / derivative.denom.evaluate(0, at)
    return Fraction(int(found.numerator), int(found.denominator))


@computed
def pair_masses(y, labels):
    """Z_ij, [i + j]: mass of the paths that use both entries."""
    masses = np.full(2 * y.shape, Fraction(0), dtype=object)
    for path in rnnt_paths(y, labels):
        for i, j in product(path, repeat=2):
            masses[i + j] += rnnt_mass(y, path)
    return masses


def _single_and_z(y, labels):
    """Z_i of every entry and Z, of alpha, step and beta."""
    z = rnnt_beta_beyond(y, labels)[0, 0]
    return z * rnnt_occupancy_of_nodes(y, labels), z


FOR_SLOPES = [*WITH_LAMBDA[3:], WITH_LAMBDA[0]]  # small ones first
ASYMMETRY = {r"\frac{\partial v_i}{\partial \log y_j}": "slope_ij",
             r"\frac{\partial v_j}{\partial \log y_i}": "slope_ji"}


@pytest.mark.equation("eq-fastemit-asymmetry", patterns=ASYMMETRY | {
    "Z_{ij}": "z_ij", "Z_i": "z_i", "Z_j": "z_j"})
def test_asymmetry():
    """sympy: the antisymmetric part of the field's Jacobian against lambda times the covariance of two arcs, of which
    enumerated paths use both."""
    def lhs(slope_ij, slope_ji, lam, z_ij, z_i, z_j, z):
        return slope_ij - slope_ji

    def rhs(slope_ij, slope_ji, lam, z_ij, z_i, z_j, z):
        return lam * (z_ij / z - z_i * z_j / z**2)

    def cases():
        for (y, labels), lam in FOR_SLOPES:
            if labels:
                slopes, both = field_slopes(y, labels, lam), pair_masses(y, labels)
                single, z = _single_and_z(y, labels)
                for i, j in product(*entries_of(y, labels)):
                    yield slopes[i + j], slopes[j + i], lam, both[i + j], single[i], single[j], z

    check_equation("eq-fastemit-asymmetry", lhs, rhs, cases(), left_out={"U = 0": "j is a label's entry"})


def test_two_blanks_and_two_labels_are_symmetric():
    for (y, labels), lam in FOR_SLOPES[2:4]:
        slopes = field_slopes(y, labels, lam)
        for entries in entries_of(y, labels):
            assert all(slopes[i + j] == slopes[j + i] for i, j in product(entries, repeat=2))


def enumerated_arcs(y, labels):
    """Posteriors of the blank arcs and of the label arcs, of enumerated paths."""
    occupancy = rnnt_occupancy(y, labels)
    return [zero_outside(occupancy[:, :, blank_of(labels)]),
            zero_outside(occupancy[:, range(len(labels)), list(labels)])]


@pytest.mark.equation("eq-fastemit-branch", patterns=ASYMMETRY)
def test_branch():
    """sympy: the antisymmetric part for the two arcs of one node against their enumerated posteriors."""
    def lhs(slope_ij, slope_ji, lam, e_blank, e_label, t, u):
        return slope_ij - slope_ji

    def rhs(slope_ij, slope_ji, lam, e_blank, e_label, t, u):
        return -lam * e_blank[t, u] * e_label[t, u]

    def cases():
        for (y, labels), lam in FOR_SLOPES:
            slopes, posteriors = field_slopes(y, labels, lam), enumerated_arcs(y, labels)
            for t, u, label in entries_of(y, labels)[1]:
                i, j = (t, u, blank_of(labels)), (t, u, label)
                yield slopes[i + j], slopes[j + i], lam, *posteriors, t, u

    check_equation("eq-fastemit-branch", lhs, rhs, cases(), left_out={"u = U": NO_LABEL, "U = 0": NO_LABEL})


@computed(kind="sympy")
def logit_slopes(x, labels, lam, *index):
    """d w(k) / d z of one entry, for every symbol k of its node: w = v - y times the sum of v over the node, with v of
    alpha, step and beta, is a rational function of x = e^z."""
    ring, symbol = field("s", QQ)
    moved = _as_functions(x, ring)
    moved[index] = symbol
    y, node = softmax(moved), index[:2]
    v = (-_as_functions(factors(x, labels, lam), ring) * rnnt_occupancy_of_nodes(y, labels))[node]
    return [x[index] * _slope(each, symbol, x[index]) for each in v - y[node] * v.sum()]


# three symbols at least, and yet as many frames as four, and labels
THIRD_SYMBOL = [(4, 3, [1]), (2, 3, [2, 2]), (1, 3, [1, 2, 1, 1]), (2, 3, []), (2, 4, Target([3, 0], blank=2))]


@pytest.mark.equation("eq-fastemit-logit-asymmetry", patterns={
    r"\frac{\partial v^z(\varnothing)}{\partial z(k)}": "slope_by_r",
    r"\frac{\partial v^z(k)}{\partial z(\varnothing)}": "slope_of_r", "y_{t,u}(k)": "y[t, u, r]"})
def test_logit_asymmetry():
    """sympy: the antisymmetric part with respect to the logits of blank and a third symbol at one node, against
    enumerated posteriors."""
    def lhs(slope_by_r, slope_of_r, lam, e_blank, e_label, y, labels, t, u, r):
        return slope_by_r - slope_of_r

    def rhs(slope_by_r, slope_of_r, lam, e_blank, e_label, y, labels, t, u, r):
        return lam * e_blank[t, u] * e_label[t, u] * y[t, u, r]

    def cases():
        for seed, ((T, V, labels), lam) in enumerate(zip(THIRD_SYMBOL, cycle([3, Fraction(2, 5), 0]), strict=False)):
            x, blank = probabilities(seed, (T, len(labels) + 1, V)), blank_of(labels)
            posteriors = enumerated_arcs(softmax(x), labels)
            for t, u, r in np.ndindex(x.shape):
                if r not in (blank, next_label(labels, u)):
                    yield (logit_slopes(x, labels, lam, t, u, r)[blank], logit_slopes(x, labels, lam, t, u, blank)[r],
                           lam, *posteriors, zero_outside(softmax(x)), labels, t, u, r)

    check_equation("eq-fastemit-logit-asymmetry", lhs, rhs, cases())


@computed(kind="quadrature")
def work(y, labels, lam, i, j, p_ends, q_ends):
    """The integral of the components i and j of the field, of enumerated posteriors, round the rectangle of the two
    log-probs."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    c, paths = factors(y, labels, lam), rnnt_paths(y, labels)

    def component(at, entry):
        moved = y.copy()
        moved[i], moved[j] = exp(at[0]), exp(at[1])
        masses = [rnnt_mass(moved, path) for path in paths]
        return -c[entry] * sum(mass for mass, path in zip(masses, paths, strict=True) if entry in path) / sum(masses)

    def side(entry, ends, point):
        middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        return half * sum(w * component(point(middle + half * s), entry) for s, w in zip(nodes, weights, strict=True))

    return (side(i, p_ends, lambda s: (s, q_ends[0])) + side(j, q_ends, lambda s: (p_ends[1], s))
            + side(i, p_ends[::-1], lambda s: (s, q_ends[1])) + side(j, q_ends[::-1], lambda s: (p_ends[0], s)))


# an input, a blank's entry and a label's
LOOPS = [(0, (0, 0, 0), (0, 0, 1)), (0, (1, 0, 0), (2, 1, 2)), (2, (0, 1, 0), (1, 2, 1)), (5, (1, 0, 0), (1, 0, 1)),
         (6, (1, 3, 0), (0, 2, 1)), (7, (0, 1, 2), (1, 1, 0)), (3, (0, 1, 0), (0, 0, 2))]


@pytest.mark.equation("eq-fastemit-loop", patterns={r"\oint ( v_p \mathrm d p + v_q \mathrm d q )": "integral"} | {
    f"L_{{{a}{b}}}": f"L[{a}, {b}]" for a in (0, 1) for b in (0, 1)})
def test_loop():
    """The line integral round a rectangle, by Gauss quadrature over enumerated posteriors, against four losses of alpha
    and the last blank."""
    def rhs(integral, lam, L):
        return lam * (L[1, 1] - L[1, 0] - L[0, 1] + L[0, 0])

    def cases():
        for (case, i, j), lam in zip(LOOPS, [0.4, 0.4, 0.4, 0.4, 3.0, 3.0, 0.0], strict=True):
            y, labels = INPUTS[case]
            y, p, q = y.astype(float), (-1.5, 1.0), (-0.5, 2.0)
            corners = np.empty((2, 2))
            for a, b in np.ndindex(2, 2):
                moved = y.copy()
                moved[i], moved[j] = exp(p[a]), exp(q[b])
                corners[a, b] = -log(rnnt_alpha(moved, labels)[-1, -1] * moved[-1, -1, blank_of(labels)])
            yield work(y, labels, lam, i, j, p, q), lam, corners

    check_equation("eq-fastemit-loop", first, rhs, cases(), tolerance=1e-12,
                   left_out={"U = 0": "q is a label's log-prob"})


@pytest.mark.equation("eq-fastemit-bonus", patterns={"Z'": "rewarded", "e^{dU}": "C ** U"})
def test_bonus():
    """Z with every label's probability times C = e^d, by enumeration, against a power of C."""
    def rhs(rewarded, C, U, z):
        return C**U * z

    def cases():
        for y, labels in INPUTS:
            for C in (Fraction(3, 2), Fraction(2, 5), 1):
                changed = y * C
                changed[:, :, blank_of(labels)] = y[:, :, blank_of(labels)]
                yield rnnt_z(changed, labels), C, len(labels), rnnt_z(y, labels)

    check_equation("eq-fastemit-bonus", first, rhs, cases())


@computed(kind="sympy")
def delay_slope(y, labels, D):
    """The slope in d of -log of the sum over paths, where each label weighs e^(d ((T - 1)/2 - t)) more, D = e^(d/2)."""
    T = len(y)

    def z_of(D):
        return sum(QQ(*rnnt_mass(y, path).as_integer_ratio())
                   * D[0]**sum(T - 1 - 2 * t for t, _, k in path if k != blank_of(labels))
                   for path in rnnt_paths(y, labels))

    return -D / 2 * slope_at(z_of, np.array([D]), 0) / Fraction(str(z_of([QQ(*D.as_integer_ratio())])))


@pytest.mark.equation("eq-fastemit-delay", patterns={r"\frac{\partial L_d}{\partial d}": "slope"})
def test_delay():
    """sympy: -log of the sum over paths, differentiated with respect to d, against expected emission times."""
    def rhs(slope, e_label, T, U):
        return sum(sum((t - Fraction(T - 1, 2)) * e_label[t, u] for u in range(0, U)) for t in range(0, T))

    def cases():
        for y, labels in INPUTS:
            T, blank = len(y), blank_of(labels)
            for D in (Fraction(3, 2), Fraction(1), Fraction(2, 3)):
                moved = y * np.array([D**(T - 1 - 2 * t) for t in range(T)], dtype=object)[:, None, None]
                moved[:, :, blank] = y[:, :, blank]
                _, e_label = rnnt_arcs_of_nodes(moved, labels)
                yield delay_slope(y, labels, D), zero_outside(e_label, zero=None), T, len(labels)

    check_equation("eq-fastemit-delay", first, rhs, cases())


@computed(kind="differences in 30 digits")
def surrogate_slope(y, labels, lam, *entry):
    """The limit of difference quotients of the surrogate's value in the log-prob of an entry, posteriors included."""
    mp, paths, c = mpmath.MPContext(), rnnt_paths(y, labels), factors(y, labels, lam)
    mp.dps = 30
    log_probs = each_entry(y.shape, lambda *index: mp.log(mp.mpf(y[index].numerator) / y[index].denominator))

    def value(log_prob):
        moved = log_probs.copy()
        moved[entry] = log_prob
        return -(c * expected_uses(each_entry(y.shape, lambda *index: mp.exp(moved[index])), paths) * moved).sum()

    return float(mp.diff(value, log_probs[entry]))


@pytest.mark.equation("eq-fastemit-surrogate-slope", over={"i": "entries"}, patterns={
    r"\frac{\partial \tilde L}{\partial \log y_j}": "slope", "Z_{ij}": "with_j[i]", "Z_i": "single[i]",
    "Z_j": "single[j]"})
def test_surrogate_slope():
    """The slope of the surrogate's value, posteriors included, against field and covariances: of which enumerated paths
    use both entries, the rest of alpha, step and beta."""
    def rhs(slope, v, c, y, with_j, single, z, entries, j):
        return v[j] - sum(c[i] * log(y[i]) * (with_j[i] / z - single[i] * single[j] / z**2) for i in entries)

    def cases():
        for (y, labels), lam in FOR_SLOPES:
            c, entries, both = factors(y, labels, lam), list(np.ndindex(y.shape)), pair_masses(y, labels)
            v, (single, z) = -c * rnnt_occupancy_of_nodes(y, labels), _single_and_z(y, labels)
            for j in entries:
                yield surrogate_slope(y, labels, lam, *j), v, c, y.astype(float), both[(..., *j)], single, z, entries, j

    check_equation("eq-fastemit-surrogate-slope", first, rhs, cases(), tolerance=1e-12)


@computed
def word_field(p, label, lam):
    """w of the blank in frame 0, for an utterance of one of the two words: enumerated posteriors."""
    y = np.full((2, 2, 3), Fraction(0), dtype=object)
    y[0, 0], y[1, 0, label], y[:, 1, 0] = [1 - p, p, 0], 1, 1
    v = -factors(y, [label], lam)[0, 0] * rnnt_occupancy(y, [label])[0, 0]
    return (v - y[0, 0] * v.sum())[0]


@pytest.mark.equation("eq-fastemit-balance", patterns={
    r"v^z_1(\varnothing)": "w_a", r"v^z_2(\varnothing)": "w_b", r"\eta": "p", r"\rho": "r"})
def test_balance():
    """The mean of two utterances' fields at a shared node, by enumeration, against the polynomial."""
    def lhs(w_a, w_b, p, r, lam):
        return r * w_a + (1 - r) * w_b

    def rhs(w_a, w_b, p, r, lam):
        return p * (lam * r * (1 - p) - (1 - r))

    bets, certain = [Fraction(0), Fraction(1, 3), Fraction(3, 4)], [Fraction(3, 5), Fraction(4, 5), Fraction(9, 10)]
    check_equation("eq-fastemit-balance", lhs, rhs, (
        (word_field(p, 1, lam), word_field(p, 2, lam), p, r, lam)
        for p, r, lam in product(bets, certain, [0, Fraction(3, 8), 2])))

"""Checks of the equations of the chapter on softmax. Exact: logarithms of fractions, rational functions, path sums."""

from fractions import Fraction
from itertools import product
from math import e

import numpy as np
import pytest
import sympy
from brute_force import ctc_strings, probabilities, rnnt_mass, rnnt_paths
from sympy.polys.matrices import DomainMatrix

from reference_impl.differences import exact_difference, random_integers
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, ring_grid, softmax, to_expr

#: What an array reads as outside its bounds, so that a shifted index or bound does not stay unnoticed.
OUTSIDE = 99


class Log:
    """The logarithm of a positive fraction, held exactly: to add logarithms is to multiply fractions."""

    def __init__(self, x):
        self.x = Fraction(x)

    def __add__(self, other):
        return Log(self.x * other.x) if isinstance(other, Log) else NotImplemented

    def __sub__(self, other):
        return Log(self.x / other.x) if isinstance(other, Log) else NotImplemented

    def __neg__(self):
        return Log(1 / self.x)

    def __eq__(self, other):
        return isinstance(other, Log) and self.x == other.x

    def __repr__(self):
        return f"log({self.x})"


def exp(u):
    return u.x


log = np.frompyfunc(Log, 1, 1)  # of a fraction, or of each in an array


def lse(u):
    """The definition."""
    return log(sum(exp(score) for score in u))


#: Rows of logits whose exponentials are fractions; sizes differ, and no two entries of a row are equal.
ROWS = [log(probabilities(seed, (V,))) for seed, V in enumerate((2, 3, 5))]


# Log-sum-exp

@pytest.mark.equation("eq-lse-shift")
def test_lse_shift():
    """Log-sum-exp by its definition, of shifted scores, against the shifted value: exact logarithms of fractions."""
    def lhs(u, c):
        return lse(u + c)

    def rhs(u, c):
        return lse(u) + c

    check_equation("eq-lse-shift", lhs, rhs, [(u, Log(Fraction(3, 7))) for u in ROWS])


@pytest.mark.equation("eq-lse-stable")
def test_lse_stable():
    """Log-sum-exp by its definition against the form with the maximum taken out: exact logarithms of fractions."""
    def rhs(u, m, V):
        return m + log(sum(exp(u[j] - m) for j in range(0, V)))

    cases = [(zero_outside(u, Log(OUTSIDE)), max(u, key=exp), len(u)) for u in ROWS]
    check_equation("eq-lse-stable", lambda u, m, V: lse(u.array), rhs, cases)


def _slopes(function, u):
    """Derivatives of a sympy expression in real symbols, evaluated where the exponentials of the symbols are ``u``."""
    v = sympy.symbols(f"v:{len(u)}", real=True)
    point = {symbol: sympy.log(sympy.Rational(score.x.numerator, score.x.denominator))
             for symbol, score in zip(v, u, strict=True)}

    def exact(expression):
        value = sympy.Rational(sympy.simplify(expression.subs(point)))
        return Fraction(int(value.p), int(value.q))

    return v, function(v), exact


def _sympy_lse(v):
    return sympy.log(sum(sympy.exp(symbol) for symbol in v))


@pytest.mark.equation("eq-lse-gradient")
def test_lse_gradient():
    """sympy: the derivative of the logarithm of the sum of exponentials, at logarithms of fractions."""
    def rhs(slopes, x, k, V):
        return x[k] / sum(x[j] for j in range(0, V))

    cases = []
    for u in ROWS:
        v, value, exact = _slopes(_sympy_lse, u)
        slopes = [exact(sympy.diff(value, symbol)) for symbol in v]
        cases += [(slopes, zero_outside([exp(score) for score in u], OUTSIDE), k, len(u)) for k in range(len(u))]
    check_equation("eq-lse-gradient", lambda slopes, x, k, V: slopes[k], rhs, cases)


@pytest.mark.equation("eq-log-softmax")
def test_log_softmax():
    """The logarithm of the softmax by its definition against logit minus log-sum-exp: exact logarithms of fractions."""
    def lhs(u, k):
        return log(exp(u[k]) / sum(exp(score) for score in u))

    def rhs(u, k):
        return u[k] - lse(u)

    check_equation("eq-log-softmax", lhs, rhs, [(u, k) for u in ROWS for k in range(len(u))])


@pytest.mark.equation("eq-lse-hessian")
def test_lse_hessian():
    """sympy: second derivatives of the logarithm of the sum of exponentials against softmaxes as fractions."""
    def rhs(hessian, y, j, k):
        return y[j] * ((j == k) - y[k])

    cases = []
    for u in ROWS[:2]:
        v, value, exact = _slopes(_sympy_lse, u)
        hessian = [[exact(sympy.diff(value, v[j], v[k])) for k in range(len(u))] for j in range(len(u))]
        y = zero_outside([exp(score) / sum(map(exp, u)) for score in u], OUTSIDE)
        cases += [(hessian, y, j, k) for j, k in np.ndindex(len(u), len(u))]
    check_equation("eq-lse-hessian", lambda hessian, y, j, k: hessian[j][k], rhs, cases)


@pytest.mark.equation("eq-lse-curvature")
def test_lse_curvature():
    """Second derivatives of log S by S = x_0 + x_1 + ..., d/du = x d/dx, in a direction, against the variance."""
    def lhs(x, y, v, V):
        S = sum(x.tolist())
        return sum(v[j] * x[j] * (x[k] * S.diff(x[k]) / S).diff(x[j]) * v[k] for j, k in np.ndindex(V, V))

    def rhs(x, y, v, V):
        return sum(y[k] * (v[k] - sum(y[j] * v[j] for j in range(0, V))) ** 2 for k in range(0, V))

    cases = []
    for seed, V in enumerate((2, 3, 4)):
        x, v = field_grid("x", (V,)), random_integers(np.random.default_rng(seed), V, bits=5)
        cases.append((x, zero_outside(softmax(x), OUTSIDE), zero_outside(v, OUTSIDE), V))
    check_equation("eq-lse-curvature", lhs, rhs, cases)


# One row of a loss

def _ctc_rows():
    """Each frame of small CTC cases: the entries of the frame, paths as lists of entries, all entries."""
    for seed, (T, targets) in enumerate([(2, [1]), (3, [1, 2]), (4, [1, 1])]):
        y = probabilities(seed, (T, 3))
        paths = [list(enumerate(string)) for string in ctc_strings(y, targets)]
        for t in range(T):
            yield y, (t,), paths


def _rnnt_rows():
    """Each node of small RNN-T cases."""
    for seed, (T, targets) in enumerate([(2, [1]), (3, [1, 2])]):
        y = probabilities(10 + seed, (T, len(targets) + 1, 3))
        for t, u in np.ndindex(y.shape[:2]):
            yield y, (t, u), rnnt_paths(y, targets)


def _rows():
    yield from _ctc_rows()
    yield from _rnnt_rows()


def _total(y, paths):
    return sum((rnnt_mass(y, path) for path in paths), Fraction(0))


def _bypass(y, row, paths):
    """The mass of the paths that use no entry of the row."""
    return _total(y, [path for path in paths if all(tuple(entry[:-1]) != row for entry in path)])


@pytest.mark.equation("eq-softmax-row")
def test_row():
    """Z over all paths against the paths around the row and those through each entry, without its factor."""
    def rhs(z, A, B, y, V):
        return A + sum(B[k] * y[k] for k in range(0, V))

    cases = []
    for y, row, paths in _rows():
        without = y.copy()
        without[row] = Fraction(1)
        B = [_total(without, [path for path in paths if (*row, k) in [tuple(entry) for entry in path]])
             for k in range(3)]
        cases.append((_total(y, paths), _bypass(y, row, paths), zero_outside(B, OUTSIDE),
                      zero_outside(y[row], OUTSIDE), 3))
    assert any(case[1] for case in cases) and not all(case[1] for case in cases)
    check_equation("eq-softmax-row", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-softmax-row-difference")
def test_row_difference():
    """-log (A + sum B y) by its definition against two log-sum-exps: exact logarithms of fractions."""
    def lhs(u, A, B):
        S = sum(map(exp, u))
        return -log(A + sum(b * exp(score) / S for b, score in zip(B, u, strict=True)))

    def rhs(u, A, B):
        return lse(u) - lse(u + log(A + B))

    cases = [(u, A, probabilities(20 + len(u), u.shape)) for u in ROWS for A in (Fraction(2, 3), Fraction(0))]
    check_equation("eq-softmax-row-difference", lhs, rhs, cases)


@pytest.mark.equation("eq-softmax-row-sum")
def test_row_sum():
    """Occupancies of a row, each as the share of the paths that use the entry, added up, against 1 - A / Z."""
    def lhs(y, row, paths, A, Z):
        through = [[path for path in paths if (*row, k) in [tuple(entry) for entry in path]] for k in range(3)]
        return sum(_total(y, some) for some in through) / _total(y, paths)

    def rhs(y, row, paths, A, Z):
        return 1 - A / Z

    cases = [(y, row, paths, _bypass(y, row, paths), _total(y, paths)) for y, row, paths in _rows()]
    assert len({case[3] / case[4] for case in cases}) > 3
    check_equation("eq-softmax-row-sum", lhs, rhs, cases)


# Jacobians and products with them

#: Rows of symbols x_k = e^(u_k), in which d/du_k is x_k d/dx_k.
GRIDS = [field_grid("x", (V,)) for V in (2, 3, 4)]


def jacobian(x):
    """d y_j / d u_k, differentiated by sympy."""
    y = softmax(x)
    return np.array([[x[k] * y[j].diff(x[k]) for k in range(len(x))] for j in range(len(x))], dtype=object)


def log_jacobian(x):
    """d log y_j / d u_k, differentiated by sympy: d log y = dy / y."""
    return jacobian(x) / softmax(x)[:, None]


def _padded(*arrays):
    return [zero_outside(array, OUTSIDE) for array in arrays]


@pytest.mark.equation("eq-softmax-jacobian")
def test_softmax_jacobian():
    """sympy: derivative of each probability with respect to each logit, as rational functions of x = e^u."""
    def rhs(J, y, j, k):
        return y[j] * ((j == k) - y[k])

    cases = [(jacobian(x), *_padded(softmax(x)), j, k) for x in GRIDS for j, k in np.ndindex(len(x), len(x))]
    check_equation("eq-softmax-jacobian", lambda J, y, j, k: J[j, k], rhs, cases)


@pytest.mark.equation("eq-log-softmax-jacobian")
def test_log_softmax_jacobian():
    """sympy: derivative of each log-prob with respect to each logit, as rational functions of x = e^u."""
    def rhs(J, y, j, k):
        return (j == k) - y[k]

    cases = [(log_jacobian(x), *_padded(softmax(x)), j, k) for x in GRIDS for j, k in np.ndindex(len(x), len(x))]
    check_equation("eq-log-softmax-jacobian", lambda J, y, j, k: J[j, k], rhs, cases)


def _directions():
    for seed, x in enumerate(GRIDS):
        yield x, random_integers(np.random.default_rng(seed), len(x), bits=8)


@pytest.mark.equation("eq-softmax-jvp")
def test_softmax_jvp():
    """The symbolic Jacobian of softmax times a direction against the closed form, as rational functions."""
    def rhs(moved, y, v, j, V):
        return y[j] * (v[j] - sum(y[k] * v[k] for k in range(0, V)))

    cases = [(jacobian(x) @ v, *_padded(softmax(x), v), j, len(x)) for x, v in _directions() for j in range(len(x))]
    check_equation("eq-softmax-jvp", lambda moved, y, v, j, V: moved[j], rhs, cases)


@pytest.mark.equation("eq-log-softmax-jvp")
def test_log_softmax_jvp():
    """The symbolic Jacobian of log-softmax times a direction against the closed form, as rational functions."""
    def rhs(moved, y, v, j, V):
        return v[j] - sum(y[k] * v[k] for k in range(0, V))

    cases = [(log_jacobian(x) @ v, *_padded(softmax(x), v), j, len(x)) for x, v in _directions() for j in range(len(x))]
    check_equation("eq-log-softmax-jvp", lambda moved, y, v, j, V: moved[j], rhs, cases)


def _polynomials():
    """Losses as polynomials in the probabilities of a row, none of them symmetric, none homogeneous."""
    yield 2, lambda p: 3 * p[0] ** 2 * p[1] - 5 * p[1]
    yield 3, lambda p: 2 * p[0] ** 2 * p[1] + 7 * p[1] * p[2] ** 2 - p[0] + 4
    yield 4, lambda p: p[0] * p[1] * p[2] - 3 * p[3] ** 3 + 2 * p[1] * p[3]


def _losses():
    """Slopes with respect to the logits, differentiated as one rational function of x; probs; slopes in the probs."""
    for V, loss in _polynomials():
        x, p = field_grid("x", (V,)), ring_grid("p", (V,))
        y = softmax(x)
        through = loss(y)
        slopes = [x[k] * through.diff(x[k]) for k in range(V)]
        h = np.array([_at(loss(p).diff(p[k]), p, y) for k in range(V)], dtype=object)
        yield slopes, y, h, V


def _at(polynomial, variables, values):
    """A polynomial with other elements put in for its variables, term by term."""
    total = 0
    for powers, coefficient in polynomial.terms():
        term = int(coefficient)
        for value, power in zip(values, powers, strict=True):
            term = term * value ** int(power)
        total = total + term
    return total


@pytest.mark.equation("eq-softmax-vjp")
def test_softmax_vjp():
    """sympy differentiates polynomials of a softmax with respect to the logits, against their slopes in the probs."""
    def rhs(slopes, y, h, k, V):
        return y[k] * (h[k] - sum(y[j] * h[j] for j in range(0, V)))

    cases = [(slopes, *_padded(y, h), k, V) for slopes, y, h, V in _losses() for k in range(V)]
    check_equation("eq-softmax-vjp", lambda slopes, y, h, k, V: slopes[k], rhs, cases)


@pytest.mark.equation("eq-log-softmax-vjp")
def test_log_softmax_vjp():
    """sympy differentiates linear functions of the log-probs, and polynomials of their exponentials, against g."""
    def rhs(slopes, y, g, k, V):
        return g[k] - y[k] * sum(g[j] for j in range(0, V))

    cases = []
    for x, w in _directions():  # sum_j w_j log y_j, whose gradient is w
        y, V = softmax(x), len(x)
        slopes = [sum(w[j] * x[k] * y[j].diff(x[k]) / y[j] for j in range(V)) for k in range(V)]
        cases += [(slopes, *_padded(y, w), k, V) for k in range(V)]
    for V, loss in _polynomials():  # d/da = p d/dp for p = e^a
        x, p = field_grid("x", (V,)), ring_grid("p", (V,))
        y = softmax(x)
        slopes = [x[k] * loss(y).diff(x[k]) for k in range(V)]
        g = np.array([_at(p[k] * loss(p).diff(p[k]), p, y) for k in range(V)], dtype=object)
        cases += [(slopes, *_padded(y, g), k, V) for k in range(V)]
    check_equation("eq-log-softmax-vjp", lambda slopes, y, g, k, V: slopes[k], rhs, cases)


@pytest.mark.equation("eq-softmax-sum-zero")
def test_sum_zero():
    """sympy: the derivative of a loss with respect to one logit against minus those with respect to the others."""
    def rhs(bar_u, k, V):
        return -sum(bar_u[j] for j in range(0, V) if j != k)

    cases = [(zero_outside(np.array(slopes, dtype=object), OUTSIDE), k, V)
             for slopes, _, _, V in _losses() for k in range(V)]
    check_equation("eq-softmax-sum-zero", lambda bar_u, k, V: bar_u[k], rhs, cases)


# The three gradients

#: A normalised row of fractions, and one with four entries.
POINTS = [[Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)],
          [Fraction(1, 10), Fraction(2, 5), Fraction(3, 10), Fraction(1, 5)]]


def _sympy_slopes(loss, y):
    """d loss / d log y_k by sympy, which is given y = e^a and knows no rule of ours; exact."""
    a = sympy.symbols(f"a:{len(y)}", real=True)
    value = loss([sympy.exp(symbol) for symbol in a])
    point = {symbol: sympy.log(sympy.Rational(p.numerator, p.denominator)) for symbol, p in zip(a, y, strict=True)}
    slopes = []
    for symbol in a:
        slope = sympy.Rational(sympy.simplify(sympy.diff(value, symbol).subs(point)))
        slopes.append(Fraction(int(slope.p), int(slope.q)))
    return slopes


def multi_affine(p):
    """A loss in which every probability occurs to the first power: exact differences are its slopes."""
    return 3 * p[0] * p[1] - 5 * p[1] * p[2] + 2 * p[2] + (7 * p[3] * p[0] if len(p) > 3 else 0)


def _probs_slopes(y):
    return [exact_difference(multi_affine, np.array(y, dtype=object), (k,), h=1000) for k in range(len(y))]


@pytest.mark.equation("eq-softmax-log-probs-from-probs")
def test_log_probs_from_probs():
    """sympy: derivatives with respect to the log-probs against exact differences in the probs, times the probs."""
    def rhs(g, y, h, k):
        return y[k] * h[k]

    cases = [(_sympy_slopes(multi_affine, y), *_padded(y, _probs_slopes(y)), k) for y in POINTS for k in range(len(y))]
    check_equation("eq-softmax-log-probs-from-probs", lambda g, y, h, k: g[k], rhs, cases)


@pytest.mark.equation("eq-softmax-eliminated")
def test_eliminated():
    """sympy: the last probability replaced by 1 minus the others and then differentiated, against differences of h."""
    def lhs(y, h, k, V):
        p = ring_grid("p", (V - 1,))
        value = multi_affine([*p, 1 - sum(p.tolist())])
        return _at(value.diff(p[k]), p, y[:V - 1])

    def rhs(y, h, k, V):
        return h[k] - h[V - 1]

    cases = [(y, zero_outside(_probs_slopes(y), OUTSIDE), k, len(y)) for y in POINTS for k in range(len(y) - 1)]
    check_equation("eq-softmax-eliminated", lhs, rhs, cases)


def null_vectors(matrix):
    """A basis of the exact null space, as fractions."""
    rows = [[sympy.Rational(entry.numerator, entry.denominator) for entry in row] for row in matrix]
    basis = DomainMatrix.from_list_sympy(len(rows), len(rows[0]), rows).to_field().nullspace().to_Matrix().tolist()
    return [[Fraction(int(entry.p), int(entry.q)) for entry in vector] for vector in basis]


def at_point(matrix, x, y):
    """A matrix of rational functions of x at x = y, as fractions."""
    point = {to_expr(symbol): sympy.Rational(p.numerator, p.denominator) for symbol, p in zip(x, y, strict=True)}
    values = [[to_expr(entry).subs(point) for entry in row] for row in matrix]
    return [[Fraction(int(value.p), int(value.q)) for value in row] for row in values]


def _same_logit_gradient(kind):
    """Two vectors with one image under the transposed symbolic Jacobian: their difference is a null vector of it."""
    rng = np.random.default_rng(0)
    for y in POINTS:
        x = field_grid("x", (len(y),))
        matrix = at_point({"log-probs": log_jacobian, "probs": jacobian}[kind](x), x, y)
        (null,) = null_vectors(np.array(matrix, dtype=object).T)  # one dimension, no more
        for factor in (Fraction(1), Fraction(-5, 3)):
            first = random_integers(rng, len(y), bits=6)
            second = first + factor * np.array(null, dtype=object)
            # outside their bounds the two read differently, so that a shifted bound shows
            yield *_padded(y, first), zero_outside(second, 2 * OUTSIDE), len(y)


@pytest.mark.equation("eq-log-softmax-kernel")
def test_log_softmax_kernel():
    """Vectors with the same image under the symbolic Jacobian, found by exact linear algebra, against y times a sum."""
    def rhs(y, g, g_prime, k, V):
        return y[k] * sum(g_prime[j] - g[j] for j in range(0, V))

    cases = [(y, g, g_prime, k, V) for y, g, g_prime, V in _same_logit_gradient("log-probs") for k in range(V)]
    check_equation("eq-log-softmax-kernel", lambda y, g, g_prime, k, V: g_prime[k] - g[k], rhs, cases)


@pytest.mark.equation("eq-softmax-kernel")
def test_softmax_kernel():
    """The same for probs: vectors with the same image differ by the mean of their difference, in every entry."""
    def rhs(y, h, h_prime, k, V):
        return sum(y[j] * (h_prime[j] - h[j]) for j in range(0, V))

    cases = [(y, h, h_prime, k, V) for y, h, h_prime, V in _same_logit_gradient("probs") for k in range(V)]
    check_equation("eq-softmax-kernel", lambda y, h, h_prime, k, V: h_prime[k] - h[k], rhs, cases)


@pytest.mark.equation("eq-softmax-extension")
def test_extension():
    """sympy: the derivative with respect to a log-prob of the loss with c (sum - 1) added, against that without it."""
    def lhs(g, y, c, k):
        return _sympy_slopes(lambda p: multi_affine(p) + sympy.Rational(c) * (sum(p) - 1), y.array)[k]

    def rhs(g, y, c, k):
        return g[k] + c * y[k]

    cases = []
    for y in POINTS:
        g = np.array(y, dtype=object) * np.array(_probs_slopes(y), dtype=object)
        cases += [(*_padded(g, y), c, k) for c in (Fraction(4, 7), Fraction(-3)) for k in range(len(y))]
    check_equation("eq-softmax-extension", lhs, rhs, cases)


# Merging, normalising twice

def _merged_cases():
    """sympy: slopes of -log of the path sum with respect to the logits; occupancies by enumeration; probabilities."""
    for T, targets in [(2, [1]), (3, [1, 1])]:
        x = field_grid("x", (T, 2))
        y = softmax(x)
        yield x, y, [list(enumerate(string)) for string in ctc_strings(y, targets)]
    for T, targets in [(2, [1]), (1, [1, 1])]:
        x = field_grid("x", (T, len(targets) + 1, 2))
        y = softmax(x)
        yield x, y, rnnt_paths(y, targets)


@pytest.mark.equation("eq-merged")
def test_merged():
    """sympy: slopes of -log of the sum over CTC and RNN-T paths with respect to each logit, against occupancies."""
    def rhs(slopes, y, E, k, V):
        return y[k] * sum(E[j] for j in range(0, V)) - E[k]

    def weight(y, path):
        total = 1
        for entry in path:
            total = total * y[tuple(entry)]
        return total

    cases = []
    for x, y, paths in _merged_cases():
        z = sum(weight(y, path) for path in paths)
        for row in np.ndindex(x.shape[:-1]):
            slopes = [-x[row][k] * z.diff(x[row][k]) / z for k in range(2)]
            E = [sum(weight(y, path) for path in paths if (*row, k) in map(tuple, path)) / z for k in range(2)]
            cases += [(slopes, *_padded(y[row], np.array(E, dtype=object)), k, 2) for k in range(2)]
    check_equation("eq-merged", lambda slopes, y, E, k, V: slopes[k], rhs, cases)


@pytest.mark.equation("eq-log-softmax-idempotent")
def test_idempotent():
    """Log-softmax of a log-softmax, both by definition, against one of them: exact logarithms of fractions."""
    def log_softmax(u):
        return [log(exp(score) / sum(map(exp, u))) for score in u]

    def lhs(u, k):
        return log_softmax(log_softmax(u))[k]

    def rhs(u, k):
        return u[k] - lse(u)

    check_equation("eq-log-softmax-idempotent", lhs, rhs, [(u, k) for u in ROWS for k in range(len(u))])


@pytest.mark.equation("eq-softmax-double-cap")
def test_double_cap():
    """The largest softmax entry over a grid of rows of probabilities, corners included, against the closed form."""
    def lhs(V):
        n = 12
        rows = np.array([row for row in product(range(n + 1), repeat=V) if sum(row) == n]) / n
        return (np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)).max()

    def rhs(V):
        return e / (e + V - 1)

    check_equation("eq-softmax-double-cap", lhs, rhs, [(2,), (3,), (4,)], tolerance=1e-14)

"""Checks of the equations of the chapter on softmax. Exact: logarithms of fractions, rational functions, path sums."""

from fractions import Fraction
from itertools import product
from math import e

import numpy as np
import pytest
import ranges
import sympy
from brute_force import (
    CTC_INPUTS,
    RNNT_INPUTS,
    blank_of,
    ctc_occupancy,
    ctc_strings,
    each_entry,
    grad_logit,
    probabilities,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_paths,
    slope_at,
)
from sides import first
from sympy.polys.matrices import DomainMatrix
from tex_to_python import Notation

from reference_impl import ctc, rnnt
from reference_impl.differences import exact_difference, random_integers
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, softmax, to_expr

#: What an array reads as outside its bounds, so that a shifted index or bound does not stay unnoticed.
OUTSIDE = 99

NOTATION = Notation(
    patterns={
        r"\operatorname{lse}(#u)": "lse(#u)",
        r"\frac{\partial^2 \operatorname{lse}}{\partial z_{#j} \partial z_{#k}}": "hessian[#j, #k]",
        r"\frac{\partial \operatorname{lse}}{\partial z_k}": "slopes[k]",
        r"\frac{\partial y_j}{\partial z_k}": "J[j, k]",
        r"\frac{\partial \log y_j}{\partial z_k}": "J[j, k]",
        "z": "u",  # logits
        "z_{#k}": "u[#k]",
        r"z_{\max}": "m",
        r"\dot z_{#k}": "v[#k]",
        r"\dot y_{#j}": "rate[#j]",
        r"\bar z_{#k}": "bar_u[#k]",
        r"\bar y_{#k}": "h[#k]",
        r"\bar y'_{#k}": "h_prime[#k]",
        "g'_{#k}": "g_prime[#k]",
        "Z": "z",
        "Z_0": "A",
        "m": "B",
        "m_{#k}": "B[#k]",
    },
    over={"j": "range(V)", "k": "range(V)"},
)

QUANTITIES = Quantities(
    shapes={name: "V" for name in "u x y v B E g h g_prime h_prime bar_u slopes rate V".split()}
    | {"hessian": "V, V", "J": "V, V"},
    ends={
        "V = 1": lambda V: V == 1,
        "k = 0": lambda k: k == 0,
        "k = V - 1": lambda k, V: k == V - 1,
        "j = k": lambda j, k: j == k,
        "all scores equal": lambda u: len(_plain(u)) > 1 and len({score.x for score in _plain(u)}) == 1,
        "c < 0": (lambda u, c: exp(c) < 1, lambda c: c < 0),
        "c > 0": (lambda u, c: exp(c) > 1, lambda c: c > 0),
        "v equal in all entries": lambda v, hessian: len(_plain(v)) > 1 and len(set(_plain(v))) == 1,
        "no path passes the row by": lambda A: A == 0,
        "a path passes the row by": lambda A: A > 0,
        "A + B_k = 0": lambda A, B: 0 in [A + b for b in _plain(B)],
        "a masked symbol": lambda y, g_prime: 0 in _plain(y),
        "another symbol masked": lambda y, h_prime: 0 in _plain(y),
        "T = 1": lambda array: len(array) == 1,
        "U = 0": lambda targets: len(targets) == 0,
        "all labels equal": lambda targets: ranges.all_equal(targets),
        "no two labels equal": lambda targets: ranges.none_equal(targets),
        "a blank that is not 0": lambda targets: blank_of(targets) != 0,
    },
)


class Log:
    """The logarithm of a fraction, held exactly: to add logarithms is to multiply fractions. That of 0 is -inf."""

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

    def random_like(self, rng):
        return Log(Fraction(rng.randint(1, 99), rng.randint(1, 99)))


def exp(u):
    return u.x if isinstance(u, Log) else e**u


log = np.frompyfunc(Log, 1, 1)  # of a fraction, or of each in an array

MEANINGS = {"exp": exp, "log": log}


def _plain(row):
    return list(getattr(row, "array", row))


def _padded(*arrays):
    return [zero_outside(array, OUTSIDE) for array in arrays]


def _entry_k(array, *case):
    """Entry k of the first argument, where k and V come last."""
    return array[case[-2]]


@computed(kind="exact logarithms")
def lse(u):
    """The definition."""
    return log(sum(exp(score) for score in _plain(u)))


#: Rows of logits whose exponentials are fractions: of several sizes, one of equal entries, one of a single entry.
ROWS = [*(log(probabilities(seed, (V,))) for seed, V in enumerate((2, 3, 5, 1))), log(np.full(3, Fraction(4, 7)))]


# Log-sum-exp

@pytest.mark.equation("eq-lse-shift")
def test_lse_shift():
    """Log-sum-exp by its definition, of shifted scores, against the shifted value: exact logarithms of fractions."""
    def lhs(u, c):
        return lse(u + c)

    def rhs(u, c):
        return lse(u) + c

    check_equation("eq-lse-shift", lhs, rhs, [(u, Log(c)) for u in ROWS for c in (Fraction(3, 7), Fraction(5))])


@pytest.mark.equation("eq-lse-stable")
def test_lse_stable():
    """Log-sum-exp by its definition against the form with the maximum taken out: exact logarithms of fractions. With
    the maximum, and with no other number, one term is 1 and none is larger."""
    def rhs(u, m, V):
        return m + log(sum(exp(u[j] - m) for j in range(0, V)))

    cases = [(zero_outside(u, Log(OUTSIDE)), max(u, key=exp), len(u)) for u in ROWS]
    check_equation("eq-lse-stable", lambda u, m, V: lse(u), rhs, cases)
    for u, m, V in cases:
        assert max(exp(score - m) for score in u.array) == 1 <= exp(lse(u) - m) <= V
        assert (exp(lse(u) - m) == V) == all(score == m for score in u.array)
        assert all(max(exp(score - other) for score in u.array) > 1 for other in u.array if other != m)
    scores = np.array([-800.0, 0.0, 800.0])  # as floats: the maximum serves, the mean and the smallest do not
    with np.errstate(over="ignore"):
        taken_out = [m + np.log(np.exp(scores - m).sum()) for m in scores]
    assert taken_out == [np.inf, np.inf, 800]


def _in_logs(function, u, *orders):
    """Derivatives of a sympy expression in real symbols, evaluated where the symbols are the logarithms ``u``."""
    v = sympy.symbols(f"v:{len(u)}", real=True)
    point = {symbol: sympy.log(sympy.Rational(score.x.numerator, score.x.denominator))
             for symbol, score in zip(v, u, strict=True)}

    def derivative(*index):
        value = sympy.diff(function(v), *(v[i] for i in index)).subs(point)
        value = sympy.Rational(sympy.simplify(value))
        return Fraction(int(value.p), int(value.q))

    return derivative


def _sympy_lse(v):
    return sympy.log(sum(sympy.exp(symbol) for symbol in v))


@computed(kind="sympy")
def lse_slopes(u):
    """Of the logarithm of a sum of exponentials, at logarithms of fractions."""
    return each_entry((len(u),), _in_logs(_sympy_lse, u))


@computed(kind="sympy")
def lse_hessian(u):
    """Its second derivatives."""
    return each_entry((len(u), len(u)), _in_logs(_sympy_lse, u))


def normalised(u):
    """The softmax of exact logarithms, by its definition."""
    x = np.array([exp(score) for score in u], dtype=object)
    return x / x.sum()


@pytest.mark.equation("eq-lse-gradient")
def test_lse_gradient():
    """sympy: the derivative of the logarithm of the sum of exponentials, at logarithms of fractions."""
    def rhs(slopes, u, k, V):
        return exp(u[k]) / sum(exp(u[j]) for j in range(0, V))

    check_equation("eq-lse-gradient", _entry_k, rhs, (
        (lse_slopes(u), zero_outside(u, Log(OUTSIDE)), k, len(u)) for u in ROWS for k in range(len(u))))


@pytest.mark.equation("eq-log-softmax")
def test_log_softmax():
    """The logarithm of the softmax by its definition against logit minus log-sum-exp: exact logarithms of fractions."""
    def lhs(y, u, k, V):
        return log(y[k])

    def rhs(y, u, k, V):
        return u[k] - lse(u)

    check_equation("eq-log-softmax", lhs, rhs, (
        (normalised(u), zero_outside(u, Log(OUTSIDE)), k, len(u)) for u in ROWS for k in range(len(u))))


@pytest.mark.equation("eq-lse-hessian")
def test_lse_hessian():
    """sympy: second derivatives of the logarithm of the sum of exponentials against softmaxes as fractions."""
    def rhs(hessian, y, j, k, V):
        return y[j] * ((j == k) - y[k])

    check_equation("eq-lse-hessian", lambda hessian, y, j, k, V: hessian[j, k], rhs, (
        (lse_hessian(u), *_padded(normalised(u)), j, k, len(u))
        for u in ROWS if len(u) < 5 for j, k in np.ndindex(len(u), len(u))))


@pytest.mark.equation("eq-lse-curvature")
def test_lse_curvature():
    """sympy: second derivatives of the logarithm of the sum of exponentials, in a direction, against the variance."""
    def lhs(hessian, y, v, V):
        return sum(v[j] * hessian[j, k] * v[k] for j, k in np.ndindex(V, V))

    def rhs(hessian, y, v, V):
        return sum(y[k] * (v[k] - sum(y[j] * v[j] for j in range(0, V))) ** 2 for k in range(0, V))

    def cases():
        for u in ROWS:
            if len(u) < 5:
                random = np.random.default_rng(len(u)).integers(-9, 10, len(u))
                for v in (random, np.full(len(u), -3)):
                    yield lse_hessian(u), *_padded(normalised(u), np.array(v.tolist(), dtype=object)), len(u)

    check_equation("eq-lse-curvature", lhs, rhs, cases())


# One row of a loss. The sources call all probabilities ``array``, y is a row of them

@computed(kind="recursion")
def z_by_recursion(array, targets):
    """Z of CTC for a matrix, of RNN-T for an array with three axes, by the package's recursions."""
    return (ctc if array.ndim == 2 else rnnt).Z(array, targets, blank=blank_of(targets), semiring=REAL)


def _paths(array, targets):
    """Each path as a list of the entries that it uses."""
    if array.ndim == 3:
        return rnnt_paths(array, targets)
    return [list(enumerate(string)) for string in ctc_strings(array, targets)]


@computed
def bypass(array, targets, row):
    """The mass of the paths that use no entry of a row."""
    return sum((rnnt_mass(array, path) for path in _paths(array, targets)
                if all(entry[:-1] != row for entry in path)), Fraction(0))


@computed
def through(array, targets, row):
    """For each entry of a row the mass of the paths that use it, that entry itself left out."""
    masses = np.full(array.shape[-1], Fraction(0), dtype=object)
    for path in _paths(array, targets):
        for entry in path:
            if entry[:-1] == row:
                masses[entry[-1]] += rnnt_mass(array, [other for other in path if other != entry])
    return masses


@computed
def occupancy(array, targets):
    """The share of the paths that use each entry."""
    return (ctc_occupancy if array.ndim == 2 else rnnt_occupancy)(array, targets)


#: Inputs of both losses, each once with a single symbol, the blank; and one with equal probabilities.
INPUTS = [*CTC_INPUTS, (probabilities(30, (2, 1)), []), *RNNT_INPUTS, (probabilities(31, (2, 1, 1)), []),
          (np.full((2, 3), Fraction(1, 2)), [1])]


def _rows(inputs=INPUTS):
    """Each frame of the CTC inputs, each node of those of RNN-T."""
    for array, targets in inputs:
        for row in np.ndindex(array.shape[:-1]):
            yield array, targets, row


@pytest.mark.equation("eq-softmax-row", conditions={r"L = -\log Z": "True"})  # which says what L is
def test_row():
    """Z by the recursions against the paths around the row and those through each entry, without its factor."""
    def rhs(z, A, B, y, V):
        return A + sum(B[k] * y[k] for k in range(0, V))

    check_equation("eq-softmax-row", first, rhs, (
        (z_by_recursion(array, targets), bypass(array, targets, row),
         *_padded(through(array, targets, row), array[row]), array.shape[-1]) for array, targets, row in _rows()))


@pytest.mark.equation("eq-softmax-row-difference", patterns={"L": "loss"})
def test_row_difference():
    """-log Z by the recursions, of rows that are softmaxes, against two log-sum-exps: exact logarithms of fractions.
    A symbol without any mass has the logarithm -inf."""
    def rhs(loss, u, A, B):
        return lse(u) - lse(u + log(A + B))

    check_equation("eq-softmax-row-difference", first, rhs, (
        (-log(z_by_recursion(softmax(x), targets)), log(x[row]), bypass(softmax(x), targets, row),
         through(softmax(x), targets, row)) for x, targets, row in _rows()))


@pytest.mark.equation("eq-softmax-row-sum")
def test_row_sum():
    """The shares of Z, by the recursions, of the paths that use an entry of the row, added up, against 1 - A / Z."""
    def lhs(E, A, z, V):
        return sum(E[k] for k in range(V))

    def rhs(E, A, z, V):
        return 1 - A / z

    def cases():
        for array, targets, row in _rows():
            z = z_by_recursion(array, targets)
            yield through(array, targets, row) * array[row] / z, bypass(array, targets, row), z, array.shape[-1]

    check_equation("eq-softmax-row-sum", lhs, rhs, cases())
    log_probs = np.log(CTC_INPUTS[0][0].astype(float))  # without an alignment, Z = 0, occupancies are 0 by definition
    assert np.isinf(ctc.loss(log_probs, [1] * 5)) and not ctc.occupancy(log_probs, [1] * 5).any()


# Jacobians and products with them

#: Rows of symbols x_k = e^(u_k), in which d/du_k is x_k d/dx_k.
GRIDS = [field_grid("x", (V,)) for V in (2, 3, 4, 1)]


@computed(kind="sympy")
def jacobian(x):
    """d y_j / d u_k, differentiated by sympy."""
    y = softmax(x)
    return each_entry((len(x), len(x)), lambda j, k: x[k] * y[j].diff(x[k]))


@computed(kind="sympy")
def log_jacobian(x):
    """d log y_j / d u_k, differentiated by sympy: d log y = dy / y."""
    y = softmax(x)
    return each_entry((len(x), len(x)), lambda j, k: x[k] * y[j].diff(x[k]) / y[j])


def _jacobians(of):
    for x in GRIDS:
        for j, k in np.ndindex(len(x), len(x)):
            yield of(x), *_padded(softmax(x)), j, k, len(x)


@pytest.mark.equation("eq-softmax-jacobian")
def test_softmax_jacobian():
    """sympy: derivative of each probability with respect to each logit, as rational functions of x = e^u."""
    def rhs(J, y, j, k, V):
        return y[j] * ((j == k) - y[k])

    check_equation("eq-softmax-jacobian", lambda J, y, j, k, V: J[j, k], rhs, _jacobians(jacobian))


@pytest.mark.equation("eq-log-softmax-jacobian")
def test_log_softmax_jacobian():
    """sympy: derivative of each log-prob with respect to each logit, as rational functions of x = e^u."""
    def rhs(J, y, j, k, V):
        return (j == k) - y[k]

    check_equation("eq-log-softmax-jacobian", lambda J, y, j, k, V: J[j, k], rhs, _jacobians(log_jacobian))


#: Where r = e^s is for s = 0.
ONE = np.array([Fraction(1)], dtype=object)


def _rates():
    """sympy: how fast the softmax moves when the logits move at the rate v. With r = e^s they are x r^v, and d/ds is
    d/dr at r = 1."""
    for seed, V in enumerate((2, 3, 5, 1)):
        x, v = probabilities(seed, (V,)), np.random.default_rng(seed).integers(-4, 5, V).tolist()

        def moved(r, x=x, v=v):
            return softmax(x * np.array([r[0]**n for n in v], dtype=object))

        rate = [slope_at(lambda r, j=j, moved=moved: moved(r)[j], ONE, 0) for j in range(V)]
        for j in range(V):
            yield rate, *_padded(softmax(x), np.array(v, dtype=object)), j, V


@pytest.mark.equation("eq-softmax-jvp")
def test_softmax_jvp():
    """sympy: the softmax differentiated along a line through the logits, against the closed form."""
    def lhs(rate, y, v, j, V):
        return rate[j]

    def rhs(rate, y, v, j, V):
        return y[j] * (v[j] - sum(y[k] * v[k] for k in range(0, V)))

    check_equation("eq-softmax-jvp", lhs, rhs, _rates())


@pytest.mark.equation("eq-log-softmax-jvp")
def test_log_softmax_jvp():
    """The same, relative to the probabilities."""
    def lhs(rate, y, v, j, V):
        return rate[j] / y[j]

    def rhs(rate, y, v, j, V):
        return v[j] - sum(y[k] * v[k] for k in range(0, V))

    check_equation("eq-log-softmax-jvp", lhs, rhs, _rates())


#: Losses as polynomials in the probabilities of a row, by its size, none of them symmetric, none homogeneous.
POLYNOMIALS = {
    1: lambda p: 5 * p[0] ** 2 - 2 * p[0],
    2: lambda p: 3 * p[0] ** 2 * p[1] - 5 * p[1],
    3: lambda p: 2 * p[0] ** 2 * p[1] + 7 * p[1] * p[2] ** 2 - p[0] + 4,
    4: lambda p: p[0] * p[1] * p[2] - 3 * p[3] ** 3 + 2 * p[1] * p[3],
}


def logit_slopes(loss, x):
    """sympy: of a loss of the softmax of x = e^u, with respect to the logits u, where d/du = x d/dx."""
    return each_entry(x.shape, lambda k: x[k] * slope_at(lambda x: loss(softmax(x)), x, k))


def _losses():
    for V, loss in POLYNOMIALS.items():
        yield loss, probabilities(V, (V,)), V


@pytest.mark.equation("eq-softmax-vjp")
def test_softmax_vjp():
    """sympy differentiates polynomials of a softmax with respect to the logits, against their slopes in the probs."""
    def rhs(bar_u, y, h, k, V):
        return y[k] * (h[k] - sum(y[j] * h[j] for j in range(0, V)))

    def cases():
        for loss, x, V in _losses():
            y = softmax(x)
            h = [slope_at(loss, y, k) for k in range(V)]
            for k in range(V):
                yield logit_slopes(loss, x), *_padded(y, h), k, V

    check_equation("eq-softmax-vjp", _entry_k, rhs, cases())


@computed(kind="sympy")
def log_prob_slopes(loss, row):
    """d loss / d log y_k by sympy, which is given y = e^a and knows no rule of ours; exact."""
    a = sympy.symbols(f"a:{len(row)}", real=True)
    value = loss([sympy.exp(symbol) for symbol in a])
    point = {symbol: sympy.log(sympy.Rational(p.numerator, p.denominator)) for symbol, p in zip(a, row, strict=True)}
    slopes = [sympy.Rational(sympy.simplify(sympy.diff(value, symbol).subs(point))) for symbol in a]
    return [Fraction(int(slope.p), int(slope.q)) for slope in slopes]


@pytest.mark.equation("eq-log-softmax-vjp")
def test_log_softmax_vjp():
    """sympy differentiates linear functions of the log-probs, and polynomials of their exponentials, against g."""
    def rhs(bar_u, y, g, k, V):
        return g[k] - y[k] * sum(g[j] for j in range(0, V))

    def cases():
        for loss, x, V in _losses():
            w = random_integers(np.random.default_rng(V), V, bits=8)  # sum_j w_j log y_j, whose gradient is w
            linear = sum(w[j] * logit_slopes(lambda p, j=j: p[j], x) / softmax(x)[j] for j in range(V))
            for bar_u, g in ((linear, w), (logit_slopes(loss, x), log_prob_slopes(loss, softmax(x)))):
                for k in range(V):
                    yield bar_u, *_padded(softmax(x), g), k, V

    check_equation("eq-log-softmax-vjp", _entry_k, rhs, cases())


@pytest.mark.equation("eq-softmax-sum-zero")
def test_sum_zero():
    """sympy: the derivative of a loss with respect to one logit against minus those with respect to the others."""
    def rhs(bar_u, k, V):
        return -sum(bar_u[j] for j in range(0, V) if j != k)

    check_equation("eq-softmax-sum-zero", _entry_k, rhs, (
        (*_padded(logit_slopes(loss, x)), k, V) for loss, x, V in _losses() for k in range(V)))


# The three gradients

#: Normalised rows of fractions.
POINTS = [softmax(np.array([Fraction(n) for n in row], dtype=object)) for row in [[3, 2, 1], [1, 4, 3, 2], [1, 3], [1]]]


def multi_affine(p):
    """A loss in which every probability occurs to the first power: exact differences are its slopes."""
    p = [*p, 0, 0, 0]
    return 3 * p[0] * p[1] - 5 * p[1] * p[2] + 2 * p[2] + 7 * p[3] * p[0] - 4 * p[0]


@computed(kind="exact difference")
def prob_slopes(row):
    """Of the loss above, in each prob."""
    return [exact_difference(multi_affine, row, (k,), h=1000) for k in range(len(row))]


@pytest.mark.equation("eq-softmax-log-probs-from-probs")
def test_log_probs_from_probs():
    """sympy: derivatives with respect to the log-probs against exact differences in the probs, times the probs."""
    def rhs(g, y, h, k, V):
        return y[k] * h[k]

    check_equation("eq-softmax-log-probs-from-probs", _entry_k, rhs, (
        (log_prob_slopes(multi_affine, y), *_padded(y, prob_slopes(y)), k, len(y))
        for y in POINTS for k in range(len(y))))


@pytest.mark.equation("eq-softmax-eliminated", patterns={
    r"\frac{\partial}{\partial y_k} f( y_0, \dots, y_{V-2}, 1 - \sum_{j=0}^{V-2} y_j )": "slope"})
def test_eliminated():
    """sympy: the last probability replaced by 1 minus the others and then differentiated, against differences of h."""
    def rhs(slope, h, k, V):
        return h[k] - h[V - 1]

    check_equation("eq-softmax-eliminated", first, rhs, (
        (slope_at(lambda p: multi_affine([*p, 1 - sum(p)]), y[:-1], k), *_padded(prob_slopes(y)), k, len(y))
        for y in POINTS for k in range(len(y) - 1)),
        left_out={"V = 1": "no entry is left", "k = V - 1": "the last entry is eliminated"})


@computed(kind="linear algebra")
def without_effect(matrix, places, by):
    """A vector that a matrix sends to 0, by exact equations: at the first of the places it is ``by``, at the others of
    them it is solved for, elsewhere it is 0."""
    vector = np.full(len(matrix), Fraction(0), dtype=object)
    vector[places[0]] = by
    if places[1:]:
        system = sympy.Matrix(matrix[np.ix_(places[1:], places)].tolist())
        solved = system[:, 1:].LUsolve(-system[:, 0] * sympy.Rational(by))
        vector[places[1:]] = [Fraction(int(entry.p), int(entry.q)) for entry in solved]
    return vector


def dimensions_without_effect(matrix):
    rows = [[sympy.Rational(entry.numerator, entry.denominator) for entry in row] for row in matrix]
    return DomainMatrix.from_list_sympy(*matrix.shape, rows).to_field().nullspace().shape[0]


@computed(kind="sympy")
def at_point(matrix, symbols, row):
    """A matrix of rational functions of symbols where these are a row, as fractions."""
    point = {to_expr(x): sympy.Rational(p.numerator, p.denominator) for x, p in zip(symbols, row, strict=True)}

    def entry(j, k):
        value = sympy.Rational(to_expr(matrix[j, k]).subs(point))
        return Fraction(int(value.p), int(value.q))

    return each_entry(matrix.shape, entry)


#: One with a masked symbol.
MASKED = np.array([Fraction(1, 2), Fraction(0), Fraction(1, 3), Fraction(1, 6)], dtype=object)


def _backward(jacobian_of, row):
    """The matrix of the backward pass at a row: the transposed symbolic Jacobian."""
    symbols = field_grid("x", row.shape)
    return at_point(jacobian_of(symbols), symbols, row).T


def _same_logit_gradient(jacobian_of, masks_are_free):
    """Two vectors with one image under the transposed symbolic Jacobian. Where a masked symbol may have anything, the
    two have the same there."""
    rng = np.random.default_rng(0)
    for y in [*POINTS, MASKED]:
        places = [k for k in range(len(y)) if y[k] > 0 or not masks_are_free]
        for by in (Fraction(2), Fraction(-5, 3)):
            first = random_integers(rng, len(y), bits=6)
            second = first + without_effect(_backward(jacobian_of, y), places, by)
            # outside their bounds the two read differently, so that a shifted bound shows
            yield *_padded(y, first), zero_outside(second, 2 * OUTSIDE), len(y)


@pytest.mark.equation("eq-log-softmax-kernel")
def test_log_softmax_kernel():
    """Vectors with the same image under the symbolic Jacobian, found by exact linear algebra, against y times a sum.
    They differ in one dimension, no more, also where a symbol is masked."""
    def lhs(y, g, g_prime, k, V):
        return g_prime[k] - g[k]

    def rhs(y, g, g_prime, k, V):
        return y[k] * sum(g_prime[j] - g[j] for j in range(0, V))

    check_equation("eq-log-softmax-kernel", lhs, rhs, (
        (y, g, g_prime, k, V) for y, g, g_prime, V in _same_logit_gradient(log_jacobian, False) for k in range(V)))
    for y in [*POINTS, MASKED]:
        assert dimensions_without_effect(_backward(log_jacobian, y)) == 1


@pytest.mark.equation("eq-softmax-kernel")
def test_softmax_kernel():
    """The same for probs: vectors with the same image differ by the mean of their difference, in every entry but those
    that are masked. There they may differ by anything: each mask is one more dimension."""
    def lhs(y, h, h_prime, k, V):
        return h_prime[k] - h[k]

    def rhs(y, h, h_prime, k, V):
        return sum(y[j] * (h_prime[j] - h[j]) for j in range(0, V))

    check_equation("eq-softmax-kernel", lhs, rhs, (
        (y, h, h_prime, k, V) for y, h, h_prime, V in _same_logit_gradient(jacobian, True)
        for k in range(V) if y[k] > 0))
    for y in [*POINTS, MASKED]:
        assert dimensions_without_effect(_backward(jacobian, y)) == 1 + (y == 0).sum()
    backward = _backward(jacobian, MASKED)
    for y, h, h_prime, V in _same_logit_gradient(jacobian, True):
        if 0 in y.array:
            k = y.array.tolist().index(0)
            h_prime.array[k] += 1000  # nothing notices this, so that the equation fails at k
            assert (backward @ h.array == backward @ h_prime.array).all()
            assert lhs(y, h, h_prime, k, V) != rhs(y, h, h_prime, k, V)


@pytest.mark.equation("eq-softmax-extension", patterns={
    r"\frac{\partial}{\partial \log y_k} [ f + c ( \sum_{j=0}^{V-1} e^{\log y_j} - 1 ) ]": "slopes[k]"})
def test_extension():
    """sympy: the derivative with respect to a log-prob of the loss with c (sum - 1) added, against that without it."""
    def rhs(slopes, g, y, c, k, V):
        return g[k] + c * y[k]

    def extended(c):
        return lambda p: multi_affine(p) + sympy.Rational(c) * (sum(p) - 1)

    check_equation("eq-softmax-extension", _entry_k, rhs, (
        (log_prob_slopes(extended(c), y), *_padded(log_prob_slopes(multi_affine, y), y), c, k, len(y))
        for y in POINTS for c in (Fraction(4, 7), Fraction(-3)) for k in range(len(y))))


# Merging, normalising twice

@pytest.mark.equation("eq-merged")
def test_merged():
    """sympy: slopes of -log of Z, by the recursions, with respect to each logit, against enumerated occupancies."""
    def rhs(bar_u, y, E, k, V):
        return y[k] * sum(E[j] for j in range(0, V)) - E[k]

    def cases():
        for x, targets, row in _rows():
            V, y = x.shape[-1], softmax(x)
            bar_u = [grad_logit(lambda y, targets=targets: z_by_recursion(y, targets), x, *row, k) for k in range(V)]
            for k in range(V):
                yield bar_u, *_padded(y[row], occupancy(y, targets)[row]), k, V

    check_equation("eq-merged", _entry_k, rhs, cases())


@pytest.mark.equation("eq-log-softmax-idempotent")
def test_idempotent():
    """Log-softmax of a log-softmax by definition, against one by a subtraction: exact logarithms of fractions."""
    def lhs(y, u, k, V):
        return log(normalised(log(y)))[k]

    def rhs(y, u, k, V):
        return u[k] - lse(u)

    check_equation("eq-log-softmax-idempotent", lhs, rhs, (
        (normalised(u), zero_outside(u, Log(OUTSIDE)), k, len(u)) for u in ROWS for k in range(len(u))))


@computed(kind="floating point")
def softmax_of_floats(rows):
    return np.exp(rows) / np.exp(rows).sum(axis=-1, keepdims=True)


@pytest.mark.equation("eq-softmax-double-cap", patterns={
    r"\operatorname{softmax}(y)_k": "softmax_of_floats(y)[k]"}, over={"y": "rows"})
def test_double_cap():
    """The largest softmax entry over a grid of rows of probabilities, corners included, against the closed form."""
    def lhs(rows, k, V):
        return softmax_of_floats(rows)[:, k].max()

    def rhs(rows, k, V):
        return 1 / (1 + (V - 1) * e**-1)

    def grid(V, n=12):
        return np.array([row for row in product(range(n, -1, -1), repeat=V) if sum(row) == n]) / n

    check_equation("eq-softmax-double-cap", lhs, rhs, (
        (grid(V), k, V) for V in (2, 3, 4, 1) for k in range(V)), tolerance=1e-14)

"""The equations of the chapter "Checking a gradient", each executed against an independent computation, exactly."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest
import ranges
import sympy
from brute_force import (
    CTC_INPUTS,
    RNNT_INPUTS,
    ctc_strings,
    ctc_z,
    each_entry,
    grad_logit,
    rnnt_paths_of_rows,
    rnnt_z_of_rows,
    slope_at,
    slopes_in_logs,
)
from sides import first
from small_lattices import ENDS, LATTICES, last, lattice_of, masses, paths_of
from tex_to_python import Notation

from reference_impl import lattice
from reference_impl.differences import exact_difference, random_integers
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, ring_grid, softmax, to_expr

THIRD = sympy.Rational(1, 3)

#: Where r = e^tau is for tau = 0.
ONE = np.array([Fraction(1)], dtype=object)

#: What an array reads as outside its bounds, so that neither a shifted index nor a shifted bound stays unnoticed.
OUTSIDE = 99

NOTATION = Notation(
    patterns={
        r"\theta": "x",
        "f(#x)": "f[0](#x)",
        "f'(#x)": "f[1](#x)",
        "f''(#x)": "f[2](#x)",
        "f'''(#x)": "f[3](#x)",
        "f^{(5)}(#x)": "f[5](#x)",
        r"D_h^{+} f(\theta)": "forward(f[0], x, h)",
        r"D_{#h} f(\theta)": "central(f[0], x, #h)",
        r"\int_{#a}^{#b} #g \mathrm d\tau": "integral(lambda tau: #g, #a, #b)",
        "|#x|": "abs(#x)",
    },
    over={"j": "range(V)"},
)
ROW = {"y_{#k}": "y_row[#k]", "g_{#k}": "g_row[#k]"}

QUANTITIES = Quantities(  # x is a number here, the theta of the text
    {name: shape for name, shape in ranges.CTC.shapes.items() if name != "x"}, ranges.CTC.ends, ranges.CTC.left_out,
) | Quantities(
    shapes={"g": "T, V", "y_row": "V", "g_row": "V", "point": "inputs", "slopes": "inputs", "direction": "inputs",
            "JTG": "inputs", "inputs": "inputs", "G": "outputs", "Jd": "outputs", "outputs": "outputs",
            "alpha": "nodes", "beta": "nodes", "w": "A", "arcs": "A, 2", "d": "d", "Y": "Y", "N": "N"},
    ends=ENDS | {
        "h < 0": lambda h: h < 0,
        "h > 0": lambda h: h > 0,
        "p = 0": lambda p: p == 0,
        "p = 1/2": lambda p: 2 * p == 1,
        "p = 1": lambda p: p == 1,
        "f < 0": lambda value: value < 0,
        "f > 0": lambda value: value > 0,
        "f''' < 0": lambda third: third < 0,
        "f''' > 0": lambda third: third > 0,
        "d = 0": lambda d, Y: d == 0,
        "d = |Y|": lambda d, Y: d == Y,
        "one variable": lambda N: N == 1,
        "one symbol": lambda y_row: len(_plain(y_row)) == 1,
        "a masked symbol": lambda y_row: 0 in _plain(y_row),
        "c = 0": lambda c, y_row: c == 0,
        "c < 0": lambda c, y_row: c < 0,
        "m the start": lambda arcs, m: m == 0,
        "n the end": lambda arcs, n: n == last(arcs),
        "no kink": lambda below, above: below == above,
        "a convex kink": lambda below, above: below < above,
        "a concave kink": lambda below, above: below > above,
    },
)


def _plain(row):
    return list(getattr(row, "array", row))


#: Points and steps for polynomials: none is small, none is round.
POINTS = [(Fraction(2, 3), Fraction(2, 5)), (Fraction(-5, 7), Fraction(3)), (Fraction(1, 2), Fraction(-4, 3))]


@computed(kind="sympy")
def derivative(coefficients, order, x):
    """A derivative of the polynomial with these coefficients, the constant first, at a number or an expression."""
    symbol, value = sympy.Symbol("x"), 0
    for coefficient in sympy.Poly(coefficients[::-1], symbol).diff((symbol, order)).all_coeffs():
        value = value * x + int(coefficient)
    return value


def polynomials(degree, count=2):
    """Random integer polynomials, each as the list of its derivatives f, f', f'', ..., functions of exact numbers."""
    rng = np.random.default_rng(degree)
    for _ in range(count):
        coefficients = [int(c) for c in rng.integers(1, 10, degree + 1) * rng.choice([-1, 1], degree + 1)]
        yield [polynomial(coefficients), *(derivative_of(coefficients, order) for order in range(1, 8))]


def polynomial(coefficients):
    return lambda x: sum(c * x**j for j, c in enumerate(coefficients))


def derivative_of(coefficients, order):
    return lambda x: derivative(coefficients, order, x)


def at_points(polynomials):
    for f in polynomials:
        for x, h in POINTS:
            yield f, x, h


def forward(f, x, h):
    return (f(x + h) - f(x)) / h


def central(f, x, h):
    return (f(x + h) - f(x - h)) / (2 * h)


@computed(kind="sympy")
def integral(integrand, lower, upper):
    """Of a function, a polynomial on each side of 0, exactly; the sign of the variable is known on each side."""
    left, right = sympy.Symbol("s", negative=True), sympy.Symbol("s", positive=True)
    total = sympy.Integer(0)
    for s, a, b in ((left, min(lower, 0), min(upper, 0)), (right, max(lower, 0), max(upper, 0))):
        antiderivative = sympy.Poly(integrand(s), s).integrate(s)
        total += antiderivative.eval(b) - antiderivative.eval(a)
    return Fraction(int(total.p), int(total.q))


@pytest.mark.equation("eq-check-chain", patterns={
    r"\frac{\partial}{\partial z_t(k)} L(\log\operatorname{softmax}(z))": "grad_logits",
    "g_t(#k)": "g[t, #k]", "y_t(#k)": "y[t, #k]"})
def test_chain():
    """sympy: -log of the sum over paths differentiated as a function of the logits, against the same sum differentiated
    as a function of free log-probs. In RNN-T a frame is a node."""
    def rhs(grad_logits, g, y, t, k, V):
        return g[t, k] - y[t, k] * sum(g[t, j] for j in range(0, V))

    def cases():
        for x, targets in CTC_INPUTS:
            paths = [list(enumerate(string)) for string in ctc_strings(softmax(x), targets)]
            yield from of_rows(x, lambda y, targets=targets: ctc_z(y, targets), paths)
        for x, targets in RNNT_INPUTS:
            rows = x.reshape(-1, x.shape[-1])
            paths = rnnt_paths_of_rows(softmax(rows), targets)
            yield from of_rows(rows, lambda y, targets=targets: rnnt_z_of_rows(y, targets), paths)

    def of_rows(x, z, paths):
        y = softmax(x)
        g = zero_outside(slopes_in_logs(y, paths), OUTSIDE)
        for t, k in np.ndindex(y.shape):
            yield grad_logit(z, x, t, k), g, zero_outside(y), t, k, y.shape[1]

    check_equation("eq-check-chain", first, rhs, cases())


@pytest.mark.equation("eq-check-forward-remainder")
def test_forward_remainder():
    """The forward difference of polynomials of degree 6 against the derivative and the integral, done by sympy."""
    def lhs(f, x, h):
        return forward(f[0], x, h)

    def rhs(f, x, h):
        return f[1](x) + h * integral(lambda tau: (1 - tau) * f[2](x + h * tau), 0, 1)

    check_equation("eq-check-forward-remainder", lhs, rhs, at_points(polynomials(6)))


@pytest.mark.equation("eq-check-central-remainder")
def test_central_remainder():
    """The central difference of polynomials of degree 6 against the derivative and the integral, done by sympy."""
    def lhs(f, x, h):
        return central(f[0], x, h)

    def rhs(f, x, h):
        return f[1](x) + h**2 / 4 * integral(lambda tau: (1 - abs(tau))**2 * f[3](x + h * tau), -1, 1)

    check_equation("eq-check-central-remainder", lhs, rhs, at_points(polynomials(6)),
                   equivalent={"flip sign: x + h * tau -> x - h * tau": "the weight and the bounds are even in tau"})


@pytest.mark.equation("eq-check-cubic")
def test_cubic():
    """The central difference of polynomials of degree 4, in fractions, against its first two terms."""
    def lhs(f, x, h):
        return central(f[0], x, h)

    def rhs(f, x, h):
        return f[1](x) + h**2 / 6 * f[3](x)

    check_equation("eq-check-cubic", lhs, rhs, at_points([*polynomials(4), *polynomials(3), *polynomials(1)]))
    assert all(lhs(*case) != rhs(*case) for case in at_points(polynomials(5)))
    fourth_power = polynomial([0, 0, 0, 0, 1])  # f''' = 24 x is a straight line, but no constant
    assert central(fourth_power, 1, 1) - 4 == Fraction(24, 6) < Fraction(24 * (1 + 1), 6)


@computed(kind="sympy")
def third_derivative(z_0, z_1, weight):
    """Of -log(Z_0 + Z_1 e^x) with respect to x, where e^x is weight."""
    x = sympy.Symbol("x", real=True)
    z_0, z_1, weight = (sympy.Rational(n.numerator, n.denominator) for n in (z_0, z_1, weight))
    value = sympy.Rational(sympy.diff(-sympy.log(z_0 + z_1 * sympy.exp(x)), x, 3).subs(x, sympy.log(weight)))
    return Fraction(int(value.p), int(value.q))


@pytest.mark.equation("eq-check-third", patterns={r"f'''(\theta)": "third"})
def test_third():
    """sympy differentiates -log(Z_0 + Z_1 e^x) three times, against the polynomial in p."""
    def rhs(third, p):
        return -p * (1 - p) * (1 - 2 * p)

    check_equation("eq-check-third", first, rhs, (
        (third_derivative(z_0, z_1, weight), z_1 * weight / (z_0 + z_1 * weight)) for z_0, z_1, weight in [
            (Fraction(2), Fraction(3), Fraction(5)), (Fraction(7, 2), Fraction(1, 3), Fraction(4, 5)),
            (Fraction(6), Fraction(3), Fraction(2)), (Fraction(0), Fraction(3), Fraction(5)),
            (Fraction(2), Fraction(0), Fraction(5))]))


#: Digits of the significand, the hidden one among them.
FORMATS = {np.float16: 11, np.float32: 24, np.float64: 53}


@computed(kind="floating point")
def rounded(value, digits):
    """A fraction as a processor rounds it."""
    (kind,) = (kind for kind, of_kind in FORMATS.items() if of_kind == digits)
    return Fraction(float(kind(float(value))))


@computed(kind="rounding of integers")
def relative_error(value, digits):
    """What rounding to so many binary digits does to a fraction, by integers: the nearest multiple of a power of 2."""
    unit = Fraction(1)
    while abs(value) / unit >= 2**digits:
        unit *= 2
    while abs(value) / unit < 2**(digits - 1):
        unit /= 2
    return round(value / unit) * unit / value - 1


@pytest.mark.equation("eq-check-rounding", patterns={
    "f(#x)": "f(#x)", r"D_h f(\theta)": "central(f, x, h)", r"\hat D_h f(\theta)": "quotient",
    r"\delta_+": "delta[+1]", r"\delta_-": "delta[-1]"})
def test_rounding():
    """The quotient of point that the processor rounded against the exact one and the errors of rounding by integers,
    which are as small as the text says."""
    def rhs(quotient, f, x, h, delta):
        return central(f, x, h) + (delta[+1] * f(x + h) - delta[-1] * f(x - h)) / (2 * h)

    def cases():
        for f, *_ in polynomials(3):
            for x, h in POINTS:
                for digits in FORMATS.values():
                    high, low = (rounded(f(x + sign * h), digits) for sign in (+1, -1))
                    delta = {sign: relative_error(f(x + sign * h), digits) for sign in (+1, -1)}
                    yield (high - low) / (2 * h), f, x, h, delta

    check_equation("eq-check-rounding", first, rhs, cases())
    for f, *_ in polynomials(3):
        for x, h in POINTS:
            for digits in FORMATS.values():
                errors = [relative_error(f(x + sign * h), digits) for sign in (+1, -1)]
                assert all(0 < abs(error) <= Fraction(1, 2**digits) for error in errors)


@computed(kind="sympy")
def best_step(F, M):
    """The zero of eta', found by sympy among the roots of a polynomial, and eta there."""
    h = sympy.Symbol("h", positive=True)
    eta = h**2 / 6 * M + F / h
    (best,) = sympy.real_roots(sympy.numer(sympy.together(sympy.diff(eta, h))))
    assert sympy.diff(eta, h, 2).subs(h, best) > 0
    return best, eta.subs(h, best)


#: Epsilon, f(x) and f'''(x), such that the cube roots are rational.
OPTIMA = [tuple(map(sympy.Rational, case)) for case in [("1/4", -9, 2), ("1/6", 80, -5), ("1/12", -32, -1), (9, 3, 3)]]


@pytest.mark.equation("eq-check-optimal-step", patterns={
    r"h^{\ast}": "best", r"\varepsilon": "eps", r"f(\theta)": "value", r"f'''(\theta)": "third"})
def test_optimal_step():
    """The root of eta'(h), found by sympy, against the cube root; the numbers are such that it is rational."""
    def middle(best, F, M, eps, value, third):
        return (3 * F / M) ** THIRD

    def rhs(best, F, M, eps, value, third):
        return (3 * eps * abs(value) / abs(third)) ** THIRD

    for side in (middle, rhs):
        check_equation("eq-check-optimal-step", first, side, (
            (best_step(eps * abs(value), abs(third))[0], eps * abs(value), abs(third), eps, value, third)
            for eps, value, third in OPTIMA))
    h = sympy.Symbol("h", positive=True)  # if f(x) or f'''(x) is 0, no step is best: eta only grows, or only falls
    for F, M in ((0, 2), (2, 0)):
        assert sympy.solve(sympy.diff(h**2 / 6 * M + F / h, h), h) == []


@pytest.mark.equation("eq-check-best-error", patterns={r"\eta(h^{\ast})": "error"})
def test_best_error():
    """eta at its least, found by sympy, against the closed form; the numbers are such that both are rational."""
    def rhs(error, F, M):
        return sympy.Rational(1, 2) * (9 * F**2 * M) ** THIRD

    check_equation("eq-check-best-error", first, rhs, (
        (best_step(eps * abs(value), abs(third))[1], eps * abs(value), abs(third)) for eps, value, third in OPTIMA))


@pytest.mark.equation("eq-check-richardson")
def test_richardson():
    """The combination of two central differences of polynomials of degree 6, in fractions, against its two terms."""
    def lhs(f, x, h):
        return (4 * central(f[0], x, h) - central(f[0], x, 2 * h)) / 3

    def rhs(f, x, h):
        return f[1](x) - h**4 / 30 * f[5](x)

    check_equation("eq-check-richardson", lhs, rhs, at_points([*polynomials(6), *polynomials(3)]))
    assert all(lhs(*case) != rhs(*case) for case in at_points(polynomials(7)))


@pytest.mark.equation("eq-check-truncation-estimate")
def test_truncation_estimate():
    """A third of the distance of two central differences of polynomials of degree 4, in fractions, against one term."""
    def lhs(f, x, h):
        return (central(f[0], x, 2 * h) - central(f[0], x, h)) / 3

    def rhs(f, x, h):
        return h**2 / 6 * f[3](x)

    check_equation("eq-check-truncation-estimate", lhs, rhs, at_points([*polynomials(4), *polynomials(3)]))
    assert all(lhs(*case) != rhs(*case) for case in at_points(polynomials(5)))


def _flat_functions():
    """Z of CTC and of RNN-T as functions of a vector, and a vector."""
    for y, targets in CTC_INPUTS:
        yield lambda point, y=y, targets=targets: ctc_z(point.reshape(y.shape), targets), y.ravel()
    for y, targets in RNNT_INPUTS:
        yield lambda point, y=y, targets=targets: rnnt_z_of_rows(point.reshape(-1, y.shape[-1]), targets), y.ravel()


@computed(kind="sympy")
def slopes_of(f, point):
    """The derivatives of a polynomial, which sympy is given in symbols, at a point."""
    symbols = ring_grid("y", point.shape)
    value = f(symbols)
    return each_entry(point.shape, lambda i: sum(
        int(coefficient) * prod(point ** np.array(powers, dtype=object))
        for powers, coefficient in value.diff(symbols[i]).terms()))


def moved(point, i, h):
    point = point.copy()
    point[i] += h
    return point


@pytest.mark.equation("eq-check-exact-difference", patterns={
    r"f(y + h \mathbf 1_i)": "f(moved(point, i, h))", "f(y)": "f(point)",
    r"\frac{\partial f}{\partial y_i}(y)": "slopes[i]"})
def test_exact_difference():
    """Difference quotients of Z with steps of all sizes, in fractions, against its derivative by sympy."""
    def lhs(f, point, slopes, i, h):
        return exact_difference(f, point, (i,), h)

    def rhs(f, point, slopes, i, h):
        return slopes[i]

    def cases():
        for f, point in _flat_functions():
            slopes = zero_outside(slopes_of(f, point), OUTSIDE)
            for i in range(len(point)):
                yield f, point, slopes, i, (1, -1000, Fraction(1, 10**9))[i % 3]

    check_equation("eq-check-exact-difference", lhs, rhs, cases())
    twice = [exact_difference(lambda point: point[0]**2, np.array([2], dtype=object), (0,), h) for h in (1, -1000)]
    assert 4 not in twice and twice[0] != twice[1]  # not multi-affine: the step shows


@computed(kind="recursion")
def recursions(arcs, w):
    """alpha and beta of the package."""
    return [sweep(lattice_of(arcs), w, REAL) for sweep in (lattice.forward, lattice.backward)]


@computed
def walked(arcs, w):
    """Z over all walks."""
    return sum(masses(paths_of(arcs), w), Fraction(0))


@pytest.mark.equation("eq-check-alpha-beta", patterns={
    r"Z(w + h \mathbf 1_e)": "walked(arcs, moved(w, e, h))", "Z(w)": "walked(arcs, w)", "w(e)": "w[e]",
    r"\alpha(m)": "alpha[m]", r"\beta(n)": "beta[n]"})
def test_alpha_beta():
    """Difference quotients of Z, summed over walks from node to node, against the recursions: fractions, and integers
    of 61 bits."""
    def lhs(arcs, w, alpha, beta, e, m, n, h):
        return w[e] * exact_difference(lambda w: walked(arcs, w), w, (e,), h)

    def rhs(arcs, w, alpha, beta, e, m, n, h):
        return alpha[m] * w[e] * beta[n]

    def cases():
        for seed, arcs in enumerate([*LATTICES, LATTICES[-1]]):
            draw = random_integers if seed == len(LATTICES) else probabilities_of
            w = draw(np.random.default_rng(seed), len(arcs))
            if seed == 3:
                w[2] *= 0
            alpha, beta = (zero_outside(each, OUTSIDE) for each in recursions(arcs, w))
            for e, (m, n) in enumerate(arcs):
                yield arcs, w, alpha, beta, e, m, n, (1, -1000, Fraction(1, 10**9))[e % 3]

    check_equation("eq-check-alpha-beta", lhs, rhs, cases())


def probabilities_of(rng, count):
    return random_integers(rng, count, bits=8) / Fraction(7)


@computed
def zeros(d, Y, N):
    """Zeros of (x_1 - 1)...(x_1 - d) among the points with N coordinates from 1 to Y."""
    return sum(prod(x[0] - j for j in range(1, d + 1)) == 0 for x in product(range(1, Y + 1), repeat=N))


@pytest.mark.equation("eq-check-sharp", patterns={
    r"|\{\theta \in Y^N : #f = 0\}|": "sum(#f == 0 for x in product(range(1, Y + 1), repeat=N))", r"\theta_1": "x[0]",
    "|Y|": "Y"})
def test_sharp():
    """Zeros of (x_1 - 1)...(x_1 - d), counted at all points of Y^N, against the formula."""
    def rhs(count, d, Y, N):
        return d * Y ** (N - 1)

    check_equation("eq-check-sharp", first, rhs, (
        (zeros(d, Y, N), d, Y, N) for d, Y, N in [(2, 5, 3), (3, 4, 1), (4, 4, 2), (1, 2, 3), (0, 3, 2)]),
        left_out={"Y < d": "Y has the numbers up to d"})
    assert zeros(4, 3, 2) == 3**2 < 4 * 3


@computed(kind="sympy")
def log_softmax_jacobian(row):
    """J[j, k] = d a_j / d u_k at softmax(u) = row, differentiated symbolically in x = e^u and evaluated at x = row."""
    x = field_grid("x", (len(row),))
    at = {to_expr(symbol): sympy.Rational(value) for symbol, value in zip(x, row, strict=True)}

    def entry(j, k):  # d/du = x d/dx
        value = sympy.Rational(to_expr(x[k] * softmax(x)[j].diff(x[k]) / softmax(x)[j]).subs(at))
        return Fraction(int(value.p), int(value.q))

    return each_entry((len(row), len(row)), entry)


#: Normalised rows, one with a masked symbol, one with no other symbol.
NORMALISED = [np.array([Fraction(n, sum(row)) for n in row], dtype=object) for row in [[3, 2, 1], [2, 0, 1, 5], [1]]]


@pytest.mark.equation("eq-check-kernel", patterns=ROW)
def test_kernel():
    """The symbolic Jacobian of log-softmax, transposed, applied to g + c y against the backward step applied to g."""
    def lhs(J, g_row, y_row, k, c, V):
        return J[:, k] @ (g_row.array + c * y_row)

    def rhs(J, g_row, y_row, k, c, V):
        return g_row[k] - y_row[k] * sum(g_row[j] for j in range(0, V))

    check_equation("eq-check-kernel", lhs, rhs, (
        (log_softmax_jacobian(y), zero_outside(random_integers(np.random.default_rng(len(y)), len(y), bits=6) - 20,
                                               OUTSIDE), y, k, c, len(y))
        for y in NORMALISED for k in range(len(y)) for c in (1, Fraction(-5, 3), 100, 0)))
    g, y = np.array([3, -5, 2]), 2 * NORMALISED[0]  # a row that does not add up to 1: there c shows
    assert (g + y - y * (g + y).sum() != g - y * g.sum()).all()


@pytest.mark.equation("eq-check-kink", patterns={
    "D_h f(0)": "central(f, 0, h)", r"\mu_-": "below", r"\mu_+": "above"}, conditions={
    r"\text{for } f(\theta) = \mu_-\,\theta \text{ if } \theta \le 0, \;\; \mu_+\,\theta \text{ if } \theta > 0":
    "all(f(x) == (below * x if x <= 0 else above * x) for x in (-h, 0, h))"})
def test_kink():
    """The central difference at a kink, in fractions, for steps of all sizes, against the mean of the slopes."""
    def lhs(f, below, above, h):
        return central(f, 0, h)

    def rhs(f, below, above, h):
        return (below + above) / 2

    check_equation("eq-check-kink", lhs, rhs, [
        (lambda x, below=below, above=above: below * x if x <= 0 else above * x, Fraction(below), Fraction(above), h)
        for below, above in [(0, 1), (-3, 5), (4, -2), (7, 7)]
        for h in (Fraction(1, 10**9), Fraction(7), Fraction(-2, 3))],
        algebraic={"no source": "the difference is taken of the function, the mean of its slopes"})


@computed(kind="backward pass")
def backward_step(y_row, gathered, G):
    """Of a log-softmax and a gather, in closed form: scatter, and g - y sum g."""
    g = np.full(len(y_row), Fraction(0), dtype=object)
    np.add.at(g, gathered, G)
    return g - y_row * g.sum()


@pytest.mark.equation("eq-check-dot-product", patterns={
    r"(J\nu)_{#i}": "Jd[#i]", r"(J^{\mathsf T} G)_{#j}": "JTG[#j]", "G_{#i}": "G[#i]",
    r"\nu_{#j}": "direction[#j]"}, over={"i": "range(outputs)", "j": "range(inputs)"})
def test_dot_product():
    """sympy: the outputs of a log-softmax, some of them read twice or never, along a line, against the closed form of
    the backward pass."""
    def lhs(G, direction, Jd, JTG, outputs, inputs):
        return sum(G[i] * Jd[i] for i in range(outputs))

    def rhs(G, direction, Jd, JTG, outputs, inputs):
        return sum(JTG[j] * direction[j] for j in range(0, inputs))

    def cases():
        rng = np.random.default_rng(0)
        for x, gathered in [([2, 3, 5], [1]), ([1, 4], [0, 1, 1, 0]), ([3, 0, 2, 6], [3, 0, 0]), ([7], [0, 0])]:
            x, d = np.array([Fraction(n) for n in x], dtype=object), rng.integers(-3, 4, len(x)).tolist()
            G = rng.integers(-9, 10, len(gathered)).tolist()

            def log_slope(k, x=x, d=d):  # d/dtau log y_k, where x r^d moves with r = e^tau
                return slope_at(lambda r: softmax(x * np.array([r[0]**n for n in d]))[k], ONE, 0) / softmax(x)[k]

            Jd = [log_slope(k) for k in gathered]
            JTG = zero_outside(backward_step(softmax(x), gathered, G), OUTSIDE)
            yield G, zero_outside(d, OUTSIDE), Jd, JTG, len(G), len(x)

    check_equation("eq-check-dot-product", lhs, rhs, cases())

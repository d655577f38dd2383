"""The equations of the chapter "Checking a gradient", each executed against an independent computation, exactly."""

from fractions import Fraction
from itertools import groupby, product
from math import prod

import numpy as np
import pytest
import sympy

from reference_impl import ctc, rnnt
from reference_impl.differences import exact_difference, random_integers
from reference_impl.equations import check_equation, zero_outside
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, ring_grid, softmax, to_expr

THIRD = sympy.Rational(1, 3)

#: What an array reads as outside its bounds, so that neither a shifted index nor a shifted bound stays unnoticed.
OUTSIDE = 99

#: Points and steps for polynomials: neither is small, neither is round.
POINTS = [(Fraction(2, 3), Fraction(2, 5)), (Fraction(-5, 7), Fraction(3))]


def polynomials(degree, count=2):
    """Random integer polynomials, each as the list of its derivatives f, f', f'', ..., on exact numbers."""
    rng = np.random.default_rng(degree)

    def function(coefficients):
        return lambda x: sum(c * x**j for j, c in enumerate(coefficients))

    for _ in range(count):
        coefficients, derivatives = [int(c) for c in rng.integers(1, 10, degree + 1)], []
        for _ in range(degree + 1):
            derivatives.append(function(coefficients))
            coefficients = [j * c for j, c in enumerate(coefficients)][1:]
        yield derivatives


def forward(f, x, h):
    return (f(x + h) - f(x)) / h


def central(f, x, h):
    return (f(x + h) - f(x - h)) / (2 * h)


def integral(g, lower):
    """Of g from ``lower`` to 1, exactly; the sign of the variable is known on each side of 0."""
    left, right = sympy.Symbol("s", negative=True), sympy.Symbol("s", positive=True)
    return (sympy.integrate(sympy.expand(g(left)), (left, min(lower, 0), 0))
            + sympy.integrate(sympy.expand(g(right)), (right, max(lower, 0), 1)))


def strings(targets, shape, blank=0):
    """All strings that collapse to the targets, found among all V^T by merging runs and removing blanks."""
    T, V = shape
    return [p for p in product(range(V), repeat=T) if [k for k, _ in groupby(p) if k != blank] == list(targets)]


def mass(y, targets, blank=0):
    """Z by brute force."""
    return sum(prod(y[t, k] for t, k in enumerate(p)) for p in strings(targets, y.shape, blank))


def mass_through(y, targets, *entries):
    """The mass of the strings that use all of the given entries, by brute force."""
    return sum(prod(y[t, k] for t, k in enumerate(p)) for p in strings(targets, y.shape)
               if all(p[t] == k for t, k in entries))


@pytest.mark.equation("eq-check-chain")
def test_chain():
    """Differentiating -log Z(softmax(u)) symbolically against exact differences in y, put through the right side."""
    Z = {"ctc": lambda y: ctc.Z(y, [1], semiring=REAL),
         "rnnt": lambda y: rnnt.beta(y.reshape(2, 2, 2), [1], semiring=REAL)[0, 0]}

    def lhs(loss, x, t, k):
        z = Z[loss](softmax(x))
        return -x[t, k] * z.diff(x[t, k]) / z  # d/du = x d/dx, for x = e^u

    def gradient_log_probs(loss, y):
        g = np.empty_like(y)
        for entry in np.ndindex(y.shape):
            moved = y.copy()
            moved[entry] += 1
            g[entry] = -y[entry] * (Z[loss](moved) - Z[loss](y)) / Z[loss](y)
        return zero_outside(g, OUTSIDE)

    def rhs(loss, x, t, k):
        y = softmax(x)
        g = gradient_log_probs(loss, y)
        T, V = y.shape
        return g[t, k] - y[t, k] * sum(g[t, j] for j in range(0, V))

    x, x4 = field_grid("x", (2, 3)), field_grid("x", (4, 2))  # the rows of the second are nodes, of unequal occupancy
    check_equation("eq-check-chain", lhs, rhs, [("ctc", x, 0, 1), ("rnnt", x4, 1, 0), ("rnnt", x4, 0, 1)])


@pytest.mark.equation("eq-check-forward-remainder")
def test_forward_remainder():
    """The forward difference of polynomials of degree 6 against the derivative and the integral, done by sympy."""
    def lhs(f, x, h):
        return forward(f[0], x, h)

    def rhs(f, x, h):
        return f[1](x) + h * integral(lambda s: (1 - s) * f[2](x + h * s), 0)

    points = [(sympy.Rational(x), sympy.Rational(h)) for x, h in POINTS]
    check_equation("eq-check-forward-remainder", lhs, rhs, [(f, x, h) for f in polynomials(6) for x, h in points])


@pytest.mark.equation("eq-check-central-remainder")
def test_central_remainder():
    """The central difference of polynomials of degree 6 against the derivative and the integral, done by sympy."""
    def lhs(f, x, h):
        return central(f[0], x, h)

    def rhs(f, x, h):
        return f[1](x) + h**2 / 4 * integral(lambda s: (1 - abs(s))**2 * f[3](x + h * s), -1)

    points = [(sympy.Rational(x), sympy.Rational(h)) for x, h in POINTS]
    check_equation("eq-check-central-remainder", lhs, rhs, [(f, x, h) for f in polynomials(6) for x, h in points],
                   equivalent={"flip sign: x + h * s -> x - h * s": "the weight and the bounds are even in s"})


@pytest.mark.equation("eq-check-cubic")
def test_cubic():
    """The central difference of polynomials of degree 4, in fractions, against its first two terms."""
    def lhs(f, x, h):
        return central(f[0], x, h)

    def rhs(f, x, h):
        return f[1](x) + h**2 / 6 * f[3](x)

    check_equation("eq-check-cubic", lhs, rhs, [(f, x, h) for f in polynomials(4) for x, h in POINTS])


@pytest.mark.equation("eq-check-third")
def test_third():
    """Three symbolic derivatives of -log(A + B e^s) against the polynomial in p."""
    def lhs(p, A, B, x):
        first = -x * (A + B * x).diff(x) / (A + B * x)  # d/ds = x d/dx, for x = e^s
        second = x * first.diff(x)
        return x * second.diff(x)

    def rhs(p, A, B, x):
        return -p * (1 - p) * (1 - 2 * p)

    A, B, x = field_grid("z", (3,))
    check_equation("eq-check-third", lhs, rhs, [(B * x / (A + B * x), A, B, x)])


@pytest.mark.equation("eq-check-rounding")
def test_rounding():
    """The quotient of values that were rounded to float16, as fractions, against the exact one and both roundings."""
    def rounded(value):
        return Fraction(float(np.float16(float(value))))

    def lhs(f, x, h, delta):
        return (rounded(f(x + h)) - rounded(f(x - h))) / (2 * h)

    def rhs(f, x, h, delta):
        return central(f, x, h) + (delta[+1] * f(x + h) - delta[-1] * f(x - h)) / (2 * h)

    cases = []
    for f, *_ in polynomials(3):
        for x, h in POINTS:
            delta = {sign: rounded(f(x + sign * h)) / f(x + sign * h) - 1 for sign in (+1, -1)}
            assert delta[+1] != 0 != delta[-1]
            cases.append((f, x, h, delta))
    check_equation("eq-check-rounding", lhs, rhs, cases)


def best_step(F, M):
    """The zero of E', found by sympy among the roots of a polynomial, and E there."""
    h = sympy.Symbol("h", positive=True)
    E = h**2 / 6 * M + F / h
    (best,) = sympy.real_roots(sympy.numer(sympy.together(sympy.diff(E, h))))
    assert sympy.diff(E, h, 2).subs(h, best) > 0
    return best, E.subs(h, best)


@pytest.mark.equation("eq-check-optimal-step")
def test_optimal_step():
    """The root of E'(h), found by sympy, against the cube root; the numbers are such that it is rational."""
    def lhs(eps, f, third):
        return best_step(eps * abs(f), abs(third))[0]

    def rhs(eps, f, third):
        return (3 * eps * abs(f) / abs(third)) ** THIRD

    check_equation("eq-check-optimal-step", lhs, rhs, [
        (sympy.Rational(1, 4), sympy.Integer(-9), sympy.Integer(2)),
        (sympy.Rational(1, 6), sympy.Integer(80), sympy.Integer(-5))])


@pytest.mark.equation("eq-check-best-error")
def test_best_error():
    """E at the root of E', found by sympy, against the closed form; the numbers are such that both are rational."""
    def lhs(F, M):
        return best_step(F, M)[1]

    def rhs(F, M):
        return sympy.Rational(1, 2) * (9 * F**2 * M) ** THIRD

    check_equation("eq-check-best-error", lhs, rhs, [
        (sympy.Rational(9, 4), sympy.Integer(2)), (sympy.Rational(40, 3), sympy.Integer(5))])


@pytest.mark.equation("eq-check-richardson")
def test_richardson():
    """The combination of two central differences of polynomials of degree 6, in fractions, against its two terms."""
    def lhs(f, x, h):
        return (4 * central(f[0], x, h) - central(f[0], x, 2 * h)) / 3

    def rhs(f, x, h):
        return f[1](x) - h**4 / 30 * f[5](x)

    check_equation("eq-check-richardson", lhs, rhs, [(f, x, h) for f in polynomials(6) for x, h in POINTS])


@pytest.mark.equation("eq-check-truncation-estimate")
def test_truncation_estimate():
    """A third of the distance of two central differences of polynomials of degree 4, in fractions, against one term."""
    def lhs(f, x, h):
        return (central(f[0], x, 2 * h) - central(f[0], x, h)) / 3

    def rhs(f, x, h):
        return h**2 / 6 * f[3](x)

    check_equation("eq-check-truncation-estimate", lhs, rhs, [(f, x, h) for f in polynomials(4) for x, h in POINTS])


@pytest.mark.equation("eq-check-exact-difference")
def test_exact_difference():
    """Difference quotients of Z with steps of all sizes, in fractions, against its symbolic derivative at the point."""
    grid = {"ctc": ring_grid("y", (4, 3)), "rnnt": ring_grid("y", (2, 3, 3))}
    Z = {"ctc": lambda y: ctc.Z(y, [1, 1], semiring=REAL),
         "rnnt": lambda y: rnnt.beta(y, [1, 2], semiring=REAL)[0, 0]}

    def lhs(loss, y, i, h):
        index = np.unravel_index(i, grid[loss].shape)
        return exact_difference(lambda y: Z[loss](y.reshape(grid[loss].shape)), y.reshape(grid[loss].shape), index, h)

    def rhs(loss, y, i, h):
        variables = grid[loss].ravel().tolist()
        return Z[loss](grid[loss]).diff(variables[i]).evaluate(list(zip(variables, y, strict=True)))

    rng = np.random.default_rng(0)
    cases = [(loss, random_integers(rng, grid[loss].size, bits=20), i, h) for loss, i in
             [("ctc", 4), ("ctc", 6), ("rnnt", 1), ("rnnt", 3)] for h in (1, -1000, Fraction(1, 10**9))]
    check_equation("eq-check-exact-difference", lhs, rhs, cases)


@pytest.mark.equation("eq-check-alpha-beta")
def test_alpha_beta():
    """Difference quotients of Z, summed over all V^T strings, against the recursions: integers below 2^61."""
    def lhs(y, targets, blank, t, k, h):
        return y[t, k] * exact_difference(lambda y: mass(y, targets, blank), y, (t, k), h)

    def rhs(y, targets, blank, t, k, h):
        alpha = ctc.alpha(y, targets, blank=blank, semiring=REAL)
        beta = ctc.beta(y, targets, blank=blank, semiring=REAL)
        extended = ctc.extended_targets(targets, blank=blank)
        S = len(extended)
        return sum(alpha[t, s] * beta[t, s] for s in range(0, S) if extended[s] == k)

    rng = np.random.default_rng(0)
    cases = [(random_integers(rng, (T, 3)), targets, blank, t, k, h)
             for T, targets, blank in [(4, [1, 2], 0), (4, [1, 1], 2), (5, [0, 2, 0], 1)]
             for t, k, h in [(1, 0, 1), (2, 1, -1000), (T - 1, 2, 10**9), (0, blank, 7)]]
    check_equation("eq-check-alpha-beta", lhs, rhs, cases)


@pytest.mark.equation("eq-check-sharp")
def test_sharp():
    """Zeros of (x_1 - 1)...(x_1 - d), counted at all points of S^n, against the formula."""
    def lhs(d, m, n):
        return sum(prod(x[0] - j for j in range(1, d + 1)) == 0 for x in product(range(1, m + 1), repeat=n))

    def rhs(d, m, n):
        return d * m ** (n - 1)

    check_equation("eq-check-sharp", lhs, rhs, [(2, 5, 3), (3, 4, 2), (4, 4, 4)])


def log_softmax_jacobian(y):
    """J[j, k] = d a_j / d u_k at softmax(u) = y, differentiated symbolically in x = e^u and evaluated at x = y."""
    x = field_grid("x", (len(y),))
    point = {to_expr(symbol): sympy.Rational(value) for symbol, value in zip(x, y, strict=True)}

    def entry(j, k):  # d/du = x d/dx
        value = to_expr(x[k] * softmax(x)[j].diff(x[k]) / softmax(x)[j]).subs(point)
        return Fraction(int(value.p), int(value.q))

    return np.array([[entry(j, k) for k in range(len(y))] for j in range(len(y))], dtype=object)


#: Normalised probabilities, and fractions to stand for gradients and directions.
Y = np.array([Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], dtype=object)
G = np.array([Fraction(-3, 7), Fraction(5), Fraction(2, 9)], dtype=object)
W = np.array([Fraction(4, 5), Fraction(-1), Fraction(7, 3)], dtype=object)


@pytest.mark.equation("eq-check-kernel")
def test_kernel():
    """The symbolic Jacobian of log-softmax, transposed, applied to g + c y against the backward step applied to g."""
    J = log_softmax_jacobian(Y)

    def lhs(g, y, k, c):
        return J.T[k] @ (g + c * y)

    def rhs(g, y, k, c):
        V, g = len(y), zero_outside(g, OUTSIDE)
        return g[k] - y[k] * sum(g[j] for j in range(0, V))

    check_equation("eq-check-kernel", lhs, rhs, [(G, Y, k, c) for k in range(3) for c in (1, Fraction(-5, 3), 100)])


@pytest.mark.equation("eq-check-kink")
def test_kink():
    """The central difference at a kink, in fractions, for steps of all sizes, against the mean of the slopes."""
    def lhs(b, c, h):
        return central(lambda x: b * x if x <= 0 else c * x, 0, h)

    def rhs(b, c, h):
        return (b + c) / 2

    check_equation("eq-check-kink", lhs, rhs, [
        (Fraction(b), Fraction(c), h) for b, c in [(0, 1), (-3, 5)] for h in (Fraction(1, 10**9), Fraction(7))])


@pytest.mark.equation("eq-check-asymmetry")
def test_asymmetry():
    """The symbolic Jacobian of scaled occupancies against covariances over the enumerated paths."""
    y = field_grid("y", (3, 3))
    entries = list(np.ndindex(3, 3))

    def field(targets, c, i):
        Z = ctc.Z(y, targets, semiring=REAL)
        return -c[i] * y[entries[i]] * Z.diff(y[entries[i]]) / Z

    def lhs(targets, c, i, j):
        def slope(i, j):
            return y[entries[j]] * field(targets, c, i).diff(y[entries[j]])  # d/da = y d/dy, for y = e^a
        return slope(i, j) - slope(j, i)

    def covariance(targets, i, j):
        total, first, second = mass(y, targets), entries[i], entries[j]
        mean = [mass_through(y, targets, e) / total for e in (first, second)]
        return mass_through(y, targets, first, second) / total - mean[0] * mean[1]

    def rhs(targets, c, i, j):
        return (c[j] - c[i]) * covariance(targets, i, j)

    c = [1, 3, -2, 5, 7, 4, 11, 9, 6]
    check_equation("eq-check-asymmetry", lhs, rhs, [([1, 2], c, 1, 3), ([1], c, 0, 4), ([1, 2], c, 5, 1)])


@pytest.mark.equation("eq-check-directional")
def test_directional():
    """The symbolic derivative of Z along a line against the sum of exact differences in single entries."""
    def lhs(f, x, g, d):
        s = sympy.Symbol("s")
        return int(sympy.Poly(sympy.expand(f(x + s * d)), s).coeff_monomial(s))

    def rhs(f, x, g, d):
        n = len(d)
        return sum(g[i] * d[i] for i in range(0, n))

    rng, cases = np.random.default_rng(0), []
    for targets in ([1, 2], [1, 1], [2]):
        def f(x, targets=targets):
            return mass(x.reshape(3, 3), targets)
        x, d = random_integers(rng, 9, bits=10), random_integers(rng, 9, bits=10)
        cases.append((f, x, [exact_difference(f, x, (i,), 1000) for i in range(9)], d))
    check_equation("eq-check-directional", lhs, rhs, cases)


@pytest.mark.equation("eq-check-dot-product")
def test_dot_product():
    """Forward by the symbolic Jacobian of log-softmax against its backward step in closed form."""
    J = log_softmax_jacobian(Y)

    def lhs(w, v, JTw):
        return sum(w[i] * (J @ v)[i] for i in range(3))

    def rhs(w, v, JTw):
        n = len(v)
        return sum(JTw[j] * v[j] for j in range(0, n))

    check_equation("eq-check-dot-product", lhs, rhs, [
        (w, v, w - Y * w.sum()) for w, v in [(W, G), (G, W), (G, np.array([1, 5, 2], dtype=object))]])

"""Checks of the equations of the chapter on second derivatives. Means, shares and masses come from enumerated paths."""

from fractions import Fraction
from math import exp, prod

import numpy as np
import pytest
import sympy
from brute_force import CTC_INPUTS, RNNT_INPUTS, ctc_strings, expected_uses, rnnt_paths

from reference_impl.duals import Dual, duals
from reference_impl.equations import check_equation
from reference_impl.lattice import enumerate_paths, forward, random_lattice
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, path_sum, softmax, to_expr

LATTICES = [random_lattice(np.random.default_rng(seed), 5, 4) for seed in range(3)]


def slope(z, x):
    """d log z / d log x."""
    return x * z.diff(x) / z


def all_paths(lattice):
    return [list(path) for path in enumerate_paths(lattice)]


def random_fractions(rng, size):
    return rng.integers(1, 40, size) * Fraction(1, 7)


def nudged(seed, lattice):
    """Weights, a nudge of their logarithms, and both as dual numbers."""
    rng = np.random.default_rng([seed, 1])
    w = random_fractions(rng, len(lattice.arcs))
    v = rng.integers(-5, 6, len(lattice.arcs)) * Fraction(1)
    return w, v, duals(w, w * v)


def beginnings(lattice, node):
    """All ways from the first node to one node, as lists of arcs."""
    if node == 0:
        return [[]]
    return [[*before, a] for a, arc in enumerate(lattice.arcs) if arc.target == node
            for before in beginnings(lattice, arc.source)]


def masses(lattice, weights):
    """The mass of all beginnings of each node, in whatever kind of numbers the weights are."""
    return [sum((prod(weights[a] for a in way) for way in beginnings(lattice, n)), 0 * weights[0])
            for n in range(len(lattice.nodes))]


def through(lattice, weights, test):
    """The share of the mass of the paths for which ``test(path)`` holds."""
    paths = all_paths(lattice)
    total = sum(prod(weights[a] for a in path) for path in paths)
    return sum((prod(weights[a] for a in path) for path in paths if test(path)), 0 * weights[0]) / total


def occupancies(lattice, weights):
    """Of each node; every path visits the first and the last."""
    return [through(lattice, weights, lambda path, n=n: n in (0, *(lattice.arcs[a].target for a in path)))
            for n in range(len(lattice.nodes))]


def quantities(seed, lattice):
    """Everything of the two sweeps by enumeration, and its change along the nudge: dual numbers for each arc, node."""
    w, v, numbers = nudged(seed, lattice)
    mass = masses(lattice, numbers)
    share = [mass[arc.source] * numbers[a] / mass[arc.target] for a, arc in enumerate(lattice.arcs)]
    posterior = [through(lattice, numbers, lambda path, a=a: a in path) for a in range(len(w))]
    mean = [m.tangent / m.value for m in mass]
    return v, mean, share, posterior, occupancies(lattice, numbers)


@pytest.mark.equation("eq-second-directional")
def test_directional():
    """A row of sympy's second derivatives of log Z, times v, against conditional means over enumerated paths."""
    def rhs(row, P, mean_with, mean, a):
        return P[a] * (mean_with[a] - mean)

    lattice = random_lattice(np.random.default_rng(6), 4, 3)
    w = field_grid("w", lattice.shape)
    z, paths, v = path_sum(lattice, w), all_paths(lattice), [2, -3, 5, 7, -1, 4]
    shares = [prod(w[a] for a in path) / z for path in paths]
    collected = [sum(v[a] for a in path) for path in paths]
    mean = sum(p * c for p, c in zip(shares, collected, strict=True))
    P, mean_with, cases = [], [], []
    for a in range(len(w)):
        using = [i for i, path in enumerate(paths) if a in path]
        P.append(sum((shares[i] for i in using), 0 * z))
        mean_with.append(sum((shares[i] * collected[i] for i in using), 0 * z) / P[a])
    for a in range(len(w)):
        posterior = slope(z, w[a])
        row = sum(w[b] * posterior.diff(w[b]) * v[b] for b in range(len(w)))
        cases.append((row, P, mean_with, mean, a))
    check_equation("eq-second-directional", lambda row, *_: row, rhs, cases)


@pytest.mark.equation("eq-second-dual-total")
def test_dual_total():
    """The forward recursion on dual numbers against Z and the mean over enumerated paths."""
    def rhs(total, z, mean, epsilon):
        return z + z * mean * epsilon

    cases = []
    for seed, lattice in enumerate(LATTICES):
        w, v, numbers = nudged(seed, lattice)
        paths = all_paths(lattice)
        weights = [prod(w[path]) for path in paths]
        mean = sum(p * v[path].sum() for p, path in zip(weights, paths, strict=True)) / sum(weights)
        cases.append((forward(lattice, numbers, REAL)[-1], sum(weights), mean, Dual(0, 1)))
    check_equation("eq-second-dual-total", lambda total, *_: total, rhs, cases)


@pytest.mark.equation("eq-second-alpha-tangent")
def test_alpha_tangent():
    """The mean of what beginnings have collected, by enumeration, against that of the nodes before."""
    def rhs(value, r, mu, v, entering):
        return sum(r[a] * (mu[m] + v[a]) for a, m in entering)

    cases = []
    for seed, lattice in enumerate(LATTICES):
        v, mean, share, *_ = quantities(seed, lattice)
        assert mean[0] == 0
        for n in range(1, len(lattice.nodes)):
            entering = [(a, arc.source) for a, arc in enumerate(lattice.arcs) if arc.target == n]
            cases.append((mean[n], [r.value for r in share], mean, v, entering))
    check_equation("eq-second-alpha-tangent", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-second-share-tangent")
def test_share_tangent():
    """The change of alpha w / alpha, all by enumeration in dual numbers, against three means."""
    def rhs(value, r, mu, v, a, m, n):
        return r[a] * (mu[m] + v[a] - mu[n])

    cases = []
    for seed, lattice in enumerate(LATTICES):
        v, mean, share, *_ = quantities(seed, lattice)
        cases += [(share[a].tangent, [r.value for r in share], mean, v, a, arc.source, arc.target)
                  for a, arc in enumerate(lattice.arcs)]
    check_equation("eq-second-share-tangent", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-second-posterior-tangent")
def test_posterior_tangent():
    """The change of each enumerated posterior against the changes of a share and of an occupancy."""
    def rhs(value, dr, r, gamma, dgamma, a, n):
        return dr[a] * gamma[n] + r[a] * dgamma[n]

    cases = []
    for seed, lattice in enumerate(LATTICES):
        _, _, share, posterior, node = quantities(seed, lattice)
        for a, arc in enumerate(lattice.arcs):
            cases.append((posterior[a].tangent, [r.tangent for r in share], [r.value for r in share],
                          [g.value for g in node], [g.tangent for g in node], a, arc.target))
    check_equation("eq-second-posterior-tangent", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-second-node-tangent")
def test_node_tangent():
    """The change of each enumerated node occupancy against those of the posteriors of the arcs that leave it."""
    def rhs(value, dP, leaving):
        return sum(dP[a] for a in leaving)

    cases = []
    for seed, lattice in enumerate(LATTICES):
        *_, posterior, node = quantities(seed, lattice)
        assert node[0].tangent == node[-1].tangent == 0
        for m in range(len(lattice.nodes) - 1):
            leaving = [a for a, arc in enumerate(lattice.arcs) if arc.source == m]
            cases.append((node[m].tangent, [p.tangent for p in posterior], leaving))
    check_equation("eq-second-node-tangent", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-second-inward")
def test_inward():
    """sympy's derivative of log-softmax, in a direction, against the direction less its mean."""
    def rhs(value, d, y, k, V):
        return d[k] - sum(y[i] * d[i] for i in range(0, V))

    x, d = field_grid("x", (4,)), [3, -2, 7, 5]
    y = softmax(x)
    check_equation("eq-second-inward", lambda value, *_: value, rhs, [
        (sum(x[i] * y[k].diff(x[i]) / y[k] * d[i] for i in range(4)), d, y, k, 4) for k in range(4)])


def of_logits(paths, x, d):
    """Dual numbers of both sides: softmax, uses of each entry, uses of each row, and d less its mean.

    ``paths`` are lists of entries, ``x`` the exponentials of the logits, ``d`` a direction of the logits.
    """
    y = softmax(duals(x, x * d))
    E = expected_uses(y, paths)
    inward = np.vectorize(lambda number: number.tangent / number.value, otypes=[object])(y)
    return y, E, E.sum(-1), inward


def part(numbers, name):
    return np.vectorize(lambda number: getattr(number + Dual(0), name), otypes=[object])(numbers)


def inputs():
    """(paths, x, d) of CTC and RNN-T, with exact numbers."""
    def ctc_paths(y, targets):
        return [list(enumerate(string)) for string in ctc_strings(y, targets)]

    for kind_inputs, paths_of in ((CTC_INPUTS, ctc_paths), (RNNT_INPUTS, rnnt_paths)):
        for seed, (y, targets) in enumerate(kind_inputs):
            rng = np.random.default_rng([seed, 2])
            yield paths_of(y, targets), random_fractions(rng, y.shape), rng.integers(-4, 5, y.shape) * Fraction(1)


@pytest.mark.equation("eq-second-logits")
def test_logits():
    """The change of N y - E, enumerated in dual numbers, against the product formula; sympy's Hessian is below."""
    def rhs(value, y, N, inward, dN, dE, row, k):
        return y[row][k] * (N[row] * inward[row][k] + dN[row]) - dE[row][k]

    cases = []
    for paths, x, d in inputs():
        y, E, N, inward = of_logits(paths, x, d)
        change = part(N[..., None] * y - E, "tangent")
        for index in np.ndindex(x.shape):
            *row, k = index
            cases.append((change[index], part(y, "value"), part(N, "value"), inward, part(N, "tangent"),
                          part(E, "tangent"), tuple(row), k))
    check_equation("eq-second-logits", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-second-quadratic")
def test_quadratic():
    """d H d from sympy's second derivatives of -log Z in the logits against two variances."""
    def rhs(value, N, var_row, var_path, J):
        return sum(N[j] * var_row[j] for j in range(0, J)) - var_path

    cases = []
    for paths, shape in (([[(0, 1), (1, 2)], [(0, 1), (1, 1)], [(0, 2), (1, 0)]], (2, 3)),
                         ([[(0, 1)], [(1, 0), (0, 0)], [(0, 0), (2, 1)]], (3, 2))):
        x = field_grid("x", shape)
        y, d = softmax(x), np.arange(1, x.size + 1).reshape(shape)**2 % 7
        z = sum(prod(y[entry] for entry in path) for path in paths)
        first = sum(-slope(z, x[e]) * int(d[e]) for e in np.ndindex(shape))
        value = sum(x[e] * first.diff(x[e]) * int(d[e]) for e in np.ndindex(shape))
        shares = [prod(y[entry] for entry in path) / z for path in paths]
        means = [sum(y[j, k] * int(d[j, k]) for k in range(shape[1])) for j in range(shape[0])]
        var_row = [sum(y[j, k] * int(d[j, k])**2 for k in range(shape[1])) - means[j]**2 for j in range(shape[0])]
        collected = [sum(int(d[j, k]) - means[j] for j, k in path) for path in paths]
        mean = sum(p * c for p, c in zip(shares, collected, strict=True))
        var_path = sum(p * c**2 for p, c in zip(shares, collected, strict=True)) - mean**2
        N = [sum((p for p, path in zip(shares, paths, strict=True) if j in {row for row, _ in path}), 0 * z)
             for j in range(shape[0])]
        cases.append((value, N, var_row, var_path, shape[0]))
    check_equation("eq-second-quadratic", lambda value, *_: value, rhs, cases)


def two_frames(x0, x1):
    """Z of two frames and one label as a function of e^x, by its three strings."""
    p, q = [x0 / (1 + x0), x1 / (1 + x1)], [1 / (1 + x0), 1 / (1 + x1)]
    return p[0] * p[1] + p[0] * q[1] + q[0] * p[1]


@pytest.mark.equation("eq-second-ridge")
def test_ridge():
    """sympy's second derivative in h, at h = 0, for several e^x."""
    def rhs(value, e_x):
        return -2 / ((1 + e_x) ** 2 * (2 + e_x))

    X, s = field_grid("x", (2,))
    second = s * (-slope(two_frames(X * s, X / s), s)).diff(s)
    assert sympy.cancel(to_expr(-slope(two_frames(X * s, X / s), s)).subs(to_expr(s), 1)) == 0  # stationary
    at_fair = sympy.cancel(to_expr(second).subs(to_expr(s), 1))
    check_equation("eq-second-ridge", lambda value, *_: value, rhs, [
        (at_fair.subs(to_expr(X), e), e) for e in map(sympy.Rational, (1, 3, "1/7"))])


@pytest.mark.equation("eq-second-rich")
def test_rich():
    """sympy's derivative of the loss in each frame's logit."""
    def rhs(value, p, q, t):
        return -p[t] * (q[0] * q[1]) / (1 - q[0] * q[1])

    x = field_grid("x", (2,))
    z = two_frames(*x)
    p, q = [e / (1 + e) for e in x], [1 / (1 + e) for e in x]
    check_equation("eq-second-rich", lambda value, *_: value, rhs, [(-slope(z, x[t]), p, q, t) for t in range(2)])


@pytest.mark.equation("eq-second-invariant")
def test_invariant():
    """Down the slope of -log Z, in small steps of order four, against what the two logits keep."""
    def rhs(gap, start, end):
        return start[0] - start[1] + exp(-end[0]) - exp(-end[1]) - exp(-start[0]) + exp(-start[1])

    x = sympy.symbols("x:2", real=True)
    loss = -sympy.log(two_frames(*map(sympy.exp, x)))
    slopes = sympy.lambdify([x], [-sympy.diff(loss, each) for each in x])

    def downhill(point, steps, h):
        for _ in range(steps):
            k1 = np.array(slopes(point))
            k2 = np.array(slopes(point + h / 2 * k1))
            k3 = np.array(slopes(point + h / 2 * k2))
            point = point + h / 6 * (k1 + 2 * k2 + 2 * k3 + np.array(slopes(point + h * k3)))
        return point

    cases = []
    for start in ((-2.0, -2.3), (0.5, -1.0), (1.0, 2.0)):
        end = downhill(np.array(start), 3000, 0.02)
        assert np.abs(end - start).max() > 0.5
        cases.append((end[0] - end[1], start, end))
    check_equation("eq-second-invariant", lambda gap, *_: gap, rhs, cases, tolerance=1e-8)

"""Checks of the equations of the chapter on lattices and the gradient theorem, on random graphs with parallel arcs.

The left sides come from paths that are found by trying every set of arcs, from exact differences or from sympy; the
lattices are neither CTC nor RNN-T. All arithmetic is exact, except where a logarithm of a sum is displayed.
"""

from fractions import Fraction
from itertools import chain, combinations
from math import exp, log, prod

import numpy as np
import pytest
from brute_force import probabilities

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, zero_outside
from reference_impl.lattice import Arc, Lattice, arc_posteriors, backward, forward, random_lattice
from reference_impl.semiring import MAX, REAL
from reference_impl.symbolic import field_grid, softmax


def lattice_of(ends, num_nodes, entries=None, shape=None):
    entries = entries or [(a,) for a in range(len(ends))]
    arcs = tuple(Arc(m, n, entry) for (m, n), entry in zip(ends, entries, strict=True))
    return Lattice(tuple(range(num_nodes)), arcs, shape or (len(arcs),))


# node 2 cannot be reached, node 3 leads nowhere, and two arcs are parallel
WITH_DEAD_NODES = lattice_of([(0, 1), (0, 1), (2, 4), (1, 3), (1, 4), (0, 4), (1, 2), (2, 3)], 5)
# nodes 1 and 2, and 3 and 4, in no order to each other
SQUARE = lattice_of([(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5), (0, 1)], 6)
LATTICES = [random_lattice(np.random.default_rng(seed), 5, 6) for seed in range(3)]
LIVE = [(lattice, probabilities(seed, lattice.shape)) for seed, lattice in enumerate(LATTICES)]
DEAD = (WITH_DEAD_NODES, probabilities(9, (8,)) * np.array([1, 1, 1, 1, 1, 1, 0, 0]))
INPUTS = [*LIVE, DEAD, (SQUARE, probabilities(4, (9,)))]


def paths_between(lattice, first, last):
    """Every set of arcs that makes a path, by trying all of them: no recursion, and no order of nodes but sources'."""
    arcs, found = lattice.arcs, []
    order = sorted(range(len(arcs)), key=lambda a: arcs[a].source)
    for chosen in chain.from_iterable(combinations(order, size) for size in range(len(lattice.nodes))):
        stops = [first, *(arcs[a].target for a in chosen)]
        if stops[-1] == last and all(arcs[a].source == stop for a, stop in zip(chosen, stops, strict=False)):
            found.append(chosen)
    return found


def all_paths(lattice):
    return paths_between(lattice, 0, len(lattice.nodes) - 1)


def mass(w, path):
    return prod((w[a] for a in path), start=Fraction(1))


def path_sum(lattice, w):
    return sum((mass(w, path) for path in all_paths(lattice)), Fraction(0))


def masses(lattice, w):
    return [mass(w, path) for path in all_paths(lattice)]


def alphas(lattice, w):
    return _sums(w, [paths_between(lattice, 0, n) for n in range(len(lattice.nodes))])


def betas(lattice, w):
    return _sums(w, [paths_between(lattice, n, len(lattice.nodes) - 1) for n in range(len(lattice.nodes))])


def _sums(w, families):
    return np.array([sum((mass(w, path) for path in family), Fraction(0)) for family in families], dtype=object)


def passes(lattice, path, n):
    return n in [0, *(lattice.arcs[a].target for a in path)]


def occupancies(lattice, w):
    """Node occupancies: the share of the paths that pass each node."""
    z = path_sum(lattice, w)
    return np.array([sum((mass(w, path) for path in all_paths(lattice) if passes(lattice, path, n)), Fraction(0)) / z
                     for n in range(len(lattice.nodes))], dtype=object)


def shares_of_paths(lattice, w):
    """Arc posteriors by enumeration."""
    z = path_sum(lattice, w)
    return np.array([sum((mass(w, path) for path in all_paths(lattice) if a in path), Fraction(0)) / z
                     for a in range(len(lattice.arcs))], dtype=object)


def shares(lattice, w):
    """r(a), 0 where the arc leads to a node that nothing reaches."""
    alpha = alphas(lattice, w)
    return np.array([alpha[arc.source] * w[a] / alpha[arc.target] if alpha[arc.target] else Fraction(0)
                     for a, arc in enumerate(lattice.arcs)], dtype=object)


def ends(lattice):
    return [arc.source for arc in lattice.arcs], [arc.target for arc in lattice.arcs]


def walled(array):
    """The array, with 100 wherever an index falls outside: Python would read index -1 as the last element."""
    return zero_outside(array, zero=100)


def slope(z, x):
    """x / z dz/dx of an element of a field: the derivative of log z with respect to log x."""
    return x * z.diff(x) / z


@pytest.mark.equation("eq-lattice-forward")
def test_forward():
    """Each alpha by enumeration of beginnings against the sum over the arcs that arrive."""
    def rhs(alpha, w, source, target, n):
        return sum(alpha[source[a]] * w[a] for a in range(0, len(w)) if target[a] == n)

    cases = [(alphas(lattice, w), w, *ends(lattice), n) for lattice, w in INPUTS for n in range(1, len(lattice.nodes))]
    check_equation("eq-lattice-forward", lambda alpha, w, source, target, n: alpha[n], rhs, cases)


@pytest.mark.equation("eq-lattice-backward")
def test_backward():
    """Each beta by enumeration of endings against the sum over the arcs that leave."""
    def rhs(beta, w, source, target, m):
        return sum(w[a] * beta[target[a]] for a in range(0, len(w)) if source[a] == m)

    cases = [(betas(lattice, w), w, *ends(lattice), m) for lattice, w in INPUTS for m in range(len(lattice.nodes) - 1)]
    check_equation("eq-lattice-backward", lambda beta, w, source, target, m: beta[m], rhs, cases)


@pytest.mark.equation("eq-lattice-through")
def test_through():
    """alpha * beta of the package against the paths that pass the node."""
    def rhs(alpha, beta, masses, through, n):
        return sum(masses[i] * through[i] for i in range(0, len(masses)))

    cases = [(forward(lattice, w, REAL), backward(lattice, w, REAL), masses(lattice, w),
              [passes(lattice, path, n) for path in all_paths(lattice)], n)
             for lattice, w in INPUTS for n in range(len(lattice.nodes))]
    check_equation("eq-lattice-through", lambda alpha, beta, masses, through, n: alpha[n] * beta[n], rhs, cases)


def _arcs(inputs):
    for lattice, w in inputs:
        for a in range(len(lattice.arcs)):
            yield lattice, w, a


@pytest.mark.equation("eq-lattice-affine")
def test_affine():
    """Z with the weight changed against A and B of the old weights, which must not depend on it."""
    def rhs(z, A, B, w, a):
        return A + w[a] * B

    cases = []
    for lattice, w, a in _arcs(INPUTS):
        A = sum((mass(w, path) for path in all_paths(lattice) if a not in path), Fraction(0))
        B = sum((mass(w, [b for b in path if b != a]) for path in all_paths(lattice) if a in path), Fraction(0))
        for value in (Fraction(0), Fraction(11, 3)):
            changed = w.copy()
            changed[a] = value
            cases.append((path_sum(lattice, changed), A, B, changed, a))
    check_equation("eq-lattice-affine", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-gradient-theorem")
def test_gradient_theorem():
    """w / Z times the exact difference of the path sum against the share of the paths that use the arc."""
    def rhs(slope, masses, paths, z, arc):
        return sum(masses[i] / z * (arc in paths[i]) for i in range(0, len(paths)))

    cases = []
    for lattice, w, a in _arcs(INPUTS):
        assert len(all_paths(lattice)) >= 3
        z = path_sum(lattice, w)
        slope = w[a] / z * exact_difference(lambda w, lattice=lattice: path_sum(lattice, w), w, (a,), h=3)
        cases.append((slope, masses(lattice, w), all_paths(lattice), z, a))
    check_equation("eq-gradient-theorem", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-lattice-coefficient")
def test_coefficient():
    """Exact difference of the path sum against alpha and beta, also where the weight is 0."""
    def rhs(derivative, alpha, beta, m, n):
        return alpha[m] * beta[n]

    cases = []
    for lattice, w, a in _arcs(INPUTS):
        for weights in (w, np.where(np.arange(len(w)) == a, Fraction(0), w)):
            derivative = exact_difference(lambda w, lattice=lattice: path_sum(lattice, w), weights, (a,), h=5)
            cases.append((derivative, alphas(lattice, weights), betas(lattice, weights),
                          lattice.arcs[a].source, lattice.arcs[a].target))
    check_equation("eq-lattice-coefficient", lambda derivative, *_: derivative, rhs, cases)


@pytest.mark.equation("eq-arc-posterior")
def test_arc_posterior():
    """The share of the paths that use the arc, and what the package returns, against alpha w beta / Z."""
    def rhs(posterior, alpha, w, beta, z, a, m, n):
        return alpha[m] * w[a] * beta[n] / z

    for posteriors in (shares_of_paths, lambda lattice, w: arc_posteriors(lattice, w, REAL)):
        check_equation("eq-arc-posterior", lambda posterior, *_: posterior, rhs, [
            (posteriors(lattice, w)[a], alphas(lattice, w), w, betas(lattice, w), path_sum(lattice, w), a,
             lattice.arcs[a].source, lattice.arcs[a].target) for lattice, w, a in _arcs(INPUTS)])


@pytest.mark.equation("eq-fisher")
def test_fisher():
    """Weights that are polynomials in two parameters: sympy's derivative of log Z against both sums over the paths."""
    def middle(gradient, dw, masses, dlog, z):
        return 1 / z * sum(dw[i] for i in range(0, len(masses)))

    def rhs(gradient, dw, masses, dlog, z):
        return sum(masses[i] / z * dlog[i] for i in range(0, len(masses)))

    theta = field_grid("t", (2,))
    lattice = random_lattice(np.random.default_rng(5), 4, 4)
    w = np.array([(a + 2) * theta[0] ** (a % 3) + theta[1] ** (1 + a % 2) for a in range(len(lattice.arcs))])
    paths, z = all_paths(lattice), path_sum(lattice, w)
    cases = []
    for t in theta:
        dlog = [sum(w[a].diff(t) / w[a] for a in path) for path in paths]
        dw = walled([mass(w, path).diff(t) for path in paths])
        cases.append((z.diff(t) / z, dw, masses(lattice, w), dlog, z))
    for side in (middle, rhs):
        check_equation("eq-fisher", lambda gradient, *_: gradient, side, cases)


# entry 0 is used twice by some paths, entry 1 by two arcs that no path has both, and one arc uses none
TIED = lattice_of([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (1, 2)], 4,
                  entries=[(0,), (1,), (0,), (1,), (2,), None, (2,)], shape=(3,))


def uses(path, i):
    return sum(TIED.arcs[a].entry == (i,) for a in path)


@pytest.mark.equation("eq-expected-count")
def test_expected_count():
    """sympy's derivative with respect to a shared entry, which a path may use twice, against the expected count."""
    def rhs(slope, masses, counts, z):
        return sum(masses[i] / z * counts[i] for i in range(0, len(masses)))

    y = field_grid("y", (3,))
    w = TIED.arc_weights(y, REAL)
    z, paths = path_sum(TIED, w), all_paths(TIED)
    paths.insert(1, paths.pop(0))  # the path that uses no entry: at an end of the sum nobody would miss it
    cases = [(slope(z, y[i]), [mass(w, path) for path in paths], [uses(path, i) for path in paths], z)
             for i in range(3)]
    assert max(max(counts) for _, _, counts, _ in cases) == 2
    check_equation("eq-expected-count", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-scatter")
def test_scatter():
    """Expected counts over the paths against the posteriors of the arcs that use the entry."""
    def lhs(w, posterior, entry, i):
        z = path_sum(TIED, w)
        return sum(mass(w, path) / z * uses(path, i) for path in all_paths(TIED))

    def rhs(w, posterior, entry, i):
        return sum(posterior[a] for a in range(0, len(posterior)) if entry[a] == i)

    w = TIED.arc_weights(probabilities(3, (3,)), REAL)
    entry = [arc.entry[0] if arc.entry else None for arc in TIED.arcs]
    check_equation("eq-scatter", lhs, rhs, [(w, arc_posteriors(TIED, w, REAL), entry, i) for i in range(3)])


@pytest.mark.equation("eq-feature-counts")
def test_feature_counts():
    """Weights c exp(theta . f) with x = e^theta: sympy's derivative against the features of the arcs, expected."""
    def rhs(slope, posterior, f, i):
        return sum(posterior[a] * f[i, a] for a in range(0, len(posterior)))

    x = field_grid("x", (2,))
    lattice = random_lattice(np.random.default_rng(7), 4, 4)
    f = np.random.default_rng(7).integers(0, 3, (2, len(lattice.arcs)))
    w = np.array([(a + 1) * x[0] ** int(f[0, a]) * x[1] ** int(f[1, a]) for a in range(len(lattice.arcs))])
    posterior = arc_posteriors(lattice, w, REAL)
    check_equation("eq-feature-counts", lambda slope, *_: slope, rhs, [
        (slope(path_sum(lattice, w), x[i]), posterior, f, i) for i in range(2)])


def adjoint(lattice, w, n):
    """dZ/d alpha(n): the forward program, with alpha(n) changed just after it is computed, and an exact difference."""
    def rest_of_the_program(added):
        alpha = [Fraction(1)] + [Fraction(0)] * (len(lattice.nodes) - 1)
        for node in range(len(alpha)):
            for arc, weight in zip(lattice.arcs, w, strict=True):
                if arc.target == node:
                    alpha[node] += alpha[arc.source] * weight
            alpha[node] += added[0] * (node == n)
        return alpha[-1]

    return exact_difference(rest_of_the_program, [Fraction(0)], (0,), h=7)


def _nodes(inputs):
    for lattice, w in inputs:
        for n in range(len(lattice.nodes)):
            yield lattice, w, n


@pytest.mark.equation("eq-adjoint")
def test_adjoint():
    """The forward program differentiated with respect to an intermediate result against enumerated endings."""
    def rhs(adjoint, beta, n):
        return beta[n]

    check_equation("eq-adjoint", lambda adjoint, *_: adjoint, rhs, [
        (adjoint(lattice, w, n), betas(lattice, w), n) for lattice, w, n in _nodes(INPUTS)])


@pytest.mark.equation("eq-log-adjoint")
def test_log_adjoint():
    """alpha / Z times the derivative of the forward program against the share of the paths that pass the node."""
    def rhs(slope, gamma, n):
        return gamma[n]

    check_equation("eq-log-adjoint", lambda slope, *_: slope, rhs, [
        (alphas(lattice, w)[n] / path_sum(lattice, w) * adjoint(lattice, w, n), occupancies(lattice, w), n)
        for lattice, w, n in _nodes(INPUTS)])


@pytest.mark.equation("eq-share-sum-general")
def test_share_sum():
    """The shares of the arcs that arrive at a node that has mass add up to 1."""
    def rhs(r, target, n):
        return sum(r[a] for a in range(0, len(r)) if target[a] == n)

    check_equation("eq-share-sum-general", lambda r, target, n: 1, rhs, [
        (shares(lattice, w), ends(lattice)[1], n) for lattice, w, n in _nodes(INPUTS) if n and alphas(lattice, w)[n]])


@pytest.mark.equation("eq-share-posterior")
def test_share_posterior():
    """The share of the paths that use an arc against its share and the occupancy of its target."""
    def rhs(posterior, r, gamma, a, n):
        return r[a] * gamma[n]

    check_equation("eq-share-posterior", lambda posterior, *_: posterior, rhs, [
        (shares_of_paths(lattice, w)[a], shares(lattice, w), occupancies(lattice, w), a, lattice.arcs[a].target)
        for lattice, w, a in _arcs(INPUTS)])


@pytest.mark.equation("eq-share-sweep-general")
def test_share_sweep():
    """The share of the paths that pass a node against what the nodes after it hand back."""
    def rhs(gamma, r, source, target, m):
        return sum(r[a] * gamma[target[a]] for a in range(0, len(r)) if source[a] == m)

    check_equation("eq-share-sweep-general", lambda gamma, r, source, target, m: gamma[m], rhs, [
        (occupancies(lattice, w), shares(lattice, w), *ends(lattice), m)
        for lattice, w, m in _nodes(INPUTS) if m < len(lattice.nodes) - 1])


@pytest.mark.equation("eq-lattice-inflow")
def test_inflow():
    """The share of the paths that pass a node against the posteriors, from alpha and beta, of the arcs that arrive."""
    def rhs(gamma, posterior, target, n):
        return sum(posterior[a] for a in range(0, len(posterior)) if target[a] == n)

    check_equation("eq-lattice-inflow", lambda gamma, posterior, target, n: gamma[n], rhs, [
        (occupancies(lattice, w), arc_posteriors(lattice, w, REAL), ends(lattice)[1], n)
        for lattice, w, n in _nodes(INPUTS) if n > 0])


@pytest.mark.equation("eq-lattice-outflow")
def test_outflow():
    """The share of the paths that pass a node against the posteriors, from alpha and beta, of the arcs that leave."""
    def rhs(gamma, posterior, source, m):
        return sum(posterior[a] for a in range(0, len(posterior)) if source[a] == m)

    check_equation("eq-lattice-outflow", lambda gamma, posterior, source, m: gamma[m], rhs, [
        (occupancies(lattice, w), arc_posteriors(lattice, w, REAL), ends(lattice)[0], m)
        for lattice, w, m in _nodes(INPUTS) if m < len(lattice.nodes) - 1])


def subsets(items):
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


@pytest.mark.equation("eq-lattice-cut")
def test_cut():
    """Every set of nodes with the start, without the end and without an arc back: the arcs out of it have mass 1."""
    def rhs(posterior, source, target, inside):
        return sum(posterior[a] for a in range(0, len(posterior)) if inside[source[a]] and not inside[target[a]])

    cases = []
    for lattice, w in INPUTS:
        for inner in subsets(range(1, len(lattice.nodes) - 1)):
            inside = [n == 0 or n in inner for n in range(len(lattice.nodes))]
            if all(inside[m] or not inside[n] for m, n in zip(*ends(lattice), strict=True)):
                cases.append((arc_posteriors(lattice, w, REAL), *ends(lattice), inside))
    assert any(inside[1:3] == [False, True] for _, _, _, inside in cases)  # not only the first k nodes
    check_equation("eq-lattice-cut", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-lattice-barrier")
def test_barrier():
    """Every set of nodes of which each path passes exactly one: occupancies from alpha and beta add up to 1."""
    def rhs(gamma, N):
        return sum(gamma[n] for n in N)

    cases = []
    for lattice, w in INPUTS:
        gamma = forward(lattice, w, REAL) * backward(lattice, w, REAL) / path_sum(lattice, w)
        for N in subsets(range(len(lattice.nodes))):
            if all(sum(passes(lattice, path, n) for n in N) == 1 for path in all_paths(lattice)):
                cases.append((gamma, N))
    assert any(len(N) == 2 for gamma, N in cases if len(gamma) == 6)
    check_equation("eq-lattice-barrier", lambda *_: 1, rhs, cases)


def _paths():
    for lattice, w in INPUTS:
        for path in all_paths(lattice):
            yield lattice, w, path


@pytest.mark.equation("eq-walk-forward")
def test_walk_forward():
    """w(path) / Z against the product of the decisions of a walk by beta."""
    def rhs(posterior, w, beta, source, target, path):
        return prod(w[a] * beta[target[a]] / beta[source[a]] for a in path)

    check_equation("eq-walk-forward", lambda posterior, *_: posterior, rhs, [
        (mass(w, path) / path_sum(lattice, w), w, betas(lattice, w), *ends(lattice), path)
        for lattice, w, path in _paths()])


@pytest.mark.equation("eq-walk-backward")
def test_walk_backward():
    """w(path) / Z against the product of the shares."""
    def rhs(posterior, r, path):
        return prod(r[a] for a in path)

    check_equation("eq-walk-backward", lambda posterior, *_: posterior, rhs, [
        (mass(w, path) / path_sum(lattice, w), shares(lattice, w), path) for lattice, w, path in _paths()])


@pytest.mark.equation("eq-lattice-grad-logits")
def test_grad_logits():
    """sympy's derivative of -log Z with respect to each logit of two rows against belief times uses minus uses."""
    def rhs(gradient, y, E, j, k, V):
        return y[j, k] * sum(E[j, i] for i in range(0, V)) - E[j, k]

    entries = [(0, 0), (1, 2), (0, 0), (0, 1), (1, 0), None]
    lattice = lattice_of([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3)], 4, entries=entries, shape=(2, 3))
    x = field_grid("x", (2, 3))
    y = softmax(x)
    w = lattice.arc_weights(y, REAL)
    z, paths = path_sum(lattice, w), all_paths(lattice)
    E = np.full((2, 3), 0 * z)
    for path in paths:
        for a in path:
            if entries[a] is not None:
                E[entries[a]] += mass(w, path) / z
    check_equation("eq-lattice-grad-logits", lambda gradient, *_: gradient, rhs, [
        (-slope(z, x[j, k]), y, walled(E), j, k, 3) for j, k in np.ndindex(2, 3)])


@pytest.mark.equation("eq-max-marginal")
def test_max_marginal():
    """The best enumerated path that uses an arc against the recursions on the max semiring; scores are integers."""
    def rhs(best, alpha, theta, beta, a, m, n):
        return alpha[m] + theta[a] + beta[n]

    cases = []
    for seed, lattice in enumerate(LATTICES):
        theta = np.random.default_rng(seed).integers(-6, 7, len(lattice.arcs)).astype(float)
        for a, arc in enumerate(lattice.arcs):
            best = max(sum(theta[b] for b in path) for path in all_paths(lattice) if a in path)
            cases.append((best, forward(lattice, theta, MAX), theta, backward(lattice, theta, MAX), a, arc.source,
                          arc.target))
    check_equation("eq-max-marginal", lambda best, *_: best, rhs, cases)


@pytest.mark.equation("eq-temperature")
def test_temperature():
    """tau times the log-domain recursion on scores / tau against the best score and what the other paths add."""
    def rhs(F, M, s, tau, N):
        return M + tau * log(sum(exp((s[i] - M) / tau) for i in range(0, N)))

    cases = []
    for seed, lattice in enumerate(LATTICES):
        theta = np.random.default_rng(seed).normal(size=len(lattice.arcs))
        s = [sum(theta[a] for a in path) for path in all_paths(lattice)]
        for tau in (0.3, 2.5):
            cases.append((tau * forward(lattice, theta / tau)[-1], max(s), walled(s), tau, len(s)))
            assert max(s) <= cases[-1][0] <= max(s) + tau * log(len(s))
    check_equation("eq-temperature", lambda F, *_: F, rhs, cases, tolerance=1e-12)


@pytest.mark.equation("eq-temperature-posterior")
def test_temperature_posterior():
    """tau = 1/k, where e^(s / tau) = w(path)^k: sympy's derivative of tau log sum against the posteriors at tau."""
    def rhs(slope, posterior, paths, a):
        return sum(posterior[i] * (a in paths[i]) for i in range(0, len(paths)))

    lattice = random_lattice(np.random.default_rng(8), 4, 3)
    w = field_grid("w", lattice.shape)
    paths, cases = all_paths(lattice), []
    for k in (1, 2, 3):
        powers = [mass(w, path) ** k for path in paths]
        total = sum(powers)
        cases += [(slope(total, w[a]) / k, [power / total for power in powers], paths, a) for a in range(len(w))]
    check_equation("eq-temperature-posterior", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-hessian")
def test_hessian():
    """sympy's second derivatives of log Z in the log-weights against covariances: paths with both, alpha w beta / Z."""
    def rhs(second, joint, posterior, a, b):
        return joint[a, b] - posterior[a] * posterior[b]

    lattice = random_lattice(np.random.default_rng(6), 4, 3)
    w = field_grid("w", lattice.shape)
    z, posterior = path_sum(lattice, w), arc_posteriors(lattice, w, REAL)
    joint = np.full((len(w), len(w)), 0 * z)
    for path in all_paths(lattice):
        joint[np.ix_(path, path)] += mass(w, path) / z
    check_equation("eq-hessian", lambda second, *_: second, rhs, [
        (w[b] * slope(z, w[a]).diff(w[b]), joint, posterior, a, b) for a, b in np.ndindex(joint.shape)])

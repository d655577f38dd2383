"""Checks of the equations of the chapter on lattices and the gradient theorem, on random graphs with parallel arcs.

One side comes from paths that are found by trying every set of arcs, the other from the recursions, from exact
differences or from sympy; the lattices are neither CTC nor RNN-T. All arithmetic is exact, except where a logarithm of
a sum is displayed.
"""

from fractions import Fraction
from itertools import chain, combinations
from math import exp, inf, log, prod

import mpmath
import numpy as np
import pytest
import sympy
from brute_force import grad_logit, probabilities
from sides import first
from tex_to_python import Notation

from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.lattice import Arc, Lattice, arc_posteriors, backward, forward, random_lattice
from reference_impl.semiring import MAX, REAL
from reference_impl.symbolic import field_grid, softmax

NOTATION = Notation(
    patterns={
        r"\alpha(#n)": "alpha[#n]",
        r"\beta(#n)": "beta[#n]",
        r"\gamma(#n)": "gamma[#n]",
        "e": "a",  # arcs: e and e' on the page, a and b here
        "e'": "b",
        r"\theta(#a)": "theta[#a]",
        "w(#a)": "w[#a]",
        "r(#a)": "r[#a]",
        r"\Pr(#a)": "posterior[#a]",
        r"\Pr(#a, #b)": "joint[#a, #b]",
        r"w(\pi)": "mass(w, pi)",
        r"\theta(\pi)": "score(theta, pi)",
        r"\Pr(\pi)": "share",
        "E_{#i}": "occupancy[#i]",
        "Z": "z",
    },
    over={r"\pi": "paths", "e": "for a in range(len(posterior))"},
    conditions={
        r"e : m \to n": "(m, n) == (source[a], target[a])",
        r"(n \text{ is not the start})": "n > 0",
        r"(m \text{ is not the end})": "m < len(gamma) - 1",
    },
)
ARRIVING = {r"e : m \to n": "for a, m in enumerate(source) if target[a] == n"}
LEAVING = {r"e : m \to n": "for a, n in enumerate(target) if source[a] == m"}

QUANTITIES = Quantities(
    shapes={"alpha": "nodes", "beta": "nodes", "gamma": "nodes", "inside": "nodes", "w": "arcs", "theta": "arcs",
            "source": "arcs", "target": "arcs", "posterior": "arcs", "r": "arcs", "joint": "arcs, arcs",
            "entry": "arcs", "f": "features, arcs", "occupancy": "entries", "y": "rows, V", "E": "rows, V", "V": "V"},
    ends={
        "a weight of 0": lambda w: 0 in w,
        "parallel arcs": lambda source, target: len({*zip(source, target, strict=True)}) < len(source),
        "a node that nothing reaches": (lambda alpha: 0 in _plain(alpha), lambda gamma: 0 in _plain(gamma)),
        "a node that leads nowhere": (lambda beta: 0 in _plain(beta), lambda gamma: 0 in _plain(gamma)),
        "a dead node": lambda gamma, n: gamma[n] == 0,
        "an arc on no path": (lambda posterior, a: posterior[a] == 0, lambda best: best == -inf),
        "no arc arrives": lambda target, n: n not in list(target),
        "no arc leaves": lambda source, m: m not in list(source),
        "n the start": lambda n: n == 0,
        "n the end": lambda n, nodes: n == nodes - 1,
        "m the start": lambda m: m == 0,
        "m the end": lambda m, nodes: m == nodes - 1,
        "one path": lambda paths: len(paths) == 1,
        "an entry that no arc uses": lambda entry, i: i not in entry,
        "two arcs with one entry": lambda entry, i: list(entry).count(i) > 1,
        "an arc without entry": lambda entry: None in entry,
        "tau < 1": lambda tau: tau < 1,
        "tau = 1": lambda tau: tau == 1,
        "tau > 1": lambda tau: tau > 1,
        "a = b": lambda a, b: a == b,
    },
)
NOT_THE_START = {"n the start": "for every other node"}
NOT_THE_END = {"m the end": "for every other node"}
OF_ARCS = {"n the start": "no arc arrives at the start", "m the end": "no arc leaves the end"}
OF_ONE_ARC = OF_ARCS | {"no arc arrives": "arc a does", "no arc leaves": "arc a does"}


def _plain(array):
    return list(getattr(array, "array", array))


def lattice_of(ends, num_nodes, entries=None, shape=None):
    entries = entries or [(a,) for a in range(len(ends))]
    arcs = tuple(Arc(m, n, entry) for (m, n), entry in zip(ends, entries, strict=True))
    return Lattice(tuple(range(num_nodes)), arcs, shape or (len(arcs),))


# node 2 cannot be reached, node 3 leads nowhere, and two arcs are parallel: arcs of weight 0, or no arcs at all
WITH_DEAD_NODES = lattice_of([(0, 1), (0, 1), (2, 4), (1, 3), (1, 4), (0, 4), (1, 2), (2, 3)], 5)
DEAD = (WITH_DEAD_NODES, probabilities(9, (8,)) * np.array([1, 1, 1, 1, 1, 1, 0, 0]))
ORPHANS = (lattice_of([(0, 1), (0, 1), (2, 4), (1, 3), (1, 4), (2, 3)], 5), probabilities(10, (6,)))
# nodes 1 and 2, and 3 and 4, in no order to each other
SQUARE = lattice_of([(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5), (0, 1)], 6)
CHAIN = lattice_of([(0, 1), (1, 2), (2, 3)], 4)
LATTICES = [*(random_lattice(np.random.default_rng(seed), 5, 6) for seed in range(3)), CHAIN, ORPHANS[0]]
LIVE = [(lattice, probabilities(seed, lattice.shape)) for seed, lattice in enumerate(LATTICES[:4])]
INPUTS = [*LIVE, DEAD, ORPHANS, (SQUARE, probabilities(4, (9,)))]


def try_all(lattice, first, last):
    """Every set of arcs that makes a path, by trying all of them: no recursion, and no order of nodes but sources'."""
    arcs, found = lattice.arcs, []
    order = sorted(range(len(arcs)), key=lambda a: arcs[a].source)
    for chosen in chain.from_iterable(combinations(order, size) for size in range(len(lattice.nodes))):
        stops = [first, *(arcs[a].target for a in chosen)]
        if stops[-1] == last and all(arcs[a].source == stop for a, stop in zip(chosen, stops, strict=False)):
            found.append(chosen)
    return found


@computed
def paths_between(lattice, first, last):
    return try_all(lattice, first, last)


def all_paths(lattice):
    return paths_between(*_whole(lattice))


def _whole(lattice):
    """The lattice, its start and its end."""
    return lattice, 0, len(lattice.nodes) - 1


def mass(w, path):
    return prod((w[a] for a in path), start=Fraction(1))


def score(theta, path):
    """The sum along a path; without a path, the maximum of nothing."""
    return -inf if path is None else sum(theta[a] for a in path)


@computed
def path_sum(lattice, w):
    return sum((mass(w, path) for path in all_paths(lattice)), Fraction(0))


@computed
def alphas(lattice, w):
    return _sums(w, [paths_between(lattice, 0, n) for n in range(len(lattice.nodes))])


@computed
def betas(lattice, w):
    return _sums(w, [paths_between(lattice, n, len(lattice.nodes) - 1) for n in range(len(lattice.nodes))])


def _sums(w, families):
    return np.array([sum((mass(w, path) for path in family), Fraction(0)) for family in families], dtype=object)


def passes(lattice, path, n):
    return n in [0, *(lattice.arcs[a].target for a in path)]


@computed
def occupancies(lattice, w):
    """Node occupancies: the share of the paths that pass each node."""
    z, paths = path_sum(lattice, w), all_paths(lattice)
    return np.array([sum((mass(w, path) for path in paths if passes(lattice, path, n)), Fraction(0)) / z
                     for n in range(len(lattice.nodes))], dtype=object)


@computed
def shares_of_paths(lattice, w):
    """Arc posteriors by enumeration."""
    z, paths = path_sum(lattice, w), all_paths(lattice)
    return np.array([sum((mass(w, path) for path in paths if a in path), Fraction(0)) / z
                     for a in range(len(lattice.arcs))], dtype=object)


@computed(kind="recursion")
def z_by_recursion(lattice, w):
    return forward(lattice, w, REAL)[-1]


@computed(kind="recursion")
def alpha_by_recursion(lattice, w):
    return forward(lattice, w, REAL)


@computed(kind="recursion")
def beta_by_recursion(lattice, w):
    return backward(lattice, w, REAL)


@computed(kind="recursion")
def gamma_by_recursion(lattice, w):
    """alpha beta / Z."""
    alpha = forward(lattice, w, REAL)
    return alpha * backward(lattice, w, REAL) / alpha[-1]


@computed(kind="recursion")
def posteriors_by_recursion(lattice, w):
    return arc_posteriors(lattice, w, REAL)


def shares(lattice, w):
    """r(a) from enumerated alphas, 0 where the arc leads to a node that nothing reaches."""
    alpha = alphas(lattice, w)
    return np.array([alpha[arc.source] * w[a] / alpha[arc.target] if alpha[arc.target] else Fraction(0)
                     for a, arc in enumerate(lattice.arcs)], dtype=object)


def ends(lattice):
    return [arc.source for arc in lattice.arcs], [arc.target for arc in lattice.arcs]


def walled(array):
    """The array, with 100 wherever an index falls outside: Python would read index -1 as the last element."""
    return zero_outside(array, zero=100)


@computed(kind="sympy")
def slope(z, x):
    """x / z dz/dx of an element of a field: the derivative of log z with respect to log x."""
    return x * z.diff(x) / z


def _nodes(inputs=INPUTS):
    for lattice, w in inputs:
        for n in range(len(lattice.nodes)):
            yield lattice, w, n


def _arcs(inputs=INPUTS):
    for lattice, w in inputs:
        for a in range(len(lattice.arcs)):
            yield lattice, w, a


def _paths(inputs=INPUTS):
    """Those that have mass."""
    for lattice, w in inputs:
        for path in all_paths(lattice):
            if mass(w, path):
                yield lattice, w, path


@pytest.mark.equation("eq-lattice-forward", over=ARRIVING)
def test_forward():
    """Each alpha by enumeration of prefixes against the sum over the arcs that arrive."""
    def lhs(alpha, w, source, target, n):
        return alpha[n]

    def rhs(alpha, w, source, target, n):
        return sum(alpha[source[a]] * w[a] for a in range(0, len(w)) if target[a] == n)

    check_equation("eq-lattice-forward", lhs, rhs, (
        (alphas(lattice, w), w, *ends(lattice), n) for lattice, w, n in _nodes() if n > 0), left_out=NOT_THE_START)
    assert all(alphas(lattice, w)[0] == 1 for lattice, w in INPUTS)  # there the empty sum would be 0


@pytest.mark.equation("eq-lattice-backward", over=LEAVING)
def test_backward():
    """Each beta by enumeration of suffixes against the sum over the arcs that leave."""
    def lhs(beta, w, source, target, m):
        return beta[m]

    def rhs(beta, w, source, target, m):
        return sum(w[a] * beta[target[a]] for a in range(0, len(w)) if source[a] == m)

    check_equation("eq-lattice-backward", lhs, rhs, (
        (betas(lattice, w), w, *ends(lattice), m) for lattice, w, m in _nodes() if m < len(lattice.nodes) - 1),
        left_out=NOT_THE_END)
    assert all(betas(lattice, w)[-1] == 1 for lattice, w in INPUTS)


@pytest.mark.equation("eq-lattice-through", over={r"\pi \text{ through } n": "for pi in paths if passes[pi][n]"})
def test_through():
    """alpha * beta of the package against the paths that pass the node."""
    def lhs(alpha, beta, w, paths, passes, n):
        return alpha[n] * beta[n]

    def rhs(alpha, beta, w, paths, passes, n):
        return sum(mass(w, pi) * passes[pi][n] for pi in paths)

    check_equation("eq-lattice-through", lhs, rhs, (
        (alpha_by_recursion(lattice, w), beta_by_recursion(lattice, w), w, paths,
         {path: [passes(lattice, path, n) for n in range(len(lattice.nodes))] for path in paths}, n)
        for lattice, w, n in _nodes() for paths in [all_paths(lattice)]))


@computed
def avoiding(lattice, w, a):
    """The mass of the paths that avoid an arc."""
    return sum((mass(w, path) for path in all_paths(lattice) if a not in path), Fraction(0))


@computed
def using(lattice, w, a):
    """That of those that use it, its own weight left out."""
    return sum((mass(w, [b for b in path if b != a]) for path in all_paths(lattice) if a in path), Fraction(0))


@pytest.mark.equation("eq-lattice-affine", patterns={"Z_0": "A", "Z_1": "B"})
def test_affine():
    """Z of the recursions with the weight changed against Z_0 and Z_1 of the old weights, which are free of it."""
    def rhs(z, A, B, w, a):
        return A + w[a] * B

    def cases():
        for lattice, w, a in _arcs():
            for value in (Fraction(0), Fraction(11, 3)):
                changed = w.copy()
                changed[a] = value
                yield z_by_recursion(lattice, changed), avoiding(lattice, w, a), using(lattice, w, a), changed, a

    check_equation("eq-lattice-affine", first, rhs, cases())


@computed(kind="sympy")
def log_slope(lattice, w, a):
    """d log Z / d log w(a) by sympy, which is given w(a) = e^v and knows no rule of ours; Z by the recursion."""
    v = sympy.Symbol("v", real=True)
    weights = np.array([sympy.Rational(each.numerator, each.denominator) for each in w], dtype=object)
    weights[a] = sympy.exp(v)
    at = sympy.log(sympy.Rational(w[a].numerator, w[a].denominator))
    return _fraction(sympy.diff(sympy.log(forward(lattice, weights, REAL)[-1]), v).subs(v, at))


def _fraction(expression):
    value = sympy.Rational(sympy.simplify(expression))
    return Fraction(int(value.p), int(value.q))


@pytest.mark.equation("eq-gradient-theorem", patterns={
    r"\frac{\partial \log Z}{\partial \log w(e)}": "slope", r"\Pr(e \mid \text{input, target})": "posterior[a]"})
def test_gradient_theorem():
    """sympy: log Z of the recursion, differentiated with respect to log w, against what the package returns and against
    the share of the enumerated paths that use the arc."""
    def middle(slope, posterior, w, paths, z, a):
        return posterior[a]

    def rhs(slope, posterior, w, paths, z, a):
        return sum(mass(w, pi) / z * (a in pi) for pi in paths)

    def cases():
        for lattice, w, a in _arcs():
            if w[a] > 0:
                posterior = posteriors_by_recursion(lattice, w)
                yield (log_slope(lattice, w, a), walled(posterior), w, all_paths(lattice), path_sum(lattice, w), a)

    for side in (middle, rhs):
        check_equation("eq-gradient-theorem", first, side, cases())
    for lattice, w, a in _arcs([DEAD]):
        if w[a] == 0:  # there it is defined: what it tends to
            assert posteriors_by_recursion(lattice, w)[a] == 0


@computed(kind="exact difference")
def weight_slope(lattice, w, a):
    """dZ / dw(a) of the sum over the enumerated paths."""
    return exact_difference(lambda w: path_sum(lattice, w), w, (a,), h=5)


@pytest.mark.equation("eq-lattice-coefficient", patterns={r"\frac{\partial Z}{\partial w(e)}": "slope"})
def test_coefficient():
    """Exact difference of the path sum against alpha and beta, also where the weight is 0."""
    def rhs(slope, alpha, beta, m, n):
        return alpha[m] * beta[n]

    def cases():
        for lattice, w, a in _arcs():
            for weights in (w, np.where(np.arange(len(w)) == a, Fraction(0), w)):
                yield (weight_slope(lattice, weights, a), walled(alphas(lattice, weights)),
                       walled(betas(lattice, weights)), lattice.arcs[a].source, lattice.arcs[a].target)

    check_equation("eq-lattice-coefficient", first, rhs, cases(), left_out=OF_ARCS)


@pytest.mark.equation("eq-arc-posterior")
def test_arc_posterior():
    """The share of the paths that use the arc, and what the package returns, against alpha w beta / Z."""
    def lhs(posterior, alpha, w, beta, z, source, target, a, m, n):
        return posterior[a]

    def rhs(posterior, alpha, w, beta, z, source, target, a, m, n):
        return alpha[m] * w[a] * beta[n] / z

    for posteriors, total in ((shares_of_paths, z_by_recursion), (posteriors_by_recursion, path_sum)):
        check_equation("eq-arc-posterior", lhs, rhs, (
            (posteriors(lattice, w), walled(alphas(lattice, w)), w, walled(betas(lattice, w)), total(lattice, w),
             *ends(lattice), a, lattice.arcs[a].source, lattice.arcs[a].target) for lattice, w, a in _arcs()),
            left_out=OF_ONE_ARC)


@computed(kind="sympy")
def path_slopes(w, paths, x):
    """The derivative of each path's weight with respect to a parameter."""
    return {path: mass(w, path).diff(x) for path in paths}


@pytest.mark.equation("eq-fisher", patterns={
    r"\frac{\partial \log Z}{\partial \theta_i}": "slope", r"\frac{\partial w(\pi)}{\partial \theta_i}": "dw[pi]",
    r"\frac{\partial \log w(\pi)}{\partial \theta_i}": "dlog[pi]"})
def test_fisher():
    """Weights that are polynomials in two parameters: sympy's derivative of log Z, by the recursion, against both sums
    over the paths."""
    def middle(slope, dw, w, paths, dlog, z):
        return 1 / z * sum(dw[pi] for pi in paths)

    def rhs(slope, dw, w, paths, dlog, z):
        return sum(mass(w, pi) / z * dlog[pi] for pi in paths)

    def cases():
        theta = field_grid("t", (2,))
        for lattice in (random_lattice(np.random.default_rng(5), 4, 4), CHAIN):
            w = np.array([(a + 2) * theta[0] ** (a % 3) + theta[1] ** (1 + a % 2) for a in range(len(lattice.arcs))])
            paths, z = all_paths(lattice), z_by_recursion(lattice, w)
            for t in theta:
                dlog = {path: sum(w[a].diff(t) / w[a] for a in path) for path in paths}
                yield slope(z, t) / t, path_slopes(w, paths, t), w, paths, dlog, z

    for side in (middle, rhs):
        check_equation("eq-fisher", first, side, cases(), left_out={"a weight of 0": "for positive weights"})


# entry 0 is used twice by some paths, entry 1 by two arcs that no path has both, and one arc uses none
TIED = lattice_of([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3), (1, 2)], 4,
                  entries=[(0,), (1,), (0,), (1,), (2,), None, (2,)], shape=(3,))
# more entries than arcs, two of them used by none
WIDE = lattice_of([(0, 1), (1, 2), (1, 2)], 3, entries=[(3,), (1,), (3,)], shape=(5,))
TWICE = lattice_of([(0, 1), (1, 2)], 3, entries=[(0,), (0,)], shape=(1,))


def uses(lattice, path, i):
    return sum(lattice.arcs[a].entry == (i,) for a in path)


@computed(kind="recursion")
def scattered(lattice, w):
    """What the package returns for each entry."""
    return lattice.occupancy(arc_posteriors(lattice, w, REAL))


@pytest.mark.equation("eq-expected-count", patterns={
    r"\frac{\partial \log Z}{\partial \log y_i}": "slope", r"c_i(\pi)": "counts[pi]"})
def test_expected_count():
    """sympy's derivative of log Z, by the recursion, with respect to an entry that a path may use twice, against the
    expected count and what the package returns."""
    def middle(slope, w, paths, counts, z, occupancy, i):
        return sum(mass(w, pi) / z * counts[pi] for pi in paths)

    def rhs(slope, w, paths, counts, z, occupancy, i):
        return occupancy[i]

    def cases():
        for lattice in (TIED, WIDE, TWICE):
            y = field_grid("y", lattice.shape)
            w = lattice.arc_weights(y, REAL)
            paths = all_paths(lattice)
            for i in range(len(y)):
                counts = {path: uses(lattice, path, i) for path in paths}
                yield (slope(z_by_recursion(lattice, w), y[i]), w, paths, counts, path_sum(lattice, w),
                       walled(scattered(lattice, w)), i)

    assert max(uses(TIED, path, 0) for path in all_paths(TIED)) == 2
    for side in (middle, rhs):
        check_equation("eq-expected-count", first, side, cases(), left_out={
            "a weight of 0": "for positive weights"})


@computed
def expected_counts(lattice, w):
    """Of each entry, over the paths."""
    z, paths = path_sum(lattice, w), all_paths(lattice)
    return np.array([sum(mass(w, path) / z * uses(lattice, path, i) for path in paths)
                     for i in range(*lattice.shape)], dtype=object)


@pytest.mark.equation("eq-scatter", over={r"e \text{ uses } i": "for a in range(len(entry)) if entry[a] == i"})
def test_scatter():
    """Expected counts over the paths against the posteriors, by the recursions, of the arcs that use the entry."""
    def lhs(occupancy, posterior, entry, i):
        return occupancy[i]

    def rhs(occupancy, posterior, entry, i):
        return sum(posterior[a] for a in range(0, len(posterior)) if entry[a] == i)

    def cases():
        for lattice, masked in ((TIED, 1), (TIED, None), (WIDE, 0)):
            y = probabilities(3, lattice.shape)
            y[masked] *= 0 if masked is not None else 1
            w = lattice.arc_weights(y, REAL)
            entry = [arc.entry[0] if arc.entry else None for arc in lattice.arcs]
            for i in range(*lattice.shape):
                yield expected_counts(lattice, w), posteriors_by_recursion(lattice, w), entry, i

    check_equation("eq-scatter", lhs, rhs, cases())


@pytest.mark.equation("eq-feature-counts", patterns={
    r"\frac{\partial \log Z}{\partial \theta_i}": "slope", "f_i(#a)": "f[i, #a]"})
def test_feature_counts():
    """Weights c exp(theta . f) with x = e^theta: sympy's derivative against the features of the arcs, expected."""
    def rhs(slope, posterior, f, i):
        return sum(posterior[a] * f[i, a] for a in range(0, len(posterior)))

    def cases():
        parallel = lattice_of([(0, 1), (0, 1)], 2)
        for lattice, features in ((random_lattice(np.random.default_rng(7), 4, 4), 2), (parallel, 3)):
            x = field_grid("x", (features,))
            f = np.random.default_rng(7).integers(0, 3, (features, len(lattice.arcs)))
            w = np.array([(a + 1) * prod(x ** f[:, a].astype(object)) for a in range(len(lattice.arcs))])
            for i in range(features):
                yield slope(path_sum(lattice, w), x[i]), posteriors_by_recursion(lattice, w), f, i

    check_equation("eq-feature-counts", first, rhs, cases(), left_out={"a weight of 0": "exponentials are positive"})


def rest_of_the_program(lattice, w, n, changed):
    """The forward program, in which alpha(n) is changed just after it is computed."""
    alpha = [1] + [0] * (len(lattice.nodes) - 1)
    for node in range(len(alpha)):
        for arc, weight in zip(lattice.arcs, w, strict=True):
            if arc.target == node:
                alpha[node] += alpha[arc.source] * weight
        if node == n:
            alpha[node] = changed(alpha[node])
    return alpha[-1]


@computed(kind="exact difference")
def adjoint(lattice, w, n):
    """dZ/d alpha(n), as an exact difference."""
    return exact_difference(lambda added: rest_of_the_program(lattice, w, n, lambda value: value + added[0]),
                            [Fraction(0)], (0,), h=7)


@computed(kind="sympy")
def log_adjoint(lattice, w, n):
    """d log Z / d log alpha(n) by sympy, which is given alpha(n) = e^v and knows no rule of ours."""
    v, seen = sympy.Symbol("v", real=True), []
    weights = [sympy.Rational(weight.numerator, weight.denominator) for weight in w]
    z = rest_of_the_program(lattice, weights, n, lambda value: seen.append(value) or sympy.exp(v))
    return _fraction(sympy.diff(sympy.log(z), v).subs(v, sympy.log(sympy.Rational(seen[0]))))


@pytest.mark.equation("eq-adjoint", patterns={r"\frac{\partial Z}{\partial \alpha(n)}": "slope"})
def test_adjoint():
    """The forward program differentiated with respect to an intermediate result against enumerated suffixes."""
    def rhs(slope, beta, n):
        return beta[n]

    check_equation("eq-adjoint", first, rhs, (
        (adjoint(lattice, w, n), betas(lattice, w), n) for lattice, w, n in _nodes()))


@pytest.mark.equation("eq-log-adjoint", patterns={r"\frac{\partial \log Z}{\partial \log \alpha(n)}": "slope"})
def test_log_adjoint():
    """sympy: the logarithm of the forward program's result differentiated with respect to that of an intermediate one,
    against the share of the paths that pass the node."""
    def rhs(slope, gamma, n):
        return gamma[n]

    check_equation("eq-log-adjoint", first, rhs, (
        (log_adjoint(lattice, w, n), walled(occupancies(lattice, w)), n)
        for lattice, w, n in _nodes() if forward(lattice, w, REAL)[n] > 0))


@pytest.mark.equation("eq-share-sum-general", over=ARRIVING)
def test_share_sum():
    """The shares of the arcs that arrive at a node that has mass add up to 1."""
    def rhs(r, source, target, n):
        return sum(r[a] for a in range(0, len(r)) if target[a] == n)

    check_equation("eq-share-sum-general", lambda *_: 1, rhs, (
        (shares(lattice, w), *ends(lattice), n) for lattice, w, n in _nodes() if n > 0 and alphas(lattice, w)[n]),
        left_out=NOT_THE_START | {"no arc arrives": "the node would have no mass"})
    assert sum(r for r, n in zip(shares(*DEAD), ends(DEAD[0])[1], strict=True) if n == 2) == 0  # no mass arrives there


@pytest.mark.equation("eq-share-posterior")
def test_share_posterior():
    """The share of the paths that use an arc against its share and the occupancy of its target."""
    def lhs(posterior, r, gamma, source, target, a, m, n):
        return posterior[a]

    def rhs(posterior, r, gamma, source, target, a, m, n):
        return r[a] * gamma[n]

    check_equation("eq-share-posterior", lhs, rhs, (
        (shares_of_paths(lattice, w), shares(lattice, w), walled(gamma_by_recursion(lattice, w)), *ends(lattice), a,
         lattice.arcs[a].source, lattice.arcs[a].target) for lattice, w, a in _arcs()), left_out=OF_ONE_ARC)


@computed(kind="recursion")
def swept_back(lattice, r):
    """Node occupancies as the text says: 1 at the end, then each node receives what its outgoing arcs hand over."""
    gamma = np.full(len(lattice.nodes), Fraction(0))
    gamma[-1] = Fraction(1)
    for m in reversed(range(len(lattice.nodes) - 1)):
        gamma[m] = sum((share * gamma[arc.target] for arc, share in zip(lattice.arcs, r, strict=True)
                        if arc.source == m), Fraction(0))
    return gamma


@pytest.mark.equation("eq-share-sweep-general", over=LEAVING)
def test_share_sweep():
    """The share of the paths that pass a node against what the sweep hands back to it from the nodes after it."""
    def lhs(passed, gamma, r, source, target, m):
        return passed[m]

    def rhs(passed, gamma, r, source, target, m):
        return sum(r[a] * gamma[target[a]] for a in range(0, len(r)) if source[a] == m)

    check_equation("eq-share-sweep-general", lhs, rhs, (
        (occupancies(lattice, w), swept_back(lattice, shares(lattice, w)), shares(lattice, w), *ends(lattice), m)
        for lattice, w, m in _nodes() if m < len(lattice.nodes) - 1), left_out=NOT_THE_END)
    assert all(occupancies(lattice, w)[-1] == 1 for lattice, w in INPUTS)  # there the empty sum would be 0
    (lattice, w), target = DEAD, np.array(ends(DEAD[0])[1])  # at a node without mass any shares will do
    assert (swept_back(lattice, np.where(target == 2, 7, shares(lattice, w))) == occupancies(lattice, w)).all()


@pytest.mark.equation("eq-lattice-inflow", over=ARRIVING)
def test_inflow():
    """The share of the paths that pass a node against the posteriors, from alpha and beta, of the arcs that arrive."""
    def lhs(gamma, posterior, source, target, n):
        return gamma[n]

    def rhs(gamma, posterior, source, target, n):
        return sum(posterior[a] for a in range(0, len(posterior)) if target[a] == n)

    check_equation("eq-lattice-inflow", lhs, rhs, (
        (occupancies(lattice, w), posteriors_by_recursion(lattice, w), *ends(lattice), n)
        for lattice, w, n in _nodes() if n > 0), left_out=NOT_THE_START)


@pytest.mark.equation("eq-lattice-outflow", over=LEAVING)
def test_outflow():
    """The share of the paths that pass a node against the posteriors, from alpha and beta, of the arcs that leave."""
    def lhs(gamma, posterior, source, target, m):
        return gamma[m]

    def rhs(gamma, posterior, source, target, m):
        return sum(posterior[a] for a in range(0, len(posterior)) if source[a] == m)

    check_equation("eq-lattice-outflow", lhs, rhs, (
        (occupancies(lattice, w), posteriors_by_recursion(lattice, w), *ends(lattice), m)
        for lattice, w, m in _nodes() if m < len(lattice.nodes) - 1), left_out=NOT_THE_END)


def subsets(items):
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def _cuts():
    """Every set of nodes with the start, without the end and without an arc back: the lattice, and which are inside."""
    for lattice, w in INPUTS:
        for inner in subsets(range(1, len(lattice.nodes) - 1)):
            inside = [n == 0 or n in inner for n in range(len(lattice.nodes))]
            if all(inside[m] or not inside[n] for m, n in zip(*ends(lattice), strict=True)):
                yield lattice, w, inside


@pytest.mark.equation("eq-lattice-cut", over={
    r"\substack{e : m \to n, \\ m \in C, n \notin C}":
    "for a, (m, n) in enumerate(zip(source, target)) if inside[m] and not inside[n]"})
def test_cut():
    """The arcs out of every set of nodes that no arc leads back to have mass 1."""
    def rhs(posterior, source, target, inside):
        return sum(posterior[a] for a in range(0, len(posterior)) if inside[source[a]] and not inside[target[a]])

    assert any(inside[1:3] == [False, True] for _, _, inside in _cuts())  # not only the first k nodes
    check_equation("eq-lattice-cut", lambda *_: 1, rhs, (
        (posteriors_by_recursion(lattice, w), *ends(lattice), inside) for lattice, w, inside in _cuts()))
    lattice, w = SQUARE, probabilities(4, (9,))  # a set that an arc leads back to: its arcs carry more
    posterior, inside = posteriors_by_recursion(lattice, w), [n in (0, 3) for n in range(6)]
    assert sum(posterior[a] for a, arc in enumerate(lattice.arcs) if inside[arc.source] > inside[arc.target]) > 1


def _barriers():
    """Every set of nodes of which each path passes exactly one."""
    for lattice, w in INPUTS:
        paths = try_all(*_whole(lattice))
        for N in subsets(range(len(lattice.nodes))):
            if all(sum(passes(lattice, path, n) for n in N) == 1 for path in paths):
                yield lattice, w, N


@pytest.mark.equation("eq-lattice-barrier")
def test_barrier():
    """Every set of nodes of which each path passes exactly one: occupancies from alpha and beta add up to 1."""
    def rhs(gamma, N):
        return sum(gamma[n] for n in N)

    assert any(len(N) == 2 for lattice, _, N in _barriers() if lattice is SQUARE)
    check_equation("eq-lattice-barrier", lambda *_: 1, rhs, (
        (gamma_by_recursion(lattice, w), N) for lattice, w, N in _barriers()))


@pytest.mark.equation("eq-walk-forward", over={
    r"\substack{e \in \pi, \\ e : m \to n}": "for a in pi for m, n in [(source[a], target[a])]"})
def test_walk_forward():
    """w(path) / Z against the product of the decisions of a walk by beta."""
    def rhs(share, w, beta, source, target, pi):
        return prod(w[a] * beta[target[a]] / beta[source[a]] for a in pi)

    check_equation("eq-walk-forward", first, rhs, (
        (mass(w, path) / z_by_recursion(lattice, w), w, betas(lattice, w), *ends(lattice), path)
        for lattice, w, path in _paths()))


@pytest.mark.equation("eq-walk-backward", over={r"e \in \pi": "for a in pi"})
def test_walk_backward():
    """w(path) / Z against the product of the shares."""
    def rhs(share, r, pi):
        return prod(r[a] for a in pi)

    check_equation("eq-walk-backward", first, rhs, (
        (mass(w, path) / z_by_recursion(lattice, w), shares(lattice, w), path) for lattice, w, path in _paths()))


#: Rows of a softmax that are read more than once, or by arcs that not all paths use; one with more rows than symbols.
ROWED = [lattice_of([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3)], 4,
                    entries=[(0, 0), (1, 2), (0, 0), (0, 1), (1, 0), None], shape=(2, 3)),
         lattice_of([(0, 1), (0, 1), (1, 2), (0, 2)], 3, entries=[(0, 1), (2, 0), (0, 0), (1, 0)], shape=(3, 2))]


@computed
def entry_counts(lattice, y):
    """How often each entry is used, expected over the paths, by enumeration."""
    w = lattice.arc_weights(y, REAL)
    z, counts = path_sum(lattice, w), y * 0
    for path in all_paths(lattice):
        for a in path:
            if lattice.arcs[a].entry is not None:
                counts[lattice.arcs[a].entry] += mass(w, path) / z
    return counts


@pytest.mark.equation("eq-lattice-grad-logits", patterns={
    r"\frac{\partial L}{\partial z_j(k)}": "grad_logits", "y_j(k)": "y[j, k]", "E_j(#k)": "E[j, #k]", "k'": "v"},
    over={"k'": "for v in range(V)"})
def test_grad_logits():
    """sympy: derivative of -log Z, by the recursion, with respect to each logit, against belief times uses minus
    uses."""
    def rhs(grad_logits, y, E, j, k, V):
        return y[j, k] * sum(E[j, v] for v in range(0, V)) - E[j, k]

    def cases():
        for seed, lattice in enumerate(ROWED):
            x = probabilities(seed, lattice.shape)

            def z(y, lattice=lattice):
                return z_by_recursion(lattice, lattice.arc_weights(y, REAL))

            for j, k in np.ndindex(x.shape):
                yield grad_logit(z, x, j, k), softmax(x), walled(entry_counts(lattice, softmax(x))), j, k, x.shape[1]

    check_equation("eq-lattice-grad-logits", first, rhs, cases(), left_out={"a weight of 0": "a softmax has none"})


@computed
def best_through(lattice, theta, a):
    """The best score of the enumerated paths that use an arc."""
    return max((score(theta, path) for path in try_all(*_whole(lattice)) if a in path), default=-inf)


@computed(kind="recursion")
def best_scores(lattice, theta):
    """Forwards and backwards on the max semiring."""
    return [sweep(lattice, theta, MAX) for sweep in (forward, backward)]


@pytest.mark.equation("eq-max-marginal", over={
    r"\pi \ni e": "for pi in [pi for pi in paths if a in pi] or [None]"})
def test_max_marginal():
    """The best enumerated path that uses an arc against the recursions on the max semiring; scores are integers."""
    def rhs(best, alpha, theta, beta, paths, source, target, a, m, n):
        return alpha[m] + theta[a] + beta[n]

    def cases():
        for seed, lattice in enumerate(LATTICES):
            theta = np.random.default_rng(seed).integers(-6, 7, len(lattice.arcs)).astype(float)
            alpha, beta = best_scores(lattice, theta)
            for a, arc in enumerate(lattice.arcs):
                yield (best_through(lattice, theta, a), walled(alpha), theta, walled(beta), try_all(*_whole(lattice)),
                       *ends(lattice), a, arc.source, arc.target)

    check_equation("eq-max-marginal", first, rhs, cases(), left_out=OF_ONE_ARC)


TEMPERATURES = (0.3, 1.0, 2.5)


@computed(kind="recursion")
def soft_maximum(lattice, theta, tau):
    return tau * forward(lattice, theta / tau)[-1]


@pytest.mark.equation("eq-temperature", patterns={r"F_\tau": "F"})
def test_temperature():
    """tau times the log-domain recursion on scores / tau against the best score and what the other paths add."""
    def rhs(F, M, theta, tau, paths):
        return M + tau * log(sum(exp((score(theta, pi) - M) / tau) for pi in paths))

    def cases():
        for seed, lattice in enumerate(LATTICES):
            theta, paths = np.random.default_rng(seed).normal(size=len(lattice.arcs)), all_paths(lattice)
            for tau in TEMPERATURES:
                yield soft_maximum(lattice, theta, tau), max(score(theta, path) for path in paths), theta, tau, paths

    check_equation("eq-temperature", first, rhs, cases(), tolerance=1e-12)
    for F, M, _, tau, paths in cases():
        assert M - 1e-12 <= F <= M + tau * log(len(paths)) + 1e-12


@computed(kind="differences in 50 digits")
def soft_slope(lattice, theta, tau, a):
    """dF / d theta(a): the limit of difference quotients of tau log Z(theta / tau), Z by the recursion."""
    mp = theta[a].context

    def of_one(value):
        moved = theta.copy()
        moved[a] = value
        return tau * mp.log(forward(lattice, np.array([mp.exp(each / tau) for each in moved]), REAL)[-1])

    return mp.diff(of_one, theta[a])


@computed
def soft_shares(lattice, theta, tau):
    """The share of each enumerated path at a temperature."""
    masses = {path: theta[0].context.exp(score(theta, path) / tau) for path in all_paths(lattice)}
    return {path: mass / sum(masses.values()) for path, mass in masses.items()}


@pytest.mark.equation("eq-temperature-posterior", patterns={
    r"\frac{\partial F_\tau}{\partial \theta(e)}": "slope", r"\Pr_\tau(\pi)": "shares[pi]"})
def test_temperature_posterior():
    """The slope of the soft maximum in each score, to 25 digits, against the posteriors of the paths at tau."""
    def rhs(slope, shares, paths, tau, a):
        return sum(shares[pi] * (a in pi) for pi in paths)

    mp = mpmath.MPContext()
    mp.dps = 50

    def cases():
        for seed, lattice in ((8, random_lattice(np.random.default_rng(8), 4, 3)), (9, CHAIN)):
            scores = np.random.default_rng(seed).integers(-9, 10, len(lattice.arcs))
            theta = np.array([mp.mpf(int(n)) / 7 for n in scores], dtype=object)
            for tau in TEMPERATURES:
                for a in range(len(theta)):
                    yield (soft_slope(lattice, theta, tau, a), soft_shares(lattice, theta, tau), all_paths(lattice),
                           tau, a)

    check_equation("eq-temperature-posterior", first, rhs, cases(), tolerance=1e-25)


@computed
def joint_shares(lattice, w):
    """The share of the paths that use two arcs, for every two."""
    z, joint = path_sum(lattice, w), np.full((len(w), len(w)), w[0] * 0)
    for path in all_paths(lattice):
        joint[np.ix_(path, path)] += mass(w, path) / z
    return joint


@computed(kind="sympy")
def second_slope(z, first, second):
    """The second derivative of log z with respect to the logarithms of two weights."""
    return second * (first * z.diff(first) / z).diff(second)


@pytest.mark.equation("eq-hessian", patterns={
    r"\frac{\partial^2 \log Z}{\partial \theta(e) \partial \theta(e')}": "second"})
def test_hessian():
    """sympy's second derivatives of log Z, by the recursion, in the log-weights against covariances: paths with both,
    and alpha w beta / Z."""
    def rhs(second, joint, posterior, a, b):
        return joint[a, b] - posterior[a] * posterior[b]

    def cases():
        for lattice in (random_lattice(np.random.default_rng(6), 4, 3), CHAIN, ORPHANS[0]):
            w = field_grid("w", lattice.shape)
            z = z_by_recursion(lattice, w)
            for a, b in np.ndindex(len(w), len(w)):
                yield second_slope(z, w[a], w[b]), joint_shares(lattice, w), posteriors_by_recursion(lattice, w), a, b

    check_equation("eq-hessian", first, rhs, cases(), left_out={
        "a weight of 0": "its logarithm has no derivative"})

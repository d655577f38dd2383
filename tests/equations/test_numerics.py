"""Checks of the equations of the chapter on numerics: exact fractions, on lattices whose paths are enumerated."""

from fractions import Fraction
from math import comb, prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import RNNT_INPUTS as INPUTS
from brute_force import Target, blank_of, probabilities, rnnt_alpha, rnnt_z
from tex_to_python import Notation

from reference_impl import rnnt
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.lattice import arc_posteriors, forward
from reference_impl.semiring import REAL
from reference_impl.topology import ctc_lattice, rnnt_lattice

NOTATION = notation.RNNT | Notation({"c": "kappa", r"\widehat{\Pr}(e)": "posterior", r"\Pr(e, e')": "e_ab",
                                     r"\Pr(e)": "e_a", r"\Pr(e')": "e_b"})
QUANTITIES = ranges.RNNT | Quantities(ends={
    "an arc on every path": (lambda a, paths: all(a in path for path in paths), lambda e_b: e_b == 1),
    "an arc on no path": (lambda a, paths: not any(a in path for path in paths), lambda e_b: e_b == 0),
    "delta < 0": (lambda a, delta: delta[a] < 0, lambda e_a, delta: delta < 0),
    "delta > 0": (lambda a, delta: delta[a] > 0, lambda e_a, delta: delta > 0),
    "delta = -1": lambda e_a, delta: delta == -1,
    "a = b": lambda e_a, e_b, e_ab: 0 < e_a == e_b == e_ab < 1,
    "no path has both": lambda e_a, e_b, e_ab: e_a > 0 and e_b > 0 and e_ab == 0,
    "p = q": lambda p, q: p == q,
    "p < q": lambda p, q: p < q,
    "p > q": lambda p, q: p > q,
    "kappa < 1": lambda kappa: kappa < 1,
    "kappa > 1": lambda kappa: kappa > 1,
    "e_1 < e_2": lambda e_of: e_of[1] < e_of[2],
    "e_1 = e_2": lambda e_of: e_of[1] == e_of[2],
    "e_1 > e_2": lambda e_of: e_of[1] > e_of[2],
    "e < 0": lambda e: e < 0,
})

GRAPHS = [rnnt_lattice([1, 2], 3, 3), rnnt_lattice([1, 1, 2], 2, 3), ctc_lattice([1, 1], 4, 3)]


def arcs_of(graph):
    return [(arc.source, arc.target) for arc in graph.arcs]


@computed
def paths_of(arcs):
    """All paths from the first node to the last, as the numbers of their arcs."""
    end, found, going = max(target for _, target in arcs), [], [(0, ())]
    while going:
        node, path = going.pop()
        found += [path] if node == end else []
        going += [(target, (*path, i)) for i, (source, target) in enumerate(arcs) if source == node]
    return found


@computed(kind="recursion")
def posteriors(number, weights):
    """Posteriors of the arcs of a lattice, by its alpha and beta."""
    return arc_posteriors(GRAPHS[number], weights, REAL)


def rounded_sweep(arcs, weights):
    """alpha of every node, and the product at every arc, computed in float32: each product and each sum is rounded."""
    alpha = np.zeros(max(target for _, target in arcs) + 1, np.float32)
    alpha[0], products = 1, np.zeros(len(arcs), np.float32)
    for node in range(len(alpha)):
        for i, (source, target) in enumerate(arcs):
            if target == node:
                products[i] = alpha[source] * np.float32(weights[i])
                alpha[node] += products[i]
    return [np.array([Fraction(float(x)) for x in numbers], dtype=object) for numbers in (alpha, products)]


def exact_shares(arcs, products):
    """The share of each arc in what arrives at its target; and that sum. 0 where nothing arrives."""
    into = np.array([sum(p for p, (_, other) in zip(products, arcs, strict=True) if other == target)
                     for _, target in arcs], dtype=object)
    return products / np.where(into == 0, 1, into), into


@computed(kind="float32")
def changes_of_weights(arcs, weights):
    """delta of each arc: how wrong its product is, and the sum to which it is added. 0 where nothing arrives."""
    alpha, products = rounded_sweep(arcs, weights)
    _, into = exact_shares(arcs, products)
    return np.array([product / (alpha[source] * w) * alpha[target] / total - 1 if product else Fraction(0)
                     for (source, target), product, total, w in zip(arcs, products, into, weights, strict=True)])


@computed(kind="float32")
def posteriors_of_shares(arcs, weights):
    """Posteriors that the shares of the rounded products lead to, from the end back to the start."""
    shares, _ = exact_shares(arcs, rounded_sweep(arcs, weights)[1])
    gamma, out = {max(target for _, target in arcs): Fraction(1)}, shares * 0
    for node in sorted({target for _, target in arcs}, reverse=True):
        for i, (source, target) in enumerate(arcs):
            if target == node:
                out[i] = gamma.get(node, 0) * shares[i]
                gamma[source] = gamma.get(source, 0) + out[i]
    return out


@pytest.mark.equation("eq-numerics-reweighted", patterns={
    r"w(\pi)": "prod(w[b] for b in pi)", r"\rho(\pi)": "prod(1 + delta[b] for b in pi)"},
    over={r"\pi \ni e": "for pi in paths if a in pi", r"\pi": "paths"},
    conditions={r"\rho(\pi) = \prod_{e' \in \pi} (1 + \delta(e'))": "True"})
def test_reweighted():
    """Posteriors of shares that were computed in float32, and of alpha and beta with weights changed more than that,
    against a sum over the paths of the original lattice."""
    def rhs(posterior, a, w, delta, paths):
        return (sum(prod(w[b] for b in pi) * prod(1 + delta[b] for b in pi) for pi in paths if a in pi)
                / sum(prod(w[b] for b in pi) * prod(1 + delta[b] for b in pi) for pi in paths))

    def cases():
        for number, graph in enumerate(GRAPHS):
            arcs, (w, delta) = arcs_of(graph), probabilities(number, (2, len(graph.arcs)))
            delta = delta / 100 - Fraction(1, 7)
            w_32 = np.array([Fraction(float(np.float32(x / 50))) for x in w], dtype=object)
            for a in range(len(arcs)):
                yield posteriors(number, w * (1 + delta))[a], a, w, delta, paths_of(arcs)
                yield posteriors_of_shares(arcs, w_32)[a], a, w_32, changes_of_weights(arcs, w_32), paths_of(arcs)

    check_equation("eq-numerics-reweighted", lambda posterior, *_: posterior, rhs, cases())


def test_a_rounded_recursion_is_exact_on_other_weights():
    """The theorem: alpha of float32 is alpha of the changed weights; a share, rounded, is off by two roundings at most,
    and by more than one."""
    rounding, worst = Fraction(1, 2**24), 0
    for number, graph in enumerate(GRAPHS):
        arcs = arcs_of(graph)
        w = np.array([Fraction(float(np.float32(x / 50))) for x in probabilities(number, len(arcs))], dtype=object)
        alpha, products = rounded_sweep(arcs, w)
        delta = changes_of_weights(arcs, w)
        assert (forward(graph, w * (1 + delta), REAL) == alpha).all()
        assert 0 < abs(delta).max() <= (1 + rounding)**3 - 1  # a product and at most two sums
        for share, product, (_, target) in zip(exact_shares(arcs, products)[0], products, arcs, strict=True):
            if product:
                rounded = Fraction(float(np.float32(float(product)) / np.float32(float(alpha[target]))))
                worst = max(worst, abs(rounded / share - 1))
    assert rounding < worst < (1 + rounding)**2 / (1 - rounding) - 1


@computed
def joint_posteriors(arcs, weights):
    """[a, b]: the share of the paths that use both arcs."""
    paths = paths_of(arcs)
    masses = [prod(weights[b] for b in path) for path in paths]
    both = np.full((len(arcs), len(arcs)), Fraction(0), dtype=object)
    for path, mass in zip(paths, masses, strict=True):
        both[np.ix_(path, path)] += mass / sum(masses)
    return both


@pytest.mark.equation("eq-numerics-one-arc")
def test_one_arc():
    """Posteriors where one arc's weight has changed, by alpha and beta, against those of the unchanged lattice."""
    def rhs(posterior, e_a, e_b, e_ab, delta):
        return (e_a + delta * e_ab) / (1 + delta * e_b)

    def cases():
        for number, graph in enumerate(GRAPHS):
            w = probabilities(number, len(graph.arcs))
            both = joint_posteriors(arcs_of(graph), w)
            for b in range(len(w)):
                delta = Fraction(b + 1, 7) if b % 2 else Fraction(-(b % 7) - 1, 7)
                if 1 + delta * both[b, b] == 0:
                    continue
                changed = w.copy()
                changed[b] *= 1 + delta
                for a in range(b % 2, len(w), 2):
                    yield posteriors(number, changed)[a], both[a, a], both[b, b], both[a, b], delta

    check_equation("eq-numerics-one-arc", lambda posterior, *_: posterior, rhs, cases())


@computed(kind="recursion")
def alpha_of_recursion(y, targets):
    return rnnt.alpha(y, targets, blank=blank_of(targets), semiring=REAL)


@pytest.mark.equation("eq-numerics-binomial")
def test_binomial():
    """Alpha on constant weights, by enumeration and by the recursion, against the number of ways times the weight of
    each."""
    def rhs(alpha, t, u, p, q):
        return comb(t + u, u) * p**t * q**u

    def cases():
        small, large = Fraction(2, 3), Fraction(5, 7)
        for T, V, labels, p, q in [(5, 2, [1, 1, 1], small, large), (1, 3, [1, 2, 1], large, large),
                                   (3, 2, [], large, small), (2, 4, Target([3, 0, 0], blank=2), large, small),
                                   (2, 3, [1, 2], small, large)]:
            y = np.full((T, len(labels) + 1, V), q, dtype=object)
            y[..., blank_of(labels)] = p
            for alpha in (rnnt_alpha(y, labels), alpha_of_recursion(y, labels)):
                for t, u in np.ndindex(alpha.shape):
                    yield alpha, t, u, p, q

    check_equation("eq-numerics-binomial", lambda alpha, t, u, p, q: alpha[t, u], rhs, cases())


@computed(kind="recursion")
def z_of_recursion(y, targets):
    graph = rnnt_lattice(targets, len(y), y.shape[-1], blank=blank_of(targets))
    return forward(graph, graph.arc_weights(y, REAL), REAL)[-1]


def times_kappa(y, labels, kappa):
    """All label weights multiplied."""
    changed = y * kappa
    changed[..., blank_of(labels)] = y[..., blank_of(labels)]
    return changed


KAPPAS = Fraction(3, 2), Fraction(2, 5)


@pytest.mark.equation("eq-numerics-potential", patterns={"Z(c)": "z_of_kappa"})
def test_potential():
    """Z with all label weights multiplied, by the recursion, against Z over all paths."""
    def rhs(z_of_kappa, kappa, U, z):
        return kappa**U * z

    check_equation("eq-numerics-potential", lambda z_of_kappa, *_: z_of_kappa, rhs, (
        (z_of_recursion(times_kappa(y, labels, kappa), labels), kappa, len(labels), rnnt_z(y, labels))
        for y, labels in INPUTS for kappa in KAPPAS))


def test_a_potential_changes_no_posterior():
    for y, labels in INPUTS:
        graph = rnnt_lattice(labels, len(y), y.shape[-1], blank=blank_of(labels))
        before, *after = (arc_posteriors(graph, graph.arc_weights(times_kappa(y, labels, kappa), REAL), REAL)
                          for kappa in (1, *KAPPAS))
        assert all((before == each).all() for each in after)


@pytest.mark.equation("eq-numerics-align", patterns={"j_{#i}": "e_of[#i]", "j": "e"},
                      conditions={r"j = \max(j_1, j_2)": "e == max(e_of[1], e_of[2])"})
def test_align():
    """The sum of two numbers in fractions against mantissas shifted to the larger exponent."""
    def lhs(m, e_of, e):
        return m[1] * 2**e_of[1] + m[2] * 2**e_of[2]

    def rhs(m, e_of, e):
        return (m[1] * 2 ** (e_of[1] - e) + m[2] * 2 ** (e_of[2] - e)) * 2**e

    def cases():
        for a, b in [(3, -5), (-70, 4), (6, 6), (-3, -8)]:
            m = [7, Fraction(9, 8), Fraction(5, 3)]  # m_1 and m_2; an index outside reads as 7
            exponents = np.array([_Exponent(x) for x in (7, a, b)], dtype=object)
            yield zero_outside(m, zero=7), zero_outside(exponents, zero=_Exponent(7)), _Exponent(max(a, b))

    check_equation("eq-numerics-align", lhs, rhs, cases(), algebraic={"no source": "a law of powers of two"})


class _Exponent(int):
    """An exponent to which 2 can be raised exactly, though it is negative."""

    def __rpow__(self, base):
        return Fraction(base) ** int(self)

    def __sub__(self, other):
        return _Exponent(int(self) - int(other))

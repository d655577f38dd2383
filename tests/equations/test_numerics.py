"""Checks of the equations of the chapter on numerics: exact fractions, on lattices whose paths are enumerated."""

from fractions import Fraction
from math import comb, prod

import numpy as np
import pytest
from brute_force import probabilities

from reference_impl import rnnt
from reference_impl.equations import check_equation, zero_outside
from reference_impl.lattice import arc_posteriors, enumerate_paths, forward
from reference_impl.semiring import REAL
from reference_impl.topology import ctc_lattice, rnnt_lattice

GRAPHS = [rnnt_lattice([1, 2], 3, 3), rnnt_lattice([1, 1, 2], 2, 3), ctc_lattice([1, 1], 4, 3)]


def weighted(seed, graph):
    """Arc weights, changes of them, and the paths of a lattice."""
    weights, delta = probabilities(seed, (2, len(graph.arcs)))
    return weights, delta / 100, list(enumerate_paths(graph))


@pytest.mark.equation("eq-numerics-reweighted")
def test_reweighted():
    """Posteriors of the lattice with changed weights, by alpha and beta, against a sum over the original's paths."""
    def rhs(posterior, a, w, delta, paths):
        return (sum(prod(w[b] for b in path) * prod(1 + delta[b] for b in path) for path in paths if a in path)
                / sum(prod(w[b] for b in path) * prod(1 + delta[b] for b in path) for path in paths))

    cases = []
    for seed, graph in enumerate(GRAPHS):
        w, delta, paths = weighted(seed, graph)
        posteriors = arc_posteriors(graph, w * (1 + delta), REAL)
        cases += [(posteriors[a], a, w, delta, paths) for a in range(len(graph.arcs))]
    check_equation("eq-numerics-reweighted", lambda posterior, *_: posterior, rhs, cases)


@pytest.mark.equation("eq-numerics-one-arc")
def test_one_arc():
    """Posteriors where one arc's weight has changed, by alpha and beta, against those of the unchanged lattice."""
    def rhs(posterior, e_a, e_b, e_ab, delta):
        return (e_a + delta * e_ab) / (1 + delta * e_b)

    cases = []
    for seed, graph in enumerate(GRAPHS):
        w, _, paths = weighted(seed, graph)
        mass = [prod(w[b] for b in path) for path in paths]
        for a in range(0, len(w), 2):
            for b in range(len(w)):
                changed, delta = w.copy(), Fraction(b + 1, 7)
                changed[b] *= 1 + delta
                e_a, e_b, e_ab = (sum(m for m, path in zip(mass, paths, strict=True) if used <= set(path)) / sum(mass)
                                  for used in ({a}, {b}, {a, b}))
                cases.append((arc_posteriors(graph, changed, REAL)[a], e_a, e_b, e_ab, delta))
    check_equation("eq-numerics-one-arc", lambda posterior, *_: posterior, rhs, cases)


@pytest.mark.equation("eq-numerics-binomial")
def test_binomial():
    """Alpha of the recursion on constant weights against the number of ways times the weight of each."""
    def rhs(alpha, t, u, p, q):
        return comb(t + u, u) * p**t * q**u

    p, q = Fraction(2, 3), Fraction(5, 7)
    y = np.full((5, 4, 2), p, dtype=object)
    y[..., 1] = q
    alpha = rnnt.alpha(y, [1, 1, 1], semiring=REAL)
    check_equation("eq-numerics-binomial", lambda alpha, *_: alpha, rhs,
                   [(alpha[t, u], t, u, p, q) for t in range(5) for u in range(4)])


@pytest.mark.equation("eq-numerics-potential")
def test_potential():
    """Z with all label weights multiplied; and, beyond the equation, that no posterior changes."""
    def rhs(z_of_kappa, kappa, U, z):
        return kappa**U * z

    cases = []
    for seed, (T, U) in enumerate([(3, 2), (2, 3), (4, 1), (3, 0)]):
        y, kappa = probabilities(seed, (T, U + 1, 2)), Fraction(seed + 3, 2)
        graph, changed = rnnt_lattice([1] * U, T, 2), y.copy()
        changed[..., 1] *= kappa
        w, changed_w = graph.arc_weights(y, REAL), graph.arc_weights(changed, REAL)
        assert (arc_posteriors(graph, w, REAL) == arc_posteriors(graph, changed_w, REAL)).all()
        cases.append((forward(graph, changed_w, REAL)[-1], kappa, U, forward(graph, w, REAL)[-1]))
    check_equation("eq-numerics-potential", lambda z_of_kappa, *_: z_of_kappa, rhs, cases)


@pytest.mark.equation("eq-numerics-align")
def test_align():
    """The sum of two numbers in fractions against mantissas shifted to the larger exponent."""
    def rhs(m, e_of, e):
        return (m[0] * 2 ** (e_of[0] - e) + m[1] * 2 ** (e_of[1] - e)) * 2**e

    cases = []
    for a, b in [(3, -5), (-70, 4), (6, 6)]:
        m, exponents = zero_outside([Fraction(9, 8), Fraction(5, 3)], zero=7), [Fraction(a), Fraction(b)]
        cases.append((m, [_Exponent(x) for x in exponents], _Exponent(max(exponents))))
    check_equation("eq-numerics-align", lambda m, e_of, e: m[0] * Fraction(2)**int(e_of[0]) + m[1] * Fraction(2)
                   ** int(e_of[1]), rhs, cases)


class _Exponent(int):
    """An exponent to which 2 can be raised exactly, though it is negative."""

    def __rpow__(self, base):
        return Fraction(base) ** int(self)

    def __sub__(self, other):
        return _Exponent(int(self) - int(other))

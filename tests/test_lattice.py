"""The lattice engine on random graphs, not only those of the losses: the gradient theorem, exactly, and its pieces."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.differences import exact_difference
from reference_impl.duals import Dual
from reference_impl.lattice import (
    Arc,
    Lattice,
    Z,
    arc_posteriors,
    backward,
    best_path,
    enumerate_paths,
    forward,
    random_lattice,
)
from reference_impl.semiring import COUNT, LOG, LOG32, MAX, REAL, Semiring


@st.composite
def graphs(draw):
    """A random acyclic graph, with parallel arcs, dead ends, unreachable nodes, arcs in any order; exact weights."""
    nodes = draw(st.integers(2, 6))
    ends = st.tuples(st.integers(0, nodes - 2), st.integers(1, nodes - 1)).filter(lambda pair: pair[0] < pair[1])
    pairs = draw(st.lists(ends, min_size=5, max_size=14))
    arcs = tuple(Arc(a, b, (i,)) for i, (a, b) in enumerate(pairs))
    weights = [Fraction(draw(st.sampled_from([1, 3, 2, 7, 5, 0])), draw(st.integers(1, 5))) for _ in arcs]
    return Lattice(tuple(range(nodes)), arcs, (len(arcs),)), np.array(weights, dtype=object)


def path_sum(lattice, weights):
    return sum((REAL.product(weights[i] for i in path) for path in enumerate_paths(lattice)), Fraction(0))


@settings(max_examples=100)
@given(graphs())
def test_gradient_theorem(graph):
    """d log Z / d log w = posterior, for every arc: by dual numbers, by differences of Z, and by adding up paths."""
    lattice, weights = graph
    z = path_sum(lattice, weights)
    posteriors = arc_posteriors(lattice, weights, REAL)
    if z == 0:
        assert (posteriors == 0).all()
        return
    paths = list(enumerate_paths(lattice))
    for i, w in enumerate(weights):
        moved = [Dual(v, v if j == i else Fraction(0)) for j, v in enumerate(weights)]  # d/d log w moves w by w
        by_duals = forward(lattice, np.array(moved, dtype=object), REAL)[-1]
        by_difference = exact_difference(lambda v: path_sum(lattice, v), weights, i, h=Fraction(5, 3))
        by_paths = sum((REAL.product(weights[j] for j in path) for path in paths if i in path), Fraction(0))
        assert posteriors[i] == by_duals.tangent / by_duals.value
        assert posteriors[i] == w * by_difference / z
        assert posteriors[i] == by_paths / z


@given(graphs())
def test_forward_and_backward_agree_with_the_path_sum(graph):
    lattice, weights = graph
    z = path_sum(lattice, weights)
    assert forward(lattice, weights, REAL)[-1] == backward(lattice, weights, REAL)[0] == z
    log_weights = np.log(weights.astype(float), where=weights > 0, out=np.full(len(weights), -np.inf))
    np.testing.assert_allclose(np.exp(forward(lattice, log_weights)[-1]), float(z), atol=0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(backward(lattice, log_weights)[0]), float(z), atol=0, rtol=1e-12)
    exact = arc_posteriors(lattice, weights, REAL).astype(float)
    np.testing.assert_allclose(arc_posteriors(lattice, log_weights), exact, rtol=0, atol=1e-12)


@given(graphs())
def test_count_and_best_path(graph):
    """COUNT counts paths of non-zero weight; MAX finds the best of them."""
    lattice, weights = graph
    masses = [REAL.product(weights[i] for i in path) for path in enumerate_paths(lattice)]
    log_weights = np.log(weights.astype(float), where=weights > 0, out=np.full(len(weights), -np.inf))
    counted = lattice.arc_weights(log_weights, COUNT)
    assert forward(lattice, counted, COUNT)[-1] == sum(mass > 0 for mass in masses)
    assert forward(lattice, np.ones(len(weights), object), COUNT)[-1] == len(masses)
    best = max(masses, default=Fraction(0))
    assert np.exp(forward(lattice, log_weights, MAX)[-1]) == pytest.approx(float(best), rel=1e-12)


@given(graphs())
def test_posteriors_flow(graph):
    """One unit leaves the start and arrives at the end; at every other node as much leaves as arrives."""
    lattice, weights = graph
    if path_sum(lattice, weights) == 0:
        return
    balance = [Fraction(0)] * len(lattice.nodes)
    for arc, posterior in zip(lattice.arcs, arc_posteriors(lattice, weights, REAL), strict=True):
        balance[arc.source] -= posterior
        balance[arc.target] += posterior
    assert balance == [-1, *[0] * (len(balance) - 2), 1]


@given(graphs(), st.randoms(use_true_random=False))
def test_order_of_arcs_does_not_matter(graph, random):
    lattice, weights = graph
    order = list(range(len(weights)))
    random.shuffle(order)
    shuffled = Lattice(lattice.nodes, tuple(lattice.arcs[i] for i in order), lattice.shape)
    assert (arc_posteriors(shuffled, weights[order], REAL) == arc_posteriors(lattice, weights, REAL)[order]).all()
    assert forward(shuffled, weights[order], REAL)[-1] == forward(lattice, weights, REAL)[-1]


def test_enumerated_paths_are_paths():
    """Each begins at node 0, is connected, ends at the last node, and none comes twice."""
    lattice = Lattice((0, 1, 2, 3), (Arc(0, 1), Arc(0, 1), Arc(1, 3), Arc(1, 2), Arc(2, 3), Arc(0, 3)), ())
    paths = [tuple(path) for path in enumerate_paths(lattice)]
    assert sorted(paths) == [(0, 2), (0, 3, 4), (1, 2), (1, 3, 4), (5,)]


def test_gather_and_scatter_are_transposes():
    """<gather(x), p> = <x, scatter(p)>, with an entry that two arcs share and an arc that has none."""
    lattice = Lattice((0, 1, 2), (Arc(0, 1, (0, 1)), Arc(0, 1, (1, 2)), Arc(1, 2, (0, 1)), Arc(0, 2)), (2, 3))
    x = np.random.default_rng(0).normal(size=(2, 3))
    p = np.array([0.5, 2.0, -1.0, 7.0])
    gathered = lattice.arc_weights(x)
    assert gathered[3] == LOG.one
    scattered = lattice.occupancy(p)
    assert scattered[0, 1] == 0.5 - 1.0
    assert gathered @ p == pytest.approx((x * scattered).sum())


def test_weight_zero_counts_as_posterior_zero():
    """Where d log w has no meaning the posterior is 0, and where no path has mass all are."""
    diamond = Lattice((0, 1, 2), (Arc(0, 1), Arc(0, 1), Arc(1, 2)), ())
    np.testing.assert_array_equal(arc_posteriors(diamond, np.array([0.3, -np.inf, 0.0])), [1, 0, 1])
    np.testing.assert_array_equal(arc_posteriors(diamond, np.array([0.3, 0.1, -np.inf])), [0, 0, 0])
    nothing = arc_posteriors(diamond, np.array([0, 0, 1], dtype=object), REAL)
    assert nothing.tolist() == [0, 0, 0]


@given(graphs(), st.integers(0, 2**32))
def test_best_path(graph, seed):
    """No path weighs more, masked arcs are not used, and without a path there is none."""
    lattice, rng = graph[0], np.random.default_rng(seed)
    weights = np.where(rng.random(len(lattice.arcs)) < 0.2, -np.inf, rng.normal(size=len(lattice.arcs)))
    paths = {path: weights[list(path)].sum() for path in enumerate_paths(lattice)}
    best = best_path(lattice, weights)
    if max(paths.values(), default=-np.inf) == -np.inf:
        assert best == ()
    else:
        assert paths[best] == max(paths.values())


@pytest.mark.parametrize(("num_nodes", "num_extra"), [(2, 0), (2, 3), (6, 7), (30, 60)])
def test_random_lattice(num_nodes, num_extra):
    """A chain first, then as many arcs as asked for, each with an entry of its own; they differ with the generator."""
    lattice = random_lattice(np.random.default_rng(3), num_nodes, num_extra)
    ends = [(arc.source, arc.target) for arc in lattice.arcs]
    assert lattice.nodes == tuple(range(num_nodes))
    assert ends[:num_nodes - 1] == [(m, m + 1) for m in range(num_nodes - 1)]
    assert len(ends) == num_nodes - 1 + num_extra
    assert [arc.entry for arc in lattice.arcs] == [(i,) for i in range(len(ends))]
    assert lattice.shape == (len(ends),)
    assert random_lattice(np.random.default_rng(3), num_nodes, num_extra) == lattice
    if num_nodes > 2:
        assert random_lattice(np.random.default_rng(4), num_nodes, num_extra) != lattice
        assert max(b - a for a, b in ends) > 1


def test_random_lattice_refuses():
    for sizes, message in (((1, 2), "num_nodes = 1; expected num_nodes >= 2"),
                           ((3, -1), "num_extra = -1; expected num_extra >= 0")):
        with pytest.raises(ValueError, match=f"^{message}$"):
            random_lattice(np.random.default_rng(0), *sizes)


class TestDivisionBelongsToTheSemiring:
    """Posteriors on a semiring that is none of ours, and on those that have no division."""

    diamond = Lattice((0, 1, 2), (Arc(0, 2, (0,)), Arc(0, 1, (1,)), Arc(1, 2, (2,))), (3,))
    exact = np.array([Fraction(1, 2), Fraction(2, 5), Fraction(1, 4)])
    right = [5 / 6, 1 / 6, 1 / 6]

    def test_a_renamed_copy_of_log(self):
        mine = replace(LOG, name="mine")
        np.testing.assert_allclose(arc_posteriors(self.diamond, np.log(self.exact.astype(float)), mine), self.right,
                                   rtol=1e-15, atol=0)

    def test_float32(self):
        """Of the type of its numbers, and as exact as that is."""
        found = arc_posteriors(self.diamond, np.log(self.exact.astype(np.float32)), LOG32)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, self.right, rtol=1e-6, atol=0)

    def test_a_semiring_that_a_reader_wrote(self):
        """Powers of two, as (fraction, exponent): a division of its own is all that it needs."""
        def times(a, b):
            return a[0] * b[0], a[1] + b[1]

        def plus(a, b):
            return (a[0] + b[0] * Fraction(2) ** (b[1] - a[1]), a[1])

        scaled = Semiring("scaled", (Fraction(0), 0), (Fraction(1), 0), plus, times,
                          ratio=lambda part, whole: part[0] / whole[0] * Fraction(2) ** (part[1] - whole[1]))
        weights = np.empty(3, object)
        weights[:] = [(w * 2 ** i, -i) for i, w in enumerate(self.exact)]
        assert self.posteriors_of(weights, scaled) == [Fraction(5, 6), Fraction(1, 6), Fraction(1, 6)]

    def posteriors_of(self, weights, semiring):
        return arc_posteriors(self.diamond, weights, semiring).tolist()

    @pytest.mark.parametrize("semiring", [MAX, COUNT, replace(MAX, name="mine")], ids=lambda semiring: semiring.name)
    def test_without_division_it_is_refused(self, semiring):
        rule = rf"^semiring = '{semiring.name}', which has no division; expected one with a ratio, such as LOG or REAL$"
        with pytest.raises(ValueError, match=rule):
            arc_posteriors(self.diamond, np.ones(3), semiring)

    def test_z_on_each(self):
        log_weights = np.log(self.exact.astype(float))
        assert Z(self.diamond, self.exact, semiring=REAL) == Fraction(3, 5)
        assert Z(self.diamond, log_weights) == pytest.approx(np.log(0.6), rel=1e-15)
        assert Z(self.diamond, log_weights, semiring=MAX) == np.log(0.5)
        assert Z(self.diamond, np.ones(3, object), semiring=COUNT) == 2

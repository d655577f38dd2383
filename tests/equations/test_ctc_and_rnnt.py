"""Checks of the equations of the chapter that compares CTC and RNN-T. The left sides come from enumerated paths."""

from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import comb, prod

import numpy as np
import pytest
from brute_force import BLANK, expected_uses, probabilities, rnnt_mass, rnnt_occupancy, rnnt_paths, rnnt_z

from reference_impl.equations import check_equation, zero_outside
from reference_impl.lattice import enumerate_paths
from reference_impl.symbolic import field_grid, softmax
from reference_impl.topology import monotonic_rnnt_lattice

SHAPES = [(3, [1, 2]), (4, [2, 2]), (2, [1]), (3, [])]
BY_FRAME = [(probabilities(seed, (T, 3)), labels) for seed, (T, labels) in enumerate(SHAPES)]
BY_NODE = [(probabilities(seed, (T, len(labels) + 1, 3)), labels)
           for seed, (T, labels) in enumerate([*SHAPES, (2, [1, 2, 1])])]


def at_every_node(y, labels):
    """A constant predictor: the distribution of a frame at each of its nodes."""
    return np.repeat(y[:, None], len(labels) + 1, axis=1)


def mono_paths(T, V, labels):
    """Entries (t, u, k) of every string of one symbol a frame whose labels, blanks deleted, are the target."""
    strings = [s for s in product(range(V), repeat=T) if [k for k in s if k != BLANK] == list(labels)]
    return [[(t, sum(k != BLANK for k in s[:t]), k) for t, k in enumerate(s)] for s in strings]


def mono_z(y, labels):
    return sum(rnnt_mass(y, entries) for entries in mono_paths(len(y), y.shape[-1], labels))


def mono_occupancy(y, labels):
    return expected_uses(y, mono_paths(len(y), y.shape[-1], labels))


@pytest.mark.equation("eq-compare-mono-count")
def test_mono_count():
    """Enumerated paths of the lattice against the choice of U frames."""
    def rhs(T, U):
        return comb(T, U)

    def lhs(T, U):
        return len(list(enumerate_paths(monotonic_rnnt_lattice([1] * U, T, 2))))

    check_equation("eq-compare-mono-count", lhs, rhs, list(product(range(1, 6), range(4))))


@pytest.mark.equation("eq-compare-weakly")
def test_weakly_increasing_frames():
    """Z over all RNN-T paths of a constant predictor against weakly increasing frames of the labels."""
    def rhs(y, labels, T, U):
        return (prod(y[t, BLANK] for t in range(0, T))
                * sum(prod(y[tau[u], labels[u]] for u in range(0, U)) for tau in weakly(T, U)))

    def weakly(T, U):
        return combinations_with_replacement(range(T), U)

    check_equation("eq-compare-weakly", lambda y, labels, T, U: rnnt_z(at_every_node(y.array, labels), labels), rhs,
                   [(zero_outside(y), labels, len(y), len(labels)) for y, labels in BY_FRAME])


@pytest.mark.equation("eq-compare-strictly")
def test_strictly_increasing_frames():
    """Z over all monotonic strings of a constant predictor against strictly increasing frames of the labels."""
    def rhs(y, labels, T, U):
        return sum(prod(y[tau[u], labels[u]] for u in range(0, U))
                   * prod(y[t, BLANK] for t in range(0, T) if t not in tau) for tau in strictly(T, U))

    def strictly(T, U):
        return combinations(range(T), U)

    check_equation("eq-compare-strictly", lambda y, labels, T, U: mono_z(at_every_node(y.array, labels), labels), rhs,
                   [(zero_outside(y), labels, len(y), len(labels)) for y, labels in BY_FRAME])


@pytest.mark.equation("eq-compare-visits")
def test_visits():
    """Visits of a frame, counted along enumerated paths, against 1 and the labels expected there."""
    def lhs(visits, n, t):
        return visits[t]

    def rhs(visits, n, t):
        return 1 + n[t]

    cases = []
    for y, labels in BY_NODE:
        z, T = rnnt_z(y, labels), len(y)
        visits, n = ([Fraction(0)] * T for _ in range(2))
        for entries in rnnt_paths(y, labels):
            for t, _, k in entries:
                visits[t] += rnnt_mass(y, entries) / z
                n[t] += (k != BLANK) * rnnt_mass(y, entries) / z
        cases += [(visits, zero_outside(n), t) for t in range(T)]
    check_equation("eq-compare-visits", lhs, rhs, cases)


@pytest.mark.equation("eq-compare-mono-frame")
def test_mono_frame():
    """Node occupancies of monotonic RNN-T, from enumerated strings, add up to 1 in each frame."""
    def rhs(gamma, t, U):
        return sum(gamma[t, u] for u in range(0, U + 1))

    cases = [(zero_outside(mono_occupancy(y, labels).sum(axis=-1), zero=5), t, len(labels))
             for y, labels in BY_NODE if len(labels) <= len(y) for t in range(len(y))]
    check_equation("eq-compare-mono-frame", lambda *_: 1, rhs, cases)


def _by_score(z_of, occupancy_of):
    """sympy: (derivative of -log Z w.r.t. each score of a constant predictor, y, expected uses by frame, t, k)."""
    for T, labels, V in [(2, [1], 3), (3, [1], 2), (2, [1, 1], 2), (2, [1, 2], 3)]:
        x = field_grid("x", (T, V))
        y = softmax(x)
        by_node = at_every_node(y, labels)
        z, used = z_of(by_node, labels), occupancy_of(by_node, labels).sum(axis=1)
        for t, k in np.ndindex(x.shape):
            yield -x[t, k] * z.diff(x[t, k]) / z, zero_outside(y), zero_outside(used), t, k


@pytest.mark.equation("eq-compare-constant-grad")
def test_constant_predictor():
    """sympy's derivative of the RNN-T path sum with respect to the encoder's scores against the closed form."""
    def lhs(derivative, n, y, E, t, k):
        return derivative

    def rhs(derivative, n, y, E, t, k):
        return (1 + n[t]) * y[t, k] - E[t, k]

    cases = []
    for derivative, y, E, t, k in _by_score(rnnt_z, rnnt_occupancy):
        n = E.array[:, 1:].sum(axis=1)
        cases.append((derivative, zero_outside(n), y, E, t, k))
    check_equation("eq-compare-constant-grad", lhs, rhs, cases)


@pytest.mark.equation("eq-compare-mono-grad")
def test_mono_constant_predictor():
    """sympy's derivative of the sum over monotonic strings against belief minus expected use."""
    def lhs(derivative, y, E, t, k):
        return derivative

    def rhs(derivative, y, E, t, k):
        return y[t, k] - E[t, k]

    check_equation("eq-compare-mono-grad", lhs, rhs, _by_score(mono_z, mono_occupancy))

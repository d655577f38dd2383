"""The monotonic RNN-T lattice against strings of one symbol a frame; CTC and RNN-T lattices are compared elsewhere."""

from itertools import product
from math import comb

import numpy as np
import pytest

from reference_impl.lattice import arc_posteriors, enumerate_paths, forward
from reference_impl.topology import monotonic_rnnt_lattice


def spelled(lattice, path):
    return tuple(lattice.arcs[i].entry for i in path)


def entries_of(string, blank):
    """The entries (t, u, k) that a string of one symbol a frame uses: u counts its labels so far."""
    return tuple((t, sum(k != blank for k in string[:t]), k) for t, k in enumerate(string))


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize(("T", "U"), [(T, U) for T in range(1, 5) for U in range(4)])
def test_paths_are_the_strings_whose_labels_are_the_target(T, U, blank):
    """No runs are merged: deleting the blanks leaves the target."""
    targets = [k for k in (1, 1, 3, 0)[:U] if k != blank]
    strings = [s for s in product(range(4), repeat=T) if [k for k in s if k != blank] == targets]
    lattice = monotonic_rnnt_lattice(targets, T, 4, blank=blank)
    paths = [spelled(lattice, path) for path in enumerate_paths(lattice)]
    assert sorted(paths) == sorted(entries_of(string, blank) for string in strings)
    assert len(paths) == comb(T, len(targets))


def test_one_symbol_a_frame():
    """The posteriors of each frame add up to 1, as in CTC."""
    scores = np.random.default_rng(0).normal(size=(5, 3, 4))
    lattice = monotonic_rnnt_lattice([1, 3], 5, 4)
    weights = lattice.arc_weights(scores)
    np.testing.assert_allclose(lattice.occupancy(arc_posteriors(lattice, weights)).sum((1, 2)), 1, rtol=0, atol=1e-12)


def test_more_labels_than_frames():
    lattice = monotonic_rnnt_lattice([1, 1, 1], 2, 3)
    assert forward(lattice, lattice.arc_weights(np.zeros((2, 4, 3))))[-1] == -np.inf

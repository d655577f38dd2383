"""Check of the gradient theorem of the preface, on random acyclic lattices that are neither CTC nor RNN-T."""

from fractions import Fraction

import numpy as np
import pytest
from brute_force import probabilities

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation
from reference_impl.lattice import Arc, Lattice, enumerate_paths


def random_lattice(seed, num_nodes=5):
    """Arcs between random nodes (some doubled), and a chain so that a path exists; one entry an arc."""
    rng = np.random.default_rng(seed)
    pairs = [(i, i + 1) for i in range(num_nodes - 1)]
    pairs += [tuple(sorted(rng.choice(num_nodes, 2, replace=False).tolist())) for _ in range(6)]
    arcs = tuple(Arc(source, target, (i,)) for i, (source, target) in enumerate(pairs))
    return Lattice(tuple(range(num_nodes)), arcs, (len(arcs),))


@pytest.mark.equation("eq-gradient-theorem")
def test_gradient_theorem():
    """w / Z times the exact difference of the path sum against the share of the paths that use the arc."""
    def lhs(w, masses, paths, z, arc):
        def path_sum(w):
            return sum((np.prod(w[list(path)]) for path in paths), Fraction(0))

        return w[arc] / z * exact_difference(path_sum, w, (arc,), h=3)

    def rhs(w, masses, paths, z, arc):
        return sum(masses[i] / z * (arc in paths[i]) for i in range(0, len(paths)))

    cases = []
    for seed in range(3):
        lattice = random_lattice(seed)
        w = probabilities(seed, (len(lattice.arcs),))
        paths = list(enumerate_paths(lattice))
        assert len(paths) > 3
        masses = [np.prod(w[list(path)]) for path in paths]
        cases += [(w, masses, paths, sum(masses), arc) for arc in range(len(w))]
    check_equation("eq-gradient-theorem", lhs, rhs, cases)

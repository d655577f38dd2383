"""Small lattices as lists of arcs (node, node), on which chapters check what holds for all, and their paths by walking.

Node 0 is the start, the node of the highest number the end.
"""

from math import prod

import numpy as np

from reference_impl.equations import computed
from reference_impl.lattice import Arc, Lattice, random_lattice

# a chain, arcs side by side, nodes that cannot be reached (1, 2) or left (4), two of neither kind
LATTICES = [[(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 1), (0, 1)],
            [(0, 3), (1, 2), (2, 3), (3, 4), (3, 5), (0, 5)],
            *([(arc.source, arc.target) for arc in random_lattice(np.random.default_rng(seed), nodes, extra).arcs]
              for seed, nodes, extra in ((6, 4, 3), (1, 5, 4)))]

ENDS = {
    "one path": lambda arcs: len(paths_of(arcs)) == 1,
    "two arcs between the same nodes": lambda arcs: len(set(arcs)) < len(arcs),
    "a node that no path from the start reaches": lambda arcs: not all(walks(arcs, n) for n in range(last(arcs) + 1)),
    "a node that the end cannot be reached from": lambda arcs: not {*range(last(arcs))} <= {m for m, _ in arcs},
    "a weight of 0": lambda w: (w == 0).any(),
    "an arc on no path": lambda P, a: P[a] == 0,
    "an arc on every path": lambda P, a: P[a] == 1,
}


def last(arcs):
    """The last node."""
    return max(n for _, n in arcs)


def lattice_of(arcs):
    """The package's lattice; arc a uses entry a."""
    return Lattice(tuple(range(last(arcs) + 1)), tuple(Arc(*ends, (a,)) for a, ends in enumerate(arcs)), (len(arcs),))


@computed(kind="walking")
def walks(arcs, n):
    """All ways from the first node to node n, as lists of arcs."""
    if n == 0:
        return [[]]
    return [[*before, a] for a, (m, end) in enumerate(arcs) if end == n for before in walks(arcs, m)]


def paths_of(arcs):
    return walks(arcs, last(arcs))


def masses(ways, w):
    return [prod((w[a] for a in way), start=w[0] * 0 + 1) for way in ways]


def mean_sum(ways, w, v):
    """The mean of what ways collect of v, by their masses."""
    weighted = zip(masses(ways, w), ways, strict=True)
    return sum(mass * sum(v[a] for a in way) for mass, way in weighted) / sum(masses(ways, w))

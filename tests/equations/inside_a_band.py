"""RNN-T's paths inside a set of nodes and those that leave it, by enumeration; and the sum over those inside, by a
recursion that knows no path. Three chapters' bands are such sets."""

import numpy as np
from brute_force import blank_of, rnnt_mass, rnnt_paths, zero

from reference_impl.equations import computed


def window_nodes(lower, rows, U):
    """The nodes of a band: of each frame some rows from its lower bound on, as far as there are any."""
    return [(t, u) for t, low in enumerate(lower) for u in range(low, min(low + rows, U + 1))]


def is_inside(entries, nodes):
    return all(entry[:2] in nodes for entry in entries)


def paths_inside(y, targets, nodes):
    return [entries for entries in rnnt_paths(y, targets) if is_inside(entries, nodes)]


def paths_leaving(y, targets, nodes):
    return [entries for entries in rnnt_paths(y, targets) if not is_inside(entries, nodes)]


@computed
def path_shares(y, paths):
    """Of each path its share in the mass of all."""
    masses = [rnnt_mass(y, entries) for entries in paths]
    return [mass / sum(masses) for mass in masses]


@computed
def visit_shares(y, paths):
    """Of each node the share of the paths that visit it."""
    visits = np.full(y.shape[:2], zero(y), dtype=object)
    for entries, share in zip(paths, path_shares(y, paths), strict=True):
        for node in {entry[:2] for entry in entries}:
            visits[node] += share
    return visits


@computed(kind="recursion")
def z_inside(y, targets, nodes):
    """Z of the lattice that has lost all arcs at nodes outside: the forward recursion over what is left."""
    blank, alpha = blank_of(targets), np.full(y.shape[:2], y.sum() * 0, dtype=object)
    for t, u in np.ndindex(alpha.shape):
        if (t, u) not in nodes:
            continue
        if t == u == 0:
            alpha[t, u] += 1
        if t > 0:
            alpha[t, u] += alpha[t - 1, u] * y[t - 1, u, blank]
        if u > 0:
            alpha[t, u] += alpha[t, u - 1] * y[t, u - 1, targets[u - 1]]
    return alpha[-1, -1] * y[-1, -1, blank]

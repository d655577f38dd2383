"""What the checks of multi-blank RNN-T and of TDT share: ways on a grid whose steps go on several frames, by trying
every step."""

from fractions import Fraction

import numpy as np
from brute_force import rnnt_mass, zero

from reference_impl.equations import zero_outside

SCALES = Fraction(3, 5), Fraction(1), Fraction(9, 2)  # e^(-sigma) for sigma above, at and below 0


def ways(start, goal, steps):
    """The entries of each way from one node to another; ``steps(t, u)`` has pairs of a target and entries."""
    if start == goal:
        yield []
    elif start[0] <= goal[0] and start[1] <= goal[1]:
        for target, entries in steps(*start):
            yield from ([*entries, *rest] for rest in ways(target, goal, steps))


def mass_of_ways(y, start, goal, steps):
    return sum((rnnt_mass(y, way) for way in ways(start, goal, steps)), zero(y))


def mass_at_nodes(y, T, U, mass):
    """The array of a mass at each node (t, u)."""
    masses = np.full((T, U + 1), zero(y), dtype=object)
    for node in np.ndindex(T, U + 1):
        masses[node] += mass(node)
    return masses


def with_end(beta):
    """One more column, which contains nothing but the end."""
    column = np.full((1, beta.shape[1]), beta.flat[0] * 0, dtype=object)
    column[0, -1] += 1
    return np.vstack([beta, column])


class fenced(zero_outside):
    """0 before the first frame; elsewhere outside the array 5, which would be noticed."""

    def __init__(self, array):
        super().__init__(array, zero=5)

    def __getitem__(self, index):
        return 0 if index[0] < 0 and 0 <= index[1] < self.array.shape[1] else super().__getitem__(index)

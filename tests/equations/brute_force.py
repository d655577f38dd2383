"""Both losses by their definitions alone: strings that collapse, monotone paths. Exact, slow, and free of recursions.

The equation checks compare the book's formulas with these sums. Nothing here uses the package's lattices.
"""

from fractions import Fraction
from itertools import combinations, product

import numpy as np

from reference_impl.differences import random_integers


def probabilities(seed, shape):
    """Random positive fractions: entries taken as independent, so they need not sum to 1."""
    return random_integers(np.random.default_rng(seed), shape, bits=8) / Fraction(7)


def collapse(string, blank=0):
    """CTC's many-to-one map: merge runs, then drop blanks."""
    runs = [k for i, k in enumerate(string) if i == 0 or k != string[i - 1]]
    return [k for k in runs if k != blank]


def mass(y, string, start=0):
    """Product of the probabilities of a string's symbols, its first symbol standing in frame ``start``."""
    total = Fraction(1)
    for t, k in enumerate(string, start):
        total *= y[t, k]
    return total


def ctc_strings(y, targets):
    """All strings over the vocabulary that collapse to the targets."""
    T, V = y.shape
    return [string for string in product(range(V), repeat=T) if collapse(string) == list(targets)]


def ctc_z(y, targets):
    return sum((mass(y, string) for string in ctc_strings(y, targets)), Fraction(0))


def extended(targets):
    return [0, *(k for label in targets for k in (label, 0))]


def stands_in(string, t, s, targets):
    """Whether a string, cut after frame t, stands in state s: it ends with l'_s and has spelled the labels up to s."""
    return string[t] == extended(targets)[s] and collapse(string[:t + 1]) == list(targets[:(s + 1) // 2])


def ctc_alpha(y, targets):
    """Mass of all beginnings that stand in state s after frame t, by trying every string."""
    T, V = y.shape
    alpha = np.full((T, 2 * len(targets) + 1), Fraction(0), dtype=object)
    for t, s in np.ndindex(alpha.shape):
        beginnings = product(range(V), repeat=t + 1)
        alpha[t, s] = sum((mass(y, b) for b in beginnings if stands_in(b, t, s, targets)), Fraction(0))
    return alpha


def ctc_beta(y, targets):
    """Mass of all endings after frame t that complete the targets from state s, by trying every string."""
    T, V = y.shape
    beta = np.full((T, 2 * len(targets) + 1), Fraction(0), dtype=object)
    for t, s in np.ndindex(beta.shape):
        beginning = extended(targets)[:s + 1]
        beta[t, s] = sum((mass(y, ending, t + 1) for ending in product(range(V), repeat=T - t - 1)
                          if collapse([*beginning, *ending]) == list(targets)), Fraction(0))
    return beta


def ctc_occupancy(y, targets):
    """Probability of symbol k in frame t among the strings that collapse to the targets."""
    occupancy = np.full(y.shape, Fraction(0), dtype=object)
    for string in ctc_strings(y, targets):
        for t, k in enumerate(string):
            occupancy[t, k] += mass(y, string)
    return occupancy / ctc_z(y, targets)


def rnnt_paths(T, U):
    """All RNN-T paths as lists of steps (t, u, is_label): T blanks and U labels in any order that ends with a blank."""
    for label_places in combinations(range(T + U - 1), U):
        t = u = 0
        path = []
        for place in range(T + U):
            is_label = place in label_places
            path.append((t, u, is_label))
            t, u = (t, u + 1) if is_label else (t + 1, u)
        yield path


def step_entries(path, targets):
    """The entry (t, u, k) of the probabilities that each step of a path uses."""
    return [(t, u, targets[u] if is_label else 0) for t, u, is_label in path]


def rnnt_mass(y, entries):
    total = Fraction(1)
    for entry in entries:
        total *= y[entry]
    return total


def rnnt_z(y, targets):
    T = len(y)
    return sum((rnnt_mass(y, step_entries(path, targets)) for path in rnnt_paths(T, len(targets))), Fraction(0))


def rnnt_alpha(y, targets):
    """Mass of all beginnings that reach node (t, u): the steps before it, counted once for each way to get there."""
    return _rnnt_partial(y, targets, before=True)


def rnnt_beta(y, targets):
    """Mass of all endings from node (t, u), its own step included."""
    return _rnnt_partial(y, targets, before=False)


def _rnnt_partial(y, targets, before):
    T, U = len(y), len(targets)
    partial = np.full((T, U + 1), Fraction(0), dtype=object)
    for t, u in np.ndindex(T, U + 1):
        pieces = set()
        for path in rnnt_paths(T, U):
            for place, step in enumerate(path):
                if step[:2] == (t, u):
                    pieces.add(tuple(path[:place] if before else path[place:]))
        partial[t, u] = sum((rnnt_mass(y, step_entries(piece, targets)) for piece in pieces), Fraction(0))
    return partial


def rnnt_occupancy(y, targets):
    """Expected number of uses of each entry by a path, given the targets."""
    occupancy = np.full(y.shape, Fraction(0), dtype=object)
    for path in rnnt_paths(len(y), len(targets)):
        entries = step_entries(path, targets)
        for entry in entries:
            occupancy[entry] += rnnt_mass(y, entries)
    return occupancy / rnnt_z(y, targets)

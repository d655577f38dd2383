"""k2's grid, which has one more column than there are frames: it holds the end. Its masses and shares, recomputed."""

from fractions import Fraction

import numpy as np
from brute_force import Target, blank_of, rnnt_alpha, rnnt_occupancy, rnnt_z, zero

from reference_impl.equations import computed


@computed(kind="recursion")
def alpha_by_recursion(y, labels, factors):
    """k2's forward recursion on the grid with one more column; what is at a node is multiplied by the node's factor,
    and all that comes after it follows suit."""
    T, U = len(y), len(labels)
    alpha = np.full((T + 1, U + 1), zero(y), dtype=object)
    for t, u in np.ndindex(alpha.shape):
        if t == u == 0:
            alpha[t, u] += 1
        if u > 0 and t < T:
            alpha[t, u] += alpha[t, u - 1] * y[t, u - 1, labels[u - 1]]
        if t > 0:
            alpha[t, u] += alpha[t - 1, u] * y[t - 1, u, blank_of(labels)]
        alpha[t, u] *= factors[t, u]
    return alpha


def ones(y):
    return np.full((y.shape[0] + 1, y.shape[1]), Fraction(1))


def alpha_beyond(y, labels):
    """alpha by enumeration of prefixes, with one more column: a path of u labels that has left frame T - 1 is a path
    of the shorter target."""
    blank = blank_of(labels)
    beyond = [rnnt_z(y[:, :u + 1], Target(labels[:u], blank)) for u in range(len(labels) + 1)]
    return np.vstack([rnnt_alpha(y, labels), np.array([beyond], dtype=object)])


def visits_beyond(y, labels):
    """gamma by enumeration of paths, with one more column: all end in its last row."""
    column = np.full((1, len(labels) + 1), Fraction(0))
    column[0, -1] += 1
    return np.vstack([rnnt_occupancy(y, labels).sum(axis=-1), column])


def shares(y, labels):
    """Of the mass of all prefixes at a node, the parts that came by label and by blank."""
    alpha, (T, rows, _) = alpha_beyond(y, labels), y.shape
    by_label, by_blank = alpha * 0, alpha * 0
    by_label[:T, 1:] = alpha[:T, :-1] * y[:, range(rows - 1), list(labels)] / alpha[:T, 1:]
    by_blank[1:] = alpha[:-1] * y[..., blank_of(labels)] / alpha[1:]
    return by_label, by_blank

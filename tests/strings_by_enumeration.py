"""What a decoder should find, by enumeration: every string of labels with its mass. No prefix, no beam, no recursion.

Masses are sums over the alignments of ``enumeration.py``, in whatever arithmetic the probabilities have. It uses no
code of the package.
"""

import itertools
from fractions import Fraction
from math import prod

import numpy as np
from enumeration import collapse, rnnt_alignments


def fractions(seed, shape, *, mask=0.2):
    """Random fractions, some of them 0; a row of up to four sums to 1 at most, since entries are independent."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, 9, shape) * (rng.random(shape) >= mask)
    return np.array([Fraction(n, 32) for n in numbers.ravel().tolist()], dtype=object).reshape(shape)


def normalised(seed, shape):
    """Random positive fractions that sum to 1 over the last axis."""
    probs = fractions(seed, shape, mask=0)
    return probs / probs.sum(-1, keepdims=True)


def as_log(probs):
    """Log-probs in float64, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(probs).astype(np.float64))


def all_labels(V, blank, longest):
    """Every string of up to ``longest`` labels."""
    labels = [k for k in range(V) if k != blank]
    return [string for U in range(longest + 1) for string in itertools.product(labels, repeat=U)]


def ctc_strings(probs, blank, add=lambda a, b: a + b):
    """{labels: mass} of all V^T strings of symbols; with ``add=max``, of the best path of each."""
    masses = {}
    for symbols in itertools.product(range(probs.shape[1]), repeat=len(probs)):
        labels, mass = tuple(collapse(symbols, blank)), prod(probs[t, k] for t, k in enumerate(symbols))
        masses[labels] = add(masses[labels], mass) if labels in masses else mass
    return masses


def rnnt_strings(row, blank, longest, *, most=None):
    """{labels: mass} of all strings of up to ``longest`` labels, by paths with at most ``most`` labels in a frame."""
    T, V = row(()).shape
    masses = {}
    for labels in all_labels(V, blank, longest):
        rows = [row(labels[:u]) for u in range(len(labels) + 1)]
        masses[labels] = sum(
            prod(rows[u][t, k] for t, u, k in path) for path in rnnt_alignments(labels, T, V, blank)
            if most is None or all(count <= most for count in labels_in_frames(path, blank, T)))
    return masses


def labels_in_frames(path, blank, T):
    return [sum(frame == t and k != blank for frame, _, k in path) for t in range(T)]


def ending_network(seed, T, V, blank, longest):
    """A transducer in fractions whose rows depend on all labels, and which writes no more than ``longest``."""
    def row(labels):
        if len(labels) >= longest:
            return np.array([[Fraction(int(k == blank)) for k in range(V)]] * T, dtype=object)
        return normalised([seed, len(labels), *labels], (T, V))

    return row


def begins_with(masses, prefix):
    """The mass of all strings that begin with a prefix."""
    return sum(mass for labels, mass in masses.items() if labels[:len(prefix)] == tuple(prefix))

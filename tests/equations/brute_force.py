"""Sums over the alignments of ``tests/enumeration.py`` in exact arithmetic: Z, alpha, beta, occupancies. No recursion.

The equation checks compare the formulas of the book with these sums. No lattice of the package is used. The blank is 0.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import sympy
from enumeration import collapse, ctc_alignments, rnnt_alignments

from reference_impl.differences import random_integers


def probabilities(seed, shape):
    """Random positive fractions: entries taken as independent, so they need not sum to 1."""
    return random_integers(np.random.default_rng(seed), shape, bits=8) / Fraction(7)


def slopes_in_logs(y, paths):
    """d(-log Z) / d log y of each entry by sympy, which knows no chain rule of ours: y = e^v is put into the sum over
    the paths (lists of entries), -log of it differentiated with respect to v, and v = log y put in. Exact rationals."""
    v = np.array(sympy.symbols(f"v:{y.size}", real=True), dtype=object).reshape(y.shape)
    loss = -sympy.log(sum(sympy.prod([sympy.exp(v[tuple(entry)]) for entry in path]) for path in paths))
    point = {symbol: sympy.log(sympy.Rational(value.numerator, value.denominator))
             for symbol, value in zip(v.flat, y.flat, strict=True)}
    slopes = np.empty(y.shape, dtype=object)
    for index in np.ndindex(y.shape):
        slope = sympy.Rational(sympy.simplify(sympy.diff(loss, v[index]).subs(point)))
        slopes[index] = Fraction(int(slope.p), int(slope.q))
    return slopes


def mass(y, string, start=0):
    """Product of the probabilities of a string's symbols, its first symbol standing in frame ``start``."""
    total = Fraction(1)
    for t, k in enumerate(string, start):
        total *= y[t, k]
    return total


def ctc_strings(y, targets):
    """All strings over the vocabulary that collapse to the targets."""
    return [tuple(k for _, k in entries) for entries in ctc_alignments(targets, *y.shape, 0)]


def ctc_z(y, targets):
    return sum((mass(y, string) for string in ctc_strings(y, targets)), Fraction(0))


def extended(targets):
    return [0, *(k for label in targets for k in (label, 0))]


def stands_in(string, t, s, targets):
    """Whether a string, cut after frame t, stands in state s: it ends with l'_s and has spelled the labels up to s."""
    return string[t] == extended(targets)[s] and collapse(string[:t + 1], 0) == list(targets[:(s + 1) // 2])


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
                          if collapse([*beginning, *ending], 0) == list(targets)), Fraction(0))
    return beta


def ctc_occupancy(y, targets):
    """Probability of symbol k in frame t among the strings that collapse to the targets."""
    occupancy = np.full(y.shape, Fraction(0), dtype=object)
    for string in ctc_strings(y, targets):
        for t, k in enumerate(string):
            occupancy[t, k] += mass(y, string)
    return occupancy / ctc_z(y, targets)


def rnnt_paths(y, targets):
    """All RNN-T paths, each as the entries (t, u, k) of the probabilities that its steps use."""
    return rnnt_alignments(targets, len(y), y.shape[-1], 0)


def rnnt_mass(y, entries):
    total = Fraction(1)
    for entry in entries:
        total *= y[entry]
    return total


def rnnt_z(y, targets):
    return sum((rnnt_mass(y, entries) for entries in rnnt_paths(y, targets)), Fraction(0))


def rnnt_alpha(y, targets):
    """Mass of all beginnings that reach node (t, u): the steps before it, counted once for each way to get there."""
    return _rnnt_partial(y, targets, before=True)


def rnnt_beta(y, targets):
    """Mass of all endings from node (t, u), its own step included."""
    return _rnnt_partial(y, targets, before=False)


def _rnnt_partial(y, targets, before):
    partial = np.full(y.shape[:2], Fraction(0), dtype=object)
    for node in np.ndindex(partial.shape):
        pieces = set()
        for entries in rnnt_paths(y, targets):
            for place, entry in enumerate(entries):
                if entry[:2] == node:
                    pieces.add(tuple(entries[:place] if before else entries[place:]))
        partial[node] = sum((rnnt_mass(y, piece) for piece in pieces), Fraction(0))
    return partial


def rnnt_occupancy(y, targets):
    """Expected number of uses of each entry by a path, given the targets."""
    occupancy = np.full(y.shape, Fraction(0), dtype=object)
    for entries in rnnt_paths(y, targets):
        for entry in entries:
            occupancy[entry] += rnnt_mass(y, entries)
    return occupancy / rnnt_z(y, targets)


def rnnt_beta_beyond(y, targets):
    """beta by enumeration of endings, with one more column, which contains nothing but the end."""
    column = np.full((1, len(targets) + 1), Fraction(0), dtype=object)
    column[0, -1] = Fraction(1)
    return np.vstack([rnnt_beta(y, targets), column])


def ctc_skip(targets):
    """kappa: 1 where a path may enter a state from two states below."""
    labels = extended(targets)
    return [int(s >= 2 and labels[s] != labels[s - 2]) for s in range(len(labels))]


def ctc_alpha_arriving(y, targets):
    """Mass of all strings of t symbols to which the symbol of s can be appended so that the result stands in s."""
    T, V = y.shape
    labels, alpha = extended(targets), np.full((len(y), 2 * len(targets) + 1), Fraction(0), dtype=object)
    for t, s in np.ndindex(alpha.shape):
        alpha[t, s] = sum((mass(y, b) for b in product(range(V), repeat=t)
                           if stands_in((*b, labels[s]), t, s, targets)), Fraction(0))
    return alpha


def ctc_beta_2006(y, targets):
    """Mass of all strings for frame t and after that begin with the symbol of s and complete the targets from there."""
    T, V = y.shape
    labels, beta = extended(targets), np.full((len(y), 2 * len(targets) + 1), Fraction(0), dtype=object)
    for t, s in np.ndindex(beta.shape):
        beta[t, s] = sum((mass(y, ending, t) for ending in product(range(V), repeat=T - t)
                          if ending[0] == labels[s] and collapse([*labels[:s + 1], *ending], 0) == list(targets)),
                         Fraction(0))
    return beta

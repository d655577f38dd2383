"""Sums over the alignments of ``tests/enumeration.py`` in exact arithmetic: Z, alpha, beta, occupancies. No recursion.

The equation checks compare the formulas of the book with these sums. No lattice of the package is used. The blank is 0.
They add and multiply whatever ``y`` holds: fractions, rational functions, dual numbers. The cases on which several
chapters are checked stand here, too.
"""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import sympy
from enumeration import collapse, ctc_alignments, rnnt_alignments

from reference_impl.differences import exact_difference, random_integers

BLANK = 0


def probabilities(seed, shape):
    """Random positive fractions: entries taken as independent, so they need not sum to 1."""
    return random_integers(np.random.default_rng(seed), shape, bits=8) / Fraction(7)


# a skip, a repeat, a skip after a repeat, one label, none
CTC_TARGETS = [[1, 2], [1, 1], [2, 2, 1], [1], []]
CTC_INPUTS = [(probabilities(seed, (4 + len(targets) // 3, 3)), targets) for seed, targets in enumerate(CTC_TARGETS)]
# several labels, a repeat, more labels than frames, one frame, no label
RNNT_SHAPES = [(3, [1, 2]), (3, [2, 2]), (2, [1, 2, 1]), (1, [2]), (3, [])]
RNNT_INPUTS = [(probabilities(seed, (T, len(labels) + 1, 3)), labels) for seed, (T, labels) in enumerate(RNNT_SHAPES)]


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


def zero(y):
    """The 0 of the numbers in y."""
    return y.flat[0] * 0


def mass(y, string, start=0):
    """Product of the probabilities of a string's symbols, its first symbol standing in frame ``start``."""
    return prod(y[t, k] for t, k in enumerate(string, start))


def ctc_strings(y, targets):
    """All strings over the vocabulary that collapse to the targets."""
    return [tuple(k for _, k in entries) for entries in ctc_alignments(targets, *y.shape, BLANK)]


def ctc_z(y, targets):
    return sum((mass(y, string) for string in ctc_strings(y, targets)), zero(y))


def ctc_grad_probs(y, targets, t, k):
    """dZ/dy of the sum over strings, by an exact difference."""
    return exact_difference(lambda y: ctc_z(y, targets), y, (t, k), h=3)


def extended(targets):
    return [BLANK, *(k for label in targets for k in (label, BLANK))]


def states(y, targets):
    """Every (t, s)."""
    return np.ndindex(len(y), 2 * len(targets) + 1)


def stands_in(string, t, s, targets):
    """Whether a string, cut after frame t, stands in state s: it ends with l'_s and has spelled the labels up to s."""
    return string[t] == extended(targets)[s] and collapse(string[:t + 1], BLANK) == list(targets[:(s + 1) // 2])


def ctc_partial(y, targets, frames, wanted):
    """At each (t, s), the mass of the strings for the frames ``frames(t)`` that are ``wanted(string, t, s)``, by trying
    every string."""
    partial = np.full((len(y), 2 * len(targets) + 1), zero(y), dtype=object)
    for t, s in states(y, targets):
        strings = product(range(y.shape[1]), repeat=len(frames(t)))
        start = frames(t).start
        partial[t, s] += sum(mass(y, string, start) for string in strings if wanted(string, t, s))
    return partial


def ctc_alpha(y, targets):
    """Mass of all beginnings that stand in state s after frame t."""
    return ctc_partial(y, targets, lambda t: range(t + 1),
                       lambda beginning, t, s: stands_in(beginning, t, s, targets))


def ctc_alpha_arriving(y, targets):
    """Mass of all strings of t symbols to which the symbol of s can be appended so that the result stands in s."""
    return ctc_partial(y, targets, lambda t: range(t),
                       lambda string, t, s: stands_in((*string, extended(targets)[s]), t, s, targets))


def ctc_beta(y, targets):
    """Mass of all endings after frame t that complete the targets from state s."""
    labels = extended(targets)

    def completes(ending, t, s):
        return collapse([*labels[:s + 1], *ending], BLANK) == list(targets)

    return ctc_partial(y, targets, lambda t: range(t + 1, len(y)), completes)


def ctc_beta_2006(y, targets):
    """Mass of all strings for frame t and after that begin with the symbol of s and complete the targets from there."""
    labels = extended(targets)

    def completes(string, t, s):
        return string[0] == labels[s] and collapse([*labels[:s + 1], *string], BLANK) == list(targets)

    return ctc_partial(y, targets, lambda t: range(t, len(y)), completes)


def ctc_occupancy(y, targets):
    """Probability of symbol k in frame t among the strings that collapse to the targets."""
    occupancy = np.full(y.shape, zero(y), dtype=object)
    for string in ctc_strings(y, targets):
        for t, k in enumerate(string):
            occupancy[t, k] += mass(y, string)
    return occupancy / ctc_z(y, targets)


def ctc_skip(targets):
    """kappa: 1 where a path may enter a state from two states below."""
    labels = extended(targets)
    return [int(s >= 2 and labels[s] != labels[s - 2]) for s in range(len(labels))]


def rnnt_nodes():
    """Every node (t, u) of every case: y, labels, t, u."""
    for y, labels in RNNT_INPUTS:
        for t, u in np.ndindex(y.shape[:2]):
            yield y, labels, t, u


def next_label(labels, u):
    """l_u, or an impossible symbol when all labels are out."""
    return labels[u] if 0 <= u < len(labels) else -1


def rnnt_paths(y, targets):
    """All RNN-T paths, each as the entries (t, u, k) of the probabilities that its steps use."""
    return rnnt_alignments(targets, len(y), y.shape[-1], BLANK)


def rnnt_mass(y, entries):
    return prod(y[entry] for entry in entries)


def rnnt_z(y, targets):
    return sum((rnnt_mass(y, entries) for entries in rnnt_paths(y, targets)), zero(y))


def rnnt_grad_probs(y, targets, *entry):
    """dZ/dy of the sum over paths, by an exact difference."""
    return exact_difference(lambda y: rnnt_z(y, targets), y, entry, h=5)


def rnnt_alpha(y, targets):
    """Mass of all beginnings that reach node (t, u): the steps before it, counted once for each way to get there."""
    return _rnnt_partial(y, targets, before=True)


def rnnt_beta(y, targets):
    """Mass of all endings from node (t, u), its own step included."""
    return _rnnt_partial(y, targets, before=False)


def rnnt_beta_beyond(y, targets):
    """beta by enumeration of endings, with one more column, which contains nothing but the end."""
    column = np.full((1, len(targets) + 1), zero(y), dtype=object)
    column[0, -1] += 1
    return np.vstack([rnnt_beta(y, targets), column])


def _rnnt_partial(y, targets, before):
    partial = np.full(y.shape[:2], zero(y), dtype=object)
    for node in np.ndindex(partial.shape):
        pieces = set()
        for entries in rnnt_paths(y, targets):
            for place, entry in enumerate(entries):
                if entry[:2] == node:
                    pieces.add(tuple(entries[:place] if before else entries[place:]))
        partial[node] += sum(rnnt_mass(y, piece) for piece in pieces)
    return partial


def rnnt_occupancy(y, targets):
    """Expected number of uses of each entry by a path, given the targets."""
    return expected_uses(y, rnnt_paths(y, targets))


def expected_uses(y, paths):
    """The same for any list of paths: mass of those that use an entry, divided by the mass of all."""
    masses = [rnnt_mass(y, entries) for entries in paths]
    uses = np.full(y.shape, zero(y), dtype=object)
    for entries, weight in zip(paths, masses, strict=True):
        for entry in entries:
            uses[entry] += weight
    return uses / sum(masses)

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
from sympy import QQ
from sympy.polys.fields import field

from reference_impl.differences import exact_difference, random_integers
from reference_impl.equations import computed
from reference_impl.symbolic import softmax

BLANK = 0


class Target(list):
    """Labels whose blank is another than 0."""

    def __init__(self, labels, blank):
        super().__init__(labels)
        self.blank = blank


def blank_of(targets):
    return getattr(targets, "blank", BLANK)


def every_target(T, V, blank):
    """All targets of up to T + 1 labels: those that can be spelled in T frames, and more."""
    labels = [k for k in range(V) if k != blank]
    return [Target(targets, blank) for U in range(T + 2) for targets in product(labels, repeat=U)]


def probabilities(seed, shape):
    """Random positive fractions: entries taken as independent, so they need not sum to 1."""
    return random_integers(np.random.default_rng(seed), shape, bits=8) / Fraction(7)


# a skip, a repeat, a skip after a repeat, one label, none; one frame, all labels equal, another blank
CTC_SHAPES = [(4, 3, [1, 2]), (4, 3, [1, 1]), (5, 3, [2, 2, 1]), (4, 3, [1]), (4, 3, []), (1, 3, [2]),
              (5, 2, [1, 1, 1]), (3, 4, Target([3, 0], blank=2))]
CTC_INPUTS = [(probabilities(seed, (T, V)), targets) for seed, (T, V, targets) in enumerate(CTC_SHAPES)]
# several labels, a repeat, more labels than frames, one frame, no label; few symbols, equal labels, blank 2
RNNT_SHAPES = [(3, 3, [1, 2]), (3, 3, [2, 2]), (2, 3, [1, 2, 1]), (1, 3, [2]), (3, 3, []), (3, 2, [1]),
               (2, 2, [1, 1, 1]), (2, 4, Target([3, 0], blank=2))]
RNNT_INPUTS = [(probabilities(seed, (T, len(labels) + 1, V)), labels)
               for seed, (T, V, labels) in enumerate(RNNT_SHAPES)]
# the same, small ones first: a run with random numbers ends at the first that differs
RNNT_INPUTS_BY_SIZE = sorted(RNNT_INPUTS, key=lambda case: case[0].size)


@computed(kind="sympy")
def slope(value, symbol):
    """The derivative of a polynomial, a rational function or an expression."""
    return value.diff(symbol)


@computed(kind="sympy")
def slope_at(function, values, *index):
    """The derivative of a rational function of many fractions with respect to one of them, at these values: sympy
    differentiates it as a function of that one."""
    symbol = field("s", QQ)[1]
    moved = np.array([QQ(value.numerator, value.denominator) for value in values.flat], dtype=object)
    moved = moved.reshape(values.shape)
    moved[index] = symbol
    derivative, at = symbol.field(function(moved)).diff(symbol), QQ(values[index].numerator, values[index].denominator)
    found = derivative.numer.evaluate(0, at) / derivative.denom.evaluate(0, at)
    return Fraction(int(found.numerator), int(found.denominator))


def each_entry(shape, function):
    """The array of a function of the index."""
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        out[index] = function(*index)
    return out


def grad_logit(z, x, *index):
    """d(-log Z)/d logit for x = e^logit, where z is Z as a function of the probabilities."""
    def z_of_x(x):
        return z(softmax(x))

    return -x[index] * slope_at(z_of_x, x, *index) / z_of_x(x)


@computed(kind="sympy")
def rnnt_grad_logits(x, targets):
    """d(-log Z)/d logit of every entry for x = e^logit, by sympy from the sum over paths."""
    return each_entry(x.shape, lambda *index: grad_logit(lambda y: rnnt_z(y, targets), x, *index))


@computed(kind="sympy")
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


@computed
def ctc_strings(y, targets):
    """All strings over the vocabulary that collapse to the targets."""
    return [tuple(k for _, k in entries) for entries in ctc_alignments(targets, *y.shape, blank_of(targets))]


@computed
def ctc_z(y, targets):
    return sum((mass(y, string) for string in ctc_strings(y, targets)), zero(y))


@computed(kind="exact difference")
def ctc_grad_probs(y, targets, t, k):
    """dZ/dy of the sum over strings, by an exact difference."""
    return exact_difference(lambda y: ctc_z(y, targets), y, (t, k), h=3)


def extended(targets):
    blank = blank_of(targets)
    return [blank, *(k for label in targets for k in (label, blank))]


def states(y, targets):
    """Every (t, s)."""
    return np.ndindex(len(y), 2 * len(targets) + 1)


def stands_in(string, t, s, targets):
    """Whether a string, cut after frame t, stands in state s: it ends with l'_s and has spelled the labels up to s."""
    spelled = collapse(string[:t + 1], blank_of(targets))
    return string[t] == extended(targets)[s] and spelled == list(targets[:(s + 1) // 2])


def ctc_partial(y, targets, frames, wanted):
    """At each (t, s), the mass of the strings for the frames ``frames(t)`` that are ``wanted(string, t, s)``, by trying
    every string."""
    partial = np.full((len(y), 2 * len(targets) + 1), zero(y), dtype=object)
    for t, s in states(y, targets):
        strings = product(range(y.shape[1]), repeat=len(frames(t)))
        start = frames(t).start
        partial[t, s] += sum(mass(y, string, start) for string in strings if wanted(string, t, s))
    return partial


@computed
def ctc_alpha(y, targets):
    """Mass of all prefixes that stand in state s after frame t."""
    return ctc_partial(y, targets, lambda t: range(t + 1),
                       lambda beginning, t, s: stands_in(beginning, t, s, targets))


@computed
def ctc_alpha_arriving(y, targets):
    """Mass of all strings of t symbols to which the symbol of s can be appended so that the result stands in s."""
    return ctc_partial(y, targets, lambda t: range(t),
                       lambda string, t, s: stands_in((*string, extended(targets)[s]), t, s, targets))


@computed
def ctc_beta(y, targets):
    """Mass of all suffixes after frame t that complete the targets from state s."""
    labels = extended(targets)

    def completes(ending, t, s):
        return collapse([*labels[:s + 1], *ending], labels[0]) == list(targets)

    return ctc_partial(y, targets, lambda t: range(t + 1, len(y)), completes)


@computed
def ctc_beta_2006(y, targets):
    """Mass of all strings for frame t and after that begin with the symbol of s and complete the targets from there."""
    labels = extended(targets)

    def completes(string, t, s):
        return string[0] == labels[s] and collapse([*labels[:s + 1], *string], labels[0]) == list(targets)

    return ctc_partial(y, targets, lambda t: range(t, len(y)), completes)


@computed
def ctc_through(y, targets):
    """At each (t, s), the mass of the strings that collapse to the targets and stand in state s after frame t."""
    through = np.full((len(y), 2 * len(targets) + 1), zero(y), dtype=object)
    for string in ctc_strings(y, targets):
        for t, s in states(y, targets):
            through[t, s] += mass(y, string) * stands_in(string, t, s, targets)
    return through


@computed
def ctc_occupancy(y, targets):
    """Probability of symbol k in frame t among the strings that collapse to the targets."""
    occupancy = np.full(y.shape, zero(y), dtype=object)
    for string in ctc_strings(y, targets):
        for t, k in enumerate(string):
            occupancy[t, k] += mass(y, string)
    return occupancy / ctc_z(y, targets)


def ctc_emissions(y, targets):
    """alpha beta, added up over the states that emit k: (T, V)."""
    through, emitted = ctc_alpha(y, targets) * ctc_beta(y, targets), y * 0
    for t, s in states(y, targets):
        emitted[t, extended(targets)[s]] += through[t, s]
    return emitted


def ctc_occupancy_of_nodes(y, targets):
    """E from alpha and beta, and Z as their sum over the last frame: no list of strings."""
    emitted = ctc_emissions(y, targets)
    return emitted / emitted[-1].sum()


def ctc_skip(targets):
    """kappa: 1 where a path may enter a state from two states below."""
    labels = extended(targets)
    return [int(s >= 2 and labels[s] != labels[s - 2]) for s in range(len(labels))]


def rnnt_nodes(inputs):
    """Every node (t, u) of every case: y, labels, t, u."""
    for y, labels in inputs:
        for t, u in np.ndindex(y.shape[:2]):
            yield y, labels, t, u


def next_label(labels, u):
    """l_u, or an impossible symbol when all labels are out."""
    return labels[u] if 0 <= u < len(labels) else -1


@computed
def rnnt_paths(y, targets):
    """All RNN-T paths, each as the entries (t, u, k) of the probabilities that its steps use."""
    return rnnt_alignments(targets, len(y), y.shape[-1], blank_of(targets))


def rnnt_mass(y, entries):
    return prod(y[entry] for entry in entries)


@computed
def rnnt_z(y, targets):
    return sum((rnnt_mass(y, entries) for entries in rnnt_paths(y, targets)), zero(y))


@computed(kind="exact difference")
def rnnt_grad_probs(y, targets, *entry):
    """dZ/dy of the sum over paths, by an exact difference."""
    return exact_difference(lambda y: rnnt_z(y, targets), y, entry, h=5)


@computed
def rnnt_z_of_rows(rows, targets):
    """Z of RNN-T, whose nodes are the rows of one matrix."""
    return rnnt_z(_grid(rows, targets), targets)


@computed
def rnnt_paths_of_rows(rows, targets):
    """Its paths, each as entries of that matrix."""
    return [[(t * (len(targets) + 1) + u, k) for t, u, k in path] for path in rnnt_paths(_grid(rows, targets), targets)]


def _grid(rows, targets):
    return rows.reshape(-1, len(targets) + 1, rows.shape[-1])


@computed
def rnnt_alpha(y, targets):
    """Mass of all prefixes that reach node (t, u): the steps before it, counted once for each way to get there."""
    return _rnnt_partial(y, targets, before=True)


@computed
def rnnt_beta(y, targets):
    """Mass of all suffixes from node (t, u), its own step included."""
    return _rnnt_partial(y, targets, before=False)


def rnnt_beta_beyond(y, targets):
    """beta by enumeration of suffixes, with one more column, which contains nothing but the end."""
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


@computed
def rnnt_occupancy(y, targets):
    """Expected number of uses of each entry by a path, given the targets."""
    return expected_uses(y, rnnt_paths(y, targets))


def rnnt_arcs_of_nodes(y, targets):
    """Posteriors of the blank arcs, (T, U+1), and of the label arcs, (T, U): alpha, the step, and beta, over Z, which
    is beta of the first node: no list of paths."""
    alpha, beta = rnnt_alpha(y, targets), rnnt_beta_beyond(y, targets)
    e_blank = alpha * y[:, :, blank_of(targets)] * beta[1:] / beta[0, 0]
    e_label = alpha[:, :-1] * y[:, range(len(targets)), targets] * beta[:-1, 1:] / beta[0, 0]
    return e_blank, e_label


def rnnt_occupancy_of_nodes(y, targets):
    """The same, each at the entry that the arc uses."""
    occupancy = y * 0
    entries = (..., blank_of(targets)), (slice(None), range(len(targets)), list(targets))
    for entry, posteriors in zip(entries, rnnt_arcs_of_nodes(y, targets), strict=True):
        occupancy[entry] = posteriors
    return occupancy


def rnnt_gamma(y, targets):
    """alpha beta / Z of each node, Z as beta of the first."""
    beta = rnnt_beta(y, targets)
    return rnnt_alpha(y, targets) * beta / beta[0, 0]


@computed
def expected_uses(y, paths):
    """The same for any list of paths: mass of those that use an entry, divided by the mass of all."""
    masses = [rnnt_mass(y, entries) for entries in paths]
    uses = np.full(y.shape, zero(y), dtype=object)
    for entries, weight in zip(paths, masses, strict=True):
        for entry in entries:
            uses[entry] += weight
    return uses / sum(masses)

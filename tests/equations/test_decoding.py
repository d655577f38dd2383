"""Checks of the equations of the chapter on decoding. The left sides come from strings, not from prefixes."""

import functools
import itertools
from fractions import Fraction
from math import prod

import notation
import numpy as np
import pytest
from brute_force import mass, probabilities, zero
from enumeration import collapse, rnnt_alignments
from strings_by_enumeration import ending_network
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside

NOTATION = Notation({
    **{tex: notation.CTC.patterns[tex] for tex in (r"y_{#t}(#k)",)},
    r"b_{#t}(g)": "b[#t]", r"c_{#t}(g)": "c[#t]", r"b_{#t}(gk)": "b_longer[#t]", r"c_{#t}(gk)": "c_longer[#t]",
    r"q_{#t}(g, k)": "q[#t]", r"\rho_{#n}": "rest[#n]", "P(g)": "p", "P(gk)": "p_longer", "Z(g)": "z",
    r"\varnothing": "blank", r"\hat g": "last"})
QUANTITIES = Quantities(
    {"y": "T, V", "b": "T + 1", "c": "T + 1", "b_longer": "T + 1", "c_longer": "T + 1", "q": "T", "rest": "T + 1",
     "alpha": "T", "T": "T", "V": "V"},
    {"T = 1": lambda T: T == 1, "t = 0": lambda t: t == 0, "t = T - 1": lambda t, T: t == T - 1,
     "a repeated label": lambda k, last: k == last, "another label": lambda k, last: k != last and last is not None,
     "the empty prefix": lambda last: last is None, "a blank that is not 0": lambda blank: blank != 0},
)
SEVEN = Fraction(7)  # what reads as 7 outside its range is noticed when it is read there
# frames, symbols, blank: one frame, more symbols than frames, a blank that is not 0
SIZES = [(1, 3, 1), (3, 3, 0), (4, 3, 2), (5, 2, 1), (2, 4, 0)]


@functools.cache
def scores(T, V):
    return probabilities([T, V], (T, V))


def prefixes(T, V, blank):
    """All prefixes of up to three labels, no longer than the frames, each with the labels that may follow."""
    labels = [k for k in range(V) if k != blank]
    for length in range(min(T, 3)):
        for g in itertools.product(labels, repeat=length):
            for k in labels:
                yield g, k


def cases():
    for T, V, blank in SIZES:
        for g, k in prefixes(T, V, blank):
            yield scores(T, V), g, k, blank


def last_of(g):
    return g[-1] if g else None


@computed
def ending(y, g, blank, in_label):
    """Entry n: the mass of the strings of n symbols that collapse to g, and end in a label, or else do not."""
    found = np.full(len(y) + 1, zero(y), dtype=object)
    for n in range(len(y) + 1):
        for string in itertools.product(range(y.shape[1]), repeat=n):
            if tuple(collapse(string, blank)) == tuple(g) and (n > 0 and string[-1] != blank) == in_label:
                found[n] += mass(y, string)
    return found


@computed
def growing(y, g, k, blank):
    """Entry t: the mass of the strings of t + 1 symbols that collapse to g and k, and without the last symbol to g."""
    found = np.full(len(y), zero(y), dtype=object)
    for t in range(len(y)):
        for string in itertools.product(range(y.shape[1]), repeat=t + 1):
            if [tuple(collapse(string[:n], blank)) for n in (t, t + 1)] == [tuple(g), (*g, k)]:
                found[t] += mass(y, string)
    return found


@computed
def begins(y, g, blank):
    """The mass of all strings over the frames whose collapse begins with g."""
    return sum((mass(y, string) for string in itertools.product(range(y.shape[1]), repeat=len(y))
                if collapse(string, blank)[:len(g)] == list(g)), zero(y))


@computed
def exactly(y, g, blank):
    """The mass of all strings over the frames that collapse to g."""
    return sum((mass(y, string) for string in itertools.product(range(y.shape[1]), repeat=len(y))
                if collapse(string, blank) == list(g)), zero(y))


def ends_in_blank(y, g, blank):
    return zero_outside(ending(y, g, blank, False))


def ends_in_label(y, g, blank):
    return zero_outside(ending(y, g, blank, True))


def grows(y, g, k, blank):
    return zero_outside(growing(y, g, k, blank))


@computed
def rest_of(y):
    """Entry n: the mass of all strings over the frames from n on."""
    return np.array([sum((mass(y, string, n) for string in itertools.product(range(y.shape[1]), repeat=len(y) - n)),
                         zero(y)) for n in range(len(y) + 1)], dtype=object)


@pytest.mark.equation("eq-dec-rest", over={"k": "range(V)"})
def test_rest():
    """All strings over the last frames against the frame's total and the rest."""
    def lhs(rest, y, V, t):
        return rest[t]

    def rhs(rest, y, V, t):
        return sum(y[t, k] for k in range(0, V)) * rest[t + 1]

    check_equation("eq-dec-rest", lhs, rhs, (
        (zero_outside(rest_of(y)), zero_outside(y, zero=SEVEN), V, t)
        for T, V, _ in SIZES for y in [scores(T, V)] for t in range(T)))


@pytest.mark.equation("eq-dec-entering")
def test_entering():
    """The strings that grow in frame t against those that may be continued, by their ends."""
    def lhs(q, b, c, y, k, last, t):
        return q[t]

    def rhs(q, b, c, y, k, last, t):
        return (b[t] + (k != last) * c[t]) * y[t, k]

    check_equation("eq-dec-entering", lhs, rhs, (
        (grows(y, g, k, blank), ends_in_blank(y, g, blank), ends_in_label(y, g, blank), zero_outside(y), k,
         last_of(g), t) for y, g, k, blank in cases() for t in range(len(y))))


@pytest.mark.equation("eq-dec-prefix")
def test_prefix():
    """All strings that begin with the longer prefix against those that grow into it, and anything after."""
    def lhs(p_longer, q, rest, T):
        return p_longer

    def rhs(p_longer, q, rest, T):
        return sum(q[t] * rest[t + 1] for t in range(0, T))

    check_equation("eq-dec-prefix", lhs, rhs, (
        (begins(y, (*g, k), blank), zero_outside(growing(y, g, k, blank), zero=SEVEN),
         zero_outside(rest_of(y), zero=SEVEN), len(y))
        for y, g, k, blank in cases()))


@pytest.mark.equation("eq-dec-label")
def test_label():
    """The strings that end in the new label against those that grow, and those that repeat it."""
    def lhs(c_longer, q, y, k, t):
        return c_longer[t + 1]

    def rhs(c_longer, q, y, k, t):
        return q[t] + c_longer[t] * y[t, k]

    check_equation("eq-dec-label", lhs, rhs, (
        (ends_in_label(y, (*g, k), blank), grows(y, g, k, blank), zero_outside(y), k, t)
        for y, g, k, blank in cases() for t in range(len(y))))


@pytest.mark.equation("eq-dec-blank")
def test_blank():
    """The strings of the longer prefix that end in a blank against all of it, one frame earlier."""
    def lhs(c_longer, b_longer, y, blank, t):
        return b_longer[t + 1]

    def rhs(c_longer, b_longer, y, blank, t):
        return (c_longer[t] + b_longer[t]) * y[t, blank]

    check_equation("eq-dec-blank", lhs, rhs, (
        (ends_in_label(y, (*g, k), blank), ends_in_blank(y, (*g, k), blank), zero_outside(y), blank, t)
        for y, g, k, blank in cases() for t in range(len(y))))


@pytest.mark.equation("eq-dec-string")
def test_string():
    """The strings that collapse to g against the two masses after the last frame."""
    def lhs(z, b, c, T):
        return z

    def rhs(z, b, c, T):
        return c[T] + b[T]

    check_equation("eq-dec-string", lhs, rhs, (
        (exactly(y, g, blank), ends_in_blank(y, g, blank), ends_in_label(y, g, blank), len(y))
        for y, g, _, blank in cases()))


@pytest.mark.equation("eq-dec-split", patterns={"P(gk)": "p_longer[k]"}, over={r"k \ne \varnothing": "for k in labels"})
def test_split():
    """The strings that begin with g against g itself and those that go on."""
    def lhs(p, z, p_longer, labels):
        return p

    def rhs(p, z, p_longer, labels):
        return z + sum(p_longer[k] for k in labels)

    def split():
        for y, g, _, blank in cases():
            labels = [k for k in range(y.shape[1]) if k != blank]
            yield begins(y, g, blank), exactly(y, g, blank), {k: begins(y, (*g, k), blank) for k in labels}, labels

    check_equation("eq-dec-split", lhs, rhs, split())


# --- RNN-T ---

# frames, symbols, blank, the most labels that the network writes
NETWORKS = [(1, 3, 1, 2), (3, 3, 0, 3), (2, 4, 2, 2), (4, 2, 1, 3)]


@functools.cache
def network(*size):
    return ending_network(5, *size)


@computed
def rnnt_begins(size, g):
    """The mass of all paths whose labels begin with g."""
    T, V, blank, longest = size
    labels, row, total = [k for k in range(V) if k != blank], network(*size), 0
    for more in range(longest - len(g) + 1):
        for rest in itertools.product(labels, repeat=more):
            string = (*g, *rest)
            total += sum(prod(row(string[:u])[t, k] for t, u, k in path)
                         for path in rnnt_alignments(string, T, V, blank))
    return total


@computed
def rnnt_alpha_of(size, g):
    """Entry t: the mass of the prefixes that have written g and passed t blanks."""
    T, V, blank, _ = size
    row, found = network(*size), np.zeros(T, dtype=object)
    for t in range(T):
        ways = rnnt_alignments(g, t + 1, V, blank)  # each ends with the blank of frame t, which is taken off
        found[t] = sum(prod(row(g[:u])[s, k] for s, u, k in path[:-1]) for path in ways)
    return found


@pytest.mark.equation("eq-dec-rnnt-prefix", patterns={r"\alpha(#t, g)": "alpha[#t]", r"y_{#t,g}(#k)": "y[#t, #k]"})
def test_rnnt_prefix():
    """All paths whose labels begin with the longer prefix against those that enter its row."""
    def lhs(p_longer, alpha, y, k, T):
        return p_longer

    def rhs(p_longer, alpha, y, k, T):
        return sum(alpha[t] * y[t, k] for t in range(0, T))

    def reached():
        for size in NETWORKS:
            T, V, blank, longest = size
            for g, k in prefixes(longest, V, blank):
                yield (rnnt_begins(size, (*g, k)), zero_outside(rnnt_alpha_of(size, g), zero=SEVEN),
                       zero_outside(network(*size)(g), zero=SEVEN), k, T)

    check_equation("eq-dec-rnnt-prefix", lhs, rhs, reached())

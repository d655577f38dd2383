"""Checks of the equations of the chapter on the RNN-T loss. The left sides come from enumerated paths, or from a walk
through everything that a random transducer can do."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import RNNT_INPUTS as INPUTS
from brute_force import Target, blank_of, probabilities, rnnt_alpha, rnnt_beta_beyond, rnnt_paths, rnnt_z
from brute_force import rnnt_nodes as nodes

from reference_impl.equations import Quantities, check_equation, computed, zero_outside

NOTATION = notation.RNNT
QUANTITIES = ranges.RNNT | Quantities(ends={
    "N = 0": lambda N: N == 0,
    "N = 1": lambda N: N == 1,
    "n = 0": lambda n: n == 0,
    "n = T + U - 1": lambda n, T, U: n == T + U - 1,
    "q = 0": lambda q: q == 0,
    "q < 0": lambda q: q < 0,
})


@computed(kind="walking")
def walks(T, labels, blank):
    """All ways from (0, 0) by a blank to the right and by the next label up, until the last blank, found step by step;
    each as the entries (t, u, k) of its steps."""
    found, unfinished = [], [[]]
    while unfinished:
        entries = unfinished.pop()
        t = sum(k == blank for _, _, k in entries)
        u = len(entries) - t
        if t < T:
            unfinished += [[*entries, (t, u, k)] for k in [blank, *labels[u:u + 1]]]
        elif u == len(labels):
            found.append(entries)
    return found


@pytest.mark.equation("eq-rnnt-path-count", patterns={"C(T, U)": "count"})
def test_path_count():
    """Walks over the grid, counted, against the binomial coefficient."""
    def rhs(count, T, U):
        return comb(T + U - 1, U)

    targets = [], [1], Target([3, 0], blank=2), [1, 1, 1]
    check_equation("eq-rnnt-path-count", lambda count, T, U: count, rhs, (
        (len(walks(T, list(labels), blank_of(labels))), T, len(labels)) for T in range(1, 6) for labels in targets))


def test_enumerated_paths_are_the_walks():
    """What the checks below enumerate, by choosing the steps that are labels, against the walks."""
    for y, labels in INPUTS:
        assert sorted(rnnt_paths(y, labels)) == sorted(walks(len(y), list(labels), blank_of(labels)))


NO_LABEL = ("T < U", "V < U", "all labels equal", "no two labels equal")


@pytest.mark.equation("eq-rnnt-empty-target")
def test_empty_target():
    """Z over all paths, where there is no label, against the blanks of the one row."""
    def rhs(z, y, blank, T):
        return prod(y[t, 0, blank] for t in range(0, T))

    cases = [(probabilities(T, (T, 1, V)), Target([], blank)) for T, V, blank in [(1, 3, 0), (2, 3, 2), (4, 3, 1)]]
    check_equation("eq-rnnt-empty-target", lambda z, *_: z, rhs, (
        (rnnt_z(y, labels), zero_outside(y, zero=5), blank_of(labels), len(y)) for y, labels in cases),
        left_out={end: "there is no label" for end in NO_LABEL})


ONE_FRAME = [([], 2), ([2], 3), ([1, 2, 2], 3), ([1, 1, 1], 2), (Target([3, 0], blank=2), 4)]


@pytest.mark.equation("eq-rnnt-one-frame")
def test_one_frame():
    """Z over all paths, where there is one frame, against the labels and then the blank."""
    def rhs(z, y, labels, blank, U):
        return prod(y[0, u, labels[u]] for u in range(0, U)) * y[0, U, blank]

    cases = [(probabilities(len(labels), (1, len(labels) + 1, V)), labels) for labels, V in ONE_FRAME]
    check_equation("eq-rnnt-one-frame", lambda z, *_: z, rhs, (
        (rnnt_z(y, labels), zero_outside(y, zero=5), zero_outside(labels, zero=0), blank_of(labels), len(labels))
        for y, labels in cases), left_out={"V < T": "there is one frame"})


class RandomTransducer:
    """A distribution for each frame and each string written so far."""

    def __init__(self, seed, T, V, N, blank=0):
        self.T, self.N, self.blank = T, N, blank
        labels = [k for k in range(V) if k != blank]
        self.strings = [list(product(labels, repeat=U)) for U in range(N + 2)]
        rng, self.table = np.random.default_rng(seed), {}
        for t in range(T):
            for string in sum(self.strings, []):
                counts = rng.integers(1, 10, size=V).tolist()
                self.table[t, string] = [Fraction(count, sum(counts)) for count in counts]

    def scores(self, string):
        """y of the grid of a string, and the string as its target."""
        return (np.array([[self.table[t, string[:u]] for u in range(len(string) + 1)] for t in range(self.T)],
                         dtype=object), Target(string, self.blank))

    def of_strings(self, function):
        return {string: function(*self.scores(string)) for strings in self.strings for string in strings}

    def courses(self):
        return courses(self.table, self.T, self.N, self.blank)


@computed(kind="walking")
def courses(table, T, N, blank):
    """Everything that the transducer can do until it has left the last frame or written more than N labels: each course
    as (string, its mass, number of strings of at most N labels that it shows in the last frame)."""
    found, going = [], [(0, (), Fraction(1), 0)]
    while going:
        t, string, mass, shown = going.pop()
        if t == T or len(string) > N:
            found.append((string, mass, shown))
            continue
        for k, p in enumerate(table[t, string]):
            after = (t + 1, string) if k == blank else (t, (*string, k))
            going.append((*after, mass * p, shown + (t == T - 1)))
    return found


def transducers():
    """One frame, one label, no string but the empty one, strings of at most one label, longer ones; another blank."""
    return [RandomTransducer(0, 1, 3, 2), RandomTransducer(1, 2, 3, 0), RandomTransducer(2, 3, 2, 3),
            RandomTransducer(3, 3, 3, 1), RandomTransducer(4, 2, 3, 2, blank=1)]


def test_a_string_has_the_mass_of_its_paths():
    for transducer in transducers():
        finished = Counter()
        for string, mass, _ in transducer.courses():
            finished[string] += mass
        for string in sum(transducer.strings[:-1], []):
            assert rnnt_z(*transducer.scores(string)) == finished[string]


STRINGS = {r"\mathcal A^U": "strings[U]"}


@pytest.mark.equation("eq-rnnt-normalised", patterns=STRINGS | {"Z(#l)": "z[#l]", "P_N": "more"})
def test_normalised():
    """Z over the enumerated paths of every string of up to N labels, and the courses of a random transducer that write
    more: together 1."""
    def rhs(z, strings, more, N):
        return sum(sum(z[string] for string in strings[U]) for U in range(0, N + 1)) + more

    check_equation("eq-rnnt-normalised", lambda *_: 1, rhs, (
        (each.of_strings(rnnt_z), each.strings,
         sum(mass for string, mass, _ in each.courses() if len(string) > each.N), each.N) for each in transducers()))


@pytest.mark.equation("eq-rnnt-without-last-blank", patterns=STRINGS | {
    "Z'(#l)": "reaching[#l]", r"\mathbb E\,[\, M \,]": "sum(mass * M for _, mass, M in courses)"})
def test_without_last_blank():
    """alpha of the last node, by enumeration, summed over strings, against the expected number of strings that a random
    transducer shows in its last frame. Both sides are mutated."""
    def left(reaching, strings, courses, N):
        return sum(sum(reaching[string] for string in strings[U]) for U in range(0, N + 1))

    def right(reaching, strings, courses, N):
        return sum(mass * M for _, mass, M in courses)

    cases = [(each.of_strings(lambda y, target: rnnt_alpha(y, target)[-1, -1]), each.strings, each.courses(), each.N)
             for each in transducers()]
    check_equation("eq-rnnt-without-last-blank", left, right, cases)
    check_equation("eq-rnnt-without-last-blank", right, left, cases)


@pytest.mark.equation("eq-rnnt-homogeneous", patterns={"Z(#y)": "rnnt_z(#y, labels)"})
def test_homogeneous():
    """Z over all paths with every score multiplied by q against a power of q times Z."""
    def rhs(y, labels, q, T, U):
        return q ** (T + U) * rnnt_z(y, labels)

    check_equation("eq-rnnt-homogeneous", lambda y, labels, q, T, U: rnnt_z(q * y, labels), rhs, (
        (y, labels, q, len(y), len(labels)) for y, labels in INPUTS for q in (2, Fraction(-1, 3), 0)))


@pytest.mark.equation("eq-rnnt-alpha", "eq-short-rnnt-alpha")
def test_alpha_recursion():
    """Each alpha by enumeration of prefixes against the recursion from its two neighbours."""
    def rhs(alpha, y, labels, blank, t, u):
        return alpha[t - 1, u] * y[t - 1, u, blank] + alpha[t, u - 1] * y[t, u - 1, labels[u - 1]]

    cases = [(zero_outside(rnnt_alpha(y, labels)), zero_outside(y), zero_outside(labels), blank_of(labels), t, u)
             for y, labels, t, u in nodes(INPUTS) if (t, u) != (0, 0)]
    check_equation("eq-rnnt-alpha", lambda alpha, y, labels, blank, t, u: alpha[t, u], rhs, cases)
    check_equation("eq-short-rnnt-alpha", lambda alpha, y, labels, blank, t, u: alpha[t, u], rhs, cases)


@pytest.mark.equation("eq-rnnt-total")
def test_total():
    """Z over all paths against what reaches the last node and leaves it by the last blank."""
    def rhs(z, alpha, y, blank, T, U):
        return alpha[T - 1, U] * y[T - 1, U, blank]

    check_equation("eq-rnnt-total", lambda z, *_: z, rhs, (
        (rnnt_z(y, labels), rnnt_alpha(y, labels), y, blank_of(labels), len(y), len(labels)) for y, labels in INPUTS))


@pytest.mark.equation("eq-rnnt-beta")
def test_beta_recursion():
    """Each beta by enumeration of suffixes against the recursion from its two neighbours."""
    def rhs(beta, y, labels, blank, t, u):
        return y[t, u, blank] * beta[t + 1, u] + y[t, u, labels[u]] * beta[t, u + 1]

    check_equation("eq-rnnt-beta", lambda beta, y, labels, blank, t, u: beta[t, u], rhs, (
        (zero_outside(rnnt_beta_beyond(y, labels)), zero_outside(y), zero_outside(labels), blank_of(labels), t, u)
        for y, labels, t, u in nodes(INPUTS)))


@pytest.mark.equation("eq-rnnt-beta-total")
def test_beta_total():
    """Z over all paths against the beta of the first node."""
    def rhs(z, beta):
        return beta[0, 0]

    check_equation("eq-rnnt-beta-total", lambda z, beta: z, rhs, (
        (rnnt_z(y, labels), zero_outside(rnnt_beta_beyond(y, labels))) for y, labels in INPUTS))


@pytest.mark.equation("eq-rnnt-node-mass", patterns={r"y_{t',u'}(k)": "y[entry]"}, over={
    r"\pi \text{ through } (t, u)": "for pi in paths if (t, u) in [entry[:2] for entry in pi]",
    r"(t', u', k) \in \pi": "for entry in pi"})
def test_node_mass():
    """alpha * beta against the products of the paths through the node."""
    def lhs(alpha, beta, paths, y, labels, t, u):
        return alpha[t, u] * beta[t, u]

    def rhs(alpha, beta, paths, y, labels, t, u):
        return sum(prod(y[entry] for entry in pi) for pi in paths if (t, u) in [entry[:2] for entry in pi])

    check_equation("eq-rnnt-node-mass", lhs, rhs, (
        (rnnt_alpha(y, labels), rnnt_beta_beyond(y, labels), rnnt_paths(y, labels), y, labels, t, u)
        for y, labels, t, u in nodes(INPUTS)))


@pytest.mark.equation(
    "eq-rnnt-diagonal-sum", over={"t + u = n": "for t in range(T) for u in range(U + 1) if t + u == n"},
    conditions={r"n = 0, \dots, T + U - 1": "0 <= n <= T + U - 1"})
def test_diagonal_sum():
    """Z over all paths against the sum along each anti-diagonal."""
    def rhs(z, alpha, beta, n, T, U):
        return sum(alpha[t, u] * beta[t, u] for t in range(0, T) for u in range(0, U + 1) if t + u == n)

    beyond = "beta(T, u) is 0 for u < U, and no diagonal reaches the end (T, U)"
    check_equation("eq-rnnt-diagonal-sum", lambda z, *_: z, rhs, (
        (rnnt_z(y, labels), zero_outside(rnnt_alpha(y, labels), zero=5),
         zero_outside(rnnt_beta_beyond(y, labels), zero=5), n, len(y), len(labels))
        for y, labels in INPUTS for n in range(len(y) + len(labels))),
        equivalent={"shift bound: range(0, T) -> range(0, T + 1)": beyond})

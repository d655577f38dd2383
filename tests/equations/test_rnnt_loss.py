"""Checks of the equations of the chapter on the RNN-T loss. The left sides come from enumerated paths, or from a walk
through everything that a random transducer can do."""

from collections import Counter
from fractions import Fraction
from itertools import product
from math import comb, prod

import numpy as np
import pytest
from brute_force import BLANK, probabilities, rnnt_alpha, rnnt_beta, rnnt_beta_beyond, rnnt_mass, rnnt_paths, rnnt_z
from brute_force import RNNT_INPUTS as INPUTS
from brute_force import rnnt_nodes as nodes

from reference_impl.equations import check_equation, zero_outside


@pytest.mark.equation("eq-rnnt-path-count")
def test_path_count():
    """Enumerated paths against the binomial coefficient."""
    def rhs(T, U):
        return comb(T + U - 1, U)

    def lhs(T, U):
        return len(rnnt_paths(np.empty((T, U + 1, 2)), [1] * U))

    check_equation("eq-rnnt-path-count", lhs, rhs, [(T, U) for T in range(1, 6) for U in range(4)])


@pytest.mark.equation("eq-rnnt-empty-target")
def test_empty_target():
    """Z over all paths, where there is no label, against the blanks of the one row."""
    def rhs(z, y, T):
        return prod(y[t, 0, BLANK] for t in range(0, T))

    cases = [probabilities(T, (T, 1, 3)) for T in (1, 2, 4)]
    check_equation("eq-rnnt-empty-target", lambda z, *_: z, rhs, [
        (rnnt_z(y, []), zero_outside(y, zero=5), len(y)) for y in cases])


@pytest.mark.equation("eq-rnnt-one-frame")
def test_one_frame():
    """Z over all paths, where there is one frame, against the labels and then the blank."""
    def rhs(z, y, labels, U):
        return prod(y[0, u, labels[u]] for u in range(0, U)) * y[0, U, BLANK]

    cases = [(probabilities(len(labels), (1, len(labels) + 1, 3)), labels) for labels in ([], [2], [1, 2, 2])]
    check_equation("eq-rnnt-one-frame", lambda z, *_: z, rhs, [
        (rnnt_z(y, labels), zero_outside(y, zero=5), zero_outside(labels, zero=0), len(labels))
        for y, labels in cases])


class RandomTransducer:
    """A distribution for each frame and each string written so far, and everything that can then happen.

    ``finished[l]`` is the mass of the courses whose output is l, ``too_long`` that of the courses that write more than
    ``most`` labels. A course is (mass, number of strings of at most ``most`` labels shown in the last frame).
    """

    LABELS = (1, 2)

    def __init__(self, seed, frames, most):
        self.frames, self.most = frames, most
        self.rng, self.table = np.random.default_rng(seed), {}
        self.finished, self.too_long, self.courses = Counter(), Fraction(0), []
        self.run(0, (), Fraction(1), 0)

    def distribution(self, t, string):
        if (t, string) not in self.table:
            counts = self.rng.integers(1, 10, size=3).tolist()
            self.table[t, string] = [Fraction(count, sum(counts)) for count in counts]
        return self.table[t, string]

    def run(self, t, string, mass, shown):
        if t == self.frames:
            self.finished[string] += mass
            self.courses.append((mass, shown))
            return
        if len(string) > self.most:
            self.too_long += mass
            self.courses.append((mass, shown))
            return
        shown += t == self.frames - 1
        for k, p in enumerate(self.distribution(t, string)):
            self.run(t + (k == BLANK), string if k == BLANK else (*string, k), mass * p, shown)

    def strings(self, length):
        return product(self.LABELS, repeat=length)

    def scores(self, target):
        return np.array([[self.distribution(t, target[:u]) for u in range(len(target) + 1)]
                         for t in range(self.frames)], dtype=object)


TRANSDUCERS = [RandomTransducer(0, 1, 2), RandomTransducer(1, 2, 2), RandomTransducer(2, 3, 3)]


def test_a_string_has_the_mass_of_its_paths():
    for transducer in TRANSDUCERS:
        assert len(transducer.finished) == sum(2**U for U in range(transducer.most + 1))
        for target, probability in transducer.finished.items():
            assert rnnt_z(transducer.scores(target), target) == probability


@pytest.mark.equation("eq-rnnt-normalised")
def test_normalised():
    """Z over the enumerated paths of every string of up to N labels, and the courses of a random transducer that write
    more: together 1."""
    def rhs(z, strings, R, N):
        return sum(sum(z(target) for target in strings(U)) for U in range(0, N + 1)) + R

    check_equation("eq-rnnt-normalised", lambda *_: 1, rhs, [
        (lambda target, transducer=transducer: rnnt_z(transducer.scores(target), target), transducer.strings,
         transducer.too_long, transducer.most) for transducer in TRANSDUCERS])


@pytest.mark.equation("eq-rnnt-without-last-blank")
def test_without_last_blank():
    """alpha of the last node, by enumeration, summed over strings, against the expected number of strings that a random
    transducer shows in its last frame."""
    def lhs(transducer, courses):
        return sum(rnnt_alpha(transducer.scores(target), target)[-1, -1]
                   for U in range(transducer.most + 1) for target in transducer.strings(U))

    def rhs(transducer, courses):
        return sum(mass * M for mass, M in courses)

    check_equation("eq-rnnt-without-last-blank", lhs, rhs, [
        (transducer, transducer.courses) for transducer in TRANSDUCERS])


@pytest.mark.equation("eq-rnnt-homogeneous")
def test_homogeneous():
    """Z over all paths with every score multiplied by q against a power of q times Z."""
    def rhs(y, labels, z, q, T, U):
        return q ** (T + U) * z

    check_equation("eq-rnnt-homogeneous", lambda y, labels, z, q, T, U: rnnt_z(q * y, labels), rhs, [
        (y, labels, rnnt_z(y, labels), q, len(y), len(labels)) for y, labels in INPUTS for q in (2, Fraction(-1, 3))])


@pytest.mark.equation("eq-rnnt-alpha")
def test_alpha_recursion():
    """Each alpha by enumeration of beginnings against the recursion from its two neighbours."""
    def rhs(alpha, y, labels, t, u):
        return alpha[t - 1, u] * y[t - 1, u, BLANK] + alpha[t, u - 1] * y[t, u - 1, labels[u - 1]]

    cases = [(zero_outside(rnnt_alpha(y, labels)), zero_outside(y), zero_outside(labels), t, u)
             for y, labels, t, u in nodes() if (t, u) != (0, 0)]
    check_equation("eq-rnnt-alpha", lambda alpha, y, labels, t, u: alpha[t, u], rhs, cases)


@pytest.mark.equation("eq-rnnt-total")
def test_total():
    """Z over all paths against what reaches the last node and leaves it by the last blank."""
    def rhs(z, alpha, y, T, U):
        return alpha[T - 1, U] * y[T - 1, U, BLANK]

    check_equation("eq-rnnt-total", lambda z, *_: z, rhs, [
        (rnnt_z(y, labels), rnnt_alpha(y, labels), y, len(y), len(labels)) for y, labels in INPUTS])


@pytest.mark.equation("eq-rnnt-beta")
def test_beta_recursion():
    """Each beta by enumeration of endings against the recursion from its two neighbours."""
    def rhs(beta, y, labels, t, u):
        return y[t, u, BLANK] * beta[t + 1, u] + y[t, u, labels[u]] * beta[t, u + 1]

    cases = [(zero_outside(rnnt_beta_beyond(y, labels)), zero_outside(y), zero_outside(labels), t, u)
             for y, labels, t, u in nodes()]
    check_equation("eq-rnnt-beta", lambda beta, y, labels, t, u: beta[t, u], rhs, cases)


@pytest.mark.equation("eq-rnnt-beta-total")
def test_beta_total():
    """Z over all paths against the beta of the first node."""
    def rhs(z, beta):
        return beta[0, 0]

    check_equation("eq-rnnt-beta-total", lambda z, beta: z, rhs, [
        (rnnt_z(y, labels), zero_outside(rnnt_beta(y, labels))) for y, labels in INPUTS])


@pytest.mark.equation("eq-rnnt-node-mass")
def test_node_mass():
    """alpha * beta against the paths through the node."""
    def lhs(alpha, beta, paths, t, u):
        return alpha[t, u] * beta[t, u]

    def rhs(alpha, beta, paths, t, u):
        return sum(mass * any(entry[:2] == (t, u) for entry in entries) for entries, mass in paths)

    cases = [(rnnt_alpha(y, labels), rnnt_beta(y, labels),
              [(entries, rnnt_mass(y, entries)) for entries in rnnt_paths(y, labels)], t, u)
             for y, labels, t, u in nodes()]
    check_equation("eq-rnnt-node-mass", lhs, rhs, cases)


@pytest.mark.equation("eq-rnnt-diagonal-sum")
def test_diagonal_sum():
    """Z over all paths against the sum along each anti-diagonal."""
    def rhs(z, alpha, beta, n, T, U):
        return sum(alpha[t, n - t] * beta[t, n - t] for t in range(0, T) if 0 <= n - t <= U)

    cases = [(rnnt_z(y, labels), rnnt_alpha(y, labels), rnnt_beta(y, labels), n, len(y), len(labels))
             for y, labels in INPUTS for n in range(len(y) + len(labels))]
    outside = "adds the masses of a node outside the grid, which read as 0"
    check_equation("eq-rnnt-diagonal-sum", lambda z, *_: z, rhs, [
        (z, zero_outside(alpha), zero_outside(beta), *rest) for z, alpha, beta, *rest in cases], equivalent={
            "shift bound: range(0, T) -> range(0 - 1, T)": outside,
            "shift bound: range(0, T) -> range(0, T + 1)": outside})

"""Checks of the equations of the chapter on the Triton kernels, in fractions.

Exponentials of integers are powers of 3: none of the identities depends on the base, and 3 is exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, product
from math import prod

import numpy as np
import pytest
from brute_force import (
    BLANK,
    CTC_TARGETS,
    RNNT_SHAPES,
    ctc_z,
    next_label,
    probabilities,
    rnnt_occupancy,
    rnnt_z,
)

from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import softmax


def exp(integer):
    return Fraction(3) ** int(integer)


def exps(a):
    """The exponential of every entry."""
    out = np.empty(a.shape, dtype=object)
    for index in np.ndindex(a.shape):
        out[index] = exp(a[index])
    return out


def scores(seed, shape):
    return np.random.default_rng(seed).integers(-4, 5, shape)


def peaks_and_masses(a):
    """Of each row, by their definition."""
    p = a.max(axis=-1)
    return p, exps(a - p[..., None]).sum(axis=-1)


def first(value, *_):
    return value


@pytest.mark.equation("eq-triton-online")
def test_online():
    """The mass of a whole row, by its definition, against the peaks and masses of two pieces of it."""
    def rhs(s, p, s_A, p_A, s_B, p_B):
        return s_A * exp(p_A - p) + s_B * exp(p_B - p)

    cases = []
    for seed in range(12):
        a = scores(seed, 7)
        (p, s), (p_A, s_A), (p_B, s_B) = map(peaks_and_masses, (a, a[:3], a[3:]))
        assert p == max(p_A, p_B)
        cases.append((s, p, s_A, p_A, s_B, p_B))
    assert any(p == p_A > p_B for _, p, _, p_A, _, p_B in cases)
    assert any(p == p_B > p_A for _, p, _, p_A, _, p_B in cases)
    check_equation("eq-triton-online", first, rhs, cases)


@pytest.mark.equation("eq-triton-weight")
def test_weight():
    """The softmax of a row against its peak and mass."""
    def rhs(y, k, a, p, s):
        return exp(a[k] - p) / s

    rows = [scores(seed, 5) for seed in range(4)]
    check_equation("eq-triton-weight", lambda y, k, *_: y[k], rhs, [
        (softmax(exps(a)), k, a, *peaks_and_masses(a)) for a in rows for k in range(5)])


@dataclass(frozen=True)
class Dual:
    """A number and its slope."""

    value: Fraction
    slope: Fraction

    def __add__(self, other):
        return Dual(self.value + other.value, self.slope + other.slope)

    def __mul__(self, other):
        other = other if isinstance(other, Dual) else Dual(other, 0)
        return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return Dual(self.value / other.value, (self.slope * other.value - self.value * other.slope) / other.value**2)


def slope_in_logit(a, labels, index):
    """d(-log Z) / d a of one logit: the path sum of the softmax, in dual numbers. An exponential is its own slope."""
    x = exps(a)
    dual = np.empty(a.shape, dtype=object)
    for place in np.ndindex(a.shape):
        dual[place] = Dual(x[place], x[place] if place == index else Fraction(0))
    z = rnnt_z(softmax(dual), labels)
    return -z.slope / z.value


@pytest.mark.equation("eq-triton-entry")
def test_entry():
    """The loss of enumerated paths, differentiated by dual numbers, against what the kernel writes."""
    def rhs(slope, a, p, s, e_blank, e_y, l, t, u, k):
        return (exp(a[t, u, k] - p[t, u]) * (e_blank[t, u] + e_y[t, u]) / s[t, u]
                - (k == BLANK) * e_blank[t, u] - (k == l[u]) * e_y[t, u])

    cases = []
    for seed, (T, labels) in enumerate(RNNT_SHAPES):
        a = scores(seed, (T, len(labels) + 1, 4))
        E = rnnt_occupancy(softmax(exps(a)), labels)
        l = [next_label(labels, u) for u in range(len(labels) + 1)]
        e_y = np.array([[E[t, u, l[u]] if l[u] > 0 else Fraction(0) for u in range(len(l))] for t in range(T)])
        cases += [(slope_in_logit(a, labels, (t, u, k)), a, *peaks_and_masses(a), E[..., BLANK], e_y, l, t, u, k)
                  for t, u, k in np.ndindex(a.shape)]
    check_equation("eq-triton-entry", first, rhs, cases)


@pytest.mark.equation("eq-triton-cuts")
def test_cuts():
    """Multiples of v found one by one, and the length of the row that is cut there."""
    def rhs(V, s, v, f, l):
        return (-s) % v + (l - f) + (s + V) % v

    cases = []
    for V, v in product((8, 16, 21, 29), (2, 4, 8)):
        for s in range(0, 5 * V, V):
            multiples = [place for place in range(s, s + V + 1) if place in range(0, 1000, v)]
            cases.append((V, s, v, multiples[0], multiples[-1]))
    check_equation("eq-triton-cuts", first, rhs, cases)


@pytest.mark.equation("eq-triton-frame-mass")
def test_frame_mass():
    """Z of enumerated strings with the softmax of each frame, against Z with weights that no mass has divided."""
    def rhs(z, z_tilde, s, T):
        return z_tilde / prod(s[t] for t in range(T))

    cases = []
    for seed, targets in enumerate(CTC_TARGETS):
        a = scores(seed, (4, 3))
        p, s = peaks_and_masses(a)
        cases.append((ctc_z(softmax(exps(a)), targets), ctc_z(exps(a - p[:, None]), targets), zero_outside(s), 4))
    check_equation("eq-triton-frame-mass", first, rhs, cases)


def begin_anew(items):
    """A running sum that begins anew at each flag; where it ends."""
    total = 0
    for value, flag in items:
        total = value if flag else total + value
    return total


@pytest.mark.equation("eq-triton-associative")
def test_associative():
    """A running sum over three items that begins anew at each flag, against the last two taken together first."""
    def rhs(a, b, c, g, h):
        return (c + (1 - h) * b) + (1 - max(g, h)) * a

    check_equation("eq-triton-associative", lambda a, b, c, g, h: begin_anew([(a, 0), (b, g), (c, h)]), rhs, [
        (*probabilities(seed, 3), g, h) for seed, (g, h) in enumerate(product((0, 1), repeat=2))])


def compose(x, y):
    return y[0] + (1 - y[1]) * x[0], max(x[1], y[1])


def tree(items):
    """All items composed, each half first."""
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    return compose(tree(items[:half]), tree(items[half:]))


@pytest.mark.equation("eq-triton-run")
def test_run():
    """Beginnings of a list composed in a tree, against the sum over the run that each ends in."""
    def lhs(o, r, u):
        return tree(o[:u + 1])[0]

    def rhs(o, r, u):
        return sum(e(o[j]) for j in range(r[u], u + 1))

    def e(item):
        return item[0]

    cases = []
    for seed, labels in enumerate([[1, 1, 3, 3, 3], [1, 2, 2, 2, 4, 4, 7], [5], [2, 2, 2]]):
        starts, place = [], 0
        for _, run in groupby(labels):
            run = list(run)
            starts += [place] * len(run)
            place += len(run)
        items = [(value, int(u in starts)) for u, value in enumerate(probabilities(seed, len(labels)))]
        cases += [(items, starts, u) for u in range(len(labels))]
    check_equation("eq-triton-run", lhs, rhs, cases)

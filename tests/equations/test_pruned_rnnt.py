"""Checks of the equations of the chapter on pruned RNN-T. Probabilities come from enumerated paths, and which of them
stay in a band from the nodes that they visit; bounds from all sequences that there are.
"""

from fractions import Fraction
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from brute_force import (
    BLANK,
    RNNT_INPUTS,
    expected_uses,
    probabilities,
    rnnt_alpha,
    rnnt_beta_beyond,
    rnnt_mass,
    rnnt_paths,
    rnnt_z,
)

from reference_impl.duals import Dual
from reference_impl.equations import check_equation, zero_outside

FIVE = Fraction(5)  # what reads as 5 outside its range is noticed when it is read there
INPUTS = [*RNNT_INPUTS, (probabilities(9, (3, 4, 3)), [1, 2, 1]), (probabilities(10, (4, 3, 3)), [2, 1])]


def first(value, *_):
    return value


def rows_in(entries, t):
    """The rows in which a path enters and leaves frame t."""
    rows = [u for frame, u, _ in entries if frame == t]
    return rows[0], rows[-1]


def shares(y, paths):
    masses = [rnnt_mass(y, entries) for entries in paths]
    return [mass / sum(masses) for mass in masses]


def moves(y, labels):
    """P_t(v, w), (T, U+1, U+1), by enumeration."""
    found = np.full((len(y), len(labels) + 1, len(labels) + 1), Fraction(0))
    paths = rnnt_paths(y, labels)
    for entries, share in zip(paths, shares(y, paths), strict=True):
        for t in range(len(y)):
            found[(t, *rows_in(entries, t))] += share
    return found


def arcs(y, labels, paths=None):
    """Posteriors of the label arcs (T, U) and of the blank arcs (T, U+1)."""
    uses = expected_uses(y, rnnt_paths(y, labels) if paths is None else paths)
    return uses[:, range(len(labels)), labels], uses[..., BLANK]


@pytest.mark.equation("eq-prune-moves")
def test_moves():
    """Share of the paths that enter frame t in row v and leave it in row w against a beginning, steps and an ending."""
    def rhs(share, z, entered, label, blank, beta, t, v, w):
        return 1 / z * entered[t, v] * prod(label[t, j] for j in range(v, w)) * blank[t, w] * beta[t + 1, w]

    cases = []
    for y, labels in INPUTS:
        alpha, blank = rnnt_alpha(y, labels), y[..., BLANK]
        entered = y[..., BLANK] * 0
        entered[0, 0], entered[1:] = 1, (alpha * blank)[:-1]
        found, beta = moves(y, labels), rnnt_beta_beyond(y, labels)
        assert all(sum(frame.flat) == 1 for frame in found)
        label = y[:, range(len(labels)), labels]
        cases += [(found[t, v, w], rnnt_z(y, labels), *map(zero_outside, (entered, label, blank, beta)), t, v, w)
                  for t, v, w in np.ndindex(found.shape) if v <= w]
    check_equation("eq-prune-moves", first, rhs, cases)


def windows():
    """y, labels, frame, first row and rows of every window."""
    for y, labels in INPUTS:
        for R in (1, 2, 3):
            for t in range(len(y)):
                for s in range(len(labels) + 2 - R):
                    yield y, labels, t, s, R


def score(e_label, e_blank, t, s, R):
    """def-prune-score."""
    return sum(e_blank[t, s:s + R]) - (e_label[t, s - 1] if s > 0 else 0)


@pytest.mark.equation("eq-prune-score")
def test_score():
    """k2's score, from the arcs' posteriors, against the probabilities to be inside and to cross."""
    def rhs(q, P, t, s, R, U):
        return (sum(P[t, v, w] for v in range(s, s + R) for w in range(v, s + R))
                - sum(P[t, v, w] for v in range(0, s) for w in range(s + R, U + 1)))

    cases = [(score(*arcs(y, labels), t, s, R), zero_outside(moves(y, labels), FIVE), t, s, R, len(labels))
             for y, labels, t, s, R in windows()]
    check_equation("eq-prune-score", first, rhs, cases, equivalent={
        "shift bound: range(s, s + R) -> range(s, s + R + 1)": "nobody enters above the window and leaves inside it"})


def one_a_frame(y, labels):
    """Paths of which every step takes a frame."""
    for symbols in product((False, True), repeat=len(y)):
        if sum(symbols) == len(labels):
            rows = [sum(symbols[:t]) for t in range(len(y))]
            yield [(t, u, labels[u] if symbols[t] else BLANK) for t, u in enumerate(rows)]


@pytest.mark.equation("eq-prune-score-monotonic")
def test_score_monotonic():
    """The same score where a label ends its frame, against occupancies and labels."""
    def rhs(q, gamma, e_label, t, s, R):
        return (sum(gamma[t, s + r] for r in range(0, R))
                - sum(e_label[t, s + r] for r in range(-1, R)))

    cases = []
    for y, labels in INPUTS:
        paths = list(one_a_frame(y, labels))
        if not paths:
            continue
        e_label, e_blank = arcs(y, labels, paths)
        gamma = e_blank.copy()
        gamma[:, :-1] += e_label
        cases += [(score(e_label, e_blank, t, s, R), zero_outside(gamma), zero_outside(e_label), t, s, R)
                  for t in range(len(y)) for R in (1, 2, 3) for s in range(len(labels) + 2 - R)]
    check_equation("eq-prune-score-monotonic", first, rhs, cases)


# --- the bounds ---


def sequences(T, top):
    return product(range(top + 1), repeat=T)


def choices():
    """Bounds that the windows might choose: all of three or four frames, with rows up to 3."""
    yield from ((a, 3) for T in (1, 2, 3, 4) for a in sequences(T, 3))


def lowered(a, top):
    """Of all sequences that never fall and lie nowhere above ``a``, the largest: in each frame the largest there is."""
    below = [c for c in sequences(len(a), top)
             if all(x <= y for x, y in pairwise(c)) and all(x <= y for x, y in zip(c, a, strict=True))]
    return np.max(below, axis=0)


@pytest.mark.equation("eq-prune-lowered")
def test_lowered():
    """The largest sequence that never falls and lies nowhere above the bounds, among all, against running minima."""
    def rhs(m, a, t, T):
        return min(a[i] for i in range(t, T))

    cases = [(lowered(a, top)[t], zero_outside(a, 0), t, len(a)) for a, top in choices() for t in range(len(a))]
    check_equation("eq-prune-lowered", first, rhs, cases)


@pytest.mark.equation("eq-prune-raised")
def test_raised():
    """The smallest sequence above the lowered one that rises by at most g, among all, cut off; it is admissible."""
    def rhs(b, m, g, t, T):
        return min(g * t, max(m[i] - g * (i - t) for i in range(t, T)))

    cases = []
    for a, top in choices():
        m, T = lowered(a, top), len(a)
        for g in (1, 2):
            above = [c for c in sequences(T, top)
                     if all(y - x <= g for x, y in pairwise(c)) and all(x >= y for x, y in zip(c, m, strict=True))]
            b = np.minimum(np.min(above, axis=0), g * np.arange(T))
            assert b[0] == 0 and all(0 <= y - x <= g for x, y in pairwise(b.tolist()))
            assert b[-1] == min(a[-1], g * (T - 1))
            cases += [(b[t], zero_outside(m, 50), g, t, T) for t in range(T)]
    check_equation("eq-prune-raised", first, rhs, cases)


# --- what is left ---


BANDS = [(INPUTS[0], [0, 0, 1], 2), (INPUTS[0], [0, 1, 1], 2), (INPUTS[1], [0, 1, 1], 2), (INPUTS[2], [0, 1], 3),
         (INPUTS[5], [0, 1, 2], 2), (INPUTS[5], [0, 0, 1], 3), (INPUTS[6], [0, 0, 0, 1], 2),
         (INPUTS[6], [0, 1, 1, 1], 2)]


def inside(entries, lower, R):
    return all(lower[t] <= u < lower[t] + R for t, u, _ in entries)


def banded(bands=BANDS):
    """y, labels, bounds, R, all paths, and which of them stay."""
    for (y, labels), lower, R in bands:
        paths = rnnt_paths(y, labels)
        yield y, labels, lower, R, paths, [inside(entries, lower, R) for entries in paths]


def beginnings_inside(y, labels, lower, R):
    """Mass of all beginnings that reach a node and have visited nodes of the band only, the node included."""
    def go(t, u, mass):
        if t < len(y) and u <= len(labels) and lower[t] <= u < lower[t] + R:
            found[t, u] += mass
            go(t + 1, u, mass * y[t, u, BLANK])
            if u < len(labels):
                go(t, u + 1, mass * y[t, u, labels[u]])

    found = np.full(y.shape[:2], Fraction(0))
    go(0, 0, Fraction(1))
    return found


@pytest.mark.equation("eq-prune-exits")
def test_exits():
    """Mass of the paths that visit a node outside, by enumeration, against the arcs on which they leave first."""
    def rhs(lost, alpha, label, blank, beta, b, h, T):
        return sum(alpha[t, h[t]] * label[t, h[t]] * beta[t, h[t] + 1]
                   + sum(alpha[t, u] * blank[t, u] * beta[t + 1, u] for u in range(b[t], b[t + 1]))
                   for t in range(0, T))

    cases = []
    without_end = (INPUTS[0], [0, 0, 0], 2), (INPUTS[5], [0, 0, 1], 2)  # everything is lost
    for y, labels, lower, R, paths, stays in banded([*BANDS, *without_end]):
        lost = sum((rnnt_mass(y, entries) for entries, stay in zip(paths, stays, strict=True) if not stay), Fraction(0))
        label = np.concatenate([y[:, range(len(labels)), labels], y[:, :1, 0] * 0], axis=1)  # none in the top row
        tables = beginnings_inside(y, labels, lower, R), label, y[..., BLANK], rnnt_beta_beyond(y, labels)
        bounds, tops = np.array([*lower, lower[-1]]), np.array(lower) + R - 1
        cases.append((lost, *(zero_outside(table, FIVE) for table in tables), zero_outside(bounds, 9),
                      zero_outside(tops, 9), len(y)))
    check_equation("eq-prune-exits", first, rhs, cases)


def softmax_of(x):
    y = x.copy()
    for node in np.ndindex(x.shape[:-1]):
        y[node] = x[node] / sum(x[node][1:], x[node][0])
    return y


@pytest.mark.equation("eq-prune-grad-logits")
def test_grad_logits():
    """Dual numbers through the softmax and the sum over the paths inside, against their occupancies."""
    def rhs(slope, y, gamma, E, t, u, k):
        return y[t, u, k] * gamma[t, u] - E[t, u, k]

    cases = []
    for y, _, lower, R, paths, stays in banded():
        x, kept = y.copy(), [entries for entries, stay in zip(paths, stays, strict=True) if stay]
        uses = expected_uses(softmax_of(x), kept)
        for t, u, k in np.ndindex(x.shape):
            moved = x.copy()
            moved[t, u, k] = Dual(x[t, u, k], x[t, u, k])
            z = sum((rnnt_mass(softmax_of(moved), entries) for entries in kept), Dual(Fraction(0)))
            slope = -z.tangent / z.value
            if lower[t] <= u < lower[t] + R:
                cases.append((slope, zero_outside(softmax_of(x), FIVE), zero_outside(uses.sum(axis=2), FIVE),
                              zero_outside(uses, FIVE), t, u, k))
            else:
                assert slope == 0
    check_equation("eq-prune-grad-logits", first, rhs, cases)


def distributions():
    """Of each path its share in all, in those inside and in those that leave; Z of the band and Z."""
    for y, _, _, _, paths, stays in banded():
        masses = [rnnt_mass(y, entries) for entries in paths]
        z = sum(masses)
        z_band = sum(mass for mass, stay in zip(masses, stays, strict=True) if stay)
        if z_band < z:
            yield ([m / z for m in masses], [m * stay / z_band for m, stay in zip(masses, stays, strict=True)],
                   [m * (not stay) / (z - z_band) for m, stay in zip(masses, stays, strict=True)], z_band, z)


@pytest.mark.equation("eq-prune-variation")
def test_variation():
    """Half the sum of the differences between the two distributions of paths against the mass lost."""
    def rhs(distance, z_band, z):
        return 1 - z_band / z

    cases = [(sum(abs(p - q) for p, q in zip(of_band, of_all, strict=True)) / 2, z_band, z)
             for of_all, of_band, _, z_band, z in distributions()]
    check_equation("eq-prune-variation", first, rhs, cases)


@pytest.mark.equation("eq-prune-mean")
def test_mean():
    """Difference of the means of any number that belongs to a path against that of paths inside and outside."""
    def rhs(difference, z_band, z, of_band, of_leaving, F, paths):
        return (1 - z_band / z) * sum((of_band[i] - of_leaving[i]) * F[i] for i in range(0, paths))

    cases = []
    for seed, (of_all, of_band, leaving, z_band, z) in enumerate(distributions()):
        F = probabilities(seed, (len(of_all),))
        difference = sum((p - q) * f for p, q, f in zip(of_band, of_all, F, strict=True))
        cases.append((difference, z_band, z, zero_outside(np.array(of_band), FIVE), zero_outside(np.array(leaving), 2),
                      zero_outside(F, FIVE), len(F)))
    check_equation("eq-prune-mean", first, rhs, cases)

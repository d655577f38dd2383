"""Checks of the equations of the chapter on the Triton kernels, in fractions; logits are exact logarithms."""

from fractions import Fraction
from itertools import groupby, product
from math import prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import CTC_INPUTS, RNNT_INPUTS, blank_of, ctc_z, probabilities, rnnt_arcs_of_nodes, rnnt_grad_logits
from exact_logarithms import MINUS_INFINITY, Log, exp, logs
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"a_{#t,#u}(#k)": "logits[#t, #u, #k]", r"p_{#t,#u}": "peaks[#t, #u]", r"s_{#t,#u}": "masses[#t, #u]",
    "a_{k}": "row[k]", "s_{#t}": "frame_masses[#t]", r"\tilde Z": "z_tilde", "y_{k}": "weights[k]", "r(#u)": "r[#u]"})
QUANTITIES = ranges.RNNT | Quantities(
    {"row": "V", "weights": "V", "logits": "T, U + 1, V", "peaks": "T, U + 1", "masses": "T, U + 1", "frames": "T, V",
     "frame_masses": "T", "e": "N", "o": "N", "r": "N"},
    {"the first piece has the peak": lambda p, p_A, p_B: p == p_A > p_B,
     "the second piece has the peak": lambda p, p_A, p_B: p == p_B > p_A,
     "both pieces have the peak": lambda p, p_A, p_B: p_A == p_B, "a piece of masks": lambda s_A: s_A == 0,
     "a mask": lambda row, k: row[k] == MINUS_INFINITY, "the peak itself": lambda row, k, p: row[k] == p,
     "both ends aligned": lambda V, s, v: s % v == 0 == (s + V) % v,
     "only the start aligned": lambda V, s, v: s % v == 0 != (s + V) % v,
     "only the end aligned": lambda V, s, v: s % v != 0 == (s + V) % v,
     "no end aligned": lambda V, s, v: s % v != 0 != (s + V) % v, "V = v": lambda V, s, v: V == v,
     "a body of nothing": lambda f, l: f == l,
     "g = 1, h = 0": lambda g, h: (g, h) == (1, 0), "g = 0, h = 1": lambda g, h: (g, h) == (0, 1),
     "g = h = 0": lambda g, h: (g, h) == (0, 0), "g = h = 1": lambda g, h: (g, h) == (1, 1),
     "N = 1": lambda N: N == 1, "u = N - 1": lambda u, N: u == N - 1,
     "a run begins at u": lambda r, u: r[u] == u, "a run of all": lambda r, N: N > 1 and r[N - 1] == 0})


def scores(seed, shape):
    """Logits, as logarithms of fractions."""
    return logs(probabilities(seed, shape)).array


def exps(a):
    return np.vectorize(exp, otypes=[object])(a)


@computed(kind="by definition")
def peaks_and_masses(rows):
    """def-triton-peak-mass for each row of e^a: e^p, and the sum of e^(a - p). A row of masks has mass 0."""
    peaks = rows.max(axis=-1)
    return peaks, (rows / np.where(peaks == 0, Fraction(1), peaks)[..., None]).sum(axis=-1)


def peak_and_mass(row):
    peak, mass = peaks_and_masses(exps(row))
    return Log(peak), mass


@pytest.mark.equation("eq-triton-online", patterns={each: each for each in ("s_A", "s_B", "p_A", "p_B")})
def test_online():
    """The mass of a whole row, by its definition, against the peaks and masses of two pieces of it."""
    def rhs(s, p, s_A, p_A, s_B, p_B):
        return s_A * exp(p_A - p) + s_B * exp(p_B - p)

    def cases():
        rows = [scores(seed, 7) for seed in range(12)]
        rows[1][:3], rows[2][4] = MINUS_INFINITY, max(rows[2][:3])
        rows[2][[3, 5, 6]] = MINUS_INFINITY
        for a in rows:
            (p, s), (p_A, s_A), (p_B, s_B) = map(peak_and_mass, (a, a[:3], a[3:]))
            yield s, p, s_A, p_A, s_B, p_B

    check_equation("eq-triton-online", first, rhs, cases())
    assert all(p == max(p_A, p_B) for _, p, _, p_A, _, p_B in cases())


@pytest.mark.equation("eq-triton-weight")
def test_weight():
    """The softmax of a row against its peak and mass."""
    def lhs(weights, k, row, p, s):
        return weights[k]

    def rhs(weights, k, row, p, s):
        return 1 / s * exp(row[k] - p)

    def cases():
        for seed in range(4):
            row = scores(seed, 5)
            row[seed] = MINUS_INFINITY
            for k in range(5):
                yield softmax(exps(row)), k, row, *peak_and_mass(row)

    check_equation("eq-triton-weight", lhs, rhs, cases())


@pytest.mark.equation("eq-triton-entry")
def test_entry():
    """sympy: the derivative of -log of the sum over paths in each logit, against what the kernel writes."""
    def rhs(grad_logits, logits, peaks, masses, e_blank, e_label, blank, labels, t, u, k):
        return (exp(logits[t, u, k] - peaks[t, u]) * (e_blank[t, u] + e_label[t, u]) / masses[t, u]
                - (k == blank) * e_blank[t, u] - (k == labels[u]) * e_label[t, u])

    def cases():
        for x, labels in RNNT_INPUTS:
            slopes, (peaks, masses) = rnnt_grad_logits(x, labels), peaks_and_masses(x)
            arrays = logs(x), logs(peaks), *map(zero_outside, (masses, *rnnt_arcs_of_nodes(softmax(x), labels)))
            for index in np.ndindex(x.shape):
                yield slopes[index], *arrays, blank_of(labels), zero_outside(labels, zero=-1), *index

    check_equation("eq-triton-entry", first, rhs, cases())


@computed(kind="walking")
def multiples(s, V, v):
    """The multiples of v from the first element of a row to the one after its last, found one by one."""
    return [place for place in range(s, s + V + 1) if place in range(0, 1000, v)]


@pytest.mark.equation("eq-triton-cuts")
def test_cuts():
    """Multiples of v found one by one, and the length of the row that is cut there. A shorter row may have none."""
    def rhs(V, s, v, f, l):
        return (-s) % v + (l - f) + (s + V) % v

    def cases():
        for v in (2, 4, 8):
            for V, s in product((v, v + 1, 2 * v - 1, 21, 24, 29), range(2 * v)):
                found = multiples(s, V, v)
                yield V, s, v, found[0], found[-1]

    check_equation("eq-triton-cuts", first, rhs, cases())
    assert multiples(5, 2, 4) == []


@computed
def z_of_strings(frames, targets):
    return ctc_z(frames, targets)


@pytest.mark.equation("eq-triton-frame-mass")
def test_frame_mass():
    """Z of enumerated strings with the softmax of each frame, against Z with weights that no mass has divided."""
    def rhs(z, z_tilde, frame_masses, T):
        return z_tilde / prod(frame_masses[t] for t in range(0, T))

    def cases():
        for x, targets in CTC_INPUTS:
            peaks, masses = peaks_and_masses(x)
            yield (z_of_strings(softmax(x), targets), z_of_strings(x / peaks[:, None], targets),
                   zero_outside(masses, zero=5), len(x))

    check_equation("eq-triton-frame-mass", first, rhs, cases(), left_out={
        "T < U": "no alignment is shorter than its target"})


@computed(kind="walking")
def begin_anew(values, flags):
    """A running sum that begins anew at each flag; where it ends."""
    total = 0
    for value, flag in zip(values, flags, strict=True):
        total = value if flag else total + value
    return total


@pytest.mark.equation("eq-triton-associative")
def test_associative():
    """A running sum over three items that begins anew at each flag, against both ways to set brackets; each is
    mutated."""
    def lhs(a, b, c, g, h):
        return begin_anew([a, b, c], [0, g, h])

    def left(a, b, c, g, h):
        return c + (1 - h) * (b + (1 - g) * a)

    def right(a, b, c, g, h):
        return (c + (1 - h) * b) + (1 - max(g, h)) * a

    cases = [(*probabilities(seed, 3), g, h) for seed, (g, h) in enumerate(product((0, 1), repeat=2))]
    check_equation("eq-triton-associative", lhs, left, cases)
    check_equation("eq-triton-associative", lhs, right, cases)


def compose(x, y):
    return y[0] + (1 - y[1]) * x[0], max(x[1], y[1])


def tree(items):
    """All items composed, each half first."""
    if len(items) == 1:
        return items[0]
    half = len(items) // 2
    return compose(tree(items[:half]), tree(items[half:]))


@computed(kind="composition")
def scan(values, flags):
    """def-triton-scan: each beginning of the list, composed in a tree."""
    items = list(zip(values, flags, strict=True))
    return [tree(items[:n + 1])[0] for n in range(len(items))]


@computed(kind="walking")
def run_starts(symbols):
    """The place where the run of each place begins."""
    starts = []
    for _, run in groupby(symbols):
        starts += [len(starts)] * len(list(run))
    return starts


@pytest.mark.equation("eq-triton-run")
def test_run():
    """Beginnings of a list composed in a tree, against the sum over the run that each ends in."""
    def lhs(o, e, r, u):
        return o[u]

    def rhs(o, e, r, u):
        return sum(e[j] for j in range(r[u], u + 1))

    def cases():
        for seed, symbols in enumerate([[1, 1, 3, 3, 3], [1, 2, 2, 2, 4, 4, 7], [5], [2, 2, 2]]):
            e, r = list(probabilities(seed, len(symbols))), run_starts(symbols)
            o = scan(e, [int(start == place) for place, start in enumerate(r)])
            for u in range(len(symbols)):
                yield o, zero_outside(e, zero=5), r, u

    check_equation("eq-triton-run", lhs, rhs, cases())

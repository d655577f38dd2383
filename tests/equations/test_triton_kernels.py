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
    r"z_{#t,#u}(#k)": "logits[#t, #u, #k]", r"p_{#t,#u}": "peaks[#t, #u]", r"\mu_{#t,#u}": "masses[#t, #u]",
    "z_{k}": "row[k]", r"\mu_{#t}": "frame_masses[#t]", r"\tilde Z": "z_tilde", "y_{k}": "weights[k]", r"\mu": "mu"})
QUANTITIES = ranges.RNNT | Quantities(
    {"row": "V", "weights": "V", "logits": "T, U + 1, V", "peaks": "T, U + 1", "masses": "T, U + 1", "frames": "T, V",
     "frame_masses": "T", "c": "N", "sums": "N", "first": "N"},
    {"the first piece has the peak": lambda p, p_1, p_2: p == p_1 > p_2,
     "the second piece has the peak": lambda p, p_1, p_2: p == p_2 > p_1,
     "both pieces have the peak": lambda p, p_1, p_2: p_1 == p_2, "a piece of masks": lambda mu_1: mu_1 == 0,
     "a mask": lambda row, k: row[k] == MINUS_INFINITY, "the peak itself": lambda row, k, p: row[k] == p,
     "both ends aligned": lambda V, o, d: o % d == 0 == (o + V) % d,
     "only the start aligned": lambda V, o, d: o % d == 0 != (o + V) % d,
     "only the end aligned": lambda V, o, d: o % d != 0 == (o + V) % d,
     "no end aligned": lambda V, o, d: o % d != 0 != (o + V) % d, "V = d": lambda V, o, d: V == d,
     "a body of nothing": lambda b_0, b_1: b_0 == b_1,
     "flags 1 0": lambda g_2, g_3: (g_2, g_3) == (1, 0), "flags 0 1": lambda g_2, g_3: (g_2, g_3) == (0, 1),
     "flags 0 0": lambda g_2, g_3: (g_2, g_3) == (0, 0), "flags 1 1": lambda g_2, g_3: (g_2, g_3) == (1, 1),
     "N = 1": lambda N: N == 1, "j = 0": lambda j: j == 0, "j = N - 1": lambda j, N: j == N - 1,
     "a run begins at j": lambda first, j: first[j] == j, "a run of all": lambda first, N: N > 1 and first[N - 1] == 0})


def scores(seed, shape):
    """Logits, as logarithms of fractions."""
    return logs(probabilities(seed, shape)).array


def exps(a):
    return np.vectorize(exp, otypes=[object])(a)


@computed(kind="by definition")
def peaks_and_masses(rows):
    """def-triton-peak-mass for each row of e^z: e^p, and the sum of e^(z - p). A row of masks has mass 0."""
    peaks = rows.max(axis=-1)
    return peaks, (rows / np.where(peaks == 0, Fraction(1), peaks)[..., None]).sum(axis=-1)


def peak_and_mass(row):
    peak, mass = peaks_and_masses(exps(row))
    return Log(peak), mass


@pytest.mark.equation("eq-triton-online", patterns={
    r"\mu_1": "mu_1", r"\mu_2": "mu_2", "p_1": "p_1", "p_2": "p_2"})
def test_online():
    """The mass of a whole row, by its definition, against the peaks and masses of two pieces of it."""
    def rhs(mu, p, mu_1, p_1, mu_2, p_2):
        return mu_1 * exp(p_1 - p) + mu_2 * exp(p_2 - p)

    def cases():
        rows = [scores(seed, 7) for seed in range(12)]
        rows[1][:3], rows[2][4] = MINUS_INFINITY, max(rows[2][:3])
        rows[2][[3, 5, 6]] = MINUS_INFINITY
        for row in rows:
            (p, mu), (p_1, mu_1), (p_2, mu_2) = map(peak_and_mass, (row, row[:3], row[3:]))
            yield mu, p, mu_1, p_1, mu_2, p_2

    check_equation("eq-triton-online", first, rhs, cases())
    assert all(p == max(p_1, p_2) for _, p, _, p_1, _, p_2 in cases())


@pytest.mark.equation("eq-triton-weight")
def test_weight():
    """The softmax of a row against its peak and mass."""
    def lhs(weights, k, row, p, mu):
        return weights[k]

    def rhs(weights, k, row, p, mu):
        return 1 / mu * exp(row[k] - p)

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
def multiples(o, V, d):
    """The multiples of d from the first element of a row to the one after its last, found one by one."""
    return [place for place in range(o, o + V + 1) if place in range(0, 1000, d)]


@pytest.mark.equation("eq-triton-cuts", patterns={"b_0": "b_0", "b_1": "b_1"})
def test_cuts():
    """Multiples of d found one by one, and the length of the row that is cut there. A shorter row may have none."""
    def rhs(V, o, d, b_0, b_1):
        return (-o) % d + (b_1 - b_0) + (o + V) % d

    def cases():
        for d in (2, 4, 8):
            for V, o in product((d, d + 1, 2 * d - 1, 21, 24, 29), range(2 * d)):
                found = multiples(o, V, d)
                yield V, o, d, found[0], found[-1]

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


@pytest.mark.equation("eq-triton-associative", patterns={each: each for each in ("c_1", "c_2", "c_3", "g_2", "g_3")})
def test_associative():
    """A running sum over three items that begins anew at each flag, against both ways to set brackets; each is
    mutated."""
    def lhs(c_1, c_2, c_3, g_2, g_3):
        return begin_anew([c_1, c_2, c_3], [0, g_2, g_3])

    def left(c_1, c_2, c_3, g_2, g_3):
        return c_3 + (1 - g_3) * (c_2 + (1 - g_2) * c_1)

    def right(c_1, c_2, c_3, g_2, g_3):
        return (c_3 + (1 - g_3) * c_2) + (1 - max(g_2, g_3)) * c_1

    cases = [(*probabilities(seed, 3), *flags) for seed, flags in enumerate(product((0, 1), repeat=2))]
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
    """def-triton-scan: each prefix of the list, composed in a tree."""
    items = list(zip(values, flags, strict=True))
    return [tree(items[:n + 1])[0] for n in range(len(items))]


@computed(kind="walking")
def run_starts(symbols):
    """The place where the run of each place begins."""
    starts = []
    for _, run in groupby(symbols):
        starts += [len(starts)] * len(list(run))
    return starts


@pytest.mark.equation("eq-triton-run", patterns={
    r"\hat c_{#j}": "sums[#j]", "c_{#i}": "c[#i]", "f(#j)": "first[#j]"})
def test_run():
    """Prefixes of a list composed in a tree, against the sum over the run that each ends in."""
    def lhs(sums, c, first, j):
        return sums[j]

    def rhs(sums, c, first, j):
        return sum(c[i] for i in range(first[j], j + 1))

    def cases():
        for seed, symbols in enumerate([[1, 1, 3, 3, 3], [1, 2, 2, 2, 4, 4, 7], [5], [2, 2, 2]]):
            c, starts = list(probabilities(seed, len(symbols))), run_starts(symbols)
            sums = scan(c, [int(start == place) for place, start in enumerate(starts)])
            for j in range(len(symbols)):
                yield sums, zero_outside(c, zero=5), starts, j

    check_equation("eq-triton-run", lhs, rhs, cases())

"""Checks of the equations of the chapter on wavefronts: enumerated masses, and the memory of real arrays, against what
the chapter says of fronts, places and lanes."""

from fractions import Fraction

import numpy as np
import pytest
from brute_force import (
    BLANK,
    CTC_INPUTS,
    RNNT_INPUTS,
    ctc_alpha,
    ctc_skip,
    rnnt_alpha,
    rnnt_occupancy,
    rnnt_paths,
)

from reference_impl.equations import check_equation, zero_outside

# frames and labels: one frame, no label, more labels than frames, as many, more frames
SHAPES = [(1, 0), (1, 3), (4, 0), (2, 5), (4, 4), (3, 3), (7, 2)]


def first(value, *_):
    return value


def zeros(shape):
    return np.full(shape, Fraction(0), dtype=object)


class Fronts:
    """What lies in memory, [n, u], from enumerated paths: masses, weights of arcs, shares and occupancies."""

    def __init__(self, y, labels):
        self.T, self.U = len(y), len(labels)
        T, U = self.T, self.U
        alpha, gamma = rnnt_alpha(y, labels), rnnt_occupancy(y, labels).sum(axis=-1)
        self.alpha, self.gamma, self.blank, self.label = (zeros((T + U, U + 1)) for _ in range(4))
        self.by_blank, self.by_label = zeros((T + U, U + 1)), zeros((T + U, U + 1))
        for t, u in np.ndindex(T, U + 1):
            n = t + u
            self.alpha[n, u], self.gamma[n, u] = alpha[t, u], gamma[t, u]
            if t < T - 1:  # the blanks of the last frame lead out of the grid
                self.blank[n, u] = y[t, u, BLANK]
            if u < U:
                self.label[n, u] = y[t, u, labels[u]]
            if t > 0:
                self.by_blank[n, u] = alpha[t - 1, u] * y[t - 1, u, BLANK] / alpha[t, u]
            if u > 0:
                self.by_label[n, u] = alpha[t, u - 1] * y[t, u - 1, labels[u - 1]] / alpha[t, u]

    def places(self):
        """Every place of the array, the two corners among them."""
        return np.ndindex(self.T + self.U, self.U + 1)


FRONTS = [Fronts(y, labels) for y, labels in RNNT_INPUTS]


@pytest.mark.equation("eq-wavefront-level")
def test_level():
    """The longest of all ways to a node, counted on enumerated paths, against t + u."""
    def rhs(longest, t, u):
        return t + u

    cases = []
    for y, labels in RNNT_INPUTS:
        longest = {}
        for entries in rnnt_paths(y, labels):
            for steps, (t, u, _) in enumerate(entries):
                longest[t, u] = max(steps, longest.get((t, u), 0))
        cases += [(steps, t, u) for (t, u), steps in longest.items()]
    check_equation("eq-wavefront-level", first, rhs, cases)


@pytest.mark.equation("eq-wavefront-width")
def test_width():
    """The nodes with t + u = n, counted one by one, against the formula."""
    def rhs(count, n, T, U):
        return min(n, U) - max(0, n - T + 1) + 1

    check_equation("eq-wavefront-width", first, rhs, [
        (sum(t + u == n for t, u in np.ndindex(T, U + 1)), n, T, U) for T, U in SHAPES for n in range(T + U)])


@pytest.mark.equation("eq-wavefront-busy")
def test_busy():
    """Nodes counted front by front, as a fraction of all places, against T / (T + U)."""
    def lhs(T, U):
        fronts = range(int(T) + U)
        w = [sum(t + u == n for t, u in np.ndindex(int(T), U + 1)) for n in fronts]
        return Fraction(sum(w), len(fronts) * (U + 1))

    def rhs(T, U):
        return T / (T + U)

    check_equation("eq-wavefront-busy", lhs, rhs, [(Fraction(T), U) for T, U in SHAPES])


@pytest.mark.equation("eq-wavefront-view")
def test_view():
    """Where NumPy finds [t + u, u] in the memory of a (T + U, U + 1) array, against the strides of the view."""
    def lhs(t, u, T, U):
        place = np.arange((T + U) * (U + 1)).reshape(T + U, U + 1)
        return place[t + u, u]

    def rhs(t, u, T, U):
        return t * (U + 1) + u * (U + 2)

    check_equation("eq-wavefront-view", lhs, rhs, [
        (t, u, T, U) for T, U in SHAPES for t, u in np.ndindex(T, U + 1)])


@pytest.mark.equation("eq-wavefront-step")
def test_step():
    """Enumerated masses of beginnings at every place, 0 in the corners, against the front before."""
    def lhs(alpha, blank, y, n, u):
        return alpha[n, u]

    def rhs(alpha, blank, y, n, u):
        return alpha[n - 1, u] * blank[n - 1, u] + alpha[n - 1, u - 1] * y[n - 1, u - 1]

    check_equation("eq-wavefront-step", lhs, rhs, [
        (zero_outside(f.alpha), zero_outside(f.blank), zero_outside(f.label), n, u)
        for f in FRONTS for n, u in f.places() if n > 0])


@pytest.mark.equation("eq-wavefront-back")
def test_back():
    """Enumerated node occupancies at every place, 0 in the corners, against the front after, through its shares."""
    def lhs(gamma, r_blank, r_y, n, u):
        return gamma[n, u]

    def rhs(gamma, r_blank, r_y, n, u):
        return gamma[n + 1, u] * r_blank[n + 1, u] + gamma[n + 1, u + 1] * r_y[n + 1, u + 1]

    check_equation("eq-wavefront-back", lhs, rhs, [
        (zero_outside(f.gamma), zero_outside(f.by_blank), zero_outside(f.by_label), n, u)
        for f in FRONTS for n, u in f.places() if n < f.T + f.U - 1])


class Pairs:
    """Enumerated CTC masses of blanks and labels, [t + 1, u], with what stands before the first frame at [0, u]."""

    def __init__(self, y, labels):
        alpha = ctc_alpha(y, labels)
        self.y, self.labels, self.T, self.U = y, labels, len(y), len(labels)
        self.blank, self.label = zeros((self.T + 1, self.U + 1)), zeros((self.T + 1, max(self.U, 1)))
        self.blank[0, 0] = Fraction(1)
        self.blank[1:] = alpha[:, ::2]
        self.label[1:, :self.U] = alpha[:, 1::2]
        self.kappa = np.array(ctc_skip(labels))


class frames_from_minus_one:
    """Reads [t, u] where the array has [t + 1, u]; 0 outside."""

    def __init__(self, array):
        self.array = zero_outside(array)

    def __getitem__(self, index):
        t, u = index
        return self.array[t + 1, u]


PAIRS = [Pairs(y, labels) for y, labels in CTC_INPUTS]


@pytest.mark.equation("eq-wavefront-ctc-blank")
def test_ctc_blank():
    """Masses of strings that stand in a blank state, every string tried, against the pairs one frame before."""
    def lhs(blank, label, y, t, u):
        return blank[t, u]

    def rhs(blank, label, y, t, u):
        return (blank[t - 1, u] + label[t - 1, u - 1]) * y[t]

    check_equation("eq-wavefront-ctc-blank", lhs, rhs, [
        (frames_from_minus_one(p.blank), frames_from_minus_one(p.label), zero_outside(p.y[:, BLANK]), t, u)
        for p in PAIRS for t, u in np.ndindex(p.T, p.U + 1)])


@pytest.mark.equation("eq-wavefront-ctc-label")
def test_ctc_label():
    """Masses of strings that stand in a label state, every string tried, against the pairs one frame before."""
    def lhs(blank, label, kappa, y, t, u, l):  # noqa: E741
        return label[t, u]

    def rhs(blank, label, kappa, y, t, u, l):  # noqa: E741
        return (label[t - 1, u] + blank[t - 1, u] + kappa[2 * u + 1] * label[t - 1, u - 1]) * y[t, l[u]]

    check_equation("eq-wavefront-ctc-label", lhs, rhs, [
        (frames_from_minus_one(p.blank), frames_from_minus_one(p.label), zero_outside(p.kappa), zero_outside(p.y), t, u,
         zero_outside(np.array(p.labels), zero=-1)) for p in PAIRS for t, u in np.ndindex(p.T, p.U)])


def test_the_corners_are_empty():
    """What the checks above take for granted: no mass and no occupancy outside the grid, and Z on every front."""
    for f in FRONTS:
        n, u = np.indices(f.alpha.shape)
        outside = (n - u < 0) | (n - u >= f.T)
        assert outside.sum() == f.U * (f.U + 1)
        assert (f.alpha[outside] == 0).all() and (f.gamma[outside] == 0).all()
        assert (f.gamma.sum(axis=1) == 1).all()

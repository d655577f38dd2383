"""Checks of the equations of the chapter on occupancy. Shares and expected numbers come from enumerated paths."""

from fractions import Fraction
from math import comb, prod

import numpy as np
import pytest
from brute_force import (
    BLANK,
    RNNT_INPUTS,
    expected_uses,
    probabilities,
    rnnt_alpha,
    rnnt_beta,
    rnnt_beta_beyond,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_paths,
    rnnt_z,
)

from reference_impl import rnnt
from reference_impl.equations import check_equation, zero_outside
from reference_impl.semiring import REAL

FIVE = Fraction(5)  # what reads as 5 outside its range is noticed when it is read there


def first(value, *_):
    return value


def gamma_by_masses(y, labels):
    return rnnt_alpha(y, labels) * rnnt_beta(y, labels) / rnnt_z(y, labels)


def arcs(y, labels):
    """Posteriors of blank and label arcs, (T, U+1) each, from enumerated paths; the label arcs of the top row are 0."""
    uses = rnnt_occupancy(y, labels)
    e_label = np.array([[uses[t, u, k] for u, k in enumerate([*labels, BLANK])] for t in range(len(y))], dtype=object)
    e_label[:, -1] = Fraction(0)
    return uses[..., BLANK], e_label


def labels_in(entries, t):
    """Labels that a path writes in frame t."""
    return sum(entry[0] == t and entry[2] != BLANK for entry in entries)


@pytest.mark.equation("eq-occ-dummy")
def test_dummy():
    """Z is affine in the factor e^nu of the arcs that leave a node: exact difference, over -Z, against alpha beta."""
    def lhs(gamma, y, labels, t, u):
        tripled = y.copy()
        tripled[t, u] *= 3
        slope = (rnnt_z(tripled, labels) - rnnt_z(y, labels)) / 2
        return -slope / rnnt_z(y, labels)

    def rhs(gamma, y, labels, t, u):
        return -gamma[t, u]

    check_equation("eq-occ-dummy", lhs, rhs, [
        (zero_outside(gamma_by_masses(y, labels)), y, labels, *node)
        for y, labels in RNNT_INPUTS for node in np.ndindex(y.shape[:2])])


@pytest.mark.equation("eq-occ-rescale")
def test_rescale():
    """The sum over paths with a factor on the blanks of each frame and one on each label, against factors taken out."""
    def lhs(z, y, labels, c, d, T, U):
        scaled = y.copy()
        for t, u in np.ndindex(y.shape[:2]):
            scaled[t, u, BLANK] *= c[t]
            if u < U:
                scaled[t, u, labels[u]] *= d[u]
        return rnnt_z(scaled, labels)

    def rhs(z, y, labels, c, d, T, U):
        return z * prod(c[t] for t in range(0, T)) * prod(d[u] for u in range(0, U))

    check_equation("eq-occ-rescale", lhs, rhs, [
        (rnnt_z(y, labels), y, labels, zero_outside(probabilities(7, (len(y),)), zero=FIVE),
         zero_outside(probabilities(8, (len(labels),)), zero=FIVE), len(y), len(labels)) for y, labels in RNNT_INPUTS])


def flat(T, U):
    """Paths of equal weight, as entries (t, u, k); with them T and U."""
    y = np.full((T, U + 1, 2), Fraction(1), dtype=object)
    return rnnt_paths(y, [1] * U)


FLAT = [(T, U, flat(T, U)) for T, U in ((2, 1), (3, 2), (2, 3), (4, 2), (5, 3))]


@pytest.mark.equation("eq-occ-ridge-variance")
def test_ridge_variance():
    """Variance of the row in which a path crosses an anti-diagonal, over all paths, against the closed form."""
    def lhs(paths, n, U, N):
        rows = [entries[n][1] for entries in paths]
        return sum((u - Fraction(n * U, N)) ** 2 for u in rows) / len(rows)

    def rhs(paths, n, U, N):
        return Fraction(n * U) * (N - U) * (N - n) / (N ** 2 * (N - 1))

    check_equation("eq-occ-ridge-variance", lhs, rhs, [
        (paths, n, U, T + U - 1) for T, U, paths in FLAT for n in range(T + U)])


@pytest.mark.equation("eq-occ-flat-labels")
def test_flat_labels():
    """Share of all paths that write k labels in frame t, by counting them, against a ratio of binomials."""
    def lhs(paths, T, U, k, t):
        return Fraction(sum(labels_in(entries, t) == k for entries in paths), len(paths))

    def rhs(paths, T, U, k, t):
        return comb(T + U - 2 - k, U - k) / Fraction(comb(T + U - 1, U))

    check_equation("eq-occ-flat-labels", lhs, rhs, [
        (paths, T, U, k, t) for T, U, paths in FLAT for k in range(U + 1) for t in range(T)])


@pytest.mark.equation("eq-occ-frame-labels")
def test_frame_labels():
    """Share of the mass of the paths that write k labels in frame t, against entering, writing, leaving, finishing."""
    def lhs(y, labels, entered, blank, label, beta, z, t, k, U):
        mass = sum(rnnt_mass(y, entries) for entries in rnnt_paths(y, labels) if labels_in(entries, t) == k)
        return mass / z

    def rhs(y, labels, entered, blank, label, beta, z, t, k, U):
        return 1 / z * sum(
            entered[t, u] * prod(label[t, u + j] for j in range(0, k)) * blank[t, u + k] * beta[t + 1, u + k]
            for u in range(0, U - k + 1))

    cases = []
    for y, labels in RNNT_INPUTS:
        U, alpha = len(labels), rnnt_alpha(y, labels)
        entered = np.zeros_like(alpha)
        entered[0, 0] = Fraction(1)
        entered[1:] = alpha[:-1] * y[:-1, :, BLANK]
        beta = rnnt_beta_beyond(y, labels)
        parts = [zero_outside(entered, zero=FIVE), zero_outside(y[..., BLANK], zero=FIVE),
                 zero_outside(y[:, range(U), labels], zero=FIVE), zero_outside(beta, zero=FIVE)]
        cases += [(y, labels, *parts, rnnt_z(y, labels), t, k, U) for t in range(len(y)) for k in range(U + 1)]
    check_equation("eq-occ-frame-labels", lhs, rhs, cases)


@pytest.mark.equation("eq-occ-climb")
def test_climb():
    """Share of the paths that leave frame t at or below row r, against that of the next frame and one label arc."""
    def lhs(y, labels, F, e_label, t, r):
        paths = rnnt_paths(y, labels)
        low = sum(rnnt_mass(y, entries) for entries in paths
                  if any(entry[0] == t and entry[2] == BLANK and entry[1] <= r for entry in entries))
        return low / rnnt_z(y, labels)

    def rhs(y, labels, F, e_label, t, r):
        return F[t + 1, r] + e_label[t + 1, r]

    cases = []
    for y, labels in RNNT_INPUTS:
        e_blank, e_label = arcs(y, labels)
        cases += [(y, labels, zero_outside(e_blank.cumsum(axis=1)), zero_outside(e_label), t, r)
                  for t in range(len(y) - 1) for r in range(len(labels) + 1)]
    check_equation("eq-occ-climb", lhs, rhs, cases)


class Band:
    """A set of nodes on a grid, the paths inside it and those that leave it, and Z of what is inside by a recursion."""

    def __init__(self, seed, T, labels, nodes):
        self.y, self.labels = probabilities(seed, (T, len(labels) + 1, 3)), labels
        self.z, self.gamma = rnnt_z(self.y, labels), gamma_by_masses(self.y, labels)
        self.nodes = nodes
        kept = self.y.copy()
        for node in np.ndindex(kept.shape[:2]):
            kept[node] *= node in nodes
        self.z_band = rnnt.Z(kept, labels, semiring=REAL)
        paths = rnnt_paths(self.y, labels)
        self.inside = [p for p in paths if all(entry[:2] in nodes for entry in p)]
        self.leaving = [p for p in paths if p not in self.inside]
        self.outside = [self.masses_outside(p) for p in self.leaving]

    def masses_outside(self, path):
        return rnnt_mass(self.y, path), sum(entry[:2] not in self.nodes for entry in path)

    def mean_outside(self):
        """Mean number of nodes outside, of the paths that leave."""
        return sum(mass * count for mass, count in self.outside) / sum(mass for mass, _ in self.outside)


def rows_of(lower, width, U):
    return {(t, u) for t, p in enumerate(lower) for u in range(p, min(p + width, U + 1))}


BANDS = [Band(0, 3, [1, 2], rows_of([0, 0, 1], 2, 2)), Band(1, 3, [2, 2], rows_of([0, 1, 1], 2, 2)),
         Band(2, 2, [1, 2, 1], rows_of([0, 1], 3, 3)), Band(3, 4, [1, 2], rows_of([0, 0, 1, 1], 2, 2)),
         Band(4, 3, [1, 2], {(t, u) for t in range(3) for u in range(3)} - {(1, 1)})]


@pytest.mark.equation("eq-occ-band")
def test_band():
    """Share of the mass of the paths that stay inside, one by one, against the recursion on what is inside."""
    def lhs(band, z_band, z):
        return sum(rnnt_mass(band.y, path) for path in band.inside) / z

    def rhs(band, z_band, z):
        return z_band / z

    check_equation("eq-occ-band", lhs, rhs, [(band, band.z_band, band.z) for band in BANDS])


@pytest.mark.equation("eq-occ-outside")
def test_outside():
    """Node occupancies outside, added up, against the chance to leave times the mean of the nodes visited there."""
    def lhs(band, z_band, z, M):
        return sum(value for node, value in np.ndenumerate(band.gamma) if node not in band.nodes)

    def rhs(band, z_band, z, M):
        return (1 - z_band / z) * M

    cases = [(band, band.z_band, band.z, band.mean_outside()) for band in BANDS]
    assert max(M for *_, M in cases) > 1 and cases[-1][-1] == 1  # a hole of one node is visited once
    check_equation("eq-occ-outside", lhs, rhs, cases)


@pytest.mark.equation("eq-occ-band-gradient")
def test_band_gradient():
    """Arc posteriors inside minus those of all paths, against the chance to leave and the posteriors of what leaves."""
    def lhs(band, z_band, z, e_inside, e_leaving, index):
        return (e_inside - rnnt_occupancy(band.y, band.labels))[index]

    def rhs(band, z_band, z, e_inside, e_leaving, index):
        return (1 - z_band / z) * (e_inside[index] - e_leaving[index])

    cases = []
    for band in BANDS[:3]:
        e = [expected_uses(band.y, paths) for paths in (band.inside, band.leaving)]
        cases += [(band, band.z_band, band.z, *e, index) for index in np.ndindex(band.y.shape)]
    check_equation("eq-occ-band-gradient", lhs, rhs, cases)

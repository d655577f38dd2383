"""Checks of the equations of the chapter on occupancy. Shares and expected numbers come from enumerated paths."""

from fractions import Fraction
from math import comb, prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import (
    RNNT_INPUTS,
    RNNT_SHAPES,
    Target,
    blank_of,
    expected_uses,
    probabilities,
    rnnt_alpha,
    rnnt_arcs_of_nodes,
    rnnt_beta_beyond,
    rnnt_gamma,
    rnnt_mass,
    rnnt_occupancy_of_nodes,
    rnnt_paths,
    rnnt_z,
    zero,
)
from brute_force import RNNT_INPUTS_BY_SIZE as INPUTS
from inside_a_band import path_shares, paths_inside, paths_leaving, window_nodes, z_inside
from sides import first
from tex_to_python import Notation

from reference_impl import rnnt
from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.semiring import REAL

NOTATION = notation.RNNT | Notation({
    r"P_{#t}(#j)": "P[#t, #j]",
    r"F_{#t}(#u)": "F[#t, #u]",
    r"Z_{\mathcal K}": "z_band",
    r"M_{\mathcal K}": "M",
})
QUANTITIES = ranges.RNNT | Quantities(
    {"P": "T, U + 1", "F": "T, U + 1", "left_low": "T, U + 1", "entered": "T, U + 1", "w_blank": "T, U + 1",
     "w_label": "T, U", "beta": "T + 1, U + 1", "c": "T", "eta": "U", "p_all": "T, U + 1, V", "p_inside": "T, U + 1, V",
     "p_leaving": "T, U + 1, V"},
    {"N = 2": lambda N: N == 2, "n = 0": lambda n: n == 0, "n = N": lambda n, N: n == N,
     "j = 0": lambda j, P: j == 0, "j = U": lambda j, P, U: j == U,
     "nothing leaves the band": lambda z_band, z: z_band == z, "nothing stays in the band": lambda z_band: z_band == 0})
FIVE = Fraction(5)  # what reads as 5 outside its range is noticed when it is read there


@pytest.mark.equation("eq-occ-dummy", patterns={r"\frac{\partial L}{\partial \nu(t, u)}": "slope"})
def test_dummy():
    """Z is affine in the factor e^nu of the arcs that leave a node: exact difference, over -Z, against alpha beta."""
    def rhs(slope, gamma, t, u):
        return -gamma[t, u]

    def cases():
        for y, labels in INPUTS:
            gamma = zero_outside(rnnt_gamma(y, labels))
            for t, u in np.ndindex(y.shape[:2]):
                yield -by_factor(y, labels, t, u) / rnnt_z(y, labels), gamma, t, u

    check_equation("eq-occ-dummy", first, rhs, cases())


@computed(kind="exact difference")
def by_factor(y, labels, t, u):
    """The derivative of Z with respect to a factor of all that leaves a node, at 1."""
    return exact_difference(lambda factors: rnnt_z(y * factors[..., None], labels), np.full(y.shape[:2], Fraction(1)),
                            (t, u), h=2)


@pytest.mark.equation("eq-occ-rescale", patterns={"Z'": "z_rescaled"})
def test_rescale():
    """The sum over paths with a factor on the blanks of each frame and one on each label, against factors taken out."""
    def rhs(z_rescaled, z, c, eta, T, U):
        return z * prod(c[t] for t in range(0, T)) * prod(eta[u] for u in range(0, U))

    def cases():
        for y, labels in INPUTS:
            (T, rows, _), c, eta, scaled = y.shape, probabilities(7, len(y)), probabilities(8, len(labels)), y.copy()
            for t, u in np.ndindex(T, rows):
                scaled[t, u, blank_of(labels)] *= c[t]
                if u < rows - 1:
                    scaled[t, u, labels[u]] *= eta[u]
            yield (rnnt_z(scaled, labels), rnnt_z(y, labels), zero_outside(c, zero=FIVE), zero_outside(eta, zero=FIVE),
                   T, rows - 1)

    check_equation("eq-occ-rescale", first, rhs, cases())


def flats():
    """All paths weigh the same."""
    for T, V, labels in [*RNNT_SHAPES, (1, 3, [1, 2]), (2, 3, [1]), (4, 3, [1, 1, 2]), (5, 2, [1, 1, 1])]:
        yield np.full((T, len(labels) + 1, V), Fraction(1)), labels


@pytest.mark.equation("eq-occ-ridge-variance", over={
    "t + u = n": "for t, u in np.ndindex(T, U + 1) if t + u == n"})
def test_ridge_variance():
    """The occupancies alpha beta / Z of equal paths along an anti-diagonal, weighted by the squared distance from the
    mean row, against the closed form; both sides are mutated."""
    def left(gamma, n, T, U, N):
        return sum((u - Fraction(n * U, N)) ** 2 * gamma[t, u] for t, u in np.ndindex(T, U + 1) if t + u == n)

    def right(gamma, n, T, U, N):
        return Fraction(n * U) * (N - U) * (N - n) / (N ** 2 * (N - 1))

    def cases():
        for y, labels in flats():
            T, U = len(y), len(labels)
            gamma = zero_outside(rnnt_gamma(y, labels))
            yield from ((gamma, n, T, U, T + U - 1) for n in range(T + U) if T + U - 1 >= 2)

    check_equation("eq-occ-ridge-variance", left, right, cases())
    check_equation("eq-occ-ridge-variance", right, left, cases())


@computed
def shares_by_labels(y, labels):
    """P_t(j), (T, U+1): the share of the mass of the paths that write j labels in frame t."""
    blank, shares = blank_of(labels), np.full(y.shape[:2], zero(y), dtype=object)
    paths = rnnt_paths(y, labels)
    for entries, share in zip(paths, path_shares(y, paths), strict=True):
        for t in range(len(y)):
            shares[t, sum(frame == t and k != blank for frame, _, k in entries)] += share
    return shares


@pytest.mark.equation("eq-occ-flat-labels")
def test_flat_labels():
    """Share of all paths that write j labels in frame t, by counting them, against a ratio of binomials."""
    def lhs(P, T, U, j, t):
        return P[t, j]

    def rhs(P, T, U, j, t):
        return comb(T + U - 2 - j, U - j) / Fraction(comb(T + U - 1, U))

    check_equation("eq-occ-flat-labels", lhs, rhs, (
        (P, len(y), len(labels), j, t) for y, labels in flats() if len(y) >= 2
        for P in [zero_outside(shares_by_labels(y, labels))] for t, j in np.ndindex(P.array.shape)),
        left_out={"T = 1": "for T >= 2"})


def entered(y, labels):
    """def-occ-entered: the mass of the prefixes that enter a frame in a row."""
    alpha = rnnt_alpha(y, labels)
    found = alpha * 0
    found[0, 0] += 1
    found[1:] = alpha[:-1] * y[:-1, :, blank_of(labels)]
    return found


@pytest.mark.equation("eq-occ-frame-labels", patterns={
    r"\iota(#t, #u)": "entered[#t, #u]", r"\varnothing(#t, #u)": "w_blank[#t, #u]", r"y(#t, #u)": "w_label[#t, #u]"})
def test_frame_labels():
    """Share of the mass of the paths that write j labels in frame t, against entering, writing, leaving, finishing."""
    def lhs(P, entered, w_blank, w_label, beta, z, t, j, U):
        return P[t, j]

    def rhs(P, entered, w_blank, w_label, beta, z, t, j, U):
        return 1 / z * sum(
            entered[t, u] * prod(w_label[t, u + i] for i in range(0, j)) * w_blank[t, u + j] * beta[t + 1, u + j]
            for u in range(0, U - j + 1))

    def cases():
        for y, labels in INPUTS:
            U = len(labels)
            parts = (entered(y, labels), y[..., blank_of(labels)], y[:, range(U), list(labels)],
                     rnnt_beta_beyond(y, labels))
            parts = [zero_outside(part, zero=FIVE) for part in parts]
            for t, j in np.ndindex(y.shape[:2]):
                yield shares_by_labels(y, labels), *parts, rnnt_z(y, labels), t, j, U

    check_equation("eq-occ-frame-labels", lhs, rhs, cases())


@computed
def shares_leaving_low(y, labels):
    """F_t(u), (T, U+1): the share of the mass of the paths that leave frame t in row u or lower."""
    blank, shares = blank_of(labels), np.full(y.shape[:2], zero(y), dtype=object)
    paths = rnnt_paths(y, labels)
    for entries, share in zip(paths, path_shares(y, paths), strict=True):
        for t, u, k in entries:
            if k == blank:
                shares[t, u:] += share
    return shares


@pytest.mark.equation("eq-occ-climb", conditions={r"t = 0, \dots, T - 2": "0 <= t <= T - 2"})
def test_climb():
    """Share of the paths that leave frame t at or below row u, against that of the next frame and one label arc, both
    from alpha and beta. At the last frame there is no next one, and the equation is false."""
    def lhs(left_low, F, e_label, t, u, T):
        return left_low[t, u]

    def rhs(left_low, F, e_label, t, u, T):
        return F[t + 1, u] + e_label[t + 1, u]

    def cases(frames):
        for y, labels in INPUTS:
            e_blank, e_label = rnnt_arcs_of_nodes(y, labels)
            F = zero_outside(e_blank.cumsum(axis=1))
            for t, u in np.ndindex(y.shape[:2]):
                if t in frames(len(y)):
                    yield shares_leaving_low(y, labels), F, zero_outside(e_label), t, u, len(y)

    reason = "for t = 0, ..., T - 2"
    check_equation("eq-occ-climb", lhs, rhs, cases(lambda T: range(T - 1)),
                   left_out={"T = 1": reason, "t = T - 1": reason})
    assert any(lhs(*case) != rhs(*case) for case in cases(lambda T: [T - 1]))


def bands():
    """y, labels, and the nodes that are kept: of windows, or all but a hole."""
    windows = [(3, 3, [1, 2], [0, 0, 1], 2), (3, 3, [2, 2], [0, 1, 1], 2), (2, 3, [1, 2, 1], [0, 1], 3),
               (4, 3, [1, 2], [0, 0, 1, 1], 2), (2, 2, [1, 1, 1], [0, 1], 3),
               (2, 4, Target([3, 0], blank=2), [0, 1], 2), (3, 3, [1, 2], [0, 0, 0], 2), (1, 3, [2], [0], 2),
               (1, 3, [2], [0], 1), (3, 3, [], [0, 0, 0], 1), (3, 3, [], [0, 1, 0], 1)]
    for seed, (T, V, labels, lower, rows) in enumerate(windows):
        yield probabilities(seed, (T, len(labels) + 1, V)), labels, window_nodes(lower, rows, len(labels))
    y, labels = RNNT_INPUTS[0]
    yield y, labels, [node for node in np.ndindex(y.shape[:2]) if node != (1, 1)]


@pytest.mark.equation("eq-occ-band", patterns={r"\Pr(\text{path inside } \mathcal K)": "inside"})
def test_band():
    """Share of the mass of the paths that stay inside, one by one, against the recursion on what is inside."""
    def rhs(inside, z_band, z):
        return z_band / z

    check_equation("eq-occ-band", first, rhs, (
        (share_inside(y, labels, nodes), z_inside(y, labels, nodes), rnnt_z(y, labels))
        for y, labels, nodes in bands()))


@computed
def share_inside(y, labels, nodes):
    inside, leaving = [sum(rnnt_mass(y, path) for path in paths(y, labels, nodes))
                       for paths in (paths_inside, paths_leaving)]
    return inside / (inside + leaving)


@computed
def mean_outside(y, labels, nodes):
    """Mean number of nodes outside, of the paths that leave."""
    paths = paths_leaving(y, labels, nodes)
    return sum(share * sum(entry[:2] not in nodes for entry in path)
               for path, share in zip(paths, path_shares(y, paths), strict=True))


@pytest.mark.equation("eq-occ-outside", over={
    r"(t, u) \notin \mathcal K": "for t, u in np.ndindex(gamma.shape) if (t, u) not in K"})
def test_outside():
    """Node occupancies outside, added up, against the chance to leave times the mean of the nodes visited there; both
    sides are mutated."""
    def left(gamma, K, z_band, z, M):
        return sum(gamma[t, u] for t, u in np.ndindex(gamma.shape) if (t, u) not in K)

    def right(gamma, K, z_band, z, M):
        return (1 - z_band / z) * M

    def cases():
        for y, labels, nodes in bands():
            if len(paths_leaving(y, labels, nodes)) > 0:
                yield (rnnt_gamma(y, labels), nodes, z_inside(y, labels, nodes), rnnt_z(y, labels),
                       mean_outside(y, labels, nodes))

    nothing = {"nothing leaves the band": "M is a mean over the paths that leave"}
    check_equation("eq-occ-outside", left, right, cases(), left_out=nothing)
    check_equation("eq-occ-outside", right, left, cases(), left_out=nothing)


def test_bands():
    """A hole of one node is visited once, and the package finds the same Z inside."""
    *_, hole = bands()
    assert mean_outside(*hole) == 1 < max(mean_outside(*band) for band in list(bands())[:3])
    for y, labels, nodes in bands():
        kept = [[y[t, u] * ((t, u) in nodes) for u in range(y.shape[1])] for t in range(len(y))]
        assert rnnt.Z(np.array(kept), labels, blank=blank_of(labels), semiring=REAL) == z_inside(y, labels, nodes)


@pytest.mark.equation("eq-occ-band-gradient", patterns={
    r"\Pr\nolimits_{\mathcal K}(e)": "p_inside[e]", r"\Pr\nolimits_{\text{out}}(e)": "p_leaving[e]",
    r"\Pr(e)": "p_all[e]"})
def test_band_gradient():
    """Arc posteriors inside minus those of alpha and beta, against the chance to leave and the posteriors of what
    leaves; both sides are mutated."""
    def left(p_all, p_inside, p_leaving, z_band, z, e):
        return p_inside[e] - p_all[e]

    def right(p_all, p_inside, p_leaving, z_band, z, e):
        return (1 - z_band / z) * (p_inside[e] - p_leaving[e])

    def cases():
        for y, labels, nodes in bands():
            kept = z_inside(y, labels, nodes), rnnt_z(y, labels)
            inside, leaving = (paths(y, labels, nodes) for paths in (paths_inside, paths_leaving))
            if inside and leaving:
                p = rnnt_occupancy_of_nodes(y, labels), expected_uses(y, inside), expected_uses(y, leaving)
                for e in np.ndindex(y.shape):
                    yield *p, *kept, e

    one_path = {end: "one path: it stays or it leaves" for end in ("T = 1", "U = 0")}
    left_out = one_path | {"nothing leaves the band": "0 < Z_K < Z", "nothing stays in the band": "0 < Z_K < Z"}
    check_equation("eq-occ-band-gradient", left, right, cases(), left_out=left_out)
    check_equation("eq-occ-band-gradient", right, left, cases(), left_out=left_out)

"""Checks of the equations of the chapter on pruned RNN-T. Probabilities come from enumerated paths, and which of them
stay in a band from the nodes that they visit; bounds from all sequences that there are.
"""

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from math import prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import (
    RNNT_INPUTS,
    blank_of,
    each_entry,
    expected_uses,
    grad_logit,
    probabilities,
    rnnt_alpha,
    rnnt_arcs_of_nodes,
    rnnt_beta_beyond,
    rnnt_mass,
    rnnt_paths,
    rnnt_z,
    zero,
)
from inside_a_band import is_inside, path_shares, paths_inside, visit_shares, window_nodes, z_inside
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"\varnothing(#t, #u)": "w_blank[#t, #u]",
    r"y(#t, #u)": "w_label[#t, #u]",
    r"p_{#t}(#i, #j)": "P[#t, #i, #j]",
    r"\phi_{#t}(#b)": "phi[#t, #b]",
    r"\hat b_{#t}": "top[#t]",
    "t'": "later",
    r"Z_{\mathcal K}": "z_band",
}, {r"t' \ge t": "for later in range(t, T)", r"\pi": "range(paths)"})
QUANTITIES = ranges.RNNT | Quantities(
    {"P": "T, U + 1, U + 1", "entered": "T, U + 1", "w_blank": "T, U + 1", "w_label": "T, U + 1",
     "beta": "T + 1, U + 1", "alpha_band": "T, U + 1", "gamma_band": "T, U + 1", "E_band": "T, U + 1, V",
     "chi": "T", "m": "T", "bounds": "T + 1", "top": "T"},
    {"i = j": lambda i, j: i == j, "i < j": lambda i, j: i < j, "i = 0": lambda i: i == 0,
     "j = U": lambda j, U, P: j == U,
     "Q = 1": lambda Q: Q == 1, "Q = U + 1": lambda Q, U: Q == U + 1, "b = 0": lambda b, phi: b == 0,
     "b = U + 1 - Q": lambda b, Q, U, phi: b == U + 1 - Q,
     "g = 0, Q = 1": lambda g: g == 0, "g > 1": lambda g: g > 1,
     "nothing leaves the band": lambda z_band, z: z_band == z, "nothing stays in the band": lambda z_band: z_band == 0})
FIVE = Fraction(5)  # what reads as 5 outside its range is noticed when it is read there
INPUTS = [*RNNT_INPUTS, *((probabilities(seed, (T, len(labels) + 1, V)), labels) for seed, T, V, labels in (
    (9, 3, 3, [1, 2, 1]), (10, 4, 3, [2, 1]), (11, 4, 2, [1, 1, 1])))]


def weights(y, labels):
    """Of the arcs by blank and by label, (T, U+1); no label leaves the top row."""
    w_blank, w_label = y[..., blank_of(labels)], y[..., 0] * 0
    w_label[:, :-1] = y[:, range(len(labels)), list(labels)]
    return w_blank, w_label


@computed
def moves(y, labels):
    """p_t(i, j), (T, U+1, U+1): the share of the paths that enter frame t in row i and leave it in row j."""
    rows = y.shape[1]
    found = np.full((len(y), rows, rows), zero(y), dtype=object)
    paths = rnnt_paths(y, labels)
    for entries, share in zip(paths, path_shares(y, paths), strict=True):
        for t in range(len(y)):
            visited = [u for frame, u, _ in entries if frame == t]
            found[t, visited[0], visited[-1]] += share
    return found


@pytest.mark.equation("eq-prune-moves", patterns={r"\iota(#t, #u)": "entered[#t, #u]"})
def test_moves():
    """Share of the paths that enter frame t in row i and leave it in row j against a prefix, steps and a suffix."""
    def lhs(P, z, entered, w_label, w_blank, beta, t, i, j):
        return P[t, i, j]

    def rhs(P, z, entered, w_label, w_blank, beta, t, i, j):
        return 1 / z * entered[t, i] * prod(w_label[t, u] for u in range(i, j)) * w_blank[t, j] * beta[t + 1, j]

    def cases():
        for y, labels in INPUTS:
            alpha, (w_blank, w_label) = rnnt_alpha(y, labels), weights(y, labels)
            entered = w_blank * 0
            entered[0, 0], entered[1:] = 1, (alpha * w_blank)[:-1]
            arrays = entered, w_label, w_blank, rnnt_beta_beyond(y, labels)
            P, z, arrays = moves(y, labels), rnnt_z(y, labels), [zero_outside(array) for array in arrays]
            for t, i, j in np.ndindex(P.shape):
                if i <= j:
                    yield P, z, *arrays, t, i, j

    check_equation("eq-prune-moves", lhs, rhs, cases())


def test_moves_add_up_to_1():
    for y, labels in INPUTS:
        assert all(frame.sum() == 1 == np.triu(frame).sum() for frame in moves(y, labels))


def scores(e_blank, e_label, Q):
    """def-prune-score, for every frame and first row of a window."""
    T, rows = e_blank.shape
    phi = np.empty((T, rows + 1 - Q), dtype=object)
    for t, b in np.ndindex(phi.shape):
        phi[t, b] = sum(e_blank[t, b:b + Q]) - (e_label[t, b - 1] if b > 0 else 0)
    return phi


def windows(T, U):
    """Rows of a window, frame, first row."""
    return [(Q, t, b) for Q in (1, 2, 3) for t in range(T) for b in range(U + 2 - Q)]


@pytest.mark.equation("eq-prune-score")
def test_score():
    """k2's score, from the arcs' posteriors by alpha and beta, against the probabilities to be inside and to cross, by
    enumeration."""
    def lhs(phi, P, t, b, Q, U):
        return phi[t, b]

    def rhs(phi, P, t, b, Q, U):
        return (sum(P[t, i, j] for i in range(b, b + Q) for j in range(i, b + Q))
                - sum(P[t, i, j] for i in range(0, b) for j in range(b + Q, U + 1)))

    def cases():
        for y, labels in INPUTS:
            P, arcs = zero_outside(moves(y, labels), FIVE), rnnt_arcs_of_nodes(y, labels)
            for Q, t, b in windows(len(y), len(labels)):
                yield scores(*arcs, Q), P, t, b, Q, len(labels)

    check_equation("eq-prune-score", lhs, rhs, cases(), equivalent={
        "shift bound: range(b, b + Q) -> range(b, b + Q + 1)": "nobody enters above the window and leaves inside it"})


@computed(kind="walking")
def paths_one_a_frame(y, labels):
    """Paths of which every step takes a frame."""
    paths = []
    for by_label in product((False, True), repeat=len(y)):
        if sum(by_label) == len(labels):
            rows = [sum(by_label[:t]) for t in range(len(y))]
            paths.append([(t, u, labels[u] if by_label[t] else blank_of(labels)) for t, u in enumerate(rows)])
    return paths


@computed(kind="recursion")
def arcs_one_a_frame(y, labels):
    """Posteriors of the blank arcs, (T, U+1), and of the label arcs, (T, U), where every step takes a frame."""
    (T, rows, _), (w_blank, w_label) = y.shape, weights(y, labels)
    alpha = np.full((T + 1, rows), zero(y), dtype=object)
    beta = alpha.copy()
    alpha[0, 0] += 1
    beta[T, -1] += 1
    for t in range(T):
        alpha[t + 1] = alpha[t] * w_blank[t]
        alpha[t + 1, 1:] += (alpha[t] * w_label[t])[:-1]
    for t in reversed(range(T)):
        beta[t] = w_blank[t] * beta[t + 1]
        beta[t, :-1] += w_label[t, :-1] * beta[t + 1, 1:]
    e_blank, e_label = alpha[:T] * w_blank * beta[1:], alpha[:T, :-1] * w_label[:, :-1] * beta[1:, 1:]
    return e_blank / beta[0, 0], e_label / beta[0, 0]


@pytest.mark.equation("eq-prune-score-monotonic")
def test_score_monotonic():
    """The same score where a label ends its frame, from posteriors by its recursions, against the shares of enumerated
    paths that visit the nodes, and the same posteriors of labels."""
    def lhs(phi, gamma, e_label, t, b, Q, U):
        return phi[t, b]

    def rhs(phi, gamma, e_label, t, b, Q, U):
        return (sum(gamma[t, u] for u in range(b, b + Q))
                - sum(e_label[t, u] for u in range(b - 1, b + Q)))

    def cases():
        for y, labels in INPUTS:
            if len(y) < len(labels):
                continue
            gamma = zero_outside(visit_shares(y, paths_one_a_frame(y, labels)))
            e_blank, e_label = arcs_one_a_frame(y, labels)
            for Q, t, b in windows(len(y), len(labels)):
                yield scores(e_blank, e_label, Q), gamma, zero_outside(e_label), t, b, Q, len(labels)

    check_equation("eq-prune-score-monotonic", lhs, rhs, cases(), left_out={
        "T < U": "a path has at most one label in each frame"})


# --- the bounds ---


ROWS = range(4)


def choices():
    """Bounds that the windows might choose: all of up to four frames, with rows up to 3."""
    return [list(a) for T in (1, 2, 3, 4) for a in product(ROWS, repeat=T)]


def never_falling():
    return [list(c) for T in (1, 2, 3, 4) for c in combinations_with_replacement(ROWS, T)]


def nowhere_above(c, a):
    return all(x <= y for x, y in zip(c, a, strict=True))


@computed
def largest_below(a):
    """Of all sequences that never fall and lie nowhere above ``a``, the largest: in each frame the largest there is."""
    below = [c for c in combinations_with_replacement(ROWS, len(a)) if nowhere_above(c, a)]
    return [max(frame) for frame in zip(*below, strict=True)]


@computed
def smallest_above(m, g):
    """Of all sequences that rise by at most g a frame and lie nowhere below ``m``, the smallest."""
    above = [c for c in product(ROWS, repeat=len(m)) if nowhere_above(m, c) and all(y - x <= g for x, y in pairwise(c))]
    return [min(frame) for frame in zip(*above, strict=True)]


@pytest.mark.equation("eq-prune-lowered")
def test_lowered():
    """The largest sequence that never falls and lies nowhere above the bounds, among all, against running minima."""
    def lhs(m, chi, t, T):
        return m[t]

    def rhs(m, chi, t, T):
        return min(chi[later] for later in range(t, T))

    check_equation("eq-prune-lowered", lhs, rhs, (
        (m, zero_outside(chi, 0), t, len(chi))
        for chi in choices() for m in [largest_below(chi)] for t in range(len(chi))))


def raised(m, g):
    """The smallest sequence above lowered bounds that rises by at most g, cut off at the line."""
    return [min(c, g * t) for t, c in enumerate(smallest_above(m, g))]


@pytest.mark.equation("eq-prune-raised", patterns={"b_{t}": "raised[t]"})
def test_raised():
    """The smallest sequence above the lowered one that rises by at most g, among all, cut off; lowered bounds are all
    those that never fall."""
    def lhs(raised, m, g, t, T):
        return raised[t]

    def rhs(raised, m, g, t, T):
        return min(g * t, max(m[later] - g * (later - t) for later in range(t, T)))

    check_equation("eq-prune-raised", lhs, rhs, (
        (b, zero_outside(m, 50), g, t, len(m)) for m in never_falling() for g in (0, 1, 2) for b in [raised(m, g)]
        for t in range(len(m))))


def test_raised_is_admissible():
    """The bounds begin at 0, never fall, rise by at most g, and end where the last window wants, if g allows it."""
    assert [largest_below(m) for m in never_falling()] == never_falling()
    for m in never_falling():
        for g in (0, 1, 2):
            b = raised(m, g)
            assert b[0] == 0 and all(0 <= y - x <= g for x, y in pairwise(b))
            assert b[-1] == min(m[-1], g * (len(m) - 1))


# --- what is left ---


def bands_that_lose_some():
    """y, labels, bounds and Q, where some paths stay and some leave."""
    for case, lower, Q in [(6, [0, 1], 3), (7, [0, 1], 2), (2, [0, 1], 3), (0, [0, 0, 1], 2), (0, [0, 1, 1], 2),
                           (1, [0, 1, 1], 2), (8, [0, 1, 2], 2), (8, [0, 0, 1], 3), (9, [0, 0, 0, 1], 2),
                           (9, [0, 1, 1, 1], 2), (10, [0, 1, 1, 2], 2)]:
        yield *INPUTS[case], lower, Q


def bands():
    """Also those where no path leaves, and where none stays."""
    yield from bands_that_lose_some()
    for case, lower, Q in [(3, [0], 2), (4, [0, 0, 0], 1), (0, [0, 0, 0], 2), (8, [0, 0, 1], 2), (3, [0], 1)]:
        yield *INPUTS[case], lower, Q


@computed(kind="walking")
def prefixes_inside(y, labels, lower, Q):
    """Mass of all prefixes that reach a node and have visited nodes of the band only, the node included."""
    def go(t, u, mass):
        if t < len(y) and u <= len(labels) and lower[t] <= u < lower[t] + Q:
            found[t, u] += mass
            go(t + 1, u, mass * y[t, u, blank_of(labels)])
            if u < len(labels):
                go(t, u + 1, mass * y[t, u, labels[u]])

    found = np.full(y.shape[:2], Fraction(0))
    go(0, 0, Fraction(1))
    return found


@pytest.mark.equation("eq-prune-exits", patterns={
    r"\alpha_{\mathcal K}(#t, #u)": "alpha_band[#t, #u]", "b_{#t}": "bounds[#t]"})
def test_exits():
    """Z by enumeration less Z of the band by its recursion, against the arcs on which paths leave first. False for
    bounds that begin above row 0, or fall."""
    def lhs(z, z_band, alpha_band, w_label, w_blank, beta, bounds, top, T):
        return z - z_band

    def rhs(z, z_band, alpha_band, w_label, w_blank, beta, bounds, top, T):
        return sum(alpha_band[t, top[t]] * w_label[t, top[t]] * beta[t, top[t] + 1]
                   + sum(alpha_band[t, u] * w_blank[t, u] * beta[t + 1, u] for u in range(bounds[t], bounds[t + 1]))
                   for t in range(0, T))

    def case(y, labels, lower, Q):
        w_blank, w_label = weights(y, labels)
        z_band = z_inside(y, labels, window_nodes(lower, Q, len(labels)))
        tables = prefixes_inside(y, labels, lower, Q), w_label, w_blank, rnnt_beta_beyond(y, labels)
        return (rnnt_z(y, labels), z_band, *(zero_outside(table, FIVE) for table in tables),
                zero_outside([*lower, lower[-1]], 9), zero_outside([low + Q - 1 for low in lower], 9), len(y))

    check_equation("eq-prune-exits", lhs, rhs, (case(*band) for band in bands()))
    y, labels = INPUTS[0]
    for lower in ([0, 1, 0], [1, 1, 1]):
        assert lhs(*case(y, labels, lower, 2)) != rhs(*case(y, labels, lower, 2))


@pytest.mark.equation("eq-prune-grad-logits", patterns={
    r"\frac{\partial L_{\mathcal K}}{\partial z_{t,u}(k)}": "grad_logits",
    r"\gamma_{\mathcal K}(#t, #u)": "gamma_band[#t, #u]", r"E^{\mathcal K}_{#t,#u}(#k)": "E_band[#t, #u, #k]"},
    conditions={r"(t, u) \in \mathcal K": "(t, u) in K"})
def test_grad_logits():
    """sympy: the derivative of -log Z of the band's recursion, against the shares of the paths inside that visit a
    node, and that use an entry; outside it is 0."""
    def rhs(grad_logits, y, gamma_band, E_band, K, t, u, k):
        return y[t, u, k] * gamma_band[t, u] - E_band[t, u, k]

    check_equation("eq-prune-grad-logits", first, rhs, (case for kept, *case in gradients() if kept))
    assert all(grad_logits == 0 for kept, grad_logits, *_ in gradients() if not kept)


def gradients():
    """Whether a node is in the band, and what the test above compares."""
    for x, labels, lower, Q in bands():
        y, nodes = softmax(x), window_nodes(lower, Q, len(labels))
        paths = paths_inside(y, labels, nodes)
        if paths and x.size <= 32:  # sympy's time
            gamma, E = zero_outside(visit_shares(y, paths), FIVE), zero_outside(expected_uses(y, paths), FIVE)
            slopes = grad_logits_inside(x, labels, nodes)
            for t, u, k in np.ndindex(x.shape):
                yield (t, u) in nodes, slopes[t, u, k], zero_outside(y, FIVE), gamma, E, nodes, t, u, k


@computed(kind="sympy")
def grad_logits_inside(x, labels, nodes):
    """d(-log Z)/d logit of every entry for x = e^logit, Z that of the band's recursion."""
    return each_entry(x.shape, lambda *index: grad_logit(lambda y: z_inside(y, labels, nodes), x, *index))


@computed
def distributions(y, labels, nodes):
    """Of each path its share in all, in those inside and in those that leave."""
    paths = rnnt_paths(y, labels)
    masses = [rnnt_mass(y, entries) for entries in paths]
    inside = [mass * is_inside(entries, nodes) for mass, entries in zip(masses, paths, strict=True)]
    leaving = [mass - kept for mass, kept in zip(masses, inside, strict=True)]
    return [np.array([mass / sum(each) for mass in each]) for each in (masses, inside, leaving)]


def shares_and_masses():
    for y, labels, lower, Q in bands_that_lose_some():
        nodes = window_nodes(lower, Q, len(labels))
        of_all, of_band, of_leaving = distributions(y, labels, nodes)
        yield (zero_outside(of_all, 5), zero_outside(of_band, 3), zero_outside(of_leaving, 2),
               z_inside(y, labels, nodes), rnnt_z(y, labels))


PATHS = {r"\Pr(\pi)": "of_all[pi]", r"\Pr\nolimits_{\mathcal K}(\pi)": "of_band[pi]",
         r"\Pr\nolimits_{\text{out}}(\pi)": "of_leaving[pi]", r"F(\pi)": "F[pi]"}
SOME_LEAVE = {end: "one path: it stays or it leaves" for end in ("T = 1", "U = 0")} | {
    end: "epsilon is neither 0 nor 1" for end in ("nothing leaves the band", "nothing stays in the band")}


@pytest.mark.equation("eq-prune-variation", patterns=PATHS)
def test_variation():
    """Half the sum of the differences between the two distributions of paths against the mass lost, by the band's
    recursion; both sides are mutated."""
    def left(of_all, of_band, z_band, z, paths):
        return Fraction(1, 2) * sum(abs(of_band[pi] - of_all[pi]) for pi in range(0, paths))

    def right(of_all, of_band, z_band, z, paths):
        return 1 - z_band / z

    def cases():
        for of_all, of_band, _, z_band, z in shares_and_masses():
            yield of_all, of_band, z_band, z, len(of_all.array)

    check_equation("eq-prune-variation", left, right, cases(), left_out=SOME_LEAVE)
    check_equation("eq-prune-variation", right, left, cases(), left_out=SOME_LEAVE)


@pytest.mark.equation("eq-prune-mean", patterns=PATHS)
def test_mean():
    """Difference of the means of any number that belongs to a path against that of paths inside and outside; both sides
    are mutated."""
    def left(of_all, of_band, of_leaving, z_band, z, F, paths):
        return sum((of_band[pi] - of_all[pi]) * F[pi] for pi in range(0, paths))

    def right(of_all, of_band, of_leaving, z_band, z, F, paths):
        return (1 - z_band / z) * sum((of_band[pi] - of_leaving[pi]) * F[pi] for pi in range(0, paths))

    def cases():
        for seed, (*shares, z_band, z) in enumerate(shares_and_masses()):
            paths = len(shares[0].array)
            F = probabilities(seed, paths) - Fraction(100, 7)
            yield *shares, z_band, z, zero_outside(F, FIVE), paths

    check_equation("eq-prune-mean", left, right, cases(), left_out=SOME_LEAVE)
    check_equation("eq-prune-mean", right, left, cases(), left_out=SOME_LEAVE)

"""Checks of the equations on the token-and-duration transducer. The left sides come from enumerated paths."""

from fractions import Fraction
from itertools import product
from math import comb

import notation
import numpy as np
import pytest
import ranges
from big_steps import SCALES, fenced, mass_at_nodes, mass_of_ways, ways, with_end
from brute_force import (
    RNNT_INPUTS,
    Target,
    blank_of,
    each_entry,
    expected_uses,
    probabilities,
    rnnt_mass,
    rnnt_z,
    slope_at,
    zero,
)
from sides import first
from tex_to_python import Notation

from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"q_{#d}(#t, #u)": "q[#d][#t, #u]",
    r"e^{#d}_\varnothing(#t, #u)": "blank_pairs[#d][#t, #u]",
    r"e^{#d}_y(#t, #u)": "label_pairs[#d][#t, #u]",
    r"F_{#t,#u}(#d)": "F[#d][#t, #u]",
    r"\mathcal D": "D",
    r"c_{#n,#m}(#T)": "c[#n, #m, #T]",
    r"e^{-\sigma}": "s",
    r"\tilde\beta(#t, #u)": "leaking[#t, #u]",
    r"\tilde E_{#t,#u}(#k)": "leaking_uses[#t, #u, #k]",
    r"\rho(#t, #u)": "rho[#t, #u]",
}, over={r"d \in \mathcal D_+": "for d in D if d > 0"})
QUANTITIES = ranges.RNNT | Quantities({"D": "durations"}, {
    "0 in D": lambda D: 0 in D,
    "0 not in D": lambda D: 0 not in D,
    "1 in D": lambda D: 1 in D,
    "1 not in D": lambda D: 1 not in D,
    "d = 0": lambda d: d == 0,
    "a duration past the end": (lambda d, t, T: t + d > T, lambda D, T: max(D) > T),
    "no path": (lambda z: z == 0, lambda count: count == 0),
})
POSITIVE = {"no path": "where Z > 0"}

# frames, symbols, labels, durations: with 0 and 1 and without; equal labels, more labels than frames, few symbols, no
# label, one frame, another blank
SHAPES = [(4, 3, [1, 2], (0, 2, 3)), (3, 3, [2, 2], (0, 1, 2)), (2, 2, [1, 1, 1], (0, 1)), (4, 4, [2], (1, 2)),
          (5, 2, [1], (0, 2, 3)), (3, 3, [], (1, 3)), (1, 3, [2], (0, 1, 2)),
          (3, 4, Target([3, 0], blank=2), (0, 1, 3))]
NO_PATH = [(3, 3, [2], (2, 3))]
# without a duration 1; the last of these cannot have a path
CORNER_SHAPES = [(4, 3, [1, 2], (0, 2, 3)), (5, 2, [1], (0, 2, 3)), (5, 4, [2], (2, 3)), (5, 3, [], (2, 3)),
                 (2, 2, [1, 1, 1, 1], (0, 2, 3)), (3, 4, Target([3, 0], blank=2), (0, 2, 3))]
NO_PATH_BUT_CORNER = [(1, 3, [1, 2], (0, 2)), (1, 2, [], (2, 3)), (3, 3, [2], (0, 2))]


def inputs(shapes):
    """Scores: those of the durations stand behind those of the symbols. Labels, and durations."""
    for seed, (T, V, labels, D) in enumerate(shapes):
        yield probabilities(seed, (T, len(labels) + 1, V + len(D))), labels, D


# --- paths, by trying every step ---


def steps(T, V, labels, D, final_blank=True):
    U, blank = len(labels), blank_of(labels)

    def from_node(t, u):
        for i, d in enumerate(D):
            if d > 0 and (t + d < T or (t + d, u) == (T, U)):
                yield (t + d, u), [(t, u, blank), (t, u, V + i)]
            if u < U and (t + d < T or not final_blank and (t + d, u + 1) == (T, U)):
                yield (t + d, u + 1), [(t, u, labels[u]), (t, u, V + i)]

    return from_node


def sizes(w, labels, D):
    """T, U, and V."""
    return len(w), len(labels), w.shape[-1] - len(D)


def mass_between(w, labels, D, start, goal, final_blank=True):
    T, _, V = sizes(w, labels, D)
    return mass_of_ways(w, start, goal, steps(T, V, labels, D, final_blank))


@computed
def tdt_paths(T, V, labels, D, final_blank=True):
    """All paths, each as the entries of its steps, that of the symbol and that of the duration."""
    return list(ways((0, 0), (T, len(labels)), steps(T, V, labels, D, final_blank)))


@computed
def tdt_z(w, labels, D, final_blank=True):
    return mass_between(w, labels, D, (0, 0), (len(w), len(labels)), final_blank)


@computed
def tdt_alpha(w, labels, D):
    """Mass of all beginnings that reach node (t, u)."""
    T, U, _ = sizes(w, labels, D)
    return mass_at_nodes(w, T, U, lambda node: mass_between(w, labels, D, (0, 0), node))


@computed
def tdt_beta(w, labels, D, final_blank=True):
    """Mass of all endings from node (t, u), its own step included, and the end, in one more column."""
    T, U, _ = sizes(w, labels, D)
    return with_end(mass_at_nodes(w, T, U, lambda node: mass_between(w, labels, D, node, (T, U), final_blank)))


def factors(w, labels, D):
    """What recursions read: y, {d: q_d}, labels, blank, D."""
    y, q = np.split(w, [w.shape[-1] - len(D)], axis=-1)
    return (zero_outside(y), {d: zero_outside(q[..., i]) for i, d in enumerate(D)}, zero_outside(labels, zero=-1),
            blank_of(labels), D)


def nodes(w):
    """Every (t, u)."""
    return np.ndindex(w.shape[:2])


# --- recursions ---


@pytest.mark.equation("eq-tdt-alpha")
def test_alpha():
    """Mass of the enumerated beginnings against those of the nodes before."""
    def lhs(alpha, y, q, labels, blank, D, t, u):
        return alpha[t, u]

    def rhs(alpha, y, q, labels, blank, D, t, u):
        return (sum(alpha[t - d, u] * y[t - d, u, blank] * q[d][t - d, u] for d in D if d > 0)
                + sum(alpha[t - d, u - 1] * y[t - d, u - 1, labels[u - 1]] * q[d][t - d, u - 1] for d in D))

    check_equation("eq-tdt-alpha", lhs, rhs, (
        (alpha, *factors(*case), *node) for case in inputs(SHAPES + NO_PATH)
        for alpha in [zero_outside(tdt_alpha(*case))] for node in nodes(case[0]) if node != (0, 0)))
    for case in inputs(SHAPES + NO_PATH):
        alpha = zero_outside(tdt_alpha(*case))
        assert alpha[0, 0] == 1 and rhs(alpha, *factors(*case), 0, 0) == 0


def test_alpha_at_the_end():
    """There the arcs into the node count the paths that end with a label, too."""
    for w, labels, D in inputs(SHAPES + NO_PATH):
        (y, q, next_labels, blank, _), (T, U, _) = factors(w, labels, D), sizes(w, labels, D)
        alpha, at_end = zero_outside(tdt_alpha(w, labels, D)), 0
        for d in D:
            at_end += (d > 0) * alpha[T - d, U] * y[T - d, U, blank] * q[d][T - d, U]
            at_end += alpha[T - d, U - 1] * y[T - d, U - 1, next_labels[U - 1]] * q[d][T - d, U - 1]
        assert at_end == tdt_z(w, labels, D, final_blank=False)
        assert (at_end == tdt_z(w, labels, D)) == (U == 0)


@pytest.mark.equation("eq-tdt-beta")
def test_beta():
    """Mass of the enumerated endings against those of the nodes after. If paths may end with a label, without the
    condition on its duration."""
    def lhs(beta, y, q, labels, blank, D, T, t, u):
        return beta[t, u]

    def rhs(beta, y, q, labels, blank, D, T, t, u):
        return (y[t, u, blank] * sum(q[d][t, u] * beta[t + d, u] for d in D if d > 0)
                + y[t, u, labels[u]] * sum(q[d][t, u] * beta[t + d, u + 1] for d in D if t + d < T))

    check_equation("eq-tdt-beta", lhs, rhs, (
        (beta, *factors(*case), len(case[0]), *node) for case in inputs(SHAPES + NO_PATH)
        for beta in [zero_outside(tdt_beta(*case))] for node in nodes(case[0])))
    for case in inputs(SHAPES + NO_PATH):
        beta = zero_outside(tdt_beta(*case, final_blank=False))
        assert all(beta[node] == rhs(beta, *factors(*case), len(case[0]) + 1, *node) for node in nodes(case[0]))


NOTHING_AT_T = {"shift bound: d > 0 -> d > 0 - 1": "alpha and the scores read as 0 at frame T"}


@pytest.mark.equation("eq-tdt-total")
def test_total():
    """Mass of the enumerated paths that end with a blank against alpha and that blank."""
    def rhs(z, alpha, y, q, blank, D, T, U):
        return sum(alpha[T - d, U] * y[T - d, U, blank] * q[d][T - d, U] for d in D if d > 0)

    check_equation("eq-tdt-total", first, rhs, (
        (tdt_z(*case), zero_outside(tdt_alpha(*case)), y, q, blank, D, len(case[0]), len(case[1]))
        for case in inputs(SHAPES + NO_PATH) for y, q, _, blank, D in [factors(*case)]), equivalent=NOTHING_AT_T)


@pytest.mark.equation("eq-tdt-total-open", patterns={"Z'": "z_open"})
def test_total_open():
    """Mass of the enumerated paths whose last symbol may be a label against Z and that label."""
    def rhs(z_open, z, alpha, y, q, labels, blank, D, T, U):
        return z + sum(alpha[T - d, U - 1] * y[T - d, U - 1, labels[U - 1]] * q[d][T - d, U - 1] for d in D if d > 0)

    check_equation("eq-tdt-total-open", first, rhs, (
        (tdt_z(*case, final_blank=False), tdt_z(*case), zero_outside(tdt_alpha(*case)), *factors(*case), len(case[0]),
         len(case[1])) for case in inputs(SHAPES + NO_PATH)), equivalent=NOTHING_AT_T)


# --- posteriors ---


@computed
def pair_shares(w, labels, D):
    """Shares of the paths that use a blank, or the next label, together with each duration: 2, D, T, U + 1."""
    (T, U, V), total = sizes(w, labels, D), zero(w)
    used = np.full((2, len(D), T, U + 1), zero(w), dtype=object)
    for path in ways((0, 0), (T, U), steps(T, V, labels, D)):
        total += rnnt_mass(w, path)
        for (t, u, k), (*_, i) in pairs_of_path(path):
            used[int(k != blank_of(labels)), i - V, t, u] += rnnt_mass(w, path)
    return used / total


def pairs_of_path(path):
    """Each symbol's entry and its duration's."""
    return zip(path[::2], path[1::2], strict=True)


def by_duration(arrays, D):
    return {d: zero_outside(array) for d, array in zip(D, arrays, strict=True)}


@pytest.mark.equation("eq-tdt-blank-pair")
def test_blank_pair():
    """Share of the enumerated paths that use blank and duration together against alpha, both factors, and beta."""
    def lhs(blank_pairs, alpha, beta, y, q, z, blank, D, d, t, u):
        return blank_pairs[d][t, u]

    def rhs(blank_pairs, alpha, beta, y, q, z, blank, D, d, t, u):
        return alpha[t, u] * y[t, u, blank] * q[d][t, u] * beta[t + d, u] / z

    def cases():
        for case in inputs(SHAPES):
            (y, q, _, blank, D), shares = factors(*case), by_duration(pair_shares(*case)[0], case[2])
            alpha, beta, z = zero_outside(tdt_alpha(*case)), zero_outside(tdt_beta(*case)), tdt_z(*case)
            for (t, u), d in product(nodes(case[0]), D):
                if d > 0:
                    yield shares, alpha, beta, y, q, z, blank, D, d, t, u

    check_equation("eq-tdt-blank-pair", lhs, rhs, cases(),
                   left_out={"d = 0": "for d > 0: no blank has duration 0", **POSITIVE})


@pytest.mark.equation("eq-tdt-label-pair")
def test_label_pair():
    """The same for the next label, unless it would lead to the end: then no path uses the pair."""
    def lhs(label_pairs, alpha, beta, y, q, labels, blank, z, D, d, t, u):
        return label_pairs[d][t, u]

    def rhs(label_pairs, alpha, beta, y, q, labels, blank, z, D, d, t, u):
        return alpha[t, u] * y[t, u, labels[u]] * q[d][t, u] * beta[t + d, u + 1] / z

    def cases():
        for case in inputs(SHAPES):
            (y, q, labels, blank, D), shares = factors(*case), by_duration(pair_shares(*case)[1], case[2])
            alpha, beta, z = zero_outside(tdt_alpha(*case)), zero_outside(tdt_beta(*case)), tdt_z(*case)
            for (t, u), d in product(nodes(case[0]), D):
                if t + d < len(case[0]):
                    yield shares, alpha, beta, y, q, labels, blank, z, D, d, t, u

    check_equation("eq-tdt-label-pair", lhs, rhs, cases(),
                   left_out={"a duration past the end": "for t + d < T", **POSITIVE})
    for w, labels, D in inputs(SHAPES):
        shares = pair_shares(w, labels, D)[1]
        assert not any(shares[i, t].any() for (i, d), t in product(enumerate(D), range(len(w))) if t + d >= len(w))


def z_of_last_blanks(w, labels, D):
    """Z from alpha: no list of paths."""
    (T, U, _), (y, q, _, blank, _) = sizes(w, labels, D), factors(w, labels, D)
    alpha = zero_outside(tdt_alpha(w, labels, D))
    return sum(alpha[T - d, U] * y[T - d, U, blank] * q[d][T - d, U] for d in D if d > 0)


def pairs_of_nodes(w, labels, D, beta=None):
    """Posteriors of blank and duration, and of label and duration, as {d: array}: alpha, both factors, and beta, over
    Z."""
    (T, U, _), (y, q, next_labels, blank, _) = sizes(w, labels, D), factors(w, labels, D)
    alpha, beta = zero_outside(tdt_alpha(w, labels, D)), zero_outside(tdt_beta(w, labels, D) if beta is None else beta)
    z = z_of_last_blanks(w, labels, D)

    def of_blank(d):
        return lambda t, u: (d > 0) * alpha[t, u] * y[t, u, blank] * q[d][t, u] * beta[t + d, u] / z

    def of_label(d):
        return lambda t, u: (t + d < T) * alpha[t, u] * y[t, u, next_labels[u]] * q[d][t, u] * beta[t + d, u + 1] / z

    return [{d: each_entry((T, U + 1), pair(d)) for d in D} for pair in (of_blank, of_label)]


def readable(pairs):
    return [{d: zero_outside(array) for d, array in each.items()} for each in pairs]


@computed
def uses_of_paths(w, labels, D):
    """Shares of the enumerated paths that use each entry: those of symbols, and those of durations."""
    T, _, V = sizes(w, labels, D)
    return np.split(expected_uses(w, tdt_paths(T, V, labels, D)), [V], axis=-1)


def uses_of_durations(w, labels, D):
    return by_duration(np.moveaxis(uses_of_paths(w, labels, D)[1], -1, 0), D)


@pytest.mark.equation("eq-tdt-token-occupancy")
def test_token_occupancy():
    """Share of the enumerated paths that use a symbol against its pairs, by alpha, factors and beta."""
    def lhs(occupancy, blank_pairs, label_pairs, labels, blank, D, t, u, k):
        return occupancy[t, u, k]

    def rhs(occupancy, blank_pairs, label_pairs, labels, blank, D, t, u, k):
        return ((k == blank) * sum(blank_pairs[d][t, u] for d in D)
                + (k == labels[u]) * sum(label_pairs[d][t, u] for d in D))

    check_equation("eq-tdt-token-occupancy", lhs, rhs, (
        (uses, *pairs, zero_outside(case[1], zero=-1), blank_of(case[1]), case[2], *index)
        for case in inputs(SHAPES) for uses, pairs in [(uses_of_paths(*case)[0], readable(pairs_of_nodes(*case)))]
        for index in np.ndindex(uses.shape)))


@pytest.mark.equation("eq-tdt-duration-occupancy")
def test_duration_occupancy():
    """Share of the enumerated paths that use a duration against its pairs, by alpha, factors and beta."""
    def lhs(F, blank_pairs, label_pairs, D, d, T, U, t, u):
        return F[d][t, u]

    def rhs(F, blank_pairs, label_pairs, D, d, T, U, t, u):
        return blank_pairs[d][t, u] + label_pairs[d][t, u]

    check_equation("eq-tdt-duration-occupancy", lhs, rhs, (
        (F, *pairs, case[2], d, len(case[0]), len(case[1]), *node)
        for case in inputs(SHAPES) for F, pairs in [(uses_of_durations(*case), readable(pairs_of_nodes(*case)))]
        for node in nodes(case[0]) for d in case[2]))


def gamma_of(w, labels, D):
    """alpha beta / Z of each node, Z as beta of the first."""
    beta = tdt_beta(w, labels, D)
    return zero_outside(tdt_alpha(w, labels, D) * beta[:-1] / beta[0, 0], zero=5)


@pytest.mark.equation("eq-tdt-same-occupancy")
def test_same_occupancy():
    """alpha beta / Z of a node against the uses of its symbols by the enumerated paths, and of its durations."""
    def lhs(gamma, occupancy, F, V, D, t, u):
        return gamma[t, u]

    def over_symbols(gamma, occupancy, F, V, D, t, u):
        return sum(occupancy[t, u, k] for k in range(0, V))

    def over_durations(gamma, occupancy, F, V, D, t, u):
        return sum(F[d][t, u] for d in D)

    def cases():
        for case in inputs(SHAPES):
            E, F, gamma = zero_outside(uses_of_paths(*case)[0], zero=5), uses_of_durations(*case), gamma_of(*case)
            for node in nodes(case[0]):
                yield gamma, E, F, sizes(*case)[-1], case[2], *node

    check_equation("eq-tdt-same-occupancy", lhs, over_symbols, cases())
    check_equation("eq-tdt-same-occupancy", lhs, over_durations, cases())


@pytest.mark.equation("eq-tdt-cover")
def test_cover():
    """The pairs that cover a frame, by alpha, factors and beta, add up to 1."""
    def rhs(blank_pairs, label_pairs, D, t, T, U):
        return sum(sum(sum(blank_pairs[d][t - j, u] + label_pairs[d][t - j, u] for j in range(0, d))
                       for d in D if d > 0) for u in range(0, U + 1))

    def cases():
        for w, labels, D in inputs(SHAPES):
            pairs = [{d: fenced(array) for d, array in each.items()} for each in pairs_of_nodes(w, labels, D)]
            for t in range(len(w)):
                yield *pairs, D, t, len(w), len(labels)

    check_equation("eq-tdt-cover", lambda *_: 1, rhs, cases(), equivalent={
        "shift bound: d > 0 -> d > 0 - 1": "duration 0 covers no frame"})


# --- counts ---


@computed
def choices(D, n, m, T):
    """Ways to give durations to n blanks and m labels that add up to T, by trying all."""
    return sum(sum(each) == T for each in product(*[[d for d in D if d > 0]] * n, *[D] * m))


@computed(kind="walking")
def number_of_paths(T, V, labels, D, final_blank=True):
    return len(list(ways((0, 0), (T, len(labels)), steps(T, V, labels, D, final_blank))))


def choices_of_case(D, T, U):
    return {(n, m, T): choices(D, n, m, T) for n in range(T + 1) for m in range(U + 2)}


@pytest.mark.equation("eq-tdt-path-count", patterns={r"\#\text{paths}": "count"})
def test_path_count():
    """The number of enumerated paths against places for the labels, times durations for all."""
    def rhs(count, c, D, T, U):
        return sum(comb(n - 1 + U, U) * c[n, U, T] for n in range(1, T + 1))

    check_equation("eq-tdt-path-count", first, rhs, (
        (number_of_paths(T, V, labels, D), choices_of_case(D, T, len(labels)), D, T, len(labels))
        for T, V, labels, D in SHAPES + NO_PATH))


@pytest.mark.equation("eq-tdt-path-count-open", patterns={r"\#\text{more}": "more"})
def test_path_count_open():
    """How many more enumerated paths there are if the last symbol may be a label."""
    def rhs(more, c, D, T, U):
        return sum(comb(n + U - 1, n) * c[n + 1, U - 1, T] for n in range(0, T))

    check_equation("eq-tdt-path-count-open", first, rhs, (
        (number_of_paths(*shape, final_blank=False) - number_of_paths(*shape),
         choices_of_case(shape[-1], shape[0], len(shape[2])), shape[-1], shape[0], len(shape[2]))
        for shape in SHAPES + NO_PATH if len(shape[2])), left_out={"U = 0": "for U >= 1"})


@computed(kind="walking")
def counts(T, V, labels, D):
    """Of each path: the number of its symbols, those of its blanks of each duration, and those of its labels."""
    rows = []
    for path in ways((0, 0), (T, len(labels)), steps(T, V, labels, D)):
        used = [(k == blank_of(labels), D[i - V]) for (*_, k), (*_, i) in pairs_of_path(path)]
        rows.append([len(used), *(used.count((of_blank, d)) for of_blank in (True, False) for d in D)])
    return np.array(rows)


@pytest.mark.equation("eq-tdt-arc-count", patterns={
    r"N(\pi)": "N[pi]", r"n^\varnothing_{#d}(\pi)": "n_blank[#d][pi]", r"n^y_{#d}(\pi)": "n_label[#d][pi]"})
def test_arc_count():
    """The number of symbols of each enumerated path against the durations of its blanks and of its labels."""
    def lhs(N, n_blank, n_label, D, T, U, pi):
        return N[pi]

    def rhs(N, n_blank, n_label, D, T, U, pi):
        return T + U - sum((d - 1) * n_blank[d][pi] + d * n_label[d][pi] for d in D)

    def cases():
        for T, V, labels, D in SHAPES:
            N, *n = counts(T, V, labels, D).T
            blanks, labelled = (dict(zip(D, each, strict=True)) for each in (n[:len(D)], n[len(D):]))
            for pi in range(len(N)):
                yield N, blanks, labelled, D, T, len(labels), pi

    check_equation("eq-tdt-arc-count", lhs, rhs, cases())


# --- gradients with respect to the logits ---


def softmaxes(x, D):
    """Of symbols and of durations."""
    y, q = np.split(x, [x.shape[-1] - len(D)], axis=-1)
    return np.concatenate([softmax(y), softmax(q)], axis=-1)


def scaled(w, D, s):
    """The scores of the symbols times s."""
    above, below = s.as_integer_ratio()
    y, q = np.split(w, [w.shape[-1] - len(D)], axis=-1)
    return np.concatenate([y * above / below, q], axis=-1)


def slope_of(x, labels, D, s, *index):
    """sympy: the derivative of -log of the path sum with respect to one logit log x, every symbol times s."""
    def z_of(x):
        return tdt_z(scaled(softmaxes(x, D), D, s), labels, D)

    return -x[index] * slope_at(z_of, x, *index) / z_of(x)


def logits():
    """x = e^logit, labels, durations, and a different s for each case; then the softmaxes, and these with s."""
    for (x, labels, D), s in zip(inputs(SHAPES), SCALES * len(SHAPES), strict=False):
        w = softmaxes(x, D)
        yield (x, labels, D, s), (w, labels, D), (scaled(w, D, s), labels, D)


@pytest.mark.equation("eq-tdt-grad-tokens")
def test_grad_tokens():
    """sympy: derivative of -log of the path sum with respect to the logit of each symbol against softmax, node
    occupancy of alpha and beta, and uses by the enumerated paths; of lattices with and without a factor for all
    symbols."""
    def rhs(grad_logits, y, gamma, occupancy, labels, blank, D, t, u, k):
        return y[t, u, k] * gamma[t, u] - occupancy[t, u, k]

    def cases():
        for point, case, tilted in logits():
            (y, _, labels, blank, D), gamma = factors(*case), gamma_of(*tilted)
            uses = zero_outside(uses_of_paths(*tilted)[0], zero=5)
            for index in np.ndindex(y.array.shape):
                yield slope_of(*point, *index), y, gamma, uses, labels, blank, D, *index

    check_equation("eq-tdt-grad-tokens", first, rhs, cases())


@pytest.mark.equation("eq-tdt-grad-durations", patterns={r"\frac{\partial L}{\partial c_{t,u}(d)}": "grad_logits"})
def test_grad_durations():
    """sympy: the same with respect to the logit of each duration against its softmax, the same node occupancy, and its
    uses."""
    def rhs(grad_logits, q, gamma, F, D, T, d, t, u):
        return q[d][t, u] * gamma[t, u] - F[d][t, u]

    def cases():
        for point, case, tilted in logits():
            (_, q, _, _, D), gamma, F = factors(*case), gamma_of(*tilted), uses_of_durations(*tilted)
            for (t, u), (i, d) in product(nodes(case[0]), enumerate(D)):
                yield slope_of(*point, t, u, i - len(D)), q, gamma, F, D, len(case[0]), d, t, u

    check_equation("eq-tdt-grad-durations", first, rhs, cases())


@pytest.mark.equation("eq-tdt-merged", patterns={r"\frac{\partial L_\sigma}{\partial a_{t,u}(k)}": "grad_logits"})
def test_merged():
    """sympy: the same derivative, with respect to a symbol's logit, against the merged form with s before the sums."""
    def rhs(grad_logits, y, q, alpha, beta, z, s, labels, blank, D, T, t, u, k):
        return y[t, u, k] * alpha[t, u] / z * (
            beta[t, u] - s * (k == blank) * sum(q[d][t, u] * beta[t + d, u] for d in D if d > 0)
            - s * (k == labels[u]) * sum(q[d][t, u] * beta[t + d, u + 1] for d in D if t + d < T))

    def cases():
        for point, case, tilted in logits():
            y, q, *rest = factors(*case)
            alpha, beta, z = zero_outside(tdt_alpha(*tilted)), zero_outside(tdt_beta(*tilted)), tdt_z(*tilted)
            for index in np.ndindex(y.array.shape):
                yield slope_of(*point, *index), y, q, alpha, beta, z, point[-1], *rest, len(case[0]), *index

    check_equation("eq-tdt-merged", first, rhs, cases(), left_out=POSITIVE)


# --- special cases ---


@computed
def monotonic_z(y, labels):
    """Sum over the strings of one symbol a frame that are the labels when the blanks are taken out."""
    def entries(string):
        return [(t, sum(k != blank_of(labels) for k in string[:t]), k) for t, k in enumerate(string)]

    return sum((rnnt_mass(y, entries(string)) for string in product(range(y.shape[-1]), repeat=len(y))
                if [k for k in string if k != blank_of(labels)] == list(labels)), zero(y))


def with_durations(y, *q):
    """Scores with the same probabilities of durations at all nodes."""
    return np.concatenate([y, np.broadcast_to(np.array(q, dtype=object), (*y.shape[:2], len(q)))], axis=-1)


ONLY_1 = {end: "for D = {1}" for end in [
    "T < durations", "V < durations", "0 in D", "1 not in D", "a duration past the end"]}


@pytest.mark.equation("eq-tdt-monotonic", patterns={"Z'": "z_open", r"Z_{\text{monotonic}}": "z_monotonic"},
                      conditions={r"(\mathcal D = \{1\})": "D == (1,)"})
def test_monotonic():
    """Paths of the only duration 1 that may end with a label, against strings of one symbol a frame."""
    def rhs(z_open, z_monotonic, y, labels, blank, D):
        return z_monotonic

    check_equation("eq-tdt-monotonic", first, rhs, (
        (tdt_z(with_durations(y, Fraction(1)), labels, (1,), final_blank=False), monotonic_z(y, labels), y, labels,
         blank_of(labels), (1,)) for y, labels in RNNT_INPUTS), left_out=ONLY_1)


@computed
def rnnt_part(w, labels):
    """Mass of the paths of TDT whose labels last 0 frames and whose blanks last 1."""
    T, U, V = sizes(w, labels, (0, 1))
    return sum((rnnt_mass(w, path) for path in ways((0, 0), (T, U), steps(T, V, labels, (0, 1)))
                if all((k == blank_of(labels)) == (i == V + 1) for (*_, k), (*_, i) in pairs_of_path(path))), zero(w))


@pytest.mark.equation("eq-tdt-rnnt-share", patterns={"M": "mass", r"Z_{\text{RNN-T}}": "z"})
def test_rnnt_share():
    """Mass of the enumerated paths whose labels last 0 frames and blanks 1, with the same q at every node."""
    def rhs(mass, q, T, U, z):
        return q[0] ** U * q[1] ** T * z

    q = Fraction(2, 7), Fraction(5, 7)
    check_equation("eq-tdt-rnnt-share", first, rhs, (
        (rnnt_part(with_durations(y, *q), labels), zero_outside(q), len(y), len(labels), rnnt_z(y, labels))
        for y, labels in RNNT_INPUTS), left_out={"no path": "RNN-T has a path for every target"})


# --- a corner with mass ---


@computed(kind="recursion")
def leaking_beta(w, labels, D):
    """The recursion for beta, from last to first, in an array that has a 1 where nothing is ever written."""
    (T, U, _), (y, q, next_labels, blank, _) = sizes(w, labels, D), factors(w, labels, D)
    beta = np.full((T + 1, U + 1), zero(w), dtype=object)
    beta[T, U] += 1
    beta[T - 1, U] += 1
    read = zero_outside(beta)
    for t, u in product(reversed(range(T)), reversed(range(U + 1))):
        if (t, u) != (T - 1, U):
            beta[t, u] = (y[t, u, blank] * sum(q[d][t, u] * read[t + d, u] for d in D if d > 0)
                          + y[t, u, next_labels[u]] * sum(q[d][t, u] * read[t + d, u + 1] for d in D if t + d < T))
    return beta


@computed
def to_corner(w, labels, D):
    """Mass of all ways from each node to (T-1, U)."""
    T, U, _ = sizes(w, labels, D)
    return mass_at_nodes(w, T, U, lambda node: mass_between(w, labels, D, node, (T - 1, U)))


@computed(kind="exact difference")
def slopes(w, labels, D, t):
    """The derivative of the mass of all ways to the node (t, U) with respect to each entry."""
    def mass(w):
        return mass_between(w, labels, D, (0, 0), (t, len(labels)))

    return each_entry(w.shape, lambda *index: exact_difference(mass, w, index, h=3))


WITHOUT_1 = {"1 in D": "for sets without the duration 1"}


@pytest.mark.equation("eq-tdt-leak")
def test_leak():
    """The recursion with a corner that has mass 1 against enumerated endings and enumerated ways to the corner."""
    def lhs(leaking, beta, rho, D, t, u):
        return leaking[t, u]

    def rhs(leaking, beta, rho, D, t, u):
        return beta[t, u] + rho[t, u]

    check_equation("eq-tdt-leak", lhs, rhs, (
        (leaking_beta(*case), zero_outside(tdt_beta(*case)), zero_outside(to_corner(*case)), case[2], *node)
        for case in inputs(CORNER_SHAPES + NO_PATH_BUT_CORNER) for node in nodes(case[0])), left_out=WITHOUT_1)


@pytest.mark.equation("eq-tdt-leak-total")
def test_leak_total():
    """What the recursion with the corner returns at the first node against Z and the mass that reaches the corner."""
    def lhs(leaking, z, alpha, D, T, U):
        return leaking[0, 0]

    def rhs(leaking, z, alpha, D, T, U):
        return z + alpha[T - 1, U]

    check_equation("eq-tdt-leak-total", lhs, rhs, (
        (leaking_beta(*case), tdt_z(*case), zero_outside(tdt_alpha(*case)), case[2], len(case[0]), len(case[1]))
        for case in inputs(CORNER_SHAPES + NO_PATH_BUT_CORNER)), left_out=WITHOUT_1)


def leaking_occupancy(w, labels, D):
    """Of symbols and durations: alpha, factors, and the leaking beta, over Z by the last blanks."""
    blank_pairs, label_pairs = pairs_of_nodes(w, labels, D, leaking_beta(w, labels, D))
    uses = w * 0
    for t, u, (i, d) in product(range(len(w)), range(len(labels) + 1), enumerate(D)):
        uses[t, u, blank_of(labels)] += blank_pairs[d][t, u]
        uses[t, u, i - len(D)] += blank_pairs[d][t, u] + label_pairs[d][t, u]
        if u < len(labels):
            uses[t, u, labels[u]] += label_pairs[d][t, u]
    return uses


POSITIVE_WITHOUT_1 = {**WITHOUT_1, **POSITIVE, "T = 1": "where Z > 0: a single frame needs the duration 1"}


@pytest.mark.equation("eq-tdt-leak-occupancy", patterns={
    r"\frac{\partial Z}{\partial y_{t,u}(k)}": "dz[t, u, k]",
    r"\frac{\partial\, \alpha(T-1, U)}{\partial y_{t,u}(k)}": "da[t, u, k]"})
def test_leak_occupancy():
    """alpha, factors and the leaking beta against exact differences of the enumerated Z and of the enumerated mass that
    reaches the corner: of the symbols' entries, and of the durations'."""
    def lhs(leaking_uses, y, z, dz, da, T, t, u, k):
        return leaking_uses[t, u, k]

    def rhs(leaking_uses, y, z, dz, da, T, t, u, k):
        return y[t, u, k] / z * (dz[t, u, k] + da[t, u, k])

    def cases(part):
        for case in inputs(CORNER_SHAPES):
            T = len(case[0])
            arrays = leaking_occupancy(*case), case[0], slopes(*case, T), slopes(*case, T - 1)
            uses, y, dz, da = (np.split(array, [-len(case[2])], axis=-1)[part] for array in arrays)
            for index in np.ndindex(y.shape):
                yield uses, zero_outside(y), tdt_z(*case), zero_outside(dz), zero_outside(da), T, *index

    for part in (0, 1):
        check_equation("eq-tdt-leak-occupancy", lhs, rhs, cases(part), left_out=POSITIVE_WITHOUT_1)


@pytest.mark.equation("eq-tdt-leak-node")
def test_leak_node():
    """The merged form with the leaking beta, added up over the symbols of each node: 0, but at the corner. Occupancies
    are exact differences."""
    def lhs(leaking_uses, y, alpha, leaking, z, D, T, U, V, t, u):
        return sum(y[t, u, k] * (alpha[t, u] * leaking[t, u] / z) - leaking_uses[t, u, k] for k in range(V))

    def rhs(leaking_uses, y, alpha, leaking, z, D, T, U, V, t, u):
        return (t == T - 1) * (u == U) * alpha[T - 1, U] / z

    def cases():
        for w, labels, D in inputs(CORNER_SHAPES):
            w = softmaxes(w, D)
            case, (T, U, V) = (w, labels, D), sizes(w, labels, D)
            uses = w / z_of_last_blanks(*case) * (slopes(*case, T) + slopes(*case, T - 1))
            for node in nodes(w):
                yield (uses, w[..., :V], zero_outside(tdt_alpha(*case), zero=5), leaking_beta(*case), tdt_z(*case),
                       D, T, U, V, *node)

    check_equation("eq-tdt-leak-node", lhs, rhs, cases(), left_out=POSITIVE_WITHOUT_1)


# --- probabilities of all strings ---


def network(seed, T, V, D, most):
    """Strings of labels 1, 2, ..., of at most so many labels, and the scores of each node (t, string): two
    distributions. After the last label there are nothing but blanks."""
    rng = np.random.default_rng(seed)
    strings = [h for length in range(most + 1) for h in product(range(1, V), repeat=length)]

    def distribution(*weights):
        return [Fraction(weight, sum(weights)) for weight in weights]

    return strings, {(t, h): distribution(*rng.integers(1, 9, V).tolist() if len(h) < most else [1] + [0] * (V - 1))
                     + distribution(*rng.integers(1, 9, len(D)).tolist()) for t in range(T) for h in strings}


def sides_of_missing(T, V, D, strings, scores):
    """Probabilities of strings; the mass that comes to (t, h); blank and durations there, 0 for what is none."""
    probability, arrived = {}, {}
    for h in strings:
        w = np.array([[scores[t, h[:u]] for u in range(len(h) + 1)] for t in range(T)], dtype=object)
        probability[h] = tdt_z(w, list(h), D)
        arrived |= {(t, h): mass for t, mass in enumerate(tdt_alpha(w, list(h), D)[:, -1])}
    blank = {node: scores[node][0] for node in scores}
    q = {d: {node: scores[node][V + D.index(d)] if d in D else 0 for node in scores} for d in range(max(T, *D) + 2)}
    return strings, probability, arrived, blank, q, D, T, V


@pytest.mark.equation("eq-tdt-missing", patterns={
    r"\Pr(l \mid x)": "probability[l]", r"\alpha(#t, #u)": "arrived[#t, #u]", r"\varnothing(#t, #u)": "blank[#t, #u]"},
    over={"l": "strings", "h": "strings"})
def test_missing():
    """1 less P(l | x), enumerated for every string of labels, against what leaves the lattice on the way. Where the
    network writes for ever, all is missing, and nothing leaves."""
    def lhs(strings, probability, arrived, blank, q, D, T, V):
        return 1 - sum(probability[l] for l in strings)

    def rhs(strings, probability, arrived, blank, q, D, T, V):
        return sum(sum(arrived[t, h] * (blank[t, h] * q[0][t, h] + sum(q[d][t, h] for d in D if d > T - t)
                                        + (1 - blank[t, h]) * q[T - t][t, h]) for h in strings) for t in range(0, T))

    shapes = [(3, 3, (0, 1, 2), 2), (3, 3, (1, 2), 3), (4, 3, (0, 2, 3), 1), (1, 3, (0, 1, 2), 2), (4, 2, (1, 2, 3), 2)]
    check_equation("eq-tdt-missing", lhs, rhs, (
        sides_of_missing(T, V, D, *network(seed, T, V, D, most)) for seed, (T, V, D, most) in enumerate(shapes)))
    for most in range(4):  # one frame, and always the label 1 with duration 0
        strings = [(1,) * length for length in range(most + 1)]
        case = sides_of_missing(1, 2, (0, 1), strings, {(0, h): [0, 1, 1, 0] for h in strings})
        assert (lhs(*case), rhs(*case)) == (1, 0)

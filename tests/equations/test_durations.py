"""Checks of the equations on the token-and-duration transducer. The left sides come from enumerated paths."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
import token_durations
from big_steps import SCALES, fenced, ways
from brute_force import RNNT_INPUTS, Target, blank_of, expected_uses, rnnt_mass, rnnt_z, slope_at, zero
from sides import first
from tex_to_python import Notation
from token_durations import (
    POSITIVE,
    factors,
    inputs,
    nodes,
    pairs_of_nodes,
    sizes,
    softmaxes,
    steps,
    tdt_alpha,
    tdt_beta,
    tdt_paths,
    tdt_z,
)

from reference_impl.equations import check_equation, computed, zero_outside

NOTATION = token_durations.NOTATION | Notation({
    r"\gamma^{#d}_\varnothing(#t, #u)": "blank_pairs[#d][#t, #u]",
    r"\gamma^{#d}_y(#t, #u)": "label_pairs[#d][#t, #u]",
    r"F_{#t,#u}(#d)": "F[#d][#t, #u]",
    r"c_{#n,#m}(#T)": "c[#n, #m, #T]",
    r"e^{-\sigma}": "s",
})
QUANTITIES = token_durations.QUANTITIES

# frames, symbols, labels, durations: with 0 and 1 and without; equal labels, more labels than frames, few symbols, no
# label, one frame, another blank
SHAPES = [(4, 3, [1, 2], (0, 2, 3)), (3, 3, [2, 2], (0, 1, 2)), (2, 2, [1, 1, 1], (0, 1)), (4, 4, [2], (1, 2)),
          (5, 2, [1], (0, 2, 3)), (3, 3, [], (1, 3)), (1, 3, [2], (0, 1, 2)),
          (3, 4, Target([3, 0], blank=2), (0, 1, 3))]
NO_PATH = [(3, 3, [2], (2, 3))]


# --- recursions ---


@pytest.mark.equation("eq-tdt-alpha")
def test_alpha():
    """Mass of the enumerated prefixes against those of the nodes before."""
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
    """Mass of the enumerated suffixes against those of the nodes after. If paths may end with a label, without the
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


@pytest.mark.equation("eq-tdt-grad-durations", patterns={r"\frac{\partial L}{\partial \zeta_{t,u}(d)}": "grad_logits"})
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


@pytest.mark.equation("eq-tdt-merged", patterns={r"\frac{\partial L_\sigma}{\partial z_{t,u}(k)}": "grad_logits"})
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


@pytest.mark.equation("eq-tdt-rnnt-share", patterns={r"Z_{\text{fixed}}": "mass", r"Z_{\text{RNN-T}}": "z"})
def test_rnnt_share():
    """Mass of the enumerated paths whose labels last 0 frames and blanks 1, with the same q at every node."""
    def rhs(mass, q, T, U, z):
        return q[0] ** U * q[1] ** T * z

    q = Fraction(2, 7), Fraction(5, 7)
    check_equation("eq-tdt-rnnt-share", first, rhs, (
        (rnnt_part(with_durations(y, *q), labels), zero_outside(q), len(y), len(labels), rnnt_z(y, labels))
        for y, labels in RNNT_INPUTS), left_out={"no path": "RNN-T has a path for every target"})



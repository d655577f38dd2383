"""Checks of the equations on a backward sweep of TDT that begins with too much mass, and on mass that no string has.
The left sides come from enumerated paths."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import token_durations
from big_steps import mass_at_nodes
from brute_force import Target, blank_of, each_entry, zero
from tex_to_python import Notation
from token_durations import (
    POSITIVE,
    factors,
    inputs,
    mass_between,
    nodes,
    pairs_of_nodes,
    sizes,
    softmaxes,
    tdt_alpha,
    tdt_beta,
    tdt_z,
    z_of_last_blanks,
)

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, computed, zero_outside

NOTATION = token_durations.NOTATION | Notation({
    r"\tilde\beta(#t, #u)": "leaking[#t, #u]",
    r"\tilde E_{#t,#u}(#k)": "leaking_uses[#t, #u, #k]",
    r"\rho(#t, #u)": "rho[#t, #u]",
})
QUANTITIES = token_durations.QUANTITIES

# without a duration 1; the last of these cannot have a path
CORNER_SHAPES = [(4, 3, [1, 2], (0, 2, 3)), (5, 2, [1], (0, 2, 3)), (5, 4, [2], (2, 3)), (5, 3, [], (2, 3)),
                 (2, 2, [1, 1, 1, 1], (0, 2, 3)), (3, 4, Target([3, 0], blank=2), (0, 2, 3))]
NO_PATH_BUT_CORNER = [(1, 3, [1, 2], (0, 2)), (1, 2, [], (2, 3)), (3, 3, [2], (0, 2))]


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
    """The recursion with a corner that has mass 1 against enumerated suffixes and enumerated ways to the corner."""
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
    "Z(l)": "probability[l]", r"\alpha(#t, #u)": "arrived[#t, #u]", r"\varnothing(#t, #u)": "blank[#t, #u]"},
    over={"l": "strings", r"\xi": "strings"})
def test_missing():
    """1 less Z(l), enumerated for every string of labels, against what leaves the lattice on the way. Where the
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

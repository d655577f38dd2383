"""Checks of the equations of the chapter on the RNN-T gradient. The left sides come from enumerated paths."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from brute_force import (
    probabilities,
    rnnt_alpha,
    rnnt_beta,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_paths,
    rnnt_z,
    slopes_in_logs,
)

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, softmax

# several labels, a repeat, more labels than frames, one frame, no label
SHAPES = [(3, [1, 2]), (3, [2, 2]), (2, [1, 2, 1]), (1, [2]), (3, [])]
INPUTS = [(probabilities(seed, (T, len(labels) + 1, 3)), labels) for seed, (T, labels) in enumerate(SHAPES)]
BLANK = 0


def nodes():
    for y, labels in INPUTS:
        for t, u in np.ndindex(y.shape[:2]):
            yield y, labels, t, u


def beyond(beta):
    """beta with one more column, which contains nothing but the end."""
    column = np.full((1, beta.shape[1]), Fraction(0), dtype=object)
    column[0, -1] = Fraction(1)
    return zero_outside(np.vstack([beta, column]))


def paths_with(y, labels):
    """(entries, mass) of every path."""
    for entries in rnnt_paths(y, labels):
        yield entries, rnnt_mass(y, entries)


def next_label(labels, u):
    """l_u, or an impossible symbol when all labels are out."""
    return labels[u] if 0 <= u < len(labels) else -1


@pytest.mark.equation("eq-rnnt-path-count")
def test_path_count():
    """Enumerated paths against the binomial coefficient."""
    def rhs(T, U):
        return comb(T + U - 1, U)

    def lhs(T, U):
        return len(rnnt_paths(np.empty((T, U + 1, 2)), [1] * U))

    check_equation("eq-rnnt-path-count", lhs, rhs, [(T, U) for T in range(1, 6) for U in range(4)])


@pytest.mark.equation("eq-rnnt-alpha")
def test_alpha_recursion():
    """Each alpha by enumeration of beginnings against the recursion from its two neighbours."""
    def rhs(alpha, y, labels, t, u):
        return alpha[t - 1, u] * y[t - 1, u, BLANK] + alpha[t, u - 1] * y[t, u - 1, labels[u - 1]]

    cases = [(zero_outside(rnnt_alpha(y, labels)), zero_outside(y), zero_outside(labels), t, u)
             for y, labels, t, u in nodes() if (t, u) != (0, 0)]
    check_equation("eq-rnnt-alpha", lambda alpha, y, labels, t, u: alpha[t, u], rhs, cases)


@pytest.mark.equation("eq-rnnt-total")
def test_total():
    """Z over all paths against what reaches the last node and leaves it by the last blank."""
    def rhs(z, alpha, y, T, U):
        return alpha[T - 1, U] * y[T - 1, U, BLANK]

    check_equation("eq-rnnt-total", lambda z, *_: z, rhs, [
        (rnnt_z(y, labels), rnnt_alpha(y, labels), y, len(y), len(labels)) for y, labels in INPUTS])


@pytest.mark.equation("eq-rnnt-beta")
def test_beta_recursion():
    """Each beta by enumeration of endings against the recursion from its two neighbours."""
    def rhs(beta, y, labels, t, u):
        return y[t, u, BLANK] * beta[t + 1, u] + y[t, u, labels[u]] * beta[t, u + 1]

    cases = [(beyond(rnnt_beta(y, labels)), zero_outside(y), zero_outside(labels), t, u) for y, labels, t, u in nodes()]
    check_equation("eq-rnnt-beta", lambda beta, y, labels, t, u: beta[t, u], rhs, cases)


@pytest.mark.equation("eq-rnnt-beta-total")
def test_beta_total():
    """Z over all paths against the beta of the first node."""
    def rhs(z, beta):
        return beta[0, 0]

    check_equation("eq-rnnt-beta-total", lambda z, beta: z, rhs, [
        (rnnt_z(y, labels), zero_outside(rnnt_beta(y, labels))) for y, labels in INPUTS])


@pytest.mark.equation("eq-rnnt-node-mass")
def test_node_mass():
    """alpha * beta against the paths through the node."""
    def lhs(alpha, beta, y, labels, t, u):
        return alpha[t, u] * beta[t, u]

    def rhs(alpha, beta, y, labels, t, u):
        return sum(mass * any(entry[:2] == (t, u) for entry in entries) for entries, mass in paths_with(y, labels))

    cases = [(rnnt_alpha(y, labels), rnnt_beta(y, labels), y, labels, t, u) for y, labels, t, u in nodes()]
    check_equation("eq-rnnt-node-mass", lhs, rhs, cases)


@pytest.mark.equation("eq-rnnt-diagonal-sum")
def test_diagonal_sum():
    """Z over all paths against the sum along each anti-diagonal."""
    def rhs(z, alpha, beta, n, T, U):
        return sum(alpha[t, n - t] * beta[t, n - t] for t in range(0, T) if 0 <= n - t <= U)

    cases = [(rnnt_z(y, labels), rnnt_alpha(y, labels), rnnt_beta(y, labels), n, len(y), len(labels))
             for y, labels in INPUTS for n in range(len(y) + len(labels))]
    outside = "adds the masses of a node outside the grid, which read as 0"
    check_equation("eq-rnnt-diagonal-sum", lambda z, *_: z, rhs, [
        (z, zero_outside(alpha), zero_outside(beta), *rest) for z, alpha, beta, *rest in cases], equivalent={
            "shift bound: range(0, T) -> range(0 - 1, T)": outside,
            "shift bound: range(0, T) -> range(0, T + 1)": outside})


def _posteriors():
    for y, labels, t, u in nodes():
        yield rnnt_z(y, labels), rnnt_alpha(y, labels), beyond(rnnt_beta(y, labels)), y, labels, t, u


def _uses(y, labels, t, u, k):
    """Mass of the paths that use an entry."""
    return sum((mass for entries, mass in paths_with(y, labels) if (t, u, k) in entries), Fraction(0))


@pytest.mark.equation("eq-rnnt-blank-arc")
def test_blank_arc():
    """Share of the paths that use the blank of (t, u) against alpha, the step, and beta."""
    def rhs(z, alpha, beta, y, labels, t, u):
        return 1 / z * alpha[t, u] * y[t, u, BLANK] * beta[t + 1, u]

    check_equation("eq-rnnt-blank-arc", lambda z, alpha, beta, y, labels, t, u: _uses(y, labels, t, u, BLANK) / z,
                   rhs, _posteriors())


@pytest.mark.equation("eq-rnnt-label-arc")
def test_label_arc():
    """Share of the paths that use the next label at (t, u) against alpha, the step, and beta."""
    def rhs(z, alpha, beta, y, labels, t, u):
        return 1 / z * alpha[t, u] * y[t, u, labels[u]] * beta[t, u + 1]

    cases = [(z, alpha, beta, y, zero_outside(labels), t, u)
             for z, alpha, beta, y, labels, t, u in _posteriors() if u < len(labels)]
    check_equation("eq-rnnt-label-arc",
                   lambda z, alpha, beta, y, labels, t, u: _uses(y, labels.array, t, u, labels[u]) / z, rhs, cases)


@pytest.mark.equation("eq-rnnt-node-occupancy")
def test_node_occupancy():
    """alpha * beta / Z against the posteriors of the two arcs that leave the node."""
    def lhs(gamma, e_blank, e_label, t, u):
        return gamma[t, u]

    def rhs(gamma, e_blank, e_label, t, u):
        return e_blank[t, u] + e_label[t, u]

    check_equation("eq-rnnt-node-occupancy", lhs, rhs, [
        (gamma, zero_outside(e_blank), zero_outside(e_label), t, u)
        for gamma, e_blank, e_label in map(_occupancies, INPUTS) for t, u in np.ndindex(gamma.shape)])


def _occupancies(case):
    """gamma from alpha and beta, arc posteriors from enumerated paths."""
    y, labels = case
    z = rnnt_z(y, labels)
    gamma = rnnt_alpha(y, labels) * rnnt_beta(y, labels) / z
    e_blank, e_label = gamma * 0, gamma * 0
    for t, u in np.ndindex(gamma.shape):
        e_blank[t, u] = _uses(y, labels, t, u, BLANK) / z
        e_label[t, u] = _uses(y, labels, t, u, next_label(labels, u)) / z
    return gamma, e_blank, e_label


@pytest.mark.equation("eq-rnnt-one-blank")
def test_one_blank():
    """The blank posteriors of each frame, from alpha and beta, add up to 1."""
    def rhs(e_blank, t, U):
        return sum(e_blank[t, u] for u in range(0, U + 1))

    cases = []
    for y, labels in INPUTS:
        alpha, beta, z = rnnt_alpha(y, labels), beyond(rnnt_beta(y, labels)), rnnt_z(y, labels)
        e_blank = np.array([[alpha[t, u] * y[t, u, BLANK] * beta[t + 1, u] / z for u in range(len(labels) + 1)]
                            for t in range(len(y))], dtype=object)
        cases += [(zero_outside(e_blank, zero=5), t, len(labels)) for t in range(len(y))]
    check_equation("eq-rnnt-one-blank", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-rnnt-each-label-once")
def test_each_label_once():
    """The posteriors of each label, from alpha and beta, add up to 1."""
    def rhs(e_label, u, T):
        return sum(e_label[t, u] for t in range(0, T))

    cases = []
    for y, labels in INPUTS:
        alpha, beta, z = rnnt_alpha(y, labels), beyond(rnnt_beta(y, labels)), rnnt_z(y, labels)
        e_label = np.array([[alpha[t, u] * y[t, u, labels[u]] * beta[t, u + 1] / z for u in range(len(labels))]
                            for t in range(len(y))], dtype=object)
        cases += [(zero_outside(e_label, zero=5), u, len(y)) for u in range(len(labels))]
    check_equation("eq-rnnt-each-label-once", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-rnnt-grad-probs")
def test_grad_probs():
    """Exact difference of the sum over paths against a beginning and an ending, the step taken out."""
    def rhs(derivative, alpha, beta, labels, t, u, k):
        return alpha[t, u] * ((k == BLANK) * beta[t + 1, u] + (k == labels[u]) * beta[t, u + 1])

    cases = []
    for y, labels, t, u in nodes():
        for k in range(3):
            derivative = exact_difference(lambda y, labels=labels: rnnt_z(y, labels), y, (t, u, k), h=5)
            cases.append((derivative, zero_outside(rnnt_alpha(y, labels)), beyond(rnnt_beta(y, labels)),
                          zero_outside(labels, zero=-1), t, u, k))
    check_equation("eq-rnnt-grad-probs", lambda derivative, *_: derivative, rhs, cases)


@pytest.mark.equation("eq-rnnt-chain")
def test_chain():
    """sympy: -log of the path sum with y = e^v, differentiated with respect to v, against -y / Z dZ/dy."""
    def lhs(slope, derivative, z, y, t, u, k):
        return slope

    def rhs(slope, derivative, z, y, t, u, k):
        return -y[t, u, k] / z * derivative[t, u, k]

    cases = []
    for y, labels in INPUTS[1], INPUTS[3]:
        slopes = slopes_in_logs(y, rnnt_paths(y, labels))
        derivative = np.empty(y.shape, dtype=object)
        for index in np.ndindex(y.shape):
            derivative[index] = exact_difference(lambda y, labels=labels: rnnt_z(y, labels), y, index, h=5)
        cases += [(slopes[index], zero_outside(derivative), rnnt_z(y, labels), zero_outside(y), *index)
                  for index in np.ndindex(y.shape)]
    check_equation("eq-rnnt-chain", lhs, rhs, cases)


@pytest.mark.equation("eq-rnnt-grad-log-probs")
def test_grad_log_probs():
    """-y / Z times the exact difference against minus the occupancy of alpha, step and beta."""
    def lhs(derivative, occupancy, t, u, k):
        return derivative

    def rhs(derivative, occupancy, t, u, k):
        return -occupancy[t, u, k]

    cases = []
    for y, labels in INPUTS:
        alpha, beta, z = rnnt_alpha(y, labels), beyond(rnnt_beta(y, labels)), rnnt_z(y, labels)
        occupancy = y * Fraction(0)
        for t, u in np.ndindex(y.shape[:2]):
            occupancy[t, u, BLANK] = alpha[t, u] * y[t, u, BLANK] * beta[t + 1, u] / z
            if u < len(labels):
                occupancy[t, u, labels[u]] = alpha[t, u] * y[t, u, labels[u]] * beta[t, u + 1] / z
        for index in np.ndindex(y.shape):
            difference = exact_difference(lambda y, labels=labels: rnnt_z(y, labels), y, index, h=5)
            cases.append((-y[index] / z * difference, zero_outside(occupancy), *index))
    check_equation("eq-rnnt-grad-log-probs", lhs, rhs, cases)


def _by_logit():
    """sympy: (derivative of -log Z w.r.t. each logit, y, occupancy, gamma, alpha, beta, z, labels, t, u, k)."""
    for T, labels, V in [(1, [1], 3), (2, [1], 2), (1, [1, 2], 3), (2, [1], 3), (2, [1, 1], 2)]:
        x = field_grid("x", (T, len(labels) + 1, V))
        y = softmax(x)
        z, occupancy, partial = _enumerated(y, labels)
        gamma = occupancy.sum(axis=-1)
        for t, u, k in np.ndindex(x.shape):
            derivative = -x[t, u, k] * z.diff(x[t, u, k]) / z
            yield derivative, y, occupancy, gamma, *partial, z, labels, t, u, k


def _enumerated(y, labels):
    """Z, occupancies, and (alpha, beta) by enumeration of paths, for elements of a field."""
    T, U = len(y), len(labels)
    zero = y.flat[0] - y.flat[0]
    z, occupancy = zero, np.full(y.shape, zero, dtype=object)
    beginnings, endings = {}, {}
    for entries in rnnt_paths(y, labels):
        mass = _product(y, entries)
        z = z + mass
        for place, entry in enumerate(entries):
            occupancy[entry] = occupancy[entry] + mass
            beginnings.setdefault(entry[:2], set()).add(tuple(entries[:place]))
            endings.setdefault(entry[:2], set()).add(tuple(entries[place:]))
    alpha, beta = (np.full((T, U + 1), zero, dtype=object) for _ in range(2))
    for node in np.ndindex(T, U + 1):
        alpha[node] = sum((_product(y, piece) for piece in beginnings[node]), zero)
        beta[node] = sum((_product(y, piece) for piece in endings[node]), zero)
    column = np.full((1, U + 1), zero, dtype=object)
    column[0, U] = zero + 1
    return z, occupancy / z, (alpha, zero_outside(np.vstack([beta, column]), zero))


def _product(y, entries):
    result = y.flat[0] / y.flat[0]
    for entry in entries:
        result = result * y[entry]
    return result


def _shares():
    """gamma by enumeration, with the end as one more column, and the shares of the two arcs into each node."""
    for y, labels in INPUTS:
        T, U, z = len(y), len(labels), rnnt_z(y, labels)
        alpha = rnnt_alpha(y, labels)
        gamma = np.vstack([rnnt_occupancy(y, labels).sum(axis=-1), np.full((1, U + 1), Fraction(0), dtype=object)])
        gamma[T, U] = Fraction(1)
        by_blank, by_label = gamma * 0, gamma * 0
        for t, u in np.ndindex(T, U + 1):
            if t > 0:
                by_blank[t, u] = alpha[t - 1, u] * y[t - 1, u, BLANK] / alpha[t, u]
            if u > 0:
                by_label[t, u] = alpha[t, u - 1] * y[t, u - 1, labels[u - 1]] / alpha[t, u]
        by_blank[T, U] = alpha[T - 1, U] * y[T - 1, U, BLANK] / z
        for t, u in np.ndindex(T, U + 1):
            yield zero_outside(gamma), zero_outside(by_blank, zero=0), zero_outside(by_label, zero=0), t, u


@pytest.mark.equation("eq-rnnt-share-sum")
def test_share_sum():
    """The shares of the two arcs into a node, from enumerated alphas, add up to 1."""
    def rhs(by_blank, by_label, t, u):
        return by_blank[t, u] + by_label[t, u]

    cases = [(by_blank, by_label, t, u) for _, by_blank, by_label, t, u in _shares() if (t, u) != (0, 0)]
    check_equation("eq-rnnt-share-sum", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-rnnt-share-sweep")
def test_share_sweep():
    """The enumerated occupancy of each node against those of the two nodes after it, times their shares."""
    def lhs(gamma, by_blank, by_label, t, u):
        return gamma[t, u]

    def rhs(gamma, by_blank, by_label, t, u):
        return gamma[t + 1, u] * by_blank[t + 1, u] + gamma[t, u + 1] * by_label[t, u + 1]

    check_equation("eq-rnnt-share-sweep", lhs, rhs, _shares())


@pytest.mark.equation("eq-rnnt-logits-chain")
def test_logits_chain():
    """sympy: derivative of -log of the path sum with respect to each logit, against the chain rule."""
    def rhs(derivative, occupancy, y, t, u, k, V):
        return -sum(occupancy[t, u, j] * ((j == k) - y[t, u, k]) for j in range(0, V))

    cases = [(derivative, occupancy, y, t, u, k, y.shape[-1])
             for derivative, y, occupancy, _, _, _, _, _, t, u, k in _by_logit()]
    check_equation("eq-rnnt-logits-chain", lambda derivative, *_: derivative, rhs, cases)


@pytest.mark.equation("eq-rnnt-grad-logits")
def test_grad_logits():
    """sympy: the same derivative against softmax times node occupancy minus occupancy."""
    def rhs(derivative, y, gamma, occupancy, t, u, k):
        return y[t, u, k] * gamma[t, u] - occupancy[t, u, k]

    cases = [(derivative, y, gamma, occupancy, t, u, k)
             for derivative, y, occupancy, gamma, _, _, _, _, t, u, k in _by_logit()]
    check_equation("eq-rnnt-grad-logits", lambda derivative, *_: derivative, rhs, cases)


@pytest.mark.equation("eq-rnnt-fused")
def test_fused():
    """sympy: the same derivative against the merged form with the differences of beta."""
    def rhs(derivative, y, alpha, beta, z, labels, t, u, k):
        return y[t, u, k] * alpha[t, u] / z * (
            beta[t, u] - (k == BLANK) * beta[t + 1, u] - (k == labels[u]) * beta[t, u + 1])

    cases = [(derivative, y, alpha, beta, z, zero_outside(labels, zero=-1), t, u, k)
             for derivative, y, _, _, alpha, beta, z, labels, t, u, k in _by_logit()]
    check_equation("eq-rnnt-fused", lambda derivative, *_: derivative, rhs, cases)


def _joiner():
    """sympy: logits f_t(k) + g_u(k) as products F G of exponentials, and the path sum as a function of F and G."""
    T, labels, V = 2, [1], 2
    grid = field_grid("x", (T + len(labels) + 1, V))
    F, G = grid[:T], grid[T:]
    y = softmax(F[:, None] * G[None])
    z, occupancy, _ = _enumerated(y, labels)
    return F, G, y, z, occupancy, occupancy.sum(axis=-1), len(labels), T


@pytest.mark.equation("eq-rnnt-grad-encoder")
def test_grad_encoder():
    """sympy: derivative of -log Z with respect to the encoder's scores against the column sums."""
    F, G, y, z, occupancy, gamma, U, T = _joiner()

    def lhs(y, gamma, occupancy, U, t, k):
        return -F[t, k] * z.diff(F[t, k]) / z

    def rhs(y, gamma, occupancy, U, t, k):
        return sum(y[t, u, k] * gamma[t, u] - occupancy[t, u, k] for u in range(0, U + 1))

    check_equation("eq-rnnt-grad-encoder", lhs, rhs, [
        (y, gamma, zero_outside(occupancy), U, t, k) for t, k in np.ndindex(F.shape)])


@pytest.mark.equation("eq-rnnt-grad-predictor")
def test_grad_predictor():
    """sympy: derivative of -log Z with respect to the predictor's scores against the row sums."""
    F, G, y, z, occupancy, gamma, U, T = _joiner()

    def lhs(y, gamma, occupancy, T, u, k):
        return -G[u, k] * z.diff(G[u, k]) / z

    def rhs(y, gamma, occupancy, T, u, k):
        return sum(y[t, u, k] * gamma[t, u] - occupancy[t, u, k] for t in range(0, T))

    check_equation("eq-rnnt-grad-predictor", lhs, rhs, [
        (y, gamma, zero_outside(occupancy), T, u, k) for u, k in np.ndindex(G.shape)])


@pytest.mark.equation("eq-rnnt-grad-encoder-blank")
def test_grad_encoder_blank():
    """sympy: derivative with respect to the encoder's blank scores against the expected number of blanks minus 1."""
    F, G, y, z, occupancy, gamma, U, T = _joiner()

    def lhs(y, gamma, U, t):
        return -F[t, BLANK] * z.diff(F[t, BLANK]) / z

    def rhs(y, gamma, U, t):
        return sum(y[t, u, BLANK] * gamma[t, u] for u in range(0, U + 1)) - 1

    check_equation("eq-rnnt-grad-encoder-blank", lhs, rhs, [(y, gamma, U, t) for t in range(T)])

"""Checks of the equations of the chapter on the RNN-T gradient. The left sides come from enumerated paths."""

from fractions import Fraction
from math import prod

import mpmath
import numpy as np
import pytest
from brute_force import (
    BLANK,
    next_label,
    probabilities,
    rnnt_alpha,
    rnnt_beta,
    rnnt_beta_beyond,
    rnnt_grad_probs,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_paths,
    rnnt_z,
    slopes_in_logs,
)
from brute_force import RNNT_INPUTS as INPUTS
from brute_force import rnnt_nodes as nodes

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid, ring_grid, softmax


def _posteriors():
    for y, labels, t, u in nodes():
        yield rnnt_z(y, labels), rnnt_alpha(y, labels), zero_outside(rnnt_beta_beyond(y, labels)), y, labels, t, u


def _uses(y, labels, t, u, k):
    """Mass of the paths that use an entry."""
    return sum((rnnt_mass(y, entries) for entries in rnnt_paths(y, labels) if (t, u, k) in entries), Fraction(0))


def arcs_by_formula(y, labels):
    """Posteriors of the blank arcs, (T, U+1), and of the label arcs, (T, U): alpha, the step, and beta, over Z."""
    alpha, beta, z = rnnt_alpha(y, labels), rnnt_beta_beyond(y, labels), rnnt_z(y, labels)
    e_blank = alpha * y[:, :, BLANK] * beta[1:] / z
    e_label = alpha[:, :-1] * y[:, range(len(labels)), labels] * beta[:-1, 1:] / z
    return e_blank, e_label


def occupancy_by_formula(y, labels):
    """The same, each at the entry that the arc uses."""
    occupancy = y * Fraction(0)
    occupancy[:, :, BLANK], occupancy[:, range(len(labels)), labels] = arcs_by_formula(y, labels)
    return occupancy


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

    cases = [(zero_outside(arcs_by_formula(y, labels)[0], zero=5), t, len(labels))
             for y, labels in INPUTS for t in range(len(y))]
    check_equation("eq-rnnt-one-blank", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-rnnt-each-label-once")
def test_each_label_once():
    """The posteriors of each label, from alpha and beta, add up to 1."""
    def rhs(e_label, u, T):
        return sum(e_label[t, u] for t in range(0, T))

    cases = [(zero_outside(arcs_by_formula(y, labels)[1], zero=5), u, len(y))
             for y, labels in INPUTS for u in range(len(labels))]
    check_equation("eq-rnnt-each-label-once", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-rnnt-grad-probs")
def test_grad_probs():
    """Exact difference of the sum over paths against a beginning and an ending, the step taken out."""
    def rhs(derivative, alpha, beta, labels, t, u, k):
        return alpha[t, u] * ((k == BLANK) * beta[t + 1, u] + (k == labels[u]) * beta[t, u + 1])

    cases = []
    for y, labels, t, u in nodes():
        for k in range(3):
            cases.append((rnnt_grad_probs(y, labels, t, u, k), zero_outside(rnnt_alpha(y, labels)),
                          zero_outside(rnnt_beta_beyond(y, labels)), zero_outside(labels, zero=-1), t, u, k))
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
            derivative[index] = rnnt_grad_probs(y, labels, *index)
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

    cases = [(-y[index] / rnnt_z(y, labels) * rnnt_grad_probs(y, labels, *index),
              zero_outside(occupancy_by_formula(y, labels)), *index)
             for y, labels in INPUTS for index in np.ndindex(y.shape)]
    check_equation("eq-rnnt-grad-log-probs", lhs, rhs, cases)


@pytest.mark.equation("eq-rnnt-occupancy-total")
def test_occupancy_total():
    """The occupancies of alpha, step and beta, all added up, against the number of steps of a path."""
    def rhs(T, U, V, occupancy):
        return sum(sum(sum(occupancy[t, u, k] for k in range(0, V)) for u in range(0, U + 1)) for t in range(0, T))

    cases = [(len(y), len(labels), 3, zero_outside(occupancy_by_formula(y, labels), zero=5)) for y, labels in INPUTS]
    check_equation("eq-rnnt-occupancy-total", lambda T, U, *_: T + U, rhs, cases)


GRIDS = [(1, [1], 3), (2, [1], 2), (1, [1, 2], 3), (2, [1], 3), (2, [1, 1], 2)]


def _at(polynomial, values):
    """The value of a polynomial, or of a quotient of two, where its generators have the given values."""
    if hasattr(polynomial, "denom"):
        return _at(polynomial.numer, values) / _at(polynomial.denom, values)
    return sum((int(coefficient) * prod((value ** power for value, power in zip(values, powers, strict=True)),
                                        start=Fraction(1))
                for powers, coefficient in polynomial.terms()), Fraction(0))


@pytest.mark.equation("eq-rnnt-normaliser")
def test_normaliser():
    """sympy: derivative of the path sum as a rational function of x with respect to each logit, against the derivatives
    of the path sum as a polynomial in x and the reciprocals c of the normalisers."""
    def lhs(slope, x, c, by_x, by_c, t, u, k):
        return slope[t, u, k]

    def rhs(slope, x, c, by_x, by_c, t, u, k):
        return x[t, u, k] * (by_x[t, u, k] - c[t, u] ** 2 * by_c[t, u])

    cases = []
    for seed, (T, labels, V) in enumerate(GRIDS):
        shape = (T, len(labels) + 1, V)
        x = probabilities(seed, shape)
        c = 1 / x.sum(axis=-1)
        rational = field_grid("x", shape)
        z = rnnt_z(softmax(rational), labels)
        slope = np.empty(shape, dtype=object)
        for index in np.ndindex(shape):
            slope[index] = x[index] * _at(z.diff(rational[index]), x.ravel())
        letters = ring_grid("s", (*shape[:2], V + 1))
        y = letters[..., :V] * letters[..., V:]
        polynomial = rnnt_z(y, labels)
        values = np.concatenate([x, c[..., None]], axis=-1).ravel()
        by = np.empty(letters.shape, dtype=object)
        for index in np.ndindex(letters.shape):
            by[index] = _at(polynomial.diff(letters[index]), values)
        cases += [(slope, zero_outside(x), zero_outside(c), zero_outside(by[..., :V]), zero_outside(by[..., V]), *index)
                  for index in np.ndindex(shape)]
    check_equation("eq-rnnt-normaliser", lhs, rhs, cases)


@pytest.mark.equation("eq-rnnt-cleared")
def test_cleared():
    """sympy: D N times the derivative of -log of the path sum with respect to each logit, against an exact difference
    quotient of N with a step of 5, at random fractions."""
    def lhs(D, N, slope, x, by_x, t, u, k):
        return D[t, u] * N * slope[t, u, k]

    def rhs(D, N, slope, x, by_x, t, u, k):
        return x[t, u, k] * (N - D[t, u] * by_x[t, u, k])

    cases = []
    for seed, (T, labels, V) in enumerate(GRIDS):
        shape = (T, len(labels) + 1, V)

        def cleared(x, labels=labels):
            return rnnt_z(softmax(x), labels) * prod(x.sum(axis=-1).flat)

        x = probabilities(seed, shape)
        rational = field_grid("x", shape)
        z = rnnt_z(softmax(rational), labels)
        slope, by_x = np.empty(shape, dtype=object), np.empty(shape, dtype=object)
        for index in np.ndindex(shape):
            slope[index] = -x[index] * _at(z.diff(rational[index]) / z, x.ravel())
            by_x[index] = exact_difference(cleared, x, index, h=5)
        cases += [(zero_outside(x.sum(axis=-1)), cleared(x), slope, zero_outside(x), zero_outside(by_x), *index)
                  for index in np.ndindex(shape)]
    check_equation("eq-rnnt-cleared", lhs, rhs, cases)


def _by_logit():
    """sympy: (derivative of -log Z w.r.t. each logit, y, occupancy, gamma, alpha, beta, z, labels, t, u, k)."""
    for T, labels, V in GRIDS:
        x = field_grid("x", (T, len(labels) + 1, V))
        y = softmax(x)
        z, occupancy = rnnt_z(y, labels), rnnt_occupancy(y, labels)
        alpha, beta, gamma = rnnt_alpha(y, labels), zero_outside(rnnt_beta_beyond(y, labels)), occupancy.sum(axis=-1)
        for t, u, k in np.ndindex(x.shape):
            derivative = -x[t, u, k] * z.diff(x[t, u, k]) / z
            yield derivative, y, occupancy, gamma, alpha, beta, z, labels, t, u, k


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
    occupancy = rnnt_occupancy(y, labels)
    return F, G, y, rnnt_z(y, labels), occupancy, occupancy.sum(axis=-1), len(labels), T


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


class TanhJoiner:
    """Two frames, one label, and a tanh joiner, in 50 digits. Slopes of the loss are limits of difference quotients
    (mpmath), where the loss is -log of the sum over the enumerated paths: no derivative rule of ours."""

    T, U, V, H, labels = 2, 1, 3, 2, [1]

    def __init__(self):
        self.mp = mpmath.MPContext()
        self.mp.dps = 50
        self.rng = np.random.default_rng(60)
        self.f, self.g = self.numbers((self.T, self.H)), self.numbers((self.U + 1, self.H))
        self.W, self.b = self.numbers((self.V, self.H)), self.numbers((self.V,))
        self.h = self.hidden(self.f, self.g)
        self.y = self.probabilities(self.h, self.W, self.b)
        self.occupancy = rnnt_occupancy(self.y, self.labels)
        self.gamma = self.occupancy.sum(axis=-1)
        self.delta = self.y * self.gamma[..., None] - self.occupancy

    def numbers(self, shape):
        return self.each(lambda n: self.mp.mpf(int(n)) / 10, self.rng.integers(-15, 15, size=shape))

    @staticmethod
    def each(function, array):
        return np.vectorize(function, otypes=[object])(array)

    def hidden(self, f, g):
        return self.each(self.mp.tanh, f[:, None] + g[None])

    def probabilities(self, h, W, b):
        return softmax(self.each(self.mp.exp, h @ W.T + b))

    def loss(self, h, W, b):
        return -self.mp.log(rnnt_z(self.probabilities(h, W, b), self.labels))

    def slope(self, name, index):
        parts = {"f": self.f, "g": self.g, "W": self.W, "b": self.b}

        def of_one(value):
            moved = {key: part.copy() for key, part in parts.items()} | {"h": self.h.copy()}
            moved[name][index] = value
            h = moved["h"] if name == "h" else self.hidden(moved["f"], moved["g"])
            return self.loss(h, moved["W"], moved["b"])

        return self.mp.diff(of_one, (parts | {"h": self.h})[name][index])

    def outside(self, name):
        return zero_outside(getattr(self, name), zero=self.mp.mpf(5))


TANH = TanhJoiner()
DIGITS_25 = 1e-25


def _first(slope, *_):
    return slope


@pytest.mark.equation("eq-rnnt-grad-joiner-bias")
def test_grad_joiner_bias():
    """Slope of the loss in each bias, to 25 digits, against the sum of delta over the grid."""
    def rhs(slope, delta, T, U, k):
        return sum(sum(delta[t, u, k] for u in range(0, U + 1)) for t in range(0, T))

    check_equation("eq-rnnt-grad-joiner-bias", _first, rhs, [
        (TANH.slope("b", (k,)), TANH.outside("delta"), TANH.T, TANH.U, k) for k in range(TANH.V)],
        tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-weight")
def test_grad_joiner_weight():
    """Slope of the loss in each entry of the matrix, to 25 digits, against the sum of delta times hidden unit."""
    def rhs(slope, delta, h, T, U, k, i):
        return sum(sum(delta[t, u, k] * h[t, u, i] for u in range(0, U + 1)) for t in range(0, T))

    check_equation("eq-rnnt-grad-joiner-weight", _first, rhs, [
        (TANH.slope("W", index), TANH.outside("delta"), TANH.outside("h"), TANH.T, TANH.U, *index)
        for index in np.ndindex(TANH.W.shape)], tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-hidden")
def test_grad_joiner_hidden():
    """Slope of the loss in each hidden unit, to 25 digits, against delta times the matrix."""
    def rhs(slope, delta, W, V, t, u, i):
        return sum(delta[t, u, k] * W[k, i] for k in range(0, V))

    check_equation("eq-rnnt-grad-joiner-hidden", _first, rhs, [
        (TANH.slope("h", index), TANH.outside("delta"), TANH.outside("W"), TANH.V, *index)
        for index in np.ndindex(TANH.h.shape)], tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-encoder")
def test_grad_joiner_encoder():
    """Slope of the loss in each entry of the encoder's vectors, to 25 digits, against the sum over the column."""
    def rhs(slope, delta, h, W, U, V, t, i):
        return sum((1 - h[t, u, i] ** 2) * sum(delta[t, u, k] * W[k, i] for k in range(0, V)) for u in range(0, U + 1))

    check_equation("eq-rnnt-grad-joiner-encoder", _first, rhs, [
        (TANH.slope("f", index), TANH.outside("delta"), TANH.outside("h"), TANH.outside("W"), TANH.U, TANH.V, *index)
        for index in np.ndindex(TANH.f.shape)], tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-predictor")
def test_grad_joiner_predictor():
    """Slope of the loss in each entry of the predictor's vectors, to 25 digits, against the sum over the row."""
    def rhs(slope, delta, h, W, T, V, u, i):
        return sum((1 - h[t, u, i] ** 2) * sum(delta[t, u, k] * W[k, i] for k in range(0, V)) for t in range(0, T))

    check_equation("eq-rnnt-grad-joiner-predictor", _first, rhs, [
        (TANH.slope("g", index), TANH.outside("delta"), TANH.outside("h"), TANH.outside("W"), TANH.T, TANH.V, *index)
        for index in np.ndindex(TANH.g.shape)], tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-counts")
def test_grad_joiner_counts():
    """Slope of the loss in each bias, to 25 digits, against expected minus actual numbers of the symbol."""
    def rhs(slope, y, gamma, n, T, U, k):
        return sum(sum(y[t, u, k] * gamma[t, u] for u in range(0, U + 1)) for t in range(0, T)) - n[k]

    n = zero_outside([TANH.T, *(TANH.labels.count(k) for k in range(1, TANH.V))], zero=5)
    check_equation("eq-rnnt-grad-joiner-counts", _first, rhs, [
        (TANH.slope("b", (k,)), TANH.outside("y"), TANH.outside("gamma"), n, TANH.T, TANH.U, k)
        for k in range(TANH.V)], tolerance=DIGITS_25)

"""Checks of the equations of the chapter on the RNN-T gradient. The left sides come from enumerated paths."""

from fractions import Fraction
from math import prod

import mpmath
import notation
import numpy as np
import pytest
import ranges
from brute_force import RNNT_INPUTS as INPUTS
from brute_force import (
    Target,
    blank_of,
    each_entry,
    grad_logit,
    probabilities,
    rnnt_alpha,
    rnnt_arcs_of_nodes,
    rnnt_beta,
    rnnt_beta_beyond,
    rnnt_gamma,
    rnnt_grad_probs,
    rnnt_occupancy,
    rnnt_occupancy_of_nodes,
    rnnt_paths,
    rnnt_z,
    slope_at,
    slopes_in_logs,
)
from brute_force import rnnt_nodes as nodes
from sides import first

from reference_impl.differences import exact_difference
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT
QUANTITIES = ranges.RNNT | Quantities(
    {"visits": "T + 1, U + 1", "delta": "T, U + 1, V", "h": "T, U + 1, H", "W": "V, H"},
    {"a node without mass": lambda visits, t, u: visits[t, u] == 0})
NO_LABEL = "no label leaves the last row"


def _posteriors():
    for y, labels, t, u in nodes(INPUTS):
        yield (rnnt_occupancy(y, labels), rnnt_z(y, labels), rnnt_alpha(y, labels),
               zero_outside(rnnt_beta_beyond(y, labels)), y, zero_outside(labels), blank_of(labels), t, u)


@pytest.mark.equation("eq-rnnt-blank-arc", patterns={r"\gamma_\varnothing(t, u)": "uses[t, u, blank]"})
def test_blank_arc():
    """Share of the paths that use the blank of (t, u) against alpha, the step, and beta."""
    def lhs(uses, z, alpha, beta, y, labels, blank, t, u):
        return uses[t, u, blank]

    def rhs(uses, z, alpha, beta, y, labels, blank, t, u):
        return 1 / z * alpha[t, u] * y[t, u, blank] * beta[t + 1, u]

    check_equation("eq-rnnt-blank-arc", lhs, rhs, _posteriors())


@pytest.mark.equation("eq-rnnt-label-arc", patterns={r"\gamma_y(t, u)": "uses[t, u, labels[u]]"})
def test_label_arc():
    """Share of the paths that use the next label at (t, u) against alpha, the step, and beta."""
    def lhs(uses, z, alpha, beta, y, labels, blank, t, u):
        return uses[t, u, labels[u]]

    def rhs(uses, z, alpha, beta, y, labels, blank, t, u):
        return 1 / z * alpha[t, u] * y[t, u, labels[u]] * beta[t, u + 1]

    cases = [case for case in _posteriors() if case[-1] < len(case[5].array)]
    check_equation("eq-rnnt-label-arc", lhs, rhs, cases, left_out={"u = U": NO_LABEL, "U = 0": NO_LABEL})


@pytest.mark.equation("eq-rnnt-node-occupancy")
def test_node_occupancy():
    """alpha * beta / Z against the posteriors of the two arcs that leave the node."""
    def lhs(gamma, e_blank, e_label, t, u):
        return gamma[t, u]

    def rhs(gamma, e_blank, e_label, t, u):
        return e_blank[t, u] + e_label[t, u]

    check_equation("eq-rnnt-node-occupancy", lhs, rhs, (
        (gamma, zero_outside(e_blank), zero_outside(e_label), t, u)
        for gamma, e_blank, e_label in map(_occupancies, INPUTS) for t, u in np.ndindex(gamma.shape)))


def _occupancies(case):
    """gamma from alpha and beta, arc posteriors from enumerated paths."""
    y, labels = case
    uses = rnnt_occupancy(y, labels)
    return rnnt_gamma(y, labels), uses[:, :, blank_of(labels)], uses[:, range(len(labels)), list(labels)]


@pytest.mark.equation("eq-rnnt-one-blank")
def test_one_blank():
    """The blank posteriors of each frame, from alpha and beta, add up to 1."""
    def rhs(e_blank, t, U):
        return sum(e_blank[t, u] for u in range(0, U + 1))

    cases = [(zero_outside(rnnt_arcs_of_nodes(y, labels)[0], zero=5), t, len(labels))
             for y, labels in INPUTS for t in range(len(y))]
    check_equation("eq-rnnt-one-blank", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-rnnt-each-label-once")
def test_each_label_once():
    """The posteriors of each label, from alpha and beta, add up to 1."""
    def rhs(e_label, u, T):
        return sum(e_label[t, u] for t in range(0, T))

    cases = [(zero_outside(rnnt_arcs_of_nodes(y, labels)[1], zero=5), u, len(y))
             for y, labels in INPUTS for u in range(len(labels))]
    check_equation("eq-rnnt-each-label-once", lambda *_: 1, rhs, cases, left_out={"u = U": NO_LABEL, "U = 0": NO_LABEL})


@pytest.mark.equation("eq-rnnt-grad-probs")
def test_grad_probs():
    """Exact difference of the sum over paths against a prefix times a suffix, without the step between."""
    def rhs(grad_probs, alpha, beta, labels, blank, t, u, k):
        return alpha[t, u] * ((k == blank) * beta[t + 1, u] + (k == labels[u]) * beta[t, u + 1])

    cases = []
    for y, labels, t, u in nodes(INPUTS):
        for k in range(y.shape[-1]):
            cases.append((rnnt_grad_probs(y, labels, t, u, k), zero_outside(rnnt_alpha(y, labels)),
                          zero_outside(rnnt_beta_beyond(y, labels)), zero_outside(labels, zero=-1), blank_of(labels),
                          t, u, k))
    check_equation("eq-rnnt-grad-probs", first, rhs, cases)


@pytest.mark.equation("eq-rnnt-own-diagonal", over={"j": "range(U + 1)"})
def test_own_diagonal():
    """Z over all paths against enumerated prefixes and suffixes along the node's own anti-diagonal, with the
    node's own suffixes split at their first step."""
    def rhs(z, alpha, beta, y, labels, blank, t, u, U):
        return alpha[t, u] * (y[t, u, blank] * beta[t + 1, u] + y[t, u, labels[u]] * beta[t, u + 1]) + sum(
            alpha[t + u - j, j] * beta[t + u - j, j] for j in range(U + 1) if j != u)

    check_equation("eq-rnnt-own-diagonal", first, rhs, (
        (rnnt_z(y, labels), zero_outside(rnnt_alpha(y, labels)), zero_outside(rnnt_beta_beyond(y, labels)),
         zero_outside(y), zero_outside(labels, zero=-1), blank_of(labels), t, u, len(labels))
        for y, labels, t, u in nodes(INPUTS)), equivalent={
            "shift bound: range(U + 1) -> range(U + 1 + 1)": "nothing stands above the last row"})


@computed(kind="exact difference")
def slope_of_own_ending(y, labels, t, u, k):
    """d beta(t, u) / dy of one of the node's own entries: the enumerated suffixes are affine in it."""
    return exact_difference(lambda y: rnnt_beta(y, labels)[t, u], y, (t, u, k), h=3)


@pytest.mark.equation("eq-rnnt-own-node", patterns={
    r"\frac{\partial \beta(t, u)}{\partial y_{t,u}(k)}": "slopes[t, u, k]"})
def test_own_node():
    """Exact difference of the sum over paths against enumerated prefixes times the exact difference of suffixes."""
    def rhs(grad_probs, alpha, slopes, t, u, k):
        return alpha[t, u] * slopes[t, u, k]

    def cases():
        for y, labels in INPUTS:
            alpha, grad_probs = zero_outside(rnnt_alpha(y, labels)), _grad_probs(y, labels)
            slopes = each_entry(y.shape, lambda *index, y=y, labels=labels: slope_of_own_ending(y, labels, *index))
            for index in np.ndindex(y.shape):
                yield grad_probs[index], alpha, zero_outside(slopes), *index

    check_equation("eq-rnnt-own-node", first, rhs, cases())


@pytest.mark.equation("eq-rnnt-chain", patterns={
    r"\frac{\partial L}{\partial \log y_{t,u}(k)}": "slope",
    r"\frac{\partial Z}{\partial y_{t,u}(k)}": "grad_probs[t, u, k]"})
def test_chain():
    """sympy: -log of the path sum with y = e^v, differentiated with respect to v, against -y / Z dZ/dy."""
    def rhs(slope, grad_probs, z, y, t, u, k):
        return -y[t, u, k] / z * grad_probs[t, u, k]

    def cases():
        for y, labels in INPUTS:
            slopes, grad_probs = slopes_in_logs(y, rnnt_paths(y, labels)), _grad_probs(y, labels)
            for index in np.ndindex(y.shape):
                yield slopes[index], zero_outside(grad_probs), rnnt_z(y, labels), zero_outside(y), *index

    check_equation("eq-rnnt-chain", first, rhs, cases())


def _grad_probs(y, labels):
    """dZ/dy of every entry by exact differences."""
    return each_entry(y.shape, lambda *index: rnnt_grad_probs(y, labels, *index))


@pytest.mark.equation("eq-rnnt-grad-log-probs", patterns={r"\frac{\partial L}{\partial \log y_{t,u}(k)}": "slope"})
def test_grad_log_probs():
    """sympy: -log of the path sum with y = e^v, differentiated, against minus the occupancy of alpha, step and beta."""
    def rhs(slope, occupancy, t, u, k):
        return -occupancy[t, u, k]

    check_equation("eq-rnnt-grad-log-probs", first, rhs, (
        (slopes[index], zero_outside(occupancy), *index)
        for y, labels in INPUTS for slopes in [slopes_in_logs(y, rnnt_paths(y, labels))]
        for occupancy in [rnnt_occupancy_of_nodes(y, labels)] for index in np.ndindex(y.shape)))


@pytest.mark.equation("eq-rnnt-occupancy-total")
def test_occupancy_total():
    """The occupancies of alpha, step and beta, all added up, against the number of steps of a path."""
    def rhs(T, U, V, occupancy):
        return sum(sum(sum(occupancy[t, u, k] for k in range(0, V)) for u in range(0, U + 1)) for t in range(0, T))

    cases = [(len(y), len(labels), y.shape[-1], zero_outside(rnnt_occupancy_of_nodes(y, labels), zero=5))
             for y, labels in INPUTS]
    check_equation("eq-rnnt-occupancy-total", lambda T, U, *_: T + U, rhs, cases)


def _by_logit():
    """sympy: the derivative of -log of the path sum with respect to every logit log x, as an array; x, and labels."""
    for x, labels in INPUTS:
        yield each_entry(x.shape, lambda *index, x=x, labels=labels: grad_logit(
            lambda y: rnnt_z(y, labels), x, *index)), x, labels


@pytest.mark.equation("eq-rnnt-normaliser", patterns={
    r"\frac{\partial Z}{\partial z_{t,u}(k)}": "slope", r"\frac{\partial Z}{\partial x_{t,u}(k)}": "by_x[t, u, k]",
    r"\frac{\partial Z}{\partial c_{t,u}}": "by_c[t, u]"})
def test_normaliser():
    """sympy: derivative of the path sum with respect to each logit, against the derivatives of the path sum as a
    polynomial in x and the reciprocals c of the normalisers."""
    def rhs(slope, x, c, by_x, by_c, t, u, k):
        return x[t, u, k] * (by_x[t, u, k] - c[t, u] ** 2 * by_c[t, u])

    def cases():
        for x, labels in INPUTS:
            c, by = 1 / x.sum(axis=-1), _by_x_and_c(x, labels)
            for index in np.ndindex(x.shape):
                slope = x[index] * slope_at(lambda x, labels=labels: rnnt_z(softmax(x), labels), x, *index)
                yield (slope, zero_outside(x), zero_outside(c), zero_outside(by[..., :-1]), zero_outside(by[..., -1]),
                       *index)

    check_equation("eq-rnnt-normaliser", first, rhs, cases())


def _by_x_and_c(x, labels):
    """Derivatives of the path sum of the products x c, with respect to x and, behind the symbols, c."""
    letters = np.concatenate([x, 1 / x.sum(axis=-1, keepdims=True)], axis=-1)
    return each_entry(letters.shape, lambda *index: slope_at(
        lambda letters: rnnt_z(letters[..., :-1] * letters[..., -1:], labels), letters, *index))


@pytest.mark.equation("eq-rnnt-cleared", patterns={
    r"\frac{\partial L}{\partial z_{t,u}(k)}": "slope", r"\check Z": "N", r"X_{#t,#u}": "D[#t, #u]",
    r"\frac{\partial \check Z}{\partial x_{t,u}(k)}": "by_x[t, u, k]"})
def test_cleared():
    """sympy: X and the cleared Z times the derivative of -log of the path sum with respect to each logit, against an
    exact difference quotient of the cleared Z with a step of 5."""
    def lhs(D, N, slope, x, by_x, t, u, k):
        return D[t, u] * N * slope

    def rhs(D, N, slope, x, by_x, t, u, k):
        return x[t, u, k] * (N - D[t, u] * by_x[t, u, k])

    def cases():
        for slopes, x, labels in _by_logit():
            by_x = each_entry(x.shape, lambda *index, x=x, labels=labels: grad_cleared(x, labels, *index))
            for index in np.ndindex(x.shape):
                yield (zero_outside(x.sum(axis=-1)), cleared(x, labels), slopes[index], zero_outside(x),
                       zero_outside(by_x), *index)

    check_equation("eq-rnnt-cleared", lhs, rhs, cases())


@computed
def cleared(x, labels):
    """Z of the softmax times all its denominators."""
    return rnnt_z(softmax(x), labels) * prod(x.sum(axis=-1).flat)


@computed(kind="exact difference")
def grad_cleared(x, labels, *entry):
    return exact_difference(lambda x: cleared(x, labels), x, entry, h=5)


SHARES = {r"\gamma(#t, #u)": "visits[#t, #u]", r"r_\varnothing(#t, #u)": "by_blank[#t, #u]",
          r"r_y(#t, #u)": "by_label[#t, #u]"}


def _shares(y, labels):
    """Of the two arcs into each node, from enumerated alphas, on a grid with one more column, which holds the end."""
    T, U, blank, alpha = len(y), len(labels), blank_of(labels), rnnt_alpha(y, labels)
    by_blank, by_label = np.full((2, T + 1, U + 1), Fraction(0), dtype=object)
    for t, u in np.ndindex(T, U + 1):
        if t > 0 and alpha[t, u] > 0:
            by_blank[t, u] = alpha[t - 1, u] * y[t - 1, u, blank] / alpha[t, u]
        if u > 0 and alpha[t, u] > 0:
            by_label[t, u] = alpha[t, u - 1] * y[t, u - 1, labels[u - 1]] / alpha[t, u]
    by_blank[T, U] = alpha[T - 1, U] * y[T - 1, U, blank] / rnnt_z(y, labels)
    return zero_outside(by_blank), zero_outside(by_label)


@pytest.mark.equation("eq-rnnt-share-sum", patterns=SHARES)
def test_share_sum():
    """The shares of the two arcs into a node, from enumerated alphas, add up to 1."""
    def rhs(by_blank, by_label, t, u):
        return by_blank[t, u] + by_label[t, u]

    cases = [(zero_outside(by_blank.array[:-1]), zero_outside(by_label.array[:-1]), t, u)
             for y, labels, t, u in nodes(INPUTS) if (t, u) != (0, 0) for by_blank, by_label in [_shares(y, labels)]]
    check_equation("eq-rnnt-share-sum", lambda *_: 1, rhs, cases)


def _with_a_score_of_0(*entry):
    y, labels = probabilities(3, (3, 3, 3)), [1, 2]
    y[entry] = Fraction(0)
    return y, labels


# nothing reaches the nodes above, or those to the right; or the last column is entered where no path may go on
WITHOUT_MASS = [_with_a_score_of_0(0, 0, 1), _with_a_score_of_0(0, 0, 0), _with_a_score_of_0(2, 0, 1)]


@computed(kind="recursion")
def swept_back(y, labels):
    """gamma by the displayed recursion, from the end, where it is 1."""
    (T, U), (by_blank, by_label) = (len(y), len(labels)), _shares(y, labels)
    visits = np.full((T + 1, U + 1), Fraction(0), dtype=object)
    visits[T, U] = Fraction(1)
    for t, u in reversed(list(np.ndindex(T, U + 1))):
        visits[t, u] = visits[t + 1, u] * by_blank[t + 1, u]
        if u < U:
            visits[t, u] += visits[t, u + 1] * by_label[t, u + 1]
    return visits


@pytest.mark.equation("eq-rnnt-share-sweep", patterns=SHARES)
def test_share_sweep():
    """The enumerated occupancy of each node against that of the sweep at the two nodes after it, times their shares."""
    def lhs(gamma, visits, by_blank, by_label, t, u):
        return gamma[t, u]

    def rhs(gamma, visits, by_blank, by_label, t, u):
        return visits[t + 1, u] * by_blank[t + 1, u] + visits[t, u + 1] * by_label[t, u + 1]

    check_equation("eq-rnnt-share-sweep", lhs, rhs, (
        (rnnt_occupancy(y, labels).sum(axis=-1), zero_outside(swept_back(y, labels)), *_shares(y, labels), t, u)
        for y, labels, t, u in nodes(INPUTS + WITHOUT_MASS)))


@pytest.mark.equation("eq-rnnt-logits-chain")
def test_logits_chain():
    """sympy: derivative of -log of the path sum with respect to each logit, against the chain rule."""
    def rhs(grad_logits, occupancy, y, t, u, k, V):
        return -sum(occupancy[t, u, j] * ((j == k) - y[t, u, k]) for j in range(0, V))

    check_equation("eq-rnnt-logits-chain", first, rhs, (
        (slopes[index], zero_outside(occupancy, zero=5), zero_outside(y), *index, y.shape[-1])
        for slopes, x, labels in _by_logit() for y in [softmax(x)] for occupancy in [rnnt_occupancy_of_nodes(y, labels)]
        for index in np.ndindex(y.shape)))


@pytest.mark.equation("eq-rnnt-grad-logits", "eq-short-rnnt-logits",
                      patterns={r"\frac{\partial L}{\partial z_{t,u}(k)}": "grad_logits"})
def test_grad_logits():
    """sympy: the same derivative against softmax times node occupancy minus occupancy."""
    def rhs(grad_logits, y, gamma, occupancy, t, u, k):
        return y[t, u, k] * gamma[t, u] - occupancy[t, u, k]

    cases = [(slopes[index], zero_outside(y), zero_outside(gamma), zero_outside(occupancy), *index)
             for slopes, x, labels in _by_logit() for y in [softmax(x)]
             for gamma, occupancy in [(rnnt_gamma(y, labels), rnnt_occupancy_of_nodes(y, labels))]
             for index in np.ndindex(y.shape)]
    check_equation("eq-rnnt-grad-logits", first, rhs, cases)
    check_equation("eq-short-rnnt-logits", first, rhs, cases)


@pytest.mark.equation("eq-rnnt-fused")
def test_fused():
    """sympy: the same derivative against the merged form with the differences of beta."""
    def rhs(grad_logits, y, alpha, beta, z, labels, blank, t, u, k):
        return y[t, u, k] * alpha[t, u] / z * (
            beta[t, u] - (k == blank) * beta[t + 1, u] - (k == labels[u]) * beta[t, u + 1])

    check_equation("eq-rnnt-fused", first, rhs, (
        (slopes[index], zero_outside(y), zero_outside(alpha), zero_outside(beta), beta[0, 0],
         zero_outside(labels, zero=-1), blank_of(labels), *index)
        for slopes, x, labels in _by_logit() for y in [softmax(x)]
        for alpha, beta in [(rnnt_alpha(y, labels), rnnt_beta_beyond(y, labels))] for index in np.ndindex(y.shape)))


def _by_score(predictor):
    """sympy: logits f_t(k) + g_u(k), so that x is a product of two exponentials; the derivative of -log of the path sum
    with respect to every f, or every g; y, and the labels."""
    for seed, (T, labels, V) in enumerate([(3, [1], 2), (1, [1, 2, 1], 3), (2, [1, 1, 1], 2), (2, [], 2),
                                            (2, Target([0, 1], blank=2), 4)]):
        scores = probabilities(seed, (T + len(labels) + 1, V))  # those of the frames, then those of the rows

        def y_of(scores, T=T):
            return softmax(scores[:T, None] * scores[None, T:])

        def z_of(scores, labels=labels, y_of=y_of):
            return rnnt_z(y_of(scores), labels)

        rows = range(T, len(scores)) if predictor else range(T)
        slopes = np.empty((len(rows), V), dtype=object)
        for row, k in np.ndindex(slopes.shape):
            index = rows[row], k
            slopes[row, k] = -scores[index] * slope_at(z_of, scores, *index) / z_of(scores)
        yield slopes, y_of(scores), labels


def _of_nodes(y, labels):
    """y, gamma and E, the last two of alpha and beta; 5 outside."""
    arrays = y, rnnt_gamma(y, labels), rnnt_occupancy_of_nodes(y, labels)
    return [zero_outside(array, zero=Fraction(5)) for array in arrays]


@pytest.mark.equation("eq-rnnt-grad-encoder", patterns={r"\frac{\partial L}{\partial f_t(k)}": "grad_logits"})
def test_grad_encoder():
    """sympy: derivative of -log Z with respect to the encoder's scores against the column sums."""
    def rhs(grad_logits, y, gamma, occupancy, U, t, k):
        return sum(y[t, u, k] * gamma[t, u] - occupancy[t, u, k] for u in range(0, U + 1))

    check_equation("eq-rnnt-grad-encoder", first, rhs, (
        (slopes[t, k], *arrays, len(labels), t, k) for slopes, y, labels in _by_score(predictor=False)
        for arrays in [_of_nodes(y, labels)] for t, k in np.ndindex(slopes.shape)))


@pytest.mark.equation("eq-rnnt-grad-predictor", patterns={r"\frac{\partial L}{\partial g_u(k)}": "grad_logits"})
def test_grad_predictor():
    """sympy: derivative of -log Z with respect to the predictor's scores against the row sums."""
    def rhs(grad_logits, y, gamma, occupancy, T, u, k):
        return sum(y[t, u, k] * gamma[t, u] - occupancy[t, u, k] for t in range(0, T))

    check_equation("eq-rnnt-grad-predictor", first, rhs, (
        (slopes[u, k], *arrays, len(y), u, k) for slopes, y, labels in _by_score(predictor=True)
        for arrays in [_of_nodes(y, labels)] for u, k in np.ndindex(slopes.shape)))


@pytest.mark.equation("eq-rnnt-grad-encoder-blank", patterns={
    r"\frac{\partial L}{\partial f_t(\varnothing)}": "grad_logits"})
def test_grad_encoder_blank():
    """sympy: derivative with respect to the encoder's blank scores against the expected number of blanks minus 1."""
    def rhs(grad_logits, y, gamma, blank, U, t):
        return sum(y[t, u, blank] * gamma[t, u] for u in range(0, U + 1)) - 1

    check_equation("eq-rnnt-grad-encoder-blank", first, rhs, (
        (slopes[t, blank_of(labels)], *arrays[:2], blank_of(labels), len(labels), t)
        for slopes, y, labels in _by_score(predictor=False) for arrays in [_of_nodes(y, labels)]
        for t in range(len(slopes))))


@computed(kind="differences in 50 digits")
def limit(of_one, value):
    """The limit of difference quotients of a function of one number."""
    return value.context.diff(of_one, value)


class TanhJoiner:
    """A tanh joiner in 50 digits. Slopes of the loss are limits of difference quotients (mpmath), where the loss is
    -log of the sum over the enumerated paths: no derivative rule of ours."""

    def __init__(self, T, labels, V, H):
        self.T, self.U, self.V, self.H, self.labels = T, len(labels), V, H, labels
        self.mp = mpmath.MPContext()
        self.mp.dps = 50
        self.rng = np.random.default_rng(60)
        self.f, self.g = self.numbers((self.T, self.H)), self.numbers((self.U + 1, self.H))
        self.W, self.b = self.numbers((self.V, self.H)), self.numbers((self.V,))
        self.h = self.hidden(self.f, self.g)
        self.y = self.probabilities(self.h, self.W, self.b)
        self.gamma = rnnt_gamma(self.y, labels)
        self.delta = self.y * self.gamma[..., None] - rnnt_occupancy_of_nodes(self.y, labels)

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

        return limit(of_one, (parts | {"h": self.h})[name][index])

    def counts(self):
        """How often each symbol stands on a path."""
        n = [self.labels.count(k) for k in range(self.V)]
        n[blank_of(self.labels)] = self.T
        return zero_outside(n, zero=5)

    def outside(self, name):
        return zero_outside(getattr(self, name), zero=self.mp.mpf(5))


DIGITS_25 = 1e-25
TANH = {r"\delta_{#t,#u}(#k)": "delta[#t, #u, #k]", r"\psi_{#t,#u}(#i)": "h[#t, #u, #i]", r"W(#k, #i)": "W[#k, #i]",
        r"n(#k)": "n[#k]"}


def tanh_joiners():
    """Frames, labels, symbols, hidden units."""
    return [TanhJoiner(3, [1], 2, 4), TanhJoiner(1, [1, 2, 1], 4, 2), TanhJoiner(2, [], 3, 1),
            TanhJoiner(1, [1, 1, 1], 2, 1), TanhJoiner(2, Target([0, 2], blank=1), 3, 2)]


@pytest.mark.equation("eq-rnnt-grad-joiner-bias", patterns=TANH | {r"\frac{\partial L}{\partial b(k)}": "slope"})
def test_grad_joiner_bias():
    """Slope of the loss in each bias, to 25 digits, against the sum of delta over the grid."""
    def rhs(slope, delta, T, U, k):
        return sum(sum(delta[t, u, k] for u in range(0, U + 1)) for t in range(0, T))

    check_equation("eq-rnnt-grad-joiner-bias", first, rhs, (
        (j.slope("b", (k,)), j.outside("delta"), j.T, j.U, k) for j in tanh_joiners() for k in range(j.V)),
        tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-weight", patterns=TANH | {r"\frac{\partial L}{\partial W(k, i)}": "slope"})
def test_grad_joiner_weight():
    """Slope of the loss in each entry of the matrix, to 25 digits, against the sum of delta times hidden unit."""
    def rhs(slope, delta, h, T, U, k, i):
        return sum(sum(delta[t, u, k] * h[t, u, i] for u in range(0, U + 1)) for t in range(0, T))

    check_equation("eq-rnnt-grad-joiner-weight", first, rhs, (
        (j.slope("W", index), j.outside("delta"), j.outside("h"), j.T, j.U, *index)
        for j in tanh_joiners() for index in np.ndindex(j.W.shape)), tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-hidden", patterns=TANH | {
    r"\frac{\partial L}{\partial \psi_{t,u}(i)}": "slope"})
def test_grad_joiner_hidden():
    """Slope of the loss in each hidden unit, to 25 digits, against delta times the matrix."""
    def rhs(slope, delta, W, V, t, u, i):
        return sum(delta[t, u, k] * W[k, i] for k in range(0, V))

    check_equation("eq-rnnt-grad-joiner-hidden", first, rhs, (
        (j.slope("h", index), j.outside("delta"), j.outside("W"), j.V, *index)
        for j in tanh_joiners() for index in np.ndindex(j.h.shape)), tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-encoder", patterns=TANH | {r"\frac{\partial L}{\partial f_t(i)}": "slope"})
def test_grad_joiner_encoder():
    """Slope of the loss in each entry of the encoder's vectors, to 25 digits, against the sum over the column."""
    def rhs(slope, delta, h, W, U, V, t, i):
        return sum((1 - h[t, u, i] ** 2) * sum(delta[t, u, k] * W[k, i] for k in range(0, V)) for u in range(0, U + 1))

    check_equation("eq-rnnt-grad-joiner-encoder", first, rhs, (
        (j.slope("f", index), j.outside("delta"), j.outside("h"), j.outside("W"), j.U, j.V, *index)
        for j in tanh_joiners() for index in np.ndindex(j.f.shape)), tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-predictor", patterns=TANH | {r"\frac{\partial L}{\partial g_u(i)}": "slope"})
def test_grad_joiner_predictor():
    """Slope of the loss in each entry of the predictor's vectors, to 25 digits, against the sum over the row."""
    def rhs(slope, delta, h, W, T, V, u, i):
        return sum((1 - h[t, u, i] ** 2) * sum(delta[t, u, k] * W[k, i] for k in range(0, V)) for t in range(0, T))

    check_equation("eq-rnnt-grad-joiner-predictor", first, rhs, (
        (j.slope("g", index), j.outside("delta"), j.outside("h"), j.outside("W"), j.T, j.V, *index)
        for j in tanh_joiners() for index in np.ndindex(j.g.shape)), tolerance=DIGITS_25)


@pytest.mark.equation("eq-rnnt-grad-joiner-counts", patterns=TANH | {r"\frac{\partial L}{\partial b(k)}": "slope"})
def test_grad_joiner_counts():
    """Slope of the loss in each bias, to 25 digits, against expected minus actual numbers of the symbol."""
    def rhs(slope, y, gamma, n, T, U, k):
        return sum(sum(y[t, u, k] * gamma[t, u] for u in range(0, U + 1)) for t in range(0, T)) - n[k]

    check_equation("eq-rnnt-grad-joiner-counts", first, rhs, (
        (j.slope("b", (k,)), j.outside("y"), j.outside("gamma"), j.counts(), j.T, j.U, k)
        for j in tanh_joiners() for k in range(j.V)), tolerance=DIGITS_25)

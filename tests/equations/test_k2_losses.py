"""Checks of the equations of the chapter on k2's losses: recursions as displayed against enumerated walks and paths."""

from fractions import Fraction
from itertools import combinations
from math import comb, exp, log, prod

import mpmath
import notation
import numpy as np
import pytest
import ranges
import torch
from brute_force import (
    RNNT_INPUTS,
    Target,
    blank_of,
    expected_uses,
    probabilities,
    rnnt_gamma,
    rnnt_mass,
    rnnt_occupancy_of_nodes,
    rnnt_paths,
    rnnt_z,
    slope_at,
    zero,
)
from one_symbol_a_frame import monotonic_paths
from sides import first
from sympy import QQ
from sympy.polys.fields import field
from tex_to_python import Notation
from variants import constrained_alignments

from reference_impl.duals import Dual, duals
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax
from reference_impl.torch_impl.pruning import losses_and_posteriors

NOTATION = notation.RNNT | Notation({
    r"f_{#t}(#k)": "f[#t, #k]", r"g_{#u}(#k)": "g[#u, #k]",
    r"e^{f_{#t}(#k)}": "exp_f[#t, #k]", r"e^{g_{#u}(#k)}": "exp_g[#u, #k]",
    r"\lambda_g": "of_g", r"\lambda_f": "of_f", r"q_{#u}(#k)": "alone[#u, #k]", r"c_{#t}(#k)": "encoder[#t, #k]",
    r"p(#k)": "unigram[#k]", r"\varphi(#k)": "pull[#k]",
})
QUANTITIES = ranges.RNNT | Quantities(
    {"alpha": "T + 1, U + 1", "e_label": "T, U + 1", "X": "T, U + 1", "f": "T, V", "g": "U + 1, V", "exp_f": "T, V",
     "exp_g": "U + 1, V", "m": "T", "n": "U + 1", "alone": "U + 1, V", "encoder": "T, V", "unigram": "V", "pull": "V"},
    {
        "t = T": lambda alpha, t, T: t == T,
        "regular": lambda delta: delta == 0,
        "modified": lambda delta: delta == 1,
        "m and n the largest scores": lambda f, g, m, n: (m == f.array.max(1)).all() and (n == g.array.max(1)).all(),
        "lambda_g = 0": lambda of_g: of_g == 0,
        "lambda_f = 0": lambda of_f: of_f == 0,
        "lambda_g + lambda_f = 1": lambda of_g, of_f: of_g + of_f == 1,
        "lambda_g + lambda_f > 1": lambda of_g, of_f: of_g + of_f > 1,
        "one row in the batch": lambda N: N == 1,
        "d = 0": (lambda root: root == 1, lambda d: d == 0),
        "d < 0": (lambda root: root < 1, lambda d: d < 0),
        "d > 0": (lambda root: root > 1, lambda d: d > 0),
    },
)
# one input more, since those with more labels than frames have no path of the modified type
INPUTS = [*RNNT_INPUTS, (probabilities(8, (4, 4, 2)), [1, 1, 1])]
KINDS = ["regular", "modified", "constrained"]
NO_PATH = {"T < U": "no path has more labels than frames"}


@computed
def constrained_paths(y, labels):
    """The RNN-T paths on which no frame has two labels: a blank follows each of them."""
    return constrained_alignments(labels, len(y), y.shape[-1], blank_of(labels))


PATHS = {"regular": rnnt_paths, "modified": monotonic_paths, "constrained": constrained_paths}


def posteriors(uses, labels):
    """Of the label arcs, which are 0 in the last row, and of the blank arcs, both (T, U+1)."""
    e_blank = uses[:, :, blank_of(labels)]
    e_label = e_blank * 0
    e_label[:, :-1] = uses[:, range(len(labels)), list(labels)]
    return e_label, e_blank


def folded(y, labels):
    """The weights of the label arcs times those of the blanks that follow them."""
    weights = y.copy()
    for u, label in enumerate(labels):
        weights[:, u, label] = y[:, u, label] * y[:, u + 1, blank_of(labels)]
    return weights


def weights_and_frames(y, labels, kind):
    """What k2's recursion is given for a type: weights, and the frames of a label."""
    return (folded(y, labels) if kind == "constrained" else y), int(kind != "regular")


def _recursion(y, labels, delta):
    (T, rows, _), blank = y.shape, blank_of(labels)
    alpha = zero_outside(np.full((T + 1, rows), zero(y), dtype=object))
    y, labels = zero_outside(y), next_labels(labels)
    alpha.array[0, 0] += 1
    for t, u in np.ndindex(T + 1, rows):
        if (t, u) != (0, 0):
            alpha.array[t, u] = (alpha[t - delta, u - 1] * y[t - delta, u - 1, labels[u - 1]]
                                 + alpha[t - 1, u] * y[t - 1, u, blank])
    return alpha.array


def next_labels(labels):
    """l_u for any u: an impossible symbol, -1, outside."""
    return zero_outside(labels, zero=-1)


@computed(kind="recursion")
def k2_alpha(y, labels, delta):
    """alpha on T + 1 columns, by k2's recursion."""
    return _recursion(y, labels, delta)


def k2_z(y, labels, kind):
    """The last alpha of the recursion for a type."""
    weights, delta = weights_and_frames(y, labels, kind)
    return k2_alpha(weights, labels, delta)[-1, -1]


@computed(kind="dual numbers")
def slopes_of_recursion(y, labels, delta):
    """d log Z / d log y of every entry, by dual numbers through k2's recursion: what `return_grad` returns."""
    slopes = y * 0
    for entry in np.ndindex(y.shape):
        moved = duals(y, y * 0)
        moved[entry] = Dual(y[entry], y[entry])
        z = _recursion(moved, labels, delta)[-1, -1]
        slopes[entry] = z.tangent / z.value
    return slopes


@computed
def alpha_by_walks(y, labels, delta):
    """Mass of all walks from (0, 0) to each node, step by step: a walk is cut where it leaves the grid."""
    T, U, blank = len(y), len(labels), blank_of(labels)
    alpha = np.full((T + 1, U + 1), zero(y), dtype=object)

    def go(t, u, mass):
        alpha[t, u] += mass
        if t < T:
            go(t + 1, u, mass * y[t, u, blank])
            if u < U:
                go(t + delta, u + 1, mass * y[t, u, labels[u]])

    go(0, 0, zero(y) + 1)
    return alpha


@pytest.mark.equation("eq-k2-recursion")
def test_recursion():
    """Mass of all walks to a node against one step of the recursion, for both kinds of labels."""
    def lhs(alpha, y, labels, blank, delta, t, u):
        return alpha[t, u]

    def rhs(alpha, y, labels, blank, delta, t, u):
        return (alpha[t - delta, u - 1] * y[t - delta, u - 1, labels[u - 1]]
                + alpha[t - 1, u] * y[t - 1, u, blank])

    check_equation("eq-k2-recursion", lhs, rhs, (
        (zero_outside(alpha), zero_outside(y), next_labels(labels), blank_of(labels), delta, t, u)
        for y, labels in INPUTS for delta in (0, 1) for alpha in [alpha_by_walks(y, labels, delta)]
        for t, u in np.ndindex(alpha.shape) if (t, u) != (0, 0)))


@pytest.mark.equation("eq-k2-total")
def test_total():
    """The sum over the enumerated paths of each type against the last alpha of the recursion."""
    def rhs(z, alpha, T, U):
        return alpha[T, U]

    def cases():
        for y, labels in INPUTS:
            for kind in KINDS:
                weights, delta = weights_and_frames(y, labels, kind)
                yield (sum(rnnt_mass(y, path) for path in PATHS[kind](y, labels)),
                       zero_outside(k2_alpha(weights, labels, delta)), len(y), len(labels))

    check_equation("eq-k2-total", first, rhs, cases())


@computed
def constrained_prefixes(y, labels):
    """At each (t, u), the mass of the first t frames of RNN-T walks with u labels in them, at most one in each."""
    T, U, blank = len(y), len(labels), blank_of(labels)
    alpha = np.full((T + 1, U + 1), zero(y), dtype=object)
    for t, u in np.ndindex(alpha.shape):
        for written in combinations(range(t), u):
            rows = [sum(w < frame for w in written) for frame in range(t)]
            alpha[t, u] += prod((y[frame, row, labels[row]] * y[frame, row + 1, blank] if frame in written
                                 else y[frame, row, blank] for frame, row in enumerate(rows)), start=zero(y) + 1)
    return alpha


@pytest.mark.equation("eq-k2-constrained")
def test_constrained():
    """Mass of prefixes with at most one label a frame against the recursion with folded weights."""
    def lhs(alpha, y, labels, blank, t, u):
        return alpha[t, u]

    def rhs(alpha, y, labels, blank, t, u):
        return (alpha[t - 1, u - 1] * y[t - 1, u - 1, labels[u - 1]] * y[t - 1, u, blank]
                + alpha[t - 1, u] * y[t - 1, u, blank])

    check_equation("eq-k2-constrained", lhs, rhs, (
        (zero_outside(alpha), zero_outside(y), next_labels(labels), blank_of(labels), t, u)
        for y, labels in INPUTS for alpha in [constrained_prefixes(y, labels)]
        for t, u in np.ndindex(alpha.shape) if (t, u) != (0, 0)))


def test_constrained_end():
    """Prefixes that have all frames and labels are the constrained paths."""
    for y, labels in INPUTS:
        z = sum(rnnt_mass(y, path) for path in constrained_paths(y, labels))
        assert constrained_prefixes(y, labels)[-1, -1] == z


@pytest.mark.equation("eq-k2-path-count", patterns={r"\# \text{paths}": "count"})
def test_path_count():
    """Paths of both types, found among all strings and among all RNN-T paths, against the binomial; none where labels
    outnumber frames."""
    def rhs(count, T, U):
        return comb(T, U)

    check_equation("eq-k2-path-count", first, rhs, (
        (len(paths_of(np.ones((T, U + 1, 3)), target)), T, U)
        for paths_of in (monotonic_paths, constrained_paths) for T in range(1, 5)
        for target in [[], [1], [1, 1], [1, 2], Target([0, 2], blank=1), [1, 2, 1], [2] * 4, [1] * 5]
        for U in [len(target)]))


@pytest.mark.equation("eq-k2-posteriors", patterns={
    r"\frac{\partial \log Z}{\partial \log y(t, u)}": "slopes[t, u, labels[u]]",
    r"\frac{\partial \log Z}{\partial \log \varnothing(t, u)}": "slopes[t, u, blank]"})
def test_posteriors():
    """Dual numbers through the recursion against the shares of the enumerated paths that use each arc."""
    def lhs(slopes, e_label, e_blank, labels, blank, t, u):
        return slopes[t, u, labels[u]], slopes[t, u, blank]

    def rhs(slopes, e_label, e_blank, labels, blank, t, u):
        return e_label[t, u], e_blank[t, u]

    def cases():
        for kind in ("regular", "modified"):
            for y, labels, delta in inputs_with_paths(kind):
                slopes = slopes_of_recursion(y, labels, delta)
                e_label, e_blank = posteriors(expected_uses(y, PATHS[kind](y, labels)), labels)
                for t, u in np.ndindex(e_blank.shape):
                    yield (zero_outside(slopes), zero_outside(e_label), zero_outside(e_blank), next_labels(labels),
                           blank_of(labels), t, u)

    check_equation("eq-k2-posteriors", lhs, rhs, cases())


def inputs_with_paths(kind):
    """What there is for a type where it has a path: y, labels, and the frames of a label."""
    for y, labels in INPUTS:
        if kind == "regular" or len(labels) <= len(y):
            yield y, labels, int(kind != "regular")


@pytest.mark.equation("eq-k2-blank-count")
def test_blank_count():
    """The recursion's slopes in the blanks, added up, against the number of steps that are no label."""
    def lhs(e_blank, delta, T, U):
        return T - delta * U

    def rhs(e_blank, delta, T, U):
        return sum(sum(e_blank[t, u] for u in range(0, U + 1)) for t in range(0, T))

    check_equation("eq-k2-blank-count", lhs, rhs, (
        (zero_outside(slopes_of_recursion(y, labels, delta)[..., blank_of(labels)], zero=5), delta, len(y), len(labels))
        for kind in ("regular", "modified") for y, labels, delta in inputs_with_paths(kind)))


@pytest.mark.equation("eq-k2-one-arc")
def test_one_arc():
    """The recursion's slopes of a frame of the modified type, added up."""
    def rhs(e_label, e_blank, t, U):
        return sum(e_blank[t, u] + e_label[t, u] for u in range(0, U + 1))

    check_equation("eq-k2-one-arc", lambda *_: 1, rhs, (
        (zero_outside(e_label, zero=5), zero_outside(e_blank, zero=5), t, len(labels))
        for y, labels, delta in inputs_with_paths("modified")
        for e_label, e_blank in [posteriors(slopes_of_recursion(y, labels, delta), labels)]
        for t in range(len(y))), left_out=NO_PATH | {"regular": "a frame of RNN-T has a blank, and labels besides"})


def test_frames_without_one_arc():
    """In RNN-T a frame's sum is 1 plus its labels; without a path the gradient is 0."""
    for y, labels, delta in inputs_with_paths("regular"):
        e_label, e_blank = posteriors(slopes_of_recursion(y, labels, delta), labels)
        assert (e_blank.sum(axis=1) == 1).all() and e_label.sum() == len(labels)
    halves = [torch.full((1, 1, rows), 0.5).log().requires_grad_() for rows in (3, 2)]
    loss, *of_arcs = losses_and_posteriors(*halves, torch.tensor([1]), torch.tensor([2]), label_frames=1)
    assert loss == torch.inf and not any(each.any() for each in of_arcs)


@pytest.mark.equation("eq-k2-constrained-blank")
def test_constrained_blank():
    """Expected use of a blank by the enumerated constrained paths against the slopes of the recursion in the blank arc
    and in the folded label arc below it."""
    def lhs(occupancy, e_label, e_blank, blank, t, u):
        return occupancy[t, u, blank]

    def rhs(occupancy, e_label, e_blank, blank, t, u):
        return e_blank[t, u] + e_label[t, u - 1]

    check_equation("eq-k2-constrained-blank", lhs, rhs, (
        (expected_uses(y, constrained_paths(y, labels)), zero_outside(e_label), zero_outside(e_blank), blank_of(labels),
         t, u) for y, labels, delta in inputs_with_paths("constrained")
        for e_label, e_blank in [posteriors(slopes_of_recursion(folded(y, labels), labels, delta), labels)]
        for t, u in np.ndindex(e_blank.shape)), left_out=NO_PATH | {"regular": "a folded arc goes on one frame"})


# --- the additive joiner ---

# frames, labels, symbols
SHAPES = [(3, [1], 2), (1, [1, 2, 1], 3), (2, [1, 1, 1], 2), (2, [], 2), (2, Target([3, 0], blank=2), 4)]


@computed(kind="30 digits")
def log_sum_exp(scores):
    with mpmath.workdps(30):
        return float(mpmath.log(sum(mpmath.exp(score) for score in scores)))


@pytest.mark.equation("eq-k2-normaliser")
def test_normaliser():
    """Log-sum-exp of each sum of scores against the logarithm of a matrix product, for any shifts."""
    def rhs(value, f, g, m, n, t, u, V):
        return m[t] + n[u] + log(sum(exp(f[t, k] - m[t]) * exp(g[u, k] - n[u]) for k in range(0, V)))

    def cases():
        rng = np.random.default_rng(0)
        for T, labels, V in SHAPES:
            f, g = rng.normal(size=(T, V)), rng.normal(size=(len(labels) + 1, V))
            for m, n in [(rng.normal(size=len(f)), rng.normal(size=len(g))), (f.max(1), g.max(1))]:
                for t, u in np.ndindex(len(f), len(g)):
                    yield log_sum_exp(f[t] + g[u]), zero_outside(f), zero_outside(g), m, n, t, u, V

    check_equation("eq-k2-normaliser", first, rhs, cases(), tolerance=1e-13)


def additive(of_predictor):
    """sympy: slopes of -log Z in the scores of one side, through the softmax of every sum; what the formulas use."""
    for seed, (T, labels, V) in enumerate(SHAPES):
        exps = probabilities(seed, (T + len(labels) + 1, V))  # those of the frames, then those of the rows

        def products(exps, T=T):
            return exps[:T, None] * exps[None, T:]

        def z_of(exps, labels=labels, products=products):
            return rnnt_z(softmax(products(exps)), labels)

        y, X = softmax(products(exps)), products(exps).sum(axis=-1)
        arrays = exps[:T], exps[T:], rnnt_occupancy_of_nodes(y, labels), rnnt_gamma(y, labels), X
        for row, k in np.ndindex(exps[T:].shape if of_predictor else exps[:T].shape):
            index = row + T * of_predictor, k
            slope = -exps[index] * slope_at(z_of, exps, *index) / z_of(exps)
            yield slope, *(zero_outside(array, Fraction(5)) for array in arrays), row, k, T, len(labels)


@pytest.mark.equation("eq-k2-grad-encodings", patterns={r"\frac{\partial L}{\partial f_t(k)}": "slope"})
def test_grad_encodings():
    """sympy through the softmax of every sum against the matrix product, for the scores of a frame."""
    def rhs(slope, exp_f, exp_g, occupancy, gamma, X, t, k, T, U):
        return (exp_f[t, k] * sum(gamma[t, u] / X[t, u] * exp_g[u, k] for u in range(0, U + 1))
                - sum(occupancy[t, u, k] for u in range(0, U + 1)))

    check_equation("eq-k2-grad-encodings", first, rhs, additive(of_predictor=False))


@pytest.mark.equation("eq-k2-grad-predictions", patterns={r"\frac{\partial L}{\partial g_u(k)}": "slope"})
def test_grad_predictions():
    """The same for the scores of a row."""
    def rhs(slope, exp_f, exp_g, occupancy, gamma, X, u, k, T, U):
        return (exp_g[u, k] * sum(gamma[t, u] / X[t, u] * exp_f[t, k] for t in range(0, T))
                - sum(occupancy[t, u, k] for t in range(0, T)))

    check_equation("eq-k2-grad-predictions", first, rhs, additive(of_predictor=True))


# --- the smoothed loss ---

# utterances, frames and labels of the first one, rows of each, symbols; scales of the predictor and of the encoder
BATCHES = [(2, 3, [1, 2], 3, 3, 0.3, 0.2), (1, 4, [1], 2, 2, 0.0, 0.4), (2, 1, [1, 1, 1], 4, 2, 0.6, 0.0),
           (1, 2, [], 1, 3, 0.25, 0.75), (3, 2, Target([3, 0], blank=2), 4, 4, 0.7, 0.6)]


def batches():
    """Scores of a batch, as arrays; the labels of its first utterance; the scales."""
    rng = np.random.default_rng(7)
    for B, T, labels, rows, V, of_g, of_f in BATCHES:
        yield rng.normal(size=(B, T, V)), rng.normal(size=(B, rows, V)), labels, of_g, of_f


def models(f, g):
    """By their definitions: y of the first utterance, the predictor alone, its encoder alone, the unigram."""
    alone = softmax(np.exp(g))
    unigram = alone.mean(axis=(0, 1))
    return softmax(np.exp(f[0][:, None] + g[0])), alone, softmax(unigram * np.exp(f[0])), unigram


def mixed(y, alone, encoder, of_g, of_f):
    """The smoothed scores, not logarithms, of each node of the first utterance."""
    return y ** (1 - of_g - of_f) * alone ** of_g * encoder[:, None] ** of_f


@computed(kind="30 digits")
def normalised_mixture(y, alone, encoder, of_g, of_f):
    """M and rho of each node."""
    with mpmath.workdps(30):
        s = mixed(*map(np.vectorize(mpmath.mpf, otypes=[object]), (y, alone, encoder)), of_g, of_f)
        M = s.sum(axis=-1)
        return M.astype(float), (s / M[..., None]).astype(float)


@pytest.mark.equation("eq-k2-smoothed-deficit", patterns={
    "M": "M[t, u]", r"\rho(#k)": "rho[t, u, #k]", "y(#k)": "y[t, u, #k]", "q(#k)": "alone[u, #k]",
    "c(#k)": "encoder[t, #k]"})
def test_smoothed_deficit():
    """-log of what a node's scores add up to, from 30 digits, against the divergences from the normalised mixture."""
    def lhs(M, rho, y, alone, encoder, of_g, of_f, t, u, V):
        return -log(M[t, u])

    def rhs(M, rho, y, alone, encoder, of_g, of_f, t, u, V):
        return sum(rho[t, u, k] * (
            (1 - of_g - of_f) * log(rho[t, u, k] / y[t, u, k]) + of_g * log(rho[t, u, k] / alone[u, k])
            + of_f * log(rho[t, u, k] / encoder[t, k])) for k in range(0, V))

    sums = []

    def cases():
        for f, g, _, of_g, of_f in [*batches(), (np.zeros((1, 1, 3)), np.zeros((1, 2, 3)), [1], 0.3, 0.2)]:
            y, alone, encoder, _ = models(f, g)
            M, rho = normalised_mixture(y, alone[0], encoder, of_g, of_f)
            sums.append((M, of_g + of_f, (f == 0).all()))
            arrays = [zero_outside(each, outside) for each, outside in zip(
                (rho, y, alone[0], encoder), (0.5, 0.3, 0.2, 0.1), strict=True)]
            for t, u in np.ndindex(M.shape):
                yield M, *arrays, of_g, of_f, t, u, y.shape[-1]

    check_equation("eq-k2-smoothed-deficit", lhs, rhs, cases(), tolerance=1e-13)
    for M, shares, all_agree in sums:  # a negative weight lets the sum rise above 1
        assert (M == 1).all() if all_agree else (M > 1).any() if shares > 1 else (M < 1).all()


@computed(kind="autograd")
def smoothed_slopes(encodings, predictions, labels, of_g, of_f):
    """Slopes of the first utterance's smoothed loss in the scores of all: autograd through the sum over its paths."""
    f, g = (torch.tensor(scores, requires_grad=True) for scores in (encodings, predictions))
    joint = torch.log_softmax(f[:, :, None] + g[:, None], -1)
    alone = torch.log_softmax(g, -1)
    encoder = torch.log_softmax(f + alone.exp().mean((0, 1)).log(), -1)
    scores = ((1 - of_g - of_f) * joint + of_g * alone[:, None] + of_f * encoder[:, :, None])[0]
    paths = rnnt_paths(np.zeros((scores.shape[0], len(labels) + 1, scores.shape[2])), labels)
    loss = -torch.logsumexp(torch.stack([sum(scores[entry] for entry in path) for path in paths]), 0)
    return [slopes.numpy() for slopes in torch.autograd.grad(loss, (f, g), materialize_grads=True)]


def smoothed():
    """Slopes in f and g, and what the formulas use; gamma and E are 0 in rows that are not the first utterance's."""
    for f, g, labels, of_g, of_f in batches():
        y, alone, encoder, unigram = models(f, g)
        s = mixed(y, alone[0], encoder, of_g, of_f)[:, :len(labels) + 1]
        gamma, E = np.zeros(y.shape[:2]), np.zeros(y.shape)
        gamma[:, :s.shape[1]], E[:, :s.shape[1]] = rnnt_gamma(s, labels), rnnt_occupancy_of_nodes(s, labels)
        yield smoothed_slopes(f, g, labels, of_g, of_f), gamma, y, alone, encoder, E, unigram, of_g, of_f


@pytest.mark.equation("eq-k2-smoothed-encoder", patterns={r"\frac{\partial L}{\partial f_t(k)}": "slope"})
def test_smoothed_encoder():
    """Autograd through the sum over paths against beliefs and evidence, for the scores of a frame."""
    def rhs(slope, gamma, y, encoder, occupancy, of_g, of_f, t, k, U):
        return sum(gamma[t, u] * ((1 - of_g - of_f) * y[t, u, k] + of_f * encoder[t, k])
                   - (1 - of_g) * occupancy[t, u, k] for u in range(0, U + 1))

    check_equation("eq-k2-smoothed-encoder", first, rhs, (
        (to_f[0, t, k], *(zero_outside(each, 0.5) for each in (gamma, y, encoder, E)), of_g, of_f, t, k,
         gamma.shape[1] - 1)
        for (to_f, _), gamma, y, _, encoder, E, _, of_g, of_f in smoothed() for t, k in np.ndindex(encoder.shape)),
        tolerance=1e-13)


@pytest.mark.equation("eq-k2-smoothed-predictor", patterns={r"\frac{\partial L}{\partial g_u(k)}": "slope"})
def test_smoothed_predictor():
    """The same for the scores of any row of the batch, with the pull of the unigram."""
    def rhs(slope, gamma, y, alone, occupancy, pull, unigram, of_g, of_f, N, T, V, u, k):
        return (sum(gamma[t, u] * ((1 - of_g - of_f) * y[t, u, k] + of_g * alone[u, k])
                    - (1 - of_f) * occupancy[t, u, k] for t in range(0, T))
                + alone[u, k] / N * (pull[k] / unigram[k] - sum(alone[u, j] * (pull[j] / unigram[j])
                                                                for j in range(0, V))))

    def cases():
        for (_, to_g), gamma, y, alone, encoder, E, unigram, of_g, of_f in smoothed():
            pull = of_f * (gamma[..., None] * encoder[:, None] - E).sum(axis=(0, 1))
            for b, u, k in np.ndindex(to_g.shape):
                own = b == 0  # nothing of the other utterances' rows is in the lattice
                arrays = gamma * own, y, alone[b], E * own, pull, unigram
                yield (to_g[b, u, k], *(zero_outside(each, 0.5) for each in arrays), of_g, of_f,
                       alone[..., 0].size, *y.shape[::2], u, k)

    check_equation("eq-k2-smoothed-predictor", first, rhs, cases(), tolerance=1e-13)


# --- the delay penalty ---

DELAY = {r"w_d(\pi)": "w_d", r"w(\pi)": "w", r"e^{d\, #a / 2}": "root ** (#a)", r"e^{-d\, #a}": "root ** (-2 * #a)"}
OF_PATHS = {r"\Pr(\pi)": "p[i]", r"\Pr(\pi')": "p[j]", r"A(\pi)": "A[i]", r"A(\pi')": "A[j]"}
ROOTS = [Fraction(3, 2), Fraction(1), Fraction(2, 3)]  # e^(d/2), so that all weights are fractions


def penalised(y, labels, root):
    """Every label's weight times e^(d ((T - 1) / 2 - t))."""
    weights, of_labels = y.copy(), np.arange(y.shape[-1]) != blank_of(labels)
    for t in range(len(y)):
        weights[t][:, of_labels] *= root ** (len(y) - 1 - 2 * t)
    return weights


def delayed():
    """For each type, input and penalty: y, labels and type, y with the penalty, its root; and of the paths the weights
    without and with it, and the sums of their labels' frames."""
    for kind in KINDS:
        for y, labels, _ in inputs_with_paths(kind):
            for root in ROOTS:
                y_d, paths = penalised(y, labels, root), PATHS[kind](y, labels)
                w, w_d = (np.array([rnnt_mass(each, path) for path in paths]) for each in (y, y_d))
                A = np.array([sum(t for t, _, k in path if k != blank_of(labels)) for path in paths], dtype=object)
                yield y, labels, kind, y_d, root, w, w_d, A


EACH_PATH = "a path by itself: which paths there are does not matter"


@pytest.mark.equation("eq-delay-weight", patterns=DELAY | {r"A(\pi)": "A"})
def test_delay_weight():
    """The product of a path's penalised scores against its weight and two factors."""
    def rhs(w_d, w, root, A, T, U):
        return w * root ** (U * (T - 1)) * root ** (-2 * A)

    check_equation("eq-delay-weight", first, rhs, (
        (w_d[i], w[i], root, A[i], len(y), len(labels))
        for y, labels, _, _, root, w, w_d, A in delayed() for i in range(len(w))),
        algebraic={paths.__name__: EACH_PATH for paths in PATHS.values()})


@pytest.mark.equation("eq-delay-tilt", patterns=DELAY | OF_PATHS | {r"\Pr\nolimits_d(\pi)": "share"},
                      over={r"\pi'": "for j in range(0, paths)"})
def test_delay_tilt():
    """A path's share of the recursion's Z with the penalty against its share without, tilted and normalised."""
    def rhs(share, i, p, A, root, paths):
        return p[i] * root ** (-2 * A[i]) / sum(p[j] * root ** (-2 * A[j]) for j in range(0, paths))

    check_equation("eq-delay-tilt", first, rhs, (
        (share, i, zero_outside(p, Fraction(1, 3)), zero_outside(A, 1), root, len(w))
        for y, labels, kind, y_d, root, w, w_d, A in delayed() for p in [w / k2_z(y, labels, kind)]
        for i, share in enumerate(w_d / k2_z(y_d, labels, kind))))


@pytest.mark.equation("eq-delay-loss", patterns=OF_PATHS | {"L_d": "loss_d", "L": "loss"},
                      over={r"\pi": "for i in range(0, paths)"})
def test_delay_loss():
    """-log of the recursion's Z with the penalty against the loss without, a constant, and a mean over the paths."""
    def rhs(loss_d, loss, d, T, U, p, A, paths):
        return loss - d * U * (T - 1) / 2 - log(sum(p[i] * exp(-d * A[i]) for i in range(0, paths)))

    check_equation("eq-delay-loss", first, rhs, (
        (-log(k2_z(y_d, labels, kind)), -log(z), 2 * log(root), len(y), len(labels),
         zero_outside((w / z).astype(float), 0.3), zero_outside(A, 1), len(w))
        for y, labels, kind, y_d, root, w, _, A in delayed() for z in [k2_z(y, labels, kind)]), tolerance=1e-13)


@computed(kind="sympy")
def change_of_mean(y, labels, kind, root):
    """The derivative of the mean of A with respect to d: Z of the recursion as a polynomial in x = e^(-d), which counts
    frames, and x dZ/dx / Z as the mean."""
    x, counting = field("x", QQ)[1], y.copy()
    for t, u, k in np.ndindex(y.shape):
        frames = t if k != blank_of(labels) else 0
        counting[t, u, k] = QQ(y[t, u, k].numerator, y[t, u, k].denominator) * x ** frames
    weights, delta = weights_and_frames(counting, labels, kind)
    z = _recursion(weights, labels, delta)[-1, -1]
    change, at = -x * (x * z.diff(x) / z).diff(x), QQ(root.denominator ** 2, root.numerator ** 2)
    found = change.numer.evaluate(0, at) / change.denom.evaluate(0, at)
    return Fraction(int(found.numerator), int(found.denominator))


@pytest.mark.equation("eq-delay-variance", patterns=OF_PATHS | {
    r"\frac{\partial\, \mathbb E_d[\, A \,]}{\partial d}": "change", r"\Pr\nolimits_d(\pi)": "p_d[i]"},
    over={r"\pi": "for i in range(0, paths)"})
def test_delay_variance():
    """sympy through the recursion, for the mean of A, against minus the variance of A among the penalised paths."""
    def rhs(change, p_d, A, paths):
        return -(sum(p_d[i] * A[i] ** 2 for i in range(0, paths))
                 - sum(p_d[i] * A[i] for i in range(0, paths)) ** 2)

    changes = []

    def cases():
        for y, labels, kind, y_d, root, _, w_d, A in delayed():
            changes.append(change_of_mean(y, labels, kind, root))
            p_d = zero_outside(w_d / k2_z(y_d, labels, kind), Fraction(1, 3))
            yield changes[-1], p_d, zero_outside(A, 1), len(A)

    check_equation("eq-delay-variance", first, rhs, cases())
    assert max(changes) == 0 > min(changes)

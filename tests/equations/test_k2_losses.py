"""Checks of the equations of the chapter on k2's losses. Masses and posteriors come from enumerated walks and paths."""

from fractions import Fraction
from itertools import combinations
from math import comb, exp, log, prod

import numpy as np
import pytest
import torch
from brute_force import BLANK, expected_uses, probabilities, rnnt_mass, rnnt_paths

from reference_impl.duals import Dual
from reference_impl.equations import check_equation, zero_outside

V = 3
SHAPES = [(3, [1, 2]), (4, [2, 2]), (3, [1]), (2, [1, 2]), (1, [2]), (3, []), (4, [1, 2, 1])]
INPUTS = [(probabilities(seed, (T, len(labels) + 1, V)), labels) for seed, (T, labels) in enumerate(SHAPES)]
FIVE = Fraction(5)  # what reads as 5 outside its range is noticed when it is read there


def first(value, *_):
    return value


def modified_paths(y, labels):
    """One symbol a frame: the frames of the labels are chosen."""
    T, paths = len(y), []
    for written in combinations(range(T), len(labels)):
        entries, u = [], 0
        for t in range(T):
            entries.append((t, u, labels[u] if t in written else BLANK))
            u += t in written
        paths.append(entries)
    return paths


def constrained_paths(y, labels):
    """The RNN-T paths on which no frame has two labels."""
    def crowded(entries):
        frames = [t for t, _, k in entries if k != BLANK]
        return len(set(frames)) < len(frames)

    return [entries for entries in rnnt_paths(y, labels) if not crowded(entries)]


PATHS = {"regular": rnnt_paths, "modified": modified_paths, "constrained": constrained_paths}


def arrays(y, labels):
    """Weights of the label arcs (T, U) and of the blank arcs (T, U+1)."""
    return y[:, range(len(labels)), labels], y[:, :, BLANK]


def walks(y, labels, delta, t, u):
    """Mass of all walks from (0, 0) to (t, u), step by step: a walk is cut where it leaves the grid."""
    label, blank = arrays(y, labels)

    def go(at_t, at_u, mass):
        if (at_t, at_u) == (t, u):
            yield mass
        if at_t < len(y):
            yield from go(at_t + 1, at_u, mass * blank[at_t, at_u])
            if at_u < len(labels):
                yield from go(at_t + delta, at_u + 1, mass * label[at_t, at_u])

    return sum(go(0, 0, Fraction(1)), Fraction(0))


def extended_alpha(y, labels, delta):
    """On T + 1 columns."""
    return np.array([[walks(y, labels, delta, t, u) for u in range(len(labels) + 1)] for t in range(len(y) + 1)],
                    dtype=object)


@pytest.mark.equation("eq-k2-recursion")
def test_recursion():
    """Mass of all walks to a node against one step of the recursion, for both kinds of labels."""
    def lhs(alpha, label, blank, delta, t, u):
        return alpha[t, u]

    def rhs(alpha, label, blank, delta, t, u):
        return (alpha[t - delta, u - 1] * label[t - delta, u - 1]
                + alpha[t - 1, u] * blank[t - 1, u])

    cases = []
    for y, labels in INPUTS:
        for delta in (0, 1):
            alpha = zero_outside(extended_alpha(y, labels, delta))
            cases += [(alpha, *map(zero_outside, arrays(y, labels)), delta, t, u)
                      for t, u in np.ndindex(len(y) + 1, len(labels) + 1) if t + u > 0]
    check_equation("eq-k2-recursion", lhs, rhs, cases)


@pytest.mark.equation("eq-k2-total")
def test_total():
    """The sum over the enumerated paths against the last alpha."""
    def rhs(z, alpha, T, U):
        return alpha[T, U]

    cases = [(sum((rnnt_mass(y, path) for path in PATHS[kind](y, labels)), Fraction(0)),
              zero_outside(extended_alpha(y, labels, delta)), len(y), len(labels))
             for y, labels in INPUTS for delta, kind in enumerate(("regular", "modified"))]
    check_equation("eq-k2-total", first, rhs, cases)


def constrained_beginnings(y, labels, t, u):
    """Mass of the first t frames of RNN-T walks with u labels in them, at most one in each."""
    label, blank = arrays(y, labels)
    total = Fraction(0)
    for written in combinations(range(t), u):
        rows = [sum(w < frame for w in written) for frame in range(t)]
        total += prod((label[frame, row] * blank[frame, row + 1] if frame in written else blank[frame, row]
                       for frame, row in enumerate(rows)), start=Fraction(1))
    return total


@pytest.mark.equation("eq-k2-constrained")
def test_constrained():
    """Mass of beginnings with at most one label a frame against the recursion with folded weights; its end is Z."""
    def lhs(alpha, label, blank, t, u):
        return alpha[t, u]

    def rhs(alpha, label, blank, t, u):
        return (alpha[t - 1, u - 1] * label[t - 1, u - 1] * blank[t - 1, u]
                + alpha[t - 1, u] * blank[t - 1, u])

    cases = []
    for y, labels in INPUTS:
        T, U = len(y), len(labels)
        alpha = np.array([[constrained_beginnings(y, labels, t, u) for u in range(U + 1)] for t in range(T + 1)],
                         dtype=object)
        assert alpha[T, U] == sum(rnnt_mass(y, path) for path in constrained_paths(y, labels))
        cases += [(zero_outside(alpha), *map(zero_outside, arrays(y, labels)), t, u)
                  for t, u in np.ndindex(T + 1, U + 1) if t > 0]
    check_equation("eq-k2-constrained", lhs, rhs, cases)


@pytest.mark.equation("eq-k2-path-count")
def test_path_count():
    """Enumerated paths of both types against the binomial; none where labels outnumber frames."""
    def rhs(count, T, U):
        return comb(T, U)

    cases = [(len(PATHS[kind](np.ones((T, U + 1, 2)), [1] * U)), T, U)
             for kind in ("modified", "constrained") for T in range(1, 5) for U in range(6)]
    check_equation("eq-k2-path-count", first, rhs, cases)


def slope(y, labels, paths, entry):
    """d log Z / d log y of one entry of the sum over paths, by a dual number."""
    moved = y.copy()
    moved[entry] = Dual(y[entry], y[entry])
    z = sum((rnnt_mass(moved, path) for path in paths), Dual(Fraction(0)))
    return z.tangent / z.value


@pytest.mark.equation("eq-k2-posteriors")
def test_posteriors():
    """Dual numbers through the sum over paths against the shares of the paths that use each arc."""
    def rhs(slopes, e_label, e_blank, t, u):
        return [e_label[t, u], e_blank[t, u]]

    cases = []
    for kind in ("regular", "modified"):
        for y, labels in INPUTS:
            paths = PATHS[kind](y, labels)
            uses = expected_uses(y, paths) if paths else None
            for t, u in np.ndindex(len(y), len(labels)) if paths else ():
                slopes = [slope(y, labels, paths, (t, u, k)) for k in (labels[u], BLANK)]
                e_label, e_blank = arrays(uses, labels)
                cases.append((slopes, zero_outside(e_label, FIVE), zero_outside(e_blank, FIVE), t, u))
    check_equation("eq-k2-posteriors", first, rhs, cases)


def by_type(kind):
    """y, labels and the arcs' posteriors, where there are paths."""
    for y, labels in INPUTS:
        paths = PATHS[kind](y, labels)
        if paths:
            yield y, labels, *arrays(expected_uses(y, paths), labels)


@pytest.mark.equation("eq-k2-blank-count")
def test_blank_count():
    """Enumerated posteriors of the blanks, added up."""
    def rhs(e_blank, delta, T, U):
        return sum(e_blank[t, u] for t in range(0, T) for u in range(0, U + 1))

    cases = [(zero_outside(e_blank, FIVE), delta, len(y), len(labels))
             for delta, kind in enumerate(("regular", "modified")) for y, labels, _, e_blank in by_type(kind)]
    check_equation("eq-k2-blank-count", lambda e_blank, delta, T, U: T - delta * U, rhs, cases)


@pytest.mark.equation("eq-k2-one-arc")
def test_one_arc():
    """Enumerated posteriors of a frame of the modified type, added up."""
    def rhs(e_label, e_blank, t, U):
        return sum(e_blank[t, u] + e_label[t, u] for u in range(0, U + 1))

    cases = []
    for y, labels, e_label, e_blank in by_type("modified"):
        top = np.concatenate([e_label, np.zeros((len(y), 1), dtype=int)], axis=1)  # no label is left there
        cases += [(zero_outside(top, FIVE), zero_outside(e_blank, FIVE), t, len(labels)) for t in range(len(y))]
    check_equation("eq-k2-one-arc", lambda *_: 1, rhs, cases)


@pytest.mark.equation("eq-k2-constrained-blank")
def test_constrained_blank():
    """Expected use of a blank by the constrained paths against the posteriors of two folded arcs."""
    def rhs(occupancy, e_label, e_blank, t, u):
        return e_blank[t, u] + e_label[t, u - 1]

    cases = []
    for y, labels in INPUTS:
        paths = constrained_paths(y, labels)
        if not paths:
            continue
        folded = y.copy()
        for u, label in enumerate(labels):
            folded[:, u, label] = y[:, u, label] * y[:, u + 1, BLANK]
        e_label, e_blank = arrays(expected_uses(folded, modified_paths(y, labels)), labels)
        uses = expected_uses(y, paths)
        cases += [(uses[t, u, BLANK], zero_outside(e_label), zero_outside(e_blank), t, u)
                  for t, u in np.ndindex(y.shape[:2])]
    check_equation("eq-k2-constrained-blank", first, rhs, cases)


# --- the additive joiner ---


def joined(F, G):
    """Softmax of sums of logits, from the exponentials of the summands."""
    products = F[:, None] * G[None]
    y = products.copy()
    for node in np.ndindex(products.shape[:2]):
        y[node] = products[node] / sum(products[node][1:], products[node][0])
    return y


@pytest.mark.equation("eq-k2-normaliser")
def test_normaliser():
    """Log-sum-exp of each sum of scores against the logarithm of a matrix product, for shifts drawn at random."""
    def rhs(value, f, g, m, n, t, u):
        return m[t] + n[u] + log(sum(exp(f[t, k] - m[t]) * exp(g[u, k] - n[u]) for k in range(0, 4)))

    rng = np.random.default_rng(0)
    f, g, m, n = (rng.normal(size=size) for size in ((3, 4), (2, 4), 3, 2))
    cases = [(np.logaddexp.reduce(f[t] + g[u]), zero_outside(f), zero_outside(g), m, n, t, u)
             for t, u in np.ndindex(3, 2)]
    check_equation("eq-k2-normaliser", first, rhs, cases, tolerance=1e-13)


def additive(side):
    """Exact slopes of -log Z in the scores of one side, by dual numbers through the softmax of every sum."""
    for seed, (T, labels) in enumerate([(2, [1]), (3, [2, 1]), (2, [])]):
        F, G = probabilities(seed, (T, V)), probabilities(seed + 50, (len(labels) + 1, V))
        y = joined(F, G)
        paths = rnnt_paths(y, labels)
        E, moved = expected_uses(y, paths), (F, G)[side]
        S = np.array([[sum(F[t] * G[u]) for u in range(len(G))] for t in range(T)], dtype=object)
        for i, k in np.ndindex(moved.shape):
            old = moved[i, k]
            moved[i, k] = Dual(old, old)
            z = sum((rnnt_mass(joined(F, G), path) for path in paths), Dual(Fraction(0)))
            moved[i, k] = old
            yield (-z.tangent / z.value, zero_outside(F, FIVE), zero_outside(G, FIVE), zero_outside(E, FIVE),
                   zero_outside(E.sum(axis=2), FIVE), zero_outside(S, FIVE), i, k, T, len(labels))


@pytest.mark.equation("eq-k2-grad-encodings")
def test_grad_encodings():
    """Dual numbers through the softmax of every sum against the matrix product, for the scores of a frame."""
    def rhs(slope, exp_f, exp_g, E, gamma, S, t, k, T, U):
        return (exp_f[t, k] * sum(gamma[t, u] / S[t, u] * exp_g[u, k] for u in range(0, U + 1))
                - sum(E[t, u, k] for u in range(0, U + 1)))

    check_equation("eq-k2-grad-encodings", first, rhs, additive(0))


@pytest.mark.equation("eq-k2-grad-predictions")
def test_grad_predictions():
    """The same for the scores of a row."""
    def rhs(slope, exp_f, exp_g, E, gamma, S, u, k, T, U):
        return (exp_g[u, k] * sum(gamma[t, u] / S[t, u] * exp_f[t, k] for t in range(0, T))
                - sum(E[t, u, k] for t in range(0, T)))

    check_equation("eq-k2-grad-predictions", first, rhs, additive(1))


# --- the smoothed loss ---


def models(f, g):
    """Joint log-probs, those of the predictor alone, of the encoder alone, and the unigram, by their definitions."""
    joint = torch.log_softmax(f[:, :, None] + g[:, None], -1)
    alone = torch.log_softmax(g, -1)
    unigram = alone.exp().mean((0, 1))
    encoder = unigram * f.exp()
    return joint, alone, (encoder / encoder.sum(-1, keepdim=True)).log(), unigram


def smoothed(f, g, of_g, of_f):
    joint, alone, encoder, _ = models(f, g)
    return (1 - of_g - of_f) * joint + of_g * alone[:, None] + of_f * encoder[:, :, None]


SCALES = 0.3, 0.2


def scores(B=2, T=3, U=2):
    rng = np.random.default_rng(7)
    return [torch.tensor(rng.normal(size=(B, n, V)), requires_grad=True) for n in (T, U + 1)]


@pytest.mark.equation("eq-k2-smoothed-deficit")
def test_smoothed_deficit():
    """-log of what a node's scores add up to against the divergences from the normalised mixture."""
    def rhs(missing, r, y, alone, encoder, of_g, of_f):
        return sum(r[k] * ((1 - of_g - of_f) * log(r[k] / y[k]) + of_g * log(r[k] / alone[k])
                           + of_f * log(r[k] / encoder[k])) for k in range(0, 3))

    f, g = (x.detach() for x in scores())
    joint, alone, encoder, _ = models(f, g)
    mixture = smoothed(f, g, *SCALES)
    total = torch.logsumexp(mixture, -1)
    cases = []
    for t, u in np.ndindex(3, 3):
        r = (mixture[0, t, u] - total[0, t, u]).exp()
        distributions = r, joint[0, t, u].exp(), alone[0, u].exp(), encoder[0, t].exp()
        cases.append((-total[0, t, u].item(), *(zero_outside(x.numpy(), outside) for x, outside in zip(
            distributions, (0.5, 0.3, 0.2, 0.1), strict=True)), *SCALES))
    check_equation("eq-k2-smoothed-deficit", first, rhs, cases, tolerance=1e-13)


def smoothed_slopes():
    """Gradients of utterance 0 by autograd through the sum over its paths, and all that the formulas use."""
    T, labels = 3, [1, 2]
    f, g = scores()
    mixture = smoothed(f, g, *SCALES)[0]
    paths = rnnt_paths(np.zeros((T, len(labels) + 1, V)), labels)
    masses = torch.stack([sum(mixture[entry] for entry in path) for path in paths])
    to_f, to_g = (x.numpy() for x in torch.autograd.grad(-torch.logsumexp(masses, 0), (f, g)))
    E, shares = np.zeros(mixture.shape), torch.softmax(masses, 0).detach().numpy()
    for path, share in zip(paths, shares, strict=True):
        for entry in path:
            E[entry] += share
    joint, alone, encoder, unigram = (x.detach() for x in models(f, g))
    return {"to_f": to_f, "to_g": to_g, "E": E, "gamma": E.sum(-1), "y": joint[0].exp().numpy(),
            "alone": alone.exp().numpy(), "c": encoder[0].exp().numpy(), "unigram": unigram.numpy()}


@pytest.mark.equation("eq-k2-smoothed-encoder")
def test_smoothed_encoder():
    """Autograd through the sum over paths against beliefs and evidence, for the scores of a frame."""
    def rhs(slope, gamma, y, c, E, of_g, of_f, t, k, U):
        return sum(gamma[t, u] * ((1 - of_g - of_f) * y[t, u, k] + of_f * c[t, k])
                   - (1 - of_g) * E[t, u, k] for u in range(0, U + 1))

    v = smoothed_slopes()
    cases = [(v["to_f"][0, t, k], *(zero_outside(v[name], 0.5) for name in ("gamma", "y", "c", "E")), *SCALES, t, k, 2)
             for t, k in np.ndindex(3, V)]
    check_equation("eq-k2-smoothed-encoder", first, rhs, cases, tolerance=1e-13)


@pytest.mark.equation("eq-k2-smoothed-predictor")
def test_smoothed_predictor():
    """The same for the scores of a row of either utterance, with the pull of the unigram."""
    def rhs(slope, gamma, y, alone, E, pull, unigram, of_g, of_f, N, T, u, k):
        return (sum(gamma[t, u] * ((1 - of_g - of_f) * y[t, u, k] + of_g * alone[u, k])
                    - (1 - of_f) * E[t, u, k] for t in range(0, T))
                + alone[u, k] / N * (pull[k] / unigram[k]
                                     - sum(alone[u, j] * pull[j] / unigram[j] for j in range(0, 3))))

    v = smoothed_slopes()
    pull = SCALES[1] * (v["gamma"][..., None] * v["c"][:, None] - v["E"]).sum((0, 1))
    N, cases = v["alone"][..., 0].size, []
    for b in range(2):  # nothing of the other utterance's rows is in the lattice
        own = {name: v[name] * (b == 0) for name in ("gamma", "y", "E")}
        for u, k in np.ndindex(3, V):
            cases.append((v["to_g"][b, u, k], zero_outside(own["gamma"], 0.5), zero_outside(own["y"], 0.5),
                          zero_outside(v["alone"][b], 0.5), zero_outside(own["E"], 0.5), zero_outside(pull, 0.5),
                          zero_outside(v["unigram"], 0.5), *SCALES, N, 3, u, k))
    check_equation("eq-k2-smoothed-predictor", first, rhs, cases, tolerance=1e-13)


# --- the delay penalty ---


def delayed():
    """For each kind, input and path: weight, weight with the penalty, S, and D = e^(d/2) of them; with T and U."""
    D = Fraction(3, 2)
    for kind, paths_of in PATHS.items():
        for y, labels in INPUTS:
            T, paths = len(y), paths_of(y, labels)
            if kind == "constrained" and len(labels) > 2:
                continue
            penalised = y.copy()
            for t in range(T):
                penalised[t, :, 1:] = y[t, :, 1:] * D ** (T - 1 - 2 * t)
            rows = [(rnnt_mass(y, path), rnnt_mass(penalised, path), sum(t for t, _, k in path if k != BLANK))
                    for path in paths]
            if rows:
                yield rows, D, T, len(labels)


def columns(rows):
    """The same by columns, as arrays of Python numbers."""
    return (np.array(column, dtype=object) for column in zip(*rows, strict=True))


@pytest.mark.equation("eq-delay-weight")
def test_delay_weight():
    """The product of a path's penalised scores against its weight and two factors; D = e^(d/2)."""
    def rhs(w_d, w, D, S, T, U):
        return w * D**(U * (T - 1)) * D**(-2 * S)

    cases = [(w_d, w, D, S, T, U) for rows, D, T, U in delayed() for w, w_d, S in rows]
    check_equation("eq-delay-weight", first, rhs, cases)


@pytest.mark.equation("eq-delay-tilt")
def test_delay_tilt():
    """The posterior among penalised paths against the old one, tilted and normalised."""
    def rhs(share, i, p, S, D, paths):
        return p[i] * D**(-2 * S[i]) / sum(p[j] * D**(-2 * S[j]) for j in range(0, paths))

    cases = []
    for rows, D, _, _ in delayed():
        w, w_d, S = columns(rows)
        p = zero_outside(np.array([x / sum(w) for x in w], dtype=object), Fraction(1, 3))
        cases += [(w_d[i] / sum(w_d), i, p, zero_outside(S, 1), D, len(rows)) for i in range(len(rows))]
    check_equation("eq-delay-tilt", first, rhs, cases)


@pytest.mark.equation("eq-delay-loss")
def test_delay_loss():
    """-log of the penalised sum against the loss, a constant, and a mean over the old posterior."""
    def rhs(loss_d, loss, d, T, U, p, S, paths):
        return loss - d * U * (T - 1) / 2 - log(sum(p[i] * exp(-d * S[i]) for i in range(0, paths)))

    cases = []
    for rows, D, T, U in delayed():
        w, w_d, S = columns(rows)
        p = zero_outside(np.array([float(x / sum(w)) for x in w]), 0.3)
        cases.append((-log(sum(w_d)), -log(sum(w)), 2 * log(D), T, U, p, zero_outside(S, 1), len(rows)))
    check_equation("eq-delay-loss", first, rhs, cases, tolerance=1e-13)


@pytest.mark.equation("eq-delay-variance")
def test_delay_variance():
    """Dual numbers through the mean of S among penalised paths against minus the variance of S."""
    def rhs(change, p_d, S, paths):
        return -(sum(p_d[i] * S[i]**2 for i in range(0, paths))
                 - sum(p_d[i] * S[i] for i in range(0, paths))**2)

    cases = []
    for rows, D, _, _ in delayed():
        w, w_d, S = columns(rows)
        x = Dual(D**2, D**2)  # e^d and its derivative with respect to d
        power = [prod([x] * s, start=Dual(Fraction(1))) for s in S]
        tilted = [value / each for value, each in zip(w, power, strict=True)]
        total = sum(tilted[1:], tilted[0])
        mean = sum((s * each for s, each in zip(S, tilted, strict=True)), Dual(Fraction(0))) / total
        p_d = zero_outside(np.array([value / sum(w_d) for value in w_d], dtype=object), Fraction(1, 3))
        cases.append((mean.tangent, p_d, zero_outside(S, 1), len(rows)))
    assert any(change < 0 for change, *_ in cases)
    check_equation("eq-delay-variance", first, rhs, cases)

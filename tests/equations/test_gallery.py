"""Checks of the equations of the gallery of losses. Sums over strings; derivatives by dual numbers through them, exact.

A logit moves with tangent 1, so x = e^logit with tangent x, and what follows is rational.
"""

from fractions import Fraction
from itertools import product
from math import exp, log, prod

import numpy as np
import pytest
import torch
from brute_force import BLANK, ctc_occupancy, ctc_strings, ctc_z, expected_uses, mass, probabilities
from enumeration import collapse
from variants import star_alignments, wildcard_alignments

from reference_impl.differences import random_integers
from reference_impl.duals import LOG_DUAL, Dual, LogDual, duals
from reference_impl.equations import check_equation, zero_outside
from reference_impl.lattice import arc_posteriors, best_path, enumerate_paths, forward, random_lattice
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, softmax
from reference_impl.topology import ctc_lattice, wildcard_ctc_lattice

V, HALF, FIVE = 3, Fraction(1, 2), Fraction(5)  # what reads as 5 outside its range is noticed when it is read there
TARGETS = [[1, 2], [1, 1], [2], []]


def first(value, *_):
    return value


def numbers_of(seed, T=3):
    """e^logit of a few frames."""
    return random_integers(np.random.default_rng(seed), (T, V), bits=6) * Fraction(1)


def moved(x, index):
    """The same as dual numbers, when one logit moves."""
    tangents = np.zeros_like(x)
    tangents[index] = x[index]
    return duals(x, tangents)


def slope(number):
    """How the logarithm of a dual number moves."""
    return number.tangent / number.value


def logits(T=3, seeds=4):
    """x = e^logit, its softmax, a target and one place in them: every place of every target."""
    for seed, targets in enumerate(TARGETS[:seeds]):
        x = numbers_of(seed, T)
        for t, k in np.ndindex(x.shape):
            yield x, softmax(x), targets, t, k


def shares_of(y, strings):
    masses = [mass(y, string) for string in strings]
    return [each / sum(masses) for each in masses]


def mean_of(shares, values):
    return sum(p * value for p, value in zip(shares, values, strict=True))


# --- what the sections share ---


def starred(y, weight=1):
    """Beside the probabilities those of the stars: column V + j is of all labels but j, in V + blank of all labels."""
    totals = [[weight * sum((row[i] for i in range(V) if i not in (BLANK, j)), row[0] * 0) for j in range(V)]
              for row in y]
    return np.concatenate([y, np.array(totals, dtype=object)], axis=1)


def star_occupancy(y, targets, weight):
    paths = star_alignments(targets, len(y), V, BLANK)
    return expected_uses(starred(y, weight), paths)


def star_z(y, targets, weight):
    scores = starred(y, weight)
    return sum(prod(scores[entry] for entry in path) for path in star_alignments(targets, len(y), V, BLANK))


@pytest.mark.equation("eq-gallery-chain")
def test_chain():
    """-log of the sum over alignments with stars, differentiated, against occupancies times slopes of the scores."""
    def rhs(gradient, E, slopes, entries):
        return -sum(E[i] * slopes[i] for i in entries)

    cases = []
    for x, y, targets, t, k in logits():
        scores = starred(softmax(moved(x, (t, k))), Fraction(2, 3))
        slopes = np.frompyfunc(slope, 1, 1)(scores)
        cases.append((-slope(star_z(softmax(moved(x, (t, k))), targets, Fraction(2, 3))),
                      star_occupancy(y, targets, Fraction(2, 3)), slopes, list(np.ndindex(scores.shape))))
    check_equation("eq-gallery-chain", first, rhs, cases)


def lattices_with_values():
    """A lattice, its weights, a value for each arc, its paths."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        lattice = random_lattice(rng, 5, 4)
        size = (len(lattice.arcs),)
        yield lattice, probabilities(seed, size), probabilities(10 + seed, size), list(enumerate_paths(lattice))


def mean_over(paths, w, r):
    masses = [prod(w[i] for i in path) for path in paths]
    return sum(m * sum(r[i] for i in path) for m, path in zip(masses, paths, strict=True)) / sum(masses)


@pytest.mark.equation("eq-gallery-mean")
def test_mean():
    """The mean over enumerated paths of a sum along them against posteriors of arcs times values."""
    def rhs(mean, P, r, A):
        return sum(P[a] * r[a] for a in range(0, A))

    check_equation("eq-gallery-mean", first, rhs, [
        (mean_over(paths, w, r), zero_outside(arc_posteriors(lattice, w, REAL), zero=FIVE), zero_outside(r, zero=FIVE),
         len(w)) for lattice, w, r, paths in lattices_with_values()])


@pytest.mark.equation("eq-gallery-mean-slope")
def test_mean_slope():
    """The same mean, differentiated by a log-weight, against the mean with the arc less the mean of all."""
    def rhs(derivative, P, with_arc, mean, a):
        return P[a] * (with_arc[a] - mean)

    cases = []
    for lattice, w, r, paths in lattices_with_values():
        with_arc = np.array([mean_over([p for p in paths if a in p], w, r) if any(a in p for p in paths) else FIVE
                             for a in range(len(w))], dtype=object)
        P = arc_posteriors(lattice, w, REAL)
        cases += [(mean_over(paths, moved(w, a), r).tangent, zero_outside(P), zero_outside(with_arc, zero=FIVE),
                   mean_over(paths, w, r), a) for a in range(len(w))]
    check_equation("eq-gallery-mean-slope", first, rhs, cases)


def risk_of(string):
    """Adds up along a path: where its labels stand, and which they are."""
    return sum((t + 1) * k for t, k in enumerate(string))


def conditional(y, strings, value, t, k):
    """The mean of a value over the strings with k in frame t."""
    chosen = [string for string in strings if string[t] == k]
    return mean_of(shares_of(y, chosen), map(value, chosen)) if chosen else FIVE


@pytest.mark.equation("eq-gallery-mean-logits")
def test_mean_logits():
    """The mean risk of the strings of a target, differentiated by a logit, against the risk with and without it."""
    def rhs(derivative, E, with_symbol, mean, t, k):
        return E[t, k] * (with_symbol[t, k] - mean)

    cases = []
    for x, y, targets, t, k in logits(seeds=3):
        strings = ctc_strings(y, targets)
        risks = list(map(risk_of, strings))
        with_symbol = np.array([[conditional(y, strings, risk_of, tau, j) for j in range(V)] for tau in range(len(y))])
        cases.append((mean_of(shares_of(softmax(moved(x, (t, k))), strings), risks).tangent,
                      zero_outside(ctc_occupancy(y, targets)), zero_outside(with_symbol, zero=FIVE),
                      mean_of(shares_of(y, strings), risks), t, k))
    check_equation("eq-gallery-mean-logits", first, rhs, cases)


# --- label priors ---


@pytest.mark.equation("eq-gallery-prior-batch")
def test_prior_batch():
    """The losses of two utterances added, with their common mean softmax as prior, differentiated by a logit of one."""
    def rhs(gradient, y, E, rho, lam, V, t, k):
        return y[t, k] - E[t, k] + lam * y[t, k] * (rho[k] - sum(y[t, j] * rho[j] for j in range(0, V)))

    def reweighted(both, lam):
        q = sum(row for y in both for row in y) / sum(len(y) for y in both)
        return [y / prod([q] * lam) for y in both], q

    cases = []
    for lam, pair in ((1, ([1, 2], [1])), (2, ([2, 2], [1])), (1, ([], [2, 1]))):
        xs = [numbers_of(seed, T) for seed, T in ((1, 3), (2, 2))]
        both = [softmax(x) for x in xs]
        weights, q = reweighted(both, lam)
        E = [ctc_occupancy(w, targets) for w, targets in zip(weights, pair, strict=True)]
        rho = sum(row for each in E for row in each) / (5 * q)
        for b in range(2):
            for t, k in np.ndindex(xs[b].shape):
                dual = [softmax(moved(x, (t, k)) if i == b else duals(x, 0 * x)) for i, x in enumerate(xs)]
                gradient = sum(-slope(ctc_z(w, targets))
                               for w, targets in zip(reweighted(dual, lam)[0], pair, strict=True))
                cases.append((gradient, zero_outside(both[b], zero=FIVE), zero_outside(E[b]),
                              zero_outside(rho, zero=FIVE), lam, V, t, k))
    check_equation("eq-gallery-prior-batch", first, rhs, cases)


# --- stars ---


def holds(string, targets):
    """Whether the labels of a string hold the target as a subsequence."""
    rest = iter(string)
    return all(label in rest for label in targets)


def every_string(T):
    return list(product(range(V), repeat=T))


@pytest.mark.equation("eq-gallery-star-subsequence")
def test_star_subsequence():
    """The sum over alignments with stars against all strings that hold the target, a factor for each label too many."""
    def rhs(z, y, strings, c, n, U, l):
        return sum(mass(y, s) * c ** (n(s) - U) * holds(s, l) for s in strings)

    def n(string):
        return sum(k != BLANK for k in string)

    check_equation("eq-gallery-star-subsequence", first, rhs, [
        (star_z(y, targets, c), y, every_string(T), c, n, len(targets), targets)
        for T, c in ((2, Fraction(1)), (3, Fraction(2, 3)), (4, Fraction(1, 5)))
        for targets in TARGETS for y in [softmax(numbers_of(T, T))]])


@pytest.mark.equation("eq-gallery-star-logits")
def test_star_logits():
    """Strings that hold the target, a factor for each label too many: derivative by a logit against shared stars."""
    def rhs(gradient, y, E, star, rest, t, k, V):
        return (y[t, k] - E[t, k]
                - (k != BLANK) * sum(star[t, j] * y[t, k] / rest[t, j] for j in range(0, V) if j != k))

    cases = []
    for x, y, targets, t, k in logits():
        weight = Fraction(2, 3)
        dual = softmax(moved(x, (t, k)))
        z = sum(mass(dual, s) * weight ** (sum(j != BLANK for j in s) - len(targets))
                for s in every_string(len(y)) if holds(s, targets))
        E = star_occupancy(y, targets, weight)
        cases.append((-slope(z), zero_outside(y, zero=FIVE), zero_outside(E[:, :V]),
                      zero_outside(E[:, V:], zero=FIVE), zero_outside(starred(y)[:, V:], zero=HALF), t, k, V))
    check_equation("eq-gallery-star-logits", first, rhs, cases)


@pytest.mark.equation("eq-gallery-star-count")
def test_star_count():
    """log Z by the log of the factor that each label too many brings, against the occupancies of the stars."""
    def rhs(derivative, star, T, V):
        return sum(star[t, j] for t in range(0, T) for j in range(0, V))

    cases = []
    for seed, targets in enumerate(TARGETS):
        y, c = softmax(numbers_of(seed)), Dual(Fraction(2, 3), Fraction(2, 3))
        z = sum((mass(y, s) * prod([c] * (sum(j != BLANK for j in s) - len(targets)), start=Dual(Fraction(1)))
                 for s in every_string(3) if holds(s, targets)), Dual(0))
        cases.append((slope(z), zero_outside(star_occupancy(y, targets, c.value)[:, V:], zero=FIVE), 3, V))
    check_equation("eq-gallery-star-count", first, rhs, cases)


# --- wildcards ---


def parts_z(y, targets):
    """CTC's Z of the frames a to b; 5 where b < a, which nobody should read."""
    T = len(y)
    return zero_outside(np.array([[ctc_z(y[a:b + 1], targets) if a <= b else FIVE for b in range(T)]
                                  for a in range(T)], dtype=object), zero=FIVE)


@pytest.mark.equation("eq-gallery-wildcard")
def test_wildcard():
    """The lattice engine on the wildcard lattice against CTC of every piece, by enumeration."""
    def rhs(z, Z, T):
        return sum(Z[a, b] for a in range(0, T) for b in range(a, T))

    cases = []
    for seed, targets in enumerate(TARGETS):
        y = softmax(numbers_of(seed, 4))
        lattice = wildcard_ctc_lattice(targets, 4, V)
        cases.append((forward(lattice, lattice.arc_weights(y, REAL), REAL)[-1], parts_z(y, targets), 4))
    check_equation("eq-gallery-wildcard", first, rhs, cases, equivalent={
        "shift bound: range(0, T) -> range(0, T + 1)": "after the last frame begins no piece"})


@pytest.mark.equation("eq-gallery-wildcard-logits")
def test_wildcard_logits():
    """-log of the sum over all pieces, differentiated, against softmax where a path is inside, less occupancy."""
    def rhs(gradient, c, y, E, t, k):
        return c[t] * y[t, k] - E[t, k]

    cases = []
    for x, y, targets, t, k in logits():
        T, dual = len(y), softmax(moved(x, (t, k)))
        z = sum((ctc_z(dual[a:b + 1], targets) for a in range(T) for b in range(a, T)), Dual(0))
        Z = parts_z(y, targets)
        c = np.array([sum(Z[a, b] for a in range(tau + 1) for b in range(tau, T)) / z.value for tau in range(T)])
        E = expected_uses(y, wildcard_alignments(targets, T, V, BLANK))
        cases.append((-slope(z), zero_outside(c), zero_outside(y), zero_outside(E), t, k))
    check_equation("eq-gallery-wildcard-logits", first, rhs, cases)


@pytest.mark.equation("eq-gallery-soft")
def test_soft():
    """The mean of log-masses, weighted by their softmax, against log-sum-exp less the entropy of these weights."""
    def rhs(soft, m, p, T):
        return log(sum(exp(m[b]) for b in range(0, T))) + sum(p[b] * log(p[b]) for b in range(0, T))

    cases = []
    for T in (2, 4):
        m = np.random.default_rng(T).normal(size=T)
        p = np.exp(m) / np.exp(m).sum()
        cases.append((float(p @ m), zero_outside(m, zero=5.0), zero_outside(p, zero=5.0), T))
    check_equation("eq-gallery-soft", first, rhs, cases, tolerance=1e-13)


@pytest.mark.equation("eq-gallery-soft-slope")
def test_soft_slope():
    """sympy: log-masses m and x = e^m as letters, d/dm = partial by m + x times partial by x."""
    def rhs(derivative, p, m, T, b):
        return p[b] * (1 + m[b] - sum(p[c] * m[c] for c in range(0, T)))

    letters = field_grid("z", (2, 3))
    m, x = letters
    soft = (x * m).sum() / x.sum()
    check_equation("eq-gallery-soft-slope", first, rhs, [
        (soft.diff(m[b]) + x[b] * soft.diff(x[b]), zero_outside(x / x.sum(), zero=m[0]), zero_outside(m, zero=x[0]), 3,
         b) for b in range(3)])


# --- sums of losses ---


@pytest.mark.equation("eq-gallery-inter")
def test_inter():
    """Main and two intermediate losses along a direction in which all logits move, against the sum of products."""
    def rhs(derivative, nu, K, pull):
        return (1 - nu) * pull[0] + nu / K * sum(pull[j] for j in range(1, K + 1))

    cases = []
    for seed, targets in enumerate(TARGETS):
        xs = [numbers_of(3 * seed + head) for head in range(3)]
        directions = [probabilities(50 + 3 * seed + head, xs[0].shape) for head in range(3)]
        nu, losses, pull = Fraction(1, 3 + seed), [], []
        for x, d in zip(xs, directions, strict=True):
            losses.append(-slope(ctc_z(softmax(duals(x, x * d)), targets)))
            y = softmax(x)
            pull.append(((y - ctc_occupancy(y, targets)) * d).sum())
        total = (1 - nu) * losses[0] + nu * (losses[1] + losses[2]) / 2
        cases.append((total, nu, 2, zero_outside(np.array(pull, dtype=object), zero=FIVE)))
    check_equation("eq-gallery-inter", first, rhs, cases)


@pytest.mark.equation("eq-gallery-consistency")
def test_consistency():
    """Half of one view's CTC loss and cross-entropy to the other, differentiated, against two differences."""
    def rhs(gradient, y, E, other, eta, t, k):
        return HALF * (y[t, k] - E[t, k]) + HALF * eta * (y[t, k] - other[t, k])

    cases = []
    for seed, (x, y, targets, t, k) in enumerate(logits()):
        other, eta, dual = softmax(numbers_of(20 + seed)), Fraction(2, 5), softmax(moved(x, (t, k)))
        cross = -sum(other[place] * slope(dual[place]) for place in np.ndindex(y.shape))
        cases.append((-slope(ctc_z(dual, targets)) / 2 + eta * cross / 2, zero_outside(y),
                      zero_outside(ctc_occupancy(y, targets)), zero_outside(other), eta, t, k))
    check_equation("eq-gallery-consistency", first, rhs, cases)


@pytest.mark.equation("eq-gallery-consistency-free")
def test_consistency_free():
    """torch's autograd of both divergences with nothing held constant against the closed form."""
    def rhs(gradient, y, other, d, k, V):
        return y[k] - other[k] + y[k] * (d[k] - sum(y[j] * d[j] for j in range(0, V)))

    cases = []
    for seed in range(3):
        a, b = torch.tensor(np.random.default_rng(seed).normal(size=(2, 4)))
        a.requires_grad_()
        p, q = torch.log_softmax(a, -1), torch.log_softmax(b, -1)
        both = (p.exp() * (p - q)).sum() + (q.exp() * (q - p)).sum()
        gradient = torch.autograd.grad(both, a)[0].numpy()
        y, other, d = (zero_outside(each.detach().numpy(), zero=5.0) for each in (p.exp(), q.exp(), p - q))
        cases += [(gradient[k], y, other, d, k, 4) for k in range(4)]
    check_equation("eq-gallery-consistency-free", first, rhs, cases, tolerance=1e-13)


@pytest.mark.equation("eq-gallery-consistency-curl")
def test_consistency_curl():
    """Slopes of what the two views get, by dual numbers, crosswise, against the difference of two covariances."""
    def rhs(asymmetry, y, other, i, j):
        return (i == j) * (y[i] - other[i]) - (y[i] * y[j] - other[i] * other[j])

    cases = []
    for seed in range(3):
        a, b = numbers_of(seed, 2)
        y, other = softmax(a), softmax(b)
        for i, j in product(range(V), repeat=2):
            first_moves = (y - softmax(moved(b, j)))[i].tangent
            second_moves = (other - softmax(moved(a, i)))[j].tangent
            cases.append((first_moves - second_moves, zero_outside(y), zero_outside(other), i, j))
    check_equation("eq-gallery-consistency-curl", first, rhs, cases)


# --- means over paths ---


def float_cases():
    for seed, targets in enumerate(TARGETS[:3]):
        u = np.random.default_rng(seed).normal(size=(4, V))
        yield u, torch.log_softmax(torch.tensor(u), -1).numpy(), targets


def path_logs(log_y, strings):
    """log w of each string, on torch or NumPy."""
    return sum(log_y[t, [string[t] for string in strings]] for t in range(len(log_y)))


@pytest.mark.equation("eq-gallery-entropy")
def test_entropy():
    """-sum of p log p over strings against log Z less the mean log-weight, both carried by the expectation semiring."""
    def rhs(entropy, log_z, mean):
        return log_z - mean

    cases = []
    for _, log_y, targets in float_cases():
        lattice = ctc_lattice(targets, *log_y.shape)
        weights = [LogDual(w, w) for w in lattice.arc_weights(log_y)]
        end = forward(lattice, np.array(weights, object), LOG_DUAL)[-1]
        logs = path_logs(log_y, ctc_strings(log_y, targets))
        p = np.exp(logs) / np.exp(logs).sum()
        cases.append((-(p * np.log(p)).sum(), end.log_mass, end.mean))
    check_equation("eq-gallery-entropy", first, rhs, cases, tolerance=1e-13)


@pytest.mark.equation("eq-gallery-entropy-logits")
def test_entropy_logits():
    """autograd of -log Z - mu H over the strings against means of log-weights with and without a symbol."""
    def rhs(gradient, y, E, with_symbol, mean, mu, t, k):
        return y[t, k] - E[t, k] + mu * E[t, k] * (with_symbol[t, k] - mean)

    cases = []
    for u, log_y, targets in float_cases():
        strings, mu, z = ctc_strings(log_y, targets), 0.3, torch.tensor(u, requires_grad=True)
        logs = path_logs(torch.log_softmax(z, -1), strings)
        shares = torch.log_softmax(logs, 0)
        objective = -torch.logsumexp(logs, 0) + mu * (shares.exp() * shares).sum()
        gradient = torch.autograd.grad(objective, z)[0].numpy()
        logs, p = logs.detach().numpy(), shares.detach().exp().numpy()
        uses = np.array([[[s[t] == k for s in strings] for k in range(V)] for t in range(4)])
        E, inside = uses @ p, uses @ (p * logs)
        with_symbol = np.divide(inside, E, out=np.full(E.shape, 5.0), where=E > 0)
        arrays = [zero_outside(each) for each in (np.exp(log_y), E, with_symbol)]
        cases += [(gradient[t, k], *arrays, p @ logs, mu, t, k) for t, k in np.ndindex(4, V)]
    check_equation("eq-gallery-entropy-logits", first, rhs, cases, tolerance=1e-13)


@pytest.mark.equation("eq-gallery-baseline")
def test_baseline():
    """The mean of the estimator, for any baseline, against the exact slope of the mean risk."""
    def rhs(derivative, P, R, b, uses, E, t, k):
        return sum(P[n] * (R[n] - b) * (uses[n, t, k] - E[t, k]) for n in range(0, len(P)))

    cases = []
    for x, y, targets, t, k in logits(seeds=3):
        strings = ctc_strings(y, targets)
        risks = list(map(risk_of, strings))
        uses = np.array([[[int(s[tau] == j) for j in range(V)] for tau in range(len(y))] for s in strings])
        derivative = mean_of(shares_of(softmax(moved(x, (t, k))), strings), risks).tangent
        cases.append((derivative, shares_of(y, strings), risks, Fraction(7, 3), zero_outside(uses, zero=FIVE),
                      zero_outside(ctc_occupancy(y, targets), zero=FIVE), t, k))
    check_equation("eq-gallery-baseline", first, rhs, cases, equivalent=dict.fromkeys(
        ["drop term: R[n] - b -> R[n]", "flip sign: R[n] - b -> R[n] + b"], "any baseline gives the same mean"))


@pytest.mark.equation("eq-gallery-mwer")
def test_mwer():
    """The mean risk of a list of hypotheses, each the sum of its strings, differentiated, against a covariance."""
    def rhs(derivative, P, W, mean, E, t, k, N):
        return sum(P[i] * (W[i] - mean) * E[i, t, k] for i in range(0, N))

    hypotheses, W, cases = [[1, 2], [1], [2, 1]], [0, 1, 2], []
    for x, y, _, t, k in logits(seeds=2):
        def mean_risk(y):
            zs = [ctc_z(y, targets) for targets in hypotheses]
            return sum(z * w for z, w in zip(zs, W, strict=True)) / sum(zs), [z / sum(zs) for z in zs]

        mean, P = mean_risk(y)
        E = np.array([ctc_occupancy(y, targets) for targets in hypotheses])
        cases.append((mean_risk(softmax(moved(x, (t, k))))[0].tangent, zero_outside(np.array(P), zero=FIVE),
                      zero_outside(np.array(W), zero=FIVE), mean, zero_outside(E, zero=FIVE), t, k, 3))
    check_equation("eq-gallery-mwer", first, rhs, cases)


@pytest.mark.equation("eq-gallery-viterbi")
def test_viterbi():
    """-log of the largest mass of a string, differentiated, against softmax less the path that the engine finds."""
    def rhs(gradient, y, path, t, k):
        return y[t, k] - (path[t] == k)

    cases = []
    for x, y, targets, t, k in logits(T=4):
        best = max((mass(softmax(moved(x, (t, k))), s) for s in ctc_strings(y, targets)), key=lambda m: m.value)
        lattice = ctc_lattice(targets, *y.shape)
        entries = [lattice.arcs[i].entry for i in best_path(lattice, lattice.arc_weights(np.log(y.astype(float))))]
        path = zero_outside(np.array([entry[1] for entry in entries if entry]), zero=-1)
        cases.append((-slope(best), zero_outside(y), path, t, k))
    check_equation("eq-gallery-viterbi", first, rhs, cases)


def test_strings_collapse():
    """What the checks above sum over: strings that collapse to the target, in more than one way."""
    for targets in TARGETS[:3]:
        strings = ctc_strings(np.ones((4, V)), targets)
        assert len(strings) > 1 and all(collapse(s, BLANK) == targets for s in strings)

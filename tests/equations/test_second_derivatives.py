"""Checks of the equations of the chapter on second derivatives. Means, shares and masses of paths come from walks and
lists of paths; what they are compared with, from derivatives of recursions."""

from fractions import Fraction
from math import exp, prod

import numpy as np
import pytest
import sympy
from brute_force import (
    Target,
    blank_of,
    ctc_strings,
    ctc_z,
    each_entry,
    grad_logit,
    probabilities,
    rnnt_paths,
    slope,
    slope_at,
)
from ranges import all_equal
from sides import first
from small_lattices import ENDS, LATTICES, last, lattice_of, masses, mean_sum, paths_of, walks
from sympy import QQ
from sympy.polys.fields import field
from tex_to_python import Notation

from reference_impl import ctc, rnnt
from reference_impl.duals import Dual, duals
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.lattice import arc_posteriors, forward
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, softmax

NOTATION = Notation(
    patterns={
        r"\mathbb E[\, \Delta \,]": "mean",
        r"\mathbb E[\, \Delta \mid #e \,]": "mean_with[#e]",
        r"\Pr(#e)": "P[#e]",
        r"\dot{\Pr}(#e)": "dP[#e]",
        r"\delta(#e)": "v[#e]",
        r"\delta": "v",
        r"r(#e)": "r[#e]",
        r"\dot r(#e)": "dr[#e]",
        r"\mu(#n)": "mu[#n]",
        r"\gamma(#n)": "gamma[#n]",
        r"\dot\gamma(#n)": "dgamma[#n]",
        r"y_{#j}(#k)": "y[#j, #k]",
        r"d_{#j}(#k)": "d[#j, #k]",
        r"\hat d_{#j}(#k)": "inward[#j, #k]",
        r"\dot E_{#j}(#k)": "dE[#j, #k]",
        r"\dot N_{#j}": "dN[#j]",
        "Z": "z",
    },
)
QUANTITIES = Quantities(
    shapes={"arcs": "A, 2", "hessian": "A, A", "w": "A", "v": "A", "P": "A", "mean_with": "A", "r": "A", "dr": "A",
            "dP": "A", "mu": "M", "gamma": "M", "dgamma": "M", "A": "A", "y": "J, V", "d": "J, V", "inward": "J, V",
            "dE": "J, V", "Hd": "J, V", "N": "J", "dN": "J", "J": "J", "V": "V"},
    ends=ENDS | {
        "a nudge of 0": lambda v: not np.any(getattr(v, "array", v)),
        "n the start": lambda n, arcs: n == 0,
        "n the end": lambda n, arcs: n == last(arcs),
        "m the start": lambda m, arcs: m == 0,
        "m the end": lambda m, arcs: m == last(arcs),
        "CTC": lambda loss: loss == "ctc",
        "RNN-T": lambda loss: loss == "rnnt",
        "T = 1": lambda loss, x, targets: frames(loss, x, targets) == 1,
        "U = 0": lambda targets: len(targets) == 0,
        "all labels equal": lambda targets: all_equal(targets),
        "a blank that is not 0": lambda targets: blank_of(targets) != 0,
        "a row whose use does not move": lambda N, dN, j: dN[j] == 0,
        "a row whose use moves": lambda N, dN, j: dN[j] != 0,
        "one alignment": lambda shares: len(shares) == 1,
        "negative curvature": lambda d, Hd: (d * Hd).sum() < 0,
        "positive curvature": lambda d, Hd: (d * Hd).sum() > 0,
        "zeta < 0": lambda e_x: e_x < 1,
        "zeta = 0": lambda e_x: e_x == 1,
        "zeta > 0": lambda e_x: e_x > 1,
        "the first frame ahead": lambda start: start[0] > start[1],
        "the second frame ahead": lambda start: start[0] < start[1],
        "a fair start": lambda start: start[0] == start[1],
    },
)


def nudged():
    """Lattices with weights and a nudge of their logarithms: on the chain it is 0, and one of the arcs that are side by
    side has no weight."""
    for seed, arcs in enumerate(LATTICES):
        w = probabilities(seed, (len(arcs),))
        w[1] *= seed != 1
        yield arcs, w, np.random.default_rng([seed, 1]).integers(-5, 6, len(arcs)) * Fraction(min(seed, 1))


@computed
def total_and_mean(arcs, w, v):
    """Z, and the mean of what the paths collect of v."""
    paths = paths_of(arcs)
    return np.array([sum(masses(paths, w)), mean_sum(paths, w, v)])


@computed
def means_before(arcs, w, v):
    """Of each node the mean of what the ways to it have collected of v; 0 where there is none."""
    ways = [walks(arcs, n) for n in range(last(arcs) + 1)]
    return np.array([mean_sum(each, w, v) if any(masses(each, w)) else Fraction(0) for each in ways])


@computed
def means_with_arcs(arcs, letters, v):
    """Posteriors of the arcs, the means of what the paths that use them collect of v, and of what all paths do."""
    paths = paths_of(arcs)
    using = [[path for path in paths if a in path] for a in range(len(arcs))]
    z, mean_with = sum(masses(paths, letters)), [mean_sum(each, letters, v) if each else 5 for each in using]
    return {"P": [sum(masses(each, letters)) / z for each in using], "mean_with": mean_with,
            "mean": mean_sum(paths, letters, v)}


def dual_shares(arcs, w, v, chosen):
    """The shares of the mass of all paths that the chosen ones have, and their changes along the nudge: (2, ...)."""
    paths, weights = paths_of(arcs), duals(w, w * v)
    total = sum(masses(paths, weights))
    return both([sum(masses([path for path in paths if each(path)], weights)) / total for each in chosen])


@computed
def uses(arcs, w, v):
    """The posterior of each arc."""
    return dual_shares(arcs, w, v, [lambda path, a=a: a in path for a in range(len(arcs))])


@computed
def visits(arcs, w, v):
    """The occupancy of each node; all paths visit the first."""
    return dual_shares(arcs, w, v, [lambda path, n=n: n == 0 or n in [arcs[a][1] for a in path]
                                    for n in range(last(arcs) + 1)])


def both(numbers):
    """Values and tangents of numbers, some of which may be dual."""
    return np.array([(each.value, each.tangent) if isinstance(each, Dual) else (each, 0) for each in numbers]).T


@computed(kind="recursion")
def alphas(arcs, values, tangents):
    """The forward recursion on dual numbers: of each node the value and the tangent."""
    return both(forward(lattice_of(arcs), duals(values, tangents), REAL))


@computed(kind="recursion")
def posteriors(arcs, values, tangents):
    """The posterior of each arc by the forward and backward recursions on dual numbers: value and tangent."""
    return both(arc_posteriors(lattice_of(arcs), duals(values, tangents), REAL))


def z_of(arcs, numbers):
    """Z of dual numbers, by the forward recursion."""
    return Dual(*alphas(arcs, *both(numbers))[:, -1])


def shares(arcs, w, v):
    """alpha w / alpha of each arc and its change, by the forward recursion; 0 where no mass arrives."""
    alpha, weights = duals(*alphas(arcs, w, w * v)), duals(w, w * v)
    return both([alpha[m] * weights[a] / alpha[n] if alpha[n].value else 0 for a, (m, n) in enumerate(arcs)])


@computed(kind="sympy")
def second_derivatives(arcs, letters):
    """d^2 log Z / d log w^2 of the Z that the forward recursion finds."""
    z = forward(lattice_of(arcs), letters, REAL)[-1]
    return each_entry((len(arcs), len(arcs)), lambda a, b: letters[b] * slope(
        letters[a] * slope(z, letters[a]) / z, letters[b]))


@computed
def counts_and_shares(arcs, entry, letters):
    """How often each path uses each entry, and the shares of the paths; arc a has the weight of entry[a]."""
    paths, w = paths_of(arcs), letters[entry]
    counts = np.array([[sum(entry[a] == i for a in path) for i in range(len(letters))] for path in paths])
    return {"counts": counts, "shares": np.array(masses(paths, w), dtype=object) / sum(masses(paths, w))}


@computed(kind="sympy")
def second_derivatives_in_entries(arcs, entry, letters):
    """d^2 log Z / d theta^2, with e^theta for the letters, of the Z that the forward recursion finds."""
    z = forward(lattice_of(arcs), letters[entry], REAL)[-1]
    return each_entry((len(letters), len(letters)), lambda i, other: letters[other] * slope(
        letters[i] * slope(z, letters[i]) / z, letters[other]))


def mean_of(shares, numbers):
    return (shares * numbers).sum()


@pytest.mark.equation("eq-second-covariance", patterns={
    r"\frac{\partial^2 \log Z}{\partial \theta_i\, \partial \theta_{i'}}": "second",
    r"\mathbb E[\, c_i\, c_{i'} \,]": "mean_of(shares, counts[:, i] * counts[:, other])",
    r"\mathbb E[\, c_i \,]": "mean_of(shares, counts[:, i])",
    r"\mathbb E[\, c_{i'} \,]": "mean_of(shares, counts[:, other])"})
def test_covariance():
    """sympy's second derivatives of the forward recursion's log Z, in entries that arcs may share, against the
    covariances of how often enumerated paths use them."""
    def rhs(second, counts, shares, i, other, arcs):
        return mean_of(shares, counts[:, i] * counts[:, other]) - mean_of(shares, counts[:, i]) * mean_of(
            shares, counts[:, other])

    def cases():
        for arcs in LATTICES[:-1]:
            entry = np.arange(len(arcs)) % max(2, len(arcs) - 2)
            letters = field_grid("y", (max(entry) + 1,))
            hessian, of = second_derivatives_in_entries(arcs, entry, letters), counts_and_shares(arcs, entry, letters)
            for i, other in np.ndindex(hessian.shape):
                yield hessian[i, other], of["counts"], of["shares"], i, other, arcs

    check_equation("eq-second-covariance", first, rhs, cases())
    assert max(case[1].max() for case in cases()) == 2  # a path that uses an entry twice


@pytest.mark.equation("eq-second-directional", patterns={
    r"\frac{\partial^2 \log Z}{\partial \theta(e)\, \partial \theta(e')}": "hessian[a, b]", "e": "a", "e'": "b"},
    over={"e'": "for b in range(A)"})
def test_directional():
    """A row of sympy's second derivatives of log Z, times v, against conditional means over enumerated paths."""
    def lhs(hessian, v, P, mean_with, mean, A, a, arcs):
        return sum(hessian[a, b] * v[b] for b in range(0, A))

    def rhs(hessian, v, P, mean_with, mean, A, a, arcs):
        return P[a] * (mean_with[a] - mean)

    def cases():
        for seed, arcs in enumerate(LATTICES[:-1]):
            letters = field_grid("w", (len(arcs),))
            v = (np.array([2, -3, 5, 7, -1, 4][:len(arcs)]) * (seed > 0)).tolist()
            hessian, means = second_derivatives(arcs, letters), means_with_arcs(arcs, letters, v)
            for a in range(len(arcs)):
                yield (zero_outside(hessian), v, zero_outside(means["P"]), zero_outside(means["mean_with"]),
                       means["mean"], len(arcs), a, arcs)

    check_equation("eq-second-directional", lhs, rhs, cases())


@pytest.mark.equation("eq-second-dual-total", patterns={r"Z[#w]": "z_of(arcs, #w)", r"\varepsilon": "epsilon"})
def test_dual_total():
    """The forward recursion on dual numbers against Z and the mean over enumerated paths."""
    def lhs(arcs, w, v, z, mean, epsilon):
        return z_of(arcs, w * (1 + v * epsilon))

    def rhs(arcs, w, v, z, mean, epsilon):
        return z + z * mean * epsilon

    check_equation("eq-second-dual-total", lhs, rhs, (
        (arcs, w, v, *total_and_mean(arcs, w, v), Dual(Fraction(0), Fraction(1))) for arcs, w, v in nudged()))


@pytest.mark.equation("eq-second-alpha-tangent", over={
    r"e \,:\, m \to n": "for a, (m, end) in enumerate(arcs) if end == n"}, conditions={
    r"\mu(\text{start}) = 0": "mu[0] == 0"}, patterns={"e": "a"})
def test_alpha_tangent():
    """The mean of what the ways to a node have collected, by listing them, against shares by the forward recursion and
    the means of the nodes before."""
    def lhs(mu, r, v, arcs, n):
        return mu[n]

    def rhs(mu, r, v, arcs, n):
        return sum(r[a] * (mu[m] + v[a]) for a, (m, end) in enumerate(arcs) if end == n)

    check_equation("eq-second-alpha-tangent", lhs, rhs, (
        (zero_outside(means_before(arcs, w, v)), zero_outside(shares(arcs, w, v)[0]), zero_outside(v), arcs, n)
        for arcs, w, v in nudged() for n in range(last(arcs) + 1)))


@pytest.mark.equation("eq-second-share-tangent", patterns={"e": "a"})
def test_share_tangent():
    """The change of alpha w / alpha, by the forward recursion on dual numbers, against means over the ways to nodes."""
    def lhs(dr, r, mu, v, a, m, n):
        return dr[a]

    def rhs(dr, r, mu, v, a, m, n):
        return r[a] * (mu[m] + v[a] - mu[n])

    check_equation("eq-second-share-tangent", lhs, rhs, (
        (*map(zero_outside, (dr, r, means_before(arcs, w, v), v)), a, m, n)
        for arcs, w, v in nudged() for r, dr in [shares(arcs, w, v)] for a, (m, n) in enumerate(arcs)))


@pytest.mark.equation("eq-second-posterior-tangent", patterns={"e": "a"})
def test_posterior_tangent():
    """The change of each enumerated posterior against the changes of a share, by the forward recursion on dual numbers,
    and of an enumerated occupancy."""
    def lhs(dP, dr, r, gamma, dgamma, a, n):
        return dP[a]

    def rhs(dP, dr, r, gamma, dgamma, a, n):
        return dr[a] * gamma[n] + r[a] * dgamma[n]

    check_equation("eq-second-posterior-tangent", lhs, rhs, (
        (*map(zero_outside, (uses(arcs, w, v)[1], dr, r, *visits(arcs, w, v))), a, n)
        for arcs, w, v in nudged() for r, dr in [shares(arcs, w, v)] for a, (_, n) in enumerate(arcs)))


@pytest.mark.equation("eq-second-node-tangent", over={
    r"e \,:\, m \to n": "for a, (start, n) in enumerate(arcs) if start == m"}, conditions={
    r"\dot\gamma(\text{end}) = 0": "dgamma[M - 1] == 0"}, patterns={"e": "a"})
def test_node_tangent():
    """The change of each node occupancy, by listing the paths that visit it, against those of the posteriors of the
    arcs that leave it, by two recursions."""
    def lhs(dgamma, dP, arcs, m, M):
        return dgamma[m]

    def rhs(dgamma, dP, arcs, m, M):
        return sum(dP[a] for a, (start, n) in enumerate(arcs) if start == m)

    check_equation("eq-second-node-tangent", lhs, rhs, (
        (zero_outside(visits(arcs, w, v)[1]), zero_outside(posteriors(arcs, w, w * v)[1]), arcs, m, last(arcs) + 1)
        for arcs, w, v in nudged() for m in range(last(arcs) + 1)))


# --- logits: a row for each frame of CTC, for each node of RNN-T ---

# loss, frames, symbols, target: J < V and V < J of each, one frame, no label, equal labels, another blank than 0
SHAPES = [("ctc", 4, 3, [1, 1]), ("ctc", 1, 3, [2]), ("ctc", 3, 4, Target([3, 0], blank=2)), ("ctc", 2, 3, []),
          ("ctc", 3, 2, [1]), ("rnnt", 3, 2, [1]), ("rnnt", 1, 3, [2]), ("rnnt", 2, 4, Target([3, 0], blank=2)),
          ("rnnt", 2, 3, []), ("rnnt", 2, 2, [1, 1, 1])]


def inputs():
    """Loss, exponentials of logits, target, direction of the logits."""
    for seed, (loss, T, V, targets) in enumerate(SHAPES):
        J = T if loss == "ctc" else T * (len(targets) + 1)
        d = np.random.default_rng([seed, 2]).integers(-4, 5, (J, V)) * Fraction(1)
        yield loss, probabilities(seed, (J, V)), targets, d


def frames(loss, x, targets):
    return len(x) if loss == "ctc" else len(x) // (len(targets) + 1)


def grid(loss, x, targets):
    """The rows where the loss has them: (T, V), or (T, U+1, V)."""
    return x if loss == "ctc" else x.reshape(-1, len(targets) + 1, x.shape[1])


@computed
def alignments(loss, x, targets):
    """All paths, as lists of the entries (row, symbol) that they use."""
    y = grid(loss, x, targets)
    if loss == "ctc":
        return [list(enumerate(string)) for string in ctc_strings(y, targets)]
    return [[(t * y.shape[1] + u, k) for t, u, k in path] for path in rnnt_paths(y, targets)]


@computed(kind="recursion")
def forward_z(loss, values, tangents, targets):
    """Z of dual numbers by the loss's own forward recursion: value and tangent."""
    module = {"ctc": ctc, "rnnt": rnnt}[loss]
    z = module.Z(grid(loss, duals(values, tangents), targets), targets, blank=blank_of(targets), semiring=REAL)
    return np.array([z.value, z.tangent])


@computed(kind="sympy")
def times_hessian(loss, x, targets, d):
    """H d: along d by dual numbers on the forward recursion, then with respect to each logit by sympy."""
    def along(x):
        y = softmax(duals(x, x * np.vectorize(int, otypes=[object])(d)))
        value, tangent = forward_z(loss, *(part.reshape(x.shape) for part in both(y.ravel())), targets)
        return -tangent / value

    return each_entry(x.shape, lambda *index: x[index] * slope_at(along, x, *index))


@computed
def expected_uses_of_rows(loss, x, targets, d):
    """N, the number of uses of each row; dE, the covariances of the use of each entry with what a path collects of d
    less its mean, and dN, their sums; shares of the paths, and what each collects."""
    y, paths = softmax(x), alignments(loss, x, targets)
    weights = [prod(y[entry] for entry in path) for path in paths]
    shares = [weight / sum(weights) for weight in weights]
    collected = [sum(inward_of(x, d)[entry] for entry in path) for path in paths]
    mean = sum(share * each for share, each in zip(shares, collected, strict=True))
    E, dE = y * 0, y * 0
    for path, share, each in zip(paths, shares, collected, strict=True):
        for entry in path:
            E[entry] += share
            dE[entry] += share * (each - mean)
    return {"N": E.sum(-1), "dN": dE.sum(-1), "dE": dE, "shares": shares, "collected": collected}


def inward_of(x, d):
    return d - (softmax(x) * d).sum(-1, keepdims=True)


@pytest.mark.equation("eq-second-inward", over={"i": "range(V)"})
def test_inward():
    """sympy's derivative of log-softmax, in a direction, against the direction less its mean."""
    def lhs(inward, d, y, j, k, V):
        return inward[j, k]

    def rhs(inward, d, y, j, k, V):
        return d[j, k] - sum(y[j, i] * d[j, i] for i in range(0, V))

    def cases():
        for _, x, _, d in inputs():
            arrays = zero_outside(log_softmax_along(x, d)), zero_outside(d, zero=5), zero_outside(softmax(x), zero=5)
            for j, k in np.ndindex(x.shape):
                yield *arrays, j, k, x.shape[1]

    check_equation("eq-second-inward", lhs, rhs, cases())


@computed(kind="sympy")
def log_softmax_along(x, d):
    """The derivative of log y in the direction d: of each symbol with respect to each logit of its row."""
    def derivative(j, k):
        return sum(d[j, i] * x[j, i] * slope_at(lambda row: softmax(row)[k], x[j], i) for i in range(x.shape[1])
                   ) / softmax(x)[j, k]

    return each_entry(x.shape, derivative)


@pytest.mark.equation("eq-second-logits", patterns={r"(H d)_{#j}(#k)": "Hd[#j, #k]"})
def test_logits():
    """sympy: the derivatives of the forward recursion's -log Z in all logits, along d, against what enumerated paths
    use and how that varies with what they collect."""
    def lhs(Hd, y, N, inward, dN, dE, j, k):
        return Hd[j, k]

    def rhs(Hd, y, N, inward, dN, dE, j, k):
        return y[j, k] * (N[j] * inward[j, k] + dN[j]) - dE[j, k]

    def cases():
        for loss, x, targets, d in inputs():
            of = expected_uses_of_rows(loss, x, targets, d)
            arrays = times_hessian(loss, x, targets, d), softmax(x), of["N"], inward_of(x, d), of["dN"], of["dE"]
            for j, k in np.ndindex(x.shape):
                yield *map(zero_outside, arrays), j, k

    check_equation("eq-second-logits", lhs, rhs, cases())


def variance(weights, numbers):
    """Of numbers whose weights add up to 1."""
    mean = sum(weight * number for weight, number in zip(weights, numbers, strict=True))
    return sum(weight * (number - mean) ** 2 for weight, number in zip(weights, numbers, strict=True))


@pytest.mark.equation("eq-second-quadratic", patterns={
    r"d^\top H d": "(d * Hd).sum()", r"N_{#j}": "N[#j]",
    r"\operatorname{Var}_{k \sim y_{#j}}(d_{#j}(k))": "variance(y[#j], d[#j])",
    r"\operatorname{Var}_\pi(\hat \Delta(\pi))": "variance(shares, collected)"}, over={"j": "range(J)"})
def test_quadratic():
    """d H d from the same derivatives of the forward recursion against two variances, one over enumerated paths."""
    def lhs(Hd, N, y, d, shares, collected, J):
        return (d * Hd).sum()

    def rhs(Hd, N, y, d, shares, collected, J):
        return sum(N[j] * variance(y[j], d[j]) for j in range(0, J)) - variance(shares, collected)

    check_equation("eq-second-quadratic", lhs, rhs, (
        (times_hessian(loss, x, targets, d), of["N"], softmax(x), d, of["shares"], of["collected"], len(x))
        for loss, x, targets, d in inputs() for of in [expected_uses_of_rows(loss, x, targets, d)]))


# --- two frames, one label ---


def two_rows(*e_x):
    """Exponentials of the logits of blank and label in two frames."""
    return np.array([[e * 0 + 1, e] for e in e_x])


@computed(kind="sympy")
def along_rho(e_x):
    """dL/drho and d^2 L/drho^2 at rho = 0, of the sum over the strings: with s = e^rho, d/drho = s d/ds."""
    s = field("s", QQ)[1]
    z = ctc_z(softmax(two_rows(s * QQ(*e_x.as_integer_ratio()), QQ(*e_x.as_integer_ratio()) / s)), [1])
    first = -s * slope(z, s) / z
    return np.array([Fraction(str(sympy.sympify(each.as_expr()).subs("s", 1))) for each in
                     (first, s * slope(first, s))])


@pytest.mark.equation("eq-second-ridge", patterns={
    r"\left. \frac{\mathrm d^2 L}{\mathrm d \rho^2} \right|_{\rho = 0}": "second", r"e^\zeta": "e_x"})
def test_ridge():
    """sympy's second derivative of -log of the sum over strings in rho, at rho = 0, for several e^zeta."""
    def rhs(second, e_x):
        return -2 / ((1 + e_x) ** 2 * (2 + e_x))

    points = [Fraction(1), Fraction(3), Fraction(1, 7)]
    check_equation("eq-second-ridge", first, rhs, ((along_rho(e_x)[1], e_x) for e_x in points))
    assert all(along_rho(e_x)[0] == 0 for e_x in points)


@computed(kind="sympy")
def slope_of_label(e_x0, e_x1, t):
    """dL/dzeta of one frame, of the sum over the strings."""
    return grad_logit(lambda y: ctc_z(y, [1]), two_rows(e_x0, e_x1), t, 1)


@pytest.mark.equation("eq-second-rich", patterns={r"\frac{\partial L}{\partial \zeta_t}": "slope"})
def test_rich():
    """sympy's derivative of -log of the sum over strings with respect to each frame's logit of the label."""
    def rhs(slope, p, q, t):
        return -p[t] * (q[0] * q[1]) / (1 - q[0] * q[1])

    def cases():
        for e_x in ((Fraction(3), Fraction(1, 7)), (Fraction(1), Fraction(1)), (Fraction(2, 5), Fraction(2))):
            q, p = softmax(two_rows(*e_x)).T
            for t in range(2):
                yield slope_of_label(*e_x, t), p, q, t

    check_equation("eq-second-rich", first, rhs, cases())


@computed(kind="Runge-Kutta")
def downhill(start):
    """Down the slope of -log of the sum over strings, in small steps of order four."""
    x = sympy.symbols("x:2", real=True)
    loss, h, point = -sympy.log(ctc_z(softmax(two_rows(*map(sympy.exp, x))), [1])), 0.05, np.array(start)
    slopes = sympy.lambdify([x], [-sympy.diff(loss, each) for each in x], "math", cse=True)

    def velocity(point):
        return np.array(slopes(point.tolist()))

    for _ in range(800):
        k1 = velocity(point)
        k2 = velocity(point + h / 2 * k1)
        k3 = velocity(point + h / 2 * k2)
        point = point + h / 6 * (k1 + 2 * k2 + 2 * k3 + velocity(point + h * k3))
    return point


@pytest.mark.equation("eq-second-invariant", patterns={
    r"\zeta_{#t}(\tau)": "end[#t]", r"\zeta_{#t}(0)": "start[#t]"})
def test_invariant():
    """Down the slope of -log Z against what the two logits keep."""
    def lhs(start, end):
        return end[0] - end[1]

    def rhs(start, end):
        return start[0] - start[1] + exp(-end[0]) - exp(-end[1]) - exp(-start[0]) + exp(-start[1])

    starts = [(-2.0, -2.3), (0.5, -1.0), (1.0, 2.0), (0.25, 0.25)]
    check_equation("eq-second-invariant", lhs, rhs, ((start, downhill(start)) for start in starts), tolerance=1e-8)
    assert all(np.abs(downhill(start) - start).max() > 0.5 for start in starts)

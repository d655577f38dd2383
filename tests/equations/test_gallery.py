"""Checks of the equations of the gallery of losses. What sums over strings and paths say against derivatives.

With x = e^logit all but the logarithms is rational, and sympy differentiates at fractions, exactly.
"""

from fractions import Fraction
from itertools import product
from math import exp, inf, log, prod

import mpmath
import notation
import numpy as np
import pytest
import ranges
import sympy
import torch
from brute_force import (
    Target,
    blank_of,
    ctc_occupancy_of_nodes,
    ctc_strings,
    ctc_z,
    each_entry,
    expected_uses,
    mass,
    probabilities,
    slope_at,
)
from enumeration import collapse, ctc_alignments
from sides import first
from small_lattices import ENDS, LATTICES, lattice_of, masses, mean_sum, paths_of
from sympy import QQ
from sympy.polys.fields import field
from tex_to_python import Notation
from variants import wildcard_alignments

from reference_impl.duals import LOG_DUAL, LogDual, duals
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.lattice import arc_posteriors, best_path, forward
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, softmax
from reference_impl.topology import ctc_lattice, wildcard_ctc_lattice

NOTATION = notation.CTC | Notation(patterns={
    r"\varnothing": "blank",
    r"\mathbb E[\, C \,]": "mean",
    r"\mathbb E[\, C \mid \pi_t = k \,]": "with_symbol[t, k]",
    r"\frac{\partial \mathbb E[\, C \,]}{\partial z_t(k)}": "slope",
    r"\Pr(#e)": "P[#e]",
    r"w(\pi)": "mass(y, pi)",
    r"E_{#t}(\star #j)": "star[#t, #j]",
    r"\rho(#k)": "rho[#k]",
    r"y'_{#t}(#k)": "other[#t, #k]",
})
QUANTITIES = ranges.CTC | Quantities(
    shapes={"arcs": "A, 2", "w": "A", "c": "A", "P": "A", "with_arc": "A", "A": "A", "E": "I", "slopes": "I", "I": "I",
            "star": "T, V", "with_symbol": "T, V", "other": "T, V", "rho": "V", "Z": "T, T", "gamma": "T",
            "m": "T", "p": "T", "path": "T", "g": "K + 1", "K": "K", "odds": "N + 1", "W": "N + 1",
            "occupancies": "N + 1, T, V", "N": "N", "row": "V", "other_row": "V", "difference": "V"},
    ends=ENDS | {
        "an entry on no path": lambda occupancy, t, k: occupancy[t, k] == 0,
        "omega = 0": lambda price: price == 1,
        "omega < 0": lambda price: price < 1,
        "lambda = 0": lambda lambda_: lambda_ == 0,
        "lambda > 0": lambda lambda_: lambda_ > 0,
        "lambda < 0": lambda lambda_: lambda_ < 0,
        "one utterance": lambda lengths: len(lengths) == 1,
        "a frame in which the target cannot end": lambda m: -inf in list(m.array),
        "nu = 0": lambda nu: nu == 0,
        "nu = 1": lambda nu: nu == 1,
        "one intermediate output": lambda K: K == 1,
        "eta = 0": lambda eta: eta == 0,
        "y = y'": lambda row, other_row: (row.array == other_row.array).all(),
        "two symbols, exchanged": lambda row, other_row: list(row.array) == list(other_row.array)[:-3:-1],
        "mu = 0": lambda mu: mu == 0,
        "mu < 0": lambda mu: mu < 0,
        "b = 0": lambda b, strings: b == 0,
        "b < 0": lambda b, strings: b < 0,
        "a list of one": lambda N: N == 1,
    },
)

HALF, FIVE = Fraction(1, 2), Fraction(5)  # what reads as 5 outside its range is noticed when it is read there
# equal labels, several alignments, one frame, one alignment and two symbols, a blank that is not 0, no label
SHAPES = [(3, 3, [1, 1]), (3, 3, [1]), (1, 3, [2]), (5, 2, [1, 1, 1]), (3, 3, Target([1, 0], blank=2)), (2, 3, [])]
INPUTS = [(probabilities(seed, (T, V)), targets) for seed, (T, V, targets) in enumerate(SHAPES)]


def slope_in_logit(function, x, *index):
    """sympy: the derivative with respect to a logit of a rational function of the softmax."""
    return x[index] * slope_at(lambda x: function(softmax(x)), x, *index)


@computed(kind="sympy")
def slope_of_logs(coefficients, function, values, *index):
    """The derivative of a sum of logarithms of rational functions, times coefficients, with respect to one value."""
    s, moved, found = field("s", QQ)[1], in_qq(values), 0
    at, moved[index] = moved[index], s
    for c, f in zip(coefficients, function(moved), strict=True):
        above, below = (slope_of_log(each, at) for each in ((f + 0 * s).numer, (f + 0 * s).denom))
        found += c * (above - below)
    return found


def slope_of_log(polynomial, at):
    found = polynomial.diff(0).evaluate(0, at) / polynomial.evaluate(0, at)
    return Fraction(int(found.numerator), int(found.denominator))


def grad(z, x, *index):
    """d(-log Z) / d logit for x = e^logit, where z is Z as a function of the probabilities."""
    return -x[index] * slope_of_logs([1], lambda x: [z(softmax(x))], x, *index)


def in_qq(values):
    """Fractions as sympy's."""
    return np.vectorize(lambda value: QQ(value.numerator, value.denominator), otypes=[object])(values)


# --- what the sections share ---


def lattices_with_costs():
    """Arcs, their weights, a cost for each."""
    for seed, arcs in enumerate(LATTICES):
        size = (len(arcs),)
        w = probabilities(seed, size)
        w[1] *= seed != 1  # one of the arcs that are side by side
        yield arcs, w, np.random.default_rng([seed, 3]).integers(-5, 6, size) * Fraction(1)


@computed(kind="recursion")
def posteriors(arcs, w):
    """The posterior of each arc, by the forward and backward recursions."""
    return arc_posteriors(lattice_of(arcs), w, REAL)


@computed
def mean_over_paths(arcs, w, c):
    return mean_sum(paths_of(arcs), w, c)


@computed
def mean_with_arc(arcs, w, c, a):
    """Of the paths that use an arc; 5 where there are none."""
    using = [path for path in paths_of(arcs) if a in path]
    return mean_sum(using, w, c) if any(masses(using, w)) else FIVE


@pytest.mark.equation("eq-gallery-mean", patterns={"c(#e)": "c[#e]"}, over={"e": "range(A)"})
def test_mean():
    """The mean over enumerated paths of a sum along them against posteriors of arcs, by recursions, times values."""
    def rhs(mean, P, c, A, arcs, w):
        return sum(P[e] * c[e] for e in range(0, A))

    check_equation("eq-gallery-mean", first, rhs, (
        (mean_over_paths(arcs, w, c), zero_outside(posteriors(arcs, w), zero=FIVE), zero_outside(c, zero=FIVE),
         len(arcs), arcs, w) for arcs, w, c in lattices_with_costs()))


@pytest.mark.equation("eq-gallery-mean-slope", patterns={
    r"\frac{\partial \mathbb E[\, C \,]}{\partial \log w(e)}": "slope", r"\mathbb E[\, C \mid e \,]": "with_arc[a]",
    r"\Pr(e)": "P[a]"})
def test_mean_slope():
    """sympy: the derivative of the same mean by a log-weight against posteriors, by two recursions, times the mean with
    the arc less the mean of all."""
    def rhs(slope, P, with_arc, mean, a, arcs):
        return P[a] * (with_arc[a] - mean)

    def cases():
        for arcs, w, c in lattices_with_costs():
            with_arc = [mean_with_arc(arcs, w, c, a) for a in range(len(arcs))]
            for a in range(len(arcs)):
                slope = w[a] * slope_at(lambda w, arcs=arcs, c=c: mean_over_paths(arcs, w, in_qq(c)), w, a)
                yield (slope, zero_outside(posteriors(arcs, w)), zero_outside(with_arc, zero=FIVE),
                       mean_over_paths(arcs, w, c), a, arcs)

    check_equation("eq-gallery-mean-slope", first, rhs, cases())


def risk_of(string):
    """Adds up along a path: where its labels stand, and which they are."""
    return sum((t + 1) * k for t, k in enumerate(string))


def mean_of_risks(y, strings):
    return sum(mass(y, string) * risk_of(string) for string in strings) / sum(mass(y, string) for string in strings)


@computed
def mean_risk(y, targets):
    return mean_of_risks(y, ctc_strings(y, targets))


@computed
def mean_risk_with(y, targets):
    """Of the strings with k in frame t, for each t and k; 5 where there are none."""
    def conditional(t, k):
        chosen = [string for string in ctc_strings(y, targets) if string[t] == k]
        return mean_of_risks(y, chosen) if chosen else FIVE

    return each_entry(y.shape, conditional)


@pytest.mark.equation("eq-gallery-mean-logits")
def test_mean_logits():
    """sympy: the derivative by a logit of the mean risk of the strings of a target against occupancies of alpha and
    beta times the risk with the symbol less that of all."""
    def rhs(slope, occupancy, with_symbol, mean, t, k, targets):
        return occupancy[t, k] * (with_symbol[t, k] - mean)

    def cases():
        for x, targets in INPUTS:
            y = softmax(x)
            occupancy, with_symbol = ctc_occupancy_of_nodes(y, targets), mean_risk_with(y, targets)
            for t, k in np.ndindex(x.shape):
                yield (slope_of_risk(x, targets, t, k), zero_outside(occupancy), zero_outside(with_symbol, zero=FIVE),
                       mean_risk(y, targets), t, k, targets)

    check_equation("eq-gallery-mean-logits", first, rhs, cases())


def slope_of_risk(x, targets, t, k):
    return slope_in_logit(lambda y: mean_risk(y, targets), x, t, k)


# --- label priors ---


# lambda, frames and targets of each utterance, symbols
BATCHES = [(1, [3, 2], [[1, 2], [1]], 3), (2, [2, 1], [[2], [1]], 3), (-1, [1, 2], [[], [1]], 3),
           (0, [5], [[1, 1, 1]], 2), (2, [1], [[2]], 3), (1, [1, 1], [Target([3], blank=2), Target([1], blank=2)], 4)]


def parts_of(y, lengths):
    return np.split(y, np.cumsum(lengths)[:-1])


def reweighted(y, lambda_):
    """y divided by a power of its own mean."""
    return y / (y.sum(axis=0) / len(y)) ** lambda_


def z_of_batch(y, lambda_, lengths, batch):
    return prod(ctc_z(part, targets) for part, targets in zip(parts_of(reweighted(y, lambda_), lengths), batch,
                                                               strict=True))


def occupancy_of_batch(y, lambda_, lengths, batch):
    parts = zip(parts_of(reweighted(y, lambda_), lengths), batch, strict=True)
    return np.concatenate([ctc_occupancy_of_nodes(part, targets) for part, targets in parts])


@pytest.mark.equation("eq-gallery-prior-batch")
def test_prior_batch():
    """sympy: the losses of a batch added, with its own mean softmax as prior, differentiated by a logit, against
    occupancies of alpha and beta."""
    def rhs(grad_logits, y, occupancy, rho, lambda_, V, t, k, lengths):
        return y[t, k] - occupancy[t, k] + lambda_ * y[t, k] * (
            rho[k] - sum(y[t, j] * rho[j] for j in range(0, V)))

    def arrays(y, *batch):
        occupancy = occupancy_of_batch(y, *batch)
        return zero_outside(y, zero=FIVE), zero_outside(occupancy), zero_outside(occupancy.sum(axis=0) / y.sum(axis=0),
                                                                                 zero=FIVE)

    def cases():
        for seed, (lambda_, lengths, batch, V) in enumerate(BATCHES):
            x = probabilities(seed, (sum(lengths), V))
            for t, k in np.ndindex(x.shape):
                gradient = grad(lambda y, case=(lambda_, lengths, batch): z_of_batch(y, *case), x, t, k)
                yield gradient, *arrays(softmax(x), lambda_, lengths, batch), lambda_, V, t, k, lengths

    check_equation("eq-gallery-prior-batch", first, rhs, cases())

    with mpmath.workdps(50):  # a power of the prior that is no whole number
        x, case = np.array([[3, 1, 2], [1, 5, 4]]) * mpmath.mpf(1), (mpmath.mpf("0.6"), [2], [[1]])
        for t, k in np.ndindex(x.shape):
            def loss(logit, t=t, k=k):
                moved = x.copy()
                moved[t, k] = mpmath.exp(logit)
                return -mpmath.log(z_of_batch(softmax(moved), *case))

            slope = mpmath.diff(loss, mpmath.log(x[t, k]))
            assert abs(slope - rhs(slope, *arrays(softmax(x), *case), case[0], 3, t, k, [2])) < 1e-25


# --- stars ---


# of three symbols, so that each star stands for some, and of four, so that it stands for two; more labels than symbols
STARRED = [*((x, targets) for x, targets in INPUTS if x.shape[1] == 3), (probabilities(8, (4, 3)), [1, 2, 1, 2]),
           (probabilities(9, (2, 4)), [3])]
PRICES = [Fraction(1), Fraction(2, 3)]


def starred(y, price, blank):
    """Beside the probabilities those of the stars: column V + j is of all labels but j, in V + blank of all labels."""
    V = y.shape[1]
    totals = [[price * sum((row[i] for i in range(V) if i not in (blank, j)), row[0] * 0) for j in range(V)]
              for row in y]
    return np.concatenate([y, np.array(totals, dtype=object)], axis=1)


@computed(kind="walking")
def star_walks(targets, T, V, blank):
    """Ways through the nodes (t, u): a frame holds a blank or a star, or the next label, which leads to u + 1."""
    def onward(t, u):
        if t == T:
            return [[]] if u == len(targets) else []
        star = V + (targets[u] if u < len(targets) else blank)
        steps = [((t, blank), u), ((t, star), u)] + [((t, label), u + 1) for label in targets[u:u + 1]]
        return [[entry, *rest] for entry, after in steps for rest in onward(t + 1, after)]

    return onward(0, 0)


def walks_of(y, targets):
    return star_walks(targets, *y.shape, blank_of(targets))


@computed
def star_z(y, targets, price):
    """The mass of all walks."""
    scores = starred(y, price, blank_of(targets))
    return sum(prod(scores[entry] for entry in walk) for walk in walks_of(y, targets))


@computed
def star_occupancy(y, targets, price):
    """Expected numbers of uses by a walk, of the symbols and of the stars."""
    return expected_uses(starred(y, price, blank_of(targets)), walks_of(y, targets))


def holds(string, targets):
    """Whether the labels of a string hold the target as a subsequence."""
    rest = iter(string)
    return all(label in rest for label in targets)


def n(string, blank):
    """How many frames of a string hold a label."""
    return sum(k != blank for k in string)


def every_string(y):
    return list(product(range(y.shape[1]), repeat=len(y)))


@computed
def z_of_holding(y, targets, price):
    """The mass of all strings that hold the target, a factor for each label too many."""
    return sum(mass(y, string) * price ** (n(string, blank_of(targets)) - len(targets))
               for string in every_string(y) if holds(string, targets))


def grad_of_holding(x, targets, price, t, k):
    return grad(lambda y: z_of_holding(y, targets, price), x, t, k)


@pytest.mark.equation("eq-gallery-star-subsequence", patterns={
    r"\exp(\omega\, (#n))": "price ** (#n)", r"n(\pi)": "n(pi, blank)",
    r"[\, l \sqsubseteq \pi \,]": "holds(pi, targets)"}, over={r"\pi": "for pi in strings"})
def test_star_subsequence():
    """The mass of all walks with stars against all strings that hold the target, a factor for each label too many."""
    def rhs(z, y, strings, price, targets, U, blank):
        return sum(mass(y, pi) * price ** (n(pi, blank) - U) * holds(pi, targets) for pi in strings)

    two_symbols = [(probabilities(7, (3, 2)), [1])]  # a star stands for nothing
    check_equation("eq-gallery-star-subsequence", first, rhs, (
        (star_z(y, targets, price), y, every_string(y), price, targets, len(targets), blank_of(targets))
        for price in PRICES for x, targets in STARRED + two_symbols for y in [softmax(x)]))


@pytest.mark.equation("eq-gallery-chain", patterns={r"\frac{\partial \phi_{i}}{\partial z_t(k)}": "slopes[i]"},
                      over={"i": "range(I)"})
def test_chain():
    """sympy: -log of the sum over strings that hold the target, differentiated, against occupancies by walks with stars
    times slopes of the scores."""
    def rhs(grad_logits, E, slopes, I):
        return -sum(E[i] * slopes[i] for i in range(0, I))

    def cases():
        for seed, (x, targets) in enumerate(STARRED):
            price = PRICES[seed % 2]
            occupancy = star_occupancy(softmax(x), targets, price).ravel()
            for t, k in np.ndindex(x.shape):
                yield (grad_of_holding(x, targets, price, t, k), zero_outside(occupancy, zero=FIVE),
                       zero_outside(score_slopes(x, t, k, price, blank_of(targets)), zero=FIVE), len(occupancy))

    check_equation("eq-gallery-chain", first, rhs, cases())


@computed(kind="dual numbers")
def score_slopes(x, t, k, price, blank):
    """How the log-scores of all symbols and stars move with a logit, as x moves by x."""
    tangents = x * 0
    tangents[t, k] = x[t, k]
    return np.array([score.tangent / score.value for score in starred(softmax(duals(x, tangents)), price, blank).flat])


@pytest.mark.equation("eq-gallery-star-logits", over={
    "j": "range(V)", r"i \notin \{\varnothing, j\}": "for i in range(V) if i not in (blank, j)"})
def test_star_logits():
    """sympy: -log of the sum over strings that hold the target, a factor for each label too many, differentiated by a
    logit, against occupancies by walks with stars, those of the stars shared out."""
    def rhs(grad_logits, y, occupancy, star, targets, blank, price, t, k, V):
        return (y[t, k] - occupancy[t, k] - (k != blank) * sum(
            star[t, j] * y[t, k] / sum(y[t, i] for i in range(0, V) if i not in (blank, j))
            for j in range(0, V) if j != k))

    def cases():
        for seed, (x, targets) in enumerate(STARRED):
            y, V, price = softmax(x), x.shape[1], PRICES[seed % 2]
            uses = star_occupancy(y, targets, price)
            for t, k in np.ndindex(x.shape):
                yield (grad_of_holding(x, targets, price, t, k), zero_outside(y, zero=HALF), zero_outside(uses[:, :V]),
                       zero_outside(uses[:, V:], zero=FIVE), targets, blank_of(targets), price, t, k, V)

    check_equation("eq-gallery-star-logits", first, rhs, cases())


@pytest.mark.equation("eq-gallery-star-count", patterns={r"\frac{\partial \log Z}{\partial \omega}": "slope"})
def test_star_count():
    """sympy: log of the sum over strings that hold the target by the log of the factor that each label too many brings,
    against occupancies of the stars by walks."""
    def rhs(slope, star, T, V, targets, price):
        return sum(sum(star[t, j] for j in range(0, V)) for t in range(0, T))

    def cases():
        for price in PRICES:
            for x, targets in STARRED:
                y, V = softmax(x), x.shape[1]
                star = star_occupancy(y, targets, price)[:, V:]
                yield slope_by_price(y, targets, price), zero_outside(star, zero=FIVE), len(y), V, targets, price

    check_equation("eq-gallery-star-count", first, rhs, cases())


def slope_by_price(y, targets, price):
    """d log Z / d omega, for price = e^omega."""
    y = in_qq(y)
    return price * slope_of_logs([1], lambda price: [z_of_holding(y, targets, *price)], np.array([price]), 0)


# --- wildcards ---


def pieces(y, targets):
    """CTC's Z of the frames a to b; 5 where b < a, which nobody should read."""
    T = len(y)
    return each_entry((T, T), lambda a, b: ctc_z(y[a:b + 1], targets) if a <= b else FIVE)


@computed(kind="recursion")
def wildcard_z(y, targets):
    """The forward recursion on the wildcard lattice."""
    lattice = wildcard_ctc_lattice(targets, *y.shape, blank=blank_of(targets))
    return forward(lattice, lattice.arc_weights(y, REAL), REAL)[-1]


@computed
def wildcard_paths(targets, T, V, blank):
    """All alignments of some frames next to each other."""
    return wildcard_alignments(targets, T, V, blank)


@pytest.mark.equation("eq-gallery-wildcard", patterns={"Z_{#i:#j}": "Z[#i, #j]"})
def test_wildcard():
    """The forward recursion on the wildcard lattice against CTC of every piece, by enumeration."""
    def rhs(z, Z, T, y, targets):
        return sum(sum(Z[i, j] for j in range(i, T)) for i in range(0, T))

    check_equation("eq-gallery-wildcard", first, rhs, (
        (wildcard_z(y, targets), zero_outside(pieces(y, targets), zero=FIVE), len(y), y, targets)
        for x, targets in INPUTS for y in [softmax(x)]), equivalent={
        "shift bound: range(0, T) -> range(0, T + 1)": "after the last frame begins no piece"})


@pytest.mark.equation("eq-gallery-wildcard-logits", patterns={r"\gamma_{#t}": "gamma[#t]"})
def test_wildcard_logits():
    """sympy: -log Z of the forward recursion on the wildcard lattice, differentiated, against softmax times the
    probability that a frame is in the piece, by CTC of every piece, less occupancies by alignments of all pieces."""
    def rhs(grad_logits, gamma, y, occupancy, t, k, targets):
        return gamma[t] * y[t, k] - occupancy[t, k]

    def cases():
        for x, targets in INPUTS:
            y, T = softmax(x), len(x)
            Z, uses = pieces(y, targets), expected_uses(y, wildcard_paths(targets, *y.shape, blank_of(targets)))
            inside = np.array([sum(Z[a, b] for a in range(t + 1) for b in range(t, T)) for t in range(T)])
            total = sum(Z[a, b] for a, b in np.ndindex(T, T) if a <= b)
            arrays = [zero_outside(each) for each in (inside / total, y, uses)]
            for t, k in np.ndindex(x.shape):
                yield grad(lambda y, targets=targets: wildcard_z(y, targets), x, t, k), *arrays, t, k, targets

    check_equation("eq-gallery-wildcard-logits", first, rhs, cases())


@computed
def shares_of_ends(y, targets):
    """The share of the mass of all alignments of pieces that each last frame has."""
    paths = wildcard_paths(targets, *y.shape, blank_of(targets))
    masses = [prod(y[entry] for entry in path) for path in paths]
    return np.array([sum(m for m, path in zip(masses, paths, strict=True) if path[-1][0] == b) / sum(masses)
                     for b in range(len(y))])


@pytest.mark.equation("eq-gallery-soft", over={"j": "ends"})
def test_soft():
    """The mean of log-masses of pieces by their end, weighted by the shares of all alignments that end there, against
    log-sum-exp less the entropy of these shares."""
    def lhs(m, p, ends, targets):
        return sum(p[j] * m[j] for j in ends)

    def rhs(m, p, ends, targets):
        return log(sum(exp(m[j]) for j in ends)) + sum(p[j] * log(p[j]) for j in ends)

    def cases():
        for x, targets in INPUTS:
            y = softmax(x)
            Z = pieces(y, targets)
            masses = [sum(Z[a, b] for a in range(b + 1)) for b in range(len(y))]
            m = np.array([log(mass) if mass else -inf for mass in masses])
            p = shares_of_ends(y, targets).astype(float)
            yield zero_outside(m, zero=5.0), zero_outside(p, zero=5.0), [b for b in range(len(y)) if masses[b]], targets

    check_equation("eq-gallery-soft", lhs, rhs, cases(), tolerance=1e-13)


@computed(kind="sympy")
def slope_of_soft(letters, ends, j):
    """The derivative of the mean of m, weighted by softmax(m), with x for e^m in what sympy finds."""
    m, x = np.array(letters[0, 0].field.symbols).reshape(letters.shape)
    total = sum(sympy.exp(m[i]) for i in ends)
    derivative = sympy.diff(sum(m[i] * sympy.exp(m[i]) for i in ends) / total, m[j])
    return letters[0, 0].field.from_expr(sympy.together(derivative.subs({sympy.exp(m[i]): x[i] for i in ends})))


@pytest.mark.equation("eq-gallery-soft-slope", patterns={
    r"\frac{\partial}{\partial m_j} \sum_i p_i\, m_i": "slope"}, over={"i": "ends"})
def test_soft_slope():
    """sympy: the derivative of the mean of any log-masses, weighted by their softmax, where they are finite."""
    def rhs(slope, p, m, ends, j):
        return p[j] * (1 + m[j] - sum(p[i] * m[i] for i in ends))

    def cases():
        for T, ends in ((1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (3, [1, 2])):
            letters = field_grid("z", (2, T))
            m, x = letters.copy()
            total = sum(x[j] for j in ends)
            p = np.array([x[j] / total if j in ends else 0 for j in range(T)], dtype=object)
            m[[j for j in range(T) if j not in ends]] = -inf
            for j in ends:
                yield slope_of_soft(letters, ends, j), zero_outside(p, zero=letters[0, 0]), zero_outside(m), ends, j

    check_equation("eq-gallery-soft-slope", first, rhs, cases())


# --- sums of losses ---


@pytest.mark.equation("eq-gallery-inter", patterns={r"\frac{\partial L}{\partial \theta}": "slope"})
def test_inter():
    """sympy: the weighted losses of main and intermediate outputs, all of whose logits move with one parameter, against
    the sum of what each asks for, with occupancies of alpha and beta."""
    def rhs(slope, nu, K, g):
        return (1 - nu) * g[0] + nu / K * sum(g[j] for j in range(1, K + 1))

    def cases():
        for seed, (x, targets) in enumerate(INPUTS):
            K, nu = [1, 2, 3][seed % 3], [Fraction(1, 3), Fraction(0), Fraction(1), Fraction(2, 5)][seed % 4]
            xs = [x, *(probabilities(10 * seed + j, x.shape) for j in range(1, K + 1))]
            directions = [probabilities(50 + 10 * seed + j, x.shape) for j in range(K + 1)]
            g = [((softmax(x) - ctc_occupancy_of_nodes(softmax(x), targets)) * d).sum()
                 for x, d in zip(xs, directions, strict=True)]
            yield slope_of_inter(xs, directions, targets, nu), nu, K, zero_outside(g, zero=FIVE)

    check_equation("eq-gallery-inter", first, rhs, cases())


def slope_of_inter(xs, directions, targets, nu):
    """The logits of output j are log x_j + theta d_j, at theta = 0, where e^(theta d) is 1 + theta d."""
    def zs(values):
        theta, (xs, directions) = values[0], values[1:].reshape(2, K + 1, *shape)
        return [ctc_z(softmax(x * (1 + d * theta)), targets) for x, d in zip(xs, directions, strict=True)]

    K, shape = len(xs) - 1, xs[0].shape
    values = np.concatenate([[Fraction(0)], np.array(xs).ravel(), np.array(directions).ravel()])
    return slope_of_logs([nu - 1, *[-nu / K] * K], zs, values, 0)


@pytest.mark.equation("eq-gallery-consistency")
def test_consistency():
    """sympy: half of one view's CTC loss and of its cross-entropy to the other, differentiated, against two
    differences, with occupancies of alpha and beta."""
    def rhs(grad_logits, y, occupancy, other, eta, t, k, targets):
        return HALF * (y[t, k] - occupancy[t, k]) + HALF * eta * (y[t, k] - other[t, k])

    def cases():
        for seed, (x, targets) in enumerate(INPUTS):
            y, other, eta = softmax(x), softmax(probabilities(20 + seed, x.shape)), Fraction(seed, 3)
            arrays = [zero_outside(each) for each in (y, ctc_occupancy_of_nodes(y, targets), other)]
            for t, k in np.ndindex(x.shape):
                yield x[t, k] * slope_of_consistency(x, targets, other, eta, t, k), *arrays, eta, t, k, targets

    check_equation("eq-gallery-consistency", first, rhs, cases())


def slope_of_consistency(x, targets, other, eta, t, k):
    """Of (L - eta sum y' log y) / 2 with respect to x: what the divergences add to that is held constant."""
    coefficients = [-HALF, *(-eta / 2 * other).flat]
    return slope_of_logs(coefficients, lambda x: [ctc_z(softmax(x), targets), *softmax(x).flat], x, t, k)


ROWS = {r"y(#k)": "row[#k]", r"y'(#k)": "other_row[#k]", r"d(#k)": "difference[#k]"}


@computed(kind="torch's autograd")
def slope_of_both(z, v):
    """The slope in z of both divergences between two softmax outputs, with nothing held constant."""
    z, v = torch.tensor(z, requires_grad=True), torch.tensor(v)
    p, q = torch.log_softmax(z, -1), torch.log_softmax(v, -1)
    both = (p.exp() * (p - q)).sum() + (q.exp() * (q - p)).sum()
    return torch.autograd.grad(both, z)[0].numpy()


@pytest.mark.equation("eq-gallery-consistency-free", patterns=ROWS | {r"\frac{\partial J}{\partial z(k)}": "slope"})
def test_consistency_free():
    """torch's autograd of both divergences with nothing held constant against the closed form."""
    def rhs(slope, row, other_row, difference, k, V):
        return row[k] - other_row[k] + row[k] * (
            difference[k] - sum(row[j] * difference[j] for j in range(0, V)))

    def cases():
        for seed, V in enumerate((4, 2, 3)):
            z, v = np.random.default_rng(seed).normal(size=(2, V))
            v = [v, z[::-1].copy(), z][seed]
            p, q = softmax(np.exp([z, v]))
            arrays = p, q, np.log(p / q)
            for k in range(V):
                yield slope_of_both(z, v)[k], *(zero_outside(array, zero=5.0) for array in arrays), k, V

    check_equation("eq-gallery-consistency-free", first, rhs, cases(), tolerance=1e-13)


def slope_of_pull(x, other, i, j):
    """What a view gets at symbol i from the other one, y - y', differentiated by the logit j of the other."""
    y = in_qq(softmax(x))
    return slope_in_logit(lambda other: (y - other)[i], other, j)


@pytest.mark.equation("eq-gallery-consistency-curl", patterns=ROWS | {
    r"\frac{\partial f(i)}{\partial z'(j)}": "by_other", r"\frac{\partial f'(j)}{\partial z(i)}": "by_own"})
def test_consistency_curl():
    """sympy: slopes of what the two views get, crosswise, against the difference of two covariances."""
    def lhs(by_other, by_own, row, other_row, i, j):
        return by_other - by_own

    def rhs(by_other, by_own, row, other_row, i, j):
        return (i == j) * (row[i] - other_row[i]) - (row[i] * row[j] - other_row[i] * other_row[j])

    def views():
        for seed, V in enumerate((3, 2, 3)):
            x, other = probabilities(seed, (2, V))
            yield x, [other, x[::-1], x][seed]

    def cases():
        for x, other in views():
            for i, j in product(range(len(x)), repeat=2):
                yield (slope_of_pull(x, other, i, j), slope_of_pull(other, x, j, i), zero_outside(softmax(x)),
                       zero_outside(softmax(other)), i, j)

    check_equation("eq-gallery-consistency-curl", lhs, rhs, cases())
    for x, other in views():  # a gradient of a function only if the views are equal, or two symbols exchanged
        curls = [rhs(0, 0, softmax(x), softmax(other), i, j) for i, j in product(range(len(x)), repeat=2)]
        assert any(curls) == ((x != other).any() and len(x) > 2)


# --- means over paths ---


def float_cases():
    """Logits, log-softmax and target, in floats."""
    for seed, (T, V, targets) in enumerate(SHAPES):
        z = np.random.default_rng(seed).normal(size=(T, V))
        yield z, z - np.log(np.exp(z).sum(axis=1, keepdims=True)), targets


@computed(kind="recursion")
def expectation(log_y, targets):
    """log Z and the mean of log w, by the forward recursion on the expectation semiring."""
    lattice = ctc_lattice(targets, *log_y.shape, blank=blank_of(targets))
    weights = [LogDual(w, w) for w in lattice.arc_weights(log_y)]
    end = forward(lattice, np.array(weights, object), LOG_DUAL)[-1]
    return np.array([end.log_mass, end.mean])


@computed
def entropy_of_strings(y, targets):
    shares = np.array([mass(y, string) for string in ctc_strings(y, targets)])
    shares = shares / shares.sum()
    return -(shares * np.log(shares)).sum()


@pytest.mark.equation("eq-gallery-entropy", patterns={
    "H": "entropy", r"\Pr(\pi)": "(mass(y, pi) / exp(log_z))", r"\log Z": "log_z",
    r"\mathbb E[\, \log w(\pi) \,]": "mean"}, over={r"\pi": "for pi in strings"})
def test_entropy():
    """-sum of p log p over strings against log Z less the mean log-weight, both carried by the expectation semiring."""
    def rhs(entropy, log_z, mean, y, strings, targets):
        return log_z - mean

    check_equation("eq-gallery-entropy", first, rhs, (
        (entropy_of_strings(np.exp(log_y), targets), *expectation(log_y, targets), np.exp(log_y),
         ctc_strings(log_y, targets), targets) for _, log_y, targets in float_cases()), tolerance=1e-13)


@computed(kind="torch's autograd")
def slope_with_entropy(z, targets, mu):
    """The slope of -log Z - mu H, both of the listed strings, in each logit."""
    strings, z = ctc_strings(z, targets), torch.tensor(z, requires_grad=True)
    log_y = torch.log_softmax(z, -1)
    logs = sum(log_y[t, [string[t] for string in strings]] for t in range(len(log_y)))
    shares = torch.log_softmax(logs, 0)
    objective = -torch.logsumexp(logs, 0) + mu * (shares.exp() * shares).sum()
    return torch.autograd.grad(objective, z)[0].numpy()


@computed
def mean_logs(log_y, targets):
    """The mean of log w over the strings with k in frame t, for each t and k, 5 where there are none; and over all."""
    strings = ctc_strings(log_y, targets)
    logs = np.array([sum(log_y[t, k] for t, k in enumerate(string)) for string in strings])
    uses = np.array([[[s[t] == k for s in strings] for k in range(log_y.shape[1])] for t in range(len(log_y))])
    used = uses @ np.exp(logs)
    with_symbol = np.divide(uses @ (np.exp(logs) * logs), used, out=np.full(used.shape, 5.0), where=used > 0)
    return {"with_symbol": with_symbol, "mean": np.exp(logs) @ logs / np.exp(logs).sum()}


@pytest.mark.equation("eq-gallery-entropy-logits", patterns={
    r"\frac{\partial\, (L - \mu H)}{\partial z_t(k)}": "slope"})
def test_entropy_logits():
    """autograd of -log Z - mu H over the strings against occupancies of alpha and beta, and means of log-weights with
    and without a symbol."""
    def rhs(slope, y, occupancy, with_symbol, mean, mu, t, k, targets):
        return y[t, k] - occupancy[t, k] + mu * occupancy[t, k] * (with_symbol[t, k] - mean)

    def cases():
        for seed, (z, log_y, targets) in enumerate(float_cases()):
            mu, means, y = [0.3, -0.2, 0.0][seed % 3], mean_logs(log_y, targets), np.exp(log_y)
            for t, k in np.ndindex(z.shape):
                yield (slope_with_entropy(z, targets, mu)[t, k], zero_outside(y),
                       zero_outside(ctc_occupancy_of_nodes(y, targets)), zero_outside(means["with_symbol"]),
                       means["mean"], mu, t, k, targets)

    check_equation("eq-gallery-entropy-logits", first, rhs, cases(), tolerance=1e-13)


@pytest.mark.equation("eq-gallery-baseline", patterns={
    r"\Pr(\pi)": "(mass(y, pi) / z)", r"C(\pi)": "risk_of(pi)", r"\pi_t": "pi[t]"}, over={r"\pi": "for pi in strings"})
def test_baseline():
    """sympy: the exact slope of the mean risk against the mean of the estimator over strings, for any baseline, with
    occupancies of alpha and beta."""
    def rhs(slope, y, z, strings, b, occupancy, t, k, targets):
        return sum(mass(y, pi) / z * (risk_of(pi) - b) * ((pi[t] == k) - occupancy[t, k]) for pi in strings)

    def cases():
        for x, targets in INPUTS:
            y = softmax(x)
            z, strings = ctc_z(y, targets), ctc_strings(y, targets)
            occupancy = zero_outside(ctc_occupancy_of_nodes(y, targets), zero=FIVE)
            for t, k in np.ndindex(x.shape):
                b = [Fraction(7, 3), Fraction(-1), Fraction(0)][(t + k) % 3]
                yield slope_of_risk(x, targets, t, k), y, z, strings, b, occupancy, t, k, targets

    check_equation("eq-gallery-baseline", first, rhs, cases(), equivalent=dict.fromkeys(
        ["drop term: risk_of(pi) - b -> risk_of(pi)", "flip sign: risk_of(pi) - b -> risk_of(pi) + b"],
        "any baseline gives the same mean"))


# frames, symbols, hypotheses
LISTS = [(2, 4, Target([1, 3], blank=2), Target([1], blank=2), Target([], blank=2)), (3, 3, [1, 2]),
         (5, 2, [1, 1, 1], [1], []), (1, 3, [1], [2], [])]


@pytest.mark.equation("eq-gallery-mwer", patterns={
    "C_{#i}": "W[#i]", "P_{#i}": "odds[#i]", r"E^{(#i)}_{#t}(#k)": "occupancies[#i, #t, #k]"})
def test_mwer():
    """sympy: the mean risk of a list of hypotheses, each the sum of its strings, differentiated, against a covariance
    of risk and occupancies of alpha and beta."""
    def rhs(slope, odds, W, mean, occupancies, t, k, N):
        return sum(odds[i] * (W[i] - mean) * occupancies[i, t, k] for i in range(1, N + 1))

    def mean_of(y, hypotheses, W):
        zs = [ctc_z(y, targets) for targets in hypotheses]
        return sum(z * w for z, w in zip(zs, W, strict=True)) / sum(zs)

    def cases():
        for seed, (T, V, *hypotheses) in enumerate(LISTS):
            x, W, N = probabilities(seed, (T, V)), [2, 0, 1, 5][:len(hypotheses)], len(hypotheses)
            y = softmax(x)
            zs = [ctc_z(y, targets) for targets in hypotheses]
            E = [ctc_occupancy_of_nodes(y, targets) for targets in hypotheses]
            arrays = [zero_outside([each[0] * 0 + 5, *each], zero=FIVE) for each in ([z / sum(zs) for z in zs], W, E)]
            for t, k in np.ndindex(x.shape):
                yield (slope_in_logit(lambda y, case=(hypotheses, W): mean_of(y, *case), x, t, k), *arrays[:2],
                       mean_of(y, hypotheses, W), arrays[2], t, k, N)

    check_equation("eq-gallery-mwer", first, rhs, cases())


@computed(kind="sympy")
def grad_best(x, targets, t, k):
    """The derivative by a logit of -log of the largest mass of a string, found by trying all."""
    def mass_of_path(y, path):
        return prod(y[entry] for entry in path)

    paths = ctc_alignments(targets, *x.shape, blank_of(targets))
    best = max(paths, key=lambda path: mass_of_path(softmax(x), path))
    return grad(lambda y: mass_of_path(y, best), x, t, k)


@computed(kind="recursion")
def best_of_lattice(y, targets):
    """The symbols of the best path, as the lattice finds it."""
    lattice = ctc_lattice(targets, *y.shape, blank=blank_of(targets))
    entries = [lattice.arcs[i].entry for i in best_path(lattice, lattice.arc_weights(np.log(y.astype(float))))]
    return np.array([entry[1] for entry in entries if entry])


@pytest.mark.equation("eq-gallery-viterbi", patterns={
    r"\frac{\partial}{\partial z_t(k)} ( - \max_{\pi} \log w(\pi) )": "grad_logits", r"\pi^*_t": "path[t]"})
def test_viterbi():
    """sympy: -log of the largest mass of a string, differentiated, against softmax less the path of the lattice."""
    def rhs(grad_logits, y, path, t, k, targets):
        return y[t, k] - (path[t] == k)

    def cases():
        for x, targets in INPUTS:
            y = softmax(x)
            path = zero_outside(best_of_lattice(y, targets), zero=-1)
            for t, k in np.ndindex(x.shape):
                yield grad_best(x, targets, t, k), zero_outside(y), path, t, k, targets

    check_equation("eq-gallery-viterbi", first, rhs, cases())


def test_strings_collapse():
    """What the checks above sum over: strings that collapse to the target, in more than one way."""
    for T, V, targets in ((4, 3, [1, 2]), (4, 3, [1, 1]), (4, 3, [2])):
        strings = ctc_strings(np.ones((T, V)), targets)
        assert len(strings) > 1 and all(collapse(s, 0) == targets for s in strings)

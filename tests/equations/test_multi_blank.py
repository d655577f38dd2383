"""Checks of the equations on multi-blank RNN-T. The left sides come from enumerated paths."""

from fractions import Fraction
from itertools import product
from math import comb

import notation
import numpy as np
import pytest
import ranges
import sympy
from big_steps import SCALES, fenced, mass_at_nodes, mass_of_ways, ways, with_end
from brute_force import RNNT_INPUTS, Target, each_entry, expected_uses, grad_logit, probabilities, rnnt_mass, rnnt_z
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"\varnothing_{#m}": "blanks[#m]",
    r"\varnothing_{#m}(#t, #u)": "y[#t, #u, blanks[#m]]",
    r"\gamma_{#m}(#t, #u)": "e[#m][#t, #u]",
    r"\mathcal M": "M",
    r"e^{-\sigma #n}": "s ** #n",
    r"N(\pi)": "N[pi]",
    r"\frac{\partial L_\sigma}{\partial \sigma}": "slope",
    r"\frac{\partial^2 L_\sigma}{\partial \sigma^2}": "slope",
    r"\mathbb E_\sigma[N]": "sum(tilted[pi] * N[pi] for pi in paths)",
    r"\mathbb E_\sigma[N^{#n}]": "sum(tilted[pi] * N[pi] ** #n for pi in paths)",
})
QUANTITIES = ranges.RNNT | Quantities({"M": "M"}, {
    "a blank that is not 0": (lambda blanks: blanks[1] != 0, *ranges.RNNT.ends["a blank that is not 0"]),
    "k the blank": lambda k, blanks: k == blanks[1],
    "k a big blank": lambda k, blanks: k in blanks.values() and k != blanks[1],
    "k another symbol": lambda k, u, labels, blanks: k not in [*labels.array[u:u + 1], *blanks.values()],
    "a blank past the end": (lambda m, t, T: t + m > T, lambda blanks, T: max(blanks) > T),
    "no big blank": lambda blanks: list(blanks) == [1],
    "sigma = 0": lambda s: s == 1,
    "sigma > 0": lambda s: s < 1,
}, {"V < M": "each blank is a symbol"})

# frames, symbols, labels, {frames of a blank: its symbol}: equal labels, more labels than frames, no big blank, few
# symbols, one frame, no label, another blank
SHAPES = [(4, 5, [1, 2], {1: 0, 2: 3, 3: 4}), (3, 5, [2, 2], {1: 0, 2: 3, 3: 4}), (2, 5, [1, 2, 1], {1: 0, 2: 4, 4: 3}),
          (2, 2, [1, 1, 1], {1: 0}), (5, 3, [1], {1: 0, 2: 2}), (1, 4, [2], {1: 0, 3: 3}), (3, 3, [], {1: 0, 4: 2}),
          (3, 6, Target([4, 0], blank=2), {1: 2, 2: 5, 3: 1})]
INPUTS = [(probabilities(seed, (T, len(labels) + 1, V)), labels, blanks)
          for seed, (T, V, labels, blanks) in enumerate(SHAPES)]


# --- paths, by trying every step ---


def steps(T, labels, blanks):
    U = len(labels)

    def from_node(t, u):
        for m, k in blanks.items():
            if t + m < T or (t + m, u) == (T, U):
                yield (t + m, u), [(t, u, k)]
        if u < U:
            yield (t, u + 1), [(t, u, labels[u])]

    return from_node


@computed
def blank_paths(T, labels, blanks):
    """All paths, each as the entries (t, u, k) of the probabilities that its steps use."""
    return list(ways((0, 0), (T, len(labels)), steps(T, labels, blanks)))


@computed
def blank_z(y, labels, blanks):
    return mass_of_ways(y, (0, 0), (len(y), len(labels)), steps(len(y), labels, blanks))


@computed
def blank_alpha(y, labels, blanks):
    """Mass of all prefixes that reach node (t, u)."""
    T, U = len(y), len(labels)
    return mass_at_nodes(y, T, U, lambda node: mass_of_ways(y, (0, 0), node, steps(T, labels, blanks)))


@computed
def blank_beta(y, labels, blanks):
    """Mass of all suffixes from node (t, u), its own step included, and the end, in one more column."""
    T, U = len(y), len(labels)
    return with_end(mass_at_nodes(y, T, U, lambda node: mass_of_ways(y, node, (T, U), steps(T, labels, blanks))))


def nodes():
    """Every node (t, u) of every case, and what the recursions read."""
    for y, labels, blanks in INPUTS:
        for t, u in np.ndindex(y.shape[:2]):
            yield y, labels, blanks, (zero_outside(y), zero_outside(labels, zero=-1), blanks, tuple(blanks), t, u)


# --- recursions and posteriors ---


@pytest.mark.equation("eq-blank-alpha")
def test_alpha():
    """Mass of the enumerated prefixes against those of the nodes before."""
    def lhs(alpha, y, labels, blanks, M, t, u):
        return alpha[t, u]

    def rhs(alpha, y, labels, blanks, M, t, u):
        return (sum(alpha[t - m, u] * y[t - m, u, blanks[m]] for m in M)
                + alpha[t, u - 1] * y[t, u - 1, labels[u - 1]])

    check_equation("eq-blank-alpha", lhs, rhs, (
        (zero_outside(blank_alpha(*case)), *parts) for *case, parts in nodes() if parts[-2:] != (0, 0)))


@pytest.mark.equation("eq-blank-beta")
def test_beta():
    """Mass of the enumerated suffixes against those of the nodes after."""
    def lhs(beta, y, labels, blanks, M, t, u):
        return beta[t, u]

    def rhs(beta, y, labels, blanks, M, t, u):
        return sum(y[t, u, blanks[m]] * beta[t + m, u] for m in M) + y[t, u, labels[u]] * beta[t, u + 1]

    check_equation("eq-blank-beta", lhs, rhs, ((zero_outside(blank_beta(*case)), *parts) for *case, parts in nodes()))


@pytest.mark.equation("eq-blank-total")
def test_total():
    """Mass of the enumerated paths against alpha and the last blank."""
    def rhs(z, alpha, y, blanks, M, T, U):
        return sum(alpha[T - m, U] * y[T - m, U, blanks[m]] for m in M)

    check_equation("eq-blank-total", first, rhs, (
        (blank_z(*case), zero_outside(blank_alpha(*case)), zero_outside(case[0]), case[2], tuple(case[2]), len(case[0]),
         len(case[1])) for case in INPUTS))


def uses_of_blanks(y, labels, blanks):
    """{m: e_m}: shares of the paths that use each blank."""
    uses = expected_uses(y, blank_paths(len(y), labels, blanks))
    return {m: zero_outside(uses[..., k]) for m, k in blanks.items()}


@pytest.mark.equation("eq-blank-arc")
def test_arc():
    """Share of the enumerated paths that use a blank of m frames against alpha, the step, and beta."""
    def lhs(e, alpha, beta, y, blanks, z, m, t, u):
        return e[m][t, u]

    def rhs(e, alpha, beta, y, blanks, z, m, t, u):
        return alpha[t, u] * y[t, u, blanks[m]] * beta[t + m, u] / z

    check_equation("eq-blank-arc", lhs, rhs, (
        (uses_of_blanks(*case), blank_alpha(*case), zero_outside(blank_beta(*case)), zero_outside(case[0]), case[2],
         blank_z(*case), m, t, u) for case in INPUTS for t, u in np.ndindex(case[0].shape[:2]) for m in case[2]))


def arcs_of_nodes(y, labels, blanks):
    """({m: e_m}, e_y): alpha, the step, and beta, over Z, which is beta of the first node: no list of paths."""
    alpha, beta = blank_alpha(y, labels, blanks), zero_outside(blank_beta(y, labels, blanks))
    after = {m: each_entry(alpha.shape, lambda t, u, m=m: beta[t + m, u]) for m in blanks}
    e = {m: alpha * y[..., k] * after[m] / beta[0, 0] for m, k in blanks.items()}
    return e, alpha[:, :-1] * y[:, range(len(labels)), labels] * beta.array[:-1, 1:] / beta[0, 0]


@pytest.mark.equation("eq-blank-cover")
def test_cover():
    """alpha, step, beta: the blanks that cover a frame, of whatever length, add up to 1."""
    def rhs(e, blanks, M, t, T, U):
        return sum(sum(sum(e[m][t - j, u] for j in range(0, m)) for m in M) for u in range(0, U + 1))

    check_equation("eq-blank-cover", lambda *_: 1, rhs, (
        ({m: fenced(shares) for m, shares in arcs_of_nodes(*case)[0].items()}, case[2], tuple(case[2]), t, len(case[0]),
         len(case[1])) for case in INPUTS for t in range(len(case[0]))))


@computed
def compositions(frames, n, T):
    """The number of sequences of n of the given numbers that add up to T, by trying all."""
    return sum(sum(each) == T for each in product(frames, repeat=n))


@computed(kind="walking")
def number_of_paths(T, labels, blanks):
    return len(list(ways((0, 0), (T, len(labels)), steps(T, labels, blanks))))


@pytest.mark.equation("eq-blank-path-count", patterns={r"\#\text{paths}": "count", r"c_{#n}(#T)": "c[#n, #T]"})
def test_path_count():
    """The number of enumerated paths against places for the labels, times lengths for the blanks."""
    def rhs(count, c, blanks, T, U):
        return sum(comb(n - 1 + U, U) * c[n, T] for n in range(1, T + 1))

    check_equation("eq-blank-path-count", first, rhs, (
        (number_of_paths(T, labels, blanks), {(n, T): compositions(tuple(blanks), n, T) for n in range(1, T + 1)},
         blanks, T, len(labels)) for T, _, labels, blanks in SHAPES))


def outside(*arrays):
    return [zero_outside(array, zero=Fraction(5)) for array in arrays]


@pytest.mark.equation("eq-blank-grad-logits")
def test_grad_logits():
    """sympy: derivative of -log of the path sum with respect to each logit against alpha, step and beta, symbol by
    symbol."""
    def rhs(grad_logits, y, gamma, e_label, e, labels, blanks, M, t, u, k):
        return (y[t, u, k] * gamma[t, u] - (k == labels[u]) * e_label[t, u]
                - sum((k == blanks[m]) * e[m][t, u] for m in M))

    def cases():
        for x, labels, blanks in INPUTS:
            y = softmax(x)
            case = y, labels, blanks
            gamma = blank_alpha(*case) * blank_beta(*case)[:-1] / blank_z(*case)
            e, e_label = arcs_of_nodes(*case)
            for index in np.ndindex(y.shape):
                slope = grad_logit(lambda y, labels=labels, blanks=blanks: blank_z(y, labels, blanks), x, *index)
                yield (slope, *outside(y, gamma, e_label), {m: zero_outside(e[m], zero=5) for m in e},
                       zero_outside(labels, zero=-1), blanks, tuple(blanks), *index)

    check_equation("eq-blank-grad-logits", first, rhs, cases())


# --- a constant on every arc ---


def scales():
    """A different e^(-sigma) for each case."""
    return zip(INPUTS, SCALES * len(INPUTS), strict=False)


@pytest.mark.equation("eq-blank-sigma-rnnt", patterns={r"Z_\sigma": "scaled"}, conditions={r"\text{(RNN-T)}": "True"})
def test_sigma_in_rnnt():
    """Z of RNN-T with every probability times s, by enumeration, against a power of s."""
    def rhs(scaled, s, T, U, z):
        return s ** (T + U) * z

    check_equation("eq-blank-sigma-rnnt", first, rhs, (
        (rnnt_z(y * s, labels), s, len(y), len(labels), rnnt_z(y, labels))
        for y, labels in RNNT_INPUTS for s in SCALES))


@computed(kind="walking")
def counts(T, labels, blanks):
    """Of each path the number of its steps, and those of its blanks, in one row."""
    paths = ways((0, 0), (T, len(labels)), steps(T, labels, blanks))
    return np.array([[len(path), *(sum(entry[-1] == k for entry in path) for k in blanks.values())] for path in paths])


@pytest.mark.equation("eq-blank-arc-count", patterns={r"n_{#m}(\pi)": "n[#m][pi]"})
def test_arc_count():
    """The number of steps of each enumerated path against its big blanks."""
    def lhs(N, n, blanks, M, T, U, pi):
        return N[pi]

    def rhs(N, n, blanks, M, T, U, pi):
        return T + U - sum((m - 1) * n[m][pi] for m in M)

    def cases():
        for T, _, labels, blanks in SHAPES:
            N, *n = counts(T, labels, blanks).T
            for pi in range(len(N)):
                yield N, dict(zip(blanks, n, strict=True)), blanks, tuple(blanks), T, len(labels), pi

    check_equation("eq-blank-arc-count", lhs, rhs, cases())


@computed
def shares(y, labels, blanks):
    """Each path's share of the mass of all."""
    masses = np.array([rnnt_mass(y, path) for path in ways(
        (0, 0), (len(y), len(labels)), steps(len(y), labels, blanks))], dtype=object)
    return masses / masses.sum()


@pytest.mark.equation("eq-blank-sigma-tilt", over={"j": "chance"}, patterns={
    r"\Pr_\sigma(\pi)": "tilted[pi]", r"\Pr(\pi)": "share[pi]", "\\Pr(N = j)": "chance[j]"})
def test_sigma_tilt():
    """Each path's share, all probabilities times s, against its share without, tilted by its number of steps."""
    def lhs(tilted, share, N, chance, s, pi):
        return tilted[pi]

    def rhs(tilted, share, N, chance, s, pi):
        return s ** N[pi] * share[pi] / sum(s ** j * chance[j] for j in chance)

    def cases():
        for (y, labels, blanks), s in scales():
            share, N = shares(y, labels, blanks), counts(len(y), labels, blanks)[:, 0].tolist()
            chance = {n: sum(share[pi] for pi in range(len(N)) if N[pi] == n) for n in N}
            for pi in range(len(N)):
                yield shares(y * s, labels, blanks), share, N, chance, s, pi

    check_equation("eq-blank-sigma-tilt", lhs, rhs, cases())


def tilted_gamma(y, labels, blanks, s):
    """alpha beta / Z of each node, every step times s."""
    beta = blank_beta(y * s, labels, blanks)
    return blank_alpha(y * s, labels, blanks) * beta[:-1] / beta[0, 0]


@computed(kind="sympy")
def sigma_slope(y, labels, blanks, s, times):
    """d^n L_sigma / d sigma^n where e^(-sigma) = s: sympy differentiates -log of the path sum. Exact rationals."""
    sigma = sympy.Symbol("sigma", real=True)
    z = sum(sympy.Rational(*rnnt_mass(y, path).as_integer_ratio()) * sympy.exp(-sigma * len(path)) for path in ways(
        (0, 0), (len(y), len(labels)), steps(len(y), labels, blanks)))
    slope = sympy.diff(-sympy.log(z), sigma, times).subs(sigma, -sympy.log(sympy.Rational(*s.as_integer_ratio())))
    slope = sympy.Rational(sympy.simplify(slope))
    return Fraction(int(slope.p), int(slope.q))


def shares_and_counts():
    """e^(-sigma), the paths' shares, all probabilities times that, their numbers of steps, and their places."""
    for (y, labels, blanks), s in scales():
        N = counts(len(y), labels, blanks)[:, 0].tolist()
        yield y, labels, blanks, s, shares(y * s, labels, blanks), N, range(len(N))


@pytest.mark.equation("eq-blank-sigma-slope", patterns={r"\gamma_\sigma(#t, #u)": "gamma[#t, #u]"})
def test_sigma_slope():
    """sympy: derivative of -log of the path sum by sigma against the sum of the node occupancies, of alpha and beta,
    and against the mean number of steps of the enumerated paths."""
    def occupancies(slope, gamma, s, tilted, N, paths, T, U):
        return sum(sum(gamma[t, u] for u in range(0, U + 1)) for t in range(0, T))

    def mean(slope, gamma, s, tilted, N, paths, T, U):
        return sum(tilted[pi] * N[pi] for pi in paths)

    def cases():
        for *case, s, tilted, N, paths in shares_and_counts():
            (y, labels, _), gamma = case, tilted_gamma(*case, s)
            yield (sigma_slope(*case, s, 1), zero_outside(gamma, zero=5), s, tilted, N, paths, len(y), len(labels))

    check_equation("eq-blank-sigma-slope", first, occupancies, cases())
    check_equation("eq-blank-sigma-slope", first, mean, cases())


@pytest.mark.equation("eq-blank-sigma-curvature")
def test_sigma_curvature():
    """sympy: second derivative by sigma against minus the variance of the number of steps."""
    def rhs(slope, s, tilted, N, paths):
        return -sum(tilted[pi] * N[pi] ** 2 for pi in paths) + sum(tilted[pi] * N[pi] for pi in paths) ** 2

    check_equation("eq-blank-sigma-curvature", first, rhs, (
        (sigma_slope(*case, s, 2), s, tilted, N, paths) for *case, s, tilted, N, paths in shares_and_counts()))


@pytest.mark.equation("eq-blank-sigma-grad", patterns={
    r"\frac{\partial L_\sigma}{\partial z_{t,u}(k)}": "grad_logits", r"\gamma_\sigma(#t, #u)": "gamma[#t, #u]",
    r"E^\sigma_{#t,#u}(#k)": "occupancy[#t, #u, #k]"})
def test_sigma_grad():
    """sympy: derivative of -log of the path sum, every step times s, with respect to each logit, against the true
    softmax, node occupancies of alpha and beta, and occupancies of paths. With s times the softmax in its place, the
    symbols of a node add up to s - 1 times the node occupancy."""
    def rhs(grad_logits, y, gamma, occupancy, blanks, s, t, u, k):
        return y[t, u, k] * gamma[t, u] - occupancy[t, u, k]

    def cases():
        for (x, labels, blanks), s in scales():
            y, above, below = softmax(x), *s.as_integer_ratio()
            gamma = tilted_gamma(y, labels, blanks, s)
            uses = expected_uses(y * s, blank_paths(len(y), labels, blanks))
            for index in np.ndindex(y.shape):
                slope = grad_logit(lambda y, labels=labels, blanks=blanks, above=above, below=below:
                                   blank_z(y * above / below, labels, blanks), x, *index)
                yield slope, *outside(y, gamma, uses), blanks, s, *index

    check_equation("eq-blank-sigma-grad", first, rhs, cases())
    for (x, labels, blanks), s in scales():
        gamma = tilted_gamma(softmax(x), labels, blanks, s)
        slip = softmax(x) * s * gamma[..., None] - expected_uses(softmax(x) * s, blank_paths(len(x), labels, blanks))
        assert (slip.sum(axis=-1) == (s - 1) * gamma).all()

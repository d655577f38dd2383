"""Checks of the equations of the chapter on multi-blank RNN-T and TDT. The left sides come from enumerated ways."""

from collections import defaultdict
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
import sympy
from brute_force import BLANK, expected_uses, next_label, probabilities, rnnt_mass, rnnt_z, zero

from reference_impl.differences import exact_difference, random_integers
from reference_impl.equations import check_equation, zero_outside
from reference_impl.symbolic import field_grid

V = 3  # of TDT; in multi-blank RNN-T two big blanks more
BLANKS = {1: 0, 2: 3, 3: 4}  # frames of each blank, and its symbol
S = Fraction(3, 5)  # e^(-sigma)


# --- ways on the grid, by trying every step ---


def ways(start, goal, steps):
    """Lists of the steps (source, target, entries) that lead from one node to another."""
    if start == goal:
        yield []
    elif start[0] <= goal[0] and start[1] <= goal[1]:
        for target, entries in steps(*start):
            yield from ([(start, target, entries), *rest] for rest in ways(target, goal, steps))


class Case:
    """Scores y of a lattice whose steps are given, and everything that enumeration says of it."""

    def __init__(self, y, T, labels, steps):
        self.y, self.T, self.labels, self.U, self.steps = y, T, labels, len(labels), steps
        self.walks = list(ways((0, 0), (T, self.U), self.inside))
        self.paths = [[entry for *_, entries in walk for entry in entries] for walk in self.walks]

    def inside(self, t, u):
        for target, entries in self.steps(t, u) if t < self.T else ():
            if (target[0] < self.T and target[1] <= self.U) or target == (self.T, self.U):
                yield target, entries

    def total(self, start, goal, y=None):
        y = self.y if y is None else y
        return sum((rnnt_mass(y, [entry for *_, entries in walk for entry in entries])
                    for walk in ways(start, goal, self.inside)), zero(y))

    @property
    def z(self):
        return sum((rnnt_mass(self.y, path) for path in self.paths), zero(self.y))

    def nodes(self):
        return np.ndindex(self.T, self.U + 1)

    @property
    def alpha(self):
        alpha = np.full((self.T, self.U + 1), zero(self.y), dtype=object)
        for node in self.nodes():
            alpha[node] += self.total((0, 0), node)
        return alpha

    @property
    def beta(self):
        """With one more column, which contains nothing but the end."""
        beta = np.full((self.T + 1, self.U + 1), zero(self.y), dtype=object)
        for node in self.nodes():
            beta[node] += self.total(node, (self.T, self.U))
        beta[self.T, self.U] += 1
        return beta

    @property
    def occupancy(self):
        return expected_uses(self.y, self.paths)

    def share(self, wanted):
        """Mass of the paths with a step that is wanted, divided by the mass of all."""
        masses = [rnnt_mass(self.y, path) for path in self.paths]
        return sum((mass for mass, walk in zip(masses, self.walks, strict=True) if any(wanted(*step) for step in walk)),
                   zero(self.y)) / sum(masses)

    def gamma(self, t, u):
        return self.share(lambda source, *_: source == (t, u))


def multi_blank(y, T, labels, blanks=None):
    def steps(t, u):
        yield from (((t + m, u), [(t, u, k)]) for m, k in (blanks or BLANKS).items())
        if u < len(labels):
            yield (t, u + 1), [(t, u, labels[u])]
    return Case(y, T, labels, steps)


def tdt(y, T, labels, durations, final_blank=True, symbols=V):
    """Scores of durations stand behind those of the symbols."""
    def steps(t, u):
        for i, d in enumerate(durations):
            if d > 0:
                yield (t + d, u), [(t, u, BLANK), (t, u, symbols + i)]
            if u < len(labels) and (t + d < T or not final_blank):
                yield (t + d, u + 1), [(t, u, labels[u]), (t, u, symbols + i)]
    case = Case(y, T, labels, steps)
    case.durations, case.symbols = durations, symbols
    return case


MULTI_BLANK_SHAPES = [(4, [1, 2]), (3, [2, 2]), (2, [1, 2, 1]), (1, [2]), (5, [1]), (3, [])]
MULTI_BLANK = [multi_blank(probabilities(seed, (T, len(labels) + 1, 5)), T, labels)
               for seed, (T, labels) in enumerate(MULTI_BLANK_SHAPES)]
# with 1 and without it, with 0 and without it; more labels than frames; no label
TDT_SHAPES = [(4, [1, 2], (0, 2, 3)), (3, [1, 2], (0, 1, 2)), (2, [2, 2, 1], (0, 1)), (4, [2], (1, 2)),
              (5, [1], (0, 2, 3)), (3, [], (1, 3))]
TDT, TDT_OPEN = ([tdt(probabilities(seed, (T, len(labels) + 1, V + len(D))), T, labels, D, final_blank)
                  for seed, (T, labels, D) in enumerate(TDT_SHAPES)] for final_blank in (True, False))


def blanks_and_labels(case):
    """y(blank of m frames), a dict by m, and y(next label), each of all nodes."""
    blank = {m: zero_outside(case.y[:, :, k]) for m, k in BLANKS.items()}
    return blank, zero_outside(next_labels(case))


def next_labels(case):
    label = case.y[:, :, 0] * 0
    for u, k in enumerate(case.labels):
        label[:, u] = case.y[:, u, k]
    return label


class Durations:
    """q[d, t, u], 0 for what is no duration and outside the grid."""

    def __init__(self, y, durations):
        self.by_d = {d: zero_outside(y[:, :, i - len(durations)]) for i, d in enumerate(durations)}

    def __getitem__(self, index):
        d, t, u = index
        return self.by_d[d][t, u] if d in self.by_d else 0


def parts(case):
    """D, D without 0, the weights of blank and label, and q."""
    D = case.durations
    return (D, tuple(d for d in D if d > 0), zero_outside(case.y[:, :, BLANK]), zero_outside(next_labels(case)),
            Durations(case.y, D))


# --- multi-blank RNN-T ---


@pytest.mark.equation("eq-blank-alpha")
def test_blank_alpha():
    """Mass of the enumerated beginnings against those of the nodes before."""
    def rhs(mass, alpha, blank, label, M, t, u):
        return (sum(alpha[t - m, u] * blank[m][t - m, u] for m in M)
                + alpha[t, u - 1] * label[t, u - 1])

    cases = [(alpha[t, u], zero_outside(alpha), *blanks_and_labels(case), tuple(BLANKS), t, u)
             for case in MULTI_BLANK for alpha in [case.alpha] for t, u in case.nodes() if (t, u) != (0, 0)]
    check_equation("eq-blank-alpha", lambda mass, *_: mass, rhs, cases)


@pytest.mark.equation("eq-blank-total")
def test_blank_total():
    """Mass of the enumerated paths against alpha and the last blank."""
    def rhs(z, alpha, blank, M, T, U):
        return sum(alpha[T - m, U] * blank[m][T - m, U] for m in M)

    cases = [(case.z, zero_outside(case.alpha), blanks_and_labels(case)[0], tuple(BLANKS), case.T, case.U)
             for case in MULTI_BLANK]
    check_equation("eq-blank-total", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-blank-beta")
def test_blank_beta():
    """Mass of the enumerated endings against those of the nodes after."""
    def rhs(mass, beta, blank, label, M, t, u):
        return (sum(blank[m][t, u] * beta[t + m, u] for m in M)
                + label[t, u] * beta[t, u + 1])

    cases = [(beta[t, u], zero_outside(beta), *blanks_and_labels(case), tuple(BLANKS), t, u)
             for case in MULTI_BLANK for beta in [case.beta] for t, u in case.nodes()]
    check_equation("eq-blank-beta", lambda mass, *_: mass, rhs, cases)


def blank_posteriors(case):
    """e[m][t, u]: share of the paths that use a blank of m frames at a node."""
    occupancy = case.occupancy
    return {m: zero_outside(occupancy[:, :, k]) for m, k in BLANKS.items()}


@pytest.mark.equation("eq-blank-arc")
def test_blank_arc():
    """Share of the enumerated paths that use a blank of m frames against alpha, the step, and beta."""
    def rhs(share, alpha, beta, blank, z, m, t, u):
        return alpha[t, u] * blank[m][t, u] * beta[t + m, u] / z

    cases = [(blank_posteriors(case)[m][t, u], zero_outside(case.alpha), zero_outside(case.beta),
              blanks_and_labels(case)[0], case.z, m, t, u)
             for case in MULTI_BLANK for t, u in case.nodes() for m in BLANKS]
    check_equation("eq-blank-arc", lambda share, *_: share, rhs, cases)


@pytest.mark.equation("eq-blank-cover")
def test_blank_cover():
    """alpha, step, beta: the blanks that go over a frame, of whatever length, add up to 1."""
    def rhs(e, M, t, U):
        return sum(e[m][t - j, u] for u in range(0, U + 1) for m in M for j in range(0, m))

    cases = []
    for case in MULTI_BLANK:
        alpha, beta, (blank, _), z = case.alpha, zero_outside(case.beta), blanks_and_labels(case), case.z
        e = {m: np.full(alpha.shape, None) for m in BLANKS}
        for m, (t, u) in product(BLANKS, case.nodes()):
            e[m][t, u] = alpha[t, u] * blank[m][t, u] * beta[t + m, u] / z
        # outside the grid: nothing before the first frame; a row or a frame that does not exist counts
        e = {m: Fenced(array) for m, array in e.items()}
        cases += [(e, tuple(BLANKS), t, case.U) for t in range(case.T)]
    check_equation("eq-blank-cover", lambda *_: 1, rhs, cases)


class Fenced:
    """0 before the first frame; elsewhere outside an array something that would be noticed."""

    def __init__(self, array):
        self.array, self.outside = array, zero_outside(array, zero=5)

    def __getitem__(self, index):
        return 0 if index[0] < 0 and 0 <= index[1] < self.array.shape[1] else self.outside[index]


def compositions(frames, T):
    """Sequences of n of the given numbers that add up to T: {(n, T): count}, n from 1 to T, by trying all."""
    return {(n, T): sum(sum(each) == T for each in product(frames, repeat=n)) for n in range(1, T + 1)}


@pytest.mark.equation("eq-blank-path-count")
def test_blank_path_count():
    """The number of enumerated paths against places for the labels, times lengths for the blanks."""
    def rhs(count, c, T, U):
        return sum(comb(n - 1 + U, U) * c[n, T] for n in range(1, T + 1))

    cases = [(len(case.paths), compositions(BLANKS, case.T), case.T, case.U) for case in MULTI_BLANK]
    check_equation("eq-blank-path-count", lambda count, *_: count, rhs, cases)


def with_symbols_at(seed, shape, node, groups, extra=0):
    """(x, y, extra symbols): x are integers but at one node, where they are symbols of a field; y is the softmax of x,
    in groups."""
    own = field_grid("x", (sum(groups) + extra,))
    one = own[0] / own[0]
    x = random_integers(np.random.default_rng(seed), shape, bits=4) * one
    x[node] = own[:sum(groups)]
    parts = np.split(x, np.cumsum(groups)[:-1], -1)
    return x, np.concatenate([part / part.sum(-1, keepdims=True) for part in parts], -1), own[sum(groups):]


def blank_slopes(tilted):
    """At each node: (derivative of -log Z by each logit there, by sympy; y, the case, the node). Tilted: the weights of
    all arcs are multiplied by a symbol, e^(-sigma), and it is seen to that something depends on it."""
    moved = 0
    for seed, (T, labels) in enumerate([(3, [2, 1]), (2, [1, 1]), (3, [])]):
        shape = T, len(labels) + 1, 5
        for node in np.ndindex(shape[:2]):
            x, y, (s,) = with_symbols_at(seed, shape, node, (5,), extra=1)
            case = multi_blank(y * s if tilted else y, T, labels)
            z = case.z
            slopes = [-x[*node, k] * z.diff(x[*node, k]) / z for k in range(5)]
            moved += sum(slope.diff(s) != 0 for slope in slopes)
            yield slopes, y, case, node
    assert (moved > 0) == tilted


def only_at(node, value, y):
    """A (T, U+1) array that has a value at one node and 0 elsewhere."""
    array = np.full(y.shape[:2], zero(y))
    array[node] = value
    return zero_outside(array, zero(y))


@pytest.mark.equation("eq-blank-sigma-grad")
def test_blank_sigma_grad():
    """sympy: derivative of -log Z by each logit, all arcs times s, against softmax, node occupancy and occupancy."""
    def rhs(slope, y, gamma, occupancy, t, u, k):
        return y[t, u, k] * gamma[t, u] - occupancy[t, u, k]

    cases = []
    for slopes, y, case, (t, u) in blank_slopes(tilted=True):
        gamma, occupancy = only_at((t, u), case.gamma(t, u), y), zero_outside(case.occupancy, zero(y))
        cases += [(slope, zero_outside(y, zero(y)), gamma, occupancy, t, u, k) for k, slope in enumerate(slopes)]
    check_equation("eq-blank-sigma-grad", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-blank-grad-logits")
def test_blank_grad_logits():
    """sympy: derivative of -log Z by each logit against alpha, step and beta, symbol by symbol."""
    def rhs(slope, y, gamma, e_label, e, labels, symbol, M, t, u, k):
        return (y[t, u, k] * gamma[t, u] - (k == labels[u]) * e_label[t, u]
                - sum((k == symbol[m]) * e[m][t, u] for m in M))

    cases = []
    for slopes, y, case, (t, u) in blank_slopes(tilted=False):
        alpha, beta, (blank, label), z = case.alpha, zero_outside(case.beta, zero(y)), blanks_and_labels(case), case.z
        gamma = only_at((t, u), alpha[t, u] * beta[t, u] / z, y)
        e_label = only_at((t, u), alpha[t, u] * label[t, u] * beta[t, u + 1] / z, y)
        e = {m: only_at((t, u), alpha[t, u] * blank[m][t, u] * beta[t + m, u] / z, y) for m in BLANKS}
        cases += [(slope, zero_outside(y, zero(y)), gamma, e_label, e, zero_outside(case.labels, -1), BLANKS,
                   tuple(BLANKS), t, u, k) for k, slope in enumerate(slopes)]
    check_equation("eq-blank-grad-logits", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-blank-sigma-rnnt")
def test_sigma_in_rnnt():
    """Z of RNN-T with every probability times s, by enumeration, against a power of s."""
    def rhs(scaled, s, T, U, z):
        return s ** (T + U) * z

    cases = []
    for seed, (T, labels) in enumerate([(3, [1, 2]), (2, [1, 1, 2]), (4, [])]):
        y = probabilities(seed, (T, len(labels) + 1, 3))
        cases.append((rnnt_z(y * S, labels), S, T, len(labels), rnnt_z(y, labels)))
    check_equation("eq-blank-sigma-rnnt", lambda scaled, *_: scaled, rhs, cases)


@pytest.mark.equation("eq-blank-arc-count")
def test_blank_arc_count():
    """The number of arcs of each enumerated path against its big blanks."""
    def rhs(count, n, M, T, U):
        return T + U - sum((m - 1) * n[m] for m in M)

    cases = [(len(path), {m: sum(entry[2] == k for entry in path) for m, k in BLANKS.items()}, tuple(BLANKS), case.T,
              case.U) for case in MULTI_BLANK for path in case.paths]
    check_equation("eq-blank-arc-count", lambda count, *_: count, rhs, cases)


def scaled(case):
    return multi_blank(case.y * S, case.T, case.labels)


def arc_counts(case):
    """Pr(N = n), and each path's share, by enumeration."""
    shares = [rnnt_mass(case.y, path) / case.z for path in case.paths]
    chances = defaultdict(Fraction)
    for path, share in zip(case.paths, shares, strict=True):
        chances[len(path)] += share
    return dict(chances), shares


@pytest.mark.equation("eq-blank-sigma-tilt")
def test_sigma_tilt():
    """Each path's share, all probabilities times s, against its share without, tilted by its number of arcs."""
    def rhs(share, s, N, before, chance, counts):
        return s ** N * before / sum(s ** n * chance[n] for n in counts)

    cases = []
    for case in MULTI_BLANK:
        (chances, before), (_, after) = arc_counts(case), arc_counts(scaled(case))
        cases += [(share, S, len(path), was, chances, tuple(chances))
                  for path, share, was in zip(case.paths, after, before, strict=True)]
    check_equation("eq-blank-sigma-tilt", lambda share, *_: share, rhs, cases)


def sigma_derivatives(case, times):
    """d^n L_sigma / d sigma^n where e^(-sigma) = S, by sympy, exact."""
    sigma = sympy.Symbol("sigma", real=True)
    z = sum(sympy.Rational(*rnnt_mass(case.y, path).as_integer_ratio()) * sympy.exp(-sigma * len(path))
            for path in case.paths)
    slope = sympy.diff(-sympy.log(z), sigma, times).subs(sigma, -sympy.log(sympy.Rational(*S.as_integer_ratio())))
    slope = sympy.Rational(sympy.simplify(slope))
    return Fraction(int(slope.p), int(slope.q))


@pytest.mark.equation("eq-blank-sigma-slope")
def test_sigma_slope():
    """sympy: derivative of -log of the path sum by sigma against the sum of the enumerated node occupancies."""
    def rhs(slope, gamma, T, U):
        return sum(gamma[t, u] for t in range(0, T) for u in range(0, U + 1))

    cases = []
    for case in MULTI_BLANK:
        gamma = scaled(case).occupancy.sum(-1)
        cases.append((sigma_derivatives(case, 1), zero_outside(gamma, zero=5), case.T, case.U))
    check_equation("eq-blank-sigma-slope", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-blank-sigma-curvature")
def test_sigma_curvature():
    """sympy: second derivative by sigma against minus the variance of the number of arcs."""
    def rhs(slope, N, share, paths):
        return -sum(share[p] * N[p] ** 2 for p in paths) + sum(share[p] * N[p] for p in paths) ** 2

    cases = []
    for case in MULTI_BLANK:
        shares, N = arc_counts(scaled(case))[1], [len(path) for path in case.paths]
        cases.append((sigma_derivatives(case, 2), dict(enumerate(N)), dict(enumerate(shares)), range(len(N))))
    assert sum(slope < 0 for slope, *_ in cases) > 2
    check_equation("eq-blank-sigma-curvature", lambda slope, *_: slope, rhs, cases)


# --- the token-and-duration transducer ---


@pytest.mark.equation("eq-tdt-alpha")
def test_tdt_alpha():
    """Mass of the enumerated beginnings against those of the nodes before."""
    def rhs(mass, alpha, blank, label, q, D, D_plus, t, u):
        return (sum(alpha[t - d, u] * blank[t - d, u] * q[d, t - d, u] for d in D_plus)
                + sum(alpha[t - d, u - 1] * label[t - d, u - 1] * q[d, t - d, u - 1] for d in D))

    cases = []
    for case in TDT:
        D, D_plus, blank, label, q = parts(case)
        alpha = case.alpha
        cases += [(alpha[t, u], zero_outside(alpha), blank, label, q, D, D_plus, t, u)
                  for t, u in case.nodes() if (t, u) != (0, 0)]
    check_equation("eq-tdt-alpha", lambda mass, *_: mass, rhs, cases)


@pytest.mark.equation("eq-tdt-total")
def test_tdt_total():
    """Mass of the enumerated paths that end with a blank against alpha and that blank."""
    def rhs(z, alpha, blank, q, D_plus, T, U):
        return sum(alpha[T - d, U] * blank[T - d, U] * q[d, T - d, U] for d in D_plus)

    cases = []
    for case in TDT:
        _, D_plus, blank, _, q = parts(case)
        cases.append((case.z, zero_outside(case.alpha), blank, q, D_plus, case.T, case.U))
    check_equation("eq-tdt-total", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-tdt-total-open")
def test_tdt_total_open():
    """Mass of the enumerated paths whose last arc may be a label's against Z and that label."""
    def rhs(z_open, z, alpha, label, q, D_plus, T, U):
        return z + sum(alpha[T - d, U - 1] * label[T - d, U - 1] * q[d, T - d, U - 1] for d in D_plus)

    cases = []
    for case, opened in zip(TDT, TDT_OPEN, strict=True):
        _, D_plus, _, label, q = parts(case)
        cases.append((opened.z, case.z, zero_outside(case.alpha), label, q, D_plus, case.T, case.U))
    check_equation("eq-tdt-total-open", lambda z_open, *_: z_open, rhs, cases)


@pytest.mark.equation("eq-tdt-beta")
def test_tdt_beta():
    """Mass of the enumerated endings against those of the nodes after."""
    def rhs(mass, beta, blank, label, q, D, D_plus, T, t, u):
        return (blank[t, u] * sum(q[d, t, u] * beta[t + d, u] for d in D_plus)
                + label[t, u] * sum(q[d, t, u] * beta[t + d, u + 1] for d in D if t + d < T))

    cases = []
    for case in TDT:
        D, D_plus, blank, label, q = parts(case)
        beta = case.beta
        cases += [(beta[t, u], zero_outside(beta), blank, label, q, D, D_plus, case.T, t, u) for t, u in case.nodes()]
    check_equation("eq-tdt-beta", lambda mass, *_: mass, rhs, cases)


def pair_shares(case):
    """e_blank[d, t, u] and e_label[d, t, u]: share of the paths that use a symbol and a duration together."""
    pairs = [Pairs(), Pairs()]
    for t, u in case.nodes():
        for i, d in enumerate(case.durations):
            for rows, e in enumerate(pairs):
                used = [(t, u, (BLANK, next_label(case.labels, u))[rows]), (t, u, case.symbols + i)]
                e[d, t, u] = case.share(lambda *step, used=used: step[2] == used)
    return pairs


class Pairs(dict):
    """0 where there is none."""

    def __missing__(self, index):
        return 0


@pytest.mark.equation("eq-tdt-blank-pair")
def test_tdt_blank_pair():
    """Share of the enumerated paths that use blank and duration together against alpha, both factors, and beta."""
    def rhs(share, alpha, beta, blank, q, z, d, t, u):
        return alpha[t, u] * blank[t, u] * q[d, t, u] * beta[t + d, u] / z

    cases = []
    for case in TDT:
        _, D_plus, blank, _, q = parts(case)
        e_blank, alpha, beta, z = pair_shares(case)[0], zero_outside(case.alpha), zero_outside(case.beta), case.z
        cases += [(e_blank[d, t, u], alpha, beta, blank, q, z, d, t, u) for t, u in case.nodes() for d in D_plus]
    check_equation("eq-tdt-blank-pair", lambda share, *_: share, rhs, cases)


@pytest.mark.equation("eq-tdt-label-pair")
def test_tdt_label_pair():
    """The same for the next label, unless it leads to the end."""
    def rhs(share, alpha, beta, label, q, z, d, t, u):
        return alpha[t, u] * label[t, u] * q[d, t, u] * beta[t + d, u + 1] / z

    cases = []
    for case in TDT:
        D, _, _, label, q = parts(case)
        e_label, alpha, beta, z = pair_shares(case)[1], zero_outside(case.alpha), zero_outside(case.beta), case.z
        assert not any(e_label[d, t, u] for t, u in case.nodes() for d in D if t + d >= case.T)
        cases += [(e_label[d, t, u], alpha, beta, label, q, z, d, t, u)
                  for t, u in case.nodes() for d in D if t + d < case.T]
    check_equation("eq-tdt-label-pair", lambda share, *_: share, rhs, cases)


def formula_pairs(case, alpha=None, beta=None):
    """The pairs by alpha, factors, and beta."""
    D, D_plus, blank, label, q = parts(case)
    alpha, beta, z = case.alpha, zero_outside(case.beta if beta is None else beta), case.z
    e_blank, e_label = Pairs(), Pairs()
    for t, u in case.nodes():
        for d in D:
            if d > 0:
                e_blank[d, t, u] = alpha[t, u] * blank[t, u] * q[d, t, u] * beta[t + d, u] / z
            if t + d < case.T:
                e_label[d, t, u] = alpha[t, u] * label[t, u] * q[d, t, u] * beta[t + d, u + 1] / z
    return e_blank, e_label


@pytest.mark.equation("eq-tdt-token-occupancy")
def test_token_occupancy():
    """Share of the enumerated paths that use a symbol against its pairs, by alpha, factors and beta."""
    def rhs(share, e_blank, e_label, labels, D, t, u, k):
        return (k == BLANK) * sum(e_blank[d, t, u] for d in D) + (k == labels[u]) * sum(e_label[d, t, u] for d in D)

    cases = []
    for case in TDT:
        occupancy, pairs = case.occupancy, formula_pairs(case)
        cases += [(occupancy[t, u, k], *pairs, zero_outside(case.labels, -1), case.durations, t, u, k)
                  for t, u in case.nodes() for k in range(V)]
    check_equation("eq-tdt-token-occupancy", lambda share, *_: share, rhs, cases)


@pytest.mark.equation("eq-tdt-duration-occupancy")
def test_duration_occupancy():
    """Share of the enumerated paths that use a duration against its pairs, by alpha, factors and beta."""
    def rhs(share, e_blank, e_label, d, t, u):
        return e_blank[d, t, u] + e_label[d, t, u]

    cases = []
    for case in TDT:
        occupancy, pairs = case.occupancy, formula_pairs(case)
        cases += [(occupancy[t, u, V + i], *pairs, d, t, u)
                  for t, u in case.nodes() for i, d in enumerate(case.durations)]
    check_equation("eq-tdt-duration-occupancy", lambda share, *_: share, rhs, cases)


@pytest.mark.equation("eq-tdt-same-occupancy")
def test_same_occupancy():
    """Share of the enumerated paths that pass a node against the sums over its symbols, and over its durations."""
    def rhs(share, E, F, D, V, t, u):
        return sum(E[t, u, k] for k in range(0, V)), sum(F[t, u, i] for i in range(0, D))

    cases = []
    for case in TDT:
        (e_blank, e_label), nodes = formula_pairs(case), list(case.nodes())
        E, F = (np.full((case.T, case.U + 1, size), Fraction(0), dtype=object) for size in (V, len(case.durations)))
        for t, u in nodes:
            for i, d in enumerate(case.durations):
                E[t, u, BLANK] += e_blank[d, t, u]
                F[t, u, i] = e_blank[d, t, u] + e_label[d, t, u]
                if u < case.U:
                    E[t, u, case.labels[u]] += e_label[d, t, u]
        cases += [(case.gamma(t, u), zero_outside(E, 5), zero_outside(F, 5), len(case.durations), V, t, u)
                  for t, u in nodes]
    # the last symbol of V is not every target's, and one duration may be the only one in use
    check_equation("eq-tdt-same-occupancy", lambda share, *_: (share, share), rhs, cases)


@pytest.mark.equation("eq-tdt-cover")
def test_tdt_cover():
    """The pairs that go over a frame, by alpha, factors and beta, add up to 1."""
    def rhs(e_blank, e_label, D_plus, t, U):
        return sum(e_blank[d, t - j, u] + e_label[d, t - j, u]
                   for u in range(0, U + 1) for d in D_plus for j in range(0, d))

    cases = []
    for case in TDT:
        pairs = [FencedPairs(pairs, case) for pairs in formula_pairs(case)]
        cases += [(*pairs, parts(case)[1], t, case.U) for t in range(case.T)]
    check_equation("eq-tdt-cover", lambda *_: 1, rhs, cases)


class FencedPairs:
    """Pairs: 0 before the first frame, elsewhere outside something that would be noticed."""

    def __init__(self, pairs, case):
        self.pairs, self.case = pairs, case

    def __getitem__(self, index):
        d, t, u = index
        if t < self.case.T and 0 <= u <= self.case.U:
            return self.pairs[d, t, u]
        return 5


def polynomial_ways(D, T, blanks, labels):
    """Ways to give durations to so many blanks and labels that add up to T, by trying all; None: not asked for."""
    return sum(sum(each) == T for each in product(*[[d for d in D if d > 0]] * blanks, *[D] * labels))


class Ways(dict):
    def __init__(self, D, T):
        super().__init__()
        self.D, self.T = D, T

    def __missing__(self, index):
        n, labels, T = index
        if n < 0 or labels < 0 or n > self.T or T != self.T:
            raise KeyError(index)
        return polynomial_ways(self.D, T, n, labels)


@pytest.mark.equation("eq-tdt-path-count")
def test_tdt_path_count():
    """The number of enumerated paths against places for the labels, times durations for all."""
    def rhs(count, c, T, U):
        return sum(comb(n - 1 + U, U) * c[n, U, T] for n in range(1, T + 1))

    cases = [(len(case.paths), Ways(case.durations, case.T), case.T, case.U) for case in TDT]
    check_equation("eq-tdt-path-count", lambda count, *_: count, rhs, cases)


@pytest.mark.equation("eq-tdt-path-count-open")
def test_tdt_path_count_open():
    """How many more enumerated paths there are if the last arc may be a label's."""
    def rhs(more, c, T, U):
        return sum(comb(n + U - 1, n) * c[n + 1, U - 1, T] for n in range(0, T))

    cases = [(len(opened.paths) - len(case.paths), Ways(case.durations, case.T), case.T, case.U)
             for case, opened in zip(TDT, TDT_OPEN, strict=True) if case.U > 0]
    check_equation("eq-tdt-path-count-open", lambda more, *_: more, rhs, cases)


@pytest.mark.equation("eq-tdt-arc-count")
def test_tdt_arc_count():
    """The number of pairs of each enumerated path against the durations of its blanks and of its labels."""
    def rhs(count, blanks, labels, D, T, U):
        return T + U - sum((d - 1) * blanks[d] + d * labels[d] for d in D)

    cases = []
    for case in TDT:
        for walk in case.walks:
            used = [(d, k) for *_, ((*_, k), (*_, i)) in walk for d in [case.durations[i - V]]]
            blanks, labels = ({d: sum(each == d and (k == BLANK) == of_blank for each, k in used)
                               for d in case.durations} for of_blank in (True, False))
            cases.append((len(walk), blanks, labels, case.durations, case.T, case.U))
    check_equation("eq-tdt-arc-count", lambda count, *_: count, rhs, cases)


def tdt_slopes():
    """At each node: (derivative of -log Z by each logit there, by sympy; y, the weights of all symbols multiplied by
    the symbol s; s, the case, the node)."""
    for seed, (T, labels, D) in enumerate([(4, [1, 2], (0, 2)), (2, [2], (0, 1)), (3, [1], (1, 2)), (3, [], (1, 3))]):
        shape = T, len(labels) + 1, V + 2
        for node in np.ndindex(shape[:2]):
            x, y, (s,) = with_symbols_at(seed, shape, node, (V, 2), extra=1)
            case = tdt(np.concatenate([y[..., :V] * s, y[..., V:]], -1), T, labels, D)
            z = case.z
            yield [-x[*node, k] * z.diff(x[*node, k]) / z for k in range(V + 2)], y, s, case, node


@pytest.mark.equation("eq-tdt-grad-tokens")
def test_grad_tokens():
    """sympy: derivative of -log Z by the logit of each symbol against softmax, node occupancy, and its occupancy."""
    def rhs(slope, y, gamma, E, t, u, k):
        return y[t, u, k] * gamma[t, u] - E[t, u, k]

    cases = []
    for slopes, y, _, case, (t, u) in tdt_slopes():
        gamma, E = only_at((t, u), case.gamma(t, u), y), zero_outside(case.occupancy[..., :V], zero(y))
        cases += [(slopes[k], zero_outside(y, zero(y)), gamma, E, t, u, k) for k in range(V)]
    check_equation("eq-tdt-grad-tokens", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-tdt-grad-durations")
def test_grad_durations():
    """sympy: derivative of -log Z by the logit of each duration against its softmax, the same node occupancy, and its
    occupancy."""
    def rhs(slope, q, gamma, F, t, u, i):
        return q[t, u, i] * gamma[t, u] - F[t, u, i]

    cases = []
    for slopes, y, _, case, (t, u) in tdt_slopes():
        gamma, F = only_at((t, u), case.gamma(t, u), y), zero_outside(case.occupancy[..., V:], zero(y))
        cases += [(slopes[V + i], zero_outside(y[..., V:], zero(y)), gamma, F, t, u, i) for i in range(2)]
    check_equation("eq-tdt-grad-durations", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-tdt-merged")
def test_tdt_merged():
    """sympy: the same derivative, by a symbol's logit, against the merged form with e^(-sigma) before the sums."""
    def rhs(slope, y, q, alpha, beta, z, s, labels, D, D_plus, T, t, u, k):
        return y[t, u, k] * alpha[t, u] / z * (
            beta[t, u] - s * (k == BLANK) * sum(q[d, t, u] * beta[t + d, u] for d in D_plus)
            - s * (k == labels[u]) * sum(q[d, t, u] * beta[t + d, u + 1] for d in D if t + d < T))

    cases = []
    for slopes, y, s, case, (t, u) in tdt_slopes():
        D, z, alpha, beta = case.durations, case.z, zero_outside(case.alpha, zero(y)), zero_outside(case.beta, zero(y))
        cases += [(slopes[k], zero_outside(y, zero(y)), Durations(y, D), alpha, beta, z, s,
                   zero_outside(case.labels, -1), D, parts(case)[1], case.T, t, u, k) for k in range(V)]
    check_equation("eq-tdt-merged", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-tdt-monotonic")
def test_monotonic():
    """Paths of the only duration 1 that may end with a label, against strings of one symbol a frame."""
    def rhs(z_open, z_monotonic):
        return z_monotonic

    cases = []
    for seed, (T, labels) in enumerate([(4, [1, 2]), (3, [2, 2]), (3, [1, 2, 1]), (2, [])]):
        y = probabilities(seed, (T, len(labels) + 1, V))
        strings = (s for s in product(range(V), repeat=T) if [k for k in s if k != BLANK] == labels)
        z = sum(rnnt_mass(y, [(t, sum(k != BLANK for k in s[:t]), k) for t, k in enumerate(s)]) for s in strings)
        with_one = np.concatenate([y, np.full((*y.shape[:2], 1), Fraction(1))], -1)
        cases.append((tdt(with_one, T, labels, (1,), final_blank=False).z, z))
    check_equation("eq-tdt-monotonic", lambda z_open, *_: z_open, rhs, cases)


@pytest.mark.equation("eq-tdt-rnnt-share")
def test_rnnt_share():
    """Mass of the enumerated paths whose labels last 0 frames and blanks 1, with the same q at every node."""
    def rhs(mass, q, T, U, z):
        return q[0] ** U * q[1] ** T * z

    cases = []
    for seed, (T, labels) in enumerate([(3, [1, 2]), (2, [2, 2, 1]), (1, [1]), (3, [])]):
        y = probabilities(seed, (T, len(labels) + 1, V))
        q = np.array([Fraction(2, 7), Fraction(5, 7)])
        case = tdt(np.concatenate([y, np.broadcast_to(q, (*y.shape[:2], 2))], -1), T, labels, (0, 1))
        mass = sum((rnnt_mass(case.y, path) for path, walk in zip(case.paths, case.walks, strict=True)
                    if all((k == BLANK) == (i == V + 1) for *_, ((*_, k), (*_, i)) in walk)), Fraction(0))
        cases.append((mass, zero_outside(q), T, len(labels), rnnt_z(y, labels)))
    check_equation("eq-tdt-rnnt-share", lambda mass, *_: mass, rhs, cases)


# --- a corner with mass ---

LEAKING = [case for case in TDT if 1 not in case.durations]


def leaking_beta(case):
    """The recursion for beta, from last to first, in an array that has a 1 where nothing is ever written."""
    D, D_plus, blank, label, q = parts(case)
    T, U = case.T, case.U
    beta = np.full((T + 1, U + 1), Fraction(0), dtype=object)
    beta[T, U] = beta[T - 1, U] = Fraction(1)
    read = zero_outside(beta)
    for t, u in product(reversed(range(T)), reversed(range(U + 1))):
        if (t, u) != (T - 1, U):
            beta[t, u] = (sum(blank[t, u] * q[d, t, u] * read[t + d, u] for d in D_plus)
                          + sum(label[t, u] * q[d, t, u] * read[t + d, u + 1] for d in D if t + d < T))
    return beta


def to_corner(case, t, u, y=None):
    """Mass of the ways from a node to (T-1, U)."""
    return case.total((t, u), (case.T - 1, case.U), y)


@pytest.mark.equation("eq-tdt-leak")
def test_leak():
    """The recursion with a corner that has mass 1 against enumerated endings and enumerated ways to the corner."""
    def rhs(leaking, beta, rho, t, u):
        return beta[t, u] + rho[t, u]

    cases = []
    for case in LEAKING:
        leaking, rho = leaking_beta(case), np.full((case.T, case.U + 1), Fraction(0), dtype=object)
        for node in case.nodes():
            rho[node] += to_corner(case, *node)
        cases += [(leaking, zero_outside(case.beta), zero_outside(rho), t, u) for t, u in case.nodes()]
    check_equation("eq-tdt-leak", lambda leaking, beta, rho, t, u: leaking[t, u], rhs, cases)


@pytest.mark.equation("eq-tdt-leak-total")
def test_leak_total():
    """What the recursion with the corner returns at the first node against Z and the mass that reaches the corner."""
    def rhs(leaking, z, alpha, T, U):
        return z + alpha[T - 1, U]

    cases = [(leaking_beta(case)[0, 0], case.z, zero_outside(case.alpha), case.T, case.U) for case in LEAKING]
    assert any(to_corner(case, 0, 0) for case in LEAKING)
    check_equation("eq-tdt-leak-total", lambda leaking, *_: leaking, rhs, cases)


@pytest.mark.equation("eq-tdt-leak-occupancy")
def test_leak_occupancy():
    """alpha, factors and the leaking beta against exact differences of the enumerated Z and of alpha(T-1, U)."""
    def rhs(value, y, z, dz, da, t, u, k):
        return y[t, u, k] / z * (dz[t, u, k] + da[t, u, k])

    cases = []
    for case in LEAKING:
        e_blank, e_label = formula_pairs(case, beta=leaking_beta(case))
        occupancy = case.y * Fraction(0)
        for t, u in case.nodes():
            for i, d in enumerate(case.durations):
                occupancy[t, u, BLANK] += e_blank[d, t, u]
                occupancy[t, u, V + i] += e_blank[d, t, u] + e_label[d, t, u]
                if u < case.U:
                    occupancy[t, u, case.labels[u]] += e_label[d, t, u]
        slopes = case.y * 0, case.y * 0
        for index in np.ndindex(case.y.shape):
            for slope, goal in zip(slopes, [(case.T, case.U), (case.T - 1, case.U)], strict=True):
                slope[index] = exact_difference(lambda y, goal=goal, case=case: case.total((0, 0), goal, y), case.y,
                                                index, h=3)
        cases += [(occupancy[index], zero_outside(case.y), case.z, *map(zero_outside, slopes), *index)
                  for index in np.ndindex(case.y.shape)]
    check_equation("eq-tdt-leak-occupancy", lambda value, *_: value, rhs, cases)


@pytest.mark.equation("eq-tdt-leak-node")
def test_leak_node():
    """The merged form with the leaking beta, added up over the symbols of each node: 0, but at the corner."""
    def rhs(total, alpha, z, T, U, t, u):
        return (t == T - 1) * (u == U) * alpha[T - 1, U] / z

    cases = []
    for case in LEAKING:
        y = case.y.copy()
        y[..., :V] = y[..., :V] / y[..., :V].sum(-1, keepdims=True)
        case = tdt(y, case.T, case.labels, case.durations)
        beta, alpha, z = leaking_beta(case), case.alpha, case.z
        e_blank, e_label = formula_pairs(case, beta=beta)
        for t, u in case.nodes():
            used = sum(e_blank[d, t, u] + e_label[d, t, u] for d in case.durations)
            total = sum(y[t, u, k] * alpha[t, u] * beta[t, u] / z for k in range(V)) - used
            cases.append((total, zero_outside(alpha, zero=5), z, case.T, case.U, t, u))
    assert sum(total != 0 for total, *_ in cases) > 1
    check_equation("eq-tdt-leak-node", lambda total, *_: total, rhs, cases)


# --- probabilities of all strings ---


@pytest.mark.equation("eq-tdt-missing")
def test_missing():
    """1 less P(l | x), enumerated for every string of labels, against what leaves the lattice on the way."""
    def rhs(missing, alpha, blank, q, D, T, visited):
        return sum(alpha[t, h] * (blank[t, h] * q[0, t, h] + sum(q[d, t, h] for d in D if d > T - t)
                                  + (1 - blank[t, h]) * q[T - t, t, h]) for t, h in visited)

    cases = []
    for seed, (T, most, D) in enumerate([(3, 2, (0, 1, 2)), (3, 3, (1, 2)), (4, 1, (0, 2, 3))]):
        strings = [h for length in range(most + 1) for h in product((1, 2), repeat=length)]
        rng, symbols, durations = np.random.default_rng(seed), {}, {}
        for t, h in product(range(T), strings):
            symbols[t, h] = rng.integers(1, 9, V).tolist() if len(h) < most else [1, 0, 0]  # then nothing but blanks
            durations[t, h] = rng.integers(1, 9, len(D)).tolist()

        def network(t, h, symbols=symbols, durations=durations):
            return [Fraction(x, sum(part[t, h])) for part in (symbols, durations) for x in part[t, h]]

        alpha, written = defaultdict(Fraction), Fraction(0)
        for labels in strings:
            y = np.array([[network(t, labels[:u]) for u in range(len(labels) + 1)] for t in range(T)], dtype=object)
            case = tdt(y, T, list(labels), D)
            written += case.z
            for t in range(T):
                alpha[t, labels] = case.total((0, 0), (t, len(labels)))
        visited = [node for node in alpha if alpha[node]]
        blank = {(t, h): network(t, h)[BLANK] for t, h in visited}
        q = Pairs({(d, t, h): network(t, h)[V + i] for t, h in visited for i, d in enumerate(D)})
        assert written < 1
        cases.append((1 - written, alpha, blank, q, D, T, visited))
    check_equation("eq-tdt-missing", lambda missing, *_: missing, rhs, cases)

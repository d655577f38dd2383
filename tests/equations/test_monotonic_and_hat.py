"""Checks of the equations of the chapter on monotonic RNN-T and HAT. Masses and posteriors come from enumeration."""

from fractions import Fraction
from itertools import combinations, product
from math import exp, log, prod

import mpmath
import numpy as np
import pytest
from brute_force import BLANK, expected_uses, probabilities, rnnt_mass, rnnt_paths, zero
from variants import monotonic_alignments

from reference_impl.differences import exact_difference
from reference_impl.equations import check_equation, zero_outside
from reference_impl.lattice import forward
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, softmax
from reference_impl.topology import constrained_rnnt_lattice, monotonic_rnnt_lattice

# several labels, a repeat, three labels, a label in every frame, one frame, no label
SHAPES = [(3, [1, 2]), (4, [2, 2]), (4, [1, 2, 1]), (2, [1, 1]), (1, [2]), (3, [])]
INPUTS = [(probabilities(seed, (T, len(labels) + 1, 3)), labels) for seed, (T, labels) in enumerate(SHAPES)]
GRIDS = [(1, [1], 3), (2, [1], 2), (2, [1], 3), (2, [1, 1], 2), (3, [1], 2)]  # small enough for rational functions


def paths_of(y, labels):
    """Strings of one symbol a frame that give the labels, as entries."""
    return monotonic_alignments(labels, len(y), y.shape[-1], BLANK)


def total(y, labels):
    return sum((rnnt_mass(y, path) for path in paths_of(y, labels)), zero(y))


def strings_mass(y, start, stop, u, labels):
    """Mass of all strings for the frames from start to before stop that give the labels, begun with u labels out."""
    masses = zero(y)
    for string in product(range(y.shape[-1]), repeat=stop - start):
        if [k for k in string if k != BLANK] == list(labels):
            rows = [u + sum(k != BLANK for k in string[:i]) for i in range(len(string))]
            masses += prod((y[start + i, row, k] for i, (row, k) in enumerate(zip(rows, string, strict=True))),
                           start=zero(y) + 1)
    return masses


def masses_of(y, labels):
    """alpha and beta, (T+1, U+1), by trying every string before and after the node."""
    T, U = len(y), len(labels)
    alpha, beta = np.empty((T + 1, U + 1), dtype=object), np.empty((T + 1, U + 1), dtype=object)
    for t, u in np.ndindex(T + 1, U + 1):
        alpha[t, u] = strings_mass(y, 0, t, 0, labels[:u])
        beta[t, u] = strings_mass(y, t, T, u, labels[u:])
    return alpha, beta


def next_labels(labels):
    """l_u for any u: an impossible symbol, -1, outside."""
    return zero_outside(labels, zero=-1)


def outside_zero(*arrays):
    return tuple(zero_outside(array) for array in arrays)


@pytest.mark.equation("eq-mono-alpha")
def test_alpha():
    """Mass of all strings that reach a node against the two arcs into it, both from the frame before."""
    def lhs(alpha, y, labels, t, u):
        return alpha[t, u]

    def rhs(alpha, y, labels, t, u):
        return alpha[t - 1, u] * y[t - 1, u, BLANK] + alpha[t - 1, u - 1] * y[t - 1, u - 1, labels[u - 1]]

    cases = []
    for y, labels in INPUTS:
        alpha, _ = masses_of(y, labels)
        assert alpha[0, 0] == 1 and not alpha[0, 1:].any()
        cases += [(*outside_zero(alpha, y), next_labels(labels), t, u)
                  for t, u in np.ndindex(alpha.shape) if t > 0]
    check_equation("eq-mono-alpha", lhs, rhs, cases)


@pytest.mark.equation("eq-mono-total")
def test_total():
    """Sum over all strings against the last alpha."""
    def rhs(z, alpha, T, U):
        return alpha[T, U]

    cases = [(total(y, labels), zero_outside(masses_of(y, labels)[0]), len(y), len(labels)) for y, labels in INPUTS]
    check_equation("eq-mono-total", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-mono-beta")
def test_beta():
    """Mass of all strings from a node on against the two arcs that leave it, both to the next frame."""
    def lhs(beta, y, labels, t, u):
        return beta[t, u]

    def rhs(beta, y, labels, t, u):
        return y[t, u, BLANK] * beta[t + 1, u] + y[t, u, labels[u]] * beta[t + 1, u + 1]

    cases = []
    for y, labels in INPUTS:
        _, beta = masses_of(y, labels)
        assert beta[-1, -1] == 1 and not beta[-1, :-1].any()  # def-mono-beyond
        cases += [(*outside_zero(beta, y), next_labels(labels), t, u) for t, u in np.ndindex(y.shape[:2])]
    check_equation("eq-mono-beta", lhs, rhs, cases)


@pytest.mark.equation("eq-mono-cut")
def test_cut():
    """Sum over all strings against beginnings times endings, in front of every frame and behind the last."""
    def rhs(z, alpha, beta, t, U):
        return sum(alpha[t, u] * beta[t, u] for u in range(0, U + 1))

    cases = []
    for y, labels in INPUTS:
        alpha, beta = (zero_outside(array, zero=5) for array in masses_of(y, labels))
        cases += [(total(y, labels), alpha, beta, t, len(labels)) for t in range(len(y) + 1)]
    check_equation("eq-mono-cut", lambda z, *_: z, rhs, cases)


@pytest.mark.equation("eq-mono-live")
def test_live():
    """Nodes on the enumerated paths, the end among them, against the size of the band."""
    def rhs(nodes, T, U):
        return (U + 1) * (T - U + 1)

    cases = []
    for frames, U in [(t, u) for t in range(1, 6) for u in range(t + 1)]:
        paths = monotonic_alignments([1] * U, frames, 2, BLANK)
        cases.append((len({entry[:2] for path in paths for entry in path}) + 1, frames, U))
    check_equation("eq-mono-live", lambda nodes, *_: nodes, rhs, cases)


def uses(y, labels, *entry):
    """Share of the strings that use an entry."""
    return sum((rnnt_mass(y, path) for path in paths_of(y, labels) if entry in path), zero(y)) / total(y, labels)


def nodes_with_masses():
    for y, labels in INPUTS:
        alpha, beta = masses_of(y, labels)
        for t, u in np.ndindex(y.shape[:2]):
            yield total(y, labels), zero_outside(alpha), zero_outside(beta), y, labels, t, u


@pytest.mark.equation("eq-mono-blank-arc")
def test_blank_arc():
    """Share of the strings that use the blank of a node against alpha, the step, and beta."""
    def rhs(z, alpha, beta, y, labels, t, u):
        return 1 / z * alpha[t, u] * y[t, u, BLANK] * beta[t + 1, u]

    check_equation("eq-mono-blank-arc", lambda z, alpha, beta, y, labels, t, u: uses(y, labels, t, u, BLANK),
                   rhs, nodes_with_masses())


@pytest.mark.equation("eq-mono-label-arc")
def test_label_arc():
    """Share of the strings that use the next label of a node against alpha, the step, and beta."""
    def rhs(z, alpha, beta, y, labels, t, u):
        return 1 / z * alpha[t, u] * y[t, u, labels[u]] * beta[t + 1, u + 1]

    cases = [(z, alpha, beta, y, zero_outside(labels), t, u)
             for z, alpha, beta, y, labels, t, u in nodes_with_masses() if u < len(labels)]
    check_equation("eq-mono-label-arc",
                   lambda z, alpha, beta, y, labels, t, u: uses(y, labels.array, t, u, labels[u]), rhs, cases)


@pytest.mark.equation("eq-mono-grad-log-probs")
def test_grad_log_probs():
    """-y / Z times the exact difference of the sum over strings against minus the posteriors of alpha, step, beta."""
    def rhs(slope, e_blank, e_label, labels, t, u, k):
        return -(k == BLANK) * e_blank[t, u] - (k == labels[u]) * e_label[t, u]

    cases = []
    for y, labels in INPUTS:
        (alpha, beta), z = masses_of(y, labels), total(y, labels)
        e_blank = alpha[:-1] * y[:, :, BLANK] * beta[1:] / z
        e_label = alpha[:-1, :-1] * y[:, range(len(labels)), labels] * beta[1:, 1:] / z
        for t, u, k in np.ndindex(y.shape):
            slope = -y[t, u, k] / z * exact_difference(lambda y, labels=labels: total(y, labels), y, (t, u, k), h=5)
            cases.append((slope, *outside_zero(e_blank, e_label), next_labels(labels), t, u, k))
    check_equation("eq-mono-grad-log-probs", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-mono-fused")
def test_fused():
    """sympy: derivative of -log of the sum over strings with respect to each logit against the merged form."""
    def rhs(slope, y, alpha, beta, z, labels, t, u, k):
        return y[t, u, k] * alpha[t, u] / z * (
            beta[t, u] - (k == BLANK) * beta[t + 1, u] - (k == labels[u]) * beta[t + 1, u + 1])

    cases = []
    for T, labels, V in GRIDS:
        x = field_grid("x", (T, len(labels) + 1, V))
        y = softmax(x)
        (alpha, beta), z = masses_of(y, labels), total(y, labels)
        for index in np.ndindex(x.shape):
            slope = -x[index] * z.diff(x[index]) / z
            cases.append((slope, y, *(zero_outside(array, zero(y)) for array in (alpha, beta)), z, next_labels(labels),
                          *index))
    check_equation("eq-mono-fused", lambda slope, *_: slope, rhs, cases)


# --- which of the three is a distribution over strings? ---

T, V = 3, 3
LABELS = range(1, V)


def machine(seed):
    """A distribution over V symbols for each frame and each last label, 0 before the first: fractions."""
    weights = np.random.default_rng(seed).integers(1, 10, size=(T, V, V))
    return np.array([[[Fraction(int(e), int(row.sum())) for e in row] for row in rows] for rows in weights],
                    dtype=object)


def rows_for(table, string):
    """The machine's distributions on the way to a string, (T, U+1, V)."""
    return table[:, [0, *string]]


def by_engine(builder, table, string):
    lattice = builder(string, T, V)
    return forward(lattice, lattice.arc_weights(rows_for(table, string), REAL), REAL)[-1]


def strings_up_to(longest):
    return [string for U in range(longest + 1) for string in product(LABELS, repeat=U)]


@pytest.mark.equation("eq-mono-normalised")
def test_normalised():
    """The totals of all strings of up to T labels, by the recursion, add up to 1."""
    def rhs(Z, T):
        return sum(sum(Z[string] for string in product(LABELS, repeat=U)) for U in range(0, T + 1))

    cases = [({string: by_engine(monotonic_rnnt_lattice, machine(seed), string) for string in strings_up_to(T)}, T)
             for seed in range(3)]
    check_equation("eq-mono-normalised", lambda *_: 1, rhs, cases)


def constrained_mass(y, labels, start, stop, u, end):
    """Mass of the ways from frame start to frame stop, from u labels out to end, at most one of them in a frame."""
    masses = zero(y)
    for frames in combinations(range(start, stop), end - u):
        weight, row = zero(y) + 1, u
        for t in range(start, stop):
            if t in frames:
                weight, row = weight * y[t, row, labels[row]], row + 1
            weight = weight * y[t, row, BLANK]
        masses += weight
    return masses


@pytest.mark.equation("eq-mono-constrained-missing")
def test_constrained_missing():
    """1 less the totals of all strings, by the lattice, against the mass that is drawn a second label in some frame."""
    def rhs(missing, alpha, y, strings, T, V):
        return sum(sum(sum(alpha[t, h] * y[t, h][k] * (1 - y[t, h + (k,)][BLANK]) for k in range(1, V))
                       for h in strings[t]) for t in range(0, T))

    cases = []
    for seed in range(3):
        table = machine(seed)
        missing = 1 - sum(by_engine(constrained_rnnt_lattice, table, string) for string in strings_up_to(T))
        alpha = {(t, h): constrained_mass(rows_for(table, h), h, 0, t, 0, len(h))
                 for t in range(T) for h in strings_up_to(t)}
        y = {(t, h): table[t, (0, *h)[-1]] for t in range(T) for h in strings_up_to(T)}
        cases.append((missing, alpha, y, {t: strings_up_to(t) for t in range(T)}, T, V))
    assert all(0 < missing < 1 for missing, *_ in cases)
    check_equation("eq-mono-constrained-missing", lambda missing, *_: missing, rhs, cases)


# --- HAT ---

ROWS = [(0.3, [1.0, -2.0, 0.5]), (-4.0, [0.0, 3.0, -1.0]), (6.0, [-1.0, 2.0, 2.5])]  # the blank's logit, the labels'


def definition(b, z):
    """HAT's probabilities with 30 digits: the blank's, and the list of the labels'."""
    with mpmath.workdps(30):
        s = 1 / (1 + mpmath.exp(-mpmath.mpf(b)))
        shares = [mpmath.exp(mpmath.mpf(value)) for value in z]
        return s, [(1 - s) * share / sum(shares) for share in shares]


@pytest.mark.equation("eq-hat-log-blank")
def test_log_blank():
    """Logarithm of the blank's probability, by the definition with 30 digits, against the form for the machine."""
    def rhs(exact, b):
        return -log(1 + exp(-b))

    cases = [(float(mpmath.log(definition(b, z)[0])), b) for b, z in ROWS]
    check_equation("eq-hat-log-blank", lambda exact, *_: exact, rhs, cases, tolerance=1e-14)


@pytest.mark.equation("eq-hat-log-label")
def test_log_label():
    """Logarithm of a label's probability, by the definition with 30 digits, against the form for the machine."""
    def rhs(exact, b, z, k, labels):
        return -log(1 + exp(b)) + z[k] - log(sum(exp(z[j]) for j in labels))

    cases = [(float(mpmath.log(definition(b, z)[1][k])), b, zero_outside(z, zero=9.0), k, range(len(z)))
             for b, z in ROWS for k in range(len(z))]
    check_equation("eq-hat-log-label", lambda exact, *_: exact, rhs, cases, tolerance=1e-14)


@pytest.mark.equation("eq-hat-from-softmax")
def test_from_softmax():
    """The blank's log-odds under a softmax, with 30 digits, against its logit less the log-sum-exp of the labels'."""
    def rhs(odds, a, V):
        return a[BLANK] - log(sum(exp(a[j]) for j in range(1, V)))

    cases = []
    for b, z in ROWS:
        with mpmath.workdps(30):
            y = mpmath.exp(b) / (mpmath.exp(b) + sum(map(mpmath.exp, z)))
            cases.append((float(mpmath.log(y / (1 - y))), zero_outside([b, *z], zero=9.0), len(z) + 1))
    check_equation("eq-hat-from-softmax", lambda odds, *_: odds, rhs, cases, tolerance=1e-13)


def hat_probabilities(x):
    """HAT's probabilities as rational functions of x = e^logit; the blank stands first."""
    y = np.empty(x.shape, dtype=object)
    s = x[..., :1] / (1 + x[..., :1])
    y[..., :1], y[..., 1:] = s, (1 - s) * softmax(x[..., 1:])
    return y


def row_of_symbols(symbols):
    x = field_grid("x", (symbols,))
    return x, hat_probabilities(x), zero_outside([None, *softmax(x[1:])], zero=x[0] * 0)


@pytest.mark.equation("eq-hat-slope-blank")
def test_slope_blank():
    """sympy: d log y / d b of each symbol against one-hot minus the sigmoid."""
    def rhs(slope, i, s):
        return (i == BLANK) - s

    x, y, _ = row_of_symbols(4)
    cases = [(x[0] * y[i].diff(x[0]) / y[i], i, y[0]) for i in range(4)]
    check_equation("eq-hat-slope-blank", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-hat-slope-label")
def test_slope_label():
    """sympy: d log y / d z of each symbol and label against one-hot minus the labels' softmax, 0 for the blank."""
    def rhs(slope, i, k, q):
        return (i != BLANK) * ((i == k) - q[k])

    x, y, q = row_of_symbols(4)
    cases = [(x[k] * y[i].diff(x[k]) / y[i], i, k, q) for i in range(4) for k in range(1, 4)]
    check_equation("eq-hat-slope-label", lambda slope, *_: slope, rhs, cases)


def hat_slopes(paths_for, transform=hat_probabilities):
    """sympy: x, y, derivatives of -log of the sum over the paths, the arcs' posteriors, the labels; for each grid."""
    for frames, labels, symbols in GRIDS:
        x = field_grid("x", (frames, len(labels) + 1, symbols))
        y = transform(x)
        paths = paths_for(y, labels)
        z = sum((rnnt_mass(y, path) for path in paths), zero(y))
        slope = np.empty(x.shape, dtype=object)
        for index in np.ndindex(x.shape):
            slope[index] = -x[index] * z.diff(x[index]) / z
        occupancy = expected_uses(y, paths)
        yield x, y, slope, occupancy[..., BLANK], occupancy[..., 1:].sum(axis=-1), labels


BOTH_LATTICES = pytest.mark.parametrize("paths_for", [rnnt_paths, paths_of], ids=["rnnt", "monotonic"])


@pytest.mark.equation("eq-hat-grad-blank")
@BOTH_LATTICES
def test_grad_blank(paths_for):
    """sympy: derivative with respect to each blank's logit against the two posteriors, enumerated."""
    def rhs(slope, s, e_blank, e_label, t, u):
        return s[t, u] * e_label[t, u] - (1 - s[t, u]) * e_blank[t, u]

    cases = [(slope[t, u, BLANK], *outside_zero(y[..., BLANK], e_blank, e_label), t, u)
             for x, y, slope, e_blank, e_label, _ in hat_slopes(paths_for) for t, u in np.ndindex(e_blank.shape)]
    check_equation("eq-hat-grad-blank", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-hat-visits")
@BOTH_LATTICES
def test_visits(paths_for):
    """sympy: the same derivative against sigmoid times node occupancy, minus the blank's posterior."""
    def rhs(slope, s, gamma, e_blank, t, u):
        return s[t, u] * gamma[t, u] - e_blank[t, u]

    cases = [(slope[t, u, BLANK], *outside_zero(y[..., BLANK], e_blank + e_label, e_blank), t, u)
             for x, y, slope, e_blank, e_label, _ in hat_slopes(paths_for) for t, u in np.ndindex(e_blank.shape)]
    check_equation("eq-hat-visits", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-hat-grad-label")
@BOTH_LATTICES
def test_grad_label(paths_for):
    """sympy: derivative with respect to each label's logit against the label arc's posterior, enumerated."""
    def rhs(slope, e_label, q, labels, t, u, k):
        return e_label[t, u] * (q[t, u, k] - (k == labels[u]))

    cases = []
    for x, _, slope, _, e_label, labels in hat_slopes(paths_for):
        q = np.concatenate([x[..., :1] * 0 + 9, softmax(x[..., 1:])], -1)
        cases += [(slope[t, u, k], *outside_zero(e_label, q), next_labels(labels), t, u, k)
                  for t, u, k in np.ndindex(slope.shape) if k != BLANK]
    check_equation("eq-hat-grad-label", lambda slope, *_: slope, rhs, cases)


@pytest.mark.equation("eq-hat-coordinates")
def test_coordinates():
    """sympy: derivatives through a softmax, with respect to the labels' logits, against those through HAT where both
    give the same probabilities."""
    def rhs(slope, by_label, by_blank, q, t, u, k):
        return by_label[t, u, k] - q[t, u, k] * by_blank[t, u]

    cases = []
    grids = zip(hat_slopes(rnnt_paths), hat_slopes(rnnt_paths, softmax), strict=True)
    for seed, ((x, _, hat, *_), (_, _, merged, *_)) in enumerate(grids):
        values = probabilities(seed, x.shape)  # e^a
        same = values.copy()
        same[..., BLANK] = values[..., BLANK] / values[..., 1:].sum(axis=-1)  # e^b
        by_hat, by_softmax = evaluated(hat, same), evaluated(merged, values)
        assert (by_hat[..., BLANK] == by_softmax[..., BLANK]).all()
        q = values / values[..., 1:].sum(axis=-1, keepdims=True)
        cases += [(by_softmax[index], *outside_zero(by_hat, by_hat[..., BLANK], q), *index)
                  for index in np.ndindex(x.shape) if index[-1] != BLANK]
    check_equation("eq-hat-coordinates", lambda slope, *_: slope, rhs, cases)


def evaluated(functions, values):
    """Rational functions of all entries of an array, at the values of an array of fractions."""
    result = np.empty(functions.shape, dtype=object)
    for index, function in np.ndenumerate(functions):
        numer, denom = (sum((int(coefficient) * prod((v ** p for v, p in zip(values.flat, powers, strict=True) if p),
                                                     start=Fraction(1)) for powers, coefficient in part.terms()),
                            Fraction(0)) for part in (function.numer, function.denom))
        result[index] = numer / denom
    return result


@pytest.mark.equation("eq-hat-clamped")
def test_clamped():
    """sympy: where the labels' share is held at a floor, the derivative with respect to the blank's logit."""
    def rhs(slope, s, e_blank, t, u):
        return -(1 - s[t, u]) * e_blank[t, u]

    def held(x):
        y = hat_probabilities(x)
        y[..., 1:] = softmax(x[..., 1:]) / 1000
        return y

    cases = [(slope[t, u, BLANK], *outside_zero(y[..., BLANK], e_blank), t, u)
             for x, y, slope, e_blank, _, _ in hat_slopes(rnnt_paths, held) for t, u in np.ndindex(e_blank.shape)]
    check_equation("eq-hat-clamped", lambda slope, *_: slope, rhs, cases)

"""Checks of the equations of the chapter on monotonic RNN-T and HAT. Masses and posteriors come from enumeration."""

from fractions import Fraction
from itertools import combinations, product
from math import exp, log, prod

import mpmath
import notation
import numpy as np
import pytest
import ranges
from brute_force import (
    RNNT_INPUTS,
    Target,
    blank_of,
    expected_uses,
    grad_logit,
    probabilities,
    rnnt_arcs_of_nodes,
    rnnt_gamma,
    rnnt_mass,
    rnnt_z,
    slope,
    slope_at,
    slopes_in_logs,
    zero,
)
from one_symbol_a_frame import monotonic_paths
from sides import first
from tex_to_python import Notation
from variants import monotonic_alignments

from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.lattice import forward
from reference_impl.semiring import REAL
from reference_impl.symbolic import field_grid, softmax
from reference_impl.topology import constrained_rnnt_lattice, monotonic_rnnt_lattice

NOTATION = notation.RNNT | Notation({"Z": "Z", r"\frac{\partial L}{\partial z_{t,u}(\varnothing)}": "slope",
                                     r"\frac{\partial L}{\partial z_{t,u}(k)}": "slope",
                                     r"z_\varnothing": "b", r"p_{#t,#u}": "s[#t, #u]",
                                     r"q_{#t,#u}(#k)": "q[#t, #u, #k]", "q_k": "shares[k]"}, over={"j": "range(V)"})
QUANTITIES = ranges.RNNT | Quantities(
    {"alpha": "T + 1, U + 1", "q": "T, U + 1, V", "s": "T, U + 1", "log_probs": "V", "probs": "V", "zeta": "V",
     "z": "V", "shares": "V"},
    {
        "t = T": lambda alpha, t, T: t == T,
        "one label in the vocabulary": lambda V: V == 2,
        "b < 0": lambda b: b < 0,
        "b = 0": lambda b: b == 0,
        "b > 0": lambda b: b > 0,
        "1 - s just below epsilon": lambda s, floor, t, u: 0 < floor - (1 - s[t, u]) < 1e-12,
    },
    left_out={"t = T": "no arc leaves the last column", "T < U": "for Z > 0: no path has more labels than frames"})

# several labels, a repeat, three labels, a label in every frame, one frame, no label; few symbols, blank 2
SHAPES = [(3, 3, [1, 2]), (4, 3, [2, 2]), (4, 3, [1, 2, 1]), (2, 3, [1, 1]), (1, 3, [2]), (3, 2, []), (4, 2, [1, 1, 1]),
          (3, 4, Target([3, 0], blank=2))]
WITHOUT_PATH = [(2, 2, [1, 1, 1]), (1, 3, [1, 2])]
INPUTS = [(probabilities(seed, (T, len(labels) + 1, V)), labels) for seed, (T, V, labels) in enumerate(SHAPES)]
ALL_INPUTS = INPUTS + [(probabilities(seed, (T, len(labels) + 1, V)), labels)
                       for seed, (T, V, labels) in enumerate(WITHOUT_PATH)]
# of those, and of RNN-T's, the ones in which sympy differentiates at fractions
FEW = {"rnnt": [RNNT_INPUTS[0], *RNNT_INPUTS[3:]], "monotonic": [INPUTS[0], *INPUTS[3:]]}
GRIDS = [(1, [1], 3), (2, [1], 2), (2, [1], 3), (2, [1, 1], 2), (3, [1], 2)]  # small enough for rational functions


@computed
def mono_z(y, labels):
    return sum((rnnt_mass(y, path) for path in monotonic_paths(y, labels)), zero(y))


def strings_mass(y, start, stop, u, labels, blank):
    """Mass of all strings for the frames from start to before stop that give the labels, begun with u labels out."""
    masses = zero(y)
    for string in product(range(y.shape[-1]), repeat=stop - start):
        if [k for k in string if k != blank] == labels:
            rows = [u + sum(k != blank for k in string[:i]) for i in range(len(string))]
            masses += prod((y[start + i, row, k] for i, (row, k) in enumerate(zip(rows, string, strict=True))),
                           start=zero(y) + 1)
    return masses


@computed
def mono_alpha(y, labels):
    """Mass of all strings before each of (T+1, U+1) nodes, by trying every string."""
    alpha = np.empty((len(y) + 1, len(labels) + 1), dtype=object)
    for t, u in np.ndindex(alpha.shape):
        alpha[t, u] = strings_mass(y, 0, t, 0, labels[:u], blank_of(labels))
    return alpha


@computed
def mono_beta(y, labels):
    """The same from each node on."""
    beta = np.empty((len(y) + 1, len(labels) + 1), dtype=object)
    for t, u in np.ndindex(beta.shape):
        beta[t, u] = strings_mass(y, t, len(y), u, labels[u:], blank_of(labels))
    return beta


def mono_arcs_of_nodes(y, labels):
    """Posteriors of the blank arcs, (T, U+1), and of the label arcs, (T, U): alpha, the step, and beta, over Z, which
    is beta of the first node: no list of paths."""
    alpha, beta = mono_alpha(y, labels), mono_beta(y, labels)
    e_blank = alpha[:-1] * y[:, :, blank_of(labels)] * beta[1:] / beta[0, 0]
    e_label = alpha[:-1, :-1] * y[:, range(len(labels)), list(labels)] * beta[1:, 1:] / beta[0, 0]
    return e_blank, e_label


def mono_gamma(y, labels):
    """alpha beta / Z of each node, Z as beta of the first."""
    beta = mono_beta(y, labels)
    return (mono_alpha(y, labels) * beta / beta[0, 0])[:-1]


def next_labels(labels):
    """l_u for any u: an impossible symbol, -1, outside."""
    return zero_outside(labels, zero=-1)


@pytest.mark.equation("eq-mono-alpha")
def test_alpha():
    """Mass of all strings that reach a node against the two arcs into it, both from the frame before."""
    def lhs(alpha, y, labels, blank, t, u):
        return alpha[t, u]

    def rhs(alpha, y, labels, blank, t, u):
        return alpha[t - 1, u] * y[t - 1, u, blank] + alpha[t - 1, u - 1] * y[t - 1, u - 1, labels[u - 1]]

    check_equation("eq-mono-alpha", lhs, rhs, (
        (zero_outside(alpha), zero_outside(y), next_labels(labels), blank_of(labels), t, u)
        for y, labels in ALL_INPUTS for alpha in [mono_alpha(y, labels)]
        for t, u in np.ndindex(alpha.shape) if (t, u) != (0, 0)))


@computed(kind="recursion")
def recursive_alpha(y, labels):
    """alpha of every node, by the recursion."""
    alpha, blank = zero_outside(np.full((len(y) + 1, len(labels) + 1), zero(y), dtype=object)), blank_of(labels)
    y, labels = zero_outside(y), next_labels(labels)
    alpha.array[0, 0] += 1
    for t, u in np.ndindex(alpha.array.shape):
        if (t, u) != (0, 0):
            alpha.array[t, u] = (alpha[t - 1, u] * y[t - 1, u, blank]
                                 + alpha[t - 1, u - 1] * y[t - 1, u - 1, labels[u - 1]])
    return alpha.array


@pytest.mark.equation("eq-mono-total")
def test_total():
    """Sum over all strings against the last alpha of the recursion."""
    def rhs(Z, alpha, T, U):
        return alpha[T, U]

    check_equation("eq-mono-total", first, rhs, (
        (mono_z(y, labels), zero_outside(recursive_alpha(y, labels)), len(y), len(labels))
        for y, labels in ALL_INPUTS))


@pytest.mark.equation("eq-mono-beta")
def test_beta():
    """Mass of all strings from a node on against the two arcs that leave it, both to the next frame."""
    def lhs(beta, y, labels, blank, t, u):
        return beta[t, u]

    def rhs(beta, y, labels, blank, t, u):
        return y[t, u, blank] * beta[t + 1, u] + y[t, u, labels[u]] * beta[t + 1, u + 1]

    check_equation("eq-mono-beta", lhs, rhs, (
        (zero_outside(beta), zero_outside(y), next_labels(labels), blank_of(labels), t, u)
        for y, labels in ALL_INPUTS for beta in [mono_beta(y, labels)] for t, u in np.ndindex(y.shape[:2])))


def test_ends():
    """The first alphas, and the last betas of def-mono-beyond."""
    for y, labels in ALL_INPUTS:
        alpha, beta = mono_alpha(y, labels), mono_beta(y, labels)
        assert alpha[0, 0] == 1 and not alpha[0, 1:].any()
        assert beta[-1, -1] == 1 and not beta[-1, :-1].any()


@pytest.mark.equation("eq-mono-cut")
def test_cut():
    """Sum over all strings against prefixes times suffixes, in front of every frame and behind the last."""
    def rhs(Z, alpha, beta, t, U):
        return sum(alpha[t, u] * beta[t, u] for u in range(0, U + 1))

    check_equation("eq-mono-cut", first, rhs, (
        (mono_z(y, labels), *(zero_outside(each, zero=5) for each in (alpha, beta)), t, len(labels))
        for y, labels in ALL_INPUTS for alpha, beta in [(mono_alpha(y, labels), mono_beta(y, labels))]
        for t in range(len(alpha))))


@computed
def live_nodes(T, U):
    """How many nodes the paths pass, the end among them, where there is a path."""
    paths = monotonic_alignments([1] * U, T, 2, 0)
    return len({entry[:2] for path in paths for entry in path}) + 1 if paths else 0


@pytest.mark.equation("eq-mono-live", patterns={r"\# \text{nodes}": "nodes"})
def test_live():
    """Nodes on the enumerated paths, the end among them, against the size of the band."""
    def rhs(nodes, T, U):
        return (U + 1) * (T - U + 1)

    check_equation("eq-mono-live", first, rhs, (
        (live_nodes(T, U), T, U) for T in range(1, 6) for U in range(T + 1)), left_out={"T < U": "for T >= U"})


def test_no_node_is_live():
    """With more labels than frames no node is on a path, where the formula goes below 0."""
    assert all(live_nodes(T, U) == 0 for T in range(1, 4) for U in range(T + 1, 6))


def nodes_with_masses():
    for y, labels in INPUTS:
        uses = expected_uses(y, monotonic_paths(y, labels))
        arrays = [zero_outside(each) for each in (uses, mono_alpha(y, labels), mono_beta(y, labels), y)]
        for t, u in np.ndindex(y.shape[:2]):
            yield mono_z(y, labels), *arrays, next_labels(labels), blank_of(labels), t, u


@pytest.mark.equation("eq-mono-blank-arc", patterns={r"\gamma_\varnothing(t, u)": "uses[t, u, blank]"})
def test_blank_arc():
    """Share of the strings that use the blank of a node against alpha, the step, and beta."""
    def lhs(Z, uses, alpha, beta, y, labels, blank, t, u):
        return uses[t, u, blank]

    def rhs(Z, uses, alpha, beta, y, labels, blank, t, u):
        return 1 / Z * alpha[t, u] * y[t, u, blank] * beta[t + 1, u]

    check_equation("eq-mono-blank-arc", lhs, rhs, nodes_with_masses())


@pytest.mark.equation("eq-mono-label-arc", patterns={r"\gamma_y(t, u)": "uses[t, u, labels[u]]"})
def test_label_arc():
    """Share of the strings that use the next label of a node against alpha, the step, and beta."""
    def lhs(Z, uses, alpha, beta, y, labels, blank, t, u):
        return uses[t, u, labels[u]]

    def rhs(Z, uses, alpha, beta, y, labels, blank, t, u):
        return 1 / Z * alpha[t, u] * y[t, u, labels[u]] * beta[t + 1, u + 1]

    check_equation("eq-mono-label-arc", lhs, rhs, nodes_with_masses())


@pytest.mark.equation("eq-mono-grad-log-probs", patterns={r"\frac{\partial L}{\partial \log y_{t,u}(k)}": "slope"})
def test_grad_log_probs():
    """sympy: -log of the sum over strings with y = e^v, differentiated with respect to v, against minus the posteriors
    of alpha, step, beta."""
    def rhs(slope, e_blank, e_label, labels, blank, t, u, k):
        return -(k == blank) * e_blank[t, u] - (k == labels[u]) * e_label[t, u]

    check_equation("eq-mono-grad-log-probs", first, rhs, (
        (slopes[index], *map(zero_outside, arcs), next_labels(labels), blank_of(labels), *index)
        for y, labels in INPUTS for slopes in [slopes_in_logs(y, monotonic_paths(y, labels))]
        for arcs in [mono_arcs_of_nodes(y, labels)] for index in np.ndindex(y.shape)))


def grad_mono_logits():
    """sympy: the derivative of -log of the sum over strings with respect to each logit, x = e^z, labels and the index:
    at fractions, and as rational functions of x where those are small."""
    for x, labels in FEW["monotonic"]:
        for index in np.ndindex(x.shape):
            yield grad_logit(lambda y, labels=labels: mono_z(y, labels), x, *index), x, labels, index
    for T, labels, V in GRIDS:
        x = field_grid("x", (T, len(labels) + 1, V))
        z = mono_z(softmax(x), labels)
        for index in np.ndindex(x.shape):
            yield -x[index] * slope(z, x[index]) / z, x, labels, index


@pytest.mark.equation("eq-mono-fused", patterns={r"\frac{\partial L}{\partial z_{t,u}(k)}": "grad_logits"})
def test_fused():
    """sympy: derivative of -log of the sum over strings with respect to each logit against the merged form."""
    def rhs(grad_logits, y, alpha, beta, Z, labels, blank, t, u, k):
        return y[t, u, k] * alpha[t, u] / Z * (
            beta[t, u] - (k == blank) * beta[t + 1, u] - (k == labels[u]) * beta[t + 1, u + 1])

    check_equation("eq-mono-fused", first, rhs, (
        (grad_logits, *(zero_outside(each, zero(y)) for each in (y, alpha, beta)), beta[0, 0], next_labels(labels),
         blank_of(labels), *index)
        for grad_logits, x, labels, index in grad_mono_logits() for y in [softmax(x)]
        for alpha, beta in [(mono_alpha(y, labels), mono_beta(y, labels))]))


# --- which of the three is a distribution over strings? ---

# frames, symbols, blank
MACHINES = [(3, 3, 0), (2, 3, 2), (3, 2, 1), (1, 3, 1), (3, 3, 1)]


def machine(seed, T, V):
    """A distribution over V symbols for each frame and each last symbol, the blank before the first: fractions."""
    weights = np.random.default_rng(seed).integers(1, 10, size=(T, V, V))
    return np.array([[[Fraction(int(e), int(row.sum())) for e in row] for row in rows] for rows in weights],
                    dtype=object)


def rows_for(table, string, blank):
    """The machine's distributions on the way to a string, (T, U+1, V)."""
    return table[:, [blank, *string]]


@computed(kind="recursion")
def totals(builder, table, blank):
    """Z of every string of up to T labels by the package's lattice."""
    T, V, _ = table.shape
    found = {}
    for string in strings(T, V, blank):
        lattice = builder(string, T, V, blank=blank)
        weights = lattice.arc_weights(rows_for(table, string, blank), REAL)
        found[string] = forward(lattice, weights, REAL)[-1]
    return found


def labels_but(blank, V):
    return [k for k in range(V) if k != blank]


def strings(longest, V, blank):
    return [string for U in range(longest + 1) for string in product(labels_but(blank, V), repeat=U)]


@pytest.mark.equation("eq-mono-normalised", patterns={"Z(l)": "Z[string]"}, over={
    r"l \in \mathcal A^U": "for string in product(alphabet, repeat=U)"})
def test_normalised():
    """The totals of all strings of up to T labels, by the recursion, add up to 1."""
    def rhs(Z, alphabet, T, V):
        return sum(sum(Z[string] for string in product(alphabet, repeat=U)) for U in range(0, T + 1))

    check_equation("eq-mono-normalised", lambda *_: 1, rhs, (
        (totals(monotonic_rnnt_lattice, machine(seed, T, V), blank), labels_but(blank, V), T, V)
        for seed, (T, V, blank) in enumerate(MACHINES)))


def constrained_mass(y, labels, start, stop, u, end, blank):
    """Mass of the ways from frame start to frame stop, from u labels out to end, at most one of them in a frame."""
    masses = zero(y)
    for frames in combinations(range(start, stop), end - u):
        weight, row = zero(y) + 1, u
        for t in range(start, stop):
            if t in frames:
                weight, row = weight * y[t, row, labels[row]], row + 1
            weight = weight * y[t, row, blank]
        masses += weight
    return masses


@computed
def reaching(table, blank):
    """For each frame and string, the mass of the constrained paths that reach the frame with it written."""
    T, V, _ = table.shape
    return {(t, xi): constrained_mass(rows_for(table, xi, blank), xi, 0, t, 0, len(xi), blank)
            for t in range(T) for xi in strings(T, V, blank)}


@pytest.mark.equation("eq-mono-constrained-missing", patterns={
    r"Z_{\text{con}}(l)": "Z_con[string]", r"\alpha(t, \xi)": "reached[t, xi]", r"y_{t,\xi}(k)": "drawn[t, xi, k]",
    r"y_{t,\xi k}(\varnothing)": "drawn[t, xi + (k,), blank]"},
    over={"l": "for string in strings", r"\xi": "strings", "k": "range(V)"})
def test_constrained_missing():
    """1 less the totals of all strings, by the lattice, against the mass that is drawn a second label in some frame."""
    def lhs(Z_con, reached, drawn, strings, blank, T, V):
        return 1 - sum(Z_con[string] for string in strings)

    def rhs(Z_con, reached, drawn, strings, blank, T, V):
        return sum(sum(sum(reached[t, xi] * drawn[t, xi, k] * (1 - drawn[t, xi + (k,), blank])
                           for k in range(0, V) if k != blank) for xi in strings) for t in range(0, T))

    missing = []

    def cases():
        for seed, (T, V, blank) in enumerate(MACHINES):
            table = machine(seed, T, V)
            drawn = {(t, xi, k): table[t, (blank, *xi)[-1], k]
                     for t in range(T) for xi in strings(T + 1, V, blank) for k in range(V)}
            Z_con = totals(constrained_rnnt_lattice, table, blank)
            missing.append(1 - sum(Z_con.values()))
            yield Z_con, reaching(table, blank), drawn, strings(T, V, blank), blank, T, V

    check_equation("eq-mono-constrained-missing", lhs, rhs, cases())
    assert all(0 < each < 1 for each in missing)


# --- HAT ---

# the blank's logit, the labels'
ROWS = [(0.3, [1.0, -2.0, 0.5]), (-4.0, [0.0, 3.0, -1.0]), (6.0, [-1.0, 2.0, 2.5]), (0.0, [1.5, 0.5]), (-0.5, [2.0])]


def rows():
    """HAT's logits: that of the blank; those of the labels by symbol, 9 for the blank; the blank."""
    for b, of_labels in ROWS:
        for blank in (0, len(of_labels)):
            yield b, np.insert(of_labels, blank, 9.0), blank


def without(blank, row):
    return [(k, value) for k, value in enumerate(row) if k != blank]


@computed(kind="30 digits")
def hat_log_probs(b, z, blank):
    """Logarithms of HAT's probabilities, by the definition."""
    with mpmath.workdps(30):
        s = 1 / (1 + mpmath.exp(-mpmath.mpf(b)))
        shares = {k: mpmath.exp(mpmath.mpf(value)) for k, value in without(blank, z)}
        probs = {blank: s} | {k: (1 - s) * share / sum(shares.values()) for k, share in shares.items()}
        return np.array([float(mpmath.log(probs[k])) for k in range(len(z))])


@pytest.mark.equation("eq-hat-log-blank", patterns={r"\log y(\varnothing)": "log_probs[blank]"})
def test_log_blank():
    """Logarithm of the blank's probability, by the definition with 30 digits, against the form for the machine."""
    def lhs(log_probs, b, blank):
        return log_probs[blank]

    def rhs(log_probs, b, blank):
        return -log(1 + exp(-b))

    check_equation("eq-hat-log-blank", lhs, rhs, (
        (hat_log_probs(b, z, blank), b, blank) for b, z, blank in rows()), tolerance=1e-14)


@pytest.mark.equation("eq-hat-log-label", patterns={r"\log y(k)": "log_probs[k]"})
def test_log_label():
    """Logarithm of a label's probability, by the definition with 30 digits, against the form for the machine."""
    def lhs(log_probs, b, z, k, V, blank):
        return log_probs[k]

    def rhs(log_probs, b, z, k, V, blank):
        return -log(1 + exp(b)) + z[k] - log(sum(exp(z[j]) for j in range(0, V) if j != blank))

    check_equation("eq-hat-log-label", lhs, rhs, (
        (hat_log_probs(b, z, blank), b, zero_outside(z, zero=9.0), k, len(z), blank)
        for b, z, blank in rows() for k, _ in without(blank, z)), tolerance=1e-14,
        left_out={"k the blank": "for a label k"})


@computed(kind="30 digits")
def softmax_in_digits(zeta):
    with mpmath.workdps(30):
        exps = [mpmath.exp(value) for value in zeta]
        return [each / sum(exps) for each in exps]


@pytest.mark.equation("eq-hat-from-softmax", patterns={r"y(\varnothing)": "probs[blank]"})
def test_from_softmax():
    """The blank's log-odds under a softmax, with 30 digits, against its logit less the log-sum-exp of the labels'."""
    def lhs(probs, zeta, V, blank):
        return log(probs[blank] / (1 - probs[blank]))

    def rhs(probs, zeta, V, blank):
        return zeta[blank] - log(sum(exp(zeta[j]) for j in range(0, V) if j != blank))

    def cases():
        for b, z, blank in rows():
            zeta = np.where(np.arange(len(z)) == blank, b, z)
            yield softmax_in_digits(zeta), zero_outside(zeta, zero=9.0), len(zeta), blank

    check_equation("eq-hat-from-softmax", lhs, rhs, cases(), tolerance=1e-13)


def hat_probabilities(x, blank):
    """HAT's probabilities as rational functions of x = e^logit."""
    y, of_labels = np.empty(x.shape, dtype=object), np.arange(x.shape[-1]) != blank
    s = x[..., [blank]] / (1 + x[..., [blank]])
    y[..., [blank]] = s
    y[..., of_labels] = (1 - s) * softmax(x[..., of_labels])
    return y


def label_shares(x, blank):
    """q by symbol, 9 for the blank."""
    q, of_labels = x * 0 + 9, np.arange(x.shape[-1]) != blank
    q[..., of_labels] = softmax(x[..., of_labels])
    return q


def rows_of_symbols():
    """x = e^logit of one node, its probabilities, and the blank."""
    for V in (2, 3, 4):
        for blank in (0, V - 1):
            x = field_grid("x", (V,))
            yield x, hat_probabilities(x, blank), blank


@pytest.mark.equation("eq-hat-slope-blank", patterns={
    r"\frac{\partial \log y(i)}{\partial z_\varnothing}": "slope", "p": "share"})
def test_slope_blank():
    """sympy: d log y / d b of each symbol against one-hot minus the sigmoid."""
    def rhs(slope, i, share, blank):
        return (i == blank) - share

    check_equation("eq-hat-slope-blank", first, rhs, (
        (x[blank] * slope(y[i], x[blank]) / y[i], i, y[blank], blank)
        for x, y, blank in rows_of_symbols() for i in range(len(x))))


@pytest.mark.equation("eq-hat-slope-label", patterns={r"\frac{\partial \log y(i)}{\partial z_k}": "slope"})
def test_slope_label():
    """sympy: d log y / d z of each symbol and label against one-hot minus the labels' softmax, 0 for the blank."""
    def rhs(slope, i, k, shares, blank):
        return (i != blank) * ((i == k) - shares[k])

    check_equation("eq-hat-slope-label", first, rhs, (
        (x[k] * slope(y[i], x[k]) / y[i], i, k, zero_outside(label_shares(x, blank), zero(x)), blank)
        for x, y, blank in rows_of_symbols() for i in range(len(x)) for k, _ in without(blank, x)),
        left_out={"k the blank": "for a label k"})


Z_OF = {"rnnt": rnnt_z, "monotonic": mono_z}
ARCS_OF = {"rnnt": rnnt_arcs_of_nodes, "monotonic": mono_arcs_of_nodes}
GAMMA_OF = {"rnnt": rnnt_gamma, "monotonic": mono_gamma}


def hat_inputs(lattice):
    """x = e^logit and labels: fractions, and letters where their rational functions are small."""
    yield from FEW[lattice]
    yield from ((field_grid("x", (T, len(labels) + 1, V)), labels) for T, labels, V in GRIDS)


def hat_slope(lattice, x, labels, *index, transform=hat_probabilities):
    """sympy: the derivative of -log of the sum over the paths with respect to one of HAT's logits."""
    def z_of(x):
        return Z_OF[lattice](transform(x, blank_of(labels)), labels)

    z = z_of(x)
    return -x[index] * (slope_at(z_of, x, *index) if isinstance(z, Fraction) else slope(z, x[index])) / z


BOTH_LATTICES = pytest.mark.parametrize("lattice", ["rnnt", "monotonic"])


@pytest.mark.equation("eq-hat-grad-blank")
@BOTH_LATTICES
def test_grad_blank(lattice):
    """sympy: derivative with respect to each blank's logit against the two posteriors of alpha, step, beta."""
    def rhs(slope, s, e_blank, e_label, t, u):
        return s[t, u] * e_label[t, u] - (1 - s[t, u]) * e_blank[t, u]

    check_equation("eq-hat-grad-blank", first, rhs, (
        (hat_slope(lattice, x, labels, t, u, blank_of(labels)), zero_outside(y[..., blank_of(labels)]),
         *map(zero_outside, arcs), t, u)
        for x, labels in hat_inputs(lattice) for y in [hat_probabilities(x, blank_of(labels))]
        for arcs in [ARCS_OF[lattice](y, labels)] for t, u in np.ndindex(y.shape[:2])))


@pytest.mark.equation("eq-hat-visits")
@BOTH_LATTICES
def test_visits(lattice):
    """sympy: the same derivative against sigmoid times node occupancy, minus the blank's posterior."""
    def rhs(slope, s, gamma, e_blank, t, u):
        return s[t, u] * gamma[t, u] - e_blank[t, u]

    check_equation("eq-hat-visits", first, rhs, (
        (hat_slope(lattice, x, labels, t, u, blank_of(labels)), *map(zero_outside, (
            y[..., blank_of(labels)], GAMMA_OF[lattice](y, labels), e_blank)), t, u)
        for x, labels in hat_inputs(lattice) for y in [hat_probabilities(x, blank_of(labels))]
        for e_blank, _ in [ARCS_OF[lattice](y, labels)] for t, u in np.ndindex(y.shape[:2])))


@pytest.mark.equation("eq-hat-grad-label")
@BOTH_LATTICES
def test_grad_label(lattice):
    """sympy: derivative with respect to each label's logit against the posterior of the label arc."""
    def rhs(slope, e_label, q, labels, blank, t, u, k):
        return e_label[t, u] * (q[t, u, k] - (k == labels[u]))

    check_equation("eq-hat-grad-label", first, rhs, (
        (hat_slope(lattice, x, labels, *index), zero_outside(e_label), zero_outside(label_shares(x, blank_of(labels))),
         next_labels(labels), blank_of(labels), *index)
        for x, labels in hat_inputs(lattice) for y in [hat_probabilities(x, blank_of(labels))]
        for _, e_label in [ARCS_OF[lattice](y, labels)] for index in np.ndindex(y.shape)
        if index[-1] != blank_of(labels)), left_out={"k the blank": "for a label k"})


def of_softmax(x, blank):
    return softmax(x)


def same_in_hat(x, blank):
    """The e^logit that make HAT's probabilities those of a softmax."""
    same = x.copy()
    same[..., blank] /= np.delete(x, blank, axis=-1).sum(axis=-1)
    return same


@pytest.mark.equation("eq-hat-coordinates", patterns={
    r"\frac{\partial L}{\partial \zeta_{t,u}(k)}": "grad_logits",
    r"\frac{\partial L}{\partial z_{t,u}(k)}": "by_label",
    r"\frac{\partial L}{\partial z_{t,u}(\varnothing)}": "by_blank"})
def test_coordinates():
    """sympy: derivatives through a softmax, with respect to the labels' logits, against those through HAT where both
    give the same probabilities."""
    def rhs(grad_logits, by_label, by_blank, q, labels, blank, t, u, k):
        return by_label - q[t, u, k] * by_blank

    def cases():
        for x, labels in FEW["rnnt"]:
            blank, same = blank_of(labels), same_in_hat(x, blank_of(labels))
            for t, u, k in np.ndindex(x.shape):
                if k != blank:
                    yield (hat_slope("rnnt", x, labels, t, u, k, transform=of_softmax),
                           *(hat_slope("rnnt", same, labels, t, u, i) for i in (k, blank)),
                           zero_outside(label_shares(x, blank)), next_labels(labels), blank, t, u, k)

    check_equation("eq-hat-coordinates", first, rhs, cases(), left_out={"k the blank": "for a label k"})


def test_coordinates_of_the_blank():
    """The same probabilities, and the same derivative with respect to the blank's logit."""
    for x, labels in RNNT_INPUTS:
        blank, same = blank_of(labels), same_in_hat(x, blank_of(labels))
        assert (hat_probabilities(same, blank) == softmax(x)).all()
        for t, u in np.ndindex(x.shape[:2]):
            assert hat_slope("rnnt", same, labels, t, u, blank) == hat_slope(
                "rnnt", x, labels, t, u, blank, transform=of_softmax)


@computed(kind="differences in 50 digits")
def slope_in_b(logits, labels, floor, t, u):
    """The limit of difference quotients of -log Z in the logit of a blank, labels' shares held at a floor."""
    mp = in_50_digits()

    def loss(b):
        moved = logits.astype(object)
        moved[t, u, blank_of(labels)] = b
        return -mp.log(rnnt_z(held(moved, blank_of(labels), floor, mp), labels))

    return mp.diff(loss, mp.mpf(logits[t, u, blank_of(labels)]))


def in_50_digits():
    mp = mpmath.MPContext()
    mp.dps = 50
    return mp


def held(logits, blank, floor, mp):
    """HAT's probabilities, the labels' share no less than a floor."""
    x = np.vectorize(lambda logit: mp.exp(logit), otypes=[object])(logits)
    y, of_labels = np.empty(x.shape, dtype=object), np.arange(x.shape[-1]) != blank
    y[..., [blank]] = x[..., [blank]] / (1 + x[..., [blank]])
    y[..., of_labels] = np.maximum(1 - y[..., [blank]], mp.mpf(floor)) * softmax(x[..., of_labels])
    return y


def at_the_floor():
    """Logits whose labels' shares are below a floor of 1e-6 and above it, some by a hair; labels, sigmoids, and the
    posteriors of both arcs."""
    rng, edge, mp = np.random.default_rng(85), float(np.log(1e6 - 1)), in_50_digits()
    for T, V, labels in [(3, 3, [1]), (1, 3, [2]), (3, 2, []), (2, 2, [1, 1, 1]), (2, 4, Target([3, 0], blank=2))]:
        logits = rng.integers(-20, 20, size=(T, len(labels) + 1, V)) / 10
        logits[..., blank_of(labels)] = np.resize([edge + 1e-9, 3.0, 20.0, edge - 1e-9, 15.0], logits.shape[:2])
        y = held(logits, blank_of(labels), 1e-6, mp)
        yield logits, labels, y[..., blank_of(labels)], *rnnt_arcs_of_nodes(y, labels)


@pytest.mark.equation("eq-hat-clamped", conditions={
    r"\text{where } 1 - p_{t,u} < \varepsilon": "1 - s[t, u] < floor"})
def test_clamped():
    """The derivative with respect to the blank's logit, to 25 digits, where the labels' share is held at a floor."""
    def rhs(slope, s, e_blank, floor, t, u):
        return -(1 - s[t, u]) * e_blank[t, u]

    check_equation("eq-hat-clamped", first, rhs, (
        (slope_in_b(logits, labels, 1e-6, t, u), zero_outside(s), zero_outside(e_blank), 1e-6, t, u)
        for logits, labels, s, e_blank, _ in at_the_floor() for t, u in np.ndindex(s.shape) if 1 - s[t, u] < 1e-6),
        tolerance=1e-25)


def test_not_clamped():
    """Where the share is above the floor, by a hair or more, both terms are left, and the sum is another number."""
    others = 0
    for logits, labels, s, e_blank, e_label in at_the_floor():
        for t, u in np.ndindex(e_label.shape):
            if 1 - s[t, u] > 1e-6:
                slope, one_term = slope_in_b(logits, labels, 1e-6, t, u), -(1 - s[t, u]) * e_blank[t, u]
                assert abs(slope - s[t, u] * e_label[t, u] - one_term) < 1e-25
                others += abs(slope - one_term) > 1e-9
    assert others

"""Checks of the equations of the chapter that compares CTC and RNN-T. The left sides come from enumerated paths."""

from itertools import combinations, combinations_with_replacement, product
from math import comb, prod

import notation
import numpy as np
import pytest
import ranges
from brute_force import (
    RNNT_INPUTS,
    Target,
    blank_of,
    each_entry,
    grad_logit,
    probabilities,
    rnnt_arcs_of_nodes,
    rnnt_gamma,
    rnnt_mass,
    rnnt_occupancy,
    rnnt_occupancy_of_nodes,
    rnnt_z,
    zero,
)
from sides import first
from tex_to_python import Notation

from reference_impl import lattice_loss
from reference_impl.equations import Quantities, check_equation, computed, zero_outside
from reference_impl.lattice import enumerate_paths
from reference_impl.symbolic import softmax
from reference_impl.topology import monotonic_rnnt_lattice

NOTATION = notation.RNNT | Notation({r"y_{#t}(#k)": "by_frame[#t, #k]", r"E_{#t}(#k)": "E[#t, #k]"})
QUANTITIES = ranges.RNNT | Quantities({"by_frame": "T, V", "E": "T, V", "n": "T"})

#: probabilities of each node, and labels; frames enough for monotonic RNN-T, too
MONO_INPUTS = [(probabilities(seed, (T, len(labels) + 1, V)), labels) for seed, (T, V, labels) in enumerate([
    (3, 3, [1, 2]), (3, 3, [2, 2]), (1, 3, [2]), (3, 3, []), (3, 2, [1]), (4, 2, [1, 1, 1]),
    (3, 4, Target([3, 0], blank=2))])]
TOO_FEW = {"T < U": "for T >= U: no path is shorter"}


def at_every_node(by_frame, labels):
    """A constant predictor: the distribution of a frame at each of its nodes."""
    return np.repeat(by_frame[:, None], len(labels) + 1, axis=1)


def mono_walks(symbols, labels, blank, t, u):
    """Entries (t, u, k) of every string of that many symbols, one a frame, whose labels, blanks deleted, are these. It
    starts in frame t and row u."""
    strings = [s for s in product(*symbols) if [k for k in s if k != blank] == list(labels)]
    return [[(t + i, u + sum(k != blank for k in s[:i]), k) for i, k in enumerate(s)] for s in strings]


@computed
def mono_paths(T, V, labels):
    """Every path of monotonic RNN-T."""
    return mono_walks([range(V)] * T, labels, blank_of(labels), 0, 0)


@computed
def mono_z(y, labels):
    return sum((rnnt_mass(y, entries) for entries in mono_paths(len(y), y.shape[-1], labels)), zero(y))


@computed
def mono_alpha(y, labels):
    """At each node, the mass of all strings of t symbols that spell the first u labels."""
    return each_entry(y.shape[:2], lambda t, u: sum(
        (rnnt_mass(y, walk) for walk in mono_walks([range(y.shape[-1])] * t, labels[:u], blank_of(labels), 0, 0)),
        zero(y)))


@computed
def mono_beta(y, labels):
    """At each node, and after the last frame, the mass of all strings for the frames from t on that spell the labels
    from u on."""
    T, rows, V = y.shape
    return each_entry((T + 1, rows), lambda t, u: sum(
        (rnnt_mass(y, walk) for walk in mono_walks([range(V)] * (T - t), labels[u:], blank_of(labels), t, u)), zero(y)))


def mono_gamma(y, labels):
    """alpha beta / Z of each node."""
    return mono_alpha(y, labels) * mono_beta(y, labels)[:-1] / mono_z(y, labels)


def mono_occupancy(y, labels):
    """alpha, the step, and beta, over Z, which is beta of the first node: no list of paths."""
    alpha, beta, occupancy = mono_alpha(y, labels), mono_beta(y, labels), y * 0
    blank, rows = blank_of(labels), range(len(labels))
    occupancy[:, :, blank] = alpha * y[:, :, blank] * beta[1:] / beta[0, 0]
    occupancy[:, rows, list(labels)] = alpha[:, :-1] * y[:, rows, labels] * beta[1:, 1:] / beta[0, 0]
    return occupancy


@pytest.mark.equation("eq-compare-mono-count", patterns={r"N_{\text{mono}}(T, U)": "count"})
def test_mono_count():
    """The number of strings against the choice of U frames, enough of them or not."""
    def rhs(count, T, U):
        return comb(T, U)

    targets = [[], [1], [1, 1], [1, 2], [2, 1, 2], [1, 1, 1], Target([3, 0], blank=2)]
    check_equation("eq-compare-mono-count", first, rhs, (
        (len(mono_paths(T, 1 + max([*labels, blank_of(labels)]), labels)), T, len(labels))
        for T in range(6) for labels in targets))


def test_mono_lattice():
    """The package's lattice has the same paths."""
    for T, labels in product(range(1, 5), [[], [1], [1, 1], [1, 2], [2, 1, 2]]):
        lattice = monotonic_rnnt_lattice(labels, T, 3)
        paths = [[lattice.arcs[i].entry for i in path] for path in enumerate_paths(lattice)]
        assert sorted([each for each in path if each is not None] for path in paths) == sorted(mono_paths(T, 3, labels))


def _by_frame():
    for T, V, labels in [(3, 3, [1, 2]), (4, 3, [2, 2]), (2, 3, [1]), (3, 3, []), (1, 3, [2]), (2, 2, [1, 1, 1]),
                         (3, 4, Target([3, 0], blank=2))]:
        by_frame = probabilities(T, (T, V))
        yield at_every_node(by_frame, labels), by_frame, labels


@pytest.mark.equation("eq-compare-weakly", patterns={r"Z_{\text{RNN-T}}": "z"}, over={
    r"0 \le \tau_0 \le \dots \le \tau_{U-1} \le T-1": "for tau in weakly(T, U)"})
def test_weakly_increasing_frames():
    """Z over all RNN-T paths of a constant predictor against weakly increasing frames of the labels."""
    def rhs(z, by_frame, labels, blank, T, U):
        return (prod(by_frame[t, blank] for t in range(0, T))
                * sum(prod(by_frame[tau[u], labels[u]] for u in range(0, U)) for tau in weakly(T, U)))

    def weakly(T, U):
        return combinations_with_replacement(range(T), U)

    check_equation("eq-compare-weakly", first, rhs, (
        (rnnt_z(y, labels), zero_outside(by_frame), labels, blank_of(labels), len(y), len(labels))
        for y, by_frame, labels in _by_frame()))


@pytest.mark.equation("eq-compare-strictly", patterns={r"Z_{\text{mono}}": "z"}, over={
    r"0 \le \tau_0 < \dots < \tau_{U-1} \le T-1": "for tau in strictly(T, U)",
    r"t \notin \{\tau_0, \dots, \tau_{U-1}\}": "for t in range(T) if t not in tau"})
def test_strictly_increasing_frames():
    """Z over all monotonic strings of a constant predictor against strictly increasing frames of the labels."""
    def rhs(z, by_frame, labels, blank, T, U):
        return sum(prod(by_frame[tau[u], labels[u]] for u in range(0, U))
                   * prod(by_frame[t, blank] for t in range(0, T) if t not in tau) for tau in strictly(T, U))

    def strictly(T, U):
        return combinations(range(T), U)

    check_equation("eq-compare-strictly", first, rhs, (
        (mono_z(y, labels), zero_outside(by_frame), labels, blank_of(labels), len(y), len(labels))
        for y, by_frame, labels in _by_frame()))


@pytest.mark.equation("eq-compare-visits")
def test_visits():
    """Node occupancies of a frame, from alpha and beta, against 1 and the labels that enumerated paths emit there; both
    sides are mutated."""
    def left(gamma, n, t, U):
        return sum(gamma[t, u] for u in range(0, U + 1))

    def right(gamma, n, t, U):
        return 1 + n[t]

    cases = []
    for y, labels in RNNT_INPUTS:
        uses, gamma = rnnt_occupancy(y, labels), zero_outside(rnnt_gamma(y, labels), zero=5)
        n = uses[:, range(len(labels)), list(labels)].sum(axis=1)
        cases += [(gamma, zero_outside(n), t, len(labels)) for t in range(len(y))]
    check_equation("eq-compare-visits", left, right, cases)
    check_equation("eq-compare-visits", right, left, cases)


@pytest.mark.equation("eq-compare-mono-frame")
def test_mono_frame():
    """Node occupancies of monotonic RNN-T, from alpha and beta, over Z of the strings, add up to 1 in each frame."""
    def rhs(gamma, t, U):
        return sum(gamma[t, u] for u in range(0, U + 1))

    check_equation("eq-compare-mono-frame", lambda *_: 1, rhs, (
        (zero_outside(mono_gamma(y, labels), zero=5), t, len(labels)) for y, labels in MONO_INPUTS
        for t in range(len(y))), left_out=TOO_FEW)


def test_mono_without_paths():
    """With fewer frames than labels there is no string: no frame has mass 1, and the gradient is 0, not belief."""
    lattice, log_probs = monotonic_rnnt_lattice([1, 2], 1, 3), np.log(np.full((1, 3, 3), 1 / 3))
    assert mono_paths(1, 3, [1, 2]) == [] and lattice_loss.loss(lattice, log_probs) == np.inf
    assert not lattice_loss.occupancy(lattice, log_probs).any()
    assert not lattice_loss.grad_logits(lattice, log_probs).any()


def _by_score(inputs, z, occupancy):
    """sympy: the derivative of -log Z with respect to each score of a constant predictor; the softmax of the scores,
    the expected uses by frame, and labels, t, k."""
    for probabilities_of_nodes, labels in inputs:
        x = probabilities_of_nodes[:, 0]
        by_frame = softmax(x)
        E = occupancy(at_every_node(by_frame, labels), labels).sum(axis=1)
        for t, k in np.ndindex(x.shape):
            grad = grad_logit(lambda by_frame, labels=labels: z(at_every_node(by_frame, labels), labels), x, t, k)
            yield grad, zero_outside(by_frame), zero_outside(E), labels, t, k


@pytest.mark.equation("eq-compare-constant-grad", patterns={
    r"\frac{\partial L_{\text{RNN-T}}}{\partial f_t(k)}": "grad_logits"})
def test_constant_predictor():
    """sympy's derivative of the RNN-T path sum with respect to the encoder's scores against the closed form, of alpha
    and beta."""
    def rhs(grad_logits, n, by_frame, E, labels, t, k):
        return (1 + n[t]) * by_frame[t, k] - E[t, k]

    def cases():
        for grad, by_frame, *others in _by_score(RNNT_INPUTS, rnnt_z, rnnt_occupancy_of_nodes):
            labels = others[1]
            n = rnnt_arcs_of_nodes(at_every_node(by_frame.array, labels), labels)[1].sum(axis=1)
            yield grad, zero_outside(n), by_frame, *others

    check_equation("eq-compare-constant-grad", first, rhs, cases())


@pytest.mark.equation("eq-compare-mono-grad", patterns={
    r"\frac{\partial L_{\text{mono}}}{\partial f_t(k)}": "grad_logits"})
def test_mono_constant_predictor():
    """sympy's derivative of the sum over monotonic strings against belief minus expected use, of alpha and beta."""
    def rhs(grad_logits, by_frame, E, labels, t, k):
        return by_frame[t, k] - E[t, k]

    check_equation("eq-compare-mono-grad", first, rhs, _by_score(MONO_INPUTS, mono_z, mono_occupancy),
                   left_out=TOO_FEW)

"""The explicit recursions node by node: what alpha and beta mean, at the borders too, and on every semiring."""

from fractions import Fraction
from math import fsum

import numpy as np
import pytest
from enumeration import alignments, ctc_alpha, ctc_beta, probability, rnnt_alpha, rnnt_beta
from implementations import EXPLICIT, assert_losses, every_kind, random_scores

from reference_impl.semiring import COUNT, LOG, LOG32, MAX, REAL
from reference_impl.symbolic import path_sum, ring_grid
from reference_impl.topology import ctc_lattice, rnnt_lattice

CASES = [  # T, V, targets, blank; all but the one-path borders in the second half have several paths
    (4, 3, [1, 2], 0), (5, 3, [1, 1, 2], 0), (4, 3, [0, 2], 1), (5, 2, [0, 0], 1), (3, 3, [], 0),
    (1, 2, [1], 0), (1, 2, [], 0), (2, 3, [1, 2], 0), (1, 3, [2, 2], 0),
]
DEFINITION = {"ctc": (ctc_alpha, ctc_beta), "rnnt": (rnnt_alpha, rnnt_beta)}


def visited(kind, entries, blank):
    """The nodes (t, row) of an alignment. CTC: state 2n - 1 during the n-th label, state 2n in the blank after it."""
    if kind == "rnnt":
        return {entry[:2] for entry in entries}
    nodes, labels, before = set(), 0, blank
    for t, symbol in entries:
        labels += symbol not in (blank, before)
        nodes.add((t, 2 * labels - (symbol != blank)))
        before = symbol
    return nodes


@pytest.mark.parametrize(("T", "V", "targets", "blank"), CASES)
@every_kind
class TestNodeByNode:
    def test_definitions(self, kind, T, V, targets, blank):
        """alpha holds what comes before (in CTC with the emission at t), beta what comes after."""
        log_probs = random_scores(np.random.default_rng(T), kind, T, len(targets), V)
        define_alpha, define_beta = DEFINITION[kind]
        log_a = EXPLICIT[kind].log_alpha(log_probs, targets, blank=blank)
        log_b = EXPLICIT[kind].log_beta(log_probs, targets, blank=blank)
        assert log_a.shape == log_b.shape == (T, 2 * len(targets) + 1 if kind == "ctc" else len(targets) + 1)
        for node in np.ndindex(log_a.shape):
            assert np.exp(log_a[node]) == pytest.approx(define_alpha(log_probs, targets, blank, *node), rel=1e-12)
            assert np.exp(log_b[node]) == pytest.approx(define_beta(log_probs, targets, blank, *node), rel=1e-12)

    def test_product_is_the_mass_through_the_node(self, kind, T, V, targets, blank):
        log_probs = random_scores(np.random.default_rng(T), kind, T, len(targets), V)
        through = np.exp(EXPLICIT[kind].log_alpha(log_probs, targets, blank=blank)
                         + EXPLICIT[kind].log_beta(log_probs, targets, blank=blank))
        paths = alignments(kind, targets, T, V, blank)
        for node in np.ndindex(through.shape):
            mass = fsum(probability(log_probs, path) for path in paths if node in visited(kind, path, blank))
            assert through[node] == pytest.approx(mass, rel=1e-12)

    def test_exact_fractions(self, kind, T, V, targets, blank):
        """On REAL every frame of CTC, every anti-diagonal of RNN-T carries exactly Z, and Z is exactly the path sum."""
        shape = (T, V) if kind == "ctc" else (T, len(targets) + 1, V)
        y = np.array([Fraction(n, 7) for n in np.random.default_rng(T).integers(1, 50, np.prod(shape)).tolist()],
                     dtype=object).reshape(shape)
        module = EXPLICIT[kind]
        z = module.Z(y, targets, blank=blank, semiring=REAL)
        through = (module.alpha(y, targets, blank=blank, semiring=REAL)
                   * module.beta(y, targets, blank=blank, semiring=REAL))
        path_masses = [REAL.product(y[entry] for entry in path) for path in alignments(kind, targets, T, V, blank)]
        assert z == sum(path_masses)
        cuts = through if kind == "ctc" else [np.diag(through[:, ::-1], k) for k in range(-T + 1, len(targets) + 1)]
        assert all(sum(cut) == z for cut in cuts)

    def test_best_path(self, kind, T, V, targets, blank):
        """On MAX: alpha + beta is at most the best score, and equal to it exactly along the best path (Viterbi)."""
        log_probs = random_scores(np.random.default_rng(T), kind, T, len(targets), V)
        paths = alignments(kind, targets, T, V, blank)
        if not paths:
            assert EXPLICIT[kind].Z(log_probs, targets, blank=blank, semiring=MAX) == -np.inf
            return
        best = max(paths, key=lambda path: probability(log_probs, path))
        score = fsum(log_probs[entry] for entry in best)
        assert EXPLICIT[kind].Z(log_probs, targets, blank=blank, semiring=MAX) == pytest.approx(score, abs=1e-12)
        module = EXPLICIT[kind]
        through = (module.alpha(log_probs, targets, blank=blank, semiring=MAX)
                   + module.beta(log_probs, targets, blank=blank, semiring=MAX))
        on_best_path = {node for node in np.ndindex(through.shape) if abs(through[node] - score) < 1e-12}
        assert on_best_path == visited(kind, best, blank)
        assert through.max() <= score + 1e-12

    def test_polynomials(self, kind, T, V, targets, blank):
        """On a sympy ring: Z is the lattice's path sum, and y dZ/dy added up over a frame's entries is Z (Euler)."""
        y = ring_grid("y", (T, V) if kind == "ctc" else (T, len(targets) + 1, V))
        lattice = {"ctc": ctc_lattice, "rnnt": rnnt_lattice}[kind](targets, T, V, blank=blank)
        z = EXPLICIT[kind].Z(y, targets, blank=blank, semiring=REAL)
        assert z == path_sum(lattice, y)
        if z != 0:
            degree = T if kind == "ctc" else T + len(targets)
            assert sum(entry * z.diff(entry) for entry in y.flat) == degree * z


@every_kind
def test_counts_of_a_masked_lattice(kind):
    """COUNT leaves out the paths through an entry that is -inf, and no others."""
    rng = np.random.default_rng(0)
    log_probs = random_scores(rng, kind, 4, 2, 3)
    log_probs.flat[[4, 9]] = -np.inf
    paths = alignments(kind, [1, 2], 4, 3, 0)
    alive = [path for path in paths if all(log_probs[entry] > -np.inf for entry in path)]
    assert 1 < len(alive) < len(paths)
    assert EXPLICIT[kind].Z(log_probs, [1, 2], semiring=COUNT) == len(alive)


@every_kind
def test_log32_rounds_everything(kind):
    """LOG32 computes in float32 whatever dtype the weights have: the rounded weights give the very same alpha."""
    module, targets = EXPLICIT[kind], [1, 2, 1]
    log_probs = random_scores(np.random.default_rng(3), kind, 7, 3, 4)
    for recursion in (module.alpha, module.beta):
        single = recursion(log_probs, targets, semiring=LOG32)
        rounded = log_probs.astype(np.float32)
        assert single.dtype == np.float32
        np.testing.assert_array_equal(single, recursion(rounded, targets, semiring=LOG32))
        double = recursion(rounded, targets)
        live = np.isfinite(double)
        np.testing.assert_array_equal(live, np.isfinite(single))
        assert 0 < np.abs(single[live] - double[live]).max() < 1e-5
    assert type(LOG32.sum([])) is type(LOG32.product([])) is np.float32


def test_ctc_without_frames():
    """The empty target has the empty path; no other target has any."""
    nothing = np.zeros((0, 3))
    assert EXPLICIT["ctc"].log_alpha(nothing, []).shape == (0, 1)
    assert EXPLICIT["ctc"].log_beta(nothing, [1]).shape == (0, 3)
    assert EXPLICIT["ctc"].Z(nothing, [], semiring=LOG) == 0.0
    assert EXPLICIT["ctc"].Z(nothing, [], semiring=COUNT) == 1
    assert EXPLICIT["ctc"].Z(nothing, [1], semiring=LOG) == -np.inf


def test_ctc_one_frame():
    """Alpha starts in the first two states, beta is 1 in the last two: they meet in the one label."""
    log_probs = np.log([[0.2, 0.8]])
    assert_losses(np.exp(EXPLICIT["ctc"].log_alpha(log_probs, [1])), [[0.2, 0.8, 0.0]])
    assert_losses(np.exp(EXPLICIT["ctc"].log_beta(log_probs, [1])), [[0.0, 1.0, 1.0]])


def test_rnnt_one_frame():
    """One column: alpha multiplies the labels below, beta those above and the last blank."""
    log_probs = np.log([[[0.2, 0.8], [0.3, 0.7]]])
    assert_losses(np.exp(EXPLICIT["rnnt"].log_alpha(log_probs, [1])), [[1.0, 0.8]])
    assert_losses(np.exp(EXPLICIT["rnnt"].log_beta(log_probs, [1])), [[0.8 * 0.3, 0.3]])


def test_rnnt_beta_begins_with_z():
    log_probs = random_scores(np.random.default_rng(1), "rnnt", 4, 3, 5)
    module = EXPLICIT["rnnt"]
    assert_losses(module.log_beta(log_probs, [1, 1, 4])[0, 0], module.Z(log_probs, [1, 1, 4]))


@pytest.mark.parametrize(("semiring", "elements"), [
    (LOG, [-np.inf, -1.5, 0.25]), (MAX, [-np.inf, -1.5, 0.25]), (COUNT, [0, 1, 5]), (REAL, [0, Fraction(1, 3), 2]),
], ids=lambda value: getattr(value, "name", None))
def test_semiring_laws(semiring, elements):
    """What the recursions rely on: neutral elements, zero annihilates, times distributes over plus."""
    plus, times = semiring.plus, semiring.times
    for a in elements:
        assert plus(a, semiring.zero) == times(a, semiring.one) == times(semiring.one, a) == a
        assert times(a, semiring.zero) == semiring.zero
        for b in elements:
            assert plus(a, b) == plus(b, a)
            for c in elements:
                assert times(a, plus(b, c)) == pytest.approx(plus(times(a, b), times(a, c)), abs=1e-15)
    assert semiring.sum([]) == semiring.zero
    assert semiring.product([]) == semiring.one

"""The formulas of published RNN-T kernels, against enumerated alignments; what they do when a part is left out, when a
label equals the blank, and when no alignment exists."""

from fractions import Fraction

import numpy as np
import pytest
from enumeration import loss_and_grad_logits, loss_and_occupancy, rnnt_alpha, rnnt_beta
from implementations import EXACT, assert_gradients

from reference_impl import log_softmax, rnnt
from reference_impl.as_published.rnnt_formulas import (
    CPU_TERMS,
    FUSED_CASES,
    arriving,
    cpu_kernel,
    flow_back,
    fused_kernel,
    k2_arrays,
    k2_shares,
    pack_pairs,
)
from reference_impl.semiring import LOG32

# T, V, targets, blank: several labels, a repeat, another blank, more labels than frames, one frame, no label
CASES = [(3, 4, [1, 2], 0), (4, 3, [2, 2], 0), (3, 4, [0, 3], 2), (2, 3, [1, 2, 1], 0), (1, 3, [2], 0), (3, 2, [], 0)]
every_case = pytest.mark.parametrize(("T", "V", "targets", "blank"), CASES)


def random_logits(T, V, targets):
    return np.random.default_rng(T + V).normal(size=(T, len(targets) + 1, V))


@pytest.fixture
def barred():
    """Log-probs of a grid whose last blank, which is on every path, has probability 0."""
    log_probs = log_softmax(random_logits(3, 4, [1, 2]))
    log_probs[-1, -1, 0] = -np.inf
    return log_probs


@every_case
class TestAgainstEnumeration:
    def test_cpu_kernel(self, T, V, targets, blank):
        scores = random_logits(T, V, targets)  # not normalised: scores are accepted
        _, occupancy = loss_and_occupancy("rnnt", scores, targets, blank)
        assert_gradients(cpu_kernel(scores, targets, blank=blank), -occupancy)

    def test_fused_kernel(self, T, V, targets, blank):
        logits = random_logits(T, V, targets)
        _, expected = loss_and_grad_logits("rnnt", logits, targets, blank)
        assert_gradients(fused_kernel(logits, targets, blank=blank), expected)

    @pytest.mark.parametrize("guarded", [False, True])
    def test_k2(self, T, V, targets, blank, guarded):
        """Posteriors of labels and blanks, and node occupancies; nothing in the dead ends."""
        scores = random_logits(T, V, targets)
        loss, occupancy = loss_and_occupancy("rnnt", scores, targets, blank)
        p, px, py = k2_arrays(scores, targets, blank=blank)
        p_grad, px_grad, py_grad = flow_back(*k2_shares(p, px, guarded=guarded))
        U = len(targets)
        assert p[T, U] == pytest.approx(-loss, rel=EXACT)
        assert_gradients(px_grad[:T, :U], occupancy[:, np.arange(U), targets])
        assert_gradients(py_grad[:T], occupancy[:, :, blank])
        assert_gradients(p_grad[:T], occupancy.sum(-1))
        assert p_grad[T].tolist() == [0.0] * U + [1.0]
        assert not px_grad[T].any() and not py_grad[T].any() and not px_grad[:, U].any()

    def test_k2_arrays(self, T, V, targets, blank):
        """p by enumeration of prefixes, in the last column of paths of shorter targets; scores in their places."""
        scores, U = random_logits(T, V, targets), len(targets)
        p, px, py = k2_arrays(scores, targets, blank=blank)
        assert p.shape == px.shape == py.shape == (T + 1, U + 1)
        for t, u in np.ndindex(T, U + 1):
            assert np.exp(p[t, u]) == pytest.approx(rnnt_alpha(scores, targets, blank, t, u), rel=EXACT)
            assert py[t, u] == scores[t, u, blank]
            assert px[t, u] == (scores[t, u, targets[u]] if u < U else -np.inf)
        for u in range(U + 1):
            ended = rnnt_beta(scores[:, :u + 1], targets[:u], blank, 0, 0)
            assert np.exp(p[T, u]) == pytest.approx(ended, rel=EXACT)
            assert px[T, u] == py[T, u] == -np.inf

    def test_arriving(self, T, V, targets, blank):
        """The two arcs of a node add up to p, or exactly one of them is -inf; at the first node both are."""
        p, px, py = k2_arrays(random_logits(T, V, targets), targets, blank=blank)
        by_label, by_blank = arriving(p, px, py)
        assert by_label[0, 0] == by_blank[0, 0] == -np.inf
        for t, u in list(np.ndindex(p.shape))[1:]:
            assert (by_label[t, u] == -np.inf) == (u == 0 or t == T)
            assert (by_blank[t, u] == -np.inf) == (t == 0)
            assert np.logaddexp(by_label[t, u], by_blank[t, u]) == pytest.approx(p[t, u], rel=EXACT)

    def test_without_a_term(self, T, V, targets, blank):
        """Each entry is divided by what the term contributes, all masses from enumeration."""
        scores, U = random_logits(T, V, targets), len(targets)
        loss, occupancy = loss_and_occupancy("rnnt", scores, targets, blank)
        missing = {term: cpu_kernel(scores, targets, blank=blank, without=term) for term in CPU_TERMS}
        for t, u in np.ndindex(T, U + 1):
            for k in {blank, *targets[u:u + 1]}:
                after = (t + 1, u) if k == blank else (t, u + 1)
                inside = after[0] < T
                part = {"alpha": rnnt_alpha(scores, targets, blank, t, u), "log_probs": np.exp(scores[t, u, k]),
                        "beta": rnnt_beta(scores, targets, blank, *after) if inside else 1.0, "loglike": np.exp(loss)}
                for term in CPU_TERMS:
                    assert missing[term][t, u, k] == pytest.approx(-occupancy[t, u, k] / part[term], rel=1e-11)

    def test_packed_pairs(self, T, V, targets, blank):
        scores, rows = random_logits(T, V, targets), len(targets) + 1
        pairs = pack_pairs(scores, targets, blank=blank)
        assert pairs.shape == (2 * T * rows,)
        for t, u in np.ndindex(T, rows):
            assert pairs[2 * (t * rows + u)] == scores[t, u, blank]
            assert pairs[2 * (t * rows + u) + 1] == (scores[t, u, targets[u]] if u + 1 < rows else 0)


def test_a_case_that_is_left_out():
    """Its entries fall through to "other"; without "other" they are 0. Nothing else changes."""
    T, targets = 3, [1, 2]
    logits = random_logits(T, 4, targets)
    right = fused_kernel(logits, targets)
    _, occupancy = loss_and_occupancy("rnnt", log_softmax(logits), targets, 0)
    belief = np.exp(log_softmax(logits)) * occupancy.sum(-1, keepdims=True)
    entries = {"last blank": [(T - 1, 2, 0)], "blank": [(t, u, 0) for t in range(T - 1) for u in range(3)],
               "label": [(t, u, label) for t in range(T) for u, label in enumerate(targets)]}
    entries["other"] = set(np.ndindex(logits.shape)) - {entry for some in entries.values() for entry in some}
    for case in FUSED_CASES:
        expected = right.copy()
        for entry in entries[case]:
            expected[entry] = 0.0 if case == "other" else belief[entry]
        assert_gradients(fused_kernel(logits, targets, cases=[c for c in FUSED_CASES if c != case]), expected)


def test_a_label_that_equals_the_blank():
    """The CPU kernel overwrites the blank by the label, the fused one takes the case that it asks for first."""
    T, targets, blank = 3, [1], 1
    logits = random_logits(T, 3, targets)
    # the same masses with the label renamed: a column of its own, a copy of the blank's
    log_probs = log_softmax(logits)
    _, apart = loss_and_occupancy("rnnt", np.dstack([log_probs, log_probs[..., blank]]), [3], blank)
    e_blank, e_label = apart[..., blank], apart[..., 3]

    written = -e_blank
    written[:, 0] = -e_label[:, 0]
    assert_gradients(cpu_kernel(log_probs, targets, blank=blank)[..., blank], written)

    belief = np.exp(log_probs[..., blank]) * (e_blank + e_label)
    blank_first, label_first = belief - e_blank, belief - e_blank
    blank_first[-1, 0] = (belief - e_label)[-1, 0]  # the last frame's blank leads nowhere, so the label has its turn
    label_first[:, 0] = (belief - e_label)[:, 0]
    order = ("label", "blank", "last blank", "other")
    assert_gradients(fused_kernel(logits, targets, blank=blank)[..., blank], blank_first)
    assert_gradients(fused_kernel(logits, targets, blank=blank, cases=order)[..., blank], label_first)
    assert np.abs(blank_first - label_first).max() > 0.1


def test_no_alignment(barred):
    """NaN in the two gradients; behind k2's guards something finite, as if the barred blank were allowed."""
    targets = [1, 2]
    with np.errstate(invalid="ignore"):
        gradient, fused = cpu_kernel(barred, targets), fused_kernel(barred, targets)
    on_arcs = np.zeros(barred.shape, bool)
    on_arcs[:-1, :, 0] = on_arcs[-1, -1, 0] = on_arcs[:, 0, 1] = on_arcs[:, 1, 2] = True
    np.testing.assert_array_equal(np.isnan(gradient), on_arcs)
    assert not gradient[~on_arcs].any()
    assert np.isnan(fused).all()

    p, px, _ = k2_arrays(barred, targets)
    assert p[-1, -1] == -np.inf
    assert np.isnan(k2_shares(p, px)[0][-1, -1])
    allowed = barred.copy()
    allowed[-1, -1, 0] = -1.0
    expected = flow_back(*k2_shares(*k2_arrays(allowed, targets)[:2]))
    assert_gradients(flow_back(*k2_shares(p, px, guarded=True)), expected)


def test_guards_hide_nan(barred):
    """The scores of a broken model are accepted; their NaN reaches p, and no share behind the guards."""
    barred[1, 1] = np.nan
    with np.errstate(invalid="ignore"):
        p, px, _ = k2_arrays(barred, [1, 2])
    assert np.isnan(p[-1, -1]) and np.isnan(k2_shares(p, px)[0]).any()
    by_label, by_blank = k2_shares(p, px, guarded=True)
    assert np.isfinite([by_label, by_blank]).all()
    assert by_label[1, 2] == by_blank[1, 2] == 0


def test_flow_back_is_exact_on_fractions():
    """Shares of a half everywhere: what arrives at each node is a number of ways over a power of two."""
    half = np.full((3, 3), Fraction(1, 2))
    by_label, by_blank = half.copy(), half.copy()
    by_label[:, 0], by_blank[:, 0] = 0, 1
    by_label[0], by_blank[0] = 1, 0
    p_grad, px_grad, py_grad = flow_back(by_label, by_blank, start=Fraction(-3))
    assert p_grad.tolist() == [[-3, Fraction(-3, 2), Fraction(-3, 4)],
                               [Fraction(-3, 2), Fraction(-3, 2), Fraction(-3, 2)],
                               [Fraction(-3, 4), Fraction(-3, 2), -3]]
    assert px_grad[2, 1] == py_grad[1, 2] == Fraction(-3, 2)
    assert px_grad[0, 1] == Fraction(-3, 4) and px_grad[1, 0] == Fraction(-3, 4)


def test_float32():
    """On LOG32 all of it is float32, and off by what float32 rounds away."""
    scores, targets = random_logits(4, 4, [1, 2, 1]), [1, 2, 1]
    single, double = k2_arrays(scores, targets, semiring=LOG32), k2_arrays(scores, targets)
    shares = k2_shares(*single[:2], guarded=True)
    back = flow_back(*k2_shares(*single[:2]))
    assert {array.dtype for array in (single, arriving(*single), *shares, back)} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(single[0, :-1], rnnt.alpha(scores, targets, semiring=LOG32))
    assert 0 < np.abs(single[np.isfinite(double)] - double[np.isfinite(double)]).max() < 1e-5
    assert 0 < np.abs(back - flow_back(*k2_shares(*double[:2]))).max() < 1e-5


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: cpu_kernel(np.zeros((2, 2, 3)), [1], without="denom"), ValueError,
     "without = 'denom'; expected one of None, 'alpha', 'log_probs', 'beta', 'loglike'"),
    (lambda: fused_kernel(np.zeros((2, 2, 3)), [1], cases=["label", "last"]), ValueError,
     "cases[1] = 'last'; expected one of 'last blank', 'blank', 'label', 'other'"),
    (lambda: fused_kernel(np.zeros((2, 3)), [1]), ValueError, "logits has shape (2, 3); expected 3 axes (T, U+1, V)"),
    (lambda: pack_pairs(np.zeros((2, 3, 3)), [1]), ValueError,
     "log_probs has 3 rows on its U+1 axis; expected U + 1 = 2, one more than the 1 columns of targets"),
    (lambda: k2_arrays(np.zeros((2, 2, 3)), [3]), ValueError, "targets[0] = 3; expected 0 <= label < V = 3"),
    (lambda: k2_arrays(np.zeros((0, 2, 3)), [1]), ValueError, "T = 0; expected T >= 1"),
    (lambda: cpu_kernel(np.zeros((2, 2, 3), int), [1]), TypeError,
     "log_probs has dtype int64; expected float16 or float32 or float64"),
    (lambda: cpu_kernel(np.zeros((2, 2, 3)), [1], blank=3), ValueError, "blank = 3; expected 0 <= blank < V = 3"),
    (lambda: flow_back(np.zeros((2, 3)), np.zeros((3, 2))), ValueError, "by_blank has shape (3, 2); expected (2, 3)"),
])
def test_messages(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message

"""The sweeps with a mantissa and an exponent, and the dense rows around them, where the losses' own tests do not reach.

Weights of every scale against the explicit recursions; spans of any length; what is left to logarithms; and the two
ways to run the torch losses on the CPU against one another.
"""

import numpy as np
import pytest
import torch
from implementations import EXPLICIT, assert_gradients, assert_losses, every_kind, random_scores

from reference_impl import batched, log_softmax, sweeps
from reference_impl.sweeps import exponents, vocabulary
from reference_impl.sweeps.vocabulary import exp_rows
from reference_impl.torch_impl import numpy_ops, tensor_ops

INF, NAN = float("inf"), float("nan")


def sweep(kind, utterances, **options):
    """Log Z (B,) and the occupancy of each log-prob entry, of (log_probs, targets) pairs with blank 0."""
    T_of, U_of = (np.array([len(each) for each in column], np.int64) for column in zip(*utterances, strict=True))
    T, U = T_of.max(initial=kind == "rnnt"), U_of.max(initial=0)
    targets = np.full((len(utterances), U), 99)
    for b, (_, labels) in enumerate(utterances):
        targets[b, :len(labels)] = labels

    def log_probs_of(b):
        log_probs, labels = utterances[b][0], np.array(utterances[b][1], np.int64)
        if kind == "ctc":
            return log_probs[:, 0].copy(), log_probs[:, labels]
        return log_probs[:, :, 0].copy(), log_probs[:, np.arange(len(labels)), labels]

    if kind == "ctc":
        log_z, blank, label = sweeps.ctc.ctc_sweeps(log_probs_of, targets, T_of, U_of, T, **options)
    else:
        log_z, blank, label = sweeps.rnnt.rnnt_sweeps(log_probs_of, T_of, U_of, T, U, **options)
    if blank is None:
        return log_z, None
    return log_z, [scattered(kind, blank, label, b, *each) for b, each in enumerate(utterances)]


def scattered(kind, blank, label, b, log_probs, targets):
    occupancy, (T, U) = np.zeros(log_probs.shape), (len(log_probs), len(targets))
    if kind == "ctc":
        assert (blank[T:, b] == 0).all() and (blank[:, b, U + 1:] == 0).all() and (label[:, b, U:] == 0).all()
        occupancy[:, 0] = blank[:T, b].sum(1)
        np.add.at(occupancy, (slice(None), targets), label[:T, b, :U])
    else:
        assert (blank[T:, :, b] == 0).all() and (blank[:, U + 1:, b] == 0).all() and (label[:, U:, b] == 0).all()
        occupancy[:, :, 0] = blank[:T, :U + 1, b]
        occupancy[:, np.arange(U), targets] = label[:T, :U, b]
    return occupancy


def assert_exact(kind, utterances, tolerance=1e-12):
    log_z, occupancy = sweep(kind, utterances)
    for b, (log_probs, targets) in enumerate(utterances):
        assert_losses(-log_z[b], EXPLICIT[kind].loss(log_probs, targets), tolerance)
        assert_gradients(occupancy[b], EXPLICIT[kind].occupancy(log_probs, targets), tolerance)
        assert (occupancy[b][log_probs == -INF] == 0).all()
    assert_losses(sweep(kind, utterances, occupancy=False)[0], log_z, 0)


@pytest.fixture
def opened(monkeypatch):
    """The first steps of the spans of each sweep, and how many utterances went through logarithms."""
    class Seen:
        spans, left = [], 0

    seen, original = Seen(), exponents.Spans.open

    def counting(self, n, *arguments):
        mantissas, ratios, steps = original(self, n, *arguments)
        seen.spans = [*(seen.spans if n else []), n]
        return mantissas, ratios, steps

    monkeypatch.setattr(exponents.Spans, "open", counting)
    for module in (sweeps.ctc, sweeps.rnnt):
        def by_logs(log_probs_of, left, *arguments, by_logs=module._by_logs):
            seen.left += len(left)
            return by_logs(log_probs_of, left, *arguments)

        monkeypatch.setattr(module, "_by_logs", by_logs)
    return seen


def ragged(kind, seed=0, scale=1.0, frames=1, mask=0.0):
    """Long and short, one frame, no label, repeats; more labels than frames in the last."""
    rng = np.random.default_rng(seed)
    utterances = []
    for T, targets in [(9, [1, 1, 2, 3, 3]), (1, []), (7, []), (2, [2]), (8, [3, 1, 2, 1]), (1, [1]), (2, [1, 2, 3])]:
        T *= frames
        log_probs = log_softmax(scale * random_scores(rng, kind, T, len(targets), 4))
        log_probs[rng.random(log_probs.shape) < mask] = -INF
        utterances.append((log_probs, targets))
    return utterances


class TestExact:
    @every_kind
    @pytest.mark.parametrize("scale", [0.0, 1.0, 10.0, 100.0])
    @pytest.mark.parametrize("mask", [0.0, 0.1, 0.4])
    def test_scales(self, kind, scale, mask, opened):
        for seed in range(4):
            assert_exact(kind, ragged(kind, seed, scale, mask=mask))
        assert opened.left == 0 or scale == 100.0

    @every_kind
    @pytest.mark.parametrize("weight", [-100.0, -600.0, -1e4])
    def test_one_arc_far_below(self, kind, weight, opened):
        """-100 nats fit into spans; the others are a matter for logarithms. They are no masks: the loss is finite."""
        rounding = max(1e-12, -8 * weight * np.finfo(float).eps)  # of the explicit alpha + beta
        for t in range(4):
            for entry in (0, 1):
                log_probs = log_softmax(random_scores(np.random.default_rng(t), kind, 4, 2, 3))
                log_probs[t, ..., entry] = weight
                assert_exact(kind, [(log_probs, [1, 2]), *ragged(kind)[:2]], rounding)
        only_way = np.zeros((3, 2) if kind == "ctc" else (3, 1, 2))
        only_way[1] = weight
        assert_exact(kind, [(only_way, [])])
        assert (opened.left > 0) == (weight < -100)

    @every_kind
    def test_nothing_is_possible_but_one_path(self, kind, opened):
        """All entries of all frames but one are masked: log Z is its weight, to the bit."""
        for t in range(3):
            log_probs = np.full((3, 3) if kind == "ctc" else (3, 3, 3), -INF)
            if kind == "ctc":
                log_probs[np.arange(3), [0, 1, 2]] = -1.0, -2.0, -50.0
            else:
                log_probs[np.arange(3), [0, t, 2], 0] = -1.0, -2.0, -50.0
                log_probs[0 if t else 1, 0, 1] = log_probs[min(t, 1) if t < 2 else 1, 1, 2] = -0.5
            log_z, occupancy = sweep(kind, [(log_probs, [1, 2])])
            assert set(np.unique(occupancy[0])) <= {0.0, 1.0}
            assert_exact(kind, [(log_probs, [1, 2]), (np.where(log_probs == -INF, -INF, 0.0), [2, 1])])
        assert opened.left == 0

    @every_kind
    def test_no_alignment(self, kind):
        """Too short or masked: -inf, and an occupancy of exactly 0; a neighbour is none the worse for it."""
        good = ragged(kind)[0]
        masked = good[0].copy()
        masked[4] = -INF
        log_z, occupancy = sweep(kind, [good, (masked, good[1]), good])
        assert log_z[1] == -INF
        assert (occupancy[1] == 0).all()
        assert log_z[0] == log_z[2] == sweep(kind, [good])[0][0]

    @every_kind
    @pytest.mark.parametrize("scores", [700.0, -700.0, 1e5])
    def test_scores_that_are_no_log_probs(self, kind, scores, opened):
        """Every path has the same number of factors e^scores: that is taken out before any exp."""
        utterances = ragged(kind)
        log_z, occupancy = sweep(kind, utterances)
        far, same = sweep(kind, [(log_probs + scores, targets) for log_probs, targets in utterances])
        factors = [len(log_probs) + (kind == "rnnt") * len(targets) for log_probs, targets in utterances]
        assert_losses(far, log_z + scores * np.array(factors))
        for a, b in zip(occupancy, same, strict=True):
            assert_gradients(a, b, 1e-9 if scores == 1e5 else 1e-11)  # log_probs + 1e5 has lost 5 digits
        assert opened.left == 0

    @pytest.mark.parametrize("targets", [[], [1]])
    def test_ctc_without_frames(self, targets):
        log_z, _ = sweep("ctc", [(np.zeros((0, 3)), targets), *ragged("ctc")])
        assert log_z[0] == (-INF if targets else 0)
        assert sweep("ctc", [(np.zeros((0, 3)), targets)])[0].tolist() == [-INF if targets else 0]

    def test_empty_batch(self):
        none = np.zeros(0, np.int64)
        assert sweeps.ctc.ctc_sweeps(None, np.zeros((0, 2), np.int64), none, none, 3)[1].shape == (3, 0, 3)
        assert sweeps.rnnt.rnnt_sweeps(None, none, none, 3, 2)[1].shape == (3, 3, 0)

    @every_kind
    @pytest.mark.parametrize("value", [NAN, INF])
    def test_broken_utterances_break_alone(self, kind, value):
        utterances = ragged(kind)
        expected, occupancy = sweep(kind, utterances)
        broken = utterances[4][0].copy()
        broken[3, ..., 0] = value
        log_z, others = sweep(kind, [*utterances[:4], (broken, utterances[4][1]), *utterances[5:]])
        assert np.isnan(log_z).nonzero()[0].tolist() == [4]
        for b in set(range(7)) - {4}:
            assert log_z[b] == expected[b]
            np.testing.assert_array_equal(others[b], occupancy[b])


def two_rates(kind, good, bad, T=300):
    """Staying where a path begins is worth e^bad in each of the first frames, then e^good, and later on vice versa."""
    log_probs = np.full((T, 3) if kind == "ctc" else (T, 2, 3), -3.0)
    early, late = (slice(T // 2), ..., 0, 0), (slice(T // 2, T), ..., 0, 0)
    if kind == "ctc":
        log_probs[early[0]] = bad, good, -1.0
        log_probs[late[0]] = good, bad, -1.0
    else:
        log_probs[early[0], 0, 0], log_probs[early[0], 1, 0] = bad, good
        log_probs[late[0], 0, 0], log_probs[late[0], 1, 0] = good, bad
    return log_probs, [1]


class TestWindows:
    @every_kind
    def test_their_length_changes_no_bit(self, kind, opened, monkeypatch):
        """One step, seven, as many as there may be: powers of two round nothing off."""
        utterances = ragged(kind, frames=30, scale=2.0, mask=0.01)
        results, counts = [], []
        for longest in (64, 7, 1):
            monkeypatch.setattr(exponents, "_LONGEST", longest)
            results.append(sweep(kind, utterances))
            counts.append(len(opened.spans))
        assert 4 < counts[0] < counts[1] < counts[2]
        assert counts[2] >= 269
        for log_z, occupancy in results[1:]:
            np.testing.assert_array_equal(log_z, results[0][0])
            for a, b in zip(occupancy, results[0][1], strict=True):
                np.testing.assert_array_equal(a, b)
        assert opened.left == 0

    @every_kind
    def test_company_changes_no_bit(self, kind, opened):
        """Neighbours with wider weights make the spans shorter for all."""
        utterances = ragged(kind, frames=20)
        alone = [sweep(kind, [each]) for each in utterances]
        wide = ragged(kind, seed=1, scale=15.0, frames=20)
        log_z, occupancy = sweep(kind, [*utterances, *wide])
        for b in range(len(utterances)):
            assert log_z[b] == alone[b][0][0]
            np.testing.assert_array_equal(occupancy[b], alone[b][1][0])

    @every_kind
    @pytest.mark.parametrize("mask", [0.0, 0.02])
    def test_with_and_without_logarithms(self, kind, mask, opened, monkeypatch):
        many, few = [1, 2, 3] * 60, 185 if kind == "ctc" else 3  # labels reached one by one, at the last moment
        utterances = ragged(kind, frames=12, scale=3.0, mask=mask)
        utterances.append((log_softmax(9.0 * random_scores(np.random.default_rng(1), kind, few, 180, 4)), many))
        log_z, occupancy = sweep(kind, utterances)
        assert opened.left == 0
        monkeypatch.setattr(exponents, "_SHORTEST", 1e9)
        other_log_z, others = sweep(kind, utterances)
        assert opened.left == 6  # all but those without labels, whose only path is as wide as can be
        assert_losses(log_z, other_log_z)
        for a, b in zip(occupancy, others, strict=True):
            assert_gradients(a, b)

    @every_kind
    @pytest.mark.parametrize(("good", "bad"), [(-0.1, -10.0), (-10.0, -0.1), (-1.0, -40.0)])
    def test_neighbours_drift_apart(self, kind, good, bad, opened):
        """By more than 900 bits, which counts as nothing while it lasts, and come back: the lower was not forgotten."""
        assert abs(good - bad) * 150 > 900 * np.log(2)
        assert_exact(kind, [two_rates(kind, good, bad), ragged(kind)[0]], 1e-10)  # 300 explicit roundings of -1500
        assert opened.left == 0

    @every_kind
    def test_neighbours_drift_apart_beside_a_mask(self, kind, opened):
        """A node that loses what it has of its own may depend on a neighbour however far below: not for spans."""
        log_probs, targets = two_rates(kind, -0.1, -10.0)
        if kind == "ctc":
            log_probs[140, 1] = -INF  # who stays with the label
            targets = [1, 1]
        else:
            log_probs[140, 1, 0] = -INF
        assert_exact(kind, [ragged(kind)[0], (log_probs, targets), ragged(kind)[4]], 1e-10)
        assert opened.left == 2  # one, with and without occupancy

    def test_a_neighbour_far_above_that_sends_nothing(self, opened):
        """Masked label arcs keep it from its neighbour for long: 2^gap is beyond the range of floats in the end."""
        log_probs, targets = two_rates("rnnt", -10.0, -0.1)
        log_probs[2:145, 0, 1] = -INF
        assert_exact("rnnt", [ragged("rnnt")[0], (log_probs, targets), ragged("rnnt")[4]], 1e-10)
        assert opened.left == 2

    @every_kind
    def test_the_only_path_is_the_worst(self, kind):
        """Its numbers fall to the end of a span's range, and are as good as those that stay at 1."""
        log_probs = np.full((28, 3) if kind == "ctc" else (28, 3, 3), -20.0)
        log_probs[..., 2] = 0.0
        log_probs[:26, ..., 1] = -INF  # label 1 comes last but one, label 2 waits
        if kind == "rnnt":
            log_probs[:, 1:, 0] = 0.0
        assert_exact(kind, [(log_probs, [1, 2]), *ragged(kind)])
        log_z, occupancy = sweep(kind, [(log_probs, [1, 2])])
        assert -541 < log_z[0] < -539
        on_the_way = occupancy[0][:26, 0] if kind == "ctc" else occupancy[0][:26, 0, 0]
        assert_gradients(on_the_way, 1.0, 1e-8)

    def test_worst_frames_lie_across_diagonals(self):
        """Frame t of row u is on diagonal t + u: there, and not on diagonal t, its weights make spans short."""
        log_probs = np.zeros((100, 61, 2))
        log_probs[1:, :, 1] = -INF  # all labels in the first frame
        log_probs[:40, 60, 0] = -40.0
        log_z, occupancy = sweep("rnnt", [(log_probs, [1] * 60)])
        assert log_z[0] == -1600.0
        assert (occupancy[0][0, :60, 1] == 1).all() and (occupancy[0][:, 60, 0] == 1).all()
        assert occupancy[0].sum() == 160

    @every_kind
    def test_a_wide_utterance_alone_is_left(self, kind, opened):
        utterances = ragged(kind, frames=5)
        expected, occupancy = sweep(kind, utterances)
        wide = utterances[4][0].copy()
        wide[(3, *[0] * (kind == "rnnt"), 0)] = -1e5
        log_z, others = sweep(kind, [*utterances[:4], (wide, utterances[4][1]), *utterances[5:]])
        assert opened.left == 1
        assert_losses(log_z[4], -EXPLICIT[kind].loss(wide, utterances[4][1]))
        for b in set(range(7)) - {4}:
            assert log_z[b] == expected[b]
            np.testing.assert_array_equal(others[b], occupancy[b])

    def test_log_of(self):
        """The same to the bit however a number is split."""
        for m, e in [(0.75, 1000), (0.3, -100000), (1.0, 0)]:
            assert exponents.log_of(m, e) == exponents.log_of(m / 8, e + 3) == exponents.log_of(m * 2.0**500, e - 500)
            assert exponents.log_of(m, e) == pytest.approx(np.log(m) + e * np.log(2), rel=1e-15)


class TestRows:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    @pytest.mark.parametrize("offset", [0.0, 60.0, -60.0, -84.0, 600.0, -600.0, -735.0])
    @pytest.mark.parametrize("shape", [(7, 5), (3, 4, 5), (2, 300, 500)])
    def test_any_offset(self, dtype, offset, shape):
        """exp without a maximum where that loses nothing, with one where it would; in place, or for the sums alone."""
        rng = np.random.default_rng(0)
        logits = (3 * rng.normal(size=shape) + offset * rng.integers(0, 2, shape[:-1])[..., None]).astype(dtype)
        logits[0, ..., :2], logits[1, ..., 1:] = -INF, -INF
        logits[1, ..., -1:] = -INF
        out = np.empty(shape, np.float64 if dtype == np.float64 else np.float32)
        mass = np.empty(shape[:-1])
        unit = exp_rows(logits, mass, out)
        eps = np.finfo(out.dtype).eps
        exact = np.exp(log_softmax(logits))
        rounding = 16 * eps + 100 * np.finfo(float).eps  # of exp, and of the logarithms down to -100 in ``exact``
        np.testing.assert_allclose(out / mass[..., None], exact, rtol=rounding, atol=0)
        finite = np.isfinite(logits).any(-1)
        used = np.isfinite(logits)
        log_probs = logits - unit[..., None] - np.log(mass)[..., None]
        difference = log_probs[used] - log_softmax(logits)[used]
        assert (np.abs(difference) <= 16 * eps + 1e-14 * np.abs(logits[used])).all()
        assert (unit[~finite] == 0).all() and (mass[~finite] == 1).all()
        again, sums = np.empty(shape[:-1]), logits.astype(out.dtype)
        np.testing.assert_array_equal(exp_rows(logits, again), unit)
        np.testing.assert_array_equal(again, mass)
        np.testing.assert_array_equal(exp_rows(sums, again, sums), unit)
        np.testing.assert_array_equal(sums, out)

    @pytest.mark.parametrize("value", [NAN, INF])
    def test_nan_for_rows_that_hold_one(self, value):
        logits = np.zeros((6, 3))
        logits[2, 1] = value
        mass = np.empty(6)
        exp_rows(logits, mass, np.empty((6, 3)))
        assert np.isnan(mass).tolist() == [False, False, True, False, False, False]

    @every_kind
    @pytest.mark.parametrize("offset", [-100.0, 100.0])
    def test_losses_of_shifted_rows(self, kind, offset):
        """float32 rows beyond the reach of exp beside others: the gradient as near as ever."""
        T, targets = 20, [1, 2, 2, 1]
        rng = np.random.default_rng(0)
        logits = random_scores(rng, kind, T, 4, 5).astype(np.float32)
        logits += (offset * rng.integers(0, 2, logits.shape[:-1]))[..., None].astype(np.float32)
        losses, gradient = getattr(batched, f"{kind}_loss")(logits[None], np.array([targets]), np.array([T]),
                                                            np.array([4]))
        assert_losses(losses[0], EXPLICIT[kind].loss(log_softmax(logits), targets), 1e-6)
        assert_gradients(gradient[0], EXPLICIT[kind].grad_logits(logits, targets), 1e-6)


def as_tensors(kind, dtype):
    """The arguments of the functions, padding and all; utterances 3 and 4 are bad, and 5 has no alignment."""
    utterances = ragged(kind, scale=2.0)
    T, U = max(len(each) for each, _ in utterances) + 1, 5
    scores = torch.full((7, T, *[U + 1] * (kind == "rnnt"), 4), NAN, dtype=dtype)
    targets = torch.full((7, U), -5)
    for b, (log_probs, labels) in enumerate(utterances):
        used = (b, slice(len(log_probs)), *[slice(len(labels) + 1)] * (kind == "rnnt"))
        scores[used] = torch.tensor(log_probs).to(dtype)
        targets[b, :len(labels)] = torch.tensor(labels, dtype=torch.int64)
    T_of, U_of = (torch.tensor([len(each) for each in column]) for column in zip(*utterances, strict=True))
    T_of[3], targets[4, 1], scores[5, 0], scores[1, ..., 3] = 10**6, 77, -INF, -INF
    return scores - 3, targets, T_of, U_of


class TestTorch:
    """NumPy views and tensor operations; tests of the losses see only the former on the CPU."""

    BOTH = {"ctc": (numpy_ops.CTC.apply, tensor_ops.ctc_losses), "rnnt": (numpy_ops.RNNT.apply, tensor_ops.rnnt_losses)}

    @every_kind
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    @pytest.mark.parametrize("normalise", [True, False])
    @pytest.mark.parametrize("overwrite", [False, True, "transposed"])
    @pytest.mark.parametrize("options", [(0.0, None), (0.5, None), (0.5, 0.1)], ids=["plain", "FastEmit", "clamped"])
    def test_both_ways_are_the_same(self, kind, dtype, normalise, overwrite, options):
        upstream = torch.tensor([1e9, INF, 0.0, 1.0, -2.0, INF, 0.5])
        options = options if kind == "rnnt" else ()
        results = []
        for function in self.BOTH[kind]:
            scores, *integers = as_tensors(kind, dtype)
            scores.requires_grad_()
            given = scores.transpose(0, 1).contiguous().transpose(0, 1) if overwrite == "transposed" else scores * 1.0
            losses = function(given, *integers, 0, normalise, bool(overwrite), *options)
            version, caught = given._version, []
            given.register_hook(caught.append)
            losses.backward(upstream.to(losses), retain_graph=True)
            gradient = caught[0]
            assert (given._version > version) == bool(overwrite)
            assert (gradient.data_ptr() == given.data_ptr()) == bool(overwrite)
            if overwrite:
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    losses.backward(upstream.to(losses))
            else:
                first = gradient.clone()
                losses.backward(upstream.to(losses))
                for same in (caught[1], gradient):
                    assert torch.equal(same.nan_to_num(7.0), first.nan_to_num(7.0))
            results.append((losses.detach(), gradient))
        (losses, gradient), (expected_losses, expected) = results
        assert losses.dtype == expected_losses.dtype and gradient.dtype == expected.dtype == dtype
        eps = torch.finfo(losses.dtype).eps
        torch.testing.assert_close(losses, expected_losses, rtol=1e-12 + 4 * eps, atol=0, equal_nan=True)
        scale = upstream.double().clamp(1.0, torch.finfo(losses.dtype).max).reshape(-1, *[1] * (gradient.ndim - 1))
        torch.testing.assert_close(gradient.double() / scale, expected.double() / scale, rtol=0, equal_nan=True,
                                   atol=max(1e-12, 4 * torch.finfo(dtype).eps))
        assert torch.isnan(losses).nonzero().flatten().tolist() == [3, 4]
        assert not torch.isnan(gradient[[0, 1, 2, 5, 6]]).any()

    @every_kind
    def test_no_gradient_wanted(self, kind):
        scores, *integers = as_tensors(kind, torch.float64)
        options = (0.0, None) if kind == "rnnt" else ()
        losses = [function(scores, *integers, 0, True, False, *options) for function in self.BOTH[kind]]
        torch.testing.assert_close(*losses, rtol=1e-12, atol=0, equal_nan=True)
        assert not losses[0].requires_grad

    def test_who_goes_where(self):
        """A fake tensor has no memory to look at, whatever its device says."""
        fake = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode()
        with fake:
            assert not numpy_ops.takes(torch.zeros(1, 2, 3))
        assert not numpy_ops.takes(torch.zeros(1, 2, 3, device="meta"))
        assert numpy_ops.takes(torch.zeros(1, 2, 3))
        assert numpy_ops.takes(torch.nn.Parameter(torch.zeros(1, 2, 3)))


@pytest.mark.parametrize(("kind", "T", "U", "V"), [("ctc", 70, 3, 1000), ("rnnt", 20, 3, 1000)])
def test_gradient_of_several_blocks(kind, T, U, V):
    """More logits than are handled at a time: each block takes its own frames' posteriors."""
    logits, targets = random_scores(np.random.default_rng(8), kind, T, U, V), [5, 5, 999]
    assert logits.size > vocabulary._BLOCK
    function = {"ctc": batched.ctc_loss, "rnnt": batched.rnnt_loss}[kind]
    losses, gradient = function(logits[None], np.array([targets]), np.array([T]), np.array([U]))
    assert_losses(losses[0], EXPLICIT[kind].loss(log_softmax(logits), targets))
    assert_gradients(gradient[0], EXPLICIT[kind].grad_logits(logits, targets))

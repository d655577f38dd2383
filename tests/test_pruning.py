"""Losses of arcs, scores of an additive joiner, and the band of pruned RNN-T, against what they are defined to be.

What fast_rnnt returned for the same is in test_fast_rnnt.py, the pruned loss itself in test_variants.py.
"""

import numpy as np
import pytest
import torch
from implementations import EXACT, needs_cuda

from reference_impl import lattice_loss
from reference_impl.topology import monotonic_rnnt_lattice, rnnt_lattice
from reference_impl.torch_impl import arc_rnnt_loss, pruned_rnnt_loss, rnnt_loss
from reference_impl.torch_impl.pruning import (
    arc_scores,
    band_of,
    cut_band,
    first_rows,
    losses_and_posteriors,
    rows_of_band,
    simple_scores,
    smoothed_scores,
)

INF, NAN = float("inf"), float("nan")
LENGTHS = torch.tensor([5, 3, 1, 4]), torch.tensor([2, 3, 0, 1])

on_cpu_and_cuda = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
every_step = pytest.mark.parametrize("label_frames", [0, 1])


def arcs(device="cpu", dtype=torch.float64, fill=NAN, seed=0):
    """Scores of the arcs of four utterances; padding is ``fill``, arcs that no path may use included."""
    rng = np.random.default_rng(seed)
    blanks, labels = np.full((4, 5, 4), fill), np.full((4, 5, 3), fill)
    for b, (T, U) in enumerate(zip(*LENGTHS, strict=True)):
        blanks[b, :T, :U + 1], labels[b, :T, :U] = rng.normal(size=(T, U + 1)), rng.normal(size=(T, U))
    return [torch.tensor(a, device=device, dtype=dtype, requires_grad=True) for a in (blanks, labels)]


def losses_and_gradients(scores, upstream=None, lengths=LENGTHS, **options):
    losses = arc_rnnt_loss(*scores, *lengths, reduction="none", **options)
    gradients = torch.autograd.grad(losses, scores, torch.ones_like(losses) if upstream is None else upstream)
    return losses.detach().cpu().numpy(), *(g.to("cpu", torch.float64).numpy() for g in gradients)


class TestArcs:
    @on_cpu_and_cuda
    @every_step
    def test_against_the_lattice(self, label_frames, device):
        scores = arcs(device)
        losses, of_blanks, of_labels = losses_and_gradients(scores, label_frames=label_frames)
        builder = (rnnt_lattice, monotonic_rnnt_lattice)[label_frames]
        for b, (T, U) in enumerate(zip(*(each.tolist() for each in LENGTHS), strict=True)):
            log_probs = np.zeros((T, U + 1, 2))
            log_probs[..., 0] = scores[0][b, :T, :U + 1].detach().cpu()
            log_probs[:, :U, 1] = scores[1][b, :T, :U].detach().cpu()
            lattice = builder([1] * U, T, 2)
            assert losses[b] == pytest.approx(lattice_loss.loss(lattice, log_probs), rel=EXACT)
            expected = lattice_loss.grad_log_probs(lattice, log_probs)
            np.testing.assert_allclose(of_blanks[b, :T, :U + 1], expected[..., 0], rtol=0, atol=EXACT)
            np.testing.assert_allclose(of_labels[b, :T, :U], expected[:, :U, 1], rtol=0, atol=EXACT)
            of_blanks[b, :T, :U + 1] = of_labels[b, :T, :U] = 0
        assert (of_blanks == 0).all() and (of_labels == 0).all()

    @on_cpu_and_cuda
    @every_step
    def test_derivatives(self, label_frames, device):
        scores = arcs(device, fill=0.5)

        def losses(*scores):
            return arc_rnnt_loss(*scores, *LENGTHS, reduction="none", zero_infinity=True, label_frames=label_frames)

        assert torch.autograd.gradcheck(losses, scores, atol=1e-7)
        assert torch.autograd.gradgradcheck(losses, scores, atol=1e-6)

    @on_cpu_and_cuda
    @every_step
    @pytest.mark.parametrize("value", [INF, NAN])
    def test_no_direction_changes_what_is_impossible(self, value, label_frames, device):
        """An arc of weight 0 keeps it, however its derivative is weighted in a second derivative."""
        scores = arcs(device, fill=0.5)
        with torch.no_grad():
            scores[0][0, 2, 1] = scores[1][0, 1, 1] = -INF
        losses = arc_rnnt_loss(*scores, *LENGTHS, reduction="sum", zero_infinity=True, label_frames=label_frames)
        gradients = torch.autograd.grad(losses, scores, create_graph=True)
        generator = torch.Generator(device).manual_seed(2)
        directions = [torch.empty_like(each).normal_(generator=generator) for each in gradients]
        usual = torch.autograd.grad(gradients, scores, directions, retain_graph=True)
        directions[0][0, 2, 1] = directions[1][0, 1, 1] = value
        for found, expected in zip(torch.autograd.grad(gradients, scores, directions), usual, strict=True):
            assert torch.equal(found, expected) and expected.abs().max() > 1e-3

    @on_cpu_and_cuda
    @pytest.mark.parametrize("value", [INF, NAN])
    @pytest.mark.parametrize("which", [0, 1])
    def test_nan_stays_inside_its_utterance(self, device, which, value):
        usual = losses_and_gradients(arcs(device))
        scores = arcs(device)
        with torch.no_grad():
            scores[which][1, 2, 2] = value
        results = losses_and_gradients(scores)
        assert np.isnan(results[0][1])
        assert all(np.isnan(gradient[1]).any() for gradient in results[1:])
        for result, expected in zip(results, usual, strict=True):
            np.testing.assert_array_equal(np.delete(result, 1, 0), np.delete(expected, 1, 0))

    @on_cpu_and_cuda
    @pytest.mark.parametrize("upstream", [1.0, INF, NAN])
    def test_no_alignment(self, device, upstream):
        scores = arcs(device)
        with torch.no_grad():
            scores[0][0, 4] = -INF
        weights = torch.ones(4, dtype=torch.float64, device=device)
        weights[0] = upstream
        losses, *gradients = losses_and_gradients(scores, weights)
        assert losses[0] == INF
        assert all((gradient[0] == 0).all() for gradient in gradients)

    @on_cpu_and_cuda
    def test_bad_lengths_nobody_checked(self, device):
        usual = losses_and_gradients(arcs(device))
        bad = torch.tensor([5, 6, 1, 4]), torch.tensor([2, 3, 0, -1])
        results = losses_and_gradients(arcs(device), lengths=bad, validate=False)
        assert np.isnan(results[0]).tolist() == [False, True, False, True]
        for result, expected in zip(results, usual, strict=True):
            np.testing.assert_array_equal(result[[0, 2]], expected[[0, 2]])

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_types(self, dtype):
        scores = arcs(dtype=dtype)
        losses, *gradients = losses_and_gradients(scores)
        assert losses.dtype == np.float32 and all(score.dtype == dtype for score in scores)
        exact = losses_and_gradients([score.detach().double().requires_grad_() for score in scores])
        np.testing.assert_allclose(losses, exact[0], rtol=1e-6, atol=0)
        for gradient, expected in zip(gradients, exact[1:], strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=0, atol=2 * torch.finfo(dtype).eps)


def both(seed=0, B=3, T=4, U=2, V=5):
    rng = np.random.default_rng(seed)
    targets = torch.tensor(rng.integers(1, V, (B, U)))
    return *(torch.tensor(2 * rng.normal(size=(B, n, V)), requires_grad=True) for n in (T, U + 1)), targets


class TestSimple:
    def test_against_the_whole_tensor(self):
        """Values, and gradients through the loss, of log-softmax of every sum."""
        encodings, predictions, targets = both()
        with torch.no_grad():
            encodings[0, 1, 3], predictions[1, 0, 4] = -INF, -INF
        lengths = torch.tensor([4, 4, 3]), torch.tensor([2, 1, 2])
        loss = arc_rnnt_loss(*simple_scores(encodings, predictions, targets), *lengths)
        whole = rnnt_loss(encodings[:, :, None] + predictions[:, None], targets, *lengths)
        assert loss.item() == pytest.approx(whole.item(), rel=1e-13)
        for ours, expected in zip(torch.autograd.grad(loss, (encodings, predictions)),
                                  torch.autograd.grad(whole, (encodings, predictions)), strict=True):
            torch.testing.assert_close(ours, expected, rtol=0, atol=EXACT)

    @pytest.mark.parametrize("distance", [300.0, 800.0])
    def test_far_apart(self, distance):
        """The two prefer different symbols. 300 nats are no trouble; where exponentials fail there is NaN."""
        encodings, predictions, targets = both(B=1, T=1, U=0)
        with torch.no_grad():
            encodings[..., 0], predictions[..., 1] = distance, distance
        blanks, _ = simple_scores(encodings, predictions, targets)
        if distance > 700:
            assert blanks.isnan().all()
        else:
            expected = torch.log_softmax(encodings + predictions, -1)[..., 0]
            torch.testing.assert_close(blanks[..., 0], expected, rtol=1e-12, atol=0)

    def test_nothing_left(self):
        """A frame without symbols has no arcs, and its gradient no NaN."""
        encodings, predictions, targets = both()
        with torch.no_grad():
            encodings[0, 2] = -INF
        scores = simple_scores(encodings, predictions, targets)
        assert all((score[0, 2] == -INF).all() for score in scores)
        losses = arc_rnnt_loss(*scores, torch.tensor([4, 4, 4]), torch.tensor([2, 2, 2]), reduction="none")
        assert losses[0] == INF and losses[1:].isfinite().all()
        for gradient in torch.autograd.grad(losses.sum(), (encodings, predictions)):
            assert gradient.isfinite().all() and (gradient[0] == 0).all()

    @pytest.mark.parametrize("scales", [(0.25, 0.0), (0.0, 0.25), (0.25, 0.1)])
    def test_smoothed(self, scales):
        """From the definition, on the whole tensor: a weighted sum of three log-softmaxes."""
        encodings, predictions, targets = both()
        joint = torch.log_softmax(encodings[:, :, None] + predictions[:, None], -1)
        alone = torch.log_softmax(predictions, -1)[:, None]
        unigram = torch.softmax(predictions, -1).mean((0, 1)).log()
        acoustic = torch.log_softmax(encodings + unigram, -1)[:, :, None]
        mixed = (1 - sum(scales)) * joint + scales[0] * alone + scales[1] * acoustic
        blanks, labels = smoothed_scores(encodings, predictions, targets, prediction_scale=scales[0],
                                         encoding_scale=scales[1])
        torch.testing.assert_close(blanks, mixed[..., 0], rtol=0, atol=EXACT)
        index = targets[:, None, :, None].expand(3, 4, 2, 1)
        torch.testing.assert_close(labels, mixed[:, :, :-1].gather(3, index)[..., 0], rtol=0, atol=EXACT)
        assert (mixed.exp().sum(-1) < 1 - 1e-4).all()


def rule(blanks, labels, T, U, rows, R, climb):
    """The band of one utterance in plain loops: a window for each frame, then what the band must satisfy."""
    places = range(rows + 1 - R)
    first = []
    for t in range(len(blanks)):
        mass = [sum(blanks[t][s:s + R]) - (labels[t][s - 1] if s else 0) for s in places]
        first.append(mass.index(max(mass)) if t < T - 1 else max(U + 1 - R, 0))
    for t in reversed(range(len(first) - 1)):
        first[t] = min(first[t], first[t + 1])
    for t in reversed(range(len(first) - 1)):
        first[t] = max(first[t], first[t + 1] - climb)
    return [min(row, climb * t) for t, row in enumerate(first)]


@on_cpu_and_cuda
@every_step
@pytest.mark.parametrize("R", [1, 2, 3, 4])
def test_first_rows(label_frames, R, device):
    """Against the rule in loops, and that a path can run through the band wherever frames suffice."""
    if R == 1 and not label_frames:
        return
    climb = 1 if label_frames else R - 1
    for seed in range(20):
        rng = np.random.default_rng(seed)
        T_of, U_of = torch.tensor(rng.integers(1, 9, 5)), torch.tensor(rng.integers(0, 6, 5))
        T_of[0], U_of[0] = 8, 5
        scores = [torch.tensor(3 * rng.normal(size=(5, 8, n)), device=device, requires_grad=True) for n in (6, 5)]
        losses = arc_rnnt_loss(*scores, T_of, U_of, reduction="sum", zero_infinity=True, label_frames=label_frames)
        blanks, labels = (-g for g in torch.autograd.grad(losses, scores))
        first = first_rows(blanks, labels, T_of, U_of, R, label_frames=label_frames)
        assert not first.requires_grad
        for b, (T, U) in enumerate(zip(T_of.tolist(), U_of.tolist(), strict=True)):
            expected = rule(blanks[b].tolist(), labels[b].tolist(), T, U, 6, R, climb)
            assert first[b].tolist() == expected
            steps = np.diff(expected[:T])
            assert expected[0] == 0 and (steps >= 0).all() and (steps <= climb).all()
            assert (expected[T - 1] == max(U + 1 - R, 0)) == (climb * (T - 1) >= U + 1 - R)


class TestParts:
    """What is between the scores and the pruned loss."""

    def test_arc_scores(self):
        log_probs = torch.randn(2, 3, 4, 5, dtype=torch.float64)
        targets = torch.tensor([[1, 4, 2], [3, -7, 99]])  # padding is looked up somewhere
        blanks, labels = arc_scores(log_probs, targets, blank=2)
        assert torch.equal(blanks, log_probs[..., 2])
        for b, u, label in ((0, 0, 1), (0, 1, 4), (0, 2, 2), (1, 0, 3)):
            assert torch.equal(labels[b, :, u], log_probs[b, :, u, label])

    @every_step
    def test_losses_and_posteriors(self, label_frames):
        scores = arcs(fill=0.5)
        losses, *posteriors = losses_and_posteriors(*scores, *LENGTHS, label_frames=label_frames)
        expected = losses_and_gradients(scores, label_frames=label_frames)
        np.testing.assert_array_equal(losses.detach(), expected[0])
        for posterior, gradient in zip(posteriors, expected[1:], strict=True):
            assert not posterior.requires_grad
            np.testing.assert_array_equal(posterior, -gradient)
        assert losses[:1].sum().backward() is None and scores[0].grad.abs().sum() > 0

    def test_a_score_made_of_another(self):
        """k2's constrained type: its label scores contain blank scores, which have posteriors of their own."""
        blanks, labels = (x[:1, :, :3] for x in arcs(fill=0.5))
        folded = labels[..., :2] + blanks[..., 1:]
        size = LENGTHS[0][:1], LENGTHS[1][:1]
        _, *together = losses_and_posteriors(blanks, folded, *size, label_frames=1)
        apart = [x.detach().requires_grad_() for x in (blanks, folded)]
        _, *expected = losses_and_posteriors(*apart, *size, label_frames=1)
        for posterior, other in zip(together, expected, strict=True):
            torch.testing.assert_close(posterior, other, rtol=0, atol=1e-15)

    @every_step
    def test_in_transforms_of_functions(self, label_frames):
        """The band is a constant; what else is made of the scores is differentiated as outside."""
        scores, weights = arcs(fill=-1.0), torch.arange(20.0, dtype=torch.float64).reshape(4, 5)

        def loss(blanks, labels, *lengths):
            losses, first = band_of(blanks, labels, *lengths, 2, label_frames=label_frames)
            return (losses * (first * weights).sum(-1)).sum(), first

        value, first = loss(*scores, *LENGTHS)
        expected = torch.autograd.grad(value, scores)
        blanks, labels = (each.detach() for each in scores)
        given = blanks, labels, *LENGTHS
        found, same = torch.func.grad(loss, argnums=(0, 1), has_aux=True)(*given)
        assert torch.equal(same, first)
        for actual, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=0, atol=EXACT)
        directions = blanks.cos(), labels.cos()
        _, along = torch.func.jvp(lambda *scores: loss(*scores, *LENGTHS)[0], (blanks, labels), directions)
        wanted = sum((each * direction).sum() for each, direction in zip(expected, directions, strict=True))
        torch.testing.assert_close(along, wanted, rtol=EXACT, atol=0)
        torch.testing.assert_close(torch.func.jacrev(lambda labels: loss(blanks, labels, *LENGTHS)[0])(labels),
                                   expected[1], rtol=0, atol=EXACT)
        alone = torch.func.vmap(lambda *given: band_of(*(each[None] for each in given), 2,
                                                       label_frames=label_frames)[1])
        assert torch.equal(alone(*given)[:, 0], first)
        assert alone(*(each[:0] for each in given)).shape == (0, 1, 5)
        with pytest.raises(ValueError, match=r"logit_lengths\[2\] = 0; expected 1 <= length <= T = 5"):
            alone(blanks, labels, torch.tensor([5, 3, 0, 4]), LENGTHS[1])

    def test_rows(self):
        """The rows of a predictor, and the logits of a grid, in the same places; gradients come back to them."""
        predictions = torch.randn(2, 5, 3, requires_grad=True)
        first = torch.tensor([[0, 1, 1], [2, 2, 3]])
        rows = rows_of_band(predictions, first, 2)
        for b, t, r in np.ndindex(2, 3, 2):
            assert torch.equal(rows[b, t, r], predictions[b, first[b, t] + r])
        grid = predictions[:, None].expand(2, 3, 5, 3)
        assert torch.equal(cut_band(grid, first, 2), rows)
        for band in (rows, cut_band(grid, first, 2)):
            (back,) = torch.autograd.grad(band.sum(), predictions)
            assert back[..., 0].tolist() == [[1, 3, 2, 0, 0], [0, 0, 2, 3, 1]]

    def test_one_row(self):
        """Enough for a batch without labels, and for nothing else in which labels stay in their frame."""
        blanks, lengths = torch.ones(1, 3, 1), torch.tensor([3])
        assert first_rows(blanks, torch.ones(1, 3, 0), lengths, torch.tensor([0]), 1).tolist() == [[0, 0, 0]]
        with pytest.raises(ValueError, match="num_rows = 1; expected num_rows >= 2"):
            first_rows(torch.ones(1, 3, 2), torch.ones(1, 3, 1), lengths, torch.tensor([1]), 1)


@on_cpu_and_cuda
@pytest.mark.parametrize("bad", [-1, 3, 2**62])
def test_a_bad_row_that_nobody_checked(bad, device):
    """``validate=False``: in use it makes the loss of its utterance NaN; in the padding it is not looked at."""
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 2, 3, dtype=torch.float64, device=device)
    rest = torch.tensor([[1, 2, 1], [2, 1, 0]]), torch.tensor([4, 3]), torch.tensor([3, 2])
    options = {"reduction": "none", "validate": False}
    first = torch.tensor([[0, 1, 2, 2], [0, 1, 1, 2]])
    good = pruned_rnnt_loss(logits, first, *rest, **options)
    assert good.isfinite().all()
    first[1, 3] = bad
    assert torch.equal(pruned_rnnt_loss(logits, first, *rest, **options), good)
    first[1, 1] = bad
    losses = pruned_rnnt_loss(logits, first, *rest, **options)
    assert losses[0] == good[0] and losses[1].isnan()
    with pytest.raises(ValueError, match=rf"first_rows\[1, 1\] = {bad}; expected 0 <= row <= U \+ 1 - Q = 2"):
        pruned_rnnt_loss(logits, first, *rest, validate=True)

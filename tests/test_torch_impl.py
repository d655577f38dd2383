"""The torch losses as autograd sees them: derivatives, upstream gradients, types, devices, and values nobody checked.

Every test with a ``device`` runs on the CPU, and on CUDA where there is one.
"""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from implementations import (
    EXPLICIT,
    TORCH,
    assert_gradients,
    assert_losses,
    every_device,
    every_input,
    every_kind,
    every_torch_loss,
    needs_cuda,
    one,
    pad,
    random_scores,
)
from torch.autograd import gradcheck, gradgradcheck

from reference_impl import log_softmax
from reference_impl.torch_impl import CTCLoss, RNNTLoss, arguments, ctc_loss, naive

INF, NAN = float("inf"), float("nan")


def ragged(kind, V=4, seed=0):
    """Three utterances of different lengths, one with repeats, one empty; finite padding, for the sake of gradcheck."""
    rng = np.random.default_rng(seed)
    return pad([(random_scores(rng, kind, T, len(targets), V), targets)
                for T, targets in [(5, [1, 1, 2]), (3, [3]), (4, [])]], fill=0.25, label_fill=0)


def with_impossible(kind):
    """Two good utterances around one that has no alignment."""
    rng = np.random.default_rng(1)
    utterances = [(random_scores(rng, kind, 4, 2, 4), [1, 2]) for _ in range(3)]
    utterances[1][0][1:] = -INF
    return pad(utterances)


def tensors(batch, device="cpu", dtype=torch.float64):
    """The four positional arguments; the first requires a gradient."""
    scores = torch.tensor(batch.scores, device=device, dtype=dtype).requires_grad_()
    integers = batch.targets, batch.logit_lengths, batch.target_lengths
    return scores, *(torch.tensor(a, device=device) for a in integers)


def losses_and_gradient(kind, batch, upstream=None, device="cpu", **options):
    """Losses, and the gradient for an upstream gradient (B,), all ones by default."""
    arguments = tensors(batch, device)
    losses = TORCH[kind](*arguments, blank=batch.blank, reduction="none", **options)
    losses.backward(torch.ones_like(losses) if upstream is None else torch.tensor(upstream).to(losses))
    return losses.detach().cpu().numpy(), arguments[0].grad.cpu().numpy()


#: Derivatives along random directions; every entry by itself takes longer, and too long in Triton's interpreter, which
#: gets directions only (conftest.py).
along = pytest.mark.parametrize("along", ["directions", pytest.param("entries", marks=pytest.mark.slow)])


def check_derivatives(check, function, scores, along, **tolerances):
    return check(function, scores, fast_mode=along == "directions", **tolerances)


def second_derivative(kind, scores, *rest, **options):
    """Of the sum of the losses, along the cosines of the gradient's positions; an array like the scores."""
    loss = TORCH[kind](scores, *rest, reduction="sum", zero_infinity=True, **options)
    gradient, = torch.autograd.grad(loss, scores, create_graph=True)
    t, k = (torch.arange(gradient.shape[axis], device=gradient.device) for axis in (1, -1))
    row = torch.arange(gradient.shape[2], device=gradient.device)[:, None] if gradient.ndim == 4 else 0
    weights = torch.cos(t.reshape(-1, *[1] * (gradient.ndim - 2)) + 3 * row + 5 * k).to(gradient.dtype)
    return torch.autograd.grad((weights * gradient).sum(), scores)[0].cpu().numpy()


class TestDerivatives:
    @along
    @every_device
    @every_input
    @every_torch_loss
    def test_gradcheck(self, kind, inputs, device, along):
        """Ragged lengths, so that the padding's zeros are checked, too."""
        scores, *rest = tensors(ragged(kind), device)

        def losses(scores):
            return TORCH[kind](scores, *rest, reduction="none", inputs=inputs)

        assert check_derivatives(gradcheck, losses, scores, along, eps=1e-6, atol=1e-7)

    @along
    @every_device
    @every_torch_loss
    def test_gradcheck_through_a_network(self, kind, device, along):
        """Upstream gradients differ between utterances, and the logits are not a leaf."""
        scores, *rest = tensors(ragged(kind), device)
        weights = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64, device=device)

        def loss(x):
            return (weights * TORCH[kind](torch.tanh(x) * 3, *rest, reduction="none")).sum() ** 2

        assert check_derivatives(gradcheck, loss, scores, along, eps=1e-6, atol=1e-5)

    @every_device
    @pytest.mark.parametrize("blank", [0, 2])
    def test_against_torch_ctc_loss(self, device, blank):
        """Same loss; same gradient through log_softmax. Torch's own, for the log-probs, holds an extra softmax."""
        rng = np.random.default_rng(0)
        labels = [k for k in range(6) if k != blank]
        batch = pad([(random_scores(rng, "ctc", T, U, 6), rng.choice(labels, U).tolist())
                     for T, U in [(20, 6), (15, 7), (9, 0), (20, 1)]], fill=0.0, label_fill=labels[0], blank=blank)
        logits, *rest = tensors(batch, device)
        ours = ctc_loss(logits, *rest, blank=blank, reduction="none")
        gradient, = torch.autograd.grad(ours.sum(), logits)
        log_probs = torch.log_softmax(logits, -1)
        theirs = torch.nn.functional.ctc_loss(log_probs.transpose(0, 1), *rest, blank=blank, reduction="none")
        their_gradient, log_prob_gradient = torch.autograd.grad(theirs.sum(), [logits, log_probs], retain_graph=True)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradient, their_gradient, rtol=0, atol=1e-12)

        scores = log_probs.detach().requires_grad_()
        minus_occupancy, = torch.autograd.grad(
            ctc_loss(scores, *rest, blank=blank, reduction="none", inputs="log_probs").sum(), scores)
        in_use = (torch.arange(20, device=device) < rest[1][:, None])[..., None]
        corrected = log_prob_gradient - torch.exp(log_probs) * in_use
        torch.testing.assert_close(corrected, minus_occupancy, rtol=0, atol=1e-12)

    @along
    @every_device
    @every_input
    @every_torch_loss
    def test_gradgradcheck(self, kind, inputs, device, along):
        """The derivative of the gradient, in logits and upstream gradient, zeros among the latter; ragged lengths."""
        scores, *rest = tensors(ragged(kind), device)

        def losses(scores):
            return TORCH[kind](scores, *rest, reduction="none", inputs=inputs)

        for values in ([0.5, -2.0, 3.0], [0.0, 1.5, 0.0], [0.0, 0.0, 0.0]):
            upstream = torch.tensor(values, dtype=torch.float64, device=device, requires_grad=True)
            assert check_derivatives(gradgradcheck, losses, scores, along, grad_outputs=upstream, eps=1e-6, atol=1e-6)

    @along
    @every_device
    @every_torch_loss
    def test_second_derivative_through_a_network(self, kind, device, along):
        """A penalty on the gradient, which holds the loss, its gradient and both factors of a chain rule."""
        scores, *rest = tensors(ragged(kind), device)

        def penalised(x):
            loss = TORCH[kind](torch.tanh(x) * 3, *rest, reduction="sum") ** 2
            gradient, = torch.autograd.grad(loss, x, create_graph=True)
            return loss + (gradient ** 2).sum()

        assert check_derivatives(gradcheck, penalised, scores, along, eps=1e-6, atol=1e-4, rtol=1e-5)

    @every_kind
    def test_second_derivative_by_autograd_alone(self, kind):
        """The Hessian of one utterance, against the recursion on torch scalars, without a backward pass of ours."""
        batch = one(random_scores(np.random.default_rng(0), kind, 4, 2, 3), [1, 1])
        scores, *rest = tensors(batch)
        by_scalars = {"ctc": naive.ctc_loss, "rnnt": naive.rnnt_loss}[kind]
        ours = torch.autograd.functional.hessian(lambda z: TORCH[kind](z, *rest), scores.detach())
        theirs = torch.autograd.functional.hessian(
            lambda z: by_scalars(torch.log_softmax(z[0], -1), [1, 1]), scores.detach())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)

    @every_device
    @every_input
    @every_torch_loss
    def test_second_derivative_at_the_edges(self, kind, inputs, device):
        """0 without an alignment, at masks and in the padding, which holds NaN; elsewhere what it is without them."""
        edged, plain = with_impossible(kind), ragged(kind).first(2)
        edged.scores[0, ..., -1] = -INF
        batch = pad([*(edged.utterance(b) for b in range(3)), *(plain.utterance(b) for b in range(2))], extra_frames=1)
        scores, *rest = tensors(batch, device)
        second = second_derivative(kind, scores, *rest, inputs=inputs)
        assert (second[1] == 0).all()
        assert (second[batch.padding()] == 0).all()
        assert (second[0, ..., -1] == 0).all()
        assert np.isfinite(second).all()
        for b in (0, 2, 3, 4):
            alone = tensors(one(*batch.utterance(b)), device)
            assert_gradients(second[batch.used(b)], second_derivative(kind, *alone, inputs=inputs)[0])
        assert (second[[0, 2, 3, 4]] != 0).any()

    @every_device
    @every_torch_loss
    def test_second_derivative_of_lower_precision(self, kind, device):
        scores, *rest = tensors(ragged(kind), device, torch.float32)
        second = second_derivative(kind, scores, *rest)
        assert_gradients(second, second_derivative(kind, scores.detach().double().requires_grad_(), *rest), 1e-5)
        assert second.dtype == np.float32

    @every_device
    @every_torch_loss
    def test_no_third_derivative(self, kind, device):
        """It is not computed, and says so, instead of being silently wrong: not for the logits, nor for a penalty."""
        for use in (lambda scores, second: second.sum(), lambda scores, second: (scores ** 2).sum() + second.sum()):
            scores, *rest = tensors(ragged(kind), device)
            loss = TORCH[kind](scores, *rest) ** 2
            gradient, = torch.autograd.grad(loss, scores, create_graph=True)
            second, = torch.autograd.grad((gradient ** 2).sum(), scores, create_graph=True)
            with pytest.raises(RuntimeError, match="a third derivative of a loss was asked for; expected two at most"):
                use(scores, second).backward()

    @every_device
    @every_torch_loss
    def test_no_third_derivative_of_a_constant_direction(self, kind, device):
        """Nor is the Hessian times a constant vector taken for a constant."""
        scores, *rest = tensors(ragged(kind), device)
        gradient, = torch.autograd.grad(TORCH[kind](scores, *rest), scores, create_graph=True)
        second, = torch.autograd.grad(gradient, scores, torch.ones_like(scores).cumsum(-1), create_graph=True)
        with pytest.raises(RuntimeError, match="a third derivative of a loss was asked for; expected two at most"):
            ((scores ** 2).sum() + second.sum()).backward()

    @every_device
    @pytest.mark.parametrize("kind, option", [
        ("ctc", {"overwrite_logits": True}), ("rnnt", {"overwrite_logits": True}),
        ("rnnt", {"fastemit_lambda": 0.5}), ("rnnt", {"clamp": 0.1}),
    ])
    def test_no_second_derivative(self, kind, option, device):
        """A backward pass that is not the gradient's has none; the first derivative is as ever."""
        scores, *rest = tensors(ragged(kind), device)
        gradient, = torch.autograd.grad(TORCH[kind](scores * 1.0, *rest, **option), scores, create_graph=True)
        plain, = torch.autograd.grad(TORCH[kind](scores * 1.0, *rest, **option), scores)
        assert torch.equal(gradient.detach(), plain)
        (name, _), nothing = *option.items(), {"clamp": None, "overwrite_logits": False, "fastemit_lambda": 0}
        with pytest.raises(RuntimeError, match="the second derivative of a loss was asked for; "
                                               f"expected {name} = {nothing[name]}"):
            ((scores ** 2).sum() + gradient.sum()).backward()

    @every_device
    @every_torch_loss
    def test_second_backward_is_the_same(self, kind, device):
        scores, *rest = tensors(ragged(kind), device)
        loss = 0.25 * TORCH[kind](scores, *rest)
        first, = torch.autograd.grad(loss, scores, retain_graph=True)
        kept = first.clone()
        second, = torch.autograd.grad(loss, scores)
        assert torch.equal(first, kept)
        assert torch.equal(first, second)

    @every_torch_loss
    def test_no_gradient_wanted(self, kind):
        scores, *rest = tensors(ragged(kind))
        with torch.no_grad():
            loss = TORCH[kind](scores, *rest)
        assert not loss.requires_grad
        assert torch.equal(loss, TORCH[kind](scores, *rest).detach())


class TestUpstream:
    @every_device
    @every_torch_loss
    def test_scales_each_utterance(self, kind, device):
        _, gradient = losses_and_gradient(kind, ragged(kind), device=device)
        _, scaled = losses_and_gradient(kind, ragged(kind), [2.0, -0.5, 1e3], device)
        assert_gradients(scaled, gradient * np.array([2.0, -0.5, 1e3]).reshape(-1, *[1] * (gradient.ndim - 1)), 1e-10)

    @every_device
    @every_input
    @every_torch_loss
    def test_nothing_reaches_an_utterance_without_alignment(self, kind, inputs, device):
        """inf times 0 does not arise, whatever comes from upstream: exactly 0, and the neighbours as ever."""
        values = [1.0, 0.0, -3.0, INF, -INF, NAN]
        few = with_impossible(kind)
        batch = pad([few.utterance(b) for b in (0, *[1] * len(values), 2)])
        losses, gradient = losses_and_gradient(kind, batch, [1.0, *values, 1.0], device, inputs=inputs)
        _, usual = losses_and_gradient(kind, batch, device=device, inputs=inputs)
        assert (losses[1:-1] == INF).all()
        assert (gradient[1:-1] == 0).all()
        assert (gradient[[0, -1]] != 0).any()
        np.testing.assert_array_equal(gradient, usual)

    @every_torch_loss
    def test_square_of_an_infinite_loss(self, kind):
        """d(loss^2) has an infinite upstream gradient by itself."""
        scores, *rest = tensors(with_impossible(kind))
        (TORCH[kind](scores, *rest, reduction="none") ** 2).sum().backward()
        assert scores.grad.isfinite().all()
        assert (scores.grad[1] == 0).all()
        assert (scores.grad[0] != 0).any()

    @every_device
    @every_torch_loss
    def test_zero_stops_everything(self, kind, device):
        """Even the NaN of a broken utterance: what is masked out stays masked out."""
        batch = ragged(kind)
        batch.scores[0, 1] = NAN
        losses, gradient = losses_and_gradient(kind, batch, [0.0, 1.0, 0.0], device)
        assert np.isnan(losses[0])
        assert (gradient[[0, 2]] == 0).all()
        assert np.isfinite(gradient).all()

    @every_device
    @every_input
    @every_torch_loss
    def test_infinite_upstream_leaves_masks_alone(self, kind, inputs, device):
        """0 where an entry is masked or unused, no NaN; elsewhere the sign of the gradient, and very large."""
        plain = ragged(kind)
        plain.scores[0][..., 3] = -INF
        batch = pad([plain.utterance(b) for b in (0, 0, 1, 2)], fill=0.25, label_fill=0)
        _, usual = losses_and_gradient(kind, batch, device=device, inputs=inputs)
        _, gradient = losses_and_gradient(kind, batch, [INF, -INF, 1.0, 1.0], device, inputs=inputs)
        for b, sign in enumerate((1, -1)):
            assert (usual[b] == 0).any()
            np.testing.assert_array_equal(np.sign(gradient[b]), sign * np.sign(usual[b]))
            assert np.abs(gradient[b]).max() > 1e300
        np.testing.assert_array_equal(gradient[2:], usual[2:])

    @every_device
    @every_torch_loss
    def test_nan_stays_in_its_utterance_and_out_of_padding(self, kind, device):
        batch = ragged(kind)
        _, usual = losses_and_gradient(kind, batch, device=device)
        _, gradient = losses_and_gradient(kind, batch, [1.0, NAN, 1.0], device)
        assert np.isnan(gradient[1][~batch.padding()[1]]).all()
        assert (gradient[batch.padding()] == 0).all()
        np.testing.assert_array_equal(gradient[[0, 2]], usual[[0, 2]])


class TestOptions:
    @every_device
    @every_torch_loss
    def test_reductions(self, kind, device):
        """The mean is over the batch, and never divides by a length."""
        arguments = tensors(ragged(kind), device)
        losses = TORCH[kind](*arguments, reduction="none")
        assert losses.shape == (3,)
        assert torch.equal(TORCH[kind](*arguments, reduction="sum"), losses.sum())
        assert torch.equal(TORCH[kind](*arguments, reduction="mean"), losses.sum() / 3)
        assert torch.equal(TORCH[kind](*arguments), losses.sum() / 3)

    @every_torch_loss
    def test_gradient_of_the_mean(self, kind):
        _, gradient = losses_and_gradient(kind, ragged(kind))
        scores, *rest = tensors(ragged(kind))
        TORCH[kind](scores, *rest).backward()
        assert_gradients(scores.grad.numpy(), gradient / 3)

    @every_torch_loss
    def test_reductions_of_an_empty_batch(self, kind):
        scores, *rest = (a[:0] for a in tensors(ragged(kind)))
        assert TORCH[kind](scores, *rest, reduction="none").shape == (0,)
        assert TORCH[kind](scores, *rest, reduction="sum") == 0

    @every_device
    @every_torch_loss
    def test_zero_infinity(self, kind, device):
        batch = with_impossible(kind)
        losses, gradient = losses_and_gradient(kind, batch, device=device, zero_infinity=True)
        plain_losses, plain_gradient = losses_and_gradient(kind, batch, device=device)
        assert plain_losses[1] == INF
        np.testing.assert_array_equal(losses, np.where(plain_losses == INF, 0, plain_losses))
        np.testing.assert_array_equal(gradient, plain_gradient)
        scores, *rest = tensors(batch, device)
        mean = TORCH[kind](scores, *rest, zero_infinity=True)
        mean.backward()
        assert mean.item() == pytest.approx(losses.sum() / 3)
        assert scores.grad.isfinite().all()

    @every_torch_loss
    def test_zero_infinity_hides_no_nan(self, kind):
        batch = ragged(kind)
        batch.scores[0, 1] = NAN
        losses, _ = losses_and_gradient(kind, batch, zero_infinity=True)
        assert np.isnan(losses[0])

    @every_kind
    def test_backends(self, kind):
        arguments = tensors(ragged(kind))
        assert torch.equal(TORCH[kind](*arguments, backend="torch"), TORCH[kind](*arguments, backend="auto"))

    @every_kind
    def test_modules(self, kind):
        """Same numbers as the functions; the options show in the printed form and survive pickling with a model."""
        options = {"blank": 3, "reduction": "sum", "zero_infinity": True, "inputs": "log_probs", "backend": "torch",
                   "validate": False, "overwrite_logits": False}
        module = {"ctc": CTCLoss, "rnnt": RNNTLoss}[kind]
        batch = one(random_scores(np.random.default_rng(0), kind, 4, 2, 4), [0, 2], blank=3)
        arguments = tensors(batch)
        assert torch.equal(module(**options)(*arguments), TORCH[kind](*arguments, **options))
        assert repr(module(**options)) == (
            f"{module.__name__}(blank=3, reduction='sum', zero_infinity=True, inputs='log_probs', backend='torch', "
            f"validate=False, overwrite_logits=False"
            f"{', extra_rows=False, fastemit_lambda=0.0, clamp=None' if kind == 'rnnt' else ''})")
        assert torch.equal(module()(*tensors(ragged(kind))), TORCH[kind](*tensors(ragged(kind))))
        assert not list(module().parameters())


class TestTypesAndLayouts:
    @every_device
    @every_input
    @every_torch_loss
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_float_types(self, kind, inputs, dtype, device):
        """The numbers given are the truth: float64 on the same numbers differs by the output's rounding only."""
        batch = ragged(kind)
        scores, *rest = tensors(batch, device, dtype)
        losses = TORCH[kind](scores, *rest, reduction="none", inputs=inputs)
        losses.sum().backward()
        assert losses.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert scores.grad.dtype == dtype
        rounded = replace(batch, scores=scores.detach().double().cpu().numpy())
        expected_losses, expected_gradient = losses_and_gradient(kind, rounded, inputs=inputs)
        assert_losses(losses.detach().cpu().numpy(), expected_losses, max(1e-12, 4 * torch.finfo(losses.dtype).eps))
        assert_gradients(scores.grad.double().cpu().numpy(), expected_gradient, max(1e-12, 4 * torch.finfo(dtype).eps))

    @every_device
    @every_torch_loss
    @pytest.mark.parametrize("integers", [torch.int32, torch.int64])
    @pytest.mark.parametrize("where", ["cpu", "with the logits"])
    def test_integers(self, kind, integers, where, device):
        scores, *rest = tensors(ragged(kind), device)
        rest_there = [a.to(integers).to("cpu" if where == "cpu" else device) for a in rest]
        assert torch.equal(TORCH[kind](scores, *rest_there), TORCH[kind](scores, *rest))

    @every_device
    @every_torch_loss
    def test_layouts(self, kind, device):
        """Any strides, for scores and for targets; the gradient comes back in the shape of the argument."""
        scores, targets, *lengths = tensors(ragged(kind), device)
        loss = TORCH[kind](scores, targets, *lengths)
        expected, = torch.autograd.grad(loss, scores)
        last_first = scores.detach().movedim(-1, 0).contiguous().movedim(0, -1)
        every_second = scores.detach().repeat_interleave(2, dim=1)[:, ::2]
        expanded_targets = targets.t().contiguous().t()
        for view in (last_first, every_second):
            assert not view.is_contiguous()
            view = view.requires_grad_()
            same = TORCH[kind](view, expanded_targets, *lengths)
            gradient, = torch.autograd.grad(same, view)
            torch.testing.assert_close(same, loss, rtol=1e-12, atol=0)
            torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-12)

    @every_device
    @every_torch_loss
    def test_expanded_scores(self, kind, device):
        """One utterance seen as a batch of three by stride 0: gradients add up in the original."""
        batch = one(random_scores(np.random.default_rng(0), kind, 4, 2, 4), [1, 2])
        scores, *rest = tensors(batch, device)
        three = [a.expand(3, *a.shape[1:]) for a in (scores, *rest)]
        gradient, = torch.autograd.grad(TORCH[kind](*three, reduction="sum"), scores)
        single, = torch.autograd.grad(TORCH[kind](scores, *rest, reduction="sum"), scores)
        torch.testing.assert_close(gradient, 3 * single, rtol=0, atol=1e-12)

    @every_device
    @every_input
    @every_torch_loss
    def test_arguments_are_not_modified(self, kind, inputs, device):
        """Bit by bit, NaN in the padding included, and by autograd's own version counters."""
        batch = pad([(random_scores(np.random.default_rng(0), kind, T, 2, 4), [1, 2]) for T in (3, 4)])
        arguments = tensors(batch, device)
        before = [(a.detach().clone(), a._version) for a in arguments]
        loss = TORCH[kind](*arguments, inputs=inputs)
        loss.backward(retain_graph=True)
        loss.backward()
        for argument, (copy, version) in zip(arguments, before, strict=True):
            assert argument._version == version
            assert torch.equal(argument.detach().nan_to_num(), copy.nan_to_num())
            assert torch.equal(argument.detach().isnan(), copy.isnan())

    @every_torch_loss
    def test_modified_logits_are_noticed(self, kind):
        """The logits are read again in backward: who writes to them before gets autograd's error, no wrong number."""
        scores, *rest = tensors(ragged(kind))
        logits = scores * 1.0
        loss = TORCH[kind](logits, *rest)
        logits.mul_(2.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    @every_device
    @every_input
    @every_kind
    @pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
    def test_overwritten_logits(self, kind, inputs, dtype, device):
        """The same gradient, in the memory of the logits, NaN padding and impossible utterances included."""
        scores, *rest = tensors(with_impossible(kind), device, dtype)
        expected, = torch.autograd.grad(TORCH[kind](scores, *rest, inputs=inputs, reduction="sum"), scores)
        logits = scores * 1.0
        memory = logits.data_ptr()
        logits.register_hook(lambda gradient: received.append(gradient))
        received = []
        TORCH[kind](logits, *rest, inputs=inputs, reduction="sum", overwrite_logits=True).backward()
        gradient, = received
        assert gradient.data_ptr() == memory
        assert torch.equal(gradient, expected)
        assert torch.equal(logits.detach(), expected)

    @every_device
    @every_kind
    def test_overwritten_logits_are_noticed(self, kind, device):
        """A second backward, and whoever else saved the logits, get autograd's error, no wrong number."""
        scores, *rest = tensors(ragged(kind), device)
        loss = TORCH[kind](scores * 1.0, *rest, overwrite_logits=True)
        loss.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        logits = torch.tanh(scores)  # tanh needs its output for its own backward pass
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            TORCH[kind](logits, *rest, overwrite_logits=True).backward()

    @every_kind
    def test_what_may_not_be_overwritten(self, kind):
        """A leaf is the caller's; elements that share memory cannot hold different gradients."""
        scores, *rest = tensors(ragged(kind))
        with pytest.raises(ValueError, match="overwrite_logits = True and logits is a leaf"):
            TORCH[kind](scores, *rest, overwrite_logits=True)
        shared = (scores[:1] * 1.0).expand(3, *scores.shape[1:])
        with pytest.raises(ValueError, match="expected elements that share no memory"):
            TORCH[kind](shared, *rest, overwrite_logits=True)
        transposed = (scores * 1.0).movedim(-1, 0).contiguous().movedim(0, -1)
        TORCH[kind](transposed, *rest, overwrite_logits=True).backward()
        expected, = torch.autograd.grad(TORCH[kind](scores, *rest), scores)
        torch.testing.assert_close(scores.grad, expected, rtol=0, atol=1e-12)

    @every_device
    @every_torch_loss
    def test_autocast(self, kind, device):
        """Autocast changes nothing: logits are taken in the type they have, and the lattice in its own."""
        scores, *rest = tensors(ragged(kind), device, torch.float32)
        plain = TORCH[kind](scores, *rest)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = TORCH[kind](scores, *rest)
        assert loss.dtype == torch.float32
        assert torch.equal(loss, plain)

    @needs_cuda
    @every_torch_loss
    def test_cuda_equals_cpu(self, kind):
        rng = np.random.default_rng(0)
        batch = pad([(random_scores(rng, kind, T, U, 30), rng.integers(1, 30, U).tolist())
                     for T, U in [(50, 20), (40, 1), (30, 25), (1, 0)]])
        losses, gradient = losses_and_gradient(kind, batch)
        cuda_losses, cuda_gradient = losses_and_gradient(kind, batch, device="cuda")
        assert_losses(cuda_losses, losses, 1e-11)
        assert_gradients(cuda_gradient, gradient, 1e-11)


BAD_VALUES = {  # argument and value, for one utterance each
    "label V": ("targets", 4), "label -1": ("targets", -1), "label far out": ("targets", 2**62),
    "label far below": ("targets", -2**62), "blank": ("targets", 0),
    "too many frames": ("logit_lengths", 6), "far too many frames": ("logit_lengths", 2**62),
    "a negative number of frames": ("logit_lengths", -1),
    "too many labels": ("target_lengths", 4), "a negative number of labels": ("target_lengths", -2**62),
}


def spoil(batch, b, case):
    name, value = BAD_VALUES[case]
    getattr(batch, name)[(b, 0) if name == "targets" else b] = value
    return name


@every_device
@every_input
@every_torch_loss
def test_bad_values_nobody_checked(kind, inputs, device):
    """``validate=False``: the loss of each spoilt utterance is NaN, and nothing else happens to anything."""
    plain = ragged(kind)
    repeated = [0, *[1] * len(BAD_VALUES), 2]
    batch = replace(plain, **{name: getattr(plain, name)[repeated].copy()
                              for name in ("scores", "targets", "logit_lengths", "target_lengths")})
    good_losses, good_gradient = losses_and_gradient(kind, batch, device=device, inputs=inputs, validate=False)
    checked_losses, checked_gradient = losses_and_gradient(kind, batch, device=device, inputs=inputs)
    np.testing.assert_array_equal(good_losses, checked_losses)
    np.testing.assert_array_equal(good_gradient, checked_gradient)

    for b, case in enumerate(BAD_VALUES, start=1):
        spoil(batch, b, case)
    losses, gradient = losses_and_gradient(kind, batch, device=device, inputs=inputs, validate=False)
    assert np.isnan(losses).tolist() == [False, *[True] * len(BAD_VALUES), False]
    np.testing.assert_array_equal(losses[[0, -1]], good_losses[[0, -1]])
    np.testing.assert_array_equal(gradient[[0, -1]], good_gradient[[0, -1]])


@every_device
@every_input
@every_torch_loss
def test_a_bad_label_leaves_the_next_utterance_alone(kind, inputs, device):
    """A label beyond the row, in an utterance with as many frames as the batch; what follows in memory is good."""
    plain = ragged(kind)
    batch = pad([plain.utterance(b) for b in (0, 0, 1)], fill=0.25, label_fill=0)
    _, good_gradient = losses_and_gradient(kind, batch, device=device, inputs=inputs)
    batch.targets[0, -1] = plain.scores.shape[-1]
    losses, gradient = losses_and_gradient(kind, batch, device=device, inputs=inputs, validate=False)
    assert np.isnan(losses).tolist() == [True, False, False]
    np.testing.assert_array_equal(gradient[1:], good_gradient[1:])


@every_device
@every_torch_loss
def test_bad_values_are_named(kind, device):
    """Checked, each of them is refused before anything is computed."""
    for case in BAD_VALUES:
        batch = ragged(kind)
        name = spoil(batch, 1, case)
        with pytest.raises(ValueError, match=f"^{name}\\[1"):
            losses_and_gradient(kind, batch, device=device, validate=True)


@every_torch_loss
@pytest.mark.parametrize("case", ["label V", "a negative number of labels"])
def test_by_itself_a_loss_checks_on_the_cpu(kind, case):
    batch = ragged(kind)
    name = spoil(batch, 1, case)
    for options in ({}, {"validate": "auto"}):
        with pytest.raises(ValueError, match=f"^{name}\\[1"):
            losses_and_gradient(kind, batch, **options)


@pytest.mark.parametrize("validate, looks", [(True, True), (False, False), ("auto", False)])
def test_values_elsewhere_are_left_alone(validate, looks):
    """Logits on "meta" stand for those on CUDA: "auto" does not look at values."""
    too_long = [torch.tensor([6]), torch.tensor([1])]
    with pytest.raises(ValueError) if looks else nullcontext():
        arguments._checked("check_lengths", too_long, [5, 3, 1], torch.empty(1, 5, 3, device="meta"), validate)


@needs_cuda
@every_kind
def test_no_synchronisation(kind):
    """By itself a loss on CUDA never waits; a bad label makes its utterance NaN, and raises if that is asked for."""
    batch = ragged(kind)
    good, good_gradient = losses_and_gradient(kind, batch, device="cuda")
    spoil(batch, 1, "label V")
    given = tensors(batch, "cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        losses = TORCH[kind](*given, reduction="none")
        losses.sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert losses.isnan().tolist() == [False, True, False]
    np.testing.assert_array_equal(losses.detach().cpu().numpy()[[0, 2]], good[[0, 2]])
    np.testing.assert_array_equal(given[0].grad.cpu().numpy()[[0, 2]], good_gradient[[0, 2]])
    with pytest.raises(ValueError, match=r"^targets\[1, 0\] = 4"):
        TORCH[kind](*given, validate=True)


@every_torch_loss
@pytest.mark.parametrize("case", BAD_VALUES)
def test_one_bad_value_nobody_checked(kind, case):
    """One alone, as the only reason for whatever is done about bad values."""
    batch = ragged(kind)
    good_losses, good_gradient = losses_and_gradient(kind, batch, validate=False)
    spoil(batch, 1, case)
    losses, gradient = losses_and_gradient(kind, batch, validate=False)
    assert np.isnan(losses).tolist() == [False, True, False]
    np.testing.assert_array_equal(losses[[0, 2]], good_losses[[0, 2]])
    np.testing.assert_array_equal(gradient[[0, 2]], good_gradient[[0, 2]])


@every_device
def test_no_frame_nobody_checked(device):
    """RNN-T needs a frame; in a batch that has frames, only the utterance without one is NaN."""
    batch = ragged("rnnt")
    batch.logit_lengths[1] = 0
    losses, gradient = losses_and_gradient("rnnt", batch, device=device, validate=False)
    assert np.isnan(losses).tolist() == [False, True, False]
    assert np.isfinite(gradient[[0, 2]]).all()


@every_torch_loss
def test_padding_of_integers_is_not_looked_at(kind):
    """Labels that would be bad in use, and in every column of an utterance with an empty target."""
    batch = ragged(kind)
    losses, gradient = losses_and_gradient(kind, batch)
    for garbage in (-1, 4, 2**62):
        batch.targets[1, 1:] = batch.targets[2] = garbage
        for validate in (True, False):
            same_losses, same_gradient = losses_and_gradient(kind, batch, validate=validate)
            np.testing.assert_array_equal(same_losses, losses)
            np.testing.assert_array_equal(same_gradient, gradient)


@every_kind
def test_values_are_the_explicit_ones(kind):
    """The matrix of test_values.py once more in one line, so that this file stands alone."""
    batch = ragged(kind)
    losses, gradient = losses_and_gradient(kind, batch)
    for b in range(3):
        scores, targets = batch.utterance(b)
        assert_losses(losses[b], EXPLICIT[kind].loss(log_softmax(scores), targets))
        assert_gradients(gradient[batch.used(b)], EXPLICIT[kind].grad_logits(scores, targets))

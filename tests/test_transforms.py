"""What torch's tools ask of a loss: products with derivatives, many gradients at once, torch.func, checkpoints, hooks.

The gradient and the derivative of the gradient, by which all of it is judged, are compared with finite differences in
test_torch_impl.py.
"""

import threading

import numpy as np
import pytest
import torch
from implementations import (
    BATCHED,
    TORCH,
    VARIANTS,
    every_device,
    every_kind,
    every_torch_loss,
    one,
    random_scores,
)
from test_torch_impl import ragged, tensors
from torch import func
from torch.autograd import functional
from torch.utils.checkpoint import checkpoint

from reference_impl.torch_impl import pruned_rnnt_loss, tdt_loss


def case(kind, device="cpu"):
    """Scores, a direction, the losses as a function of the scores, and their mean."""
    scores, *rest = tensors(ragged(kind), device)
    direction = torch.cos(torch.arange(scores.numel(), dtype=scores.dtype, device=device)).reshape(scores.shape)

    def losses(scores):
        return TORCH[kind](scores, *rest, reduction="none")

    return scores, direction, losses, lambda scores: losses(scores).mean()


def rows(losses, scores):
    """The Jacobian, an ordinary backward pass for each utterance."""
    values = losses(scores)
    return torch.stack([torch.autograd.grad(each, scores, retain_graph=True)[0] for each in values])


def times_hessian(mean, scores, direction):
    gradient, = torch.autograd.grad(mean(scores), scores, create_graph=True)
    return torch.autograd.grad(gradient, scores, direction)[0]


def assert_same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@every_device
@every_torch_loss
class TestAutogradFunctional:
    def test_jvp(self, kind, device):
        """It differentiates the gradient with respect to an upstream gradient of 0."""
        scores, direction, losses, _ = case(kind, device)
        expected = (rows(losses, scores) * direction).flatten(1).sum(1)
        assert (expected != 0).all()
        for strict in (False, True):
            assert_same(functional.jvp(losses, scores, direction, strict=strict)[1], expected)

    def test_products_with_the_hessian(self, kind, device):
        """hvp differentiates vhp with respect to its direction: a derivative of third order that is linear."""
        scores, direction, _, mean = case(kind, device)
        expected = times_hessian(mean, scores, direction)
        assert expected.abs().max() > 1e-3
        assert_same(functional.vhp(mean, scores, direction)[1], expected)
        assert_same(functional.hvp(mean, scores, direction)[1], expected)

    def test_many_gradients_at_once(self, kind, device):
        scores, _, losses, mean = case(kind, device)
        expected = rows(losses, scores)
        assert_same(functional.jacobian(losses, scores, vectorize=True), expected)
        ones = torch.eye(len(expected), dtype=torch.float64, device=device)
        assert_same(torch.autograd.grad(losses(scores), scores, ones, is_grads_batched=True)[0], expected)
        if (kind, device) in (("ctc", "cpu"), ("monotonic", "cpu")):  # by a backend, and by tensor operations alone
            hessian = functional.hessian(mean, scores)
            assert_same(functional.hessian(mean, scores, vectorize=True), hessian)


@every_device
@every_torch_loss
class TestFunc:
    def test_gradients(self, kind, device):
        scores, direction, losses, mean = case(kind, device)
        expected, = torch.autograd.grad(mean(scores), scores)
        scores = scores.detach()
        value, pull_back = func.vjp(losses, scores)
        assert torch.equal(value, losses(scores))
        assert_same(func.grad(mean)(scores), expected)
        assert_same(pull_back(torch.full_like(value, 1 / len(value)))[0], expected)
        assert_same(func.jvp(mean, (scores,), (direction,))[1], (expected * direction).sum())

    def test_jacobians(self, kind, device):
        scores, _, losses, _ = case(kind, device)
        expected = rows(losses, scores)
        assert_same(func.jacrev(losses)(scores.detach()), expected)
        if device == "cpu":  # as many passes as there are scores
            assert_same(func.jacfwd(losses)(scores.detach()), expected)

    def test_products_with_the_hessian(self, kind, device):
        """Forward over reverse, and reverse over reverse."""
        scores, direction, _, mean = case(kind, device)
        expected = times_hessian(mean, scores, direction)
        scores = scores.detach()
        assert_same(func.jvp(func.grad(mean), (scores,), (direction,))[1], expected)
        assert_same(func.grad(lambda scores: (func.grad(mean)(scores) * direction).sum())(scores), expected)

    def test_forward_in_forward(self, kind, device):
        """torch calls the rule of forward mode without forward mode: the product would be 0 without a word."""
        scores, direction, _, mean = case(kind, device)
        with pytest.raises(RuntimeError, match="forward mode inside forward mode was asked for; expected reverse mode"):
            func.jvp(lambda scores: func.jvp(mean, (scores,), (direction,))[1], (scores.detach(),), (direction,))

    def test_forward_mode_of_a_direction(self, kind, device):
        """A product with the Hessian is linear in the direction: its derivative there is no third one of the loss."""
        scores, direction, _, mean = case(kind, device)
        _, pull_back = func.vjp(func.grad(mean), scores.detach())
        _, along = func.jvp(lambda direction: pull_back(direction)[0], (direction,), (direction.cos(),))
        assert_same(along, times_hessian(mean, scores, direction.cos()))

    def test_third_derivative(self, kind, device):
        scores, direction, _, mean = case(kind, device)

        def product(scores):
            return func.grad(lambda scores: (func.grad(mean)(scores) * direction).sum())(scores).sum()

        for derivative in (func.grad(product), func.jacfwd(product)):
            with pytest.raises(RuntimeError, match="a third derivative of a loss was asked for; expected two at most"):
                derivative(scores.detach())


# the tests' band of pruned RNN-T is made of the values of lengths
@pytest.mark.parametrize("kind", [kind for kind in TORCH if kind != "pruned"])
class TestVmap:
    def test_gradient_of_each_sample(self, kind):
        """Everything is mapped, integers too, and their values are checked."""
        scores, *rest = tensors(ragged(kind))
        expected, = torch.autograd.grad(TORCH[kind](scores, *rest, reduction="sum"), scores)

        def loss(scores, *rest):
            return TORCH[kind](scores[None], *(each[None] for each in rest))

        value = func.vmap(loss)(scores.detach(), *rest)
        assert torch.equal(value, TORCH[kind](scores, *rest, reduction="none").detach())
        assert_same(func.vmap(func.grad(loss))(scores.detach(), *rest), expected)
        rest[1] = rest[1] + 7
        with pytest.raises(ValueError, match=r"logit_lengths\[0\] = 12; expected \d <= length <= T = 5"):
            func.vmap(loss)(scores.detach(), *rest)

    def test_no_batch(self, kind):
        """What a sample lacks is an axis of the batch."""
        scores, *rest = tensors(ragged(kind))
        with pytest.raises(ValueError, match="logit_lengths has no axis inside vmap; expected the batch first, as "):
            func.vmap(lambda scores, targets, frames, labels: TORCH[kind](scores[None], targets[None], frames, labels))(
                scores.detach(), *rest)

    def test_other_axes(self, kind):
        """Only the scores are mapped, along their last axis; and only the integers."""
        scores, _, losses, mean = case(kind)
        several = torch.stack([scores.detach() * factor for factor in (1.0, 0.5)], -1)
        expected = torch.stack([torch.autograd.grad(mean(each.requires_grad_()), each)[0]
                                for each in several.unbind(-1)], -1)
        assert_same(func.vmap(func.grad(mean), in_dims=-1, out_dims=-1)(several.detach()), expected)
        scores, targets, *lengths = tensors(ragged(kind))
        several = torch.stack([targets, targets.flip(0).clamp(1)])
        found = func.vmap(lambda targets: TORCH[kind](scores, targets, *lengths))(several)
        assert torch.equal(found, torch.stack([TORCH[kind](scores, each, *lengths) for each in several]))

    def test_functional_call(self, kind):
        """Gradients of each sample in the weights of a network, as for differential privacy."""
        batch = ragged(kind)
        scores, *rest = tensors(batch)
        network = torch.nn.Linear(scores.shape[-1], scores.shape[-1], dtype=torch.float64)
        weights = {name: each.detach() for name, each in network.named_parameters()}

        def loss(weights, scores, *rest):
            return TORCH[kind](func.functional_call(network, weights, scores[None]), *(each[None] for each in rest))

        found = func.vmap(func.grad(loss), in_dims=(None, 0, 0, 0, 0))(weights, scores.detach(), *rest)
        for b in range(len(scores)):
            alone = [each[b:b + 1] for each in (scores.detach(), *rest)]
            network.zero_grad()
            TORCH[kind](network(alone[0]), *alone[1:]).backward()
            for name, each in network.named_parameters():
                assert_same(found[name][b], each.grad)


@pytest.mark.parametrize("option", [{"fastemit_lambda": 0.5}, {"clamp": 0.1}])
def test_fields(option):
    """What the backward pass returns is the same by torch.func, and many at once; it has no derivative there either."""
    scores, *rest = tensors(ragged("rnnt"))

    def losses(scores):
        return TORCH["rnnt"](scores, *rest, reduction="none", **option)

    expected = rows(losses, scores)
    assert_same(func.jacrev(losses)(scores.detach()), expected)
    assert_same(functional.jacobian(losses, scores, vectorize=True), expected)
    with pytest.raises(RuntimeError, match="the second derivative of a loss was asked for; expected"):
        func.grad(lambda scores: func.grad(lambda scores: losses(scores).sum())(scores).sum())(scores.detach())


@every_torch_loss
def test_threads_of_the_engine(kind):
    """Many gradients at once where autograd runs a backward pass in another thread: as on CUDA, or nested deeply."""
    scores, _, losses, _ = case(kind)
    threads = set()

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx, scores, depth):
            ctx.depth = depth
            ctx.save_for_backward(scores)
            return losses(scores)

        @staticmethod
        def backward(ctx, upstream):
            threads.add(threading.get_ident())
            inner = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                values = Nested.apply(inner, ctx.depth - 1) if ctx.depth else losses(inner)
            return torch.autograd.grad(values, inner, upstream)[0], None

    values = Nested.apply(scores, 70)
    ones = torch.eye(len(values), dtype=torch.float64)
    found, = torch.autograd.grad(values, scores, ones, is_grads_batched=True)
    assert len(threads) > 1
    assert_same(found, rows(losses, scores))


@every_kind
def test_half_precision_in_forward_mode(kind):
    """The product is summed in float32: in half precision it would overflow, or lose digits."""
    scores, *rest = tensors(ragged(kind), dtype=torch.float16)
    direction = torch.full_like(scores, 600.0) * torch.arange(scores.shape[-1])

    def loss(scores):
        return TORCH[kind](scores, *rest, reduction="sum")

    expected = (torch.autograd.grad(loss(scores), scores)[0].double() * direction.double()).sum()
    found = func.jvp(loss, (scores.detach(),), (direction,))[1]
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)


@every_torch_loss
def test_tangent_of_an_upstream_gradient(kind):
    """In forward mode, of a graph that is older than it."""
    scores, _, losses, _ = case(kind)
    values = losses(scores)
    upstream, tangent = torch.ones_like(values), torch.arange(1.0, 1 + len(values), dtype=values.dtype)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(upstream, tangent)
        gradient, = torch.autograd.grad(values, scores, dual, retain_graph=True)
        found = torch.autograd.forward_ad.unpack_dual(gradient).tangent
    assert_same(found, torch.autograd.grad(values, scores, tangent)[0])


@every_kind
def test_overwritten_logits(kind):
    """One gradient at a time has the memory of the logits. In torch.func the option has no effect."""
    scores, *rest = tensors(ragged(kind))

    def losses(scores):
        return TORCH[kind](scores * 1.0, *rest, reduction="none", overwrite_logits=True)

    with pytest.raises(RuntimeError, match="many gradients of a loss were asked for at once; expected overwrite"):
        functional.jacobian(losses, scores, vectorize=True)
    assert_same(func.jacrev(losses)(scores.detach()), rows(lambda x: TORCH[kind](x, *rest, reduction="none"), scores))


def test_two_tensors_of_scores():
    """Their joint Hessian, and vmap where only one of them is mapped."""
    rng = np.random.default_rng(0)
    of_symbols, of_durations = (torch.tensor(rng.normal(size=(2, 3, 2, n))) for n in (3, 2))
    rest = torch.tensor([[1], [2]]), torch.tensor([3, 2]), torch.tensor([1, 0])

    def loss(*both):
        return tdt_loss(*both, *rest, durations=[0, 1])

    expected = functional.hessian(loss, (of_symbols, of_durations))
    found = func.hessian(loss, argnums=(0, 1))(of_symbols, of_durations)
    for actual_row, expected_row in zip(found, expected, strict=True):
        for actual, wanted in zip(actual_row, expected_row, strict=True):
            assert_same(actual, wanted)
    several = torch.stack([of_durations, -of_durations])
    found = func.vmap(loss, in_dims=(None, 0))(of_symbols, several)
    assert torch.equal(found, torch.stack([loss(of_symbols, each) for each in several]))


def test_constants_that_are_mapped():
    """The rows of a band are integers, and are mapped as these are."""
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(1, 3, 2, 3)))
    rest = torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2])
    bands = torch.tensor([[[0, 0, 1]], [[0, 1, 1]]])
    found = func.vmap(lambda rows: pruned_rnnt_loss(scores, rows, *rest))(bands)
    assert torch.equal(found, torch.stack([pruned_rnnt_loss(scores, each, *rest) for each in bands]))
    assert found[0] != found[1]


@every_torch_loss
@pytest.mark.parametrize("mode", [False, True])
def test_tensors_of_inference_mode(kind, mode):
    """torch.func differentiates torch's own loss with respect to them; so it does ours, made in that mode or in it."""
    scores, direction, _, _ = case(kind)
    given = scores.detach(), *tensors(ragged(kind))[1:]

    def derivatives(scores, *rest):
        def loss(scores):
            return TORCH[kind](scores, *rest)

        gradient, pull_back = func.vjp(func.grad(loss), scores)
        return (gradient, pull_back(direction.detach())[0], func.jvp(func.grad(loss), (scores,), (direction,))[1],
                func.vmap(func.grad(loss))(torch.stack([scores, scores.cos()])))

    with torch.inference_mode():
        made_there = [each.clone() for each in given]
    with torch.inference_mode(mode):
        if not torch.equal(func.grad(lambda scores: scores.exp().sum())(given[0]), given[0].exp()):
            pytest.skip(f"in inference mode, torch {torch.__version__} differentiates no function rightly")
        found = derivatives(*made_there)
    for actual, expected in zip(found, derivatives(*given), strict=True):
        assert_same(actual, expected)


@every_torch_loss
class TestEmpty:
    def test_batch(self, kind):
        """Derivatives of no utterance are as empty as its losses, which torch's own loss refuses."""
        scores, *rest = (each.detach()[:0] for each in tensors(ragged(kind)))

        def losses(scores):
            return TORCH[kind](scores, *rest, reduction="none")

        shape = tuple(scores.shape)
        assert func.jacrev(losses)(scores).shape == func.jacfwd(losses)(scores).shape == shape[:1] + shape
        assert func.hessian(lambda scores: losses(scores).sum())(scores).shape == shape + shape
        assert func.vmap(losses)(torch.stack([scores] * 2)).shape == (2, 0)

    def test_vmap(self, kind):
        """Over an axis of size 0: of scores, of integers, of upstream gradients and of directions."""
        scores, direction, losses, mean = case(kind)
        rest, inner = tensors(ragged(kind))[1:], scores.detach()
        values, gradient = losses(scores), torch.autograd.grad(mean(scores), scores, create_graph=True)[0]
        none, many = inner.new_zeros(0, *inner.shape), inner.new_zeros(0, *values.shape)
        _, pull_back = func.vjp(losses, inner)
        _, again = func.vjp(func.grad(mean), inner)
        assert func.vmap(losses)(none).shape == many.shape
        if kind != "pruned":  # whose band is made of the values of lengths
            integers = [each.new_zeros(0, *each.shape) for each in rest]
            assert func.vmap(lambda *rest: TORCH[kind](inner, *rest))(*integers).shape == (0,)

        def older(result):
            return lambda upstream: torch.autograd.grad(result, scores, upstream, retain_graph=True)

        for function, axis in ((pull_back, many), (again, none), (older(values), many), (older(gradient), none)):
            assert func.vmap(function)(axis)[0].shape == none.shape
        assert func.vmap(func.grad(mean))(none).shape == none.shape


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, "label"])
@every_torch_loss
def test_products_of_a_loss_that_is_nan(kind, bad):
    """NaN in forward mode and by two backward passes, like its gradient; nothing of it is left if it is masked out."""
    scores, *rest = (each.detach() for each in tensors(ragged(kind)))
    direction, keep = scores.cos(), torch.tensor([True, False, True])
    if bad == "label":
        rest[0][1, 0] = 99
    else:
        scores[1, 0] = bad

    def losses(scores):
        return TORCH[kind](scores, *rest, reduction="none", validate=False)

    def masked(scores):
        return torch.where(keep, losses(scores), 0.0)

    for function, expected in ((losses, [False, True, False]), (masked, [False] * 3)):
        forward = func.jvp(function, (scores,), (direction,))[1]
        assert forward.isnan().tolist() == expected
        torch.testing.assert_close(functional.jvp(function, scores, direction)[1], forward, rtol=0, atol=1e-12,
                                   equal_nan=True)
    for product in (functional.hvp(lambda scores: masked(scores).sum(), scores, direction)[1],
                    func.jvp(func.grad(lambda scores: masked(scores).sum()), (scores,), (direction,))[1]):
        assert product.isfinite().all() and (product[1] == 0).all() and (product[0] != 0).any()


@every_device
@every_torch_loss
class TestSavedTensors:
    @pytest.mark.parametrize("reentrant", [True, False])
    def test_checkpoint(self, kind, device, reentrant):
        """Saved tensors are handed out once."""
        scores, _, _, mean = case(kind, device)
        expected, = torch.autograd.grad(mean(scores.tanh()), scores)
        checkpoint(lambda scores: mean(scores.tanh()), scores, use_reentrant=reentrant).backward()
        assert_same(scores.grad, expected)

    def test_checkpoint_and_second_derivative(self, kind, device):
        scores, direction, _, mean = case(kind, device)

        def again(scores):
            return checkpoint(lambda scores: mean(scores.tanh()), scores, use_reentrant=False)

        assert_same(times_hessian(again, scores, direction),
                    times_hessian(lambda scores: mean(scores.tanh()), scores, direction))

    def test_hooks(self, kind, device):
        """What is saved may be kept elsewhere, and come back as another tensor."""
        scores, direction, _, mean = case(kind, device)
        expected = times_hessian(mean, scores, direction)
        elsewhere = []

        def pack(tensor):
            elsewhere.append((tensor.device, tensor.detach().cpu().clone()))
            return len(elsewhere) - 1

        def unpack(number):
            home, tensor = elsewhere[number]
            return tensor.clone().to(home)

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = mean(scores)
        assert len(elsewhere) > 3
        gradient, = torch.autograd.grad(loss, scores, retain_graph=True)
        assert_same(gradient, torch.autograd.grad(mean(scores), scores)[0])
        with torch.autograd.graph.save_on_cpu():
            assert_same(times_hessian(mean, scores, direction), expected)


class Labelled(torch.Tensor):
    """A subclass with nothing of its own."""


@every_torch_loss
@pytest.mark.parametrize("inputs", ["logits", "log_probs"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_tensor_subclasses(kind, inputs, reduction):
    """In the forward pass, and in first and second derivatives; losses below 0 by rounding are clipped there, too."""
    scores, *rest = tensors(ragged(kind))
    certain = torch.zeros_like(scores)
    certain[..., 0] = 100.0

    def loss(scores):
        return TORCH[kind](scores, *rest, inputs=inputs, reduction=reduction).sum()

    labelled = scores.detach().as_subclass(Labelled).requires_grad_()
    found, expected = loss(labelled), loss(scores)
    assert found.item() == pytest.approx(expected.item(), rel=1e-14)
    assert_same(torch.autograd.grad(found, labelled)[0].as_subclass(torch.Tensor),
                torch.autograd.grad(expected, scores)[0])
    assert_same(times_hessian(loss, labelled, torch.ones_like(scores)).as_subclass(torch.Tensor),
                times_hessian(loss, scores, torch.ones_like(scores)))
    if inputs == "logits":
        assert loss(certain.as_subclass(Labelled)).item() == pytest.approx(loss(certain).item(), rel=1e-14)


class TestExtraRows:
    @every_device
    @pytest.mark.parametrize("kind", ["rnnt", *(kind for kind in VARIANTS if kind in TORCH and kind != "pruned")])
    def test_are_padding(self, kind, device):
        """Rows beyond those of the targets change nothing, hold NaN, and get gradient 0."""
        scores, targets, *lengths = tensors(ragged(kind), device)
        wide = torch.nn.functional.pad(scores.detach(), (0, 0, 0, 2), value=torch.nan).requires_grad_()
        losses = TORCH[kind](wide, targets, *lengths, reduction="none", extra_rows=True)
        expected = TORCH[kind](scores, targets, *lengths, reduction="none")
        assert torch.equal(losses, expected)
        gradient, = torch.autograd.grad(losses.sum(), wide)
        assert torch.equal(gradient[:, :, :-2], torch.autograd.grad(expected.sum(), scores)[0])
        assert (gradient[:, :, -2:] == 0).all()
        with pytest.raises(ValueError, match="logits has 6 rows on its U.1 axis; expected U . 1 = 4"):
            TORCH[kind](wide, targets, *lengths)
        with pytest.raises(ValueError, match="logits has 3 rows on its U.1 axis; expected at least U . 1 = 4"):
            TORCH[kind](wide[:, :, :3], targets, *lengths, extra_rows=True)

    @every_device
    def test_lengths_beyond_the_targets(self, device):
        """A length is that of labels, whatever rows there are; unchecked, it makes its own loss NaN."""
        scores, targets, frames, counts = tensors(ragged("rnnt", V=4), device)
        wide = torch.nn.functional.pad(scores.detach(), (0, 0, 0, 2))
        counts[1] = 4
        with pytest.raises(ValueError, match=r"target_lengths\[1\] = 4; expected 0 <= length <= U = 3"):
            TORCH["rnnt"](wide, targets, frames, counts, extra_rows=True, validate=True)
        losses = TORCH["rnnt"](wide, targets, frames, counts, extra_rows=True, validate=False, reduction="none")
        assert losses.isnan().tolist() == [False, True, False]

    def test_batched(self):
        batch = one(random_scores(np.random.default_rng(0), "rnnt", 3, 1, 3), [1])
        scores, *rest = (each.detach().numpy() for each in tensors(batch))
        wide = np.pad(scores, ((0, 0), (0, 0), (0, 2), (0, 0)), constant_values=np.nan)
        (loss,), gradient = BATCHED["rnnt"](wide, *rest, extra_rows=True)
        (expected,), narrow = BATCHED["rnnt"](scores, *rest)
        assert loss == expected
        np.testing.assert_array_equal(gradient[:, :, :2], narrow)
        assert (gradient[:, :, 2:] == 0).all()


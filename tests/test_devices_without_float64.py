"""The torch losses for logits on a device that has no float64, as Apple's MPS: a stand-in for it, and no such device.

The stand-in calls itself "meta", a device that every build of torch knows. Its tensors have their numbers on the CPU,
and whoever asks for float64 among them, or mixes them with others, gets an error, as there. Which operations MPS has,
and how exact they are, it does not know.
"""

import numpy as np
import pytest
import torch
from implementations import TORCH, every_input, every_kind, every_torch_loss, pad, random_scores
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from reference_impl.torch_impl import (
    arc_rnnt_loss,
    arguments,
    hat_log_probs,
    losses,
    pruned_rnnt_loss,
    pruning,
    rnnt_loss,
    tdt_loss,
)

THERE = torch.device("meta")
FLOATS = (torch.float16, torch.bfloat16, torch.float32)


class Held(torch.Tensor):
    """A tensor on the stand-in: ``numbers`` is a tensor on the CPU."""

    @staticmethod
    def __new__(cls, numbers):
        return torch.Tensor._make_wrapper_subclass(
            cls, numbers.shape, strides=numbers.stride(), storage_offset=numbers.storage_offset(), dtype=numbers.dtype,
            device=THERE)

    def __init__(self, numbers):
        self.numbers = numbers

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return computed(operation, args, kwargs or {})


def computed(operation, args, kwargs):
    """An operation, done on the CPU, if the device could do it."""
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    held = {id(each.numbers): each for each in tensors if isinstance(each, Held)}
    there = bool(held)
    if there and any(not isinstance(each, Held) and each.ndim > 0 for each in tensors):
        raise RuntimeError("Expected all tensors to be on the same device")
    if there and kwargs.get("dtype") == torch.float64:
        raise no_float64()
    if kwargs.get("device") is not None:
        there = kwargs["device"] == THERE
        kwargs = {**kwargs, "device": torch.device("cpu")}
    args, kwargs = tree_map_only(Held, lambda each: each.numbers, (args, kwargs))
    results = operation(*args, **kwargs)
    return tree_map_only(torch.Tensor, lambda each: held.get(id(each)) or arrived(each), results) if there else results


def arrived(numbers):
    if numbers.dtype == torch.float64:
        raise no_float64()
    return Held(numbers)


def no_float64():
    return TypeError("the device has no float64")


class StandIn(TorchDispatchMode):
    """While it is entered, there is the device."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return computed(operation, args, kwargs or {})


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setattr(arguments, "_WITHOUT_FLOAT64", (THERE.type,))
    with StandIn():
        yield


def ragged(kind):
    """Utterances with repeats, without an alignment, with a NaN, and without a label; NaN in the padding."""
    rng = np.random.default_rng(0)
    utterances = [(random_scores(rng, kind, T, len(targets), 4), targets)
                  for T, targets in [(5, [1, 1, 2]), (3, [3]), (4, [2, 1]), (4, [])]]
    utterances[1][0][:] = -np.inf
    utterances[2][0][1] = np.nan
    return pad(utterances)


def run(kind, device, dtype=torch.float32, integers=None, batch=None, upstream=(1.0, 2.0, 0.0, -3.0), **options):
    """Losses, gradient and second derivative, where they were found, and then on the CPU."""
    batch = batch or ragged(kind)
    leaf = torch.tensor(batch.scores).to(dtype).to(device).requires_grad_()
    rest = [torch.tensor(a).to(integers or device) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
    found = TORCH[kind](leaf * 1.0, *rest, reduction="none", **options)
    weights = torch.tensor(upstream).to(found.dtype).to(device)
    gradient, = torch.autograd.grad(found, leaf, weights, create_graph=True)
    results = [found, gradient]
    if gradient.requires_grad and not options.get("overwrite_logits"):
        direction = torch.linspace(-1, 1, leaf.numel()).reshape(leaf.shape).to(dtype).to(device)
        results.append(torch.autograd.grad(gradient, leaf, direction)[0])
    assert all(each.device == torch.device(device) for each in results)
    return [each.detach().cpu() for each in results]


def assert_same(ours, expected):
    assert len(ours) == len(expected)
    for actual, wanted in zip(ours, expected, strict=True):
        assert actual.dtype == wanted.dtype
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)


class TestStandIn:
    """It refuses what MPS refuses, so that the tests below can fail."""

    @pytest.mark.parametrize("ask", [
        lambda x: x.double(), lambda x: x.to("cpu", torch.float64), lambda x: torch.zeros_like(x, dtype=torch.float64),
        lambda x: torch.zeros(2, dtype=torch.float64, device=x.device), lambda x: x.cpu().double().to(x.device),
        lambda x: x.sum(dtype=torch.float64),
    ])
    def test_float64(self, ask):
        with pytest.raises(TypeError, match="the device has no float64"):
            ask(torch.zeros(2).to(THERE))

    def test_other_devices(self):
        with pytest.raises(RuntimeError, match="the same device"):
            torch.zeros(2).to(THERE) + torch.zeros(2)

    def test_derivatives(self):
        x = torch.tensor([1.0, 2.0]).to(THERE).requires_grad_()
        gradient, = torch.autograd.grad((x.cpu() ** 3).to(THERE).sum(), x, create_graph=True)
        second, = torch.autograd.grad(gradient.sum(), x)
        assert type(gradient) is type(second) is Held
        assert (gradient.detach().cpu().tolist(), second.cpu().tolist()) == ([3.0, 12.0], [6.0, 12.0])


def test_which_devices(monkeypatch):
    monkeypatch.undo()
    assert arguments._lattice_device(torch.device("mps:0")) == torch.device("cpu")
    for there in ("cpu", "cuda:1"):
        assert arguments._lattice_device(torch.device(there)) == torch.device(there)


@every_input
@every_torch_loss
@pytest.mark.parametrize("dtype", FLOATS)
def test_losses(kind, inputs, dtype):
    """The numbers of the CPU, bit by bit, on the device: float32 losses, derivatives in the type of the logits."""
    ours = run(kind, THERE, dtype, inputs=inputs)
    assert_same(ours, run(kind, "cpu", dtype, inputs=inputs))
    assert [each.dtype for each in ours] == [torch.float32, dtype, dtype]
    assert (ours[1][0] != 0).any() and (ours[2][0] != 0).any()


@every_torch_loss
@pytest.mark.parametrize("options", [{"zero_infinity": True}, {"validate": False}], ids=str)
def test_options(kind, options):
    assert_same(run(kind, THERE, **options), run(kind, "cpu", **options))


@pytest.mark.parametrize(("kind", "options"), [
    ("rnnt", {"fastemit_lambda": 0.5}), ("rnnt", {"clamp": 0.1}), ("ctc", {"overwrite_logits": True}),
    ("rnnt", {"overwrite_logits": True}), ("ctc", {"backend": "torch"}),
], ids=str)
def test_options_of_the_backward_pass(kind, options):
    batch = ragged(kind)
    leaf = torch.tensor(batch.scores).float().to(THERE).requires_grad_()
    rest = [torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
    weights = torch.tensor([1.0, 2.0, 0.0, -3.0])
    gradient, = torch.autograd.grad(TORCH[kind](leaf * 1.0, *rest, reduction="none", **options), leaf,
                                    weights.to(THERE))
    here = leaf.detach().cpu().requires_grad_()
    expected, = torch.autograd.grad(TORCH[kind](here * 1.0, *rest, reduction="none", **options), here, weights)
    assert_same([gradient.cpu()], [expected])


@every_torch_loss
def test_integers_may_be_on_the_cpu(kind):
    assert_same(run(kind, THERE, integers="cpu"), run(kind, "cpu"))


@every_torch_loss
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_reductions(kind, reduction):
    """A scalar on the device, whose ``backward`` leaves a gradient there."""
    batch = ragged(kind).first(1)
    results = []
    for device in (THERE, "cpu"):
        logits = torch.tensor(batch.scores).float().to(device).requires_grad_()
        rest = [torch.tensor(a).to(device) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
        loss = TORCH[kind](logits, *rest, reduction=reduction)
        loss.backward()
        assert loss.device == logits.grad.device == torch.device(device)
        results.append([loss.detach().cpu(), logits.grad.cpu()])
    assert_same(*results)


@every_torch_loss
def test_values_are_checked(kind):
    batch = ragged(kind)
    batch.targets[0, 1] = 7
    with pytest.raises(ValueError, match=r"^targets\[0, 1\] = 7; expected 0 <= label < V = "):
        run(kind, THERE, batch=batch)
    assert_same(run(kind, THERE, batch=batch, validate=False), run(kind, "cpu", batch=batch, validate=False))


def test_other_scores_are_asked_for_on_the_device():
    """What is copied to the CPU may not be mixed with what was there."""
    logits = torch.zeros(1, 2, 1, 2).to(THERE)
    integers = torch.zeros(1, 0, dtype=torch.int64), torch.tensor([2]), torch.tensor([0])
    with pytest.raises(ValueError, match="duration_logits has dtype torch.float32 on cpu; expected torch.float32 on "):
        tdt_loss(logits, torch.zeros(1, 2, 1, 2), *integers, durations=[0, 1])
    with pytest.raises(ValueError, match="label_scores has dtype torch.float32 on cpu; expected torch.float32 on "):
        arc_rnnt_loss(logits[..., 0], torch.zeros(1, 2, 0), *integers[1:])


@every_kind
def test_no_kernels(kind, monkeypatch):
    """They are for CUDA, and "auto" does not choose them."""
    monkeypatch.setattr(losses, "_has_triton", lambda: True)
    monkeypatch.setattr(losses, "_interprets_triton", lambda: False)
    with pytest.raises(ValueError, match=f"expected 'auto' or 'torch' for logits on {THERE}"):
        run(kind, THERE, backend="triton")
    assert losses._auto("mps") == "torch"


@every_kind
def test_modules(kind):
    module = {"ctc": losses.CTCLoss, "rnnt": losses.RNNTLoss}[kind](reduction="none")
    batch = ragged(kind)
    rest = [torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
    scores = torch.tensor(batch.scores).float()
    assert_same([module(scores.to(THERE), *rest).cpu()], [module(scores, *rest)])


@pytest.mark.parametrize("scores_of", [pruning.simple_scores, pruning.smoothed_scores])
def test_pruning(scores_of):
    """Scores of an additive joiner, their loss, the band, and the pruned loss: a training step that stays there.

    Scores come back in float32, so that what is computed of them differs by roundings of numbers around 5, of which a
    path adds up seven.
    """
    generator = torch.Generator().manual_seed(0)
    encodings = torch.empty(2, 5, 4).normal_(generator=generator)
    predictions, output = (torch.empty(2, 3, 4).normal_(generator=generator) for _ in range(2))
    targets, lengths = torch.tensor([[1, 2], [3, 0]]), (torch.tensor([5, 4]), torch.tensor([2, 1]))
    results = []
    for device in (THERE, "cpu"):
        both = [each.to(device).requires_grad_() for each in (encodings, predictions)]
        there = [each.to(device) for each in (targets, *lengths)]
        scores = scores_of(*both, there[0])
        simple, first = pruning.band_of(*scores, *there[1:], 2)
        rows = pruning.rows_of_band(output.to(device), first, 2)
        pruned = pruned_rnnt_loss(both[0][:, :, None] + rows, first, *there, reduction="none")
        gradients = torch.autograd.grad((simple + pruned).sum(), both)
        found = [*scores, simple, first, pruned, *gradients]
        assert all(each.device == torch.device(device) for each in found)
        results.append([each.detach().cpu() for each in found])
    (*_, ours_first, _, _, _), (*_, expected_first, _, _, _) = results
    assert torch.equal(ours_first, expected_first) and ours_first.any()
    assert results[0][0].dtype == torch.float32 and results[1][0].dtype == torch.float64
    tolerance = 7 * 5 * torch.finfo(torch.float32).eps
    for actual, wanted in zip(*results, strict=True):
        torch.testing.assert_close(actual.double(), wanted.double(), rtol=0, atol=tolerance)


def test_hat():
    """Its log-probs are made on the device, in the type of the logits; the loss of them is computed as any other."""
    batch = ragged("rnnt").first(1)
    rest = [torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
    results = []
    for device in (THERE, "cpu"):
        logits = torch.tensor(batch.scores).float().to(device).requires_grad_()
        loss = rnnt_loss(hat_log_probs(logits), *rest, inputs="log_probs")
        gradient, = torch.autograd.grad(loss, logits)
        assert gradient.device == loss.device == torch.device(device)
        results.append([loss.detach().cpu(), gradient.cpu()])
    assert_same(*results)

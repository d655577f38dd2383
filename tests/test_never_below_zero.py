"""Targets that are all but certain: no loss of logits is below 0, wherever rounding goes, and no derivative notices.

Losses that are far from 0 are compared in test_values.py.
"""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
import torch
from enumeration import ctc_alignments, rnnt_alignments
from implementations import (
    BATCHED,
    EXPLICIT,
    IMPLEMENTATIONS_AND_VARIABLES,
    INTERPRETED,
    KINDS,
    LATTICE,
    TORCH,
    TORCH_VARIANTS,
    TRITON_DEVICE,
    evaluate,
    every_kind,
    every_torch_loss,
    needs_cuda,
    needs_triton,
    one,
    pad,
    random_scores,
)
from variants import VARIANTS

from reference_impl import batched, hat, lattice_loss, log_softmax
from reference_impl.torch_impl import arc_rnnt_loss, edges, naive, numpy_ops

ALIGNMENTS = {"ctc": ctc_alignments, "rnnt": rnnt_alignments} | {
    name: VARIANTS[name].alignments for name in TORCH_VARIANTS}
V = 3
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OPTAX = np.array([[0.0, 17.0], [0.0, 17.0]])  # of google-deepmind/optax#1771; the target is the second symbol


@dataclass(frozen=True)
class Way:
    """One of the ways to compute a torch loss; the interpreter has time for few utterances only, of a lucky seed."""

    device: str = "cpu"
    backend: str = "torch"
    count: int = 64
    seeds: tuple = (0, 0)
    dtypes: tuple = FLOATS

    def options(self, kind):
        """The relatives of RNN-T have no option that names a backend."""
        return {"backend": self.backend} if kind in KINDS else {}

    def batch(self, kind):
        return near_certain(kind, self.count, self.seeds[kind == "rnnt"])


IN_INTERPRETER = {"count": 6, "seeds": (38, 3), "dtypes": (torch.float32,)} if INTERPRETED else {}
WAYS = {"NumPy views": Way(), "tensor operations": Way(), "cuda": Way("cuda"),
        "triton": Way(TRITON_DEVICE, "triton", **IN_INTERPRETER)}
MARKS = {"cuda": needs_cuda, "triton": needs_triton}


@pytest.fixture
def way(request, monkeypatch):
    monkeypatch.setattr(numpy_ops, "takes", lambda logits: request.param == "NumPy views")
    return WAYS[request.param]


def by_every_way(*kinds):
    """The relatives of RNN-T are made of tensor operations only."""
    return pytest.mark.parametrize(("kind", "way"), [
        pytest.param(kind, name, marks=MARKS.get(name, ())) for kind in kinds for name in WAYS
        if kind in KINDS or name in ("tensor operations", "cuda")], indirect=["way"])


def normalised(kind, scores):
    groups = VARIANTS[kind].groups(V) if kind in VARIANTS else (V,)
    return np.concatenate([log_softmax(part) for part in np.split(scores, np.cumsum(groups)[:-1], -1)], -1)


def near_certain(kind, count, seed=0):
    """A batch of logits around 0 where alignments of the target want them, and around -60 elsewhere.

    Up to eight alignments share the mass, if their steps do not mix to those of another target. So Z is 1 to 1e-12 or
    better, and what is left of log Z is rounding, of either sign.
    """
    rng, utterances = np.random.default_rng(seed), []
    while len(utterances) < count:
        T, targets = int(rng.integers(2, 6)), rng.integers(1, V, rng.integers(0, 3)).tolist()
        alignments = ALIGNMENTS[kind](targets, T, V, 0)
        logits = random_scores(rng, kind, T, len(targets), V)
        scores = logits - 60
        for i in rng.permutation(len(alignments))[:8]:
            wider = scores.copy()
            for entry in alignments[i]:
                wider[entry] = logits[entry]
            log_probs = normalised(kind, wider)
            if sum(np.exp(sum(log_probs[entry] for entry in path)) for path in alignments) > 1 - 1e-12:
                scores = wider
        if alignments:
            utterances.append((scores, targets))
    return pad(utterances)


def as_computed():
    """Inside of it the losses are what was computed, rounding and all."""
    return patch.object(edges, "floored", lambda losses, normalised: losses)


def with_derivatives(kind, batch, dtype, device, **options):
    """Losses, the gradient for some upstream gradients, and the second derivative for some direction."""
    scores = torch.tensor(batch.scores, dtype=dtype, device=device, requires_grad=True)
    integers = (torch.tensor(a, device=device) for a in (batch.targets, batch.logit_lengths, batch.target_lengths))
    losses = TORCH[kind](scores, *integers, reduction="none", **options)
    weights = torch.linspace(1, 2, len(batch)).to(losses)
    gradient, = torch.autograd.grad((weights * losses).sum(), scores, create_graph=True)
    direction = torch.linspace(-1, 1, scores.numel()).reshape(scores.shape).to(scores)
    return losses.detach(), gradient.detach(), torch.autograd.grad(gradient, scores, direction)[0]


def same(actual, expected):
    """Bit by bit; NaN, which padding may hold, equals NaN."""
    return torch.equal(actual.isnan(), expected.isnan()) and torch.equal(actual.nan_to_num(), expected.nan_to_num())


@by_every_way(*TORCH)
def test_only_the_value_changes(kind, way):
    """max(0, loss); the derivatives are those of what was computed, also where that is below 0, and it is somewhere."""
    batch, options, below = way.batch(kind), way.options(kind), 0
    for dtype in way.dtypes:
        with as_computed():
            computed, *derivatives = with_derivatives(kind, batch, dtype, way.device, **options)
        losses, *ours = with_derivatives(kind, batch, dtype, way.device, **options)
        assert computed.abs().max() < 1e-6
        assert torch.equal(losses, computed.clamp(min=0))
        assert not losses.signbit().any()
        for actual, expected in zip(ours, derivatives, strict=True):
            assert same(actual, expected)
        below += (computed < 0).sum().item()
    assert below > 0


@every_kind
def test_derivatives_where_the_value_is_held(kind):
    """Another symbol at e^-17 or less in each of twelve frames: float32 rounds off more than the loss.

    So the value is held at 0. Gradient and second derivative of that symbol, which no alignment uses, are still those
    of float64, and descent goes on.
    """
    T, tilts, utterances = 12, (17.0, 17.5, 18.5, 19.5), []
    for tilt in tilts:
        scores = np.zeros((T, V) if kind == "ctc" else (T, 2, V))
        if kind == "ctc":
            scores[:, 1] = tilt
        else:
            scores[:, :, 0], scores[-1, 0] = tilt, [0, tilt, 0]
        utterances.append((scores, [1]))
    batch = pad(utterances)
    with as_computed():
        computed, *_ = with_derivatives(kind, batch, torch.float32, "cpu")
    losses, *derivatives = with_derivatives(kind, batch, torch.float32, "cpu")
    _, *exact = with_derivatives(kind, batch, torch.float64, "cpu")
    assert (computed < 0).any() and torch.equal(losses, computed.clamp(min=0))
    for ours, expected in zip(derivatives, exact, strict=True):
        ours, expected = ours[..., 2].double(), expected[..., 2]
        assert (expected.abs().flatten(1).amax(1) > 1e-11).all()
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-17)  # some roundings of 6e-8 of the value itself


@by_every_way("rnnt")
@pytest.mark.parametrize("options", [{"fastemit_lambda": 0.5}, {"clamp": 0.1}], ids=str)
def test_options_of_the_backward_pass(kind, options, way):
    """They leave the loss what it is: never below 0."""
    batch = way.batch(kind)
    with as_computed():
        computed, *_ = with_derivatives(kind, batch, torch.float32, way.device, **way.options(kind))
    scores = torch.tensor(batch.scores, dtype=torch.float32, device=way.device)
    integers = (torch.tensor(a, device=way.device) for a in (batch.targets, batch.logit_lengths, batch.target_lengths))
    losses = TORCH[kind](scores, *integers, reduction="none", **way.options(kind), **options)
    assert torch.equal(losses, computed.clamp(min=0))


@every_torch_loss
def test_reductions_are_of_these_values(kind):
    batch = near_certain(kind, 20)
    rest = [torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
    scores = torch.tensor(batch.scores)
    with as_computed():
        computed = TORCH[kind](scores, *rest, reduction="none")
    assert computed.min() < 0
    for reduction, expected in (("sum", computed.clamp(min=0).sum()), ("mean", computed.clamp(min=0).mean())):
        assert torch.equal(TORCH[kind](scores, *rest, reduction=reduction), expected)


@every_torch_loss
def test_no_alignment_and_nan_stay(kind):
    """A loss of inf and a loss of NaN, beside one that is held at 0."""
    utterances = [near_certain(kind, 1).utterance(0) for _ in range(3)]
    scores = [scores.copy() for scores, _ in utterances]
    scores[1][:], scores[2][0] = -np.inf, np.nan
    batch = pad([(s, targets) for s, (_, targets) in zip(scores, utterances, strict=True)])
    arguments_ = [torch.tensor(a) for a in (batch.scores, batch.targets, batch.logit_lengths, batch.target_lengths)]
    losses = TORCH[kind](*arguments_, reduction="none")
    assert 0 <= losses[0] < 1e-12 and losses[1] == torch.inf and losses[2].isnan()
    losses = TORCH[kind](*arguments_, reduction="none", zero_infinity=True)
    assert losses[1] == 0 and losses[2].isnan()


@by_every_way(*TORCH)
def test_given_scores_may_make_it_negative(kind, way):
    """Nothing says that they are normalised: half a nat more for every step, and the loss is as far below 0."""
    batch = near_certain(kind, 4)
    for b in range(len(batch)):
        batch.scores[batch.used(b)] = normalised(kind, batch.scores[batch.used(b)]) + 0.5
    losses, *_ = with_derivatives(kind, batch, torch.float64, way.device, inputs="log_probs", **way.options(kind))
    fewest = batch.logit_lengths if kind in KINDS else np.ceil(batch.logit_lengths / 3)  # of steps, of 3 frames at most
    assert (losses.cpu().numpy() < -0.5 * fewest + 1e-6).all()


def test_scores_of_arcs_may_make_it_negative():
    zeros = torch.zeros(1, 2, 2), torch.zeros(1, 2, 1)
    loss = arc_rnnt_loss(*zeros, torch.tensor([2]), torch.tensor([1]))
    assert loss.item() == pytest.approx(-np.log(2), rel=1e-6)


def test_explicit_losses_take_scores():
    """In float32 the log-probs of a frame add up to more than 1, and the loss is that of what was given."""
    log_probs = torch.log_softmax(torch.tensor(OPTAX).float(), -1)
    in_numpy = log_probs.numpy()
    for loss in (EXPLICIT["ctc"].loss(in_numpy, [1]), lattice_loss.loss(LATTICE["ctc"]([1], 2, 2), in_numpy),
                 naive.ctc_loss(log_probs.double(), [1]).item()):
        assert loss == pytest.approx(-8.28e-8, rel=1e-3)


@every_kind
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_batched(kind, dtype):
    batch = near_certain(kind, 64)
    arguments_ = batch.scores.astype(dtype), batch.targets, batch.logit_lengths, batch.target_lengths
    with patch.object(batched, "never_below_zero", lambda losses: losses):
        computed, expected = BATCHED[kind](*arguments_)
    losses, gradient = BATCHED[kind](*arguments_)
    assert computed.min() < 0
    np.testing.assert_array_equal(losses, np.maximum(computed, 0))
    assert not np.signbit(losses).any()
    assert losses.dtype == computed.dtype
    np.testing.assert_array_equal(gradient, expected)


def test_hat():
    """It takes logits, so its loss, too, is never below 0; the log-probs that it hands on are scores again."""
    batch = near_certain("rnnt", 64)
    computed, losses = [], []
    for b in range(len(batch)):
        scores, targets = batch.utterance(b)
        logits = log_softmax(scores)
        logits[..., 0] -= np.logaddexp(logits[..., 1], logits[..., 2])  # the sigmoid makes of it what the softmax made
        computed.append(EXPLICIT["rnnt"].loss(hat.log_probs(logits), targets))
        losses.append(hat.loss(logits, targets))
    assert min(computed) < 0 and max(computed) < 1e-12
    np.testing.assert_array_equal(losses, np.maximum(computed, 0))
    assert not np.signbit(losses).any()


@by_every_way("ctc")
def test_the_input_of_optax(kind, way):
    """What a caller does with the loss there: log(loss + 1e-8). And the gradient is the explicit one."""
    logits = torch.tensor(OPTAX[None], dtype=torch.float32, device=way.device, requires_grad=True)
    loss = TORCH[kind](logits, torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]), **way.options(kind))
    loss.backward()
    assert 0 <= loss < 1e-6
    assert torch.log(loss + 1e-8).isfinite()
    np.testing.assert_allclose(logits.grad[0].cpu().numpy(), EXPLICIT[kind].grad_logits(OPTAX, [1]), rtol=0,
                               atol=4 * np.finfo(np.float32).eps)


def test_the_input_of_optax_in_numpy():
    losses, _ = BATCHED["ctc"](OPTAX[None].astype(np.float32), [[1]], [2], [1])
    assert 0 <= losses[0] < 1e-6


@every_kind
@pytest.mark.parametrize(("implementation", "variable"), IMPLEMENTATIONS_AND_VARIABLES)
def test_no_sign_at_zero(kind, implementation, variable):
    """A certain target: log Z is 0, and so is the loss, not -0.0."""
    scores = np.zeros((3, 2) if kind == "ctc" else (3, 1, 2))
    scores[..., 1] = -np.inf
    loss = evaluate(implementation, one(scores, []), variable)[0][0]
    if implementation == "lattice":
        loss = lattice_loss.loss(LATTICE[kind]([], 3, 2), scores)
    assert loss == 0 and not np.signbit(loss)

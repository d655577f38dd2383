"""HAT: the RNN-T lattice on log-probs with a sigmoid for the blank, in NumPy and torch, masks included."""

import numpy as np
import pytest
import torch
from enumeration import rnnt_alignments
from implementations import EXACT, assert_gradients, assert_losses, needs_cuda

from reference_impl import hat
from reference_impl.differences import central_difference
from reference_impl.torch_impl import hat_log_probs, rnnt_loss

CASES = [(4, [1, 1, 3], 0), (3, [0, 3], 2), (5, [], 3), (1, [1], 0)]
every_case = pytest.mark.parametrize(("T", "targets", "blank"), CASES, ids=str)


def scores(T, targets, seed=0):
    return 2 * np.random.default_rng(seed).normal(size=(T, len(targets) + 1, 4))


def probabilities(logits, blank):
    """From the definition, in plain numbers."""
    y = np.empty(logits.shape)
    labels = np.arange(logits.shape[-1]) != blank
    y[..., blank] = 1 / (1 + np.exp(-logits[..., blank]))
    shares = np.exp(logits[..., labels])
    y[..., labels] = (1 - y[..., blank])[..., None] * shares / shares.sum(-1, keepdims=True)
    return y


@every_case
def test_by_enumeration(T, targets, blank):
    logits = scores(T, targets)
    y = probabilities(logits, blank)
    paths = rnnt_alignments(targets, T, 4, blank)
    np.testing.assert_allclose(np.exp(hat.log_probs(logits, blank=blank)), y, rtol=0, atol=1e-15)
    np.testing.assert_allclose(y.sum(-1), 1, rtol=0, atol=1e-15)
    assert_losses(hat.loss(logits, targets, blank=blank),
                  -np.log(sum(np.prod([y[entry] for entry in path]) for path in paths)))


@every_case
def test_gradient(T, targets, blank):
    """Against finite differences; exact agreement of two formulas is for torch, below."""
    logits = scores(T, targets)
    numeric = central_difference(lambda z: hat.loss(z, targets, blank=blank), logits)
    np.testing.assert_allclose(hat.grad_logits(logits, targets, blank=blank), numeric, rtol=0, atol=1e-8)


@every_case
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
def test_torch(T, targets, blank, device):
    """Autograd through logsigmoid and log-softmax against the closed form; masks get gradient 0."""
    logits = scores(T, targets)
    logits[0, 0, blank] = -np.inf if targets else 1.0
    unused = next(k for k in range(4) if k not in (blank, *targets))
    logits[-1, 0, unused] = -np.inf
    logits[:, -1, np.arange(4) != blank] = -np.inf  # no label in the last row
    leaf = torch.tensor(logits[None], device=device, requires_grad=True)
    arguments = torch.tensor([targets], dtype=torch.int64), torch.tensor([T]), torch.tensor([len(targets)])
    loss = rnnt_loss(hat_log_probs(leaf, blank=blank), *arguments, blank=blank, inputs="log_probs")
    loss.backward()
    assert_losses(loss.item(), hat.loss(logits, targets, blank=blank))
    assert_gradients(leaf.grad[0].cpu().numpy(), hat.grad_logits(logits, targets, blank=blank), EXACT)
    assert (leaf.grad[0][leaf[0] == -torch.inf] == 0).all()


def test_second_derivative():
    leaf = torch.tensor(scores(3, [1, 2])[None], requires_grad=True)
    arguments = torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2])
    assert torch.autograd.gradgradcheck(
        lambda z: rnnt_loss(hat_log_probs(z), *arguments, inputs="log_probs"), leaf, atol=1e-6)


def test_far_away():
    """Logits of a thousand: no overflow, and the part that is left keeps its digits."""
    log_probs = hat.log_probs(np.array([1000.0, 0.0, np.log(3.0)]))
    np.testing.assert_allclose(log_probs, [0, -1000 + np.log(0.25), -1000 + np.log(0.75)], rtol=1e-15, atol=0)
    np.testing.assert_allclose(hat_log_probs(torch.tensor([1000.0, 0.0, np.log(3.0)], dtype=torch.float64)).numpy(),
                               log_probs, rtol=1e-15, atol=0)

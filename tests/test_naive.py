"""The torch scalar loops: equal to the NumPy recursions, and their autograd gradient to the hand-written one."""

import numpy as np
import pytest
import torch
from implementations import EXACT, EXPLICIT, every_kind, random_scores

from reference_impl.torch_impl import ctc_loss, naive, rnnt_loss

NAIVE = {"ctc": naive.ctc_loss, "rnnt": naive.rnnt_loss}
BATCHED = {"ctc": ctc_loss, "rnnt": rnnt_loss}


@every_kind
@pytest.mark.parametrize(("T", "targets", "blank"), [(4, [1, 1, 2], 0), (3, [0, 2], 1), (1, [2], 0), (3, [], 2)])
def test_loss_and_autograd_gradient(kind, T, targets, blank):
    scores = random_scores(np.random.default_rng(T), kind, T, len(targets), 4)
    log_probs = torch.tensor(scores, requires_grad=True)
    loss = NAIVE[kind](log_probs, targets, blank=blank)
    loss.backward()
    module = EXPLICIT[kind]
    assert loss.item() == pytest.approx(module.loss(scores, targets, blank=blank), rel=EXACT)
    expected = module.grad_log_probs(scores, targets, blank=blank)
    np.testing.assert_allclose(log_probs.grad, expected, rtol=0, atol=EXACT)


@every_kind
def test_gradient_of_torch_impl_by_autograd(kind):
    """Through log_softmax: the hand-written backward pass of the batched loss against autograd alone."""
    logits = torch.tensor(random_scores(np.random.default_rng(3), kind, 4, 2, 4), requires_grad=True)
    (by_autograd,) = torch.autograd.grad(NAIVE[kind](logits.log_softmax(-1), [1, 2]), logits)
    loss = BATCHED[kind](logits[None], torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
    (by_hand,) = torch.autograd.grad(loss, logits)
    np.testing.assert_allclose(by_hand, by_autograd, rtol=0, atol=EXACT)


@every_kind
def test_second_derivatives_pass_gradgradcheck(kind):
    scores = torch.tensor(random_scores(np.random.default_rng(4), kind, 3, 1, 3), requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda z: NAIVE[kind](z, [1]), scores)


def test_no_alignment():
    log_probs = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    loss = naive.ctc_loss(log_probs, [1, 1])
    loss.backward()
    assert loss == torch.inf and (log_probs.grad == 0).all()
    masked = torch.full((2, 1, 2), -torch.inf, dtype=torch.float64, requires_grad=True)
    loss = naive.rnnt_loss(masked, [])
    loss.backward()
    assert loss == torch.inf and (masked.grad == 0).all()
    assert naive.ctc_loss(torch.zeros(0, 3), []) == 0


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"log_probs has shape \(2, 3, 4\); expected 2 axes \(T, V\)"):
        naive.ctc_loss(torch.zeros(2, 3, 4), [1])
    with pytest.raises(ValueError, match=r"expected U \+ 1 = 2"):
        naive.rnnt_loss(torch.zeros(2, 3, 4), [1])
    with pytest.raises(ValueError, match=r"targets\[0\] = 4; expected 0 <= label < V = 3"):
        naive.ctc_loss(torch.zeros(2, 3), [4])

"""float32 over long utterances: the gradient stays as near to float64 as its rounding lets it: the lattice is float64.

The lattice adds nothing; what is left is a softmax in float32, whose exp is off by some units of 6e-8 of a value below
1. 1e-6 leaves room for ten such roundings. Alpha and beta in float32 would be off by more than 1e-4 here.
"""

import numpy as np
import pytest
import torch
from implementations import BATCHED, EXPLICIT, KINDS, TORCH, random_scores

from reference_impl import log_softmax
from reference_impl.semiring import LOG32

LONG = {"ctc": (500, 100, 50), "rnnt": (300, 60, 50)}


def float32_by_batched(kind, logits, targets):
    lengths = np.array([len(logits)]), np.array([len(targets)])
    losses, gradient = BATCHED[kind](logits[None], targets[None], *lengths)
    return losses[0], gradient[0]


def float32_by_torch(kind, logits, targets):
    scores = torch.tensor(logits[None]).requires_grad_()
    loss = TORCH[kind](scores, torch.tensor(targets[None]), torch.tensor([len(logits)]), torch.tensor([len(targets)]))
    loss.backward()
    return loss.item(), scores.grad[0].numpy()


@pytest.mark.parametrize("scale", [0.1, 3.0], ids=["flat", "sharp"])
@pytest.mark.parametrize("compute", [float32_by_batched, float32_by_torch])
@pytest.mark.parametrize("kind", KINDS)
def test_float32_gradient(kind, compute, scale):
    """Against the explicit recursions in float64, which use alpha and beta, on the same float32 numbers."""
    T, U, V = LONG[kind]
    rng = np.random.default_rng(0)
    logits = (scale * random_scores(rng, kind, T, U, V)).astype(np.float32)
    targets = rng.integers(1, V, size=U)
    loss, gradient = compute(kind, logits, targets)
    assert gradient.dtype == np.float32
    assert loss == pytest.approx(EXPLICIT[kind].loss(log_softmax(logits), targets), rel=1e-6)
    assert np.abs(gradient - EXPLICIT[kind].grad_logits(logits, targets)).max() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_float32_lattice_would_fail(kind):
    """That the tolerance above means something: log alpha in float32 misses it by a factor of a hundred and more."""
    T, U, V = LONG[kind]
    rng = np.random.default_rng(0)
    log_probs = log_softmax(0.1 * random_scores(rng, kind, T, U, V))
    targets = rng.integers(1, V, size=U)
    a, b = (f(log_probs.astype(np.float32), targets, semiring=LOG32)
            for f in (EXPLICIT[kind].alpha, EXPLICIT[kind].beta))
    log_a, log_b = EXPLICIT[kind].log_alpha(log_probs, targets), EXPLICIT[kind].log_beta(log_probs, targets)
    node, log_node = a + b, log_a + log_b
    posterior, exact = np.exp(node - node.max()), np.exp(log_node - log_node.max())
    assert np.abs(posterior - exact).max() > 1e-4


@pytest.mark.slow
def test_one_very_long_utterance():
    """T = 1500, U = 300, V = 500 in float32 through batched, against float64: the gradient within 1e-6."""
    T, U, V = 1500, 300, 500
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((1, T, U + 1, V), dtype=np.float32)
    targets = rng.integers(1, V, size=(1, U))
    lengths = np.array([T]), np.array([U])
    losses, gradient = BATCHED["rnnt"](logits, targets, *lengths)
    exact_losses, exact_gradient = BATCHED["rnnt"](logits.astype(np.float64), targets, *lengths)
    assert losses[0] == pytest.approx(exact_losses[0], rel=1e-6)
    assert max(np.abs(gradient[0, t] - exact_gradient[0, t]).max() for t in range(T)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_longer_than_float32_can_count(kind):
    """T = 4000 frames: log Z near -20000, where neighbouring float32 numbers are 2e-3 apart."""
    rng = np.random.default_rng(1)
    logits = random_scores(rng, kind, 4000, 40, 200).astype(np.float32)
    targets = rng.integers(1, 200, size=40)
    loss, gradient = float32_by_batched(kind, logits, targets)
    assert loss > 15000
    _, exact = float32_by_batched(kind, logits.astype(np.float64), targets)
    assert np.abs(gradient - exact).max() < 1e-6

"""What ``fastemit_lambda`` and ``clamp`` do to the backward pass, and that the loss does not notice."""

import numpy as np
import pytest
import torch
from implementations import EXACT, every_device, every_input, pad, random_scores

from reference_impl import log_softmax, rnnt
from reference_impl.torch_impl import RNNTLoss, rnnt_loss

UTTERANCES = [(4, [1, 1, 2]), (3, [3]), (5, []), (1, [2, 1])]
UPSTREAM = np.array([1.0, -2.0, 0.5, 3.0])


def batch_of(inputs):
    rng = np.random.default_rng(0)
    scores = [(random_scores(rng, "rnnt", T, len(labels), 4) * 2, labels) for T, labels in UTTERANCES]
    if inputs == "log_probs":
        scores = [(log_softmax(utterance), labels) for utterance, labels in scores]
    return pad(scores, extra_frames=1, extra_labels=1)


def run(batch, device, inputs, upstream=UPSTREAM, dtype=torch.float64, **options):
    scores = torch.tensor(batch.scores, dtype=dtype, device=device, requires_grad=True)
    integers = (torch.tensor(a, device=device) for a in (batch.targets, batch.logit_lengths, batch.target_lengths))
    losses = rnnt_loss(scores, *integers, reduction="none", inputs=inputs, **options)
    losses.backward(torch.tensor(upstream, dtype=losses.dtype, device=device))
    return losses.detach().cpu().numpy(), scores.grad.cpu().numpy()


def expected(batch, inputs, fastemit_lambda=0.0, clamp=np.inf, upstream=UPSTREAM):
    function = {"logits": rnnt.grad_logits, "log_probs": rnnt.grad_log_probs}[inputs]
    gradient = np.zeros(batch.scores.shape)
    for b in range(len(batch)):
        one = function(*batch.utterance(b), fastemit_lambda=fastemit_lambda)
        gradient[batch.used(b)] = upstream[b] * np.clip(one, -clamp, clamp)
    return gradient


@every_device
@every_input
@pytest.mark.parametrize("options", [{"fastemit_lambda": 0.5}, {"clamp": 0.1}, {"fastemit_lambda": 2, "clamp": 0.3}],
                         ids=str)
def test_gradient(device, inputs, options):
    """Against the explicit functions; the losses are those without the options; padding has gradient 0."""
    batch = batch_of(inputs)
    losses, gradient = run(batch, device, inputs, **options)
    plain, untouched = run(batch, device, inputs)
    np.testing.assert_array_equal(losses, plain)
    np.testing.assert_allclose(gradient, expected(batch, inputs, **options), rtol=0, atol=EXACT)
    assert np.abs(gradient - untouched).max() > 0.05
    assert (gradient[batch.padding()] == 0).all()


def test_explicit_rule():
    """G3 of the literature: e_y becomes (1 + lambda) e_y, inside the softmax term as well."""
    logits, targets, lam = np.random.default_rng(1).normal(size=(4, 3, 5)), [1, 3], 0.25
    log_probs = log_softmax(logits)
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets)
    e_label = (1 + lam) * np.pad(e_label, ((0, 0), (0, 1)))
    scaled = np.zeros(logits.shape)
    scaled[..., 0] = e_blank
    for u, label in enumerate(targets):
        scaled[:, u, label] += e_label[:, u]
    by_log_probs = rnnt.grad_log_probs(log_probs, targets, fastemit_lambda=lam)
    np.testing.assert_allclose(by_log_probs, -scaled, rtol=0, atol=1e-15)
    merged = np.exp(log_probs) * (e_blank + e_label)[..., None] - scaled
    np.testing.assert_allclose(rnnt.grad_logits(logits, targets, fastemit_lambda=lam), merged, rtol=0, atol=1e-15)


@every_input
def test_zero_lambda_and_a_wide_clamp_change_nothing(inputs):
    batch = batch_of(inputs)
    _, plain = run(batch, "cpu", inputs)
    _, same = run(batch, "cpu", inputs, fastemit_lambda=0, clamp=1e6)
    np.testing.assert_allclose(same, plain, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("T", "labels", "options", "is_gradient"), [
    (3, [1], {}, True), (3, [1], {"fastemit_lambda": 0.01}, False), (3, [1], {"clamp": 0.1}, False),
    (1, [1], {"fastemit_lambda": 0.01}, False), (3, [], {"fastemit_lambda": 0.01}, True),
], ids=str)
def test_gradcheck(T, labels, options, is_gradient):
    """FastEmit and clamp are no gradients of the loss: not with one path either, but without labels FastEmit does
    nothing."""
    scores = torch.tensor(random_scores(np.random.default_rng(2), "rnnt", T, len(labels), 3)[None], requires_grad=True)
    arguments = torch.tensor([labels], dtype=torch.int64), torch.tensor([T]), torch.tensor([len(labels)])
    assert is_gradient == torch.autograd.gradcheck(lambda z: rnnt_loss(z, *arguments, **options), scores,
                                                   raise_exception=False)


@every_device
def test_clamp_keeps_the_edges(device):
    """No alignment and padding: exactly 0, also for an infinite upstream gradient; a NaN stays in its utterance."""
    batch = batch_of("logits")
    batch.scores[0, 3, 3, 0] = -np.inf  # the last blank of utterance 0
    batch.scores[1, 0, 0, 0] = np.nan
    upstream = np.array([np.inf, 1.0, 0.5, 3.0])
    losses, gradient = run(batch, device, "logits", upstream=upstream, clamp=0.2, fastemit_lambda=0.1)
    assert losses[0] == np.inf and (gradient[0] == 0).all()
    assert np.isnan(losses[1]) and np.isnan(gradient[batch.used(1)]).all()
    untouched = expected(batch_of("logits"), "logits", 0.1, 0.2)
    np.testing.assert_allclose(gradient[2:], untouched[2:], rtol=0, atol=EXACT)


@every_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lower_precision(device, dtype):
    """The clamp bounds the gradient of each utterance, whatever the dtype."""
    batch = batch_of("logits")
    _, gradient = run(batch, device, "logits", dtype=torch.float32, clamp=0.2, fastemit_lambda=0.5)
    np.testing.assert_allclose(gradient, expected(batch, "logits", 0.5, 0.2), rtol=0, atol=1e-6)
    scores = torch.tensor(batch.scores, dtype=dtype, device=device, requires_grad=True)
    integers = (torch.tensor(a, device=device) for a in (batch.targets, batch.logit_lengths, batch.target_lengths))
    rnnt_loss(scores, *integers, reduction="sum", clamp=0.25).backward()
    assert scores.grad.dtype == dtype and scores.grad.abs().max() == 0.25


def test_module():
    batch = batch_of("logits")
    arguments = [torch.tensor(a) for a in (batch.targets, batch.logit_lengths, batch.target_lengths)]
    scores = torch.tensor(batch.scores, requires_grad=True)
    RNNTLoss(reduction="sum", fastemit_lambda=0.5, clamp=0.2)(scores, *arguments).backward()
    np.testing.assert_allclose(scores.grad, expected(batch, "logits", 0.5, 0.2, np.ones(4)), rtol=0, atol=EXACT)

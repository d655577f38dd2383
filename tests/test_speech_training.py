"""A transducer learns a few synthetic utterances by heart, and learns nothing where the loss's gradient is wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impl.networks.objectives import full_loss
from reference_impl.speech import batches, corpus, networks, training
from reference_impl.torch_impl import rnnt_loss

STEPS = 80
#: Nats a letter. Four seeds came to 0.26 to 0.42; the best of the wrong gradients left 3.1.
LEARNED, UNLEARNED = 1.0, 2.0


@pytest.fixture(scope="module")
def batch():
    """Six short number strings, as they were synthesised."""
    given = corpus.load("train", Path(__file__).parent.parent / "data" / "speech")
    given = [each for each in given if len(each.words) == 2 and not {"stop", "go", "on"} & {*each.text.split()}]
    chosen = sorted(given, key=lambda each: (each.seconds, each.name))[:6]
    return batches.batch_of(batches.examples(chosen, snr=(np.inf, np.inf)))


def nats_a_letter(batch, loss, seed):
    """The true loss of the batch after training on it by what may be another one."""
    torch.manual_seed(seed)
    network = networks.Transducer(32, spacings=(1, 2, 4), dropout=0.0)
    for _ in training.train(network, [batch] * STEPS, loss, steps=STEPS, rate=1e-2):
        pass
    with torch.no_grad():
        return full_loss(network, *training.as_tensors(batch)).item() * len(batch) / batch.target_lengths.sum()


class Planted(torch.autograd.Function):
    """The mean RNN-T loss of logits, whose backward pass returns what ``wrong`` makes of beliefs and evidence."""

    @staticmethod
    def forward(ctx, logits, targets, lengths, target_lengths, wrong):
        log_probs = logits.detach().log_softmax(-1).requires_grad_()
        with torch.enable_grad():
            loss = rnnt_loss(log_probs, targets, lengths, target_lengths, inputs="log_probs")
            evidence = -torch.autograd.grad(loss, log_probs)[0]
        ctx.save_for_backward(wrong(log_probs.detach().exp(), evidence))
        return loss.detach()

    @staticmethod
    def backward(ctx, upstream):
        return upstream * ctx.saved_tensors[0], None, None, None, None


def planted_loss(wrong):
    def loss(network, frames, frame_lengths, targets, target_lengths):
        logits, lengths = network(frames, frame_lengths, targets)
        return Planted.apply(logits, targets, lengths, target_lengths, wrong)

    return loss


def as_it_should_be(softmax, evidence):
    return softmax * evidence.sum(-1, keepdim=True) - evidence


def without_softmax_term(softmax, evidence):
    """The gradient with respect to log-probs, handed to logits."""
    return -evidence


def of_the_other_sign(softmax, evidence):
    return -as_it_should_be(softmax, evidence)


def without_label_arcs(softmax, evidence):
    blanks = evidence.clone()
    blanks[..., 1:] = 0
    return as_it_should_be(softmax, blanks)


def a_row_too_high(softmax, evidence):
    """The label that leads out of a row is taught in the next."""
    labels = evidence[..., 1:].roll(1, dims=2)
    return as_it_should_be(softmax, torch.cat([evidence[..., :1], labels], dim=-1))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_a_transducer_learns_utterances_by_heart(batch, seed):
    assert nats_a_letter(batch, full_loss, seed) < LEARNED


@pytest.mark.slow
def test_the_harness_learns_with_the_right_gradient(batch):
    assert nats_a_letter(batch, planted_loss(as_it_should_be), 0) < LEARNED


@pytest.mark.parametrize("wrong", [
    without_label_arcs, *(pytest.param(wrong, marks=pytest.mark.slow)
                          for wrong in (without_softmax_term, of_the_other_sign, a_row_too_high))])
def test_it_does_not_with_a_wrong_gradient(batch, wrong):
    assert not nats_a_letter(batch, planted_loss(wrong), 0) < UNLEARNED

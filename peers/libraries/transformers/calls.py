"""The TDT loss of Hugging Face Transformers in direct calls. tests/test_calls.py judges what it returns."""

import torch
from recording import question, record, sixteenths
from transformers.loss.loss_tdt import tdt_loss

V, FRAMES, ROWS = 4, 5, 3


def batch(durations):
    """Logits of the symbols and of the durations, and the targets of two utterances; the blank is the last symbol."""
    logits = torch.tensor(sixteenths(31, 2, FRAMES, ROWS, V))
    return logits, torch.tensor(sixteenths(32, 2, FRAMES, ROWS, len(durations))), torch.tensor([[1, 2], [0, 0]])


def loss(durations, lengths, **options):
    """The loss, and its gradients with respect to both logits: of utterances with 2 labels and with ``lengths[1]``."""
    logits, duration_logits, targets = batch(durations)
    leaves = [each.requires_grad_() for each in (logits, duration_logits)]
    found = tdt_loss(*leaves, targets, torch.tensor([FRAMES, FRAMES - 1]), torch.tensor(lengths), V - 1, durations,
                     **options)
    return [found, *torch.autograd.grad(found.sum(), leaves)]


@question
def tdt():
    """tdt_loss, reduction none, by durations: the losses of two utterances and the gradients of their sum."""
    found = {}
    for durations, sigma in (([0, 1, 2], 0.25), ([0, 1, 3], 0.0), ([1, 2], 0.0), ([0, 2, 3], 0.0)):
        logits, duration_logits, targets = batch(durations)
        losses, grad, duration_grad = loss(durations, [2, 1], sigma=sigma, reduction="none")
        found[" ".join(map(str, durations))] = {
            "sigma": sigma, "logits": logits, "duration_logits": duration_logits, "targets": targets, "loss": losses,
            "gradient": grad, "duration_gradient": duration_grad}
    return found


@question
def tdt_reductions():
    """tdt_loss by reductions, with a label in the second target and with none: loss and sum of |gradient|."""
    return {name: {reduction: [found, torch.abs(grad).sum()] for reduction, (found, grad, _) in (
        (reduction, loss([0, 1, 2], lengths, reduction=reduction)) for reduction in ("mean", "mean_volume", "sum"))}
            for name, lengths in (("a label", [2, 1]), ("no label", [2, 0]))}


record()

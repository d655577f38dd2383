"""Utterances dealt out unequally to processes, and their mean loss written down by one: for the tests of scaling."""

import torch

from reference_impl.scaling import count_of
from reference_impl.speech.batches import batch_of
from reference_impl.speech.training import as_tensors
from reference_impl.torch_impl import ctc_loss, rnnt_loss


def dealt_out(utterances, world_size, micro_batches=1, *, idle=None):
    """For each rank its micro-batches. The shares of the ranks are about 1, 2, 3, ..., so are those of micro-batches.

    ``idle`` is a rank that has nothing at all, of several.
    """
    shares = [0 if rank == idle and world_size > 1 else rank + 1 for rank in range(world_size)]
    return [cut(each, range(1, micro_batches + 1)) for each in cut(utterances, shares)]


def cut(items, shares):
    ends = [len(items) * sum(shares[:i + 1]) // sum(shares) for i in range(len(shares))]
    return [items[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def one_by_one(network, utterances, loss, divisor="utterances"):
    """The mean loss as one process would write it down, one utterance at a time; a scalar tensor.

    No batches, no padding, no process group, and none of the package's functions that scale a loss.
    """
    dtype, losses = next(network.parameters()).dtype, []
    for utterance in utterances:
        frames, lengths, targets, target_lengths = as_tensors(batch_of([utterance]))
        logits, counts = network(frames.to(dtype), lengths, *([targets] if loss == "rnnt" else []))
        function = {"ctc": ctc_loss, "rnnt": rnnt_loss}[loss]
        losses.append(function(logits, targets, counts, target_lengths, reduction="sum"))
    return torch.stack(losses).sum() / count_of(utterances, divisor)

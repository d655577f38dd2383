"""Whether the gradients of several processes are those of one, in numbers: tables to print. It trains nothing else.

The other side of the comparison has no batches, no padding and no process group: one utterance at a time, and a sum.
"""

from __future__ import annotations

import hashlib

import torch

from .. import _validation
from ..torch_impl import ctc_loss, rnnt_loss
from .gradients import UtteranceLosses, data_parallel, step_backward
from .networks import FrameNetwork, TransducerNetwork, logits_of
from .processes import run_processes
from .utterances import DIVISORS, collate, count_of, make_utterances

__all__ = ["dealt_out", "digest_of", "equality_table", "one_by_one"]

FEATURES, NUM_SYMBOLS = 4, 6


def digest_of(tensors) -> str:
    """SHA-256 of names, dtypes, shapes and bits of tensors, as hexadecimal digits: equal for equal bits only.

    Parameters
    ----------
    tensors : nn.Module or mapping from names to tensors
        Of a module, parameters and buffers.

    Examples
    --------
    >>> zero = {"a": torch.zeros(2)}
    >>> digest_of(zero) == digest_of({"a": torch.zeros(2)}), digest_of(zero) == digest_of({"a": -torch.zeros(2)})
    (True, False)
    """
    digest = hashlib.sha256()
    for name, tensor in (tensors.state_dict() if isinstance(tensors, torch.nn.Module) else tensors).items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
                      if tensor.dim() else tensor.detach().cpu()[None].view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def one_by_one(model, utterances, *, loss="ctc", divisor="utterances"):
    """The mean loss of utterances as one process would write it down, one utterance at a time; a scalar tensor.

    Parameters
    ----------
    model : nn.Module
        As for :func:`.networks.logits_of`, on the CPU.
    utterances : sequence of pairs
        At least one with something to count.
    loss : "ctc" | "rnnt"
    divisor : "utterances" | "labels" | "frames"

    Examples
    --------
    >>> torch.manual_seed(0) and None
    >>> model, utterances = FrameNetwork(4, 6), make_utterances(3, seed=0)
    >>> means = [one_by_one(model, utterances, divisor=divisor).item() for divisor in ("utterances", "labels")]
    >>> round(means[0] / means[1], 5)  # 10 labels in 3 utterances
    3.33333
    """
    _validation.check_choice("divisor", divisor, DIVISORS)
    dtype = next(model.parameters()).dtype
    losses, counts = [], []
    for utterance in utterances:
        batch = collate([utterance]).to(dtype)
        logits, lengths = logits_of(model, batch, loss)
        function = {"ctc": ctc_loss, "rnnt": rnnt_loss}[loss]
        losses.append(function(logits, batch.targets, lengths, batch.target_lengths, reduction="sum"))
        counts.append(count_of(batch, divisor))
    return torch.stack(losses).sum() / sum(counts)


def dealt_out(utterances, world_size, micro_batches=1, *, idle=None):
    """Utterances dealt out unequally: a list of micro-batches for each rank, which are lists of utterances.

    The shares of the ranks are about 1, 2, 3, ..., and so are those of the micro-batches within a rank.

    Parameters
    ----------
    utterances : sequence
    world_size, micro_batches : int
    idle : int, optional
        A rank that has nothing at all, of several.

    Returns
    -------
    list of ``world_size`` lists of ``micro_batches`` lists

    Examples
    --------
    >>> dealt_out("abcdef", 3), dealt_out("abcdef", 2, 2, idle=0)
    ([['a'], ['bc'], ['def']], [['', ''], ['ab', 'cdef']])
    """
    shares = [0 if rank == idle and world_size > 1 else rank + 1 for rank in range(world_size)]
    return [_cut(each, range(1, micro_batches + 1)) for each in _cut(utterances, shares)]


def _cut(items, shares):
    ends = [len(items) * sum(shares[:i + 1]) // sum(shares) for i in range(len(shares))]
    return [items[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def equality_table(world_sizes=(1, 2, 4), *, losses=("ctc", "rnnt"), divisors=DIVISORS, reduction="mean",
                   micro_batches=2, utterances=11, steps=3, dtype=torch.float64, seed=0, timeout=300.0):
    """Gradients and parameters of several processes against :func:`one_by_one`, largest differences.

    The gradient is that of the first step; the parameters are those after ``steps`` steps of gradient descent with
    momentum. (Adam divides by the size of a gradient: where that is rounding, so would the difference be.) Shares are
    those of :func:`dealt_out`; from the second step on, one rank after the other has no utterance.

    Parameters
    ----------
    world_sizes : sequence of ints
        Numbers of processes. Each is a start of its own, and takes seconds.
    losses : "ctc", "rnnt", or both
    divisors : of "utterances", "labels", "frames"
    reduction : "mean" | "mean of means"
        The second one is the mistake: rows of it show its bias.
    micro_batches : int
        Of each process and step, of unequal sizes.
    utterances : int
        In a step.
    steps : int
    dtype : torch.float64 | torch.float32
    seed : int
    timeout : float
        Seconds for each of ``world_sizes``.

    Returns
    -------
    list of dicts
        Of each world size, loss and divisor: "processes", "loss", "divisor", and of "gradient" and "parameters" the
        largest absolute difference ("... difference") and that divided by the largest absolute entry ("... relative").
        "count" is what the mean divides by, and "value" the loss of the first step.
    """
    expected = {(loss, divisor): _trained(_alone, None, loss, divisor, utterances, steps, dtype, seed)
                for loss in losses for divisor in divisors}
    rows = []
    for world_size in world_sizes:
        found, *_ = run_processes(_several, world_size, tuple(expected), reduction, micro_batches, utterances, steps,
                                  dtype, seed, timeout=timeout)
        for (loss, divisor), (value, count, gradient, parameters) in found.items():
            _, _, *right = expected[loss, divisor]
            rows.append({"processes": world_size, "loss": loss, "divisor": divisor, "count": count, "value": value}
                        | _differences("gradient", gradient, right[0])
                        | _differences("parameters", parameters, right[1]))
    return rows


def _differences(name, mine, right):
    difference = float((mine - right).abs().max())
    return {f"{name} difference": difference, f"{name} relative": difference / float(right.abs().max())}


def _network(loss, dtype, seed):
    torch.manual_seed(seed)
    return {"ctc": FrameNetwork, "rnnt": TransducerNetwork}[loss](FEATURES, NUM_SYMBOLS).to(dtype)


def _several(process, kinds, reduction, micro_batches, utterances, steps, dtype, seed):
    """What every process of :func:`equality_table` does."""
    def backward(losses_of, step_utterances, divisor, step):
        shares = dealt_out(step_utterances, process.world_size, micro_batches,
                           idle=step % process.world_size if step else None)
        batches = [collate(each).to(dtype) for each in shares[process.rank]]
        step = step_backward(losses_of, batches, process, divisor=divisor, reduction=reduction)
        return step.value, step.count

    return {(loss, divisor): _trained(backward, process, loss, divisor, utterances, steps, dtype, seed)
            for loss, divisor in kinds}


def _alone(losses_of, step_utterances, divisor, _):
    value = one_by_one(losses_of.model, step_utterances, loss=losses_of.loss, divisor=divisor)
    value.backward()
    return value.item(), sum(count_of(collate([each]), divisor) for each in step_utterances)


def _trained(backward, process, loss, divisor, utterances, steps, dtype, seed):
    """Loss and count of the first step, its gradient, and the parameters after the last, as flat tensors."""
    model = _network(loss, dtype, seed)
    losses_of = UtteranceLosses(model, loss)
    losses_of = losses_of if process is None else data_parallel(losses_of, process)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        optimiser.zero_grad()
        value, count = backward(losses_of, make_utterances(utterances, seed=seed + step), divisor, step)
        if step == 0:
            first = value, count, torch.cat([each.grad.flatten() for each in model.parameters()]).clone()
        optimiser.step()
    return *first, torch.cat([each.detach().flatten() for each in model.parameters()]).clone()

"""One step's gradient from several processes and micro-batches, equal to that of one process with one batch.

What a data-parallel step divides by is decided here, and nowhere else. No optimiser, no files.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .. import _validation
from ..speech.batches import batch_of
from ..speech.training import as_tensors
from ..torch_impl import ctc_loss, rnnt_loss
from .processes import totals

__all__ = ["DIVISORS", "REDUCTIONS", "StepLoss", "UtteranceLosses", "bias_of_the_mean_of_means", "count_of",
           "ctc_losses", "data_parallel", "rnnt_losses", "step_backward"]

#: What a mean over the losses of a step may divide by: the number of utterances, of labels, or of frames.
DIVISORS = ("utterances", "labels", "frames")
#: How the losses of a step become one number: their mean, or what averages of averages make of them.
REDUCTIONS = ("mean", "mean of means")


def ctc_losses(network, frames, frame_lengths, targets, target_lengths):
    """Losses (B,) of the utterances of a batch, for a network that is called with frames and their lengths."""
    logits, lengths = network(frames, frame_lengths)
    return ctc_loss(logits, targets, lengths, target_lengths, reduction="none")


def rnnt_losses(network, frames, frame_lengths, targets, target_lengths):
    """Losses (B,) of the utterances of a batch, for a network that is called with frames, lengths and targets."""
    logits, lengths = network(frames, frame_lengths, targets)
    return rnnt_loss(logits, targets, lengths, target_lengths, reduction="none")


def count_of(examples, divisor: str) -> int:
    """How many utterances, labels or frames there are in a list of examples.

    Frames are those that the network is given, not those that it hands to the loss: so a step can be counted before
    any network has run.

    Parameters
    ----------
    examples : sequence of Example
    divisor : "utterances" | "labels" | "frames"

    Returns
    -------
    int

    Examples
    --------
    >>> from reference_impl.scaling import made_up
    >>> [count_of(made_up(2, seed=0), divisor) for divisor in DIVISORS]
    [2, 11, 118]
    """
    _validation.check_choice("divisor", divisor, DIVISORS)
    sizes = {"utterances": lambda each: 1, "labels": lambda each: len(each.labels),
             "frames": lambda each: len(each.frames)}
    return sum(map(sizes[divisor], examples))


class UtteranceLosses(nn.Module):
    """A network with its losses: the tensors of a batch go in, the loss of each utterance comes out.

    This is what several processes wrap and call, so that a process without any utterance has an answer: no losses, but
    a path of zeros back to every parameter. It takes part in each exchange by it, and nobody waits for it in vain.

    Parameters
    ----------
    network : nn.Module
    losses : function
        ``losses(network, frames, frame_lengths, targets, target_lengths)``, which returns (B,) losses in nats.
    autocast : dtype, optional
        Under autocast to it the network computes its products. None: as the parameters are.

    Examples
    --------
    >>> from reference_impl.scaling import made_up
    >>> from reference_impl.speech.networks import CTCNetwork
    >>> losses_of = UtteranceLosses(CTCNetwork(8), ctc_losses)
    >>> losses_of(*as_tensors(batch_of(made_up(3, seed=0)))).shape, losses_of().shape
    (torch.Size([3]), torch.Size([0]))
    """

    def __init__(self, network, losses, *, autocast=None):
        super().__init__()
        self.network, self.losses, self.autocast = network, losses, autocast

    def forward(self, *tensors):
        """Losses (B,) in nats; without arguments, (0,)."""
        if not tensors:
            # of shape (0,), whatever the parameters hold; in their order, so that backward meets the last one first
            return torch.cat([each.flatten()[:0] for each in self.network.parameters() if each.requires_grad])
        frames, *others = tensors
        frames = frames.to(next(self.network.parameters()).dtype)
        with torch.autocast(frames.device.type, self.autocast, enabled=self.autocast is not None):
            return self.losses(self.network, frames, *others)


def data_parallel(losses_of: UtteranceLosses, process):
    """The same module, with its gradients averaged over all processes; itself, if there is one process only.

    Averages they are, :claim:`torch-ddp-averages` so what a process passes back has to be scaled for it:
    :func:`step_backward` does. All parameters start as those of rank 0.

    Gradients travel in buckets, and where a number stands in a bucket can decide in which order the numbers of four
    processes are added up. By default the buckets are laid out anew before the forward
    pass that follows the first exchange :claim:`torch-ddp-rebuilds-buckets`, so the first step of a run that goes
    on from a checkpoint would differ in its last bits from the same step of a run that was never interrupted. One
    backward pass of an empty batch, made here, settles the layout before the first step.

    Parameters
    ----------
    losses_of : UtteranceLosses
        On the device of ``process``.
    process : Process

    Returns
    -------
    nn.Module
    """
    if process.world_size == 1:
        return losses_of
    cuda = process.device.type == "cuda"
    wrapped = DistributedDataParallel(losses_of, device_ids=[process.device] if cuda else None)
    wrapped().sum().backward()
    wrapped.zero_grad()
    return wrapped


@dataclass(frozen=True)
class StepLoss:
    """What :func:`step_backward` says of a step.

    Attributes
    ----------
    value : float
        The loss of which the parameters now have the gradient, in nats, over all processes; ``inf`` if an utterance
        has no alignment.
    finite : float
        The same without those utterances, which have no part in the gradient. They count in what it is divided by.
    count : int
        What the mean divides by: utterances, labels or frames of all processes.
    impossible : int
        Utterances without an alignment, in all processes.
    """

    value: float
    finite: float
    count: int
    impossible: int


def step_backward(losses_of, parts, process, *, divisor="utterances", reduction="mean") -> StepLoss:
    r"""Add the gradient of one step's mean loss to the parameters of every process: the mean over all utterances.

    Rank r of W processes has the utterances I_r of this step, in one or several micro-batches, and loss l_i of
    utterance i. The mean is

        L = (1/N) sum over r, sum over i in I_r of l_i,    N = sum over r of n_r,

    where n_r counts the utterances, labels or frames of rank r. The processes' gradients are averaged, so if rank r
    passes c_r times its sum of losses back, the parameters receive (1/W) sum over r of c_r d(sum over I_r of l_i).
    That is dL for any losses if and only if c_r = W / N, the same for all ranks. N is known before any loss is, from
    lengths alone: it takes one all-reduce of one integer. Micro-batches change nothing, since the gradients of sums
    add up; all but the last are kept from the exchange, their forward passes too :claim:`torch-no-sync-forward`.

    The mean of a rank's own utterances would be c_r = 1 / n_r, and the average over ranks a mean of means:
    (1/W) sum over r of (1/n_r) times the sum over I_r. It weighs utterance i by 1 / (W n_r), and so does a mean over
    micro-batches that each take their own mean. :func:`bias_of_the_mean_of_means` says how far that is off.

    Parameters
    ----------
    losses_of : nn.Module
        Of :func:`data_parallel`, or a :class:`UtteranceLosses`.
    parts : sequence of lists of Example
        The micro-batches of this process, of any sizes. Some or all may be empty, and ranks may differ in their number.
    process : Process
    divisor : "utterances" | "labels" | "frames"
    reduction : "mean" | "mean of means"
        The second one is the mistake, to look at.

    Returns
    -------
    StepLoss

    Raises
    ------
    ValueError
        In all processes, if there is nothing to divide by.

    Examples
    --------
    >>> from reference_impl.scaling import made_up
    >>> from reference_impl.scaling.processes import Process
    >>> from reference_impl.speech.networks import CTCNetwork
    >>> torch.manual_seed(0) and None
    >>> examples, losses_of = made_up(5, seed=0), UtteranceLosses(CTCNetwork(8, dropout=0.0).double(), ctc_losses)
    >>> gradients = []
    >>> for cut in (5, 1):
    ...     losses_of.zero_grad()
    ...     step = step_backward(losses_of, [examples[:cut], examples[cut:]], Process(), divisor="labels")
    ...     gradients.append(losses_of.network.output.bias.grad.clone())
    >>> step.count, bool((gradients[0] - gradients[1]).abs().max() < 1e-14)
    (23, True)
    """
    _validation.check_choice("divisor", divisor, DIVISORS)
    _validation.check_choice("reduction", reduction, REDUCTIONS)
    counts = [count_of(part, divisor) for part in parts]
    count = int(totals(torch.tensor([sum(counts)], device=process.device))[0])
    if not count:
        raise ValueError(f"count = 0 {divisor} in this step; expected at least one in some process")
    parts, counts = (parts, counts) if len(parts) else ([[]], [0])
    seen = torch.zeros(3, dtype=torch.float64, device=process.device)  # read once, at the end: a GPU need not wait
    for i, (part, own) in enumerate(zip(parts, counts, strict=True)):
        scale = process.world_size / count if reduction == "mean" else 1 / (max(own, 1) * len(parts))
        waiting = isinstance(losses_of, DistributedDataParallel) and i + 1 < len(parts)
        with losses_of.no_sync() if waiting else contextlib.nullcontext():
            losses = losses_of(*(as_tensors(batch_of(part), process.device) if len(part) else ()))
            (losses.sum() * scale).backward()
        seen += _summary(losses.detach().double(), scale / process.world_size)
    value, finite, impossible = totals(seen)
    return StepLoss(value, finite, count, int(impossible))


def _summary(losses, scale):
    """Scaled sums of all losses and of the finite ones, and how many are infinite."""
    finite = losses.masked_fill(~losses.isfinite(), 0.0)
    return torch.stack([losses.sum() * scale, finite.sum() * scale, (losses == torch.inf).sum()])


def bias_of_the_mean_of_means(sums, counts):
    """What the average of the ranks' own means is off by: the average minus the mean.

    With sums S_r, counts n_r and means m_r = S_r / n_r (0 where n_r is 0), and N = sum of the n_r, the average is
    (1/W) sum of m_r and the mean (1/N) sum of n_r m_r. Their difference is

        sum over r of (1/W - n_r/N) m_r  =  -(W/N) cov(n, m)  =  -cov(n, m) / (N/W),

    the covariance over the ranks, with divisor W, of counts and means, over the mean count. It is 0 if all counts are
    equal, and it has a sign: where the ranks with few long utterances have the larger losses, the average is too large.
    The gradient of each parameter has the same bias, with gradients in the place of the sums.

    Parameters
    ----------
    sums : (W, ...) array
        Of losses or of gradients: of floats, or of fractions, which stay exact.
    counts : (W,) ints
        Utterances, labels or frames of each rank; not all 0.

    Returns
    -------
    (...) array

    Examples
    --------
    >>> from fractions import Fraction
    >>> bias_of_the_mean_of_means([Fraction(12), Fraction(3)], [1, 3])  # (12 + 1) / 2 - 15 / 4
    Fraction(11, 4)
    """
    sums = np.asarray(sums, dtype=None if np.asarray(sums).dtype == object else np.float64)
    counts = _validation.check_integers("counts", np.asarray(counts), 1, "(W,)")
    if sums.shape[:1] != counts.shape:
        raise ValueError(f"counts has shape {counts.shape}; expected {sums.shape[:1]}, the first axis of sums")
    if (counts < 0).any() or not counts.any():
        raise ValueError(f"counts = {counts.tolist()}; expected numbers >= 0, and not only 0")
    world_size, whole = len(counts), int(counts.sum())
    means = [part / int(count) if count else 0 * part for part, count in zip(sums, counts, strict=True)]
    centred = [int(count) * world_size - whole for count in counts]  # W (n_r - N/W), an integer
    return -sum(each * mean for each, mean in zip(centred, means, strict=True)) / (world_size * whole)

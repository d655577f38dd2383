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
from ..torch_impl import ctc_loss, rnnt_loss
from .networks import logits_of
from .processes import totals
from .utterances import DIVISORS, count_of

__all__ = ["REDUCTIONS", "StepLoss", "UtteranceLosses", "bias_of_the_mean_of_means", "data_parallel", "step_backward"]

#: How the losses of a step become one number: their mean, or what averages of averages make of them.
REDUCTIONS = ("mean", "mean of means")


class UtteranceLosses(nn.Module):
    """A network with its loss: a batch goes in, the loss of each utterance comes out.

    This is what several processes wrap and call, so that an empty batch has an answer: no losses, but a path of
    zeros back to every parameter. A process without any utterance takes part in each exchange by it, and nobody waits
    for it in vain.

    Parameters
    ----------
    model : nn.Module
        ``model(frames, frame_lengths)`` for CTC, ``model(frames, frame_lengths, targets)`` for RNN-T; returns logits
        and their lengths.
    loss : "ctc" | "rnnt"
    autocast : dtype, optional
        Precision of the network: its operations run under autocast, the loss does not. None: as the parameters are.
    options
        For the loss, such as ``blank`` and ``zero_infinity``.

    Examples
    --------
    >>> from reference_impl.scaling.networks import FrameNetwork
    >>> from reference_impl.scaling.utterances import collate, make_utterances
    >>> losses_of = UtteranceLosses(FrameNetwork(4, 6))
    >>> losses_of(collate(make_utterances(3, seed=0))).shape, losses_of(collate([])).shape
    (torch.Size([3]), torch.Size([0]))
    """

    def __init__(self, model, loss="ctc", *, autocast=None, **options):
        super().__init__()
        _validation.check_choice("loss", loss, ("ctc", "rnnt"))
        self.model, self.loss, self.autocast, self.options = model, loss, autocast, options

    def forward(self, batch):
        """Losses (B,) in nats: float32, or float64 of a float64 model."""
        if not len(batch):
            # of shape (0,), whatever the parameters hold; in their order, so that backward meets the last one first
            return torch.cat([each.flatten()[:0] for each in self.model.parameters() if each.requires_grad])
        with torch.autocast(batch.frames.device.type, self.autocast, enabled=self.autocast is not None):
            logits, logit_lengths = logits_of(self.model, batch, self.loss)
        function = {"ctc": ctc_loss, "rnnt": rnnt_loss}[self.loss]
        return function(logits, batch.targets, logit_lengths, batch.target_lengths, reduction="none", **self.options)


def data_parallel(losses_of: UtteranceLosses, process):
    """The same module, with its gradients averaged over all processes; itself, if there is one process only.

    Averages they are, :claim:`torch-ddp-averages` so what a process passes back has to be scaled for it:
    :func:`step_backward` does. All parameters start as those of rank 0.

    Gradients travel in buckets, and where a number stands in a bucket can decide in which order the numbers of four
    processes are added up. The buckets are laid out anew after the first backward pass
    :claim:`torch-ddp-rebuilds-buckets`, so the first step of a run that goes on from a checkpoint would differ in its
    last bits from the same step of a run that was never interrupted. One backward pass of an empty batch, made here,
    settles the layout before the first step.

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
    wrapped(_Nothing()).sum().backward()
    wrapped.zero_grad()
    return wrapped


class _Nothing:
    """A batch without utterances."""

    def __len__(self):
        return 0


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


def step_backward(losses_of, batches, process, *, divisor="utterances", reduction="mean", scaler=None) -> StepLoss:
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
    batches : sequence of Batch
        The micro-batches of this process, of any sizes. Some or all may be empty, and ranks may differ in their number.
    process : Process
    divisor : "utterances" | "labels" | "frames"
    reduction : "mean" | "mean of means"
        The second one is the mistake, to look at.
    scaler : GradScaler, optional
        Its scale multiplies what is passed back.

    Returns
    -------
    StepLoss

    Raises
    ------
    ValueError
        In all processes, if there is nothing to divide by.

    Examples
    --------
    >>> from reference_impl.scaling.networks import FrameNetwork
    >>> from reference_impl.scaling.processes import Process
    >>> from reference_impl.scaling.utterances import collate, make_utterances
    >>> torch.manual_seed(0) and None
    >>> utterances, losses_of = make_utterances(5, seed=0), UtteranceLosses(FrameNetwork(4, 6).double())
    >>> gradients = []
    >>> for cut in (5, 1):
    ...     losses_of.zero_grad()
    ...     batches = [collate(part).to(torch.float64) for part in (utterances[:cut], utterances[cut:])]
    ...     step = step_backward(losses_of, batches, Process(), divisor="labels")
    ...     gradients.append(losses_of.model.output.bias.grad.clone())
    >>> step.count, bool((gradients[0] - gradients[1]).abs().max() < 1e-14)
    (15, True)
    """
    _validation.check_choice("divisor", divisor, DIVISORS)
    _validation.check_choice("reduction", reduction, REDUCTIONS)
    counts = [count_of(batch, divisor) for batch in batches] or [0]
    count = int(totals(torch.tensor([sum(counts)], device=process.device))[0])
    if not count:
        raise ValueError(f"count = 0 {divisor} in this step; expected at least one in some process")
    batches = batches or [_Nothing()]
    seen = torch.zeros(3, dtype=torch.float64, device=process.device)  # read once, at the end: a GPU need not wait
    for batch, own, is_last in zip(batches, counts, _last(batches), strict=True):
        scale = process.world_size / count if reduction == "mean" else 1 / (max(own, 1) * len(batches))
        waiting = isinstance(losses_of, DistributedDataParallel) and not is_last
        with losses_of.no_sync() if waiting else contextlib.nullcontext():
            losses = losses_of(batch)
            loss = losses.sum() * scale
            (loss if scaler is None else scaler.scale(loss)).backward()
        seen += _summary(losses.detach().double(), scale / process.world_size)
    value, finite, impossible = totals(seen)
    return StepLoss(value, finite, count, int(impossible))


def _summary(losses, scale):
    """Scaled sums of all losses and of the finite ones, and how many are infinite."""
    finite = losses.masked_fill(~losses.isfinite(), 0.0)
    return torch.stack([losses.sum() * scale, finite.sum() * scale, (losses == torch.inf).sum()])


def _last(batches):
    return [False] * (len(batches) - 1) + [True]


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

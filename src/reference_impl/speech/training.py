"""How the speech networks are trained, and what to watch meanwhile. Needs torch; no loss of its own.

``train`` is a plain loop, one step at a time, so that a chapter can look in between. ``ctc_signs`` measures what tells
a healthy run from one that goes wrong: all of it comes out of one call of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass

import numpy as np
import torch

from .. import batched
from .._softmax import log_softmax
from ..networks.training import fit
from .letters import BLANK

__all__ = ["Signs", "as_tensors", "ctc_signs", "optimiser_of", "train"]


def as_tensors(batch, device="cpu"):
    """The four arrays of a batch as tensors."""
    return [torch.from_numpy(array).to(device) for array in astuple(batch)]


def optimiser_of(network, *, steps, rate=6e-3, decay=1e-2):
    """AdamW, and a schedule by which its rate rises over the first 15 % of the steps and then falls to 0."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
    return optimiser, torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.15)


def train(network, batches: Iterable, loss: Callable, *, steps, rate=6e-3, largest_norm=5.0,
          decay=1e-2) -> Iterator[tuple[int, float]]:
    """Train a network in place, and stop after each step: yields (step, loss). Leaves it in evaluation mode.

    Optimiser and learning rate are those of :func:`optimiser_of`.

    Parameters
    ----------
    network : nn.Module
    batches : iterable of Batch
    loss : callable
        Of the network and the four tensors of a batch, as in :mod:`reference_impl.networks.objectives`.
    steps : int
    rate : float
        The largest learning rate.
    largest_norm : float
        Gradients of all parameters together are scaled down to this norm.
    decay : float
        Weight decay.
    """
    yield from fit(network, map(as_tensors, batches), loss, *optimiser_of(network, steps=steps, rate=rate, decay=decay),
                   steps=steps, largest_norm=largest_norm)
    network.eval()


@dataclass(frozen=True)
class Signs:
    """What one batch says about a run of CTC training.

    Attributes
    ----------
    loss : float
        Nats a label, of the utterances for which an alignment exists.
    feasible : float
        Share of the utterances for which one exists.
    blank_best : float
        Share of the frames in which the blank is the best symbol.
    blank_belief, blank_evidence : float
        Mean over the frames of the blank's probability and of its occupancy: the bias learns from their difference.
    certain : float
        Share of the frames in which one symbol has an occupancy above 0.9: how far alignments are decided.
    belief_norm, evidence_norm, gradient_norm : float
        Root mean square over the frames of the norms of softmax, occupancy and their difference, the gradient.
    """

    loss: float
    feasible: float
    blank_best: float
    blank_belief: float
    blank_evidence: float
    certain: float
    belief_norm: float
    evidence_norm: float
    gradient_norm: float


def ctc_signs(logits, targets, logit_lengths, target_lengths, *, blank=BLANK) -> Signs:
    """What a batch's logits say about the training: NumPy arrays, as for :func:`reference_impl.batched.ctc_loss`.

    Examples
    --------
    >>> signs = ctc_signs(np.zeros((1, 4, 3)), np.array([[1, 2]]), np.array([4]), np.array([2]))
    >>> round(signs.blank_belief, 3), round(signs.blank_evidence, 3), signs.feasible
    (0.333, 0.3, 1.0)
    """
    logits = np.asarray(logits, dtype=np.float64)
    losses, gradient = batched.ctc_loss(logits, targets, logit_lengths, target_lengths, blank=blank)
    feasible = np.isfinite(losses)
    frames = (np.arange(logits.shape[1]) < np.asarray(logit_lengths)[:, None]) & feasible[:, None]
    labels = int(np.asarray(target_lengths)[feasible].sum())
    belief, slope = np.exp(log_softmax(logits))[frames], gradient[frames]
    evidence = belief - slope

    def norm(rows):
        return float(np.sqrt((rows**2).sum(-1).mean())) if len(rows) else 0.0

    def mean(values):
        return float(np.mean(values)) if len(values) else 0.0

    return Signs(loss=float(losses[feasible].sum()) / max(labels, 1), feasible=mean(feasible),
                 blank_best=mean(belief.argmax(-1) == blank), blank_belief=mean(belief[:, blank]),
                 blank_evidence=mean(evidence[:, blank]), certain=mean(evidence.max(-1, initial=0) > 0.9),
                 belief_norm=norm(belief), evidence_norm=norm(evidence), gradient_norm=norm(slope))

"""What is minimised: functions of a network and a batch that call losses of ``torch_impl``, or others; needs torch.

Each takes ``(network, frames, frame_lengths, targets, target_lengths)`` and returns a scalar tensor, so that the
training loop need not know which one it is given. Those with options are classes, or wait for ``functools.partial``.
"""

from __future__ import annotations

import torch

from .. import _validation
from ..bug_bank.torch_candidate import torch_loss
from ..torch_impl import ctc_loss, pruned_rnnt_loss, rnnt_loss
from ..torch_impl.pruning import band_of, rows_of_band
from .transducer import BLANK

__all__ = ["LateDelayPenalty", "PrunedLoss", "candidate_loss", "delay_penalised_loss", "full_loss", "mean_ctc_loss",
           "torch_ctc_loss", "warm_up_scales"]


def mean_ctc_loss(network, frames, frame_lengths, targets, target_lengths):
    """The mean CTC loss of a batch, nats an utterance. Utterances too short for their labels count as 0.

    ``network(frames, frame_lengths)`` returns logits and their lengths.
    """
    logits, lengths = network(frames, frame_lengths)
    return ctc_loss(logits, targets, lengths, target_lengths, zero_infinity=True)


def torch_ctc_loss(network, frames, frame_lengths, targets, target_lengths, *, dtype=torch.float32):
    """:func:`mean_ctc_loss` by torch's own CTC loss, which computes in the ``dtype`` that the logits are brought to."""
    logits, lengths = network(frames, frame_lengths)
    log_probs = logits.to(dtype).log_softmax(-1).transpose(0, 1)
    return torch.nn.functional.ctc_loss(log_probs, targets, lengths, target_lengths, reduction="none",
                                        zero_infinity=True).mean()


def candidate_loss(network, frames, frame_lengths, targets, target_lengths, *, candidate):
    """:func:`mean_ctc_loss` by a :class:`.bug_bank.Candidate`, right or wrong."""
    logits, lengths = network(frames, frame_lengths)
    scores = logits if candidate.variable == "logits" else logits.log_softmax(-1)
    losses = torch_loss(candidate)(scores, targets, lengths, target_lengths)
    return losses.masked_fill(losses.isinf(), 0.0).mean()


def full_loss(network, frames, frame_lengths, targets, target_lengths, *, fastemit_lambda=0.0):
    """The mean RNN-T loss of a batch, on the whole grid; with FastEmit's factor on label arcs in the backward pass."""
    encodings, lengths = network.encode(frames, frame_lengths)
    logits = network.join(encodings[:, :, None], network.predict(targets)[:, None])
    return rnnt_loss(logits, targets, lengths, target_lengths, fastemit_lambda=fastemit_lambda)


def delay_penalised_loss(network, frames, frame_lengths, targets, target_lengths, *, penalty):
    """The mean RNN-T loss after ``penalty`` nats were taken from a label's log-prob for each frame that it waits.

    A label in frame t gets ``penalty * ((T - 1) / 2 - t)``, in every row: 0 in the middle of an utterance of T frames,
    as k2 does it. The sum over the paths is then no probability, so the value is no -log Z of a normalised model, and
    may be negative.

    Parameters
    ----------
    penalty : float >= 0
        Nats a frame.
    """
    penalty = _validation.check_real("penalty", penalty, "a finite number >= 0", lambda value: value >= 0)
    encodings, lengths = network.encode(frames, frame_lengths)
    logits = network.join(encodings[:, :, None], network.predict(targets)[:, None])
    waits = torch.arange(logits.shape[1]) - (lengths[:, None] - 1) / 2
    of_labels = torch.ones(logits.shape[-1])
    of_labels[BLANK] = 0.0
    log_probs = logits.log_softmax(-1) - penalty * waits[:, :, None, None] * of_labels
    return rnnt_loss(log_probs, targets, lengths, target_lengths, inputs="log_probs")


class LateDelayPenalty:
    """:func:`full_loss` in the first calls, and :func:`delay_penalised_loss` from then on.

    A network that does not hear yet loses nothing by writing all labels in the first frame, so a penalty that is there
    from the start can teach it that.

    Parameters
    ----------
    penalty : float >= 0
        Nats a frame.
    warm_steps : int
        Calls without it.

    Attributes
    ----------
    steps : int
        Calls so far.
    """

    def __init__(self, penalty, warm_steps):
        self.penalty = _validation.check_real("penalty", penalty, "a finite number >= 0", lambda value: value >= 0)
        self.warm_steps, self.steps = _validation.check_at_least("warm_steps", warm_steps, 0), 0

    def __call__(self, network, *batch):
        self.steps += 1
        if self.steps <= self.warm_steps:
            return full_loss(network, *batch)
        return delay_penalised_loss(network, *batch, penalty=self.penalty)


def warm_up_scales(step, warm_steps, simple_scale=0.5):
    """Weights of the simple loss and of the pruned loss in a step, as icefall's recipes choose them.

    Parameters
    ----------
    step, warm_steps : int
        Steps done before, and steps until the weights stay as they are.
    simple_scale : float
        Weight of the simple loss from then on.

    Returns
    -------
    of_simple, of_pruned : float

    Examples
    --------
    >>> [warm_up_scales(step, 100) for step in (0, 50, 100)]
    [(1.0, 0.1), (0.75, 0.55), (0.5, 1.0)]
    """
    done = min(1.0, step / warm_steps) if warm_steps else 1.0
    return 1.0 - done * (1.0 - simple_scale), 0.1 + 0.9 * done


class PrunedLoss:
    """The training objective of pruned RNN-T: simple loss and pruned loss, added, as icefall's recipes combine them.

    The network is a :class:`.transducer.Transducer` with a simple joiner.

    Parameters
    ----------
    num_rows : int
        Q, rows of the band, at least 2. More than a batch has count as all.
    warm_steps : int
    simple_scale : float
        As for :func:`warm_up_scales`.

    Attributes
    ----------
    steps : int
        Calls so far.

    Examples
    --------
    >>> from reference_impl.digits.strings import load_images
    >>> from reference_impl.digits.transducer import DigitTransducer, train
    >>> network = DigitTransducer(8, simple_joiner=True)
    >>> steps = train(network, *load_images(held_out=False), steps=2, strings=2, loss=PrunedLoss(3))
    >>> [step for step, _ in steps]
    [1, 2]
    """

    def __init__(self, num_rows, *, warm_steps=100, simple_scale=0.5):
        self.num_rows = _validation.check_at_least("num_rows", num_rows, 2)
        self.warm_steps, self.simple_scale, self.steps = warm_steps, simple_scale, 0

    def __call__(self, network, frames, frame_lengths, targets, target_lengths):
        encodings, frame_lengths = network.encode(frames, frame_lengths)
        predictions = network.predict(targets)
        lengths = frame_lengths, target_lengths
        rows = min(self.num_rows, predictions.shape[1])
        simple, first = band_of(*network.simple(encodings, predictions, targets), *lengths, rows)
        logits = network.join(encodings[:, :, None], rows_of_band(predictions, first, rows))
        pruned = pruned_rnnt_loss(logits, first, targets, *lengths)
        of_simple, of_pruned = warm_up_scales(self.steps, self.warm_steps, self.simple_scale)
        self.steps += 1
        return of_simple * simple.mean() + of_pruned * pruned

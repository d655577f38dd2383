"""Training the digit transducer with pruned RNN-T, as icefall's recipes combine its two losses; needs torch.

The losses are those of :mod:`reference_impl.torch_impl`. Here are the two maps that the simple joiner needs besides,
and the scales with which the losses are added while training warms up.
"""

from __future__ import annotations

from torch import nn

from .. import _validation
from ..torch_impl import pruned_rnnt_loss
from ..torch_impl.pruning import band_of, rows_of_band, simple_scores
from .strings import NUM_SYMBOLS
from .transducer import DigitTransducer

__all__ = ["PrunedLoss", "PrunedTransducer", "warm_up_scales"]


class PrunedTransducer(DigitTransducer):
    """A :class:`.transducer.DigitTransducer` with a simple joiner: a linear map of encodings, one of predictions.

    Parameters
    ----------
    width : int
        H, of the vectors that encoder and predictor hand to the joiner.

    Examples
    --------
    >>> import torch
    >>> network = PrunedTransducer(16)
    >>> scores = network.simple(torch.zeros(2, 30, 16), torch.zeros(2, 4, 16), torch.tensor([[1, 2, 3], [4, 4, 0]]))
    >>> [tuple(each.shape) for each in scores]
    [(2, 30, 4), (2, 30, 3)]
    """

    def __init__(self, width=64):
        super().__init__(width)
        self.simple_encoder = nn.Linear(width, NUM_SYMBOLS)
        self.simple_predictor = nn.Linear(width, NUM_SYMBOLS)

    def simple(self, encodings, predictions, targets):
        """Scores of blank arcs (B, T, U+1) and label arcs (B, T, U) by the simple joiner, float64."""
        return simple_scores(self.simple_encoder(encodings), self.simple_predictor(predictions), targets)


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
    """The training objective of pruned RNN-T, for :func:`.transducer.train`: simple loss and pruned loss, added.

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
    >>> from reference_impl.digits.transducer import train
    >>> steps = train(PrunedTransducer(8), *load_images(held_out=False), steps=2, strings=2, loss=PrunedLoss(3))
    >>> [step for step, _ in steps]
    [1, 2]
    """

    def __init__(self, num_rows, *, warm_steps=100, simple_scale=0.5):
        self.num_rows = _validation.check_at_least("num_rows", num_rows, 2)
        self.warm_steps, self.simple_scale, self.steps = warm_steps, simple_scale, 0

    def __call__(self, network, frames, frame_lengths, targets, target_lengths):
        encodings, predictions = network.encode(frames), network.predict(targets)
        lengths = frame_lengths, target_lengths
        rows = min(self.num_rows, predictions.shape[1])
        simple, first = band_of(*network.simple(encodings, predictions, targets), *lengths, rows)
        logits = network.join(encodings[:, :, None], rows_of_band(predictions, first, rows))
        pruned = pruned_rnnt_loss(logits, first, targets, *lengths)
        of_simple, of_pruned = warm_up_scales(self.steps, self.warm_steps, self.simple_scale)
        self.steps += 1
        return of_simple * simple.mean() + of_pruned * pruned

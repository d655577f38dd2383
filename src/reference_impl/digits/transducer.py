"""A small transducer for the digit strings, and its training on fresh strings; needs torch. No loss of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple

import numpy as np
import torch
from torch import nn

from .._validation import check_at_least
from ..networks.objectives import full_loss
from ..networks.training import fit
from ..networks.transducer import Transducer
from .strings import NUM_SYMBOLS, make_strings

__all__ = ["CONTEXT", "DigitTransducer", "as_tensors", "train"]

#: Labels that the predictor sees. One would not do: in the frame of the second 3 of 33 the last label is 3 before it is
#: written and after, and the joiner would say the same both times. Two tell these apart, and for digits drawn at random
#: an older label has nothing more to tell.
CONTEXT = 2


class DigitTransducer(Transducer):
    """Encoder (convolutions over time), stateless predictor (the last two labels), and a tanh joiner.

    Parameters
    ----------
    width : int
        H, of the vectors that encoder and predictor hand to the joiner.
    simple_joiner : bool
        Whether it has the second joiner of pruned RNN-T.

    Examples
    --------
    >>> network = DigitTransducer(16)
    >>> network(torch.zeros(2, 30, 8), torch.tensor([30, 30]), torch.tensor([[1, 2, 3], [4, 4, 0]]))[0].shape
    torch.Size([2, 30, 4, 11])
    >>> network = DigitTransducer(16, simple_joiner=True)
    >>> scores = network.simple(torch.zeros(2, 30, 16), torch.zeros(2, 4, 16), torch.tensor([[1, 2, 3], [4, 4, 0]]))
    >>> [tuple(each.shape) for each in scores]
    [(2, 30, 4), (2, 30, 3)]
    """

    def __init__(self, width=64, *, simple_joiner=False):
        width = check_at_least("width", width, 1)
        layers, channels = [], 8
        # five frames each, 1, 2 and 4 apart: a frame sees 14 to either side, so whether the digit before is the same
        for spacing in (1, 2, 4):
            layers += [nn.Conv1d(channels, 64, kernel_size=5, padding=2 * spacing, dilation=spacing),
                       nn.BatchNorm1d(64), nn.ReLU()]
            channels = 64
        super().__init__(nn.Sequential(*layers, nn.Conv1d(64, width, kernel_size=1)), NUM_SYMBOLS, width,
                         context=CONTEXT, simple_joiner=simple_joiner)

    def encode(self, frames, frame_lengths):
        """Frames (B, T, 8) to vectors (B, T, H). Padding is not masked: it reaches the last 14 frames before it."""
        return self.encoder(frames.transpose(1, 2)).transpose(1, 2), frame_lengths


def as_tensors(strings):
    """The frames of :class:`.strings.DigitStrings`, and targets and both lengths, as a loss takes them."""
    return tuple(map(torch.from_numpy, (strings.frames, strings.targets, strings.frame_lengths,
                                        strings.target_lengths)))


def train(network: nn.Module, images, digits, *, steps=1000, strings=32, max_rate=1e-2, noise=0.1, seed=0,
          loss: Callable = full_loss) -> Iterator[tuple[int, float]]:
    """Train on fresh strings with Adam, the learning rate rising and falling once, and stop after each step.

    Parameters
    ----------
    network : nn.Module
        Is trained in place, in training mode: copy it to look at it in evaluation mode between steps.
    images, digits
        As from :func:`reference_impl.digits.strings.load_images`.
    steps, strings : int
        Steps, and strings in each.
    max_rate : float
    noise : float
        Standard deviation of what is added to each pixel, so that single scans are not learned by heart.
    seed : int
        Of strings and noise; the weights are the caller's.
    loss : callable
        ``loss(network, frames, frame_lengths, targets, target_lengths)``, a scalar tensor.

    Yields
    ------
    step : int
        Steps done: 1, 2, ..., ``steps``.
    loss : float
        Of the strings of this step, before it.

    Examples
    --------
    >>> from reference_impl.digits.strings import load_images
    >>> [step for step, _ in train(DigitTransducer(8), *load_images(held_out=False), steps=2, strings=2)]
    [1, 2]
    """
    steps = check_at_least("steps", steps, 1)
    rng = np.random.default_rng(seed)

    def fresh():
        while True:
            frames, *others = astuple(make_strings(images, digits, strings, rng))
            frames += noise * rng.standard_normal(frames.shape, dtype=np.float32)
            yield tuple(map(torch.from_numpy, (frames, *others)))

    optimiser = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=max_rate, total_steps=steps)
    yield from fit(network, fresh(), loss, optimiser, schedule, steps=steps)

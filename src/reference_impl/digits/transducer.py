"""A small transducer for the digit strings, its training loop and greedy decoding; needs torch. No loss of its own.

Encoder, predictor and joiner are separate methods, since what is between them is what the chapters look at: the joiner
takes any pairs of a frame and a row, the whole grid or a band of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple

import numpy as np
import torch
from torch import nn

from .._validation import check_at_least
from ..torch_impl import rnnt_loss
from .strings import BLANK, NUM_SYMBOLS, make_strings

__all__ = ["CONTEXT", "DigitTransducer", "as_tensors", "decode", "full_loss", "train"]

#: Labels that the predictor sees. One would not do: in the frame of the second 3 of 33 the last label is 3 before it is
#: written and after, and the joiner would say the same both times. Two tell these apart, and for digits drawn at random
#: an older label has nothing more to tell.
CONTEXT = 2


class DigitTransducer(nn.Module):
    """Encoder (convolutions over time), stateless predictor (the last two labels), and a tanh joiner.

    Parameters
    ----------
    width : int
        H, of the vectors that encoder and predictor hand to the joiner.

    Examples
    --------
    >>> network = DigitTransducer(16)
    >>> network(torch.zeros(2, 30, 8), torch.tensor([[1, 2, 3], [4, 4, 0]])).shape
    torch.Size([2, 30, 4, 11])
    """

    def __init__(self, width=64):
        super().__init__()
        width = check_at_least("width", width, 1)
        layers, channels = [], 8
        # five frames each, 1, 2 and 4 apart: a frame sees 14 to either side, so whether the digit before is the same
        for spacing in (1, 2, 4):
            layers += [nn.Conv1d(channels, 64, kernel_size=5, padding=2 * spacing, dilation=spacing),
                       nn.BatchNorm1d(64), nn.ReLU()]
            channels = 64
        self.encoder = nn.Sequential(*layers, nn.Conv1d(64, width, kernel_size=1))
        self.embeddings = nn.ModuleList(nn.Embedding(NUM_SYMBOLS, width) for _ in range(CONTEXT))
        self.predictor = nn.Sequential(nn.ReLU(), nn.Linear(width, width))
        self.output = nn.Linear(width, NUM_SYMBOLS)

    def encode(self, frames):
        """Frames (B, T, 8) to vectors (B, T, H). Padding is not masked: it reaches the last 14 frames before it."""
        return self.encoder(frames.transpose(1, 2)).transpose(1, 2)

    def predict(self, targets):
        """Labels (B, U) to vectors (B, U+1, H): row u has seen labels u - 2 and u - 1; the blank stands for none."""
        labels = nn.functional.pad(targets, (CONTEXT, 0), value=BLANK)
        rows = targets.shape[1] + 1
        return self.predictor(sum(embed(labels[:, i:i + rows]) for i, embed in enumerate(self.embeddings)))

    def join(self, encodings, predictions):
        """Vectors that broadcast, (..., H), to logits (..., V), a linear map of the tanh of their sum.

        ``join(encodings[:, :, None], predictions[:, None])`` is the grid, (B, T, U+1, V). A band of Q rows in each
        frame takes predictions that were gathered to (B, T, Q, H).
        """
        return self.output(torch.tanh(encodings + predictions))

    def forward(self, frames, targets):
        """Logits of the whole grid, (B, T, U+1, V)."""
        return self.join(self.encode(frames)[:, :, None], self.predict(targets)[:, None])


def as_tensors(strings):
    """The frames of :class:`.strings.DigitStrings`, and targets and both lengths, as a loss takes them."""
    return tuple(map(torch.from_numpy, (strings.frames, strings.targets, strings.frame_lengths,
                                        strings.target_lengths)))


def full_loss(network, frames, frame_lengths, targets, target_lengths):
    """The mean RNN-T loss of a batch of strings, on the whole grid."""
    return rnnt_loss(network(frames, targets), targets, frame_lengths, target_lengths)


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
    optimiser = torch.optim.Adam(network.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=max_rate, total_steps=steps)
    for step in range(1, steps + 1):
        network.train()
        frames, *others = astuple(make_strings(images, digits, strings, rng))
        frames += noise * rng.standard_normal(frames.shape, dtype=np.float32)
        value = loss(network, *map(torch.from_numpy, (frames, *others)))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        schedule.step()
        yield step, value.item()


@torch.no_grad()
def decode(network: DigitTransducer, frames, frame_lengths, *, most=4) -> list[list[tuple[int, int]]]:
    """Greedy decoding: in each frame, write the best symbol until it is the blank.

    Parameters
    ----------
    network : DigitTransducer
        In evaluation mode.
    frames : (B, T, 8) tensor
    frame_lengths : (B,) ints
    most : int
        Labels written in one frame at most; then the frame ends as if the blank had been best.

    Returns
    -------
    list of B lists of (frame, label)

    Examples
    --------
    >>> network = DigitTransducer(8).eval()
    >>> bias = network.output.bias.data
    >>> _ = network.output.weight.data.zero_(), bias.zero_()
    >>> bias[3] = 1
    >>> decode(network, torch.zeros(1, 2, 8), [2], most=2)
    [[(0, 3), (0, 3), (1, 3), (1, 3)]]
    """
    most = check_at_least("most", most, 1)
    read = [[] for _ in frames]
    lengths = torch.as_tensor(frame_lengths)
    context = torch.full((len(frames), CONTEXT), BLANK)
    for t, encodings in enumerate(network.encode(frames).unbind(1)):
        writing = t < lengths
        for _ in range(most):
            best = network.join(encodings, network.predict(context)[:, -1]).argmax(-1)
            writing = writing & (best != BLANK)
            if not writing.any():
                break
            for b in writing.nonzero().ravel().tolist():
                read[b].append((t, int(best[b])))
            context[writing] = torch.cat([context[writing, 1:], best[writing, None]], dim=1)
    return read

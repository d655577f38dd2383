"""Two small networks to try the machinery with, and a check that a batch has no influence on its utterances.

They are no speech recogniser. A network for CTC is called with padded frames (B, T, F) and their lengths, one for
RNN-T with the padded targets (B, U) besides; both return logits and the lengths of these.
"""

from __future__ import annotations

import torch
from torch import nn

from .. import _validation
from .utterances import collate

__all__ = ["FrameNetwork", "TransducerNetwork", "influence_of_the_batch", "logits_of"]


class FrameNetwork(nn.Module):
    """For CTC: two convolutions over time, the second with a stride, and a linear map to logits.

    Padding is masked before each convolution, and nothing is averaged over a batch. So the logits of an utterance are
    the same in any batch, up to rounding, without which no data-parallel gradient can be that of one process.

    Parameters
    ----------
    features, num_symbols : int
        F and V.
    width : int
    stride : int
        Frames for each frame of the logits, which are ceil(T / stride).
    dropout : float
    float32_output : bool
        Whether the last linear map leaves autocast, and so hands float32 logits to the loss.

    Examples
    --------
    >>> logits, lengths = FrameNetwork(4, 6)(torch.zeros(2, 9, 4), torch.tensor([9, 3]))
    >>> logits.shape, lengths.tolist()
    (torch.Size([2, 5, 6]), [5, 2])
    """

    def __init__(self, features, num_symbols, *, width=16, stride=2, dropout=0.0, float32_output=True):
        super().__init__()
        self.encoder = _Encoder(features, width, stride, dropout)
        self.output = nn.Linear(width, num_symbols)
        self.float32_output = float32_output

    def forward(self, frames, frame_lengths):
        encoded, lengths = self.encoder(frames, frame_lengths)
        return _logits(self.output, encoded, self.float32_output), lengths


class TransducerNetwork(nn.Module):
    """For RNN-T: the same encoder, an embedding of the last label, and a linear map of the tanh of their sum.

    Parameters
    ----------
    features, num_symbols, width, stride, dropout, float32_output
        As for :class:`FrameNetwork`.

    Examples
    --------
    >>> network = TransducerNetwork(4, 6)
    >>> logits, lengths = network(torch.zeros(2, 9, 4), torch.tensor([9, 3]), torch.tensor([[1, 2], [5, 0]]))
    >>> logits.shape, lengths.tolist()
    (torch.Size([2, 5, 3, 6]), [5, 2])
    """

    def __init__(self, features, num_symbols, *, width=16, stride=2, dropout=0.0, float32_output=True):
        super().__init__()
        self.encoder = _Encoder(features, width, stride, dropout)
        self.predictor = nn.Embedding(num_symbols, width)
        self.output = nn.Linear(width, num_symbols)
        self.float32_output = float32_output

    def forward(self, frames, frame_lengths, targets):
        encoded, lengths = self.encoder(frames, frame_lengths)
        predicted = self.predictor(nn.functional.pad(targets, (1, 0)))  # the blank stands for no label
        joined = torch.tanh(encoded[:, :, None] + predicted[:, None])
        return _logits(self.output, joined, self.float32_output), lengths


class _Encoder(nn.Module):
    def __init__(self, features, width, stride, dropout):
        super().__init__()
        self.stride = _validation.check_at_least("stride", stride, 1)
        self.first = nn.Conv1d(features, width, kernel_size=3, padding=1)
        self.second = nn.Conv1d(width, width, kernel_size=3, padding=1, stride=self.stride)
        self.dropout = nn.Dropout(dropout)

    def forward(self, frames, lengths):
        hidden = torch.relu(self.first(_masked(frames, lengths).transpose(1, 2))).transpose(1, 2)
        hidden = self.second(_masked(self.dropout(hidden), lengths).transpose(1, 2)).transpose(1, 2)
        return torch.tanh(hidden), (lengths + self.stride - 1) // self.stride


def _masked(frames, lengths):
    """Zeros in the padding, which a convolution would carry into the last frames before it."""
    padding = torch.arange(frames.shape[1], device=frames.device) >= lengths[:, None]
    return frames.masked_fill(padding[..., None], 0.0)


def _logits(linear, hidden, float32_output):
    if not float32_output:
        return linear(hidden)
    with torch.autocast(hidden.device.type, enabled=False):
        return linear(hidden.to(linear.weight.dtype))


def logits_of(model, batch, loss):
    """Logits of a batch and their lengths: a model for RNN-T is given the targets as well.

    Parameters
    ----------
    model : nn.Module
        ``model(frames, frame_lengths)`` for CTC, ``model(frames, frame_lengths, targets)`` for RNN-T.
    batch : Batch
        Not empty.
    loss : "ctc" | "rnnt"

    Returns
    -------
    logits : (B, T, V) or (B, T, U+1, V) tensor
    logit_lengths : (B,) int64 tensor
    """
    _validation.check_choice("loss", loss, ("ctc", "rnnt"))
    return model(batch.frames, batch.frame_lengths, *((batch.targets,) if loss == "rnnt" else ()))


@torch.no_grad()
def influence_of_the_batch(model, utterances, *, loss="ctc") -> float:
    """How far an utterance's logits move when others stand beside it in a batch.

    More than rounding makes the gradient depend on how utterances are dealt out to batches and processes: padding that
    is not masked, batch normalisation, noise. The model is asked as it is: call ``model.eval()`` first, or not.

    Parameters
    ----------
    model : nn.Module
        As for :func:`logits_of`; on the CPU.
    utterances : sequence of pairs
        Of unequal lengths, or there is no padding to look at.
    loss : "ctc" | "rnnt"

    Returns
    -------
    float
        The largest absolute difference of two logits that a loss would use.

    Examples
    --------
    >>> from reference_impl.scaling.utterances import make_utterances
    >>> influence_of_the_batch(FrameNetwork(4, 6), make_utterances(3, seed=0)) < 1e-5
    True
    """
    dtype = next((each.dtype for each in model.parameters()), torch.float32)
    together, lengths = logits_of(model, collate(utterances).to(dtype), loss)
    largest = 0.0
    for b, utterance in enumerate(utterances):
        alone, own = logits_of(model, collate([utterance]).to(dtype), loss)
        if own[0] != lengths[b]:
            raise ValueError(f"logit_lengths[{b}] = {lengths[b]} in the batch and {own[0]} alone; expected the same")
        used = tuple(slice(0, size) for size in alone.shape[1:])
        largest = max(largest, float((together[b][used] - alone[0]).abs().max()))
    return largest

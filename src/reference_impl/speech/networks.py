"""Two small networks that hear letters: an encoder with a linear map for CTC, and a transducer. No loss; needs torch.

Nothing in them looks at another utterance of the batch, or at padding: what is normalised is normalised within the
utterance, and every layer's padding is set to 0. So an utterance's logits are the same alone and in any batch, and the
sum of gradients over a batch does not depend on how the batch is divided.
"""

from __future__ import annotations

import torch
from torch import nn

from ..networks import transducer
from .features import BANDS
from .letters import NUM_SYMBOLS

__all__ = ["CONTEXT", "CTCNetwork", "Encoder", "SUBSAMPLING", "Transducer", "UtteranceNorm"]

#: Log-mel frames for each frame of the encoder's output: 20 ms. At 30 ms fast speech has more letters than frames.
SUBSAMPLING = 2
#: Letters that the transducer's predictor sees.
CONTEXT = 3
#: Added to a variance, for utterances of one frame.
_LEAST_VARIANCE = 1e-5


class UtteranceNorm(nn.Module):
    """Each channel minus its mean over the frames of an utterance, over its standard deviation; then scale and shift.

    So the encoder hears whole utterances: it cannot run while somebody speaks.

    Examples
    --------
    >>> vectors = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> UtteranceNorm(1)(vectors, torch.tensor([[[1.0], [1.0], [0.0]]])).detach().ravel().round(decimals=2).tolist()
    [-1.0, 1.0, 0.0]
    """

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, vectors, there):
        """Vectors (B, T, H), of which count where ``there``, (B, T, 1), is 1; where it is 0 the result is 0.

        Computed in float32 at least: the backward pass of one frame has the cube of 1 / sqrt(1e-5), beyond float16.
        """
        vectors = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        count = there.sum(1, keepdim=True).clamp(min=1)
        centred = (vectors - (vectors * there).sum(1, keepdim=True) / count) * there
        variance = centred.square().sum(1, keepdim=True) / count
        return (centred * torch.rsqrt(variance + _LEAST_VARIANCE) * self.scale + self.shift) * there


class Encoder(nn.Module):
    """Log-mel frames (B, T, 40) to vectors (B, T', H), T' = ceil(T / 2): convolutions over time with residuals.

    Parameters
    ----------
    width : int
        H.
    spacings : sequence of int
        A layer for each: five frames, so far apart.
    dropout : float

    Examples
    --------
    >>> vectors, lengths = Encoder(16)(torch.zeros(2, 101, 40), torch.tensor([101, 50]))
    >>> vectors.shape, lengths.tolist()
    (torch.Size([2, 51, 16]), [51, 25])
    """

    def __init__(self, width=96, *, spacings=(1, 2, 4, 1, 2, 4), dropout=0.1):
        super().__init__()
        self.front = nn.Conv1d(BANDS, width, kernel_size=9, stride=SUBSAMPLING, padding=4)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, kernel_size=5, padding=2 * spacing, dilation=spacing) for spacing in spacings)
        self.norms = nn.ModuleList(UtteranceNorm(width) for _ in range(len(spacings) + 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, frames, frame_lengths):
        """Vectors and their lengths. Of ``frames`` what is padding has no influence."""
        lengths = (frame_lengths + SUBSAMPLING - 1) // SUBSAMPLING
        frames = frames.masked_fill(~_before(frame_lengths, frames.shape[1]), 0.0)
        vectors = self.front(frames.transpose(1, 2)).transpose(1, 2)
        there = _before(lengths, vectors.shape[1]).to(vectors.dtype)
        for layer, norm in zip(self.layers, self.norms[:-1], strict=True):
            inner = torch.relu(norm(vectors, there))
            vectors = vectors + self.dropout(layer(inner.transpose(1, 2)).transpose(1, 2))
        return torch.relu(self.norms[-1](vectors, there)), lengths


def _before(lengths, size):
    """(B, size, 1), true up to each length."""
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[..., None]


class CTCNetwork(nn.Module):
    """An :class:`Encoder` and a linear map to the logits of the blank and 28 letters.

    Examples
    --------
    >>> logits, lengths = CTCNetwork(16)(torch.zeros(2, 100, 40), torch.tensor([100, 50]))
    >>> logits.shape
    torch.Size([2, 50, 29])
    """

    def __init__(self, width=96, **of_encoder):
        super().__init__()
        self.encoder = Encoder(width, **of_encoder)
        self.output = nn.Linear(width, NUM_SYMBOLS)

    def forward(self, frames, frame_lengths):
        """Logits (B, T', 29) and their lengths (B,)."""
        vectors, lengths = self.encoder(frames, frame_lengths)
        return self.output(vectors), lengths


class Transducer(transducer.Transducer):
    """An :class:`Encoder`, a predictor of the last three letters, and a tanh joiner.

    Parameters
    ----------
    width : int
        H, of the vectors that encoder and predictor hand to the joiner.
    simple_joiner : bool
        Whether it has the second joiner of pruned RNN-T.

    Examples
    --------
    >>> network = Transducer(16)
    >>> logits, lengths = network(torch.zeros(2, 100, 40), torch.tensor([100, 50]), torch.tensor([[9, 17], [9, 0]]))
    >>> logits.shape
    torch.Size([2, 50, 3, 29])
    """

    def __init__(self, width=96, *, simple_joiner=False, **of_encoder):
        super().__init__(Encoder(width, **of_encoder), NUM_SYMBOLS, width, context=CONTEXT,
                         simple_joiner=simple_joiner)

"""Two small networks that hear letters: an encoder with a linear map for CTC, and a transducer. No loss; needs torch.

Nothing in them looks at another utterance of the batch, or at padding: what is normalised is normalised within a
frame, and every layer's padding is set to 0. So an utterance's logits are the same alone and in any batch, and the sum
of gradients over a batch does not depend on how the batch is divided.
"""

from __future__ import annotations

import torch
from torch import nn

from .features import BANDS
from .letters import BLANK, NUM_SYMBOLS

__all__ = ["CONTEXT", "CTCNetwork", "Encoder", "SUBSAMPLING", "Transducer"]

#: Log-mel frames for each frame of the encoder's output: 30 ms.
SUBSAMPLING = 3
#: Letters that the transducer's predictor sees.
CONTEXT = 3


class Encoder(nn.Module):
    """Log-mel frames (B, T, 40) to vectors (B, T', H), T' = ceil(T / 3): convolutions over time with residuals.

    Parameters
    ----------
    width : int
        H.
    spacings : sequence of int
        A layer for each: five frames, so far apart.
    dropout : float

    Examples
    --------
    >>> vectors, lengths = Encoder(16)(torch.zeros(2, 100, 40), torch.tensor([100, 50]))
    >>> vectors.shape, lengths.tolist()
    (torch.Size([2, 34, 16]), [34, 17])
    """

    def __init__(self, width=96, *, spacings=(1, 2, 4, 1, 2, 4), dropout=0.1):
        super().__init__()
        self.front = nn.Conv1d(BANDS, width, kernel_size=9, stride=SUBSAMPLING, padding=4)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, kernel_size=5, padding=2 * spacing, dilation=spacing) for spacing in spacings)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(len(spacings) + 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, frames, frame_lengths):
        """Vectors and their lengths. Of ``frames`` what is padding has no influence."""
        lengths = (frame_lengths + SUBSAMPLING - 1) // SUBSAMPLING
        frames = frames.masked_fill(_is_padding(frame_lengths, frames.shape[1]), 0.0)
        vectors = self.front(frames.transpose(1, 2)).transpose(1, 2)
        padding = _is_padding(lengths, vectors.shape[1])
        for layer, norm in zip(self.layers, self.norms[:-1], strict=True):
            inner = torch.relu(norm(vectors)).masked_fill(padding, 0.0)
            vectors = vectors + self.dropout(layer(inner.transpose(1, 2)).transpose(1, 2))
        return self.norms[-1](vectors).masked_fill(padding, 0.0), lengths


def _is_padding(lengths, size):
    """(B, size, 1), true from each length on."""
    return (torch.arange(size, device=lengths.device) >= lengths[:, None])[..., None]


class CTCNetwork(nn.Module):
    """An :class:`Encoder` and a linear map to the logits of the blank and 28 letters.

    Examples
    --------
    >>> logits, lengths = CTCNetwork(16)(torch.zeros(2, 100, 40), torch.tensor([100, 50]))
    >>> logits.shape
    torch.Size([2, 34, 29])
    """

    def __init__(self, width=96, **of_encoder):
        super().__init__()
        self.encoder = Encoder(width, **of_encoder)
        self.output = nn.Linear(width, NUM_SYMBOLS)

    def forward(self, frames, frame_lengths):
        """Logits (B, T', 29) and their lengths (B,)."""
        vectors, lengths = self.encoder(frames, frame_lengths)
        return self.output(vectors), lengths


class Transducer(nn.Module):
    """Encoder, stateless predictor (the last letters), and a joiner: a linear map of the tanh of a sum.

    Parameters
    ----------
    width : int
        H, of the vectors that encoder and predictor hand to the joiner.

    Examples
    --------
    >>> network = Transducer(16)
    >>> logits, lengths = network(torch.zeros(2, 100, 40), torch.tensor([100, 50]), torch.tensor([[9, 17], [9, 0]]))
    >>> logits.shape
    torch.Size([2, 34, 3, 29])
    """

    def __init__(self, width=96, **of_encoder):
        super().__init__()
        self.encoder = Encoder(width, **of_encoder)
        self.embeddings = nn.ModuleList(nn.Embedding(NUM_SYMBOLS, width) for _ in range(CONTEXT))
        self.predictor = nn.Sequential(nn.ReLU(), nn.Linear(width, width))
        self.output = nn.Linear(width, NUM_SYMBOLS)

    def predict(self, targets):
        """Labels (B, U) to vectors (B, U+1, H): row u has seen labels u - 3 to u - 1; the blank stands for none."""
        labels = nn.functional.pad(targets, (CONTEXT, 0), value=BLANK)
        rows = targets.shape[1] + 1
        return self.predictor(sum(embed(labels[:, i:i + rows]) for i, embed in enumerate(self.embeddings)))

    def join(self, encodings, predictions):
        """Vectors that broadcast, (..., H), to logits (..., 29)."""
        return self.output(torch.tanh(encodings + predictions))

    def forward(self, frames, frame_lengths, targets):
        """Logits of the whole grid, (B, T', U+1, 29), and the lengths (B,) of its frames."""
        encodings, lengths = self.encoder(frames, frame_lengths)
        return self.join(encodings[:, :, None], self.predict(targets)[:, None]), lengths

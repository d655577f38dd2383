"""The predictor and the joiner of a small transducer, around any encoder, and greedy decoding. No loss; needs torch.

Encoder, predictor and joiner are separate methods, since what is between them is what the chapters look at: the joiner
takes any pairs of a frame and a row, the whole grid or a band of it.
"""

from __future__ import annotations

import torch
from torch import nn

from .._validation import check_at_least
from ..torch_impl.pruning import simple_scores

__all__ = ["BLANK", "Transducer", "decode"]

BLANK = 0


class Transducer(nn.Module):
    """An encoder, a stateless predictor (the last labels), and a joiner: a linear map of the tanh of a sum.

    A subclass with other arguments of its encoder overrides :meth:`encode`.

    Parameters
    ----------
    encoder : nn.Module
        Frames (B, T, ...) and their lengths (B,) to vectors (B, T', H) and theirs.
    num_symbols : int
        V, the blank, 0, included.
    width : int
        H, of the vectors that encoder and predictor hand to the joiner.
    context : int
        Labels that the predictor sees.
    simple_joiner : bool
        Whether there is a second joiner, a linear map of encodings plus one of predictions, as pruned RNN-T needs it.

    Examples
    --------
    >>> network = Transducer(None, 5, 8, context=2)
    >>> network.join(torch.zeros(1, 6, 1, 8), network.predict(torch.tensor([[1, 4]]))[:, None]).shape
    torch.Size([1, 6, 3, 5])
    """

    def __init__(self, encoder, num_symbols, width, *, context, simple_joiner=False):
        super().__init__()
        width, self.context = check_at_least("width", width, 1), check_at_least("context", context, 1)
        self.encoder = encoder
        self.embeddings = nn.ModuleList(nn.Embedding(num_symbols, width) for _ in range(context))
        self.predictor = nn.Sequential(nn.ReLU(), nn.Linear(width, width))
        self.output = nn.Linear(width, num_symbols)
        if simple_joiner:
            self.simple_encoder = nn.Linear(width, num_symbols)
            self.simple_predictor = nn.Linear(width, num_symbols)

    def encode(self, frames, frame_lengths):
        """Vectors (B, T', H) and their lengths (B,)."""
        return self.encoder(frames, frame_lengths)

    def predict(self, targets):
        """Labels (B, U) to vectors (B, U+1, H): row u has seen the last labels before u; the blank stands for none."""
        labels = nn.functional.pad(targets, (self.context, 0), value=BLANK)
        rows = targets.shape[1] + 1
        return self.predictor(sum(embed(labels[:, i:i + rows]) for i, embed in enumerate(self.embeddings)))

    def join(self, encodings, predictions):
        """Vectors that broadcast, (..., H), to logits (..., V), a linear map of the tanh of their sum.

        ``join(encodings[:, :, None], predictions[:, None])`` is the grid, (B, T, U+1, V). A band of Q rows in each
        frame takes predictions that were gathered to (B, T, Q, H).
        """
        return self.output(torch.tanh(encodings + predictions))

    def simple(self, encodings, predictions, targets):
        """Scores of blank arcs (B, T, U+1) and label arcs (B, T, U) by the simple joiner, float64."""
        return simple_scores(self.simple_encoder(encodings), self.simple_predictor(predictions), targets)

    def forward(self, frames, frame_lengths, targets):
        """Logits of the whole grid, (B, T', U+1, V), and the lengths (B,) of its frames."""
        encodings, lengths = self.encode(frames, frame_lengths)
        return self.join(encodings[:, :, None], self.predict(targets)[:, None]), lengths


@torch.no_grad()
def decode(network: Transducer, frames, frame_lengths, *, most=4) -> list[list[tuple[int, int]]]:
    """Greedy decoding: in each frame, write the best symbol until it is the blank.

    Parameters
    ----------
    network : Transducer
        In evaluation mode.
    frames : (B, T, ...) tensor
    frame_lengths : (B,) ints
    most : int
        Labels written in one frame at most; then the frame ends as if the blank had been best.

    Returns
    -------
    list of B lists of (frame, label)
        Frames of the encoder's output.

    Examples
    --------
    >>> from reference_impl.digits.transducer import DigitTransducer
    >>> network = DigitTransducer(8).eval()
    >>> bias = network.output.bias.data
    >>> _ = network.output.weight.data.zero_(), bias.zero_()
    >>> bias[3] = 1
    >>> decode(network, torch.zeros(1, 2, 8), [2], most=2)
    [[(0, 3), (0, 3), (1, 3), (1, 3)]]
    """
    most = check_at_least("most", most, 1)
    read = [[] for _ in frames]
    encodings, lengths = network.encode(frames, torch.as_tensor(frame_lengths))
    context = torch.full((len(frames), network.context), BLANK)
    for t, vectors in enumerate(encodings.unbind(1)):
        writing = t < lengths
        for _ in range(most):
            best = network.join(vectors, network.predict(context)[:, -1]).argmax(-1)
            writing = writing & (best != BLANK)
            if not writing.any():
                break
            for b in writing.nonzero().ravel().tolist():
                read[b].append((t, int(best[b])))
            context[writing] = torch.cat([context[writing, 1:], best[writing, None]], dim=1)
    return read

"""What a band of an RNN-T grid keeps of the paths, and what the rest does to the gradient; needs torch.

For looking at bands, not for training: everything is computed on the whole grid as well, which pruning is to avoid.
"""

from __future__ import annotations

import torch

from ..torch_impl import arc_rnnt_loss, pruned_rnnt_loss, rnnt_loss
from ..torch_impl.pruning import arc_scores, cut_band, losses_and_posteriors

__all__ = ["as_batch", "gradient_errors", "grid_posteriors", "probability_kept"]


def as_batch(bounds):
    """Lower bounds of several bands, arrays (T,) of any lengths, as one (B, T) tensor, padded with 0.

    Examples
    --------
    >>> as_batch([[0, 1, 1], [0]]).tolist()
    [[0, 1, 1], [0, 0, 0]]
    """
    return torch.nn.utils.rnn.pad_sequence([torch.as_tensor(each) for each in bounds], batch_first=True)


def grid_posteriors(log_probs, targets, logit_lengths, target_lengths, *, label_frames=0):
    """Posteriors of the blank arcs (B, T, U+1) and of the label arcs (B, T, U) of a whole grid, from its log-probs.

    Examples
    --------
    Two frames and one label, all arcs alike: it is written in either frame, and the last blank is certain.

    >>> ends = torch.tensor([2]), torch.tensor([1])
    >>> blanks, labels = grid_posteriors(torch.zeros(1, 2, 2, 2), torch.tensor([[1]]), *ends)
    >>> blanks.tolist(), labels.tolist()
    ([[[0.5, 0.5], [0.0, 1.0]]], [[[0.5], [0.5]]])
    """
    scores = arc_scores(log_probs.detach().requires_grad_(), targets)
    return losses_and_posteriors(*scores, logit_lengths, target_lengths, label_frames=label_frames)[1:]


def probability_kept(log_probs, first_rows, num_rows, targets, logit_lengths, target_lengths, *, label_frames=0):
    """The probability that a path stays in the band, Z(band) / Z, of each utterance.

    Parameters
    ----------
    log_probs : (B, T, U+1, V) tensor
        Nats, of the whole grid.
    first_rows : (B, T) tensor of int64
        Lowest row of the band in each frame.
    num_rows : int
        Q, rows of the band.
    targets, logit_lengths, target_lengths, label_frames
        As for :func:`.torch_impl.pruned_rnnt_loss`.

    Returns
    -------
    (B,) tensor
        In [0, 1] up to rounding.

    Examples
    --------
    Of the ten paths with four frames and two labels, three write the second label in the last frame:

    >>> log_probs, late = torch.zeros(1, 4, 3, 2, dtype=torch.float64), torch.tensor([[0, 0, 0, 1]])
    >>> lengths = torch.tensor([4]), torch.tensor([2])
    >>> round(probability_kept(log_probs, late, 2, torch.tensor([[1, 1]]), *lengths).item(), 12)
    0.3
    """
    log_probs = log_probs.detach()
    options = {"label_frames": label_frames, "reduction": "none"}
    whole = arc_rnnt_loss(*arc_scores(log_probs, targets), logit_lengths, target_lengths, **options)
    inside = pruned_rnnt_loss(cut_band(log_probs, first_rows, num_rows), first_rows, targets, logit_lengths,
                              target_lengths, inputs="log_probs", **options)
    return torch.exp(whole - inside)


def gradient_errors(logits, first_rows, num_rows, targets, logit_lengths, target_lengths, *, inputs="logits"):
    """The largest error that the band makes in an entry of the gradient, of each utterance; parameters as above.

    ``inputs`` says which gradient: of RNN-T's loss in the logits, or in the log-probs.

    Returns
    -------
    (B,) tensor
        At most 1 minus :func:`probability_kept` (from eq-prune-mean).

    Examples
    --------
    All paths of the band above emit the second label in the last frame, and of all paths three in ten:

    >>> log_probs, late = torch.zeros(1, 4, 3, 2, dtype=torch.float64), torch.tensor([[0, 0, 0, 1]])
    >>> rest = torch.tensor([[1, 1]]), torch.tensor([4]), torch.tensor([2])
    >>> round(gradient_errors(log_probs, late, 2, *rest, inputs="log_probs").item(), 12)
    0.7
    """
    leaf, arguments = logits.detach().requires_grad_(), (targets, logit_lengths, target_lengths)
    options = {"reduction": "sum", "inputs": inputs}
    whole = rnnt_loss(leaf, *arguments, **options)
    inside = pruned_rnnt_loss(cut_band(leaf, first_rows, num_rows), first_rows, *arguments, zero_infinity=True,
                              **options)
    of_whole, of_band = (torch.autograd.grad(loss, leaf)[0] for loss in (whole, inside))
    return (of_whole - of_band).abs().flatten(1).amax(1)

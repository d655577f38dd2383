"""What pruned RNN-T does before its loss: scores of an additive joiner, and the band that their posteriors choose.

The pruned loss itself is :func:`.variants.pruned_rnnt_loss`, and the loss of the scores here
:func:`.variants.arc_rnnt_loss`. Definitions are those of k2 and fast_rnnt (Kuang et al. 2022), whose px and py are our
label and blank scores :claim:`k2-simple, k2-windows, fast-rnnt-windows`.
"""

from __future__ import annotations

import functools

import torch

from .. import _validation
from .._loss_value import minus
from . import arguments
from .derivatives import constant, has_transforms
from .variants import arc_rnnt_loss

__all__ = ["arc_scores", "band_of", "cut_band", "first_rows", "losses_and_posteriors", "rows_of_band", "simple_scores",
           "smoothed_scores"]

_LEAST = 1e-280  # a mass below has lost digits to the end of the range of floats


def simple_scores(encodings, predictions, targets, *, blank=0):
    """Log-probs of the arcs if logits are a sum, ``encodings[t] + predictions[u]``: without a tensor (B, T, U+1, V).

    Parameters
    ----------
    encodings : (B, T, V) tensor
        What the frames say of each symbol; ``-inf`` masks an entry.
    predictions : (B, U+1, V) tensor
        What the labels so far say, in the same dtype.
    targets : (B, U) tensor of int32 or int64
        Padding may hold anything: what it is looked up for is not used by a loss that knows the lengths.
    blank : int

    Returns
    -------
    blank_scores : (B, T, U+1) float64 tensor, nats
    label_scores : (B, T, U) float64 tensor, nats
        For :func:`.variants.arc_rnnt_loss`; float32 on a device that has no float64. NaN in a node whose symbols are
        all more than some 640 nats below the sum of the two largest scores: their mass cannot be told from a product of
        exponentials.

    Examples
    --------
    >>> blanks, labels = simple_scores(torch.zeros(1, 2, 4), torch.zeros(1, 2, 4), torch.tensor([[3]]))
    >>> blanks.shape, labels.shape, labels.exp().unique().tolist()
    (torch.Size([1, 2, 2]), torch.Size([1, 2, 1]), [0.25])
    """
    encodings, predictions, labels, blank, device = _checked(encodings, predictions, targets, blank)
    encodings, predictions = map(_below_peak, (encodings, predictions))
    scores = _arcs(encodings, predictions, labels, blank, encodings.exp() @ predictions.exp().transpose(1, 2))
    return tuple(arguments.from_lattice(each, device) for each in scores)


def smoothed_scores(encodings, predictions, targets, *, blank=0, prediction_scale=0.1, encoding_scale=0.1):
    """The same, mixed with what each of the two would say alone: of log-probs a weighted sum.

    Parameters
    ----------
    encodings, predictions, targets, blank
        As for :func:`simple_scores`; all entries finite.
    prediction_scale : float
        Weight of the log-softmax of the predictions alone (k2's ``lm_only_scale``) :claim:`k2-smoothed`.
    encoding_scale : float
        Weight of the log-softmax of the encodings plus the log of a unigram (``am_only_scale``): the mean of
        ``softmax(predictions)`` over the whole batch and all rows, padding included. So utterances of a batch are not
        independent of each other.

    Returns
    -------
    blank_scores, label_scores
        As for :func:`simple_scores`. The scores of a node are no distribution: their exponentials add up to at most 1.

    Examples
    --------
    >>> both = torch.zeros(1, 2, 4), torch.tensor([[[2.0, 1, 0, 0], [0, 0, 1, 2]]])
    >>> blanks, labels = smoothed_scores(*both, torch.tensor([[3]]))
    >>> labels.exp().round(decimals=4).tolist()
    [[[0.0953], [0.0953]]]
    """
    encodings, predictions, labels, blank, device = _checked(encodings, predictions, targets, blank)
    scales = [_validation.check_real(name, value, "a finite number >= 0", lambda value: value >= 0)
              for name, value in (("prediction_scale", prediction_scale), ("encoding_scale", encoding_scale))]
    whole = 1.0 - sum(scales)
    alone = torch.log_softmax(predictions, -1)
    unigram = alone.exp().mean((0, 1)).log()
    nothing = torch.zeros_like(predictions)
    parts = [(whole, simple_scores(encodings, predictions, labels, blank=blank)),
             (scales[0], _arcs(torch.zeros_like(encodings), alone, labels, blank)),
             (scales[1], _arcs(torch.log_softmax(encodings + unigram, -1), nothing, labels, blank))]
    return tuple(arguments.from_lattice(sum(scale * scores[i] for scale, scores in parts), device) for i in (0, 1))


def first_rows(blank_posteriors, label_posteriors, logit_lengths, target_lengths, num_rows, *, label_frames=0):
    """The band of pruned RNN-T: in each frame the window where the simple loss is at home.

    The rule is that of k2 :claim:`k2-windows, k2-band`.

    Parameters
    ----------
    blank_posteriors : (B, T, U+1) float tensor
    label_posteriors : (B, T, U) float tensor
        Of the arcs that leave each node: minus the gradient of :func:`.variants.arc_rnnt_loss` in its scores.
    logit_lengths, target_lengths : (B,) tensors of int32 or int64
    num_rows : int
        Q, rows of a window: no more than U + 1, and at least 2 if there are as many, or 1 with ``label_frames=1``.
    label_frames : 0 or 1
        Frames that a label advances.

    Returns
    -------
    (B, T) int64 tensor
        For :func:`.variants.pruned_rnnt_loss`. In each frame the window with the largest sum of blank posteriors, less
        the posterior of the label arc that enters it from below. Then bounds are lowered and raised until they begin at
        0, never fall, rise by less than Q rows a frame (by one with ``label_frames=1``), and end with row U of each
        utterance in the window of its last frame, if there are frames enough to climb that far.

    Examples
    --------
    >>> blanks = torch.tensor([[[1.0, 0, 0], [0.1, 0.9, 0], [0, 0.2, 0.8], [0, 0, 1]]])
    >>> labels = torch.tensor([[[0.0, 0], [0.9, 0], [0.1, 0.8], [0, 0.2]]])
    >>> first_rows(blanks, labels, torch.tensor([4]), torch.tensor([2]), 2).tolist()
    [[0, 0, 1, 1]]
    """
    return constant(functools.partial(_first_rows, num_rows, label_frames), blank_posteriors, label_posteriors,
                    logit_lengths, target_lengths)


def _first_rows(num_rows, label_frames, blank_posteriors, label_posteriors, logit_lengths, target_lengths):
    label_frames = _validation.check_choice("label_frames", label_frames, (0, 1))
    logit_lengths, target_lengths = arguments.check_arcs(
        blank_posteriors, label_posteriors, logit_lengths, target_lengths)
    _, T, rows = blank_posteriors.shape
    # one row has no room for a label that stays in its frame, unless there is no label
    num_rows = _validation.check_at_least("num_rows", num_rows, 1 if label_frames else min(2, rows))
    _validation.check_band_height(num_rows, rows - 1)
    device = blank_posteriors.device
    with torch.no_grad():
        blank_posteriors, label_posteriors = map(arguments.to_lattice, (blank_posteriors, label_posteriors))
        inside = blank_posteriors.unfold(2, num_rows, 1).sum(-1)
        from_below = torch.nn.functional.pad(label_posteriors, (1, 0))[..., :rows + 1 - num_rows]
        bounds = (inside - from_below).argmax(2)
        last = (target_lengths + 1 - num_rows).clamp(0, rows - num_rows)[:, None]
        in_front = torch.arange(T, device=bounds.device) < logit_lengths[:, None] - 1
        bounds = torch.where(in_front, bounds, last)
        climb = 1 if label_frames else num_rows - 1
        reach = climb * torch.arange(T, device=bounds.device)
        bounds = _reversed(torch.cummin, bounds)  # never falling
        bounds = _reversed(torch.cummax, bounds - reach) + reach  # rising by ``climb`` at most
        return bounds.minimum(reach).to(device)


def arc_scores(log_probs, targets, *, blank=0):
    """The log-probs that the arcs of a grid use, as :func:`.variants.arc_rnnt_loss` takes them; of any joiner.

    Parameters
    ----------
    log_probs : (B, T, U+1, V) float tensor
    targets : (B, U) tensor of int32 or int64
        Padding may hold anything.
    blank : int

    Returns
    -------
    blank_scores : (B, T, U+1) tensor
    label_scores : (B, T, U) tensor
        Differentiable.

    Examples
    --------
    >>> blanks, labels = arc_scores(torch.arange(8.0).reshape(1, 2, 2, 2), torch.tensor([[1]]))
    >>> blanks.tolist(), labels.tolist()
    ([[[0.0, 2.0], [4.0, 6.0]]], [[[1.0], [5.0]]])
    """
    B, T, rows, V = log_probs.shape
    blank = _validation.check_blank(blank, V)
    labels = targets.to(log_probs.device, torch.int64).clamp(0, V - 1)
    index = labels[:, None, :, None].expand(B, T, rows - 1, 1)
    return log_probs[..., blank], log_probs[:, :, :-1].gather(3, index)[..., 0]


def losses_and_posteriors(blank_scores, label_scores, logit_lengths, target_lengths, *, label_frames=0):
    """The loss of each utterance, to be differentiated further, and the posteriors of its arcs, which are constants.

    Parameters
    ----------
    blank_scores, label_scores, logit_lengths, target_lengths, label_frames
        As for :func:`.variants.arc_rnnt_loss`; outside the transforms of ``torch.func`` the scores need gradients.

    Returns
    -------
    losses : (B,) tensor
        With the graph that leads back to the scores. What is upstream of them changes no posterior.
    blank_posteriors : (B, T, U+1) tensor
    label_posteriors : (B, T, U) tensor
        What k2 calls ``py_grad`` and ``px_grad``, with other indices :claim:`k2-gradient`. 0 where no alignment exists.

    Examples
    --------
    >>> halves = torch.full((1, 2, 2), 0.5).log().requires_grad_(), torch.full((1, 2, 1), 0.5).log().requires_grad_()
    >>> losses, blanks, labels = losses_and_posteriors(*halves, torch.tensor([2]), torch.tensor([1]))
    >>> round(torch.exp(-losses).item(), 6), blanks.tolist(), labels.tolist()
    (0.25, [[[0.5, 0.5], [0.0, 1.0]]], [[[0.5], [0.5]]])
    """
    # views, so that a score that was made of another one does not pass its posterior on to it
    arcs = blank_scores.view_as(blank_scores), label_scores.view_as(label_scores)

    def loss(*arcs):
        return arc_rnnt_loss(*arcs, logit_lengths, target_lengths, label_frames=label_frames, reduction="none")

    losses = loss(*arcs)
    if has_transforms(arcs):
        gradients = torch.func.vjp(loss, *(each.detach() for each in arcs))[1](torch.ones_like(losses))
    else:
        gradients = torch.autograd.grad(losses, arcs, torch.ones_like(losses), retain_graph=True)
    return losses, *map(minus, gradients)


def band_of(blank_scores, label_scores, logit_lengths, target_lengths, num_rows, *, label_frames=0):
    """The losses of the scores, to be trained on, and the band that their posteriors choose: one sweep serves both.

    Parameters
    ----------
    blank_scores, label_scores, logit_lengths, target_lengths
        As for :func:`losses_and_posteriors`.
    num_rows, label_frames
        As for :func:`first_rows`.

    Returns
    -------
    losses : (B,) tensor
    first_rows : (B, T) int64 tensor

    Examples
    --------
    >>> scores = torch.zeros(1, 4, 3, requires_grad=True), torch.zeros(1, 4, 2, requires_grad=True)
    >>> losses, first = band_of(*scores, torch.tensor([4]), torch.tensor([2]), 2)
    >>> round(torch.exp(-losses).item()), first.tolist()
    (10, [[0, 0, 1, 1]])
    """
    losses, blanks, labels = losses_and_posteriors(blank_scores, label_scores, logit_lengths, target_lengths,
                                                   label_frames=label_frames)
    return losses, first_rows(blanks, labels, logit_lengths, target_lengths, num_rows, label_frames=label_frames)


def rows_of_band(predictions, first_rows, num_rows):
    """Of the predictor's rows those that lie in the band: (B, U+1, H) to (B, T, Q, H), for a joiner of the band.

    Parameters
    ----------
    predictions : (B, U+1, H) tensor
    first_rows : (B, T) int64 tensor
        As from :func:`first_rows`.
    num_rows : int
        Q.

    Returns
    -------
    (B, T, Q, H) tensor
        Differentiable: gradients of a row are added up over the frames in which it is in the band.

    Examples
    --------
    >>> rows_of_band(torch.tensor([[[5.0], [6.0], [7.0]]]), torch.tensor([[0, 1]]), 2)[..., 0].tolist()
    [[[5.0, 6.0], [6.0, 7.0]]]
    """
    rows = first_rows[..., None] + torch.arange(num_rows, device=first_rows.device)
    return predictions[torch.arange(len(predictions), device=rows.device)[:, None, None], rows]


def cut_band(logits, first_rows, num_rows):
    """Of a whole grid's logits those of the band, (B, T, U+1, V) to (B, T, Q, V): to compare with, and of no use else.

    Parameters
    ----------
    logits : (B, T, U+1, V) tensor
    first_rows, num_rows
        As for :func:`rows_of_band`.

    Returns
    -------
    (B, T, Q, V) tensor
        Differentiable.

    Examples
    --------
    >>> cut_band(torch.tensor([[[[5.0], [6.0], [7.0]]] * 2]), torch.tensor([[0, 1]]), 2)[..., 0].tolist()
    [[[5.0, 6.0], [6.0, 7.0]]]
    """
    rows = first_rows[..., None] + torch.arange(num_rows, device=first_rows.device)
    return logits.gather(2, rows[..., None].expand(*rows.shape, logits.shape[-1]))


def _reversed(scan, values):
    """A running minimum or maximum along the last axis, from its end."""
    return scan(values.flip(-1), -1).values.flip(-1)


def _checked(encodings, predictions, targets, blank):
    """Both scores in float64, labels that can be looked up, the blank, and the device where the scores were."""
    arguments.check_scores("encodings", encodings, 3, "(B, T, V)")
    B, _, V = encodings.shape
    blank = _validation.check_blank(blank, V)
    arguments.check_integers("targets", targets, encodings, 2, "(B, U)")
    arguments.check_first_axis("targets", targets, encodings, "encodings")
    arguments.check_beside("predictions", predictions, encodings, (B, targets.shape[1] + 1, V),
                           "B and V as encodings, and U + 1 rows")
    device = encodings.device
    encodings, predictions = (arguments.to_lattice(each).to(torch.float64) for each in (encodings, predictions))
    return encodings, predictions, targets.to(encodings.device, torch.int64).clamp(0, V - 1), blank, device


def _below_peak(scores):
    """Scores less the largest of each row: as logits they are the same, and neither they nor their sums are large."""
    peak = scores.detach().amax(-1, keepdim=True)
    return scores - peak.masked_fill(peak == -torch.inf, 0.0)


def _arcs(encodings, predictions, labels, blank, mass=None):
    """Scores of the arcs: those of their symbols, less the logarithm of the mass of all, if it is given."""
    B, T, _ = encodings.shape
    U = labels.shape[1]
    of_label = encodings.gather(2, labels[:, None].expand(B, T, U))
    of_label = of_label + predictions[:, :-1].gather(2, labels[..., None])[..., 0][:, None]
    of_blank = encodings[..., blank, None] + predictions[:, None, :, blank]
    if mass is None:
        return of_blank, of_label
    lost = mass < _LEAST
    norm = mass.masked_fill(lost, 1.0).log()
    blanks, labels = of_blank - norm, of_label - norm[..., :-1]
    # nothing is lost where nothing was there
    return (blanks.masked_fill(lost & (of_blank > -torch.inf), torch.nan),
            labels.masked_fill(lost[..., :-1] & (of_label > -torch.inf), torch.nan))

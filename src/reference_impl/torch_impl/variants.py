"""Relatives of the RNN-T loss for torch: other arcs on the same grid. What they share with ``rnnt_loss`` is said there.

Arguments, edges, types of losses and gradients, and errors are as for :func:`.losses.rnnt_loss`, and so are the keyword
options of the same names. All are made of tensor operations, for logits on any device, and may be differentiated twice.
"""

from __future__ import annotations

import torch
from torch.nn.functional import logsigmoid

from .. import _validation
from . import arguments, tensor_ops
from .derivatives import transformable

__all__ = ["arc_rnnt_loss", "hat_log_probs", "monotonic_rnnt_loss", "multi_blank_rnnt_loss", "pruned_rnnt_loss",
           "tdt_loss"]


@transformable(2)
def arc_rnnt_loss(blank_scores, label_scores, logit_lengths, target_lengths, *, label_frames=0, reduction="mean",
                  zero_infinity=False, validate="auto"):
    """-log Z in nats of scores that are given for arcs instead of symbols: a recursion that knows no vocabulary.

    Parameters
    ----------
    blank_scores : (B, T, U+1) tensor
        Log-weight of the blank arc that leaves each node; ``-inf`` where there is none, ``+inf`` nowhere. Need not come
        from a distribution, so that the loss may be negative.
    label_scores : (B, T, U) tensor
        Of the label arc; of the dtype and on the device of ``blank_scores``.
    logit_lengths, target_lengths, reduction, zero_infinity, validate
        As for :func:`.losses.rnnt_loss`; so are what is returned and what is raised.
    label_frames : 0 or 1
        Frames that a label advances: 0 as in RNN-T, 1 as in monotonic RNN-T.

    Notes
    -----
    The gradient is minus the posterior of each arc. The recursion is k2's, negated: there the arrays are ``py`` and
    ``px``, indexed [row][frame], ``return_grad`` returns the posteriors themselves, and the types are called "regular"
    (0) and "modified" (1) :claim:`k2-alpha, k2-gradient, k2-type-names`.

    Examples
    --------
    >>> halves = torch.full((1, 2, 2), 0.5).log().requires_grad_(), torch.full((1, 2, 1), 0.5).log().requires_grad_()
    >>> loss = arc_rnnt_loss(*halves, torch.tensor([2]), torch.tensor([1]))
    >>> loss.backward()
    >>> round(torch.exp(-loss).item(), 6), halves[0].grad.tolist(), halves[1].grad.tolist()
    (0.25, [[[-0.5, -0.5], [-0.0, -1.0]]], [[[-0.5], [-0.5]]])
    """
    arguments.check_call(reduction, "log_probs", validate, zero_infinity=zero_infinity)
    label_frames = _validation.check_choice("label_frames", label_frames, (0, 1))
    logit_lengths, target_lengths = arguments.check_arcs(
        blank_scores, label_scores, logit_lengths, target_lengths, validate)
    both = map(arguments.to_lattice, (blank_scores, label_scores))
    losses = tensor_ops.arc_losses(*both, logit_lengths, target_lengths, label_frames)
    return arguments.reduced(losses, blank_scores.device, zero_infinity, reduction)


def hat_log_probs(logits, *, blank=0):
    """The log-probs of HAT (Variani et al. 2020), for ``rnnt_loss(..., inputs="log_probs")`` or any other loss here.

    Parameters
    ----------
    logits : (..., V) tensor
        V >= 2. The blank's has a sigmoid of its own; the labels' a softmax, which shares what the blank leaves over.
    blank : int

    Returns
    -------
    (..., V) tensor like ``logits``, nats
        Differentiable by autograd. ``-inf`` masks an entry, with gradient 0; where all labels of a row are masked, they
        stay ``-inf``.

    Examples
    --------
    >>> hat_log_probs(torch.log(torch.tensor([3.0, 1.0, 1.0]))).exp().tolist()
    [0.75, 0.125, 0.125]
    """
    arguments.check_scores("logits", logits, max(logits.ndim, 1), "(..., V)")
    _validation.check_size("V", logits.shape[-1], 2)
    blank = _validation.check_blank(blank, logits.shape[-1])
    before, of_blank, after = logits.tensor_split([blank, blank + 1], -1)
    labels = torch.cat([before, after], -1)
    nothing = (labels == -torch.inf).all(-1, keepdim=True)
    labels = torch.log_softmax(labels.masked_fill(nothing, 0.0), -1).masked_fill(nothing, -torch.inf)
    labels = labels + logsigmoid(-of_blank)
    return torch.cat([labels[..., :blank], logsigmoid(of_blank), labels[..., blank:]], -1)


@transformable(1)
def monotonic_rnnt_loss(logits, targets, logit_lengths, target_lengths, *, blank=0, reduction="mean",
                        zero_infinity=False, inputs="logits", validate="auto", extra_rows=False):
    """Monotonic RNN-T loss in nats: a label advances one frame, as a blank does, so each frame emits one symbol.

    Parameters
    ----------
    logits : (B, T, U+1, V) tensor
        The last row is for the blank only.
    targets, logit_lengths, target_lengths, blank, reduction, zero_infinity, inputs, validate, extra_rows
        As for :func:`.losses.rnnt_loss`; so are what is returned and what is raised.

    Notes
    -----
    The lattice is :func:`reference_impl.topology.monotonic_rnnt_lattice`. Without an alignment, which is the case for
    more labels than frames, the loss is ``inf`` and the gradient 0.

    Examples
    --------
    >>> logits = torch.zeros(1, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    >>> loss = monotonic_rnnt_loss(logits, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
    >>> round(torch.exp(-loss).item(), 12)
    0.375
    """
    arguments.check_call(reduction, inputs, validate, zero_infinity=zero_infinity)
    targets, logit_lengths, target_lengths, blank = arguments.check_batch(
        "rnnt", logits, targets, logit_lengths, target_lengths, blank, validate, extra_rows=extra_rows)
    losses = tensor_ops.monotonic_losses(
        arguments.to_lattice(logits), targets, logit_lengths, target_lengths, blank, inputs == "logits")
    return arguments.reduced(losses, logits.device, zero_infinity, reduction)


@transformable(1)
def multi_blank_rnnt_loss(logits, targets, logit_lengths, target_lengths, *, big_blanks, blank=0, sigma=0.0,
                          reduction="mean", zero_infinity=False, inputs="logits", validate="auto", extra_rows=False):
    """Multi-blank RNN-T loss (Xu et al. 2022) in nats: big blanks go on several frames at once.

    Parameters
    ----------
    logits : (B, T, U+1, V) tensor
        The big blanks are among the V symbols.
    targets, logit_lengths, target_lengths, blank, reduction, zero_infinity, inputs, validate, extra_rows
        As for :func:`.losses.rnnt_loss`; so are what is returned and what is raised.
    big_blanks : mapping from int to int
        The frames, at least 2, that each big blank goes on.
    sigma : float >= 0
        Taken off the log-prob of every arc ("logit under-normalisation"), which favours paths of few arcs.

    Notes
    -----
    The lattice is :func:`reference_impl.topology.multi_blank_rnnt_lattice`. Library code counts big blanks back from
    the blank, which is its last symbol; here they are named.

    Examples
    --------
    One frame, or a big blank over both:

    >>> logits = torch.zeros(1, 2, 1, 4, dtype=torch.float64)
    >>> nothing = torch.zeros(1, 0, dtype=torch.int64)
    >>> loss = multi_blank_rnnt_loss(logits, nothing, torch.tensor([2]), torch.tensor([0]), big_blanks={1: 2})
    >>> round(torch.exp(-loss).item(), 12)
    0.3125
    """
    arguments.check_call(reduction, inputs, validate, zero_infinity=zero_infinity)
    sigma = _validation.check_sigma(sigma)
    arguments.check_scores("logits", logits, 4, "(B, T, U+1, V)")
    big_blanks = _validation.check_big_blanks(
        big_blanks, logits.shape[-1], _validation.check_blank(blank, logits.shape[-1]))
    targets, logit_lengths, target_lengths, blank = arguments.check_batch(
        "rnnt", logits, targets, logit_lengths, target_lengths, blank, validate, [symbol for symbol, _ in big_blanks],
        extra_rows)
    losses = tensor_ops.multi_blank_losses(
        arguments.to_lattice(logits), targets, logit_lengths, target_lengths, blank, inputs == "logits", big_blanks,
        sigma)
    return arguments.reduced(losses, logits.device, zero_infinity, reduction)


@transformable(2)
def tdt_loss(logits, duration_logits, targets, logit_lengths, target_lengths, *, durations, blank=0, sigma=0.0,
             final_blank=True, reduction="mean", zero_infinity=False, inputs="logits", validate="auto",
             extra_rows=False):
    """Loss of the token-and-duration transducer (Xu et al. 2023) in nats: a symbol, and how many frames to go on.

    Parameters
    ----------
    logits : (B, T, U+1, V) tensor
        Of symbols.
    duration_logits : (B, T, U+1, D) tensor
        Of durations: of the dtype and on the device of ``logits``, and normalised apart from them.
    targets, logit_lengths, target_lengths, blank, reduction, zero_infinity, inputs, validate, extra_rows
        As for :func:`.losses.rnnt_loss`; so are what is returned and what is raised. ``inputs`` is for both logits.
    durations : sequence of D ints
        Frames, in rising order, none below 0. A blank cannot have duration 0.
    sigma : float >= 0
        Taken off the log-prob of every symbol ("logit under-normalisation"), which favours paths of few arcs.
    final_blank : bool
        Whether a path has to end with a blank, as in the library that the loss comes with. False: the last label may go
        to the end of the last frame itself, as the paper's equations (6) to (8) have it.

    Notes
    -----
    The lattice is :func:`reference_impl.topology.tdt_lattice`: the last arc goes exactly to the end of the last frame.
    Any set of durations is right, with 1 or without.

    Examples
    --------
    >>> logits, durations = torch.zeros(1, 2, 1, 2), torch.zeros(1, 2, 1, 3)
    >>> nothing = torch.zeros(1, 0, dtype=torch.int64)
    >>> loss = tdt_loss(logits, durations, nothing, torch.tensor([2]), torch.tensor([0]), durations=[0, 1, 2])
    >>> round(36 * torch.exp(-loss).item(), 4)
    7.0
    """
    arguments.check_call(reduction, inputs, validate, zero_infinity=zero_infinity, final_blank=final_blank)
    sigma, durations = _validation.check_sigma(sigma), _validation.check_durations(durations)
    targets, logit_lengths, target_lengths, blank = arguments.check_batch(
        "rnnt", logits, targets, logit_lengths, target_lengths, blank, validate, extra_rows=extra_rows)
    arguments.check_beside("duration_logits", duration_logits, logits, (*logits.shape[:-1], len(durations)),
                           "as logits, and D, the number of durations")
    both = map(arguments.to_lattice, (logits, duration_logits))
    losses = tensor_ops.tdt_losses(*both, targets, logit_lengths, target_lengths, blank, inputs == "logits", durations,
                                   sigma, final_blank)
    return arguments.reduced(losses, logits.device, zero_infinity, reduction)


@transformable(1)
def pruned_rnnt_loss(logits, first_rows, targets, logit_lengths, target_lengths, *, label_frames=0, blank=0,
                     reduction="mean", zero_infinity=False, inputs="logits", validate="auto"):
    """Pruned RNN-T loss (Kuang et al. 2022) in nats: of those alignments alone that stay inside a band of the grid.

    Parameters
    ----------
    logits : (B, T, Q, V) tensor
        Of Q rows in each frame, 1 <= Q <= U + 1.
    first_rows : (B, T) tensor of int32 or int64
        The row of the grid that is row 0 of the band, in [0, U + 1 - Q], such as from :func:`.pruning.first_rows`. It
        is a constant: no gradient flows to whatever it was computed from.
    targets, logit_lengths, target_lengths, blank, reduction, zero_infinity, inputs, validate
        As for :func:`.losses.rnnt_loss`; so are what is returned and what is raised.
    label_frames : 0 or 1
        Frames that a label advances: 0 as in RNN-T, 1 as in monotonic RNN-T.

    Notes
    -----
    The lattice is :func:`reference_impl.topology.pruned_rnnt_lattice`. For the same logits the loss is at least that of
    the whole grid. A band without a way through has no alignment: loss ``inf``, gradient 0.

    Examples
    --------
    >>> logits = torch.zeros(1, 3, 2, 2, dtype=torch.float64)
    >>> labels = torch.tensor([[1, 1]])
    >>> loss = pruned_rnnt_loss(logits, torch.tensor([[0, 0, 1]]), labels, torch.tensor([3]), torch.tensor([2]))
    >>> round(32 * torch.exp(-loss).item(), 12)
    2.0
    """
    arguments.check_call(reduction, inputs, validate, zero_infinity=zero_infinity)
    label_frames = _validation.check_choice("label_frames", label_frames, (0, 1))
    targets, logit_lengths, target_lengths, blank = arguments.check_batch(
        "band", logits, targets, logit_lengths, target_lengths, blank, validate)
    first_rows = arguments.check_band(first_rows, logits, logit_lengths, targets.shape[1], validate)
    losses = tensor_ops.pruned_losses(
        arguments.to_lattice(logits), first_rows, targets, logit_lengths, target_lengths, blank, inputs == "logits",
        label_frames)
    return arguments.reduced(losses, logits.device, zero_infinity, reduction)

"""A loss written in torch as a :class:`Candidate`, for the checks and for ``diagnose``, and the other way round.

It is no check, and no loss. Nothing else in the bank imports torch, so these functions are imported from here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from .._validation import check_choice
from .checks import Candidate

__all__ = ["torch_candidate", "torch_loss"]


def torch_candidate(loss: str, variable: str, function: Callable, *, dtype=torch.float64, tolerance=1e-9) -> Candidate:
    """Wrap a torch loss: arrays become tensors on the way in, and ``backward`` asks autograd.

    Parameters
    ----------
    loss : "ctc" | "rnnt"
    variable : "logits" | "log_probs"
        What ``function`` takes as scores; the gradient is with respect to them.
    function : callable
        ``function(scores, targets, logit_lengths, target_lengths, *, blank)`` returns the losses (B,), nats. Scores are
        (B, T, V) or (B, T, U+1, V) of ``dtype``, targets and lengths int64, all on the CPU. An argument that it cannot
        take, it should refuse with ``ValueError``: other errors pass for accidents.
    dtype : torch.dtype
        Of the scores; what comes out becomes float64.
    tolerance : float
        As for :class:`Candidate`: 1e-5 for a loss that computes in float32.

    Returns
    -------
    Candidate

    Raises
    ------
    ValueError
        For another ``loss`` or ``variable``.

    Examples
    --------
    torch's own CTC loss behind log-softmax, and as a function of the log-probs that its documentation speaks of
    :claim:`torch-ctc-documented`:

    >>> import numpy as np
    >>> from reference_impl.diagnosis import diagnose
    >>> def of_log_probs(log_probs, *batch, blank):
    ...     return torch.nn.functional.ctc_loss(log_probs.transpose(0, 1), *batch, blank=blank, reduction="none")
    >>> candidate = torch_candidate("ctc", "log_probs", of_log_probs)
    >>> loss, gradient = candidate(np.log(np.full((2, 2), 0.5)), [1])
    >>> round(float(np.exp(-loss)), 12), gradient.round(4).tolist()
    (0.75, [[0.1667, -0.1667], [0.1667, -0.1667]])
    >>> print(diagnose(candidate.gradient, variable="log_probs"))
    softmax term: present, but it belongs to the gradient with respect to the logits
    """
    check_choice("loss", loss, ("ctc", "rnnt"))
    check_choice("variable", variable, ("logits", "log_probs"))

    def wrapped(scores, targets, logit_lengths, target_lengths, *, blank=0):
        leaf = torch.tensor(scores, dtype=dtype, requires_grad=True)
        losses = function(leaf, *map(torch.tensor, (targets, logit_lengths, target_lengths)), blank=blank)

        def backward(upstream):
            upstream = torch.tensor(upstream, dtype=losses.dtype)
            return torch.autograd.grad(losses, leaf, upstream, retain_graph=True)[0].double().numpy()

        return losses.detach().double().numpy(), backward

    return Candidate(loss, variable, wrapped, tolerance=tolerance)


class _OfCandidate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, function, blank, *integers):
        arrays = (scores.detach().cpu().double().numpy(), *(each.cpu().numpy() for each in integers))
        losses, ctx.pull_back = function(*arrays, blank=blank)
        ctx.like = scores.detach()
        return ctx.like.new_tensor(np.asarray(losses))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, upstream):
        gradient = ctx.pull_back(upstream.cpu().double().numpy())
        return torch.as_tensor(gradient).to(ctx.like), None, None, None, None, None


def torch_loss(candidate: Candidate) -> Callable:
    """A candidate as a torch loss, to train a network with: what it returns as gradient is what autograd passes on.

    Parameters
    ----------
    candidate : Candidate
        A planted bug, say.

    Returns
    -------
    callable
        ``loss(scores, targets, logit_lengths, target_lengths, *, blank=0)`` takes tensors, and returns the losses (B,)
        in the dtype of the scores. The candidate computes in float64 on the CPU. There is no second derivative.

    Examples
    --------
    >>> from reference_impl.bug_bank import RIGHT
    >>> scores = torch.zeros(1, 2, 2, dtype=torch.float64, requires_grad=True)
    >>> batch = torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1])
    >>> losses = torch_loss(RIGHT[0])(scores, *batch)
    >>> (2 * losses.sum()).backward()
    >>> round(torch.exp(-losses).item(), 12), (3 * scores.grad).round(decimals=12).tolist()
    (0.75, [[[1.0, -1.0], [1.0, -1.0]]])
    """
    def losses(scores, targets, logit_lengths, target_lengths, *, blank=0):
        return _OfCandidate.apply(scores, candidate.function, blank, targets, logit_lengths, target_lengths)

    return losses

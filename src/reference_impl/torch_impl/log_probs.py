"""The log-probs that a lattice uses, gathered from logits, and the way back: tensor operations, differentiable twice.

This is the first half of every loss here; the second, from log-probs on arcs to -log Z, is in :mod:`.grid`. The
log-softmax is never written down: rows are normalised where they are gathered, and the way back makes one tensor of the
size of the logits, which is the gradient.
"""

from __future__ import annotations

import torch

from .derivatives import gradients, overwriting
from .edges import compute_dtype, handed_back
from .tracing import operator, traced

__all__ = ["gather_log_probs", "gathered", "scattered"]

_LATTICE = torch.float64


def gather_log_probs(logits, index, used, *, normalise=True, overwrite=False):
    """Log-probs of chosen symbols in every row.

    Parameters
    ----------
    logits : (..., V) tensor
        Unnormalised scores, or log-probs if ``normalise`` is False.
    index : (..., A) tensor of int64
        Symbols in [0, V).
    used : (..., A) tensor of bool
        What is not used becomes ``-inf``, whatever the logits hold there.
    overwrite : bool
        Whether ``backward`` writes the gradient over the logits, if no tracer looks on. Then there is no second
        derivative.

    Returns
    -------
    (..., A) float64 tensor, nats
        In ``backward`` a row that nothing flows back to gets exactly 0.
    """
    if traced(logits):
        return _operator(logits, index, used, normalise)
    return _Gather.apply(logits, index, used, normalise, overwrite)


def gathered(logits, index, used, normalise):
    """The log-probs, and of each row the maximum and the float64 sum of exp(logits - maximum), for the way back."""
    peak, mass = _row_peak_and_mass(logits, normalise)
    # the peak first: the sum of a peak and of its logarithm would round the logarithm away where all logits are large
    log_probs = logits.gather(-1, index).to(_LATTICE) - peak[..., None] - mass.log()[..., None]
    return log_probs.masked_fill_(~used, -torch.inf), peak, mass


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, index, used, normalise, overwrite):
        log_probs, peak, mass = gathered(logits, index, used, normalise)
        ctx.normalise, ctx.overwrite = normalise, overwrite
        ctx.save_for_backward(logits, index, peak, mass)
        return log_probs

    @staticmethod
    def backward(ctx, flow):
        tensors = ctx.saved_tensors
        if not ctx.overwrite:
            return *gradients(_Derivatives(ctx.normalise), *tensors, flow), *[None] * 4
        return _overwritten(flow, *tensors, ctx.normalise), *[None] * 4


@overwriting
def _overwritten(flow, logits, index, peak, mass, normalise):
    return handed_back(scattered(flow, logits, index, peak, mass, normalise, True), logits, True)


class _Derivatives:
    """The transpose of the gather: what flows back to each log-prob, less softmax times the sum of its row."""

    count = 1

    def __init__(self, normalise):
        self.normalise = normalise

    def gradients(self, logits, index, peak, mass, flow):
        return (scattered(flow, logits, index, peak, mass, self.normalise).to(logits.dtype),)

    def second(self, logits, index, peak, mass, flow, direction):
        direction = direction.to(compute_dtype(logits))
        along_flow = direction.gather(-1, index).to(_LATTICE)
        if not self.normalise:
            return torch.zeros_like(logits), along_flow
        softmax = _scaled_softmax(logits, peak, mass, 1.0)
        mean = (softmax * direction).sum(-1, keepdim=True)
        along_logits = softmax.mul_(direction - mean).mul_(-flow.sum(-1, keepdim=True).to(softmax.dtype))
        return along_logits.masked_fill_(_nothing_flows(flow), 0.0).to(logits.dtype), along_flow - mean


def _nothing_flows(flow):
    """Rows without any flow, (..., 1): what their logits are has no influence, NaN included."""
    return (flow == 0).all(-1, keepdim=True)


def scattered(flow, logits, index, peak, mass, normalise, overwrite=False):
    """The gradient in the type to compute in; if it may be overwritten, in the memory of logits of that type."""
    memory = logits.detach() if overwrite and logits.dtype == compute_dtype(logits) else None
    if normalise:
        largest = torch.finfo(flow.dtype).max  # which an upstream gradient of inf has made of a flow, if not more
        grad = _scaled_softmax(logits, peak, mass, -flow.sum(-1).clamp_(-largest, largest), memory)
    else:
        grad = torch.zeros_like(logits, dtype=compute_dtype(logits)) if memory is None else memory.zero_()
    grad.scatter_add_(-1, index, flow.to(grad.dtype))
    return grad.masked_fill_(_nothing_flows(flow), 0.0)


def _row_peak_and_mass(logits, normalise):
    """Maximum of each row and float64 sum of exp(logits - maximum); 0 and 1 for scores taken as they are."""
    if not normalise:
        peak = torch.zeros(logits.shape[:-1], dtype=compute_dtype(logits), device=logits.device)
        return peak, torch.ones_like(peak, dtype=_LATTICE)
    scores = logits.to(compute_dtype(logits))
    peak = scores.amax(-1)
    peak = peak.masked_fill(peak == -torch.inf, 0.0)
    mass = (scores - peak[..., None]).exp_().sum(-1, dtype=_LATTICE)
    return peak, mass.masked_fill(mass == 0.0, 1.0)


def _scaled_softmax(logits, peak, mass, scale, memory=None):
    """softmax * scale of each row, in the type to compute in; ``memory`` is that of the logits, to be overwritten."""
    dtype = compute_dtype(logits)
    grad = logits.to(dtype) - peak[..., None] if memory is None else memory.sub_(peak[..., None])
    return grad.exp_().mul_((scale / mass).to(dtype)[..., None])


def _like(logits, index, *_):
    peak = logits.new_empty(logits.shape[:-1], dtype=compute_dtype(logits))
    return logits.new_empty(index.shape, dtype=_LATTICE), peak, torch.empty_like(peak, dtype=_LATTICE)


def _traced_gradient(flow, logits, index, used, normalise, peak, mass):
    return scattered(flow, logits, index, peak, mass, normalise).to(logits.dtype).contiguous()


_operator = operator(
    "gather_log_probs", "Tensor logits, Tensor index, Tensor used, bool normalise", 2,
    lambda *given: tuple(each.contiguous() for each in gathered(*given)), _like, _traced_gradient)

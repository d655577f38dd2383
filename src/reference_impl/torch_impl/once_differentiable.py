"""A backward pass that refuses to be differentiated again, instead of being silently wrong. Used by every backend."""

from __future__ import annotations

import functools

import torch

__all__ = ["once_differentiable"]


class _NoSecondDerivative(torch.autograd.Function):
    """The first argument, as something that depends on the others in a way that cannot be differentiated."""

    @staticmethod
    def forward(ctx, gradient, *depends_on):
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx, upstream):
        raise RuntimeError("the second derivative of ctc_loss and rnnt_loss is not implemented")


def once_differentiable(backward):
    """Like torch's, which takes a gradient for a constant when the *upstream* gradient is one; this one never does."""
    @functools.wraps(backward)
    def wrapper(ctx, upstream):
        with torch.no_grad():
            gradient, *others = backward(ctx, upstream)
        if torch.is_grad_enabled():
            gradient = _NoSecondDerivative.apply(gradient, ctx.saved_tensors[0], upstream)
        return gradient, *others
    return wrapper

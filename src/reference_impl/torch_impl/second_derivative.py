"""How a backward pass is differentiated again: refused, so that it is never silently wrong, or done by another loss.

``once_differentiable`` refuses. ``twice_differentiable`` is for backends that compute a gradient by other means than
autograd's: the derivative of that gradient is taken of a loss made of tensor operations, which is the same function.
"""

from __future__ import annotations

import functools

import torch

__all__ = ["once_differentiable", "twice_differentiable"]


def once_differentiable(message):
    """A decorator for ``backward(ctx, *upstream)`` that raises ``message`` when its results are differentiated.

    Torch's decorator of this name takes the result for a constant when only ``upstream`` needs no gradient; this one
    never does.
    """
    def decorate(backward):
        @functools.wraps(backward)
        def wrapper(ctx, *upstream):
            depends_on = [*ctx.saved_tensors, *upstream] if torch.is_grad_enabled() else []
            with torch.no_grad():
                results = backward(ctx, *upstream)
            if not depends_on:
                return results
            return tuple(each if each is None else _Refusal.apply(message, each, *depends_on) for each in results)
        return wrapper
    return decorate


class _Refusal(torch.autograd.Function):
    """A result, as something that depends on tensors in a way that cannot be differentiated."""

    @staticmethod
    def forward(ctx, message, result, *depends_on):
        ctx.message = message
        return result.view_as(result)

    @staticmethod
    def backward(ctx, upstream):
        raise RuntimeError(ctx.message)


def twice_differentiable(backward):
    """A decorator for the ``backward(ctx, upstream)`` of a loss of logits, which are the first of its saved tensors.

    ``ctx.same_losses`` is a function from logits to the same losses (B,), differentiable twice, or the reason why there
    is none, as text.
    """
    @functools.wraps(backward)
    def wrapper(ctx, upstream):
        again = torch.is_grad_enabled()
        logits = ctx.saved_tensors[0]
        with torch.no_grad():
            gradient, *others = backward(ctx, upstream)
        if again:
            gradient = _Gradient.apply(gradient, logits, upstream, ctx.same_losses)
        return gradient, *others
    return wrapper


class _Gradient(torch.autograd.Function):
    """A gradient that is known, as a function of logits and upstream gradient."""

    @staticmethod
    def forward(ctx, gradient, logits, upstream, same_losses):
        ctx.same_losses = same_losses
        ctx.save_for_backward(logits, upstream)
        return gradient.view_as(gradient)

    @staticmethod
    @once_differentiable("a third derivative of a loss was asked for; expected two at most")
    def backward(ctx, direction):
        if isinstance(ctx.same_losses, str):
            raise RuntimeError(ctx.same_losses)
        logits, upstream = (each.detach().requires_grad_() for each in ctx.saved_tensors)
        with torch.enable_grad():
            gradient, = torch.autograd.grad(ctx.same_losses(logits), logits, upstream, create_graph=True)
        return None, *torch.autograd.grad(gradient, (logits, upstream), direction), None

"""What tracers see of the losses: torch.compile, torch.export, make_fx and fake tensors, which know shapes, no values.

They see operators of torch, ``torch.ops.reference_impl``, each made here of functions that run in eager mode. Nothing
is computed here. Eager mode does without the operators: they cost it time, and a function without side effects can
neither write a gradient over memory that is there nor be differentiated twice.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

__all__ = ["operator", "traced"]

_LIBRARY = "reference_impl"
_PROXY = torch._C._TorchDispatchModeKey.PROXY


def traced(tensor):
    """Whether what is done with a tensor is written down for later, or done with shapes alone."""
    return (torch.compiler.is_compiling() or isinstance(tensor, FakeTensor)
            or torch._C._get_dispatch_mode(_PROXY) is not None)  # make_fx, with tensors that have values


def operator(name, arguments, states, losses, like, gradient):
    """A function of scores, differentiable once, whose calls a tracer writes down as they are.

    Parameters
    ----------
    name : str
    arguments : str
        As in a schema of torch, separated by ", ". The first is "Tensor logits", or "Tensor[]" for several scores.
    states : int
        Tensors that ``losses`` leaves for ``gradient``.
    losses : callable
        Of the arguments: a tuple of the result and ``states`` tensors. All are contiguous and share no memory, neither
        with each other nor with an argument; so does the gradient.
    like : callable
        Of the arguments: what ``losses`` returns, with the right shapes and types, and any numbers.
    gradient : callable
        Of the upstream gradient, the arguments and the states: the gradient with respect to the first argument, like it
        in shape and type; for "Tensor[]" a list.

    Returns
    -------
    callable
        Of the arguments: the result.
    """
    several = arguments.startswith("Tensor[]")
    kept = "".join(f", Tensor state{i}" for i in range(states))
    forward = torch.library.custom_op(f"{_LIBRARY}::{name}", losses, mutates_args=(),
                                      schema=f"({arguments}) -> (Tensor{', Tensor' * states})")
    forward.register_fake(like)
    backward = torch.library.custom_op(f"{_LIBRARY}::{name}_backward", gradient, mutates_args=(),
                                       schema=f"(Tensor upstream, {arguments}{kept}) -> Tensor{'[]' * several}")
    backward.register_fake(lambda upstream, scores, *_: list(map(_memory, scores)) if several else _memory(scores))
    backward.register_autograd(_refused)
    forward_operator, backward_operator = (
        getattr(getattr(torch.ops, _LIBRARY), each).default for each in (name, f"{name}_backward"))

    def remember(ctx, inputs, output):
        scores, *others = inputs
        scores = scores if several else [scores]
        ctx.count, ctx.others = len(scores), [torch.Tensor if isinstance(each, torch.Tensor) else each
                                              for each in others]
        ctx.save_for_backward(*scores, *output[1:], *(each for each in others if isinstance(each, torch.Tensor)))
        ctx.mark_non_differentiable(*output[1:])

    def flow(ctx, upstream, *_):
        tensors = iter(ctx.saved_tensors)
        scores, kept = ([next(tensors) for _ in range(each)] for each in (ctx.count, states))
        others = [next(tensors) if each is torch.Tensor else each for each in ctx.others]
        return backward_operator(upstream, scores if several else scores[0], *others, *kept), *[None] * len(others)

    forward.register_autograd(flow, setup_context=remember)
    return lambda *given: forward_operator(*given)[0]


def _memory(scores):
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def _refused(ctx, *_):
    raise RuntimeError("the second derivative of a traced loss was asked for; expected eager mode, without "
                       "torch.compile, torch.export and fake tensors")

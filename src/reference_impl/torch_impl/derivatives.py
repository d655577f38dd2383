"""What torch asks of a loss beyond one backward pass: second derivatives, batched backward passes, ``torch.func``.

Three functions are made of a loss, which may have any backend, or of a part of one: its values, their gradient, and the
derivative of that gradient. Each is a node of autograd with a rule for ``vmap``; the next one differentiates it, and a
third derivative is refused. A part has formulas for the last two (:func:`gradients`); a loss leaves them to autograd.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import SimpleNamespace

import torch

from .. import _validation
from .edges import REDUCTIONS

__all__ = ["constant", "gradients", "has_transforms", "overwriting", "transformable", "twice_differentiable",
           "why_once"]

_THIRD = "a third derivative of a loss was asked for; expected two at most"
_SEVERAL = "many gradients of a loss were asked for at once; expected overwrite_logits = False"


class _Apart(torch.autograd.Function):
    """A function that ``vmap`` calls for one entry after the other."""

    @classmethod
    def vmap(cls, info, in_dims, *arguments):
        N = info.batch_size

        def entry(each, dim, i):
            return each if dim is None else each.select(dim, i) if N else each.sum(dim, dtype=each.dtype)

        # of no entries, one of zeros says what shapes the results have
        results = [cls.apply(*(entry(each, dim, i) for each, dim in zip(arguments, in_dims, strict=True)))
                   for i in range(N or 1)]
        if isinstance(results[0], torch.Tensor):
            return torch.stack(results)[:N], 0
        return tuple(torch.stack(each)[:N] for each in zip(*results, strict=True)), (0,) * len(results[0])

    @classmethod
    def of(cls, *arguments):
        """``apply``, also where autograd takes many gradients at once: its own vmap does not ask for the rule."""
        dims = [0 if _is_of_autograds_vmap(each) else None for each in arguments]
        if all(dim is None for dim in dims):
            return cls.apply(*arguments)
        level = max(_level(each) for each, dim in zip(arguments, dims, strict=True) if dim == 0)
        arguments = [each if dim is None else torch._remove_batch_dim(each, level, 1, 0)
                     for each, dim in zip(arguments, dims, strict=True)]
        size = next(len(each) for each, dim in zip(arguments, dims, strict=True) if dim == 0)
        results, _ = cls.vmap(SimpleNamespace(batch_size=size), dims, *arguments)
        if isinstance(results, torch.Tensor):
            return torch._add_batch_dim(results, 0, level)
        return tuple(torch._add_batch_dim(each, 0, level) for each in results)


def _is_of_autograds_vmap(argument):
    return isinstance(argument, torch.Tensor) and torch._C._functorch.is_legacy_batchedtensor(argument)


def _level(batched):
    """Of autograd's vmap, asked of the tensor: threads of the engine, which run backward passes, do not know it."""
    return max(level for level in range(1, 65) if torch._remove_batch_dim(batched, level, 0, 0).shape[0])


class _Refusal(_Apart):
    """A result, as something that depends on tensors in a way that cannot be differentiated."""

    @staticmethod
    def forward(message, result, *depends_on):
        return result.view_as(result)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.message = inputs[0]

    @staticmethod
    def backward(ctx, upstream):
        raise RuntimeError(ctx.message)

    @staticmethod
    def jvp(ctx, *_):
        raise RuntimeError(ctx.message)


def _refused(message, results, *depends_on):
    """The results, whose derivatives with respect to some tensors raise ``message``; others are left as they are.

    Autograd runs a node only on the way to what it was asked for. So the refusal is a zero that is added.
    """
    if not torch.is_grad_enabled():
        return results
    nothing = _Refusal.of(message, results[0].new_zeros(1), *depends_on)
    return tuple(each if each is None else each + nothing.to(each.dtype) for each in results)


def why_once(overwrite, fastemit_lambda=0.0, clamp=None):
    """Why a loss has no second derivative; None if it has one."""
    for name, value, nothing in (("overwrite_logits", overwrite, False), ("fastemit_lambda", fastemit_lambda, 0),
                                 ("clamp", clamp, None)):
        if value != nothing:
            return f"the second derivative of a loss was asked for; expected {name} = {nothing}"
    return None


def overwriting(backward):
    """A decorator for a backward pass, ``backward(flow, logits, ...)``, that writes its gradient over the logits."""
    @functools.wraps(backward)
    def wrapper(flow, logits, *others):
        if _is_transformed(flow):
            raise RuntimeError(_SEVERAL)
        with torch.no_grad():
            gradient = backward(flow, logits, *others)
        return _Refusal.of(why_once(True), gradient, flow, logits) if torch.is_grad_enabled() else gradient
    return wrapper


def _has_tangent(value):
    """Whether forward mode differentiates a tensor. Its level is that of all threads, so it alone says nothing."""
    forward_ad = torch.autograd.forward_ad
    return (forward_ad._current_level >= 0 and isinstance(value, torch.Tensor)
            and forward_ad.unpack_dual(value).tangent is not None)


def has_transforms(values):
    """Whether torch.func or forward mode is at work on some of the values."""
    return torch._C._are_functorch_transforms_active() or any(map(_has_tangent, values))


def _is_transformed(upstream):
    """Whether an upstream gradient stands for many, or has a tangent."""
    return (torch._C._functorch.is_functorch_wrapped_tensor(upstream) or _is_of_autograds_vmap(upstream)
            or _has_tangent(upstream))


def _refuse_forward_in_forward():
    """torch calls a ``jvp`` with forward mode switched off: an outer tangent would be 0 without a word."""
    if torch._functorch.eager_transforms.JVP_NESTING > 1:
        raise RuntimeError("forward mode inside forward mode was asked for; expected reverse mode for one of the two")


def transformable(count):
    """A decorator for a loss of ``count`` tensors of scores, other tensors, and options that are keywords.

    The batch comes first in every tensor. Inside a transform the losses are one node, which calls the loss with
    ordinary tensors; ``vmap`` makes one batch of many for it. ``overwrite_logits`` has no effect there.
    """
    def decorate(loss):
        signature = inspect.signature(loss)

        @functools.wraps(loss)
        def wrapper(*arguments, **options):
            if not has_transforms((*arguments, *options.values())):
                return loss(*arguments, **options)
            if torch.compiler.is_compiling():
                torch._dynamo.graph_break("torch.func and forward mode differentiate a loss in eager mode only")
            return _without_compiler(transformed)(*arguments, **options)

        def transformed(*arguments, **options):
            given = signature.bind(*arguments, **options)
            given.apply_defaults()
            tensors, options = given.args, given.kwargs
            reduction = _validation.check_choice("reduction", options.pop("reduction"), tuple(REDUCTIONS))
            _validation.check_bool("overwrite_logits", options.pop("overwrite_logits", False))
            losses = functools.partial(loss, reduction="none", **options)
            if not all(isinstance(each, torch.Tensor) for each in tensors):
                return losses(*tensors)  # which says what is wrong with them
            return REDUCTIONS[reduction](_Losses.apply(_ByAutograd(losses, count), *tensors))
        return wrapper
    return decorate


def constant(function, *tensors):
    """Integers that a function makes of the values of tensors, the batch first in all, inside transforms too."""
    if not has_transforms(tensors):
        return function(*tensors)
    return _Constant.apply(_ByAutograd(function, len(tensors)), *tensors)


def _without_compiler(function):
    """A function that nothing compiles, nor what it calls; torch's compiler is not imported for that."""
    return torch._dynamo.disable(function) if "torch._dynamo" in sys.modules else function


class _OfScores(_Apart):
    """A function of ``(function, *tensors)``: first ``function.count`` tensors of scores, all with the batch first."""

    @classmethod
    def vmap(cls, info, in_dims, function, *tensors):
        N, dims = info.batch_size, in_dims[1:]
        if all(dim is None for dim in dims[:function.count]) and (N or not isinstance(function, _ByAutograd)):
            return super().vmap(info, in_dims, function, *tensors)  # many gradients of the same scores: not copied

        for name, tensor, dim in zip(inspect.signature(function.losses).parameters, tensors, dims, strict=False):
            if tensor.ndim == (dim is not None):
                raise ValueError(f"{name} has no axis inside vmap; expected the batch first, as {name}[None] has it")

        folded = [tensor.expand(N, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
                  for tensor, dim in zip(tensors, dims, strict=True)]
        B = folded[0].shape[1]
        results = cls.apply(function, *(each.flatten(0, 1) for each in folded))
        if isinstance(results, torch.Tensor):
            return results.unflatten(0, (N, B)), 0
        return tuple(each.unflatten(0, (N, B)) for each in results), (0,) * len(results)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.function, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)


class _Losses(_OfScores):
    """Losses of scores and others."""

    @staticmethod
    def forward(function, *tensors):
        return function.losses(*tensors)

    @staticmethod
    def backward(ctx, upstream):
        tensors, count = ctx.saved_tensors, ctx.function.count
        return None, *gradients(ctx.function, *tensors, upstream), *[None] * (len(tensors) - count)

    @staticmethod
    def jvp(ctx, _, *tangents):
        _refuse_forward_in_forward()
        ones = torch.ones_like(_Losses.apply(ctx.function, *ctx.saved_tensors))
        along = zip(gradients(ctx.function, *ctx.saved_tensors, ones), tangents, strict=False)
        return sum((each.to(ones.dtype) * direction).sum(tuple(range(1, each.ndim))) for each, direction in along)


class _Constant(_Losses):
    """Integers of tensors, which have no derivative."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output)

    @staticmethod
    def jvp(ctx, *_):
        return None


class _ByAutograd:
    """The two derivatives of losses (B,), functions of ``count`` tensors of scores and of others."""

    def __init__(self, losses, count):
        self.losses, self.count = losses, count

    @torch.inference_mode(False)
    def gradients(self, *tensors):
        *tensors, upstream = map(_ordinary, tensors)
        scores, losses = self._graph(tensors)
        return torch.autograd.grad(losses, scores, upstream)

    @torch.inference_mode(False)
    def second(self, *tensors):
        tensors = [*map(_ordinary, tensors)]
        tensors, upstream, directions = tensors[:-self.count - 1], tensors[-self.count - 1], tensors[-self.count:]
        upstream.requires_grad_()
        scores, losses = self._graph(tensors)
        gradients = torch.autograd.grad(losses, scores, upstream, create_graph=True)
        return torch.autograd.grad(gradients, (*scores, upstream), directions)

    def _graph(self, tensors):
        """Scores as leaves, and the losses as a graph on them."""
        scores = [each.requires_grad_() for each in tensors[:self.count]]
        with torch.enable_grad():
            return scores, self.losses(*scores, *tensors[self.count:])


def _ordinary(tensor):
    """The tensor as a leaf; a copy of one that was made in inference mode, since autograd saves none of these."""
    return tensor.clone() if tensor.is_inference() else tensor.detach()


def gradients(function, *tensors):
    """Gradients with respect to tensors of scores, which may be differentiated again.

    Parameters
    ----------
    function : object
        Its ``gradients(*tensors)`` computes what is returned here. Its ``second(*tensors, *directions)``, with a
        direction for each gradient, computes how their scalar product changes with each tensor of scores, and last with
        the upstream gradient. Autograd does not see what these two do. ``count`` is the number of tensors of scores.
    *tensors : tensors
        Scores, others that are not differentiated, and an upstream gradient, in which the gradients are linear.

    Returns
    -------
    tuple of ``count`` tensors
    """
    return _Gradient.of(function, *tensors)


class _Gradient(_OfScores):
    @staticmethod
    def forward(function, *tensors):
        return tuple(function.gradients(*tensors))

    @staticmethod
    def backward(ctx, *directions):
        *along_scores, along_upstream = _second(ctx.function, ctx.saved_tensors, directions)
        return None, *along_scores, *[None] * (len(ctx.saved_tensors) - len(directions) - 1), along_upstream

    @staticmethod
    def jvp(ctx, _, *tangents):
        _refuse_forward_in_forward()
        return _along(ctx.function, ctx.saved_tensors, tangents[:ctx.function.count], tangents[-1])


class _Second(_OfScores):
    """How a scalar product of the gradients with directions changes with the scores, and with the upstream gradient."""

    @staticmethod
    def forward(function, *tensors):
        return tuple(function.second(*tensors))

    @staticmethod
    def backward(ctx, *along):
        *of_scores, of_upstream = along
        *tensors, upstream = ctx.saved_tensors[:-len(of_scores)]
        return None, *[None] * (len(tensors) + 1), *_along(ctx.function, (*tensors, upstream), of_scores, of_upstream)

    @staticmethod
    def jvp(ctx, *tangents):
        _refuse_forward_in_forward()
        count = ctx.function.count
        return _Second.of(ctx.function, *ctx.saved_tensors[:-count], *tangents[-count:])


def _second(function, tensors, directions):
    """As :class:`_Second`, differentiable in the directions alone."""
    scores, others, upstream = tensors[:function.count], tensors[function.count:-1], tensors[-1]
    along = _Second.of(function, *(each.detach() for each in scores), *others, upstream.detach(), *directions)
    return _refused(_THIRD, along, *scores, upstream)


def _along(function, tensors, of_scores, of_upstream):
    """How the gradients change as the scores and the upstream gradient go in directions: the Hessian is symmetric."""
    *along, _ = _second(function, tensors, of_scores)
    return tuple(a + b for a, b in zip(along, gradients(function, *tensors[:-1], of_upstream), strict=True))


def twice_differentiable(backward):
    """A decorator for the ``backward(ctx, upstream, logits, *others)`` of a Function that computes its own gradient.

    The tensors are those that the Function saved, unpacked once: checkpointing hands each out a single time. The first
    are logits, targets and both lengths. ``ctx.again`` computes the same losses of these four, ``ctx.once`` says why
    there is no second derivative, or is None, and ``ctx.overwrite`` whether the gradient replaces the logits.
    """
    @functools.wraps(backward)
    def wrapper(ctx, upstream):
        tensors = ctx.saved_tensors
        if _is_transformed(upstream):
            if ctx.overwrite:
                raise RuntimeError(_SEVERAL)
            return gradients(_ByAutograd(ctx.again, 1), *tensors[:4], upstream)[0]
        with torch.no_grad():
            gradient = backward(ctx, upstream, *tensors)
        if not torch.is_grad_enabled():
            return gradient
        if ctx.once is not None:
            return _Refusal.of(ctx.once, gradient, tensors[0], upstream)
        return _Known.apply(_ByAutograd(ctx.again, 1), gradient, *tensors[:4], upstream)
    return wrapper


class _Known(torch.autograd.Function):
    """A gradient that is known, as what :func:`gradients` would compute."""

    @staticmethod
    def forward(ctx, function, gradient, *tensors):
        ctx.function = function
        ctx.save_for_backward(*tensors)
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx, direction):
        along_logits, along_upstream = _second(ctx.function, ctx.saved_tensors, [direction])
        return None, None, along_logits, *[None] * (len(ctx.saved_tensors) - 2), along_upstream

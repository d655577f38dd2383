"""Both losses as autograd.Functions that run on NumPy views of tensors on the CPU: the code of ``batched``, no copy.

Tensor operations cost more where there are many small ones, and on fresh memory. The exponentials of the logits are
kept from ``forward`` to ``backward``, where they become the gradient in place: the gradient's memory is taken earlier,
not twice. Without them (half precision, ``overwrite_logits``, a second backward) they are computed anew, one utterance
at a time.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from ..sweeps.ctc import ctc_sweeps
from ..sweeps.rnnt import rnnt_sweeps
from ..sweeps.vocabulary import ctc_gradient, ctc_log_probs, exp_rows, rnnt_gradient, rnnt_log_probs
from .derivatives import twice_differentiable, why_once
from .edges import compute_dtype, effective_upstream, handed_back, in_range, loss_values
from .tensor_ops import ctc_losses, rnnt_losses
from .tracing import operator

__all__ = ["CTC", "RNNT", "ctc_operator", "rnnt_operator", "takes"]

_STATES = 7  # what the gradient takes beside the logits: log Z and the arrays after it
_MODERATE = 1e6  # an upstream gradient up to this may join the factor of a row before the rest of the gradient is known


def takes(logits):
    """Whether logits are a plain tensor on the CPU, no fake one and no other subclass."""
    return logits.device.type == "cpu" and type(logits) in (torch.Tensor, torch.nn.Parameter)


class CTC(torch.autograd.Function):
    """Losses (B,) of logits (B, T, V), or of log-probs if ``normalise`` is False."""

    @staticmethod
    def forward(ctx, logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite):
        ctx.options, ctx.overwrite, ctx.once = (blank, normalise), overwrite, why_once(overwrite)
        ctx.again = functools.partial(ctc_losses, blank=blank, normalise=normalise)
        given, exps = (logits, targets, logit_lengths, target_lengths), _room_for_exps(ctx, logits, normalise)
        return _saved(ctx, given, exps, *_ctc_sums(*given, blank, normalise, exps, ctx.needs_input_grad[0]))

    @staticmethod
    def backward(ctx, upstream):
        return _ctc_backward(ctx, upstream), *[None] * 6


class RNNT(torch.autograd.Function):
    """Losses (B,) of logits (B, T, U+1, V), or of log-probs if ``normalise`` is False.

    ``fastemit_lambda`` and ``clamp`` (None: no bound) change what ``backward`` returns, not the losses.
    """

    @staticmethod
    def forward(ctx, logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite, fastemit_lambda,
                clamp):
        ctx.options, ctx.overwrite = (blank, normalise, fastemit_lambda, clamp), overwrite
        ctx.once = why_once(overwrite, fastemit_lambda, clamp)
        ctx.again = functools.partial(rnnt_losses, blank=blank, normalise=normalise, fastemit_lambda=fastemit_lambda,
                                      clamp=clamp)
        given, exps = (logits, targets, logit_lengths, target_lengths), _room_for_exps(ctx, logits, normalise)
        return _saved(ctx, given, exps, *_rnnt_sums(*given, blank, normalise, exps, ctx.needs_input_grad[0]))

    @staticmethod
    def backward(ctx, upstream):
        return _rnnt_backward(ctx, upstream), *[None] * 8


def _ctc_sums(logits, targets, logit_lengths, target_lengths, blank, normalise, exps=None, wanted=True):
    """Log Z (B,), and what the gradient takes: arrays. Without ``wanted`` the last two, the occupancies, are None."""
    _, T, V = logits.shape
    labels, T_of, U_of, usable = (each.numpy() for each in in_range(
        targets, logit_lengths, target_lengths, T, V, blank, least_frames=0))
    used = [(b, slice(t)) for b, t in enumerate(T_of)]
    scores = _Arrays(logits)
    mass, unit = _masses(logits, scores, used, normalise, exps)

    def log_probs_of(b):
        return ctc_log_probs(scores[used[b]], unit[used[b]], mass[used[b]], labels[b, :U_of[b]], blank)

    log_z, *states = ctc_sweeps(log_probs_of, labels, T_of, U_of, T, occupancy=wanted)
    log_z[~usable] = np.nan
    return log_z, mass, labels, T_of, U_of, *states


def _ctc_gradient(memory, upstream, log_z, mass, labels, T_of, U_of, blank_states, label_states, blank, normalise):
    """Fills the memory of the gradient."""
    upstream, flows = (each.numpy() for each in effective_upstream(upstream, log_z))
    mass, labels, T_of, U_of, blank_states, label_states = (
        each.numpy() for each in (mass, labels, T_of, U_of, blank_states, label_states))
    with np.errstate(over="ignore", invalid="ignore"):
        for b in np.flatnonzero(flows):
            t, u = T_of[b], U_of[b]
            now, later = (upstream[b], 1.0) if not abs(upstream[b]) > _MODERATE else (1.0, upstream[b])
            rows = memory.rows((b, slice(t)), mass[b, :t])
            ctc_gradient(rows, now / mass[b, :t] if normalise else None, now * blank_states[:t, b].sum(1),
                         now * label_states[:t, b, :u], labels[b, :u], blank)
            memory.finish((b, slice(t)), rows, later)
    memory.clear(flows, T_of)


def _rnnt_sums(logits, targets, logit_lengths, target_lengths, blank, normalise, exps=None, wanted=True):
    """As :func:`_ctc_sums`; the last two are posteriors of arcs."""
    _, T, rows, V = logits.shape
    labels, T_of, U_of, usable = (each.numpy() for each in in_range(
        targets, logit_lengths, target_lengths, T, V, blank, least_frames=1))
    used = [(b, slice(t), slice(u + 1)) for b, (t, u) in enumerate(zip(T_of, U_of, strict=True))]
    scores = _Arrays(logits)
    mass, unit = _masses(logits, scores, used, normalise, exps)

    def log_probs_of(b):
        return rnnt_log_probs(scores[used[b]], unit[used[b]], mass[used[b]], labels[b, :U_of[b]], blank)

    log_z, *arcs = rnnt_sweeps(log_probs_of, T_of, U_of, T, rows - 1, occupancy=wanted)
    log_z[~usable] = np.nan
    return log_z, mass, labels, T_of, U_of, *arcs


def _rnnt_gradient(memory, upstream, log_z, mass, labels, T_of, U_of, e_blank, e_label, blank, normalise,
                   fastemit_lambda, clamp):
    """Fills the memory of the gradient."""
    upstream, flows = (each.numpy() for each in effective_upstream(upstream, log_z))
    mass, labels, T_of, U_of, e_blank, e_label = (each.numpy() for each in (mass, labels, T_of, U_of, e_blank, e_label))
    with np.errstate(over="ignore", invalid="ignore"):
        for b in np.flatnonzero(flows):
            t, u = T_of[b], U_of[b]
            early = clamp is None and not abs(upstream[b]) > _MODERATE
            now, later = (upstream[b], 1.0) if early else (1.0, upstream[b])
            blank_arcs, label_arcs = e_blank[:t, :u + 1, b].copy(), e_label[:t, :u, b].copy()
            blank_arcs *= now
            label_arcs *= now * (1.0 + fastemit_lambda)
            node = blank_arcs.copy()
            node[:, :-1] += label_arcs
            used = b, slice(t), slice(u + 1)
            rows = memory.rows(used, mass[used])
            rnnt_gradient(rows, node / mass[used] if normalise else None, blank_arcs, label_arcs, labels[b, :u], blank)
            memory.finish(used, rows, later, clamp)
    memory.clear(flows, T_of, U_of + 1)


def _room_for_exps(ctx, logits, normalise):
    """Where exp of the logits is kept for ``backward``, if there is a use and a place for it, else None."""
    if not normalise or not ctx.needs_input_grad[0] or ctx.overwrite or logits.dtype != compute_dtype(logits):
        return None
    return np.empty(logits.shape, _dtype(logits))


def _masses(logits, scores, used, normalise, exps):
    """Mass of each row, and its unit, as of :func:`.exp_rows`."""
    mass, unit = np.ones(logits.shape[:-1]), np.zeros(logits.shape[:-1])
    if normalise:
        for each in used:
            unit[each] = exp_rows(scores[each], mass[each], None if exps is None else exps[each])
    return mass, unit


def _saved(ctx, given, exps, log_z, *arrays):
    """The losses; what ``backward`` needs is saved as tensors, which autograd releases in time."""
    log_z, ctx.fresh = torch.from_numpy(log_z), exps is not None
    if ctx.needs_input_grad[0]:
        ctx.save_for_backward(*given, None if exps is None else torch.from_numpy(exps), log_z,
                              *map(torch.from_numpy, arrays))
    return loss_values(log_z, compute_dtype(given[0]), ctx.options[1])


def _backward(gradient, ctx, upstream, logits, targets, logit_lengths, target_lengths, exps, *state):
    _, normalise, *_ = ctx.options
    memory = _Gradient(logits, exps if ctx.fresh else None, normalise, ctx.overwrite)
    ctx.fresh = False  # a second backward would find this gradient there, and has to begin anew
    gradient(memory, upstream, *state, *ctx.options)
    return handed_back(memory.grad, logits, ctx.overwrite)


_ctc_backward, _rnnt_backward = (twice_differentiable(functools.partial(_backward, gradient))
                                 for gradient in (_ctc_gradient, _rnnt_gradient))


def _dtype(tensor):
    return np.dtype(np.float64 if tensor.dtype == torch.float64 else np.float32)


class _Arrays:
    """Utterances of a tensor as arrays: views, or copies in float32 if it has half precision."""

    def __init__(self, tensor):
        self.tensor, self.half = tensor.detach().resolve_neg(), tensor.dtype != compute_dtype(tensor)
        self.whole = None if self.half else self.tensor.numpy()

    def __getitem__(self, used):
        return self.tensor[used].float().numpy() if self.half else self.whole[used]


class _Gradient:
    """Memory of the gradient, worked on as one array for each utterance; ``exps`` are of the logits, or None."""

    def __init__(self, logits, exps, normalise, overwrite):
        self.scores, self.anew = _Arrays(logits), normalise and exps is None
        if overwrite and (self.scores.half or logits.is_contiguous()):
            self.grad = logits.detach()
        elif exps is not None:
            self.grad = torch.from_numpy(exps.numpy())  # a tensor of its own, which no one else is known to hold
        elif self.scores.half:
            self.grad = torch.empty(logits.shape, dtype=logits.dtype)
        else:  # NumPy asks for huge pages
            self.grad = torch.from_numpy(np.empty(logits.shape, _dtype(logits)))
        self.memory = None if self.scores.half else self.grad.numpy()

    def rows(self, used, mass):
        """Contiguous memory for an utterance: exp of its logits, or anything if they are not to be normalised."""
        if self.scores.half:
            rows = self.scores[used]
            if self.anew:
                exp_rows(rows, mass, rows)
            return rows
        if self.anew:
            exp_rows(self.scores[used], mass, self.memory[used])
        return self.memory[used[:2]]

    def finish(self, used, rows, times, clamp=None):
        if clamp is not None:
            np.clip(rows, -clamp, clamp, out=rows)
        if times != 1.0:
            rows *= times
        if self.scores.half:
            self.grad[used] = torch.from_numpy(rows).to(self.grad.dtype)

    def clear(self, flows, *lengths):
        """Zeros where nothing flows, and in the padding of the next axes."""
        for b, flowing in enumerate(flows):
            if not flowing:
                self.grad[b] = 0.0
                continue
            for axis, length in enumerate(lengths):
                if length[b] < self.grad.shape[axis + 1]:
                    self.grad[b].narrow(axis, length[b], self.grad.shape[axis + 1] - length[b]).zero_()


def _operator(name, options, sums, gradient, states):
    """The same for tracers. Exponentials of the logits are not kept: an operator may not write over its arguments.

    ``states(T, B, U)`` has the shapes of the last two results of ``sums``.
    """
    def losses(logits, targets, logit_lengths, target_lengths, blank, normalise, *_):
        arrays = sums(logits, targets, logit_lengths, target_lengths, blank, normalise)
        log_z, *others = (torch.from_numpy(np.ascontiguousarray(each)) for each in arrays)
        return loss_values(log_z, compute_dtype(logits), normalise), log_z, *others

    def like(logits, targets, *_):
        (B, T), U = logits.shape[:2], targets.shape[1]
        shapes = (B,), logits.shape[:-1], (B, U), (B,), (B,), *states(T, B, U)
        types = [torch.float64] * 2 + [torch.int64] * 3 + [torch.float64] * 2
        return (logits.new_empty(B, dtype=compute_dtype(logits)),
                *(logits.new_empty(shape, dtype=kind) for shape, kind in zip(shapes, types, strict=True)))

    def backward(upstream, logits, targets, logit_lengths, target_lengths, blank, normalise, *others):
        options, state = others[:-_STATES], others[-_STATES:]
        memory = _Gradient(logits, None, normalise, False)
        gradient(memory, upstream, *state, blank, normalise, *options)
        return memory.grad

    return operator(name, "Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, "
                          f"bool normalise{options}", _STATES, losses, like, backward)


ctc_operator = _operator("ctc_numpy", "", _ctc_sums, _ctc_gradient,
                         lambda T, B, U: ((T, B, U + 1), (T, B, U)))
rnnt_operator = _operator("rnnt_numpy", ", float fastemit_lambda, float? clamp", _rnnt_sums, _rnnt_gradient,
                          lambda T, B, U: ((T, U + 1, B), (T, U + 1, B)))

"""The tensor-op backend: both losses as autograd.Functions made of ordinary torch operations, on any device.

A plain tensor on the CPU goes to :mod:`.numpy_ops`, which is faster there. The lattice is float64 and runs on shares,
with logarithms, as in :mod:`reference_impl.log_sweeps`; the sweep back and the gradient are computed in ``backward``,
when the upstream gradient is known. Arguments come checked for shape and dtype from :mod:`.losses`; labels and lengths
may still be wrong (``validate=False``), which makes their utterance NaN.
"""

from __future__ import annotations

import torch

from . import numpy_ops
from .edges import compute_dtype, effective_upstream, handed_back, in_range, in_use
from .once_differentiable import once_differentiable

__all__ = ["CTC", "RNNT"]

_LATTICE = torch.float64


class CTC:
    """The choice between NumPy and tensor operations; the arguments are those of the functions."""

    @staticmethod
    def apply(logits, *arguments):
        return (numpy_ops.CTC if numpy_ops.takes(logits) else TensorCTC).apply(logits, *arguments)


class RNNT:
    """The choice between NumPy and tensor operations; the arguments are those of the functions."""

    @staticmethod
    def apply(logits, *arguments):
        return (numpy_ops.RNNT if numpy_ops.takes(logits) else TensorRNNT).apply(logits, *arguments)


class TensorCTC(torch.autograd.Function):
    """Losses (B,) of logits (B, T, V), or of log-probs if ``normalise`` is False."""

    @staticmethod
    def forward(ctx, logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite):
        B, T, V = logits.shape
        labels, T_of, U_of, usable = in_range(targets, logit_lengths, target_lengths, T, V, blank, least_frames=0)
        extended = labels.new_full((B, 2 * labels.shape[1] + 1), blank)
        extended[:, 1::2] = labels
        used = in_use(T_of, T)[:, :, None] & in_use(2 * U_of + 1, extended.shape[1])[:, None]
        peak, mass = _row_peak_and_mass(logits, normalise)
        emission = logits.gather(2, extended[:, None].expand(B, T, -1))
        emission = _as_log_probs(emission, peak, mass, used)

        alphas, shares = _ctc_forward(emission.transpose(0, 1), extended)
        utterance = torch.arange(B, device=logits.device)
        ending_states = torch.stack([2 * U_of, (2 * U_of - 1).clamp(min=0)])
        ending = alphas[(T_of - 1).clamp(min=0), utterance, ending_states]
        ending[1].masked_fill_(U_of == 0, -torch.inf)
        log_z = torch.logaddexp(ending[0], ending[1])
        log_z = torch.where((T_of == 0) & (U_of == 0), 0.0, log_z).masked_fill(~usable, torch.nan)
        terminal = torch.zeros_like(alphas)
        where = ((T_of - 1).clamp(min=0).expand(2, B), utterance.expand(2, B), ending_states)
        # exp(-inf - 0) where nothing ends or no alignment exists: no occupancy starts there
        terminal.index_put_(where, (ending - log_z.masked_fill(log_z == -torch.inf, 0.0)).exp(), accumulate=True)
        ctx.normalise, ctx.overwrite = normalise, overwrite
        ctx.save_for_backward(logits, peak, mass, extended, T_of, log_z, shares, terminal)
        return (0.0 - log_z).to(compute_dtype(logits))

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        logits, peak, mass, extended, T_of, log_z, shares, terminal = ctx.saved_tensors
        B, T, _ = logits.shape
        upstream, flows = effective_upstream(upstream, log_z)
        occupancy = _ctc_backward(shares, terminal)[:T].transpose(0, 1) * upstream[:, None, None]
        grad = _scaled_softmax(logits, peak, mass, upstream[:, None].expand(B, T), ctx)
        grad.scatter_add_(2, extended[:, None].expand(B, T, -1), -occupancy.to(grad.dtype))
        grad.masked_fill_(~(in_use(T_of, T) & flows[:, None])[..., None], 0.0)
        return handed_back(grad, logits, ctx.overwrite), *[None] * 6


class TensorRNNT(torch.autograd.Function):
    """Losses (B,) of logits (B, T, U+1, V), or of log-probs if ``normalise`` is False.

    ``fastemit_lambda`` and ``clamp`` (None: no bound) change what ``backward`` returns, not the losses.
    """

    @staticmethod
    def forward(ctx, logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite, fastemit_lambda,
                clamp):
        B, T, rows, V = logits.shape
        labels, T_of, U_of, usable = in_range(targets, logit_lengths, target_lengths, T, V, blank, least_frames=1)
        frame = in_use(T_of, T)[:, :, None]
        peak, mass = _row_peak_and_mass(logits, normalise)
        index = labels[:, None, :, None].expand(B, T, rows - 1, 1)
        label_weight = _as_log_probs(logits[:, :, :-1].gather(3, index), peak[:, :, :-1], mass[:, :, :-1],
                                     (frame & in_use(U_of, rows - 1)[:, None])[..., None])[..., 0]
        blank_weight = _as_log_probs(logits[..., blank, None], peak, mass,
                                     (frame & in_use(U_of + 1, rows)[:, None])[..., None])[..., 0]
        utterance = torch.arange(B, device=logits.device)
        last_blank = blank_weight[utterance, T_of - 1, U_of]
        # blanks of the last frame lead out of the grid; the last blank is added at the end
        blank_weight.masked_fill_((torch.arange(T, device=logits.device) == T_of[:, None] - 1)[..., None], -torch.inf)

        alphas, blank_shares, label_shares = _rnnt_forward(_by_diagonal(blank_weight), _by_diagonal(label_weight, rows))
        last_node = (T_of - 1 + U_of, utterance, U_of)
        log_z = (alphas[last_node] + last_blank).masked_fill(~usable, torch.nan)
        terminal = torch.zeros_like(alphas)
        terminal[last_node] = (log_z != -torch.inf).to(_LATTICE)
        ctx.blank, ctx.normalise, ctx.overwrite = blank, normalise, overwrite
        ctx.fastemit_lambda, ctx.clamp = fastemit_lambda, clamp
        ctx.save_for_backward(logits, peak, mass, labels, T_of, U_of, log_z, blank_shares, label_shares, terminal)
        return (0.0 - log_z).to(compute_dtype(logits))

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        logits, peak, mass, labels, T_of, U_of, log_z, blank_shares, label_shares, terminal = ctx.saved_tensors
        B, T, rows, _ = logits.shape
        upstream, flows = effective_upstream(upstream, log_z)
        e_blank, e_label = _rnnt_backward(blank_shares, label_shares, terminal)
        e_blank, e_label = _by_frame(e_blank, T).permute(2, 0, 1), _by_frame(e_label, T).permute(2, 0, 1)
        e_label = e_label * (1.0 + ctx.fastemit_lambda)
        if ctx.clamp is None:
            e_blank, e_label = e_blank * upstream[:, None, None], e_label * upstream[:, None, None]
        grad = _scaled_softmax(logits, peak, mass, e_blank + e_label, ctx)
        grad[..., ctx.blank] -= e_blank.to(grad.dtype)
        index = labels[:, None, :, None].expand(B, T, rows - 1, 1)
        grad[:, :, :-1].scatter_add_(3, index, -e_label[:, :, :-1, None].to(grad.dtype))
        if ctx.clamp is not None:
            grad.clamp_(-ctx.clamp, ctx.clamp).mul_(upstream.to(grad.dtype)[:, None, None, None])
        used = in_use(T_of, T)[:, :, None] & in_use(U_of + 1, rows)[:, None]
        grad.masked_fill_(~(used & flows[:, None, None])[..., None], 0.0)
        return handed_back(grad, logits, ctx.overwrite), *[None] * 8


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


def _as_log_probs(gathered, peak, mass, in_use):
    """Gathered scores as float64 log-probs, ``-inf`` out of use; ``+inf``, which is no log-prob, becomes NaN."""
    gathered = gathered.to(_LATTICE) - (peak + mass.log())[..., None]
    gathered = gathered.masked_fill(gathered == torch.inf, torch.nan)
    return gathered.masked_fill(~in_use, -torch.inf)


def _scaled_softmax(logits, peak, mass, scale, ctx):
    """softmax * scale, or zeros for scores taken as they are: the first term of the gradient.

    In the memory of the logits if that may be overwritten and has the type to compute in.
    """
    dtype = compute_dtype(logits)
    grad = logits.detach() if ctx.overwrite and logits.dtype == dtype else None
    if not ctx.normalise:
        return (torch.empty(logits.shape, dtype=dtype, device=logits.device) if grad is None else grad).zero_()
    grad = logits.to(dtype) - peak[..., None] if grad is None else grad.sub_(peak[..., None])
    return grad.exp_().mul_((scale / mass).to(dtype)[..., None])


def _ctc_forward(emission, extended):
    """Log alpha (T, B, S) and the shares (T, 3, B, S) of the arcs that stay, move on one state, skip one."""
    T, B, S = emission.shape
    alphas = emission.new_full((max(T, 1), B, S), -torch.inf)
    shares = emission.new_zeros((T, 3, B, S))
    can_skip = extended[:, 2:] != extended[:, :-2]
    alphas[:1, :, :2] = emission[:1, :, :2] if T else -torch.inf
    for t in range(1, T):
        arriving = emission.new_full((3, B, S), -torch.inf)
        arriving[0] = alphas[t - 1]
        arriving[1, :, 1:] = alphas[t - 1, :, :-1]
        arriving[2, :, 2:] = alphas[t - 1, :, :-2].masked_fill(~can_skip, -torch.inf)
        peak = arriving.amax(0)
        peak = peak.masked_fill(peak == -torch.inf, 0.0)
        arriving = (arriving - peak).exp_()
        mass = arriving.sum(0)
        alphas[t] = peak + mass.log() + emission[t]
        torch.div(arriving, mass.masked_fill(mass == 0.0, 1.0), out=shares[t])
    return alphas, shares


def _ctc_backward(shares, terminal):
    """Occupancy of each state, (T, B, S)."""
    occupancy = terminal.clone()
    for t in reversed(range(1, len(shares))):
        flow = shares[t] * occupancy[t]
        occupancy[t - 1] += flow[0]
        occupancy[t - 1, :, :-1] += flow[1, :, 1:]
        occupancy[t - 1, :, :-2] += flow[2, :, 2:]
    return occupancy


def _by_frame(diagonals, T):
    """View of a contiguous (N, B, U+1) array indexed [t + u, b, u] as (T, U+1, B)."""
    _, B, rows = diagonals.shape
    n, b, u = diagonals.stride()
    return diagonals.as_strided((T, rows, B), (n, n + u, b))


def _by_diagonal(weights, rows=None):
    """(B, T, U or U+1) arc weights laid out as (T+U, B, U+1) with [t + u, b, u] = weights[b, t, u], else ``-inf``."""
    B, T, columns = weights.shape
    rows = rows or columns
    diagonals = weights.new_full((T + rows - 1, B, rows), -torch.inf)
    _by_frame(diagonals, T)[:, :columns].copy_(weights.permute(1, 2, 0))
    return diagonals


def _rnnt_forward(blank_weight, label_weight):
    """Log alpha, and the shares of the blank arc and the label arc into each node, all (T+U, B, U+1)."""
    alphas = torch.full_like(blank_weight, -torch.inf)
    alphas[0, :, 0] = 0.0
    blank_shares, label_shares = torch.zeros_like(alphas), torch.zeros_like(alphas)
    from_label = torch.full_like(alphas[0], -torch.inf)
    for n in range(1, len(alphas)):
        from_blank = alphas[n - 1] + blank_weight[n - 1]
        torch.add(alphas[n - 1, :, :-1], label_weight[n - 1, :, :-1], out=from_label[:, 1:])
        larger, smaller = torch.maximum(from_blank, from_label), torch.minimum(from_blank, from_label)
        odds = (smaller - larger.masked_fill(larger == -torch.inf, 0.0)).exp_()
        torch.add(larger, odds.log1p(), out=alphas[n])
        large_share = 1.0 / (1.0 + odds)
        small_share = odds * large_share
        blank_leads = from_blank >= from_label
        torch.where(blank_leads, large_share, small_share, out=blank_shares[n])
        torch.where(blank_leads, small_share, large_share, out=label_shares[n])
    return alphas, blank_shares, label_shares


def _rnnt_backward(blank_shares, label_shares, terminal):
    """Posteriors of the blank and label arcs leaving each node, (T+U, B, U+1) indexed [t + u, b, u]."""
    e_blank, e_label = terminal.clone(), torch.zeros_like(terminal)  # the last blank leaves the last node
    for n in reversed(range(1, len(terminal))):
        gamma = e_blank[n] + e_label[n]
        e_blank[n - 1] += gamma * blank_shares[n]
        e_label[n - 1, :, :-1] = (gamma * label_shares[n])[:, 1:]
    return e_blank, e_label

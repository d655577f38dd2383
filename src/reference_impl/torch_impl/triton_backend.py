"""The Triton backend: both losses as autograd.Functions that launch the kernels of ``triton_vocabulary``, ``_lattice``.

Forward reads the logits once and runs the lattice; backward runs the occupancies back, reads the logits once more and
writes the gradient, into memory of its own or over the logits. Every tensor is laid out here, and no kernel waits for
the host, so a step can be captured in a CUDA graph. With ``TRITON_INTERPRET=1`` the same kernels run on the CPU.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from . import edges, triton_lattice, triton_vocabulary
from .derivatives import twice_differentiable, why_once
from .tensor_ops import ctc_losses, rnnt_losses
from .tracing import operator

__all__ = ["CTC", "INTERPRETED", "RNNT", "ctc_operator", "rnnt_operator"]

INTERPRETED = not isinstance(triton_lattice.ctc_forward, triton.runtime.JITFunction)  # by TRITON_INTERPRET=1

_TILE = 16384  # bytes of logits that one program has at a time
_STAGES = 4  # a step of the lattice, and three more whose weights are on their way meanwhile
_SHARED, _LEAST_SHARED = 232448, 49152  # bytes of shared memory that a program may have: of sm_90, and of any GPU
_TO_SHIFT, _SCALARS = 8, 64  # bytes of it: for each lane to hand an exponent on, and for what all lanes share


def _compute(logits):
    """Types of what is computed beside the logits: float32 for half and single precision, float64 for double."""
    return (torch.float64, tl.float64) if logits.dtype == torch.float64 else (torch.float32, tl.float32)


def _rows_options(logits, out_strides):
    """How a program takes its rows: BLOCK logits of each at a time, CHUNKS times, and a 16-byte access at least.

    EDGES: rows of an odd size begin anywhere, and unaligned accesses are of 2 or 4 bytes. So each row is handled from
    its first multiple of 16 bytes to its last, and what sticks out on both sides apart. Triton knows of a size whether
    it is a multiple of 16, and nothing else: rows of 1000 numbers of 2 bytes are aligned, and it would not see it.
    """
    V, vector = logits.shape[-1], 16 // logits.element_size()
    contiguous = logits.stride() == out_strides and logits.stride(-1) == 1
    edges = contiguous and V % 16 != 0 and V >= 16 * vector and logits.data_ptr() % 16 == 0
    tile = _TILE // max(logits.element_size(), 4)  # half precision is computed in float32
    block = min(triton.next_power_of_2(max(V // vector * vector if edges else V, 1)), tile)
    return {"CHUNKS": triton.cdiv(V, block), "BLOCK": block, "VECTOR": vector, "EDGES": edges,
            "num_warps": min(max(block // 256, 1), 8), "enable_fp_fusion": True}


def _frame_options(logits, out_strides, labels):
    """The same for programs that take one row, and all labels of its utterance."""
    options, labels = _rows_options(logits, out_strides), triton.next_power_of_2(labels)
    return {**options, "LABELS": labels, "num_warps": max(options["num_warps"], min(labels // 256, 8))}


def _several_rows(logits, out_strides):
    """The same for programs that take several rows, small ones together, so that there is something to do."""
    options = _rows_options(logits, out_strides)
    rows = min(max(1, 4096 // options["BLOCK"]), 32)
    words = rows * options["BLOCK"] * max(logits.element_size(), 4) // 4
    return {**options, "ROWS": rows, "num_warps": min(max(words // (1024 if rows <= 4 else 512), 1), 8)}


def _lattice_options(lanes, step_bytes, compute, device):
    """One program has all lanes of an utterance: two lanes a thread, and four where even 32 warps are not enough.

    ``step_bytes`` are what a lane reads in a step: that of several steps is in shared memory, as far as it goes.
    """
    block = max(triton.next_power_of_2(lanes), 32)
    shared = _shared_memory(device) - _SCALARS
    if block * _TO_SHIFT > shared:
        most = 2 ** ((shared // _TO_SHIFT).bit_length() - 1)
        raise ValueError(f"targets has {lanes - 1} columns; expected less than {most} with backend = 'triton' on "
                         f"{device}, or backend = 'torch'")
    ahead = (shared // block - _TO_SHIFT) // step_bytes
    return {"BLOCK": block, "COMPUTE": compute, "STAGES": min(ahead + 1, _STAGES),
            "num_warps": min(max(block // 64, 1), 32), "enable_fp_fusion": True}


@functools.cache
def _shared_memory(device):
    """Bytes of shared memory that a program may have on a device; the interpreter counts as sm_90."""
    if device.type != "cuda":
        return _SHARED
    return getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", _LEAST_SHARED)


def _bytes(*tensors):
    """Of one element of each."""
    return sum(tensor.element_size() for tensor in tensors)


def _contiguous_strides(shape):
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(size, 1))
    return tuple(reversed(strides))


def _on_its_device(launching):
    """Triton launches on the current device. That of the first tensor is made it: a thread may have another one."""
    @functools.wraps(launching)
    def wrapper(first, *others, **options):
        with torch.cuda.device_of(first):
            return launching(first, *others, **options)
    return wrapper


class RNNT(torch.autograd.Function):
    """Losses (B,) of logits (B, T, U+1, V), or of log-probs if ``normalise`` is False."""

    @staticmethod
    def forward(ctx, logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite, fastemit_lambda,
                clamp):
        ctx.again = functools.partial(rnnt_losses, blank=blank, normalise=normalise, fastemit_lambda=fastemit_lambda,
                                      clamp=clamp)
        ctx.once = why_once(overwrite, fastemit_lambda, clamp)
        losses, *states = RNNT.losses(logits, targets, logit_lengths, target_lengths, blank, normalise)
        ctx.gradient = RNNT.gradient
        ctx.options, ctx.overwrite = (blank, normalise, fastemit_lambda, clamp), overwrite
        ctx.save_for_backward(logits, targets, logit_lengths, target_lengths, *states)
        return losses

    @staticmethod
    def backward(ctx, upstream):
        return _backward(ctx, upstream), *[None] * 8

    @staticmethod
    @_on_its_device
    def losses(logits, targets, logit_lengths, target_lengths, blank, normalise, *_):
        """The losses, and what their gradient takes."""
        B, T, U1, V = logits.shape
        dtype, compute = _compute(logits)
        nodes = B, T + U1 - 1, U1

        def per_node(kind=dtype):
            return torch.empty(nodes, dtype=kind, device=logits.device)

        targets, logit_lengths, target_lengths = _dense(targets, logit_lengths, target_lengths)
        peaks, masses = (per_node(), per_node()) if normalise else (None, None)
        weights = per_node(), per_node(torch.int32), per_node(), per_node(torch.int32)
        blank_share, label_share = per_node(), per_node()
        log_z = torch.empty(B, dtype=torch.float64, device=logits.device)
        losses = torch.empty(B, dtype=dtype, device=logits.device)
        if B:
            lattice = _lattice_options(U1, _bytes(*weights), compute, logits.device)
            options = _several_rows(logits, _contiguous_strides(logits.shape))
            triton_vocabulary.rnnt_rows[triton.cdiv(T * U1, options["ROWS"]), B](
                logits, *logits.stride(), targets, logit_lengths, target_lengths, blank, T, U1, V, peaks, masses,
                *weights, NORMALISE=normalise, COMPUTE=compute, **options)
            triton_lattice.rnnt_forward[B,](*weights, logit_lengths, target_lengths, T, U1, blank_share, label_share,
                                            log_z, losses, **lattice)
        return edges.floored(losses, normalise), *_or_nothing(logits, peaks, masses), blank_share, label_share, log_z

    @staticmethod
    @_on_its_device
    def gradient(upstream, logits, targets, T_of, U_of, blank, normalise, fastemit_lambda, clamp, peaks, masses,
                 blank_share, label_share, log_z, overwrite=False):
        """What ``backward`` returns, in memory of its own or in that of the logits."""
        B, T, U1, V = logits.shape
        targets, T_of, U_of = _dense(targets, T_of, U_of)
        peaks, masses = (peaks, masses) if normalise else (None, None)
        _, compute = _compute(logits)
        grad = _gradient_memory(logits, overwrite)
        if B:
            e_blank, e_label = torch.empty_like(blank_share), torch.empty_like(label_share)
            triton_lattice.rnnt_backward[B,](blank_share, label_share, log_z, T_of, U_of, T, U1, e_blank, e_label,
                                             **_lattice_options(U1, _bytes(blank_share, label_share), compute,
                                                                logits.device))
            if fastemit_lambda:
                e_label *= 1.0 + fastemit_lambda
            bound = None if clamp is None else torch.full((), clamp, dtype=e_label.dtype, device=logits.device)
            options = _several_rows(logits, grad.stride())
            triton_vocabulary.rnnt_gradient[triton.cdiv(T * U1, options["ROWS"]), B](
                logits, *logits.stride(), grad, *grad.stride(), targets, T_of, U_of, blank, T, U1, V, peaks, masses,
                e_blank, e_label, log_z, upstream.contiguous(), bound, NORMALISE=normalise, OVERWRITE=overwrite,
                COMPUTE=compute, **options)
        return grad

    @staticmethod
    def like(logits, targets, logit_lengths, target_lengths, blank, normalise, *_):
        """Memory for ``losses``."""
        B, T, U1, _ = logits.shape
        losses = logits.new_empty(B, dtype=_compute(logits)[0])
        peaks, masses, *shares = (losses.new_empty(B, T + U1 - 1, U1) for _ in range(4))
        peaks, masses = (peaks, masses) if normalise else (None, None)
        return losses, *_or_nothing(logits, peaks, masses), *shares, losses.new_empty(B, dtype=torch.float64)


class CTC(torch.autograd.Function):
    """Losses (B,) of logits (B, T, V), or of log-probs if ``normalise`` is False."""

    @staticmethod
    def forward(ctx, logits, targets, logit_lengths, target_lengths, blank, normalise, overwrite):
        ctx.again, ctx.once = functools.partial(ctc_losses, blank=blank, normalise=normalise), why_once(overwrite)
        losses, *states = CTC.losses(logits, targets, logit_lengths, target_lengths, blank, normalise)
        ctx.gradient = CTC.gradient
        ctx.options, ctx.overwrite = (blank, normalise), overwrite
        ctx.save_for_backward(logits, targets, logit_lengths, target_lengths, *states)
        return losses

    @staticmethod
    def backward(ctx, upstream):
        return _backward(ctx, upstream), *[None] * 6

    @staticmethod
    @_on_its_device
    def losses(logits, targets, logit_lengths, target_lengths, blank, normalise):
        """The losses, and what their gradient takes."""
        B, T, V = logits.shape
        U = targets.shape[1]
        dtype, compute = _compute(logits)

        def empty(*shape, kind=dtype):
            return torch.empty(shape, dtype=kind, device=logits.device)

        targets, logit_lengths, target_lengths = _dense(targets, logit_lengths, target_lengths)
        peaks, masses = (empty(B, T), empty(B, T)) if normalise else (None, None)
        weights = empty(B, T), empty(B, T, kind=torch.int32), empty(B, T, U), empty(B, T, U, kind=torch.int32)
        shares, end_shares = empty(5, B, T, U + 1), empty(B, 2)
        log_z, losses = empty(B, kind=torch.float64), empty(B)
        lattice = _lattice_options(U + 1, _bytes(*weights[2:]), compute, logits.device)
        if B and T:
            triton_vocabulary.ctc_rows[T, B](
                logits, *logits.stride(), targets, logit_lengths, target_lengths, blank, T, U, V, peaks, masses,
                *weights, NORMALISE=normalise, COMPUTE=compute,
                **_frame_options(logits, _contiguous_strides(logits.shape), max(U, 1)))
        if B:
            triton_lattice.ctc_forward[B,](
                *weights, masses, targets, logit_lengths, target_lengths, blank, T, U, V, shares, shares.stride(0),
                end_shares, log_z, losses, NORMALISE=normalise, **lattice)
        return edges.floored(losses, normalise), *_or_nothing(logits, peaks, masses), shares, end_shares, log_z

    @staticmethod
    @_on_its_device
    def gradient(upstream, logits, targets, T_of, U_of, blank, normalise, peaks, masses, shares, end_shares, log_z,
                 overwrite=False):
        """What ``backward`` returns, in memory of its own or in that of the logits."""
        B, T, V = logits.shape
        U = targets.shape[1]
        targets, T_of, U_of = _dense(targets, T_of, U_of)
        peaks, masses = (peaks, masses) if normalise else (None, None)
        _, compute = _compute(logits)
        grad = _gradient_memory(logits, overwrite)
        if B and T:
            blank_occupancy, label_occupancy = torch.empty_like(shares[0]), torch.empty_like(shares[0])
            triton_lattice.ctc_backward[B,](shares, shares.stride(0), end_shares, log_z, T_of, U_of, T, U,
                                            blank_occupancy, label_occupancy,
                                            **_lattice_options(U + 1, _bytes(*shares), compute, logits.device))
            padding = torch.arange(U, device=targets.device) >= U_of[:, None]
            in_order, order = targets.masked_fill(padding, torch.iinfo(targets.dtype).max).sort(dim=1)
            triton_vocabulary.ctc_gradient[T, B](
                logits, *logits.stride(), grad, *grad.stride(), in_order, order, T_of, U_of, blank, T, U, V, peaks,
                masses, blank_occupancy, label_occupancy, log_z, upstream.contiguous(),
                NORMALISE=normalise, OVERWRITE=overwrite, COMPUTE=compute,
                **_frame_options(logits, grad.stride(), U + 1))
        return grad

    @staticmethod
    def like(logits, targets, logit_lengths, target_lengths, blank, normalise):
        """Memory for ``losses``."""
        B, T, _ = logits.shape
        losses = logits.new_empty(B, dtype=_compute(logits)[0])
        peaks, masses = (losses.new_empty(B, T), losses.new_empty(B, T)) if normalise else (None, None)
        return (losses, *_or_nothing(logits, peaks, masses), losses.new_empty(5, B, T, targets.shape[1] + 1),
                losses.new_empty(B, 2), losses.new_empty(B, dtype=torch.float64))


@twice_differentiable
def _backward(ctx, upstream, logits, targets, logit_lengths, target_lengths, *states):
    grad = ctx.gradient(upstream, logits, targets, logit_lengths, target_lengths, *ctx.options, *states,
                        overwrite=ctx.overwrite)
    return edges.handed_back(grad, logits, ctx.overwrite)


def _dense(*tensors):
    """Kernels take targets and lengths as they lie in memory; only logits may have strides."""
    return (tensor.contiguous() for tensor in tensors)


def _or_nothing(logits, *tensors):
    """Operators return tensors; kernels take None where there is none."""
    return (logits.new_empty(0) if each is None else each for each in tensors)


def _gradient_memory(logits, overwrite):
    return logits.detach() if overwrite else torch.empty_like(logits, memory_format=torch.contiguous_format)


_ARGUMENTS = ("Tensor logits, Tensor targets, Tensor logit_lengths, Tensor target_lengths, int blank, bool normalise"
              "{}")
ctc_operator = operator("ctc_triton", _ARGUMENTS.format(""), 5, CTC.losses, CTC.like, CTC.gradient)
rnnt_operator = operator("rnnt_triton", _ARGUMENTS.format(", float fastemit_lambda, float? clamp"), 5, RNNT.losses,
                         RNNT.like, RNNT.gradient)

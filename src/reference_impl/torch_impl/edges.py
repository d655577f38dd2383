"""What bad labels and lengths, and upstream gradients of any kind, mean for a loss. No lattice and no softmax.

For the backends made of tensor operations and of NumPy; the Triton kernels ask the same questions themselves.
"""

from __future__ import annotations

import torch

from .._loss_value import minus

__all__ = ["REDUCTIONS", "compute_dtype", "effective_upstream", "floored", "handed_back", "in_range", "in_use",
           "loss_values"]

REDUCTIONS = {"none": lambda losses: losses, "sum": torch.sum, "mean": torch.mean}


def compute_dtype(logits):
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def loss_values(log_z, dtype, normalised):
    """Losses in a dtype."""
    return floored(minus(log_z).to(dtype), normalised)


def floored(losses, normalised):
    """In place, as never_below_zero() in _loss_value.py: where rows were normalised here, Z is a probability."""
    return losses.clamp_(min=0.0) if normalised else losses


def in_range(targets, logit_lengths, target_lengths, T, V, *blanks, least_frames):
    """Labels and lengths forced into range (padding may hold anything), and which utterances needed no force."""
    T_of, U_of = logit_lengths.clamp(least_frames, max(T, least_frames)), target_lengths.clamp(0, targets.shape[1])
    labels = targets.clamp(0, V - 1)
    wrong = labels != targets
    for blank in blanks:
        wrong = wrong | (targets == blank)
    wrong = wrong & in_use(U_of, targets.shape[1])
    usable = (T_of == logit_lengths) & (U_of == target_lengths) & ~wrong.any(1)
    return labels, T_of, U_of, usable


def in_use(lengths, size):
    """(B, size) bool: position < length."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def effective_upstream(upstream, log_z):
    """The upstream gradient in float64, and for which utterances any gradient flows.

    None flows where no alignment exists (the loss is constant there) or where the upstream gradient is 0 (so that a
    masked-out NaN loss stays masked); yet a gradient depends on an upstream gradient that happens to be 0. Elsewhere
    an infinite one counts as the largest finite number: inf * 0 cannot arise where an occupancy or a probability is 0.
    """
    flows = (log_z != -torch.inf) & (upstream != 0)
    largest = torch.finfo(upstream.dtype).max
    upstream = upstream.clamp(-largest, largest).to(torch.float64).masked_fill(log_z.isnan(), torch.nan)
    return upstream.masked_fill(~flows, 0.0), flows


def handed_back(grad, logits, overwrite):
    """The gradient in the type of the logits; if it takes their memory, autograd is told that they have changed."""
    if not overwrite:
        return grad.to(logits.dtype)
    changed = logits.detach()
    if grad.data_ptr() != changed.data_ptr():
        changed.copy_(grad)
    torch.autograd.graph.increment_version(logits)
    return changed

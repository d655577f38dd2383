"""CTC and RNN-T losses and logit gradients for a padded batch, in NumPy. The lattice runs on shares, in float64.

Forward, alpha advances frame by frame (CTC) or anti-diagonal by anti-diagonal (RNN-T). Backward, occupancy flows back
by multiply-add through the share of each incoming arc in its node's mass: no beta, no exp, no log, and mass is
conserved. It is back-propagation through the forward recursion, as k2's backward is :claim:`k2-gradient`. The sweeps
are in :mod:`.sweeps.ctc` and :mod:`.sweeps.rnnt`, softmax and gradient in :mod:`.sweeps.vocabulary`; here they are put
together. The explicit recursions of one utterance, which define what these return, are :mod:`reference_impl.ctc` and
``rnnt``.
"""

from __future__ import annotations

import numpy as np

from . import _validation
from ._loss_value import minus, never_below_zero
from ._validation import check_no_nan_or_inf
from .sweeps.ctc import ctc_sweeps
from .sweeps.rnnt import rnnt_sweeps
from .sweeps.vocabulary import ctc_gradient, ctc_log_probs, exp_rows, rnnt_gradient, rnnt_log_probs

__all__ = ["ctc_loss", "rnnt_loss"]


def ctc_loss(logits, targets, logit_lengths, target_lengths, *, blank=0):
    """CTC loss of each utterance and its gradient with respect to the logits.

    Parameters
    ----------
    logits : (B, T, V) array of float16, float32 or float64
        Unnormalised; ``-inf`` masks an entry. Padding may hold anything.
    targets : (B, U) array of int32 or int64
        Labels in [0, V), none equal to ``blank``; padding may hold anything.
    logit_lengths, target_lengths : (B,) arrays of int32 or int64
        Frames (0 <= length <= T) and labels (0 <= length <= U) of each utterance.
    blank : int

    Returns
    -------
    losses : (B,) array
        -log Z in nats, never below 0, ``inf`` where no alignment exists; float64 for float64 logits, else float32.
    grad_logits : (B, T, V) array, dtype of the logits
        Of the sum of the losses; 0 in padding and where no alignment exists.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> losses, grad = ctc_loss(np.zeros((1, 2, 2)), np.array([[1]]), np.array([2]), np.array([1]))
    >>> np.exp(-losses).round(12).tolist(), grad.round(4).tolist()
    ([0.75], [[[0.1667, -0.1667], [0.1667, -0.1667]]])
    """
    logits, targets, T_of, U_of, blank = _checked(logits, targets, logit_lengths, target_lengths, blank, 3, "(B, T, V)")
    B, T, _ = logits.shape
    grad, mass, unit = _buffer(logits), np.ones((B, T)), np.zeros((B, T))
    for b in range(B):
        t = T_of[b]
        unit[b, :t] = _exp_rows(logits[b, :t], mass[b, :t], grad[b, :t], b)

    def log_probs_of(b):
        used = b, slice(T_of[b])
        return ctc_log_probs(logits[used], unit[used], mass[used], targets[b, :U_of[b]], blank)

    log_z, blank_states, label_states = ctc_sweeps(log_probs_of, targets, T_of, U_of, T)
    for b in range(B):
        t, u = T_of[b], U_of[b]
        ctc_gradient(grad[b, :t], (log_z[b] > -np.inf) / mass[b, :t], blank_states[:t, b].sum(1),
                     label_states[:t, b, :u], targets[b, :u], blank)
        grad[b, t:] = 0
    return _results(log_z, grad, logits)


def rnnt_loss(logits, targets, logit_lengths, target_lengths, *, blank=0, extra_rows=False):
    """RNN-T loss of each utterance and its gradient with respect to the logits.

    Parameters
    ----------
    logits : (B, T, U+1, V) array of float16, float32 or float64
        Unnormalised; ``-inf`` masks an entry. Padding may hold anything.
    targets : (B, U) array of int32 or int64
        Labels in [0, V), none equal to ``blank``; padding may hold anything.
    logit_lengths, target_lengths : (B,) arrays of int32 or int64
        Frames (1 <= length <= T) and labels (0 <= length <= U) of each utterance.
    blank : int
    extra_rows : bool
        True takes logits with more than U + 1 rows; those beyond are padding.

    Returns
    -------
    losses : (B,) array
        -log Z in nats, never below 0, ``inf`` where no alignment exists; float64 for float64 logits, else float32.
    grad_logits : (B, T, U+1, V) array, dtype of the logits
        Of the sum of the losses; 0 in padding and where no alignment exists.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> losses, grad = rnnt_loss(np.zeros((1, 2, 2, 2)), np.array([[1]]), np.array([2]), np.array([1]))
    >>> np.exp(-losses).round(12).tolist(), grad[0, 1].tolist()
    ([0.25], [[0.25, -0.25], [-0.5, 0.5]])
    """
    logits, targets, T_of, U_of, blank = _checked(
        logits, targets, logit_lengths, target_lengths, blank, 4, "(B, T, U+1, V)", extra_rows)
    B, T, rows, _ = logits.shape
    grad, mass, unit = _buffer(logits), np.ones((B, T, rows)), np.zeros((B, T, rows))
    for b in range(B):
        used = b, slice(T_of[b]), slice(U_of[b] + 1)
        unit[used] = _exp_rows(logits[used], mass[used], grad[used], b)

    def log_probs_of(b):
        used = b, slice(T_of[b]), slice(U_of[b] + 1)
        return rnnt_log_probs(logits[used], unit[used], mass[used], targets[b, :U_of[b]], blank)

    log_z, e_blank, e_label = rnnt_sweeps(log_probs_of, T_of, U_of, T, rows - 1)
    for b in range(B):
        t, u = T_of[b], U_of[b]
        blank_arcs, label_arcs = e_blank[:t, :u + 1, b].copy(), e_label[:t, :u, b].copy()
        node = blank_arcs.copy()
        node[:, :-1] += label_arcs
        rnnt_gradient(grad[b, :t], node / mass[b, :t, :u + 1], blank_arcs, label_arcs, targets[b, :u], blank)
        grad[b, t:], grad[b, :t, u + 1:] = 0, 0
    return _results(log_z, grad, logits)


def _checked(logits, targets, logit_lengths, target_lengths, blank, rank, axes, extra_rows=False):
    logits = _validation.check_scores("logits", logits, rank, axes)
    blank = _validation.check_blank(blank, logits.shape[-1])
    targets = _validation.check_integers("targets", targets, 2, "(B, U)")
    T_of = _validation.check_integers("logit_lengths", logit_lengths, 1, "(B,)")
    U_of = _validation.check_integers("target_lengths", target_lengths, 1, "(B,)")
    _validation.check_batch_axis(logits.shape, targets.shape, T_of.shape, U_of.shape)
    if rank == 4:
        _validation.check_at_least("T", logits.shape[1], 1)
        _validation.check_rows("logits", logits.shape[2], targets.shape[1],
                               _validation.check_bool("extra_rows", extra_rows))
    _validation.check_batch_values(targets, T_of, U_of, logits.shape[1], logits.shape[-1], blank, int(rank == 4))
    return logits, targets, T_of, U_of, blank


def _buffer(logits):
    """For exp(logits), and then the gradient; half precision is computed in float32."""
    return np.empty(logits.shape, np.float64 if logits.dtype == np.float64 else np.float32)


def _exp_rows(logits, mass, out, b):
    """The unit of each row of utterance b; ``mass`` and ``out`` are filled."""
    unit = exp_rows(logits, mass, out)
    if np.isnan(mass).any():
        check_no_nan_or_inf("logits", logits, (b,))
    return unit


def _results(log_z, grad, logits):
    return never_below_zero(minus(log_z)).astype(grad.dtype), grad.astype(logits.dtype, copy=False)

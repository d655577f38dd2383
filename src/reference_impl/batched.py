"""CTC and RNN-T losses and logit gradients for a padded batch, in NumPy. The lattice runs on shares, in float64.

Forward, log alpha advances frame by frame (CTC) or anti-diagonal by anti-diagonal (RNN-T), and the share of each
incoming arc in its node's mass is stored. Backward, occupancy flows back through the shares by multiply-add: no beta,
no exp, no log, and mass is conserved. It is back-propagation through the forward recursion, as k2's backward is.
The explicit recursions of one utterance, which define what these return, are :mod:`reference_impl.ctc` and ``rnnt``.
"""

from __future__ import annotations

import numpy as np

from . import _validation
from ._validation import check_no_nan_or_inf

__all__ = ["ctc_loss", "rnnt_loss"]

_BLOCK = 65536  # elements of the logits handled at a time: 256 KB of float32 stay in the cache between passes


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
        -log Z in nats, ``inf`` where no alignment exists; float64 for float64 logits, else float32.
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
    extended = np.full((B, 2 * targets.shape[1] + 1), blank)
    extended[:, 1::2] = targets
    grad, mass = _buffer(logits), np.ones((B, T))
    emission = np.full((T, B, extended.shape[1]), -np.inf)
    for b in range(B):
        used, states = logits[b, :T_of[b]], extended[b, :2 * U_of[b] + 1]
        log_mass = _exp_rows(used, grad[b, :T_of[b]], mass[b, :T_of[b]], b)
        emission[:T_of[b], b, :len(states)] = np.take(used, states, axis=1) - log_mass[:, None]

    log_z, state_occupancy = _ctc_lattice(emission, extended, T_of, U_of)
    for b in range(B):
        rows, states = grad[b, :T_of[b]], state_occupancy[:T_of[b], b, :2 * U_of[b] + 1]
        _scale_rows(rows, (log_z[b] > -np.inf) / mass[b, :T_of[b]])
        rows[:, blank] -= states[:, ::2].sum(1)
        order = np.argsort(targets[b, :U_of[b]], kind="stable")
        if len(order):
            labels, starts = np.unique(targets[b, order], return_index=True)
            rows[:, labels] -= np.add.reduceat(states[:, 1::2][:, order], starts, axis=1)
    return _results(log_z, grad, logits)


def rnnt_loss(logits, targets, logit_lengths, target_lengths, *, blank=0):
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

    Returns
    -------
    losses : (B,) array
        -log Z in nats, ``inf`` where no alignment exists; float64 for float64 logits, else float32.
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
        logits, targets, logit_lengths, target_lengths, blank, 4, "(B, T, U+1, V)")
    B, T, rows, _ = logits.shape
    grad, mass = _buffer(logits), np.ones((B, T, rows))
    blank_weight, label_weight = (np.full((T + rows - 1, B, rows), -np.inf) for _ in range(2))
    last_blank = np.full(B, -np.inf)
    for b in range(B):
        t, u = T_of[b], U_of[b]
        used, columns = logits[b, :t, :u + 1], np.arange(u)
        log_mass = _exp_rows(used, grad[b, :t, :u + 1], mass[b, :t, :u + 1], b)
        _by_frame(blank_weight, T)[:t, :u + 1, b] = used[:, :, blank] - log_mass
        _by_frame(label_weight, T)[:t, :u, b] = used[:, columns, targets[b, :u]] - log_mass[:, :-1]
        last_blank[b] = _by_frame(blank_weight, T)[t - 1, u, b]
        _by_frame(blank_weight, T)[t - 1, :, b] = -np.inf

    log_z, e_blank, e_label = _rnnt_lattice(blank_weight, label_weight, last_blank, T_of, U_of)
    for b in range(B):
        t, u = T_of[b], U_of[b]
        blank_arcs = _by_frame(e_blank, T)[:t, :u + 1, b].copy()
        label_arcs = _by_frame(e_label, T)[:t, :u, b]
        blank_arcs[t - 1, u] = log_z[b] > -np.inf
        node = blank_arcs.copy()
        node[:, :-1] += label_arcs
        used = grad[b, :t, :u + 1]
        _scale_rows(used, node / mass[b, :t, :u + 1])
        used[:, :, blank] -= blank_arcs
        used[:, np.arange(u), targets[b, :u]] -= label_arcs
    return _results(log_z, grad, logits)


def _checked(logits, targets, logit_lengths, target_lengths, blank, rank, axes):
    logits = _validation.check_scores("logits", logits, rank, axes)
    blank = _validation.check_blank(blank, logits.shape[-1])
    targets = _validation.check_integers("targets", targets, 2, "(B, U)")
    T_of = _validation.check_integers("logit_lengths", logit_lengths, 1, "(B,)")
    U_of = _validation.check_integers("target_lengths", target_lengths, 1, "(B,)")
    _validation.check_batch_axis(logits.shape, targets.shape, T_of.shape, U_of.shape)
    if rank == 4:
        _validation.check_at_least("T", logits.shape[1], 1)
        _validation.check_rows("logits", logits.shape[2], targets.shape[1])
    _validation.check_batch_values(targets, T_of, U_of, logits.shape[1], logits.shape[-1], blank, int(rank == 4))
    return logits, targets, T_of, U_of, blank


def _buffer(logits):
    """Zeros that will hold exp(logits - max), then the gradient; half precision is computed in float32."""
    return np.zeros(logits.shape, np.float64 if logits.dtype == np.float64 else np.float32)


def _results(log_z, grad, logits):
    return (0.0 - log_z).astype(grad.dtype), grad.astype(logits.dtype, copy=False)


def _exp_rows(logits, out, mass, b):
    """``out = exp(logits - max)`` over the last axis, ``mass`` its sum; returns the float64 log-sum-exp of each row.

    A fully masked row gets out 0, mass 1 and log-sum-exp 0, so that its log-probs stay ``-inf``.
    """
    log_mass = np.empty(logits.shape[:-1])
    step = max(1, _BLOCK // max(1, logits[0].size)) if len(logits) else 1
    for start in range(0, len(logits), step):
        block = slice(start, start + step)
        peak = logits[block].max(-1)
        if not (peak < np.inf).all():
            check_no_nan_or_inf("logits", logits, (b,))
        peak = np.where(peak == -np.inf, 0, peak).astype(out.dtype)
        with np.errstate(over="ignore"):  # a difference beyond the range of floats is -inf, as it should be
            np.subtract(logits[block], peak[..., None], out=out[block], dtype=out.dtype)
        np.exp(out[block], out=out[block])
        row_mass = out[block].sum(-1, dtype=np.float64)
        mass[block] = np.where(row_mass == 0, 1, row_mass)
        log_mass[block] = peak + np.log(mass[block])
    return log_mass


def _scale_rows(rows, factor):
    factor = factor.astype(rows.dtype)
    step = max(1, _BLOCK // max(1, rows[0].size)) if len(rows) else 1
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        rows[block] *= factor[block][..., None]


def _ctc_lattice(emission, extended, T_of, U_of):
    """Log Z (B,) and the occupancy of each state (T, B, S) from the emission log-probs (T, B, S)."""
    T, B, S = emission.shape
    skip_penalty = np.where(extended[:, 2:] != extended[:, :-2], 0.0, -np.inf)
    shares = np.zeros((T, 3, B, S))  # of the arcs that stay, move on by one state, skip one
    last_alpha = np.full((B, S), -np.inf)
    alpha = np.full((B, S), -np.inf)
    with np.errstate(divide="ignore"):
        for t in range(T):
            if t == 0:
                alpha[:, :2] = emission[0, :, :2]
            else:
                arriving = np.full((3, B, S), -np.inf)
                arriving[0] = alpha
                arriving[1, :, 1:] = alpha[:, :-1]
                arriving[2, :, 2:] = alpha[:, :-2] + skip_penalty
                peak = arriving.max(0)
                peak[peak == -np.inf] = 0.0
                np.exp(np.subtract(arriving, peak, out=arriving), out=shares[t])
                mass = shares[t].sum(0)
                alpha = peak + np.log(mass) + emission[t]
                mass[mass == 0.0] = 1.0
                shares[t] /= mass
            ends = T_of == t + 1
            last_alpha[ends] = alpha[ends]

    last, before_last = 2 * U_of, np.maximum(2 * U_of - 1, 0)
    utterance = np.arange(B)
    ending = np.stack([last_alpha[utterance, last], np.where(U_of > 0, last_alpha[utterance, before_last], -np.inf)])
    log_z = np.logaddexp(ending[0], ending[1])
    log_z[(T_of == 0) & (U_of == 0)] = 0.0
    terminal_share = np.exp(ending - np.where(log_z == -np.inf, 0.0, log_z))

    occupancy = np.zeros((T, B, S))
    gamma = np.zeros((B, S))
    for t in reversed(range(T)):
        ends = np.flatnonzero(T_of == t + 1)
        gamma[ends, before_last[ends]] += terminal_share[1, ends]
        gamma[ends, last[ends]] += terminal_share[0, ends]
        occupancy[t] = gamma
        flow = shares[t] * gamma
        gamma = flow[0]
        gamma[:, :-1] += flow[1, :, 1:]
        gamma[:, :-2] += flow[2, :, 2:]
    return log_z, occupancy


def _by_frame(diagonals, T):
    """View of an array indexed [t + u, b, u] as [t, u, b]: neighbours on an anti-diagonal stay neighbours in memory."""
    n, b, u = diagonals.strides
    return np.lib.stride_tricks.as_strided(
        diagonals, (T, diagonals.shape[2], diagonals.shape[1]), (n, n + u, b))


def _rnnt_lattice(blank_weight, label_weight, last_blank, T_of, U_of):
    """Log Z (B,) and the posteriors of the blank and label arcs leaving each node, without the last blank.

    All arrays are indexed [t + u, b, u]. ``blank_weight`` and ``label_weight`` are the log-weights of the arcs that
    leave a node; ``-inf`` where there is none, and for blanks in the last frame.
    """
    N, B, rows = blank_weight.shape
    alpha = np.full((N, B, rows), -np.inf)
    alpha[0, :, 0] = 0.0
    blank_share, label_share = np.zeros((N + 1, B, rows)), np.zeros((N + 1, B, rows))  # of the arcs into diagonal n
    from_label = np.full((B, rows), -np.inf)
    for n in range(1, N):
        from_blank = alpha[n - 1] + blank_weight[n - 1]
        np.add(alpha[n - 1, :, :-1], label_weight[n - 1, :, :-1], out=from_label[:, 1:])
        larger, smaller = np.maximum(from_blank, from_label), np.minimum(from_blank, from_label)
        smaller -= np.where(larger == -np.inf, 0.0, larger)
        odds = np.exp(smaller, out=smaller)
        np.add(larger, np.log1p(odds), out=alpha[n])
        large_share = 1.0 / (1.0 + odds)
        small_share = odds * large_share
        blank_leads = from_blank >= from_label
        blank_share[n] = np.where(blank_leads, large_share, small_share)
        label_share[n] = np.where(blank_leads, small_share, large_share)

    utterance, last_diagonal = np.arange(B), T_of - 1 + U_of
    log_z = alpha[last_diagonal, utterance, U_of] + last_blank
    gamma = np.zeros((B, rows))
    for n in reversed(range(1, N)):
        ends = np.flatnonzero(last_diagonal == n)
        gamma[ends, U_of[ends]] += log_z[ends] > -np.inf
        blank_share[n] *= gamma  # a share times its node's occupancy is the arc's posterior
        label_share[n] *= gamma
        gamma = blank_share[n].copy()
        gamma[:, :-1] += label_share[n, :, 1:]
    e_label = np.zeros_like(label_share[1:])
    e_label[:, :, :-1] = label_share[1:, :, 1:]
    return log_z, blank_share[1:], e_label

"""The sweeps of both lattices with logarithms, for the arc weights that :mod:`.exponents` cannot take. No dense part.

Log alpha advances frame by frame (CTC) or anti-diagonal by anti-diagonal (RNN-T), and the share of each incoming arc in
its node's mass is stored; occupancy flows back through the shares by multiply-add. Any weights will do, however far
apart they are, at the price of an exp and a log in each step.
"""

from __future__ import annotations

import numpy as np

__all__ = ["by_frame", "ctc_by_logs", "rnnt_by_logs"]


def ctc_by_logs(emission, extended, T_of, U_of):
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


def by_frame(diagonals, T):
    """View of an array indexed [t + u, b, u] as [t, u, b]: neighbours on an anti-diagonal stay neighbours in memory."""
    n, b, u = diagonals.strides
    return np.lib.stride_tricks.as_strided(
        diagonals, (T, diagonals.shape[2], diagonals.shape[1]), (n, n + u, b))


def rnnt_by_logs(blank_weight, label_weight, last_blank, T_of, U_of):
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

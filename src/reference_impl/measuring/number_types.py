"""Posteriors of both lattices in a float type of one's choice, by four kinds of number. For the study of rounding only.

The losses do not run this: ``batched`` works in float64, and the Triton kernels compute with numbers that carry their
own exponent. Here those numbers stand beside the textbooks' logarithms, line for line, so that their errors can be
compared in any precision; the tests hold the kernels against them bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["ARITHMETICS", "EXTENDED_RANGE", "LOGARITHMS", "RECENTRED", "SCALED", "Arithmetic", "ctc_posteriors",
           "rnnt_posteriors"]

_DEAD = -(1 << 60)  # exponent of an extended-range 0


@dataclass(frozen=True)
class Arithmetic:
    """How numbers >= 0 are held: each number is a tuple of equally shaped arrays.

    ``settle`` takes a common factor out of all numbers of one step, and returns them with the log of that factor.
    ``shares`` turns terms into their sum and each one's share of it; where the sum is 0, all shares are 0.
    """

    name: str
    from_log: Callable  # (log of the numbers, dtype) -> numbers
    times: Callable  # (numbers, numbers) -> numbers
    shares: Callable  # (list of numbers) -> sum, list of arrays
    settle: Callable  # numbers -> numbers, float
    to_log: Callable  # numbers -> float64 logs
    zero: tuple  # what fills a lane that has no number


def _log_shares(terms):
    terms = np.stack([x for x, in terms])
    peak = terms.max(0)
    shift = np.where(peak == -np.inf, 0, peak).astype(peak.dtype)
    with np.errstate(divide="ignore"):
        weights = np.exp(terms - shift)
        mass = weights.sum(0)
        total = shift + np.log(mass)
    return (total,), list(weights / np.where(mass == 0, 1, mass))


def _recentre(numbers):
    x, = numbers
    peak = x.max()
    return ((x - peak,), float(peak)) if np.isfinite(peak) else (numbers, 0.0)


def _scaled_shares(terms):
    total = np.sum([x for x, in terms], axis=0)
    return (total,), [x / np.where(total == 0, 1, total) for x, in terms]


def _rescale(numbers):
    x, = numbers
    total = x.sum()
    return ((x / total,), float(np.log(float(total)))) if total > 0 else (numbers, 0.0)


def _mantissa_and_exponent(logs, dtype):
    """m * 2^e with 1 <= m < 2; the exponent is found in float64, and only what is left is rounded."""
    live = logs > -np.inf
    log2 = np.where(live, logs, 0).astype(np.float64) * np.log2(np.e)
    whole = np.floor(log2)
    mantissa = np.where(live, np.exp2((log2 - whole).astype(dtype)), 0).astype(dtype)
    return mantissa, np.where(live, whole.astype(np.int64), _DEAD)


def _extended_shares(terms):
    """Align all exponents with the largest, add mantissas, and bring the sum's mantissa back to between 1 and 2."""
    top = np.max([e for _, e in terms], axis=0)
    aligned = [np.ldexp(m, np.maximum(e - top, -1100).astype(np.int32)) for m, e in terms]
    total = np.sum(aligned, axis=0)
    half, exponent = np.frexp(total)
    dead = total == 0
    number = 2 * half, np.where(dead, _DEAD, top + exponent - 1)
    per_mass = 1 / np.where(dead, 1, total)
    return number, [x * per_mass for x in aligned]


def _as_is(numbers):
    return numbers, 0.0


def _log_of_extended(numbers):
    m, e = numbers
    with np.errstate(divide="ignore"):
        return np.log(m.astype(np.float64)) + np.where(m > 0, e, 0) * np.log(2)


def _log_of_float(numbers):
    with np.errstate(divide="ignore"):
        return np.log(numbers[0].astype(np.float64))


LOGARITHMS = Arithmetic("logarithms", lambda logs, dtype: (logs.astype(dtype),), lambda a, b: (a[0] + b[0],),
                        _log_shares, _as_is, lambda a: a[0].astype(np.float64), (-np.inf,))
RECENTRED = Arithmetic("logarithms, re-centred", LOGARITHMS.from_log, LOGARITHMS.times, _log_shares, _recentre,
                       LOGARITHMS.to_log, (-np.inf,))
SCALED = Arithmetic("scaled probabilities", lambda logs, dtype: (np.exp(logs).astype(dtype),),
                    lambda a, b: (a[0] * b[0],), _scaled_shares, _rescale, _log_of_float, (0,))
EXTENDED_RANGE = Arithmetic("mantissa and exponent", _mantissa_and_exponent,
                            lambda a, b: (a[0] * b[0], a[1] + b[1]), _extended_shares, _as_is, _log_of_extended,
                            (0, _DEAD))
ARITHMETICS = (LOGARITHMS, RECENTRED, SCALED, EXTENDED_RANGE)


def rnnt_posteriors(blank, label, *, arithmetic=EXTENDED_RANGE, dtype=np.float32, method="shares"):
    """Log Z and the arc posteriors of one RNN-T lattice from its log-weights.

    Parameters
    ----------
    blank : (T, U+1) float array
        Log-weights (nats) of the blank arcs; ``-inf`` for none. The arc of the last node leads to the end.
    label : (T, U+1) float array
        Log-weights of the label arcs; the last column is not used.
    arithmetic : Arithmetic
    dtype : NumPy float type
    method : "shares" | "alpha and beta"
        The second computes ``exp(alpha + w + beta - log Z)`` in ``dtype``, and needs logarithms.

    Returns
    -------
    log_z : float
    e_blank, e_label : (T, U+1) arrays of ``dtype``

    Examples
    --------
    >>> log_z, e_blank, e_label = rnnt_posteriors(np.log(np.full((2, 2), 0.5)), np.log(np.full((2, 2), 0.5)))
    >>> round(float(np.exp(log_z)), 6), e_blank.tolist(), e_label[:, 0].tolist()
    (0.25, [[0.5, 0.5], [0.0, 1.0]], [0.5, 0.5])
    """
    blank, label = np.array(blank, np.float64), np.array(label, np.float64)
    T, rows = blank.shape
    last_blank = blank[-1, -1]
    blank[-1], label[:, -1] = -np.inf, -np.inf
    if method == "alpha and beta":
        return _rnnt_by_alpha_and_beta(blank, label, last_blank, dtype)
    by_diagonal = [tuple(_diagonals(x, fill) for x, fill in zip(arithmetic.from_log(w, dtype), arithmetic.zero,
                                                                strict=True)) for w in (blank, label)]
    start = np.full(rows, -np.inf)
    start[0] = 0
    alpha, offset, shares = arithmetic.from_log(start, dtype), 0.0, []
    for n in range(1, T + rows - 1):
        from_blank, from_label = (arithmetic.times(alpha, tuple(x[n - 1] for x in w)) for w in by_diagonal)
        alpha, share = arithmetic.shares([from_blank, _up(from_label, arithmetic.zero)])
        alpha, factor = arithmetic.settle(alpha)
        shares.append(share)
        offset += factor
    log_z = offset + float(arithmetic.to_log(alpha)[-1]) + last_blank

    e_blank, e_label = np.zeros((T + rows - 1, rows), dtype), np.zeros((T + rows - 1, rows), dtype)
    node = e_blank[-1]
    node[-1] = log_z > -np.inf
    for n in reversed(range(1, T + rows - 1)):
        e_blank[n - 1], into = _flows(node, shares[n - 1])
        e_label[n - 1, :-1] = into[1:]
        node = e_blank[n - 1] + e_label[n - 1]
    t, u = np.indices((T, rows))
    return log_z, e_blank[t + u, u], e_label[t + u, u]


def ctc_posteriors(log_probs, targets, *, blank=0, arithmetic=EXTENDED_RANGE, dtype=np.float32, method="shares"):
    """Log Z and the occupancies of the states of one CTC lattice.

    Parameters
    ----------
    log_probs : (T, V) float array
        Nats.
    targets : (U,) ints
    blank : int
    arithmetic, dtype, method
        As for :func:`rnnt_posteriors`.

    Returns
    -------
    log_z : float
    blanks : (T, U+1) array of ``dtype``
        Occupancies of the blank states.
    labels : (T, U) array of ``dtype``

    Examples
    --------
    >>> log_z, blanks, labels = ctc_posteriors(np.log(np.full((2, 2), 0.5)), [1], dtype=np.float64)
    >>> round(float(np.exp(log_z)), 6), blanks.round(4).tolist(), labels.round(4).tolist()
    (0.75, [[0.3333, 0.0], [0.0, 0.3333]], [[0.6667], [0.6667]])
    """
    log_probs, targets = np.asarray(log_probs, np.float64), np.asarray(targets, int)
    T, U = len(log_probs), len(targets)
    emit_blank = log_probs[:, [blank] * (U + 1)]
    emit_label = np.concatenate([log_probs[:, targets], np.full((T, 1), -np.inf)], axis=1)
    skips = np.ones(U + 1, bool)
    skips[1:U] = targets[1:] != targets[:-1]
    if method == "alpha and beta":
        return _ctc_by_alpha_and_beta(emit_blank, emit_label, skips, dtype)
    weights = [arithmetic.from_log(w, dtype) for w in (emit_blank, emit_label)]
    zero = arithmetic.from_log(np.full(U + 1, -np.inf), dtype)
    start = np.full(U + 1, -np.inf)
    start[0] = 0
    blanks, labels, offset, shares = arithmetic.from_log(start, dtype), zero, 0.0, []
    for t in range(T):
        moved = _up(labels, arithmetic.zero)
        skipped = tuple(np.where(skips, x, nothing).astype(x.dtype) for x, nothing in zip(moved, zero, strict=True))
        into_blank, blank_shares = arithmetic.shares([blanks, moved])
        into_label, label_shares = arithmetic.shares([labels, blanks, skipped])
        blanks = arithmetic.times(into_blank, tuple(x[t] for x in weights[0]))
        labels = arithmetic.times(into_label, tuple(x[t] for x in weights[1]))
        both, factor = arithmetic.settle(tuple(np.stack(pair) for pair in zip(blanks, labels, strict=True)))
        blanks, labels = tuple(x[0] for x in both), tuple(x[1] for x in both)
        shares.append((blank_shares, label_shares))
        offset += factor
    ends = [tuple(x[U:U + 1] for x in blanks), tuple(x[U - 1:U] if U else x[:0] for x in labels)][:2 if U else 1]
    total, end_shares = arithmetic.shares(ends)
    log_z = offset + float(arithmetic.to_log(total)[0])

    by_blank, by_label = np.zeros((T, U + 1), dtype), np.zeros((T, U + 1), dtype)
    blanks, labels = np.zeros(U + 1, dtype), np.zeros(U + 1, dtype)
    blanks[U] = end_shares[0][0]
    if U:
        labels[U - 1] = end_shares[1][0]
    for t in reversed(range(T)):
        by_blank[t], by_label[t] = blanks, labels
        stay, move = _flows(blanks, shares[t][0])
        label_stay, label_move, label_skip = _flows(labels, shares[t][1])
        blanks, labels = stay + label_move, label_stay
        labels[:-1] += (move + label_skip)[1:]
    return log_z, by_blank, by_label[:, :U]


def _flows(node, shares):
    """A node's occupancy along its incoming arcs; the arc of the largest share gets what the others leave over."""
    flows = [node * share for share in shares]
    largest = np.argmax(shares, axis=0)
    for i in range(len(flows)):
        rest = node - sum(flow for j, flow in enumerate(flows) if j != i)
        flows[i] = np.where(largest == i, rest, flows[i])
    return flows


def _diagonals(grid, fill):
    """A (T, U+1) array as (T+U, U+1): [t + u, u] holds [t, u]."""
    T, rows = grid.shape
    out = np.full((T + rows - 1, rows), fill, grid.dtype)
    t, u = np.indices(grid.shape)
    out[t + u, u] = grid
    return out


def _up(numbers, fills):
    """Lane u gets the number of lane u - 1."""
    return tuple(np.concatenate([np.full(1, fill, x.dtype), x[:-1]]) for x, fill in zip(numbers, fills, strict=True))


def _rnnt_by_alpha_and_beta(blank, label, last_blank, dtype):
    blank_n, label_n = _diagonals(blank.astype(dtype), -np.inf), _diagonals(label.astype(dtype), -np.inf)
    N, rows = blank_n.shape
    alpha, beta = np.full((N, rows), -np.inf, dtype), np.full((N, rows), -np.inf, dtype)
    alpha[0, 0], beta[-1, -1] = 0, last_blank
    for n in range(1, N):
        alpha[n] = alpha[n - 1] + blank_n[n - 1]
        alpha[n, 1:] = np.logaddexp(alpha[n, 1:], alpha[n - 1, :-1] + label_n[n - 1, :-1])
    for n in reversed(range(N - 1)):
        beta[n] = beta[n + 1] + blank_n[n]
        beta[n, :-1] = np.logaddexp(beta[n, :-1], beta[n + 1, 1:] + label_n[n, :-1])
    log_z = alpha[-1, -1] + dtype(last_blank)
    after_label = np.concatenate([beta[1:, 1:], np.full((N - 1, 1), -np.inf, dtype)], axis=1)
    e_blank, e_label = np.zeros((N, rows), dtype), np.zeros((N, rows), dtype)
    if log_z > -np.inf:
        e_blank[:-1] = np.exp(alpha[:-1] + blank_n[:-1] + beta[1:] - log_z)
        e_label[:-1] = np.exp(alpha[:-1] + label_n[:-1] + after_label - log_z)
        e_blank[-1, -1] = 1
    t, u = np.indices(blank.shape)
    return float(log_z), e_blank[t + u, u], e_label[t + u, u]


def _ctc_by_alpha_and_beta(emit_blank, emit_label, skips, dtype):
    T, lanes = emit_blank.shape
    S = 2 * lanes - 1
    emit = np.full((T, S), -np.inf, dtype)
    emit[:, ::2], emit[:, 1::2] = emit_blank, emit_label[:, :-1]
    may_skip = np.zeros(S, bool)
    may_skip[3::2] = skips[1:-1]

    def arrive(x):
        out = np.logaddexp(x, np.concatenate([[dtype(-np.inf)], x[:-1]]))
        two = np.concatenate([[dtype(-np.inf)] * 2, x[:-2]])[:S]
        return np.logaddexp(out, np.where(may_skip, two, dtype(-np.inf)))

    def leave(x):
        out = np.logaddexp(x, np.concatenate([x[1:], [dtype(-np.inf)]]))
        two = np.concatenate([np.where(may_skip, x, dtype(-np.inf))[2:], [dtype(-np.inf)] * 2])[:S]
        return np.logaddexp(out, two)

    alpha, beta = np.full((T, S), -np.inf, dtype), np.full((T, S), -np.inf, dtype)
    alpha[0, :2], beta[-1, -2:] = emit[0, :2], 0
    for t in range(1, T):
        alpha[t] = arrive(alpha[t - 1]) + emit[t]
    for t in reversed(range(T - 1)):
        beta[t] = leave(beta[t + 1] + emit[t + 1])
    log_z = np.logaddexp.reduce(alpha[-1, -2:])
    node = np.exp(alpha + beta - log_z) if log_z > -np.inf else np.zeros((T, S), dtype)
    return float(log_z), node[:, ::2], node[:, 1::2]

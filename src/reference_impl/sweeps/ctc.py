"""Forward and backward sweeps of CTC over a batch, in float64 NumPy, with mantissas and exponents. No dense part.

A row of lanes holds blank u and a row holds label u, the label after it. Blank u is entered from blank u and label
u - 1; label u from label u, blank u and, unless it repeats, label u - 1. So a frame is a few operations on whole rows.
"""

from __future__ import annotations

import math

import numpy as np

from .exponents import TINY, Ranges, Spans, empty_lanes, log_of
from .logarithms import ctc_by_logs

__all__ = ["ctc_sweeps"]


def ctc_sweeps(log_probs_of, targets, T_of, U_of, T, *, occupancy=True):
    """Log Z and the occupancy of each blank and label state.

    Parameters
    ----------
    log_probs_of : callable
        Of the utterance b: float64 log-probs of the blank (T_b,) and of each target (T_b, U_b), ``-inf`` where masked,
        in arrays that may be written over. With a NaN or ``+inf`` log Z is NaN.
    targets : (B, U) int array
        Only compared with one another: a label may not follow its like without a blank.
    T_of, U_of : (B,) int arrays
    T : int
    occupancy : bool
        False stops after the forward sweep.

    Returns
    -------
    log_z : (B,) float64 array
    blank, label : (T, B, U+1) and (T, B, U) float64 arrays
        Posteriors of the states; blank u stands before label u. None without ``occupancy``.

    Examples
    --------
    >>> def log_probs_of(b):
    ...     return np.log(np.full(2, 0.5)), np.log(np.full((2, 1), 0.5))
    >>> log_z, blank, label = ctc_sweeps(log_probs_of, np.array([[1]]), np.array([2]), np.array([1]), T=2)
    >>> np.exp(log_z).round(12).tolist(), label.round(4).ravel().tolist()
    ([0.75], [0.6667, 0.6667])
    """
    B, L = len(targets), targets.shape[1] + 1
    flat, lanes = empty_lanes(T + 1, B, L)  # row t + 1: weights of the arcs into frame t, then alpha, then occupancy
    ranges, scale = Ranges(T, B), np.zeros(B)
    for b in range(B):
        blank, label = log_probs_of(b)
        t, u = label.shape
        highest = np.maximum(blank, label.max(1, initial=-np.inf))
        if ranges.usable(b, highest):
            highest[highest == -np.inf] = 0.0
            scale[b] = highest.sum()  # a factor of each frame is one of every path
            with np.errstate(over="ignore"):  # a difference beyond the range of floats is -inf, as it should be
                blank -= highest
                label -= highest[:, None]
            ranges.bits[:t, b] = np.maximum(ranges.below_one(b, blank[:, None]), ranges.below_one(b, label))
            lanes[1:t + 1, 0, b, :u + 1] = np.exp(blank)[:, None]
            np.exp(label, out=lanes[1:t + 1, 1, b, :u])
    lanes[0, 0, :, 0] = 1.0  # before the first frame there is one path, about to enter
    spans = Spans(ranges, T_of)
    ratios = _forward(flat, lanes, spans, targets)

    log_z, terminal = np.full(B, -np.inf), np.zeros((2, B))
    for b in np.flatnonzero(~ranges.broken & ~spans.left):
        log_z[b], terminal[:, b] = _end(lanes[T_of[b], :, b], spans, T_of[b], b, U_of[b])
    log_z += scale
    if occupancy:
        _backward(flat, lanes, ratios, terminal, T_of, U_of)
    if len(left := np.flatnonzero(spans.left)):
        log_z[left], states = _by_logs(log_probs_of, left, targets, T_of, U_of, T)
        lanes[1:, 0, left], lanes[1:, 1, left, :-1] = states[:, :, ::2], states[:, :, 1::2]
    log_z[ranges.broken] = np.nan
    return log_z, *((lanes[1:, 0], lanes[1:, 1, :, :-1]) if occupancy else (None, None))


def _forward(flat, lanes, spans, targets):
    """Weights become alphas. Returns for each span (first step, last step + 1, ratios of the three moves)."""
    N, _, B, L = lanes.shape
    F = B * L
    moves = np.ones((B, L, 2), bool), np.zeros((B, L, 2), bool)  # on by one state; past a blank
    moves[1][:, 1:-1, 1] = targets[:, 1:] != targets[:, :-1]
    sources = [(back + 1, move.reshape(B, 2 * L)) for back, move in enumerate(moves)]
    states, blanks, labels_before = flat.reshape(N, -1), flat[:, 0, 1:], flat[:, 1, :-1]
    mass, skip = np.zeros((2, 1 + F)), np.empty(F)
    (into_blank, into_label), mass = mass[:, 1:], mass.reshape(-1)
    n, used = 0, []
    while n < N - 1:
        nodes = lanes[n].transpose(1, 2, 0).reshape(B, 2 * L)  # blank 0, label 0, blank 1, ...
        nodes, (by_one, by_two), steps = spans.open(n, nodes, sources)
        lanes[n] = nodes.reshape(B, L, 2).transpose(2, 0, 1)
        (to_blank, to_label), past_blank = by_one.reshape(F, 2).T.copy(), by_two.reshape(F, 2)[:, 1].copy()
        end = min(n + steps, N - 1)
        for old, blank, label, new in zip(states[n:end], blanks[n:end], labels_before[n:end], states[n + 1:end + 1],
                                          strict=True):
            np.multiply(label, to_blank, out=into_blank)
            np.multiply(blank, to_label, out=into_label)
            np.multiply(label, past_blank, out=skip)
            np.add(into_label, skip, out=into_label)
            np.add(mass, old, out=mass)
            np.multiply(new, mass, out=new)
        used.append((n, end, to_blank, to_label, past_blank))
        n = end
    return used


def _end(alphas, spans, t, b, u):
    """Log Z from the alphas (2, U+1) of the last frame, and the shares of the last blank and the last label in it."""
    ends = [(float(alphas[0, u]), spans.exponent(t, b, 2 * u))]
    if u:
        ends.append((float(alphas[1, u - 1]), spans.exponent(t, b, 2 * u - 1)))
    top = max((exponent for mantissa, exponent in ends if mantissa > 0), default=None)
    if top is None:
        return -np.inf, (0.0, 0.0)
    masses = [math.ldexp(mantissa, exponent - top) if mantissa > 0 else 0.0 for mantissa, exponent in ends]
    total = sum(masses)
    return log_of(total, top), (masses[0] / total, masses[1] / total if u else 0.0)


def _backward(flat, lanes, ratios, terminal, T_of, U_of):
    """Alphas become occupancies: what an arc brought, times gamma / mass of its node, is what flows back along it."""
    N, _, B, L = lanes.shape
    F = B * L
    states, blanks, labels_before = flat.reshape(N, -1), flat[:, 0, 1:], flat[:, 1, :-1]
    mass, move, skip = np.zeros((2, 1 + F)), np.zeros((2, 1 + F)), np.empty(F)
    (into_blank, into_label), move, label_mass, mass = move[:, 1:], move.reshape(-1), mass[1, 1:], mass.reshape(-1)
    ending = {}
    for b, t in enumerate(T_of):
        ending.setdefault(int(t), []).append(b)

    def end(t):
        for b in ending.get(t, ()):
            lanes[t, 0, b, U_of[b]] += terminal[0, b]
            if U_of[b]:
                lanes[t, 1, b, U_of[b] - 1] += terminal[1, b]

    states[N - 1] = 0.0
    end(N - 1)
    for start, stop, to_blank, to_label, past_blank in reversed(ratios):
        for t in range(stop - 1, start - 1, -1):
            old, blank, label = states[t], blanks[t], labels_before[t]
            np.multiply(label, to_blank, out=into_blank)
            np.multiply(blank, to_label, out=into_label)
            np.multiply(label, past_blank, out=skip)
            np.add(old, move, out=mass)
            np.add(label_mass, skip, out=label_mass)
            np.maximum(mass, TINY, out=mass)
            per_mass = np.divide(states[t + 1], mass, out=mass)
            np.multiply(old, per_mass, out=old)
            np.multiply(move, per_mass, out=move)
            np.multiply(skip, label_mass, out=skip)
            np.add(skip, into_blank, out=skip)  # all that label u - 1 brought
            np.add(label, skip, out=label)
            np.add(blank, into_label, out=blank)
            if t in ending:
                end(t)


def _by_logs(log_probs_of, left, targets, T_of, U_of, T):
    """Log Z and the occupancy of each state (T, B, 2U+1) of the utterances ``left``."""
    extended = np.full((len(left), 2 * targets.shape[1] + 1), -1)
    extended[:, 1::2] = targets[left]
    emission = np.full((T, *extended.shape), -np.inf)
    for i, b in enumerate(left):
        t, last = T_of[b], 2 * U_of[b]
        blank, label = log_probs_of(b)
        emission[:t, i, :last + 1:2], emission[:t, i, 1:last:2] = blank[:, None], label
    return ctc_by_logs(emission, extended, T_of[left], U_of[left])

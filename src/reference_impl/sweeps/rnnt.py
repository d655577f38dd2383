"""Forward and backward sweeps of RNN-T over a batch, in float64 NumPy, with mantissas and exponents. No dense part.

Lane u of step n holds what leaves node (t, u) = (n - u, u): a row of lanes for blanks, a row for labels. A blank stays
in its lane, a label moves on by one, so an anti-diagonal is three operations on whole rows.
"""

from __future__ import annotations

import numpy as np

from .exponents import TINY, Ranges, Spans, empty_lanes, log_of
from .logarithms import by_frame, rnnt_by_logs

__all__ = ["rnnt_sweeps"]

_CACHE = 65536  # numbers handled at a time: 512 KB


def rnnt_sweeps(log_probs_of, T_of, U_of, T, U, *, occupancy=True):
    """Log Z and the posteriors of the arcs.

    Parameters
    ----------
    log_probs_of : callable
        Of the utterance b: float64 log-probs of the blank (T_b, U_b + 1) and of the next label (T_b, U_b), ``-inf``
        where masked, in arrays that may be written over. With a NaN or ``+inf`` log Z is NaN.
    T_of, U_of : (B,) int arrays
    T, U : int
    occupancy : bool
        False stops after the forward sweep.

    Returns
    -------
    log_z : (B,) float64 array
    blank, label : (T, U+1, B) float64 arrays
        Posteriors of the arcs that leave each node. None without ``occupancy``.

    Examples
    --------
    >>> def log_probs_of(b):
    ...     return np.log(np.full((2, 2), 0.5)), np.log(np.full((2, 1), 0.5))
    >>> log_z, blank, label = rnnt_sweeps(log_probs_of, np.array([2]), np.array([1]), T=2, U=1)
    >>> np.exp(log_z).round(12).tolist(), blank[..., 0].tolist(), label[..., 0].tolist()
    ([0.25], [[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.0], [0.5, 0.0]])
    """
    B, L = len(T_of), U + 1
    flat, lanes = empty_lanes(T + U, B, L)  # row t + u: weights of the arcs that leave, then masses, then posteriors
    blank_arcs, label_arcs = by_frame(lanes[:, 0], T), by_frame(lanes[:, 1], T)
    ranges, scale, last_blank = Ranges(T + U, B), np.zeros(B), np.full(B, -np.inf)
    for b in range(B):
        blank, label = log_probs_of(b)
        t, u = label.shape
        highest, highest_label = blank.max(1), label.max(0)
        highest[-1] = blank[-1, -1]  # the other blanks of the last frame lead out of the lattice, and are not read
        if not ranges.usable(b, highest) or not ranges.usable(b, highest_label):
            continue
        # the last blank is added at the end
        last_blank[b], blank, highest = blank[-1, -1], blank[:-1], highest[:-1]
        # every path has one blank in each frame, and each label once: a factor of those is one of every path
        highest[highest == -np.inf], highest_label[highest_label == -np.inf] = 0.0, 0.0
        scale[b] = highest.sum() + highest_label.sum()
        with np.errstate(over="ignore"):  # a difference beyond the range of floats is -inf, as it should be
            blank -= highest[:, None]
            label -= highest_label
        bits = np.maximum(np.append(ranges.below_one(b, blank), 0.0), ranges.below_one(b, label))
        ranges.bits[:t + u, b] = _highest_of_last(u + 1, np.append(bits, np.zeros(u)))  # frames n - u to n
        np.exp(blank, out=blank_arcs[:t - 1, :u + 1, b])
        np.exp(label, out=label_arcs[:t, :u, b])
    last = T_of - 1 + U_of
    spans = Spans(ranges, last)
    alpha = _forward(flat, lanes, spans)

    log_z = np.full(B, -np.inf)
    for b in np.flatnonzero(~ranges.broken & ~spans.left):
        mantissa = float(alpha[last[b], b, U_of[b]])
        if mantissa > 0:
            log_z[b] = log_of(mantissa, spans.exponent(last[b], b, U_of[b]))
    log_z += scale + last_blank
    if occupancy:
        _backward(flat, lanes, last, U_of, np.flatnonzero(log_z > -np.inf))
    if len(left := np.flatnonzero(spans.left)):
        log_z[left], lanes[:, 0, left], lanes[:, 1, left] = _by_logs(log_probs_of, left, T_of, U_of, T, U)
    blank_arcs[T_of - 1, U_of, np.arange(B)] = log_z > -np.inf
    log_z[ranges.broken] = np.nan
    return log_z, *((blank_arcs, label_arcs) if occupancy else (None, None))


def _highest_of_last(count, values):
    """The maximum of the ``count`` values up to each one, in place: those of twice as many from those of so many."""
    width = 1
    while width < count:
        step = min(width, count - width)
        values[step:] = np.maximum(values[step:], values[:-step])
        width += step
    return values


def _forward(flat, lanes, spans):
    """Weights become the mass that each arc brings. Returns alpha (N, B, U+1)."""
    N, _, B, L = lanes.shape
    alpha = np.zeros((N, 1 + B * L))
    nodes = alpha[:, 1:].reshape(N, B, L)
    nodes[0, :, 0] = 1.0
    node, node_before = alpha[:, 1:], alpha[:, :-1]
    blanks, labels_before = flat[:, 0, 1:], flat[:, 1, :-1]
    sources, n = [(1, np.ones((B, L), bool))], 0
    while n < N - 1:
        nodes[n], (ratio,), steps = spans.open(n, nodes[n], sources)
        end = min(n + steps, N - 1)
        lanes[n:end, 1, :, :-1] *= ratio[:, 1:]
        for here, before, blank, label, new in zip(node[n:end], node_before[n:end], blanks[n:end], labels_before[n:end],
                                                   node[n + 1:end + 1], strict=True):
            np.multiply(blank, here, out=blank)
            np.multiply(label, before, out=label)
            np.add(blank, label, out=new)
        n = end
    return nodes


def _backward(flat, lanes, last, U_of, alive):
    """The mass that each arc brings becomes its share in its node's mass, then its posterior."""
    N, _, B, L = lanes.shape
    blanks, labels, labels_before = flat[:, 0, 1:], flat[:, 1, 1:], flat[:, 1, :-1]
    gamma = np.zeros(B * L + 1)
    node, next_node = gamma[:-1], gamma[1:]
    ending = {}
    for b in alive:
        ending.setdefault(int(last[b]), []).append(b * L + U_of[b])
    chunk = max(1, _CACHE // max(1, 2 * B * L))
    for stop in range(N - 1, 0, -chunk):
        start = max(0, stop - chunk)
        per_mass = blanks[start:stop] + labels_before[start:stop]
        np.divide(1.0, np.maximum(per_mass, TINY, out=per_mass), out=per_mass)
        blanks[start:stop] *= per_mass
        labels_before[start:stop] *= per_mass
        for n in range(stop - 1, start - 1, -1):
            if n + 1 in ending:
                node[ending[n + 1]] += 1.0
            blank, label = blanks[n], labels[n]
            np.multiply(blank, node, out=blank)
            np.multiply(label, next_node, out=label)
            np.add(blank, label, out=node)


def _by_logs(log_probs_of, left, T_of, U_of, T, U):
    """Log Z and the posteriors of the blank and label arcs, (N, B, U+1) each, of the utterances ``left``."""
    weights, last_blank = np.full((2, T + U, len(left), U + 1), -np.inf), np.empty(len(left))
    blank_weight, label_weight = (by_frame(each, T) for each in weights)
    for i, b in enumerate(left):
        blank, label = log_probs_of(b)
        t, u = label.shape
        last_blank[i] = blank[-1, -1]
        blank_weight[:t - 1, :u + 1, i], label_weight[:t, :u, i] = blank[:-1], label
    return rnnt_by_logs(*weights, last_blank, T_of[left], U_of[left])

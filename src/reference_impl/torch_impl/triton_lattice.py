"""Triton kernels of the two lattices: log Z and shares going forward, occupancies coming back. A program an utterance.

Every alpha is a mantissa and an exponent of its own, m * 2^e: 1 <= m < 2 in the compute type, e in int64. A sum aligns
two exponents and adds two mantissas, so the chain from step to step has no exp and no log, nothing under- or
overflows, and what float32 rounds off is 6e-8 of each alpha, however small alpha is. Log alpha in float32 would round
off 6e-8 of a *logarithm* that grows to thousands of nats. No maximum is subtracted, since none is needed.

Lanes are rows of the lattice (u), and a step moves all of them by one anti-diagonal (RNN-T) or one frame (CTC).
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["ctc_backward", "ctc_forward", "rnnt_backward", "rnnt_forward"]

_DEAD = tl.constexpr(-(1 << 60))  # exponent of a node that no path reaches
_LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _weight(mantissas, exponents, at, mask):
    """An arc weight as mantissa and exponent; dead where it is 0 or ``mask`` is False."""
    m = tl.load(mantissas + at, mask=mask, other=0.0)
    e = tl.load(exponents + at, mask=mask, other=0).to(tl.int64)
    return m, tl.where(m == 0.0, _DEAD, e)


@triton.jit
def _power_of_two(exponent, COMPUTE: tl.constexpr):
    """2^exponent for an exponent <= 0; 0 below the range of normal numbers."""
    if COMPUTE == tl.float64:
        power = (tl.maximum(exponent, -1023) + 1023) << 52
    else:
        power = (tl.maximum(exponent, -127) + 127).to(tl.int32) << 23
    return power.to(COMPUTE, bitcast=True)


@triton.jit
def _normalise(m, e, COMPUTE: tl.constexpr):
    """The same number with its mantissa in [1, 2); dead if the mantissa is 0."""
    if COMPUTE == tl.float64:
        bits = m.to(tl.int64, bitcast=True)
        shift = (bits >> 52) - 1023
        one_to_two = (bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000
    else:
        bits = m.to(tl.int32, bitcast=True)
        shift = ((bits >> 23) - 127).to(tl.int64)
        one_to_two = (bits & 0x7FFFFF) | 0x3F800000
    dead = m == 0.0
    return tl.where(dead, 0.0, one_to_two.to(COMPUTE, bitcast=True)), tl.where(dead, _DEAD, e + shift)


@triton.jit
def _shift_up(x, fill, BLOCK: tl.constexpr):
    """Lane u gets what lane u - 1 has; lane 0 gets ``fill``."""
    lane = tl.arange(0, BLOCK)
    return tl.where(lane > 0, tl.gather(x, tl.maximum(lane - 1, 0), 0), fill)


@triton.jit
def _shift_down(x, BLOCK: tl.constexpr):
    """Lane u gets what lane u + 1 has; the last lane gets 0."""
    lane = tl.arange(0, BLOCK)
    return tl.where(lane < BLOCK - 1, tl.gather(x, tl.minimum(lane + 1, BLOCK - 1), 0), 0.0)


@triton.jit
def _at(x, lane, chosen, nothing):
    """The element of a chosen lane as a scalar; ``nothing`` if no lane is chosen."""
    return tl.max(tl.where(lane == chosen, x, nothing), 0)


@triton.jit
def _log(m, e):
    """log(m * 2^e) in float64 nats, -inf for a dead node."""
    live = m > 0.0
    log = tl.log(tl.where(live, m, 1.0).to(tl.float64)) + tl.where(live, e, 0).to(tl.float64) * _LN2
    return tl.where(live, log, float("-inf"))


@triton.jit
def _lengths(T_of, U_of, b, T, U, least_frames):
    """Lengths of an utterance, forced into range, and whether no force was needed."""
    frames, labels = tl.load(T_of + b), tl.load(U_of + b)
    T_b, U_b = tl.minimum(tl.maximum(frames, least_frames), T), tl.minimum(tl.maximum(labels, 0), U)
    return T_b.to(tl.int32), U_b.to(tl.int32), (T_b == frames) & (U_b == labels)


@triton.jit
def rnnt_forward(blank_m, blank_k, label_m, label_k, T_of, U_of, T, U1, blank_share, label_share, log_z, loss,
                 BLOCK: tl.constexpr, COMPUTE: tl.constexpr, STAGES: tl.constexpr):
    """Log Z, and the shares of the blank arc and the label arc in each node's mass. Arrays are [b, t + u, u]."""
    b = tl.program_id(0).to(tl.int64)
    T_b, U_b, usable = _lengths(T_of, U_of, b, T, U1 - 1, 1)
    u = tl.arange(0, BLOCK)
    base = b * (T + U1 - 1) * U1
    m = tl.where(u == 0, 1.0, 0.0).to(COMPUTE)
    e = tl.where(u == 0, 0, _DEAD).to(tl.int64)
    broken = tl.zeros((BLOCK,), tl.int32)
    for n in tl.range(1, T_b + U_b, num_stages=STAGES):
        before = base + (n - 1) * U1 + u
        t = n - 1 - u  # frame of the node that the arcs leave
        advances = (u <= U_b) & (t >= 0) & (t < T_b - 1)  # blanks of the last frame lead out of the lattice, unread
        emits = (u < U_b) & (t >= 0) & (t < T_b)
        weight, weight_e = _weight(blank_m, blank_k, before, advances)
        broken = tl.maximum(broken, tl.where(weight != weight, 1, 0))
        by_blank, e_blank = m * weight, e + weight_e
        weight, weight_e = _weight(label_m, label_k, before, emits)
        broken = tl.maximum(broken, tl.where(weight != weight, 1, 0))
        by_label, e_label = _shift_up(m * weight, 0.0, BLOCK), _shift_up(e + weight_e, _DEAD, BLOCK)
        e = tl.maximum(e_blank, e_label)
        by_blank *= _power_of_two(e_blank - e, COMPUTE)
        by_label *= _power_of_two(e_label - e, COMPUTE)
        total = by_blank + by_label
        m, e = _normalise(total, e, COMPUTE)
        per_mass = 1.0 / tl.where(total == 0.0, 1.0, total)
        tl.store(blank_share + before + U1, by_blank * per_mass, mask=u <= U_b)
        tl.store(label_share + before + U1, by_label * per_mass, mask=u <= U_b)
    last = base + (T_b + U_b - 1) * U1 + U_b
    weight, weight_e = _weight(blank_m, blank_k, last, True)
    end_m = _at(m, u, U_b, 0.0) * weight
    end_e = _at(e, u, U_b, 2 * _DEAD) + weight_e
    broken_here = (tl.max(broken, 0) > 0) | (end_m != end_m)
    z = _log(end_m, end_e)
    z = tl.where(usable & (broken_here == 0), z, float("nan"))
    tl.store(log_z + b, z)
    tl.store(loss + b, (0.0 - z).to(COMPUTE))  # as minus() in _loss_value.py


@triton.jit
def rnnt_backward(blank_share, label_share, log_z, T_of, U_of, T, U1, e_blank, e_label, BLOCK: tl.constexpr,
                  COMPUTE: tl.constexpr, STAGES: tl.constexpr):
    """Posteriors of the blank arc and the label arc that leave each node, [b, t + u, u]: multiply and add, no more.

    The larger of two flows is what the smaller leaves over: no mass is lost to rounding on the way. The shares of nodes
    outside the grid were stored as 0, so the way back need not ask for t.
    """
    b = tl.program_id(0).to(tl.int64)
    T_b, U_b, _ = _lengths(T_of, U_of, b, T, U1 - 1, 1)
    u = tl.arange(0, BLOCK)
    base = b * (T + U1 - 1) * U1
    last = T_b + U_b - 1
    end = tl.where(tl.load(log_z + b) == float("-inf"), -1, U_b)  # no lane: nothing flows where no path exists
    node = tl.where(u == end, 1.0, 0.0).to(COMPUTE)
    tl.store(e_blank + base + last * U1 + u, node, mask=u <= U_b)
    for step in tl.range(0, last, num_stages=STAGES):
        into = base + (last - step) * U1 + u
        r_blank = tl.load(blank_share + into, mask=u <= U_b, other=0.0)
        r_label = tl.load(label_share + into, mask=u <= U_b, other=0.0)
        by_blank, by_label = node * r_blank, node * r_label
        blank_leads = r_blank >= r_label
        by_blank, by_label = (tl.where(blank_leads, node - by_label, by_blank),
                              tl.where(blank_leads, by_label, node - by_blank))
        tl.store(e_blank + into - U1, by_blank, mask=u <= U_b)
        tl.store(e_label + into - U1 - 1, by_label, mask=(u >= 1) & (u <= U_b))
        node = by_blank + _shift_down(by_label, BLOCK)


@triton.jit
def ctc_forward(blank_m, blank_k, label_m, label_k, masses, targets, T_of, U_of, blank, T, U, V, shares, share_stride,
                end_shares, log_z, loss, BLOCK: tl.constexpr, NORMALISE: tl.constexpr, COMPUTE: tl.constexpr,
                STAGES: tl.constexpr):
    """Log Z, and the shares of the arcs into each state, five arrays [b, t, u]; blank u and label u share a lane.

    Blank u is entered from blank u and label u - 1; label u from label u, blank u and, unless it repeats, label u - 1.
    """
    b = tl.program_id(0).to(tl.int64)
    T_b, U_b, usable = _lengths(T_of, U_of, b, T, U, 0)
    u = tl.arange(0, BLOCK)
    label = tl.load(targets + b * U + u, mask=u < U_b, other=-1)
    before = tl.load(targets + b * U + u - 1, mask=(u > 0) & (u < U_b), other=-1)
    skips = (u > 0) & (label != before)
    blank_of = tl.where(u == 0, 1.0, 0.0).to(COMPUTE)  # before the first frame: one path, about to enter
    blank_e = tl.where(u == 0, 0, _DEAD).to(tl.int64)
    label_of = tl.zeros((BLOCK,), COMPUTE)
    label_e = tl.full((BLOCK,), _DEAD, tl.int64)
    broken = tl.zeros((BLOCK,), tl.int32)
    for t in tl.range(0, T_b, num_stages=STAGES):
        weight, weight_e = _weight(blank_m, blank_k, b * T + t, True)
        label_weight, label_weight_e = _weight(label_m, label_k, (b * T + t) * U + u, u < U_b)
        broken = tl.maximum(broken, tl.where(label_weight != label_weight, 1, tl.where(weight != weight, 1, 0)))
        moved, moved_e = _shift_up(label_of, 0.0, BLOCK), _shift_up(label_e, _DEAD, BLOCK)
        skipped_e = tl.where(skips, moved_e, _DEAD)

        e = tl.maximum(blank_e, moved_e)
        stay, move = blank_of * _power_of_two(blank_e - e, COMPUTE), moved * _power_of_two(moved_e - e, COMPUTE)
        mass = stay + move
        new_blank, new_blank_e = _normalise(mass * weight, e + weight_e, COMPUTE)

        e = tl.maximum(tl.maximum(label_e, blank_e), skipped_e)
        label_stay = label_of * _power_of_two(label_e - e, COMPUTE)
        label_move = blank_of * _power_of_two(blank_e - e, COMPUTE)
        label_skip = tl.where(skips, moved, 0.0) * _power_of_two(skipped_e - e, COMPUTE)
        label_mass = label_stay + label_move + label_skip
        label_of, label_e = _normalise(label_mass * label_weight, e + label_weight_e, COMPUTE)
        blank_of, blank_e = new_blank, new_blank_e

        at = shares + (b * T + t) * (U + 1) + u
        per_mass = 1.0 / tl.where(mass == 0.0, 1.0, mass)
        tl.store(at, stay * per_mass, mask=u <= U_b)
        tl.store(at + share_stride, move * per_mass, mask=u <= U_b)
        per_mass = 1.0 / tl.where(label_mass == 0.0, 1.0, label_mass)
        tl.store(at + 2 * share_stride, label_stay * per_mass, mask=u <= U_b)
        tl.store(at + 3 * share_stride, label_move * per_mass, mask=u <= U_b)
        tl.store(at + 4 * share_stride, label_skip * per_mass, mask=u <= U_b)

    end_blank, end_blank_e = _at(blank_of, u, U_b, 0.0), _at(blank_e, u, U_b, 2 * _DEAD)
    end_label, end_label_e = _at(label_of, u, U_b - 1, 0.0), _at(label_e, u, U_b - 1, _DEAD)
    e = tl.maximum(end_blank_e, end_label_e)
    end_blank *= _power_of_two(end_blank_e - e, COMPUTE)
    end_label *= _power_of_two(end_label_e - e, COMPUTE)
    total = end_blank + end_label
    per_mass = 1.0 / tl.where(total == 0.0, 1.0, total)
    tl.store(end_shares + 2 * b, end_blank * per_mass)
    tl.store(end_shares + 2 * b + 1, end_label * per_mass)
    z = _log(total, e)
    if NORMALISE:
        log_mass = tl.zeros((BLOCK,), tl.float64)
        for first in range(0, T_b, BLOCK):
            log_mass += tl.log(tl.load(masses + b * T + first + u, mask=first + u < T_b, other=1.0).to(tl.float64))
        z -= tl.sum(log_mass, 0)
    wrong = (u < U_b) & ((label < 0) | (label >= V) | (label == blank))
    broken = tl.maximum(broken, tl.where(wrong, 1, 0))
    z = tl.where(usable & (tl.max(broken, 0) == 0), z, float("nan"))
    tl.store(log_z + b, z)
    tl.store(loss + b, (0.0 - z).to(COMPUTE))  # as minus() in _loss_value.py


@triton.jit
def ctc_backward(shares, share_stride, end_shares, log_z, T_of, U_of, T, U, blank_occupancy, label_occupancy,
                 BLOCK: tl.constexpr, COMPUTE: tl.constexpr, STAGES: tl.constexpr):
    """Occupancy of each blank and label state, [b, t, u]; the largest flow is what the others leave over."""
    b = tl.program_id(0).to(tl.int64)
    T_b, U_b, _ = _lengths(T_of, U_of, b, T, U, 0)
    u = tl.arange(0, BLOCK)
    end = tl.where(tl.load(log_z + b) == float("-inf"), -1, U_b)  # no lane: nothing flows where no path exists
    blank = tl.where(u == end, tl.load(end_shares + 2 * b), 0.0).to(COMPUTE)
    label = tl.where(u == end - 1, tl.load(end_shares + 2 * b + 1), 0.0).to(COMPUTE)
    for step in tl.range(0, T_b, num_stages=STAGES):
        node = (b * T + T_b - 1 - step) * (U + 1) + u
        tl.store(blank_occupancy + node, blank, mask=u <= U_b)
        tl.store(label_occupancy + node, label, mask=u < U_b)
        at = shares + node
        r_stay = tl.load(at, mask=u <= U_b, other=0.0)
        r_move = tl.load(at + share_stride, mask=u <= U_b, other=0.0)
        stay, move = blank * r_stay, blank * r_move
        stay, move = (tl.where(r_stay >= r_move, blank - move, stay), tl.where(r_stay >= r_move, move, blank - stay))
        r_stay = tl.load(at + 2 * share_stride, mask=u <= U_b, other=0.0)
        r_move = tl.load(at + 3 * share_stride, mask=u <= U_b, other=0.0)
        r_skip = tl.load(at + 4 * share_stride, mask=u <= U_b, other=0.0)
        label_stay, label_move, label_skip = label * r_stay, label * r_move, label * r_skip
        stay_leads = (r_stay >= r_move) & (r_stay >= r_skip)
        move_leads = (r_move > r_stay) & (r_move >= r_skip)
        label_stay, label_move, label_skip = (
            tl.where(stay_leads, label - (label_move + label_skip), label_stay),
            tl.where(move_leads, label - (label_stay + label_skip), label_move),
            tl.where(stay_leads | move_leads, label_skip, label - (label_stay + label_move)))
        blank = stay + label_move
        label = label_stay + _shift_down(move + label_skip, BLOCK)

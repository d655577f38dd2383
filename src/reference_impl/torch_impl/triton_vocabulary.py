"""Triton kernels over the rows of the logits: one read before the lattice, one read and one write after it.

A row is the V logits of a frame (CTC) or of a node (RNN-T). Going in, a kernel reads each row once: its maximum, the
sum of its exponentials, and the few entries that the lattice uses, which leave as a mantissa and an exponent
(:mod:`.triton_lattice`). Coming back, it reads the row again and writes ``softmax * node occupancy - occupancy``.
Nothing here knows a recursion. The launches are in :mod:`.triton_backend`.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["ctc_gradient", "ctc_rows", "rnnt_gradient", "rnnt_rows"]

_LOG2E = tl.constexpr(1.4426950408889634)
_LEAST_EXPONENT = tl.constexpr(-(1 << 31) + 1)  # of a weight that is not 0: e^-1488522236


@triton.jit
def mantissa_and_exponent(score, mass):
    """``exp(score) / mass`` as m * 2^k with k an int32; m is 0 for -inf, and NaN for NaN and +inf."""
    usual = (score > float("-inf")) & (score < float("inf"))
    log2 = tl.where(usual, score, 0.0).to(tl.float64) * _LOG2E
    log2 = tl.minimum(tl.maximum(log2, _LEAST_EXPONENT), -_LEAST_EXPONENT)
    whole = tl.floor(log2)
    mantissa = tl.exp2((log2 - whole).to(score.dtype)) / mass
    masked = (score == float("-inf")) & (mass == mass)
    return tl.where(usual, mantissa, tl.where(masked, 0.0, float("nan"))), whole.to(tl.int32)


@triton.jit
def _body(start, V, chunk, BLOCK: tl.constexpr, VECTOR: tl.constexpr, EDGES: tl.constexpr):
    """Positions (rows, BLOCK) of one chunk of each row that begins at ``start``, and which of them are in the row.

    With EDGES only the part of the row between two multiples of VECTOR, so that memory moves 16 bytes at a time though
    rows begin anywhere; :func:`_edges` has the rest.
    """
    if EDGES:
        first = (start + VECTOR - 1) // VECTOR * VECTOR
        end = (start + V) // VECTOR * VECTOR
    else:
        first, end = start, start + V
    position = first[:, None] + (chunk * BLOCK + tl.arange(0, BLOCK))[None, :]
    return position, position < end[:, None]


@triton.jit
def _edges(start, V, VECTOR: tl.constexpr):
    """Positions (rows, 2 VECTOR) of what a row has before its first and after its last multiple of VECTOR."""
    first = (start + VECTOR - 1) // VECTOR * VECTOR
    last = (start + V) // VECTOR * VECTOR
    e = tl.arange(0, 2 * VECTOR)[None, :]
    position = tl.where(e < VECTOR, start[:, None] + e, last[:, None] + e - VECTOR)
    before = position < tl.minimum(first, start + V)[:, None]
    after = (position < (start + V)[:, None]) & (last >= first)[:, None]
    return position, tl.where(e < VECTOR, before, after)


@triton.jit
def _address(position, start, row, stride, EDGES: tl.constexpr):
    """Where the entry at a position of its row lies, in a tensor whose rows begin at ``row``.

    With EDGES the tensor is laid out as the positions are, and must be seen to be, or no access is of 16 bytes.
    """
    if EDGES:
        address = position
    else:
        address = row[:, None] + (position - start[:, None]) * stride
    return address


@triton.jit
def _offset(symbol, stride):
    """Where a symbol lies in its row: in 64 bits, for a stride may bring it beyond 2^31."""
    return tl.cast(symbol, tl.int64) * stride


@triton.jit
def _scores(logits, address, mask, fill, COMPUTE: tl.constexpr):
    """Logits in the type to compute in."""
    return tl.load(logits + address, mask=mask, other=fill).to(COMPUTE)


@triton.jit
def _all_read(OVERWRITE: tl.constexpr):
    """All threads have read their logits, and gradients may be written over them."""
    if OVERWRITE:
        tl.debug_barrier()


@triton.jit
def _add_to_mass(peak, mass, scores):
    """Peak and mass of each row after some more scores: the online log-sum-exp, without its logarithm."""
    higher = tl.maximum(peak, tl.max(scores, 1))
    shift = tl.where(higher == float("-inf"), 0.0, higher)
    return higher, mass * tl.exp(peak - shift) + tl.sum(tl.exp(scores - shift[:, None]), 1)


@triton.jit
def _peak_and_mass(logits, start, sv, in_use, V, CHUNKS: tl.constexpr, BLOCK: tl.constexpr, VECTOR: tl.constexpr,
                   EDGES: tl.constexpr, COMPUTE: tl.constexpr):
    """Maximum of each row and sum of exp(logits - maximum); 0 and 1 for a row that is masked altogether."""
    peak = tl.where(in_use, float("-inf"), 0.0).to(COMPUTE)
    mass = tl.where(in_use, 0.0, 1.0).to(COMPUTE)
    for chunk in range(CHUNKS):
        position, inside = _body(start, V, chunk, BLOCK, VECTOR, EDGES)
        address = _address(position, start, start, sv, EDGES)
        scores = _scores(logits, address, inside & in_use[:, None], float("-inf"), COMPUTE)
        peak, mass = _add_to_mass(peak, mass, scores)
    if EDGES:
        position, inside = _edges(start, V, VECTOR)
        scores = _scores(logits, position, inside & in_use[:, None], float("-inf"), COMPUTE)
        peak, mass = _add_to_mass(peak, mass, scores)
    return tl.where(peak == float("-inf"), 0.0, peak), tl.where(mass == 0.0, 1.0, mass)


@triton.jit
def rnnt_rows(logits, sb, st, su, sv, targets, T_of, U_of, blank, T, U1, V, peaks, masses, blank_m, blank_k, label_m,
              label_k, CHUNKS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, VECTOR: tl.constexpr,
              EDGES: tl.constexpr, NORMALISE: tl.constexpr, COMPUTE: tl.constexpr):
    """Peak, mass and the two arc weights of every node in use, each stored at [b, t + u, u].

    One program has ROWS neighbouring rows of one utterance. A label outside [0, V), or equal to the blank, is NaN.
    """
    b = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    t, u = row // U1, row % U1
    frames, labels = tl.load(T_of + b), tl.load(U_of + b)
    in_use = (t < tl.minimum(frames, T)) & (u <= labels)
    start = b * sb + t.to(tl.int64) * st + u.to(tl.int64) * su
    node = (b * (T + U1 - 1) + t + u) * U1 + u
    if NORMALISE:
        peak, mass = _peak_and_mass(logits, start, sv, in_use, V, CHUNKS, BLOCK, VECTOR, EDGES, COMPUTE)
        tl.store(peaks + node, peak, mask=in_use)
        tl.store(masses + node, mass, mask=in_use)
    else:
        peak, mass = tl.zeros((ROWS,), COMPUTE), tl.full((ROWS,), 1.0, COMPUTE)
    score = tl.load(logits + start + _offset(blank, sv), mask=in_use, other=0.0).to(COMPUTE)
    m, k = mantissa_and_exponent(score - peak, mass)
    tl.store(blank_m + node, m, mask=in_use)
    tl.store(blank_k + node, k, mask=in_use)
    emits = in_use & (u < tl.minimum(labels, U1 - 1))
    label = tl.load(targets + b * (U1 - 1) + u, mask=emits, other=0)
    possible = (label >= 0) & (label < V) & (label != blank)
    score = tl.load(logits + start + _offset(label, sv), mask=emits & possible, other=float("nan")).to(COMPUTE)
    m, k = mantissa_and_exponent(score - peak, mass)
    tl.store(label_m + node, m, mask=emits)
    tl.store(label_k + node, k, mask=emits)


@triton.jit
def _upstream(upstream, log_z, b, COMPUTE: tl.constexpr):
    """The upstream gradient of an utterance, and whether any gradient flows.

    None flows where no alignment exists or the upstream gradient is 0. An infinite one counts as a number so large that
    the sum of two posteriors, 1 up to rounding, can still be multiplied by it.
    """
    value, z = tl.load(upstream + b).to(COMPUTE), tl.load(log_z + b)
    flows = (z != float("-inf")) & (value != 0.0)
    largest = 1e38 if COMPUTE == tl.float32 else 1e308
    bounded = tl.minimum(tl.maximum(value, -largest), largest)
    bounded = tl.where((value == value) & (z == z), bounded, float("nan"))
    return tl.where(flows, bounded, 0.0).to(COMPUTE), flows


@triton.jit
def _rnnt_entries(scores, position, start, peak, scale, e_blank, e_label, blank, label, flows, upstream, clamp,
                  NORMALISE: tl.constexpr):
    """The gradient with respect to some logits of each row."""
    column = position - start[:, None]
    if NORMALISE:
        entry = tl.exp(scores - peak[:, None]) * scale[:, None]
    else:
        entry = tl.zeros_like(scores)
    entry = tl.where(column == blank, entry - e_blank[:, None], entry)
    entry = tl.where(column == label[:, None], entry - e_label[:, None], entry)
    if clamp is not None:  # by comparisons, which let a NaN pass
        bound = tl.load(clamp)
        entry = tl.where(entry > bound, bound, tl.where(entry < -bound, -bound, entry)) * upstream
    return tl.where(flows[:, None], entry, 0.0)


@triton.jit
def rnnt_gradient(logits, sb, st, su, sv, grad, gb, gt, gu, gv, targets, T_of, U_of, blank, T, U1, V, peaks, masses,
                  e_blanks, e_labels, log_z, upstreams, clamp, CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
                  ROWS: tl.constexpr, VECTOR: tl.constexpr, EDGES: tl.constexpr, NORMALISE: tl.constexpr,
                  OVERWRITE: tl.constexpr, COMPUTE: tl.constexpr):
    """``softmax * (e_blank + e_label)``, less ``e_blank`` at the blank and ``e_label`` at the label; 0 in padding.

    With OVERWRITE ``grad`` is the memory of the logits. Each entry is read and written by one program, but where there
    are less entries than threads, several threads read one and one of them writes it: so a barrier stands between.
    ``clamp`` is the address of a bound, or None.
    """
    b = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    t, u = row // U1, row % U1
    frames, labels = tl.load(T_of + b), tl.load(U_of + b)
    exists = t < T
    upstream, any_flow = _upstream(upstreams, log_z, b, COMPUTE)
    flows = (t < tl.where(any_flow, tl.minimum(frames, T), 0)) & (u <= labels)
    start = b * sb + t.to(tl.int64) * st + u.to(tl.int64) * su
    out_start = b * gb + t.to(tl.int64) * gt + u.to(tl.int64) * gu
    node = (b * (T + U1 - 1) + t + u) * U1 + u
    emits = flows & (u < tl.minimum(labels, U1 - 1))
    e_blank = tl.load(e_blanks + node, mask=flows, other=0.0)
    e_label = tl.load(e_labels + node, mask=emits, other=0.0)
    label = tl.load(targets + b * (U1 - 1) + u, mask=emits, other=-1).to(tl.int64)
    if clamp is None:
        e_blank, e_label = e_blank * upstream, e_label * upstream
    if NORMALISE:
        peak = tl.load(peaks + node, mask=flows, other=0.0)
        scale = (e_blank + e_label) / tl.load(masses + node, mask=flows, other=1.0)
    else:
        peak, scale = tl.zeros((ROWS,), COMPUTE), tl.zeros((ROWS,), COMPUTE)
    for chunk in range(CHUNKS):
        position, inside = _body(start, V, chunk, BLOCK, VECTOR, EDGES)
        scores = tl.zeros((ROWS, BLOCK), COMPUTE)
        if NORMALISE:
            address = _address(position, start, start, sv, EDGES)
            scores = _scores(logits, address, inside & flows[:, None], 0.0, COMPUTE)
            _all_read(OVERWRITE)
        entries = _rnnt_entries(scores, position, start, peak, scale, e_blank, e_label, blank, label, flows, upstream,
                                clamp, NORMALISE)
        out = _address(position, start, out_start, gv, EDGES)
        tl.store(grad + out, entries.to(grad.dtype.element_ty), mask=inside & exists[:, None])
    if EDGES:
        position, inside = _edges(start, V, VECTOR)
        scores = tl.zeros((ROWS, 2 * VECTOR), COMPUTE)
        if NORMALISE:
            scores = _scores(logits, position, inside & flows[:, None], 0.0, COMPUTE)
            _all_read(OVERWRITE)
        entries = _rnnt_entries(scores, position, start, peak, scale, e_blank, e_label, blank, label, flows, upstream,
                                clamp, NORMALISE)
        tl.store(grad + position, entries.to(grad.dtype.element_ty), mask=inside & exists[:, None])


@triton.jit
def ctc_rows(logits, sb, st, sv, targets, T_of, U_of, blank, T, U, V, peaks, masses, blank_m, blank_k, label_m, label_k,
             CHUNKS: tl.constexpr, BLOCK: tl.constexpr, LABELS: tl.constexpr, VECTOR: tl.constexpr,
             EDGES: tl.constexpr, NORMALISE: tl.constexpr, COMPUTE: tl.constexpr):
    """Peak and mass (B, T) of every frame in use, and the weights of its blank (B, T) and of its labels (B, T, U).

    One program has one frame. The weights are relative to the peak and not divided by the mass: a factor that a whole
    frame shares changes no posterior, and the loss gets it back at the end. A label outside [0, V), or equal to the
    blank, is NaN.
    """
    b = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0)
    if t < tl.load(T_of + b):
        frame = b * T + t
        start = b * sb + t.to(tl.int64) * st + tl.zeros((1,), tl.int64)
        in_use = tl.full((1,), True, tl.int1)
        if NORMALISE:
            peak, mass = _peak_and_mass(logits, start, sv, in_use, V, CHUNKS, BLOCK, VECTOR, EDGES, COMPUTE)
            tl.store(peaks + frame + tl.zeros((1,), tl.int32), peak)
            tl.store(masses + frame + tl.zeros((1,), tl.int32), mass)
        else:
            peak, mass = tl.zeros((1,), COMPUTE), tl.full((1,), 1.0, COMPUTE)
        broken = tl.where(mass == mass, 1.0, mass)  # a NaN must reach the lattice
        score = tl.load(logits + start + _offset(blank, sv)).to(COMPUTE)
        m, k = mantissa_and_exponent(score - peak, broken)
        tl.store(blank_m + frame + tl.zeros((1,), tl.int32), m)
        tl.store(blank_k + frame + tl.zeros((1,), tl.int32), k)
        u = tl.arange(0, LABELS)
        emits = u < tl.minimum(tl.load(U_of + b), U)
        label = tl.load(targets + b * U + u, mask=emits, other=0)
        possible = (label >= 0) & (label < V) & (label != blank)
        score = tl.load(logits + start + _offset(label, sv), mask=emits & possible, other=float("nan")).to(COMPUTE)
        m, k = mantissa_and_exponent(score - peak, broken)
        tl.store(label_m + frame * U + u, m, mask=emits)
        tl.store(label_k + frame * U + u, k, mask=emits)


@triton.jit
def add_within_segment(value_a, first_a, value_b, first_b):
    """Sum of a run of equal labels: a sum that begins anew where ``first`` is 1."""
    return tl.where(first_b != 0, value_b, value_a + value_b), first_a | first_b


@triton.jit
def ctc_gradient(logits, sb, st, sv, grad, gb, gt, gv, labels_in_order, order, T_of, U_of, blank, T, U, V, peaks,
                 masses, blank_occupancy, label_occupancy, log_z, upstreams, CHUNKS: tl.constexpr, BLOCK: tl.constexpr,
                 LABELS: tl.constexpr, VECTOR: tl.constexpr, EDGES: tl.constexpr, NORMALISE: tl.constexpr,
                 OVERWRITE: tl.constexpr, COMPUTE: tl.constexpr):
    """``softmax - occupancy`` in every frame of an utterance that has an alignment, else 0.

    A label may occur several times in a target. ``order`` (B, U) sorts each target, so equal labels are neighbours, and
    a segmented scan adds their occupancies in one fixed order: no atomics, the same bits each time. The row is
    written without its labels first, then, past a barrier, each distinct label once.
    """
    b = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0)
    upstream, any_flow = _upstream(upstreams, log_z, b, COMPUTE)
    flows = (t < tl.load(T_of + b)) & any_flow
    one = tl.zeros((1,), tl.int64)
    start, out_start = b * sb + t.to(tl.int64) * st + one, b * gb + t.to(tl.int64) * gt + one
    frame, labels = b * T + t, tl.where(flows, tl.minimum(tl.load(U_of + b), U), -1)
    live = tl.arange(0, 1) < tl.where(flows, 1, 0)

    u = tl.arange(0, LABELS)
    emits, states = u < labels, u <= labels
    e_blank = tl.sum(tl.load(blank_occupancy + frame * (U + 1) + u, mask=states, other=0.0), 0) * upstream
    place = tl.load(order + b * U + u, mask=emits, other=0)
    occupancy = tl.load(label_occupancy + frame * (U + 1) + place, mask=emits, other=0.0)
    label = tl.load(labels_in_order + b * U + u, mask=emits, other=-1)
    before = tl.load(labels_in_order + b * U + u - 1, mask=emits & (u > 0), other=-1)
    after = tl.load(labels_in_order + b * U + u + 1, mask=u + 1 < labels, other=-1)
    occupancy, _ = tl.associative_scan((occupancy, (label != before).to(tl.int32)), 0, add_within_segment)
    complete = emits & (label != after) & (label >= 0) & (label < V)
    e_label = occupancy * upstream

    if NORMALISE:
        peak = tl.load(peaks + frame + tl.arange(0, 1), mask=live, other=0.0)
        scale = upstream / tl.load(masses + frame + tl.arange(0, 1), mask=live, other=1.0)
        score = tl.load(logits + start + _offset(label, sv), mask=complete, other=0.0).to(COMPUTE)
        label_entry = tl.exp(score - peak) * scale - e_label
        _all_read(OVERWRITE)
    else:
        peak, scale = tl.zeros((1,), COMPUTE), tl.zeros((1,), COMPUTE)
        label_entry = 0.0 - e_label  # as minus() in _loss_value.py
    for chunk in range(CHUNKS):
        position, inside = _body(start, V, chunk, BLOCK, VECTOR, EDGES)
        scores = tl.zeros((1, BLOCK), COMPUTE)
        if NORMALISE:
            address = _address(position, start, start, sv, EDGES)
            scores = _scores(logits, address, inside & live[:, None], 0.0, COMPUTE)
            _all_read(OVERWRITE)
        entries = _ctc_entries(scores, position, start, peak, scale, e_blank, blank, live, NORMALISE)
        out = _address(position, start, out_start, gv, EDGES)
        tl.store(grad + out, entries.to(grad.dtype.element_ty), mask=inside)
    if EDGES:
        position, inside = _edges(start, V, VECTOR)
        scores = tl.zeros((1, 2 * VECTOR), COMPUTE)
        if NORMALISE:
            scores = _scores(logits, position, inside & live[:, None], 0.0, COMPUTE)
            _all_read(OVERWRITE)
        entries = _ctc_entries(scores, position, start, peak, scale, e_blank, blank, live, NORMALISE)
        tl.store(grad + position, entries.to(grad.dtype.element_ty), mask=inside)
    tl.debug_barrier()
    tl.store(grad + out_start + _offset(label, gv), label_entry.to(grad.dtype.element_ty), mask=complete)


@triton.jit
def _ctc_entries(scores, position, start, peak, scale, e_blank, blank, live, NORMALISE: tl.constexpr):
    """The gradient with respect to some logits of a frame, but for the labels."""
    if NORMALISE:
        entry = tl.exp(scores - peak[:, None]) * scale[:, None]
    else:
        entry = tl.zeros_like(scores)
    entry = tl.where(position - start[:, None] == blank, entry - e_blank, entry)
    return tl.where(live[:, None], entry, 0.0)

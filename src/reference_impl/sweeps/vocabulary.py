"""The dense part of both losses in NumPy: exponentials and sums of rows of logits going in, gradients coming out.

No lattice lives here. A block of rows stays in the cache from the exponential to its sum; the exponentials become the
gradient where they are, so that the logits are read once and the gradient is written twice.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

__all__ = ["ctc_gradient", "ctc_log_probs", "exp_rows", "rnnt_gradient", "rnnt_log_probs"]

_BLOCK = 65536  # elements of the logits handled at a time: 256 KB of float32


def exp_rows(logits, mass, out=None):
    """``out = exp(logits)`` in units that differ from row to row, ``mass`` its sum over the last axis.

    The unit is 1 where nothing is lost by it, else the largest entry of the row. Nothing is lost if the sum is so far
    from both ends of the range of floats that what underflows is beyond the reach of rounding.

    Float32 numbers are summed 128 at a time in float32, and these sums in float64. That is wrong by some 4e-8 of a
    mass. No posterior of CTC sees it. In RNN-T every node has a mass of its own, and paths collect what they meet: 2e-7
    in the gradient at T = 1500, U = 300.

    Parameters
    ----------
    logits : (..., V) array of two or three axes
        float16, float32 or float64.
    mass : array of float64
        One for each row; filled.
    out : array like logits, optional
        float64 for float64 logits, else float32; filled. May be ``logits``. None: nothing but the sums is wanted.

    Returns
    -------
    float64 array
        Logarithm of the unit of each row: its log-prob is a logit, less this, less ``log(mass)``. In this order: where
        all logits of a row are large, their log-sum-exp is rounded to a number that has lost ``log(mass)``. ``mass`` is
        NaN for a row with a NaN or ``+inf``, and 1 for a row of ``-inf``, whose log-probs so stay ``-inf``.
    """
    if logits.ndim == 3 and all(each.flags.c_contiguous for each in (logits, mass, logits if out is None else out)):
        flat = (each if each is None else each.reshape(-1, logits.shape[-1]) for each in (logits, out))
        return _exp_rows(next(flat), mass.reshape(-1), next(flat)).reshape(mass.shape)
    return _exp_rows(logits, mass, out)


def _exp_rows(logits, mass, out):
    unit = np.zeros(mass.shape)
    if out is not None and np.may_share_memory(logits, out):
        for block in _blocks(logits.shape):
            unit[block] = _exp_rows(logits[block].copy(), mass[block], out[block])
        return unit
    dtype = out.dtype if out is not None else np.dtype(np.float64 if logits.dtype == np.float64 else np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large or too small comes next
        for block in _blocks(logits.shape):
            y = np.exp(logits[block], out=None if out is None else out[block], dtype=dtype)
            _sums(y, mass[block])
    _with_peaks(logits, mass, unit, out, dtype)
    return unit


def _sums(y, out):
    """Over the last axis, 128 numbers at a time in the type that they have, as BLAS adds them up."""
    pieces, rest = divmod(y.shape[-1], 128)
    ones = np.ones(128, y.dtype)
    np.matmul(y[..., 128 * pieces:], ones[:rest], out=out)
    if pieces:
        cut = as_strided(y, (*y.shape[:-1], pieces, 128), (*y.strides[:-1], 128 * y.itemsize, y.itemsize))
        out += np.matmul(cut, ones).sum(-1, dtype=np.float64)


def _with_peaks(logits, mass, unit, out, dtype):
    """Rows whose sums are not safely inside the range of floats, in units of their largest entries."""
    limits = np.finfo(dtype)
    least = float(limits.tiny) / float(limits.eps) ** 2
    if least < mass.min(initial=1.0) and mass.max(initial=1.0) < 1 / least:
        return
    far = ~((least < mass) & (mass < 1 / least))
    for block in _blocks(logits.shape):
        rows = far[block]
        if rows.any():
            x = logits[block][rows].astype(dtype)
            peak = x.max(-1)
            peak[peak == -np.inf] = 0
            # a difference beyond the range of floats is -inf, as it should be; a NaN is seen in the sum
            with np.errstate(over="ignore", invalid="ignore"):
                y = np.exp(x - peak[:, None])
            sums = y.sum(-1, dtype=np.float64)
            sums[sums == 0.0] = 1.0
            peak[peak == np.inf] = np.nan  # as the sum; and inf - inf would warn
            mass[block][rows], unit[block][rows] = sums, peak
            if out is not None:
                out[block][rows] = y


def _blocks(shape):
    """Indices that together cover all rows, of some _BLOCK elements each; not fewer than one row."""
    inner = shape[-1] * (shape[1] if len(shape) == 3 else 1)
    if len(shape) == 3 and inner > _BLOCK:
        for t in range(shape[0]):
            yield from ((t, *block) for block in _blocks(shape[1:]))
        return
    step = max(1, _BLOCK // max(1, inner))
    yield from ((slice(start, start + step),) for start in range(0, shape[0], step))


def ctc_log_probs(logits, unit, mass, labels, blank):
    """Float64 log-probs of the blank (T,) and of each label (T, U), from logits (T, V) and :func:`exp_rows`."""
    log_mass = np.log(mass)
    return (logits[:, blank] - unit - log_mass,
            np.take(logits, labels, axis=1) - unit[:, None] - log_mass[:, None])


def rnnt_log_probs(logits, unit, mass, labels, blank):
    """Float64 log-probs of the blank (T, U+1) and of the next label (T, U), from logits (T, U+1, V)."""
    log_mass = np.log(mass)
    return (logits[:, :, blank] - unit - log_mass,
            logits[:, np.arange(len(labels)), labels] - unit[:, :-1] - log_mass[:, :-1])


def ctc_gradient(rows, factor, blank_part, label_part, labels, blank):
    """In place: ``rows * factor``, less ``blank_part`` for the blank and ``label_part`` for the labels.

    Parameters
    ----------
    rows : (T, V) contiguous array
        Of :func:`exp_rows`.
    factor, blank_part : (T,) arrays
        ``factor`` None: the rows are taken for 0.
    label_part : (T, U) array
        A label's parts add up where it is repeated.
    labels : (U,) int array
    blank : int
    """
    T, V = rows.shape
    step = max(1, _BLOCK // max(1, V))
    index = np.add.outer(np.arange(min(step, T)) * V, labels).ravel()
    for start in range(0, T, step):
        block = rows[start:start + step]
        _scale(block, None if factor is None else factor[start:start + step])
        block[:, blank] -= blank_part[start:start + step]
        _subtract_at(block, index[:len(block) * len(labels)], label_part[start:start + step])


def rnnt_gradient(rows, factor, blank_part, label_part, labels, blank):
    """In place: the same for the rows of an RNN-T grid.

    Parameters
    ----------
    rows : (T, U + 1 or more, V) contiguous array
        Of :func:`exp_rows`; rows beyond U + 1 are left alone.
    factor, blank_part : (T, U + 1) arrays
        ``factor`` None: the rows are taken for 0.
    label_part : (T, U) array
    labels : (U,) int array
    blank : int
    """
    (T, U), (_, height, V) = label_part.shape, rows.shape
    step = max(1, 4 * _BLOCK // max(1, height * V))
    index = np.add.outer(np.arange(min(step, T)) * (height * V), np.arange(U) * V + labels).ravel()
    for start in range(0, T, step):
        frames = slice(start, min(start + step, T))
        block = rows[frames]
        _scale(block[:, :U + 1], None if factor is None else factor[frames])
        block[:, :U + 1, blank] -= blank_part[frames]
        _subtract_at(block, index[:len(block) * U], label_part[frames])


def _scale(rows, factor):
    if factor is None:
        rows[...] = 0.0
    else:
        rows *= factor.astype(rows.dtype)[..., None]


def _subtract_at(contiguous, index, values):
    # of the same type, and flat: the case that ufunc.at is fast for
    np.subtract.at(contiguous.reshape(-1), index, values.astype(contiguous.dtype).ravel())

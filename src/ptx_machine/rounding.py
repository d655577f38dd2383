"""Roundings that NumPy does not have: fused multiply-add, bfloat16, flushing to zero. Exact, bit for bit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

__all__ = ["bfloat16_from_float32", "float32_from_bfloat16", "flushed", "fused_multiply_add"]


def flushed(x):
    """Subnormal numbers become zeros of their sign, as ``.ftz`` has it."""
    return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, np.copysign(x.dtype.type(0), x), x)


def float32_from_bfloat16(bits):
    """The float32 whose upper 16 bits these are, which has the same value."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def bfloat16_from_float32(x):
    """The 16 bits of the nearest bfloat16, the even one of two; any NaN becomes the canonical one.

    Examples
    --------
    >>> float32_from_bfloat16(bfloat16_from_float32(np.float32([1.0, 1.00390625, 1.01171875, -np.inf])))
    array([1.      , 1.      , 1.015625,     -inf], dtype=float32)
    """
    bits = np.atleast_1d(x).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint16(0x7FFF), rounded.astype(np.uint16))


def fused_multiply_add(a, b, c):
    """``a * b + c``, rounded once, for arrays of float32 or float64.

    Examples
    --------
    >>> x = np.float32([1 + 2**-12])
    >>> fused_multiply_add(x, x, -x * x).item() == 2**-24, (x * x - x * x).item()
    (True, 0.0)
    """
    return _in_float32(a, b, c) if a.dtype == np.float32 else _in_float64(a, b, c)


def _in_float32(a, b, c):
    """The product is exact in float64; its sum with c is rounded to odd there, so that rounding again does no harm."""
    product = a.astype(np.float64) * b.astype(np.float64)
    return _sum_rounded_to_odd(product, c.astype(np.float64)).astype(np.float32)


def _in_float64(a, b, c):
    """Boldo and Melquiond (2008): error-free product and sums, what is left rounded to odd, one rounding at the end.

    Numbers whose errors may under- or overflow are computed with fractions.
    """
    high, low = _product(a, b)
    t_high, t_low = _sum(c, low)
    v_high, v_low = _sum(high, t_high)
    result = v_high + _sum_rounded_to_odd(t_low, v_low)
    size = np.maximum(np.abs(high), np.abs(c))
    least = np.minimum(*(np.where(x == 0, 1.0, np.abs(x)) for x in (high, c)))
    nothing = (a == 0) | (b == 0)  # to add
    simple = (size < 2.0**960) & (least > 2.0**-900) & (np.abs(a) < 2.0**960) & (np.abs(b) < 2.0**960) & (high != 0)
    result = np.where(~np.isfinite(a * b + c) | nothing, a * b + c, result)
    for i in np.flatnonzero(~simple & np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & ~nothing):
        result[i] = _by_fractions(*(float(np.broadcast_to(x, result.shape)[i]) for x in (a, b, c)))
    return result


def _by_fractions(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)  # rounds once, to the nearest
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def _product(a, b):
    """a * b as a float64 and its error (Dekker 1971)."""
    high = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return high, ((a_high * b_high - high) + a_high * b_low + a_low * b_high) + a_low * b_low


def _upper_half(x):
    scaled = x * (2.0**27 + 1)
    return scaled - (scaled - x)


def _sum(a, b):
    """a + b as a float64 and its error (Knuth)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _sum_rounded_to_odd(a, b):
    """a + b; if that is not a float64, the one of its two neighbours whose last bit is 1."""
    total, error = _sum(a, b)
    bits = np.atleast_1d(total).view(np.int64)
    even = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    away = (error > 0) == (total > 0)
    return np.where(even, bits + np.where(away, 1, -1), bits).view(np.float64)

"""Finite differences: in floating point with a step size that is chosen and an error that is estimated, and exact.

The floating-point half serves any scalar function. The exact half serves functions that are affine in each entry taken
alone, such as the mass Z of a lattice in its probabilities: there the difference quotient *is* the derivative, for
every step, and with fractions or integers the comparison is ``==``. Nothing here knows a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ._validation import check_at_least, check_weights

__all__ = ["GradientCheck", "GradientMismatch", "central_difference", "check_gradient", "error_curve",
           "exact_difference", "random_integers"]

#: Step of a central difference that balances truncation (h^2) against rounding (eps / h): the cube root of eps.
DEFAULT_STEP = float(np.cbrt(np.finfo(np.float64).eps))


class GradientMismatch(AssertionError):
    """A gradient differs from finite differences by more than they can be wrong."""


@dataclass(frozen=True)
class GradientCheck:
    """What :func:`check_gradient` found, in the units of the gradient.

    ``error`` is the largest difference, at ``index``; ``tolerance`` is how wrong the finite difference may be there.
    """

    error: float
    tolerance: float
    index: tuple[int, ...]
    entries: int


def central_difference(f: Callable[[np.ndarray], float], x, *, h: float = DEFAULT_STEP, entries=None) -> np.ndarray:
    """(f(x + h e) - f(x - h e)) / 2h for each entry e of x.

    Parameters
    ----------
    f : callable
        From an array of the shape of ``x`` to a number. It is handed a fresh copy each time.
    x : float array
    h : float
        Step, absolute.
    entries : iterable of index tuples, optional
        Which entries; all by default. The others are NaN in the result.

    Returns
    -------
    float64 array of the shape of ``x``

    Raises
    ------
    ValueError
        If ``h`` is not positive, an entry is not finite, or x + h equals x in floating point.

    Examples
    --------
    >>> central_difference(lambda x: float(x[0] ** 2 * x[1]), [3.0, 5.0]).round(6).tolist()
    [30.0, 9.0]
    """
    x = np.asarray(x, dtype=np.float64)
    if not h > 0:
        raise ValueError(f"h = {h}; expected h > 0")
    gradient = np.full(x.shape, np.nan)
    for index in np.ndindex(x.shape) if entries is None else map(tuple, entries):
        if not np.isfinite(x[index]):
            raise ValueError(f"x[{', '.join(map(str, index))}] = {x[index]}; expected a finite entry")
        value, step = {}, {}
        for sign in (+1, -1):
            moved = x.copy()
            moved[index] += sign * h
            step[sign] = moved[index] - x[index]  # what was really added, after rounding
            value[sign] = f(moved)
        if step[+1] == 0:
            raise ValueError(f"h = {h}; expected a step that moves x[{', '.join(map(str, index))}] = {x[index]}")
        gradient[index] = (value[+1] - value[-1]) / (step[+1] - step[-1])
    return gradient


def error_curve(f, gradient, x, steps, *, entries=None) -> np.ndarray:
    """Largest ``|central difference - gradient|`` for each step, shape ``(len(steps),)``: the curve that chooses h.

    Examples
    --------
    >>> errors = error_curve(lambda x: float(np.exp(x[0])), [1.0], [0.0], [1e-1, 1e-5, 1e-13])
    >>> bool(errors[1] < 1e-9 < min(errors[0], errors[2]))
    True
    """
    gradient = np.asarray(gradient, dtype=np.float64)
    return np.array([np.nanmax(np.abs(central_difference(f, x, h=h, entries=entries) - gradient)) for h in steps])


def check_gradient(f, gradient, x, *, h: float = 1e-4, noise: float | None = None, entries=None) -> GradientCheck:
    """Compare a gradient with finite differences, to within the error that the differences themselves have.

    Central differences with steps h and 2h are combined (Richardson) into one whose truncation error is O(h^4).
    The tolerance is estimated from the same numbers, entry by entry, not tuned: a third of the distance between the
    two differences, which is the truncation error of the plain one, and 1.5 noise / h for rounding.

    Parameters
    ----------
    f : callable
        From a float64 array to a number.
    gradient : array of the shape of ``x``
    x : float array
    h : float
        Step, absolute.
    noise : float, optional
        How wrong one evaluation of f may be; ``16 eps (1 + |f(x)|)`` by default. Raise it for an f of single precision.
    entries : iterable of index tuples, optional
        Which entries to check; all by default.

    Returns
    -------
    GradientCheck

    Raises
    ------
    GradientMismatch
        Naming the worst entry and both values.
    ValueError
        If shapes differ, or no entry is checked.

    Examples
    --------
    >>> x = np.array([0.3, 0.5])
    >>> bool(check_gradient(lambda x: float(np.sin(x).sum()), np.cos(x), x).error < 1e-10)
    True
    >>> check_gradient(lambda x: float(np.sin(x).sum()), np.sin(x), x)
    Traceback (most recent call last):
    ...
    reference_impl.differences.GradientMismatch: gradient[0] = 0.2955202067; finite differences give 0.9553364891 ...
    """
    x = np.asarray(x, dtype=np.float64)
    gradient = check_weights("gradient", gradient, x.shape).astype(np.float64)
    indices = list(np.ndindex(x.shape)) if entries is None else [tuple(int(i) for i in index) for index in entries]
    check_at_least("the number of entries", len(indices), 1)
    plain = central_difference(f, x, h=h, entries=indices)
    wide = central_difference(f, x, h=2 * h, entries=indices)
    combined = plain + (plain - wide) / 3
    if noise is None:
        noise = 16 * np.finfo(np.float64).eps * (1 + abs(f(x.copy())))
    tolerance = np.abs(plain - wide) / 3 + 1.5 * noise / h
    error = np.abs(gradient - combined)
    # a NaN on either side is a mismatch
    excess = np.array([np.inf if np.isnan(error[i]) else error[i] - tolerance[i] for i in indices])
    worst = indices[int(excess.argmax())]
    if excess.max() > 0:
        raise GradientMismatch(
            f"gradient[{', '.join(map(str, worst))}] = {gradient[worst]:.10g}; finite differences give "
            f"{combined[worst]:.10g} (difference {error[worst]:.3g}, tolerance {tolerance[worst]:.3g})")
    worst = max(indices, key=lambda i: error[i])
    return GradientCheck(float(error[worst]), float(tolerance[worst]), worst, len(indices))


def exact_difference(f, x, index, h):
    """(f(x + h e) - f(x)) / h at one entry, in exact arithmetic: equal to df/dx for *every* h if f is affine in it.

    Parameters
    ----------
    f : callable
        From an object array to an int, a Fraction or an element of a sympy field, by exact operations only.
    x : array of the same
    index : tuple of int
    h : nonzero int or Fraction

    Returns
    -------
    Fraction, or element of the field

    Examples
    --------
    >>> x = np.array([2, 3], dtype=object)
    >>> exact_difference(lambda x: x[0] * x[1] + 7, x, (0,), h=10**9)
    Fraction(3, 1)
    """
    if h == 0:
        raise ValueError("h = 0; expected h != 0")
    moved = np.array(x, dtype=object)
    moved[index] = moved[index] + h
    rise = f(moved) - f(np.array(x, dtype=object))
    return (Fraction(rise) if isinstance(rise, int) else rise) / h


def random_integers(rng: np.random.Generator, shape, *, bits: int = 61) -> np.ndarray:
    """Python ints drawn uniformly from 1..2^bits, as an object array of the given shape.

    Two different polynomials of degree d agree at such a point with probability at most d / 2^bits
    (Schwartz 1980, Zippel 1979).

    Examples
    --------
    >>> random_integers(np.random.default_rng(0), (2,)).dtype
    dtype('O')
    """
    draws = rng.integers(1, 2**check_at_least("bits", bits, 1), size=shape, endpoint=True)
    return np.array(draws.tolist(), dtype=object).reshape(shape)

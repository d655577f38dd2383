"""The number systems that the recursions run on: how mass is added, multiplied and read. Nothing here knows a lattice.

A recursion written once for a semiring (plus, times, zero, one) computes a log-likelihood on ``LOG``, an exact
polynomial or fraction on ``REAL``, the best path's score on ``MAX`` and the number of paths on ``COUNT``: what is
proved about the lines on one of them is proved about the very lines that are used on another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

__all__ = ["COUNT", "LOG", "LOG32", "MAX", "REAL", "Semiring"]


@dataclass(frozen=True)
class Semiring:
    """A set of values with ``plus`` and ``times``, their neutral elements, and how to read a weight.

    Parameters
    ----------
    name : str
    zero, one : object
        Neutral elements of ``plus`` and ``times``; ``zero`` also annihilates: a path through it has no mass.
    plus, times : callable of two elements
    dtype : numpy dtype
        Of arrays of elements; ``object`` where elements are Python or sympy objects.
    read : callable
        Turns an entry of the weights that a user hands over into an element (identity except on ``COUNT``).
    ratio : callable of two elements, optional
        ``ratio(part, whole)``: the share of ``part`` in ``whole``, as a plain number and no element. It is what makes
        a posterior of two masses. None: the semiring has no division, and :func:`.lattice.arc_posteriors` refuses it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> REAL.sum([Fraction(1, 2), Fraction(1, 3)])
    Fraction(5, 6)
    >>> bool(LOG.sum([np.log(0.5), np.log(0.25)]) == np.log(0.75))
    True
    >>> LOG.sum([])
    -inf
    """

    name: str
    zero: Any
    one: Any
    plus: Callable[[Any, Any], Any]
    times: Callable[[Any, Any], Any]
    dtype: Any = object
    read: Callable[[Any], Any] = lambda weight: weight
    ratio: Callable[[Any, Any], Any] | None = None

    def sum(self, elements: Iterable[Any]) -> Any:
        """The elements added with ``plus``; ``zero`` for none."""
        return reduce(self.plus, elements, self.zero)

    def product(self, elements: Iterable[Any]) -> Any:
        """The elements multiplied with ``times``; ``one`` for none."""
        return reduce(self.times, elements, self.one)

    def zeros(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of the given shape filled with ``zero``."""
        array = np.empty(shape, self.dtype)
        array.fill(self.zero)  # np.full would spread an element that is a tuple over the array
        return array


def _add(a, b):
    return a + b


def _multiply(a, b):
    return a * b


def _divide(part, whole):
    return part / whole


def _exp_of_difference(part, whole):
    return np.exp(part - whole)


#: Log-probabilities in nats: float64, true ``-inf`` for "no mass", no epsilon.
LOG = Semiring("log", -np.inf, 0.0, np.logaddexp, _add, np.float64, ratio=_exp_of_difference)

#: The same in float32, weights included: how kernels compute, and what a lattice loses by it.
LOG32 = Semiring("log, float32", np.float32(-np.inf), np.float32(0.0), np.logaddexp, _add, np.float32,
                 read=np.float32, ratio=_exp_of_difference)

#: Numbers added and multiplied as they are: ``Fraction``, ``int``, ``float``, elements of a sympy polynomial ring.
REAL = Semiring("real", 0, 1, _add, _multiply, ratio=_divide)

#: Scores in nats, best path only (Viterbi). A maximum forgets what it was larger than, so there is no division.
MAX = Semiring("max", -np.inf, 0.0, np.maximum, _add, np.float64)

#: The number of paths of non-zero weight; a weight is a log-probability in nats, of which only ``-inf`` counts as 0.
#: No division: how many paths use an arc says nothing of how probable they are.
COUNT = Semiring("count", 0, 1, _add, _multiply, read=lambda log_weight: int(log_weight != -np.inf))

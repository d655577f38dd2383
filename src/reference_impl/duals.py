"""Dual numbers, exact and as logarithms: a mass and its rate of change, which is an expectation. No lattice is here.

A recursion that adds and multiplies carries a derivative along if its numbers are ``value + tangent e`` with e e = 0:
forward-mode differentiation. The same pair is an element of the expectation semiring (Eisner 2002): a mass, and its
product with the mean of some quantity that adds up along a path. ``Dual`` runs on ``semiring.REAL``, over fractions,
polynomials or floats; ``LOG_DUAL`` is for long paths, whose masses leave the range of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .semiring import Semiring

__all__ = ["LOG_DUAL", "Dual", "LogDual", "duals"]


@dataclass(frozen=True)
class Dual:
    """``value + tangent e`` with e e = 0, over any numbers.

    Examples
    --------
    >>> x = Dual(3, 1)
    >>> x * x + 2, 1 / x
    (Dual(value=11, tangent=6), Dual(value=0.3333333333333333, tangent=-0.1111111111111111))
    """

    value: Any
    tangent: Any = 0

    def __add__(self, other):
        other = _dual(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __mul__(self, other):
        other = _dual(other)
        return Dual(self.value * other.value, self.value * other.tangent + self.tangent * other.value)

    def __sub__(self, other):
        return self + -1 * _dual(other)

    def __truediv__(self, other):
        other = _dual(other)
        ratio = self.value / other.value
        return Dual(ratio, (self.tangent - ratio * other.tangent) / other.value)

    def __rsub__(self, other):
        return _dual(other) - self

    def __rtruediv__(self, other):
        return _dual(other) / self

    def __eq__(self, other):
        other = _dual(other)
        return self.value == other.value and self.tangent == other.tangent

    __radd__, __rmul__, __hash__ = __add__, __mul__, None


def _dual(number):
    return number if isinstance(number, Dual) else Dual(number)


def duals(values, tangents) -> np.ndarray:
    """An array of :class:`Dual` numbers from two arrays of one shape.

    Examples
    --------
    >>> duals([1, 2], [0, 5])[1]
    Dual(value=2, tangent=5)
    """
    return np.frompyfunc(Dual, 2, 1)(np.asarray(values, object), np.asarray(tangents, object))


@dataclass(frozen=True)
class LogDual:
    """The logarithm of a mass, and its rate of change: the mean, over the paths that make up the mass, of a quantity.

    Examples
    --------
    >>> LOG_DUAL.plus(LogDual(np.log(0.25), 1.0), LogDual(np.log(0.75), 5.0)).mean
    4.0
    """

    log_mass: float
    mean: float = 0.0


def _plus(a, b):
    if a.log_mass == -np.inf or b.log_mass == -np.inf:
        return b if a.log_mass == -np.inf else a
    log_mass = np.logaddexp(a.log_mass, b.log_mass)
    share = np.exp(a.log_mass - log_mass)
    return LogDual(log_mass, float(share * a.mean + np.exp(b.log_mass - log_mass) * b.mean))


def _times(a, b):
    return LogDual(a.log_mass + b.log_mass, a.mean + b.mean)


#: :class:`LogDual` numbers: masses add, and means are averaged; masses multiply, and means add.
LOG_DUAL = Semiring("log dual", LogDual(-np.inf), LogDual(0.0), _plus, _times)

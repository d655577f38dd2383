"""Logarithms as exact objects, so that a line of a kernel can be run as it stands and compared with ``==``."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from reference_impl.equations import zero_outside


@dataclass(frozen=True, order=True)
class Log:
    """The logarithm of an exact number, by what it does: to add is to multiply. ``exp`` takes it off again."""

    of: Any

    def __add__(self, other):
        return Log(self.of * other.of)

    def __sub__(self, other):
        return Log(self.of / other.of)

    def __neg__(self):
        return Log(1 / self.of)

    def exp(self):
        return self.of


exp = np.exp  # of an object: its own exp
MINUS_INFINITY = Log(Fraction(0))


def logs(array):
    """An array of exact numbers as logarithms; outside it, the logarithm of 0."""
    taken = np.empty(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        taken[index] = Log(Fraction(array[index]))
    return zero_outside(taken, zero=MINUS_INFINITY)

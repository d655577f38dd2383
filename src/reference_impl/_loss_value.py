"""From log Z to the number that a loss returns. No lattice is here, and no gradient: that is taken of -log Z itself."""

from __future__ import annotations

__all__ = ["minus"]


def minus(x):
    """``-x`` of a float, an array or a tensor, but never -0.0.

    A certain target has log Z = 0, and ``-x`` would make -0.0 of it, a number that prints its sign and divides 1 into
    ``-inf``. ``0.0 - x`` is 0.0, and ``-x`` for every other x.

    Examples
    --------
    >>> minus(0.0), -0.0
    (0.0, -0.0)
    """
    return 0.0 - x

"""From log Z to the number that a loss returns. No lattice is here, and no gradient: that is taken of -log Z itself."""

from __future__ import annotations

import numpy as np

__all__ = ["minus", "never_below_zero"]


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


def never_below_zero(losses):
    """``max(0, loss)`` of losses whose rows were normalised here; NaN stays NaN.

    Then Z is a probability, and a loss below 0 is rounding, of which a caller's ``log(loss + 1e-8)`` would make NaN.
    The value alone changes: the derivatives stay those of -log Z. In torch, :func:`.torch_impl.edges.floored` does the
    same. Scores that were given as log-probs need not be normalised, and their losses may be negative.

    Parameters
    ----------
    losses : float or float array

    Examples
    --------
    >>> never_below_zero(np.array([-1e-16, 0.5, np.inf])).tolist()
    [0.0, 0.5, inf]
    """
    return np.maximum(losses, 0.0)

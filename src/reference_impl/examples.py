"""The pair of examples that the book comes back to, small enough to check by hand. They are numbers, and run nothing.

Three symbols: the blank, *a*, and *b*, which is not in the target. Logits are logarithms of small integers, so that
every probability, mass and gradient is a simple fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

__all__ = ["TINY_CTC", "TINY_RNNT", "Example"]


@dataclass(frozen=True)
class Example:
    """Scores of one utterance, and its target.

    Parameters
    ----------
    weights : integer array, (T, V) or (T, U+1, V)
        The logits' exponentials.
    targets : list of int
    symbols : str
        A letter for each of the V symbols, the blank first.
    """

    weights: np.ndarray
    targets: list[int]
    symbols: str = "∅ab"

    @property
    def logits(self) -> np.ndarray:
        """In float64."""
        return np.log(self.weights)

    @property
    def probs(self) -> np.ndarray:
        """Softmax of the logits, in exact fractions.

        Examples
        --------
        >>> TINY_CTC.probs[2].tolist()
        [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
        """
        return self.weights / (self.weights.sum(axis=-1, keepdims=True) * Fraction(1))


#: Three frames, target *a*. The network hears a blank, then *a*, then *b*.
TINY_CTC = Example(np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2]]), [1])

#: Two frames, target *a*. The network would rather wait for the second frame before it writes *a*.
TINY_RNNT = Example(np.array([[[2, 1, 1], [1, 1, 2]], [[1, 2, 1], [2, 1, 1]]]), [1])

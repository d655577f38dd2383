"""Arrays of different lengths in one, padded with zeros. Internal."""

from __future__ import annotations

import numpy as np

__all__ = ["padded"]


def padded(arrays) -> tuple[np.ndarray, np.ndarray]:
    """Arrays (N_b, ...) as one of shape (B, max N_b, ...), and the lengths N_b, int64; at least one array.

    Examples
    --------
    >>> [each.tolist() for each in padded([np.array([1, 2]), np.array([3])])]
    [[[1, 2], [3, 0]], [2, 1]]
    """
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    rows = np.zeros((len(arrays), lengths.max(), *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(rows, arrays, strict=True):
        row[:len(array)] = array
    return rows, lengths

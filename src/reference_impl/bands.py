"""Bands of an RNN-T grid: a window of rows for each frame, chosen by node occupancy. No network, no loss, no torch.

A band keeps ``width`` rows of each frame, from ``lower[t]`` up. It is admissible if its lower bound begins at row 0,
never falls, rises by less than ``width`` from frame to frame, so that two neighbouring windows share a row, and ends
where the window holds the top row: then a path can run through. :func:`best_windows` does not ask for that,
:func:`best_band` does.
"""

from __future__ import annotations

import numpy as np

from ._validation import check_at_least, check_integers, check_scores

__all__ = ["admissible_bands", "band_mask", "best_band", "best_windows"]


def admissible_bands(frames, rows, width) -> np.ndarray:
    """The lower bounds of all admissible bands, (N, frames), in order: for small grids.

    Examples
    --------
    >>> admissible_bands(3, 3, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    top = check_at_least("rows", rows, 1) - check_at_least("width", width, 1)
    found = [[0]]
    for _ in range(check_at_least("frames", frames, 1) - 1):
        found = [[*lower, place] for lower in found for place in range(lower[-1], min(lower[-1] + width, top + 1))]
    return np.array([lower for lower in found if lower[-1] == top], dtype=np.int64).reshape(-1, frames)


def band_mask(lower, width, rows) -> np.ndarray:
    """Which nodes a band keeps.

    Parameters
    ----------
    lower : (T,) ints
        Lowest row of each frame's window.
    width, rows : int
        Rows of a window, and of the grid (U + 1).

    Returns
    -------
    (T, rows) bool array

    Examples
    --------
    >>> band_mask([0, 1], 2, 3).astype(int).tolist()
    [[1, 1, 0], [0, 1, 1]]
    """
    lower = check_integers("lower", lower, 1, "(T,)")[:, None]
    row = np.arange(check_at_least("rows", rows, 1))
    return (lower <= row) & (row < lower + check_at_least("width", width, 1))


def best_windows(occupancy, width) -> np.ndarray:
    """For each frame by itself the window with the most mass; of several, the lowest.

    Parameters
    ----------
    occupancy : (T, U+1) float array
        Node occupancies.
    width : int
        Rows of a window; more than there are count as all.

    Returns
    -------
    (T,) int64 array
        Lowest row of each window.

    Examples
    --------
    >>> best_windows(np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.6]]), 2).tolist()
    [0, 1]
    """
    return _window_mass(occupancy, width).argmax(axis=1)


def _window_mass(occupancy, width):
    """(T, places): the mass of the window that begins at each row."""
    occupancy = check_scores("occupancy", occupancy, 2, "(T, U+1)")
    places = max(occupancy.shape[1] - check_at_least("width", width, 1), 0) + 1
    return np.stack([occupancy[:, p:p + width].sum(axis=1) for p in range(places)], axis=1)


def best_band(occupancy, width) -> np.ndarray:
    """The band with the most mass among the admissible ones, which are those that k2 chooses from.

    Parameters
    ----------
    occupancy, width
        As for :func:`best_windows`.

    Returns
    -------
    (T,) int64 array
        Lowest row of each window.

    Raises
    ------
    ValueError
        If there is no such band: one row for several labels, or too few frames to climb.

    Examples
    --------
    >>> best_band(np.array([[0.9, 0.1, 0.0], [0.2, 0.6, 0.5], [0.1, 0.2, 0.9]]), 2).tolist()
    [0, 1, 1]
    """
    mass = _window_mass(occupancy, width)
    frames, places = mass.shape
    if (frames - 1) * (width - 1) < places - 1:
        raise ValueError(f"width = {width}; expected (T - 1) * (width - 1) >= U + 1 - width = {places - 1} "
                         f"with T = {frames}, so that the band can climb to the top row")
    # most mass of windows up to frame t if that of frame t begins at each place, and how far frame t - 1 began below it
    best = np.full(places, -np.inf)
    best[0] = mass[0, 0]
    climbs = []
    for t in range(1, frames):
        below = np.append(np.full(width - 1, -np.inf), best)
        choices = np.stack([below[width - 1 - climb:][:places] for climb in range(width)])
        climbs.append(choices.argmax(axis=0))
        best = choices.max(axis=0) + mass[t]
    lower = [places - 1]
    for climb in reversed(climbs):
        lower.append(lower[-1] - climb[lower[-1]])
    return np.array(lower[::-1], dtype=np.int64)

"""Bands of an RNN-T grid: a window of rows for each frame, chosen by node occupancy. No network, no loss, no torch.

A band keeps ``num_rows`` rows of each frame, from ``first_rows[t]`` up. It is admissible if its first row begins at 0,
never falls, rises by less than ``num_rows`` from frame to frame, so that two neighbouring windows share a row, and ends
where the window holds the top row: then a path can run through. :func:`best_windows` does not ask for that,
:func:`best_band` does.
"""

from __future__ import annotations

import numpy as np

from .._validation import check_at_least, check_integers, check_scores

__all__ = ["admissible_bands", "band_mask", "best_band", "best_windows", "spread"]


def admissible_bands(num_frames, grid_rows, num_rows) -> np.ndarray:
    """The first rows of all admissible bands, (N, num_frames), in order: for small grids.

    Examples
    --------
    >>> admissible_bands(3, 3, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    top = check_at_least("grid_rows", grid_rows, 1) - check_at_least("num_rows", num_rows, 1)
    found = [[0]]
    for _ in range(check_at_least("num_frames", num_frames, 1) - 1):
        found = [[*band, row] for band in found for row in range(band[-1], min(band[-1] + num_rows, top + 1))]
    return np.array([band for band in found if band[-1] == top], dtype=np.int64).reshape(-1, num_frames)


def band_mask(first_rows, num_rows, grid_rows) -> np.ndarray:
    """Which nodes a band keeps.

    Parameters
    ----------
    first_rows : (T,) ints
        Lowest row of each frame's window.
    num_rows, grid_rows : int
        Rows of a window, and of the grid (U + 1).

    Returns
    -------
    (T, grid_rows) bool array

    Examples
    --------
    >>> band_mask([0, 1], 2, 3).astype(int).tolist()
    [[1, 1, 0], [0, 1, 1]]
    """
    first_rows = check_integers("first_rows", first_rows, 1, "(T,)")[:, None]
    row = np.arange(check_at_least("grid_rows", grid_rows, 1))
    return (first_rows <= row) & (row < first_rows + check_at_least("num_rows", num_rows, 1))


def best_windows(occupancy, num_rows) -> np.ndarray:
    """For each frame by itself the window with the most mass; of several, the lowest.

    Parameters
    ----------
    occupancy : (T, U+1) float array
        Node occupancies.
    num_rows : int
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
    return _window_mass(occupancy, num_rows).argmax(axis=1)


def _window_mass(occupancy, num_rows):
    """(T, places): the mass of the window that begins at each row."""
    occupancy = check_scores("occupancy", occupancy, 2, "(T, U+1)")
    places = max(occupancy.shape[1] - check_at_least("num_rows", num_rows, 1), 0) + 1
    return np.stack([occupancy[:, p:p + num_rows].sum(axis=1) for p in range(places)], axis=1)


def best_band(occupancy, num_rows) -> np.ndarray:
    """The band with the most mass among the admissible ones, which are those that k2 chooses from.

    Parameters
    ----------
    occupancy, num_rows
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
    mass = _window_mass(occupancy, num_rows)
    T, places = mass.shape
    if (T - 1) * (num_rows - 1) < places - 1:
        raise ValueError(f"num_rows = {num_rows}; expected (T - 1) * (num_rows - 1) >= U + 1 - num_rows = {places - 1} "
                         f"with T = {T}, so that the band can climb to the top row")
    # most mass of windows up to frame t if that of frame t begins at each place, and how far frame t - 1 began below it
    best = np.full(places, -np.inf)
    best[0] = mass[0, 0]
    climbs = []
    for t in range(1, T):
        below = np.append(np.full(num_rows - 1, -np.inf), best)
        choices = np.stack([below[num_rows - 1 - climb:][:places] for climb in range(num_rows)])
        climbs.append(choices.argmax(axis=0))
        best = choices.max(axis=0) + mass[t]
    first_rows = [places - 1]
    for climb in reversed(climbs):
        first_rows.append(first_rows[-1] - climb[first_rows[-1]])
    return np.array(first_rows[::-1], dtype=np.int64)


def spread(occupancy) -> float:
    """The width of a picture of node occupancies, in nodes (def-occ-spread).

    On an anti-diagonal, occupancies are a distribution; the exponential of its entropy says over how many nodes it is
    spread.

    Parameters
    ----------
    occupancy : (T, U+1) float array
        Node occupancies of RNN-T.

    Returns
    -------
    float
        The mean over the T + U anti-diagonals: 1 where all paths are one.

    Examples
    --------
    Of three anti-diagonals, paths cross the middle one at two nodes equally often:

    >>> round(spread(np.array([[1.0, 0.5], [0.5, 1.0]])), 12) == round((1 + 2 + 1) / 3, 12)
    True
    """
    occupancy = check_scores("occupancy", occupancy, 2, "(T, U+1)")
    entropies = np.zeros(sum(occupancy.shape) - 1)
    for (t, u), gamma in np.ndenumerate(occupancy):
        if gamma > 0:
            entropies[t + u] -= gamma * np.log(gamma)
    return float(np.exp(entropies).mean())

"""Bands of rows: what they keep, and that no other window or band of their kind holds more mass."""

from itertools import product

import numpy as np
import pytest

from reference_impl import log_softmax, rnnt
from reference_impl.pruning.bands import admissible_bands, band_mask, best_band, best_windows, spread

GRIDS = [(1, 1), (1, 3), (3, 2), (4, 3), (4, 5), (6, 4)]


def occupancy(seed, shape):
    return np.random.default_rng(seed).dirichlet(np.full(shape[1], 0.4), size=shape[0])


def mass(gamma, lower, width):
    return sum(gamma[t, p:p + width].sum() for t, p in enumerate(lower))


def connected(rows, width, frames):
    """Every lower bound that begins at the bottom, ends at the top, never falls and rises by less than the width."""
    top = max(rows - width, 0)
    for lower in product(range(top + 1), repeat=frames):
        steps = np.diff(lower)
        if lower[0] == 0 and lower[-1] == top and (steps >= 0).all() and (steps < width).all():
            yield lower


@pytest.mark.parametrize("shape", GRIDS)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_all_admissible_bands(shape, width):
    """Each once, in order; none where there are more rows in a window than in the grid."""
    frames, rows = shape
    expected = list(connected(rows, width, frames)) if width <= rows else []
    assert [tuple(lower) for lower in admissible_bands(frames, rows, width)] == expected


def test_mask():
    mask = band_mask([0, 0, 2], 2, 4)
    assert mask.tolist() == [[True, True, False, False], [True, True, False, False], [False, False, True, True]]
    assert band_mask([1], 5, 3).tolist() == [[False, True, True]]


@pytest.mark.parametrize("shape", GRIDS)
@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_no_window_holds_more(shape, width):
    """Frame by frame, against every place; the lowest of equal ones."""
    gamma = occupancy(shape[0], shape)
    lower = best_windows(gamma, width)
    for t, p in enumerate(lower):
        places = range(max(shape[1] - width, 0) + 1)
        assert gamma[t, p:p + width].sum() == max(gamma[t, q:q + width].sum() for q in places)
    assert (best_windows(np.ones(shape), width) == 0).all()


@pytest.mark.parametrize("shape", GRIDS)
@pytest.mark.parametrize("width", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_no_connected_band_holds_more(shape, width, seed):
    """Against every band through which a path can run; refused where there is none."""
    frames, rows = shape
    gamma = occupancy(seed, shape)
    bands = list(connected(rows, width, frames))
    if not bands:
        with pytest.raises(ValueError, match=f"^num_rows = {width}; expected .* with T = {frames}"):
            best_band(gamma, width)
        return
    lower = best_band(gamma, width)
    assert tuple(lower) in bands and lower.dtype == np.int64
    assert mass(gamma, lower, width) == pytest.approx(max(mass(gamma, band, width) for band in bands), rel=1e-14)


def test_bad_arguments():
    with pytest.raises(ValueError, match="^num_rows = 0; expected num_rows >= 1$"):
        best_windows(np.ones((2, 2)), 0)
    with pytest.raises(ValueError, match=r"^occupancy has shape \(3,\); expected 2 axes \(T, U\+1\)$"):
        best_band(np.ones(3), 2)
    with pytest.raises(TypeError, match="^first_rows has dtype float64; expected int32 or int64$"):
        band_mask(np.ones(3), 2, 3)


@pytest.mark.parametrize("shape", GRIDS)
def test_spread(shape):
    """Against entropies of the skewed picture, one row for each anti-diagonal; one path is one node wide."""
    (T, rows), rng = shape, np.random.default_rng(4)
    gamma = rnnt.occupancy(log_softmax(rng.normal(size=(T, rows, 3))), [1] * (rows - 1)).sum(axis=-1)
    skewed = np.zeros((T + rows - 1, rows))
    for u in range(rows):
        skewed[u:u + T, u] = gamma[:, u]
    assert np.allclose(skewed.sum(axis=1), 1, rtol=0, atol=1e-12)
    expected = np.exp(-(skewed * np.log(np.where(skewed > 0, skewed, 1))).sum(axis=1)).mean()
    assert np.isclose(spread(gamma), expected, rtol=1e-12, atol=0)
    staircase = np.zeros(shape)
    staircase[0], staircase[:, -1] = 1, 1
    assert spread(staircase) == 1

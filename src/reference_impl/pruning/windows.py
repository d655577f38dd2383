"""Windows of rows of an RNN-T grid, as pruned RNN-T chooses them: how a path goes through one frame. NumPy, no loss.

The choice itself, for a batch, is :func:`reference_impl.torch_impl.pruning.first_rows`; here are its parts, one
utterance at a time, and what they mean. :mod:`reference_impl.pruning.bands` has other ways to choose.
"""

from __future__ import annotations

import numpy as np

from .. import rnnt
from .._validation import check_at_least, check_band_height, check_integers, check_scores

__all__ = ["ceiling", "frame_moves", "raised", "window_scores"]


def frame_moves(log_probs, targets, *, blank=0) -> np.ndarray:
    """The probability that a path enters a frame in one row and leaves it in another (eq-prune-moves).

    Parameters
    ----------
    log_probs : (T, U+1, V) float array
        Nats; finite for the arcs, and of finite loss.
    targets : (U,) ints
    blank : int

    Returns
    -------
    (T, U+1, U+1) float64 array
        ``[t, i, j]``: the path enters frame t in row i and leaves it, by a blank, in row j. Adds up to 1 in each frame;
        0 for j < i.

    Examples
    --------
    >>> frame_moves(np.log(np.full((2, 2, 2), 0.5)), [1]).round(12)[0].tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    alpha = rnnt.log_alpha(log_probs, targets, blank=blank)
    beta = rnnt.log_beta(log_probs, targets, blank=blank)
    T, rows = alpha.shape
    by_blank, labels = log_probs[..., blank], log_probs[:, np.arange(rows - 1), np.asarray(targets, int)]
    entered, after = np.full((2, T, rows), -np.inf)
    entered[0, 0], after[-1, -1] = 0.0, 0.0
    entered[1:], after[:-1] = (alpha + by_blank)[:-1], beta[1:]
    moves = np.zeros((T, rows, rows))
    for i in range(rows):
        climbed = np.concatenate([np.zeros((T, 1)), labels[:, i:].cumsum(axis=1)], axis=1)
        moves[:, i, i:] = np.exp(entered[:, i, None] + climbed + by_blank[:, i:] + after[:, i:] - beta[0, 0])
    return moves


def ceiling(log_probs, targets, num_rows, *, blank=0) -> float:
    """More than this no band of ``num_rows`` rows keeps: the least of what the best windows of each frame keep.

    Parameters
    ----------
    log_probs, targets, blank
        As for :func:`frame_moves`.
    num_rows : int
        Q, at most U + 1.

    Returns
    -------
    float
        A probability (def-prune-ceiling). In the first frame there is only the lowest window, in the last the highest.

    Examples
    --------
    >>> round(ceiling(np.zeros((4, 3, 2)), [1, 1], 2), 12)
    0.7
    """
    moves, num_rows = frame_moves(log_probs, targets, blank=blank), check_at_least("num_rows", num_rows, 1)
    check_band_height(num_rows, len(targets))
    places = range(len(targets) + 2 - num_rows)
    inside = np.stack([moves[:, b:b + num_rows, b:b + num_rows].sum((1, 2)) for b in places])
    best = inside.max(axis=0)
    best[0], best[-1] = inside[0, 0], inside[-1, -1]
    return float(best.min())


def window_scores(blank_posteriors, label_posteriors, num_rows) -> np.ndarray:
    """What k2 and fast_rnnt maximise over the windows of a frame (def-prune-score).

    Parameters
    ----------
    blank_posteriors : (T, U+1) float array
    label_posteriors : (T, U) float array
        Of the arcs that leave each node.
    num_rows : int
        Q, at most U + 1.

    Returns
    -------
    (T, U+2-Q) float64 array
        ``[t, b]``: of the window of rows b to b + Q - 1, the blanks that leave its rows, less the label that enters it
        from the row below.

    Examples
    --------
    >>> window_scores([[0.2, 0.5, 0.3]], [[0.4, 0.1]], 2).round(12).tolist()
    [[0.7, 0.4]]
    """
    blanks = check_scores("blank_posteriors", np.asarray(blank_posteriors), 2, "(T, U+1)")
    labels = check_scores("label_posteriors", np.asarray(label_posteriors), 2, "(T, U)")
    places = check_at_least("places", blanks.shape[1] + 1 - check_at_least("num_rows", num_rows, 1), 1)
    inside = sum(blanks[:, r:r + places] for r in range(num_rows))
    return inside - np.pad(labels, ((0, 0), (1, 0)))[:, :places]


def raised(first_rows, climb) -> np.ndarray:
    """Lower bounds that a path can follow, from any: never falling, and rising by ``climb`` rows a frame at most.

    Parameters
    ----------
    first_rows : (T,) ints
        Lowest row of the window that was chosen for each frame, at least 0.
    climb : int
        Q - 1, or 1 where a label ends its frame.

    Returns
    -------
    (T,) int64 array
        First each bound is lowered to the least of those that come after (eq-prune-lowered), then raised until the
        later ones can be reached from it, and cut off where it cannot be reached from row 0 (eq-prune-raised).

    Examples
    --------
    >>> raised([0, 3, 1, 4], 2).tolist()
    [0, 1, 2, 4]
    """
    first = check_integers("first_rows", first_rows, 1, "(T,)")
    reach = check_at_least("climb", climb, 0) * np.arange(len(first))
    lowered = np.minimum.accumulate(first[::-1])[::-1]
    needed = np.maximum.accumulate((lowered - reach)[::-1])[::-1] + reach
    return np.minimum(reach, needed)

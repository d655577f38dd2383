"""Posteriors of CTC for very long audio, inside a band: log Z, occupancy, and when labels begin and end. No best path.

Alphas are kept before every K-th frame, and a block of K frames at a time is computed once more on the way back, which
takes about 2 sqrt(T) rows of the band for K = sqrt(T). In a sum, unlike on a best path, every state of a row counts. So
there is no smaller window to go back in, and a band is what keeps this small and fast: :func:`.band_around` the best
path. The mass that the band cuts off is ``log_z`` of the whole target less ``log_z`` of the band.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._validation import check_at_least, check_spans, no_path_beyond
from ._lanes import Lanes, check_long_problem, rows_of, windows

__all__ = ["LongPosteriors", "long_ctc_posteriors"]


@dataclass(frozen=True)
class LongPosteriors:
    """What all paths inside a band say together.

    Parameters
    ----------
    log_z : float
        Log of the mass of these paths, nats.
    occupancy : (T, V) float64 array
        Probability that frame t carries symbol k; each frame adds up to 1.
    starts, ends : (U, 2 * reach + 1) float64 arrays
        Probability that label u's run begins in frame ``first[u] - reach + r``, and that it ends in frame
        ``last[u] - reach + r``, for r = 0, 1, ...; a row adds up to 1 if no mass lies further away.
    """

    log_z: float
    occupancy: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def long_ctc_posteriors(log_probs, targets, first, last, *, reach=25, blank=0, first_labels=None, num_labels=None,
                        block=None) -> LongPosteriors:
    """Posteriors of a long alignment, and around the spans of its best path those of each label's beginning and end.

    Parameters
    ----------
    log_probs, targets, blank, first_labels, num_labels
        As for :func:`.long_ctc_best_path`.
    first, last : (U,) ints
        Spans of the labels, both rising, as a best path has them.
    reach : int
        So many frames before and after each of these frames.
    block : int, optional
        K, frames computed at once on the way back; None: the square root of T.

    Returns
    -------
    LongPosteriors

    Raises
    ------
    NoAlignment
        A ``ValueError``: too few frames, no path inside the band, or every path uses an entry that is ``-inf``.
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    Six paths of the same mass; two begin the label in frame 1, one in frame 2:

    >>> found = long_ctc_posteriors(np.zeros((3, 2)), [1], [1], [1], reach=1)
    >>> found.starts.round(4).tolist(), round(float(np.exp(found.log_z)), 12)
    ([[0.5, 0.3333, 0.1667]], 6.0)
    """
    T, V, targets, blank = check_long_problem(log_probs, targets, blank)
    U, inside = len(targets), "" if first_labels is None else " inside the band"
    first, last = check_spans(first, last, U, T, rising=True)
    reach = check_at_least("reach", reach, 0)
    low, high = windows(T, U, first_labels, num_labels)
    if (low > high).any():
        raise no_path_beyond(int((low > high).argmax()), inside)
    block = max(int(np.sqrt(T)), 1) if block is None else check_at_least("block", block, 1)
    found = LongPosteriors(0.0, np.zeros((T, V)), *np.zeros((2, U, 2 * reach + 1)))
    if T == 0:
        return found
    lanes = Lanes(targets, blank, 0, U, np.logaddexp)
    checkpoints = list(_checkpoints(lanes, rows_of(log_probs, 0, T), low, high, block))
    log_z = float(np.logaddexp(lanes.labels[U], lanes.blanks[U]))
    if log_z == -np.inf:
        raise no_path_beyond(T - 1, inside)

    ahead = _Ahead(lanes, log_z)
    for start in reversed(range(0, T, block)):
        stop = min(start + block, T)
        rows = list(rows_of(log_probs, start, stop))
        alphas = _alphas(lanes, checkpoints.pop(), rows, low, high, start)
        for t in reversed(range(start, stop)):
            ahead.move_to(low[t], high[t], is_last=t == T - 1)
            ahead.fill_occupancy(found.occupancy[t], alphas[t - start + 1])
            ahead.fill_starts(found.starts, first, t, reach, rows[t - start], alphas[t - start])
            ahead.fill_ends(found.ends, last, t, reach, alphas[t - start + 1])
            ahead.emit(rows[t - start])
    return LongPosteriors(log_z, found.occupancy, found.starts, found.ends)


def _checkpoints(lanes, rows, low, high, block):
    """The alphas before the first frame of each block; the lanes end with those after the last frame."""
    lanes.blanks[0] = 0.0
    yield lanes.save(0, 0)
    for t, row in enumerate(rows):
        if t > 0 and t % block == 0:
            yield lanes.save(low[t - 1], high[t - 1])
        lanes.step(row, low[t], high[t])


def _alphas(lanes, checkpoint, rows, low, high, start):
    """The checkpoint, and the alphas after each frame of a block."""
    lanes.blanks[:], lanes.labels[:], lanes.low = -np.inf, -np.inf, 0
    lanes.load(checkpoint)
    alphas = [checkpoint]
    for t, row in enumerate(rows, start=start):
        lanes.step(row, low[t], high[t])
        alphas.append(lanes.save(low[t], high[t]))
    return alphas


class _Ahead:
    """The betas of one frame's window, going back frame by frame, and posteriors with the alphas of that frame."""

    def __init__(self, lanes, log_z):
        self.targets, self.penalty, self.blank, self.log_z = lanes.targets, lanes.penalty, lanes.blank, log_z
        U = len(self.targets)
        # with the emission of the frame after this one; -inf outside its window, and for label U, which does not exist
        self.blanks, self.labels = np.full(U + 1, -np.inf), np.full(U + 1, -np.inf)
        self.filled = slice(0, 0)
        self.skips = np.append(self.penalty, -np.inf)[1:]  # from a label past the blank to the next label

    def move_to(self, low, high, *, is_last):
        """Betas of the window, and for its labels the mass of what leaves their run."""
        self.low, self.high = low, high
        if is_last:
            U = len(self.targets)
            self.leave, self.beta_blanks = np.full(high - low, -np.inf), np.full(high - low + 1, -np.inf)
            if high == U:
                self.beta_blanks[-1], self.leave[-1:] = 0.0, 0.0
            self.beta_labels = self.leave
            return
        stay = self.labels[low:high]
        self.leave = np.logaddexp(self.blanks[low + 1:high + 1], self.labels[low + 1:high + 1] + self.skips[low:high])
        self.beta_labels = np.logaddexp(stay, self.leave)
        self.beta_blanks = np.logaddexp(self.blanks[low:high + 1], self.labels[low:high + 1])

    def emit(self, row):
        """Add the emission of this frame, and forget the frame after it."""
        self.blanks[self.filled], self.labels[self.filled] = -np.inf, -np.inf
        self.filled = slice(self.low, self.high + 1)
        self.blanks[self.filled] = self.beta_blanks + row[self.blank]
        self.labels[self.low:self.high] = self.beta_labels + row[self.targets[self.low:self.high]]

    def fill_occupancy(self, occupancy, alphas):
        _, blanks, labels = alphas
        in_labels = np.exp(labels + self.beta_labels - self.log_z)
        occupancy[:] = np.bincount(self.targets[self.low:self.high], in_labels, len(occupancy))
        occupancy[self.blank] += np.exp(blanks + self.beta_blanks - self.log_z).sum()

    def fill_starts(self, starts, first, t, reach, row, before):
        u, near = self._near(first, t, reach)
        enter = np.logaddexp(_read(before, 1, u), _read(before, 2, u - 1) + self.penalty[u])
        starts[u, near] = np.exp(enter + row[self.targets[u]] + self.beta_labels[u - self.low] - self.log_z)

    def fill_ends(self, ends, last, t, reach, alphas):
        u, near = self._near(last, t, reach)
        ends[u, near] = np.exp(_read(alphas, 2, u) + self.leave[u - self.low] - self.log_z)

    def _near(self, frames, t, reach):
        """Labels of the window whose frame is near, and the column of frame t."""
        start, stop = np.searchsorted(frames, (t - reach, t + reach + 1))
        u = np.arange(max(start, self.low), min(stop, self.high))
        return u, t - frames[u] + reach


def _read(alphas, lane, u):
    """Values of saved blanks (lane 1) or labels (lane 2); ``-inf`` for those that were not saved."""
    low, values = alphas[0], alphas[lane]
    there = (u >= low) & (u < low + len(values))
    found = np.full(len(u), -np.inf)
    found[there] = values[u[there] - low]
    return found

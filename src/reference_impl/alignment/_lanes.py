"""One row of CTC's alpha for long audio: which states a frame needs, a step that overwrites the row, and checkpoints.

Blanks and labels stand in two lanes: a frame gives all blanks the same score, so only the labels' scores are gathered.
No path is read off here.
"""

from __future__ import annotations

import numpy as np

from .. import _validation

__all__ = ["CHUNK", "Lanes", "check_long_problem", "checkpoint_bytes", "rows_of", "windows"]

#: So many frames of the log-probs are read at a time.
CHUNK = 256


def check_long_problem(log_probs, targets, blank):
    """Checked shape and labels: T, V, targets (U,), blank. Values are looked at when they are read."""
    shape = tuple(log_probs.shape)
    _validation.check_rank("log_probs", shape, 2, "(T, V)")
    blank = _validation.check_blank(blank, shape[1])
    targets = _validation.check_targets(targets, shape[1], blank)
    _validation.check_frames_for(targets, shape[0])
    return *shape, targets, blank


def windows(T, U, first_labels=None, num_labels=None):
    """For each frame the labels u, low <= u < high, of the states that it needs: two (T,) int64 arrays.

    With these labels go the blanks low to high. Without a band, these are the states that can be reached from the
    beginning and from which the end can be reached, one label a frame; with a band, those of them that lie inside.
    """
    t = np.arange(T)
    low, high = np.maximum(U - T + t, 0), np.minimum(t + 1, U)
    if (first_labels is None) != (num_labels is None):
        raise ValueError(f"num_labels = {num_labels} and first_labels is {'not ' * (first_labels is not None)}None; "
                         "expected both for a band, or neither")
    if first_labels is not None:
        num_labels = _validation.check_at_least("num_labels", num_labels, 1)
        first_labels = _validation.check_label_band(first_labels, T, U)
        low, high = np.maximum(low, first_labels), np.minimum(high, first_labels + num_labels)
    return low, high


def checkpoint_bytes(low, high, block) -> int:
    """What the checkpoints before every ``block``-th frame hold: their numbers, and 0.3 kB each of Python's objects."""
    last = slice(block - 1, -1, block)  # of each block but the last one
    return 8 * int(2 * (high[last] - low[last]).sum()) + (8 + 320) * (len(low[last]) + 1)


def rows_of(log_probs, start, stop):
    """Yield frames start to stop - 1 as float64 rows, read ``CHUNK`` at a time; NaN and ``+inf`` are refused."""
    for begin in range(start, stop, CHUNK):
        end = min(begin + CHUNK, stop)
        rows = _validation.check_scores("log_probs", log_probs[begin:end], 2, "(T, V)")
        _validation.check_weights("log_probs", rows, (end - begin, log_probs.shape[1]))
        _validation.check_no_nan_or_inf("log_probs", rows, first_row=begin)
        yield from rows.astype(np.float64)


class Lanes:
    """Alphas of the labels ``base`` to ``base + size - 1`` and of the blanks around them, after some frame.

    Label u is ``labels[u - base + 1]``, blank u is ``blanks[u - base]``. All else is ``-inf``: what lies outside the
    last window, and ``labels[0]``.
    """

    def __init__(self, targets, blank, base, size, plus=np.maximum):
        self.blank, self.base, self.low, self.plus = blank, base, base, plus
        self.targets = targets[base:base + size]
        self.penalty = np.full(size, -np.inf)  # of the move from the label before, past a blank
        self.penalty[1:][self.targets[1:] != self.targets[:-1]] = 0.0
        self.blanks, self.labels = np.full((2, size + 1), -np.inf)
        self.best, self.scratch = np.empty((2, size))

    def step(self, row, low, high):
        """One frame: the alphas of the window's states, which ``plus`` adds up; ``row`` has the frame's scores."""
        a, b = low - self.base, high - self.base
        best, scratch = self.best[a:b], self.scratch[a:b]
        stayed, before, blanks = self.labels[a + 1:b + 1], self.labels[a:b], self.blanks[a:b + 1]
        self.plus(stayed, blanks[:-1], out=best)
        np.add(before, self.penalty[a:b], out=scratch)
        self.plus(best, scratch, out=best)
        self.plus(blanks, self.labels[a:b + 1], out=blanks)
        blanks += row[self.blank]
        np.take(row, self.targets[a:b], out=scratch, mode="clip")
        np.add(best, scratch, out=stayed)
        self._leave_below(a)

    def step_with_pointers(self, row, low, high, pointers):
        """The same for best paths, and from where: into ``pointers`` (size + 1,) uint8.

        Bits 0 and 1 are the states by which the path to the label came up, 0, 1 or 2; bit 2 says whether the path to
        the blank before that label came from a label.
        """
        a, b = low - self.base, high - self.base
        stayed, before, blanks = self.labels[a + 1:b + 1], self.labels[a:b], self.blanks[a:b + 1]
        np.multiply(self.labels[a:b + 1] > blanks, 4, out=pointers[a:b + 1], casting="unsafe")
        moves = (blanks[:-1] > stayed).astype(np.uint8)
        moves[before + self.penalty[a:b] > np.maximum(stayed, blanks[:-1])] = 2
        pointers[a:b] += moves
        self.step(row, low, high)

    def alive(self, low, high) -> bool:
        """Whether any state of a window has mass."""
        a, b = low - self.base, high - self.base
        return bool(max(self.blanks[a:b + 1].max(), self.labels[a + 1:b + 1].max(initial=-np.inf)) > -np.inf)

    def _leave_below(self, a):
        below = self.low - self.base
        if a > below:
            self.blanks[below:a] = -np.inf
            self.labels[below + 1:a + 1] = -np.inf
            self.low = a + self.base

    def save(self, low, high):
        """A checkpoint: the alphas of a window."""
        a, b = low - self.base, high - self.base
        return low, self.blanks[a:b + 1].copy(), self.labels[a + 1:b + 1].copy()

    def load(self, checkpoint):
        """Those of them that these lanes have."""
        low, blanks, labels = checkpoint
        for lane, saved, shift in ((self.blanks, blanks, 0), (self.labels, labels, 1)):
            start = low - self.base + shift
            first, last = max(start, shift), min(start + len(saved), len(lane))
            if first < last:
                lane[first:last] = saved[first - start:last - start]

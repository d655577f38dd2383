"""The best path of CTC for very long audio: the same path as :func:`.ctc_best_path`, in far less memory.

Back-pointers of every frame and state do not fit for 90 minutes. Going forward, only the alphas before every K-th frame
are kept (checkpoints). Going back, each block of K frames is computed a second time, with pointers. If the path leaves
the block in state s, it entered it in no lower state than s - 2K, so a block needs the pointers of 2K states, however
long the target is, and the second pass costs a small part of the first. With S states, T S / K numbers and K K bytes
are smallest together for a K that grows as the cube root of T S; then memory grows as the square of that root, and far
slower than T S. Packing pointers into fewer bits would gain little.

All numbers are float64. A log mass of a million nats has steps of 1/16 nat in float32, which decides between paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._validation import NoAlignment, check_at_least, check_integers, no_path_beyond
from ._lanes import CHUNK, Lanes, check_long_problem, checkpoint_bytes, rows_of, windows
from .best_path import BestPath, runs

__all__ = ["FrameSource", "band_around", "choose_block", "long_ctc_best_path", "predicted_bytes"]


@dataclass(frozen=True)
class FrameSource:
    """Log-probs that a function reads or computes when they are needed, in place of an array.

    The long alignment asks for every frame once, in order, and then for blocks of frames once more, the last one first.

    Parameters
    ----------
    read : callable of two ints
        ``read(start, stop)`` returns a float array (stop - start, V), the same each time.
    shape : (T, V)

    Examples
    --------
    >>> source = FrameSource(lambda start, stop: np.zeros((stop - start, 2)), (3, 2))
    >>> long_ctc_best_path(source, [1]).path.tolist()
    [1, 1, 1]
    """

    read: Callable[[int, int], np.ndarray]
    shape: tuple[int, int]

    def __getitem__(self, frames: slice) -> np.ndarray:
        return self.read(frames.start, frames.stop)


def long_ctc_best_path(log_probs, targets, *, blank=0, first_labels=None, num_labels=None, block=None) -> BestPath:
    """The path of the largest mass, ties included exactly that of :func:`.ctc_best_path`, by recomputation.

    Parameters
    ----------
    log_probs : (T, V) array, memory map or FrameSource
        Nats, float16, float32 or float64; anything with ``shape`` whose slices of frames are arrays.
    targets, blank
        As for :func:`.ctc_best_path`.
    first_labels : (T,) ints, optional
        A band: in frame t only labels from ``first_labels[t]`` on, and the blanks around them, are considered; see
        :func:`band_around`. It never falls. With a band the path is the best of those that stay inside.
    num_labels : int, optional
        So many labels a frame.
    block : int, optional
        K, frames computed at once on the way back. None: :func:`choose_block`.

    Returns
    -------
    BestPath

    Raises
    ------
    NoAlignment
        A ``ValueError``: too few frames, no path inside the band, or every path uses an entry that is ``-inf``.
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> log_probs = np.log([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]])
    >>> found = long_ctc_best_path(log_probs, [1], block=2)
    >>> found.path.tolist(), found.first.tolist(), found.last.tolist()
    ([0, 1, 1, 2], [1], [2])
    """
    T, V, targets, blank = check_long_problem(log_probs, targets, blank)
    U, inside = len(targets), "" if first_labels is None else " inside the band"
    low, high = windows(T, U, first_labels, num_labels)
    if (low > high).any():
        raise no_path_beyond(int((low > high).argmax()), inside)
    block = _best_block(low, high, U, V) if block is None else check_at_least("block", block, 1)
    if T == 0:
        return BestPath(0.0, *np.zeros((3, 0), np.int64))
    log_mass, state, checkpoints = _forward(log_probs, targets, blank, low, high, block, inside)
    states = np.empty(T, np.int64)
    for start in reversed(range(0, T, block)):
        stop = min(start + block, T)
        state = _back(log_probs, targets, blank, low, high, checkpoints.pop(), states[start:stop], start, state)
    return BestPath(log_mass, states, *runs(states, U))


def _forward(log_probs, targets, blank, low, high, block, inside):
    """Log mass and last state of the best path, and a checkpoint before the first frame of each block."""
    T, U = len(low), len(targets)
    lanes = Lanes(targets, blank, 0, U)
    lanes.blanks[0] = 0.0  # before the first frame a path is about to enter the first blank or the first label
    checkpoints = [lanes.save(0, 0)]
    for t, row in enumerate(rows_of(log_probs, 0, T)):
        if t > 0 and t % block == 0:
            checkpoints.append(lanes.save(low[t - 1], high[t - 1]))
        lanes.step(row, low[t], high[t])
        if (t % CHUNK == CHUNK - 1 or t == T - 1) and not lanes.alive(low[t], high[t]):
            raise no_path_beyond(t, inside)
    ends = lanes.labels[U], lanes.blanks[U]  # labels[0] is -inf
    if max(ends) == -np.inf:
        raise no_path_beyond(T - 1, inside)
    return float(max(ends)), 2 * U - 1 if U and ends[0] >= ends[1] else 2 * U, checkpoints


def _back(log_probs, targets, blank, low, high, checkpoint, states, start, state):
    """Fill ``states`` (n,), a block from frame ``start`` on that ends in ``state``; return the state before it."""
    n, top = len(states), state // 2
    base = max(top - n, 0)
    lanes = Lanes(targets, blank, base, min(top + 1, len(targets)) - base)
    lanes.load(checkpoint)
    pointers = np.zeros((n, len(lanes.blanks)), np.uint8)
    for j, row in enumerate(rows_of(log_probs, start, start + n)):
        t = start + j
        lanes.step_with_pointers(row, max(low[t], top - (n - 1 - j)), min(high[t], top + 1), pointers[j])
    for j in reversed(range(n)):
        states[j] = state
        pointer = int(pointers[j, state // 2 - base])
        state -= pointer & 3 if state % 2 else pointer >> 2
    return state


def predicted_bytes(num_frames, num_labels, num_symbols, block=None) -> int:
    """The most that :func:`long_ctc_best_path` allocates at a time without a band, its result included, in bytes.

    Small objects, some 20 kB together, are not counted; rows of log-probs are, though slices of an array cost nothing.

    Parameters
    ----------
    num_frames, num_labels, num_symbols : int
        T, U and V.
    block : int, optional
        K; None: the one that :func:`choose_block` returns.

    Examples
    --------
    90 minutes in frames of 20 ms, with 65,000 letters; the back-pointers alone would be 35 GB, a byte each:

    >>> predicted_bytes(270_000, 65_000, 32) / 1e6 < 100
    True
    """
    T, U = check_at_least("num_frames", num_frames, 0), check_at_least("num_labels", num_labels, 0)
    V, (low, high) = check_at_least("num_symbols", num_symbols, 1), windows(T, U)
    if T < U:
        raise NoAlignment(f"num_frames = {T}; expected num_frames >= num_labels = {U}")
    block = _best_block(low, high, U, V) if block is None else check_at_least("block", block, 1)
    return _predicted(low, high, U, V, block)


def choose_block(num_frames, num_labels, num_symbols) -> int:
    """The block of :func:`long_ctc_best_path` with the least :func:`predicted_bytes`, of those that were tried.

    Examples
    --------
    >>> choose_block(270_000, 65_000, 32) < 10_000
    True
    """
    T, U = check_at_least("num_frames", num_frames, 0), check_at_least("num_labels", num_labels, 0)
    return _best_block(*windows(T, U), U, check_at_least("num_symbols", num_symbols, 1))


def _best_block(low, high, U, V):
    """From the cube root of T, in steps of a tenth: a smaller block is never the best."""
    block, blocks = max(int(len(low) ** (1 / 3)), 1), []
    while block < 1.1 * len(low) or not blocks:
        blocks.append(block)
        block += block // 10 + 1
    return min(blocks, key=lambda block: _predicted(low, high, U, V, block))


def _predicted(low, high, U, V, block):
    T, block = len(low), min(block, max(len(low), 1))
    always = 16 * T + 8 * U + checkpoint_bytes(low, high, block)  # windows and targets
    rows = 2 * 8 * min(CHUNK, T) * V  # as they are read, and as float64
    forward = 8 * 5 * (U + 1)  # two lanes, two rows of scratch, penalties
    size = min(block, U) + 1
    back = 8 * T + block * (size + 1) + 8 * 5 * size  # states, pointers, lanes
    result = 8 * T + 8 * 4 * U
    return max(32 * T + 8 * U, always + max(forward + rows, back + rows, result))  # first while windows are computed


def band_around(centres, num_labels, num_targets) -> np.ndarray:
    """The ``first_labels`` of a band of ``num_labels`` labels around a guess of where the path is.

    Parameters
    ----------
    centres : (T,) ints
        A label for each frame, such as ``np.arange(T) * U // T`` for a steady speaker, or ``path // 2`` of a coarser
        alignment. It should not fall; where it does, the largest so far counts.
    num_labels : int
        At least 1.
    num_targets : int
        U.

    Returns
    -------
    (T,) int64 array

    Examples
    --------
    >>> band_around(np.arange(6) * 4 // 6, 2, 4).tolist()
    [0, 0, 0, 1, 1, 2]
    """
    centres = check_integers("centres", centres, 1, "(T,)")
    num_labels, U = check_at_least("num_labels", num_labels, 1), check_at_least("num_targets", num_targets, 0)
    return np.clip(np.maximum.accumulate(centres) - num_labels // 2, 0, max(U - num_labels, 0))

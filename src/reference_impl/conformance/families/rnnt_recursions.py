"""Families of mistakes in RNN-T's recursions: functions that change a grid, by the sentence that names the mistake.

Of a list of changes any may be what was done. Which sweep makes it, and where log Z comes from, is up to `applied.py`;
what is made of both sweeps is in `rnnt_posteriors.py`.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from .rnnt_grid import log_add
from .shared import AT_FIRST, AT_LAST, FIRST_ROW, LAST_ROW, computed, fixed, plus

__all__ = ["GRIDS", "WALKED"]


def _minus(letter, by):
    return {"T-1": "T-2", "U": "U-1"}[letter] if by else letter


def _blanks(made):
    """The weights of blank arcs but for the last one."""
    def change(grid):
        final = grid.blanks[-1, -1]
        grid.blanks = made(grid, grid.blanks.copy())
        grid.blanks[-1, -1] = final
    return change


def _labels(made):
    def change(grid):
        grid.labels = made(grid, grid.labels.copy())
        grid.labels[:, -1] = -np.inf
    return change


def _all(*changes):
    def change(grid):
        for each in changes:
            each(grid)
    return change


def _without(place):
    """Arcs are missing at a place of (T, U+1)."""
    def made(grid, weights):
        weights[place] = -np.inf
        return weights
    return made


def _free(place):
    """Arcs cost nothing at a place of (T, U+1)."""
    def made(grid, weights):
        weights[place] = np.where(np.isfinite(weights[place]), 0.0, weights[place])
        return weights
    return made


#: What is read beyond the edge: the index is held there, it wraps around, or nothing is there.
_EDGES = {"held": lambda at, n: np.clip(at, 0, n - 1), "wraps": lambda at, n: at % n, "off": lambda at, n: at}


def _frames(by, edge="held"):
    return lambda g: _EDGES[edge](np.arange(g.T) + by, g.T)


def _rows(by, edge="held"):
    return lambda g: _EDGES[edge](np.arange(g.rows) + by, g.rows)


_OWN_FRAMES, _OWN_ROWS = _frames(0), _rows(0)


def _read(grid, t, u, k):
    """What is read at other indices, which are broadcast to (T, U+1), -inf outside the grid; and the indices."""
    (T, rows, V) = grid.log_probs.shape
    t, u, k = (np.array(each) for each in np.broadcast_arrays(t, u, k, np.zeros((T, rows), int))[:3])
    inside = (t >= 0) & (t < T) & (u >= 0) & (u < rows)
    places = np.clip(t, 0, T - 1), np.clip(u, 0, rows - 1), k % V
    return np.where(inside, grid.log_probs[places], -np.inf), places


def _blank_at(frames=_OWN_FRAMES, rows=_OWN_ROWS, symbol=lambda g: g.blank):
    def change(grid):
        final = grid.blanks[-1, -1]
        grid.blanks, grid.blank_at = _read(grid, frames(grid)[:, None], rows(grid)[None], symbol(grid))
        grid.blanks[-1, -1] = final
    return change


def _label_at(frames=_OWN_FRAMES, rows=_OWN_ROWS, shift=0, fill=None, symbols=None):
    """Label arcs that read other frames, other rows, the label ``shift`` further on, or other symbols."""
    def change(grid):
        targets = np.roll(grid.targets, -shift) if symbols is None else np.asarray(symbols(grid), int)
        if fill is not None and len(targets):
            targets = targets.copy()
            targets[0 if shift < 0 else -1] = fill(grid)
        grid.labels, grid.label_at = _read(grid, frames(grid)[:, None], rows(grid)[None], np.append(targets, 0))
        grid.labels[:, -1] = -np.inf
    return change


def _end_everywhere(where):
    def change(grid):
        grid.leaves[-1, :-1] = where
    return change


def _stay(grid):
    """Label arcs take a frame, and are weighed at the frame that they enter."""
    grid.down, grid.old_label = 1, True


#: By the sentence that names it, what a mistake makes of a grid.
GRIDS = {
    # the last blank, and the end
    "the last blank is missing: a path leaves the grid by a blank at (T-1, U)": fixed(final=0.0),
    "the last blank is in it twice": computed(final=lambda g: 2 * g.final),
    "blanks leave the grid in every row of the last frame; only at u = U they may": _end_everywhere(True),
    # what an arc reads
    "a label arc reads the row that it leads to (u + 1 for u), not the one that it leaves (the source)":
        _label_at(rows=_rows(1)),
    "a label arc reads the row before (u - 1 for u)": _label_at(rows=_rows(-1)),
    "a label arc reads the frame after (t + 1 for t)": _label_at(frames=_frames(1)),
    "a label arc reads the frame before (t - 1 for t)": _label_at(frames=_frames(-1)),
    "a label arc reads the frame before, and index -1 wraps around to the last frame":
        _label_at(frames=_frames(-1, "wraps")),
    "a label arc reads the frame after, and wraps around to the first frame": _label_at(frames=_frames(1, "wraps")),
    "a blank arc reads the frame that it leads to (t + 1 for t), not the one that it leaves (the source)":
        _blank_at(frames=_frames(1)),
    "a blank arc reads the frame before (t - 1 for t)": _blank_at(frames=_frames(-1)),
    "a blank arc reads the frame before, and index -1 wraps around to the last frame":
        _blank_at(frames=_frames(-1, "wraps")),
    "a blank arc reads the frame after, and wraps around to the first frame": _blank_at(frames=_frames(1, "wraps")),
    "a blank arc reads the row after (u + 1 for u)": _blank_at(rows=_rows(1)),
    "a blank arc reads the row before (u - 1 for u)": _blank_at(rows=_rows(-1)),
    "both arcs read the node that they lead to (the destination), not the one that they leave (the source)":
        _all(_blank_at(frames=_frames(1)), _label_at(rows=_rows(1))),
    "both arcs read the frame after (t + 1 for t)": _all(_blank_at(frames=_frames(1)), _label_at(frames=_frames(1))),
    "both arcs read the row after (u + 1 for u)": _all(_blank_at(rows=_rows(1)), _label_at(rows=_rows(1))),
    "both arcs read the frame before (t - 1 for t)":
        _all(_blank_at(frames=_frames(-1)), _label_at(frames=_frames(-1))),
    # the label
    "from row u it reads label u + 1, not label u (targets shifted by one), and wraps around": _label_at(shift=1),
    "from row u it reads label u - 1, not label u (targets shifted by one), and index -1 wraps around":
        _label_at(shift=-1),
    "from row u it reads label u - 1, not label u (targets shifted by one, with a blank in front)":
        _label_at(shift=-1, fill=lambda g: g.blank),
    "from row u it reads label u + 1, not label u (targets shifted by one, with a blank at the end)":
        _label_at(shift=1, fill=lambda g: g.blank),
    "from row u it reads label u + 1, not label u (targets shifted by one), and the last one twice":
        _label_at(shift=1, fill=lambda g: g.targets[-1]),
    "from row u it reads label u - 1, not label u (targets shifted by one), and the first one twice":
        _label_at(shift=-1, fill=lambda g: g.targets[0]),
    "its labels are read in reverse order (targets reversed)": _label_at(symbols=lambda g: g.targets[::-1]),
    "a label is weighed as a blank is": _label_at(symbols=lambda g: np.full(g.rows - 1, g.blank)),
    "a blank is weighed as the label of its row is":
        _blanks(lambda g, w: np.where(np.arange(g.rows) < g.rows - 1, g.labels, w)),
    "blank and label arcs are exchanged: each has the log-prob of the other": _all(
        _blanks(lambda g, w: np.where(np.arange(g.rows) < g.rows - 1, g.of_labels(g.targets), w)),
        _labels(lambda g, w: g.of_labels(np.full(g.rows - 1, g.blank)))),
    "it takes symbol 0 for the blank (a hard-coded blank 0)": _all(
        computed(final=lambda g: g.log_probs[-1, -1, 0]), _blanks(lambda g, w: g.log_probs[..., 0].copy())),
    "it takes the last symbol for the blank (a hard-coded blank V - 1)": _all(
        computed(final=lambda g: g.log_probs[-1, -1, -1]), _blanks(lambda g, w: g.log_probs[..., -1].copy())),
    # time and reversal
    "its frames are reversed, its labels are not (time reversed)": _all(
        _blanks(lambda g, w: w[::-1]), _labels(lambda g, w: w[::-1])),
    "the arcs of the first row are those of the last": _blanks(lambda g, w: w[:, ::-1]),
    # missing arcs
    "no label is emitted in the first frame (t = 0)": _labels(_without(AT_FIRST)),
    "no label is emitted in the last frame": _labels(_without(AT_LAST)),
    "no blank is emitted in the first row (u = 0)": _blanks(_without(FIRST_ROW)),
    "no blank is emitted in the last row (u = U)": _blanks(_without(LAST_ROW)),
    "no blank leaves the first frame": _blanks(_without(AT_FIRST)),
    "a label of the target can never be emitted, so nothing reaches the end (a loop that leaves a row out)":
        _labels(_without((slice(None), slice(-2, -1)))),
    "labels cost nothing in the first frame: their probability is missing there": _labels(_free(AT_FIRST)),
    "labels cost nothing in the last frame: their probability is missing there": _labels(_free(AT_LAST)),
    "blanks cost nothing in the first row: their probability is missing there": _blanks(_free(FIRST_ROW)),
    "blanks cost nothing in the last row: their probability is missing there": _blanks(_free(LAST_ROW)),
    "blanks cost nothing: their probability is missing": _blanks(_free(slice(None))),
    "labels cost nothing: their probability is missing": _labels(_free(slice(None))),
    "each label is in it twice": _labels(lambda g, w: 2 * w),
    "each blank is in it twice": _blanks(lambda g, w: 2 * w),
    "each blank and each label is in it twice": _all(_blanks(lambda g, w: 2 * w), _labels(lambda g, w: 2 * w)),
    # boundaries of alpha
    "the first row is not added up: a node there has the blank before it alone (no cumulative sum)":
        computed(column=lambda g: np.concatenate([[0.0], g.blanks[:-1, 0]])),
    "the first frame is not added up: a node there has the label before it alone (no cumulative sum)":
        computed(row=lambda g: np.concatenate([[0.0], g.labels[0, :-1]])),
    "the first row has the blank of the node itself, one too late (t for t - 1)":
        computed(column=lambda g: np.cumsum(np.concatenate([[0.0], g.blanks[1:, 0]]))),
    "the first frame has the label of the node itself, one too late (u for u - 1)":
        computed(row=lambda g: np.cumsum(np.concatenate([[0.0], g.labels[0, 1:]]))),
    "the first row of alpha is 0, a probability of 1 (zeros at the boundary)": computed(column=lambda g: np.zeros(g.T)),
    "the first frame of alpha is 0, a probability of 1 (zeros at the boundary)":
        computed(row=lambda g: np.zeros(g.rows)),
    "it begins with the blank of node (0, 0) instead of 0":
        computed(origin=lambda g: g.blanks[0, 0]),
    "it begins with the label of node (0, 0) instead of 0":
        computed(origin=lambda g: g.labels[0, 0] if g.rows > 1 else 0.0),
    # frames and labels
    "a label takes a frame, as in the monotonic RNN-T, so a frame has at most one label (diagonal arcs)": fixed(down=1),
    "a label takes a frame and is weighed in the frame that it enters, as when alpha is updated in place in the wrong "
    "order (diagonal arcs)": _stay,
    # sums
    "it takes the best where it should add all (a maximum for a sum, as in Viterbi)": fixed(add=max),
    "it adds logarithms as if they were probabilities: the sum is not taken in the probability domain":
        fixed(add=lambda x, y: y if x == -np.inf else x if y == -np.inf else x + y),
    "it takes the mean of two arcs where it should add them (a factor 1/2)":
        fixed(add=lambda x, y: log_add(x, y) - (np.log(2) if min(x, y) > -np.inf else 0.0)),
    "it takes the last arc alone: the second assignment overwrites the first (= for +=)":
        fixed(add=lambda by_blank, by_label: by_label if by_label > -np.inf else by_blank),
    "it takes the first arc alone: the blank is kept, and the label is lost where both lead to a node":
        fixed(add=lambda by_blank, by_label: by_blank if by_blank > -np.inf else by_label),
    **{f"{said} stands in place of -inf": fixed(off=value) for said, value in (
        ("0", 0.0), ("-1", -1.0), ("-5", -5.0), ("-10", -10.0), ("-20", -20.0), ("-30", -30.0), ("-50", -50.0),
        ("-100", -100.0), ("-1000", -1e3), ("-1e4", -1e4), ("-1e5", -1e5))},
    # the end of alpha
    "log Z is the sum over all rows of the last frame, without a look at the labels that are missing":
        fixed(ends=lambda g, a: np.logaddexp.reduce(a[-1] + g.blanks[-1])),
    "log Z is the sum over the last frame of alpha, without a blank":
        fixed(ends=lambda g, a: np.logaddexp.reduce(a[-1])),
    "log Z is the sum over the last row of alpha, over all frames":
        fixed(ends=lambda g, a: np.logaddexp.reduce(a[:, -1] + g.blanks[:, -1])),
    "log Z is read one row too early (U - 1 for U)": fixed(ends=lambda g, a: (a + g.blanks)[-1, max(g.rows - 2, 0)]),
    "log Z is read one frame too early (T - 2 for T - 1)": fixed(ends=lambda g, a: (a + g.blanks)[max(g.T - 2, 0), -1]),
    "log Z has the last blank of the first row": fixed(ends=lambda g, a: a[-1, -1] + g.blanks[-1, 0]),
    "log Z has the last blank of the first frame": fixed(ends=lambda g, a: a[-1, -1] + g.blanks[0, -1]),
    "log Z has the last blank of the row before (U - 1 for U)":
        fixed(ends=lambda g, a: a[-1, -1] + g.blanks[-1, max(g.rows - 2, 0)]),
    "log Z is the best path's score in the end": fixed(ends=lambda g, a: (a + g.blanks)[-1].max()),
}


def _node(holds):
    """Nodes (T, U+1) for which ``holds(t, u, T, U)`` are never computed, and are -inf, or 0 of an array of zeros."""
    def skipped(unset):
        def change(grid):
            t, u = np.indices((grid.T, grid.rows))
            grid.skipped, grid.unset = holds(t, u, grid.T, grid.rows - 1), unset
            grid.skipped[0, 0] = False
        return change
    return [skipped(-np.inf), skipped(0.0)]


def _guarded(made):
    """Sums of two finite numbers, made otherwise; -inf adds nothing."""
    def add(x, y):
        x, y = max(x, y), min(x, y)
        return x if y == -np.inf else made(x, y)
    return add


def _log_add_to(base):
    return _guarded(lambda x, y: x + math.log1p(base ** (y - x)) / math.log(base))


def _rounded(dtype):
    return lambda x, y: float(dtype(log_add(x, y)))


def _ended(node=(0, 0), blank=(0, 0), with_blank=True):
    """Alpha of a node so many frames and rows before the last one, and the blank of another one."""
    def ends(g, a):
        end = a[-1 - node[0], -1 - node[1]]
        return end + g.blanks[-1 - blank[0], -1 - blank[1]] if with_blank else end
    return fixed(ends=ends)


def _read_flat(index):
    """All scores are read by another index into flat memory, from t, u and the sizes."""
    def change(grid):
        t, u = np.indices((grid.T, grid.rows))
        flat = index(t, u, grid.T, grid.rows) % (grid.T * grid.rows)
        places, targets = np.divmod(flat, grid.rows), np.append(grid.targets, 0)
        final = grid.final
        grid.blanks = grid.log_probs[places[0], places[1], grid.blank]
        grid.labels = grid.log_probs[places[0], places[1], targets[None].repeat(grid.T, 0)]
        grid.labels[:, -1] = -np.inf
        grid.blank_at = (*places, np.full(flat.shape, grid.blank))
        grid.label_at = (*places, targets[None].repeat(grid.T, 0))
        grid.final = grid.blanks[-1, -1]
        if np.array_equal(flat, t * grid.rows + u):
            grid.final = final
    return change


#: By what reads something else, the changes of blank and label arcs.
_READERS = {"a label arc reads": (_label_at,), "a blank arc reads": (_blank_at,),
            "both arcs read": (_blank_at, _label_at)}
_STEPS = {-1: "before", 1: "after"}


def _reads(which, frames, rows):
    return _all(*(each(frames=frames, rows=rows) for each in _READERS[which]))


#: Arcs that read another frame and another row, and what is beyond the edges.
_ELSEWHERE = {
    **{f"{which} the frame {_STEPS[by]} ({plus('t', by)} for t), and nothing beyond the "
       f"{'last' if by > 0 else 'first'}": _reads(which, _frames(by, "off"), _OWN_ROWS)
       for which, by in itertools.product(_READERS, (-1, 1))},
    **{f"{which} the row {_STEPS[by]} ({plus('u', by)} for u), {said}": _reads(which, _OWN_FRAMES, _rows(by, edge))
       for which, by, (edge, said) in itertools.product(
           _READERS, (-1, 1), (("off", "and nothing beyond the edge"), ("wraps", "and wraps around")))
       if (which, by) != ("a label arc reads", 1)},  # a label has a row after it
    **{f"{which} node ({plus('t', down)}, {plus('u', right)}), not the one that it leaves, (t, u)":
       [_reads(which, _frames(down, edge), _rows(right, edge)) for edge in ("held", "off", "wraps")]
       for which, down, right in itertools.product(_READERS, (-1, 1), (-1, 1))},
    "both arcs read the row before (u - 1 for u)": _reads("both arcs read", _OWN_FRAMES, _rows(-1)),
    "scores are read from flat memory by u T + t, as if it were (U + 1, T); it is (T, U + 1)": _read_flat(
        lambda t, u, T, rows: u * T + t),
    "scores are read from flat memory by t U + u: the stride of a frame is U + 1": _read_flat(
        lambda t, u, T, rows: t * (rows - 1) + u),
    "scores are read from flat memory by t T + u: the stride of a frame is U + 1": _read_flat(
        lambda t, u, T, rows: t * T + u),
    "the label's log-prob is that of the next symbol (label + 1)": _label_at(symbols=lambda g: g.targets + 1),
    "the label's log-prob is that of the symbol before (label - 1)": _label_at(symbols=lambda g: g.targets - 1),
    "the label of row u is taken to be symbol u: its place, not targets[u]":
        _label_at(symbols=lambda g: np.arange(g.rows - 1)),
    "the label of row u is taken to be symbol u + 1: its place, not targets[u]":
        _label_at(symbols=lambda g: np.arange(g.rows - 1) + 1),
    "every row reads the first label": _label_at(symbols=lambda g: g.targets[:1].repeat(g.rows - 1)),
    "every row reads the last label": _label_at(symbols=lambda g: g.targets[-1:].repeat(g.rows - 1)),
    "a blank arc reads the symbol after the blank (blank + 1)": _blank_at(symbol=lambda g: g.blank + 1),
    "a blank arc reads the symbol before the blank (blank - 1)": _blank_at(symbol=lambda g: g.blank - 1),
    "a blank arc reads symbol 0 (a hard-coded blank 0), the last blank does not": _blank_at(symbol=lambda g: 0),
    "a blank arc reads the last symbol (a hard-coded blank V - 1), the last blank does not":
        _blank_at(symbol=lambda g: -1),
    "every frame is read as the first, t is ignored": _all(
        _blank_at(frames=lambda g: np.zeros(g.T, int)), _label_at(frames=lambda g: np.zeros(g.T, int))),
    **{f"{what} is read in the first row, u is ignored": made for what, made in (
        ("a blank", _blank_at(rows=lambda g: np.zeros(g.rows, int))),
        ("a label", _label_at(rows=lambda g: np.zeros(g.rows, int))))},
    **{f"{what} is read in the last row": made for what, made in (
        ("a blank", _blank_at(rows=lambda g: np.full(g.rows, g.rows - 1))),
        ("a label", _label_at(rows=lambda g: np.full(g.rows, g.rows - 1))))},
    **{f"{what} is read in the last frame": made for what, made in (
        ("a blank", _blank_at(frames=lambda g: np.full(g.T, g.T - 1))),
        ("a label", _label_at(frames=lambda g: np.full(g.T, g.T - 1))))},
    **{f"{what} is read in the first frame": made for what, made in (
        ("a blank", _blank_at(frames=lambda g: np.zeros(g.T, int))),
        ("a label", _label_at(frames=lambda g: np.zeros(g.T, int))))},
}
#: Weights that are made otherwise, of blanks, of labels, or of both.
_WEIGHTS = {
    f"{what} {said}": made
    for said, change in (
        ("have the wrong sign: their log-probs are subtracted", lambda g, w: -w),
        ("have half of their log-prob", lambda g, w: w / 2),
        ("have their probability added, not its logarithm", lambda g, w: np.exp(w)),
    )
    for what, made in (("blanks", _blanks(change)), ("labels", _labels(change)),
                       ("blanks and labels", _all(_blanks(change), _labels(change))))
}
_NODES = {
    "nodes with u >= T are never computed (the range of u on an anti-diagonal ends at T - 1): targets with as many "
    "labels as frames, or more, are impossible": _node(lambda t, u, T, U: u >= T),
    "nodes with u > t are never computed: no more labels than frames so far": _node(lambda t, u, T, U: u > t),
    "nodes with u > t + 1 are never computed: a band that is too narrow": _node(lambda t, u, T, U: u > t + 1),
    "nodes with u < t are never computed: a band that is too narrow": _node(lambda t, u, T, U: u < t),
    "nodes with t > U are never computed (the range of t on an anti-diagonal ends at U)":
        _node(lambda t, u, T, U: t > U),
    "nodes with t >= U are never computed (the range of t on an anti-diagonal ends at U - 1)":
        _node(lambda t, u, T, U: t >= U),
    "anti-diagonals from T on are never computed (a loop over T of them, there are T + U)":
        _node(lambda t, u, T, U: t + u >= T),
    "anti-diagonals above U are never computed (a loop over U of them, there are T + U)":
        _node(lambda t, u, T, U: t + u > U),
    "the last anti-diagonal is never computed (a loop that ends one too early)":
        _node(lambda t, u, T, U: t + u == T + U - 1),
    "the last frame is never computed (a loop that ends one too early)": _node(lambda t, u, T, U: t == T - 1),
    "the last row is never computed (a loop that ends one too early)": _node(lambda t, u, T, U: u == U),
    "the last frame is never computed but for its last node": _node(lambda t, u, T, U: (t == T - 1) & (u < U)),
    "the last row is never computed but for its last node": _node(lambda t, u, T, U: (u == U) & (t < T - 1)),
    "the first row is never computed": _node(lambda t, u, T, U: u == 0),
    "the first frame is never computed": _node(lambda t, u, T, U: t == 0),
    "the second row is never computed": _node(lambda t, u, T, U: u == 1),
    "the second frame is never computed": _node(lambda t, u, T, U: t == 1),
}
_BOUNDARIES = {
    "the first row (u = 0) is added up from label arcs, not from its blanks": computed(
        column=lambda g: np.cumsum(np.append(0.0, g.log_probs[:-1, 0, g.targets[0]]))),
    "the first frame (t = 0) is added up from blank arcs, not from its labels": computed(
        row=lambda g: np.cumsum(np.append(0.0, g.blanks[0, :-1]))),
    "the first row begins with the blank of node (0, 0): one blank more than it has":
        computed(column=lambda g: np.cumsum(g.blanks[:, 0])),
    "the first frame begins with the label of node (0, 0): one label more than it has":
        computed(row=lambda g: np.cumsum(g.labels[0])),
    "the last row of beta is not added up: a node there has its own blank alone (no cumulative sum)":
        computed(last_column=lambda g: g.blanks[:, -1]),
    "the last frame of beta is not added up: a node there has its own label alone (no cumulative sum)":
        computed(last_row=lambda g: g.labels[-1]),
    "the last frame of beta has no last blank: the labels alone":
        computed(last_row=lambda g: np.cumsum(g.labels[-1, ::-1][1:])[::-1]),
    "the last row of beta is 0, a probability of 1 (zeros at the boundary)":
        computed(last_column=lambda g: np.zeros(g.T)),
    "the last frame of beta is 0, a probability of 1 (zeros at the boundary)":
        computed(last_row=lambda g: np.zeros(g.rows)),
    "a path may begin in any row of the first frame": lambda grid: grid.starts.__setitem__((0, slice(1, None)), 0.0),
    "a path may begin in any frame of the first row": lambda grid: grid.starts.__setitem__((slice(1, None), 0), 0.0),
    "a path may begin at any node": lambda grid: grid.starts.__setitem__(slice(None), 0.0),
    "it begins with 1 instead of 0: a probability of 1 is a logarithm of 0": fixed(origin=1.0),
    "it begins with log 1/2": fixed(origin=math.log(0.5)),
    "beta begins with the first label of its row, not with the last blank":
        computed(final=lambda g: g.labels[-1, -2] if g.rows > 1 else g.final),
    "beta ends with 1 instead of the last blank: a probability of 1 is a logarithm of 0": fixed(final=1.0),
    **{f"the last blank is read at node ({_minus('T-1', down)}, {_minus('U', left)}); it is at (T-1, U)":
       computed(final=lambda g, down=down, left=left: g.blanks[-1 - down, -1 - left])
       for down, left in ((0, 1), (1, 0), (1, 1))},
    "the last blank is read at node (0, 0); it is at (T-1, U)":
        computed(final=lambda g: g.blanks[0, 0]),
}
_SUMS = {
    "masses are added by logaddexp2, a sum to base 2: log2(2^a + 2^b); the scores are natural logarithms":
        fixed(add=_log_add_to(2.0)),
    "masses are added to base 10: log10(10^a + 10^b); the scores are natural logarithms": fixed(add=_log_add_to(10.0)),
    "a sum of two is the larger plus log 2": fixed(add=_guarded(lambda x, y: x + math.log(2))),
    "a sum of two lacks log1p: max + exp(-|a - b|)": fixed(add=_guarded(lambda x, y: x + math.exp(y - x))),
    "a sum of two subtracts log1p(exp(-|a - b|)) from the larger":
        fixed(add=_guarded(lambda x, y: x - math.log1p(math.exp(y - x)))),
    "a sum of two adds log1p(exp(-|a - b|)) to the smaller":
        fixed(add=_guarded(lambda x, y: y + math.log1p(math.exp(y - x)))),
    "a sum of two lacks the larger of them: log1p(exp(-|a - b|)) alone":
        fixed(add=_guarded(lambda x, y: math.log1p(math.exp(y - x)))),
    "a sum of two is the difference: log(exp(a) - exp(b))":
        fixed(add=_guarded(lambda x, y: x + math.log1p(-math.exp(y - x)) if y < x else -np.inf)),
    "it takes the smaller where it should add both (a minimum for a sum)": fixed(add=_guarded(lambda x, y: y)),
    "it takes the mean of two logarithms": fixed(add=_guarded(lambda x, y: (x + y) / 2)),
    **{f"an epsilon of {eps:.0e} is added inside the logarithm of a sum": fixed(
        add=lambda x, y, eps=eps: math.log(math.exp(x) + math.exp(y) + eps)) for eps in (
            1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12, 1e-16, 1e-20, 1e-30)},
    **{f"sums are cut off from below at -{floor:g}, a floor": fixed(
        add=lambda x, y, floor=floor: max(log_add(x, y), -floor)) for floor in (
            5, 10, 20, 30, 50, 100, 1e3, 1e4, 1e5, 1e10, 1e30)},
    **{f"a sum leaves out what is below the larger by more than {at}": fixed(add=_guarded(
        lambda x, y, at=at: x if x - y > at else log_add(x, y))) for at in (1, 2, 3, 5, 10)},
    "sums are rounded to float32": fixed(add=_rounded(np.float32)),
    "sums are rounded to half precision (float16)": fixed(add=_rounded(np.float16)),
}
_ENDS = {
    **{f"log Z is alpha of node ({_minus('T-1', down)}, {_minus('U', left)}) with {said}": made
       for down, left in ((0, 1), (1, 0), (1, 1))
       for said, made in (("the last blank", _ended((down, left))),
                          ("its own blank", _ended((down, left), (down, left))),
                          ("no blank", _ended((down, left), with_blank=False)))
       if (down, left) not in ((0, 1), (1, 0)) or said != "its own blank"},
    "log Z has the last blank of the first node": fixed(ends=lambda g, a: a[-1, -1] + g.blanks[0, 0]),
    "log Z has the last blank of the frame before": fixed(ends=lambda g, a: a[-1, -1] + g.blanks[max(g.T - 2, 0), -1]),
    "log Z is the sum over the last row of alpha, without a blank":
        fixed(ends=lambda g, a: np.logaddexp.reduce(a[:, -1])),
    "log Z is the sum over the last row and the last frame": fixed(
        ends=lambda g, a: np.logaddexp.reduce(np.append(a[-1], a[:-1, -1])) + g.final),
    "log Z is the sum over all nodes of alpha": fixed(ends=lambda g, a: np.logaddexp.reduce((a + g.blanks).ravel())),
    "log Z is the sum over the last anti-diagonals, the last two nodes too": fixed(
        ends=lambda g, a: np.logaddexp.reduce(
        [a[-1, -1] + g.final, *(a + g.blanks)[-2:-1, -1], *(a + g.blanks)[-1, -2:-1]])),
    "log Z is the largest of alpha": fixed(ends=lambda g, a: a.max()),
    **{f"log Z is read from beta at node {at}, not at (0, 0)": fixed(begins=at) for at in ((0, 1), (1, 0), (1, 1))},
    "log Z is the sum over the first frame of beta": fixed(begins_of=lambda b: np.logaddexp.reduce(b[0])),
    "log Z is the sum over the first row of beta": fixed(begins_of=lambda b: np.logaddexp.reduce(b[:, 0])),
}
GRIDS |= {**_ELSEWHERE, **_WEIGHTS, **_NODES, **_BOUNDARIES, **_SUMS, **_ENDS}


# --- rules for what may follow what ---


def _walked(*, most=None, follows=lambda before, arc, u: True):
    """Log Z over paths with at most ``most`` labels in a frame, and only arcs that may follow the one before them."""
    def log_z(g):
        masses = {(0, 0): {("", 0): 0.0}}
        for t, u in itertools.product(range(g.T), range(g.rows)):
            for (before, emitted), mass in masses.get((t, u), {}).items():
                arcs = [("blank", t + 1, u, 0, g.blanks[t, u])]
                if u < g.rows - 1 and (most is None or emitted < most):
                    arcs.append(("label", t, u + 1, emitted + 1, g.labels[t, u]))
                for arc, to, row, count, weight in arcs:
                    if follows(before, arc, u) and (to < g.T or row == g.rows - 1):
                        there = masses.setdefault((to, row), {})
                        key = arc, 0 if most is None else count
                        there[key] = log_add(there.get(key, -np.inf), mass + weight)
        end = masses.get((g.T, g.rows - 1), {})
        return np.logaddexp.reduce([*end.values()]) if end else -np.inf
    return log_z


#: By the sentence that names it, log Z of a grid under another rule for the paths.
WALKED = {
    "a frame has at most one label": _walked(most=1),
    **{f"a frame has at most {most} labels (a fixed limit)": _walked(most=most) for most in (2, 3, 4, 5)},
    "a blank may not follow a label": _walked(follows=lambda before, arc, u: (before, arc) != ("label", "blank")),
    "a label may not follow a blank": _walked(follows=lambda before, arc, u: (before, arc) != ("blank", "label")),
    "a blank may not follow a blank": _walked(follows=lambda before, arc, u: (before, arc) != ("blank", "blank")),
    "a path may not begin with a label": _walked(follows=lambda before, arc, u: before or arc == "blank"),
    "a path may not begin with a blank": _walked(follows=lambda before, arc, u: before or arc == "label"),
}

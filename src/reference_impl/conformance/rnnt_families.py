"""Families of mistakes in RNN-T's grid: its arcs, their indices, boundaries and posteriors. It names no answer.

A mistake changes a :class:`Grid`. Which sweep makes it, and where log Z comes from, is up to `families.py`.
"""

from __future__ import annotations

import numpy as np

__all__ = ["GRIDS", "NODES", "OCCUPANCIES", "Grid", "arcs", "collected"]


class Grid:
    """The log weights of blank and label arcs by the node that they leave, (T, U+1) each, and how they are added up.

    The last row has no label arcs: -inf. ``down`` is how many frames a label arc takes.
    """

    def __init__(self, log_probs, targets, blank):
        self.log_probs, self.targets, self.blank = np.asarray(log_probs, float), np.asarray(targets), blank
        self.T, self.rows = self.log_probs.shape[:2]
        self.blanks = self.log_probs[..., blank].copy()
        self.labels = self.of_labels(self.targets)
        self.final = self.blanks[-1, -1]
        self.add, self.off, self.down = np.logaddexp, -np.inf, 0
        self.leaves = np.zeros((self.T, self.rows), bool)  # where blanks of the last frame leave the grid, too
        self.origin, self.column, self.row = 0.0, None, None
        self.old_label, self.ends = False, None

    def of_labels(self, targets, rows=None, frames=None):
        """Log-probs of the labels (T, U+1), read from their own rows and frames, or from those that are given."""
        found = np.full((self.T, self.rows), -np.inf)
        U = self.rows - 1
        rows = np.arange(U) if rows is None else rows
        frames = np.arange(self.T) if frames is None else frames
        found[:, :U] = self.log_probs[frames][:, rows, targets] if U else 0.0
        return found

    def alpha(self):
        found = np.full((self.T, self.rows), -np.inf)
        for t in range(self.T):
            for u in range(self.rows):
                if t == u == 0:
                    found[0, 0] = self.origin
                elif u == 0 and self.column is not None:
                    found[t, 0] = self.column[t]
                elif t == 0 and self.row is not None:
                    found[0, u] = self.row[u]
                else:
                    by_blank = found[t - 1, u] + self.blanks[t - 1, u] if t else self.off
                    read = t if self.old_label else t - self.down
                    by_label = (found[t - self.down, u - 1] + self.labels[read, u - 1] if u and t >= self.down
                                else self.off)
                    found[t, u] = self.add(by_blank, by_label)
        return found

    def beta(self):
        found = np.full((self.T, self.rows), -np.inf)
        for t in reversed(range(self.T)):
            for u in reversed(range(self.rows)):
                if t == self.T - 1 and u == self.rows - 1:
                    found[t, u] = self.final
                    continue
                by_blank = found[t + 1, u] + self.blanks[t, u] if t < self.T - 1 else (
                    self.blanks[t, u] if self.leaves[t, u] else self.off)
                by_label = (found[t + self.down, u + 1] + self.labels[t, u]
                            if u < self.rows - 1 and t + self.down < self.T else self.off)
                found[t, u] = self.add(by_blank, by_label)
        return found

    def log_z(self, alpha):
        return alpha[-1, -1] + self.final if self.ends is None else self.ends(self, alpha)

    def log_z_of_beta(self, beta):
        return beta[0, 0]


def _set(**values):
    def change(grid):
        for name, value in values.items():
            setattr(grid, name, value)
    return change


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


def _both(blanks, labels):
    def change(grid):
        labels(grid)
        blanks(grid)
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


def _frames(by, wrap=False):
    def frames_of(grid):
        frames = np.arange(grid.T) + by
        return frames % grid.T if wrap else np.clip(frames, 0, grid.T - 1)
    return frames_of


def _rows(by):
    return lambda grid: np.clip(np.arange(grid.rows) + by, 0, grid.rows - 1)


_OWN_FRAMES, _OWN_ROWS = _frames(0), _rows(0)


def _blank_at(frames=_OWN_FRAMES, rows=_OWN_ROWS):
    return _blanks(lambda g, w: g.log_probs[..., g.blank][frames(g)][:, rows(g)])


def _label_at(frames=_OWN_FRAMES, rows=_OWN_ROWS, shift=0, fill=None):
    """Label arcs that read other frames, other rows, or the label ``shift`` further on."""
    def made(grid, weights):
        targets = np.roll(grid.targets, -shift)
        if fill is not None and len(targets):
            targets = targets.copy()
            targets[0 if shift < 0 else -1] = fill(grid)
        return grid.of_labels(targets, rows(grid)[:-1], frames(grid))
    return _labels(made)


def _ends(made):
    return _set(ends=made)


def _last_free(grid):
    grid.final = 0.0


def _end_everywhere(where):
    def change(grid):
        grid.leaves[-1, :-1] = where
    return change


def _cumulated(grid, name, values):
    setattr(grid, name, values(grid))


def _column(values):
    return lambda grid: _cumulated(grid, "column", values)


def _row(values):
    return lambda grid: _cumulated(grid, "row", values)


def _stay(grid):
    """Label arcs take a frame, and are weighed at the frame that they enter."""
    grid.down, grid.old_label = 1, True


_AT_LAST, _AT_FIRST = (-1, slice(None)), (0, slice(None))
_FIRST_ROW, _LAST_ROW = (slice(None), 0), (slice(None), -1)

#: By the sentence that names it, what a mistake makes of a grid.
GRIDS = {
    # the last blank, and the end
    "the last blank is missing: a path leaves the grid by a blank at (T-1, U)": _last_free,
    "the last blank is in it twice": lambda grid: setattr(grid, "final", 2 * grid.final),
    "blanks leave the grid in every row of the last frame; only at u = U they may": _end_everywhere(True),
    # what an arc reads
    "a label arc reads the row that it leads to (u + 1 for u), not the one that it leaves (the source)":
        _label_at(rows=_rows(1)),
    "a label arc reads the row before (u - 1 for u)": _label_at(rows=_rows(-1)),
    "a label arc reads the frame after (t + 1 for t)": _label_at(frames=_frames(1)),
    "a label arc reads the frame before (t - 1 for t)": _label_at(frames=_frames(-1)),
    "a label arc reads the frame before, and index -1 wraps around to the last frame":
        _label_at(frames=_frames(-1, True)),
    "a label arc reads the frame after, and wraps around to the first frame": _label_at(frames=_frames(1, True)),
    "a blank arc reads the frame that it leads to (t + 1 for t), not the one that it leaves (the source)":
        _blank_at(frames=_frames(1)),
    "a blank arc reads the frame before (t - 1 for t)": _blank_at(frames=_frames(-1)),
    "a blank arc reads the frame before, and index -1 wraps around to the last frame":
        _blank_at(frames=_frames(-1, True)),
    "a blank arc reads the frame after, and wraps around to the first frame": _blank_at(frames=_frames(1, True)),
    "a blank arc reads the row after (u + 1 for u)": _blank_at(rows=_rows(1)),
    "a blank arc reads the row before (u - 1 for u)": _blank_at(rows=_rows(-1)),
    "both arcs read the node that they lead to (the destination), not the one that they leave (the source)":
        _both(_blank_at(frames=_frames(1)), _label_at(rows=_rows(1))),
    "both arcs read the frame after (t + 1 for t)": _both(_blank_at(frames=_frames(1)), _label_at(frames=_frames(1))),
    "both arcs read the row after (u + 1 for u)": _both(_blank_at(rows=_rows(1)), _label_at(rows=_rows(1))),
    "both arcs read the frame before (t - 1 for t)":
        _both(_blank_at(frames=_frames(-1)), _label_at(frames=_frames(-1))),
    # the label
    "from row u it reads label u + 1, not label u (targets shifted by one), and wraps around": _label_at(shift=1),
    "from row u it reads label u - 1, not label u (targets shifted by one), and index -1 wraps around":
        _label_at(shift=-1),
    "from row u it reads label u - 1, not label u (targets shifted by one, with a blank in front)":
        _label_at(shift=-1, fill=lambda g: g.blank),
    "from row u it reads label u + 1, not label u (targets shifted by one, with a blank behind)":
        _label_at(shift=1, fill=lambda g: g.blank),
    "from row u it reads label u + 1, not label u (targets shifted by one), and the last one again":
        _label_at(shift=1, fill=lambda g: g.targets[-1]),
    "from row u it reads label u - 1, not label u (targets shifted by one), and the first one again":
        _label_at(shift=-1, fill=lambda g: g.targets[0]),
    "its labels are read in reverse order (targets reversed)": _labels(lambda g, w: g.of_labels(g.targets[::-1])),
    "a label is weighed as a blank is": _labels(lambda g, w: g.of_labels(np.full(g.rows - 1, g.blank))),
    "a blank is weighed as the label of its row is":
        _blanks(lambda g, w: np.where(np.arange(g.rows) < g.rows - 1, g.labels, w)),
    "blank and label arcs are exchanged: each has the log-prob of the other": _both(
        _blanks(lambda g, w: np.where(np.arange(g.rows) < g.rows - 1, g.of_labels(g.targets), w)),
        _labels(lambda g, w: g.of_labels(np.full(g.rows - 1, g.blank)))),
    "it takes symbol 0 for the blank (a hard-coded blank 0)": _both(
        lambda g: setattr(g, "final", g.log_probs[-1, -1, 0]), _blanks(lambda g, w: g.log_probs[..., 0].copy())),
    "it takes the last symbol for the blank (a hard-coded blank V - 1)": _both(
        lambda g: setattr(g, "final", g.log_probs[-1, -1, -1]), _blanks(lambda g, w: g.log_probs[..., -1].copy())),
    # time and reversal
    "its frames are reversed, its labels are not (time reversed)": _both(
        _blanks(lambda g, w: w[::-1]), _labels(lambda g, w: w[::-1])),
    "the arcs of the first row are those of the last": _blanks(lambda g, w: w[:, ::-1]),
    # missing arcs
    "no label is emitted in the first frame (t = 0)": _labels(_without(_AT_FIRST)),
    "no label is emitted in the last frame": _labels(_without(_AT_LAST)),
    "no blank is emitted in the first row (u = 0)": _blanks(_without(_FIRST_ROW)),
    "no blank is emitted in the last row (u = U)": _blanks(_without(_LAST_ROW)),
    "no blank leaves the first frame": _blanks(_without(_AT_FIRST)),
    "a label of the target can never be emitted, so nothing reaches the end (a loop that leaves a row out)":
        _labels(_without((slice(None), slice(-2, -1)))),
    "labels cost nothing in the first frame: their probability is missing there": _labels(_free(_AT_FIRST)),
    "labels cost nothing in the last frame: their probability is missing there": _labels(_free(_AT_LAST)),
    "blanks cost nothing in the first row: their probability is missing there": _blanks(_free(_FIRST_ROW)),
    "blanks cost nothing in the last row: their probability is missing there": _blanks(_free(_LAST_ROW)),
    "blanks cost nothing: their probability is missing": _blanks(_free(slice(None))),
    "labels cost nothing: their probability is missing": _labels(_free(slice(None))),
    "each label is in it twice": _labels(lambda g, w: 2 * w),
    "each blank is in it twice": _blanks(lambda g, w: 2 * w),
    "each blank and each label is in it twice": _both(_blanks(lambda g, w: 2 * w), _labels(lambda g, w: 2 * w)),
    # boundaries of alpha
    "the first row is not added up: a node there has the blank before it alone (no cumulative sum)":
        _column(lambda g: np.concatenate([[0.0], g.blanks[:-1, 0]])),
    "the first frame is not added up: a node there has the label before it alone (no cumulative sum)":
        _row(lambda g: np.concatenate([[0.0], g.labels[0, :-1]])),
    "the first row has the blank of the node itself, one too late (t for t - 1)":
        _column(lambda g: np.cumsum(np.concatenate([[0.0], g.blanks[1:, 0]]))),
    "the first frame has the label of the node itself, one too late (u for u - 1)":
        _row(lambda g: np.cumsum(np.concatenate([[0.0], g.labels[0, 1:]]))),
    "the first row of alpha is 0, a probability of 1 (zeros at the boundary)": _column(lambda g: np.zeros(g.T)),
    "the first frame of alpha is 0, a probability of 1 (zeros at the boundary)": _row(lambda g: np.zeros(g.rows)),
    "it begins with the blank of node (0, 0) instead of 0":
        lambda grid: setattr(grid, "origin", grid.blanks[0, 0]),
    "it begins with the label of node (0, 0) instead of 0":
        lambda grid: setattr(grid, "origin", grid.labels[0, 0] if grid.rows > 1 else 0.0),
    # frames and labels
    "a label takes a frame, as in the monotonic RNN-T, so a frame has at most one label (diagonal arcs)": _set(down=1),
    "a label takes a frame and is weighed in the frame that it enters, as when alpha is updated in place in the wrong "
    "order (diagonal arcs)": _stay,
    # sums
    "it takes the best where it should add all (a maximum for a sum, as in Viterbi)": _set(add=np.maximum),
    "it adds logarithms as if they were probabilities: the sum is not taken in the probability domain":
        _set(add=lambda x, y: y if x == -np.inf else x if y == -np.inf else x + y),
    "it takes the mean of two arcs where it should add them (a factor 1/2)":
        _set(add=lambda x, y: np.logaddexp(x, y) - (np.log(2) if min(x, y) > -np.inf else 0.0)),
    "it takes the last arc alone: the second assignment overwrites the first (= for +=)":
        _set(add=lambda by_blank, by_label: by_label if by_label > -np.inf else by_blank),
    "it takes the first arc alone: the blank is kept, and the label is lost where both lead to a node":
        _set(add=lambda by_blank, by_label: by_blank if by_blank > -np.inf else by_label),
    **{f"{said} stands in the place of -inf": _set(off=value) for said, value in (
        ("0", 0.0), ("-1", -1.0), ("-5", -5.0), ("-10", -10.0), ("-20", -20.0), ("-30", -30.0), ("-50", -50.0),
        ("-100", -100.0), ("-1000", -1e3), ("-1e4", -1e4), ("-1e5", -1e5))},
    # the end of alpha
    "log Z is the sum over all rows of the last frame, without a look at the labels that are missing":
        _ends(lambda g, a: np.logaddexp.reduce(a[-1] + g.blanks[-1])),
    "log Z is the sum over the last frame of alpha, without a blank": _ends(lambda g, a: np.logaddexp.reduce(a[-1])),
    "log Z is the sum over the last row of alpha, over all frames":
        _ends(lambda g, a: np.logaddexp.reduce(a[:, -1] + g.blanks[:, -1])),
    "log Z is read one row too early (U - 1 for U)": _ends(lambda g, a: (a + g.blanks)[-1, max(g.rows - 2, 0)]),
    "log Z is read one frame too early (T - 2 for T - 1)": _ends(lambda g, a: (a + g.blanks)[max(g.T - 2, 0), -1]),
    "log Z has the last blank of the first row": _ends(lambda g, a: a[-1, -1] + g.blanks[-1, 0]),
    "log Z has the last blank of the first frame": _ends(lambda g, a: a[-1, -1] + g.blanks[0, -1]),
    "log Z has the last blank of the row before (U - 1 for U)":
        _ends(lambda g, a: a[-1, -1] + g.blanks[-1, max(g.rows - 2, 0)]),
    "log Z is the best path's score in the end": _ends(lambda g, a: (a + g.blanks)[-1].max()),
}


# --- posteriors ---


def collected(grid, blanks, labels, *, targets=None, rows=0, frames=0):
    """Posteriors of arcs (T, U+1) as an array (T, U+1, V); ``rows`` and ``frames`` by which labels go elsewhere."""
    found = np.zeros(grid.log_probs.shape)
    U = grid.rows - 1
    found[..., grid.blank] = blanks
    if U:
        targets = grid.targets if targets is None else np.asarray(targets) % found.shape[-1]
        to = np.arange(U) + rows
        u = np.flatnonzero((to >= 0) & (to < grid.rows))
        t = np.arange(grid.T)[max(0, -frames):grid.T - max(0, frames)]
        found[(t + frames)[:, None], to[u], targets[u]] += labels[t][:, u]
    return found


def _after(grid, beta):
    """Log masses after the blank and the label of each node."""
    blank, label = np.full((2, grid.T, grid.rows), -np.inf)
    blank[:-1] = beta[1:]
    blank[-1, -1] = 0.0
    if grid.down:
        label[:-1, :-1] = beta[1:, 1:]
    else:
        label[:, :-1] = beta[:, 1:]
    return blank, label


def arcs(g, a, b, log_z, *, blank=None, label=None):
    """Posteriors of the arcs, with other masses after them."""
    after_blank, after_label = _after(g, b)
    after_blank = after_blank if blank is None else blank(g, b, after_blank)
    after_label = after_label if label is None else label(g, b, after_label)
    return np.exp(a + g.blanks + after_blank - log_z), np.exp(a + g.labels + after_label - log_z)


def _summed(**masses):
    return lambda g, a, b, log_z: collected(g, *arcs(g, a, b, log_z, **masses))


def _placed(how):
    return lambda g, a, b, log_z: collected(g, *arcs(g, a, b, log_z), **how(g))


def _times(of_blank, of_label):
    def made(g, a, b, log_z):
        blanks, labels = arcs(g, a, b, log_z)
        return collected(g, of_blank(blanks), of_label(labels))
    return made


def _in(which, change):
    """A change of one of the posteriors, an array (T, U+1)."""
    def made(g, a, b, log_z):
        posteriors = list(arcs(g, a, b, log_z))
        posteriors[which] = change(posteriors[which].copy())
        return collected(g, *posteriors)
    return made


def _cleared(place):
    def change(array):
        array[place] = 0.0
        return array
    return change


def _moved(array, frames=0, rows=0):
    """Row (t, u) is what stood at (t + frames, u + rows), and 0 from outside."""
    T, U = array.shape
    found = np.zeros(array.shape)
    found[max(0, -frames):T - max(0, frames), max(0, -rows):U - max(0, rows)] = array[
        max(0, frames):T - max(0, -frames), max(0, rows):U - max(0, -rows)]
    return found


def _masses(made):
    """Posteriors of both arcs from ``made(g, a, b, after_blank, after_label)``, a pair of log masses over Z."""
    def found(g, a, b, log_z):
        blanks, labels = made(g, a, b, *_after(g, b))
        return collected(g, np.exp(blanks - log_z), np.exp(labels - log_z))
    return found


def _blank_to_label(g, a, b, log_z):
    blanks, labels = arcs(g, a, b, log_z)
    found = collected(g, labels, 0 * labels)
    if g.rows > 1:
        found[:, np.arange(g.rows - 1), g.targets] += blanks[:, :-1]
    return found


def _best_path(g, a, b, log_z):
    """The derivative of the best path's score."""
    g = Grid(g.log_probs, g.targets, g.blank)
    g.add = np.maximum
    alpha, beta = g.alpha(), g.beta()
    best = beta[0, 0]
    if best == -np.inf:
        raise ValueError("no path")
    after_blank, after_label = _after(g, beta)
    return collected(g, alpha + g.blanks + after_blank >= best - 1e-12 * abs(best),
                     alpha + g.labels + after_label >= best - 1e-12 * abs(best))


def _by_flipping(g, a, flips, back):
    """Log masses with a beta that is the alpha of a grid turned round, or partly so; an arc keeps its place in it."""
    turned = Grid(g.log_probs[::flips[0], ::flips[1]], g.targets[::flips[1]], g.blank)
    if flips[1] < 0:  # the label of row u now stands in row U - u, and leads there from the row before
        turned.labels = np.pad(g.labels[::flips[0], :-1][:, ::-1], ((0, 0), (0, 1)), constant_values=-np.inf)
    beta = turned.alpha()[::back[0], ::back[1]] + g.blanks[-1, -1]
    after_blank, after_label = _after(g, beta)
    return a + g.blanks + after_blank, a + g.labels + after_label


def _padded(front):
    """Targets with something in front: the label of row u goes to the one before it."""
    return lambda g: {"targets": np.concatenate([[front(g)], g.targets[:-1]])}


def _roll_end(array, axis):
    rolled = np.roll(array, -1, axis=axis)
    rolled[-1, -1] = 0.0
    return rolled


def _last_zero(array, value=0.0):
    array[-1] = value
    return array


def _z_of(total):
    """Posteriors divided by something else than Z."""
    return lambda g, a, b, log_z: collected(g, *arcs(g, a, b, total(g, a, b)))


#: By the sentence that names it, occupancies (T, U+1, V) from a grid, alpha, beta and log Z.
OCCUPANCIES = {
    # the mass after an arc
    "the posterior of a blank takes beta of the node that it leaves (t for t + 1), not of the one that it enters":
        _summed(blank=lambda g, b, after: b),
    "the posterior of a label takes beta of the node that it leaves (u for u + 1), not of the one that it enters":
        _summed(label=lambda g, b, after: b),
    "both posteriors take beta of the node that the arc leaves, not of the one that it enters":
        _summed(blank=lambda g, b, after: b, label=lambda g, b, after: b),
    "both posteriors take beta of the node that the arc leaves, not of the one that it enters, but for the last blank":
        _summed(blank=lambda g, b, after: np.where(after == 0, after, b), label=lambda g, b, after: b),
    "the posterior of a blank takes beta of row u + 1, too (both indices one further)":
        _summed(blank=lambda g, b, after: np.pad(b, ((0, 1), (0, 1)), constant_values=-np.inf)[1:, 1:]),
    "the posterior of a label takes beta of frame t + 1, too, as if a label took a frame":
        _summed(label=lambda g, b, after: np.pad(b, ((0, 1), (0, 1)), constant_values=-np.inf)[1:, 1:]),
    "the beta after a blank comes from np.roll: blanks of the last frame get the first frame's (it wraps around)":
        _summed(blank=lambda g, b, after: _roll_end(b, 0)),
    "the beta after a blank comes from np.roll, the last blank included (it wraps around to the first frame)":
        _summed(blank=lambda g, b, after: np.roll(b, -1, axis=0)),
    "the beta after a label comes from np.roll: it wraps around to the first row":
        _summed(label=lambda g, b, after: np.roll(b, -1, axis=1)),
    "blanks of the last frame get a beta of 1 in every row; only the last one leaves the grid":
        _summed(blank=lambda g, b, after: _last_zero(after.copy())),
    "blanks of the last frame get the beta of their own node":
        _summed(blank=lambda g, b, after: np.concatenate([after[:-1], b[-1:]])),
    "the last blank gets no posterior (it is missing from the gradient)": _in(0, _cleared((-1, -1))),
    "blank and label exchange the beta after them (t + 1 for u + 1)": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks + after_label, a + g.labels + after_blank)),
    "blank and label exchange their posteriors: transposed between the arcs": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.labels + after_label, a + g.blanks + after_blank)),
    # the mass before an arc
    "the posteriors take alpha of the node that the arc enters, not of the one that it leaves": _masses(
        lambda g, a, b, after_blank, after_label: (
            np.pad(a, ((0, 1), (0, 0)), constant_values=-np.inf)[1:] + g.blanks + after_blank,
            np.pad(a, ((0, 0), (0, 1)), constant_values=-np.inf)[:, 1:] + g.labels + after_label)),
    "the posterior of a label takes alpha of the row after (u + 1 for u)": _masses(
        lambda g, a, b, after_blank, after_label: (
            a + g.blanks + after_blank, np.pad(a, ((0, 0), (0, 1)), constant_values=-np.inf)[:, 1:] + g.labels
            + after_label)),
    "the posterior of a blank takes alpha of the frame before (t - 1 for t)": _masses(
        lambda g, a, b, after_blank, after_label: (
            np.pad(a, ((1, 0), (0, 0)), constant_values=-np.inf)[:-1] + g.blanks + after_blank,
            a + g.labels + after_label)),
    "alpha alone is taken for the posterior; beta is missing": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks, a + g.labels)),
    "beta alone is taken for the posterior; alpha is missing": _masses(
        lambda g, a, b, after_blank, after_label: (g.blanks + after_blank, g.labels + after_label)),
    "the posterior of a node, exp(alpha + beta - log Z), is taken for that of its arcs": _masses(
        lambda g, a, b, after_blank, after_label: (a + b, a + b)),
    "the arc's own log-prob is missing from the posteriors": _masses(
        lambda g, a, b, after_blank, after_label: (a + after_blank, a + after_label)),
    "the arc's own log-prob is missing from the posterior of a label": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks + after_blank, a + after_label)),
    "the arc's own log-prob is missing from the posterior of a blank": _masses(
        lambda g, a, b, after_blank, after_label: (a + after_blank, a + g.labels + after_label)),
    "the arc's own log-prob is in the posteriors twice": _masses(
        lambda g, a, b, after_blank, after_label: (a + 2 * g.blanks + after_blank, a + 2 * g.labels + after_label)),
    "the arc's own log-prob is in the posterior of a label twice": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks + after_blank, a + 2 * g.labels + after_label)),
    "the arc's own log-prob is in the posterior of a blank twice": _masses(
        lambda g, a, b, after_blank, after_label: (a + 2 * g.blanks + after_blank, a + g.labels + after_label)),
    # Z
    "the posteriors are not divided by Z": _z_of(lambda g, a, b: 0.0),
    "the posteriors are multiplied by Z instead of divided": _z_of(lambda g, a, b: -b[0, 0]),
    "the posteriors are divided by Z twice": _z_of(lambda g, a, b: 2 * b[0, 0]),
    "the posteriors are divided by alpha of the last node, without the last blank": _z_of(lambda g, a, b: a[-1, -1]),
    "the posteriors are divided by the sum over all nodes, not by Z":
        _z_of(lambda g, a, b: np.logaddexp.reduce((a + b).ravel())),
    "the posteriors are divided by the sum over the rows of each frame, not by Z":
        _z_of(lambda g, a, b: np.logaddexp.reduce(a + b, axis=1, keepdims=True)),
    "the posteriors are divided by the occupancy of their node, not by Z: shares of the arcs":
        _z_of(lambda g, a, b: a + b),
    "the posteriors are divided by the sum over the frames of each row, not by Z":
        _z_of(lambda g, a, b: np.logaddexp.reduce(a + b, axis=0, keepdims=True)),
    # where they go
    "the posteriors of the labels are missing": _times(lambda blanks: blanks, lambda labels: 0 * labels),
    "the posteriors of the blanks are missing": _times(lambda blanks: 0 * blanks, lambda labels: labels),
    "the gradient of a label goes to the label before it (shifted by one), with a blank in front":
        _placed(_padded(lambda g: g.blank)),
    "the gradient of a label goes to the label before it (shifted by one), with symbol 0 in front":
        _placed(_padded(lambda g: 0)),
    "the gradient of a label goes to the label before it (shifted by one), and index -1 wraps around":
        _placed(_padded(lambda g: g.targets[-1])),
    "the gradient of a label goes to the label before it (shifted by one), and the first one again":
        _placed(_padded(lambda g: g.targets[0])),
    "the gradient of a label goes to the next label (shifted by one), and wraps around":
        _placed(lambda g: {"targets": np.roll(g.targets, -1)}),
    "the gradient of a label goes to the next label (shifted by one), and the last one again":
        _placed(lambda g: {"targets": np.append(g.targets[1:], g.targets[-1:])}),
    "the gradient of a label goes to the next label (shifted by one), with a blank behind":
        _placed(lambda g: {"targets": np.append(g.targets[1:], [g.blank] if len(g.targets) else []).astype(int)}),
    "the gradients of the labels go to the targets in reverse order": _placed(lambda g: {"targets": g.targets[::-1]}),
    "the gradients of the labels go to the blank": _placed(lambda g: {"targets": np.full(g.rows - 1, g.blank)}),
    "the gradients of the blanks go to the labels, and those of the labels to the blank": _blank_to_label,
    "the gradients of the labels go to the next symbol (label + 1)": _placed(lambda g: {"targets": g.targets + 1}),
    "the gradients of the labels go to the symbol before (label - 1)": _placed(lambda g: {"targets": g.targets - 1}),
    "the gradients of the labels go to the column of their place in the target, not of their symbol":
        _placed(lambda g: {"targets": np.arange(g.rows - 1)}),
    "the gradients of the labels go to the column of their place in the target plus 1, not of their symbol":
        _placed(lambda g: {"targets": np.arange(g.rows - 1) + 1}),
    "the gradient of a label goes to the row that it enters (u + 1 for u, off by one)": _placed(lambda g: {"rows": 1}),
    "the gradient of a label goes to the row before (u - 1 for u, off by one)": _placed(lambda g: {"rows": -1}),
    "the gradient of a label goes to the frame after (t + 1 for t, off by one)": _placed(lambda g: {"frames": 1}),
    "the gradient of a label goes to the frame before (t - 1 for t, off by one)": _placed(lambda g: {"frames": -1}),
    "the gradient of a blank goes to the frame that it enters (t + 1 for t, off by one)":
        _in(0, lambda array: _moved(array, frames=-1)),
    "the gradient of a blank goes to the frame that it enters (t + 1 for t, off by one), but for the last one's":
        _in(0, lambda array: _moved(array, frames=-1) + np.pad(array[-1:, -1:], (
            (array.shape[0] - 1, 0), (array.shape[1] - 1, 0)))),
    "the gradient of a blank goes to the frame before (t - 1 for t, off by one)":
        _in(0, lambda array: _moved(array, frames=1)),
    "the gradient of a blank goes to the row after (u + 1 for u, off by one)":
        _in(0, lambda array: _moved(array, rows=-1)),
    "the gradient of a blank goes to the row before (u - 1 for u, off by one)":
        _in(0, lambda array: _moved(array, rows=1)),
    "the gradients of the blanks go to symbol 0 (a hard-coded blank 0)": lambda g, a, b, log_z: _blank_column(
        g, a, b, log_z, 0),
    "the gradients of the blanks go to the last symbol (a hard-coded blank V - 1)":
        lambda g, a, b, log_z: _blank_column(g, a, b, log_z, -1),
    # what is left out
    "blanks of the last row have no posterior": _in(0, _cleared(_LAST_ROW)),
    "blanks of the first row have no posterior": _in(0, _cleared(_FIRST_ROW)),
    "blanks of the last frame have no posterior, the last one included": _in(0, _cleared(_AT_LAST)),
    "labels of the last frame have no posterior": _in(1, _cleared(_AT_LAST)),
    "labels of the first frame have no posterior": _in(1, _cleared(_AT_FIRST)),
    "blanks of the first frame have no posterior": _in(0, _cleared(_AT_FIRST)),
    "the last label has no posterior (a loop that ends one row too early)":
        _in(1, _cleared((slice(None), slice(-2, None)))),
    "the first label has no posterior (a loop that begins one row too late)":
        _in(1, _cleared((slice(None), slice(0, 1)))),
    # signs, and other factors
    "the posterior of the labels has the wrong sign": _times(lambda blanks: blanks, lambda labels: -labels),
    "the posterior of the blanks has the wrong sign": _times(lambda blanks: -blanks, lambda labels: labels),
    "the posterior of the labels is in it twice": _times(lambda blanks: blanks, lambda labels: 2 * labels),
    "the posterior of the blanks is in it twice": _times(lambda blanks: 2 * blanks, lambda labels: labels),
    "the last blank is in the gradient twice": _in(0, lambda array: array + np.pad(
        array[-1:, -1:], ((array.shape[0] - 1, 0), (array.shape[1] - 1, 0)))),
    "the gradient is that of the best path, not of the sum over all paths (Viterbi)": _best_path,
    "alpha and beta are added as probabilities, not multiplied": _masses(
        lambda g, a, b, after_blank, after_label: (np.logaddexp(a + g.blanks, after_blank),
                                                   np.logaddexp(a + g.labels, after_label))),
    **{f"beta is alpha of the arcs reversed in {said}, {turned}": _masses(
        lambda g, a, b, after_blank, after_label, flips=flips, back=back: _by_flipping(g, a, flips, back))
       for said, flips in (("frames and rows", (-1, -1)), ("frames only", (-1, 1)), ("rows only", (1, -1)),
                           ("neither frames nor rows", (1, 1)))
       for turned, back in (("flipped back in frames and rows", (-1, -1)), ("flipped back in frames only", (-1, 1)),
                            ("flipped back in rows only", (1, -1)), ("and not flipped back", (1, 1)))},
    "frames and rows are exchanged in beta: it is read transposed": _masses(
        lambda g, a, b, after_blank, after_label: (
            a + g.blanks + _after(g, b.T)[0], a + g.labels + _after(g, b.T)[1])),
}


def _blank_column(g, a, b, log_z, symbol):
    blanks, labels = arcs(g, a, b, log_z)
    found = collected(g, 0 * blanks, labels)
    found[..., symbol] += blanks
    return found


#: By the sentence that names it, what stands for the node's occupancy (T, U+1) in the softmax term.
NODES = {
    "the softmax term has the occupancy of the labels alone, not of the node": lambda g, a, b, log_z, used: (
        used.sum(-1) - used[..., g.blank]),
    "the softmax term has the occupancy of the blanks alone, not of the node": lambda g, a, b, log_z, used: (
        used[..., g.blank]),
    "the softmax term has alpha for the occupancy of the node; beta is missing": lambda g, a, b, log_z, used: np.exp(a),
    "the softmax term has beta for the occupancy of the node; alpha is missing": lambda g, a, b, log_z, used: (
        np.exp(b - log_z)),
    "the softmax term is not divided by Z": lambda g, a, b, log_z, used: np.exp(a + b),
    "the softmax term has the occupancy of the next frame's node": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), -1, axis=0),
    "the softmax term has the occupancy of the next row's node": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), -1, axis=1),
    "the softmax term has the occupancy of the frame before": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), 1, axis=0),
    "the softmax term has the occupancy of the row before": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), 1, axis=1),
    "the softmax term has the sum over the rows, not the occupancy of the node": lambda g, a, b, log_z, used: (
        used.sum((1, 2))[:, None] * np.ones(g.rows)),
    "the softmax term has the sum over the frames, not the occupancy of the node": lambda g, a, b, log_z, used: (
        used.sum((0, 2))[None] * np.ones((g.T, 1))),
    "the softmax term has the mean over the nodes, not the occupancy of each": lambda g, a, b, log_z, used: np.full(
        (g.T, g.rows), used.sum(-1).mean()),
    "the softmax term is spread evenly over the rows (1 / (U + 1)), without the occupancy of the node":
        lambda g, a, b, log_z, used: np.full((g.T, g.rows), 1 / g.rows),
    "the softmax term leaves out the last node": lambda g, a, b, log_z, used: _without_last(used.sum(-1)),
}


def _without_last(array):
    array[-1, -1] = 0.0
    return array

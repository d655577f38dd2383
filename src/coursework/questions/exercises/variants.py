"""Exercises of the chapters beyond the textbook, mostly small cases to be computed by hand."""

from __future__ import annotations

from functools import partial
from itertools import groupby, product

import numpy as np

from reference_impl import ctc, hat, lattice_loss, log_softmax, rnnt
from reference_impl.pruning.windows import raised
from reference_impl.second_order import hvp_log_probs
from reference_impl.topology import (
    constrained_rnnt_lattice,
    ctc_lattice,
    monotonic_rnnt_lattice,
    rnnt_lattice,
    star_ctc_lattice,
    star_log_probs,
    tdt_lattice,
    wildcard_ctc_lattice,
)

from ..question import Case, Question
from .parts import function, numbers

__all__ = ["EXERCISES"]


def halves(*shape):
    return np.log(np.full(shape, 0.5))


# --- occupancy ---

SQUARE = rnnt.occupancy(halves(2, 2, 2), [1]).sum(-1)

WITHOUT_CHOICE = [
    function("one_frame", lambda rng: {"U": int(rng.integers(0, 8))}, lambda U: 1 + U, {
        "Row 0 is a row, too: there are U + 1.": lambda U: max(U, 0),
        "That is an anti-diagonal's; a frame of RNN-T is visited once more for each label.": lambda U: 1,
    }),
    numbers("gamma", SQUARE, {
        "All paths begin at (0, 0) and end at (1, 1).": np.full((2, 2), 1 / 2),
        "Each of two paths passes one of (0, 1) and (1, 0), not both.": np.ones((2, 2)),
        "It is not divided by Z.": SQUARE / 4,
    }),
    numbers("frames", SQUARE.sum(1), {
        "These are the anti-diagonals' sums; a frame adds up to 1 plus the labels that it is expected to write.":
            [1, 1],
        "The label is written once in all: one half for each frame.": [2, 2],
    }),
    numbers("diagonals", [1, 1, 1], {
        "A path passes each anti-diagonal once.": [1, 1 / 2, 1],
        "These are the sums of the frames, or of rows.": [3 / 2, 3 / 2],
    }),
]

MASS_AND_PATHS = [
    numbers("outside", 10, {
        "A path has T + U visits, and not T.": 8,
        "It is a share; a path has T + U visits.": 0.02,
        "Those are the visits inside.": 490,
        "A path has T + U visits, not T (U + 1).": 0.02 * 400 * 101,
    }),
    numbers("between", [0, 1 - 10 / 498], {
        "Every path has its first and its last node inside, so at most 498 visits are outside.": [0, 1 - 10 / 500],
        "The share of the visits says less than that: all paths may stray a little.": [0.98, 1],
        "A path may stray for one step or for many: the upper bound is less than 1.": [0, 1],
        "They are exchanged: the lower bound comes first.": [1 - 10 / 498, 0],
        "These are bounds for the probability to leave.": [10 / 498, 1],
    }, tolerance=1e-5),
]


# --- k2 ---


def types_of(find):
    grids = [build([1], 2, 2) for build in (rnnt_lattice, monotonic_rnnt_lattice, constrained_rnnt_lattice)]
    return np.array([find(grid) for grid in grids])


def mass(grid):
    return np.exp(-lattice_loss.loss(grid, halves(*grid.shape)))


def last_blank(grid):
    return lattice_loss.occupancy(grid, halves(*grid.shape))[1, 1, 0]


THREE_TYPES = [
    numbers("Z", lambda: types_of(mass), {
        "In the modified type a label ends its frame: its paths have two arcs.": [1 / 4, 1 / 4, 1 / 4],
        "In the constrained type a label brings a blank with it: three weights.": [1 / 4, 1 / 2, 1 / 2],
        "Each type has two paths; add them.": [1 / 8, 1 / 4, 1 / 8],
    }),
    numbers("last_blank", lambda: types_of(last_blank), {
        "In the modified type no blank is certain: a path may end with its label.": [1, 1, 1],
        "In the constrained type a label in frame 1 brings the blank of (1, 1) with it.": [1, 1 / 2, 1 / 2],
        "In the regular type each path ends with it.": [1 / 2, 1 / 2, 1],
    }),
]

WHICH_TYPE = [
    numbers("blanks", [38, 50], {
        "In the constrained type each frame has a blank; the others are inside of px_grad.": [38, 38],
        "In the modified type a label takes the place of a blank: T - U are left.": [50, 50],
        "They are exchanged: first modified, then constrained.": [50, 38],
        "The labels are in px_grad; each brings one blank in the constrained type.": [38, 62],
    }),
]


# --- pruned ---

SCORES = [[1, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 1]]

CERTAIN_PATH = [
    numbers("scores", SCORES, {
        "The label that enters the window from below is to be subtracted.":
            [[1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 1]],
        "It is 1 only where the path is inside for the whole frame, or else enters from below and is subtracted.":
            [[1, 0, 0], [0, 0, 1], [0, 1, 1], [0, 0, 1]],
        "There is a row for each frame but the last.": np.transpose(SCORES),
    }),
    numbers("lower", lambda: raised(np.array([0, 0, 1, 2, 2]), 1), {
        "Of several best windows the lowest is taken, in frame 1.": [0, 1, 1, 2, 2],
        "Of several best windows the lowest is taken, in frame 2.": [0, 0, 2, 2, 2],
        "Two rows let the bound rise by one row a frame.": [0, 0, 0, 2, 2],
        "Frame 3 leaves in row 3: its window is the highest.": [0, 0, 1, 1, 2],
        "The bounds are the lowest rows, and there are three windows: 0, 1 and 2.": [1, 1, 2, 3, 3],
    }),
]


# --- monotonic, HAT ---

GRID = monotonic_rnnt_lattice([1], 3, 2)
MONOTONIC = lattice_loss.grad_logits(GRID, np.zeros(GRID.shape))


def by_hat():
    """Belief times visits minus occupancy, for the blank and for the only label."""
    occupied = lattice_loss.occupancy(GRID, hat.log_probs(np.zeros(GRID.shape)))[0, 0]
    return [occupied.sum() / 2 - occupied[0], occupied[1] - occupied[1]]


MONOTONIC_BY_HAND = [
    numbers("Z", 3 / 8, {
        "It is one path; the label may stand in each of three frames.": 1 / 8,
        "These are CTC's: runs of labels are not merged here, so a label has one frame.": 6 / 8,
        "There is no blank after the last frame: a path has three arcs.": 3 / 16,
    }),
    numbers("labels", [1 / 3] * 3, {
        "They are masses; divide by Z.": [1 / 8] * 3,
        "They are probabilities of the draws, not posteriors.": [1 / 2] * 3,
    }),
    numbers("first", MONOTONIC[0, 0], {
        "The two are exchanged: first the blank, then the label.": [1 / 6, -1 / 6],
        "It is the gradient with respect to the log-probs.": [-2 / 3, -1 / 3],
        "A posterior is a mass over Z.": [1 / 4, 3 / 8],
    }),
    numbers("second", MONOTONIC[1, 0], {
        "Belief is to be multiplied by the occupancy of the node, 2/3.": [1 / 6, 1 / 6],
        "It is the gradient with respect to the log-probs.": [-1 / 3, -1 / 3],
        "That is the first node.": [-1 / 6, 1 / 6],
    }),
    numbers("hat", by_hat, {
        "It is the softmax's; with one label there is nothing to choose under HAT, q = 1.": [-1 / 6, 1 / 6],
        "The blank has a sigmoid of its own, and the same gradient as before.": [0, 0],
        "The label's belief is q times the posterior of the label arc.": [-1 / 6, -1 / 3],
    }),
]


# --- durations ---

TDT = tdt_lattice([1], 2, 2, durations=[0, 1, 2])


TDT_USES = lattice_loss.occupancy(TDT, np.log(np.broadcast_to([1 / 2] * 2 + [1 / 3] * 3, TDT.shape)))
TDT_GRADIENT = lattice_loss.grad_logits(TDT, np.zeros(TDT.shape), groups=(2, 3))[0, 0]

DURATIONS = [
    numbers("E", TDT_USES[0, 0, :2], {
        "The two are exchanged: first the blank, then the label.": TDT_USES[0, 0, 1::-1],
        "The four paths do not weigh the same: those of three steps have a factor 1/6 more.": [1 / 4, 3 / 4],
        "They are masses; divide by Z.": TDT_USES[0, 0, :2] * 14 / 216,
    }),
    numbers("F", TDT_USES[0, 0, 2:], {
        "It is the belief; the posteriors are those of the four paths.": [1 / 3, 1 / 3, 1 / 3],
        "A blank that leaves (0, 0) by one frame reads the entry of duration 1, too.": [7 / 14, 6 / 14, 0],
        "They are masses; divide by Z.": TDT_USES[0, 0, 2:] * 14 / 216,
    }),
    numbers("symbols", TDT_GRADIENT[:2], {
        "Their signs are wrong: belief minus occupancy.": -TDT_GRADIENT[:2],
        "It is the gradient with respect to the log-probs.": -TDT_USES[0, 0, :2],
    }),
    numbers("durations", TDT_GRADIENT[2:], {
        "Their signs are wrong: belief minus occupancy.": -TDT_GRADIENT[2:],
        "It is the gradient with respect to the log-probs.": -TDT_USES[0, 0, 2:],
        "The belief is 1/3 for each of three durations.": 1 / 2 - TDT_USES[0, 0, 2:],
    }),
    numbers("steps", TDT_USES[..., :2].sum(), {
        "The four paths do not weigh the same.": 5 / 2,
        "It is what a path needs at least.": 2,
        "In RNN-T it would be that.": 3,
    }),
]


# --- second derivatives ---

TWO_FRAMES = ctc_lattice([1], 2, 2)


def nudged():
    direction = np.zeros((2, 2))
    direction[0, 1] = 1
    return -hvp_log_probs(TWO_FRAMES, halves(2, 2), direction)[:, ::-1].ravel()


SECOND = [
    numbers("changes", nudged, {
        "Their signs are wrong, or blank and label are exchanged: the nudged label is used more.": lambda: -nudged(),
        "These are the posteriors.": [2 / 3, 1 / 3, 2 / 3, 1 / 3],
        "The mean of V is to be subtracted: it is P(a) times (mean with a, less mean of all).":
            [2 / 3, 0, 1 / 3, 1 / 3],
        "Frame 1 changes as well: the paths are weighed anew.": [2 / 9, -2 / 9, 0, 0],
    }),
    numbers("hessian", 1 / 9, {
        "Its sign is wrong: the Hessian of L is minus a covariance.": -1 / 9,
        "That couples the label's log-prob with itself.": -2 / 9,
        "It is the mean of the product; subtract the product of the means.": 1 / 3,
    }),
]


# --- the gallery ---

THIRDS = np.log(np.full((2, 3), 1 / 3))
STAR, WILD = star_ctc_lattice([1], 2, 3), wildcard_ctc_lattice([1], 2, 3)


def three_masses():
    pairs = (ctc_lattice([1], 2, 3), THIRDS), (STAR, star_log_probs(THIRDS)), (WILD, THIRDS)
    return [np.exp(-lattice_loss.loss(grid, scores)) for grid, scores in pairs]


_SIGN = "Its sign is wrong: belief minus occupancy."
_SOFTMAX = "It is the gradient with respect to the log-probs: the softmax term is missing."

GALLERY = [
    numbers("Z", three_masses, {
        "A star stands for any label but the next, so ab and ba count, too.": [1 / 3, 1 / 3, 1],
        "With wildcards the target may have one frame or both: frames outside weigh 1.": [1 / 3, 5 / 9, 1 / 3],
        "With wildcards frame 0 alone, frame 1 alone and both are three sums; add them.": [1 / 3, 5 / 9, 2 / 3],
        "They are numbers of strings; each weighs 1/9.": [3, 5, 9],
    }),
    numbers("ctc", [0, -1 / 3, 1 / 3], {
        _SIGN: [0, 1 / 3, -1 / 3],
        _SOFTMAX: [-1 / 3, -2 / 3, 0],
        "It is not divided by Z.": [1 / 3 - 1 / 9, 1 / 3 - 2 / 9, 1 / 3],
    }),
    numbers("star", np.array([2, -4, 2]) / 15, {
        _SIGN: np.array([-2, 4, -2]) / 15,
        _SOFTMAX: [-1 / 5, -3 / 5, -1 / 5],
        "It is CTC's: the strings with b are missing.": [0, -1 / 3, 1 / 3],
    }),
    numbers("wildcards", np.array([1, -3, 2]) / 9, {
        _SIGN: np.array([-1, 3, -2]) / 9,
        _SOFTMAX: [-1 / 9, -5 / 9, 0],
        "A frame is inside with probability 2/3: belief is to be multiplied by it.": [2 / 9, -2 / 9, 1 / 3],
    }),
]



def with_words(name, scores):
    """Cases with and without equal labels; three symbols, few frames, so that all strings can be listed."""
    def draw(rng):
        a, b = (int(k) for k in rng.permutation([1, 2]))
        return [Case("function", {name: scores(rng.normal(size=(T, 3))), "targets": np.array(word)})
                for word, T in (([a, b], 4), ([a, a], 4), ([a, a, b], 4), ([b], 3))]

    return draw


def listed_loss(log_probs, targets, *, allowed):
    """Minus the log of the mass of all strings that read the target and are allowed, by their runs."""
    mass = 0.0
    for string in product(range(3), repeat=len(log_probs)):
        runs = [k for k, _ in groupby(string)]
        if [k for k in runs if k] == list(targets) and allowed(runs):
            mass += np.exp(sum(row[k] for row, k in zip(log_probs, string, strict=True)))
    return float(-np.log(mass)) if mass else np.inf


def tight(runs):
    """Is every blank between two equal labels?"""
    ends = zip(runs, runs[1:], runs[2:], strict=False)
    return runs[0] != 0 != runs[-1] and all(left == right for left, k, right in ends if k == 0)


ONLY_NEEDED_BLANKS = [
    Question("loss", {"function": 1.0}, with_words("log_probs", log_softmax), partial(listed_loss, allowed=tight), {
        "Equal labels have no blank between them, so they are merged and have no path.":
            partial(listed_loss, allowed=lambda runs: 0 not in runs),
        "Blanks stand between different labels, too.":
            partial(listed_loss, allowed=lambda runs: runs[0] != 0 != runs[-1]),
        "Blanks stand at the ends and between different labels, too: it is CTC's loss.":
            lambda log_probs, targets: ctc.loss(log_probs, targets),
    }, 1e-9),
]


def said(string):
    return [k for k, _ in groupby(string) if k]


def edits(labels, targets):
    """Levenshtein distance."""
    row = list(range(len(targets) + 1))
    for label in labels:
        new = [row[0] + 1]
        for j, target in enumerate(targets):
            new.append(min(row[j] + (label != target), row[j + 1] + 1, new[j] + 1))
        row = new
    return row[-1]


def listed_edits(probs, targets, *, read=said):
    """The mean edit distance of all strings, each read by a function."""
    strings = product(range(3), repeat=len(probs))
    return float(sum(np.prod([row[k] for row, k in zip(probs, string, strict=True)]) * edits(read(string), targets)
                     for string in strings))


MEAN_EDITS = [
    Question("mean", {"function": 1.0}, with_words("probs", lambda z: np.exp(log_softmax(z))), listed_edits, {
        "Runs are not merged: a repeated symbol is not a new label. A node has to remember the last symbol, too.":
            partial(listed_edits, read=lambda string: [k for k in string if k]),
        "Blanks are deleted before runs are merged; a label after a blank is a new one, even if it is the same.":
            partial(listed_edits, read=lambda string: [k for k, _ in groupby(k for k in string if k)]),
        "It is the distance of the most probable string alone.":
            lambda probs, targets: edits(said(probs.argmax(axis=1)), targets),
    }, 1e-9),
]


EXERCISES = {
    "ex-occ-1": WITHOUT_CHOICE,
    "ex-occ-3": MASS_AND_PATHS,
    "ex-k2-1": THREE_TYPES,
    "ex-k2-3": WHICH_TYPE,
    "ex-prune-1": CERTAIN_PATH,
    "ex-mono-1": MONOTONIC_BY_HAND,
    "ex-dur-1": DURATIONS,
    "ex-second-1": SECOND,
    "ex-gallery-1": GALLERY,
    "ex-gallery-3": ONLY_NEEDED_BLANKS,
    "ex-gallery-5": MEAN_EDITS,
}

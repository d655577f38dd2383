"""Exercises of the chapters on both losses: their comparison, the bank of bugs, handwritten digits."""

from __future__ import annotations

from functools import partial
from math import comb

import numpy as np

from reference_impl import ctc, lattice_loss, log_softmax, rnnt
from reference_impl.topology import monotonic_rnnt_lattice

from .parts import function, numbers

__all__ = ["EXERCISES"]


# --- CTC and RNN-T ---


def belief(rng):
    blank, label = rng.dirichlet(np.ones(3))[:2]
    return {"blank": float(blank), "label": float(label)}


def three_losses(blank, label, targets):
    """CTC, monotonic RNN-T and RNN-T of one frame with a constant predictor."""
    row = np.log([[blank, label, 1 - blank - label]])
    grid = np.repeat(row[:, None], len(targets) + 1, axis=1)
    return [ctc.loss(row, targets), lattice_loss.loss(monotonic_rnnt_lattice(targets, 1, 3), grid),
            rnnt.loss(grid, targets)]


ONE_FRAME = [
    function("empty", belief, partial(three_losses, targets=[]), {
        "RNN-T, too, has a single blank here: the one that ends the frame.":
            lambda blank, label: -np.log([blank, blank, blank**2]),
        "An empty target has a path, one blank.": lambda blank, label: [np.inf] * 3,
        "Their sign is wrong: a loss is minus a logarithm.": lambda blank, label: np.log([blank] * 3),
    }),
    function("one", belief, partial(three_losses, targets=[1]), {
        "In RNN-T the label stays in the frame, and a blank ends it.": lambda blank, label: -np.log([label] * 3),
        "In monotonic RNN-T the label ends its frame: there is no blank behind it.":
            lambda blank, label: -np.log([label, label * blank, label * blank]),
        "In CTC and monotonic RNN-T a frame emits one symbol.":
            lambda blank, label: -np.log([label * blank] * 3),
        "Their sign is wrong: a loss is minus a logarithm.":
            lambda blank, label: np.log([label, label, label * blank]),
    }),
    numbers("least", np.log(4), {
        "The first two can go to 0; in RNN-T label and blank share one distribution.": 0,
        "It has two steps, each of probability one half.": np.log(2),
        "It is in bits; a nat is the unit here.": 2,
    }),
]


def sizes(rng):
    U = int(rng.integers(2, 6))
    return {"T": U + int(rng.integers(2, 6)), "U": U}


BLANKS = [
    function("sums", sizes, lambda T, U: [T - U, T], {
        "In RNN-T a label does not take a frame from a blank: each frame ends with one.": lambda T, U: [T - U, T - U],
        "In monotonic RNN-T a label takes the place of a blank.": lambda T, U: [T, T],
        "They are exchanged: first monotonic RNN-T, then RNN-T.": lambda T, U: [T, T - U],
        "It is the number of steps; asked for are the blanks.": lambda T, U: [T, T + U],
    }),
    function("run", lambda rng: {**sizes(rng), "blanks": float(rng.uniform(0.2, 2))},
             lambda T, U, blanks: (T - blanks) / U, {
        "It is the number of frames that all labels have; divide it by their number.": lambda T, U, blanks: T - blanks,
        "It is the mean number of blanks a label; labels have the frames that are left.":
            lambda T, U, blanks: blanks / U,
        "It is the share of the frames that labels have; divide by U instead.": lambda T, U, blanks: (T - blanks) / T,
    }),
]


# --- bugs and checks ---

READ_A_ROW = [
    numbers("kills", [1, 1, 0, 0], {
        "The sum over V is 1 - gamma in the place of 0, so the second kills it, too.": [1, 0, 0, 0],
        "The loss is the right one and the gradient is not: differences kill it.": [0, 1, 0, 0],
        "A softmax does not change if a constant is added to a row: the third passes it.": [1, 1, 1, 0],
        "Each utterance is treated alike, alone or in a batch: the fourth passes it.": [1, 1, 0, 1],
        "Two of the four pass it: those that compare the gradient with itself under a change that it respects.":
            [1, 1, 1, 1],
        "They are exchanged: 1 is for a check that kills.": [0, 0, 1, 1],
    }),
]


# --- handwritten digits ---

WITHOUT_BLANK = [
    function("alignments", sizes, lambda T, U: comb(T - 1, U - 1), {
        "Labels fill all frames: choose where U - 1 of them end, not U of T frames.": lambda T, U: comb(T, U),
        "The last label ends with the utterance: there are U - 1 boundaries.": lambda T, U: comb(T - 1, U),
        "T frames have T - 1 places between them.": lambda T, U: comb(T, U - 1),
        "That is with the blank.": lambda T, U: comb(T + U, 2 * U),
    }),
    numbers("repeat", [np.inf, 0], {
        "Where there is no alignment, the loss is infinite.": [0, 0],
        "Where there is no alignment, the gradient is 0, by convention.": [np.inf, np.nan],
        "Where there is no alignment, the gradient is 0: not minus infinity.": [np.inf, -np.inf],
    }),
]


def scaled(rng):
    return {"logits": 2 * rng.normal(size=(5, 4)), "targets": rng.permutation([1, 2, 3])[:2],
            "mu": float(rng.uniform(0.3, 3))}


def slope(logits, targets, mu, *, at=1, factor=0, belief=1, occupancy=1):
    """What the scale of the logits does to the loss, with a place for what can go wrong."""
    scores = log_softmax((mu if at else 1) * np.asarray(logits))
    apart = belief * np.exp(scores) - occupancy * ctc.occupancy(scores, targets)
    return float((apart * np.asarray(logits)).sum() * mu**factor)


LOUDER = [
    function("slope", scaled, slope, {
        "Belief and occupancy are taken at z; they belong to the logits mu z.": partial(slope, at=0),
        "The derivative of mu z with respect to mu is z, not mu z.": partial(slope, factor=1),
        "The softmax term is missing.": partial(slope, belief=0),
        "The occupancy is missing.": partial(slope, occupancy=0),
        "Its sign is wrong: belief minus occupancy.": partial(slope, belief=-1, occupancy=-1),
    }),
]

EXERCISES = {
    "ex-compare-1": ONE_FRAME,
    "ex-compare-4": BLANKS,
    "ex-bugs-1": READ_A_ROW,
    "ex-digits-2": WITHOUT_BLANK,
    "ex-digits-3": LOUDER,
}

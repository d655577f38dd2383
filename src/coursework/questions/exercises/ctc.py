"""Exercises of the chapters on CTC."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import comb

import numpy as np

from reference_impl import ctc
from reference_impl.as_published.ctc_conventions import convert
from reference_impl.conformance import ctc_mistakes
from reference_impl.semiring import COUNT

from .. import ctc_gradient
from ..question import Case, Question
from .parts import function, numbers

__all__ = ["EXERCISES"]


def flat(T, V):
    return np.log(np.full((T, V), 1 / V))


# --- the loss ---

COUNTS = [np.array(f(np.zeros((3, 2)), [1], semiring=COUNT), dtype=float) for f in (ctc.alpha, ctc.beta)]

LATTICE = [
    numbers("products", COUNTS[0] * COUNTS[1], {
        "Frames and states are exchanged: there is a row for each frame.": (COUNTS[0] * COUNTS[1]).T,
        "These are the prefixes alone; multiply them by the suffixes.": COUNTS[0],
        "These are the suffixes alone; multiply them by the prefixes.": COUNTS[1],
    }),
    numbers("mass", 3 / 4, {
        "It is the number of paths; each of them weighs 1/8.": 6,
        "It is one path's mass; there are six of them.": 1 / 8,
        "A path may end in the label or in the blank after it: add the last two states.": 3 / 8,
        "As if each of eight strings of symbols collapsed to the target.": 1,
    }),
    numbers("loss", np.log(4 / 3), {
        "It is in bits; a nat is the unit here, the natural logarithm.": np.log2(4 / 3),
        "Its sign is wrong: the loss is minus log Z.": np.log(3 / 4),
        "It is Z, and not minus its logarithm.": 3 / 4,
    }),
]


def is_wrong_without_condition(targets, T):
    """Whether Z is another one if the blank between any two labels may be skipped."""
    scores, targets = flat(T, 4), np.asarray(targets, dtype=int)
    return int(not np.isclose(
        np.exp(-ctc_mistakes.loss(scores, targets, 0, skip=lambda s: s % 2 == 1)), np.exp(-ctc.loss(scores, targets)),
        rtol=1e-9, atol=0))


def repeats(targets):
    return int(np.sum(np.diff(targets) == 0))


def targets_and_frames(rng):
    a, b = (int(k) for k in rng.permutation([1, 2]))
    kinds = [([a, b], 3), ([a, a], 1), ([a, a], 2), ([a, a], 3), ([a, b, a], 5), ([a, b, b], 2), ([a, a, b], 3),
             ([a, b, b], 6), ([], 2)]
    return [Case("targets", {"targets": np.array(targets, dtype=np.int64), "T": T}) for targets, T in kinds]


FORGOTTEN = [
    Question("wrong", {"targets": 1.0}, targets_and_frames, is_wrong_without_condition, {
        "A repeat is not enough: with fewer frames than labels neither program finds a path.":
            lambda targets, T: int(repeats(targets) > 0),
        "With T < U + R the right Z is 0; the program's is not, as long as T is not less than U.":
            lambda targets, T: int(repeats(targets) > 0 and T >= len(targets) + repeats(targets)),
        "Only equal neighbours matter: between different labels the blank may be skipped anyway.":
            lambda targets, T: int(len(set(targets)) < len(targets) <= T),
        "Targets without a repeat are right: there the condition is always met.": lambda targets, T: 1,
    }),
]


def most_paths(T):
    U = 0
    while comb(T + U + 1, 2 * U + 2) >= comb(T + U, 2 * U):
        U += 1
    return U


def frames(rng):
    while True:
        T = int(rng.integers(4, 60))
        best = most_paths(T)
        if comb(T + best, 2 * best) > comb(T + best - 1, 2 * best - 2):  # no two are equally good
            return {"T": T}


LONGEST = [
    function("labels", frames, most_paths, {
        "It is the last number for which one label more still helps; so one more is best.": lambda T: most_paths(T) - 1,
        "It is one too many: for the number before, one label more has fewer paths already.":
            lambda T: most_paths(T) + 1,
        "It is half of the frames, which would be right if labels were never held: the binomial is then (T, U).":
            lambda T: T // 2,
        "It is the longest target that has a path at all; it has just one.": lambda T: T,
    }),
]


# --- the gradient ---


def two_rows(rng):
    return {"y0": float(rng.uniform(0.1, 0.9)), "y1": float(rng.uniform(0.1, 0.9))}


BY_HAND = [
    function("mass", two_rows, lambda y0, y1: 1 - (1 - y0) * (1 - y1), {
        "It is the mass of aa alone; the blank may come first or last.": lambda y0, y1: y0 * y1,
        "The string aa is counted twice.": lambda y0, y1: y0 + y1,
        "The string aa is missing: a label may last two frames.": lambda y0, y1: y0 * (1 - y1) + (1 - y0) * y1,
        "It is the mass of all other strings.": lambda y0, y1: (1 - y0) * (1 - y1),
        "It is minus log Z, the loss.": lambda y0, y1: -np.log(1 - (1 - y0) * (1 - y1)),
    }),
    numbers("occupancy", 2 / 3, {
        "It is a mass; divide it by Z.": 1 / 2,
        "It is the occupancy of the blank, or of one of two paths: aa and a with a blank behind it count.": 1 / 3,
        "It is Z.": 3 / 4,
    }),
    numbers("gradient", -1 / 6, {
        "Its sign is wrong: belief minus occupancy.": 1 / 6,
        "It is the gradient with respect to the log-prob: the softmax term is missing.": -2 / 3,
        "The occupancy is not divided by Z.": 0,
        "It is the gradient with respect to the probability.": -4 / 3,
        "The two are added: belief minus occupancy.": 7 / 6,
    }),
]

GRAD_LOGITS = next(question for question in ctc_gradient.QUESTIONS if question.name == "grad_logits")


def is_right_by_assignment(targets, T):
    """Whether the occupancy is right if the last state of each symbol wins."""
    arguments = flat(T, 4), np.asarray(targets, dtype=int), 0
    return int(np.allclose(ctc_mistakes.occupancy(*arguments, assign=True), ctc_mistakes.occupancy(*arguments),
                           rtol=0, atol=1e-9))


def feasible(rng):
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    kinds = [([], 3), ([a], 1), ([a], 2), ([a, b], 2), ([a, b], 4), ([a, a], 3), ([a, b, a], 3), ([a, b, c], 3),
             ([a, b, c], 5), ([a, b, b], 4)]
    return [Case("targets", {"targets": np.array(targets, dtype=np.int64), "T": T}) for targets, T in kinds]


def distinct(targets):
    return len(set(targets)) == len(targets)


ASSIGNED = [
    Question("right", {"targets": 1.0}, feasible, is_right_by_assignment, {
        "The blank stands at several states, too: with frames to spare some path begins with one.":
            lambda targets, T: int(distinct(targets)),
        "A label may occur twice without two of it being neighbours; its first state is lost then.":
            lambda targets, T: int(not len(targets) or T == len(targets)),
        "With just enough frames a repeat still has its label at two states.":
            lambda targets, T: int(not len(targets) or T == len(targets) + repeats(targets)),
        "Right are more than the empty target: what if a target has one path, and no symbol twice?":
            lambda targets, T: int(not len(targets)),
        "The empty target has one state; nothing is lost.":
            lambda targets, T: int(bool(len(targets)) and distinct(targets) and T == len(targets)),
    }),
]


def occupied(rng):
    return {"E": rng.dirichlet(np.ones(4))}


SECOND = [
    function("within", occupied, lambda E: np.outer(E, E) - np.diag(E), {
        "Its sign is wrong: it is minus a covariance, as L is minus log Z.": lambda E: np.diag(E) - np.outer(E, E),
        "The product of the two occupancies is missing: L has a logarithm.": lambda E: -np.diag(E),
        "In one frame a path has one symbol: P is E if j = k, and only else 0.": lambda E: np.outer(E, E),
        "It is the diagonal alone; entries of one frame exclude each other.": lambda E: -np.diag(E * (1 - E)),
    }),
]


# --- 2006 ---

ROWS = np.array([[1 / 3, 2 / 3], [1 / 2, 1 / 2]])


def variables(convention):
    ours = ctc.log_alpha(np.log(ROWS), [1]), ctc.log_beta(np.log(ROWS), [1])
    with np.errstate(all="ignore"):
        return [np.exp(f) for f in convert(*ours, np.log(ROWS), [1], source="thesis", target=convention)]


ROUTE = [
    numbers("alpha", lambda: variables("2006")[0], {
        "The emission of the frame is missing: it is what arrives.": lambda: variables("arcs")[0],
        "It is beta.": lambda: variables("2006")[1],
        "It is right up to pruning: here state 0 of frame 1 is dropped.": [[1 / 3, 2 / 3, 0], [0, 1 / 2, 1 / 3]],
    }),
    numbers("beta", lambda: variables("2006")[1], {
        "The emission of the frame is missing: that is the convention of the thesis, and of this book.":
            lambda: variables("thesis")[1],
        "It is alpha.": lambda: variables("2006")[0],
    }),
    numbers("Z", 5 / 6, {
        "A path may end in the blank, too; or, if you added products, y is still in them twice.": 1 / 2,
        "The emission is in both variables: divide it out of each product.": 5 / 12,
        "A path may end in the label, too.": 1 / 3,
    }),
    numbers("grad_prob", 1, {
        "It is M itself; its factor y stands in it twice.": 4 / 9,
        "M is divided by y once; y is in both variables.": 2 / 3,
        "It is the gradient of log Z; asked for is that of Z.": 6 / 5,
        "It is the gradient of the loss; asked for is that of Z.": -6 / 5,
    }),
    numbers("grad_logit", -2 / 15, {
        "Its sign is wrong, or one y has not been divided out of M.": 2 / 15,
        "It is the gradient with respect to the log-prob: the softmax term is missing.": -4 / 5,
        "It is not divided by Z.": 0,
        "It is the gradient with respect to the probability.": -6 / 5,
    }),
]


# --- in practice ---


def sharpened(rng):
    return {"y": rng.dirichlet(np.ones(4)), "E": rng.dirichlet(np.ones(4)), "scale": float(rng.uniform(0.3, 3))}


def scaled(y, E, scale, *, factor=True, believes=None, surplus=0):
    w = y**scale
    return (scale if factor else 1) * ((y if believes is None else w) - E - surplus * (w.sum() - 1) * y)


SHARPENED = [
    function("right", sharpened, scaled, {
        "The scale is missing: each score is scale times a log-prob.": partial(scaled, factor=False),
        "It is what torch's backward pass leads to.": partial(scaled, believes="scores", surplus=1),
        "The belief is the softmax of the logits, y, not the exponential of the scores.":
            partial(scaled, believes="scores"),
        "Its sign is wrong.": lambda y, E, scale: -scaled(y, E, scale),
        "The log-softmax is missing: it is scale times the gradient with respect to the scores.":
            lambda y, E, scale: -scale * E,
    }),
    function("returned", sharpened, partial(scaled, believes="scores", surplus=1), {
        "The scale is missing: each score is scale times a log-prob.":
            partial(scaled, factor=False, believes="scores", surplus=1),
        "It is the right gradient; torch has the exponential of the score in the place of y.": scaled,
        "What torch returns does not add up to 0, so it changes on its way through the log-softmax.":
            partial(scaled, believes="scores"),
        "The surplus has the wrong sign: log-softmax takes it away in proportion to y.":
            partial(scaled, believes="scores", surplus=-1),
    }),
]

REDUCTIONS = [
    numbers("torch", [1 / 2, 1 / 18], {
        "It is divided by all labels of the batch; torch divides each loss by its own.": [1 / 10, 1 / 10],
        "The mean over the batch is missing: two utterances, so one half each.": [1, 1 / 9],
        "It is the mean over the batch.": [1 / 2, 1 / 2],
    }),
    numbers("factors", [1, 9], {
        "It is the other direction: from torch's mean to the mean over the batch weights grow.": [1, 1 / 9],
        "They are exchanged: the weight of the utterance with one label stays.": [9, 1],
        "They are equal only if the targets are equally long.": [1, 1],
    }),
    numbers("halved", [1 / 6, 1 / 6, 1 / 6, 1 / 2], {
        "These are the weights of the whole batch; three share one half, and one has the other.": [1 / 4] * 4,
        "They are not halved yet.": [1 / 3, 1 / 3, 1 / 3, 1],
        "The single utterance comes last.": [1 / 2, 1 / 6, 1 / 6, 1 / 6],
    }),
]


def with_prior(rng):
    return {"y": rng.dirichlet(np.ones(3), 5), "E": rng.dirichlet(np.ones(3), 5), "scale": float(rng.uniform(0.2, 1))}


def moving_prior(y, E, scale, *, sign=1, mean=True, own=True):
    rho = E.sum(0) / (y.sum(0) if mean else y.mean(0))
    return y - E + sign * scale * y * (rho - (y @ rho)[:, None] * own)


MOVING = [
    function("gradient", with_prior, moving_prior, {
        "The prior is held constant: what its movement adds is missing.": partial(moving_prior, sign=0),
        "The prior is taken off the score, so the term that it adds has the other sign.":
            partial(moving_prior, sign=-1),
        "The expected number of frames is to be divided by T q(k), not by q(k): q is a mean over T frames.":
            partial(moving_prior, mean=False),
        "The term must pass the softmax: the mean of rho over the frame is to be subtracted.":
            partial(moving_prior, own=False),
        "The scale of the prior is missing.": lambda y, E, scale: moving_prior(y, E, 1.0),
    }),
]

EXERCISES = {
    "ex-ctc-loss-by-hand": LATTICE,
    "ex-ctc-loss-forgotten": FORGOTTEN,
    "ex-ctc-loss-longest": LONGEST,
    "ex-ctc-1": BY_HAND,
    "ex-ctc-write": [replace(GRAD_LOGITS, name="gradient")],
    "ex-ctc-3": ASSIGNED,
    "ex-ctc-second": SECOND,
    "ex-route-1": ROUTE,
    "ex-route-4": [replace(GRAD_LOGITS, name="kernel")],
    "ex-practice-1": SHARPENED,
    "ex-practice-2": REDUCTIONS,
    "ex-practice-4": MOVING,
}

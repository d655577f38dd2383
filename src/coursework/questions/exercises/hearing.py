"""Exercises of the chapters in which networks hear: training, decoding, alignment, and several processes."""

from __future__ import annotations

from functools import partial

import numpy as np

from reference_impl import alignment, ctc

from .parts import function, numbers

__all__ = ["EXERCISES"]


# --- CTC hears ---


def belief_and_evidence(rng):
    return {"y": rng.dirichlet(np.ones(4), 5), "E": rng.dirichlet(np.ones(4), 5)}


BIAS = [
    function("gradient", belief_and_evidence, lambda y, E: (y - E).sum(0), {
        "Its sign is wrong: belief minus evidence.": lambda y, E: (E - y).sum(0),
        "The belief is missing: the bias is added to logits, not to log-probs.": lambda y, E: -E.sum(0),
        "The evidence is missing.": lambda y, E: y.sum(0),
        "It is the mean over the frames; each frame adds its own gradient to the bias.": lambda y, E: (y - E).mean(0),
        "It is the sum over the symbols, which is 0 in each frame; add up over the frames instead.":
            lambda y, E: (y - E).sum(1),
        "It has a row for each frame; all frames share one bias, so add them up.": lambda y, E: y - E,
    }),
]


def frames_and_belief(rng):
    return {"T": int(rng.integers(3, 200)), "y": float(rng.uniform(0.01, 0.6))}


DRIFT = [
    function("rate", frames_and_belief, lambda T, y: 1 / T - y * (1 - y), {
        "Its sign is wrong: descent moves the log-odds by evidence minus belief.": lambda T, y: y * (1 - y) - 1 / T,
        "The belief's slope in its log-odds is y (1 - y), not y.": lambda T, y: 1 / T - y,
        "The slope 1/T - 1/T^2 is for one frame that moves alone; here one frame gains what another one loses.":
            lambda T, y: 1 / T - 1 / T**2 - y * (1 - y),
        "It is the rate for y = 1/T.": lambda T, y: 1 / T**2,
        "The belief term is missing; it pulls the frames together.": lambda T, y: 1 / T,
        "The evidence term is missing; it drives the frames apart.": lambda T, y: -y * (1 - y),
        "It is the gradient of one frame; the rate is the slope of the gradient along a difference.":
            lambda T, y: y - 1 / T,
    }),
    numbers("first", 1 / 100 - 28 / 29**2, {
        "Its sign is wrong: differences shrink at first.": 28 / 29**2 - 1 / 100,
        "The belief's slope in its log-odds is y (1 - y), not y.": 1 / 100 - 1 / 29,
        "The evidence has the slope 1/T: T is the number of frames, not of symbols.": 1 / 29 - 28 / 29**2,
        "The belief term is missing; it pulls the frames together.": 1 / 100,
        "The evidence term is missing; it drives the frames apart.": -28 / 29**2,
        "It is the rate after the belief has come down to 1/T.": 1 / 100**2,
    }),
    function("later", lambda rng: {"T": int(rng.integers(3, 200))}, lambda T: 1 / T**2, {
        "Belief and evidence are equal there, but their slopes are not: 1/T against 1/T - 1/T^2.": lambda T: 0,
        "The belief term is missing; it pulls the frames together.": lambda T: 1 / T,
        "Its sign is wrong: the evidence wins, and differences grow.": lambda T: -1 / T**2,
        "It is the belief's slope; subtract it from that of the evidence, 1/T.": lambda T: 1 / T - 1 / T**2,
    }),
]

ZERO_INFINITY = [
    numbers("aligned", 12 / 0.6, {
        "It is the other way round: zeros lower a mean, so divide by the fraction.": 12 * 0.6,
        "It is the report, whose mean has a 0 for each of the others.": 12,
        "It is divided by the fraction of the others.": 12 / 0.4,
    }),
    numbers("report", 0.9 * 12 / 0.6, {
        "It is the other way round: with fewer zeros the mean rises.": 12 * 0.6 / 0.9,
        "A tenth of the utterances still counts as 0.": 12 / 0.6,
        "The report changes: three of ten utterances counted as 0, and now they have a loss.": 12,
        "It is 0.9 times the old report; multiply the mean of the aligned utterances by 0.9 instead.": 0.9 * 12,
        "The new ones have the mean of the aligned utterances: they add 0.3 times 20 nats, not 0.3 times 12.":
            12 + 0.3 * 12,
    }),
]


# --- a transducer hears ---

LETTERS = 500 * 121 * 29 * 4
WORDS = 500 * 31 * 1000 * 4
CTC_BYTES = 500 * 29 * 4

GRID = [
    numbers("full", [LETTERS, CTC_BYTES, WORDS], {
        "A transducer has a row for each prefix, U + 1 of them.": [500 * 120 * 29 * 4, CTC_BYTES, 500 * 30 * 1000 * 4],
        "They are numbers of logits; each has four bytes.": [LETTERS / 4, CTC_BYTES / 4, WORDS / 4],
        "They are for frames of 10 ms.": [2 * LETTERS, 2 * CTC_BYTES, 2 * WORDS],
        "The first two are exchanged: the transducer comes first.": [CTC_BYTES, LETTERS, WORDS],
        "With words for labels a node has 1,000 logits.": [LETTERS, CTC_BYTES, 500 * 31 * 29 * 4],
        "CTC has no rows: its frames do not depend on the labels so far.": [LETTERS, LETTERS, WORDS],
    }),
    numbers("band", [500 * 5 * 29 * 4, CTC_BYTES, 500 * 5 * 1000 * 4], {
        "They are the full grids; a band keeps 5 rows of a frame.": [LETTERS, CTC_BYTES, WORDS],
        "A band of 5 rows keeps 5 rows; it does not take 5 away.":
            [500 * 116 * 29 * 4, CTC_BYTES, 500 * 26 * 1000 * 4],
        "CTC has no rows, so a band has nothing to leave out.":
            [500 * 5 * 29 * 4, CTC_BYTES * 5, 500 * 5 * 1000 * 4],
        "A band changes both transducers: with words the grid has rows, too.": [500 * 5 * 29 * 4, CTC_BYTES, WORDS],
        "They are numbers of logits; each has four bytes.": [500 * 5 * 29, CTC_BYTES / 4, 500 * 5 * 1000],
    }),
]


def lead(rng):
    return {"g": float(rng.uniform(20, 400)), "U": int(rng.integers(2, 40)), "frame": float(rng.uniform(10, 90))}


JUMP = [
    function("predicted", lead, lambda g, U, frame: g / (U * frame), {
        "Every label pays d nats a frame, so A is U times the mean frame.": lambda g, U, frame: g / frame,
        "A label that waits pays d nats for each frame: divide by the mean frame, too.": lambda g, U, frame: g / U,
        "Half of the way is done where the two masses are equal; the tilt has to take all of g.":
            lambda g, U, frame: g / (2 * U * frame),
        "It is the inverse: d A has to make up for g.": lambda g, U, frame: U * frame / g,
    }),
]


# --- decoding ---


def some_frames(rng):
    return {"T": int(rng.integers(3, 9)), "y": float(rng.uniform(0.3, 0.95))}


def mass_of_one_label(T, y):
    return float(np.exp(ctc.Z(np.log(np.tile([y, 1 - y], (T, 1))), [1])))


def runs(T, y, *, places=1, longest=0):
    """The mass of one label by the length of its run, with a place for what can go wrong."""
    return sum((T - i + places) * (1 - y) ** i * y ** (T - i) for i in range(1, T + 1 - longest))


SILENCE = [
    numbers("bounds", [1 / 2, np.sqrt(1 / 2)], {
        "The string a has a third path, aa, so it wins a little beyond 2/3.": [1 / 2, 2 / 3],
        "The string a has three paths: the label comes in frame 0, in frame 1, or in both.":
            [1 / 2, (np.sqrt(5) - 1) / 2],
        "Silence is the best string where y^2 exceeds 1/2.": [1 / 2, 1],
        "Above 0.707 the empty string is the best one; the best path is empty from 1/2 on.": [np.sqrt(1 / 2), 1],
        "Below 1/2 the best path is not empty.": [0, np.sqrt(1 / 2)],
    }),
    function("mass", some_frames, mass_of_one_label, {
        "The label may stay for several frames; these are the paths in which it has one.":
            lambda T, y: T * (1 - y) * y ** (T - 1),
        "It is the mass of everything but silence; some of these paths say the label twice.":
            lambda T, y: 1 - y**T,
        "A run of i frames has T - i + 1 places, not T - i.": partial(runs, places=0),
        "The places are missing: a run of i frames has T - i + 1 of them.":
            lambda T, y: sum((1 - y) ** i * y ** (T - i) for i in range(1, T + 1)),
        "The run may fill all frames.": partial(runs, longest=1),
        "Blank and label are exchanged: y is the probability of the blank.": lambda T, y: mass_of_one_label(T, 1 - y),
        "It is the mass of silence.": lambda T, y: y**T,
    }),
]

BEAM_OF_ONE = [
    numbers("masses", np.array([[6, 3], [4, 2]]) / 9, {
        "After the first frame a leaves the beam, and the mass 1/3 of a is lost.": np.array([[6, 3], [4, 5]]) / 9,
        "These are the paths of a that the beam has lost; the path that grows from the empty prefix is left.":
            np.array([[6, 3], [4, 3]]) / 9,
        "These are the probabilities of a frame; multiply them by the mass of the prefix that was kept.":
            np.array([[6, 3], [6, 3]]) / 9,
        "Rows and columns are exchanged: there is a row for each frame.": np.array([[6, 4], [3, 2]]) / 9,
    }),
]


# --- alignment ---

BEGINS, FINISHES = (each[0] for each in alignment.ctc_run_posteriors(np.zeros((3, 2)), [1]))
BEST = alignment.ctc_best_path(np.zeros((3, 2)), [1])
COVERED = [1 / 2, 2 / 3, 1 / 2]
_COUNTS = "They are numbers of runs; divide by six."
_COVERS = "It is the probability that the run covers the frame, the occupancy of the label."
_EVEN = "The six runs are equally probable; the three frames are not."

MEDIANS = [
    numbers("begins", BEGINS, {
        "It is the distribution of the end.": FINISHES,
        _COUNTS: [3, 2, 1],
        _EVEN: [1 / 3] * 3,
        _COVERS: COVERED,
    }),
    numbers("ends", FINISHES, {
        "It is the distribution of the beginning.": BEGINS,
        _COUNTS: [1, 2, 3],
        _EVEN: [1 / 3] * 3,
        _COVERS: COVERED,
    }),
    numbers("medians", [0, 1], {
        "Half of the mass of the beginning is reached in frame 0 already.": [1, 1],
        "Half of the mass of the end is reached in frame 1 already: 1/6 and 1/3 add up to 1/2.": [0, 2],
        "These are the means.": [2 / 3, 4 / 3],
        "The median is the frame in which half of the mass is reached, not a time between two frames.":
            [1 / 2, 3 / 2],
        "Frames are counted from 0.": [1, 2],
    }),
    numbers("best", [BEST.first[0], BEST.last[0]], {
        "These are the medians; at a tie the best path stays in a state as long as it can.": [0, 1],
        "At a tie the best path stays in a state as long as it can, so this label has more than one frame.": [0, 0],
        "Seen from the end, the best path is in the label, and it stays there as long as it can.": [2, 2],
        "Frames are counted from 0.": [1, 3],
    }),
]

LEVELS = [
    function("rows", lambda rng: {"K": int(rng.integers(2, 60))}, lambda K: 3 * K, {
        "The rows of the last level are in memory, too.": lambda K: 2 * K,
        "A block has K^2 rows; every K-th of them is in memory, and the K rows of one part.": lambda K: K + K**2,
        "It is all rows.": lambda K: K**3,
        "It is for checkpoints of one level.": lambda K: 2 * K**1.5,
        "These are the checkpoints of the first level; there are three levels of K rows.": lambda K: K,
    }),
    numbers("times", 3, {
        "That is for checkpoints of one level.": 2,
        "Going forward each row is computed once, and what is not kept is computed again on the way back.": 1,
        "The first sweep is one of the three.": 4,
    }),
    numbers("long", 3 * np.cbrt(180_000), {
        "It is for checkpoints of one level.": 2 * np.sqrt(180_000),
        "It is K; there are three times as many rows.": np.cbrt(180_000),
        "The rows of the last level are in memory, too.": 2 * np.cbrt(180_000),
        "With three levels K is the cube root of T.": 3 * np.sqrt(180_000),
    }, tolerance=0.01),
]


# --- does the gradient matter? ---

SHRINKING = [
    numbers("share", 1 / 19, {
        "It is how many times shorter the step is; what is left is the inverse.": 19,
        "The root mean square itself is in the denominator, too: 1 + 18.": 1 / 18,
        "It is the ratio of the two summands of the denominator.": 18,
        "Adam's step does not shrink by c: the factor divides epsilon alone.": 1 / 180_000,
        "The factor is not gone: it divides epsilon, which is now 18 times the root mean square.": 1,
        "It is how much the step loses; what is left is the rest.": 18 / 19,
    }),
    function("half", lambda rng: {"q": float(10 ** rng.uniform(-6, -4)), "eps": float(10 ** rng.uniform(-9, -7))},
             lambda q, eps: eps / q, {
        "It is the inverse: c q = epsilon.": lambda q, eps: q / eps,
        "It is a product: c q = epsilon, so divide by q.": lambda q, eps: q * eps,
        "The step is half as long where epsilon / c equals q, not half of q.": lambda q, eps: 2 * eps / q,
        "The step is half as long where epsilon / c equals q, not twice q.": lambda q, eps: eps / (2 * q),
        "It is half of the step for c = 1; half of the step without epsilon is meant.":
            lambda q, eps: eps / (q + 2 * eps),
        "Half of the gradient is not half of the step: Adam divides the factor out.": lambda q, eps: 1 / 2,
    }),
]

_BELIEF, _OCCUPANCY = np.array([0.9, 0.05, 0.05]), np.array([0.5, 0.5, 0.0])
_RIGHT, _WRONG = _BELIEF - _OCCUPANCY, _BELIEF * (1 - _OCCUPANCY)


def frame(rng):
    return {"y": rng.dirichlet(np.ones(4)), "E": rng.dirichlet(np.ones(4))}


TWICE = [
    function("bug", frame, lambda y, E: y * (1 - E), {
        "It is the right gradient; the bug has y E in the place of E.": lambda y, E: y - E,
        "Its sign is wrong.": lambda y, E: y * (E - 1),
        "The softmax term is missing.": lambda y, E: -y * E,
        "The evidence has one factor y too many, not two.": lambda y, E: y - y**2 * E,
        "The bug changes the evidence alone; the belief is still y.": lambda y, E: y * (y - E),
    }),
    function("sum", frame, lambda y, E: 1 - y @ E, {
        "The right gradient adds up to 0; that of the bug does not.": lambda y, E: 0.0,
        "A row of y adds up to 1.": lambda y, E: -(y @ E),
        "Its sign is wrong.": lambda y, E: y @ E - 1,
        "It is the sum of y E; subtract it from 1.": lambda y, E: y @ E,
    }),
    numbers("right", _RIGHT, {
        "It is what descent adds to the logits; the gradient has the other sign.": -_RIGHT,
        "It is what the bug returns.": _WRONG,
        "It is the gradient with respect to the log-probs.": -_OCCUPANCY,
    }),
    numbers("wrong", _WRONG, {
        "It is what descent adds to the logits; the gradient has the other sign.": -_WRONG,
        "It is the right gradient.": _RIGHT,
        "The belief is missing: it is the evidence of the bug alone.": -_BELIEF * _OCCUPANCY,
    }),
]


def spread(rng):
    return {"sigma": float(rng.uniform(0.5, 6)), "n": int(rng.integers(2, 40))}


def whole_seeds(rng):
    """Numbers for which the answer is whole, so that rounding up changes nothing."""
    return {"sigma": float(rng.integers(1, 8)), "delta": float(rng.choice([0.5, 1, 2]))}


SEEDS = [
    function("deviation", spread, lambda sigma, n: sigma * np.sqrt(2 / n), {
        "It is the deviation of one mean; the difference has two means.": lambda sigma, n: sigma / np.sqrt(n),
        "It is the variance.": lambda sigma, n: 2 * sigma**2 / n,
        "Variances add, and deviations do not.": lambda sigma, n: 2 * sigma / np.sqrt(n),
        "It is the deviation of the difference of two runs; a mean over n of them varies less.":
            lambda sigma, n: sigma * np.sqrt(2),
        "The variance of a mean of n runs is sigma^2 / n; the deviation is its root.":
            lambda sigma, n: np.sqrt(2) * sigma / n,
        "It is the deviation of the mean of all 2 n runs.": lambda sigma, n: sigma / np.sqrt(2 * n),
    }),
    function("seeds", whole_seeds, lambda sigma, delta: 8 * sigma**2 / delta**2, {
        "It is for one standard deviation; a factor of 2 in the deviation is a factor of 4 in n.":
            lambda sigma, delta: 2 * sigma**2 / delta**2,
        "It is for one mean and a known number; here both means vary.":
            lambda sigma, delta: 4 * sigma**2 / delta**2,
        "Variances add, and deviations do not.": lambda sigma, delta: 16 * sigma**2 / delta**2,
        "The deviation falls with the root of n; square the ratio.": lambda sigma, delta: np.sqrt(8) * sigma / delta,
        "It is the inverse.": lambda sigma, delta: delta**2 / (8 * sigma**2),
    }),
]


# --- scaling out ---


def two_losses(rng):
    return {"short": float(rng.uniform(0.5, 6)), "long": float(rng.uniform(0.5, 6))}


def bias(sums, counts):
    """Mean of means minus mean."""
    sums, counts = np.asarray(sums, dtype=float), np.asarray(counts, dtype=float)
    return float((sums / counts).mean() - sums.sum() / counts.sum())


def of_labels(short, long):
    """The bias of the mean per label: 10 utterances of 5 labels in one process, 10 of 40 in the other."""
    return bias([50 * short, 400 * long], [50, 400])


WHICH_WAY = [
    numbers("signs", [[0, 1], [0, 0]], {
        "The bias is minus the covariance, and the covariance is negative late: the mean of means is too large.":
            [[0, -1], [0, 0]],
        "Early, the loss per label is the same in both processes, and equal means have no bias.": [[1, 1], [0, 0]],
        "Early, the losses are unequal, but the losses per label are equal.": [[-1, 1], [0, 0]],
        "Per utterance both processes count 10, and equal counts have no bias.": [[0, 1], [1, 1]],
        "Per utterance early, the means are unequal, but the counts are equal.": [[0, 1], [1, 0]],
        "Per label late, counts and means are both unequal: there is a bias.": [[0, 0], [0, 0]],
        "Rows and columns are exchanged: the first row is per label, early and late.": [[0, 0], [1, 0]],
    }),
    function("bias", two_losses, of_labels, {
        "Its sign is wrong: mean of means minus mean.": lambda short, long: -of_labels(short, long),
        "The counts are labels, 50 and 400, not utterances; with equal counts the bias would be 0.":
            lambda short, long: 0.0,
        "It is the mean of means; subtract the mean.": lambda short, long: (short + long) / 2,
        "It is the mean over everything; subtract it from the mean of means.":
            lambda short, long: (short + 8 * long) / 9,
    }),
]


def count(rng):
    return {"n": int(rng.integers(2, 200))}


LARGEST = [
    function("ratio", count, lambda n: (n + 1) / 2, {
        "The mean of means takes half of each mean: divide by the two processes.": lambda n: n + 1,
        "The mean over everything counts 1 + n.": lambda n: n / 2,
        "It is the inverse: the mean of means is the larger one.": lambda n: 2 / (n + 1),
        "It is the ratio if the process with count n has all the loss; let the other one have it.":
            lambda n: (n + 1) / (2 * n),
        "It is the ratio of the two counts.": lambda n: n,
    }),
]

ADDED = [
    function("factor", lambda rng: {"P": int(rng.integers(2, 9)), "N": int(rng.integers(10, 400))},
             lambda P, N: 1 / N, {
        "It is the factor for averages; here no average divides by P.": lambda P, N: P / N,
        "The sum of all losses is divided by N, all that is counted.": lambda P, N: 1 / P,
        "Nothing divides by P here, neither the exchange nor the mean.": lambda P, N: 1 / (P * N),
        "It is the inverse.": lambda P, N: N,
    }),
    numbers("doubled", 2, {
        "Twice as many means are added, so the gradient grows.": 1,
        "A mean does not shrink when processes are added, and twice as many means are added up.": 1 / 2,
        "The gradient grows in proportion to the number of processes.": 4,
    }),
]

EXERCISES = {
    "ex-hears-1": BIAS,
    "ex-hears-2": DRIFT,
    "ex-hears-3": ZERO_INFINITY,
    "ex-late-1": GRID,
    "ex-late-3": JUMP,
    "ex-dec-silence": SILENCE,
    "ex-dec-one": BEAM_OF_ONE,
    "ex-align-1": MEDIANS,
    "ex-align-2": LEVELS,
    "ex-matter-1": SHRINKING,
    "ex-matter-2": TWICE,
    "ex-matter-3": SEEDS,
    "ex-scale-1": WHICH_WAY,
    "ex-scale-2": LARGEST,
    "ex-scale-3": ADDED,
}

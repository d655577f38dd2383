"""Exercises of the first chapters: differences, softmax, and any lattice."""

from __future__ import annotations

from functools import partial

import numpy as np

from reference_impl.lattice import Arc, Lattice, arc_posteriors, backward, forward
from reference_impl.semiring import MAX, REAL
from reference_impl.topology import ctc_lattice, rnnt_lattice

from .parts import function, numbers

__all__ = ["EXERCISES"]


# --- checking a gradient ---

STEPS = np.array([0.1, 0.01])


def cube_differences(before, after, width):
    """Differences of x^3 at 1."""
    return ((1 + after * STEPS) ** 3 - (1 + before * STEPS) ** 3) / (width * STEPS)


FORWARD, CENTRAL = cube_differences(0, 1, 1), cube_differences(-1, 1, 2)

BY_HAND = [
    numbers("forward", FORWARD, {
        "These are the errors; asked for are the differences.": FORWARD - 3,
        "It is the backward difference: the other point lies at 1 - h.": cube_differences(-1, 0, 1),
        "It is the central difference.": CENTRAL,
        "It is not divided by the step.": FORWARD * STEPS,
        "It is the derivative; a difference has an error.": [3, 3],
    }, tolerance=1e-6),
    numbers("central", CENTRAL, {
        "These are the errors; asked for are the differences.": CENTRAL - 3,
        "It is divided by h, but the two points are 2h apart.": 2 * CENTRAL,
        "It is the forward difference.": FORWARD,
        "It is the derivative; a difference has an error.": [3, 3],
    }, tolerance=1e-6),
]


def noise(rng):
    return {"F": float(10 ** rng.uniform(-8, -3)), "M2": float(rng.uniform(0.05, 4))}


FLOAT32 = [
    function("step", noise, lambda F, M2: 2 * np.sqrt(F / M2), {
        "A factor of 2 is missing: the terms have h/2 and 2/h.": lambda F, M2: np.sqrt(F / M2),
        "One value of two is taken for wrong (F/h), or the truncation error for h M2.":
            lambda F, M2: np.sqrt(2 * F / M2),
        "It is the cube root of the central difference.": lambda F, M2: (3 * F / M2) ** (1 / 3),
        "It is the error, not the step.": lambda F, M2: 2 * np.sqrt(F * M2),
    }),
    function("error", noise, lambda F, M2: 2 * np.sqrt(F * M2), {
        "It is one of the two terms; at the best step they are equal, and add up.": lambda F, M2: np.sqrt(F * M2),
        "It is the step, not the error.": lambda F, M2: 2 * np.sqrt(F / M2),
    }),
    numbers("factor", 10, {
        "F grows by 100; step and error grow by its square root.": 100,
        "They do grow: rounding is relative to the loss, which is 100 times as large.": 1,
        "They grow: with 100 utterances F is larger, not smaller.": 0.1,
    }),
]


# --- softmax ---


def rows(rng):
    return {"y": rng.dirichlet(np.ones(4), 3), "g": rng.normal(size=(3, 4)), "tau": float(rng.uniform(0.2, 3))}


def cooled(y, g, tau, *, power=-1, share=1):
    return tau**power * (g - share * y * g.sum(-1, keepdims=True))


TEMPERATURE = [
    function("backward", rows, cooled, {
        "It is not divided by the temperature: the logits enter as z / tau.": partial(cooled, power=0),
        "It is multiplied by the temperature; the derivative of z / tau is 1 / tau.": partial(cooled, power=1),
        "The second term is missing: what the row's sum sends back to every logit.": partial(cooled, share=0),
        "The second term has the wrong sign.": partial(cooled, share=-1),
        "The sum is shared out evenly; it is shared out in proportion to y.":
            lambda y, g, tau: (g - g.mean(-1, keepdims=True)) / tau,
        "The sum runs over all rows; each row has a sum of its own.": lambda y, g, tau: (g - y * g.sum()) / tau,
        "It is the backward pass of the softmax, not of its logarithm.":
            lambda y, g, tau: y * (g - (y * g).sum(-1, keepdims=True)) / tau,
    }),
]


def smoothed(rng):
    return {"y": rng.dirichlet(np.ones(4)), "q": rng.uniform(0, 0.4, 4)}


CROSS_ENTROPY = [
    function("log_probs", smoothed, lambda y, q: -q, {
        "Its sign is wrong: the loss is minus a sum.": lambda y, q: q,
        "It is the gradient with respect to the probabilities.": lambda y, q: -q / y,
        "It is the gradient with respect to the logits.": lambda y, q: y * q.sum() - q,
    }),
    function("logits", smoothed, lambda y, q: y * q.sum() - q, {
        "It is y - q, which is right only if the q add up to 1.": lambda y, q: y - q,
        "Its sign is wrong.": lambda y, q: q - y * q.sum(),
        "It is the gradient with respect to the log-probs.": lambda y, q: -q,
    }),
    numbers("row_sum", 0.1, {
        "It is the other way round: the entries of y add up to 1, those of q to 0.9.": -0.1,
        "The gradient adds up to 0; y - q is not the gradient.": 0,
        "It is the sum of q.": 0.9,
    }),
]


# --- lattices ---

BY_HAND_ARCS = ((0, 1), (0, 2), (1, 3), (2, 3), (2, 3))
BRIDGE = ((0, 1), (0, 2), (1, 2), (1, 3), (2, 3))


def graph(ends):
    return Lattice((0, 1, 2, 3), tuple(Arc(m, n, (a,)) for a, (m, n) in enumerate(ends)), (len(ends),))


def by_hand(weights=(1, 2, 4, 1, 2), semiring=REAL):
    """Alpha, beta, and the products alpha(m) w beta(n) of the arcs."""
    lattice, weights = graph(BY_HAND_ARCS), np.array(weights, dtype=float)
    a, b = (np.array(f(lattice, weights, semiring), dtype=float) for f in (forward, backward))
    return a, b, np.array([a[m] * w * b[n] for (m, n), w in zip(BY_HAND_ARCS, weights, strict=True)])


ALPHA, BETA, PASSING = by_hand()
_ONE_ARC = "There are two arcs from 2 to 3, and both are ways: add them."

LATTICE_BY_HAND = [
    numbers("alpha", ALPHA, {
        "It is beta.": BETA,
        _ONE_ARC: [1, 1, 2, 8],
        "Two arcs lead from 2 to 3; only the first of them is counted.": [1, 1, 2, 6],
        "It is the best path to each node, not the sum over all.": lambda: np.exp(
            forward(graph(BY_HAND_ARCS), np.log([1.0, 2, 4, 1, 2]), MAX)),
    }),
    numbers("beta", BETA, {
        "It is alpha.": ALPHA,
        _ONE_ARC: [8, 4, 2, 1],
        "Two arcs lead from 2 to 3; only the first of them is counted.": [6, 4, 1, 1],
    }),
    numbers("gamma", ALPHA * BETA / 10, {
        "It is not divided by Z.": ALPHA * BETA,
        "It is alpha; gamma is alpha times beta over Z.": ALPHA,
    }),
    numbers("posteriors", PASSING / 10, {
        "They are not divided by Z.": PASSING,
        "The arc's own weight is missing.": lambda: PASSING / 10 / [1, 2, 4, 1, 2],
        "A suffix of the node that the arc leads to follows it: beta(n), not beta(m).":
            lambda: np.array([ALPHA[m] * w * BETA[m] / 10 for (m, _), w in
                              zip(BY_HAND_ARCS, (1, 2, 4, 1, 2), strict=True)]),
    }),
    numbers("weight", 3, {
        "The paths through the arc weigh 2w, since alpha(2) is 2.": 6,
        "Z is not 10 any more: it changes with the weight.": 2.5,
        "That is its weight now, and four tenths of the mass.": 2,
    }),
]


def sizes(rng):
    U = int(rng.integers(1, 4))
    return {"T": U + int(rng.integers(1, 4)), "U": U}


def posteriors_of_all(lattice):
    """Their sum, with the same weight on each arc."""
    return round(float(arc_posteriors(lattice, np.zeros(len(lattice.arcs))).sum()), 9)


CUTS = [
    function("ctc", sizes, lambda T, U: posteriors_of_all(ctc_lattice(range(1, U + 1), T, U + 1)), {
        "There is one arc more: the one into the end.": lambda T, U: T,
        "That is RNN-T's: in CTC a label takes a frame of its own.": lambda T, U: T + U,
        "That is the sum across one cut.": lambda T, U: 1,
        "That is the number of states, and not of steps.": lambda T, U: 2 * U + 1,
    }),
    function("rnnt", sizes, lambda T, U: posteriors_of_all(rnnt_lattice(range(1, U + 1), T, U + 1)), {
        "The last blank is an arc, too.": lambda T, U: T + U - 1,
        "The last blank is counted twice: T blanks and U labels.": lambda T, U: T + U + 1,
        "Labels are arcs, too.": lambda T, U: T,
        "That is the sum across one cut.": lambda T, U: 1,
    }),
]

TIED = np.array([1.0, 2, 1, 3, 2])  # 01, 02, 12, 13, 23
THREE_WAYS = np.array([[1, 0, 0, 1, 0], [1, 0, 1, 0, 1], [0, 1, 0, 0, 1]])
SPLIT = np.array([1 / 2, 1 / 4, 1 / 4])  # at E, and at B once more
_ONE_BEST = "It is one of the three best paths alone, as back-pointers give it."

BEST_PATHS = [
    numbers("limit", lambda: arc_posteriors(graph(BRIDGE), TIED), {
        "It is what automatic differentiation finds; the limit gives each path a third.": SPLIT @ THREE_WAYS,
        _ONE_BEST: THREE_WAYS[0],
        f"{_ONE_BEST[:-1]}, the one through 1 and 2.": THREE_WAYS[1],
        f"{_ONE_BEST[:-1]}, the one through 2.": THREE_WAYS[2],
        "It is the sum over the three paths; each has probability 1/3.": THREE_WAYS.sum(axis=0),
    }),
    numbers("automatic", SPLIT @ THREE_WAYS, {
        "It is the limit of the posteriors; at a tie each side gets a half, so the paths do not get a third each.":
            THREE_WAYS.mean(axis=0),
        _ONE_BEST: THREE_WAYS[0],
    }),
]

EXERCISES = {
    "ex-check-by-hand": BY_HAND,
    "ex-check-float32": FLOAT32,
    "ex-softmax-2": TEMPERATURE,
    "ex-softmax-3": CROSS_ENTROPY,
    "ex-lattice-1": LATTICE_BY_HAND,
    "ex-lattice-2": CUTS,
    "ex-lattice-4": BEST_PATHS,
}

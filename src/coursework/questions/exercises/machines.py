"""Exercises of the chapters on how the losses run: rounding, fronts, kernels, bytes."""

from __future__ import annotations

from functools import partial

import numpy as np

from .parts import function, numbers

__all__ = ["EXERCISES"]


# --- rounding ---

DIGITS = [
    function("spacing", lambda rng: {"loss": float(10 ** rng.uniform(0, 5))},
             lambda loss: float(np.spacing(np.float32(loss))), {
        "It is half of it: what a rounded number is off by at most.":
            lambda loss: float(np.spacing(np.float32(loss))) / 2,
        "It is twice that: float32 has 23 bits behind the leading one.":
            lambda loss: float(np.spacing(np.float32(loss))) * 2,
        "Between two powers of two the distance stays the same; it is not proportional to the number.":
            lambda loss: loss * 2.0**-23,
        "It is the distance for float64.": lambda loss: float(np.spacing(loss)),
    }, tolerance=1e-12),
    numbers("relative", 2.0**-9, {
        "A rounded logarithm is off by half the distance of its neighbours, at most.": 2.0**-8,
        "An absolute error of a logarithm is a relative error of the number, whatever the logarithm's own size.":
            2.0**-24,
    }, tolerance=6e-5),
]


def together(rng):
    """Probabilities of using this arc, the other one, and both."""
    both, this, other, _ = rng.dirichlet(np.ones(4))
    return {"this": float(both + this), "other": float(both + other), "both": float(both)}


def with_delta(rng):
    return {**together(rng), "delta": float(rng.uniform(-0.3, 1))}


ONE_ARC = [
    function("changed", with_delta, lambda this, other, both, delta: (this + delta * both) / (1 + delta * other), {
        "The denominator changes, too: Z has the paths that use e'.":
            lambda this, other, both, delta: this + delta * both,
        "The numerator changes, too: by the paths that use both.":
            lambda this, other, both, delta: this / (1 + delta * other),
        "Only those paths through e that use e' as well have the factor.":
            lambda this, other, both, delta: this * (1 + delta) / (1 + delta * other),
        "It is the first order of it.": lambda this, other, both, delta: this + delta * (both - this * other),
    }),
    function("slope", together, lambda this, other, both: both - this * other, {
        "Its sign is wrong: arcs that are used together help each other.":
            lambda this, other, both: this * other - both,
        "The product of the two is missing: Z grows, too.": lambda this, other, both: both,
        "It is the case of two arcs that no path uses both.": lambda this, other, both: -this * other,
        "It is the derivative of log Pr(e).": lambda this, other, both: (both - this * other) / this,
    }),
]


def not_normalised(rng):
    """A product of two mantissas, exact in float32, and its exponent."""
    return {"m": float(np.float32(rng.uniform(1e-3, 4))), "e": int(rng.integers(-20_000, 0))}


def normalised(m, e):
    half, more = np.frexp(m)
    return [2 * half, e + int(more) - 1]


def through_one_logarithm(m, e):
    log2 = np.log2(np.float32(m)) + np.float32(e)
    return [np.exp2(log2 - np.floor(log2), dtype=np.float32), int(np.floor(log2))]


OWN_EXPONENT = [
    function("normalise", not_normalised, normalised, {
        "Mantissa and exponent still meet in one float32: a large logarithm has no room for the mantissa's digits.":
            through_one_logarithm,
        "The mantissa is to lie between 1 and 2; frexp puts it between 1/2 and 1.":
            lambda m, e: [np.frexp(m)[0], e + int(np.frexp(m)[1])],
        "The mantissa's own exponent is not added to the other.": lambda m, e: [2 * np.frexp(m)[0], e],
    }),
]


# --- fronts ---


def grid(rng):
    return {"T": int(rng.integers(2, 300)), "U": int(rng.integers(1, 80))}


def power_of_two(n):
    return 1 << (n - 1).bit_length()


STEPS = [
    function("nodes", grid, lambda T, U: T * (U + 1), {
        "A target of U labels has U + 1 prefixes.": lambda T, U: T * U,
        "The end is no node of the grid.": lambda T, U: T * (U + 1) + 1,
        "That is CTC's: 2U + 1 states.": lambda T, U: T * (2 * U + 1),
    }),
    function("steps", grid, lambda T, U: T + U - 1, {
        "That is the number of fronts; the first one needs no step.": lambda T, U: T + U,
        "That is CTC's, which takes a step for each frame.": lambda T, U: T,
        "That is the number of nodes, one after the other.": lambda T, U: T * (U + 1),
    }),
    function("lanes", grid, lambda T, U: [U + 1, power_of_two(U + 1)], {
        "Row 0 has a lane, too.": lambda T, U: [U, power_of_two(U)],
        "A front may be shorter than a lane for each row, but lanes do not move: T does not matter here.":
            lambda T, U: [min(T, U + 1), power_of_two(min(T, U + 1))],
    }, count=12),
    function("busy", grid, lambda T, U: T / (T + U), {
        "That is the time in which a lane has none.": lambda T, U: U / (T + U),
        "A lane has work in T of T + U fronts.": lambda T, U: T / (T + U - 1),
        "That is the share of the lanes that have work in the widest front.":
            lambda T, U: min(T, U + 1) / (U + 1),
    }, count=8),
]

MIDDLE = [
    function("steps", grid, lambda T, U: -(-(T + U - 1) // 2), {
        "The way there has T + U - 1 steps; with an odd number one of the two does one more.":
            lambda T, U: (T + U - 1) // 2,
        "Run at the same time they meet in the middle.": lambda T, U: T + U - 1,
        "A front is an anti-diagonal, not a frame.": lambda T, U: -(-T // 2),
    }, count=12),
]


# --- kernels ---


def pieces(rng):
    return {"peaks": 3 * rng.normal(size=3), "masses": rng.uniform(1, 4, 3)}


def joined(peaks, masses, *, shift=1, top=np.max):
    peak = top(peaks)
    return [peak, np.sum(masses * np.exp(shift * (peaks - peak)))]


PIECES = [
    function("joined", pieces, joined, {
        "The masses are of different peaks: move them to the highest one first.": partial(joined, shift=0),
        "They are moved the wrong way: a mass shrinks when its peak rises.": partial(joined, shift=-1),
        "The peak of the row is the highest one.": partial(joined, top=np.min),
        "It is the log of the sum; asked for are peak and mass.":
            lambda peaks, masses: [np.max(peaks), np.log(joined(peaks, masses)[1])],
    }),
    numbers("row", joined(np.array([2.0, 5.0]), np.array([1.5, 1.25])), {
        "The mass of the first piece belongs to the peak 2: it has to be moved to 5.": [5, 2.75],
        "A mass shrinks when its peak rises.": [5, 1.25 + 1.5 * np.exp(3)],
        "It does shrink, but it is added to: 1.5 exp(-3) + 1.25.": [5, 1.25],
    }),
]


# --- bytes ---

ROOF = [
    numbers("bend", 15, {
        "It is bytes an operation; the roof is drawn over operations a byte.": 1 / 15,
        "Both are given in units of 10^12.": 15e12,
    }),
    numbers("limits", [180, 90], {
        "A pass over a logit is 4 bytes in float32, and there are three of them.": [60, 30],
        "It is the other way round: float32 moves more bytes, so it may compute more.": [90, 180],
        "A bfloat16 number has two bytes.": [180, 180],
        "It is in operations for a byte, not for a logit.": [15, 15],
    }),
    numbers("with_exp", 24, {
        "Two of the ten operations are exponentials, and both become eight.": 17,
        "The two are among the ten already.": 26,
        "Not all ten are exponentials.": 80,
    }),
]


def floats(U):
    """Bytes of a frame's lattice in float32 (eq-floor-ctc-lattice)."""
    return 72 * U + 84


WEIGHTS = [
    function("symbols", lambda rng: {"U": int(rng.integers(1, 200))}, lambda U: [floats(U) / 12, floats(U) / 6], {
        "It is one pass; a step makes three over the logits.": lambda U: [floats(U) / 4, floats(U) / 2],
        "A bfloat16 logit has two bytes, but the lattice stays float32.": lambda U: [floats(U) / 12, floats(U) / 12],
        "They are exchanged: first float32.": lambda U: [floats(U) / 6, floats(U) / 12],
    }),
]

EXERCISES = {
    "ex-numerics-1": DIGITS,
    "ex-numerics-2": ONE_ARC,
    "ex-numerics-3": OWN_EXPONENT,
    "ex-wavefront-1": STEPS,
    "ex-wavefront-4": MIDDLE,
    "ex-triton-1": PIECES,
    "ex-floor-1": ROOF,
    "ex-floor-2": WEIGHTS,
}

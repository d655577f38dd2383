"""Exam questions about floating-point numbers in the recursions. Keys by NumPy's own arithmetic."""

from __future__ import annotations

import numpy as np

from .item import Item, Kind

__all__ = ["KINDS"]

_TYPES = {"float16": (np.float16, 11), "float32": (np.float32, 24), "float64": (np.float64, 53)}


def _power(value):
    """A power of two as a formula."""
    exponent = int(np.log2(float(value)))
    return f"$2^{{{exponent}}}$"


def spacing(rng):
    name = ("float32", "float16", "float32", "float64")[rng.integers(4)]
    kind, bits = _TYPES[name]
    size = int(rng.integers(150, 4000)) if name == "float16" else int(rng.integers(300, 90_000))
    right = np.spacing(kind(size))
    other = np.float64 if name == "float32" else np.float32
    return Item(
        f"A $\\log \\alpha$ is near $-{size}$, and stored as {name}. How far apart are the neighbouring numbers there?",
        _power(right), {
            "As near 1: the spacing goes with the size.": _power(2.0 ** (1 - bits)),
            "Of another type.": _power(np.spacing(other(size))),
            "Twice as far.": _power(2 * float(right)),
            "Half as far, the largest rounding error.": _power(float(right) / 2),
        }, f"{bits} binary digits; the first of them stands for {2 ** int(np.log2(size))}.",
        {"type": name, "size": size})


def underflow(rng):
    """Frames until a product of equal probabilities is 0."""
    name, m = ("float32", "float64")[rng.integers(2)], int(rng.integers(1, 7))
    kind = _TYPES[name][0]
    value, frames = kind(1), 0
    while value > 0:
        value, frames = value * kind(2.0**-m), frames + 1
    smallest, normal = (149, 126) if name == "float32" else (1074, 1022)
    return Item(
        f"In every frame the only path has the probability $2^{{-{m}}}$. A recursion in {name} multiplies "
        "probabilities, and not their logarithms. After how many frames is $\\alpha$ exactly 0?", frames, {
            "The smallest normal number: below it there are subnormal ones.": -(-(normal + 1) // m),
            "As many frames as the exponent says, whatever the probability.": smallest + 1,
            "Of the other type.": -(-(1075 if name == "float32" else 150) // m),
            "One frame too few: there it is the smallest number, not 0.": frames - 1,
            "One frame too many.": frames + 1,
        }, f"The smallest positive number is $2^{{-{smallest}}}$; half of it is rounded to 0.", {"type": name, "m": m})


def absorbed(rng):
    """The smallest whole distance at which log-sum-exp in float32 gives the larger term back."""
    size = int(2 ** rng.integers(0, 13) * rng.integers(2, 4))
    large = np.float32(-size)
    right = next(d for d in range(1, 60) if np.logaddexp(large, np.float32(large - d)) == large)
    near_1 = next(d for d in range(1, 60) if np.float32(1) + np.exp(np.float32(-d)) == np.float32(1))
    wide = next(d for d in range(1, 60) if np.logaddexp(-float(size), -float(size) - d) == -float(size))
    return Item(
        f"In float32 $\\log(e^x + e^{{x - d}})$ is computed at $x = -{size}$, for $d = 1, 2, 3, \\dots$ nats. "
        "What is the smallest $d$ for which the result is $x$ itself, so that the smaller term is lost?", right, {
            "As near 1, whatever the size of x.": near_1,
            "In float64.": wide,
            "One too few.": right - 1,
            "One too many.": right + 1,
            "Two too many.": right + 2,
        }, "The term adds $\\log(1 + e^{-d})$, which is lost below half the spacing of the numbers near x.",
        {"size": size})


KINDS = [
    Kind("spacing", "Numerics", 2, 3, spacing),
    Kind("underflow", "Numerics", 3, 4, underflow),
    Kind("absorbed", "Numerics", 3, 6, absorbed),
]

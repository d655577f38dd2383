"""What the exercises' questions are made of: parts that ask for numbers, and parts that ask for a function."""

from __future__ import annotations

from ..question import Case, Question

__all__ = ["ROUNDED", "function", "numbers"]

#: Numbers that were computed by hand may be rounded to three decimals.
ROUNDED = 6e-4


def _given(value):
    return value if callable(value) else lambda: value


def numbers(name, right, mistakes, *, tolerance=ROUNDED) -> Question:
    """A part of an exercise that asks for a number or an array; each value may also be a function that computes it."""
    return Question(name, {"number": 1.0}, lambda rng: [Case("number")], _given(right),
                    {says: _given(value) for says, value in mistakes.items()}, tolerance)


def function(name, draw, right, mistakes, *, count=4, tolerance=1e-9) -> Question:
    """A part that asks for a function; ``draw`` makes a dict of its arguments from a generator, ``count`` times."""
    return Question(name, {"function": 1.0}, lambda rng: [Case("function", draw(rng)) for _ in range(count)], right,
                    mistakes, tolerance)

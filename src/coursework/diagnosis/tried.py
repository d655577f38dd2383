"""One answer beside what is right: whether they agree, and a sentence if they don't. It knows no names of mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..encoding import decoded
from ..questions.question import Case
from ..sentences import one_line

__all__ = ["STANDS_IN", "UNNAMED", "Tried", "constant", "same"]

_NUMBERS = "a number or an array of numbers"
#: How the sentence ends that has no name for what is wrong.
UNNAMED = "is wrong, in a way that has no name here"
#: What stands in for an infinity is at least so large.
STANDS_IN = 1e3
_SEVERAL = 3  # answers, of which one can say that they do not change


@dataclass(frozen=True, eq=False)
class Tried:
    """A case, what came back (of :func:`.asking.ask`), and what is right."""

    case: Case
    answer: dict
    expected: np.ndarray
    tolerance: float

    @cached_property
    def complaint(self) -> str:
        """What is wrong, as a sentence; empty if nothing is."""
        return self.against(self.expected)

    @property
    def wrong(self) -> bool:
        return bool(self.complaint)

    @cached_property
    def value(self) -> np.ndarray | None:
        """The answer, if it is an array of the right shape, or a number where one is asked for."""
        try:
            value = None if "error" in self.answer else decoded(self.answer.get("value"))
        except ValueError:
            return None
        return value if isinstance(value, np.ndarray) and value.shape == np.shape(self.expected) else None

    @cached_property
    def stands_in(self) -> bool:
        """Whether all that is wrong in an array is a large negative number in the place of -inf."""
        if self.value is None or self.value.ndim == 0 or not self.wrong:
            return False
        there = np.isneginf(self.expected) & (self.value < -STANDS_IN)
        return same(np.where(there, -np.inf, self.value), self.expected, self.tolerance)

    def against(self, expected) -> str:
        """What is wrong if this is expected."""
        if "error" in self.answer:
            return one_line(str(self.answer["error"])[:500]) or "an error that says nothing"
        try:
            value, expected = decoded(self.answer.get("value")), np.asarray(expected)
        except ValueError:
            return "an answer that cannot be read"
        if isinstance(value, str) or expected.dtype.kind not in "biuf":
            return f"{str(value)[:40]!r}; expected {'a text' if expected.dtype.kind == 'U' else _NUMBERS}"
        if value.shape != expected.shape:
            return f"shape {value.shape}; expected {expected.shape}"
        if np.isnan(value).any() and not np.isnan(expected).any():
            return f"NaN{_at(np.isnan(value))}; a log of 0 is -inf, and -inf - (-inf) is NaN"
        with np.errstate(invalid="ignore"):
            apart = ~np.isclose(value, expected, rtol=self.tolerance, atol=self.tolerance, equal_nan=True)
        if apart.any():
            place = np.argwhere(apart)[0]
            return f"{value[tuple(place)]:.6g}{_at(apart)} {UNNAMED}"
        return ""


def constant(tried) -> float | None:
    """The number that every answer is, and each entry of an array, whatever was asked; None if there is none."""
    values = [each.value for each in tried]
    if len(values) < _SEVERAL or any(value is None or value.dtype.kind not in "biuf" for value in values):
        return None
    entries = np.concatenate([np.ravel(value) for value in values])
    return entries[0] + 0 if entries.size and (entries == entries[0]).all() else None


def _at(mask):
    """The first place in a mask, as text that goes on a sentence; nothing for a single number."""
    if mask.ndim == 0:
        return ""
    return f" at [{', '.join(str(i) for i in np.argwhere(mask)[0])}]"


def same(value, expected, tolerance) -> bool:
    """Whether two arrays have one shape and agree."""
    value, expected = np.asarray(value), np.asarray(expected)
    if value.shape != expected.shape:
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.allclose(value, expected, rtol=tolerance, atol=tolerance, equal_nan=True))

"""What the cases of a check range over: which sizes they have, in which order, and which ends of ranges are among them.

A chapter says once what its names are, as :class:`Quantities`. Its checks then have to run each pair of sizes in both
orders, so that a swapped bound shows, and each end that applies to them.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

__all__ = ["Coverage", "Quantities"]


@dataclass(frozen=True)
class Quantities:
    """Names of a chapter's checks: the shapes of arrays, ends of ranges, and what no check of the chapter can run.

    Attributes
    ----------
    shapes : dict
        By name, ``{"y": "T, V", "targets": "U", "S": "2 U + 1"}``: a letter, or a letter with a factor and a summand.
        A whole number among the arguments whose name is one of the letters is that size.
    ends : dict
        By what a reader calls it, a condition, or a tuple of them, ``{"T = 1": lambda T: T == 1}``. It applies to a
        check whose arguments, sizes among them, have all its names; of several the first that applies counts.
    left_out : dict
        By end, or by two sizes in order, the reason, ``{"T < U": "no alignment is shorter than its target"}``.
    """

    shapes: Mapping[str, str] = field(default_factory=dict)
    ends: Mapping[str, Callable[..., bool] | tuple[Callable[..., bool], ...]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __or__(self, other: Quantities) -> Quantities:
        return Quantities({**self.shapes, **other.shapes}, {**self.ends, **other.ends},
                          {**self.left_out, **other.left_out})

    @functools.cached_property
    def letters(self) -> set[str]:
        """The names of the sizes."""
        return {_linear(each)[1] for shape in self.shapes.values() for each in _parts(shape)} - {""}

    def sizes(self, arguments: Mapping[str, object]) -> dict[str, int]:
        """The sizes that arguments have.

        Raises
        ------
        ValueError
            If an array has not its shape, or two arguments disagree.

        Examples
        --------
        >>> of = Quantities({"y": "T, U + 1, V", "labels": "U"})
        >>> of.sizes({"y": np.zeros((4, 3, 5)), "labels": [1, 1], "t": 0})
        {'T': 4, 'U': 2, 'V': 5}
        >>> of.sizes({"y": np.zeros((4, 3, 5)), "labels": [1]})
        Traceback (most recent call last):
        ...
        ValueError: labels has U = 1, but y has U = 2
        """
        found, source = {}, {}
        for name, value in arguments.items():
            for letter, size in self._sizes_of(name, value):
                if found.setdefault(letter, size) != size:
                    before = f"{source[letter]} has {letter} = {found[letter]}"
                    raise ValueError(f"{name} has {letter} = {size}, but {before}")
                source.setdefault(letter, name)
        return found

    def _sizes_of(self, name, value):
        if name in self.letters and isinstance(value, int | np.integer):
            yield name, int(value)
        if name not in self.shapes:
            return
        parts, shape = _parts(self.shapes[name]), np.shape(getattr(value, "array", value))
        if shape == () and isinstance(value, int | np.integer):
            shape = (int(value),)
        if len(parts) != len(shape):
            raise ValueError(f"{name} has shape {shape}, not ({self.shapes[name]})")
        for part, length in zip(parts, shape, strict=True):
            factor, letter, summand = _linear(part)
            if (length - summand) % factor or not letter and length != summand:
                raise ValueError(f"{name} has shape {shape}, not ({self.shapes[name]})")
            if letter:
                yield letter, (length - summand) // factor

    def coverage(self, cases: Iterable[Mapping], calls: Iterable[Mapping], left_out: Mapping[str, str]) -> Coverage:
        """What the cases run. Names that no case has all of are looked for in the arguments of the sources' calls."""
        rows = [[{**arguments, **self.sizes(arguments)} for arguments in each] for each in (cases, calls)]
        seen = {letter: sorted({row[letter] for each in rows for row in each if letter in row})
                for letter in sorted(self.letters)}
        orders = {f"{a} < {b}": (_smaller(a, b),) for a, b in permutations(sorted(self.letters), 2)}
        covered, missing = [], []
        for end, conditions in {**orders, **{end: _named(each) for end, each in self.ends.items()}}.items():
            found = next((holds for names, condition in conditions for holds in _holds(names, condition, rows)), None)
            if found is not None:
                (covered if found else missing).append(end)
        return Coverage({letter: sizes for letter, sizes in seen.items() if sizes}, covered, missing,
                        {end: reason for end, reason in self.left_out.items() if end in missing} | dict(left_out))


@dataclass(frozen=True)
class Coverage:
    """Sizes that occur, ends that the cases run, ends that they do not, and the reasons of those."""

    sizes: dict[str, list[int]]
    covered: list[str]
    missing: list[str]
    left_out: dict[str, str]

    def findings(self, label: str) -> list[str]:
        """Ends that are missing without a reason, and reasons that are given in vain."""
        return [f"{label}: no case has {end}" for end in self.missing if end not in self.left_out] + [
            f"{label}: left out in vain: {end}" for end in self.left_out if end not in self.missing]


def _smaller(a, b):
    return {a, b}, lambda **row: row[a] < row[b]


def _named(conditions):
    return [(set(inspect.signature(condition).parameters), condition)
            for condition in (conditions if isinstance(conditions, tuple) else (conditions,))]


def _holds(names, condition, rows):
    """Whether a condition holds for any of the first rows that have its names; nothing if none have."""
    for each in rows:
        among = [{name: row[name] for name in names} for row in each if names <= row.keys()]
        if among:
            yield any(bool(condition(**row)) for row in among)


@functools.cache
def _parts(shape):
    return [part.strip() for part in shape.split(",") if part.strip()]


@functools.cache
def _linear(part):
    """``2 U + 1`` -> (2, "U", 1), ``3`` -> (1, "", 3)."""
    found = re.fullmatch(r"(\d+)|(?:(\d+)\s*)?([A-Za-z]\w*)\s*(?:([+-])\s*(\d+))?", part)
    if not found:
        raise ValueError(f"shape: {part!r}; expected a letter, with a factor and a summand at most: 2 U + 1")
    number, factor, letter, sign, summand = found.groups()
    if number:
        return 1, "", int(number)
    return int(factor or 1), letter, int(summand or 0) * (-1 if sign == "-" else 1)

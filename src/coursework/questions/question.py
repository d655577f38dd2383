"""What a question of an assignment is: points, cases, the right answer, and the mistakes that are known by name."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ..encoding import encoded
from ..oracle import Function

__all__ = ["Case", "Faster", "Question", "Smaller"]


@dataclass(frozen=True)
class Case:
    """One thing that is asked.

    ``arguments`` are handed to the answer; without any, the answer is a value, and ``facts`` are what it is about.
    An argument may be an :class:`..oracle.Function`. ``large`` cases have many numbers, which travel packed, and are
    those whose time and memory is measured.
    """

    group: str
    arguments: Mapping = field(default_factory=dict)
    facts: Mapping = field(default_factory=dict)
    large: bool = False

    def as_data(self, hand_out=Function.handed_out):
        """The case as data. What stands for a function is what ``hand_out`` makes of it: by default, for use at home,
        the function's own answers to requests."""
        return {"arguments": {
            name: {"function": hand_out(value)} if isinstance(value, Function) else encoded(value, packed=self.large)
            for name, value in self.arguments.items()
        }}


@dataclass(frozen=True)
class Faster:
    """An answer has to be right on the large cases, and there ``times`` as fast as ``slow``. ``hint`` says why not."""

    slow: Callable
    times: float
    hint: str


@dataclass(frozen=True)
class Smaller:
    """An answer has to be right on the large cases, and to take no more than ``share`` of the memory of one array.

    ``shape`` of a case's arguments is that of the array, of float64; ``what`` says which one it is.
    """

    shape: Callable
    what: str
    share: float
    hint: str


@dataclass(frozen=True)
class Question:
    """A question.

    ``cases`` draws cases from a generator, each in a group; all cases of a group right earn the group's points.
    ``right`` and each of ``mistakes`` (its name, and what it answers) are functions of a case's facts and arguments.
    With an ``effort`` it earns nothing, however right, unless it is fast or small enough.
    """

    name: str
    points: Mapping[str, float]
    cases: Callable[[np.random.Generator], list[Case]]
    right: Callable
    mistakes: Mapping[str, Callable]
    tolerance: float = 1e-9
    effort: Faster | Smaller | None = None

    #: What is found where nothing was handed in beside the notebook; the referee adds why.
    absent = ""

    @property
    def total(self):
        return sum(self.points.values())

    def drawn(self, *seeds) -> list[Case]:
        """The cases of these seeds, one after the other; a question for a value has those of the first seed alone."""
        cases = []
        for seed in seeds:
            cases += self.cases(np.random.default_rng([zlib.crc32(self.name.encode()), seed]))
            if not cases[0].arguments:
                break
        return cases

    def judged(self, cases, answers) -> tuple[float, list[str]] | None:
        """Points and findings, where a kind of question finds them in its own way; here None, for a comparison."""
        return None

    def answers(self, function, cases) -> list:
        return [function(**case.facts, **case.arguments) for case in cases]

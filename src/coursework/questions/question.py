"""What a question of an assignment is: points, cases, the right answer, and the mistakes that are known by name."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..encoding import encoded
from ..oracle import Function, entries_of

__all__ = ["NO_PATH", "Case", "Faster", "Ladder", "Question", "Smaller"]


#: The group of the cases without a path; all questions that have such cases call it so.
NO_PATH = "no alignment"

#: Arguments for which a right function answers that stands in for a case: those of the case, and others once.
_OF_A_CASE = 2


@dataclass(frozen=True)
class Case:
    """One thing that is asked.

    ``arguments`` are handed to the answer; without any, the answer is a value, and ``facts`` are what it is about.
    An argument may be an :class:`..oracle.Function`. ``large`` cases have many numbers, which travel packed, and are
    those whose time and memory is measured. ``small`` ones earn nothing, and show what is wrong. With ``helpers``,
    right functions by name, the case is asked again with these in the place of the student's own. ``aids`` go with one
    of them: by name, the helper's name and a right function.
    """

    group: str
    arguments: Mapping = field(default_factory=dict)
    facts: Mapping = field(default_factory=dict)
    large: bool = False
    small: bool = False
    helpers: Mapping = field(default_factory=dict)
    aids: Mapping = field(default_factory=dict)

    @property
    def graded(self):
        return not self.small and not self.helpers and not self.aids

    def as_data(self, hand_out=Function.handed_out):
        """The case as data. What stands for a function is what ``hand_out`` makes of it: by default, for use at home,
        the function's own answers to requests."""
        data = {"arguments": {
            name: {"function": hand_out(value)} if isinstance(value, Function) else encoded(value, packed=self.large)
            for name, value in self.arguments.items()
        }}
        if self.small:
            data["spare"] = True
        if self.helpers or self.aids:
            data["helpers"] = {name: {"function": hand_out(value)} for name, value in self.helpers.items()} | {
                name: {"function": hand_out(value), "with": earlier} for name, (earlier, value) in self.aids.items()}
        return data


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
class Ladder:
    """Small problems of the conformance kit, and what a question makes of them.

    Parameters
    ----------
    problems : callable
        Gives the problems, smallest first.
    case_of : callable
        A problem as a case of the question.
    problem_of : callable, optional
        The problem that a case of the question is about, or None; left out if the kit can't tell what it is.
    about : str
        What the answer is to that problem: one of the four names of `ladders.py`; empty without ``problem_of``.
    variable : "log_probs" | "logits"
        What a gradient is with respect to.
    sign : float
        The answer is the gradient times this.
    paths_of : callable, optional
        For a case that the kit can't tell: its paths, as text, and their masses.
    mass : str
        What the mass of a path is called.
    """

    problems: Callable[[], tuple]
    case_of: Callable[[Any], Case]
    problem_of: Callable[[Case], Any] | None = None
    about: str = ""
    variable: str = "log_probs"
    sign: float = 1.0
    paths_of: Callable[[Case], list[tuple[str, float]]] | None = None
    mass: str = "probability"

    def cases(self) -> list[Case]:
        return [replace(self.case_of(problem), small=True) for problem in self.problems()]


@dataclass(frozen=True)
class Question:
    """A question.

    ``cases`` draws cases from a generator, each in a group; all cases of a group right earn the group's points.
    ``right`` and each of ``mistakes`` (its name, and what it answers) are functions of a case's facts and arguments.
    With an ``effort`` it earns nothing, however right, unless it is fast or small enough.

    The small cases of a ``ladder`` show what is wrong with a wrong answer, and what would be right if
    ``shows_expected``. ``helpers`` are the right functions of earlier questions, by the names of these, which an answer
    may call: where the student's own is wrong, the answer is asked again with a right one. ``aids`` are those that a
    notebook asks for beside an earlier question's function: by the name of this question, right ones by name. If
    ``explored`` is false, all these answer for the case only: for two different arguments, and none with more entries
    than the case has. A loss that answered for all would hand out its gradient.
    """

    name: str
    points: Mapping[str, float]
    cases: Callable[[np.random.Generator], list[Case]]
    right: Callable
    mistakes: Mapping[str, Callable]
    tolerance: float = 1e-9
    effort: Faster | Smaller | None = None
    ladder: Ladder | None = None
    helpers: Mapping[str, Callable] = field(default_factory=dict)
    aids: Mapping[str, Mapping[str, Callable]] = field(default_factory=dict)
    shows_expected: bool = True
    explored: bool = True

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

    def posed(self, *seeds) -> list[Case]:
        """All that is asked: the cases of these seeds, the same with right helpers, and the small ones."""
        def with_helpers(case):
            limits = {} if self.explored else {"different": _OF_A_CASE, "entries": entries_of(case.arguments)}
            return replace(
                case, helpers={name: Function(right, **limits) for name, right in self.helpers.items()},
                aids={name: (earlier, Function(right, nested=True, **limits))
                      for earlier, aids in self.aids.items() for name, right in aids.items()})

        cases = self.drawn(*seeds)
        again = [with_helpers(case) for case in cases] if self.helpers else []
        return [*cases, *again, *(with_helpers(case) for case in (self.ladder.cases() if self.ladder else []))]

    def judged(self, cases, answers) -> tuple[float, list[str]] | None:
        """Points and findings, where a kind of question finds them in its own way; here None, for a comparison."""
        return None

    def answers(self, function, cases) -> list:
        return [function(**case.facts, **case.arguments) for case in cases]

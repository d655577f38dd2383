"""An exhibit of the museum of errors: the smallest input that shows it, and a card for the chapter. It knows no error.

What the errors are is in `bug_bank/exhibits.py`; this module asks, compares and shrinks as a grading does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..bug_bank.exhibits import EXHIBITS, Exhibit
from .cases import Case, cases
from .conventions import Conventions
from .drawing import drawn
from .judging import Judge, Wrong
from .problem import Problem
from .shrinking import smallest
from .subjects import Refused, candidate_subject

__all__ = ["Card", "Reproduction", "exhibit", "reproduce"]

_WORDS = {"second_gradient": "gradient, the second time", "gradient_after": "first gradient, after another backward",
          "scores_after": "scores, afterwards"}


@dataclass(frozen=True)
class Reproduction:
    """The smallest problem found on which an exhibit is wrong, and what it answers there."""

    problem: Problem
    wrong: tuple[Wrong, ...]
    refusal: bool = False

    def __str__(self):
        return drawn(self.problem, {_WORDS.get(each.field, each.field): (
            _plain(each.given), "an error" if self.refusal else _plain(each.right)) for each in self.wrong},
                     paths=not self.refusal)


def _plain(array):
    """Without the rounding errors of numbers that are 0."""
    return np.where(np.abs(array) < 1e-15, 0.0, array)


class Card(str):
    """Markdown that a notebook shows."""

    def _repr_markdown_(self):
        return str(self)

    def __repr__(self):
        return str(self)


def reproduce(shown: Exhibit) -> Reproduction:
    """The smallest problem on which the exhibit is wrong in the way that it stands for.

    Raises
    ------
    ValueError
        If its case does not show it.

    Examples
    --------
    >>> print(reproduce(EXHIBITS["frames-enough"]))
    T = 2, U = 2, V = 2, blank 0, targets [1, 1]
      all scores 0
      there is no path: Z = 0
      loss: 1.38629436, expected inf
      gradient: 0.5 -0.5 | 0.5 -0.5
      expected 0 0 | 0 0
    """
    judge, start = _judge(shown.bug), _start(shown)

    def found(problem):
        return _wrong(shown, judge, replace(start, problem=problem))

    if not found(start.problem):
        raise ValueError(f"{shown.key} answers {shown.case} as it should")
    problem = smallest(lambda each: bool(found(each)), start.problem)
    return Reproduction(problem, found(problem), start.refusal)


def exhibit(key: str) -> Card:
    """The card of an exhibit: what was believed, where, the smallest reproduction, the check, and the truth."""
    shown = EXHIBITS[key]
    claims = f"{{claim}}`{', '.join(shown.bug.claims)}`"
    return Card("\n".join([
        f"- **Believed.** {shown.bug.believed}",
        f"- **Where.** {shown.bug.source[:1].upper()}{shown.bug.source[1:]}{claims}.",
        f"- **Computed.** {shown.bug.mechanism}", "",
        "  ```text", *(f"  {line}" for line in str(reproduce(shown)).splitlines()), "  ```", "",
        f"- **Exposed by.** {{ref}}`{shown.bug.killed_by} <the-matrix>`.",
        f"- **Truth.** {shown.bug.truth}"]))


def _judge(bug):
    subject = replace(candidate_subject(bug), scores=bug.variable)
    return Judge(subject, Conventions(bug.loss, inputs=bug.variable, variable=bug.variable))


def _start(shown) -> Case:
    case = next(case for case in cases(shown.bug.loss) if case.id == shown.case)
    return case if shown.logits is None else replace(case, problem=replace(case.problem, logits=np.array(shown.logits)))


def _wrong(shown, judge, case):
    """The wrong answers to a case, if they show what is meant."""
    try:
        wrong = judge.answer(case).wrong
        outputs = judge.subject.ask(case.problem) if wrong else {}
    except (ValueError, IndexError, Refused):  # a problem that is none
        return ()
    if not wrong or not shown.shows(case.problem, outputs):
        return ()
    if case.refusal:
        if _has_an_answer(judge.conventions, case.problem):
            return ()
        return tuple(Wrong(case, name, outputs[name], wrong[0].right, wrong[0].complaint) for name in
                     ("loss", "gradient"))
    return tuple(each for each in wrong if not shown.fields or each.field in shown.fields)


def _has_an_answer(conventions, problem):
    try:
        conventions.expected(problem)
    except (ValueError, IndexError):
        return False
    return True

"""Questions whose right answers students do not get. Here is what is public of them; the answers are in a folder.

The folder is `course/graded` of a clone, which `make offline` leaves out, or the one that COURSEWORK_GRADED names. It
is a package whose `QUESTIONS` has a list of questions for each assignment. Without it a sealed question can be tried,
and nobody can judge it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from .question import Question

__all__ = ["FOLDER", "Own", "Sealed", "folder", "refuse_sealed", "told", "unsealed"]

#: Environment variable with the folder of the graded questions, if it is another one than `course/graded`.
FOLDER = "COURSEWORK_GRADED"
_HERE = Path(__file__).parents[3] / "course" / "graded"
_PACKAGE = "coursework_graded"
#: The id of the cell of a notebook in which a student's rule stands.
RULE_CELL = "rule"


def folder() -> Path:
    """Where the graded questions are, or would be."""
    return Path(os.environ.get(FOLDER) or _HERE)


@dataclass(frozen=True)
class Sealed(Question):
    """What is public of a question: its name, its points, inputs to try an answer on, and the shape of an answer."""

    shape: Callable | None = None

    def tried(self, cases, answers) -> str:
        """What can be said without a right answer: whether it runs, and has the right shapes."""
        text = f"{self.name}: {self.total:g} points, given by the grader. "
        for case, answer in zip(cases, answers, strict=True):
            if "error" in answer:
                return f"{text}It does not run on {_sizes(case)}:\n  {answer['error']}"
            if self.shape is None:
                continue
            found, expected = tuple(answer["value"].get("shape", ["?"])), tuple(self.shape(**case.arguments))
            if found != expected:
                return f"{text}On {_sizes(case)} its shape is {found}; expected {expected}"
        if self.shape is None:
            return f"{text}Nothing is checked here."
        return f"{text}It runs on {len(cases)} inputs, and its shapes are right. Its numbers are yours to check."


def _sizes(case):
    return ", ".join(f"{name} {np.shape(value)}" for name, value in case.arguments.items() if np.shape(value))


@dataclass(frozen=True)
class Own(Question):
    """A question about a rule of the student's own.

    ``rules`` draws the rule from a generator, as a dict that is JSON; it is the same in all questions of an assignment
    that have the same function. ``words`` says the rule to the student, in Markdown. The rule is in the ``facts`` of
    every case, and follows from the first seed.
    """

    rules: Callable[[np.random.Generator], Mapping] | None = None
    words: Callable[[Mapping], str] | None = None

    def rule(self, seed) -> Mapping:
        return self.rules(np.random.default_rng([zlib.crc32(b"rule"), seed]))

    def drawn(self, *seeds):
        facts = {"rule": self.rule(seeds[0])}
        return [replace(case, facts=facts) for case in super().drawn(*seeds)]

    def posed(self, *seeds):
        """As of any question; the small cases, and the right functions of earlier questions, have the rule, too."""
        rule = self.rule(seeds[0])

        def of_rule(functions):
            return {name: partial(right, rule=rule) for name, right in functions.items()}

        ruled = replace(self, helpers=of_rule(self.helpers),
                        aids={name: of_rule(aids) for name, aids in self.aids.items()})
        return [replace(case, facts={"rule": rule}) for case in Question.posed(ruled, *seeds)]


def told(notebook, assignment, variant, questions) -> dict:
    """The notebook, with the rule of this variant in its cell; as it is, if no question of ``questions`` has a rule.

    Raises
    ------
    ValueError
        If a question has a rule and the notebook no cell for it.
    """
    words = [question.words(question.rule(variant)) for question in questions.values()
             if isinstance(question, Own) and question.words]
    if words:
        cells = [cell for cell in notebook["cells"] if cell.get("id") == RULE_CELL]
        if len(cells) != 1:
            raise ValueError(f"{assignment} has {len(cells)} cells with the id {RULE_CELL!r}; expected one")
        cells[0]["source"] = words[0]
    return notebook


def refuse_sealed(questions) -> None:
    """Raise a ValueError if the right answer of any of these questions, a dict by name, is not at hand."""
    for name, question in questions.items():
        if isinstance(question, Sealed):
            raise ValueError(f"{name}: its right answer is not here. Expected the folder {folder()}, or one that "
                             f"{FOLDER} names; course/README.md says what is in it")


def unsealed(assignment, public) -> list[Question]:
    """The sealed questions of an assignment, with their answers where the folder is.

    Raises
    ------
    ValueError
        If what the folder has does not fit what is public; names the question and the difference.
    """
    if not public or not (folder() / "__init__.py").exists():
        if public and os.environ.get(FOLDER):
            raise ValueError(f"{FOLDER} = {os.environ[FOLDER]!r}; expected a folder with __init__.py and QUESTIONS")
        return public
    found = _loaded().QUESTIONS.get(assignment, [])
    for one, other in zip(public, [*found, *[None] * (len(public) - len(found))], strict=False):
        if other is None or (one.name, dict(one.points)) != (other.name, dict(other.points)):
            there = "nothing" if other is None else f"{other.name} with the points {dict(other.points)}"
            raise ValueError(f"{folder()}: {assignment} has {there}; expected {one.name} with {dict(one.points)}")
    if len(found) != len(public):
        raise ValueError(f"{folder()}: {assignment} has {len(found)} questions; expected {len(public)}")
    return found


def _loaded():
    if _PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(_PACKAGE, folder() / "__init__.py",
                                                      submodule_search_locations=[str(folder())])
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[_PACKAGE]
            raise
    return sys.modules[_PACKAGE]

"""``check_exercise``, the cell below an exercise of a chapter: judges answers by the questions of the chapters.

It says what `check` says of an assignment, and grades nobody: the chapters hold the solutions.
"""

from __future__ import annotations

import inspect

import numpy as np

from .asking import ask
from .diagnosis.verdicts import Verdict, judge

__all__ = ["check_exercise"]

#: Seeds of the cases that an answer is tried on, if it is a function.
SEEDS = (0, 1, 2)
_DOTS = "not answered yet"
_NOTHING = f"{_DOTS}; where notebooks run, put your answers in the place of the dots"


def check_exercise(name, **answers) -> Verdict:
    """Judge the answers to an exercise.

    Parameters
    ----------
    name : str
        The exercise's label.
    **answers : number, array of numbers, or function
        One for each part of the exercise, by its name; ``...`` for a part that is not answered yet. Fractions will do.

    Returns
    -------
    Verdict
        Points and findings; ``right`` says whether all is right.

    Raises
    ------
    ValueError
        If there is no such exercise, or no such part.

    Examples
    --------
    >>> print(check_exercise("ex-rnnt-2", changed=..., blanks=lambda T, U: T))
    ex-rnnt-2: 0 of 2 points
      changed: not answered yet
      blanks: As if the last blank were still in Z; without it a path has one blank less.
    """
    from .questions.exercises import find

    questions = find(name)
    unknown = [part for part in answers if part not in questions]
    if unknown:
        raise ValueError(f"{unknown[0]}: {name} has the parts {', '.join(questions)}")
    total = sum(question.total for question in questions.values())
    answers = {part: answer for part, answer in answers.items() if answer is not ...}
    if not answers:
        return Verdict(name, 0.0, total, (_NOTHING,))
    points, findings = 0.0, []
    for part, question in questions.items():
        if part not in answers:
            findings.append(f"{part}: {_DOTS}")
            continue
        verdict = _verdict(question, answers[part])
        points += verdict.points
        if not verdict.right:
            findings += [f"{part}: {finding}" for finding in verdict.findings]
    return Verdict(name, points, total, tuple(findings) or ("right",))


def _verdict(question, answer):
    cases = question.drawn(*SEEDS)
    names = list(cases[0].arguments)
    if not names:
        answer = _numbers(answer)
    elif callable(answer):
        answer = _calling(answer, names)
    return judge(question, cases, ask(answer, [case.as_data() for case in cases]))


def _calling(function, names):
    """The function as one of positional arguments, though it may want some by name, such as ``*, blank``."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # compiled functions may not tell
        parameters = {}
    by_name = {name for name in names if name in parameters and parameters[name].kind is inspect.Parameter.KEYWORD_ONLY}

    def called(*values):
        given = dict(zip(names, values, strict=True))
        named = {name: given.pop(name) for name in by_name}
        return _numbers(function(*given.values(), **named))

    return called


def _numbers(value):
    """Fractions and tensors as numbers, truth values as 0 and 1; all else as it is."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            return np.array([float(each) for each in array.flat]).reshape(array.shape)
        return array.astype(int) if array.dtype.kind == "b" else array if array.dtype.kind in "iuf" else value
    except Exception:  # whatever a reader's object raises; `ask` says what it is
        return value

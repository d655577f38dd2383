"""What an answer that earns points in a notebook earns where it is graded: `check` asks that at home. It grades nobody.

The cells that were run in the notebook are run once more, in a process that has what the grader's has (`apart.py`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..asking import released
from ..diagnosis.verdicts import Verdict, judge, right_answers
from ..oracle import Oracle
from ..questions import ASSIGNMENTS, FILES
from .apart import Apart, NotApart
from .session import here

__all__ = ["ONLY", "SAME", "as_graded", "why"]

#: What is said if it makes no difference.
SAME = "  Run apart from this notebook, with what is there where it is graded: the same."
#: What is there where it is graded.
ONLY = "Where it is graded there are only Python's own modules and NumPy, no network, no other files and programs."
_HERE = "In this notebook it earns {points:g} of {total:g}; run apart, as it is graded, it does not. {only}"
_NOT_RUN = "  It could not be run apart, as it is graded ({why}); there it may earn less."


def as_graded(verdict, assignment, question, variant, wrong=()) -> tuple[Verdict, list[str]]:
    """The verdict on a run apart, and lines that say so; the one that is given, where nothing can be run or lost.

    ``wrong`` are the earlier questions that were answered wrongly: they have right functions in their place.
    """
    session = here()
    if session is None or not verdict.points:
        return verdict, []
    files = {name: Path(name) for name in FILES.get(assignment, ()) if Path(name).is_file()}
    try:
        found = _judged(session.now(), files, assignment, question, variant, wrong)
    except (NotApart, OSError) as fault:
        return verdict, [_NOT_RUN.format(why=str(fault)[:200])]
    if found.points >= verdict.points:  # what is measured is measured in this notebook, and not there
        return verdict, [SAME]
    said = _HERE.format(points=verdict.points, total=verdict.total, only=ONLY)
    return replace(found, findings=(*found.findings, said)), []


def _judged(cells, files, assignment, question, variant, wrong):
    """The verdict on the answers to one question, after all these cells."""
    questions, oracle = ASSIGNMENTS[assignment], Oracle()
    asked = {name: questions[name].posed(variant) for name in (*question.helpers, question.name)}
    data = {name: [case.as_data(oracle.hand_out) for case in cases] for name, cases in asked.items()}
    facts = {each.name: dict(each.drawn(variant)[0].facts) for each in questions.values()}
    errors, ran, right = [], None, {}
    with oracle, Apart(files=files, descriptors=oracle.descriptors) as apart:
        for cell in cells:
            # as the grader does: a question that was answered wrongly has a right function in its place later
            missed = [name for name in question.helpers if not right.get(name, name not in wrong and not errors)]
            apart.tell({name: {"cases": [released(case, missed) for case in data.get(name, ())], "facts": facts[name]}
                        for name in questions})
            try:
                ran = apart.run(cell)
            except EOFError as end:
                return Verdict(question.name, 0.0, question.total, (str(end),))
            if ran.error or ran.interrupted:
                errors.append(ran)
            right |= {name: right_answers(questions[name], asked[name], answers)
                      for name, answers in ran.answers.items() if name in question.helpers}
    if question.name not in ran.answers:
        return Verdict(question.name, 0.0, question.total, (why(errors),))
    return judge(question, asked[question.name], ran.answers[question.name])


def why(errors) -> str:
    """Why there is no answer, as a sentence: the first error, if the last is only that something is not defined."""
    if not errors:
        return "There is no answer."
    last = errors[-1]
    cause = errors[0] if last.error and last.error[0] == "NameError" else last
    if cause.interrupted:
        return "A cell ran for too long."
    return ": ".join(filter(None, cause.error))[:500]

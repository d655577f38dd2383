"""``check``, the last cell of every question: at home it judges, where submissions are graded it only asks. ``facts``.

At home the right answers are at hand, and a student reads at once what is wrong. The grader runs the same cell in a
process that has none of them: it finds the cases in a file, and leaves the answers in the cell's output.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .asking import ask

__all__ = ["ANSWERS", "INPUTS", "check", "facts"]

#: Environment variable with the file of cases, set by the grader.
INPUTS = "COURSEWORK_INPUTS"
#: Media type of the answers in a cell's output.
ANSWERS = "application/vnd.coursework.answers+json"


def check(assignment, name, answer, variant=0):
    """Ask a question of an assignment, and print points and findings.

    Parameters
    ----------
    assignment, name : str
        Of the question.
    answer : callable or value
        What the student wrote.
    variant : int
        Which numbers; every student has a variant.

    Returns
    -------
    float or None
        The points; None where the grader asks, and where the right answer is not at hand: there it is only said whether
        the answer runs.

    Raises
    ------
    ValueError
        If there is no such question.

    Examples
    --------
    >>> check("1_ctc_alpha", "extended_target", lambda targets, blank: targets)
    extended_target: 0 of 1 points
      There are no blanks.
      shape (0,); expected (1,)
    0.0
    """
    if INPUTS in os.environ:
        from IPython.display import publish_display_data

        publish_display_data({ANSWERS: {"name": name, "answers": ask(answer, _given(name)["cases"])}})
        return None
    from .effort import measured_here
    from .questions import find
    from .questions.sealed import Sealed
    from .verdicts import judge

    question = find(assignment, name)
    cases = question.drawn(variant)
    if isinstance(question, Sealed):
        print(question.tried(cases, ask(answer, [case.as_data() for case in cases])))
        return None
    verdict = judge(question, cases, ask(answer, [case.as_data() for case in cases]),
                    lambda: measured_here(question.effort, cases, answer))
    print(verdict)
    return verdict.points


def facts(assignment, name, variant=0) -> dict:
    """What a question that asks for a value is about; the numbers depend on the variant.

    Examples
    --------
    >>> facts("1_ctc_alpha", "number_of_alignments", variant=3)
    {'targets': [2, 1, 1, 2], 'T': 6, 'frame': 0, 'symbol': 0}
    """
    if INPUTS in os.environ:
        return _given(name)["facts"]
    from .questions import find

    return dict(find(assignment, name).drawn(variant)[0].facts)


def _given(name):
    return json.loads(Path(os.environ[INPUTS]).read_text(encoding="utf-8"))[name]

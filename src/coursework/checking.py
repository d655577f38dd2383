"""``check``, the last cell of every question: at home it judges, where submissions are graded it only asks. ``facts``.

At home the right answers are at hand, and a student reads at once what is wrong. The grader runs the same cell in a
process that has none of them: it finds the cases in a file, and leaves the answers in the cell's output. That process
has not all that a notebook has, so what would earn points at home is run once more in one like it (`at_home.py`), and
earns what it earns there.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .asking import INPUTS, ask, namespace, released

__all__ = ["ANSWERS", "INPUTS", "check", "facts"]

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
        the answer runs. In a notebook they are those of a run apart from it.

    Raises
    ------
    ValueError
        If there is no such question.

    Examples
    --------
    >>> check("1_ctc_alpha", "number_of_alignments", 3**6, variant=3)
    number_of_alignments: 0 of 1 points
      As many as there are strings of symbols.
    0.0
    """
    if INPUTS in os.environ:
        from IPython.display import publish_display_data

        publish_display_data({ANSWERS: {"name": name, "answers": ask(answer, _given(name)["cases"])}})
        return None
    from .diagnosis.verdicts import judge
    from .effort import measured_here
    from .home.at_home import as_graded
    from .questions import find
    from .questions.sealed import Sealed

    question = find(assignment, name)
    cases = question.posed(variant)
    wrong = _wrong_helpers(assignment, question, answer, variant)
    answers = ask(answer, [released(case.as_data(), wrong) for case in cases])
    if isinstance(question, Sealed):
        print(question.tried(cases, answers))
        return None
    verdict = judge(question, cases, answers,
                    lambda: measured_here(question.effort, cases, answer),
                    lambda case: ask(answer, [case.as_data()])[0])
    verdict, said = as_graded(verdict, assignment, question, variant, wrong)
    print(verdict, *said, sep="\n")
    return verdict.points


def _wrong_helpers(assignment, question, answer, variant):
    """Which earlier questions' functions, of those that an answer may find by name, are wrong or not there."""
    from .diagnosis.verdicts import right_answers
    from .questions import find

    there, wrong = namespace(answer), []
    for name in question.helpers:
        if not callable(there.get(name)):
            wrong.append(name)
        else:
            earlier = find(assignment, name)
            cases = [case for case in earlier.posed(variant) if not case.small]
            data = [released(case.as_data(), wrong) for case in cases]
            if not right_answers(earlier, cases, ask(there[name], data)):
                wrong.append(name)
    return wrong


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


if INPUTS not in os.environ:  # at home: cells are remembered from here on
    from .home.session import here

    here()

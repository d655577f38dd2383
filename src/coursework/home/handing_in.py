"""A student's own check of a notebook before it is handed in: `make check-submission NOTEBOOK=file`. It sends nothing.

    python -m coursework.home.handing_in NOTEBOOK

The notebook runs from top to bottom as it is on the disk, and as it is graded: apart, with the modules, the limits and
the refusals of the grader, and behind the fences of the sandbox as far as this system has them. The points are those of
the visible numbers; a file beside the notebook says so, a receipt, to be handed in with it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ..asking import released
from ..diagnosis.verdicts import Verdict, judge, right_answers
from ..effort import Meter, share, slow_seconds
from ..oracle import Oracle
from ..questions import ASSIGNMENTS, FILES
from ..questions.question import Faster
from ..submissions.receipts import SUFFIX, of_notebook, on_visible
from .apart import Apart, NotApart
from .at_home import ONLY, why

__all__ = ["Checked", "NotChecked", "check_notebook"]

_ASSIGNMENT = re.compile(r"""^ASSIGNMENT\s*=\s*["'](\w+)["']""", re.M)
_VARIANT = re.compile(r"^variant\s*=\s*(\d+)", re.M)


class NotChecked(ValueError):
    """A notebook cannot be checked; the message says why."""


@dataclass(frozen=True)
class Checked:
    """What came out.

    Attributes
    ----------
    visible : dict
        Points by question that the receipt holds: without effort.
    errors : list of str
        Of cells that check nothing.
    stands : list of str
        What the fences around it were made of.
    """

    assignment: str
    variant: int
    verdicts: list[Verdict]
    visible: dict
    errors: list[str]
    stands: list[str]

    def __str__(self):
        points, total = (sum(getattr(each, name) for each in self.verdicts) for name in ("points", "total"))
        lines = [str(each) for each in self.verdicts]
        lines += [f"In a cell that checks nothing: {each}" for each in self.errors]
        fences = ", ".join(self.stands) or "none"
        return "\n".join([*lines, "", f"{self.assignment}: {points:g} of {total:g} points on the visible numbers. The "
                          f"grader has hidden ones, too. {ONLY}", f"Around it stood, besides limits: {fences}."])


def check_notebook(path, *, fenced=True) -> Checked:
    """Run a notebook apart, and judge its answers by the visible numbers.

    Raises
    ------
    NotChecked
        If it is no notebook of an assignment.
    NotApart
        If it cannot be run apart.
    """
    path = Path(path)
    cells = _cells(path)
    assignment, variant = _which(cells, path)
    questions = ASSIGNMENTS[assignment]
    graded = [_question_of(cell) for cell in cells]
    missing = [name for name in questions if name not in graded]
    if missing:
        raise NotChecked(f"{path.name}: the cell that checks {missing[0]} is missing, or it has lost its mark. Copy it "
                         "from the notebook that you were given.")
    files = {name: path.parent / name for name in FILES.get(assignment, ()) if (path.parent / name).is_file()}
    run = _Run(questions, variant)
    with run.oracle, Apart(fenced=fenced, files=files, descriptors=run.oracle.descriptors) as apart:
        run.begin(apart)
        for cell, name in zip(cells, graded, strict=True):
            run.cell(cell["source"], name if name in questions else None)
        return Checked(assignment, variant, [run.verdicts[name] for name in questions], run.visible, run.errors,
                       apart.stands)


class _Run:
    """Goes through the cells, and judges."""

    def __init__(self, questions, variant):
        self._questions, self._variant, self.oracle = questions, variant, Oracle()
        self._cases = {name: question.posed(variant) for name, question in questions.items()}
        self._asked = {name: {"cases": [case.as_data(self.oracle.hand_out) for case in cases],
                              "facts": dict(cases[0].facts)} for name, cases in self._cases.items()}
        self._failed, self._wrong, self._end = [], [], ""
        self.verdicts, self.visible, self.errors = {}, {}, []

    def begin(self, apart):
        """Before the first cell."""
        self._apart, self._meter = apart, self._meter_of(apart)

    def _meter_of(self, apart):
        """None where nothing is measured, or nothing can be."""
        if not any(question.effort for question in self._questions.values()):
            return None
        try:
            return Meter(apart.pid)
        except OSError:
            return None

    def cell(self, text, name):
        """Run a cell, which checks the question of this name, or none."""
        effort = name and self._questions[name].effort
        spent = None
        self._apart.tell({
            each: {**asked, "cases": [released(case, self._wrong) for case in asked["cases"]]}
            if each == name or not self._questions[each].effort else {**asked, "cases": []}
            for each, asked in self._asked.items()
        })
        if effort and self._meter:
            self._meter.start()
        try:
            if self._end:
                raise EOFError(self._end)
            ran = self._apart.run(text)
            spent = self._meter.stop() if effort and self._meter else None
        except (EOFError, OSError) as end:
            self._end = self._end or str(end)
            if name:
                self._judge(name, None, self._end, None)
            return
        if ran.error or ran.interrupted:
            self._failed.append(ran)
            if not name:
                self.errors.append(why([ran]))
        if name:
            self._judge(name, ran.answers.get(name), why(self._failed), spent)

    def _judge(self, name, answers, reason, spent):
        question, cases = self._questions[name], self._cases[name]
        if answers is None or not right_answers(question, cases, answers):
            self._wrong.append(name)  # later ones are asked with a right function in its place, too
        if answers is None:
            self.verdicts[name], self.visible[name] = Verdict(name, 0.0, question.total, (reason,)), 0.0
            return
        measure = None if spent is None else lambda: _found(question, cases, spent)
        self.verdicts[name] = judge(question, cases, answers, measure)
        self.visible[name] = on_visible(question, cases, answers, self._variant)


def _found(question, cases, spent):
    """The factor or the share, from what the process spent."""
    seconds, taken = spent
    if isinstance(question.effort, Faster):
        return slow_seconds(question.effort, cases) / seconds
    return share(question.effort, cases, taken)


def _cells(path):
    """The code cells."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotChecked(f"{path}: {error.strerror}") from None
    try:
        data = json.loads(content)
        old = isinstance(data, dict) and "worksheets" in data
        cells = [] if old else [cell for cell in data["cells"] if cell["cell_type"] == "code"]
        for cell in cells:
            cell["source"] = "".join(cell["source"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotChecked(f"{path.name} is no notebook; expected one that Jupyter has saved") from None
    if old:
        raise NotChecked(f"{path.name} is a notebook of an old format, nbformat {data.get('nbformat')}; expected 4. "
                         "Open it in Jupyter, and save it")
    return cells


def _which(cells, path):
    """The assignment and the variant, which the first cells say."""
    text = "\n".join(cell["source"] for cell in cells)
    found, variant = _ASSIGNMENT.search(text), _VARIANT.search(text)
    if found is None or found[1] not in ASSIGNMENTS:
        raise NotChecked(f"{path.name} does not say which assignment it is; expected a line ASSIGNMENT = \"...\" with "
                         f"one of {', '.join(ASSIGNMENTS)}")
    if variant is None:
        raise NotChecked(f"{path.name} does not say whose numbers it has; expected a line variant = ...")
    return found[1], int(variant[1])


def _question_of(cell):
    mark = (cell.get("metadata") or {}).get("nbgrader") or {}
    return mark.get("grade_id") if isinstance(mark, dict) and mark.get("grade") else None


def main():
    arguments = argparse.ArgumentParser(description="Check a notebook before it is handed in, and write a receipt.")
    arguments.add_argument("notebook", type=Path)
    given = arguments.parse_args()
    try:
        content = given.notebook.read_bytes() if given.notebook.is_file() else b""
        checked = check_notebook(given.notebook)
        receipt = of_notebook(content, checked.assignment, checked.variant, checked.visible, stands=checked.stands)
        target = given.notebook.with_suffix(SUFFIX)
        target.write_text(json.dumps(receipt, indent=1) + "\n", encoding="utf-8")
    except (NotChecked, NotApart, OSError) as error:
        sys.exit(f"make check-submission: {error}")
    print(checked)
    print(f"Receipt, to hand in beside the notebook: {target}")


if __name__ == "__main__":
    main()

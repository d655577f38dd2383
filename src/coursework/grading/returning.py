"""What goes back to a learning platform: marks and feedback, as Moodle and Canvas take them. It grades nobody."""

from __future__ import annotations

import json

from ..release import read
from ..submissions.lms import label_of, upload

__all__ = ["sent_back"]


def sent_back(course, assignment, table, column, results):
    """Write grades and feedback as the platform takes them."""
    graded, missing = [], []
    for result in results:
        submission = result.submission
        if result.failure:
            continue
        if submission.row is None:
            missing.append(result.student)
            continue
        graded.append({"student": result.student, "row": submission.row, "points": result.points, "total": result.total,
                       "comment": str(result), "feedback": _feedback(course, assignment, table, result)})
    said = upload(table, assignment, graded, course.folder / "upload" / assignment, column)
    if without := [each["student"] for each in graded if not each["feedback"]]:
        why = ": Canvas takes it only under the names of its own Download Submissions" if table.lms == "canvas" else ""
        said.append(f"no feedback to upload for {', '.join(without)}{why}")
    return [*said, *(f"not in {table.lms}'s table, so not in grades.csv: {name}" for name in missing)]


def _feedback(course, assignment, table, result):
    """The name and the content of a student's file of feedback.

    Moodle adds any file in a student's folder. Canvas takes only files that are named as it named them, and shows them
    under the name that the student gave: so it gets a notebook, with the report in its first cell.
    """
    labels = [each for each in result.submission.labels if label_of(each, folder=table.lms == "moodle")]
    if not labels and table.lms == "moodle":  # from a folder of ours: what Moodle would call it
        labels = [table.folder_of(result.submission.row)]
    if not labels:
        return None
    if table.lms == "moodle":
        page = course.folder / "feedback" / result.student / assignment / f"{assignment}.html"
        return (f"{labels[0]}/{assignment}.html", page.read_bytes()) if page.exists() else None
    ours = [each for each in labels if each.lower().endswith(".ipynb")]
    path = course.folder / "autograded" / result.student / assignment / f"{assignment}.ipynb"
    if not ours or not path.exists():
        return None
    notebook = read(path)
    report = {"cell_type": "markdown", "id": "report", "metadata": {}, "source": str(result)}
    return ours[0], json.dumps({**notebook, "cells": [report, *notebook["cells"]]}, indent=1).encode()

"""Wrong submissions, made from the solution by the changes that course/corpus/*.toml lists, and their marks.

    python -m coursework.corpus ASSIGNMENT --out FOLDER

grades the solution, the student's version and all wrong submissions, prints a table and writes it as JSON.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

from .grading.course import SOURCES, Course
from .release import read

__all__ = ["CORPUS", "changed", "graded", "listed", "write"]

CORPUS = SOURCES.parent / "corpus"


def listed(assignment) -> list[dict]:
    """The entries of an assignment, each with a name, what must be said, and the most that it may get."""
    return tomllib.loads((CORPUS / f"{assignment}.toml").read_text(encoding="utf-8"))["submission"]


def write(assignment, folder) -> None:
    """Write every submission of the corpus into a folder."""
    source = SOURCES / assignment / f"{assignment}.ipynb"
    for entry in listed(assignment):
        path = Path(folder) / entry["name"] / f"{assignment}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        if "text" in entry:
            path.write_text(entry["text"], encoding="utf-8")
        elif not entry.get("missing"):
            path.write_text(json.dumps(changed(read(source), entry, source)), encoding="utf-8")


def changed(notebook, entry, source):
    for change in (entry, entry.get("also")):
        if change:
            cell = next(cell for cell in notebook["cells"] if cell["id"] == change["cell"])
            text = "".join(cell["source"])
            if change["old"] not in text:
                raise ValueError(f"{entry['name']}: old = {change['old']!r}; expected a part of cell {change['cell']}")
            new = change["new"].replace("SOLUTION", repr(str(source)))
            cell["source"] = text.replace(change["old"], new)
    if "mark" in entry:  # a cell becomes a graded one
        cell = next(cell for cell in notebook["cells"] if cell["id"] == entry["mark"]["cell"])
        cell["metadata"]["nbgrader"] = {"grade": True, "solution": True, "locked": False, "task": False,
                                        "schema_version": 3, **entry["mark"]["as"]}
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] not in entry.get("remove", [])]
    return notebook


def graded(assignment, folder, **options) -> list[dict]:
    """Grade the solution, the student's version and the corpus: name, points, total, report, seconds and fences.

    The points are None where there is no mark.
    """
    folder = Path(folder)
    course = Course(folder / "course", **options)
    released = course.release(assignment)
    write(assignment, folder / "submissions")
    for name, notebook in (("solution", read(SOURCES / assignment / f"{assignment}.ipynb")), ("empty", released)):
        path = folder / "submissions" / name / f"{assignment}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")
    return [{"name": result.student, "points": None if result.failure else result.points, "total": result.total,
             "report": str(result), "seconds": result.seconds, "fences": result.fences}
            for result in course.grade(assignment, folder / "submissions")]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("assignment")
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--cell-seconds", type=float, default=40)
    given = arguments.parse_args()
    results = graded(given.assignment, given.out, cell_seconds=given.cell_seconds)
    expected = {entry["name"]: entry for entry in listed(given.assignment)}
    for result in results:
        entry = expected.get(result["name"], {"says": "", "at_most": result["total"]})
        seen = "" if entry["says"] in result["report"] else f"   does not say {entry['says']!r}"
        mark = "not graded" if result["points"] is None else f"{result['points']:5g} of {result['total']:g}"
        print(f"{result['name']:40} {mark:10} {result['seconds']:6.1f} s{seen}")
    (given.out / "corpus.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

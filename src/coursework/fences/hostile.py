"""Hostile submissions, made from the solution by what course/hostile/*.toml puts before its first answer. No grader."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from ..release import read

__all__ = ["HOSTILE", "SOLUTION", "listed", "write"]

_COURSE = Path(__file__).parents[3] / "course"
HOSTILE = _COURSE / "hostile"
#: Of somebody who means no harm, and is graded after all the others.
SOLUTION = "zoe"
_IMPORTED = "import ctypes, os, resource, signal, socket, sys, threading"


def listed(assignment) -> list[dict]:
    """The entries of an assignment: a name, the code, what the report must say, and which fence it is about.

    ``at_least`` and ``at_most`` are points: unless it is said otherwise, those of all answers but the first.
    """
    text = (HOSTILE / f"{assignment}.toml").read_text(encoding="utf-8")
    return [{"says": "", "at_least": 0 if entry.get("ends") or "at_most" in entry else 9,
             "at_most": 10 if entry.get("at_least") == 10 else 9, **entry}
            for entry in tomllib.loads(text)["submission"]]


def write(assignment, folder, places) -> None:
    """Write every hostile submission into a folder, and the solution under the last name.

    Parameters
    ----------
    assignment : str
    folder : path-like
    places : dict
        What the words in capitals stand for.
    """
    source = _COURSE / "assignments" / assignment / f"{assignment}.ipynb"
    before = "\n".join([_IMPORTED, *(f"{name} = {str(place)!r}" for name, place in places.items())])
    for entry in [*listed(assignment), {"name": SOLUTION, "code": ""}]:
        notebook = read(source)
        cell = next(cell for cell in notebook["cells"] if cell["id"].startswith("answer-"))
        cell["source"] = "\n".join([before, entry["code"], "".join(cell["source"])])
        path = Path(folder) / entry["name"] / f"{assignment}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")

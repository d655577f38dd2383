"""What a student's own check says of a notebook, as a file to hand in beside it, and how the grader compares it.

A receipt is no proof: a student can write one. It tells apart a notebook that was changed since it was checked, one
that was checked by other questions or another NumPy, and one whose numbers come out differently where it is graded.
It holds points on the visible numbers only, for those who grade draw others, too.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import platform
from pathlib import Path

from ..diagnosis.verdicts import judge

__all__ = ["LARGEST", "SUFFIX", "compared", "hash_of_code", "of_notebook", "on_visible", "read_receipt", "versions"]

#: What stands in the place of a notebook's suffix.
SUFFIX = ".receipt.json"
LARGEST = 100_000  # bytes of a receipt
_KIND, _VERSION = "coursework receipt", 1
_FIELDS = {"kind": str, "version": int, "assignment": str, "variant": int, "notebook": str, "code": str, "date": str,
           "points": dict, "of": (int, float), "versions": dict, "stands": list}
_PACKAGE = Path(__file__).parents[1]


def versions() -> dict:
    """Of Python, of what submissions may use, and of the questions."""
    questions = hashlib.sha256()
    for path in sorted((_PACKAGE / "questions").glob("*.py")):
        questions.update(path.read_bytes())
    return {"python": platform.python_version(), "numpy": importlib.metadata.version("numpy"),
            "questions": questions.hexdigest()[:12]}


def hash_of_code(notebook: dict) -> str:
    """Of the texts of its code cells: outputs, and what nbformat writes differently, do not change it."""
    cells = notebook.get("cells", [])
    texts = ["".join(cell.get("source", "")) for cell in cells if cell.get("cell_type") == "code"]
    return hashlib.sha256("\0".join(text.strip() for text in texts).encode("utf-8", "replace")).hexdigest()


def on_visible(question, cases, answers, variant) -> float:
    """Points of the cases that a student can see: the first of those that were asked. Effort is not measured."""
    count = len(question.drawn(variant))
    return judge(question, cases[:count], answers[:count]).points


def of_notebook(content: bytes, assignment, variant, points, *, stands=()) -> dict:
    """A receipt.

    Parameters
    ----------
    content : bytes
        Of the notebook.
    points : dict
        On the visible numbers, by question.
    stands : list of str
        The fences that stood.
    """
    from ..questions import ASSIGNMENTS

    return {"kind": _KIND, "version": _VERSION, "assignment": assignment, "variant": variant,
            "notebook": hashlib.sha256(content).hexdigest(), "code": hash_of_code(json.loads(content)),
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "points": points,
            "of": sum(question.total for question in ASSIGNMENTS[assignment].values()), "versions": versions(),
            "stands": list(stands)}


def read_receipt(content: bytes) -> dict:
    """A receipt as data.

    Raises
    ------
    ValueError
        If it is none, with what is wrong.
    """
    if len(content) > LARGEST:
        raise ValueError(f"it has {len(content)} bytes; expected at most {LARGEST}")
    try:
        receipt = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON") from None
    if not isinstance(receipt, dict):
        raise ValueError("it is no object of JSON")
    if missing := [name for name in _FIELDS if name not in receipt]:
        raise ValueError(f"it has no {', '.join(missing[:3])}")
    for name, kind in _FIELDS.items():
        if not isinstance(receipt.get(name), kind) or isinstance(receipt[name], bool):
            raise ValueError(f"{name} = {str(receipt.get(name))[:40]!r}; expected what a check writes there")
    if receipt["kind"] != _KIND or receipt["version"] != _VERSION:
        raise ValueError(f"kind and version = {receipt['kind'][:40]!r}, {receipt['version']}; expected {_KIND!r}, "
                         f"{_VERSION}")
    if not all(isinstance(points, (int, float)) for points in receipt["points"].values()):
        raise ValueError("points = other than numbers; expected a number for each question")
    return receipt


def compared(content: bytes, notebook: bytes, assignment, variant, points) -> list[str]:
    """Notes for whoever grades: in what a receipt differs from what was handed in, and from what came out.

    Parameters
    ----------
    content, notebook : bytes
        Of the receipt, and of the notebook beside it.
    points : dict
        What came out on the visible numbers where it was graded, by question.
    """
    try:
        receipt = read_receipt(content)
    except ValueError as error:
        return [f"The receipt cannot be read: {error}."]
    if receipt["assignment"] != assignment or receipt["variant"] != variant:
        return [f"The receipt is for {receipt['assignment'][:40]}, variant {receipt['variant']}; expected "
                f"{assignment}, {variant}."]
    try:
        same = receipt["code"] == hash_of_code(json.loads(notebook))
    except (ValueError, AttributeError, TypeError):  # a notebook that cannot be read; others say so
        same = False
    if receipt["notebook"] != hashlib.sha256(notebook).hexdigest() and not same:
        return [f"The notebook was changed after its receipt of {receipt['date'][:25]}, which is for other code."]
    return _differences(receipt, points)


def _differences(receipt, points):
    notes, now = [], versions()
    theirs = {name: str(receipt["versions"].get(name))[:40] for name in now}
    found = [name for name in points if receipt["points"].get(name) != points[name]]
    if found:
        there = ", ".join(f"{name} {receipt['points'].get(name, 'nothing')} at home and {points[name]:g} here"
                          for name in found)
        notes.append(f"On the same numbers it came out differently at home: {there}. Look at this notebook.")
    other = [name for name in now if theirs[name] != now[name]]
    if found and other:
        notes.append("It was checked at home by other versions: "
                     + ", ".join(f"{name} {theirs[name]}, here {now[name]}" for name in other) + ".")
    return notes or [f"The receipt of {receipt['date'][:25]} agrees: the same code, and the same points on the visible "
                     "numbers."]

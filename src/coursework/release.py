"""The student's version of an assignment, and the proof that it is the source without what is marked.

In a source, what stands between the lines BEGIN SOLUTION and END SOLUTION is the solution. nbgrader takes it out; what
this file proves was written without it.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

__all__ = ["BEGIN", "END", "NAME", "STUB", "ReleaseError", "for_student", "number_of", "prove", "read",
           "variant_of", "without_solutions"]

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
#: What nbgrader puts in the place of a solution, a line each.
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")
#: A student's name, which is the name of a folder.
NAME = re.compile(r"\w[\w.-]*")


class ReleaseError(Exception):
    """The student's version is not what it must be."""


def without_solutions(text: str) -> str:
    """The text of a cell with each marked part replaced by the stub, indented as its first mark.

    Raises
    ------
    ReleaseError
        If marks do not come in pairs.

    Examples
    --------
    >>> print(without_solutions("x = 1\\n### BEGIN SOLUTION\\nx = 2\\n### END SOLUTION"))
    x = 1
    # YOUR CODE HERE
    raise NotImplementedError()
    """
    lines, inside = [], False
    for line in text.split("\n"):
        mark = line.strip()
        if mark in (BEGIN, END):
            if inside == (mark == BEGIN):
                raise ReleaseError(f"marks do not come in pairs in {text[:60]!r}")
            inside = mark == BEGIN
            lines += [line[:len(line) - len(line.lstrip())] + stub for stub in STUB] if inside else []
        elif not inside:
            lines.append(line)
    if inside:
        raise ReleaseError(f"marks do not come in pairs in {text[:60]!r}")
    return "\n".join(lines)


def prove(source: dict, student: dict) -> int:
    """Prove that a student's notebook is the source less the marked parts; the number of these.

    Raises
    ------
    ReleaseError
        Naming the cell in which they differ.
    """
    before, after = source["cells"], student["cells"]
    if [cell["id"] for cell in before] != [cell["id"] for cell in after]:
        raise ReleaseError("the cells of the student's version are not those of the source")
    marked = 0
    for ours, theirs in zip(before, after, strict=True):
        text = _text(ours)
        if without_solutions(text) != _text(theirs):
            raise ReleaseError(f"cell {ours['id']}: more differs than the marked parts")
        if theirs.get("outputs") or theirs.get("execution_count") is not None:
            raise ReleaseError(f"cell {ours['id']}: it has outputs")
        kind = ours["metadata"].get("nbgrader", {})
        if (BEGIN in text) != bool(kind.get("solution")) or kind.get("grade") and not kind.get("locked"):
            raise ReleaseError(f"cell {ours['id']}: a solution is not marked as one, or a check is not locked")
        marked += text.count(BEGIN)
    if any(word in json.dumps(student) for word in (BEGIN, END)):
        raise ReleaseError("a mark is left in the student's version")
    return marked


def _text(cell):
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def for_student(notebook: dict, variant: int) -> dict:
    """A copy with a student's variant in the place of 0.

    Raises
    ------
    ReleaseError
        If there is no line ``variant = 0``, or more than one.
    """
    text, count = re.subn(r"variant = 0\b", f"variant = {variant}", json.dumps(notebook))
    if count != 1:
        raise ReleaseError(f"{count} lines 'variant = 0'; expected one")
    return json.loads(text)


def variant_of(student: str) -> int:
    """The number of a student's variant, 1 to 9999, from their name.

    Examples
    --------
    >>> variant_of("ada"), variant_of("emmy")
    (4965, 3206)
    """
    return number_of(student) % 9999 + 1


def number_of(text: str) -> int:
    """A number below 2^48 that nobody guesses who does not know the text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def read(path) -> dict:
    return json.loads(Path(path).read_text(encoding="utf-8"))

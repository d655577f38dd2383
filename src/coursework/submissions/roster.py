"""A roster: the students of a course by the names that folders have, and by what else a learning platform calls them.

It is a text file with a student in each line: the name, and after commas whatever their platform knows them by, as in

    ada, Ada Lovelace, ada@example.org, 4711

It knows no platform; `lms.py` does.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from ..release import NAME

__all__ = ["Roster", "Student", "alike", "decides", "named"]

_LONGEST = 80  # characters of a name, which becomes part of the name of a file
_DROPPED = re.compile(r"""[&<>"`|':\\/]""")  # what Moodle leaves out of the names of files


@dataclass(frozen=True)
class Student:
    """A student: the name of their folder, and by what else they are known."""

    name: str
    known_as: tuple[str, ...] = ()


class Roster:
    """The students of a course; an empty one knows nobody."""

    def __init__(self, students=()):
        self.students = list(students)
        self._by_key: dict[str, set[str]] = {}
        for student in self.students:
            for key in (student.name, *student.known_as):
                self._by_key.setdefault(alike(key), set()).add(student.name)

    @classmethod
    def read(cls, path) -> Roster:
        """The roster of a file.

        Raises
        ------
        ValueError
            If a name is none of a folder, or stands twice; if two students are known by the same.
        """
        text = Path(path).read_text(encoding="utf-8-sig")
        students: list[Student] = []
        for row in csv.reader(text.splitlines(), skipinitialspace=True):
            fields = [unicodedata.normalize("NFC", each).strip() for each in row]
            if not any(fields):
                continue
            name = fields[0]
            if not NAME.fullmatch(name) or len(name) > _LONGEST or name in {each.name for each in students}:
                raise ValueError(f"students: {name!r}; expected names of letters, digits, . _ - and each once")
            students.append(Student(name, tuple(filter(None, fields[1:]))))
        roster = cls(students)
        for key, names in roster._by_key.items():
            if len(names) > 1:
                raise ValueError(f"students: {', '.join(sorted(names))} are all known as {key!r}; expected different "
                                 "names, addresses and ids")
        return roster

    def __bool__(self):
        return bool(self.students)

    def find(self, keys) -> str:
        """The name of the student who is known by these; empty if nobody is, or if they are two students'.

        Addresses and ids decide. Only if none of them is known, names do: two people may be called the same.
        """
        keys = [alike(key) for key in keys if key and alike(key)]
        for asked in (decides, lambda key: True):
            found = {name for key in keys if asked(key) for name in self._by_key.get(key, ())}
            if found:
                return found.pop() if len(found) == 1 else ""
        return ""

    def lines(self) -> str:
        """As a file has it."""
        class Lines(list):
            write = list.append

        lines = Lines()
        table = csv.writer(lines, lineterminator="\n")
        for student in self.students:
            table.writerow([student.name, *student.known_as])
        return "".join(lines)


def decides(key: str) -> bool:
    """Whether a key is an address or an id, which nobody shares, and no name."""
    return "@" in key or any(sign.isdigit() for sign in key)


def alike(text: str) -> str:
    """What is compared of a name: neither case nor kind of blank nor signs that names of files have not.

    Examples
    --------
    >>> alike("O'Brien,  Zoe\\u0308") == alike("obrien zoë")
    True
    """
    text = _DROPPED.sub("", unicodedata.normalize("NFC", text)).replace("_", " ").replace(",", " ")
    return " ".join(unicodedata.normalize("NFC", text.casefold()).split())


def named(text: str) -> str:
    """A name for a folder from any text, composed Unicode; empty if nothing is left.

    Examples
    --------
    >>> named("Zoe\\u0308  Müller (2)"), named("Lovelace, Ada"), named("../..")
    ('Zoë_Müller_2', 'Lovelace_Ada', '')
    """
    text = re.sub(r"\s+", "_", unicodedata.normalize("NFC", text).strip())
    return re.sub(r"[^\w.-]", "", text).lstrip(".-_").rstrip(".")[:_LONGEST]

"""Makes the students' versions of all assignments: `make assignments`.

    python -m coursework.handing_out [--students FILE]

FILE is a roster (`roster.py`), with a student's name at the beginning of each line; each gets a folder with numbers of
their own. Without it, one version for all.
Needs the environment of course/requirements.txt.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .grading import Course
from .questions import ASSIGNMENTS
from .roster import Roster

__all__ = ["names"]


def names(roster) -> list[str]:
    """The names of the students of a roster; none without a roster.

    Raises
    ------
    ValueError
        If a name is none of a folder, or stands twice.
    """
    return [student.name for student in Roster.read(roster).students] if roster else []


def main():
    arguments = argparse.ArgumentParser(description="Make the students' versions of all assignments.")
    arguments.add_argument("--students", type=Path)
    arguments.add_argument("--out", type=Path, default=Path("_course"))
    given = arguments.parse_args()
    try:
        students, course = names(given.students), Course(given.out)
    except (ValueError, OSError) as error:
        sys.exit(f"make assignments: {error}")
    if not students:
        print("One version for all, to look at. To hand out: make assignments STUDENTS=file, a name in each line.")
    for assignment in ASSIGNMENTS:
        for path in course.hand_out(assignment, given.out / "handed_out", students):
            print(path)


if __name__ == "__main__":
    main()

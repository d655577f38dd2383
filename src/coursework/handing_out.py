"""Makes the students' versions of all assignments: `make assignments`.

    python -m coursework.handing_out [--students FILE]

FILE has a student's name in each line; each gets a folder with numbers of their own. Without it, one version for all.
Needs the environment of course/requirements.txt.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .grading import Course
from .questions import ASSIGNMENTS

__all__ = []


def main():
    arguments = argparse.ArgumentParser(description="Make the students' versions of all assignments.")
    arguments.add_argument("--students", type=Path)
    arguments.add_argument("--out", type=Path, default=Path("_course"))
    given = arguments.parse_args()
    students = given.students.read_text(encoding="utf-8").split() if given.students else ()
    course = Course(given.out)
    for assignment in ASSIGNMENTS:
        for path in course.hand_out(assignment, given.out / "handed_out", students):
            print(path)


if __name__ == "__main__":
    main()

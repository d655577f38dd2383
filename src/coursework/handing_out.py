"""Makes the students' versions of the assignments: `make assignments`.

    python -m coursework.handing_out [--students FILE] [--assignment NAME [--lms TABLE]]

FILE is a roster (`roster.py`), with a student's name at the beginning of each line; each gets a folder with numbers of
their own. Without it, one version for all. With Moodle's grading worksheet there is a zip, too, that gives each student
their own notebook as a feedback file.
Needs the environment of course/requirements.txt.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

from .grading.course import Course
from .questions import ASSIGNMENTS
from .submissions.lms import Table
from .submissions.roster import Roster

__all__ = ["for_moodle", "names"]


def names(roster) -> list[str]:
    """The names of the students of a roster; none without a roster.

    Raises
    ------
    ValueError
        If a name is none of a folder, or stands twice.
    """
    return [student.name for student in Roster.read(roster).students] if roster else []


def for_moodle(table: Table, roster: Roster, assignment, folder) -> tuple[Path, list[str]]:
    """A zip of what was handed out, as Moodle takes feedback files; and the students who are not in the table.

    Raises
    ------
    ValueError
        If the table is Canvas's, which takes files only for what was handed in.
    """
    if table.lms != "moodle":
        raise ValueError("LMS is Canvas's gradebook; expected Moodle's grading worksheet. Canvas takes files back only "
                         "for what was handed in, so send each student their notebook in another way")
    path, missing = Path(folder) / f"{assignment}.zip", []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for student in roster.students:
            row = table.row_in(roster, student.name)
            if row is None:
                missing.append(student.name)
                continue
            content = (Path(folder) / student.name / f"{assignment}.ipynb").read_bytes()
            archive.writestr(f"{table.folder_of(row)}/{assignment}.ipynb", content)
    return path, missing


def main():
    arguments = argparse.ArgumentParser(description="Make the students' versions of the assignments.")
    arguments.add_argument("--students", type=Path)
    arguments.add_argument("--out", type=Path, default=Path("_course"))
    arguments.add_argument("--assignment", choices=list(ASSIGNMENTS), help="only this one")
    arguments.add_argument("--lms", type=Path, help="Moodle's grading worksheet of this assignment")
    given = arguments.parse_args()
    if given.lms and not (given.students and given.assignment):
        sys.exit("make assignments: LMS= needs STUDENTS= and ASSIGNMENT=, whose worksheet it is")
    try:
        table = Table.read(given.lms) if given.lms else None
        students, course = names(given.students), Course(given.out)
    except (ValueError, OSError) as error:
        sys.exit(f"make assignments: {error}")
    if not students:
        print("One version for all, to look at. To hand out: make assignments STUDENTS=file, a name in each line.")
    there = given.out / "handed_out"
    for assignment in [given.assignment] if given.assignment else ASSIGNMENTS:
        written = course.hand_out(assignment, there, students)
        if students:
            print(f"{there / 'NAME' / assignment}.ipynb, for {len(written)} students")
        else:
            print(*written, sep="\n")
    if not table:
        return
    try:
        path, missing = for_moodle(table, Roster.read(given.students), given.assignment, there)
    except (ValueError, OSError) as error:
        sys.exit(f"make assignments: {error}")
    print(f"{path}: for Moodle, which gives each student their own")
    if missing:
        print("not in the table, so not in the zip:", ", ".join(missing))


if __name__ == "__main__":
    main()

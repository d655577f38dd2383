"""The command that grades the submissions of an assignment, and says what came out: `make grade`.

    python -m coursework.grading SUBMISSIONS [--out FOLDER] [--assignment NAME] [--students ROSTER] [--allow FENCES]
        [--lms TABLE [--column NAME]]

`submissions.collecting` says what SUBMISSIONS may be. For what cannot be graded there is a line that begins with "not
graded", and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..diagnosis.verdicts import NOTHING
from ..questions import ASSIGNMENTS
from ..sentences import one_line
from ..submissions.collecting import Unreadable, candidates, collect
from ..submissions.lms import Table
from ..submissions.reading import LARGEST, of_assignment
from ..submissions.roster import Roster
from .course import Course
from .returning import sent_back

__all__ = ["main"]


def main():
    arguments = argparse.ArgumentParser(description="Grade the submissions of one assignment.")
    arguments.add_argument("submissions", type=Path, help="a folder, or a zip of Moodle or Canvas")
    arguments.add_argument("--out", type=Path, default=Path("_course"))
    arguments.add_argument("--assignment", help="needed if the submissions have several")
    arguments.add_argument("--students", type=Path, help="the roster that the assignment was handed out with")
    arguments.add_argument("--lms", type=Path, help="Moodle's grading worksheet, or the CSV of Canvas's gradebook")
    arguments.add_argument("--allow", help="fences that need not stand, with commas; by default those in ALLOW")
    arguments.add_argument("--column", default="", help="of Canvas's CSV, if none is named like the assignment")
    given = arguments.parse_args()
    try:
        course, results = Course(given.out, allow=None if given.allow is None else given.allow.split(",")), []
        table = Table.read(given.lms) if given.lms else None
        roster = Roster.read(given.students) if given.students else None
        submissions, problems = collect(given.submissions, roster=roster, table=table)
        if not submissions:
            raise ValueError("; ".join(map(one_line, problems)))
        assignment = given.assignment or _only_one(submissions)
        if table:
            table.column_of(assignment, given.column)
        for result in course.graded(assignment, submissions):
            results.append(result)
            print(_line(result), flush=True)
        for problem in problems:
            print(one_line(problem))
        graded = [result for result in results if not result.failure]
        if absent := _absent(roster, submissions, course.earlier(assignment)):
            print(f"no mark, since they have handed in nothing so far ({len(absent)}):", ", ".join(absent))
        print(f"fences that stood: {', '.join(course.standing.names) or 'none'}"
              + (f"; not, as allowed: {', '.join(course.standing.down)}" if course.standing.down else ""))
        print("reports and feedback:", given.out / "reports" / assignment, "and", given.out / "feedback")
        before = len(course.earlier(assignment)) - len(results)
        print(f"the class: {given.out / 'class' / assignment}.html"
              + (f", with {before} who were graded earlier" if before else ""))
        course.export()
        print("gradebook:", given.out / "grades.csv")
        if table:
            print("\n".join(sent_back(course, assignment, table, given.column, results)))
    except (ValueError, OSError) as error:
        sys.exit(f"make grade: {error}")
    wrong = len(problems) + sum(bool(result.failure or result.trouble) for result in results)
    if wrong:
        sys.exit(f"make grade: {len(graded)} graded; look at the {wrong} lines above that say what could not be done")


def _absent(roster, submissions, earlier):
    """Those of the roster who have never handed in anything."""
    known = {each.student for each in (*submissions, *earlier)}
    return [each.name for each in roster.students if each.name not in known] if roster else []


def _line(result):
    """What is printed of a result: the first note, and that there are more."""
    mark = "not graded    " if result.failure else f"{result.points:5g} of {result.total:g}"
    nothing = all(verdict.findings == (NOTHING,) for verdict in result.verdicts)
    said = [one_line(each) for each in (result.failure, result.trouble, NOTHING * (nothing and not result.failure),
                                        *result.notes) if each]
    more = f" (and {len(said) - 1} more in the report)" if len(said) > 1 else ""
    return "   ".join([f"{result.student:24} {mark}   {result.seconds:.1f} s", *(f"{each}{more}" for each in said[:1])])


def _only_one(submissions):
    """The assignment of submissions, by the names of their notebooks, or else by what is in them."""
    files = [file for submission in submissions for file in submission.files]
    found = [name for name in ASSIGNMENTS if any(rank < 2 for rank, _ in candidates(files, name))]
    if not found:
        found = sorted(set(map(_said_to_be, (file for _, file in candidates(files, "")))) & set(ASSIGNMENTS))
    if not found:
        raise ValueError("SUBMISSIONS has no notebook that is named like an assignment, as 1_ctc_alpha.ipynb is; say "
                         "which one it is by ASSIGNMENT=")
    if len(found) > 1:
        raise ValueError(f"SUBMISSIONS has {', '.join(found)}; say which one by ASSIGNMENT=")
    return found[0]


def _said_to_be(file):
    try:
        return of_assignment(file.read(LARGEST))
    except Unreadable:
        return ""

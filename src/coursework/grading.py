"""Grades submissions with nbgrader, behind fences, and writes reports and gradebook: `make grade`.

    python -m coursework.grading SUBMISSIONS [--out FOLDER] [--assignment NAME] [--students ROSTER]
        [--lms TABLE [--column NAME]]

`collecting.py` says what SUBMISSIONS may be, and `reading.py` what becomes of a file. What cannot be graded gets no
mark: it is a line that begins with "not graded", and the exit status is 1. Needs the environment of
course/requirements.txt.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from . import class_report
from .collecting import Submission, Unreadable, attached, candidates, collect, receipt_among
from .course_secret import secret_of
from .lms import Table, label_of, upload
from .questions import ASSIGNMENTS, FILES
from .questions.sealed import refuse_sealed, told
from .reading import LARGEST, NoNotebook, of_assignment, read_files
from .receipts import LARGEST as LARGEST_RECEIPT
from .receipts import compared
from .release import for_student, prove, read, variant_of
from .roster import Roster
from .verdicts import NOTHING, Verdict

__all__ = ["Course", "Result"]

SOURCES = Path(__file__).parents[2] / "course" / "assignments"


@dataclass(frozen=True)
class Result:
    """What a student gets for an assignment, or why there is no mark.

    ``failure`` is empty if there is a mark. ``trouble`` is what went wrong besides, and leaves the mark as it is.
    """

    student: str
    variant: int
    verdicts: list[Verdict]
    notes: list[str]
    fences: list[str]
    seconds: float
    failure: str = ""
    trouble: str = ""
    total: float = 0.0
    submission: Submission | None = field(default=None, compare=False)

    @property
    def points(self) -> float:
        if self.failure:
            raise ValueError(f"{self.student} has no mark: {self.failure}")
        return sum(verdict.points for verdict in self.verdicts)

    def as_data(self) -> dict:
        """What later gradings of other students need to know of this one."""
        return {name: value for name, value in asdict(replace(self, submission=None)).items() if name != "submission"}

    @classmethod
    def of_data(cls, data) -> Result:
        verdicts = [Verdict(**{**each, "findings": tuple(each["findings"]), "details": tuple(each["details"])})
                    for each in data["verdicts"]]
        return cls(**{**data, "verdicts": verdicts})

    def __str__(self):
        mark = "not graded" if self.failure else f"{self.points:g} of {self.total:g} points"
        lines = [f"# {self.student}: {mark}", ""]
        lines += [self.failure, ""] if self.failure else []
        for verdict in self.verdicts:
            lines += [f"## {verdict.name}: {verdict.points:g} of {verdict.total:g}", ""]
            lines += [f"- {each}" for each in (*verdict.findings, *verdict.details)] + [""]
        if self.notes:
            lines += ["## Besides", "", *(f"- {note}" for note in self.notes), ""]
        return "\n".join(lines)


class GradingFailed(Exception):
    """nbgrader failed on a submission; what it said is in the course's folder `failures`."""


class Course:
    """A folder with nbgrader's gradebook, released assignments, submissions, feedback and our reports.

    ``limits`` are what a cell of a submission may take before it is interrupted: ``cell_seconds`` of processor time, or
    ``cell_patience`` seconds on the clock if it sleeps. ``allow`` names the fences that need not stand, and ``without``
    the layers that are not used (:func:`.fences.required`).
    """

    def __init__(self, folder, *, sources=SOURCES, allow=None, without=(), **limits):
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # for nbgrader
        from nbgrader.apps import NbGraderAPI

        warnings.filterwarnings("ignore", module="nbgrader")  # its database layer, about its own sessions
        self.folder, self.sources, self.limits = Path(folder).resolve(), Path(sources), limits
        self.allow, self.without, self.standing = allow, without, None
        self.folder.mkdir(parents=True, exist_ok=True)
        self.api = NbGraderAPI(config=self._config())

    def _config(self):
        from nbgrader import preprocessors as nb
        from traitlets.config import Config

        from .pages import harmless
        from .referee import Referee, SandboxedExecute

        config = Config()
        config.CourseDirectory.root = str(self.folder)
        config.CourseDirectory.db_url = f"sqlite:///{self.folder / 'gradebook.db'}"
        config.Autograde.autograde_preprocessors = [
            SandboxedExecute, Referee, nb.LimitOutput, nb.SaveAutoGrades, nb.AssignLatePenalties, nb.CheckCellMetadata]
        config.OverwriteCells.add_missing_cells = True
        config.SandboxedExecute.secret = secret_of(self.folder)
        config.SandboxedExecute.submitted = str(self.folder / "submitted")
        config.SandboxedExecute.update(self.limits)
        # nbclient's own limits are of the clock on the wall: none for a cell, which the referee watches; for the start
        # of a kernel, and for messages that are under way, more than any machine takes, however busy
        config.SandboxedExecute.timeout = None
        config.SandboxedExecute.startup_timeout = 600
        config.SandboxedExecute.iopub_timeout = 60
        config.SandboxedExecute.shutdown_kernel = "immediate"  # nothing in it is waited for
        config.HTMLExporter.filters = {"markdown2html": harmless}  # feedback shows what a student wrote and displayed
        config.NbConvertBase.display_data_priority = ["text/plain"]
        config.NbGrader.log_level = "CRITICAL"
        return config

    def release(self, assignment) -> dict:
        """The student's version, made by nbgrader and proved to be the source without the marked parts."""
        source = self.sources / assignment / f"{assignment}.ipynb"
        if not source.exists():
            there = ", ".join(sorted(path.name for path in self.sources.iterdir()))
            raise ValueError(f"assignment = {assignment!r}; expected one of {there}")
        shutil.copytree(source.parent, self.folder / "source" / assignment, dirs_exist_ok=True)
        self._done(self.api.generate_assignment(assignment, force=True), "release", assignment)
        student = read(self.folder / "release" / assignment / f"{assignment}.ipynb")
        prove(read(source), student)
        return student

    def _done(self, result, what, name):
        if not result["success"]:
            raise RuntimeError(f"nbgrader could not {what} {name}:\n{result.get('error') or result.get('log')}")

    def hand_out(self, assignment, folder, students=()) -> list[Path]:
        """Write the student's version: for each student with their variant, or once without one."""
        refuse_sealed(ASSIGNMENTS[assignment])
        released, written = self.release(assignment), []
        for student in students or [None]:
            path = Path(folder, *filter(None, [student]), f"{assignment}.ipynb")
            path.parent.mkdir(parents=True, exist_ok=True)
            variant = 0 if student is None else variant_of(student)
            notebook = told(for_student(released, variant), assignment, variant, ASSIGNMENTS[assignment])
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            written.append(path)
        return written

    def grade(self, assignment, submissions) -> list[Result]:
        """Grade a folder of submissions, or what :func:`.collecting.collect` found; no submission stops the others."""
        if not isinstance(submissions, list):
            submissions, problems = collect(submissions)
            if problems:
                raise ValueError(f"submissions: {'; '.join(problems)}")
        return list(self.graded(assignment, submissions))

    def graded(self, assignment, submissions: list[Submission]) -> Iterator[Result]:
        """The result of each submission, once it is graded and its report is written; the class's report at the end.

        Table and class's report have the students who were graded earlier, too, each with the last result.
        """
        released, results = self.release(assignment), {each.student: each for each in self.earlier(assignment)}
        refuse_sealed(ASSIGNMENTS[assignment])
        self._raise_fences()
        for submission in submissions:
            begin = time.perf_counter()
            try:
                result = self._graded(assignment, submission, released)
            except NoNotebook as error:  # nothing is known of what it deserves
                result = self._without_mark(assignment, submission, str(error), begin)
            except Exception as error:  # of the grader, whatever it is: no mark, and the others are graded
                self._keep(assignment, submission.student, traceback.format_exc())
                said = f"The grader failed: {type(error).__name__}: {error}"[:500]
                result = self._without_mark(assignment, submission, said, begin)
            results[result.student] = self._reported(assignment, result)
            self._remember(assignment, results[result.student])
            self._tabulate(assignment, [results[name] for name in sorted(results)])
            yield results[result.student]
        class_report.write(self.folder, assignment, [results[name] for name in sorted(results)])

    def earlier(self, assignment) -> list[Result]:
        """The last result of each student who was ever graded."""
        return [Result.of_data(json.loads(path.read_text(encoding="utf-8")))
                for path in sorted((self.folder / "results" / assignment).glob("*.json"))]

    def _remember(self, assignment, result):
        path = self.folder / "results" / assignment / f"{result.student}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".part").write_text(json.dumps(result.as_data(), default=float), encoding="utf-8")
        os.replace(path.with_suffix(".part"), path)

    def _raise_fences(self):
        """Try them, and do not go on if one does not stand; they are the same for all that this course grades."""
        from traitlets.config import Config

        from .fences import required

        if self.standing is None:
            self.standing = required(self.allow, without=self.without, real=[
                path for path in (self.folder / "secret", self.folder / "gradebook.db") if path.exists()])
            self.api.update_config(Config({"SandboxedExecute": {"standing": self.standing}}))

    def export(self) -> Path:
        """nbgrader's gradebook, all assignments, as CSV. Where there is no mark, there is no number either."""
        from nbgrader.api import Gradebook, MissingEntry
        from nbgrader.plugins import CsvExportPlugin

        plugin = CsvExportPlugin()
        plugin.to = str(self.folder / "grades.csv")
        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as gradebook:
            plugin.export(gradebook)
            with open(plugin.to, newline="", encoding="utf-8") as file:
                head, *rows = csv.reader(file)
            for row in rows:
                try:
                    gradebook.find_submission(row[head.index("assignment")], row[head.index("student_id")])
                except MissingEntry:
                    for column in ("raw_score", "late_submission_penalty", "score"):
                        row[head.index(column)] = ""
        with open(plugin.to, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])
        return Path(plugin.to)

    def _graded(self, assignment, submission, released):
        from .referee import Referee, SandboxedExecute

        begin, student = time.perf_counter(), submission.student
        there = self.folder / "submitted" / student / assignment
        reading = read_files(submission.files, assignment, released)
        notes = [*submission.notes, *reading.notes, *_other_numbers(reading, student)]
        shutil.rmtree(there, ignore_errors=True)
        there.mkdir(parents=True)
        notes += attached(submission.files, there, FILES.get(assignment, {}))
        (there / f"{assignment}.ipynb").write_text(json.dumps(reading.notebook), encoding="utf-8")
        Referee.kept.pop((assignment, student), None)
        SandboxedExecute.not_started = ""
        said = self.api.autograde(assignment, student, force=True)
        if "KeyboardInterrupt" in said.get("error", ""):  # nbgrader catches it with everything else
            raise KeyboardInterrupt
        if SandboxedExecute.not_started:
            raise GradingFailed("no process could be started behind the fences. " + SandboxedExecute.not_started)
        if not said["success"] or (assignment, student) not in Referee.kept:
            log = f"{said.get('log', '')}\n{said.get('error', '')}"
            self._keep(assignment, student, log)
            last = re.findall(r"^ *(\w+(?:Error|Exception|Missing\w+): .*)$", log, re.M)
            raise GradingFailed(last[0] if last else "it said nothing")
        verdicts, fences = Referee.kept[assignment, student]
        notes += _receipt_notes(submission, reading, assignment, Referee.visible[assignment, student])
        return Result(student, variant_of(student), verdicts, notes, fences, time.perf_counter() - begin,
                      total=_total(assignment), submission=submission)

    def _without_mark(self, assignment, submission, why, begin):
        """The result of a submission that was not graded. An earlier mark of it does not stay, either."""
        from nbgrader.api import Gradebook, MissingEntry

        student = submission.student
        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as gradebook, contextlib.suppress(MissingEntry):
            gradebook.remove_submission(assignment, student)
        for place in ("autograded", "feedback"):
            shutil.rmtree(self.folder / place / student / assignment, ignore_errors=True)
        return Result(student, variant_of(student), [], list(submission.notes), [], time.perf_counter() - begin,
                      failure=why, total=_total(assignment), submission=submission)

    def _keep(self, assignment, student, log):
        """What the grader had to say when it failed."""
        path = self.folder / "failures" / assignment / f"{student}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log[-1_000_000:], encoding="utf-8", errors="replace")

    def _reported(self, assignment, result):
        """The result with its report and its page of feedback written; a page that fails takes no mark away."""
        from .pages import self_contained, with_notes

        if not result.failure:
            try:
                self._done(self.api.generate_feedback(assignment, result.student, force=True), "write feedback on",
                           assignment)
                page = self.folder / "feedback" / result.student / assignment / f"{assignment}.html"
                text = with_notes(self_contained(page.read_text(encoding="utf-8")), result.notes)
                page.write_text(text, encoding="utf-8")
            except Exception as error:  # whatever it is, the mark stands
                self._keep(assignment, result.student, traceback.format_exc())
                said = f"{type(error).__name__}: {error}".split("\n")[0]
                result = replace(result, trouble=f"There is no page of feedback: {said}"[:500])
        report = self.folder / "reports" / assignment / f"{result.student}.md"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(str(result), encoding="utf-8", errors="replace")
        return result

    def _tabulate(self, assignment, results):
        """The table of questions, written anew when there is one result more."""
        names = list(ASSIGNMENTS[assignment])
        path = self.folder / f"{assignment}.csv"
        with open(path.with_suffix(".part"), "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["student", "variant", *names, "points", "of"])
            for result in results:
                points = ([""] * (len(names) + 1) if result.failure
                          else [*(verdict.points for verdict in result.verdicts), result.points])
                table.writerow([result.student, result.variant, *points, result.total])
        os.replace(path.with_suffix(".part"), path)


def _total(assignment):
    return sum(question.total for question in ASSIGNMENTS[assignment].values())


def _receipt_notes(submission, reading, assignment, points):
    """In what a receipt that was handed in differs; none if there is no receipt."""
    file = receipt_among(submission.files, assignment)
    if file is None:
        return []
    try:
        content = file.read(LARGEST_RECEIPT)
    except Unreadable as error:
        return [str(error)]
    return compared(content, reading.content, assignment, variant_of(submission.student), points)


def _other_numbers(reading, student):
    """A note if the notebook was not handed out to this student."""
    own = variant_of(student)
    if reading.variant in (None, own):
        return []
    return [f"The notebook has the numbers of variant {reading.variant}; it was graded with {own}, those of this name."]


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


# --- what goes back to a learning platform ---


def _sent_back(course, assignment, table, column, results):
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
            raise ValueError("; ".join(problems))
        assignment = given.assignment or _only_one(submissions)
        if table:
            table.column_of(assignment, given.column)
        for result in course.graded(assignment, submissions):
            results.append(result)
            print(_line(result), flush=True)
        for problem in problems:
            print(problem)
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
            print("\n".join(_sent_back(course, assignment, table, given.column, results)))
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
    said = [each for each in (result.failure, result.trouble, NOTHING * (nothing and not result.failure),
                              *result.notes) if each]
    more = f" (and {len(said) - 1} more in the report)" if len(said) > 1 else ""
    return "   ".join([f"{result.student:24} {mark}   {result.seconds:.1f} s", *(f"{each}{more}" for each in said[:1])])


if __name__ == "__main__":
    main()

"""A course: releases its assignments, and grades submissions with nbgrader, into reports and a gradebook. No command.

`submissions.reading` says what becomes of a file. What cannot be graded gets no mark. Needs the environment of
course/requirements.txt.
"""

from __future__ import annotations

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
from functools import partial
from pathlib import Path

from ..diagnosis.verdicts import Verdict
from ..questions import ASSIGNMENTS, FILES
from ..questions.sealed import refuse_sealed, told
from ..release import for_student, prove, read, variant_of
from ..sentences import one_line, seen
from ..submissions.collecting import Submission, Unreadable, attached, collect, receipt_among
from ..submissions.reading import NoNotebook, read_files
from ..submissions.receipts import LARGEST as LARGEST_RECEIPT
from ..submissions.receipts import compared
from . import class_report
from .course_secret import secret_of
from .in_a_child import in_a_child

__all__ = ["Course", "Result"]

SOURCES = Path(__file__).parents[3] / "course" / "assignments"


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
        lines += [one_line(self.failure), ""] if self.failure else []
        for verdict in self.verdicts:
            lines += [f"## {verdict.name}: {verdict.points:g} of {verdict.total:g}", ""]
            lines += [f"- {each}" for each in (*map(one_line, verdict.findings), *map(seen, verdict.details))] + [""]
        if self.notes:
            lines += ["## Besides", "", *(f"- {one_line(note)}" for note in self.notes), ""]
        return "\n".join(lines)


class GradingFailed(Exception):
    """nbgrader failed on a submission; what it said is in the course's folder `failures`."""


class Course:
    """A folder with nbgrader's gradebook, released assignments, submissions, feedback and our reports.

    ``limits`` are what a cell of a submission may take before it is interrupted: ``cell_seconds`` of processor time, or
    ``cell_patience`` seconds on the clock if it sleeps. ``allow`` names the fences that need not stand, and ``without``
    the layers that are not used (:func:`.fences.required`). Each submission is read and graded in a process of its own,
    a copy of this one, which may take so much ``memory`` besides, and so many ``seconds`` on the clock: see
    :mod:`.in_a_child`.
    """

    memory, seconds = 3 * 2**30, 2 * 3600.0

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

        from ..pages import harmless
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
                result = replace(self._in_a_child(self._tried, assignment, submission, released), submission=submission)
            except NoNotebook as error:  # nothing is known of what it deserves
                result = self._without_mark(assignment, submission, str(error), begin)
            except Exception as error:  # of the grader, whatever it is: no mark, and the others are graded
                if not isinstance(error, GradingFailed):  # which has kept what there is to say
                    self._keep(assignment, submission.student, traceback.format_exc())
                said = error if isinstance(error, GradingFailed) else f"{type(error).__name__}: {error}"
                result = self._without_mark(assignment, submission, f"The grader failed: {said}"[:500], begin)
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

    def _in_a_child(self, function, *arguments):
        """What a submission makes the grader do must not end it, nor keep it for ever."""
        return in_a_child(partial(function, *arguments), memory=self.memory, seconds=self.seconds)

    def _tried(self, assignment, submission, released):
        """The result, without the submission; of what goes wrong, what was said of it."""
        try:
            return replace(self._graded(assignment, submission, released), submission=None)
        except (NoNotebook, KeyboardInterrupt, GradingFailed):
            raise
        except Exception as error:  # whatever it is, it need not be something that can leave this process
            self._keep(assignment, submission.student, traceback.format_exc())
            raise GradingFailed(f"{type(error).__name__}: {error}") from None

    def _raise_fences(self):
        """Try them, and do not go on if one does not stand; they are the same for all that this course grades."""
        from traitlets.config import Config

        from ..fences.standing import required

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
            why = f"no process could be started behind the fences. {SandboxedExecute.not_started}"
            self._keep(assignment, student, why)
            raise GradingFailed(why)
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
        if not result.failure:
            try:
                said = self._in_a_child(self._page, assignment, result.student, result.notes)
            except Exception as error:  # whatever it is, the mark stands
                self._keep(assignment, result.student, traceback.format_exc())
                said = f"{type(error).__name__}: {error}"
            if said:
                result = replace(result, trouble=f"There is no page of feedback: {said}"[:500])
        report = self.folder / "reports" / assignment / f"{result.student}.md"
        report.parent.mkdir(parents=True, exist_ok=True)
        report.write_text(str(result), encoding="utf-8", errors="replace")
        return result

    def _page(self, assignment, student, notes):
        """Write the page of feedback; what went wrong, or nothing."""
        from ..pages import self_contained, with_notes

        page = self.folder / "feedback" / student / assignment / f"{assignment}.html"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of outputs that nbconvert cannot show, which are the student's
                self._done(self.api.generate_feedback(assignment, student, force=True), "write feedback on", assignment)
            page.write_text(with_notes(self_contained(page.read_text(encoding="utf-8")), notes), encoding="utf-8")
        except Exception as error:
            self._keep(assignment, student, traceback.format_exc())
            return f"{type(error).__name__}: {error}".split("\n")[0]
        return ""

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

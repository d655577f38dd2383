"""Grades a folder of submissions with nbgrader, behind fences, and writes reports and gradebook: `make grade`.

    python -m coursework.grading SUBMISSIONS [--out FOLDER] [--assignment NAME]

SUBMISSIONS holds a folder for each student, and in it NAME.ipynb. Needs the environment of course/requirements.txt.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import stat
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from .course_secret import secret_of
from .questions import ASSIGNMENTS, FILES
from .questions.sealed import refuse_sealed, told
from .release import NAME, for_student, prove, read, variant_of
from .verdicts import Verdict

__all__ = ["Course", "Result"]

SOURCES = Path(__file__).parents[2] / "course" / "assignments"
LARGEST = 20_000_000  # bytes of a submission


@dataclass(frozen=True)
class Result:
    """What a student gets for an assignment."""

    student: str
    variant: int
    verdicts: list[Verdict]
    notes: list[str]
    fences: list[str]
    seconds: float

    @property
    def points(self):
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def total(self):
        return sum(verdict.total for verdict in self.verdicts)

    def __str__(self):
        lines = [f"# {self.student}: {self.points:g} of {self.total:g} points", ""]
        for verdict in self.verdicts:
            lines += [f"## {verdict.name}: {verdict.points:g} of {verdict.total:g}", ""]
            lines += [f"- {finding}" for finding in verdict.findings] + [""]
        if self.notes:
            lines += ["## Besides", "", *(f"- {note}" for note in self.notes), ""]
        return "\n".join(lines)


class Course:
    """A folder with nbgrader's gradebook, released assignments, submissions, feedback and our reports.

    ``limits`` are what a cell of a submission may take before it is interrupted: ``cell_seconds`` of processor time, or
    ``cell_patience`` seconds on the clock if it sleeps.
    """

    def __init__(self, folder, *, sources=SOURCES, **limits):
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # for nbgrader
        from nbgrader.apps import NbGraderAPI

        warnings.filterwarnings("ignore", module="nbgrader")  # its database layer, about its own sessions
        self.folder, self.sources, self.limits = Path(folder).resolve(), Path(sources), limits
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
        """Grade a folder of submissions; no submission stops the others."""
        released = self.release(assignment)
        refuse_sealed(ASSIGNMENTS[assignment])
        students = sorted(path.name for path in Path(submissions).iterdir() if path.is_dir())
        odd = [name for name in students if not NAME.fullmatch(name)]
        if odd or not students:
            raise ValueError(f"submissions = {str(submissions)!r}; expected folders named by letters, digits, . _ -, "
                             f"one for each student{', not ' + repr(odd[0]) if odd else ''}")
        results = [self._graded(assignment, name, Path(submissions) / name, released) for name in students]
        self._write(assignment, results)
        return results

    def export(self) -> Path:
        """nbgrader's gradebook, all assignments, as CSV."""
        from nbgrader.api import Gradebook
        from nbgrader.plugins import CsvExportPlugin

        plugin = CsvExportPlugin()
        plugin.to = str(self.folder / "grades.csv")
        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as gradebook:
            plugin.export(gradebook)
        return Path(plugin.to)

    def _graded(self, assignment, student, folder, released):
        from .referee import Referee

        begin, there = time.perf_counter(), self.folder / "submitted" / student / assignment
        notebook, notes = _submitted(folder / f"{assignment}.ipynb", released)
        shutil.rmtree(there, ignore_errors=True)
        there.mkdir(parents=True)
        notes += _attached(folder, there, FILES.get(assignment, {}))
        target = there / f"{assignment}.ipynb"
        Referee.kept.pop((assignment, student), None)
        for attempt in (notebook, released):
            target.write_text(json.dumps(attempt), encoding="utf-8")
            result = self.api.autograde(assignment, student, force=True)
            if result["success"] and (assignment, student) in Referee.kept:
                break
            said = re.findall(r"^ *(\w+(?:Error|Exception): .*)$", result.get("log", ""), re.M)
            notes.append(f"The grader failed on this notebook; look at it. {said[0] if said else 'It said nothing.'}")
        none = [Verdict(question.name, 0.0, question.total, ("It could not be run.",))
                for question in ASSIGNMENTS[assignment].values()]
        verdicts, fences = Referee.kept.get((assignment, student), (none, []))
        return Result(student, variant_of(student), verdicts, notes, fences, time.perf_counter() - begin)

    def _write(self, assignment, results):
        """Reports, our table of questions, nbgrader's gradebook and feedback."""
        from .pages import self_contained

        reports = self.folder / "reports" / assignment
        reports.mkdir(parents=True, exist_ok=True)
        for result in results:
            (reports / f"{result.student}.md").write_text(str(result), encoding="utf-8")
            feedback = self.api.generate_feedback(assignment, result.student, force=True)
            self._done(feedback, "write feedback on", assignment)
            page = self.folder / "feedback" / result.student / assignment / f"{assignment}.html"
            page.write_text(self_contained(page.read_text(encoding="utf-8")), encoding="utf-8")
        with open(self.folder / f"{assignment}.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            table.writerow(["student", "variant", *(verdict.name for verdict in results[0].verdicts), "points", "of"])
            for result in results:
                points = [verdict.points for verdict in result.verdicts]
                table.writerow([result.student, result.variant, *points, result.points, result.total])


def _submitted(path, released):
    """A submitted notebook, or the empty one if it cannot be read; and what is to be said about it."""
    if not path.exists():
        return released, [f"There is no file {path.name}."]
    if path.stat().st_size > LARGEST:
        return released, [f"The file has more than {LARGEST // 10**6} MB and was not read."]
    import nbformat

    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        nbformat.validate(nbformat.from_dict(notebook))
    except Exception as error:  # whatever somebody's file is
        return released, [f"The file is not a notebook: {str(error).splitlines()[0][:200]}"]
    notes = _restored(notebook, released) + _other_numbers(notebook, path.parent.name)
    known = {cell["metadata"]["nbgrader"]["grade_id"] for cell in released["cells"] if "nbgrader" in cell["metadata"]}
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id", "") not in {*known, ""}:
            notes.append(f"The graded cell {cell['metadata'].pop('nbgrader')['grade_id']!r} is none of ours.")
    return notebook, notes


def _attached(folder, there, files):
    """Copy the files that may be handed in beside a notebook; notes about those that are not taken.

    Only plain files are: a link would bring in whatever it leads to.
    """
    notes = []
    for name, largest in files.items():
        try:
            handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        except OSError:
            notes.append(f"{name} is a link or cannot be opened, and was not read.")
            continue
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                notes.append(f"{name} is not a plain file, and was not read.")
                continue
            with open(handle, "rb", closefd=False) as file:
                content = file.read(largest + 1)
        finally:
            os.close(handle)
        if len(content) > largest:
            notes.append(f"{name} has more than {largest / 10**6:g} MB and was not read.")
        else:
            (there / name).write_bytes(content)
    return notes


def _other_numbers(notebook, student):
    """A note if the notebook was not handed out to this student."""
    text = "".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    found, own = re.search(r"^variant = (\d+)", text, re.M), variant_of(student)
    if found is None or int(found[1]) == own:
        return []
    return [f"The notebook has the numbers of variant {int(found[1])}; it was graded with {own}, those of this name."]


def _restored(notebook, released):
    """A note for each locked cell that was changed or removed."""
    def locked(cells):
        found = {}
        for cell in cells:
            mark = cell.get("metadata", {}).get("nbgrader", {})
            if mark.get("locked"):
                found[mark["grade_id"]] = "".join(cell["source"])
        return found

    theirs, notes = locked(notebook["cells"]), []
    for name, text in locked(released["cells"]).items():
        if re.sub(r"variant = \d+", "variant = 0", theirs.get(name, "")) != text:
            done = "changed" if name in theirs else "removed or unlocked"
            notes.append(f"The locked cell {name!r} was {done}. It was put back before grading.")
    return notes


def _only_one(submissions):
    """The assignment of a folder of submissions."""
    found = sorted({path.stem for path in submissions.glob("*/*.ipynb")})
    if not found:
        flat = "; notebooks lie in it without one" if list(submissions.glob("*.ipynb")) else ""
        raise ValueError(f"SUBMISSIONS = {str(submissions)!r}; expected a folder for each student, and the "
                         f"notebook in it, as in NAME/1_ctc_alpha.ipynb{flat}")
    if len(found) > 1:
        raise ValueError(f"SUBMISSIONS has {', '.join(found)}; say which one by ASSIGNMENT=")
    return found[0]


def main():
    arguments = argparse.ArgumentParser(description="Grade a folder of submissions of one assignment.")
    arguments.add_argument("submissions", type=Path)
    arguments.add_argument("--out", type=Path, default=Path("_course"))
    arguments.add_argument("--assignment", help="needed if the submissions have several")
    given = arguments.parse_args()
    try:
        assignment = given.assignment or _only_one(given.submissions)
        course = Course(given.out)
        results = course.grade(assignment, given.submissions)
    except (ValueError, OSError) as error:
        sys.exit(f"make grade: {error}")
    for result in results:
        line = f"{result.student:24} {result.points:5g} of {result.total:g}   {result.seconds:.1f} s"
        print("   ".join([line, *result.notes[:1]]))
    for path in sorted(path for path in given.submissions.iterdir() if path.is_file() and path.suffix == ".ipynb"):
        print(f"not graded, since it lies in no student's folder: {path.name}")
    fences = set(results[0].fences).intersection(*(result.fences for result in results))
    print("fences that stood around every submission:", ", ".join(sorted(fences)) or "none")
    print("reports and feedback:", given.out / "reports" / assignment, "and", given.out / "feedback")
    print("gradebook:", course.export())


if __name__ == "__main__":
    main()

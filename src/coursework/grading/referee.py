"""Steps of nbgrader's autograding: runs a submission behind fences, and turns its answers into points and findings.

The submission's process only answers. What it is asked, and what is right, is known here, in another process. nbgrader
then reads the points from the cells' outputs, which this file has written, and not the submission.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import Any, Float, Int, Unicode

from ..asking import released
from ..calibration import allowed
from ..checking import ANSWERS, INPUTS
from ..diagnosis.verdicts import Verdict, judge, right_answers
from ..effort import Meter, share, slow_seconds
from ..fences.fenced import Fenced, scratch_folder
from ..fences.fenced_kernel import kernel_manager
from ..home.apart import ENDED, LIMITS, SHIPPED, importable
from ..oracle import Oracle
from ..questions import ASSIGNMENTS, FILES
from ..questions.question import Faster
from ..release import number_of, variant_of
from ..submissions.receipts import on_visible
from ..watching import Watch
from .outputs import BoundedSession, Room, answers_of

__all__ = ["Referee", "SandboxedExecute"]

_STUCK = "It ran for too long and could not be stopped: look for a loop that does not end and catches every error."
_REPLY = 60.0  # seconds on the clock, however busy the machine is, from the last output of a cell to its end
#: The name of the error of a cell that was interrupted, and what it means.
_INTERRUPTED = "CellTimeoutError"
_TOO_LONG = ("A cell ran for too long: look for a loop that does not end, or for something that it waits for and that "
             "never comes.")


class SandboxedExecute(Execute):
    """Runs the notebook in a kernel behind fences, in an empty folder of its own."""

    #: Why a process behind the fences could not be started for a submission, which was not run therefore.
    not_started: ClassVar[str] = ""
    standing = Any(help="The fences that stand here, as `fences.required` has found them.").tag(config=True)

    secret = Unicode("", help="What the hidden numbers are drawn from.").tag(config=True)
    submitted = Unicode("", help="Folder of the students' folders.").tag(config=True)
    address_space = Int(LIMITS["address_space"], help="Bytes of address space.").tag(config=True)
    processor_seconds = Int(LIMITS["processor_seconds"], help="Processor time of the whole notebook.").tag(config=True)
    cell_seconds = Float(LIMITS["cell_seconds"], help="Processor time of a cell.").tag(config=True)
    cell_patience = Float(LIMITS["cell_patience"], help="Seconds on the clock for a cell that sleeps.").tag(config=True)
    patience = Float(1800, help="Seconds on the clock for the whole notebook.").tag(config=True)

    def preprocess(self, nb, resources, km=None):
        given = resources["nbgrader"]
        questions = ASSIGNMENTS[given["assignment"]]
        own = f"{self.secret}/{given['student']}"
        seeds = variant_of(given["student"]), number_of(own), number_of(f"{own}/measured")
        drawn = {name: _posed(question, *seeds) for name, question in questions.items()}
        self._questions, self._drawn, self._meter, self._answered = questions, drawn, None, {}
        self._wrong = []  # questions that were answered wrongly: later ones may have a right function in their place
        self._watch, self._room, self._end = None, Room(), math.inf
        with scratch_folder() as scratch:
            oracle = Oracle()
            self._prepare(scratch, oracle)
            for name in FILES.get(given["assignment"], ()):
                attached = Path(self.submitted, given["student"], given["assignment"], name)
                if attached.exists():
                    shutil.copyfile(attached, self._fenced.folder / name)
            resources["metadata"]["path"] = str(self._fenced.folder)
            try:
                with oracle:
                    super().preprocess(nb, resources)
            except Exception as error:  # nbclient's of a kernel that does not answer, whatever their class
                if self._watch is None:  # nothing of the submission has run; no mark follows from that
                    SandboxedExecute.not_started = str(error) or type(error).__name__
                    raise
                stuck = _STUCK if self._watch.killed else ENDED
                resources["coursework_end"] = stuck if isinstance(error, DeadKernelError) else f"{error}"[:500]
            finally:
                if self._watch:
                    self._watch.end()
                self._fenced.end()
            resources["coursework_fences"] = self.standing.names
        _show_variant(nb, seeds[0])
        resources["coursework_cases"], resources["coursework_answers"] = drawn, self._answered
        return nb, resources

    def on_cell_execute(self, cell, **_):
        """Before a cell runs. The cases of a question that is measured become known here, and its clock is running."""
        if self._meter is None and any(question.effort for question in self._questions.values()):
            self._meter = Meter(self._fenced.pid)
        if is_grade(cell) and self._questions[name := cell.metadata.nbgrader.grade_id].effort:
            self._meter.start()
            self._tell(name)
        self._room.begin(is_grade(cell))
        self._end = min(self._end, time.monotonic() + self.patience)  # from the first cell on
        self._watch = Watch(self._fenced, seconds=self.cell_seconds, patience=self.cell_patience, end=self._end)

    def on_cell_executed(self, **said):
        """After it. What a later message adds to its output comes too late."""
        cell = said["cell"]
        self._watch.end()
        if self._watch.interrupted:  # whatever the submission has made of that
            cell.outputs.insert(0, new_output("error", ename=_INTERRUPTED, evalue="", traceback=[_TOO_LONG]))
        if is_grade(cell):
            name = cell.metadata.nbgrader.grade_id
            spent = self._meter.stop() if self._questions[name].effort else None
            if name not in self._wrong:  # else its right function is known by now
                self._answered[name] = _answers(cell, name), spent
                self._look_at(name)
        super().on_cell_executed(**said)

    async def _async_check_alive(self):
        """nbclient's task looks once more after a process that has ended was given up, and then has nothing to ask."""
        if self.kc is None:
            raise DeadKernelError("It has ended.")
        await super()._async_check_alive()

    def _look_at(self, name):
        """If later questions build on this one, and its answers are wrong, tell them of a right function."""
        if any(name in question.helpers for question in self._questions.values()):
            answers = self._answered[name][0]
            if answers is None or not right_answers(self._questions[name], self._drawn[name], answers):
                self._wrong.append(name)
                self._tell()

    def process_message(self, msg, cell, cell_index):
        """A message of a cell that runs, unless it has shown enough."""
        if msg["msg_type"] == "status" and msg["content"]["execution_state"] == "idle":
            self._watch.no_longer_than(_REPLY)  # that it has ended comes on another line; or not, where IPython failed
        return super().process_message(msg, cell, cell_index) if self._room.takes(msg) else None

    def _tell(self, measured=None):
        """Write the cases where the submission finds them: of what is measured, only those of this question."""
        self._inputs = self._fenced.give("inputs.json", json.dumps({
            name: {**asked, "cases": [released(case, self._wrong) for case in asked["cases"]]}
            if name == measured or not self._questions[name].effort else {**asked, "cases": []}
            for name, asked in self._asked.items()
        }).encode())

    def _prepare(self, scratch, oracle):
        """An empty folder, what is importable, the cases, and whatever else the process is given."""
        self._fenced = Fenced(scratch, self.standing.layers, address_space=self.address_space,
                              seconds=allowed(self.processor_seconds))
        for name, source in SHIPPED.items():
            self._library = self._fenced.give(f"library/coursework/{name}", source.read_bytes()).parents[1]
        self._asked = {
            name: {"cases": [case.as_data(oracle.hand_out) for case in cases], "facts": dict(cases[0].facts)}
            for name, cases in self._drawn.items()
        }
        self._tell()
        self._descriptors = oracle.descriptors

    def create_kernel_manager(self):
        """Spoken to through descriptors that it inherits: it has no network, and can open no socket."""
        self.km = kernel_manager(
            self._fenced, library=self._library, modules=importable(), descriptors=self._descriptors,
            session=BoundedSession(),
            surroundings={INPUTS: str(self._inputs), "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"})
        return self.km


class Referee(NbGraderPreprocessor):
    """Replaces the outputs of each graded cell by points and findings, and keeps them for the report."""

    #: (assignment, student): verdicts, and the fences that stood.
    kept: ClassVar[dict] = {}
    #: (assignment, student): points on the visible numbers, by question, for the receipt.
    visible: ClassVar[dict] = {}

    def preprocess(self, nb, resources):
        given = resources["nbgrader"]
        questions, drawn = ASSIGNMENTS[given["assignment"]], resources["coursework_cases"]
        visible = self.visible[given["assignment"], given["student"]] = dict.fromkeys(questions, 0.0)
        end, first_error = resources.get("coursework_end", ""), None
        verdicts = []
        for cell in nb.cells:
            error = next((o for o in cell.get("outputs", []) if o.output_type == "error"), None)
            if not is_grade(cell):
                first_error = first_error or error
                continue
            question = questions[cell.metadata.nbgrader.grade_id]
            answers, spent = resources["coursework_answers"].get(question.name, (None, None))
            if answers is None:
                verdict = Verdict(question.name, 0.0, question.total, (_why(error, first_error, end),))
            else:
                verdict = judge(question, drawn[question.name], answers, partial(_found, question, drawn, spent))
                visible[question.name] = on_visible(question, drawn[question.name], answers,
                                                    variant_of(given["student"]))
                if first_error is not None and verdict.findings == (question.absent,) and not _is_stub(first_error):
                    verdict = replace(verdict, findings=(question.absent, _why(first_error, None, end)))
            verdicts.append(verdict)
            cell.outputs = [new_output("stream", name="stdout", text=f"{verdict}\n"),
                            new_output("execute_result", {"text/plain": str(verdict.points)}, execution_count=1)]
        self.kept[given["assignment"], given["student"]] = verdicts, resources["coursework_fences"]
        return nb, resources


def _show_variant(nb, variant):
    """Write the student's number into the cell that was put back with 0, so that feedback shows what was graded."""
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("locked"):
            cell.source = re.sub(r"^variant = 0\b", f"variant = {variant}", cell.source, flags=re.M)


def _posed(question, visible, hidden, measured):
    """All that is asked. What is measured is nowhere visible: a notebook has room for the right answer to it."""
    cases = question.posed(visible, hidden)
    if not question.effort:
        return cases
    others = question.drawn(measured)
    return [other if case.large else case for case, other in zip(cases, others, strict=False)] + cases[len(others):]


def _found(question, drawn, spent):
    """The factor or the share, from what the submission's process spent."""
    (seconds, taken), cases = spent, drawn[question.name]
    if isinstance(question.effort, Faster):
        return slow_seconds(question.effort, cases) / seconds
    return share(question.effort, cases, taken)


def _answers(cell, name):
    """The answers in a cell's outputs; None if there are none that can be read."""
    data = [output.get("data", {}) for output in cell.get("outputs", [])]
    return next((answers_of(each, name) for each in data if ANSWERS in each), None)


def _is_stub(error):
    """Whether it is what an answer raises as it is handed out."""
    return (error.ename, error.evalue) == ("NotImplementedError", "")


def _why(error, first_error, end):
    """Why a question has no answer, as a sentence."""
    if error is None:
        return end or "There is no answer."
    cause = first_error if first_error is not None and error.ename == "NameError" else error
    if cause.ename == _INTERRUPTED:
        return _TOO_LONG
    return f"{cause.ename}: {cause.evalue}"[:500]

"""Steps of nbgrader's autograding: runs a submission behind fences, and turns its answers into points and findings.

The submission's process only answers. What it is asked, and what is right, is known here, in another process. nbgrader
then reads the points from the cells' outputs, which this file has written, and not the submission.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute, NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import Float, Int, Unicode
from traitlets.config import Config

from reference_impl.conformance import encoding

from .checking import ANSWERS, INPUTS
from .effort import Meter, share, slow_seconds
from .oracle import Oracle
from .outputs import BoundedSession, Room
from .questions import ASSIGNMENTS, FILES
from .questions.question import Faster
from .release import number_of, variant_of
from .verdicts import Verdict, judge
from .watching import Watch

__all__ = ["Referee", "SandboxedExecute"]

_PACKAGE = Path(__file__).parent
_ENDED = "The process ended: it was told to (os._exit), or took more memory or processor time than it is given."
_STUCK = "It ran for too long and could not be stopped: look for a loop that does not end and catches every error."
#: The name of the error of a cell that was interrupted, and what it means.
_INTERRUPTED = "CellTimeoutError"
_TOO_LONG = ("A cell ran for too long: look for a loop that does not end, or for something that it waits for and that "
             "never comes.")
#: What the submission's process may import of this package.
_SHIPPED = {**{name: _PACKAGE / name for name in ("__init__.py", "asking.py", "calling.py", "checking.py")},
            "encoding.py": Path(encoding.__file__)}


class SandboxedExecute(Execute):
    """Runs the notebook in a kernel behind the fences of `sandbox.py`, in an empty folder of its own."""

    secret = Unicode("", help="What the hidden numbers are drawn from.").tag(config=True)
    submitted = Unicode("", help="Folder of the students' folders.").tag(config=True)
    address_space = Int(4 * 2**30, help="Bytes of address space.").tag(config=True)
    processor_seconds = Int(120, help="Processor time of the whole notebook.").tag(config=True)
    cell_seconds = Float(40, help="Processor time of a cell.").tag(config=True)
    cell_patience = Float(600, help="Seconds on the clock for a cell that sleeps.").tag(config=True)

    def preprocess(self, nb, resources, km=None):
        given = resources["nbgrader"]
        questions = ASSIGNMENTS[given["assignment"]]
        seeds = variant_of(given["student"]), number_of(f"{self.secret}/{given['student']}")
        drawn = {name: question.drawn(*seeds) for name, question in questions.items()}
        self._questions, self._drawn, self._meter, self._answered = questions, drawn, None, {}
        self._watch, self._room = None, Room()
        with tempfile.TemporaryDirectory(prefix="coursework-") as scratch:
            folder = Path(scratch, "submission")
            oracle = Oracle(folder / ".runtime" / "oracle")
            self._prepare(Path(scratch), folder, oracle)
            for name in FILES.get(given["assignment"], ()):
                attached = Path(self.submitted, given["student"], given["assignment"], name)
                if attached.exists():
                    shutil.copyfile(attached, folder / name)
            resources["metadata"]["path"] = str(folder)
            try:
                with oracle:
                    super().preprocess(nb, resources)
            except DeadKernelError:
                if self._watch is None:  # nothing of the submission has run: it is not to blame
                    raise
                resources["coursework_end"] = _STUCK if self._watch and self._watch.killed else _ENDED
            except Exception as error:  # nbclient's of a kernel that does not answer, whatever their class
                if self._watch is None:
                    raise
                resources["coursework_end"] = f"{error}"[:500]
            finally:
                if self._watch:
                    self._watch.end()
            report = Path(scratch, "fences")
            resources["coursework_fences"] = report.read_text().split("\n")[:-1] if report.exists() else []
        resources["coursework_cases"], resources["coursework_answers"] = drawn, self._answered
        return nb, resources

    def on_cell_execute(self, cell, **_):
        """Before a cell runs. The cases of a question that is measured become known here, and its clock is running."""
        if self._meter is None and any(question.effort for question in self._questions.values()):
            self._meter = Meter(self.km.provisioner.pid)
        if is_grade(cell) and self._questions[name := cell.metadata.nbgrader.grade_id].effort:
            self._meter.start()
            self._tell(name)
        self._room.begin(is_grade(cell))
        self._watch = Watch(self.km.provisioner.process, seconds=self.cell_seconds, patience=self.cell_patience)

    def on_cell_executed(self, **said):
        """After it. What a later message adds to its output comes too late."""
        cell = said["cell"]
        self._watch.end()
        if self._watch.interrupted:  # whatever the submission has made of that
            cell.outputs.insert(0, new_output("error", ename=_INTERRUPTED, evalue="", traceback=[_TOO_LONG]))
        if is_grade(cell):
            name = cell.metadata.nbgrader.grade_id
            spent = self._meter.stop() if self._questions[name].effort else None
            self._answered[name] = _answers(cell, name), spent
        super().on_cell_executed(**said)

    def process_message(self, msg, cell, cell_index):
        """A message of a cell that runs, unless it has shown enough."""
        return super().process_message(msg, cell, cell_index) if self._room.takes(msg) else None

    def _tell(self, measured=None):
        """Write the cases where the submission finds them: of what is measured, only those of this question."""
        self._inputs.write_text(json.dumps({
            name: asked if name == measured or not self._questions[name].effort else {**asked, "cases": []}
            for name, asked in self._asked.items()
        }), encoding="utf-8")

    def _prepare(self, scratch, folder, oracle):
        """An empty folder, what is importable, the cases, and the kernel's description."""
        library, runtime = scratch / "library", folder / ".runtime"
        (library / "coursework").mkdir(parents=True)
        runtime.mkdir(parents=True)
        for name, source in _SHIPPED.items():
            (library / "coursework" / name).write_bytes(source.read_bytes())
        self._inputs = scratch / "inputs.json"
        self._asked = {
            name: {"cases": [case.as_data(oracle.hand_out) for case in cases], "facts": dict(cases[0].facts)}
            for name, cases in self._drawn.items()
        }
        self._tell()
        command = [sys.executable, "-I", str(_PACKAGE / "sandbox.py"), str(library), str(self.address_space),
                   str(self.processor_seconds), str(scratch / "fences"), "-f", "{connection_file}"]
        surroundings = {INPUTS: str(self._inputs), "HOME": str(folder), "TMPDIR": str(folder),
                        "IPYTHONDIR": str(folder), "JUPYTER_RUNTIME_DIR": str(runtime),
                        "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        kernel = scratch / "kernels" / "submission"
        kernel.mkdir(parents=True)
        (kernel / "kernel.json").write_text(json.dumps({
            "argv": command, "display_name": "submission", "language": "python", "env": surroundings,
        }))
        self._kernel_folder, self._runtime = str(scratch / "kernels"), str(runtime)
        self.kernel_name = "submission"

    def create_kernel_manager(self):
        """Spoken to through files in the submission's folder: it has no network."""
        config = Config({"KernelManager": {"transport": "ipc"}})
        self.km = AsyncKernelManager(kernel_name=self.kernel_name, config=config, session=BoundedSession())
        self.km.kernel_spec_manager.kernel_dirs = [self._kernel_folder]
        self.km.connection_file = str(Path(self._runtime, "kernel.json"))
        self.km.ip = str(Path(self._runtime, "socket"))
        return self.km


class Referee(NbGraderPreprocessor):
    """Replaces the outputs of each graded cell by points and findings, and keeps them for the report."""

    #: (assignment, student): verdicts, and the fences that stood.
    kept: ClassVar[dict] = {}

    def preprocess(self, nb, resources):
        questions, drawn = ASSIGNMENTS[resources["nbgrader"]["assignment"]], resources["coursework_cases"]
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
                if first_error is not None and verdict.findings == (question.absent,):
                    verdict = replace(verdict, findings=(question.absent, _why(first_error, None, end)))
            verdicts.append(verdict)
            cell.outputs = [new_output("stream", name="stdout", text=f"{verdict}\n"),
                            new_output("execute_result", {"text/plain": str(verdict.points)}, execution_count=1)]
        given = resources["nbgrader"]
        self.kept[given["assignment"], given["student"]] = verdicts, resources["coursework_fences"]
        return nb, resources


def _found(question, drawn, spent):
    """The factor or the share, from what the submission's process spent."""
    (seconds, taken), cases = spent, drawn[question.name]
    if isinstance(question.effort, Faster):
        return slow_seconds(question.effort, cases) / seconds
    return share(question.effort, cases, taken)


def _answers(cell, name):
    """The answers in a cell's outputs; None if there are none that can be read."""
    for output in cell.get("outputs", []):
        found = output.get("data", {}).get(ANSWERS)
        if isinstance(found, dict) and found.get("name") == name and isinstance(found.get("answers"), list):
            return found["answers"] if all(isinstance(each, dict) for each in found["answers"]) else None
    return None


def _why(error, first_error, end):
    """Why a question has no answer, as a sentence."""
    if error is None:
        return end or "There is no answer."
    cause = first_error if first_error is not None and error.ename == "NameError" else error
    if cause.ename == _INTERRUPTED:
        return _TOO_LONG
    return f"{cause.ename}: {cause.evalue}"[:500]

"""Runs a student's cells apart from their notebook, in the process of `bare.py`: `check` does so at home. No judge.

Where submissions are graded there are only Python's own modules and NumPy, since a library that computes these losses
would answer for the student. At home there is more; so what works in a notebook may fail where it is graded. Here
cells run as they do there: the same modules, the same refusals, the same limits.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from reference_impl.conformance import encoding

from ..asking import INPUTS
from ..calibration import allowed
from ..watching import Watch

__all__ = ["ENDED", "LIMITS", "MODULES", "SHIPPED", "Apart", "NotApart", "Ran", "importable"]

_PACKAGE = Path(__file__).parents[1]
_BARE = _PACKAGE / "fences" / "bare.py"
#: What is importable of this package, where submissions run.
SHIPPED = {
    **{name: _PACKAGE / name for name in ("__init__.py", "asking.py", "calibration.py", "calling.py", "checking.py")},
    "encoding.py": Path(encoding.__file__),
}
#: What may be imported besides Python's own modules: these distributions, and what they need.
MODULES = ("numpy", "ipykernel")
#: As where submissions are graded: bytes of memory, processor time of all and of a cell, time on the clock of a cell.
LIMITS = {"address_space": 4 * 2**30, "processor_seconds": 120, "cell_seconds": 40.0, "cell_patience": 600.0}
#: What the system reads for Python.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys", "/dev", "/System", "/Library", "/opt")
#: What there is to say when a submission's process is not there any more.
ENDED = ("The process ended: it was told to (os._exit), or took more memory, processor time or files than it is "
         "given.")


class NotApart(Exception):
    """Cells cannot be run apart here; nothing follows from that for what they are worth."""


@dataclass(frozen=True)
class Ran:
    """What became of a cell.

    ``answers`` are those that `check` took down, by question; ``error`` is the name of an exception and its text.
    ``interrupted``: it took too long.
    """

    answers: dict
    error: tuple[str, str] | None = None
    interrupted: bool = False


class Apart:
    """A process that runs cells, for as long as its block lasts.

    Parameters
    ----------
    fenced : bool
        With the fences of the sandbox, too, as far as this system has them. Else only what `bare.py` refuses.
    descriptors : list of int
        That it inherits: of an oracle.
    files : dict
        What lies in its folder: names, and where they are copied from.
    limits : dict
        Other than `LIMITS`.

    Attributes
    ----------
    folder : Path
        The working folder.
    stands : list of str
        What the fences around it are made of; whether each of them stands is tried by `fences.py` only.

    Raises
    ------
    NotApart
        If no such process can be started.
    """

    def __init__(self, *, fenced=False, files=(), descriptors=(), **limits):
        self._fenced, self._files, self._descriptors = fenced, dict(files), list(descriptors)
        self._limits, self._process, self.stands = {**LIMITS, **limits}, None, []

    def __enter__(self):
        self._scratch = Path(tempfile.mkdtemp(prefix="coursework-")).resolve()
        try:
            if self._fenced:
                self._start_fenced()
            else:
                self._start()
            self._line()  # it is ready
        except EOFError:
            said = (self._scratch / "said").read_text(encoding="utf-8", errors="replace").strip()
            self.__exit__()
            raise NotApart(said.splitlines()[-1][:500] if said else "its process said nothing") from None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self._process is not None:
            self._end()
            for stream in (self._told, self._says):
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def folder(self) -> Path:
        return self._scratch / "submission"

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, inputs) -> None:
        """What `check` finds from now on: by question, its cases and facts as data."""
        self._inputs.write_text(json.dumps(inputs), encoding="utf-8")
        os.chmod(self._inputs, 0o644)

    def run(self, cell) -> Ran:
        """Run a cell, and wait for it.

        Raises
        ------
        EOFError
            If the process ended in it.
        """
        watch = Watch(self, seconds=self._limits["cell_seconds"], patience=self._limits["cell_patience"])
        try:
            said = self._said({"cell": cell})
        finally:
            watch.end()
        answers = {each["name"]: each["answers"] for each in said["answers"]}
        return Ran(answers, said["error"] and tuple(said["error"]), watch.interrupted)

    # what Watch asks of a process

    def send_signal(self, number):
        if sys.platform == "win32":  # there is no such signal for one process
            self._process.kill()
        else:
            self._process.send_signal(number)

    def kill(self):
        self._process.kill()

    def _end(self):
        self._process.kill()
        self._process.wait()

    def _options(self, library, ipython):
        return {
            "ipython": str(ipython), "library": str(library), "modules": sorted(importable()),
            "readable": [str(library), str(self._inputs), str(ipython), *_of_python(),
                         *filter(os.path.exists, _SYSTEM)],
            "writable": [str(self.folder), os.devnull],
        }

    def _surroundings(self):
        return {INPUTS: str(self._inputs), "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}

    def _start(self):
        library = self._scratch / "library" / "coursework"
        for folder in (library, self.folder, self._scratch / "ipython"):
            folder.mkdir(parents=True)
        for name, source in SHIPPED.items():
            shutil.copyfile(source, library / name)
        for name, source in self._files.items():
            shutil.copyfile(source, self.folder / name)
        self._inputs = self._scratch / "inputs.json"
        self.tell({})
        options = self._scratch / "options.json"
        options.write_text(json.dumps(self._options(library.parent, self._scratch / "ipython")), encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "SYSTEMROOT", "TZ")}
        inherited = {"pass_fds": self._descriptors} if self._descriptors else {}
        with open(self._scratch / "said", "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_BARE), str(options)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, cwd=self.folder, start_new_session=True, **inherited,
                env={**kept, "HOME": str(self.folder), "TMPDIR": str(self.folder), **self._surroundings()})
        self._told, self._says = self._process.stdin, self._process.stdout

    def _start_fenced(self):
        from ..fences.fenced import Fenced, NotFenced, layers_here
        from ..fences.fenced_kernel import IPYTHON

        layers = layers_here()
        fenced = Fenced(self._scratch, layers, address_space=self._limits["address_space"],
                        seconds=allowed(self._limits["processor_seconds"]))
        fenced.give("fences/bare.py", (_BARE).read_bytes())
        for name, source in SHIPPED.items():
            library = fenced.give(f"library/coursework/{name}", source.read_bytes()).parents[1]
        for name in IPYTHON:
            fenced.give(f"ipython/{name}", b"")
        for name, source in self._files.items():
            shutil.copyfile(source, self.folder / name)
        self._inputs = fenced.give("inputs.json", b"{}")
        (told, ours), (says, theirs) = os.pipe(), os.pipe()
        self._told, self._says = open(ours, "wb"), open(says, "rb")
        self._process, self._end = fenced, fenced.end
        try:
            fenced.start("cells", descriptors=[told, theirs, *self._descriptors], lines=[told, theirs],
                         surroundings=self._surroundings(), library=str(library),
                         cells=self._options(library, fenced.given / "ipython"))
        except NotFenced as error:
            raise NotApart(f"its fences could not be raised: {error}") from None
        finally:
            os.close(told)
            os.close(theirs)
        self.stands = layers.names

    def _said(self, message):
        try:
            self._told.write(json.dumps(message).encode() + b"\n")
            self._told.flush()
        except OSError:
            raise EOFError(ENDED) from None
        return json.loads(self._line())

    def _line(self):
        line = self._says.readline()
        if not line.endswith(b"\n"):
            raise EOFError(ENDED)
        return line


@functools.cache
def importable() -> frozenset:
    """The modules of `MODULES` and of what they need, as they are installed here."""
    from packaging.requirements import Requirement

    found, todo, seen = {"coursework"}, list(MODULES), set()
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # it is needed on another system
            continue
        for file in distribution.files or ():
            top = file.parts[0]
            if top.endswith(".py") or len(file.parts) > 1 and not top.endswith((".dist-info", ".data", "..")):
                found.add(top.removesuffix(".py"))
            elif top.endswith((".so", ".pyd")):
                found.add(top.partition(".")[0])
        for line in distribution.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(requirement.name)
    return frozenset(found)


def _of_python():
    """The folders of Python and of what is installed for it."""
    paths = sysconfig.get_paths()
    return sorted({sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)),
                   *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))})

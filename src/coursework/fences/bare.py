"""The process in which a student's cells run apart, at home: with Python's own modules and NumPy. It knows no answers.

    python -I bare.py OPTIONS

OPTIONS is a JSON file that `apart.py` writes; behind fences, `sandbox.py` calls `serve`. What a submission cannot have
or do where it is graded is refused here in the same way, on every system: other modules, files elsewhere, other
processes, the network. That keeps no attacker out, as fences do; it is there so that a student sees at home what the
grader will see. Cells come in as lines of JSON, and what became of them goes out in the same way.
"""

import errno
import itertools
import json
import os
import signal
import sys

#: Media type of the answers in a cell's output; `checking.ANSWERS`, which is not importable yet where it is needed.
_ANSWERS = "application/vnd.coursework.answers+json"
_STARTS_A_PROCESS = ("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn",
                     "os.startfile", "pty.spawn")
_SPEAKS = ("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")
_LISTS = ("os.listdir", "os.scandir")
_CHANGES = ("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink",
            "os.truncate", "os.utime", "shutil.rmtree")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class OnlyThese:
    """In the place of Python's importers: finds what they find, if it is one of these names, or Python's own."""

    def __init__(self, names, finders):
        self._names, self._finders = {*names, *sys.stdlib_module_names, *sys.builtin_module_names}, list(finders)

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in self._names and not top.startswith("_sysconfigdata"):  # Python's own, named by the system
            return None
        found = (finder.find_spec(name, path, target) for finder in self._finders)
        return next((spec for spec in found if spec is not None), None)

    def find_distributions(self, *arguments):
        """As `importlib.metadata` asks for them."""
        return itertools.chain.from_iterable(
            finder.find_distributions(*arguments) for finder in self._finders if hasattr(finder, "find_distributions"))


def only(names):
    """Let nothing be imported from now on but these modules and Python's own."""
    sys.meta_path[:] = [OnlyThese(names, sys.meta_path)]


class Refusals:
    """An audit hook: raises what the system raises where submissions are graded.

    Parameters
    ----------
    readable, writable : lists of paths
        Of folders and files; everything in a folder.
    """

    def __init__(self, readable, writable):
        self._writable = [os.path.realpath(path) for path in writable]
        self._readable = [*(os.path.realpath(path) for path in readable), *self._writable]

    def __call__(self, event, arguments):
        if event == "open":
            path, _, flags = arguments
            self._look(path, self._writable if (flags or 0) & _WRITING else self._readable)
        elif event in _STARTS_A_PROCESS:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        elif event in _SPEAKS:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        elif event in _LISTS:
            self._look(arguments[0], self._readable)
        elif event in _CHANGES:
            for path in arguments:
                if isinstance(path, (str, bytes)):
                    self._look(path, self._writable)
        elif event == "os.kill" and arguments[0] != os.getpid():
            raise PermissionError(errno.EPERM, "Operation not permitted")

    def _look(self, path, allowed):
        if path is None:
            path = "."
        if isinstance(path, int):  # a file that is open already
            return
        there = os.path.realpath(os.fsdecode(path))
        if not any(there == each or there.startswith(each.rstrip(os.sep) + os.sep) for each in allowed):
            raise PermissionError(errno.EACCES, "Permission denied", os.fsdecode(path))


class Cells:
    """Runs cells, and says what became of them.

    Parameters
    ----------
    shell : InteractiveShell
    """

    def __init__(self, shell):
        self._shell, self._running = shell, False
        signal.signal(signal.SIGINT, self._interrupted)

    def _interrupted(self, *_):
        if self._running:  # else the cell that was meant has come to its end
            raise KeyboardInterrupt

    def run(self, text):
        """``{"answers": list of what was answered, "error": [name, value] or None}``"""
        self._shell.display_pub.outputs = []
        try:
            self._running = True
            result = self._shell.run_cell(text, store_history=True)
            self._running = False
            error = result.error_before_exec or result.error_in_exec
        except KeyboardInterrupt as interrupted:  # between IPython's lines
            error = interrupted
        self._running = False
        answers = [output["data"][_ANSWERS] for output in self._shell.display_pub.outputs if _ANSWERS in output["data"]]
        return {"answers": answers, "error": error and [type(error).__name__, _text(error)]}


def _text(error):
    try:
        return str(error)[:500]
    except Exception:  # somebody's own class
        return ""


def _shell(settings_in):
    """IPython without a terminal, a history and colours; what is displayed is kept."""
    import tempfile

    from IPython.core import interactiveshell
    from IPython.core.displaypub import CapturingDisplayPublisher
    from traitlets import Type
    from traitlets.config import Config

    tempfile.tempdir = os.getcwd()  # it is asked for at every cell, and must not be looked for by writing
    interactiveshell.get_ipython_dir = lambda: settings_in  # though it may not be writable

    class Shell(interactiveshell.InteractiveShell):
        display_pub_class = Type(CapturingDisplayPublisher)

    settings = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"colors": "nocolor"}})
    return Shell.instance(config=settings)


def serve(options, told, said):
    """Run the cells that come in through one descriptor, and say what became of them through the other."""
    import numpy  # noqa: F401  (before anything is refused: both import much)

    nowhere = os.open(os.devnull, os.O_RDWR)
    cells = Cells(_shell(options["ipython"]))
    only(options["modules"])
    with open(told, encoding="utf-8") as lines, open(said, "w", encoding="utf-8") as out:
        sys.addaudithook(Refusals(options["readable"], options["writable"]))
        print("ready", file=out, flush=True)
        os.dup2(nowhere, 2)  # until here, what went wrong was said there
        for line in lines:
            print(json.dumps(cells.run(json.loads(line)["cell"])), file=out, flush=True)


def main():
    """Without the sandbox: what cells print or read goes nowhere, and the lines are where input and output were."""
    with open(sys.argv[1], encoding="utf-8") as file:
        options = json.load(file)
    told, said = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    sys.path.insert(0, options["library"])
    serve(options, told, said)


if __name__ == "__main__":
    main()

"""Tries each fence by forbidden acts in a process like a submission's, and looks at their aim. It grades nobody.

That an act was refused is not believed: a file that must not change is compared afterwards, a process that must not be
ended is looked for, and a socket that must not be reached is asked who came.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import acts
from .acts import ACTS, MARK
from .fenced import DISK, FILES, Fenced, NotFenced, scratch_folder

__all__ = ["possible", "tried"]

_ADDRESS_SPACE = 2**32  # of the probes, as of submissions; what is asked for is as much
_SECONDS = 60  # of processor time; of the probe of time itself, which has to take all of it:
_SECONDS_OF_TIME = 1
_THREADS = 1500  # that are started, if nothing stops them
_AT_ONCE = 4  # probes
_UNTIL_COUNTED = 3.0  # seconds on the clock: files are counted ten times a second
#: What stops these acts ends the process that tries them.
_ENDED_BY = ("time", "disk by number")
_SURROUNDINGS = "COURSEWORK_MARK"  # an environment variable of the grader


class _Aim:
    """What the acts of one fence aim at. It is open to everybody, so that nothing but the fence protects it."""

    def __init__(self, folder, real):
        self._folder = Path(folder)
        os.chmod(self._folder, 0o777)
        self.file = self._folder / "outside.txt"
        self.file.write_text(MARK, encoding="utf-8")
        os.chmod(self.file, 0o666)
        self._name = f"coursework-{secrets.token_hex(8)}"
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._stream, self._datagrams = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._abstract = socket.socket(socket.AF_UNIX)
        for line, name in (self._stream, "stream"), (self._datagrams, "datagrams"):
            line.bind(str(self._folder / name))
            os.chmod(self._folder / name, 0o777)
        if sys.platform.startswith("linux"):
            self._abstract.bind("\0" + self._name)
            self._abstract.listen()
        self._stream.listen()
        self._process = subprocess.Popen([sys.executable, "-I", "-c", f"import time; time.sleep(10**6)  # {MARK}"],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL, env={"MARK": MARK})
        self.data = {
            "file": str(self.file), "real": [str(path) for path in real], "tcp": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1], "stream": str(self._folder / "stream"), "abstract": self._name,
            "datagrams": str(self._folder / "datagrams"), "process": self._process.pid, "grader": os.getpid(),
            "address_space": _ADDRESS_SPACE, "seconds": _SECONDS_OF_TIME, "threads": _THREADS, "disk": DISK,
            "left": str(self.file), "files": FILES + 1000, "until_counted": _UNTIL_COUNTED,
        }
        self._before = self._looks()

    def _looks(self):
        """The file and its folder as they are, besides when they were last read."""
        about, entries = self.file.stat(), sorted(path.name for path in self._folder.iterdir())
        attributes = os.listxattr(self.file) if hasattr(os, "listxattr") else []
        return (self.file.read_bytes(), about.st_mode, about.st_uid, about.st_gid, about.st_mtime_ns, about.st_nlink,
                attributes, entries)

    def harmed(self):
        """What happened to it, as sentences."""
        found = []
        try:
            if self._looks() != self._before:
                found.append("a file outside or its folder was changed")
        except OSError:
            found.append("a file outside was removed")
        if self._process.poll() is not None:
            found.append("another process was ended")
        for line, who in ((self._tcp, "the network"), (self._stream, "a socket in a folder"),
                          (self._abstract, "an abstract socket"), (self._udp, "the network, by a datagram"),
                          (self._datagrams, "a socket in a folder, by a datagram")):
            line.setblocking(False)
            with contextlib.suppress(OSError):  # nobody came
                if line in (self._udp, self._datagrams):
                    line.recv(100)
                else:
                    line.accept()[0].close()
                found.append(f"{who} was reached")
        return found

    def close(self):
        for line in (self._tcp, self._udp, self._stream, self._datagrams, self._abstract):
            line.close()
        self._process.kill()
        self._process.wait()


def tried(fence, layers, *, real=()) -> dict:
    """What came of each act that this fence has to stop, in words of the process; and what happened to their aim.

    An empty text means that it was possible. ``{"": text}`` says that the process could not be started, or ended.
    """
    with tempfile.TemporaryDirectory(prefix="coursework-aim-") as folder, \
            contextlib.closing(_Aim(folder, real)) as aim:
        if fence == "leftovers":
            with _cleaned(aim):
                first = _run("leftovers", layers, aim)
                return first if "" in first else _run("leftovers found", layers, aim)
        found = _run(fence, layers, aim)
        if fence == "disk" and "" not in found:
            found |= _run("disk by number", layers, aim)
        return found | {harm: "" for harm in aim.harmed()}


def _run(fence, layers, aim):
    """One process that tries the acts."""
    seconds = _SECONDS_OF_TIME if fence == "time" else _SECONDS
    with scratch_folder() as scratch:
        fenced = Fenced(scratch, layers, address_space=_ADDRESS_SPACE, seconds=seconds)
        try:
            fenced.start("acts", fence=fence, victims=aim.data)
            found = fenced.report()
            user = fenced.user
        except NotFenced as error:
            return {"": str(error)}
        finally:
            fenced.end()
    if not found:
        return ({act.__name__: "it was ended" for act in ACTS[fence]} if fence in _ENDED_BY
                else {"": "it ended too early"})
    found = json.loads(found)
    if fence == "privileges" and user == 0:
        found["be root"] = ""
    return found


@contextlib.contextmanager
def _cleaned(aim):
    """Before and after: what is left by the acts would be found by the next probe."""
    def clean():
        for path in acts._left_paths(aim.data):
            with contextlib.suppress(OSError):
                os.unlink(path)
        if sys.platform.startswith("linux"):
            libc, remove = ctypes.CDLL(None), 0  # linux/ipc.h, IPC_RMID
            libc.shmctl(libc.shmget(acts._KEY, acts._SIZE, 0), remove, None)
            libc.msgctl(libc.msgget(acts._KEY, 0), remove, None)
            with contextlib.suppress(OSError, KeyError):
                acts.revoke_the_key(aim.data)

    clean()
    try:
        yield
    finally:
        clean()


def possible(fences, layers, *, real=()) -> dict:
    """What a submission could do that these fences are to stop: by fence, as a list of words; empty if it stands."""
    def of(fence):
        found = tried(fence, layers, real=real)
        if "" in found:
            return [f"it could not be tried: {found['']}"]
        return [act.replace("_", " ") for act, why in found.items() if not why]

    os.environ[_SURROUNDINGS] = MARK
    try:
        with ThreadPoolExecutor(_AT_ONCE) as at_once:
            return dict(zip(fences, at_once.map(of, fences), strict=True))
    finally:
        del os.environ[_SURROUNDINGS]

"""Starts a process behind the fences, and stays in touch with it from outside. What may be fenced off is `fences.py`'s.

Nothing that a submission's process can write is shared with the grader. What it is given lies in a folder that it can
only read; what it says goes through descriptors that it inherits.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import bubblewrap, landlock, seccomp

__all__ = ["DISK", "FILES", "Fenced", "Layers", "NotFenced", "layers_here", "pair", "scratch_folder"]

_PACKAGE = Path(__file__).parent
_INSIDE = ("sandbox.py", "landlock.py", "seccomp.py", "acts.py")
#: Bytes that all files of a submission may have together, with some room for what a file system needs itself.
DISK = sum(bubblewrap.IN_MEMORY.values()) + 32 * 2**20
#: Files, folders and links that a submission may have in one of its folders. Each takes a kilobyte of the kernel's
#: memory that no limit counts, and a file system in memory has room for millions.
FILES = 20_000
#: Of a user that has nothing anywhere: systemd's list of users has this number among those that nothing uses.
NOBODY = 65533
_PATIENCE = 600.0  # seconds on the clock for a process to start: more than any machine takes, however busy
_GLANCE = 0.1  # seconds from one look at a process that says nothing to the next
_REPORT = 2**16  # bytes
#: What else may be read, and is made by the kernel; of the processes only its own.
_PROC = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm/overcommit_memory")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")
#: A line of messages that keeps them apart; macOS has no such for connected ones.
_MESSAGES = getattr(socket, "SOCK_SEQPACKET", socket.SOCK_DGRAM) if sys.platform != "darwin" else socket.SOCK_DGRAM
_CREDENTIALS = struct.Struct("3i")  # struct ucred: process, user, group


class NotFenced(Exception):
    """A process could not be put behind its fences; nothing of a submission has run in it."""


@dataclass(frozen=True)
class Layers:
    """What fences are made of here. Which of them stand is another question, answered by `probing.py`."""

    #: Where bubblewrap is, if it is to be used.
    bubblewrap: str | None = None
    #: The version of Landlock.
    landlock: int = 0
    #: If there is a filter of system calls.
    seccomp: bool = False
    #: The user that a submission becomes, if the grader is root.
    user: int | None = None
    #: Why something is left out, as sentences.
    remarks: tuple[str, ...] = field(default=())

    @property
    def names(self):
        return [name for name, there in (("bubblewrap", self.bubblewrap), (f"Landlock {self.landlock}", self.landlock),
                                         ("seccomp", self.seccomp)) if there]


def pair():
    """Both ends of a line of messages: the grader's, and the one that a process inherits."""
    return socket.socketpair(socket.AF_UNIX, _MESSAGES)


class Fenced:
    """A process behind the fences.

    Parameters
    ----------
    scratch : path-like
        A new folder, for what the process is given (`given`), and its own (`folder`).
    layers : Layers
    address_space, seconds : int
        Bytes of memory, and processor time.

    Attributes
    ----------
    pid, user : int
        As they are outside, after :meth:`start`.
    """

    def __init__(self, scratch, layers, *, address_space, seconds):
        self.layers, self._limits = layers, {"address_space": address_space, "seconds": seconds}
        self.scratch = Path(scratch).resolve()
        self.given, self.folder = self.scratch / "given", self.scratch / "submission"
        self.process, self.pid, self.user, self._handle = None, None, None, None
        self._counting, self._ended = None, threading.Event()
        os.chmod(self.scratch, 0o711)  # a submission may be another user's; what lies in it has other names each time
        for folder in (self.given, self.folder, self.given / "fences"):
            folder.mkdir()
            os.chmod(folder, 0o755)
        for name in _INSIDE:
            self.give(f"fences/{name}", (_PACKAGE / name).read_bytes())

    def give(self, name, content):
        """Write a file that the process can read, also while it runs; its path."""
        path = self.given / name
        for folder in reversed([each for each in path.parents if each.is_relative_to(self.given)]):
            folder.mkdir(exist_ok=True)
            os.chmod(folder, 0o755)
        path.write_bytes(content)
        os.chmod(path, 0o644)
        return path

    def start(self, task, *, descriptors=(), surroundings=None, **options):
        """Start the process, and wait until its fences are raised.

        Parameters
        ----------
        task : str
            Of `sandbox.py`: what it does behind them, with the options.
        descriptors : list of int
            That it inherits, besides its line to here.
        surroundings : dict
            More of its environment.

        Raises
        ------
        NotFenced
            If that could not be done; with what the process said.
        """
        ours, theirs = pair()
        seen = [str(self.given), *bubblewrap.python_and_its_libraries()]
        layers, wrapped = self.layers, self.layers.bubblewrap is not None
        writable = [path or str(self.folder) for path in bubblewrap.IN_MEMORY] if wrapped else []
        options |= {
            **self._limits, "task": task, "report": theirs.fileno(), "alone": wrapped or layers.user is not None,
            "user": layers.user, "landlock": layers.landlock, "seccomp": layers.seccomp, "writable": writable,
            "readable": [*seen, str(self.folder), *_PROC], "devices": _DEVICES,
            "dies_with_parent": sys.platform.startswith("linux"), "folder": str(self.folder),
        }
        surroundings = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(self.folder),
                        "TMPDIR": str(self.folder), **(surroundings or {})}
        line = [sys.executable, "-I", str(self.given / "fences" / "sandbox.py"),
                str(self.give("options.json", json.dumps(options).encode()))]
        if wrapped:
            line = bubblewrap.command(layers.bubblewrap, folder=self.folder, readable=seen, surroundings=surroundings,
                                      as_root=layers.user is not None) + line
        said = self.scratch / "said"
        with theirs, open(said, "wb") as file:
            if _linux():
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            try:
                self.process = subprocess.Popen(
                    line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=file, env=surroundings,
                    cwd=self.folder, start_new_session=True, pass_fds=[theirs.fileno(), *descriptors])
            except OSError as error:
                ours.close()
                raise NotFenced(str(error)) from error
        self._report = ours
        message, self.pid, self.user = self._heard()
        if not message:
            self.end()
            why = said.read_text(encoding="utf-8", errors="replace").strip()
            raise NotFenced(f"{why.splitlines()[-1][:500] if why else 'It said nothing.'}")
        with contextlib.suppress(OSError, AttributeError):  # it has ended, or there is no such thing here
            self._handle = os.pidfd_open(self.pid)
        if wrapped:
            self._counting = threading.Thread(target=self._count, args=(writable,), daemon=True)
            self._counting.start()

    def _heard(self):
        """A message of the process, with its number and its user's as the kernel knows them; empty if it has ended."""
        room, end = socket.CMSG_SPACE(_CREDENTIALS.size) if _linux() else 0, time.monotonic() + _PATIENCE
        self._report.setblocking(False)
        while True:
            ended = self.process.poll() is not None or time.monotonic() > end
            try:
                message, beside, *_ = self._report.recvmsg(_REPORT, room)
                break
            except BlockingIOError:
                if ended:  # without a word: a line of messages does not tell everywhere that nobody is there
                    return b"", self.process.pid, os.getuid()
                select.select([self._report], [], [], _GLANCE)
            except OSError:
                return b"", self.process.pid, os.getuid()
        for level, kind, data in beside:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) == _CREDENTIALS.size:
                pid, user, _ = _CREDENTIALS.unpack(data)
                return message, pid, user
        return message, self.process.pid, os.getuid()

    def _count(self, folders):
        """Kill the process once it has more files than it may, in folders that are seen as it sees them."""
        while not self._ended.wait(_GLANCE):
            for folder in folders:
                try:
                    there = os.statvfs(f"/proc/{self.pid}/root{folder}")
                except OSError:  # it has ended
                    return
                if there.f_files - there.f_ffree > FILES:
                    self.send_signal(signal.SIGKILL)
                    return

    def report(self):
        """What it says in the end; nothing if it comes to another end."""
        return self._heard()[0]

    def poll(self):
        return self.process.poll()

    def wait(self):
        return self.process.wait()

    def send_signal(self, number):
        """To the process itself, not to what stands around it. If it has ended, nothing happens."""
        with contextlib.suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            elif self.pid == self.process.pid:
                self.process.send_signal(number)

    def kill(self):
        """End it, and what stands around it."""
        self.send_signal(signal.SIGKILL)
        self.process.kill()

    def end(self):
        """Kill it if it runs, and let go of it."""
        self._ended.set()
        if self._counting is not None:
            self._counting.join()
        if self.process is not None:
            self.kill()
            self.process.wait()
            self._report.close()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _linux():
    return sys.platform.startswith("linux")


def closed_to_others(paths):
    """The first folder on the way to one of these that another user may not enter; None if there is none."""
    for path in paths:
        for folder in reversed(Path(os.path.realpath(path)).parents):
            if not folder.stat().st_mode & 0o001:
                return folder
    return None


def layers_here(*, without=()) -> Layers:
    """What there is on this machine, less what is named: "bubblewrap", "landlock" or "seccomp".

    Bubblewrap is tried: where it is installed it may still not be allowed.
    """
    remarks, root = [], os.getuid() == 0
    layers = Layers(landlock=0 if "landlock" in without else landlock.version(),
                    seccomp="seccomp" not in without and seccomp.stands_here(), user=NOBODY if root else None)
    if "bubblewrap" not in without:
        program = bubblewrap.found()
        if program is None:
            remarks.append("bubblewrap (bwrap) is not installed." if _linux() else
                           "Most fences are made of what only Linux has.")
        else:
            wrapped = Layers(program, layers.landlock, layers.seccomp, layers.user)
            try:
                _try(wrapped)
                return wrapped
            except NotFenced as error:
                remarks.append(f"bubblewrap does not run here: {error}")
    closed = closed_to_others([sys.prefix, sys.base_prefix]) if root else None
    if closed:  # without bubblewrap, somebody else could not even start Python
        remarks.append(f"Submissions run as root: Python lies below {closed}, which other users may not enter.")
    return Layers(None, layers.landlock, layers.seccomp, None if closed else layers.user, tuple(remarks))


def _try(layers):
    with scratch_folder() as scratch:
        fenced = Fenced(scratch, layers, address_space=2**30, seconds=60)
        try:
            fenced.start("acts", fence="nothing", victims={})
        finally:
            fenced.end()


@contextlib.contextmanager
def scratch_folder():
    """A folder for one process; what the process has left in it is removed in any case."""
    folder = tempfile.mkdtemp(prefix="coursework-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

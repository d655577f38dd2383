"""Runs a function in a process of its own, a copy of this one, with limits of memory and time. It grades nothing.

The grader reads what strangers have written. Whatever that does to it, to the one copy that reads it: it may take all
its memory, or never end, and nobody else's work is lost.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings

__all__ = ["Ended", "in_a_child"]

_PIECE = 2**16  # bytes
_DONE, _RAISED = "done", "raised"


class Ended(Exception):
    """The process came to an end without a word; the message says what ended it."""


def in_a_child(function, *, memory, seconds):
    """What ``function()`` returns, or raises; both have to be something that can be pickled.

    Parameters
    ----------
    function : callable
    memory : int
        Bytes of address space that it may take besides what is taken already. Known on Linux only; elsewhere the
        function runs here, without limits.
    seconds : float
        On the clock.

    Raises
    ------
    Ended
        If the process ends before it is done, or takes too long.

    Examples
    --------
    >>> in_a_child(lambda: 6 * 7, memory=2**30, seconds=60)
    42
    """
    if not sys.platform.startswith("linux"):
        return function()
    sys.stdout.flush()
    sys.stderr.flush()
    folder = tempfile.mkdtemp(prefix="coursework-")  # of all that it makes, and may not come to remove
    os.chmod(folder, 0o711)
    out, into = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: those of linear algebra are idle
        pid = os.fork()
    if pid == 0:
        os.close(out)
        _be_the_child(function, memory, folder, into)
    os.close(into)
    try:
        said, in_time = _read(out, time.monotonic() + seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        os.close(out)
        shutil.rmtree(folder, ignore_errors=True)
    if not in_time:
        raise Ended(f"it had not come to an end after {seconds:g} s")
    try:
        how, what = pickle.loads(said)
    except Exception:  # there is nothing, or not all
        raise Ended("its process took more memory than it is given, or was killed by signal "
                    f"{os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "its process said nothing") from None
    if how == _RAISED:
        raise what
    return what


def _be_the_child(function, memory, folder, into):
    """Never returns."""
    try:
        tempfile.tempdir = folder
        most, hard = _address_space() + memory, resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        try:
            said = pickle.dumps((_DONE, function()))
        except BaseException as error:  # it is raised again where it can be dealt with
            said = pickle.dumps((_RAISED, error))
        sys.stdout.flush()
        sys.stderr.flush()
        with open(into, "wb") as file:  # after this it may be killed at any time
            file.write(said)
    finally:
        os._exit(0)


def _address_space():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmSize:"))


def _read(out, end):
    """All that is said until then, and whether it was said in time."""
    pieces = []
    while (left := end - time.monotonic()) > 0:
        if select.select([out], [], [], left)[0]:
            piece = os.read(out, _PIECE)
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)
    return b"", False

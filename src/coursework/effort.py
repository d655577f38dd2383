"""How fast an answer is, and how much memory it takes: measured at home by itself, in grading from another process.

A submission's own clocks are not asked: it could have changed them. Nor does it know the cases before its clock is
running. What counts is the processor time of all its threads, which other users of the machine change little.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np

from .asking import ask
from .questions.question import Faster

__all__ = ["Meter", "clock_of", "measured_here", "said", "share", "slow_seconds", "sufficient"]

_ROUNDS = 3  # of measuring at home
_LIBRARIES = 40 * 2**20  # bytes that a kernel takes for NumPy, and for what asks


def sufficient(effort, found) -> bool:
    """If this factor, or this share, is what is asked for."""
    return found >= effort.times if isinstance(effort, Faster) else found <= effort.share


def said(effort, found) -> str:
    """A sentence on what was found."""
    if isinstance(effort, Faster):
        text, asked = f"It is {found:.1f} times as fast as the given one", f"at least {effort.times:g} times"
    else:
        text, asked = f"At its peak it takes {found:.2f} times the memory of {effort.what}", f"at most {effort.share:g}"
    return f"{text}; asked for: {asked}." + ("" if sufficient(effort, found) else f" {effort.hint}")


def _large(cases):
    return [case for case in cases if case.large]


def share(effort, cases, taken) -> float:
    """Bytes as a part of the array that one large case would make."""
    return taken / max(8 * np.prod(effort.shape(**case.arguments)) for case in _large(cases))


def slow_seconds(effort, cases) -> float:
    """Processor time of this thread that the slow answer takes for the large cases, which all have one size."""
    one, *others = _large(cases)
    begin = time.thread_time()
    effort.slow(**one.arguments)
    return (time.thread_time() - begin) * (1 + len(others))


def measured_here(effort, cases, answer) -> float:
    """The factor or the share, in this process: for a student's own eyes, and believing what is measured."""
    if isinstance(effort, Faster):
        data = [case.as_data() for case in _large(cases)]
        return statistics.median(_factor(effort, cases, answer, data) for _ in range(_ROUNDS))
    tracemalloc.start()
    try:
        held, _ = tracemalloc.get_traced_memory()
        for case in _large(cases):
            answer(*(np.copy(value) for value in case.arguments.values()))
        return share(effort, cases, tracemalloc.get_traced_memory()[1] - held)
    finally:
        tracemalloc.stop()


def _factor(effort, cases, answer, data):
    slow, begin = slow_seconds(effort, cases), time.process_time()
    ask(answer, data)
    return slow / (time.process_time() - begin)


def clock_of(pid):
    """A function without arguments: seconds of processor time of all threads of a process, those that ended included.

    Raises
    ------
    OSError
        If they cannot be read here, which is outside Linux, or if there is no such process.
    """
    if not sys.platform.startswith("linux"):
        raise OSError("time and memory of another process can be measured on Linux only")
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(f"process {pid} has no clock")
    return partial(time.clock_gettime, clock.value)


class Meter:
    """Processor time and memory of another process, on Linux.

    Parameters
    ----------
    pid : int
        Of a process that has not yet run anything foreign: what it holds now is held by any submission.

    Raises
    ------
    OSError
        If they cannot be read here.
    """

    def __init__(self, pid):
        self._clock, self._folder = clock_of(pid), Path("/proc", str(pid))
        self._fresh = self._held("VmRSS")

    def start(self):
        (self._folder / "clear_refs").write_text("5")  # the peak is now what it holds
        # what a submission has stored up beforehand it could use again; so not all of that is left out
        self._before = min(self._held("VmRSS"), self._fresh + _LIBRARIES)
        self._begin = self._clock()

    def stop(self):
        """Seconds of all threads since the start, those that have ended included; bytes at the peak since then."""
        return self._clock() - self._begin, self._held("VmHWM") - self._before

    def _held(self, what):
        for line in (self._folder / "status").read_text().splitlines():
            if line.startswith(what):
                return 1024 * int(line.split()[1])
        raise OSError(f"the process has no {what}")

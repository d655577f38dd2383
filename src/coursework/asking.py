"""Puts a question to somebody's code: calls it on each case, and takes down what came back. It judges nothing.

This file, `calibration.py`, `calling.py`, `checking.py`, `encoding.py` and NumPy are all that is importable where
submissions run. What is asked comes as data, and what is answered leaves as data, so that nothing which that code does
to its process can change a mark.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import signal
import threading
from time import thread_time  # this function, whatever a submission puts into its place later

import numpy as np

from .calibration import Used
from .calling import Elsewhere
from .encoding import decoded, encoded

__all__ = ["INPUTS", "PATIENCE", "SECONDS", "SPARE", "ask", "namespace", "released"]

#: Environment variable with the file of cases, where answers are only taken down.
INPUTS = "COURSEWORK_INPUTS"
#: Processor time that one call may take, in seconds of the machine of `calibration.py`. A busy machine does not change
#: what that is, nor does a slow one.
SECONDS = 5.0
#: Seconds on the clock that one call may take. Only what sleeps gets there, or waits for what never comes.
PATIENCE = 120.0
#: Processor time of all cases together that are asked only if there is time to spare.
SPARE = 2.0
_SKIPPED = {"skipped": True}
_PRINTED = 2_000  # characters of output that are kept
_RUNNING, _WAITING = "still running after", "still waiting after"
_TICK = 0.01  # seconds: timers of processor time need not be more exact
_SAMPLE = 0.5  # seconds of processor time after which the machine's speed is looked at, and again


class _TooLong(BaseException):
    """Raised in the middle of a call; ``except Exception`` does not stop it."""


class _Printed(io.TextIOBase):
    """Keeps the first characters that are written, and counts the rest."""

    def __init__(self):
        self.text, self.left_out = "", 0

    def write(self, text):
        text = str(text)
        kept = text[:_PRINTED - len(self.text)]
        self.text += kept
        self.left_out += len(text) - len(kept)
        return len(text)

    def __str__(self):
        return f"{self.text}... and {self.left_out} characters more" if self.left_out else self.text


@contextlib.contextmanager
def _at_most(seconds, patience):
    """Ends what takes more processor time in its thread, or more time on the clock, than it may.

    Where signals can: in the main thread of a Unix process. How much was used is looked at every half second, beside
    what the machine takes for a fixed amount of work at that time.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    used, over = Used(thread_time, own=True), False

    def spent(*_):
        """The timer has counted all threads of the process, of which this is one."""
        if over:
            return
        if (left := seconds - used()) > 0:
            signal.setitimer(signal.ITIMER_PROF, min(max(left, _TICK), _SAMPLE))
        else:
            raise _TooLong(f"{_RUNNING} {seconds:g} s of processor time")

    def slept(*_):
        if not over:
            raise _TooLong(f"{_WAITING} {patience:g} s")

    before = signal.signal(signal.SIGPROF, spent), signal.signal(signal.SIGALRM, slept)
    signal.setitimer(signal.ITIMER_PROF, min(seconds, _SAMPLE))
    signal.setitimer(signal.ITIMER_REAL, patience)
    try:
        yield
    finally:
        over = True  # a signal that comes now comes too late
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, before[0])
        signal.signal(signal.SIGALRM, before[1])


def ask(answer, cases, *, seconds=SECONDS, patience=PATIENCE) -> list[dict]:
    """Call ``answer`` on each case, or take it as it is if it cannot be called.

    Parameters
    ----------
    answer : callable or value
    cases : list of dicts
        ``{"arguments": {name: encoded value}}``; arguments are handed over in this order. ``{"function": line}`` in the
        place of an encoded value is a function that is called through this line. A case without arguments asks for a
        value. If some arguments are packed, so is the answer. A case with ``"helpers"``, functions as above by name, is
        asked with these in the place of the functions of these names that ``answer`` calls. Those ``"with"`` another
        are put there only if there is such a name, and left out if there is an error with them. A case with ``"spare"``
        is asked if there is time to spare; one with ``"skip"`` is not asked.
    seconds : float
        Processor time that one call may take.
    patience : float
        Seconds on the clock that one call may take, for those that sleep.

    Returns
    -------
    list of dicts
        For each case ``{"value": encoded}`` or ``{"error": text}``, and ``"printed"`` if something was; the names of
        helpers under ``"helped"``. ``{"skipped": True}`` is for a case that was not asked.

    Examples
    --------
    >>> case = {"arguments": {"x": encoded(3)}}
    >>> ask(lambda x: 2 * x, [case])
    [{'value': {'shape': [], 'dtype': 'int', 'values': [6]}}]
    >>> ask(lambda x: x / 0, [case])
    [{'error': 'ZeroDivisionError: division by zero'}]
    """
    answers, stuck, spare = [], {}, SPARE  # stuck: by whether helpers were in place
    for case in cases:
        helpers, is_spare = case.get("helpers", {}), case.get("spare", False)
        helped = bool(helpers)
        useless = helpers and not is_spare and not namespace(answer)
        if case.get("skip") or useless or is_spare and (stuck or spare <= 0):
            answers.append(dict(_SKIPPED))
        elif helped in stuck:  # the others are not waited for
            answers.append(dict(stuck[helped]))
        else:
            begin = thread_time()
            limit = min(seconds, spare) if is_spare else seconds
            found = _asked_with(answer, case, helpers, limit, patience)
            needed = {name: line for name, line in helpers.items() if "with" not in line}
            if len(needed) < len(helpers) and "error" in found and not found["error"].startswith((_RUNNING, _WAITING)):
                found = _asked_with(answer, case, needed, limit, patience)  # theirs may be of another kind
            if found.get("error", "").startswith((_RUNNING, _WAITING)):
                stuck[helped] = {"error": found["error"]}
                if is_spare:
                    found = dict(_SKIPPED)
            if is_spare:
                spare -= thread_time() - begin
            answers.append(found)
    return answers


def released(data, names) -> dict:
    """A case as data, with no other helpers than these. Without any it is not asked, unless there is time to spare."""
    if not data.get("helpers"):
        return data
    kept = {name: line for name, line in data["helpers"].items() if line.get("with", name) in names}
    return {**data, "helpers": kept} if kept or data.get("spare") else {"arguments": {}, "skip": True}


def namespace(answer) -> dict:
    """The names that a function finds where it was written; none if it is no function."""
    try:
        while isinstance(answer, functools.partial):
            answer = answer.func
        found = getattr(inspect.unwrap(answer), "__globals__", None) if callable(answer) else None
    except Exception:  # it is somebody's object
        found = None
    return found if type(found) is dict else {}


@contextlib.contextmanager
def _in_the_place_of(answer, helpers):
    """Puts helpers where an answer finds functions by name, and takes them away again; their names, if it finds any."""
    there = namespace(answer)
    helpers = {name: line for name, line in helpers.items() if "with" not in line or name in there}
    before = {name: there[name] for name in helpers if name in there}
    if there:
        there.update({name: Elsewhere(line["function"]) for name, line in helpers.items()})
    try:
        yield sorted(helpers) if there else []
    finally:
        for name in helpers if there else ():
            there.pop(name, None)
        there.update(before)


def _asked_with(answer, case, helpers, seconds, patience):
    with _in_the_place_of(answer, helpers) as names:
        found = _asked(answer, case, seconds, patience)
    return {**found, "helped": names} if names else found


def _asked(answer, case, seconds, patience):
    arguments = {name: _argument(value) for name, value in case["arguments"].items()}
    if arguments and not callable(answer):
        return {"error": f"{type(answer).__name__}; expected a function of {', '.join(arguments)}"}
    given = {name: np.copy(value) for name, value in arguments.items() if isinstance(value, np.ndarray)}
    packed = any("packed" in value for value in case["arguments"].values())
    printed, result = _Printed(), {}
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), _at_most(seconds, patience):
            value = answer(*arguments.values()) if arguments else answer
            result["value"] = encoded(value, packed=packed)
    except _TooLong as error:
        result = {"error": str(error)}
    except (Exception, SystemExit) as error:  # a submission may raise anything
        text = f"{type(error).__name__}: {error}"
        result = {"error": text[:500]}
    changed = [name for name, before in given.items() if not np.array_equal(before, arguments[name], equal_nan=True)]
    if changed:
        result = {"error": f"it changed its argument {changed[0]}"}
    if str(printed):
        result["printed"] = str(printed)
    return result


def _argument(value):
    """A number as a Python number, and not as an array without axes; a function as one that can be called."""
    if "function" in value:
        return Elsewhere(value["function"])
    value = decoded(value)
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value

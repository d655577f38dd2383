"""Asks a program about losses through JSON lines, as `answering.py` describes them: the side of the checker."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .._validation import check_choice
from .answering import CAN, PROTOCOL
from .encoding import decoded, encoded
from .subjects import PRECISIONS, NotAnswering, Refused, Subject

__all__ = ["Program"]

#: Seconds that a program may take until it has answered the first line, and one of the others.
START, PATIENCE = 300.0, 120.0


class Program:
    """A running program that answers; ``subject`` is the loss in it. To be used in a ``with`` statement.

    Parameters
    ----------
    command : list of str
    environment : mapping of str to str, optional
        Variables that it gets besides those of this process.
    patience : float
        Seconds on the clock for an answer.

    Raises
    ------
    NotAnswering
        On the way in, if it cannot be started or does not say what it is. An ended program is started anew when it is
        next asked, so that one bad input costs one answer.

    Examples
    --------
    >>> import sys
    >>> code = '''
    ... from reference_impl import ctc, log_softmax
    ... from reference_impl.conformance import answer
    ... def loss(inputs, precision):
    ...     logits, targets, blank = (inputs[name] for name in ("logits", "targets", "blank"))
    ...     return {"loss": ctc.loss(log_softmax(logits), targets, blank=blank),
    ...             "gradient": ctc.grad_logits(logits, targets, blank=blank)}
    ... answer(loss, name="mine", kind="ctc")
    ... '''
    >>> from reference_impl.conformance.identifying import identify
    >>> with Program([sys.executable, "-c", code]) as subject:
    ...     subject.name, identify(subject).whole
    ('mine', True)
    """

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str] = (), patience=PATIENCE):
        self.command, self.environment, self.patience = list(command), dict(environment), patience
        self._process = None

    def __enter__(self) -> Subject:
        try:
            about = self._about()
        except NotAnswering as error:
            name = self.command[0]
            raise error if str(error).startswith(name) else NotAnswering(f"{name}: {error}") from error
        problem = _fault(about)
        if problem:
            self._stop()
            raise NotAnswering(f"{self.command[-1]}: {problem}")
        subject = Subject(about["kind"], self._call, about.get("name", self.command[-1]), str(about.get("version", "")),
                          about.get("scores", "logits"),
                          tuple(sorted(about.get("precisions", ("float64",)), key=PRECISIONS.index)),
                          frozenset(about.get("can", ())))
        return replace(subject, call=lambda problem, scores, precision: self._call(subject, problem, scores, precision))

    def __exit__(self, *_):
        self._stop()

    def _about(self):
        """Start the program, and ask what it is."""
        self._errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, encoding="utf-8",
                env={**os.environ, **self.environment})
        except OSError as error:
            self._errors.close()
            raise NotAnswering(f"{self.command[0]}: {error}") from error
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=_read, args=(self._process.stdout, self._lines), daemon=True)
        self._reader.start()
        return self._answered({"id": "about", "ask": "about", "protocol": PROTOCOL}, START)

    def _stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            with contextlib.suppress(OSError):  # what it was still to be told
                self._process.stdin.close()
            self._process.stdout.close()
            self._errors.close()
            self._process = None

    def _call(self, subject, problem, scores, precision):
        if self._process is None:
            self._about()
        asked = {"id": problem.id, "ask": "loss", "precision": precision, "inputs": {
            subject.scores: encoded(scores), "targets": encoded(np.asarray(problem.targets, dtype=np.int64)),
            "blank": int(problem.blank)}}
        for name in ("logit_lengths", "target_lengths", "upstream"):
            if getattr(problem, name) is not None:
                asked["inputs"][name] = encoded(getattr(problem, name))
        if problem.fastemit_lambda:
            asked["inputs"]["fastemit_lambda"] = problem.fastemit_lambda
        try:
            found = self._answered(asked, self.patience)
        except NotAnswering as error:
            raise Refused(NotAnswering.__name__, str(error)) from error
        if "error" in found:
            error = found["error"]
            raise Refused(str(error.get("type", "Error")), str(error.get("message", "")))
        try:
            return {name: np.asarray(_array(value), dtype=np.float64) for name, value in found["outputs"].items()}
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            raise Refused(NotAnswering.__name__, f"no outputs: {error}") from error

    def _answered(self, asked, patience):
        with contextlib.suppress(OSError):  # a program that has ended takes nothing; what it said last is read
            self._process.stdin.write(json.dumps(asked, allow_nan=False) + "\n")
            self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            raise self._given_up(f"no answer after {patience:g} s") from None
        if not line:
            self._process.wait()
            said = f"the program ended with {_status(self._process.returncode)}"
            raise self._given_up(f"{said}: {words}" if (words := self._last_words()) else said)
        try:
            found = json.loads(line)
        except ValueError:
            raise self._given_up(f"no JSON: {line[:200]!r}") from None
        if not isinstance(found, dict) or found.get("id") != asked["id"]:
            raise self._given_up(f"no answer to {asked['id']!r}: {line[:200]!r}")
        return found

    def _given_up(self, why):
        """The error to raise; the program is stopped, and will be started anew when it is next asked."""
        self._stop()
        return NotAnswering(why)

    def _last_words(self):
        self._errors.seek(0)
        return " ".join(self._errors.read().split())[-500:]


def _read(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put("")


def _status(code):
    """The status of a process that ended, with the name of the signal if one ended it."""
    return f"status {code}" if code >= 0 else f"status {code} ({signal.Signals(-code).name})"


def _array(value):
    """A number, a list of numbers, or an array; dtype may be missing."""
    if isinstance(value, dict):
        return decoded({**value, "dtype": "float"})
    return [float(each) for each in value] if isinstance(value, list) else float(value)


def _fault(about):
    """What is wrong with what a program says of itself; empty if nothing is."""
    try:
        check_choice("kind", about.get("kind"), ("ctc", "rnnt"))
        check_choice("scores", about.get("scores", "logits"), ("logits", "log_probs"))
        for name, known in (("can", CAN), ("precisions", PRECISIONS)):
            if not isinstance(about.get(name, []), list):
                raise TypeError(f"{name} = {about[name]!r}; expected a list of {', '.join(map(repr, known))}")
            for each in about.get(name, ()):
                check_choice(name, each, known)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""

"""The functions that submissions may call and not see: they take data, answer by data, and remember what they heard.

At home `calling.Elsewhere` asks them directly. Where submissions are graded, `Oracle` answers in the referee's process,
through a line that the submission's process inherits. Whatever comes in there, it neither fails nor waits for anybody.
"""

from __future__ import annotations

import inspect
import json
import math
import secrets
import selectors
import threading
import time

import numpy as np

from .calling import LARGEST_REQUEST, taken_apart
from .encoding import decoded, encoded
from .fences.fenced import pair

__all__ = ["CALLS", "ENTRIES", "Function", "Oracle", "entries_of"]

#: How often one function answers.
CALLS = 100
#: Numbers in the arguments of one call. An array without numbers counts by its longest axes: a table (10^9, 0) holds
#: nothing, and would be walked through frame by frame.
ENTRIES = 500
_REQUESTS = 50_000  # of a submission, sense or not
_COMPUTING = 30.0  # seconds of processor time for a submission
_END = 60.0  # seconds on the clock to come to an end
_GLANCE = 0.05  # seconds from one look at the end to the next


class Function:
    """A function that answers requests. ``heard`` has the arguments of each call, by name, since it was handed out.

    With ``nested`` it returns lists, tuples and dicts of numbers and text, and not a number or an array. It answers for
    so many ``different`` arguments only, if that is given, and for no more numbers in a call than ``entries``.

    Examples
    --------
    >>> f = Function(lambda x, power: x**power)
    >>> f(3, 2)
    9
    >>> f.handed_out()({"arguments": [encoded(3)], "named": {"power": encoded(2)}})
    {'value': {'shape': [], 'dtype': 'int', 'values': [9]}}
    >>> f.heard
    [{'x': 3, 'power': 2}]
    """

    def __init__(self, function, *, nested=False, different=None, entries=ENTRIES):
        self.function, self._nested = function, nested
        self._different, self._entries = different, min(entries, ENTRIES)
        self._signature = inspect.signature(function)
        self.handed_out()

    def __call__(self, *arguments, **named):
        with np.errstate(all="ignore"):
            return self.function(*arguments, **named)

    def handed_out(self):
        """The function of requests, and a new beginning of what is remembered."""
        self.calls, self.heard, self._asked = 0, [], set()
        return self.answer

    def answer(self, request) -> dict:
        """``{"value": encoded}`` or ``{"error": text}``, whatever the request is."""
        self.calls += 1
        if self.calls > CALLS:
            return {"error": f"more than {CALLS} calls"}
        try:
            given = [_plain(value) for value in request["arguments"]]
            given = self._signature.bind(*given, **{name: _plain(v) for name, v in request["named"].items()}).arguments
            entries = entries_of(given)
            if entries > self._entries:
                raise ValueError(f"arguments with {entries} entries; expected at most {self._entries} in a call")
            self._count(given)
            value = self(**{name: np.copy(x) if np.ndim(x) else x for name, x in given.items()})
            value = taken_apart(value) if self._nested else encoded(value)
        except Exception as error:  # it is somebody else's request
            return {"error": (str(error) or type(error).__name__)[:500]}
        self.heard.append(dict(given))
        return {"nested" if self._nested else "value": value}

    def _count(self, given):
        """Refuse arguments that are one kind too many."""
        if self._different is None:
            return
        self._asked.add(json.dumps({name: encoded(value) for name, value in given.items()}, sort_keys=True))
        if len(self._asked) > self._different:
            raise ValueError(f"more than {self._different} different arguments; a right function stands in for one "
                             "that is called for the case, and is not there to be explored")


def entries_of(arguments) -> int:
    """How many numbers arguments, a dict, have at least to be walked through.

    Examples
    --------
    >>> entries_of({"log_probs": np.zeros((4, 3)), "targets": np.zeros(0), "blank": 0})
    14
    >>> entries_of({"log_probs": np.zeros((10**9, 0))})
    1000000000
    """
    return sum(math.prod(max(n, 1) for n in np.shape(value)) for value in arguments.values())


def _plain(value):
    value = decoded(value)
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


class Oracle:
    """Answers for functions, a message of JSON in and one out, for as long as its block lasts.

    The process that asks inherits its end of the line, ``descriptors``: there is no place where anybody else could
    speak to the oracle, and the process needs no socket of its own. One that asks and does not read its answers keeps
    only itself waiting.
    """

    def __init__(self):
        self._functions, self._thread = {}, None
        self._requests, self._computed, self._end = 0, 0.0, threading.Event()
        self._ours = self._theirs = None

    @property
    def descriptors(self) -> list[int]:
        """What the asking process has to inherit; nothing, if no function was handed out."""
        return [self._theirs.fileno()] if self._functions else []

    def hand_out(self, function) -> dict:
        """What `calling.Elsewhere` needs to know of a function: the line, and a key that means nothing."""
        if self._ours is None:  # most assignments hand out none
            self._ours, self._theirs = pair()
            self._ours.setblocking(False)
        key = secrets.token_hex(8)
        self._functions[key] = function.handed_out()
        return {"descriptor": self._theirs.fileno(), "key": key}

    def __enter__(self):
        if self._functions:
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        if self._thread:
            self._theirs.close()  # the process had one of its own
            self._thread.join(_END)

    def _serve(self):
        with self._ours, selectors.DefaultSelector() as ready:
            ready.register(self._ours, selectors.EVENT_READ)
            answer = b""
            while not self._end.is_set() and self._requests <= _REQUESTS:
                if not ready.select(_GLANCE):
                    continue
                try:
                    if answer:
                        self._ours.send(answer)
                        answer = b""
                    else:
                        said = self._ours.recv(LARGEST_REQUEST)
                        if not said:
                            return
                        answer = json.dumps(self._answered(said)).encode()
                except BlockingIOError:
                    pass  # it was not ready after all
                except OSError:
                    return
                ready.modify(self._ours, selectors.EVENT_WRITE if answer else selectors.EVENT_READ)

    def _answered(self, message):
        self._requests += 1
        number = None
        try:
            request = json.loads(message)
            if isinstance(request["number"], int):
                number = request["number"]
            function = self._functions[request["key"]]
        except Exception:  # no JSON, nested too deeply, no dict, no such key
            return {"number": number, "error": "a request that cannot be read"}
        begin = time.thread_time()
        if self._computed > _COMPUTING:
            return {"number": number, "error": f"more than {_COMPUTING:g} s of computing"}
        answer = function(request)
        self._computed += time.thread_time() - begin
        return {"number": number, **answer}

"""The functions that submissions may call and not see: they take data, answer by data, and remember what they heard.

At home `calling.Elsewhere` asks them directly. Where submissions are graded, `Oracle` answers in the referee's process,
through a socket in the submission's folder. Whatever comes in there, it neither fails nor waits for anybody.
"""

from __future__ import annotations

import inspect
import json
import secrets
import selectors
import socket
import threading
import time

import numpy as np

from .encoding import decoded, encoded

__all__ = ["CALLS", "ENTRIES", "Function", "Oracle"]

#: How often one function answers.
CALLS = 100
#: Numbers in the arguments of one call.
ENTRIES = 500
_BYTES = 2**16  # of a request
_REQUESTS = 50_000  # of a submission, sense or not
_COMPUTING = 30.0  # seconds of processor time for a submission
_PATIENCE = 60.0  # seconds on the clock for a connection to say what it wants, and to read the answer
_END = 60.0  # seconds on the clock to come to an end
_CONNECTIONS = 32  # at a time


class Function:
    """A function that answers requests. ``heard`` has the arguments of each call, by name, since it was handed out.

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

    def __init__(self, function):
        self.function = function
        self._signature = inspect.signature(function)
        self.handed_out()

    def __call__(self, *arguments, **named):
        with np.errstate(all="ignore"):
            return self.function(*arguments, **named)

    def handed_out(self):
        """The function of requests, and a new beginning of what is remembered."""
        self.calls, self.heard = 0, []
        return self.answer

    def answer(self, request) -> dict:
        """``{"value": encoded}`` or ``{"error": text}``, whatever the request is."""
        self.calls += 1
        if self.calls > CALLS:
            return {"error": f"more than {CALLS} calls"}
        try:
            given = [_plain(value) for value in request["arguments"]]
            given = self._signature.bind(*given, **{name: _plain(v) for name, v in request["named"].items()}).arguments
            entries = sum(np.size(value) for value in given.values())
            if entries > ENTRIES:
                raise ValueError(f"arguments with {entries} entries; expected at most {ENTRIES} in a call")
            value = encoded(self(**{name: np.copy(x) if np.ndim(x) else x for name, x in given.items()}))
        except Exception as error:  # it is somebody else's request
            return {"error": (str(error) or type(error).__name__)[:500]}
        self.heard.append(dict(given))
        return {"value": value}


def _plain(value):
    value = decoded(value)
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


class _Talk:
    """A connection: what it has said, what is left to be sent, and until when it is kept."""

    def __init__(self, line):
        self.line, self.said, self.left = line, b"", b""
        self.until = time.monotonic() + _PATIENCE


class Oracle:
    """Answers for functions through a socket, a line of JSON in and a line out, for as long as its block lasts.

    Parameters
    ----------
    path : path-like
        Of the socket.
    """

    def __init__(self, path):
        self._path, self._functions, self._thread = str(path), {}, None
        self._requests, self._computed, self._end = 0, 0.0, threading.Event()
        self._open = {}  # talks, the oldest first

    def hand_out(self, function) -> dict:
        """What `calling.Elsewhere` needs to know of a function: where to ask, and a key that means nothing."""
        key = secrets.token_hex(8)
        self._functions[key] = function.handed_out()
        return {"socket": self._path, "key": key}

    def __enter__(self):
        if self._functions:  # most assignments hand out none
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self._path)
            self._listener.listen(_CONNECTIONS)
            self._listener.setblocking(False)
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        if self._thread:
            self._thread.join(_END)

    def _serve(self):
        with self._listener, selectors.DefaultSelector() as ready:
            ready.register(self._listener, selectors.EVENT_READ)
            while not self._end.is_set():
                for key, _ in ready.select(0.05):
                    if key.data is None:
                        self._meet(ready)
                    elif key.data in self._open and not self._go_on(key.data, ready):
                        self._part(key.data, ready)
                now = time.monotonic()
                for talk in [talk for talk in self._open if talk.until < now]:
                    self._part(talk, ready)
            for talk in list(self._open):
                self._part(talk, ready)

    def _meet(self, ready):
        try:
            line, _ = self._listener.accept()
        except OSError:  # it has gone already
            return
        self._requests += 1
        if self._requests > _REQUESTS:
            line.close()
            return
        line.setblocking(False)
        talk = _Talk(line)
        self._open[talk] = True
        ready.register(line, selectors.EVENT_READ, talk)
        if len(self._open) > _CONNECTIONS:  # who asks now need not wait for those who say nothing
            self._part(next(iter(self._open)), ready)

    def _part(self, talk, ready):
        del self._open[talk]
        ready.unregister(talk.line)
        talk.line.close()

    def _go_on(self, talk, ready):
        """Hear or send what there is; False at the end."""
        try:
            if not talk.left:
                said = talk.line.recv(_BYTES)
                talk.said += said
                if b"\n" not in said:
                    return bool(said) and len(talk.said) < _BYTES
                talk.left = json.dumps(self._answered(talk.said)).encode() + b"\n"
                talk.until = time.monotonic() + _PATIENCE
                ready.modify(talk.line, selectors.EVENT_WRITE, talk)
            talk.left = talk.left[talk.line.send(talk.left):]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(talk.left)

    def _answered(self, line):
        begin = time.thread_time()
        if self._computed > _COMPUTING:
            return {"error": f"more than {_COMPUTING:g} s of computing"}
        try:
            request = json.loads(line)
            answer = self._functions[request["key"]]
        except Exception:  # no JSON, nested too deeply, no dict, no such key
            return {"error": "a request that cannot be read"}
        answer = answer(request)
        self._computed += time.thread_time() - begin
        return answer

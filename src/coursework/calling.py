"""A function as an argument whose code is somewhere else: it is called with numbers and arrays, and so it answers.

Where submissions run there is only this side of it. The other one is `oracle.py`, in the referee's process.
"""

from __future__ import annotations

import json
import socket
import time

from .encoding import decoded, encoded

__all__ = ["Elsewhere"]

#: Seconds that a call waits for its answer. On a busy machine it takes long to come; here it is given up.
PATIENCE = 60.0


class Elsewhere:
    """Calls by data.

    Parameters
    ----------
    line : callable or dict
        At home a function of the request, else ``{"socket": path, "key": text}``.

    Examples
    --------
    >>> half = Elsewhere(lambda request: {"value": encoded(decoded(request["arguments"][0]) / 2)})
    >>> half([1.0, 3.0])
    array([0.5, 1.5])
    """

    def __init__(self, line):
        self._line = line

    def __call__(self, *arguments, **named):
        request = {"arguments": [encoded(value) for value in arguments],
                   "named": {name: encoded(value) for name, value in named.items()}}
        answer = self._line(request) if callable(self._line) else _through(self._line, request)
        if "error" in answer:
            raise ValueError(answer["error"])
        value = decoded(answer["value"])
        return value.item() if not isinstance(value, str) and value.ndim == 0 else value


def _through(line, request):
    """One connection for each call: threads and interrupted calls do not mix their answers."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            _connect(connection, line["socket"])
            connection.sendall(json.dumps({"key": line["key"], **request}).encode() + b"\n")
            with connection.makefile("rb") as file:
                return json.loads(file.readline())
    except (OSError, ValueError):
        return {"error": "the function does not answer; it may have been called too often, or with too much"}


def _connect(connection, path):
    """A socket of files that has a time limit does not wait in a queue that is full: it says so, and we ask again."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return connection.connect(path)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.001)

"""A function as an argument whose code is somewhere else: it is called with numbers and arrays, and so it answers.

Where submissions run there is only this side of it. The other one is `oracle.py`, in the referee's process.
"""

from __future__ import annotations

import itertools
import json
import select
import socket
import threading
import time

from .encoding import decoded, encoded

__all__ = ["LARGEST_REQUEST", "Elsewhere", "taken_apart"]

#: Seconds that a call waits for its answer. On a busy machine it takes long to come; here it is given up.
PATIENCE = 60.0
#: Bytes of a request, and of an answer.
LARGEST_REQUEST = 2**16
_ONE_AT_A_TIME, _NUMBERS = threading.Lock(), itertools.count()
_SILENT = {"error": "the function does not answer; it may have been called too often, or with too much"}


class Elsewhere:
    """Calls by data.

    Parameters
    ----------
    line : callable or dict
        At home a function of the request, else ``{"descriptor": number, "key": text}``: an end of a line of messages
        that this process has inherited.

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
        if "nested" in answer:
            return _put_together(answer["nested"])
        value = decoded(answer["value"])
        return value.item() if not isinstance(value, str) and value.ndim == 0 else value


def taken_apart(value):
    """Lists, tuples and dicts of numbers and text as JSON.

    Examples
    --------
    >>> taken_apart([(0, "end"), {(1, 2): -1.5}])
    {'list': [{'tuple': [0, 'end']}, {'dict': [[{'tuple': [1, 2]}, -1.5]]}]}
    """
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [taken_apart(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[taken_apart(key), taken_apart(each)] for key, each in value.items()]}
    return value if isinstance(value, str) else value.item() if hasattr(value, "item") else value


def _put_together(data):
    """What was taken apart."""
    if not isinstance(data, dict):
        return data
    (kind, parts), = data.items()
    if kind == "dict":
        return {_put_together(key): _put_together(each) for key, each in parts}
    return {"list": list, "tuple": tuple}[kind](map(_put_together, parts))


def _through(line, request):
    """A message there, and one back with the same number; others are passed over, as of calls that were interrupted."""
    number = next(_NUMBERS)
    message = json.dumps({"number": number, "key": line["key"], **request}).encode()
    if len(message) > LARGEST_REQUEST:
        return _SILENT
    with _ONE_AT_A_TIME:
        connection = socket.socket(fileno=line["descriptor"])
        try:
            return _exchanged(connection, message, number)
        except (OSError, ValueError):
            return _SILENT
        finally:
            connection.detach()  # the line is kept for the next call


def _exchanged(connection, message, number):
    """Send and hear as either is possible: both ends are full if nobody has read for long."""
    connection.setblocking(False)
    end, sent = time.monotonic() + PATIENCE, False
    while (left := end - time.monotonic()) > 0:
        heard, free, _ = select.select([connection], [] if sent else [connection], [], left)
        if heard:
            said = connection.recv(LARGEST_REQUEST)
            if not said:
                break
            answer = json.loads(said)
            if answer["number"] == number:
                return answer
        elif free:
            connection.send(message)
            sent = True
    return _SILENT

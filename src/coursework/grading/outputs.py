"""What a submission's process may send to the grader: messages and outputs of limited size. It does not run anything.

The process can show as much as it likes, and the grader would hold all of it, several times over. So a message is
measured before it is read, only what feedback shows is kept of it, and nbgrader sees no more than that. Nor can it send
what is no message of a kernel, or one that no notebook can hold: each is written anew, by its kind.
"""

from __future__ import annotations

import datetime
import json
import re

from jupyter_client.session import Session

from ..checking import ANSWERS

__all__ = ["LARGEST_ANSWERS", "BoundedSession", "Room", "answers_of"]

#: Bytes of a message that has answers, or of all others together, before the process is taken for one that floods.
LARGEST_ANSWERS = 64_000_000
_FLOOD = 2_000_000_000
_LARGEST = 4_000_000  # bytes of any other message that are read at all
_NESTED = 500_000  # objects and lists in one message: an empty one takes thirty times its three bytes
_TEXT = 20_000  # characters that are kept of one output
_LINES = 100  # of a traceback
_OUTPUTS = 200  # of a cell
_ALL_TEXT = 2_000_000  # characters that are kept of all outputs of a notebook
_PARTS = 5  # signature, header, parent, metadata, content; buffers come after them
_CONTENT = 4
_BEGINNING = 200  # bytes, which say what kind of data there is
_NO_ANSWER = "null"
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)
#: What is kept of an answer, by the type that it must have.
_ANSWER = {"value": dict, "error": str, "printed": str, "helped": list, "skipped": bool}


def answers_of(data, name) -> list[dict] | None:
    """The answers to a question in an output's data, which are a text there; None if there are none that can be read.

    Examples
    --------
    >>> answers_of({ANSWERS: '{"name": "loss", "answers": [{"value": {}, "helped": 7}]}'}, "loss")
    [{'value': {}}]
    """
    try:
        found = json.loads(data.get(ANSWERS, _NO_ANSWER))
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("name") != name or not isinstance(found.get("answers"), list):
        return None
    if not all(isinstance(each, dict) for each in found["answers"]):
        return None
    return [{field: each[field] for field, kind in _ANSWER.items() if type(each.get(field)) is kind and not (
        field == "helped" and not all(isinstance(helper, str) for helper in each[field]))}
        for each in found["answers"]]


class BoundedSession(Session):
    """Reads messages, puts a short one in the place of one that is too large, and writes each anew by its kind."""

    received = 0

    def deserialize(self, msg_list, content=True, copy=True):
        parts = list(msg_list[:_PARTS])
        sizes = [len(part) for part in parts]
        self.received += sum(map(len, msg_list))
        if self.received > _FLOOD or any(size > _LARGEST for size in sizes[:_CONTENT]):
            raise ValueError(f"It sent {self.received / 10**6:.0f} MB of output. Look for something large that it "
                             "shows.")
        try:
            answers = ANSWERS.encode() in bytes(parts[_CONTENT][:_BEGINNING])
            if sizes[_CONTENT] > (LARGEST_ANSWERS if answers else _LARGEST) or _nested(parts[1:]) > _NESTED:
                parts[1:] = self._in_its_place(parts, sizes[_CONTENT])
                parts[0] = self.sign(parts[1:])
            return _anew(super().deserialize(parts, content=content, copy=copy))
        except Exception:  # whatever was sent that is no message
            return _anew({})

    def _in_its_place(self, parts, size):
        header = self.unpack(bytes(parts[1]))
        said = f"[an output of {size / 10**6:.0f} MB was left out]"
        if header["msg_type"].endswith("_reply"):
            content = {"status": "error", "ename": "Error", "evalue": said, "traceback": []}
        elif header["msg_type"] == "error":
            content = {"ename": "Error", "evalue": said, "traceback": [said]}
        else:
            header["msg_type"], content = "stream", {"name": "stderr", "text": f"{said}\n"}
        return [self.pack(header), parts[2], self.pack({}), self.pack(content)]


def _nested(parts):
    """At most so many objects and lists are in parts of JSON. What stands in a text of it is none."""
    def count(part):
        return part.count(b"{") + part.count(b"[")

    return sum(count(_TEXTS.sub(b"", part)) if count(part) > _NESTED else count(part) for part in map(bytes, parts))


def _anew(message):
    """What is read of a message, by its kind; nothing is left of what is none."""
    header = message.get("header") if isinstance(message.get("header"), dict) else {}
    parent = message.get("parent_header") if isinstance(message.get("parent_header"), dict) else {}
    kind, content = _name(header.get("msg_type")), message.get("content")
    content = content if isinstance(content, dict) else {}
    made = _CONTENTS.get(kind, lambda content: {})(content)
    date = header.get("date")
    return {"header": {"msg_id": _name(header.get("msg_id")), "msg_type": kind,
                       "date": date if isinstance(date, datetime.datetime) else None},
            "msg_id": _name(header.get("msg_id")), "msg_type": kind, "parent_header": {
                "msg_id": _name(parent.get("msg_id"))}, "metadata": {}, "content": made, "buffers": []}


def _name(value):
    return value[:_BEGINNING] if isinstance(value, str) else ""


def _number(value):
    """The number of a cell; nothing, if it is none that a notebook can hold."""
    return value if type(value) is int and 0 <= value < 2**31 else None


def _lines(value):
    return [_text(line) for line in value[:_LINES]] if isinstance(value, list) else []


def _shown(content):
    """Of data only plain text and answers, which are all that is read; answers as a text, and read as such."""
    data, made = content.get("data"), {}
    if isinstance(data, dict):
        if "text/plain" in data:
            made["text/plain"] = _text(data["text/plain"])
        if ANSWERS in data:
            made[ANSWERS] = json.dumps(data[ANSWERS])
    transient = content.get("transient")
    display = _name(transient.get("display_id")) if isinstance(transient, dict) else ""
    return {"data": made, "metadata": {}, "transient": {"display_id": display} if display else {}}


#: By the kind of a message, what is kept of its content.
_CONTENTS = {
    "stream": lambda content: {"name": "stderr" if content.get("name") == "stderr" else "stdout",
                               "text": _text(content.get("text"))},
    "error": lambda content: {"ename": _text(content.get("ename")), "evalue": _text(content.get("evalue")),
                              "traceback": _lines(content.get("traceback"))},
    "display_data": _shown,
    "update_display_data": _shown,
    "execute_result": lambda content: {**_shown(content), "execution_count": _number(content.get("execution_count"))},
    "execute_input": lambda content: {"execution_count": _number(content.get("execution_count"))},
    "execute_reply": lambda content: {
        "status": _name(content.get("status")), "ename": _text(content.get("ename")),
        "evalue": _text(content.get("evalue")), "traceback": _lines(content.get("traceback")),
        "execution_count": _number(content.get("execution_count"))},
    "status": lambda content: {"execution_state": _name(content.get("execution_state"))},
    "clear_output": lambda content: {"wait": content.get("wait") is True},
    "kernel_info_reply": lambda content: content,  # it comes before anything of the submission has run
}


def _text(value):
    """The beginning of a text, without halves of characters, which no file can hold."""
    if not isinstance(value, str):
        return ""
    more = f"\n... and {len(value) - _TEXT} characters more" if len(value) > _TEXT else ""
    return f"{value[:_TEXT]}{more}".encode(errors="replace").decode()


_SHOWS = ("stream", "display_data", "execute_result", "error", "update_display_data")
_SAYS_HOW_FAR = ("status", "execute_input", "clear_output")


class Room:
    """How many outputs are kept of a cell and of a notebook; of the cell of a check, its answers besides."""

    def __init__(self):
        self._of_all = self._outputs = 0
        self._answers = False

    def begin(self, graded: bool) -> None:
        """A cell begins. Answers are expected of a check, and once."""
        self._outputs, self._answers = 0, graded

    def takes(self, message) -> bool:
        """Whether a message is to be looked at; those that only say how far the cell is always are, others never."""
        kind, content = message["msg_type"], message["content"]
        if kind not in _SHOWS:
            return kind in _SAYS_HOW_FAR
        data = content.get("data", {})
        if ANSWERS in data:
            taken, self._answers = self._answers, False
            return taken
        self._outputs += 1
        texts = content.get("text", ""), data.get("text/plain", ""), *content.get("traceback", ())
        self._of_all += sum(map(len, texts))
        return self._outputs <= _OUTPUTS and self._of_all <= _ALL_TEXT

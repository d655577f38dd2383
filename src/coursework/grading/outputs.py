"""What a submission's process may send to the grader: messages and outputs of limited size. It does not run anything.

The process can show as much as it likes, and the grader would hold all of it, several times over. So a message is
measured before it is read, only what feedback shows is kept of it, and nbgrader sees no more than that.
"""

from __future__ import annotations

from jupyter_client.session import Session

from ..checking import ANSWERS

__all__ = ["BoundedSession", "Room"]

#: Bytes of a message that has answers, or of all others together, before the process is taken for one that floods.
LARGEST_ANSWERS = 64_000_000
_FLOOD = 2_000_000_000
_LARGEST = 4_000_000  # bytes of any other message that are read at all
_TEXT = 20_000  # characters that are kept of one output
_LINES = 100  # of a traceback
_OUTPUTS = 200  # of a cell
_ALL_TEXT = 2_000_000  # characters that are kept of all outputs of a notebook
_PARTS = 5  # signature, header, parent, metadata, content; buffers come after them
_CONTENT = 4
_BEGINNING = 200  # bytes, which say what kind of data there is


class BoundedSession(Session):
    """Reads messages, and puts a short one in the place of one that is too large."""

    received = 0

    def deserialize(self, msg_list, content=True, copy=True):
        parts = list(msg_list[:_PARTS])
        sizes = [len(part) for part in parts]
        self.received += sum(map(len, msg_list))
        if self.received > _FLOOD or any(size > _LARGEST for size in sizes[:_CONTENT]):
            raise ValueError(f"It sent {self.received / 10**6:.0f} MB of output. Look for something large that it "
                             "shows.")
        answers = ANSWERS.encode() in bytes(parts[_CONTENT][:_BEGINNING])
        if sizes[_CONTENT] > (LARGEST_ANSWERS if answers else _LARGEST):
            parts[1:] = self._in_its_place(parts, sizes[_CONTENT])
            parts[0] = self.sign(parts[1:])
        message = super().deserialize(parts, content=content, copy=copy)
        if content:
            message["content"] = _shortened(message["content"])
        return message

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


def _shortened(content):
    """Of data only plain text and answers, which are all that is read; of text its beginning."""
    if not isinstance(content, dict):
        return {}
    short = dict(content)
    for name in ("text", "ename", "evalue", "name"):
        if name in short:
            short[name] = _text(short[name])
    if "data" in short:
        data = short["data"] if isinstance(short["data"], dict) else {}
        short["data"] = {kind: value if kind == ANSWERS else _text(value) for kind, value in data.items()
                         if kind in ("text/plain", ANSWERS)}
        short["metadata"] = {}
    if "traceback" in short:
        lines = short["traceback"] if isinstance(short["traceback"], list) else []
        short["traceback"] = [_text(line) for line in lines[:_LINES]]
    return short


def _text(value):
    """The beginning of a text, without halves of characters, which no file can hold."""
    if not isinstance(value, str):
        return ""
    more = f"\n... and {len(value) - _TEXT} characters more" if len(value) > _TEXT else ""
    return f"{value[:_TEXT]}{more}".encode(errors="replace").decode()


class Room:
    """How many outputs are kept of a cell and of a notebook; of the cell of a check, its answers besides."""

    def __init__(self):
        self._of_all = self._outputs = 0
        self._answers = False

    def begin(self, graded: bool) -> None:
        """A cell begins. Answers are expected of a check, and once."""
        self._outputs, self._answers = 0, graded

    def takes(self, message) -> bool:
        """Whether a message is to be looked at; those that only say how far the cell is always are."""
        kind, content = message["msg_type"], message["content"]
        if kind.startswith("comm_"):
            return False
        if kind not in ("stream", "display_data", "execute_result", "error", "update_display_data"):
            return True
        data = content.get("data", {})
        if ANSWERS in data:
            taken, self._answers = self._answers, False
            return taken
        self._outputs += 1
        texts = content.get("text", ""), data.get("text/plain", ""), *content.get("traceback", ())
        self._of_all += sum(map(len, texts))
        return self._outputs <= _OUTPUTS and self._of_all <= _ALL_TEXT

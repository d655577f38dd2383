"""Draws what the player shows: a spectrogram as PNG, labels over time as SVG, a recording as WAV. It hears nothing.

The picture is two SVG elements side by side. The left one has the names of the rows at their full size, the right one
stretches with the page: places along the time are shares of its width. Colours stand in the attributes, so that the
picture is right without a style sheet.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from dataclasses import dataclass

import numpy as np

from .features import HOP, WINDOW

__all__ = ["Picture", "data_uri", "png", "wav"]

#: Heights in pixels: a label's row, the spectrogram, a row of words, the axis.
ROW, SOUND, SAID, AXIS = 18, 96, 18, 18
#: Levels of a probability, and of loudness.
LEVELS, GREYS = 30, 15
#: How far below the loudest band white is, in nats of power: 43 dB.
_RANGE = 10.0


def data_uri(kind, content: bytes) -> str:
    """Bytes as an address that holds them.

    Examples
    --------
    >>> data_uri("text/plain", b"yes")
    'data:text/plain;base64,eWVz'
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def wav(samples, rate) -> bytes:
    """A recording as a WAV file of 16 bits, one channel. Louder than full scale, it is turned down.

    Parameters
    ----------
    samples : (N,) float array
        In [-1, 1].
    rate : int
        Samples a second.

    Examples
    --------
    >>> len(wav(np.zeros(8000), 8000))
    16044
    """
    samples = np.asarray(samples, dtype=np.float64)
    largest = max(1.0, float(np.abs(samples).max(initial=0)))
    content = np.round(samples * (32767 / largest)).astype("<i2").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    data = struct.pack("<4sI", b"data", len(content)) + content
    return struct.pack("<4sI4s", b"RIFF", 4 + len(form) + len(data), b"WAVE") + form + data


def png(frames) -> bytes:
    """Log-mel frames (F, bands) as a picture F wide: low bands at the bottom, loud is black. 16 greys, 4 bits each.

    Examples
    --------
    >>> png(np.zeros((3, 2)))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    frames = np.asarray(frames, dtype=np.float64)
    highest = float(frames.max(initial=-math.inf))
    lowest = max(float(frames.min(initial=math.inf)), highest - _RANGE)
    share = np.clip((frames - lowest) / max(highest - lowest, 1e-9), 0, 1)
    greys = np.round(GREYS * (1 - share)).astype(np.uint8).T[::-1]
    height, width = greys.shape
    greys = np.pad(greys, ((0, 0), (0, width % 2)))
    packed = greys[:, ::2] << 4 | greys[:, 1::2]
    lines = np.pad(packed, ((0, 0), (1, 0)))  # each line begins with its filter, 0: none

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 4, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
            + chunk(b"IEND", b""))


def steps(shares, base, end=None) -> str:
    """The outline of a row of cells whose heights are shares in [0, 1]: a path, a frame to the unit, in half pixels.

    The recording may end within the last frame, at ``end``.

    Examples
    --------
    >>> steps([0, 0.5, 0.5, 0, 0], 40)
    'M0 40H1V25H3V40H5Z'
    """
    path, before = f"M0 {base}", 0
    for t, level in enumerate(np.round(LEVELS * np.asarray(shares, dtype=np.float64)).astype(int).tolist()):
        if level != before:
            path += f"H{t}V{base - level}"
            before = level
    return f"{path}H{len(shares) if end is None else min(len(shares), end):.6g}" + (f"V{base}" if before else "") + "Z"


def _end(shares, frame):
    """The first frame after this one that has room for a letter: the row's curve is low there, or the end."""
    low = np.flatnonzero(np.asarray(shares)[frame + 1:] < 0.1)
    return frame + 1 + (int(low[0]) if len(low) else len(shares) - frame - 1)


@dataclass(frozen=True)
class Picture:
    """What stands where.

    Attributes
    ----------
    labels : tuple of str
        The names of the rows, from top to bottom; the last one is the blank's.
    states : tuple
        Of each state of the network the shares (T, rows), and the frame and row of each label that was read.
    step, seconds : float
        Of a frame, and of the recording.
    frames : (F, bands) array
        Log-mel.
    said : dict
        Rows of spans, below the spectrogram.
    """

    labels: tuple
    states: tuple
    step: float
    seconds: float
    frames: np.ndarray
    said: dict

    @property
    def rows(self) -> int:
        """The height of all labels' rows."""
        return ROW * len(self.labels)

    @property
    def height(self) -> int:
        return self.rows + SOUND + SAID * len(self.said) + AXIS

    @property
    def left(self) -> int:
        """The width of the names, by their longest."""
        return 14 + 7 * max(map(len, [*self.labels, *self.said, "high"]))

    def names(self) -> str:
        """The inside of the left element."""
        at = [((r + 1) * ROW - 5, name, ' class="player-name"') for r, name in enumerate(self.labels)]
        at += [(self.rows + 12, "high", ""), (self.rows + SOUND - 5, "low", "")]
        at += [(self.rows + SOUND + SAID * (i + 1) - 5, name, "") for i, name in enumerate(self.said)]
        return "".join(f'<text{kind} x="{self.left - 7}" y="{y}" text-anchor="end">{html.escape(name)}</text>'
                       for y, name, kind in at)

    def plot(self, shown: int) -> str:
        """The inside of the right element, with one state visible."""
        ends = sorted({self._place(time) for spans in list(self.said.values())[:1] for span in spans
                       for time in (span.start, span.end)}, key=float)
        drawn = [self._line(f"{x}%", 0, self.rows + SOUND, ' stroke-dasharray="2 3"') for x in ends]
        drawn += [f'<line x1="0" x2="100%" y1="{y}" y2="{y}" stroke="#8a8f98" stroke-opacity=".35"/>'
                  for y in range(ROW, self.rows + 1, ROW)]
        drawn += [self._state(state, i == shown) for i, state in enumerate(self.states)]
        start, wide = self._place(WINDOW / 2 - HOP / 2), self._place(len(self.frames) * HOP)
        drawn.append(f'<image class="player-sound" x="{start}%" y="{self.rows}" width="{wide}%" height="{SOUND}" '
                     f'preserveAspectRatio="none" href="{data_uri("image/png", png(self.frames))}"/>')
        for i, spans in enumerate(self.said.values()):
            drawn += [self._word(span, self.rows + SOUND + SAID * i) for span in spans]
        return "".join(drawn) + self._axis()

    def _place(self, time) -> str:
        """A time as a share of the width, in percent."""
        return f"{100 * time / self.seconds:.2f}".rstrip("0").rstrip(".")

    def _line(self, x, top, bottom, more=""):
        return (f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" stroke="#8a8f98" stroke-opacity=".6"{more}/>')

    def _state(self, state, visible):
        shares, read = state
        wide = self.seconds / self.step
        paths = [steps(column, 2 * ROW * (r + 1), wide) for r, column in enumerate(shares.T)]
        marks = "".join(self._mark(_end(shares[:, row], frame) * self.step, row) for frame, row in read)
        hidden = "" if visible else ' display="none"'
        return (f'<g class="player-state"{hidden}>'
                f'<svg width="100%" height="{self.rows}" viewBox="0 0 {wide:.6g} {2 * self.rows}" '
                f'preserveAspectRatio="none"><path class="player-labels" fill="#2f6db3" d="{"".join(paths[:-1])}"/>'
                f'<path class="player-blank" fill="#8a8f98" d="{paths[-1]}"/></svg>'
                f'<g class="player-marks" font-weight="bold">{marks}</g></g>')

    def _mark(self, time, row):
        """The name of a row in the row itself: right of a time, and left of it where the recording ends."""
        late = time > 0.97 * self.seconds
        place = 'dx="-2" text-anchor="end"' if late else 'dx="2"'
        return (f'<text x="{self._place(min(time, self.seconds))}%" {place} y="{ROW * (row + 1) - 5}" fill="#d9691e">'
                f"{html.escape(self.labels[row])}</text>")

    def _word(self, span, top):
        start, wide = self._place(span.start), self._place(span.end - span.start)
        middle = self._place((span.start + span.end) / 2)
        return (f'<rect x="{start}%" y="{top + 1}" width="{wide}%" height="{SAID - 2}" fill="#8a8f98" '
                f'fill-opacity=".2" stroke="#8a8f98" stroke-opacity=".6"/><text x="{middle}%" y="{top + SAID - 5}" '
                f'text-anchor="middle">{html.escape(span.name)}</text>')

    def _axis(self):
        top = self.height - AXIS
        every = next(each for each in (0.5, 1, 2, 5, 10, 60) if self.seconds / each < 8 or each == 60)
        times = [i * every for i in range(math.floor(self.seconds / every) + 1)]
        texts = []
        for time in times:
            anchor = "start" if time == 0 else "end" if time > 0.97 * self.seconds else "middle"
            texts.append(f'{self._line(f"{self._place(time)}%", top, top + 4)}<text x="{self._place(time)}%" '
                         f'y="{top + 15}" text-anchor="{anchor}">{time:g}{" s" * (time == times[-1])}</text>')
        return "".join(texts)

"""A recording to play on a page of the book, and what a network reads in it, label by label. It runs no network.

``show`` makes the HTML: the recording, a picture of the labels' probabilities over the spectrogram, a table of what was
read. ``book/_static/speech_player.js`` makes a player of it on the site. Where that file is missing, as in JupyterLab,
the browser's own controls play the recording, and picture and table stay. In the PDF the picture alone is left.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._validation import check_blank, check_finite, check_int, check_probs, check_real
from .drawing import Picture, data_uri, wav
from .features import HOP
from .letters import BLANK, SYMBOLS

if TYPE_CHECKING:
    from .corpus import Utterance

__all__ = ["Player", "Read", "collapsed", "show"]


#: What a page says that has no script.
PLAIN = ("The picture shows the whole recording at once. The book’s website has a script that lights the labels up "
         "while it plays; this page does not run it.")


class Read(NamedTuple):
    """A label that a network read: which one, in which frame, and its probability there."""

    label: int
    frame: int
    probability: float


@dataclass(frozen=True)
class Player:
    """What a cell ends in.

    Attributes
    ----------
    html, svg, text : str
        For the site and JupyterLab, for the PDF, and for a terminal.
    """

    html: str
    svg: str
    text: str

    def _repr_html_(self):
        return self.html

    def _repr_svg_(self):
        return self.svg

    def __repr__(self):
        return self.text


def show(utterance: Utterance, frames, probabilities, symbols: Sequence[str] = SYMBOLS, *, seconds_a_frame,
         samples=None, spans=None, read=None, blank=BLANK, title="", source="synthetic speech") -> Player:
    """A player of one recording.

    Parameters
    ----------
    utterance : Utterance
        What was said, with the true times of its words.
    frames : (F, bands) float array
        Log-mel features, one frame every :data:`~reference_impl.speech.features.HOP` seconds.
    probabilities : (T, V) float array, or a dict of them
        What the network believes in each of its frames. A dict holds several states of a network by their names, such
        as "after 100 steps"; the reader switches between them, and the last one is shown first.
    symbols : sequence of V str
    seconds_a_frame : float
        Of the network's frames. Frame t is drawn from t to t + 1 times so many seconds.
    samples : (N,) float array, optional
        What is played, if it is not ``utterance.samples`` but what a microphone heard of it.
    spans : sequence of Span, or a dict of them, optional
        What stands below the spectrogram, instead of the words of the utterance. Each entry of a dict is a row: the
        words that were said, and for instance those of an alignment.
    read : dict of sequences of Read, optional
        What was read in a state, by the name of that state (in the order of the frames, several in one if need be).
        Otherwise it is the best path without repeats and blanks (:func:`collapsed`), as CTC reads. With a single array
        of probabilities, a sequence.
    blank : int
    title : str
        A line above the player.
    source : str
        Where the recording comes from, below the title: it has to be said wherever the synthetic corpus is heard.

    Raises
    ------
    ValueError
        If shapes do not match, if a probability is above 1, or if frames and recording differ in length.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> said = SimpleNamespace(text="go", samples=np.zeros(960), rate=8000, words=())
    >>> show(said, np.zeros((10, 40)), np.eye(4)[[0, 1, 1, 2]], "∅gox", seconds_a_frame=0.03)
    synthetic speech, said: “go”
    reads “go”
    """
    samples = np.asarray(utterance.samples if samples is None else samples)
    samples = check_finite("samples", samples, (samples.size,))
    seconds = len(samples) / utterance.rate
    step = check_real("seconds_a_frame", seconds_a_frame, "a number > 0", lambda value: value > 0)
    frames, blank = _checked_frames(frames, seconds), check_blank(blank, len(symbols))
    states = _states(probabilities, read, symbols, blank, seconds, step)
    said = spans if isinstance(spans, Mapping) else {"said": utterance.words if spans is None else spans}
    labels = _labels(utterance.text, symbols, states, blank)
    row = {label: r for r, label in enumerate(labels)}
    picture = Picture(
        labels=tuple(symbols[label].replace(" ", "␣") for label in labels),
        states=tuple((each.shares[:, labels], [(one.frame, row[one.label]) for one in each.read])
                     for each in states.values()),
        step=step, seconds=seconds, frames=frames, said={name: tuple(said[name]) for name in said})
    data = {"seconds": seconds, "step": step, "blank": row[blank], "letters": [symbols[label] for label in labels],
            "states": [_as_data(name, each, row) for name, each in states.items()]}
    lines = [_line(name, "".join(symbols[one.label] for one in each.read)) for name, each in states.items()]
    words = next(iter(picture.said.values()), ())
    tables = [_table(line, each.read, symbols, step, words)
              for line, each in zip(lines, states.values(), strict=True)]
    audio = data_uri("audio/wav", wav(samples, utterance.rate))
    about = f"{source}, said: “{utterance.text}”" if source else f"said: “{utterance.text}”"
    return Player(_page(utterance.text, title, about, audio, picture, tables, data),
                  _still(picture, [title, about, *lines]), "\n".join([about, *lines]))


def collapsed(probabilities, *, blank=BLANK) -> list[Read]:
    """What CTC's best path reads: the best symbol of each frame, without repeats and then without blanks.

    A label is read in the first frame of its run, and has the probability of that frame.

    Examples
    --------
    >>> [(one.label, one.frame) for one in collapsed(np.eye(3)[[0, 1, 1, 0, 1, 2]])]
    [(1, 1), (1, 4), (2, 5)]
    """
    probabilities = np.asarray(probabilities)
    best = probabilities.argmax(-1)
    first = np.flatnonzero(np.diff(best, prepend=-1))
    return [Read(int(best[t]), int(t), float(probabilities[t, best[t]])) for t in first if best[t] != blank]


class _State(NamedTuple):
    """Probabilities (T, V), what was read in them, and whether that is their best path."""

    shares: np.ndarray
    read: list
    best_path: bool


def _states(probabilities, read, symbols, blank, seconds, step) -> dict[str, _State]:
    """The states of the network by their names, checked; "" if there is a single one without a name."""
    if not isinstance(probabilities, Mapping):
        probabilities, read = {"": probabilities}, None if read is None else {"": read}
    read = read or {}
    if not probabilities or set(read) - set(probabilities):
        raise ValueError(f"read has the states {list(read)}; expected states of probabilities, which has "
                         f"{list(probabilities)}, and one at least")
    states = {}
    for name, each in probabilities.items():
        shares = _checked(f"probabilities[{name!r}]" if name else "probabilities", each, symbols, seconds, step)
        found = _checked_read(read[name], *shares.shape, blank) if name in read else collapsed(shares, blank=blank)
        states[name] = _State(shares, found, name not in read)
    return states


def _checked(name, probabilities, symbols, seconds, step):
    shares = check_probs(name, probabilities, 2, "(T, V)")
    if shares.shape[1] != len(symbols) or not len(shares):
        raise ValueError(f"{name} has shape {shares.shape}; expected (T, V = {len(symbols)}) with T >= 1")
    if shares.max() > 1.001:
        at = np.unravel_index(shares.argmax(), shares.shape)
        raise ValueError(f"{name}[{at[0]}, {at[1]}] = {shares.max()}; expected a probability, not above 1")
    if not 0.75 * seconds <= len(shares) * step < seconds + step:
        raise ValueError(f"seconds_a_frame = {step}; expected {len(shares)} frames to cover the recording of "
                         f"{seconds:.2f} s, and none to begin after its end")
    return shares


def _checked_read(read, T, V, blank):
    read = [Read(check_int("read", label), check_int("read", frame), float(share)) for label, frame, share in read]
    for i, one in enumerate(read):
        if not (0 <= one.label < V and one.label != blank and 0 <= one.frame < T and 0 <= one.probability <= 1.001):
            raise ValueError(f"read[{i}] = {tuple(one)}; expected a label below V = {V} other than the blank, a frame "
                             f"below T = {T}, and a probability")
    if [one.frame for one in read] != sorted(one.frame for one in read):
        raise ValueError("read is out of order; expected frames that do not fall")
    return read


def _checked_frames(frames, seconds):
    frames = np.asarray(frames)
    frames = check_finite("frames", frames, frames.shape)
    if frames.ndim != 2 or abs(len(frames) * HOP - seconds) > 0.1:
        raise ValueError(f"frames has shape {frames.shape}; expected (F, bands), a frame every {HOP} s of the "
                         f"recording, which lasts {seconds:.2f} s")
    return frames


def _labels(text, symbols, states, blank):
    """Labels in the order in which the transcript has them, then others that were read, and last the blank."""
    of = {symbol: label for label, symbol in enumerate(symbols) if label != blank}
    in_text = [of[character] for character in text if character in of]
    return [*dict.fromkeys([*in_text, *(one.label for each in states.values() for one in each.read)]), blank]


def _line(name, text):
    said = f"reads “{text}”" if text else "reads nothing"
    return f"{name}: {said}" if name else said


def _as_data(name, state, row):
    """A state as the script takes it: rows of the best path and their percent, or what was read otherwise."""
    if not state.best_path:
        return {"name": name, "read": [[row[one.label], one.frame, round(100 * one.probability)] for one in state.read]}
    return {"name": name, "path": [row[label] for label in state.shares.argmax(-1).tolist()],
            "percent": np.round(100 * state.shares.max(-1)).astype(int).tolist()}


def _table(caption, read, symbols, step, words):
    rows = []
    for label, frame, share in read:
        middle = (frame + 0.5) * step
        word = next((word.name for word in words if word.start <= middle < word.end), "–")
        name = "␣ (space)" if symbols[label] == " " else symbols[label]
        rows.append(f"<tr><td>{html.escape(name)}</td><td>{frame * step:.2f} s</td><td>{share:.2f}</td>"
                    f"<td>{html.escape(word)}</td></tr>")
    head = "".join(f'<th scope="col">{text}</th>' for text in ("label", "from", "probability", "said then"))
    body = f"<tbody>{''.join(rows)}</tbody>" if rows else ""
    return f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>{body}</table>"


def _page(text, title, about, audio, picture, tables, data):
    drawn = (f"Probabilities of {len(picture.labels)} symbols over {picture.seconds:.2f} seconds, above a spectrogram "
             "and the words. The table below says what was read.")
    held = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    named = f'<p class="player-title"><strong>{html.escape(title)}</strong></p>' if title else ""
    style = 'font-size="12" fill="currentColor"'
    return (
        f'<div class="speech-player" role="group" aria-label="{html.escape(f"Player: “{text}”")}">{named}'
        f'<p class="player-source">{html.escape(about)}</p>'
        f'<audio controls preload="auto" src="{audio}"></audio>'
        f'<div class="player-picture" role="img" aria-label="{drawn}" style="display:flex">'
        f'<svg width="{picture.left}" height="{picture.height}" {style} style="flex:none">{picture.names()}</svg>'
        f'<svg class="player-plot" height="{picture.height}" {style} style="flex:1;min-width:0">'
        f'{picture.plot(len(data["states"]) - 1)}</svg></div>'
        f'<p class="player-plain">{PLAIN}</p>'
        f'<details class="player-table"><summary>What was read, as a table</summary>'
        f'<div class="player-tables">{"".join(tables)}</div></details>'
        f'<script type="application/json">{held}</script></div>')


def _still(picture, lines, width=640):
    """The last state as one SVG, below lines of text."""
    lines = [line for line in lines if line]
    top = 18 * len(lines) + 6
    texts = "".join(f'<text x="0" y="{18 * i + 14}">{html.escape(line)}</text>' for i, line in enumerate(lines))
    height = top + picture.height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-size="12" font-family="sans-serif">{texts}<svg y="{top}" width="{picture.left}">{picture.names()}'
            f'</svg><svg x="{picture.left}" y="{top}" width="{width - picture.left}" height="{picture.height}">'
            f"{picture.plot(len(picture.states) - 1)}</svg></svg>")

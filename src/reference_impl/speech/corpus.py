"""Reads the spoken corpus of ``data/speech``: 1,046 synthetic utterances at 8 kHz. Makes no sound and no features.

Number strings and short commands, synthesised by espeak-ng, flite and Festival (``tools/speech_corpus`` made them, and
``data/speech/README.md`` says how, by which voices and under which licence). Words and phones have their true times,
as the synthesisers report them. No voice is in two parts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

__all__ = ["LISTED", "PARTS", "Span", "Utterance", "check_part", "load", "number_strings"]

#: The file that lists the utterances.
LISTED = "utterances.jsonl"
PARTS = ("train", "validation", "test")
_DIGITS = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}


class Span(NamedTuple):
    """A word or a phone, and when it is said, in seconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Utterance:
    """A recording with its transcript.

    Attributes
    ----------
    name : str
        Unique in its corpus.
    voice : str
        Synthesiser and voice, or the speaker.
    text : str
        In lower case, words with a space between them.
    samples : (N,) float32 array
        In [-1, 1].
    rate : int
        Samples a second.
    words, phones : tuples of Span
        In their order; empty if nobody knows the times. Phones have the synthesiser's own names.
    """

    name: str
    voice: str
    text: str
    samples: np.ndarray
    rate: int
    words: tuple[Span, ...] = ()
    phones: tuple[Span, ...] = ()

    @property
    def seconds(self) -> float:
        """Its length."""
        return len(self.samples) / self.rate


def load(part, folder) -> list[Utterance]:
    """The utterances of a part of the synthetic corpus, in the order of the file.

    Parameters
    ----------
    part : "train" | "validation" | "test"
        Voices of validation and test are in no other part.
    folder : path
        Of a notebook, ``"../data/speech"``.

    Raises
    ------
    FileNotFoundError
        If the folder has no corpus.

    Examples
    --------
    >>> from pathlib import Path
    >>> heard = load("test", Path(__file__).parents[3] / "data" / "speech")
    >>> heard[0].voice, heard[0].text, heard[0].words[0].name
    ('espeak-ng_en-gb-scotland+f5', 'three four nine nine', 'three')
    """
    check_part(part)
    folder = Path(folder)
    listed = folder / LISTED
    if not listed.is_file():
        raise FileNotFoundError(f"folder = {str(folder)!r}; expected data/speech of the book's repository, with "
                                f"{LISTED}: a package that was installed by itself does not bring it")
    entries = [json.loads(line) for line in listed.read_text(encoding="utf-8").splitlines()]
    sounds, found = {}, []
    for entry in (entry for entry in entries if entry["part"] == part):
        voice = entry["voice"]
        if voice not in sounds:
            sounds[voice] = soundfile.read(folder / f"{voice}.flac", dtype="float32")
        samples, rate = sounds[voice]
        first, count = entry["start"], entry["samples"]
        words, phones = (tuple(Span(name, start / rate, end / rate) for name, start, end in entry[spans])
                         for spans in ("words", "phones"))
        found.append(Utterance(f"{voice}-{first}", voice, entry["text"], samples[first:first + count], rate, words,
                               phones))
    return found


def check_part(part):
    """Raise a ValueError unless ``part`` is one of three."""
    if part not in PARTS:
        raise ValueError(f"part = {part!r}; expected one of {', '.join(PARTS)}")


def number_strings(utterances) -> list:
    """Those of the utterances that are made of digits only, such as "five six two".

    Examples
    --------
    >>> utterances = [Utterance("", "", text, np.zeros(1), 8000) for text in ("go on", "five zero", "five on")]
    >>> [each.text for each in number_strings(utterances)]
    ['five zero']
    """
    return [each for each in utterances if set(each.text.split()) <= _DIGITS]

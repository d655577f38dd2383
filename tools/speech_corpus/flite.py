"""flite by its command, with the phones and their ends that it prints."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

from scipy.io import wavfile
from spoken import Spoken

__all__ = ["say"]


def say(text, *, voice, stretch, pitch) -> Spoken:
    """``stretch`` is that of all durations, ``pitch`` the mean pitch in Hz, which rms and slt ignore."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "spoken.wav"
        printed = _flite("-voice", voice, "--setf", f"duration_stretch={stretch}", "--setf",
                         f"int_f0_target_mean={pitch}", "-t", text, "-o", str(file), "-psdur")
        rate, samples = wavfile.read(file)
    phones, start = [], 0.0
    for each in printed.split():
        name, end = each.rsplit(":", 1)
        if name != "pau":
            phones.append((name, start, float(end)))
        start = float(end)
    counts = [_phones(word, voice) for word in text.split()]
    if sum(counts) != len(phones):
        raise ValueError(f"{text!r} has {len(phones)} phones, and its words have {counts}")
    firsts = [sum(counts[:k]) for k in range(len(counts))]
    words = [(word, phones[first][1], phones[first + count - 1][2])
             for word, first, count in zip(text.split(), firsts, counts, strict=True)]
    return Spoken(samples / 2.0**15, rate, words, phones)


def _flite(*arguments):
    return subprocess.run(["flite", *arguments], check=True, capture_output=True, text=True).stdout


@functools.cache
def _phones(word, voice):
    """How many phones a word has."""
    return sum(name != "pau" for name in _flite("-voice", voice, "-t", word, "-o", "none", "-ps").split())

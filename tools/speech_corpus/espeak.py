"""espeak-ng by its library, with the times of words and phones that it reports through events."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
from spoken import Spoken

__all__ = ["say"]

_SYNCHRONOUS, _PHONEME_EVENTS, _UTF8 = 2, 1, 1
_END, _WORD, _PHONEME = 0, 1, 7
_RATE, _PITCH, _RANGE = 1, 3, 4


class _Event(ctypes.Structure):
    """As in speak_lib.h of version 1.51."""

    _fields_ = [("type", ctypes.c_int), ("identifier", ctypes.c_uint), ("text_position", ctypes.c_int),
                ("length", ctypes.c_int), ("milliseconds", ctypes.c_int), ("sample", ctypes.c_int),
                ("user_data", ctypes.c_void_p), ("id", ctypes.c_char * 8)]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


@functools.cache
def _library():
    library = ctypes.CDLL("libespeak-ng.so.1")
    return library, library.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONEME_EVENTS)


def say(text, *, voice, speed, pitch) -> Spoken:
    """``speed`` in words a minute, ``pitch`` from 0 to 99."""
    samples, rate, words, phones = _synthesised(text, voice, speed, pitch)
    counts = [len(_synthesised(word, voice, speed, pitch)[3]) for word in text.split()]
    return Spoken(samples, rate, _words(text, words, phones, counts), phones)


def _synthesised(text, voice, speed, pitch):
    """Samples, their rate, places in the text at which a word begins, and phones as (name, start, end)."""
    library, rate = _library()
    if library.espeak_SetVoiceByName(voice.encode()):
        raise ValueError(f"espeak-ng has no voice {voice!r}")
    for parameter, value in ((_RATE, speed), (_PITCH, pitch), (_RANGE, 50)):
        library.espeak_SetParameter(parameter, value, 0)
    sound, words, phones = bytearray(), [], []

    def receive(samples, count, events):
        if samples and count > 0:
            sound.extend(ctypes.string_at(samples, 2 * count))
        i = 0
        while events[i].type != _END:
            event = events[i]
            if event.type == _WORD:
                words.append((event.text_position - 1, len(phones)))
            elif event.type == _PHONEME:
                phones.append((event.id.decode("utf-8"), event.sample / rate))
            i += 1
        return 0

    callback = _CALLBACK(receive)
    library.espeak_SetSynthCallback(callback)
    encoded = text.encode()
    library.espeak_Synth(encoded, len(encoded) + 1, 0, 1, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    samples = np.frombuffer(bytes(sound), np.int16) / 2.0**15
    # an event says where a phone begins; pauses begin with an underscore
    spans = [(name, start, end) for (name, start), (_, end) in zip(phones, phones[1:], strict=False)]
    kept = [k for k, (name, start, end) in enumerate(spans) if name and not name.startswith("_") and end > start]
    return samples, rate, {at: sum(k < first for k in kept) for at, first in words}, [spans[k] for k in kept]


def _words(text, begins, phones, counts):
    """(word, start, end). Of words that espeak-ng takes as one, such as "on the", each has its phones when alone."""
    words, at, firsts = text.split(), 0, []
    for word, before in zip(words, [0, *counts[:-1]], strict=True):
        firsts.append(begins.get(at, firsts[-1] + before if firsts else 0))
        at += len(word) + 1
    firsts.append(len(phones))
    return [(word, phones[first][1], phones[until - 1][2])
            for word, first, until in zip(words, firsts[:-1], firsts[1:], strict=True)]

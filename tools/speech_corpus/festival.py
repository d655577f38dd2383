"""Festival by its command, with the ends of phones and words that its Scheme prints."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from scipy.io import wavfile
from spoken import Spoken

__all__ = ["say"]

_SCHEME = """
(voice_{voice})
(Parameter.set 'Duration_Stretch {stretch})
(set! utterance (SynthText "{text}"))
(utt.save.wave utterance "{file}" 'riff)
(mapcar (lambda (phone) (format t "phone %s %f\\n" (item.name phone) (item.feat phone "end")))
        (utt.relation.items utterance 'Segment))
(mapcar (lambda (word) (format t "word %s %f %f\\n" (item.name word) (item.feat word "word_start")
                               (item.feat word "word_end")))
        (utt.relation.items utterance 'Word))
"""


def say(text, *, voice, stretch) -> Spoken:
    """``stretch`` is that of all durations."""
    with tempfile.TemporaryDirectory() as folder:
        script, file = Path(folder) / "say.scm", Path(folder) / "spoken.wav"
        script.write_text(_SCHEME.format(voice=voice, stretch=stretch, text=text, file=file), encoding="utf-8")
        printed = subprocess.run(["festival", "-b", str(script)], check=True, capture_output=True, text=True).stdout
        rate, samples = wavfile.read(file)
    phones, words, start = [], [], 0.0
    for kind, name, *times in map(str.split, printed.splitlines()):
        if kind == "word":
            words.append((name, *map(float, times)))
        elif kind == "phone":
            if name != "pau":
                phones.append((name, start, float(times[0])))
            start = float(times[0])
    if [word for word, *_ in words] != text.split():
        raise ValueError(f"Festival reads {text!r} as {words}")
    return Spoken(samples / 2.0**15, rate, words, phones)

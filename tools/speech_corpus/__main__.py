"""Synthesises the spoken corpus in ``data/speech`` from nothing (``make speech``), where there are the synthesisers.

The same versions give the same samples and the same times. espeak-ng 1.51, flite 2.2 and Festival 2.5 with the voices
kal_diphone, ked_diphone and cmu_us_slt_arctic_hts are packages of Debian 12. Nothing that builds the book calls this.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import espeak
import festival
import flite
import numpy as np
import soundfile
from scipy.signal import resample_poly
from sentences import drawn

RATE = 8000
#: Samples are multiples of this share of full scale: 10 bits. FLAC is then half as large as with 16.
STEP = 2.0**-9
FOLDER = Path(__file__).resolve().parents[2] / "data" / "speech"
#: Utterances of each voice, by the part of the corpus. No voice is in two parts.
COUNTS = {"train": 36, "validation": 30, "test": 40}
VOICES = {
    "train": [
        *(("espeak-ng", voice) for voice in (
            "en+m1", "en+f2", "en-us+m2", "en-us+f3", "en-gb-scotland+m3", "en-gb-scotland+f1", "en-gb-x-rp+m4",
            "en-gb-x-rp+f4", "en-gb-x-gbclan+m5", "en-gb-x-gbclan+f2", "en-gb-x-gbcwmd+m6", "en-gb-x-gbcwmd+f3",
            "en-029+m7", "en-029+f1", "en-us-nyc+m1", "en-us-nyc+f4")),
        *(("flite", voice) for voice in ("kal", "awb", "slt")),
        *(("festival", voice) for voice in ("kal_diphone", "cmu_us_slt_arctic_hts")),
    ],
    "validation": [("espeak-ng", "en-us+m8"), ("espeak-ng", "en-gb-x-rp+f5"), ("espeak-ng", "en-029+m4")],
    "test": [*(("espeak-ng", voice) for voice in ("en-gb-scotland+f5", "en-us-nyc+m8", "en+m3")),
             ("flite", "rms"), ("festival", "ked_diphone")],
}


def spoken(synthesiser, voice, text, rng):
    """What a synthesiser returns, and how it was asked."""
    if synthesiser == "espeak-ng":
        asked = {"speed": rng.randint(120, 200), "pitch": rng.randint(25, 75)}
        return espeak.say(text, voice=voice, **asked), asked
    asked = {"stretch": round(rng.uniform(0.85, 1.3), 2)}
    if synthesiser == "festival":
        return festival.say(text, voice=voice, **asked), asked
    asked["pitch"] = rng.randint(90, 160)
    return flite.say(text, voice=voice, **asked), asked


def at_8_khz(said, rng):
    """Samples at 8 kHz with silence around them and the times of words and phones in them, in samples."""
    up, down = (n // math.gcd(RATE, said.rate) for n in (RATE, said.rate))
    samples = resample_poly(said.samples, up, down)
    first, last = said.words[0][1], said.words[-1][2]
    samples = samples[max(0, round((first - 0.05) * RATE)):round((last + 0.1) * RATE)]
    shift = rng.randint(800, 3200)
    samples = np.concatenate([np.zeros(shift), samples, np.zeros(rng.randint(800, 3200))])
    samples = samples * min(0.06 / np.sqrt(np.mean(samples[samples != 0]**2)), 0.95 / np.abs(samples).max())
    shift -= max(0, round((first - 0.05) * RATE))

    def moved(spans):
        return [[name, round(start * RATE) + shift, round(end * RATE) + shift] for name, start, end in spans]

    return np.round(samples / STEP) * STEP, moved(said.words), moved(said.phones)


def main():
    FOLDER.mkdir(exist_ok=True)
    entries = []
    for part, voices in VOICES.items():
        for synthesiser, voice in voices:
            rng = random.Random(f"{part} {synthesiser} {voice}")
            name, pieces, start = f"{synthesiser}_{voice}", [], 0
            for _ in range(COUNTS[part]):
                text = drawn(rng)
                said, asked = spoken(synthesiser, voice, text, rng)
                samples, words, phones = at_8_khz(said, rng)
                entries.append({"part": part, "voice": name, "start": start, "samples": len(samples), "text": text,
                                "words": words, "phones": phones, "asked": asked})
                pieces.append(samples)
                start += len(samples)
            soundfile.write(FOLDER / f"{name}.flac", np.concatenate(pieces), RATE, subtype="PCM_16")
    with open(FOLDER / "utterances.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries)


if __name__ == "__main__":
    main()

"""What every synthesiser returns: sound, and when each word and phone is in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Spoken"]


@dataclass(frozen=True)
class Spoken:
    """Samples in [-1, 1], their rate in Hz, and (name, start, end) in seconds of words and phones."""

    samples: np.ndarray
    rate: int
    words: list
    phones: list

"""A room and its noise, drawn from a seed: what is said at the mouth becomes what a microphone hears. NumPy and SciPy.

The room is a decaying random echo, the plainest model of late reverberation, and starts with the direct sound, so the
times of words stay true. The noise is white noise through one pole: dull or bright hiss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import fftconvolve, lfilter

__all__ = ["Place", "drawn"]


@dataclass(frozen=True)
class Place:
    """Where something is said.

    Attributes
    ----------
    decay : float
        Seconds after which the echo has fallen by 60 dB; 0 for a room without echo.
    echo : float
        Energy of the echo over that of the direct sound.
    snr : float
        Power of the speech over that of the noise, in dB; inf for silence.
    colour : float
        In [0, 1): the pole of the noise. 0 is white, close to 1 dull.
    gain : float
        What everything is multiplied by.
    seed : int
        Of the echo's and the noise's random numbers.
    """

    decay: float = 0.0
    echo: float = 0.0
    snr: float = float("inf")
    colour: float = 0.0
    gain: float = 1.0
    seed: int = 0

    def heard(self, samples, rate) -> np.ndarray:
        """What a microphone hears of samples (N,), as many float32 samples.

        Examples
        --------
        >>> said = np.sin(np.arange(8000) / 3).astype(np.float32)
        >>> noise = Place(snr=20.0).heard(said, 8000) - said
        >>> round(float(10 * np.log10((said**2).mean() / (noise**2).mean())), 1)
        20.0
        """
        samples, rng = np.asarray(samples, dtype=np.float64), np.random.default_rng(self.seed)
        power = np.mean(samples[samples != 0] ** 2) if samples.any() else 0.0
        if self.decay > 0 and self.echo > 0:
            count = max(2, round(self.decay * rate))
            room = rng.standard_normal(count) * 10.0 ** (-3 * np.arange(count) / count)
            room[0] = 0
            room *= np.sqrt(self.echo / (room**2).sum())
            room[0] = 1
            samples = fftconvolve(samples, room)[:len(samples)]
        if self.snr < np.inf and power > 0:
            noise = lfilter([1.0], [1.0, -self.colour], rng.standard_normal(len(samples)))
            samples = samples + noise * np.sqrt(power / np.mean(noise**2) / 10 ** (self.snr / 10))
        return (self.gain * samples).astype(np.float32)


def drawn(rng: np.random.Generator, *, snr=(5.0, 30.0), dry=0.5) -> Place:
    """A place: without echo with probability ``dry``, with noise between two signal-to-noise ratios, in dB.

    Examples
    --------
    >>> drawn(np.random.default_rng(0)).snr
    5.41
    """
    wet = rng.random() >= dry
    return Place(decay=round(rng.uniform(0.1, 0.4), 3) * wet, echo=round(rng.uniform(0.1, 0.6), 3) * wet,
                 snr=round(rng.uniform(*snr), 2), colour=round(rng.uniform(0, 0.95), 2),
                 gain=round(rng.uniform(0.3, 1.5), 2), seed=int(rng.integers(2**31)))

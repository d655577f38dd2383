"""Log-mel features of a recording: power spectra of short windows, added up in bands as wide as the ear's. NumPy alone.

A chapter prints these lines, so they do one thing each. The constants are those of telephone speech: windows of 25 ms,
one every 10 ms, 40 bands up to half the rate.
"""

from __future__ import annotations

import functools

import numpy as np

__all__ = ["BANDS", "HOP", "WINDOW", "log_mel", "mel_bands", "normalised"]

#: Seconds of a window, and from one to the next.
WINDOW, HOP = 0.025, 0.010
BANDS = 40
#: Added to every power before the logarithm: digital silence is exactly 0.
_FLOOR = 1e-6


def mel(hertz):
    """The scale on which the bands are equally wide: nearly linear below 700 Hz, logarithmic above."""
    return 2595 * np.log10(1 + hertz / 700)


@functools.cache
def mel_bands(rate, size, bands=BANDS, warp=1.0) -> np.ndarray:
    """Weights (bands, size // 2 + 1) of the frequencies of a real FFT of ``size`` samples: overlapping triangles.

    ``warp`` multiplies the frequencies: 1.1 shortens the speaker's vocal tract by a tenth.
    """
    frequencies = mel(warp * np.fft.rfftfreq(size, 1 / rate))
    edges = np.linspace(mel(60.0), mel(0.97 * rate / 2), bands + 2)
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rising, falling))


def log_mel(samples, rate, *, bands=BANDS, warp=1.0) -> np.ndarray:
    """Frames (T, bands) float32 of a recording: T = 1 + (N - window) // hop, and 0 if it is shorter than a window.

    Parameters
    ----------
    samples : (N,) float array
        In [-1, 1].
    rate : int
        Samples a second.
    bands : int
    warp : float
        Of the frequencies, for training on more voices than there are.

    Returns
    -------
    (T, bands) float32 array
        Natural logarithms of powers.

    Examples
    --------
    >>> tone = np.sin(2 * np.pi * 1000 * np.arange(800) / 8000)
    >>> frames = log_mel(tone, 8000)
    >>> frames.shape, int(frames[0].argmax())
    ((8, 40), 17)
    """
    samples = np.asarray(samples, dtype=np.float32)
    if samples.ndim != 1:
        raise ValueError(f"samples has shape {samples.shape}; expected (N,), one channel")
    width, hop = round(WINDOW * rate), round(HOP * rate)
    if len(samples) < width:
        return np.zeros((0, bands), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(samples, width)[::hop] * np.hanning(width).astype(np.float32)
    size = 1 << (width - 1).bit_length()
    power = np.abs(np.fft.rfft(windows, size)) ** 2
    return np.log(power @ mel_bands(rate, size, bands, warp).T + _FLOOR).astype(np.float32)


def normalised(frames) -> np.ndarray:
    """Frames minus the mean of each band, over the standard deviation of all: microphone and distance drop out.

    Examples
    --------
    >>> bool(np.allclose(normalised(np.array([[1.0, 5.0], [3.0, 9.0]])).mean(0), 0))
    True
    """
    frames = np.asarray(frames)
    if not len(frames):
        return frames
    centred = frames - frames.mean(axis=0)
    return centred / max(float(centred.std()), 1e-5)

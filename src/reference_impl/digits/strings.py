"""Strings of real scanned handwritten digits, drawn at random. No loss, no network, no decoding.

The images are scikit-learn's bundled copy of the test set of the UCI "Optical Recognition of Handwritten Digits" data
(13 writers, 1797 images of 8 x 8 pixels): nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits

from .._validation import check_at_least, check_integers

__all__ = ["BLANK", "NUM_SYMBOLS", "SYMBOLS", "DigitStrings", "load_images", "make_strings", "spell"]

BLANK = 0  # digit d is label d + 1
SYMBOLS = ("∅", *"0123456789")
NUM_SYMBOLS = len(SYMBOLS)


@dataclass(frozen=True)
class DigitStrings:
    """A padded batch: one frame for each column of pixels.

    Attributes
    ----------
    frames : (B, T, 8) float32 array
        Ink in [0, 1], the top pixel first; padding is 0.
    frame_lengths : (B,) int64 array
        Columns of each string.
    targets : (B, U) int64 array
        Labels 1..10: digit d is label d + 1; padding is 0.
    target_lengths : (B,) int64 array
        Digits of each string.
    """

    frames: np.ndarray
    frame_lengths: np.ndarray
    targets: np.ndarray
    target_lengths: np.ndarray

    def __len__(self):
        return len(self.frames)

    def frames_of(self, b: int) -> np.ndarray:
        """The columns of string b, without padding: (frame_lengths[b], 8)."""
        return self.frames[b, :self.frame_lengths[b]]

    def targets_of(self, b: int) -> np.ndarray:
        """The labels of string b, without padding: (target_lengths[b],)."""
        return self.targets[b, :self.target_lengths[b]]


def spell(symbols) -> str:
    """Symbols as text: digits, and ∅ for the blank.

    Examples
    --------
    >>> spell([1, 4, 4, 0])
    '033∅'
    """
    return "".join(SYMBOLS[k] for k in symbols)


def load_images(*, held_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 8, 8) float32 in [0, 1] and digits (N,): the first 1200 for training, the last 597 held out.

    Examples
    --------
    >>> images, digits = load_images(held_out=True)
    >>> images.shape, digits.shape, float(images.max())
    ((597, 8, 8), (597,), 1.0)
    """
    data = load_digits()
    part = slice(1200, None) if held_out else slice(0, 1200)
    return (data.images[part] / 16).astype(np.float32), data.target[part].astype(np.int64)


def make_strings(images, digits, count, rng: np.random.Generator, *, lengths=(3, 6), gaps=(0, 3)) -> DigitStrings:
    """Set randomly drawn digits side by side, with random gaps, so that where each one stands is not known.

    Parameters
    ----------
    images : (N, 8, 8) float array
    digits : (N,) ints in 0..9
    count : int
        Number of strings, B.
    rng : numpy Generator
    lengths, gaps : pairs of ints
        Fewest and most digits in a string, and empty columns before, between and after them; both ends included,
        all values equally likely.

    Returns
    -------
    DigitStrings

    Examples
    --------
    >>> batch = make_strings(*load_images(held_out=False), 2, np.random.default_rng(0), lengths=(3, 3), gaps=(1, 1))
    >>> batch.frames.shape, batch.frame_lengths.tolist(), batch.target_lengths.tolist()
    ((2, 28, 8), [28, 28], [3, 3])
    """
    digits = check_integers("digits", digits, 1, "(N,)")
    strings = []
    for _ in range(check_at_least("count", count, 1)):
        chosen = rng.integers(len(digits), size=rng.integers(lengths[0], lengths[1], endpoint=True))
        spaces = rng.integers(gaps[0], gaps[1], size=len(chosen) + 1, endpoint=True)
        columns = [np.zeros((spaces[0], 8), np.float32)]
        for image, space in zip(images[chosen], spaces[1:], strict=True):
            columns += [image.T, np.zeros((space, 8), np.float32)]
        strings.append((np.concatenate(columns), digits[chosen] + 1))
    return DigitStrings(*_pad([frames for frames, _ in strings]), *_pad([labels for _, labels in strings]))


def _pad(arrays):
    lengths = np.array([len(array) for array in arrays])
    padded = np.zeros((len(arrays), lengths.max(), *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[:len(array)] = array
    return padded, lengths

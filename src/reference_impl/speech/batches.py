"""Utterances as padded batches of log-mel frames and letters. NumPy alone; torch comes in where a network does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .._padding import padded
from .corpus import Utterance
from .features import BANDS, log_mel, normalised
from .letters import labels_of
from .rooms import drawn

__all__ = ["Batch", "Example", "batch_of", "examples", "masked", "shuffled"]


@dataclass(frozen=True)
class Example:
    """An utterance as a network gets it.

    Attributes
    ----------
    frames : (T, 40) float32 array
        Log-mel features of what a microphone heard, normalised.
    labels : (U,) int64 array
        Letters.
    utterance : Utterance
        What was said, without room and noise.
    """

    frames: np.ndarray
    labels: np.ndarray
    utterance: Utterance


@dataclass(frozen=True)
class Batch:
    """A padded batch.

    Attributes
    ----------
    frames : (B, T, 40) float32 array
        Padding is 0.
    frame_lengths : (B,) int64 array
    targets : (B, U) int64 array
        Padding is 0.
    target_lengths : (B,) int64 array
    """

    frames: np.ndarray
    frame_lengths: np.ndarray
    targets: np.ndarray
    target_lengths: np.ndarray

    def __len__(self):
        return len(self.frames)


def examples(utterances: Sequence[Utterance], *, seed=0, copies=1, snr=(5.0, 30.0), warp=0.0) -> list[Example]:
    """Each utterance ``copies`` times, each time in another room with other noise, and by a longer or shorter throat.

    Parameters
    ----------
    utterances : sequence of Utterance
    seed : int
        Of rooms and warps. The same seed and the same utterances give the same frames.
    copies : int
    snr : (float, float)
        Lowest and highest signal-to-noise ratio, in dB; (inf, inf) for the recordings as they are.
    warp : float
        Frequencies are multiplied by at least 1 - ``warp`` and at most 1 + ``warp``.
    """
    rng, found = np.random.default_rng(seed), []
    for _ in range(copies):
        for each in utterances:
            samples = each.samples
            if np.isfinite(snr).all():
                samples = drawn(rng, snr=snr).heard(samples, each.rate)
            frames = log_mel(samples, each.rate, warp=round(rng.uniform(1 - warp, 1 + warp), 2))
            found.append(Example(normalised(frames), labels_of(each.text), each))
    return found


def batch_of(chosen: Sequence[Example]) -> Batch:
    """A padded batch of examples, in their order."""
    return Batch(*padded([each.frames for each in chosen]), *padded([each.labels for each in chosen]))


def shuffled(found: Sequence[Example], size, rng: np.random.Generator, *, spread=4) -> Iterator[Batch]:
    """Batches without end. Of ``spread`` batches' worth of examples drawn at random those of like length go together.

    Each example occurs once before any occurs again, but for those that are left over at the end of a round.
    """
    while True:
        order = rng.permutation(len(found))
        for first in range(0, len(order) - size + 1, size * spread):
            pool = sorted(order[first:first + size * spread], key=lambda k: len(found[k].frames))
            starts = range(0, len(pool) - size + 1, size)
            for start in rng.permutation(starts):
                yield batch_of([found[k] for k in pool[start:start + size]])


def masked(batch: Batch, rng: np.random.Generator, *, times=2, bands=8, frames=12) -> Batch:
    """The same batch with some bands and some stretches of frames set to 0, their mean: SpecAugment, unwarped."""
    changed = batch.frames.copy()
    for row in changed:
        for _ in range(times):
            width, length = rng.integers(bands), rng.integers(frames)
            band, frame = rng.integers(BANDS - width + 1), rng.integers(max(1, len(row) - length + 1))
            row[:, band:band + width] = 0
            row[frame:frame + length] = 0
    return Batch(changed, batch.frame_lengths, batch.targets, batch.target_lengths)

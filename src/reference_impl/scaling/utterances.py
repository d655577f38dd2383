"""What is trained on: utterances, padded batches of them, what a mean may divide by, and a small corpus made up.

No network and no loss. A data set is a sequence of pairs: frames (T, F) of floats, and labels (U,) of integers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch

from .. import _validation

__all__ = ["DIVISORS", "Batch", "collate", "count_of", "make_utterances"]

#: What a mean over the losses of a step may divide by: the number of utterances, of labels, or of frames.
DIVISORS = ("utterances", "labels", "frames")


@dataclass(frozen=True)
class Batch:
    """Padded utterances, batch first. Any number of them, none included.

    Attributes
    ----------
    frames : (B, T, F) float32 tensor
        Padding is 0.
    frame_lengths : (B,) int64 tensor
    targets : (B, U) int64 tensor
        Padding is 0.
    target_lengths : (B,) int64 tensor
    """

    frames: torch.Tensor
    frame_lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor

    def __len__(self):
        return len(self.frames)

    def to(self, *where):
        """The batch on another device, or with frames of another dtype: as ``Tensor.to`` for the frames."""
        frames = self.frames.to(*where)
        return Batch(frames, *(getattr(self, each.name).to(frames.device) for each in fields(self)[1:]))


def collate(utterances) -> Batch:
    """Utterances side by side, padded with zeros; it may serve as a loader's ``collate_fn``.

    Parameters
    ----------
    utterances : sequence of B pairs
        Frames (T, F), floats, and labels (U,), integers: arrays or tensors. B = 0 is allowed.

    Returns
    -------
    Batch

    Raises
    ------
    ValueError, TypeError
        Naming the utterance, its value and the rule.

    Examples
    --------
    >>> batch = collate([(np.ones((3, 2), np.float32), [1, 2]), (np.ones((1, 2), np.float32), [])])
    >>> batch.frames.shape, batch.frame_lengths.tolist(), batch.targets.tolist(), len(collate([]))
    (torch.Size([2, 3, 2]), [3, 1], [[1, 2], [0, 0]], 0)
    """
    frames = [_frames(i, each) for i, (each, _) in enumerate(utterances)]
    labels = [_validation.check_integers(f"utterances[{i}][1]", np.asarray(each) if len(each) else [], 1, "(U,)")
              for i, (_, each) in enumerate(utterances)]
    for i, each in enumerate(frames):
        if each.shape[1] != frames[0].shape[1]:
            raise ValueError(f"utterances[{i}][0] has F = {each.shape[1]}; expected F = {frames[0].shape[1]}, "
                             "as in the first utterance")
    lengths = [torch.tensor([len(each) for each in arrays], dtype=torch.int64) for arrays in (frames, labels)]
    return Batch(_padded(frames, (0, 0), torch.float32), lengths[0], _padded(labels, (0,), torch.int64), lengths[1])


def _frames(i, array):
    return _validation.check_scores(f"utterances[{i}][0]", array, 2, "(T, F)")


def _padded(arrays, none, dtype):
    shape = (len(arrays), max(map(len, arrays)), *arrays[0].shape[1:]) if arrays else (0, *none)
    padded = torch.zeros(shape, dtype=dtype)
    for row, array in zip(padded, arrays, strict=True):
        row[:len(array)] = torch.from_numpy(array)
    return padded


def count_of(batch: Batch, divisor: str) -> int:
    """How many utterances, labels or frames a batch holds, padding left out.

    Frames are those that the network is given, not those that it hands to the loss: so a step can be counted before
    any network has run.

    Parameters
    ----------
    batch : Batch
    divisor : "utterances" | "labels" | "frames"

    Returns
    -------
    int

    Examples
    --------
    >>> batch = collate([(np.ones((3, 2), np.float32), [1, 2]), (np.ones((1, 2), np.float32), [])])
    >>> [count_of(batch, divisor) for divisor in DIVISORS]
    [2, 2, 4]
    """
    _validation.check_choice("divisor", divisor, DIVISORS)
    if divisor == "utterances":
        return len(batch)
    return int((batch.target_lengths if divisor == "labels" else batch.frame_lengths).sum())


def make_utterances(count, *, seed, num_symbols=6, features=4, labels=(1, 6), frames_per_label=(2, 9), noise=0.3):
    """A made-up corpus with unequal lengths: each label shows its own vector for a while, with noise.

    The vectors depend on ``num_symbols`` and ``features`` alone, so that two seeds make two parts of one corpus.

    Parameters
    ----------
    count, seed : int
    num_symbols : int
        V, the blank 0 included.
    features : int
        F.
    labels, frames_per_label : pairs of ints
        Fewest and most, both ends included.
    noise : float
        Standard deviation of what is added to each entry.

    Returns
    -------
    list of ``count`` pairs
        Frames (T, F), float32, and labels (U,), int64, in [1, V).

    Examples
    --------
    >>> [(frames.shape, labels.tolist()) for frames, labels in make_utterances(2, seed=0)]
    [((35, 4), [4, 3, 2, 2, 1, 1]), ((16, 4), [5, 4, 3])]
    """
    count, num_symbols = _validation.check_at_least("count", count, 0), _validation.check_at_least("V", num_symbols, 2)
    vectors = np.random.default_rng(0).standard_normal((num_symbols, features), np.float32)
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        said = rng.integers(1, num_symbols, size=rng.integers(*labels, endpoint=True))
        runs = rng.integers(*frames_per_label, size=len(said), endpoint=True)
        clean = np.repeat(vectors[said], runs, axis=0)
        made.append((clean + np.float32(noise) * rng.standard_normal(clean.shape, np.float32), said))
    return made

"""Utterances made up in no time, of unequal lengths: for tests, examples and tables. Nobody would call them speech."""

from __future__ import annotations

import numpy as np

from .. import _validation
from ..speech.batches import Example
from ..speech.features import BANDS
from ..speech.letters import NUM_SYMBOLS, SPACE

__all__ = ["made_up"]


def made_up(count, *, seed, letters=(1, 6), frames_per_letter=(6, 14), noise=0.5) -> list[Example]:
    """Examples in which each letter shows its own vector for a while, with noise.

    The vectors are the same for all seeds, so two seeds make two parts of one corpus.

    Parameters
    ----------
    count, seed : int
    letters, frames_per_letter : pairs of ints
        Fewest and most, both ends included.
    noise : float
        Standard deviation of what is added to each entry.

    Returns
    -------
    list of ``count`` examples, with no utterance behind them
        Frames (T, 40), float32, and labels (U,), int64.

    Examples
    --------
    >>> [(each.frames.shape, each.labels.tolist()) for each in made_up(2, seed=0)]
    [((61, 40), [18, 15, 8, 9, 2, 3]), ((57, 40), [8, 25, 14, 7, 22])]
    """
    count = _validation.check_at_least("count", count, 0)
    vectors = np.random.default_rng(0).standard_normal((NUM_SYMBOLS, BANDS), np.float32)
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        said = rng.integers(SPACE, NUM_SYMBOLS, size=rng.integers(*letters, endpoint=True))
        clean = np.repeat(vectors[said], rng.integers(*frames_per_letter, size=len(said), endpoint=True), axis=0)
        made.append(Example(clean + np.float32(noise) * rng.standard_normal(clean.shape, np.float32), said, None))
    return made

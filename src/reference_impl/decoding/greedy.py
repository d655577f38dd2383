"""Greedy CTC decoding: the best symbol of each frame, collapsed. It finds the best path, and not the best string.

:func:`.exact.best_path` gives the mass of that path, and :func:`.exact.n_best` the string of the largest mass.
"""

from __future__ import annotations

import numpy as np

from .._validation import check_integers, check_scores

__all__ = ["blank_share", "greedy_decode", "peaks"]


def greedy_decode(logits, logit_lengths, *, blank=0) -> list[list[int]]:
    """Best symbol of each frame, repeats merged, blanks removed: one list of labels for each utterance.

    Parameters
    ----------
    logits : (B, T, V) float array
        Any scores: only their order in a frame counts.
    logit_lengths : (B,) ints
    blank : int

    Returns
    -------
    list of B lists of labels

    Examples
    --------
    >>> logits = np.eye(3)[[[1, 1, 0, 1, 2, 2, 0]]]
    >>> greedy_decode(logits, np.array([7])), greedy_decode(logits, np.array([2]))
    ([[1, 1, 2]], [[1]])
    """
    logits = check_scores("logits", logits, 3, "(B, T, V)")
    logit_lengths = check_integers("logit_lengths", logit_lengths, 1, "(B,)")
    return [list(peaks(u[:length], blank=blank).values()) for u, length in zip(logits, logit_lengths, strict=True)]


def peaks(logits, *, blank=0) -> dict[int, int]:
    """Where greedy decoding reads each label of one utterance: the first frame of its run, and the label.

    Parameters
    ----------
    logits : (T, V) float array
    blank : int

    Returns
    -------
    dict from frame to label, in the order of the frames

    Examples
    --------
    >>> peaks(np.eye(3)[[1, 1, 0, 1, 2, 2, 0]])
    {0: 1, 3: 1, 4: 2}
    """
    best = check_scores("logits", logits, 2, "(T, V)").argmax(-1)
    starts = np.flatnonzero(np.diff(best, prepend=-1))  # the first frame of each run
    return {int(t): int(best[t]) for t in starts if best[t] != blank}


def blank_share(logits, logit_lengths, *, blank=0) -> float:
    """Share of the frames, padding left out, in which the blank is the best symbol.

    Parameters
    ----------
    logits : (B, T, V) float array
        Any scores: only their order in a frame counts.
    logit_lengths : (B,) ints
    blank : int

    Returns
    -------
    float
        In [0, 1]; all frames of the batch count alike.

    Examples
    --------
    >>> blank_share(np.eye(3)[[[0, 1, 0, 0], [2, 0, 0, 0]]], np.array([4, 1]))
    0.6
    """
    logits = check_scores("logits", logits, 3, "(B, T, V)")
    logit_lengths = check_integers("logit_lengths", logit_lengths, 1, "(B,)")
    in_use = np.arange(logits.shape[1]) < logit_lengths[:, None]
    return float((logits.argmax(-1) == blank)[in_use].mean())

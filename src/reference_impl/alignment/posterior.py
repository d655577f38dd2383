"""When each label was said, over all paths: distributions over frames, and what to report of them. Not one best path.

A label's run begins with an arc that enters its state (CTC) or with its label arc (RNN-T). Exactly one such arc is on
each path, so the posteriors of these arcs are a distribution over frames. The same holds for the arcs that leave the
state, with which the run ends.
"""

from __future__ import annotations

import numpy as np

from .._validation import (
    check_at_least,
    check_distribution,
    check_integers,
    check_real,
    check_spans,
    check_weights,
    check_word_lengths,
)
from ._arcs import ctc_arcs, rnnt_arcs

__all__ = ["credible_frames", "ctc_run_posteriors", "ctc_span_posteriors", "mass_near", "median_frame",
           "rnnt_frame_posteriors", "rnnt_span_posteriors"]


def ctc_run_posteriors(log_probs, targets, *, blank=0) -> tuple[np.ndarray, np.ndarray]:
    """For each label the probabilities, given the target, that its run begins and that it ends in each frame.

    Parameters
    ----------
    log_probs : (T, V) array of float16, float32 or float64
        Nats; ``-inf`` masks an entry; need not be normalised.
    targets : (U,) array of int32 or int64
        Labels in [0, V), none equal to ``blank``.
    blank : int

    Returns
    -------
    starts, ends : (U, T) float64 arrays
        ``ends[u, t]`` is the probability that frame t is the last one of label u. Each row adds up to 1.

    Raises
    ------
    NoAlignment
        A ``ValueError``: too few frames for the labels, or every path uses an entry that is ``-inf``.
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    Three frames, one label, six paths of the same mass: three of them begin the run in the first frame.

    >>> starts, ends = ctc_run_posteriors(np.zeros((3, 2)), [1])
    >>> starts.round(4).tolist(), ends.round(4).tolist()
    ([[0.5, 0.3333, 0.1667]], [[0.1667, 0.3333, 0.5]])
    """
    arcs = ctc_arcs(log_probs, targets, blank)
    posteriors = arcs.posteriors()
    starts, ends = np.zeros((2, len(targets), len(log_probs)))
    for found, nodes in ((starts, arcs.targets), (ends, arcs.sources)):
        of_label = arcs.moves & (nodes[:, 1] % 2 == 1)
        frames, states = nodes[of_label].T
        np.add.at(found, (states // 2, frames), posteriors[of_label])
    return starts, ends


def ctc_span_posteriors(log_probs, targets, first, last, *, word_lengths=None, blank=0) -> np.ndarray:
    """For each label or word the probability, given the target, that its span is exactly the one that is claimed.

    Parameters
    ----------
    log_probs, targets, blank
        As for :func:`ctc_run_posteriors`.
    first, last : (U,) or (W,) ints
        The frame in which the first label's run begins and the one in which the last label's run ends, as
        :func:`.ctc_best_path` and :func:`.word_spans` return them.
    word_lengths : (W,) ints, optional
        Labels of each word, at least 1; together U. None: each label by itself.

    Returns
    -------
    (U,) or (W,) float64 array
        Inside a word, all ways through its labels count. :func:`mass_near` allows for some frames more or less.

    Examples
    --------
    One of the six paths of one label in three frames holds it in the first two frames only:

    >>> ctc_span_posteriors(np.zeros((3, 2)), [1], [0], [1]).round(4).tolist()
    [0.1667]
    """
    arcs = ctc_arcs(log_probs, targets, blank)
    enters, leaves = (np.where(arcs.moves, nodes[:, 1], -1) for nodes in (arcs.targets, arcs.sources))
    return np.array([arcs.share_without(((enters == 2 * labels.start + 1) & (arcs.targets[:, 0] != start))
                                        | ((leaves == 2 * labels.stop - 1) & (arcs.sources[:, 0] != end)))
                     for labels, start, end in _spans(first, last, word_lengths, len(targets), len(log_probs))])


def rnnt_frame_posteriors(log_probs, targets, *, blank=0) -> np.ndarray:
    """For each label the probability, given the target, that it is written in each frame: (U, T).

    Each row adds up to 1. The transpose of the label arcs' posteriors of :func:`reference_impl.rnnt.arc_posteriors`.

    Parameters
    ----------
    log_probs : (T, U+1, V) array of float16, float32 or float64
        Nats, T >= 1; ``-inf`` masks an entry; need not be normalised.
    targets, blank
        As for :func:`ctc_run_posteriors`.

    Raises
    ------
    NoAlignment
        A ``ValueError``: every path uses an entry that is ``-inf``.
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> rnnt_frame_posteriors(np.zeros((3, 3, 2)), [1, 1]).round(4).tolist()
    [[0.5, 0.3333, 0.1667], [0.1667, 0.3333, 0.5]]
    """
    arcs = rnnt_arcs(log_probs, targets, blank)
    found = np.zeros((len(targets), len(log_probs)))
    frames, labels = arcs.sources[arcs.moves].T
    found[labels, frames] = arcs.posteriors()[arcs.moves]
    return found


def rnnt_span_posteriors(log_probs, targets, first, last, *, word_lengths=None, blank=0) -> np.ndarray:
    """For each label or word the probability that it is written in exactly these frames, from the first to the last.

    Parameters
    ----------
    log_probs, targets, blank
        As for :func:`rnnt_frame_posteriors`.
    first, last : (U,) or (W,) ints
        The frames in which the first and the last label are written; the same frame for a single label.
    word_lengths : (W,) ints, optional
        Labels of each word, at least 1; together U. None: each label by itself.

    Returns
    -------
    (U,) or (W,) float64 array

    Examples
    --------
    >>> rnnt_span_posteriors(np.zeros((3, 3, 2)), [1, 1], [0], [1], word_lengths=[2]).round(4).tolist()
    [0.1667]
    """
    arcs = rnnt_arcs(log_probs, targets, blank)
    frames, writes = arcs.sources[:, 0], np.where(arcs.moves, arcs.sources[:, 1], -1)
    return np.array([arcs.share_without(((writes == labels.start) & (frames != start))
                                        | ((writes == labels.stop - 1) & (frames != end)))
                     for labels, start, end in _spans(first, last, word_lengths, len(targets), len(log_probs))])


def _spans(first, last, word_lengths, num_labels, num_frames):
    """Of each label or word its labels, and the frames that are claimed."""
    lengths = np.ones(num_labels, np.int64) if word_lengths is None else check_word_lengths(word_lengths, num_labels)
    first, last = check_spans(first, last, len(lengths), num_frames)
    stops = lengths.cumsum()
    return zip(map(range, stops - lengths, stops), first, last, strict=True)


# --- what to report of a distribution over frames ---

#: Sums of posteriors round, and are compared with one half by this margin.
MARGIN = 1e-9


def median_frame(distribution) -> np.ndarray:
    """The frame with the least expected absolute error, and of several the earliest: (...,) int64.

    It is the first frame up to which the probability is at least one half, less 1e-9 for rounding.

    Parameters
    ----------
    distribution : (..., T) array
        Probabilities; each row adds up to 1.

    Examples
    --------
    >>> int(median_frame([0.4, 0.0, 0.0, 0.3, 0.3]))
    3
    """
    distribution = check_distribution("distribution", distribution)
    return (distribution.cumsum(axis=-1) >= 0.5 - MARGIN).argmax(axis=-1)


def credible_frames(distribution, level=0.95) -> tuple[np.ndarray, np.ndarray]:
    """The shortest interval of frames that holds at least ``level`` of the probability, and of several the earliest.

    Parameters
    ----------
    distribution
        As for :func:`median_frame`.
    level : float
        Above 0, at most 1; compared with a margin of 1e-9.

    Returns
    -------
    first, last : (...,) int64 arrays
        Both frames belong to the interval.

    Examples
    --------
    >>> first, last = credible_frames([0.3, 0.1, 0.4, 0.2], level=0.6)
    >>> int(first), int(last)
    (2, 3)
    """
    distribution = check_distribution("distribution", distribution)
    level = check_real("level", level, "0 < level <= 1", lambda value: 0 < value <= 1)
    T = distribution.shape[-1]
    rows = distribution.reshape(-1, T)
    first, last = np.zeros((2, len(rows)), np.int64)
    for i, row in enumerate(rows):
        below = np.append(0.0, row.cumsum())
        stops = np.searchsorted(below, below[:-1] + level - MARGIN)  # the least one for each beginning; T + 1: none
        lengths = np.where(stops > T, T + 1, stops - np.arange(T))
        first[i] = lengths.argmin()
        last[i] = stops[first[i]] - 1
    shape = distribution.shape[:-1]
    return first.reshape(shape), last.reshape(shape)


def mass_near(distribution, frames, tolerance=0) -> np.ndarray:
    """The probability of the frames that lie within ``tolerance`` of a claimed one: a confidence.

    Parameters
    ----------
    distribution : (..., T) array
        As for :func:`median_frame`.
    frames : (...,) ints
        One frame for each row, in [0, T).
    tolerance : int
        At least 0, in frames.

    Returns
    -------
    (...,) float64 array

    Examples
    --------
    >>> mass_near([[0.25, 0.5, 0.0, 0.25]], [1], tolerance=1).tolist()
    [0.75]
    """
    distribution = check_distribution("distribution", distribution)
    tolerance = check_at_least("tolerance", tolerance, 0)
    frames = np.asarray(frames)
    frames = check_integers("frames", frames, frames.ndim, str(distribution.shape[:-1]))
    check_weights("frames", frames, distribution.shape[:-1])
    near = np.abs(np.arange(distribution.shape[-1]) - frames[..., None]) <= tolerance
    return np.where(near, distribution, 0.0).sum(axis=-1)

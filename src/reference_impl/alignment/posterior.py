"""When each label was said, over all paths: distributions over frames, and what to report of them. Not one best path.

A label's run begins with an arc that enters its state (CTC) or with its label arc (RNN-T). Exactly one such arc is on
each path, so the posteriors of these arcs are a distribution over frames. The same holds for the arcs that leave the
state, with which the run ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._validation import (
    check_at_least,
    check_distribution,
    check_integers,
    check_real,
    check_spans,
    check_weights,
    check_word_lengths,
    no_path_beyond,
)
from ._masses import (
    arriving,
    ctc_alpha,
    ctc_beta,
    ctc_dead_frame,
    ctc_problem,
    leaving,
    rnnt_alpha,
    rnnt_beta,
    rnnt_dead_frame,
    rnnt_problem,
    skip_penalty,
)

__all__ = ["credible_frames", "ctc_run_posteriors", "ctc_span_posteriors", "mass_near", "mean_frame", "median_frame",
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
    arcs, labels = _ctc_arcs(log_probs, targets, blank), np.s_[:, 1::2]
    starts = np.exp(arcs.enter + arcs.emissions + arcs.beta - arcs.log_z)
    ends = np.exp(arcs.alpha + arcs.leave - arcs.log_z)
    return starts[labels].T, ends[labels].T


class _Arcs(NamedTuple):
    """Log masses of CTC: (T, S) but for ``penalty`` (S,) and ``log_z``.

    ``enter`` is the mass of the prefixes about to enter a state in frame t, ``leave`` that of the suffixes that leave
    it after frame t; neither includes the emission at t.
    """

    enter: np.ndarray
    leave: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    emissions: np.ndarray
    penalty: np.ndarray
    log_z: float


def _ctc_arcs(log_probs, targets, blank):
    emissions, extended, _ = ctc_problem(log_probs, targets, blank)
    T, S = emissions.shape
    penalty = skip_penalty(extended)
    alpha, beta = ctc_alpha(emissions, penalty), ctc_beta(emissions, penalty)
    log_z = np.logaddexp.reduce(alpha[-1, max(S - 2, 0):]) if T else 0.0
    if log_z == -np.inf:
        raise no_path_beyond(ctc_dead_frame(alpha))
    enter, leave = np.full((2, T, S), -np.inf)
    enter[:1, :2] = 0.0
    enter[1:] = np.logaddexp.reduce(arriving(alpha[:-1], penalty)[1:])
    leave[T - 1:, max(S - 2, 0):] = 0.0
    leave[:-1] = np.logaddexp.reduce(leaving(emissions[1:] + beta[1:], penalty)[1:])
    return _Arcs(enter, leave, alpha, beta, emissions, penalty, log_z)


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
    arcs = _ctc_arcs(log_probs, targets, blank)
    T, S = arcs.alpha.shape
    lengths, first, last = _spans(first, last, word_lengths, S // 2, T)
    found, u = np.zeros(len(lengths)), 0
    for w, (length, start, end) in enumerate(zip(lengths, first, last, strict=True)):
        states = slice(2 * u + 1, 2 * (u + length))  # from the word's first label to its last
        inside = ctc_alpha(arcs.emissions[start:end + 1, states], arcs.penalty[states], entries=1)[-1, -1]
        found[w] = np.exp(arcs.enter[start, states.start] + inside + arcs.leave[end, states.stop - 1] - arcs.log_z)
        u += length
    return found


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
    alpha, beta, _, labels = _rnnt_arcs(log_probs, targets, blank)
    return np.exp(alpha[:, :-1] + labels + beta[:, 1:] - beta[0, 0]).T


def _rnnt_arcs(log_probs, targets, blank):
    """Alpha, beta (T, U+1) and the weights of blank arcs (T, U+1) and label arcs (T, U); a path exists."""
    blanks, labels, _ = rnnt_problem(log_probs, targets, blank)
    alpha, beta = rnnt_alpha(blanks, labels), rnnt_beta(blanks, labels)
    if beta[0, 0] == -np.inf:
        raise no_path_beyond(rnnt_dead_frame(alpha))
    return alpha, beta, blanks, labels


def rnnt_span_posteriors(log_probs, targets, first, last, *, word_lengths=None, blank=0) -> np.ndarray:
    """For each label or word the probability that it is written in exactly these frames, from ``first`` to ``last``.

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
    alpha, beta, blanks, labels = _rnnt_arcs(log_probs, targets, blank)
    T, U = labels.shape
    lengths, first, last = _spans(first, last, word_lengths, U, T)
    found, u = np.zeros(len(lengths)), 0
    for w, (length, start, end) in enumerate(zip(lengths, first, last, strict=True)):
        entered, left = alpha[start, u] + labels[start, u], beta[end, u + length] - beta[0, 0]
        if length == 1:
            found[w] = np.exp(entered + left) if start == end else 0.0
        else:
            frames, rows = slice(start, end + 1), slice(u + 1, u + length)  # from the first label to the last
            inside = rnnt_alpha(blanks[frames, rows], labels[frames, u + 1:u + length - 1])[-1, -1]
            found[w] = np.exp(entered + inside + labels[end, u + length - 1] + left)
        u += length
    return found


def _spans(first, last, word_lengths, num_labels, num_frames):
    lengths = np.ones(num_labels, np.int64) if word_lengths is None else check_word_lengths(word_lengths, num_labels)
    return lengths, *check_spans(first, last, len(lengths), num_frames)


# --- what to report of a distribution over frames ---

#: Sums of posteriors round, and are compared with one half by this margin.
MARGIN = 1e-9


def mean_frame(distribution) -> np.ndarray:
    """The expected frame: (...,). Of all numbers it has the least expected squared error.

    Parameters
    ----------
    distribution : (..., T) array
        Probabilities; each row adds up to 1.

    Examples
    --------
    >>> float(mean_frame([0.25, 0.5, 0.0, 0.25]))
    1.25
    """
    distribution = check_distribution("distribution", distribution)
    return distribution @ np.arange(distribution.shape[-1])


def median_frame(distribution) -> np.ndarray:
    """The frame with the least expected absolute error, and of several the earliest: (...,) int64.

    It is the first frame up to which the probability is at least one half, less 1e-9 for rounding.

    Parameters
    ----------
    distribution
        As for :func:`mean_frame`.

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
        As for :func:`mean_frame`.
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
        As for :func:`mean_frame`.
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

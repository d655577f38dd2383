"""The best path of a target, and the frames that it gives to each label: forced alignment. No posteriors are here.

The recursions of CTC and RNN-T run with a maximum in place of the sum, and a back-pointer for each node says which arc
brought the maximum. :mod:`.posterior` has what all paths say together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._validation import NoAlignment, check_integers, check_weights, check_word_lengths, no_path_beyond
from ._masses import (
    arriving,
    ctc_alpha,
    ctc_dead_frame,
    ctc_problem,
    rnnt_alpha,
    rnnt_dead_frame,
    rnnt_problem,
    skip_penalty,
)

__all__ = ["BestPath", "NoAlignment", "ctc_best_path", "rnnt_best_path", "word_spans"]


@dataclass(frozen=True)
class BestPath:
    """A path of a target and the frames of each label. Frames count from 0, and the last one belongs to the span.

    Parameters
    ----------
    log_mass : float
        Sum of the log-probs along the path, nats.
    path : int64 array
        CTC: the state of each frame, (T,); state 2u + 1 is label u, state 2u the blank before it. RNN-T: the node
        (t, u) that each arc leaves, (T + U, 2), in the order of the path.
    first, last : (U,) int64 arrays
        CTC: the first and the last frame of each label's run. RNN-T: the frame in which the label is written, twice.
    """

    log_mass: float
    path: np.ndarray
    first: np.ndarray
    last: np.ndarray


def ctc_best_path(log_probs, targets, *, blank=0) -> BestPath:
    """The path of the largest mass (Viterbi). Of several, the one that, read from its end, stays in a state longest.

    At a tie the last frame prefers the last label to the blank after it, and each frame before it prefers to stay,
    then to have moved by one state, then to have skipped a blank. :func:`reference_impl.lattice.best_path` chooses the
    same path of :func:`reference_impl.topology.ctc_lattice`.

    Parameters
    ----------
    log_probs : (T, V) array of float16, float32 or float64
        Nats; ``-inf`` masks an entry; need not be normalised.
    targets : (U,) array of int32 or int64
        Labels in [0, V), none equal to ``blank``.
    blank : int

    Returns
    -------
    BestPath

    Raises
    ------
    NoAlignment
        A ``ValueError``: too few frames for the labels, or every path uses an entry that is ``-inf``.
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    Label 1 is heard in frames 1 and 2:

    >>> found = ctc_best_path(np.log([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]]), [1])
    >>> found.path.tolist(), found.first.tolist(), found.last.tolist()
    ([0, 1, 1, 2], [1], [2])
    >>> round(float(np.exp(found.log_mass)), 12) == round(0.9 * 0.8 * 0.6 * 0.7, 12)
    True
    """
    emissions, extended, targets = ctc_problem(log_probs, targets, blank)
    T, S = emissions.shape
    if T == 0:
        return BestPath(0.0, *np.zeros((3, 0), np.int64))
    penalty = skip_penalty(extended)
    alpha = ctc_alpha(emissions, penalty, plus=np.maximum)
    back = arriving(alpha[:-1], penalty).argmax(axis=0)  # the states that the best path into (t + 1, s) came up by
    ends = np.arange(max(S - 2, 0), S)
    state = int(ends[alpha[-1, ends].argmax()])
    if alpha[-1, state] == -np.inf:
        raise no_path_beyond(ctc_dead_frame(alpha))
    states = np.full(T, state)
    for t in reversed(range(T - 1)):
        states[t] = states[t + 1] - back[t, states[t + 1]]
    return BestPath(float(alpha[-1, state]), states, *_runs(states, len(targets)))


def _runs(states, num_labels):
    """First and last frame of each label in a path of states, which never falls."""
    labels = 2 * np.arange(num_labels) + 1
    return np.searchsorted(states, labels), np.searchsorted(states, labels, side="right") - 1


def rnnt_best_path(log_probs, targets, *, blank=0) -> BestPath:
    """The path of the largest mass (Viterbi). Of several, the one that writes its last label earliest, and so on back.

    At a tie a node prefers to have been entered by a blank. :func:`reference_impl.lattice.best_path` chooses the same
    path of :func:`reference_impl.topology.rnnt_lattice`.

    Parameters
    ----------
    log_probs : (T, U+1, V) array of float16, float32 or float64
        Nats, T >= 1; ``-inf`` masks an entry; need not be normalised.
    targets, blank
        As for :func:`ctc_best_path`.

    Returns
    -------
    BestPath

    Raises
    ------
    NoAlignment
        A ``ValueError``: every path uses an entry that is ``-inf``.
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    Two frames and one label, which is more probable in the second frame:

    >>> probs = np.array([[[0.7, 0.3], [0.5, 0.5]], [[0.2, 0.8], [0.9, 0.1]]])
    >>> found = rnnt_best_path(np.log(probs), [1])
    >>> found.path.tolist(), found.first.tolist()
    ([[0, 0], [1, 0], [1, 1]], [1])
    """
    blanks, labels, targets = rnnt_problem(log_probs, targets, blank)
    T, U = labels.shape
    alpha = rnnt_alpha(blanks, labels, plus=np.maximum)
    log_mass = float(alpha[-1, -1] + blanks[-1, -1])
    if log_mass == -np.inf:
        raise no_path_beyond(rnnt_dead_frame(alpha))
    by_blank, by_label = np.full((2, T, U + 1), -np.inf)
    by_blank[1:], by_label[:, 1:] = alpha[:-1] + blanks[:-1], alpha[:, :-1] + labels
    back = by_label > by_blank  # whether the best path into (t, u) came by the label
    path = np.zeros((T + U, 2), np.int64)
    t, u = T - 1, U
    for n in reversed(range(T + U)):
        path[n] = t, u
        t, u = (t, u - 1) if back[t, u] else (t - 1, u)
    frames = path[1:][path[1:, 1] > path[:-1, 1], 0]
    return BestPath(log_mass, path, frames, frames.copy())


def word_spans(first, last, word_lengths) -> tuple[np.ndarray, np.ndarray]:
    """Spans of words from those of labels: from the first frame of a word's first label to the last of its last.

    Parameters
    ----------
    first, last : (U,) ints
        Of the labels, as in :class:`BestPath`.
    word_lengths : (W,) ints
        Labels of each word, at least 1; together U.

    Returns
    -------
    first, last : (W,) int64 arrays

    Examples
    --------
    >>> word_spans([0, 2, 5], [1, 3, 5], [2, 1])
    (array([0, 5]), array([3, 5]))
    """
    first, last = check_integers("first", first, 1, "(U,)"), check_integers("last", last, 1, "(U,)")
    check_weights("last", last, first.shape)
    ends = check_word_lengths(word_lengths, len(first)).cumsum()
    return first[np.append(0, ends)[:-1]], last[ends - 1]

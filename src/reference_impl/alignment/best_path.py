"""The best path of a target, and the frames that it gives to each label: forced alignment. No posteriors are here.

The path is that of :func:`reference_impl.lattice.best_path` in the lattice of the loss, and the spans are read off its
arcs. :mod:`.posterior` has what all paths say together, and :mod:`.long` the same path for long audio.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._validation import NoAlignment, check_integers, check_weights, check_word_lengths
from ._arcs import added, ctc_arcs, rnnt_arcs

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
    then to have moved by one state, then to have skipped a blank: the order of the arcs in
    :func:`reference_impl.topology.ctc_lattice`.

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
    arcs = ctc_arcs(log_probs, targets, blank)
    chosen = arcs.best_path()
    path = arcs.targets[chosen[:-1], 1]  # the last arc leads to the end
    return BestPath(added(arcs.weights[chosen]), path, *runs(path, len(targets)))


def runs(path, num_labels) -> tuple[np.ndarray, np.ndarray]:
    """First and last frame of each label in a path of CTC's states, which never falls.

    Examples
    --------
    >>> runs(np.array([0, 1, 1, 2, 3]), 2)
    (array([1, 4]), array([2, 4]))
    """
    labels = 2 * np.arange(num_labels) + 1
    return np.searchsorted(path, labels), np.searchsorted(path, labels, side="right") - 1


def rnnt_best_path(log_probs, targets, *, blank=0) -> BestPath:
    """The path of the largest mass (Viterbi). Of several, the one that writes its last label earliest, and so on back.

    At a tie a node prefers to have been entered by a blank: the order of the arcs in
    :func:`reference_impl.topology.rnnt_lattice`.

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
    arcs = rnnt_arcs(log_probs, targets, blank)
    chosen = arcs.best_path()
    path = arcs.sources[chosen]
    frames = path[arcs.moves[chosen], 0]  # of the label arcs
    return BestPath(added(arcs.weights[chosen]), path, frames, frames.copy())


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

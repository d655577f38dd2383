"""CTC alignment of text and speech that do not match: a star for speech without text, a cost for text without speech.

The target is a row of words, with a gap before, between and after them. In a gap a path may hold blanks, then a *star*
that takes any frames at a constant score, then blanks again. A path may pass over a word at a constant cost; it does so
as it leaves a gap. Where nothing was held between two words that are spoken, none is passed over between them: whether
the two need a blank would depend on the pair. So a path is one choice of what each frame holds and of the words that
are spoken, and no choice is counted twice.

:func:`.star_lattice` says this arc by arc, for the engine of :mod:`reference_impl.lattice`; the functions here compute
the same a row of states at a time. If the text has separators between words, make each one the last label of a word:
then it is passed over with the word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._validation import NoAlignment
from ._star_graph import StarGraph

__all__ = ["STAR", "StarAlignment", "StarPosteriors", "star_best_path", "star_posteriors"]

#: What :attr:`StarAlignment.symbols` holds in the frames of a star.
STAR = -1


@dataclass(frozen=True)
class StarAlignment:
    """The best path: which frames are star, which words are spoken, and when. Frames count from 0.

    Parameters
    ----------
    log_mass : float
        Log-probs and star scores of the frames, less the costs of the words that are passed over; nats.
    symbols : (T,) int64 array
        The symbol of each frame, or :data:`STAR`.
    spoken : (W,) bool array
    first, last : (W,) int64 arrays
        The frames from the beginning of a word's first label to the end of its last; -1 for a word passed over.
    label_first, label_last : (U,) int64 arrays
        The same for the labels of all words, one after the other.
    """

    log_mass: float
    symbols: np.ndarray
    spoken: np.ndarray
    first: np.ndarray
    last: np.ndarray
    label_first: np.ndarray
    label_last: np.ndarray


@dataclass(frozen=True)
class StarPosteriors:
    """What all paths say together. Probabilities, given that one of the paths was taken.

    Parameters
    ----------
    log_z : float
        Log of the mass of all paths, nats.
    star : (T,) float64 array
        That the frame is star.
    spoken : (W,) float64 array
        That the word is not passed over.
    starts, ends : (W, T) float64 arrays
        That the word is spoken, and that its first label begins, or its last label ends, in the frame. A row adds up to
        ``spoken``; divide by it for a distribution over frames.
    """

    log_z: float
    star: np.ndarray
    spoken: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def star_best_path(log_probs, words, *, star_score, skip_cost, stars=None, blank=0) -> StarAlignment:
    """The path of the largest mass through words, stars and words passed over.

    Parameters
    ----------
    log_probs : (T, V) array of float16, float32 or float64
        Nats; ``-inf`` masks an entry; need not be normalised.
    words : sequence of sequences of int
        The labels of each word, at least one, in [0, V), none equal to ``blank``.
    star_score : float or None
        Nats for each frame of a star, usually below 0. None: there are no stars.
    skip_cost : float or None
        Nats for each word passed over, usually above 0. None: every word has to be spoken.
    stars : (W+1,) bools, optional
        The gaps in which a star may stand: before the first word, between words, after the last. None: all of them.
    blank : int

    Returns
    -------
    StarAlignment
        Of several best paths, one.

    Raises
    ------
    NoAlignment
        A ``ValueError``: too few frames for the words, or every path uses an entry that is ``-inf``. With stars in all
        gaps and a cost to pass over words there always is a path.
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    The words are 1 and 2; something else is heard in frame 1, and 2 is not heard at all:

    >>> probs = np.array([[0.1, 0.8, 0.1], [0.01, 0.01, 0.01], [0.9, 0.05, 0.05]])
    >>> found = star_best_path(np.log(probs), [[1], [2]], star_score=-2.0, skip_cost=2.5)
    >>> found.symbols.tolist(), found.spoken.tolist(), found.first.tolist()
    ([1, -1, 0], [True, False], [0, -1])
    """
    graph = StarGraph(log_probs, words, star_score, skip_cost, stars, blank)
    alpha = graph.alpha(np.maximum)
    T, states = len(alpha), np.zeros(len(alpha), np.int64)
    log_mass = _checked_mass(graph.total(alpha, np.maximum), T)
    if T:
        states[-1] = (alpha[-1] + graph.ends).argmax()
    for t in reversed(range(T - 1)):
        states[t] = graph.best_source(alpha[t], states[t + 1])
    symbols = np.where(np.isin(states, graph.star), STAR, graph.symbols[states])
    first, last = np.searchsorted(states, graph.labels), np.searchsorted(states, graph.labels, side="right") - 1
    first, last = np.where(first > last, -1, first), np.where(first > last, -1, last)
    word = np.searchsorted(graph.labels, graph.heads), np.searchsorted(graph.labels, graph.tails)
    return StarAlignment(log_mass, symbols, first[word[0]] >= 0, first[word[0]], last[word[1]], first, last)


def _checked_mass(log_mass, num_frames):
    if log_mass == -np.inf:
        raise NoAlignment(f"log_probs has no path through words that is finite in all T = {num_frames} frames; "
                          "expected one: more frames, fewer entries -inf, or a star_score and a skip_cost")
    return float(log_mass)


def star_posteriors(log_probs, words, *, star_score, skip_cost, stars=None, blank=0) -> StarPosteriors:
    """How probable it is, over all paths, that a frame is star, that a word is spoken, and when.

    Parameters and errors as for :func:`star_best_path`.

    Examples
    --------
    One frame is word 1 or a star. Both have the mass 1/2, but where the frame is a star the word is passed over, which
    divides by 3:

    >>> found = star_posteriors(np.array([[-np.inf, np.log(0.5)]]), [[1]], star_score=np.log(0.5),
    ...                         skip_cost=np.log(3.0))
    >>> found.star.round(12).tolist(), found.spoken.round(12).tolist()
    ([0.25], [0.75])
    """
    graph = StarGraph(log_probs, words, star_score, skip_cost, stars, blank)
    alpha = graph.alpha(np.logaddexp)
    T, W = len(alpha), len(graph.heads)
    log_z = _checked_mass(graph.total(alpha, np.logaddexp), T)
    star, starts, ends = np.zeros(T), np.zeros((W, T)), np.zeros((W, T))
    for t in reversed(range(T)):
        enter = np.logaddexp.reduce(graph.arriving(alpha[t - 1], np.logaddexp)[1:]) if t else graph.begins
        if t == T - 1:
            leave = beta = graph.ends
        else:
            moves = graph.leaving(graph.emissions[t + 1] + beta)
            leave, beta = np.logaddexp.reduce(moves[1:]), np.logaddexp.reduce(moves)
        star[t] = np.exp(alpha[t] + beta - log_z)[graph.star].sum()
        starts[:, t] = np.exp(enter + graph.emissions[t] + beta - log_z)[graph.heads]
        ends[:, t] = np.exp(alpha[t] + leave - log_z)[graph.tails]
    return StarPosteriors(log_z, star, starts.sum(axis=1), starts, ends)

"""CTC alignment of text and speech that do not match: a star for speech without text, a cost for text without speech.

The target is a row of words, with a gap before, between and after them. In a gap a path may hold blanks, then a *star*
that takes any frames at a constant score, then blanks again. A path may pass over a word at a constant cost; it does so
as it leaves a gap. Where nothing was held between two words that are spoken, none is passed over between them: whether
the two need a blank would depend on the pair. So a path is one choice of what each frame holds and of the words that
are spoken, and no choice is counted twice.

:func:`star_lattice` says this arc by arc, and :mod:`reference_impl.lattice` does the rest. If the text has separators
between words, make each one the last label of a word: then it is passed over with the word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _validation
from .._validation import NoAlignment
from ..lattice import Lattice, Z, arc_posteriors, best_path
from ..topology import named_lattice
from ._arcs import added

__all__ = ["STAR", "StarAlignment", "StarPosteriors", "star_best_path", "star_lattice", "star_posteriors",
           "star_scores"]

#: What ``StarAlignment.symbols`` holds in the frames of a star.
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


def star_lattice(words, num_frames, num_symbols, *, stars=None, blank=0) -> Lattice:
    """The paths through words and stars, words passed over, as a lattice for :mod:`reference_impl.lattice`.

    Parameters
    ----------
    words, stars, blank
        As for :func:`.star_best_path`.
    num_frames, num_symbols : int
        T and V.

    Returns
    -------
    Lattice
        Of entries as :func:`star_scores` returns them. Nodes ``(t, "gap", g, place)`` hold a blank, the star or a blank
        in frame t (places 0, 1 and 2), nodes ``(t, "word", w, state)`` a label or a blank of word w. Nodes
        ``("next", t, w)`` hold no frame: t frames are done, and word w is the next to be spoken or passed over. The
        last of them is the end.

    Examples
    --------
    Two frames and one word: it is said in both, or in one beside a blank or a star; or it is passed over, and the
    frames hold two blanks, two stars, or one of each.

    >>> from reference_impl.lattice import enumerate_paths
    >>> len(list(enumerate_paths(star_lattice([[1]], 2, 2))))
    9
    """
    T, V = _validation.check_at_least("num_frames", num_frames, 0), _validation.check_int("V", num_symbols)
    blank = _validation.check_blank(blank, V)
    words = [word.tolist() for word in _validation.check_words(words, V, blank)]
    stars, W = _validation.check_gaps(stars, len(words)), len(words)
    states = list(_states(words, stars, V, blank))
    nodes, arcs = ["start"], [("start", ("next", 0, 0), None)]
    for t in range(T + 1):
        nodes += [("next", t, w) for w in range(W + 1)]
        arcs += [(("next", t, w), ("next", t, w + 1), (t, V + 1)) for w in range(W)]
        for state, column, below in states if t < T else ():
            node, kind, number, place = (t, *state), *state
            nodes.append(node)
            arcs += [((t - 1, *source), node, (t, column)) for source in (state, *below) if t > 0]
            if kind == "gap":
                if t == number == 0 and place < 2:
                    arcs.append(("start", node, (t, column)))
                arcs.append((node, ("next", t + 1, number), None))
            elif place == 0:
                arcs.append((("next", t, number), node, (t, column)))
            if kind == "word" and t == T - 1 and place == 2 * len(words[number]) - 2:
                arcs.append((node, ("next", T, number + 1), None))
    return named_lattice(nodes, arcs, (T + 1, V + 2))


def _states(words, may_stand, V, blank):
    """Each state with the column of its entry, and the states that lead to it from one frame to the next."""
    ended = []  # the last label of the word before
    for g in range(len(words) + 1):
        star, word = ("gap", g, 1), words[g] if g < len(words) else []
        yield ("gap", g, 0), blank, ended
        if may_stand[g]:
            yield star, V, [("gap", g, 0), *ended]
            yield ("gap", g, 2), blank, [star]
        for i, label in enumerate(word):
            if i == 0:
                below = ended if g and words[g - 1][-1] != label else []
            else:
                yield ("word", g, 2 * i - 1), blank, [("word", g, 2 * i - 2)]
                below = [("word", g, 2 * i - 1)] + [("word", g, 2 * i - 2)] * (word[i - 1] != label)
            yield ("word", g, 2 * i), label, below
        ended = [("word", g, 2 * len(word) - 2)]


def star_scores(log_probs, *, star_score, skip_cost) -> np.ndarray:
    """The entries of :func:`star_lattice`: log-probs, the star's score, and minus the cost of a word; (T + 1, V + 2).

    Examples
    --------
    >>> star_scores(np.log([[0.5, 0.5]]), star_score=-2.0, skip_cost=3.0).round(2).tolist()
    [[-0.69, -0.69, -2.0, -3.0], [-inf, -inf, -inf, -3.0]]
    """
    log_probs = _validation.check_log_probs("log_probs", log_probs, 2, "(T, V)")
    star_score, cost = _validation.check_prices(star_score, skip_cost)
    T, V = log_probs.shape
    scores = np.full((T + 1, V + 2), -np.inf)
    scores[:T, :V], scores[:T, V] = log_probs, star_score
    scores[:, V + 1] = -np.inf if cost is None else -cost
    return scores


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
    lattice, weights, words = _weighted(log_probs, words, star_score, skip_cost, stars, blank)
    chosen = best_path(lattice, weights)
    if not chosen:
        raise _no_path(len(log_probs))
    V, symbols, spans = lattice.shape[1] - 2, [], {}
    for arc in (lattice.arcs[i] for i in chosen):
        if arc.entry and arc.entry[1] <= V:  # not a word passed over
            t, *state = lattice.nodes[arc.target]
            symbols.append(STAR if arc.entry[1] == V else arc.entry[1])
            spans.setdefault(tuple(state), [t, t])[1] = t
    of_labels = [spans.get(("word", w, 2 * i), (-1, -1)) for w, word in enumerate(words) for i in range(len(word))]
    first, last = np.array(of_labels, np.int64).reshape(-1, 2).T
    stops = np.cumsum([len(word) for word in words], dtype=np.int64)
    word_first, word_last = first[np.append(0, stops)[:-1]] if words else first, last[stops - 1]
    return StarAlignment(added(weights[list(chosen)]), np.array(symbols, np.int64), word_first >= 0, word_first,
                         word_last, first, last)


def _weighted(log_probs, words, star_score, skip_cost, stars, blank):
    """The lattice, the weights of its arcs, and the words as lists."""
    scores = star_scores(log_probs, star_score=star_score, skip_cost=skip_cost)
    words = list(words)
    lattice = star_lattice(words, len(scores) - 1, scores.shape[1] - 2, stars=stars, blank=blank)
    return lattice, lattice.arc_weights(scores), words


def _no_path(num_frames):
    return NoAlignment(f"log_probs has no path through words that is finite in all T = {num_frames} frames; expected "
                       "one: more frames, fewer entries -inf, or a star_score and a skip_cost")


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
    lattice, weights, words = _weighted(log_probs, words, star_score, skip_cost, stars, blank)
    T, W, log_z = len(log_probs), len(words), float(Z(lattice, weights))
    if log_z == -np.inf:
        raise _no_path(T)
    posteriors, starts, ends = arc_posteriors(lattice, weights), np.zeros((W, T)), np.zeros((W, T))
    for arc, posterior in zip(lattice.arcs, posteriors, strict=True):
        source, target = lattice.nodes[arc.source], lattice.nodes[arc.target]
        if source[1:] == target[1:]:
            continue  # a run goes on
        if target[1] == "word" and target[3] == 0:
            starts[target[2], target[0]] += posterior
        if source[1] == "word" and source[3] == 2 * len(words[source[2]]) - 2:
            ends[source[2], source[0]] += posterior
    star = lattice.occupancy(posteriors)[:T, lattice.shape[1] - 2]
    return StarPosteriors(log_z, star, starts.sum(axis=1), starts, ends)

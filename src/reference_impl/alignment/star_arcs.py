"""Words, stars and words passed over, as a lattice, arc by arc: the definition of :mod:`.star`, for small examples."""

from __future__ import annotations

import numpy as np

from .. import _validation
from ..lattice import Lattice
from ..topology import named_lattice

__all__ = ["star_lattice", "star_scores"]


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

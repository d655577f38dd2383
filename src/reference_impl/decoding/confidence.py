"""How sure the model is of what was read: posteriors of strings, labels at a position, and words. It fits nothing.

**Which of these a model defines.** CTC with a softmax in each frame defines a distribution over label strings,
P(string | x). So does RNN-T with a softmax at each node, if its strings end with probability 1. A distribution over
strings gives every statement about the string a probability:

- *the string is this one*: exp(-loss), one sweep, :func:`string_posterior`;
- *the string begins with this prefix*: one sweep, ``prefix_mass`` of a scorer;
- *label u is k*: a sum over strings. For CTC a sweep that counts labels has it for all u and k at once,
  :func:`ctc_position_posteriors`. In RNN-T the next label depends on the whole prefix, so a sweep would need a state
  for every prefix, and a sum over strings is left, :func:`position_posteriors`;
- *word i is w*: a sum over strings as well, :func:`word_posteriors`.

A sum over an n-best list divides by the mass of the list. The result is the posterior *given that the string is on the
list*. It is close to what the model says if the mass of the list, ``exp(log_masses).sum()``, is close to 1. Scores that
mix in a language model are not the log-probabilities of any model, so they have a posterior on the list only.

Three numbers look like the confidence of a string and are not. The softmax at the peak of a label is the probability
that this frame carries the label, whatever the string. The occupancy is a posterior given the string, so it sums to 1
in each frame even if the string is wrong. The mass of the best path leaves out the other paths of the same string.

Whether the model is right as often as its posteriors say is another question: :mod:`.calibration`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._validation import check_at_least, check_division, check_finite, check_real
from ..semiring import LOG, Semiring
from .ctc_prefix import CTCPrefixScorer

__all__ = ["ctc_position_posteriors", "n_best_posteriors", "position_posteriors", "split_words", "string_posterior",
           "word_posteriors"]


def string_posterior(scorer, labels: Sequence[int]):
    """P(string | x): the mass of the string divided by the mass of all strings, exp(-loss) for log-probs.

    Parameters
    ----------
    scorer : :class:`.CTCPrefixScorer` or :class:`.RNNTPrefixScorer`
        On a semiring that can divide.
    labels : sequence of ints

    Returns
    -------
    float, or on ``REAL`` what the weights are made of
        0 where no string has mass.

    Examples
    --------
    >>> from reference_impl.decoding import SMALLEST_DIFFERENCE
    >>> from reference_impl.semiring import REAL
    >>> string_posterior(CTCPrefixScorer(SMALLEST_DIFFERENCE.probs, semiring=REAL), [1])
    Fraction(5, 9)
    """
    check_division(scorer.semiring)
    total = scorer.start().prefix_mass
    if total == scorer.semiring.zero:
        return 0.0
    share = scorer.semiring.ratio(scorer.prefix(labels).string_mass, total)
    return min(float(share), 1.0) if isinstance(share, np.floating) else share  # rounding may exceed 1


def n_best_posteriors(log_masses, *, temperature=1.0) -> np.ndarray:
    """Posteriors of the strings on an n-best list, given that one of them is right: the softmax of their log-masses.

    Parameters
    ----------
    log_masses : (N,) array
        Nats, N >= 1: log-masses, or scores of a beam search.
    temperature : float > 0
        Divides the log-masses first. Above 1 it brings the posteriors closer to each other, and keeps their order.

    Returns
    -------
    (N,) float64 array
        Sums to 1. The log-masses of all strings would give P(string | x); without some of them, each posterior is
        larger than that.

    Examples
    --------
    >>> n_best_posteriors(np.log([0.4, 0.1])).round(12).tolist()
    [0.8, 0.2]
    >>> n_best_posteriors(np.log([0.4, 0.1]), temperature=2).round(4).tolist()
    [0.6667, 0.3333]
    """
    temperature = check_real("temperature", temperature, "a finite number > 0", lambda value: value > 0)
    log_masses = np.asarray(log_masses)
    check_at_least("N", log_masses.size, 1)
    log_masses = check_finite("log_masses", log_masses, (log_masses.size,)) / temperature
    shares = np.exp(log_masses - log_masses.max())
    return shares / shares.sum()


def position_posteriors(strings: Sequence[Sequence[int]], posteriors, num_symbols) -> np.ndarray:
    """The probability that label u is k, from strings and their posteriors.

    Positions count from the left, so a string with one more label near its beginning has all later labels in other
    positions. The result is exact if the strings are all that have mass; :func:`.exact.n_best` with ``n=None`` finds
    them for a short utterance. With an n-best list it is the probability given that the string is on the list.

    Parameters
    ----------
    strings : N sequences of labels
    posteriors : (N,) array of floats or fractions
    num_symbols : int
        V.

    Returns
    -------
    (U, V) array
        U is the length of the longest string. The sum of row u is the probability that there are more than u labels.

    Examples
    --------
    >>> position_posteriors([[1, 2], [1], []], [0.5, 0.25, 0.25], 3).tolist()
    [[0.0, 0.75, 0.0], [0.0, 0.0, 0.5]]
    """
    posteriors = _one_for_each(strings, posteriors)
    found = np.zeros((max(map(len, strings), default=0), num_symbols), posteriors.dtype)
    for string, posterior in zip(strings, posteriors, strict=True):
        for u, label in enumerate(string):
            found[u, label] += posterior
    return found


def ctc_position_posteriors(weights, num_positions, *, blank=0, semiring: Semiring = LOG) -> np.ndarray:
    """The probability that label u is k under CTC, exactly and for all u and k, by one sweep.

    The collapsed path grows by at most one label in a frame, so label u appears in exactly one frame. Which label may
    appear there depends only on the number of labels so far and on the last symbol. Let M[n, j] be the mass of the
    paths up to here that have n labels and end in symbol j, and y and R as in :class:`.ctc_prefix.CTCPrefixScorer`::

        entering[n, k]     = (sum over j other than k of M[n, j]) y[t, k],               k not the blank
        M'[n, k]           = M[n, k] y[t, k] + entering[n-1, k]
        M'[n, blank]       = (sum over j of M[n, j]) y[t, blank]
        P(label u is k)    = sum over t of entering[u, k] R[t+1] / R[0]

    The sweep starts from M[0, blank] = 1. Its time is proportional to T, to V and to the number of positions.

    Parameters
    ----------
    weights : (T, V) array
        As for :class:`.ctc_prefix.CTCPrefixScorer`.
    num_positions : int
        How many positions, from the first on; those from T on have no mass.
    blank : int
    semiring : Semiring
        One that can divide.

    Returns
    -------
    (num_positions, V) array
        The sum of row u is the probability that there are more than u labels; all 0 where no string has mass.

    Examples
    --------
    >>> ctc_position_posteriors(np.log([[0.5, 0.25, 0.25]] * 2), 2).round(4).tolist()
    [[0.0, 0.375, 0.375], [0.0, 0.0625, 0.0625]]
    """
    check_division(semiring)
    num_positions = check_at_least("num_positions", num_positions, 0)
    scorer = CTCPrefixScorer(weights, blank=blank, semiring=semiring)
    plus, times, (T, V) = semiring.plus, semiring.times, scorer.weights.shape
    found, spelled = semiring.zeros((num_positions, V)), semiring.zeros((num_positions, V))
    spelled[:1, blank] = semiring.one
    for t in range(T):
        frame = scorer.weights[t]
        entering = times(_sums_of_others(spelled, semiring), frame)
        entering[:, blank] = semiring.zero
        found = plus(found, times(entering, scorer.rest[t + 1]))
        ends_in_blank = times(semiring.sum(spelled.T), frame[blank])
        spelled = times(spelled, frame)
        spelled[:, blank] = ends_in_blank
        spelled[1:] = plus(spelled[1:], entering[:-1])
    if scorer.rest[0] == semiring.zero:
        return np.zeros((num_positions, V))
    return semiring.ratio(found, scorer.rest[0])


def _sums_of_others(masses, semiring):
    """At each (n, k) the sum of the entries (n, j) over all j other than k. A subtraction would lose digits, so this
    adds all entries to the left of k and all to its right."""
    others = semiring.zeros(masses.shape)
    for symbols in (range(masses.shape[1]), reversed(range(masses.shape[1]))):
        so_far = semiring.zeros(len(masses))
        for k in symbols:
            others[:, k] = semiring.plus(others[:, k], so_far)
            so_far = semiring.plus(so_far, masses[:, k])
    return others


def split_words(labels: Sequence[int], separator: int) -> list[tuple[int, ...]]:
    """The words of a string, tuples of the labels between separators. There are no empty words.

    Examples
    --------
    >>> split_words([3, 1, 0, 2, 0, 0, 3], separator=0)
    [(3, 1), (2,), (3,)]
    """
    words = [[]]
    for label in labels:
        if label == separator:
            words.append([])
        else:
            words[-1].append(int(label))
    return [tuple(word) for word in words if word]


def word_posteriors(strings: Sequence[Sequence[int]], posteriors, separator: int) -> list[tuple]:
    """The words of the first string, each with the probability that it is the word in its place.

    Words are counted from the left, as positions are in :func:`position_posteriors`. A wrong letter changes one word; a
    missing or an extra separator moves all words after it.

    Parameters
    ----------
    strings : N sequences of labels, N >= 1
        The string to judge first, such as the best of an n-best list.
    posteriors : (N,) array of floats or fractions
    separator : int
        The label between words.

    Returns
    -------
    list of (word, posterior)
        A word is a tuple of labels.

    Examples
    --------
    >>> word_posteriors([[1, 3, 2], [1, 3, 1], [1]], [0.5, 0.25, 0.25], separator=3)
    [((1,), 1.0), ((2,), 0.5)]
    """
    posteriors = _one_for_each(strings, posteriors)
    check_at_least("the number of strings", len(strings), 1)
    best, *_ = every = [split_words(string, separator) for string in strings]
    return [(word, sum(posterior for words, posterior in zip(every, posteriors.tolist(), strict=True)
                       if words[i:i + 1] == [word])) for i, word in enumerate(best)]


def _one_for_each(strings, posteriors):
    posteriors = np.asarray(posteriors)
    if posteriors.shape != (len(strings),):
        raise ValueError(f"posteriors has shape {posteriors.shape}; expected ({len(strings)},), one for each string")
    return posteriors

"""Prefix scores of CTC: the mass of all label strings that begin with a prefix, by a forward sweep. No search.

The loss sums over the paths of one string of labels. A decoder has no string yet. It grows one, label by label, and
asks how much mass is left for the strings that begin this way. The sweep is the forward recursion of the loss, cut into
one piece for each label: a prefix keeps two numbers for each frame, and the next label needs nothing else. A path is a
sequence of symbols, one for each frame. Frames, labels and symbols count from 0. :mod:`.rnnt_prefix` has the same names
for RNN-T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._validation import check_blank, check_masses, check_rank, check_targets
from ..semiring import LOG, Semiring

__all__ = ["CTCPrefix", "CTCPrefixScorer"]


@dataclass(frozen=True)
class CTCPrefix:
    """A prefix of labels, its masses, and the state from which :class:`CTCPrefixScorer` extends it.

    Masses are elements of the scorer's semiring: on ``LOG``, log-probs in nats.

    Parameters
    ----------
    labels : tuple of int
    ends_in_blank, ends_in_label : (T+1,) arrays
        Entry n is the mass of the paths over the first n frames that collapse to exactly ``labels`` and end in a blank,
        or in the last label. Before the first frame, the empty prefix counts as ending in a blank.
    string_mass : element
        Mass of the string ``labels`` itself: minus the loss, on ``LOG``.
    prefix_mass : element
        Mass of all strings that begin with ``labels``, this one included.
    """

    labels: tuple[int, ...]
    ends_in_blank: np.ndarray
    ends_in_label: np.ndarray
    string_mass: Any
    prefix_mass: Any


class CTCPrefixScorer:
    """Masses of prefixes for one utterance, each from the state of its parent, the prefix without the last label.

    **What begins with a prefix.** Read a path frame by frame, and collapse what has been read so far. The collapsed
    string never shrinks, and grows by at most one label in a frame. So if it ends up as a string that begins with
    ``g + (k,)``, there is exactly one frame t in which it grew from g to ``g + (k,)``. Frame t carries k, and the t
    symbols before it collapse to g. These may end in a blank, or in the last label of g unless that label is k, because
    then the two would merge. All symbols after frame t are free. Let N be ``ends_in_label`` and B ``ends_in_blank`` of
    g, y the probabilities, and R[n] the mass of all paths over the frames n, ..., T-1::

        entering[t, k]       = (B[t] + N[t] [k is not the last label of g]) y[t, k]
        prefix_mass(g + k)   = sum over t of entering[t, k] R[t+1]
        R[n]                 = (sum over k of y[n, k]) R[n+1],        R[T] = 1

    If the probabilities of each frame sum to 1, every R is 1.

    **The state of the longer prefix.** A path that spells ``g + (k,)`` after t + 1 frames and ends in k either got
    there in frame t, or repeated k in frame t. One that ends in a blank had spelled ``g + (k,)`` before frame t::

        N'[t+1] = entering[t, k] + N'[t] y[t, k]
        B'[t+1] = (N'[t] + B'[t]) y[t, blank]
        string_mass(g + k) = N'[T] + B'[T]

    The empty prefix has N = 0, B[0] = 1, and only blanks: B[t+1] = B[t] y[t, blank]. All strings begin with it, so its
    ``prefix_mass`` is R[0].

    Parameters
    ----------
    weights : (T, V) array
        Log-probs in nats on ``LOG`` and ``MAX``, probabilities of any numeric kind on ``REAL``. ``-inf`` masks an
        entry. The probabilities of a frame may sum to less than 1.
    blank : int
    semiring : Semiring
        On ``MAX``, a mass is that of the best path alone.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule. Values are checked on ``LOG`` only; there a frame whose
        probabilities sum to more than 1 raises.

    Examples
    --------
    Two frames, probability 1/2 each for blank and label 1. Three of the four paths spell 1, and none has two labels.

    >>> from fractions import Fraction
    >>> from reference_impl.semiring import REAL
    >>> scorer = CTCPrefixScorer(np.full((2, 2), Fraction(1, 2)), semiring=REAL)
    >>> scorer.prefix([1]).prefix_mass, scorer.prefix([1, 1]).prefix_mass
    (Fraction(3, 4), Fraction(0, 1))
    """

    def __init__(self, weights, *, blank=0, semiring: Semiring = LOG):
        if semiring is LOG:
            weights = check_masses("weights", weights)
        weights = np.asarray(weights)
        check_rank("weights", weights.shape, 2, "(T, V)")
        self.blank, self.semiring = check_blank(blank, weights.shape[1]), semiring
        self.weights = np.frompyfunc(semiring.read, 1, 1)(weights).astype(semiring.dtype)
        # R: entry n is the mass of all paths over the frames n, ..., T-1.
        self.rest = semiring.zeros(len(weights) + 1)
        self.rest[-1] = semiring.one
        for t in reversed(range(len(weights))):
            self.rest[t] = semiring.times(semiring.sum(self.weights[t]), self.rest[t + 1])

    def start(self) -> CTCPrefix:
        """The empty prefix."""
        T, semiring = len(self.weights), self.semiring
        ends_in_blank, ends_in_label = semiring.zeros(T + 1), semiring.zeros(T + 1)
        ends_in_blank[0] = semiring.one
        for t in range(T):
            ends_in_blank[t + 1] = semiring.times(ends_in_blank[t], self.weights[t, self.blank])
        return CTCPrefix((), ends_in_blank, ends_in_label, ends_in_blank[T], self.rest[0])

    def entering(self, prefix: CTCPrefix) -> np.ndarray:
        """(T, V): mass of the paths that spell the prefix before frame t and make it longer by label k in frame t.

        The column of the blank is zero.
        """
        arriving = self.semiring.zeros(self.weights.shape)
        arriving[:] = self.semiring.plus(prefix.ends_in_blank, prefix.ends_in_label)[:-1, None]
        if prefix.labels:
            arriving[:, prefix.labels[-1]] = prefix.ends_in_blank[:-1]
        arriving[:, self.blank] = self.semiring.zero
        return self.semiring.times(arriving, self.weights)

    def extension_masses(self, prefix: CTCPrefix) -> np.ndarray:
        """(V,): ``prefix_mass`` of the prefix with label k added, for every k at once; zero for the blank.

        Examples
        --------
        >>> scorer = CTCPrefixScorer(np.log([[0.5, 0.25, 0.25]]))
        >>> np.exp(scorer.extension_masses(scorer.start())).tolist()
        [0.0, 0.25, 0.25]
        """
        masses = self.semiring.zeros(self.weights.shape[1])
        for entering, rest in zip(self.entering(prefix), self.rest[1:], strict=True):
            masses = self.semiring.plus(masses, self.semiring.times(entering, rest))
        return masses

    def extend(self, prefix: CTCPrefix, label) -> CTCPrefix:
        """The prefix with one label added: its state and both masses, in one pass over the frames."""
        T, semiring = len(self.weights), self.semiring
        entering = self.entering(prefix)[:, label]
        ends_in_blank, ends_in_label = semiring.zeros(T + 1), semiring.zeros(T + 1)
        prefix_mass = semiring.zero
        for t in range(T):
            ends_in_label[t + 1] = semiring.plus(
                entering[t], semiring.times(ends_in_label[t], self.weights[t, label]))
            ends_in_blank[t + 1] = semiring.times(
                semiring.plus(ends_in_label[t], ends_in_blank[t]), self.weights[t, self.blank])
            prefix_mass = semiring.plus(prefix_mass, semiring.times(entering[t], self.rest[t + 1]))
        string_mass = semiring.plus(ends_in_label[T], ends_in_blank[T])
        return CTCPrefix((*prefix.labels, int(label)), ends_in_blank, ends_in_label, string_mass, prefix_mass)

    def prefix(self, labels: Sequence[int]) -> CTCPrefix:
        """The prefix with these labels, from the empty one: int32 or int64, none equal to ``blank``.

        Examples
        --------
        >>> from reference_impl import ctc
        >>> log_probs = np.log([[0.5, 0.5], [0.25, 0.75]])
        >>> bool(np.isclose(CTCPrefixScorer(log_probs).prefix([1]).string_mass, -ctc.loss(log_probs, [1])))
        True
        """
        prefix = self.start()
        for label in check_targets(labels, self.weights.shape[1], self.blank, name="labels").tolist():
            prefix = self.extend(prefix, label)
        return prefix

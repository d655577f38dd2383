"""Prefix scores of RNN-T: the mass of all label strings that begin with a prefix, row by row of the lattice. No search.

A network is a function ``row(prefix)`` that returns the log-probs (T, V) of all frames once these labels are written.
It is called once for each prefix. The loss knows its target, so its lattice has U+1 rows. Here every prefix is a row of
its own; the rows form a tree, and the alpha of a row follows from that of its parent. Frames and labels count from 0.
:mod:`.ctc_prefix` has the same names for CTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._validation import check_rank, check_row, check_targets
from ..semiring import LOG, Semiring

__all__ = ["RNNTPrefix", "RNNTPrefixScorer"]


@dataclass(frozen=True)
class RNNTPrefix:
    """A prefix of labels, its masses, and the state from which :class:`RNNTPrefixScorer` extends it.

    Masses are elements of the scorer's semiring: on ``LOG``, log-probs in nats.

    Parameters
    ----------
    labels : tuple of int
    row : (T, V) array
        What the network returns once the labels are written.
    alpha : (T,) array
        Mass of the paths that reach this row in frame t, after t blanks and all labels; the step that leaves the node
        is excluded.
    string_mass : element
        Mass of the string ``labels`` itself: minus the loss, on ``LOG``.
    prefix_mass : element
        Mass of all paths that ever reach this row. These are the paths of the strings that begin with ``labels``;
        :class:`RNNTPrefixScorer` says when the two masses agree.
    """

    labels: tuple[int, ...]
    row: np.ndarray
    alpha: np.ndarray
    string_mass: Any
    prefix_mass: Any


class RNNTPrefixScorer:
    """Masses of prefixes for one utterance, each from the state of its parent, the prefix without the last label.

    **The row of a longer prefix.** A path reaches row ``g + (k,)`` in frame t by a blank from frame t-1 of that row, or
    by label k from frame t of row g. Let a be alpha, and y(g) the probabilities in ``row(g)``::

        a(g + k)[t]      = a(g + k)[t-1] y(g + k)[t-1, blank] + a(g)[t] y(g)[t, k]
        string_mass(g)   = a(g)[T-1] y(g)[T-1, blank]

    In the row of the empty prefix a[0] = 1, and only blanks lead on. This is the forward recursion of the loss.

    **What begins with a prefix.** A path whose string begins with ``g + (k,)`` enters the row of ``g + (k,)`` by
    exactly one label arc, in some frame t. What it does afterwards is free::

        prefix_mass(g + k) = sum over t of a(g)[t] y(g)[t, k]

    Only the parent's row is needed. So all labels k are scored at once, before the network is called for any of them.

    **The same, seen from the row itself.** If the probabilities of each frame of ``row(g)`` sum to 1, all mass that
    enters the row leaves it, either by a label or by the last blank, which ends the string::

        prefix_mass(g) = string_mass(g) + sum over t, k of a(g)[t] y(g)[t, k],      k not the blank

    So the mass of a prefix is the mass of its string plus that of its extensions.

    **What the strings get.** Nothing bounds the number of labels in a frame, so a network could go on writing forever.
    ``prefix_mass(g)`` is the probability that the first labels it writes are g. If the network stops with probability
    1, this is the mass of all strings that begin with g; it stops if the probability of the blank never falls below
    some positive number, for instance. Otherwise, or if masks make a frame sum to less than 1, the strings have less
    mass, and ``prefix_mass(g)`` is an upper bound.

    Parameters
    ----------
    row : callable
        From a tuple of labels to a (T, V) array, T >= 1: log-probs in nats on ``LOG`` and ``MAX``, probabilities of any
        numeric kind on ``REAL``. ``-inf`` masks an entry.
    blank : int
    semiring : Semiring
        On ``MAX``, each mass is that of one best path: of the string, or up to where it enters the row.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule. On ``LOG`` a frame whose probabilities sum to more than 1 raises.

    Examples
    --------
    Two frames; probability 1/2 for the blank, 1/4 for each of two labels, whatever was written before.

    >>> from fractions import Fraction
    >>> from reference_impl.semiring import REAL
    >>> half, quarter = Fraction(1, 2), Fraction(1, 4)
    >>> scorer = RNNTPrefixScorer(lambda prefix: [[half, quarter, quarter]] * 2, semiring=REAL)
    >>> scorer.prefix([1]).string_mass, scorer.prefix([1]).prefix_mass
    (Fraction(1, 8), Fraction(3, 8))
    """

    def __init__(self, row: Callable, *, blank=0, semiring: Semiring = LOG):
        self.row, self.blank, self.semiring = row, blank, semiring

    def _read(self, labels):
        row, name = self.row(labels), f"row({labels})"
        row = check_row(name, row, self.blank) if self.semiring is LOG else np.asarray(row)
        check_rank(name, row.shape, 2, "(T, V)")
        return np.frompyfunc(self.semiring.read, 1, 1)(row).astype(self.semiring.dtype)

    def start(self) -> RNNTPrefix:
        """The empty prefix."""
        row = self._read(())
        entering = self.semiring.zeros(len(row))
        entering[0] = self.semiring.one  # all paths start here
        return self._reached((), row, entering, self.semiring.one)

    def extension_masses(self, prefix: RNNTPrefix) -> np.ndarray:
        """(V,): ``prefix_mass`` of the prefix with label k added, for every k at once; zero for the blank.

        Examples
        --------
        >>> scorer = RNNTPrefixScorer(lambda prefix: np.log([[0.5, 0.25, 0.25]]))
        >>> np.exp(scorer.extension_masses(scorer.start())).tolist()
        [0.0, 0.25, 0.25]
        """
        masses = self.semiring.zeros(prefix.row.shape[1])
        for arrived, probs in zip(prefix.alpha, prefix.row, strict=True):
            masses = self.semiring.plus(masses, self.semiring.times(arrived, probs))
        masses[self.blank] = self.semiring.zero
        return masses

    def extend(self, prefix: RNNTPrefix, label) -> RNNTPrefix:
        """The prefix with one label added: its row, alpha and both masses, in one pass over the frames."""
        labels, semiring = (*prefix.labels, int(label)), self.semiring
        entering = semiring.times(prefix.alpha, prefix.row[:, label])
        return self._reached(labels, self._read(labels), entering, semiring.sum(entering))

    def _reached(self, labels, row, entering, prefix_mass):
        """A row that is entered with these masses, one for each frame."""
        semiring = self.semiring
        alpha = semiring.zeros(len(entering))
        alpha[0] = entering[0]
        for t in range(1, len(alpha)):
            alpha[t] = semiring.plus(
                semiring.times(alpha[t - 1], row[t - 1, self.blank]), entering[t])
        string_mass = semiring.times(alpha[-1], row[-1, self.blank])
        return RNNTPrefix(labels, row, alpha, string_mass, prefix_mass)

    def prefix(self, labels: Sequence[int]) -> RNNTPrefix:
        """The prefix with these labels, from the empty one: int32 or int64, none equal to ``blank``.

        Examples
        --------
        >>> from reference_impl import rnnt
        >>> log_probs = np.log(np.random.default_rng(0).dirichlet([1, 1, 1], size=(4, 3)))  # (T, U+1, V)
        >>> scorer = RNNTPrefixScorer(lambda prefix: log_probs[:, len(prefix)])
        >>> bool(np.isclose(scorer.prefix([2, 1]).string_mass, -rnnt.loss(log_probs, [2, 1])))
        True
        """
        prefix = self.start()
        for label in check_targets(labels, prefix.row.shape[1], self.blank, name="labels").tolist():
            prefix = self.extend(prefix, label)
        return prefix

"""The best strings exactly, by best-first search over prefixes, and the best path. No beam, nothing is pruned.

The mass of a prefix bounds the mass of every string that begins with it. So the search extends the prefix with the
largest mass first, and it is done when some string has at least as much mass as every prefix that is left. Both scorers
have these masses, :class:`.ctc_prefix.CTCPrefixScorer` and :class:`.rnnt_prefix.RNNTPrefixScorer`. If the network is
sure, few prefixes are extended. If it is not, their number can grow exponentially with T.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from .._validation import check_at_least, check_blank, check_masses, check_rank
from ..examples import Example
from ..semiring import LOG, Semiring

__all__ = ["SMALLEST_DIFFERENCE", "SearchLimitReached", "best_path", "n_best"]

#: The smallest case in which best path and best string differ: two frames, blank 2/3, one label 1/3. The best path is
#: two blanks, with mass 4/9, so it reads nothing. The label has three paths, together 5/9. No smaller case has a best
#: path that is better than every other path: with one frame a path is a string, and if all probabilities are multiples
#: of 1/2, a best path is either certain or one of several.
SMALLEST_DIFFERENCE = Example(np.array([[2, 1], [2, 1]]), [1], symbols="∅a")


class SearchLimitReached(RuntimeError):
    """The search has extended as many prefixes as it may, and does not know yet which string is best."""


def best_path(weights, *, blank=0, semiring: Semiring = LOG) -> tuple[tuple[int, ...], object]:
    """The best path of CTC, collapsed, and the mass of that path alone.

    Frames are independent, so the best symbol of each frame makes the best path.

    Parameters
    ----------
    weights : (T, V) array
        Log-probs in nats on ``LOG``, probabilities on ``REAL``. In each frame the first of several best symbols counts.
    blank : int
    semiring : Semiring

    Returns
    -------
    labels : tuple of int
    mass : element of the semiring

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule. On ``LOG`` a frame whose probabilities sum to more than 1 raises.

    Examples
    --------
    >>> from reference_impl.semiring import REAL
    >>> best_path(SMALLEST_DIFFERENCE.probs, semiring=REAL)
    ((), Fraction(4, 9))
    """
    weights = check_masses("weights", weights) if semiring is LOG else np.asarray(weights)
    check_rank("weights", weights.shape, 2, "(T, V)")
    blank = check_blank(blank, weights.shape[1])
    symbols = weights.argmax(axis=1)
    new = [t == 0 or symbols[t] != symbols[t - 1] for t in range(len(symbols))]
    labels = tuple(int(k) for k, is_new in zip(symbols, new, strict=True) if is_new and k != blank)
    return labels, _plain(semiring.product(semiring.read(weights[t, k]) for t, k in enumerate(symbols)))


def n_best(scorer, n=1, *, max_expansions=2_000) -> list[tuple[tuple[int, ...], object]]:
    """The n strings of the largest mass, exactly, the best first.

    A queue holds strings with their own masses, and prefixes with the masses of all strings that begin with them. The
    search takes out the entry with the largest mass. If it is a string, it is the next one of the result, since nothing
    else in the queue can lead to a better one. If it is a prefix, its mass is divided among its own string and the
    prefixes with one more label, which go into the queue.

    Parameters
    ----------
    scorer : :class:`.CTCPrefixScorer` or :class:`.RNNTPrefixScorer`
        On a semiring whose elements have an order: ``LOG``, ``REAL``, or ``MAX``, where the result is the string of the
        best path.
    n : int, optional
        How many strings. None: all that have mass, of which RNN-T may have infinitely many.
    max_expansions : int
        How many prefixes may be extended.

    Returns
    -------
    list of (labels, mass)
        Masses are elements of the semiring. Fewer than n if no other string has mass. Strings whose masses differ by
        less than rounding may change places.

    Raises
    ------
    SearchLimitReached
        When one more prefix would have to be extended. The message gives the best string so far, and the bound for what
        has not been looked at.

    Examples
    --------
    >>> from reference_impl.decoding import CTCPrefixScorer
    >>> from reference_impl.semiring import REAL
    >>> n_best(CTCPrefixScorer(SMALLEST_DIFFERENCE.probs, semiring=REAL), n=None)
    [((1,), Fraction(5, 9)), ((), Fraction(4, 9))]
    """
    n = inf if n is None else check_at_least("n", n, 1)
    max_expansions = check_at_least("max_expansions", max_expansions, 1)
    order, zero = count(), scorer.semiring.zero
    queue, found, expansions = [], [], 0

    def put(mass, is_open, prefix, label=None):
        if mass != zero:  # of equal masses strings come first, then what was put in first
            heappush(queue, (-mass, is_open, next(order), prefix, label))

    start = scorer.start()
    put(start.prefix_mass, True, start)
    while queue and len(found) < n:
        if queue[0][1] and expansions == max_expansions:
            raise SearchLimitReached(_how_far(queue, max_expansions))
        _, is_open, _, prefix, label = heappop(queue)
        if not is_open:
            found.append((prefix.labels, _plain(prefix.string_mass)))
            continue
        if label is not None:  # the parent has scored this prefix; its own sweep waits until its turn comes
            prefix = scorer.extend(prefix, label)
        expansions += 1
        put(prefix.string_mass, False, prefix)
        for label, mass in enumerate(scorer.extension_masses(prefix)):
            put(mass, True, prefix, label)
    return found


def _plain(mass):
    """A float instead of NumPy's."""
    return float(mass) if isinstance(mass, np.floating) else mass


def _how_far(queue, max_expansions):
    minus_bound, _, _, prefix, label = queue[0]
    labels = prefix.labels if label is None else (*prefix.labels, label)
    strings = [entry for entry in queue if not entry[1]]
    so_far = "no string has been found"
    if strings:
        minus_mass, _, _, best, _ = min(strings)
        so_far = f"the best string that is left is {best.labels}, with mass {-minus_mass}"
    return (f"max_expansions = {max_expansions} prefixes were extended; {so_far}, and those that begin with {labels} "
            f"together have {-minus_bound}; raise max_expansions, or use a beam search")

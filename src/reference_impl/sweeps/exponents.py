"""What the sweeps of both lattices share: an alpha is a mantissa and an exponent, and exponents change now and then.

Mantissas go forward as plain numbers, without exp and log, through a *span* of some frames (CTC) or anti-diagonals
(RNN-T). Each node keeps the exponent that it had where the span opened, so neighbours differ by a fixed ratio,
2^(E[source] - E[node]). Where the next span opens, mantissas return to [0.5, 1). How long a span lasts is decided
where it opens, by the smallest arc weights ahead: no number in it may leave the range of floats. Powers of two round
nothing off, so the results do not depend on where spans lie, nor on who else is in the batch.

An utterance whose weights lie too far apart for this is *left* to the sweeps of :mod:`.logarithms`. The sweeps
themselves are in :mod:`.ctc` and :mod:`.rnnt`.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["TINY", "Ranges", "Spans", "empty_lanes", "log_of"]

TINY = 1e-300  # below any mass in a span; stands for the mass of a dead node, whose shares are 0

_BITS = 800  # a span's numbers stay between 2^-801 and 2^800
_NEGLIGIBLE = -900  # a neighbour so many bits below adds less than 2^-98 to what a node keeps of its own
_LONGEST = 64  # steps of a span
_SHORTEST = 5  # an utterance whose spans would be shorter is better off with logarithms


def empty_lanes(N, B, L):
    """Zeros in two rows of B * L lanes for each of N steps, as (N, 2, 1 + B * L) and as (N, 2, B, L).

    In front is a lane that stays dead, so that "one lane before" is a slice. Nothing leaves an utterance's last lane
    by a label, so nothing crosses from one utterance to the next.
    """
    flat = np.zeros((N, 2, 1 + B * L))
    return flat, flat[:, :, 1:].reshape(N, 2, B, L)


def log_of(mantissa, exponent):
    """log(mantissa * 2^exponent), the same to the bit however a number is split into the two."""
    mantissa, shift = math.frexp(mantissa)
    return math.log(mantissa) + (int(exponent) + shift) * math.log(2)


class Ranges:
    """How many bits below 1 the weights of each step and utterance reach (N, B); who is masked; who is broken."""

    def __init__(self, N, B):
        self.bits, self.masked, self.broken = np.zeros((N, B)), np.zeros(B, bool), np.zeros(B, bool)

    def usable(self, b, highest):
        """False, and the utterance is broken, if the highest log-probs are not below ``inf``; a NaN is not."""
        self.broken[b] |= not (highest < np.inf).all()
        return not self.broken[b]

    def below_one(self, b, log_weights):
        """Bits from 1 down to the lowest weight of each row; a mask is noted, and does not count."""
        lowest = log_weights.min(1, initial=0.0)
        if (lowest == -np.inf).any():
            self.masked[b] = True
            lowest = log_weights.min(1, initial=0.0, where=log_weights > -np.inf)
        return lowest / -math.log(2)


class Spans:
    """Where spans open, the exponents of their nodes, and which utterances are ``left`` to logarithms.

    Parameters
    ----------
    ranges : Ranges
    ends : (B,) int array
        The step that an utterance ends with.
    """

    def __init__(self, ranges, ends):
        self.bits, self.masked = ranges.bits, ranges.masked
        self.left = ~ranges.broken & (self.bits.sum(0) / np.maximum(ends, 1) * _SHORTEST > _BITS)
        self.spent = np.append(0.0, np.cumsum(self.bits.max(1, where=~self.left, initial=0.0)))
        self.opened, self.exponents = [], []

    def open(self, n, nodes, sources):
        """Opens a span at step n.

        Parameters
        ----------
        nodes : (B, S) array
            The mantissas of step n, with the exponents of the last span. S is in the order that paths move in.
        sources : list of (back, allowed)
            Arcs that enter a node from ``back`` nodes before; bool (B, S) says which nodes.

        Returns
        -------
        mantissas : (B, S) array
            In [0.5, 1), or 0.
        ratios : list of (B, S) arrays
            2^(E[source] - E[node]) for each of ``sources``.
        steps : int
            The length of the span.
        """
        mantissas, shift = np.frexp(nodes)
        exponents = shift + (self.exponents[-1] if self.opened else 0)
        live = mantissas > 0
        origin = np.maximum.accumulate(np.where(live, np.arange(nodes.shape[1]), -1), axis=1)
        if not live.all():  # a dead node has the exponent of the live node that may reach it
            exponents = np.take_along_axis(exponents, np.maximum(origin, 0), 1)
        self.opened.append(n)
        self.exponents.append(exponents)

        gaps, drift = [], np.zeros(len(nodes))
        for back, allowed in sources:
            gap = np.zeros(nodes.shape, np.int32)
            np.subtract(exponents[:, :-back], exponents[:, back:], out=gap[:, back:])
            gap[:, back:] *= allowed[:, back:] & (origin[:, :-back] >= 0)  # what no live node precedes stays dead
            gaps.append(gap)
            # a mask may kill what a node has of its own, and then no neighbour is negligible
            drift = np.maximum(drift, np.where(self.masked, np.abs(gap).max(1), gap.max(1)))
        self.left |= drift + self.bits[n] + 2 > _BITS  # three arcs at most add up in a node: 2 bits

        ahead = self.spent[n + 1:n + 1 + _LONGEST] - self.spent[n]
        ahead += (drift.max(where=~self.left, initial=0.0) + 2) * np.arange(1, len(ahead) + 1)
        steps = max(1, int(np.searchsorted(ahead, _BITS, side="right")))
        ratios = []
        for gap, (_, allowed) in zip(gaps, sources, strict=True):
            gap[self.left] = 0  # their numbers are of no use any more, but remain numbers
            ratios.append(np.where(allowed & (gap >= _NEGLIGIBLE), np.ldexp(1.0, gap), 0.0))
        return mantissas, ratios, steps

    def exponent(self, n, b, s):
        """Of node s of an utterance in step n."""
        if not self.opened:
            return 0
        return int(self.exponents[np.searchsorted(self.opened, n, side="right") - 1][b, s])

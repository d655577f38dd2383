"""CTC's lattice with everything in it that a mistake may change: states, moves, emissions, boundaries and sums.

It makes no mistake; `ctc_recursions.py` lists them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["Lattice"]


class Lattice:
    """States, arcs between them and what they emit; ``alpha`` contains the emission at t, and ``beta`` does not.

    An arc leads ``up`` by 0, 1 or 2 states, and from one frame to the next. What a mistake may change:

    begin, end : (S,) bool
        The states of the first and of the last frame.
    start, last : (S,), optional
        The first row of alpha, and the last of beta, if they are not made of these.
    moves : (S, S) bool
        The arcs.
    arcs : (T, S, S)
        Their log weights on entering a frame, the emission included.
    lags : dict
        By ``up``, how many frames back an arc reads: 0 is the row that is being written.
    carried : "" | "none" | "here"
        What an arc with a lag of 0 finds in that row: all; no emission yet; in beta, that of the row's own frame.
    visited : (T, S) bool, optional
        The states that are computed; the others stay impossible. The row with which a sweep starts is computed apart,
        unless ``visits_start``.
    enters : bool
        Whether a path may begin in any frame, in the states ``begin``.
    row : callable
        What becomes of each row.
    stages : tuple of int
        The arcs by ``up``, one at a time over the whole row, which is updated in place.
    joins : dict
        By ``up``, how an arc is joined to those of fewer states, if not by ``add``.
    add, add_last, off
        The sum, that over the last states, and log 0.
    """

    def __init__(self, log_probs, targets, blank):
        self.log_probs, self.blank, self.targets = np.asarray(log_probs, dtype=np.float64), blank, np.asarray(targets)
        if not len(self.log_probs):
            raise ValueError("no frames")
        self.add, self.add_last, self.off, self.start, self.last = np.logaddexp, None, -np.inf, None, None
        self.lags, self.carried, self.enters, self.row, self.stages = {}, "", False, None, ()
        self.visited, self.visits_start, self.joins = None, False, {}
        self.spell(self.targets)

    def spell(self, targets, *, first=True, last=True, between=True):
        """Give it the states of other targets, or leave some of the blanks out: ``between(label, next one)``."""
        z = [self.blank] if first or not len(targets) else []
        for u, label in enumerate(targets):
            inner = between(label, targets[u + 1]) if callable(between) and u < len(targets) - 1 else between
            z += [int(label)] + ([self.blank] if (last if u == len(targets) - 1 else inner) else [])
        self.states(z)

    def states(self, z):
        """Give it the states with these symbols."""
        self.z, self.S = np.array(z), len(z)
        self.moves = np.eye(self.S, dtype=bool) | np.eye(self.S, k=1, dtype=bool)
        self.skips(lambda s: z[s] != self.blank and z[s] != z[s - 2])
        self.begin, self.end = np.arange(self.S) < 2, np.arange(self.S) >= self.S - 2
        self.emits(self.log_probs[:, self.z])

    def skips(self, may: Callable):
        """Allow the skip into state s where ``may(s)`` says so, and no other."""
        for s in range(2, self.S):
            self.moves[s - 2, s] = may(s)

    def emits(self, emitted):
        """Give the states other emissions: (T, S)."""
        self.emitted = emitted
        self.arcs = np.broadcast_to(emitted[:, None, :], (len(emitted), self.S, self.S))

    def weights(self):
        """(T, S, S): log weights of the moves into frame t, the emission included."""
        return np.where(self.moves, self.arcs, self.off)

    def alpha(self):
        start = np.where(self.begin, self.emitted[0], self.off) if self.start is None else self.start
        return self._swept(start, self.weights(), self.emitted, range(self.S))

    def beta(self):
        """Alpha of the reversed frames and arcs; what it holds of a row's emission goes onto the arcs that leave it."""
        last = np.where(self.end, 0.0, self.off) if self.last is None else self.last
        weights = np.swapaxes(np.concatenate([self.weights()[:1], self.weights()[:0:-1]]), 1, 2)
        return self._swept(last, weights, self.emitted[::-1], reversed(range(self.S)), backward=True)[::-1]

    def _swept(self, first, weights, emitted, order, *, backward=False):
        found, order = np.full(emitted.shape, -np.inf), [*order]
        visited = None if self.visited is None else self.visited[::-1 if backward else 1]
        finish = self.row or (lambda row: row)
        found[0] = finish(np.where(visited[0], first, self.off) if self.visits_start else first)
        for t in range(1, len(found)):
            if self.stages:
                row = self._staged(found[t - 1], weights[t], emitted[t - 1] if backward else 0.0)
                row = row if backward else row + emitted[t]
            elif self.lags:
                row = self._lagged(found, t, weights[t], emitted, order, backward)
            elif self.joins:
                row = self._joined(found[t - 1][:, None] + weights[t])
            else:
                row = self.add.reduce(found[t - 1][:, None] + weights[t], axis=0)
            if self.enters and not backward:
                row = self.add.reduce([row, np.where(self.begin, emitted[t], -np.inf)])
            found[t] = finish(row if visited is None else np.where(visited[t], row, self.off))
        return found

    def _staged(self, before, weights, emission):
        row = before + emission
        for up in self.stages:
            ways = np.where(self._along(up) & np.isfinite(weights), row[:, None], -np.inf)
            row = self.add.reduce([row, np.logaddexp.reduce(ways, axis=0)])
        return row

    def _lagged(self, found, t, weights, emitted, order, backward):
        def behind(lag):
            return found[t - lag] if lag <= t else np.full(self.S, -np.inf)

        rows = np.repeat(found[t - 1][:, None], self.S, axis=1)
        for up, lag in self.lags.items():
            if lag:
                rows = np.where(self._along(up), behind(lag)[:, None], rows)
        fresh = [self._along(up) for up, lag in self.lags.items() if not lag]
        if not fresh:
            return self.add.reduce(rows + weights, axis=0)
        fresh, row = np.any(fresh, axis=0), np.full(self.S, -np.inf)
        if backward:
            taken = {"": 0.0 * emitted[t], "none": emitted[t - 1], "here": emitted[t - 1] - emitted[t]}[self.carried]
        else:
            taken = emitted[t] if self.carried == "none" else 0.0 * emitted[t]
        taken = np.where(np.isfinite(taken), taken, 0.0)
        for s in order:
            row[s] = self.add.reduce(np.where(fresh[:, s], row - taken, rows[:, s]) + weights[:, s])
        return row

    def _joined(self, ways):
        row = np.diagonal(ways)
        for up in (1, 2):
            row = self.joins.get(up, self.add)(row, np.where(self._along(up), ways, -np.inf).max(axis=0))
        return row

    def _along(self, up):
        return np.eye(self.S, k=up, dtype=bool) | np.eye(self.S, k=-up, dtype=bool)

    def log_z(self, alpha):
        return (self.add_last or self.add).reduce(alpha[-1][self.end]) if self.end.any() else -np.inf

    def log_z_of_beta(self, beta):
        return (self.add_last or self.add).reduce((self.emitted[0] + beta[0])[self.begin])

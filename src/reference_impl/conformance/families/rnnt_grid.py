"""RNN-T's grid with everything in it that a mistake may change: arcs, what they read, boundaries and sums.

It makes no mistake; `rnnt_recursions.py` lists them.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["Grid", "log_add"]


class Grid:
    """The log weights of blank and label arcs by the node that they leave, (T, U+1) each, and how they are added up.

    The last row has no label arcs: -inf. ``down`` is how many frames a label arc takes. ``blank_at`` and ``label_at``
    are the indices of the entries that the arcs read, if they are not their own.
    """

    def __init__(self, log_probs, targets, blank):
        self.log_probs, self.targets, self.blank = np.asarray(log_probs, float), np.asarray(targets), blank
        self.T, self.rows = self.log_probs.shape[:2]
        self.blanks = self.log_probs[..., blank].copy()
        self.labels = self.of_labels(self.targets)
        self.final = self.blanks[-1, -1]
        self.add, self.off, self.down = log_add, -np.inf, 0
        self.leaves = np.zeros((self.T, self.rows), bool)  # where blanks of the last frame leave the grid, too
        self.origin, self.column, self.row = 0.0, None, None
        self.last_column, self.last_row = None, None
        self.old_label, self.ends, self.begins, self.begins_of = False, None, (0, 0), None
        self.blank_at, self.label_at = None, None
        self.starts = np.full((self.T, self.rows), -np.inf)  # what else may begin at a node
        self.skipped, self.unset = np.zeros((self.T, self.rows), bool), -np.inf

    def of_labels(self, targets):
        """Log-probs of the labels (T, U+1)."""
        found = np.full((self.T, self.rows), -np.inf)
        U = self.rows - 1
        found[:, :U] = self.log_probs[:, np.arange(U), targets] if U else 0.0
        return found

    def alpha(self):
        T, rows, add, off, down = self.T, self.rows, self.add, self.off, self.down
        blanks, labels, starts, skipped = (each.tolist() for each in (
            self.blanks, self.labels, self.starts, self.skipped))
        found = [[self.unset] * rows for _ in range(T)]
        for t in range(T):
            for u in range(rows):
                if skipped[t][u]:
                    continue
                if t == u == 0:
                    value = self.origin
                elif u == 0 and self.column is not None:
                    value = self.column[t]
                elif t == 0 and self.row is not None:
                    value = self.row[u]
                else:
                    by_blank = found[t - 1][u] + blanks[t - 1][u] if t else off
                    read = t if self.old_label else t - down
                    by_label = found[t - down][u - 1] + labels[read][u - 1] if u and t >= down else off
                    value = add(by_blank, by_label)
                found[t][u] = value if starts[t][u] == -np.inf else log_add(value, starts[t][u])
        return np.array(found, float)

    def beta(self):
        T, rows, add, off, down = self.T, self.rows, self.add, self.off, self.down
        blanks, labels, skipped = (each.tolist() for each in (self.blanks, self.labels, self.skipped))
        leaves = self.leaves.tolist()
        found = [[self.unset] * rows for _ in range(T)]
        for t in reversed(range(T)):
            for u in reversed(range(rows)):
                if skipped[t][u]:
                    continue
                if t == T - 1 and u == rows - 1:
                    found[t][u] = self.final
                    continue
                if u == rows - 1 and self.last_column is not None:
                    found[t][u] = self.last_column[t]
                    continue
                if t == T - 1 and self.last_row is not None:
                    found[t][u] = self.last_row[u]
                    continue
                by_blank = found[t + 1][u] + blanks[t][u] if t < T - 1 else blanks[t][u] if leaves[t][u] else off
                by_label = found[t + down][u + 1] + labels[t][u] if u < rows - 1 and t + down < T else off
                found[t][u] = add(by_blank, by_label)
        return np.array(found, float)

    def log_z(self, alpha):
        return alpha[-1, -1] + self.final if self.ends is None else self.ends(self, alpha)

    def log_z_of_beta(self, beta):
        return beta[self.begins] if self.begins_of is None else self.begins_of(beta)


def log_add(x, y):
    """log(exp(x) + exp(y)) of two numbers; that of NumPy takes some ten times as long."""
    if x < y:
        x, y = y, x
    return x if y == -np.inf else x + math.log1p(math.exp(y - x))

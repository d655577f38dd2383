"""The states of words, stars and words passed over: alpha, and the arcs between two frames. No path is read off here.

The definition is the lattice of :mod:`.star_arcs`, which takes nothing from here.
"""

from __future__ import annotations

import numpy as np

from .. import _validation

__all__ = ["StarGraph"]


class StarGraph:
    """States in a row: for each gap a blank, the star, and a blank after it; for each word its labels and blanks.

    A path moves on by 0, 1, 2 or 4 states, or leaves a gap and enters some later word. ``by[n]`` is 0 for the states
    that are entered by moving n on, else ``-inf``.
    """

    def __init__(self, log_probs, words, star_score, skip_cost, stars, blank):
        log_probs = _validation.check_log_probs("log_probs", log_probs, 2, "(T, V)")
        T, V = log_probs.shape
        blank = _validation.check_blank(blank, V)
        words = _validation.check_words(words, V, blank)
        star_score, self.cost = _validation.check_prices(star_score, skip_cost)
        stars, W = _validation.check_gaps(stars, len(words)), len(words)
        lengths = np.array([len(word) for word in words], np.int64)
        self.gaps = 3 * np.arange(W + 1) + np.append(0, (2 * lengths - 1).cumsum())  # the first state of each gap
        self.star, self.heads, self.tails = self.gaps + 1, self.gaps[:-1] + 3, self.gaps[1:] - 1
        self.symbols = np.full(self.gaps[-1] + 3, blank)
        for head, word in zip(self.heads, words, strict=True):
            self.symbols[head:head + 2 * len(word):2] = word
        self.symbols[self.star] = np.where(stars, V, V + 1)
        columns = [log_probs, np.full((T, 1), star_score), np.full((T, 1), -np.inf)]
        self.emissions = np.concatenate(columns, axis=1)[:, self.symbols]

        runs = [np.arange(head, tail + 1, 2) for head, tail in zip(self.heads, self.tails, strict=True)]
        self.labels = np.concatenate([np.zeros(0, np.int64), *runs])
        inside = np.setdiff1d(self.labels, self.heads)
        self.by = {n: np.full(len(self.symbols), -np.inf) for n in (1, 2, 4)}
        self.by[1][1:], self.by[1][self.heads] = 0.0, -np.inf
        self.by[2][inside[self.symbols[inside] != self.symbols[inside - 2]]] = 0.0
        self.by[2][self.star[1:]] = 0.0  # from the last label of the word, past the blank
        heads = self.heads[1:]
        self.by[4][heads[self.symbols[heads] != self.symbols[heads - 4]]] = 0.0  # past the whole gap

        # the costs of the words that are passed over before the first one that is spoken, and after the last
        skips = np.where(np.arange(W + 1) > 0, -np.inf, 0.0) if self.cost is None else -self.cost * np.arange(W + 1)
        self.begins, self.ends = np.full((2, len(self.symbols)), -np.inf)
        self.begins[:2], self.begins[self.heads] = 0.0, skips[:-1]
        for state in range(3):
            self.ends[self.gaps + state] = skips[::-1]
        self.ends[self.tails] = skips[:-1][::-1]
        self.without_frames = float(skips[-1])

    def alpha(self, plus):
        alpha = np.full(self.emissions.shape, -np.inf)
        alpha[:1] = self.begins + self.emissions[:1]
        for t in range(1, len(alpha)):
            alpha[t] = plus.reduce(self.arriving(alpha[t - 1], plus)) + self.emissions[t]
        return alpha

    def total(self, alpha, plus):
        """Log of the mass of all paths, or of the best; without frames every word is passed over."""
        return plus.reduce(alpha[-1] + self.ends) if len(alpha) else self.without_frames

    def arriving(self, alpha, plus):
        """(5, S): what comes to each state of a frame from itself, from 1, 2 and 4 below, and from the gaps."""
        masses = np.full((5, len(alpha)), -np.inf)
        masses[0] = alpha
        for i, (n, by) in enumerate(self.by.items(), start=1):
            masses[i, n:] = alpha[:-n] + by[n:]
        masses[4, self.heads] = self._passed_over(plus.reduce(self._in_gaps(alpha)), plus)[:-1]
        return masses

    def leaving(self, beta):
        """The transpose of :meth:`arriving`, for sums of paths."""
        masses = np.full((5, len(beta)), -np.inf)
        masses[0] = beta
        for i, (n, by) in enumerate(self.by.items(), start=1):
            masses[i, :-n] = (beta + by)[n:]
        onward = self._passed_over(np.append(-np.inf, beta[self.heads][::-1]), np.logaddexp)[::-1]
        for state in range(3):
            masses[4, self.gaps + state] = onward
        return masses

    def _in_gaps(self, alpha):
        return alpha[self.gaps + np.arange(3)[:, None]]

    def _passed_over(self, masses, plus):
        """From (W+1,) masses of words to begin with: the mass with which each is reached, words passed over."""
        if self.cost is None:
            return masses
        costs = self.cost * np.arange(len(masses))
        return plus.accumulate(masses + costs) - costs

    def best_source(self, alpha, state):
        """The state before, on the best path: rather few steps than many, rather few words passed over than many."""
        move = int(self.arriving(alpha, np.maximum)[:, state].argmax())
        if move < 4:
            return state - (0, *self.by)[move]
        word = int(np.searchsorted(self.heads, state))
        masses = self._in_gaps(alpha)[:, :word + 1]
        if self.cost is None:
            gap = word
        else:
            costs = self.cost * np.arange(word + 1)
            gap = word - int((masses.max(axis=0) + costs)[::-1].argmax())
        return self.gaps[gap] + int(masses[:, gap].argmax())

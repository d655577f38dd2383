"""A loss over the states of CTC whose rules about beginning, end, skips and lasting may be others than the book's.

It draws no rule and asks nothing. A rule is a dict; what it leaves out is as in the book.
"""

from __future__ import annotations

import numpy as np

from reference_impl import log_softmax

__all__ = ["BOOK", "emissions", "grad_log_probs", "grad_logits", "log_alpha", "log_beta", "loss", "occupancy",
           "paths", "weighted_emissions"]

BOOK = {"start": "both", "end": "both", "skip": "book", "hold": "both", "blank_weight": 1.0, "label_weight": 1.0}


class _Chain:
    """The states of a target, and which steps between them a rule allows."""

    def __init__(self, targets, blank, rule):
        self.rule, self.blank = {**BOOK, **rule}, blank
        self.z = np.full(2 * len(targets) + 1, blank)
        self.z[1::2] = targets
        self.S = len(self.z)

    def starts(self):
        return [s for s in {"both": (0, 1), "blank": (0,), "label": (1,)}[self.rule["start"]] if s < self.S] or [0]

    def ends(self):
        back = {"both": (1, 2), "blank": (1,), "label": (2,)}[self.rule["end"]]
        return [self.S - each for each in back if each <= self.S] or [0]

    def before(self, s):
        """The states from which a step leads to s."""
        if {"both": True, "blanks": s % 2 == 0, "labels": s % 2 == 1}[self.rule["hold"]]:
            yield s
        if s >= 1:
            yield s - 1
        if s >= 3 and s % 2 and {"book": self.z[s] != self.z[s - 2], "never": False, "always": True}[self.rule["skip"]]:
            yield s - 2

    def weights(self, V):
        """By symbol, the factor of its log-prob in the score of a path."""
        found = np.full(V, self.rule["label_weight"])
        found[self.blank] = self.rule["blank_weight"]
        return found

    def scores(self, log_probs):
        log_probs = np.asarray(log_probs, dtype=float)
        return (self.weights(log_probs.shape[1]) * log_probs)[:, self.z]


def emissions(log_probs, targets, blank):
    """Of each state and frame, without weights."""
    return np.asarray(log_probs)[:, _Chain(targets, blank, {}).z]


def weighted_emissions(log_probs, targets, blank, rule):
    """Of each state and frame, as the score of a path has them."""
    return _Chain(targets, blank, rule).scores(log_probs)


def log_alpha(log_probs, targets, blank, rule):
    """The emission of frame t included."""
    chain = _Chain(targets, blank, rule)
    scores = chain.scores(log_probs)
    found = np.full(scores.shape, -np.inf)
    found[0, chain.starts()] = scores[0, chain.starts()]
    for t in range(1, len(scores)):
        for s in range(chain.S):
            came = [found[t - 1, r] for r in chain.before(s)]
            found[t, s] = np.logaddexp.reduce(came, initial=-np.inf) + scores[t, s]
    return found


def log_beta(log_probs, targets, blank, rule, *, emission=False):
    """The emission of frame t is in it if ``emission``."""
    chain = _Chain(targets, blank, rule)
    scores = chain.scores(log_probs)
    found = np.full(scores.shape, -np.inf)
    found[-1, chain.ends()] = 0.0
    for t in reversed(range(len(scores) - 1)):
        for s in range(chain.S):
            for r in chain.before(s):
                found[t, r] = np.logaddexp(found[t, r], found[t + 1, s] + scores[t + 1, s])
    return found + scores if emission else found


def loss(log_probs, targets, blank, rule):
    chain = _Chain(targets, blank, rule)
    return -np.logaddexp.reduce(log_alpha(log_probs, targets, blank, rule)[-1, chain.ends()])


def paths(log_probs, targets, blank, rule):
    """All paths, as symbols and states, and e to the score of each."""
    chain = _Chain(targets, blank, rule)
    scores = chain.scores(log_probs)
    found = [(s,) for s in chain.starts()]
    for _ in range(1, len(scores)):
        found = [(*path, s) for path in found for s in range(chain.S) if path[-1] in chain.before(s)]
    return [(f"{' '.join('∅' if chain.z[s] == blank else str(chain.z[s]) for s in path)}  states "
             f"{' '.join(map(str, path))}", float(np.exp(scores[np.arange(len(path)), path].sum())))
            for path in found if path[-1] in chain.ends() and np.isfinite(scores[np.arange(len(path)), path]).all()]


def occupancy(log_probs, targets, blank, rule):
    """The probability that a path emits symbol k in frame t; 0 where there is no path."""
    chain, found = _Chain(targets, blank, rule), np.zeros(np.shape(log_probs))
    log_z = -loss(log_probs, targets, blank, rule)
    if log_z > -np.inf:
        mass = log_alpha(log_probs, targets, blank, rule) + log_beta(log_probs, targets, blank, rule)
        np.add.at(found.T, chain.z, np.exp(mass - log_z).T)
    return found


def grad_log_probs(log_probs, targets, blank, rule):
    return -_Chain(targets, blank, rule).weights(np.shape(log_probs)[1]) * occupancy(log_probs, targets, blank, rule)


def grad_logits(logits, targets, blank, rule):
    log_probs = log_softmax(logits)
    v = grad_log_probs(log_probs, targets, blank, rule)
    return v - np.exp(log_probs) * v.sum(axis=1, keepdims=True)

"""What the two losses mean, by enumeration. It knows no lattice, no recursion, no semiring, and uses no package code.

CTC: all V^T strings of symbols, kept if they collapse to the target. RNN-T: all orders of T blanks and U labels that
end in a blank. An alignment is a list of the entries of ``log_probs`` that it uses.
"""

import itertools
from math import fsum

import numpy as np


def collapse(string, blank):
    """Merge runs of equal symbols, then remove blanks."""
    return [symbol for symbol, _ in itertools.groupby(string) if symbol != blank]


def ctc_alignments(targets, T, V, blank):
    return [list(enumerate(string)) for string in itertools.product(range(V), repeat=T)
            if collapse(string, blank) == list(targets)]


def rnnt_alignments(targets, T, V, blank):
    U = len(targets)
    return [_walk(targets, labels, T + U, blank) for labels in itertools.combinations(range(T + U - 1), U)]


def _walk(targets, label_steps, steps, blank):
    """The entries (t, u, k) of one order: a label at each of ``label_steps``, a blank at every other step."""
    entries, t, u = [], 0, 0
    for step in range(steps):
        if step in label_steps:
            entries.append((t, u, int(targets[u])))
            u += 1
        else:
            entries.append((t, u, blank))
            t += 1
    return entries


def alignments(kind, targets, T, V, blank):
    return {"ctc": ctc_alignments, "rnnt": rnnt_alignments}[kind](targets, T, V, blank)


def probability(log_probs, entries):
    return np.exp(fsum(log_probs[entry] for entry in entries))


def _loss_and_shares(kind, log_probs, targets, blank):
    """-log of the alignments' probabilities added up, and each alignment with its share of them; none if all are 0."""
    paths = alignments(kind, targets, len(log_probs), log_probs.shape[-1], blank)
    weights = [probability(log_probs, path) for path in paths]
    z = fsum(weights)
    if z == 0:
        return np.inf, []
    return -np.log(z), [(path, weight / z) for path, weight in zip(paths, weights, strict=True)]


def loss_and_occupancy(kind, log_probs, targets, blank):
    """The loss, and how often each entry is used on average, the alignments weighted by their probabilities."""
    loss, shares = _loss_and_shares(kind, log_probs, targets, blank)
    occupancy = np.zeros(log_probs.shape)
    for path, share in shares:
        for entry in path:
            occupancy[entry] += share
    return loss, occupancy


def softmax(logits):
    """exp / sum over the last axis; a row of nothing but -inf has no probability at all."""
    e = np.exp(logits - np.maximum(logits.max(-1, keepdims=True), -1e300))
    return e / np.where(e.any(-1, keepdims=True), e.sum(-1, keepdims=True), 1)


def loss_and_grad_logits(kind, logits, targets, blank):
    """The loss, and its derivative path by path: that of log p(path) is one-hot minus softmax at each entry it uses."""
    y = softmax(logits)
    with np.errstate(divide="ignore"):
        log_probs = np.log(y)
    loss, shares = _loss_and_shares(kind, log_probs, targets, blank)
    gradient = np.zeros(logits.shape)
    for path, share in shares:
        for entry in path:
            gradient[entry] -= share
            gradient[entry[:-1]] += share * y[entry[:-1]]
    return loss, gradient


def ctc_alpha(log_probs, targets, blank, t, s):
    """Mass of all strings of t + 1 symbols that end in state s: the labels up to it, and its symbol last."""
    labels, last = list(targets[:(s + 1) // 2]), (blank if s % 2 == 0 else targets[s // 2])
    return fsum(probability(log_probs, list(enumerate(string)))
                for string in itertools.product(range(log_probs.shape[1]), repeat=t + 1)
                if string[-1] == last and collapse(string, blank) == labels)


def ctc_beta(log_probs, targets, blank, t, s):
    """Mass of all strings after frame t that complete the target, given the symbol of state s before them."""
    labels, before = list(targets[s // 2:]), (blank if s % 2 == 0 else targets[s // 2])
    T, V = log_probs.shape
    return fsum(probability(log_probs, list(enumerate(string, start=t + 1)))
                for string in itertools.product(range(V), repeat=T - 1 - t)
                if collapse((before, *string), blank) == labels)


def rnnt_alpha(log_probs, targets, blank, t, u):
    """Mass of all orders of t blanks and u labels."""
    return fsum(probability(log_probs, _walk(targets, labels, t + u, blank))
                for labels in itertools.combinations(range(t + u), u))


def rnnt_beta(log_probs, targets, blank, t, u):
    """Mass of all orders of the remaining T - t blanks and U - u labels that end in a blank."""
    T, U = len(log_probs), len(targets)
    return fsum(probability(log_probs[t:, u:], _walk(targets[u:], labels, T - t + U - u, blank))
                for labels in itertools.combinations(range(T - t + U - u - 1), U - u))

"""Assignment 6: one gradient, right and slow, made fast: without a loop over symbols, by fronts, in little memory."""

from __future__ import annotations

from functools import partial

import numpy as np

from reference_impl.sweeps.rnnt import rnnt_sweeps

from .question import Case, Faster, Question, Smaller

__all__ = ["QUESTIONS", "arc_posteriors", "gradient", "slow_gradient"]


# --- what students are given; these two are in the notebook, word for word ---


def arc_posteriors(blank, label):
    """The probability that a path leaves node (t, u) by its blank, and by its label: (2, T, U+1).

    blank, label: log-probs of both at each node, (T, U+1); label[:, U] is -inf.
    """
    T, rows = blank.shape
    alpha = np.full((T, rows), -np.inf)
    alpha[0, 0] = 0.0
    for t in range(T):
        for u in range(rows):
            if t > 0:
                alpha[t, u] = np.logaddexp(alpha[t, u], alpha[t - 1, u] + blank[t - 1, u])
            if u > 0:
                alpha[t, u] = np.logaddexp(alpha[t, u], alpha[t, u - 1] + label[t, u - 1])
    beta = np.full((T + 1, rows + 1), -np.inf)
    beta[T, rows - 1] = 0.0
    for t in reversed(range(T)):
        for u in reversed(range(rows)):
            beta[t, u] = np.logaddexp(blank[t, u] + beta[t + 1, u], label[t, u] + beta[t, u + 1])
    used = np.zeros((2, T, rows))
    for t in range(T):
        for u in range(rows):
            used[0, t, u] = np.exp(alpha[t, u] + blank[t, u] + beta[t + 1, u] - beta[0, 0])
            used[1, t, u] = np.exp(alpha[t, u] + label[t, u] + beta[t, u + 1] - beta[0, 0])
    return used


def slow_gradient(f, g, targets, blank):
    """The gradient of -log Z with respect to f (T, V) and g (U+1, V), one below the other: (T+U+1, V)."""
    (T, V), U = f.shape, len(targets)
    log_probs = np.zeros((T, U + 1, V))
    for t in range(T):
        for u in range(U + 1):
            log_norm = -np.inf
            for k in range(V):
                log_norm = np.logaddexp(log_norm, f[t, k] + g[u, k])
            for k in range(V):
                log_probs[t, u, k] = f[t, k] + g[u, k] - log_norm
    label = np.full((T, U + 1), -np.inf)
    for t in range(T):
        for u in range(U):
            label[t, u] = log_probs[t, u, targets[u]]
    used_blank, used_label = arc_posteriors(log_probs[:, :, blank], label)
    grad = np.zeros((T + U + 1, V))
    for t in range(T):
        for u in range(U + 1):
            for k in range(V):
                delta = np.exp(log_probs[t, u, k]) * (used_blank[t, u] + used_label[t, u])
                if k == blank:
                    delta -= used_blank[t, u]
                elif u < U and k == targets[u]:
                    delta -= used_label[t, u]
                grad[t, k] += delta
                grad[T + u, k] += delta
    return grad


# --- right and wrong answers, fast enough for the large cases ---


def _by_reference(blank, label):
    """Arc posteriors from the book's batched sweeps."""
    T, rows = blank.shape
    _, *used = rnnt_sweeps(lambda b: (blank.copy(), label[:, :-1].copy()), np.array([T]), np.array([rows - 1]), T,
                           rows - 1)
    return used[0][..., 0], used[1][..., 0]


def _by_best_path(blank, label):
    """1 where the best path goes, taken from the end."""
    T, rows = blank.shape
    best = np.full((T, rows), -np.inf)
    best[0, 0] = 0.0
    for n in range(1, T + rows - 1):
        u = np.arange(max(0, n - T + 1), min(n, rows - 1) + 1)
        t = n - u
        come = best[t - 1, u] + blank[t - 1, u], best[t, u - 1] + label[t, u - 1]
        best[t, u] = np.maximum(np.where(t > 0, come[0], -np.inf), np.where(u > 0, come[1], -np.inf))
    used = np.zeros((2, T, rows))
    t, u = T - 1, rows - 1
    used[0, t, u] = 1.0
    while t or u:
        by_blank = t > 0 and best[t, u] == best[t - 1, u] + blank[t - 1, u]
        t, u = (t - 1, u) if by_blank else (t, u - 1)
        used[0 if by_blank else 1, t, u] = 1.0
    return used


def gradient(f, g, targets, blank, *, belief=1, use=1, labels=1, every_node=False, last_blank=True, assign=False,
             normalised=True, late=False, swapped=False, sweeps=_by_reference):
    """The gradient by matrix products, with a place for each thing that can go wrong in it."""
    T, U = len(f), len(targets)
    f_top, g_top = f.max(axis=1, keepdims=True), g.max(axis=1, keepdims=True)
    f_part, g_part = np.exp(f - f_top), np.exp(g - g_top)
    mass = f_part @ g_part.T
    scores_norm = np.log(mass) + f_top + g_top.T if normalised else np.zeros((T, U + 1))
    row, spoken = np.arange(U), np.roll(targets, 1) if late else targets
    label = np.full((T, U + 1), -np.inf)
    label[:, :U] = f[:, spoken] + g[row, spoken] - scores_norm[:, :U]
    used_blank, used_label = sweeps(f[:, [blank]] + g[:, blank] - scores_norm, label)
    if not last_blank:
        used_blank[-1, -1] = 0.0
    visits = np.ones((T, U + 1)) if every_node else used_blank + used_label
    with np.errstate(over="ignore", invalid="ignore"):
        weight = belief * visits * (1 / mass if normalised else np.exp(f_top + g_top.T))
        by_frame, by_row = f_part * (weight @ g_part), g_part * (weight.T @ f_part)
    by_frame[:, blank] -= use * used_blank.sum(axis=1)
    by_row[:, blank] -= use * used_blank.sum(axis=0)
    if assign:
        by_frame[:, spoken] -= use * used_label[:, :U]
    else:
        np.subtract.at(by_frame.T, spoken, use * labels * used_label[:, :U].T)
    by_row[row, spoken] -= use * labels * used_label[:, :U].sum(axis=0)
    return np.concatenate([by_row, by_frame] if swapped else [by_frame, by_row])


MISTAKES = {
    "Its sign is wrong: the loss is minus log Z.": partial(gradient, belief=-1, use=-1),
    "The softmax term is missing.": partial(gradient, belief=0),
    "What the target uses is missing: only the softmax term is there.": partial(gradient, use=0),
    "The softmax term counts every node as if each path came by: weigh it by the probability of the node.":
        partial(gradient, every_node=True),
    "The labels are missing: only the blanks are subtracted.": partial(gradient, labels=0),
    "The last blank is missing.": partial(gradient, last_blank=False),
    "A label that occurs twice in the target is counted once: an index on the left of -= keeps the last one.":
        partial(gradient, assign=True),
    "The logits f + g are taken for log-probs: they have to be normalised at each node.":
        partial(gradient, normalised=False),
    "In row u it takes the label before; the one that comes next is targets[u].": partial(gradient, late=True),
    "It takes the best path where it should add all of them (a maximum for a sum).":
        partial(gradient, sweeps=_by_best_path),
    "The rows of g come first; f's come first.": partial(gradient, swapped=True),
}


# --- the questions ---


def _case(rng, group, T, U, V, *, moved=0.0, masked=False, large=False):
    f, g = 2 * rng.normal(size=(T, V)) + moved, 2 * rng.normal(size=(U + 1, V))
    blank = int(rng.integers(V))
    targets = rng.choice([k for k in range(V) if k != blank], U)
    if U > 1:
        targets[1] = targets[0]
    if masked:
        other = next(k for k in range(V) if k != blank and k != targets[-1])
        f[1, targets[-1]] = g[1, other] = f[1, other] = -np.inf
    return Case(group, {"f": f, "g": g, "targets": targets, "blank": blank}, large=large)


def cases(T, U, V):
    """A function that draws small cases, and one of this size."""
    def drawn(rng):
        return [_case(rng, "values", 5, 3, 5), _case(rng, "edges", 4, 0, 3), _case(rng, "edges", 1, 3, 4),
                _case(rng, "edges", 4, 2, 5, masked=True), _case(rng, "edges", 4, 3, 4, moved=1000.0),
                _case(rng, "values", T, U, V, large=True)]

    return drawn


def _logits_shape(f, g, targets, blank):
    return len(f), len(g), f.shape[1]


QUESTIONS = [
    Question("without_a_loop_over_symbols", {"values": 2.0, "edges": 1.0}, cases(40, 12, 600), gradient, MISTAKES,
             effort=Faster(slow_gradient, 5, "Where does each of 600 symbols still cost a step of Python?")),
    Question("by_fronts", {"values": 3.0, "edges": 1.0}, cases(360, 200, 3), gradient, MISTAKES,
             effort=Faster(slow_gradient, 6, "Here are 3 symbols, but 72360 nodes: which loop still takes them one by "
                                             "one?")),
    Question("in_little_memory", {"values": 2.0, "edges": 1.0}, cases(240, 99, 800), gradient, MISTAKES,
             effort=Smaller(_logits_shape, "one array (T, U+1, V)", 0.5,
                            "Which array has an entry for each frame, row and symbol? Not even one fits.")),
]

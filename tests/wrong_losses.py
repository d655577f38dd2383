"""Twelve CTC and twelve RNN-T losses with one mistake each, and two right ones of each kind in the same style.

They are here to examine whatever claims to find mistakes in a loss, so they take nothing from the package: own
softmax, own recursions, own backward. Each was written, with the sentence that says what is wrong and the phrases a
good diagnosis would contain, before any checker had seen it; neither is to be changed to suit a checker's output.

Every function takes one utterance, ``function(scores, targets, blank=...)``, and returns the loss and its gradient with
respect to the scores: logits, or log-probs where ``variable`` says so. CTC has scores (T, V), RNN-T (T, U+1, V).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["RIGHT", "WRONG", "Loss"]

LOG_ZERO = -np.inf


@dataclass(frozen=True)
class Loss:
    """A loss for one utterance; ``mistake`` and ``says`` are empty where it is right."""

    name: str
    kind: str  # "ctc" | "rnnt"
    variable: str  # "logits" | "log_probs": what the scores are, and what the gradient is taken with respect to
    function: Callable
    mistake: str = ""
    says: tuple[str, ...] = ()


# What most of them share

def softmax_in_logs(x):
    """Log-softmax over the last axis; a row that is masked altogether stays so."""
    top = x.max(axis=-1, keepdims=True)
    return _normalised(x - np.where(np.isfinite(top), top, 0.0))


def _normalised(z):
    with np.errstate(divide="ignore"):
        norm = np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return z - np.where(np.isfinite(norm), norm, 0.0)


def through_softmax(lp, occupancy):
    """The gradient with respect to the logits, from how often each log-prob is used."""
    return np.exp(lp) * occupancy.sum(axis=-1, keepdims=True) - occupancy


def impossible(scores):
    return np.inf, np.zeros(np.shape(scores))


# CTC

def states_of(targets, blank):
    ext = [blank]
    for label in targets:
        ext += [int(label), blank]
    return np.array(ext)


def skips_of(ext, blank):
    """Into which states a path may come from two states before."""
    skip = np.zeros(len(ext), dtype=bool)
    skip[2:] = (ext[2:] != blank) & (ext[2:] != ext[:-2])
    return skip


def without_frames(scores, ext):
    return (0.0 if len(ext) == 1 else np.inf), np.zeros(np.shape(scores))


def ctc_forward(lp, ext, skip):
    """Log alpha, the emission included, one state after the other."""
    T, S = len(lp), len(ext)
    a = np.full((T, S), LOG_ZERO)
    a[0, 0] = lp[0, ext[0]]
    if S > 1:
        a[0, 1] = lp[0, ext[1]]
    for t in range(1, T):
        for s in range(S):
            total = a[t - 1, s]
            if s > 0:
                total = np.logaddexp(total, a[t - 1, s - 1])
            if skip[s]:
                total = np.logaddexp(total, a[t - 1, s - 2])
            a[t, s] = total + lp[t, ext[s]]
    return a


def ctc_backward(lp, ext, skip):
    """Log beta as in the paper of 2006, the emission included here too."""
    T, S = len(lp), len(ext)
    b = np.full((T, S), LOG_ZERO)
    b[T - 1, S - 1] = lp[T - 1, ext[S - 1]]
    if S > 1:
        b[T - 1, S - 2] = lp[T - 1, ext[S - 2]]
    for t in range(T - 2, -1, -1):
        for s in range(S - 1, -1, -1):
            total = b[t + 1, s]
            if s + 1 < S:
                total = np.logaddexp(total, b[t + 1, s + 1])
            if s + 2 < S and skip[s + 2]:
                total = np.logaddexp(total, b[t + 1, s + 2])
            b[t, s] = total + lp[t, ext[s]]
    return b


def ctc_total(a):
    if a.shape[1] == 1:
        return a[-1, 0]
    return np.logaddexp(a[-1, -1], a[-1, -2])


def ctc_gamma(a, b, lp, ext, log_z):
    """Posterior of each state in each frame; alpha and beta both hold the emission, so it is taken out once."""
    gamma = np.zeros(a.shape)
    live = np.isfinite(a) & np.isfinite(b)
    gamma[live] = np.exp((a + b)[live] - lp[:, ext][live] - log_z)
    return gamma


def ctc_collect(gamma, ext, shape):
    occupancy = np.zeros(shape)
    for s, k in enumerate(ext):
        occupancy[:, k] += gamma[:, s]
    return occupancy


def ctc_by_tables(scores, targets, *, blank):
    """Right: alpha and beta in loops."""
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    return _ctc_from_skips(scores, ext, skips_of(ext, blank))


def _ctc_from_skips(scores, ext, skip):
    lp = softmax_in_logs(scores)
    a, b = ctc_forward(lp, ext, skip), ctc_backward(lp, ext, skip)
    log_z = ctc_total(a)
    if log_z == LOG_ZERO:
        return impossible(scores)
    occupancy = ctc_collect(ctc_gamma(a, b, lp, ext, log_z), ext, lp.shape)
    return -log_z, through_softmax(lp, occupancy)


def ctc_by_backpropagation(scores, targets, *, blank):
    """Right: whole rows of alpha, and the gradient by going back through the sums."""
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    lp = softmax_in_logs(scores)
    skip = skips_of(ext, blank)
    T, S = len(lp), len(ext)
    emit = lp[:, ext]
    a = np.full((T, S), LOG_ZERO)
    a[0, :2] = emit[0, :2]
    shares = []
    for t in range(1, T):
        ways = np.full((3, S), LOG_ZERO)
        ways[0] = a[t - 1]
        ways[1, 1:] = a[t - 1, :-1]
        ways[2, 2:] = np.where(skip[2:], a[t - 1, :-2], LOG_ZERO)
        total = np.logaddexp.reduce(ways, axis=0)
        shares.append(np.exp(ways - np.where(np.isfinite(total), total, 0.0)))
        a[t] = total + emit[t]
    log_z = np.logaddexp.reduce(a[-1, -2:])
    if log_z == LOG_ZERO:
        return impossible(scores)
    occupancy = np.zeros(lp.shape)
    g = np.zeros(S)
    g[-2:] = np.exp(a[-1, -2:] - log_z)
    for t in range(T - 1, -1, -1):
        np.add.at(occupancy[t], ext, g)
        if t > 0:
            stay, step, jump = shares[t - 1] * g
            g = stay
            g[:-1] += step[1:]
            g[:-2] += jump[2:]
    return -log_z, through_softmax(lp, occupancy)


def ctc_skips_into_every_label(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    skip = np.zeros(len(ext), dtype=bool)
    skip[3::2] = True
    return _ctc_from_skips(scores, ext, skip)


def ctc_skips_by_zero(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    skip = np.zeros(len(ext), dtype=bool)
    skip[2:] = (ext[2:] != 0) & (ext[2:] != ext[:-2])
    return _ctc_from_skips(scores, ext, skip)


def ctc_total_of_last_two(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    lp = softmax_in_logs(scores)
    skip = skips_of(ext, blank)
    a, b = ctc_forward(lp, ext, skip), ctc_backward(lp, ext, skip)
    S = len(ext)
    log_z = np.logaddexp(a[-1, S - 1], a[-1, S - 2])
    if log_z == LOG_ZERO:
        return impossible(scores)
    occupancy = ctc_collect(ctc_gamma(a, b, lp, ext, log_z), ext, lp.shape)
    return -log_z, through_softmax(lp, occupancy)


def ctc_scatter_by_index(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    lp = softmax_in_logs(scores)
    skip = skips_of(ext, blank)
    a, b = ctc_forward(lp, ext, skip), ctc_backward(lp, ext, skip)
    log_z = ctc_total(a)
    if log_z == LOG_ZERO:
        return impossible(scores)
    grad = np.exp(lp)
    grad[:, ext] -= ctc_gamma(a, b, lp, ext, log_z)
    return -log_z, grad


def ctc_backward_asks_the_source(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    lp = softmax_in_logs(scores)
    skip = skips_of(ext, blank)
    T, S = len(lp), len(ext)
    a = ctc_forward(lp, ext, skip)
    log_z = ctc_total(a)
    if log_z == LOG_ZERO:
        return impossible(scores)
    b = np.full((T, S), LOG_ZERO)
    b[T - 1, -2:] = lp[T - 1, ext[-2:]]
    for t in range(T - 2, -1, -1):
        for s in range(S):
            total = b[t + 1, s]
            if s + 1 < S:
                total = np.logaddexp(total, b[t + 1, s + 1])
            if s + 2 < S and skip[s]:
                total = np.logaddexp(total, b[t + 1, s + 2])
            b[t, s] = total + lp[t, ext[s]]
    occupancy = ctc_collect(ctc_gamma(a, b, lp, ext, log_z), ext, lp.shape)
    return -log_z, through_softmax(lp, occupancy)


def ctc_log_of_p_plus_epsilon(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    probs = np.exp(softmax_in_logs(scores))
    lp = np.log(probs + 1e-8)
    skip = skips_of(ext, blank)
    a, b = ctc_forward(lp, ext, skip), ctc_backward(lp, ext, skip)
    log_z = ctc_total(a)
    if log_z == LOG_ZERO:
        return impossible(scores)
    occupancy = ctc_collect(ctc_gamma(a, b, lp, ext, log_z), ext, lp.shape)
    return -log_z, probs * occupancy.sum(axis=-1, keepdims=True) - occupancy


def ctc_one_buffer(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    lp = softmax_in_logs(scores)
    skip = skips_of(ext, blank)
    T, S = len(lp), len(ext)
    row = np.full(S, LOG_ZERO)
    row[:2] = lp[0, ext[:2]]
    history = [row.copy()]
    for t in range(1, T):
        for s in range(S):
            if s > 0:
                row[s] = np.logaddexp(row[s], row[s - 1])
            if skip[s]:
                row[s] = np.logaddexp(row[s], row[s - 2])
            row[s] += lp[t, ext[s]]
        history.append(row.copy())
    a = np.stack(history)
    log_z = ctc_total(a)
    if log_z == LOG_ZERO:
        return impossible(scores)
    b = ctc_backward(lp, ext, skip)
    occupancy = ctc_collect(ctc_gamma(a, b, lp, ext, log_z), ext, lp.shape)
    return -log_z, through_softmax(lp, occupancy)


def ctc_by_roll(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    lp = softmax_in_logs(scores)
    skip = skips_of(ext, blank)
    T, S = len(lp), len(ext)
    emit = lp[:, ext]
    a = np.full((T, S), LOG_ZERO)
    a[0, :2] = emit[0, :2]
    shares = []
    for t in range(1, T):
        before = a[t - 1]
        ways = np.stack([before, np.roll(before, 1), np.where(skip, np.roll(before, 2), LOG_ZERO)])
        total = np.logaddexp.reduce(ways, axis=0)
        shares.append(np.exp(ways - np.where(np.isfinite(total), total, 0.0)))
        a[t] = total + emit[t]
    log_z = np.logaddexp.reduce(a[-1, -2:])
    if log_z == LOG_ZERO:
        return impossible(scores)
    occupancy = np.zeros(lp.shape)
    g = np.zeros(S)
    g[-2:] = np.exp(a[-1, -2:] - log_z)
    for t in range(T - 1, -1, -1):
        np.add.at(occupancy[t], ext, g)
        if t > 0:
            stay, step, jump = shares[t - 1] * g
            g = stay + np.roll(step, -1) + np.roll(jump, -2)
    return -log_z, through_softmax(lp, occupancy)


def ctc_too_short_by_one(scores, targets, *, blank):
    if len(scores) <= len(targets):
        return impossible(scores)
    ext = states_of(targets, blank)
    return _ctc_from_skips(scores, ext, skips_of(ext, blank))


def ctc_of_log_probs_minus_softmax(log_probs, targets, *, blank):
    ext = states_of(targets, blank)
    if len(log_probs) == 0:
        return without_frames(log_probs, ext)
    skip = skips_of(ext, blank)
    a, b = ctc_forward(log_probs, ext, skip), ctc_backward(log_probs, ext, skip)
    log_z = ctc_total(a)
    if log_z == LOG_ZERO:
        return impossible(log_probs)
    occupancy = ctc_collect(ctc_gamma(a, b, log_probs, ext, log_z), ext, log_probs.shape)
    return -log_z, np.exp(log_probs) - occupancy


def ctc_in_probabilities(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    probs = np.exp(softmax_in_logs(scores))
    skip = skips_of(ext, blank)
    T, S = len(probs), len(ext)
    emit = probs[:, ext]
    a, b = np.zeros((T, S)), np.zeros((T, S))
    a[0, :2] = emit[0, :2]
    for t in range(1, T):
        a[t] = a[t - 1]
        a[t, 1:] += a[t - 1, :-1]
        a[t, 2:] += skip[2:] * a[t - 1, :-2]
        a[t] *= emit[t]
    total = a[-1, -2:].sum()
    if total == 0.0:
        return impossible(scores)
    b[-1, -2:] = 1.0
    for t in range(T - 2, -1, -1):
        later = b[t + 1] * emit[t + 1]
        b[t] = later
        b[t, :-1] += later[1:]
        b[t, :-2] += skip[2:] * later[2:]
    occupancy = ctc_collect(a * b / total, ext, probs.shape)
    return -np.log(total), probs * occupancy.sum(axis=-1, keepdims=True) - occupancy


def ctc_backward_by_flipping(scores, targets, *, blank):
    ext = states_of(targets, blank)
    if len(scores) == 0:
        return without_frames(scores, ext)
    lp = softmax_in_logs(scores)
    skip = skips_of(ext, blank)
    a = ctc_forward(lp, ext, skip)
    b = ctc_forward(lp[::-1], ext, skip)[::-1, ::-1]
    log_z = ctc_total(a)
    if log_z == LOG_ZERO:
        return impossible(scores)
    occupancy = ctc_collect(ctc_gamma(a, b, lp, ext, log_z), ext, lp.shape)
    return -log_z, through_softmax(lp, occupancy)


# RNN-T

def rnnt_arcs(lp, targets, blank):
    """Log weights of the blank arcs (T, U+1), and of the label arcs (T, U+1), where the last row has none."""
    T, rows, _ = lp.shape
    labels = np.full((T, rows), LOG_ZERO)
    for u, k in enumerate(targets):
        labels[:, u] = lp[:, u, k]
    return lp[:, :, blank], labels


def rnnt_forward(blanks, labels):
    """Log alpha, in loops over frames and rows."""
    T, rows = blanks.shape
    a = np.full((T, rows), LOG_ZERO)
    a[0, 0] = 0.0
    for t in range(T):
        for u in range(rows):
            if t > 0:
                a[t, u] = np.logaddexp(a[t, u], a[t - 1, u] + blanks[t - 1, u])
            if u > 0:
                a[t, u] = np.logaddexp(a[t, u], a[t, u - 1] + labels[t, u - 1])
    return a


def rnnt_backward(blanks, labels):
    """Log beta: the arc that leaves the node is part of it."""
    T, rows = blanks.shape
    b = np.full((T, rows), LOG_ZERO)
    for t in range(T - 1, -1, -1):
        for u in range(rows - 1, -1, -1):
            if t == T - 1 and u == rows - 1:
                b[t, u] = blanks[t, u]
                continue
            if t < T - 1:
                b[t, u] = b[t + 1, u] + blanks[t, u]
            if u < rows - 1:
                b[t, u] = np.logaddexp(b[t, u], b[t, u + 1] + labels[t, u])
    return b


def rnnt_after(b):
    """What follows a blank arc and a label arc, for each node that they leave."""
    after_blank, after_label = np.full(b.shape, LOG_ZERO), np.full(b.shape, LOG_ZERO)
    after_blank[:-1] = b[1:]
    after_blank[-1, -1] = 0.0
    after_label[:, :-1] = b[:, 1:]
    return after_blank, after_label


def rnnt_collect(used_blank, used_label, targets, blank, shape):
    occupancy = np.zeros(shape)
    occupancy[:, :, blank] += used_blank
    for u, k in enumerate(targets):
        occupancy[:, u, k] += used_label[:, u]
    return occupancy


def rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, shape):
    after_blank, after_label = rnnt_after(b)
    return rnnt_collect(np.exp(a + blanks + after_blank - log_z), np.exp(a + labels + after_label - log_z),
                        targets, blank, shape)


def rnnt_by_tables(scores, targets, *, blank):
    """Right: alpha and beta in loops."""
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    a, b = rnnt_forward(blanks, labels), rnnt_backward(blanks, labels)
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    return -log_z, through_softmax(lp, rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape))


def rnnt_by_diagonals(scores, targets, *, blank):
    """Right: one anti-diagonal at a time, and the gradient by going back through the sums."""
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    T, rows = blanks.shape
    a = np.full((T, rows), LOG_ZERO)
    a[0, 0] = 0.0
    diagonals = []
    for n in range(1, T + rows - 1):
        u = np.arange(max(0, n - T + 1), min(n, rows - 1) + 1)
        t = n - u
        by_blank = np.where(t > 0, a[t - 1, u] + blanks[t - 1, u], LOG_ZERO)
        by_label = np.where(u > 0, a[t, u - 1] + labels[t, u - 1], LOG_ZERO)
        a[t, u] = np.logaddexp(by_blank, by_label)
        total = np.where(np.isfinite(a[t, u]), a[t, u], 0.0)
        diagonals.append((t, u, np.exp(by_blank - total), np.exp(by_label - total)))
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    g = np.zeros((T, rows))
    used_blank, used_label = np.zeros((T, rows)), np.zeros((T, rows))
    g[-1, -1] = used_blank[-1, -1] = 1.0
    for t, u, share_blank, share_label in reversed(diagonals):
        for i, j, of_blank, of_label in zip(t, u, share_blank * g[t, u], share_label * g[t, u], strict=True):
            if i > 0:
                used_blank[i - 1, j] = of_blank
                g[i - 1, j] += of_blank
            if j > 0:
                used_label[i, j - 1] = of_label
                g[i, j - 1] += of_label
    return -log_z, through_softmax(lp, rnnt_collect(used_blank, used_label, targets, blank, lp.shape))


def rnnt_ends_at_the_node(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    a = rnnt_forward(blanks, labels)
    T, rows = blanks.shape
    b = np.full((T, rows), LOG_ZERO)
    b[T - 1, rows - 1] = 0.0
    for t in range(T - 1, -1, -1):
        for u in range(rows - 1, -1, -1):
            if t < T - 1:
                b[t, u] = np.logaddexp(b[t, u], b[t + 1, u] + blanks[t, u])
            if u < rows - 1:
                b[t, u] = np.logaddexp(b[t, u], b[t, u + 1] + labels[t, u])
    log_z = a[T - 1, rows - 1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    used_blank, used_label = np.zeros((T, rows)), np.zeros((T, rows))
    used_blank[:-1] = np.exp(a[:-1] + blanks[:-1] + b[1:] - log_z)
    used_label[:, :-1] = np.exp(a[:, :-1] + labels[:, :-1] + b[:, 1:] - log_z)
    return -log_z, through_softmax(lp, rnnt_collect(used_blank, used_label, targets, blank, lp.shape))


def rnnt_label_of_the_row_above(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    T, rows = blanks.shape
    a = np.full((T, rows), LOG_ZERO)
    a[0, 0] = 0.0
    for t in range(T):
        for u in range(rows):
            if t > 0:
                a[t, u] = np.logaddexp(a[t, u], a[t - 1, u] + lp[t - 1, u, blank])
            if u > 0:
                a[t, u] = np.logaddexp(a[t, u], a[t, u - 1] + lp[t, u, targets[u - 1]])
    b = rnnt_backward(blanks, labels)
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    return -log_z, through_softmax(lp, rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape))


def rnnt_no_label_at_the_start(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    T, rows = blanks.shape
    a = np.full((T, rows), LOG_ZERO)
    a[0, 0] = 0.0
    for t in range(1, T):
        a[t, 0] = a[t - 1, 0] + blanks[t - 1, 0]
        for u in range(1, rows):
            a[t, u] = np.logaddexp(a[t - 1, u] + blanks[t - 1, u], a[t, u - 1] + labels[t, u - 1])
    b = rnnt_backward(blanks, labels)
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    return -log_z, through_softmax(lp, rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape))


def rnnt_gradient_as_in_ctc(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    a, b = rnnt_forward(blanks, labels), rnnt_backward(blanks, labels)
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    return -log_z, np.exp(lp) - rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape)


def rnnt_next_frame_by_roll(log_probs, targets, *, blank):
    blanks, labels = rnnt_arcs(log_probs, targets, blank)
    a, b = rnnt_forward(blanks, labels), rnnt_backward(blanks, labels)
    log_z = b[0, 0]
    if log_z == LOG_ZERO:
        return impossible(log_probs)
    after_blank = np.roll(b, -1, axis=0)
    after_blank[-1, -1] = 0.0
    used_blank = np.exp(a + blanks + after_blank - log_z)
    used_label = np.exp(a[:, :-1] + labels[:, :-1] + b[:, 1:] - log_z)
    return -log_z, -rnnt_collect(used_blank, used_label, targets, blank, log_probs.shape)


def rnnt_labels_take_a_frame(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    T, rows = blanks.shape
    a, b = np.full((T, rows), LOG_ZERO), np.full((T, rows), LOG_ZERO)
    a[0, 0] = 0.0
    for t in range(1, T):
        a[t] = a[t - 1] + blanks[t - 1]
        a[t, 1:] = np.logaddexp(a[t, 1:], a[t - 1, :-1] + labels[t - 1, :-1])
    b[-1, -1] = blanks[-1, -1]
    for t in range(T - 2, -1, -1):
        b[t] = b[t + 1] + blanks[t]
        b[t, :-1] = np.logaddexp(b[t, :-1], b[t + 1, 1:] + labels[t, :-1])
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    used_blank, used_label = np.zeros((T, rows)), np.zeros((T, rows))
    used_blank[:-1] = np.exp(a[:-1] + blanks[:-1] + b[1:] - log_z)
    used_blank[-1, -1] = 1.0
    used_label[:-1, :-1] = np.exp(a[:-1, :-1] + labels[:-1, :-1] + b[1:, 1:] - log_z)
    return -log_z, through_softmax(lp, rnnt_collect(used_blank, used_label, targets, blank, lp.shape))


def rnnt_softmax_where_it_stands(scores, targets, *, blank):
    lp = np.asarray(scores)
    top = lp.max(axis=-1, keepdims=True)
    lp -= np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        norm = np.log(np.exp(lp).sum(axis=-1, keepdims=True))
    lp -= np.where(np.isfinite(norm), norm, 0.0)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    a, b = rnnt_forward(blanks, labels), rnnt_backward(blanks, labels)
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(lp)
    return -log_z, through_softmax(lp, rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape))


def rnnt_tables_of_float32(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    T, rows = blanks.shape
    a = np.full((T, rows), LOG_ZERO, dtype=np.float32)
    b = np.full((T, rows), LOG_ZERO, dtype=np.float32)
    a[0, 0] = 0.0
    for t in range(T):
        for u in range(rows):
            if t > 0:
                a[t, u] = np.logaddexp(a[t, u], a[t - 1, u] + blanks[t - 1, u])
            if u > 0:
                a[t, u] = np.logaddexp(a[t, u], a[t, u - 1] + labels[t, u - 1])
    b[-1, -1] = blanks[-1, -1]
    for t in range(T - 1, -1, -1):
        for u in range(rows - 1, -1, -1):
            if t < T - 1:
                b[t, u] = np.logaddexp(b[t, u], b[t + 1, u] + blanks[t, u])
            if u < rows - 1:
                b[t, u] = np.logaddexp(b[t, u], b[t, u + 1] + labels[t, u])
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    occupancy = rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape)
    return float(-log_z), through_softmax(lp, occupancy)


def _plus_in_logs(x, y):
    return max(x, y) + np.log1p(np.exp(-abs(x - y)))


def rnnt_own_logaddexp(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    T, rows = blanks.shape
    a, b = np.zeros((T, rows)), np.zeros((T, rows))
    for t in range(T):
        for u in range(rows):
            if t == 0 and u == 0:
                continue
            if u == 0:
                a[t, u] = a[t - 1, u] + blanks[t - 1, u]
            elif t == 0:
                a[t, u] = a[t, u - 1] + labels[t, u - 1]
            else:
                a[t, u] = _plus_in_logs(a[t - 1, u] + blanks[t - 1, u], a[t, u - 1] + labels[t, u - 1])
    for t in range(T - 1, -1, -1):
        for u in range(rows - 1, -1, -1):
            if t == T - 1 and u == rows - 1:
                b[t, u] = blanks[t, u]
            elif u == rows - 1:
                b[t, u] = b[t + 1, u] + blanks[t, u]
            elif t == T - 1:
                b[t, u] = b[t, u + 1] + labels[t, u]
            else:
                b[t, u] = _plus_in_logs(b[t + 1, u] + blanks[t, u], b[t, u + 1] + labels[t, u])
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    return -log_z, through_softmax(lp, rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape))


def rnnt_gradient_of_padded_targets(scores, targets, *, blank):
    lp = softmax_in_logs(scores)
    blanks, labels = rnnt_arcs(lp, targets, blank)
    a, b = rnnt_forward(blanks, labels), rnnt_backward(blanks, labels)
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    after_blank, after_label = rnnt_after(b)
    padded = [blank, *targets]  # what the prediction network is fed
    occupancy = np.zeros(lp.shape)
    occupancy[:, :, blank] = np.exp(a + blanks + after_blank - log_z)
    for u in range(len(targets)):
        occupancy[:, u, padded[u]] += np.exp(a[:, u] + labels[:, u] + after_label[:, u] - log_z)
    return -log_z, through_softmax(lp, occupancy)


def rnnt_mean_of_the_loss_only(scores, targets, *, blank):
    loss, grad = rnnt_by_tables(scores, targets, blank=blank)
    return loss / max(len(targets), 1), grad


def rnnt_one_maximum(scores, targets, *, blank):
    top = scores.max()
    lp = _normalised(scores - (top if np.isfinite(top) else 0.0))
    blanks, labels = rnnt_arcs(lp, targets, blank)
    a, b = rnnt_forward(blanks, labels), rnnt_backward(blanks, labels)
    log_z = a[-1, -1] + blanks[-1, -1]
    if log_z == LOG_ZERO:
        return impossible(scores)
    return -log_z, through_softmax(lp, rnnt_occupancy(a, b, blanks, labels, log_z, targets, blank, lp.shape))


RIGHT = [
    Loss("two tables", "ctc", "logits", ctc_by_tables),
    Loss("back through the sums", "ctc", "logits", ctc_by_backpropagation),
    Loss("two tables", "rnnt", "logits", rnnt_by_tables),
    Loss("anti-diagonals", "rnnt", "logits", rnnt_by_diagonals),
]

WRONG = [
    Loss("skips into every label", "ctc", "logits", ctc_skips_into_every_label,
         "A path may skip the blank between two equal labels.",
         ("repeat", "equal labels", "same label")),
    Loss("skips by zero", "ctc", "logits", ctc_skips_by_zero,
         "The rule for skips compares with 0 instead of blank, so no skip leads into label 0 where blank is another.",
         ("label 0", "blank is not 0", "hard-coded")),
    Loss("total of the last two", "ctc", "logits", ctc_total_of_last_two,
         "With an empty target the index S-2 is -1, and the only state is added to itself.",
         ("empty", "twice", "no label")),
    Loss("scatter by index", "ctc", "logits", ctc_scatter_by_index,
         "The gradient is scattered by fancy indexing, which keeps only the last of several states with one symbol.",
         ("overwrit", "add up", "accumul")),
    Loss("backward asks the source", "ctc", "logits", ctc_backward_asks_the_source,
         "In beta the rule for skips is asked of the state that the skip leaves, not of the one it enters.",
         ("beta", "backward", "suffix")),
    Loss("log of p plus epsilon", "ctc", "logits", ctc_log_of_p_plus_epsilon,
         "The logarithm is taken of p + 1e-8, so small and masked probabilities are too large.",
         ("epsilon", "log(p + ", "floor")),
    Loss("one buffer", "ctc", "logits", ctc_one_buffer,
         "Alpha is updated in place in ascending order, so a state reads neighbours of the new frame.",
         ("in place", "same frame", "within one frame")),
    Loss("shift by roll", "ctc", "logits", ctc_by_roll,
         "The states are shifted by np.roll, so the last state flows into the first.",
         ("wrap", "last state", "roll")),
    Loss("too short by one", "ctc", "logits", ctc_too_short_by_one,
         "An utterance with as many frames as labels is taken to have no alignment.",
         ("t = u", "as many frames", "shortest")),
    Loss("softmax minus occupancy for log-probs", "ctc", "log_probs", ctc_of_log_probs_minus_softmax,
         "The arguments are log-probs, but the gradient returned is the one with respect to logits.",
         ("logits", "softmax")),
    Loss("plain probabilities", "ctc", "logits", ctc_in_probabilities,
         "Alpha and beta are plain probabilities, which underflow in a long utterance.",
         ("underflow", "many frames", "probability space")),
    Loss("backward by flipping", "ctc", "logits", ctc_backward_by_flipping,
         "Beta is alpha of the reversed frames, but the labels are not reversed with them.",
         ("revers", "beta", "suffix")),
    Loss("ends at the node", "rnnt", "logits", rnnt_ends_at_the_node,
         "The last blank is left out of the loss and of the gradient.",
         ("last blank", "final blank", "closing blank")),
    Loss("label of the row above", "rnnt", "logits", rnnt_label_of_the_row_above,
         "Alpha reads the log-prob of a label in row u, which its arc enters, instead of row u-1, which it leaves.",
         ("row", "the node it enters", "destination")),
    Loss("no label at the start", "rnnt", "logits", rnnt_no_label_at_the_start,
         "In alpha no label can be emitted in the first frame.",
         ("first frame", "t = 0", "frame 0")),
    Loss("gradient as in CTC", "rnnt", "logits", rnnt_gradient_as_in_ctc,
         "The softmax in the gradient is not multiplied by the probability that a path passes the node.",
         ("node occupancy", "occupancy of the node", "softmax")),
    Loss("next frame by roll", "rnnt", "log_probs", rnnt_next_frame_by_roll,
         "The beta after a blank comes from np.roll, so blanks of the last frame get the beta of the first frame.",
         ("last frame", "wrap", "t-1")),
    Loss("labels take a frame", "rnnt", "logits", rnnt_labels_take_a_frame,
         "A label arc leads to the next frame as well, so a frame has at most one label.",
         ("one label", "next frame", "diagonal")),
    Loss("softmax where it stands", "rnnt", "logits", rnnt_softmax_where_it_stands,
         "The log-softmax is computed in the caller's array; loss and gradient are right.",
         ("modif", "in place", "overwrit")),
    Loss("tables of float32", "rnnt", "logits", rnnt_tables_of_float32,
         "Alpha and beta are stored as float32.",
         ("float32", "single precision", "precision")),
    Loss("own logaddexp", "rnnt", "logits", rnnt_own_logaddexp,
         "The sum of two numbers whose logarithms are both -inf becomes NaN.",
         ("nan", "mask", "-inf")),
    Loss("gradient of padded targets", "rnnt", "logits", rnnt_gradient_of_padded_targets,
         "The gradient of a label goes to the label before it, as the targets have the start symbol in front there.",
         ("previous label", "shift", "wrong label")),
    Loss("mean of the loss only", "rnnt", "logits", rnnt_mean_of_the_loss_only,
         "The loss is divided by the number of labels, the gradient is not.",
         ("divid", "normalis", "mean")),
    Loss("one maximum", "rnnt", "logits", rnnt_one_maximum,
         "Softmax subtracts the maximum of the whole array, so nodes with far smaller logits underflow.",
         ("large logits", "underflow", "maximum")),
]

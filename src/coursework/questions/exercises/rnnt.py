"""Exercises of the chapters on RNN-T."""

from __future__ import annotations

from functools import partial
from math import comb

import numpy as np

from reference_impl import log_softmax, rnnt
from reference_impl.semiring import REAL

from .parts import function, numbers

__all__ = ["EXERCISES"]


# --- the loss ---


def square(rng):
    """Blank's and label's probabilities at the four nodes of two frames and one label."""
    return {"blank": rng.uniform(0.1, 0.9, (2, 2)), "label": rng.uniform(0.1, 0.9, (2, 2))}


def variable(recursion):
    return lambda blank, label: np.array(recursion(np.stack([blank, label], -1), [1], semiring=REAL), dtype=float)


FORTH, BACK = variable(rnnt.alpha), variable(rnnt.beta)


def with_entry(table, t, u, value):
    def changed(blank, label):
        found = table(blank, label)
        found[t, u] = value(blank, label)
        return found

    return changed


SQUARE = [
    function("alpha", square, FORTH, {
        "It is beta: the way to the end.": BACK,
        "Two paths lead to (1, 1); the one that writes first is missing.":
            with_entry(FORTH, 1, 1, lambda blank, label: blank[0, 0] * label[1, 0]),
        "Two paths lead to (1, 1); the one that waits first is missing.":
            with_entry(FORTH, 1, 1, lambda blank, label: label[0, 0] * blank[0, 1]),
        "The last blank belongs to the way on from (1, 1), not to the way there.":
            with_entry(FORTH, 1, 1, lambda blank, label: FORTH(blank, label)[1, 1] * blank[1, 1]),
        "Frames and rows are exchanged: there is a row of the array for each frame.":
            lambda blank, label: FORTH(blank, label).T,
    }),
    function("beta", square, BACK, {
        "It is alpha: the way from the start.": FORTH,
        "The last blank is missing: it ends every path.": lambda blank, label: BACK(blank, label) / blank[1, 1],
        "The blank of (1, 0) would end the utterance with the label missing.":
            lambda blank, label: (BACK(np.where([[1, 1], [0, 1]], blank, 0), label)
                                  + np.array([[blank[0, 0], 0], [1, 0]]) * blank[1, 0]),
        "Frames and rows are exchanged: there is a row of the array for each frame.":
            lambda blank, label: BACK(blank, label).T,
    }),
]


def node(rng):
    T, U = (int(n) for n in rng.integers(2, 7, 2))
    return {"t": int(rng.integers(1, T)), "u": int(rng.integers(1, U)), "T": T, "U": U}


def ways(T, U, last=1):
    return comb(T + U - last, U)


COUNTS = [
    function("alpha", lambda rng: {"t": int(rng.integers(1, 6)), "u": int(rng.integers(1, 6))},
             lambda t, u: comb(t + u, u), {
        "That is the number of paths with t blanks and u labels that end in a blank; a prefix may end in a label.":
            lambda t, u: comb(t + u - 1, u),
        "Blanks and labels come in any order.": lambda t, u: 1,
        "A step is a blank or a label, but the numbers of both are given: choose where the labels stand.":
            lambda t, u: 2 ** (t + u),
    }),
    function("beta", node, lambda t, u, T, U: ways(T - t, U - u), {
        "The last arc is always the blank, so it is not chosen: one place less.":
            lambda t, u, T, U: ways(T - t, U - u, last=0),
        "It is alpha.": lambda t, u, T, U: comb(t + u, u),
        "It is the number of paths through the node.": lambda t, u, T, U: comb(t + u, u) * ways(T - t, U - u),
        "One frame too few: a suffix from frame t has T - t frames, that one included.":
            lambda t, u, T, U: ways(T - t - 1, U - u) if T - t > 1 or U > u else 1,
    }),
    function("passing", node, lambda t, u, T, U: comb(t + u, u) * ways(T - t, U - u) / ways(T, U), {
        "It is the number of paths through the node; divide it by that of all paths.":
            lambda t, u, T, U: comb(t + u, u) * ways(T - t, U - u),
        "It is the share of the prefixes only; multiply by the suffixes.":
            lambda t, u, T, U: comb(t + u, u) / ways(T, U),
        "The number of all paths is wrong: the last blank has no choice.":
            lambda t, u, T, U: comb(t + u, u) * ways(T - t, U - u) / ways(T, U, last=0),
    }),
]


def beyond(N):
    return np.prod([1 - 1 / (u + 2) ** 2 for u in range(N + 1)])


FOR_EVER = [
    function("more", lambda rng: {"N": int(rng.integers(1, 30))}, beyond, {
        "One decision is missing: to write more than N labels takes N + 1 of them, from u = 0 to N.":
            lambda N: beyond(N - 1),
        "There is one decision too many.": lambda N: beyond(N + 1),
        "It is the probability to write N labels or fewer.": lambda N: 1 - beyond(N),
        "These are the probabilities to say blank, multiplied; labels are what goes on.":
            lambda N: np.prod([1 / (u + 2.0) ** 2 for u in range(N + 1)]),
    }),
    numbers("total", 1 / 2, {
        "Each node is normalised, and yet some of the mass never stops.": 1,
        "The product does not go to 0, so something is lost.": 0,
        "It is the probability that the first symbol is a label.": 3 / 4,
    }),
]


# --- the gradient ---


def one_frame(rng):
    U = int(rng.integers(1, 4))
    return {"logits": rng.normal(size=(1, U + 1, 4)), "targets": rng.integers(1, 4, U)}


def of_logits(logits, targets, *, softmax=1, used=1, last=1):
    """Softmax and one-hots of the arcs, each with a factor."""
    logits = np.asarray(logits)
    used = used * rnnt.occupancy(log_softmax(logits), targets)
    used[-1, -1, 0] *= last
    return softmax * np.exp(log_softmax(logits)) - used


ONE_FRAME = [
    function("log_probs", one_frame, partial(of_logits, softmax=0), {
        "The last blank is missing: it is an arc as well.": partial(of_logits, softmax=0, last=0),
        "Its sign is wrong: more of a log-prob makes the loss less.": partial(of_logits, softmax=0, used=-1),
        "It is the gradient with respect to the logits.": of_logits,
    }),
    function("logits", one_frame, of_logits, {
        "The last blank is missing: at the last node it is the symbol of the target.": partial(of_logits, last=0),
        "Its sign is wrong: softmax minus one-hot.": partial(of_logits, softmax=-1, used=-1),
        "It is the gradient with respect to the log-probs.": partial(of_logits, softmax=0),
        "It is the softmax alone.": partial(of_logits, used=0),
    }),
]


def shape(rng):
    T, U, V = rng.permutation([2, 3, 4, 5, 6, 7])[:3]
    return {"T": int(T), "U": int(U), "V": int(V)}


LAST_BLANK = [
    function("changed", shape, lambda T, U, V: [1, V], {
        "With respect to the logits the whole row of the last node changes.": lambda T, U, V: [1, 1],
        "With respect to the log-probs one entry changes: that of the last blank.": lambda T, U, V: [V, V],
        "log Z and log Z' differ by one log-prob, so the other posteriors stay.":
            lambda T, U, V: [T * (U + 1), T * (U + 1) * V],
        "They are exchanged: first the log-probs, then the logits.": lambda T, U, V: [V, 1],
    }),
    function("blanks", lambda rng: {"T": int(rng.integers(2, 9)), "U": int(rng.integers(2, 9))}, lambda T, U: T - 1, {
        "As if the last blank were still in Z; without it a path has one blank less.": lambda T, U: T,
        "Asked for are the blanks; the labels add up to U.": lambda T, U: T + U - 1,
        "It is the sum of the gradient's entries; a posterior is minus one of them.": lambda T, U: 1 - T,
    }),
]


def shared(rng):
    e_blank, e_label = rng.uniform(0.1, 0.5, 2)
    return {"e_blank": float(e_blank), "e_label": float(e_label)}


TIE = [
    function("derivative", shared, lambda e_blank, e_label: -(e_blank + e_label), {
        "Its sign is wrong: the loss is minus log Z.": lambda e_blank, e_label: e_blank + e_label,
        "It is what code gives that assigns, and writes the label last.": lambda e_blank, e_label: -e_label,
        "It is what code gives that assigns, and writes the blank last.": lambda e_blank, e_label: -e_blank,
        "A path leaves the node by one arc or by the other: probabilities add up.":
            lambda e_blank, e_label: -e_blank * e_label,
    }),
]


# --- kernels ---

NODES = np.array([[[1 / 2, 1 / 3, 1 / 6], [3 / 5, 1 / 5, 1 / 5]]])
EXP_G = np.array([[5], [5 / 3]]) * NODES[0]

ONE_FRAME_KERNEL = [
    numbers("exp_g", EXP_G, {
        "It is not divided by Z.": EXP_G / 5,
        "Beta is in it already; g has alpha, the log-prob and minus log Z.": EXP_G * [[1 / 5], [3 / 5]],
        "Alpha of (0, 1) is missing: the label of (0, 0) leads there.": 5 * NODES[0],
    }),
    numbers("gradient", lambda: rnnt.grad_logits(np.log(NODES), [1])[0], {
        "It is the gradient with respect to the log-probs.": [[0, -1, 0], [-1, 0, 0]],
        "Its sign is wrong.": lambda: -rnnt.grad_logits(np.log(NODES), [1])[0],
        "The case of the last blank is missing.": [[1 / 2, -2 / 3, 1 / 6], [3 / 5, 1 / 5, 1 / 5]],
        "The blank of (0, 0) leads nowhere: its case is that of any other symbol.":
            [[-1 / 2, -2 / 3, 1 / 6], [-2 / 5, 1 / 5, 1 / 5]],
        "It is the softmax; nothing is subtracted.": NODES[0],
    }),
]

WHICH = [
    function("totals", lambda rng: {"T": int(rng.integers(2, 9)), "U": int(rng.integers(2, 9))},
             lambda T, U: [0, 0, T + U, -(T + U)], {
        "All signs are wrong: line 3 is about plus log Z, line 4 about the loss.":
            lambda T, U: [0, 0, -(T + U), T + U],
        "Line 3 differentiates plus log Z, not the loss.": lambda T, U: [0, 0, -(T + U), -(T + U)],
        "Line 4 is a gradient of the loss: minus posteriors.": lambda T, U: [0, 0, T + U, T + U],
        "Line 2 has a softmax term, so it is a gradient with respect to logits.":
            lambda T, U: [0, -T, T + U, -(T + U)],
        "The last blank is an arc, too: a path has T blanks and U labels.":
            lambda T, U: [0, 0, T + U - 1, 1 - T - U],
    }),
    function("node", lambda rng: {"gamma": float(rng.uniform(0.1, 0.9))}, lambda gamma: [0, 0, gamma, -gamma], {
        "Line 1 has a softmax term for each symbol: what it adds is what the arcs take away.":
            lambda gamma: [-gamma, 0, gamma, -gamma],
        "Line 2 belongs to CTC: belief and occupancy of a frame both add up to 1.":
            lambda gamma: [0, 1 - gamma, gamma, -gamma],
        "A path need not pass the node: the arcs of a node add up to gamma, not to 1.": lambda gamma: [0, 0, 1, -1],
        "All signs are wrong: line 3 is about plus log Z, line 4 about the loss.":
            lambda gamma: [0, 0, -gamma, gamma],
    }),
]


# --- FastEmit ---


def halves(function):
    return lambda: function(np.log(np.full((2, 2, 2), 0.5)), [1], fastemit_lambda=0.5)[0, 0]


FASTEMIT_BY_HAND = [
    numbers("v", halves(rnnt.grad_log_probs), {
        "It is the gradient: lambda is missing.": [-1 / 2, -1 / 2],
        "Lambda multiplies labels only, not the blank.": [-3 / 4, -3 / 4],
        "The two are exchanged: first the blank, then the label.": [-3 / 4, -1 / 2],
        "Its sign is wrong.": [1 / 2, 3 / 4],
    }),
    numbers("v_z", halves(rnnt.grad_logits), {
        "It is the gradient: lambda is missing.": [0, 0],
        "The softmax term lacks its share of lambda, so v_z does not add up to 0.": [0, -1 / 4],
        "Its sign is wrong: the label is raised, so its entry is negative.": [-1 / 8, 1 / 8],
        "It is v, with respect to the log-probs.": [-1 / 2, -3 / 4],
    }),
    numbers("antisymmetric", -1 / 8, {
        "Its sign is wrong.": 1 / 8,
        "Lambda is missing.": -1 / 4,
        "It is halved; asked for is the difference of the two derivatives.": -1 / 16,
        "No function has v as its gradient: the derivatives differ.": 0,
    }),
]


def utterance(rng):
    return {"logits": rng.normal(size=(3, 3, 4)), "targets": rng.integers(1, 4, 2), "lam": float(rng.uniform(0.1, 1))}


def field(logits, targets, lam, *, label=1, softmax=1, blank=0):
    """The gradient, and lambda at the label, in the softmax term, and at the blank, each with a factor."""
    logits = np.asarray(logits)
    log_probs = log_softmax(logits)
    e_blank, e_label = rnnt.arc_posteriors(log_probs, targets)
    v_z = rnnt.grad_logits(logits, targets)
    v_z[:, :-1] += softmax * lam * np.exp(log_probs[:, :-1]) * e_label[..., None]
    v_z[:, np.arange(len(targets)), targets] -= label * lam * e_label
    v_z[..., 0] -= blank * lam * e_blank
    v_z += blank * lam * np.exp(log_probs) * e_blank[..., None]
    return v_z


FIELD = [
    function("v_z", utterance,
             lambda logits, targets, lam: rnnt.grad_logits(np.asarray(logits), targets, fastemit_lambda=lam), {
        "The softmax term lacks its share of lambda; a node does not add up to 0.": partial(field, softmax=0),
        "It is the gradient: lambda is missing.": partial(field, softmax=0, label=0),
        "The label itself lacks lambda; it is in the softmax term only.": partial(field, label=0),
        "The share of the softmax term has the wrong sign.": partial(field, softmax=-1),
        "All posteriors are multiplied by 1 + lambda; only those of labels are.": partial(field, blank=1),
    }),
]


def certain(rng):
    U = int(rng.integers(1, 4))
    return {"log_probs": log_softmax(rng.normal(size=(1, U + 1, 4))), "targets": rng.integers(1, 4, U),
            "lam": float(rng.uniform(0.1, 1))}


def weighed(log_probs, targets, lam, *, blank=0, sign=-1, last=1):
    """Minus the log-probs of a single path, its labels times 1 + lambda."""
    log_probs = np.asarray(log_probs)
    labels = log_probs[0, np.arange(len(targets)), targets].sum()
    return sign * ((1 + lam) * labels + last * (1 + blank * lam) * log_probs[0, -1, 0])


ONE_PATH = [
    function("F", certain, weighed, {
        "It is the loss; its gradient has no lambda.": lambda log_probs, targets, lam: weighed(log_probs, targets, 0),
        "It is the loss times 1 + lambda; the blank's entry is not multiplied.": partial(weighed, blank=1),
        "The last blank is missing.": partial(weighed, last=0),
        "Its sign is wrong.": partial(weighed, sign=1),
    }),
]

EXERCISES = {
    "ex-rnnt-loss-1": SQUARE,
    "ex-rnnt-loss-2": COUNTS,
    "ex-rnnt-loss-3": FOR_EVER,
    "ex-rnnt-1": ONE_FRAME,
    "ex-rnnt-2": LAST_BLANK,
    "ex-rnnt-3": TIE,
    "ex-kernels-1": ONE_FRAME_KERNEL,
    "ex-kernels-2": WHICH,
    "ex-fastemit-1": FASTEMIT_BY_HAND,
    "ex-fastemit-2": FIELD,
    "ex-fastemit-3": ONE_PATH,
}

"""What people get wrong in the recursions and gradients of CTC, by name: functions from an utterance to a wrong answer.

Assignments ask about it (`questions/`), and ports to other languages are compared with it (`vectors/`). Nothing here
knows of questions, points or files.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from .. import ctc
from .._softmax import log_softmax

__all__ = ["GRAD_LOGITS", "GRAD_LOG_PROBS", "LOG_ALPHA", "LOG_BETA", "LOSS", "LOSS_FROM_BETA", "OCCUPANCY", "alpha",
           "beta", "extended", "loss", "occupancy"]


def extended(targets, blank, *, first=True, last=True, between=True):
    """The symbols of the states: the labels with blanks around them, and each of these may be left out."""
    states = []
    for u, label in enumerate(targets):
        states += ([blank] if (first if u == 0 else between) else []) + [int(label)]
    if last and len(targets) or not len(targets):
        states.append(blank)
    return np.array(states)


# --- the forward recursion ---


def alpha(log_probs, targets, blank, *, skip=None, begin=2, moves=(0, 1, 2), frame=0, add=np.logaddexp, leaves=False,
          later=True):
    """The recursion, with a place for each thing that can go wrong in it."""
    z = extended(targets, blank)
    S, T = len(z), len(log_probs)
    skip = skip or (lambda s: z[s] != blank and z[s] != z[s - 2])
    found = np.full((T, S), -np.inf)
    for s in range(min(begin, S)):
        found[0, s] = log_probs[0, z[s]]
    for t in range(1, T):
        for s in range(S):
            for back in moves:
                if back > s or back == 2 and not skip(s):
                    continue
                step = log_probs[t - frame, z[s - back if leaves else s]] if later else 0.0
                found[t, s] = add(found[t, s], found[t - 1, s - back] + step)
    return found


def _no_first_emission(log_probs, targets, blank):
    z = extended(targets, blank)
    without = np.array(log_probs, dtype=float)
    without[0, list(z[:2])] = 0.0
    return alpha(without, targets, blank)


def _wrong_steps(recursion):
    """The mistakes about steps, which either recursion can make."""
    def between_equal_labels(log_probs, targets, blank):
        return recursion(log_probs, targets, blank, skip=lambda s: extended(targets, blank)[s] != blank)

    return {
        "It skips the blank between two equal labels; there a blank has to be passed.": between_equal_labels,
        "It never skips a blank; from a label the next one may follow at once, if it is another.":
            partial(recursion, skip=lambda s: False),
        "It skips labels, too: from a blank to the next blank. Only a blank may be skipped.":
            partial(recursion, skip=lambda s: True),
        "It does not stay in a state; a label or a blank may last several frames.": partial(recursion, moves=(1, 2)),
        "It never moves on to the next state; a state may be left for the one after it.":
            partial(recursion, moves=(0, 2)),
        "It multiplies by the emission of the state that is left, not of the one that is entered.":
            partial(recursion, leaves=True),
        "It returns probabilities, not their logarithms.":
            lambda *arguments, **named: np.exp(recursion(*arguments, **named)),
        "Frames and states are exchanged: the shape is (2U+1, T).":
            lambda *arguments, **named: recursion(*arguments, **named).T,
    }


LOG_ALPHA = {
    **_wrong_steps(alpha),
    "It begins in the first blank only; a path may begin with the first label as well.": partial(alpha, begin=1),
    "It begins in every state; a path begins in one of the first two.": partial(alpha, begin=10**6),
    "It takes the emission of the frame before.": partial(alpha, frame=1),
    "It leaves out the emission of frame 0.": _no_first_emission,
    "It has the emission of frame 0 only; every frame emits.": partial(alpha, later=False),
    "It takes the best beginning where it should add all of them (a maximum for a sum).":
        partial(alpha, add=np.maximum),
    "The last blank is missing: there are 2U states.":
        lambda log_probs, targets, blank: alpha(log_probs, targets, blank)[:, :-1],
    "The first blank is missing.":
        lambda log_probs, targets, blank: alpha(log_probs, targets, blank)[:, 1:],
    "It is beta: the way from the end, not from the beginning.":
        lambda log_probs, targets, blank: ctc.log_beta(log_probs, targets, blank=blank),
}


# --- the loss ---


def loss(log_probs, targets, blank, *, ends=2, add=np.logaddexp, **options):
    return -add.reduce(alpha(log_probs, targets, blank, add=add, **options)[-1, -ends:])


LOSS = {
    "It ends in the last blank only; a path may end in the last label, too.": partial(loss, ends=1),
    "It ends in the last label only; a path may end in the blank after it.":
        lambda log_probs, targets, blank: -ctc.log_alpha(log_probs, targets, blank=blank)[-1, -2],
    "It adds up all states of the last frame; only the last two are complete.": partial(loss, ends=0),
    "Its sign is wrong: the loss is minus log Z.": lambda *a, **k: -loss(*a, **k),
    "It divides by the number of labels.": lambda log_probs, targets, blank: (
        loss(log_probs, targets, blank) / max(len(targets), 1)),
    "It divides by the number of frames.": lambda log_probs, targets, blank: (
        loss(log_probs, targets, blank) / len(log_probs)),
    "It is the best path's score, not the sum over all paths.": partial(loss, add=np.maximum),
    "It skips the blank between two equal labels; there a blank has to be passed.":
        lambda log_probs, targets, blank: loss(log_probs, targets, blank,
                                               skip=lambda s: extended(targets, blank)[s] != blank),
    "It is the probability, not minus its logarithm.": lambda *a, **k: np.exp(-loss(*a, **k)),
}


# --- the backward recursion ---


def beta(log_probs, targets, blank, *, skip=None, ends=(1, 2), moves=(0, 1, 2), frame=1, add=np.logaddexp,
         leaves=False):
    """The recursion, with a place for each thing that can go wrong in it."""
    z = extended(targets, blank)
    S, T = len(z), len(log_probs)
    skip = skip or (lambda s: z[s] != blank and z[s] != z[s - 2])
    found = np.full((T, S), -np.inf)
    found[-1, [S - back for back in ends or range(1, S + 1) if back <= S]] = 0.0
    for t in reversed(range(T - 1)):
        for s in range(S):
            for up in moves:
                if s + up >= S or up == 2 and not skip(s + up):
                    continue
                step = log_probs[t + frame, z[s if leaves else s + up]]
                found[t, s] = add(found[t, s], found[t + 1, s + up] + step)
    return found


def _emissions(log_probs, targets, blank):
    return np.asarray(log_probs)[:, extended(targets, blank)]


LOG_BETA = {
    "It has the emission of frame t in it, as in the paper of 2006; here beta begins after it.":
        lambda log_probs, targets, blank: beta(log_probs, targets, blank) + _emissions(log_probs, targets, blank),
    **_wrong_steps(beta),
    "It takes the emission of frame t for that of frame t + 1.": partial(beta, frame=0),
    "It ends in the last blank only; a path may end in the last label, too.": partial(beta, ends=(1,)),
    "It ends in the last label only; a path may end in the blank after it.": partial(beta, ends=(2,)),
    "It ends in every state; a path ends in one of the last two.": partial(beta, ends=()),
    "It takes the best ending where it should add all of them (a maximum for a sum).":
        partial(beta, add=np.maximum),
    "Its frames run backward: row 0 is the last frame.":
        lambda log_probs, targets, blank: beta(log_probs, targets, blank)[::-1],
    "It is alpha: the way from the beginning, not from the end.":
        lambda log_probs, targets, blank: ctc.log_alpha(log_probs, targets, blank=blank),
}


# --- the loss, from beta ---


def loss_from_beta(log_probs, targets, blank, *, first=2, emits=True, add=np.logaddexp):
    start = ctc.log_beta(log_probs, targets, blank=blank)[0]
    if emits:
        start = start + _emissions(log_probs, targets, blank)[0]
    return -add.reduce(start[:first])


LOSS_FROM_BETA = {
    "The emission of frame 0 is missing: beta begins after it.": partial(loss_from_beta, emits=False),
    "It begins in the first blank only; a path may begin with the first label as well.":
        partial(loss_from_beta, first=1),
    "It adds up all states of frame 0; a path begins in one of the first two.": partial(loss_from_beta, first=None),
    "Its sign is wrong: the loss is minus log Z.": lambda *a, **k: -loss_from_beta(*a, **k),
    "It takes the better of two prefixes, not their sum.": partial(loss_from_beta, add=np.maximum),
}


# --- occupancy and gradients ---


def occupancy(log_probs, targets, blank, *, assign=False, power=0, over_z=True, best=False):
    """Sums of alpha beta over the states of each symbol, with a place for each thing that can go wrong."""
    z = extended(targets, blank)
    log_mass = ctc.log_alpha(log_probs, targets, blank=blank) + ctc.log_beta(log_probs, targets, blank=blank)
    log_z = -ctc.loss(log_probs, targets, blank=blank)
    emitted = np.where(np.isfinite(log_mass), np.asarray(log_probs)[:, z], 0)
    with np.errstate(invalid="ignore"):  # NaN where there is no alignment
        log_mass = log_mass - (log_z if over_z else 0) + power * emitted
    if best:
        log_mass = np.where(log_mass == log_mass.max(axis=1, keepdims=True), 0.0, -np.inf)
    found = np.zeros(np.shape(log_probs))
    for s, symbol in enumerate(z):
        found[:, symbol] = np.exp(log_mass[:, s]) + (0 if assign else found[:, symbol])
    return found


def _softmax(logits):
    return np.exp(log_softmax(logits))


def _left_over(logits, targets, blank):
    return _softmax(logits) - np.nan_to_num(occupancy(log_softmax(logits), targets, blank))


def _sides(of_belief, of_occupancy, **options):
    """Belief and occupancy, each with a factor."""
    return lambda logits, targets, blank: (
        of_belief * _softmax(logits) + of_occupancy * occupancy(log_softmax(logits), targets, blank, **options))


def _divided(log_probs, targets, blank):
    with np.errstate(divide="ignore", invalid="ignore"):
        return -occupancy(log_probs, targets, blank) / np.exp(log_probs)


OCCUPANCY = {
    "It keeps the last state of a symbol; the blank, or a label that occurs twice, stands at several states.":
        lambda *a, **k: occupancy(*a, **k, assign=True),
    "The emission is in it twice: alpha has it already, and beta has not.":
        lambda *a, **k: occupancy(*a, **k, power=1),
    "It is divided by the probability of the symbol: then it is a derivative with respect to that.":
        lambda *a, **k: occupancy(*a, **k, power=-1),
    "It is not divided by Z.": lambda *a, **k: occupancy(*a, **k, over_z=False),
    "It is the best state of each frame, not the probability of each.":
        lambda *a, **k: occupancy(*a, **k, best=True),
    "Its sign is wrong: an occupancy is a probability.": lambda *a, **k: -occupancy(*a, **k),
    "It is the softmax, what the network says; the occupancy is what the target says.":
        lambda log_probs, targets, blank: np.exp(log_probs),
}

GRAD_LOG_PROBS = {
    "Its sign is wrong: the loss is minus log Z.": occupancy,
    "It is the gradient with respect to the logits.":
        lambda log_probs, targets, blank: np.exp(log_probs) - occupancy(log_probs, targets, blank),
    "It is the gradient with respect to the probabilities: divided by each of them.": _divided,
    "It is not divided by Z: the gradient of -Z, not of -log Z.":
        lambda *a, **k: -occupancy(*a, **k, over_z=False),
    "It keeps the last state of a symbol; the blank, or a label that occurs twice, stands at several states.":
        lambda *a, **k: -occupancy(*a, **k, assign=True),
}

GRAD_LOGITS = {
    "The softmax term is missing: it is the gradient with respect to the log-probs.": _sides(0, -1),
    "Its sign is wrong.": _sides(-1, 1),
    "The occupancy is missing.": _sides(1, 0),
    "The occupancy has the wrong sign.": _sides(1, 1),
    "The emission is in the occupancy twice.": _sides(1, -1, power=1),
    "The occupancy keeps the last state of a symbol only.": _sides(1, -1, assign=True),
    "The logits are taken for log-probs: they have to be normalised first.":
        lambda logits, targets, blank: np.exp(logits) - occupancy(logits, targets, blank),
    "Where there is no alignment it is not 0: the softmax term is left.": _left_over,
}

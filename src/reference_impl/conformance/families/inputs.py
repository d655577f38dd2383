"""Families of mistakes in what goes into the recursions: scores, targets, frames, and special cases of utterances.

They are the same for CTC and RNN-T. Which of loss and gradient has the mistake is up to `applied.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..._softmax import log_softmax
from ..problem import Problem

__all__ = ["SCORES", "SPECIAL", "UTTERANCES", "column_changed", "normalised", "rounded", "scores_changed", "smoothed",
           "softmax"]


def normalised(scores, axis):
    """Scores minus the log of the sum over an axis, or axes."""
    if scores.ndim == 2 and np.any(np.equal(axis, -2)):
        raise ValueError("no rows")
    return scores - np.logaddexp.reduce(scores, axis=axis, keepdims=True)


def softmax(logits):
    """Probabilities of the symbols."""
    return np.exp(log_softmax(logits))


def rounded(logits, kept):
    """Rounded to so many bits of a mantissa."""
    mantissa, exponent = np.frexp(logits)
    return np.where(np.isfinite(logits), np.ldexp(np.round(mantissa * 2.0**kept), exponent - kept), logits)


def scores_changed(change, *, softmax):
    """By a number, a change of the logits before the softmax, or of the log-probs after it."""
    return lambda value: lambda logits, blank: (
        log_softmax(change(logits, value)) if softmax else change(log_softmax(logits), value))


def column_changed(change, *, blank, softmax=False):
    """The same of the blank's scores alone, or of all others."""
    def made(value):
        def scores(logits, k):
            found = np.array(logits if softmax else log_softmax(logits), dtype=float)
            which = (np.arange(found.shape[-1]) == k) == blank
            found[..., which] = change(found[..., which], value)
            return log_softmax(found) if softmax else found
        return scores
    return made


def smoothed(share):
    """Probabilities with a share of the uniform distribution."""
    return lambda logits, blank: np.log((1 - share) * softmax(logits) + share / logits.shape[-1])


#: By the sentence that names it, log-probs from logits and the blank.
SCORES = {
    "softmax is taken over the frames, not over the symbols (the wrong axis)":
        lambda logits, blank: normalised(logits, 0),
    "softmax is taken over the rows, not over the symbols (the wrong axis)":
        lambda logits, blank: normalised(logits, -2),
    "softmax is taken over frames and symbols together, not over the symbols of each frame (the wrong axis)":
        lambda logits, blank: normalised(logits, (0, logits.ndim - 1)),
    "softmax is taken over rows and symbols together, not over the symbols of each node (the wrong axis)":
        lambda logits, blank: normalised(logits, (-2, -1)),
    "softmax is taken over the whole array (utterance), not over the symbols of each row (the wrong axis)":
        lambda logits, blank: normalised(logits, None),
    "softmax is taken twice": lambda logits, blank: log_softmax(softmax(logits)),
    "softmax is taken, and no logarithm: probabilities stand where log-probs belong":
        lambda logits, blank: softmax(logits),
    "a sigmoid of each logit is taken, not the softmax": lambda logits, blank: -np.logaddexp(0.0, -logits),
    "the logits are divided by the square root of V (a temperature)":
        lambda logits, blank: log_softmax(logits / np.sqrt(logits.shape[-1])),
    **{f"the logits are multiplied by {by:g} before the softmax (a temperature of {1 / by:g})":
       scores_changed(np.multiply, softmax=True)(by) for by in (
           0.1, 0.2, 0.25, 0.5, 1 / 1.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0)},
    **{f"the log-probs are multiplied by {by:g} after the softmax (a scale, as for acoustic scores)":
       scores_changed(np.multiply, softmax=False)(by) for by in (
           0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5, 2.0)},
    "log-probs to base 2 are added as if they were nats": lambda logits, blank: log_softmax(logits) / np.log(2),
    "log-probs to base 10 are added as if they were nats": lambda logits, blank: log_softmax(logits) / np.log(10),
    "the log-probs have the wrong sign": lambda logits, blank: -log_softmax(logits),
    "the maximum is subtracted and the logits are not normalised: the log of the sum is missing":
        lambda logits, blank: logits - logits.max(-1, keepdims=True),
    "the blank is left out of the softmax's sum": lambda logits, blank: logits - np.logaddexp.reduce(
        np.delete(logits, blank, axis=-1), axis=-1, keepdims=True),
    "symbol 0 is left out of the softmax's sum": lambda logits, blank: logits - np.logaddexp.reduce(
        logits[..., 1:], axis=-1, keepdims=True),
    "the last symbol is left out of the softmax's sum": lambda logits, blank: logits - np.logaddexp.reduce(
        logits[..., :-1], axis=-1, keepdims=True),
    **{f"an epsilon of {eps:.0e} is added inside the logarithm: log(p + {eps:.0e})":
       lambda logits, blank, eps=eps: np.log(softmax(logits) + eps)
       for eps in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)},
    **{f"probabilities are clipped from below at {eps:.0e}, a floor":
       lambda logits, blank, eps=eps: np.log(np.maximum(softmax(logits), eps))
       for eps in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)},
    **{f"log-probs are clipped from below at -{at:g}, a floor":
       lambda logits, blank, at=at: np.maximum(log_softmax(logits), -at) for at in (1, 2, 3, 5, 10, 20, 30, 50, 100)},
    **{f"logits are clipped to [-{at:g}, {at:g}]":
       lambda logits, blank, at=at: log_softmax(np.clip(logits, -at, at)) for at in (1, 2, 3, 5, 10, 20, 50, 100)},
    **{f"probabilities are smoothed with the uniform distribution by {share:g} (label smoothing)": smoothed(share)
       for share in (0.01, 0.05, 0.1, 0.2)},
    **{f"the {what} of the blank has {value:+g} added (a blank penalty or bias)":
       column_changed(np.add, blank=True, softmax=what == "logit")(value)
       for what in ("log-prob", "logit") for value in (-5.0, -2.0, -1.0, -0.5, -0.1, 0.1, 0.5, 1.0, 2.0)},
    "logits are rounded to half precision (float16)": lambda logits, blank: log_softmax(rounded(logits, 11)),
    "logits are rounded to bfloat16": lambda logits, blank: log_softmax(rounded(logits, 8)),
    "log-probs are rounded to half precision (float16)": lambda logits, blank: rounded(log_softmax(logits), 11),
    "log-probs are rounded to bfloat16": lambda logits, blank: rounded(log_softmax(logits), 8),
    "log-probs are rounded to whole numbers (an array of int)": lambda logits, blank: np.trunc(log_softmax(logits)),
    "logits are rounded to whole numbers (an array of int)": lambda logits, blank: log_softmax(np.trunc(logits)),
    "exp underflows, as a maximum other than the row's is subtracted (one maximum of the whole array)":
        lambda logits, blank: _with_maximum(logits, None),
    "exp underflows, as one maximum of the whole array is subtracted, and what underflows is left unnormalised":
        lambda logits, blank: _with_one_maximum(logits),
    "exp underflows, as a maximum other than the row's is subtracted (one maximum of each symbol over the frames)":
        lambda logits, blank: _with_maximum(logits, 0),
    "exp underflows, as the minimum of the row is subtracted, not the maximum": lambda logits, blank: np.log(
        np.exp(logits - logits.min(-1, keepdims=True)) / np.exp(logits - logits.min(-1, keepdims=True)).sum(
            -1, keepdims=True)),
    "exp of logits is taken as it is: it underflows for very small logits, and overflows for large ones":
        lambda logits, blank: np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)),
    "a mask of -inf is read as 0": lambda logits, blank: log_softmax(np.where(np.isinf(logits), 0.0, logits)),
}


def _with_maximum(logits, axis):
    found = np.exp(logits - logits.max(axis=axis, keepdims=axis is not None))
    total = found.sum(-1, keepdims=True)
    return np.log(found / np.where(total > 0, total, 1.0))


def _with_one_maximum(logits):
    shifted = logits - np.where(np.isfinite(logits.max()), logits.max(), 0.0)
    total = np.log(np.exp(shifted).sum(-1, keepdims=True))
    return shifted - np.where(np.isfinite(total), total, 0.0)


# --- targets and frames ---


def _targets(made):
    """Other targets: ``made(targets, blank, V)``; RNN-T's last rows go if there are fewer of them."""
    def change(one):
        targets = np.asarray(made(one.targets, one.blank, one.logits.shape[-1]), dtype=np.int64)
        if np.array_equal(targets, one.targets):
            raise ValueError("the same targets")
        place = (slice(None),) if one.loss == "ctc" else (slice(None), slice(len(targets) + 1))
        if one.loss == "rnnt" and len(targets) > len(one.targets):
            raise ValueError("too few rows")
        return Problem(one.group, one.name, one.logits[place], targets, one.blank), _put(place)
    return change


def _put(place):
    def back(gradient, shape):
        found = np.zeros(shape)
        found[place] = gradient
        return found
    return back


def _frames(place):
    """Some of the frames, or all in another order."""
    def change(one):
        chosen = np.arange(len(one.logits))[place]
        if not len(chosen):
            raise ValueError("no frame is left")
        return Problem(one.group, one.name, one.logits[chosen], one.targets, one.blank), _put((chosen,))
    return change


def _indexed(axis, made):
    """Frames, rows or symbols read by other indices: ``made(their number)``; what stands twice adds up."""
    def change(one):
        if axis == 1 and one.loss == "ctc":
            raise ValueError("no rows")
        indices = made(one.logits.shape[axis])

        def back(gradient, shape):
            found = np.zeros(shape)
            np.add.at(np.moveaxis(found, axis, 0), indices, np.moveaxis(gradient, axis, 0))
            return found
        return Problem(one.group, one.name, np.take(one.logits, indices, axis=axis), one.targets, one.blank), back
    return change


def _blank(made):
    def change(one):
        blank = made(one)
        if blank == one.blank or not 0 <= blank < one.logits.shape[-1]:
            raise ValueError("the same blank")
        return Problem(one.group, one.name, one.logits, one.targets, blank), _put(())
    return change


def _merged(targets):
    return [k for k, _ in itertools.groupby(targets.tolist())]


#: By the sentence that names it, another utterance in the place of an utterance, and where its gradient goes.
UTTERANCES: dict[str, Callable] = {
    "the targets are reversed": _targets(lambda y, blank, V: y[::-1]),
    "the first label is dropped, as if it were a start symbol": _targets(lambda y, blank, V: y[1:]),
    "the last label is dropped (a loop that ends too early)": _targets(lambda y, blank, V: y[:-1]),
    "equal neighbours in the target are merged (repeats collapsed)": _targets(lambda y, blank, V: _merged(y)),
    "every repeated label is dropped (a set of labels)": _targets(lambda y, blank, V: list(dict.fromkeys(y.tolist()))),
    "the targets are sorted": _targets(lambda y, blank, V: np.sort(y)),
    "labels 0 are dropped, as if they were padding": _targets(lambda y, blank, V: y[y != 0]),
    "the target ends at the first label 0, as if it were padding":
        _targets(lambda y, blank, V: y[:np.argmax(y == 0)] if (y == 0).any() else y),
    "the targets are shifted by one place, and wrap around (np.roll by 1)": _targets(lambda y, blank, V: np.roll(y, 1)),
    "the targets are shifted by one place, and wrap around (np.roll by -1)":
        _targets(lambda y, blank, V: np.roll(y, -1)),
    "the labels are one too large (label + 1)": _targets(lambda y, blank, V: (y + 1) % V),
    "the labels are one too small (label - 1), and index -1 wraps around": _targets(lambda y, blank, V: (y - 1) % V),
    "labels are stored in 8 bits without a sign (uint8): label mod 256": _targets(lambda y, blank, V: y % 256),
    "labels are stored in 8 bits with a sign (int8): label 200 is -56, an index from the end": _targets(
        lambda y, blank, V: y.astype(np.int8).astype(int) % V),
    "labels are stored in 8 bits, and cut off at 255": _targets(lambda y, blank, V: np.minimum(y, 255)),
    "labels are stored in 8 bits, and cut off at 127": _targets(lambda y, blank, V: np.minimum(y, 127)),
    "labels are stored in 7 bits: label mod 128": _targets(lambda y, blank, V: y % 128),
    "all labels are the first one": _targets(lambda y, blank, V: y[:1].repeat(len(y))),
    "all labels are the last one": _targets(lambda y, blank, V: y[-1:].repeat(len(y))),
    "every second label is left out": _targets(lambda y, blank, V: y[::2]),
    "only the first label counts": _targets(lambda y, blank, V: y[:1]),
    "at most as many labels count as there are symbols": _targets(lambda y, blank, V: y[:V]),
    **{f"at most {most} labels count (a fixed limit)": _targets(lambda y, blank, V, most=most: y[:most])
       for most in (2, 3, 4, 8, 10)},
    "the last label is in it twice": _targets(lambda y, blank, V: np.append(y, y[-1:])),
    "the first label is in it twice": _targets(lambda y, blank, V: np.append(y[:1], y)),
    "the target is empty": _targets(lambda y, blank, V: y[:0]),
    "the last frame is left out (T - 1 for T)": _frames(slice(None, -1)),
    "the first frame is left out (a loop that begins at 1)": _frames(slice(1, None)),
    "the first and the last frame are left out": _frames(slice(1, -1)),
    "every second frame is left out": _frames(slice(None, None, 2)),
    "the frames are reversed (time reversed)": _frames(slice(None, None, -1)),
    **{f"at most {most} frames count (a fixed limit)": _frames(slice(most)) for most in (2, 3, 4, 5, 8, 10, 16, 32)},
    "the frames are shifted by one (t + 1 for t), and wrap around": _indexed(0, lambda n: (np.arange(n) + 1) % n),
    "the frames are shifted by one (t - 1 for t), and index -1 wraps around":
        _indexed(0, lambda n: (np.arange(n) - 1) % n),
    "the frames are shifted by one (t + 1 for t), and the last stands twice":
        _indexed(0, lambda n: np.minimum(np.arange(n) + 1, n - 1)),
    "the frames are shifted by one (t - 1 for t), and the first stands twice":
        _indexed(0, lambda n: np.maximum(np.arange(n) - 1, 0)),
    "the last frame stands twice": _indexed(0, lambda n: np.append(np.arange(n), n - 1)),
    "the first frame stands twice": _indexed(0, lambda n: np.append(0, np.arange(n))),
    "the rows are reversed": _indexed(1, lambda n: np.arange(n)[::-1]),
    "the rows are shifted by one (u + 1 for u), and wrap around": _indexed(1, lambda n: (np.arange(n) + 1) % n),
    "the rows are shifted by one (u - 1 for u), and index -1 wraps around":
        _indexed(1, lambda n: (np.arange(n) - 1) % n),
    "the rows are shifted by one (u + 1 for u), and the last stands twice":
        _indexed(1, lambda n: np.minimum(np.arange(n) + 1, n - 1)),
    "the rows are shifted by one (u - 1 for u), and the first stands twice":
        _indexed(1, lambda n: np.maximum(np.arange(n) - 1, 0)),
    "every row is the first: the labels emitted so far are ignored": _indexed(1, lambda n: np.zeros(n, int)),
    "every row is the last": _indexed(1, lambda n: np.full(n, n - 1)),
    "every frame is the first: t is ignored": _indexed(0, lambda n: np.zeros(n, int)),
    "the symbols are reversed": _indexed(-1, lambda n: np.arange(n)[::-1]),
    "the symbols are shifted by one (k + 1 for k)": _indexed(-1, lambda n: (np.arange(n) + 1) % n),
    "the symbols are shifted by one (k - 1 for k)": _indexed(-1, lambda n: (np.arange(n) - 1) % n),
    "the blank is taken to be symbol 0 (hard-coded)": _blank(lambda one: 0),
    "the blank is taken to be the last symbol, V - 1 (hard-coded)": _blank(lambda one: one.logits.shape[-1] - 1),
    "the blank is taken to be the symbol after it (blank + 1)": _blank(lambda one: one.blank + 1),
    "the blank is taken to be the symbol before it (blank - 1)": _blank(lambda one: one.blank - 1),
}


# --- special cases ---


def _shortest(one):
    """Frames that CTC needs."""
    return len(one.targets) + int((one.targets[1:] == one.targets[:-1]).sum())


#: By the sentence that names it, which utterances are special, what their loss is, and whether their gradient is 0.
SPECIAL = {
    f"{which} is {said}": (holds, value)
    for (which, holds), (said, value) in itertools.product({
        "an utterance with an empty target (U = 0)": lambda one: len(one.targets) == 0,
        "an utterance of one frame (T = 1)": lambda one: len(one.logits) == 1,
        "an utterance of one frame and an empty target": lambda one: len(one.logits) == 1 and not len(one.targets),
        "an utterance with as many frames as labels (T = U)": lambda one: len(one.logits) == len(one.targets),
        "an utterance with no more frames than labels (T <= U)": lambda one: len(one.logits) <= len(one.targets),
        "an utterance with fewer frames than labels (T < U)": lambda one: len(one.logits) < len(one.targets),
        "an utterance with equal neighbours among its labels": lambda one: _shortest(one) > len(one.targets),
        "an utterance with a label 0": lambda one: 0 in one.targets,
        "an utterance with a masked score (-inf)": lambda one: bool(np.isinf(one.logits).any()),
        "an utterance of one label (U = 1)": lambda one: len(one.targets) == 1,
    }.items(), {"given a loss of 0 and no gradient": 0.0,
                "treated as if it had no alignment: a loss of inf, or no gradient": np.inf}.items())
}

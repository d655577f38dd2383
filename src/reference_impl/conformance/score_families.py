"""Families of mistakes outside the recursions: in scores, targets, frames, and in what is made of a right gradient.

They are the same for CTC and RNN-T. Which of loss and gradient has the mistake is up to `families.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._softmax import log_softmax
from .conventions import LOSSES
from .problem import Problem

__all__ = ["GRADIENTS", "LOSS_VALUES", "SCORES", "SPECIAL", "UTTERANCES", "Parts"]


def _normalised(scores, axis):
    if scores.ndim == 2 and np.any(np.equal(axis, -2)):
        raise ValueError("no rows")
    return scores - np.logaddexp.reduce(scores, axis=axis, keepdims=True)


def _probs(logits):
    return np.exp(log_softmax(logits))


def _bits(logits, kept):
    """Rounded to so many bits of a mantissa."""
    mantissa, exponent = np.frexp(logits)
    return np.where(np.isfinite(logits), np.ldexp(np.round(mantissa * 2.0**kept), exponent - kept), logits)


def _blank_plus(value):
    def made(logits, blank):
        found = log_softmax(logits)
        found[..., blank] += value
        return found
    return made


def _blank_logit_plus(value):
    def made(logits, blank):
        found = np.array(logits, dtype=float)
        found[..., blank] += value
        return log_softmax(found)
    return made


def _smoothed(share):
    return lambda logits, blank: np.log((1 - share) * _probs(logits) + share / logits.shape[-1])


#: By the sentence that names it, log-probs from logits and the blank.
SCORES = {
    "softmax is taken over the frames, not over the symbols (the wrong axis)":
        lambda logits, blank: _normalised(logits, 0),
    "softmax is taken over the rows, not over the symbols (the wrong axis)":
        lambda logits, blank: _normalised(logits, -2),
    "softmax is taken over frames and symbols together, not over the symbols of each frame (the wrong axis)":
        lambda logits, blank: _normalised(logits, (0, logits.ndim - 1)),
    "softmax is taken over rows and symbols together, not over the symbols of each node (the wrong axis)":
        lambda logits, blank: _normalised(logits, (-2, -1)),
    "softmax is taken over the whole array (utterance), not over the symbols of each row (the wrong axis)":
        lambda logits, blank: _normalised(logits, None),
    "softmax is taken twice": lambda logits, blank: log_softmax(_probs(logits)),
    "softmax is taken, and no logarithm: probabilities stand where log-probs belong":
        lambda logits, blank: _probs(logits),
    "a sigmoid of each logit is taken, not the softmax": lambda logits, blank: -np.logaddexp(0.0, -logits),
    "the logits are divided by the square root of V (a temperature)":
        lambda logits, blank: log_softmax(logits / np.sqrt(logits.shape[-1])),
    **{f"the logits are multiplied by {by:g} before the softmax (a temperature of {1 / by:g})":
       lambda logits, blank, by=by: log_softmax(by * logits) for by in (
           0.1, 0.2, 0.25, 0.5, 1 / 1.5, 0.7, 0.8, 0.9, 1.1, 1.2, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 10.0)},
    **{f"the log-probs are multiplied by {by:g} after the softmax (a scale, as for acoustic scores)":
       lambda logits, blank, by=by: by * log_softmax(logits) for by in (
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
       lambda logits, blank, eps=eps: np.log(_probs(logits) + eps)
       for eps in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)},
    **{f"probabilities are clipped from below at {eps:.0e}, a floor":
       lambda logits, blank, eps=eps: np.log(np.maximum(_probs(logits), eps))
       for eps in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)},
    **{f"log-probs are clipped from below at -{at:g}, a floor":
       lambda logits, blank, at=at: np.maximum(log_softmax(logits), -at) for at in (1, 2, 3, 5, 10, 20, 30, 50, 100)},
    **{f"logits are clipped to [-{at:g}, {at:g}]":
       lambda logits, blank, at=at: log_softmax(np.clip(logits, -at, at)) for at in (1, 2, 3, 5, 10, 20, 50, 100)},
    **{f"probabilities are smoothed with the uniform distribution by {share:g} (label smoothing)": _smoothed(share)
       for share in (0.01, 0.05, 0.1, 0.2)},
    **{f"the log-prob of the blank has {value:+g} added (a blank penalty or bias)": _blank_plus(value)
       for value in (-5.0, -2.0, -1.0, -0.5, -0.1, 0.1, 0.5, 1.0, 2.0)},
    **{f"the logit of the blank has {value:+g} added (a blank penalty or bias)": _blank_logit_plus(value)
       for value in (-5.0, -2.0, -1.0, -0.5, -0.1, 0.1, 0.5, 1.0, 2.0)},
    "logits are rounded to half precision (float16)": lambda logits, blank: log_softmax(_bits(logits, 11)),
    "logits are rounded to bfloat16": lambda logits, blank: log_softmax(_bits(logits, 8)),
    "log-probs are rounded to half precision (float16)": lambda logits, blank: _bits(log_softmax(logits), 11),
    "log-probs are rounded to bfloat16": lambda logits, blank: _bits(log_softmax(logits), 8),
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
    }.items(), {"said to have a loss of 0 and no gradient": 0.0,
                "said to have no alignment: a loss of inf, or no gradient": np.inf}.items())
}


# --- what is made of a right loss or gradient ---


@dataclass(frozen=True)
class Parts:
    """What a right gradient is made of, for mistakes in putting it together; ``used`` are the occupancies."""

    one: Problem
    loss: float
    log_probs: np.ndarray
    used: np.ndarray
    variable: str

    @property
    def probs(self):
        return np.exp(self.log_probs)

    @property
    def softmax(self):
        return self.probs * self.used.sum(-1, keepdims=True)

    @property
    def right(self):
        return (self.softmax if self.variable == "logits" else 0.0) - self.used

    @property
    def labels(self):
        """The occupancies without those of the blank."""
        found = self.used.copy()
        found[..., self.one.blank] = 0.0
        return found

    @property
    def blanks(self):
        return self.used - self.labels

    @property
    def softmax_or_none(self):
        return self.softmax if self.variable == "logits" else 0.0 * self.used

    @property
    def entries(self):
        """Where the blank and the labels have an occupancy, zero or not."""
        found = np.zeros(self.used.shape, bool)
        found[..., self.one.blank] = True
        if self.one.loss == "ctc":
            found[:, self.one.targets] = True
        else:
            found[:, np.arange(len(self.one.targets)), self.one.targets] = True
        return found


def _zero(place):
    def made(p):
        found = p.right.copy()
        found[place(p)] = 0.0
        return found
    return made


def _shifted(axis, by, wrap):
    def made(p):
        if axis == 1 and p.one.loss == "ctc":
            raise ValueError("no rows")
        found = np.roll(p.right, by, axis=axis)
        if not wrap:
            np.moveaxis(found, axis, 0)[slice(by) if by > 0 else slice(by, None)] = 0.0
        return found
    return made


def _of_terms(softmax, blanks, labels):
    """Multiples of the three terms."""
    def made(p):
        if p.variable == "log_probs" and not softmax:
            raise ValueError("no softmax term")
        return softmax * p.softmax_or_none + blanks * p.blanks + labels * p.labels
    return made


def _softmax_is(made):
    """Another softmax term."""
    def found(p):
        if p.variable == "log_probs":
            raise ValueError("no softmax term")
        return made(p) - p.used
    return found


def _times(made):
    return lambda p: p.right * made(p)


def _only_symbols(p):
    return np.where(p.entries, p.softmax_or_none, 0.0) - p.used


def _size(p):
    return {"T": len(p.one.logits), "U": max(len(p.one.targets), 1), "V": p.used.shape[-1]}


def _row(p, u):
    if p.one.loss == "ctc":
        raise ValueError("no rows")
    return slice(None), u


_END = (slice(-1, None), Ellipsis)
#: By the sentence that names it, a wrong gradient from the :class:`Parts` of the right one.
GRADIENTS = {
    # terms
    "the labels' posteriors have the wrong sign": _of_terms(1, -1, 1),
    "the blanks' posteriors have the wrong sign": _of_terms(1, 1, -1),
    "the softmax term has the wrong sign": _of_terms(-1, -1, -1),
    "the posteriors have the wrong sign": _of_terms(1, 1, 1),
    "the labels' posteriors are missing": _of_terms(1, -1, 0),
    "the blanks' posteriors are missing": _of_terms(1, 0, -1),
    "the softmax term is in it twice": _of_terms(2, -1, -1),
    "the posteriors are in it twice": _of_terms(1, -2, -2),
    "the labels' posteriors are in it twice": _of_terms(1, -1, -2),
    "the blanks' posteriors are in it twice": _of_terms(1, -2, -1),
    "the softmax term has a factor 1/2": _of_terms(0.5, -1, -1),
    "the posteriors have a factor 1/2": _of_terms(1, -0.5, -0.5),
    "the softmax term is missing where a symbol is neither the blank nor a label of the target": _only_symbols,
    "the softmax term is missing at the blank and the labels of the target":
        lambda p: np.where(p.entries, 0.0, p.softmax_or_none) - p.used,
    "the softmax term is missing at the blank": lambda p: p.softmax_or_none * (
        np.arange(p.used.shape[-1]) != p.one.blank) - p.used,
    # the softmax in it
    "the log-probs stand where the softmax belongs": _softmax_is(lambda p: p.log_probs * p.used.sum(-1, keepdims=True)),
    "the logits stand where the softmax belongs (a softmax is missing)":
        _softmax_is(lambda p: p.one.logits * p.used.sum(-1, keepdims=True)),
    "exp of the logits stands where the softmax belongs (it is not normalised)":
        _softmax_is(lambda p: np.exp(p.one.logits) * p.used.sum(-1, keepdims=True)),
    "the softmax in the gradient is taken twice":
        _softmax_is(lambda p: _probs(p.probs) * p.used.sum(-1, keepdims=True)),
    "the softmax in the gradient is taken over the frames (the wrong axis)":
        _softmax_is(lambda p: np.exp(_normalised(p.one.logits, 0)) * p.used.sum(-1, keepdims=True)),
    "the softmax in the gradient is taken over the rows (the wrong axis)":
        _softmax_is(lambda p: np.exp(_normalised(p.one.logits, -2)) * p.used.sum(-1, keepdims=True)),
    "the softmax in the gradient is taken over the whole array (the wrong axis)":
        _softmax_is(lambda p: np.exp(_normalised(p.one.logits, None)) * p.used.sum(-1, keepdims=True)),
    "a sigmoid stands where the softmax belongs in the gradient":
        _softmax_is(lambda p: 1 / (1 + np.exp(-p.one.logits)) * p.used.sum(-1, keepdims=True)),
    "the uniform distribution stands where the softmax belongs in the gradient":
        _softmax_is(lambda p: np.full(p.used.shape, 1 / p.used.shape[-1]) * p.used.sum(-1, keepdims=True)),
    "1 stands where the softmax belongs in the gradient": _softmax_is(lambda p: 0 * p.used + p.used.sum(
        -1, keepdims=True)),
    "the softmax of the frame after stands in the softmax term (t + 1 for t)": _softmax_is(
        lambda p: np.roll(p.probs, -1, axis=0) * p.used.sum(-1, keepdims=True)),
    "the softmax of the frame before stands in the softmax term (t - 1 for t)": _softmax_is(
        lambda p: np.roll(p.probs, 1, axis=0) * p.used.sum(-1, keepdims=True)),
    "the softmax term has a sum over the frames in it": _softmax_is(lambda p: p.probs * p.used.sum(
        (0, p.used.ndim - 1), keepdims=True)),
    "the softmax term has a mean over the symbols for their sum": _softmax_is(
        lambda p: p.probs * p.used.mean(-1, keepdims=True)),
    "the Jacobian of softmax has its diagonal only: y (1 - y), not y_i (delta_ij - y_j)":
        lambda p: -p.used * (1 - p.probs),
    "the Jacobian of softmax is applied twice": lambda p: p.right - p.probs * p.right.sum(-1, keepdims=True)
        if p.variable == "log_probs" else p.probs * (p.right - (p.probs * p.right).sum(-1, keepdims=True)),
    "the gradient is multiplied by the probabilities once more (with respect to logits by way of probabilities)":
        lambda p: p.right * p.probs,
    "the gradient is divided by the probabilities (with respect to the probabilities)": lambda p: np.where(
        p.probs > 0, p.right / p.probs, 0.0),
    "it is the gradient with respect to the probabilities, - occupancy / y": lambda p: np.where(
        p.probs > 0, -p.used / p.probs, 0.0),
    # places
    "the gradient of the last frame is 0 (a loop that ends too early)": _zero(lambda p: _END),
    "the gradient of the first frame is 0 (a loop that begins at 1)": _zero(lambda p: (0,)),
    "the gradient of the last row is 0 (a loop that ends too early)": _zero(lambda p: _row(p, -1)),
    "the gradient of the first row is 0": _zero(lambda p: _row(p, 0)),
    "the gradient of the blank is 0": _zero(lambda p: (Ellipsis, p.one.blank)),
    "the gradient of symbol 0 is 0": _zero(lambda p: (Ellipsis, 0)),
    "the gradient of the last symbol is 0 (a loop that ends too early)": _zero(lambda p: (Ellipsis, -1)),
    "the gradient of the labels is 0": _zero(lambda p: p.entries & (np.arange(p.used.shape[-1]) != p.one.blank)),
    "the gradient of symbols that are neither the blank nor a label is 0": _zero(lambda p: ~p.entries),
    "the gradient is 0 everywhere": lambda p: 0 * p.right,
    **{f"the gradient is shifted by one {what} (off by one: {said}){', and wraps around' if wrap else ''}":
       _shifted(axis, by, wrap)
       for (what, axis, letter), by, wrap in itertools.product(
           (("frame", 0, "t"), ("row", 1, "u"), ("symbol", -1, "k")), (1, -1), (True, False))
       for said in [f"{letter} {'+' if by > 0 else '-'} 1 for {letter}"]},
    "the frames of the gradient are reversed (time not flipped back)": lambda p: p.right[::-1],
    "the rows of the gradient are reversed": lambda p: p.right[:, ::-1] if p.one.loss == "rnnt" else None,
    "the symbols of the gradient are reversed": lambda p: p.right[..., ::-1],
    "the frames of the posteriors are reversed (time not flipped back), those of the softmax are not":
        lambda p: p.softmax_or_none - p.used[::-1],
    "the posteriors are shifted by one frame (t + 1 for t), the softmax is not":
        lambda p: p.softmax_or_none - np.concatenate([p.used[1:], 0 * p.used[:1]]),
    "the posteriors are shifted by one frame (t - 1 for t), the softmax is not":
        lambda p: p.softmax_or_none - np.concatenate([0 * p.used[:1], p.used[:-1]]),
    "the columns of blank and symbol 0 are exchanged": lambda p: _exchanged(p, 0),
    "the columns of blank and the last symbol are exchanged": lambda p: _exchanged(p, -1),
    # factors
    "the gradient is multiplied by the loss, as of half the loss squared": _times(lambda p: p.loss),
    "the gradient is multiplied by twice the loss, as of the loss squared": _times(lambda p: 2 * p.loss),
    "the gradient is divided by the loss, as of its logarithm": _times(lambda p: 1 / p.loss),
    "the gradient is multiplied by Z: it is that of -Z, not of -log Z": _times(lambda p: np.exp(-p.loss)),
    "the gradient is divided by Z": _times(lambda p: np.exp(p.loss)),
    "the gradient is multiplied by 1 - Z, as a focal loss has it": _times(lambda p: 1 - np.exp(-p.loss)),
    "the gradient is multiplied by the number of frames": _times(lambda p: _size(p)["T"]),
    "the gradient is multiplied by the number of labels": _times(lambda p: _size(p)["U"]),
    "the gradient is multiplied by the number of symbols": _times(lambda p: _size(p)["V"]),
    "the gradient is divided by the number of symbols": _times(lambda p: 1 / _size(p)["V"]),
    "the gradient is divided by the number of its entries, as by a mean over all of them":
        _times(lambda p: 1 / p.used.size),
    "the gradient is divided by frames and symbols, T V": _times(lambda p: 1 / (_size(p)["T"] * _size(p)["V"])),
    "the gradient is divided by the number of states, 2 U + 1": _times(lambda p: 1 / (2 * len(p.one.targets) + 1)),
    "the gradient is divided by the square of the number of frames": _times(lambda p: 1 / _size(p)["T"] ** 2),
    "the gradient is divided by the square root of the number of frames": _times(lambda p: _size(p)["T"] ** -0.5),
    "the gradient is divided by its norm": _times(lambda p: 1 / np.sqrt((p.right**2).sum())),
    "the gradient is clipped to a norm of 1": _times(lambda p: min(1.0, 1 / np.sqrt((p.right**2).sum()))),
    "the gradient is divided by its largest entry": _times(lambda p: 1 / np.abs(p.right).max()),
    "the gradient is divided by the number of frames in the softmax term only":
        lambda p: p.softmax_or_none / _size(p)["T"] - p.used,
    "the gradient is divided by the number of frames in the posteriors only":
        lambda p: p.softmax_or_none - p.used / _size(p)["T"],
    # values
    "only the sign of the gradient is returned": lambda p: np.sign(p.right),
    "the gradient is squared": lambda p: p.right**2,
    "the gradient loses its sign: the absolute value is returned": lambda p: np.abs(p.right),
    "negative entries of the gradient are 0": lambda p: np.maximum(p.right, 0.0),
    "positive entries of the gradient are 0": lambda p: np.minimum(p.right, 0.0),
    "the mean of each row is subtracted from the gradient": lambda p: p.right - p.right.mean(-1, keepdims=True),
    "the gradient is summed over the frames so far (a cumulative sum)": lambda p: np.cumsum(p.right, axis=0),
    "the gradient is the same in all frames: their sum": lambda p: np.broadcast_to(p.right.sum(0), p.right.shape),
    "the gradient is the same in all frames: their mean": lambda p: np.broadcast_to(p.right.mean(0), p.right.shape),
    "small entries of the gradient are 0 (below 1e-3)": lambda p: np.where(np.abs(p.right) < 1e-3, 0.0, p.right),
    "small entries of the gradient are 0 (below 1e-2)": lambda p: np.where(np.abs(p.right) < 1e-2, 0.0, p.right),
    "frames and rows of the gradient are exchanged (transposed)": lambda p: np.swapaxes(p.right, 0, 1)
        if p.one.loss == "rnnt" and p.right.shape[0] == p.right.shape[1] else None,
    **{f"posteriors below {at:g} are taken for 0 (pruned)": lambda p, at=at: p.softmax_or_none - np.where(
        p.used < at, 0.0, p.used) for at in (1e-1, 1e-2, 1e-3, 1e-4)},
}


def _exchanged(p, other):
    found = p.right.copy()
    found[..., [p.one.blank, other]] = found[..., [other, p.one.blank]]
    return found


#: By the sentence that names it, a wrong loss from the :class:`Parts`.
LOSS_VALUES = {
    "it is the probability Z, not minus its logarithm": lambda p: np.exp(-p.loss),
    "it is 1 - Z, not minus the logarithm of Z": lambda p: 1 - np.exp(-p.loss),
    "it is 1 / Z, the perplexity, not its logarithm": lambda p: np.exp(p.loss),
    "it is squared": lambda p: p.loss**2,
    "its square root is returned": lambda p: np.sqrt(p.loss),
    "it is divided by the number of symbols": lambda p: p.loss / p.used.shape[-1],
    "it is divided by the number of states, 2 U + 1": lambda p: p.loss / (2 * len(p.one.targets) + 1),
    "it is divided by the square root of the number of frames": lambda p: p.loss / np.sqrt(len(p.one.logits)),
    "it is divided by the square of the number of frames": lambda p: p.loss / len(p.one.logits) ** 2,
    "it is the mean per entry: divided by T V": lambda p: p.loss / (len(p.one.logits) * p.used.shape[-1]),
    "it is multiplied by the number of frames": lambda p: p.loss * len(p.one.logits),
    "it is multiplied by the number of labels": lambda p: p.loss * len(p.one.targets),
    "it is cut off to a whole number": lambda p: np.trunc(p.loss),
    "it is rounded to half precision (float16)": lambda p: _bits(np.array(p.loss), 11),
    "it is rounded to bfloat16": lambda p: _bits(np.array(p.loss), 8),
    "the log-probs of all labels are added to it": lambda p: p.loss - (p.used * np.where(
        np.isfinite(p.log_probs), p.log_probs, 0.0)).sum(),
    "it is the cross-entropy of the posteriors, not -log Z": lambda p: -(p.used * np.where(
        np.isfinite(p.log_probs), p.log_probs, 0.0)).sum(),
    "it has a term focal (1 - Z) in front": lambda p: (1 - np.exp(-p.loss)) * p.loss,
    **{f"it is cut off at {at:g}": lambda p, at=at: min(p.loss, at) for at in (1.0, 5.0, 10.0, 20.0, 50.0, 100.0)},
    **{f"{value:g} is added to it": lambda p, value=value: p.loss + value for value in (-1.0, 1.0)},
    "log V is added to it": lambda p: p.loss + np.log(p.used.shape[-1]),
    "log T is added to it: an average over the frames": lambda p: p.loss + np.log(len(p.one.logits)),
    "log T is subtracted from it: Z is summed over the frames, T times too large":
        lambda p: p.loss - np.log(len(p.one.logits)),
    "log 2 is subtracted from it: something is counted twice": lambda p: p.loss - np.log(2),
    "log 2 is added to it: a factor 1/2 in Z": lambda p: p.loss + np.log(2),
    "it is the loss per label and frame": lambda p: p.loss / (len(p.one.logits) * max(len(p.one.targets), 1)),
}


def right_parts(one, variable) -> Parts:
    """The parts of the right gradient of one utterance."""
    log_probs = log_softmax(one.logits)
    module = LOSSES[one.loss]
    return Parts(one, module.loss(log_probs, one.targets, blank=one.blank), log_probs,
                 module.occupancy(log_probs, one.targets, blank=one.blank), variable)

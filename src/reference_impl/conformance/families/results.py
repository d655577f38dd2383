"""Families of mistakes in what is made of right posteriors, a right gradient or a right loss.

They are the same for CTC and RNN-T.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ..._softmax import log_softmax
from ..problem import LOSSES, Problem
from .inputs import normalised, rounded, softmax

__all__ = ["GRADIENTS", "LOSS_VALUES", "Parts", "right_parts"]


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
        return self.softmax_or_none - self.used

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
        return self.one.entries()


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
        _softmax_is(lambda p: softmax(p.probs) * p.used.sum(-1, keepdims=True)),
    "the softmax in the gradient is taken over the frames (the wrong axis)":
        _softmax_is(lambda p: np.exp(normalised(p.one.logits, 0)) * p.used.sum(-1, keepdims=True)),
    "the softmax in the gradient is taken over the rows (the wrong axis)":
        _softmax_is(lambda p: np.exp(normalised(p.one.logits, -2)) * p.used.sum(-1, keepdims=True)),
    "the softmax in the gradient is taken over the whole array (the wrong axis)":
        _softmax_is(lambda p: np.exp(normalised(p.one.logits, None)) * p.used.sum(-1, keepdims=True)),
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
    "the softmax term has a mean over the symbols in place of their sum": _softmax_is(
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
    "the gradient is multiplied by the loss, like that of half the loss squared": _times(lambda p: p.loss),
    "the gradient is multiplied by twice the loss, like that of the loss squared": _times(lambda p: 2 * p.loss),
    "the gradient is divided by the loss, like that of its logarithm": _times(lambda p: 1 / p.loss),
    "the gradient is multiplied by Z: it is that of -Z, not of -log Z": _times(lambda p: np.exp(-p.loss)),
    "the gradient is divided by Z": _times(lambda p: np.exp(p.loss)),
    "the gradient is multiplied by 1 - Z, as in a focal loss": _times(lambda p: 1 - np.exp(-p.loss)),
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
    "it is truncated to a whole number": lambda p: np.trunc(p.loss),
    "it is rounded to half precision (float16)": lambda p: rounded(np.array(p.loss), 11),
    "it is rounded to bfloat16": lambda p: rounded(np.array(p.loss), 8),
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

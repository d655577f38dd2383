"""Families of mistakes with a number in them: a temperature, a bias, a bound. The number is fitted to one answer.

Whether a fitted number is believed is up to `explaining.py`: it has to explain the other answers, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from ..._softmax import log_softmax
from ..problem import LOSSES
from .inputs import column_changed, scores_changed, smoothed
from .results import right_parts
from .shared import BOTH, GRADIENT, LOSS

__all__ = ["FITTED", "fitted", "parsed"]

_FACTORS = np.concatenate([-np.geomspace(30, 1 / 30, 12), np.geomspace(1 / 30, 30, 40)])
_POSITIVE = np.geomspace(1 / 30, 30, 40)
_BIASES = np.concatenate([-np.geomspace(50, 0.01, 25), np.geomspace(0.01, 50, 25)])
_BOUNDS = np.geomspace(0.02, 800, 60)
_SMALL = np.geomspace(1e-30, 0.5, 60)
_SHARES = np.concatenate([np.geomspace(1e-6, 0.1, 15), np.linspace(0.12, 0.98, 30)])


def _terms(change):
    return lambda value: lambda p: change(p, value)


#: By the sentence, with {} for the number: what it is a mistake in, the mistake, and where the number is sought.
FITTED: dict[str, tuple[str, Callable, np.ndarray]] = {
    "the logits are multiplied by {} before the softmax (a temperature)":
        ("scores", scores_changed(np.multiply, softmax=True), _FACTORS),
    "the log-probs are multiplied by {} after the softmax (a scale, as for acoustic scores)":
        ("scores", scores_changed(np.multiply, softmax=False), _FACTORS),
    "probabilities are smoothed with the uniform distribution by {} (label smoothing)": ("scores", smoothed, _SHARES),
    "the log-prob of the blank has {} added (a blank penalty or bias)":
        ("scores", column_changed(np.add, blank=True), _BIASES),
    "the logit of the blank has {} added (a blank penalty or bias)":
        ("scores", column_changed(np.add, blank=True, softmax=True), _BIASES),
    "the log-probs of all labels have {} added (a bonus for labels)":
        ("scores", column_changed(np.add, blank=False), _BIASES),
    "the log-prob of the blank is multiplied by {}": ("scores", column_changed(np.multiply, blank=True), _FACTORS),
    "the log-probs of all labels are multiplied by {}": ("scores", column_changed(np.multiply, blank=False), _FACTORS),
    "the logit of the blank is multiplied by {}":
        ("scores", column_changed(np.multiply, blank=True, softmax=True), _FACTORS),
    "all log-probs have {} added": ("scores", scores_changed(np.add, softmax=False), _BIASES),
    "an epsilon of {} is added inside the logarithm of probabilities: log(p + epsilon)": (
        "scores", lambda eps: lambda logits, blank: np.log(np.exp(log_softmax(logits)) + eps), _SMALL),
    "log-probs are clipped from below at -{}, a floor":
        ("scores", scores_changed(lambda w, x: np.maximum(w, -x), softmax=False), _BOUNDS),
    "log-probs are clipped from above at -{}":
        ("scores", scores_changed(lambda w, x: np.minimum(w, -x), softmax=False), _BOUNDS),
    "logits are clipped to at most {} in size": ("scores", scores_changed(lambda w, x: np.clip(w, -x, x), softmax=True),
                                                 _BOUNDS),
    "logits are clipped from above at {}": ("scores", scores_changed(np.minimum, softmax=True), _BIASES),
    "logits are clipped from below at {}": ("scores", scores_changed(np.maximum, softmax=True), _BIASES),
    # the loss
    "{} is added to it": ("loss", _terms(lambda p, x: p.loss + x), _BIASES),
    "{} times the number of frames is added to it":
        ("loss", _terms(lambda p, x: p.loss + x * len(p.one.logits)), _BIASES),
    "{} times the number of labels is added to it":
        ("loss", _terms(lambda p, x: p.loss + x * len(p.one.targets)), _BIASES),
    "it is cut off at {}, a largest loss": ("loss", _terms(lambda p, x: min(p.loss, x)), _BOUNDS),
    "it is never smaller than {}": ("loss", _terms(lambda p, x: max(p.loss, x)), _BOUNDS),
    "it is raised to the power of {}": ("loss", _terms(lambda p, x: p.loss**x), _POSITIVE),
    "it has a focal factor in front, (1 - Z) to the power of {}":
        ("loss", _terms(lambda p, x: (1 - np.exp(-p.loss)) ** x * p.loss), _POSITIVE),
    "it has {} times the entropy of the softmax added": ("loss", _terms(
        lambda p, x: p.loss + x * _entropy(p).sum()), _BIASES),
    "it has {} times the mean entropy of the softmax added": ("loss", _terms(
        lambda p, x: p.loss + x * _entropy(p).mean()), _BIASES),
    # the gradient
    "the posteriors of the labels are multiplied by {}": ("gradient", _terms(
        lambda p, x: p.softmax_or_none - p.blanks - x * p.labels), _FACTORS),
    "the posteriors of the blanks are multiplied by {}": ("gradient", _terms(
        lambda p, x: p.softmax_or_none - x * p.blanks - p.labels), _FACTORS),
    "the softmax term is multiplied by {}": ("gradient", _terms(
        lambda p, x: x * p.softmax_or_none - p.used), _FACTORS),
    "{} is added to each entry of the gradient": ("gradient", _terms(lambda p, x: p.right + x), _BIASES),
    "the gradient is cut off at a norm of {}": ("gradient", _terms(
        lambda p, x: p.right * min(1.0, x / np.sqrt((p.right**2).sum()))), _BOUNDS),
    "the gradient is multiplied by the loss to the power of {}": ("gradient", _terms(
        lambda p, x: p.right * p.loss**x), np.concatenate([-_POSITIVE[::-1], _POSITIVE])),
    "the gradient is multiplied by (1 - Z) to the power of {}, as in a focal loss": ("gradient", _terms(
        lambda p, x: p.right * (1 - np.exp(-p.loss)) ** x), _POSITIVE),
    "a decay of {} times the logits is added to the gradient": ("gradient", _terms(
        lambda p, x: p.right + x * p.one.logits), _BIASES),
    "the posteriors are cut off at {}": ("gradient", _terms(
        lambda p, x: p.softmax_or_none - np.minimum(p.used, x)), _SHARES),
    "the probabilities of the softmax term are smoothed by {}": ("gradient", _terms(
        lambda p, x: ((1 - x) * p.probs + x / p.used.shape[-1]) * p.used.sum(-1, keepdims=True) - p.used), _SHARES),
}
_WHERE = {"scores": (BOTH, LOSS), "loss": (LOSS,), "gradient": (GRADIENT,)}


def _entropy(p):
    return -(p.probs * np.where(p.probs > 0, p.log_probs, 0.0)).sum(-1)


@functools.cache
def parsed(said) -> tuple[str, Callable | None]:
    """What a sentence with a number in it is about, and the mistake with that number; ("", None) if it is none."""
    for template, (sort, made, _) in FITTED.items():
        head, tail = template.split("{}")
        if said.startswith(head) and said.endswith(tail):
            try:
                return sort, made(float(said[len(head):len(said) - len(tail)]))
            except ValueError:
                continue
    return "", None


def fitted(one, variable, field, given) -> Iterator[str]:
    """Sentences with the numbers by which a mistake would lead to what was given for an utterance.

    A loss is compared itself, and a gradient in the entry that is furthest from what is right.
    """
    parts = right_parts(one, variable)
    if not np.isfinite(given).all() or parts.loss == np.inf or np.shape(given) != (
            () if field == "loss" else one.logits.shape):
        return
    entry = () if field == "loss" else np.unravel_index(np.argmax(np.abs(given - parts.right)), np.shape(given))

    def difference(value, sort, made):
        if sort != "scores":
            return float(np.asarray(made(value)(parts))[entry] - given[entry])
        log_probs = made(value)(one.logits, one.blank)
        return float(LOSSES[one.loss].loss(log_probs, one.targets, blank=one.blank) - given)

    for template, (sort, made, between) in FITTED.items():
        if sort != field and (sort, field) != ("scores", "loss"):
            continue

        def off(value, sort=sort, made=made):
            try:
                return difference(value, sort, made)
            except (ArithmeticError, LookupError, ValueError):
                return np.nan

        for value in _roots(off, between):
            said = f"{value:.12g}"
            with np.errstate(all="ignore"):
                said = next((short for short in (f"{value:.3g}", f"{value:.6g}")
                             if abs(off(float(short))) <= 1e-9 * max(1.0, float(np.abs(given[entry])))), said)
            for where in _WHERE[sort]:
                yield f"{where}{template.format(said)}."


def _roots(function, between):
    """Where a function of one number is 0, by bisection between neighbours at which its signs differ."""
    with np.errstate(all="ignore"):
        values = np.array([function(x) for x in between])
        for i in np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0):
            low, high, sign = between[i], between[i + 1], np.sign(values[i])
            for _ in range(60):
                middle = (low + high) / 2
                if np.sign(function(middle)) == sign:
                    low = middle
                else:
                    high = middle
            yield (low + high) / 2
        yield from between[values == 0]

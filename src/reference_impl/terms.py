"""The gradients of both losses as sums of four terms, and which multiples of them somebody's gradient consists of.

Every gradient of CTC or RNN-T that a library returns is made of the same four arrays: the occupancies of the blanks and
of the labels, and softmax times either of them. With y = softmax(logits) and the posteriors gamma of blank and label
arcs, the gradient with respect to the logits is ``y gamma_blank + y gamma_label - blank - label``; that with respect to
log-probs lacks the first two; FastEmit multiplies those of the labels by 1 + lambda; a reduction multiplies all four.
So four numbers, found by least squares, tell these apart. This file knows no kernel and grades nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import ctc, rnnt
from ._softmax import log_softmax
from ._validation import check_choice

__all__ = ["TERMS", "Fit", "fitted", "loss_scaling", "softmax_multiples", "terms_of"]

#: The terms, in the order of the multiples: those of the softmax, then the occupancies, each for blanks and labels.
TERMS = ("softmax times blank posteriors", "softmax times label posteriors", "blank occupancy", "label occupancy")


def terms_of(scores, targets, *, loss="ctc", inputs="logits", blank=0) -> np.ndarray:
    """The four terms of one utterance, each of the shape of the scores.

    Parameters
    ----------
    scores : (T, V) array for CTC, (T, U+1, V) for RNN-T
    targets : (U,) ints
    loss : "ctc" | "rnnt"
    inputs : "logits" | "log_probs"
        Whether a log-softmax is applied to the scores, or they are taken as they are (nats), normalised or not.
    blank : int

    Returns
    -------
    (4, ...) float64 array
        In the order of :data:`TERMS`; all 0 where no alignment exists.

    Examples
    --------
    >>> logits = np.random.default_rng(0).normal(size=(4, 3))
    >>> terms = terms_of(logits, [1, 2])
    >>> np.allclose(terms[0] + terms[1] - terms[2] - terms[3], ctc.grad_logits(logits, [1, 2]), rtol=0, atol=1e-15)
    True
    """
    check_choice("loss", loss, ("ctc", "rnnt"))
    check_choice("inputs", inputs, ("logits", "log_probs"))
    log_probs = log_softmax(scores) if inputs == "logits" else np.asarray(scores, dtype=np.float64)
    if loss == "ctc":
        occupied = ctc.occupancy(log_probs, targets, blank=blank)
        blanks = np.zeros(occupied.shape)
        blanks[:, blank] = occupied[:, blank]
    else:
        blanks = np.zeros(log_probs.shape)
        blanks[:, :, blank], _ = rnnt.arc_posteriors(log_probs, targets, blank=blank)
        occupied = rnnt.occupancy(log_probs, targets, blank=blank)
    labels, probs = occupied - blanks, np.exp(log_probs)
    return np.stack([probs * blanks.sum(-1, keepdims=True), probs * labels.sum(-1, keepdims=True), blanks, labels])


@dataclass(frozen=True)
class Fit:
    """Multiples of the four terms; NaN for one that is 0 everywhere, as a label term without labels is."""

    multiples: np.ndarray
    #: The largest difference that is left, absolute.
    rest: float


def fitted(gradient, terms, *, entries=None) -> Fit:
    """Somebody's gradient as multiples of the four terms, by least squares.

    Parameters
    ----------
    gradient : array
        Finite numbers, of the shape of a term.
    terms : (4, ...) array
        As :func:`terms_of` returns them.
    entries : array of bool, optional
        Fit these entries only, such as those that no clamp has cut.

    Examples
    --------
    FastEmit with lambda = 0.5, where somebody divided by the three frames:

    >>> logits = np.random.default_rng(0).normal(size=(3, 2, 4))
    >>> terms = terms_of(logits, [1], loss="rnnt")
    >>> fit = fitted(rnnt.grad_logits(logits, [1], fastemit_lambda=0.5) / 3, terms)
    >>> fit.multiples.round(9).tolist(), fit.rest < 1e-12
    ([0.333333333, 0.5, -0.333333333, -0.5], True)
    """
    entries = np.ones(np.shape(gradient), dtype=bool) if entries is None else entries
    columns, wanted = terms[:, entries].T, np.asarray(gradient, dtype=np.float64)[entries]
    present = np.abs(terms).max(axis=tuple(range(1, terms.ndim)), initial=0.0) > 0
    multiples = np.full(len(terms), np.nan)
    if present.any() and len(wanted):
        multiples[present] = np.linalg.lstsq(columns[:, present], wanted)[0]
    rest = wanted - columns @ np.nan_to_num(multiples)
    return Fit(multiples, float(np.abs(rest).max(initial=0.0)))


def softmax_multiples(gradient, probs, others, tolerance):
    """What multiplies the softmax in each row of a gradient with respect to logits, read off its other symbols.

    The symbols that no arc emits have the softmax term alone, which is the softmax times the sum of the row's
    occupancies. So this number is that sum, whether the occupancies are right or not.

    Parameters
    ----------
    gradient, probs : (..., V) arrays
    others : (..., V) array of bool
        The entries whose symbols no arc emits.
    tolerance : float
        By which two numbers may differ, times 1 + their size.

    Returns
    -------
    multiples : (...) array
        NaN for a row without such entries.
    slack : (...) array
        What the tolerance lets a multiple be off by.
    balanced : bool
        Whether each row of the gradient adds up to 0, as it does if the softmax term goes with what is subtracted.

    All three are None if these entries are no multiples of the softmax, or too few to tell.

    Examples
    --------
    >>> logits = np.random.default_rng(0).normal(size=(4, 5))
    >>> probs, halved = np.exp(log_softmax(logits)), 0.5 * ctc.grad_logits(logits, [1, 2])
    >>> others = np.tile(np.arange(5) > 2, (4, 1))
    >>> multiples, _, balanced = softmax_multiples(halved, probs, others, 1e-9)
    >>> multiples.round(9).tolist(), balanced
    ([0.5, 0.5, 0.5, 0.5], True)
    """
    seen = np.where(others, probs, 0.0)
    squares = (seen**2).sum(-1)
    with np.errstate(all="ignore"):
        multiples = (seen * gradient).sum(-1) / squares
        slack = np.where(squares > 0, tolerance * (seen * (1 + np.abs(gradient))).sum(-1) / squares, 0.0)
    found = np.nan_to_num(multiples)[..., None] * probs
    fits = (np.abs(gradient - found)[others] <= tolerance * (1 + np.abs(found))[others]).all()
    balanced = bool((np.abs(gradient.sum(-1)) <= tolerance * (1 + np.abs(gradient)).sum(-1)).all())
    told = balanced or ((seen > 0).sum(-1) > 1).any()  # a single entry is a multiple of anything
    return (multiples, slack, balanced) if fits and told and squares.any() else (None, None, None)


def loss_scaling(factor) -> int:
    """The power of 2 that a factor is if it is 256 or more, as the scale of a loss in mixed precision is; else 0.

    >>> [loss_scaling(factor) for factor in (65536.0, -1024.0, 128.0, 1000.0)]
    [16, 10, 0, 0]
    """
    power = round(float(np.log2(abs(factor)))) if np.isfinite(factor) and factor else 0
    return power if power >= 8 and abs(abs(factor) / 2.0**power - 1) < 1e-6 else 0

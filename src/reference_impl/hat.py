"""The hybrid autoregressive transducer (HAT): the RNN-T lattice with a blank that has a sigmoid of its own. NumPy.

Only the way from logits to log-probs differs from :mod:`reference_impl.rnnt`, whose recursions and occupancy are used.
"""

from __future__ import annotations

import numpy as np

from . import rnnt
from ._loss_value import never_below_zero
from ._softmax import log_softmax
from ._validation import check_at_least, check_blank, check_no_nan_or_inf, check_scores

__all__ = ["grad_logits", "log_probs", "loss"]


def log_probs(logits, *, blank=0) -> np.ndarray:
    """Logits to log-probs: the blank by a sigmoid, the labels by a softmax that shares what the blank leaves over.

    In the book: eq-hat-log-blank and eq-hat-log-label.

    Parameters
    ----------
    logits : (..., V) array of float16, float32 or float64
        V >= 2; ``-inf`` masks an entry.
    blank : int

    Returns
    -------
    (..., V) float64 array, nats
        Normalised, unless all labels of a row are masked.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> np.exp(log_probs([np.log(3.0), 0.0, 0.0])).round(12).tolist()
    [0.75, 0.125, 0.125]
    """
    logits = np.asarray(logits)
    logits = check_scores("logits", logits, max(logits.ndim, 1), "(..., V)").astype(np.float64)
    check_at_least("V", logits.shape[-1], 2)
    blank = check_blank(blank, logits.shape[-1])
    check_no_nan_or_inf("logits", logits)
    of_blank, labels = logits[..., blank], np.arange(logits.shape[-1]) != blank
    result = np.empty(logits.shape)
    result[..., blank] = -np.logaddexp(0.0, -of_blank)
    result[..., labels] = -np.logaddexp(0.0, of_blank)[..., None] + log_softmax(logits[..., labels])
    return result


def loss(logits, targets, *, blank=0) -> float:
    """-log Z in nats of one utterance, never below 0, ``inf`` where no alignment exists.

    Parameters
    ----------
    logits : (T, U+1, V) array of float16, float32 or float64
    targets, blank
        As for :func:`reference_impl.rnnt.loss`.

    Examples
    --------
    >>> round(float(np.exp(-loss(np.zeros((2, 2, 3)), [1]))), 12)
    0.125
    """
    return float(never_below_zero(rnnt.loss(log_probs(logits, blank=blank), targets, blank=blank)))


def grad_logits(logits, targets, *, blank=0) -> np.ndarray:
    """d loss / d logits, (T, U+1, V); parameters as for :func:`loss`.

    With p the sigmoid of the blank's logit, q the softmax of the labels, and the posteriors of a node's two arcs:
    ``p by_label - (1 - p) by_blank`` for the blank, ``by_label (q_k - [k = next label])`` for label k.

    In the book: eq-hat-visits and eq-hat-grad-label.

    Examples
    --------
    >>> grad_logits(np.zeros((1, 2, 3)), [1]).tolist()
    [[[0.5, -0.5, 0.5], [-0.5, 0.0, 0.0]]]
    """
    log_y = log_probs(logits, blank=blank)
    expected = rnnt.occupancy(log_y, targets, blank=blank)
    logits = np.asarray(logits, np.float64)
    labels = np.arange(logits.shape[-1]) != blank
    p, rest = np.exp(log_y[..., blank]), np.exp(-np.logaddexp(0.0, logits[..., blank]))
    q = np.exp(log_softmax(logits[..., labels]))
    by_blank, by_label = expected[..., blank], expected[..., labels].sum(-1)
    gradient = np.empty(logits.shape)
    gradient[..., blank] = p * by_label - rest * by_blank
    gradient[..., labels] = by_label[..., None] * q - expected[..., labels]
    return gradient

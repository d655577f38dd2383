"""RNN-T for one utterance, as in Graves 2012: explicit recursions in float64 or on any semiring. Not fast, not batched.

Weights live on arcs: the blank arc leaves node (t, u) for (t+1, u), the label arc for (t, u+1), and the last blank
leaves (T-1, U) for the end. ``alpha[t, u]`` is the mass of all prefixes that reach the node, ``beta[t, u]`` that of
all suffixes from it, its own step included. Frames, rows and labels are counted from 0.
"""

from __future__ import annotations

import numpy as np

from ._loss_value import minus
from ._softmax import log_softmax
from ._validation import (
    check_at_least,
    check_blank,
    check_fastemit_lambda,
    check_log_probs,
    check_rows,
    check_targets,
)
from .semiring import LOG, Semiring

__all__ = ["Z", "alpha", "arc_posteriors", "beta", "grad_log_probs", "grad_logits", "log_alpha", "log_beta", "loss",
           "occupancy"]


def alpha(weights, targets, *, blank=0, semiring: Semiring = LOG) -> np.ndarray:
    """Forward recursion (Graves 2012, eq. 16) on any semiring.

    In the book: eq-rnnt-alpha.

    Parameters
    ----------
    weights : (T, U+1, V) array
        Log-probs in nats on ``LOG``, ``MAX`` and ``COUNT``; probabilities of any numeric kind on ``REAL``.
    targets : (U,) ints
    blank : int
    semiring : Semiring

    Returns
    -------
    (T, U+1) array of elements of the semiring

    Examples
    --------
    >>> from reference_impl.semiring import COUNT
    >>> alpha(np.zeros((3, 3, 2)), [1, 1], semiring=COUNT).tolist()
    [[1, 1, 1], [1, 2, 3], [1, 3, 6]]
    """
    T, U = len(weights), len(targets)
    a = semiring.zeros((T, U + 1))
    for t in range(T):
        for u in range(U + 1):
            if t == u == 0:
                a[t, u] = semiring.one
                continue
            no_emit = emit = semiring.zero
            if t > 0:
                no_emit = semiring.times(
                    a[t - 1, u], semiring.read(weights[t - 1, u, blank]))
            if u > 0:
                emit = semiring.times(
                    a[t, u - 1], semiring.read(weights[t, u - 1, targets[u - 1]]))
            a[t, u] = semiring.plus(no_emit, emit)
    return a


def beta(weights, targets, *, blank=0, semiring: Semiring = LOG) -> np.ndarray:
    """Backward recursion (Graves 2012, eq. 18) on any semiring; parameters and shape as for :func:`alpha`.

    ``beta[0, 0]`` is :func:`Z`.

    In the book: eq-rnnt-beta.

    Examples
    --------
    >>> from reference_impl.semiring import COUNT
    >>> beta(np.zeros((3, 3, 2)), [1, 1], semiring=COUNT).tolist()
    [[6, 3, 1], [3, 2, 1], [1, 1, 1]]
    """
    T, U = len(weights), len(targets)
    b = semiring.zeros((T, U + 1))
    for t in reversed(range(T)):
        for u in reversed(range(U + 1)):
            no_emit = emit = semiring.zero
            if t + 1 < T:
                no_emit = semiring.times(
                    semiring.read(weights[t, u, blank]), b[t + 1, u])
            elif u == U:
                no_emit = semiring.read(weights[t, u, blank])
            if u < U:
                emit = semiring.times(
                    semiring.read(weights[t, u, targets[u]]), b[t, u + 1])
            b[t, u] = semiring.plus(no_emit, emit)
    return b


def Z(weights, targets, *, blank=0, semiring: Semiring = LOG):
    """Mass of all paths, an element of the semiring: log Z in nats on ``LOG`` (Graves 2012, eq. 17).

    Parameters as for :func:`alpha`.

    In the book: eq-rnnt-total.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from reference_impl.semiring import REAL
    >>> Z(np.full((2, 2, 2), Fraction(1, 2)), [1], semiring=REAL)
    Fraction(1, 4)
    """
    return _ended(alpha(weights, targets, blank=blank, semiring=semiring), weights, blank, semiring)


def _ended(alpha, weights, blank, semiring=LOG):
    """Z from a finished ``alpha``: the mass that reaches node (T-1, U), times the last blank."""
    T, rows = alpha.shape
    return semiring.times(alpha[T - 1, rows - 1], semiring.read(weights[T - 1, rows - 1, blank]))


def _checked(name, scores, targets, blank):
    scores = check_log_probs(name, scores, 3, "(T, U+1, V)")
    check_at_least("T", scores.shape[0], 1)
    blank = check_blank(blank, scores.shape[2])
    targets = check_targets(targets, scores.shape[2], blank)
    check_rows(name, scores.shape[1], len(targets))
    return scores, targets, blank


def log_alpha(log_probs, targets, *, blank=0) -> np.ndarray:
    """Log of the mass of all prefixes that reach each node, the step that leaves it excluded.

    Parameters
    ----------
    log_probs : (T, U+1, V) array of float16, float32 or float64
        Nats, T >= 1; ``-inf`` masks an entry; need not be normalised.
    targets : (U,) array of int32 or int64
        Labels in [0, V), none equal to ``blank``.
    blank : int

    Returns
    -------
    (T, U+1) float64 array, nats

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    return alpha(log_probs, targets, blank=blank)


def log_beta(log_probs, targets, *, blank=0) -> np.ndarray:
    """Log of the mass of all suffixes from each node: (T, U+1), nats; parameters as for :func:`log_alpha`."""
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    return beta(log_probs, targets, blank=blank)


def loss(log_probs, targets, *, blank=0) -> float:
    """-log Z in nats, ``inf`` where no alignment exists; parameters as for :func:`log_alpha`.

    In the book: def-rnnt-loss.

    Examples
    --------
    Two frames, one label, every probability 1/2: two paths of three arcs.

    >>> round(float(np.exp(-loss(np.log(np.full((2, 2, 2), 0.5)), [1]))), 12)
    0.25
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    return minus(float(Z(log_probs, targets, blank=blank)))


def arc_posteriors(log_probs, targets, *, blank=0) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors: the probability, given the target, that a path uses each blank arc and each label arc.

    Parameters as for :func:`log_alpha`.

    In the book: eq-rnnt-blank-arc and eq-rnnt-label-arc.

    Returns
    -------
    e_blank : (T, U+1) float64 array
        Their sum is T. At t = T-1 only the last blank, at u = U, can be used.
    e_label : (T, U) float64 array
        Their sum is U. Both arrays are all 0 where no alignment exists.
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    T, U = len(log_probs), len(targets)
    log_a = alpha(log_probs, targets, blank=blank)
    log_b = beta(log_probs, targets, blank=blank)
    log_z = _ended(log_a, log_probs, blank)
    if log_z == -np.inf:
        return np.zeros((T, U + 1)), np.zeros((T, U))
    after_blank = np.full((T, U + 1), -np.inf)
    after_blank[:-1] = log_b[1:]
    after_blank[T - 1, U] = 0.0
    e_blank = np.exp(log_a + log_probs[:, :, blank] + after_blank - log_z)
    e_label = np.exp(log_a[:, :-1] + log_probs[:, np.arange(U), targets] + log_b[:, 1:] - log_z)
    return e_blank, e_label


def occupancy(log_probs, targets, *, blank=0) -> np.ndarray:
    """Probability, given the target, that a path uses each entry: (T, U+1, V); parameters as for :func:`log_alpha`.

    The sum over V is the node occupancy; it adds up to 1 along each anti-diagonal.

    In the book: def-rnnt-occupancy.

    Examples
    --------
    >>> occupancy(np.log(np.full((2, 2, 2), 0.5)), [1]).round(12).tolist()
    [[[0.5, 0.5], [0.5, 0.0]], [[0.0, 0.5], [1.0, 0.0]]]
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    e_blank, e_label = arc_posteriors(log_probs, targets, blank=blank)
    expected = np.zeros(log_probs.shape)
    expected[:, :, blank] = e_blank
    expected[:, np.arange(len(targets)), targets] = e_label
    return expected


def _emphasised(expected, targets, fastemit_lambda):
    """FastEmit: the occupancies of the next labels, times 1 + lambda."""
    if check_fastemit_lambda(fastemit_lambda):
        expected[:, np.arange(len(targets)), targets] *= 1.0 + fastemit_lambda
    return expected


def grad_log_probs(log_probs, targets, *, blank=0, fastemit_lambda=0.0) -> np.ndarray:
    """d loss / d log_probs = -occupancy, each entry a variable of its own: (T, U+1, V) (from Graves 2012, eq. 20).

    In the book: eq-rnnt-grad-log-probs.

    Parameters
    ----------
    log_probs, targets, blank
        As for :func:`log_alpha`.
    fastemit_lambda : float >= 0
        Multiplies the entries of the labels by 1 + lambda (Yu et al. 2021). With lambda > 0 and at least one label, the
        result is FastEmit's field, not the gradient of the loss. Unless there is only one path, it is the gradient of
        no other function either.
    """
    return -_emphasised(occupancy(log_probs, targets, blank=blank), targets, fastemit_lambda)


def grad_logits(logits, targets, *, blank=0, fastemit_lambda=0.0) -> np.ndarray:
    """d loss / d logits = softmax * node occupancy - occupancy: (T, U+1, V).

    In the book: eq-rnnt-grad-logits.

    Parameters
    ----------
    logits : (T, U+1, V) array of float16, float32 or float64
        Unnormalised scores; ``-inf`` masks an entry.
    targets, blank
        As for :func:`log_alpha`.
    fastemit_lambda : float >= 0
        As for :func:`grad_log_probs`, whose result is carried through log-softmax.

    Examples
    --------
    >>> grad_logits(np.zeros((2, 2, 2)), [1]).round(12).tolist()
    [[[0.0, 0.0], [-0.25, 0.25]], [[0.25, -0.25], [-0.5, 0.5]]]
    """
    logits, targets, blank = _checked("logits", logits, targets, blank)
    log_probs = log_softmax(logits)
    expected = _emphasised(occupancy(log_probs, targets, blank=blank), targets, fastemit_lambda)
    return np.exp(log_probs) * expected.sum(-1, keepdims=True) - expected

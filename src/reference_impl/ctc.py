"""CTC for one utterance, as in the papers: explicit recursions in float64 or on any semiring. Not fast, not batched.

``alpha[t, s]`` is the mass of the prefixes that are in state s after frame t, emission at t included. ``beta[t, s]``
is that of the suffixes after frame t that complete the target from state s, emission at t excluded (Graves' thesis;
the 2006 paper includes it in both). Their product is the mass of all paths through the node. Frames, states, labels
and symbols count from 0.
"""

from __future__ import annotations

import numpy as np

from ._loss_value import minus
from ._softmax import log_softmax
from ._validation import check_blank, check_log_probs, check_targets
from .semiring import LOG, Semiring

__all__ = ["Z", "alpha", "beta", "can_skip", "extended_targets", "grad_log_probs", "grad_logits", "log_alpha",
           "log_beta", "loss", "occupancy"]


def extended_targets(targets, *, blank=0) -> np.ndarray:
    """The labels with a blank before, between and after them: l', of length S = 2U+1.

    Examples
    --------
    >>> extended_targets([3, 3, 5]).tolist()
    [0, 3, 0, 3, 0, 5, 0]
    """
    extended = np.full(2 * len(targets) + 1, blank, dtype=np.int64)
    extended[1::2] = targets
    return extended


def can_skip(extended, s) -> bool:
    """Whether a path may enter state s from s-2: only into a label that differs from the label before it (kappa).

    In the book: def-ctc-skip.
    """
    return s >= 2 and bool(extended[s] != extended[s - 2])


def alpha(weights, targets, *, blank=0, semiring: Semiring = LOG) -> np.ndarray:
    """Forward recursion (Graves et al. 2006, eqs. 5-7) on any semiring.

    In the book: eq-ctc-alpha-start and eq-ctc-alpha.

    Parameters
    ----------
    weights : (T, V) array
        Log-probs in nats on ``LOG``, ``MAX`` and ``COUNT``; probabilities of any numeric kind on ``REAL``.
    targets : (U,) ints
    blank : int
    semiring : Semiring

    Returns
    -------
    (T, 2U+1) array of elements of the semiring

    Examples
    --------
    Three frames, one label: six paths (the label's run is any interval of frames).

    >>> from reference_impl.semiring import COUNT
    >>> alpha(np.zeros((3, 2)), [1], semiring=COUNT).tolist()
    [[1, 1, 0], [1, 2, 1], [1, 3, 3]]
    >>> Z(np.zeros((3, 2)), [1], semiring=COUNT)
    6
    """
    extended = extended_targets(targets, blank=blank)
    T, S = len(weights), len(extended)
    a = semiring.zeros((T, S))
    for t in range(T):
        for s in range(S):
            if t == 0:
                arriving = semiring.one if s < 2 else semiring.zero
            else:
                before = [a[t - 1, s]]
                if s >= 1:
                    before.append(a[t - 1, s - 1])
                if can_skip(extended, s):
                    before.append(a[t - 1, s - 2])
                arriving = semiring.sum(before)
            emission = semiring.read(weights[t, extended[s]])
            a[t, s] = semiring.times(arriving, emission)
    return a


def beta(weights, targets, *, blank=0, semiring: Semiring = LOG) -> np.ndarray:
    """Backward recursion on any semiring, the emission at t excluded; parameters and shape as for :func:`alpha`.

    Graves et al. 2006, eqs. 9-11, define beta with the emission at t; divide theirs by it to get this one.

    In the book: eq-ctc-beta-end and eq-ctc-beta.

    Examples
    --------
    >>> from reference_impl.semiring import COUNT
    >>> beta(np.zeros((3, 2)), [1], semiring=COUNT).tolist()
    [[3, 3, 1], [1, 2, 1], [0, 1, 1]]
    """
    extended = extended_targets(targets, blank=blank)
    T, S = len(weights), len(extended)
    b = semiring.zeros((T, S))
    for t in reversed(range(T)):
        for s in reversed(range(S)):
            if t == T - 1:
                b[t, s] = semiring.one if s >= S - 2 else semiring.zero
            else:
                after = [s]
                if s + 1 < S:
                    after.append(s + 1)
                if s + 2 < S and can_skip(extended, s + 2):
                    after.append(s + 2)
                b[t, s] = semiring.sum(
                    semiring.times(
                        semiring.read(weights[t + 1, extended[r]]), b[t + 1, r])
                    for r in after)
    return b


def Z(weights, targets, *, blank=0, semiring: Semiring = LOG):
    """Mass of all paths, an element of the semiring: log Z in nats on ``LOG`` (Graves et al. 2006, eq. 8).

    Parameters as for :func:`alpha`. Without frames only the empty target has a path, the empty one.

    In the book: eq-ctc-total.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from reference_impl.semiring import REAL
    >>> Z(np.full((2, 2), Fraction(1, 2)), [1], semiring=REAL)
    Fraction(3, 4)
    """
    return _ended(alpha(weights, targets, blank=blank, semiring=semiring), semiring)


def _ended(alpha, semiring=LOG):
    """Z from a finished ``alpha``: the mass in the last two states of the last frame."""
    T, S = alpha.shape
    if T == 0:
        return semiring.one if S == 1 else semiring.zero
    return semiring.sum(alpha[T - 1, max(S - 2, 0):])


def _checked(name, scores, targets, blank):
    scores = check_log_probs(name, scores, 2, "(T, V)")
    blank = check_blank(blank, scores.shape[1])
    return scores, check_targets(targets, scores.shape[1], blank), blank


def log_alpha(log_probs, targets, *, blank=0) -> np.ndarray:
    """Log of the mass of prefixes, emission at t included.

    Parameters
    ----------
    log_probs : (T, V) array of float16, float32 or float64
        Nats; ``-inf`` masks an entry; need not be normalised.
    targets : (U,) array of int32 or int64
        Labels in [0, V), none equal to ``blank``.
    blank : int

    Returns
    -------
    (T, 2U+1) float64 array, nats

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    return alpha(log_probs, targets, blank=blank, semiring=LOG)


def log_beta(log_probs, targets, *, blank=0) -> np.ndarray:
    """Log of the mass of suffixes, emission at t excluded: (T, 2U+1), nats; parameters as for :func:`log_alpha`."""
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    return beta(log_probs, targets, blank=blank, semiring=LOG)


def loss(log_probs, targets, *, blank=0) -> float:
    """-log Z in nats, ``inf`` where no path exists; parameters as for :func:`log_alpha`.

    In the book: def-ctc-loss.

    Examples
    --------
    Two frames, probability 1/2 each for blank and the label: three of the four strings collapse to the label.

    >>> round(float(np.exp(-loss(np.log([[0.5, 0.5], [0.5, 0.5]]), [1]))), 12)
    0.75
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    return minus(float(Z(log_probs, targets, blank=blank)))


def occupancy(log_probs, targets, *, blank=0) -> np.ndarray:
    """Probability, given the target, that frame t carries symbol k: (T, V); parameters as for :func:`log_alpha`.

    Each frame sums to 1, or to 0 where no path exists.

    In the book: def-ctc-occupancy and eq-ctc-occupancy-sum.

    Examples
    --------
    >>> occupancy(np.log([[0.5, 0.5], [0.5, 0.5]]), [1]).round(4).tolist()
    [[0.3333, 0.6667], [0.3333, 0.6667]]
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    log_a = alpha(log_probs, targets, blank=blank)
    log_b = beta(log_probs, targets, blank=blank)
    log_z = _ended(log_a)
    expected = np.zeros(log_probs.shape)
    if log_z > -np.inf:
        for s, k in enumerate(extended_targets(targets, blank=blank)):
            expected[:, k] += np.exp(log_a[:, s] + log_b[:, s] - log_z)
    return expected


def grad_log_probs(log_probs, targets, *, blank=0) -> np.ndarray:
    """d loss / d log_probs = -occupancy, entries taken as independent: (T, V); parameters as for :func:`log_alpha`.

    In the book: eq-ctc-grad-log-probs.
    """
    return -occupancy(log_probs, targets, blank=blank)


def grad_logits(logits, targets, *, blank=0) -> np.ndarray:
    """d loss / d logits = softmax * occupancy.sum(-1) - occupancy: (T, V) (Graves et al. 2006, eq. 16).

    In the book: eq-ctc-grad-logits.

    Parameters
    ----------
    logits : (T, V) array of float16, float32 or float64
        Unnormalised scores; ``-inf`` masks an entry.
    targets, blank
        As for :func:`log_alpha`.

    Examples
    --------
    >>> grad_logits(np.zeros((2, 2)), [1]).round(4).tolist()
    [[0.1667, -0.1667], [0.1667, -0.1667]]
    """
    logits, targets, blank = _checked("logits", logits, targets, blank)
    log_probs = log_softmax(logits)
    expected = occupancy(log_probs, targets, blank=blank)
    return np.exp(log_probs) * expected.sum(-1, keepdims=True) - expected

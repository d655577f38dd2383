"""The gradient formulas of published RNN-T kernels, in NumPy, as they are written there: for reading, not for training.

They are slow, take one utterance, and refuse no value that the programs accept: a label equal to the blank, a NaN, a
target without alignment. The book's own losses use none of them; :mod:`reference_impl.rnnt` is the reference.
"""

from __future__ import annotations

import numpy as np

from .. import rnnt
from .._validation import (
    check_at_least,
    check_blank,
    check_choice,
    check_rows,
    check_scores,
    check_targets,
    check_weights,
)
from ..semiring import LOG, Semiring

__all__ = ["CPU_TERMS", "FUSED_CASES", "arriving", "cpu_kernel", "flow_back", "fused_kernel", "k2_arrays", "k2_shares",
           "pack_pairs"]

#: The summands of an exponent of :func:`cpu_kernel`.
CPU_TERMS = ("alpha", "log_probs", "beta", "loglike")

#: The cases of :func:`fused_kernel`, in the order in which torchaudio tests for them.
FUSED_CASES = ("last blank", "blank", "label", "other")


def _checked(name, scores, targets, blank):
    """Shapes, dtypes and labels; the values of the scores are not looked at, and a label may equal the blank."""
    scores = check_scores(name, scores, 3, "(T, U+1, V)")
    check_at_least("T", len(scores), 1)
    blank = check_blank(blank, scores.shape[2])
    targets = check_targets(targets, scores.shape[2], blank=None)
    check_rows(name, scores.shape[1], len(targets))
    return scores, targets, blank


def pack_pairs(log_probs, targets, *, blank=0) -> np.ndarray:
    """The log-probs that paths use, stored as in warp-transducer's CPU code: flat, two for each node, blank first.

    Parameters
    ----------
    log_probs : (T, U+1, V) float array
        Nats.
    targets : (U,) ints
    blank : int

    Returns
    -------
    (2 T (U+1),) array of the dtype of ``log_probs``
        The number of node (t, u) is ``n = t * (U + 1) + u``. Its blank is at ``2 * n`` and its next label at
        ``2 * n + 1``, with a 0 in the last row, where no label is left.

    Examples
    --------
    >>> pack_pairs(np.arange(12.0).reshape(2, 2, 3), [2]).tolist()
    [0.0, 2.0, 3.0, 0.0, 6.0, 8.0, 9.0, 0.0]
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    pairs = np.zeros((*log_probs.shape[:2], 2), log_probs.dtype)
    pairs[..., 0] = log_probs[..., blank]
    pairs[:, :-1, 1] = log_probs[:, np.arange(len(targets)), targets]
    return pairs.ravel()


def cpu_kernel(log_probs, targets, *, blank=0, without=None) -> np.ndarray:
    """d loss / d log_probs, symbol by symbol, after warp-transducer's CPU code (equations eq-kernels-cpu-*).

    Parameters
    ----------
    log_probs : (T, U+1, V) float array
        Nats.
    targets : (U,) ints
        A label that equals ``blank`` overwrites the entry of the blank, as it does there.
    blank : int
    without : str, optional
        One of ``CPU_TERMS``, to be left out of every exponent: the result is that of a kernel that forgets it.

    Returns
    -------
    (T, U+1, V) float64 array
        Where no alignment exists the entries of all arcs are NaN, as in the programs.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule; of the scores only shape and dtype are looked at.

    Examples
    --------
    >>> cpu_kernel(np.log(np.full((2, 2, 2), 0.5)), [1]).round(12).tolist()
    [[[-0.5, -0.5], [-0.5, 0.0]], [[0.0, -0.5], [-1.0, 0.0]]]
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    check_choice("without", without, (None, *CPU_TERMS))
    pairs = pack_pairs(log_probs, targets, blank=blank)
    alpha = rnnt.alpha(log_probs, targets, blank=blank)
    beta = rnnt.beta(log_probs, targets, blank=blank)

    T, rows, _ = log_probs.shape
    gradient = np.zeros(log_probs.shape)
    for t, u in np.ndindex(T, rows):
        node, steps = t * rows + u, []
        if t + 1 < T:
            steps.append((blank, pairs[2 * node], beta[t + 1, u]))
        if u + 1 < rows:
            steps.append((targets[u], pairs[2 * node + 1], beta[t, u + 1]))
        if node == T * rows - 1:
            steps.append((blank, pairs[2 * node], 0.0))
        for k, own, after in steps:
            terms = {"alpha": alpha[t, u], "log_probs": own, "beta": after}
            terms["loglike"] = -beta[0, 0]
            terms.pop(without, None)
            gradient[t, u, k] = -np.exp(sum(terms.values()))
    return gradient


def fused_kernel(logits, targets, *, blank=0, cases=FUSED_CASES) -> np.ndarray:
    """d loss / d logits in four cases, after torchaudio's kernel and warp-transducer's on the GPU (eq-kernels-case-*).

    This is function merging (Li et al. 2019, Sec. 3.2): the loss contains the log-softmax, and its backward pass too.

    Parameters
    ----------
    logits : (T, U+1, V) float array
    targets : (U,) ints
        If a label equals ``blank``, the case that is tested first wins.
    blank : int
    cases : sequence of str
        Some of ``FUSED_CASES``, in the order in which a kernel tests for them. An entry for which none holds is 0.

    Returns
    -------
    (T, U+1, V) float64 array
        Where no alignment exists all entries are NaN, as in the programs.

    Raises
    ------
    ValueError, TypeError
        As for :func:`cpu_kernel`.

    Examples
    --------
    >>> fused_kernel(np.zeros((2, 2, 2)), [1]).round(12).tolist()
    [[[0.0, 0.0], [-0.25, 0.25]], [[0.25, -0.25], [-0.5, 0.5]]]
    """
    logits, targets, blank = _checked("logits", logits, targets, blank)
    for i, name in enumerate(cases):
        check_choice(f"cases[{i}]", name, FUSED_CASES)

    denom = np.logaddexp.reduce(logits, axis=-1, keepdims=True, dtype=np.float64)
    alpha = rnnt.alpha(logits - denom, targets, blank=blank)[..., None]
    beta = rnnt.beta(logits - denom, targets, blank=blank)[..., None]
    cost = -beta[0, 0]
    g = logits + (alpha + cost - denom)

    T, rows, V = logits.shape
    t, u, k = np.ogrid[:T, :rows, :V]
    label = np.append(targets, -1)[u]  # none in the last row
    after_blank, after_label = np.full((2, T, rows, 1), -np.inf)
    after_blank[:-1], after_label[:, :-1] = beta[1:], beta[:, 1:]
    holds = {
        "last blank": (k == blank) & (t == T - 1) & (u == rows - 1),
        "blank": (k == blank) & (t < T - 1),
        "label": k == label,
        "other": k >= 0,
    }
    believed = np.exp(g + beta)
    value = {
        "last blank": believed - np.exp(g),
        "blank": believed - np.exp(g + after_blank),
        "label": believed - np.exp(g + after_label),
        "other": believed,
    }
    return np.select([holds[c] for c in cases], [value[c] for c in cases], 0.0)


def k2_arrays(log_probs, targets, *, blank=0, semiring: Semiring = LOG) -> np.ndarray:
    """k2's arrays: log alpha on a grid with one more column, which holds the end, and the scores of the arcs.

    Parameters
    ----------
    log_probs : (T, U+1, V) float array
        Nats; computed in the dtype of the semiring.
    targets : (U,) ints
    blank : int
    semiring : Semiring
        ``LOG``, or ``LOG32`` to compute in float32 as the programs do.

    Returns
    -------
    (3, T+1, U+1) array, nats
        p: log alpha, with log Z in ``p[T, U]``; px: the score of the label arc that leaves each node; py: that of its
        blank arc. k2 indexes them ``[s][t]``, where s is our u. An arc that does not exist has ``-inf``.

    Examples
    --------
    >>> p, px, py = k2_arrays(np.log(np.full((2, 2, 2), 0.5)), [1])
    >>> np.exp(p).round(12).tolist()
    [[1.0, 0.5], [0.5, 0.5], [0.25, 0.25]]
    """
    log_probs, targets, blank = _checked("log_probs", log_probs, targets, blank)
    T, rows, _ = log_probs.shape
    p, px, py = arrays = semiring.zeros((3, T + 1, rows))
    px[:T, :-1] = log_probs[:, np.arange(rows - 1), targets]
    py[:T] = log_probs[..., blank]
    p[:T] = rnnt.alpha(log_probs, targets, blank=blank, semiring=semiring)
    p[T] = p[T - 1] + py[T - 1]  # after the last frame no labels arrive
    return arrays


def arriving(p, px, py) -> np.ndarray:
    """The mass that enters each node by a label arc and by a blank arc, as logarithms; ``p`` is the log of their sum.

    Parameters
    ----------
    p, px, py : (T+1, U+1) arrays, nats
        As from :func:`k2_arrays`.

    Returns
    -------
    (2, T+1, U+1) array, nats
        By label, by blank; ``-inf`` where there is no such arc. The first node has neither.

    Examples
    --------
    >>> p, px, py = k2_arrays(np.log(np.full((2, 2, 2), 0.5)), [1])
    >>> np.exp(arriving(p, px, py)).round(12).tolist()
    [[[0.0, 0.5], [0.0, 0.25], [0.0, 0.0]], [[0.0, 0.0], [0.5, 0.25], [0.25, 0.25]]]
    """
    came_in = np.full_like([p, p], -np.inf)
    came_in[0, :, 1:] = p[:, :-1] + px[:, :-1]
    came_in[1, 1:] = p[:-1] + py[:-1]
    return came_in


def k2_shares(p, px, *, guarded=False) -> tuple[np.ndarray, np.ndarray]:
    """The shares of a node's two incoming arcs, after k2's CPU code: ``term1_deriv`` and ``1 - term1_deriv``.

    Parameters
    ----------
    p, px : (T+1, U+1) float arrays, nats
        As from :func:`k2_arrays`.
    guarded : bool
        True adds the code's two guards: a ``p`` that is not finite counts as 0, and a ``term1_deriv`` that is not
        finite makes both shares 0. Without them the shares of a node that no path reaches are NaN.

    Returns
    -------
    by_label, by_blank : (T+1, U+1) arrays of the dtype of ``p``
        Their sum is 1, also at the first node, which has no incoming arc.

    Examples
    --------
    >>> p, px, _ = k2_arrays(np.log(np.full((2, 2, 2), 0.5)), [1])
    >>> k2_shares(p, px)[0].round(12).tolist()
    [[0.0, 1.0], [0.0, 0.5], [0.0, 0.0]]
    """
    total = np.where(np.isfinite(p), p, 0) if guarded else p
    term1 = np.zeros_like(p)
    with np.errstate(invalid="ignore"):
        term1[:, 1:] = np.exp(p[:, :-1] + px[:, :-1] - total[:, 1:])
    term1[0, 1:] = 1  # in the first frame nothing but labels arrives
    if not guarded:
        return term1, 1 - term1
    usable = np.isfinite(term1)
    return np.where(usable, term1, 0), np.where(usable, 1 - term1, 0)


def flow_back(by_label, by_blank, *, start=1.0) -> np.ndarray:
    """The backward sweep: each node hands what it receives to the two nodes that lead to it, by their shares.

    Parameters
    ----------
    by_label, by_blank : (T+1, U+1) arrays of floats, or of fractions
        Shares, as from :func:`k2_shares`. Those of the first node, and of arcs from outside the grid, are not read.
    start : number
        What the end receives: the upstream gradient.

    Returns
    -------
    (3, T+1, U+1) array of the same dtype
        p_grad, px_grad, py_grad: what each node receives, and what of it comes back along the label arc and along the
        blank arc that leave it. With ``start`` 1 these are derivatives of log Z: node occupancies and arc posteriors
        (equations eq-kernels-adjoint and eq-kernels-adjoint-arcs).

    Raises
    ------
    ValueError
        If the two shapes differ.

    Examples
    --------
    >>> p, px, _ = k2_arrays(np.log(np.full((2, 2, 2), 0.5)), [1])
    >>> p_grad, *_ = flow_back(*k2_shares(p, px))
    >>> p_grad.round(12).tolist()
    [[1.0, 0.5], [0.5, 1.0], [0.0, 1.0]]
    """
    by_label = np.asarray(by_label)
    by_blank = check_weights("by_blank", by_blank, by_label.shape)
    p_grad, px_grad, py_grad = flows = np.zeros((3, *by_label.shape), by_label.dtype)
    p_grad[-1, -1] = start
    for t, u in reversed(list(np.ndindex(p_grad.shape))):
        if u > 0:
            px_grad[t, u - 1] = p_grad[t, u] * by_label[t, u]
            p_grad[t, u - 1] += px_grad[t, u - 1]
        if t > 0:
            py_grad[t - 1, u] = p_grad[t, u] * by_blank[t, u]
            p_grad[t - 1, u] += py_grad[t - 1, u]
    return flows

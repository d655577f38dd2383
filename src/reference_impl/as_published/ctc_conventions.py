"""CTC's alpha and beta as other sources define them: converters, and the rescaled recursions of the 2006 paper.

:mod:`reference_impl.ctc` is the definition, and what the rest of the package uses; this is for reading and testing the
kernels of others. A convention says which of the two contains the emission of its own frame.
"""

from __future__ import annotations

import numpy as np

from .. import ctc
from .._validation import check_blank, check_choice, check_log_probs, check_probs, check_targets, check_weights

__all__ = ["CONVENTIONS", "convert", "rescaled_alpha", "rescaled_beta"]

#: Whether (alpha, beta) contains the emission at t.
CONVENTIONS = {"2006": (True, True), "thesis": (True, False), "arcs": (False, True)}


def convert(log_alpha, log_beta, log_probs, targets, *, source, target, blank=0) -> tuple[np.ndarray, np.ndarray]:
    """Alpha and beta from one convention to another.

    ``"2006"`` counts the emission at t in both (Graves et al. 2006, eqs. 5 and 9; torch), ``"thesis"`` in alpha only
    (Graves' thesis; this package), ``"arcs"`` in beta only (weights on the arcs that leave a node, as in RNN-T).

    Parameters
    ----------
    log_alpha, log_beta : (T, 2U+1) arrays
        Nats, in the convention ``source``.
    log_probs : (T, V) array
        Nats.
    targets : (U,) ints
    source, target : "2006" | "thesis" | "arcs"
    blank : int

    Returns
    -------
    log_alpha, log_beta : (T, 2U+1) float64 arrays, nats
        In the convention ``target``. No path passes a state whose emission has probability 0. Where the
        emission would have to be divided out there, nothing recovers what was multiplied by 0: the result is ``-inf``.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> log_probs, targets = np.log([[0.5, 0.5], [0.25, 0.75]]), [1]
    >>> ours = ctc.log_alpha(log_probs, targets), ctc.log_beta(log_probs, targets)
    >>> _, beta = convert(*ours, log_probs, targets, source="thesis", target="2006")
    >>> np.exp(ours[1]).round(12).tolist(), np.exp(beta).round(12).tolist()
    ([[0.75, 1.0, 0.25], [0.0, 1.0, 1.0]], [[0.375, 0.5, 0.125], [0.0, 0.75, 0.25]])
    """
    check_choice("source", source, tuple(CONVENTIONS))
    check_choice("target", target, tuple(CONVENTIONS))
    log_probs = check_log_probs("log_probs", log_probs, 2, "(T, V)")
    blank = check_blank(blank, log_probs.shape[1])
    targets = check_targets(targets, log_probs.shape[1], blank)
    emission = log_probs[:, ctc.extended_targets(targets, blank=blank)]
    converted = []
    for name, values, has, wants in zip(("log_alpha", "log_beta"), (log_alpha, log_beta), CONVENTIONS[source],
                                        CONVENTIONS[target], strict=True):
        values = check_weights(name, values, emission.shape).astype(np.float64)
        if has and not wants:
            values = values - np.where(emission == -np.inf, 0.0, emission)
        elif wants and not has:
            values = values + emission
        converted.append(values)
    return converted[0], converted[1]


def rescaled_alpha(probs, targets, *, blank=0, prune=True) -> tuple[np.ndarray, np.ndarray]:
    """Alpha divided by its sum in every frame, before the next frame is computed from it (C_t in Graves et al. 2006).

    Parameters
    ----------
    probs : (T, V) array of float or of exact numbers such as Fraction
        Probabilities; need not be normalised. The recursion runs in their dtype.
    targets : (U,) ints
    blank : int
    prune : bool
        Leave out states from which the target can no longer be completed: those with fewer than two states left in the
        target for each frame left. Then only the last two states have mass in the last frame.

    Returns
    -------
    alpha_hat : (T, 2U+1) array
        Each frame sums to 1, or to 0 from the first frame in which no path is left.
    scale : (T,) array
        The sums by which the frames were divided (C_t). With ``prune`` their product is Z; without, multiply it by the
        part of the last frame that is in the last two states.

    Examples
    --------
    >>> probs = np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    >>> round(float(rescaled_alpha(probs, [1])[1].prod()), 12), round(float(np.exp(-ctc.loss(np.log(probs), [1]))), 12)
    (0.875, 0.875)
    """
    return _rescaled(probs, targets, blank, prune, backwards=False)


def rescaled_beta(probs, targets, *, blank=0, prune=True) -> tuple[np.ndarray, np.ndarray]:
    """Beta of the 2006 paper, emission at t included, divided by its sum in every frame (its D_t).

    Parameters and results are those of :func:`rescaled_alpha`, with time and the target reversed; so the product of the
    scales is Z, if pruned.

    Examples
    --------
    >>> probs = np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    >>> rescaled_beta(probs, [1])[0].sum(axis=1).tolist()
    [1.0, 1.0, 1.0]
    """
    return _rescaled(probs, targets, blank, prune, backwards=True)


def _rescaled(probs, targets, blank, prune, backwards):
    """One sweep; the backward one is the forward one of the reversed problem, emission included."""
    probs = check_probs("probs", probs, 2, "(T, V)")
    blank = check_blank(blank, probs.shape[1])
    targets = check_targets(targets, probs.shape[1], blank)
    extended = ctc.extended_targets(targets[::-1] if backwards else targets, blank=blank)
    emission = (probs[::-1] if backwards else probs)[:, extended]
    T, S = emission.shape
    hat, scale = np.zeros_like(emission), np.zeros_like(emission, shape=(T,))
    for t in range(T):
        for s in range(S):
            arriving = int(s < 2) if t == 0 else sum(
                (hat[t - 1, s - d] for d in range(3) if s >= d and (d < 2 or ctc.can_skip(extended, s))), 0)
            reachable = not prune or s >= S - 2 * (T - t)
            hat[t, s] = arriving * emission[t, s] * int(reachable)
        scale[t] = hat[t].sum()
        if scale[t] != 0:
            hat[t] = hat[t] / scale[t]
    return (hat[::-1, ::-1], scale[::-1]) if backwards else (hat, scale)

"""log_softmax over the last axis, with the book's meaning of ``-inf``. The only softmax of the explicit NumPy code."""

from __future__ import annotations

import numpy as np

from ._validation import check_at_least, check_no_nan_or_inf, check_scores

__all__ = ["log_softmax"]


def log_softmax(logits) -> np.ndarray:
    """Logits to log-probs over the last axis.

    In the book: eq-log-softmax, and for large logits eq-lse-stable.

    Parameters
    ----------
    logits : (..., V) array of float16, float32 or float64
        ``-inf`` masks an entry.

    Returns
    -------
    (..., V) float64 array, nats
        A row whose entries are all ``-inf`` stays all ``-inf``.

    Raises
    ------
    ValueError
        For NaN or ``+inf``.

    Examples
    --------
    >>> np.exp(log_softmax([[0.0, np.log(3.0), -np.inf]])).round(12).tolist()
    [[0.25, 0.75, 0.0]]
    """
    logits = np.asarray(logits)
    logits = check_scores("logits", logits, max(logits.ndim, 1), "(..., V)").astype(np.float64)
    check_at_least("V", logits.shape[-1], 1)
    check_no_nan_or_inf("logits", logits)
    peak = logits.max(-1, keepdims=True)
    with np.errstate(over="ignore"):  # a difference beyond the range of floats is -inf, as it should be
        shifted = logits - np.where(peak == -np.inf, 0.0, peak)
    mass = np.exp(shifted).sum(-1, keepdims=True)
    return shifted - np.log(np.where(mass == 0.0, 1.0, mass))

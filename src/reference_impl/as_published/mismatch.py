"""A check in published RNN-T programs: whether log Z from alpha and from beta agree; and how far rounding moves them.

No loss of the book makes this check.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import rnnt
from ..semiring import LOG32, Semiring

__all__ = ["Mismatch", "mismatch", "mismatch_bound", "sure_of_labels"]


class Mismatch(NamedTuple):
    """log Z by the forward and by the backward recursion, in nats, and the relative difference rho."""

    from_alpha: np.floating
    from_beta: np.floating
    rho: np.floating


def mismatch(log_probs, targets, *, blank=0, semiring: Semiring = LOG32) -> Mismatch:
    """Both values of log Z, and what 1ytic/warp-rnnt compares with 1e-3; equation def-kernels-mismatch.

    Parameters
    ----------
    log_probs : (T, U+1, V) float array
        Nats.
    targets : (U,) ints
    blank : int
    semiring : Semiring
        Its dtype is the one in which both recursions round.

    Returns
    -------
    Mismatch
        ``rho`` is NaN if both values are 0, or both -inf.

    Raises
    ------
    TypeError, ValueError
        As for :func:`reference_impl.rnnt.alpha`.

    Examples
    --------
    >>> import numpy as np
    >>> from_alpha, from_beta, rho = mismatch(np.log(np.full((2, 2, 2), 0.5)), [1])
    >>> round(float(from_alpha), 6), round(float(from_beta), 6), float(rho) < 1e-6
    (-1.386294, -1.386294, True)
    """
    a = rnnt.Z(log_probs, targets, blank=blank, semiring=semiring)
    b = rnnt.beta(log_probs, targets, blank=blank, semiring=semiring)[0, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return Mismatch(a, b, np.abs(a - b) / np.abs(np.fmax(a, b)))


def mismatch_bound(log_probs, targets, *, blank=0) -> float:
    """What rho is at most in float32, to first order; equation def-kernels-mismatch-bound.

    Parameters
    ----------
    log_probs : (T, U+1, V) float array
        Nats, of normalised rows. The loss is more than 0, and finite.
    targets : (U,) ints
    blank : int

    Raises
    ------
    TypeError, ValueError
        As for :func:`reference_impl.rnnt.occupancy`.

    Examples
    --------
    >>> import numpy as np
    >>> f"{mismatch_bound(np.log(np.full((2, 2, 2), 0.5)), [1]):.1e}"
    '8.9e-07'
    """
    gamma = rnnt.occupancy(log_probs, targets, blank=blank).sum(axis=-1)
    H = -(gamma * np.log(np.where(gamma > 0, gamma, 1))).sum()
    return 2.0**-23 * (sum(gamma.shape) + 7 * H / rnnt.loss(log_probs, targets, blank=blank))


def sure_of_labels(rng: np.random.Generator, targets, num_frames: int, num_symbols: int, *, margin: float,
                   noise: float = 0.2) -> np.ndarray:
    """Logits (T, U+1, V) of a model that is certain of the labels, and undecided about their frames.

    All are ``noise`` times normal numbers. The blank (0) and the next label get ``margin`` more, so their odds are
    about equal. In the last frame the blank gets ``margin`` less until the last label is out.

    Examples
    --------
    >>> import numpy as np
    >>> (sure_of_labels(np.random.default_rng(0), [1], 2, 3, margin=5.0, noise=0.0) + 0.0).tolist()
    [[[5.0, 5.0, 0.0], [5.0, 0.0, 0.0]], [[-5.0, 5.0, 0.0], [5.0, 0.0, 0.0]]]
    """
    U = len(targets)
    logits = noise * rng.normal(size=(num_frames, U + 1, num_symbols))
    logits[..., 0] += margin
    logits[:, range(U), targets] += margin
    logits[-1, :U, 0] -= 2 * margin  # no blank before the last label
    return logits

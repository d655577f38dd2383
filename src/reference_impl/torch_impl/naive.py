"""Both losses of one utterance as loops over torch scalars, differentiated by autograd: an oracle, and a slow one.

The explicit recursions of :mod:`reference_impl.ctc` and ``rnnt`` run unchanged on 0-dimensional tensors. No gradient is
written by hand here, which is what makes it an independent check of those that are; second derivatives come for free.
Probabilities are multiplied as they are, so this is for small lattices, in float64.
"""

from __future__ import annotations

import numpy as np
import torch

from .. import ctc, rnnt
from .._loss_value import minus
from .._validation import check_blank, check_rank, check_rows, check_targets
from ..semiring import REAL

__all__ = ["ctc_loss", "rnnt_loss"]


def ctc_loss(log_probs, targets, *, blank=0):
    """-log Z of one utterance in nats, by :func:`reference_impl.ctc.alpha` on torch scalars.

    Parameters
    ----------
    log_probs : (T, V) tensor
        Nats; need not be normalised; ``-inf`` masks an entry.
    targets : (U,) ints
        Labels in [0, V), none equal to ``blank``.
    blank : int

    Returns
    -------
    scalar tensor
        ``inf`` where no alignment exists, then with gradient 0.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> log_probs = torch.full((2, 2), 0.5, dtype=torch.float64).log().requires_grad_()
    >>> loss = ctc_loss(log_probs, [1])
    >>> loss.backward()
    >>> round(torch.exp(-loss).item(), 12), log_probs.grad.tolist()[0]
    (0.75, [-0.3333333333333333, -0.6666666666666666])
    """
    check_rank("log_probs", log_probs.shape, 2, "(T, V)")
    probs, targets, blank = _elements(log_probs, targets, blank)
    return _loss(ctc.Z(probs, targets, blank=blank, semiring=REAL), log_probs)


def rnnt_loss(log_probs, targets, *, blank=0):
    """-log Z of one utterance in nats, by :func:`reference_impl.rnnt.Z` on torch scalars.

    Parameters
    ----------
    log_probs : (T, U+1, V) tensor
    targets, blank
        As for :func:`ctc_loss`; so are what is returned and what is raised.

    Examples
    --------
    >>> log_probs = torch.full((2, 2, 2), 0.5, dtype=torch.float64).log().requires_grad_()
    >>> loss = rnnt_loss(log_probs, [1])
    >>> loss.backward()
    >>> round(torch.exp(-loss).item(), 12), log_probs.grad.tolist()[0]
    (0.25, [[-0.5, -0.5], [-0.5, 0.0]])
    """
    check_rank("log_probs", log_probs.shape, 3, "(T, U+1, V)")
    probs, targets, blank = _elements(log_probs, targets, blank)
    check_rows("log_probs", log_probs.shape[1], len(targets))
    return _loss(rnnt.Z(probs, targets, blank=blank, semiring=REAL), log_probs)


def _elements(log_probs, targets, blank):
    """Probabilities as an object array of 0-dimensional tensors, and checked targets and blank."""
    blank = check_blank(blank, log_probs.shape[-1])
    targets = check_targets(targets, log_probs.shape[-1], blank)
    probs = np.empty(log_probs.shape, dtype=object)
    for index in np.ndindex(probs.shape):
        probs[index] = log_probs[index].exp()
    return probs, targets, blank


def _loss(z, log_probs):
    if z == 0:  # log would pass on 0 / 0
        return torch.inf + 0.0 * log_probs.nan_to_num(0.0, 0.0, 0.0).sum()
    return minus(torch.log(torch.as_tensor(z, dtype=log_probs.dtype)))

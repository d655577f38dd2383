"""Any lattice as a loss of one utterance: -log Z, and its gradients by the gradient theorem. It knows no loss by name.

The arcs come from :mod:`reference_impl.topology`. This is the reference of all losses that have no module of their own,
and it is slow: :mod:`reference_impl.torch_impl` has those that one trains with.
"""

from __future__ import annotations

import numpy as np

from ._loss_value import minus
from ._softmax import log_softmax
from ._validation import check_entries, check_parts
from .lattice import Lattice, arc_posteriors, forward

__all__ = ["grad_log_probs", "grad_logits", "loss", "occupancy"]


def loss(lattice: Lattice, log_probs) -> float:
    """-log Z in nats, ``inf`` where the lattice has no path of positive weight.

    Parameters
    ----------
    lattice : Lattice
    log_probs : float array of shape ``lattice.shape``
        Nats; ``-inf`` masks an entry; need not be normalised.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> from reference_impl.topology import monotonic_rnnt_lattice
    >>> round(float(np.exp(-loss(monotonic_rnnt_lattice([1], 3, 2), np.log(np.full((3, 2, 2), 0.5))))), 12)
    0.375
    """
    return minus(float(forward(lattice, _weights(lattice, log_probs))[-1]))


def occupancy(lattice: Lattice, log_probs) -> np.ndarray:
    """Expected use of each entry by the paths, of shape ``lattice.shape``; parameters as for :func:`loss`."""
    return lattice.occupancy(arc_posteriors(lattice, _weights(lattice, log_probs)))


def grad_log_probs(lattice: Lattice, log_probs) -> np.ndarray:
    """d loss / d log_probs = -occupancy, entries taken as independent; parameters as for :func:`loss`."""
    return -occupancy(lattice, log_probs)


def grad_logits(lattice: Lattice, logits, *, groups=None) -> np.ndarray:
    """d loss / d logits, each row of which becomes log-probs by log-softmax: softmax times its occupancy, less that.

    In the book: eq-lattice-grad-logits.

    Parameters
    ----------
    lattice : Lattice
    logits : float array of shape ``lattice.shape``
    groups : sequence of ints, optional
        Sizes of the parts of a row that are normalised apart, such as ``(V, D)`` for the token-and-duration transducer.

    Examples
    --------
    >>> from reference_impl.topology import monotonic_rnnt_lattice
    >>> grad_logits(monotonic_rnnt_lattice([1], 1, 2), np.zeros((1, 2, 2))).tolist()
    [[[0.5, -0.5], [0.0, 0.0]]]
    """
    log_probs = [log_softmax(part) for part in check_parts("logits", logits, lattice.shape, groups)]
    cuts = np.cumsum([part.shape[-1] for part in log_probs])[:-1]
    expected = np.split(occupancy(lattice, np.concatenate(log_probs, -1)), cuts, axis=-1)
    return np.concatenate([np.exp(log_prob) * part.sum(-1, keepdims=True) - part
                           for log_prob, part in zip(log_probs, expected, strict=True)], -1)


def _weights(lattice, log_probs):
    return lattice.arc_weights(check_entries("log_probs", log_probs, lattice.shape))

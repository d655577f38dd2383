"""Second derivatives of any lattice's -log Z, and what else is a mean over paths: entropy, expected risk. NumPy.

By the gradient theorem the first derivatives are posteriors, so the second are covariances. A product of the Hessian
with a direction costs two sweeps, those of the gradient with :mod:`reference_impl.duals` for numbers; the matrix itself
is never needed. For losses to train with, :mod:`reference_impl.torch_impl` has the same by ``backward`` of a gradient.
"""

from __future__ import annotations

import numpy as np

from ._softmax import log_softmax
from ._validation import check_entries, check_finite, check_parts, check_weights
from .duals import LOG_DUAL, LogDual
from .lattice import Lattice, backward, forward

__all__ = ["entropy", "expectation", "expectation_grad_log_probs", "hvp_log_probs", "hvp_logits", "posterior_tangents"]


def posterior_tangents(lattice: Lattice, weights, direction) -> tuple[np.ndarray, np.ndarray]:
    """Arc posteriors, and how they change as the log-weights go in a direction.

    In the book: eq-second-directional.

    Parameters
    ----------
    lattice : Lattice
    weights : (len(arcs),) float array
        Log-weights, nats.
    direction : (len(arcs),) array of finite numbers

    Returns
    -------
    posteriors, tangents : (len(arcs),) float64 arrays
        A tangent is the covariance of "the path uses the arc" with the sum of the direction along the path:
        ``posterior * (mean of that sum over the paths with the arc - over all paths)``. All 0 where no path has mass.

    Examples
    --------
    >>> from reference_impl.lattice import Arc
    >>> lattice = Lattice((0, 1), (Arc(0, 1), Arc(0, 1)), ())
    >>> posterior_tangents(lattice, np.log([0.75, 0.25]), [1.0, 0.0])[1].round(12).tolist()
    [0.1875, -0.1875]
    """
    numbers = _numbers(lattice, weights, direction)
    alpha, beta = forward(lattice, numbers, LOG_DUAL), backward(lattice, numbers, LOG_DUAL)
    posteriors, tangents = np.zeros(len(numbers)), np.zeros(len(numbers))
    if alpha[-1].log_mass == -np.inf:
        return posteriors, tangents
    for i, arc in enumerate(lattice.arcs):
        through = LOG_DUAL.product([alpha[arc.source], numbers[i], beta[arc.target]])
        posteriors[i] = np.exp(through.log_mass - alpha[-1].log_mass)
        tangents[i] = posteriors[i] * (through.mean - alpha[-1].mean)
    return posteriors, tangents


def hvp_log_probs(lattice: Lattice, log_probs, direction) -> np.ndarray:
    """Hessian of the loss in the log-probs, times a direction: minus a covariance. Of shape ``lattice.shape``.

    Parameters
    ----------
    lattice : Lattice
    log_probs : float array of shape ``lattice.shape``
        Nats; entries are taken as independent.
    direction : array of finite numbers of shape ``lattice.shape``

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.
    """
    log_probs = check_entries("log_probs", log_probs, lattice.shape)
    direction = check_finite("direction", direction, lattice.shape)
    return -_occupancies(lattice, log_probs, direction)[1]


def hvp_logits(lattice: Lattice, logits, direction, *, groups=None) -> np.ndarray:
    """Hessian of the loss in the logits, times a direction; parameters as for :func:`hvp_log_probs`.

    The rows become log-probs by log-softmax; ``groups`` as for :func:`reference_impl.lattice_loss.grad_logits`.

    In the book: eq-second-logits.

    Examples
    --------
    One path only, so that the loss is a cross-entropy, with the Hessian of log-sum-exp:

    >>> from reference_impl.topology import rnnt_lattice
    >>> hvp_logits(rnnt_lattice([], 1, 2), np.zeros((1, 1, 2)), [[[1.0, 0.0]]]).tolist()
    [[[0.25, -0.25]]]
    """
    parts = check_parts("logits", logits, lattice.shape, groups)
    directions = check_parts("direction", check_finite("direction", direction, lattice.shape), lattice.shape, groups)
    log_probs = [log_softmax(part) for part in parts]
    y = [np.exp(part) for part in log_probs]
    inward = [part - (p * part).sum(-1, keepdims=True) for p, part in zip(y, directions, strict=True)]
    expected, change = _occupancies(lattice, np.concatenate(log_probs, -1), np.concatenate(inward, -1))
    cuts = np.cumsum([part.shape[-1] for part in parts])[:-1]
    result = []
    for p, step, e, de in zip(y, inward, *(np.split(each, cuts, -1) for each in (expected, change)), strict=True):
        result.append(p * step * e.sum(-1, keepdims=True) + p * de.sum(-1, keepdims=True) - de)
    return np.concatenate(result, -1)


def expectation(lattice: Lattice, log_probs, values) -> float:
    """Mean over the paths, by their posteriors, of the sum of ``values`` along the path; NaN where there is no path.

    Parameters
    ----------
    lattice : Lattice
    log_probs : float array of shape ``lattice.shape``
        Nats.
    values : array of finite numbers of shape ``lattice.shape``
        What the use of an entry adds, such as a risk.

    Examples
    --------
    The mean number of blanks in frame 0, of the two paths with a label in one of two frames:

    >>> from reference_impl.topology import monotonic_rnnt_lattice
    >>> values = np.zeros((2, 2, 2))
    >>> values[0, :, 0] = 1
    >>> expectation(monotonic_rnnt_lattice([1], 2, 2), np.zeros((2, 2, 2)), values)
    0.5
    """
    log_probs, values = _entries_and_values(lattice, log_probs, values)
    total = _total(lattice, log_probs, values)
    return float("nan") if total.log_mass == -np.inf else float(total.mean)


def expectation_grad_log_probs(lattice: Lattice, log_probs, values) -> np.ndarray:
    """d expectation / d log_probs, of shape ``lattice.shape``: a Hessian-vector product; parameters as above."""
    log_probs, values = _entries_and_values(lattice, log_probs, values)
    return _occupancies(lattice, log_probs, values)[1]


def entropy(lattice: Lattice, log_probs) -> float:
    """Of the path posterior, in nats: log Z less the mean of the paths' log-weights. NaN where there is no path.

    Examples
    --------
    >>> from reference_impl.topology import rnnt_lattice
    >>> round(float(np.exp(entropy(rnnt_lattice([1], 3, 2), np.zeros((3, 2, 2))))), 12)
    3.0
    """
    log_probs = check_entries("log_probs", log_probs, lattice.shape)
    total = _total(lattice, log_probs, np.where(log_probs == -np.inf, 0.0, log_probs))
    return float("nan") if total.log_mass == -np.inf else float(total.log_mass - total.mean)


def _entries_and_values(lattice, log_probs, values):
    return check_entries("log_probs", log_probs, lattice.shape), check_finite("values", values, lattice.shape)


def _numbers(lattice, weights, direction):
    weights = check_weights("weights", weights, (len(lattice.arcs),)).tolist()
    direction = check_finite("direction", direction, (len(lattice.arcs),)).tolist()
    return np.array([LogDual(*pair) for pair in zip(weights, direction, strict=True)], object)


def _along_arcs(lattice, values):
    return np.array([0.0 if arc.entry is None else values[arc.entry] for arc in lattice.arcs])


def _total(lattice, log_probs, values):
    numbers = _numbers(lattice, lattice.arc_weights(log_probs), _along_arcs(lattice, values))
    return forward(lattice, numbers, LOG_DUAL)[-1]


def _occupancies(lattice, log_probs, direction):
    """The occupancy of each entry, and its tangent."""
    arcs = posterior_tangents(lattice, lattice.arc_weights(log_probs), _along_arcs(lattice, direction))
    return tuple(lattice.occupancy(each) for each in arcs)

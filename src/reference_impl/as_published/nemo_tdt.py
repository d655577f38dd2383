"""NeMo's TDT and multi-blank kernels: the inputs of which data/nemo_tdt.json holds the results, and their leak.

Where 1 is not among the durations, their backward variable begins with mass 1 at the node (T-1, U) as well, as if an
arc without a score led from there to the end. Nothing in the JSON file was computed here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._softmax import log_softmax
from ..lattice import Arc, Lattice, backward, forward, on_grid
from ..lattice_loss import occupancy
from ..topology import multi_blank_rnnt_lattice, tdt_lattice

__all__ = ["corner_arc", "gradient", "inputs", "leaking", "leaking_gradient", "log_weights", "problem", "returned"]


def inputs(case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the kernels were given: logits of symbols (T, U+1, V) and of durations (T, U+1, D), and labels (U,)."""
    draw, sizes = np.random.default_rng(case["seed"]), (case["V"], len(case["frames"]))
    logits, durations = (draw.normal(size=(case["T"], case["U"] + 1, size)) for size in sizes)
    return logits, durations, draw.integers(0, 3, case["U"])


def problem(case) -> tuple[Lattice, np.ndarray, tuple[int, ...]]:
    """A case as a lattice, its logits side by side, and how many of them belong to each softmax."""
    logits, durations, labels = inputs(case)
    T, _, V = logits.shape
    if case["kind"] == "tdt":
        lattice = tdt_lattice(labels, T, V, durations=case["frames"], blank=V - 1)
        return lattice, np.concatenate([logits, durations], -1), (V, len(case["frames"]))
    big_blanks = {V - 2 - i: m for i, m in enumerate(case["frames"])}  # from the end
    return multi_blank_rnnt_lattice(labels, T, V, big_blanks=big_blanks, blank=V - 1), logits, (V,)


def log_weights(logits, groups, sigma=0.0) -> np.ndarray:
    """Log-softmax of each group of logits; sigma is subtracted from the first, the symbols.

    Examples
    --------
    >>> log_weights(np.zeros(4), (2, 2), sigma=1.0).round(3)
    array([-1.693, -1.693, -0.693, -0.693])
    """
    symbols, *durations = (log_softmax(part) for part in _parts(logits, groups))
    return np.concatenate([symbols - sigma, *durations], -1)


def gradient(lattice: Lattice, logits, groups, sigma=0.0) -> np.ndarray:
    """The true one, with respect to all logits: in each group softmax times its occupancy, less that.

    Examples
    --------
    >>> lattice = tdt_lattice([1], 2, 2, durations=[0, 1])
    >>> gradient(lattice, np.zeros(lattice.shape), (2, 2)).sum(-1).round(12).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    softmaxes = np.exp(log_weights(logits, groups))
    uses = occupancy(lattice, log_weights(logits, groups, sigma))
    pairs = zip(_parts(softmaxes, groups), _parts(uses, groups), strict=True)
    return np.concatenate([y * E.sum(-1, keepdims=True) - E for y, E in pairs], -1)


def returned(case) -> np.ndarray:
    """What the kernels returned for a case, with respect to all logits.

    With respect to the durations they return it for log-probs, and leave the log-softmax to autograd; here it is done.
    """
    _, logits, groups = problem(case)
    y, *durations = _parts(np.exp(log_weights(logits, groups)), groups)
    out = [np.reshape(case["grad_logits"], y.shape)]
    for q in durations:
        of_log_probs = np.reshape(case["grad_duration_log_probs"], q.shape)
        out.append(of_log_probs - q * of_log_probs.sum(-1, keepdims=True))
    return np.concatenate(out, -1)


def corner_arc(lattice: Lattice) -> Arc:
    """From (T-1, U) to the end; it uses no entry, so its weight is 1."""
    T, rows = lattice.shape[:2]
    return Arc(lattice.nodes.index((T - 1, rows - 1)), len(lattice.nodes) - 1)


def leaking(lattice: Lattice, log_weights) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z in nats, node occupancy (T, U+1) and occupancy of the entries, with the corner's arc for beta alone."""
    with_corner = replace(lattice, arcs=(*lattice.arcs, corner_arc(lattice)))
    weights = lattice.arc_weights(log_weights)
    alpha = forward(lattice, weights)
    beta = backward(with_corner, with_corner.arc_weights(log_weights))
    log_masses = [alpha[arc.source] + weight + beta[arc.target]
                  for arc, weight in zip(lattice.arcs, weights, strict=True)]
    occupancy = lattice.occupancy(np.exp(np.array(log_masses) - alpha[-1]))
    return alpha[-1], on_grid(lattice, np.exp(alpha + beta - alpha[-1])), occupancy


def leaking_gradient(lattice: Lattice, logits, groups, sigma=0.0) -> np.ndarray:
    """With respect to all logits, as the kernels make it of :func:`leaking`.

    For the symbols softmax times node occupancy, in which the corner has mass; for the durations each log-softmax.

    Examples
    --------
    >>> lattice = tdt_lattice([], 3, 2, durations=[2, 3])
    >>> leaking_gradient(lattice, np.zeros(lattice.shape), (2, 2)).sum(-1).round(12).tolist()
    [[0.0], [0.0], [1.0]]
    """
    _, nodes, uses = leaking(lattice, log_weights(logits, groups, sigma))
    y, q = _parts(np.exp(log_weights(logits, groups)), groups)
    E, F = _parts(uses, groups)
    return np.concatenate([y * nodes[..., None] - E, q * F.sum(-1, keepdims=True) - F], -1)


def _parts(array, groups):
    return np.split(array, np.cumsum(groups)[:-1], -1)

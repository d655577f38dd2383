"""Acyclic lattices: forward, backward, arc posteriors, and enumeration of paths, on any semiring.

This is the engine of the gradient theorem and the independent check of every loss. It knows nodes and arcs, not
CTC or RNN-T (those are built in :mod:`reference_impl.topology`), and it is written to be read, not to be fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._validation import check_at_least, check_division, check_lattice, check_weights
from .semiring import LOG, MAX, Semiring

__all__ = ["Arc", "Lattice", "Z", "arc_posteriors", "backward", "best_path", "enumerate_paths", "forward",
           "on_grid", "random_lattice"]


@dataclass(frozen=True)
class Arc:
    """One arc: from node ``source`` to node ``target``, using the log-prob entry ``entry`` (None: it uses none)."""

    source: int
    target: int
    entry: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Lattice:
    """An acyclic graph whose paths from node 0 to the last node are the alignments.

    Parameters
    ----------
    nodes : tuple
        A name for each node, such as ``(t, u)``, in topological order: every arc goes from a lower to a higher
        position. Node 0 is where every path starts, the last node is where it ends.
    arcs : tuple of Arc
    shape : tuple of int
        Shape of the array of log-prob entries that the arcs refer to.

    Raises
    ------
    ValueError
        If an arc does not go forward, or an entry lies outside ``shape``.

    Examples
    --------
    Two paths, one of which uses entry 0 and the other entries 1 and 2:

    >>> diamond = Lattice(("start", "middle", "end"), (Arc(0, 2, (0,)), Arc(0, 1, (1,)), Arc(1, 2, (2,))), (3,))
    >>> log_probs = np.log([0.5, 0.4, 0.25])
    >>> weights = diamond.arc_weights(log_probs)
    >>> round(float(np.exp(Z(diamond, weights))), 12)
    0.6
    >>> arc_posteriors(diamond, weights).round(4).tolist()
    [0.8333, 0.1667, 0.1667]
    """

    nodes: tuple[Any, ...]
    arcs: tuple[Arc, ...]
    shape: tuple[int, ...]

    def __post_init__(self):
        check_lattice(self)

    def arc_weights(self, log_probs: np.ndarray, semiring: Semiring = LOG) -> np.ndarray:
        """Gather: the weight of each arc, shape ``(len(arcs),)``; an arc without an entry weighs ``one``."""
        log_probs = check_weights("log_probs", log_probs, self.shape)
        weights = semiring.zeros((len(self.arcs),))
        for i, arc in enumerate(self.arcs):
            weights[i] = semiring.one if arc.entry is None else semiring.read(log_probs[arc.entry])
        return weights

    def occupancy(self, posteriors: np.ndarray) -> np.ndarray:
        """Scatter, the transpose of the gather: posteriors of all arcs that use an entry, added; of shape ``shape``."""
        posteriors = check_weights("posteriors", posteriors, (len(self.arcs),))
        total = np.zeros(self.shape, dtype=posteriors.dtype)
        for arc, posterior in zip(self.arcs, posteriors, strict=True):
            if arc.entry is not None:
                total[arc.entry] += posterior
        return total


def forward(
    lattice: Lattice, weights: np.ndarray, semiring: Semiring = LOG
) -> np.ndarray:
    """Mass of all paths from node 0 to each node.

    In the book: eq-lattice-forward.

    Parameters
    ----------
    lattice : Lattice
    weights : (len(arcs),) array of elements of the semiring
        On ``LOG``, log-weights in nats.
    semiring : Semiring

    Returns
    -------
    (len(nodes),) array
        The last element is :func:`Z`.
    """
    weights = check_weights("weights", weights, (len(lattice.arcs),))
    alpha = semiring.zeros((len(lattice.nodes),))
    alpha[0] = semiring.one
    arcs = range(len(lattice.arcs))
    for i in sorted(arcs, key=lambda i: lattice.arcs[i].source):
        arc = lattice.arcs[i]
        arriving = semiring.times(alpha[arc.source], weights[i])
        alpha[arc.target] = semiring.plus(alpha[arc.target], arriving)
    return alpha


def backward(
    lattice: Lattice, weights: np.ndarray, semiring: Semiring = LOG
) -> np.ndarray:
    """Mass of all paths from each node to the last one, shape ``(len(nodes),)``; parameters as for :func:`forward`.

    In the book: eq-lattice-backward.
    """
    weights = check_weights("weights", weights, (len(lattice.arcs),))
    beta = semiring.zeros((len(lattice.nodes),))
    beta[-1] = semiring.one
    arcs = range(len(lattice.arcs))
    for i in sorted(arcs, key=lambda i: -lattice.arcs[i].target):
        arc = lattice.arcs[i]
        leaving = semiring.times(weights[i], beta[arc.target])
        beta[arc.source] = semiring.plus(beta[arc.source], leaving)
    return beta


def Z(lattice: Lattice, arc_weights: np.ndarray, *, semiring: Semiring = LOG):
    """Mass of all paths from node 0 to the last node, an element of the semiring: log Z in nats on ``LOG``.

    In the book: def-lattice-total.

    Parameters
    ----------
    lattice : Lattice
    arc_weights : (len(arcs),) array of elements of the semiring
        As :meth:`Lattice.arc_weights` returns them.
    semiring : Semiring

    Examples
    --------
    >>> from reference_impl.semiring import COUNT
    >>> int(Z(Lattice((0, 1), (Arc(0, 1), Arc(0, 1)), ()), [1, 1], semiring=COUNT))
    2
    """
    return forward(lattice, arc_weights, semiring)[-1]


def arc_posteriors(lattice: Lattice, weights: np.ndarray, semiring: Semiring = LOG) -> np.ndarray:
    """Posterior probability that a path uses each arc: ``alpha(source) w beta(target) / Z``.

    In the book: eq-arc-posterior, by eq-gradient-theorem the gradient.

    Parameters
    ----------
    lattice : Lattice
    weights : (len(arcs),) array
        Log-weights in nats (``LOG``), or numbers that can be divided (``REAL``: floats, fractions, field elements).
    semiring : Semiring
        One with a ``ratio``.

    Returns
    -------
    (len(arcs),) array
        Plain numbers, of the semiring's dtype. By the gradient theorem this is d log Z / d log w(arc). All 0 where no
        path has mass.

    Raises
    ------
    ValueError
        If the semiring has no division.
    """
    check_division(semiring)
    alpha, beta = forward(lattice, weights, semiring), backward(lattice, weights, semiring)
    posteriors = np.zeros(len(lattice.arcs), dtype=semiring.dtype)
    if alpha[-1] == semiring.zero:
        return posteriors
    for i, arc in enumerate(lattice.arcs):
        through = semiring.times(semiring.times(alpha[arc.source], weights[i]), beta[arc.target])
        posteriors[i] = semiring.ratio(through, alpha[-1])
    return posteriors


def best_path(lattice: Lattice, weights: np.ndarray) -> tuple[int, ...]:
    """The path of the largest weight (Viterbi): a forced alignment. Of equal paths, the one whose last arcs come first.

    Parameters
    ----------
    lattice : Lattice
    weights : (len(arcs),) float array
        Log-weights, nats.

    Returns
    -------
    tuple of ints
        Arc positions from node 0 to the last node; empty where no path has mass.

    Examples
    --------
    >>> best_path(Lattice((0, 1, 2), (Arc(0, 2), Arc(0, 1), Arc(1, 2)), ()), np.log([0.3, 0.8, 0.5]))
    (1, 2)
    """
    alpha, entering = forward(lattice, weights, MAX), [[] for _ in lattice.nodes]
    for i, arc in enumerate(lattice.arcs):
        entering[arc.target].append(i)
    node, path = len(lattice.nodes) - 1, []
    while node > 0 and alpha[-1] > -np.inf:
        path.append(max(entering[node], key=lambda i: alpha[lattice.arcs[i].source] + weights[i]))
        node = lattice.arcs[path[-1]].source
    return tuple(reversed(path))


def enumerate_paths(lattice: Lattice) -> Iterator[Sequence[int]]:
    """Every path from node 0 to the last node, as a tuple of arc positions. Exponentially many: for small lattices.

    Examples
    --------
    >>> list(enumerate_paths(Lattice((0, 1), (Arc(0, 1), Arc(0, 1)), ())))
    [(0,), (1,)]
    """
    leaving = [[] for _ in lattice.nodes]
    for i, arc in enumerate(lattice.arcs):
        leaving[arc.source].append(i)

    def extend(node, path):
        if node == len(lattice.nodes) - 1:
            yield path
        for i in leaving[node]:
            yield from extend(lattice.arcs[i].target, (*path, i))

    return extend(0, ())


def on_grid(lattice: Lattice, values) -> np.ndarray:
    """Of one value for each node, those of the nodes named ``(t, u)``, as (T, rows).

    Examples
    --------
    >>> from reference_impl.topology import rnnt_lattice
    >>> two_frames = rnnt_lattice([1], 2, 3)
    >>> on_grid(two_frames, forward(two_frames, np.zeros(5))).round(3).tolist()
    [[0.0, 0.0], [0.0, 0.693]]
    """
    grid = np.zeros(lattice.shape[:2])
    for node, value in zip(lattice.nodes, values, strict=True):
        if isinstance(node, tuple) and len(node) == 2:
            grid[node] = value
    return grid


def random_lattice(rng: np.random.Generator, num_nodes: int, num_extra: int) -> Lattice:
    """A lattice of no loss, to try claims about all lattices on: a chain, so that a path exists, and random extra arcs.

    Parameters
    ----------
    rng : numpy Generator
    num_nodes : int
        At least 2.
    num_extra : int
        Number of arcs between random nodes; some of them are parallel.

    Returns
    -------
    Lattice
        Nodes ``0, 1, ...``; arc i uses entry ``(i,)``, so that no two arcs share one.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Examples
    --------
    >>> lattice = random_lattice(np.random.default_rng(0), 4, 2)
    >>> [(arc.source, arc.target) for arc in lattice.arcs]
    [(0, 1), (1, 2), (2, 3), (2, 3), (0, 1)]
    """
    num_nodes, num_extra = check_at_least("num_nodes", num_nodes, 2), check_at_least("num_extra", num_extra, 0)
    ends = [(m, m + 1) for m in range(num_nodes - 1)]
    ends += [sorted(rng.choice(num_nodes, 2, replace=False).tolist()) for _ in range(num_extra)]
    arcs = tuple(Arc(source, target, (i,)) for i, (source, target) in enumerate(ends))
    return Lattice(tuple(range(num_nodes)), arcs, (len(arcs),))

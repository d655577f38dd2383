"""The lattice of one utterance, with the weight of each arc and the frame and state of each node. Nothing is read off.

All that is computed of it is :mod:`reference_impl.lattice`'s: forward masses, arc posteriors, the best path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _validation
from ..lattice import Lattice, Z, arc_posteriors, backward, best_path, forward
from ..semiring import MAX
from ..topology import ctc_lattice, rnnt_lattice

__all__ = ["Arcs", "added", "ctc_arcs", "rnnt_arcs"]


@dataclass(frozen=True)
class Arcs:
    """A lattice and its arcs as arrays.

    Parameters
    ----------
    lattice : Lattice
    weights : (A,) float64 array
        Of the arcs, nats.
    sources, targets : (A, 2) int64 arrays
        Frame and state (CTC) or row (RNN-T) of the node that an arc leaves, and of the one that it enters.
    """

    lattice: Lattice
    weights: np.ndarray
    sources: np.ndarray
    targets: np.ndarray

    @property
    def moves(self) -> np.ndarray:
        """(A,) bools: arcs that change the state or the row, so that some label's run begins or ends, or is written."""
        return self.sources[:, 1] != self.targets[:, 1]

    def best_path(self) -> np.ndarray:
        """Positions of the arcs of the best path."""
        path = best_path(self.lattice, self.weights)
        if not path:
            raise self.no_path()
        return np.array(path)

    def posteriors(self) -> np.ndarray:
        """Of all arcs, (A,)."""
        posteriors = arc_posteriors(self.lattice, self.weights)
        if not posteriors.any():
            raise self.no_path()
        return posteriors

    def share_without(self, left_out) -> float:
        """Probability that a path uses none of the arcs ``left_out``, (A,) bools."""
        whole, rest = (float(Z(self.lattice, weights)) for weights in (
            self.weights, np.where(left_out, -np.inf, self.weights)))
        if whole == -np.inf:
            raise self.no_path()
        return float(np.exp(rest - whole))

    def no_path(self):
        """The error where no path has mass. It names the last frame into which a path could have gone on."""
        alive = forward(self.lattice, self.weights, MAX) > -np.inf
        on_time = backward(self.lattice, np.zeros(len(self.weights)), MAX) > -np.inf
        return _validation.no_path_beyond(max(
            arc.entry[0] for arc in self.lattice.arcs if arc.entry and alive[arc.source] and on_time[arc.target]))


def _with_nodes(lattice, log_probs, nodes):
    nodes = np.array(nodes)
    sources, targets = (nodes[[getattr(arc, end) for arc in lattice.arcs]] for end in ("source", "target"))
    return Arcs(lattice, lattice.arc_weights(log_probs), sources, targets)


def ctc_arcs(log_probs, targets, blank) -> Arcs:
    """Of CTC. A path starts in frame -1 in a blank before all others, and ends in frame T in one after them."""
    log_probs = _validation.check_log_probs("log_probs", log_probs, 2, "(T, V)")
    T, V = log_probs.shape
    targets = _validation.check_targets(targets, V, _validation.check_blank(blank, V))
    _validation.check_frames_for(targets, T)
    arcs = ctc_lattice(targets, T, V, blank=blank)
    return _with_nodes(arcs, log_probs, [(-1, -2), *arcs.nodes[1:-1], (T, 2 * len(targets) + 2)])


def rnnt_arcs(log_probs, targets, blank) -> Arcs:
    """Of RNN-T. A path ends in frame T, after the last blank."""
    log_probs = _validation.check_log_probs("log_probs", log_probs, 3, "(T, U+1, V)")
    T, rows, V = log_probs.shape
    _validation.check_at_least("T", T, 1)
    targets = _validation.check_targets(targets, V, _validation.check_blank(blank, V))
    _validation.check_rows("log_probs", rows, len(targets))
    arcs = rnnt_lattice(targets, T, V, blank=blank)
    return _with_nodes(arcs, log_probs, [*arcs.nodes[:-1], (T, len(targets))])


def added(weights) -> float:
    """Sum of the weights of a path, added one after another, as the recursions add them: the bits are the same.

    Since Python 3.12 the built-in ``sum`` carries the rounding errors of floats along, and NumPy's adds in pairs.

    Examples
    --------
    >>> added(np.array([1e16, 1.0, 1.0])) == 1e16 + 1.0 + 1.0
    True
    """
    return weights.cumsum()[-1].item()

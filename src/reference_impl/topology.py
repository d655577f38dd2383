"""Lattice builders: which arcs a loss has, and which log-prob entry each of them uses. One builder for each loss."""

from __future__ import annotations

from . import _validation
from .ctc import can_skip, extended_targets
from .lattice import Arc, Lattice

__all__ = ["ctc_lattice", "monotonic_rnnt_lattice", "rnnt_lattice"]


def ctc_lattice(targets, num_frames, num_symbols, *, blank=0) -> Lattice:
    """The CTC lattice: from a start node through nodes ``(t, s)``, one frame an arc, to an end node.

    Parameters
    ----------
    targets : (U,) ints
        Labels, none equal to ``blank``.
    num_frames, num_symbols : int
        T and V: the arcs refer to entries ``(t, k)`` of a ``(T, V)`` array.
    blank : int

    Returns
    -------
    Lattice
        The arc into ``(t, s)`` uses entry ``(t, extended_targets[s])``; from state s a path stays, moves one state
        on, or skips a blank between two different labels (Graves et al. 2006, eq. 6). The two arcs into the end
        node, from the last two states, use no entry.

    Examples
    --------
    >>> lattice = ctc_lattice([1], num_frames=2, num_symbols=3)
    >>> lattice.nodes[1:4], len(lattice.arcs)
    (((0, 0), (0, 1), (0, 2)), 9)
    """
    blank = _validation.check_blank(blank, num_symbols)
    targets = _validation.check_targets(targets, num_symbols, blank)
    extended = extended_targets(targets, blank=blank)
    T, S = num_frames, len(extended)

    def node(t, s):
        return 1 + t * S + s

    end = 1 + T * S
    arcs = [Arc(0, node(0, s), (0, int(extended[s]))) for s in range(min(2, S)) if T > 0]
    for t in range(1, T):
        for s in range(S):
            steps = (0, 1, 2) if can_skip(extended, s) else (0, 1)
            arcs += [Arc(node(t - 1, s - d), node(t, s), (t, int(extended[s]))) for d in steps if s >= d]
    if T > 0:
        arcs += [Arc(node(T - 1, s), end) for s in range(max(S - 2, 0), S)]
    elif S == 1:
        arcs.append(Arc(0, end))
    nodes = ("start", *((t, s) for t in range(T) for s in range(S)), "end")
    return Lattice(nodes, tuple(arcs), (T, num_symbols))


def rnnt_lattice(targets, num_frames, num_symbols, *, blank=0) -> Lattice:
    """The RNN-T lattice: nodes ``(t, u)``, a blank arc to ``(t+1, u)``, a label arc to ``(t, u+1)``.

    Parameters
    ----------
    targets : (U,) ints
        Labels, none equal to ``blank``.
    num_frames, num_symbols : int
        T >= 1 and V: the arcs refer to entries ``(t, u, k)`` of a ``(T, U+1, V)`` array.
    blank : int

    Returns
    -------
    Lattice
        Graves 2012, figure 1. The last blank, from ``(T-1, U)``, leads to the end node.

    Examples
    --------
    >>> lattice = rnnt_lattice([1, 2], num_frames=3, num_symbols=4)
    >>> len(lattice.nodes), len(lattice.arcs)
    (10, 13)
    """
    return _transducer(targets, num_frames, num_symbols, blank, frames_of_label=0)


def monotonic_rnnt_lattice(targets, num_frames, num_symbols, *, blank=0) -> Lattice:
    """The lattice of monotonic RNN-T: as :func:`rnnt_lattice`, but a label advances one frame, too: to ``(t+1, u+1)``.

    Parameters
    ----------
    targets, num_frames, num_symbols, blank
        As for :func:`rnnt_lattice`; so are the entries ``(t, u, k)`` that the arcs refer to.

    Returns
    -------
    Lattice
        Each frame emits exactly one symbol, as in CTC, and each symbol depends on the labels so far, as in RNN-T. There
        is no last blank: what the last frame emits, blank or label, leads to the end. No path if U > T.

    Examples
    --------
    >>> lattice = monotonic_rnnt_lattice([1, 2], num_frames=3, num_symbols=4)
    >>> len(lattice.nodes), len(lattice.arcs)
    (10, 12)
    """
    return _transducer(targets, num_frames, num_symbols, blank, frames_of_label=1)


def _transducer(targets, num_frames, num_symbols, blank, frames_of_label):
    """The grid of nodes (t, u) and an end: a blank takes one frame, a label as many as given, 0 or 1."""
    blank = _validation.check_blank(blank, num_symbols)
    targets = _validation.check_targets(targets, num_symbols, blank)
    T, U = _validation.check_at_least("num_frames", num_frames, 1), len(targets)

    def node(t, u):
        return t * (U + 1) + u if t < T else T * (U + 1)

    nodes = tuple((t, u) for t in range(T) for u in range(U + 1))
    arcs = []
    for t, u in nodes:
        steps = [(t + 1, u, blank)]
        if u < U:
            steps.append((t + frames_of_label, u + 1, int(targets[u])))
        arcs += [Arc(node(t, u), node(to_t, to_u), (t, u, symbol)) for to_t, to_u, symbol in steps
                 if to_t < T or to_u == U]  # behind the last frame there is only the end, with all labels out
    return Lattice((*nodes, "end"), tuple(arcs), (T, U + 1, num_symbols))

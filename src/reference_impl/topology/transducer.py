"""Lattices of one row of scores for each frame and each number of labels so far: RNN-T and its relatives."""

from __future__ import annotations

import numpy as np

from .. import _validation
from ..lattice import Arc, Lattice
from .named import checked_grid, grid_lattice

__all__ = ["constrained_rnnt_lattice", "monotonic_rnnt_lattice", "multi_blank_rnnt_lattice", "pruned_rnnt_lattice",
           "rnnt_lattice", "tdt_lattice"]


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
        The grid of Graves 2012. The last blank, from ``(T-1, U)``, leads to the end node.

    Examples
    --------
    >>> lattice = rnnt_lattice([1, 2], num_frames=3, num_symbols=4)
    >>> len(lattice.nodes), len(lattice.arcs)
    (10, 13)
    """
    return _transducer(targets, num_frames, num_symbols, blank, label_frames=0)


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
    return _transducer(targets, num_frames, num_symbols, blank, label_frames=1)


def constrained_rnnt_lattice(targets, num_frames, num_symbols, *, blank=0) -> Lattice:
    """RNN-T with at most one label in a frame: after a label, the frame's blank has to follow.

    In k2 this type is called "constrained" :claim:`k2-type-names, k2-constrained`.

    Parameters
    ----------
    targets, num_frames, num_symbols, blank
        As for :func:`rnnt_lattice`; so are the entries ``(t, u, k)`` that the arcs refer to.

    Returns
    -------
    Lattice
        A path that has emitted a label stands at a node ``(t, u, "label")``, which only the blank arc leaves.

    Examples
    --------
    >>> lattice = constrained_rnnt_lattice([1], num_frames=2, num_symbols=3)
    >>> [(lattice.nodes[arc.source], lattice.nodes[arc.target]) for arc in lattice.arcs][:3]
    [((0, 0), (1, 0)), ((0, 0), (0, 1, 'label')), ((0, 1, 'label'), (1, 1))]
    """
    blank, targets, T, U = checked_grid(targets, num_frames, num_symbols, blank)
    arcs = []
    for t in range(T):
        for u in range(U + 1):
            arcs.append(((t, u), (t + 1, u), (t, u, blank)))
            if u < U:
                arcs.append(((t, u), (t, u + 1, "label"), (t, u, targets[u])))
                arcs.append(((t, u + 1, "label"), (t + 1, u + 1), (t, u + 1, blank)))
    nodes = [node for t in range(T) for u in range(U + 1) for node in ((t, u), (t, u, "label"))[:1 + (u > 0)]]
    return grid_lattice(T, U, nodes, arcs, (T, U + 1, num_symbols))


def multi_blank_rnnt_lattice(targets, num_frames, num_symbols, *, big_blanks, blank=0) -> Lattice:
    """RNN-T with big blanks (Xu et al. 2022): as :func:`rnnt_lattice`, and symbols that go on several frames at once.

    Parameters
    ----------
    targets, num_frames, num_symbols, blank
        As for :func:`rnnt_lattice`; so are the entries ``(t, u, k)`` that the arcs refer to.
    big_blanks : mapping from int to int
        The frames, at least 2, that each big blank goes on. Big blanks are symbols in [0, V), none of them ``blank``,
        and are no labels.

    Returns
    -------
    Lattice
        Paths end with a blank, big or not, that goes exactly to the end of the last frame.

    Examples
    --------
    >>> lattice = multi_blank_rnnt_lattice([1], 3, 4, big_blanks={2: 2, 3: 3})
    >>> sum(arc.entry[2] == 2 for arc in lattice.arcs), sum(arc.entry[2] == 3 for arc in lattice.arcs)
    (3, 1)
    """
    big_blanks = _validation.check_big_blanks(big_blanks, num_symbols, blank)
    blank, targets, T, U = checked_grid(targets, num_frames, num_symbols, blank, *(symbol for symbol, _ in big_blanks))
    arcs = []
    for t, u in np.ndindex(T, U + 1):
        arcs += [((t, u), (t + frames, u), (t, u, symbol)) for symbol, frames in ((blank, 1), *big_blanks)]
        if u < U:
            arcs.append(((t, u), (t, u + 1), (t, u, targets[u])))
    return grid_lattice(T, U, np.ndindex(T, U + 1), arcs, (T, U + 1, num_symbols))


def tdt_lattice(targets, num_frames, num_symbols, *, durations, blank=0, final_blank=True) -> Lattice:
    """The token-and-duration transducer (Xu et al. 2023): a symbol, and then how many frames to go on.

    Parameters
    ----------
    targets, num_frames, num_symbols, blank
        As for :func:`rnnt_lattice`.
    durations : sequence of ints
        Frames to go on, each at least 0, in rising order. 0 is for labels only.
    final_blank : bool
        Whether a path has to end with a blank, as in the library that the loss comes with. False: the last label may go
        to the end of the last frame itself, as the paper's equations (6) to (8) have it.

    Returns
    -------
    Lattice
        Of entries ``(t, u, k)`` with the symbols 0 to V-1 in front, and duration number i at ``k = V + i``: what the
        network returns for a node, side by side. A symbol leads from ``(t, u)`` to ``(t, u, "blank")`` or
        ``(t, u, "label")``, a duration on from there. The last arc goes exactly to the end of the last frame.

    Examples
    --------
    >>> lattice = tdt_lattice([1], 3, 3, durations=[0, 2])
    >>> [(lattice.nodes[arc.source], lattice.nodes[arc.target], arc.entry) for arc in lattice.arcs if arc.source == 2]
    [((0, 0, 'label'), (0, 1), (0, 0, 3)), ((0, 0, 'label'), (2, 1), (0, 0, 4))]
    """
    durations = _validation.check_durations(durations)
    blank, targets, T, U = checked_grid(targets, num_frames, num_symbols, blank)
    nodes, arcs = [], []
    for t, u in np.ndindex(T, U + 1):
        nodes += [(t, u), (t, u, "blank")]
        arcs.append(((t, u), (t, u, "blank"), (t, u, blank)))
        arcs += [((t, u, "blank"), (t + frames, u), (t, u, num_symbols + i))
                 for i, frames in enumerate(durations) if frames > 0]
        if u < U:
            nodes.append((t, u, "label"))
            arcs.append(((t, u), (t, u, "label"), (t, u, targets[u])))
            arcs += [((t, u, "label"), (t + frames, u + 1), (t, u, num_symbols + i))
                     for i, frames in enumerate(durations) if t + frames < T or not final_blank]
    return grid_lattice(T, U, nodes, arcs, (T, U + 1, num_symbols + len(durations)))


def pruned_rnnt_lattice(targets, first_rows, num_rows, num_symbols, *, blank=0, label_frames=0) -> Lattice:
    """A band of the RNN-T lattice, as in pruned RNN-T (Kuang et al. 2022): in each frame a few rows next to each other.

    Parameters
    ----------
    targets, num_symbols, blank
        As for :func:`rnnt_lattice`.
    first_rows : (T,) ints
        T >= 1; the lowest row of the band in each frame, at least 0.
    num_rows : int
        Its height Q, at least 1.
    label_frames : 0 or 1
        Frames that a label advances: 0 as in :func:`rnnt_lattice`, 1 as in :func:`monotonic_rnnt_lattice`.

    Returns
    -------
    Lattice
        Of entries ``(t, r, k)`` in a ``(T, Q, V)`` array: row ``r`` of frame t is row ``first_rows[t] + r`` of the
        grid. No arc leaves a node outside the band, so that its paths are those of the whole lattice that stay inside.

    Examples
    --------
    >>> lattice = pruned_rnnt_lattice([1, 2], [0, 0, 1], 2, 4)
    >>> len(lattice.arcs), lattice.shape
    (10, (3, 2, 4))
    """
    first_rows = _validation.check_integers("first_rows", first_rows, 1, "(T,)")
    Q = _validation.check_at_least("num_rows", num_rows, 1)
    label_frames = _validation.check_choice("label_frames", label_frames, (0, 1))
    blank, targets, T, U = checked_grid(targets, len(first_rows), num_symbols, blank)
    for t, first in enumerate(first_rows.tolist()):
        _validation.check_at_least(f"first_rows[{t}]", first, 0)
    whole = _transducer(targets, T, num_symbols, blank, label_frames)
    arcs = []
    for arc in whole.arcs:
        t, u, symbol = arc.entry
        if 0 <= u - first_rows[t] < Q:
            arcs.append(Arc(arc.source, arc.target, (t, int(u - first_rows[t]), symbol)))
    return Lattice(whole.nodes, tuple(arcs), (T, Q, num_symbols))


def _transducer(targets, num_frames, num_symbols, blank, label_frames):
    """Nodes (t, u): a blank goes one frame on, a label as many as given, 0 or 1."""
    blank, targets, T, U = checked_grid(targets, num_frames, num_symbols, blank)
    arcs = []
    for t, u in np.ndindex(T, U + 1):
        arcs.append(((t, u), (t + 1, u), (t, u, blank)))
        if u < U:
            arcs.append(((t, u), (t + label_frames, u + 1), (t, u, targets[u])))
    return grid_lattice(T, U, np.ndindex(T, U + 1), arcs, (T, U + 1, num_symbols))

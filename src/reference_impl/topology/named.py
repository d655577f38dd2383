"""What the builders share: arcs between named nodes, and the checks of their arguments. No loss is here."""

from __future__ import annotations

from .. import _validation
from ..lattice import Arc, Lattice

__all__ = ["checked_grid", "grid_lattice", "named_lattice"]


def named_lattice(nodes, arcs, shape) -> Lattice:
    """A lattice of nodes in topological order and arcs ``(source, target, entry)`` between their names.

    Parameters
    ----------
    nodes : iterable
        Names, such as ``(t, u)``; every arc leads from a name to a later one. All paths start in the first and end in
        the last.
    arcs : iterable of (source, target, entry)
        Two names, and the index of the log-prob that the arc uses, or None.
    shape : tuple of int
        Of the array of log-probs.

    Returns
    -------
    Lattice

    Examples
    --------
    >>> named_lattice("abc", [("a", "b", (0,)), ("b", "c", (1,)), ("a", "c", None)], (2,)).arcs[2]
    Arc(source=0, target=2, entry=None)
    """
    nodes = tuple(nodes)
    position = {node: i for i, node in enumerate(nodes)}
    arcs = tuple(Arc(position[source], position[target], entry) for source, target, entry in arcs)
    return Lattice(nodes, arcs, shape)


def grid_lattice(T, U, nodes, arcs, shape) -> Lattice:
    """The same on a grid: paths end behind frame T - 1 with U labels out; arcs that leave it elsewhere are none.

    The node ``(T, U)`` that arcs name is called "end".
    """
    nodes = tuple(nodes)
    inside = {*nodes, (T, U)}
    return named_lattice((*nodes, "end"), [(source, "end" if target == (T, U) else target, entry)
                                           for source, target, entry in arcs if target in inside], shape)


def checked_grid(targets, num_frames, num_symbols, *blanks):
    """The blank, the labels as plain ints, T and U; no label may be one of the blanks."""
    blank = _validation.check_blank(blanks[0], _validation.check_int("V", num_symbols))
    for each in blanks:
        labels = _validation.check_targets(targets, num_symbols, each)
    return blank, labels.tolist(), _validation.check_at_least("num_frames", num_frames, 1), len(labels)

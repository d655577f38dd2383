"""Lattices of one row of scores a frame: CTC, and its relatives for targets that are not the whole truth.

These lattices check the recursions of :mod:`reference_impl.ctc`, so nothing is taken from there: which states there
are, and which of them a path may skip, is written out once more.
"""

from __future__ import annotations

import numpy as np

from .. import _validation
from ..lattice import Lattice
from .named import checked_grid, grid_lattice, named_lattice

__all__ = ["ctc_lattice", "star_ctc_lattice", "star_log_probs", "wildcard_ctc_lattice"]


def _states(targets, blank):
    """For each state its symbol, and whether a path may enter it past a blank: from a label into a different label."""
    symbols, past_blank = [blank], [False]
    for u, label in enumerate(targets):
        symbols += [label, blank]
        past_blank += [u > 0 and label != targets[u - 1], False]
    return symbols, past_blank


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
        State s is a blank if s is even, and label (s - 1) / 2 if it is odd. The arc into ``(t, s)`` uses the entry of
        that symbol in frame t; from state s a path stays, moves one state on, or skips a blank between two different
        labels (Graves et al. 2006, eq. 6). The two arcs into the end node, from the last two states, use no entry.

    Examples
    --------
    >>> lattice = ctc_lattice([1], num_frames=2, num_symbols=3)
    >>> lattice.nodes[1:4], len(lattice.arcs)
    (((0, 0), (0, 1), (0, 2)), 9)
    """
    blank = _validation.check_blank(blank, _validation.check_int("V", num_symbols))
    targets = _validation.check_targets(targets, num_symbols, blank).tolist()
    symbols, past_blank = _states(targets, blank)
    T, S = num_frames, len(symbols)

    arcs = [("start", (0, s), (0, symbols[s])) for s in range(min(2, S)) if T > 0]
    for t in range(1, T):
        for s in range(S):
            steps = (0, 1, 2) if past_blank[s] else (0, 1)
            arcs += [((t - 1, s - d), (t, s), (t, symbols[s])) for d in steps if s >= d]
    if T > 0:
        arcs += [((T - 1, s), "end", None) for s in range(max(S - 2, 0), S)]
    elif S == 1:
        arcs.append(("start", "end", None))
    return named_lattice(["start", *np.ndindex(T, S), "end"], arcs, (T, num_symbols))


def wildcard_ctc_lattice(targets, num_frames, num_symbols, *, blank=0) -> Lattice:
    """CTC with a wildcard at both ends, after W-CTC (Cai et al. 2022): the target may begin and end at any frame.

    Parameters
    ----------
    targets, num_frames, num_symbols, blank
        As for :func:`ctc_lattice`, with one frame at least.

    Returns
    -------
    Lattice
        The frames before and after are passed by arcs without an entry, of weight 1: nodes ``("before", t)`` and
        ``("after", t)`` with t frames done. In between are the nodes ``(t, s)`` of the CTC lattice, at least one frame.

    Examples
    --------
    >>> from reference_impl.lattice_loss import loss
    >>> round(float(np.exp(-loss(wildcard_ctc_lattice([1], 2, 2), np.log(np.full((2, 2), 0.5))))), 12)
    1.75
    """
    T = _validation.check_at_least("num_frames", num_frames, 1)
    inside = ctc_lattice(targets, T, num_symbols, blank=blank)
    symbols, _ = _states(np.asarray(targets, np.int64).tolist(), int(blank))
    S, nodes = len(symbols), []
    arcs = [(inside.nodes[arc.source], inside.nodes[arc.target], arc.entry)
            for arc in inside.arcs if inside.nodes[arc.source] != "start" and inside.nodes[arc.target] != "end"]
    for t in range(T):
        nodes += [("before", t), *((t, s) for s in range(S)), ("after", t + 1)]
        arcs += [(("before", t), (t, s), (t, symbols[s])) for s in range(min(2, S))]
        arcs += [((t, s), ("after", t + 1), None) for s in range(max(S - 2, 0), S)]
        if t > 0:
            arcs += [(("before", t - 1), ("before", t), None), (("after", t), ("after", t + 1), None)]
    return named_lattice(nodes, arcs, inside.shape)


def star_ctc_lattice(targets, num_frames, num_symbols, *, blank=0) -> Lattice:
    """Labels that may have gone missing, after star temporal classification (Pratap et al. 2022).

    Parameters
    ----------
    targets, num_frames, num_symbols, blank
        As for :func:`rnnt_lattice`.

    Returns
    -------
    Lattice
        Nodes ``(t, u)``: t frames done, u labels of the target seen. A frame holds the blank, the next label, or a
        *star*, any label but the next. Of entries ``(t, k)`` with 2 V columns, as :func:`star_log_probs` returns them:
        V + k is the star that leaves label k out, V + blank, in the last row, the one that leaves none out. Runs are
        not merged.

    Examples
    --------
    The target is a subsequence of the labels of all frames:

    >>> from reference_impl.lattice_loss import loss
    >>> scores = star_log_probs(np.log(np.full((2, 3), 1 / 3)))
    >>> round(9 * float(np.exp(-loss(star_ctc_lattice([1], 2, 3), scores))), 12)
    5.0
    """
    blank, targets, T, U = checked_grid(targets, num_frames, num_symbols, blank)
    arcs = []
    for t, u in np.ndindex(T, U + 1):
        left_out = targets[u] if u < U else blank
        arcs += [((t, u), (t + 1, u), (t, blank)), ((t, u), (t + 1, u), (t, num_symbols + left_out))]
        if u < U:
            arcs.append(((t, u), (t + 1, u + 1), (t, targets[u])))
    return grid_lattice(T, U, np.ndindex(T, U + 1), arcs, (T, 2 * num_symbols))


def star_log_probs(log_probs, *, blank=0, star_weight=0.0) -> np.ndarray:
    """Log-probs (..., V) and beside them those of the stars, for :func:`star_ctc_lattice`: (..., 2 V), nats.

    Column V + k is the log of the sum over all labels but k, V + blank over all labels. ``star_weight``, in nats and
    usually below 0, is added to these.

    Examples
    --------
    >>> np.exp(star_log_probs(np.log([0.5, 0.25, 0.25]))).tolist()
    [0.5, 0.25, 0.25, 0.5, 0.25, 0.25]
    """
    log_probs = np.asarray(log_probs)
    log_probs = _validation.check_log_probs("log_probs", log_probs, max(log_probs.ndim, 1), "(..., V)")
    V = log_probs.shape[-1]
    blank = _validation.check_blank(blank, V)
    star_weight = _validation.check_real("star_weight", star_weight, "a finite number", lambda value: True)
    labels = np.where(np.arange(V) == blank, -np.inf, log_probs)
    stars = [np.logaddexp.reduce(np.where(np.arange(V) == k, -np.inf, labels), axis=-1) for k in range(V)]
    return np.concatenate([log_probs, np.stack(stars, -1) + star_weight], -1)

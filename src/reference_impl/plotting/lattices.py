"""Lattices drawn: nodes, arcs as strong as their posteriors, the moves and walks that they allow."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from .._validation import check_weights
from ..lattice import Lattice
from .style import BLUE, GREY, ORANGE


def plot_lattice(lattice: Lattice, *, posteriors=None, changes=None, path=None, node_labels=None, arc_labels=None,
                 rows=None, row_axis="", time_axis="frame $t$", downward=False, aside=None, inside=False, beside=None,
                 ax=None):
    """Draw a lattice whose nodes are named ``(t, row)``: time to the right, rows up (or down).

    A node that has more in its name, such as ``(t, row, "label")``, is an inner node of ``(t, row)``, and is not drawn
    unless ``aside`` gives it a place: an arc that leaves it starts at ``(t, row)``, and one between the two is left
    out. Arcs that go on several frames in
    one row are curved, so that they pass by the nodes between.

    Parameters
    ----------
    lattice : Lattice
    posteriors : (len(arcs),) array, optional
        Posterior of each arc: drawn as its width and strength.
    changes : (len(arcs),) array, optional
        Instead: a signed number for each arc, blue if positive, orange if negative, strongest at the largest.
    path : sequence of arc positions, optional
        Drawn in orange on top.
    node_labels, arc_labels : sequence of str, optional
        A text for each node, beside it on the side that faces away from the middle, and one for each arc, upon it.
    rows : sequence of str, optional
        A tick label for each row.
    row_axis, time_axis : str
        Labels of the vertical and of the horizontal axis.
    downward : bool
        Rows count downward, as CTC lattices are usually drawn.
    aside : mapping from str to (float, float), optional
        How far from ``(t, row)`` a node ``(t, row, kind)`` stands, by its kind; (0, 0) for those that are not named.
    inside : bool
        Write the nodes' labels into them, instead of beside them.
    beside : sequence of str, optional
        A second text for each node, in bold, beside it; a label that stands there is nearer.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is not one posterior, change or label for each arc, or one label or text for each node.
    """
    ax = ax or plt.gca()
    place = _places(lattice, aside or {})
    for arc, weight, color in zip(lattice.arcs, *_strokes(lattice, posteriors, changes), strict=True):
        if place[arc.source] != place[arc.target]:
            _draw_arrow(ax, place[arc.source], place[arc.target], color=color, inside=inside,
                        width=0.5 + 2.5 * weight, alpha=min(1.0, 0.12 + 0.88 * weight))
    for i in path or ():
        _draw_arrow(ax, place[lattice.arcs[i].source], place[lattice.arcs[i].target], ORANGE, width=2.6, alpha=1.0,
                    inside=inside)
    _label_arcs(ax, lattice, place, arc_labels)
    if node_labels is not None and inside:
        _label_inside(ax, lattice, place, node_labels)
    elif node_labels is not None:
        _label_beside(ax, lattice, place, "node_labels", node_labels, downward, distance=15)
    if beside is not None:
        _label_beside(ax, lattice, place, "beside", beside, downward, distance=24 if inside else 33, weight="bold")
    x, y = np.array(list(dict.fromkeys(place.values()))).T
    ax.scatter(x, y, s=70, facecolor="white", edgecolor=BLUE, linewidth=1.4, zorder=3)
    times = sorted({t for t, _ in _grid_nodes(lattice)})
    ax.set_xticks(times)
    count = 1 + max(row for _, row in _grid_nodes(lattice))
    ax.set_yticks(range(count), labels=rows if rows is not None else [str(row) for row in range(count)])
    ax.set(xlabel=time_axis, ylabel=row_axis, xlim=(x.min() - 0.5, x.max() + 0.5),
           ylim=(count - 0.5, -0.5) if downward else (-0.5, count - 0.5))
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    return ax


def _strokes(lattice, posteriors, changes):
    """How strong each arc is drawn, in [0, 1], and its colour."""
    count, ink = len(lattice.arcs), "#31373f"
    if changes is not None:
        changes = check_weights("changes", changes, (count,)).astype(float)
        largest = max(np.abs(changes).max(initial=0.0), 1e-300)
        return np.abs(changes) / largest, [BLUE if change > 0 else ORANGE for change in changes]
    if posteriors is None:
        return [0.35] * count, [ink] * count
    return check_weights("posteriors", posteriors, (count,)).astype(float), [ink] * count


def _grid_nodes(lattice):
    return [name[:2] for name in lattice.nodes if isinstance(name, tuple)]


def _places(lattice, aside):
    """Coordinates of each node position; the start and end nodes stand beside the grid."""
    last_t = max(t for t, _ in _grid_nodes(lattice))
    last_row = max(row for _, row in _grid_nodes(lattice))
    beside = {"start": (-1.0, 0.5), "end": (last_t + 1.0, last_row if lattice.nodes[0] != "start" else last_row - 0.5)}
    return {i: beside[name] if isinstance(name, str) else tuple(np.add(name[:2], aside.get(name[-1], (0, 0))))
            for i, name in enumerate(lattice.nodes)}


def _draw_arrow(ax, start, end, color, width, alpha, inside=False):
    """From circle to circle, or from box to box."""
    shrink = 16 if inside else 5.5
    passes_nodes = start[1] == end[1] and end[0] - start[0] > 1
    ax.annotate("", xy=end, xytext=start, zorder=2 + alpha / 2, arrowprops={
        "arrowstyle": "-|>,head_width=0.16,head_length=0.3", "color": color, "linewidth": width, "alpha": alpha,
        "shrinkA": shrink, "shrinkB": shrink, "connectionstyle": f"arc3,rad={-0.25 * passes_nodes}"})


def _label_arcs(ax, lattice, place, labels):
    if labels is None:
        return
    labels = check_weights("arc_labels", list(labels), (len(lattice.arcs),))
    for arc, label in zip(lattice.arcs, labels, strict=True):
        if label:  # an empty box would hide the arc
            ax.text(*np.add(place[arc.source], place[arc.target]) / 2, label, ha="center", va="center", zorder=4,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})


def _label_inside(ax, lattice, place, labels):
    for i, label in enumerate(check_weights("node_labels", list(labels), (len(lattice.nodes),))):
        if label:
            ax.text(*place[i], label, ha="center", va="center", zorder=4,
                    bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": BLUE, "linewidth": 1.2})


def _label_beside(ax, lattice, place, name, labels, downward, distance, **style):
    """On the side that faces away from the middle."""
    middle = np.mean(list(place.values()), axis=0)
    for i, label in enumerate(check_weights(name, list(labels), (len(lattice.nodes),))):
        away = (place[i] - middle) * (1, -1 if downward else 1)
        away = away / np.hypot(*away) if away.any() else np.array([0.0, 1.0])
        ax.annotate(label, place[i], xytext=distance * away, textcoords="offset points", ha="center", va="center",
                    **style)


def plot_moves(rows, skips, *, ax=None):
    """The moves of CTC between the states of a target, from one frame to the next; forbidden skips are crossed out.

    Parameters
    ----------
    rows : sequence of str
        The symbol of each state.
    skips : sequence of bool
        For each state whether it may be entered by a skip, from two states before it.
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is not one entry of ``skips`` for each state.
    """
    ax = ax or plt.gca()
    if len(rows) != len(skips):
        raise ValueError(f"skips has length {len(skips)}; expected {len(rows)}, one for each state")
    for s, allowed in enumerate(skips):
        for step in range(min(s, 1) + 1):
            _draw_arrow(ax, (0, s - step), (1, s), "#31373f", width=1.2, alpha=0.45, inside=True)
        if s >= 2:
            ink = BLUE if allowed else ORANGE
            _draw_arrow(ax, (0, s - 2), (1, s), ink, width=1.8, alpha=1.0 if allowed else 0.55, inside=True)
            if not allowed:
                ax.plot(0.3, s - 1.4, marker="x", color=ORANGE, markersize=9, markeredgewidth=2.2)
    for t, (s, symbol) in ((t, each) for t in (0, 1) for each in enumerate(rows)):
        ax.text(t, s, symbol, ha="center", va="center", zorder=4,
                bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": BLUE, "linewidth": 1.2})
    ax.set_xticks([0, 1], labels=["frame $t - 1$", "frame $t$"])
    ax.set_yticks(range(len(rows)))
    ax.set(ylabel="state $s$", xlim=(-0.3, 1.3), ylim=(len(rows) - 0.5, -0.5))
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    return ax


def plot_walks(walks, *, num_frames, rows, blank="∅"):
    """Small RNN-T grids, one for each walk from (0, 0): a blank leads to the right, any other symbol up.

    A filled circle is where a walk ends that has left the top row by the last blank, a cross where any other stops.

    Parameters
    ----------
    walks : mapping from str to sequence of str
        A title for each walk, and the symbols that it draws.
    num_frames : int
    rows : sequence of str
        A tick label for each row.
    blank : str

    Returns
    -------
    array of Axes
        Of a new figure, two side by side.
    """
    end = num_frames, len(rows) - 1
    lines = -(-len(walks) // 2)
    figure, axes = plt.subplots(lines, 2, figsize=(6.6, 2.1 * lines), sharex=True, sharey=True, squeeze=False)
    for ax, (title, symbols) in zip(axes.flat, walks.items(), strict=False):
        nodes = [(t, u) for t in range(num_frames) for u in range(len(rows))] + [end]
        for t, u in nodes[:-1]:
            for after in {(t + 1, u), (t, u + 1)} & {*nodes}:
                _draw_arrow(ax, (t, u), after, GREY, width=0.8, alpha=0.5)
        place = np.array([0, 0])
        for symbol in symbols:
            step = (1, 0) if symbol == blank else (0, 1)
            _draw_arrow(ax, place, place + step, ORANGE, width=2.2, alpha=1.0)
            ax.text(*(place + np.array(step) / 2), symbol, ha="center", va="center", zorder=4,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2})
            place = place + step
        ax.scatter(*np.transpose(nodes), s=60, facecolor="white", edgecolor=BLUE, linewidth=1.3, zorder=3)
        done = (*place,) == end
        ax.scatter(*place, s=60 if done else 150, color=ORANGE, marker="o" if done else "X", zorder=4)
        ax.set(title=title, xlim=(-0.45, num_frames + 0.45), ylim=(-0.45, len(rows) - 0.55))
        ax.set_xticks(range(num_frames))
        ax.set_yticks(range(len(rows)), labels=rows)
        ax.spines[["left", "bottom"]].set_visible(False)
        ax.tick_params(length=0)
    for ax in axes[-1]:
        ax.set_xlabel("frame $t$")
    for ax in axes.flat[len(walks):]:
        ax.set_axis_off()
    return axes.ravel()[:len(walks)]

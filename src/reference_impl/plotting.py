"""Figures of the book: lattices with posteriors and paths, occupancies, error curves. They draw; they compute no loss.

Every function draws into an ``Axes`` that it is given and returns it. :func:`use_book_style` is called once a notebook.
"""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

from ._validation import check_weights
from .lattice import Lattice

__all__ = ["BLUE", "GREEN", "GREY", "ORANGE", "plot_error_curve", "plot_frames", "plot_gradient", "plot_kills",
           "plot_lattice", "plot_occupancy", "use_book_style"]

#: A colour of the book, legible on white and, with its lightness turned round, in the dark.
BLUE, ORANGE, GREEN, GREY = "#2f6db3", "#d9691e", "#2e8b57", "#8a8f98"
_MASS = LinearSegmentedColormap.from_list("mass", ["#ffffff", "#bcd3ec", BLUE, "#0d2b52"])
_INK = LinearSegmentedColormap.from_list("ink", ["#f4f1ea", "#20242b"])
_SIGNED = LinearSegmentedColormap.from_list("signed", ["#0d2b52", BLUE, "#ffffff", ORANGE, "#6e2c04"])


def use_book_style():
    """Set matplotlib up for the book: reproducible SVG, readable sizes, one palette. Needs a notebook's IPython."""
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    set_matplotlib_formats("svg", metadata={"Date": None})
    mpl.rcParams.update({
        "svg.hashsalt": "reference_impl", "figure.figsize": (7.0, 3.4), "figure.constrained_layout.use": True,
        "figure.facecolor": "white", "axes.facecolor": "white", "font.size": 10.5, "axes.titlesize": 11,
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": GREY, "axes.labelcolor": "#333333",
        "xtick.color": "#333333", "ytick.color": "#333333", "legend.frameon": False,
        "axes.prop_cycle": mpl.cycler(color=[BLUE, ORANGE, GREEN, "#8e44ad", GREY]),
    })


def plot_lattice(lattice: Lattice, *, posteriors=None, changes=None, path=None, node_labels=None, arc_labels=None,
                 rows=None, row_axis="", time_axis="frame $t$", downward=False, aside=None, ax=None):
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
    ax : Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is not one posterior, change or label for each arc, or one label for each node.
    """
    ax = ax or plt.gca()
    place = _places(lattice, aside or {})
    for arc, weight, color in zip(lattice.arcs, *_strokes(lattice, posteriors, changes), strict=True):
        if place[arc.source] != place[arc.target]:
            _draw_arrow(ax, place[arc.source], place[arc.target], color=color,
                        width=0.5 + 2.5 * weight, alpha=min(1.0, 0.12 + 0.88 * weight))
    for i in path or ():
        _draw_arrow(ax, place[lattice.arcs[i].source], place[lattice.arcs[i].target], ORANGE, width=2.6, alpha=1.0)
    _label_arcs(ax, lattice, place, arc_labels)
    _label_nodes(ax, lattice, place, node_labels, downward)
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


def _draw_arrow(ax, start, end, color, width, alpha):
    passes_nodes = start[1] == end[1] and end[0] - start[0] > 1
    ax.annotate("", xy=end, xytext=start, zorder=2 + alpha / 2, arrowprops={
        "arrowstyle": "-|>,head_width=0.16,head_length=0.3", "color": color, "linewidth": width, "alpha": alpha,
        "shrinkA": 5.5, "shrinkB": 5.5, "connectionstyle": f"arc3,rad={-0.25 * passes_nodes}"})


def _label_arcs(ax, lattice, place, labels):
    if labels is None:
        return
    labels = check_weights("arc_labels", list(labels), (len(lattice.arcs),))
    for arc, label in zip(lattice.arcs, labels, strict=True):
        if label:  # an empty box would hide the arc
            ax.text(*np.add(place[arc.source], place[arc.target]) / 2, label, ha="center", va="center", zorder=4,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})


def _label_nodes(ax, lattice, place, labels, downward):
    if labels is None:
        return
    labels = check_weights("node_labels", list(labels), (len(lattice.nodes),))
    middle = np.mean(list(place.values()), axis=0)
    for i, label in enumerate(labels):
        away = (place[i] - middle) * (1, -1 if downward else 1)
        away = away / np.hypot(*away) if away.any() else np.array([0.0, 1.0])
        ax.annotate(label, place[i], xytext=15 * away, textcoords="offset points", ha="center", va="center")


def plot_occupancy(occupancy, *, rows=None, row_axis="", downward=False, ax=None, colorbar=True, limit=1.0):
    """Heat map of an occupancy (T, rows) in [0, 1]: time to the right, white is 0.

    Parameters
    ----------
    occupancy : (T, rows) array
    rows, row_axis, downward, ax
        As for :func:`plot_lattice`.
    colorbar : bool
    limit : float
        The value drawn strongest; pictures that are to be compared need the same.

    Returns
    -------
    Axes
    """
    ax = ax or plt.gca()
    image = ax.imshow(np.asarray(occupancy).T, cmap=_MASS, vmin=0, vmax=limit, aspect="auto", interpolation="nearest",
                      origin="upper" if downward else "lower")
    return _finish_map(ax, image, rows, row_axis, colorbar, "probability")


def plot_gradient(gradient, *, rows=None, row_axis="", downward=False, ax=None, colorbar=True, limit=None):
    """Heat map of a gradient (T, rows): blue is negative (descent raises it), orange positive, white 0.

    Parameters and return value are those of :func:`plot_occupancy`; ``limit`` is the largest magnitude by default.
    """
    ax = ax or plt.gca()
    gradient = np.asarray(gradient)
    limit = max(float(np.abs(gradient).max()), 1e-12) if limit is None else limit
    image = ax.imshow(gradient.T, cmap=_SIGNED, norm=TwoSlopeNorm(0.0, -limit, limit), aspect="auto",
                      interpolation="nearest", origin="upper" if downward else "lower")
    return _finish_map(ax, image, rows, row_axis, colorbar, "gradient")


def plot_frames(frames, *, marks=None, ax=None):
    """Draw an image whose columns of pixels are frames: time to the right, dark ink on light paper.

    The horizontal axis is that of :func:`plot_occupancy` and :func:`plot_gradient`, so that the three can stand above
    one another with ``sharex=True``.

    Parameters
    ----------
    frames : (T, height) array in [0, 1]
    marks : mapping from frame to str, optional
        Text to write above frames, such as what was read there.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    ax = ax or plt.gca()
    ax.imshow(np.asarray(frames).T, cmap=_INK, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for t, text in (marks or {}).items():
        ax.annotate(text, (t, -0.6), ha="center", va="bottom", fontsize=9, color=BLUE, annotation_clip=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_yticks([])
    ax.tick_params(length=0)
    return ax


def _finish_map(ax, image, rows, row_axis, colorbar, what):
    if rows is not None:
        ax.set_yticks(range(len(rows)), labels=rows)
    ax.set(xlabel="frame $t$", ylabel=row_axis)
    ax.spines[["left", "bottom"]].set_visible(False)
    if colorbar:
        ax.figure.colorbar(image, ax=ax, label=what, pad=0.02).outline.set_visible(False)
    return ax


def plot_error_curve(steps, errors, *, label=None, orders=(), ax=None):
    """Errors against the step h on logarithmic axes, with reference slopes.

    Parameters
    ----------
    steps, errors : sequences of float
    label : str, optional
        Of this curve, for the legend.
    orders : sequence of int
        Draw a grey line of this slope through the curve's point nearest to its middle: 2 for truncation of a central
        difference, -1 for rounding.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    ax = ax or plt.gca()
    steps, errors = np.asarray(steps, float), np.asarray(errors, float)
    ax.loglog(steps, np.maximum(errors, 1e-300), marker="o", markersize=3.5, linewidth=1.4, label=label)
    for order in orders:
        side = steps >= np.median(steps) if order > 0 else steps <= np.median(steps)
        anchor = np.flatnonzero(side)[int(side.sum()) // 2]
        ax.loglog(steps[side], 2 * errors[anchor] * (steps[side] / steps[anchor]) ** order, color=GREY,
                  linestyle="--", linewidth=1)
        ax.annotate(f"slope {order}", (steps[anchor], 2 * errors[anchor]), xytext=(-6 * np.sign(order), 7),
                    textcoords="offset points", color="#555555", fontsize=9, ha="right" if order > 0 else "left")
    ax.set(xlabel="step $h$", ylabel="largest error")
    return ax


def plot_kills(killed, bugs, checks, *, applies=None):
    """Which check (columns) kills which bug (rows): filled squares; a dot where a check does not apply to a bug.

    Parameters
    ----------
    killed : (rows, columns) bool array
    bugs, checks : sequences of str
    applies : (rows, columns) bool array, optional

    Returns
    -------
    Axes
        Of a new figure, as tall as there are bugs.
    """
    killed = check_weights("killed", killed, (len(bugs), len(checks)))
    _, ax = plt.subplots(figsize=(7.0, 2.6 + 0.21 * len(bugs)))
    ax.imshow(killed, cmap="Blues", vmin=0, vmax=1.25, aspect="auto")
    if applies is not None:
        row, column = np.nonzero(~check_weights("applies", applies, killed.shape))
        ax.plot(column, row, ".", color=GREY, markersize=3)
    ax.set_yticks(range(len(bugs)), bugs, fontsize=8.5)
    ax.set_xticks(range(len(checks)), checks, fontsize=8.5, rotation=90)
    ax.set_xticks(np.arange(len(checks)) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(bugs)) - 0.5, minor=True)
    ax.grid(which="minor", color="#d8dbe0", linewidth=0.6)
    ax.tick_params(which="both", length=0)
    return ax

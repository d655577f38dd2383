"""Numbers in rows and columns as heat maps: occupancies, gradients, two sides of an equation, images, sound."""

from __future__ import annotations

from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import MaxNLocator

from .._validation import check_weights
from .style import BLUE, GREY, INK, MASS, SIGNED


def plot_occupancy(occupancy, *, rows=None, row_axis="", downward=False, ax=None, colorbar=True, limit=1.0,
                   numbers=False):
    """Heat map of an occupancy (T, rows) in [0, 1]: time to the right, white is 0.

    Parameters
    ----------
    occupancy : (T, rows) array
    rows, row_axis, downward, ax
        As for :func:`plot_lattice`.
    colorbar : bool
    numbers : bool
        Write each number into its cell, a fraction as a fraction, others with two decimals.
    limit : float
        The value drawn strongest; pictures that are to be compared need the same.

    Returns
    -------
    Axes
    """
    ax = ax or plt.gca()
    occupancy = np.asarray(occupancy)
    image = ax.imshow(occupancy.T.astype(float), cmap=MASS, vmin=0, vmax=limit, aspect="auto",
                      interpolation="nearest", origin="upper" if downward else "lower")
    if numbers:
        _write_numbers(ax, occupancy, image)
    return _finish_map(ax, image, rows, row_axis, colorbar, "probability")


def plot_gradient(gradient, *, rows=None, row_axis="", downward=False, ax=None, colorbar=True, limit=None,
                  numbers=False):
    """Heat map of a gradient (T, rows): blue is negative (descent raises it), orange positive, white 0.

    Parameters and return value are those of :func:`plot_occupancy`; ``limit`` is the largest magnitude by default.
    """
    ax = ax or plt.gca()
    gradient = np.asarray(gradient)
    limit = max(float(np.abs(gradient).max()), 1e-12) if limit is None else limit
    image = ax.imshow(gradient.T.astype(float), cmap=SIGNED, norm=TwoSlopeNorm(0.0, -limit, limit), aspect="auto",
                      interpolation="nearest", origin="upper" if downward else "lower")
    if numbers:
        _write_numbers(ax, gradient, image)
    return _finish_map(ax, image, rows, row_axis, colorbar, "gradient")


def plot_sides(left, right, names, *, plot=plot_gradient, axes=None, **options):
    """Two arrays (T, rows) that should be equal, and their difference, as three heat maps on one scale.

    Parameters
    ----------
    left, right : (T, rows) arrays
    names : pair of str
        Titles of the first two; the third says how large the difference is at most.
    plot : callable
        :func:`plot_gradient` or :func:`plot_occupancy`, for the two sides; the difference is drawn as a gradient.
    axes : three Axes, optional
    options
        Passed on, such as ``rows``.

    Returns
    -------
    array of three Axes
    """
    axes = plt.subplots(1, 3, figsize=(9.4, 2.4))[1] if axes is None else axes
    left, right = np.asarray(left), np.asarray(right)
    limit = float(max(np.abs(left).max(), np.abs(right).max()))
    for ax, side, name in zip(axes, (left, right), names, strict=False):
        plot(side, ax=ax, limit=limit, **options).set_title(name)
    plot_gradient(left - right, ax=axes[2], limit=limit, **options)
    axes[2].set_title(f"difference: at most {float(np.abs(left - right).max()):.1g}")
    return axes


def _write_numbers(ax, values, image):
    """Each value in its cell, in ink that its colour leaves legible."""
    for (t, row), value in np.ndenumerate(values):
        red, green, blue, _ = image.cmap(image.norm(float(value)))
        ink = "#20242b" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.55 else "#ffffff"
        text = str(value) if isinstance(value, Fraction | int) else f"{float(value):z.2f}"  # no -0.00
        ax.text(t, row, text.replace("-", "−"), ha="center", va="center", color=ink, fontsize=9.5)


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
    ax.imshow(np.asarray(frames).T, cmap=INK, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    for t, text in (marks or {}).items():
        ax.annotate(text, (t, -0.6), ha="center", va="bottom", fontsize=9, color=BLUE, annotation_clip=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_yticks([])
    ax.tick_params(length=0)
    return ax


def plot_sound(frames, *, step, spans=(), hop=0.010, window=0.025, ax=None):
    """Draw log-mel frames on the time axis of a network: low bands at the bottom, loud is strong, spans named above.

    The horizontal axis counts the network's frames, as those of :func:`plot_occupancy` and :func:`plot_gradient` do, so
    that they can stand above one another with ``sharex=True``. Frame t lasts from ``t * step`` to ``(t + 1) * step``.

    Parameters
    ----------
    frames : (F, bands) array
        Log-mel frames, normalised or not. The loudest is drawn strongest; the softest twentieth is not drawn.
    step : float
        Seconds from one frame of the network to the next.
    spans : sequence of (name, start, end)
        Words or phones, in seconds.
    hop, window : float
        Seconds from one log-mel frame to the next, and of what it hears; it is drawn in the middle of that.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    ax, frames = ax or plt.gca(), np.asarray(frames)
    left = (window - hop) / 2 / step - 0.5
    ax.imshow(frames.T, cmap=INK, vmin=np.quantile(frames, 0.05), vmax=frames.max(), aspect="auto", origin="lower",
              interpolation="nearest", extent=(left, left + len(frames) * hop / step, 0, frames.shape[1]))
    for name, start, end in spans:
        for time in (start, end):
            ax.axvline(time / step - 0.5, color=BLUE, linewidth=0.8, linestyle=":")
        ax.annotate(name, ((start + end) / 2 / step - 0.5, frames.shape[1] + 1), ha="center", va="bottom", fontsize=9,
                    color=BLUE, annotation_clip=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_yticks([])
    ax.tick_params(length=0)
    return ax


def _finish_map(ax, image, rows, row_axis, colorbar, what):
    if rows is not None:
        ax.set_yticks(range(len(rows)), labels=rows)
    ax.set(xlabel="frame $t$", ylabel=row_axis)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["left", "bottom"]].set_visible(False)
    if colorbar:
        ax.figure.colorbar(image, ax=ax, label=what, pad=0.02).outline.set_visible(False)
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

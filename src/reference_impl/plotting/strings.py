"""Strings drawn: the cells that they use, and what CTC reads in them."""

from __future__ import annotations

from itertools import groupby, pairwise

import matplotlib.pyplot as plt
import numpy as np

from .style import BLUE, GREY, MASS, ORANGE


def plot_strings(probs, strings, *, rows, notes=None):
    """Small tables of the same probabilities, one for each string; the cells that it uses are joined by a line.

    Parameters
    ----------
    probs : (T, V) array
    strings : mapping from str to sequence of (t, k)
        What each string is called, and the cells that it uses.
    rows : sequence of str
        A tick label for each symbol.
    notes : sequence of str, optional
        A text below each table.

    Returns
    -------
    array of Axes
        Of a new figure, side by side.
    """
    figure, axes = plt.subplots(1, len(strings), figsize=(9.4, 2.1), sharey=True, squeeze=False)
    for i, (ax, (name, cells)) in enumerate(zip(axes[0], strings.items(), strict=True)):
        used = np.zeros(np.shape(probs))
        used[tuple(np.transpose(cells))] = 0.35
        ax.imshow(used.T, cmap=MASS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        for (t, k), (_, to) in pairwise(cells):  # from the edge of one number to that of the next
            ax.plot([t + 0.3, t + 0.7], [k + 0.3 * (to - k), k + 0.7 * (to - k)], color=ORANGE, linewidth=1.6)
        for t, k in np.ndindex(used.shape):
            ax.text(t, k, str(probs[t, k]), ha="center", va="center", fontsize=9, zorder=2,
                    color="#20242b" if used[t, k] else GREY)
        ax.set_title(name)
        ax.set_xlabel((notes or [""] * len(strings))[i])
        ax.set_yticks(range(len(rows)), labels=rows)
        ax.set_xticks([])
        ax.tick_params(length=0)
        ax.spines[["left", "bottom"]].set_visible(False)
    return axes[0]


def plot_collapse(string, *, blank="∅", ax=None):
    """What CTC reads in a string, in three rows: its symbols, its runs, and the labels that are left without blanks.

    Parameters
    ----------
    string : sequence of str
        A symbol for each frame.
    blank : str
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    ax = ax or plt.gca()
    at = 0
    for symbol, run in groupby(string):
        length, ink = len(list(run)), GREY if symbol == blank else BLUE
        for t in range(at, at + length):
            _draw_box(ax, t, 0, 1, symbol, ink)
            ax.plot([t, t], [0.34, 0.66], color=GREY, linewidth=0.8)
        _draw_box(ax, at, 1, length, symbol, ink)
        if symbol != blank:
            middle = at + (length - 1) / 2
            ax.plot([middle, middle], [1.34, 1.7], color=BLUE, linewidth=0.8)
            ax.text(middle, 2, symbol, color=BLUE, ha="center", va="center", fontsize=13)
        at += length
    ax.set_yticks(range(3), labels=["string", "runs", "reads"])
    ax.set(xticks=range(at), xlabel="frame $t$", xlim=(-0.6, at - 0.4), ylim=(2.5, -0.5))
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)
    return ax


def _draw_box(ax, at, row, length, text, ink):
    """A box as wide as some frames, its text in the middle."""
    ax.add_patch(plt.Rectangle((at - 0.42, row - 0.34), length - 0.16, 0.68, facecolor="none", edgecolor=ink))
    ax.text(at + (length - 1) / 2, row, text, color=ink, ha="center", va="center")

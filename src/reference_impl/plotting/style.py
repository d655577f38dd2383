"""Colours and sizes of every figure."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap

#: A colour of the book, legible on white and, with its lightness turned round, in the dark.
BLUE, ORANGE, GREEN, GREY = "#2f6db3", "#d9691e", "#2e8b57", "#8a8f98"
MASS = LinearSegmentedColormap.from_list("mass", ["#ffffff", "#bcd3ec", BLUE, "#0d2b52"])
INK = LinearSegmentedColormap.from_list("ink", ["#f4f1ea", "#20242b"])
SIGNED = LinearSegmentedColormap.from_list("signed", ["#0d2b52", BLUE, "#ffffff", ORANGE, "#6e2c04"])


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

"""The error of a difference against its step, and the flow of a gradient through a computation."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from .style import BLUE, GREY, ORANGE


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
    ax.loglog(steps, np.where(errors > 0, errors, np.nan), marker="o", markersize=3.5, linewidth=1.4, label=label)
    for order in orders:
        side = steps >= np.median(steps) if order > 0 else steps <= np.median(steps)
        anchor = np.flatnonzero(side)[int(side.sum()) // 2]
        ax.loglog(steps[side], 2 * errors[anchor] * (steps[side] / steps[anchor]) ** order, color=GREY,
                  linestyle="--", linewidth=1)
        ax.annotate(f"slope {order}".replace("-", "−"), (steps[anchor], 2 * errors[anchor]), fontsize=9,
                    xytext=(-6 * np.sign(order), 7), textcoords="offset points", color="#555555",
                    ha="right" if order > 0 else "left")
    ax.set(xlabel="step $h$", ylabel="largest error")
    return ax


def plot_flow(stages, steps, *, ax=None):
    """Draw a computation from top to bottom, and the gradient that flows back up beside it.

    Parameters
    ----------
    stages : sequence of (name, gradient, note)
        What is computed, first to last; the gradient of the last with respect to it; whatever is to be said of it.
    steps : sequence of (forward, backward)
        One fewer: how a stage follows from the one above, and what its gradient is multiplied by on the way up.
    ax : Axes, optional

    Returns
    -------
    Axes
    """
    ax = ax or plt.gca()
    frame = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": GREY}
    for y, (name, gradient, note) in enumerate(stages):
        ax.text(0, -y, name, ha="center", va="center", bbox=frame)
        ax.text(1, -y, gradient, ha="center", va="center", bbox=frame | {"edgecolor": ORANGE})
        ax.text(1.46, -y, note, va="center", color="#555555", fontsize=9)
    for y, (forward, backward) in enumerate(steps):
        ax.annotate("", (0, -y - 0.68), (0, -y - 0.32), arrowprops={"arrowstyle": "-|>", "color": BLUE})
        ax.annotate("", (1, -y - 0.32), (1, -y - 0.68), arrowprops={"arrowstyle": "-|>", "color": ORANGE})
        ax.text(0.05, -y - 0.5, forward, va="center", color=BLUE, fontsize=9.5)
        ax.text(1.05, -y - 0.5, backward, va="center", color=ORANGE, fontsize=9.5)
    ax.set(xlim=(-0.4, 2.5), ylim=(0.4 - len(stages), 0.4))
    ax.set_axis_off()
    return ax

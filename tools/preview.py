"""Draw the picture that stands beside a link to the book, book/_static/preview.png. Its lattice is computed, not drawn.

Usage: python tools/preview.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

from reference_impl import log_softmax
from reference_impl.lattice import arc_posteriors
from reference_impl.topology import rnnt_lattice

PICTURE = Path(__file__).resolve().parent.parent / "book" / "_static" / "preview.png"
PAPER, INK, TEAL, ORANGE = "#fbfaf7", "#22303a", "#0a6e6e", "#e8833a"
FRAMES, TARGET, SYMBOLS = 6, [1, 2, 3], 4


def posteriors():
    """Return an RNN-T lattice with its arcs' posteriors, from logits that favour one alignment but doubt it."""
    logits = np.random.default_rng(4).normal(size=(FRAMES, len(TARGET) + 1, SYMBOLS))
    for t in range(FRAMES):
        for u in range(len(TARGET) + 1):
            label = TARGET[u] if u < len(TARGET) else 0
            logits[t, u, label if t >= 2 * u else 0] += 1.6
    lattice = rnnt_lattice(TARGET, num_frames=FRAMES, num_symbols=SYMBOLS)
    return lattice, arc_posteriors(lattice, lattice.arc_weights(log_softmax(logits)))


def main():
    lattice, shares = posteriors()
    figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor=PAPER)
    figure.text(0.06, 0.76, "CTC and RNN-T,\nDifferentiated", size=46, weight="bold", color=INK, va="center")
    theorem = r"$\frac{\partial \log Z}{\partial \log w(\mathrm{arc})} = \Pr(\mathrm{arc} \mid \mathrm{input, target})$"
    figure.text(0.06, 0.41, theorem, size=31, color=TEAL, va="center", math_fontfamily="cm")
    figure.text(0.06, 0.16, "Every gradient derived, one step at a time,\nand every identity bound to a test.",
                size=19, color=INK, linespacing=1.35, va="center")
    ax = figure.add_axes((0.59, 0.1, 0.39, 0.8))
    ax.axis("off")
    for arc, share in zip(lattice.arcs, shares, strict=True):
        source, target = lattice.nodes[arc.source], lattice.nodes[arc.target]
        if target != "end":
            ax.plot(*zip(source, target, strict=True), color=TEAL, linewidth=1 + 9 * share, alpha=0.15 + 0.85 * share,
                    solid_capstyle="round", zorder=1)
    grid = [node for node in lattice.nodes if node != "end"]
    ax.scatter(*zip(*grid, strict=True), s=190, facecolor=PAPER, edgecolor=INK, linewidth=2, zorder=2)
    ax.scatter(*zip(grid[0], grid[-1], strict=True), s=420, color=ORANGE, zorder=3)
    ax.set(xlim=(-0.4, FRAMES - 0.6), ylim=(-0.5, len(TARGET) + 0.5))
    figure.savefig(PICTURE, metadata={"Software": None})
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

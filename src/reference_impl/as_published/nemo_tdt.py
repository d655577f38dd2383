"""NeMo's TDT and multi-blank kernels: the inputs of which data/nemo_tdt.json holds the results, and their leak.

Where 1 is not among the durations, their backward variable begins with mass 1 at the node (T-1, U) as well, as if an
arc without a score led from there to the end. Nothing in the file was computed here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..lattice import Arc, Lattice, backward, forward, on_grid
from ..topology import multi_blank_rnnt_lattice, tdt_lattice

__all__ = ["corner_arc", "inputs", "leaking", "problem"]


def inputs(case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the kernels were given: logits of symbols (T, U+1, V) and of durations (T, U+1, D), and labels (U,)."""
    draw, sizes = np.random.default_rng(case["seed"]), (case["V"], len(case["frames"]))
    logits, durations = (draw.normal(size=(case["T"], case["U"] + 1, size)) for size in sizes)
    return logits, durations, draw.integers(0, 3, case["U"])


def problem(case) -> tuple[Lattice, np.ndarray, tuple[int, ...]]:
    """A case as a lattice, its logits side by side, and how many of them belong to each softmax."""
    logits, durations, labels = inputs(case)
    T, _, V = logits.shape
    if case["kind"] == "tdt":
        lattice = tdt_lattice(labels, T, V, durations=case["frames"], blank=V - 1)
        return lattice, np.concatenate([logits, durations], -1), (V, len(case["frames"]))
    big_blanks = {V - 2 - i: m for i, m in enumerate(case["frames"])}  # from the end
    return multi_blank_rnnt_lattice(labels, T, V, big_blanks=big_blanks, blank=V - 1), logits, (V,)


def corner_arc(lattice: Lattice) -> Arc:
    """From (T-1, U) to the end; it uses no entry, so its weight is 1."""
    T, rows = lattice.shape[:2]
    return Arc(lattice.nodes.index((T - 1, rows - 1)), len(lattice.nodes) - 1)


def leaking(lattice: Lattice, log_weights) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z in nats, node occupancy (T, U+1) and occupancy of the entries, with the corner's arc for beta alone."""
    with_corner = replace(lattice, arcs=(*lattice.arcs, corner_arc(lattice)))
    weights = lattice.arc_weights(log_weights)
    alpha, beta = forward(lattice, weights), backward(with_corner, with_corner.arc_weights(log_weights))
    log_masses = [alpha[arc.source] + weight + beta[arc.target]
                  for arc, weight in zip(lattice.arcs, weights, strict=True)]
    occupancy = lattice.occupancy(np.exp(np.array(log_masses) - alpha[-1]))
    return alpha[-1], on_grid(lattice, np.exp(alpha + beta - alpha[-1])), occupancy

"""Exam questions about RNN-T and FastEmit: paths, Z, node occupancies and sums. Keys by the book's package."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np

from reference_impl import rnnt
from reference_impl.lattice import arc_posteriors
from reference_impl.semiring import COUNT, REAL
from reference_impl.topology import rnnt_lattice

from .item import Item, Kind

__all__ = ["KINDS"]


def _grid(rng, T, U):
    """Probabilities of blank and of the next label at each node, in tenths; the rest of 1 is another symbol's."""
    y = np.empty((T, U + 1, 3), dtype=object)
    for t, u in np.ndindex(T, U + 1):
        cuts = sorted(int(c) for c in rng.choice(range(1, 10), 2, replace=False))
        y[t, u] = [Fraction(part, 10) for part in (cuts[0], cuts[1] - cuts[0], 10 - cuts[1])]
    return y


def _occupancy(y, targets):
    lattice = rnnt_lattice(targets, len(y), 3)
    return lattice.occupancy(arc_posteriors(lattice, lattice.arc_weights(y, REAL), REAL))


def _printed(y, targets):
    T, rows = y.shape[:2]
    lines = ["| node $(t, u)$ | " + " | ".join(f"$({t}, {u})$" for t in range(T) for u in range(rows)) + " |",
             "|---" * (T * rows + 1) + "|"]
    for name, symbol in ((r"$\varnothing$", 0), ("next label", 1)):
        cells = ["" if symbol and u == len(targets) else f"{float(y[t, u, symbol]):g}" for t in range(T)
                 for u in range(rows)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# --- the kinds ---


def paths_of_a_node(rng):
    T, U = int(rng.integers(3, 6)), int(rng.integers(2, 5))
    t, u = int(rng.integers(1, T - 1)), int(rng.integers(1, U)) if U > 1 else 1
    scores, targets = np.zeros((T, U + 1, 2)), [1] * U
    reach, leave = (f(scores, targets, semiring=COUNT) for f in (rnnt.alpha, rnnt.beta))
    ways = int(reach[t, u]), int(leave[t, u])
    return Item(
        f"An RNN-T has {T} frames and a target of {U} labels. How many of its paths pass through the node "
        f"$(t, u) = ({t}, {u})$, both counted from 0?", ways[0] * ways[1], {
            "All paths.": int(rnnt.Z(scores, targets, semiring=COUNT)),
            "The ways to the node.": ways[0],
            "The ways from the node.": ways[1],
            "Added, not multiplied.": ways[0] + ways[1],
            "As if the last blank could be anywhere.": ways[0] * comb(T - t + U - u, U - u),
        }, "The ways to the node times the ways from it; the last step is a blank.", {"T": T, "U": U, "t": t, "u": u})


def total(rng):
    T, U = ((2, 1), (1, 2), (3, 1))[rng.integers(3)]
    targets, y = [1] * U, _grid(rng, T, U)
    right = rnnt.Z(y, targets, semiring=REAL)
    last = y[T - 1, U, 0]
    alpha, beta = (f(y, targets, semiring=REAL) for f in (rnnt.alpha, rnnt.beta))
    return Item(
        f"An RNN-T has {T} frame{'s' * (T > 1)} and {U} label{'s' * (U > 1)}. Its nodes say\n\n"
        f"{_printed(y, targets)}\n\nWhat is $Z$?", right, {
            "The last blank is missing.": right / last,
            "The last blank is in it twice.": right * last,
            "Beta of the last node: the last blank alone.": beta[T - 1, U],
            "The sum of the last frame's alphas.": alpha[T - 1].sum(),
            "The labels alone.": alpha[0, U],
            "One path alone: all labels in frame 0.": _labels_first(y, U),
        }, "All orders of blanks and labels that end in the last blank, each with the product of what its steps read.",
        {"y": y, "targets": targets})


def _labels_first(y, U):
    found = Fraction(1)
    for u in range(U):
        found *= y[0, u, 1]
    for t in range(len(y)):
        found *= y[t, U, 0]
    return found


def node_gradient(rng):
    T, U = 2, 1
    targets, y = [1], _grid(rng, T, U)
    used = _occupancy(y, targets)
    t, u = ((0, 0), (0, 1), (1, 0))[rng.integers(3)]
    k = int(rng.integers(2)) if u == 0 else 0
    gamma, name = used[t, u].sum(), (r"\varnothing", "a")[k]
    right = gamma * y[t, u, k] - used[t, u, k]
    return Item(
        f"An RNN-T has two frames and the target *a*. The softmax of its logits $a_{{t,u}}(k)$ is\n\n"
        f"{_printed(y, targets)}\n\nWhat is $\\partial L / \\partial a_{{{t},{u}}}({name})$?", right, {
            "The softmax term is not weighted by the node's occupancy, as in CTC.": y[t, u, k] - used[t, u, k],
            "The softmax term is missing: with respect to the log-prob.": -used[t, u, k],
            "The occupancy is missing.": gamma * y[t, u, k],
            "The sign is reversed.": -right,
            "Not divided by $Z$.": right * rnnt.Z(y, targets, semiring=REAL),
        }, "Belief times the node's occupancy, minus the posterior of the arc.",
        {"y": y, "targets": targets, "t": t, "u": u, "k": k})


def sum_of_all(rng):
    """Of the gradient with respect to the log-probs; by the package, on random scores."""
    T, U = int(rng.integers(3, 9)), int(rng.integers(2, 6))
    scores = rng.normal(size=(T, U + 1, 4))
    right = round(float(rnnt.grad_log_probs(scores, [1] * U).sum()))
    return Item(
        f"An RNN-T has {T} frames and {U} labels. What is the sum of all entries of $\\partial L / \\partial \\log "
        "y_{t,u}(k)$?", right, {
            "As for the logits.": 0, "One for each frame, as in CTC.": -T, "One for each label.": -U,
            "The sign is reversed.": -right, "The last blank is forgotten.": right + 1,
            "One for each node.": -T * (U + 1),
        }, "Minus the number of steps of a path: every path has a blank for each frame and a step for each label.",
        {"T": T, "U": U})


def fastemit_sum(rng):
    T, U = int(rng.integers(3, 9)), int(rng.integers(2, 6))
    lam = Fraction(int(rng.integers(1, 10)), 10)
    scores = rng.normal(size=(T, U + 1, 4))
    found = rnnt.grad_log_probs(scores, [1] * U, fastemit_lambda=float(lam)).sum()
    right = Fraction(round(float(found) * 10), 10)
    return Item(
        f"FastEmit is used with $\\lambda = {float(lam):g}$ on an utterance of {T} frames and {U} labels. What is the "
        "sum of all entries of its rule with respect to the log-probs?", right, {
            "Lambda is missing.": Fraction(-T - U),
            "The factor stands at the blanks, too.": -(1 + lam) * (T + U),
            "The factor is lambda, not 1 + lambda.": -T - lam * U,
            "The factor stands at the blanks only.": -(1 + lam) * T - U,
            "As for the logits.": Fraction(0),
        }, "Each path has a blank for each frame, which counts 1, and a step for each label, which counts 1 + lambda.",
        {"T": T, "U": U, "lam": lam})


def fastemit_logit(rng):
    """One node whose posteriors are given: by the package's rule on a grid that has them."""
    y = _grid(rng, 2, 1)
    lam = Fraction(int(rng.integers(1, 10)), 10)
    used = _occupancy(y, [1])[0, 0]
    logits = np.log(y.astype(float))
    found = rnnt.grad_logits(logits, [1], fastemit_lambda=float(lam))[0, 0, 1]
    blank, label = used[:2]
    right = y[0, 0, 1] * (blank + (1 + lam) * label) - (1 + lam) * label
    if abs(float(right) - found) > 1e-12:
        raise RuntimeError(f"the package's rule gives {found}; expected {float(right)}")
    return Item(
        f"At a node of an RNN-T the softmax says ${float(y[0, 0, 1]):g}$ for the next label, and the posteriors are "
        f"$\\frac{{{blank.numerator}}}{{{blank.denominator}}}$ of the blank's arc and "
        f"$\\frac{{{label.numerator}}}{{{label.denominator}}}$ of the label's. What is the entry of FastEmit's rule "
        f"with $\\lambda = {float(lam):g}$ with respect to the label's logit?", right, {
            "The gradient, without lambda.": y[0, 0, 1] * (blank + label) - label,
            "Lambda is missing in the softmax term.": y[0, 0, 1] * (blank + label) - (1 + lam) * label,
            "Lambda is in the softmax term only.": y[0, 0, 1] * (blank + (1 + lam) * label) - label,
            "With respect to the log-prob.": -(1 + lam) * label,
            "The whole node is multiplied.": (1 + lam) * (y[0, 0, 1] * (blank + label) - label),
        }, "The softmax times the sum of what stands at the node, 1 + lambda included, minus the label's own share.",
        {"y": y, "lam": lam})


KINDS = [
    Kind("paths_of_a_node", "RNN-T", 3, 4, paths_of_a_node),
    Kind("total_of_a_grid", "RNN-T", 4, 7, total),
    Kind("node_gradient", "RNN-T", 4, 9, node_gradient),
    Kind("sum_of_all", "RNN-T", 2, 3, sum_of_all),
    Kind("fastemit_sum", "FastEmit", 3, 4, fastemit_sum),
    Kind("fastemit_logit", "FastEmit", 4, 7, fastemit_logit),
]

"""Families of mistakes in RNN-T's posteriors: their formula, where they go, and the softmax term. It names no answer.

All is right but what is made of alpha and beta. `rnnt_recursions.py` has the mistakes in alpha and beta themselves.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from .rnnt_grid import Grid
from .shared import AT_FIRST, AT_LAST, FIRST_ROW, LAST_ROW, plus

__all__ = ["NODES", "OCCUPANCIES", "arcs", "collected", "entered"]


def collected(grid, blanks, labels, *, targets=None, rows=0, frames=0):
    """Posteriors of arcs (T, U+1) as an array (T, U+1, V); ``rows`` and ``frames`` by which labels go elsewhere."""
    found = np.zeros(grid.log_probs.shape)
    U = grid.rows - 1
    found[..., grid.blank] = blanks
    if U:
        targets = grid.targets if targets is None else np.asarray(targets) % found.shape[-1]
        to = np.arange(U) + rows
        u = np.flatnonzero((to >= 0) & (to < grid.rows))
        t = np.arange(grid.T)[max(0, -frames):grid.T - max(0, frames)]
        found[(t + frames)[:, None], to[u], targets[u]] += labels[t][:, u]
    return found


def entered(grid, blanks, labels):
    """The same where the derivative with respect to what an arc reads goes to that entry: the one that is read."""
    found = np.zeros(grid.log_probs.shape)
    indices = np.indices((grid.T, grid.rows))
    blank_at = grid.blank_at or (*indices, np.full((grid.T, grid.rows), grid.blank))
    label_at = grid.label_at or (*indices, np.append(grid.targets, 0)[None].repeat(grid.T, 0))
    blanks, last = np.array(blanks), np.zeros((grid.T, grid.rows))
    last[-1, -1], blanks[-1, -1] = blanks[-1, -1], 0.0
    np.add.at(found, blank_at, blanks)
    found[..., grid.blank] += last
    np.add.at(found, label_at, np.where(np.arange(grid.rows) < grid.rows - 1, labels, 0.0))
    return found


def _after(grid, beta):
    """Log masses after the blank and the label of each node."""
    blank, label = np.full((2, grid.T, grid.rows), -np.inf)
    blank[:-1] = beta[1:]
    blank[-1, -1] = 0.0
    if grid.down:
        label[:-1, :-1] = beta[1:, 1:]
    else:
        label[:, :-1] = beta[:, 1:]
    return blank, label


def arcs(g, a, b, log_z, *, blank=None, label=None):
    """Posteriors of the arcs, with other masses after them."""
    after_blank, after_label = _after(g, b)
    after_blank = after_blank if blank is None else blank(g, b, after_blank)
    after_label = after_label if label is None else label(g, b, after_label)
    return np.exp(a + g.blanks + after_blank - log_z), np.exp(a + g.labels + after_label - log_z)


def _summed(**masses):
    return lambda g, a, b, log_z: collected(g, *arcs(g, a, b, log_z, **masses))


def _placed(how):
    return lambda g, a, b, log_z: collected(g, *arcs(g, a, b, log_z), **how(g))


def _times(of_blank, of_label):
    def made(g, a, b, log_z):
        blanks, labels = arcs(g, a, b, log_z)
        return collected(g, of_blank(blanks), of_label(labels))
    return made


def _in(which, change):
    """A change of one of the posteriors, an array (T, U+1)."""
    def made(g, a, b, log_z):
        posteriors = list(arcs(g, a, b, log_z))
        posteriors[which] = change(posteriors[which].copy())
        return collected(g, *posteriors)
    return made


def _cleared(place):
    def change(array):
        array[place] = 0.0
        return array
    return change


def _moved(array, frames=0, rows=0):
    """Row (t, u) is what stood at (t + frames, u + rows), and 0 from outside."""
    T, U = array.shape
    found = np.zeros(array.shape)
    found[max(0, -frames):T - max(0, frames), max(0, -rows):U - max(0, rows)] = array[
        max(0, frames):T - max(0, -frames), max(0, rows):U - max(0, -rows)]
    return found


def _masses(made):
    """Posteriors of both arcs from ``made(g, a, b, after_blank, after_label)``, a pair of log masses over Z."""
    def found(g, a, b, log_z):
        blanks, labels = made(g, a, b, *_after(g, b))
        return collected(g, np.exp(blanks - log_z), np.exp(labels - log_z))
    return found


def _best_path(g, a, b, log_z):
    """The derivative of the best path's score."""
    g = Grid(g.log_probs, g.targets, g.blank)
    g.add = np.maximum
    alpha, beta = g.alpha(), g.beta()
    best = beta[0, 0]
    if best == -np.inf:
        raise ValueError("no path")
    after_blank, after_label = _after(g, beta)
    return collected(g, alpha + g.blanks + after_blank >= best - 1e-12 * abs(best),
                     alpha + g.labels + after_label >= best - 1e-12 * abs(best))


def _by_flipping(g, a, flips, back):
    """Log masses with a beta that is the alpha of a grid turned round, or partly so; an arc keeps its place in it."""
    turned = Grid(g.log_probs[::flips[0], ::flips[1]], g.targets[::flips[1]], g.blank)
    if flips[1] < 0:  # the label of row u now stands in row U - u, and leads there from the row before
        turned.labels = np.pad(g.labels[::flips[0], :-1][:, ::-1], ((0, 0), (0, 1)), constant_values=-np.inf)
    beta = turned.alpha()[::back[0], ::back[1]] + g.blanks[-1, -1]
    after_blank, after_label = _after(g, beta)
    return a + g.blanks + after_blank, a + g.labels + after_label


def _padded(front):
    """Targets with something in front: the label of row u goes to the one before it."""
    return lambda g: {"targets": np.concatenate([[front(g)], g.targets[:-1]])}


def _roll_end(array, axis):
    rolled = np.roll(array, -1, axis=axis)
    rolled[-1, -1] = 0.0
    return rolled


def _last_zero(array):
    array[-1] = 0.0
    return array


def _z_of(total):
    """Posteriors divided by something else than Z."""
    return lambda g, a, b, log_z: collected(g, *arcs(g, a, b, total(g, a, b)))


def _to_column(symbol):
    """The gradients of the blanks in the column of a symbol: added to what is there, or written over by a label's."""
    def used(g, a, b, log_z, added):
        blanks, labels = arcs(g, a, b, log_z)
        found = collected(g, 0 * blanks, labels)
        is_label = np.append(g.targets == symbol % found.shape[-1], False)
        found[..., symbol] += np.where(is_label & (not added), 0.0, blanks)
        return found
    return [functools.partial(used, added=added) for added in (True, False)]


#: By the sentence that names it, occupancies (T, U+1, V) from a grid, alpha, beta and log Z.
OCCUPANCIES = {
    # the mass after an arc
    "the posterior of a blank takes beta of the node that it leaves (t for t + 1), not of the one that it enters":
        _summed(blank=lambda g, b, after: b),
    "the posterior of a label takes beta of the node that it leaves (u for u + 1), not of the one that it enters":
        _summed(label=lambda g, b, after: b),
    "both posteriors take beta of the node that the arc leaves, not of the one that it enters":
        _summed(blank=lambda g, b, after: b, label=lambda g, b, after: b),
    "both posteriors take beta of the node that the arc leaves, not of the one that it enters, except for the last "
    "blank": _summed(blank=lambda g, b, after: np.where(after == 0, after, b), label=lambda g, b, after: b),
    "the beta after a blank comes from np.roll: blanks of the last frame get the first frame's (it wraps around)":
        _summed(blank=lambda g, b, after: _roll_end(b, 0)),
    "the beta after a blank comes from np.roll, the last blank included (it wraps around to the first frame)":
        _summed(blank=lambda g, b, after: np.roll(b, -1, axis=0)),
    "the beta after a label comes from np.roll: it wraps around to the first row":
        _summed(label=lambda g, b, after: np.roll(b, -1, axis=1)),
    "blanks of the last frame get a beta of 1 in every row; only the last one leaves the grid":
        _summed(blank=lambda g, b, after: _last_zero(after.copy())),
    "blanks of the last frame get the beta of their own node":
        _summed(blank=lambda g, b, after: np.concatenate([after[:-1], b[-1:]])),
    "the last blank gets no posterior (it is missing from the gradient)": _in(0, _cleared((-1, -1))),
    "blank and label exchange the beta after them (t + 1 for u + 1)": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks + after_label, a + g.labels + after_blank)),
    "blank and label exchange their posteriors: transposed between the arcs": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.labels + after_label, a + g.blanks + after_blank)),
    # the mass before an arc
    "the posteriors take alpha of the node that the arc enters, not of the one that it leaves": _masses(
        lambda g, a, b, after_blank, after_label: (
            np.pad(a, ((0, 1), (0, 0)), constant_values=-np.inf)[1:] + g.blanks + after_blank,
            np.pad(a, ((0, 0), (0, 1)), constant_values=-np.inf)[:, 1:] + g.labels + after_label)),
    "the posterior of a label takes alpha of the row after (u + 1 for u)": _masses(
        lambda g, a, b, after_blank, after_label: (
            a + g.blanks + after_blank, np.pad(a, ((0, 0), (0, 1)), constant_values=-np.inf)[:, 1:] + g.labels
            + after_label)),
    "the posterior of a blank takes alpha of the frame before (t - 1 for t)": _masses(
        lambda g, a, b, after_blank, after_label: (
            np.pad(a, ((1, 0), (0, 0)), constant_values=-np.inf)[:-1] + g.blanks + after_blank,
            a + g.labels + after_label)),
    "alpha alone is taken for the posterior; beta is missing": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks, a + g.labels)),
    "beta alone is taken for the posterior; alpha is missing": _masses(
        lambda g, a, b, after_blank, after_label: (g.blanks + after_blank, g.labels + after_label)),
    "the posterior of a node, exp(alpha + beta - log Z), is taken for that of its arcs": _masses(
        lambda g, a, b, after_blank, after_label: (a + b, a + b)),
    "the arc's own log-prob is missing from the posteriors": _masses(
        lambda g, a, b, after_blank, after_label: (a + after_blank, a + after_label)),
    "the arc's own log-prob is missing from the posterior of a label": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks + after_blank, a + after_label)),
    "the arc's own log-prob is missing from the posterior of a blank": _masses(
        lambda g, a, b, after_blank, after_label: (a + after_blank, a + g.labels + after_label)),
    "the arc's own log-prob is in the posteriors twice": _masses(
        lambda g, a, b, after_blank, after_label: (a + 2 * g.blanks + after_blank, a + 2 * g.labels + after_label)),
    "the arc's own log-prob is in the posterior of a label twice": _masses(
        lambda g, a, b, after_blank, after_label: (a + g.blanks + after_blank, a + 2 * g.labels + after_label)),
    "the arc's own log-prob is in the posterior of a blank twice": _masses(
        lambda g, a, b, after_blank, after_label: (a + 2 * g.blanks + after_blank, a + g.labels + after_label)),
    # Z
    "the posteriors are not divided by Z": _z_of(lambda g, a, b: 0.0),
    "the posteriors are multiplied by Z instead of divided": _z_of(lambda g, a, b: -b[0, 0]),
    "the posteriors are divided by Z twice": _z_of(lambda g, a, b: 2 * b[0, 0]),
    "the posteriors are divided by alpha of the last node, without the last blank": _z_of(lambda g, a, b: a[-1, -1]),
    "the posteriors are divided by the sum over all nodes, not by Z":
        _z_of(lambda g, a, b: np.logaddexp.reduce((a + b).ravel())),
    "the posteriors are divided by the sum over the rows of each frame, not by Z":
        _z_of(lambda g, a, b: np.logaddexp.reduce(a + b, axis=1, keepdims=True)),
    "the posteriors are divided by the occupancy of their node, not by Z: shares of the arcs":
        _z_of(lambda g, a, b: a + b),
    "the posteriors are divided by the sum over the frames of each row, not by Z":
        _z_of(lambda g, a, b: np.logaddexp.reduce(a + b, axis=0, keepdims=True)),
    # where they go
    "the posteriors of the labels are missing": _times(lambda blanks: blanks, lambda labels: 0 * labels),
    "the posteriors of the blanks are missing": _times(lambda blanks: 0 * blanks, lambda labels: labels),
    "the gradient of a label goes to the label before it (shifted by one), with a blank in front":
        _placed(_padded(lambda g: g.blank)),
    "the gradient of a label goes to the label before it (shifted by one), with symbol 0 in front":
        _placed(_padded(lambda g: 0)),
    "the gradient of a label goes to the label before it (shifted by one), and index -1 wraps around":
        _placed(_padded(lambda g: g.targets[-1])),
    "the gradient of a label goes to the label before it (shifted by one), and the first label's stays":
        _placed(_padded(lambda g: g.targets[0])),
    "the gradient of a label goes to the next label (shifted by one), and wraps around":
        _placed(lambda g: {"targets": np.roll(g.targets, -1)}),
    "the gradient of a label goes to the next label (shifted by one), and the last label's stays":
        _placed(lambda g: {"targets": np.append(g.targets[1:], g.targets[-1:])}),
    "the gradient of a label goes to the next label (shifted by one), with a blank at the end":
        _placed(lambda g: {"targets": np.append(g.targets[1:], [g.blank] if len(g.targets) else []).astype(int)}),
    "the gradients of the labels go to the targets in reverse order": _placed(lambda g: {"targets": g.targets[::-1]}),
    "the gradients of the labels go to the blank": _placed(lambda g: {"targets": np.full(g.rows - 1, g.blank)}),
    "the gradients of the labels go to the next symbol (label + 1)": _placed(lambda g: {"targets": g.targets + 1}),
    "the gradients of the labels go to the symbol before (label - 1)": _placed(lambda g: {"targets": g.targets - 1}),
    "the gradients of the labels go to the column of their place in the target, not of their symbol":
        _placed(lambda g: {"targets": np.arange(g.rows - 1)}),
    "the gradients of the labels go to the column of their place in the target plus 1, not of their symbol":
        _placed(lambda g: {"targets": np.arange(g.rows - 1) + 1}),
    "the gradient of a label goes to the row that it enters (u + 1 for u, off by one)": _placed(lambda g: {"rows": 1}),
    "the gradient of a label goes to the row before (u - 1 for u, off by one)": _placed(lambda g: {"rows": -1}),
    "the gradient of a label goes to the frame after (t + 1 for t, off by one)": _placed(lambda g: {"frames": 1}),
    "the gradient of a label goes to the frame before (t - 1 for t, off by one)": _placed(lambda g: {"frames": -1}),
    "the gradient of a blank goes to the frame that it enters (t + 1 for t, off by one)":
        _in(0, lambda array: _moved(array, frames=-1)),
    "the gradient of a blank goes to the frame that it enters (t + 1 for t, off by one), except for the last blank":
        _in(0, lambda array: _moved(array, frames=-1) + np.pad(array[-1:, -1:], (
            (array.shape[0] - 1, 0), (array.shape[1] - 1, 0)))),
    "the gradient of a blank goes to the frame before (t - 1 for t, off by one)":
        _in(0, lambda array: _moved(array, frames=1)),
    "the gradient of a blank goes to the row after (u + 1 for u, off by one)":
        _in(0, lambda array: _moved(array, rows=-1)),
    "the gradient of a blank goes to the row before (u - 1 for u, off by one)":
        _in(0, lambda array: _moved(array, rows=1)),
    "the gradients of the blanks go to symbol 0 (a hard-coded blank 0)": _to_column(0),
    "the gradients of the blanks go to the last symbol (a hard-coded blank V - 1)": _to_column(-1),
    # what is left out
    "the last label has no posterior (a loop that ends one row too early)":
        _in(1, _cleared((slice(None), slice(-2, None)))),
    # signs, and other factors
    "the posterior of the labels has the wrong sign": _times(lambda blanks: blanks, lambda labels: -labels),
    "the posterior of the blanks has the wrong sign": _times(lambda blanks: -blanks, lambda labels: labels),
    "the posterior of the labels is in it twice": _times(lambda blanks: blanks, lambda labels: 2 * labels),
    "the posterior of the blanks is in it twice": _times(lambda blanks: 2 * blanks, lambda labels: labels),
    "the last blank is in the gradient twice": _in(0, lambda array: array + np.pad(
        array[-1:, -1:], ((array.shape[0] - 1, 0), (array.shape[1] - 1, 0)))),
    "the gradient is that of the best path, not of the sum over all paths (Viterbi)": _best_path,
    "alpha and beta are added as probabilities, not multiplied": _masses(
        lambda g, a, b, after_blank, after_label: (np.logaddexp(a + g.blanks, after_blank),
                                                   np.logaddexp(a + g.labels, after_label))),
    **{f"beta is alpha of the arcs reversed in {said}, {turned}": _masses(
        lambda g, a, b, after_blank, after_label, flips=flips, back=back: _by_flipping(g, a, flips, back))
       for said, flips in (("frames and rows", (-1, -1)), ("frames only", (-1, 1)), ("rows only", (1, -1)),
                           ("neither frames nor rows", (1, 1)))
       for turned, back in (("flipped back in frames and rows", (-1, -1)), ("flipped back in frames only", (-1, 1)),
                            ("flipped back in rows only", (1, -1)), ("and not flipped back", (1, 1)))},
    "frames and rows are exchanged in beta: it is read transposed": _masses(
        lambda g, a, b, after_blank, after_label: (
            a + g.blanks + _after(g, b.T)[0], a + g.labels + _after(g, b.T)[1])),
}


#: By the sentence that names it, what stands for the node's occupancy (T, U+1) in the softmax term.
NODES = {
    "the softmax term has the occupancy of the labels alone, not of the node": lambda g, a, b, log_z, used: (
        used.sum(-1) - used[..., g.blank]),
    "the softmax term has the occupancy of the blanks alone, not of the node": lambda g, a, b, log_z, used: (
        used[..., g.blank]),
    "the softmax term has alpha for the occupancy of the node; beta is missing": lambda g, a, b, log_z, used: np.exp(a),
    "the softmax term has beta for the occupancy of the node; alpha is missing": lambda g, a, b, log_z, used: (
        np.exp(b - log_z)),
    "the softmax term is not divided by Z": lambda g, a, b, log_z, used: np.exp(a + b),
    "the softmax term has the occupancy of the next frame's node": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), -1, axis=0),
    "the softmax term has the occupancy of the next row's node": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), -1, axis=1),
    "the softmax term has the occupancy of the frame before": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), 1, axis=0),
    "the softmax term has the occupancy of the row before": lambda g, a, b, log_z, used: np.roll(
        used.sum(-1), 1, axis=1),
    "the softmax term has the sum over the rows, not the occupancy of the node": lambda g, a, b, log_z, used: (
        used.sum((1, 2))[:, None] * np.ones(g.rows)),
    "the softmax term has the mean over the nodes, not the occupancy of each": lambda g, a, b, log_z, used: np.full(
        (g.T, g.rows), used.sum(-1).mean()),
    "the softmax term is spread evenly over the rows (1 / (U + 1)), without the occupancy of the node":
        lambda g, a, b, log_z, used: np.full((g.T, g.rows), 1 / g.rows),
}


# --- the formula of a posterior: exp(alpha + n weight + beta - m log Z), with each of its parts elsewhere ---

#: Beyond the grid there is nothing but the end, after the last blank; nothing at all; ones; what is at the edge.
_EDGES = "end", "nothing", "one", "held"


def _at(array, down, right, edge):
    """An array (T, U+1) of logarithms at (t + down, u + right), and what ``edge`` says beyond it."""
    T, rows = array.shape
    t, u = np.arange(T)[:, None] + down, np.arange(rows)[None] + right
    found = array[np.clip(t, 0, T - 1), np.clip(u, 0, rows - 1)]
    if edge == "held":
        return found
    found = np.where((t >= 0) & (t < T) & (u >= 0) & (u < rows), found, 0.0 if edge == "one" else -np.inf)
    return np.where((t == T) & (u == rows - 1), 0.0, found) if edge == "end" else found


def _formula(which, *, alpha=(0, 0), beta=(0, 0), times=1, over=1, edge="nothing", last=True):
    """Occupancies with one formula for the arcs in ``which``; ``beta`` is how far it is from where the arc leads."""
    def found(g, a, b, log_z):
        blanks, labels = arcs(g, a, b, log_z)
        if "blank" in which:
            end, before = blanks[-1, -1], _at(a, *alpha, edge)
            blanks = np.exp(before + times * g.blanks + _at(b, 1 + beta[0], beta[1], edge) - over * log_z)
            if last:
                blanks[-1, -1] = end
        if "label" in which:
            weights = np.where(np.arange(g.rows) < g.rows - 1, times * g.labels, -np.inf)
            labels = np.exp(_at(a, *alpha, edge) + weights + _at(b, beta[0], 1 + beta[1], edge) - over * log_z)
        return collected(g, blanks, labels)
    return found


def _variants(which, **parts):
    return [_formula(which, **parts, edge=edge, last=last) for edge in _EDGES
            for last in ((True, False) if "blank" in which else (True,))]


def _place(down, right):
    return f"({plus('t', down)}, {plus('u', right)})"


def _formulas():
    offsets = [*itertools.product((-1, 0, 1), repeat=2)]
    whose = {"the posterior of a label takes": ("label",), "the posterior of a blank takes": ("blank",)}
    for (said, which), beta in itertools.product(whose.items(), offsets):
        to = (1, 0) if which == ("blank",) else (0, 1)
        where = to[0] + beta[0], to[1] + beta[1]
        if beta != (0, 0) and where != (0, 0):
            yield (f"{said} beta{_place(*where)} in place of beta{_place(*to)}: the arc leads to {_place(*to)}",
                   _variants(which, beta=beta))
    for (said, which), alpha in itertools.product(whose.items(), offsets):
        if alpha != (0, 0) and (which, alpha) not in ((("label",), (0, 1)), (("blank",), (-1, 0))):
            yield (f"{said} alpha{_place(*alpha)} in the place of alpha(t, u): the arc leaves (t, u)",
                   _variants(which, alpha=alpha))
    for beta in offsets:
        if beta != (0, 0):
            yield (f"both posteriors take beta{_place(*beta)} in place of beta(t, u), where the arc leads to "
                   "(t, u)", _variants(("blank", "label"), beta=beta))
    for alpha in offsets:
        if alpha != (0, 0):
            yield (f"both posteriors take alpha{_place(*alpha)} in the place of alpha(t, u): the arcs leave (t, u)",
                   _variants(("blank", "label"), alpha=alpha))
    for (said, which), alpha, beta in itertools.product(whose.items(), offsets, offsets):
        to = (1, 0) if which == ("blank",) else (0, 1)
        where = to[0] + beta[0], to[1] + beta[1]
        if (0, 0) not in (alpha, beta):
            yield (f"{said} alpha{_place(*alpha)} and beta{_place(*where)} in the place of alpha(t, u) and "
                   f"beta{_place(*to)}", [_formula(which, alpha=alpha, beta=beta, edge="end", last=last)
                                                    for last in (True, False)])
    for (said, which), over in itertools.product(
            {"the posterior of a label is": ("label",), "the posterior of a blank is": ("blank",)}.items(), (0, 2)):
        words = "not divided by Z" if over == 0 else "divided by Z twice"
        yield f"{said} {words}", _variants(which, over=over)
    for (name, which), (said, change) in itertools.product((("blank", 0), ("label", 1)), (
            ("beta is missing from the posterior of a", lambda g, a, b, after, weight: a + weight),
            ("alpha is missing from the posterior of a", lambda g, a, b, after, weight: weight + after),
            ("the occupancy of the node stands in the place of the posterior of a", lambda g, a, b, after, weight:
                a + b),
            ("the log-prob of the arc alone is the posterior of a", lambda g, a, b, after, weight: weight + 0 * after),
            ("the share of an arc in its node's posterior, as if that were 1, is taken for the posterior of a",
             lambda g, a, b, after, weight: after + weight - b + b[0, 0]),
            ("alpha and beta are added as probabilities in the posterior of a", lambda g, a, b, after, weight:
                np.logaddexp(a + weight, after)),
            ("beta is subtracted, not added, in the posterior of a", lambda g, a, b, after, weight:
                np.where(np.isfinite(after), a + weight - after, -np.inf)))):
        yield f"{said} {name}", [_one_formula(which, change, last) for last in (True, False)]


def _one_formula(which, change, last):
    def found(g, a, b, log_z):
        posteriors = [*arcs(g, a, b, log_z)]
        end = posteriors[0][-1, -1]
        weight = (g.blanks, g.labels)[which]
        posteriors[which] = np.exp(change(g, a, b, _after(g, b)[which], weight) - log_z)
        if last:
            posteriors[0][-1, -1] = end
        return collected(g, *posteriors)
    return found


_REGIONS = {
    "the first frame": AT_FIRST, "the last frame": AT_LAST, "the first row": FIRST_ROW, "the last row": LAST_ROW,
    "the first node": (0, 0), "the last node": (-1, -1), "the first frame and the first row": None,
    "the last frame and the last row": None,
}


def _region(where, shape):
    found = np.zeros(shape, bool)
    if _REGIONS[where] is not None:
        found[_REGIONS[where]] = True
    else:
        for each in ((AT_FIRST, FIRST_ROW) if "first" in where else (AT_LAST, LAST_ROW)):
            found[each] = True
    return found


def _scaled(factor, where, inside):
    def change(array):
        return np.where(_region(where, array.shape) == inside, factor * array, array)
    return change


#: Regions of blanks, and of labels, with the same arcs as another: in the last frame a blank has no posterior but for
#: the last one, and the last row has no labels.
_SAID_OTHERWISE = (("the last frame", "the last frame and the last row"),
                   ("the last row", "the last frame and the last row", "the last node"))


def _in_regions():
    """Of blanks and labels: nothing, twice, or the wrong sign in a region, or outside it."""
    for (arc, which), where, (factor, said), inside in itertools.product(
            (("blanks", 0), ("labels", 1)), _REGIONS,
            ((0, "have no posterior"), (2, "have their posterior twice"), (-1, "have a posterior of the wrong sign")),
            (True, False)):
        if where in _SAID_OTHERWISE[which] or where == "the last node" and inside and factor in (0, 2):
            continue
        sentence = f"{arc} {'in' if inside else 'outside'} {where} {said}"
        yield sentence, _in(which, _scaled(factor, where, inside))


OCCUPANCIES |= {sentence: made for sentence, made in _formulas()}
OCCUPANCIES |= {sentence: made for sentence, made in _in_regions()}
NODES |= {
    f"the softmax term {said} {'in' if inside else 'outside'} {where}":
        lambda g, a, b, log_z, used, where=where, factor=factor, inside=inside: _scaled(factor, where, inside)(
            used.sum(-1))
    for where, (factor, said), inside in itertools.product(
        _REGIONS, ((0, "is missing"), (2, "is in it twice")), (True, False))
}
NODES |= {
    "the softmax term has 1 for the occupancy of the node": lambda g, a, b, log_z, used: np.ones((g.T, g.rows)),
    "the softmax term has 1 for the occupancy of the node, except where the node has none":
        lambda g, a, b, log_z, used: (used.sum(-1) > 0).astype(float),
    "the softmax term has the occupancy of the node after, (t + 1, u + 1)": lambda g, a, b, log_z, used: _moved(
        used.sum(-1), 1, 1),
    "the softmax term has the occupancy of the node before, (t - 1, u - 1)": lambda g, a, b, log_z, used: _moved(
        used.sum(-1), -1, -1),
    **{f"the softmax term has the occupancy of node {_place(down, right)}, and nothing beyond the edge":
       lambda g, a, b, log_z, used, down=down, right=right: _moved(used.sum(-1), down, right)
       for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1))},
    "the softmax term has the occupancy of the node squared": lambda g, a, b, log_z, used: used.sum(-1) ** 2,
    "the softmax term is divided by Z twice": lambda g, a, b, log_z, used: used.sum(-1) * np.exp(-log_z),
    "the softmax term has alpha alone, divided by Z, for the occupancy of the node; beta is missing":
        lambda g, a, b, log_z, used: np.exp(a - log_z),
    "the softmax term has beta alone, not divided by Z, for the occupancy of the node; alpha is missing":
        lambda g, a, b, log_z, used: np.exp(b),
    "the softmax term is divided by the number of rows": lambda g, a, b, log_z, used: used.sum(-1) / g.rows,
    "the softmax term is divided by the number of frames": lambda g, a, b, log_z, used: used.sum(-1) / g.T,
}

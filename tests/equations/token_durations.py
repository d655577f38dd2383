"""The paths of the token-and-duration transducer, by trying every step; their masses, and posteriors of pairs."""

import notation
import numpy as np
import ranges
from big_steps import mass_at_nodes, mass_of_ways, ways, with_end
from brute_force import blank_of, each_entry, probabilities
from tex_to_python import Notation

from reference_impl.equations import Quantities, computed, zero_outside
from reference_impl.symbolic import softmax

NOTATION = notation.RNNT | Notation({
    r"q_{#d}(#t, #u)": "q[#d][#t, #u]",
    r"\mathcal D": "D",
}, over={r"d \in \mathcal D_+": "for d in D if d > 0"})
QUANTITIES = ranges.RNNT | Quantities({"D": "durations"}, {
    "0 in D": lambda D: 0 in D,
    "0 not in D": lambda D: 0 not in D,
    "1 in D": lambda D: 1 in D,
    "1 not in D": lambda D: 1 not in D,
    "d = 0": lambda d: d == 0,
    "a duration past the end": (lambda d, t, T: t + d > T, lambda D, T: max(D) > T),
    "no path": (lambda z: z == 0, lambda count: count == 0),
})
POSITIVE = {"no path": "where Z > 0"}


def inputs(shapes):
    """Scores: those of the durations stand behind those of the symbols. Labels, and durations."""
    for seed, (T, V, labels, D) in enumerate(shapes):
        yield probabilities(seed, (T, len(labels) + 1, V + len(D))), labels, D


def steps(T, V, labels, D, final_blank=True):
    U, blank = len(labels), blank_of(labels)

    def from_node(t, u):
        for i, d in enumerate(D):
            if d > 0 and (t + d < T or (t + d, u) == (T, U)):
                yield (t + d, u), [(t, u, blank), (t, u, V + i)]
            if u < U and (t + d < T or not final_blank and (t + d, u + 1) == (T, U)):
                yield (t + d, u + 1), [(t, u, labels[u]), (t, u, V + i)]

    return from_node


def sizes(w, labels, D):
    """T, U, and V."""
    return len(w), len(labels), w.shape[-1] - len(D)


def mass_between(w, labels, D, start, goal, final_blank=True):
    T, _, V = sizes(w, labels, D)
    return mass_of_ways(w, start, goal, steps(T, V, labels, D, final_blank))


@computed
def tdt_paths(T, V, labels, D, final_blank=True):
    """All paths, each as the entries of its steps, that of the symbol and that of the duration."""
    return list(ways((0, 0), (T, len(labels)), steps(T, V, labels, D, final_blank)))


@computed
def tdt_z(w, labels, D, final_blank=True):
    return mass_between(w, labels, D, (0, 0), (len(w), len(labels)), final_blank)


@computed
def tdt_alpha(w, labels, D):
    """Mass of all prefixes that reach node (t, u)."""
    T, U, _ = sizes(w, labels, D)
    return mass_at_nodes(w, T, U, lambda node: mass_between(w, labels, D, (0, 0), node))


@computed
def tdt_beta(w, labels, D, final_blank=True):
    """Mass of all suffixes from node (t, u), its own step included, and the end, in one more column."""
    T, U, _ = sizes(w, labels, D)
    return with_end(mass_at_nodes(w, T, U, lambda node: mass_between(w, labels, D, node, (T, U), final_blank)))


def factors(w, labels, D):
    """What recursions read: y, {d: q_d}, labels, blank, D."""
    y, q = np.split(w, [w.shape[-1] - len(D)], axis=-1)
    return (zero_outside(y), {d: zero_outside(q[..., i]) for i, d in enumerate(D)}, zero_outside(labels, zero=-1),
            blank_of(labels), D)


def nodes(w):
    """Every (t, u)."""
    return np.ndindex(w.shape[:2])


def z_of_last_blanks(w, labels, D):
    """Z from alpha: no list of paths."""
    (T, U, _), (y, q, _, blank, _) = sizes(w, labels, D), factors(w, labels, D)
    alpha = zero_outside(tdt_alpha(w, labels, D))
    return sum(alpha[T - d, U] * y[T - d, U, blank] * q[d][T - d, U] for d in D if d > 0)


def pairs_of_nodes(w, labels, D, beta=None):
    """Posteriors of blank and duration, and of label and duration, as {d: array}: alpha, both factors, and beta, over
    Z."""
    (T, U, _), (y, q, next_labels, blank, _) = sizes(w, labels, D), factors(w, labels, D)
    alpha, beta = zero_outside(tdt_alpha(w, labels, D)), zero_outside(tdt_beta(w, labels, D) if beta is None else beta)
    z = z_of_last_blanks(w, labels, D)

    def of_blank(d):
        return lambda t, u: (d > 0) * alpha[t, u] * y[t, u, blank] * q[d][t, u] * beta[t + d, u] / z

    def of_label(d):
        return lambda t, u: (t + d < T) * alpha[t, u] * y[t, u, next_labels[u]] * q[d][t, u] * beta[t + d, u + 1] / z

    return [{d: each_entry((T, U + 1), pair(d)) for d in D} for pair in (of_blank, of_label)]


def softmaxes(x, D):
    """Of symbols and of durations."""
    y, q = np.split(x, [x.shape[-1] - len(D)], axis=-1)
    return np.concatenate([softmax(y), softmax(q)], axis=-1)

"""Checks of the equations of the chapter on wavefronts: enumerated masses, and the memory of real arrays, against what
the chapter says of fronts, places and lanes."""

from fractions import Fraction

import notation
import numpy as np
import pytest
import ranges
from brute_force import CTC_INPUTS, blank_of, ctc_alpha, ctc_skip, probabilities, rnnt_alpha, rnnt_occupancy
from brute_force import RNNT_INPUTS as INPUTS
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed, zero_outside

NOTATION = notation.RNNT | Notation({
    "N_{#n}": "w[#n]",
    r"\alpha[#n, #u]": "alphas[#n, #u]",
    r"\gamma[#n, #u]": "gammas[#n, #u]",
    r"\varnothing[#n, #u]": "blanks[#n, #u]",
    "y[#n, #u]": "label_weights[#n, #u]",
    r"r_\varnothing[#n, #u]": "by_blank[#n, #u]",
    "r_y[#n, #u]": "by_label[#n, #u]",
    r"\alpha^{\varnothing}_{#t}(#u)": "of_blanks[#t, #u]",
    r"\alpha^{l}_{#t}(#u)": "of_labels[#t, #u]",
    "y_{#t}(#k)": "probs[#t, #k]",
})
QUANTITIES = ranges.RNNT | Quantities(
    {"probs": "T, V", "kappa": "2 U + 1"},
    {
        "n = 0": lambda n: n == 0,
        "n = 1": lambda n: n == 1,
        "n = T + U - 2": lambda n, T, U: n == T + U - 2,
        "n = T + U - 1": lambda n, T, U: n == T + U - 1,
        "a corner": lambda n, u, T: not 0 <= n - u < T,
        "u = U - 1": lambda u, U: u == U - 1,
        "no skip": lambda kappa, u: u > 0 and kappa[2 * u + 1] == 0,
        "a skip": lambda kappa, u: u > 0 and kappa[2 * u + 1] == 1,
    })

# frames and labels: one frame, no label, more labels than frames, as many, more frames
SHAPES = [(1, 0), (1, 3), (4, 0), (2, 5), (4, 4), (3, 3), (7, 2)]


def in_fronts(array, T, U):
    """An array of nodes [t, u] as it lies in memory, [n, u], with 0 in the corners; it may have fewer columns."""
    fronts = np.full((T + U, U + 1), Fraction(0), dtype=object)
    for (t, u), value in np.ndenumerate(array):
        fronts[t + u, u] = value
    return zero_outside(fronts)


def weights_of_arcs(y, labels):
    """Of blanks and of labels, 0 for the blanks of the last frame, which lead out of the grid."""
    blank = y[:, :, blank_of(labels)].copy()
    blank[-1] = Fraction(0)
    return blank, y[:, range(len(labels)), list(labels)]


def places(T, U):
    """Every place of the array, the two corners among them."""
    return np.ndindex(T + U, U + 1)


@computed(kind="walking")
def lengths_of_ways(T, U):
    """{node: lengths of the shortest and the longest way from (0, 0)}, found by going every way through the grid."""
    lengths, going = {}, [(0, 0, 0)]
    while going:
        t, u, steps = going.pop()
        shortest, longest = lengths.get((t, u), (steps, steps))
        lengths[t, u] = min(steps, shortest), max(steps, longest)
        going += [(*node, steps + 1) for node in [(t + 1, u), (t, u + 1)] if node[0] < T and node[1] <= U]
    return lengths


@pytest.mark.equation("eq-wavefront-level", patterns={"d(t, u)": "d"})
def test_level():
    """The longest and the shortest of all ways to a node, by going all of them, against t + u."""
    def rhs(d, t, u, T, U):
        return t + u

    check_equation("eq-wavefront-level", first, rhs, (
        (d, t, u, T, U) for T, U in SHAPES for (t, u), ways in lengths_of_ways(T, U).items() for d in ways))


@computed(kind="counting")
def widths(T, U):
    """The number of nodes of each front, counted one by one."""
    return [sum(t + u == n for t, u in np.ndindex(T, U + 1)) for n in range(T + U)]


@pytest.mark.equation("eq-wavefront-width")
def test_width():
    """The nodes with t + u = n, counted one by one, against the formula."""
    def rhs(w, n, T, U):
        return min(n, U) - max(0, n - T + 1) + 1

    check_equation("eq-wavefront-width", lambda w, n, T, U: w[n], rhs, (
        (widths(T, U), n, T, U) for T, U in SHAPES for n in range(T + U)))


@pytest.mark.equation("eq-wavefront-busy")
def test_busy():
    """Nodes counted front by front, as a fraction of all places, against T / (T + U). Both sides are mutated."""
    def left(w, T, U):
        return Fraction(1) / ((T + U) * (U + 1)) * sum(w[n] for n in range(0, T + U))

    def right(w, T, U):
        return Fraction(T) / (T + U)

    cases = [(zero_outside(widths(T, U), zero=5), T, U) for T, U in SHAPES]
    check_equation("eq-wavefront-busy", left, right, cases)
    check_equation("eq-wavefront-busy", right, left, cases)


@computed(kind="NumPy's memory")
def place_in_memory(t, u, T, U):
    """Where NumPy finds [t + u, u] in the memory of a (T + U, U + 1) array."""
    place = np.arange((T + U) * (U + 1)).reshape(T + U, U + 1)
    return int(place[t + u, u])


@pytest.mark.equation("eq-wavefront-view", patterns={"A(t, u)": "place"})
def test_view():
    """A node's place in NumPy's memory against the strides of the view."""
    def rhs(place, t, u, T, U):
        return t * (U + 1) + u * (U + 2)

    check_equation("eq-wavefront-view", first, rhs, (
        (place_in_memory(t, u, T, U), t, u, T, U) for T, U in SHAPES for t, u in np.ndindex(T, U + 1)))


@pytest.mark.equation("eq-wavefront-step")
def test_step():
    """Enumerated masses of prefixes at every place, 0 in the corners, against the front before."""
    def lhs(alphas, blanks, label_weights, n, u, T, U):
        return alphas[n, u]

    def rhs(alphas, blanks, label_weights, n, u, T, U):
        return alphas[n - 1, u] * blanks[n - 1, u] + alphas[n - 1, u - 1] * label_weights[n - 1, u - 1]

    def cases():
        for y, labels in INPUTS:
            T, U = len(y), len(labels)
            arrays = [in_fronts(each, T, U) for each in (rnnt_alpha(y, labels), *weights_of_arcs(y, labels))]
            for n, u in places(T, U):
                if n > 0:
                    yield *arrays, n, u, T, U

    check_equation("eq-wavefront-step", lhs, rhs, cases(), left_out={"n = 0": "for n >= 1: it begins with front 0"})


def shares_of_arcs(y, labels):
    """The shares of the two arcs into each node, of enumerated masses."""
    alpha, (blank, label) = rnnt_alpha(y, labels), weights_of_arcs(y, labels)
    by_blank, by_label = alpha * 0, alpha * 0
    by_blank[1:] = (alpha * blank)[:-1] / alpha[1:]
    by_label[:, 1:] = (alpha[:, :-1] * label) / alpha[:, 1:]
    return by_blank, by_label


@pytest.mark.equation("eq-wavefront-back")
def test_back():
    """Enumerated node occupancies at every place, 0 in the corners, against the front after, through its shares."""
    def lhs(gammas, by_blank, by_label, n, u, T, U):
        return gammas[n, u]

    def rhs(gammas, by_blank, by_label, n, u, T, U):
        return gammas[n + 1, u] * by_blank[n + 1, u] + gammas[n + 1, u + 1] * by_label[n + 1, u + 1]

    def cases():
        for y, labels in INPUTS:
            T, U = len(y), len(labels)
            gamma = rnnt_occupancy(y, labels).sum(axis=-1)
            arrays = [in_fronts(each, T, U) for each in (gamma, *shares_of_arcs(y, labels))]
            for n, u in places(T, U):
                if n < T + U - 1:
                    yield *arrays, n, u, T, U

    check_equation("eq-wavefront-back", lhs, rhs, cases(), left_out={
        "n = T + U - 1": "for n <= T + U - 2: it begins with the last front"})


class frames_from_minus_one:
    """Reads [t, u] where the array has [t + 1, u]; 0 outside."""

    def __init__(self, array):
        self.array = zero_outside(array)

    def __getitem__(self, index):
        t, u = index
        return self.array[t + 1, u]


@computed
def alphas_of_states(probs, targets):
    """Mass of all prefixes that are in state s after frame t."""
    return ctc_alpha(probs, targets)


def pairs():
    """CTC masses of blanks and labels, [t + 1, u], every string tried, with what stands before the first frame at
    [0, u]; one target is longer than there are frames."""
    for y, labels in [*CTC_INPUTS, (probabilities(8, (2, 3)), [1, 2, 1])]:
        alpha, U = alphas_of_states(y, labels), len(labels)
        masses = np.vstack([np.full((1, 2 * U + 1), Fraction(0)), alpha])
        masses[0, 0] = Fraction(1)
        yield frames_from_minus_one(masses[:, ::2]), frames_from_minus_one(masses[:, 1::2]), zero_outside(y), labels


@pytest.mark.equation("eq-wavefront-ctc-blank")
def test_ctc_blank():
    """Masses of strings that stand in a blank state, every string tried, against the pairs one frame before."""
    def lhs(of_blanks, of_labels, probs, labels, blank, t, u):
        return of_blanks[t, u]

    def rhs(of_blanks, of_labels, probs, labels, blank, t, u):
        return (of_blanks[t - 1, u] + of_labels[t - 1, u - 1]) * probs[t, blank]

    check_equation("eq-wavefront-ctc-blank", lhs, rhs, (
        (of_blanks, of_labels, probs, labels, blank_of(labels), t, u) for of_blanks, of_labels, probs, labels in pairs()
        for t, u in np.ndindex(len(probs.array), len(labels) + 1)))


@pytest.mark.equation("eq-wavefront-ctc-label")
def test_ctc_label():
    """Masses of strings that stand in a label state, every string tried, against the pairs one frame before."""
    def lhs(of_blanks, of_labels, kappa, probs, labels, blank, t, u):
        return of_labels[t, u]

    def rhs(of_blanks, of_labels, kappa, probs, labels, blank, t, u):
        return (of_labels[t - 1, u] + of_blanks[t - 1, u] + kappa[2 * u + 1] * of_labels[t - 1, u - 1]) * (
            probs[t, labels[u]])

    def cases():
        for of_blanks, of_labels, probs, labels in pairs():
            for t, u in np.ndindex(len(probs.array), len(labels)):
                yield (of_blanks, of_labels, zero_outside(ctc_skip(labels)), probs, zero_outside(labels, zero=-1),
                       blank_of(labels), t, u)

    check_equation("eq-wavefront-ctc-label", lhs, rhs, cases(), left_out={
        end: "a label state has a label" for end in ("u = U", "U = 0")})


def test_the_corners_are_empty():
    """What the checks above take for granted: no mass and no occupancy outside the grid, and Z on every front."""
    for y, labels in INPUTS:
        T, U = len(y), len(labels)
        alphas, gammas = (in_fronts(each, T, U).array for each in (
            rnnt_alpha(y, labels), rnnt_occupancy(y, labels).sum(axis=-1)))
        n, u = np.indices(alphas.shape)
        outside = (n - u < 0) | (n - u >= T)
        assert outside.sum() == U * (U + 1)
        assert (alphas[outside] == 0).all() and (gammas[outside] == 0).all()
        assert (gammas.sum(axis=1) == 1).all()

"""The questions about RNN-T and FastEmit: what they call right, against enumerated paths, and against differences.

Paths are enumerated here once more, from nothing but their definition. That mistakes are named is in
`test_coursework.py`.
"""

import re
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from math import fsum

import numpy as np
import pytest
from test_coursework import source, text_of

from coursework.questions import ASSIGNMENTS, fastemit, find, rnnt_gradient
from reference_impl import log_softmax
from reference_impl.as_published import rnnt_formulas

ONE, TWO, THREE, EIGHT = "1_ctc_alpha", "2_ctc_beta", "3_ctc_gradient", "8_port_a_loss"
FOUR, SEVEN = "4_rnnt_gradient", "7_fastemit"
SEEDS = range(3)


# --- paths, from their definition ---


@cache
def walks(blanks, labels):
    """All orders of so many blanks (False) and labels (True)."""
    steps = range(blanks + labels)
    return [tuple(step in chosen for step in steps) for chosen in combinations(steps, labels)]


def entries(walk, targets, blank, t=0, u=0):
    """The entries (t, u, symbol) that a walk from (t, u) reads: a blank ends a frame, a label does not."""
    found = []
    for is_label in walk:
        found.append((t, u, int(targets[u]) if is_label else blank))
        t, u = (t, u + 1) if is_label else (t + 1, u)
    return found


def paths(T, targets, blank):
    return [entries((*walk, False), targets, blank) for walk in walks(T - 1, len(targets))]


def log_sum(log_probs, ways):
    masses = [np.exp(fsum(log_probs[entry] for entry in way)) for way in ways]
    with np.errstate(divide="ignore"):
        return np.log(fsum(masses))


def posteriors(log_probs, targets, blank):
    """Of every entry, from all paths; 0 where these have no mass."""
    found, z = np.zeros(log_probs.shape), 0.0
    for path in paths(len(log_probs), targets, blank):
        mass = np.exp(fsum(log_probs[entry] for entry in path))
        z += mass
        for entry in path:
            found[entry] += mass
    return found / z if z else found


def field(log_probs, targets, blank, lam=0.0):
    """v: minus the posteriors, those of the labels times 1 + lambda."""
    found = -posteriors(log_probs, targets, blank)
    found[:, :, [k for k in range(log_probs.shape[2]) if k != blank]] *= 1 + lam
    return found


def through_log_softmax(logits, v):
    """By the Jacobian of each node, written out."""
    y, V = np.exp(log_softmax(logits)), logits.shape[-1]
    found = np.zeros(v.shape)
    for t, u, j, k in np.ndindex(*v.shape, V):
        found[t, u, k] += v[t, u, j] * ((j == k) - y[t, u, k])
    return found


def cases(assignment, name):
    question = find(assignment, name)
    for seed in SEEDS:
        for case in question.drawn(seed):
            yield case.arguments, question.right(**case.facts, **case.arguments)


def close(found, expected, atol=1e-12):
    """With rounding apart, and -inf where -inf is expected."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


# --- assignment 4 ---


@pytest.mark.parametrize("facts", rnnt_gradient.ARCS, ids=str)
def test_paths_through_an_arc(facts):
    T, U, t, u = facts.values()
    used = [(t, u, 1) in path for path in paths(T, [1] * U, 0)]
    assert find(FOUR, "paths_through_an_arc").right(**facts) == sum(used) < len(used)


def test_recursions():
    for given, right in cases(FOUR, "log_alpha"):
        log_probs, targets, blank = given.values()
        close(right, [[log_sum(log_probs, [entries(walk, targets, blank) for walk in walks(t, u)])
                       for u in range(len(targets) + 1)] for t in range(len(log_probs))])
    for given, right in cases(FOUR, "log_beta"):
        log_probs, targets, blank = given.values()
        T, U = len(log_probs), len(targets)
        close(right, [[log_sum(log_probs, [entries((*walk, False), targets, blank, t, u)
                                           for walk in walks(T - 1 - t, U - u)]) for u in range(U + 1)]
                      for t in range(T)])


def test_gradients():
    """By enumerated paths, and the one with respect to the logits as a published kernel has it."""
    for given, right in cases(FOUR, "grad_log_probs"):
        close(right, field(*given.values()))
    for given, right in cases(FOUR, "grad_logits"):
        logits, targets, blank = given.values()
        v = field(log_softmax(logits), targets, blank)
        close(right, through_log_softmax(logits, v))
        if v.any():
            with np.errstate(invalid="ignore"):  # -inf - (-inf), as there
                fused = rnnt_formulas.fused_kernel(logits, targets, blank=blank)
            reached = np.isfinite(fused)
            close(fused[reached], right[reached])
        else:
            assert not right.any()


@pytest.mark.parametrize("assignment, name", [(FOUR, "grad_log_probs"), (SEVEN, "field_log_probs")])
def test_what_is_asked_covers_edges(assignment, name):
    """More labels than frames, equal labels, a blank that is not 0, no label, one frame, masks."""
    given = [case.arguments for case in find(assignment, name).drawn(1)]
    shapes = [(len(g["log_probs"]), len(g["targets"])) for g in given]
    assert any(T < U for T, U in shapes) and any(U == 0 for _, U in shapes) and any(T == 1 for T, _ in shapes)
    assert any(g["blank"] for g in given) and any(len(set(g["targets"])) < len(g["targets"]) for g in given)
    masked = [g for g in given if np.isinf(g["log_probs"]).any()]
    lost = [not field(*list(g.values())[:3]).any() for g in masked]
    assert not all(lost) and any(lost) == ("no alignment" in find(assignment, name).points)


# --- assignment 7 ---


def test_rules():
    for given, right in cases(SEVEN, "field_log_probs"):
        close(right, field(*given.values()))
    for given, right in cases(SEVEN, "field_logits"):
        logits, *others = given.values()
        close(right, through_log_softmax(logits, field(log_softmax(logits), *others)))
    assert any(given["lam"] == 0 for given, _ in cases(SEVEN, "field_log_probs"))


def around(log_probs, targets, blank, lam, t, u, width, height):
    """The integral of v, from enumerated paths, by quadrature side by side."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    two = (t, u, blank), (t, u, int(targets[u]))
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height], [0, 0]])
    found = 0.0
    for start, end in zip(corners[:-1], corners[1:], strict=True):
        for node, weight in zip(nodes, weights, strict=True):
            moved = log_probs.copy()
            for entry, distance in zip(two, start + (end - start) * (1 + node) / 2, strict=True):
                moved[entry] += distance
            v = field(moved, targets, blank, lam)
            found += weight * ((end - start) @ [v[entry] for entry in two]) / 2
    return found


def test_round_trips():
    sizes = []
    for given, right in cases(SEVEN, "round_trip"):
        close(right, around(**given))
        sizes.append((len(given["log_probs"]) > 1, abs(right)))
    assert all((size > 1e-4) == ways for ways, size in sizes) and {ways for ways, _ in sizes} == {False, True}


def test_round_trips_are_seen():
    """Whatever the student's numbers are: far from 0, compared with what may be off."""
    question = find(SEVEN, "round_trip")
    for seed in range(60):
        for case in question.drawn(seed):
            if case.group == "two ways":
                assert abs(question.right(**case.arguments)) > 200 * question.tolerance


def test_a_small_round_trip_is_the_asymmetry():
    """Divided by its area, but for the sign, as assignment 7 says."""
    for given, right in cases(SEVEN, "asymmetry"):
        log_probs, targets, blank, lam = given.values()
        for t, u in np.ndindex(right.shape):
            small = fastemit.round_trip(log_probs, targets, blank, lam, t, u, 1e-3, 1e-3)
            close(small / 1e-6, -right[t, u], atol=1e-3)


def exact_asymmetry(log_probs, targets, blank, lam):
    """Of v by the quotient rule, in fractions, from masses of paths that use one entry or both."""
    y = np.vectorize(Fraction, otypes=[object])(np.exp(log_probs))
    found = np.zeros((len(y), len(targets)), dtype=object)
    factor = 1 + Fraction(lam)
    masses = []
    for path in paths(len(y), targets, blank):
        product = Fraction(1)
        for entry in path:
            product *= y[entry]
        masses.append((set(path), product))
    z = sum(mass for _, mass in masses)

    def of(*used):
        return sum((mass for path, mass in masses if path.issuperset(used)), Fraction(0))

    for t, u in np.ndindex(found.shape):
        i, j = (t, u, blank), (t, u, int(targets[u]))
        slope = of(i, j) / z - of(i) * of(j) / z**2  # of E_i by log y_j, and of E_j by log y_i
        found[t, u] = -slope + factor * slope
    return found.astype(float)


def test_asymmetry():
    """In fractions, and by central differences of the field."""
    h, seen = 1e-5, 0.0
    for given, right in cases(SEVEN, "asymmetry"):
        log_probs, targets, blank, lam = given.values()
        close(right, exact_asymmetry(*given.values()))
        for t, u in np.ndindex(right.shape):
            i, j = (t, u, blank), (t, u, int(targets[u]))
            slopes = []
            for of, by in ((i, j), (j, i)):
                move = np.zeros(log_probs.shape)
                move[by] = h
                up, down = (field(log_probs + sign * move, targets, blank, lam)[of] for sign in (1, -1))
                slopes.append((up - down) / (2 * h))
            close(right[t, u], slopes[0] - slopes[1], atol=1e-9)
            seen = max(seen, abs(right[t, u]))
    assert seen > 0.01


def test_surrogate():
    """Its value by its definition; its slope in log_probs is v where it is frozen, and it has none in the rest."""
    for given, right in cases(SEVEN, "surrogate"):
        log_probs, frozen_at, *others = given.values()
        v = field(frozen_at, *others)
        assert np.isfinite(right)
        close(right, fsum(v[entry] * log_probs[entry] for entry in zip(*np.nonzero(v), strict=True)))
        for entry in np.ndindex(v.shape):
            move = np.zeros(v.shape)
            move[entry] = 1.0
            moved = fastemit.surrogate(log_probs + move, frozen_at, *others)
            close(moved - right, v[entry], atol=1e-11)


def test_which_is_a_gradient():
    """Against Jacobians, by central differences of the fields at random scores."""
    h = 1e-5
    for seed in SEEDS:
        asked = find(SEVEN, "is_a_gradient").drawn(seed)
        answers = [fastemit.is_gradient(**case.arguments) for case in asked]
        assert len(asked) == 6 and sum(answers) == 3
        for case, answer in zip(asked, answers, strict=True):
            variable, T, U, V, lam = case.arguments.values()
            rng = np.random.default_rng([seed, T, U, V])
            x, targets = rng.normal(size=(T, U + 1, V)), rng.integers(1, V, size=U)
            rule = {"v": fastemit.field, "w": fastemit.field_logits}[variable]
            rule = partial(rule, targets=targets, blank=0, lam=lam)
            moves = h * np.eye(x.size).reshape(-1, *x.shape)
            jacobian = np.array([(rule(x + move) - rule(x - move)).ravel() for move in moves]) / (2 * h)
            assert (np.abs(jacobian - jacobian.T).max() < 1e-8) == answer, (variable, T, U, V, lam)


# --- the notebooks ---


def test_what_assignment_7_is_given():
    """Posteriors and loss from the locked cell, against enumerated paths."""
    room = {"np": np}
    exec(text_of(next(cell for cell in source(SEVEN)["cells"] if cell["id"] == "given")), room)
    for given, _ in cases(FOUR, "grad_log_probs"):
        log_probs, targets, blank = given.values()
        e_blank, e_label, loss = room["arc_posteriors"](log_probs, targets, blank)
        expected = posteriors(log_probs, targets, blank)
        close(e_blank, expected[:, :, blank])
        close(e_label, expected[:, np.arange(len(targets)), targets])
        close(loss, -log_sum(log_probs, paths(len(log_probs), targets, blank)))


@pytest.mark.parametrize("assignment", [ONE, TWO, THREE, FOUR, SEVEN, EIGHT])
def test_headings_tell_the_points(assignment):
    """Those with a number; others begin a part."""
    headings = [text_of(cell).split("\n")[0] for cell in source(assignment)["cells"]
                if re.match(r"## \d", text_of(cell))]
    for number, (heading, question) in enumerate(
            zip(headings, ASSIGNMENTS[assignment].values(), strict=True), start=1):
        plural = "" if question.total == 1 else "s"
        assert heading.startswith(f"## {number}. ") and heading.endswith(f"({question.total:g} point{plural})")

"""Exercises of the chapters, checked in the notebook: questions, named mistakes, cells that ask and that solve."""

import ast
import json
import re
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import pytest
import torch
from setuptools import find_packages

from coursework.exercises import check_exercise
from coursework.questions.exercises import EXERCISES, ctc, find, gradients, hearing, machines, rnnt, together
from coursework.questions.exercises.parts import ROUNDED
from reference_impl import ctc as ctc_reference
from reference_impl import lattice_loss, log_softmax
from reference_impl import rnnt as rnnt_reference
from reference_impl.bug_bank import BUGS
from reference_impl.decoding import ctc_beam_search
from reference_impl.differences import central_difference
from reference_impl.lattice import arc_posteriors
from reference_impl.scaling import bias_of_the_mean_of_means
from reference_impl.second_order import hvp_log_probs
from reference_impl.topology import ctc_lattice, rnnt_lattice

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WITH_CHECKS = 33
CALL = re.compile(r'check_exercise\(\s*"([\w-]+)"')
DOTS = "not answered yet"

every_part = pytest.mark.parametrize(
    ("label", "question"), [(label, q) for label, questions in EXERCISES.items() for q in questions.values()],
    ids=lambda x: getattr(x, "name", x))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


# --- the questions ---


def given(question, function):
    """What a reader would hand over: the function, or the numbers that it returns."""
    return function if question.drawn(0)[0].arguments else function()


@every_part
def test_right_answers_and_named_mistakes(label, question):
    """The right answer gets all points of its part; a mistake is called by its name, and gets less."""
    verdict = check_exercise(label, **{question.name: given(question, question.right)})
    others = [f"{name}: {DOTS}" for name in EXERCISES[label] if name != question.name]
    assert verdict.points == question.total and verdict.findings == (tuple(others) or ("right",))
    assert question.mistakes
    for says, mistake in question.mistakes.items():
        verdict = check_exercise(label, **{question.name: given(question, mistake)})
        assert verdict.points < question.total and not verdict.right
        assert f"{question.name}: {says}" in verdict.findings, (says, verdict.findings)


@every_part
def test_other_wrong_answers_are_not_called_right_or_by_a_name(label, question):
    def off(*arguments, **named):
        return np.array(question.right(*arguments, **named), dtype=float) * 1.0123 + 0.0217

    verdict = check_exercise(label, **{question.name: given(question, off)})
    assert verdict.points == 0
    assert any("in a way that has no name here" in finding for finding in verdict.findings), verdict.findings


@pytest.mark.parametrize("label", EXERCISES)
def test_dots_are_no_answer(label):
    parts = dict.fromkeys(EXERCISES[label], ...)
    for verdict in (check_exercise(label), check_exercise(label, **parts)):
        assert (verdict.name, verdict.points, verdict.right) == (label, 0, False)
        assert verdict.total == sum(question.total for question in EXERCISES[label].values()) > 0
        assert len(verdict.findings) == 1 and verdict.findings[0].startswith(DOTS)


@pytest.mark.parametrize(("label", "question"), [
    pytest.param(label, question, id=question.name) for label, questions in EXERCISES.items()
    for question in questions.values() if question.tolerance == ROUNDED])
def test_numbers_may_be_rounded(label, question):
    verdict = check_exercise(label, **{question.name: np.round(question.right(), 3)})
    assert verdict.points == question.total, verdict


@pytest.mark.parametrize("answers, finding", [
    ({"occupancy": Fraction(2, 3)}, None), ({"occupancy": torch.tensor(2 / 3)}, None),
    ({"mass": lambda y0, *, y1: 1 - (1 - y0) * (1 - y1)}, None),
    ({"mass": lambda y0, y1: 1 - (1 - Fraction(y0)) * (1 - Fraction(y1))}, None),
    ({"mass": lambda y0, y1: None}, "mass: TypeError: NoneType; expected a number"),
    ({"mass": lambda y0, y1: 1 / 0}, "mass: ZeroDivisionError"), ({"mass": 0.75}, "mass: float; expected a function"),
    ({"occupancy": lambda: 2 / 3}, "occupancy: TypeError: function; expected a number"),
    ({"occupancy": [2 / 3]}, "occupancy: shape (1,); expected ()"),
    ({"occupancy": None}, "occupancy: Nothing was written there."),
    ({"occupancy": "2/3"}, "occupancy: '2/3'; expected a number"),
])
def test_what_readers_hand_over(answers, finding):
    verdict = check_exercise("ex-ctc-1", **answers)
    assert verdict.points == (finding is None)
    assert finding is None or any(each.startswith(finding) for each in verdict.findings), verdict.findings


def test_all_parts_right_is_right():
    verdict = check_exercise("ex-ctc-1", mass=lambda y0, y1: y0 + y1 - y0 * y1, occupancy=2 / 3, gradient=-1 / 6)
    assert verdict.right and str(verdict) == "ex-ctc-1: 3 of 3 points\n  right"


def test_names_that_are_not_there():
    with pytest.raises(ValueError, match="name = 'ex-none'; expected one of ex-short-alpha, ex-check-by-hand"):
        check_exercise("ex-none")
    with pytest.raises(ValueError, match="slop: ex-digits-3 has the parts slope"):
        check_exercise("ex-digits-3", slop=...)


def test_the_package_that_a_notebook_installs_has_them():
    assert {"coursework", "coursework.questions", "coursework.questions.exercises"} <= {*find_packages(ROOT / "src")}


# --- right answers that are formulas, against what they are formulas of ---


def close(value, expected, tolerance=1e-7):
    np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)


def arguments(label, part):
    return [case.arguments for case in find(label)[part].drawn(0, 1)]


def test_temperature():
    for case in arguments("ex-softmax-2", "backward"):
        logits = case["tau"] * np.log(case["y"])
        close(gradients.cooled(**case), central_difference(
            lambda u, case=case: float((case["g"] * log_softmax(u / case["tau"])).sum()), logits))


def test_cross_entropy():
    for case in arguments("ex-softmax-3", "logits"):
        close(find("ex-softmax-3")["logits"].right(**case), central_difference(
            lambda u, q=case["q"]: float(-q @ log_softmax(u)), np.log(case["y"])))


def test_ties_in_automatic_differentiation():
    w01, w02, w12, w13, w23 = w = torch.tensor(gradients.TIED, requires_grad=True)
    best = torch.maximum(w02, w01 + w12)
    (found,) = torch.autograd.grad(torch.maximum(w01 + w13, best + w23), w)
    close(found, find("ex-lattice-4")["automatic"].right())
    close(arc_posteriors(gradients.graph(gradients.BRIDGE), gradients.TIED / 1e-3),
          find("ex-lattice-4")["limit"].right())


def test_the_number_of_labels_with_most_paths():
    for case in arguments("ex-ctc-loss-longest", "labels"):
        T = case["T"]
        assert ctc.most_paths(T) == max(range(T + 1), key=lambda U, T=T: comb(T + U, 2 * U))


def test_second_derivative_within_a_frame():
    scores = log_softmax(np.random.default_rng(0).normal(size=(4, 3)))
    lattice = ctc_lattice([1, 2], 4, 3)
    E = lattice_loss.occupancy(lattice, scores)
    for k in range(3):
        direction = np.zeros((4, 3))
        direction[1, k] = 1
        close(hvp_log_probs(lattice, scores, direction)[1], ctc.SECOND[0].right(E[1])[k], 1e-12)


@pytest.mark.parametrize("moves", [True, False])
def test_scores_with_a_prior_and_a_scale(moves):
    u, targets, scale = np.random.default_rng(1).normal(size=(5, 3)), [1, 2], 0.7

    def scores(u):
        y = log_softmax(u)
        return y - scale * np.log(np.exp(y).mean(0)) if moves else scale * y

    y, E = np.exp(log_softmax(u)), ctc_reference.occupancy(scores(u), targets)
    expected = central_difference(lambda u: ctc_reference.loss(scores(u), targets), u)
    formula = ctc.moving_prior(y, E, scale) if moves else scale * (y - E)
    close(formula, expected)
    if not moves:
        close([ctc.scaled(*rows, scale) for rows in zip(y, E, strict=True)], expected)


def test_what_torch_returns_for_sharpened_scores():
    u, scale = torch.randn(4, 3, dtype=torch.float64, generator=torch.manual_seed(0), requires_grad=True), 1.7
    scores = scale * torch.log_softmax(u, -1)
    loss = torch.nn.functional.ctc_loss(scores[:, None], torch.tensor([[1, 2]]), [4], [2], reduction="sum")
    (found,) = torch.autograd.grad(loss, u)
    E = ctc_reference.occupancy(scores.detach().numpy(), [1, 2])
    y = torch.softmax(u, -1).detach().numpy()
    right = find("ex-practice-1")["returned"].right
    close([right(*rows, scale) for rows in zip(y, E, strict=True)], found)


def test_fastemit_of_one_path():
    for case in arguments("ex-fastemit-3", "F"):
        targets, lam = case["targets"], case["lam"]
        close(central_difference(lambda lp, t=targets, lam=lam: float(rnnt.weighed(lp, t, lam)), case["log_probs"]),
              rnnt_reference.grad_log_probs(case["log_probs"], targets, fastemit_lambda=lam))


def test_counts_and_chances_of_rnnt():
    T, U, t, u = 4, 3, 2, 1
    flat = np.zeros((T, U + 1, 2))
    parts = find("ex-rnnt-loss-2")
    alpha, beta = (np.exp(f(flat, [1] * U)) for f in (rnnt_reference.log_alpha, rnnt_reference.log_beta))
    close([parts["alpha"].right(t, u), parts["beta"].right(t, u, T, U), parts["passing"].right(t, u, T, U)],
          [alpha[t, u], beta[t, u], alpha[t, u] * beta[t, u] / beta[0, 0]])


def test_the_last_blank_left_out():
    T, U, V = 4, 2, 3
    scores = log_softmax(np.random.default_rng(2).normal(size=(T, U + 1, V)))
    without = -central_difference(lambda lp: -rnnt_reference.log_alpha(lp, [1, 2])[-1, -1], scores)
    changed = np.abs(without - rnnt_reference.occupancy(scores, [1, 2])) > 1e-6
    parts = find("ex-rnnt-2")
    assert changed.sum() == parts["changed"].right(T, U, V)[0]
    close(without[..., 0].sum(), parts["blanks"].right(T, U))
    rows = [np.abs(central_difference(lambda u, f=f: f(log_softmax(u)), scores)) for f in (
        lambda lp: -rnnt_reference.log_alpha(lp, [1, 2])[-1, -1], lambda lp: rnnt_reference.loss(lp, [1, 2]))]
    assert (np.abs(rows[0] - rows[1]) > 1e-6).sum() == parts["changed"].right(T, U, V)[1]


def test_louder_logits():
    for case in arguments("ex-digits-3", "slope"):
        z, targets = case["logits"], case["targets"]
        found = central_difference(lambda mu, z=z, targets=targets: ctc_reference.loss(log_softmax(mu[0] * z), targets),
                                   np.array([case["mu"]]))
        close(together.slope(**case), found[0], 1e-6)


def test_one_changed_arc():
    lattice = rnnt_lattice([1, 1], 3, 2)
    weights = np.random.default_rng(3).normal(size=len(lattice.arcs))
    e, (a, b), delta = arc_posteriors(lattice, weights), (0, len(weights) - 3), 0.4
    more = weights.copy()
    more[b] += np.log1p(delta)
    without = weights.copy()
    without[b] = -np.inf
    e_ab = e[a] - arc_posteriors(lattice, without)[a] * (1 - e[b])
    parts = find("ex-numerics-2")
    close(parts["changed"].right(e[a], e[b], e_ab, delta), arc_posteriors(lattice, more)[a], 1e-12)
    small = arc_posteriors(lattice, weights + 1e-6 * (np.arange(len(weights)) == b))[a]
    close(parts["slope"].right(e[a], e[b], e_ab), (small - e[a]) / 1e-6, 1e-5)


def test_pieces_of_a_row():
    for case in arguments("ex-triton-1", "joined"):
        peak, mass = machines.joined(**case)
        close(peak + np.log(mass), np.logaddexp.reduce(case["peaks"] + np.log(case["masses"])))


def test_gradient_of_the_bias():
    logits, targets = np.random.default_rng(4).normal(size=(5, 4)), [1, 2]
    y, E = np.exp(log_softmax(logits)), ctc_reference.occupancy(log_softmax(logits), targets)
    found = central_difference(lambda bias: ctc_reference.loss(log_softmax(logits + bias), targets), np.zeros(4))
    close(find("ex-hears-1")["gradient"].right(y, E), found)


def test_growth_of_a_difference():
    """Descent on one label of one frame: the velocity E - y along a difference of two frames."""
    def velocity(zeta):
        return np.exp(zeta) / np.exp(zeta).sum() - 1 / (1 + np.exp(-zeta))

    rate, first, later = (part.right for part in find("ex-hears-2").values())
    for T, y in ((2, 0.3), (7, 0.1), (100, 1 / 29), (5, 1 / 5)):
        apart = np.zeros(T)
        apart[:2] = 1, -1
        found = central_difference(lambda h, T=T, y=y, apart=apart: velocity(
            np.full(T, np.log(y / (1 - y))) + h[0] * apart)[0], np.zeros(1))
        close(rate(T, y), found[0], 1e-8)
    assert abs(rate(100, 1 / 29) - first()) < 1e-15
    close(later(13), rate(13, 1 / 13), 1e-15)


def test_reports_with_zeros():
    losses = np.array([20.0] * 6 + [0] * 4)
    assert losses.mean() == 12
    losses[6:9] = 20
    aligned, report = (part.right() for part in find("ex-hears-3").values())
    close([aligned, report], [losses[:6].mean(), losses.mean()], 1e-12)


def test_bytes_of_logits():
    shapes = {"full": [(500, 121, 29), (500, 29), (500, 31, 1000)], "band": [(500, 5, 29), (500, 29), (500, 5, 1000)]}
    for name, each in shapes.items():
        assert find("ex-late-1")[name].right() == [np.empty(shape, np.float32).nbytes for shape in each]


def test_where_the_labels_jump():
    """Two paths of a transducer have nearly all mass; the tilt that makes them equal is found by bisection."""
    T, targets, at, g = 9, [1, 1], [4, 7], 30.0
    scores = np.full((T, 3, 2), -200.0)
    rows = np.searchsorted(at, np.arange(T), side="right")  # labels written after each frame
    scores[np.arange(T), rows, 0] = scores[at, [0, 1], 1] = 0
    scores[0, [0, 1], 1], scores[:, 2, 0] = -g / 2, 0

    def mean_frame(d):
        _, label = rnnt_reference.arc_posteriors(scores - d * np.arange(T)[:, None, None] * [0, 1], targets)
        return np.arange(T) @ label.sum(1) / 2

    low, high = 0.0, 20.0
    for _ in range(60):
        d = (low + high) / 2
        low, high = (d, high) if mean_frame(d) > mean_frame(0.0) / 2 else (low, d)
    close(find("ex-late-3")["predicted"].right(g, 2, mean_frame(0.0)), d, 1e-6)


def strings_of_one_label(T, y):
    """Masses of collapsed strings of the symbols 0 and 1, by enumeration."""
    masses = {}
    for path in product((0, 1), repeat=T):
        string = tuple(k for k, before in zip(path, (0, *path), strict=False) if k and not before)
        masses[string] = masses.get(string, 0) + np.prod([(y, 1 - y)[k] for k in path])
    return masses


def test_silence():
    mass, (low, high) = find("ex-dec-silence")["mass"].right, find("ex-dec-silence")["bounds"].right()
    for T, y in ((2, 2 / 3), (3, 0.55), (6, 0.8)):
        close(mass(T, y), strings_of_one_label(T, y)[1,], 1e-12)
        close(hearing.runs(T, y), mass(T, y), 1e-12)
    for y in np.arange(0.005, 1, 0.01):
        silence = strings_of_one_label(2, y)[()]
        differ = y > 1 - y and silence < max(strings_of_one_label(2, y).values())
        assert differ == (low < y < high)


def test_a_beam_of_one():
    masses = find("ex-dec-one")["masses"].right()
    for T in (1, 2):
        kept = ctc_beam_search(np.log([[2 / 3, 1 / 3]] * T), beam=1)[0]
        assert kept.labels == ()
        close(masses[T - 1, 0], np.exp(kept.log_mass), 1e-12)
    close(masses[0], [strings_of_one_label(1, 2 / 3)[k] for k in ((), (1,))], 1e-12)
    close(masses[1], masses[0, 0] * masses[0], 1e-12)


def test_runs_of_one_label_in_three_frames():
    runs = [(first, last) for first in range(3) for last in range(first, 3)]
    begins, ends, medians, best = (part.right() for part in find("ex-align-1").values())
    for each, found, median in zip(zip(*runs, strict=True), (begins, ends), medians, strict=True):
        shares = np.bincount(each) / len(runs)
        close(found, shares, 1e-12)
        assert np.flatnonzero(shares.cumsum() >= 1 / 2 - 1e-12)[0] == median
    assert len(runs) == 6 and tuple(best) == max(runs, key=lambda run: run[1] - run[0])


@pytest.mark.parametrize("K", [2, 3, 5])
def test_checkpoints_of_checkpoints(K):
    """Rows that are kept, and computed, when a lattice of K^3 frames is gone through backwards."""
    kept, most, computed = set(), 0, np.zeros(K**3, dtype=int)

    def compute(start, stop, level, every):
        nonlocal most
        for t in range(start, stop):
            computed[t] += 1
            if t % every == 0:
                kept.add((level, t))
                most = max(most, len(kept))

    compute(0, K**3, 0, K**2)
    for block in reversed(range(0, K**3, K**2)):
        compute(block, block + K**2, 1, K)
        for part in reversed(range(block, block + K**2, K)):
            compute(part, part + K, 2, 1)
            kept -= {(2, t) for t in range(part, part + K)}
        kept -= {(1, t) for t in range(block, block + K**2)}
    rows, times, long = (part.right for part in find("ex-align-2").values())
    assert (most, set(computed)) == (rows(K), {times()})
    assert rows(56) <= long() <= rows(57) and 56**3 < 180_000 < 57**3


def test_a_factor_in_adam():
    def step(c, eps, q=1e-4):
        weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        weight.grad = torch.tensor([c * q], dtype=torch.float64)
        torch.optim.Adam([weight], lr=1.0, eps=eps).step()
        return -weight.item()

    share, half = (part.right for part in find("ex-matter-1").values())
    close(share(), step(1 / 180_000, 1e-8) / step(1 / 180_000, 0.0), 1e-9)
    close(step(half(1e-4, 1e-8), 1e-8) / step(1.0, 0.0), 1 / 2, 1e-9)


def test_emission_counted_twice():
    (bug,) = [each for each in BUGS if each.name == "emission counted twice"]
    logits, targets = np.random.default_rng(5).normal(size=(5, 3)), [1, 2]
    y, E = np.exp(log_softmax(logits)), ctc_reference.occupancy(log_softmax(logits), targets)
    found, parts = bug.gradient(logits, targets), find("ex-matter-2")
    close([parts["bug"].right(*rows) for rows in zip(y, E, strict=True)], found, 1e-12)
    close([parts["sum"].right(*rows) for rows in zip(y, E, strict=True)], found.sum(1), 1e-12)
    y, E = np.array([0.9, 0.05, 0.05]), np.array([0.5, 0.5, 0])
    close(parts["wrong"].right(), parts["bug"].right(y, E), 1e-15)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_deviation_of_a_difference(n):
    """Runs that are off by sigma up or down with equal probability: all outcomes, exactly."""
    sigma, parts = 1.5, find("ex-matter-3")
    runs = sigma * np.array(list(product((-1, 1), repeat=2 * n)))
    found = (runs[:, :n].mean(1) - runs[:, n:].mean(1)).std()
    close(parts["deviation"].right(sigma, n), found, 1e-12)
    close(parts["seeds"].right(sigma, 2 * found), n, 1e-12)


def test_means_of_means():
    parts = find("ex-scale-1")
    for short, long in ((2, 2), (5, 3)):
        sums = Fraction(short * 50), Fraction(long * 400)
        found = bias_of_the_mean_of_means(sums, [50, 400])
        close(parts["bias"].right(short, long), float(found), 1e-12)
        assert np.sign(float(found)) == parts["signs"].right()[0][short > long]
        assert bias_of_the_mean_of_means(sums, [10, 10]) == 0
    n, sums = 7, np.random.default_rng(6).uniform(size=(1000, 2))
    sums[0, 1] = 0
    ratios = (sums / [1, n]).mean(1) / (sums.sum(1) / (1 + n))
    close(find("ex-scale-2")["ratio"].right(n), ratios.max(), 1e-12)


def test_sums_of_gradients():
    factor, doubled = (part.right for part in find("ex-scale-3").values())
    counts, sums = np.array([2, 3, 5, 10]), np.array([3.0, 1, 4, 1])
    close((factor(4, counts.sum()) * sums).sum(), sums.sum() / counts.sum(), 1e-12)
    means = np.full(8, 1.5)
    close(means.sum() / means[:4].sum(), doubled(), 1e-12)


# --- the cells ---


@cache
def cells(path):
    return [(cell["cell_type"], cell["id"], "".join(cell["source"]), cell["metadata"])
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def cells_that_ask(path):
    return [cell for cell in cells(path) if cell[0] == "code" and "check-answer" in cell[3].get("tags", [])]


def cells_that_solve(path):
    return [cell for cell in cells(path) if cell[0] == "code" and cell[1].startswith("solved-")]


def test_every_exercise_is_asked_once_and_solved_once():
    for select in (cells_that_ask, cells_that_solve):
        labels = [CALL.findall(text) for path in NOTEBOOKS for _, _, text, _ in select(path)]
        assert all(len(each) == 1 for each in labels)
        assert sorted(label for label, in labels) == sorted(EXERCISES)
    assert sum(bool(cells_that_ask(path)) for path in NOTEBOOKS) == WITH_CHECKS


@every_notebook
def test_no_other_cell_calls(path):
    calling = {i for kind, i, text, _ in cells(path) if kind == "code" and CALL.search(text)}
    assert calling == {i for _, i, _, _ in cells_that_ask(path) + cells_that_solve(path)}


@every_notebook
def test_a_check_stands_below_its_exercise_and_above_the_solution_that_passes(path):
    order = [text if kind == "markdown" else f"CELL {i}" for kind, i, text, _ in cells(path)]
    whole = "\n".join(order)
    for _, i, text, _ in cells_that_ask(path):
        (label,) = CALL.findall(text)
        assert i == f"check-{label}"
        places = [re.search(pattern, whole).start() for pattern in (
            rf"\{{exercise(-start)?\}}.*\n:label: {label}\n", rf"CELL check-{label}\b",
            rf"\{{solution-start\}} {label}\n", rf"CELL solved-{label}\b")]
        assert places == sorted(places)
        between = whole[places[0]:places[2]]
        assert len(re.findall(r"\{exercise(-start)?\}", between)) == 1, "another exercise stands between"
        assert between.count("{exercise-start}") == 0 or between.index("{exercise-end}") < between.index("CELL check-")
        assert "{solution-end}" not in whole[places[2]:places[3]]


@every_notebook
def test_a_cell_that_asks_has_dots_for_every_part(path, capsys):
    for _, _, text, metadata in cells_that_ask(path):
        (label,) = CALL.findall(text)
        assert re.findall(r"^ +(\w+)=\.\.\.,", text, re.M) == list(EXERCISES[label])
        assert "hide-cell" in metadata["tags"] and metadata["mystnb"]["code_prompt_show"].startswith("Check")
        exec(text, {"check_exercise": check_exercise})
        assert DOTS in capsys.readouterr().out


def define(name, where, known):
    """Run the import or the function that a name comes from, and before it what that needs."""
    node = where.get(name)
    if node is None or name in known:
        return
    known[name] = None  # a function may call itself
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            define(each.id, where, known)
    exec(compile(ast.Module([node], []), "a chapter", "exec"), known)


@every_notebook
def test_solutions_pass(path):
    """Run with the chapter's imports and functions alone; the build runs them with all that comes before."""
    where = {}
    for kind, i, text, _ in cells(path):
        if kind != "code" or i == "install":
            continue
        tree = ast.parse(text)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                where[node.name] = node
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                where |= {each.asname or each.name.partition(".")[0]: node for each in node.names}
        if i.startswith("solved-"):
            known = {}
            for name in {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}:
                define(name, where, known)
            exec(text, known)
            assert "assert verdict.right" in text
            assert known["verdict"].right and known["verdict"].name == i.removeprefix("solved-")

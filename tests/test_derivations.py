"""The marked derivations: every displayed formula of the sample solutions is read as TeX, and computed.

Both sides are executed on small inputs whose quantities come from enumeration and from exact or numerical differences.
The full solutions hold; of the others exactly the formulas fail that the rubric calls wrong, and these cost points.
What stands between the formulas is read by people only.
"""

import re
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path

import mpmath
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "equations"))
from displays import MEANINGS  # noqa: E402
from enumeration import ctc_alignments, rnnt_alignments  # noqa: E402
from tex_to_python import Notation, translate  # noqa: E402

DERIVATIONS = ROOT / "course" / "derivations"
SOLUTIONS = ("full", "middling", "wrong")

pytestmark = pytest.mark.skipif(not DERIVATIONS.exists(), reason="students do not get the derivations")


# --- two transcripts ---


def mass(y, paths):
    total = Fraction(0)
    for path in paths:
        product_ = Fraction(1)
        for entry in path:
            product_ *= y[entry]
        total += product_
    return total


def two_references(seed):
    """Fractions that add up to 1 in a frame; derivatives by exact differences, since Z is linear in each entry."""
    rng = np.random.default_rng(seed)
    T, V = 3, 3
    counts = rng.integers(1, 9, (T, V))
    y = {(t, k): Fraction(int(counts[t, k]), int(counts[t].sum())) for t, k in np.ndindex(T, V)}
    targets = {1: ([1, 2], [1], [2, 1])[seed % 3], 2: ([2], [2, 1], [1, 1])[seed % 3]}
    paths = {i: ctc_alignments(each, T, V, 0) for i, each in targets.items()}
    lambda_ = Fraction(int(rng.integers(1, 6)), 7)
    z = {i: mass(y, each) for i, each in paths.items()}
    total = lambda_ * z[1] + (1 - lambda_) * z[2]
    grad = {}  # of each Z_i by each log-prob
    for i, (t, k) in product((1, 2), y):
        moved = {**y, (t, k): y[t, k] + 1}
        grad[i, t, k] = y[t, k] * (mass(moved, paths[i]) - z[i])
    used = {(i, *entry): mass(y, [path for path in paths[i] if entry in path]) / z[i] for i in (1, 2) for entry in y}
    grad_total = {entry: lambda_ * grad[1, *entry] + (1 - lambda_) * grad[2, *entry] for entry in y}

    def loss(u):
        y = {}
        for t in range(T):
            exps = [mpmath.exp(u[t, k]) for k in range(V)]
            y |= {(t, k): exps[k] / mpmath.fsum(exps) for k in range(V)}
        masses = [mpmath.fsum(mpmath.fprod(y[entry] for entry in path) for path in paths[i]) for i in (1, 2)]
        lam = mpmath.mpf(lambda_.numerator) / lambda_.denominator
        return -mpmath.log(lam * masses[0] + (1 - lam) * masses[1])

    u = {entry: mpmath.log(mpmath.mpf(value.numerator) / value.denominator) for entry, value in y.items()}
    rho = lambda_ * z[1] / total
    return {"y": y, "z": z, "Z": total, "lambda_": lambda_, "grad_z": grad, "grad_Z": grad_total, "e": used, "rho": rho,
            "grad_log_probs": {entry: -value / total for entry, value in grad_total.items()},
            "grad_logits": differences(loss, u)}, {"t": range(T), "k": range(V), "i": (1, 2)}


def differences(function, at):
    """Central ones, in 60 digits."""
    found, h = {}, mpmath.mpf(10) ** -15
    for entry in at:
        above, below = ({**at, entry: at[entry] + sign * h} for sign in (1, -1))
        found[entry] = (function(above) - function(below)) / (2 * h)
    return found


# --- squares in the place of the softmax ---


def spherical_softmax(seed):
    """A frame of CTC's and a node of RNN-T's; v is any vector, g its product with numerical derivatives."""
    rng = np.random.default_rng(seed)
    V, T, targets = 3, 3, ([1, 2], [1], [2, 2, 1])[seed % 3]

    def drawn(*shape):
        return {entry: mpmath.mpf(int(rng.integers(3, 20)) * int(rng.choice([-1, 1]))) / 8
                for entry in np.ndindex(*shape)}

    def squares(u):
        total = mpmath.fsum(value**2 for value in u.values())
        return {entry: value**2 / total for entry, value in u.items()}

    u, v = drawn(V), drawn(V)
    u, v = ({k: value for (k,), value in each.items()} for each in (u, v))
    y = squares(u)
    jacobian = {}
    for j in range(V):
        slopes = differences(lambda at, j=j: mpmath.log(squares(at)[j]), u)
        jacobian |= {(j, k): slope for k, slope in slopes.items()}

    def loss_of(paths, others, place):
        """-log Z as a function of the outputs at one frame or node."""
        def loss(at):
            here = {(*place, k): value for k, value in squares(at).items()}
            return -mpmath.log(mpmath.fsum(mpmath.fprod({**others, **here}[e] for e in path) for path in paths))
        return loss

    def elsewhere(places):
        return {(*place, k): value for place in places for (k,), value in squares(drawn(V)).items()}

    def posteriors(paths, others, place):
        all_ = {**others, **{(*place, k): value for k, value in y.items()}}
        masses = [mpmath.fprod(all_[entry] for entry in path) for path in paths]
        return {k: mpmath.fsum(m for m, path in zip(masses, paths, strict=True) if (*place, k) in path)
                / mpmath.fsum(masses) for k in range(V)}

    ctc, rnnt = ctc_alignments(targets[:2], T, V, 0), rnnt_alignments(targets, T, V, 0)
    frames, nodes = elsewhere((t,) for t in range(T)), elsewhere(np.ndindex(T, len(targets) + 1))
    used, used_rnnt = posteriors(ctc, frames, (1,)), posteriors(rnnt, nodes, (1, 1))
    return {
        "u": u, "v": v, "y": y, "N": mpmath.fsum(value**2 for value in u.values()), "jacobian": jacobian,
        "g": {k: mpmath.fsum(v[j] * jacobian[j, k] for j in range(V)) for k in range(V)},
        "g_ctc": differences(loss_of(ctc, frames, (1,)), u), "g_rnnt": differences(loss_of(rnnt, nodes, (1, 1)), u),
        "e": {"ctc": used, "rnnt": used_rnnt}, "gamma": mpmath.fsum(used_rnnt.values()),
    }, {"j": range(V), "k": range(V)}


_GRADIENT = r"\frac{\partial L}{\partial "
CASES = {"1_two_references": two_references, "2_spherical_softmax": spherical_softmax}
NOTATIONS = {
    "1_two_references": Notation({
        r"\frac{\partial Z}{\partial \log y_{#t}(#k)}": "grad_Z[#t, #k]",
        r"\frac{\partial Z_{#i}}{\partial \log y_{#t}(#k)}": "grad_z[#i, #t, #k]",
        _GRADIENT + r"\log y_{#t}(#k)}": "grad_log_probs[#t, #k]", _GRADIENT + r"u_{#t}(#k)}": "grad_logits[#t, #k]",
        "y_{#t}(#k)": "y[#t, #k]", "E_{#i,#t}(#k)": "e[#i, #t, #k]", "Z_{#i}": "z[#i]",
    }, over={"k": "range(3)"}),
    "2_spherical_softmax": Notation({
        r"\frac{\partial \log y(#j)}{\partial u(#k)}": "jacobian[#j, #k]", "g_{ctc}(#k)": "g_ctc[#k]",
        "g_{rnnt}(#k)": "g_rnnt[#k]", "u(#k)": "u[#k]", "v(#k)": "v[#k]", "y(#k)": "y[#k]", "g(#k)": "g[#k]",
        "E(#k)": "E[#k]",
    }, over={"k": "range(3)", "j": "range(3)"}),
}


def formulas(name, solution):
    text = (DERIVATIONS / name / f"{solution}.md").read_text(encoding="utf-8")
    found = {label: tex for tex, label in re.findall(r"\$\$(.*?)\$\$ \(([\w-]+)\)", text, re.S)}
    assert len(found) == text.count("$$") // 2 and all(label.startswith(f"{solution}-") for label in found)
    return found


def number(value):
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else mpmath.mpf(value)


def holds(name, label, tex):
    """Whether all members are the same for all indices, in three cases."""
    members = [compile(member, member, "eval") for member in translate(tex, NOTATIONS[name]).members]
    assert len(members) > 1, label
    with mpmath.workdps(60):
        for seed in range(3):
            quantities, ranges = CASES[name](seed)
            if name == "2_spherical_softmax":
                quantities["E"] = quantities["e"]["rnnt" if label.endswith("rnnt") else "ctc"]
            for values in product(*ranges.values()):
                names = {**MEANINGS, **quantities, **dict(zip(ranges, values, strict=True))}
                sides = [number(eval(member, dict(names))) for member in members]  # our own files, by our own grammar
                if any(abs(side - sides[0]) > mpmath.mpf(10) ** -20 for side in sides):
                    return False
    return True


def table(name, head):
    text = (DERIVATIONS / name / "rubric.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {head} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()]


def marks(name):
    """By solution: points by step, all points, and the labels of the formulas that the rubric calls wrong."""
    found = {}
    for solution, *steps, total, wrong in table(name, "solution"):
        labels = set() if wrong == "none" else set(wrong.split(", "))
        found[solution.strip("`").removesuffix(".md")] = [float(step) for step in steps], float(total), labels
    return found


every_solution = pytest.mark.parametrize("solution", SOLUTIONS)
every_derivation = pytest.mark.parametrize("name", CASES)


@every_derivation
@every_solution
def test_exactly_the_formulas_that_the_rubric_calls_wrong_fail(name, solution):
    found = formulas(name, solution)
    wrong = {label for label, tex in found.items() if not holds(name, label, tex)}
    assert len(found) >= 5 and wrong == marks(name)[solution][2]


@every_derivation
def test_marks_add_up_and_a_wrong_formula_costs(name):
    whole = [float(points) for _, points, _ in table(name, "step")]
    assert sum(whole) == 10 and set(marks(name)) == set(SOLUTIONS)
    for solution, (steps, total, wrong) in marks(name).items():
        assert sum(steps) == total and all(0 <= got <= full for got, full in zip(steps, whole, strict=True))
        step = step_of(name, solution)
        for label in wrong:
            assert steps[step[label] - 1] < whole[step[label] - 1], label
    assert marks(name)["full"][1] == 10 and not marks(name)["full"][2]
    assert 4 < marks(name)["wrong"][1] < marks(name)["middling"][1] < 8


def step_of(name, solution):
    """The number of the step in which a formula stands."""
    text = (DERIVATIONS / name / f"{solution}.md").read_text(encoding="utf-8")
    parts = re.split(r"^\*\*(\d)\.\*\*", text, flags=re.MULTILINE)
    found = {}
    for number_, part in zip(parts[1::2], parts[2::2], strict=True):
        found |= {label: int(number_) for label in re.findall(r"\$\$ \(([\w-]+)\)", part)}
    assert list(map(int, parts[1::2])) == [1, 2, 3, 4, 5]
    return found


@every_derivation
def test_what_the_marks_are_explained_by_adds_up(name):
    """The paragraphs below the table of marks take away what the table takes away."""
    whole = [float(points) for _, points, _ in table(name, "step")]
    text = (DERIVATIONS / name / "rubric.md").read_text(encoding="utf-8").partition("## Marks of the sample")[2]
    for solution in ("middling", "wrong"):
        paragraph = re.search(rf"\*{solution.capitalize()}\.\* (.*)", text)[1]
        lost = sum(float(value) for value in re.findall(r"\(\$-([\d.]+)\$\)", paragraph))
        assert lost == sum(whole) - marks(name)[solution][1]


@every_derivation
def test_the_sheet_has_the_points_of_the_rubric_and_no_result(name):
    sheet = (DERIVATIONS / name / "task.md").read_text(encoding="utf-8")
    points = [float(value) for value in re.findall(r"\((\d) points?\)$", sheet, re.MULTILINE)]
    assert points == [float(worth) for _, worth, _ in table(name, "step")]
    assert not any(tex.strip(" .,") in sheet for tex in formulas(name, "full").values())


def test_the_example_of_one_frame():
    """The numbers of the last step, by the loss itself: posterior 3/4, and the colleague's 1/2."""
    def loss(y_a, y_b):
        return -mpmath.log((y_a + y_b) / 2)

    with mpmath.workdps(40):
        a, b, h = mpmath.mpf(3) / 5, mpmath.mpf(1) / 5, mpmath.mpf(10) ** -12
        slope = (loss(a * mpmath.exp(h), b) - loss(a * mpmath.exp(-h), b)) / (2 * h)
        assert abs(slope + mpmath.mpf(3) / 4) < 1e-20
    text = (DERIVATIONS / "1_two_references" / "full.md").read_text(encoding="utf-8")
    assert r"is $-\frac34$, and the colleague's is $-\frac12$" in text


def test_the_wrong_product_satisfies_the_wrong_identity():
    """That is why it convinces: what the rubric says of the sample solution is so, and the right one does not."""
    with mpmath.workdps(40):
        quantities, ranges = spherical_softmax(1)
        u, v, y = (quantities[name] for name in "uvy")
        mixed = mpmath.fsum(v[j] / u[j] for j in ranges["j"])
        wrong = [2 * v[k] / u[k] - 2 * y[k] * mixed for k in ranges["k"]]
        assert abs(mpmath.fsum(wrong)) < 1e-30 < 1e-3 < abs(mpmath.fsum(quantities["g"].values()))


def test_the_gradient_vanishes_where_an_output_is_0():
    """As the last step of the second sheet says: g goes to 0 with u, though 2 / u does not."""
    paths = ctc_alignments([1], 2, 2, 0)

    def slope(u1):
        def loss(at):
            total = at[0]**2 + at[1]**2
            y = {(0, k): at[k]**2 / total for k in (0, 1)} | {(1, 0): mpmath.mpf(1) / 2, (1, 1): mpmath.mpf(1) / 2}
            return -mpmath.log(mpmath.fsum(mpmath.fprod(y[entry] for entry in path) for path in paths))
        return differences(loss, {0: mpmath.mpf(1), 1: u1})[1]

    with mpmath.workdps(60):
        slopes = [abs(slope(mpmath.mpf(10) ** -n)) for n in (1, 2, 3)]
    assert slopes[0] > 5 * slopes[1] > 25 * slopes[2] > 0

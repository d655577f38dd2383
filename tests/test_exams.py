"""The exam bank: each key computed a second way, distractors that differ from it, sheets that differ from another.

The keys come from the book's package; here they come from enumerated strings and paths, from formulas, and from
arithmetic in many digits.
"""

import doctest
import itertools
import math
import os
import re
import subprocess
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from enumeration import ctc_alignments, rnnt_alignments

from coursework.exams import KINDS, bank, item, kernels, sheet
from coursework.exams.bank import TOPICS, _drawn
from coursework.exams.item import FEWEST, shown

ROOT = Path(__file__).parents[1]
SEEDS = range(12)

every_kind = pytest.mark.parametrize("kind", KINDS)


def items(kind, seeds=SEEDS):
    return [sheet("Exam", "ada", seed, [kind]).questions[0].item for seed in seeds]


# --- keys, a second way ---


def mass(y, paths):
    return sum((math.prod((y[entry] for entry in path), start=Fraction(1)) for path in paths), Fraction(0))


def ctc_paths(facts):
    return ctc_alignments(facts["targets"], len(facts["y"]), 3, 0)


def ctc_occupancy(facts):
    paths, place = ctc_paths(facts), (facts["t"], facts["k"])
    return mass(facts["y"], [path for path in paths if place in path]) / mass(facts["y"], paths)


def grid_posteriors(y, targets):
    paths = rnnt_alignments(targets, len(y), 3, 0)
    return {entry: mass(y, [path for path in paths if entry in path]) / mass(y, paths)
            for entry in itertools.product(*map(range, y.shape))}


def node_gradient(y, targets, t, u, k):
    used = grid_posteriors(y, targets)
    return y[t, u, k] * sum(used[t, u, j] for j in range(3)) - used[t, u, k]


def fastemit_logit(y, lam):
    """The rule with respect to the log-probs, through the Jacobian of the softmax."""
    used = grid_posteriors(y, [1])
    v = [-used[0, 0, 0], -(1 + lam) * used[0, 0, 1], Fraction(0)]
    return sum(v[j] * ((j == 1) - y[0, 0, 1]) for j in range(3))


def absorbed(size):
    """By 50 digits: what is added is less than half the way to the next number."""
    half = (np.nextafter(np.float32(-size), np.float32(0)) - np.float32(-size)) / 2
    with mpmath.workdps(50):
        return next(d for d in range(1, 60) if mpmath.log(1 + mpmath.exp(-d)) < float(half))


def differences(loss, at):
    found = np.zeros(at.shape)
    for entry in np.ndindex(*at.shape):
        step = np.zeros(at.shape)
        step[entry] = 1e-6
        found[entry] = (loss(at + step) - loss(at - step)) / 2e-6
    return found


def variable_of_a_line(line, start):
    """By differences of the enumerated loss in each of the three variables."""
    targets, y = [1, 2, 1], np.random.default_rng(7).dirichlet(np.ones(4), 5)
    paths = ctc_alignments(targets, 5, 4, 0)

    def loss(y):
        return -math.log(math.fsum(math.prod(y[entry] for entry in path) for path in paths))

    def softmax(x):
        return np.exp(x) / np.exp(x).sum(1, keepdims=True)

    found = kernels.line_gradient(line, start, np.log(y), targets)
    slopes = {"the probabilities $y$": differences(loss, y),
              "the log-probs $\\log y$, taken as independent": differences(lambda x: loss(np.exp(x)), np.log(y)),
              "the logits": differences(lambda x: loss(softmax(x)), np.log(y))}
    right = [name for name, slope in slopes.items() if np.allclose(found, slope, rtol=1e-6, atol=1e-7)]
    assert len(right) <= 1
    return right[0] if right else "none of the three"


def changed_recursion(change):
    """By the sets of state paths: wrong where they are not CTC's, or where a maximum leaves some of several out."""
    place, text = change
    wrong = []
    for name, targets in {"a": [1], "aa": [1, 1], "ab": [1, 2], "aba": [1, 2, 1], "abb": [1, 2, 2],
                          "the empty target": []}.items():
        z = [0, *itertools.chain.from_iterable((k, 0) for k in targets)]
        right = state_paths(z, lambda a, b, z=z: z[b] != 0 and z[b] != z[a], 2, 2)
        skip = {"z[s] != blank": lambda a, b, z=z: z[b] != 0, "z[s] != z[s - 2]": lambda a, b, z=z: z[b] != z[a],
                "False": lambda a, b: False, "s % 2 == 1": lambda a, b: b % 2 == 1}
        begin = {"1": 1, "S": len(z)}.get(text, 2) if place == "begin" else 2
        ends = {"-1:": 1, ":": len(z)}.get(text, 2) if place == "ends" else 2
        found = state_paths(z, skip[text] if place == "skip" else lambda a, b, z=z: z[b] != 0 and z[b] != z[a], begin,
                            ends)
        if found != right or place == "add" and len(right) > 1:
            wrong.append(name)
    return ", ".join(name if "target" in name else f"*{name}*" for name in wrong) or "none of them"


def state_paths(z, skips, begin, ends, T=5):
    found = {(s,) for s in range(len(z)) if s < begin}
    for _ in range(T - 1):
        found = {(*path, s) for path in found for s in range(len(z))
                 if s - path[-1] in (0, 1) or s - path[-1] == 2 and skips(path[-1], s)}
    return {path for path in found if path[-1] >= len(z) - ends}


def entry_of_a_step(T, targets, t, u, step):
    place = (t, u - 1, targets[u - 1]) if step == "label" else (t - 1, u, 0)
    return f"`lp[{place[0]}, {place[1]}, {place[2]}]`"


DIGITS = {"float16": 11, "float32": 24, "float64": 53}
SECOND_WAY = {
    "alignments": lambda targets, T: len(ctc_alignments(targets, T, 3, 0)),
    "shortest": lambda targets: len(targets) + sum(a == b for a, b in itertools.pairwise(targets)),
    "total": lambda **facts: mass(facts["y"], ctc_paths(facts)),
    "posterior": lambda **facts: ctc_occupancy(facts),
    "logit_gradient": lambda **facts: facts["y"][facts["t"], facts["k"]] - ctc_occupancy(facts),
    "paths_of_a_node": lambda T, U, t, u: sum(
        any(entry[:2] == (t, u) for entry in path) for path in rnnt_alignments([1] * U, T, 2, 0)),
    "total_of_a_grid": lambda y, targets: mass(y, rnnt_alignments(targets, len(y), 3, 0)),
    "node_gradient": node_gradient,
    "sum_of_all": lambda T, U: -T - U,
    "fastemit_sum": lambda T, U, lam: -T - (1 + lam) * U,
    "fastemit_logit": fastemit_logit,
    "spacing": lambda type, size: f"$2^{{{math.floor(math.log2(size)) + 1 - DIGITS[type]}}}$",
    "underflow": lambda type, m: math.ceil({"float32": 150, "float64": 1075}[type] / m),
    "absorbed": absorbed,
    "variable_of_a_line": variable_of_a_line,
    "changed_recursion": changed_recursion,
    "entry_of_a_step": entry_of_a_step,
}


def test_there_are_enough_kinds_of_every_topic():
    assert set(SECOND_WAY) == set(KINDS) and len(KINDS) >= 12
    assert set(TOPICS) == {"CTC", "RNN-T", "FastEmit", "Numerics", "Reading kernels"}


@every_kind
def test_the_key_is_right(kind):
    for one in items(kind):
        assert one.right == SECOND_WAY[kind](**one.facts), one.text


def test_every_change_of_the_recursion_and_every_line():
    """All of them, since a seed may draw none of some."""
    for change in kernels.CHANGES:
        log_probs = np.log(np.random.default_rng(1).dirichlet(np.ones(3), 5))
        assert kernels._listed(kernels._wrong_targets(change, log_probs)) == changed_recursion(change), change
    log_probs = np.log(np.random.default_rng(2).dirichlet(np.ones(4), 5))
    for line, start in itertools.product(kernels.LINES, kernels._STARTS):
        found = kernels._variable(kernels.line_gradient(line, start, log_probs, [1, 2, 1]), log_probs, [1, 2, 1])
        assert kernels._VARIABLES[found] == variable_of_a_line(line, start), (line, start)


# --- distractors and options ---


@every_kind
def test_distractors_are_wrong_and_differ(kind):
    for one in items(kind):
        distractors = one.distractors()
        assert len(distractors) >= FEWEST and shown(one.right) not in distractors
        assert set(distractors.values()) <= set(one.wrong)
        numbers = [value for value in one.wrong.values() if not isinstance(value, str) and value != one.right]
        assert {shown(value) for value in numbers} <= set(distractors), "a value that looks like the right one"


@every_kind
def test_numbers_are_many(kind):
    """Of twelve sheets no more than a few are alike."""
    least = {"variable_of_a_line": 4, "changed_recursion": 3, "underflow": 5, "sum_of_all": 6, "absorbed": 6,
             "paths_of_a_node": 6}
    assert len({one.text for one in items(kind)}) >= least.get(kind, 8)


def test_the_right_option_is_anywhere():
    letters = [asked.letter for seed in range(30) for asked in sheet("Exam", "ada", seed).questions]
    assert all(0.2 < letters.count(letter) / len(letters) < 0.3 for letter in "ABCD")
    for asked in sheet("Exam", "ada", 3).questions:
        assert len(set(asked.options)) == 4 and asked.options.count(shown(asked.item.right)) == 1
        assert asked.options["ABCD".index(asked.letter)] == shown(asked.item.right)


def test_a_kind_without_distractors_is_refused():
    poor = item.Kind("poor", "CTC", 1, 1, lambda rng: item.Item("?", 1, {"a": 1, "b": 2}, ""))
    with pytest.raises(RuntimeError, match="poor: 200 draws without 3 wrong answers"):
        poor.item(np.random.default_rng(0))


# --- sheets ---


def test_a_sheet_has_no_answer_and_its_key_has_all():
    one = sheet("Midterm", "ada", 4, 10)
    text, key = one.markdown(), one.key()
    assert len(one.questions) == 10 and {asked.kind.topic for asked in one.questions} == set(TOPICS)
    assert one.points == sum(map(int, re.findall(r"\((\d) points\)", text))) and f"{one.minutes} minutes" in text
    for asked in one.questions:
        assert asked.item.text in text and asked.item.reason in key and asked.item.reason not in text
        assert f"**{shown(asked.item.right)}** (option {asked.letter})" in key
        assert all(mistake in key and mistake not in text for mistake in asked.item.distractors().values())
    with_options = one.markdown(options=True)
    assert all(f"- **{letter}** " in with_options for letter in "ABCD") and "- **A** " not in text


def test_students_have_the_same_kinds_and_other_numbers():
    ada, emmy = (sheet("Midterm", name, seed, 10) for name, seed in (("ada", 1), ("emmy", 2)))
    assert [a.kind for a in ada.questions] == [a.kind for a in emmy.questions]
    same = [a.item.text == b.item.text for a, b in zip(ada.questions, emmy.questions, strict=True)]
    assert sum(same) <= 3 and sheet("Midterm", "ada", 1, 10).key() == ada.key()
    assert _drawn(10, "Midterm") != _drawn(10, "Resit") and len(_drawn(len(KINDS), "x")) == len(KINDS)


@pytest.mark.parametrize("kinds, message", [
    (["total", "essay"], "kinds: 'essay'; expected some of alignments"),
    (4, "kinds = 4; expected 5, one for each topic, to 17"), (18, "kinds = 18; expected 5"),
])
def test_what_cannot_be_drawn(kinds, message):
    with pytest.raises(ValueError, match=message):
        sheet("Exam", "ada", 1, kinds)


def test_examples():
    for module in (item, bank):
        assert doctest.testmod(module).failed == 0


# --- pages ---


@pytest.mark.course
def test_sheets_and_keys_are_written(course_python, tmp_path):
    """For each student of a roster, drawn from the course's secret; a specimen without a roster."""
    (tmp_path / "roster").write_text("ada\nemmy\n", encoding="utf-8")

    def run(*options, title="Midterm, 2nd sitting"):
        command = [course_python, "-m", "coursework.exams", title, "--out", tmp_path / "out", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    done = run("--students", tmp_path / "roster", "--options")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "out" / "exams" / "Midterm__2nd_sitting"
    assert "2 sheets of 10 questions" in done.stdout and str(folder / "keys") in done.stdout
    pages = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    assert set(pages) == {f"{kind}/{name}.html" for kind in ("sheets", "keys") for name in ("ada", "emmy")} | {
        "all_sheets.html", "all_keys.html"}
    assert [re.findall(r"<h1.*?<strong>(\w+)</strong>", pages[f"all_{kind}.html"], re.S)
            for kind in ("sheets", "keys")] == [["ada", "emmy"]] * 2
    assert all("<math" in page and "<script" not in page and "\\frac" not in page for page in pages.values())
    before = (folder / "keys" / "ada.md").read_text(encoding="utf-8")
    (tmp_path / "out" / "secret").write_text("0" * 32, encoding="ascii")
    assert run("--students", tmp_path / "roster").returncode == 0
    assert (folder / "keys" / "ada.md").read_text(encoding="utf-8") != before
    assert run(title="Trial").returncode == 0
    assert (tmp_path / "out" / "exams" / "Trial" / "sheets" / "specimen.html").exists()
    few = run("--kinds", "3")
    assert few.returncode == 1 and few.stderr.startswith("make exam: kinds = 3; expected 5")

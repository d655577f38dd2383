"""The graded questions whose rules are each student's own: their right answers against enumeration and differences.

Paths are enumerated here from the sentences that a student reads, by no code of the questions. It is also shown that
students get no answer, and that nobody grades or hands out without them. That mistakes are named is in
`test_coursework.py`.
"""

import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from math import fsum
from pathlib import Path

import numpy as np
import pytest
from test_coursework import run_course

from coursework.questions import ASSIGNMENTS, find, own, port_own, sealed
from coursework.questions.sealed import Own, Sealed, told
from coursework.release import read
from reference_impl import log_softmax
from reference_impl.conformance.encoding import decoded

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "course" / "assignments"
OWN = {name: [question for question in questions.values() if isinstance(question, Own)]
       for name, questions in ASSIGNMENTS.items()}
BETA, GRADIENT, GRID = (importlib.import_module(f"coursework_graded.{name}")
                        for name in ("own_beta", "own_gradient", "own_grid"))


def log_sum(masses):
    with np.errstate(divide="ignore"):
        return np.log(fsum(masses))


# --- paths, from the sentences that a student reads ---


def said(rule, words):
    """The sentences of the rule's cell that are list items."""
    return {line.removeprefix("- ") for line in words(rule).splitlines() if line.startswith("- ")}


class Machine:
    """States, steps, beginnings and ends that the sentences allow; where they say nothing, as in CTC."""

    def __init__(self, targets, blank, sentences):
        self.sentences, self.z = sentences, [blank]
        for label in targets:
            self.z += [int(label), blank]
        last = len(self.z) - 1
        self.begins = {0} if self.has("A path begins in the first blank") or not last else {0, 1}
        self.ends = {last} if self.has("A path is complete in the last blank") or not last else {last, last - 1}
        if last and self.has("A path begins in the first label"):
            self.begins = {1}
        if last and self.has("A path is complete in the last label"):
            self.ends = {last - 1}

    def has(self, text):
        return any(sentence.startswith(text) for sentence in self.sentences)

    def steps(self, a, b):
        if a == b:
            blank_ends = self.has("A label may last several frames. A blank lasts exactly one")
            label_ends = self.has("A blank may last several frames. A label lasts exactly one")
            return not (label_ends if a % 2 else blank_ends)
        if b != a + 2:
            return b == a + 1
        if a % 2 == 0 or self.has("No state may be skipped"):
            return False
        return self.has("A blank between two labels may always be skipped") or self.z[a] != self.z[b]

    def paths(self, T, begins=None):
        """All sequences of T states."""
        found = [[s] for s in sorted(self.begins if begins is None else begins)]
        for _ in range(T - 1):
            found = [[*path, s] for path in found for s in range(len(self.z)) if self.steps(path[-1], s)]
        return [path for path in found if path[-1] in self.ends]


def grid_paths(T, targets, blank, sentences):
    """All paths of a transducer that the sentences allow, as lists of entries (t, u, symbol)."""
    def has(text):
        return any(text in sentence for sentence in sentences)

    U, found = len(targets), []
    for frames in range(1, T + 1):
        for labels in itertools.product(range(U + 1), repeat=frames):
            if sum(labels) != U:
                continue
            kinds = []  # the labels of each frame, and the blank that ends it
            for count in labels:
                kinds += ["label"] * count + ["blank"]
            if has("at most one label") and max(labels) > 1 or has("at most two labels") and max(labels) > 2:
                continue
            if has("The last step of every path is the last label"):
                if frames != T or len(kinds) < 2 or kinds[-2] != "label":
                    continue
                kinds.pop()
            elif not has("a blank may end the path in any frame") and frames != T:
                continue
            if has("The first step of every path is a blank") and kinds[0] != "blank":
                continue
            if has("The first step of every path is a label") and kinds[0] != "label":
                continue
            entries, t, u = [], 0, 0
            for kind in kinds:
                entries.append((t, u, blank if kind == "blank" else int(targets[u])))
                t, u = (t + 1, u) if kind == "blank" else (t, u + 1)
            found.append(entries)
    return found


def arguments(case):
    return list(case.arguments.values())


def close(found, expected, atol=1e-11):
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def rules_of(module):
    return pytest.mark.parametrize("rule", module.RULES, ids=lambda rule: "-".join(map(str, rule.values())))


@rules_of(BETA)
def test_beta_and_loss_of_a_machine(rule):
    question, loss = OWN["2_ctc_beta"]
    sentences = said(rule, question.words)
    rng, groups = np.random.default_rng(1), set()
    for case in [*question.cases(rng), *loss.cases(rng)]:
        log_probs, targets, blank = arguments(case)
        machine, T = Machine(targets, blank, sentences), len(log_probs)

        def mass(path, first=0, log_probs=log_probs, z=machine.z):
            return np.exp(fsum(log_probs[first + t, z[s]] for t, s in enumerate(path)))

        log_z = log_sum([mass(path) for path in machine.paths(T)])
        close(loss.right(rule=rule, **case.arguments), -log_z)
        groups.add((case.group, np.isfinite(log_z)))
        beta = [[log_sum([mass(path, t) for path in machine.paths(T - t, {s})]) for s in range(len(machine.z))]
                for t in range(T)]
        close(question.right(rule=rule, **case.arguments), beta)
    assert ("labels", True) in groups and ("no alignment", False) in groups and ("no alignment", True) not in groups


def posteriors_of_states(log_probs, targets, blank, rule, sentences):
    """The weighted posterior of each entry from all paths; the sentence has to say the weights."""
    weight = np.full(log_probs.shape[1], rule["label_weight"])
    weight[blank] = rule["blank_weight"]
    text = next(sentence for sentence in sentences if sentence.startswith("The score of a path"))
    assert f"= {rule['blank_weight']:g}$ for the blank" in text and f"$w = {rule['label_weight']:g}$ for every" in text
    machine = Machine(targets, blank, sentences)
    paths = [[(t, machine.z[s]) for t, s in enumerate(path)] for path in machine.paths(len(log_probs))]
    return mass_and_posteriors(log_probs, paths, weight)[1]


@rules_of(GRADIENT)
def test_gradients_with_weights(rule):
    first, second = OWN["3_ctc_gradient"]
    sentences = said(rule, first.words)
    for case in first.cases(np.random.default_rng(2)):
        log_probs, targets, blank = arguments(case)
        used = posteriors_of_states(log_probs, targets, blank, rule, sentences)
        assert used.any() == (case.group != "no alignment") or case.group == "edges"
        close(first.right(rule=rule, **case.arguments), -used)
        logits = log_probs + np.arange(len(log_probs))[:, None]
        log_probs = log_softmax(logits)  # others than before, where an entry is masked
        used = posteriors_of_states(log_probs, targets, blank, rule, sentences)
        close(second.right(rule=rule, logits=logits, targets=targets, blank=blank),
              np.exp(log_probs) * used.sum(1, keepdims=True) - used)


def test_the_gradient_with_weights_is_a_derivative():
    """Of the loss, by differences: nothing in it is a derivative of something else."""
    first, second = OWN["3_ctc_gradient"]
    chain = importlib.import_module("coursework_graded.chain")
    for rule in GRADIENT.RULES[::7]:
        log_probs, *others = arguments(first.cases(np.random.default_rng(3))[0])
        for question, of in ((first, lambda x: x), (second, log_softmax)):
            found = question.right(log_probs + 0.3, *others, rule)
            for entry in np.ndindex(*log_probs.shape):
                moved = [log_probs + 0.3, log_probs + 0.3]
                moved[0][entry] += 1e-5
                moved[1][entry] -= 1e-5
                above, below = (chain.loss(of(scores), *others, rule) for scores in moved)
                assert abs((above - below) / 2e-5 - found[entry]) < 1e-7


def mass_and_posteriors(log_probs, paths, weights=None):
    """Of paths as lists of entries; ``weights`` by symbol."""
    weights = np.ones(log_probs.shape[-1]) if weights is None else weights
    masses = [np.exp(fsum(weights[entry[-1]] * log_probs[entry] for entry in path)) for path in paths]
    used, total = np.zeros(log_probs.shape), fsum(masses)
    for path, mass in zip(paths, masses, strict=True):
        for entry in path:
            used[entry] += weights[entry[-1]] * (mass / total if total else 0.0)
    return total, used


@rules_of(GRID)
def test_a_transducer(rule):
    loss, first, second = OWN["4_rnnt_gradient"]
    sentences = said(rule, loss.words)
    finite = {"labels": [], "edges": [], "no alignment": []}
    for case in loss.cases(np.random.default_rng(4)):
        log_probs, targets, blank = arguments(case)
        paths = grid_paths(len(log_probs), targets, blank, sentences)
        total, used = mass_and_posteriors(log_probs, paths)
        finite[case.group].append(total > 0)
        close(loss.right(rule=rule, **case.arguments), -log_sum([total]))
        close(first.right(rule=rule, **case.arguments), -used)
        logits = log_probs - 2
        log_probs = log_softmax(logits)  # others than before, where an entry is masked
        _, used = mass_and_posteriors(log_probs, paths)
        close(second.right(rule=rule, logits=logits, targets=targets, blank=blank),
              np.exp(log_probs) * used.sum(-1, keepdims=True) - used)
    assert any(finite["labels"]) and any(finite["edges"]) and not any(finite["no alignment"])


@pytest.mark.parametrize("kind", ["ctc", "rnnt"])
def test_the_second_file_of_vectors(kind):
    """By enumeration, of what has few enough paths: weights in the scores, and paths that end without a blank."""
    graded = importlib.import_module("coursework_graded.own_port")
    seen = set()
    for case in port_own.documents(3)[kind]["cases"]:
        given = case["inputs"]
        logits, targets, weights = (decoded(given[name]) for name in ("logits", "targets", "weights"))
        if case["group"] == "numerics":
            continue
        log_probs, blank = log_softmax(logits), given["blank"]
        if kind == "ctc":
            machine = Machine(targets, blank, {"A path is complete in the last label."})
            paths = [[(t, machine.z[s]) for t, s in enumerate(path)]
                     for path in machine.paths(len(logits)) if len(targets)]
        else:
            paths = [path[:-1] for path in grid_paths(len(logits), targets, blank, set())]
        total, used = mass_and_posteriors(log_probs, paths, weights)
        found = graded.answers(logits, targets, blank, weights)
        close(found["loss"], -log_sum([total]))
        close(found["grad_log_probs"], -used)
        with np.errstate(invalid="ignore"):
            close(found["grad_logits"], np.exp(log_probs) * used.sum(-1, keepdims=True) - used)
        seen.add((case["group"], total > 0))
    assert {("labels", True), ("repeats", True), ("blank", True), ("masks", True), ("no alignment", False)} <= seen


def test_one_line_of_the_package_is_no_port():
    """What `right_results` makes answers the first file, and nothing of the second."""
    from coursework.asking import ask
    from coursework.diagnosis.verdicts import judge
    from reference_impl.conformance.vectors import right_results

    first = find("8_port_a_loss", "results_file").drawn(3)[0].facts["ctc"]
    second = find("8_port_a_loss", "own_losses").drawn(3)[0].facts["ctc"]
    plain = {**second, "cases": [{**case, "inputs": {name: value for name, value in case["inputs"].items()
                                                     if name != "weights"}} for case in second["cases"]]}
    points = {}
    for name, question in ASSIGNMENTS["8_port_a_loss"].items():
        document = plain if name in port_own.FIELDS else first
        cases = question.drawn(3)
        answers = ask(json.dumps(right_results(document)), [case.as_data() for case in cases])
        points[name] = judge(question, cases, answers).points
    assert sum(points.values()) == 4 and not any(points[name] for name in port_own.FIELDS)


# --- rules are many, differ from the book, and are said ---


@pytest.mark.parametrize("assignment", ["2_ctc_beta", "3_ctc_gradient", "4_rnnt_gradient"])
def test_students_have_different_rules(assignment):
    rules = [json.dumps(OWN[assignment][0].rule(variant)) for variant in range(1, 60)]
    assert len(set(rules)) >= min(8, len({"2_ctc_beta": BETA, "3_ctc_gradient": GRADIENT,
                                          "4_rnnt_gradient": GRID}[assignment].RULES))
    for question in OWN[assignment]:
        assert all(question.rule(variant) == OWN[assignment][0].rule(variant) for variant in range(20))
        hidden = question.drawn(7, 123456)
        assert {json.dumps(case.facts["rule"]) for case in hidden} == {json.dumps(question.rule(7))}


@pytest.mark.parametrize("module", [BETA, GRADIENT, GRID], ids=["beta", "gradient", "grid"])
def test_no_rule_is_the_books(module):
    """Nor is it with one place of the rule put back: the book's answer is worth nothing where it is not the same."""
    for rule in module.RULES:
        assert all(value not in ("both", "book", "any", "corner", None) for value in rule.values())
    assert len({json.dumps(rule) for rule in module.RULES}) == len(module.RULES) >= 8


@pytest.mark.parametrize("assignment", ["2_ctc_beta", "3_ctc_gradient", "4_rnnt_gradient"])
def test_the_rule_and_its_counts_stand_in_the_notebook_that_is_handed_out(assignment):
    notebook = read(SOURCES / assignment / f"{assignment}.ipynb")
    question = OWN[assignment][0]
    rule = question.rule(4965)
    handed_out = told(notebook, assignment, 4965, ASSIGNMENTS[assignment])
    text = next(cell["source"] for cell in handed_out["cells"] if cell["id"] == "rule")
    assert text == question.words(rule) and text.count("\n- ") >= 3
    counts = [int(part.split()[1]) for part in text.split("there ")[1:]]
    sentences = said(rule, question.words)
    if assignment == "4_rnnt_gradient":
        expected = [len(grid_paths(T, range(1, U + 1), 0, sentences)) for T, U in ((3, 2), (4, 3))]
    else:
        T = {"2_ctc_beta": 7, "3_ctc_gradient": 6}[assignment]
        expected = [len(Machine(targets, 0, sentences).paths(T)) for targets in ([1, 2, 1], [1, 1, 2])]
    assert counts == expected
    with pytest.raises(ValueError, match="0 cells with the id 'rule'; expected one"):
        told({"cells": []}, assignment, 1, ASSIGNMENTS[assignment])


# --- what students get ---


def without_answers(code, home):
    """Run code with a copy of the package beside which there is no folder of graded questions, as students have it."""
    shutil.copytree(ROOT / "src", home / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (home / "data").symlink_to(ROOT / "data")
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(home / "src")})


def test_at_home_an_answer_is_tried_and_not_judged(tmp_path):
    run = without_answers("""
import numpy as np
from coursework import check, facts
def zeros(log_probs, targets, blank):
    return np.zeros((len(log_probs), 2 * len(targets) + 1))
print(check("2_ctc_beta", "own_log_beta", zeros))
print(check("2_ctc_beta", "own_log_beta", lambda log_probs, targets, blank: np.zeros(3)))
print(check("3_ctc_gradient", "own_grad_logits", lambda logits, targets, blank: logits / [1, 2]))
print(check("8_port_a_loss", "own_losses", ""))
print(check("8_port_a_loss", "own_losses", '{"vectors": "own ctc, variant 0", "precision": "float64", "results": {}}'))
print(len(facts("8_port_a_loss", "own_losses", 3)["ctc"]["cases"]))
""", tmp_path)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("own_log_beta: 4 points, given by the grader. It runs on 6 inputs, and its shapes are")
    assert "its shape is (3,); expected (6, 7)" in lines[2] and "ValueError" in run.stdout
    assert "There is no results_own.json" in run.stdout and "loss is missing in" in run.stdout
    assert run.stdout.count("None\n") == 5 and lines[-1] == "24"


def test_nobody_grades_or_hands_out_without_the_answers(tmp_path):
    run = without_answers("""
from coursework.questions.sealed import refuse_sealed
from coursework.questions import ASSIGNMENTS
refuse_sealed(ASSIGNMENTS["1_ctc_alpha"])
refuse_sealed(ASSIGNMENTS["2_ctc_beta"])
""", tmp_path)
    assert run.returncode == 1 and "own_log_beta: its right answer is not here. Expected the folder" in run.stderr


def test_another_folder_than_the_clones(tmp_path):
    """COURSEWORK_GRADED names it; what does not fit what is public is refused, with the difference."""
    missing = run_home("import coursework.questions", tmp_path / "nothing")
    assert "expected a folder with __init__.py and QUESTIONS" in missing.stderr
    folder = tmp_path / "graded"
    folder.mkdir()
    for path in (ROOT / "course" / "graded").glob("*.py"):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    code = "import coursework.questions as q; print(q.find('2_ctc_beta', 'own_loss').total)"
    assert run_home(code, folder).stdout == "2.0\n"
    text = (folder / "own_beta.py").read_text(encoding="utf-8")
    text = text.replace('Own("own_loss", {"labels": 1.0', 'Own("own_loss", {"labels": 9.0')
    (folder / "own_beta.py").write_text(text, encoding="utf-8")
    wrong = run_home(code, folder).stderr
    assert "2_ctc_beta has own_loss with the points {'labels': 9.0" in wrong and "expected own_loss" in wrong


def run_home(code, folder):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "src"), sealed.FOLDER: str(folder)})


def test_what_students_get_has_no_answer():
    """Neither in the zip of sources nor in a module of the package; what is public of a question has none."""
    sys.path.append(str(ROOT / "tools"))
    import offline

    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split()
    graded = [name for name in tracked if name.startswith("course/graded/")]
    assert len(graded) >= 6 and all(name.startswith(offline.SOLUTIONS) for name in graded)
    for questions in own.SEALED.values():
        assert questions and all(isinstance(question, Sealed) and question.right is None and not question.mistakes
                                 for question in questions)
    given = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "coursework").rglob("*.py"))
    for sentence in ("The first step of every path is a blank", "No state may be skipped", "label_weight"):
        assert sentence not in given


def test_the_instructors_copy_is_handed_out_with_rules(course_python, tmp_path):
    (tmp_path / "roster").write_text("ada\nemmy\n", encoding="utf-8")
    run = run_course(course_python, "-m", "coursework.handing_out", "--students", tmp_path / "roster", "--out",
                     tmp_path / "out")
    assert run.returncode == 0, run.stderr
    for assignment in ("2_ctc_beta", "3_ctc_gradient", "4_rnnt_gradient"):
        texts = []
        for student in ("ada", "emmy"):
            notebook = read(tmp_path / "out" / "handed_out" / student / f"{assignment}.ipynb")
            texts.append(next("".join(cell["source"]) for cell in notebook["cells"] if cell["id"] == "rule"))
        assert texts[0] != texts[1] and all("A check that you have read this" in text for text in texts)


# --- counts by hand: many answers, and the right ones ---


def strings(targets, T):
    for string in itertools.product(range(3), repeat=T):
        if [k for k, _ in itertools.groupby(string) if k] == list(targets):
            yield string


def test_counts_of_assignment_1_are_those_of_strings_and_many():
    question, numbers = find("1_ctc_alpha", "number_of_alignments"), []
    for variant in range(40):
        facts = question.drawn(variant)[0].facts
        right = sum(string[facts["frame"]] != facts["symbol"] for string in strings(facts["targets"], facts["T"]))
        assert question.right(**facts) == right
        numbers.append(right)
    assert len(set(numbers)) >= 10 and max(map(numbers.count, numbers)) <= 8


def test_counts_of_assignment_2_are_those_of_states_and_many():
    """By the sequences of states from one on, whatever their first."""
    question, numbers = find("2_ctc_beta", "number_of_suffixes"), []
    for variant in range(40):
        facts = question.drawn(variant)[0].facts
        machine = Machine(facts["targets"], 0, set())
        right = len(machine.paths(facts["frames_left"] + 1, {facts["state"]}))
        assert question.right(**facts) == right
        numbers.append(right)
    assert len(set(numbers)) >= 7 and max(map(numbers.count, numbers)) <= 15

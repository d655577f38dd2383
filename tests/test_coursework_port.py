"""Assignment 8: the files of results that are handed in beside the notebook, made by a port to another language.

What is right in the second file is compared with enumeration in `test_coursework_own.py`.
"""

import importlib
import json
import os
import shutil
import subprocess

import pytest
from test_coursework import SOURCES, run_course, student_version
from test_vectors import PORT, node

from coursework import facts
from coursework.asking import ask
from coursework.diagnosis.verdicts import judge
from coursework.questions import FILES, find, port_own
from coursework.release import read, variant_of
from reference_impl.conformance.vectors import right_results

NAME = "8_port_a_loss"
FIELDS = ["results_file", "losses", "grad_log_probs", "grad_logits", "edges", "batch"]


def judged(name, text, variant=3):
    question = find(NAME, name)
    cases = question.drawn(variant)
    return judge(question, cases, ask(text, [case.as_data() for case in cases]))


@pytest.mark.parametrize("loss", ["ctc", "rnnt"])
def test_either_loss_gets_all_points(loss):
    """Four for the first file, six for the second."""
    text = json.dumps(right_results(facts(NAME, "results_file", 3)[loss]))
    assert sum(judged(name, text).points for name in FIELDS) == 4
    text = graded_port().results(facts(NAME, "own_losses", 3)[loss])
    assert [judged(name, text).points for name in port_own.FIELDS] == [2, 2, 2]


def graded_port():
    return importlib.import_module("coursework_graded.own_port")


def test_a_seed_changes_the_numbers():
    one, two = (facts(NAME, "losses", variant) for variant in (1, 2))
    assert one["ctc"]["cases"][0]["inputs"] != two["ctc"]["cases"][0]["inputs"]
    assert one == facts(NAME, "batch", 1), "all questions are about the same file"
    assert "outputs" not in json.dumps(one)


@pytest.mark.parametrize("group, name", [("labels", "losses"), ("numerics", "grad_logits"), ("masks", "edges")])
def test_points_are_those_of_the_groups(group, name):
    """A wrong loss, or gradient, costs the group's points in the questions that look at it, and no others."""
    found = right_results(facts(NAME, "results_file", 3)["rnnt"])
    field = {"losses": "loss", "grad_logits": "grad_logits", "edges": "loss"}[name]
    for case, answer in found["results"].items():
        if case.startswith(group):
            answer[field] = 0.5 if field == "loss" else {"shape": [1], "values": [0]}
    points = {each: judged(each, json.dumps(found)).points for each in FIELDS}
    totals = {each: find(NAME, each).total for each in FIELDS}
    assert {each: totals[each] - points[each] for each in FIELDS if totals[each] != points[each]} == {
        name: find(NAME, name).points[group]}


@pytest.mark.parametrize("answer, said", [
    (7, "The answer is not the text of a file."), ("", "There is no results.json, or it is empty."),
    ("{}", "the whole: vectors and precision and results missing."), ("[" * 10**6, "It is not JSON"),
    (json.dumps({"vectors": "ctc, variant 3", "precision": "float64", "results": {"x": {}}}), "results, x: {}"),
    (json.dumps({"vectors": "ctc, variant 4", "precision": "float64", "results": {}}), "It answers other vectors"),
])
def test_other_answers_get_nothing(answer, said):
    for name in FIELDS:
        verdict = judged(name, answer)
        assert verdict.points == 0 and verdict.findings[0].startswith(said), str(verdict)


def test_an_empty_file_of_results_gets_the_points_of_its_form():
    """Every case is missing."""
    text = json.dumps({"vectors": "ctc, variant 3", "precision": "float64", "results": {}})
    assert [judged(name, text).points for name in FIELDS] == [0.25, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("answer, said", [
    (7, "The answer is not the text of a file."), ("", "There is no results_own.json, or it is empty."),
    ("{}", "the whole: vectors and precision and results missing."), ("[" * 10**6, "It is not JSON"),
    (json.dumps({"vectors": "ctc, variant 3", "precision": "float64", "results": {}}), "It answers other vectors"),
    (json.dumps({"vectors": "own ctc, variant 3", "precision": "float64", "results": {}}), "There are no results."),
])
def test_other_answers_to_the_second_part_get_nothing(answer, said):
    for name in port_own.FIELDS:
        verdict = judged(name, answer)
        assert verdict.points == 0 and verdict.findings[0].startswith(said), str(verdict)


def test_a_mistake_in_the_second_file_has_a_name_and_costs_its_group():
    """In one case, too; a mistake that nobody has seen has none."""
    found = json.loads(graded_port().results(facts(NAME, "own_losses", 3)["rnnt"], front=False))
    assert judged("own_losses", json.dumps(found)).points == 2
    verdict = judged("own_grad_log_probs", json.dumps(found))
    assert verdict.points == 0 and "missing in front of the posteriors" in verdict.findings[0]
    right = json.loads(graded_port().results(facts(NAME, "own_losses", 3)["rnnt"]))
    right["results"]["labels/two-labels"]["loss"] += 0.5
    verdict = judged("own_losses", json.dumps(right))
    assert verdict.points == 1 and "loss of labels/two-labels." in str(verdict)


#: Of results, by student: what a shell on Windows makes of a program's output, and editors of a file.
ENCODINGS = {"shell": "utf-16", "editor": "utf-8-sig", "other": "utf-32"}


def port(student, folder, loss="rnnt"):
    """What the laboratory makes of a student's vectors."""
    vectors = folder / f"{student}.json"
    vectors.write_text(json.dumps(facts(NAME, "results_file", variant_of(student))[loss]), encoding="utf-8")
    there = folder / "submissions" / student
    there.mkdir(parents=True)
    subprocess.run([node(), str(PORT), str(vectors), str(there / "results.json")], check=True)
    return there


def test_files_beside_the_notebook(course_python, tmp_path):
    """Those of a port to JavaScript get all points; none is read that is not the student's own plain, small file."""
    made = {loss: port(loss, tmp_path, loss) / "results.json" for loss in ("ctc", "rnnt")}
    second = facts(NAME, "own_losses", variant_of("ctc"))["ctc"]
    (made["ctc"].parent / "results_own.json").write_text(graded_port().results(second), encoding="utf-8")
    outside = tmp_path / "outside.json"
    shutil.copy(port("link", tmp_path) / "results.json", outside)
    for student, encoding in ENCODINGS.items():
        there = port(student, tmp_path) / "results.json"
        there.write_text(there.read_text(encoding="utf-8"), encoding=encoding)
    for student in ("copied", "renamed", "large", "pipe", "folder"):
        (tmp_path / "submissions" / student).mkdir()
    beside = {path.name: path / "results.json" for path in (tmp_path / "submissions").iterdir()}
    beside["link"].unlink()
    beside["link"].symlink_to(outside)
    shutil.copy(made["rnnt"], beside["copied"])
    results = json.loads(made["rnnt"].read_text(encoding="utf-8"))
    results["vectors"] = f"rnnt, variant {variant_of('renamed')}"
    beside["renamed"].write_text(json.dumps(results), encoding="utf-8")
    beside["large"].write_text(" " * (FILES[NAME]["results.json"] + 1), encoding="utf-8")
    os.mkfifo(beside["pipe"])
    beside["folder"].mkdir()
    for path in beside.values():
        (path.parent / f"{NAME}.ipynb").write_text(json.dumps(student_version(NAME)), encoding="utf-8")
    run = run_course(course_python, "-m", "coursework.grading", tmp_path / "submissions", "--out", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    points = {line.split()[0]: float(line.split()[1]) for line in run.stdout.splitlines() if " of 10 " in line}
    said = {name: (tmp_path / "out" / "reports" / NAME / f"{name}.md").read_text(encoding="utf-8") for name in beside}
    assert points["ctc"] == 10 and points["rnnt"] == 4
    assert {points[student] for student in ENCODINGS} == {4}
    assert "There is no results_own.json, or it is empty." in said["rnnt"]
    assert points["copied"] == 0 and "It answers other vectors" in said["copied"]
    assert points["renamed"] <= 1.25 and "no known mistake gives this" in said["renamed"]
    assert {points[name] for name in ("link", "large", "pipe", "folder")} == {0}
    assert "results.json is a link, and was not followed" in said["link"]
    assert "results.json has more than 2 MB" in said["large"]
    assert all("results.json is not a plain file" in said[name] for name in ("pipe", "folder"))
    assert "There is no results.json, or it is empty." in said["link"]


def test_the_source_is_one_that_students_can_read():
    """What it says about files and precision is so."""
    text = "".join("".join(cell["source"]) for cell in read(SOURCES / NAME / f"{NAME}.ipynb")["cells"])
    vectors = facts(NAME, "results_file", 1)["ctc"]
    tolerances = vectors["tolerances"]
    assert f"{tolerances['float64']['grad_logits']['absolute']:.0e}" == "1e-10" and "1e-10 is asked" in text
    assert f"{tolerances['float32']['grad_logits']['absolute']:.0e}" == "5e-04" and "5e-4 in `float32`" in text
    assert "some 25 cases" in text and 23 <= len(vectors["cases"]) <= 27

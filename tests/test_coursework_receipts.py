"""The receipt of a student's own check: what it holds, and what the grader notes that finds it beside a notebook."""

import json
import os
import subprocess
import sys

import pytest
from test_coursework import ROOT, source

from coursework.asking import ask
from coursework.questions import ASSIGNMENTS, find
from coursework.submissions import receipts
from coursework.submissions.receipts import SUFFIX, compared, hash_of_code, of_notebook, on_visible, read_receipt

NAME = "1_ctc_alpha"
POINTS = {name: float(question.total) for name, question in ASSIGNMENTS[NAME].items()}
NOTEBOOK = json.dumps(source(NAME)).encode()


def receipt(**changes):
    return json.dumps({**of_notebook(NOTEBOOK, NAME, 3, POINTS, stands=["memory"]), **changes}).encode()


def test_a_receipt_agrees():
    note, = compared(receipt(), NOTEBOOK, NAME, 3, POINTS)
    assert "agrees: the same code, and the same points" in note
    data = read_receipt(receipt())
    assert data["of"] == 10 and set(data["versions"]) == {"python", "numpy", "questions"}
    assert data["date"].endswith("+00:00") and data["stands"] == ["memory"]


def test_outputs_are_no_change_and_code_is():
    notebook = source(NAME)
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])  # as other programs write it
        if cell["cell_type"] == "code":
            cell["execution_count"] = 7
        else:
            cell["source"] += " A remark."
    run = json.dumps(notebook, indent=2).encode()
    assert run != NOTEBOOK and hash_of_code(notebook) == hash_of_code(source(NAME))
    assert "agrees" in compared(receipt(), run, NAME, 3, POINTS)[0]
    notebook["cells"][-1]["source"] += "\nx = 3"
    assert notebook["cells"][-1]["cell_type"] == "code"
    changed = json.dumps(notebook).encode()
    assert "was changed after its receipt of" in compared(receipt(), changed, NAME, 3, POINTS)[0]


def test_other_points_are_a_note_with_the_versions():
    found = compared(receipt(), NOTEBOOK, NAME, 3, {**POINTS, "log_alpha": 2.0})
    assert found == ["On the same numbers it came out differently at home: log_alpha 6.0 at home and 2 here. "
                     "Look at this notebook."]
    other = {**read_receipt(receipt())["versions"], "numpy": "1.20.0"}
    found = compared(receipt(versions=other), NOTEBOOK, NAME, 3, {**POINTS, "loss": 0.0})
    assert "loss 2.0 at home and 0 here" in found[0] and "numpy 1.20.0, here" in found[1] and "python" not in found[1]
    assert "agrees" in compared(receipt(versions=other), NOTEBOOK, NAME, 3, POINTS)[0]
    without = {name: points for name, points in POINTS.items() if name != "loss"}
    assert "loss nothing at home and 2 here" in compared(receipt(points=without), NOTEBOOK, NAME, 3, POINTS)[0]


@pytest.mark.parametrize("content, message", [
    (b"", "it is no JSON"), (b"\xff", "it is no JSON"), (b"[" * 50_000, "it is no JSON"), (b"[]", "no object"),
    (b"{}", "it has no kind, version, assignment"), (receipt(version=2), "version = "),
    (receipt(points=[]), "points = "), (receipt(points={"loss": "all"}), "points = other than numbers"),
    (receipt(variant=True), "variant = 'True'"), (receipt(date=3), "date = '3'"),
    (b" " * 100_001, "100001 bytes; expected at most 100000"),
])
def test_what_is_no_receipt(content, message):
    note, = compared(content, NOTEBOOK, NAME, 3, POINTS)
    assert note.startswith("The receipt cannot be read: ") and message in note


def test_a_receipt_of_somebody_else_or_of_something_else():
    assert "variant 3; expected 1_ctc_alpha, 4." in compared(receipt(), NOTEBOOK, NAME, 4, POINTS)[0]
    assert "is for 2_ctc_beta" in compared(receipt(assignment="2_ctc_beta"), NOTEBOOK, NAME, 3, POINTS)[0]


@pytest.mark.parametrize("notebook", [b"", b"[]", b'{"cells": 3}', b'{"cells": [3]}', b'{"cells": [{"source": 3}]}'])
def test_a_notebook_that_cannot_be_read(notebook):
    assert "is for other code" in compared(receipt(), notebook, NAME, 3, POINTS)[0]


def test_points_do_not_depend_on_hidden_numbers():
    """An answer that is right for the visible numbers only has all points of these, whatever else was asked."""
    question = find(NAME, "extended_target")
    visible = question.drawn(3)
    known = {str(case.arguments): question.right(**case.arguments) for case in visible}

    def memorised(targets, blank):
        return known.get(str({"targets": targets, "blank": blank}), 0)

    for hidden in (1, 2):
        cases = question.drawn(3, hidden)
        answers = ask(memorised, [case.as_data() for case in cases])
        assert len(cases) > len(visible) and on_visible(question, cases, answers, 3) == question.total
    wrong = ask(lambda targets, blank: targets, [case.as_data() for case in cases])
    assert on_visible(question, cases, wrong, 3) == 0


def test_other_questions_are_other_versions(monkeypatch, tmp_path):
    before = receipts.versions()["questions"]
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "a.py").write_text("x = 1")
    monkeypatch.setattr(receipts, "_PACKAGE", tmp_path)
    assert receipts.versions()["questions"] != before


def check_submission(*arguments):
    return subprocess.run([sys.executable, "-m", "coursework.home.handing_in", *arguments], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


def test_the_command_writes_a_receipt_and_leaves_the_notebook_alone(tmp_path):
    path = tmp_path / f"{NAME}.ipynb"
    path.write_bytes(NOTEBOOK)
    run = check_submission(path)
    assert run.returncode == 0, run.stderr
    assert "1_ctc_alpha: 10 of 10 points on the visible numbers." in run.stdout
    assert path.read_bytes() == NOTEBOOK and {each.name for each in tmp_path.iterdir()} == {path.name, NAME + SUFFIX}
    data = read_receipt((tmp_path / f"{NAME}{SUFFIX}").read_bytes())
    assert data["points"] == POINTS and data["variant"] == 0


def test_the_command_says_what_is_wrong(tmp_path):
    (tmp_path / "a.ipynb").write_text("{")
    for name, message in (("a.ipynb", "is no notebook"), ("b.ipynb", "No such file")):
        run = check_submission(tmp_path / name)
        assert run.returncode == 1 and run.stderr.startswith("make check-submission: ") and message in run.stderr
        assert "Traceback" not in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.ipynb"]

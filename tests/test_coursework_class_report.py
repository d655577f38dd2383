"""A made-up class of twenty, graded: its report says what they got wrong. `test_class_report.py` has the counting."""

import json
import re

import pytest
from test_coursework import SOURCES, entries, run_course

from coursework.release import read

ASSIGNMENT = "1_ctc_alpha"
#: How many students hand in what: entries of the corpus, and the solution.
CLASS = {
    "solution": 6, "skips-between-equal-labels": 4, "last-blank-only": 3, "counts-without-repeats": 2,
    "no-last-blank": 2, "imports-the-reference": 1, "name-error": 1, "no-file": 1,
}


def hand_in(folder):
    """Students whose names say nothing about what they handed in."""
    from coursework import corpus

    corpus.write(ASSIGNMENT, folder / "corpus")
    solution = folder / "corpus" / "solution" / f"{ASSIGNMENT}.ipynb"
    solution.parent.mkdir()
    solution.write_text(json.dumps(read(SOURCES / ASSIGNMENT / f"{ASSIGNMENT}.ipynb")), encoding="utf-8")
    kinds = [name for name, count in CLASS.items() for _ in range(count)]
    for number, name in enumerate(kinds):
        target = folder / "in" / f"student{number}"
        target.mkdir(parents=True)
        for path in (folder / "corpus" / name).glob("*.ipynb"):
            (target / path.name).write_bytes(path.read_bytes())


@pytest.fixture(scope="session")
def class_(once, course_python):
    """The folder of a course in which this class was graded, and what `make grade` said."""
    def fill(folder):
        hand_in(folder)
        run = run_course(course_python, "-m", "coursework.grading", folder / "in", "--out", folder / "out",
                         "--assignment", ASSIGNMENT)
        assert run.returncode == 1 and "make grade: 19 graded; look at the 1 lines above" in run.stderr, run.stderr
        (folder / "said.txt").write_text(run.stdout, encoding="utf-8")

    folder = once("class", fill)
    return folder / "out" / "class", (folder / "said.txt").read_text(encoding="utf-8")


def test_a_class_of_twenty(class_):
    folder, said = class_
    assert f"the class: {folder / ASSIGNMENT}.html" in said
    text = (folder / f"{ASSIGNMENT}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {ASSIGNMENT}: the class\n\n19 graded: 4 to 10 of 10 points")
    head, findings, questions = text.split("## Findings\n")[0], *text.split("## Findings\n")[1].split("## Questions\n")
    first, second, third = (line for line in head.splitlines() if line[:2] in ("1.", "2.", "3."))
    assert "It skips the blank between two equal labels" in first and "4 of 19, in *log_alpha*" in first
    assert "It ends in the last blank only" in second and "3 of 19, in *loss*" in second
    assert "As many as if no two labels were equal" in third or "The last blank is missing" in third
    assert "Slide *Three moves, one exception* of session_2, section *Three moves* of chapter 35_ctc_loss." in head
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in findings.splitlines() if line[:3] != "| -"]
    found = {(row[2], row[3]): int(row[0]) for row in rows if row and row[0].isdigit()}
    assert found["log_alpha", "It imports reference_impl, which is not there where it is graded."] == 1
    assert found["number_of_alignments",
                 "As many as if no two labels were equal; the blank between equal labels costs a frame."] == 2
    assert found["extended_target", "The last blank is missing."] == 2
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in questions.splitlines() if line[:2] == "| "]
    items = {row[0]: row[1:] for row in rows if row[0] not in ("question", "---")}
    assert list(items) == ["number_of_alignments", "extended_target", "log_alpha", "loss"]
    assert all(-1 <= float(row[4].replace("–", "0")) <= 1 for row in items.values())
    assert items["number_of_alignments"][2] == "17" and items["number_of_alignments"][3] == "2"
    assert "1 not graded." in text
    assert "student" not in text.replace("students", "").replace("student can do", "")


def test_the_page_has_the_same_and_needs_nothing(class_):
    page = (class_[0] / f"{ASSIGNMENT}.html").read_text(encoding="utf-8")
    assert "<h1" in page and page.count("<table") == 2 and "It skips the blank" in page and "<math" in page
    assert not re.search(r"<script|<link|<img|(src|href)=\"(?!#)", page)


def test_the_class_is_made_of_the_corpus():
    names = {entry["name"] for assignment, entry in entries() if assignment == ASSIGNMENT}
    assert sum(CLASS.values()) == 20 and set(CLASS) <= {*names, "solution"}

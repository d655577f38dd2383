"""The report of a class: what is counted, and that all the places it sends to exist. Grading a class is elsewhere."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from coursework.diagnosis.verdicts import Verdict
from coursework.grading.class_report import Report, asks, discrimination, kind_of, place_of, treated
from coursework.questions import ASSIGNMENTS

ROOT = Path(__file__).parents[1]
SLIDES, CHAPTERS = ROOT / "book" / "teaching" / "slides", ROOT / "notebooks"
ENTRIES = [*treated()["finding"], *(entry for questions in treated()["question"].values()
                                    for entry in questions.values())]
MISTAKES = [(assignment, name, mistake) for assignment, questions in ASSIGNMENTS.items()
            for name, question in questions.items() for mistake in question.mistakes]


# --- where it sends to ---


def headings(text):
    return set(re.findall(r"^#{2,3} (.+?) *$", text, re.M))


def chapter(name):
    cells = json.loads((CHAPTERS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.get("says", entry["section"]))
def test_every_place_exists(entry):
    (deck, _, slide), (name, _, section) = entry["slide"].partition(": "), entry["section"].partition(": ")
    assert slide in headings((SLIDES / f"{deck}.md").read_text(encoding="utf-8"))
    assert section in headings(chapter(name))
    assert ("say" in entry) != ("misconception" in entry)
    assert entry.get("misconception") in {None, *asks()}


def test_every_question_and_every_mistake_has_a_place():
    assert {name: set(questions) for name, questions in treated()["question"].items()} == {
        name: set(questions) for name, questions in ASSIGNMENTS.items()}
    for assignment, name, mistake in MISTAKES:
        place = place_of(assignment, name, mistake)
        assert place.slide and place.section and place.say


@pytest.mark.parametrize("rule", treated()["finding"], ids=lambda rule: rule["says"])
def test_every_rule_is_for_a_known_mistake(rule):
    """It fits one, for a question that it is for, and no earlier rule fits all that it does."""
    earlier = treated()["finding"][:treated()["finding"].index(rule)]

    def fits(each, name, mistake):
        return name in each.get("questions", [name]) and re.search(each["says"], mistake)

    assert any(fits(rule, name, mistake) and not any(fits(each, name, mistake) for each in earlier)
               for _, name, mistake in MISTAKES)
    assert set(rule.get("questions", [])) <= {name for _, name, _ in MISTAKES}


def test_the_misconceptions_have_their_questions():
    page = (ROOT / "book" / "teaching" / "misconceptions.md").read_text(encoding="utf-8")
    assert set(asks()) == set(re.findall(r"^\((mis-[\w-]+)\)=$", page, re.M))
    for ask, numbers in asks().values():
        assert ask and numbers and "{" not in re.sub(r"\$[^$]*\$", "", ask + numbers)


# --- what is counted ---


@dataclass
class Result:
    """As `make grade` has it, as far as the report looks."""

    verdicts: list
    notes: list = field(default_factory=list)


SKIPS = "It skips the blank between two equal labels; there a blank has to be passed."
NAMES = list(ASSIGNMENTS["1_ctc_alpha"])


def result(*points, alpha=("right",), notes=()):
    verdicts = [Verdict(name, earned, question.total, ("right",) if earned == question.total else alpha)
                for (name, question), earned in zip(ASSIGNMENTS["1_ctc_alpha"].items(), points, strict=True)]
    return Result(verdicts, list(notes))


def test_findings_come_by_frequency_with_slide_and_section():
    class_ = [result(1, 1, 4, 1.5, alpha=(SKIPS,)), result(1, 1, 4, 2, alpha=(SKIPS,)), result(1, 1, 6, 2),
              result(1, 0, 6, 2, alpha=("The last blank is missing.",))]
    report = Report("1_ctc_alpha", class_)
    assert [(each.question, each.text, each.students) for each in report.found] == [
        ("log_alpha", SKIPS, 2), ("extended_target", "The last blank is missing.", 1), ("loss", SKIPS, 1)]
    text = str(report)
    assert "| 2 | 50% | log_alpha | It skips the blank" in text and "| session_2: Three moves, one exception |" in text
    assert "1. **It skips the blank" in text and "2. **" not in text
    assert f"Ask: {asks()['mis-frames'][0]}\n   In numbers: It takes six" in text
    assert "4 graded: 7.5 to 10 of 10 points, median 8.5, mean 8.6." in text


@pytest.mark.parametrize("finding, kind", [
    ("NotImplementedError: ", "Nothing was written there."),
    ("ModuleNotFoundError: No module named 'torch'", "It imports torch, which is not there where it is graded."),
    ("NameError: name 'log_alpha' is not defined", "There is no log_alpha: its cell fails, or was deleted."),
    ("IndexError: index 7 is out of bounds", "It fails: IndexError."), ("shape (3, 4); expected (4, 3)",
                                                                       "The shape is wrong."),
    ("NaN at [0, 3]; a log of 0 is -inf", "There is a NaN."),
    ("still running after 5 s of processor time", "It ran for too long."),
    ("A cell ran for too long: look for a loop", "It ran for too long."),
    ("-inf at [3] is wrong, in a way that has no name here", "A number is wrong, in a way that has no name."),
    (f"{SKIPS}\nSmallest input: ...", SKIPS), ("Something else.", "Something else."),
])
def test_kinds(finding, kind):
    assert kind_of("1_ctc_alpha", "log_alpha", finding) == kind


def test_what_is_right_or_said_besides_is_no_finding():
    class_ = [Result([Verdict(name, question.total, question.total, (
        "right", "It is 41.1 times as fast as the given one; asked for: at least 5 times."))
        for name, question in ASSIGNMENTS["6_make_it_fast"].items()])]
    assert Report("6_make_it_fast", class_).found == []
    carried = ("With a right `log_alpha` in the place of yours it is right. The error there costs points there.",)
    class_[0].verdicts[0] = Verdict("without_a_loop_over_symbols", 3.0, 3.0, carried)
    assert Report("6_make_it_fast", class_).found == []
    slow = ("Its numbers are right.", "It is 1.1 times as fast as the given one; asked for: at least 5 times. Where?")
    class_[0].verdicts[0] = Verdict("without_a_loop_over_symbols", 0.0, 3.0, slow)
    assert [each.text for each in Report("6_make_it_fast", class_).found] == ["Right, and not fast or small enough."]


def test_two_groups_of_an_answer_count_as_one_student():
    class_ = [result(1, 1, 0, 2, alpha=("1.5 at [0, 0] is wrong, in a way that has no name here",
                                        "-3 at [2, 1] is wrong, in a way that has no name here"))]
    assert [each.students for each in Report("1_ctc_alpha", class_).found] == [1]


def test_difficulty_and_discrimination():
    """Correlations by another way: the covariance over both deviations."""
    rng = np.random.default_rng(0)
    points = rng.integers(0, [2, 2, 7, 3], (20, 4))
    report = Report("1_ctc_alpha", [result(*row, alpha=(SKIPS,)) for row in points])
    for i, item in enumerate(report.items):
        x, y = points[:, i], np.delete(points, i, axis=1).sum(axis=1)
        expected = ((x * y).mean() - x.mean() * y.mean()) / np.sqrt(
            ((x**2).mean() - x.mean()**2) * ((y**2).mean() - y.mean()**2))
        assert abs(item.discrimination - expected) < 1e-12
        assert item.share == x.mean() / item.total
        assert (item.right, item.nothing) == ((x == item.total).sum(), (x == 0).sum())


def test_discrimination_that_says_nothing():
    assert discrimination(np.array([0, 1, 0, 1]), np.arange(4)) is None
    assert discrimination(np.ones(9), np.arange(9)) is None and discrimination(np.arange(9), np.ones(9)) is None
    assert discrimination(np.arange(9), np.arange(9)) == pytest.approx(1)


def test_a_small_class_hears_of_the_hardest_questions():
    """Where nobody shares a finding."""
    text = str(Report("1_ctc_alpha", [result(1, 1, 4, 2, alpha=(SKIPS,)),
                                      result(1, 0, 6, 2, alpha=("The last blank is missing.",))]))
    said = text.split("## Findings")[0]
    assert "No two students have the same finding; these are of the hardest questions." in said
    assert said.index("1. **The last blank is missing.** 1 of 2") < said.index(f"2. **{SKIPS}**")


def test_remarks():
    class_ = [result(1, 0, 6 - i, 0, alpha=(SKIPS,)) for i in range(6)] + [result(1, 1, 0, 0, alpha=(SKIPS,))]
    remarks = {item.name: item.remark(7) for item in Report("1_ctc_alpha", class_).items}
    assert remarks["number_of_alignments"] == "everybody has it" and remarks["loss"].startswith("nobody has it")
    assert remarks["extended_target"].startswith("those who have the others miss it")


def test_who_was_not_graded_is_counted_and_no_name_appears():
    notes = ["The locked cell 'setup' was changed.", "The locked cell 'check-loss' was changed."]
    assert str(Report("1_ctc_alpha", [result(1, 1, 6, 2, notes=["2 of 1_ctc_alpha.ipynb"])])).count(
        "- 1: ... of 1_ctc_alpha.ipynb") == 1
    text = str(Report("1_ctc_alpha", [result(1, 1, 6, 2, notes=notes[:1]), result(1, 1, 6, 2, notes=notes[1:]),
                                      Result([]), Result([])]))
    assert "2 graded" in text and "2 not graded." in text and "- 2: The locked cell ... was changed." in text
    assert "Nothing was graded." in str(Report("1_ctc_alpha", [Result([])]))
    assert "No two students have the same finding." in text and "There are none." in text

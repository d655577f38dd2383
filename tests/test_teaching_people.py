"""What people mark and plan: oral questions, the plan for a large class, the page for adopters, the reports' form."""

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
TEACHING = ROOT / "book" / "teaching"
ORAL = (ROOT / "course" / "oral.md").read_text(encoding="utf-8")
LARGE = (TEACHING / "large_classes.md").read_text(encoding="utf-8")
ADOPT = (TEACHING / "adopt.md").read_text(encoding="utf-8")
FORM = ROOT / ".github" / "ISSUE_TEMPLATE" / "report_from_a_class.yml"


def rows(text, head):
    table = re.search(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


# --- oral questions ---


def test_every_oral_question_has_a_good_answer_and_a_follow_up():
    questions = re.findall(r"^\*\*(\d+)\. (.*)\*\* \(([^)]*)\)\n\*A good answer:\* (.*)\n\*Follow-up:\* (.*)$",
                           ORAL, re.MULTILINE)
    assert [int(number) for number, *_ in questions] == list(range(1, 27))
    for number, question, where, answer, follow_up in questions:
        assert len(answer.split()) >= 10 and follow_up.endswith((".", "?")) and question != follow_up, number
        assert set(re.findall(r"\d", where)) <= set("12345678"), number
    asked = {digit for _, _, where, *_ in questions for digit in re.findall(r"\d", where)}
    assert asked == set("12345678")


def test_the_groups_of_oral_questions_are_those_of_the_headings():
    spans = [tuple(map(int, re.findall(r"\d+", span))) for _, span in rows(ORAL, "what it shows")]
    parts = re.split(r"^## .*\n", ORAL, flags=re.MULTILINE)[1:]
    found = [[int(number) for number in re.findall(r"^\*\*(\d+)\. ", part, re.MULTILINE)] for part in parts]
    assert [(numbers[0], numbers[-1]) for numbers in found] == spans and len(spans) == 3


# --- a large class ---


def test_the_hours_of_a_large_class_add_up():
    table = rows(LARGE, "task")
    hours = {task: float(total) for task, _, _, _, total, _ in table}
    for task, _, minutes, count, total, _ in table:
        assert int(minutes) * int(count) == 60 * float(total), task
    teacher = sum(float(row[4]) for row in table if row[5] == "teacher")
    said = re.search(r"Together (\d+) hours, of which (\d+) are the assistants': (\d+) hours for each of the", LARGE)
    assert sum(hours.values()) == int(said[1]) and int(said[1]) - teacher == int(said[2]) == 4 * int(said[3])
    mark, talk = hours["mark a derivation"] / 2, (100 * 12 + 10 * 12) / 60
    assert f"({mark:g} hours)" in LARGE and f"({talk:g} hours)" in LARGE
    assert f"in 3 minutes ({hours['exam: print, collect, mark by the keys'] - 200 * 3 / 60:g} hours)" in LARGE


def test_every_assignment_and_both_derivations_have_an_assistant():
    people = dict(rows(LARGE, "person"))
    given = "".join(people.values())
    numbers = re.findall(r"assignments (\d) and (\d)", given)
    assert sorted(int(n) for pair in numbers for n in pair) == list(range(1, 9)) and len(people) == 5
    assert given.count("derivation") == 4


# --- adopting, and reporting back ---


def test_the_page_for_adopters_says_what_is_not_known():
    assert "**No real class has been taught from it yet.**" in ADOPT
    assert all(f"## {title}" in ADOPT for title in ("Licence", "What to change first", "A calendar", "How to cite",
                                                    "How to report back"))
    for file in re.findall(r"`([\w./-]+)`", ADOPT):
        if "/" in file or file.isupper() and file != "COURSEWORK_GRADED":
            assert (ROOT / file).exists(), file
    for page in re.findall(r"\]\((\w+\.md)\)", ADOPT + LARGE):
        assert (TEACHING / page).exists(), page
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    index = (TEACHING / "index.md").read_text(encoding="utf-8")
    assert all(f"book/teaching/{name}\n" in toc and f"({name}.md)" in index for name in ("adopt", "large_classes"))


def test_the_calendar_hands_out_and_grades_everything_once():
    """And in the order of the syllabus: nothing is graded before it is due."""
    weeks = rows(ADOPT, "week")
    assert [int(week) for week, *_ in weeks] == [-2, -1, *range(1, 13)]
    out, graded = {}, {}
    for week, before, after in weeks:
        for verb, part in re.findall(r"(hand out|grade) assignments? ([\d and,]+)", f"{before} {after}"):
            for number in re.findall(r"\d", part):
                (out if verb == "hand out" else graded).setdefault(int(number), int(week))
    syllabus = rows((TEACHING / "syllabus.md").read_text(encoding="utf-8"), "assignment")
    assert set(out) == set(graded) == set(range(1, 9))
    for title, _, _, when, until in syllabus:
        number = int(title[0])
        due = int(until[-1]) if until.startswith("session") else 8 + int(until[0])
        assert out[number] == int(when[-1]) and graded[number] == due, number
    sessions = [int(n) for row in weeks for n in re.findall(r"session (\d)", row[1]) if int(row[0]) > 0]
    assert sessions == list(range(1, 9))


def test_the_form_asks_for_what_the_page_says():
    form = yaml.safe_load(FORM.read_text(encoding="utf-8"))
    assert f"*{form['name']}*" in ADOPT and form["description"] and form["title"]
    fields = {part["id"]: part for part in form["body"] if part["type"] != "markdown"}
    assert {"taught", "version", "session-minutes", "grading-minutes", "results"} == {
        name for name, part in fields.items() if part.get("validations", {}).get("required")}
    assert all(part["type"] in ("input", "textarea") and part["attributes"]["label"] for part in fields.values())
    assert "no names, no submissions and no marks of a single student" in json.dumps(form)
    assert len(re.findall(r"^\d\. ", ADOPT.partition("## How to report back")[2], re.MULTILINE)) == 6

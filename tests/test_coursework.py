"""The course: questions and their named mistakes, the proof of the students' versions, grading of wrong submissions.

Grading runs in .venv-course, which has nbgrader; `make test-course` makes it, and asks for it by REQUIRE_COURSE.
"""

import functools
import json
import os
import re
import signal
import subprocess
import threading
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from coursework import check, facts
from coursework.asking import ask
from coursework.diagnosis.verdicts import judge
from coursework.questions import ASSIGNMENTS, find
from coursework.questions.question import Case, Question
from coursework.questions.sealed import Own
from coursework.release import BEGIN, END, STUB, ReleaseError, for_student, prove, read, variant_of, without_solutions
from reference_impl.conformance.encoding import decoded, encoded

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "course" / "assignments"

every_assignment = pytest.mark.parametrize("assignment", ASSIGNMENTS)
every_question = pytest.mark.parametrize(
    "question", [question for questions in ASSIGNMENTS.values() for question in questions.values()],
    ids=lambda question: question.name)


def source(assignment):
    return read(SOURCES / assignment / f"{assignment}.ipynb")


def text_of(cell):
    return "".join(cell["source"])


# --- what is asked, and what is answered ---


@pytest.mark.parametrize("value", [
    3, -2.5, True, "blank", [1, 2], [[0.5], [np.inf]], np.zeros((2, 0)), [np.nan, -np.inf],
])
def test_values_survive(value):
    back = decoded(json.loads(json.dumps(encoded(value))))
    if isinstance(value, str):
        assert back == value
    else:
        np.testing.assert_array_equal(back, value)
        assert back.dtype.kind == np.asarray(value).dtype.kind and back.shape == np.shape(value)


class _Liar:
    def __array__(self, *_, **__):
        raise RuntimeError("no")


@pytest.mark.parametrize("value, message", [
    (None, "NoneType"), ({"a": 1}, "dict"), ([[1], [1, 2]], "list"), (_Liar(), "_Liar"), (1j, "complex"),
    (np.zeros(1_000_001), "1000001 entries"),
])
def test_no_other_values(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        encoded(value)


@pytest.mark.parametrize("value", [
    None, {}, {"shape": [2], "dtype": "float", "values": [1.0]}, {"shape": [-1], "dtype": "int", "values": []},
    {"shape": [1], "dtype": "object", "values": [1]}, {"shape": [1], "dtype": "float", "values": ["1; import os"]},
    {"shape": [1], "dtype": "int", "values": [None]}, {"shape": "1", "dtype": "int", "values": [1]},
])
def test_no_other_data(value):
    with pytest.raises(ValueError, match="expected"):
        decoded(value)


CASE = {"arguments": {"x": encoded([1.0, 2.0]), "blank": encoded(0)}}


def endless(x, blank):
    while True:
        pass


def asleep(x, blank):
    threading.Event().wait()


def changes(x, blank):
    x[0] = 7
    return x


def leaves(x, blank):
    raise SystemExit


@pytest.mark.parametrize("answer, error", [
    (endless, "still running after 0.1 s of processor time"), (changes, "it changed its argument x"),
    (leaves, "SystemExit"), (lambda x: x, "TypeError"),
    (lambda x, blank: 1 / blank, "ZeroDivisionError: division by zero"),
    (3.0, "float; expected a function of x, blank"), (lambda x, blank: None, "NoneType; expected a number"),
])
def test_errors_are_answers(answer, error):
    found, = ask(answer, [CASE], seconds=0.1)
    assert error in found["error"] and "value" not in found


@pytest.mark.parametrize("answer, says, limits", [
    (endless, "still running after 0.1 s", {"seconds": 0.1}), (asleep, "still waiting after 0.1 s", {"patience": 0.1}),
])
def test_what_is_stuck_is_asked_once(answer, says, limits):
    calls = []

    def counted(x, blank):
        calls.append(1)
        answer(x, blank)

    found = ask(counted, 50 * [CASE], **limits)
    assert len(found) == 50 and all(each["error"].startswith(says) for each in found)
    assert len(calls) <= 1  # none, if the machine is so busy that even this call came too late


def test_a_call_has_its_own_processor_time_only():
    """Neither sleep nor the work of another thread counts, so that a busy machine ends nobody."""
    def busy():
        while time.thread_time() < 0.3:
            pass

    def waits(x, blank):
        thread = threading.Thread(target=busy)
        thread.start()
        thread.join()
        return blank

    found, = ask(waits, [CASE], seconds=0.1)
    assert found.get("value") == encoded(0), found


def test_limits_are_gone_afterwards():
    """No timer is left that would end what comes next, and no handler."""
    before = [signal.getsignal(number) for number in (signal.SIGPROF, signal.SIGALRM)]
    for answer in (endless, lambda x, blank: blank):
        ask(answer, [CASE], seconds=0.1)
        assert [signal.getsignal(number) for number in (signal.SIGPROF, signal.SIGALRM)] == before
        assert signal.getitimer(signal.ITIMER_PROF) == signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_what_is_printed_is_kept_in_part():
    def talks(x, blank):
        print("a" * 10**6)
        return blank

    found, = ask(talks, [CASE])
    assert found["value"]["values"] == [0] and len(found["printed"]) < 2100
    assert found["printed"].endswith("... and 998001 characters more")


# --- the questions ---


def asked(question, function, cases):
    answer = functools.partial(function, **cases[0].facts) if cases[0].arguments else function(**cases[0].facts)
    return judge(question, cases, ask(answer, [case.as_data() for case in cases]))


@every_question
@pytest.mark.parametrize("seed", range(4))
def test_right_answers_and_named_mistakes(question, seed):
    """The right answer gets all points; a mistake is called by its name, whatever the numbers are, and gets less."""
    cases = question.drawn(seed, 1000 + seed)
    verdict = asked(question, question.right, cases)
    assert (verdict.points, verdict.total, verdict.findings) == (question.total, question.total, ("right",))
    for name, mistake in question.mistakes.items():
        verdict = asked(question, mistake, cases)
        if isinstance(question, Own) and "ValueError: another sentence says this" in verdict.findings:
            continue  # under this rule it is another mistake
        assert name in verdict.findings and verdict.points < question.total, (name, verdict)


@every_question
def test_groups(question):
    """Every group has cases, every case a group, and other seeds have other numbers."""
    cases, others = question.drawn(1), question.drawn(2)
    assert {case.group for case in cases} == set(question.points)
    different = question.answers(question.right, cases), question.answers(question.right, others)
    assert cases[0].facts or not all(np.array_equal(a, b) for a, b in zip(*different, strict=True))
    assert {str(question.drawn(seed)[0].facts) for seed in range(20)} != {str(cases[0].facts)} or not cases[0].facts


def test_a_value_is_asked_for_once():
    """Hidden numbers make no sense for what is worked out by hand."""
    assert len(find("1_ctc_alpha", "number_of_alignments").drawn(1, 2)) == 1
    assert len(find("1_ctc_alpha", "log_alpha").drawn(1, 2)) == 2 * len(find("1_ctc_alpha", "log_alpha").drawn(1))


def test_check_at_home(capsys):
    given = facts("1_ctc_alpha", "number_of_alignments", variant=5)
    right = find("1_ctc_alpha", "number_of_alignments").right(**given)
    assert check("1_ctc_alpha", "number_of_alignments", right, 5) == 1.0
    assert check("1_ctc_alpha", "number_of_alignments", 3 ** given["T"], 5) == 0.0
    assert "As many as there are strings of symbols." in capsys.readouterr().out
    with pytest.raises(ValueError, match="name = 'beta'; expected one of number_of_alignments"):
        check("1_ctc_alpha", "beta", 0)
    with pytest.raises(ValueError, match="assignment = '0'; expected one of 1_ctc_alpha"):
        facts("0", "beta")


def test_a_mistake_without_an_answer_is_not_named():
    """One that fails on the cases that are wrong says nothing about them."""
    def fails(x):
        raise ValueError

    cases = [Case("all", {"x": 3})]
    question = Question("twice", {"all": 1.0}, lambda rng: cases, lambda x: 2 * x, {"It fails.": fails})
    assert asked(question, lambda x: 7, cases).findings == ("7 is wrong, in a way that has no name here",)


def test_too_few_answers():
    question = find("1_ctc_alpha", "loss")
    assert judge(question, question.drawn(1), []).points == 0


# --- the students' versions ---


@every_assignment
def test_cells_are_those_of_the_questions(assignment):
    """One locked check for each question, with its name and points, in their order; ten points in all."""
    checks = [cell["metadata"]["nbgrader"] for cell in source(assignment)["cells"]
              if cell["metadata"].get("nbgrader", {}).get("grade")]
    questions = ASSIGNMENTS[assignment]
    assert [mark["grade_id"] for mark in checks] == list(questions)
    assert [mark["points"] for mark in checks] == [question.total for question in questions.values()]
    assert sum(question.total for question in questions.values()) == 10


def student_version(assignment):
    notebook = source(assignment)
    for cell in notebook["cells"]:
        cell["source"] = without_solutions(text_of(cell))
    return notebook


@every_assignment
def test_proof(assignment):
    """It accepts what is taken out, and notices whatever else differs."""
    assert prove(source(assignment), student_version(assignment)) == sum(
        text_of(cell).count(BEGIN) for cell in source(assignment)["cells"]) > 0
    answer = next(i for i, cell in enumerate(source(assignment)["cells"]) if BEGIN in text_of(cell))
    for spoil in (
        lambda cells: cells.pop(), lambda cells: cells.reverse(), lambda cells: cells[0].update(source="# Other"),
        lambda cells: cells[-1].update(outputs=[{"output_type": "stream"}]),
        lambda cells: cells[3].update(source=text_of(source(assignment)["cells"][3]) + " "),
        lambda cells: cells[answer].update(source=text_of(source(assignment)["cells"][answer])),
    ):
        notebook = student_version(assignment)
        spoil(notebook["cells"])
        with pytest.raises(ReleaseError):
            prove(source(assignment), notebook)


@pytest.mark.parametrize("change", [{"solution": False}, {"grade": True, "locked": False}])
def test_proof_looks_at_the_marks_of_cells(change):
    before, after = source("1_ctc_alpha"), student_version("1_ctc_alpha")
    for notebook in (before, after):
        next(c for c in notebook["cells"] if c["id"] == "answer-alpha")["metadata"]["nbgrader"].update(change)
    with pytest.raises(ReleaseError, match="cell answer-alpha: a solution is not marked as one"):
        prove(before, after)


def test_examples_where_they_run(course_python):
    """Those of modules that need the grader's environment are collected nowhere else (conftest.py)."""
    program = """
import doctest, importlib, pkgutil, coursework
for module in pkgutil.walk_packages(coursework.__path__, "coursework."):
    if not module.name.endswith("__main__"):
        print(module.name, *doctest.testmod(importlib.import_module(module.name)))
"""
    run = run_course(course_python, "-c", program)
    tried = {name: (int(failed), int(attempted)) for name, failed, attempted in map(str.split, run.stdout.splitlines())}
    assert tried["coursework.pages"][1] >= 4 and sum(failed for failed, _ in tried.values()) == 0, run.stdout


def test_marks():
    text = f"a\n    {BEGIN}\n    b\n    {END}\nc"
    assert without_solutions(text) == "\n".join(["a", *(f"    {line}" for line in STUB), "c"])
    for wrong in (f"{BEGIN}\na", f"a\n{END}", f"{BEGIN}\n{BEGIN}\n{END}"):
        with pytest.raises(ReleaseError, match="marks do not come in pairs"):
            without_solutions(wrong)


def test_variants():
    """A student's numbers follow from the name, and few names share them."""
    assert variant_of("ada") == variant_of("ada") != variant_of("emmy")
    assert len({variant_of(f"student{n}") for n in range(100)}) > 95
    with_number = json.dumps(for_student(student_version("1_ctc_alpha"), 4965))
    assert "variant = 4965" in with_number and "variant = 0" not in with_number
    with pytest.raises(ReleaseError, match="0 lines 'variant = 0'; expected one"):
        for_student({"cells": []}, 1)


# --- grading ---


HANGS = 3600  # seconds on the clock: what takes so long has not been kept up by a busy machine


def run_course(python, *command, **options):
    """Run a module or a program in the environment that grades."""
    return subprocess.run([python, *command], env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True,
                          text=True, timeout=HANGS, **options)


@pytest.fixture(scope="session")
def grade(once, course_python):
    """A function from an assignment to what the grader makes of its corpus, by name; the folder is under ""."""
    def fill(assignment, folder):
        run = run_course(course_python, "-m", "coursework.corpus", assignment, "--out", folder, "--cell-seconds", "12")
        assert run.returncode == 0, run.stderr

    @functools.cache
    def graded(assignment):
        folder = once(f"corpus-{assignment}", functools.partial(fill, assignment))
        results = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        return {"": folder, **{result["name"]: result for result in results}}

    return graded


def entries():
    for assignment in ASSIGNMENTS:
        listed = tomllib.loads((ROOT / "course" / "corpus" / f"{assignment}.toml").read_text(encoding="utf-8"))
        yield from ((assignment, entry) for entry in listed["submission"])


def _name(given):
    return given if isinstance(given, str) else given["name"]


@pytest.mark.parametrize("assignment, entry", list(entries()), ids=_name)
def test_wrong_submission(grade, assignment, entry):
    """Graded without a crash, with no more points than it may get, and with the right diagnosis."""
    result = grade(assignment)[entry["name"]]
    if entry.get("no_mark"):
        assert result["points"] is None and "not graded" in result["report"] and entry["says"] in result["report"]
        return
    assert result["points"] <= entry["at_most"] < result["total"] == 10
    assert "The grader failed" not in result["report"]
    if entry.get("fence", "memory") not in result["fences"]:
        pytest.skip(f"the fence of {entry['fence']} does not stand here")
    assert entry["says"] in result["report"]


@every_assignment
def test_solution_and_empty_version(grade, assignment):
    """The solution passes every check, and the version that is handed out fails each."""
    graded, questions = grade(assignment), len(ASSIGNMENTS[assignment])
    assert graded["solution"]["points"] == 10 and graded["solution"]["report"].count("- right") == questions
    empty = graded["empty"]["report"]
    assert graded["empty"]["points"] == 0 and "- right" not in empty
    assert "NotImplementedError" not in empty and "NoneType" not in empty
    if assignment == "1_ctc_alpha":
        assert empty.count("- Nothing was written there.") == questions and "smallest" not in empty


def test_the_corpus_is_large_enough():
    names = [(assignment, entry["name"]) for assignment, entry in entries()]
    assert len(names) >= 60 and len(set(names)) == len(names)
    assert not {"solution", "empty"} & {name for _, name in names}


def test_a_flood_harms_nobody(grade):
    """Whoever floods the socket in the first question has all the points of the others."""
    assert grade("5_find_the_bug")["floods-the-socket"]["points"] == 8


def test_reports_feedback_and_gradebook(grade):
    course = grade("1_ctc_alpha")[""] / "course"
    name = "skips-between-equal-labels"
    said = "It skips the blank between two equal labels"
    assert said in (course / "reports" / "1_ctc_alpha" / f"{name}.md").read_text(encoding="utf-8")
    assert said in (course / "feedback" / name / "1_ctc_alpha" / "1_ctc_alpha.html").read_text(encoding="utf-8")
    hostile = "a-script-for-whoever-reads-it"
    page = (course / "feedback" / hostile / "1_ctc_alpha" / "1_ctc_alpha.html").read_text(encoding="utf-8")
    assert "CTC sums over" in page and "<math" in page  # and nothing is loaded or run when it is looked at
    assert not re.search(r"<script|<img|<[^>]* on\w+=|<link", page)
    rows = (course / "1_ctc_alpha.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "student,variant,number_of_alignments,extended_target,log_alpha,loss,points,of"
    assert f"solution,{variant_of('solution')},1.0,1.0,6.0,2.0,10.0,10.0" in rows
    wrong = sum(assignment == "1_ctc_alpha" for assignment, _ in entries())
    assert len(rows) == wrong + 3  # and the solution, the empty version, the head


def test_a_notebook_of_another_student(grade):
    """The numbers are those of the name, and the report says that the notebook has others."""
    report = grade("1_ctc_alpha")["no-last-blank"]["report"]
    assert f"has the numbers of variant 0; it was graded with {variant_of('no-last-blank')}" in report


@pytest.mark.parametrize("files, arguments, message", [
    (["1_ctc_alpha.ipynb"], [], "1_ctc_alpha.ipynb was not graded, since it lies in no student's folder"),
    (["ada/notes.txt"], [], "has no notebook that is named like an assignment"),
    (["ada/1_ctc_alpha.ipynb", "ada/2_ctc_beta.ipynb"], [], "1_ctc_alpha, 2_ctc_beta; say which one by ASSIGNMENT="),
    (["ada/other.ipynb"], [], "has no notebook that is named like an assignment"),
    (["ada/other.ipynb"], ["--assignment", "other"], "assignment = 'other'; expected one of 1_ctc_alpha"),
    ([], ["--assignment", "1_ctc_alpha"], "expected a folder for each student"),
])
def test_what_cannot_be_graded(course_python, tmp_path, files, arguments, message):
    (tmp_path / "in").mkdir()
    for name in files:
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("{}", encoding="utf-8")
    run = run_course(course_python, "-m", "coursework.grading", tmp_path / "in", "--out", tmp_path / "out", *arguments)
    assert run.returncode == 1 and run.stderr.startswith("make grade: ") and message in run.stderr
    assert "Traceback" not in run.stderr and not (tmp_path / "out" / "grades.csv").exists()


# --- what does not end ---


DOES_NOT_END = {  # in the place of log_alpha
    "loops-in-a-cell": "while True:\n    pass\n",
    "sleeps-in-a-cell": "import time\ntime.sleep(10**6)\n",
    "sleeps-in-a-call": "import time\nlog_alpha = lambda *_: time.sleep(10**6)\n",
}


@pytest.fixture(scope="session")
def ended(once, course_python):
    """Reports on submissions of assignment 1 that do not end by themselves, by name.

    What sleeps is given five seconds on the clock: it would sleep through any. On a busy machine that may end an
    earlier cell as well; then log_alpha is not there either, and for the same reason.
    """
    program = """
import sys
from coursework.grading.course import Course
for name, limits in {"loops": {"cell_seconds": 3}, "sleeps": {"cell_patience": 5}}.items():
    Course(sys.argv[1], **limits).grade("1_ctc_alpha", f"{sys.argv[1]}/{name}")
"""

    def fill(folder):
        for name, lines in DOES_NOT_END.items():
            notebook = source("1_ctc_alpha")
            next(cell for cell in notebook["cells"] if cell["id"] == "answer-alpha")["source"] = lines
            path = folder / name.partition("-")[0] / name / "1_ctc_alpha.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(notebook), encoding="utf-8")
        run = run_course(course_python, "-c", program, folder)
        assert run.returncode == 0, run.stderr

    reports = once("ended", fill) / "reports" / "1_ctc_alpha"
    return {name: (reports / f"{name}.md").read_text(encoding="utf-8") for name in DOES_NOT_END}


@pytest.mark.parametrize("name", DOES_NOT_END)
def test_what_does_not_end_is_ended(ended, name):
    report = ended[name]
    assert "## log_alpha: 0 of 6\n\n- A cell ran for too long: look for a loop that does not end, or for" in report
    if name.startswith("loops"):  # the cells around it were run
        assert "## extended_target: 1 of 1" in report
        assert "## loss: 2 of 2\n\n- With a right `log_alpha`" in report

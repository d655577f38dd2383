"""Submissions of honest students, graded: what was meant is graded, nobody stops anybody, and the grader's own failure
is no mark. What comes of a file is in `test_coursework_reading.py`; here the grader runs in its own environment.
"""

import csv
import json
import re
import zipfile

import nbformat
import pytest
from test_coursework import SOURCES, run_course
from test_coursework_reading import (
    MANGLED,
    NAME,
    RELEASED,
    RIGHT,
    as_bytes,
    below_its_check,
    edited,
    filled,
    of_format_3,
    packed,
    solved,
)
from test_learning_platforms import GRADEBOOK, WORKSHEET

from coursework.release import variant_of

REFERENCE = SOURCES / NAME / f"{NAME}.ipynb"
#: Folders: what lies in them, the points, and what the report says. None: no mark.
CASES = {
    "copied": ({f"{NAME}.ipynb": as_bytes(MANGLED["copied"][0]())}, 10, "'answer-alpha' is there 2 times"),
    "split": ({f"{NAME}.ipynb": as_bytes(MANGLED["split"][0]())}, 10, "'answer-alpha' is there 2 times"),
    "below": ({f"{NAME}.ipynb": as_bytes(below_its_check())}, 10, "stands below its check; the check ran below it"),
    "null": ({f"{NAME}.ipynb": as_bytes(MANGLED["nbgrader is null"][0]())}, 10, "recognised by their ids"),
    "format3": ({f"{NAME}.ipynb": as_bytes(of_format_3(solved()))}, 10, "its notebook format is 3; expected 4"),
    "no-id": ({f"{NAME}.ipynb": as_bytes(MANGLED["a locked cell without grade_id"][0]())}, 10, "by their ids"),
    "format-text": ({f"{NAME}.ipynb": as_bytes(MANGLED["format as text"][0]())}, 10, "format is '4'; expected 4"),
    "bom": ({f"{NAME}.ipynb": b"\xef\xbb\xbf" + RIGHT}, 10, ""),
    "utf-16": ({f"{NAME}.ipynb": json.dumps(solved()).encode("utf-16")}, 10, ""),
    "stray": ({f"{NAME} (1).ipynb": RIGHT, ".ipynb_checkpoints/1_ctc_alpha-checkpoint.ipynb": b"{}"}, 10,
              "1_ctc_alpha (1).ipynb was graded, since there is no readable 1_ctc_alpha.ipynb"),
    "Zoe\u0308": ({f"{NAME}.ipynb": RIGHT}, 10, ""),
    "Ada Lovelace": ({f"{NAME}.ipynb": RIGHT}, 10, ""),
    "pasted": ({f"{NAME}.ipynb": as_bytes(edited(
        solved(), "text-alpha", lambda text: f"{text}\n![mine](attachment:mine.png)"))}, 10, ""),
    "nothing": ({f"{NAME}.ipynb": as_bytes(RELEASED)}, 0, "Nothing was written there."),
    "no-json": ({f"{NAME}.ipynb": b"alpha = 1"}, None, "The file is not a notebook: it is no JSON (Expecting value"),
    "pipe": ({f"{NAME}.ipynb": "pipe"}, None, "1_ctc_alpha.ipynb is not a plain file, and was not read"),
    "link": ({f"{NAME}.ipynb": REFERENCE}, None, "1_ctc_alpha.ipynb is a link, and was not followed"),
    "huge": ({f"{NAME}.ipynb": RIGHT + 50_000_000 * b" "}, None, "has more than 50 MB and was not read"),
    "undecided": ({"a.ipynb": RIGHT, "b.ipynb": RIGHT.replace(b"-np.log", b"np.log")}, None, "have different answers"),
}
LITTER = {"__MACOSX/copied/._1_ctc_alpha.ipynb": b"x", ".ipynb_checkpoints/1_ctc_alpha-checkpoint.ipynb": RIGHT,
          "1_ctc_alpha.ipynb": RIGHT, ".DS_Store": b"x"}


def name_of(case):
    return {"Zoe\u0308": "Zoë", "Ada Lovelace": "Ada_Lovelace"}.get(case, case)


@pytest.fixture(scope="session")
def honest(once, course_python):
    """The folder of the course after all these were graded, and what was printed."""
    def fill(folder):
        files = {f"{name}/{file}": content for name, (files, _, _) in CASES.items() for file, content in files.items()}
        filled(folder / "in", files | LITTER)
        (folder / "course").mkdir()
        run = run_course(course_python, "-m", "coursework.grading", folder / "in", "--out", folder / "course")
        (folder / "run.json").write_text(json.dumps([run.returncode, run.stdout, run.stderr]), encoding="utf-8")

    folder = once("honest", fill)
    return folder / "course", *json.loads((folder / "run.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_what_was_meant_is_graded(honest, case):
    course, *_ = honest
    _, points, said = CASES[case]
    report = (course / "reports" / NAME / f"{name_of(case)}.md").read_text(encoding="utf-8")
    mark = "not graded" if points is None else f"{points} of 10 points"
    assert report.startswith(f"# {name_of(case)}: {mark}\n") and said in report
    assert "KeyError" not in report and "Traceback" not in report


def test_the_page_says_what_the_report_says_besides(honest):
    """What became of the file stands at the top, with the student's own number where the notebook shows one."""
    course, *_ = honest
    page = (course / "feedback" / "stray" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    assert 0 < page.index("(1).ipynb was graded") < page.index("Assignment 1: the forward variable")
    assert str(variant_of("stray")) in page and ">variant" in page
    report = (course / "reports" / NAME / "no-json.md").read_text(encoding="utf-8")
    assert "it is no JSON" in report and "##" not in report and "smallest" not in report
    assert "recognised" in (course / "feedback" / "null" / NAME / f"{NAME}.html").read_text(encoding="utf-8")


def test_no_mark_is_no_zero(honest):
    """Nothing stands in the tables where there is no mark; a line and the exit status say so, and why."""
    course, status, printed, errors = honest
    with open(course / f"{NAME}.csv", newline="", encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert {student: row["points"] for student, row in rows.items()} == {
        name_of(case): "" if points is None else f"{points:.1f}" for case, (_, points, _) in CASES.items()}
    assert rows["huge"]["log_alpha"] == "" and rows["copied"]["log_alpha"] == "6.0"
    with open(course / "grades.csv", newline="", encoding="utf-8") as file:
        scores = {row["student_id"]: row["score"] for row in csv.DictReader(file)}
    assert scores["copied"] == "10.0" and scores["nothing"] == "0.0" and scores.get("huge", "") == ""
    assert status == 1 and "Traceback" not in errors + printed
    assert "make grade: 14 graded; look at the 6 lines above" in errors
    assert re.search(r"^huge +not graded .*has more than 50 MB", printed, re.M)
    assert "1_ctc_alpha.ipynb was not graded, since it lies in no student's folder" in printed
    assert re.search(r"^link +not graded .*1_ctc_alpha.ipynb is a link, and was not followed", printed, re.M)
    assert not (course / "feedback" / "link").exists() and not (course / "autograded" / "pipe").exists()


# --- one does not stop another ---


FAILS = """
import sys
from coursework import pages
from coursework.grading import course as grading
from coursework.fences.fenced import Layers
from coursework.fences.standing import Standing
from coursework.grading.command import main
from coursework.grading.referee import Referee, SandboxedExecute

read, prepare, judge, reduced = grading.read_files, SandboxedExecute._prepare, Referee.preprocess, pages.self_contained

def fails(where, found):
    if where in found:
        raise RuntimeError(f"planted where {where}")

def planted_read(files, *rest):
    fails("reading-fails", str(files[0].read(10**7)))
    return read(files, *rest)

def planted_prepare(self, scratch, *rest):
    standing = self.standing
    if self.student == "start-fails":  # the process ends before it can run anything
        self.standing = Standing(Layers(bubblewrap="/bin/false"), {})
    prepare(self, scratch, *rest)
    self.standing = standing

def planted_execute(self, nb, resources, km=None, execute=SandboxedExecute.preprocess):
    self.student = resources["nbgrader"]["student"]
    return execute(self, nb, resources, km)

def planted_judge(self, nb, resources):
    fails("referee-fails", resources["nbgrader"]["student"])
    return judge(self, nb, resources)

def planted_page(text):
    fails("feedback-fails", text)
    return reduced(text)

grading.read_files, pages.self_contained = planted_read, planted_page
SandboxedExecute._prepare, SandboxedExecute.preprocess = planted_prepare, planted_execute
Referee.preprocess = planted_judge
folder = sys.argv[1]
sys.argv[1:] = [f"{folder}/in", "--out", f"{folder}/course"]
main()
"""


@pytest.fixture(scope="session")
def failing(once, course_python):
    def fill(folder):
        for name in ("ada", "feedback-fails", "reading-fails", "referee-fails", "start-fails", "zoe"):
            notebook = edited(solved(), "title", lambda text, name=name: f"{text} {name}")
            filled(folder / "in", {f"{name}/{NAME}.ipynb": as_bytes(notebook)})
        first = run_course(course_python, "-m", "coursework.grading", folder / "in", "--out", folder / "course")
        assert first.returncode == 0, first.stderr
        run = run_course(course_python, "-c", FAILS, folder)
        (folder / "run.json").write_text(json.dumps([run.returncode, run.stdout, run.stderr]), encoding="utf-8")

    folder = once("failing", fill)
    return folder / "course", *json.loads((folder / "run.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("student, why", [
    ("reading-fails", "RuntimeError: planted where reading-fails"),
    ("referee-fails", "RuntimeError: planted where referee-fails"),
    ("start-fails", "no process could be started behind the fences"),
])
def test_the_graders_failure_is_no_mark(failing, student, why):
    """Not 0 of 10, nor the mark of an earlier run; what happened is kept."""
    course, status, printed, errors = failing
    assert status == 1 and "Traceback" not in errors
    assert re.search(rf"^{student} +not graded .*{why}", printed, re.M)
    report = (course / "reports" / NAME / f"{student}.md").read_text(encoding="utf-8")
    assert report.startswith(f"# {student}: not graded\n\nThe grader failed: ") and " of " not in report
    assert why in (course / "failures" / NAME / f"{student}.txt").read_text(encoding="utf-8")
    assert not (course / "feedback" / student / NAME).exists()
    with open(course / "grades.csv", newline="", encoding="utf-8") as file:
        assert [row["score"] for row in csv.DictReader(file) if row["student_id"] == student] == [""]


def test_the_others_are_graded(failing):
    course, _, printed, errors = failing
    for student in ("ada", "zoe", "feedback-fails"):
        assert re.search(rf"^{student} +10 of 10", printed, re.M)
    assert "There is no page of feedback: RuntimeError: planted where feedback-fails" in printed
    assert "3 graded; look at the 4 lines above" in errors


def test_reports_are_written_one_by_one(course_python, tmp_path):
    """Stopping the grader between two students loses nothing."""
    filled(tmp_path / "in", {f"{name}/{NAME}.ipynb": RIGHT for name in ("ada", "zoe")})
    program = """
import sys
from pathlib import Path
from coursework.submissions.collecting import collect
from coursework.grading.course import Course
folder = Path(sys.argv[1])
course = Course(folder / "course")
results = course.graded("1_ctc_alpha", collect(folder / "in")[0])
print(next(results).student, sorted(path.name for path in (folder / "course" / "reports" / "1_ctc_alpha").iterdir()),
      (folder / "course" / "1_ctc_alpha.csv").read_text().count("ada"),
      (folder / "course" / "feedback" / "ada" / "1_ctc_alpha" / "1_ctc_alpha.html").exists())
"""
    run = run_course(course_python, "-c", program, tmp_path)
    assert run.stdout == "ada ['ada.md'] 1 True\n", run.stderr


# --- what feedback shows, and how much ---


ELEMENT = re.compile(r'</?(p|m[a-z]+)( (xmlns|display|mathvariant|stretchy|width|mathcolor)="[\w:/.-]*")* ?/?>')


def test_a_formula_is_no_more_than_that(course_python):
    """Links, styles, handlers and elements in a formula of a student's, and the policy that forbids them all."""
    program = r"""
import json, sys
from coursework.pages import harmless, page, self_contained
formulas = json.load(sys.stdin)
made = [self_contained(harmless(f"${each}$")) for each in formulas]
print(json.dumps([*made, page("", "x"), self_contained("<head>")]))
"""
    formulas = [r"\href{javascript:alert(1)}{x}", r"\text{<img/src=x/onerror=alert(1)>}", r"\style{color:red}{x}",
                r"\mathrm{<script>alert(1)</script>}", r"\text{&lt;svg/onload=alert(1)&gt;}", r"\class{a}{x}",
                r'\textcolor{red" onclick="alert(1)}{x}', r"\text{\unicode{x3c}b>}", r"\text{&amp;lt;b>}",
                r"\frac{\partial\log Z}{\partial x}"]
    run = run_course(course_python, "-c", program, input=json.dumps(formulas))
    *made, framed, head = json.loads(run.stdout)
    for formula in made:
        tags = re.findall(r"<[^<>]*>", formula)
        assert formula.count("<math") == 1 and formula.count("<") == len(tags)
        assert all(ELEMENT.fullmatch(tag) for tag in tags), formula
    assert "<mi>∂</mi><mi>log</mi><mspace" in made[-1]
    assert all("Content-Security-Policy" in each and "default-src 'none'" in each for each in (framed, head))


def test_what_is_shown_is_limited(course_python, tmp_path):
    """A display and a print of 100 MB, a flood of small ones, an error with a long text: no point is lost.

    The grader holds a message a few times at most, and writes down none that is large.
    """
    shows = """
from IPython.display import display, HTML
display({"text/plain": "x" * 100_000_000}, raw=True)
print("y" * 100_000_000)
for i in range(2_000):
    display({"text/plain": f"{i}" * 1_000, "image/png": "A" * 100_000}, raw=True)
raise ValueError("z" * 10_000_000)
"""
    notebook = solved()
    notebook["cells"].insert(3, {"cell_type": "code", "id": "shows", "metadata": {}, "source": shows, "outputs": [],
                                 "execution_count": None})
    filled(tmp_path / "in", {f"ada/{NAME}.ipynb": as_bytes(notebook)})
    program = """
import resource, sys
from coursework.grading import course
from coursework.grading.course import Course
course.in_a_child = lambda function, **_: function()  # here, where it is measured
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result, = Course(f"{sys.argv[1]}/course").grade("1_ctc_alpha", f"{sys.argv[1]}/in")
print(result.points, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e5)
"""
    run = run_course(course_python, "-c", program, tmp_path)
    assert run.returncode == 0, run.stderr
    points, messages = map(float, run.stdout.split())
    assert messages < 6, "of 100 MB"
    assert points == 10
    written = tmp_path / "course" / "autograded" / "ada" / NAME / f"{NAME}.ipynb"
    assert written.stat().st_size < 5_000_000
    page = (tmp_path / "course" / "feedback" / "ada" / NAME / f"{NAME}.html").read_text(encoding="utf-8")
    assert "an output of 100 MB was left out" in page


# --- from a platform and back ---


def test_from_moodle_and_back(course_python, tmp_path):
    """A zip of all submissions, the worksheet and a roster; the worksheet and a zip of feedback go back."""
    wrong = as_bytes(edited(solved(), "answer-loss", lambda text: text.replace("-np.log", "np.log")))
    packed(tmp_path / "all.zip", {
        "Ada Lovelace_101_assignsubmission_file_/1_ctc_alpha.ipynb": RIGHT,
        "Zoë Müller_102_assignsubmission_file_/1_ctc_alpha (1).ipynb": wrong,
        "Karl Gauss_105_assignsubmission_file_/1_ctc_alpha.ipynb": RIGHT})
    (tmp_path / "table.csv").write_text(WORKSHEET, encoding="utf-8-sig")
    (tmp_path / "roster.txt").write_text("ada, ada@example.org\nzoe, Zoë Müller\n", encoding="utf-8")
    run = run_course(course_python, "-m", "coursework.grading", "all.zip", "--out", "out", "--lms", "table.csv",
                     "--students", "roster.txt", cwd=tmp_path)
    assert run.returncode == 1 and "2 graded; look at the 1 lines above" in run.stderr
    assert "Karl Gauss_105_assignsubmission_file_ was not graded: the roster has nobody" in run.stdout
    upload = tmp_path / "out" / "upload" / NAME
    with open(upload / "grades.csv", newline="", encoding="utf-8") as file:
        rows = {row["Identifier"]: row for row in csv.DictReader(file)}
    assert {name: row["Grade"] for name, row in rows.items()} == {
        "Participant 101": "10", "Participant 102": "8", "Participant 103": ""}
    assert "Its sign is wrong" in rows["Participant 102"]["Feedback comments"]
    assert rows["Participant 102"]["Email address"] == "zoe@example.org"
    with zipfile.ZipFile(upload / "feedback.zip") as archive:
        assert archive.namelist() == ["Ada Lovelace_101_assignsubmission_file_/1_ctc_alpha.html",
                                      "Zoë Müller_102_assignsubmission_file_/1_ctc_alpha.html"]
        assert b"Its sign is wrong" in archive.read(archive.namelist()[1])
    report = (tmp_path / "out" / "reports" / NAME / "zoe.md").read_text(encoding="utf-8")
    assert report.startswith("# zoe: 8 of 10 points")


def test_one_student_again(course_python, tmp_path):
    """Who is late, or hands in again, is graded alone: the class keeps the others, and there is a page to upload."""
    packed(tmp_path / "all.zip", {
        "Ada Lovelace_101_assignsubmission_file_/1_ctc_alpha.ipynb": RIGHT,
        "Zoë Müller_102_assignsubmission_file_/1_ctc_alpha.ipynb": RIGHT.replace(b"-np.log", b"np.log")})
    filled(tmp_path / "late", {"zoe/1_ctc_alpha.ipynb": RIGHT})
    (tmp_path / "table.csv").write_text(WORKSHEET, encoding="utf-8-sig")
    (tmp_path / "roster.txt").write_text("ada, ada@example.org\nzoe, Zoë Müller\nemmy, emmy@example.org\n", "utf-8")

    def graded(place):
        run = run_course(course_python, "-m", "coursework.grading", place, "--out", "out", "--lms", "table.csv",
                         "--students", "roster.txt", cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        with open(tmp_path / "out" / f"{NAME}.csv", newline="", encoding="utf-8") as file:
            points = {row["student"]: row["points"] for row in csv.DictReader(file)}
        return run.stdout, points, (tmp_path / "out" / "class" / f"{NAME}.md").read_text(encoding="utf-8")

    printed, points, class_ = graded("all.zip")
    assert "no mark, since they have handed in nothing so far (1): emmy\n" in printed
    assert points == {"ada": "10.0", "zoe": "8.0"} and "2 graded: 8 to 10" in class_
    printed, points, class_ = graded("late")
    assert "no mark, since they have handed in nothing so far (1): emmy\n" in printed
    assert "with 1 who were graded earlier" in printed
    assert points == {"ada": "10.0", "zoe": "10.0"} and "2 graded: 10 to 10" in class_
    with open(tmp_path / "out" / "upload" / NAME / "grades.csv", newline="", encoding="utf-8") as file:
        assert [row["Grade"] for row in csv.DictReader(file)] == ["", "10", ""]
    with zipfile.ZipFile(tmp_path / "out" / "upload" / NAME / "feedback.zip") as archive:
        assert archive.namelist() == ["Zoë Müller_102_assignsubmission_file_/1_ctc_alpha.html"]


def test_from_canvas_and_back(course_python, tmp_path):
    """Feedback is a notebook under the name that Canvas gave: that is the one that it shows it by."""
    filled(tmp_path / "in", {"lovelaceada_101_9001_1_ctc_alpha.ipynb": RIGHT,
                             "müllerzoë_LATE_102_9002_1_ctc_alpha-1.ipynb": RIGHT})
    (tmp_path / "table.csv").write_text(GRADEBOOK, encoding="utf-8")
    run = run_course(course_python, "-m", "coursework.grading", "in", "--out", "out", "--lms", "table.csv",
                     cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    upload = tmp_path / "out" / "upload" / NAME
    with open(upload / "grades.csv", newline="", encoding="utf-8") as file:
        assert {row["ID"]: row["1_ctc_alpha (551)"] for row in csv.DictReader(file) if row["ID"]} == {
            "101": "10", "102": "10", "103": "N/A", "104": ""}
    with zipfile.ZipFile(upload / "feedback.zip") as archive:
        assert archive.namelist() == ["lovelaceada_101_9001_1_ctc_alpha.ipynb",
                                      "müllerzoë_LATE_102_9002_1_ctc_alpha-1.ipynb"]
        for name in archive.namelist():
            notebook = nbformat.reads(archive.read(name).decode(), as_version=4)
            nbformat.validate(notebook)
            assert " 10 of 10 points" in notebook.cells[0].source
    assert "handed in late" in notebook.cells[0].source

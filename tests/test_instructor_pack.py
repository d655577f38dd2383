"""The instructor's zip, made for a small site: what is in it, and what is not. It is made in .venv-course."""

import html
import json
import zipfile
from html.parser import HTMLParser
from pathlib import Path

import pytest
from test_coursework import run_course

from coursework.questions import ASSIGNMENTS
from coursework.release import BEGIN, variant_of

ROOT = Path(__file__).parents[1]
STUDENTS = "ada", "emmy"
QUIZ = """<fieldset class="quiz" id="quiz-a" data-quiz="a"><legend>
<span class="quiz-head">Quiz</span> What is \\(x_1\\)?
<span class="quiz-hint">Several answers are right.</span></legend>
<div class="quiz-answer"><label for="quiz-a-A"><span class="quiz-letter">A</span> <span>One.</span></label></div>
<div class="quiz-answer"><label for="quiz-a-B"><span class="quiz-letter">B</span> <span>Two.</span></label></div>
<details><div class="quiz-why" data-letter="A" data-says="right"><p class="quiz-verdict">A: right.</p>
<p>By <a href="other.html#eq">(1)</a>.</p></div>
<div class="quiz-why" data-letter="B" data-says="wrong"><p>No.</p></div></details></fieldset>"""


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name in ("href", "src")]


def linked_pages():
    """The pages of the site that the first page of the pack links to."""
    text = (ROOT / "course" / "START_HERE.md").read_text(encoding="utf-8")
    return {part.partition(")")[0].partition("#")[0] for part in text.split("](site/")[1:]}


def make(python, site, out, roster=None):
    out.mkdir(parents=True)
    (out / "roster").write_text(roster or "\n".join(STUDENTS), encoding="utf-8")
    options = "--site", site, "--out", out, "--students", out / "roster"
    return run_course(python, "-m", "coursework.instructor_pack", *options)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    for name in {*linked_pages(), "notebooks/10_quiz.html"}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("<h1>A page</h1>", encoding="utf-8")
    (folder / "notebooks/10_quiz.html").write_text(f"<h1>Quiz &amp; co</h1>{QUIZ}", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def files(course_python, site, once):
    """{name in the pack: text}."""
    def fill(folder):
        run = make(course_python, site, folder / "out")
        assert run.returncode == 0, run.stderr

    with zipfile.ZipFile(once("pack", fill) / "out" / "instructor_pack.zip") as archive:
        return {name.removeprefix("instructor_pack/"): archive.read(name).decode() for name in archive.namelist()}


def test_contents(files):
    expected = {"START_HERE.html", "rubric.html", "key_of_assignments.html", "key_of_quizzes.html",
                "quizzes_moodle.xml",
                "oral.html", "derivations/README.html"}
    for name in ("1_two_references", "2_spherical_softmax"):
        expected |= {f"derivations/{name}/{part}.html" for part in ("task", "rubric", "full", "middling", "wrong")}
    for name in ASSIGNMENTS:
        expected |= {f"solutions/{name}.ipynb", f"solutions/{name}.html"}
        expected |= {f"assignments/{student}/{name}.ipynb" for student in STUDENTS}
    assert expected <= set(files)
    assert all(name.startswith(("site/", "assignments/")) for name in set(files) - expected)


def test_pages_link_to_what_is_there_and_load_nothing(files):
    for name in files:
        if name.endswith(".html") and not name.startswith("site/"):
            assert "<script" not in files[name]
            for link in Links(files[name]).found:
                target = link.partition("#")[0]
                assert not target or target in files or target == "site/notebooks/other.html", (name, link)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_solutions_have_been_run(files, assignment):
    """Every check of the solution says that it is right, on the page and in the notebook."""
    notebook = json.loads(files[f"solutions/{assignment}.ipynb"])
    said = "".join(str(cell.get("outputs")) for cell in notebook["cells"])
    for question in ASSIGNMENTS[assignment].values():
        points = f"{question.name}: {question.total:g} of {question.total:g} points"
        assert points in said and points in files[f"solutions/{assignment}.html"]
    assert BEGIN in json.dumps(notebook)


@pytest.mark.parametrize("student", STUDENTS)
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_students_get_no_solution(files, assignment, student):
    handed_out = files[f"assignments/{student}/{assignment}.ipynb"]
    assert BEGIN not in handed_out and f"variant = {variant_of(student)}" in handed_out


def test_rubric(files):
    for assignment, questions in ASSIGNMENTS.items():
        assert f"{assignment}: 10 points" in files["rubric.html"]
        for question in questions.values():
            groups = ", ".join(f"{group} {points:g}" for group, points in question.points.items())
            for text in (f"{question.name}: {question.total:g}", f"Points: {groups}."):
                assert html.escape(text, quote=False) in files["rubric.html"]
            unquoted = html.unescape(files["rubric.html"])
            assert all(mistake in unquoted for mistake in question.mistakes if not set(mistake) & set("$*_`\\<"))


def test_key_of_assignments(files):
    """Each student's own number, for every question that asks for one."""
    asked = 0
    for assignment, questions in ASSIGNMENTS.items():
        for question in questions.values():
            asks_for_a_value = not question.drawn(0)[0].arguments and not question.absent
            assert (f"{assignment}, {question.name}" in files["key_of_assignments.html"]) == asks_for_a_value
            for student in STUDENTS:
                case = question.drawn(variant_of(student))[0]
                if not case.arguments and (right := question.right(**case.facts)) and isinstance(right, int):
                    asked += 1
                    row = f"<td>{student}</td>\n  <td>{variant_of(student)}</td>"
                    after = files["key_of_assignments.html"].split(f"{assignment}, {question.name}")[-1]
                    assert f"<td>{right}</td>" in after.split(row)[1].split("</tr>")[0]
    assert asked >= 4


def test_key_of_quizzes(files):
    key = files["key_of_quizzes.html"]
    assert "Quiz &amp; co" in key and 'href="site/notebooks/10_quiz.html#quiz-a"' in key
    assert "One." in key and "Two." not in key and "No." not in key
    assert 'href="site/notebooks/other.html#eq"' in key  # a link of the page, from where the key lies
    assert "<msub><mi>x</mi><mn>1</mn></msub>" in key and "\\(" not in key


@pytest.mark.parametrize("spoil, message", [
    (lambda site: (site / "index.html").unlink(), "expected a built site: run 'make book' first"),
    (lambda site: (site / "book/teaching/session_1.html").unlink(), "there is no 'book/teaching/session_1.html'"),
])
def test_without_a_whole_site(course_python, site, tmp_path, spoil, message):
    copy = tmp_path / "site"
    for path in site.rglob("*.html"):
        (copy / path.relative_to(site)).parent.mkdir(parents=True, exist_ok=True)
        (copy / path.relative_to(site)).write_bytes(path.read_bytes())
    spoil(copy)
    run = make(course_python, copy, tmp_path / "out")
    assert run.returncode == 1 and message in run.stderr
    assert not (tmp_path / "out" / "instructor_pack.zip").exists()


@pytest.mark.parametrize("roster", ["../ada", ".", "ada\nada", "ada lovelace"])
def test_a_name_that_is_no_folder(course_python, site, tmp_path, roster):
    run = make(course_python, site, tmp_path / "out", roster)
    assert run.returncode == 1 and "expected names of letters, digits" in run.stderr


def test_examples_of_the_pages(course_python):
    for name in ("pages", "instructor_pack"):
        code = f"import doctest, sys; import coursework.{name} as m; sys.exit(doctest.testmod(m).failed)"
        run = run_course(course_python, "-c", code)
        assert run.returncode == 0, run.stdout



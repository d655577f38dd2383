"""Packs what an instructor needs into one zip: `make instructor`. It is neither for students nor part of the site.

    python -m coursework.instructor_pack [--students FILE] [--site FOLDER] [--out FOLDER]

FILE is the roster that the assignments were handed out with: then the key has the numbers of each student. Needs the
built site, and the environment of course/requirements.txt.
"""

from __future__ import annotations

import argparse
import html
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import urljoin

import nbformat
from bs4 import BeautifulSoup
from nbclient import NotebookClient

from .grading.course import SOURCES, Course
from .handing_out import names
from .pages import of_markdown, of_notebook, page
from .questions import ASSIGNMENTS
from .questions.sealed import told
from .quiz_export import moodle_xml, quizzes_of
from .release import variant_of

__all__ = ["START", "key_of_quizzes", "key_of_values", "pack", "rubric", "solved"]

#: The file to open first.
START = "START_HERE.html"
_FIRST = SOURCES.parent / "START_HERE.md"


def rubric() -> str:
    """Points by assignment, question and group, and the mistakes that are known by name, as Markdown."""
    lines = ["# Rubric", "", "A group earns its points if all its answers are right. A mistake is "
             "named if all answers of a group are those that it would give.", ""]
    for assignment, questions in ASSIGNMENTS.items():
        lines += [f"## {assignment}: {sum(q.total for q in questions.values()):g} points", ""]
        for question in questions.values():
            groups = ", ".join(f"{group} {points:g}" for group, points in question.points.items())
            lines += [f"### {question.name}: {question.total:g}", "", f"Points: {groups}.", ""]
            lines += [f"- {mistake}" for mistake in question.mistakes] + [""]
    return "\n".join(lines)


def key_of_values(students=()) -> str:
    """What is right where a value is asked for, as Markdown: for each student, or for the version without a name."""
    lines = ["# Key of the assignments", "", "Here are the values that are asked for. Functions are judged on hidden "
             "numbers; the solutions have them.", ""]
    for assignment, questions in ASSIGNMENTS.items():
        for question in questions.values():
            if question.drawn(0)[0].arguments or question.absent:
                continue  # a function, or a file that is handed in
            lines += [f"## {assignment}, {question.name}", "", "| student | variant | asked | right |",
                      "|---|---|---|---|"]
            for student in students or ["(no name)"]:
                variant = variant_of(student) if students else 0
                case = question.drawn(variant)[0]
                asked = ", ".join(f"{name} = {_short(value)}" for name, value in case.facts.items())
                lines.append(f"| {student} | {variant} | {asked} | {_short(question.right(**case.facts))} |")
            lines.append("")
    return "\n".join(lines)


def _short(value):
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."


def key_of_quizzes(site) -> str:
    """Every quiz of the built site with its right answers and reasons, as HTML."""
    parts = ["<h1>Key of the quizzes</h1>"]
    for path in sorted(Path(site).rglob("*.html")):
        soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        quizzes = soup.select("fieldset.quiz")
        if quizzes:
            title = soup.h1.get_text().removesuffix("#").strip()
            parts.append(f"<h2>{html.escape(title)}</h2>")
        for quiz in quizzes:
            for hint in quiz.select(".quiz-head, .quiz-hint, .quiz-verdict"):
                hint.extract()
            here = f"site/{path.relative_to(site).as_posix()}"
            for link in quiz.select("a[href]"):
                link["href"] = urljoin(here, link["href"])
            parts.append(f'<h3><a href="{here}#{quiz["id"]}">{quiz["data-quiz"]}</a></h3>')
            parts.append(f"<p>{quiz.legend.decode_contents()}</p><dl>")
            for right in quiz.select('.quiz-why[data-says="right"]'):
                label = quiz.find("label", attrs={"for": f"{quiz['id']}-{right['data-letter']}"})
                parts.append(f"<dt>{label.decode_contents()}</dt><dd>{right.decode_contents()}</dd>")
            parts.append("</dl>")
    return "\n".join(parts)


def solved(assignment):
    """The source of an assignment with its outputs, run as a student runs it; an error in it is raised."""
    notebook = nbformat.read(SOURCES / assignment / f"{assignment}.ipynb", as_version=4)
    notebook = told(notebook, assignment, 0, ASSIGNMENTS[assignment])
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=None, startup_timeout=600, iopub_timeout=60,  # on a busy machine, too
                                resources={"metadata": {"path": folder}},
                                extra_arguments=["--IPKernelApp.log_level=ERROR"])
        client.execute(env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])})
    return notebook


def pack(site, out, students=()) -> Path:
    """Write the zip, and return where it is.

    Raises
    ------
    ValueError
        If there is no site, or it lacks a page that the first page links to.
    """
    site, out = Path(site), Path(out)
    if not (site / "index.html").exists():
        raise ValueError(f"site = {str(site)!r}; expected a built site: run 'make book' first")
    files = {f"site/{path.relative_to(site).as_posix()}": path.read_bytes()
             for path in sorted(site.rglob("*")) if path.is_file() and not path.name.startswith(".")}
    files[START] = of_markdown(_first_page(students), "For the instructor").encode()
    _linked(files)
    course = Course(out)
    for assignment in ASSIGNMENTS:
        notebook = solved(assignment)
        files[f"solutions/{assignment}.ipynb"] = nbformat.writes(notebook).encode()
        files[f"solutions/{assignment}.html"] = of_notebook(notebook, f"{assignment}, solved").encode()
        for path in course.hand_out(assignment, out / "handed_out", students):
            files[f"assignments/{path.relative_to(out / 'handed_out').as_posix()}"] = path.read_bytes()
    files["rubric.html"] = of_markdown(rubric(), "Rubric").encode()
    files["key_of_assignments.html"] = of_markdown(key_of_values(students), "Key of the assignments").encode()
    files["key_of_quizzes.html"] = page(key_of_quizzes(site), "Key of the quizzes").encode()
    files["quizzes_moodle.xml"] = moodle_xml(quizzes_of(site))
    oral = (SOURCES.parent / "oral.md").read_text(encoding="utf-8")
    files["oral.html"] = of_markdown(oral, "Oral questions").encode()
    for path in sorted((SOURCES.parent / "derivations").rglob("*.md")):
        name = path.relative_to(SOURCES.parent).with_suffix(".html").as_posix()
        files[name] = of_markdown(path.read_text(encoding="utf-8"), path.stem).encode()
    target = out / "instructor_pack.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(f"instructor_pack/{name}", content)
    return target


def _first_page(students):
    given = f"the students' versions, a folder for each of {len(students)}" if students else "the students' versions"
    pages = ", ".join(f"[{name}](solutions/{name}.html)" for name in ASSIGNMENTS)
    return _FIRST.read_text(encoding="utf-8").format(assignments=given, solutions=f"{pages}; and notebooks to run")


def _linked(files):
    """Refuse a first page with a link to a page that the site has not."""
    for link in BeautifulSoup(files[START], "html.parser").select('a[href^="site/"]'):
        name = link["href"].partition("#")[0]
        if name not in files:
            raise ValueError(f"site: there is no {name.removeprefix('site/')!r}, to which {START} links")


def main():
    arguments = argparse.ArgumentParser(description="Pack solutions, slides, rubric and keys for an instructor.")
    arguments.add_argument("--students", type=Path)
    arguments.add_argument("--site", type=Path, default=Path("_build/html"))
    arguments.add_argument("--out", type=Path, default=Path("_course"))
    given = arguments.parse_args()
    try:
        target = pack(given.site, given.out, names(given.students))
    except (ValueError, OSError) as error:
        sys.exit(f"make instructor: {error}")
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB; open {START} in it. It has the solutions.")


if __name__ == "__main__":
    main()

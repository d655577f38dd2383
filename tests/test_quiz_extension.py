"""The Sphinx extension of the quizzes, tried on small books; tests/website/test_quiz.py tries those of the book."""

import re
import shutil
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

EXTENSIONS = Path(__file__).parent.parent / "book" / "_ext"
QUIZ = """:::{quiz} a-sum
What is *1 + 1*?

- [ ] 1
  > One is missing.
- [x] 2, by {eq}`def-two`
  > Count.
  >
  > Count again.
- [ ] 3
  > That is one too many.
:::
"""
CHAPTER = f"# One\n\n$$\n2\n$$ (def-two)\n\n{QUIZ}"


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXTENSIONS)
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\n:numbered:\none\ntwo\n```\n\n```{toctree}\nback\n```\n")
    (tmp_path / "one.md").write_text(CHAPTER)
    (tmp_path / "two.md").write_text("# Two\n")
    (tmp_path / "back.md").write_text("# Back\n\n```{progress}\n```\n")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "7.8"\n')
    return tmp_path


def build(book, builder="html", jobs=1, extensions=("quiz",)):
    """Build the site with every warning counted, and return the warnings, one string each."""
    warnings = StringIO()
    settings = {
        "extensions": ["myst_parser", *extensions],
        "myst_enable_extensions": ["dollarmath", "colon_fence"],
        "html_theme": "basic",
        "html_theme_options": {} if builder == "html" else {"extra_footer": "A licence."},
        "exclude_patterns": ["_build"],
        "nitpicky": True,
        "numfig": True,
        "math_numfig": True,
    }
    out = book / "_build"
    with docutils_namespace():
        app = Sphinx(book, None, out, out / "doctrees", builder, settings, StringIO(), warnings, parallel=jobs)
        app.build()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())
    return [line for line in plain.splitlines() if re.search("WARNING|ERROR", line)]


def page(book, name):
    return BeautifulSoup((book / "_build" / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def words(tag):
    return " ".join(tag.get_text().split())


def test_a_quiz_is_a_group_of_controls_with_explanations_to_unfold(book):
    assert build(book) == []
    quiz = page(book, "one").select_one("fieldset#quiz-a-sum")
    assert words(quiz.legend) == "Quiz What is 1 + 1?" and quiz.legend.em
    controls = quiz.select("input")
    assert [(each["type"], each["name"], each["value"]) for each in controls] == [
        ("radio", "quiz-a-sum", letter) for letter in "ABC"]
    assert [words(quiz.select_one(f"label[for={each['id']}]")) for each in controls] == ["A 1", "B 2, by (1.1)", "C 3"]
    whys = quiz.select("details .quiz-why")
    assert [(why["data-letter"], why["data-says"]) for why in whys] == [("A", "wrong"), ("B", "right"), ("C", "wrong")]
    assert words(whys[1]) == "B: right. Count. Count again."
    assert "[x]" not in quiz.get_text() and "[ ]" not in quiz.get_text()


def test_several_right_answers_are_ticked(book):
    (book / "one.md").write_text(CHAPTER.replace("- [ ] 3", "- [x] 3"))
    assert build(book) == []
    quiz = page(book, "one").select_one("fieldset")
    assert {each["type"] for each in quiz.select("input")} == {"checkbox"} and quiz["data-several"]
    assert words(quiz.legend).endswith("Several answers are right.")


@pytest.mark.parametrize("old, new, line, message", [
    ("[x] 2", "[ ] 2", 7, "no answer is right"),
    ("[ ]", "[x]", 7, "every answer is right"),
    ("  > One is missing.\n", "", 7, "answer 1 needs one paragraph and, below it, one explanation"),
    ("  > That is", "  That is", 7, "answer 3 needs one paragraph and, below it, one explanation"),
    ("- [ ] 3", "- 3", 7, "answer 3 begins with neither"),
    ("What is *1 + 1*?\n\n", "", 7, "it has to begin with a question"),
    (QUIZ[QUIZ.index("- [ ] 1"):QUIZ.rindex(":::")], "", 7, "it has to end in a list of answers"),
    (QUIZ[QUIZ.index("- [ ] 1"):QUIZ.index("- [x]")] + "", "", 7, None),
    ("- [ ] 1", "\n".join(f"- [ ] {i}\n  > No.\n" for i in (4, 5, 6)) + "- [ ] 1", 7, "it has 6 answers"),
    (":::{quiz} a-sum", ":::{quiz} a-sum\n:colour: red", 7, "takes no option: :colour: red"),
    ("a-sum", "A Sum", 7, "small letters, digits and single hyphens"),
    (":::{quiz} a-sum", ":::{quiz}", 7, "1 argument"),
])
def test_what_a_quiz_lacks_is_an_error_with_file_and_line(book, old, new, line, message):
    assert old in CHAPTER
    (book / "one.md").write_text(CHAPTER.replace(old, new))
    found = build(book)
    if message is None:  # two answers are enough
        assert found == []
    else:
        assert len(found) == 1 and re.search(rf"one\.md:{line}: ", found[0]) and message in found[0], found


def test_a_name_stands_once_in_the_book(book):
    """Also where pages are read by several processes, which Sphinx does with more than five."""
    others = [f"other{number}" for number in range(5)]
    index = (book / "index.md").read_text().replace("back\n", "back\n" + "\n".join(others) + "\n")
    (book / "index.md").write_text(index)
    for other in others:
        (book / f"{other}.md").write_text("# Other\n")
    (book / "two.md").write_text(CHAPTER.replace("# One", "# Two").replace("def-two", "def-too"))
    for jobs in (1, 2):
        shutil.rmtree(book / "_build", ignore_errors=True)
        (warning,) = build(book, jobs=jobs)
        assert re.search(r'two\.md:7: WARNING: quiz "a-sum": this name is taken, at .*one\.md:7', warning)
    (book / "two.md").unlink()
    (book / "index.md").write_text(index.replace("two\n", ""))
    assert build(book) == []  # the name is forgotten with the page


def test_the_page_of_progress_has_a_row_for_each_chapter(book):
    assert build(book) == []
    rows = page(book, "back").select("tr[data-chapter]")
    assert [(row["data-chapter"], words(row.th)) for row in rows] == [("one", "1. One"), ("two", "2. Two")]
    assert [link["href"] for link in rows[0].select(".progress-links a")] == ["one.html#quiz-a-sum"]
    (book / "two.md").write_text("# Two\n\n" + QUIZ.replace("a-sum", "another").replace("by {eq}`def-two`", "yes"))
    assert build(book) == []  # written again, though only a chapter has changed
    assert len(page(book, "back").select(".progress-links a")) == 2


def test_scripts_come_with_chapters_and_quizzes_only(book):
    assert build(book) == []
    for name, wanted in {"one": True, "two": True, "back": True, "index": False}.items():
        soup = page(book, name)
        assert bool(soup.select("script[src*='quiz.js']")) == bool(soup.select("link[href*='quiz.css']")) == wanted
        assert bool(soup.select(".chapter-read")) == (name in ("one", "two"))


def test_the_printed_quiz_has_letters_and_reasons_in_small_print(book):
    build(book, "latex", extensions=("quiz", "printed_book"))
    (path,) = (book / "_build").glob("*.tex")
    tex = path.read_text(encoding="utf-8")
    quiz = tex[tex.index(r"\begin{printedquiz}"):tex.index(r"\end{printedquiz}")]
    assert quiz.startswith(r"\begin{printedquiz}{Quiz}") and quiz.count(r"\item") == 3
    assert r"\sphinxsetlistlabels{\Alph}" in quiz
    small = quiz[quiz.index(r"\begin{printedreasons}"):]
    assert [says in small for says in ("A: wrong.", "B: right.", "C: wrong.")] == [True] * 3
    assert "Count again." in small and "One is missing." not in quiz[:quiz.index(small)]


def test_the_extension_asks_nothing_of_other_people():
    """No third-party code and no request: what the scripts may not contain."""
    for name in ("quiz.js", "progress.js"):
        text = (EXTENSIONS.parent / "_static" / name).read_text(encoding="utf-8")
        assert not re.search(r"fetch\(|XMLHttpRequest|sendBeacon|WebSocket|https?:|import ", text), name

"""Plans of sessions that take clock, minutes and slides from a deck, tried on a small book; and links to quizzes."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

sys.path.append(str(Path(__file__).parent.parent / "book" / "_ext"))

DECK = """---
orphan: true
minutes: 9
---
# First

```{notes} 2
Say.
```

## Second $x$

```{notes} 3
Ask.
```

## Third *one*

```{notes} 4
Wait.
```
"""
PLAN = """---
deck: session_1
---
# A plan

```{timetable}
```

## Begin

```{block} Second $x$
```

Do it.

## End $y$

```{block} Third *one*
```
"""
CHAPTER = """# A chapter: with a tail

:::{quiz} first
A question?

- [x] yes
  > So.
- [ ] no
  > Not so.
:::

:::{quiz} second
Another?

- [x] yes
  > So.
- [ ] no
  > Not so.
:::
"""


@pytest.fixture
def book(tmp_path):
    slides = tmp_path / "book" / "teaching" / "slides"
    slides.mkdir(parents=True)
    (slides / "index.md").write_text("---\norphan: true\n---\n# Slides\n")
    (slides / "session_1.md").write_text(DECK)
    (tmp_path / "chapter.md").write_text(CHAPTER)
    (tmp_path / "index.md").write_text(
        "# Book\n\n```{toctree}\n:numbered:\nchapter\n```\n\n```{toctree}\nbook/teaching/plan\n```\n")
    return tmp_path


def build(book, plan=PLAN, builder="html"):
    (book / "book" / "teaching" / "plan.md").write_text(plan)
    warnings = StringIO()
    settings = {
        "extensions": ["myst_parser", "sphinx.ext.mathjax", "explanations", "lattice_lab", "quiz", "slides",
                       "session_plans"],
        "source_suffix": {".md": "markdown"}, "myst_enable_extensions": ["dollarmath", "colon_fence"],
        "html_theme": "basic",
    }
    with docutils_namespace():
        app = Sphinx(book, None, book / "out" / builder, book / "trees", builder, confoverrides=settings, status=None,
                     warning=warnings)
        app.build()
    return app, warnings.getvalue()


def page(app):
    return BeautifulSoup(Path(app.outdir, "book/teaching/plan.html").read_text(encoding="utf-8"), "html.parser")


def test_clock_minutes_and_links_come_from_the_deck(book):
    app, warnings = build(book)
    soup = page(app)
    assert not warnings
    assert [[cell.get_text(" ", strip=True) for cell in row.select("td")]
            for row in soup.select("table.timetable tbody tr")] == [
        ["0:00 to 0:05", "5", "Begin", "2"], ["0:05 to 0:09", "4", "End \\(y\\)", "1"]]
    begin, end = soup.select(".plan-block")
    assert begin.get_text().strip() == "0:00 to 0:05, 5 minutes. Slides: First (2), Second \\(x\\) (3)."
    assert end.get_text().strip() == "0:05 to 0:09, 4 minutes. Slides: Third one (4)."
    deck = BeautifulSoup(Path(app.outdir, "book/teaching/slides/session_1.html").read_text(encoding="utf-8"),
                         "html.parser")
    for link in soup.select(".plan-block a"):
        file, _, anchor = link["href"].partition("#")
        assert file == "slides/session_1.html" and deck.find("section", id=anchor)
    assert [soup.find(id=link["href"][1:]).h2.get_text() for link in soup.select("table.timetable a")]


def test_a_deck_that_has_changed_changes_the_plan(book):
    build(book)
    deck = book / "book" / "teaching" / "slides" / "session_1.md"
    deck.write_text(DECK.replace("{notes} 2", "{notes} 7").replace("minutes: 9", "minutes: 14"))
    app, warnings = build(book)
    assert not warnings and "0:00 to 0:10" in page(app).get_text()


@pytest.mark.parametrize("old, new, said", [
    ("{block} Second $x$", "{block} Second", 'plan.md:11: WARNING: the deck "session_1" has no slide "Second"'),
    ("{block} Second $x$", "{block} Third *one*", 'the slide "Third *one*" is not behind those of the part before'),
    ("{block} Third *one*", "{block} First", 'the slide "First" is not behind those of the part before'),
    ("\n## End $y$\n\n```{block} Third *one*\n```\n", "", 'the plan ends before the slide "Third one"'),
    ("deck: session_1", "deck: session_2", 'the deck "session_2" has no slide "Second $x$"'),
    ("Do it.", "{slide}`session_1: Fourth`", 'the deck "session_1" has no slide "Fourth"'),
    ("Do it.", "{slide}`session_3: First`", 'the deck "session_3" has no slide "First"'),
    ("Do it.", "{quiz}`third`", 'there is no quiz "third"'),
])
def test_what_does_not_fit_is_a_warning_with_file_and_line(book, old, new, said):
    assert old in PLAN
    _, warnings = build(book, PLAN.replace(old, new))
    assert said in warnings and "plan.md:" in warnings


def test_slides_and_quizzes_are_linked_from_a_text(book):
    app, warnings = build(book, PLAN.replace("Do it.", "See {slide}`session_1: Second $x$`, then {quiz}`second`."))
    assert not warnings
    slide, quiz = [link for link in page(app).select("p a") if link.parent.get_text().startswith("See ")]
    assert slide["href"].startswith("slides/session_1.html#") and slide.get_text() == "Second \\(x\\)"
    assert quiz["href"] == "../../chapter.html#quiz-second" and quiz.get_text() == "quiz 2 of chapter 1"
    assert BeautifulSoup((Path(app.outdir) / "chapter.html").read_text(encoding="utf-8"), "html.parser").find(
        id="quiz-second")


def test_without_html_slides_have_names_and_no_links(book):
    app, _ = build(book, PLAN.replace("Do it.", "See {slide}`session_1: First`, then {quiz}`first`."), "pseudoxml")
    tree = Path(app.outdir, "book/teaching/plan.pseudoxml").read_text(encoding="utf-8")
    lines = [line.strip() for line in tree.splitlines()]
    begin = lines.index("See")
    assert lines[begin:begin + 4] == ["See", "<emphasis>", "First", ", then"] and "quiz 1 of chapter 1" in lines
    assert lines.count("0:05 to 0:09") == 2 and "<reference" not in tree and "slides/session_1" not in tree

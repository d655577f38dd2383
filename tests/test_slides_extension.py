"""Slides and what they take from chapters, tried on a small book whose notebook has its outputs: nothing is run."""

import json
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

sys.path.append(str(Path(__file__).parent.parent / "book" / "_ext"))

SVG = '<?xml version="1.0"?><svg width="9pt" viewBox="0 0 9 9" xmlns="http://www.w3.org/2000/svg"><g/></svg>'
CHAPTER = """# A chapter

## One section

$$
a = b .
$$ (def-one)

```{prf:theorem} Title
:label: thm-one
Then $c = d$, and

$$
e = f
$$ (def-two)
```

```{exercise} Do it
:label: ex-one
Why $g$?
```
"""
DECK = """---
orphan: true
minutes: 5
---
# First

```{notes} 2
Say $h$.
```

## Second

{content}

```{notes} 3
Ask.
```
"""
EVERYTHING = """
```{chapter-equation} def-one
```

```{chapter-theorem} thm-one
```

```{chapter-exercise} ex-one
```

```{chapter-cell} one two-lines
:lines: 2
```

```{chapter-cell} one two-lines
:show: output
```

```{chapter-cell} one drawn
:show: figure
```
"""


def cell(name, source, *outputs, **metadata):
    return {"cell_type": "code", "id": name, "source": source, "metadata": metadata, "execution_count": 1,
            "outputs": list(outputs)}


def picture(alt):
    metadata = {"mystnb": {"image": {"alt": alt}}} if alt else {}
    output = {"output_type": "display_data", "data": {"image/svg+xml": SVG, "text/plain": "x"}, "metadata": {}}
    return cell("drawn" if alt else "without-alt", "draw()", output, **metadata)


@pytest.fixture
def book(tmp_path):
    printed = {"output_type": "stream", "name": "stdout", "text": "printed\n"}
    cells = [{"cell_type": "markdown", "id": "text", "source": CHAPTER, "metadata": {}},
             cell("two-lines", "first = 1\nsecond = 2", printed), picture("a drawing"), picture("")]
    notebook = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "one.ipynb").write_text(json.dumps(notebook))
    slides = tmp_path / "book" / "teaching" / "slides"
    slides.mkdir(parents=True)
    (slides / "index.md").write_text("---\norphan: true\n---\n# Slides\n\n```{decks}\n```\n")
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\n:numbered:\nnotebooks/one\n```\n")
    return tmp_path


def build(book, deck):
    (book / "book" / "teaching" / "slides" / "session_1.md").write_text(deck)
    warnings = StringIO()
    settings = {
        # of its own: Sphinx keeps in the default, for later tests, what a parser has said of .md
        "source_suffix": {".md": "myst-nb", ".ipynb": "myst-nb"},
        "extensions": ["myst_nb", "sphinx_proof", "sphinx_exercise", "sphinx.ext.mathjax", "figures", "lattice_lab",
                       "explanations", "equation_checks", "from_chapters", "slides"],
        "myst_enable_extensions": ["dollarmath", "colon_fence"], "nb_execution_mode": "off", "numfig": True,
        "math_numfig": True, "html_theme": "basic", "exclude_patterns": ["book/teaching/slides/session_*"],
    }
    with docutils_namespace():
        app = Sphinx(book, None, book / "out", book / "trees", "html", confoverrides=settings, status=None,
                     warning=warnings, freshenv=True)
        app.build()
    page = (book / "out" / "book" / "teaching" / "slides" / "session_1.html").read_text(encoding="utf-8")
    # that nothing checks the equations of this small book is not the point
    found = [line for line in warnings.getvalue().splitlines() if "equation-checks directive" not in line]
    return BeautifulSoup(page, "html.parser"), "\n".join(found)


def with_content(content):
    return DECK.replace("{content}", content)


def test_a_deck_holds_copies_with_numbers_and_links(book):
    soup, warnings = build(book, with_content(EVERYTHING))
    assert not warnings
    copies = soup.select(".from-chapter")
    sources = [copy.select_one(".source a") for copy in copies]
    assert [link.get_text() for link in sources] == [
        "Equation (1.1), A chapter", "Theorem 1.1, A chapter", "Exercise 1.1, A chapter",
        *["One section, A chapter"] * 3,
    ]
    chapter = BeautifulSoup((book / "out" / "notebooks" / "one.html").read_text(encoding="utf-8"), "html.parser")
    for link in sources:
        file, _, anchor = link["href"].partition("#")
        assert file == "../../../notebooks/one.html" and chapter.find(id=anchor), link["href"]
    assert "a = b\\]" in copies[0].get_text() and "e = f" in copies[1].get_text() and "Why" in copies[2].get_text()
    assert copies[3].pre.get_text().strip() == "second = 2" and copies[4].pre.get_text().strip() == "printed"
    assert copies[5].svg["aria-label"] == "a drawing" and not copies[5].select("pre")
    assert not soup.select(".from-chapter [id]:not(svg *), .from-chapter section")


def test_sections_become_slides_with_times(book):
    soup, _ = build(book, with_content("Text."))
    slides = soup.select("main > .reveal > .slides > section")
    assert [slide.select_one("h1, h2").get_text() for slide in slides] == ["First", "Second"]
    assert [slide["data-timing"] for slide in slides] == ["120", "180"]
    times = [slide.select_one("aside.notes p").get_text() for slide in slides]
    assert times == ["0:00 to 0:02 (2 minutes)", "0:02 to 0:05 (3 minutes)"]
    names = [Path(tag.get("src", tag.get("href", ""))).name.partition("?")[0] for tag in soup.select("script, link")]
    assert {"reveal.js", "notes.js", "slides.js", "reveal.css", "slides.css"} <= set(names)
    index = (book / "out" / "book" / "teaching" / "slides" / "index.html").read_text(encoding="utf-8")
    rows = BeautifulSoup(index, "html.parser").select("table.decks tbody tr")
    assert [row.get_text(" ", strip=True) for row in rows] == ["First 2 5"]


@pytest.mark.parametrize("content, said", [
    ("```{chapter-equation} def-none\n```", 'no chapter has an equation "def-none"'),
    ("```{chapter-theorem} thm-none\n```", 'no chapter has a theorem, lemma or definition "thm-none"'),
    ("```{chapter-exercise} ex-none\n```", 'no chapter has an exercise "ex-none"'),
    ("```{chapter-cell} two drawn\n```", 'there is no chapter "two"'),
    ("```{chapter-cell} one none\n```", 'one has no cell "none"'),
    ("```{chapter-cell} one two-lines\n:lines: 2-3\n```", 'the cell "two-lines" has 2 lines, not 2-3'),
    ("```{chapter-cell} one two-lines\n:show: figure\n```", 'the cell "two-lines" draws no figure'),
    ("```{chapter-cell} one without-alt\n:show: figure\n```", 'the figure of the cell "without-alt" has no alt'),
])
def test_what_is_not_there_is_a_warning_with_file_and_line(book, content, said):
    soup, warnings = build(book, with_content(f"Text.\n\n{content}"))
    line = 1 + with_content("Text.\n\nHERE").splitlines().index("HERE")
    assert f"session_1.md:{line}: WARNING: {said}" in warnings
    assert not soup.select(".from-chapter")


@pytest.mark.parametrize("content, minutes, said", [
    ("Text.\n\n## Third\n\nNo notes.", 5, 'the slide "Second" has notes 0 times, not once'),
    ("Text.\n\n```{notes} 1\nTwice.\n```", 6, 'the slide "Second" has notes 2 times, not once'),
    ("Text.", 6, "session_1.md: WARNING: the notes add up to 5 minutes; the deck says 6"),
])
def test_notes_that_are_missing_and_minutes_that_do_not_add_up_are_warnings(book, content, minutes, said):
    _, warnings = build(book, with_content(content).replace("minutes: 5", f"minutes: {minutes}"))
    assert said in warnings


LABORATORY = "Text.\n\n```{lattice-lab}\n:loss: ctc\n:node: NODE\n:brief:\n```"


def test_a_laboratory_is_told_where_to_begin_and_what_to_leave_out(book):
    soup, warnings = build(book, with_content(LABORATORY.replace("NODE", "0,1")))
    laboratory, = soup.select(".lattice-lab")
    assert not warnings
    assert laboratory.attrs.items() >= {"data-loss": "ctc", "data-node": "0, 1", "data-brief": ""}.items()


@pytest.mark.parametrize("node", ["1", "a, b", "0, -1", ""])
def test_a_node_that_cannot_be_read_is_a_warning(book, node):
    _, warnings = build(book, with_content(LABORATORY.replace("NODE", node)))
    assert f"Invalid option value for 'node': {node}" in warnings and "such as 0, 1" in warnings

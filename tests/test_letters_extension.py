"""The letters of a chapter: folded below its opening, collected on the notation page, open on paper."""

import json
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

sys.path.append(str(Path(__file__).parent.parent / "book" / "_ext"))
from letters import own  # noqa: E402


def notebook(title, *lines):
    """A chapter of two cells, the list of letters at the end of its first."""
    listed = ":::{{letters}}\n{}\n:::".format("\n".join(lines))
    cells = [{"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
             for number, text in enumerate([f"# {title}\n\nWhat it is about.\n\n{listed}", "## Then\n\nMore."])]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def book(tmp_path):
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\n:numbered:\none\ntwo\nnone\n```\n\n"
                                       "```{toctree}\nnotation\n```\n")
    (tmp_path / "notation.md").write_text("# Notation\n\n## Of chapters\n\n```{letters-of-chapters}\n```\n\nThe end.\n")
    (tmp_path / "one.ipynb").write_text(notebook("One", r"$\theta$, $f$: a variable and a *function*", "$p$: a share"))
    (tmp_path / "two.ipynb").write_text(notebook("Two", "$p$: probability of [the blank](one)"))
    (tmp_path / "none.md").write_text("# None\n\nNo letters of its own.\n")
    return tmp_path


def build(book, builder="html"):
    warnings = StringIO()
    settings = {"extensions": ["myst_nb", "letters"], "html_theme": "basic", "nb_execution_mode": "off",
                "exclude_patterns": ["_build"], "source_suffix": {".md": "myst-nb", ".ipynb": "myst-nb"},
                "myst_enable_extensions": ["dollarmath", "colon_fence"]}
    with docutils_namespace():
        out = book / "_build" / builder
        Sphinx(book, None, out, book / "_build" / "doctrees", builder, settings, StringIO(), warnings).build()
    return out, [line for line in re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).splitlines() if line]


def page(out, name):
    return BeautifulSoup((out / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def lines(place):
    return [re.sub(r"\\\(|\\\)", "", item.get_text().strip()) for item in place.find_all("li")]


def collected(out):
    """{chapter: its lines} of the notation page."""
    place = page(out, "notation").find("dl")
    return {term.get_text(): lines(term.find_next_sibling("dd")) for term in place.find_all("dt")}


def test_the_list_folds_below_the_opening(book):
    out, warnings = build(book)
    assert warnings == []
    folded, = page(out, "one").select("details.letters")
    assert not folded.has_attr("open") and folded.summary.get_text() == "Letters of this chapter"
    assert lines(folded) == [r"\theta, f: a variable and a function", "p: a share"]
    assert [each.get_text() for each in folded.select("li em")] == ["function"] and len(folded.select(".math")) == 3
    assert folded.find_previous("p").get_text() == "What it is about."
    assert folded.find_next("h2").get_text()[:5] == "1.1. "
    assert page(out, "none").select("details.letters") == []


def test_the_notation_page_has_all_of_them(book):
    out, _ = build(book)
    assert collected(out) == {"1. One": [r"\theta, f: a variable and a function", "p: a share"],
                              "2. Two": ["p: probability of the blank"]}
    links = [term.a["href"] for term in page(out, "notation").find_all("dt")]
    assert links == ["one.html", "two.html"] and page(out, "notation").select("details, dd a") == []
    assert page(out, "two").select_one("details a")["href"] == "one.html"


def test_a_change_of_a_chapter_changes_the_notation_page(book):
    build(book)
    (book / "two.ipynb").write_text(notebook("Two", "$q$: another share"))
    out, warnings = build(book)
    assert warnings == [] and collected(out)["2. Two"] == ["q: another share"]


def test_paper_shows_it(book):
    out, warnings = build(book, "latex")
    text = next(out.glob("*.tex")).read_text(encoding="utf-8")
    assert warnings == []
    assert text.count("probability of") == 2 and text.count(r"a variable and a \sphinxstyleemphasis{function}") == 2
    assert "Letters of this chapter" not in text


def test_an_empty_list_is_an_error(book):
    (book / "two.ipynb").write_text(notebook("Two"))
    assert "none found" in "\n".join(build(book)[1])


def test_the_lines_are_read_from_the_notebook(book):
    assert own(book / "one.ipynb") == [r"$\theta$, $f$: a variable and a *function*", "$p$: a share"]
    (book / "bare.ipynb").write_text(json.dumps({"cells": [{"source": ["# Bare\n", "\n", "Text."]}]}))
    assert own(book / "bare.ipynb") == []

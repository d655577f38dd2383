"""The map and the table of the chapters, and the times in the chapters' openings: read from the chapters."""

import json
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.environment.collectors.toctree import TocTreeCollector
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "book" / "_ext"))
import reading_time  # noqa: E402
from chapter_graph import direct_needs, read_opening, short_titles  # noqa: E402

# sphinx_multitoc_numbering calls it
pytestmark = pytest.mark.filterwarnings("ignore:nodes.Node.traverse")
CHAPTERS = re.findall(r"file: notebooks/(\w+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def openings():
    return {name: read_opening(ROOT / "notebooks" / f"{name}.ipynb") for name in CHAPTERS}


# --- the book's own openings ---


def test_every_notebook_is_a_chapter():
    assert sorted(CHAPTERS) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_openings_name_earlier_chapters_only(openings):
    """What is needed comes earlier in the book, and what helps."""
    for name, opening in openings.items():
        earlier = CHAPTERS[:CHAPTERS.index(name)]
        assert {*opening.needs, *opening.helps} <= {*earlier}, name
        assert not set(opening.needs) & set(opening.helps), name


def test_openings_say_the_time_that_the_rule_gives(openings):
    """`make times` writes it."""
    for name, opening in openings.items():
        text = "".join(reading_time.read(ROOT / "notebooks" / f"{name}.ipynb")["cells"][0]["source"])
        assert f"**Time** {opening.minutes}" in text, name


def test_a_chapter_has_a_core_of_45_minutes_at_most_and_the_short_way_an_hour_in_all(openings):
    assert {name: opening.minutes.core for name, opening in openings.items() if opening.minutes.core > 45} == {}
    short = [opening.minutes for name, opening in openings.items() if name < "10"]
    assert sum(each.core + each.exercises for each in short) <= 60


# --- the rule ---


def cell(source, tags=(), kind="markdown", **metadata):
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "metadata": {"tags": list(tags), **metadata}}


def code(lines, *tags):
    return cell("x = 1\n\n" * lines, tags, "code")


def test_words_equations_and_lines_take_time():
    display = "$$\n1 = 1 \\text{ and so on}\n$$ (eq-one)"
    assert reading_time.minutes([cell("# Title\n\n" + "word " * 360)]).core == pytest.approx(2)
    assert reading_time.minutes([cell(display + "\n\n$$\n2\n$$ (def-two)")]).core == pytest.approx(1)
    assert reading_time.minutes([code(30)]).core == pytest.approx(2)


@pytest.mark.parametrize("tag", ["hide-cell", "hide-input", "remove-input", "remove-cell"])
def test_folded_lines_take_none(tag):
    assert reading_time.minutes([code(30, tag)]).core == 0
    assert reading_time.minutes([code(30, "hide-output", "measured")]).core == pytest.approx(2)


def test_lines_and_figures_are_counted_by_section():
    figure = cell("x = 1\n", ["hide-input"], "code", mystnb={"image": {"alt": "a line"}})
    first, second = reading_time.sections([cell("Text."), code(3), cell("# Title"), figure, code(2, "hide-cell")])
    assert (first.shown, first.folded, first.figures) == (3, 0, 0)
    assert (second.shown, second.folded, second.figures) == (0, 3, 1)


def test_marks_options_and_targets_are_no_words():
    text = ':::{quiz} a-name\n:label: ex-one\n(a-target)=\n```{exercise} Words count\n```\n:::\n'
    assert reading_time.sections([cell(text)])[0].words == 0


def test_deeper_sections_and_exercises_are_counted_apart():
    cells = [
        cell("# Title\n" + "word " * 180),
        cell("## One\n\n:::{deeper}\nMore.\n:::\n" + "word " * 359),
        cell("### Below it\n```\n# no heading\n```\n" + "word " * 177),
        cell("## Two\n" + "word " * 180),
        cell("### Three\n\n:::{deeper}\nStill.\n:::\n" + "word " * 179),
        cell("## Exercises\n\n```{exercise} Do\n:label: ex-do\nit\n```\n" + "word " * 179),
        code(15),
        cell("## What was shown\n" + "word " * 180),
    ]
    found = reading_time.minutes(cells)
    assert found.core == pytest.approx(3, abs=0.03)
    assert found.deeper == pytest.approx([3, 1]) and found.exercises == pytest.approx(3 * 2)
    assert str(found) == "5 minutes; 5 for what is marked *deeper* and 10 for the exercises."


def test_a_short_page_says_its_minutes_alone():
    assert str(reading_time.minutes([cell("word " * 900)])) == "5 minutes."
    assert str(reading_time.minutes([cell("word " * 901)])) == "10 minutes."


# --- the map and the table, small ---


def notebook(title, rest="", words=0):
    cells = [cell(f"# {title}\n\n**You need** {rest}\n\n**Time** 5 minutes.\n"), cell("word " * words)]
    for number, each in enumerate(cells):
        each["id"] = f"cell-{number}"
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def book(tmp_path, monkeypatch):
    # sphinx_multitoc_numbering changes the class for the rest of the process
    monkeypatch.setattr(TocTreeCollector, "assign_section_numbers", TocTreeCollector.assign_section_numbers)
    part = "```{{toctree}}\n:numbered:\n:caption: {}\n{}\n```\n"
    parts = part.format("First", "10_one\n20_two\n30_three") + part.format("Second", "40_four")
    (tmp_path / "index.md").write_text(f"# Book\n\n{parts}\n```{{toctree}}\nmap\n```\n")
    rows = "10 | 1 | What is $x$?\n20 | | And then?\n30 | | Really?\n40 | 2 | Who?\n"
    table = f"```{{chapter-table}} session | question\n{rows}```\n"
    (tmp_path / "map.md").write_text(f"# Map\n\n```{{chapter-map}}\n```\n\n{table}")
    (tmp_path / "10_one.ipynb").write_text(notebook("One: the first", "patience.", words=1000))
    (tmp_path / "20_two.ipynb").write_text(notebook("Two", "[](10_one.ipynb).\n\n**It helps** [](30_three.ipynb)"))
    (tmp_path / "30_three.ipynb").write_text(notebook("Three", "[](10_one.ipynb)"))
    (tmp_path / "40_four.ipynb").write_text(notebook("Four", "[](10_one.ipynb), [](20_two.ipynb), [](30_three.ipynb)"))
    return tmp_path


def build(book, builder="html"):
    warnings = StringIO()
    settings = {"extensions": ["myst_nb", "sphinx_multitoc_numbering", "chapter_map"], "html_theme": "basic",
                "nb_execution_mode": "off",
                "exclude_patterns": ["_build"], "source_suffix": {".md": "myst-nb", ".ipynb": "myst-nb"},
                "myst_enable_extensions": ["dollarmath"]}
    with docutils_namespace():
        out = book / "_build" / builder
        Sphinx(book, None, out, book / "_build" / "doctrees", builder, settings, StringIO(), warnings).build()
    return out, [line for line in re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).splitlines() if line]


def test_titles_are_short_unless_two_would_be_alike():
    titles = {"a": "Numerics: digits", "b": "k2: one", "c": "k2: two", "d": "Softmax", "e": "Odds of 3:1"}
    assert [*short_titles(titles).values()] == ["Numerics", "k2: one", "k2: two", "Softmax", "Odds of 3:1"]


def test_the_map_has_a_lane_for_each_part(book):
    out, warnings = build(book)
    assert warnings == []
    page = BeautifulSoup((out / "map.html").read_text(encoding="utf-8"), "html.parser")
    assert [each.get_text() for each in page.select(".chapter-lane-name")] == ["First", "Second"]
    items = page.select(".chapter-lane li")
    assert [item.get_text().strip() for item in items] == [
        "1. One 10 min", "2. Two 5 min", "3. Three 5 min, needs 1", "4. Four 5 min, needs 2, 3"]
    assert [item["class"] for item in items] == [[f"chapter-{kind}"] for kind in "begins follows begins begins".split()]
    assert [link["href"] for link in items[3].find_all("a")] == ["40_four.html", "20_two.html", "30_three.html"]
    assert [link.get("title") for link in items[3].find_all("a")] == [None, "Two", "Three"]


def test_the_table_has_a_row_for_each_chapter_and_part(book):
    out, _ = build(book)
    page = BeautifulSoup((out / "map.html").read_text(encoding="utf-8"), "html.parser")
    rows = [[entry.get_text().strip() for entry in row.find_all(["th", "td"])] for row in page.select("table tr")]
    assert rows == [
        ["chapter", "core", "deeper", "exercises", "needs", "session", "question"],
        ["First"] + [""] * 6,
        ["1. One", "10", "-", "-", "-", "1", rows[2][-1]],
        ["2. Two", "5", "-", "-", "1", "", "And then?"],
        ["3. Three", "5", "-", "-", "1", "", "Really?"],
        ["Second"] + [""] * 6,
        ["4. Four", "5", "-", "-", "2, 3", "2", "Who?"]]
    assert page.select_one("table .math") is not None


def test_a_change_of_a_chapter_changes_the_map(book):
    build(book)
    (book / "20_two.ipynb").write_text(notebook("Two", "nothing", words=1000))
    out, warnings = build(book)
    assert warnings == []
    page = BeautifulSoup((out / "map.html").read_text(encoding="utf-8"), "html.parser")
    assert page.select(".chapter-lane li")[1].get_text().strip() == "2. Two 10 min"


def test_paper_has_the_same_lanes_and_rows(book):
    out, warnings = build(book, "latex")
    text = next(out.glob("*.tex")).read_text(encoding="utf-8")
    assert warnings == [] and "3. Three" in text and "Really?" in text


@pytest.mark.parametrize("change, message", [
    (("map.md", "20 | | And then?\n", ""), "the table of chapters has"),
    (("map.md", "20 | |", "10 | |"), "the table of chapters has"),
    (("map.md", "20 | |", "25 | |"), "the table of chapters has"),
    (("map.md", "20 | |", "20 |"), "the row of 20 has 1 columns of yours; expected 2"),
    (("20_two.ipynb", "10_one", "15_none"), "the opening needs pages that have no number: ['15_none']"),
])
def test_what_does_not_fit_is_a_warning(book, change, message):
    file, old, new = change
    text = (book / file).read_text()
    assert old in text
    (book / file).write_text(text.replace(old, new))
    assert message in "\n".join(build(book)[1])


def test_what_is_needed_by_what_is_needed_is_left_out(openings):
    found = direct_needs(openings)
    assert all({*needs} <= {*openings[name].needs} for name, needs in found.items())
    assert found["02_sympy_derives_it"] == ["01_the_whole_story"]
    assert any(len(found[name]) < len(openings[name].needs) for name in openings)

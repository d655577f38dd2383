"""The map of the chapters: read from openings, drawn clear of its boxes, and agreeing with the table for teachers."""

import json
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "book" / "_ext"))
import chapter_map  # noqa: E402
from chapter_graph import Arrow, Chapter, Opening, arrows, read_opening  # noqa: E402
from map_layout import SIZES, Layout, paths  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ROW = re.compile(r"\| \[([^]]+)\]\(\.\./\.\./notebooks/(\w+)\.ipynb\) \| (\d+) \| ([^|]*) \|")


@pytest.fixture(scope="module")
def openings():
    return {path.stem: read_opening(path) for path in NOTEBOOKS}


# --- the book's own openings ---


def test_every_opening_names_its_time_and_only_chapters(openings):
    contents = re.findall(r"file: notebooks/(\w+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    assert list(openings) == contents and all(30 <= opening.minutes <= 120 for opening in openings.values())
    for name, opening in openings.items():
        assert {*opening.needs, *opening.helps} <= set(openings), name
        assert not set(opening.needs) & set(opening.helps), name


def test_what_is_needed_comes_earlier_in_the_book(openings):
    order = list(openings)
    for name, opening in openings.items():
        assert all(order.index(other) < order.index(name) for other in opening.needs + opening.helps), name


def test_the_table_for_teachers_says_the_same(openings):
    """Its short names are those of its first column, with the part before them where they are of another part."""
    rows, part = {}, ""
    for line in (ROOT / "book" / "teaching" / "index.md").read_text(encoding="utf-8").splitlines():
        heading, row = re.match(r"\| \*\*(.+)\*\* \|", line), ROW.match(line)
        part = heading[1] if heading else part
        if row:
            short, name, minutes, needs = row.groups()
            rows[part, short.lower()] = name, int(minutes), needs.strip()
    short_names = {f"{part} {short}".lower(): name for (part, short), (name, _, _) in rows.items()}

    def resolve(part, names):
        found = []
        for short in filter(None, (name.strip().lower() for name in names.split(","))):
            places = [f"{part} {short}".lower(), f"foundations {short}", short]
            found.append(next(short_names[place] for place in places if place in short_names))
        return sorted(found)

    table = {}
    for (part, _), (name, minutes, text) in rows.items():
        needs, _, helps = text.removesuffix(")").replace("-", "", text == "-").partition("(")
        table[name] = Opening(resolve(part, needs), resolve(part, helps), minutes)
    assert table == {name: Opening(sorted(o.needs), sorted(o.helps), o.minutes) for name, o in openings.items()}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_no_arrow_runs_through_a_box_or_another_arrow(openings, size):
    """Arrows of the same kind that leave the same box share their way; all others may only cross."""
    rows = re.search(r"```\{chapter-map\}\n(.*?)```", (ROOT / "book" / "preface.md").read_text(encoding="utf-8"), re.S)
    chapters = {
        name: Chapter(name, str(number), "A title of some words", name[0], "", opening)
        for number, (name, opening) in enumerate(openings.items(), 1)
    }
    grid = [[chapter_map.full_name(short, chapters) for short in line.split()] for line in rows[1].splitlines()]
    layout, drawn = Layout(chapters, grid, size), arrows(openings)
    found = paths(layout, drawn)
    assert set(found) == set(drawn) and len(drawn) > 20
    pieces = [(arrow, *piece) for arrow, corners in found.items() for piece in zip(corners, corners[1:], strict=False)]
    for arrow, start, end in pieces:
        assert all(0 <= x <= layout.width and 0 <= y <= layout.total for x, y in (start, end)), arrow
        for name, (row, column) in layout.place.items():
            left, top = layout.left(column), layout.top[row]
            box = left, top, left + size.column, top + layout.height[name]
            assert not overlap(start, end, box), f"{arrow} runs through {name}"
    for arrow, start, end in pieces:
        for other, other_start, other_end in pieces:
            if arrow[::2] != other[::2]:  # source and kind
                assert not along(start, end, other_start, other_end), f"{arrow} and {other} share a way"


    crossings = sum(
        crosses(start, end, other_start, other_end)
        for arrow, start, end in pieces
        for other, other_start, other_end in pieces
        if arrow[::2] != other[::2]
    )
    assert crossings <= 40, crossings  # as seen, of some layouts that were tried


def crosses(start, end, other_start, other_end):
    """Tell whether a level piece meets an upright one."""
    if start[1] != end[1] or other_start[0] != other_end[0]:
        return False
    left, right = sorted((start[0], end[0]))
    top, bottom = sorted((other_start[1], other_end[1]))
    return left < other_start[0] < right and top < start[1] < bottom


def overlap(start, end, box):
    left, right = sorted((start[0], end[0]))
    top, bottom = sorted((start[1], end[1]))
    return left < box[2] and right > box[0] and top < box[3] and bottom > box[1]


def along(start, end, other_start, other_end):
    """Tell whether two level or upright pieces lie on each other for some length."""
    for axis in (0, 1):
        if abs(start[axis] - end[axis]) < 1e-9 and abs(other_start[axis] - other_end[axis]) < 1e-9:
            across = 1 - axis
            low, high = sorted((start[across], end[across]))
            other_low, other_high = sorted((other_start[across], other_end[across]))
            if abs(start[axis] - other_start[axis]) < 1.5 and min(high, other_high) - max(low, other_low) > 1e-9:
                return True
    return False


# --- small cases ---


def test_an_arrow_is_left_out_where_others_imply_it():
    openings = {
        "a": Opening([], [], 1),
        "b": Opening(["a"], [], 1),
        "c": Opening(["a", "b"], [], 1),
        "d": Opening([], ["a"], 1),
        "e": Opening(["d", "a"], ["b"], 1),
        "f": Opening(["d"], ["a"], 1),
    }
    assert arrows(openings) == [
        Arrow("a", "b", "needs"),
        Arrow("b", "c", "needs"),
        Arrow("a", "d", "helps"),
        Arrow("d", "e", "needs"),
        Arrow("a", "e", "needs"),  # that a helps d does not say that e needs a
        Arrow("b", "e", "helps"),
        Arrow("d", "f", "needs"),
    ]


def test_an_opening_is_read_from_its_paragraphs(tmp_path):
    page = tmp_path / "chapter.md"
    page.write_text(
        "# Chapter\n\n**You need** [one](10_one.ipynb) and\n[](../book/notation.md), [](20_two.md).\n\n"
        "Later comes [](40_four.md).\n\n**It helps** to know [](30_three.ipynb).\n\n**Time** 45 minutes.\n"
    )
    assert read_opening(page) == Opening(["10_one", "20_two"], ["30_three"], 45)
    notebook = tmp_path / "chapter.ipynb"
    notebook.write_text(json.dumps({"cells": [{"source": ["# Chapter\n", "\n", "**Time** 5 minutes"]}]}))
    assert read_opening(notebook) == Opening([], [], 5)
    page.write_text("# Chapter\n\n**You need** nothing.\n")
    with pytest.raises(ValueError, match="the opening does not say"):
        read_opening(page)


@pytest.fixture
def book(tmp_path):
    chapters = "```{toctree}\n:numbered:\n:caption: Part\n10_one\n20_two\n```\n"
    (tmp_path / "index.md").write_text(f"# Book\n\n{chapters}\n```{{toctree}}\nmap\n```\n")
    (tmp_path / "map.md").write_text("# Map\n\n```{chapter-map}\n10 .\n.  20\n```\n")
    (tmp_path / "10_one.md").write_text("# One: the first\n\n**You need** patience.\n\n**Time** 30 minutes.\n")
    (tmp_path / "20_two.md").write_text("# Two\n\n**You need** [](10_one.md).\n\n**Time** 40 minutes.\n")
    return tmp_path


def build(book, builder="html"):
    warnings = StringIO()
    settings = {"extensions": ["myst_parser", "chapter_map"], "html_theme": "basic", "exclude_patterns": ["_build"]}
    with docutils_namespace():
        out = book / "_build" / builder
        Sphinx(book, None, out, book / "_build" / "doctrees", builder, settings, StringIO(), warnings).build()
    return out, [line for line in re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).splitlines() if line]


def test_the_map_is_drawn_for_two_widths_and_listed(book):
    out, warnings = build(book)
    assert warnings == []
    page = BeautifulSoup((out / "map.html").read_text(encoding="utf-8"), "html.parser")
    spoken = ["1. One 30 min: needs no other chapter", "2. Two 40 min: needs One"]
    for size in SIZES:
        links = page.select(f"svg.chapter-map-{size.name} a")
        assert [link["aria-label"] for link in links] == spoken
        assert [link["href"] for link in links] == ["10_one.html", "20_two.html"]
        assert len(page.select(f"svg.chapter-map-{size.name} g.chapter-map-needs")) == 1
    listed = [item.get_text() for item in page.select("details.chapter-map-list li")]
    assert listed == ["1. One (30 minutes) needs no other chapter", "2. Two (40 minutes) needs One"]


def test_a_change_of_a_chapter_changes_the_map(book):
    build(book)
    (book / "20_two.md").write_text("# Two\n\n**It helps** to know [](10_one.md).\n\n**Time** 55 minutes.\n")
    out, warnings = build(book)
    assert warnings == []
    assert "2. Two 55 min: needs no other chapter; helped by One" in (out / "map.html").read_text(encoding="utf-8")


def test_paper_has_the_list_alone(book):
    out, warnings = build(book, "latex")
    text = next(out.glob("*.tex")).read_text(encoding="utf-8")
    assert warnings == [] and "(40 minutes) needs One" in text and "svg" not in text and "Point at" not in text


@pytest.mark.parametrize("change, message", [
    (("map.md", ".  20", ".  ."), "the chapter map must hold each chapter once"),
    (("map.md", "10 .", "10 10"), "the chapter map must hold each chapter once"),
    (("map.md", "10 .", "10 30"), "the chapter map must hold each chapter once"),
    (("20_two.md", "10_one", "15_none"), "the opening needs pages that have no number: ['15_none']"),
    (("20_two.md", "40 minutes", "long"), "the opening does not say '**Time** ... minutes'"),
])
def test_what_does_not_fit_is_a_warning(book, change, message):
    file, old, new = change
    text = (book / file).read_text()
    assert old in text
    (book / file).write_text(text.replace(old, new))
    assert message in "\n".join(build(book)[1])

"""The tables of the Rosetta stone on a small book: a mark in each row, an entry for each conversion, warnings."""

import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "book" / "_ext"))
import claims  # noqa: E402
import rosetta  # noqa: E402

from reference_impl.as_published.rosetta import ROWS, TABLES  # noqa: E402

TESTS = {"tests.py": ROOT / "tests" / "test_rosetta.py", "lines.py": ROOT / "tests" / "test_line_by_line.py"}
CLAIMS = ROOT / "data" / "claims.json"
CITED = ("{cite:t}", "{eq}", "{ref}", "](../")  # what a small book has no target for


@pytest.fixture
def book(tmp_path, monkeypatch):
    """All tables on two pages, with words in place of citations and links."""
    plain = {name: (heads, list(rows)) for name, (heads, rows) in TABLES.items()}
    words = {row.key: tuple("elsewhere" if any(each in cell for each in CITED) else cell for cell in row.cells)
             for row in ROWS.values()}
    for _, rows in plain.values():
        rows[:] = [replace(row, cells=words[row.key]) for row in rows]
    monkeypatch.setattr(rosetta, "TABLES", plain)
    for name, path in TESTS.items():
        (tmp_path / name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / CLAIMS.name).write_text(CLAIMS.read_text(encoding="utf-8"), encoding="utf-8")
    tables = {name: f"## {name}\n\n```{{rosetta}} {name}\n```\n\n" for name in plain}
    lines = "".join(table for name, table in tables.items() if name.startswith("line-"))
    others = "".join(table for name, table in tables.items() if not name.startswith("line-"))
    (tmp_path / "index.md").write_text(f"# Book\n\n{others}```{{toctree}}\nlines\n```\n")
    (tmp_path / "lines.md").write_text(f"# Lines\n\n{lines}")
    return tmp_path


def build(book, builder="html"):
    warnings = StringIO()
    settings = {"extensions": ["myst_parser", "rosetta"], "html_theme": "basic", "rosetta_tests": [*TESTS],
                "myst_enable_extensions": ["dollarmath"]}
    with docutils_namespace():
        out = book / "_build" / builder
        Sphinx(book, None, out, book / "_build" / "doctrees", builder, settings, StringIO(), warnings,
               freshenv=True).build()
    return out, [line for line in re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).splitlines() if line]


def test_every_row_has_its_mark_and_every_conversion_its_entry(book):
    out, warnings = build(book)
    assert not warnings
    pages = {name: BeautifulSoup((out / name).read_text(encoding="utf-8"), "html.parser")
             for name in ("index.html", "lines.html", f"{rosetta.ENTRIES}.html")}
    marks = {mark["id"]: (name, mark) for name, page in pages.items() for mark in page.select("table .rosetta-mark")}
    assert list(marks) == [rosetta.row_id(row.key) for _, rows in TABLES.values() for row in rows]
    entries = pages[f"{rosetta.ENTRIES}.html"]
    _, known = claims.load(CLAIMS)
    for key, row in ROWS.items():
        name, mark = marks[rosetta.row_id(key)]
        assert (name == "lines.html") == key.startswith("line-")
        cells = mark.find_parent("tr")("td")
        assert len(cells[0 if key.startswith("line-") else -1].select("sup.claim-mark a")) == len(row.claims)
        home = ROWS[row.checked_as or key]
        if not home.converts:
            assert mark.get_text() == ("read" if key.startswith("line-") else "name") and mark.a is None
            continue
        address, _, anchor = mark.a["href"].partition("#")
        assert mark.get_text() == f"checked: {key}" and address == f"{rosetta.ENTRIES}.html"
        entry = entries.find(id=anchor)
        if row.checked_as:
            assert anchor == rosetta.entry_id(home.key) and not entries.find(id=rosetta.entry_id(key))
            continue
        function = row.to_ours or row.from_ours
        assert f"def {function.__name__}(" in entry.get_text()
        assert "@pytest.mark.rosetta(" in entry.details.get_text() and f'"{key}"' in entry.details.get_text()
        assert entry.find("a", string="Back to its row")["href"].endswith(f"{name}#{rosetta.row_id(key)}")
        for name in row.claims:
            text, address = claims.address(known[name])
            assert entry.find("a", href=address) and text.split(", ")[0] in entry.get_text()


def test_there_are_no_links_in_the_pdf(book):
    out, warnings = build(book, "latex")
    assert not warnings
    tex = next(out.glob("*.tex")).read_text(encoding="utf-8")
    checked = sum(ROWS[row.checked_as or key].converts for key, row in ROWS.items())
    assert tex.count("checked") >= checked and "rosetta/rows" not in tex


MARK = '@pytest.mark.rosetta("tgtlen")'


@pytest.mark.parametrize(("file", "old", "new", "says"), [
    ("tests.py", MARK, "", 'the row "tgtlen" has no test'),
    ("tests.py", MARK, '@pytest.mark.rosetta("tgtlen", "none")', 'converts "none", which'),
    ("tests.py", MARK, '@pytest.mark.rosetta("tgtlen", "blank")', 'converts "blank", which'),
    ("index.md", "```{rosetta} names", "```{rosetta} gradients", "on no page, or on two"),
])
def test_what_is_not_bound_is_warned_about(book, file, old, new, says):
    text = (book / file).read_text(encoding="utf-8")
    assert old in text
    (book / file).write_text(text.replace(old, new), encoding="utf-8")
    assert any(says in line for line in build(book)[1])

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

TESTS = ROOT / "tests" / "test_rosetta.py"
CLAIMS = ROOT / "data" / "claims.json"
CITED = ("{cite:t}", "{eq}", "{ref}", "](../")  # what a small book has no target for


@pytest.fixture
def book(tmp_path, monkeypatch):
    """All tables on one page, with words in place of citations and links."""
    plain = {name: (heads, list(rows)) for name, (heads, rows) in TABLES.items()}
    words = {row.key: tuple("elsewhere" if any(each in cell for each in CITED) else cell for cell in row.cells)
             for row in ROWS.values()}
    for _, rows in plain.values():
        rows[:] = [replace(row, cells=words[row.key]) for row in rows]
    monkeypatch.setattr(rosetta, "TABLES", plain)
    (tmp_path / "tests.py").write_text(TESTS.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / CLAIMS.name).write_text(CLAIMS.read_text(encoding="utf-8"), encoding="utf-8")
    page = "".join(f"## {name}\n\n```{{rosetta}} {name}\n```\n\n" for name in plain)
    (tmp_path / "index.md").write_text(f"# Book\n\n{page}")
    return tmp_path


def build(book, builder="html"):
    warnings = StringIO()
    settings = {"extensions": ["myst_parser", "rosetta"], "html_theme": "basic", "rosetta_tests": ["tests.py"],
                "myst_enable_extensions": ["dollarmath"]}
    with docutils_namespace():
        out = book / "_build" / builder
        Sphinx(book, None, out, book / "_build" / "doctrees", builder, settings, StringIO(), warnings,
               freshenv=True).build()
    return out, [line for line in re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).splitlines() if line]


def test_every_row_has_its_mark_and_every_conversion_its_entry(book):
    out, warnings = build(book)
    assert not warnings
    page = BeautifulSoup((out / "index.html").read_text(encoding="utf-8"), "html.parser")
    marks = {mark["id"]: mark for mark in page.select("table .rosetta-mark")}
    assert list(marks) == [rosetta.row_id(row.key) for _, rows in TABLES.values() for row in rows]
    entries = BeautifulSoup((out / f"{rosetta.ENTRIES}.html").read_text(encoding="utf-8"), "html.parser")
    _, known = claims.load(CLAIMS)
    for key, row in ROWS.items():
        mark = marks[rosetta.row_id(key)]
        assert len(mark.parent.select("sup.claim-mark a")) == len(row.claims)
        if not row.converts:
            assert mark.get_text() == "name" and mark.a is None
            continue
        address, _, anchor = mark.a["href"].partition("#")
        assert mark.get_text() == f"checked: {key}" and address == f"{rosetta.ENTRIES}.html"
        entry = entries.find(id=anchor)
        function = row.to_ours or row.from_ours
        assert f"def {function.__name__}(" in entry.get_text()
        assert "@pytest.mark.rosetta(" in entry.details.get_text() and f'"{key}"' in entry.details.get_text()
        assert entry.find("a", string="Back to its row")["href"].endswith(f"index.html#{rosetta.row_id(key)}")
        for name in row.claims:
            text, address = claims.address(known[name])
            assert entry.find("a", href=address) and text.split(", ")[0] in entry.get_text()


def test_there_are_no_links_in_the_pdf(book):
    out, warnings = build(book, "latex")
    assert not warnings
    tex = next(out.glob("*.tex")).read_text(encoding="utf-8")
    assert tex.count("checked") >= sum(row.converts for row in ROWS.values()) and "rosetta/rows" not in tex


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

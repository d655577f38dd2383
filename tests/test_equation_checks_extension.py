"""The Sphinx extension that binds equations to tests, tried on small books. tests/website checks the real one."""

import json
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

EXTENSIONS = Path(__file__).parent.parent / "book" / "_ext"
CHAPTER = """# Chapter

```{math}
:label: commutes
a + b = b + a
```

$$
c := a + b
$$ (def-sum)
"""
CHECKS = "# Checks\n\n```{equation-checks}\n```\n"
TESTS = '''import pytest


@pytest.mark.equation("commutes")
def test_commutes():
    """Addition commutes."""
    check_equation("commutes", lambda a, b: a + b, lambda a, b: b + a, [(1, 2)])
'''

FINDING = {
    "label": "commutes", "test": "test_sum.py::test_commutes", "cases": 1, "exact": True, "mutants": 6,
    "equivalent": {"flip sign": "both are 0"},
    "sources": {"total": ["enumeration", "differ"], "z": ["sympy", "unused"]},
    "algebraic": {"z": "no z in it"}, "sizes": {"T": [1, 3]}, "ends": ["T = 1", "t = 0"],
    "left_out": {"U = 0": "no U", "u = 0": "no U"},
    "tex": "by machine",
}


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book on disk that passes; a test breaks it by writing another page or other tests."""
    monkeypatch.syspath_prepend(EXTENSIONS)
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\n:numbered:\nchapter\nback/checks\nlast\n```\n")
    (tmp_path / "last.md").write_text("# Last\n")
    (tmp_path / "chapter.md").write_text(CHAPTER)
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "checks.md").write_text(CHECKS)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sum.py").write_text(TESTS)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "equations.json").write_text(json.dumps([FINDING]))
    return tmp_path


def build(book, jobs=1):
    """Build the site with every warning counted, and return the warnings, one string each."""
    warnings = StringIO()
    settings = {
        "extensions": ["myst_parser", "equation_checks"],
        "myst_enable_extensions": ["dollarmath"],
        "html_theme": "basic",
        "numfig": True,
        "math_numfig": True,
        "nitpicky": True,
        "exclude_patterns": ["_build"],
    }
    out = book / "_build"
    with docutils_namespace():
        app = Sphinx(book, None, out, out / "doctrees", "html", settings, StringIO(), warnings, parallel=jobs)
        app.build()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())
    return [line for line in plain.splitlines() if line]


def page(book, name):
    return BeautifulSoup((book / "_build" / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def test_each_equation_carries_a_mark_that_links_to_its_entry(book):
    assert build(book) == []
    marks = {link.get_text().split()[0]: link["href"] for link in page(book, "chapter").select(".equation-mark a")}
    assert marks == {
        "checked": "back/checks/chapter.html#check-commutes", "definition": "back/checks.html#check-def-sum"}
    assert page(book, "back/checks/chapter").h1.get_text() == "Checks of Chapter¶"
    ids = [tag["id"] for tag in page(book, "chapter").find_all(id=True)]
    assert len(ids) == len(set(ids)), "the box around an equation must not repeat its id"
    index, checks = page(book, "back/checks"), page(book, "back/checks/chapter")
    entry = checks.find(id="check-commutes")
    assert "def test_commutes():" in entry.select_one("details pre").get_text()
    assert "Addition commutes." in entry.get_text()
    assert "../../chapter.html#equation-commutes" in [link["href"] for link in entry.select("a")]
    assert index.find(id="check-def-sum") is not None
    assert "2 labelled equations: 1 identity, checked by 1 test, and 1 definition." in index.get_text()
    assert "checks/chapter.html#check-commutes" in [link["href"] for link in index.select("td a")]
    assert checks.select("script[src*=mathjax]"), "the page repeats the equations, so it needs MathJax"


def test_an_entry_tells_what_was_found(book):
    assert build(book) == []
    entry = page(book, "back/checks/chapter").find(id="check-commutes")
    assert [item.get_text() for item in entry.select(".check-findings li")] == [
        "1 case, compared exactly. 6 mutants of the right side: 5 noticed, 1 of the same meaning.",
        "Evidence: enumeration (total). With random numbers from any of these the sides differ.",
        "It holds whatever z returns: no z in it.",
        "Sizes: T = 1, 3.",
        "Among the cases: T = 1, t = 0.",
        "Not among them: U = 0, u = 0 (no U).",
        "TeX: read by machine, and executed on the cases.",
    ]
    index = page(book, "back/checks")
    cells = [[cell.get_text() for cell in row.select("td")] for row in index.select("table.equation-table tr")]
    assert ["Chapter", "1", "1", "1", "1"] in cells
    assert ["(1.1)", "commutes", "enumeration", "machine", "1"] in cells
    assert "The TeX of 1 identity was compared with the test by machine." in index.get_text()


def test_a_check_without_findings_warns(book):
    (book / "data" / "equations.json").write_text(json.dumps([FINDING | {"label": "other"}]))
    (warning,) = build(book)
    assert re.search(r"test_sum\.py:5: WARNING: test_commutes has no findings: see `make equations`", warning)


def test_an_identity_without_a_check_warns(book):
    (book / "tests" / "test_sum.py").write_text("")
    (warning,) = build(book)
    assert "chapter.md" in warning and 'equation "commutes" has no check' in warning
    assert build(book) == [warning], "a second build, with nothing changed, must not be silent about it"


def test_a_check_without_an_equation_warns(book):
    (book / "tests" / "test_sum.py").write_text(TESTS.replace('"commutes"', '"commutes", "associates"'))
    (warning,) = build(book)
    assert re.search(r'test_sum\.py:5: WARNING: no equation has the label "associates"', warning)


def test_a_marked_test_that_compares_nothing_warns(book):
    (book / "tests" / "test_sum.py").write_text(TESTS.replace('check_equation("commutes"', 'print("commutes"'))
    (warning,) = build(book)
    assert re.search(r'test_sum\.py:5: WARNING: test_commutes does not call check_equation\("commutes"', warning)


@pytest.mark.parametrize("equation", ["$$\nx = x\n$$\n", "```{math}\nx = x\n```\n"])
def test_a_displayed_equation_without_a_label_warns(book, equation):
    (book / "chapter.md").write_text(CHAPTER + "\n" + equation)
    (warning,) = build(book)
    assert "chapter.md:12: WARNING: displayed equation without a label: x = x" in warning


def test_an_equation_that_a_cell_prints_is_not_the_authors(monkeypatch):
    monkeypatch.syspath_prepend(EXTENSIONS)
    from displayed_equations import displayed_equations

    printed, displayed = nodes.math_block("", "x = x"), nodes.math_block("", "a = b")
    cell = nodes.container("", nodes.container("", printed), classes=["cell_output", "docutils"])
    assert displayed_equations(nodes.section("", displayed, cell)) == [displayed]


def test_a_changed_check_is_rendered_anew(book):
    build(book)
    (book / "tests" / "test_sum.py").write_text(TESTS.replace("(1, 2)", "(3, 4)"))
    assert build(book) == []
    assert "(3, 4)" in page(book, "back/checks/chapter").get_text()


def test_a_new_equation_reaches_the_page_of_checks(book):
    build(book)
    (book / "chapter.md").write_text(CHAPTER + "\n```{math}\n:label: def-one\nd := 1\n```\n")
    assert build(book) == []
    assert page(book, "back/checks").find(id="check-def-one") is not None


@pytest.mark.skipif(sys.platform == "win32", reason="Sphinx reads in parallel only where processes fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_reading_in_parallel_gives_the_same_pages(book):
    for i in range(8):  # Sphinx reads in parallel from six pages on
        (book / f"more{i}.md").write_text(f"---\norphan: true\n---\n# More\n\n$$\nx := {i}\n$$ (def-more{i})\n")
    assert build(book, jobs=2) == []
    assert page(book, "back/checks").find(id="check-def-more7") is not None


def test_marks_are_found_on_methods_and_in_any_number(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXTENSIONS)
    from equation_checks import collect_checks

    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "test_x.py").write_text(
        "import pytest\n\nclass TestX:\n"
        '    @pytest.mark.equation("one")\n    @pytest.mark.equation("two", "three")\n'
        '    def test_it(self):\n        """First line.\n\n        More.\n        """\n'
        '        check_equation("one", f, g, [])\n        equations.check_equation("two", f, g, [])\n'
    )
    checks = collect_checks(tmp_path, tmp_path, {})
    assert sorted(checks) == ["one", "three", "two"]
    (check,) = checks["one"]
    assert check[:4] == ("deep/test_x.py", 6, "test_it", "First line.")
    assert check.source.startswith('@pytest.mark.equation("one")\n@pytest') and check.source.endswith("g, [])")
    assert [checks[label][0].calls_check for label in ("one", "two", "three")] == [True, True, False]

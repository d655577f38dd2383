"""The page that reads the code: what it prints is computed here, and the directive that prints it is tried out."""

import ast
import doctest
import inspect
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

import reference_impl
from reference_impl import ctc

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "book" / "read_the_code.md"
PACKAGE = Path(reference_impl.__file__).parent
sys.path.append(str(ROOT / "book" / "_ext"))
from one_file import NAME, one_file  # noqa: E402
from printed_source import printed  # noqa: E402


def examples():
    return re.findall(r"^```pycon\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_number_on_the_page_is_computed():
    """One session from top to bottom; each block shows what its lines return."""
    blocks = examples()
    said = StringIO()
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    result = doctest.DocTestRunner(verbose=False).run(test, out=said.write)
    assert result.failed == 0, said.getvalue()
    assert len(blocks) > 8 and result.attempted > 15


def test_the_page_is_short():
    words = re.sub(r"^```.*?^```", "", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL).split()
    assert len(words) <= 900


def test_the_functions_are_printed_as_they_stand():
    names = re.findall(r"^```\{source\} (\S+):(\S+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) == 7, "as the first sentence says"
    for module, name in names:
        text = printed(PACKAGE.joinpath(*module.split(".")).with_suffix(".py"), name)
        assert '"""' not in text and text.startswith(f"def {name}("), name
        assert max(map(len, text.splitlines())) <= 120
    whole = inspect.getsource(ctc.alpha)
    docstring = inspect.getsource(ctc.alpha).split('"""')[1]
    assert printed(PACKAGE / "ctc.py", "alpha") + "\n" == whole.replace(f'    """{docstring}"""\n', "")


def test_what_a_function_is_printed_from(tmp_path):
    file = tmp_path / "some.py"
    file.write_text('@one\n@two\ndef a(x):\n    "Says."\n    # why\n    return x\n\n\ndef b():\n    """Says."""\n')
    assert printed(file, "a") == "@one\n@two\ndef a(x):\n    # why\n    return x"
    assert ast.parse(printed(file, "b")), "a function that is only a docstring keeps it"
    with pytest.raises(LookupError, match="some.py has no function c"):
        printed(file, "c")


@pytest.fixture
def book(tmp_path):
    (tmp_path / "src" / "reference_impl").mkdir(parents=True)
    for path in [*(ROOT / "src" / "reference_impl").glob("*.py"), ROOT / "pyproject.toml", ROOT / "LICENSE",
                 ROOT / "_config.yml"]:
        (tmp_path / path.relative_to(ROOT)).write_bytes(path.read_bytes())
    (tmp_path / "parts").mkdir()
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\nparts/one\n```\n")
    return tmp_path


def build(book, page, builder="html"):
    (book / "parts" / "one.md").write_text(page)
    warnings = StringIO()
    out = book / "out" / builder
    with docutils_namespace():
        app = Sphinx(book, None, out, book / "doctrees", builder, status=None, warning=warnings, freshenv=True,
                     confoverrides={"extensions": ["myst_parser", "printed_source", "take_along"],
                                    "exclude_patterns": ["src", "out"], "root_doc": "index"})
        app.build()
    return out, warnings.getvalue()


def test_code_has_its_file_above_it_and_the_one_file_can_be_downloaded(book):
    out, warnings = build(book, "# One\n\n```{source} ctc:can_skip\n```\n\nTake {one-file}`it` along.\n")
    assert not warnings
    page = out / "parts" / "one.html"
    soup = BeautifulSoup(page.read_text(), "html.parser")
    listing = soup.select_one(".source-with-name")
    assert listing.select_one(".name-of-source code").get_text() == "src/reference_impl/ctc.py"
    assert listing.select_one("pre").get_text().startswith("def can_skip(extended, s) -> bool:\n    return s >= 2")
    link = soup.select_one("a[download]")
    assert link.get_text() == "it" and (page.parent / link["href"]).resolve() == out / "_downloads" / NAME
    assert (out / "_downloads" / NAME).read_text(encoding="utf-8") == one_file(ROOT)


def test_on_paper_there_is_no_link_to_a_file(book):
    out, warnings = build(book, "# One\n\nTake {one-file}`it` along.\n", "latex")
    text = next(out.glob("*.tex")).read_text()
    assert not warnings and "along." in text
    assert "_downloads" not in text and not (out / "_downloads").exists()


@pytest.mark.parametrize("what, says", [
    ("ctc:alfa", "ctc.py has no function alfa at its top level"), ("cct:alpha", "No such file"),
    ("ctc", "ctc.py has no function  at its top level"),
])
def test_what_is_not_there_fails_the_build(book, what, says):
    _, warnings = build(book, f"# One\n\n```{{source}} {what}\n```\n")
    assert says in warnings

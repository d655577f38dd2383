"""The Sphinx extension that makes the Reference, tried on a small package; and whether all of the real one is in it."""

import ast
import importlib
import re
import sys
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

import reference_impl

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "book" / "reference"
PACKAGE = Path(reference_impl.__file__).parent
sys.path.append(str(ROOT / "book" / "_ext"))
import reference  # noqa: E402

INTERNAL = {"sweeps", "as_published", "pruning", "digits", "speech", "networks", "measuring"}
FORWARD = '''"""Sweeps. They are in :mod:`.inside`, and :func:`.forward.alpha` is one."""
from dataclasses import dataclass, field
from typing import NamedTuple
from .inside import hidden
__all__ = ["beta", "alpha", "Mistake", "Known", "Pair", "LIMIT", "inside"]
from . import inside

#: How far eq-one goes.
LIMIT = 3


def alpha(x, *, limit=LIMIT):
    """Forward, by eq-one and def-two-b: (T,). More.

    As :func:`beta`, not as :func:`hidden`.

    Parameters
    ----------
    x : (T, V) array
        Of def-two-b.

    Returns
    -------
    first : (T,) array
        One.
    second : (T,) array
        Two.

    Examples
    --------
    >>> "eq-one"
    'eq-one'
    """


def beta(x):
    """Backward (Graves 2006, eq. 9), as :func:`pack.forward.alpha`; parameters as there."""


class Mistake(ValueError):
    """It went wrong."""


@dataclass
class Known:
    """What is known."""

    name: str
    step: float = field(default=1e-9, kw_only=True)
    kind: type = dict
    read: object = lambda x: x


class Pair(NamedTuple):
    """Two that ``first`` names, and one method."""

    first: int

    def swapped(self):
        """The other way round."""
'''
INSIDE = '"""Internal."""\n\n\ndef hidden():\n    """Of nobody\'s concern."""\n'
TEX = "$$\na = b\n$$ (eq-one)\n\n$$\nc = d\n$$ (def-two-b)\n"


@pytest.fixture
def book(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(reference, "PACKAGE", "pack")
    for function in (reference.line_of, reference.public_names):
        function.cache_clear()
    reference.ModuleAnalyzer.cache.clear()
    for name, text in {"pack/__init__.py": '"""All."""\n', "pack/forward.py": FORWARD, "pack/inside.py": INSIDE,
                       "index.md": "# Book\n\n" + TEX + "\n```{toctree}\nnames/forward\n```\n",
                       "names/forward.rst": "Forward\n=======\n\n.. public-names:: pack.forward\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def build(book):
    warnings = StringIO()
    settings = yaml_settings()
    with docutils_namespace():
        app = Sphinx(book, None, book / "out", book / "doctrees", "html", status=None, warning=warnings, freshenv=True,
                     confoverrides=settings | {
                         "extensions": ["myst_parser", "reference"], "root_doc": "index", "nitpicky": True,
                         "myst_enable_extensions": ["dollarmath"], "exclude_patterns": ["out"],
                         "reference_pages": "names", "html_theme": "basic"})
        app.build()
    page = (book / "out" / "names" / "forward.html").read_text(encoding="utf-8")
    return BeautifulSoup(page, "html.parser"), warnings.getvalue()


def yaml_settings():
    """What the book's own settings say about docstrings."""
    import yaml
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    return {name: value for name, value in config.items() if name.startswith(("napoleon_", "autodoc_", "add_module"))}


def test_names_in_the_order_of_the_source_with_links(book):
    page, warnings = build(book)
    assert not warnings
    assert [dt["id"].rpartition(".")[2] for dt in page.select("dt[id^='pack.forward.']")] == [
        "LIMIT", "alpha", "beta", "Mistake", "Known", "Pair", "swapped"]
    assert page.find(id="pack.forward.LIMIT").get_text(strip=True).startswith("LIMIT")
    known = page.find(id="pack.forward.Known").get_text(strip=True)
    assert known.startswith("classKnown(name,kind=dict,read=lambdax:...,*,step=1e-09)")
    rows = {row.select("td")[0].get_text(strip=True): " ".join(row.select("td")[1].get_text().split())
            for row in page.select("table.public-names tr")}
    assert rows["beta"] == "Backward, as forward.alpha()" and rows["alpha"] == "Forward, by (1) and (2)"
    alpha = page.find(id="pack.forward.alpha").parent
    assert alpha.find("dt").get_text(strip=True).startswith("alpha(x,*,limit=LIMIT)")
    links = {link.get_text(): link["href"] for link in alpha.select("dd a.reference")}
    assert links["(1)"].endswith("#equation-eq-one") and links["(2)"].endswith("#equation-def-two-b")
    assert links["beta()"] == "#pack.forward.beta"
    assert "hidden" in alpha.get_text() and "hidden" not in links, "what has no entry is code"
    assert "'eq-one'" in alpha.select_one(".doctest, .highlight-default, pre").get_text(), "examples stay"
    assert "(T, V) array" in alpha.select_one("dl.field-list").get_text()
    assert len(alpha.select("dd > ul > li")) == 2 and not alpha.select("p ul"), "two returned values"
    assert "inside" in page.get_text() and not page.find(id="pack.forward.inside")


@pytest.mark.parametrize("file, old, new, says", [
    ("pack/forward.py", "by eq-one", "by eq-none", "eq-none"),
    ("pack/forward.py", ":func:`beta`,", ":func:`gamma`,", "reference target not found: gamma"),
    ("pack/forward.py", '"alpha", ', '"alpha", "omega", ', "has no attribute 'omega'"),
    ("pack/forward.py", '    """It went wrong."""\n', "    pass\n", "Mistake is public, and has no docstring"),
    ("pack/forward.py", "#: How far eq-one goes.\n", "", "LIMIT is public, and has no docstring"),
    ("names/forward.rst", "pack.forward", "pack.backward", "No module named 'pack.backward'"),
])
def test_what_does_not_exist_fails_the_build(book, file, old, new, says):
    text = (book / file).read_text()
    assert old in text
    (book / file).write_text(text.replace(old, new))
    assert says in build(book)[1]


def in_the_reference():
    return [module for page in sorted(PAGES.glob("*.rst"))
            for module in reference.DIRECTIVE.findall(page.read_text(encoding="utf-8"))]


def test_every_public_module_has_its_place():
    """All that is not internal by the map of the package; of torch_impl itself, and the files named there.

    Of the machine for PTX what its package names, and what launches Triton's kernels on it.
    """
    files = {path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py")}
    top = {path.parts[0] for path in files if path.parts[0] not in INTERNAL | {"__init__"}}
    wanted = {f"reference_impl.{name}" for name in top if not name.startswith("_")}
    wanted |= {"reference_impl", "reference_impl.torch_impl.naive", "reference_impl.torch_impl.pruning",
               "reference_impl.torch_impl.drop_in.torch_ctc", "reference_impl.torch_impl.drop_in.torchaudio_rnnt",
               "reference_impl.torch_impl.drop_in.numba_rnnt",
               "reference_impl.bug_bank.torch_candidate", "reference_impl.decoding.error_rates", "ptx_machine",
               "ptx_machine.triton_launches"}
    modules = in_the_reference()
    assert len(modules) == len(set(modules)) and set(modules) == wanted


def test_every_public_name_has_a_docstring_and_a_short_summary():
    for module in in_the_reference():
        for name in reference.public_names(module):
            says = reference.summary(reference.documentation(module, name))
            assert 10 < len(says) < 160 and "\n" not in says, (module, name, says)


def test_labels_in_docstrings_are_those_of_the_book():
    """Also in docstrings that have no place in the Reference; examples may invent some."""
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "notebooks").glob("*.ipynb"))
    known = set(re.findall(r"\(((?:eq|def)-[a-z0-9-]+)\)", text))
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                lines = (ast.get_docstring(node) or "").split("\n")
                lines = [line for line, is_prose in zip(lines, reference.prose(lines), strict=True) if is_prose]
                found = reference.LABEL.findall(" ".join(lines))
                assert set(found) <= known, path
                seen += len(found)
    assert seen > 25


def test_the_version_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == reference_impl.__version__
    assert importlib.import_module("reference_impl.topology").named_lattice

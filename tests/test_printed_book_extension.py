"""The Sphinx extension that makes LaTeX of the book, tried on a small one; tests/website/test_pdf.py reads the PDF."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace

EXTENSIONS = Path(__file__).parent.parent / "book" / "_ext"
FIRST = """# The title

Some words, and {eq}`eq-two`.

```{toctree}
before
```

```{toctree}
:caption: Part & parcel
:numbered: 1
one
two
```
"""
TWO = """# Two

Therefore

$$
a = b
$$ (eq-one)

$$
b &= c \\\\
  &= d
$$ (eq-two)

```{prf:theorem} Of the name
:label: a-theorem
It holds.
```

```{prf:proof}
It is clear.
```

See {prf:ref}`a-theorem`.

```{exercise} By hand
:label: an-exercise
Do it.
```

```{note}
Look.
```
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXTENSIONS)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "7.8"\n')
    for name, text in {"index": FIRST, "before": "# Before\n", "one": "# One\n", "two": TWO}.items():
        (tmp_path / f"{name}.md").write_text(text)
    return tmp_path


def build(book, parser="myst_parser", **more):
    """Return the body of the document, and all of it."""
    settings = {
        "extensions": [parser, "sphinx_proof", "sphinx_exercise", "printed_book"],
        "myst_enable_extensions": ["dollarmath"],
        "html_theme_options": {"extra_footer": "A licence."},
        "html_title": "The book",
        "author": "Nobody & sons",
        "copyright": "1999",
        "numfig": True,
        "math_numfig": True,
        "latex_engine": "xelatex",
        "latex_documents": [("index", "book.tex", "The book", "Nobody", "manual")],
        "exclude_patterns": ["_build"],
        **more,
    }
    out, warnings = book / "_build", StringIO()
    with docutils_namespace():
        Sphinx(book, None, out, out / "doctrees", "latex", settings, StringIO(), warnings).build()
    assert warnings.getvalue() == ""
    text = (out / "book.tex").read_text(encoding="utf-8")
    return text.partition(r"\begin{document}")[2], text


def test_order_and_numbers_of_chapters(book):
    body, _ = build(book)
    commands = re.findall(r"\\(unnumbered|numbered|part\{.*?\}|chapter\{.*?\})", body)
    assert commands == ["unnumbered", "chapter{Preface}", "unnumbered", "chapter{Before}", "numbered",
                        r"part{Part \& parcel}", "chapter{One}", "chapter{Two}"]


def test_equations_have_their_numbers_and_belong_to_the_paragraph(book):
    body, _ = build(book)
    assert re.findall(r"\\tag\{(.*?)\}\\label\{(.*?)\}", body) == [
        ("2.1", "equation:two:eq-one"), ("2.2", "equation:two:eq-two")]
    assert "Therefore%\n\\begin{equation}" in body
    assert r"\eqref{equation:two:eq-two}" in body


def test_boxes(book):
    body, _ = build(book)
    boxes = re.findall(r"\\begin\{printed(\w+)\}\{(.*?)\}(?:\\phantomsection|\n)", body)
    assert boxes == [("theorem", "Theorem 2.1 (Of the name)"), ("proof", ""), ("exercise", "Exercise 2.1 (By hand)"),
                     ("note", "Note")]
    assert re.search(r"\\hyperref\[\\detokenize\{two:a-theorem\}\]\{\\sphinxcrossref\{Theorem 2.1\}\}", body)
    assert r"\label{\detokenize{two:a-theorem}}" in body and r"\label{\detokenize{two:an-exercise}}" in body
    assert r"It is clear.%" in body.replace("\n", "")


def test_cells_that_wait_for_an_answer_are_not_printed(book):
    def cell(text, *tags):
        return {"cell_type": "code", "id": text, "metadata": {"tags": list(tags)}, "source": f"{text} = 1",
                "execution_count": 1, "outputs": []}

    (book / "one.md").unlink()
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# One"}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    (book / "one.ipynb").write_text(json.dumps({
        "cells": [title, cell("shown", "hide-cell"), cell("asked", "check-answer", "hide-cell")], "metadata": kernel,
        "nbformat": 4, "nbformat_minor": 5}))
    body, _ = build(book, "myst_nb", nb_execution_mode="off", source_suffix={".md": "myst-nb", ".ipynb": "myst-nb"})
    assert "shown" in body and "asked" not in body


def test_the_title_page_has_version_and_licence(book):
    _, text = build(book)
    for line in ("title}{The book}", r"author}{Nobody \& sons}", "version}{Version 7.8, 1999}", "licence}{A licence.}"):
        assert rf"\newcommand{{\printed{line}" in text


def spec(book, table):
    (book / "before.md").write_text(f"# Before\n\n{table}\n")
    body, _ = build(book)
    return re.search(r"\\begin\{(longtable|tabulary)\}(?:\{\\linewidth\})?(?:\[.*?\])?\{(.*)\}\n", body).groups()


def test_a_narrow_table_keeps_its_natural_width(book):
    assert spec(book, "| a | b |\n|---|--:|\n| c | 1 |") == ("tabulary", "lr")


def test_a_wide_table_fits_the_line_and_gives_most_to_the_longest_text(book):
    kind, columns = spec(book, f"| a | b | c |\n|---|---|---|\n| {'short ' * 4} | {'words ' * 60} | x |")
    shares = [float(share) for share in re.findall(r"\\share\{l\}\{(.*?)\}", columns)]
    assert kind == "tabulary" and len(shares) == 3
    assert shares[1] > 2 * shares[0] > 2 * shares[2]
    assert 0.85 < sum(shares) < 1 - 3 * 0.026  # a column's two gaps are 12 pt of 453


def test_a_tall_table_may_go_on_on_the_next_page_and_a_long_name_may_break(book):
    name = "torch.nn.functional.ctc_loss"
    assert spec(book, "| a | b |\n|---|---|\n" + f"| {name} | 1 |\n" * 17) == ("longtable", "ll")
    tex = (book / "_build" / "book.tex").read_text(encoding="utf-8")
    broken = r"torch.\allowbreak{}nn.\allowbreak{}functional.\allowbreak{}ctc\_\allowbreak{}loss"
    assert tex.count(broken) == 17


def test_joined_cells_are_refused(book):
    table = "```{eval-rst}\n+---+---+\n| a | b |\n+---+---+\n| c     |\n+---+---+\n```"
    with pytest.raises(ExtensionError, match="joined cells"):
        spec(book, table)


def test_a_folder_is_left_out_and_links_to_it_are_words(book):
    (book / "index.md").write_text(FIRST.replace("one\ntwo", "one\ntwo\nlook/up\nlookout"))
    (book / "look").mkdir()
    (book / "look" / "up.md").write_text("# Look up\n\n```{toctree}\nmore\n```\n\n(here)=\n## In here\n\nMany names.\n")
    (book / "look" / "more.md").write_text("# More\n\nStill more names.\n")
    (book / "lookout.md").write_text("# Lookout\n\nA view.\n")
    words = "As [the list](look/up.md) and {ref}`a place in it <here>` and [](lookout.md)."
    (book / "one.md").write_text(f"# One\n\n{words}\n")
    _, whole = build(book)
    assert "Many names" in whole and "hyperref[\\detokenize{look/up" in whole
    _, printed = build(book, printed_book_without=["look"])
    assert "names." not in printed and "look/" not in printed and "A view." in printed
    assert "the list" in printed and "a place in it" in printed and "hyperref[\\detokenize{lookout" in printed

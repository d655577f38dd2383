"""Sections off the main line: folded on the website with their minutes, open on paper."""

import json
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import docutils_namespace

sys.path.append(str(Path(__file__).parent.parent / "book" / "_ext"))

CELLS = [
    "# Title\n\nText.\n\n## One\n\nThe main line, see {eq}`eq-one`.",
    "(nobody)=\n## Aside\n\n:::{deeper}\nWhat *nobody* {ref}`needs <nobody>`.\n:::\n\nA long way. " + "word " * 540,
    "$$\n1 = 1\n$$ (eq-one)\n\n### Below\n\nStill folded.",
    "## Two\n\nThe main line again.",
]


def build(folder, cells, builder="html"):
    cells = [{"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text}
             for number, text in enumerate(cells)]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "index.ipynb").write_text(json.dumps(notebook))
    warnings = StringIO()
    settings = {"extensions": ["myst_nb", "deeper"], "html_theme": "basic", "nb_execution_mode": "off",
                "exclude_patterns": ["_build"], "source_suffix": {".ipynb": "myst-nb"},
                "myst_enable_extensions": ["dollarmath", "colon_fence"]}
    with docutils_namespace():
        out = folder / "_build" / builder
        Sphinx(folder, None, out, folder / "_build" / "doctrees", builder, settings, StringIO(), warnings).build()
    return out, [line for line in re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).splitlines() if line]


def test_all_of_the_section_folds_but_its_heading(tmp_path):
    out, warnings = build(tmp_path, CELLS)
    page = BeautifulSoup((out / "index.html").read_text(encoding="utf-8"), "html.parser")
    folded, = page.select("details.deeper")
    assert warnings == [] and not folded.has_attr("open")
    assert folded.summary.get_text() == "Deeper, 4 min. What nobody needs." and folded.summary.em is not None
    assert folded.summary.a is None  # it is a button
    assert folded.parent["id"] == "aside" and folded.parent.h2.find_parent("details") is None
    assert folded.select_one("#equation-eq-one") and folded.h3 and "Still folded." in folded.get_text()
    assert "main line" not in folded.get_text()


def test_paper_shows_it(tmp_path):
    out, warnings = build(tmp_path, CELLS, "latex")
    text = next(out.glob("*.tex")).read_text(encoding="utf-8")
    assert warnings == [] and r"\sphinxstyleemphasis{Deeper. }What \sphinxstyleemphasis{nobody} " in text
    assert "Still folded." in text and "min." not in text


@pytest.mark.parametrize("text, message", [
    ("## One\n\nText.\n\n:::{deeper}\nToo late.\n:::", "{deeper} must stand directly below a heading"),
    ("## One\n\n:::{deeper}\nTwo.\n\nParagraphs.\n:::", "{deeper} holds one paragraph"),
    ("## One\n\n:::{deeper}\n- a list\n:::", "{deeper} holds one paragraph"),
    ("## One\n\n:::{deeper}\n:::", "none found"),
])
def test_what_does_not_fit_is_an_error(tmp_path, text, message):
    assert message in "\n".join(build(tmp_path, ["# Title", text])[1])


def test_a_section_folds_once(tmp_path):
    """Within one that folds, a summary would be seen by nobody."""
    text = "## One\n\n:::{deeper}\nAll of it.\n:::\n\n### Two\n\n:::{deeper}\nA part of it.\n:::\n"
    with pytest.raises(ExtensionError, match='index: {deeper} in "Two", which folds already'):
        build(tmp_path, ["# Title", text])

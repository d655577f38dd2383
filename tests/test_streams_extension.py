"""What a cell prints, in the pieces in which a busy kernel sends it: tried on a small book. Nothing is run."""

import json
import sys
from io import StringIO
from pathlib import Path

from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

sys.path.append(str(Path(__file__).parent.parent / "book" / "_ext"))

# a line and its end apart, a line in two pieces, an empty line that was printed, other outputs in between
PIECES = ["first", "\nsec", "ond\n\n", "third\nfourth\n"]
WHOLE = "first\nsecond\n\nthird\nfourth"


def stream(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def printed(folder, outputs):
    """The blocks of text that the page shows for a cell with these outputs."""
    heading = {"cell_type": "markdown", "id": "h", "source": "# One", "metadata": {}}
    cell = {"cell_type": "code", "id": "c", "source": "show()", "metadata": {}, "execution_count": 1,
            "outputs": outputs}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": [heading, cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "index.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    settings = {"extensions": ["myst_nb", "streams"], "nb_execution_mode": "off", "nb_merge_streams": True,
                "source_suffix": {".ipynb": "myst-nb"}}  # Sphinx would change its default, for the tests after this
    warnings = StringIO()
    with docutils_namespace():
        Sphinx(folder, None, folder / "html", folder / "trees", "html", settings, None, warnings).build()
    assert not warnings.getvalue()
    soup = BeautifulSoup((folder / "html" / "index.html").read_text(encoding="utf-8"), "html.parser")
    return [block.get_text().rstrip("\n") for block in soup.select(".cell_output pre")]


def test_pieces_are_joined_as_they_were_printed(tmp_path):
    number = {"output_type": "execute_result", "data": {"text/plain": "5"}, "metadata": {}, "execution_count": 1}
    first, *others = [stream(piece) for piece in PIECES]
    assert printed(tmp_path, [first, number, *others]) == [WHOLE, "5"]


def test_streams_stay_apart(tmp_path):
    outputs = [stream("one"), stream("warning", "stderr"), stream("\ntwo\n"), stream(" of two\n", "stderr")]
    assert printed(tmp_path, outputs) == ["one\ntwo", "warning of two"]

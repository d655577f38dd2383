"""One letter, one thing: the formulas of the chapters against the notation page and the chapters' own lists."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "book" / "_ext"))
from letters import DIRECTIVE, in_formulas, own  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
FIRST_CELL = re.compile(r"^\| (\$.*?\$[^|]*) \|", re.MULTILINE)


def notation():
    """The first cells of the tables' rows."""
    return FIRST_CELL.findall((ROOT / "book" / "notation.md").read_text(encoding="utf-8"))


def own_letters(path):
    """What a chapter's list names: the formulas of each line up to its colon."""
    return [letter for line in own(path) for letter in in_formulas(line.partition(":")[0])]


GLOBAL = set().union(*map(in_formulas, notation()))


def test_the_notation_page_has_each_symbol_once():
    symbols = [symbol for cell in notation() for symbol in re.findall(r"\$([^$]+)\$", cell)]
    assert len(symbols) == len(set(symbols)) > 40


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_letter_of_a_chapter_means_one_thing(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    used, listed = in_formulas(DIRECTIVE.sub("", text)), own_letters(path)
    assert used - GLOBAL - {*listed} == set(), "neither on the notation page nor in the chapter's own list"
    assert {*listed} & GLOBAL == set(), "they mean something else in the whole book"
    assert {*listed} - used == set(), "listed, but in no formula"
    assert len(listed) == len({*listed}), "on two lines, so with two meanings"


def test_letters_are_read_from_formulas():
    text = r"""$x_t(k)$ and `$q$` and \$ and $\bar\alpha = \hat{m}$, $e^{r}$, $w(e)$, $\mathcal B^{-1}$, $\mathrm dy$
    $$
    \sum_{\text{all } v} \operatorname{softmax}(z)
    $$ (eq-some)"""
    assert in_formulas(text) == {"x", "t", "k", r"\alpha", "m", "r", "w", "e", r"\mathcal B", "y", "v", "z"}

"""What a chapter's cells show: excerpts from source that need not be run."""

from fractions import Fraction
from functools import cache

import pytest

from reference_impl import ctc
from reference_impl.showing import excerpt, line_for_line, listing, table, table_of_rows


def a_function(values):
    """A docstring with total = in it."""
    total = 0
    for value in values:
        total = total + (
            value)
    return total


@cache
def decorated():
    """A docstring."""
    return 0


class Outer:
    def nothing_but_a_docstring(self):
        """A docstring, and nothing else."""


def test_a_listing_has_decorators_and_a_body():
    """At the left margin, without the docstring unless it is all there is, and shown as code."""
    text = "@cache\ndef decorated():\n    return 0"
    assert listing(decorated) == text
    assert listing(decorated)._repr_markdown_() == f"```python\n{text}\n```"
    assert listing(Outer.nothing_but_a_docstring) == (
        'def nothing_but_a_docstring(self):\n    """A docstring, and nothing else."""')


def test_excerpts_come_in_order_and_without_the_docstring():
    assert excerpt(a_function, "total =", "total =") == "total = 0\ntotal = total + (\n    value)"
    assert excerpt(a_function, "return") == "return total"


@pytest.mark.parametrize("fragments", [["for value"], ["return", "total = 0"], ["docstring"]])
def test_an_excerpt_that_is_not_there(fragments):
    """A fragment of a statement with a body, one that comes too early, and one of the docstring."""
    with pytest.raises(ValueError, match="is in no further statement of a_function"):
        excerpt(a_function, *fragments)


def test_a_module_is_read_and_not_run():
    """The kernels are shown where there is no Triton."""
    assert excerpt("reference_impl.ctc.can_skip", "return") == excerpt(ctc.can_skip, "return")
    text = excerpt("reference_impl.torch_impl.triton_lattice.rnnt_forward", "total =", "m, e = _normalise")
    assert text == "total = by_blank + by_label\nm, e = _normalise(total, e, COMPUTE)"


def test_line_for_line():
    assert line_for_line(("x = 1\ny = 2", "z = 3"), ("", "return z")) == "# x = 1\n# y = 2\nz = 3\n\nreturn z"


def test_a_table_shows_each_entry_as_what_it_is():
    """Fractions and truth values are not made numbers; a minus is a minus; Markdown itself, not a text of it."""
    shown = table({"entry": [-3, Fraction(-1, 3), -0.5, True, "-"]})
    assert shown.splitlines()[2:] == ["| −3 |", "| −1/3 |", "| −0.5 |", "| True |", "| - |"]
    assert shown._repr_markdown_() == str(shown)


def test_equal_rows_read_alike():
    """Half of the last decimal, off by rounding error to either side, and no minus before a 0."""
    text = table_of_rows("frame", {"one": [[0.015625 - 1e-11, -1e-7]], "other": [[0.015625 + 1e-11, 1e-7]]})
    *_, one, other, _ = (cell.strip() for cell in text.splitlines()[-1].split("|"))
    assert one == other == "+0.01562  +0.00000"


def test_matrices_with_different_numbers_of_rows():
    with pytest.raises(ValueError, match="columns have lengths"):
        table_of_rows("frame", {"one": [[0.0]], "other": [[0.0], [1.0]]})

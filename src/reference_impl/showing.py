"""What a chapter's cells show beside figures: the lines of a function, and small tables. It computes nothing."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from numbers import Rational
from pathlib import Path

__all__ = ["Listing", "Table", "excerpt", "line_for_line", "listing", "table", "table_of_rows",
           "without_docstring"]

MINUS = "−"  # as a reader expects it, and a narrow cell does not break there


class Listing(str):
    """Python source that a notebook shows as code."""

    def _repr_markdown_(self):
        return f"```python\n{self}\n```"

    def __repr__(self):
        return str(self)


def listing(function: Callable) -> Listing:
    """The source of a function, decorators included, without its docstring.

    Raises
    ------
    OSError
        Where the function has no file, such as one that was typed into a prompt.

    Examples
    --------
    >>> from reference_impl import ctc
    >>> listing(ctc.can_skip)
    def can_skip(extended, s) -> bool:
        return s >= 2 and bool(extended[s] != extended[s - 2])
    """
    text = textwrap.dedent(inspect.getsource(function))
    return Listing(without_docstring(text, ast.parse(text).body[0]))


def without_docstring(text: str, node: ast.FunctionDef) -> str:
    """The lines of a function in a text that was parsed, from its decorators on."""
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    lines = dict(enumerate(text.splitlines()[first - 1:node.end_lineno], first))
    if ast.get_docstring(node) is not None and len(node.body) > 1:
        string = node.body[0]
        lines = {at: line for at, line in lines.items() if not string.lineno <= at <= string.end_lineno}
    return "\n".join(lines.values())


def excerpt(function: Callable | str, *fragments: str) -> Listing:
    """The statements of a function in which some fragments occur, each the next after the one before.

    Parameters
    ----------
    function : callable or str
        ``"package.module.function"`` is read and not run: its module may need what this machine lacks.
    fragments : str
        A part of each statement that is wanted; of statements with a body, such as ``for``, the body alone counts.

    Raises
    ------
    ValueError
        For a fragment that no further statement has.

    Examples
    --------
    >>> excerpt("reference_impl.ctc.can_skip", "return")
    return s >= 2 and bool(extended[s] != extended[s - 2])
    """
    text, node = _source(function)
    lines = text.splitlines()
    simple = sorted((each for each in ast.walk(node) if isinstance(each, ast.stmt) and not hasattr(each, "body")),
                    key=lambda each: each.lineno)
    statements = ["\n".join(lines[each.lineno - 1:each.end_lineno]) for each in simple
                  if each.lineno > node.body[0].end_lineno or not ast.get_docstring(node)]
    chosen, rest = [], iter(statements)
    for fragment in fragments:
        chosen.append(next((each for each in rest if fragment in each), None))
        if chosen[-1] is None:
            raise ValueError(f"{fragment!r} is in no further statement of {node.name}")
    return Listing("\n".join(map(textwrap.dedent, chosen)))


def _source(function):
    """A text, and the definition of the function in it."""
    if not isinstance(function, str):
        text = textwrap.dedent(inspect.getsource(function))
        return text, ast.parse(text).body[0]
    module, _, name = function.rpartition(".")
    text = Path(find_spec(module).origin).read_text(encoding="utf-8")
    return text, next(each for each in ast.parse(text).body if getattr(each, "name", "") == name)


def line_for_line(*pairs: tuple[str, str]) -> Listing:
    """Code of two kinds that does the same: what is known as a comment, and below it what is to be read.

    Examples
    --------
    >>> line_for_line(("total = x.sum()", "total = tl.sum(x, 0)"), ("", "tl.store(out, total)"))
    # total = x.sum()
    total = tl.sum(x, 0)
    <BLANKLINE>
    tl.store(out, total)
    """
    return Listing("\n\n".join(textwrap.indent(f"{known}\n", "# ", bool) * bool(known) + f"{new}"
                               for known, new in pairs))


class Table(str):
    """A table in Markdown that a notebook shows as a table."""

    def _repr_markdown_(self):
        return str(self)

    def __repr__(self):
        return str(self)


def table(columns: Mapping[str, Sequence]) -> Table:
    """Columns of equal length as a table, for instance the two sides of an equation and their difference.

    Parameters
    ----------
    columns : dict
        The entries below each heading, which may have formulas, ``"$E_t(k)$"``. Integers and fractions are shown
        as they are, other numbers with six significant digits, all else by ``str``.

    Raises
    ------
    ValueError
        Where the columns differ in length.

    Examples
    --------
    >>> from fractions import Fraction
    >>> table({"entry": ["blank", "a"], "$E$": [Fraction(1, 5), Fraction(4, 5)], "error": [0, 1 / 3e12]})
    | entry | $E$ | error |
    |---|---|---|
    | blank | 1/5 | 0 |
    | a | 4/5 | 3.33333e−13 |
    """
    lengths = {name: len(entries) for name, entries in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns have lengths {lengths}; expected equal lengths")
    rows = ([_written(entry) for entry in row] for row in zip(*columns.values(), strict=True))
    lines = [" | ".join(row) for row in [columns, *rows]]
    return Table("\n".join([f"| {lines[0]} |", "|" + "---|" * len(columns), *(f"| {line} |" for line in lines[1:])]))


def table_of_rows(name: str, arrays: Mapping[str, Sequence[Sequence[float]]]) -> Table:
    """Matrices with equally many rows side by side, such as two gradients: in each cell a row, with five decimals.

    Parameters
    ----------
    name : str
        The heading of the first column, which counts the rows.
    arrays : dict
        The matrix below each further heading.

    Raises
    ------
    ValueError
        Where the matrices differ in their numbers of rows.

    Examples
    --------
    >>> table_of_rows("frame", {"formula": [[-1 / 6, 1 / 6], [0, -1e-9]], "quotients": [[-1 / 6, 1 / 6], [0, 0]]})
    | frame | formula | quotients |
    |---|---|---|
    | 0 | −0.16667  +0.16667 | −0.16667  +0.16667 |
    | 1 | +0.00000  +0.00000 | +0.00000  +0.00000 |
    """
    columns = {heading: ["  ".join(_signed(x) for x in row) for row in rows]
               for heading, rows in arrays.items()}
    return table({name: range(max(map(len, columns.values()), default=0)), **columns})


def _signed(number):
    """Five decimals; what differs by rounding error reads alike, and no minus stands before a 0."""
    return f"{round(round(float(number), 9), 5) + 0.0:+.5f}".replace("-", MINUS)


def _written(entry):
    if isinstance(entry, str):
        return str(entry)
    if isinstance(entry, Rational):
        return str(entry).replace("-", MINUS)
    try:
        return f"{float(entry):.6g}".replace("-", MINUS)
    except (TypeError, ValueError):
        return str(entry)

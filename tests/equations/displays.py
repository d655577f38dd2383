"""The displays of the book as TeX, and their members executed on the cases of a check."""

import functools
import json
import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
from tex_to_python import translate
from tex_tokens import TexError

from reference_impl.equations import EquationError, agree

ROOT = Path(__file__).parents[2]


@functools.cache
def displays():
    """{label: TeX} of every labelled equation of the notebooks and pages."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "book").rglob("*.md"))]
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts += ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    return {label: tex for text in texts for tex, label in re.findall(r"\$\$(.*?)\$\$\s*\(([\w-]+)\)", text, re.S)}


def compare(compared, tex, notation, quantities):
    """Execute the members of a display on every case of its check, and compare them with the left side of the check.

    The display may use the names of the case, those around the check, and the sizes of the case's arrays.

    Raises
    ------
    TexError
        If the notation does not say what some part of the display means.
    EquationError
        If a member is something else than the check's left side, or a condition behind the equation does not hold.
    """
    check, statement = compared.check, translate(tex, notation)
    members, conditions = ([_compiled(each) for each in part] for part in (statement.members, statement.conditions))
    around = {**check.rhs.__globals__, **_closure(check.rhs), **MEANINGS, **check.rhs.__globals__.get("MEANINGS", {})}
    for i, (arguments, (left, _)) in enumerate(zip(check.arguments(), compared.sides, strict=True)):
        names = {**around, **quantities.sizes(arguments), **arguments}
        for member in members:
            value = _value(member, names)
            if isinstance(value, _NoValue) or not agree(left, value, check.tolerance):
                raise EquationError(f"{check.label}: its TeX, {member.co_filename}, is {value} in case {i}, not {left}")
        for condition in conditions:
            value = _value(condition, names)
            if isinstance(value, _NoValue) or not value:
                raise EquationError(f"{check.label}: its condition, {condition.co_filename}, is false in case {i}")


def _compiled(python):
    try:
        return compile(python, python, "eval")
    except SyntaxError as error:
        raise TexError(f"{python}: {error}") from error


def _value(code, names):
    try:
        return eval(code, dict(names))  # our own book, read by our own grammar
    except (NameError, TypeError, AttributeError) as error:
        raise TexError(f"{code.co_filename}: {error}") from error
    except (ArithmeticError, LookupError, ValueError) as error:
        return _NoValue(f"no value, {error!r}")


class _NoValue(str):
    """Why an expression has none, such as an index that is out of range."""


def _closure(function):
    names = function.__code__.co_freevars
    return dict(zip(names, (cell.cell_contents for cell in function.__closure__ or ()), strict=True))


def _div(a, b):
    """A quotient; of whole numbers, exactly."""
    return Fraction(a) / Fraction(b) if isinstance(a, int) and isinstance(b, int) else a / b


def _by_type(of_float, of_mpmath):
    return lambda x: of_mpmath(x) if isinstance(x, mpmath.mpf) else of_float(x)


#: What the Python of a display calls; a file of tests may have its own ``MEANINGS`` of some.
MEANINGS = {
    "div": _div, "prod": math.prod, "binom": lambda n, k: math.comb(n, k) if n >= 0 and k >= 0 else 0,
    "floor": math.floor, "ceil": math.ceil, "log": _by_type(np.log, mpmath.log), "exp": _by_type(np.exp, mpmath.exp),
    "tanh": _by_type(np.tanh, mpmath.tanh),
}

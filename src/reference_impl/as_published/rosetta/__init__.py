"""The rows of the pages "Rosetta stone" and "Line by line", with what each converts as a function. No loss runs any.

A row without functions says names only, or repeats the conversion of another row. ``tests/test_rosetta.py`` and
``tests/test_line_by_line.py`` compare each function with something computed in another way, and plant errors in it that
must show.
"""

from .gradients import GRADIENTS
from .lines import LINES
from .quantities import NAMES, QUANTITIES
from .reductions import REDUCTIONS
from .table import Row
from .variables import VARIABLES

__all__ = ["ROWS", "TABLES", "Row"]

#: The tables of the pages: their heads, and their rows.
TABLES = {
    "variables": (("source", r"$\alpha$ contains", r"$\beta$ contains", "mass through a node"), VARIABLES),
    "names": (("here", "elsewhere"), NAMES),
    "quantities": (("here", "elsewhere"), QUANTITIES),
    "reductions": (("library", "divides"), REDUCTIONS),
    "gradients": (("formula in the code", "with respect to", "see"), GRADIENTS),
    **{name: (("their line", "in this book", "what it means"), rows) for name, rows in LINES.items()},
}

#: All rows by their keys.
ROWS = {row.key: row for _, rows in TABLES.values() for row in rows}

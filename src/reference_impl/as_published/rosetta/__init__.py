"""The rows of the page "Rosetta stone", and the conversion that each row states as a function. No loss runs any.

A row without functions says names only. ``tests/test_rosetta.py`` compares each function with something computed in
another way, and plants errors in it that must show.
"""

from .gradients import GRADIENTS
from .quantities import NAMES, QUANTITIES
from .reductions import REDUCTIONS
from .table import Row
from .variables import VARIABLES

__all__ = ["ROWS", "TABLES", "Row"]

#: The tables of the page: their heads, and their rows.
TABLES = {
    "variables": (("source", r"$\alpha$ contains", r"$\beta$ contains", "mass through a node"), VARIABLES),
    "names": (("here", "elsewhere"), NAMES),
    "quantities": (("here", "elsewhere"), QUANTITIES),
    "reductions": (("library", "divides"), REDUCTIONS),
    "gradients": (("formula in the code", "with respect to", "see"), GRADIENTS),
}

#: All rows by their keys.
ROWS = {row.key: row for _, rows in TABLES.values() for row in rows}

"""``data/equations.json`` as a whole: it has nothing of tests and displays that are gone."""

import ast
from pathlib import Path

from displays import displays
from findings import read


def functions():
    """(file, name) of every function of the tests."""
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield path.name, node.name


def test_each_finding_is_of_a_test_and_of_a_display():
    known, labels = set(functions()), displays()
    for finding in read():
        file, _, name = finding["test"].partition("::")
        assert (file, name.partition("[")[0]) in known, finding["test"]
        assert finding["label"] in labels

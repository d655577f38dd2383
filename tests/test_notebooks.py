"""What holds for the code of every notebook."""

import ast
import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
FIRST_HALF = [path for path in NOTEBOOKS if path.stem < "66"]
DRAWS_WITH_TORCH = re.compile(r"\btorch\.(rand|normal|bernoulli|multinomial|nn\.[A-Z])|(?<![.\w])nn\.[A-Z]")
WITHOUT_SEED = re.compile(r"\bdefault_rng\(\)|\bnp\.random\.(?!default_rng\b)|^(import|from) random\b", re.MULTILINE)

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
first_half = pytest.mark.parametrize("path", FIRST_HALF, ids=lambda path: path.stem)


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells if cell["cell_type"] == "code"]


def is_folded(cell):
    return {"hide-cell", "hide-input", "remove-cell", "remove-input"} & {*cell["metadata"].get("tags", [])}


@every_notebook
def test_every_run_draws_the_same_numbers(path):
    """A check that passes for most numbers would fail on some days."""
    code = "\n".join(cell["source"] for cell in code_cells(path))
    assert not WITHOUT_SEED.findall(code)
    assert not DRAWS_WITH_TORCH.search(code) or re.search(r"\btorch\.manual_seed\(\d+\)", code), "torch has no seed"


# --- what a reader sees ---


@every_notebook
def test_machinery_is_folded(path):
    """Imports, what draws a figure, the ends of solutions, and cells that only assert."""
    install, imports, *others = code_cells(path)
    assert install["id"] == "install" and is_folded(imports), imports["source"]
    for cell in others:
        statements = ast.parse(cell["source"]).body
        only_asserts = all(isinstance(statement, ast.Assert) for statement in statements)
        if "image" in cell["metadata"].get("mystnb", {}) or cell["id"].startswith("solved-") or only_asserts:
            assert is_folded(cell), f"{cell['id']}: {cell['source'][:80]}"


@first_half
def test_chapters_begin_with_few_imports(path):
    imports = code_cells(path)[1]["source"]
    assert sum(bool(line.strip()) for line in imports.splitlines()) <= 8, imports


def claims(code):
    """The calls of print that print no computed value."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            inside = [each for argument in node.args for each in ast.walk(argument)]
            if node.args and not any(isinstance(each, ast.Name | ast.Call | ast.Attribute) for each in inside):
                yield ast.unparse(node)


@first_half
def test_no_output_is_a_claim(path):
    assert [claim for cell in code_cells(path) for claim in claims(cell["source"])] == []


def test_claims_are_found():
    assert list(claims('print("all 0")')) == ["print('all 0')"]
    assert list(claims('print("a", f"b", sep="")')) == ["print('a', f'b', sep='')"]
    assert list(claims('print()\nprint("Z =", z)\nprint(f"{z:.2f}")\nprint(*rows)\nprint(max(1, 2))')) == []

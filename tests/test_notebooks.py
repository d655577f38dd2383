"""What holds for the code of every notebook."""

import ast
import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
FIRST_HALF = [path for path in NOTEBOOKS if path.stem < "66"]
DRAWS_WITH_TORCH = re.compile(r"\btorch\.(rand|normal|bernoulli|multinomial|nn\.[A-Z])|(?<![.\w])nn\.[A-Z]")
DRAWS_A_FIGURE = re.compile(r"\bplt\.|\bplotting\.plot_|\bax\.")
SPEAKS = {"print", "display", "Markdown", "HTML", "Latex"}
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


def is_setup(code):
    """Whether the code does nothing but import."""
    return all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in ast.parse(code).body)


def is_guard(code):
    """Whether the code does nothing but assert, in loops or not."""
    def asserts(statement):
        if isinstance(statement, ast.For | ast.If):
            return all(map(asserts, statement.body + statement.orelse))
        return isinstance(statement, ast.Assert)

    return all(map(asserts, ast.parse(code).body))


@every_notebook
def test_machinery_is_folded(path):
    """Imports, what draws a figure, the ends of solutions, and cells that only assert."""
    install, imports, *others = code_cells(path)
    assert install["id"] == "install" and is_folded(imports), imports["source"]
    for cell in others:
        code = cell["source"]
        figure = "image" in cell["metadata"].get("mystnb", {}) or DRAWS_A_FIGURE.search(code)
        if figure or cell["id"].startswith("solved-") or is_setup(code) or is_guard(code):
            assert is_folded(cell), f"{cell['id']}: {code[:80]}"


def test_machinery_is_found():
    assert is_setup("import math\nfrom fractions import Fraction") and not is_setup("import math\nmath.pi")
    assert is_guard("assert x\nfor each in x:\n    assert each")
    assert not is_guard("for each in x:\n    print(each)\n    assert each")


@first_half
def test_chapters_begin_with_few_imports(path):
    imports = code_cells(path)[1]["source"]
    assert sum(bool(line.strip()) for line in imports.splitlines()) <= 8, imports


def claims(code):
    """What prints or displays sentences and no computed value; to choose between two sentences is to show neither."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SPEAKS and node.args:
            if not any(map(has_a_value, node.args)):
                yield ast.unparse(node)
    if isinstance(tree.body[-1], ast.Expr) and isinstance(tree.body[-1].value, ast.Constant | ast.JoinedStr):
        if not has_a_value(tree.body[-1].value):
            yield ast.unparse(tree.body[-1])


def has_a_value(expression):
    """Whether a name is in it, or in what is called in it, other than to choose."""
    inside = {*ast.walk(expression)}
    inside -= {each for node in inside if isinstance(node, ast.IfExp) for each in ast.walk(node.test)}
    return any(isinstance(each, ast.Name) for each in inside)


@first_half
def test_no_output_is_a_claim(path):
    assert [claim for cell in code_cells(path) for claim in claims(cell["source"])] == []


def test_claims_are_found():
    assert list(claims('print("all 0")')) == ["print('all 0')"]
    assert list(claims('print("a", f"b", sep="")')) == ["print('a', f'b', sep='')"]
    assert list(claims('print("off by {}".format(0))')) == ["print('off by {}'.format(0))"]
    assert list(claims('print("equal" if a == b else "not")')) == ["print('equal' if a == b else 'not')"]
    assert list(claims('display(Markdown("all 0"))')) == ["Markdown('all 0')"]
    assert list(claims('x = 1\n"all 0"')) == ["'all 0'"]
    assert list(claims('print()\nprint("Z =", z)\nprint(f"{z:.2f}")\nprint(*rows)\nprint(max(1, 2))')) == []
    assert list(claims('print("{}".format(z))\nprint(z if z else "none")\nf"{z:.2f}"')) == []

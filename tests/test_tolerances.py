"""No comparison of floats is looser than it says, in tests and notebooks: NumPy adds a default for what is left out."""

import ast
import json
from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).resolve().parent.parent
FILES = [*sorted((ROOT / "notebooks").glob("*.ipynb")), *sorted((ROOT / "tests").rglob("*.py"))]
COMPARISONS = {"allclose", "isclose", "assert_allclose"}


def sources(path):
    if path.suffix == ".py":
        return [path.read_text(encoding="utf-8")]
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    python = TransformerManager().transform_cell  # from what may hold magics
    return [python("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]


def one_sided(source):
    """Comparisons that state one of rtol and atol, and leave the other at its default."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in COMPARISONS:
            stated = {keyword.arg for keyword in node.keywords} & {"rtol", "atol"}
            if len(stated) == 1:
                yield ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_both_tolerances_are_stated(path):
    assert [call for source in sources(path) for call in one_sided(source)] == []


def test_the_test_can_fail():
    assert list(one_sided("np.allclose(a, b, atol=1e-14)\nnp.allclose(a, b)\nnp.isclose(a, b, rtol=0, atol=1)")) == [
        "np.allclose(a, b, atol=1e-14)"]

"""What holds for the code of every notebook."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
DRAWS_WITH_TORCH = re.compile(r"\btorch\.(rand|normal|bernoulli|multinomial|nn\.[A-Z])|(?<![.\w])nn\.[A-Z]")
WITHOUT_SEED = re.compile(r"\bdefault_rng\(\)|\bnp\.random\.(?!default_rng\b)|^(import|from) random\b", re.MULTILINE)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_run_draws_the_same_numbers(path):
    """A check that passes for most numbers would fail on some days."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert not WITHOUT_SEED.findall(code)
    assert not DRAWS_WITH_TORCH.search(code) or re.search(r"\btorch\.manual_seed\(\d+\)", code), "torch has no seed"

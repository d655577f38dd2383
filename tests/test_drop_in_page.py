"""The recipes on the page about the drop-in losses, run before and after the change where the library is installed."""

import importlib.util
import re
from pathlib import Path

import pytest
import torch

PAGE = (Path(__file__).parent.parent / "book" / "drop_in.md").read_text(encoding="utf-8")
#: (heading, the lines of its recipe)
RECIPES = re.findall(r"^## (.*?)\n.*?^```diff\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
KINDS = {"CTC from torch": "ctc", "RNN-T from torchaudio": "rnnt", "RNN-T from warprnnt_numba or NeMo": "rnnt",
         "Change the call, too": "ctc"}


def program(recipe, sign):
    """The lines before ("-") or after ("+") the change."""
    return "\n".join(line[1:] for line in recipe.splitlines() if line[:1] in (sign, " "))


def run(code, kind):
    """Loss and gradient of the logits, and of the log-probs if the recipe makes them."""
    torch.manual_seed(0)
    shape = (2, 4, 5) if kind == "ctc" else (2, 4, 3, 5)
    logits = torch.randn(shape, requires_grad=True)
    batch = {"logits": logits, "targets": torch.tensor([[1, 2], [3, 1]], dtype=torch.int32),
             "logit_lengths": torch.tensor([4, 3], dtype=torch.int32),
             "target_lengths": torch.tensor([2, 1], dtype=torch.int32)}
    exec(code, batch)
    variables = [batch[name] for name in ("logits", "log_probs") if name in batch]
    return batch["loss"].detach(), *torch.autograd.grad(batch["loss"].sum(), variables)


def test_every_section_has_a_recipe():
    assert [heading for heading, _ in RECIPES] == list(KINDS)
    assert PAGE.count("```diff") == len(RECIPES)


@pytest.mark.parametrize(("heading", "recipe"), RECIPES, ids=list(KINDS))
def test_recipe(heading, recipe):
    """The same loss and gradient of the logits; and what the page says of the other numbers."""
    after, before = (program(recipe, sign) for sign in "+-")
    loss, gradient, *others = run(after, KINDS[heading])
    assert loss.isfinite().all() and gradient.any()
    library = re.match(r"from (\w+)", before)[1]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: only the changed recipe has run; tests/test_drop_in.py has numbers")
    their_loss, their_gradient, *theirs = run(before, KINDS[heading])
    scale = 1.01 if "numba" in library else 1.0  # the value with FastEmit
    torch.testing.assert_close(scale * loss, their_loss, rtol=1e-6, atol=0)
    torch.testing.assert_close(gradient, their_gradient, rtol=0, atol=1e-6)
    assert heading != "CTC from torch" or (theirs[0] - others[0]).abs().max() > 0.1


def test_only_the_import_changes():
    """In the first three, one line for one."""
    for heading, recipe in RECIPES[:3]:
        changed = [line for line in recipe.splitlines() if line[:1] in ("+", "-")]
        assert len(changed) == 2 and all(" import " in line for line in changed), heading

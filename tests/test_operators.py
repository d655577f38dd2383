"""The operators that tracers see instead of the losses: what torch's own check of operators says of each.

It compares what an operator returns with what it foretells, for fixed and for free sizes, and looks for arguments that
are changed or shared, and for gradients that get lost. That they compute the losses is tested in test_tracing.py.
"""

import pytest
import torch
from implementations import every_kind, needs_triton
from torch.library import opcheck
from torch.utils._pytree import tree_map_only

import reference_impl.torch_impl  # noqa: F401  makes the operators

# torch 2.14's opcheck hides this warning, but only where warnings are no errors
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")

OPERATORS = torch.ops.reference_impl
B, T, U, V = 6, 5, 3, 7  # all sizes differ
INTEGERS = torch.tensor([[1, 1, 6], [2, 0, 0]] * 3), torch.tensor([5, 4] * 3), torch.tensor([3, 1] * 3)
kinds_of_logits = pytest.mark.parametrize("dtype, layout, normalise", [
    (torch.float32, "contiguous", True), (torch.bfloat16, "transposed", True), (torch.float64, "transposed", False)])


def random(*shape, dtype=torch.float64, layout="contiguous"):
    """A leaf, the last axis last in memory or first."""
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    if layout == "transposed":
        numbers = numbers.movedim(-1, 0).contiguous().movedim(0, -1)
    return numbers.requires_grad_()


def check(name, *given):
    """An operator, and the one that is its backward pass."""
    opcheck(getattr(OPERATORS, name).default, given)
    result, *states = getattr(OPERATORS, name)(*given)
    assert result.requires_grad and not any(state.requires_grad for state in states)
    constants = tree_map_only(torch.Tensor, torch.Tensor.detach, given)
    opcheck(getattr(OPERATORS, f"{name}_backward").default, (torch.ones_like(result), *constants, *states))


def check_losses(name, dtype, layout, normalise):
    rows, options = ((), ()) if name.startswith("ctc") else ((U + 1,), (0.5, 0.1 if normalise else None))
    check(name, random(B, T, *rows, V, dtype=dtype, layout=layout), *INTEGERS, 0, normalise, *options)


@kinds_of_logits
@pytest.mark.parametrize("name", ["ctc_numpy", "rnnt_numpy", "rnnt_field"])
def test_losses(name, dtype, layout, normalise):
    check_losses(name, dtype, layout, normalise)


@needs_triton
@pytest.mark.slow
@kinds_of_logits
@every_kind
def test_kernels(kind, dtype, layout, normalise, monkeypatch):
    """In memory of zeros: what nobody wrote and nobody reads would be compared, too."""
    from reference_impl.torch_impl import triton_backend

    class Torch:
        empty = staticmethod(torch.zeros)

        def __getattr__(self, name):
            return getattr(torch, name)

    monkeypatch.setattr(triton_backend, "torch", Torch())
    check_losses(f"{kind}_triton", dtype, layout, normalise)


@kinds_of_logits
def test_gather(dtype, layout, normalise):
    index, used = torch.randint(0, V, (B, T, U, 2)), torch.rand(B, T, U, 2) > 0.2
    check("gather_log_probs", random(B, T, U, V, dtype=dtype, layout=layout), index, used, normalise)


@pytest.mark.parametrize("steps", [((1, 0), (0, 1)), ((1, 0), (1, 1), (2, 2))], ids=["skewed", "by frames"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_grid(steps, dtype):
    nodes, final = torch.ones(B, T, U, dtype=torch.bool), torch.tensor([[False, True, True], [True, False, False]] * 3)
    check("grid_losses", [random(B, T, U) for _ in steps], *map(list, zip(*steps, strict=True)), nodes,
          INTEGERS[1], final, torch.ones(B, dtype=torch.bool), dtype, True)


def test_checked():
    opcheck(OPERATORS.checked.default, ("check_batch_values", list(INTEGERS), [T, V, 0, 1]))

"""What all tests share: one thread for torch, a reproducible hypothesis. Fixtures of one subject live in its file."""

import hypothesis
import matplotlib
import pytest
import torch
from implementations import TORCH_VARIANTS, TRITON_DEVICE

from reference_impl.torch_impl import losses

matplotlib.use("Agg")
torch.set_num_threads(1)

# the same examples on every machine, and no deadline: a slow machine is not a wrong result
hypothesis.settings.register_profile("book", deadline=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("book")


def pytest_addoption(parser):
    parser.addoption("--write-table", action="store_true", help="write data/variants.json")


def pytest_collection_modifyitems(items):
    """There are kernels for CTC and RNN-T only."""
    def runs(item):
        parameters = getattr(item, "callspec", None) and item.callspec.params
        return not (parameters and parameters.get("kind") in TORCH_VARIANTS and parameters.get("device") == "triton")
    items[:] = filter(runs, items)


@pytest.fixture
def device(request, monkeypatch):
    """Where a test's tensors go; ``backend="auto"`` is the kernels for "triton", tensor operations for the others."""
    monkeypatch.setattr(losses, "_auto", lambda _: "triton" if request.param == "triton" else "torch")
    return TRITON_DEVICE if request.param == "triton" else request.param

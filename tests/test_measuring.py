"""Stored results are found and described; bytes and passes are counted as they can be counted by hand."""

import json

import pytest
import torch
from implementations import TRITON_DEVICE, needs_triton

from reference_impl.measuring.kernel_bytes import moved_bytes, of_the_lattice
from reference_impl.measuring.kernel_shapes import lattice_bytes, logits_bytes
from reference_impl.measuring.results import newest, row, stamp
from reference_impl.measuring.torch_passes import Passes, gradient_and_memory, memory_of
from reference_impl.torch_impl import ctc_loss, rnnt_loss

interpreted = [needs_triton, pytest.mark.skipif(TRITON_DEVICE == "cuda", reason="kernels are compiled here")]


def test_newest(tmp_path):
    assert newest("cuda", tmp_path) is None
    for name, date in (("cuda", "2026-02-01"), ("cuda-a100", "2026-03-01"), ("cudagraphs", "2026-04-01")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"date": date, "name": name}))
    assert newest("cuda", tmp_path)["name"] == "cuda-a100"
    ended_before_its_first_row = {"date": "2026-05-01", "rows": []}
    (tmp_path / "cuda-b200.json").write_text(json.dumps(ended_before_its_first_row))
    assert newest("cuda", tmp_path)["name"] == "cuda-a100"
    assert newest("cpu", tmp_path) is None


def test_stamp_of_the_benchmarks():
    """The three forms in which benchmarks say where they ran."""
    assert stamp({"date": "2026-01-31", "versions": {"triton": "3.9.0"}}) == "measured 2026-01-31; triton 3.9.0"
    assert stamp({"date": "2026-01-31", "device": "a GPU", "python": "3.12.1", "versions": {"torch": "2.13.0"}}) == (
        "measured 2026-01-31 on a GPU; python 3.12.1, torch 2.13.0")
    unfinished = {"date": "2026-01-31", "versions": {"triton": "3.9.0"}, "complete": False}
    assert stamp(unfinished) == "measured 2026-01-31; triton 3.9.0; unfinished"
    assert "on arm64, 8 cores;" in stamp({"date": "2026-01-31", "machine": {"architecture": "arm64", "cores": 8},
                                          "versions": {"numpy": "2.4.6"}})


def test_row():
    result = {"rows": [{"loss": "ctc", "shape": {"B": 1}, "median": 1.0}, {"loss": "ctc", "shape": {"B": 2}}]}
    assert row(result, loss="ctc")["median"] == 1.0
    assert row(result, loss="ctc", shape={"B": 2}) is result["rows"][1]
    assert row(result, loss="rnnt") is row(result, loss="ctc", median=2.0) is None


def step(kind, shape, **options):
    torch.manual_seed(0)
    B, T, U, V = shape
    leaf = torch.randn((B, T, V) if kind == "ctc" else (B, T, U + 1, V), requires_grad=True)
    targets = torch.arange(1, U + 1).expand(B, U)  # no repeats: an alignment exists
    with moved_bytes() as moved:
        loss = {"ctc": ctc_loss, "rnnt": rnnt_loss}[kind](
            leaf * 1.0, targets, torch.full((B,), T), torch.full((B,), U), backend="triton", **options)
        loss.backward()
    return leaf.nbytes, moved


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=interpreted) for kind in ("ctc", "rnnt")])
@pytest.mark.parametrize("V", [8, 75])  # 75: the body of a row and its edges
def test_logits_are_read_twice_and_the_gradient_is_written_once(kind, V):
    size, moved = step(kind, (2, 6, 3, V))
    assert {key: count for key, count in moved.items() if key[1] in ("logits", "grad")} == {
        (f"{kind}_rows", "logits", "read"): size, (f"{kind}_gradient", "logits", "read"): size,
        (f"{kind}_gradient", "grad", "write"): size}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=interpreted) for kind in ("ctc", "rnnt")])
@pytest.mark.parametrize("B, T, U, V", [(1, 3, 1, 3), (2, 9, 4, 10), (1, 5, 0, 2)])
def test_shapes_say_what_is_moved(kind, B, T, U, V):
    """Kernel by kernel, where the equations of the chapter have the sum."""
    size, moved = step(kind, (B, T, U, V))
    assert size == logits_bytes(kind, B, T, U, V, 4)
    assert of_the_lattice(moved) == {kernel: B * count for kernel, count in lattice_bytes(kind, T, U).items()}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=interpreted) for kind in ("ctc", "rnnt")])
def test_memory_that_is_shared_counts_as_the_first_array(kind):
    size, moved = step(kind, (2, 6, 3, 8), overwrite_logits=True)
    assert moved[f"{kind}_gradient", "logits", "write"] == size
    assert not any(array == "grad" for _, array, _ in moved)


@pytest.mark.parametrize("_", [pytest.param(0, marks=interpreted)])
def test_nothing_is_counted_afterwards(_):
    _, moved = step("rnnt", (1, 3, 1, 4))
    before = dict(moved)
    rnnt_loss(torch.zeros(1, 3, 2, 4), torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]), backend="triton")
    assert before == moved
    assert moved["rnnt_forward", "blank_m", "read"] == 4 * (2 * 2 + 1)  # float32: two frames of two, and the last blank


def test_without_an_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(RuntimeError, match="Triton's interpreter"), moved_bytes():
        pass


def test_passes():
    x = torch.randn(4, 100, requires_grad=True)
    with Passes(x.nbytes) as passes:
        torch.log_softmax(x, -1).sum().backward()
    assert passes.steps == [("_log_softmax", 1, 1), ("sum", 1, 0), ("_log_softmax_backward_data", 1, 1)]
    with Passes(x.nbytes) as passes:
        y = torch.zeros(4, 100)  # torch makes it with one operation
        y.view(100, 4).t().add_(1.0)
        torch.empty(4, 100).fill_(0.0)
        y.gather(1, torch.zeros(4, 1, dtype=torch.int64))
        torch.stack([y, y])
    assert passes.steps == [("zeros", 0, 1), ("add_", 1, 1), ("fill_", 0, 1), ("stack", 2, 2)]
    assert passes.total == 8
    assert passes.allocated == x.nbytes


def test_memory():
    """Of a product that is written into a new array: both factors are kept, unless they were given."""
    x, factor = torch.ones(1000, requires_grad=True), torch.ones(1000)

    def loss():
        return torch.mul(x.exp(), factor) + torch.empty(10).fill_(0.0).sum()

    assert memory_of(loss, x) == {"forward": 40, "kept": 4000 + 4000, "backward": 8000}
    assert memory_of(loss, x, [factor]) == {"forward": 40, "kept": 4000, "backward": 4000}


def test_memory_on_the_way_to_a_gradient():
    """By hand: what is kept, what a step hands to the next, and the gradient; shared memory once, the scores never."""
    x, factor = torch.full((1000,), 0.5, requires_grad=True), torch.full((1000,), 3.0)
    gradient, memory = gradient_and_memory(lambda x: (x * factor).sum(), x, x)
    assert (gradient == factor).all()
    assert memory == 4000 + 4 + 4000  # the factor; the 1.0 that all entries of the sum share; the gradient
    gradient, memory = gradient_and_memory(lambda x: (factor * x.exp()).sum(), x, x)
    assert torch.equal(gradient, factor * x.exp())
    assert memory == 4000 + 4000 + 4 + 4000 + 4000  # the factor, exp x; 1.0, the gradient of exp x; that of x
    scores = 2.0 * x
    gradient, memory = gradient_and_memory(lambda y: y.square().sum(), scores, x)
    assert (gradient == 8.0 * x).all()
    assert memory == 4 + 4000 + 4000  # 1.0, the gradient of the scores, that of x; the square keeps the scores

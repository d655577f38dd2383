"""Predicted memory and time against measurement, and the run on paper against arithmetic done by hand.

Memory of the NumPy backend is what ``tracemalloc`` sees; of the kernels what is asked of ``torch.empty``, with kernels
that do nothing; of tensor operations, and in half precision, what a process takes.
"""

import json
import math
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from implementations import needs_triton

from reference_impl.measuring.torch_passes import memory_of
from reference_impl.scaling import (
    Assumptions,
    Speeds,
    fitted_speeds,
    measured_memory,
    memory_of_loss,
    predict,
    seconds_of_loss,
)
from reference_impl.torch_impl import ctc_loss, rnnt_loss

ROOT = Path(__file__).parents[1]
SHAPES = [("ctc", (4, 300, 30, 2000)), ("ctc", (16, 500, 60, 32)), ("rnnt", (4, 150, 30, 200)),
          ("rnnt", (16, 150, 40, 28)), ("rnnt", (1, 400, 80, 50))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss, shape", SHAPES)
def test_memory_of_the_numpy_backend(loss, shape, dtype):
    """Within a tenth, for logits of some megabytes: what is left out does not grow with them."""
    said, found = memory_of_loss(loss, *shape, dtype=dtype), measured_memory(loss, *shape, dtype=dtype)
    assert said.logits == torch.empty(0, dtype=getattr(torch, dtype)).element_size() * math.prod(
        (shape[0], shape[1], *([shape[2] + 1] if loss == "rnnt" else []), shape[3]))
    for name, count in found.items():
        assert 0.9 < count / getattr(said, name) < 1.1, (name, count, said)
    assert said.peak == max(said.forward, said.backward)


@pytest.mark.parametrize("loss, shape", SHAPES)
def test_memory_without_room_for_a_gradient(loss, shape):
    """Within a factor of two: the logits have no part in it any more, and what is left out shows."""
    said = memory_of_loss(loss, *shape, overwrite_logits=True)
    found = measured_memory(loss, *shape, overwrite_logits=True)
    assert all(0.5 < count / getattr(said, name) < 2 for name, count in found.items()), (found, said)
    assert said.peak < memory_of_loss(loss, *shape).peak - 0.9 * said.logits


class NoKernel:
    """Launched like a kernel of Triton, and does nothing."""

    def __getitem__(self, grid):
        return lambda *arguments, **options: None


@needs_triton
@pytest.mark.parametrize("overwrite_logits", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("loss, shape", [("ctc", (3, 20, 4, 30)), ("rnnt", (3, 20, 4, 30)), ("rnnt", (1, 3, 0, 5)),
                                         ("ctc", (1, 7, 0, 5))])
def test_memory_of_the_kernels(monkeypatch, loss, shape, dtype, overwrite_logits):
    """To the byte."""
    from reference_impl.torch_impl import losses, triton_backend

    monkeypatch.setattr(losses, "_backend", lambda *_: triton_backend)
    for module in (triton_backend.triton_vocabulary, triton_backend.triton_lattice):
        for name in ("ctc_rows", "ctc_gradient", "ctc_forward", "ctc_backward", "rnnt_rows", "rnnt_gradient",
                     "rnnt_forward", "rnnt_backward"):
            monkeypatch.setattr(module, name, NoKernel(), raising=False)
    B, T, U, V = shape
    logits = torch.zeros((B, T, V) if loss == "ctc" else (B, T, U + 1, V), dtype=getattr(torch, dtype))
    arguments = torch.ones(B, U, dtype=torch.int64), torch.full((B,), T), torch.full((B,), U)
    leaf = logits.requires_grad_()
    given = leaf * 1
    function = {"ctc": ctc_loss, "rnnt": rnnt_loss}[loss]
    found = memory_of(lambda: function(given, *arguments, reduction="none", overwrite_logits=overwrite_logits),
                      leaf, [given, *arguments])
    said = memory_of_loss(loss, *shape, dtype=dtype, backend="triton", overwrite_logits=overwrite_logits)
    assert (found["forward"], found["backward"]) == (said.forward, said.backward)
    assert found["kept"] == said.kept


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not tell a process's peak")
@pytest.mark.parametrize("loss, shape, dtype, backend, factor", [
    ("ctc", (4, 400, 40, 4000), "float32", "tensor", 1.1), ("rnnt", (4, 150, 40, 1000), "float32", "tensor", 1.1),
    ("ctc", (8, 800, 100, 50), "float32", "tensor", 1.1), ("rnnt", (4, 150, 40, 1000), "bfloat16", "tensor", 1.1),
    ("rnnt", (4, 150, 40, 500), "float64", "tensor", 1.1), ("rnnt", (4, 300, 60, 500), "float32", "numpy", 1.1),
    ("rnnt", (4, 300, 60, 1000), "bfloat16", "numpy", 1.5), ("ctc", (4, 1500, 100, 10000), "bfloat16", "numpy", 1.5),
])
def test_memory_of_a_process(loss, shape, dtype, backend, factor):
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "scaling.py", "--worker", "memory", loss, *map(str, shape), dtype,
         backend], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    said = memory_of_loss(loss, *shape, dtype=dtype, backend=backend).peak
    assert 1 / factor < found / said < factor


def measured_times():
    """Times of this package's torch losses on one CPU core, as stored: the same code, whatever its date."""
    rows = json.loads((ROOT / "data" / "cpu.json").read_text())["rows"]
    return [(row["loss"], tuple(row["shape"][name] for name in "BTUV"), row["median"]) for row in rows
            if row["contender"] == "tensor ops" and row["state"] == "default"]


def test_times_of_shapes_that_were_not_looked_at():
    """Each stored shape, both losses together, predicted from the others: within a factor of 1.5."""
    rows = measured_times()
    assert {row[0] for row in rows} == {"ctc", "rnnt"} and len(rows) == 7
    for i, (loss, shape, seconds) in enumerate(rows):
        speeds = fitted_speeds(rows[:i] + rows[i + 1:])
        assert 1 / 1.5 < seconds_of_loss(loss, *shape, speeds=speeds) / seconds < 1.5, (loss, shape)


@pytest.mark.parametrize("left_out", ["logit", "lane", "step", "call"])
def test_every_speed_is_needed(left_out):
    """Without it some stored time would be missed by more."""
    rows = measured_times()
    speeds = replace(fitted_speeds(rows), **{left_out: 0.0})
    errors = [abs(math.log(seconds_of_loss(loss, *shape, speeds=speeds) / seconds)) for loss, shape, seconds in rows]
    assert max(errors) > math.log(1.5)


def test_a_speed_that_is_zero_is_found_as_zero():
    true = Speeds(2e-9, 1e-8, 0.0, 1e-3)
    rows = [(loss, shape, seconds_of_loss(loss, *shape, speeds=true)) for loss, shape, _ in measured_times()]
    found = fitted_speeds(rows)
    for each in fields(Speeds):
        assert getattr(found, each.name) == pytest.approx(getattr(true, each.name), rel=1e-9, abs=1e-15)


# --- on paper ---


SIMPLE = Assumptions(
    loss="rnnt", hours=1.0, epochs=2.0, utterance_seconds=1.0, frames_per_second=10.0, stride=1, labels_per_second=1.0,
    num_symbols=8, padding=0.0, idle=0.5, gpus=2, batch_seconds=10.0, parameters=1e6, width=4, flops=1e9,
    flops_share=0.5, flops_per_use=6.0, bandwidth=1e6, bandwidth_share=0.25, sweep_step=1e-3, exchange=1e6,
    overlap=0.75, overhead=0.25, logit_dtype="float32", gradient_bytes=4.0, bytes_per_parameter=16.0,
    activations_per_frame=100.0, memory=1e9)


def test_a_run_by_hand():
    """B, T, U, V = 10, 10, 1, 8: each number written down from its meaning."""
    found = predict(SIMPLE)
    assert found.shape == (10, 10, 1, 8) and found.steps == 180
    lattice = 10 * (8 * 20 + 8 * (20 + 10) + 8 * (9 * 2 + 1 + 10) + 8 * 20 + 8 * 20 + 4 * (20 + 2) + 4 * 10
                    + 12 * 20 + 4 * 10)  # T + U - 1 = 10 diagonals of two lanes
    right = {"encoder": 6 * 100 * 1e6 / 5e8, "joiner": 6 * 200 * 4 * 8 / 5e8, "logits": 3 * 6400 / 250e3,
             "lattice": lattice / 250e3 + 2 * 11 * 1e-3, "exchange": 0.25 * 4e6 / 1e6, "overhead": 0.25}
    right["idle"] = sum(right.values())  # half of the time is idle
    assert found.seconds == pytest.approx(right)
    nodes = 10 * 11 * 2
    assert found.bytes == pytest.approx({
        "parameters": 16e6, "activations": 1e4, "joiner": 2 * 200 * 4 * 4, "logits": 6400,
        "loss": 24 * nodes + 80 + 6400})
    assert found.hours == pytest.approx(2 * 180 * sum(right.values()) / 3600)
    assert found.fits and not predict(replace(SIMPLE, memory=1e7)).fits


@pytest.mark.parametrize("name", [each.name for each in fields(Assumptions)])
def test_every_assumption_matters(name):
    value = getattr(SIMPLE, name)
    other = {"loss": "ctc", "logit_dtype": "bfloat16"}.get(name)
    if other is None:
        other = 0.9 if name in ("padding", "idle", "flops_share", "bandwidth_share", "overlap") else 3 * value
    before, after = predict(SIMPLE), predict(replace(SIMPLE, **{name: other}))
    assert (before.shape, before.steps, before.seconds, before.bytes, before.hours, before.fits) != (
        after.shape, after.steps, after.seconds, after.bytes, after.hours, after.fits) or name == "memory"
    assert str(before) != str(after)


@pytest.mark.parametrize("loss", ["ctc", "rnnt"])
def test_every_line_says_that_it_is_predicted(loss):
    text = str(predict(Assumptions(loss=loss)))
    assert len(text.splitlines()) == 15 and all(line.startswith("predicted: ") for line in text.splitlines())
    assert "measured" not in text


@pytest.mark.parametrize("call, says", [
    (lambda: memory_of_loss("hmm", 1, 1, 1, 2), "loss = 'hmm'; expected one of 'ctc', 'rnnt'"),
    (lambda: memory_of_loss("ctc", 0, 1, 1, 2), "B = 0; expected B >= 1"),
    (lambda: memory_of_loss("ctc", 1, 1, -1, 2), "U = -1; expected U >= 0"),
    (lambda: memory_of_loss("ctc", 1, 1, 1, 2, dtype="int8"), "dtype = 'int8'; expected one of 'float16', 'bfloat16'"),
    (lambda: memory_of_loss("ctc", 1, 1, 1, 2, backend="jax"), "backend = 'jax'; expected one of 'numpy', 'triton'"),
    (lambda: measured_memory("ctc", 1, 1, 1, 2, dtype="bfloat16"), "dtype = 'bfloat16'; expected one of 'float32'"),
    (lambda: fitted_speeds([("ctc", (1, 1, 1, 2), 1.0)]), "rows has 1 entries; expected four at least"),
    (lambda: predict(replace(SIMPLE, gpus=0)), "gpus = 0; expected gpus >= 1"),
    (lambda: predict(replace(SIMPLE, idle=1.0)), "idle = 1.0; expected 0 <= share < 1"),
    (lambda: predict(replace(SIMPLE, flops_share=2.0)), "flops_share = 2.0; expected 0 < share <= 1"),
    (lambda: predict(replace(SIMPLE, hours=-1.0)), "hours = -1.0; expected a number > 0"),
    (lambda: predict(replace(SIMPLE, loss="hmm")), "loss = 'hmm'; expected one of 'ctc', 'rnnt'"),
])
def test_messages(call, says):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert str(caught.value).startswith(says)

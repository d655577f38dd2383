"""The kernels as the compiler makes them, executed without a GPU: numbers, every order of warps, faults, accesses.

What Triton's interpreter cannot see. The machine itself is tested in test_ptx_*.py; edges and values, with the other
implementations, in test_edges.py and test_values.py.
"""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from compiled_kernels import needs_compiler, on_the_machine, step
from implementations import every_kind

from ptx_machine import SHARED_MEMORY, compiling
from ptx_machine.triton_launches import buffer_of

triton_backend = pytest.importorskip("reference_impl.torch_impl.triton_backend", reason="triton is not installed")
tl, triton_vocabulary = triton_backend.tl, triton_backend.triton_vocabulary

pytestmark = needs_compiler
slow, exhaustive = pytest.mark.slow, pytest.mark.exhaustive

HALF = [torch.float16, torch.bfloat16]
# an addition to the mass of a row of V float32 exponentials may round off up to V times 6e-8, log V times is usual
TOLERANCE = {torch.float16: 2**-9, torch.bfloat16: 2**-6, torch.float32: 2e-6, torch.float64: 1e-12}


def batch(kind, V, dtype, T=4, U=3, B=2, seed=0):
    """Utterances that get shorter both ways; labels of one target differ where there are enough symbols."""
    generator = torch.Generator().manual_seed(seed)
    shape = (B, T, V) if kind == "ctc" else (B, T, U + 1, V)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.stack([torch.randperm(max(V - 1, U), generator=generator)[:U] % max(V - 1, 1) + 1
                           for _ in range(B)]) if B else torch.zeros(0, U, dtype=torch.int64)
    return scores, targets, [T - b for b in range(B)], [max(U - b, 0) for b in range(B)]


def assert_close(actual, expected, dtype):
    (losses, gradient), (expected_losses, expected_gradient) = actual, expected
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(losses, expected_losses, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(gradient, expected_gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("overwrite", [False, pytest.param(True, marks=exhaustive)], ids=["", "overwrite"])
@pytest.mark.parametrize(("dtype", "V"), [
    (torch.bfloat16, 1025), (torch.float32, 500),
    *(pytest.param(dtype, V, marks=slow if V in (29, 1025) else exhaustive)
      for dtype in TOLERANCE for V in (2, 29, 64, 130, 1000, 1024, 1025)
      if (dtype, V) not in ((torch.bfloat16, 1025), (torch.float32, 500))),
    pytest.param(torch.float64, 2051, marks=slow), pytest.param(torch.bfloat16, 16500, marks=slow)], ids=str)
@every_kind
def test_vocabularies(kind, dtype, V, overwrite):
    """Rows that are aligned or not, of less than an access or several tiles: as by tensor operations, for any order.

    Warps and blocks in three orders, approximations as good as can be and off by all that is allowed: the orders agree
    in every bit.
    """
    arguments = batch(kind, V, dtype, *((2, 1) if V > 1025 else (4, 3)))
    expected = step(kind, *arguments, backend="torch")
    results = []
    for options in ({}, {"order": 0}, {"order": 1}):
        with on_the_machine(**options):
            results.append(step(kind, *arguments, overwrite_logits=overwrite))
        assert_close(results[-1], expected, dtype)
        assert all(map(torch.equal, results[-1], results[0]))
    with on_the_machine(order=2, blur=2):
        assert_close(step(kind, *arguments, overwrite_logits=overwrite), expected, dtype)


@pytest.mark.parametrize(("dtype", "U"), [
    (torch.float32, 1),
    *(pytest.param(torch.float32, U, marks=slow if U < 100 else exhaustive) for U in (0, 31, 32, 63, 70, 130, 200)),
    *(pytest.param(torch.float64, U, marks=slow if U in (1, 63) else exhaustive)
      for U in (0, 1, 31, 32, 63, 70, 130, 200))], ids=str)
@every_kind
def test_targets(kind, U, dtype):
    """Lattices of one warp and of several."""
    arguments = batch(kind, 5 if kind == "rnnt" else U + 2, dtype, 3 if kind == "rnnt" else U + 3, U)
    expected = step(kind, *arguments, backend="torch")
    assert expected[0].isfinite().all()
    for order in (None, 0) if U < 100 else (0,):
        with on_the_machine(order=order):
            assert_close(step(kind, *arguments), expected, dtype)


def launched_with(warps, monkeypatch):
    """Kernels of a lattice have so many warps from now on; the others, too, but 8 at most."""
    for name in ("_lattice_options", "_several_rows", "_frame_options"):
        usual = getattr(triton_backend, name)

        def with_warps(*arguments, usual=usual):
            options = usual(*arguments)
            return {**options, "num_warps": min(warps, 32 if "STAGES" in options else 8)}
        monkeypatch.setattr(triton_backend, name, with_warps)


WARPS = [2, *(pytest.param(warps, marks=slow) for warps in (1, 4, 8, 16, 32))]


@pytest.mark.parametrize("warps", WARPS)
@every_kind
def test_numbers_of_warps(kind, warps, monkeypatch):
    """More warps than the launch would choose, or less: lanes are shared out otherwise, or copied."""
    launched_with(warps, monkeypatch)
    arguments = batch(kind, 133, torch.float32, *((2, 34) if kind == "rnnt" else (36, 34)))
    expected = step(kind, *arguments, backend="torch")
    for order in (None, 0):
        with on_the_machine(order=order) as machine:
            assert_close(step(kind, *arguments, overwrite_logits=True), expected, torch.float32)
        assert {report.warps for report in machine.reports} == {warps, min(warps, 8)}


@pytest.mark.parametrize("warps", [pytest.param(warps, marks=slow if warps == 4 else exhaustive)
                                   for warps in (1, 2, 4, 8, 16, 32)])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@every_kind
def test_every_type_with_every_number_of_warps(kind, dtype, warps, monkeypatch):
    """Rows with edges and without, gradients in memory of their own and over the logits."""
    launched_with(warps, monkeypatch)
    for V in (64, 67):
        arguments = batch(kind, V, dtype, 3, 2)
        expected = step(kind, *arguments, backend="torch")
        for overwrite in (False, True):
            with on_the_machine(order=warps):
                assert_close(step(kind, *arguments, overwrite_logits=overwrite), expected, dtype)


@pytest.mark.parametrize("label", [0, -1, 5, 2**31 - 1])
@every_kind
def test_bad_labels(kind, label):
    """Nothing is read where they point to; the loss of their utterance is NaN, and the other one is as ever."""
    scores, targets, *lengths = batch(kind, 5, torch.float32)
    expected = step(kind, scores, targets, *lengths, backend="torch")
    targets[1, 0] = label
    with on_the_machine(order=0):
        losses, gradient = step(kind, scores, targets, *lengths, validate=False)
    assert losses[1].isnan() and not gradient[1].nan_to_num().any()
    assert_close((losses[:1], gradient[:1]), (expected[0][:1], expected[1][:1]), torch.float32)


@pytest.mark.parametrize("options", [{"fastemit_lambda": 0.01, "clamp": 0.2}, {"inputs": "log_probs"}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, *(pytest.param(dtype, marks=slow) for dtype in
                                                    (torch.float16, torch.bfloat16, torch.float64))])
@every_kind
def test_options(kind, dtype, options):
    if kind == "ctc" and "clamp" in options:
        options = {"inputs": "log_probs"}
    arguments = batch(kind, 37, dtype)
    with on_the_machine(order=0):
        assert_close(step(kind, *arguments, **options), step(kind, *arguments, backend="torch", **options), dtype)


@pytest.mark.parametrize("capability", [pytest.param(80, marks=slow), 86, pytest.param(100, marks=slow)])
@every_kind
def test_other_gpus(kind, capability):
    """What is compiled for other GPUs is other code, with other instructions."""
    arguments = batch(kind, 133, torch.bfloat16, 4, 40 if kind == "rnnt" else 2)
    with on_the_machine(capability=capability, order=0):
        assert_close(step(kind, *arguments), step(kind, *arguments, backend="torch"), torch.bfloat16)


# defects that were found by executing the kernels; each test failed before

@pytest.mark.parametrize(("kind", "dtype", "V"), [
    ("rnnt", torch.bfloat16, 1000), ("rnnt", torch.float32, 500), ("ctc", torch.bfloat16, 5000),
    *(pytest.param(*case, marks=slow) for case in (("rnnt", torch.float64, 501), ("ctc", torch.float16, 1025)))],
    ids=str)
def test_rows_move_16_bytes_at_a_time(kind, dtype, V):
    """A V that is a multiple of 8 and not of 16, too, whose rows are aligned though Triton does not see it.

    Of the bytes of logits and gradient 3 in 100 at most move otherwise: at the edges of odd rows.
    """
    arguments = batch(kind, V, dtype, 3, 1, B=1)
    with on_the_machine() as machine:
        step(kind, *arguments)
    rows, gradient = machine.reports[0].counts, machine.reports[-1].counts
    for counts, opcode in ((rows, "ld.global"), (gradient, "ld.global"), (gradient, "st.global")):
        widths = counts.widths(opcode)
        assert 16 * widths.get(16, 0) > 0.97 * arguments[0].nbytes, (opcode, widths)


def nothing(program):
    """Instead of a program, for tests of its launch alone."""
    return replace(program, instructions=program.instructions[-1:], labels={})


@pytest.mark.parametrize("capability", [90, pytest.param(86, marks=slow)])
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=slow)])
@pytest.mark.parametrize(("kind", "U"), [("ctc", 2047), *(pytest.param(kind, U, marks=slow) for kind, U in (
    ("ctc", 1023), ("ctc", 4095), ("ctc", 8191), ("rnnt", 1023))),
    *(pytest.param("rnnt", U, marks=exhaustive) for U in (2047, 4095))])
def test_shared_memory_is_enough(kind, U, dtype, capability):
    """Steps are read ahead as far as the device has shared memory; the machine refuses what a device would refuse."""
    scores, targets, _, _ = batch(kind, 3, dtype, 1, U, B=1)
    with on_the_machine(capability=capability, changed=nothing) as machine:
        step(kind, scores, targets, [1], [0])
    limit = SHARED_MEMORY[f"sm_{capability}"]
    assert all(report.shared_bytes <= limit for report in machine.reports)
    assert max(report.shared_bytes for report in machine.reports) > limit / 8


def test_more_labels_than_shared_memory_holds():
    """An error that says so, before anything is launched."""
    scores, targets, _, _ = batch("ctc", 3, torch.float32, 1, 20000, B=1)
    message = "targets has 20000 columns; expected less than 8192 with backend = 'triton'"
    with on_the_machine(capability=86) as machine, pytest.raises(ValueError, match=message):
        step("ctc", scores, targets, [1], [0])
    assert not machine.reports


@pytest.mark.parametrize("U", [800, *(pytest.param(U, marks=slow) for U in (767, 768, 1023, 1024, 1300, 1535, 1800))])
def test_a_power_of_two_of_warps(U):
    """CTC with 768 to 1023 labels asked for 3 warps, which Triton refuses."""
    scores, targets, _, _ = batch("ctc", 3, torch.float32, 1, U, B=1)
    with on_the_machine(changed=nothing) as machine:
        step("ctc", scores, targets, [1], [0])
    assert {report.warps for report in machine.reports} <= {1, 2, 4, 8, 16, 32}


def test_strides_beyond_2_to_the_31():
    """The blank times its stride wrapped around in 32 bits, to an address before the logits.

    Only the first symbol is in memory. So the machine reports the others, and says where it looked for them.
    """
    stride = 2**30
    lengths, weights = torch.tensor([1]), [torch.zeros(1, dtype=dtype) for dtype in 2 * (torch.float32, torch.int32)]
    with on_the_machine(faults=True) as machine:
        triton_vocabulary.ctc_rows[1, 1](
            torch.zeros(1), 4, 4, stride, torch.tensor([[2]]), lengths, lengths, 3, 1, 1, 4, None, None, *weights,
            CHUNKS=1, BLOCK=32, LABELS=1, VECTOR=4, EDGES=False, NORMALISE=False, COMPUTE=tl.float32, num_warps=1)
        report, = machine.reports
    of_blank, of_label = (re.match(r"(\d+) bytes past the end", found.where) for found in report.findings.values())
    assert int(of_blank[1]) - int(of_label[1]) == 4 * stride


def test_a_schedule_compiles_nothing_anew():
    """FastEmit's lambda and the clamp change from step to step."""
    arguments, compiled = batch("rnnt", 5, torch.float32), []
    for options in ({"fastemit_lambda": 0.01, "clamp": 0.3}, {"fastemit_lambda": 0.02, "clamp": 0.2}):
        with on_the_machine(changed=nothing):
            step("rnnt", *arguments, **options)
        compiled.append(compiling._asked.cache_info().misses)
    assert compiled[0] == compiled[1]


# launches on the machine

def test_where_triton_compiles():
    """As it does on a computer with a GPU. Its kernels are other objects there, which the machine could not launch."""
    script = """
import sys; sys.path.insert(0, "tests")
import torch
from compiled_kernels import on_the_machine, step
from reference_impl.torch_impl.triton_backend import INTERPRETED
with on_the_machine() as machine:
    losses, _ = step("rnnt", torch.zeros(1, 2, 2, 2), [[1]], [2], [1])
print(losses.neg().exp().item(), len(machine.reports), INTERPRETED)"""
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[1], capture_output=True,
                          text=True, env={**os.environ, "TRITON_INTERPRET": "0"})
    assert done.stdout == "0.25 4 False\n", done.stderr


def test_only_its_own_elements_of_a_view_exist():
    """A kernel that touches what lies between them, before them or after them is out of bounds."""
    storage = torch.arange(40, dtype=torch.int16)
    view = storage[5:37].view(4, 8)[:, 1:6:2]
    buffer = buffer_of("view", view)
    assert np.flatnonzero(buffer.exists).tolist() == [byte for index in view.flatten().tolist()
                                                      for byte in (2 * index, 2 * index + 1)]
    assert buffer.offset == 12 and len(buffer.data) == 80
    assert not buffer_of("nothing", view[:0]).exists.any()
    assert buffer_of("one", storage[3].expand(5)).exists.nonzero()[0].tolist() == [6, 7]


def test_empty_memory_is_not_written():
    """What torch.empty gives, until somebody writes it; of what is written, only an accident looks like it."""
    from ptx_machine.triton_launches import TritonLaunches

    with TritonLaunches().replacing(triton_vocabulary):
        empty = [torch.empty(5), torch.empty_like(torch.zeros(2, 3)), torch.zeros(1).new_empty(7, dtype=torch.float64)]
        half = torch.empty(4)
        half[1:3] = 0.5
    assert all(not buffer_of("x", each).written.any() for each in empty)
    assert np.flatnonzero(buffer_of("half", half).written).tolist() == list(range(4, 12))
    assert buffer_of("zeros", torch.zeros(3)).written is True
    assert "<locals>" not in torch.empty.__qualname__

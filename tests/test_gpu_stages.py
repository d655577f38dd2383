"""`benchmarks/gpu.py`: its arguments, its status, its targets, and a rehearsal of the stages that measure.

There is no CUDA device here, so what runs is the code around the kernels, and the kernels in Triton's interpreter.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from compiled_kernels import needs_compiler
from hanging import Hanging
from implementations import EXPLICIT, every_kind, needs_triton

from reference_impl import log_softmax

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def gpu(*arguments, **environment):
    return subprocess.run([sys.executable, ROOT / "benchmarks" / "gpu.py", *map(str, arguments)], capture_output=True,
                          text=True, env={**os.environ, **environment})


def test_no_device(tmp_path):
    """A message and a status of its own, no traceback, and no file."""
    done = gpu("times", "--folder", tmp_path / "data", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3
    assert done.stderr == "times: nothing was run: torch finds no CUDA device\n"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("arguments, said", [
    (["time"], "stage = time; expected one of correctness, memory, accuracy, times"),
    (["times", "accuracy", "--here"], "--here with stages = times, accuracy; expected one stage"),
    (["times", "--here", "--on", "tpu"], "--on = tpu; expected one of cuda, interpreter, ptx_machine")])
def test_wrong_arguments(arguments, said):
    done = gpu(*arguments)
    assert done.returncode == 2 and said in done.stderr


def test_a_stage_that_does_not_end_is_ended(monkeypatch, capfd, tmp_path):
    """With all that it started; what is left of the budget does not matter."""
    import gpu as command

    hanging = Hanging(tmp_path)
    script = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {hanging.program!r}])\n{hanging.program}"
    start = subprocess.Popen

    def started(_, **how):
        process = start([sys.executable, "-c", script], **how)
        hanging.wait()
        hanging.wait()
        return process

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(command, "SPARE", 0.5)
    options = SimpleNamespace(seconds=0.5, on="cuda", folder=None, workers=None, fresh=False, only=[])
    assert command.apart("times", options) == 4
    assert "times: ended after 1 s" in capfd.readouterr().err
    assert hanging.all_ended()


def test_loading_torch_is_part_of_the_time(monkeypatch, tmp_path):
    """From a cold disk it takes a minute, and a stage that began to count after it would be ended before its end."""
    import gpu as command
    from gpu_stages import device

    given = []
    stage = SimpleNamespace(run=lambda where, folder, options: given.append(options.seconds) or 0)
    monkeypatch.setattr(device.Device, "absent", lambda self: "")
    monkeypatch.setattr(command.importlib, "import_module", lambda name: stage)
    for began in (100.0, 1000.0):
        monkeypatch.setattr(command, "BEGAN", command.time.monotonic() - began)
        assert command.run("times", SimpleNamespace(seconds=420.0, on="cuda", folder=tmp_path)) == 0
    assert 0 < given[0] <= 320 and given[1] == 0


def test_rehearsals_are_no_results_of_a_gpu():
    from gpu_stages.device import DEVICES, chosen

    for name, device in DEVICES.items():
        if name != "cuda":
            described = device.described()
            assert described["rehearsal"] and described["device"].startswith("none: a rehearsal")
    with pytest.raises(ValueError, match="--on = tpu; expected one of cuda, interpreter, ptx_machine"):
        chosen("tpu")


def test_targets_of_the_times():
    """The floor and the peers of the run's own rows; what was not measured is no target missed."""
    pytest.importorskip("triton")
    from gpu_stages import times

    (kind, shape, dtype), ctc = times.RNNT, times.CTC
    here = {"loss": kind, "shape": dict(zip("BTUV", shape, strict=True)), "dtype": dtype}
    rows = [{**here, "dtype": "fp32", "contender": times.OURS, "times_the_floor": 9.0},
            {**here, "contender": times.OURS, "times_the_floor": 1.25},
            {**here, "contender": "torchaudio", "ratio_to_ours": 2.5}]
    floor, audio, torch = times.targets(rows)
    assert (floor["measured"], floor["met"]) == (1.25, True)
    assert (audio["measured"], audio["met"]) == (0.4, False)
    assert (torch["measured"], torch["met"]) == (None, None) and str(ctc[1]) in torch["target"]


@needs_triton
def test_rows_of_times():
    """Ratios are those of a round, so a machine that slows down between two rounds changes none."""
    from gpu_stages import times

    taken = {"triton": [[1.0, 1.0, 4.0], [10.0]], "peer": [[2.0], [20.0, 20.0]]}
    ours, peer = times._rows({"loss": "ctc"}, taken, [6.0, 6.0, 2.0], 4, {"triton": 8}, {"triton": 0.5})
    assert peer["ratios"] == [2.0, 2.0] and peer["ratio_to_ours"] == 2.0 and peer["runs"] == 3
    assert ours["floor"] == 3 * 4 / 6 and ours["times_the_floor"] == ours["median"] / 2
    assert ours["peak_bytes_over_logits"] == 2.0 and peer["peak_bytes_over_logits"] is None


@every_kind
@pytest.mark.parametrize("family", ["flat", "trained"])
def test_rows_of_accuracy(kind, family, monkeypatch):
    """The truth is that of the explicit recursions, on log-probs and on logits; a wrong sign, or NaN, is seen."""
    from gpu_stages import accuracy

    def explicit(_, scores, targets, inputs, device):
        module = EXPLICIT[kind]
        if inputs == "log_probs":
            return module.loss(scores, targets), module.grad_log_probs(scores, targets)
        return module.loss(log_softmax(scores), targets), module.grad_logits(scores, targets)

    def rows(compute):
        monkeypatch.setattr(accuracy, "by_kernels", lambda kind, scores, *a: compute(*explicit(kind, scores * 1.0, *a)))
        return [row for row in accuracy.rows(kind, family, 12, 4, "cpu") if row["method"] == accuracy.KERNELS]

    right = rows(lambda loss, gradient: (loss, gradient))
    assert [row["inputs"] for row in right] == ["log_probs", "logits"]
    assert all(row["gradient_error"] < 1e-6 and row["log_z_error"] < 1e-5 for row in right)
    assert all(row["gradient_error"] > 0.05 for row in rows(lambda loss, gradient: (loss, -gradient)))
    for row in rows(lambda loss, gradient: (np.nan, gradient * np.nan)):
        assert row["gradient_error"] == 1 and row["log_z_error"] is None


@needs_triton
@pytest.mark.parametrize("on", [pytest.param("interpreter", marks=pytest.mark.exhaustive),
                                pytest.param("ptx_machine", marks=[pytest.mark.slow, needs_compiler])])
def test_rehearsal(on, tmp_path):
    """Everything but the device: contenders, floors, errors, the files. Where torch's CTC is, ours must be as good."""
    done = gpu("accuracy", "times", "--on", on, "--folder", tmp_path, "--seconds", 3600)
    assert done.returncode == 0, done.stdout + done.stderr
    times, accuracy = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("cuda", "cuda_accuracy"))
    for result in times, accuracy:
        assert result["rehearsal"] and result["device"].startswith("none: a rehearsal") and result["complete"]
        assert all(target["met"] is None for target in result["targets"])  # of shapes and lengths that were not tried
    rows = {(row["loss"], row["contender"]): row for row in times["rows"]}
    for kind in ("ctc", "rnnt"):
        for name in ("tensor ops", "triton"):
            assert rows[kind, name]["gradient_error"] < (1e-2 if kind == "rnnt" else 1e-6)  # bfloat16, float32
            assert rows[kind, name]["times_the_floor"] > 0
    assert all("failed" not in row for row in times["rows"]), done.stdout
    assert "absent" in rows["rnnt", "torchaudio"] or rows["rnnt", "torchaudio"]["median"] > 0
    assert all(row["gradient_error"] < 1e-6 for row in accuracy["rows"] if row["method"] == "kernels")

"""The benchmarks run to their end and write what the chapters read: on small shapes, so their times mean nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reference_impl import alignment, ctc, log_softmax, rnnt

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def run(script, *arguments, **environment):
    done = subprocess.run([sys.executable, BENCHMARKS / script, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_accuracy(tmp_path):
    run("accuracy.py", "--sizes", 1, "--output", tmp_path / "accuracy.json")
    result = json.loads((tmp_path / "accuracy.json").read_text())
    assert result["float64_against_50_digits"] < 1e-14
    for row in result["rows"]:
        if row["method"] == "shares, mantissa and exponent":
            assert row["posterior_error"] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("kind, shape", [("ctc", (2, 12, 3, 5)), ("rnnt", (2, 6, 3, 5))])
def test_cpu_workers(kind, shape):
    """Each contender that is installed, in a process of its own as in the benchmark."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import contenders
    finally:
        sys.path.remove(str(BENCHMARKS))
    names, absent = contenders.present(kind, "cpu")
    assert {"batched", "tensor ops", "explicit loops", "np.exp and multiply"} <= set(names)
    assert not set(names) & set(absent)
    for name in ("batched", "tensor ops", "np.exp and multiply"):
        result = json.loads(run("times_cpu.py", "--worker", name, kind, *shape, "--seconds", 0).splitlines()[-1])
        assert len(result["times"]) >= 3
        assert result["error"] is None if name == "np.exp and multiply" else result["error"] < 1e-6
        assert ("copy_times" in result) == (name == "np.exp and multiply")
        assert result["peak_bytes"] is None or result["peak_bytes"] >= 0


@pytest.mark.slow
def test_cpu_table(tmp_path):
    """One small shape from the processes to the file."""
    run("times_cpu.py", "--rounds", 1, "--seconds", 0, "--shapes", 0, "--states", "warm", "--only", "batched",
        "--output", tmp_path / "cpu.json")
    rows = json.loads((tmp_path / "cpu.json").read_text())["rows"]
    assert [row["contender"] for row in rows] == ["np.exp and multiply", "batched"]
    for row in rows:
        assert row["logits_bytes"] == 4 * 2 * 60 * 28 and row["runs"] >= 3
        assert row["bytes_a_second_if_3_passes"] == 3 * row["logits_bytes"] / row["median"]
        assert row["copy_bytes_a_second"] > 0 and row["ratios"][0] > 0


def test_digit_grid(tmp_path):
    """Two steps of training each; what the chapters read has the same form, and the losses fall."""
    run("digit_grid.py", "--stages", 0, 2, "--ctc-stages", 0, 2, "--output", tmp_path / "digit_grid.json")
    short = json.loads((tmp_path / "digit_grid.json").read_text())
    stored = json.loads((BENCHMARKS.parent / "data" / "digit_grid.json").read_text())
    for name in ("what", "digits", "targets", "pixels"):
        assert short[name] == stored[name]
    T, U = len(stored["pixels"]), len(stored["targets"])
    for name, shape, module in (("logits", (T, U + 1, 11), rnnt), ("ctc_logits", (T, 11), ctc)):
        assert all(np.shape(each) == shape for each in [*short[name].values(), *stored[name].values()])
        losses = [module.loss(log_softmax(np.array(each) / 100), stored["targets"]) for each in stored[name].values()]
        assert losses == sorted(losses, reverse=True) and losses[0] > 100 * losses[-1]


def test_pruning_steps():
    """A band of all rows is the whole grid, and the simple loss besides; a narrow band loses something."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import pruning
    finally:
        sys.path.remove(str(BENCHMARKS))
    shape = 2, 6, 4, 5, 3
    whole, simple, narrow, *_, wide = (pruning.step_of(name, shape)().item() for name in pruning.contenders())
    assert wide == pytest.approx(whole + simple, rel=1e-6)
    assert narrow > wide


@pytest.mark.slow
def test_pruning_table(tmp_path):
    """The smallest shape from the processes to the file."""
    run("pruning.py", "--rounds", 1, "--seconds", 0, "--shapes", 0, "--output", tmp_path / "pruning.json")
    rows = [row for row in json.loads((tmp_path / "pruning.json").read_text())["rows"] if row["device"] == "cpu"]
    assert [row["contender"] for row in rows] == ["whole grid", "simple", "pruned 3", "pruned 5", "pruned 10"]
    for row in rows:
        assert row["runs"] >= 3 and row["ratios"][0] == pytest.approx(row["ratio_to_whole_grid"])
        assert row["ratio_to_whole_grid"] == pytest.approx(row["median"] / rows[0]["median"])


@pytest.mark.slow
def test_scaling(tmp_path):
    """A second of each. Memory lies near what is predicted whatever else the machine does; times need not."""
    run("scaling.py", "--rounds", 1, "--seconds", 0.2, "--processes", 1, 2, "--width", 8, "--output",
        tmp_path / "scaling.json", OMP_NUM_THREADS="1")
    found = json.loads((tmp_path / "scaling.json").read_text())
    assert [row["processes"] for row in found["rows"]] == [1, 2] and len(found["padding"]) == 16
    assert all(1 / 1.5 < row["measured_over_predicted"] < 1.5 for row in found["memory"])
    assert all(row["measured"] > 0 for row in found["times"])


def test_long_alignment(tmp_path):
    """Half a minute: the errors are those of a whole alignment of the same speech, in a process with little memory."""
    run("long_alignment.py", "--minutes", 0.5, "--output", tmp_path / "long_alignment.json")
    (row,) = json.loads((tmp_path / "long_alignment.json").read_text())["rows"]
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import long_alignment
    finally:
        sys.path.remove(str(BENCHMARKS))
    long_alignment.say(0.5, 0, tmp_path)
    text = np.load(tmp_path / "text.npz")
    log_probs = np.fromfile(tmp_path / "log_probs.f32", np.float32).reshape(text["shape"])
    found = alignment.ctc_best_path(log_probs, text["labels"])
    assert row["T"] == len(log_probs) and row["log_mass"] == found.log_mass and 0.5 <= row["minutes"] < 0.6
    assert text["lengths"].sum() == row["U"] and len(text["times"]) == row["words"]
    assert "".join(np.array([*" _'abcdefghijklmnopqrstuvwxyz"])[text["labels"][:3]]).isalpha()
    word = np.append(0, text["lengths"].cumsum())[:-1][::2]
    starts = found.first[word] * text["frame_seconds"] - text["times"][:, 0]
    assert row["starts: bias"] == pytest.approx(starts.mean(), rel=0, abs=1e-12)
    assert row["starts: median absolute"] == pytest.approx(np.median(abs(starts)), rel=0, abs=1e-12)
    last = found.last[word + text["lengths"][::2] - 1]
    ends = (last + 1) * text["frame_seconds"] - text["times"][:, 1]
    assert row["ends: bias"] == pytest.approx(ends.mean(), rel=0, abs=1e-12)
    assert 2e7 < row["most_memory_bytes"] < 2e8, "the process has no torch"


@pytest.mark.parametrize("name", ["accuracy", "kernels_executed", "kernels_sm90", "long_alignment", "long_utterance",
                                  "pruning"])
def test_stored_results_say_when_and_with_what(name):
    result = json.loads((BENCHMARKS.parent / "data" / f"{name}.json").read_text())
    assert result["what"] and result["date"] and result["versions"] and result["rows"]


@pytest.mark.slow
def test_delays_of_transducers(tmp_path):
    """Two steps of training for each objective; a second call has nothing left to do, and more seeds go on."""
    output = tmp_path / "delays.json"
    run("speech_networks.py", "delays", "--steps", 2, "--seeds", 1, "--limit", 4, "--output", output)
    short = json.loads(output.read_text())
    stored = json.loads((BENCHMARKS.parent / "data" / "speech_delays.json").read_text())
    assert short["objectives"].keys() == stored["objectives"].keys()
    for name, runs in short["objectives"].items():
        assert [each["seed"] for each in runs] == [0]
        assert runs[0].keys() == stored["objectives"][name][0].keys()
        assert runs[0]["expected delays"]["of"] == runs[0]["words"]["of"] > 0
    assert run("speech_networks.py", "delays", "--steps", 2, "--seeds", 1, "--limit", 4, "--output", output) == ""
    assert json.loads(output.read_text())["objectives"] == short["objectives"]


def test_stored_delays_of_transducers():
    """Every objective has the same seeds and was measured on the same words; quartiles and intervals are in order."""
    stored = json.loads((BENCHMARKS.parent / "data" / "speech_delays.json").read_text())
    assert "synthetic" in stored["what"] and stored["date"] and stored["versions"] and stored["steps"] >= 300
    by_seed = [[each["seed"] for each in runs] for runs in stored["objectives"].values()]
    assert len(by_seed) == 8 and all(seeds == list(range(stored["seeds"])) for seeds in by_seed)
    runs = [each for runs in stored["objectives"].values() for each in runs]
    assert len({(each["words"]["of"], each["letters"]["of"], each["expected delays"]["of"]) for each in runs}) == 1
    for each in runs:
        assert each["delays"]["of"] <= each["words"]["of"] == each["expected delays"]["of"]
        for seconds in (each["delays"]["seconds"], each["expected delays"]["seconds"]):
            assert seconds == sorted(seconds)
        for rate in (each["letters"], each["words"]):
            assert rate["low"] <= rate["rate"] <= rate["high"]
            assert rate["rate"] == pytest.approx(sum(rate["edits"]) / rate["of"], rel=0, abs=1e-4)  # four decimals

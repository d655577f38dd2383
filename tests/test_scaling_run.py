"""The program, alone and by torchrun, with ranks that are killed: a run that is interrupted ends with the same bits."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch

from reference_impl.scaling import Checkpoints, Kill, run_processes, torchrun
from reference_impl.scaling.run import main

CORPUS = Path(__file__).parents[1] / "data" / "speech"
STEPS = ["--steps", "10", "--checkpoint-every", "3", "--utterances", "40", "--width", "8", "--batches", "4"]
PROGRAM = "reference_impl.scaling.run"


def started(processes, folder, *arguments, restarts=0):
    """A run by torchrun, on a machine that may be busy with other things."""
    return torchrun(processes, PROGRAM, [*STEPS, "--out", folder, *arguments], restarts=restarts, timeout=1800.0)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def metrics(folder):
    return [{name: value for name, value in line.items() if name != "seconds"}
            for line in lines(folder / "metrics.jsonl")]


def outcome(folder):
    """All that a run leaves but its times: metrics, and the digest of the parameters."""
    return metrics(folder), lines(folder / "events.jsonl")[-1]["digest"]


def test_alone_without_torchrun(tmp_path, capsys):
    folder = tmp_path / "run"
    main([*STEPS, "--out", str(folder)])
    assert [line["step"] for line in metrics(folder)] == list(range(1, 11))
    losses = [line["loss"] / line["count"] for line in metrics(folder)]
    assert all(isinstance(loss, float) and loss > 0 for loss in losses)
    start, end = lines(folder / "events.jsonl")
    assert (start["step"], start["world_size"], end["step"]) == (0, 1, 10)
    assert capsys.readouterr().out == f"10 steps, 1 processes, parameters {end['digest']}\n"
    assert sorted(path.name for path in folder.glob("*.checkpoint")) == [
        f"step_{step:09}.checkpoint" for step in (6, 9, 10)]
    main([*STEPS, "--out", str(folder)])  # there is nothing to do
    assert lines(folder / "events.jsonl")[-1] == end


@pytest.mark.parametrize("arguments", [
    ["--loss", "rnnt", "--divisor", "labels", "--precision", "bfloat16"], ["--corpus", str(CORPUS)],
    ["--precision", "float64", "--largest-norm", "1"], ["--reduction", "mean of means"]])
def test_options(tmp_path, arguments):
    main(["--steps", "2", "--utterances", "12", "--width", "8", "--out", str(tmp_path), *arguments])
    assert len(metrics(tmp_path)) == 2


def test_the_loss_falls(tmp_path):
    """The mean of the first and the last epoch of four, over the same utterances."""
    main(["--steps", "60", "--utterances", "40", "--out", str(tmp_path), "--budget", "400", "--dropout", "0", "--width",
          "16", "--rate", "0.01"])
    found = metrics(tmp_path)

    def mean(epoch):
        of_epoch = [line for line in found if line["epoch"] == epoch]
        return sum(line["loss"] * line["count"] for line in of_epoch) / sum(line["count"] for line in of_epoch)

    last = found[-1]["epoch"] - 1
    assert last >= 2 and mean(last) < 0.7 * mean(0)


def test_a_kill_names_what_it_knows():
    with pytest.raises(ValueError, match="where = 'lunch'; expected one of 'backward', 'checkpoint'"):
        Kill(0, 1, "lunch")


# --- several processes ---


@pytest.fixture(scope="module")
def uninterrupted(once):
    """``uninterrupted(processes)``: what a run that nobody stops leaves."""
    def of(processes):
        def fill(folder):
            status, log = started(processes, folder / "run")
            assert status == 0, log

        return outcome(once(f"scaling uninterrupted {processes}", fill) / "run")

    return of


@pytest.mark.slow
@pytest.mark.parametrize("processes, kill", [(2, "1:5:backward"), (2, "0:6:checkpoint"), (4, "2:8:backward")])
def test_torchrun_starts_a_killed_run_again(tmp_path, uninterrupted, processes, kill):
    status, log = started(processes, tmp_path / "run", "--kill", kill, restarts=1)
    assert status == 0, log
    assert outcome(tmp_path / "run") == uninterrupted(processes)
    starts = [line["step"] for line in lines(tmp_path / "run" / "events.jsonl") if line["event"] == "start"]
    assert starts == [0, {"5": 3, "6": 3, "8": 6}[kill.split(":")[1]]]
    assert (tmp_path / "run" / "killed").exists() and "exitcode: -9" in log


@pytest.mark.slow
@pytest.mark.parametrize("processes, kill", [(2, "0:5:backward"), (4, "0:6:checkpoint")])
def test_a_new_start_goes_on_from_a_killed_run(tmp_path, uninterrupted, processes, kill):
    status, log = started(processes, tmp_path / "run", "--kill", kill)
    assert status != 0 and "exitcode: -9" in log
    assert len(metrics(tmp_path / "run")) == {"5": 4, "6": 6}[kill.split(":")[1]], "steps made"
    assert sorted(path.name for path in (tmp_path / "run").glob("step*"))[0] == "step_000000003.checkpoint"
    assert bool(list((tmp_path / "run").glob("*.part"))) == kill.endswith("checkpoint")
    status, log = started(processes, tmp_path / "run")
    assert status == 0, log
    assert outcome(tmp_path / "run") == uninterrupted(processes)
    assert not list((tmp_path / "run").glob("*.part"))


@pytest.mark.slow
def test_other_numbers_of_processes_are_other_runs(tmp_path, uninterrupted):
    """Dropout differs: so do the digests, and a checkpoint of two is refused by one."""
    assert uninterrupted(2)[1] != uninterrupted(4)[1]
    folder = tmp_path / "run"
    status, _ = started(2, folder)
    assert status == 0
    with pytest.raises(ValueError, match="world_size = 1; expected 2, as in the checkpoint"):
        main([*STEPS, "--out", str(folder)])


@pytest.mark.slow
def test_one_two_and_four_processes_by_torchrun(tmp_path):
    """Without dropout, in float64: gradient, losses and, after ten steps of AdamW, parameters.

    A gradient is off by rounding, 5,000 times 2^-53 of its largest entry. AdamW divides by the root of a mean square,
    plus 1e-8, and the largest entry is below 100: so a step moves a parameter by at most 0.006 of its rate otherwise,
    and later gradients follow.
    """
    found = []
    for processes in (1, 2, 4):
        folder, plain = tmp_path / str(processes), ("--dropout", "0", "--precision", "float64")
        if processes == 1:
            main([*STEPS, "--out", str(folder), *plain])
        else:
            status, log = started(processes, folder, *plain)
            assert status == 0, log
        gradient = torch.cat([each.flatten() for each in torch.load(folder / "first_gradient.pt").values()])
        network = torch.cat([each.flatten() for each in Checkpoints(folder).newest()[1]["network"].values()])
        found.append((gradient, torch.tensor([line["loss"] for line in metrics(folder)]), network))
    for gradient, losses, network in found[1:]:
        assert float((gradient - found[0][0]).abs().max()) <= 5000 * 2.0**-53 * float(gradient.abs().max())
        torch.testing.assert_close(losses, found[0][1], rtol=1e-6, atol=0)
        torch.testing.assert_close(network, found[0][2], rtol=0, atol=10 * 0.006 * 6e-3)


# --- processes that fail ---


def fails(process, how):
    if process.rank == 1:
        if how == "raises":
            raise KeyError("no such utterance")
        if how == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
    if how == "waits":
        import time
        time.sleep(3600)
    return process.rank


@pytest.mark.slow
@pytest.mark.parametrize("how, says", [
    ("raises", "the process of rank 1 of 2 failed:\n.*KeyError: 'no such utterance'"),
    ("is killed", "of 2 (was killed|failed)"), ("waits", "did not end in 30.0 seconds"),
])
def test_a_process_that_fails_takes_the_others_with_it(how, says):
    import multiprocessing
    import re

    with pytest.raises(RuntimeError) as caught:
        run_processes(fails, 2, how, timeout=30.0)
    assert re.search(says, str(caught.value), re.DOTALL)
    assert multiprocessing.active_children() == []

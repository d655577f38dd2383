"""The program, alone and by torchrun, with ranks that are killed: a run that was interrupted ends with the same bits.

Each run by torchrun is a process group of its own, and is killed as a whole when its test ends, however it ends.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reference_impl.scaling import Kill, run_processes
from reference_impl.scaling.run import main

SOURCES = Path(__file__).parents[1] / "src"
STEPS = ["--steps", "10", "--checkpoint-every", "3", "--utterances", "40", "--accumulate", "2"]
PATIENCE = 900  # seconds: a machine may be busy with other things


def torchrun(processes, folder, *arguments, restarts=0):
    """Exit status and output of a run, whose processes are all gone afterwards."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes),
               "--max-restarts", str(restarts), "-m", "reference_impl.scaling.run", *STEPS, "--out", str(folder),
               *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    with open(folder.with_suffix(".log"), "w+") as log:
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = started.wait(PATIENCE)
        finally:
            try:
                os.killpg(started.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            started.wait()
        log.seek(0)
        return status, log.read()


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
    ["--loss", "rnnt", "--divisor", "labels", "--precision", "bfloat16"], ["--data", "digits", "--utterances", "6"],
    ["--precision", "float16", "--clip", "1"], ["--reduction", "mean of means"]])
def test_options(tmp_path, arguments):
    main(["--steps", "2", "--utterances", "12", "--out", str(tmp_path), *arguments])
    assert len(metrics(tmp_path)) == 2


def test_the_loss_falls(tmp_path):
    """The mean of the first and the last epoch of four, over the same utterances."""
    main(["--steps", "60", "--utterances", "40", "--out", str(tmp_path), "--budget", "400", "--dropout", "0"])
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
            status, log = torchrun(processes, folder / "run")
            assert status == 0, log

        return outcome(once(f"scaling uninterrupted {processes}", fill) / "run")

    return of


@pytest.mark.slow
@pytest.mark.parametrize("processes, kill", [(2, "1:5:backward"), (2, "0:6:checkpoint"), (4, "2:8:backward")])
def test_torchrun_starts_a_killed_run_again(tmp_path, uninterrupted, processes, kill):
    status, log = torchrun(processes, tmp_path / "run", "--kill", kill, restarts=1)
    assert status == 0, log
    assert outcome(tmp_path / "run") == uninterrupted(processes)
    starts = [line["step"] for line in lines(tmp_path / "run" / "events.jsonl") if line["event"] == "start"]
    assert starts == [0, {"5": 3, "6": 3, "8": 6}[kill.split(":")[1]]]
    assert (tmp_path / "run" / "killed").exists() and "exitcode: -9" in log


@pytest.mark.slow
@pytest.mark.parametrize("processes, kill", [(2, "0:5:backward"), (4, "0:6:checkpoint")])
def test_a_new_start_goes_on_from_a_killed_run(tmp_path, uninterrupted, processes, kill):
    status, log = torchrun(processes, tmp_path / "run", "--kill", kill)
    assert status != 0 and "exitcode: -9" in log
    assert len(metrics(tmp_path / "run")) == {"5": 4, "6": 6}[kill.split(":")[1]], "steps made"
    assert sorted(path.name for path in (tmp_path / "run").glob("step*"))[0] == "step_000000003.checkpoint"
    assert bool(list((tmp_path / "run").glob("*.part"))) == kill.endswith("checkpoint")
    status, log = torchrun(processes, tmp_path / "run")
    assert status == 0, log
    assert outcome(tmp_path / "run") == uninterrupted(processes)
    assert not list((tmp_path / "run").glob("*.part"))


@pytest.mark.slow
def test_other_numbers_of_processes_are_other_runs(tmp_path, uninterrupted):
    """With other batches: the digests differ, and a checkpoint of two is refused by one."""
    assert uninterrupted(2)[1] != uninterrupted(4)[1]
    folder = tmp_path / "run"
    status, _ = torchrun(2, folder)
    assert status == 0
    with pytest.raises(ValueError, match="plan = .*, as in the checkpoint"):
        main([*STEPS, "--out", str(folder)])


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

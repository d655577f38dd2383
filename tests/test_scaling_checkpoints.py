"""A checkpoint is whole or refused, and a run that goes on from one ends with the bits of a run never stopped."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from reference_impl.scaling import (
    Checkpoints,
    DamagedCheckpoint,
    LengthBuckets,
    Process,
    Training,
    ctc_losses,
    digest_of,
    made_up,
    random_state,
    restore_random_state,
    train,
)
from reference_impl.scaling import checkpoints as module
from reference_impl.speech.networks import CTCNetwork
from reference_impl.speech.training import optimiser_of

STATE = {"weights": {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(0, dtype=torch.int64)}, "step": 7,
         "words": [2**70, 1.5, None, ("x", True)]}


def saved(folder, *steps, keep=9):
    checkpoints = Checkpoints(folder, keep=keep)
    for step in steps:
        checkpoints.save(step, {**STATE, "step": step})
    return checkpoints


def names(checkpoints):
    return sorted(each.name for each in checkpoints.folder.iterdir())


def test_a_state_comes_back_with_all_its_bits(tmp_path):
    checkpoints = saved(tmp_path / "new" / "folder", 7)
    path, state, refused = checkpoints.newest()
    assert (path.name, refused) == ("step_000000007.checkpoint", [])
    assert digest_of(state["weights"]) == digest_of(STATE["weights"])
    assert {**state, "weights": None} == {**STATE, "weights": None}


def test_nothing_there(tmp_path):
    assert Checkpoints(tmp_path).newest() == (None, None, [])


def test_the_newest_stay(tmp_path):
    checkpoints = saved(tmp_path, 1, 20, 3, 100, keep=2)
    assert names(checkpoints) == ["step_000000020.checkpoint", "step_000000100.checkpoint"]
    assert checkpoints.newest()[1]["step"] == 100
    (tmp_path / "step_1.checkpoint").touch()  # no name that it gives
    assert len(checkpoints.paths()) == 2


def damaged(how, data):
    """A file with one byte changed, of its head, its digest or its content, or cut off somewhere, or empty."""
    if how == "empty":
        return b""
    if isinstance(how, float):
        return data[:int(how * len(data))]
    place = {"head": 3, "digest": 40, "first byte": 94, "middle": len(data) // 2, "last byte": -1}.get(how)
    return data + b"x" if how == "longer" else data[:place] + bytes([data[place] ^ 1]) + data[place:][1:]


@pytest.mark.parametrize("how", ["empty", 0.01, 0.1, 0.5, 0.999, "head", "digest", "first byte", "middle", "last byte",
                                 "longer"])
def test_what_is_damaged_is_refused_and_the_one_before_is_taken(tmp_path, how):
    checkpoints = saved(tmp_path, 10, 20, 30)
    newest = checkpoints.paths()[-1]
    newest.write_bytes(damaged(how, newest.read_bytes()))
    with pytest.raises(DamagedCheckpoint, match="step_000000030.checkpoint .*expected"):
        checkpoints.load(newest)
    path, state, (message,) = checkpoints.newest()
    assert path.name == "step_000000020.checkpoint" and state["step"] == 20
    assert message.startswith("step_000000030.checkpoint")
    for each in checkpoints.paths():
        each.write_bytes(b"")
    assert checkpoints.newest()[:2] == (None, None) and len(checkpoints.newest()[2]) == 3


def test_a_file_that_brings_code_is_refused_and_runs_none(tmp_path):
    """Its digest is right: whoever writes a file can write that, too."""
    checkpoints = saved(tmp_path, 10)
    with pytest.raises(DamagedCheckpoint, match="state cannot be loaded"):
        Checkpoints(tmp_path).save(20, {"loss": print})
    assert names(checkpoints) == ["step_000000010.checkpoint"], "it is refused before it is written"
    checkpoints.save(20, {"loss": print})  # whose first state was read back
    with pytest.raises(DamagedCheckpoint, match="step_000000020.checkpoint cannot be loaded"):
        checkpoints.load(checkpoints.paths()[-1])
    assert checkpoints.newest()[1]["step"] == 10


def test_bytes_are_on_the_disk_before_the_name_and_the_name_before_the_older_ones_go(tmp_path, monkeypatch):
    happened = []

    def noted(name, function):
        return lambda *arguments: (happened.append(name), function(*arguments))[1]

    checkpoints = saved(tmp_path, 1, keep=1)
    monkeypatch.setattr(module.os, "fsync", noted("fsync", os.fsync))
    monkeypatch.setattr(module.os, "replace", noted("replace", os.replace))
    monkeypatch.setattr(module.Path, "unlink", noted("unlink", Path.unlink))
    checkpoints.save(2, STATE)
    assert happened == ["fsync", "replace", "fsync", "unlink"]


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_an_error_on_the_way_leaves_what_was_there(tmp_path, monkeypatch, where):
    checkpoints = saved(tmp_path, 1, keep=1)

    def full(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
        patch.setattr(module.os, where, full)
        checkpoints.save(2, STATE)
    assert checkpoints.newest()[1]["step"] == 1
    checkpoints.save(3, STATE)
    assert names(checkpoints) == ["step_000000003.checkpoint"], "what was left over is gone"


def test_a_process_killed_while_it_writes_leaves_the_one_before(tmp_path):
    saved(tmp_path, 1)
    script = ("import sys, torch; from reference_impl.scaling import Checkpoints; "
              "Checkpoints(sys.argv[1]).save(2, {'weight': torch.zeros(10**5)}, killed_halfway=True)")
    done = subprocess.run([sys.executable, "-c", script, tmp_path], timeout=300, env={
        **os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src"), "OMP_NUM_THREADS": "1"})
    assert done.returncode == -signal.SIGKILL
    checkpoints = Checkpoints(tmp_path)
    (part,) = tmp_path.glob("*.part")
    assert 10**5 < part.stat().st_size < 4 * 10**5, "half of it is there"
    assert checkpoints.newest()[1]["step"] == 1 and checkpoints.newest()[2] == []
    checkpoints.save(2, STATE)
    assert names(checkpoints) == ["step_000000001.checkpoint", "step_000000002.checkpoint"]


def test_random_numbers_go_on(tmp_path):
    """Of all three generators, after a detour through a file, the second of a pair of normal numbers included."""
    def drawn():
        return random.gauss(0, 1), np.random.normal(), torch.randn(3).tolist()

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    drawn()  # each pair's second number is waiting
    state = random_state()
    right = drawn()
    Checkpoints(tmp_path).save(0, state)
    assert drawn() != right
    restore_random_state(Checkpoints(tmp_path).newest()[1])
    assert drawn() == right


# --- runs in one process; tests/test_scaling_run.py has several ---

UTTERANCES = made_up(23, seed=1)


def training(seed=0, **options):
    """A run with noise, moments, a schedule, micro-batches and a clip: everything that has a state."""
    torch.manual_seed(seed)
    network = CTCNetwork(8, spacings=(1,), dropout=0.3)
    lengths = ([len(getattr(each, name)) for each in UTTERANCES] for name in ("frames", "labels"))
    for each in (random.seed, np.random.seed, torch.manual_seed):
        each(100 + seed)
    return Training(network, ctc_losses, UTTERANCES, LengthBuckets(*lengths, budget=200, batches_a_step=2),
                    functools.partial(optimiser_of, steps=12), Process(), largest_norm=1.0, **options)


def metrics(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody stopped: its folder and its digest."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(training(), folder, 12, checkpoint_every=4)


@pytest.mark.parametrize("stops", [(1,), (4,), (7,), (11,), (3, 5, 6)])
def test_a_run_that_goes_on_ends_with_the_same_bits(tmp_path, whole, stops):
    """The second epoch begins at step 7 or so: before, at and after a checkpoint, and in either epoch."""
    for steps in stops:
        train(training(), tmp_path, steps, checkpoint_every=4)
    assert train(training(seed=9), tmp_path, 12, checkpoint_every=4) == whole[1]
    assert metrics(tmp_path) == metrics(whole[0])


def test_it_makes_more_than_an_epoch(whole):
    epochs = [line["epoch"] for line in metrics(whole[0])]
    assert epochs[0] == 0 and epochs[-1] >= 1 and epochs == sorted(epochs)
    assert [line["step"] for line in metrics(whole[0])] == list(range(1, 13))


def test_the_damaged_one_is_passed_over_and_its_steps_are_made_again(tmp_path, whole):
    train(training(), tmp_path, 8, checkpoint_every=4)
    newest = Checkpoints(tmp_path).paths()[-1]
    newest.write_bytes(newest.read_bytes()[:-20])
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"step": 9, "lo')  # and a line was cut off
    assert train(training(seed=9), tmp_path, 12, checkpoint_every=4) == whole[1]
    assert metrics(tmp_path) == metrics(whole[0])
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [(each["event"], each["step"]) for each in events] == [("start", 0), ("end", 8), ("start", 4), ("end", 12)]
    assert events[2]["refused"][0].startswith("step_000000008.checkpoint has")


FRESH = {
    "random": lambda fresh, state: {**state, "random": fresh["random"]},
    "optimiser": lambda fresh, state: {**state, "optimiser": fresh["optimiser"]},
    "schedule": lambda fresh, state: {**state, "schedule": fresh["schedule"]},
    "network": lambda fresh, state: {**state, "network": fresh["network"]},
    "start": lambda fresh, state: {**state, "start": 0},
    "epoch": lambda fresh, state: {**state, "epoch": state["epoch"] + 1},
}


@pytest.mark.parametrize("left_out", FRESH)
def test_every_part_of_the_state_is_needed(tmp_path, whole, left_out):
    """Without it the run ends with other bits: the comparison can fail."""
    train(training(), tmp_path, 5, checkpoint_every=5)
    checkpoints, fresh = Checkpoints(tmp_path), training(seed=9).state()
    checkpoints.save(5, FRESH[left_out](fresh, checkpoints.newest()[1]))
    assert train(training(seed=9), tmp_path, 12) != whole[1]


@pytest.mark.parametrize("change, says", [
    ({"divisor": "labels"}, "divisor = 'labels'; expected 'utterances', as in the checkpoint"),
    ({"settings": {"rate": 0.02}}, "rate = 0.02; expected None, as in the checkpoint"),
    ({"precision": "bfloat16"}, "precision = 'bfloat16'; expected 'float32', as in the checkpoint"),
])
def test_another_run_does_not_go_on_from_this_one(tmp_path, change, says):
    train(training(), tmp_path, 1)
    with pytest.raises(ValueError) as caught:
        train(training(**change), tmp_path, 2)
    assert str(caught.value) == says


def test_another_corpus_is_another_run(tmp_path):
    train(training(), tmp_path, 1)
    other = training()
    other.settings["plan"] = "0123456789abcdef"
    with pytest.raises(ValueError, match="plan = '0123456789abcdef'; expected '[0-9a-f]{16}', as in the checkpoint"):
        train(other, tmp_path, 2)


def test_an_empty_corpus_and_batches_that_cannot_be_divided():
    network, buckets = CTCNetwork(8), LengthBuckets([], [], budget=1, batches_a_step=3)
    with pytest.raises(ValueError, match="examples has no entries; expected one at least"):
        Training(network, ctc_losses, [], buckets, None, Process())
    with pytest.raises(ValueError, match="batches_a_step = 3; expected a multiple of 2, the number of processes"):
        Training(network, ctc_losses, UTTERANCES, buckets, None, Process(world_size=2))

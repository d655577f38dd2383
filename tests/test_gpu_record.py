"""The file of a stage of `benchmarks/gpu.py`: written in time, whole at any moment, honest about what it lacks."""

import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
IDENTITY = {"stage": "a test", "device": "none", "sources": "1"}


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


class Clock:
    """Seconds that pass only when a part says so."""

    now = 0.0

    def __call__(self):
        return self.now

    def part(self, seconds, *rows, error=None):
        def run():
            self.now += seconds
            if error:
                raise error
            return rows

        return run


def record(path, clock, seconds=100.0, fresh=False, **identity):
    from gpu_stages.record import Record

    return Record(path / "found.json", IDENTITY | identity, seconds, fresh, clock)


def stored(path):
    return json.loads((path / "found.json").read_text())


def test_what_does_not_fit_is_left_out_and_done_next_time(tmp_path):
    clock = Clock()
    parts = {"a": clock.part(10, {"x": 1}), "b": clock.part(1, {"x": 2}), "c": clock.part(1, {"x": 3})}
    first = record(tmp_path, clock, seconds=15)
    first.run(parts)  # 5 s are left, and a part has taken 10
    assert first.finish() == 4
    found = stored(tmp_path)
    assert (found["complete"], found["left_out"], found["rows"]) == (False, ["b", "c"], [{"x": 1}])
    second = record(tmp_path, clock, seconds=15)
    second.run({**parts, "a": clock.part(0, error=AssertionError("it was done"))})
    assert second.finish() == 0
    found = stored(tmp_path)
    assert (found["complete"], found["left_out"], found["seconds"]) == (True, [], 12.0)
    assert found["rows"] == [{"x": 1}, {"x": 2}, {"x": 3}]


def test_the_first_part_runs_however_little_time_there_is(tmp_path):
    """Else a stage whose parts are long would never get on."""
    clock = Clock()
    for name in "ab":
        short = record(tmp_path, clock, seconds=0)
        short.run({"a": clock.part(5, {"x": "a"}), "b": clock.part(5, {"x": "b"})})
        short.finish()
        assert stored(tmp_path)["rows"][-1] == {"x": name}
    assert stored(tmp_path)["complete"]


@pytest.mark.parametrize("change", [{"fresh": True}, {"sources": "2"}, {"device": "another"}], ids=str)
def test_results_of_other_code_or_devices_are_not_mixed(tmp_path, change):
    clock = Clock()
    parts = {"a": clock.part(1, {"x": 1})}
    for options in ({}, {}, change):
        anew = record(tmp_path, clock, **options)
        anew.run(parts)
        anew.finish()
    assert clock.now == 2  # not in the second run, which is of the same
    assert stored(tmp_path)["rows"] == [{"x": 1}]


def test_chosen_parts(tmp_path):
    """The others are left out, and the file says so."""
    clock = Clock()
    some = record(tmp_path, clock)
    some.run({name: clock.part(1, {"x": name}) for name in ("rnnt, flat", "ctc, flat", "ctc, trained")}, ["ctc", "x"])
    assert some.finish() == 4
    assert [row["x"] for row in stored(tmp_path)["rows"]] == ["ctc, flat", "ctc, trained"]
    assert stored(tmp_path)["left_out"] == ["rnnt, flat"]


def test_a_part_that_fails(tmp_path, capsys):
    """It is stored and said, the others go on, and the status is that of a failure."""
    clock = Clock()
    failing = record(tmp_path, clock)
    failing.run({"a": clock.part(1, error=ValueError("no such shape\nand more")), "b": clock.part(1, {"x": 1})})
    assert failing.finish() == 1
    assert stored(tmp_path)["parts"]["a"]["failed"] == "ValueError: no such shape"
    assert stored(tmp_path)["rows"] == [{"x": 1}]
    assert "failed: a: ValueError: no such shape" in capsys.readouterr().out


def test_after_a_lost_context_the_stage_ends(tmp_path):
    """Each part after an illegal access would fail by the same error, though nothing is wrong with it."""
    clock = Clock()
    lost = record(tmp_path, clock)
    lost.run({"a": clock.part(1, error=RuntimeError("CUDA error: an illegal memory access was encountered")),
              "b": clock.part(1, {"x": 1})})
    assert lost.finish() == 1
    assert stored(tmp_path)["left_out"] == ["b"]
    again = record(tmp_path, clock)
    again.run({"a": clock.part(1), "b": clock.part(1, {"x": 1})})
    assert again.finish() == 1 and stored(tmp_path)["complete"]


def test_what_is_missing_is_stored_and_the_rest_goes_on(tmp_path, capsys):
    from gpu_stages.record import NotThere

    clock = Clock()
    lacking = record(tmp_path, clock)
    lacking.miss("torchaudio", "it was not timed")
    lacking.run({"a": clock.part(1, error=NotThere("90 GiB", "a was not timed")), "b": clock.part(1, {"x": 1})})
    assert lacking.finish() == 4
    found = stored(tmp_path)
    assert found["missing"] == {"torchaudio": "it was not timed", "90 GiB": "a was not timed"}
    assert found["left_out"] == ["a"] and found["rows"] == [{"x": 1}] and not found["complete"]
    assert "missing: 90 GiB: a was not timed" in capsys.readouterr().out


def test_the_part_in_which_a_run_was_ended_comes_last(tmp_path):
    """So that one that never ends costs no other."""
    clock, order = Clock(), []
    parts = {name: lambda name=name: order.append(name) or [] for name in "abc"}

    def killed():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(tmp_path, clock).run({**parts, "a": killed})
    assert stored(tmp_path)["running"] == "a"
    record(tmp_path, clock).run(parts)
    assert order == ["b", "c", "a"] and "running" not in stored(tmp_path)


def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch):
    """Whatever ends the writing, what was there before is there, and nothing else stands beside it."""
    from gpu_stages.record import write_whole

    path = tmp_path / "found.json"
    write_whole(path, {"x": 1})
    with pytest.raises(ValueError):
        write_whole(path, {"x": float("nan")})  # no JSON
    monkeypatch.setattr(os, "replace", lambda *_: exec("raise KeyboardInterrupt"))  # ended between the two steps
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, {"x": 2})
    assert json.loads(path.read_text()) == {"x": 1}


def test_the_digest_knows_the_code(tmp_path):
    from gpu_stages.record import sources

    for name in ("src/reference_impl/a.py", "tests/test_a.py", "benchmarks/b/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    before = {sources(tmp_path)}
    for name in ("src/reference_impl/a.py", "tests/test_a.py", "benchmarks/b/c.py"):
        (tmp_path / name).write_text("2")
        assert (found := sources(tmp_path)) not in before
        before.add(found)

"""The stage that runs the tests on a device: order, crashes, hangs, lost contexts, what is left out and gone on with.

It runs small files of tests made for this, in processes of its own as it does on a device.
"""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from compiled_kernels import needs_compiler

ROOT = Path(__file__).parent.parent

# each test says that it runs, and in which process
HEAD = """import os, pytest, time
def note(name):
    with open({log!r}, "a") as log:
        print(name, os.getpid(), file=log)
"""
OUTCOMES = """
def test_passes(): note("passes")
def test_fails():
    note("fails")
    x = 1
    assert x == 2, "one is not two"
def test_is_skipped(): pytest.skip("no reason")
@pytest.fixture
def broken(): raise ValueError("no fixture")
def test_has_no_fixture(broken): note("never")
"""


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """``stage(files)``: status, result, and what ran in which process; files are texts by name."""
    from gpu_stages import correctness, device

    log = tmp_path / "log"

    def run(files=None, seconds=60.0, workers=1, only=(), fresh=False, on="interpreter"):
        for name, text in (files or {}).items():
            (tmp_path / f"test_{name}.py").write_text(HEAD.format(log=str(log)) + text)
        log.write_text("")
        monkeypatch.setattr(correctness, "FILES", sorted(map(str, tmp_path.glob("test_*.py"))))
        monkeypatch.setattr(correctness, "POLL", 0.05)
        monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT / 'benchmarks'}")
        for variable, value in device.DEVICES[on].environment.items():
            monkeypatch.setenv(variable, value)
        options = SimpleNamespace(seconds=seconds, workers=workers, only=list(only), fresh=fresh)
        status = correctness.run(device.DEVICES[on], tmp_path, options)
        ran = [line.split() for line in log.read_text().splitlines()]
        return status, json.loads((tmp_path / "cuda_correctness.json").read_text()), ran

    return run


def test_outcomes(stage):
    """Counts, failures with the first line of what they say, reasons of skips."""
    status, result, _ = stage({"a": OUTCOMES})
    assert status == 1 and result["complete"]
    assert result["counts"] == {"passed": 1, "failed": 2, "skipped": 1}
    assert {failure["test"].partition("::")[2]: failure["message"] for failure in result["failures"]} == {
        "test_fails": "AssertionError: one is not two", "test_has_no_fixture": "ValueError: no fixture"}
    assert result["skipped"] == {"no reason": 1}
    row, = result["rows"]
    assert row["file"].endswith("test_a.py") and row["passed"] == 1 and row["failed"] == 2
    assert result["rehearsal"] and "cuda" not in result["device"].lower()


def test_order(stage):
    """What runs on the device first, repetitions last; within that, files and tests as they stand."""
    marks = '@pytest.mark.parametrize("device", {devices})\ndef test_b(device): note(f"{{device}} {name}")\n'
    slow = '@pytest.mark.slow\n@pytest.mark.parametrize("by", ["triton"])\ndef test_slow(by): note("slow")\n'
    nowhere = 'def test_a(): note("nowhere")\n'
    _, _, ran = stage({"a": nowhere + slow + marks.format(devices='["cpu", "cuda"]', name="a"),
                       "b": marks.format(devices='["triton", "cpu"]', name="b")})
    assert [" ".join(words[:-1]) for words in ran] == ["cuda a", "triton b", "slow", "nowhere", "cpu a", "cpu b"]


def test_a_crash_costs_one_test(stage):
    """The process of the others is a new one, and what had run does not run again."""
    crash = 'def test_a(): note("a")\ndef test_crash(): os._exit(7)\ndef test_z(): note("z")\n'
    status, result, ran = stage({"a": crash})
    assert status == 1 and result["complete"] and result["counts"] == {"passed": 2, "failed": 1}
    assert result["failures"][0]["message"] == "its process ended by 7"
    (first, process), (last, other) = ran
    assert (first, last) == ("a", "z") and process != other


def test_a_lost_context_costs_one_test(stage):
    """All that a process does after an illegal access fails; so the next test gets a new one."""
    error = 'RuntimeError("CUDA error: an illegal memory access was encountered")'
    lost = f'def test_a():\n    note("a")\n    raise {error}\ndef test_z(): note("z")\n'
    status, result, ran = stage({"a": lost})
    assert status == 1 and result["complete"] and result["counts"] == {"failed": 1, "passed": 1}
    assert ran[0][1] != ran[1][1]


@pytest.mark.slow
def test_a_test_that_hangs(stage, monkeypatch):
    from gpu_stages import correctness

    monkeypatch.setattr(correctness, "HANGS", 10.0)
    status, result, ran = stage({"a": 'def test_a(): time.sleep(1000)\ndef test_z(): note("z")\n'})
    assert status == 1 and result["counts"] == {"failed": 1, "passed": 1}
    assert result["failures"][0]["message"] == "hangs: no outcome after 10 s" and ran[0][0] == "z"


def test_no_time(stage):
    """One test is run in any case; the next run goes on with the others, and does not repeat what passed or failed."""
    files = {"a": 'def test_a(): note("a")\ndef test_b():\n    note("b")\n    raise OSError\ndef test_c(): note("c")\n'}
    everything = []
    for left_out in (2, 1, 0):
        status, result, ran = stage(files, seconds=0.0)
        everything += [name for name, _ in ran]
        assert result["complete"] is (left_out == 0) and result["counts"].get("left out", 0) == left_out
        assert len(result["left_out"]) == (left_out > 0)
    assert everything == ["a", "b", "c"] and status == 1
    assert stage(files)[2] == []  # complete
    assert len(stage(files, fresh=True)[2]) == 3


def test_shares(stage):
    """Two processes have each test once."""
    status, result, ran = stage({"a": "".join(f'def test_{i}(): note("{i}")\n' for i in range(7))}, workers=2)
    assert status == 0 and sorted(name for name, _ in ran) == list("0123456") and len({who for _, who in ran}) == 2


def test_chosen_tests(stage):
    status, result, ran = stage({"a": OUTCOMES, "b": 'def test_b(): note("b")\n'}, only=["test_b.py", "passes"])
    assert status == 4 and [name for name, _ in ran] == ["passes", "b"] and not result["complete"]
    assert result["counts"] == {"passed": 2, "left out": 3}


def test_a_module_that_is_missing(stage):
    """Its file is left out, and the others run."""
    status, result, _ = stage({"a": "import no_such_module\ndef test_a(): pass\n", "b": 'def test_b(): note("b")\n'})
    assert status == 4 and result["counts"] == {"passed": 1} and not result["complete"]
    assert "test_a.py was not collected" in result["missing"]["no_such_module"]
    assert len(result["left_out"]) == 1 and result["left_out"][0].endswith("test_a.py")


def test_pytest_that_does_not_start(stage, tmp_path):
    """Nothing was collected, so nothing says what was left out: a failure, with what pytest said."""
    (tmp_path / "conftest.py").write_text("raise ImportError('no such library')")
    status, result, _ = stage({"a": OUTCOMES})
    assert status == 1 and "no such library" in result["missing"]["a run of pytest"]
    assert not result["complete"] and len(result["left_out"]) == 1


def test_without_pytest(stage, monkeypatch):
    from gpu_stages import correctness

    monkeypatch.setattr(correctness.importlib.util, "find_spec", lambda name: None)
    status, result, ran = stage({"a": OUTCOMES})
    assert status == 4 and result["missing"] == {"pytest": "no test was run"} and not ran


def test_no_file_that_needs_a_device_is_forgotten():
    """Those whose tests take a device from `implementations`; test_measuring.py asks only whether there is one."""
    from gpu_stages import correctness

    names = "needs_cuda|every_device|BY_T|IMPLEMENTATIONS|TRITON_DEVICE"
    words = re.compile(rf"^from implementations import [^)]*?({names})")
    texts = {f"tests/{path.name}": path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("test_*.py")}
    files = {name for name, text in texts.items() if any(map(words.search, re.split(r"\n(?=from )", text)))}
    assert files - {"tests/test_measuring.py"} == set(correctness.FILES)


LAUNCHES = """
import torch
from gpu_stages import launches, pytest_order
def test_a_loss():
    launches.launch(*launches.CASES[-3], "cpu")
    note(f"{len(pytest_order._MACHINE.reports)}-launches")
def test_a_fault():
    pytest_order._MACHINE.kernel(launches.planted_memcheck)[1,](torch.empty(1024), torch.zeros(128))
def test_numbers_are_right():
    assert torch.zeros(1) == 0
"""


@needs_compiler
@pytest.mark.slow
def test_on_the_machine(stage):
    """The kernels of the tests run compiled, and a fault fails the test that made it."""
    status, result, ran = stage({"a": LAUNCHES}, on="ptx_machine")
    assert status == 1 and result["counts"] == {"passed": 2, "failed": 1} and result["rehearsal"]
    failure, = result["failures"]
    assert failure["test"].endswith("::test_a_fault") and "out of bounds" in failure["message"]
    assert [name for name, _ in ran] == ["4-launches"]

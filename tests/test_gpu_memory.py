"""The stage that runs compute-sanitizer: what it makes of the tool's words, with a stand-in for the tool.

The words are as the tool prints them; errors and places are made up.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hanging import Hanging
from implementations import needs_triton

ROOT = Path(__file__).parent.parent
pytestmark = needs_triton

READ = """========= Invalid __global__ read of size 16 bytes
=========     at rnnt_gradient+0xec0 in triton_vocabulary.py:198
=========     by thread (18,0,0) in block (0,0,0)
=========     Access to 0x74505bcccca0 is out of bounds
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: [0x2f26f0] in libcuda.so.1
"""
# as older versions of the tool put it
OLDER = """========= Invalid __shared__ write of size 4 bytes
=========     at 0xda0 in /home/triton_lattice.py:175:ctc_forward
=========     by thread (96,0,0) in block (44,0,0)
"""
RACE = """========= Error: Race reported between Write access at ctc_backward+0x90 in triton_lattice.py:241
=========     and Read access at ctc_backward+0xf0 in triton_lattice.py:242 [4 hazards]
=========
"""
PLANTED_WRITE = """========= Invalid __global__ write of size 4 bytes
=========     at planted_memcheck+0x90 in launches.py:58
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call
=========     Saved host backtrace up to driver entry point at error
"""
OF_TORCH = """========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::reduce_kernel<(int)512>(T3)+0x7f0
=========     by thread (0,0,0) in block (0,0,0)
"""
REFUSED = "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the documentation.\n"
FRAME = ("========= COMPUTE-SANITIZER\nlaunched 0: a\n{}launched 1: b\nplanted: memcheck\n{}"
         "========= ERROR SUMMARY: 7 errors\n")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


def found(of_kernels="", after=PLANTED_WRITE):
    from gpu_stages import sanitizer

    return sanitizer.found(FRAME.format(of_kernels, after), 2)


def test_a_clean_run():
    """The planted error, and the call that failed because of it, are none of the kernels'."""
    assert found() == {"launched": 2, "launches": 2, "errors": {}, "elsewhere": {}, "planted_was_found": True,
                       "summary": "7 errors"}


def test_errors_of_our_kernels():
    """By kernel and place, counted; those of others apart."""
    row = found(READ + READ + OLDER + RACE + OF_TORCH)
    assert row["errors"] == {
        "rnnt_gradient": {"Invalid __global__ read of size 16 bytes in triton_vocabulary.py:198": 2},
        "ctc_forward": {"Invalid __shared__ write of size 4 bytes": 1},
        "ctc_backward": {"Error: Race reported between Write access at ctc_backward+0x90 in triton_lattice.py:241"
                         " in triton_lattice.py:241": 1}}
    assert row["elsewhere"] == {"Uninitialized __global__ memory read of size 4 bytes": 1}


def test_a_tool_that_is_blind():
    """It reports nothing, the planted error neither: that says nothing of the kernels, and is no clean run."""
    from gpu_stages import memory

    assert found(after="")["planted_was_found"] is False
    assert memory.is_bad(found(after="")) and not memory.is_bad(found())
    assert memory.is_bad(found(READ))
    assert "THE PLANTED ERROR WAS NOT FOUND" in memory.said({"tool": "memcheck", **found(after="")})


def test_all_eight_kernels_have_names():
    """The parser looks for the names that the kernels have, and the launches reach each of them."""
    from gpu_stages import sanitizer

    from reference_impl.torch_impl import triton_lattice, triton_vocabulary

    public = {*triton_lattice.__all__, *triton_vocabulary.__all__}
    assert set(sanitizer.KERNELS) == {name for name in public if name.startswith(("rnnt_", "ctc_"))}


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """``stage(printed, seconds)``: the stage where a program stands in for the launches, and one for the tool."""
    from gpu_stages import device, memory, sanitizer

    monkeypatch.setattr(device.Device, "described", lambda self: {"device": "a stand-in", "rehearsal": True})
    script = tmp_path / "launches.py"
    script.write_text("import sys\nprint('launched 0: a', flush=True)\nprint('launched 1: b', flush=True)\n"
                      "print(*['planted:', *sys.argv[4:]] if sys.argv[3:] else '', flush=True)\n")
    monkeypatch.setattr(memory, "SCRIPT", script)
    monkeypatch.setattr(memory, "CASES", [1, 2])

    def run(tool, seconds=60.0, only=()):
        program = tmp_path / "compute-sanitizer"
        program.write_text(f"#!{sys.executable}\n{tool}")
        program.chmod(0o755)
        monkeypatch.setattr(sanitizer, "where", lambda: str(program) if tool else None)
        options = SimpleNamespace(seconds=seconds, fresh=False, only=list(only))
        status = memory.run(device.DEVICES["cuda"], tmp_path, options)
        return status, json.loads((tmp_path / "cuda_memory.json").read_text())

    return run


# runs what it is given, and prints what the tool would
TOOL = """import subprocess, sys
subprocess.run(sys.argv[3:])
print({!r} if "--planted" in sys.argv else "")
print("========= ERROR SUMMARY: 1 error")
"""


def test_the_stage(stage):
    status, result = stage(TOOL.format("=========  \n" + PLANTED_WRITE))
    assert status == 0 and result["complete"]
    rows = {row["tool"]: row for row in result["rows"]}
    assert list(rows) == ["no tool", "memcheck", "racecheck", "synccheck", "initcheck"]
    assert all(row["launched"] == 2 and not row["errors"] for row in rows.values())
    assert [rows[tool]["planted_was_found"] for tool in rows] == [None, True, True, None, True]


def test_a_finding_fails_the_stage(stage):
    status, result = stage(TOOL.format(PLANTED_WRITE + READ), only=["memcheck"])
    assert status == 1 and result["rows"][0]["errors"].keys() == {"rnnt_gradient"}


def test_a_tool_that_refuses_the_device(stage):
    status, result = stage(f"print({REFUSED!r})", only=["memcheck"])
    assert status == 4 and "memcheck" in result["left_out"] and result["rows"] == []
    assert "Device not supported" in result["missing"]["compute-sanitizer --tool memcheck"]


def test_launches_that_stop(stage):
    """A crash is none of the tool's findings, and no clean run."""
    status, result = stage("print('launched 0: a')\nprint('Segmentation fault')", only=["racecheck"])
    assert status == 1 and result["rows"][0]["stopped"] == "Segmentation fault"


@pytest.mark.parametrize("printed", ["launched 0: a", "launched 0: a\nlaunched 1: b",
                                     "launched 0: a\nlaunched 1: b\nplanted: memcheck"])
def test_a_tool_that_takes_too_long(printed, stage, tmp_path, monkeypatch):
    """It is ended with what it runs, wherever it is; nothing is said of what it did not come to, and it is tried again.

    The time is up when the tool hangs, on a fast machine and on a busy one.
    """
    from gpu_stages import memory

    hanging = Hanging(tmp_path)

    class UntilItHangs(subprocess.Popen):
        def communicate(self, input=None, timeout=None):
            if timeout:
                hanging.wait()
                raise subprocess.TimeoutExpired(self.args, timeout)
            return super().communicate(input)

    slow = (f"import subprocess, sys\nprint({printed!r}, flush=True)\nnowhere = subprocess.DEVNULL\n"
            f"subprocess.run([sys.executable, '-c', {hanging.program!r}], stdout=nowhere, stderr=nowhere)")
    with monkeypatch.context() as patch:
        patch.setattr(memory.subprocess, "Popen", UntilItHangs)
        status, result = stage(slow, only=["memcheck"])
    assert hanging.all_ended()
    assert status == 4 and result["left_out"].count("memcheck") == 1
    row, = result["rows"]
    assert row["launched"] == printed.count("launched") and row["planted_was_found"] is None and row["time was up"]
    status, result = stage(TOOL.format(PLANTED_WRITE), only=["memcheck"])
    assert [row["launched"] for row in result["rows"]] == [2] and "memcheck" not in result["left_out"]


def test_launches_that_end_before_what_is_planted(stage):
    """All of them, and the tool was shown no error: that is no clean run."""
    status, result = stage("print('launched 0: a')\nprint('launched 1: b')\nprint('Killed')", only=["memcheck"])
    assert status == 1 and result["rows"][0]["stopped"] == "Killed"


def test_without_the_tool(stage):
    """The launches are made all the same, and what was not checked is said."""
    status, result = stage(None)
    assert status == 4 and result["left_out"] == ["memcheck", "racecheck", "synccheck", "initcheck"]
    assert result["missing"] == {"compute-sanitizer": "accesses to memory, races and barriers were not checked"}
    assert [row["launched"] for row in result["rows"]] == [2]


def test_where_the_tool_is(tmp_path, monkeypatch):
    """On the path, or where CUDA is."""
    from gpu_stages import sanitizer

    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert sanitizer.where() == str(program)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.delenv("CUDA_HOME")
    assert sanitizer.where() == str(program)


@pytest.mark.slow
def test_what_is_planted_compiles():
    """For sm_90, with the shared cell that all threads write to, and no barrier."""
    script = """
import sys; sys.path.insert(0, "benchmarks")
import compile_kernels, torch
from gpu_stages import launches
for kernel in launches.PLANTED.values():
    ptx = compile_kernels.compiled(kernel, (torch.empty(1024), torch.zeros(128)), {}).asm["ptx"]
print("st.shared" in ptx and "bar.sync" not in ptx)"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["True"], done.stderr


@pytest.mark.parametrize("tool", ["ptx_machine", "racecheck", "initcheck"])
def test_the_machine_finds_what_is_planted(tool, capfd):
    """In words that are read like those of compute-sanitizer; the launch before is clean."""
    from gpu_stages import launches, machine, sanitizer

    with machine.replacing() as stand_in:
        launches.launch(*launches.CASES[-4], "cpu")
        clean = sanitizer.found(capfd.readouterr().out, 1)
        stand_in.kernel(launches.PLANTED[tool])[1,](torch.empty(1024), torch.zeros(128))
    assert len(stand_in.reports) == 5 and not clean["errors"] and clean["planted_was_found"] is None
    row = sanitizer.found(f"launched 0: a\nplanted: {tool}\n{capfd.readouterr().out}", 1)
    assert row["planted_was_found"] and row["launched"] == 1 and not row["errors"] and not row["elsewhere"]


def test_the_machine_blames_the_kernel(capfd):
    """One of ours that is given less memory than it was promised."""
    from gpu_stages import launches, machine, sanitizer

    from reference_impl.torch_impl import triton_vocabulary

    with machine.replacing() as stand_in:
        usual = stand_in.launch

        def with_less(kernel, grid, arguments, options):
            first, *others = arguments
            if kernel.fn.__name__ in triton_vocabulary.__all__:  # it is the logits
                first = first.flatten()[:-200].clone()
            return usual(kernel, grid, (first, *others), options)
        stand_in.launch = with_less
        launches.launch(*launches.CASES[1], "cpu")
    errors = sanitizer.found(capfd.readouterr().out, 1)["errors"]
    assert set(errors) == {"ctc_rows", "ctc_gradient"}
    assert any("out of bounds" in said.lower() and "triton_vocabulary.py" in said for said in errors["ctc_rows"])


@pytest.mark.slow
def test_a_rehearsal_on_the_machine(tmp_path, monkeypatch):
    """Two launches, and the planted error."""
    from gpu_stages import device, launches, memory

    script = tmp_path / "launches.py"
    script.write_text(launches.__loader__.get_source("gpu_stages.launches").replace("in enumerate(CASES)",
                                                                                    "in enumerate(CASES[-4:-2])"))
    monkeypatch.setattr(memory, "SCRIPT", script)
    monkeypatch.setattr(memory, "CASES", launches.CASES[-4:-2])
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT / 'benchmarks'}")
    where = device.DEVICES["ptx_machine"]
    for variable, value in where.environment.items():
        monkeypatch.setenv(variable, value)
    options = SimpleNamespace(seconds=600.0, fresh=False, only=[])
    assert memory.run(where, tmp_path, options) == 0
    row, = json.loads((tmp_path / "cuda_memory.json").read_text())["rows"]
    assert row["tool"] == "ptx_machine" and not row["errors"]
    assert row["launched"] == 2 and row["planted_was_found"]

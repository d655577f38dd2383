"""What all tests share: one thread for torch, a reproducible hypothesis, and which tests belong to which tier.

Fixtures of one subject live in its file.
"""

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from implementations import TORCH_VARIANTS, TRITON_DEVICE

from reference_impl.torch_impl import losses

torch.set_num_threads(1)

# a machine with a GPU may have neither, and runs the tests that need neither
if importlib.util.find_spec("matplotlib"):
    import matplotlib

    matplotlib.use("Agg")
if importlib.util.find_spec("hypothesis"):
    import hypothesis

    # the same examples on every machine, and no deadline: a slow machine is not a wrong result
    hypothesis.settings.register_profile("book", deadline=None, derandomize=True, max_examples=40)
    hypothesis.settings.load_profile("book")


#: Files about the assignments, their grading and the test vectors: `make test-course`.
OF_THE_COURSE = ("test_coursework", "test_instructor_pack", "test_vectors")


def pytest_addoption(parser):
    parser.addoption("--write-table", action="store_true", help="write data/variants.json")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(config, items):
    items[:] = [item for item in items if not _without_kernels(parameters_of(item))]
    for item in items:
        if item.path.name.startswith(OF_THE_COURSE):
            item.add_marker("course")
    if not torch.cuda.is_available():
        _one_skip_a_file(config, items)
        items[:] = [item for item in items if not _differentiates_every_entry_by_kernels(item)]
        _the_interpreter_is_slow(items)


def parameters_of(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def _without_kernels(parameters):
    """There are kernels for CTC and RNN-T only."""
    return parameters.get("kind") in TORCH_VARIANTS and parameters.get("device") == "triton"


def _kernels(item):
    """How a test runs kernels, if it does."""
    return [value for value in parameters_of(item).values()
            if isinstance(value, str) and value in ("triton", "compiled triton")]


def _differentiates_every_entry_by_kernels(item):
    """Too much for Triton's interpreter: derivatives through it are taken along random directions only."""
    return bool(_kernels(item)) and parameters_of(item).get("along") == "entries"


def _one_skip_a_file(config, items):
    """Of a file's tests for CUDA the first stays, to be skipped with a reason that speaks for all."""
    for path in dict.fromkeys(item.path for item in items):
        first, *others = [item for item in items if item.path == path and item.get_closest_marker("cuda")] or [None]
        if first:
            reason = f"{1 + len(others)} tests of this file need a CUDA device, and torch finds none"
            first.add_marker(pytest.mark.skip(reason=reason))
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if item not in others]


def _the_interpreter_is_slow(items):
    """Triton's interpreter takes a quarter of a second for a loss, and the machine for compiled kernels as long.

    So of each test with kernels the first case of either loss belongs to the fast tier, and the others are slow. Where
    the first is slow by itself, the others are exhaustive.
    """
    seen = set()
    for item in items:
        if _kernels(item):
            parameters = parameters_of(item)
            slow = item.get_closest_marker("slow") is not None
            variable = slow and parameters.get("variable")
            key = item.nodeid.partition("[")[0], *_kernels(item), parameters.get("kind"), variable
            if key in seen:
                item.add_marker("exhaustive" if slow else "slow")
            seen.add(key)


@pytest.fixture
def device(request, monkeypatch):
    """Where a test's tensors go; ``backend="auto"`` is the kernels for "triton", tensor operations for the others."""
    monkeypatch.setattr(losses, "_auto", lambda _: "triton" if request.param == "triton" else "torch")
    return TRITON_DEVICE if request.param == "triton" else request.param


@pytest.fixture(scope="session")
def fences_down(once):
    """Why fences around submissions do not stand here, by name; REQUIRE_FENCES asks for all of them."""
    root = Path(__file__).parents[1]
    course = root / ".venv-course" / "bin" / "python"

    def fill(folder):
        run = subprocess.run([course if course.exists() else sys.executable, "-m", "coursework.fences", "--json"],
                             env={**os.environ, "PYTHONPATH": str(root / "src")}, stdout=subprocess.PIPE)
        (folder / "fences.json").write_bytes(run.stdout)

    found = json.loads((once("fences", fill) / "fences.json").read_text(encoding="utf-8"))
    assert not found["down"] or "REQUIRE_FENCES" not in os.environ, found
    return found["down"]


@pytest.fixture(scope="session")
def fences(fences_down):
    """For tests that need every fence, such as those that grade hostile submissions."""
    if fences_down:
        pytest.skip(f"fences around submissions do not stand here: {', '.join(fences_down)}; `make fences` says why")


@pytest.fixture(scope="session")
def course_python(fences_down):
    """The Python that grades; `make test-course` makes it, and asks for it by REQUIRE_COURSE.

    Where fences do not stand, as in a container within a container, it grades without them.
    """
    os.environ["ALLOW"] = ",".join(fences_down)
    there = Path(__file__).parents[1] / ".venv-course"
    if not (there / "ready").exists():
        assert "REQUIRE_COURSE" not in os.environ, ".venv-course is not there"
        pytest.skip("there is no .venv-course; `make test-course` makes it")
    return there / "bin" / "python"


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """``once(name, fill)``: a folder that ``fill(folder)`` has filled, for all workers of a parallel run.

    Who comes first fills it, and the others wait. What failed is tried again.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def filled(name, fill):
        folder, done = shared / name, shared / f"{name}.done"
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                done.touch()
        return folder

    return filled

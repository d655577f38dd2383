"""What the package needs to be imported: NumPy alone for all that computes in NumPy, and the extras for the rest.

It is tried in an environment that has NumPy and nothing else, made of the NumPy of this one: nothing is downloaded.
"""

import json
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: Modules that need more than NumPy, by the first package that is missing where there is only NumPy.
NEEDS = {
    "torch": ["as_published.fast_rnnt", "bug_bank.torch_candidate", "digits.transducer",
              "measuring.kernel_bytes", "measuring.kernels_on_machine", "measuring.torch_passes",
              "networks.objectives", "networks.training", "networks.transducer", "pruning.costs", "scaling",
              "speech.networks", "speech.reading", "speech.stored", "speech.training", "torch_impl"],
    "matplotlib": ["plotting"],
    "sympy": ["symbolic"],
    "sklearn": ["digits.strings"],
    "rapidfuzz": ["decoding.error_rates", "speech.delays"],
    "soundfile": ["speech.batches", "speech.corpus", "speech.public"],
    "scipy": ["speech.rooms"],
    "jsonschema": ["conformance.vectors.__main__"],
    "mpmath": ["conformance.vectors.exact"],
    "pytest": ["conformance.pytest_plugin"],
}
EXTRAS = {"torch": "torch", "matplotlib": "figures", "sympy": "symbolic", "sklearn": "digits", "rapidfuzz": "decoding",
          "soundfile": "speech", "scipy": "speech",
          "jsonschema": "conformance", "mpmath": "conformance"}
#: What a package is called where it is installed from, if not as where it is imported.
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python whose site-packages hold NumPy, by links, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    where = "import sysconfig; print(sysconfig.get_path('platlib'))"
    packages = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    for part in Path(numpy.__file__).parents[1].glob("numpy*"):  # numpy, numpy.libs, numpy-2.4.6.dist-info
        (packages / part.name).symlink_to(part)
    return python


def modules():
    """Every module of the package, but those of ``torch_impl``, ``scaling`` and ``plotting``.

    The first lines of these three stand for what is in them.
    """
    paths = [path.relative_to(SOURCES).with_suffix("") for path in (SOURCES / "reference_impl").rglob("*.py")]
    names = [".".join(part for part in path.parts if part != "__init__") for path in paths]
    rooms = "reference_impl.torch_impl.", "reference_impl.scaling.", "reference_impl.plotting."
    return sorted(name for name in names if not name.startswith(rooms))


def missing_in(python, names):
    """For each module the name of the package that it lacks there, or None; and that its doctests pass."""
    script = f"""
import doctest, importlib, json
missing = {{}}
for name in {names!r}:
    try:
        module = importlib.import_module(name)
        missing[name] = None
        assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0, name  # as pytest has it
    except ModuleNotFoundError as error:
        missing[name] = error.name.partition(".")[0]
print(json.dumps(missing))"""
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, cwd=ROOT,
                          env={"PYTHONPATH": str(SOURCES), "PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_numpy_is_enough_for_what_computes_in_numpy(bare_python):
    """Each module by itself, its examples too; what needs an extra says so by the name of the package it lacks."""
    expected = {f"reference_impl.{name}": package for package, names in NEEDS.items() for name in names}
    names = modules()
    assert missing_in(bare_python, names) == {name: expected.get(name) for name in names}


def test_the_environment_is_bare(bare_python):
    packages = ["torch", "sympy", "matplotlib", "sklearn", "rapidfuzz", "mpmath", "scipy", "pip"]
    found = f"from importlib.util import find_spec; print([n for n in {packages!r} if find_spec(n)])"
    done = subprocess.run([bare_python, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_extras_hold_what_is_missing():
    """`book` holds them all, so that the first cell of a notebook can ask for it."""
    extras = PROJECT["optional-dependencies"]
    assert [each.split(">")[0] for each in PROJECT["dependencies"]] == ["numpy"]
    for package, extra in EXTRAS.items():
        assert any(each.startswith(DISTRIBUTIONS.get(package, package)) for each in extras[extra])
    (whole,) = extras["book"]
    assert set(whole.removeprefix("reference_impl[").removesuffix("]").split(",")) == set(extras) - {"book"}


def test_the_first_import_is_light():
    """`import reference_impl` loads no torch, sympy or matplotlib, where they are installed."""
    heavy = "import reference_impl, sys; print([n for n in ('torch', 'sympy', 'matplotlib') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(SOURCES)})
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("page", ["README.md", "Makefile", "peers/README.md", "book/teaching/syllabus.md"])
def test_the_pages_name_the_pythons(page):
    low, high = (int(each.rpartition(".")[2]) for each in PROJECT["requires-python"].split(","))
    text = (ROOT / page).read_text(encoding="utf-8")
    assert f"3.{low} to 3.{high - 1}" in text
    assert page != "Makefile" or f"(3, {low}) <= v <= (3, {high - 1})" in text

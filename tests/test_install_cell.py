"""The first code cell of every notebook, which fetches the package where it is missing; and the tool that writes it.

The cell is run for real too, against a repository on this disk, in an environment without the package (slow).
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.inputtransformer2 import TransformerManager

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ADDRESS = "https://github.com/someone/some-book"


def load(name):
    """A file of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load("repository")


def source(url):
    return "".join(tool.install_cell(url)["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_notebook_has_the_cell_that_the_setting_implies(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    assert first == tool.install_cell(tool.setting(ROOT)), "run `make repository`"
    assert [cell["id"] for cell in cells].count("install") == 1


def test_the_citation_has_the_address_of_the_setting():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    url = tool.setting(ROOT)
    assert [line for line in lines if "repository-code" in line] == [f'repository-code: "{url}"'] * bool(url)


@pytest.fixture
def clone(tmp_path):
    """The files that hold the address, without one, and two notebooks."""
    for name in ("_config.yml", "CITATION.cff", *(f"notebooks/{path.name}" for path in NOTEBOOKS[:2])):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tool.write(tmp_path, "")
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def test_the_address_is_written_everywhere_and_taken_out_again(clone):
    without = contents(clone)
    assert len(tool.write(clone, ADDRESS)) == 4 and tool.setting(clone) == ADDRESS
    with_it = contents(clone)
    for name, text in with_it.items():
        before, after = without[name].decode().splitlines(), text.decode().splitlines()
        assert text.count(ADDRESS.encode()) == 1, name
        assert name.endswith(".ipynb") or len(set(after) - set(before)) == 1  # one line, and nothing else
    assert tool.write(clone, ADDRESS) == [] and contents(clone) == with_it
    assert len(tool.write(clone, "")) == 4 and contents(clone) == without


def test_a_new_notebook_gets_the_cell_before_its_first_code(clone):
    tool.write(clone, ADDRESS)
    path = clone / "notebooks" / "99_new.ipynb"
    cells = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Größe ½"]},
             {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": ["1"]}]
    path.write_text(tool.written({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
                    encoding="utf-8")
    assert tool.write(clone, tool.setting(clone)) == [path]
    after = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert after == [cells[0], tool.install_cell(ADDRESS), cells[1]]


def test_a_notebook_laid_out_otherwise_is_refused_and_nothing_is_written(clone):
    path = clone / "notebooks" / NOTEBOOKS[0].name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=2), encoding="utf-8")
    before = contents(clone)
    with pytest.raises(ValueError, match=rf"{path.name}: its JSON is not laid out as nbformat writes it"):
        tool.write(clone, ADDRESS)
    assert contents(clone) == before


@pytest.mark.parametrize("text", ["github.com/someone/book", "http://github.com/someone/book", "https://github.com",
                                  "https://github.com/a/b; true", "https://github.com/a/$HOME",
                                  "https://github.com/a/{b}", "https://github.com/a/-b/..", 'https://github.com/a/b"'])
def test_what_is_no_address_is_refused(text, clone, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", clone)
    with pytest.raises(SystemExit, match="expected an address that begins with https://"):
        tool.main([text])


def run(code, monkeypatch, present):
    """What the cell asks of IPython: (magic or "system", its line)."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: "a spec" if present else None)
    asked = []
    shell = SimpleNamespace(system=lambda line: asked.append(("system", line)),
                            run_line_magic=lambda name, line: asked.append((name, line)))
    exec(TransformerManager().transform_cell(code), {"get_ipython": lambda: shell})
    return asked


@pytest.mark.parametrize("url", ["", ADDRESS])
def test_where_the_package_is_nothing_is_done(url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(source(url), monkeypatch, present=True) == []


def test_where_the_package_is_missing_it_is_fetched(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some-book" / "notebooks").mkdir(parents=True)  # as git would
    fetched = [("system", f"git clone -q --depth 1 {ADDRESS}"), ("pip", 'install -q "./some-book[book]"')]
    assert run(source(ADDRESS), monkeypatch, present=False) == [*fetched, ("cd", "-q some-book/notebooks")]
    # the kernel was started again: the package is there, but the working directory is the first one
    assert run(source(ADDRESS), monkeypatch, present=True) == [("cd", "-q some-book/notebooks")]


def test_without_an_address_the_error_says_what_to_do(monkeypatch):
    with pytest.raises(ModuleNotFoundError, match="clone that, and run `make lab` there"):
        run(source(""), monkeypatch, present=False)


@pytest.mark.slow
def test_the_cell_for_real(tmp_path):
    """A kernel that has torch and the others but not the package, a folder that is no clone, pip without an index."""
    origin, content = tmp_path / "some-book", tmp_path / "content"
    content.mkdir()
    for name in ("src", "data", "notebooks"):
        shutil.copytree(ROOT / name, origin / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, origin)
    git = ["git", "-C", str(origin), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(subprocess.run([python, "-c", where], check=True, capture_output=True, text=True).stdout.strip())
    # through a path in a .pth file the packages of this environment can be imported, pip and setuptools too, but not
    # those that have .pth files of their own, as after `pip install -e`
    (own / "outer.pth").write_text(sysconfig.get_path("purelib"))

    look = ("import sys, torch, reference_impl\nfrom reference_impl.measuring.results import newest\n"
            "print(reference_impl.__file__, torch.__file__, newest('accuracy', '../data')['date'], sep='\\n')")
    here = source(ADDRESS).replace(ADDRESS, origin.as_uri())
    cells = [{**tool.install_cell(""), "id": name, "source": text} for name, text in (("install", here), ("b", look))]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (content / "chapter.ipynb").write_text(tool.written(book), encoding="utf-8")
    # no index: were anything but the package itself installed, torch above all, pip would fail
    quiet = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "JUPYTER_PATH": "", "JUPYTER_PREFER_ENV_PATH": "1",
             "PYTHONPATH": "", "IPYTHONDIR": str(tmp_path / "ipython"), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run([python, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", "chapter.ipynb"],
                          cwd=content, env=os.environ | quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cells = json.loads((content / "chapter.ipynb").read_text(encoding="utf-8"))["cells"]
    printed = "".join("".join(output.get("text", [])) for output in cells[1]["outputs"]).split()
    date = json.loads((ROOT / "data" / "accuracy.json").read_text(encoding="utf-8"))["date"]
    assert printed == [str(own / "reference_impl" / "__init__.py"), str(Path(sysconfig.get_path("purelib"), "torch",
                                                                             "__init__.py")), date]
    assert not (own / "torch").exists() and not (own / "numpy").exists()

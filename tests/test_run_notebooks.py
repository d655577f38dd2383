"""The tool that runs the chapters several at a time before the build: what it leaves in the cache, and what not."""

from pathlib import Path

import nbformat
import pytest
from jupyter_cache import get_cache

ROOT = Path(__file__).parent.parent
SETTINGS = "execute: {timeout: 60, allow_errors: false}\n"


@pytest.fixture
def run(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    from run_notebooks import run

    return run


@pytest.fixture
def root(tmp_path):
    (tmp_path / "_config.yml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "_build").mkdir()
    return tmp_path


def write(root, name, source, *tags):
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cell = nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=kernel)
    nbformat.write(notebook, root / "notebooks" / name)
    return notebook


def outputs(root, notebook):
    """What the build would take, or None if it would run the notebook."""
    cache = get_cache(str(root / "_build" / ".jupyter_cache"))
    try:
        _, filled = cache.merge_match_into_notebook(notebook)
    except KeyError:
        return None
    finally:
        cache.db.dispose()
    return [output.get("text") for output in filled.cells[0].outputs]


def test_outputs_are_kept_and_failures_left_to_the_build(run, root, capfd, monkeypatch):
    """Each runs in the folder of the notebooks; not what has been run, nor what is gone, nor what wants to be alone."""
    here = write(root, "10_here.ipynb", "import os; print(os.path.basename(os.getcwd()))")
    fails = write(root, "20_fails.ipynb", "1 / 0")
    timed = write(root, "30_timed.ipynb", "print(1)", "measured", "alone")
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert run(root) == 2
    assert outputs(root, here) == ["notebooks\n"] and outputs(root, fails) is outputs(root, timed) is None
    printed = capfd.readouterr()
    assert printed.out == "Running 2 notebooks, 2 at a time\n"
    assert "ZeroDivisionError" not in printed.err  # the build will say it; a kernel may complain of its own end

    (root / "notebooks" / "20_fails.ipynb").unlink()
    assert run(root) == 0


def test_one_notebook_is_left_to_the_build(run, root, capfd):
    """After a change in one chapter there is nothing to gain."""
    alone = write(root, "10_alone.ipynb", "print(1)")
    assert run(root) == 1
    assert outputs(root, alone) is None and capfd.readouterr().out == ""

"""A check at home, a check before handing in, and the grader: one notebook, the same points. What each refuses."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from test_coursework import HANGS, ROOT, run_course, source

from coursework import check
from coursework.asking import ask
from coursework.checking import ANSWERS
from coursework.diagnosis.verdicts import Verdict, judge
from coursework.fences import bare
from coursework.home import at_home
from coursework.home.apart import Apart, NotApart
from coursework.home.at_home import ONLY, SAME, as_graded, why
from coursework.home.handing_in import NotChecked, check_notebook
from coursework.home.session import Session
from coursework.questions import ASSIGNMENTS, find
from coursework.release import variant_of

on_unix = pytest.mark.skipif(sys.platform == "win32", reason="a cell is interrupted by a signal")


# --- a process apart ---


@pytest.fixture(scope="module", params=[False, True], ids=["", "fenced"])
def apart(request):
    with Apart(fenced=request.param) as process:
        yield process


@pytest.mark.parametrize("cell", [
    "import numpy as np\nnp.linalg.svd(np.eye(3))", "import math, json, threading, sqlite3", "import scipy_is_no_such",
    "from IPython.display import display\ndisplay(3)", "%timeit -n 1 -r 1 1 + 1", "open('own.txt', 'w').write('3')",
    "%%writefile own.py\nx = 3", "import sysconfig\nassert sysconfig.get_config_var('SOABI')",
    "import importlib.util\nassert importlib.util.find_spec('torch') is None",
    "import importlib.metadata\nassert importlib.metadata.version('numpy')",
    "print('a' * 10**6)",
    "import threading\nthread = threading.Thread(target=print)\nthread.start()\nthread.join()",
])
def test_what_is_there(apart, cell):
    error = apart.run(cell).error
    assert error is None or "scipy_is_no_such" in cell and error[0] == "ModuleNotFoundError"


def test_a_file_stays_from_cell_to_cell(apart):
    assert apart.run("open('kept.txt', 'w').write('3')").error is None
    assert apart.run("assert open('kept.txt').read() == '3'").error is None


@pytest.mark.parametrize("cell, error", [
    ("import torch", "ModuleNotFoundError"), ("import matplotlib.pyplot as plt", "ModuleNotFoundError"),
    ("from reference_impl import ctc", "ModuleNotFoundError"), ("import scipy.special", "ModuleNotFoundError"),
    ("import coursework.questions", "ModuleNotFoundError"), ("!pip install torch", "PermissionError|OSError"),
    ("import subprocess\nsubprocess.run(['true'])", "PermissionError"), ("import os\nos.fork()", "PermissionError"),
    (f"open({str(Path(__file__))!r}).read()", "PermissionError|FileNotFoundError"),
    (f"open({str(ROOT / 'planted.txt')!r}, 'w')", "PermissionError|FileNotFoundError|OSError"),
    (f"import os\nos.listdir({str(ROOT)!r})", "PermissionError|FileNotFoundError"),
    (f"import os\nos.mkdir({str(ROOT / 'planted')!r})", "PermissionError|FileNotFoundError|OSError"),
    ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')", "URLError"),
    ("input()", "EOFError|StdinNotImplementedError"), ("raise SystemExit", "SystemExit"),
    ("1 / 0", "ZeroDivisionError"),
])
def test_what_is_refused(apart, cell, error):
    ran = apart.run(cell)
    assert ran.error is not None and re.fullmatch(error, ran.error[0]), ran
    assert not (ROOT / "planted.txt").exists() and not (ROOT / "planted").exists()


@on_unix
def test_what_does_not_end():
    with Apart(cell_seconds=0.5) as process:
        ran = process.run("while True: pass")
        assert ran.interrupted and why([ran]) == "A cell ran for too long."
        assert process.run("x = 3").error is None  # it goes on
        with pytest.raises(EOFError, match="told to"):
            process.run("import os\nos._exit(0)")


def test_nothing_is_left():
    with Apart() as process:
        process.run("open('own.txt', 'w').write('3')")
        folder, pid = process.folder, process.pid
        assert (folder / "own.txt").exists()
    assert not folder.exists() and process._process.poll() is not None and pid


def test_a_process_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false" if os.path.exists("/bin/false") else sys.executable)
    with pytest.raises(NotApart, match="said nothing"), Apart():
        pass


# --- what was run in a notebook ---


def test_cells_stand_where_they_succeed_first():
    session = Session()
    for text, succeeded, cell in [
        ("import numpy", True, None), ("f()", False, "use"), ("def f(): ...", True, "define"), ("f()", True, "use"),
        ("def f(): return 1", True, "define"), ("import numpy", True, None), ("g(", False, "broken"),
    ]:
        session.ran(text, succeeded, cell)
    assert session.before("check(f)") == ["import numpy", "def f(): return 1", "f()", "g("]
    assert session.before("f()", "use") == ["import numpy", "def f(): return 1", "g("]


# --- the verdict of a check ---


class Now:
    """In the place of a session: these cells."""

    def __init__(self, *cells, only=None):
        self.cells = only or [SETUP, *cells, CHECK]

    def now(self):
        return self.cells


SETUP = "import numpy as np\nfrom coursework import check"
CHECK = 'check("1_ctc_alpha", "extended_target", extended, 3)'
RIGHT = """def extended(targets, blank):
    z = np.full(2 * len(targets) + 1, blank)
    z[1::2] = targets
    return z"""


def verdict_here(assignment="1_ctc_alpha", name="extended_target"):
    question = find(assignment, name)
    cases = question.drawn(3)
    return question, judge(question, cases, ask(question.right, [case.as_data() for case in cases]))


@pytest.mark.parametrize("cells, points, says", [
    ([RIGHT], 1.0, None),
    (["import matplotlib\n" + RIGHT], 0.0, "ModuleNotFoundError: No module named 'matplotlib'"),
    (["import matplotlib", RIGHT], 1.0, None),  # in a cell of its own it costs nothing
    ([], 0.0, "NameError: name 'extended' is not defined"),  # its cell was deleted
    ([RIGHT, "import os\nos._exit(0)"], 0.0, "The process ended"),
    (["def extended(targets, blank):\n    import torch\n    return np.zeros(1)"], 0.0, "No module named 'torch'"),
    ([RIGHT.replace("= targets", "= targets + 1")], 0.5, ""),  # the empty target is right
])
def test_a_check_earns_what_it_earns_apart(monkeypatch, cells, points, says):
    monkeypatch.setattr(at_home, "here", lambda: Now(*cells))
    question, given = verdict_here()
    verdict, lines = as_graded(given, "1_ctc_alpha", question, 3)
    assert verdict.points == points
    if says is None:
        assert verdict == given and lines == [SAME]
    else:
        assert says in verdict.findings[0] and ONLY in verdict.findings[-1] and "earns 1 of 1" in verdict.findings[-1]


def test_functions_that_cannot_be_seen_answer_apart(monkeypatch):
    """Assignment 5: the socket leads to the process that judges, and what was asked there is remembered there."""
    cells = ["".join(cell["source"]) for cell in source("5_find_the_bug")["cells"] if cell["cell_type"] == "code"]
    at = next(i for i, cell in enumerate(cells) if '"check_1"' in cell)
    monkeypatch.setattr(at_home, "here", lambda: Now(only=cells[:at + 1]))
    question = find("5_find_the_bug", "check_1")
    verdict, lines = as_graded(Verdict("check_1", 2.0, 2.0, ()), "5_find_the_bug", question, 0)
    assert lines == [SAME], verdict


@pytest.mark.parametrize("fault", [NotApart("no processes here"), OSError("no room")])
def test_where_nothing_runs_apart_the_check_says_so(monkeypatch, fault):
    def refuses(**_):
        raise fault

    monkeypatch.setattr(at_home, "here", lambda: Now(RIGHT))
    monkeypatch.setattr(at_home, "Apart", refuses)
    question, given = verdict_here()
    verdict, lines = as_graded(given, "1_ctc_alpha", question, 3)
    assert verdict == given and str(fault) in lines[0] and "may earn less" in lines[0]


def test_outside_a_notebook_a_check_is_as_before(capsys):
    assert check("1_ctc_alpha", "extended_target", find("1_ctc_alpha", "extended_target").right, 3) == 1.0
    assert capsys.readouterr().out == "extended_target: 1 of 1 points\n  right\n"


# --- one notebook, three ways ---


#: What stands above the answer log_alpha, and the points of the notebook: where it fails, the loss has a right one.
ABOVE = {
    "matplotlib": ("import matplotlib.pyplot as plt\n", 4),
    "torch": ("import torch\n", 4),
    "reference": ("from reference_impl import ctc\n", 4),
    "pip": ("!pip --version\n", 4),
    "program": ("import subprocess\nsubprocess.run(['true'])\n", 4),
    "file": (f"open({str(Path(__file__))!r})\n", 4),
    "of-the-grader": ("import jinja2\n", 4),  # nbgrader needs it: it is installed at home and there
    "looks-for-torch": ("import importlib.util\nhas_torch = importlib.util.find_spec('torch') is not None\n", 10),
    "tries-torch": ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", 10),
    "own-file": ("from pathlib import Path\nPath('own.txt').write_text('x = 1')\n", 10),
    "own-module": ("from pathlib import Path\nPath('own.py').write_text('x = 1')\nimport own\n", 4),
    "numpy": ("import numpy.linalg\n", 10),
    "leaves": ("import sys\nsys.exit()\n", 4),
    "asks": ("input('which? ')\n", 4),
    "wrong": ("def log_alpha(*_):\n    return 0\nraise ValueError\n", 4),
}


def with_lines(lines):
    notebook = source("1_ctc_alpha")
    next(cell for cell in notebook["cells"] if cell["id"] == "answer-alpha")["source"].insert(0, lines)
    return notebook


def said_at_home(notebook, folder):
    """What the checks of a notebook print when it is run from top to bottom, as a student runs it."""
    notebook = nbformat.reads(json.dumps(notebook), as_version=4)
    client = NotebookClient(notebook, timeout=None, startup_timeout=600, iopub_timeout=60, allow_errors=True,
                            extra_arguments=["--IPKernelApp.log_level=ERROR"],
                            resources={"metadata": {"path": str(folder)}})
    client.execute(env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    return "".join(output.get("text", "") for cell in notebook.cells if cell.cell_type == "code"
                   for output in cell.outputs)


def points_in(text):
    return sum(float(points) for points in re.findall(r"^\w+: ([\d.]+) of [\d.]+ points$", text, re.M))


@pytest.fixture(scope="session")
def graded(once, course_python):
    """What the grader makes of these notebooks, each with the receipt of a student's own check, by name."""
    def fill(folder):
        for name, (lines, _) in ABOVE.items():
            path = folder / "in" / name / "1_ctc_alpha.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(with_lines(lines)).replace("variant = 0", f"variant = {variant_of(name)}"),
                            encoding="utf-8")
            run = subprocess.run([sys.executable, "-m", "coursework.home.handing_in", path], capture_output=True,
                                 text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=HANGS)
            assert run.returncode == 0, run.stderr
            path.with_suffix(".said").write_text(run.stdout, encoding="utf-8")
        run = run_course(course_python, "-m", "coursework.grading", folder / "in", "--out", folder / "out")
        assert run.returncode == 0, run.stderr

    folder = once("at-home", fill)
    return {name: ((folder / "in" / name / "1_ctc_alpha.said").read_text(encoding="utf-8"),
                   (folder / "out" / "reports" / "1_ctc_alpha" / f"{name}.md").read_text(encoding="utf-8"))
            for name in ABOVE}


@pytest.mark.parametrize("name", ABOVE)
def test_home_and_grade_agree(graded, tmp_path, name):
    lines, points = ABOVE[name]
    before, report = graded[name]
    assert report.startswith(f"# {name}: {points:g} of 10 points"), report
    assert f"1_ctc_alpha: {points:g} of 10 points on the visible numbers" in before
    assert points_in(said_at_home(with_lines(lines), tmp_path)) == points
    assert "The receipt of" in report and "agrees: the same code, and the same points" in report


def test_answers_go_by_one_name():
    assert bare._ANSWERS == ANSWERS


# --- a check before handing in ---


def written(folder, notebook, name="1_ctc_alpha"):
    path = folder / f"{name}.ipynb"
    path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook), encoding="utf-8")
    return path


def without(text, notebook):
    return json.dumps(notebook).replace(text, "")


@pytest.mark.parametrize("make, message", [
    (lambda: "{", "is no notebook"), (lambda: "[]", "is no notebook"), (lambda: '{"cells": [{}]}', "is no notebook"),
    (lambda: '{"nbformat": 3, "worksheets": [{"cells": []}]}', "nbformat 3; expected 4. Open it in Jupyter"),
    (lambda: '{"cells": []}', "does not say which assignment it is"),
    (lambda: without('ASSIGNMENT = \\"1_ctc_alpha\\"', source("1_ctc_alpha")), "does not say which assignment it is"),
    (lambda: without("variant = 0", source("1_ctc_alpha")), "does not say whose numbers it has"),
    (lambda: without('"grade_id": "loss"', source("1_ctc_alpha")).replace(', , ', ', ').replace('{, ', '{'),
     "the cell that checks loss is missing"),
])
def test_what_cannot_be_checked(tmp_path, make, message):
    with pytest.raises(NotChecked, match=message):
        check_notebook(written(tmp_path, make()))


def test_a_notebook_that_is_not_there(tmp_path):
    with pytest.raises(NotChecked, match="No such file"):
        check_notebook(tmp_path / "1_ctc_alpha.ipynb")


def test_effort_is_measured_before_handing_in(tmp_path):
    """Right and slow earns nothing, and the receipt, which leaves effort out, has the points."""
    notebook = source("6_make_it_fast")
    cell = next(cell for cell in notebook["cells"] if cell["id"] == "answer-symbols")
    old = "    T, U = len(f), len(targets)\n"
    assert old in "".join(cell["source"])
    cell["source"] = "".join(cell["source"]).replace(old, "    return slow_gradient(f, g, targets, blank)\n", 1)
    checked = check_notebook(written(tmp_path, notebook, "6_make_it_fast"))
    slow, *others = checked.verdicts
    if not sys.platform.startswith("linux"):
        pytest.skip("processes are measured on Linux only")
    assert slow.points == 0 and "asked for: at least 5 times" in slow.findings[-1]
    assert checked.visible["without_a_loop_over_symbols"] == ASSIGNMENTS["6_make_it_fast"][slow.name].total
    assert all("asked for" in each.findings[-1] for each in others)

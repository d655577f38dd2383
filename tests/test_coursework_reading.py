"""What honest students hand in, read: mangled notebooks, names of files and folders, bytes that are no notebook.

A notebook that was read is run here as a student runs it, so that the points say whether it is what was meant. Nothing
is fenced in or graded: `test_coursework_submissions.py` does that.
"""

import copy
import json
import os
import re
import unicodedata
import zipfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coursework
from coursework.release import read, without_solutions
from coursework.submissions.collecting import File, Unreadable, attached, candidates, collect
from coursework.submissions.reading import LARGEST, NoNotebook, Undecided, of_assignment, read_files, read_submission
from coursework.submissions.roster import Roster, Student

ROOT = Path(__file__).parents[1]
NAME = "1_ctc_alpha"
SOLVED = read(ROOT / "course" / "assignments" / NAME / f"{NAME}.ipynb")


def without_answers(notebook):
    empty = copy.deepcopy(notebook)
    for cell in empty["cells"]:
        cell["source"] = without_solutions("".join(cell["source"]))
    return empty


RELEASED = without_answers(SOLVED)
LOCKED = {cell["metadata"]["nbgrader"]["grade_id"]: cell["source"] for cell in RELEASED["cells"]
          if cell["metadata"].get("nbgrader", {}).get("locked")}


def solved():
    """The notebook of a student who got everything right, with the texts of cells whole."""
    notebook = copy.deepcopy(SOLVED)
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def place(notebook, ident):
    return next(i for i, cell in enumerate(notebook["cells"]) if cell.get("id") == ident)


def as_bytes(notebook):
    return json.dumps(notebook, ensure_ascii=False).encode("utf-8", "surrogatepass")


def points(notebook):
    """What the checks say if the cells are run from top to bottom, whatever fails on the way."""
    earned = {}

    def check(assignment, name, *arguments):
        earned[name] = real(assignment, name, *arguments)

    real = coursework.check
    with mock.patch.object(coursework, "check", check), redirect_stdout(StringIO()):
        names = {}
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                try:
                    exec(compile(cell["source"], "<cell>", "exec"), names)
                except Exception:  # a cell that fails, as in a notebook
                    pass
    return sum(earned.values())


def well_made(notebook):
    """A notebook that nbgrader takes: valid, each mark once, each locked cell as it was handed out."""
    nbformat.validate(nbformat.from_dict(json.loads(json.dumps(notebook))))
    json.dumps(notebook, ensure_ascii=False).encode()
    marks = [cell["metadata"]["nbgrader"] for cell in notebook["cells"] if "nbgrader" in cell["metadata"]]
    assert len({mark["grade_id"] for mark in marks}) == len(marks)
    locked = {cell["metadata"]["nbgrader"]["grade_id"]: cell["source"] for cell in notebook["cells"]
              if cell["metadata"].get("nbgrader", {}).get("locked")}
    assert locked == LOCKED
    assert all(cell.get("outputs", []) == [] for cell in notebook["cells"])
    return True


def reading_of(notebook):
    reading = read_submission(notebook if isinstance(notebook, bytes) else as_bytes(notebook), RELEASED)
    assert well_made(reading.notebook)
    return reading


def test_nothing_is_said_of_what_is_in_order():
    assert reading_of(solved()).notes == [] and points(reading_of(solved()).notebook) == 10
    assert reading_of(RELEASED).notes == [] and points(reading_of(RELEASED).notebook) == 0
    assert not any(reading_of(RELEASED).answers.values()) and all(reading_of(SOLVED).answers.values())


# --- what students do to notebooks ---


def copied(notebook, ident="answer-alpha", text=None, at=None):
    """A cell copied with its mark, as JupyterLab does it, with another text; below the first, or at another place."""
    first = place(notebook, ident)
    cell = copy.deepcopy(notebook["cells"][first])
    cell["id"] = f"{ident}-copy-{len(notebook['cells'])}"
    cell["source"] = cell["source"] if text is None else text
    notebook["cells"].insert(first + 1 if at is None else at, cell)
    return notebook


def split(notebook, ident="answer-alpha", after="def", marked=True, within=False):
    """An answer split in two at a line, as an editor does it."""
    here = place(notebook, ident)
    cell = notebook["cells"][here]
    lines = cell["source"].split("\n")
    if not within:
        lines = ["helper = 1", *lines]
    other = copy.deepcopy(cell)
    other["id"] = f"{ident}-split-{len(notebook['cells'])}"
    if not marked:
        other["metadata"] = {}
    cut = 4 if within else 1
    cell["source"], other["source"] = "\n".join(lines[:cut]), "\n".join(lines[cut:])
    notebook["cells"].insert(here + 1, other)
    return notebook


def changed(notebook, **fields):
    return {**notebook, **fields}


def each_cell(notebook, change):
    for cell in notebook["cells"]:
        change(cell)
    return notebook


def without(notebook, *idents):
    notebook["cells"] = [cell for cell in notebook["cells"] if cell["id"] not in idents]
    return notebook


def edited(notebook, ident, change):
    cell = notebook["cells"][place(notebook, ident)]
    cell["source"] = change(cell["source"])
    return notebook


def marks(notebook, change):
    return each_cell(notebook, lambda cell: change(cell["metadata"]) if "nbgrader" in cell["metadata"] else None)


def of_format_3(notebook):
    def old(cell):
        made = {"cell_type": cell["cell_type"], "metadata": cell["metadata"]}
        if cell["cell_type"] == "code":
            return made | {"input": cell["source"], "language": "python", "outputs": [], "collapsed": False}
        return made | {"source": cell["source"]}
    return {"metadata": {"name": NAME}, "nbformat": 3, "nbformat_minor": 0,
            "worksheets": [{"cells": [old(cell) for cell in notebook["cells"]], "metadata": {}}]}


def stub(ident):
    return RELEASED["cells"][place(RELEASED, ident)]["source"]


def below_its_check():
    """The answer left as it was handed out, and written into a copy of it below everything."""
    notebook = solved()
    text = notebook["cells"][place(notebook, "answer-alpha")]["source"]
    notebook = copied(notebook, text=text, at=len(notebook["cells"]))
    return edited(notebook, "answer-alpha", lambda _: stub("answer-alpha"))


def in_a_cell_of_its_own():
    notebook = below_its_check()
    notebook["cells"][-1]["metadata"] = {}
    return notebook


def in_a_copy_of_another():
    """A copy of another answer's cell, with what was meant for the next one."""
    notebook = solved()
    text = notebook["cells"][place(notebook, "answer-alpha")]["source"]
    notebook = copied(notebook, "answer-extended", text)
    return edited(notebook, "answer-alpha", lambda _: stub("answer-alpha"))


def moved_into(notebook, *idents, into, left=stub):
    """Answers written into another cell, with something else in the place where they belong."""
    texts = [notebook["cells"][place(notebook, ident)]["source"] for ident in idents]
    for ident in idents:
        notebook = edited(notebook, ident, lambda _, ident=ident: left(ident))
    return edited(notebook, into, lambda text: "\n\n\n".join([*texts, text]))


def helper_in_setup():
    """A function at the end of the locked cell, and an import at its beginning."""
    notebook = edited(solved(), "setup", lambda text: (
        f"import math as m\n{text}\n\ndef minus(x):\n    return -x * m.cos(0)"))
    return edited(notebook, "answer-loss", lambda text: text.replace("return -", "return minus(1) * "))


def in_one_cell():
    """All cells of code merged, which keeps the mark and the id of the first."""
    notebook = solved()
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code[0]["source"] = "\n".join(cell["source"] for cell in code)
    return changed(notebook, cells=code[:1])


MANGLED = {  # what was done, and what is said about it
    "copied": (lambda: copied(solved()), "'answer-alpha' is there 2 times. With an answer: 2."),
    "copied, and the first left": (
        lambda: edited(copied(solved()), "answer-alpha", lambda _: stub("answer-alpha")), "Without an answer: 1, left"),
    "copied, and the second left": (lambda: copied(solved(), text=stub("answer-alpha")), "Without an answer: 1, left"),
    "copied for a helper": (lambda: copied(solved(), text="def helper():\n    return 1"), "is there 2 times"),
    "copied below its check": (below_its_check, "'answer-alpha' stands below its check; the check ran below it"),
    "in a cell without a mark": (in_a_cell_of_its_own, "'answer-alpha' was found in another cell"),
    "in a copy of another answer": (in_a_copy_of_another, "'answer-alpha' was found in another cell"),
    "split": (lambda: split(solved()), "'answer-alpha' is there 2 times"),
    "split, one part without a mark": (lambda: split(solved(), marked=False), ""),
    "split in a function": (lambda: split(solved(), within=True), "split within a block. Its parts were put together"),
    "split in a function, twice": (
        lambda: split(split(solved(), within=True), within=True), "split within a block. Its parts were put together"),
    "split in a function, and an empty copy between": (
        lambda: copied(split(solved(), within=True), text=stub("answer-alpha")), "split within a block. Its parts"),
    "split in a function, the first part without a mark": (
        lambda: each_cell(split(solved(), within=True), lambda cell: cell.update(
            {"metadata": {}, "id": "x"} if cell["id"] == "answer-alpha" else {})), "split within a block. Its parts"),
    "split in a function, without a mark": (lambda: split(solved(), within=True, marked=False), "split within a block"),
    "nbgrader is null": (lambda: marks(solved(), lambda data: data.update(nbgrader=None)), "recognised by their ids"),
    "no marks": (lambda: marks(solved(), lambda data: data.clear()), "recognised by their ids"),
    "no marks and no ids": (
        lambda: each_cell(solved(), lambda cell: cell.update(metadata={}, id="x")), "by what their cells define"),
    "metadata is null": (lambda: each_cell(solved(), lambda cell: cell.update(metadata=None)), "by their ids"),
    "no metadata": (lambda: each_cell(solved(), lambda cell: cell.pop("metadata")), "recognised by their ids"),
    "a locked cell without grade_id": (
        lambda: marks(solved(), lambda data: data["nbgrader"].pop("grade_id")), "recognised by their ids"),
    "a grade_id that is a number": (
        lambda: marks(solved(), lambda data: data["nbgrader"].update(grade_id=7)), "recognised by their ids"),
    "format 3": (lambda: of_format_3(solved()), "its notebook format is 3; expected 4"),
    "format as text": (lambda: changed(solved(), nbformat="4"), "its notebook format is '4'; expected 4"),
    "no format": (lambda: {"cells": solved()["cells"]}, "its notebook format is None"),
    "lines in a list": (
        lambda: each_cell(solved(), lambda cell: cell.update(source=cell["source"].splitlines(True))), ""),
    "line breaks of Windows": (
        lambda: each_cell(solved(), lambda cell: cell.update(source=cell["source"].replace("\n", "\r\n"))), ""),
    "an import in a locked cell": (
        lambda: edited(edited(solved(), "setup", lambda text: text.replace(
            "numpy as np", "numpy as np\nimport math as m")), "answer-loss",
                       lambda text: text.replace("return -", "return -m.cos(0) * ")),
        "'setup' was changed. It was put back before grading. What it imported was kept: import math as m"),
    "an answer in its check": (
        lambda: moved_into(solved(), "answer-loss", into="check-loss"),
        "Something was written into the locked cell 'loss'. It ran as a cell of its own. The answer 'answer-loss' was"),
    "an answer in the place of its check": (
        lambda: edited(moved_into(solved(), "answer-loss", into="check-loss"), "check-loss",
                       lambda text: text.rpartition("check(")[0]), "'answer-loss' was found in another cell"),
    "something below a check": (
        lambda: edited(solved(), "check-loss", lambda text: text + "\nprint(3)"),
        "Something was written into the locked cell 'loss'. It ran as a cell of its own."),
    "a helper in setup": (helper_in_setup, "Something was written into the locked cell 'setup'. It ran as a cell"),
    "all in one cell": (in_one_cell, "The answer 'answer-loss' was found in the cell 'answer-number'."),
    "in the cell above": (
        lambda: moved_into(solved(), "answer-alpha", into="answer-extended"),
        "The answer 'answer-alpha' was found in the cell 'answer-extended'."),
    "in the cell below, its own left empty": (
        lambda: moved_into(solved(), "answer-extended", into="answer-alpha", left=lambda _: ""),
        "was found in the cell 'answer-alpha'. The answer 'answer-extended' stands below its check; the check ran"),
    "upside down": (
        lambda: changed(solved(), cells=solved()["cells"][::-1]),
        "The locked cell 'setup' stands below an answer that follows it; it ran above."),
    "a changed check": (lambda: edited(solved(), "check-loss", lambda _: "2.0"), "'loss' was changed. It was put back"),
    "removed checks": (lambda: without(solved(), "check-loss", "check-log-alpha"), "'log_alpha' was removed. It was"),
    "no setup": (lambda: without(solved(), "setup"), "'setup' was removed. It was put back"),
    "a check twice": (lambda: copied(solved(), "check-extended-target"), "'extended_target' is there 2 times. It ran"),
    "setup twice": (lambda: copied(solved(), "setup"), ""),
    "an answer as text": (
        lambda: changed(solved(), cells=[{**cell, "cell_type": "markdown"} if cell["id"] == "answer-alpha" else cell
                                         for cell in solved()["cells"]]),
        "'answer-alpha' had become a cell of type 'markdown'; it was run as code"),
    "a graded cell of its own": (
        lambda: copied(marks_of(solved(), "text-alpha", {"grade": True, "grade_id": "bonus", "points": 100}), "title"),
        "'bonus' is none of ours"),
    "half a character": (lambda: edited(solved(), "title", lambda text: text + "\ud83d"), ""),
    "entries that are no cells": (
        lambda: changed(solved(), cells=[None, 3, "text", {"source": 5}, *solved()["cells"]]), "4 entries of the file"),
    "outputs that are none": (
        lambda: each_cell(solved(), lambda cell: cell.update(outputs="none", execution_count="x")), ""),
    "variant of another": (lambda: edited(solved(), "setup", lambda text: text.replace("= 0", "= 17")), ""),
}


def marks_of(notebook, ident, mark):
    notebook["cells"][place(notebook, ident)]["metadata"] = {"nbgrader": mark}
    return notebook


@pytest.mark.parametrize("mangled", MANGLED)
def test_what_was_meant_is_read(mangled):
    """All points, and it is said what was done."""
    make, said = MANGLED[mangled]
    reading = reading_of(make())
    assert points(reading.notebook) == 10, reading.notes
    assert said in " ".join(reading.notes)
    assert bool(said) == bool(reading.notes)
    assert not any(cell["source"].startswith(" ") for cell in reading.notebook["cells"]), "a part of a block"


def test_a_check_above_and_below():
    """The lower one is kept, so that nothing has to be moved."""
    notes = reading_of(copied(solved(), "check-log-alpha", at=place(solved(), "answer-alpha"))).notes
    assert notes == ["The check 'log_alpha' is there 2 times. It ran once, where it stands last."]


def test_the_last_of_two_answers_counts():
    """As it does for a student who runs all cells; the note says so."""
    wrong = "def log_alpha(log_probs, targets, blank):\n    return 0 * log_probs"
    below = reading_of(copied(solved(), text=wrong))
    assert points(below.notebook) == 4 and "the lower one has the last word" in " ".join(below.notes)
    above = reading_of(copied(solved(), text=wrong, at=place(solved(), "answer-alpha")))
    assert points(above.notebook) == 10
    after_the_check = reading_of(copied(solved(), text=wrong, at=len(solved()["cells"])))
    assert points(after_the_check.notebook) == 10


def test_nothing_is_earned_by_mangling():
    """What a student did not answer earns nothing, whatever was done to the notebook."""
    for make, _ in MANGLED.values():
        notebook = make()
        if "cells" in notebook:
            for cell in notebook["cells"]:
                if isinstance(cell, dict) and isinstance(cell.get("source"), str | list) and "def " in "".join(
                        cell["source"]):
                    cell["source"] = "pass"
            assert points(reading_of(notebook).notebook) <= 1  # the number is no function


ENCODINGS = {"utf-8-sig": "", "utf-16": "", "utf-16-le": "", "utf-32": "", "cp1252": "read as Windows-1252"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_other_encodings(encoding):
    notebook = edited(solved(), "answer-alpha", lambda text: f"# für Zoë\n{text}")
    notebook["cells"][place(notebook, "show-number")]["source"] = "pass"
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("∅", "0").replace("α", "a").replace("−", "-")
    reading = reading_of(json.dumps(notebook, ensure_ascii=False).encode(encoding, "replace"))
    assert points(reading.notebook) == 10
    assert any("für Zoë" in cell["source"] for cell in reading.notebook["cells"])
    assert ENCODINGS[encoding] in " ".join(reading.notes)


@pytest.mark.parametrize("content, said", [
    (b"", "it is empty"), (b" \n\0", "it is empty"), (b"\xef\xbb\xbf", "not a notebook"),
    (b"alpha[0, 0] = 1", "Expecting value"), (as_bytes(solved())[:-40], "not a notebook"),
    (b"[1, 2]", "no list of cells"), (b'{"cells": 3}', "no list of cells"), (b"{}", "no list of cells"),
    (b"null", "no list of cells"), (b'{"worksheets": {}}', "no list of cells"),
    (b"[" * 200_000, "nested too deeply"), (b'{"cells": ' + b"[" * 200_000, "nested too deeply"),
    (b"%PDF-1.7\n\xff\xfe\x00", "not a notebook, but a PDF"), (bytes(range(256)), "not a notebook"),
    (b'{"cells": [], "n": ' + b"9" * 10_000 + b"}", "not a notebook"),
])
def test_what_is_no_notebook(content, said):
    with pytest.raises(NoNotebook, match=re.escape(said)) as error:
        read_submission(content, RELEASED)
    assert not isinstance(error.value, Undecided) and "\n" not in str(error.value)


@pytest.mark.parametrize("notebook, said", [
    (lambda: changed(solved(), cells=2_001 * [{"cell_type": "code", "source": "1"}]), "has 2001 cells; expected at"),
    (lambda: edited(solved(), "answer-alpha", lambda text: text + 10**6 * "#"), "characters; expected at most 1000000"),
])
def test_too_much_is_for_a_person_to_look_at(notebook, said):
    with pytest.raises(Undecided, match=said):
        read_submission(as_bytes(notebook()), RELEASED)


def test_what_is_shown_has_an_end():
    """Pictures in the text and very long text are left out of what feedback shows; code is not."""
    picture = "![](data:image/png;base64," + 10_000 * "A" + ")"
    notebook = edited(solved(), "title", lambda text: text + picture + "end")
    notebook = edited(notebook, "text-loss", lambda text: text + 10**6 * "long ")
    reading = reading_of(notebook)
    assert points(reading.notebook) == 10 and len(json.dumps(reading.notebook)) < 30_000
    title = reading.notebook["cells"][0]["source"]
    assert "AAAA" not in title and title.endswith("end")


# --- and anything else ---

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8), lambda inner: st.lists(
        inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=6)


def paths(value, before=()):
    """Every place in a value of JSON."""
    yield before
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*before, key))


PATHS = [path for path in paths(SOLVED) if path]


def put(value, path, new):
    """Put something at a place, if an earlier change has left it there."""
    for key in path[:-1]:
        if not _has(value, key):
            return
        value = value[key]
    if _has(value, path[-1]):
        value[path[-1]] = new


def _has(value, key):
    if isinstance(value, list):
        return isinstance(key, int) and key < len(value)
    return isinstance(value, dict) and key in value


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(PATHS), ANYTHING), min_size=1, max_size=5))
def test_any_mutation_is_read_or_refused(mutations):
    """Whatever stands anywhere in a notebook: a notebook that nbgrader takes, or a sentence."""
    notebook = copy.deepcopy(SOLVED)
    for path, new in mutations:
        put(notebook, path, new)
    try:
        reading_of(json.dumps(notebook).encode())
    except NoNotebook as error:
        assert str(error).startswith("The file is not a notebook: ") and "\n" not in str(error)


@settings(max_examples=100)
@given(st.binary(max_size=200) | ANYTHING.map(lambda value: json.dumps(value).encode()) | st.tuples(
    st.integers(0, 5_000), st.binary(min_size=1, max_size=4)).map(lambda at: as_bytes(SOLVED)[:at[0]] + at[1]
                                                                  + as_bytes(SOLVED)[at[0] + len(at[1]):]))
def test_any_bytes_are_read_or_refused(content):
    try:
        reading_of(content)
        assert of_assignment(content) in ("", NAME) or b"ASSIGNMENT" in content
    except NoNotebook:
        assert of_assignment(content) in ("", NAME)


def honest(function):
    """A change that leaves what was meant as clear as it was."""
    HONEST.append(function)
    return function


HONEST = []
ANSWERS = [cell["id"] for cell in SOLVED["cells"] if cell["id"].startswith("answer")]


@honest
def copies_an_answer(notebook, n):
    return copied(notebook, ANSWERS[n % len(ANSWERS)])


@honest
def copies_an_answer_and_leaves_the_copy_empty(notebook, n):
    ident = ANSWERS[n % len(ANSWERS)]
    return copied(notebook, ident, stub(ident))


@honest
def copies_any_cell_to_the_end(notebook, n):
    cells = notebook["cells"]
    return {**notebook, "cells": [*cells, copy.deepcopy(cells[n % len(cells)])]}


@honest
def splits_an_answer(notebook, n):
    return split(notebook, ANSWERS[n % len(ANSWERS)], marked=n % 3 > 0)


@honest
def splits_a_function(notebook, n):
    return split(notebook, "answer-alpha", within=True) if notebook["cells"][place(
        notebook, "answer-alpha")]["source"].startswith("def") else notebook


@honest
def loses_a_mark(notebook, n):
    notebook["cells"][n % len(notebook["cells"])]["metadata"] = [{}, None, {"nbgrader": None}, {"nbgrader": {}}][n % 4]
    return notebook


@honest
def removes_a_locked_cell(notebook, n):
    there = [cell["id"] for cell in notebook["cells"] if cell["id"].startswith(("setup", "show", "check"))]
    return without(notebook, there[n % len(there)]) if there else notebook


@honest
def writes_into_a_locked_cell(notebook, n):
    there = [cell["id"] for cell in notebook["cells"] if cell["id"].startswith(("setup", "show", "check"))]
    added = (lambda text: f"own = {n}\n{text}", lambda text: f"{text}\nprint({n})")[n % 2]
    return edited(notebook, there[n // 2 % len(there)], added) if there else notebook


@honest
def adds_a_cell(notebook, n):
    cell = {"cell_type": ("code", "markdown", "raw")[n % 3], "id": f"new-{n}", "metadata": {}, "source": "# mine"}
    notebook["cells"].insert(n % len(notebook["cells"]), cell)
    return notebook


@honest
def runs_cells(notebook, n):
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"execution_count": n, "outputs": [{"output_type": "stream", "name": "stdout", "text": "x"}]}
    return notebook


@honest
def adds_an_empty_cell(notebook, n):
    notebook["cells"].insert(n % len(notebook["cells"]), {"cell_type": "code", "id": f"empty-{n}", "source": ""})
    return notebook


@given(st.lists(st.tuples(st.sampled_from(HONEST), st.integers(0, 60)), max_size=4), st.sampled_from([
    "utf-8", "utf-8-sig", "utf-16"]), st.booleans())
def test_no_zero_that_is_not_deserved(changes, encoding, old):
    """Several honest changes one after the other, and all points."""
    notebook = solved()
    for change, n in changes:
        notebook = change(copy.deepcopy(notebook), n)
    cells = [{"metadata": {}, **cell} for cell in notebook["cells"]]
    data = of_format_3({**notebook, "cells": cells}) if old else notebook
    reading = reading_of(json.dumps(data, ensure_ascii=False).encode(encoding))
    assert points(reading.notebook) == 10, ([(change.__name__, n) for change, n in changes], reading.notes)


# --- which file it is ---


def file(name, content=b"", depth=0):
    return File(name.rsplit("/", 1)[-1], name, depth, lambda most: content[:most])


RIGHT, EMPTY = as_bytes(solved()), as_bytes(RELEASED)
WRONG = as_bytes(edited(solved(), "answer-loss", lambda text: text.replace("-np", "np")))


@pytest.mark.parametrize("name", [
    "1_ctc_alpha (1).ipynb", "1_ctc_alpha(2).ipynb", "1_ctc_alpha-1.ipynb", "1_ctc_alpha-Copy1.ipynb",
    "Copy of 1_ctc_alpha.ipynb", "1_ctc_alpha - Copy.ipynb", "1_ctc_alpha copy 2.ipynb", "1_CTC_Alpha.ipynb",
    "1-ctc-alpha.ipynb", "1_ctc_alpha.ipynb.txt", "1_ctc_alpha.ipynb.json", "1_ctc_alpha.IPYNB", "mine.ipynb",
    "Untitled.ipynb",
])
def test_another_name(name):
    reading = read_files([file(name, RIGHT), file("notes.txt", b"x")], NAME, RELEASED)
    assert points(reading.notebook) == 10
    assert reading.notes == [f"{name} was graded, since there is no readable 1_ctc_alpha.ipynb."]


def test_a_notebook_of_another_assignment_is_not_taken():
    other = RIGHT.replace(b"1_ctc_alpha", b"2_ctc_beta")
    with pytest.raises(NoNotebook, match="There is no file 1_ctc_alpha.ipynb"):
        read_files([file("2_ctc_beta.ipynb", other)], NAME, RELEASED)
    assert of_assignment(other) == "2_ctc_beta" and of_assignment(b"x") == ""


@pytest.mark.parametrize("files, right, said", [
    ({"1_ctc_alpha.ipynb": RIGHT, "1_ctc_alpha (1).ipynb": RIGHT}, True, []),
    ({"1_ctc_alpha.ipynb": RIGHT, "1_ctc_alpha (1).ipynb": EMPTY}, True, []),
    ({"1_ctc_alpha.ipynb": RIGHT, "1_ctc_alpha (1).ipynb": WRONG}, True, ["(1).ipynb besides, with other answers"]),
    ({"1_ctc_alpha.ipynb": EMPTY, "1_ctc_alpha (1).ipynb": RIGHT}, True, ["was graded, since 1_ctc_alpha.ipynb has"]),
    ({"1_ctc_alpha.ipynb": EMPTY, "final.ipynb": RIGHT}, True, ["final.ipynb was graded, since 1_ctc_alpha.ipynb has"]),
    ({"1_ctc_alpha.ipynb": WRONG, "final.ipynb": RIGHT}, False, []),
    ({"1_ctc_alpha.ipynb": b"", "1_ctc_alpha (1).ipynb": RIGHT}, True, ["there is no readable", "was not graded. The"]),
    ({"sub/1_ctc_alpha.ipynb": RIGHT}, True, ["sub/1_ctc_alpha.ipynb was graded"]),
])
def test_which_of_two(files, right, said):
    given = [file(name, content, name.count("/")) for name, content in files.items()]
    reading = read_files(given, NAME, RELEASED)
    assert (points(reading.notebook) == 10) == right
    assert len(reading.notes) == len(said) and all(a in b for a, b in zip(said, reading.notes, strict=True))


@pytest.mark.parametrize("files, said", [
    ({"1_ctc_alpha (1).ipynb": RIGHT, "1_ctc_alpha (2).ipynb": WRONG}, "have different answers, and it is not clear"),
    ({"a.ipynb": RIGHT, "b.ipynb": WRONG}, "a.ipynb and b.ipynb have different answers"),
    ({"1_ctc_alpha.zip": b"PK"}, "There is 1_ctc_alpha.zip, which was not opened"),
    ({"1_ctc_alpha.ipynb": (LARGEST + 1) * b" "}, "has more than 50 MB and was not read"),
])
def test_not_to_be_decided_here(files, said):
    with pytest.raises(Undecided, match=re.escape(said)):
        read_files([file(name, content) for name, content in files.items()], NAME, RELEASED)


@pytest.mark.parametrize("files, said", [
    ({}, "There is no file 1_ctc_alpha.ipynb. There is no file at all."),
    ({"1_ctc_alpha.py": b"x", "b.txt": b""}, "There is no file 1_ctc_alpha.ipynb. There is 1_ctc_alpha.py, b.txt."),
    ({f"{n:02}.txt": b"" for n in range(11)}, "08.txt, 09.txt, ..."),
    ({"1_ctc_alpha.ipynb": b""}, "it is empty"), ({"mine.ipynb": b"{"}, "There is no file 1_ctc_alpha.ipynb"),
])
def test_nothing_to_grade(files, said):
    with pytest.raises(NoNotebook, match=re.escape(said)) as error:
        read_files([file(name, content) for name, content in files.items()], NAME, RELEASED)
    assert not isinstance(error.value, Undecided)


def test_other_names_come_last():
    names = ["mine.ipynb", "1_ctc_alpha (1).ipynb", "x/1_ctc_alpha.ipynb", "1_ctc_alpha.ipynb", "notes.txt"]
    found = [each.shown for _, each in candidates([file(name, b"", name.count("/")) for name in names], NAME)]
    assert found == ["1_ctc_alpha.ipynb", "1_ctc_alpha (1).ipynb", "x/1_ctc_alpha.ipynb", "mine.ipynb"]


# --- folders and zips ---


def filled(folder, files):
    """A folder of submissions: bytes, a path that a link leads to, a pipe, or a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, Path):
            path.symlink_to(content)
        elif content == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
    return folder


def packed(path, files):
    """A zip of the same; a link as the programs of Unix pack it."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o120777 if isinstance(content, Path) else 0o100644) << 16
            archive.writestr(info, str(content) if isinstance(content, Path) else content)
    return path


def found(submissions):
    """By student, the names of the files that can be read."""
    def readable(each):
        try:
            return each.read(LARGEST) == RIGHT
        except Unreadable:
            return False
    return {each.student: sorted(file.shown for file in each.files if readable(file)) for each in submissions}


IN_FOLDERS = {
    "ada/1_ctc_alpha.ipynb": RIGHT, "emmy/1_ctc_alpha (1).ipynb": RIGHT, "emmy/.DS_Store": b"x",
    "ada/.ipynb_checkpoints/1_ctc_alpha-checkpoint.ipynb": RIGHT, "__MACOSX/ada/._1_ctc_alpha.ipynb": RIGHT,
    ".ipynb_checkpoints/1_ctc_alpha-checkpoint.ipynb": RIGHT, "sofia/work/1_ctc_alpha.ipynb": RIGHT,
    unicodedata.normalize("NFD", "Zoë") + "/1_ctc_alpha.ipynb": RIGHT,
}


@pytest.mark.parametrize("zipped", [False, True])
def test_a_folder_for_each_student(tmp_path, zipped):
    place = packed(tmp_path / "in.zip", IN_FOLDERS) if zipped else filled(tmp_path / "in", IN_FOLDERS)
    submissions, problems = collect(place)
    assert problems == []
    assert found(submissions) == {
        "Zoë": ["1_ctc_alpha.ipynb"], "ada": ["1_ctc_alpha.ipynb"],
        "emmy": ["1_ctc_alpha (1).ipynb"], "sofia": ["work/1_ctc_alpha.ipynb"]}
    assert all(unicodedata.is_normalized("NFC", each.student) for each in submissions)


OF_MOODLE = {
    "Ada Lovelace_101_assignsubmission_file_/1_ctc_alpha.ipynb": RIGHT,
    "Ada Lovelace_101_assignsubmission_onlinetext_/onlinetext.html": b"<p>",
    "Zoë Müller_102_assignsubmission_file/work/1_ctc_alpha.ipynb": RIGHT,
    "Emmy Noether_103_assignsubmission_file_1_ctc_alpha.ipynb": RIGHT,
}
OF_CANVAS = {
    "lovelaceada_101_9001_1_ctc_alpha.ipynb": RIGHT, "müllerzoë_LATE_102_9002_1_ctc_alpha-1.ipynb": RIGHT,
    "noetheremmy_103_9003_1_ctc_alpha.ipynb": RIGHT, "noetheremmy_103_9004_results.json": b"{}",
}


@pytest.mark.parametrize("wrapped", ["", "Assignment 1-4711/"])
@pytest.mark.parametrize("zipped", [False, True])
def test_what_moodle_packs(tmp_path, zipped, wrapped):
    files = {f"{wrapped}{name}": content for name, content in OF_MOODLE.items()}
    submissions, problems = collect(packed(tmp_path / "in.zip", files) if zipped else filled(tmp_path / "in", files))
    assert problems == [] and {each.label.id for each in submissions} == {"101", "102", "103"}
    assert list(found(submissions)) == ["Ada_Lovelace", "Emmy_Noether", "Zoë_Müller"]
    assert all(len(each) == 1 for each in found(submissions).values())


@pytest.mark.parametrize("zipped", [False, True])
def test_what_canvas_packs(tmp_path, zipped):
    submissions, problems = collect(packed(tmp_path / "in.zip", OF_CANVAS) if zipped
                                    else filled(tmp_path / "in", OF_CANVAS))
    assert problems == []
    assert {each.student: sorted(file.name for file in each.files) for each in submissions} == {
        "lovelaceada": ["1_ctc_alpha.ipynb"], "müllerzoë": ["1_ctc_alpha-1.ipynb"],
        "noetheremmy": ["1_ctc_alpha.ipynb", "results.json"]}
    assert {each.student: each.notes for each in submissions if each.notes} == {
        "müllerzoë": ["Canvas says that it was handed in late."]}


def test_a_folder_around_everything(tmp_path):
    """Zips have it often. What one student has in folders is theirs."""
    files = {f"all/{name}": content for name, content in IN_FOLDERS.items()}
    assert set(found(collect(packed(tmp_path / "in.zip", files))[0])) == {"Zoë", "ada", "emmy", "sofia"}
    assert found(collect(packed(tmp_path / "one.zip", {"ada/1_ctc_alpha.ipynb": RIGHT}))[0]) == {
        "ada": ["1_ctc_alpha.ipynb"]}
    assert found(collect(filled(tmp_path / "in", {"ada/work/1_ctc_alpha.ipynb": RIGHT}))[0]) == {
        "ada": ["work/1_ctc_alpha.ipynb"]}


def test_a_name_in_a_zip_that_does_not_say_that_it_is_utf_8(tmp_path):
    name = "Zoë Müller_102_assignsubmission_file_/1_ctc_alpha.ipynb"
    packed(tmp_path / "in.zip", {name: RIGHT})
    content = (tmp_path / "in.zip").read_bytes()
    for head, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # without the mark of UTF-8
        at = content.index(head) + place
        content = content[:at] + b"\0\0" + content[at + 2:]
    (tmp_path / "in.zip").write_bytes(content)
    assert zipfile.ZipFile(tmp_path / "in.zip").namelist() != [name]
    assert list(found(collect(tmp_path / "in.zip")[0])) == ["Zoë_Müller"]


@pytest.mark.parametrize("zipped", [False, True])
def test_no_link_is_followed(tmp_path, zipped):
    """Neither to a notebook nor to a folder, of a student or around one."""
    outside = filled(tmp_path / "outside", {"1_ctc_alpha.ipynb": RIGHT})
    files = {"ada/1_ctc_alpha.ipynb": outside / "1_ctc_alpha.ipynb", "emmy/work": outside, "sofia": outside,
             "1_ctc_alpha.ipynb": outside / "1_ctc_alpha.ipynb"}
    submissions, problems = collect(packed(tmp_path / "in.zip", files) if zipped else filled(tmp_path / "in", files))
    assert found(submissions) == {"ada": [], "emmy": []}
    with pytest.raises(NoNotebook, match="1_ctc_alpha.ipynb is a link, and was not followed"):
        read_files(submissions[0].files, NAME, RELEASED)
    assert sorted(problems) == ["1_ctc_alpha.ipynb was not graded: it is a link, and was not followed",
                                "sofia was not graded: it is a link, and was not followed"]


def test_what_becomes_a_link_is_not_followed(tmp_path):
    """Also if it was a file when the folder was looked at."""
    (submission,), _ = collect(filled(tmp_path / "in", {"ada/1_ctc_alpha.ipynb": RIGHT}))
    path = tmp_path / "in" / "ada" / "1_ctc_alpha.ipynb"
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(Unreadable, match="1_ctc_alpha.ipynb cannot be opened: Too many levels of symbolic links"):
        submission.files[0].read(LARGEST)


def test_only_plain_files_are_opened(tmp_path):
    submissions, _ = collect(filled(tmp_path / "in", {
        "ada/1_ctc_alpha.ipynb": "pipe", "emmy/1_ctc_alpha.ipynb": "folder", "sofia/1_ctc_alpha.ipynb": RIGHT}))
    for submission in submissions[:2]:
        with pytest.raises(NoNotebook, match="1_ctc_alpha.ipynb is not a plain file, and was not read"):
            read_files(submission.files, NAME, RELEASED)
    assert found(submissions)["sofia"]


def test_a_damaged_zip_harms_one_student(tmp_path):
    path = packed(tmp_path / "in.zip", {"ada/1_ctc_alpha.ipynb": RIGHT, "emmy/1_ctc_alpha.ipynb": RIGHT})
    content = bytearray(path.read_bytes())
    content[content.index(b"CTC sums")] ^= 1  # of the first of them
    path.write_bytes(content)
    submissions, _ = collect(path)
    with pytest.raises(Undecided, match="1_ctc_alpha.ipynb cannot be read from the zip: Bad CRC-32"):
        read_files(submissions[0].files, NAME, RELEASED)
    assert found(submissions)["emmy"]


def test_nothing_in_a_zip_leads_out_of_it(tmp_path):
    files = {"../ada/1_ctc_alpha.ipynb": RIGHT, "/ada/1_ctc_alpha.ipynb": RIGHT, "a/../b/1_ctc_alpha.ipynb": RIGHT,
             "/".join(40 * ["deep"]) + "/1_ctc_alpha.ipynb": RIGHT, "emmy\\1_ctc_alpha.ipynb": RIGHT}
    assert found(collect(packed(tmp_path / "in.zip", files))[0]) == {"emmy": ["1_ctc_alpha.ipynb"]}
    assert [path.name for path in tmp_path.iterdir()] == ["in.zip"]


@pytest.mark.parametrize("files, said", [
    ({"1_ctc_alpha.ipynb": RIGHT, "ada/1_ctc_alpha.ipynb": RIGHT}, "1_ctc_alpha.ipynb was not graded, since it lies"),
    ({"!!/1_ctc_alpha.ipynb": RIGHT}, "!! was not graded: its name has no letter and no digit"),
    ({"zoë/1_ctc_alpha.ipynb": RIGHT, unicodedata.normalize("NFD", "zoë") + "/1_ctc_alpha.ipynb": RIGHT},
     "were not graded: they are of one student, zoë"),
])
def test_what_is_nobodys(tmp_path, files, said):
    submissions, problems = collect(filled(tmp_path / "in", files))
    assert len(problems) == 1 and said in problems[0]
    assert list(found(submissions)) == (["ada"] if "ada/1_ctc_alpha.ipynb" in files else [])


def test_two_students_of_one_name_on_a_platform(tmp_path):
    files = {f"Ada Lovelace_{n}_assignsubmission_file_/1_ctc_alpha.ipynb": RIGHT for n in (7, 8)}
    assert list(found(collect(filled(tmp_path / "in", files))[0])) == ["Ada_Lovelace_7", "Ada_Lovelace_8"]


@pytest.mark.parametrize("make, said", [
    (lambda path: path.mkdir(), "expected a folder for each student"),
    (lambda path: path.write_bytes(b"x"), "expected a folder or a zip"),
    (lambda path: None, "expected a folder or a zip"),
])
def test_no_place_of_submissions(tmp_path, make, said):
    make(tmp_path / "in")
    with pytest.raises(ValueError, match=said):
        collect(tmp_path / "in")


def test_a_roster_says_who_they_are(tmp_path):
    roster = Roster([Student("ada", ("Ada Lovelace", "ada@example.org")), Student("zoe", ("Zoë Müller",))])
    submissions, problems = collect(filled(tmp_path / "in", OF_MOODLE), roster=roster)
    assert list(found(submissions)) == ["ada", "zoe"]
    assert problems == ["Emmy Noether_103_assignsubmission_file_1_ctc_alpha.ipynb was not graded: the roster has "
                        "nobody who is known as Emmy Noether, or more than one"]


def test_files_beside_a_notebook(tmp_path):
    files = [file("results.json", b"{}"), file("results (1).json", b"[]"), file("other.json", b"x")]
    assert attached(files, tmp_path, {"results.json": 10}) == [
        "results (1).json was not read, since there is results.json."]
    assert (tmp_path / "results.json").read_bytes() == b"{}"
    assert attached(files[1:], tmp_path, {"results.json": 10}) == ["results (1).json was taken for results.json."]
    assert attached(files[2:], tmp_path, {"results.json": 10}) == []
    assert attached([file("RESULTS.JSON", b"3")], tmp_path, {"results.json": 10}) == [  # one name on macOS and Windows
        "RESULTS.JSON was taken for results.json."]
    assert (tmp_path / "results.json").read_bytes() == b"3"
    assert attached([file("results_json", b"4"), file("results.json.bak", b"")], tmp_path, {"results.json": 10}) == []
    assert "has more than 1e-06 MB" in attached(files, tmp_path, {"results.json": 1})[0]

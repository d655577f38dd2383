"""The tool that compares two runs of the chapters: what it finds, what it lets pass, and the report that it writes."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def drift(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import drift

    return drift


def cell(name, *outputs, tags=()):
    return {"cell_type": "code", "id": name, "metadata": {"tags": list(tags)}, "outputs": list(outputs), "source": ""}


def prints(text, name="stdout"):
    return {"output_type": "stream", "name": name, "text": text}


def notebook(*cells):
    return {"cells": [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# 1"}, *cells]}


@pytest.mark.parametrize("before, after", [
    ("loss 1.2345678", "loss 1.2345679"),           # 1e-7
    ("[ 0.5  -1.25]", "[0.5 -1.25]\n"),             # white space
    ("error 1.1e-16, -2e-14", "error 0, 3.4e-15"),  # residues of rounding
    ("float32: 7 of 8", "float32: 7 of 8"),
    ("", ""),
])
def test_what_passes(drift, before, after):
    assert drift.difference(before, after) is None


@pytest.mark.parametrize("before, after, words", [
    ("loss 1.234567", "loss 1.234570", "1.234567 is now 1.234570"),
    ("a 3, b 4, c 5", "a 3, b 7, c -5", "4 is now 7, 5 is now -5"),
    ("1.3e-04", "1.4e-04", "1.3e-04 is now 1.4e-04"),
    ("[0.5 2.0]", "[np.float64(0.5) 2.0]", "the text differs"),
    ("0.5", "nan", "the text differs"),
    ("right", "right 1", "the text differs"),
    ("float32", "float64", "the text differs"),     # a name, not a number
])
def test_what_is_found(drift, before, after, words):
    assert drift.difference(before, after) == words


def test_cells_are_compared_one_by_one(drift):
    before = notebook(cell("same", prints("1.5")), cell("other", prints("Z = 2"), prints(" 0 \n")),
                      cell("time", prints("7 s"), tags=["measured"]), cell("check", prints("checked")))
    fails = {"output_type": "error", "ename": "AssertionError", "evalue": "off by 1", "traceback": []}
    shown = {"output_type": "execute_result", "data": {"text/plain": "<Markdown>", "text/markdown": "| 3 |"}}
    before["cells"].append(cell("table"))
    after = notebook(cell("same", prints("1.5")), cell("other", prints("Z = 3 0"), prints("old!", "stderr")),
                     cell("time", prints("9 s"), tags=["measured"]), cell("check", prints("che"), fails),
                     cell("table", shown))
    assert drift.compared(before, after) == [
        ("other", "the text differs", "", "old!"), ("other", "2 is now 3", "Z = 2 0 \n", "Z = 3 0"),
        ("check", "fails", "", "AssertionError: off by 1"), ("table", "the text differs", "", "| 3 |")]
    assert drift.compared(before, before) == []


def test_a_measuring_cell_that_fails_is_found(drift):
    fails = {"output_type": "error", "ename": "TypeError", "evalue": "no", "traceback": []}
    before, after = (notebook(cell("time", output, tags=["measured"])) for output in (prints("7 s"), fails))
    assert drift.compared(before, after) == [("time", "fails", "", "TypeError: no")]


def test_versions_count_as_equal_and_numbers_beside_them_do_not(drift):
    text = "torch {}; measured with torch 2.13.0; {}"
    printed = ("2.13.0+cpu", 4), ("2.14.1+cu132", 5)  # pip may know it without the name of the build
    before, after = (notebook(cell("a", prints(text.format(*each)))) for each in printed)
    versions = [("2.13.0+cpu", "2.14.1")]
    assert [found[1] for found in drift.compared(before, after, versions)] == ["4 is now 5"]
    for each in ("2.13.0", "2.14.1", "2.14.1+cpu"):
        assert drift.compared(before, notebook(cell("a", prints(text.format(each, 4)))), versions) == []
    for old, new in (("12.13.0", "12.14.1"), ("2.13.01", "2.14.11")):  # these only contain them
        assert drift.compared(notebook(cell("a", prints(old))), notebook(cell("a", prints(new))), versions)


def test_runs_of_different_notebooks_are_refused(drift):
    with pytest.raises(ValueError, match="not two runs of the same notebook"):
        drift.compared(notebook(cell("a")), notebook(cell("b")))


def test_the_ranges_replace_the_pins_and_nothing_else(drift):
    lines = drift.newest_requirements()
    pinned = [line for name in ("requirements.txt", "requirements-dev.txt")
              for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line[:1].isalpha()]
    changed = {old: new for old, new in zip(pinned, lines, strict=True) if old != new}
    assert {drift.name_of(new) for new in changed.values()} == set(drift.ranges()) >= {"numpy", "torch", "rapidfuzz"}
    assert all("==" in old and ">=" in new and drift.name_of(old) == drift.name_of(new)
               for old, new in changed.items())


def test_failures_of_tests(drift, tmp_path):
    path = tmp_path / "tests.xml"
    path.write_text('<testsuites><testsuite><testcase classname="tests.test_a" name="test_b">'
                    '<failure message="assert 1 == 2&#10;more">...</failure></testcase><testcase classname="" '
                    'name="tests.test_c"><error message="collection failure"/></testcase><testcase classname="d" '
                    'name="e"/><testcase classname="d" name="f"><skipped message="no"/></testcase></testsuite>'
                    "</testsuites>", encoding="utf-8")
    assert list(drift.failures(path)) == [("tests.test_a::test_b", "assert 1 == 2"),
                                          ("tests.test_c", "collection failure")]


def test_the_report(drift):
    versions = {"numpy": ("2.4.6", "2.5.0")}
    text, drifted = drift.report(versions, [], {"10_a": [], "20_b": []})
    assert not drifted and "| numpy | 2.4.6 | 2.5.0 |" in text
    assert "**No drift**. Tests that fail: 0. Cells that differ, in 2 chapters: 0." in text
    text, drifted = drift.report(versions, [("t::a", "assert 0")], {"10_a": []})
    assert drifted and "- `t::a`: `assert 0`" in text and "## 10_a" not in text
    text, drifted = drift.report(versions, [], {"10_a": [("cell", "2 is now 3", "Z = 2", f"{ROOT}/a.py: Z = 3")]})
    assert drifted and text.endswith("## 10_a\n\n`cell`: 2 is now 3\n\n```diff\n- Z = 2\n+ a.py: Z = 3\n```\n")
    text, drifted = drift.report(versions, [], {"10_a": [("cell", "x", "y" * 100, "z")] * 1000})
    assert drifted and len(text) < 65_536 and text.endswith("(The rest is cut off.)\n")


def test_cells_that_measure_are_tagged():
    """Known ones, so that a renamed tag is noticed; `make drift` would name any other by its changing numbers."""
    tagged = {each["id"] for path in (ROOT / "notebooks").glob("*.ipynb")
              for each in json.loads(path.read_text(encoding="utf-8"))["cells"]
              if "measured" in each["metadata"].get("tags", [])}
    assert {"floor-roof-measured", "floor-live-table", "digits-train-both"} <= tagged

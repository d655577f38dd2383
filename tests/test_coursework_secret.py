"""The secret of a course: made once, and an error if anything else is found in its place. It needs no nbgrader."""

import os
import re
from pathlib import Path

import pytest
from test_coursework import run_course

from coursework.grading import course_secret
from coursework.grading.course_secret import secret_of

GOOD = "0123456789abcdef" * 2


def test_it_is_made_once_for_its_owner(tmp_path):
    first = secret_of(tmp_path)
    assert re.fullmatch("[0-9a-f]{32}", first) and secret_of(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "other").mkdir()
    assert secret_of(tmp_path / "other") != first


def test_what_was_written_is_read(tmp_path):
    (tmp_path / "secret").write_text(GOOD, encoding="ascii")
    assert secret_of(tmp_path) == GOOD


DAMAGED = {
    "empty": (b"", "has 0 characters"), "truncated": (GOOD[:-1].encode(), "has 31 characters"),
    "more": (GOOD.encode() + b"0", "has 33 characters"), "a line break": (GOOD.encode() + b"\n", "has 33 characters"),
    "blank": (b" \n", "has 2 characters"), "as many blanks": (b" " * 32, "has ' ' as its character 1"),
    "no digit": (GOOD[:20].encode() + b"g" + GOOD[21:].encode(), "has 'g' as its character 21"),
    "capitals": (GOOD.upper().encode(), "has 'A' as its character 11"), "zeros": (bytes(32), "as its character 1;"),
    "no text": (b"\xff" * 32, "as its character 1;"),
}


@pytest.mark.parametrize("content, found", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_one_is_an_error(tmp_path, content, found):
    """It names the file, what was found and the rule; it gives no digit away, and leaves the file as it is."""
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(ValueError) as error:
        secret_of(tmp_path)
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'secret'} has ") and found in message
    assert "expected 32 of the digits 0-9 and a-f, and nothing else" in message and GOOD[:6] not in message
    assert (tmp_path / "secret").read_bytes() == content


@pytest.mark.parametrize("make, found", [
    (Path.mkdir, "is a folder"), (lambda path: path.symlink_to("nowhere"), "is a link that leads nowhere"),
    (os.mkfifo, "is not a plain file"),
], ids=["a folder", "a link", "a pipe"])
def test_what_is_no_file_is_an_error(tmp_path, make, found):
    make(tmp_path / "secret")
    with pytest.raises(ValueError, match=f"secret {found}; expected 32"):
        secret_of(tmp_path)


def test_it_is_never_there_in_part(tmp_path, monkeypatch):
    """Whatever goes wrong while it is written: there is none, and the next call makes one."""
    def fails(*_):
        assert not (tmp_path / "secret").exists()
        raise OSError("no space left")

    monkeypatch.setattr(course_secret.os, "fsync", fails)
    with pytest.raises(OSError, match="no space left"):
        secret_of(tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    assert len(secret_of(tmp_path)) == 32


@pytest.mark.parametrize("module, arguments", [
    ("grading", ["submissions", "--assignment", "1_ctc_alpha"]), ("handing_out", []),
])
def test_commands_say_so(course_python, tmp_path, module, arguments):
    """`make grade` and `make assignments` end with the sentence, and nothing is graded or handed out."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").touch()
    run = run_course(course_python, "-m", f"coursework.{module}", *arguments, "--out", tmp_path / "out")
    assert run.returncode == 1 and run.stderr.startswith("make ") and "secret has 0 characters" in run.stderr
    assert "Traceback" not in run.stderr and [path.name for path in (tmp_path / "out").iterdir()] == ["secret"]

"""The secret of a course, which hidden numbers are drawn from: made once, read ever after, and never made anew.

It is 32 hexadecimal digits in a file of its own. A course that lost it and got another one would give other marks for
the same submissions, and nobody would know why; so whatever else is found in its place is an error.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from pathlib import Path

__all__ = ["NAME", "secret_of"]

#: Of the file, in the folder of the course.
NAME = "secret"
_BYTES = 16
_DIGITS = 2 * _BYTES
_WELL_FORMED = re.compile(rb"[0-9a-f]*")
_RULE = (f"expected {_DIGITS} of the digits 0-9 and a-f, and nothing else. Hidden numbers are drawn from it: put back "
         "the file that this course began with. If it is lost, delete what is there, and grade every submission again: "
         "marks may change")


def secret_of(folder) -> str:
    """The secret of the course in this folder, which gets one if it has none.

    Raises
    ------
    ValueError
        If anything but a secret is in its place; names the file, what was found, and the rule. It quotes no digit.
    OSError
        If it cannot be read or written.
    """
    file = Path(folder) / NAME
    if not os.path.lexists(file):
        _make(file)
    if not file.is_file():
        raise ValueError(f"{file} is {_kind(file)}; {_RULE}")
    found = file.read_bytes()
    if len(found) != _DIGITS:
        raise ValueError(f"{file} has {len(found)} characters; {_RULE}")
    odd = _WELL_FORMED.match(found).end()
    if odd < _DIGITS:
        raise ValueError(f"{file} has {chr(found[odd])!r} as its character {odd + 1}; {_RULE}")
    return found.decode("ascii")


def _make(file):
    """Written under another name first, so that the file is never there in part; readable by its owner only."""
    handle, path = tempfile.mkstemp(prefix=f".{NAME}-", dir=file.parent)  # with permissions 0600
    try:
        with open(handle, "w", encoding="ascii") as new:
            new.write(secrets.token_hex(_BYTES))
            new.flush()
            os.fsync(new.fileno())
        os.replace(path, file)
    except BaseException:
        os.unlink(path)
        raise


def _kind(file):
    if file.is_dir():
        return "a folder"
    return "a link that leads nowhere" if file.is_symlink() else "not a plain file"

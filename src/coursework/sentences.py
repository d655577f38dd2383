"""Texts of strangers as they may stand in a report, a table or a terminal: one line, and nothing that is not seen."""

from __future__ import annotations

import re

__all__ = ["one_line", "seen"]

#: What moves a cursor, changes colours, breaks a line or turns the direction of writing; all but the line feed.
_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def seen(text) -> str:
    r"""With a mark in the place of each character that is not seen.

    Examples
    --------
    >>> seen("\x1b[2J10 of 10") == "\ufffd[2J10 of 10"
    True
    """
    return _UNSEEN.sub("\ufffd", text)


def one_line(text) -> str:
    r"""The same, without breaks.

    Examples
    --------
    >>> one_line("it fails\n# ada: 10 of 10")
    'it fails # ada: 10 of 10'
    """
    return re.sub(r"\s*\n\s*", " ", seen(text.strip()))

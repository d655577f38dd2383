"""What a row of the Rosetta stone is: words, two functions, and the claims it rests on. The rows are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Row"]

@dataclass(frozen=True)
class Row:
    """A quantity under two names.

    Attributes
    ----------
    key : str
        Its name, for the test that checks it.
    cells : tuple of str
        What the page says, in Markdown.
    to_ours, from_ours : callable, optional
        The conversion, in NumPy; neither is there if names are all that differs.
    claims : tuple of str
        What was read in whose code, by ids in ``data/claims.json``.
    checked_as : str, optional
        The key of the row whose conversion this one repeats, under another name.
    """

    key: str
    cells: tuple[str, ...]
    to_ours: Callable | None = None
    from_ours: Callable | None = None
    claims: tuple[str, ...] = ()
    checked_as: str = ""

    @property
    def converts(self):
        return self.to_ours is not None or self.from_ours is not None

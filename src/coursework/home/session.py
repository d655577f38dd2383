"""Which cells of a notebook have been run, each as it was run last, for `check` to run them apart. It runs nothing.

A notebook is graded from top to bottom, and a session may have gone back and forth. So a cell stands where it first
succeeded, with the text that it has now; one that was deleted and not run again is not known to be gone.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

__all__ = ["Session", "here"]


@dataclass
class _Cell:
    text: str
    succeeded: bool


class Session:
    """The cells, by their ids, or by their texts where a program tells no ids.

    Examples
    --------
    >>> session = Session()
    >>> for text, succeeded, cell in [("f(2)", False, "b"), ("f = abs", True, "a"), ("f(-2)", True, "b")]:
    ...     session.ran(text, succeeded, cell)
    >>> session.before("check(f)")
    ['f = abs', 'f(-2)']
    """

    def __init__(self):
        self._cells = {}

    def ran(self, text, succeeded, cell=None):
        """A cell was run."""
        key = cell or text
        before = self._cells.get(key)
        if before is not None and succeeded and not before.succeeded:
            del self._cells[key]  # it goes to where it succeeds for the first time
        self._cells[key] = _Cell(text, succeeded or before is not None and before.succeeded)

    def before(self, text, cell=None) -> list[str]:
        """The texts of all cells but this one, which is being run."""
        return [each.text for key, each in self._cells.items() if key not in (cell, text) and each.text != text]


class _Listening(Session):
    """Hears from IPython of each cell."""

    def __init__(self, shell):
        super().__init__()
        self._shell = shell
        for text in shell.history_manager.input_hist_raw[1:-1]:  # before this one, without their ids
            self.ran(text, True)
        shell.events.register("post_run_cell", self._heard)

    def _heard(self, result):
        if result.info is not None and result.info.store_history:
            self.ran(result.info.raw_cell, result.success, result.info.cell_id)

    def now(self) -> list[str]:
        """The texts of the cells until now; the last is the one that is being run."""
        text = self._shell.history_manager.input_hist_raw[-1]
        return [*self.before(text), text]


_listening = None


def here() -> _Listening | None:
    """The session of the notebook that this is called in, from now on; None if it is called elsewhere."""
    global _listening
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    if _listening is None:
        _listening = _Listening(shell)
    return _listening

"""The tables of the page "Line by line": one for each library."""

from __future__ import annotations

from .ctc_lines import CTC_LINES
from .rnnt_lines import RNNT_LINES

__all__ = ["LINES"]

#: Rows by the names of the tables, which begin with "line-".
LINES = {f"line-{name.replace('_', '-')}": rows for name, rows in (RNNT_LINES | CTC_LINES).items()}

"""What compute-sanitizer printed: errors by kernel, whether it found what was planted, whether it ran at all."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

__all__ = ["KERNELS", "TOOLS", "found", "where"]

KERNELS = tuple(f"{kind}_{name}" for kind in ("rnnt", "ctc") for name in ("rows", "forward", "backward", "gradient"))
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (.*)")
_OF_NO_RECORD = re.compile(r"COMPUTE-SANITIZER|SUMMARY|Target application returned")
_PLANTED = "planted: "  # what launches.py prints before it launches the planted kernel


def where():
    """The path of compute-sanitizer, or None."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    beside = [Path(home) / "bin" / "compute-sanitizer" for home in homes if home]
    return shutil.which("compute-sanitizer") or next((str(path) for path in beside if path.is_file()), None)


def found(printed, launches):
    """A row of the stage's result.

    Parameters
    ----------
    printed : str
        By `launches.py` and the tool, mixed.
    launches : int
        How many there should be.

    Returns
    -------
    dict
        ``launched``; ``errors``, of our kernels: name, then what the tool says in its first line and how often;
        ``elsewhere``, of other kernels and of calls; ``planted_was_found``: None if nothing was planted; ``summary`` of
        the tool, None if it gave none.
    """
    errors, elsewhere, planted = {}, Counter(), False if f"\n{_PLANTED}" in f"\n{printed}" else None
    for lines, after in _records(printed):
        text = "\n".join(lines)
        kernel = next((kernel for kernel in KERNELS if re.search(rf"\b{kernel}\b", text)), None)
        if re.search(r"\bplanted_\w+check\b", text):
            planted = True
        elif kernel:
            place = re.search(rf"\b{kernel}\b\S* in (\S+)", text)
            errors.setdefault(kernel, Counter())[lines[0] + (f" in {place[1]}" if place else "")] += 1
        elif not (after and lines[0].startswith("Program hit")):  # a call that failed after the planted error
            elsewhere[lines[0]] += 1
    summary = _SUMMARY.findall(printed)
    return {"launched": len(re.findall(r"^launched \d", printed, re.MULTILINE)), "launches": launches,
            "errors": {kernel: dict(said) for kernel, said in errors.items()}, "elsewhere": dict(elsewhere),
            "planted_was_found": planted, "summary": summary[-1] if summary else None}


def _records(printed):
    """The tool's findings, each its lines and whether it came after the planted kernel.

    A finding begins behind its mark with a capital letter; what belongs to it is set in.
    """
    records, after = [], False
    for line in printed.splitlines():
        after = after or line.startswith(_PLANTED)
        if line.startswith("========= ") and not _OF_NO_RECORD.search(line):
            text = line.removeprefix("========= ")
            if text.strip() and not text.startswith(" "):
                records.append(([], after))
            if records:
                records[-1][0].append(text.strip()[:200])
    return records

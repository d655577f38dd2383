"""Stage 2: compute-sanitizer on launches of all eight kernels: memory, races, barriers, reads of what nobody wrote.

In a rehearsal on ptx_machine, the machine itself takes the place of the tool.

A tool says something only if it saw every launch, and found the error that was planted after them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from . import sanitizer
from .launches import CASES, PLANTED
from .record import ROOT, NotThere, Record, about

__all__ = ["run"]

SCRIPT = Path(__file__).parent / "launches.py"
WHAT = "what compute-sanitizer says about launches of all eight kernels that differ in what they do to memory"


def run(where, folder, options):
    """Run the stage on a `Device`; its status."""
    record = Record(folder / "cuda_memory.json", about("memory", WHAT, where), options.seconds, options.fresh)
    rows = record.result.setdefault("rows", [])
    for row in [row for row in rows if row.get("time was up")]:  # in the run before; it is tried again
        rows.remove(row)
        del record.result["parts"][row["tool"]]
    program = sanitizer.where() if where.tensors == "cuda" else None

    def by(tool):
        if not program:
            raise NotThere("compute-sanitizer", "accesses to memory, races and barriers were not checked")
        return checked(tool, [program, "--tool", tool], where, record.left())

    # the first one shows that the launches end, and compiles the kernels for the others
    parts = {"no tool": lambda: checked("no tool", [], where, record.left()),
             **{tool: lambda tool=tool: by(tool) for tool in sanitizer.TOOLS}}
    if where.name == "ptx_machine":
        parts = {"ptx_machine": lambda: checked("ptx_machine", [], where, record.left())}
    record.run(parts, options.only)
    record.result["left_out"] += [row["tool"] for row in rows if row.get("time was up")]
    for row in rows:
        print(said(row))
    return record.finish(any(map(is_bad, rows)))


def checked(tool, command, where, seconds):
    """One row: the launches under a tool."""
    script = [sys.executable, str(SCRIPT), "--device", where.tensors, *(["--planted", tool] if tool in PLANTED else [])]
    # without a cache each array is an allocation of its own, and what is beyond it belongs to nothing
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    process = subprocess.Popen([*command, *script], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", process_group=0)
    late = False
    try:
        printed = process.communicate(timeout=max(seconds, 1))[0]
    except subprocess.TimeoutExpired:
        end(process)
        printed, late = process.communicate()[0], True
    finally:
        end(process)
    row = {"tool": tool, **sanitizer.found(printed, len(CASES))}
    last = ([line for line in printed.splitlines() if line.strip()] or ["no output"])[-1][:300]
    if command and not row["launched"] and not late:
        raise NotThere(f"compute-sanitizer --tool {tool}", f"it ran nothing: {refusal(printed) or last}")
    if late:
        row |= {"time was up": True, "planted_was_found": row["planted_was_found"] or None}
    elif row["launched"] < row["launches"] or (tool in PLANTED and row["planted_was_found"] is None):
        row |= {"stopped": last}
    return [row]


def end(process):
    """The tool and what it runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def refusal(printed):
    """The tool's own words if it refused the device, as it does on some virtual machines; "" if not."""
    refused = [line for line in printed.splitlines() if "not supported" in line.lower()]
    return refused[0].removeprefix("========= ") if refused else ""


def is_bad(row):
    """Whether a tool reports one of our kernels, missed what was planted, or was not shown all launches."""
    return bool(row["errors"] or row["planted_was_found"] is False or "stopped" in row)


def said(row):
    """A row in one line."""
    planted = {None: "nothing planted", True: "the planted error was found", False: "THE PLANTED ERROR WAS NOT FOUND"}
    errors = sum(sum(each.values()) for each in row["errors"].values())
    return (f"{row['tool']:10} {row['launched']} of {row['launches']} launches; {errors} errors of our kernels, "
            f"{sum(row['elsewhere'].values())} elsewhere; {planted[row['planted_was_found']]}"
            + (f"; stopped: {row['stopped']}" if "stopped" in row else "")
            + ("; the time was up" if row.get("time was up") else ""))

"""The JSON of a stage: written whole after each part, and continued where the run before was ended."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import platform
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

from .device import is_lost

__all__ = ["NotThere", "Record", "about", "first_line", "selected", "sources", "target", "write_whole"]

ROOT = Path(__file__).parents[2]


class NotThere(Exception):
    """What a part needs is not there: it is left out. The arguments are what is missing, and what follows from it."""


def write_whole(path, result):
    """JSON that is there whole or not at all: a reader, or the next run, never meets half of it."""
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def sources(root=ROOT):
    """A digest of the code that stages run: package, tests, benchmarks. Results of different code are not mixed."""
    digest = hashlib.sha256()
    for path in sorted([*root.glob("src/reference_impl/**/*.py"), *root.glob("tests/*.py"),
                        *root.glob("benchmarks/**/*.py")]):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def about(stage, what, device):
    """What must be the same for a file to be continued."""
    import contenders
    import torch

    from reference_impl import __version__

    return {"what": what, "stage": stage, **device.described(), "python": platform.python_version(),
            "sources": sources(),
            "versions": {"reference_impl": __version__, **contenders.versions(), "cuda": torch.version.cuda or "none"}}


def first_line(error):
    """An exception in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def selected(names, only):
    """Those that contain one of the given words; all of them if no word is given."""
    return [name for name in names if not only or any(word in name for word in only)]


def target(what, limit, measured):
    """A target as it is stored: what is to be `limit` at most, and was `measured`; None if nothing was."""
    return {"target": what, "at_most": limit, "measured": measured,
            "met": None if measured is None else bool(measured <= limit)}


class Record:
    """What a stage has found, and the file that holds it.

    Parameters
    ----------
    path : Path
    identity : dict
        Of `about`. A file with another one is begun anew.
    seconds : float
        In which parts may begin, counted from here.
    fresh : bool
        Begin anew in any case.
    clock : callable
        Seconds, for tests.
    """

    def __init__(self, path, identity, seconds, fresh=False, clock=time.monotonic):
        self.path, self.seconds, self.clock = path, seconds, clock
        self.began, self.longest, self.lost = clock(), None, False
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        same = not fresh and all(before.get(name) == value for name, value in identity.items())
        self.result = before if same else {**identity, "date": "", "complete": False, "seconds": 0.0}
        self.interrupted = self.result.pop("running", None)
        self.result |= {"missing": {}, "left_out": []}
        self.result.setdefault("parts", {})
        self.seconds_before = self.result["seconds"]
        if before and not same:
            print(f"{path.name} is of another run: begun anew")

    @property
    def complete(self):
        return self.result["complete"]

    def left(self):
        """Seconds until no part may begin."""
        return self.seconds - (self.clock() - self.began)

    def save(self):
        self.result["date"] = datetime.now(UTC).date().isoformat()
        self.result["seconds"] = round(self.seconds_before + self.clock() - self.began, 1)
        write_whole(self.path, self.result)

    def miss(self, what, consequence):
        """Say and store that something is not there, and what therefore was not done."""
        if what not in self.result["missing"]:
            print(f"missing: {what}: {consequence}", flush=True)
        self.result["missing"][what] = consequence

    def run(self, parts, only=(), table="rows"):
        """Those of the parts that are not done yet, in their order, as long as time is left.

        ``parts`` are functions by name; each returns rows, which are stored in ``table`` when it has ended. The first
        one runs in any case. Another begins only if as much time is left as the longest one took, so that what has
        begun can end. The one in which the run before was ended comes last.
        """
        self.result.setdefault(table, [])
        wanted = selected(parts, only)
        for name in sorted(parts, key=lambda name: name == self.interrupted):
            if name in self.result["parts"]:
                print(f"{name}: done before")
            elif name not in wanted or self.lost or (self.longest is not None and self.left() < self.longest):
                self.result["left_out"].append(name)
            else:
                self._run(name, parts[name], self.result[table])

    def _run(self, name, part, rows):
        print(name, flush=True)
        self.result["running"] = name
        self.save()
        began, found = self.clock(), {}
        try:
            rows += list(part())
        except NotThere as missing:
            self.miss(*missing.args)
            self.result["left_out"].append(name)
            del self.result["running"]
            return
        except Exception as error:  # stored, and no reason to do without the other parts
            traceback.print_exc(limit=-3, chain=False)
            found["failed"] = first_line(error)
            self.lost = is_lost(str(error))
        gc.collect()
        taken = self.clock() - began
        self.longest = max(taken, self.longest or 0)
        self.result["parts"][name] = {"seconds": round(taken, 1), **found}
        del self.result["running"]
        self.save()

    def finish(self, failed=False):
        """Store whether everything was done, say what was not, and return the status of the stage."""
        failures = {name: part["failed"] for name, part in self.result["parts"].items() if "failed" in part}
        self.result["complete"] = not self.result["left_out"]
        self.save()
        for name, reason in failures.items():
            print(f"failed: {name}: {reason}")
        if self.lost:
            print("The CUDA context was lost; the same command goes on in a new one.")
        if self.result["left_out"]:
            print(f"left out: {', '.join(self.result['left_out'])}")
        for each in self.result.get("targets", []):
            said = {None: "not measured", True: "met", False: "MISSED"}[each["met"]]
            measured = "" if each["measured"] is None else f"{each['measured']:.3g}, "
            print(f"target: {each['target']}: {measured}at most {each['at_most']:.3g}: {said}")
        print(f"written: {self.path}", "" if self.complete else "(unfinished)")
        return 1 if failures or failed else 0 if self.complete else 4

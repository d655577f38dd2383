"""Stage 1: the tests that run kernels, on the device. Ordered so that a lack of time costs repetitions only.

Some processes share the tests, since most of a test's time is that of the compiler. A test that crashes or hangs its
process, or ruins its CUDA context, counts as failed, and the others go on in a new process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .record import ROOT, Record, about, selected

__all__ = ["FILES", "run"]

FILES = [f"tests/test_{name}.py" for name in ("triton", "values", "edges", "fastemit_and_clamp", "never_below_zero",
                                              "torch_impl", "transforms", "tracing", "variants", "hat", "pruning",
                                              "properties")]
WHAT = "tests of the losses and their kernels on a device: counts by file, failures, and what was left out"
HANGS = 150.0  # seconds without an outcome: no test takes so long, its compilations included
POLL, TELL = 0.5, 10.0  # seconds between two looks at the processes, and between two writings of the file


class Share:
    """One of the processes' share of the tests: runs pytest, again after a crash, and reads what it writes."""

    def __init__(self, number, shares, folder, where, options, done):
        self.log, self.plan = folder / f"{number}.log", folder / f"{number}.json"
        self.process, self.read, self.running, self.since = None, 0, None, 0.0
        self.planned, self.outcomes, self.uncollected, self.had = None, {}, {}, 0
        self.where, self.done, self.only = where, done, options.only
        self.settings = {"share": number, "shares": shares, "only": options.only, "log": str(self.log)}
        self.log.touch()

    def start(self, until):
        self.plan.write_text(json.dumps({**self.settings, "until": until, "done": [*self.done, *self.outcomes]}),
                             encoding="utf-8")
        environment = {**os.environ, "GPU_TESTS": str(self.plan)}
        # a warning of another version than the pinned ones is no failure of a kernel
        tiers = [] if self.where.rehearsal else ["-m", "slow or not slow"]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "gpu_stages.pytest_order",
                   "-W", "default", "--continue-on-collection-errors", *tiers, *FILES]
        with open(self.log.with_suffix(".out"), "ab") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
        self.since, self.had = time.monotonic(), len(self.outcomes)

    def look(self):
        """Read what was written since, and end a process that hangs; whether the process still runs."""
        ended = self.process.poll()
        with open(self.log, encoding="utf-8") as log:
            log.seek(self.read)
            for line in log:
                if not line.endswith("\n"):
                    break
                self.read += len(line.encode())
                self._take(json.loads(line))
        if ended is None and time.monotonic() - self.since > HANGS:
            self.process.kill()
            self.process.wait()
            self._blame(f"hangs: no outcome after {HANGS:.0f} s")
            return False
        if ended is not None and self.running:
            self._blame(f"its process ended by {ended}" if ended >= 0 else f"its process ended by signal {-ended}")
        return ended is None

    def _take(self, said):
        if "share" in said:
            self.planned = self.planned or said["share"]
        elif "start" in said:
            self.running = said["start"]
        elif "not_collected" in said:
            self.uncollected[said["not_collected"]] = said["message"]
        else:
            self.outcomes[said["test"]] = said
            self.running = None
        self.since = time.monotonic()

    def _blame(self, message):
        if self.running:
            self._take({"test": self.running, "outcome": "failed", "seconds": 0.0, "message": message})

    def may_go_on(self):
        """Whether tests of the share have no outcome yet, although the last process got on with them."""
        wanted = selected(self.planned or [], self.only)
        return len(self.outcomes) > self.had and any(t not in self.outcomes and t not in self.done for t in wanted)

    def why(self):
        """What pytest printed last: why there is no share."""
        return " ".join(self.log.with_suffix(".out").read_text(errors="replace").split()[-40:])


def run(where, folder, options):
    """Run the stage on a `Device`; its status."""
    record = Record(folder / "cuda_correctness.json", about("correctness", WHAT, where), options.seconds, options.fresh)
    if record.complete:
        print(f"{record.path.name} is complete for this code on this device; --fresh begins anew")
        return record.finish(bool(record.result["failures"]))
    done = {f"{file}::{name}": {"test": f"{file}::{name}", "outcome": "passed", "seconds": 0.0}
            for file, names in record.result.get("passed", {}).items() for name in names}
    done |= {failure["test"]: failure for failure in record.result.get("failures", [])}
    if importlib.util.find_spec("pytest") is None:
        record.miss("pytest", "no test was run")
        record.result["left_out"] = FILES
        return record.finish()
    shares = options.workers or min(8, max(1, (os.cpu_count() or 1) // 2))
    with tempfile.TemporaryDirectory() as scratch:
        running = [Share(number, shares, Path(scratch), where, options, set(done)) for number in range(shares)]
        _until_done(running, record, done)
        for share in running:
            if share.planned is None and not share.uncollected:
                record.miss("a run of pytest", share.why())
                record.result["left_out"] = FILES
    return record.finish(bool(record.result["failures"]) or "a run of pytest" in record.result["missing"])


def _until_done(shares, record, done):
    """Until every test has an outcome or the time is up; the file is written every few seconds."""
    until = time.time() + record.left()
    for share in shares:
        share.start(until)
    told, alive = time.monotonic(), set(shares)
    while alive:
        time.sleep(POLL)
        for share in list(alive):
            if not share.look():
                if share.may_go_on() and record.left() > 0:
                    share.start(until)
                else:
                    alive.remove(share)
        if time.monotonic() - told > TELL:
            told = time.monotonic()
            _store(shares, record, done)
    _store(shares, record, done)


def _store(shares, record, done):
    outcomes = dict(done)
    for share in shares:
        outcomes |= share.outcomes
        for path, message in share.uncollected.items():
            module = re.search(r"No module named '([\w.]+)'", message)
            record.miss(module[1] if module else path, f"{path} was not collected: {message}")
    planned = dict.fromkeys(test for share in shares for test in share.planned or [])
    of_files = {}
    for test in [*planned, *outcomes]:
        file, _, name = test.partition("::")
        outcome = outcomes.get(test, {"outcome": "left out"})
        of_files.setdefault(file, {})[name] = outcome
    rows = [{"file": file, **Counter(each["outcome"] for each in tests.values()),
             "seconds": round(sum(each.get("seconds", 0) for each in tests.values()), 1)}
            for file, tests in of_files.items()]
    counts = Counter(each["outcome"] for tests in of_files.values() for each in tests.values())
    failures = [{key: outcome[key] for key in ("test", "outcome", "seconds", "message")}
                for outcome in outcomes.values() if outcome["outcome"] == "failed"]
    skipped = Counter(outcome["message"] for outcome in outcomes.values() if outcome["outcome"] == "skipped")
    record.result |= {
        "counts": dict(counts), "failures": failures, "skipped": dict(skipped), "rows": rows,
        "left_out": [f"{count} tests of {row['file']}" for row in rows if (count := row.get("left out"))]
                    + sorted({path for share in shares for path in share.uncollected}),
        "passed": {file: [name for name, each in tests.items() if each["outcome"] == "passed"]
                   for file, tests in of_files.items()}}
    record.save()
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()), flush=True)

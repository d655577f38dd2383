"""Grades every peer whose environment is there, and writes what it returns into data/conformance/: `make conformance`.

    .venv/bin/python peers/run.py                  every peer
    .venv/bin/python peers/run.py torch paddle     the peers of these libraries only
    .venv/bin/python peers/run.py --missing        those without a file, and those whose adapter or checker has changed
    PYTHONPATH=src python3 peers/run.py --here     those that need CUDA, with the libraries that this Python has

A peer is asked through JSON lines, in its own environment; the checker runs in this one. What a peer does differently
from the reference is what the table is about, so nothing fails here: the exit status is 1 only if there is no report
of a peer that has an environment, since it does not answer, or the checker stumbled over what it said. A file is
written whole after each peer. data/conformance.schema.json says what is in it.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import platform
import subprocess
import sys
import traceback
from importlib import metadata
from pathlib import Path

from environments import ROOT, digest, peers, pinned, programs, version

from reference_impl import __version__, conformance
from reference_impl.conformance import NotAnswering, Program, grade

FOLDER = ROOT / "data" / "conformance"
#: Seconds for an answer: what hangs is to be told from what compiles.
PATIENCE = 60.0
#: Seconds for each finding, in which the smallest input that shows it is looked for: some libraries compile for each.
SHRINKING = 15.0


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help="folders in libraries/; all if left out")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--missing", action="store_true",
                        help="only peers without a file, or with one of an adapter or checker that has changed since")
    parser.add_argument("--here", action="store_true",
                        help="only peers that need CUDA, in this Python instead of their environments")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    asked = [each for each in programs(given.libraries, here=given.here)
             if not (given.missing and _is_fresh(each[0], given.out))]
    failed = []
    for number, (peer, command, variables) in enumerate(asked, start=1):
        print(f"[{number}/{len(asked)}] {peer.name}: ", end="", flush=True)
        try:
            with Program(command, environment=variables, patience=PATIENCE) as subject:
                report = grade(subject, without=peer.without, seconds=SHRINKING)
        except NotAnswering as error:
            print(f"NOT ANSWERING; {error}", flush=True)
            failed.append(peer.name)
            continue
        except Exception:  # of the checker, over what this peer said: the others are asked all the same
            print(f"NO REPORT\n{traceback.format_exc()}", flush=True)
            failed.append(peer.name)
            continue
        path = file_of(peer, given.out)
        written = {**_stamp(peer, command[0], given.here), **report.as_json()}
        path.write_text(json.dumps(written, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        count = report.counted
        print(f"{count.asked - count.wrong} of {count.asked} cases right, {len(report.findings)} findings, "
              f"{report.seconds:.0f} s", flush=True)
    for peer in peers(given.libraries):
        if peer.missing and not given.here:
            print(f"{peer.name}: not asked; {peer.missing}", flush=True)
    if failed:
        print(f"No report of: {'; '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def file_of(peer, folder=FOLDER):
    """Where the report of a peer lies."""
    return folder / f"{peer.slug}.json"


def _is_fresh(peer, folder):
    path = file_of(peer, folder)
    stamp = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return (stamp.get("adapter"), stamp.get("kit")) == (digest(peer), _kit())


def _kit():
    """A digest of the checker's source: a later one may ask more, and say it in other words."""
    files = sorted(Path(conformance.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _stamp(peer, python, here):
    """What made a report: the library's Python and packages, the adapter, the checker."""
    packages = pinned(peer.library)
    if here:
        names = [each.partition("==")[0] for each in packages]
        packages = [f"{name}=={metadata.version(name)}" for name in names]
    return {"$schema": "../conformance.schema.json", "peer": peer.name, "library": peer.library,
            "date": datetime.date.today().isoformat(), "checker": f"reference_impl {__version__}",
            "python": version(python).split()[0], "machine": _machine(peer), "packages": packages,
            "adapter": digest(peer), "kit": _kit()}


def _machine(peer):
    machine = f"{platform.system()} {platform.machine()}"
    if peer.needs == "cuda":
        names = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True,
                               text=True, check=True)
        machine += f", {names.stdout.splitlines()[0].strip()}"
    return machine


if __name__ == "__main__":
    sys.exit(main())

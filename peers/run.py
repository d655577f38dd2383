"""Grades every peer whose environment is there, and writes what it returns into data/conformance/: `make conformance`.

    .venv/bin/python peers/run.py                  every peer
    .venv/bin/python peers/run.py torch paddle     the peers of these libraries only

A peer is asked through JSON lines, in its own environment; the checker runs in this one. What a peer does differently
from the reference is what the table is about, so nothing fails here: the exit status is 1 only if a peer that has an
environment does not answer at all. A file is written whole after each peer.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import sys
from pathlib import Path

from environments import ROOT, peers, programs

from reference_impl import __version__
from reference_impl.conformance import NotAnswering, Program, grade

FOLDER = ROOT / "data" / "conformance"
#: Seconds for an answer: what hangs is to be told from what compiles.
PATIENCE = 60.0


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help="folders in peers/; all of them if left out")
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    silent = []
    for peer, command, variables in programs(given.libraries):
        try:
            with Program(command, environment=variables, patience=PATIENCE) as subject:
                report = grade(subject, without=peer.without)
        except NotAnswering as error:
            print(f"{peer.name}: {error}", file=sys.stderr, flush=True)
            silent.append(peer.name)
            continue
        path = given.out / f"{slug(peer.name)}.json"
        path.write_text(json.dumps({**_stamp(peer), **report.as_json()}, indent=1, allow_nan=False) + "\n",
                        encoding="utf-8")
        asked, wrong = (sum(getattr(each, name) for each in report.groups.values()) for name in ("asked", "wrong"))
        print(f"{peer.name}: {asked - wrong} of {asked} cases right, {len(report.findings)} findings, "
              f"{report.seconds:.0f} s", flush=True)
    for peer in peers(given.libraries):
        if peer.missing:
            print(f"{peer.name}: not asked; {peer.missing}", flush=True)
    return 1 if silent else 0


def slug(name):
    """A peer's name as that of a file."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _stamp(peer):
    return {"peer": peer.name, "library": peer.library, "date": datetime.date.today().isoformat(),
            "checker": f"reference_impl {__version__}", "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}"}


if __name__ == "__main__":
    sys.exit(main())

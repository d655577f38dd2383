"""Asks libraries what no report shows, by the calls in their `calls.py`, and writes the answers into data/calls/.

    .venv/bin/python peers/calls.py              every library with a `calls.py` and an environment
    .venv/bin/python peers/calls.py k2 nemo      these only

A file holds, for a library, what made it (date, Python, packages, a digest of the script) and the answer to each
question, by name. `make conformance` calls this after the grading. It judges nothing: tests/test_calls.py does, and
the claims in data/claims.json that rest on an answer name it.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from environments import ENVIRONMENTS, LIBRARIES, ROOT, is_ready, libraries, pinned, sources, variables, version

FOLDER = ROOT / "data" / "calls"


def scripts(only=()) -> dict[str, Path]:
    """The scripts, by library."""
    return {path.parent.name: path for path in sorted(LIBRARIES.glob("*/calls.py"))
            if not only or path.parent.name in only}


def digest(script: Path) -> str:
    """A digest of what decides the answers: packages, the script and what it imports from common/."""
    parts = [*pinned(script.parent.name), *(source.read_text() for source in sources(script))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def ask(script: Path) -> dict:
    """What the file of a library says."""
    folder = script.parent.name
    python = ENVIRONMENTS / folder / "bin" / "python"
    with tempfile.TemporaryDirectory() as room:
        path = Path(room, "answers.json")
        subprocess.run([python, "-W", "ignore", script, path], check=True,
                       env=variables(folder, libraries()[folder].get("variables", {})))
        answers = json.loads(path.read_text(encoding="utf-8"))
    return {"library": folder, "date": datetime.date.today().isoformat(), "python": version(python).split()[0],
            "machine": f"{platform.system()} {platform.machine()}", "packages": pinned(folder),
            "script": digest(script), "answers": answers}


def as_text(found: dict) -> str:
    """The file's text, an answer a line."""
    answers = ",\n".join(f"  {json.dumps(name)}: {json.dumps(answer)}" for name, answer in found["answers"].items())
    head = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in found.items()
                   if name != "answers")
    return f'{{\n{head} "answers": {{\n{answers}\n }}\n}}\n'


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help="folders in libraries/; all if left out")
    given = parser.parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    failed = []
    for folder, script in scripts(given.libraries).items():
        if not is_ready(folder):
            print(f"{folder}: not asked; there is no environment, or it is not up to date", flush=True)
            continue
        try:
            found = ask(script)
        except subprocess.CalledProcessError as error:
            print(f"{folder}: FAILED with status {error.returncode}", flush=True)
            failed.append(folder)
            continue
        (FOLDER / f"{folder}.json").write_text(as_text(found), encoding="utf-8")
        print(f"{folder}: {len(found['answers'])} answers", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes the test vectors, and checks somebody's results against them.

    python -m reference_impl.conformance.vectors write [--out FOLDER]
    python -m reference_impl.conformance.vectors check RESULTS [--vectors FILE] [--without GROUP]...

`check` prints by id which term is wrong, and exits with 1 if anything is, or is missing. The status is 2 if a file
cannot be read or written.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

import jsonschema

from ..problem import LOSSES
from .compare import compare
from .document import FOLDER, public
from .results import NotResults, check_vectors, read_results

__all__ = []


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m reference_impl.conformance.vectors",
                                     description="Write the test vectors, or check results against them.")
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("write", help="compute the vectors in 50 digits and write them; needs mpmath")
    write.add_argument("--out", type=Path, default=FOLDER)
    check = commands.add_parser("check", help="say by id which term is wrong")
    check.add_argument("results", type=Path)
    check.add_argument("--vectors", type=Path, help="the file of vectors; else the one that the results name")
    check.add_argument("--without", action="append", default=[], metavar="GROUP",
                       help="a group that is not looked at; again for more")
    given = parser.parse_args(arguments)
    try:
        return _write(given.out) if given.command == "write" else _check(given)
    except (OSError, ImportError, ValueError, RecursionError) as error:
        print(f"{given.command}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for loss in LOSSES:
        document = public(loss)
        check_vectors(document)
        path = folder / f"{loss}.json"
        path.write_text(as_text(document), encoding="utf-8")
        print(f"{path}: {len(document['cases'])} cases, {path.stat().st_size // 1000} kB")
    return 0


def as_text(document) -> str:
    """A document as JSON with a line for each field of a case."""
    cases = document["cases"]
    head = json.dumps({**document, "cases": []}, indent=1, allow_nan=False)
    lines = []
    for case in cases:
        parts = [f'  "{name}": {_part(case[name])}' for name in case]
        lines.append(" {\n" + ",\n".join(parts) + "\n }")
    return head.removesuffix('"cases": []\n}') + '"cases": [\n' + ",\n".join(lines) + "\n]\n}\n"


def _part(value):
    if not isinstance(value, dict):
        return json.dumps(value, allow_nan=False)
    return "{\n" + ",\n".join(f'   "{name}": {json.dumps(each, allow_nan=False)}' for name, each in value.items()) + "}"


def _check(given):
    with _about(given.results):
        results = read_results(given.results.read_bytes())
        path = given.vectors or FOLDER / f"{results['vectors'].split(' ')[0]}.json"
        if given.vectors is None and path.stem not in LOSSES:
            raise NotResults(f"vectors: {results['vectors'][:60]!r} is not one of the project's; use --vectors.")
    with _about(path):
        document = json.loads(path.read_text(encoding="utf-8"))
        check_vectors(document)
    with _about(given.results):
        if document["name"] != results["vectors"]:
            raise NotResults(f"vectors: {results['vectors'][:60]!r}; {path} has {document['name']!r}.")
    findings = compare(document, results, without=given.without)
    print(findings)
    return 0 if findings.right else 1


@contextlib.contextmanager
def _about(path):
    """An error of what is read from a file, with the name of the file."""
    try:
        yield
    except (OSError, ValueError, RecursionError, jsonschema.ValidationError) as error:
        raise ValueError(f"{path}: {getattr(error, 'message', error)}"[:300]) from error


if __name__ == "__main__":
    sys.exit(main())

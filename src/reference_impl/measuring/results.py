"""Measured results in ``data/`` as chapters show them. It measures nothing itself."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["newest", "row", "stamp"]


def newest(name, folder):
    """The newest result of a benchmark: of ``name.json`` and ``name-*.json`` the one with the latest date, or None.

    A file whose ``rows`` are empty is of a run that was ended before its first measurement, and does not count.

    Parameters
    ----------
    name : str
        Such as "cpu" or "cuda".
    folder : path
        Of a notebook, ``"../data"``.

    Returns
    -------
    dict or None
    """
    folder = Path(folder)
    paths = [folder / f"{name}.json", *sorted(folder.glob(f"{name}-*.json"))]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    measured = [result for result in results if result.get("rows") != []]
    return max(measured, key=lambda result: result["date"], default=None)


def row(result, **entries):
    """The first row of a result that has these entries, or None.

    Examples
    --------
    >>> row({"rows": [{"loss": "ctc", "median": 2.0}, {"loss": "rnnt", "median": 3.0}]}, loss="rnnt")["median"]
    3.0
    """
    found = (each for each in result["rows"] if all(each.get(name) == entry for name, entry in entries.items()))
    return next(found, None)


def stamp(result):
    """One line that says when, on what and with which versions a result was measured, and if it is not complete.

    Examples
    --------
    >>> stamp({"date": "2026-01-31", "python": "3.12.1", "versions": {"numpy": "2.4.6"},
    ...        "machine": {"architecture": "x86_64", "cores": 2}})
    'measured 2026-01-31 on x86_64, 2 cores; python 3.12.1, numpy 2.4.6'
    """
    machine = result.get("machine", {})
    where = result.get("device") or ", ".join(
        f"{value} {name}" if name == "cores" else str(value) for name, value in machine.items())
    versions = {"python": result["python"]} if "python" in result else {}
    versions |= result["versions"]
    return (f"measured {result['date']}" + (f" on {where}" if where else "") + "; "
            + ", ".join(f"{package} {number}" for package, number in versions.items())
            + ("" if result.get("complete", True) else "; unfinished"))

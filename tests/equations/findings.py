"""``data/equations.json``: what the examination of each check found, for the page of checks."""

import functools
import json
from pathlib import Path

from displays import compare, displays
from tex_to_python import Notation
from tex_tokens import TexError

FILE = Path(__file__).parents[2] / "data" / "equations.json"


@functools.cache
def read():
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else []


def write(found):
    """Replace what the file says about the tests' files; it keeps what it says about others."""
    files = {each["test"].partition("::")[0] for each in found}
    entries = [each for each in read() if each["test"].partition("::")[0] not in files] + found
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in sorted(entries, key=lambda each: each["test"]))
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def finding(examined, test, module, marks):
    """What the file says about one comparison of a test."""
    check, coverage, report = examined.compared.check, examined.coverage, examined.compared.report
    return {
        "label": check.label, "test": test, "cases": len(check.cases), "exact": check.tolerance == 0,
        "mutants": report.mutants, "equivalent": report.equivalent,
        "sources": {source: [kind, examined.outcomes[source]] for source, kind in sorted(examined.sources.items())},
        "algebraic": dict(check.algebraic), "sizes": coverage.sizes, "ends": coverage.covered,
        "left_out": coverage.left_out, "tex": _read_by(examined.compared, module, marks),
    }


def notation_of(module, marks):
    """What a chapter's notation says, and the marks of a test add."""
    notation = getattr(module, "NOTATION", Notation())
    for mark in marks:
        notation |= Notation(**mark.kwargs)
    return notation


def _read_by(compared, module, marks):
    """Whether the TeX was compared by machine; else why not."""
    try:
        compare(compared, displays()[compared.check.label], notation_of(module, marks), module.QUANTITIES)
    except TexError as error:
        return f"by eye: {error}"
    return "by machine"

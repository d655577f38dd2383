"""What the examination of a check found, in words: evidence, sizes, ends, mutants, TeX. It reads a file, runs no test.

``tests/equations/conftest.py`` writes the file and keeps it fresh; :mod:`equation_checks` asks this module.
"""

import json
from collections import defaultdict

from docutils import nodes

__all__ = ["by_machine", "entry_nodes", "evidence", "read_findings"]


def read_findings(path):
    """Return ``{(file of the test, its name, label): [finding, ...]}``; a test that compares twice has two."""
    findings = defaultdict(list)
    for finding in json.loads(path.read_text(encoding="utf-8")) if path.exists() else ():
        file, _, name = finding["test"].partition("::")
        findings[file, name.partition("[")[0], finding["label"]].append(finding)
    return dict(findings)


def evidence(findings):
    """Return the kinds of evidence, in a few words, and "algebra" for what depends on no source."""
    sources = [source for each in findings for source in each["sources"].values()]
    kinds = {kind for kind, outcome in sources if outcome not in ("agree", "unused")}
    return ", ".join(sorted(kinds)) or "algebra"


def by_machine(findings):
    return any(each["tex"] == "by machine" for each in findings)


def sentences(finding):
    """Return what an entry says, line by line."""
    yield f"{_cases(finding)} {_mutants(finding)}"
    yield from _sources(finding)
    if finding["sizes"]:
        sizes = "; ".join(f"{size} = {', '.join(map(str, values))}" for size, values in finding["sizes"].items())
        yield f"Sizes: {sizes}."
    if finding["ends"]:
        yield f"Among the cases: {', '.join(finding['ends'])}."
    reasons = defaultdict(list)
    for end, reason in finding["left_out"].items():
        reasons[reason].append(end)
    for reason, ends in reasons.items():
        yield f"Not among them: {', '.join(ends)} ({reason})."
    machine = finding["tex"] == "by machine"
    yield f"TeX: {'read by machine, and executed on the cases' if machine else 'compared by eye'}."


def _cases(finding):
    cases = "1 case" if finding["cases"] == 1 else f"{finding['cases']} cases"
    return f"{cases}, compared {'exactly' if finding['exact'] else 'up to rounding'}."


def _mutants(finding):
    total, same = finding["mutants"], len(finding["equivalent"])
    noticed = f"{total} mutants of the right side, each noticed" if not same else (
        f"{total} mutants of the right side: {total - same} noticed, {same} of the same meaning")
    return f"{noticed}."


def _sources(finding):
    seen = defaultdict(list)
    for source, (kind, outcome) in finding["sources"].items():
        if outcome not in ("agree", "unused"):
            seen[kind].append(source)
    if seen:
        kinds = "; ".join(f"{kind} ({', '.join(map(_code, sources))})" for kind, sources in sorted(seen.items()))
        yield f"Evidence: {kinds}. With random numbers from any of these the sides differ."
    for source, reason in finding["algebraic"].items():
        if source == "no source":
            yield f"Evidence: both sides compute from free numbers ({reason})."
        else:
            yield f"It holds whatever {_code(source)} returns: {reason}."


def _code(name):
    return f"`{name}`"


def entry_nodes(findings):
    """Return a list with the sentences of each finding."""
    for finding in findings:
        items = [nodes.list_item("", nodes.paragraph("", "", *_inline(sentence))) for sentence in sentences(finding)]
        yield nodes.bullet_list("", *items, classes=["check-findings"])


def _inline(sentence):
    """Return text, and code where it stands between backticks."""
    return [nodes.literal("", part) if i % 2 else nodes.Text(part) for i, part in enumerate(sentence.split("`"))]

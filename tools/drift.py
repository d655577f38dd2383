"""Run tests and chapters with the newest versions that pyproject.toml allows, and say what changed. It repairs nothing.

Usage: python tools/drift.py (after `make book`, whose outputs are the other side of the comparison)

The newest versions go into .venv-newest; the site's toolchain keeps its pins. What is compared is the text that cells
print, number by number. Cells tagged ``measured`` print times and the like and are left out, and versions of packages
count as equal. The report is _build/newest/report.md; with any difference the exit status is 1.
"""

import json
import math
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from importlib.metadata import distributions
from pathlib import Path

from jupyter_cache import get_cache

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "_build" / ".jupyter_cache"
NEWEST = ROOT / "_build" / "newest"
PYTHON = ROOT / ".venv-newest" / "bin" / "python"

# chapters print a few digits of what is exact to 1e-12 or better; below that a number is a residue of rounding
RELATIVE, ABSOLUTE = 1e-6, 1e-12
NUMBER = re.compile(r"(?<![A-Za-z_])([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)")
# the body of an issue holds 65,536 characters
LIMIT = 60_000


def ranges():
    """The package's own requirements with their ranges, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = sum(project["optional-dependencies"].values(), project["dependencies"])
    return {name_of(each): each for each in wanted if name_of(each) != project["name"]}


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower()


def newest_requirements():
    """The lines of requirements*.txt, with the package's ranges in place of the pins."""
    lines = []
    for name in ("requirements.txt", "requirements-dev.txt"):
        lines += (ROOT / name).read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line and not line.startswith(("#", "-r "))]
    return [ranges().get(name_of(line), line) for line in lines]


def text_of(cell):
    """What a cell prints and shows, without pictures: (kind, text) pairs."""
    printed = {}
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            kind, text = output["name"], output["text"]
        elif output["output_type"] == "error":
            kind, text = "error", f"{output['ename']}: {output['evalue']}"
        else:
            data = output["data"]
            kind, text = "shown", data.get("text/markdown") or data.get("text/plain", "")
        printed[kind] = printed.get(kind, "") + "".join(text)
    return printed


def difference(before, after):
    """What sets two texts apart, in words, or None: numbers beyond rounding, or anything else but white space."""
    old, new = NUMBER.split(before), NUMBER.split(after)
    if ["".join(part.split()) for part in old[::2]] != ["".join(part.split()) for part in new[::2]]:
        return "the text differs"
    pairs = [(a, b) for a, b in zip(old[1::2], new[1::2], strict=True)
             if not math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE)]
    return ", ".join(f"{a} is now {b}" for a, b in pairs) or None


def compared(before, after, versions=()):
    """(cell id, what sets it apart, old text, new text) for every cell of two executed notebooks that differs.

    ``versions`` are pairs of a package's version and its newest one.
    """
    old_cells, new_cells = ({cell["id"]: cell for cell in notebook["cells"] if cell["cell_type"] == "code"}
                            for notebook in (before, after))
    if list(old_cells) != list(new_cells):
        raise ValueError("these are not two runs of the same notebook: the ids of their cells differ")
    found = []
    for name, cell in new_cells.items():
        old, new = text_of(old_cells[name]), text_of(cell)
        if "error" in new:
            found.append((name, "fails", "", new["error"]))
            continue
        for kind in sorted({*old, *new}) if "measured" not in cell["metadata"].get("tags", []) else ():
            texts = old.get(kind, ""), new.get(kind, "")
            if apart := difference(*(without(text, versions) for text in texts)):
                found.append((name, apart, *texts))
    return found


def without(text, versions):
    """The text with every version, old and new, with the name of its build or without, replaced by the same word."""
    for each in {version.split("+")[0] for pair in versions for version in pair}:
        text = re.sub(rf"(?<![\d.]){re.escape(each)}(\+\w+)?(?![\d.]*\d)", "VERSION", text)
    return text


def failures(junit):
    """(test, first line of its message) of each test that failed or could not run."""
    for case in ElementTree.parse(junit).iter("testcase"):
        for outcome in (*case.findall("failure"), *case.findall("error")):
            name = "::".join(filter(None, (case.get("classname"), case.get("name"))))
            yield name, (outcome.get("message") or "").strip().split("\n")[0]


def report(versions, tests, chapters):
    """The report as Markdown, and whether there is anything in it.

    ``versions``: name to (pinned, newest); ``tests``: from :func:`failures`; ``chapters``: name to :func:`compared`.
    """
    lines = ["The tests and chapters with the newest versions that `pyproject.toml` allows, beside the pinned ones.",
             "", "| package | pinned | newest |", "|---|---|---|"]
    lines += [f"| {name} | {old} | {new} |" for name, (old, new) in versions.items()]
    drift = bool(tests) or any(chapters.values())
    lines += ["", f"**{'Drift' if drift else 'No drift'}**. Tests that fail: {len(tests)}. "
                  f"Cells that differ, in {len(chapters)} chapters: {sum(map(len, chapters.values()))}."]
    if tests:
        lines += ["", "## Tests", "", *(f"- `{name}`: `{message[:200]}`" for name, message in tests)]
    for chapter, cells in chapters.items():
        lines += ["", f"## {chapter}"] if cells else []
        for name, apart, old, new in cells:
            lines += ["", f"`{name}`: {apart[:500]}", "", "```diff"]
            lines += [f"{sign} {line}" for sign, text in (("-", old), ("+", new)) for line in text.splitlines()[:20]]
            lines += ["```"]
    text = "\n".join(lines).replace(f"{ROOT}/", "") + "\n"
    return (text if len(text) <= LIMIT else text[:LIMIT] + "\n```\n\n(The rest is cut off.)\n"), drift


def run(*command):
    """A command in .venv-newest; whether it succeeded."""
    print("+", " ".join(map(str, command)), flush=True)
    return subprocess.run([PYTHON, "-m", *command], cwd=ROOT).returncode == 0


def installed():
    """Versions in this environment, the pinned one, and in the other, by name."""
    listed = subprocess.run([PYTHON, "-m", "pip", "--disable-pip-version-check", "list", "--format=json"], check=True,
                            capture_output=True, text=True)
    newest = {each["name"].lower(): each["version"] for each in json.loads(listed.stdout)}
    pinned = {each.metadata["Name"].lower(): each.version for each in distributions()}
    return {name: (pinned[name], newest[name]) for name in ranges()}


def book(paths):
    """Every notebook with the outputs that the book shows, by path."""
    cache = get_cache(BOOK)
    try:
        records = {path: cache.match_cache_file(str(path)) for path in paths}
    except KeyError:
        sys.exit("the outputs of a notebook are not in _build: run `make book` first")
    return {path: cache.get_cache_bundle(record.pk).nb for path, record in records.items()}


def main():
    pinned = book(sorted((ROOT / "notebooks").glob("*.ipynb")))
    NEWEST.mkdir(parents=True, exist_ok=True)
    for path in NEWEST.iterdir():  # of the last time
        path.unlink()
    wanted = NEWEST / "requirements.txt"
    wanted.write_text("\n".join(newest_requirements()) + "\n", encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", "--clear", PYTHON.parent.parent], check=True)
    if not (run("pip", "--disable-pip-version-check", "install", "-qq", "-r", str(wanted))
            and run("pip", "--disable-pip-version-check", "install", "-qq", "--no-deps", "-e", ".")):
        sys.exit("the newest versions cannot be installed; the cause is above")
    junit = NEWEST / "tests.xml"
    run("pytest", "-q", "-n", "auto", f"--junitxml={junit}", "--ignore=tests/website")
    if not run("nbconvert", "--to", "notebook", "--execute", "--allow-errors", "--log-level=ERROR",
               f"--output-dir={NEWEST}", *map(str, pinned)):
        sys.exit("a notebook could not be run to its end; the cause is above")
    versions = installed()
    newest = {path: json.loads((NEWEST / path.name).read_text(encoding="utf-8")) for path in pinned}
    chapters = {path.stem: compared(pinned[path], newest[path], versions.values()) for path in pinned}
    text, drift = report(versions, list(failures(junit)), chapters)
    (NEWEST / "report.md").write_text(text, encoding="utf-8")
    print(text)
    sys.exit(1 if drift else 0)


if __name__ == "__main__":
    main()

"""How long a chapter takes: a rule, and the line **Time** that it writes into the chapters' openings.

Usage: python book/_ext/reading_time.py [--write]

The rule: 180 words a minute, half a minute for each labelled equation, four seconds for each line of code that the site
shows unfolded. What stands in a section marked ``{deeper}`` is counted apart, and so is a section with exercises:
solving them takes three times as long as reading them with their solutions. Each of the three is rounded up to five
minutes.
"""

import json
import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
WORDS_A_MINUTE, EQUATION, LINE, SOLVING = 180, 0.5, 4 / 60, 3
COUNTS = ["words", "equations", "figures", "shown", "folded"]
LABELLED = re.compile(r"^\$\$ \((?:eq|def)-", re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) (.+)$")
LETTERS = re.compile(r"^:::\{letters\}\n.*?^:::$", re.DOTALL | re.MULTILINE)
DISPLAY = re.compile(r"^\$\$.*?^\$\$(?: \([\w-]+\))?$", re.DOTALL | re.MULTILINE)
NOT_PROSE = re.compile(r"^(?::\w[\w-]*:.*|\([\w-]+\)=|:{3,}.*|`{3,}.*|\+\+\+.*)$", re.MULTILINE)
MARK = re.compile(r"\{claim\}`[^`]*`")
TIME = re.compile(r"\*\*Time\*\* .+")


class Section(NamedTuple):
    """What stands below one heading, up to the next heading of any level; lines of code as the site has them."""

    level: int
    title: str
    text: str = ""
    shown: int = 0
    folded: int = 0
    figures: int = 0

    @property
    def words(self):
        """Of the prose; displayed equations, the list of letters and the marks of claims left out."""
        text = self.text
        for pattern in (LETTERS, DISPLAY, NOT_PROSE, MARK):
            text = pattern.sub("", text)
        return len(text.split())

    @property
    def equations(self):
        return len(LABELLED.findall(self.text))

    @property
    def minutes(self):
        """What reading takes, not rounded."""
        return self.words / WORDS_A_MINUTE + self.equations * EQUATION + self.shown * LINE


class Minutes(NamedTuple):
    """What a chapter takes; ``deeper`` has a number for each section that is marked so."""

    core: float
    deeper: list
    exercises: float

    def __str__(self):
        parts = [(sum(self.deeper), "for what is marked *deeper*"), (self.exercises, "for the exercises")]
        more = [f"{rounded(minutes)} {what}" for minutes, what in parts if minutes]
        return f"{rounded(self.core)} minutes" + (f"; {' and '.join(more)}" if more else "") + "."


def rounded(minutes):
    return 5 * math.ceil(minutes / 5)


def sections(cells):
    """Split the cells of a notebook at the headings of its text."""
    found = [Section(0, "")]
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            found[-1] = with_code(found[-1], source, cell["metadata"])
            continue
        fence = None
        for line in source.splitlines():
            mark = re.match(r"`{3,}", line)
            if mark:
                fence = None if line.strip() == fence else fence or mark[0]
            heading = None if fence else HEADING.match(line)
            if heading:
                found.append(Section(len(heading[1]), heading[2]))
            else:
                found[-1] = found[-1]._replace(text=found[-1].text + line + "\n")
    return found


def with_code(section, source, metadata):
    tags = metadata.get("tags", [])
    if "remove-cell" in tags:
        return section
    kind = "folded" if {"hide-cell", "hide-input", "remove-input"} & {*tags} else "shown"
    lines = sum(bool(line.strip()) for line in source.splitlines())
    figures = section.figures + ("image" in metadata.get("mystnb", {}))
    return section._replace(**{kind: getattr(section, kind) + lines}, figures=figures)


def minutes(cells):
    """Return the `Minutes` of a chapter's cells."""
    core = exercises = 0.0
    deeper, level, kind = [], 7, "core"
    for section in sections(cells):
        if section.level <= level:
            level, kind = 7, "core"
        if kind == "core" and "{deeper}" in section.text:
            level, kind = section.level, "deeper"
            deeper.append(0.0)
        elif kind == "core" and re.search(r"\{exercise(-start)?\}", section.text):
            level, kind = section.level, "exercises"
        if kind == "core":
            core += section.minutes
        elif kind == "deeper":
            deeper[-1] += section.minutes
        else:
            exercises += SOLVING * section.minutes
    return Minutes(core, deeper, exercises)


def read(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def main(write):
    """Print a row for each chapter, and write the line **Time** if asked to."""
    row = "{:24}" + "{:>8}" * 8
    print(row.format("", "words", "core", "deeper", "solving", "displays", "figures", "lines", "folded"))
    words = 0
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = read(path)
        found, times = sections(notebook["cells"]), minutes(notebook["cells"])
        sums = {name: sum(getattr(section, name) for section in found) for name in COUNTS}
        words += sums["words"]
        print(row.format(path.stem, sums["words"], *map(round, (times.core, sum(times.deeper), times.exercises)),
                         *(sums[name] for name in COUNTS[1:])))
        opening = notebook["cells"][0]
        text = TIME.sub(f"**Time** {times}", "".join(opening["source"]))
        if write and text != "".join(opening["source"]):
            opening["source"] = text.splitlines(keepends=True)
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{words} words")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])

"""What a class got wrong in an assignment, from its graded submissions: findings, questions, what to say. No names.

`make grade` writes it. The students' own reports have the points; this one is for the next session, and can be shown
there. Where the course treats what was wrong is in course/treated_in.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..questions import ASSIGNMENTS

__all__ = ["Place", "Report", "asks", "discrimination", "kind_of", "place_of", "treated", "write"]

_ROOT = Path(__file__).parents[3]
_TABLE, _MISCONCEPTIONS = _ROOT / "course" / "treated_in.toml", _ROOT / "book" / "teaching" / "misconceptions.md"
#: Findings that are spoken about.
_MOST = 3
#: Students below which a correlation says nothing.
FEWEST = 5
#: A negative correlation is spoken about from here on down; nearer to 0 it is easily chance.
_BACKWARD = -0.2
#: What is no named mistake, by what its sentence looks like. The first that fits.
_KINDS = (
    (r"NotImplementedError", "Nothing was written there."),
    (r"ModuleNotFoundError: No module named '([\w.]+)'", r"It imports \1, which is not there where it is graded."),
    (r"NameError: name '(\w+)' is not defined", r"There is no \1: its cell fails, or was deleted."),
    (r"(\w+(?:Error|Exception)):.*", r"It fails: \1."),
    (r"(?:still (?:running|waiting) after|A cell ran for too long).*", "It ran for too long."),
    (r"The process ended:.*", "Its process ended."),
    (r"shape \(.*", "The shape is wrong."),
    (r"NaN\b.*", "There is a NaN."),
    (r"\S+(?: at \[.*?\])? is wrong, in a way that has no name.*", "A number is wrong, in a way that has no name."),
    (r"Its numbers are right\.", "Right, and not fast or small enough."),
    (r"it changed its argument.*", "It changes its arguments."),
)
#: Said beside another finding, or of an error that was counted with an earlier question.
_BESIDES = re.compile(r"right$|.*; asked for: at (least|most) |With a right .* in the place of yours", re.S)


@dataclass(frozen=True)
class Place:
    """Where something is treated: a slide, a section of a chapter, what to ask the class, and the answer in numbers."""

    slide: str
    section: str
    say: str
    numbers: str = ""


@dataclass(frozen=True)
class Found:
    """A finding, in how many students' answers to a question it stands, and where it is treated."""

    question: str
    text: str
    students: int
    place: Place


@dataclass(frozen=True)
class Item:
    """A question: the mean share of its points, how many have all or none of them, and whether it tells students apart.

    ``discrimination`` is the correlation with the points of the other questions; None if there is none.
    """

    name: str
    total: float
    share: float
    right: int
    nothing: int
    discrimination: float | None

    def remark(self, students) -> str:
        if self.right == students:
            return "everybody has it"
        if self.nothing == students:
            return "nobody has it: read the question again"
        if self.discrimination is not None and self.discrimination <= _BACKWARD:
            return "those who have the others miss it: read the question again"
        return ""


class Report:
    """The report of a class.

    Parameters
    ----------
    assignment : str
    results : list
        Each has ``verdicts`` (of :mod:`.verdicts`); those without any were not graded, and are counted only.
    """

    def __init__(self, assignment, results):
        graded = [result for result in results if result.verdicts]
        self.assignment, self.students, self.not_graded = assignment, len(graded), len(results) - len(graded)
        self.points = [sum(verdict.points for verdict in result.verdicts) for result in graded]
        self.total = sum(question.total for question in ASSIGNMENTS[assignment].values())
        by_question = {name: [verdict for result in graded for verdict in result.verdicts if verdict.name == name]
                       for name in ASSIGNMENTS[assignment]}
        self.items = [self._item(name, verdicts) for name, verdicts in by_question.items()] if graded else []
        self.found = self._found(by_question)
        self.notes = Counter(re.sub(r"\b\d+\b|'.*?'", "...", note) for result in results for note in set(result.notes))

    def _item(self, name, verdicts):
        points, total = np.array([verdict.points for verdict in verdicts]), verdicts[0].total
        return Item(name, total, float(points.mean() / total), int((points == total).sum()), int((points == 0).sum()),
                    discrimination(points, np.array(self.points) - points))

    def _found(self, by_question):
        """The most frequent first; of equals, those of earlier questions."""
        counted = {}
        for name, verdicts in by_question.items():
            counted |= {(name, text): count for text, count in
                        Counter(text for verdict in verdicts for text in _kinds(self.assignment, verdict)).items()}
        return [Found(name, text, count, place_of(self.assignment, name, text))
                for (name, text), count in sorted(counted.items(), key=lambda each: -each[1])]

    def __str__(self):
        lines = [f"# {self.assignment}: the class", ""]
        if not self.students:
            return "\n".join([*lines, "Nothing was graded.", ""])
        low, middle, high = np.percentile(self.points, [0, 50, 100])
        lines += [f"{self.students} graded: {low:g} to {high:g} of {self.total:g} points, median {middle:g}, mean "
                  f"{np.mean(self.points):.1f}."
                  + (f" {self.not_graded} not graded." * bool(self.not_graded)), ""]
        lines += ["## What to say next session", "", *self._to_say(), "## Findings", "", *self._findings(),
                  "## Questions", "", *self._questions()]
        if self.notes:
            lines += ["## Besides", "", *(f"- {count}: {text}" for text, count in self.notes.most_common()), ""]
        return "\n".join(lines)

    def _to_say(self):
        """For each place once, the findings that several have; if there are none, those of the hardest questions."""
        found, lines, places = [each for each in self.found if each.students > 1], [], []
        if not found:
            share = {item.name: item.share for item in self.items}
            found = sorted(self.found, key=lambda each: share[each.question])
            hardest = "; these are of the hardest questions" if found else ""
            lines = [f"No two students have the same finding{hardest}.", ""]
        for each in found:
            if each.place not in places and len(places) < _MOST:
                places.append(each.place)
                lines += [f"{len(places)}. **{each.text}** {each.students} of {self.students}, in *{each.question}*.",
                          f"   Ask: {each.place.say}",
                          *([f"   In numbers: {each.place.numbers}"] if each.place.numbers else []),
                          f"   Slide *{_title(each.place.slide)}* of {_owner(each.place.slide)}, section "
                          f"*{_title(each.place.section)}* of chapter {_owner(each.place.section)}.", ""]
        return lines

    def _findings(self):
        if not self.found:
            return ["There are none.", ""]
        rows = [[each.students, f"{each.students / self.students:.0%}", each.question, each.text,
                 each.place.slide, each.place.section] for each in self.found]
        return _table(["students", "share", "question", "finding", "slide", "section"], rows)

    def _questions(self):
        rows = [[item.name, f"{item.total:g}", f"{item.share:.0%}", item.right, item.nothing,
                 "–" if item.discrimination is None else f"{item.discrimination:.2f}", item.remark(self.students)]
                for item in self.items]
        return [*_table(["question", "points", "reached", "all points", "none", "discrimination", ""], rows),
                "*Reached* is the mean share of the points: the lower, the harder. *Discrimination* is the correlation "
                f"with the points of the other questions, from {FEWEST} students on; below 0.2 a question says little "
                "about what a student can do, or it was answered alike by all.", ""]


def _kinds(assignment, verdict):
    """What is wrong in a verdict, each kind once."""
    texts = [finding for finding in verdict.findings if not _BESIDES.match(finding)]
    return dict.fromkeys(kind_of(assignment, verdict.name, text) for text in texts)


def kind_of(assignment, name, finding) -> str:
    """A finding without what belongs to one student's answer only.

    Examples
    --------
    >>> kind_of("1_ctc_alpha", "log_alpha", "-2.49636 at [0, 0] is wrong, in a way that has no name here")
    'A number is wrong, in a way that has no name.'
    >>> kind_of("1_ctc_alpha", "loss", "Its sign is wrong: the loss is minus log Z.")
    'Its sign is wrong: the loss is minus log Z.'
    """
    known = [mistake for mistake in ASSIGNMENTS[assignment][name].mistakes if finding.startswith(mistake)]
    if known:
        return max(known, key=len)
    line = finding.strip().split("\n")[0]
    for pattern, text in _KINDS:
        if (match := re.match(pattern, line)) is not None:
            return match.expand(text)
    return line[:200]


def discrimination(points, others) -> float | None:
    """The correlation of a question's points with those of all others; None for few students, or if all are alike."""
    if len(points) < FEWEST or np.ptp(points) == 0 or np.ptp(others) == 0:
        return None
    return float(np.corrcoef(points, others)[0, 1])


# --- where it is treated ---


@cache
def treated() -> dict:
    """The table: ``question`` by assignment and name, and the rules of ``finding``."""
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))


@cache
def asks() -> dict:
    """The question to ask about each misconception, and the answer in numbers, by its label."""
    text = re.sub(r"\{named\}`(.*?)`", r"\1", _MISCONCEPTIONS.read_text(encoding="utf-8"))
    pattern = r"^\((mis-[\w-]+)\)=\n### .*\n\n- \*\*Ask\.\*\* (.*)\n- \*\*In numbers\.\*\* (.*)$"
    return {label: (ask, numbers) for label, ask, numbers in re.findall(pattern, text, re.M)}


def place_of(assignment, name, finding) -> Place:
    """Where a finding is treated; what is nowhere in the rules, where its question is."""
    for rule in treated()["finding"]:
        if name in rule.get("questions", [name]) and re.search(rule["says"], finding):
            return _place(rule)
    return _place(treated()["question"][assignment][name])


def _place(entry):
    say = (entry["say"],) if "say" in entry else asks()[entry["misconception"]]
    return Place(entry["slide"], entry["section"], *say)


def _title(place):
    return place.partition(": ")[2]


def _owner(place):
    return place.partition(": ")[0]


def _table(head, rows):
    def line(cells):
        return f"| {' | '.join(' '.join(str(cell).split()).replace('|', chr(92) + '|') for cell in cells)} |"

    return [line(head), line(["---"] * len(head)), *map(line, rows), ""]


def write(folder, assignment, results) -> Path:
    """Write the report as Markdown and, beside it, as a page; where the Markdown is.

    What is no named mistake is a student's text, and so are parts of notes.
    """
    from ..pages import harmless, page

    path = Path(folder) / "class" / f"{assignment}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = str(Report(assignment, results))
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".html").write_text(page(harmless(text), f"{assignment}: the class"), encoding="utf-8")
    return path

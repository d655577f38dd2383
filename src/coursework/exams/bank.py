"""Draws a sheet of an exam from the kinds of questions, and says it and its key in Markdown. It writes no file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import ctc, kernels, numerics, rnnt
from .item import Item, Kind, shown

__all__ = ["KINDS", "TOPICS", "Asked", "Sheet", "sheet"]

#: Every kind of question, by name.
KINDS = {kind.name: kind for kind in [*ctc.KINDS, *rnnt.KINDS, *numerics.KINDS, *kernels.KINDS]}
#: In the order in which they come on a sheet.
TOPICS = tuple(dict.fromkeys(kind.topic for kind in KINDS.values()))
_OPTIONS = 4  # that are shown, the right one among them
_LETTERS = "ABCD"


@dataclass(frozen=True)
class Asked:
    """An item on a sheet, with the options in the order in which they stand there."""

    kind: Kind
    item: Item
    options: tuple[str, ...]

    @property
    def letter(self) -> str:
        """Of the right option."""
        return _LETTERS[self.options.index(shown(self.item.right))]


@dataclass(frozen=True)
class Sheet:
    """Questions for one student."""

    title: str
    name: str
    questions: tuple[Asked, ...]

    @property
    def points(self):
        return sum(asked.kind.points for asked in self.questions)

    @property
    def minutes(self):
        return sum(asked.kind.minutes for asked in self.questions)

    def markdown(self, *, options=False) -> str:
        """What the student gets."""
        lines = [f"# {self.title}", "", f"**{self.name}** · {self.points} points · {self.minutes} minutes", "",
                 "The conventions are the book's: $L = -\\log Z$ in nats, and a gradient is named by its variable. "
                 "Give fractions, not decimals.", ""]
        for n, asked in enumerate(self.questions, 1):
            lines += [f"## {n}. {asked.kind.topic} ({_points(asked.kind)})", "", asked.item.text, ""]
            if options:
                lines += [f"- **{letter}** {text}" for letter, text in zip(_LETTERS, asked.options, strict=True)] + [""]
        return "\n".join(lines)

    def key(self) -> str:
        """What the marker gets: the right answer, how it is found, and what the mistakes give."""
        lines = [f"# Key: {self.title}", "", f"**{self.name}** · {self.points} points", ""]
        for n, asked in enumerate(self.questions, 1):
            lines += [f"## {n}. {asked.kind.name} ({_points(asked.kind)})", "",
                      f"**{shown(asked.item.right)}** (option {asked.letter}). {asked.item.reason}", ""]
            lines += [f"- {text}: {mistake}" for text, mistake in asked.item.distractors().items()] + [""]
        return "\n".join(lines)


def _points(kind):
    return f"{kind.points} points"


def sheet(title, name, seed, kinds=()) -> Sheet:
    """Draw a sheet.

    Parameters
    ----------
    title, name : str
        Of the exam, and of the student.
    seed : int
        What the numbers are drawn from.
    kinds : sequence of str or int
        Names of kinds, in their order on the sheet; or how many of them, drawn so that every topic occurs, the same
        kinds for every seed.

    Raises
    ------
    ValueError
        If there is no such kind, or fewer than one for each topic are asked for.

    Examples
    --------
    >>> one = sheet("Midterm", "ada", 1, ["sum_of_all"])
    >>> one.questions[0].item.facts
    {'T': 5, 'U': 4}
    >>> one.questions[0].item.right
    -9
    """
    if isinstance(kinds, int):
        kinds = _drawn(kinds, title)
    unknown = [each for each in kinds if each not in KINDS]
    if unknown:
        raise ValueError(f"kinds: {unknown[0]!r}; expected some of {', '.join(KINDS)}")
    asked = []
    for n, name_of_kind in enumerate(kinds or KINDS):
        rng = np.random.default_rng([seed, n])
        item = KINDS[name_of_kind].item(rng)
        wrong = list(item.distractors())
        picked = [wrong[i] for i in rng.permutation(len(wrong))[:_OPTIONS - 1]]
        options = [[shown(item.right), *picked][i] for i in rng.permutation(_OPTIONS)]
        asked.append(Asked(KINDS[name_of_kind], item, tuple(options)))
    return Sheet(title, name, tuple(asked))


def _drawn(count, title):
    """Kinds of a sheet, the same for all students of an exam: one of each topic, and others."""
    if not len(TOPICS) <= count <= len(KINDS):
        raise ValueError(f"kinds = {count}; expected {len(TOPICS)}, one for each topic, to {len(KINDS)}")
    rng = np.random.default_rng(list(title.encode()))
    names = list(KINDS)
    order = [names[i] for i in rng.permutation(len(names))]
    first = [next(name for name in order if KINDS[name].topic == topic) for topic in TOPICS]
    chosen = {*first, *[name for name in order if name not in first][:count - len(first)]}
    return [name for name in names if name in chosen]

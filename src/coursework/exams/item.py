"""What a question of an exam is: a text with numbers, the right answer, and the answers that mistakes give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

__all__ = ["FEWEST", "Item", "Kind", "shown", "table"]

#: Wrong answers that an item needs at least, to be asked with options.
FEWEST = 3


@dataclass(frozen=True)
class Item:
    """One question with its numbers.

    Attributes
    ----------
    text : str
        Markdown, formulas between dollars.
    right : number or str
    wrong : mapping
        By the mistake, a sentence, the answer that it gives. It may be the right one: then the mistake is left out.
    reason : str
        How the right answer is found.
    facts : mapping
        What the answer was computed from.
    """

    text: str
    right: object
    wrong: Mapping[str, object]
    reason: str
    facts: Mapping = field(default_factory=dict)

    def distractors(self) -> dict[str, str]:
        """By what is shown, the mistake; each is shown once, and none is shown like the right answer."""
        found = {}
        for mistake, value in self.wrong.items():
            if shown(value) != shown(self.right):
                found.setdefault(shown(value), mistake)
        return found


@dataclass(frozen=True)
class Kind:
    """A kind of question. ``draw`` makes an item of a generator; items with too few distractors are drawn again."""

    name: str
    topic: str
    points: int
    minutes: int
    draw: Callable[[np.random.Generator], Item]

    def item(self, rng) -> Item:
        for _ in range(200):
            item = self.draw(rng)
            if len(item.distractors()) >= FEWEST:
                return item
        raise RuntimeError(f"{self.name}: 200 draws without {FEWEST} wrong answers that differ from the right one")


def shown(value) -> str:
    """An answer as it stands on the sheet.

    Examples
    --------
    >>> shown(Fraction(3, 4)), shown(Fraction(-1, 2)), shown(7), shown("log-probs"), shown(Fraction(4, 2))
    ('$\\\\frac{3}{4}$', '$-\\\\frac{1}{2}$', '$7$', 'log-probs', '$2$')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Fraction) and value.denominator > 1:
        sign = "-" if value < 0 else ""
        return f"${sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}$"
    return f"${int(value)}$"


def table(rows, symbols, frames) -> str:
    """Probabilities as a table: a row for each symbol, a column for each frame, in tenths."""
    head = "| | " + " | ".join(f"frame {t}" for t in range(frames)) + " |"
    lines = [head, "|---" * (frames + 1) + "|"]
    for k, symbol in enumerate(symbols):
        lines.append(f"| ${symbol}$ | " + " | ".join(f"{float(row[k]):g}" for row in rows) + " |")
    return "\n".join(lines)

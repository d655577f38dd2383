"""What the chapters need, read from their openings, as the arrows of a graph. It draws nothing; chapter_map.py does.

What a chapter needs, what helps, and how long it takes is read from its first cell: the links to other chapters in the
paragraphs that begin with **You need** and **It helps**, and the minutes after **Time**.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

LINK = re.compile(r"\]\((\w+)\.(?:ipynb|md)\)")
MINUTES = re.compile(r"\*\*Time\*\* (\d+) minutes")


class Opening(NamedTuple):
    """What the first cell of a chapter says; chapters are named by their files, without folder and ending."""

    needs: list
    helps: list
    minutes: int


def read_opening(path):
    """Return the `Opening` of a notebook or a page; ValueError if it does not say how long the chapter takes."""
    text = Path(path).read_text(encoding="utf-8")
    if Path(path).suffix == ".ipynb":
        text = "".join(json.loads(text)["cells"][0]["source"])
    minutes = MINUTES.search(text)
    if minutes is None:
        raise ValueError("the opening does not say '**Time** ... minutes'")
    return Opening(links_after("You need", text), links_after("It helps", text), int(minutes[1]))


def links_after(words, text):
    paragraph = re.search(rf"^\*\*{words}\*\*(.*?)(?:\n\s*\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return LINK.findall(paragraph[1]) if paragraph else []


class Chapter(NamedTuple):
    name: str
    number: str
    title: str
    part: str
    link: str
    opening: Opening


class Arrow(NamedTuple):
    source: str
    target: str
    kind: str


def ancestors(openings, name, helps=True):
    """Return all that a chapter needs, directly or not; with what helps, if `helps`."""
    found, todo = set(), [name]
    while todo:
        opening = openings[todo.pop()]
        new = {*opening.needs, *(opening.helps if helps else [])} - found
        found |= new
        todo += new
    return found


def arrows(openings):
    """Return the arrows of the map: those to which no others lead the same way in several steps."""
    found = []
    for target, opening in openings.items():
        for kind, sources in {"needs": opening.needs, "helps": opening.helps}.items():
            others = opening.needs if kind == "needs" else opening.needs + opening.helps
            implied = set().union(*(ancestors(openings, other, kind == "helps") for other in others))
            found += [Arrow(source, target, kind) for source in sources if source not in implied]
    return found

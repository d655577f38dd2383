"""The chapters as a graph: what each needs, read from its opening, and how long it takes. It draws nothing.

What a chapter needs and what helps are the links to other chapters in the paragraphs of its first cell that begin with
**You need** and **It helps**; its minutes are those of `reading_time`.
"""

import json
import re
from typing import NamedTuple

from reading_time import Minutes, minutes
from sphinx import addnodes
from sphinx.util import logging

logger = logging.getLogger(__name__)
LINK = re.compile(r"\]\((\w+)\.ipynb\)")


class Opening(NamedTuple):
    """What a chapter needs, what helps, and its minutes; chapters are named by their files."""

    needs: list
    helps: list
    minutes: Minutes


class Chapter(NamedTuple):
    name: str
    number: str
    title: str
    part: str
    page: str
    opening: Opening


def read_opening(path):
    with open(path, encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    text = "".join(cells[0]["source"])
    return Opening(links_after("You need", text), links_after("It helps", text), minutes(cells))


def links_after(words, text):
    paragraph = re.search(rf"^\*\*{words}\*\*(.*?)(?:\n\s*\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return LINK.findall(paragraph[1]) if paragraph else []


def ancestors(openings, name):
    """Return all that a chapter needs, directly or not."""
    found, todo = set(), [name]
    while todo:
        new = {*openings[todo.pop()].needs} - found
        found |= new
        todo += new
    return found


def direct_needs(openings):
    """Return {chapter: what it needs}, without what these need themselves."""
    def implied(opening):
        return set().union(*(ancestors(openings, each) for each in opening.needs))

    return {name: [other for other in opening.needs if other not in implied(opening)]
            for name, opening in openings.items()}


# --- from Sphinx ---


def numbered(env):
    """Return {name: page} of the pages with a number, in the order of the book."""
    found = {page: numbers[""] for page, numbers in env.toc_secnumbers.items() if numbers.get("")}
    return {page.rpartition("/")[2]: page for page in sorted(found, key=found.get)}


def parts_of(env):
    """Return {page: caption of its part}."""
    toctrees = env.tocs[env.config.root_doc].findall(addnodes.toctree)
    return {page: toctree.get("caption") or "" for toctree in toctrees for _, page in toctree["entries"]}


def chapters(env):
    """Return {name: Chapter} in the order of the book; a chapter that needs a page without a number is a warning."""
    pages, parts, found = numbered(env), parts_of(env), {}
    titles = short_titles({name: env.titles[page].astext() for name, page in pages.items()})
    for name, page in pages.items():
        opening = read_opening(env.doc2path(page))
        strangers = {*opening.needs, *opening.helps} - set(pages)
        if strangers:
            logger.warning("the opening needs pages that have no number: %s", sorted(strangers), location=page)
        needs, helps = ([other for other in names if other in pages] for names in (opening.needs, opening.helps))
        number = ".".join(map(str, env.toc_secnumbers[page][""]))
        known = Opening(needs, helps, opening.minutes)
        found[name] = Chapter(name, number, titles[name], parts.get(page, ""), page, known)
    return found


def short_titles(titles):
    """Return the titles up to a colon, as what follows is for the chapter's own page; whole, where two would be alike.

    >>> short_titles({"a": "Numerics: digits", "b": "k2: one", "c": "k2: two"})
    {'a': 'Numerics', 'b': 'k2: one', 'c': 'k2: two'}
    """
    halves = {name: title.partition(": ")[0] for name, title in titles.items()}
    return {name: half if [*halves.values()].count(half) == 1 else titles[name] for name, half in halves.items()}


def openings_of(found):
    return {name: chapter.opening for name, chapter in found.items()}

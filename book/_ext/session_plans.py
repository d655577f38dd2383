"""The plan of a session, timed by its slides: ``{block}``, ``{timetable}`` and ``{slide}``. It knows no minute itself.

A plan names its deck at its head (``deck: session_3``). Each of its parts has one ``{block} Title of a slide``: it goes
from where the part before ended to the end of that slide. The clock, the minutes and the slides of a part come from the
deck's notes, and ``{timetable}`` lists all parts. ``{slide}`session_3: Title of a slide` `` is a link to a slide. A
slide that is not there, parts out of order, and slides after the last part are warnings, which fail the build.
"""

import re
from typing import NamedTuple

from docutils import nodes
from from_chapters import tree
from slides import FOLDER, Notes, sections_of
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

logger = logging.getLogger(__name__)


class SlideOf(NamedTuple):
    title: nodes.title
    id: str
    begin: int
    end: int


class Block(nodes.General, nodes.Element):
    """Where the clock and the slides of a part go: `last` is the title of its last slide, `page` its page."""


class Timetable(nodes.General, nodes.Element):
    """Where the table of all parts goes."""


class SlideLink(nodes.Inline, nodes.Element):
    """Where a link to a slide goes: `deck`, `slide`, `page`."""


# --- reading ---


class BlockDirective(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        node = Block(last=self.arguments[0], page=self.env.docname)
        self.set_source_info(node)
        return [node]


class TimetableDirective(SphinxDirective):
    def run(self):
        node = Timetable(page=self.env.docname)
        self.set_source_info(node)
        return [node]


class SlideRole(SphinxRole):
    def run(self):
        deck, _, slide = self.text.partition(": ")
        self.env.metadata[self.env.docname]["names_slides"] = True
        node = SlideLink(deck=deck, slide=slide, page=self.env.docname)
        self.set_source_info(node)
        return [node], []


def plain(title):
    """Return a title without the marks of Markdown and TeX, in which source and tree differ."""
    return re.sub(r"[$*`\\]", "", title).replace("’", "'")


def slides_of(env, deck):
    """Return the slides of a deck, in order; none if there is no such deck."""
    if FOLDER + deck not in env.found_docs:
        return []
    found, begin = [], 0
    for section in sections_of(tree(env, FOLDER + deck)):
        minutes = sum(node["minutes"] for node in section.children if isinstance(node, Notes))
        found.append(SlideOf(section.next_node(nodes.title), section["ids"][0], begin, begin + minutes))
        begin += minutes
    return found


def write_again(app, env):
    """Any deck may have changed what these pages say; titles of slides may need MathJax."""
    pages = [page for page, facts in env.metadata.items() if facts.get("deck") or facts.get("names_slides")]
    for page in pages:
        env.get_domain("math").data["has_equations"][page] = True
    return pages


# --- writing ---


def resolve(app, doctree, docname):
    parts = {}
    for block in list(doctree.findall(Block)):
        parts.setdefault(block["page"], []).append(block)
    timed = {page: time(app.env, page, blocks) for page, blocks in parts.items()}
    for place in list(doctree.findall(Timetable)):
        place.replace_self(timetable(app, timed.get(place["page"], [])))
    for page, found in timed.items():
        for block, slides in found:
            block.replace_self(clock(app, page, slides))
    for link in list(doctree.findall(SlideLink)):
        slide = find(app.env, link["deck"], link["slide"])
        if slide is None:
            logger.warning('the deck "%s" has no slide "%s"', link["deck"], link["slide"], location=link)
            link.parent.remove(link)
        else:
            link.replace_self(reference(app, link["page"], link["deck"], slide))


def find(env, deck, title):
    return next((slide for slide in slides_of(env, deck) if plain(slide.title.astext()) == plain(title)), None)


def time(env, page, blocks):
    """Return [(block, its slides)], and warn of what does not fit the deck."""
    deck = env.metadata[page].get("deck", "")
    slides, found, begin = slides_of(env, deck), [], 0
    names = [plain(slide.title.astext()) for slide in slides]
    for block in blocks:
        name = plain(block["last"])
        end = names.index(name) + 1 if name in names else 0
        if not end:
            logger.warning('the deck "%s" has no slide "%s"', deck, block["last"], location=block)
        elif end <= begin:
            logger.warning('the slide "%s" is not behind those of the part before', block["last"], location=block)
        found.append((block, slides[begin:end]))
        begin = max(begin, end)
    if begin < len(slides):
        logger.warning('the plan ends before the slide "%s"', names[begin], location=blocks[-1])
    return found


def clock(app, page, slides):
    """Return when a part is, how long it takes, and its slides, each with its minutes."""
    if not slides:
        return nodes.paragraph()
    line = nodes.paragraph("", "", nodes.strong("", when(slides)), nodes.Text(f", {minutes(slides)} minutes. Slides: "))
    for index, slide in enumerate(slides):
        line += [nodes.Text(", " if index else ""), reference(app, page, app.env.metadata[page]["deck"], slide)]
        line += nodes.Text(f" ({slide.end - slide.begin})")
    line += nodes.Text(".")
    return nodes.container("", line, classes=["plan-block"])


def when(slides):
    first, last = (f"{m // 60}:{m % 60:02}" for m in (slides[0].begin, slides[-1].end))
    return f"{first} to {last}"


def minutes(slides):
    return slides[-1].end - slides[0].begin


def reference(app, page, deck, slide):
    """Return a link to the slide; on paper, where there are no slides, its title."""
    title = [child.deepcopy() for child in slide.title.children]
    if app.builder.format != "html":
        return nodes.emphasis("", "", *title)
    uri = f"{app.builder.get_relative_uri(page, FOLDER + deck)}#{slide.id}"
    return nodes.reference("", "", *title, internal=True, refuri=uri)


def timetable(app, found):
    """Return a table of the parts: when, minutes, title, number of slides."""
    group = nodes.tgroup("", *[nodes.colspec(colwidth=width) for width in (3, 2, 8, 2)], cols=4)
    group += nodes.thead("", row(*(nodes.Text(head) for head in ("Time", "Minutes", "Part", "Slides"))))
    body = nodes.tbody()
    for block, slides in found:
        if slides:
            title = [child.deepcopy() for child in block.parent.next_node(nodes.title).children]
            if app.builder.format == "html":
                title = [nodes.reference("", "", *title, internal=True, refid=block.parent["ids"][0])]
            body += row(nodes.Text(when(slides)), nodes.Text(str(minutes(slides))), nodes.inline("", "", *title),
                        nodes.Text(str(len(slides))))
    group += body
    return nodes.table("", group, classes=["timetable"])


def row(*cells):
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells])


def setup(app):
    app.setup_extension("slides")
    app.add_node(Block)
    app.add_node(Timetable)
    app.add_node(SlideLink)
    app.add_directive("block", BlockDirective)
    app.add_directive("timetable", TimetableDirective)
    app.add_role("slide", SlideRole())
    app.connect("env-updated", write_again)
    app.connect("doctree-resolved", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

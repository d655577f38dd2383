"""The directives ``{chapter-map}`` and ``{chapter-table}``: the chapters, and what each needs. They keep no fact.

The map has a lane for each part, from top to bottom. A line leads to a chapter from the one above it if it needs that
one; what else it needs stands beside it, as numbers. What those need themselves is left out.

The table is for teachers. Its argument names the columns that the author fills, ``session | question``; a line of it,
``35 | 1 | What is summed?``, begins with a chapter's file. Title, minutes and needs come in between, and a row for
each part.
"""

from chapter_graph import chapters, direct_needs, openings_of
from docutils import nodes
from reading_time import rounded
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class ChaptersPlaceholder(nodes.General, nodes.Element):
    """Where the map or the table goes, once every title and number is known."""


class ChapterMap(SphinxDirective):
    def run(self):
        return [placeholder(self, rows=None)]


class ChapterTable(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self):
        head = [text.strip() for text in self.arguments[0].split("|")]
        rows = []
        for line in filter(None, map(str.strip, self.content)):
            short, *texts = (text.strip() for text in line.split("|"))
            if len(texts) != len(head):
                raise self.error(f"the row of {short} has {len(texts)} columns of yours; expected {len(head)}")
            rows.append((short, [self.parse_inline(text, lineno=self.lineno)[0] for text in texts]))
        return [placeholder(self, rows=rows, head=head, widths=[2 if len(text) < 9 else 8 for text in head])]


def placeholder(directive, **facts):
    directive.env.metadata[directive.env.docname]["shows_chapters"] = True
    node = ChaptersPlaceholder(**facts)
    directive.set_source_info(node)
    return node


def pages_with_chapters(app, env):
    """Have these pages written again: any chapter may have changed them."""
    return [page for page, facts in env.metadata.items() if facts.get("shows_chapters")]


def resolve(app, doctree, docname):
    found = list(doctree.findall(ChaptersPlaceholder))
    if not found:
        return
    known = chapters(app.env)
    needs = direct_needs(openings_of(known))

    def link(name, text, **attributes):
        uri = app.builder.get_relative_uri(docname, known[name].page)
        return nodes.reference("", text, internal=True, refuri=uri, **attributes)

    for node in found:
        draw = lanes(known, needs, link) if node["rows"] is None else table(node, known, needs, link)
        node.replace_self(draw)


def links(names, known, link):
    """Return links with the numbers of chapters, and commas."""
    found = []
    for name in names:
        found += [nodes.Text(", ")] if found else []
        found.append(link(name, known[name].number, reftitle=known[name].title))
    return found


def lanes(known, needs, link):
    parts = list(dict.fromkeys(chapter.part for chapter in known.values()))
    return nodes.container("", *(lane(part, known, needs, link) for part in parts), classes=["chapter-map"])


def lane(part, known, needs, link):
    items, above = [], None
    for name, chapter in known.items():
        if chapter.part != part:
            continue
        follows = above in needs[name]
        others = [other for other in needs[name] if other != above]
        text = [link(name, f"{chapter.number}. {chapter.title}")]
        text.append(nodes.inline("", f" {rounded(chapter.opening.minutes.core)} min", classes=["chapter-minutes"]))
        if others:
            words = ", also needs " if follows else ", needs "
            text.append(nodes.inline("", words, *links(others, known, link), classes=["chapter-needs"]))
        kind = "chapter-follows" if follows else "chapter-begins"
        items.append(nodes.list_item("", nodes.paragraph("", "", *text), classes=[kind]))
        above = name
    heading = nodes.paragraph("", "", nodes.strong("", part), classes=["chapter-lane-name"])
    return nodes.container("", heading, nodes.bullet_list("", *items), classes=["chapter-lane"])


HEAD = ["chapter", "core", "deeper", "exercises", "needs"]


def table(node, known, needs, link):
    """Return the table for teachers; a warning if it does not have each chapter once, in the order of the book."""
    rows = [(full_name(short, known), columns) for short, columns in node["rows"]]
    if [name for name, _ in rows] != list(known):
        said = [name for name, _ in rows]
        logger.warning("the table of chapters has %s, the book %s", said, list(known), location=node)
        return []
    body, part = nodes.tbody(), None
    width = len(HEAD) + len(node["head"])
    for name, columns in rows:
        chapter = known[name]
        if chapter.part != part:
            part = chapter.part
            body += row([nodes.strong("", part)], *[[] for _ in range(width - 1)])
        times = chapter.opening.minutes
        minutes = [times.core, sum(times.deeper), times.exercises]
        body += row([link(name, f"{chapter.number}. {chapter.title}")],
                    *([nodes.Text(str(rounded(each)) if each else "-")] for each in minutes),
                    links(needs[name], known, link) or [nodes.Text("-")], *columns)
    head = nodes.thead("", row(*([nodes.Text(text)] for text in [*HEAD, *node["head"]])))
    columns = [nodes.colspec(colwidth=share) for share in (4, 1, 1, 1, 2, *node["widths"])]
    return nodes.table("", nodes.tgroup("", *columns, head, body, cols=width), classes=["chapter-table"])


def row(*entries):
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *each)) for each in entries))


def full_name(short, known):
    """Return the one chapter whose file begins like this; the word itself if there is none."""
    return next((name for name in known if name.startswith(f"{short}_")), short)


def load(app, pagename, templatename, context, doctree):
    if "chapter-map" in context.get("body", ""):
        app.add_css_file("chapter_map.css")


def setup(app):
    app.add_node(ChaptersPlaceholder)
    app.add_directive("chapter-map", ChapterMap)
    app.add_directive("chapter-table", ChapterTable)
    app.connect("env-updated", pages_with_chapters)
    app.connect("html-page-context", load)
    app.connect("doctree-resolved", resolve)
    return {"version": "2", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}

"""The directive ``{deeper}`` marks its section as off the main line: folded on the website, open in print.

:::{deeper}
A sum and a maximum are the two ends of one family.
:::

stands directly below a heading. Its paragraph says what the section has, for a reader who decides whether to open it;
the website puts the minutes of `reading_time` in front of it. All of the section folds, with the sections below it. A
link to anything inside opens it (deeper.js).
"""

from docutils import nodes
from reading_time import minutes, read
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class Deeper(nodes.General, nodes.Element):
    """One paragraph, below the heading of the section that folds."""


class Folded(nodes.General, nodes.Element):
    """What the website folds: a `Summary`, then the rest of the section."""


class Summary(nodes.General, nodes.TextElement):
    """The line that is always seen."""


class DeeperDirective(SphinxDirective):
    has_content = True

    def run(self):
        self.assert_has_content()
        mark = Deeper()
        self.set_source_info(mark)
        self.state.nested_parse(self.content, self.content_offset, mark)
        if len(mark) != 1 or not isinstance(mark[0], nodes.paragraph):
            raise self.error("{deeper} holds one paragraph")
        return [mark]


def check(app, doctree):
    for mark in doctree.findall(Deeper):
        if not isinstance(mark.parent, nodes.section) or mark.parent.index(mark) != 1:
            logger.warning("{deeper} must stand directly below a heading", location=mark)
        elif any(isinstance(child, Deeper) for child in _children_around(mark.parent)):
            raise ExtensionError(f"{app.env.docname}: {{deeper}} in \"{mark.parent[0].astext()}\", which folds already "
                                 "with the section that it belongs to")


def _children_around(section):
    """What stands directly in the sections that a section belongs to."""
    while isinstance(section := section.parent, nodes.section):
        yield from section.children


def resolve(app, doctree, docname):
    marks = list(doctree.findall(Deeper))
    if app.builder.format != "html":
        for mark in marks:
            mark.replace_self(nodes.paragraph("", "", nodes.emphasis("", "Deeper. "), *mark[0].children))
    elif marks:
        times = minutes(read(app.env.doc2path(docname))["cells"]).deeper
        for mark, time in zip(marks, times, strict=True):
            fold(mark, time)


def fold(mark, time):
    section = mark.parent
    label = nodes.strong("", f"Deeper, {max(1, round(time))} min.")
    rest = section.children[section.index(mark) + 1 :]
    for link in list(mark[0].findall(nodes.reference)):  # a summary is a button, and has none inside
        link.replace_self(nodes.inline("", "", *link.children))
    summary = Summary("", "", label, nodes.Text(" "), *mark[0].children)
    section.children = section.children[: section.index(mark)]
    section += Folded("", summary, *rest)


def visit(opening):
    return lambda writer, node: writer.body.append(opening)


def setup(app):
    app.add_node(Folded, html=(visit('<details class="deeper">'), visit("</details>\n")))
    app.add_node(Summary, html=(visit("<summary>"), visit("</summary>\n")))
    app.add_node(Deeper)
    app.add_directive("deeper", DeeperDirective)
    app.connect("doctree-read", check)
    # after the extensions that write into sections
    app.connect("doctree-resolved", resolve, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""The ``{chapter-map}`` directive: what needs what, drawn and as a list. It keeps no fact about any chapter.

The facts are in the chapters' openings (chapter_graph.py). The directive's content only says where the boxes stand, a
row of numbers a line, a dot for an empty place. On the website the map is drawn twice, for wide and for narrow screens
(map_layout.py); the list below it says the same in words, and is all that the PDF has.
"""

from html import escape

from chapter_graph import Chapter, ancestors, arrows, read_opening
from docutils import nodes
from map_layout import LINE, PADDING, SIZES, Layout, paths
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


# --- SVG ---


def svg(chapters, grid, size):
    openings = {name: chapter.opening for name, chapter in chapters.items()}
    layout = Layout(chapters, grid, size)
    parts = list(dict.fromkeys(chapter.part for chapter in chapters.values()))
    stands_on = {name: ancestors(openings, name, helps=False) | {name} for name in chapters}

    def marks(name):
        """Return the numbers of the chapters that stand on this one, for the style sheet."""
        return " ".join(chapters[other].number for other in chapters if name in stands_on[other])

    out = [
        f'<svg class="chapter-map-{size.name}" viewBox="0 0 {layout.width} {layout.total:.0f}" width="{layout.width}" '
        f'height="{layout.total:.0f}" font-size="{size.font}" role="presentation">'
    ]
    for arrow, corners in sorted(paths(layout, arrows(openings)).items()):
        colour = parts.index(chapters[arrow.source].part)
        about = marks(arrow.target) if arrow.kind == "needs" else chapters[arrow.target].number
        out.append(
            f'<g class="chapter-map-{arrow.kind} chapter-map-part-{colour}" data-for="{about}">'
            f'<path class="chapter-map-line" d="{rounded(corners)}"/><path d="{head(corners)}"/></g>'
        )
    for name, chapter in chapters.items():
        row, column = layout.place[name]
        x, y, part = layout.left(column), layout.top[row], parts.index(chapter.part)
        if name in layout.headings:
            out.append(
                f'<text class="chapter-map-heading chapter-map-part-{part}" x="{x}" y="{y - 0.5 * size.font:.1f}">'
                f"{escape(chapter.part)}</text>"
            )
        out.append(
            f'<a href="{escape(chapter.link)}" aria-label="{escape(spoken(chapter, chapters))}" '
            f'class="chapter-map-part-{part}" data-for="{marks(name)}" data-number="{chapter.number}">'
            f'<rect x="{x}" y="{y:.1f}" width="{size.column}" height="{layout.height[name]:.1f}" rx="5"/>'
            f'<path d="M{x + 2.5} {y + 5:.1f}v{layout.height[name] - 10:.1f}"/>'
        )
        for index, line in enumerate([*layout.lines[name], f"{chapter.opening.minutes} min"]):
            last = index == len(layout.lines[name])
            size_of_text = ' class="chapter-map-minutes"' if last else ""
            baseline = y + (PADDING + 0.95 + index * LINE) * size.font
            out.append(f'<text{size_of_text} x="{x + 0.75 * size.font:.1f}" y="{baseline:.1f}">{escape(line)}</text>')
        out.append("</a>")
    return "".join([*out, "</svg>"])


def rounded(corners, radius=4):
    """Return a path through the corners, each of them cut by a small curve."""
    path = f"M{point(corners[0])}"
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        path += f"L{point(toward(corner, before, radius))}Q{point(corner)} {point(toward(corner, after, radius))}"
    return path + f"L{point(toward(corners[-1], corners[-2], 4))}"


def toward(start, end, length):
    """Return the point on the way from start to end, `length` away from start but not beyond the half."""
    distance = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    share = min(length / distance, 0.5) if distance else 0
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def head(corners, length=6, width=3.2):
    (x, y), (before, above) = corners[-1], corners[-2]
    if x == before:
        step = length if y > above else -length
        return f"M{point((x, y))}L{point((x - width, y - step))}L{point((x + width, y - step))}Z"
    step = length if x > before else -length
    return f"M{point((x, y))}L{point((x - step, y - width))}L{point((x - step, y + width))}Z"


def point(place):
    return "{:.4g} {:.4g}".format(*place)


def spoken(chapter, chapters):
    return f"{chapter.number}. {chapter.title} {chapter.opening.minutes} min: {requirements(chapter, chapters)}"


def requirements(chapter, chapters):
    """Return what a chapter needs, as half a sentence."""
    names = {
        kind: listed([chapters[name].title for name in chapters if name in getattr(chapter.opening, kind)])
        for kind in ("needs", "helps")
    }
    text = f"needs {names['needs'] or 'no other chapter'}"
    return f"{text}; helped by {names['helps']}" if names["helps"] else text


def listed(names):
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


CAPTION = (
    "A solid arrow leads to a chapter from one that it needs; a dashed arrow, from one that helps. "
    "Arrows that others imply are left out. "
    "Point at a chapter, or go to it with the Tab key, to see all that it stands on."
)


def drawing(chapters, grid):
    rules = "".join(
        f'.chapter-map:has([data-number="{c.number}"]:is(:hover,:focus-visible)) '
        f'[data-for]:not([data-for~="{c.number}"]){{opacity:.2}}'
        for c in chapters.values()
    )
    pictures = "".join(svg(chapters, grid, size) for size in SIZES).replace(">", f"><style>{rules}</style>", 1)
    return (
        f'<nav class="chapter-map" aria-label="Map of the chapters">{pictures}'
        f'<p class="chapter-map-caption">{CAPTION}</p></nav>'
    )


# --- Sphinx ---


class MapPlaceholder(nodes.General, nodes.Element):
    """Where the map goes, once every title and number is known."""


class ChapterMap(SphinxDirective):
    has_content = True

    def run(self):
        self.env.metadata[self.env.docname]["chapter_map"] = True
        node = MapPlaceholder(rows=[line.split() for line in self.content if line.strip()])
        self.set_source_info(node)
        return [node]


def pages_with_a_map(app, env):
    """Have these pages written again: any chapter may have changed them."""
    return [page for page, facts in env.metadata.items() if facts.get("chapter_map")]


def numbered(env):
    """Return {name: page} of the pages with a number, in the order of the book."""
    found = {page: numbers[""] for page, numbers in env.toc_secnumbers.items() if numbers.get("")}
    return {page.rpartition("/")[2]: page for page in sorted(found, key=found.get)}


def parts_of(env):
    """Return {page: caption of its part}."""
    toctrees = env.tocs[env.config.root_doc].findall(addnodes.toctree)
    return {page: toctree.get("caption") or "" for toctree in toctrees for _, page in toctree["entries"]}


def resolve(app, doctree, docname):
    for node in list(doctree.findall(MapPlaceholder)):
        node.replace_self(map_nodes(app, docname, node))


def map_nodes(app, docname, node):
    env = app.env
    pages, parts, chapters = numbered(env), parts_of(env), {}
    for name, page in pages.items():
        try:
            opening = read_opening(env.doc2path(page))
        except ValueError as error:
            logger.warning("%s", error, location=page)
            continue
        strangers = {*opening.needs, *opening.helps} - set(pages)
        if strangers:
            logger.warning("the opening needs pages that have no number: %s", sorted(strangers), location=page)
            return []
        number = ".".join(map(str, env.toc_secnumbers[page][""]))
        link = app.builder.get_relative_uri(docname, page)
        # a title's second half, after a colon, is for its own page
        title = env.titles[page].astext().partition(": ")[0]
        chapters[name] = Chapter(name, number, title, parts.get(page, ""), link, opening)
    grid = [[full_name(short, chapters) for short in row] for row in node["rows"]]
    drawn = sorted(name for row in grid for name in row if name)
    if drawn != sorted(chapters):
        message = "the chapter map must hold each chapter once; it has %s, the book %s"
        logger.warning(message, drawn, sorted(chapters), location=node)
        return []
    items = [item(chapter, chapters) for chapter in chapters.values()]
    return [
        nodes.raw("", drawing(chapters, grid), format="html"),
        nodes.raw("", '<details class="chapter-map-list"><summary>The map as a list</summary>', format="html"),
        nodes.bullet_list("", *items),
        nodes.raw("", "</details>", format="html"),
    ]


def full_name(short, chapters):
    """Return the one chapter whose file begins like this; the word itself if there is none; None for a dot."""
    return None if short == "." else next((name for name in chapters if name.startswith(f"{short}_")), short)


def item(chapter, chapters):
    link = nodes.reference("", f"{chapter.number}. {chapter.title}", internal=True, refuri=chapter.link)
    text = f" ({chapter.opening.minutes} minutes) {requirements(chapter, chapters)}"
    return nodes.list_item("", nodes.paragraph("", "", link, nodes.Text(text)))


def load(app, pagename, templatename, context, doctree):
    if 'class="chapter-map"' in context.get("body", ""):
        app.add_css_file("chapter_map.css")


def setup(app):
    app.add_node(MapPlaceholder)
    app.add_directive("chapter-map", ChapterMap)
    app.connect("env-updated", pages_with_a_map)
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", load)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}

"""The ``{chapter-map}`` directive: what needs what, drawn and as a list. It keeps no fact about any chapter.

What a chapter needs, what helps, and how long it takes is read from its opening: the links to other chapters in the
paragraphs that begin with **You need** and **It helps**, and the minutes after **Time**. The directive's content only
says where the boxes stand, a row of numbers a line, a dot for an empty place. On the website the map is drawn twice,
for wide and for narrow screens; the list below it says the same in words, and is all that the PDF has.
"""

import json
import re
from collections import defaultdict
from html import escape
from itertools import combinations, islice, permutations
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


# --- the openings ---

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


# --- what is drawn ---


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


# --- where it is drawn: columns of boxes, and channels between them in which the arrows run up and down ---


class Size(NamedTuple):
    """Lengths in pixels."""

    name: str
    column: int
    channel: int
    margin: int
    font: float
    gap: int
    track: float


SIZES = [Size("wide", 180, 48, 22, 15, 26, 9), Size("narrow", 86, 23, 10, 11.6, 22, 5)]
LINE = 1.25  # of the font's size
PADDING = 0.5
HEADING = 1.6


def text_width(text):
    """Return an upper estimate of the width of a text in a bold sans-serif font of size 1."""
    wide, narrow = "mwMW", "iljtfrI.,:;'’()- 1"
    return sum(0.9 if c in wide else 0.36 if c in narrow else 0.72 if c.isupper() else 0.6 for c in text)


def wrap(text, width):
    lines = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


class Layout:
    """The places of the boxes of a map, in one size."""

    def __init__(self, chapters, grid, size):
        self.size = size
        places = [(name, (row, column)) for row, names in enumerate(grid) for column, name in enumerate(names)]
        self.place = {name: place for name, place in places if name}
        self.columns = max(map(len, grid))
        self.lines = {
            name: wrap(f"{chapter.number}. {chapter.title}", size.column / size.font - 2 * PADDING - 0.3)
            for name, chapter in chapters.items()
        }
        # the part's name stands over a box unless the one above it, or to its left, is of the same part
        self.headings, above = set(), {}
        for name, (row, column) in sorted(self.place.items(), key=lambda item: item[1]):
            left = grid[row][column - 1] if column else None
            if chapters[name].part not in {above.get(column), left and chapters[left].part}:
                self.headings.add(name)
            above[column] = chapters[name].part
        self.height = {
            name: ((len(lines) + 0.9) * LINE + 2 * PADDING) * size.font for name, lines in self.lines.items()
        }
        self.top, y = [], 0
        for names in grid:
            names = [name for name in names if name]
            y += HEADING * size.font if any(name in self.headings for name in names) else 0
            self.top.append(y)
            y += max((self.height[name] for name in names), default=0) + size.gap
        self.total = y - size.gap + 2
        self.width = 2 * size.margin + self.columns * size.column + (self.columns - 1) * size.channel

    def left(self, column):
        return self.size.margin + column * (self.size.column + self.size.channel)

    def side(self, name, channel):
        """Return the x of the side of a box that looks at a channel; channel k lies to the left of column k."""
        column = self.place[name][1]
        return self.left(column) + (self.size.column if channel > column else 0)

    def middle(self, channel):
        if channel == self.columns:
            return self.width - self.size.margin / 2
        return self.left(channel) - (self.size.channel if channel else self.size.margin) / 2

    def is_next_below(self, source, target):
        (row, column), (below, same) = self.place[source], self.place[target]
        between = [r for r, c in self.place.values() if c == column and row < r < below]
        return column == same and row < below and not between


class Trunk(NamedTuple):
    """Arrows of one kind that leave a box together, in one channel."""

    source: str
    kind: str
    channel: int
    arrows: list


def trunks(layout, drawn):
    """Return the channel's trunks for every arrow that does not simply lead straight down."""
    found = defaultdict(list)
    for arrow in drawn:
        if layout.is_next_below(arrow.source, arrow.target):
            continue
        (_, start), (_, end) = layout.place[arrow.source], layout.place[arrow.target]
        if start == end:
            channel = 0 if start == 0 else start + 1
        else:
            channel = max(start, end) if abs(start - end) == 1 else start + (end > start)
        found[arrow.source, arrow.kind, channel].append(arrow)
    return [Trunk(*key, arrows) for key, arrows in found.items()]


def is_far(layout, arrow):
    return abs(layout.place[arrow.source][1] - layout.place[arrow.target][1]) > 1


def corridor(layout, arrow):
    """Return the height at which an arrow between distant columns crosses the column between."""
    row = layout.place[arrow.target][0]
    heading = HEADING * layout.size.font if arrow.target in layout.headings else 0
    return layout.top[row] - heading - layout.size.gap / 2


def route(layout, channel, group):
    """Return {arrow: (x, y at the source, y at the target)} for a channel, with as few crossings as there can be."""
    best = None
    for order in islice(permutations(group), 5040):  # all orders of seven
        tracks = []
        for trunk in order:
            free = (track for track in tracks if all(apart(layout, trunk, other) for other in track))
            track = next(free, None)
            if track is None:
                tracks.append(track := [])
            track.append(trunk)
        routed = measure(layout, channel, tracks)
        cost = crossings(layout, channel, routed), len(tracks)
        if best is None or cost < best[0]:
            best = cost, routed
    return best[1]


def extent(layout, trunk):
    rows = [layout.place[trunk.source][0], *(layout.place[a.target][0] - is_far(layout, a) * 0.5 for a in trunk.arrows)]
    return min(rows), max(rows)


def apart(layout, one, other):
    (start, end), (other_start, other_end) = extent(layout, one), extent(layout, other)
    return end < other_start or other_end < start


def measure(layout, channel, tracks):
    """Give every track its x, and every arrow its places at the sides of the boxes: coming in above, leaving below."""
    size, middle = layout.size, layout.middle(channel)
    x = {}
    for index, track in enumerate(tracks):
        x.update({id(trunk): middle + (index - (len(tracks) - 1) / 2) * size.track for trunk in track})
    coming, leaving = defaultdict(list), defaultdict(list)
    for trunk in (trunk for track in tracks for trunk in track):
        leaving[trunk.source].append((x[id(trunk)], trunk))
        for arrow in trunk.arrows:
            if not is_far(layout, arrow):
                coming[arrow.target].append((x[id(trunk)], arrow))
    height = {}
    for name in {*coming, *leaving}:
        near = layout.side(name, channel)
        ports = sorted(coming[name], key=lambda port: abs(port[0] - near))
        ports += sorted(leaving[name], key=lambda port: -abs(port[0] - near))
        row = layout.place[name][0]
        for index, (_, port) in enumerate(ports):
            share = (index + 1) / (len(ports) + 1)
            key = (name, port) if isinstance(port, Arrow) else (name, id(port))
            # boxes that face each other across the channel do not leave at the same height
            shift = size.track / 2 if near > middle else -size.track / 2
            height[key] = layout.top[row] + layout.height[name] * share + shift
    for trunk in (trunk for track in tracks for trunk in track):
        for arrow in trunk.arrows:  # straight across, where nothing else enters or leaves
            row, target_row = layout.place[arrow.source][0], layout.place[arrow.target][0]
            if row == target_row and len(coming[arrow.target]) == 1 and not leaving[arrow.target]:
                height[arrow.target, arrow] = height[trunk.source, id(trunk)]
    return {
        arrow: (
            x[id(trunk)],
            height[trunk.source, id(trunk)],
            corridor(layout, arrow) if is_far(layout, arrow) else height[arrow.target, arrow],
        )
        for track in tracks
        for trunk in track
        for arrow in trunk.arrows
    }


def crossings(layout, channel, routed):
    """Count where a level piece of one arrow meets the upright piece of another."""
    count = 0
    for one, other in ((a, b) for pair in combinations(routed, 2) for a, b in (pair, pair[::-1])):
        if one.source == other.source and one.kind == other.kind:
            continue
        x, start, end = routed[other]
        track, *levels = routed[one]
        sides = [layout.side(one.source, channel), layout.side(one.target, channel)]
        for y, side in zip(levels, sides, strict=True):
            if min(track, side) < x < max(track, side) and min(start, end) <= y <= max(start, end):
                count += 1
    return count


def paths(layout, drawn):
    """Return {arrow: its corners, from the box it leaves to the box at which it points}."""
    found = {}
    by_channel = defaultdict(list)
    for trunk in trunks(layout, drawn):
        by_channel[trunk.channel].append(trunk)
    for channel, group in by_channel.items():
        for arrow, (x, start, end) in route(layout, channel, group).items():
            corners = [(layout.side(arrow.source, channel), start), (x, start), (x, end)]
            if is_far(layout, arrow):
                row, column = layout.place[arrow.target]
                centre = layout.left(column) + layout.size.column / 2
                corners += [(centre, end), (centre, layout.top[row])]
            else:
                corners.append((layout.side(arrow.target, channel), end))
            found[arrow] = corners
    for arrow in drawn:
        if arrow not in found:
            (row, column), (below, _) = layout.place[arrow.source], layout.place[arrow.target]
            x = layout.left(column) + layout.size.column / 2
            found[arrow] = [(x, layout.top[row] + layout.height[arrow.source]), (x, layout.top[below])]
    return found


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

"""Where the boxes and arrows of the map of the chapters stand: columns, and channels between them. It writes no SVG.

Boxes stand where the grid says. Arrows run up and down in the channels, each group of them on a track of its own, so
that few cross.
"""

from collections import defaultdict
from itertools import combinations, islice, permutations
from typing import NamedTuple

from chapter_graph import Arrow


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

"""Put the SVG figures of the notebooks into the page itself, in colours that follow the light or dark theme.

A picture in a file of its own cannot know which theme the reader has chosen. Inside the page every colour is written
twice: as it was drawn, for the light theme, and with its lightness turned round, at the same hue, for the dark one.
White becomes the page's background. Pixels, such as those of a heat map, are turned round by custom.css. On a phone a
wide figure scrolls, rather than shrink until nobody can read it. Other builders keep the files.
"""

import html
import re
from pathlib import Path

from doctrees import is_output
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

COLOUR = re.compile(r"\b(fill|stroke|stop-color): (#[0-9a-f]{6})\b")
WIDTH = re.compile(r'<svg[^>]* width="([0-9.]+)pt"')
SMALLEST = 0.6  # of the size as drawn, where letters have 10 pt: a narrower page scrolls the figure
REFERENCE = re.compile(r'(?:xlink:)?href="#([^"]+)"|url\(#([^)]+)\)')
PAPER = "var(--pst-color-background, #ffffff)"

# linear sRGB to the cube roots of cone responses, and those to lightness and two hues: Ottosson's OKLab
CONES = (0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566), (
    0.0883024619, 0.2817188376, 0.6299787005)
LAB = (0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099), (
    0.0259040371, 0.7827717662, -0.8086757660)
CONES_BACK = (1.0, 0.3963377774, 0.2158037573), (1.0, -0.1055613458, -0.0638541728), (1.0, -0.0894841775, -1.2914855480)
RGB = (4.0767416621, -3.3077115913, 0.2309699292), (-1.2684380046, 2.6097574011, -0.3413193965), (
    -0.0041960863, -0.7034186147, 1.7076147010)


def turned_round(colour):
    """Return the colour for the dark theme of ``#rrggbb``: light for dark, of the same hue, as vivid as can be shown.

    >>> turned_round("#000000"), turned_round("#2f6db3")
    ('#f2f2f2', '#629ee8')
    """
    linear = [_linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5)]
    lightness, *hues = _product(LAB, [x ** (1 / 3) for x in _product(CONES, linear)])
    lightness = min(0.95, 1.23 - 0.95 * lightness)  # the page behind it is at 0.21
    for vividness in range(100, -1, -1):
        cones = _product(CONES_BACK, [lightness, *(vividness / 100 * hue for hue in hues)])
        linear = _product(RGB, [x**3 for x in cones])
        if all(-1e-6 <= x <= 1 + 1e-6 for x in linear):
            break
    return "#" + "".join(f"{round(255 * _shown(min(max(x, 0), 1))):02x}" for x in linear)


def _product(matrix, vector):
    return [sum(a * x for a, x in zip(row, vector, strict=True)) for row in matrix]


def _linear(x):
    return x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4


def _shown(x):
    return 12.92 * x if x <= 0.0031308 else 1.055 * x ** (1 / 2.4) - 0.055


def in_both_themes(match):
    """Write a colour as it is, for old browsers, and then once for each theme."""
    what, colour = match.groups()
    if colour == "#ffffff":
        return f"{what}: {PAPER}"
    return f"{what}: {colour}; {what}: light-dark({colour}, {turned_round(colour)})"


def inline(svg, alt, name):
    """Return the SVG of matplotlib as an element of a page, with the alternative text, and ids that begin with name."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL)
    used = {one or other for one, other in REFERENCE.findall(svg)}
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('xlink:href="data:', 'href="data:')
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", svg)
    svg = COLOUR.sub(in_both_themes, svg)
    least = min(SMALLEST * float(WIDTH.match(svg)[1]), 420)
    about = f'class="book-figure" style="--least: {least:.0f}pt" role="img" aria-label="{html.escape(alt)}"'
    # the theme gives an output that scrolls its place among the tab stops
    return f'<div class="output figure-frame">{svg.replace("<svg", f"<svg {about}", 1)}</div>'


class InlineFigures(SphinxPostTransform):
    default_priority = 900
    formats = ("html",)

    def run(self, **kwargs):
        images = self.document.findall(nodes.image)
        drawn = [image for image in images if image["uri"].endswith(".svg") and "alt" in image and is_output(image)]
        for number, image in enumerate(drawn, 1):
            svg = Path(self.app.srcdir, image["uri"]).read_text(encoding="utf-8")
            image.replace_self(nodes.raw("", inline(svg, image["alt"], f"figure-{number}"), format="html"))


def setup(app):
    app.add_post_transform(InlineFigures)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

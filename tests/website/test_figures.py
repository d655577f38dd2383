"""The notebooks' figures inside the pages: in colours of their own for each theme, legible in both."""

import re
import sys
from pathlib import Path

import pytest
from built_site import SITE

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "book" / "_ext"))
from figures import in_both_themes, inline, turned_round  # noqa: E402

# the text of a figure, the lines and fills of reference_impl.plotting, and the dark page
INK, LINES, NIGHT = "#333333", ["#2f6db3", "#d9691e", "#2e8b57", "#8a8f98", "#8e44ad", "#31373f"], "#121212"
SVG = """<?xml version="1.0"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" viewBox="0 0 9 9" xmlns="http://www.w3.org/2000/svg"
 version="1.1">
 <metadata>somebody</metadata><defs>
  <style type="text/css">*{stroke-linejoin: round}</style>
 </defs>
 <g id="figure_1"><path id="glyph" style="fill: #ffffff; stroke: #2f6db3"/><use xlink:href="#glyph"/>
 <g clip-path="url(#clip)"/><clipPath id="clip"/></g></svg>"""


def luminance(colour):
    shown = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shown]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_and_lines_can_be_told_from_the_dark_page():
    """WCAG asks for 4.5 where it is text and for 3 where it is a line."""
    assert contrast(turned_round(INK), NIGHT) > 7
    assert all(contrast(turned_round(colour), NIGHT) > 4.5 for colour in LINES)


def test_light_becomes_dark_and_keeps_its_order_and_its_hue():
    greys = [turned_round(f"#{x:02x}{x:02x}{x:02x}") for x in range(0, 256, 5)]
    assert [luminance(grey) for grey in greys] == sorted(map(luminance, greys), reverse=True)
    assert all(grey[1:3] == grey[3:5] == grey[5:7] for grey in greys)
    for colour in LINES[:3]:
        highest = [max(range(3), key=lambda i, c=c: int(c[1 + 2 * i : 3 + 2 * i], 16)) for c in
                   (colour, turned_round(colour))]
        assert highest[0] == highest[1]


def test_a_colour_is_written_for_old_browsers_and_for_both_themes():
    written = re.sub(r"(fill|stroke): (#[0-9a-f]{6})", in_both_themes, "fill: #2f6db3; stroke: #ffffff")
    other = turned_round("#2f6db3")
    assert written == (f"fill: #2f6db3; fill: light-dark(#2f6db3, {other}); "
                       "stroke: var(--pst-color-background, #ffffff)")


def test_a_drawing_becomes_an_element_with_ids_of_its_own():
    element = inline(SVG, 'a "bar" & more', "figure-7")
    assert element.startswith('<div class="output figure-frame"><svg class="book-figure" style="--least: 5pt" '
                              'role="img" aria-label="a &quot;bar&quot; &amp; more"')
    assert 'id="figure-7-glyph"' in element and 'href="#figure-7-glyph"' in element
    assert 'url(#figure-7-clip)' in element and 'id="figure-7-clip"' in element
    assert not re.search(r"figure_1|somebody|linejoin|xlink|xmlns|<\?xml", element)


def test_a_wide_figure_scrolls_on_a_phone(site, browser):
    """Its letters have at least six tenths of their size, its frame is a tab stop, and the page is not wider."""
    tab = browser.new_page(viewport={"width": 375, "height": 800})
    tab.goto((SITE / "notebooks" / "04_two_losses.html").as_uri())
    tab.wait_for_function("() => document.querySelector('.figure-frame').tabIndex === 0")
    figures = tab.eval_on_selector_all(".book-figure", """found => found.map(figure => [
        figure.getBoundingClientRect().width / figure.viewBox.baseVal.width * 72 / 96, figure.parentElement.tabIndex,
        figure.parentElement.scrollWidth > figure.parentElement.clientWidth])""")
    assert all(size >= 0.59 for size, _, _ in figures), figures
    assert all((tab_index == 0) == scrolls for _, tab_index, scrolls in figures), figures
    assert any(scrolls for _, _, scrolls in figures)
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= 375
    tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_figure_has_the_colours_of_the_theme(site, browser, scheme):
    tab = browser.new_context(color_scheme=scheme).new_page()
    tab.goto((SITE / "notebooks" / "60_rnnt_gradient.html").as_uri())
    seen = set(tab.eval_on_selector_all(
        ".book-figure [style*='light-dark']",
        "found => found.flatMap(e => { const s = getComputedStyle(e); return [s.fill, s.stroke]; })"))
    tab.context.close()
    here, there = (f"rgb({', '.join(str(int(c[i : i + 2], 16)) for i in (1, 3, 5))})"
                   for c in ((INK, turned_round(INK)) if scheme == "light" else (turned_round(INK), INK)))
    assert here in seen and there not in seen

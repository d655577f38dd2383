"""A page of the built site as the browser prints it: light, whole, nothing cut off at the right, nothing to operate."""

import pytest
from built_site import SITE

PAPER = 540  # pixels between the margins: narrower than A4, 680, so that long lines of code are seen to wrap
PAGES = [
    "book/preface.html", "book/laboratory.html", "book/clinic.html", "book/rosetta.html", "book/teaching/index.html",
    "book/teaching/session_3.html", "book/teaching/syllabus.html", "book/teaching/prerequisites.html",
    *(f"notebooks/{name}.html" for name in (
        "40_ctc_gradient", "42_ctc_2006", "60_rnnt_gradient", "62_rnnt_kernels", "64_kernel_failures", "96_the_floor")),
]
TOO_WIDE = """width => [...document.querySelectorAll('.bd-article *')]
    .filter(e => e.checkVisibility({visibilityProperty: true}) && !e.closest('.visually-hidden, mjx-assistive-mml'))
    .filter(e => e.getBoundingClientRect().right > width + 1
        || (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).overflowX !== 'visible'))
    .map(e => e.outerHTML.slice(0, 90))"""
FOLDED = """() => [...document.querySelectorAll('.admonition.solution, details.toggle-details')]
    .filter(e => e.classList.contains('toggle-hidden') || e.open === false).length"""
TO_OPERATE = """() => [...document.querySelectorAll(
        'button, input, select, .lattice-lab summary, textarea, nav:not(.chapter-map), footer, .bd-sidebar')]
    .filter(e => e.checkVisibility()).map(e => e.outerHTML.slice(0, 90))"""
COLOURS = """() => ['.bd-article p', 'body'].map(name => {
    const style = getComputedStyle(document.querySelector(name));
    const [r, g, b] = (name === 'body' ? style.backgroundColor : style.color).match(/\\d+/g).map(Number);
    return (r + g + b) / 765;
})"""


@pytest.fixture(scope="module")
def tab(browser):
    """A reader with a dark screen, who prints."""
    tab = browser.new_page(viewport={"width": PAPER, "height": 1000}, color_scheme="dark")
    yield tab
    tab.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_light_whole_and_without_controls(tab, name):
    tab.emulate_media(media="screen")
    tab.goto((SITE / name).as_uri())
    tab.evaluate("() => window.MathJax?.startup?.promise")
    text, paper = tab.evaluate(COLOURS)
    folded = tab.evaluate(FOLDED)
    assert text > 0.6 > 0.2 > paper and (folded > 0 or "notebooks" not in name)
    tab.emulate_media(media="print")
    tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    text, paper = tab.evaluate(COLOURS)
    assert text < 0.3 and paper > 0.95
    assert tab.evaluate(FOLDED) == 0
    assert tab.evaluate(TO_OPERATE) == []
    assert tab.evaluate(TOO_WIDE, PAPER) == []
    assert tab.locator(".bd-article h1").first.is_visible()
    tab.emulate_media(media="screen")
    tab.evaluate("() => dispatchEvent(new Event('afterprint'))")
    text, paper = tab.evaluate(COLOURS)
    assert text > 0.6 > 0.2 > paper and tab.evaluate(FOLDED) == folded

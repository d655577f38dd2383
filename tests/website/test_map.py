"""The map of the chapters in the built site: what the pages of the chapters say, in boxes that hold their text."""

import re

import pytest
from built_site import SITE

PREFACE = SITE / "book" / "preface.html"
TEXT_OUTSIDE_ITS_BOX = """() => [...document.querySelectorAll('.chapter-map a')].filter(a => a.checkVisibility())
    .flatMap(a => {
        const box = a.querySelector('rect').getBoundingClientRect();
        return [...a.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()])
            .filter(([, r]) => r.left < box.left || r.right > box.right || r.top < box.top || r.bottom > box.bottom)
            .map(([text]) => text);
    })"""


def opening(page):
    """Return what the opening on a chapter's page says: chapters needed, chapters that help, minutes."""
    found = {"You need": set(), "It helps": set(), "Time": None}
    for paragraph in page.select(".admonition p"):
        start = paragraph.find("strong")
        kind = start.get_text() if start else None
        if kind == "Time":
            found[kind] = re.search(r"(\d+) minutes", paragraph.get_text())[1]
        elif kind in found:
            links = [link["href"] for link in paragraph.find_all("a")]
            found[kind] = {link for link in links if re.fullmatch(r"\d\d_\w+\.html", link)}
    return list(found.values())


def test_the_map_says_what_the_chapters_say(site):
    """Read from the built pages, where the map is read from the sources."""
    preface = site[PREFACE]
    entries = preface.select(".chapter-map-list li")
    title = {item.a["href"].rpartition("/")[2]: item.a.get_text().partition(" ")[2] for item in entries}
    chapters = {page.name: opening(soup) for page, soup in site.items() if re.match(r"\d\d_", page.name)
                and page.parent.name == "notebooks"}
    assert set(title) == set(chapters) and len(title) > 18
    for item in entries:
        name = item.a["href"].rpartition("/")[2]
        minutes, needs = re.search(r"\((\d+) minutes\) needs (.*)", item.get_text()).groups()
        needs, _, helps = needs.partition("; helped by ")
        required, helpful, time = chapters[name]
        said = {kind: {other for other in title if title[other] in text} for kind, text in
                (("needs", needs), ("helps", helps))}
        assert (said["needs"], said["helps"], minutes) == (required, helpful, time), name
        for link in preface.select(f'.chapter-map a[href$="{name}"]'):
            assert link["aria-label"] == f"{item.a.get_text()} {minutes} min: {item.get_text().partition(') ')[2]}"
            assert " ".join(text.get_text() for text in link.find_all("text")) == f"{item.a.get_text()} {minutes} min"
    assert len(preface.select(".chapter-map a")) == 2 * len(entries)


@pytest.mark.parametrize("width, drawing", [(1280, "wide"), (800, "wide"), (360, "narrow")])
def test_each_box_holds_its_text_and_is_reached_by_the_keyboard(browser, width, drawing):
    tab = browser.new_page(viewport={"width": width, "height": 800})
    tab.goto(PREFACE.as_uri())
    seen = tab.locator(".chapter-map svg:visible")
    assert seen.count() == 1 and f"chapter-map-{drawing}" in seen.get_attribute("class")
    assert tab.evaluate(TEXT_OUTSIDE_ITS_BOX) == []
    size, scale = seen.evaluate("""svg => [
        parseFloat(getComputedStyle(svg.querySelector('.chapter-map-minutes')).fontSize),
        svg.getBoundingClientRect().width / svg.viewBox.baseVal.width,
    ]""")
    assert size * scale > 9.5
    links = seen.locator("a")
    links.first.focus()
    for step in range(1, links.count()):
        tab.keyboard.press("Tab")
        assert links.nth(step).evaluate("link => link === document.activeElement"), step
    # The floor, the last, stands on all of RNN-T but not on what follows from it, nor on CTC
    shown = links.evaluate_all(
        "all => all.filter(a => getComputedStyle(a).opacity === '1').map(a => a.getAttribute('href'))")
    assert re.findall(r"/(\d\d)_", " ".join(shown)) == "10 20 30 50 60 90 92 94 96".split()
    tab.close()

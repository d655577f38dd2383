"""The map of the chapters in the built site: what the pages of the chapters say, in lanes that fit the screen."""

import re

import pytest
from built_site import SITE

PREFACE = SITE / "book" / "preface.html"
BESIDE = """() => [...document.querySelectorAll('.chapter-map *')]
    .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML)"""


def opening(page):
    """Return what the opening on a chapter's page says: chapters needed, and the minutes of its core."""
    needs, minutes = set(), None
    for paragraph in page.select(".admonition p"):
        start = paragraph.find("strong")
        if start and start.get_text() == "Time":
            minutes = re.search(r"(\d+) minutes", paragraph.get_text())[1]
        elif start and start.get_text() == "You need":
            links = [link["href"] for link in paragraph.find_all("a")]
            needs = {link for link in links if re.fullmatch(r"\d\d_\w+\.html", link)}
    return needs, minutes


def test_the_map_says_what_the_chapters_say(site):
    """Read from the built pages, where the map is read from the sources; what is implied may be left out."""
    chapters = {page.name: opening(soup) for page, soup in site.items() if re.match(r"\d\d_", page.name)
                and page.parent.name == "notebooks"}
    listed = [[item.find("a")["href"].rpartition("/")[2], item] for lane in site[PREFACE].select(".chapter-lane")
              for item in lane.select("li")]
    assert {name for name, _ in listed} == set(chapters) and len(listed) == len(chapters) > 25
    said = {}
    for (above, _), (name, item) in zip([(None, None), *listed], listed, strict=False):
        said[name] = {link["href"].rpartition("/")[2] for link in item.select(".chapter-needs a")}
        said[name] |= {above} if "chapter-follows" in item["class"] else set()
        assert item.select_one(".chapter-minutes").get_text().strip() == f"{chapters[name][1]} min", name
    for name, (needs, _) in chapters.items():
        implied = set().union(*(chapters[other][0] for other in needs))
        assert said[name] <= needs <= said[name] | implied | set().union(*map(said.get, implied)), name


@pytest.mark.parametrize("width", [1280, 800, 360])
def test_the_lanes_fit_and_are_reached_by_the_keyboard(browser, width):
    tab = browser.new_page(viewport={"width": width, "height": 800})
    tab.goto(PREFACE.as_uri())
    assert tab.evaluate(BESIDE) == []
    links = tab.locator(".chapter-map a")
    links.first.focus()
    for step in range(1, links.count()):
        tab.keyboard.press("Tab")
        assert links.nth(step).evaluate("link => link === document.activeElement"), step
    tab.close()

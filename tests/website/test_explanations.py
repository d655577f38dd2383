"""What opens over a word of the glossary and over the number of an equation: with mouse, keyboard and finger."""

import pytest
from built_site import SITE
from test_pages import target_of

TERM = "a.term[href$='#term-predictor']"
EQUATION = "p a.reference.internal[href$='#equation-eq-rnnt-beta']"


@pytest.fixture
def chapter(site):
    return SITE / "notebooks" / "60_rnnt_gradient.html"


@pytest.fixture
def tab(chapter, browser):
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    tab = context.new_page()
    tab.goto(chapter.as_uri())
    tab.evaluate("() => window.MathJax?.startup?.promise")
    yield tab
    context.close()


def test_every_link_to_a_term_or_an_equation_can_be_explained(site):
    missing, links = [], 0
    for page, soup in site.items():
        texts = soup.select_one("template#explanations")
        known = {item["data-of"] for item in texts.find_all(attrs={"data-of": True})} if texts else set()
        for link in soup.select("article a.reference.internal[href*='#']"):
            anchor = link["href"].partition("#")[2]
            if anchor.startswith(("term-", "equation-")) and "checks" not in page.parts:
                links += 1
                missing += [f"{page.name}: {anchor}"] * (anchor not in known)
    assert links > 800 and not missing, "\n".join(missing)


def test_words_are_linked_once_a_page_and_lead_to_the_glossary(site):
    for page, soup in site.items():
        links = [link["href"] for link in soup.select("article a.term")]
        assert len(links) == len(set(links)), page.name
        assert all(target_of(page, link)[0].stem == "glossary" for link in links), page.name
        assert not soup.select("h1 a.term, h2 a.term, h3 a.term, code a.term, a a.term"), page.name


def test_the_mouse_opens_and_closes(tab):
    link, box = tab.locator(TERM).first, tab.locator("#explanation")
    assert box.is_hidden()
    link.hover()
    box.wait_for(state="visible")
    assert "part of a transducer that sees the labels" in box.inner_text()
    assert link.get_attribute("aria-describedby") == "explanation"
    box.hover()  # it stays while one reads it
    tab.wait_for_timeout(400)
    assert box.is_visible()
    tab.mouse.move(5, 5)
    box.wait_for(state="hidden")
    assert link.get_attribute("aria-describedby") is None


def test_the_keyboard_opens_and_escape_closes(tab):
    link, box = tab.locator(EQUATION).first, tab.locator("#explanation")
    link.focus()
    box.wait_for(state="visible")
    box.locator("mjx-container").wait_for(state="visible")
    assert "$" not in box.inner_text() and "\\" not in box.inner_text()
    tab.keyboard.press("Escape")
    assert box.is_hidden()
    assert link.evaluate("e => e === document.activeElement")


def test_the_first_tap_explains_and_the_second_follows(chapter, browser):
    context = browser.new_context(viewport={"width": 360, "height": 720}, has_touch=True, is_mobile=True)
    tab = context.new_page()
    tab.goto(chapter.as_uri())
    link, box = tab.locator(TERM).first, tab.locator("#explanation")
    link.tap()
    box.wait_for(state="visible")
    frame = box.bounding_box()
    assert tab.url.endswith("60_rnnt_gradient.html") and frame["x"] >= 0 and frame["x"] + frame["width"] <= 360
    link.tap()
    tab.wait_for_url("**/glossary.html#term-predictor")
    context.close()

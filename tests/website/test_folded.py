"""Sections off the main line in the built site: closed, opened by a link into them and by printing."""

import pytest

# new browsers open the section that a link leads into, so what the script opens is noted
NOTE = """
const native = Object.getOwnPropertyDescriptor(HTMLDetailsElement.prototype, 'open');
Object.defineProperty(HTMLDetailsElement.prototype, 'open', {
    get: () => false, set(value) { this.dataset.opened = value; native.set.call(this, value); }});"""
# the address changes and the script hears of it; the browser itself goes nowhere
FOLLOW = "anchor => { history.replaceState(null, '', `#${anchor}`); dispatchEvent(new Event('hashchange')); }"


@pytest.fixture(scope="module")
def target(site):
    """A page, and what stands inside one of its folded sections."""
    return next((page, section["id"]) for page, soup in sorted(site.items()) if page.parent.name == "notebooks"
                for section in soup.select("details.deeper section[id]"))


def test_a_link_into_a_folded_section_opens_it(target, browser):
    page, anchor = target
    tab = browser.new_page()
    tab.add_init_script(NOTE)
    tab.goto(f"{page.as_uri()}#{anchor}")
    tab.locator(f"details.deeper[data-opened]:has(#{anchor})").wait_for(timeout=5000)
    tab.close()


def test_a_link_within_the_page_opens_its_section_and_printing_opens_all(target, browser):
    """The link the one that it leads into, and printing all; afterwards those that were closed close again."""
    page, anchor = target
    tab = browser.new_page()
    tab.goto(page.as_uri())
    opened, closed = tab.locator("details.deeper[open]"), tab.locator("details.deeper:not([open])")
    number = closed.count()
    assert number > 1 and opened.count() == 0
    tab.evaluate(FOLLOW, anchor)
    assert opened.count() == 1 and opened.locator(f"#{anchor}").count() == 1
    top = tab.locator(f"#{anchor}").evaluate("target => target.getBoundingClientRect().top")
    assert 0 <= top < tab.viewport_size["height"]
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert closed.count() == 0
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.count() == 1 and closed.count() == number - 1
    tab.close()

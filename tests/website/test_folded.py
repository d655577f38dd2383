"""Sections off the main line in the built site: closed, opened by a link into them and by printing."""


def test_a_link_into_a_folded_section_opens_it(site, browser):
    page, anchor = next((page, section["id"]) for page, soup in sorted(site.items()) if page.parent.name == "notebooks"
                        for section in soup.select("details.deeper section[id]"))
    tab = browser.new_page()
    tab.goto(f"{page.as_uri()}#{anchor}")
    folded = tab.locator(f"details.deeper:has(#{anchor})")
    folded.locator("xpath=self::*[@open]").wait_for(timeout=5000)
    assert tab.locator("details.deeper:not([open])").count() > 0
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details.deeper:not([open])").count() == 0
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details.deeper:not([open])").count() > 0
    tab.close()

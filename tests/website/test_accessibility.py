"""Every page of the built site under axe-core, in light and dark."""

from pathlib import Path

import axe_playwright_python
import pytest
from built_site import SITE

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
# what the theme itself leaves open, on every page: the logo stands outside the landmarks, and the search button's
# name does not begin with its text
OF_THE_THEME = {"region", "label-content-name-mismatch"}

# formulas are thousands of drawn paths, and code thousands of coloured words, which take MathJax and axe minutes: those
# are not drawn here, and these left out, plain text in their place
PLAIN = "() => document.querySelectorAll('.math, pre').forEach(each => { each.textContent = each.textContent })"
# of what is in order axe would write a long list
RUN = """options => axe.run({exclude: ['.math', 'pre']}, {resultTypes: ['violations'], ...options})
    .then(results => results.violations)"""
# in the dark only colours differ
SCHEMES = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
# several workers share the pages
PARTS = 4


@pytest.mark.parametrize("part", [pytest.param(k, marks=pytest.mark.xdist_group(f"axe {k}")) for k in range(PARTS)])
def test_axe_finds_nothing_but_the_theme_s_own(pages, browser, part):
    found = []
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.route("**/*", lambda route: route.abort() if "mathjax" in route.request.url.lower() else route.continue_())
    for page in pages[part::PARTS]:
        if page.parent.name == "slides" and page.stem != "index":
            continue  # test_slides.py shows every slide
        tab.emulate_media(color_scheme="light")
        tab.goto(page.as_uri())
        tab.add_style_tag(content="* { transition: none !important }")
        tab.evaluate(PLAIN)
        tab.evaluate(AXE)
        for scheme, options in SCHEMES.items():
            tab.emulate_media(color_scheme=scheme)
            tab.wait_for_function(f"() => document.documentElement.dataset.theme === '{scheme}'")
            for violation in tab.evaluate(RUN, options):
                if violation["id"] not in OF_THE_THEME:
                    where = "; ".join(node["html"][:120] for node in violation["nodes"][:3])
                    name = f"{page.relative_to(SITE).as_posix()}, {scheme}"
                    found.append(f"{name}: {violation['id']}, {len(violation['nodes'])} times: {where}")
    tab.close()
    assert not found, "\n".join(found)

"""What the tests of the built site share: its pages, and a browser. It builds nothing.

Without a site (`make book`) or a Chromium the tests skip, with the reason; with REQUIRE_SITE=1 and REQUIRE_BROWSER=1
in the environment they fail instead.
"""

import shutil

import pytest
from bs4 import BeautifulSoup
from built_site import SITE, skip_or_fail


def pytest_collection_modifyitems(items):
    """With several workers the tests of a file go to the same one, unless they say otherwise: they share a browser."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.fixture(scope="session")
def site():
    """Return every page of the site, parsed: {path: soup}."""
    if not (SITE / "index.html").exists():
        skip_or_fail("REQUIRE_SITE", "the site is not built (make book)")
    paths = [path for path in sorted(SITE.rglob("*.html")) if SITE / "_static" not in path.parents]
    return {path: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in paths}


@pytest.fixture(scope="session")
def pages(site):
    """Return the paths to open in a browser: all but index.html, which leads to the first page at once.

    Where the site has an address, the page for lost links loads its files from there, and test_address.py tries it.
    """
    return [path for path, soup in site.items() if path != SITE / "index.html" and not soup.base]


@pytest.fixture(scope="session")
def browser(site, chromium):
    """A browser for the pages of the site."""
    return chromium


@pytest.fixture(scope="session")
def chromium():
    """The same browser, for pages that a test makes by itself."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        skip_or_fail("REQUIRE_BROWSER", "there is no chromium on the PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=quiet)
        yield browser
        browser.close()

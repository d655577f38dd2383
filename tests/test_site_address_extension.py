"""What a site says about itself to other machines, tried on small books: address, previews, the page for lost links."""

import re
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.errors import ConfigError
from sphinx.util.docutils import docutils_namespace

sys.path.append(str(Path(__file__).parent.parent / "book" / "_ext"))
from site_address import LENGTH, find_address  # noqa: E402

ADDRESS = "https://owner.github.io/book/"


@pytest.fixture
def address(monkeypatch):
    def after(site_url="", repository="", outside=None):
        monkeypatch.delenv("BOOK_SITE_URL", raising=False)
        if outside is not None:
            monkeypatch.setenv("BOOK_SITE_URL", outside)
        config = SimpleNamespace(site_url=site_url, html_theme_options={"repository_url": repository})
        find_address(None, config)
        return config.html_baseurl

    return after


def test_the_address_comes_from_the_setting_the_environment_or_the_repository(address):
    assert address() == address(outside="") == ""
    assert address("https://example.org/book") == "https://example.org/book/"
    assert address("https://example.org/book", outside="https://example.net/") == "https://example.net/"
    assert address(repository="https://github.com/Owner/Book") == "https://owner.github.io/Book/"
    assert address(repository="https://github.com/Owner/owner.github.io") == "https://owner.github.io/"
    assert address("https://example.org", "https://github.com/Owner/Book") == "https://example.org/"
    assert address(repository="https://example.org/owner/book") == ""


def test_what_is_no_address_is_refused(address):
    with pytest.raises(ConfigError, match="site_url = 'example.org'; expected an address that begins with https://"):
        address("example.org")


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.delenv("BOOK_SITE_URL", raising=False)
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\nparts/one\nparts/checks\n```\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.md").write_text("# One & two\n\nWhat *is* it? It is $k$.\n\n## Later\n\nNot this.\n")
    (tmp_path / "parts" / "checks.md").write_text("# Checks\n\nEverything.\n")
    return tmp_path


def build(book, **more):
    warnings = StringIO()
    settings = {
        "extensions": ["myst_parser", "site_address"],
        "myst_enable_extensions": ["dollarmath"],
        "html_title": "The book",
        "html_theme": "basic",
        "exclude_patterns": ["_build"],
        **more,
    }
    with docutils_namespace():
        out = book / "_build"
        Sphinx(book, None, out, out / "doctrees", "html", settings, StringIO(), warnings).build()
    return re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())


def page(book, name):
    return BeautifulSoup((book / "_build" / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def tags(soup):
    found = soup.find_all("meta", content=True)
    return {tag.get("property") or tag["name"]: tag["content"] for tag in found if tag.get("name") != "viewport"}


def test_with_an_address_each_page_has_a_preview_with_a_picture(book):
    assert build(book, site_url=ADDRESS) == ""
    one = page(book, "parts/one")
    assert one.find("link", rel="canonical")["href"] == f"{ADDRESS}parts/one.html"
    assert tags(one) == {
        "description": "What is it? It is k.",
        "twitter:card": "summary_large_image",
        "og:title": "One & two",
        "og:type": "article",
        "og:site_name": "The book",
        "og:description": "What is it? It is k.",
        "og:url": f"{ADDRESS}parts/one.html",
        "og:image": f"{ADDRESS}_static/preview.png",
        "og:image:width": "1200",
        "og:image:height": "630",
        "og:image:alt": "A lattice whose arcs are as dark as their posteriors, and the title",
    }
    assert tags(page(book, "index"))["og:type"] == "website"


def test_a_repository_on_github_implies_an_address(book):
    """The theme of this small book does not know the repository's options, and says so."""
    build(book, extensions=["myst_parser", "site_address", "repository"], repository_url="https://github.com/owner/book")
    assert tags(page(book, "parts/one"))["og:url"] == f"{ADDRESS}parts/one.html"


def test_without_an_address_none_is_made_up(book):
    assert build(book) == ""
    one = page(book, "parts/one")
    assert one.find("link", rel="canonical") is None and page(book, "404").base is None
    assert set(tags(one)) == {"description", "twitter:card", "og:title", "og:type", "og:site_name", "og:description"}
    assert tags(one)["twitter:card"] == "summary"


def test_the_lost_page_finds_the_site_from_any_address(book):
    assert build(book, site_url=ADDRESS) == ""
    lost = page(book, "404")
    assert lost.base["href"] == f"{ADDRESS}404.html"
    before = [tag.name for tag in lost.head.find_all(True) if tag.get("href") or tag.get("src")]
    assert before[0] == "base", "what comes before it is looked for where the reader got lost"
    assert lost.find("link", rel="canonical") is None and tags(lost) == {"robots": "noindex"}
    assert [a["href"] for a in lost.select("#lost a")] == ["index.html", "search.html", "parts/checks.html"]
    assert "no such page" not in (book / "_build" / "searchindex.js").read_text(encoding="utf-8").lower()


OUTCOMES = "```{note}\n**You will be able to**\n- prove $\\sqrt{a}$;\n- say what follows.\n```\n"


@pytest.mark.parametrize("text, description", [
    ("One. Two $\\frac12$ is cut. Three $U + 1$.", "One. Three U + 1."),
    ("$\\alpha$ opens here, and the rest hangs in the air. So does this.\n\nThis does not.", "This does not."),
    ("and goes on after a formula. More.\n\nA start.", "A start."),
    ("A list follows:\n\nNone of it.", "None of it."),
    (OUTCOMES + "\n$\\alpha$ opens here.", "You will be able to say what follows."),
    (OUTCOMES + "\nThe text comes first.", "The text comes first."),
    ("", "One: a page of The book."),
    ("It has 1.5 ends? “Yes.” Good. " + "Then a sentence that is long " * 7 + "ends.", "It has 1.5 ends? “Yes.” Good."),
    ("A sentence " + "goes on and on " * 20 + "to its end.", "A sentence " + "goes on and on " * 12 + "goes on…"),
])
def test_a_description_is_whole_sentences_without_tex(book, text, description):
    (book / "parts" / "one.md").write_text(f"# One\n\n{text}\n\n## Later\n\nNot this.\n")
    assert build(book) == ""
    assert tags(page(book, "parts/one"))["description"] == description and len(description) <= LENGTH

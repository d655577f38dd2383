"""What the site says about itself to other machines: canonical addresses, previews of links, a page for lost links.

The address is ``site_url`` in ``_config.yml`` or BOOK_SITE_URL in the environment, which wins; a repository on GitHub
implies that of its GitHub Pages. Without an address no page claims one: previews have words and no picture. Nothing is
asked from the network.
"""

import os
import re
from html import escape
from urllib.parse import urljoin, urlsplit

from docutils import nodes
from sphinx.errors import ConfigError

PREVIEW = "_static/preview.png", 1200, 630, "A lattice whose arcs are as dark as their posteriors, and the title"
LENGTH = 200
FORMULA = "\0"
SENTENCE = re.compile(r"\S.*?[.?!][”)]?(?=\s|$)")


def find_address(app, config):
    """Settle ``html_baseurl``, from which Sphinx makes canonical addresses; it ends in a slash, or is empty."""
    url = os.environ.get("BOOK_SITE_URL") or config.site_url
    url = url or pages_of(config.html_theme_options.get("repository_url", ""))
    if url and not url.startswith("https://"):
        raise ConfigError(f"site_url = {url!r}; expected an address that begins with https://")
    config.html_baseurl = url.rstrip("/") + "/" if url else ""


def pages_of(repository):
    """Return the address that GitHub Pages gives to a repository on GitHub; of any other, nothing."""
    parts = urlsplit(repository)
    owner, _, name = parts.path.strip("/").partition("/")
    if parts.netloc != "github.com" or not name:
        return ""
    site = f"{owner.lower()}.github.io"
    return f"https://{site}/" if name.lower() == site else f"https://{site}/{name}/"


# --- previews ---


def describe(doctree):
    """Return the first sentences of the text before the first section, else the first outcome, without TeX; or ''."""
    chapter = next(doctree.findall(nodes.section), doctree)
    text = ""
    for paragraph in (node for node in chapter.children if isinstance(node, nodes.paragraph)):
        found = SENTENCE.findall(plain(paragraph))
        if not found or found[0][0].islower() or FORMULA in found[0]:
            continue
        for sentence in found:
            if text and len(text) + 1 + len(sentence) > LENGTH:
                return text
            if FORMULA not in sentence:
                text = f"{text} {sentence}".strip()
        if len(text) > LENGTH // 2:
            break
    outcomes = (plain(item) for box in chapter.findall(nodes.Admonition) for item in box.findall(nodes.list_item))
    text = text or next((f"You will be able to {o.rstrip(';.')}." for o in outcomes if FORMULA not in o), "")
    return text if len(text) <= LENGTH else text[: LENGTH - 1].rsplit(" ", 1)[0] + "…"


def plain(block):
    """Return a block of text as one line; a formula of mere letters as it is, any other as a mark."""
    pieces = []
    for node in block.findall(nodes.Text):
        is_formula = isinstance(node.parent, nodes.math)
        pieces.append(FORMULA if is_formula and not re.fullmatch(r"[\w =+,()]+", node) else str(node))
    return " ".join("".join(pieces).split())


def add_tags(app, pagename, templatename, context, doctree):
    if doctree is None:
        return
    address = app.config.html_baseurl
    title, book = app.env.titles[pagename].astext(), app.config.html_title
    description = describe(doctree) or f"{title}: a page of {book}."
    tags = {
        "og:title": title,
        "og:type": "website" if pagename == app.config.root_doc else "article",
        "og:site_name": book,
        "og:description": description,
    }
    if address:
        image, width, height, alt = PREVIEW
        tags |= {
            "og:url": urljoin(address, app.builder.get_target_uri(pagename)),
            "og:image": urljoin(address, image),
            "og:image:width": width,
            "og:image:height": height,
            "og:image:alt": alt,
        }
    names = {"description": description, "twitter:card": "summary_large_image" if address else "summary"}
    context["metatags"] += "".join(
        f'\n<meta {key}="{name}" content="{escape(str(value))}" />'
        for key, found in (("name", names), ("property", tags))
        for name, value in found.items()
    )


# --- the page for a link that leads nowhere ---

LOST = "404"
TEXT = """<section id="lost"><h1>There is no such page</h1>
<p>The link that brought you here is old, or has a slip. Nothing else is broken.</p>
<ul>
<li><a href="{first}">The first page</a> says what the book answers, and where.</li>
<li><a href="search.html">The search</a> knows every word of it.</li>
<li><a href="{checks}">All equations and their checks</a> stand in one list.</li>
</ul></section>"""


def lost_page(app):
    """Hand the page to Sphinx; it has no source, and so is in no list and no search."""
    link = app.builder.get_target_uri
    pages = {page.rpartition("/")[2]: page for page in app.env.found_docs}
    checks = link(pages.get("checks", app.config.root_doc))
    body = TEXT.format(first=link(app.config.root_doc), checks=checks)
    yield LOST, {"title": "There is no such page", "body": body}, "page.html"


def place_lost_page(app, pagename, templatename, context, doctree):
    """Make its links lead somewhere from whatever address a host shows it at."""
    if pagename != LOST:
        return
    context["pageurl"] = None
    context["metatags"] = '\n<meta name="robots" content="noindex" />'
    if app.config.html_baseurl:
        # the page itself, not its folder: links to a place on the page, such as "skip to the text", are relative too
        context["metatags"] += f'\n<base href="{escape(app.config.html_baseurl)}{LOST}.html" />'


def setup(app):
    app.add_config_value("site_url", "", "html", types=[str])
    app.connect("config-inited", find_address, priority=900)  # after the repository's address is known
    app.connect("html-page-context", add_tags)
    app.connect("html-page-context", place_lost_page)
    app.connect("html-collect-pages", lost_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

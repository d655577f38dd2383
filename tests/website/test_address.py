"""What the built site says about itself to other machines, and its page for links that lead nowhere."""

import struct

from built_site import SITE

ADDRESS = "https://owner.github.io/book/"


def metadata(soup):
    return {tag.get("property") or tag.get("name"): tag["content"] for tag in soup.find_all("meta", content=True)}


def test_each_page_describes_itself_in_words_of_its_own(site):
    sources = [path.relative_to(SITE / "_sources") for path in (SITE / "_sources").rglob("*.*")]
    found = {SITE / path.with_suffix(".html"): metadata(site[SITE / path.with_suffix(".html")]) for path in sources}
    described = {page: tags["description"] for page, tags in found.items()}
    assert len(described) >= 24
    assert len(set(described.values())) == len(described)
    bad = {page.name: text for page, text in described.items() if not 20 < len(text) <= 200 or "\\" in text}
    assert not bad, bad
    for page in described:
        assert found[page]["og:description"] == described[page] and found[page]["og:title"], page


def test_the_picture_of_a_preview_is_small_and_has_the_size_that_is_promised(site):
    picture = SITE / "_static" / "preview.png"
    assert picture.stat().st_size < 150_000
    assert struct.unpack(">II", picture.read_bytes()[16:24]) == (1200, 630)


def test_the_lost_page_is_in_no_list_and_no_search(site):
    lost = SITE / "404.html"
    assert lost in site and site[lost].find("meta", attrs={"name": "robots"})["content"] == "noindex"
    linking = [page for page, soup in site.items() if page != lost and soup.select('a[href$="404.html"]')]
    assert not linking
    assert "No such page" not in (SITE / "searchindex.js").read_text(encoding="utf-8")


def test_the_lost_page_works_below_any_address(site, browser):
    """Shown by a host in place of a page that lies deep, it loads all its files and its links lead into the site."""
    html, base = (SITE / "404.html").read_text(encoding="utf-8"), site[SITE / "404.html"].base
    address = base["href"].removesuffix("404.html") if base else ADDRESS
    if not base:  # as site_address writes it where an address is set
        html = html.replace('<meta name="robots"', f'<base href="{address}404.html" /><meta name="robots"')

    def answer(route):
        path = SITE / route.request.url.partition("?")[0].removeprefix(address)
        if path.is_file():
            route.fulfill(path=path)
        else:
            route.fulfill(status=404, body=html, content_type="text/html")

    failed, seen = [], []
    tab = browser.new_page()
    tab.route("**/*", answer)
    tab.on("response", lambda r: (seen if r.ok or r.url.endswith("/nowhere.html") else failed).append(r.url))
    tab.goto(f"{address}a/long/way/to/nowhere.html")
    assert not failed and len(seen) > 5
    assert tab.evaluate("() => getComputedStyle(document.querySelector('.bd-article h1')).fontSize") != "32px"
    targets = tab.eval_on_selector_all("a[href]", "links => links.map(link => link.href)")
    local = [target.partition("#")[0] for target in targets if not target.startswith(("mailto:", "javascript:"))]
    lost = [t for t in local if t.startswith(address) and not (SITE / t.removeprefix(address)).is_file()]
    assert not lost and f"{address}book/preface.html" in local and f"{address}search.html" in local
    tab.locator("#lost a").first.click()
    assert tab.url == f"{address}book/preface.html"
    tab.close()

"""Every page of the built site: links, pictures, marks, no request to elsewhere, readable on a phone."""

import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from built_site import SITE

PHONE = 360
IMAGE_PATH = re.compile(r"^\S*[/\\]\S*$|\.(png|svg|jpe?g|gif|webp)$", re.IGNORECASE)
CSS_REFERENCE = re.compile(r"""(?:url\(|@import\s+(?!url\())\s*["']?([^"')\s;]+)""")
COUNT_BAD_FORMULAS = """() => {
    const set = formula => formula.querySelectorAll('mjx-container').length === 1;
    const errors = '[data-mml-node="merror"], [data-mml-node="mtext"][fill="red"]';
    return [
        [...document.querySelectorAll('.math')].filter(formula => !set(formula)).length,
        document.querySelectorAll(errors).length,
    ];
}"""

# a phone makes a formula smaller that is wider than its screen
COUNT_UNREADABLE_FORMULAS = """() => {
    const place = element => element.getBoundingClientRect();
    const isUnreadable = formula => {
        const drawn = formula.querySelector('svg');
        return place(drawn).right > place(formula).right + 1 || place(drawn).width < drawn.width.baseVal.value / 2;
    };
    const shown = [...document.querySelectorAll('article span.math:has(svg)')].filter(formula => formula.offsetParent
        && !formula.closest('.pst-scrollable-table-container'));
    return [document.documentElement.scrollWidth, shown.filter(isUnreadable).length];
}"""


def name(path):
    return path.relative_to(SITE).as_posix()


def is_local(address):
    return not urlsplit(address).scheme and not address.startswith("//")


def target_of(page, address):
    """Return the file and the fragment to which a local address on a page leads."""
    parts = urlsplit(urljoin(page.as_uri(), address))
    return Path(unquote(parts.path)), unquote(parts.fragment)


def references(soup):
    """Yield every (tag, address) of a page, links included."""
    for attribute in ("href", "src", "data", "poster"):
        for tag in soup.find_all(attrs={attribute: True}):
            yield tag, tag[attribute]
    for tag in soup.find_all(srcset=True):
        for candidate in tag["srcset"].split(","):
            yield tag, candidate.split()[0]
    for tag in soup.find_all("meta", attrs={"http-equiv": re.compile("^refresh$", re.IGNORECASE)}):
        yield tag, tag["content"].partition("url=")[2]


def test_links_anchors_and_files_resolve(site):
    anchors = {page: {tag["id"] for tag in soup.find_all(id=True)} for page, soup in site.items()}
    broken = []
    for page, soup in site.items():
        for _, address in references(soup):
            if not is_local(address):
                continue
            target, fragment = target_of(page, address)
            if target.is_dir():
                target = target / "index.html"
            wrong_anchor = fragment and target.suffix == ".html" and fragment not in anchors.get(target, ())
            if not target.is_file() or wrong_anchor:
                broken.append(f"{name(page)}: {address}")
    assert not broken, "\n".join(broken)


def test_no_page_uses_an_id_twice(site):
    """A link to an id that stands twice leads to the first, wherever it was meant to lead."""
    twice = []
    for page, soup in site.items():
        ids = Counter(tag["id"] for tag in soup.find_all(id=True))
        twice += [f"{name(page)}: {label}" for label, count in ids.items() if count > 1]
    assert not twice, "\n".join(twice)


def test_style_sheets_name_files_of_the_site(site):
    broken = []
    for sheet in SITE.rglob("*.css"):
        for address in CSS_REFERENCE.findall(sheet.read_text(encoding="utf-8")):
            if address.startswith("data:"):
                continue
            if not is_local(address) or not target_of(sheet, address)[0].is_file():
                broken.append(f"{name(sheet)}: {address}")
    assert not broken, "\n".join(broken)


def test_pictures_have_alternative_text(site):
    bad, figures = [], 0
    for page, soup in site.items():
        drawn = soup.select("svg.book-figure")
        figures += len(drawn)
        texts = [(image.get("src", "")[:80], image.get("alt", "")) for image in soup.find_all("img")]
        texts += [("a figure", figure.get("aria-label", "")) for figure in drawn]
        bad += [f"{name(page)}: {what} has the alternative text {text!r}" for what, text in texts
                if not text.strip() or IMAGE_PATH.search(text.strip())]
    assert figures > 50 and not bad, "\n".join(bad)


def loads_nothing(tag):
    return tag.name in ("a", "base") or tag.get("rel") == ["canonical"]


def test_nothing_is_loaded_from_elsewhere(site):
    external = [
        f"{name(page)}: <{tag.name}> {address}"
        for page, soup in site.items()
        for tag, address in references(soup)
        if not (is_local(address) or address.startswith("data:") or loads_nothing(tag))
    ]
    for page, soup in site.items():
        styles = [tag.get_text() for tag in soup.find_all("style")]
        styles += [tag["style"] for tag in soup.find_all(style=True)]
        for address in CSS_REFERENCE.findall("\n".join(styles)):
            if not is_local(address) and not address.startswith("data:"):
                external.append(f"{name(page)}: style {address}")
    assert not external, "\n".join(external)


def test_each_equation_has_a_mark_that_leads_to_its_entry(site):
    bad, seen = [], 0
    for page, soup in site.items():
        for equation in soup.select("div.math"):
            if "equation-copy" in equation["class"] or equation.find_parent(class_="cell_output"):
                continue
            seen += 1
            box = equation.parent
            link = box.select_one(".equation-mark a") if "displayed-equation" in box["class"] else None
            where = f"{name(page)}: {equation.get('id') or ' '.join(equation.get_text().split())[:60]}"
            if link is None:
                bad.append(f"{where}: no mark")
                continue
            target, fragment = target_of(page, link["href"])
            entry = site[target].find(id=fragment) if target in site else None
            if entry is None:
                bad.append(f"{where}: the mark leads nowhere: {link['href']}")
            elif link.get_text().startswith("checked") and not entry.select("details pre"):
                bad.append(f"{where}: marked as checked, and its entry shows no test")
    assert seen, "the book displays no equation at all"
    assert not bad, "\n".join(bad)


@pytest.fixture(scope="module")
def opened(pages, browser):
    """Open each page once, and narrow the window to a phone's: (what went wrong, what a phone does not show)."""
    problems, hidden = [], []
    tab = browser.new_page()
    tab.on("request", lambda r: r.url.startswith(("file:", "data:", "blob:")) or problems.append(f"requests {r.url}"))
    # what the step to the next page cuts off has not failed
    tab.on("requestfailed", lambda r: r.failure == "net::ERR_ABORTED" or problems.append(f"cannot load {r.url}"))
    tab.on("console", lambda m: m.type == "error" and problems.append(f"console: {m.text}"))
    tab.on("pageerror", lambda e: problems.append(f"script: {e}"))
    for page in pages:
        before = len(problems)
        tab.set_viewport_size({"width": 1280, "height": 720})
        tab.goto(page.as_uri())
        tab.evaluate("() => window.MathJax?.startup?.promise")
        unset, wrong = tab.evaluate(COUNT_BAD_FORMULAS)
        problems += [f"{unset} formulas not set"] * bool(unset) + [f"{wrong} formulas with a TeX error"] * bool(wrong)
        tab.set_viewport_size({"width": PHONE, "height": 720})
        width, unreadable = tab.evaluate(COUNT_UNREADABLE_FORMULAS)
        hidden += [f"{name(page)}: {width} px wide on a screen of {PHONE}"] * (width > PHONE)
        hidden += [f"{name(page)}: {unreadable} formulas in the text are cut off or tiny"] * (unreadable > 0)
        problems[before:] = [f"{name(page)}: {problem}" for problem in problems[before:]]
    tab.close()
    return problems, hidden


def test_pages_load_alone_and_set_their_mathematics(opened):
    """No request leaves the folder, no script fails, and MathJax has set every formula without an error."""
    problems, _ = opened
    assert not problems, "\n".join(problems)


def test_a_phone_shows_all_without_scrolling_sideways(opened):
    """No page is wider than the screen, and no formula in the text is cut off or has less than half its size."""
    _, hidden = opened
    assert not hidden, "\n".join(hidden)


def test_the_theme_has_written_the_pages(site):
    """It does so only where no extension brings a translator: then wide tables scroll, and headings have levels."""
    for page, soup in site.items():
        assert all(head.get("aria-level") for head in soup.select("p[role=heading]")), name(page)
        tables = soup.select("article table:not(.cell_output table, .lattice-lab table, .indextable)")
        assert all(table.find_parent(class_="pst-scrollable-table-container") for table in tables), name(page)


def test_no_page_is_heavy(site):
    """A page and its pictures, without what all pages share."""
    heavy = {}
    for page, soup in site.items():
        pictures = {target_of(page, address)[0] for tag, address in references(soup)
                    if "_images" in address and is_local(address)}
        size = page.stat().st_size + sum(picture.stat().st_size for picture in pictures)
        if size > 1_500_000:
            heavy[name(page)] = size
    assert not heavy, heavy


def test_search_finds_a_word_of_the_text(browser):
    tab = browser.new_page()
    tab.goto((SITE / "search.html").as_uri() + "?q=occupancy")
    tab.wait_for_selector("#search-results li")
    tab.wait_for_function("() => /finished|found/.test(document.querySelector('#search-results').innerText)")
    found = tab.locator("#search-results li a").all_inner_texts()
    tab.close()
    assert {"The CTC gradient", "The RNN-T gradient", "Glossary"} <= {text.split(". ", 1)[-1] for text in found}, found

"""The slides: all there, notes that fill 90 minutes; nothing cut off, nothing from elsewhere; keys, speaker, paper."""

import re

import pytest
from built_site import SITE
from test_accessibility import AXE
from test_pages import COUNT_BAD_FORMULAS

FOLDER = SITE / "book" / "teaching" / "slides"
SESSIONS = [f"session_{number}" for number in range(1, 9)]
WIDTH, HEIGHT = 1280, 720
EDGE = 24  # pixels below which only the number of the slide and the arrows may stand

# what of the slide in front lies beyond its edges, or is wider than the box that cuts it off
CUT_OFF = """([width, height, edge]) => {
    const slide = Reveal.getCurrentSlide();
    const inner = 'aside.notes, .lattice-lab *, mjx-container *, .book-figure *, .visually-hidden';
    const shown = [...slide.querySelectorAll('*')].filter(e => !e.closest(inner) && e.checkVisibility());
    const beyond = shown.filter(e => {
        const box = e.getBoundingClientRect();
        return box.width && (box.top < 0 || box.left < 0 || box.bottom > height - edge || box.right > width - edge);
    });
    const wide = [...slide.querySelectorAll('mjx-container > svg, pre')].filter(e => e.checkVisibility()
        && (e.tagName === 'PRE' ? e.scrollWidth > e.clientWidth + 1
            : e.getBoundingClientRect().right > e.closest('.math').getBoundingClientRect().right + 1));
    return [...beyond, ...wide].map(e => e.outerHTML.slice(0, 100));
}"""


# all slides of a deck at once, so that axe runs once a deck and not once a slide; formulas and figures are thousands of
# drawn paths, and code hundreds of coloured words, which take axe minutes
SHOW_ALL = """() => {
    for (const drawn of document.querySelectorAll('mjx-container, .book-figure')) drawn.replaceChildren();
    const style = document.createElement('style');
    style.textContent = `.reveal .slides > section { display: block !important; position: static !important;
        visibility: visible !important; opacity: 1 !important; transform: none !important; }
        html, body, main, .reveal, .reveal .slides { position: static !important; height: auto !important;
        overflow: visible !important; transform: none !important; zoom: 1 !important; }
        .reveal .fragment { opacity: 1 !important; visibility: visible !important; }`;
    document.head.append(style);
    for (const slide of document.querySelectorAll('.slides > section')) {
        slide.hidden = slide.inert = false;
        slide.removeAttribute('aria-hidden');
    }
    return [...document.querySelectorAll('.slides > section')].filter(e => e.checkVisibility()).length;
}"""
RUN = """rules => axe.run({exclude: ['mjx-container', '.book-figure', 'pre']}, rules ? {runOnly: rules} : {})"""


@pytest.fixture(scope="module")
def decks(site):
    return {name: site[FOLDER / f"{name}.html"] for name in SESSIONS if FOLDER / f"{name}.html" in site}


def start(tab, name, query="", place=""):
    tab.goto((FOLDER / f"{name}.html").as_uri() + query + place)
    tab.wait_for_selector(".reveal.ready")


def test_every_session_has_a_deck_and_links_lead_there_and_back(site, decks):
    assert list(decks) == SESSIONS
    for page in (FOLDER / "index.html", FOLDER.parent / "index.html"):
        links = {link["href"].rpartition("/")[2] for link in site[page].select("table.decks a")}
        assert links == {f"{name}.html" for name in SESSIONS}, page
    assert site[FOLDER / "index.html"].select('article a[href="../index.html"]')
    for name, soup in decks.items():
        assert soup.select_one(".deck-links a")["href"] == "index.html", name


def test_each_slide_has_a_heading_and_notes_and_the_minutes_add_up_to_90(decks):
    for name, soup in decks.items():
        slides = soup.select(".slides > section")
        assert 12 <= len(slides) <= 25, (name, len(slides))
        begin = 0
        for number, slide in enumerate(slides):
            heading = slide.select_one("h1, h2")
            where = f"{name}: {heading and heading.get_text()}"
            assert heading.name == ("h2" if number else "h1") and heading.get_text(strip=True), where
            (notes,) = slide.select("aside.notes")
            minutes = int(slide["data-timing"]) / 60
            times = [f"{m // 60}:{m % 60:02}" for m in (begin, int(begin + minutes))]
            assert notes.get_text().strip().startswith(" to ".join(times)), where
            assert len(notes.get_text()) > 80, where
            begin += int(minutes)
        assert begin == 90, (name, begin)


def test_equations_and_figures_come_from_chapters(decks):
    """Each is a copy with a link to its place; no deck displays an equation or a figure of its own."""
    for name, soup in decks.items():
        copies = soup.select(".from-chapter")
        assert len(copies) >= 8, name
        for copy in copies:
            assert "/notebooks/" in copy.select_one(".source a")["href"], name
        for thing in soup.select("div.math, svg.book-figure, img"):
            assert thing.find_parent(class_="from-chapter"), (name, str(thing)[:80])


@pytest.mark.parametrize("name", SESSIONS)
def test_a_deck_loads_alone_and_nothing_is_cut_off(site, browser, name):
    problems = []
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    tab.on("request", lambda r: r.url.startswith(("file:", "data:", "blob:")) or problems.append(f"requests {r.url}"))
    tab.on("requestfailed", lambda r: problems.append(f"cannot load {r.url}"))
    tab.on("console", lambda m: m.type == "error" and problems.append(f"console: {m.text}"))
    tab.on("pageerror", lambda e: problems.append(f"script: {e}"))
    start(tab, name)
    unset, wrong = tab.evaluate(COUNT_BAD_FORMULAS)
    problems += [f"{unset} formulas not set, {wrong} with an error"] * bool(unset or wrong)
    labs, live = (tab.locator(f".lattice-lab{kind}").count() for kind in ("", ".lab-ready:has(svg)"))
    problems += [f"{live} of {labs} laboratories live"] * (not labs == live > 0)
    for number in range(tab.evaluate("Reveal.getTotalSlides()")):
        tab.evaluate("number => Reveal.slide(number, 0, 99)", number)
        problems += [f"slide {number + 1}: {what}" for what in tab.evaluate(CUT_OFF, [WIDTH, HEIGHT, EDGE])]
    tab.close()
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", SESSIONS)
def test_axe_finds_nothing_on_any_slide(site, browser, name):
    """In the dark only colours differ."""
    found = []
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light",
                                  reduced_motion="reduce")
    tab = context.new_page()
    start(tab, name)
    slides = tab.evaluate("Reveal.getTotalSlides()")
    tab.evaluate(AXE)
    assert tab.evaluate(SHOW_ALL) == slides
    for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        result = tab.evaluate(RUN, rules)
        found += [f"{scheme}: {v['id']}: {node['html'][:120]}" for v in result["violations"] for node in v["nodes"][:3]]
        colours, = (rule for rule in result["passes"] if rule["id"] == "color-contrast")
        assert len(colours["nodes"]) > 4 * slides  # all of them, and not the first one alone
    context.close()
    assert not found, "\n".join(found)


def test_a_brief_laboratory_has_nothing_to_scroll_to_and_opens_at_the_frame_of_its_question(site, browser):
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    start(tab, "session_3", place="#/predict-then-drag")
    lab = tab.locator(".lattice-lab[data-brief].lab-ready")
    assert lab.evaluate("e => [e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth]") == [0, 0]
    assert lab.locator("g[aria-pressed='true']").get_attribute("aria-label").startswith("node (0, 1): gradient")
    assert lab.locator("caption:visible").all_inner_texts() == ["Scores of frame 0; drag them"]
    low = "e => e.getBoundingClientRect().bottom"
    assert lab.locator(".lab-editor").evaluate(low) < lab.evaluate(low) <= HEIGHT - EDGE
    tab.close()


def test_the_laboratory_works_and_has_its_keys(site, browser):
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    start(tab, "session_3", place="#/predict-then-drag")
    lab = tab.locator(".lattice-lab.lab-ready")
    before = lab.locator(".lab-problem").inner_text()
    slider = lab.locator(".lab-slider input").nth(2)
    slider.focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("PageUp")
    assert lab.locator(".lab-problem").inner_text() != before
    lab.locator("g[tabindex='0']").focus()
    node = "() => document.activeElement.getAttribute('aria-label')"
    first = tab.evaluate(node)
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate(node) != first and tab.url.endswith("#/predict-then-drag")
    tab.keyboard.press("Escape")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_url("**#/one-line-four-questions")
    tab.close()


def test_the_keyboard_leads_through_a_deck(site, browser):
    """Forward through every fragment and slide, back, to the ends; Tab stays on the slide in front."""
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
    start(tab, "session_2")
    at = "Reveal.getIndices().h"
    slides, steps = tab.evaluate("[Reveal.getTotalSlides(), document.querySelectorAll('.fragment').length]")
    places = set()
    for _ in range(slides + steps - 1):
        places.add(tab.evaluate(at))
        tab.keyboard.press("Space")
    places.add(tab.evaluate(at))
    assert places == set(range(slides)) and tab.evaluate("Reveal.isLastSlide()") and steps > 1
    tab.keyboard.press("Home")
    assert tab.evaluate(at) == 0
    tab.keyboard.press("End")
    assert tab.evaluate(at) == slides - 1
    hidden = """() => { const slide = document.activeElement.closest('.slides > section');
        return Boolean(slide) && !slide.classList.contains('present'); }"""
    for _ in range(8):
        tab.keyboard.press("Tab")
        assert not tab.evaluate(hidden)
    tab.close()


def test_the_speaker_has_notes_with_formulas(site, browser):
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    tab = context.new_page()
    start(tab, "session_3", place="#/with-respect-to-a-probability")
    asked = []
    context.on("request", lambda r: r.url.startswith(("file:", "data:", "blob:", "about:")) or asked.append(r.url))
    with context.expect_page() as opened:
        tab.keyboard.press("s")
    speaker = opened.value
    speaker.locator(".speaker-controls-notes:not(.hidden) .value mjx-container svg").first.wait_for()
    text = speaker.locator(".speaker-controls-notes .value").inner_text()
    assert text.startswith("0:28 to 0:34") and text.count("Expect") == 2 and "\\" not in text
    assert not speaker.locator("mjx-assistive-mml").count() and not asked
    context.close()


def test_the_print_view_has_every_slide_on_light_paper(site, browser):
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="dark")
    start(tab, "session_3", "?print-pdf")
    tab.wait_for_selector(".pdf-page")
    headings = tab.locator(".pdf-page :is(h1, h2)")
    assert tab.locator(".pdf-page").count() == headings.count() == tab.evaluate("Reveal.getTotalSlides()")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.close()


@pytest.mark.parametrize("motion, transition", [("reduce", "none"), ("no-preference", "fade")])
def test_slides_move_only_for_those_who_like_it(site, browser, motion, transition):
    context = browser.new_context(reduced_motion=motion)
    tab = context.new_page()
    start(tab, "session_3")
    assert tab.evaluate("Reveal.getConfig().transition") == transition
    context.close()


def test_without_javascript_slides_and_notes_can_be_read(decks, browser):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((FOLDER / "session_3.html").as_uri())
    slides = decks["session_3"].select(".slides > section")
    for part in ("h1, h2", "aside.notes"):
        parts = tab.locator(".slides > section").locator(part)
        assert parts.count() == len(slides)
        assert all(parts.nth(i).is_visible() for i in range(len(slides)))
    context.close()


def test_every_slide_of_a_deck_has_an_address(decks):
    for name, soup in decks.items():
        ids = [slide["id"] for slide in soup.select(".slides > section")]
        assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z][a-z0-9-]*", i) for i in ids), name

"""The quizzes of the built site as a reader uses them: by keyboard, with storage and without, without JavaScript.

Where the storage is looked at, pages are served from this machine, as a browser may refuse it to files.
"""

import functools
import http.server
import json
import re
import threading
from pathlib import Path

import pytest
from built_site import SITE
from test_accessibility import AXE

ROOT = Path(__file__).parent.parent.parent
CHAPTER = "notebooks/40_ctc_gradient.html"
SINGLE, SEVERAL = "#quiz-ctc-gradient-absent", "#quiz-check-kernel"
OURS = re.compile(r"(quiz|progress)\.js")
CHAPTERS = (ROOT / "_toc.yml").read_text(encoding="utf-8").count("file: notebooks/")
KEY = "ctc-and-rnnt-differentiated:progress:1"
WITH_QUIZZES = ("10_checking_a_gradient", "20_softmax", "30_gradient_theorem", "35_ctc_loss", "40_ctc_gradient",
                "42_ctc_2006", "45_ctc_in_practice", "50_rnnt_loss", "60_rnnt_gradient", "62_rnnt_kernels",
                "65_fastemit", "70_ctc_and_rnnt", "75_bugs_and_checks", "76_museum")


# before MathJax begins: formulas elsewhere on the page take it seconds, and test_pages.py looks at them
ONLY_OURS = """document.addEventListener('readystatechange', () => {
    if (document.readyState !== 'interactive') return;
    for (const each of document.querySelectorAll('.math')) if (!each.closest('fieldset.quiz')) each.remove();
})"""
ANSWER_ALL = """() => document.querySelectorAll('fieldset.quiz').forEach(quiz => {
    quiz.querySelectorAll('input').forEach(input => input.click());
    quiz.querySelector('.quiz-check').click();
    quiz.querySelector('details').open = true;
})"""
AXE_OURS = """rules => axe.run({include: ['fieldset.quiz', '.chapter-read', '[data-progress]'].filter(
    part => document.querySelector(part)), exclude: ['mjx-container']}, rules ? {runOnly: rules} : {})"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(site):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def context(browser):
    """Without MathJax, which takes seconds a page and decides nothing here."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    context.route("**/tex-svg-full.js*", lambda route: route.abort())
    yield context
    context.close()


@pytest.fixture
def tab(context, address):
    tab = context.new_page()
    tab.goto(f"{address}/{CHAPTER}")
    return tab


@pytest.fixture
def set_tab(browser, address):
    """With its formulas set."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    tab = context.new_page()
    tab.goto(f"{address}/{CHAPTER}")
    tab.evaluate("() => window.MathJax?.startup?.promise")
    yield tab
    context.close()


def kept(tab):
    return json.loads(tab.evaluate(f"() => localStorage.getItem('{KEY}')") or "null")


def answer(quiz, *letters):
    for letter in letters:
        quiz.locator(f"input[value={letter}]").check()
    quiz.get_by_role("button", name="Check").click()


def progress(context, address):
    """The page of progress, and its row of the chapter."""
    tab = context.new_page()
    tab.goto(f"{address}/book/progress.html")
    return tab, tab.locator("tr[data-chapter='notebooks/40_ctc_gradient']")


# --- what stands in the pages ---


def test_each_listed_chapter_draws_its_quizzes(site):
    for name in WITH_QUIZZES:
        soup = site[SITE / "notebooks" / f"{name}.html"]
        quizzes = soup.select("fieldset.quiz")
        assert 2 <= len(quizzes) <= 4, name
        for quiz in quizzes:
            answers, whys = quiz.select(".quiz-answer input"), quiz.select("details .quiz-why")
            assert [each["value"] for each in answers] == [why["data-letter"] for why in whys]
            assert any(why["data-says"] == "right" for why in whys) and len(answers) >= 3
            assert all(why.select("a.reference.internal") for why in whys), quiz["id"]
            assert "[x]" not in quiz.get_text() and "{eq}" not in quiz.get_text() and ":::" not in quiz.get_text()


def test_the_page_of_progress_links_to_every_quiz(site):
    soup = site[SITE / "book" / "progress.html"]
    linked = {link["href"].partition("#")[2] for link in soup.select(".progress-links a")}
    chapters = [page for page in site.values() if page.select(".chapter-read")]  # and not the self-test of the course
    drawn = {quiz["id"] for page in chapters for quiz in page.select("fieldset.quiz")}
    assert linked == drawn and len(drawn) >= 2 * len(WITH_QUIZZES)
    for row in soup.select("tr[data-chapter]"):
        page = site[SITE / f"{row['data-chapter']}.html"]
        wanted = [f"../{row['data-chapter']}.html#{quiz['id']}" for quiz in page.select("fieldset.quiz")]
        assert [link["href"] for link in row.select(".progress-links a")] == wanted
        assert [link.get_text() for link in row.select(".progress-links a")] == [str(i + 1) for i in range(len(wanted))]
    for page in ("preface", "teaching/index"):
        assert site[SITE / "book" / f"{page}.html"].select("article a[href$='progress.html']"), page
    assert len(chapters) == len(soup.select("tr[data-chapter]")) > 20


# --- answering ---


def test_by_keyboard_alone(set_tab):
    """Tab to the group, arrows choose, Enter checks; Tab and Space press the button; the explanations unfold."""
    tab = set_tab
    tab.wait_for_function("""() => document.querySelector('.quiz-answer mjx-container')
        && !document.querySelector('fieldset.quiz mjx-container[tabindex]')""")
    quiz = tab.locator(SINGLE)
    quiz.locator("label mjx-container").last.click()
    assert quiz.locator("input[value=C]").is_checked()
    quiz.locator("input").first.focus()
    tab.keyboard.press("Space")
    tab.keyboard.press("Enter")
    said = quiz.locator(".quiz-said")
    assert said.get_attribute("aria-live") == "polite"
    assert said.inner_text().startswith("A: wrong.") and "(9." in said.inner_text()
    tab.keyboard.press("ArrowDown")
    assert said.inner_text() == "" and quiz.locator("input[value=B]").is_checked()
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.textContent") == "Check"
    tab.keyboard.press("Space")
    assert said.inner_text().startswith("B: right.")
    # then the links of the explanation, and no formula: Tab moves between what can be pressed
    links = said.locator("a").count()
    stops = []
    for _ in range(links + 1):
        tab.keyboard.press("Tab")
        stops.append(tab.evaluate("() => document.activeElement.tagName"))
    assert stops == ["A"] * links + ["SUMMARY"]
    tab.keyboard.press("Enter")
    whys = quiz.locator("details .quiz-why")
    assert whys.count() == 4 and all(whys.nth(i).is_visible() for i in range(4))


def test_an_explanation_that_is_shown_explains_its_equation(set_tab):
    tab = set_tab
    quiz = tab.locator(SINGLE)
    answer(quiz, "B")
    said = quiz.locator(".quiz-said")
    assert said.locator("mjx-container").count() and "$" not in said.inner_text() and "\\" not in said.inner_text()
    said.locator("a.reference.internal").first.focus()
    tab.locator("#explanation").wait_for(state="visible")
    assert tab.locator("#explanation mjx-container").count()


def test_nothing_chosen_and_several_right_answers(tab, address):
    tab.goto(f"{address}/notebooks/10_checking_a_gradient.html")
    quiz = tab.locator(SEVERAL)
    said = quiz.locator(".quiz-said")
    answer(quiz)
    assert said.inner_text() == "Choose an answer first." and kept(tab) is None
    answer(quiz, "B")
    assert "B: right." in said.inner_text() and "One more answer is right." in said.inner_text()
    assert kept(tab)["quizzes"] == {"check-kernel": {"first": False, "last": False}}
    answer(quiz, "D")
    assert "D: right." in said.inner_text() and "more answer" not in said.inner_text()
    assert kept(tab)["quizzes"] == {"check-kernel": {"first": False, "last": True}}
    answer(quiz, "A")
    assert "A: wrong." in said.inner_text() and not kept(tab)["quizzes"]["check-kernel"]["last"]


# --- keeping ---


def test_progress_survives_a_reload_and_is_shown(tab, context, address):
    quiz = tab.locator(SINGLE)
    answer(quiz, "A")
    answer(quiz, "B")
    answer(tab.locator("#quiz-ctc-gradient-loglik"), "A")
    button = tab.get_by_role("button", name="I have read this chapter")
    assert button.get_attribute("aria-pressed") == "false"
    button.click()
    tab.reload()
    assert button.get_attribute("aria-pressed") == "true"
    assert quiz.locator(".quiz-said").inner_text() == "Your last answer was right."
    page, row = progress(context, address)
    cells = row.locator("td").all_inner_texts()
    assert cells[0] == "yes" and cells[2:] == ["1 of 4", "2 of 4"]
    links = row.locator(".progress-links a").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
    assert links == ["quiz 1: not answered", "quiz 2: right", "quiz 3: right", "quiz 4: not answered"]
    said = page.locator(".progress-sum").inner_text()
    assert said.startswith(f"1 of {CHAPTERS} chapters read.")
    assert said.endswith("1 answered right at first, 2 at last.")
    button.click()
    assert button.get_attribute("aria-pressed") == "false" and kept(tab)["read"] == {}


def test_progress_is_exported_cleared_and_imported(tab, context, address, tmp_path):
    answer(tab.locator(SINGLE), "B")
    before = kept(tab)
    page, row = progress(context, address)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as JSON").click()
    file = tmp_path / "mine.json"
    download.value.save_as(file)
    assert download.value.suggested_filename == "ctc-and-rnnt-progress.json"
    assert json.loads(file.read_text()) == before == {
        "version": 1, "read": {}, "quizzes": {"ctc-gradient-absent": {"first": True, "last": True}}}

    clear = page.get_by_role("button", name="Clear")
    page.once("dialog", lambda dialog: dialog.dismiss())
    clear.click()
    assert kept(page) == before
    page.once("dialog", lambda dialog: dialog.accept())
    clear.click()
    assert kept(page) is None and row.locator("td").last.inner_text() == "0 of 4"

    choose, status = page.locator("input[type=file]"), page.locator(".progress-said")
    bad = tmp_path / "bad.json"
    for text in ("no JSON", "[]", "null", '{"version": 2, "read": {}, "quizzes": {}}', '{"version": 1, "read": []}'):
        bad.write_text(text)
        choose.set_input_files(bad)
        status.get_by_text("That file holds no progress of this book").wait_for()
        status.evaluate("each => { each.textContent = ''; }")
        assert kept(page) is None, text
    unknown = {"<b>": {"first": True, "last": True}, "y": {"first": 1}}
    bad.write_text(json.dumps({**before, "more": 1, "read": {"a b": True, "x": 7},
                               "quizzes": {**before["quizzes"], **unknown}}))
    for each in (bad, file):  # what is not understood is left out
        choose.set_input_files(each)
        status.get_by_text("Imported").wait_for()
        assert kept(page) == before and row.locator("td").last.inner_text() == "1 of 4"


@pytest.mark.parametrize("refusal", [
    "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError'); } })",
    "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }",
])
def test_a_browser_that_keeps_nothing(context, address, refusal):
    problems = []
    context.add_init_script(refusal)
    tab = context.new_page()
    # the theme keeps its choice of light or dark there, and says so when it cannot
    tab.on("pageerror", lambda e: problems.extend(["a script of ours"] * bool(OURS.search(e.stack or ""))))
    tab.goto(f"{address}/{CHAPTER}")
    quiz = tab.locator(SINGLE)
    answer(quiz, "B")
    said = quiz.locator(".quiz-said").inner_text()
    assert said.startswith("B: right.") and "keeps no results" in said
    tab.get_by_role("button", name="I have read this chapter").click()
    assert "keeps nothing" in tab.locator(".chapter-read").inner_text()
    page, _ = progress(context, address)
    assert "keeps nothing" in page.locator(".progress-said").inner_text()
    assert not problems


def test_damaged_storage_is_no_progress(tab, context, address):
    for text in ("{", "7", '{"version": 0}', '{"version": 1, "read": {}, "quizzes": {"ctc-gradient-absent": 3}}'):
        tab.evaluate("([key, text]) => localStorage.setItem(key, text)", [KEY, text])
        tab.reload()
        assert tab.locator(f"{SINGLE} .quiz-said").inner_text() == ""
    page, row = progress(context, address)
    assert row.locator("td").last.inner_text() == "0 of 4"


def test_from_a_folder(context):
    """Chromium keeps storage for files; what matters is that nothing breaks there."""
    problems, tab = [], context.new_page()
    tab.on("pageerror", lambda e: problems.append(str(e)))
    tab.goto((SITE / CHAPTER).as_uri())
    answer(tab.locator(SINGLE), "B")
    assert tab.locator(f"{SINGLE} .quiz-said").inner_text().startswith("B: right.") and not problems


# --- other readers ---


def test_without_javascript_everything_can_be_read(browser):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((SITE / CHAPTER).as_uri())
    quiz = tab.locator(SINGLE)
    assert quiz.get_by_role("button").count() == 0 and tab.locator(".chapter-read button").count() == 0
    assert "A symbol is not in the target" in quiz.locator("legend").inner_text()
    whys = quiz.locator("details .quiz-why")
    assert not whys.first.is_visible()
    quiz.locator("summary").click()
    assert whys.count() == 4 and all(whys.nth(i).is_visible() for i in range(4))
    assert whys.nth(1).inner_text().startswith("B: right.")
    folded = tab.locator("fieldset.quiz details:not([open]) > summary")
    while folded.count():
        folded.first.click(timeout=5000)
    assert tab.locator("fieldset.quiz .quiz-why:visible").count() == tab.locator("fieldset.quiz .quiz-why").count() > 4
    tab.goto((SITE / "book" / "progress.html").as_uri())
    assert "Without JavaScript nothing is kept" in tab.locator("article").inner_text()
    assert tab.locator(".progress-links a").count() >= 2 * len(WITH_QUIZZES)
    context.close()


def test_axe_finds_nothing_in_answered_quizzes(browser, address):
    """One choice and several, right and wrong; test_accessibility.py has the pages around them."""
    context = browser.new_context(viewport={"width": 1100, "height": 900}, color_scheme="light")
    context.add_init_script(ONLY_OURS)
    tabs = []
    for name in ("notebooks/10_checking_a_gradient", "notebooks/40_ctc_gradient", "book/progress"):
        tab = context.new_page()
        tab.goto(f"{address}/{name}.html")
        tab.evaluate("() => window.MathJax?.startup?.promise")
        tab.evaluate(ANSWER_ALL)
        tab.evaluate("document.querySelector('.chapter-read button')?.click()")
        tab.evaluate(AXE)
        tabs.append(tab)
    found = []
    for tab in tabs:
        for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
            tab.emulate_media(color_scheme=scheme)
            tab.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
            result = tab.evaluate(AXE_OURS, rules)
            assert result["passes"]
            found += [f"{scheme}: {v['id']}: {v['nodes'][0]['html'][:120]}" for v in result["violations"]]
    context.close()
    assert not found, "\n".join(found)


def test_a_phone_shows_answered_quizzes_without_scrolling_sideways(browser, address):
    context = browser.new_context(viewport={"width": 360, "height": 720}, has_touch=True, is_mobile=True)
    context.add_init_script(ONLY_OURS)
    tab = context.new_page()
    for name in (*(f"notebooks/{name}" for name in WITH_QUIZZES), "book/progress"):
        tab.goto(f"{address}/{name}.html")
        tab.evaluate("() => window.MathJax?.startup?.promise")
        tab.evaluate(ANSWER_ALL)
        said, quizzes = (tab.locator(f"fieldset.quiz{part}").count() for part in (":has(.quiz-said .quiz-why)", ""))
        assert said == quizzes and (quizzes or "progress" in name)
        assert tab.evaluate("() => document.documentElement.scrollWidth") == 360, name
        cut = tab.evaluate("""() => [...document.querySelectorAll('fieldset.quiz, fieldset.quiz *')]
            .filter(e => e.checkVisibility() && !e.closest('mjx-container, .visually-hidden')
                && e.getBoundingClientRect().right > 360).map(e => e.outerHTML.slice(0, 90))""")
        assert cut == [], name
    context.close()


def test_a_finger_answers(browser, address):
    context = browser.new_context(viewport={"width": 360, "height": 720}, has_touch=True, is_mobile=True)
    context.route("**/tex-svg-full.js*", lambda route: route.abort())
    tab = context.new_page()
    tab.goto(f"{address}/{CHAPTER}")
    quiz = tab.locator(SINGLE)
    quiz.locator("label").nth(1).tap()
    quiz.get_by_role("button", name="Check").tap()
    assert quiz.locator(".quiz-said").inner_text().startswith("B: right.")
    quiz.locator("summary").tap()
    assert quiz.locator("details .quiz-why").last.is_visible()
    context.close()


@pytest.mark.parametrize("answered", [False, True])
def test_paper_has_every_explanation_once_and_no_controls(tab, answered):
    quiz = tab.locator(SINGLE)
    if answered:
        answer(quiz, "A")
    tab.emulate_media(media="print")
    tab.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    whys = quiz.locator(".quiz-why").all()
    assert sum(each.is_visible() for each in whys) == 4 and quiz.locator("details .quiz-why").last.is_visible()
    assert not any(each.is_visible() for each in tab.locator("fieldset.quiz :is(input, button), .chapter-read").all())
    tab.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert not quiz.locator("details").evaluate("each => each.open")

"""Marks of claims: notes at the end of a page, all of them on one page, a build that fails for an unknown one."""

import json
import pickle
import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

sys.path.append(str(Path(__file__).parent.parent / "book" / "_ext"))

COMMIT = "0123456789" * 4
DATA = {
    "$schema": "claims.schema.json",
    "libraries": {
        "fast": {"name": "fast loss", "spellings": ["fast"], "repository": "a/fast", "commit": COMMIT},
        "slow": {"name": "Slow", "spellings": ["Slow"], "repository": "b/slow", "commit": COMMIT},
        "idle": {"name": "Idle", "spellings": ["Idle"], "repository": None}},
    "claims": [
        {"id": "fast-floor", "library": "fast", "statement": "It has `-1e5` & no more.", "path": "src/f.py",
         "lines": [3, 5], "date": "2026-11-24", "evidence": "read"},
        {"id": "fast-returned", "library": "fast", "statement": "It returns 0.", "date": "2026-11-23",
         "evidence": "run", "release": "fast 1.2", "run": "notebooks/one.ipynb#cell-1"},
        {"id": "slow-thread", "library": "slow", "statement": "Somebody asks.", "thread": "c/talk#7",
         "date": "2026-11-22", "evidence": "read"},
        {"id": "slow-line", "library": "slow", "statement": "One line.", "path": "x.c", "lines": [9, 9],
         "repository": "d/other", "commit": "f" * 40, "date": "2026-11-22", "evidence": "read"}]}
REPORTED = "data/conformance/torch-ctc-none.json"
CELLS = [
    "# One\n\nA loss is *infinite*{claim}`fast-floor`. Then {named}`Slow` does, and {named}`a `code` word`.",
    "## Asides\n\n:::{deeper}\nFast returns 0 {claim}`fast-returned`.\n:::\n\n| Who | What |\n|---|---|\n"
    "| Slow | asked {claim}`slow-thread, fast-floor` |\n",
    ":::{quiz} who\nWhich?\n\n- [x] Slow {claim}`slow-line`\n  > Yes.\n- [ ] None\n  > No.\n:::\n",
]
DECK = ("---\norphan: true\nminutes: 3\n---\n# Deck\n\n```{notes} 1\nSay it.\n```\n\n"
        "## More\n\nFast does{claim}`fast-floor`.\n\n```{notes} 2\nThe end.\n```\n")


@pytest.fixture
def book(tmp_path):
    for folder in ("data", "notebooks", "book/teaching/slides"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "data" / "claims.json").write_text(json.dumps(DATA))
    (tmp_path / "index.md").write_text("# Book\n\n```{toctree}\n:numbered:\nnotebooks/one\nquiet\n```\n\n"
                                       "```{toctree}\nbook/all\nwords\n```\n")
    cells = [{"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text}
             for number, text in enumerate(CELLS)]
    (tmp_path / "notebooks" / "one.ipynb").write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "7.8"\n')
    (tmp_path / "quiet.md").write_text("# Quiet\n\nNothing of a floor.\n")
    (tmp_path / "words.md").write_text("# Words\n\n```{glossary}\nfloor\n  What is fast{claim}`fast-floor`.\n```\n")
    (tmp_path / "book" / "all.md").write_text("# All\n\nThese:\n\n```{claims}\n```\n")
    (tmp_path / "book" / "teaching" / "slides" / "session_1.md").write_text(DECK)
    return tmp_path


@pytest.fixture
def reported(book):
    """The book, with a page of reports, and a page whose claims rest on one: a convention, a finding, what is right."""
    (book / "data" / "conformance").mkdir()
    report = json.loads((Path(__file__).parent.parent / REPORTED).read_text(encoding="utf-8"))
    report["departures"] = {"variable": "The variable is another."}
    report["findings"] = [
        {"sentence": "The variable is another.", "cases": [], "fields": ["conventions"], "example": ""},
        {"sentence": "The loss is NaN.", "cases": ["masks/on-the-way"], "fields": ["loss"], "example": ""},
        {"sentence": "The gradient is inf.", "cases": ["masks/on-the-way"], "fields": ["gradient"], "example": ""}]
    (book / REPORTED).write_text(json.dumps(report))
    for name, text in (
            ("conformance", "# Tables\n\n```{conformance-table} ctc\n```\n\n```{toctree}\nconformance_reports\n```\n"),
            ("conformance_reports", "# Reports\n\n## CTC\n\n```{conformance-reports} ctc\n```\n")):
        (book / "book" / f"{name}.md").write_text(text)
    index = book / "index.md"
    index.write_text(index.read_text().replace("book/all\n", "book/all\nbook/conformance\n"))
    data = json.loads(json.dumps(DATA))
    for number, said in enumerate(("variable: logits; reduction: none", "masks/on-the-way: inf", "reduction: none",
                                   "blank/last: right; masks/on-the-way: wrong")):
        data["claims"].append(DATA["claims"][1] | {"id": f"fast-{number}", "run": f"{REPORTED}#{said}"})
    (book / "data" / "claims.json").write_text(json.dumps(data))
    (book / "quiet.md").write_text("# Quiet\n\nIt does{claim}`fast-0, fast-1, fast-2, fast-3`.\n")
    return book


def build(book, builder="html"):
    warnings = StringIO()
    # of its own: Sphinx keeps in the default, for later tests, what a parser has said of .md
    settings = {"source_suffix": {".md": "myst-nb", ".ipynb": "myst-nb"}, "nb_execution_mode": "off",
                "myst_enable_extensions": ["dollarmath", "colon_fence"]}
    if builder == "html":
        settings |= {"extensions": ["myst_nb", "explanations", "slides", "claims"], "html_theme": "basic",
                     "exclude_patterns": ["_build", "book/teaching/slides/session_*"]}
    else:
        settings |= {"extensions": ["myst_nb", "printed_book", "claims"],
                     "exclude_patterns": ["_build", "book/teaching"],
                     "html_theme_options": {"extra_footer": "A licence."}}
    with docutils_namespace():
        out = book / "_build" / builder
        Sphinx(book, None, out, book / "_build" / f"trees-{builder}", builder, settings, StringIO(), warnings).build()
    return out, [line for line in re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue()).splitlines() if line]


def page(out, name):
    return BeautifulSoup((out / f"{name}.html").read_text(encoding="utf-8"), "html.parser")


def words(tag):
    return " ".join(tag.get_text().split())


def test_a_mark_leads_to_a_note_and_back(book):
    out, warnings = build(book)
    assert warnings == []
    one = page(out, "notebooks/one")
    assert [words(mark) for mark in one.select("sup.claim-mark")] == ["[1]", "[2]", "[3, 1]", "[4]"]
    notes, = one.select("section.claims")
    assert notes["role"] == "doc-endnotes" and notes.find_previous("h1") and words(notes.h2) == "What was read"
    assert [words(note) for note in notes.select("li")] == [
        "It has -1e5 & no more. a/fast, src/f.py, lines 3–5, at 0123456; read 2026-11-24. ↑",
        "It returns 0. Run 2026-11-23 with fast 1.2: One. ↑",
        "Somebody asks. c/talk#7; read 2026-11-22. ↑",
        "One line. d/other, x.c, line 9, at fffffff; read 2026-11-22. ↑"]
    first, _, asked, _ = notes.select("li")
    assert first.code.get_text() == "-1e5"
    assert first.a["href"] == f"https://github.com/a/fast/blob/{COMMIT}/src/f.py#L3-L5"
    assert asked.a["href"] == "https://github.com/c/talk/issues/7"
    assert notes.select("li")[3].a["href"] == f"https://github.com/d/other/blob/{'f' * 40}/x.c#L9"
    link = one.select_one("sup.claim-mark a")
    assert link["role"] == "doc-noteref" and link["aria-label"] == "Note 1"
    ids = [tag["id"] for tag in one.select("[id]")]
    assert len(ids) == len(set(ids))
    for anchor in one.select('sup.claim-mark a, a[role="doc-backlink"]'):
        assert anchor["href"][1:] in ids


def test_buttons_and_labels_hold_no_link(book):
    one = page(build(book)[0], "notebooks/one")
    assert words(one.select_one("details.deeper summary sup")) == "[2]"
    assert words(one.select_one(".quiz-answer sup")) == "[4]"
    assert one.select("summary a, label a") == []


def test_named_is_the_plain_word(book):
    text = words(page(build(book)[0], "notebooks/one").p)
    assert text == "A loss is infinite[1]. Then Slow does, and a code word."


def test_a_page_without_claims_has_no_notes(book):
    assert page(build(book)[0], "quiet").select(".claims") == []


def test_a_word_that_explains_itself_elsewhere_has_no_mark_there(book):
    out, _ = build(book)
    assert len(page(out, "words").select("dd .claim-mark")) == 1
    quiet = page(out, "quiet")
    _, shown = quiet.find(attrs={"data-of": "term-floor"}).find_all("p")
    assert str(shown) == "<p>What is fast.</p>"
    assert "claim-mark" not in str(quiet)


def test_all_claims_by_library(book):
    everything = page(build(book)[0], "book/all")
    assert [words(head).rstrip("¶") for head in everything.select("h2")] == ["fast loss", "Slow"]
    fast, _, thread, line = everything.select("li[id]")
    assert words(fast) == ("It has -1e5 & no more. a/fast, src/f.py, lines 3–5, at 0123456; read 2026-11-24. "
                           "Said in slides, Deck, One, Words.")
    assert (line["id"], thread["id"]) == ("claim-slow-line", "claim-slow-thread")
    assert [a["href"] for a in fast.select("a.internal")] == ["teaching/slides/session_1.html", "../notebooks/one.html",
                                                             "../words.html"]


def test_a_slide_leads_to_the_page_of_all(book):
    deck = page(build(book)[0], "book/teaching/slides/session_1")
    mark, = deck.select("sup.claim-mark")
    assert words(mark) == "[source]" and mark.a["href"] == "../../all.html#claim-fast-floor"
    assert deck.select(".claims") == []


def test_a_new_line_in_the_data_changes_the_pages(book):
    build(book)
    data = (book / "data" / "claims.json")
    data.write_text(data.read_text().replace("It returns 0.", "It returns 1."))
    out, warnings = build(book)
    assert warnings == []
    assert all("It returns 1." in words(page(out, name)) for name in ("notebooks/one", "book/all"))


def test_paper_has_notes_too(book):
    out, warnings = build(book, "latex")
    text = next(out.glob("*.tex")).read_text(encoding="utf-8")
    assert warnings == []
    assert text.count("What was read") == 2 and text.count("no more") == 3
    assert r"\label{\detokenize{notebooks/one:claim-fast-floor}}" in text
    assert len(re.findall(r"notebooks/one:claim-fast-floor", text)) == 3  # its label, and two marks


def test_asked_leads_to_the_thread_without_a_note(book):
    """The owner is named unless the repository has the same name; a claim without a thread fails the build."""
    data = json.loads(json.dumps(DATA))
    data["claims"].append(DATA["claims"][2] | {"id": "slow-own", "thread": "a--b/a--b#9"})
    (book / "data" / "claims.json").write_text(json.dumps(data))
    (book / "quiet.md").write_text("# Quiet\n\nPeople ask: {asked}`slow-thread, slow-own`.\n")
    out, warnings = build(book)
    quiet = page(out, "quiet")
    assert warnings == [] and words(quiet.p) == "People ask: c/talk#7, a--b#9." and not quiet.select(".claims, sup")
    assert [link["href"] for link in quiet.select("a.asked")] == [
        "https://github.com/c/talk/issues/7", "https://github.com/a--b/a--b/issues/9"]
    assert words(page(out, "book/all").select_one("#claim-slow-own")).endswith("Said in Quiet.")
    (book / "quiet.md").write_text("# Quiet\n\nPeople ask: {asked}`fast-floor`.\n")
    assert 'data/claims.json has no thread "fast-floor"' in build(book)[1][0]


def test_a_report_is_linked(reported):
    """Where the finding is that a claim names first, or else at the head of the report; by its name on paper."""
    out, warnings = build(reported)
    assert warnings == []
    notes = page(out, "quiet").select("section.claims li")
    assert [words(note) for note in notes[:2]] == [
        "It returns 0. Run 2026-11-23 with fast 1.2: report on torch ctc, none, variable: logits; reduction: none. ↑",
        "It returns 0. Run 2026-11-23 with fast 1.2: report on torch ctc, none, masks/on-the-way: inf. ↑"]
    one = page(out, "book/all").select_one("#claim-fast-1")
    assert notes[0].a["href"].startswith("book/") and one.a["href"].startswith("conformance_reports")
    sentences = []
    for note in [*notes, one]:
        file, _, anchor = note.a["href"].rpartition("/")[2].partition("#")
        assert file == "conformance_reports.html"
        sentences.append(words(page(out, "book/conformance_reports").find(id=anchor))[:24])
    assert sentences == ["The variable is another.", "The gradient is inf.", "torch.nn.functional.ctc_",
                         "The loss is NaN.", "The gradient is inf."]


def test_a_page_depends_on_the_reports_that_it_links(reported):
    build(reported)
    with open(reported / "_build" / "trees-html" / "environment.pickle", "rb") as file:
        dependencies = pickle.load(file).dependencies
    assert {page for page, files in dependencies.items() if any(str(each).endswith(REPORTED) for each in files)} == {
        "quiet", "book/all", "book/conformance", "book/conformance_reports"}


def test_paper_names_a_report(reported):
    out, warnings = build(reported, "latex")
    text = next(out.glob("*.tex")).read_text(encoding="utf-8")
    file = r"fast 1.2: \sphinxcode{\sphinxupquote{data/conformance/torch\sphinxhyphen{}ctc\sphinxhyphen{}none.json\#"
    assert text.count(file) == 8 and f"{file}reduction: none}}" in text
    assert warnings == [] and "report on" not in text


@pytest.mark.parametrize("role", ["{claim}`fast-flor`", "{claim}`fast-floor, fast-flor`", "{claim}`fast-floor,`"])
def test_an_unknown_claim_fails_the_build(book, role):
    (book / "quiet.md").write_text(f"# Quiet\n\nIt does{role}.\n")
    found = build(book)[1]
    name = "fast-flor" if "flor" in role else ""
    assert len(found) == 1 and f'data/claims.json has no claim "{name}"' in found[0] and "quiet.md:3" in found[0]

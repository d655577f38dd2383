"""The PDF of the book (`make pdf`) beside the site: outline, numbers, references, figures, fonts. It builds neither.

Without a PDF these tests skip, with the reason; with REQUIRE_PDF=1 in the environment they fail instead.
"""

import re
from pathlib import Path

import pytest
import yaml
from built_site import PDF, SITE, skip_or_fail
from pypdf import PdfReader

SETTINGS = yaml.safe_load((SITE.parent.parent / "_config.yml").read_text(encoding="utf-8"))
LEFT_OUT = {Path(place) for place in SETTINGS["sphinx"]["config"]["printed_book_without"]}
RIGHT = 595.28 - 72  # where lines of text end, in points


@pytest.fixture(scope="module")
def pdf():
    if not PDF.exists():
        skip_or_fail("REQUIRE_PDF", "the PDF is not made (make pdf)")
    return PdfReader(PDF)


@pytest.fixture(scope="module")
def read(pdf):
    """Return (text, numbers at the margin) of each page."""
    return [read_page(page) for page in pdf.pages]


@pytest.fixture(scope="module")
def texts(read):
    return [text for text, _ in read]


def read_page(page):
    """Return the text, and the numbers in brackets that end where lines end: of equations, and a few references."""
    found = []

    def visit(text, matrix, text_matrix, font, size):
        match = re.fullmatch(r"\(?(\d+\.\d+)\)", text.strip())
        if match:
            width = 5 * len(match[1]) + 0.83  # a digit takes 5 pt, the dot 2.5, the bracket 3.33
            if abs(matrix[4] + text_matrix[4] + width - RIGHT) < 3:
                found.append(match[1])

    return page.extract_text(visitor_text=visit), found


@pytest.fixture(scope="module")
def outline(pdf):
    """Return [(depth, title, number of the page)]."""

    def walk(items, depth=0):
        for item in items:
            if isinstance(item, list):
                yield from walk(item, depth + 1)
            else:
                yield depth, plain(item.title), pdf.get_destination_page_number(item)

    return list(walk(pdf.outline))


@pytest.fixture(scope="module")
def contents(site):
    """Return what is printed of the site's contents: [(caption or None, [(path, title)])]."""
    soup = site[SITE / "book" / "preface.html"]
    navigation = soup.select_one("nav.bd-links")
    captions = [plain(each.get_text()) for each in navigation.select("p.caption")]
    lists = [each.select("li.toctree-l1 > a") for each in navigation.select("ul.bd-sidenav")]
    first, *parts = [
        [((SITE / "book" / link["href"]).resolve(), plain(link.get_text())) for link in links] for links in lists
    ][-len(captions) - 1 :]
    return [(caption, [page for page in pages if page[0].relative_to(SITE.resolve()).parent not in LEFT_OUT])
            for caption, pages in [(None, first), *zip(captions, parts, strict=True)]]


def plain(text):
    return re.sub(r"\s+", " ", text).strip()


def test_outline_has_every_part_and_chapter_with_its_number(outline, contents):
    numerals = iter(["I ", "II ", "III ", "IV ", "V ", "VI ", "VII ", "VIII ", ""])
    wanted = [(0, "Preface")]
    for caption, chapters in contents:
        wanted += [(0, next(numerals) + caption)] if caption else []
        wanted += [(1 if caption else 0, printed(title)) for _, title in chapters]
    names = {title for _, title in wanted}
    assert [(depth, title) for depth, title, _ in outline if title in names] == wanted


def printed(title):
    """The site writes "9. The RNN-T gradient", the PDF leaves the dot out."""
    return re.sub(r"^(\d+)\. ", r"\1 ", title)


def pages_of(outline, title, last):
    """Return the pages from one with this title in the outline to the next at its depth or above."""
    index = next(i for i, item in enumerate(outline) if item[1] == title)
    depth, _, start = outline[index]
    following = [page for other, _, page in outline[index + 1:] if other <= depth]
    return range(start, following[0] if following else last)


def test_equations_have_the_numbers_of_the_site(read, outline, site, contents):
    compared = 0
    for path, title in [page for _, chapters in contents for page in chapters]:
        numbers = [re.search(r"\d+\.\d+", each.get_text())[0] for each in site[path].select(".eqno")]
        chapter = title.partition(".")[0] + "."
        assert all(number.startswith(chapter) for number in numbers), title
        found = {number for page in pages_of(outline, printed(title), len(read)) for number in read[page][1]}
        assert {number for number in found if number.startswith(chapter)} == set(numbers), title
        compared += len(numbers)
    assert compared > 300


def test_theorems_and_exercises_have_the_numbers_of_the_site(texts, site):
    """The names of the site stand at the head of a line of the PDF."""
    lines = {plain(line) + " " for text in texts for line in text.splitlines()}
    wanted = [plain(each.get_text()) for soup in site.values() for each in soup.select(".caption-number")]
    assert len(wanted) > 100
    assert [name for name in wanted if not any(line.startswith(f"{name} ") for line in lines)] == []


def test_every_reference_is_resolved(pdf, texts):
    assert [i for i, text in enumerate(texts) if "??" in text or "[?]" in text] == []
    links = [get(note) for page in pdf.pages for note in page.get("/Annots", [])]
    targets = [link["/A"]["/D"] for link in links if link.get("/A", {}).get("/S") == "/GoTo"]
    assert len(targets) > 1000
    assert set(targets) <= set(pdf.named_destinations)


def test_every_figure_is_there(pdf, site):
    drawings = "main .cell_output :is(img, svg.book-figure, .speech-player)"
    figures = [image for page, soup in site.items() if page.parent.name != "slides" for image in soup.select(drawings)]
    drawn = [x for page in pdf.pages for x in page["/Resources"].get("/XObject", {}).values()]
    assert len(figures) > 50
    assert sum(get(x)["/Subtype"] == "/Form" for x in drawn) == len(figures)


def get(value):
    return value.get_object()


def test_every_quiz_is_there_with_its_reasons(texts, site, contents):
    """Heads, and verdicts at the beginnings of lines."""
    chapters = [page for _, pages in contents for page, _ in pages]
    in_order = [page for page in chapters if page in site]
    in_order += [page for page in site if page not in chapters]  # teaching, which comes behind them
    quizzes = [quiz for page in in_order for quiz in site[page].select("fieldset.quiz")]
    lines = [plain(line) for text in texts for line in text.splitlines()]
    assert lines.count("Quiz") == len(quizzes) > 25
    verdicts = [(why["data-letter"], why["data-says"]) for quiz in quizzes for why in quiz.select(".quiz-why")]
    # where a line is set tightly its words are read as one
    found = [match.groups() for line in lines if (match := re.match(r"([A-E]): ?(right|wrong)\.", line))]
    assert found == verdicts


def test_fonts_are_embedded(pdf):
    fonts = {font["/BaseFont"]: font for page in pdf.pages for font in map(get, page["/Resources"]["/Font"].values())}
    assert len(fonts) > 5
    for font in fonts.values():
        for each in font.get("/DescendantFonts", [font]):
            descriptor = get(each)["/FontDescriptor"]
            assert {"/FontFile", "/FontFile2", "/FontFile3"} & set(descriptor), font["/BaseFont"]


def test_size_and_metadata(pdf, texts):
    assert {tuple(round(float(side)) for side in page.mediabox[2:]) for page in pdf.pages} == {(595, 842)}
    assert pdf.metadata.title == "CTC and RNN-T, Differentiated"
    assert pdf.metadata.author == "The CTC and RNN-T, Differentiated contributors"
    assert "Version 0." in texts[0] and "CC BY 4.0" in texts[0]

"""The quizzes of the built site as Moodle XML, for a question bank: `make quizzes`. It renders no formula.

    python -m coursework.quiz_export [--site FOLDER] [--out FILE]

Formulas stay the TeX between ``\\(`` and ``\\)`` that the site has, and that Moodle's MathJax filter reads. A question
has the name of its quiz, a category for each chapter, and a reason for each answer. Needs the environment of
course/requirements.txt.

Written with the standard library. Looked at were moodle-tools 1.1.0, which makes Moodle XML from YAML, passes texts
through Markdown, where ``\\(`` loses its backslash, and knows one right answer only; qti-package-maker 26.7.14, whose
QTI 2.1 is Blackboard's and whose Moodle is Aiken, both without a reason for each answer; and text2qti 0.8.0, whose QTI
1.2 is Canvas's, with formulas as pictures from a server there.
"""

from __future__ import annotations

import argparse
import copy
import html
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bs4 import BeautifulSoup

__all__ = ["Answer", "Quiz", "moodle_xml", "quizzes_of"]

_BOOK = "CTC and RNN-T, Differentiated"
#: Parts of a mark as Moodle writes them; it takes no others.
_PARTS = {1: "100", 2: "50", 3: "33.33333", 4: "25"}
_UNWRAPPED = "span.math, span.pre, a, code.docutils"


@dataclass(frozen=True)
class Answer:
    """An answer and its reason, as HTML with TeX."""

    text: str
    right: bool
    why: str


@dataclass(frozen=True)
class Quiz:
    """A quiz; ``chapter`` is the title of its page."""

    name: str
    chapter: str
    question: str
    answers: tuple[Answer, ...]


def quizzes_of(site) -> list[Quiz]:
    """All quizzes of a built site, in the order of its pages' names.

    Raises
    ------
    ValueError
        If there is no site, or no quiz in it.
    """
    site, found = Path(site), []
    if not (site / "index.html").exists():
        raise ValueError(f"site = {str(site)!r}; expected a built site: run 'make book' first")
    for path in sorted(site.rglob("*.html")):
        soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for link in soup.select("h1 a.headerlink"):
            link.extract()
        title = " ".join(soup.h1.get_text().split()) if soup.h1 else ""
        found += [_quiz(fieldset, title) for fieldset in soup.select("fieldset.quiz")]
    if not found:
        raise ValueError(f"site = {str(site)!r}; expected quizzes in it")
    return found


def _quiz(fieldset, chapter):
    name, id_ = fieldset["data-quiz"], fieldset["id"]
    question = copy.copy(fieldset.legend)
    for hint in question.select(".quiz-head, .quiz-hint"):
        hint.extract()
    # what stands between the question and the answers, such as code
    more = [each for each in fieldset.find_all(True, recursive=False)
            if each is not fieldset.legend and each.name != "details" and "quiz-answer" not in each.get("class", ())]
    answers = []
    for why in fieldset.select(".quiz-why"):
        label = copy.copy(fieldset.find("label", attrs={"for": f"{id_}-{why['data-letter']}"}))
        reason = copy.copy(why)
        for letter in (*label.select(".quiz-letter"), *reason.select(".quiz-verdict")):
            letter.extract()
        spans = label.find_all("span", recursive=False)
        answers.append(Answer(_plain(spans[-1]), why["data-says"] == "right", _plain(reason)))
    text = f"<p>{_plain(question)}</p>" + "".join(str(_cleaned(copy.copy(each))) for each in more)
    return Quiz(name, chapter, text, tuple(answers))


def _plain(tag):
    return _cleaned(tag).decode_contents().strip()


def _cleaned(tag):
    """Without the site's own classes, and without links, which lead nowhere outside of it."""
    for inner in tag.select(_UNWRAPPED):
        if inner.name == "code":
            inner.attrs = {}
        else:
            inner.unwrap()
    tag.smooth()
    return tag


def moodle_xml(quizzes) -> bytes:
    """Quizzes as Moodle XML.

    Raises
    ------
    ValueError
        If Moodle has no such part of a mark.
    """
    root, chapter = ElementTree.Element("quiz"), None
    for quiz in quizzes:
        if quiz.chapter != chapter:
            chapter = quiz.chapter
            _category(root, chapter)
        _question(root, quiz)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _category(root, chapter):
    question = ElementTree.SubElement(root, "question", type="category")
    path = "/".join(part.replace("/", "//") for part in (_BOOK, chapter))
    _text(ElementTree.SubElement(question, "category"), f"$course$/top/{path}")


def _question(root, quiz):
    right = sum(answer.right for answer in quiz.answers)
    wrong = len(quiz.answers) - right
    if right not in _PARTS or wrong not in _PARTS:
        raise ValueError(f"quiz {quiz.name!r} has {right} right and {wrong} wrong answers; expected 1 to {max(_PARTS)}")
    question = ElementTree.SubElement(root, "question", type="multichoice")
    _text(ElementTree.SubElement(question, "name"), quiz.name)
    _html(question, "questiontext", quiz.question)
    _html(question, "generalfeedback", f"<p>From <em>{html.escape(quiz.chapter)}</em>, quiz {quiz.name}.</p>")
    for tag, value in (("defaultgrade", "1"), ("penalty", "0.3333333"), ("hidden", "0"), ("idnumber", quiz.name),
                       ("single", "true" if right == 1 else "false"), ("shuffleanswers", "true"),
                       ("answernumbering", "ABCD"), ("showstandardinstruction", "1")):
        ElementTree.SubElement(question, tag).text = value
    for answer in quiz.answers:
        # with one right answer a wrong one costs nothing; with several, ticking all of them earns nothing
        part = _PARTS[right] if answer.right else "0" if right == 1 else f"-{_PARTS[wrong]}"
        node = _html(question, "answer", answer.text, fraction=part)
        _html(node, "feedback", answer.why)


def _html(parent, tag, text, **attributes):
    node = ElementTree.SubElement(parent, tag, {**attributes, "format": "html"})
    _text(node, text)
    return node


def _text(parent, text):
    ElementTree.SubElement(parent, "text").text = text


def main():
    arguments = argparse.ArgumentParser(description="Write the quizzes of the built site as Moodle XML.")
    arguments.add_argument("--site", type=Path, default=Path("_build/html"))
    arguments.add_argument("--out", type=Path, default=Path("_course/quizzes_moodle.xml"))
    given = arguments.parse_args()
    try:
        quizzes = quizzes_of(given.site)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_bytes(moodle_xml(quizzes))
    except (ValueError, OSError) as error:
        sys.exit(f"make quizzes: {error}")
    print(f"{given.out}: {len(quizzes)} questions, with the right answers, for the import of a Moodle question bank.")


if __name__ == "__main__":
    main()

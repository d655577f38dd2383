"""The Moodle XML of the book's quizzes beside their sources: the same answers are right, and every formula is there."""

import html
import re

from built_site import SITE
from test_quiz_export import read_back
from test_quizzes import CHAPTERS, PREREQUISITES, quizzes_in

from coursework.quiz_export import moodle_xml, quizzes_of

#: What MathJax knows without any package or definition of one's own.
KNOWN = set("alpha approx ast bar beta binom cdot circ frac gamma ge hat infty lambda le log mathrm max phi sum text "
            "tfrac theta varepsilon varnothing".split())


def formulas(text):
    return [each.strip() for each in re.findall(r"\$([^$]+)\$", text)]


def exported(text):
    return [each.strip() for each in re.findall(r"\\\((.+?)\\\)", html.unescape(text), re.S)]


def test_every_quiz_with_its_formulas(site):
    sources = {name: answers for quizzes in CHAPTERS.values() for name, answers in quizzes.items()}
    sources |= quizzes_in(PREREQUISITES.read_text(encoding="utf-8"))
    found = read_back(moodle_xml(quizzes_of(SITE)))
    assert set(found) == set(sources)
    for name, answers in sources.items():
        _, _, single, exports = found[name]
        assert [part > 0 for part, *_ in exports] == [answer.right for answer in answers], name
        assert single == (sum(answer.right for answer in answers) == 1)
        for answer, (_, text, why) in zip(answers, exports, strict=True):
            assert exported(text) == formulas(answer.text), name
            assert exported(why) == formulas(answer.why.replace("\n  >", "\n")), name


def test_formulas_need_no_macros_and_texts_no_site(site):
    content = moodle_xml(quizzes_of(SITE)).decode()
    commands = {each for text in exported(content) for each in re.findall(r"\\([a-zA-Z]+)", text)}
    assert commands and commands <= KNOWN
    assert not re.search(r"href|class=|&lt;span", content)

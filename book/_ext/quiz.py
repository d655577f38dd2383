"""The ``{quiz}`` directive, and ``{progress}``, the table of what a reader has done. It keeps nothing about any reader.

A quiz is a question, a list of answers that begin with ``[x]`` (right) or ``[ ]`` (wrong), and below each answer a
quotation that says why. Several right answers make boxes to tick of what is else a choice of one. On the website
quiz.js checks the answers and progress.js keeps the result in the browser; without JavaScript, the explanations unfold
below the answers. printed_book.py sets them in small print. A quiz that lacks anything is an error of the build.
The role ``{quiz}`name` `` is a link to a quiz from another page: "quiz 2 of chapter 5".
"""

import html
import re

from chapter_graph import numbered
from docutils import nodes
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

logger = logging.getLogger(__name__)
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
MARK = re.compile(r"\[([ x])\]\s+")
LETTERS = "ABCDE"
SCRIPTS = "progress.js", "quiz.js"
STYLE = "quiz.css"


class Quiz(nodes.General, nodes.Element):
    """`name`, and whether it has `several` right answers. It holds a question, answers and explanations."""


class QuizQuestion(nodes.General, nodes.TextElement):
    """One paragraph: the name of the group of answers."""


class QuizAnswer(nodes.General, nodes.TextElement):
    """One paragraph, with its `letter`."""


class QuizExplanations(nodes.General, nodes.Element):
    """One explanation for each answer, in the same order."""


class QuizExplanation(nodes.General, nodes.Element):
    """Paragraphs, with the `letter` of the answer, and whether it is `right`."""


class QuizLink(nodes.Inline, nodes.Element):
    """Where a link to a quiz goes, once every quiz is known: `name`, and the `page` that it stands on."""


# --- reading ---


class QuizDirective(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self):
        name = self.arguments[0]
        if not NAME.fullmatch(name):
            raise self.error(f'quiz "{name}": its name has to be small letters, digits and single hyphens')
        option = next((line for line in self.content if line.strip()), "")
        if re.match(r":[\w-]+:", option):
            raise self.error(f'quiz "{name}" takes no option: {option}')
        content = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, content)
        try:
            quiz = read(name, content.children)
        except ValueError as fault:
            raise self.error(f'quiz "{name}": {fault}') from None
        self.set_source_info(quiz)
        return [quiz]


def read(name, content):
    """Return the quiz; ValueError says what it lacks."""
    *question, answers = content or [None]
    if not isinstance(answers, nodes.bullet_list):
        raise ValueError("it has to end in a list of answers, each of them marked [ ] or [x]")
    if not question or not isinstance(question[0], nodes.paragraph):
        raise ValueError("it has to begin with a question, in one paragraph")
    found = [read_answer(item, place) for place, item in enumerate(answers, 1)]
    rights = sum(right for right, _, _ in found)
    if not 2 <= len(found) <= len(LETTERS):
        raise ValueError(f"it has {len(found)} answers; expected 2 to {len(LETTERS)}")
    if rights == 0:
        raise ValueError("no answer is right: mark one with [x]")
    if rights == len(found):
        raise ValueError("every answer is right: mark a wrong one with [ ]")
    quiz = Quiz("", QuizQuestion("", "", *question[0].children), *question[1:], name=name, several=rights > 1,
                ids=[f"quiz-{name}"])
    quiz += [QuizAnswer("", "", *text, letter=letter) for letter, (_, text, _) in zip(LETTERS, found, strict=False)]
    quiz += QuizExplanations("", *[QuizExplanation("", *why, letter=letter, right=right)
                                   for letter, (right, _, why) in zip(LETTERS, found, strict=False)])
    return quiz


def read_answer(item, place):
    """Return (whether it is right, what it says, why)."""
    first = item[0] if item.children else None
    text = first[0] if isinstance(first, nodes.paragraph) and isinstance(first[0], nodes.Text) else ""
    mark = MARK.match(text)
    if not mark:
        raise ValueError(f"answer {place} begins with neither [ ] nor [x]")
    if len(item) != 2 or not isinstance(item[1], nodes.block_quote) or not item[1].astext().strip():
        raise ValueError(f"answer {place} needs one paragraph and, below it, one explanation that begins with >")
    first[0] = nodes.Text(text[mark.end():])
    return mark[1] == "x", first.children, item[1].children


class Quizzes(EnvironmentCollector):
    """Keep, in the environment, the name and the place of each page's quizzes (``env.quizzes``)."""

    def clear_doc(self, app, env, docname):
        vars(env).setdefault("quizzes", {}).pop(docname, None)

    def merge_other(self, app, env, docnames, other):
        env.quizzes.update({page: other.quizzes[page] for page in docnames if page in other.quizzes})

    def process_doc(self, app, doctree):
        found = [(quiz["name"], f"{quiz.source}:{quiz.line}") for quiz in doctree.findall(Quiz)]
        app.env.quizzes[app.env.docname] = found


class QuizRole(SphinxRole):
    def run(self):
        self.env.metadata[self.env.docname]["names_quizzes"] = True
        node = QuizLink(name=self.text, page=self.env.docname)
        self.set_source_info(node)
        return [node], []


def check_names(app, env):
    """Warn about a name that stands twice: their results would be one. Have pages that name quizzes written again."""
    first = {}
    for name, place in [quiz for page in sorted(env.quizzes) for quiz in env.quizzes[page]]:
        if name in first:
            logger.warning('quiz "%s": this name is taken, at %s', name, first[name], location=place)
        first.setdefault(name, place)
    return [page for page, facts in env.metadata.items() if facts.get("progress") or facts.get("names_quizzes")]


# --- the website ---


def visit_quiz(writer, node):
    several = ' data-several="yes"' if node["several"] else ""
    writer.body.append(f'<fieldset class="quiz" id="{node["ids"][0]}" data-quiz="{node["name"]}"{several}>\n')


def depart_quiz(writer, node):
    writer.body.append("</fieldset>\n")


def visit_question(writer, node):
    writer.body.append('<legend><span class="quiz-head">Quiz</span> ')


def depart_question(writer, node):
    hint = ' <span class="quiz-hint">Several answers are right.</span>' if node.parent["several"] else ""
    writer.body.append(f"{hint}</legend>\n")


def visit_answer(writer, node):
    quiz, letter = node.parent["ids"][0], node["letter"]
    kind = "checkbox" if node.parent["several"] else "radio"
    control = f'<input type="{kind}" name="{quiz}" id="{quiz}-{letter}" value="{letter}">'
    writer.body.append(f'<div class="quiz-answer">{control}<label for="{quiz}-{letter}"><span class="quiz-letter">'
                       f"{letter}</span> <span>")


def depart_answer(writer, node):
    writer.body.append("</span></label></div>\n")


def visit_explanations(writer, node):
    writer.body.append('<details class="quiz-all"><summary>Show all explanations</summary>\n')


def depart_explanations(writer, node):
    writer.body.append("</details>\n")


def visit_explanation(writer, node):
    says = "right" if node["right"] else "wrong"
    writer.body.append(f'<div class="quiz-why" data-letter="{node["letter"]}" data-says="{says}">'
                       f'<p class="quiz-verdict"><strong>{node["letter"]}: {says}.</strong></p>\n')


def depart_explanation(writer, node):
    writer.body.append("</div>\n")


HTML = {Quiz: (visit_quiz, depart_quiz), QuizQuestion: (visit_question, depart_question),
        QuizAnswer: (visit_answer, depart_answer), QuizExplanations: (visit_explanations, depart_explanations),
        QuizExplanation: (visit_explanation, depart_explanation)}


def load(app, pagename, templatename, context, doctree):
    """Give the scripts to the pages that need them, and to each chapter the place of its button at the end."""
    chapter = pagename in numbered(app.env).values()
    if chapter:
        context["body"] += f'<div class="chapter-read" data-chapter="{html.escape(pagename)}"></div>'
    if chapter or app.env.quizzes.get(pagename) or app.env.metadata.get(pagename, {}).get("progress"):
        for script in SCRIPTS:
            app.add_js_file(script, loading_method="defer")
        app.add_css_file(STYLE)


# --- the page of progress ---


class ProgressPlaceholder(nodes.General, nodes.Element):
    """Where the table goes, once every quiz is known."""


class Progress(SphinxDirective):
    def run(self):
        self.env.metadata[self.env.docname]["progress"] = True
        return [ProgressPlaceholder()]


def resolve(app, doctree, docname):
    for node in list(doctree.findall(ProgressPlaceholder)):
        if app.builder.format == "html":
            node.replace_self(nodes.raw("", progress(app, docname), format="html"))
        else:
            node.replace_self(printed_progress(app, docname))
    for node in list(doctree.findall(QuizLink)):
        node.replace_self(link_to(app, node) or [])


def link_to(app, node):
    """Return a link to a quiz; on paper, where each has its chapter's place, its name in words."""
    places = [(page, number) for page, found in app.env.quizzes.items()
              for number, (name, _) in enumerate(found, 1) if name == node["name"]]
    if not places:
        logger.warning('there is no quiz "%s"', node["name"], location=node)
        return None
    page, number = places[0]
    section = app.env.toc_secnumbers.get(page, {}).get("")
    of = f"chapter {'.'.join(map(str, section))}" if section else app.env.titles[page].astext()
    text = f"quiz {number} of {of}"
    if app.builder.format != "html":
        return nodes.Text(text)
    uri = f"{app.builder.get_relative_uri(node['page'], page)}#quiz-{node['name']}"
    return nodes.reference("", text, internal=True, refuri=uri)


def progress(app, docname):
    rows = []
    for page in numbered(app.env).values():
        names = [name for name, _ in app.env.quizzes.get(page, ())]
        link = html.escape(app.builder.get_relative_uri(docname, page))
        links = " ".join(f'<a href="{link}#quiz-{name}" data-quiz="{name}">{number}</a>'
                         for number, name in enumerate(names, 1))
        rows.append(
            f'<tr data-chapter="{html.escape(page)}"><th scope="row"><a href="{link}">{title(app.env, page)}</a></th>'
            f'<td class="progress-read">–</td><td class="progress-links">{links or "–"}</td>'
            f'<td class="progress-first">–</td><td class="progress-last">–</td></tr>')
    heads = ("Chapter", "Read", "Quizzes", "Right at first", "Right at last")
    heads = "".join(f'<th scope="col">{head}</th>' for head in heads)
    return (
        '<div class="progress-table" data-progress><noscript><p>Without JavaScript nothing is kept; the table shows '
        "where the quizzes are.</p></noscript>"
        '<div class="pst-scrollable-table-container" tabindex="0" role="region" aria-label="Your progress">'
        f'<table class="table"><thead><tr>{heads}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div></div>')


def title(env, page):
    number = ".".join(map(str, env.toc_secnumbers[page][""]))
    return f"{number}. {html.escape(env.titles[page].astext().partition(': ')[0])}"


def printed_progress(app, docname):
    """Return a sentence: on paper nothing can be kept."""
    pages = [page for page in numbered(app.env).values() if app.env.quizzes.get(page)]
    count = sum(len(app.env.quizzes[page]) for page in pages)
    text = f"On the website a table stands here. The book has {count} quizzes, in {len(pages)} chapters."
    return nodes.paragraph("", text)


def setup(app):
    app.setup_extension("chapter_map")
    for node, visitors in HTML.items():
        app.add_node(node, html=visitors)
    app.add_node(ProgressPlaceholder)
    app.add_node(QuizLink)
    app.add_directive("quiz", QuizDirective)
    app.add_directive("progress", Progress)
    app.add_role("quiz", QuizRole())
    app.add_env_collector(Quizzes)
    app.connect("env-updated", check_names)
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", load)
    return {"version": "1", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}

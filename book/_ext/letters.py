"""The directive ``{letters}`` lists the letters that a chapter uses for itself, ``{letters-of-chapters}`` all of these.

:::{letters}
$f$, $x$: a function and its number
$p$: a share of mass
:::

stands below the opening of a chapter, a meaning a line. On the website it is folded. The letters with one meaning in
the whole book stand on the notation page. `in_formulas` reads the letters of a text's formulas, and
`tests/test_letters.py` compares the three.
"""

import json
import re

from chapter_graph import numbered
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

FORMULA = re.compile(r"\$\$(.*?)\$\$|(?<![\\$])\$([^$\n]+)\$", re.DOTALL)
NOT_LETTERS = re.compile(
    r"\\(?:text|operatorname|mathrm|begin|end|label|texttt|mathsf)\*?\s*(?:\{[^{}]*\}|[a-zA-Z])|e\^|\\e(?![a-z])")
GREEK = ("alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon "
         "phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell varnothing").split()
TOKEN = re.compile(r"\\(mathcal|mathbb|mathbf)\s*\{?\s*([A-Za-z])|\\([A-Za-z]+)|([A-Za-z])")
DIRECTIVE = re.compile(r"^:::\{letters\}\n(.*?)^:::$", re.DOTALL | re.MULTILINE)


def in_formulas(text):
    """Return the letters of the formulas in Markdown; accents, primes and indices do not make another letter."""
    found = set()
    for display, inline in FORMULA.findall(re.sub(r"`[^`\n]+`", "", text)):
        for kind, styled, command, letter in TOKEN.findall(NOT_LETTERS.sub(" ", display or inline)):
            if kind:
                found.add(f"\\{kind} {styled}")
            elif command in GREEK:
                found.add(f"\\{command}")
            elif letter:
                found.add(letter)
    return found


def own(path):
    """Return the lines of a chapter's list of letters; [] if it has none."""
    with open(path, encoding="utf-8") as file:
        first = "".join(json.load(file)["cells"][0]["source"])
    listed = DIRECTIVE.search(first)
    return [line for line in listed[1].splitlines() if line.strip()] if listed else []


# --- Sphinx ---


class Letters(nodes.General, nodes.Element):
    """A list of paragraphs."""


class LettersOfChapters(nodes.General, nodes.Element):
    """Where the table goes, once every chapter is known."""


class LettersDirective(SphinxDirective):
    has_content = True

    def run(self):
        self.assert_has_content()
        items = []
        for line in filter(None, map(str.strip, self.content)):
            text, _ = self.parse_inline(line, lineno=self.lineno)
            items.append(nodes.list_item("", nodes.paragraph("", "", *text)))
        node = Letters("", nodes.bullet_list("", *items))
        self.set_source_info(node)
        return [node]


class LettersOfChaptersDirective(SphinxDirective):
    def run(self):
        self.env.metadata[self.env.docname]["shows_letters"] = True
        return [LettersOfChapters()]


def pages_with_letters(app, env):
    """Have these pages written again: any chapter may have changed them."""
    return [page for page, facts in env.metadata.items() if facts.get("shows_letters")]


def resolve(app, doctree, docname):
    for place in list(doctree.findall(LettersOfChapters)):
        found = []
        for page in numbered(app.env).values():
            for letters in app.env.get_doctree(page).findall(Letters):
                number = ".".join(map(str, app.env.toc_secnumbers[page][""]))
                uri = app.builder.get_relative_uri(docname, page)
                link = nodes.reference("", f"{number}. {app.env.titles[page].astext()}", internal=True, refuri=uri)
                lines = letters[0].deepcopy()
                for reference in list(lines.findall(addnodes.pending_xref)):  # it leads from the chapter
                    reference.replace_self(reference.children)
                found += [nodes.term("", "", link), nodes.definition("", lines)]
        items = [nodes.definition_list_item("", *found[i : i + 2]) for i in range(0, len(found), 2)]
        place.replace_self(nodes.definition_list("", *items))
    if app.builder.format != "html":
        for letters in list(doctree.findall(Letters)):
            letters.replace_self(letters.children)


def visit(writer, node):
    writer.body.append('<details class="letters"><summary>Letters of this chapter</summary>')


def depart(writer, node):
    writer.body.append("</details>\n")


def setup(app):
    app.add_node(Letters, html=(visit, depart))
    app.add_node(LettersOfChapters)
    app.add_directive("letters", LettersDirective)
    app.add_directive("letters-of-chapters", LettersOfChaptersDirective)
    app.connect("env-updated", pages_with_letters)
    app.connect("doctree-resolved", resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

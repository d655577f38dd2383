"""The book as LaTeX, for `make pdf`: parts, the website's numbers, boxes, tables that fit. It runs no LaTeX.

Sphinx's LaTeX builder joins all pages into one tree. Here that tree is put into the order of a book: the first page of
the site becomes the preface, each caption of the table of contents a part. Chapters, equations, theorems and exercises
carry the numbers that the website shows. How they look is in `printed_book.tex`. Pages of the website never come here.
What `printed_book_without` names, such as a folder of pages to look things up in, is left out, and links to it become
words.
"""

import re
import tomllib
import unicodedata
from pathlib import Path

from doctrees import equation_id, inside
from docutils import nodes
from quiz import Quiz, QuizAnswer, QuizExplanation, QuizQuestion
from sphinx import addnodes
from sphinx.builders.latex.nodes import thebibliography
from sphinx.util.texescape import escape
from sphinx.writers.latex import LaTeXTranslator

PREAMBLE = Path(__file__).parent / "printed_book.tex"
LINE = 100  # letters on a line of a table, as `letters` counts them
GAP = 2.7  # what stays free between two columns
TALL = 16  # lines; a table with more of them may go on on the next page
BREAK = r"(?<=[._/])(?=\w)"  # where a long name may be broken


class PrintedBox(nodes.General, nodes.Element):
    """A theorem, proof, exercise, solution, note or quiz. Its first child is its title; `kind` is the environment."""


class PrintedLaTeX(nodes.General, nodes.Element):
    """LaTeX that goes into the file as it stands: `text`."""


class Translator(LaTeXTranslator):
    """Sphinx's own, but for the title of the preface, displayed equations and boxes."""

    def visit_document(self, node):
        super().visit_document(node)
        self.this_is_the_title = 0  # else the first title would be taken for that of the book, and left out

    def visit_math(self, node):
        if self.in_title:  # a bookmark has no formulas
            formula = f"\\protect\\({node.astext()}\\protect\\)"
            self.body.append(f"\\texorpdfstring{{{formula}}}{{{self.encode(without_commands(node.astext()))}}}")
            raise nodes.SkipNode
        super().visit_math(node)

    def visit_math_block(self, node):
        star, tag = "*", ""
        if node.get("label"):
            star, tag = "", f"\\tag{{{node['number']}}}\\label{{equation:{node['docname']}:{node['label']}}}"
        self.end_without_blank_line()
        tex = f"\\fitted{{{node.astext().strip()}}}"
        self.body.append(f"%\n\\begin{{equation{star}}}{tag}\n{tex}\n\\end{{equation{star}}}\n")
        raise nodes.SkipNode

    def visit_PrintedBox(self, node):
        title, *content = node
        self.body.append(f"\n\\begin{{printed{node['kind']}}}{{")
        for child in title:
            child.walkabout(self)
        self.body.append("}" + self.hypertarget_to(node, anchor=True) + "\n")
        for child in content:
            child.walkabout(self)
        self.end_without_blank_line()
        self.body.append(f"%\n\\end{{printed{node['kind']}}}\n")
        raise nodes.SkipNode

    def visit_PrintedLaTeX(self, node):
        self.body.append(node["text"])
        raise nodes.SkipNode

    def end_without_blank_line(self):
        """The paragraph goes on: in the display that comes, or to the sign at the end of a proof."""
        while self.body and not self.body[-1].strip():
            self.body.pop()


def without_commands(tex):
    r"""Return TeX as plain text: Greek letters as they are, other commands by their names.

    >>> without_commands(r"1 + \lambda"), without_commands(r"\log y_{t}")
    ('1 + λ', 'log y_t')
    """
    def character(match):
        name = {"lambda": "lamda"}.get(match[1], match[1])  # as Unicode spells it
        try:
            return unicodedata.lookup(f"GREEK SMALL LETTER {name}")
        except KeyError:
            return match[1]

    return re.sub(r"[{}\\]", "", re.sub(r"\\([a-z]+)", character, tex))


def print_book(app, doctree, docname):
    """Rearrange the joined tree, with its references resolved; it is the only one that the LaTeX builder resolves."""
    if app.builder.format != "latex":
        return
    for page in doctree.findall(addnodes.start_of_file):
        for child in page:
            child.parent = page  # Sphinx leaves it where it was
    for link in [link for link in doctree.findall(nodes.reference) if link.get("refuri", "").startswith("%")]:
        if is_left_out(app, link["refuri"][1:].partition("#")[0]):
            link.replace_self(link.children)
    for cell in list(doctree.findall(nodes.container)):
        if "tag_check-answer" in cell["classes"]:  # it waits for an answer, and paper takes none
            cell.parent.remove(cell)
    number_equations(app.env, doctree)
    make_boxes(app.env, doctree)
    for quiz in list(doctree.findall(Quiz)):
        set_quiz(quiz)
    for table in list(doctree.findall(nodes.table)):
        fit(table)
    order(app, doctree)


# --- numbers ---


def number(env, docname, kind, identifier):
    """Return what the website shows, such as 9.16."""
    return ".".join(map(str, env.toc_fignumbers[docname][kind][identifier]))


def number_equations(env, doctree):
    for node in doctree.findall(nodes.math_block):
        if node.get("label"):
            node["number"] = number(env, node["docname"], "displaymath", equation_id(node["label"]))


def page_of(node):
    while not isinstance(node, (addnodes.start_of_file, nodes.document)):
        node = node.parent
    return node["docname"]


# --- theorems, proofs, exercises, solutions, notes ---


def make_boxes(env, doctree):
    """Without this sphinx-proof and sphinx-exercise print them all as notes, and give two proofs the same label."""
    for node in list(doctree.findall(nodes.Admonition)):
        kind = type(node).__name__
        if node.get("realtype"):
            shown = number(env, page_of(node), node["countertype"], node["ids"][0])
            title = [nodes.Text(f"{node['realtype'].title()} {shown}"), *node[0]]
            replace(node, "theorem", title, node[1:], node["ids"])
        elif kind == "proof_node":
            replace(node, "proof", [], node[0].children)
        elif kind in {"exercise_enumerable_node", "exercise_node", "solution_node"}:
            replace(node, kind.partition("_")[0], node[0].children, node[1:], node["ids"])
        elif "proof" not in node["classes"]:  # that is the inside of a proof
            titled = isinstance(node[0], nodes.title)  # a plain note or warning has its name only
            title = node[0].children if titled else [nodes.Text(kind.title())]
            replace(node, "note", title, node[1:] if titled else node.children, node["ids"])
    for node in list(doctree.findall(addnodes.number_reference)):  # LaTeX would count anew
        target = node.get("refuri") or f"%{page_of(node)}#{node['refid']}"
        node.replace_self(nodes.reference("", "", nodes.Text(node.astext()), internal=True, refuri=target))


def replace(node, kind, title, content, ids=()):
    box = PrintedBox("", nodes.title("", "", *title), *content, kind=kind, ids=list(ids))
    node.parent.replace(node, box)  # replace_self would copy classes too


def set_quiz(quiz):
    """Question and lettered answers; then, in small print, which is right and why."""
    answers = [nodes.list_item("", nodes.paragraph("", "", *a.children)) for a in quiz.findall(QuizAnswer)]
    letters = nodes.enumerated_list("", *answers, enumtype="upperalpha", prefix="", suffix=".")
    other = [child for child in quiz[:-1] if not isinstance(child, (QuizQuestion, QuizAnswer))]
    reasons = []
    for why in quiz.findall(QuizExplanation):
        says = nodes.strong("", f"{why['letter']}: {'right' if why['right'] else 'wrong'}.")
        why[0].insert(0, [says, nodes.Text(" ")])
        reasons += why.children
    small = PrintedBox("", nodes.title("", ""), *reasons, kind="reasons", ids=[])
    replace(quiz, "quiz", [nodes.Text("Quiz")], [nodes.paragraph("", "", *quiz[0].children), *other, letters, small],
            quiz["ids"])


# --- tables ---


def fit(table):
    """Give each column the width that it needs, or a share of the line; let a tall table go on on the next page."""
    for entry in table.findall(nodes.entry):
        for paragraph in [child for child in entry if isinstance(child, nodes.paragraph) and not child.children]:
            entry.remove(paragraph)  # it would be an empty line
    let_break(table)
    rows = list(table.findall(nodes.row))
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"a table on {page_of(table)} has joined cells; printed_book has no rule for their widths")
    sizes = [[letters(entry) for entry in row] for row in rows]
    columns = list(zip(*sizes, strict=True))
    sides = [side(entries) for entries in zip(*rows, strict=True)]
    room = LINE - GAP * len(columns)
    if sum(1 + max(whole for whole, _ in column) for column in columns) <= room:
        spec, lines = "".join(sides), len(rows)
    else:
        widths = shares(sizes, [1 + max(word for _, word in column) for column in columns], room)
        spec = "".join(f"\\share{{{s}}}{{{width / LINE:.4f}}}" for s, width in zip(sides, widths, strict=True))
        lines = sum(max(-(-whole // width) for (whole, _), width in zip(row, widths, strict=True)) for row in sizes)
    table["classes"] = [name for name in table["classes"] if not name.startswith("colwidths")]
    if lines > TALL and not inside(table, (PrintedBox, nodes.list_item)):
        table["classes"].append("longtable")
    table.parent.insert(table.parent.index(table), addnodes.tabular_col_spec("", spec=spec))


def let_break(table):
    """Let a long name break outside of code, too, where Sphinx sees to it: torch.nn.functional.ctc_loss after a dot."""
    for text in list(table.findall(nodes.Text)):
        if re.search(r"\S{10}", text) and not inside(text, (nodes.math, nodes.literal)):
            first, *others = re.split(BREAK, text)
            parts = [part for each in others for part in (PrintedLaTeX("", text=r"\allowbreak{}"), nodes.Text(each))]
            text.parent.replace(text, [nodes.Text(first), *parts])


def letters(entry):
    """Return about how many letters wide the entry is, and its longest word."""
    text = re.sub(r"\s+", " ", "".join(words(entry))).strip()
    return len(text), max(map(len, re.split(rf"\s|{BREAK}", text)))


def words(node):
    """Yield the text below a node: of TeX about what it prints, and code wider than it is, as its letters are."""
    if isinstance(node, nodes.math):
        tex = re.sub(r"\\(log|exp|max|min)\b", "xxx", node.astext())
        tex = re.sub(r"\\(text|math[a-z]+|operatorname|left|right|[Bb]ig+[lrm]?)\b|\\[^A-Za-z]", "", tex)
        yield re.sub(r"[{}_^&\s]", "", re.sub(r"\\[A-Za-z]+", "x", tex))
    elif isinstance(node, nodes.literal):
        yield node.astext() + "m" * (len(node.astext()) // 5)
    elif isinstance(node, nodes.Text):
        yield node.astext()
    else:
        for child in node.children:
            yield from words(child)
        yield " " if isinstance(node, nodes.paragraph) else ""


def shares(rows, longest, room):
    """Divide the room so that the rows become low: first each column's longest word, then what helps most."""

    def height(widths):
        """Of each row that of its highest cell, and a little of the others, so that every cell counts."""
        cells = [[whole / width for (whole, _), width in zip(row, widths, strict=True)] for row in rows]
        return sum(sum(each**6 for each in row) ** (1 / 6) for row in cells)

    widths = [word * min(1, room / sum(longest)) for word in longest]
    while sum(widths) < room:
        widths = min(
            ([width + (i == wider) for i, width in enumerate(widths)] for wider in range(len(widths))), key=height
        )
    return [width * room / sum(widths) for width in widths]


def side(entries):
    """Return how a column is set, as LaTeX names it: right, centred or left."""
    classes = {name for entry in entries for name in entry["classes"]}
    return "r" if "text-right" in classes else "c" if "text-center" in classes else "l"


# --- the order of a book ---


def order(app, doctree):
    """Preface first, then what each toctree holds, below its part. Chapters are numbered where the toctree says so."""
    pages = {node["docname"]: node for node in doctree.findall(addnodes.start_of_file)}
    preface = next(doctree.findall(nodes.section))
    preface[0].children = [nodes.Text("Preface")]
    place_references(doctree, pages)
    for page in pages.values():
        page.parent.remove(page)
    doctree.insert(0, PrintedLaTeX("", text="\n\\unnumbered\n"))
    for toctree in app.env.get_doctree(app.config.root_doc).findall(addnodes.toctree):
        text = "\n\\numbered\n" if toctree["numbered"] else "\n\\unnumbered\n"
        if toctree["caption"]:
            text += f"\\part{{{escape(toctree['caption'], 'xelatex')}}}\n"
        names = in_order(app.env, toctree["includefiles"])
        printed = [pages.pop(name) for name in names if not is_left_out(app, name)]
        doctree += [PrintedLaTeX("", text=text), *printed]


def is_left_out(app, docname):
    return any(docname == place or docname.startswith(f"{place}/") for place in app.config.printed_book_without)


def in_order(env, names):
    """Yield these pages, each of them followed by those that the table of contents has below it."""
    for name in names:
        yield name
        yield from in_order(env, env.toctree_includes.get(name, ()))


def place_references(doctree, pages):
    """Sphinx puts the references at the end of the tree, with a heading; they belong on the page that asked."""
    for references in list(doctree.findall(thebibliography)):
        references.parent.remove(references)
        page = pages[references[0]["docname"]]
        label = f"\\phantomsection\\label{{\\detokenize{{{page['docname']}::doc}}}}"
        page.clear()
        page += [PrintedLaTeX("", text=label), references]


def prepare(app):
    """Hand LaTeX the looks, and what the title page says: a version and no date, so that a day changes no page."""
    if app.builder.format != "latex":
        return
    app.set_translator("latex", Translator)  # not in setup: the website's theme adds its own only where there is none
    config = app.config
    version = tomllib.loads(Path(app.srcdir, "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    says = {
        "title": config.html_title,
        "author": config.author,
        "version": f"Version {version}, {config.copyright}",
        "licence": config.html_theme_options["extra_footer"],
    }
    lines = [f"\\newcommand{{\\printed{name}}}{{{escape(text, 'xelatex')}}}" for name, text in says.items()]
    app.builder.context.update(date="", preamble="\n".join([*lines, PREAMBLE.read_text(encoding="utf-8")]))


def setup(app):
    app.add_config_value("printed_book_without", [], "env")
    app.add_node(PrintedBox)
    app.add_node(PrintedLaTeX)
    app.connect("builder-inited", prepare)
    app.connect("doctree-resolved", print_book, priority=900)  # when the others are done
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

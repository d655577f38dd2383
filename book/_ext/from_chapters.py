"""Directives that show, on another page, what a chapter holds: so that it has one source. They make nothing new.

``{chapter-equation} label``, ``{chapter-exercise} label`` and ``{chapter-theorem} label`` copy what has that label;
``{chapter-cell} 40_ctc_gradient cell-id`` copies the code of a notebook's cell, or what the executed book has of its
output. Below a copy stands a link to its place, with the number of the website. A name that no chapter has is a
warning, which fails the build, with file and line. Copies are made when a page is written, of the chapters as they were
read, so that nothing runs twice; they keep no label and no id. The printed book has them too.
"""

import json
import re
from pathlib import Path

from displayed_equations import Equation
from doctrees import ancestors, equation_id
from docutils import nodes
from docutils.parsers.rst import directives
from equation_checks import number
from sphinx import addnodes
from sphinx.builders.latex.nodes import math_reference
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

SENTENCE_END = re.compile(r"\s*[.,]\s*$")  # a copy stands alone


class FromChapter(nodes.General, nodes.Element):
    """Where a copy goes: `kind`, `name`, and the options of the directive."""


def line_range(text):
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def what(text):
    return directives.choice(text, ("figure", "code", "output"))


class ChapterThing(SphinxDirective):
    required_arguments = 1

    def run(self):
        node = FromChapter("", kind=self.name.partition("-")[2], name=self.arguments[-1], **self.options)
        if len(self.arguments) > 1:
            node["chapter"] = self.arguments[0]
        self.set_source_info(node)
        return [node]


class ChapterCell(ChapterThing):
    required_arguments = 2
    option_spec = {"show": what, "lines": line_range}


# --- finding ---


def trees(env):
    """Return the chapters' trees as they were read, each unpickled once for all pages that are written."""
    if getattr(env.app, "trees_of_chapters", None) is None:
        env.app.trees_of_chapters = {}
    return env.app.trees_of_chapters


def tree(env, docname):
    if docname not in trees(env):
        trees(env)[docname] = env.get_doctree(docname)
    return trees(env)[docname]


def chapters(env):
    return sorted(name for name in env.found_docs if name.startswith("notebooks/"))


def found(env, node, kind, docname):
    """Return the node of the chapter that has the label, which the domain said is there."""
    return next(n for n in tree(env, docname).findall(kind) if n.get("label") == node["name"])


def equation(env, node):
    place = env.get_domain("math").equations.get(node["name"])
    if place is None:
        raise LookupError(f'no chapter has an equation "{node["name"]}"')
    docname, label = place[0], node["name"]
    tex = SENTENCE_END.sub("", found(env, node, nodes.math_block, docname).astext())
    copy = nodes.math_block("", tex, nowrap=False, number=None, label=None, classes=["equation-copy"])
    return [copy], docname, equation_id(label), f"Equation {number(env, Equation(docname, label, '', ''))}"


def exercise(env, node):
    known = getattr(env, "sphinx_exercise_registry", {}).get(node["name"])
    if known is None:
        raise LookupError(f'no chapter has an exercise "{node["name"]}"')
    docname, label = known["docname"], node["name"]
    original = found(env, node, nodes.Admonition, docname)
    return original.children[1:], docname, label, f"Exercise {figure_number(env, docname, 'exercise', label)}"


def theorem(env, node):
    for docname in chapters(env):
        for original in tree(env, docname).findall(nodes.Admonition):
            if original.get("label") == node["name"] and original.get("realtype"):
                shown = figure_number(env, docname, original["countertype"], original["ids"][0])
                name = f"{original['realtype'].title()} {shown}"
                return original.children[1:], docname, original["ids"][0], name
    raise LookupError(f'no chapter has a theorem, lemma or definition "{node["name"]}"')


def figure_number(env, docname, kind, identifier):
    return ".".join(map(str, env.toc_fignumbers[docname][kind][identifier]))


def cell(env, node):
    docname = f"notebooks/{node['chapter']}"
    if docname not in env.found_docs:
        raise LookupError(f'there is no chapter "{node["chapter"]}"')
    notebook = json.loads(Path(env.doc2path(docname)).read_text(encoding="utf-8"))
    ids = [each.get("id") for each in notebook["cells"]]
    if node["name"] not in ids:
        raise LookupError(f'{node["chapter"]} has no cell "{node["name"]}"')
    index = ids.index(node["name"])
    cells = (n for n in tree(env, docname).findall(nodes.container) if n.get("nb_element") == "cell_code")
    original = next((n for n in cells if int(n["cell_index"]) == index), None)
    if original is None:
        raise LookupError(f'the cell "{node["name"]}" of {node["chapter"]} is not on the page')
    parts = {part.get("nb_element"): part for part in original.children}
    shown = SHOWN[node.get("show", "code")](node, parts)
    # the inside of an exercise or solution is a section too, without a title
    sections = (each for each in ancestors(original) if isinstance(each, nodes.section))
    section = next(each for each in sections if isinstance(each[0], nodes.title))
    return shown, docname, section["ids"][0], section[0].astext()


def code(node, parts):
    if "cell_code_source" not in parts:
        raise LookupError(f'the cell "{node["name"]}" shows no code')
    block = parts["cell_code_source"].next_node(nodes.literal_block).deepcopy()
    lines = block.astext().splitlines()
    first, last = node.get("lines", (1, len(lines)))
    if not 1 <= first <= last <= len(lines):
        raise LookupError(f'the cell "{node["name"]}" has {len(lines)} lines, not {first}-{last}')
    text = "\n".join(lines[first - 1 : last])
    block.rawsource, block.children = text, []
    block += nodes.Text(text)
    return [block]


def output(node, parts):
    """All that the cell has printed and drawn."""
    if "cell_code_output" not in parts:
        raise LookupError(f'the cell "{node["name"]}" has no output')
    return [parts["cell_code_output"]]


def figure(node, parts):
    (whole,) = (each.deepcopy() for each in output(node, parts))
    whole.children = [part for part in whole.children if any(part.findall(nodes.image))]
    if not whole.children:
        raise LookupError(f'the cell "{node["name"]}" draws no figure')
    if not all(image.get("alt") for image in whole.findall(nodes.image)):
        raise LookupError(f'the figure of the cell "{node["name"]}" has no alternative text')
    return [whole]


SHOWN = {"code": code, "output": output, "figure": figure}
KINDS = {"equation": equation, "exercise": exercise, "theorem": theorem, "cell": cell}


# --- copying ---


class CopyFromChapters(SphinxPostTransform):
    default_priority = 1  # before references are resolved and outputs chosen
    formats = ("html", "latex")

    def run(self, **kwargs):
        for node in list(self.document.findall(FromChapter)):
            try:
                content, docname, anchor, name = KINDS[node["kind"]](self.env, node)
            except LookupError as error:
                logger.warning("%s", error.args[0], location=node)
                node.parent.remove(node)
                continue
            copies = [clean(copy, self.env.docname) for each in content for copy in without_section(each.deepcopy())]
            source = nodes.paragraph("", "", *self.link(node, docname, anchor, name), classes=["source"])
            node.replace_self(nodes.container("", *copies, source, classes=["from-chapter", f"from-{node['kind']}"]))

    def link(self, node, docname, anchor, name):
        title = self.env.titles[docname].astext()
        if self.app.builder.format == "latex" and node["kind"] == "equation":  # its place there has no other name
            printed = math_reference("", docname=docname, target=node["name"])
            return [nodes.Text("Equation "), printed, nodes.Text(f", {title}")]
        uri = f"{self.app.builder.get_relative_uri(self.env.docname, docname)}#{anchor}"
        return [nodes.reference("", f"{name}, {title}", internal=True, refuri=uri)]


def without_section(copy):
    """The inside of an exercise or theorem is a section without a title, which would be taken for a slide."""
    return copy.children if isinstance(copy, nodes.section) else [copy]


def clean(copy, docname):
    """Take labels and ids from a copy, and let its links lead on from the page where it stands."""
    for node in copy.findall(nodes.Element):
        node["ids"], node["names"] = [], []
        if isinstance(node, nodes.math_block):
            node["label"] = node["number"] = None
            node["classes"] = ["equation-copy"]
        elif isinstance(node, addnodes.pending_xref):
            node["refdoc"] = docname
    return copy


def setup(app):
    app.add_node(FromChapter)
    for kind in ("equation", "exercise", "theorem"):
        app.add_directive(f"chapter-{kind}", ChapterThing)
    app.add_directive("chapter-cell", ChapterCell)
    app.add_post_transform(CopyFromChapters)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

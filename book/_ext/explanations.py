"""Let words and equations explain themselves: what a link leads to can be seen where the link stands.

The first time that a page uses a term of the glossary, the word becomes a link to it. Each page carries, in a
<template>, the definitions and the equations to which it links, and explanations.js shows them over the link. Nothing
is fetched, so that it works from a folder too. Terms that the prose also uses in another sense are left alone: they
stand in ``glossary_other_senses`` in _config.yml, by page.
"""

import html
import re

from claims import ClaimMark
from displayed_equations import equations_by_page
from doctrees import equation_id, inside, is_output
from docutils import nodes
from quiz import Quiz

LINK = re.compile(r'href="[^"#]*#((?:term|equation)-[^"]+)"')
NOT_PROSE = (nodes.reference, nodes.title, nodes.literal, nodes.FixedTextElement, nodes.raw, nodes.math, nodes.term,
             nodes.rubric, nodes.table, Quiz)


def terms(env):
    """Return {term in lower case: (page, anchor)}."""
    objects = env.get_domain("std").objects.items()
    return {name.lower(): place for (kind, name), place in objects if kind == "term"}


# --- words become links ---


def link_first_uses(app, doctree, docname):
    found = terms(app.env)
    glossaries = {page for page, _ in found.values()}
    if app.builder.format != "html" or not found or docname in glossaries or docname in app.config.glossary_not_on:
        return
    uris = {name: f"{app.builder.get_relative_uri(docname, page)}#{anchor}" for name, (page, anchor) in found.items()}
    seen = {node["refuri"] for node in doctree.findall(nodes.reference) if "refuri" in node}
    senses = app.config.glossary_other_senses
    others = {*senses.get("everywhere", ()), *senses.get(docname, ())}
    wanted = {name: uri for name, uri in uris.items() if name not in others}
    pattern = "|".join(re.escape(name) for name in sorted(wanted, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])({pattern})(s|es)?(?![\w-])", re.IGNORECASE)
    for text in [node for node in doctree.findall(nodes.Text) if is_prose(node)]:
        parts, end = [], 0
        for match in pattern.finditer(text):
            uri = wanted[match[1].lower()]
            if uri not in seen:
                seen.add(uri)
                link = nodes.reference("", match[0], internal=True, refuri=uri, classes=["term"])
                parts += [nodes.Text(text[end : match.start()]), link]
                end = match.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(text[end:])])


def is_prose(node):
    return not is_output(node) and not inside(node, NOT_PROSE)


# --- the page carries what its links lead to ---


def carry(app, pagename, templatename, context, doctree):
    anchors = dict.fromkeys(LINK.findall(context.get("body", "")))
    if doctree is None or not anchors:
        return
    known = explanations(app)
    items = [f'<div data-of="{html.escape(anchor)}">{known[anchor]}</div>' for anchor in anchors if anchor in known]
    if items:
        context["body"] += f'<template id="explanations">{"".join(items)}</template>'


def explanations(app):
    """Return {anchor: HTML} for every term and every labelled equation; rendered once a build."""
    if not hasattr(app, "explanations"):
        app.explanations = {**definitions(app), **equations(app)}
    return app.explanations


def definitions(app):
    found = {}
    for page in {page for page, _ in terms(app.env).values()}:
        for item in app.env.get_and_resolve_doctree(page, app.builder).findall(nodes.definition_list_item):
            definition = item.next_node(nodes.definition)
            names = [node for node in item.findall(nodes.term)]
            for link in list(definition.findall(nodes.reference)):  # their addresses are those of the glossary's page
                link.replace_self(nodes.inline("", "", *link.children))
            for mark in list(definition.findall(ClaimMark)):  # its note is on that page
                mark.parent.remove(mark)
            text = app.builder.render_partial(nodes.container("", *definition.children))["fragment"]
            for name in names:
                for anchor in name["ids"]:
                    found[anchor] = f"<p><strong>{html.escape(name.astext())}</strong></p>{text}"
    return found


def equations(app):
    found = {}
    for equation in (e for page in equations_by_page(app.env).values() for e in page if e.label):
        copy = nodes.math_block("", equation.tex, nowrap=False, number=None, label=None, classes=["equation-copy"])
        found[equation_id(equation.label)] = app.builder.render_partial(copy)["fragment"]
    return found


def setup(app):
    app.setup_extension("displayed_equations")
    app.add_config_value("glossary_other_senses", {}, "env", types=[dict])
    app.add_config_value("glossary_not_on", [], "env", types=[list])
    app.connect("doctree-resolved", link_first_uses, priority=600)
    app.connect("html-page-context", carry, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

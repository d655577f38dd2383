"""Bind each displayed equation of the book to the tests that check it, and show it. It runs no test: pytest does.

An equation's label decides what it is: ``def-...`` is a definition, any other label an identity, which needs a test
marked ``@pytest.mark.equation("label")`` that calls ``check_equation("label", ...)``. The tests are read as text, never
imported. The build warns about an identity without a test, a displayed equation without a label, a mark whose label no
equation has, a marked test that does not call ``check_equation``, and one without findings (:mod:`equation_findings`:
evidence, ranges, TeX). Beside each equation stands a link: from a
definition to its row on the page that holds the ``{equation-checks}`` directive, from an identity to its entry, with
the source of its tests, on a page for each chapter below that page.
"""

import ast
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from displayed_equations import Equation, displayed_equations, equations_by_page
from doctrees import equation_id
from docutils import nodes
from equation_findings import by_machine, entry_nodes, evidence, read_findings
from sphinx.builders.latex.nodes import math_reference
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class Check(NamedTuple):
    file: str
    line: int
    name: str
    summary: str
    source: str
    calls_check: bool
    findings: list


# --- reading the tests ---


def collect_checks(folder, root, findings):
    """Return ``{label: [Check, ...]}`` from the marks in every ``*.py`` below `folder`, named relative to `root`."""
    checks = defaultdict(list)
    for path in sorted(Path(folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        file = path.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(text, filename=file)):
            if not isinstance(node, ast.FunctionDef):
                continue
            marks = [d for d in node.decorator_list if ast.unparse(d).startswith("pytest.mark.equation(")]
            for mark in marks:
                for label in map(ast.literal_eval, mark.args):
                    found = findings.get((path.name, node.name, label), [])
                    checks[label].append(describe(node, label, text, file, found))
    return dict(checks)


def describe(function, label, text, file, findings):
    first = min([d.lineno for d in function.decorator_list], default=function.lineno)
    lines = text.splitlines()[first - 1 : function.end_lineno]
    source = "\n".join(line[function.col_offset :] for line in lines)
    summary = (ast.get_docstring(function) or "").partition("\n")[0]
    return Check(file, function.lineno, function.name, summary, source, calls_check(function, label), findings)


def calls_check(function, label):
    """Tell whether the body calls ``check_equation`` with this label, or with a label that is not a literal."""
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call) and node.args)
    labels = (call.args[0] for call in calls if ast.unparse(call.func).split(".")[-1] == "check_equation")
    return any(not isinstance(argument, ast.Constant) or argument.value == label for argument in labels)


def read_tests(app, config):
    # The value of a setting that belongs to the environment: when a check changes, Sphinx renders the pages anew.
    findings = read_findings(Path(app.srcdir, config.equation_checks_findings))
    config.equation_checks_found = collect_checks(Path(app.srcdir, config.equation_checks_tests), app.srcdir, findings)


# --- reading the pages ---


class ChecksPlaceholder(nodes.General, nodes.Element):
    """Where the generated part of the page of checks goes, once every page has been read."""


class EquationChecks(SphinxDirective):
    def run(self):
        return [ChecksPlaceholder()]


class ChecksPageCollector(EnvironmentCollector):
    """Keep, in the environment, which page has the directive."""

    def clear_doc(self, app, env, docname):
        vars(env).setdefault("checks_pages", set()).discard(docname)

    def merge_other(self, app, env, docnames, other):
        env.checks_pages.update(other.checks_pages & set(docnames))

    def process_doc(self, app, doctree):
        if any(doctree.findall(ChecksPlaceholder)):
            app.env.checks_pages.add(app.env.docname)


def report(app, env):
    """Warn about whatever is not bound; have the page of checks written again, since any page may have changed it."""
    checks = app.config.equation_checks_found
    labels = set()
    for equation in (e for page in equations_by_page(env).values() for e in page):
        if equation.label is None:
            logger.warning("displayed equation without a label: %s", one_line(equation.tex), location=equation.location)
            continue
        labels.add(equation.label)
        if not equation.is_definition and equation.label not in checks:
            message = 'equation "%s" has no check: no test is marked @pytest.mark.equation("%s")'
            logger.warning(message, equation.label, equation.label, location=equation.location)
    for label, check in [(label, check) for label, found in sorted(checks.items()) for check in found]:
        location = f"{Path(app.srcdir, check.file)}:{check.line}"
        if label not in labels:
            logger.warning('no equation has the label "%s" that %s checks', label, check.name, location=location)
        elif not check.calls_check:
            logger.warning('%s does not call check_equation("%s", ...)', check.name, label, location=location)
        elif not check.findings:
            logger.warning("%s has no findings: see `make equations`", check.name, location=location)
    if labels and len(env.checks_pages) != 1:
        logger.warning("one page must hold the equation-checks directive, not %s", sorted(env.checks_pages) or "none")
    for page in entry_pages(env):  # they repeat the equations, so they need MathJax
        env.get_domain("math").data["has_equations"][page] = True
    return sorted(env.checks_pages)


def one_line(tex):
    return " ".join(tex.split())


# --- writing ---


def resolve(app, doctree, docname):
    for placeholder in list(doctree.findall(ChecksPlaceholder)):
        placeholder.replace_self(checks_page(app, docname))
    for node in displayed_equations(doctree):
        if node.get("label") and has_entries(app):
            add_mark(app, docname, node)


def add_mark(app, docname, node):
    equation = Equation(docname, node["label"], "", "")
    kind = "definition" if equation.is_definition else "checked"
    spoken = f" equation {number(app.env, equation)}: its entry in the list"
    text = [nodes.Text(kind), nodes.inline("", spoken, classes=["visually-hidden"])]
    link = reference(app, docname, page_of_entry(app.env, equation), entry_id(equation.label), *text)
    box = nodes.container(classes=["displayed-equation"])
    node.parent.replace(node, box)  # replace_self would copy the ids too
    box += [node, nodes.paragraph("", "", link, classes=["equation-mark", f"equation-mark-{kind}"])]


def page_of_entry(env, equation):
    index = min(env.checks_pages, default=equation.docname)
    return index if equation.is_definition or not env.checks_pages else f"{index}/{equation.docname}"


def has_entries(app):
    """Tell whether pages of entries, to which marks and counts lead, are made: for the website, not for the PDF."""
    return app.builder.format == "html"


def labelled(env):
    """Return {page: its labelled equations}, in reading order, for the pages that have any."""
    displayed = equations_by_page(env)
    pages = {page: [e for e in displayed[page] if e.label] for page in reading_order(env)}
    return {page: equations for page, equations in pages.items() if equations}


def entry_pages(env):
    """Return {name of a page of entries: (its chapter, the chapter's identities)}."""
    found = {}
    for page, equations in labelled(env).items() if env.checks_pages else ():
        identities = [e for e in equations if not e.is_definition]
        if identities:
            found[page_of_entry(env, identities[0])] = page, identities
    return found


def checks_page(app, docname):
    """Return the generated part of the page: counts, a table of the chapters, and a table for each of them."""
    checks = app.config.equation_checks_found
    pages = labelled(app.env)
    equations = [e for page in pages.values() for e in page]
    identities, read, tests, definitions = counts(equations, checks)
    summary = (
        f"The book displays {plural(len(equations), 'labelled equation')}: {plural(identities, 'identity')}, "
        f"checked by {plural(tests, 'test')}, and {plural(definitions, 'definition')}. "
        f"The TeX of {plural(read, 'identity')} was compared with the test by machine."
    )
    heads = ["Chapter", "Identities", "TeX by machine", "Tests", "Definitions"]
    rows = [chapter_row(app, docname, page, equations, checks) for page, equations in pages.items()]
    sections = [chapter(app, docname, page, equations, checks) for page, equations in pages.items()]
    return [nodes.paragraph("", summary), table(heads, rows), *sections]


def pages_of_entries(app):
    """Hand the pages of entries to Sphinx: they have no source, and stay out of the index of the search."""
    checks = app.config.equation_checks_found
    app.builder.secnumbers = {}  # those of the page that was written last would stand before the titles
    for name, (page, identities) in entry_pages(app.env).items():
        title = f"Checks of {app.env.titles[page].astext()}"
        entries = [entry(app, name, e, checks.get(e.label, [])) for e in identities]
        section = nodes.section("", nodes.title("", title), *entries, ids=[nodes.make_id(name)])
        yield name, {"title": title, "body": app.builder.render_partial(section)["fragment"]}, "page.html"


def counts(equations, checks):
    """Return the numbers of identities, of those whose TeX a machine has read, of tests, and of definitions."""
    identities = [e for e in equations if not e.is_definition]
    tests = {(c.file, c.name) for e in identities for c in checks.get(e.label, [])}
    read = sum(by_machine([f for c in checks.get(e.label, []) for f in c.findings]) for e in identities)
    return len(identities), read, len(tests), len(equations) - len(identities)


def chapter_row(app, docname, page, equations, checks):
    title = nodes.Text(app.env.titles[page].astext())
    link = reference(app, docname, docname, chapter_id(page), title)
    return [link, *(nodes.Text(str(count)) for count in counts(equations, checks))]


def chapter(app, docname, page, equations, checks):
    """Return a section with one table row for each equation of a page."""
    rows = [row(app, docname, e, checks.get(e.label, [])) for e in equations]
    title = nodes.title("", "", nodes.Text(app.env.titles[page].astext()))
    heads = ["Equation", "Label", "Evidence", "TeX", "Checks"]
    return nodes.section("", title, table(heads, rows), ids=[chapter_id(page)])


def chapter_id(page):
    return nodes.make_id(f"checks-of-{page}")


def row(app, docname, equation, checks):
    link = math_reference("", "", docname=equation.docname, target=equation.label)
    if has_entries(app):
        text = nodes.Text(number(app.env, equation))
        link = reference(app, docname, equation.docname, equation_id(equation.label), text)
    count = nodes.Text(str(len(checks)))
    if equation.is_definition:
        name = nodes.inline("", "definition", ids=[entry_id(equation.label)])
        return [link, nodes.literal("", equation.label), name, nodes.Text(""), nodes.Text("")]
    if checks and has_entries(app):
        count = reference(app, docname, page_of_entry(app.env, equation), entry_id(equation.label), count)
    findings = [finding for check in checks for finding in check.findings]
    tex = "machine" if by_machine(findings) else "eye"
    return [link, nodes.literal("", equation.label), nodes.Text(evidence(findings)), nodes.Text(tex), count]


def entry(app, docname, equation, checks):
    title = nodes.title("", "", nodes.Text(f"{number(app.env, equation)} "), nodes.literal("", equation.label))
    page = app.env.titles[equation.docname].astext()
    back = reference(app, docname, equation.docname, equation_id(equation.label), nodes.Text(f"Back to it in {page}"))
    copy = nodes.math_block("", equation.tex, nowrap=False, number=None, label=None, classes=["equation-copy"])
    result = nodes.section("", title, copy, nodes.paragraph("", "", back))
    result["ids"], result["classes"] = [entry_id(equation.label)], ["equation-entry"]
    for check in checks:
        name = nodes.literal("", f"{check.file}::{check.name}")
        result += nodes.paragraph("", "", name, nodes.Text(f": {check.summary}" if check.summary else ""))
        result += list(entry_nodes(check.findings))
        result += nodes.raw("", '<details class="check-source"><summary>Source of the test</summary>', format="html")
        result += nodes.literal_block(check.source, check.source, language="python")
        result += nodes.raw("", "</details>", format="html")
    return result


def table(heads, rows):
    group = nodes.tgroup("", *[nodes.colspec(colwidth=1) for _ in heads], cols=len(heads))
    group += nodes.thead("", table_row([nodes.Text(head) for head in heads]))
    group += nodes.tbody("", *[table_row(cells) for cells in rows])
    return nodes.table("", group, classes=["equation-table"])


def table_row(cells):
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells])


def reference(app, docname, target, anchor, *children):
    uri = f"#{anchor}" if target == docname else f"{app.builder.get_relative_uri(docname, target)}#{anchor}"
    return nodes.reference("", "", *children, internal=True, refuri=uri)


def entry_id(label):
    return nodes.make_id(f"check-{label}")


def number(env, equation):
    parts = env.toc_fignumbers.get(equation.docname, {}).get("displaymath", {}).get(equation_id(equation.label))
    return "({})".format(".".join(map(str, parts))) if parts else f"({equation.label})"


def plural(count, noun):
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}s"


def reading_order(env):
    """Return the pages as the table of contents visits them, then any that it does not reach."""
    order = {}

    def visit(docname):
        if docname not in order:
            order[docname] = True
            for child in env.toctree_includes.get(docname, []):
                visit(child)

    visit(env.config.root_doc)
    pages = equations_by_page(env)
    return [page for page in [*order, *sorted(set(pages) - set(order))] if page in pages]


def setup(app):
    app.add_config_value("equation_checks_tests", "tests", "env")
    app.add_config_value("equation_checks_findings", "data/equations.json", "env")
    app.add_config_value("equation_checks_found", {}, "env")
    app.add_node(ChecksPlaceholder)
    app.add_directive("equation-checks", EquationChecks)
    app.setup_extension("displayed_equations")
    app.add_env_collector(ChecksPageCollector)
    app.connect("config-inited", read_tests)
    app.connect("env-updated", report)
    app.connect("doctree-resolved", resolve)
    app.connect("html-collect-pages", pages_of_entries)
    return {"version": "1", "env_version": 2, "parallel_read_safe": True, "parallel_write_safe": True}

"""The directive ``{rosetta} NAME`` prints a table of ``reference_impl.as_published.rosetta``, a mark in each row.

A row that converts something is marked "checked": the mark leads to its entry on a page of entries, with the
conversion, the claims that it rests on, and the source of the test, a function in a file of ``rosetta_tests`` with the
mark ``@pytest.mark.rosetta("key")``. A row that repeats the conversion of another leads to the other's entry. A row
without conversion is marked "name", or "read" on the page line by line. Its claims stand beside that mark, or beside
somebody's line. The tests are read as text, never imported. The build warns about a conversion without a test, and
about a mark for which there is no conversion. In the PDF there is no page of entries, and no link.
"""

import ast
import inspect
from pathlib import Path

from claims import ClaimEntry, written_out
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from reference_impl.as_published.rosetta import ROWS, TABLES

logger = logging.getLogger(__name__)
ENTRIES = "book/rosetta/rows"


def collect_tests(path):
    """Return ``{key: (test, summary, source)}`` of the marked functions in a file of tests."""
    text = Path(path).read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}
    for node in ast.parse(text, filename=str(path)).body:
        for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            if ast.unparse(mark).startswith("pytest.mark.rosetta("):
                summary = (ast.get_docstring(node) or "").partition("\n")[0]
                source = "\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno])
                found |= {key: (node.name, summary, source) for key in map(ast.literal_eval, mark.args)}
    return found


def read_tests(app, config):
    # The value of a setting that belongs to the environment: when a test changes, Sphinx renders the page anew.
    config.rosetta_found = {key: (name, *test) for name in config.rosetta_tests
                            for key, test in collect_tests(Path(app.srcdir, name)).items()}


class RosettaDirective(SphinxDirective):
    required_arguments = 1

    def run(self):
        name, = self.arguments
        heads, rows = TABLES[name]
        lines = ["| " + " | ".join([*heads, "check"]) + " |", "|" + "---|" * (len(heads) + 1)]
        for row in rows:
            cells = [*row.cells, f"{{rosetta-mark}}`{row.key}`"]
            cells[0 if name.startswith("line-") else -1] += claim_mark(row)
            lines.append("| " + " | ".join(cells) + " |")
        return self.parse_text_to_nodes("\n".join(lines))


def claim_mark(row):
    return f"{{claim}}`{', '.join(row.claims)}`" if row.claims else ""


class RosettaMark(SphinxRole):
    def run(self):
        key = self.text
        found = self.config.rosetta_found
        if ROWS[key].converts and key not in found:
            logger.warning('the row "%s" has no test marked @pytest.mark.rosetta("%s")', key, key,
                           location=self.get_location())
        self.env.metadata[self.env.docname].setdefault("rosetta", []).append(key)
        kind = "checked" if home(key).converts else "read" if key.startswith("line-") else "name"
        return [nodes.inline("", kind, key=key, classes=["rosetta-mark", f"equation-mark-{kind}"])], []


def home(key):
    """Return the row that has the conversion of a row."""
    return ROWS[ROWS[key].checked_as or key]


def page_of(env, key):
    """Return the page with a row, or None."""
    return next((name for name, facts in env.metadata.items() if key in facts.get("rosetta", ())), None)


def report(app, env):
    found = app.config.rosetta_found
    for key in sorted(set(found) - {key for key, row in ROWS.items() if row.converts}):
        logger.warning('no row of the Rosetta stone converts "%s", which %s checks', key, found[key][1])
    shown = [key for facts in env.metadata.values() for key in facts.get("rosetta", ())]
    if shown and sorted(shown) != sorted(ROWS):
        logger.warning("rows of the Rosetta stone on no page, or on two: %s", sorted(set(ROWS) ^ set(shown)) or shown)


def link(app, doctree, docname):
    marks = [node for node in doctree.findall(nodes.inline) if "rosetta-mark" in node["classes"]]
    for mark in marks if app.builder.format == "html" else ():
        mark["ids"].append(row_id(mark["key"]))
        key = home(mark["key"]).key
        if has_entry(app, key):
            uri = f"{app.builder.get_relative_uri(docname, ENTRIES)}#{entry_id(key)}"
            spoken = nodes.inline("", f": {mark['key']}", classes=["visually-hidden"])
            mark["classes"].append("equation-mark")
            mark.children = []
            mark += nodes.reference("", "", nodes.Text("checked"), spoken, internal=True, refuri=uri)


def has_entry(app, key):
    return ROWS[key].converts and key in app.config.rosetta_found


def page_of_entries(app):
    """Hand the page of entries to Sphinx: it has no source, and stays out of the index of the search."""
    pages = {key: page_of(app.env, key) for key in ROWS}
    entries = [entry(app, pages[key], row) for key, row in ROWS.items() if pages[key] and has_entry(app, key)]
    if not entries:
        return
    title = "Checks of the Rosetta stone"
    section = nodes.section("", nodes.title("", title), *entries, ids=[nodes.make_id(ENTRIES)])
    app.builder.secnumbers = {}
    yield ENTRIES, {"title": title, "body": app.builder.render_partial(section)["fragment"]}, "page.html"


def entry(app, docname, row):
    uri = f"{app.builder.get_relative_uri(ENTRIES, docname)}#{row_id(row.key)}"
    back = nodes.reference("", "Back to its row", internal=True, refuri=uri)
    result = nodes.section("", nodes.title("", "", nodes.literal("", row.key)), nodes.paragraph("", "", back),
                           ids=[entry_id(row.key)], classes=["equation-entry"])
    functions = {id(each): each for each in (row.to_ours, row.from_ours) if each is not None}
    code = "\n\n".join(inspect.getsource(each).rstrip() for each in functions.values())
    result += nodes.literal_block(code, code, language="python")
    read = [nodes.list_item("", nodes.paragraph("", "", written_out(app, ClaimEntry(claim=name), ENTRIES)))
            for name in row.claims]
    result += [nodes.bullet_list("", *read)] if read else []
    file, name, summary, source = app.config.rosetta_found[row.key]
    test = nodes.literal("", f"{file}::{name}")
    result += nodes.paragraph("", "", test, nodes.Text(f": {summary}" if summary else ""))
    result += nodes.raw("", '<details class="check-source"><summary>Source of the test</summary>', format="html")
    result += nodes.literal_block(source, source, language="python")
    result += nodes.raw("", "</details>", format="html")
    return result


def row_id(key):
    return nodes.make_id(f"rosetta-{key}")


def entry_id(key):
    return nodes.make_id(f"check-rosetta-{key}")


def setup(app):
    app.setup_extension("claims")
    app.add_config_value("rosetta_tests", ["tests/test_rosetta.py", "tests/test_line_by_line.py"], "env")
    app.add_config_value("rosetta_found", {}, "env")
    app.add_directive("rosetta", RosettaDirective)
    app.add_role("rosetta-mark", RosettaMark())
    app.connect("config-inited", read_tests)
    app.connect("env-updated", report)
    app.connect("doctree-resolved", link)
    app.connect("html-collect-pages", page_of_entries)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}

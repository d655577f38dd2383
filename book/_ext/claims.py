"""Three roles and a directive for what is said of others' code. They judge no claim.

``{claim}`optax-floor, torch-ctc-logits` `` stands where a statement about somebody else's code ends. It becomes a mark,
such as [3], that leads to a note at the end of the page: what is claimed, in which file and lines of which commit, when
that was looked at, and whether it was read or run, with a link to the chapter or the report that shows it (in print,
where no reports are, its name). On slides, which have no end, the mark leads to the page that ``{claims}`` makes, of
all claims by library. ``{asked}`torch-thread-52241` `` is a link to the thread of a claim, such
as pytorch#52241, without a note. An id that data/claims.json does not have is a warning, which fails the build.
``{named}`torchaudio` `` is the plain word; it says, to tests/test_claims.py alone, that nothing is claimed.
What a claim consists of is in data/claims.schema.json.
"""

import json
from pathlib import Path

import conformance_table
from deeper import Deeper
from doctrees import inside
from docutils import nodes
from quiz import QuizAnswer
from slides import is_deck
from sphinx import addnodes
from sphinx.environment.collectors import EnvironmentCollector
from sphinx.errors import NoUri
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

logger = logging.getLogger(__name__)
FILE = "data/claims.json"
HEADING = "What was read"


class ClaimMark(nodes.Inline, nodes.Element):
    """The claims that a statement rests on: `names`; once the page is resolved, their numbers among its `notes`."""


class ClaimEntry(nodes.Inline, nodes.Element):
    """Where the `claim` is written out: statement, place, date; with `pages`, where the book says it, too."""


class ClaimNotes(nodes.General, nodes.Element):
    """The end of a page: a list of entries."""


# --- the data ---


def load(path):
    """Return ({library's key: library}, {id: claim}); what a claim leaves out is as in its library."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    libraries, claims = data["libraries"], {}
    for claim in data["claims"]:
        library = libraries[claim["library"]]
        version = claim if "commit" in claim or "tag" in claim else library
        claims[claim["id"]] = {"repository": library["repository"], "at": version.get("tag") or version.get("commit"),
                               **claim}
    return libraries, claims


def address(claim):
    """Return where a claim's evidence lies on GitHub: (text of the link, link); None if it was only run.

    >>> address({"repository": "a/b", "thread": "a/b#12"})
    ('a/b#12', 'https://github.com/a/b/issues/12')
    >>> address({"repository": "a/b", "at": "c0ffee", "path": "d/e.py", "lines": [3, 5]})
    ('a/b, `d/e.py`, lines 3–5', 'https://github.com/a/b/blob/c0ffee/d/e.py#L3-L5')
    """
    if "thread" in claim:
        repository, _, number = claim["thread"].partition("#")
        return claim["thread"], f"https://github.com/{repository}/issues/{number}"
    if "path" not in claim:
        return None
    first, last = claim["lines"]
    lines = f"line {first}" if first == last else f"lines {first}–{last}"
    where = f"L{first}" if first == last else f"L{first}-L{last}"
    link = f"https://github.com/{claim['repository']}/blob/{claim['at']}/{claim['path']}#{where}"
    return f"{claim['repository']}, `{claim['path']}`, {lines}", link


def ids(text):
    return [name.strip() for name in text.split(",")]


# --- reading ---


class ClaimRole(SphinxRole):
    def run(self):
        self.env.note_dependency(str(Path(self.env.srcdir, FILE)))
        known = []
        for name in ids(self.text):
            if name in self.env.app.claims[1]:
                known.append(name)
                note_report(self.env, self.env.app.claims[1][name])
            else:
                logger.warning('%s has no claim "%s"', FILE, name, location=self.get_location())
        mark = ClaimMark(claims=known)
        self.set_source_info(mark)
        return [mark] if known else [], []


class AskedRole(SphinxRole):
    """Links to the threads of claims: "pytorch#52241", or with the owner where the repository has another name."""

    def run(self):
        self.env.note_dependency(str(Path(self.env.srcdir, FILE)))
        links = []
        for name in ids(self.text):
            claim = self.env.app.claims[1].get(name, {})
            if "thread" not in claim:
                logger.warning('%s has no thread "%s"', FILE, name, location=self.get_location())
                continue
            text, link = address(claim)
            owner, _, thread = text.partition("/")
            text = thread if thread.startswith(f"{owner}#") else text
            links += [nodes.Text(", ")] * bool(links)
            links.append(nodes.reference("", text, refuri=link, internal=False, classes=["asked"], asked=name,
                                         support_smartquotes=False))
        return links, []


def note_report(env, claim):
    """Have the page written again when the report that shows a claim changes."""
    file = claim.get("run", "").partition("#")[0]
    if file.startswith(conformance_table.FOLDER):
        env.note_dependency(str(Path(env.srcdir, file)))


class NamedRole(SphinxRole):
    def run(self):
        return with_code(self.text), []


def with_code(text):
    """Return a line of text as nodes; what stands between backticks is code."""
    pieces = (nodes.literal("", part) if place % 2 else nodes.Text(part) for place, part in enumerate(text.split("`")))
    return [piece for piece in pieces if piece.astext()]


class ClaimsDirective(SphinxDirective):
    """A section for each library that anything is claimed about, by name."""

    def run(self):
        self.env.note_dependency(str(Path(self.env.srcdir, FILE)))
        self.env.metadata[self.env.docname]["shows_claims"] = True
        libraries, claims = self.env.app.claims
        for claim in claims.values():
            note_report(self.env, claim)
        found = []
        for key in sorted(libraries, key=lambda key: libraries[key]["name"].lower()):
            items = [nodes.list_item("", nodes.paragraph("", "", ClaimEntry(claim=name, pages=True)),
                                     ids=[f"claim-{name}"])
                     for name, claim in claims.items() if claim["library"] == key]
            if items:
                title = nodes.title("", libraries[key]["name"])
                found.append(nodes.section("", title, nodes.bullet_list("", *items), ids=[f"claims-{key}"],
                                           names=[f"claims-{key}"]))
        return found


class Said(EnvironmentCollector):
    """Keep, in the environment, which claims each page makes (``env.claims_said``)."""

    def clear_doc(self, app, env, docname):
        vars(env).setdefault("claims_said", {}).pop(docname, None)

    def merge_other(self, app, env, docnames, other):
        env.claims_said.update({page: other.claims_said[page] for page in docnames if page in other.claims_said})

    def process_doc(self, app, doctree):
        said = {name for mark in doctree.findall(ClaimMark) for name in mark["claims"]}
        asked = {link["asked"] for link in doctree.findall(nodes.reference) if "asked" in link}
        app.env.claims_said[app.env.docname] = said | asked


def pages_with_all(app, env):
    """Have the page of all claims written again: it names the pages that make them."""
    return [page for page, facts in env.metadata.items() if facts.get("shows_claims")]


# --- the end of a page ---


def resolve(app, doctree, docname):
    """Number the marks of each page, and write out what they lead to. Paper has all pages in one tree."""
    for page in reversed(list(doctree.findall(addnodes.start_of_file))):  # a page before that which it lies in
        annotate(app, page, page["docname"])
    annotate(app, doctree, docname)
    for entry in list(doctree.findall(ClaimEntry)):
        entry.replace_self(written_out(app, entry, docname))


def annotate(app, page, docname):
    marks = list(page.findall(ClaimMark))
    first = {}  # {claim: the mark to which its note leads back}
    for mark in marks:
        mark["plain"] = inside(mark, (Deeper, QuizAnswer))  # these become buttons and labels, which hold no link
        for name in mark["claims"]:
            first.setdefault(name, mark)
    numbers = {name: number for number, name in enumerate(first, 1)}
    for mark in marks:
        mark["notes"] = [numbers[name] for name in mark["claims"]]
        mark["first"] = [numbers[name] for name in mark["claims"] if first[name] is mark]
    if app.builder.format != "html":
        for mark in marks:
            mark.replace_self(on_paper(mark))
    if is_deck(docname):
        for mark in marks:
            mark["page"] = app.builder.get_relative_uri(docname, page_of_all(app.env))
    elif marks:
        page.next_node(nodes.section).append(notes(app.builder.format, numbers))


def notes(form, numbers):
    items = []
    for name, number in numbers.items():
        line = nodes.paragraph("", "", ClaimEntry(claim=name))
        if form == "html":
            back = f' <a href="#claim-mark-{number}" role="doc-backlink" aria-label="Back to the text">↑</a>'
            line += nodes.raw("", back, format="html")
        else:
            line.insert(0, nodes.target("", "", ids=[f"claim-{name}"]))
        items.append(nodes.list_item("", line, ids=[f"claim-{name}"]))
    listed = nodes.enumerated_list("", *items, enumtype="arabic", prefix="", suffix=".")
    return ClaimNotes("", listed) if form == "html" else nodes.container("", nodes.rubric("", HEADING), listed)


def page_of_all(env):
    return next(page for page, facts in env.metadata.items() if facts.get("shows_claims"))


def on_paper(mark):
    """A superscript for each number, since a line can end between two of them, and not in one."""
    found = []
    for name, number in zip(mark["claims"], mark["notes"], strict=True):
        link = nodes.reference("", str(number), internal=True, refid=f"claim-{name}")
        before, after = "" if found else "[", "]" if name == mark["claims"][-1] else ", "
        found += [nodes.superscript("", "", nodes.Text(before), link, nodes.Text(after)),
                  nodes.raw("", r"\allowbreak{}", format="latex")]
    return found


def written_out(app, entry, docname):
    """Return a claim as a sentence and its evidence."""
    claim = app.claims[1][entry["claim"]]
    content = [*with_code(claim["statement"]), nodes.Text(" ")]
    looked = f"{claim['evidence']} {claim['date']}"
    place = address(claim)
    if place:
        content.append(nodes.reference("", "", *with_code(place[0]), refuri=place[1], internal=False))
        at = "" if "thread" in claim else f", at {claim['at'][:7] if len(claim['at']) == 40 else claim['at']}"
        content.append(nodes.Text(f"{at}; {looked}"))
    else:
        content.append(nodes.Text(looked.capitalize()))
    if "release" in claim:
        content.append(nodes.Text(f" with {claim['release']}"))
    if "run" in claim:
        content += [nodes.Text(": "), *what_ran(app, claim["run"], docname)]
    content.append(nodes.Text("."))
    if entry.get("pages"):
        links = []
        for page in sorted(page for page, said in app.env.claims_said.items() if entry["claim"] in said):
            links += [nodes.Text(", " if links else " Said in "), *link_to(app, page, docname)]
        content += [*links, nodes.Text(".")] if links else []
    return nodes.inline("", "", *content, classes=["claim"])


def what_ran(app, run, docname):
    """Return a link to the chapter whose cell was run, or to the report that says it; any other file by its name."""
    file, _, said = run.partition("#")
    page = file.removesuffix(".ipynb")
    if page in app.env.titles:
        return link_to(app, page, docname)
    reports = {f"{conformance_table.FOLDER}/{peer.entry.slug}.json": peer for peer in app.conformance}
    peer = reports.get(file)
    if peer and conformance_table.REPORTS in app.env.titles and app.builder.format == "html":
        address = app.builder.get_relative_uri(docname, conformance_table.REPORTS)
        link = nodes.reference("", peer.entry.name, internal=True,
                               refuri=f"{address}#{conformance_table.anchor_of(peer, said)}")
        return [nodes.Text("report on "), link, nodes.Text(", "), nodes.literal("", said)]
    return [nodes.literal("", run)]


def link_to(app, page, docname):
    title = app.env.titles[page].astext()
    if is_deck(page):
        title = f"slides, {title}"
    try:
        return [nodes.reference("", title, internal=True, refuri=app.builder.get_relative_uri(docname, page))]
    except NoUri:  # paper has no slides
        return [nodes.Text(title)]


# --- the website ---


def visit_mark(writer, node):
    links = []
    for name, number in zip(node["claims"], node["notes"], strict=True):
        if "page" in node:
            links.append(f'<a class="reference internal" href="{node["page"]}#claim-{name}">source</a>')
        elif node["plain"]:
            links.append(str(number))
        else:
            links.append(f'<a class="reference internal" href="#claim-{name}" role="doc-noteref" '
                         f'aria-label="Note {number}">{number}</a>')
        if number in node["first"]:
            links[-1] = f'<span id="claim-mark-{number}">{links[-1]}</span>'
    writer.body.append(f'<sup class="claim-mark">[{", ".join(links)}]</sup>')
    raise nodes.SkipNode


def visit_notes(writer, node):
    writer.body.append('<section class="claims" role="doc-endnotes" aria-labelledby="what-was-read">\n'
                       f'<h2 id="what-was-read">{HEADING}</h2>\n')


def depart_notes(writer, node):
    writer.body.append("</section>\n")


def setup(app):
    app.setup_extension("conformance_table")
    app.setup_extension("deeper")
    app.setup_extension("quiz")
    app.connect("builder-inited", lambda app: setattr(app, "claims", load(Path(app.srcdir, FILE))))
    app.add_node(ClaimMark, html=(visit_mark, None))
    app.add_node(ClaimNotes, html=(visit_notes, depart_notes))
    app.add_node(ClaimEntry)
    app.add_role("claim", ClaimRole())
    app.add_role("asked", AskedRole())
    app.add_role("named", NamedRole())
    app.add_directive("claims", ClaimsDirective)
    app.add_env_collector(Said)
    app.connect("env-updated", pages_with_all)
    app.connect("doctree-resolved", resolve, priority=700)  # when words are linked, before slides and sections fold
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}

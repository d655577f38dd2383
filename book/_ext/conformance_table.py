"""What other people's losses return, printed from the reports in ``data/conformance``. It grades nothing.

``{conformance-table} ctc`` is a table with a row for each peer (a loss, called in one way) that has a report:
conventions, and how many cases of each group are right. ``{conformance-cases}`` says what each group asks,
``{conformance-reports} ctc`` has a folded section for each peer, and ``{conformance-left-out}`` lists what has no
report, with the reason. The peers are those of ``peers/``, and `peers/run.py` writes the reports; their fields are
described in ``data/conformance.schema.json``. A cell leads to the finding that explains it, or to the cases of its
group. In the PDF, which has no reports, a table of four columns says the same in words.
"""

import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from deeper import Folded, Summary
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from reference_impl.conformance.cases import AFTERWARDS, GROUPS, cases
from reference_impl.conformance.conventions import SCORES
from reference_impl.conformance.vectors.problems import GROUPS as VECTOR_GROUPS

PEERS = Path(__file__).parents[2] / "peers"
sys.path.append(str(PEERS))
import environments  # noqa: E402

FOLDER = "data/conformance"
TABLES, REPORTS, VECTORS = "book/conformance", "book/conformance_reports", "book/teaching/test_vectors"
KINDS = {"ctc": "CTC", "rnnt": "RNN-T", "both": "both"}
STYLE = "conformance.css"


class Peer(NamedTuple):
    """A loss, called in one way: the entry in peers/, what its library is called, and its report or None."""

    entry: object
    library: str
    report: dict | None


class Caption(nodes.General, nodes.TextElement):
    """A caption of a table, without the number that Sphinx would give it."""


# --- the data ---


def load(folder):
    """Return every peer, in the order of ``peers/``."""
    names = {key: about["library"] for key, about in environments.libraries().items()}
    return [Peer(entry, names[entry.library], report_of(folder / f"{entry.slug}.json"))
            for entry in environments.peers()]


def report_of(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def findings(peer):
    """Return ``{anchor: finding}`` of a peer. An anchor keeps its name when other findings come or go."""
    found = {}
    keys = {sentence: name for name, sentence in peer.report["departures"].items()}
    for finding in peer.report["findings"]:
        key = keys.get(finding["sentence"]) or " ".join([*finding["cases"][:1], *finding["fields"]])
        anchor = nodes.make_id(f"{report_id(peer)}-{key}")
        while anchor in found:
            anchor += "-more"
        found[anchor] = finding
    return found


def counted(report):
    """Return how many cases were asked, and how many are right; what a case leaves behind is no case."""
    counts = [count for group, count in report["groups"].items() if group != AFTERWARDS]
    asked = sum(count["asked"] for count in counts)
    return asked, asked - sum(count["wrong"] for count in counts)


def finding_of(peer, group):
    """Return the anchor of the finding with most cases of a group; None if there is none."""
    count = {anchor: sum(case.startswith(f"{group}/") for case in finding["cases"])
             for anchor, finding in findings(peer).items()}
    return max((anchor for anchor in count if count[anchor]), key=count.get, default=None)


def anchor_of(peer, words):
    """Return the anchor of what a claim says of a report, ``NAME: VALUE; ...``: of the first finding, or of it all."""
    departures = peer.report["departures"]
    for part in words.split("; "):
        name, _, value = part.partition(": ")
        for anchor, finding in findings(peer).items():
            about = name in finding["cases"] and (value in finding["sentence"] or value == "wrong")
            if about or finding["sentence"] == departures.get(name):
                return anchor
    return report_id(peer)


def departure_of(peer, name):
    """Return the anchor of the finding about a departure; None if there is none."""
    sentence = peer.report["departures"].get(name)
    return next((anchor for anchor, finding in findings(peer).items() if finding["sentence"] == sentence), None)


def report_id(peer):
    return f"report-{peer.entry.slug}"


def row_id(peer):
    return f"row-{peer.entry.slug}"


def cases_id(group):
    return nodes.make_id(f"cases-{group}")


# --- conventions in words ---


def gradient_of(report):
    """What the gradient is with respect to."""
    conventions, identified = report["conventions"], report["identified"]
    if "gradient" not in identified["given"]:
        return "none came back"
    if not identified["gradient"]:
        return "no known convention"
    variable, inputs = SCORES[conventions["variable"]], SCORES[conventions["inputs"]]
    return variable if variable == inputs else f"{variable}; {inputs} go in"


def loss_of(report):
    """The reduction, and a factor that is not 1."""
    conventions, identified = report["conventions"], report["identified"]
    if "loss" not in identified["given"]:
        return "none came back"
    if not identified["loss"]:
        return "no known convention"
    factor = conventions["factor"]
    return conventions["reduction"] + ("" if factor == "1" else f", times {factor}")


TAGS = {
    "gradient_divisor": lambda c: "gradient " + (f"/ {c['gradient_divisor']}" if c["gradient_divisor"] != "1" else
                                                 "not divided"),
    "gradient_factor": lambda c: f"gradient times {c['gradient_factor']}",
    "fastemit": lambda c: f"FastEmit {c['fastemit']}",
    "fastemit_loss": lambda c: "with FastEmit the loss times 1 + lambda",
    "clamp": lambda c: f"clamped at {c['clamp']}",
    "blank": lambda c: f"blank is {c['blank']}",
    "impossible": lambda c: f"loss {c['impossible']} without alignment",
}


def others_of(peer):
    """Return (words, anchor of the finding or None) of what differs and stands in no other column."""
    report, found = peer.report, findings(peer)
    tags = [(tag(report["conventions"]), departure_of(peer, name))
            for name, tag in TAGS.items() if name in report["departures"]]
    wrong = {group for group, count in report["groups"].items() if count["wrong"]}
    told = {*report["departures"].values()}
    return tags + [(finding["sentence"].rstrip("."), anchor) for anchor, finding in found.items()
                   if finding["sentence"] not in told
                   and not wrong & {case.partition("/")[0] for case in finding["cases"]}]


def in_words(report):
    """Yield sentences on what a loss takes and returns."""
    conventions, given = report["conventions"], report["identified"]["given"]
    if report["identified"]["loss"]:
        yield f"It takes {SCORES[conventions['inputs']]}. Loss: -log Z, reduction: {loss_of(report)}."
    elif "loss" in given:
        yield "The loss follows no known convention on ordinary utterances."
    if report["identified"]["gradient"]:
        yield f"The gradient is that with respect to {SCORES[conventions['variable']]}."
    elif "gradient" in given:
        yield "The gradient follows no known convention on ordinary utterances."
    for name, said in report["prefixes"].items():
        yield f"{name}: {said or 'nothing that has a name here'}."
    if report["label_is_blank"]:
        yield f"A label that equals the blank is {report['label_is_blank']}."


# --- the tables ---


class Conformance(SphinxDirective):
    """What the directives share: the peers, a page that is written anew when they change, and quotes as they stand."""

    def run(self):
        found = self.printed()
        for text in [text for node in found for text in node.findall(nodes.Text)]:
            text.parent["support_smartquotes"] = False
        return found

    def peers(self, kind=None):
        for path in [*Path(self.env.srcdir, FOLDER).glob("*.json"), *environments.LIBRARIES.glob("*/peer.toml"),
                     PEERS / "not_here.toml"]:
            self.env.note_dependency(str(path))
        return [peer for peer in self.env.app.conformance if kind in (None, peer.entry.kind)]


class TableDirective(Conformance):
    required_arguments = 1

    def printed(self):
        kind, = self.arguments
        peers = [peer for peer in self.peers(kind) if peer.report]
        groups = [group for group in GROUPS
                  if group == AFTERWARDS or any(case.group == group for case in cases(kind))]
        heads = [*([nodes.Text(head)] for head in ("loss", "gradient of", "reduction", "also")),
                 *([link(TABLES, cases_id(group), group)] for group in groups)]
        wide = table(heads, [html_row(peer, groups) for peer in peers], ids=[row_id(peer) for peer in peers],
                     caption=f"{KINDS[kind]}: conventions of {len(peers)} losses, and how many cases are right",
                     classes=["conformance"])
        narrow = table([[nodes.Text(head)] for head in ("loss", "conventions", "right", "wrong cases")],
                       [paper_row(peer) for peer in peers])
        return [addnodes.only("", wide, expr="html"), addnodes.only("", narrow, expr="not html")]


def html_row(peer, groups):
    report = peer.report
    name = nodes.strong("", "", link(REPORTS, report_id(peer), peer.entry.name))
    first, *others = re.split(r"(?<=[._])(?=[a-z])", f"{report['name']} {report['version']}")
    parts = [part for each in others for part in (nodes.raw("", "<wbr>", format="html"), nodes.Text(each))]
    yield [name, nodes.inline("", "", nodes.Text(first), *parts, classes=["conformance-version"])]
    departure = departure_of(peer, "variable")
    yield [link(REPORTS, departure, gradient_of(report)) if departure else nodes.Text(gradient_of(report))]
    yield [nodes.Text(loss_of(report))]
    others = []
    for words, anchor in others_of(peer):
        others += [nodes.Text("; ")] * bool(others) + [link(REPORTS, anchor, words) if anchor else nodes.Text(words)]
    yield others or [nodes.Text("–")]
    for group in groups:
        yield [cell(peer, group)]


def cell(peer, group):
    """How many cases of a group are right; the sign says whether all are, and the colour repeats it."""
    count = peer.report["groups"].get(group)
    if count is None:
        spoken = nodes.inline("", " not asked", classes=["visually-hidden"])
        return nodes.inline("", "", nodes.Text("–"), spoken, classes=["conformance-left-out"])
    right = count["asked"] - count["wrong"]
    place = (REPORTS, finding_of(peer, group) or report_id(peer)) if count["wrong"] else (TABLES, cases_id(group))
    kind = "wrong" if count["wrong"] else "right"
    text = f"{'✗' if count['wrong'] else '✓'} {right}/{count['asked']}"
    return nodes.inline("", "", link(*place, text), classes=[f"conformance-{kind}"])


def paper_row(peer):
    report = peer.report
    yield [nodes.Text(f"{peer.entry.name} ({report['version']})")]
    gradient = gradient_of(report)
    yield [nodes.Text("; ".join([f"gradient of {gradient}" if report["identified"]["gradient"] else
                                 f"gradient: {gradient}", f"reduction: {loss_of(report)}",
                                 *(words for words, _ in others_of(peer))]))]
    asked, right = counted(report)
    yield [nodes.Text(f"{right}/{asked}")]
    yield [nodes.Text(", ".join(f"{group} {count['wrong']}/{count['asked']}"
                                for group, count in report["groups"].items() if count["wrong"]) or "none")]


def table(heads, rows, *, ids=(), caption="", classes=()):
    """A table with a heading in front of each row; a cell is a list of nodes, each on a line of its own."""
    columns = [nodes.colspec(colwidth=1, stub=1), *(nodes.colspec(colwidth=1) for _ in heads[1:])]
    group = nodes.tgroup("", *columns, cols=len(heads))
    group += nodes.thead("", row(heads))
    group += nodes.tbody("", *[row(cells) for cells in rows])
    for each, name in zip(group[-1], ids, strict=False):
        each["ids"].append(name)
    return nodes.table("", *[Caption("", caption)] * bool(caption), group, classes=["equation-table", *classes])


def row(cells):
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", *content)) for content in cells])


def link(page, anchor, words, **more):
    """A link within the book; `resolve` gives it an address."""
    return nodes.reference("", words, conformance=(page, anchor), internal=True, **more)


# --- what is asked, and what is not ---


class CasesDirective(Conformance):
    def printed(self):
        counts = {kind: Counter(case.group for case in cases(kind)) for kind in ("ctc", "rnnt")}
        items = []
        for group, what in GROUPS.items():
            numbers = ", ".join(f"{KINDS[kind]} {count[group]}" for kind, count in counts.items() if count[group])
            said = [nodes.Text(f"{what} Cases: {numbers}{' in each precision' if group == 'accuracy' else ''}."
                               if numbers else what)]
            if group in VECTOR_GROUPS:
                said += [nodes.Text(" Most are "), link(VECTORS, "", "test vectors"), nodes.Text(".")]
            items.append(nodes.definition_list_item("", nodes.term("", group, ids=[cases_id(group)]),
                                                    nodes.definition("", nodes.paragraph("", "", *said))))
        return [nodes.definition_list("", *items, classes=["conformance-cases"])]


class LeftOutDirective(Conformance):
    def printed(self):
        rows = [[peer.entry.name, KINDS[peer.entry.kind],
                 "It needs a CUDA device." if peer.entry.needs == "cuda" else "It has an adapter, and no report yet."]
                for peer in self.peers() if not peer.report]
        entries = tomllib.loads((PEERS / "not_here.toml").read_text(encoding="utf-8"))["left_out"]
        rows += [[entry["name"], KINDS[entry["kind"]], entry["reason"]] for entry in entries]
        return [table([[nodes.Text(head)] for head in ("what", "loss", "why")],
                      [[[nodes.Text(text)] for text in each] for each in rows], classes=["conformance-not-here"])]


# --- the reports ---


class ReportsDirective(Conformance):
    required_arguments = 1

    def printed(self):
        return [section(peer) for peer in self.peers(self.arguments[0]) if peer.report]


def section(peer):
    report = peer.report
    asked, right = counted(report)
    many = len(report["findings"])
    summary = Summary("", f"{right} of {asked} cases right, "
                      f"{'nothing wrong' if not many else '1 finding' if many == 1 else f'{many} findings'}")
    title = nodes.title("", peer.entry.name)
    return nodes.section("", title, Folded("", summary, *report_nodes(peer)), ids=[f"section-{peer.entry.slug}"])


def report_nodes(peer):
    report = peer.report
    yield nodes.paragraph("", "", nodes.literal("", report["name"]), nodes.Text(
        f" {report['version']}, of {peer.library}. Graded on {report['date']} by {report['checker']}, Python "
        f"{report['python']}, {report['machine']}. "), link(TABLES, row_id(peer), "Back to its row"),
                          ids=[report_id(peer)], classes=["conformance-stamp"])  # inside: a link to it unfolds all
    yield bullets([nodes.Text(sentence)] for sentence in in_words(report))
    for anchor, finding in findings(peer).items():
        yield nodes.paragraph("", "", nodes.strong("", finding["sentence"]), ids=[anchor],
                              classes=["conformance-finding"])
        if finding["cases"]:
            names = [part for case in finding["cases"] for part in (nodes.Text(", "), nodes.literal("", case))][1:]
            yield nodes.paragraph("", "", nodes.Text(f"{', '.join(finding['fields'])}: "), *names)
        if finding["example"]:
            yield nodes.literal_block(finding["example"], finding["example"], language="none")
    if report["accuracy"]:
        rows = [[each["precision"], str(each["frames"]), *(error(each[name]) for name in ("loss", "gradient"))]
                for each in report["accuracy"]]
        heads = ("precision", "frames", "error of the loss, relative", "of the gradient, absolute")
        yield table([[nodes.Text(head)] for head in heads], [[[nodes.Text(text)] for text in each] for each in rows])
    if report["left_out"]:
        yield nodes.paragraph("", f"Not asked: {', '.join(report['left_out'])}.")
    yield nodes.paragraph("", "", nodes.Text("Packages: "), nodes.literal("", " ".join(report["packages"])))


def error(value):
    return "–" if value is None else value if isinstance(value, str) else f"{value:.1e}"


def bullets(items):
    return nodes.bullet_list("", *[nodes.list_item("", nodes.paragraph("", "", *item)) for item in items])


# --- building ---


def read(app):
    app.conformance = load(Path(app.srcdir, FOLDER))


def resolve(app, doctree, docname):
    for each in list(doctree.findall(nodes.reference)):
        if "conformance" in each:
            page, anchor = each["conformance"]
            address = "" if page == docname else app.builder.get_relative_uri(docname, page)
            each["refuri"] = f"{address}#{anchor}" if anchor else address
    for folded in list(doctree.findall(Folded)) if app.builder.format != "html" else ():  # reports: others know none
        summary, *others = folded
        folded.replace_self([nodes.paragraph("", "", *summary.children), *others])


def style(app, pagename, templatename, context, doctree):
    if pagename in (TABLES, REPORTS):
        app.add_css_file(STYLE)


def setup(app):
    app.setup_extension("deeper")
    app.add_node(Caption, html=(lambda writer, node: writer.body.append("<caption><span>"),
                                lambda writer, node: writer.body.append("</span></caption>\n")))
    app.add_directive("conformance-table", TableDirective)
    app.add_directive("conformance-cases", CasesDirective)
    app.add_directive("conformance-left-out", LeftOutDirective)
    app.add_directive("conformance-reports", ReportsDirective)
    app.connect("builder-inited", read)
    app.connect("doctree-resolved", resolve)
    app.connect("html-page-context", style)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}

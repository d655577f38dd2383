"""Write the pages below ``book/teaching/slides`` as slides, by reveal.js, within the site. It brings no content.

Each section of such a page, but index.md, is a slide; what stands before the first is the title slide. ``{notes} 5``
holds what the speaker says on a slide, and how many minutes that takes. A slide without heading or notes, and minutes
that do not add up to those at the head of the file, are warnings, which fail the build. ``{decks}`` lists all decks.
The pages are outside the table of contents, so the PDF leaves them out. Without JavaScript slides and notes stand one
below the other.
"""

from importlib.resources import files
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

FOLDER = "book/teaching/slides/"
INDEX = FOLDER + "index"
TEMPLATE = "slides.html"
REVEAL = "dist/reveal.js", "dist/reveal.css", "plugin/notes/notes.js"
SCRIPTS = "reveal.js", "notes.js", "slides.js"
STYLES = "reveal.css", "slides.css"
LOADED = {*SCRIPTS, *STYLES, "pygments.css", "tex-svg-full.js", "lattice_math.js", "lattice_lab.js", "lattice_lab.css"}


def is_deck(docname):
    return docname.startswith(FOLDER) and docname != INDEX


class Slide(nodes.General, nodes.Element):
    """One slide: heading, content, notes. It knows its minutes and whether it is the first."""


class SlideHeading(nodes.General, nodes.TextElement):
    """A heading to which no link leads, since every slide has an address of its own."""


class Notes(nodes.General, nodes.Element):
    """What the speaker says, and the minutes that it takes."""


class Decks(nodes.General, nodes.Element):
    """Where the list of all decks goes."""


class NotesDirective(SphinxDirective):
    required_arguments = 1
    has_content = True

    def run(self):
        node = Notes("", minutes=directives.nonnegative_int(self.arguments[0]))
        self.set_source_info(node)
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


class DecksDirective(SphinxDirective):
    def run(self):
        elsewhere = nodes.paragraph("", "On the website, a table of the slides stands here.")
        return [Decks(), addnodes.only("", elsewhere, expr="not html")]


# --- reading ---


def take_in(app, config):
    """Have the slides read, though the table of contents does not name them."""
    config.exclude_patterns = [p for p in config.exclude_patterns if not p.startswith(FOLDER)]
    decks = sorted(path.stem for path in Path(app.srcdir, FOLDER).glob("session_*.md"))
    config.glossary_not_on = [*config.glossary_not_on, *(FOLDER + deck for deck in decks)]


def sections_of(doctree):
    """Return the sections that become slides: the page's own, then those in it; none without a title."""
    top = next(doctree.findall(nodes.section), None)
    return [] if top is None else [top, *(child for child in top.children if isinstance(child, nodes.section))]


def look(app, doctree):
    """Note title, slides and minutes of a deck, and say what is missing."""
    env = app.env
    if not is_deck(env.docname):
        return
    slides = sections_of(doctree)
    if not slides:
        logger.warning("a deck needs a title", location=env.docname)
        return
    total = 0
    for slide in slides:
        notes = [child for child in slide.children if isinstance(child, Notes)]
        if len(notes) != 1:
            title = slide.next_node(nodes.title).astext()
            logger.warning('the slide "%s" has notes %d times, not once', title, len(notes), location=slide)
        total += sum(note["minutes"] for note in notes)
    wanted = int(env.metadata[env.docname].get("minutes", 0))
    if total != wanted:
        logger.warning("the notes add up to %d minutes; the deck says %d", total, wanted, location=env.docname)
    env.metadata[env.docname]["slides"] = len(slides)


def write_again(app, env):
    """Any chapter may have changed what a deck shows, and any deck the list of them; equations need MathJax."""
    decks = [docname for docname in env.found_docs if is_deck(docname)]
    for deck in decks:
        env.get_domain("math").data["has_equations"][deck] = True
    return [docname for docname in env.found_docs if docname.startswith(FOLDER)]


# --- writing ---


def resolve(app, doctree, docname):
    if app.builder.format != "html":
        for place in list(doctree.findall(Decks)):
            place.parent.remove(place)
        return
    for place in list(doctree.findall(Decks)):
        place.replace_self(deck_table(app, docname))
    if is_deck(docname):
        make_slides(app, doctree, docname)


def make_slides(app, doctree, docname):
    top, *inner = sections_of(doctree)
    for section in inner:
        top.remove(section)
    begin, slides = 0, []
    for section in [top, *inner]:
        notes = [child for child in section.children if isinstance(child, Notes)]
        minutes = sum(note["minutes"] for note in notes)
        for note in notes:
            note["begin"] = begin
        slide = Slide("", ids=section["ids"][:1], minutes=minutes, first=section is top)
        for child in section.children:
            if isinstance(child, nodes.title):
                slide += SlideHeading("", "", *child.children, level=1 if section is top else 2)
            else:
                slide += child
        slides.append(slide)
        begin += minutes
    doctree.children = []
    doctree += slides


def visit_slide(self, node):
    kind = ' class="title-slide"' if node["first"] else ""
    self.body.append(f'<section id="{node["ids"][0]}"{kind} data-timing="{60 * node["minutes"]}">\n')


def visit_heading(self, node):
    self.body.append(f"<h{node['level']}>")


def visit_notes(self, node):
    first, last = (f"{m // 60}:{m % 60:02}" for m in (node["begin"], node["begin"] + node["minutes"]))
    unit = "minute" if node["minutes"] == 1 else "minutes"
    self.body.append(f'<aside class="notes">\n<p><strong>{first} to {last}</strong> ({node["minutes"]} {unit})</p>\n')


def deck_table(app, docname):
    """Return a table of the decks: title, slides, minutes."""
    group = nodes.tgroup("", *[nodes.colspec(colwidth=width) for width in (8, 1, 1)], cols=3)
    group += nodes.thead("", row(*(nodes.Text(head) for head in ("Slides", "Number", "Minutes"))))
    body = nodes.tbody()
    for deck in sorted(docname for docname in app.env.found_docs if is_deck(docname)):
        uri = app.builder.get_relative_uri(docname, deck)
        link = nodes.reference("", app.env.titles[deck].astext(), internal=True, refuri=uri)
        known = app.env.metadata[deck]
        body += row(link, nodes.Text(str(known.get("slides", 0))), nodes.Text(str(known.get("minutes", 0))))
    group += body
    return nodes.table("", group, classes=["decks"])


def row(*cells):
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells])


def keep_body(app, pagename, templatename, context, doctree):
    """Take the page's text as it was before other extensions add to it, and leave the theme's template."""
    if doctree is None or not is_deck(pagename):
        return None
    for script in SCRIPTS:
        app.add_js_file(script, loading_method="defer")
    for style in STYLES:
        app.add_css_file(style)
    context["slides"] = context["body"]
    context["all_decks"] = app.builder.get_relative_uri(pagename, INDEX)
    context["is_loaded"] = is_loaded
    return TEMPLATE


def is_loaded(file):
    """Tell whether a script or style of the site is needed by slides; scripts without a file are MathJax's settings."""
    if not file.filename:
        return "MathJax" in file.attributes.get("body", "")
    return Path(str(file.filename)).name in LOADED


def use_reveal(app, config):
    folder = files("sphinx_revealjs") / "_static" / "revealjs"
    config.html_static_path.extend(str(folder / name) for name in REVEAL)
    config.templates_path.append(str(Path(__file__).parent))


def setup(app):
    app.add_node(Slide, html=(visit_slide, lambda self, node: self.body.append("</section>\n")))
    app.add_node(SlideHeading, html=(visit_heading, lambda self, node: self.body.append(f"</h{node['level']}>\n")))
    app.add_node(Notes, html=(visit_notes, lambda self, node: self.body.append("</aside>\n")))
    app.add_node(Decks)
    app.add_directive("notes", NotesDirective)
    app.add_directive("decks", DecksDirective)
    app.connect("config-inited", take_in, priority=900)
    app.connect("config-inited", use_reveal)
    app.connect("doctree-read", look, priority=600)
    app.connect("env-updated", write_again)
    app.connect("doctree-resolved", resolve, priority=900)
    app.connect("html-page-context", keep_body, priority=300)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

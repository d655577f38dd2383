"""The ``{gradient-clinic}`` directive: a place on a page where the kernel clinic unfolds. It computes nothing.

The scripts and the style sheet in ``book/_static`` are loaded by the page that has one, and by no others. Without
JavaScript, and in the PDF, a sentence stands there that says what the website shows.
"""

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

SCRIPTS = "lattice_math.js", "pasted_numbers.js", "gradient_clinic_math.js", "gradient_clinic.js"
STYLE = "gradient_clinic.css"
TEXT = "On the website, with JavaScript, the clinic stands here: a form for scores and a gradient, and a report."


class GradientClinic(SphinxDirective):
    def run(self):
        html = f'<div class="gradient-clinic"><p>{TEXT}</p></div>'
        return [nodes.raw("", html, format="html"), addnodes.only("", nodes.paragraph("", TEXT), expr="not html")]


def load(app, pagename, templatename, context, doctree):
    if 'class="gradient-clinic"' in context.get("body", ""):
        for script in SCRIPTS:
            app.add_js_file(script, loading_method="defer")
        app.add_css_file(STYLE)


def setup(app):
    app.add_directive("gradient-clinic", GradientClinic)
    app.connect("html-page-context", load)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

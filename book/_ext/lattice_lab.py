"""The ``{lattice-lab}`` directive: a place on a page where the lattice laboratory unfolds. It computes nothing.

``:node: 0, 1`` chooses the node (0, 1) to begin with; without it, the laboratory takes one that is in doubt.
``:brief:`` keeps picture and scores, and leaves out what stands below them, so that a slide need not scroll.

The scripts and the style sheet in ``book/_static`` are loaded by the pages that have one, and by no others. Without
JavaScript, and in the PDF, a sentence stands there that says what the website shows.
"""

import re

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

SCRIPTS = "lattice_math.js", "lattice_lab.js"
STYLE = "lattice_lab.css"


def one_of(*values):
    def convert(text):
        if text not in values:
            raise ValueError(f"expected one of {', '.join(values)}")
        return text

    return convert


def node(text):
    """Its frame and its place, as the laboratory writes them."""
    found = re.fullmatch(r"(\d+), *(\d+)", text or "")
    if found is None:
        raise ValueError("expected a frame and a place, such as 0, 1")
    return f"{found[1]}, {found[2]}"


class LatticeLab(SphinxDirective):
    option_spec = {
        "loss": one_of("ctc", "rnnt"),
        "frames": directives.positive_int,
        "target": directives.unchanged,
        "symbols": one_of("3", "4"),
        "preset": one_of("start", "trained", "peaky", "wrong", "uniform", "tiny"),
        "show": one_of("gamma", "alpha", "beta", "gradLogProbs", "gradLogits"),
        "lambda": directives.unchanged,
        "seed": directives.nonnegative_int,
        "node": node,
        "brief": directives.flag,
    }

    def run(self):
        number = self.env.new_serialno("lattice-lab") + 1
        data = "".join(f' data-{name}="{value or ""}"' for name, value in self.options.items())
        loss = {"ctc": "CTC", "rnnt": "RNN-T"}[self.options.get("loss", "rnnt")]
        text = f"On the website, with JavaScript, a laboratory stands here: a small {loss} lattice to play with."
        html = f'<div class="lattice-lab" id="lattice-lab-{number}"{data}><p>{text}</p></div>'
        elsewhere = nodes.paragraph("", text)
        return [nodes.raw("", html, format="html"), addnodes.only("", elsewhere, expr="not html")]


def load(app, pagename, templatename, context, doctree):
    if 'class="lattice-lab"' in context.get("body", ""):
        for script in SCRIPTS:
            app.add_js_file(script, loading_method="defer")
        app.add_css_file(STYLE)


def setup(app):
    app.add_directive("lattice-lab", LatticeLab)
    app.connect("html-page-context", load)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

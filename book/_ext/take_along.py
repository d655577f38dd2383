"""Offer the one file of ``one_file.py`` on the website: every build writes it into ``_downloads``. The PDF has no link.

The role {one-file}`words` links to it; LaTeX prints the words.
"""

from pathlib import Path

from docutils import nodes
from one_file import NAME, one_file
from sphinx import addnodes
from sphinx.util.docutils import SphinxRole


class OneFile(SphinxRole):
    def run(self):
        return [nodes.inline(self.rawtext, "", nodes.literal("", self.text), classes=["one-file"])], []


def link(app, doctree, docname):
    for words in [node for node in doctree.findall(nodes.inline) if "one-file" in node["classes"]]:
        words.replace_self(addnodes.download_reference("", "", *words.children, filename=NAME))


def write(app, exception):
    if app.builder.format == "html" and exception is None:
        folder = Path(app.outdir, "_downloads")
        folder.mkdir(exist_ok=True)
        (folder / NAME).write_text(one_file(app.srcdir), encoding="utf-8")


def setup(app):
    app.add_role("one-file", OneFile())
    app.connect("doctree-resolved", link)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Mend two flaws in the HTML that other extensions write: roles in the bibliography, ids that stand many times.

It changes no look and no text. sphinx-proof and sphinx-exercise give every proof, and the inside of every theorem,
proof, exercise and solution, one and the same id, to which nothing links; bibtex gives its entries a role that their
list does not allow.
"""

import re

REPEATED_IDS = re.compile(r' id="(?:(?:exercise|proof|solution)-content|proof)"')


def repair(app, pagename, templatename, context, doctree):
    if "body" in context:
        body = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
        context["body"] = REPEATED_IDS.sub("", body)


def setup(app):
    app.connect("html-page-context", repair)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

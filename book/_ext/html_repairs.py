"""Mend flaws in the HTML that other extensions write, so that every page is valid. It changes no look and no text.

sphinx-proof and sphinx-exercise give every proof, and the inside of every theorem, proof, exercise and solution, one
and the same id, to which nothing links; bibtex gives its entries a role that their list does not allow; myst-nb puts
paragraphs into summaries, where only text may stand, and gives all of them one name; docutils calls the empty corner of
a table a heading, and does not say whether the others are those of columns or of rows; the theme's list of pages has
buttons without a name; and the page that leads from index.html to the first page has no title and no language.
"""

import html
import re
from pathlib import Path

REPEATED_IDS = re.compile(r' id="(?:(?:exercise|proof|solution)-content|proof)"')
SUMMARY = re.compile(r'<p class="((?:collapsed|expanded) admonition-title)">(.*?)</p>')
CORNER = '<th class="head"><p></p></th>'
HEADING = re.compile(r'<th class="(head|stub)\b')
NAME_OF_ALL = '<summary aria-label="Toggle hidden content">'  # and not what is written there
UNNAMED = re.compile(r'(<a [^>]*>\s*([^<]*?)\s*</a>\s*<details[^>]*>\s*)<summary>')
SCOPES = {"head": "col", "stub": "row"}
FIRST_PAGE = """<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta http-equiv="refresh" content="0; url={address}">
</head>
<body><p><a href="{address}">{title}</a></p></body>
</html>
"""


def repair(app, pagename, templatename, context, doctree):
    if "body" in context:
        body = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')
        body = SUMMARY.sub(r'<span class="\1">\2</span>', body).replace(NAME_OF_ALL, "<summary>")
        body = REPEATED_IDS.sub("", body).replace(CORNER, "<td></td>")
        context["body"] = HEADING.sub(lambda match: f'<th scope="{SCOPES[match[1]]}" class="{match[1]}', body)


def name_the_buttons(app, pagename, templatename, context, doctree):
    """Those of the list of pages, which unfold what stands below one."""
    list_of_pages = context.get("generate_toctree_html")
    if list_of_pages:
        context["generate_toctree_html"] = lambda *given, **options: UNNAMED.sub(
            r'\1<summary aria-label="Pages below \2">', str(list_of_pages(*given, **options)))


def lead_to_the_first_page(app, exception):
    if app.builder.format == "html" and exception is None and app.config.root_doc != "index":
        first = FIRST_PAGE.format(language=app.config.language, title=html.escape(app.config.html_title),
                                  address=app.builder.get_target_uri(app.config.root_doc))
        Path(app.outdir, "index.html").write_text(first, encoding="utf-8")


def setup(app):
    app.connect("html-page-context", repair)
    app.connect("html-page-context", name_the_buttons, priority=900)  # after the theme has made its list
    app.connect("build-finished", lead_to_the_first_page, priority=900)  # after the one that writes a shorter one
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""Give the entries of a bibliography the role that their list requires. How they look and sort is bibtex's affair."""


def use_list_items(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = context["body"].replace('role="doc-biblioentry"', 'role="listitem"')


def setup(app):
    app.connect("html-page-context", use_list_items)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

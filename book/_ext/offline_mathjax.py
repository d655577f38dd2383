"""Serve MathJax from the site itself: one file, SVG output, no fonts. It configures nothing else about mathematics."""

from importlib.metadata import distribution

SCRIPT = "tex-svg-full.js"


def use_local_script(app, config):
    files = distribution("sphinx-mathjax-offline").files
    source = next(file for file in files if file.name == SCRIPT).locate()
    config.html_static_path.append(str(source))
    config.mathjax_path = SCRIPT  # below _static


def setup(app):
    app.setup_extension("sphinx.ext.mathjax")
    app.connect("config-inited", use_local_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

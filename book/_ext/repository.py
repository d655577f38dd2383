"""Links to the public repository, all from one setting: edit, issue, source, Colab and Binder. Without it, none.

The setting is ``repository_url`` in ``_config.yml``, or the environment variable BOOK_REPOSITORY_URL, which wins.
Colab and Binder open notebooks of a repository on GitHub; for another host only the other links appear. On Colab a
notebook fetches the package from the address that ``make repository`` wrote into it along with the setting. So with the
environment variable alone there is no link to Colab.
"""

import os
import re

from sphinx.errors import ConfigError

ADDRESS = re.compile(r"https://[\w.-]+(:\d+)?(/[\w~-][\w.~-]*)+", re.ASCII)


def address(text):
    """An address as it is used, without a slash or .git at its end; "" stays "", and what is none is refused."""
    url = text.rstrip("/").removesuffix(".git")
    if url and not ADDRESS.fullmatch(url):
        raise ConfigError(f"repository_url = {url!r}; expected an address that begins with https://, such as "
                          "https://github.com/OWNER/NAME")
    return url


def link(app, config):
    url = address(os.environ.get("BOOK_REPOSITORY_URL") or config.repository_url)
    if not url:
        return
    options = {
        "repository_url": url,
        "repository_branch": "main",
        "path_to_docs": "",
        "use_repository_button": True,
        "use_edit_page_button": True,
        "use_issues_button": True,
    }
    if url.startswith("https://github.com/"):
        options["launch_buttons"] = {"binderhub_url": "https://mybinder.org", "notebook_interface": "jupyterlab"}
        if config.repository_url:
            options["launch_buttons"]["colab_url"] = "https://colab.research.google.com"
    config.html_theme_options = {**config.html_theme_options, **options}


def setup(app):
    app.add_config_value("repository_url", "", "html", types=[str])
    app.connect("config-inited", link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

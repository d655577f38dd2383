"""Links to the public repository, all from one setting: edit, issue, source, Colab and Binder. Without it, none.

The setting is ``repository_url`` in ``_config.yml``, or the environment variable BOOK_REPOSITORY_URL, which wins.
Colab and Binder open notebooks of a repository on GitHub; for another host only the other links appear.
"""

import os

from sphinx.errors import ConfigError


def link(app, config):
    url = (os.environ.get("BOOK_REPOSITORY_URL") or config.repository_url).rstrip("/").removesuffix(".git")
    if not url:
        return
    if not url.startswith("https://"):
        raise ConfigError(f"repository_url = {url!r}; expected an address that begins with https://")
    options = {
        "repository_url": url,
        "repository_branch": "main",
        "path_to_docs": "",
        "use_repository_button": True,
        "use_edit_page_button": True,
        "use_issues_button": True,
    }
    if url.startswith("https://github.com/"):
        options["launch_buttons"] = {
            "colab_url": "https://colab.research.google.com",
            "binderhub_url": "https://mybinder.org",
            "notebook_interface": "jupyterlab",
        }
    config.html_theme_options = {**config.html_theme_options, **options}


def setup(app):
    app.add_config_value("repository_url", "", "html", types=[str])
    app.connect("config-inited", link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""The Sphinx extension that links to the public repository: what it sets, from where, and when it refuses."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from sphinx.errors import ConfigError

EXTENSIONS = Path(__file__).parent.parent / "book" / "_ext"


@pytest.fixture
def options(monkeypatch):
    """The theme's options after the extension has seen an address from the configuration and one from outside."""
    monkeypatch.syspath_prepend(EXTENSIONS)
    from repository import link

    def after(configured, outside=None):
        monkeypatch.delenv("BOOK_REPOSITORY_URL", raising=False)
        if outside is not None:
            monkeypatch.setenv("BOOK_REPOSITORY_URL", outside)
        config = SimpleNamespace(repository_url=configured, html_theme_options={"logo": "kept"})
        link(None, config)
        return config.html_theme_options

    return after


def test_without_an_address_nothing_is_linked(options):
    assert options("") == options("", "") == {"logo": "kept"}


def test_github_has_every_button(options):
    set_here = options("https://github.com/someone/book.git")
    assert set_here["repository_url"] == "https://github.com/someone/book" and set_here["logo"] == "kept"
    assert set_here["use_issues_button"] and set_here["use_edit_page_button"]
    assert set(set_here["launch_buttons"]) == {"colab_url", "binderhub_url", "notebook_interface"}


def test_from_outside_alone_there_is_no_colab_whose_notebooks_would_not_know_the_address(options):
    set_here = options("", "https://github.com/someone/book")
    assert set(set_here["launch_buttons"]) == {"binderhub_url", "notebook_interface"}


def test_the_environment_wins_and_another_host_has_no_notebooks_elsewhere(options):
    set_here = options("https://github.com/someone/book", "https://example.org/someone/book/")
    assert set_here["repository_url"] == "https://example.org/someone/book" and "launch_buttons" not in set_here


def test_what_is_no_address_is_refused(options):
    with pytest.raises(ConfigError, match="repository_url = 'github.com/someone/book'; expected an address"):
        options("github.com/someone/book")

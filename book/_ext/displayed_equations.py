"""The equations that the pages display, collected while they are read, for every extension that asks. It shows nothing.

An extension that needs them calls ``app.setup_extension("displayed_equations")`` and then :func:`equations_by_page`.
"""

from typing import NamedTuple

from doctrees import is_output
from docutils import nodes
from sphinx.environment.collectors import EnvironmentCollector


class Equation(NamedTuple):
    docname: str
    label: str | None
    tex: str
    location: str

    @property
    def is_definition(self):
        return self.label.startswith("def-")


def displayed_equations(doctree):
    """Return the equations that the author displays: not the ones that a notebook cell prints, nor copies of others."""
    return [node for node in doctree.findall(nodes.math_block) if not is_output(node)]


def equations_by_page(env):
    """Return {page: its displayed equations, in order}, for every page that has been read."""
    return vars(env).setdefault("displayed", {})


class EquationCollector(EnvironmentCollector):
    """Keep the equations of each page in the environment."""

    def clear_doc(self, app, env, docname):
        equations_by_page(env).pop(docname, None)

    def merge_other(self, app, env, docnames, other):
        found = equations_by_page(other)
        equations_by_page(env).update({doc: found[doc] for doc in docnames if doc in found})

    def process_doc(self, app, doctree):
        env = app.env
        equations_by_page(env)[env.docname] = [
            Equation(env.docname, node.get("label"), node.astext(), f"{env.doc2path(env.docname)}:{node.line or ''}")
            for node in displayed_equations(doctree)
        ]


def setup(app):
    app.add_env_collector(EquationCollector)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}

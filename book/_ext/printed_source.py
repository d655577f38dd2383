"""The directive {source} prints a function of the package as it is committed, without its docstring. It runs none.

```{source} ctc:alpha
```

prints ``alpha`` of ``src/reference_impl/ctc.py`` below the name of that file. A docstring stands in the Reference; here
the lines themselves are read. A function that is not there fails the build.
"""

import ast
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from reference_impl.showing import without_docstring

PACKAGE = "src/reference_impl"


def printed(path, name):
    """The lines of a function at the top level of a file, from its decorators on, without its docstring."""
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return without_docstring(text, node)
    raise LookupError(f"{path.name} has no function {name} at its top level")


class Source(SphinxDirective):
    required_arguments = 1

    def run(self):
        module, _, name = self.arguments[0].partition(":")
        path = Path(PACKAGE, *module.split(".")).with_suffix(".py")
        self.env.note_dependency(str(Path(self.env.srcdir, path)))
        try:
            text = printed(Path(self.env.srcdir, path), name)
        except (LookupError, OSError) as error:
            raise self.error(f"{{source}} {self.arguments[0]}: {error}") from error
        code = nodes.literal_block(text, text, language="python")
        code["classes"] = ["printed-source"]
        file = nodes.paragraph("", "", nodes.literal("", path.as_posix()), classes=["name-of-source"])
        self.set_source_info(code)
        return [nodes.container("", file, code, classes=["source-with-name"])]


def setup(app):
    app.add_directive("source", Source)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

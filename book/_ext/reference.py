"""The Reference: every public name of the package with its docstring. A module's ``__all__`` says what is public.

``.. public-names:: reference_impl.ctc`` prints the module's docstring, a table of its public names, and an entry for
each of them in the order of the source; with ``:without-docstring:`` the names alone. Labels of equations in
docstrings, such as eq-ctc-alpha, become links that show the equation's number. Roles lead to the entry of what they
name; what has no entry, such as an internal file, is shown as code. The build fails for a label, a name or a module
that does not exist, and for a public name that has no docstring.
"""

import ast
import dataclasses
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles

PACKAGE = "reference_impl"
DIRECTIVE = re.compile(r"^\.\. public-names:: (\S+)", re.MULTILINE)
LABEL = re.compile(r"(?<![\w`-])((?:eq|def)-[a-z0-9]+(?:-[a-z0-9]+)*)(?![\w`-])")
ROLE = re.compile(r":(?:func|class|mod):`([\w.]+)`")


# --- what is public, and where it stands ---


@cache
def line_of(module, name):
    """(line where a module defines or imports the name, module that it is imported from or None)."""
    for node in ast.parse(ModuleAnalyzer.for_module(module).code).body:
        if isinstance(node, ast.ImportFrom) and name in [alias.asname or alias.name for alias in node.names]:
            package = importlib.import_module(module).__package__
            return node.lineno, importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        assigned = filter(None, getattr(node, "targets", [getattr(node, "target", None)]))
        if name == getattr(node, "name", None) or name in [
                each.id for target in assigned for each in ast.walk(target) if isinstance(each, ast.Name)]:
            return node.lineno, None
    raise LookupError(f"{module} does not define {name}")


def home(module, name):
    """The module that defines a name, where the imports lead."""
    source = line_of(module, name)[1]
    return home(source, name) if source else module


@cache
def public_names(module):
    """The names in ``__all__``, without modules, in the order of imports and definitions."""
    there = importlib.import_module(module)
    names = [name for name in there.__all__ if not inspect.ismodule(getattr(there, name))]
    return sorted(names, key=lambda name: (line_of(module, name)[0], line_of(home(module, name), name)[0]))


def documentation(module, name):
    """The docstring of a function or class, the comment above a constant."""
    value = getattr(importlib.import_module(module), name)
    if inspect.isroutine(value) or inspect.isclass(value):
        lines = inspect.getdoc(value).split("\n") if value.__doc__ else []
    else:
        lines = ModuleAnalyzer.for_module(home(module, name)).find_attr_docs().get(("", name), [])
    if not any(lines):
        raise LookupError(f"{name} is public, and has no docstring")
    return lines


def summary(lines):
    """The first sentence, without what it says of papers, shapes and parameters, and without marks of claims."""
    paragraph = " ".join(" ".join(lines).split("  ")[0].split())
    without_papers = re.sub(r" \((?:from )?[A-Z][^()]*\d{4}[^()]*\)| :claim:`[^`]*`", "", paragraph)
    return re.split(r"(?<=[\w`)])\. |; |: \(", without_papers)[0].rstrip(".:")


# --- docstrings ---


def adjusted(lines, module, entries):
    """Lines with links; examples stay as they are. A mark that is no role is left for Sphinx to complain about."""
    def link(match):
        value = meaning(match[1], module)
        if value is None:
            return match[0]
        shown, full = match[1].lstrip(".").removeprefix(f"{PACKAGE}."), entries.get(key(value))
        if full is None:
            return f"``{shown}``"
        kind = "mod" if inspect.ismodule(value) else "func" if inspect.isroutine(value) else "class"
        return f":{kind}:`{shown}{'()' if kind == 'func' else ''} <{full}>`"

    return [ROLE.sub(link, LABEL.sub(r":eq:`\1`", line)) if is_prose else line
            for line, is_prose in zip(lines, prose(lines), strict=True)]


def prose(lines):
    """Yield whether each line is prose: an example goes on to the next empty line."""
    example = False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and line.strip() != "")
        yield not example


def meaning(name, module):
    """What a name in a docstring of a module stands for: looked for there, then in the packages around it; or None."""
    name, start = name.lstrip(".").removeprefix(f"{PACKAGE}."), module
    while start:
        value = importlib.import_module(start)
        for part in name.split("."):
            if hasattr(value, "__path__") and importlib.util.find_spec(f"{value.__name__}.{part}"):
                importlib.import_module(f"{value.__name__}.{part}")  # a file that nothing has imported yet
            value = getattr(value, part, None)
        if value is not None:
            return value
        start = start.rpartition(".")[0]
    return None


def key(value):
    return value.__name__ if inspect.ismodule(value) else (value.__module__, value.__qualname__)


def entries_of(modules):
    """{what: the full name of its entry}; where two modules offer the same thing, the first has it."""
    entries = {module: module for module in modules}
    for module in modules:
        try:
            values = {name: getattr(importlib.import_module(module), name) for name in public_names(module)}
        except (ImportError, AttributeError, LookupError):
            continue  # the directive says what is wrong
        for name, value in values.items():
            if inspect.isroutine(value) or inspect.isclass(value):
                entries.setdefault(key(value), f"{module}.{name}")
    return entries


def process(app, what, name, value, options, lines):
    module = name if what == "module" else getattr(value, "__module__", None) or PACKAGE
    lines[:] = adjusted(lines, module, app.config.reference_entries)


def as_written(app, what, name, value, options, signature, returns):
    """The signature of a dataclass, whose defaults Sphinx knows as values only: ``dtype=object`` as in the source."""
    if what != "class" or not dataclasses.is_dataclass(value):
        return None
    defaults = {}
    for base in filter(dataclasses.is_dataclass, reversed(value.__mro__)):
        for node in ast.parse(inspect.getsource(base)).body[0].body:
            if isinstance(node, ast.AnnAssign) and node.value:
                given = getattr(node.value, "keywords", ()) if ast.unparse(node.value).startswith("field(") else None
                default = node.value if given is None else {each.arg: each.value for each in given}.get("default")
                defaults[node.target.id] = "..." if default is None else ast.unparse(default)
    first, keywords = [], []
    for field in dataclasses.fields(value):
        shown = f"{field.name}={defaults[field.name]}" if field.name in defaults else field.name
        (keywords if field.kw_only else first).append(shown)
    return f"({', '.join([*first, *['*'] * bool(keywords), *keywords])})", None


def free_lists(app, doctree):
    """Several returned values make a list, and Sphinx puts it into a paragraph, where HTML allows none."""
    for values in list(doctree.findall(nodes.bullet_list)):
        around = values.parent
        while isinstance(around, nodes.inline):
            around = around.parent
        if isinstance(around, nodes.paragraph):
            around.replace_self(values)


# --- pages ---


class PublicNames(SphinxDirective):
    required_arguments = 1
    option_spec = {"without-docstring": directives.flag}

    def run(self):
        module = self.arguments[0]
        try:
            documented = {name: documentation(module, name) for name in public_names(module)}
        except (ImportError, AttributeError, LookupError) as error:
            raise self.error(f"public-names {module}: {error}") from error
        for file in {home(module, name) for name in documented}:
            self.env.note_dependency(importlib.import_module(file).__file__)
        lines = [] if "without-docstring" in self.options else [f".. automodule:: {module}", "   :no-members:", ""]
        if len(documented) > 1:
            lines += [".. list-table::", "   :class: public-names", "   :widths: 1 2", ""]
            for name, says in documented.items():
                lines += [f"   * - :py:obj:`{name} <{module}.{name}>`",
                          f"     - {adjusted([summary(says)], module, self.config.reference_entries)[0]}"]
            lines += [""]
        for name, says in documented.items():
            lines += self.entry(module, name, says)
        section = nodes.section(document=self.state.document)
        nested_parse_with_titles(self.state, StringList(lines, source=f"public-names {module}"), section)
        return section.children

    def entry(self, module, name, says):
        value = getattr(importlib.import_module(module), name)
        if inspect.isroutine(value):
            return [f".. autofunction:: {module}.{name}", ""]
        if inspect.isclass(value) and issubclass(value, Exception):
            return [f".. autoexception:: {module}.{name}", ""]
        if inspect.isclass(value):
            fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", ())
            fields = ", ".join(fields)  # they stand among the parameters, or in the text
            return [f".. autoclass:: {module}.{name}", "   :members:", f"   :exclude-members: {fields}", ""]
        text = adjusted(says, module, self.config.reference_entries)
        return [f".. py:data:: {name}", f"   :module: {module}", "", *(f"   {line}" for line in text), ""]


def read_pages(app, config):
    """Which modules have a place in the Reference, in the order of its pages."""
    pages = sorted(Path(app.srcdir, config.reference_pages).glob("*.rst"))
    config.reference_entries = entries_of(
        [module for page in pages for module in DIRECTIVE.findall(page.read_text(encoding="utf-8"))])


def setup(app):
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.add_config_value("reference_pages", "book/reference", "env")
    app.add_config_value("reference_entries", {}, "env")
    app.add_directive("public-names", PublicNames)
    app.connect("config-inited", read_pages)
    app.connect("autodoc-process-signature", as_written)
    app.connect("doctree-read", free_lists)
    app.connect("autodoc-process-docstring", process, priority=400)  # before napoleon
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""No circle of imports in `reference_impl` and `coursework`; read from the sources, nothing is imported here.

An import inside a function counts as one at the top does: it is how a circle is hidden. Taking a name from a package
leads to its `__init__`, unless the name is a module of it: then it leads to that module. On the way Python runs the
`__init__` of every package around the module, so these are imported too, but for those around the importing module
itself, which were begun before it.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"


def modules_in(folder, *packages):
    """{dotted name: file}; a package's name stands for its `__init__`."""
    return {".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
            for package in packages for path in sorted((folder / package).rglob("*.py"))}


def graph(modules):
    """{module: the modules that it imports}."""
    return {name: set(_imported(name, path, modules)) for name, path in modules.items()}


def _imported(name, path, modules):
    around = {*_packages(name), name}
    for target in _targets(name, path, modules):
        for module in (*_packages(target), target):
            if module in modules and (module == target or module not in around):
                yield module


def _targets(name, path, modules):
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[:len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *filter(None, [node.module])])
            yield from (full if (full := f"{source}.{alias.name}") in modules else source for alias in node.names)


def _packages(name):
    """The packages around a module, the outermost first."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def circle(modules):
    """Modules each of which imports the next one, the first once more at the end; empty if there is no circle."""
    try:
        TopologicalSorter(graph(modules)).prepare()
    except CycleError as error:
        return error.args[1][::-1]  # graphlib lists what is imported before what imports it
    return []


def test_no_circle():
    found = circle(modules_in(SOURCES, "reference_impl", "coursework"))
    assert not found, " -> ".join(found)


@pytest.mark.parametrize("files, found", [
    ({"p/a.py": "from .b import x", "p/b.py": "def f():\n    from .a import y"}, {"p.a", "p.b"}),
    ({"p/__init__.py": "from .a import x", "p/a.py": "from . import y"}, {"p", "p.a"}),
    ({"p/__init__.py": "from . import a", "p/a.py": "import q.b", "q/__init__.py": "from p.c import x", "p/c.py": ""},
     {"p", "p.a", "q"}),
    ({"p/__init__.py": "from . import a, b", "p/a.py": "from . import b", "p/b.py": "import p.c", "p/c.py": ""}, set()),
    ({"p/__init__.py": "from .q import a", "p/q/__init__.py": "", "p/q/a.py": "from .. import b", "p/b.py": ""}, set()),
], ids=["in a function", "a name of the package", "around the module", "modules of a package", "two packages up"])
def test_what_counts(tmp_path, files, found):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    modules = modules_in(tmp_path, "p", "q")
    assert set(modules) >= {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in files}
    assert set(circle(modules)) == found

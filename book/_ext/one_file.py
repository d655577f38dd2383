"""The explicit recursions as one file to take along, made from the package's sources. It computes no loss itself.

``ctc_rnnt_reference.py`` needs nothing but NumPy: put it beside a loss of your own, and compare. It holds the public
names of ``ctc``, ``rnnt``, ``semiring`` and ``log_softmax``, and whatever these reach in the package, no more. Names of
``ctc`` and ``rnnt`` get the module's name in front, in the code, in docstrings and in their examples. Text is moved as
it stands, so that comments and layout survive. ``make onefile`` writes it, and so does each build of the site
(``take_along.py``).
"""

import ast
import doctest
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

NAME = "ctc_rnnt_reference.py"
PUBLIC = {"_softmax": ["log_softmax"], "semiring": None, "ctc": None, "rnnt": None}  # None: what __all__ lists
LAST = "_validation"  # nobody reads that first
QUOTES = '"""'
ROLE = re.compile(r":[a-z]+:`[~!]?\.*([\w.]+)`")
HEAD = '''"""The CTC and RNN-T losses of one utterance with their gradients: a reference to test your own loss against.

One file that needs nothing but NumPy ({needs}). It is slow on purpose: the explicit recursions of the
papers, in float64, one utterance at a time. Log-probs and losses are in nats. For T frames, U labels, V symbols call

{calls}

Logits and log-probs of CTC are (T, V) arrays, those of RNN-T (T, U+1, V). The gradients that are called grad_logits
include log-softmax; grad_log_probs is -occupancy. Names such as eq-ctc-alpha are labels of equations in the book. The
examples in the docstrings run: python -m doctest {name}

Generated from the sources of reference_impl {version}, the package of the book
"{title}", by {generator}: do not edit it, generate it anew.
License: BSD-3-Clause, whose text is at the end.
"""'''
CALLS = {"_softmax": ["log_softmax"], "ctc": ["loss", "occupancy", "grad_log_probs", "grad_logits"],
         "rnnt": ["loss", "occupancy", "grad_log_probs", "grad_logits"]}


class Definition(NamedTuple):
    """One statement at the top level of a module: a function, a class, or an assignment to a name."""

    module: str
    name: str
    node: ast.stmt
    first_line: int  # with the comments above it


class Module:
    """The source of a file of the package: its definitions, and what its imports mean."""

    def __init__(self, package, name):
        self.name = name
        self.text = (package / f"{name}.py").read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text)
        self.definitions, self.imported, self.outside, self.public = {}, {}, {}, []
        for node in self.tree.body:
            self.read(node, package)

    def read(self, node, package):
        if isinstance(node, ast.ImportFrom | ast.Import):
            known, outside = meanings(node, package)
            self.imported |= known
            self.outside |= outside
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            self.define(node.name, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if ast.unparse(targets[0]) == "__all__":
                self.public = ast.literal_eval(node.value)
            elif len(targets) == 1 and isinstance(targets[0], ast.Name):
                self.define(targets[0].id, node)
            else:
                raise ValueError(f"{self.name}.py, line {node.lineno}: only names are assigned to, one at a time")

    def define(self, name, node):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        while self.lines[first - 2].startswith("#"):
            first -= 1
        self.definitions[name] = Definition(self.name, name, node, first)


def meanings(node, package):
    """What an import makes known: {name: (module of the package, name in it or None)}, and {name: line of import}."""
    known, outside = {}, {}
    for alias in node.names:
        bound = alias.asname or alias.name
        if isinstance(node, ast.ImportFrom) and (node.level or node.module.partition(".")[0] == "reference_impl"):
            module = (node.module or "").removeprefix("reference_impl").lstrip(".")
            if module:
                known[bound] = module, alias.name
            elif (package / f"{alias.name}.py").is_file():
                known[bound] = alias.name, None
            else:  # what __init__.py offers
                known[bound] = f"_{alias.name.partition('_')[2]}", alias.name
        elif isinstance(node, ast.ImportFrom):
            renamed = f" as {alias.asname}" if alias.asname else ""
            outside[bound] = (f"from {node.module} import", alias.name + renamed)
        else:
            renamed = f" as {alias.asname}" if alias.asname else ""
            outside[bound.partition(".")[0]] = (f"import {alias.name}{renamed}", "")
    return known, outside


# --- what a name means where it stands ---


def uses(node, local=frozenset()):
    """Yield (node, name, attribute or None) for each name that no function around it has for itself."""
    if isinstance(node, ast.Name | ast.Attribute):
        name, attribute = (node, None) if isinstance(node, ast.Name) else (node.value, node.attr)
        if isinstance(name, ast.Name):
            if name.id not in local:
                yield node, name.id, attribute
            return
    if isinstance(node, ast.FunctionDef):
        arguments = [node.args, *node.body]
        for outer in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), node.returns]:
            yield from uses(outer, local) if outer else ()
        inner = local | own_names(arguments)
        for each in [*(a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)), *node.body]:
            yield from uses(each, inner) if each else ()
        return
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        local = local | own_names([node])
    for child in ast.iter_child_nodes(node):
        yield from uses(child, local)


def own_names(nodes):
    """Parameters, and what is assigned to: by the functions inside, too, as nobody gives a name two meanings there."""
    inside = [each for node in nodes for each in ast.walk(node)]
    return frozenset({each.arg for each in inside if isinstance(each, ast.arg)}
                     | {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)})


class Package:
    """The modules that are read, each once, and the definitions that the public names reach."""

    def __init__(self, folder):
        self.folder, self.modules, self.order = Path(folder), {}, []
        self.taken, self.outside = {}, {}
        for module, names in PUBLIC.items():
            for name in names or self.module(module).public:
                self.take(module, name)
        new = {}
        for module, name in self.taken:
            if new.setdefault(self.renamed(module, name), (module, name)) != (module, name):
                raise ValueError(f"{module}.{name} and {'.'.join(new[self.renamed(module, name)])} would get one name")

    def module(self, name):
        if name not in self.modules:
            self.modules[name] = Module(self.folder, name)
        return self.modules[name]

    def take(self, module, name):
        if (module, name) in self.taken:
            return
        definition = self.module(module).definitions.get(name)
        if definition is None:
            raise ValueError(f"{module}.py defines no {name}, which {NAME} needs")
        self.taken[module, name] = definition
        for _, used, attribute in uses(definition.node):
            meaning = self.meaning(module, used, attribute)
            if meaning:
                self.take(*meaning)
            elif used in self.module(module).outside:
                self.outside[used] = self.module(module).outside[used]
        if module not in self.order:  # after the modules that it uses
            self.order.append(module)

    def meaning(self, module, name, attribute, imported=()):
        """(module, name) of what a name means in a module, if it is the package's; `imported` there besides."""
        source = self.module(module)
        found = dict(imported).get(name) or source.imported.get(name)
        if found and found[1] is None:
            return (found[0], attribute) if attribute else None
        return found or ((module, name) if name in source.definitions else None)

    def renamed(self, module, name):
        if module not in ("ctc", "rnnt"):
            return name
        return f"_{module}{name}" if name.startswith("_") else f"{module}_{name}"

    # --- text ---

    def rewritten(self, text, tree, module, local=frozenset(), imported=()):
        """The text, with the names of the package as they are called in the one file."""
        changes = []
        for node, name, attribute in uses(tree, local):
            meaning = self.meaning(module, name, attribute, imported)
            if meaning:
                if meaning not in self.taken:
                    raise ValueError(f"an example in {module}.py uses {'.'.join(meaning)}, which {NAME} does not have")
                through = (dict(imported).get(name) or self.module(module).imported.get(name) or ("", ""))[1] is None
                old = f"{name}.{attribute}" if through else name
                changes.append((node.lineno, node.col_offset, old, self.renamed(*meaning)))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (module, node.name) in self.taken:
                if node.col_offset == 0:
                    keyword = "def " if isinstance(node, ast.FunctionDef) else "class "
                    changes.append((node.lineno, len(keyword), node.name, self.renamed(module, node.name)))
        lines = [line.encode() for line in text.split("\n")]
        for line, column, old, new in sorted(changes, reverse=True):
            at = lines[line - 1]
            assert at[column:].startswith(old.encode()), (at, old)
            lines[line - 1] = at[:column] + new.encode() + at[column + len(old.encode()):]
        return "\n".join(line.decode() for line in lines)

    def docstring(self, text, module):
        """A docstring: examples with the names of the one file and without imports of the package, roles as words."""
        parts, imported, own = [], {}, frozenset()
        for piece in doctest.DocTestParser().parse(text):
            if isinstance(piece, str):
                parts.append(ROLE.sub(lambda match: f"``{self.spoken(match[1], module)}``", piece))
                continue
            tree = ast.parse(piece.source)
            known = meanings(tree.body[0], self.folder)[0] if isinstance(tree.body[0], ast.ImportFrom) else {}
            imported |= known
            if not known:
                own |= own_names([tree])
                source = self.rewritten(piece.source, tree, module, own, imported)
                first, *others = source.rstrip("\n").split("\n")
                lines = [f">>> {first}", *(f"... {line}".rstrip() for line in others), *piece.want.splitlines()]
                parts.append(textwrap.indent("\n".join(lines), " " * piece.indent) + "\n")
        return "".join(parts)

    def spoken(self, name, module):
        meaning = self.meaning(module, name, None)
        return self.renamed(*meaning) if meaning in self.taken else name

    def source(self, definition):
        module, node = self.module(definition.module), definition.node
        text = "\n".join(module.lines[definition.first_line - 1 : node.end_lineno])
        text = self.rewritten(text, ast.parse(text), definition.module)  # counts lines from here on
        lines = text.split("\n")
        for part in reversed([each for each in ast.walk(ast.parse(text)) if documented(each)]):
            string = part.body[0].value
            start, end, margin = string.lineno - 1, string.end_lineno, " " * string.col_offset
            quoted = textwrap.dedent("\n".join(lines[start:end]))
            if not quoted.startswith(QUOTES):
                raise ValueError(f"{definition.module}.{definition.name} has a docstring without three quotes")
            new = QUOTES + self.docstring(quoted[3:-3], definition.module) + QUOTES
            lines[start:end] = textwrap.indent(new, margin).split("\n")
        return "\n".join(lines)


def documented(node):
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None


# --- the file ---


def one_file(root):
    """The text of the file, from the sources of the package and the settings of the book."""
    root = Path(root)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    title = re.search(r"^title: (.*)$", (root / "_config.yml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    package = Package(root / "src" / "reference_impl")
    numpy = next(each for each in project["dependencies"] if each.startswith("numpy"))
    needs = f"Python {project['requires-python'].partition(',')[0]}, NumPy {numpy.removeprefix('numpy')}"
    head = HEAD.format(name=NAME, version=project["version"], title=title, needs=needs.replace(">=", ""),
                       calls=calls(package), generator="book/_ext/" + Path(__file__).name)
    text = "\n\n".join([head, "from __future__ import annotations", imports(package.outside), public_names(package)])
    for name in sorted(package.order, key=lambda name: name == LAST):
        module = package.module(name)
        taken = [d for d in module.definitions.values() if (name, d.name) in package.taken]
        says = package.docstring(ast.get_docstring(module.tree), name)
        text += f"\n\n\n# --- {name.lstrip('_')} ---\n{comment(says)}"
        text += "".join(f"\n\n\n{block}" for block in grouped([(package.source(d), d.node) for d in taken]))
    return f"{text}\n\n\n{comment((root / 'LICENSE').read_text(encoding='utf-8').strip())}\n"


def grouped(sources):
    """Assignments in a row belong together; a function and a class stand alone."""
    blocks, before = [], False
    for text, node in sources:
        assignment = isinstance(node, ast.Assign)
        if assignment and before:
            blocks[-1] += ("\n\n" if text.startswith("#") else "\n") + text
        else:
            blocks.append(text)
        before = assignment
    return blocks


def calls(package):
    """What to call, each with the first sentence of its docstring."""
    lines = []
    for module, names in CALLS.items():
        for name in names:
            node = package.taken[module, name].node
            lines.append(f"    {package.renamed(module, name)}({ast.unparse(node.args)})")
            sentence = package.docstring(ast.get_docstring(node).partition("\n")[0], module)
            lines.append(f"        {sentence.partition('; parameters')[0].rstrip('.')}.")
    return "\n".join(lines)


def imports(outside):
    plain = sorted({line for line, name in outside.values() if not name})
    chosen = {}
    for line, name in outside.values():
        if name:
            chosen.setdefault(line, set()).add(name)
    standard = [line for line in plain if "numpy" not in line]
    lines = standard + [f"{line} {', '.join(sorted(names))}" for line, names in sorted(chosen.items())]
    return "\n".join(lines) + "\n\n" + "\n".join(line for line in plain if "numpy" in line)


def public_names(package):
    names = [package.renamed(module, name) for module, chosen in PUBLIC.items()
             for name in chosen or package.module(module).public]
    text = textwrap.fill(", ".join(f'"{name}"' for name in sorted(names)), 108)
    return "__all__ = [" + text.replace("\n", "\n           ") + "]"


def comment(text):
    return "\n".join(f"# {line}".rstrip() for line in text.split("\n"))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(one_file(Path(__file__).resolve().parents[2]), encoding="utf-8")
    print(target)

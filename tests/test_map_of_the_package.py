"""The map in ``reference_impl/__init__.py``, against the files: the imports are read as text, and no loss is run."""

import ast
import re
from pathlib import Path

import reference_impl

PACKAGE = Path(reference_impl.__file__).parent
MAP = reference_impl.__doc__
LOSSES = ["ctc", "rnnt", "batched", "torch_impl.losses", "torch_impl.variants"]
ROOMS = {"sweeps", "as_published", "pruning", "digits", "speech", "networks", "measuring"}


def file_of(module):
    """The file of a module named relative to the package, or None."""
    base = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imports(module):
    """Modules of the package that a module imports, wherever in its file, relative to the package."""
    path = file_of(module)
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = [*package[: len(package) - node.level + 1], *filter(None, (node.module or "").split("."))]
            for name in (".".join([*start, alias.name]) for alias in node.names):
                found = name if file_of(name) else ".".join(start)
                if found:
                    yield found
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name.removeprefix("reference_impl.") for name in names if name.startswith("reference_impl."))


def reached(modules):
    """What these modules run: what they import, and what that imports. A package's list of names runs nothing."""
    seen, waiting = set(), list(modules)
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += [each for each in imports(module) if file_of(each).name != "__init__.py"]
    return seen


def paragraph(head):
    """The part of the map that begins with these words, up to the next one."""
    return re.search(rf"\*\*{head}.*?(?=\n\n\*\*|\n\n``|\Z)", MAP, re.DOTALL)[0]


def names(text):
    return {name.strip("/") for name in re.findall(r"``([a-z_/]+(?:\.py)?/?)``", text)}


def test_it_fits_a_screen():
    assert len((PACKAGE / "__init__.py").read_text(encoding="utf-8").splitlines()) <= 60


def test_every_file_that_it_names_is_there():
    inside_torch = {path.name for path in (PACKAGE / "torch_impl").glob("*.py")}
    files = {name for name in re.findall(r"[a-z_/]+\.py", MAP)}
    assert len(files) > 8
    assert [name for name in files if not (PACKAGE / name).is_file() and name not in inside_torch] == []


def test_every_module_has_a_place_on_it():
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert [name for name in sorted(modules - {"__init__"}) if not re.search(rf"\b{name}\b", MAP)] == []


def test_the_losses_never_run_what_it_says_they_never_run():
    listed = names(paragraph("What the losses never run")) - {"ctc", "rnnt", "batched", "torch_impl"}
    used = reached(LOSSES)
    assert len(listed) == 26 and {"sweeps.ctc", "torch_impl.triton_backend", "semiring"} <= used
    never = {name.removesuffix(".py").replace("/", ".") for name in listed}
    assert sorted(module for module in used if module in never or module.split(".")[0] in never) == []
    others = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    others -= {module.split(".")[0] for module in used} | {"__init__", "hat"}
    assert others <= never, "what no loss runs is on the list"


def test_the_step_to_the_logits_is_where_it_says():
    for loss in ("ctc", "rnnt"):
        tree = ast.parse((PACKAGE / f"{loss}.py").read_text(encoding="utf-8"))
        body = {node.name: node.body for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert ast.unparse(body["grad_logits"][-1]) == (
            "return np.exp(log_probs) * expected.sum(-1, keepdims=True) - expected")
        assert {"alpha", "beta"} <= set(body)


def test_kernels_are_where_it_says():
    kernels = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")
               if re.search(r"^@triton\.jit", path.read_text(encoding="utf-8"), re.MULTILINE)}
    assert kernels == {"torch_impl/triton_lattice.py", "torch_impl/triton_vocabulary.py"}
    assert all(Path(each).name in paragraph("What runs on a GPU") for each in kernels)


def test_the_internal_rooms_say_so_themselves():
    internal = paragraph("Internal, free to change")
    assert ROOMS <= names(internal)
    for room in ROOMS:
        text = (PACKAGE / room / "__init__.py").read_text(encoding="utf-8")
        assert "Internal" in ast.get_docstring(ast.parse(text)), room

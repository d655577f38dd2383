"""The list of other people's losses is well-formed, and the helpers of their adapters change what they say, no more."""

import ast
import builtins
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from reference_impl.conformance import answering, encoding

PEERS = Path(__file__).parent.parent / "peers"
LIBRARIES = PEERS / "libraries"


@pytest.fixture
def environments(monkeypatch):
    monkeypatch.syspath_prepend(PEERS)
    import environments
    yield environments
    sys.modules.pop("environments")


@pytest.fixture
def batches(monkeypatch):
    monkeypatch.syspath_prepend(PEERS / "common")
    import batches
    yield batches
    sys.modules.pop("batches")


def test_every_peer_has_what_its_entry_names(environments):
    peers = environments.peers()
    assert len({peer.name for peer in peers}) == len(peers) > 50
    for peer in peers:
        assert peer.kind in ("ctc", "rnnt") and peer.needs in ("", "cuda") and set(peer.can) <= set(answering.CAN), peer
        assert peer.adapter.is_file(), peer
        # a total over the batch has no weights for its utterances
        assert "upstream" not in peer.can or not re.search(r"\b(sum|mean)\b", peer.name), peer


def test_no_folder_is_taken_for_a_library():
    """Where Python looks for modules, it takes a folder for a package: for torchaudio, if none is installed."""
    libraries = {folder.name for folder in LIBRARIES.iterdir()}
    assert not [path for path in sys.path for folder in Path(path or ".").glob("*") if folder.name in libraries
                and not (folder / "__init__.py").exists()]


def test_every_adapter_belongs_to_a_peer(environments):
    adapters = {peer.adapter for peer in environments.peers()}
    assert adapters == set(LIBRARIES.glob("*/*.py")) - set(LIBRARIES.glob("*/calls.py"))


def test_versions_are_pinned(environments):
    for folder in environments.libraries():
        for file in (LIBRARIES / folder).glob("requirements*.txt"):
            lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
            assert lines and all(re.fullmatch(r"[\w.-]+==[\w.+]+", line) for line in lines), file


def test_what_is_not_here_has_a_reason():
    for entry in tomllib.loads((PEERS / "not_here.toml").read_text())["left_out"]:
        assert entry["kind"] in ("ctc", "rnnt", "both") and entry["name"] and entry["reason"].endswith("."), entry


def test_an_environment_is_ready_until_its_requirements_change(environments, monkeypatch, tmp_path):
    monkeypatch.setattr(environments, "LIBRARIES", tmp_path)
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path / "made")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "peer.toml").write_text("peers = []\n")
    (tmp_path / "made" / "library").mkdir(parents=True)
    requirements = tmp_path / "library" / "requirements.txt"
    requirements.write_text("one==1\n")
    assert not environments.is_ready("library")
    (tmp_path / "made" / "library" / "requirements.digest").write_text(environments._digest("library"))
    assert environments.is_ready("library")
    requirements.write_text("one==2\n")
    assert not environments.is_ready("library")


@pytest.fixture
def old_library(environments, monkeypatch, tmp_path):
    """A library that wants Python 3.9, where there is no Python but what a test puts into ``tmp_path``."""
    monkeypatch.setattr(environments, "LIBRARIES", tmp_path / "peers")
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path / "made")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.delenv("PEERS_PYTHON_3_9", raising=False)
    monkeypatch.setattr(environments.shutil, "which", lambda name: str(tmp_path / name))
    (tmp_path / "peers" / "old").mkdir(parents=True)
    (tmp_path / "peers" / "old" / "requirements.txt").write_text("one==1\n")
    (tmp_path / "peers" / "old" / "peer.toml").write_text("""python = "3.9"
peers = [{name = "old", kind = "ctc", adapter = "ctc.py"}]
""")
    return environments


def says(path, version):
    """A program that says it is a Python of this version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{version} (made up)'\n")
    path.chmod(0o755)
    return path


def test_an_older_python_is_named_or_on_the_path_or_of_pyenv(old_library, monkeypatch, tmp_path):
    def found(wanted="3.9"):
        old_library.interpreter.cache_clear()
        old_library.version.cache_clear()
        return old_library.interpreter(wanted)

    assert found("") == Path(sys.executable) and found() is None
    of_pyenv = says(tmp_path / "pyenv" / "versions" / "3.9.7" / "bin" / "python", "3.9.7")
    says(tmp_path / "pyenv" / "versions" / "3.10.2" / "bin" / "python", "3.10.2")
    assert found() == of_pyenv and found("3.1") is None
    on_path = says(tmp_path / "python3.9", "3.9.1")
    assert found() == on_path
    on_path.write_text("#!/bin/sh\necho 'pyenv: python3.9: command not found' >&2; exit 127\n")
    assert found() == of_pyenv
    monkeypatch.setenv("PEERS_PYTHON_3_9", str(says(tmp_path / "named", "3.9.2")))
    assert found() == tmp_path / "named"
    says(tmp_path / "named", "3.90.1")
    assert found() is None


def test_without_the_older_python_nothing_is_made_and_the_list_says_why(old_library, monkeypatch, capsys):
    peer, = old_library.peers()
    assert peer.missing == "needs Python 3.9" and not list(old_library.programs())
    monkeypatch.setattr(sys, "argv", ["environments.py"])
    assert old_library.main() == 1
    printed = capsys.readouterr().err
    assert "old: FAILED\nneeds Python 3.9" in printed and "Without an environment: old." in printed
    assert not old_library.ENVIRONMENTS.exists()


def test_an_environment_is_that_of_its_python(old_library, tmp_path):
    python = says(tmp_path / "python3.9", "3.9.1")
    (tmp_path / "made" / "old").mkdir(parents=True)
    (tmp_path / "made" / "old" / "requirements.digest").write_text(old_library._digest("old"))
    peer, = old_library.peers()
    assert peer.missing == "" and [each for each, *_ in old_library.programs()] == [peer]
    says(python, "3.9.2")
    old_library.version.cache_clear()
    assert "not up to date" in peer.missing


def newer_than(python, tree):
    """What parses in Python 3.8 or 3.9, and does not run: types joined by |, but in annotations, and strict."""
    if python >= (3, 10):
        return []
    fields = ("annotation", "returns")
    kept = {id(node) for each in ast.walk(tree) for field in fields for node in ast.walk(getattr(each, field, None) or
                                                                                         ast.Pass())}
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
              and id(node) not in kept]
    types = [node for node in joined for side in (node.left, node.right)
             if isinstance(side, ast.Name) and isinstance(getattr(builtins, side.id, None), type)]
    return types + [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "strict"]


def test_what_is_newer_is_found():
    text = "def f(x: int | None) -> int | str:\n    return 1 | isinstance(x, {})"
    assert not newer_than((3, 9), ast.parse(text.format("(int, str)")))
    assert newer_than((3, 9), ast.parse(text.format("int | str"))) and not newer_than((3, 10), ast.parse(text))
    assert newer_than((3, 8), ast.parse("zip(x, y, strict=True)"))


def test_adapters_for_an_older_python_import_what_runs_there(environments):
    old = {folder: about["python"] for folder, about in environments.libraries().items() if "python" in about}
    shared = {path.stem: path for path in (PEERS / "common").glob("*.py")}
    for folder, python in old.items():
        python = tuple(map(int, python.split(".")))
        assert python >= (3, 8), f"{folder}; math.prod in encoding.py needs Python 3.8"
        files = [*(LIBRARIES / folder).glob("*.py"), Path(answering.__file__), Path(encoding.__file__)]
        for file in files:
            tree = ast.parse(file.read_text(), feature_version=python)
            assert not newer_than(python, tree), file
            names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
            assert not any(name.startswith("reference_impl") for name in names), f"{file}; expected `answering`"
            files += [shared[name] for name in names & set(shared) if shared[name] not in files]
    assert old


@pytest.mark.parametrize("given, wanted", [(0, -1), (2, -1), (3, 0), (1, 0), (0, 0)])
def test_renamed_symbols_are_named_back(batches, given, wanted):
    V, rng = 4, np.random.default_rng(given)
    labels = np.array([k for k in range(V) if k != given])
    inputs = {"logits": rng.normal(size=(5, V)), "targets": np.append(labels, [V, -1]), "blank": given}
    asked = batches.batch(inputs, "float64").with_blank(wanted)
    assert asked.blank == wanted % V
    # every label finds its own scores under its new name; what is no label stays what it is
    np.testing.assert_array_equal(asked.scores[0][:, asked.targets[0, :-2]], inputs["logits"][:, labels])
    np.testing.assert_array_equal(asked.scores[0][:, asked.blank], inputs["logits"][:, given])
    np.testing.assert_array_equal(asked.targets[0, -2:], [V, -1])
    answer = asked.answer([1.5], asked.scores, scores_after=asked.scores)
    assert answer["loss"] == 1.5
    np.testing.assert_array_equal(answer["gradient"], inputs["logits"])
    np.testing.assert_array_equal(answer["scores_after"], inputs["logits"])

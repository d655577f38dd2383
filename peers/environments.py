"""Makes the environments in which other people's losses run, and says how to start each. It compares nothing.

    python3 peers/environments.py              make what is missing, for every library
    python3 peers/environments.py torch k2     for these only
    python3 peers/environments.py --list       what there is, and what does not run here, with the reason

Each folder in `libraries/` with a `peer.toml` is a library. Its environment is `.venv-peers/FOLDER`, made by pip
from `requirements.txt` and, if there is one, `requirements-no-deps.txt`, whose packages are installed without what they
ask for. An environment is made anew when these files change. It has the Python that starts this script, unless its
`peer.toml` names another. `README.md` describes the files; `programs()` is what a checker calls.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
#: A folder for each, down here because Python takes a folder on its path for the package of that name.
LIBRARIES = HERE / "libraries"
ENVIRONMENTS = ROOT / ".venv-peers"
REQUIREMENTS, NO_DEPENDENCIES = "requirements.txt", "requirements-no-deps.txt"


@dataclass(frozen=True)
class Peer:
    """One loss of a library, called in one way: an entry of `peer.toml`."""

    name: str
    kind: str
    library: str
    adapter: Path
    arguments: tuple[str, ...]
    can: tuple[str, ...]
    needs: str
    variables: dict[str, str]
    #: Groups of cases that it is not asked about, such as long utterances where a simulator is slow.
    without: tuple[str, ...] = ()
    #: As "3.9", if the library wants another Python than this one.
    wants: str = ""

    @property
    def slug(self) -> str:
        """Its name as that of a file, and of a place on a page."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def python(self) -> Path:
        return ENVIRONMENTS / self.library / "bin" / "python"

    @property
    def command(self) -> list[str]:
        return [str(self.python), str(self.adapter), *self.arguments]

    @property
    def missing(self) -> str:
        """Why it cannot run here; empty if it can."""
        if self.needs == "cuda" and not shutil.which("nvidia-smi"):
            return "needs a CUDA device"
        if not interpreter(self.wants):
            return f"needs Python {self.wants}"
        if not is_ready(self.library):
            return f"there is no environment {self.python.parent.parent.relative_to(ROOT)}, or it is not up to date"
        return ""


def libraries() -> dict[str, dict]:
    """What `peer.toml` says, by folder."""
    return {file.parent.name: _about(file.parent.name) for file in sorted(LIBRARIES.glob("*/peer.toml"))}


def _about(folder):
    return tomllib.loads((LIBRARIES / folder / "peer.toml").read_text())


def peers(only=()) -> list[Peer]:
    """Every peer, whether it can run here or not."""
    return [Peer(name=entry["name"], kind=entry["kind"], library=folder, adapter=LIBRARIES / folder / entry["adapter"],
                 arguments=tuple(entry.get("arguments", ())), can=tuple(entry.get("can", ())),
                 needs=entry.get("needs", ""), variables=about.get("variables", {}) | entry.get("variables", {}),
                 without=tuple(entry.get("without", ())), wants=about.get("python", ""))
            for folder, about in libraries().items() if not only or folder in only
            for entry in about.get("peers", ())]


def programs(only=(), *, here=False):
    """Yield (peer, command, environment variables) for every peer that can run here.

    The variables are those of this process, with what the adapter needs besides. With ``here``, peers that need CUDA
    and no others, in the Python that runs this: a machine with a GPU may have no network to make an environment.
    """
    for peer in peers(only):
        if here and peer.needs == "cuda" and shutil.which("nvidia-smi"):
            yield peer, [sys.executable, *peer.command[1:]], variables(peer.library, peer.variables)
        elif not here and not peer.missing:
            yield peer, peer.command, variables(peer.library, peer.variables)


def variables(folder, others):
    """The environment variables of a program of a library."""
    paths = os.pathsep.join([str(ROOT / "src"), str(HERE / "common")])
    others = {name: value.format(environment=ENVIRONMENTS / folder) for name, value in others.items()}
    return {**os.environ, "PYTHONPATH": paths, "PYTHONNOUSERSITE": "1", **others}


@cache
def interpreter(wanted: str) -> Path | None:
    """A Python of a version such as "3.9", or None if there is none; for "" the one that runs this.

    It is what the variable PEERS_PYTHON_3_9 names, or else python3.9 on the path, or else one of pyenv's.
    """
    if not wanted:
        return Path(sys.executable)
    if named := os.environ.get("PEERS_PYTHON_" + wanted.replace(".", "_")):
        candidates = [named]
    else:
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        candidates = [shutil.which(f"python{wanted}"), *sorted(pyenv.glob(f"versions/{wanted}.*/bin/python"))]
    return next((Path(each) for each in candidates if each and version(each).startswith(wanted + ".")), None)


@cache
def version(python) -> str:
    """What a Python says of its version; nothing if it does not run, as what pyenv puts on the path may not."""
    try:
        run = subprocess.run([python, "-c", "import sys; print(sys.version)"], text=True, capture_output=True)
    except OSError:
        return ""
    return "" if run.returncode else run.stdout.strip()


def is_ready(folder: str) -> bool:
    """Whether the environment of a library was made from its requirements as they are now, with the same Python."""
    stamp = ENVIRONMENTS / folder / "requirements.digest"
    return stamp.exists() and stamp.read_text() == _digest(folder)


def make(folder: str) -> str:
    """Make the environment of a library; return what pip said if it failed, else nothing."""
    about, target = _about(folder), ENVIRONMENTS / folder
    base = interpreter(wanted := about.get("python", ""))
    if not base:
        return f"needs Python {wanted}"
    shutil.rmtree(target, ignore_errors=True)
    python = target / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-input"]
    steps = [[base, "-m", "venv", target], [*pip, "-r", LIBRARIES / folder / REQUIREMENTS]]
    if (LIBRARIES / folder / NO_DEPENDENCIES).exists():
        # what is built from source is built here and now, against the packages of the first file
        pip += ["--no-deps", "--no-build-isolation", "--no-cache-dir"]
        steps.append([*pip, "-r", LIBRARIES / folder / NO_DEPENDENCIES])
    build = {name: value.format(common=HERE / "common") for name, value in about.get("build_variables", {}).items()}
    building = {**os.environ, "PATH": f"{target / 'bin'}{os.pathsep}{os.environ['PATH']}", **build}
    steps = [(step, building) for step in steps]
    if prepare := about.get("prepare"):
        steps.append(([python, "-c", prepare], variables(folder, about.get("variables", {}))))
    for step, environment in steps:
        run = subprocess.run(step, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        if run.returncode:
            return run.stdout[-6000:]
    (target / "requirements.digest").write_text(_digest(folder))
    return ""


def _requirements(folder):
    """The text of the files that name a library's packages."""
    files = [LIBRARIES / folder / name for name in (REQUIREMENTS, NO_DEPENDENCIES)]
    return "".join(file.read_text() for file in files if file.exists())


def _digest(folder):
    python = interpreter(_about(folder).get("python", ""))
    return hashlib.sha256(((version(python) if python else "none") + _requirements(folder)).encode()).hexdigest()


def digest(peer: Peer) -> str:
    """A digest of what decides a peer's answers: packages, the adapter and what it imports from common/, the entry."""
    about = libraries()[peer.library]
    entry = [peer.name, peer.kind, peer.arguments, peer.can, peer.needs, peer.without, sorted(peer.variables.items()),
             sorted(about.get("build_variables", {}).items()), about.get("prepare", "")]
    parts = [*pinned(peer.library), *(source.read_text() for source in sources(peer.adapter)), json.dumps(entry)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def sources(script: Path) -> list[Path]:
    """A script, and the files in common/ that it needs."""
    found = [script]
    for source in found:  # which grows
        imported = re.findall(r"^(?:from|import) (\w+)", source.read_text(), re.MULTILINE)
        files = [HERE / "common" / f"{name}.py" for name in imported]
        found += [file for file in files if file.exists() and file not in found]
    return found


def pinned(folder: str) -> list[str]:
    """The packages of a library's environment that its files name, such as torch==2.9.1."""
    lines = [line.strip() for line in _requirements(folder).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _size(folder):
    """Megabytes of an environment."""
    files = (ENVIRONMENTS / folder).rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink()) // 1_000_000


def _list():
    for peer in peers():
        print(f"{peer.name:44} {peer.kind:5} {peer.missing or 'ready'}")
    print("\nWhat has no adapter:")
    for entry in tomllib.loads((HERE / "not_here.toml").read_text())["left_out"]:
        print(f"{entry['name']:44} {entry['kind']:5} {entry['reason']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help="folders in libraries/; all if left out")
    parser.add_argument("--list", action="store_true", help="list the peers, and make nothing")
    arguments = parser.parse_args()
    if arguments.list:
        return _list()
    known = libraries()
    if unknown := set(arguments.libraries) - set(known):
        parser.error(f"{', '.join(sorted(unknown))}; expected some of {', '.join(known)}")
    failed = []
    for folder in arguments.libraries or known:
        if is_ready(folder):
            print(f"{folder}: there", flush=True)
        elif said := make(folder):
            print(f"{folder}: FAILED\n{said}", file=sys.stderr, flush=True)
            failed.append(folder)
        else:
            print(f"{folder}: made, {_size(folder)} MB", flush=True)
    if failed:
        print(f"Without an environment: {', '.join(failed)}. The reasons are above.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

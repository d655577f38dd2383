"""The command line of bubblewrap around a submission: namespaces, and only those files that Python needs. No limits.

The first process in there is bubblewrap's own: it ends with the grader, and everything ends with it. That would not be
so for a process of another user, which nobody but root may signal.

Everything that can be seen is read-only; what can be written is three folders in memory, of a limited size, which are
gone with the process.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path

__all__ = ["IN_MEMORY", "command", "found", "python_and_its_libraries"]

#: Bytes of the folders that can be written: two that libraries write to, and the submission's own, maybe within one.
IN_MEMORY = {"/tmp": 16 * 2**20, "/dev/shm": 16 * 2**20, "": 64 * 2**20}
#: Shared libraries, and the few files of the system that they and Python read.
_SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/lib", "/lib32", "/lib64", "/libx32",
           "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
#: Where a Python of the system has its own files among those of others.
_SHARED_PREFIXES = ("/usr", "/usr/local")
#: What the start of the process needs, as root, to become somebody else.
_TO_CHANGE_THE_USER = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")


def found() -> str | None:
    """Where the program is."""
    return shutil.which("bwrap") if sys.platform.startswith("linux") else None


def python_and_its_libraries() -> list[str]:
    """The folders and files that a Python like this one reads, those that are there."""
    own = {sys.prefix, sys.executable, os.path.realpath(sys.executable)}
    if sys.base_prefix in _SHARED_PREFIXES:
        own |= {path for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib")}
        own |= {str(path) for path in Path(sys.base_prefix, "lib", "python3").parent.glob("python3*")}
    else:
        own.add(sys.base_prefix)
    if sys.prefix in _SHARED_PREFIXES:
        own.remove(sys.prefix)
        own |= {path for name, path in sysconfig.get_paths().items() if name in ("purelib", "platlib")}
    paths = [Path(path) for path in sorted({*own, *_SYSTEM}) if os.path.exists(path)]
    return [str(path) for path in paths if not any(path.is_relative_to(other) for other in paths if other != path)]


def command(program, *, folder, readable, surroundings, as_root) -> list[str]:
    """What stands before the command that is to be fenced in.

    Parameters
    ----------
    program : str
        Where bubblewrap is.
    folder : path-like
        The submission's. What lies there outside can be read in it; the folder itself is an empty one in memory.
    readable : list of paths
        Everything else that can be seen.
    surroundings : dict
        Its environment.
    as_root : bool
        If the grader is root. Then the process starts as root with just the capabilities to become somebody else, since
        others may not be able to reach what root can; else it starts in a user namespace, with none.
    """
    line = [program, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
            "--die-with-parent", "--cap-drop", "ALL"]
    if as_root:
        for capability in _TO_CHANGE_THE_USER:
            line += ["--cap-add", capability]
    else:
        line += ["--unshare-user"]
    line += ["--clearenv"]
    for name, value in surroundings.items():
        line += ["--setenv", name, value]
    line += ["--proc", "/proc", "--dev", "/dev"]
    for path, size in IN_MEMORY.items():
        line += [*_ways_to(path or folder), "--perms", "1777", "--size", str(size), "--tmpfs", path or str(folder)]
    for path in [*readable, *sorted(Path(folder).iterdir())]:
        line += [*_ways_to(path), "--ro-bind", str(path), str(path)]
    # the folders between those above are bubblewrap's own, in memory too, and of no limited size
    return [*line, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(folder), "--"]


def _ways_to(path):
    """The folders that lead there, for everybody to enter; those that bubblewrap makes by itself are its user's."""
    for folder in list(reversed(Path(path).parents))[1:]:
        if str(folder) not in IN_MEMORY:
            yield from ("--perms", "0755", "--dir", str(folder))

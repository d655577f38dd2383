"""Imports a module of a large library without the packages around it, which would import all the rest."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def module(name, *bare):
    """The module ``name``; every package in ``bare``, and what contains it, is taken as a folder and not imported."""
    top = name.partition(".")[0]
    found = sys.modules.get(top) or importlib.util.find_spec(top)
    folder = Path(next(iter(getattr(found, "__path__", None) or found.submodule_search_locations))).parent
    for path in bare:
        parts = path.split(".")
        for n in range(1, len(parts) + 1):
            package = ".".join(parts[:n])
            if package not in sys.modules:
                sys.modules[package] = ModuleType(package)
                sys.modules[package].__path__ = [str(folder.joinpath(*parts[:n]))]
    return importlib.import_module(name)

"""Measured results in ``data/`` as chapters show them, and exact counts of what a computation moves. It times nothing.

A time belongs to a machine. A count does not: :func:`moved_bytes` adds up the bytes that Triton kernels read and write,
access by access, in Triton's interpreter; :class:`Passes` counts the large arrays that torch's operations go through.
"""

from __future__ import annotations

import importlib.util
import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Passes", "moved_bytes", "newest", "stamp"]


def newest(name, folder):
    """The newest result of a benchmark: of ``name.json`` and ``name-*.json`` the one with the latest date, or None.

    Parameters
    ----------
    name : str
        Such as "cpu" or "cuda".
    folder : path
        Of a notebook, ``"../data"``.

    Returns
    -------
    dict or None
    """
    folder = Path(folder)
    paths = [folder / f"{name}.json", *sorted(folder.glob(f"{name}-*.json"))]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    return max(results, key=lambda result: result["date"], default=None)


def stamp(result):
    """One line that says when, on what and with which versions a result was measured.

    Examples
    --------
    >>> stamp({"date": "2026-01-31", "python": "3.12.1", "versions": {"numpy": "2.4.6"},
    ...        "machine": {"architecture": "x86_64", "cores": 2}})
    'measured 2026-01-31 on x86_64, 2 cores; python 3.12.1, numpy 2.4.6'
    """
    machine = result.get("machine", {})
    where = result.get("device") or ", ".join(
        f"{value} {name}" if name == "cores" else str(value) for name, value in machine.items())
    versions = {"python": result["python"]} if "python" in result else {}
    versions |= result["versions"]
    return (f"measured {result['date']}" + (f" on {where}" if where else "") + "; "
            + ", ".join(f"{package} {number}" for package, number in versions.items()))


@contextmanager
def moved_bytes():
    """Count the bytes that Triton kernels read and write, in the interpreter.

    A byte counts once in each launch, however often the launch asks for it: what an ideal cache would let through.

    Yields
    ------
    dict
        From (kernel, array, "read" or "write") to bytes, added up over the launches. The array is the name of the
        kernel's parameter; two that share their memory count as the first of them.

    Raises
    ------
    RuntimeError
        Without Triton, or if Triton compiles kernels instead of interpreting them.
    """
    if importlib.util.find_spec("triton") is None:
        raise RuntimeError("bytes are counted in Triton's interpreter, and triton is not installed")
    import triton

    if not triton.knobs.runtime.interpret:
        raise RuntimeError("bytes are counted in Triton's interpreter; expected TRITON_INTERPRET=1, "
                           "set before triton is imported")
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    moved, touched, arrays = {}, {}, []
    launch, load, store = GridExecutor.__call__, InterpreterBuilder.create_masked_load, \
        InterpreterBuilder.create_masked_store

    def note(pointers, mask, kind):
        addresses = np.asarray(pointers.data)[np.broadcast_to(np.asarray(mask.data, bool), pointers.data.shape)]
        for name, start, end, size in arrays if len(addresses) else ():
            if start <= addresses[0] < end:
                touched.setdefault((name, kind, size), []).append(np.unique(addresses))
                return

    def noted_load(self, pointers, mask, *rest):
        note(pointers, mask, "read")
        return load(self, pointers, mask, *rest)

    def noted_store(self, pointers, value, mask, *rest):
        note(pointers, mask, "write")
        return store(self, pointers, value, mask, *rest)

    def noted_launch(self, *args, **options):
        named = {**dict(zip(self.arg_names, args, strict=False)), **options}
        arrays[:] = [(name, each.data_ptr(), each.data_ptr() + _span(each), each.element_size())
                     for name, each in named.items() if isinstance(each, torch.Tensor)]
        touched.clear()
        launch(self, *args, **options)
        for (name, kind, size), addresses in touched.items():
            key = self.fn.__name__, name, kind
            moved[key] = moved.get(key, 0) + size * len(np.unique(np.concatenate(addresses)))

    GridExecutor.__call__ = noted_launch
    InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store = noted_load, noted_store
    try:
        yield moved
    finally:
        GridExecutor.__call__ = launch
        InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store = load, store


def _span(tensor):
    """Bytes from the first element of a tensor to the end of its last."""
    last = sum(stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
    return (last + 1) * tensor.element_size() if tensor.numel() else 0


class Passes(TorchDispatchMode):
    """Counts the passes over large arrays that torch's operations make, backward ones included.

    One pass is ``size`` bytes read or written. An operation reads its arguments and writes its results; views move
    nothing, and an operation in place reads and writes what it changes. Arrays smaller than ``size`` are left out, and
    so is what an operation does inside of itself: the count is a lower bound.

    Parameters
    ----------
    size : int
        Bytes of the array in question, such as ``logits.nbytes``.

    Attributes
    ----------
    steps : list of (operation, reads, writes)
    allocated : int
        Bytes of the arrays, of any size, that were made with ``torch.empty`` and the like.

    Examples
    --------
    >>> x = torch.ones(1000)
    >>> with Passes(x.nbytes) as passes:
    ...     y = (x - 1.0).exp_()
    >>> passes.steps, passes.total
    ([('sub', 1.0, 1.0), ('exp_', 1.0, 1.0)], 4.0)
    """

    # they touch few entries of the large array
    _SPARSE = {"gather", "index_select", "scatter_add_", "scatter_add", "_ctc_loss"}
    _FILL = {"zero_", "fill_"}

    def __init__(self, size):
        super().__init__()
        self.size, self.steps, self.allocated = size, [], 0

    @property
    def total(self):
        return sum(reads + writes for _, reads, writes in self.steps)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        aliases = [each.alias_info for each in function._schema.returns]
        view = any(alias is not None and not alias.is_write for alias in aliases)
        if name.startswith("empty"):
            self.allocated += result.nbytes
        elif not view and name not in self._SPARSE:
            inputs = [] if name in self._FILL else tree_leaves((args, kwargs))
            reads, writes = self._passes(inputs), self._passes(tree_leaves(result))
            if reads + writes:
                self.steps.append((name, reads, writes))
        return result

    def _passes(self, leaves):
        sizes = [each.nbytes for each in leaves
                 if isinstance(each, torch.Tensor) and 0 not in each.stride()]
        return sum(size for size in sizes if size >= self.size) / self.size

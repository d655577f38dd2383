"""The bytes that Triton kernels read and write, counted access by access in Triton's interpreter. It times nothing.

A time belongs to a machine; a count does not. The interpreter has no hook for this, so its methods are replaced while
the count runs, and put back afterwards: a new version of Triton may need new ones.
"""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["moved_bytes", "of_the_lattice"]

# Targets, and what there is once for each utterance.
_FEW = {"targets", "labels_in_order", "order", "T_of", "U_of", "log_z", "loss", "upstreams", "end_shares"}


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


def of_the_lattice(moved):
    """The arrays of some numbers a node, kernel by kernel: logits, gradient and small arrays are left out.

    Examples
    --------
    >>> of_the_lattice({("rnnt_rows", "logits", "read"): 48, ("rnnt_rows", "peaks", "write"): 16,
    ...                 ("rnnt_rows", "masses", "write"): 16, ("rnnt_rows", "targets", "read"): 8})
    {'rnnt_rows': 32}
    """
    sums = {}
    for (kernel, array, _), count in moved.items():
        if array not in _FEW | {"logits", "grad"}:
            sums[kernel] = sums.get(kernel, 0) + count
    return sums


def _span(tensor):
    """Bytes from the first element of a tensor to the end of its last."""
    last = sum(stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
    return (last + 1) * tensor.element_size() if tensor.numel() else 0

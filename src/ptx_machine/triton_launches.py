"""Triton kernels launched on the machine instead of a GPU, on torch's CPU tensors, with every launch reported."""

from __future__ import annotations

import inspect
import linecache
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np

from .compiling import CompileError, compiled, specialised
from .launching import SHARED_MEMORY, Buffer, LaunchError, launch
from .program import Program

__all__ = ["CompileError", "Recorded", "TritonLaunches"]


class TritonLaunches:
    """Stands in for the GPU of some kernels.

    Parameters
    ----------
    capability : int
        Of the GPU that is stood in for, as 90 for sm_90. Its shared memory, of which SHARED_MEMORY knows, is the limit.
    order, blur : int, optional
        Seeds, as of :func:`~ptx_machine.launch`.
    changed : callable, optional
        Of a program: what to run instead of it.
    record : bool
        Whether to keep each launch, with what was in memory before it.

    Attributes
    ----------
    reports : list of Report
        One for each launch.
    launches : list of Recorded
        The same, if they are recorded.

    Examples
    --------
    With kernels in a module ``kernels``, whose functions launch them as ``kernels.double[grid](...)``::

        machine = TritonLaunches(order=0)
        with machine.replacing(kernels):
            function_that_launches(tensor)
        print(machine.reports[0].describe())
    """

    def __init__(self, capability=90, *, order=None, blur=None, changed=None, record=False):
        self.capability, self.order, self.blur, self.changed = capability, order, blur, changed
        self.record, self.reports, self.launches = record, [], []

    @contextmanager
    def replacing(self, *modules):
        """Within the context, kernels that the modules name in ``__all__`` run on the machine.

        What ``torch.empty`` and its like give there is filled with a pattern, by which a launch knows that nobody has
        written it.
        """
        originals = [(module, name, getattr(module, name)) for module in modules for name in module.__all__
                     if hasattr(getattr(module, name), "arg_names")]
        for module, name, kernel in originals:
            setattr(module, name, self.kernel(kernel))
        try:
            with _marking_empty_memory():
                yield self
        finally:
            for module, name, kernel in originals:
                setattr(module, name, kernel)

    def kernel(self, kernel):
        """A kernel that is launched as Triton's are, ``kernel[grid](*arguments, **options)``, and runs here."""
        return _Kernel(kernel, self)

    def launch(self, kernel, grid, arguments, options):
        """One launch; its report is kept, and returned.

        Raises
        ------
        ValueError
            If a parameter of the kernel has no argument.
        CompileError
            For a kernel that Triton does not compile.
        LaunchError, PTXError
            As :func:`~ptx_machine.launch`.
        """
        specification, left = specialised(kernel.arg_names, arguments, options)
        made = compiled(kernel, specification, self.capability)
        program = made.program if self.changed is None else self.changed(made.program)
        names = [name for name, kind in specification["signature"].items() if kind != "constexpr"]
        values = [buffer_of(name, value) if hasattr(value, "data_ptr") else value
                  for name, value in zip(names, left, strict=True)]
        scratch = len(program.parameters) - len(values)
        if not 0 <= scratch <= 2:  # of Triton's runtime and of its profiler, which kernels without them do not use
            raise LaunchError(f"{program.name} has {len(program.parameters)} parameters; expected {len(values)}, and "
                              "two at most that are Triton's")
        arguments, limit = values + [0] * scratch, SHARED_MEMORY.get(f"sm_{self.capability}")
        if self.record:
            file = inspect.getsourcefile(kernel.fn)
            self.launches.append(Recorded(program, grid, _copied(arguments), made.shared_bytes, file))
        self.reports.append(launch(program, grid, arguments, shared_bytes=made.shared_bytes, shared_limit=limit,
                                   order=self.order, blur=self.blur))
        return self.reports[-1]


@dataclass(frozen=True)
class Recorded:
    """A launch that can be run again, for experiments: with one barrier less, in another order.

    Parameters
    ----------
    program : Program
    grid : tuple of int
    arguments : list
        Buffers, as they were before the launch, and numbers.
    shared_bytes : int
        Of the array whose size the launch gives, for each block.
    file : str
        The kernel's.
    """

    program: Program
    grid: tuple
    arguments: list
    shared_bytes: int
    file: str

    def source(self, index):
        """The line of the kernel's file from which an instruction was made, the innermost one; or file and line."""
        for file, line in self.program.instructions[index].source:
            if self.file.endswith(file):
                return linecache.getline(self.file, line).strip()
        return ":".join(map(str, *self.program.instructions[index].source[:1]))

    def run(self, program=None, *, order=None, blur=None):
        """The same launch once more, of the same program or another one: its report, and the bytes of its buffers.

        Parameters
        ----------
        program : Program, optional
        order, blur : int, optional
            Seeds, as of :func:`~ptx_machine.launch`.

        Returns
        -------
        (Report, dict)
            And what the launch left in each buffer, by the buffer's name: arrays of uint8.
        """
        arguments = _copied(self.arguments)
        report = launch(program or self.program, self.grid, arguments, shared_bytes=self.shared_bytes, order=order,
                        blur=blur)
        return report, {each.name: each.data for each in arguments if isinstance(each, Buffer)}


def _copied(arguments):
    """Buffers with memory of their own; those that shared theirs still do."""
    copies = {}
    for each in arguments:
        if isinstance(each, Buffer):
            copies.setdefault(each.data.ctypes.data, each.data.copy())
    return [replace(each, data=copies[each.data.ctypes.data]) if isinstance(each, Buffer) else each
            for each in arguments]


class _Kernel:
    def __init__(self, kernel, machine):
        self.kernel, self.machine = kernel.kernel if isinstance(kernel, _Kernel) else kernel, machine
        self.arg_names = self.kernel.arg_names

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.machine.launch(self.kernel, grid, arguments, options)


@contextmanager
def _marking_empty_memory():
    import torch

    def marking(usual):
        def empty(*arguments, **options):
            tensor = usual(*arguments, **options)
            if type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout == torch.strided:
                _bytes_of(tensor)[:] = _UNWRITTEN
            return tensor
        return empty

    with ExitStack() as patches:
        for place, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
            patches.enter_context(mock.patch.object(place, name, marking(getattr(place, name))))
        yield


_UNWRITTEN = 0xA7  # four bytes of it are a word that nobody has written


def _bytes_of(tensor):
    """All bytes of a tensor's storage."""
    import torch

    return torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()


def buffer_of(name, tensor):
    """A torch tensor on the CPU as a buffer: the bytes of its storage, of which only its own elements exist.

    Words that hold the pattern of empty memory count as not written; see :meth:`TritonLaunches.replacing`.
    """
    data, size = _bytes_of(tensor), tensor.element_size()
    steps = [size * stride for stride in tensor.stride()]
    exists = np.zeros(len(data), bool)
    elements = exists[:len(data) // size * size].reshape(-1, size)[tensor.storage_offset():]
    if tensor.numel():
        np.lib.stride_tricks.as_strided(elements, (*tensor.shape, size), (*steps, 1))[:] = True
    unwritten = (data[:len(data) // 4 * 4].reshape(-1, 4) == _UNWRITTEN).all(1)
    written = True
    if unwritten.any():
        written = np.ones(len(data), bool)
        written[:4 * len(unwritten)] = ~unwritten.repeat(4)
    alignment = tensor.untyped_storage().data_ptr() % 256
    return Buffer(name, data, tensor.storage_offset() * size, alignment, exists, written)

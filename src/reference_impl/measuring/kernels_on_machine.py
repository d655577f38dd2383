"""The Triton kernels of both losses launched on ``ptx_machine`` instead of a GPU. No kernel is here, and no loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from ptx_machine import SHARED_MEMORY
from ptx_machine.triton_launches import TritonLaunches

from ..torch_impl import losses

__all__ = ["kernels_on_machine"]


@contextmanager
def kernels_on_machine(machine: TritonLaunches) -> Iterator[TritonLaunches]:
    """Within the context, ``backend="triton"`` takes CPU tensors, and the machine executes the compiled kernels.

    A launch gets as much shared memory as the GPU has that the machine stands in for. Whether Triton interprets kernels
    in this process or compiles them does not matter.

    Parameters
    ----------
    machine : TritonLaunches
        It keeps a report of each launch.

    Yields
    ------
    TritonLaunches
        The same.

    Raises
    ------
    ModuleNotFoundError
        If triton is not installed.
    KeyError
        If :data:`~ptx_machine.SHARED_MEMORY` does not know the GPU that the machine stands in for.

    Examples
    --------
    To see what the kernels of one step do, with warps and blocks in random order::

        with kernels_on_machine(TritonLaunches(order=0)) as machine:
            rnnt_loss(logits, targets, logit_lengths, target_lengths, backend="triton").backward()
        for report in machine.reports:
            print(report.describe())
    """
    from ..torch_impl import triton_backend, triton_lattice, triton_vocabulary  # triton may be missing

    shared_memory = SHARED_MEMORY[f"sm_{machine.capability}"]
    with (machine.replacing(triton_vocabulary, triton_lattice),
          mock.patch.object(losses, "_interprets_triton", lambda: True),
          mock.patch.object(triton_backend, "_shared_memory", lambda device: shared_memory)):
        yield machine

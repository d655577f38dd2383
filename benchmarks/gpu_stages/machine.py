"""CUDA replaced by ptx_machine: the kernels, compiled for a GPU, are executed on the CPU.

Faults are printed as compute-sanitizer prints them, so that a stage reads both alike.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack

__all__ = ["ENVIRONMENT", "installed", "replacing"]

#: What asks a process, and those that it starts, to launch kernels on the machine.
ENVIRONMENT = {"GPU_STAGES_ON": "ptx_machine", "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}


def installed():
    """Puts the machine in place of the GPU until this process ends, if the environment asks for it; else None.

    Warps and blocks take turns in random order.
    """
    if os.environ.get("GPU_STAGES_ON") != ENVIRONMENT["GPU_STAGES_ON"]:
        return None
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(replacing())


def replacing():
    """A context within which the losses' kernels run on the machine, which is what it gives."""
    from ptx_machine.triton_launches import TritonLaunches
    from reference_impl.measuring.kernels_on_machine import kernels_on_machine

    class Printing(TritonLaunches):
        def launch(self, *launched):
            report = super().launch(*launched)
            for finding in report.findings.values():
                instruction = report.program.instructions[finding.at]
                place = "{} in {}:{}".format(report.program.name, *(*instruction.source, ("?", 0))[0])
                print(f"========= {finding.kind.capitalize()}\n=========     at {place}\n"
                      f"=========     {finding.describe(report.program)}", flush=True)
            return report

    return kernels_on_machine(Printing(order=0))

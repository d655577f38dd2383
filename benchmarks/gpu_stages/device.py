"""Where the kernels run: on CUDA; for a rehearsal, in Triton's interpreter, or compiled on ptx_machine."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass, field

from . import machine

__all__ = ["DEVICES", "Device", "chosen", "is_lost"]

# after these a process can use its CUDA device no more: whatever it tries fails with the same error
_LOST = re.compile("illegal memory access|illegal instruction|misaligned address|unspecified launch failure|"
                   "device-side assert|invalid program counter|hardware stack error|launch timed out|invalid address")


@dataclass(frozen=True)
class Device:
    """A place to run kernels.

    Parameters
    ----------
    name : str
        What ``gpu.py --on`` is given.
    tensors : str
        Torch's device of the tensors that the kernels are given.
    rehearsal : str
        What a result from here says of itself. Empty for CUDA alone: everything else is no result of a GPU.
    environment : dict
        Variables that must be set before triton is imported.
    """

    name: str
    tensors: str
    rehearsal: str = ""
    environment: dict = field(default_factory=dict)

    def absent(self):
        """Why nothing can run here; "" if it can."""
        for module in ("numpy", "torch", "triton"):
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed"
        import torch

        if self.tensors == "cuda" and not torch.cuda.is_available():
            return "torch finds no CUDA device"
        return ""

    def described(self):
        """The GPU as it is stored: its name and some of its numbers; or what stands in for one."""
        if self.tensors != "cuda":
            return {"device": f"none: a rehearsal, {self.rehearsal}", "rehearsal": True}
        import torch

        gpu = torch.cuda.get_device_properties()
        return {"device": gpu.name, "rehearsal": False,
                "gpu": {"capability": f"{gpu.major}.{gpu.minor}", "memory_bytes": gpu.total_memory,
                        "multiprocessors": gpu.multi_processor_count}}


DEVICES = {device.name: device for device in (
    Device("cuda", "cuda"),
    Device("interpreter", "cpu", "the kernels in Triton's interpreter on the CPU, small shapes; times mean nothing",
           {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}),
    Device("ptx_machine", "cpu", "the compiled kernels executed on the CPU, small shapes; times mean nothing",
           machine.ENVIRONMENT))}


def chosen(name):
    """The device of that name; ValueError if there is none."""
    if name not in DEVICES:
        raise ValueError(f"--on = {name}; expected one of {', '.join(DEVICES)}")
    return DEVICES[name]


def is_lost(message):
    """Whether an error means that this process can use its CUDA device no more."""
    return bool(_LOST.search(message))

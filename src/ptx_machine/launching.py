"""A launch: a program, a grid of blocks, memory, and the order in which warps and blocks take their turns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from .arithmetic import DTYPES
from .counting import Counts
from .findings import Findings
from .lanes import Lanes
from .memory import Memory
from .program import Program
from .registers import bits_of

__all__ = ["SHARED_MEMORY", "Buffer", "LaunchError", "Report", "launch"]

#: Bytes of shared memory that a block may have, by the architecture of a GPU.
SHARED_MEMORY = {"sm_75": 65536, "sm_80": 166912, "sm_86": 101376, "sm_89": 101376, "sm_90": 232448,
                 "sm_100": 232448, "sm_120": 101376}
_WARP = 32
_FIRST_ADDRESS, _GAP = 1 << 32, 256


class LaunchError(ValueError):
    """A launch that a device would refuse."""


@dataclass
class Buffer:
    """Memory that a kernel gets a pointer into.

    Attributes
    ----------
    name : str
    data : (n,) array of uint8
        What is there; after the launch, what the kernel made of it.
    offset : int
        Byte that the pointer points to.
    alignment : int
        The address of the first byte, modulo 256.
    exists : (n,) array of bool, optional
        Bytes that belong to the buffer, all unless given: a view of larger memory may skip some.
    written : bool
        False if what is there means nothing: whoever reads a byte has to write it before.
    """

    name: str
    data: np.ndarray
    offset: int = 0
    alignment: int = 0
    exists: np.ndarray | None = None
    written: bool = True


@dataclass
class Report:
    """What a launch showed.

    Attributes
    ----------
    program : Program
    findings : Findings
        Empty for a kernel without a fault.
    counts : Counts
    blocks, warps : int
        Blocks of the launch, warps of each block.
    shared_bytes : int
        Of each block.
    """

    program: Program
    findings: Findings
    counts: Counts
    blocks: int
    warps: int
    shared_bytes: int

    def describe(self):
        """The findings, a line each; or that there are none."""
        lines = [each.describe(self.program) for each in self.findings.values()]
        return "\n".join(lines) or f"{self.program.name}: nothing found in {self.blocks} blocks of {self.warps} warps"


def launch(program, grid, arguments, *, shared_bytes=0, shared_limit=None, order=None, blur=None, budget=10**9):
    """Executes a kernel, block by block.

    Parameters
    ----------
    program : Program
    grid : tuple of int
        Blocks in up to three directions.
    arguments : sequence
        For each parameter of the program an array (changed in place), a :class:`Buffer`, an int or a float.
    shared_bytes : int
        Of the array whose size the launch gives.
    shared_limit : int, optional
        What the device has for a block, as in :data:`SHARED_MEMORY`.
    order : int, optional
        Seed. From one barrier to the next warps run one after another, in random order, and so do blocks. Without a
        seed all warps of a block take each step together, which is one order of many, and the fastest here.
    blur : int, optional
        Seed. Approximate instructions are off by what their documentation allows, the same for the same operands.
        Without a seed, their results are as good as their type.
    budget : int
        Instructions, counted by warps, after which the launch is given up.

    Returns
    -------
    Report

    Raises
    ------
    LaunchError
        If a device would refuse the launch, or the budget is spent.
    PTXError
        For an instruction that the machine does not know.

    Examples
    --------
    >>> kernel = Program.parse('''
    ... .visible .entry twice(.param .u64 twice_param_0)
    ... .reqntid 32
    ... {
    ...     .reg .b32 %r<4>;
    ...     .reg .b64 %rd<4>;
    ...     ld.param.b64 %rd1, [twice_param_0];
    ...     mov.u32 %r1, %tid.x;
    ...     mul.wide.u32 %rd2, %r1, 4;
    ...     add.s64 %rd3, %rd1, %rd2;
    ...     ld.global.b32 %r2, [%rd3];
    ...     add.s32 %r3, %r2, %r2;
    ...     st.global.b32 [%rd3], %r3;
    ...     ret;
    ... }''')
    >>> numbers = np.arange(32, dtype=np.int32)
    >>> launch(kernel, (1,), [numbers]).describe(), numbers[:4]
    ('twice: nothing found in 1 blocks of 1 warps', array([0, 2, 4, 6], dtype=int32))
    >>> report = launch(kernel, (1,), [numbers[:30]])
    >>> [finding.kind for finding in report.findings.values()], report.findings["out of bounds", 4, None].where
    (['out of bounds', 'out of bounds'], '1 bytes past the end of twice_param_0')
    """
    running = _Launch(program, arguments, shared_bytes, shared_limit, blur, budget)
    with np.errstate(all="ignore"):  # a GPU, too, makes infinities and NaN without a word
        running.run(grid, order)
    running.give_back()
    return Report(program, running.findings, running.counts, int(np.prod(grid)), program.threads // _WARP,
                  len(running.shared.bytes))


class _Launch:
    """What all lanes of a launch share."""

    def __init__(self, program, arguments, shared_bytes, shared_limit, blur, budget):
        if program.threads % _WARP or not 0 < program.threads <= 1024:
            raise LaunchError(f"{program.name} has blocks of {program.threads} threads; expected a multiple of 32 up "
                              "to 1024")
        self.program, self.counts, self.findings, self.left = program, Counts(program), Findings(), budget
        self.epoch = self.first_epoch = 0
        self.blur = blur
        self.symbols, shared = self._shared(shared_bytes)
        if shared_limit is not None and shared > shared_limit:
            raise LaunchError(f"{program.name} needs {shared} bytes of shared memory; the device has {shared_limit}")
        self.shared = Memory("shared memory", 0, shared, self._piece("shared"), self.findings, exists=True)
        self.parameters, self.buffers = {}, []
        self._place(arguments)

    def _shared(self, dynamic):
        """Where the arrays in shared memory begin, and their bytes in all; the one of the launch's size comes last."""
        symbols, end = {}, 0
        for name, size in sorted(self.program.shared.items(), key=lambda item: item[1] is None):
            symbols[name] = end
            end += -(-(dynamic if size is None else size) // 16) * 16
        return symbols, end

    def _piece(self, space):
        """Bytes of the program's smallest access to a memory."""
        sizes = [4]
        for instruction in self.program.instructions:
            name, *parts = instruction.opcode.split(".")
            if name in ("ld", "st") and parts[0].partition(":")[0] == space:
                sizes.append(bits_of(parts[-1]) // 8)
        return min(sizes)

    def _place(self, arguments):
        """Parameters as bytes; buffers at addresses of their own, with nothing between them."""
        names = list(self.program.parameters.items())
        if len(names) != len(arguments):
            raise LaunchError(f"{self.program.name} has {len(names)} parameters; expected as many arguments, "
                              f"not {len(arguments)}")
        addresses, end = {}, _FIRST_ADDRESS
        for (name, kind), value in zip(names, arguments, strict=True):
            if isinstance(value, np.ndarray):
                value = Buffer(name, value.reshape(-1).view(np.uint8), alignment=value.ctypes.data % 256)
            if isinstance(value, Buffer):
                memory = value.data.ctypes.data, len(value.data)
                if memory not in addresses:
                    addresses[memory] = end + value.alignment
                    end += value.alignment + -(-len(value.data) // _GAP) * _GAP + _GAP
                self.buffers.append((addresses[memory], value))
                value = addresses[memory] + value.offset
            self.parameters[name] = np.array([value], DTYPES[kind]).tobytes()
        self.memory = Memory("global memory", _FIRST_ADDRESS, end - _FIRST_ADDRESS, self._piece("global"),
                             self.findings)
        for address, buffer in self.buffers:
            self.memory.place(buffer.name, address, buffer.data, buffer.exists, buffer.written)

    def run(self, grid, order):
        rng = None if order is None else np.random.default_rng(order)
        threads = self.program.threads
        size = threads if rng is None else _WARP
        teams = [Lanes(self, first, size) for first in range(0, threads, size)]
        blocks = list(itertools.product(*(range(n) for n in (*grid, 1, 1)[:3])))
        for i in range(len(blocks)) if rng is None else rng.permutation(len(blocks)):
            self.epoch += 1
            self.first_epoch = self.epoch
            self.shared.forget()
            for team in teams:
                team.begin(blocks[i])
            while any(not team.gone.all() for team in teams):
                for j in range(len(teams)) if rng is None else rng.permutation(len(teams)):
                    teams[j].run()
                self._meet(teams)
            self.shared.must_have_landed()

    def _meet(self, teams):
        """All lanes wait or have left. Who waits goes on, and what was done before is ordered before what comes."""
        waiting = np.concatenate([team.waiting for team in teams])
        at = np.concatenate([team.at for team in teams])
        if waiting.any():
            of_warps = waiting.reshape(-1, _WARP)
            same = np.where(of_warps, at.reshape(-1, _WARP), at[waiting].max())
            if not waiting.all() or (same != same[:, :1]).any():
                missing = int(np.argmin(waiting)) if not waiting.all() else int(np.argmax(at != at[0]))
                where = f"{int(waiting.sum())} of {waiting.size} threads wait"
                self.findings.add("barrier not reached", int(at[waiting][0]), where, (missing,))
        self.epoch += 1
        for team in teams:
            team.go_on()

    def spend(self, instructions):
        self.left -= instructions
        if self.left < 0:
            raise LaunchError(f"{self.program.name} has executed as many instructions as its budget allows")

    def give_back(self):
        """What the kernel made of the buffers."""
        for address, buffer in self.buffers:
            start = address - self.memory.base
            there = slice(start, start + len(buffer.data))
            changed = self.memory.exists[there].view(bool) & self.memory.written[there].view(bool)
            np.copyto(buffer.data, self.memory.bytes[there], where=changed)


"""A launch: a program, a grid of blocks, memory, and the order in which warps and blocks take their turns."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from .arithmetic import DTYPES
from .counting import Counts
from .findings import Findings, counted
from .instructions import smallest_access
from .lanes import Lanes
from .memory import Limits, Memory
from .program import Program

__all__ = ["SHARED_MEMORY", "Buffer", "LaunchError", "Report", "launch"]

#: Bytes of shared memory that a block may have, by the architecture of a GPU.
SHARED_MEMORY = {"sm_75": 65536, "sm_80": 166912, "sm_86": 101376, "sm_89": 101376, "sm_90": 232448,
                 "sm_100": 232448, "sm_120": 101376}
_WARP = 32
_FIRST_ADDRESS, _GAP = 1 << 32, 256
_MOST_BLOCKS = 2**31 - 1, 65535, 65535


class LaunchError(ValueError):
    """A launch that a device would refuse."""


@dataclass
class Buffer:
    """Memory that a kernel gets a pointer into.

    Parameters
    ----------
    name : str
    data : (n,) array of uint8
        What is there, contiguous; after the launch, what the kernel made of it. Buffers may have one array in common,
        but not parts of one.
    offset : int
        The byte of it that the kernel's pointer points to.
    alignment : int
        The address of its first byte, modulo 256.
    exists : (n,) array of bool, optional
        Bytes that the kernel may touch, all unless given: a view of larger memory may skip some.
    written : bool or (n,) array of bool
        False if what is there means nothing, so that the kernel has to write a byte before it reads it.
    """

    name: str
    data: np.ndarray
    offset: int = 0
    alignment: int = 0
    exists: np.ndarray | None = None
    written: bool | np.ndarray = True

    def __post_init__(self):
        data = self.data
        if not (isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype == np.uint8):
            raise LaunchError(f"{self.name}: data is {_described(data)}; expected an array (n,) of uint8, as of "
                              "array.reshape(-1).view(np.uint8)")
        if not data.flags.c_contiguous or not data.flags.writeable:
            raise LaunchError(f"{self.name}: data is not contiguous, or must not be written; expected both")
        for name, mask in (("exists", self.exists), ("written", self.written)):
            if not (mask is None or isinstance(mask, bool) or (mask.dtype == bool and mask.shape == data.shape)):
                raise LaunchError(f"{self.name}: {name} is {_described(mask)}; expected {len(data)} of bool")


@dataclass
class Report:
    """What a launch showed.

    Parameters
    ----------
    program : Program
    findings : Findings
        A dict; empty if no fault was seen.
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
        where = f"{counted(self.blocks, 'block')} of {counted(self.warps, 'warp')}"
        return "\n".join(lines) or f"{self.program.name}: nothing found in {where}"


def launch(program, grid, arguments, *, shared_bytes=0, shared_limit=None, order=None, blur=None, budget=10**9):
    """Executes a kernel, block by block.

    Parameters
    ----------
    program : Program
    grid : tuple of int
        Blocks in up to three directions.
    arguments : sequence
        For each parameter of the program a contiguous array (changed in place), a :class:`Buffer`, an int or a float.
        An array begins at a multiple of 256 bytes.
    shared_bytes : int
        Of the array whose size the launch gives.
    shared_limit : int, optional
        What the device has for a block, as in :data:`SHARED_MEMORY`.
    order : int, optional
        A seed. From one barrier to the next, warps run one after another in random order, and so do blocks. Without a
        seed, all warps of a block take each step together: one order of many, and the fastest here.
    blur : int, optional
        A seed. Approximate instructions are off by as much as their documentation allows, at random, but the same for
        the same operands. Without a seed, their results are as good as their type.
    budget : int
        The launch is given up after so many instructions, each counted once for a warp.

    Returns
    -------
    Report

    Raises
    ------
    LaunchError
        If a device would refuse the launch, if arguments do not fit the parameters, or if the budget is spent.
    PTXError
        For an instruction that the machine does not know, with its line.

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
    ('twice: nothing found in 1 block of 1 warp', array([0, 2, 4, 6], dtype=int32))
    >>> report = launch(kernel, (1,), [numbers[:30]])  # its 32 threads need 32 numbers
    >>> [finding.kind for finding in report.findings.values()], report.findings["out of bounds", 4, None].where
    (['out of bounds', 'out of bounds'], '1 byte past the end of twice_param_0')
    """
    numbers = isinstance(grid, tuple | list) and all(isinstance(n, int | np.integer) for n in grid)
    if not numbers or not 1 <= len(grid) <= 3 or not all(
            1 <= n <= most for n, most in zip(grid, _MOST_BLOCKS, strict=False)):
        raise LaunchError(f"grid = {grid}; expected a tuple of one to three numbers of blocks")
    if shared_bytes < 0:
        raise LaunchError(f"shared_bytes = {shared_bytes}; expected 0 or more")
    running = _Launch(program, arguments, shared_bytes, shared_limit, blur, budget)
    with np.errstate(all="ignore"):  # a GPU, too, makes infinities and NaN without a word
        running.run(grid, order)
    running.give_back()
    return Report(program, running.findings, running.counts, int(np.prod(grid)), program.threads // _WARP,
                  running.shared_bytes)


class _Launch:
    """What all lanes of a launch share."""

    def __init__(self, program, arguments, shared_bytes, shared_limit, blur, budget):
        if program.threads % _WARP or not 0 < program.threads <= 1024:
            raise LaunchError(f"{program.name} has blocks of {program.threads} threads; expected a multiple of 32 up "
                              "to 1024")
        if len(program.instructions) > Limits.INSTRUCTIONS:
            raise LaunchError(f"{program.name} has {len(program.instructions)} instructions; the machine counts up to "
                              f"{Limits.INSTRUCTIONS}")
        self.program, self.counts, self.findings, self.left = program, Counts(program), Findings(), budget
        self.epoch = self.first_epoch = 0
        self.blur = blur
        self.symbols, arrays, self.shared_bytes = self._shared(shared_bytes)
        if shared_limit is not None and self.shared_bytes > shared_limit:
            raise LaunchError(f"{program.name} needs {self.shared_bytes} bytes of shared memory; the device has "
                              f"{shared_limit}")
        self.shared = Memory(0, self.shared_size + 16, smallest_access(program, "shared"), self.findings)
        for array in arrays:
            self.shared.place(*array)
        self.parameters, self.buffers = {}, []
        self._place(arguments)

    def _shared(self, dynamic):
        """Addresses of the arrays in shared memory; with name and size; bytes in all. That of the launch comes last.

        An address is a multiple of what the program asks for, and of no more. Each array counts as the 16 bytes that it
        begins, as if all were aligned to them.
        """
        symbols, arrays, end, needed = {}, [], 0, 0
        for name, size in sorted(self.program.shared.items(), key=lambda item: item[1] is None):
            size, alignment = dynamic if size is None else size, self.program.alignments[name]
            symbols[name] = end + alignment % 16
            arrays.append((name, symbols[name], size))
            end += -(-(size + alignment % 16) // 16) * 16
            needed += -(-size // 16) * 16
        self.shared_size = end
        return symbols, arrays, needed

    def _place(self, arguments):
        """Parameters as bytes; buffers at addresses of their own, with nothing between them."""
        names = list(self.program.parameters.items())
        if len(names) != len(arguments):
            raise LaunchError(f"{self.program.name} has {len(names)} parameters; expected as many arguments, "
                              f"not {len(arguments)}")
        addresses, end = {}, _FIRST_ADDRESS
        for (name, kind), value in zip(names, arguments, strict=True):
            if isinstance(value, np.ndarray):
                value = Buffer(name, _bytes_of(name, value))
            if isinstance(value, Buffer):
                memory = value.data.ctypes.data, len(value.data)
                if memory not in addresses:
                    self._must_be_apart(value)
                    addresses[memory] = end + value.alignment
                    end += -(-(value.alignment + len(value.data)) // _GAP) * _GAP + _GAP
                if kind not in ("u64", "s64", "b64"):
                    raise LaunchError(f"{name} is an array; expected a number, for it is no pointer but of type {kind}")
                self.buffers.append((addresses[memory], value))
                value = addresses[memory] + value.offset
            self.parameters[name] = _as_parameter(name, kind, value)
        self.memory = Memory(_FIRST_ADDRESS, end - _FIRST_ADDRESS + _GAP, smallest_access(self.program, "global"),
                             self.findings)
        for address, buffer in self.buffers:
            self.memory.place(buffer.name, address, len(buffer.data), None if buffer.written is False else buffer.data,
                              True if buffer.exists is None else buffer.exists, buffer.written)

    def _must_be_apart(self, buffer):
        for _, other in self.buffers:
            if np.may_share_memory(buffer.data, other.data):
                raise LaunchError(f"{buffer.name} and {other.name} share a part of their memory; expected all or none")

    def run(self, grid, order):
        rng = None if order is None else np.random.default_rng(order)
        threads = self.program.threads
        size = threads if rng is None else _WARP
        teams = [Lanes(self, first, size) for first in range(0, threads, size)]
        blocks = list(itertools.product(*(range(n) for n in (*grid, 1, 1)[:3])))
        for i in range(len(blocks)) if rng is None else rng.permutation(len(blocks)):
            self._begin_epoch()
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
        """All lanes wait or have left. Those that wait go on, and what was done before comes before what they do."""
        waiting = np.concatenate([team.waiting for team in teams])
        at = np.concatenate([team.at for team in teams])
        if waiting.any() and not waiting.all():
            self.findings.add("barrier not reached", int(at[waiting][0]),
                              f"where {int(waiting.sum())} of {waiting.size} threads wait and the others have left",
                              (int(np.argmin(waiting)),))
        elif waiting.any():
            first = at.reshape(-1, _WARP)[:, 0].repeat(_WARP)
            apart = at != first
            if apart.any():
                thread = int(np.argmax(apart))
                self.findings.add("barrier not reached", int(at[thread]), "where a part of a warp waits",
                                  (thread, thread // _WARP * _WARP), int(first[thread]))
        self._begin_epoch()
        for team in teams:
            team.go_on()

    def _begin_epoch(self):
        self.epoch += 1
        if self.epoch >= Limits.EPOCHS:
            raise LaunchError(f"{self.program.name} has {self.epoch} barriers and blocks; expected less")

    def spend(self, instructions):
        self.left -= instructions
        if self.left < 0:
            raise LaunchError(f"{self.program.name} has executed as many instructions as its budget allows")

    def give_back(self):
        """What the kernel made of the buffers."""
        for address, buffer in self.buffers:
            start, size = address - self.memory.base, len(buffer.data)
            np.copyto(buffer.data, self.memory.bytes[start:start + size], where=self.memory.written(address, size))


def _bytes_of(name, array):
    if not array.flags.c_contiguous:
        raise LaunchError(f"{name} is no contiguous array; expected one, or a Buffer with the bytes that exist")
    return array.reshape(-1).view(np.uint8)


def _described(value):
    return f"an array {value.shape} of {value.dtype}" if isinstance(value, np.ndarray) else f"{value!r}"


def _as_parameter(name, kind, value):
    """The bytes of a number as a kernel gets it; of a whole number, those of its type or of the unsigned one."""
    dtype = np.dtype(DTYPES[kind])
    if not isinstance(value, int | float | np.number | np.bool_):
        raise LaunchError(f"{name} = {value!r}; expected an array, a Buffer or a number")
    if dtype.kind == "f":
        return np.array(value, dtype).tobytes()
    bits = 8 * dtype.itemsize
    if not np.isfinite(value) or int(value) != value or not -2**(bits - 1) <= value < 2**bits:
        raise LaunchError(f"{name} = {value}; expected a whole number of {bits} bits")
    return (int(value) % 2**bits).to_bytes(dtype.itemsize, "little")


"""Lanes that take their steps together: one warp, or all warps of a block in step.

Lanes of a warp part where a jump is taken by some of them. Those with the lowest instruction go first, so they meet
again where their ways join. Nothing here knows of other warps; they meet in :mod:`ptx_machine.launching`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .instructions import BARRIER, EXIT, compiled, guards
from .memory import Access, Limits, stamps
from .program import PTXError
from .registers import Registers

__all__ = ["BLOCK_REGISTERS", "Lanes"]

#: Registers that hold the three numbers of a block.
BLOCK_REGISTERS = ("%ctaid.x", "%ctaid.y", "%ctaid.z")
_WARP = 32


class Lanes:
    """Some warps of a block, from its ``first`` thread.

    Parameters
    ----------
    launch : object
        Of :mod:`ptx_machine.launching`: program, parameters, memories, counts and findings.
    first, count : int
        Threads, multiples of 32.
    """

    def __init__(self, launch, first, count):
        self.launch, self.program, self.parameters = launch, launch.program, launch.parameters
        self.memories = {"global": launch.memory, "shared": launch.shared}
        self.counts, self.findings = launch.counts, launch.findings
        self.count, self.threads = count, np.arange(first, first + count)
        own = {"%tid.x": self.threads, "%laneid": self.threads % _WARP}
        self.block_registers = {name: np.zeros(count, np.uint32) for name in BLOCK_REGISTERS}
        self.registers = Registers(self.program, count, own | self.block_registers, launch.symbols)
        self.copies = _Copies(self)
        self.steps = compiled(self)
        self.guards = guards(self)

    def begin(self, block):
        """All lanes stand before the first instruction of a block, given by its numbers in three directions."""
        for name, value in zip(BLOCK_REGISTERS, block, strict=True):
            self.block_registers[name][:] = value
        self.at = np.zeros(self.count, np.int64)
        self.waiting, self.gone = np.zeros((2, self.count), bool)
        self.together = True
        self._begin_epoch()
        self.copies.forget()

    def run(self):
        """Until each lane waits at a barrier or has left."""
        while not (self.waiting | self.gone).all():
            if self.together and not self.gone.any():
                self._run_together()
            else:
                self._step_apart()

    def go_on(self):
        """Past the barrier."""
        self.at[self.waiting] += 1
        self.waiting[:] = False
        self._begin_epoch()
        self._join()

    def _begin_epoch(self):
        self.moments = np.zeros(self.count, np.int64)
        self.stamps = stamps(self.launch.epoch, self.moments, self.threads)

    def _run_together(self):
        """The usual case: all lanes at one instruction."""
        at, steps, guards, warps = int(self.at[0]), self.steps, self.guards, self.counts.warps
        number = self.count // _WARP
        while True:
            self.launch.spend(number)
            warps[at] += number
            mask, guard = None, guards[at]
            if guard is not None:
                mask = guard[0] == guard[1]
                taking = np.count_nonzero(mask)
                if taking == self.count:
                    mask = None
                elif not taking:
                    at += 1
                    continue
            wanted = steps[at](mask)
            if wanted is None:
                at += 1
            elif mask is None and wanted >= 0:
                at = wanted
            else:
                self.at[:] = at
                self._flow(wanted, at, np.ones(self.count, bool) if mask is None else mask, np.ones(self.count, bool))
                return

    def _step_apart(self):
        """One instruction, of the lanes that are furthest behind."""
        ready = ~(self.waiting | self.gone)
        at = int(self.at[ready].min())
        here = ready & (self.at == at)
        number = int(here.reshape(-1, _WARP).any(1).sum())
        self.launch.spend(number)
        self.counts.warps[at] += number
        guard = self.guards[at]
        mask = here if guard is None else here & (guard[0] == guard[1])
        wanted = self.steps[at](mask) if mask.any() else None
        if wanted is None:
            self.at[here] += 1
        else:
            self._flow(wanted, at, mask, here)
        self._join()

    def _flow(self, wanted, at, mask, here):
        """Jump, wait or leave, for the lanes of a mask; the others that are here go on."""
        if self.program.instructions[at].opcode == "bra.uni" and _in_parts(mask, here):
            self.refuse(at, "some lanes of a warp jump and others do not")
        self.at[here] = at + 1
        if wanted == BARRIER:
            self.at[mask] = at
            self.waiting |= mask
        elif wanted == EXIT:
            self.gone |= mask
        else:
            self.at[mask] = wanted
        self._join()

    def _join(self):
        self.together = not (self.waiting | self.gone).any() and bool((self.at == self.at[0]).all())

    def access(self, index, mask):
        """Who touches memory: the lanes of a mask (of bool, or indices), now."""
        threads, now = (self.threads, self.stamps) if mask is None else (self.threads[mask], self.stamps[mask])
        return Access.of(index, threads, now, self.launch.epoch, self.launch.first_epoch)

    def count_access(self, index, mask, addresses, width, shared):
        self.counts.access(index, self.threads if mask is None else self.threads[mask], addresses, width, shared)

    def all_take_part(self, mask, index, members=None):
        """Refuses an instruction of whole warps that some lanes of one execute, or that names only some of them."""
        if mask is not None and _in_parts(mask, np.ones_like(mask)):
            self.refuse(index, "some lanes of a warp execute it; the machine knows it for all of them")
        if members is not None:
            members = members if mask is None else members[mask]
            if (members != 0xFFFFFFFF).any():
                self.refuse(index, f"it is of the lanes {int(members.min()):#x}; the machine knows it for all, -1")

    def order_warps(self, mask, index, members):
        """What lanes of a warp did before is seen by its other lanes from now on."""
        self.all_take_part(mask, index, members)
        self.moments[slice(None) if mask is None else mask] += 1
        if self.moments.max() >= Limits.MOMENTS:
            self.refuse(index, f"{Limits.MOMENTS} of them between two barriers of the block; expected less")
        self.stamps = stamps(self.launch.epoch, self.moments, self.threads)

    def refuse(self, index, reason):
        """Raises, for what an instruction turns out to be when it is executed."""
        instruction = self.program.instructions[index]
        raise PTXError(f"line {instruction.line}, `{instruction}`: {reason}")


def _in_parts(mask, others):
    """Whether a warp has lanes in a mask, and further ones among the others."""
    return bool((mask.reshape(-1, _WARP).any(1) & (others & ~mask).reshape(-1, _WARP).any(1)).any())


class _Copy(NamedTuple):
    """An asynchronous copy that lanes have begun: by which instruction, who they are, and the group of each."""

    instruction: int
    lanes: np.ndarray
    groups: np.ndarray
    addresses: np.ndarray
    values: np.ndarray
    sources: np.ndarray
    reads: np.ndarray

    def only(self, chosen):
        return _Copy(self.instruction, *(each[chosen] for each in self[1:]))


class _Copies:
    """Asynchronous copies of some lanes: each lane puts its own into groups, and waits for groups."""

    def __init__(self, lanes):
        self.lanes, self.shared, self.memory = lanes, lanes.launch.shared, lanes.launch.memory
        self.begun = []
        self.forget()

    def forget(self):
        for copy in self.begun:
            self._source(copy, begins=False)
        self.begun, self.groups = [], np.zeros(self.lanes.count, np.int64)  # how many groups a lane has closed

    def begin(self, index, mask, addresses, values, sources, reads):
        """Some lanes copy values to addresses, which they read at the sources, or do not read because they are 0."""
        lanes = np.flatnonzero(mask)
        copy = _Copy(index, lanes, self.groups[lanes], *(each[lanes] for each in (addresses, values, sources, reads)))
        good = self.shared.begin_copy(self.lanes.access(index, lanes), copy.addresses,
                                      values.dtype.itemsize * values.shape[1])
        self.begun.append(copy if good is None else copy.only(good))
        self._source(self.begun[-1], begins=True)

    def _source(self, copy, begins):
        width = copy.values.dtype.itemsize * copy.values.shape[1]
        self.memory.copied_from(copy.sources[copy.reads], width, begins)

    def commit(self, mask):
        self.groups[slice(None) if mask is None else mask] += 1

    def wait(self, mask, latest):
        """For the lanes of a mask all their groups land but the ``latest`` ones."""
        begun, self.begun = self.begun, []
        for copy in begun:
            lands = copy.groups < self.groups[copy.lanes] - latest
            if mask is not None:
                lands &= mask[copy.lanes]
            if lands.any():
                landing = copy if lands.all() else copy.only(lands)
                self._source(landing, begins=False)
                self.shared.land(self.lanes.access(copy.instruction, landing.lanes), landing.addresses, landing.values)
            if not lands.all():
                self.begun.append(copy.only(~lands))

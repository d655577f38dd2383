"""Lanes that take their steps together: one warp, or all warps of a block in step.

Lanes of a warp part where a jump is taken by some of them. Those with the lowest instruction go first, so they meet
again where their ways join. Nothing here knows another team; that is :mod:`ptx_machine.block`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .instructions import BARRIER, EXIT, compiled
from .memory import Access
from .program import PTXError
from .registers import Registers

__all__ = ["BLOCK_REGISTERS", "Lanes"]

#: What a block knows of itself, in the order of its three numbers.
BLOCK_REGISTERS = ("%ctaid.x", "%ctaid.y", "%ctaid.z")
_WARP = 32


class Lanes:
    """Some warps of a block, from its ``first`` thread.

    Parameters
    ----------
    launch : Launch
        Program, parameters, memories, counts and findings.
    first, count : int
        Threads, multiples of 32.
    """

    def __init__(self, launch, first, count):
        self.launch, self.program, self.parameters = launch, launch.program, launch.parameters
        self.memories = {"global": launch.memory, "shared": launch.shared}
        self.counts, self.findings = launch.counts, launch.findings
        self.count, self.threads = count, np.arange(first, first + count)
        own = {"%tid.x": self.threads, "%laneid": self.threads % _WARP, "%warpid": self.threads // _WARP}
        self.block_registers = {name: np.zeros(count, np.uint32) for name in BLOCK_REGISTERS}
        self.registers = Registers(self.program, count, own | self.block_registers, launch.symbols)
        self.copies = _Copies(launch)
        self.steps = compiled(self)
        self.guards = [each.guard and (self.registers.source(each.guard[0], "pred"), each.guard[1])
                       for each in self.program.instructions]

    def begin(self, block):
        """All lanes stand before the first instruction of a block, given by its numbers in three directions."""
        for name, value in zip(BLOCK_REGISTERS, block, strict=True):
            self.block_registers[name][:] = value
        self.at = np.zeros(self.count, np.int64)
        self.waiting, self.gone = np.zeros((2, self.count), bool)
        self.together, self.moment = True, 0
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
        self.moment = 0
        self._join()

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
                if mask.all():
                    mask = None
                elif not mask.any():
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
        self.launch.spend(1)
        self.counts.warps[at] += int(here.reshape(-1, _WARP).any(1).sum())
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
        """Who touches memory: the lanes of a mask, now."""
        threads = self.threads if mask is None else self.threads[mask]
        return Access(index, threads, self.launch.epoch, self.launch.first_epoch, self.moment)

    def count_access(self, index, mask, addresses, width, shared):
        threads = self.threads if mask is None else self.threads[mask]
        self.counts.access(index, threads // _WARP, addresses, width, shared)

    def all_take_part(self, mask, index):
        """Raises where an instruction of whole warps is executed by parts of one."""
        if mask is not None:
            of_warps = mask.reshape(-1, _WARP)
            if (of_warps.any(1) != of_warps.all(1)).any():
                raise PTXError(f"line {self.program.instructions[index].line}: some lanes of a warp execute "
                               f"`{self.program.instructions[index]}`; the machine knows it for all of them")

    def order_warps(self, mask, index):
        """What lanes of a warp did before is seen by its other lanes from now on."""
        self.all_take_part(mask, index)
        self.moment += 1


class _Copies:
    """Asynchronous copies of some lanes: begun, in groups, not landed before they are waited for."""

    def __init__(self, launch):
        self.launch = launch
        self.forget()

    def forget(self):
        self.begun, self.groups = [], []

    def begin(self, access, addresses, values):
        self.launch.shared.begin_copy(access, addresses, values.dtype.itemsize * values.shape[1])
        self.begun.append((access, addresses, values))

    def commit(self, mask):
        self._of_all(mask)
        self.groups.append(self.begun)
        self.begun = []

    def wait(self, mask, latest, moment):
        """All groups land but the ``latest`` ones."""
        self._of_all(mask)
        landed = self.groups[:len(self.groups) - latest]
        self.groups = self.groups[len(landed):]
        for group in landed:
            for access, addresses, values in group:
                self.launch.shared.land(replace(access, epoch=self.launch.epoch, moment=moment), addresses, values)

    @staticmethod
    def _of_all(mask):
        if mask is not None:
            raise PTXError("groups of copies of some of the lanes; the machine knows those of all")

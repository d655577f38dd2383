"""What a launch did, instruction by instruction: how often, how many bytes, how well they were gathered."""

from __future__ import annotations

import numpy as np

__all__ = ["Counts"]

_SECTOR, _BANKS = 32, 32  # bytes that global memory moves at once; words of 4 bytes that shared memory does


class Counts:
    """Counters of a program's instructions; each is an array with one number for each instruction.

    Attributes
    ----------
    warps : array
        Executions, by warps.
    lanes : array
        Lanes that took part; of accesses to memory only.
    bytes : array
        Moved, of accesses to memory.
    sectors : array
        Pieces of 32 bytes of global memory that the warps touched, each counted once for a warp's access.
    wavefronts : array
        Turns that shared memory took: more than one for 128 bytes or less is a bank conflict.
    least_wavefronts : array
        Turns that it would have taken without conflicts.
    """

    def __init__(self, program):
        self.program = program
        (self.warps, self.lanes, self.bytes, self.sectors, self.wavefronts,
         self.least_wavefronts) = np.zeros((6, len(program.instructions)), np.int64)
        self._known = {}

    def total(self, *opcodes, of="warps"):
        """Sum of a counter over the instructions whose opcode begins with one of these."""
        return int(sum(getattr(self, of)[i] for i in self.program.where(*opcodes)))

    def widths(self, *opcodes):
        """Histogram of accesses: lanes by the bytes that each moved."""
        found = {}
        for i in self.program.where(*opcodes):
            if self.lanes[i]:
                width = int(self.bytes[i] // self.lanes[i])
                found[width] = found.get(width, 0) + int(self.lanes[i])
        return dict(sorted(found.items()))

    def access(self, instruction, warp_of, addresses, width, shared):
        """Counts an access of some lanes, which belong to these warps, to some addresses."""
        self.lanes[instruction] += len(addresses)
        self.bytes[instruction] += width * len(addresses)
        # the pattern repeats from step to step, shifted
        key = shared, width, warp_of.tobytes(), ((addresses - addresses.min()).tobytes()), int(addresses.min() % 128)
        if key not in self._known:
            self._known[key] = (_turns if shared else _sectors)(warp_of, addresses, width)
        if shared:
            turns, least = self._known[key]
            self.wavefronts[instruction] += turns
            self.least_wavefronts[instruction] += least
        else:
            self.sectors[instruction] += self._known[key]


def _sectors(warp_of, addresses, width):
    return len(set(zip(warp_of.tolist(), (addresses // _SECTOR).tolist(), strict=True)))


def _turns(warp_of, addresses, width):
    """Each turn serves 128 bytes' worth of lanes; different words of one bank have to wait for each other."""
    turns = least = 0
    together = min(32, 128 // width)
    for warp in np.unique(warp_of):
        of_warp = addresses[warp_of == warp]
        for first in range(0, len(of_warp), together):
            words = {word for address in of_warp[first:first + together].tolist()
                     for word in range(address // 4, max(address // 4 + 1, (address + width) // 4))}
            banks = np.bincount([word % _BANKS for word in words])
            turns += int(banks.max())
            least += -(-len(words) // _BANKS)
    return turns, least

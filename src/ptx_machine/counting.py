"""What a launch did, instruction by instruction: how often, how many bytes, how many sectors and bank conflicts."""

from __future__ import annotations

import numpy as np

__all__ = ["Counts"]

_ALL_BUT_128 = ~np.uint64(127)
_SECTOR, _BANKS = 32, 32  # bytes that global memory moves at once; words of 4 bytes that shared memory does


class Counts:
    """Counters of a program's instructions; each is an array with one number for each instruction.

    All but the first count accesses to memory only. An asynchronous copy counts where it reads. ldmatrix and stmatrix
    count each of their matrices as an access of 16 bytes by the eight lanes that have its addresses.

    Attributes
    ----------
    warps : array
        Executions: one for each warp of which any lane came to the instruction, whatever its guard said.
    lanes : array
        Lanes that took part.
    bytes : array
        Bytes that were moved.
    sectors : array
        Sectors of 32 bytes of global memory that were touched, each counted once for a warp's access.
    wavefronts : array
        Turns that shared memory took. In each turn a bank gives one word; of more, there is a bank conflict.
    least_wavefronts : array
        Turns that would have been enough for as many words, spread over all banks.
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
        """Histogram of accesses: a dict from the bytes that a lane moves at once to how many lanes did."""
        found = {}
        for i in self.program.where(*opcodes):
            if self.lanes[i]:
                width = int(self.bytes[i] // self.lanes[i])
                found[width] = found.get(width, 0) + int(self.lanes[i])
        return dict(sorted(found.items()))

    def access(self, instruction, threads, addresses, width, shared):
        """Counts an access of some threads of a block, to an address each."""
        self.lanes[instruction] += len(addresses)
        self.bytes[instruction] += width * len(addresses)
        # the pattern repeats from step to step, shifted by a multiple of 128 bytes
        key = shared, width, threads.tobytes(), (addresses - (addresses[0] & _ALL_BUT_128)).tobytes()
        if key not in self._known:
            self._known[key] = (_turns if shared else _sectors)(threads, addresses, width)
        if shared:
            turns, least = self._known[key]
            self.wavefronts[instruction] += turns
            self.least_wavefronts[instruction] += least
        else:
            self.sectors[instruction] += self._known[key]


def _sectors(threads, addresses, width):
    return len(set(zip((threads // 32).tolist(), (addresses // _SECTOR).tolist(), strict=True)))


def _turns(threads, addresses, width):
    """Each part of a warp that moves 128 bytes has turns of its own: as many as one bank has different words of it."""
    turns = least = 0
    group_of = threads // min(32, 128 // width)
    for group in np.unique(group_of):
        words = {word for address in addresses[group_of == group].tolist()
                 for word in range(address // 4, (address + width - 1) // 4 + 1)}
        banks = np.bincount([word % _BANKS for word in words])
        turns += int(banks.max())
        least += -(-len(words) // _BANKS)
    return turns, least

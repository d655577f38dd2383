"""Memory that watches its readers and writers: the global one of a launch, and the shared one of a block.

Every byte knows whether it exists and whether it was written; every piece of it knows who touched it last. Two accesses
to one piece by two threads are a race if at least one of them changes it and no barrier stands between them. To write
what is there already changes nothing: threads may write the same value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Access", "Memory"]

# A stamp says who was there last: from below, a flag (1 bit), a thread (11), an instruction (16), the moment of its
# warp (10) and the epoch. Threads from 1024 on are several readers: of one warp, 1024 + its number, or of more.
_THREAD, _INSTRUCTION, _MOMENT, _EPOCH = 1, 12, 28, 38
_LANES_OF_WARP, _SEVERAL_WARPS = 1024, 2047
_WARP = 32
_POISON = 0xA5


@dataclass(frozen=True)
class Access:
    """Who touches memory: lanes of one instruction.

    ``epoch`` counts the barriers of the launch, over all of its blocks; the block's own began with ``first_epoch``.
    ``moment`` counts what orders the lanes of one warp (bar.warp.sync) since its last barrier.
    """

    instruction: int
    threads: np.ndarray
    epoch: int
    first_epoch: int
    moment: int = 0

    def stamps(self, threads):
        return self.epoch << _EPOCH | self.moment << _MOMENT | self.instruction << _INSTRUCTION | threads << _THREAD


class Memory:
    """Bytes at consecutive addresses.

    Parameters
    ----------
    name : str
    base, size : int
        First address and number of bytes, multiples of 16.
    piece : int
        Bytes of the smallest access: races are found piece by piece.
    findings : Findings
    exists : bool
        Whether the bytes may be touched before :meth:`place` has put something there.
    """

    def __init__(self, name, base, size, piece, findings, exists=False):
        self.name, self.base, self.piece, self.findings = name, base, piece, findings
        self.bytes = np.full(size, _POISON, np.uint8)
        self.exists, self.written = np.full(size, exists, np.uint8), np.zeros(size, np.uint8)
        self.writes, self.reads = np.full((2, size // piece), -1, np.int64)
        self.in_flight = np.full(size // piece, -1, np.int64)
        self.copies = 0
        self.names = []

    def place(self, name, address, data, mask=None, written=True):
        """Bytes from outside at an address; with ``mask``, only those where it is true exist."""
        start = address - self.base
        here = slice(start, start + len(data))
        if written:
            self.bytes[here] = data
        self.exists[here] |= True if mask is None else mask
        self.written[here] |= written
        self.names.append((address, address + len(data), name))

    def forget(self):
        """Shared memory is anything when a block begins."""
        self.bytes[:], self.written[:] = _POISON, 0
        self.writes[:] = self.reads[:] = self.in_flight[:] = -1
        self.copies = 0

    def load(self, access, addresses, size, count=1):
        """(n, count) unsigned integers of ``size`` bytes from n addresses."""
        width = size * count
        offsets, good = self._offsets(access, addresses, width)
        values = np.full((len(addresses), count), _POISON * (2 ** (8 * size) - 1) // 255, np.dtype(f"u{size}"))
        if len(offsets):
            self._must_be_written(access, offsets, width, good)
            values[good] = self.bytes.view(values.dtype)[offsets[:, None] // size + np.arange(count)]
            self._read(_of(access, good), self._pieces(offsets, width))
        return values

    def store(self, access, addresses, values):
        """(n, count) unsigned integers to n addresses."""
        size, count = values.dtype.itemsize, values.shape[1]
        offsets, good = self._offsets(access, addresses, size * count)
        if len(offsets):
            self._write(_of(access, good), offsets, values[good])

    def begin_copy(self, access, addresses, width):
        """Bytes are on their way to these addresses. They are written now or later; until then nobody may look."""
        offsets, good = self._offsets(access, addresses, width)
        if len(offsets):
            access = _of(access, good)
            pieces = self._pieces(offsets, width)
            self._must_have_landed(access, pieces)
            self._must_be_ordered(access, self.writes[pieces], pieces)
            self._must_be_ordered(access, self.reads[pieces], pieces)
            self.in_flight[pieces] = access.stamps(access.threads)[:, None]
            self.copies += len(offsets)

    def land(self, access, addresses, values):
        """A copy arrives, and counts as a write of now."""
        width = values.dtype.itemsize * values.shape[1]
        offsets = (addresses - self.base).astype(np.int64)
        self.in_flight[self._pieces(offsets, width)] = -1
        self.copies -= len(offsets)
        self._write(access, offsets, values)

    def must_have_landed(self):
        """Where a block ends, no copy may be under way."""
        if self.copies:
            late = self.in_flight[self.in_flight >= 0]
            for instruction in np.unique(_instruction(late)):
                these = late[_instruction(late) == instruction]
                self.findings.add("not waited for", int(instruction), "still under way where its block ends",
                                  (int(_thread(these[0])),), count=len(these))

    def _pieces(self, offsets, width):
        return offsets[:, None] // self.piece + np.arange(max(width // self.piece, 1))

    def _offsets(self, access, addresses, width):
        """Where the good ones of some addresses lie, and which are good: a multiple of the width, all bytes there."""
        offsets = addresses.astype(np.int64) - self.base
        aligned = offsets % width == 0
        good = aligned & (offsets >= 0) & (offsets <= len(self.bytes) - width)
        good[good] = _all_set(self.exists, offsets[good], width)
        if good.all():
            return offsets, good
        self._report("misaligned", access, ~aligned, addresses)
        self._report("out of bounds", access, aligned & ~good, addresses)
        return offsets[good], good

    def _must_be_written(self, access, offsets, width, good):
        written = _all_set(self.written, offsets, width)
        if not written.all():
            self._report("read before written", _of(access, good), ~written, offsets + self.base)

    def _read(self, access, pieces):
        self._must_have_landed(access, pieces)
        writes = self.writes[pieces]
        if (writes >= 0).any():  # those that changed something
            self._must_be_ordered(access, np.where(writes & 1, writes, -1), pieces)
        before, mine = self.reads[pieces], access.threads[:, None]
        earlier_block = (before >= 0) & ((_epoch(before) < access.first_epoch) | (before & 1 == 1))
        readers = np.broadcast_to(mine, pieces.shape)
        now = _epoch(before) == access.epoch
        if now.any():
            readers = np.where(now & (_moment(before) == access.moment), _together(readers, _thread(before)), readers)
            readers = np.where(now & (_warp(before) != mine // _WARP), _SEVERAL_WARPS, readers)
        self.reads[pieces] = access.stamps(readers) | earlier_block
        last = _thread(self.reads[pieces])
        if (last != readers).any():  # several lanes of this instruction read one piece, and one's stamp stayed
            np.maximum.at(self.reads, pieces, access.stamps(_together(readers, last)) | earlier_block)

    def _write(self, access, offsets, values):
        size, count = values.dtype.itemsize, values.shape[1]
        width = size * count
        pieces = self._pieces(offsets, width)
        self._must_have_landed(access, pieces)
        cells = offsets[:, None] // size + np.arange(count)
        data = self.bytes.view(values.dtype)
        fresh = ~_all_set(self.written, offsets, width)[:, None]
        changed = np.broadcast_to((data[cells] != values) | fresh, values.shape)
        data[cells] = values
        lost = data[cells] != values
        if lost.any():
            lane = np.argmax(lost.any(1))
            self._report("race", access, lost.any(1), offsets + self.base, other=access.instruction,
                         others=access.threads[lane:lane + 1])
        _set_all(self.written, offsets, width)
        changed = _spread(changed, pieces.shape)
        if changed.any():
            before = np.where(changed, self.writes[pieces], -1)
            if (before >= 0).any():
                self._must_be_ordered(access, before, pieces)
            before = np.where(changed, self.reads[pieces], -1)
            if (before >= 0).any():
                self._must_be_ordered(access, before, pieces, reads=True)
        self.writes[pieces] = access.stamps(access.threads)[:, None] | changed

    def _must_have_landed(self, access, pieces):
        if self.copies:
            flying = self.in_flight[pieces]
            if (flying >= 0).any():
                self._report_pieces("not waited for", access, flying >= 0, flying, pieces)

    def _must_be_ordered(self, access, before, pieces, reads=False):
        """Nobody else may have touched the pieces since the last barrier, and no other block at all."""
        epochs = _epoch(before)
        now = epochs == access.epoch
        if now.any():
            mine = access.threads[:, None]
            now &= _thread(before) != mine
            now &= (_warp(before) != mine // _WARP) | (_moment(before) >= access.moment)
            if now.any():
                self._report_pieces("race", access, now, before, pieces)
        blocks = (before >= 0) & (epochs < access.first_epoch)
        if reads:
            blocks |= (before >= 0) & (before & 1 == 1)
        if blocks.any():
            self._report_pieces("race of blocks", access, blocks, before, pieces)

    def _report(self, kind, access, bad, addresses, other=None, others=()):
        if bad.any():
            lane = int(np.argmax(bad))
            threads = (int(access.threads[lane]), *map(int, others))
            self.findings.add(kind, access.instruction, self._named(int(addresses[lane])), threads, other, bad.sum())

    def _report_pieces(self, kind, access, bad, before, pieces):
        """One finding for each instruction that was there before."""
        for instruction in np.unique(_instruction(before[bad])):
            these = bad & (_instruction(before) == instruction)
            lane, piece = np.argwhere(these)[0]
            thread = int(_thread(before[lane, piece]))
            threads = (int(access.threads[lane]), *([thread] if thread < _LANES_OF_WARP else []))
            where = self._named(self.base + int(pieces[lane, piece]) * self.piece)
            self.findings.add(kind, access.instruction, where, threads, int(instruction), these.sum())

    def _named(self, address):
        for first, end, name in self.names:
            if first <= address < end:
                return f"byte {address - first} of {name}"
        if not self.names:
            return f"byte {address - self.base} of {self.name}"
        near = min(self.names, key=lambda each: min(abs(address - each[0]), abs(address - each[1])))
        if address < near[0]:
            return f"{near[0] - address} bytes before {near[2]}"
        return f"{address - near[1] + 1} bytes past the end of {near[2]}"


def _of(access, chosen):
    if chosen.all():
        return access
    return replace(access, threads=access.threads[chosen])


def _all_set(flags, offsets, width):
    """Whether all bytes from some offsets, multiples of the width, are 1."""
    words, first, ones = _words(flags, offsets, width)
    good = words[first] == ones
    return good & (words[first + 1] == ones) if width == 16 else good


def _set_all(flags, offsets, width):
    words, first, ones = _words(flags, offsets, width)
    words[first] = ones
    if width == 16:
        words[first + 1] = ones


def _words(flags, offsets, width):
    """Flags in words of 8 at most, the word that each offset begins with, and one whose flags are all 1."""
    step = min(width, 8)
    words = flags.view(np.dtype(f"u{step}"))
    return words, offsets // step, words.dtype.type(0x0101010101010101 & (2 ** (8 * step) - 1))


def _spread(changed, shape):
    """(n, values) to (n, pieces): a piece has changed if its value has."""
    if changed.shape == shape:
        return changed
    if changed.shape[1] < shape[1]:
        return np.repeat(changed, shape[1] // changed.shape[1], axis=1)
    return changed.reshape(shape[0], shape[1], -1).any(2)


def _epoch(stamps):
    return stamps >> _EPOCH


def _moment(stamps):
    return stamps >> _MOMENT & 0x3FF


def _instruction(stamps):
    return stamps >> _INSTRUCTION & 0xFFFF


def _thread(stamps):
    return stamps >> _THREAD & 0x7FF


def _warp(stamps):
    return _warp_of(_thread(stamps))


def _warp_of(threads):
    """Of a thread, or of several of one warp; 63 for several of more."""
    return np.where(threads < _LANES_OF_WARP, threads // _WARP, np.minimum(threads - _LANES_OF_WARP, 63))


def _together(threads, others):
    """Both: the same thread, several of one warp, or several of more."""
    one_warp = _warp_of(threads) == _warp_of(others)
    several = np.where(one_warp & (_warp_of(threads) < 63), _LANES_OF_WARP + _warp_of(threads), _SEVERAL_WARPS)
    return np.where(threads == others, threads, several)

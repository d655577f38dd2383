"""Memory that watches its readers and writers: the global one of a launch, and the shared one of a block.

It consists of pieces, each as wide as the smallest access that the program has. A piece knows whether it exists,
whether it was written, and who was there last: to change it, to write what was there, and to read it.

Two accesses to one piece by two threads are a race if at least one of them changes it and nothing orders them: neither
a barrier of the block, nor one of their warp. No barrier orders two blocks of a launch. Threads may write the same
value, but then nobody may read it before the next barrier: which of them changes it depends on the order, and what is
a race in one order is reported in all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .findings import counted

__all__ = ["Access", "Limits", "Memory", "stamps"]

# A stamp says who was there, and when. From below: whether an earlier block was there, too (1 bit), the instruction
# (16), the lane and the warp (6 each; all bits set for several), the moment of the warp (10) and the epoch (24).
_TOO, _INSTRUCTION, _LANE, _WARP, _MOMENT, _EPOCH = 1, 1, 17, 23, 29, 39
_LANES, _WARPS, _MOMENTS, _INSTRUCTIONS = 0x3F << _LANE, 0x3F << _WARP, 0x3FF << _MOMENT, 0xFFFF << _INSTRUCTION
_THREADS = _WARPS | _LANES
_NOBODY, _SEVERAL, _FIRST_BLOCK = 0, 0x3F, 1 << _EPOCH  # epochs count from 1, so every stamp is positive
_ABSENT, _FRESH, _WRITTEN = 0, 1, 2  # what a piece may be
_POISON = 0xA5


class Limits:
    """What a stamp can count; a launch that goes beyond is refused."""

    INSTRUCTIONS, MOMENTS, EPOCHS = 2**16, 2**10 - 1, 2**24


def stamps(epoch, moments, threads):
    """What :class:`Access` holds for some threads, but for the instruction."""
    return epoch << _EPOCH | moments << _MOMENT | threads // 32 << _WARP | threads % 32 << _LANE


class Access(NamedTuple):
    """Who touches memory: lanes of one instruction.

    Attributes
    ----------
    instruction : int
        Its index in the program.
    threads : (n,) array
    stamps : (n,) array
        Who they are and when: the *epoch*, which counts the barriers of the launch over all of its blocks, and the
        *moment*, which counts what ordered the lanes of a warp (bar.warp.sync) since its last barrier.
    epoch, block : int
        The lowest stamps of this epoch, and of this block.
    """

    instruction: int
    threads: np.ndarray
    stamps: np.ndarray
    epoch: int
    block: int

    @classmethod
    def of(cls, instruction, threads, stamps, epoch, first_epoch):
        """The access of an instruction, with :func:`stamps` that lack it; ``first_epoch`` is the block's first."""
        return cls(instruction, threads, stamps | instruction << _INSTRUCTION, epoch << _EPOCH, first_epoch << _EPOCH)

    def only(self, chosen):
        """The same for some of the lanes."""
        return self._replace(threads=self.threads[chosen], stamps=self.stamps[chosen])


class Memory:
    """Bytes at consecutive addresses.

    Parameters
    ----------
    base, size : int
        First address and number of bytes, multiples of 16.
    piece : int
        Bytes of the program's smallest access.
    findings : Findings
    """

    def __init__(self, base, size, piece, findings):
        self.base, self.piece, self.findings = base, piece, findings
        self.bytes, self.exists = np.full(size, _POISON, np.uint8), np.zeros(size, bool)
        self.pieces = self.bytes.view(f"u{piece}")
        self.states = np.full(size // piece, _ABSENT, np.uint8)
        # zeros take no memory before they are touched
        self.changes, self.repeats, self.reads, self.in_flight = (np.zeros(size // piece, np.int64) for _ in range(4))
        self.being_read = np.zeros(size // piece, np.int32)  # by how many copies
        self.copies = self.copies_from_here = 0
        self.names = []

    def place(self, name, address, size, data=None, exists=True, written=True):
        """Something of some bytes comes to an address, with its data unless nothing is written there yet.

        With ``exists``, an array of bool, only the bytes belong to it where that is true; with ``written``, another
        one, only they have a value.
        """
        start = address - self.base
        self.exists[start:start + size] |= exists
        if data is not None:
            self.bytes[start:start + size] = data
        first, end = start // self.piece, -(-(start + size) // self.piece)
        whole = self.exists.view(self.pieces.dtype)[first:end] == np.ones(self.piece, bool).view(self.pieces.dtype)
        known = data is not None
        if known and written is not True:
            values = np.ones(len(self.states[first:end]) * self.piece, bool)
            values[start - first * self.piece:][:size] = written
            known = values.reshape(-1, self.piece).all(1)
        states = np.where(whole, np.where(known, _WRITTEN, _FRESH), _ABSENT).astype(np.uint8)
        np.maximum(self.states[first:end], states, out=self.states[first:end])
        self.names.append((address, address + size, name))

    def written(self, address, size):
        """Which of some bytes exist and have a value."""
        start = address - self.base
        first, end = start // self.piece, -(-(start + size) // self.piece)
        bytes_of = (self.states[first:end] == _WRITTEN).repeat(self.piece)[start - first * self.piece:][:size]
        return self.exists[start:start + size] & bytes_of

    def forget(self):
        """What is there is anything, as in shared memory when a block begins."""
        self.bytes[:] = _POISON
        np.minimum(self.states, _FRESH, out=self.states)
        self.changes[:] = self.repeats[:] = self.reads[:] = self.in_flight[:] = _NOBODY
        self.copies = 0

    def load(self, access, addresses, size, count=1):
        """(n, count) unsigned integers of ``size`` bytes from n addresses; a pattern of bits where there is nothing."""
        access, pieces, states, mine, good = self._reached(access, addresses, size * count)
        values = self.pieces.take(pieces).reshape(-1, size * count // self.piece).view(f"u{size}")
        if len(pieces):
            if np.minimum.reduce(states) < _WRITTEN:
                self._report("read before written", access, states < _WRITTEN, pieces)
            self._must_have_landed(access, pieces)
            self._must_be_ordered(self.changes, access, pieces, mine)
            _join(self.reads, access, pieces, mine)
        if good is None:
            return values
        everywhere = np.full((len(addresses), size * count), _POISON, np.uint8).view(f"u{size}")
        everywhere[good] = values
        return everywhere

    def store(self, access, addresses, values, always=False):
        """(n, count) unsigned integers to n addresses; ``always`` takes them for a change, whatever was there."""
        access, pieces, states, mine, good = self._reached(access, addresses, values.dtype.itemsize * values.shape[1])
        if not len(pieces):
            return
        self._must_have_landed(access, pieces)
        if self.copies_from_here and (being_read := self.being_read.take(pieces) > 0).any():
            self._report("not waited for", access, being_read, pieces)
        values = np.ascontiguousarray(values if good is None else values[good]).view(self.pieces.dtype).ravel()
        changed = (self.pieces.take(pieces) != values) | (states < _WRITTEN) | always
        differs = changed | self._must_be_ordered(self.changes, access, pieces, mine, changed)
        self._must_be_ordered(self.repeats, access, pieces, mine, changed)
        self._must_be_ordered(self.reads, access, pieces, mine, differs)
        self.pieces[pieces], self.states[pieces] = values, _WRITTEN
        if differs.all():
            several = _join(self.changes, access, pieces, mine, ~changed)
        else:
            _join(self.repeats, access, pieces[~differs], mine[~differs])
            _join(self.changes, access, pieces[differs], mine[differs], ~changed[differs])
            several = True  # perhaps, one that changes a piece and one that does not
        if several:
            self._must_agree(access, pieces, values)

    def begin_copy(self, access, addresses, width):
        """Bytes are on their way to these addresses. They arrive now or later; until then nobody may look.

        Returns
        -------
        (n,) array of bool, or None for all
            Where the addresses are good; what goes elsewhere is lost.
        """
        access, pieces, _, mine, good = self._reached(access, addresses, width)
        if len(pieces):
            self._must_have_landed(access, pieces)
            for known in self.changes, self.repeats, self.reads:
                self._must_be_ordered(known, access, pieces, mine)
            self.in_flight[pieces] = mine
            there = self.in_flight.take(pieces)
            if (there != mine).any():
                self._report("race", access, there != mine, pieces, there)
            self.copies += len(access.threads)
        return good

    def copied_from(self, addresses, width, begins):
        """Asynchronous copies begin to read these addresses, or have read them; meanwhile nobody may change them."""
        offsets = addresses.view(np.int64) - self.base
        good = (offsets >= 0) & (offsets <= len(self.bytes) - width) & (offsets & (width - 1) == 0)
        np.add.at(self.being_read, self._pieces(offsets[good], width), 1 if begins else -1)
        self.copies_from_here += len(addresses) if begins else -len(addresses)

    def land(self, access, addresses, values):
        """What :meth:`begin_copy` has begun arrives, as a change of now."""
        pieces = self._reached(access, addresses, values.dtype.itemsize * values.shape[1])[1]
        self.in_flight[pieces] = _NOBODY
        self.copies -= len(addresses)
        self.store(access, addresses, values, always=True)

    def _reached(self, access, addresses, width):
        """What an access finds; what is no multiple of its width, or does not exist, is reported and left out.

        Returns
        -------
        Access, pieces, states, stamps, good
            Who is left, the pieces that these touch, (lanes * pieces of each,), what they are and the stamps that they
            would get, and a mask of those who are left; None for all.
        """
        offsets = addresses.view(np.int64) - self.base  # below the base they are negative, and large as unsigned
        if np.maximum.reduce(offsets.view(np.uint64)) <= len(self.bytes) - width \
                and not np.bitwise_or.reduce(offsets) & (width - 1):
            pieces = self._pieces(offsets, width)
            states = self.states.take(pieces)
            if np.minimum.reduce(states) > _ABSENT:
                return access, pieces, states, access.stamps.repeat(width // self.piece), None
        aligned = offsets & (width - 1) == 0
        good = aligned & (offsets >= 0) & (offsets <= len(self.bytes) - width)
        states = self.states.take(self._pieces(np.where(good, offsets, 0), width))
        good &= (states.reshape(-1, width // self.piece) > _ABSENT).all(1)
        self._report_addresses("misaligned", access, ~aligned, addresses, width)
        self._report_addresses("out of bounds", access, aligned & ~good, addresses, width)
        access, pieces = access.only(good), self._pieces(offsets[good], width)
        return access, pieces, self.states.take(pieces), access.stamps.repeat(width // self.piece), good

    def must_have_landed(self):
        """Where a block ends, no copy may be under way."""
        if self.copies:
            late = self.in_flight[self.in_flight > _NOBODY]
            for instruction in np.unique(late & _INSTRUCTIONS):
                these = np.unique(late[late & _INSTRUCTIONS == instruction])
                self.findings.add("not waited for", int(instruction) >> _INSTRUCTION,
                                  "still under way where its block ends", _thread(int(these[0])), count=len(these))

    def _pieces(self, offsets, width):
        first = offsets >> (self.piece.bit_length() - 1)
        if width == self.piece:
            return first
        return (first[:, None] + np.arange(width // self.piece)).ravel()

    def _must_be_ordered(self, known, access, pieces, mine, matters=True):
        """Reports a race with those who are known to have been there, where it matters; returns where there is any."""
        races, before = False, known.take(pieces)
        for kind, where in _unordered(access, mine, before):
            races = where | races
            where = where & matters
            if np.count_nonzero(where):
                self._report(kind, access, where, pieces, before)
        return races

    def _must_agree(self, access, pieces, values):
        """Two lanes may write one piece in one instruction, but not two values."""
        lost = self.pieces.take(pieces) != values
        if lost.any():
            loser = int(np.argmax(lost))
            winner = int(np.flatnonzero(pieces == pieces[loser])[-1])
            thread = int(access.threads[winner * len(access.threads) // len(pieces)])
            self._report("race", access, lost, pieces, other=(thread, access.instruction))

    def _must_have_landed(self, access, pieces):
        if self.copies:
            flying = self.in_flight.take(pieces)
            if (flying > _NOBODY).any():
                self._report("not waited for", access, flying > _NOBODY, pieces, flying)

    def _report(self, kind, access, bad, pieces, before=None, other=None):
        """One finding, or one for each instruction that was there before."""
        lanes = np.arange(len(pieces)) * len(access.threads) // len(pieces)
        for instruction in [None] if before is None else np.unique(before[bad] & _INSTRUCTIONS):
            these = bad if before is None else bad & (before & _INSTRUCTIONS == instruction)
            first = int(np.argmax(these))
            threads, at = [int(access.threads[lanes[first]])], None
            if other:
                threads, at = [*threads, other[0]], other[1]
            elif before is not None:
                threads, at = [*threads, *_thread(int(before[first]))], int(instruction) >> _INSTRUCTION
            where = self._named(self.base + int(pieces[first]) * self.piece)
            self.findings.add(kind, access.instruction, where, tuple(threads), at, len(set(lanes[these].tolist())))

    def _report_addresses(self, kind, access, bad, addresses, width):
        if bad.any():
            lane = int(np.argmax(bad))
            address = int(addresses.view(np.int64)[lane])
            first = self._named(address)
            where = f"{counted(width, 'byte')} at {first}"
            if kind == "out of bounds":
                outside = next(self._named(byte) for byte in range(address, address + width) if not self._has(byte))
                where = first if outside == first else f"{outside}, for {where}"
            self.findings.add(kind, access.instruction, where, (int(access.threads[lane]),), count=bad.sum())

    def _has(self, address):
        return 0 <= address - self.base < len(self.exists) and bool(self.exists[address - self.base])

    def _named(self, address):
        for first, end, name in self.names:
            if first <= address < end:
                return f"byte {address - first} of {name}"
        if not self.names:
            return f"address {address:#x}"
        near = min(self.names, key=lambda each: min(abs(address - each[0]), abs(address - each[1])))
        if address < near[0]:
            return f"{counted(near[0] - address, 'byte')} before {near[2]}"
        return f"{counted(address - near[1] + 1, 'byte')} past the end of {near[2]}"


def _unordered(access, mine, before):
    """Pairs of a kind of race, and where the stamps ``before`` say that somebody was there without an order."""
    found, last = [], np.maximum.reduce(before)
    if last >= access.epoch:
        apart = before ^ mine
        if np.count_nonzero(apart & _THREADS):
            now = (before >= access.epoch) & (apart & _THREADS != 0)
            now &= (apart & _WARPS != 0) | (before & _MOMENTS >= mine & _MOMENTS)
            if np.count_nonzero(now):
                found.append(("race", now))
    if last > _NOBODY and access.block > _FIRST_BLOCK:
        blocks = _of_earlier_blocks(access, before)
        if np.count_nonzero(blocks):
            found.append(("race of blocks", blocks))
    return found


def _join(known, access, pieces, mine, remember=True):
    """Puts the stamps of an access there, joined with those of its epoch that do not come before it.

    Where ``remember`` is true, that an earlier block was there is kept, too. Returns whether several lanes meet.
    """
    before = known.take(pieces)
    last = np.maximum.reduce(before, initial=_NOBODY)
    if last >= access.epoch and np.count_nonzero((before ^ mine) & _THREADS):
        mine = np.where(before >= access.epoch, _both(before, mine), mine)
    if last > _NOBODY and access.block > _FIRST_BLOCK:
        mine = mine | (_of_earlier_blocks(access, before) & remember)
    known[pieces] = mine
    there = known.take(pieces)
    if not np.count_nonzero(there != mine):
        return False
    np.maximum.at(known, pieces, _both(there, mine))
    return True


def _of_earlier_blocks(access, before):
    """Whether stamps are of earlier blocks of the launch, or remember one."""
    return (before > _NOBODY) & ((before < access.block) | (before & _TOO == 1))


def _both(before, mine):
    """Stamps of two who were there in one epoch: the later one if it knows of the other, else several.

    Of several in one warp it knows the moment; several warps have the last moment of all, so that nothing comes later.
    """
    apart = before ^ mine
    warps = apart & _WARPS != 0
    lanes = (apart & _LANES != 0) & (before & _MOMENTS >= mine & _MOMENTS)
    return mine | np.where(warps, _MOMENTS | _THREADS, np.where(lanes, _LANES, 0))


def _thread(stamp):
    """The thread of a stamp, in a tuple; none of several."""
    warp, lane = stamp >> _WARP & _SEVERAL, stamp >> _LANE & _SEVERAL
    return () if lane == _SEVERAL else (warp * 32 + lane,)

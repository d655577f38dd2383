"""Registers of some lanes, and operands: a name, a number or a symbol becomes an array with a value for each lane."""

from __future__ import annotations

import re

import numpy as np

from .arithmetic import DTYPES
from .program import PTXError

__all__ = ["Registers", "bits_of"]

_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|\d+)U?$")
_FLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]+)$")
_POISON = 0xA5


def bits_of(kind):
    """Width of a type in bits; a predicate counts as 1."""
    return 1 if kind == "pred" else 8 * np.dtype(DTYPES[kind]).itemsize


class Registers:
    """What the operands of a program stand for, in some lanes.

    Parameters
    ----------
    program : Program
    lanes : int
    special : dict
        Arrays (lanes,) of uint32 for ``%tid.x`` and its like.
    symbols : dict
        Addresses of arrays in shared memory.
    """

    def __init__(self, program, lanes, special, symbols):
        self.lanes, self.symbols = lanes, symbols
        self.special = {name: values if values.dtype == np.uint32 else values.astype(np.uint32)
                        for name, values in special.items()}
        self._rows, self._kinds = {}, {}
        for prefix, (kind, count) in program.registers.items():
            names = [f"{prefix}{i}" for i in range(count)] if count else [prefix]
            dtype = DTYPES[kind]
            block = np.zeros((len(names), lanes), dtype) if kind == "pred" else np.full(
                (len(names), lanes * np.dtype(dtype).itemsize), _POISON, np.uint8).view(dtype)
            for name, row in zip(names, block, strict=True):
                self._rows[name], self._kinds[name] = row, kind

    def target(self, name, kind):
        """The register itself, seen as a type: what is written into the array is in the register."""
        row = self._row(name, kind)
        return row if kind == "pred" else row.view(DTYPES[kind])

    def widened(self, name, kind):
        """The register that a value of some type is loaded into, which may be wider: then the sign is repeated."""
        wider = bits_of(self._kinds.get(name, kind))
        return self.target(name, f"{kind[0]}{wider}" if wider > bits_of(kind) and kind[0] in "su" else kind)

    def narrowed(self, text, kind):
        """The operand of a conversion, which may be the lower part of a wider register."""
        wider = bits_of(self._kinds.get(text, kind))
        if wider <= bits_of(kind) or kind == "pred":
            return self.source(text, kind)
        return self._rows[text].view(DTYPES[kind]).reshape(self.lanes, -1)[:, 0]

    def source(self, text, kind):
        """The values of an operand. Of a register, the array changes with it."""
        if text in self._rows:
            return self.target(text, kind)
        if text in self.special:
            return self.special[text].view(DTYPES[kind])  # changes from block to block
        if text in self.symbols:
            return self._constant(self.symbols[text], kind)
        return self._constant(self._number(text, kind), kind)

    def address(self, text, bits):
        """``[register + number]``: a function that computes the addresses, as uint64."""
        found = re.match(r"\[([%\w$.@]+?)(?:\+(-?\w+))?\]$", text)
        if found is None:
            raise PTXError(f"the machine does not know the address {text}")
        start, offset = self.source(found[1], f"u{bits}"), int(found[2] or "0", 0)
        step = np.array(offset).astype(np.int64).astype(np.uint64)
        return lambda: start.astype(np.uint64) + step

    def _row(self, name, kind):
        if name not in self._rows:
            raise PTXError(f"{name} is no register of the program")
        if bits_of(self._kinds[name]) != bits_of(kind):
            raise PTXError(f"register {name} of type {self._kinds[name]} used as {kind}")
        return self._rows[name]

    def _constant(self, value, kind):
        """As many copies as there are lanes, so that constants are arrays like the others."""
        value = np.broadcast_to(np.asarray(value), self.lanes)
        return value.astype(DTYPES[kind]) if value.dtype != DTYPES[kind] else value.copy()

    @staticmethod
    def _number(text, kind):
        found = _FLOAT.match(text)
        if found:
            bits = np.array(int(found[2], 16), "u4" if found[1] in "fF" else "u8")
            if 8 * bits.itemsize != bits_of(kind):
                raise PTXError(f"{text} used as {kind}")
            return bits.view(DTYPES[kind])
        found = _NUMBER.match(text)
        if found is None:
            raise PTXError(f"the machine does not know the operand {text}")
        value = int(found[2], 0 if found[2][:2].lower() == "0x" else 10) * (-1 if found[1] else 1)
        if kind == "pred":
            return bool(value)
        bits = bits_of(kind)
        return np.array(value % 2**bits, f"u{bits // 8}").view(DTYPES[kind])

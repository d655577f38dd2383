"""Registers of some lanes, and operands: a name, a number or a symbol becomes an array with a value for each lane."""

from __future__ import annotations

import functools
import re

import numpy as np

from .arithmetic import DTYPES
from .program import PTXError

__all__ = ["Registers", "bits_of"]

_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|[1-9]\d*|0)U?$")
_FLOAT = re.compile(r"0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))$")
_POISON = 0xA5


@functools.cache
def bits_of(kind):
    """Width of a type in bits; a predicate counts as 1."""
    return 1 if kind == "pred" else 8 * np.dtype(DTYPES[kind]).itemsize


def _is_whole(kind):
    """A number without a fraction, or bits."""
    return kind[0] in "sub" and kind[1:].isdigit()


class Registers:
    """What the operands of a program stand for, in some lanes.

    Registers begin with a pattern of bits that no program expects, predicates with false.

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
            if kind not in DTYPES or not self._rows.keys().isdisjoint(names):
                raise PTXError(f"the machine does not know registers {prefix} of type {kind}, or knows them already")
            dtype = DTYPES[kind]
            block = np.zeros((len(names), lanes), dtype) if kind == "pred" else np.full(
                (len(names), lanes * np.dtype(dtype).itemsize), _POISON, np.uint8).view(dtype)
            for name, row in zip(names, block, strict=True):
                self._rows[name], self._kinds[name] = row, kind

    def target(self, name, kind):
        """The register itself, seen as a type: what is written into the array is in the register."""
        return self._seen(self._row(name, kind), kind)

    def widened(self, name, kind):
        """The register that a load or a conversion writes, which may be wider than the type.

        What is written into the array fills the register: with copies of the sign for a signed type, else with zeros.
        """
        wider = self._width(name, kind)
        return self.target(name, f"{kind[0]}{wider}" if wider else kind)

    def source(self, text, kind):
        """The values of an operand. Of a register, the array changes with it."""
        if text in self._rows:
            return self.target(text, kind)
        if text in self.special:
            if bits_of(kind) != 32:
                raise PTXError(f"{text} used as {kind}")
            return self.special[text].view(DTYPES[kind])  # changes from block to block
        if text in self.symbols:
            if not _is_whole(kind) or bits_of(kind) < 32:
                raise PTXError(f"the address {text} used as {kind}")
            return self._constant(self.symbols[text], kind)
        return self._constant(self._number(text, kind), kind)

    def narrowed(self, text, kind):
        """The values of an operand of a store or a conversion, of which a register may be wider: its lower bits."""
        wider = self._width(text, kind)
        if not wider:
            return self.source(text, kind)
        parts = self.target(text, f"u{wider}").view(f"u{bits_of(kind) // 8}")
        return self._seen(parts.reshape(self.lanes, -1)[:, 0], kind)

    def address(self, text, bits):
        """``[register + number]``: a function that computes the addresses, as uint64."""
        found = re.match(r"\[([%\w$.@]+)(?:\+(-?\w+))?\]$", text) if isinstance(text, str) else None
        if found is None or not (found[1] in self._rows or found[1] in self.symbols):
            raise PTXError(f"the machine does not know the address {text}")
        start, step = self.source(found[1], f"u{bits}"), self._number(found[2] or "0", f"u{bits}")
        if bits == 64:
            return lambda: start + step
        return lambda: (start + step).view(np.int32).astype(np.uint64)  # wraps; what is below 0 stays there

    def _width(self, name, kind):
        """Bits of a register that is wider than a type of whole numbers; else 0."""
        there = self._kinds.get(name, "pred")
        return bits_of(there) if _is_whole(kind) and _is_whole(there) and bits_of(there) > bits_of(kind) else 0

    @staticmethod
    def _seen(row, kind):
        return row if kind == "pred" else row.view(DTYPES[kind])

    def _row(self, name, kind):
        if name not in self._rows:
            raise PTXError(f"{name} is no register of the program")
        if bits_of(self._kinds[name]) != bits_of(kind):
            raise PTXError(f"register {name} of type {self._kinds[name]} used as {kind}")
        return self._rows[name]

    def _constant(self, value, kind):
        """As many copies as there are lanes, so that constants are arrays like the others."""
        return np.full(self.lanes, value, DTYPES[kind])

    @staticmethod
    def _number(text, kind):
        """A literal as a scalar. Whole numbers keep their lower bits; bits of floats are taken as they are."""
        found = _FLOAT.match(text) if isinstance(text, str) else None
        if found:
            bits = np.array(int(found[1] or found[2], 16), "u4" if found[1] else "u8")
            if 8 * bits.itemsize != bits_of(kind) or kind[0] not in "fb":
                raise PTXError(f"{text} used as {kind}")
            return bits.view(DTYPES[kind])
        found = _NUMBER.match(text) if isinstance(text, str) else None
        if found is None or kind[0] == "f":
            raise PTXError(f"the machine does not know the operand {text} as {kind}")
        value = int(found[2], 16 if found[2][:2].lower() == "0x" else 10) * (-1 if found[1] else 1)
        if kind == "pred":
            return bool(value)
        bits = bits_of(kind)
        return np.array(value % 2**bits, f"u{bits // 8}").view(DTYPES[kind])

"""What the instructions mean that compute registers from registers, lane by lane, in NumPy.

Each opcode becomes an :class:`Operation`: the types of its sources, the type of its result, and a function of arrays.
Approximate instructions are computed as well as their type can hold them, and say how far a GPU may be off. A NaN that
comes out of float32 arithmetic, or of rounding to bfloat16, has the bits that PTX names; any other has the CPU's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .program import PTXError
from .rounding import bfloat16_from_float32, float32_from_bfloat16, flushed, fused_multiply_add

__all__ = ["DTYPES", "Operation", "operation"]

#: NumPy's type for each of PTX's; "b" types are bits, and bfloat16 is bits, too.
DTYPES = {"pred": np.bool_, "s8": np.int8, "u8": np.uint8, "b8": np.uint8,
          **{f"{kind}{bits}": np.dtype(f"{letter}{bits // 8}").type
             for bits in (16, 32, 64) for kind, letter in (("s", "i"), ("u", "u"), ("b", "u"), ("f", "f"))},
          "bf16": np.uint16, "s16x2": np.uint32, "u16x2": np.uint32, "f16x2": np.uint32, "bf16x2": np.uint32}


@dataclass(frozen=True)
class Operation:
    """A function of lanes.

    Attributes
    ----------
    result : str
        PTX's type of what comes out.
    sources : tuple of str
        Types of what goes in.
    function : callable
        Of one array for each source.
    blurred : callable or None
        Of a result and an array of random numbers in [-2, 2), for what a GPU computes approximately: another result
        that the documentation allows, further up or down the further the number is from 0.
    more : bool
        Whether an instruction may have one source more, which the function takes together with the first result.
    """

    result: str
    sources: tuple
    function: Callable
    blurred: Callable | None = None
    more: bool = False

    def of(self, count):
        """The operation of as many sources, if it has that form; else itself."""
        if not self.more or count != len(self.sources) + 1:
            return self
        return replace(self, sources=(*self.sources, self.sources[-1]), more=False,
                       function=lambda *sources: self.function(self.function(*sources[:-1]), sources[-1]))


@functools.cache
def operation(opcode):
    """The operation of an opcode.

    Raises
    ------
    PTXError
        If it is not known.

    Examples
    --------
    >>> add = operation("add.s32")
    >>> add.sources, add.function(np.int32([2**31 - 1]), np.int32([1]))
    (('s32', 's32'), array([-2147483648], dtype=int32))
    """
    name, *modifiers = opcode.split(".")
    known = _KNOWN.get(name)
    found = known(modifiers) if known and modifiers else None
    if found is None:
        raise PTXError(f"the machine does not know {opcode}")
    return found


_INTEGERS = {"s16", "u16", "s32", "u32", "s64", "u64"}
_FLOATS = {"f32", "f64"}
_AS_FLOAT32 = {"f16": lambda x: x.astype(np.float32), "bf16": float32_from_bfloat16}
_BITS = {"b16", "b32", "b64"}


_NAN = np.uint32(0x7FFFFFFF).view(np.float32)


def _same(own, types, count, rounding=("rn",)):
    """An operation whose sources have the type of the result; floats may be rounded to nearest, and flushed."""
    def meaning(modifiers):
        *others, kind = modifiers
        flush = others[-1:] == ["ftz"]
        others = others[:-1] if flush else others
        if kind not in types or (others and (kind not in _FLOATS or others[0] not in rounding or len(others) > 1)):
            return None
        if flush and kind != "f32":
            return None
        function = _flushing(own) if flush else own
        return Operation(kind, (kind,) * count, _canonical(function) if kind == "f32" and count > 1 else function)
    return meaning


def _canonical(function):
    """The same, but any NaN is 0x7FFFFFFF."""
    def computed(*sources):
        result = function(*sources)
        nan = result != result
        return np.where(nan, _NAN, result) if nan.any() else result
    return computed


def _flushing(function):
    """The same of flushed numbers, and flushed."""
    return lambda *sources: flushed(function(*map(flushed, sources)))


def _first(*meanings):
    """The first of several meanings that knows the modifiers."""
    return lambda modifiers: next(filter(None, (each(modifiers) for each in meanings)), None)


# integers

def _quotient(a, b):
    """Rounded toward 0; all bits set for a divisor of 0, where a GPU may return anything."""
    wide = [x.astype(np.int64) if x.dtype.itemsize < 8 else x for x in (a, b)]
    safe = np.where(b == 0, 1, wide[1])
    down = wide[0] // safe
    up = (down * safe != wide[0]) & ((wide[0] < 0) != (safe < 0))
    return np.where(b == 0, ~np.zeros_like(down), down + up).astype(a.dtype)


def _remainder(a, b):
    return a - _quotient(a, b) * b


def _half(which):
    """mul and mad of integers: the lower half, the upper half, or the whole product, twice as wide."""
    def meaning(modifiers, added=False):
        if len(modifiers) != 2 or modifiers[0] != which or modifiers[1] not in _INTEGERS:
            return None
        kind = modifiers[1]
        wide = f"{kind[0]}{2 * int(kind[1:])}"
        if which == "lo":
            result, function = kind, np.multiply
        elif wide not in DTYPES:
            return None
        elif which == "wide":
            result, function = wide, lambda a, b: a.astype(DTYPES[wide]) * b.astype(DTYPES[wide])
        else:
            result, function = kind, lambda a, b: (a.astype(DTYPES[wide]) * b.astype(DTYPES[wide])
                                                   >> int(kind[1:])).astype(DTYPES[kind])
        if added:
            return Operation(result, (kind, kind, result), lambda a, b, c: function(a, b) + c)
        return Operation(result, (kind, kind), function)
    return meaning


def _shift(left):
    """An amount beyond the width shifts everything out, but for the sign."""
    def meaning(modifiers):
        kind = modifiers[0]
        if len(modifiers) > 1 or kind not in (_BITS if left else _BITS | _INTEGERS):
            return None
        bits = int(kind[1:])

        def shifted(x, amount):
            inside = np.minimum(amount, bits - 1).astype(x.dtype)
            if left:
                return np.where(amount < bits, x << inside, 0).astype(x.dtype)
            out = x >> inside
            return out if kind[0] == "s" else np.where(amount < bits, out, 0).astype(x.dtype)
        return Operation(kind, (kind, "u32"), shifted)
    return meaning


def _bit_field(modifiers):
    """bfe: some bits, from a position, to the right. Beyond them is 0, or for a signed type copies of the last one."""
    kind = modifiers[0]
    if len(modifiers) > 1 or kind not in ("u32", "s32", "u64", "s64"):
        return None
    bits, unsigned = int(kind[1:]), f"u{kind[1:]}"
    right, left = _shift(left=False)([unsigned]).function, _shift(left=True)([f"b{bits}"]).function

    def field(x, position, length):
        x, position, length = x.view(DTYPES[unsigned]), position & 255, np.minimum(length & 255, bits)
        found, ones = right(x, position), ~np.zeros_like(x)
        found = found & right(ones, bits - length)
        if kind[0] == "s":
            last = right(x, np.minimum(position + np.maximum(length, 1) - 1, bits - 1)) & x.dtype.type(1)
            inside = np.minimum(length, bits - np.minimum(position, bits))
            found = np.where((last == 1) & (length > 0), found | left(ones, inside), found)
        return found.view(DTYPES[kind])
    return Operation(kind, (kind, "u32", "u32"), field)


def _permuted(modifiers):
    """prmt: four of the eight bytes of two registers; bit 3 of a selector repeats the sign."""
    if modifiers != ["b32"]:
        return None

    def chosen(a, b, selector):
        both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
        out = np.zeros_like(a)
        for i in range(4):
            pick = (selector >> np.uint32(4 * i)) & np.uint32(15)
            byte = (both >> (8 * (pick & np.uint32(7))).astype(np.uint64) & np.uint64(255)).astype(np.uint32)
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            out = out | np.where(pick & np.uint32(8), sign, byte) << np.uint32(8 * i)
        return out
    return Operation("b32", ("b32", "b32", "b32"), chosen)


def _in_halves(function):
    """An operation on both 16-bit halves of a register."""
    def meaning(modifiers):
        if modifiers not in (["s16x2"], ["u16x2"]):
            return None

        def both(a, b):
            halves = [np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(np.shape(a), np.shape(b))))
                      .view(np.uint16) for x in (a, b)]
            return function(*halves).view(np.uint32)
        return Operation("b32", ("b32", "b32"), both)
    return meaning


# floats

def _in_pairs(function, count, rounding):
    """An operation on both of the float32 in a register of 64 bits."""
    def both(*sources):
        return _canonical(function)(*(x.view(np.float32) for x in sources)).view(np.uint64)
    return lambda modifiers: Operation("b64", ("b64",) * count, both) if modifiers in rounding else None


def _widening(function):
    """An operation of float32 whose first source is only half as wide."""
    def meaning(modifiers):
        if len(modifiers) != 3 or modifiers[:2] != ["rn", "f32"] or modifiers[2] not in _AS_FLOAT32:
            return None
        wide = _AS_FLOAT32[modifiers[2]]
        return Operation("f32", (modifiers[2], "f32"), lambda a, b: _canonical(function)(wide(a), b))
    return meaning


def _magnitude(modifiers):
    """abs of floats half as wide, whose upper bit is their sign."""
    if modifiers not in (["f16"], ["bf16"]):
        return None
    return Operation(*modifiers, tuple(modifiers), lambda x: (x.view(np.uint16) & np.uint16(0x7FFF)).view(x.dtype))


def _extreme(largest):
    """min and max: a NaN loses, unless ``.NaN`` is asked for, and -0 < +0."""
    chosen, bits = (np.fmax, np.bitwise_and) if largest else (np.fmin, np.bitwise_or)

    def of_floats(a, b):
        unsigned = np.dtype(f"u{a.dtype.itemsize}")
        zeros = bits(np.atleast_1d(a).view(unsigned), np.atleast_1d(b).view(unsigned)).view(a.dtype)
        return np.where((a == 0) & (b == 0), zeros, chosen(a, b))

    def meaning(modifiers):
        *others, kind = modifiers
        if kind in _INTEGERS and not others:
            return Operation(kind, (kind, kind), np.maximum if largest else np.minimum)
        if kind not in _FLOATS or others not in ([], ["ftz"], ["NaN"], ["ftz", "NaN"]) or (others and kind != "f32"):
            return None
        function = of_floats
        if "NaN" in others:
            def function(a, b):
                return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), of_floats(a, b))
        function = _flushing(function) if "ftz" in others else function
        return Operation(kind, (kind, kind), _canonical(function) if kind == "f32" else function, more=kind == "f32")
    return meaning


def _off_by_two_units(result, chance):
    """float32 up to two units in the last place away, which PTX grants ex2.approx and div.full.

    Zero, infinity and NaN stay, and what is finite stays so, with its sign.
    """
    bits, sign = np.abs(result).view(np.int32), np.int32(-2**31)
    moved = np.clip(bits + np.rint(chance).astype(np.int32), 1, np.finfo(np.float32).max.view(np.int32))
    usual = np.isfinite(result) & (result != 0)
    return np.where(usual, moved | result.view(np.int32) & sign, result.view(np.int32)).view(np.float32)


def _power(modifiers):
    """ex2.approx.f32, which is exact for 0."""
    if modifiers not in (["approx", "f32"], ["approx", "ftz", "f32"]):
        return None

    def power(x):
        return np.exp2(x.astype(np.float64)).astype(np.float32)

    def blurred(result, chance):
        moved = np.where(result == 1, result, _off_by_two_units(result, chance))
        return flushed(moved) if "ftz" in modifiers else moved
    return Operation("f32", ("f32",), _canonical(_flushing(power) if "ftz" in modifiers else power), blurred)


def _full_quotient(modifiers):
    """div.full.f32."""
    if modifiers != ["full", "f32"]:
        return None
    return Operation("f32", ("f32", "f32"), _canonical(np.divide), _off_by_two_units)


def _gross_reciprocal(modifiers):
    """rcp.approx.ftz.f64, from and to the upper 32 bits alone: the first guess of a division in float64.

    PTX does not say how good the guess is. Here it may be off by one unit of these 32 bits, besides what they cut off.
    """
    if modifiers != ["approx", "ftz", "f64"]:
        return None
    upper, nan = np.uint64(0xFFFFFFFF00000000), np.uint64(0x7FFFFFFF00000000)

    def reciprocal(x):
        exact = flushed(1.0 / flushed((x.view(np.uint64) & upper).view(np.float64)))
        return np.where(np.isnan(exact), nan, exact.view(np.uint64) & upper).view(np.float64)

    def blurred(result, chance):
        unit = np.clip(chance, -1, 1).astype(np.int64) << 32
        usual = np.isfinite(result) & (result != 0)
        return flushed(np.where(usual, result.view(np.int64) + unit, result.view(np.int64)).view(np.float64))
    return Operation("f64", ("f64",), reciprocal, blurred)


# comparisons and choices

_COMPARED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
             "ge": np.greater_equal}


def _comparison(modifiers):
    """setp: ordered comparisons are false for a NaN, those that end in u are true."""
    if len(modifiers) != 2 or modifiers[1] not in _BITS | _INTEGERS | _FLOATS | _AS_FLOAT32.keys():
        return None
    how, kind = modifiers
    if kind in _AS_FLOAT32:
        wide, of_wide = _AS_FLOAT32[kind], _comparison([how, "f32"])
        return of_wide and Operation("pred", (kind, kind), lambda a, b: of_wide.function(wide(a), wide(b)))
    function = _COMPARED.get(how)
    if kind in _BITS and how not in ("eq", "ne"):
        return None
    if kind in _FLOATS:
        unordered = _COMPARED.get(how.removesuffix("u")) if how.endswith("u") else None
        if how in ("nan", "num"):
            def function(a, b):
                return (np.isnan(a) | np.isnan(b)) == (how == "nan")
        elif how == "ne":
            def function(a, b):
                return (a < b) | (a > b)
        elif unordered:
            def function(a, b):
                return unordered(a, b) | np.isnan(a) | np.isnan(b)
    return function and Operation("pred", (kind, kind), function)


def _choice(modifiers):
    """selp."""
    kind = modifiers[0]
    if len(modifiers) > 1 or kind not in _BITS | _INTEGERS | _FLOATS:
        return None
    return Operation(kind, (kind, kind, "pred"), lambda a, b, p: np.where(p, a, b))


# conversions

_ROUNDED = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _conversion(modifiers):
    """cvt. A float beyond the integers becomes the last one; a NaN becomes 0, or where 64 bits occur the upper bit."""
    *how, to, of = ["", *modifiers][-max(len(modifiers), 2):]
    if to not in DTYPES or of not in DTYPES:
        return None
    target = DTYPES[to]
    floats = {"f16", "f32", "f64"}
    if to in _INTEGERS | {"s8", "u8"} and of in _INTEGERS | {"s8", "u8"} and not how:
        return Operation(to, (of,), lambda x: x.astype(target))
    if to in floats and of in _INTEGERS and how == ["rn"]:
        return Operation(to, (of,), lambda x: x.astype(target))
    if to in _INTEGERS and of in _FLOATS and len(how) == 1 and how[0] in _ROUNDED:
        bits = int(to[1:])
        nan = 0 if of != "f64" and bits < 64 else -2**(bits - 1) if to[0] == "s" else 2**(bits - 1)
        return Operation(to, (of,), functools.partial(_to_integer, _ROUNDED[how[0]], target, nan))
    if to == of and to in _FLOATS and len(how) == 1 and how[0] in _ROUNDED:
        return Operation(to, (of,), _ROUNDED[how[0]])
    if to in floats and of in floats and how == (["rn"] if int(to[1:]) < int(of[1:]) else []):
        return Operation(to, (of,), lambda x: x.astype(target))
    if to in _FLOATS and (of, how) == ("bf16", []):
        return Operation(to, (of,), lambda x: float32_from_bfloat16(x).astype(target))
    if (to, of, how) == ("bf16", "f32", ["rn"]):
        return Operation(to, (of,), bfloat16_from_float32)
    return None


def _packing(modifiers):
    """cvt of two float32 into the halves of a register, the second one below."""
    if modifiers == ["rn", "bf16x2", "f32"]:
        narrow = bfloat16_from_float32
    elif modifiers == ["rn", "f16x2", "f32"]:
        def narrow(x):
            return x.astype(np.float16).view(np.uint16)
    else:
        return None

    def packed(upper, lower):
        return narrow(upper).astype(np.uint32) << np.uint32(16) | narrow(lower)
    return Operation("b32", ("f32", "f32"), packed)


def _to_integer(rounded, target, nan, x):
    limits = np.iinfo(target)
    whole = rounded(x)
    inside = np.clip(np.where(np.isnan(x), 0, whole), float(limits.min), float(limits.max))
    # as a float the largest integer may be one too many: whatever reaches it is set to the integer itself
    large = inside >= float(limits.max)
    integers = np.where(large, limits.max, np.where(large, 0, inside).astype(target))
    return np.where(np.isnan(x), nan, integers).astype(target)


def _added(meaning):
    return lambda modifiers: meaning(modifiers, added=True)


_TO_NEAREST = ["f32x2"], ["rn", "f32x2"]
_KNOWN = {
    "add": _first(_in_halves(np.add), _in_pairs(np.add, 2, _TO_NEAREST), _widening(np.add),
                  _same(np.add, _INTEGERS | _FLOATS, 2)),
    "sub": _first(_in_pairs(np.subtract, 2, _TO_NEAREST), _widening(np.subtract),
                  _same(np.subtract, _INTEGERS | _FLOATS, 2)),
    "mul": _first(_half("lo"), _half("wide"), _half("hi"), _in_pairs(np.multiply, 2, _TO_NEAREST),
                  _same(np.multiply, _FLOATS, 2)),
    "mad": _first(_added(_half("lo")), _added(_half("wide"))),
    "fma": _first(_in_pairs(fused_multiply_add, 3, [["rn", "f32x2"]]),
                  lambda modifiers: _same(fused_multiply_add, _FLOATS, 3)(modifiers) if "rn" in modifiers else None),
    "div": _first(_full_quotient, _same(_quotient, _INTEGERS, 2),
                  lambda modifiers: _same(np.divide, _FLOATS, 2)(modifiers) if "rn" in modifiers else None),
    "rem": _same(_remainder, _INTEGERS, 2),
    "abs": _first(_magnitude, _same(np.abs, {"s16", "s32", "s64"} | _FLOATS, 1, rounding=())),
    "neg": _same(np.negative, {"s16", "s32", "s64"} | _FLOATS, 1, rounding=()),
    "min": _extreme(largest=False),
    "max": _extreme(largest=True),
    "and": _same(np.bitwise_and, _BITS | {"pred"}, 2),
    "or": _same(np.bitwise_or, _BITS | {"pred"}, 2),
    "xor": _same(np.bitwise_xor, _BITS | {"pred"}, 2),
    "not": _same(np.invert, _BITS | {"pred"}, 1),
    "shl": _shift(left=True),
    "shr": _shift(left=False),
    "bfe": _bit_field,
    "prmt": _permuted,
    "ex2": _power,
    "rcp": _gross_reciprocal,
    "setp": _comparison,
    "selp": _choice,
    "cvt": _first(_packing, _conversion),
}

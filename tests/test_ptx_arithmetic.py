"""ptx_machine's arithmetic against Python's integers and fractions, for every opcode that it knows.

Each opcode runs in a kernel that loads its operands and stores its result, so that the types of its registers are
tried, too. Where a result is rounded, the exact one is a fraction, and ``nearest`` rounds it as the definition has it.
"""

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx_kernels import kernel, run

from ptx_machine import PTXError
from ptx_machine.arithmetic import _KNOWN, operation
from ptx_machine.rounding import fused_multiply_add

NAN, INF = math.nan, math.inf
#: Bits of the significand and largest exponent of the floating-point types.
FORMATS = {"f16": (11, 15), "bf16": (8, 127), "f32": (24, 127), "f64": (53, 1023)}
FLOATS = {"f32": np.float32, "f64": np.float64}


# one instruction in a kernel

def computed(opcode, *operands, result, **options):
    """What an instruction makes of arrays. ``result`` is a type of NumPy's, bool for a predicate."""
    operands = np.broadcast_arrays(*operands)
    count = operands[0].size
    threads = min(-(-count // 32) * 32, 1024)
    blocks = -(-count // threads)
    lines, names = [f"mad.lo.s32 %r20, %r1, {threads}, %r0;"], []
    for i, operand in enumerate(operands):
        name, size = _register(operand.dtype, i), operand.dtype.itemsize
        lines += [f"mul.wide.u32 %rd10, %r20, {size};", f"add.s64 %rd10, %rd10, %rd{i};"]
        lines += [f"ld.global.b{8 * size} {'%rs19' if operand.dtype.kind == 'b' else name}, [%rd10];"]
        lines += [f"setp.ne.s16 {name}, %rs19, 0;"] if operand.dtype.kind == "b" else []
        names.append(name)
    target, result = _register(np.dtype(result), 8), np.dtype(result)
    lines.append(f"{opcode} {', '.join([target, *names])};")
    lines += [f"selp.b16 %rs18, 1, 0, {target};"] if result.kind == "b" else []
    lines += [f"mul.wide.u32 %rd10, %r20, {result.itemsize};", f"add.s64 %rd10, %rd10, %rd{len(operands)};",
              f"st.global.b{8 * result.itemsize} [%rd10], {'%rs18' if result.kind == 'b' else target};"]
    program = kernel("\n".join(lines), threads, ("u64",) * (len(operands) + 1))
    into = np.zeros(blocks * threads, result)
    padded = [np.resize(operand.ravel(), into.size) for operand in operands]
    report = run(program, *padded, into, blocks=blocks, **options)
    assert not report.findings, report.describe()
    return into[:count].reshape(operands[0].shape)


def _register(dtype, number):
    if dtype.kind == "b":
        return f"%p{number}"
    return f"%{ {1: 'rs', 2: 'rs', 4: 'r', 8: 'rd'}[dtype.itemsize]}{10 + number + (dtype.itemsize == 8)}"


def check(opcode, meaning, *operands, result, **options):
    """The instruction on arrays against a function of Python's numbers; a NaN is a NaN, and zeros have signs."""
    with np.errstate(all="ignore"):
        operands = np.broadcast_arrays(*operands)
        got = computed(opcode, *operands, result=result, **options)
        rows = list(zip(*(each.ravel().tolist() for each in operands), strict=True))
        expected = np.array([meaning(*row) for row in rows], got.dtype)
    for row, one, other in zip(rows, got.ravel(), expected, strict=True):
        alike = one.tobytes() == other.tobytes() or (one != one and other != other)
        assert alike, f"{opcode} of {row} is {one!r}; expected {other!r}"


def wrapped(value, dtype):
    """The integer that is left in a register of a type."""
    limits = np.iinfo(dtype)
    return (value - limits.min) % 2**limits.bits + limits.min


def nearest(exact, kind):
    """A fraction rounded to the nearest number of a type, to the even one of two; what is too large, to infinity."""
    digits, largest = FORMATS[kind]
    numerator, denominator = abs(exact.numerator), exact.denominator
    exponent = numerator.bit_length() - denominator.bit_length()  # of the leading bit, or one too large
    unit = max(exponent - 1, 1 - largest) - digits + 1
    unit += numerator << max(-unit, 0) >= denominator << max(unit, 0) + digits
    below = denominator << max(unit, 0)
    count, rest = divmod(numerator << max(-unit, 0), below)
    count += 2 * rest > below or (2 * rest == below and count % 2 == 1)
    value = INF if count.bit_length() + unit > largest + 1 else math.ldexp(count, unit)
    return -value if exact < 0 else value


# integers

INTEGERS = {f"{kind}{bits}": np.dtype(f"{letter}{bits // 8}") for kind, letter in (("s", "i"), ("u", "u"))
            for bits in (16, 32, 64)}


def edges(dtype):
    """Integers where something may go wrong."""
    limits, half = np.iinfo(dtype), 2 ** (8 * np.dtype(dtype).itemsize // 2)
    values = [0, 1, 2, 3, 7, half - 1, half, half + 1, limits.max, limits.max - 1, limits.max // 3, limits.min,
              limits.min + 1, -1, -2, -7, -half, 0x5A5A5A5A5A5A5A5A, 0x8421842184218421]
    return np.array([wrapped(value, dtype) for value in values], dtype)


def pairs(dtype):
    a = edges(dtype)
    return np.repeat(a, len(a)), np.tile(a, len(a))


def toward_zero(a, b):
    return int(Fraction(a, b))


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers(kind):
    """Sums and products modulo 2^bits, upper halves, whole products, quotients toward zero."""
    dtype = INTEGERS[kind]
    bits, (a, b) = 8 * dtype.itemsize, pairs(dtype)
    c = np.roll(a, 5)
    for opcode, meaning in {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul.lo": lambda a, b: a * b,
                            "min": min, "max": max}.items():
        check(f"{opcode}.{kind}", lambda *x, f=meaning: wrapped(f(*x), dtype), a, b, result=dtype)
    check(f"mad.lo.{kind}", lambda a, b, c: wrapped(a * b + c, dtype), a, b, c, result=dtype)
    a, b = a[b != 0], b[b != 0]
    check(f"div.{kind}", lambda a, b: wrapped(toward_zero(a, b), dtype), a, b, result=dtype)
    check(f"rem.{kind}", lambda a, b: a - toward_zero(a, b) * b, a, b, result=dtype)
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}{bits // 4}")
        check(f"mul.hi.{kind}", lambda a, b: a * b >> bits, a, b, result=dtype)
        check(f"mul.wide.{kind}", lambda a, b: a * b, a, b, result=wide)
        c = edges(wide)[:len(a)].repeat(len(a) // 10)[:len(a)]
        check(f"mad.wide.{kind}", lambda a, b, c: wrapped(a * b + c, wide), *np.broadcast_arrays(
            a[:len(c)], b[:len(c)], c), result=wide)
    if kind[0] == "s":
        check(f"abs.{kind}", lambda a: wrapped(abs(a), dtype), a, result=dtype)
        check(f"neg.{kind}", lambda a: wrapped(-a, dtype), a, result=dtype)


def test_a_division_by_zero_stops_nothing():
    """PTX leaves the result open; the machine has all bits set, whatever the type."""
    for kind, dtype in INTEGERS.items():
        check(f"div.{kind}", lambda a, b, d=dtype: wrapped(-1, d), edges(dtype), dtype.type(0), result=dtype)


@pytest.mark.parametrize("kind", INTEGERS)
def test_comparisons_of_integers(kind):
    dtype = INTEGERS[kind]
    a, b = pairs(dtype)
    for how, meaning in COMPARED.items():
        check(f"setp.{how}.{kind}", meaning, a, b, result=bool)
    bits = 8 * dtype.itemsize
    for how in ("eq", "ne"):
        check(f"setp.{how}.b{bits}", COMPARED[how], a, b, result=bool)


COMPARED = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
            "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bits(bits):
    dtype = np.dtype(f"u{bits // 8}")
    a, b = pairs(dtype)
    check(f"and.b{bits}", lambda a, b: a & b, a, b, result=dtype)
    check(f"or.b{bits}", lambda a, b: a | b, a, b, result=dtype)
    check(f"xor.b{bits}", lambda a, b: a ^ b, a, b, result=dtype)
    check(f"not.b{bits}", lambda a: 2**bits - 1 - a, a, result=dtype)
    chosen = np.arange(len(a)) % 3 == 0
    check(f"selp.b{bits}", lambda a, b, p: a if p else b, a, b, chosen, result=dtype)
    check(f"selp.s{bits}", lambda a, b, p: a if p else b, a.view(f"i{bits // 8}"), b.view(f"i{bits // 8}"), chosen,
          result=f"i{bits // 8}")


def test_predicates():
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    check("and.pred", lambda a, b: a and b, a, b, result=bool)
    check("or.pred", lambda a, b: a or b, a, b, result=bool)
    check("xor.pred", lambda a, b: a != b, a, b, result=bool)
    check("not.pred", lambda a: not a, a, result=bool)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_beyond_the_width(bits):
    """What is shifted out is lost; from the left come zeros, or signs."""
    unsigned, signed = np.dtype(f"u{bits // 8}"), np.dtype(f"i{bits // 8}")
    amounts = np.array([0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1], np.uint32)
    a, by = np.repeat(edges(unsigned), len(amounts)), np.tile(amounts, len(edges(unsigned)))
    check(f"shl.b{bits}", lambda a, by: (a << min(by, 99)) % 2**bits, a, by, result=unsigned)
    for kind in "bu":
        check(f"shr.{kind}{bits}", lambda a, by: a >> by, a, by, result=unsigned)
    check(f"shr.s{bits}", lambda a, by: a >> by, a.view(signed), by, result=signed)


def test_bit_fields():
    """Position and length have 8 bits; beyond the register, or the field, is 0 or the last bit of a signed one."""
    def field(a, at, n, bits, signed):
        at, n = at % 256, n % 256
        if not signed:
            return a >> at & 2**n - 1
        last = a >> min(at + n - 1, bits - 1) & 1 if n else 0
        chosen = [a >> at + i & 1 if i < n and at + i < bits else last for i in range(bits)]
        return wrapped(sum(bit << i for i, bit in enumerate(chosen)), f"i{bits // 8}")

    places = [0, 1, 4, 16, 31, 32, 33, 63, 64, 65, 255, 256 + 4]
    for kind in ("u32", "u64", "s32", "s64"):
        bits, signed = int(kind[1:]), kind[0] == "s"
        a, at, n = zip(*itertools.product(edges(INTEGERS[kind]).tolist(), places, places), strict=True)
        check(f"bfe.{kind}", lambda *x, bits=bits, signed=signed: field(*x, bits, signed), np.array(a, INTEGERS[kind]),
              np.array(at, np.uint32), np.array(n, np.uint32), result=INTEGERS[kind])


def test_bytes_are_permuted():
    """Each half byte of the selector takes one of eight bytes; its upper bit makes eight copies of that byte's sign."""
    def permuted(a, b, selector):
        taken = []
        for i in range(4):
            which = selector >> 4 * i & 15
            byte = (a | b << 32) >> 8 * (which % 8) & 255
            taken.append(byte if which < 8 else 255 * (byte >> 7))
        return sum(byte << 8 * i for i, byte in enumerate(taken))

    rng = np.random.default_rng(0)
    selectors = np.array([0x3210, 0x7654, 0x0123, 0x8888, 0xFEDC, 0xBA98, 0x5410, 0x7632, 0xFFFF1234,
                          *rng.integers(0, 2**32, 200)], np.uint32)
    a, b = rng.integers(0, 2**32, (2, len(selectors)), np.uint32)
    check("prmt.b32", permuted, a, b, selectors, result=np.uint32)


def test_sums_of_halves():
    """A sum of the lower half carries nothing into the upper one."""
    def summed(a, b):
        return (a + b) % 2**16 | ((a >> 16) + (b >> 16)) % 2**16 << 16

    a, b = pairs(np.dtype(np.uint32))
    for opcode in ("add.s16x2", "add.u16x2"):
        check(opcode, summed, a, b, result=np.uint32)


# floating-point numbers, rounded once

def special(kind):
    """Numbers of a type where something may go wrong."""
    limits = np.finfo(FLOATS[kind])
    values = [0.0, limits.smallest_subnormal, 3 * limits.smallest_subnormal, limits.smallest_normal,
              limits.smallest_normal - limits.smallest_subnormal, limits.eps, 1.0, 1 + limits.eps, 1 - limits.epsneg,
              1.5, 3.0, 1 / 3, 2.0**12 + 1, math.sqrt(float(limits.max)), limits.max / 2, limits.max, INF, NAN]
    return np.array([sign * float(value) for value in values for sign in (1, -1)], FLOATS[kind])


#: Bits of half numbers: zeros, subnormal ones, 1, the largest, infinities and NaN, of both signs, and some others.
HALVES = {kind: np.unique(np.array([*(sign | bits for sign in (0, 0x8000) for bits in (
                                        0, 1, one, 2 * one, infinity - 1, infinity, infinity + 1, 0x7FFF)),
                                    *range(77, 2**16, 1999)], np.uint16))
          for kind, one, infinity in (("f16", 0x3C00, 0x7C00), ("bf16", 0x3F80, 0x7F80))}


def value_of_half(bits, kind):
    """The number that 16 bits mean, by the definition of the format."""
    width = 10 if kind == "f16" else 7
    sign, exponent, rest = bits >> 15, bits >> width & 2 ** (15 - width) - 1, bits & 2**width - 1
    if exponent == 2 ** (15 - width) - 1:
        value = NAN if rest else INF
    else:
        unit = max(exponent, 1) - 2 ** (14 - width) + 1 - width
        value = math.ldexp(rest + (2**width if exponent else 0), unit)
    return -value if sign else value


def plain(kind, exact, *operands):
    """A function of numbers, computed in fractions and rounded; of infinities, NaN and exact zeros as Python has it."""
    def meaning(*x):
        fraction = exact(*map(Fraction, x)) if all(map(math.isfinite, x)) else 0
        return nearest(fraction, kind) if fraction else exact(*x)
    return meaning


def added(a, b):
    return a + b


def subtracted(a, b):
    return a - b


def multiplied(a, b):
    return a * b


def product_and_sum(a, b, c):
    return a * b + c


@pytest.mark.parametrize("kind", FLOATS)
def test_sums_and_products_of_floats(kind):
    a, b = (each.ravel() for each in np.meshgrid(special(kind), special(kind)))
    for opcode, exact in {"add": added, "sub": subtracted, "mul": multiplied}.items():
        for rounding in ("", ".rn"):
            check(f"{opcode}{rounding}.{kind}", plain(kind, exact), a, b, result=FLOATS[kind])


def test_pairs_of_float32():
    """Both halves of a register at once, of GPUs since sm_100."""
    a, b, c = (np.random.default_rng(i).permutation(np.repeat(special("f32"), 4)) for i in range(3))
    for opcode, function, sources in (("add.f32x2", np.add, (a, b)), ("add.rn.f32x2", np.add, (a, b)),
                                      ("sub.f32x2", np.subtract, (a, b)), ("mul.f32x2", np.multiply, (a, b)),
                                      ("fma.rn.f32x2", fused_multiply_add, (a, b, c))):
        got = computed(opcode, *(each.view(np.uint64) for each in sources), result=np.uint64).view(np.float32)
        with np.errstate(all="ignore"):
            assert got.tobytes() == function(*sources).tobytes() or np.array_equal(got, function(*sources), True)


@pytest.mark.parametrize("kind", HALVES)
def test_sums_with_a_half(kind):
    """The first source is half as wide, of GPUs since sm_100; one rounding, of the sum."""
    a, b = (each.ravel() for each in np.meshgrid(HALVES[kind], special("f32")))
    for name, exact in {"add": added, "sub": subtracted}.items():
        def meaning(a, b, exact=exact):
            return plain("f32", exact)(value_of_half(a, kind), b)
        check(f"{name}.rn.f32.{kind}", meaning, a, b, result=np.float32)


@pytest.mark.parametrize("kind", FLOATS)
def test_quotients_of_floats(kind):
    def divided(a, b):
        if b == 0 or not (math.isfinite(a) and math.isfinite(b)):
            return float(np.float64(a) / np.float64(b))
        return math.copysign(0.0, a) * math.copysign(1, b) if a == 0 else nearest(Fraction(a) / Fraction(b), kind) or (
            0.0 * math.copysign(1, a) * math.copysign(1, b))

    a, b = (each.ravel() for each in np.meshgrid(special(kind), special(kind)))
    check(f"div.rn.{kind}", divided, a, b, result=FLOATS[kind])


@st.composite
def triples(draw, kind):
    """a, b and c of a type, where a * b and c have something to do with each other: c may be -a * b, or near a tie."""
    dtype = np.dtype(FLOATS[kind])
    digits, largest = FORMATS[kind]
    seed, size = draw(st.integers(0, 2**32 - 1)), 16
    rng = np.random.default_rng(seed)
    exponents = draw(st.sampled_from([(-3, 3), (-largest, largest), (-largest - digits, -largest // 2),
                                      (largest // 2 - digits, largest // 2 + 1)]))
    bits = draw(st.sampled_from([2, digits // 2, digits // 2 + 1, digits]))

    def number(low, high, bits):
        mantissas = 1 + rng.integers(0, 2**bits, size) / 2.0**bits
        return np.ldexp(mantissas * rng.choice([-1, 1], size),
                        rng.integers(low, high, size, endpoint=True)).astype(dtype)

    with np.errstate(all="ignore"):
        a, b = number(*exponents, bits), number(*exponents, bits)
        c = [number(*exponents, bits), -(a * b), a * b * number(-digits - 2, digits + 2, 2),
             -(a * b) * (1 + np.ldexp(rng.integers(-2, 3, size), -digits).astype(dtype)),
             np.zeros(size, dtype), -np.zeros(size, dtype)][draw(st.integers(0, 5))]
    return a, b, c.astype(dtype)


@pytest.mark.parametrize("kind", FLOATS)
@given(data=st.data())
def test_fused_multiply_add(kind, data):
    a, b, c = data.draw(triples(kind))
    check(f"fma.rn.{kind}", plain(kind, product_and_sum), a, b, c, result=FLOATS[kind])


@pytest.mark.parametrize("kind", FLOATS)
def test_fused_multiply_add_at_the_edges(kind):
    """All triples of a few special numbers, and ties that a second rounding would send to the other neighbour."""
    some = special(kind)[[0, 1, 2, 3, 6, 7, 12, 13, 17, 22, 27, 28, 30, 31, 32, 33, 34]]
    a, b, c = (each.ravel() for each in np.meshgrid(some, some, some))
    check(f"fma.rn.{kind}", plain(kind, product_and_sum), a, b, c, result=FLOATS[kind])
    limits = np.finfo(FLOATS[kind])
    unit = FLOATS[kind](2.0 ** -(FORMATS[kind][0] // 2))  # (1 + unit)^2 = 1 + 2 unit + unit^2, which is far below
    tiny = limits.smallest_subnormal
    ties = [(1 + limits.eps, limits.eps / 2, 1), (1, limits.eps / 2, 1), (1, limits.eps / 2, 1 + limits.eps),
            (1 - limits.eps, limits.eps / 2, 1), (1 + unit, 1 + unit, -1), (1 + unit, 1 - unit, -1), (tiny, 0.5, 0),
            (tiny, 0.5, tiny), (tiny, 0.5, -tiny), (tiny, 1.5, 0), (-tiny, 0.25, 0), (-tiny, tiny, 0),
            (-tiny, tiny, -0.0), (tiny, tiny, -1), (limits.max, 2, -limits.max),
            (limits.max, 1, limits.max * limits.eps / 4), (limits.max, -1, -limits.max * limits.eps / 4),
            (limits.max, 1 + limits.eps, -limits.max)]
    a, b, c = (np.array(each, FLOATS[kind]) for each in zip(*ties, strict=True))
    check(f"fma.rn.{kind}", plain(kind, product_and_sum), a, b, c, result=FLOATS[kind])


def flushed(x):
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def test_flushing_of_subnormal_numbers():
    """.ftz makes zeros of them, of what goes in and of what comes out."""
    a, b = (each.ravel() for each in np.meshgrid(special("f32"), special("f32")))
    for opcode, exact in {"add": added, "mul.rn": multiplied, "sub": subtracted}.items():
        rounded = plain("f32", exact)
        check(f"{opcode}.ftz.f32", lambda *x, f=rounded: flushed(f(*map(flushed, x))), a, b, result=np.float32)
    some = special("f32")[::3]
    a, b, c = (each.ravel() for each in np.meshgrid(some, some, some))
    rounded = plain("f32", product_and_sum)
    check("fma.rn.ftz.f32", lambda *x: flushed(rounded(*map(flushed, x))), a, b, c, result=np.float32)
    check("abs.ftz.f32", lambda x: abs(flushed(x)), special("f32"), result=np.float32)
    check("neg.ftz.f32", lambda x: -flushed(x), special("f32"), result=np.float32)
    check("min.ftz.f32", lambda a, b: least(flushed(a), flushed(b)), a, b, result=np.float32)
    check("max.ftz.f32", lambda a, b: -least(-flushed(a), -flushed(b)), a, b, result=np.float32)


def least(a, b):
    """The smaller number; -0 is smaller than +0, and a NaN is no number."""
    if a != a or b != b:
        return b if a != a else a
    return min(a, b, key=lambda x: (x, math.copysign(1, x)))


@pytest.mark.parametrize("kind", FLOATS)
def test_extremes_and_signs_of_floats(kind):
    a, b = (each.ravel() for each in np.meshgrid(special(kind), special(kind)))
    check(f"min.{kind}", least, a, b, result=FLOATS[kind])
    check(f"max.{kind}", lambda a, b: -least(-a, -b), a, b, result=FLOATS[kind])
    check(f"abs.{kind}", abs, special(kind), result=FLOATS[kind])
    check(f"neg.{kind}", lambda x: -x, special(kind), result=FLOATS[kind])
    check(f"selp.{kind}", lambda a, b, p: a if p else b, a, b, np.arange(len(a)) % 2 == 0, result=FLOATS[kind])
    if kind == "f32":
        check("min.NaN.f32", lambda a, b: NAN if a != a or b != b else least(a, b), a, b, result=np.float32)
        check("max.NaN.f32", lambda a, b: NAN if a != a or b != b else -least(-a, -b), a, b, result=np.float32)
        c = np.random.default_rng(0).permutation(a)
        check("min.f32", lambda a, b, c: least(least(a, b), c), a, b, c, result=np.float32)
        check("max.f32", lambda a, b, c: -least(-a, least(-b, -c)), a, b, c, result=np.float32)
        check("max.NaN.f32", lambda a, b, c: NAN if a != a or b != b or c != c else -least(-a, least(-b, -c)),
              a, b, c, result=np.float32)
        check("max.ftz.NaN.f32", lambda a, b: NAN if a != a or b != b else -least(-flushed(a), -flushed(b)), a, b,
              result=np.float32)


@pytest.mark.parametrize("kind", FLOATS)
def test_comparisons_of_floats(kind):
    """Of a NaN the ordered ones are false, ``ne`` as well; those with a u are true."""
    a, b = (each.ravel() for each in np.meshgrid(special(kind), special(kind)))
    for how, meaning in COMPARED.items():
        check(f"setp.{how}.{kind}", lambda a, b, f=meaning: f(a, b) and a == a and b == b, a, b, result=bool)
        check(f"setp.{how}u.{kind}", lambda a, b, f=meaning: f(a, b) or a != a or b != b, a, b, result=bool)
    check(f"setp.num.{kind}", lambda a, b: a == a and b == b, a, b, result=bool)
    check(f"setp.nan.{kind}", lambda a, b: a != a or b != b, a, b, result=bool)


@pytest.mark.parametrize("kind", HALVES)
def test_signs_and_comparisons_of_halves(kind):
    a, b = (each.ravel() for each in np.meshgrid(HALVES[kind], HALVES[kind]))
    check(f"abs.{kind}", lambda bits: bits & 0x7FFF, HALVES[kind], result=np.uint16)
    for how, meaning in COMPARED.items():
        def of_bits(a, b, f=meaning, unordered=False):
            a, b = value_of_half(a, kind), value_of_half(b, kind)
            return (f(a, b) and a == a and b == b) or (unordered and (a != a or b != b))
        check(f"setp.{how}.{kind}", of_bits, a, b, result=bool)
        check(f"setp.{how}u.{kind}", lambda a, b, f=of_bits: f(a, b, unordered=True), a, b, result=bool)


# conversions

WHOLE = {**INTEGERS, "s8": np.dtype("i1"), "u8": np.dtype("u1")}


@pytest.mark.parametrize("of", WHOLE)
def test_integers_to_integers(of):
    """Lower bits of the narrower, copies of the source's sign for the wider; from and to wider registers as well."""
    for to in WHOLE:
        held = edges(f"{WHOLE[of].kind}{max(WHOLE[of].itemsize, 2)}")  # 8 bits are in a register of 16
        check(f"cvt.{to}.{of}", lambda x, to=to: wrapped(wrapped(x, WHOLE[of]), WHOLE[to]), held,
              result=f"{WHOLE[to].kind}{max(WHOLE[to].itemsize, 2)}")


def test_conversions_use_the_lower_bits_of_wider_registers():
    wide = np.array([0x1234_5678_9ABC_DEF0, 0x7F, 0x80, 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
    check("cvt.s32.s8", lambda x: wrapped(x, np.int8), wide, result=np.int32)
    check("cvt.u32.u16", lambda x: x % 2**16, wide, result=np.uint32)
    check("cvt.rn.f32.s16", lambda x: float(wrapped(x, np.int16)), wide, result=np.float32)
    check("cvt.s8.s32", lambda x: wrapped(x, np.int8), wide.astype(np.uint32), result=np.int64)
    check("cvt.u8.s32", lambda x: wrapped(x, np.uint8), wide.astype(np.uint32), result=np.int64)


@pytest.mark.parametrize("of", INTEGERS)
def test_integers_to_floats(of):
    rng = np.random.default_rng(1)
    limits = np.iinfo(INTEGERS[of])
    near_powers = [wrapped(2**k + d, INTEGERS[of]) for k in (11, 24, 25, 53, 54, 63) for d in range(-3, 4)]
    x = np.concatenate([edges(INTEGERS[of]), rng.integers(limits.min, limits.max, 50, INTEGERS[of], endpoint=True),
                        np.array(near_powers, INTEGERS[of])])
    for to, dtype in {"f16": np.float16, **FLOATS}.items():
        check(f"cvt.rn.{to}.{of}", lambda n, to=to: nearest(Fraction(n), to), x, result=dtype)


HALF_WAY = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 126.5, 127.5, 128.5, 255.5, 32767.5, 32768.5, 65535.5, 65536.5,
            2.0**31 - 1, 2.0**31, 2.0**32 - 1, 2.0**32, 2.0**63, 2.0**64, 1e30, INF, NAN]


@pytest.mark.parametrize("to", INTEGERS)
def test_floats_to_integers(to):
    """The nearest, lower, upper or smaller integer, or the limit. A NaN is 0, or the upper bit alone."""
    limits, dtype = np.iinfo(INTEGERS[to]), INTEGERS[to]
    for of, source in FLOATS.items():
        x = np.array([sign * value for value in HALF_WAY for sign in (1, -1)], source)
        x = np.concatenate([x, np.nextafter(x, source(INF)), np.nextafter(x, source(-INF))])
        for rounding, rounded in {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}.items():
            def meaning(value, rounded=rounded, of=of):
                if value != value:
                    return 0 if of == "f32" and limits.bits < 64 else wrapped(2 ** (limits.bits - 1), dtype)
                if math.isinf(value):
                    return limits.max if value > 0 else limits.min
                return min(max(rounded(value), limits.min), limits.max)

            check(f"cvt.{rounding}.{to}.{of}", meaning, x, result=dtype)


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_to_whole_floats(kind):
    x = np.array([sign * value for value in HALF_WAY for sign in (1, -1)], FLOATS[kind])
    for rounding, rounded in {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}.items():
        check(f"cvt.{rounding}.{kind}.{kind}", lambda value, f=rounded: math.copysign(
            f(value), value) if math.isfinite(value) else value, x, result=FLOATS[kind])


def numbers_between(kind):
    """float64 at, between and beside numbers of a narrower type, subnormal ones and the largest ones as well."""
    digits, largest = FORMATS[kind]
    exponents = np.array([-largest - digits, -largest - digits + 1, -largest - 3, 1 - largest, -1, 0, 3, largest - 1,
                          largest])
    mantissas = np.array([1, 1 + 2.0**-digits, 1 + 2.0 ** (1 - digits), 1 + 3 * 2.0**-digits, 1.5,
                          2 - 2.0 ** (1 - digits), 2 - 2.0**-digits, 2 - 2.0**-digits - 2.0 ** (-digits - 3),
                          1 + 2.0**-digits + 2.0 ** (-digits - 3)])
    x = np.ldexp(mantissas[:, None], exponents).ravel()
    return np.concatenate([x, -x, [0.0, -0.0, INF, -INF, NAN]])


def test_floats_to_narrower_floats():
    """To the nearest, ties to even, once, and from every wider type."""
    for to, dtype in {"f16": np.float16, "f32": np.float32}.items():
        for of, source in FLOATS.items():
            if of != to:
                with np.errstate(over="ignore"):
                    x = numbers_between(to).astype(source)
                check(f"cvt.rn.{to}.{of}", lambda v, to=to: nearest_or_same(v, to), x, result=dtype)


def nearest_or_same(value, kind):
    return math.copysign(nearest(Fraction(value), kind), value) if math.isfinite(value) else value


def test_floats_to_wider_floats():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)[::37]
    check("cvt.f32.f16", float, halves, result=np.float32)
    check("cvt.f64.f16", float, halves, result=np.float64)
    check("cvt.f64.f32", float, special("f32"), result=np.float64)
    check("cvt.f32.f32", float, special("f32"), result=np.float32)
    bits = np.arange(2**16, dtype=np.uint16)[::41]
    for to in FLOATS:
        check(f"cvt.{to}.bf16", lambda b: float(np.array(b << 16, np.uint32).view(np.float32)), bits, result=FLOATS[to])


def bits_of_bfloat16(value):
    """By Python's own arithmetic; any NaN becomes 0x7FFF."""
    if value != value:
        return 0x7FFF
    rounded = nearest_or_same(value, "bf16")
    sign = 0x8000 if math.copysign(1, rounded) < 0 else 0
    if math.isinf(rounded) or rounded == 0:
        return sign | (0x7F80 if rounded else 0)
    mantissa, exponent = math.frexp(abs(rounded))
    if exponent < -125:
        return sign | int(abs(rounded) * 2.0**133)
    return sign | exponent + 126 << 7 | int(mantissa * 2**8) - 2**7


def test_bfloat16():
    """To nearest even: ties, subnormal numbers, overflow to infinity, and every NaN to one."""
    with np.errstate(over="ignore"):
        x = numbers_between("bf16").astype(np.float32)
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    x = np.concatenate([x, special("f32"), nans])
    check("cvt.rn.bf16.f32", bits_of_bfloat16, x, result=np.uint16)
    check("cvt.rn.bf16x2.f32", lambda a, b: bits_of_bfloat16(a) << 16 | bits_of_bfloat16(b), x, x[::-1],
          result=np.uint32)


@given(st.lists(st.floats(width=32), min_size=1, max_size=32))
def test_bfloat16_of_any_number(values):
    check("cvt.rn.bf16.f32", bits_of_bfloat16, np.array(values, np.float32), result=np.uint16)


def test_two_halves_are_packed_the_first_above():
    with np.errstate(over="ignore"):
        x = numbers_between("f16").astype(np.float32)
    x = x[~np.isnan(x)]

    def bits(value):
        return int(np.array(nearest_or_same(value, "f16"), np.float16).view(np.uint16))
    check("cvt.rn.f16x2.f32", lambda a, b: bits(a) << 16 | bits(b), x, x[::-1], result=np.uint32)


# approximate instructions

def units_apart(a, b):
    """How many steps lie between two arrays of float32 of the same signs."""
    return np.abs(a.view(np.int32).astype(np.int64) - b.view(np.int32))


def powers():
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-149, 128, 900), rng.uniform(-1, 1, 60),
                        [0.0, -0.0, 1.0, -1.0, -126.0, -149.0, 127.99]])
    return x.astype(np.float32)


def exact_power(x):
    with np.errstate(over="ignore"):
        return np.exp2(x.astype(np.float64)).astype(np.float32)


def quotients():
    rng = np.random.default_rng(3)
    a, b = np.ldexp(rng.uniform(0.5, 1, (2, 900)) * rng.choice([-1, 1], (2, 900)), rng.integers(-60, 60, (2, 900)))
    return a.astype(np.float32), b.astype(np.float32)


def test_a_power_of_two():
    x = powers()
    assert units_apart(computed("ex2.approx.f32", x, result=np.float32), exact_power(x)).max() == 0
    flat = exact_power(x)
    got = computed("ex2.approx.ftz.f32", x, result=np.float32)
    assert (got[np.abs(flat) < 2.0**-126] == 0).all() and (got == flat)[flat >= 2.0**-126].all()
    assert (flat < 2.0**-126).sum() > 20


@pytest.mark.parametrize("opcode", ["ex2.approx.f32", "ex2.approx.ftz.f32", "div.full.f32"])
def test_blurred_results_of_float32(opcode):
    """Off by up to two units in the last place; the same for the same operands, others for another seed."""
    operands = (powers(),) if opcode.startswith("ex2") else quotients()
    sharp = computed(opcode, *operands, result=np.float32)
    blurred = [computed(opcode, *operands, result=np.float32, blur=seed) for seed in (0, 0, 1)]
    assert all(units_apart(sharp, each)[sharp != 0].max() == 2 for each in blurred)
    assert {-2, -1, 0, 1, 2} == set((blurred[0].view(np.int32) - sharp.view(np.int32))[sharp > 2.0**-120].tolist())
    assert (blurred[0] == blurred[1]).all() and (blurred[0] != blurred[2]).mean() > 0.4
    where = np.random.default_rng(4).permutation(len(sharp))  # nor does it matter which lane computes
    assert (computed(opcode, *(each[where] for each in operands), result=np.float32, blur=0) == blurred[0][where]).all()
    if ".ftz" in opcode:
        assert not ((np.abs(blurred[0]) < 2.0**-126) & (blurred[0] != 0)).any()


def test_blur_goes_up_as_often_as_down_and_sees_each_operand():
    """Neighbours, and operands that change places, are off by different amounts."""
    a = np.nextafter(np.float32(1), np.float32(2)) + np.arange(3000, dtype=np.float32) * np.finfo(np.float32).eps
    b = a[::-1].copy()
    off = (computed("div.full.f32", a, b, result=np.float32, blur=5).view(np.int32)
           - computed("div.full.f32", a, b, result=np.float32).view(np.int32))
    counts = np.bincount(off + 2, minlength=5) / len(a)
    assert np.abs(counts - [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8]).max() < 0.03  # 3 / sqrt(3000) / 2
    assert abs(np.corrcoef(off[1:], off[:-1])[0, 1]) < 0.06
    back = (computed("div.full.f32", b, a, result=np.float32, blur=5).view(np.int32)
            - computed("div.full.f32", b, a, result=np.float32).view(np.int32))
    assert abs(np.corrcoef(off, back)[0, 1]) < 0.06


def test_what_blur_leaves_alone():
    """Zero, infinity, NaN, and 2 to the power 0; the largest and the smallest number stay finite and above 0."""
    for seed in range(20):
        x = np.array([0.0, -0.0, -INF, -1000.0, INF, 129.0, NAN], np.float32)
        check("ex2.approx.f32", lambda v: NAN if v != v else 1.0 if v == 0 else INF if v > 0 else 0.0, x,
              result=np.float32, blur=seed)
        a, b = np.array([0, -0.0, 1, -1, INF, 0, NAN], np.float32), np.array([3, 3, 0, 0, -2, 0, 1], np.float32)
        check("div.full.f32", lambda a, b: float(np.float64(a) / np.float64(b)), a, b, result=np.float32, blur=seed)
        edge = computed("div.full.f32", np.array([np.finfo(np.float32).max, 2.0**-149, -(2.0**-149)], np.float32),
                        np.float32(1), result=np.float32, blur=seed)
        assert np.isfinite(edge).all() and (np.sign(edge) == [1, 1, -1]).all()


def test_the_gross_reciprocal():
    """Of the upper 32 bits, in the upper 32 bits: off by one unit of them, and by another one with blur."""
    rng = np.random.default_rng(5)
    x = np.ldexp(rng.uniform(0.5, 1, 500) * rng.choice([-1, 1], 500), rng.integers(-1000, 1000, 500))
    upper = (x.view(np.uint64) >> np.uint64(32) << np.uint64(32)).view(np.float64)
    exact = [1 / Fraction(value) for value in upper.tolist()]
    seen = set()
    for options in ({}, {"blur": 0}, {"blur": 1}):
        got = computed("rcp.approx.ftz.f64", x, result=np.float64, **options)
        assert (got.view(np.uint64) % 2**32 == 0).all()
        unit = [Fraction(2) ** (math.frexp(value)[1] - 21) for value in got.tolist()]
        off = [(Fraction(value) - true) / one for value, true, one in zip(got.tolist(), exact, unit, strict=True)]
        assert max(map(abs, off)) <= (2 if options else 1)
        seen.add(got.tobytes())
    assert len(seen) == 3
    x = np.array([0.0, -0.0, INF, -INF, NAN, 5e-324, -1e-310, 2.0**1023, 1.0], np.float64)
    expected = np.array([INF, -INF, 0.0, -0.0, NAN, INF, -INF, 0.0, 1.0])
    got = computed("rcp.approx.ftz.f64", x, result=np.float64)
    assert got[4].view(np.uint64) == 0x7FFFFFFF00000000  # the one that PTX names
    assert np.array_equal(got, expected, equal_nan=True) and (np.signbit(got) == np.signbit(expected))[:4].all()


# what is not known

@pytest.mark.parametrize("opcode", """
    add.f32x2.rn add.f32.bf16 add.rz.f32.f16 add.rn.f32.tf32 fma.f32x2 abs.bf16x2
    add add. add.b32 add.f16 add.sat.s32 add.cc.s32 add.ftz.s32 add.ftz.f64 add.rz.f32 add.rn.rn.f32 add.ftz.rn.f32
    sub.s16x2 mul.s32 mul.hi.s64 mul.wide.s64 mul.lo.f32 mul.rm.f64 mul24.lo.s32 mad.hi.s32 mad.lo.f32 mad.s32
    fma.f32 fma.rz.f32 fma.rn.f16 fma.rn.ftz.f64 fma.rn.relu.f16 div.f32 div.approx.f32 div.full.ftz.f32 div.rz.f32
    rem.f32 abs.u32 abs.rn.f32 neg.u32 neg.b32 min.NaN.f64 min.ftz.f64 min.NaN.ftz.f32 min.xorsign.abs.f32 min.f16
    max.s16x2 max.relu.s32 and.s32 and.ftz.b32 not.b8 cnot.b32 lop3.b32 shl.s32 shl.b32.x shr shf.l.wrap.b32
    bfe.s16 bfe.b32 bfe.u32.x bfi.b32 prmt.b32.f4e prmt ex2.f32 ex2.approx.f16 lg2.approx.f32 sin.approx.f32 sqrt.rn.f32
    rcp.rn.f64 rcp.approx.f32 setp.eq setp.lt.b32 setp.eq.f16x2 setp.eq.bf16x2 setp.eq.pred setp.equ.s32 setp.lo.u32
    setp.lt.ftz.f32 setp.lt.and.s32 setp.nu.f32 selp selp.pred selp.f16 selp.b32.x set.lt.u32.f32 slct.f32.s32
    cvt.s32 cvt.s32.f32 cvt.rn.s32.f32 cvt.rzi.s8.f32 cvt.sat.u8.s32 cvt.rn.f32.f16 cvt.f16.f32 cvt.rz.f16.f32
    cvt.rni.f32.f64 cvt.ftz.f32.f16 cvt.rn.bf16.f64 cvt.rn.relu.bf16.f32 cvt.rz.bf16x2.f32 cvt.rn.f16x2.f64
    cvt.rna.tf32.f32 cvt.f32.s32 cvta.to.global.u64 popc.b32 clz.b32 brev.b32 vote.sync.any.pred dp4a.u32.u32
""".split())
def test_an_opcode_that_is_not_known(opcode):
    with pytest.raises(PTXError, match=re.escape(f"does not know {opcode}")):
        operation(opcode)


def test_every_opcode_that_is_known_occurs_here():
    mentioned = set(re.findall(r"""["'](\w+)[."]""", Path(__file__).read_text().partition("# what is not known")[0]))
    assert set(_KNOWN) <= mentioned, set(_KNOWN) - mentioned

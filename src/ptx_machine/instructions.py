"""Instructions as functions of a mask: registers, memory, neighbours in the warp, copies, jumps and barriers.

``compiled`` binds each instruction of a program to the lanes of a :class:`~ptx_machine.lanes.Lanes`. What comes out is
called a step: it does what the instruction does, for the lanes of a mask. It returns None where the next instruction
follows; a jump returns the index to go on at, and others :data:`BARRIER` or :data:`EXIT`.
"""

from __future__ import annotations

import functools
import re

import numpy as np

from .arithmetic import DTYPES, operation
from .program import PTXError
from .registers import bits_of

__all__ = ["BARRIER", "EXIT", "compiled", "guards", "smallest_access"]

BARRIER, EXIT = -1, -2
_WARP, _ALL_LANES = 32, np.uint32(0xFFFFFFFF)
_STORED = "[usb](?:8|16|32|64)|f(?:32|64)"  # types of what memory holds


def compiled(lanes):
    """A list of functions of a mask, (lanes,) bool or None for all lanes, one for each instruction.

    Raises
    ------
    PTXError
        For an instruction that the machine does not know, with its line.
    """
    return _of_each(lanes.program, lambda index, instruction: _step(lanes, index, instruction))


def guards(lanes):
    """For each instruction the predicate register of its guard and the value that lets a lane take part, or None."""
    def guard(index, instruction):
        return instruction.guard and (lanes.registers.source(instruction.guard[0], "pred"), instruction.guard[1])
    return _of_each(lanes.program, guard)


def _of_each(program, made):
    """What is made of each instruction; an error says of which."""
    results = []
    for index, instruction in enumerate(program.instructions):
        try:
            results.append(made(index, instruction))
        except PTXError as error:
            raise PTXError(f"line {instruction.line}, `{instruction}`: {error}") from None
    return results


def _step(lanes, index, instruction):
    name = instruction.opcode.partition(".")[0]
    make, count = _MADE.get(name, (_computed, None))
    if count is not None and len(instruction.operands) != count:
        raise PTXError(f"{len(instruction.operands)} operands; expected {count}")
    return make(lanes, index, instruction.opcode, instruction.operands)


def _put(target, value, mask):
    if mask is None:
        target[:] = value
    else:
        np.copyto(target, value, where=mask, casting="unsafe")


def _computed(lanes, index, opcode, operands):
    """Anything that needs only registers of its own lane."""
    known = operation(opcode).of(len(operands) - 1)
    if len(operands) != 1 + len(known.sources):
        raise PTXError(f"{len(operands)} operands; expected {1 + len(known.sources)}")
    of, to = lanes.registers.source, lanes.registers.target
    if opcode.startswith("cvt."):
        of, to = lanes.registers.narrowed, lanes.registers.widened
    target = to(operands[0], known.result)
    sources = [of(text, kind) for text, kind in zip(operands[1:], known.sources, strict=True)]
    function, seed = known.function, lanes.launch.blur
    if known.blurred is None or seed is None:
        return lambda mask: _put(target, function(*sources), mask)
    return lambda mask: _put(target, known.blurred(function(*sources), _chance(seed, sources)), mask)


def _chance(seed, sources):
    """Numbers in [-2, 2) that seed and sources decide: a GPU, too, is off by the same for the same operands."""
    state = _mixed(np.full(1, seed, np.uint64))
    for source in sources:
        state = _mixed(state ^ source.view(f"u{source.itemsize}").astype(np.uint64))
    return state / 2.0**62 - 2


def _mixed(state):
    """Other 64 bits, of which each depends on each of the given ones (splitmix64)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ state >> np.uint64(shift)) * np.uint64(factor)
    return state ^ state >> np.uint64(31)


def _moved(lanes, index, opcode, operands):
    """mov, between registers, or between one register and its parts."""
    kind = opcode.removeprefix("mov.")
    to, of = operands
    packs = isinstance(to, tuple) + isinstance(of, tuple)
    if packs > 1 or not re.match("b(16|32|64)$" if packs else "pred$|[usb](16|32|64)$|f(32|64)$", kind):
        raise PTXError(f"the machine does not know {opcode} of these operands")
    if isinstance(to, str) and isinstance(of, str):
        target, source = lanes.registers.target(to, kind), lanes.registers.source(of, kind)
        return lambda mask: _put(target, source, mask)
    parts = to if isinstance(to, tuple) else of
    part = f"u{bits_of(kind) // len(parts)}"
    if part not in DTYPES or len(parts) not in (2, 4):
        raise PTXError(f"{len(parts)} parts of {bits_of(kind)} bits")
    if isinstance(to, tuple):
        whole = lanes.registers.source(of, kind)
        targets = [(i, lanes.registers.target(name, part)) for i, name in enumerate(parts) if name != "_"]

        def unpacked(mask):
            pieces = whole.view(DTYPES[part]).reshape(lanes.count, -1)
            for i, target in targets:
                _put(target, pieces[:, i], mask)
        return unpacked
    target = lanes.registers.target(to, kind)
    sources = [lanes.registers.source(name, part) for name in parts]
    return lambda mask: _put(target, np.stack(sources, 1).view(target.dtype)[:, 0], mask)


# memory

def _of_memory(opcode):
    """Space, number of registers and type of a load or a store."""
    found = re.match(rf"(?:ld|st)\.(param|global|shared|shared::cta)(?:\.v([24]))?\.({_STORED})$", opcode)
    if found is None or int(found[2] or 1) * bits_of(found[3]) > 128:
        raise PTXError(f"the machine does not know {opcode}")
    return found[1].partition(":")[0], int(found[2] or 1), found[3]


def smallest_access(program, space):
    """Bytes of the smallest access of a program to global or shared memory; 4 at most, as of copies and matrices."""
    opcodes = [program.instructions[i].opcode for i in program.where("ld." + space, "st." + space)]
    kinds = [opcode.rpartition(".")[2] for opcode in opcodes]
    return min([4, *(bits_of(kind) // 8 for kind in kinds if re.match(_STORED + "$", kind))])


def _chosen(values, mask):
    return values if mask is None else values[mask]


def _loaded(lanes, index, opcode, operands):
    space, count, kind = _of_memory(opcode)
    names = operands[0] if isinstance(operands[0], tuple) else operands[:1]
    targets = [lanes.registers.widened(name, kind) for name in names]
    if len(targets) != count:
        raise PTXError(f"{len(targets)} registers; expected {count}")
    if space == "param":
        return _parameter(lanes, operands[1], targets, DTYPES[kind])
    address = lanes.registers.address(operands[1], 64 if space == "global" else 32)
    size = bits_of(kind) // 8
    memory = lanes.memories[space]

    def load(mask):
        at = _chosen(address(), mask)
        lanes.count_access(index, mask, at, size * count, space == "shared")
        values = memory.load(lanes.access(index, mask), at, size, count)
        for i, target in enumerate(targets):
            target[slice(None) if mask is None else mask] = np.ascontiguousarray(values[:, i]).view(DTYPES[kind])
    return load


def _parameter(lanes, text, targets, dtype):
    found = re.match(r"\[([\w$]+)\]$", text) if isinstance(text, str) else None
    if found is None or found[1] not in lanes.parameters or len(targets) > 1:
        raise PTXError(f"{text} is no parameter")
    stored = lanes.parameters[found[1]]
    if len(stored) < np.dtype(dtype).itemsize:
        raise PTXError(f"the parameter {found[1]} has {len(stored)} bytes")
    value, target = np.frombuffer(stored, dtype)[0], targets[0]
    return lambda mask: _put(target, value, mask)


def _stored(lanes, index, opcode, operands):
    space, count, kind = _of_memory(opcode)
    names = operands[1] if isinstance(operands[1], tuple) else operands[1:]
    sources = [lanes.registers.narrowed(name, f"b{bits_of(kind)}") for name in names]
    if len(sources) != count or space == "param":
        raise PTXError(f"{len(sources)} registers into {space}; expected {count} into global or shared memory")
    address = lanes.registers.address(operands[0], 64 if space == "global" else 32)
    memory = lanes.memories[space]

    def store(mask):
        at = _chosen(address(), mask)
        lanes.count_access(index, mask, at, bits_of(kind) // 8 * count, space == "shared")
        values = [_chosen(each, mask) for each in sources]
        memory.store(lanes.access(index, mask), at, np.stack(values, 1) if count > 1 else values[0][:, None])
    return store


def _copied(lanes, index, opcode, operands):
    """cp.async: to shared memory, some time before it is waited for."""
    if opcode == "cp.async.commit_group" and not operands:
        return lanes.copies.commit
    if opcode == "cp.async.wait_group" and len(operands) == 1 and re.match(r"\d+$", str(operands[0])):
        latest = int(operands[0])
        return lambda mask: lanes.copies.wait(mask, latest)
    found = re.match(r"cp\.async\.c[ag]\.shared(?:::cta)?\.global$", opcode)
    if found is None or len(operands) not in (3, 4):
        raise PTXError(f"the machine does not know {opcode} with {len(operands)} operands")
    to, of = lanes.registers.address(operands[0], 32), lanes.registers.address(operands[1], 64)
    width = _WIDTHS_OF_COPIES.get(operands[2], 0)
    if not width or (".cg" in opcode and width != 16):
        raise PTXError(f"the machine does not know {opcode} of {operands[2]} bytes")
    wanted = lanes.registers.source(operands[3], "u32") if len(operands) == 4 else None
    size = min(width, 8)

    def begin(mask):
        active = np.ones(lanes.count, bool) if mask is None else mask
        reads = active if wanted is None else active & (wanted > 0)
        if wanted is not None and (reads & (wanted != width)).any():
            lanes.refuse(index, f"copies of {width} bytes that read {wanted[reads]}; expected all or none")
        values = np.zeros((lanes.count, width // size), np.dtype(f"u{size}"))
        if reads.any():
            lanes.count_access(index, reads, of()[reads], width, False)
            values[reads] = lanes.memories["global"].load(lanes.access(index, reads), of()[reads], size, width // size)
        lanes.copies.begin(index, active, to(), values, of(), reads)
    return begin


_WIDTHS_OF_COPIES = {"4": 4, "8": 8, "16": 16, "0x4": 4, "0x8": 8, "0x10": 16}


# neighbours

def _members(lanes, text):
    """Which lanes take part: None for a number that says all of them, else a register whose values are seen later."""
    values = lanes.registers.source(text, "b32")
    if text.startswith("%"):
        return values
    if (values != _ALL_LANES).any():
        raise PTXError(f"the machine does not know the lanes {text}; expected all of them, -1")
    return None


def _shuffled(lanes, index, opcode, operands):
    """shfl.sync: what a lane of the same warp has in a register."""
    found = re.match(r"shfl\.sync\.(up|down|bfly|idx)\.b32$", opcode)
    if found is None:
        raise PTXError(f"the machine does not know {opcode}")
    how = found[1]
    target = lanes.registers.target(operands[0], "b32")
    source, by, clamp = (lanes.registers.source(text, "b32") for text in operands[1:4])
    members = _members(lanes, operands[4])
    lane = np.arange(lanes.count) % _WARP
    warp = np.arange(lanes.count) - lane

    def giver():
        step, end, segment = (by & 31).astype(int), (clamp & 31).astype(int), (clamp >> 8 & 31).astype(int)
        first = lane & segment
        last = first | (end & ~segment)
        other = {"up": lane - step, "down": lane + step, "bfly": lane ^ step, "idx": first | (step & ~segment)}[how]
        there = other >= last if how == "up" else other <= last
        return warp + np.where(there, other, lane)
    always = None if "%" in operands[2] + operands[3] else giver()

    def shuffle(mask):
        lanes.all_take_part(mask, index, members)
        _put(target, source[giver() if always is None else always], mask)
    return shuffle


def _reduced(lanes, index, opcode, operands):
    """redux.sync: one number of all lanes of a warp, by an operation of two."""
    found = re.match(r"redux\.sync\.(?:(max|min|add)\.([us]32)|(and|or|xor)\.(b32)|(max|min)\.((?:NaN\.)?f32))$",
                     opcode)
    if found is None:
        raise PTXError(f"the machine does not know {opcode}")
    name, kind = [each for each in found.groups() if each]
    function, kind = operation(f"{name}.{kind}").function, kind.rpartition(".")[2]
    target, source = lanes.registers.target(operands[0], kind), lanes.registers.source(operands[1], kind)
    members = _members(lanes, operands[2])

    def reduce(mask):
        lanes.all_take_part(mask, index, members)
        _put(target, functools.reduce(function, source.reshape(-1, _WARP).T).repeat(_WARP), mask)
    return reduce


def _matrices(lanes, index, opcode, operands):
    """ldmatrix and stmatrix: rows of 16 bytes, each of a lane that has its address, spread over four lanes.

    Eight rows are a matrix; the first four lanes of a warp have its first row, the next four its second. The lane with
    the address counts as the one who touches memory: a race with a lane that only gives or gets a part of the row is
    not seen.
    """
    found = re.match(r"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])\.shared(?:::cta)?\.b16$", opcode)
    if found is None:
        raise PTXError(f"the machine does not know {opcode}")
    loads, count = found[1] == "ld", int(found[2])
    names, place = (operands[0], operands[1]) if loads else (operands[1], operands[0])
    registers = [lanes.registers.target(name, "u32") for name in names] if isinstance(names, tuple) else []
    if len(registers) != count:
        raise PTXError(f"{len(registers)} registers; expected {count}")
    address = lanes.registers.address(place, 32)
    memory, warps = lanes.memories["shared"], lanes.count // _WARP

    def move(mask):
        lanes.all_take_part(mask, index)
        taking = slice(None) if mask is None else mask.reshape(warps, _WARP)[:, 0]
        rows = address()
        for i, register in enumerate(registers):
            chosen = np.zeros((warps, _WARP), bool)
            chosen[taking, 8 * i:8 * i + 8] = True
            chosen, of_warps = np.flatnonzero(chosen), register.reshape(warps, _WARP)
            lanes.count_access(index, chosen, rows[chosen], 16, True)
            if loads:
                of_warps[taking] = memory.load(lanes.access(index, chosen), rows[chosen], 4, 4).reshape(-1, _WARP)
            else:
                memory.store(lanes.access(index, chosen), rows[chosen], of_warps[taking].reshape(-1, 4))
    return move


# flow

def _jump(lanes, index, opcode, operands):
    if opcode not in ("bra", "bra.uni") or operands[0] not in lanes.program.labels:
        raise PTXError(f"the machine does not know {opcode} to {operands[0]}")
    target = lanes.program.labels[operands[0]]
    if target == len(lanes.program.instructions):
        raise PTXError("nothing is there")
    return lambda mask: target


def _barrier(lanes, index, opcode, operands):
    """bar.sync 0, of all threads of a block; bar.warp.sync, of all lanes of a warp."""
    if opcode == "bar.sync" and operands == ("0",):
        return lambda mask: BARRIER
    if opcode == "bar.warp.sync" and len(operands) == 1:
        members = _members(lanes, operands[0])
        return lambda mask: lanes.order_warps(mask, index, members)
    raise PTXError(f"the machine does not know {opcode} of these operands")


def _left(lanes, index, opcode, operands):
    if opcode not in ("ret", "exit"):
        raise PTXError(f"the machine does not know {opcode}")
    return lambda mask: EXIT


def _nothing(lanes, index, opcode, operands):
    return lambda mask: None


#: How a step is made of an instruction, and the number of its operands where there is one.
_MADE = {"mov": (_moved, 2), "ld": (_loaded, 2), "st": (_stored, 2), "cp": (_copied, None), "shfl": (_shuffled, 5),
         "redux": (_reduced, 3), "ldmatrix": (_matrices, 2), "stmatrix": (_matrices, 2), "bra": (_jump, 1),
         "bar": (_barrier, None), "ret": (_left, 0), "exit": (_left, 0), "nop": (_nothing, 0)}

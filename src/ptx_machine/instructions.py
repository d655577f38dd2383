"""Instructions as functions of a mask: registers, memory, neighbours in the warp, copies, jumps and barriers.

``compiled`` binds each instruction of a program to the lanes of a :class:`~ptx_machine.lanes.Lanes`. A step returns
nothing, or what it wants of the flow: the index to go on at, or one of :data:`BARRIER` and :data:`EXIT`.
"""

from __future__ import annotations

import re

import numpy as np

from .arithmetic import DTYPES, operation
from .program import PTXError
from .registers import bits_of

__all__ = ["BARRIER", "EXIT", "compiled"]

BARRIER, EXIT = -1, -2
_WARP = 32


def compiled(lanes):
    """A list of functions of a mask, (lanes,) bool or None for all lanes, one for each instruction.

    Raises
    ------
    PTXError
        For an instruction that the machine does not know, with its line.
    """
    steps = []
    for index, instruction in enumerate(lanes.program.instructions):
        try:
            steps.append(_step(lanes, index, instruction))
        except PTXError as error:
            raise PTXError(f"line {instruction.line}, `{instruction}`: {error}") from None
    return steps


def _step(lanes, index, instruction):
    name = instruction.opcode.partition(".")[0]
    make = _MADE.get(name, _computed)
    return make(lanes, index, instruction.opcode, instruction.operands)


def _put(target, value, mask):
    if mask is None:
        target[:] = value
    else:
        np.copyto(target, value, where=mask, casting="unsafe")


def _computed(lanes, index, opcode, operands):
    """Anything that needs only its own lane."""
    known = operation(opcode)
    if len(operands) != 1 + len(known.sources):
        raise PTXError(f"{len(operands)} operands; expected {1 + len(known.sources)}")
    target = lanes.registers.target(operands[0], known.result)
    read = lanes.registers.narrowed if opcode.startswith("cvt") else lanes.registers.source
    sources = [read(text, kind) for text, kind in zip(operands[1:], known.sources, strict=True)]
    function, seed = known.function, lanes.launch.blur
    if known.blurred is None or seed is None:
        return lambda mask: _put(target, function(*sources), mask)
    return lambda mask: _put(target, known.blurred(function(*sources), _chance(seed, sources)), mask)


def _chance(seed, sources):
    """Numbers in [-2, 2) that seed and sources decide: a GPU, too, is off by the same for the same operands."""
    state = np.uint64(seed)
    for source in sources:
        state = state ^ source.view(f"u{source.itemsize}").astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 0x9E3779B97F4A7C15)):
            state = (state ^ state >> np.uint64(shift)) * np.uint64(factor)
    return state / 2.0**62 - 2


def _moved(lanes, index, opcode, operands):
    """mov, between registers, or between one register and its parts."""
    kind = opcode.split(".")[1]
    to, of = operands
    if isinstance(to, str) and isinstance(of, str):
        target, source = lanes.registers.target(to, kind), lanes.registers.source(of, kind)
        return lambda mask: _put(target, source, mask)
    parts = to if isinstance(to, tuple) else of
    part = f"u{bits_of(kind) // len(parts)}"
    if isinstance(to, tuple):
        whole = lanes.registers.source(of, kind)
        targets = [(i, lanes.registers.target(name, part)) for i, name in enumerate(parts) if name != "_"]

        def unpacked(mask):
            pieces = whole.view(DTYPES[part]).reshape(lanes.count, -1)
            for i, target in targets:
                _put(target, pieces[:, i].copy(), mask)
        return unpacked
    target = lanes.registers.target(to, kind)
    sources = [lanes.registers.source(name, part) for name in parts]
    return lambda mask: _put(target, np.stack(sources, 1).view(target.dtype)[:, 0], mask)


# memory

def _of_memory(opcode):
    """Space, number of registers and type of a load or a store."""
    found = re.match(r"(?:ld|st)\.(param|global|shared|shared::cta)(?:\.v([24]))?\.([usbf]\d+)$", opcode)
    if found is None:
        raise PTXError(f"the machine does not know {opcode}")
    return found[1].partition(":")[0], int(found[2] or 1), found[3]


def _chosen(values, mask):
    return values if mask is None else values[mask]


def _loaded(lanes, index, opcode, operands):
    space, count, kind = _of_memory(opcode)
    names = operands[0] if isinstance(operands[0], tuple) else operands[:1]
    targets = [lanes.registers.widened(name, kind) for name in names]
    if len(targets) != count:
        raise PTXError(f"{len(targets)} registers; expected {count}")
    if space == "param":
        return _parameter(lanes, operands[1], targets[0], DTYPES[kind])
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


def _parameter(lanes, text, target, dtype):
    found = re.match(r"\[([\w$]+)\]$", text)
    if found is None or found[1] not in lanes.parameters:
        raise PTXError(f"{text} is no parameter")
    value = np.frombuffer(lanes.parameters[found[1]][:np.dtype(dtype).itemsize], dtype)[0]
    return lambda mask: _put(target, value, mask)


def _stored(lanes, index, opcode, operands):
    space, count, kind = _of_memory(opcode)
    names = operands[1] if isinstance(operands[1], tuple) else operands[1:]
    unsigned = f"u{bits_of(kind)}"
    sources = [lanes.registers.source(name, unsigned) for name in names]
    if len(sources) != count or space == "param":
        raise PTXError(f"{len(sources)} registers into {space}; expected {count} into global or shared memory")
    address = lanes.registers.address(operands[0], 64 if space == "global" else 32)
    memory = lanes.memories[space]

    def store(mask):
        at = _chosen(address(), mask)
        lanes.count_access(index, mask, at, bits_of(kind) // 8 * count, space == "shared")
        memory.store(lanes.access(index, mask), at, np.stack([_chosen(each, mask) for each in sources], 1))
    return store


def _copied(lanes, index, opcode, operands):
    """cp.async: to shared memory, some time before it is waited for."""
    if opcode == "cp.async.commit_group":
        return lambda mask: lanes.copies.commit(mask)
    if opcode == "cp.async.wait_group":
        latest = int(operands[0])
        return lambda mask: lanes.copies.wait(mask, latest, lanes.moment)
    if opcode not in ("cp.async.ca.shared.global", "cp.async.cg.shared.global") or len(operands) not in (3, 4):
        raise PTXError(f"the machine does not know {opcode} with {len(operands)} operands")
    to, of = lanes.registers.address(operands[0], 32), lanes.registers.address(operands[1], 64)
    width = int(operands[2], 0)
    wanted = lanes.registers.source(operands[3], "u32") if len(operands) == 4 else None
    size = min(width, 8)

    def begin(mask):
        active = np.ones(lanes.count, bool) if mask is None else mask
        reads = active if wanted is None else active & (wanted > 0)
        if wanted is not None and (reads & (wanted != width)).any():
            raise PTXError(f"`{opcode}` of {width} bytes reads {wanted[reads]}; expected all or none")
        values = np.zeros((lanes.count, width // size), np.dtype(f"u{size}"))
        if reads.any():
            lanes.count_access(index, reads, of()[reads], width, False)
            values[reads] = lanes.memories["global"].load(lanes.access(index, reads), of()[reads], size, width // size)
        lanes.copies.begin(lanes.access(index, active), to()[active], values[active])
    return begin


# neighbours

def _shuffled(lanes, index, opcode, operands):
    """shfl.sync: what a lane of the same warp has in a register."""
    found = re.match(r"shfl\.sync\.(up|down|bfly|idx)\.b32$", opcode)
    if found is None or operands[4:] != ("-1",):
        raise PTXError(f"the machine does not know {opcode} of these operands")
    how = found[1]
    target = lanes.registers.target(operands[0], "u32")
    source, by, clamp = (lanes.registers.source(text, "u32") for text in operands[1:4])
    lane = np.arange(lanes.count) % _WARP
    warp = np.arange(lanes.count) - lane

    def shuffle(mask):
        lanes.all_take_part(mask, index)
        step, end, segment = (by & 31).astype(int), (clamp & 31).astype(int), (clamp >> 8 & 31).astype(int)
        first = lane & segment
        last = first | (end & ~segment)
        other = {"up": lane - step, "down": lane + step, "bfly": lane ^ step, "idx": first | (step & ~segment)}[how]
        there = other >= last if how == "up" else other <= last
        _put(target, source[warp + np.where(there, other, lane)], mask)
    return shuffle


def _reduced(lanes, index, opcode, operands):
    """redux.sync: one number of all lanes of a warp."""
    found = re.match(r"redux\.sync\.(max|min|add|and|or|xor)\.([usb]32)$", opcode)
    if found is None:
        raise PTXError(f"the machine does not know {opcode}")
    function = {"max": np.maximum, "min": np.minimum, "add": np.add, "and": np.bitwise_and, "or": np.bitwise_or,
                "xor": np.bitwise_xor}[found[1]]
    target, source = lanes.registers.target(operands[0], found[2]), lanes.registers.source(operands[1], found[2])
    members = lanes.registers.source(operands[2], "s32")

    def reduce(mask):
        lanes.all_take_part(mask, index)
        if (members != -1).any():
            raise PTXError(f"{opcode} of {members[0]:#x}; the machine knows it for all lanes, -1")
        _put(target, np.repeat(function.reduce(source.reshape(-1, _WARP), axis=1, dtype=source.dtype), _WARP), mask)
    return reduce


def _matrices(lanes, index, opcode, operands):
    """ldmatrix and stmatrix: rows of 16 bytes, each of a lane that has its address, spread over four lanes.

    Eight rows are a matrix; the first four lanes of a warp have its first row, the next four its second. Who has the
    address counts as the one who touches memory, so a warp whose lanes give each other something needs to be in order.
    """
    found = re.match(r"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])\.shared(?:::cta)?\.b16$", opcode)
    if found is None:
        raise PTXError(f"the machine does not know {opcode}")
    loads, count = found[1] == "ld", int(found[2])
    names, place = (operands[0], operands[1]) if loads else (operands[1], operands[0])
    registers = [lanes.registers.target(name, "u32") for name in names]
    if len(registers) != count:
        raise PTXError(f"{len(registers)} registers; expected {count}")
    address = lanes.registers.address(place, 32)
    memory, warps = lanes.memories["shared"], lanes.count // _WARP

    def move(mask):
        lanes.all_take_part(mask, index)
        rows = address().reshape(warps, _WARP)
        for i, register in enumerate(registers):
            chosen = np.zeros((warps, _WARP), bool)
            chosen[:, 8 * i:8 * i + 8] = True
            at, access = rows[chosen], lanes.access(index, chosen.reshape(-1))
            lanes.count_access(index, chosen.reshape(-1), at, 16, True)
            if loads:
                register[:] = memory.load(access, at, 4, 4).reshape(-1)
            else:
                memory.store(access, at, register.reshape(-1, 4).copy())
    return move


# flow

def _jump(lanes, index, opcode, operands):
    if opcode not in ("bra", "bra.uni") or operands[0] not in lanes.program.labels:
        raise PTXError(f"the machine does not know {opcode} {operands[0]}")
    target = lanes.program.labels[operands[0]]
    return lambda mask: target


def _barrier(lanes, index, opcode, operands):
    """bar.sync 0, of all threads of a block; bar.warp.sync, of all lanes of a warp."""
    if opcode == "bar.sync" and operands == ("0",):
        return lambda mask: BARRIER
    if opcode == "bar.warp.sync" and operands in (("-1",), ("0xffffffff",)):
        return lambda mask: lanes.order_warps(mask, index)
    raise PTXError(f"the machine does not know {opcode} {', '.join(map(str, operands))}")


def _left(lanes, index, opcode, operands):
    return lambda mask: EXIT


def _nothing(lanes, index, opcode, operands):
    return lambda mask: None


_MADE = {"mov": _moved, "ld": _loaded, "st": _stored, "cp": _copied, "shfl": _shuffled, "redux": _reduced,
         "ldmatrix": _matrices, "stmatrix": _matrices, "bra": _jump, "bar": _barrier, "ret": _left, "exit": _left,
         "nop": _nothing}

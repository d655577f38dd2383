"""Small kernels in PTX, written by hand, for the tests of ptx_machine."""

import numpy as np

from ptx_machine import Buffer, Program, launch

#: Orders of warps and blocks: all warps in step, and some in which they take turns.
ORDERS = (None, *range(5))


def text(body, threads=32, parameters=("u64", "u64", "u64")):
    """A kernel that has set some registers before its body begins.

    ======================  ============================================================
    ``%rd0``, ``%rd1``, ..  the parameters, if they are of type u64; they are called ``[a]``, ``[b]``, ..
    ``%r0``, ``%r1``        number of the thread in its block; of the block
    ``%r2``                 address of an array in shared memory, whose size the launch gives
    ``%r3``, ``%rd8``       4 times the number of the thread
    ``%r4``, ``%rd9``       address of the thread's 4 bytes in shared memory, and in the first parameter
    ======================  ============================================================
    """
    names = "abcdefgh"[:len(parameters)]
    given = ", ".join(f".param .{kind} {name}" for name, kind in zip(names, parameters, strict=True))
    loaded = "\n".join(f"    ld.param.u64 %rd{i}, [{name}];" for i, (name, kind)
                       in enumerate(zip(names, parameters, strict=True)) if kind == "u64")
    return f""".version 8.3
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 shared_array[];
.visible .entry by_hand({given})
.reqntid {threads}
{{
    .reg .pred %p<10>;
    .reg .b16 %rs<20>;
    .reg .b32 %r<30>;
    .reg .b64 %rd<20>;
{loaded}
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.b32 %r2, shared_array;
    shl.b32 %r3, %r0, 2;
    cvt.u64.u32 %rd8, %r3;
    add.s32 %r4, %r2, %r3;
    add.s64 %rd9, %rd0, %rd8;
// here the body begins
{body}
    ret;
}}
"""


def kernel(body, threads=32, parameters=("u64", "u64", "u64")):
    return Program.parse(text(body, threads, parameters))


#: Line of a text in which the body begins, with three parameters.
BODY = text("the body").split("\n").index("the body") + 1


def run(program, *arrays, blocks=1, shared=4096, **options):
    """Launches a kernel, or the text of its body, with arrays for its first parameters; the others point nowhere."""
    program = kernel(program) if isinstance(program, str) else program
    arguments = [Buffer("abcdefgh"[i], array.reshape(-1).view(np.uint8)) if isinstance(array, np.ndarray) else array
                 for i, array in enumerate(arrays)]
    return launch(program, (blocks,), [*arguments, *[0] * (len(program.parameters) - len(arguments))],
                  shared_bytes=shared, **options)


def found(report):
    """What was found, as a set: the kind, and the opcodes that met without their modifiers, the later one first."""
    names = [each.opcode.split(".")[0] for each in report.program.instructions]
    return {(each.kind, names[each.at]) + (() if each.other is None else (names[each.other],))
            for each in report.findings.values()}


def words(n=32, first=0):
    """n different numbers of 4 bytes."""
    return np.arange(first, first + n, dtype=np.uint32)

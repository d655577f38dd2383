"""ptx_machine reads PTX, executes it in any order, and counts: small kernels against what they must do, in Python."""

import functools
import operator
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx_kernels import BODY, ORDERS, found, kernel, run, text, words

from ptx_machine import SHARED_MEMORY, Buffer, LaunchError, Program, PTXError, launch
from ptx_machine.memory import Limits

POISON = 0xA5A5A5A5  # what is where nothing was written


# reading a text

def test_what_a_program_is():
    """Comments, labels, guards, vectors, a statement on two lines and two on one."""
    program = Program.parse("""
        .version 8.3
        .target sm_90
        .extern .shared .align 16 .b8 dynamic[];
        .shared .align 8 .b8 fixed[24];
        .visible .entry name_of_it(  // a comment; with a statement: bra nowhere;
            .param .u64 .ptr .global .align 16 first,
            .param .u32 second,
            .param .f32 third
        )
        .reqntid 64
        {
            .reg .pred %p<3>;
            .reg .b32 %r<5>;
            .reg .b64 %wide;
            ld.param.u64 %wide, [first]; mov.u32 %r1, %tid.x;
        $begin:
            ld.global.v4.b32 {%r1, %r2,
                %r3, %r4}, [ %wide + 16 ];
            @!%p1 bra $begin;
            @%p2 bra.uni $end;
        $end: ret;
        $nowhere:
        }""")
    assert program.name == "name_of_it" and program.threads == 64
    assert program.parameters == {"first": "u64", "second": "u32", "third": "f32"}
    assert program.registers == {"%p": ("pred", 3), "%r": ("b32", 5), "%wide": ("b64", 0)}
    assert program.shared == {"dynamic": None, "fixed": 24}
    assert program.labels == {"$begin": 2, "$end": 5, "$nowhere": 6}
    assert [str(each) for each in program.instructions] == [
        "ld.param.u64 %wide, [first]", "mov.u32 %r1, %tid.x", "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%wide+16]",
        "@!%p1 bra $begin", "@%p2 bra.uni $end", "ret"]
    assert [each.line for each in program.instructions] == [16, 16, 18, 20, 21, 22]
    assert program.instructions[3].guard == ("%p1", False) and program.instructions[4].guard == ("%p2", True)
    assert program.where("ld.") == [0, 2] and program.where("bra", "ret") == [3, 4, 5]
    assert program.loop() == range(2, 4)


@pytest.mark.parametrize("body, first, opcodes", [
    ("mov.b32 %r10, 1; bra $end; $end:", 0, []),
    ("$self: bra.uni $self;", 0, ["bra.uni"]),
    ("bra $test; $loop: add.s32 %r10, %r10, 1; $test: @%p1 bra $loop; $more: bra.uni $more;", 1, ["add.s32", "bra"]),
    ("$outer: mov.b32 %r10, 1; $inner: @%p1 bra $inner; @%p2 bra $outer;", 1, ["bra"]),
    ("bra $nowhere; $loop: @%p1 bra $loop;", 1, ["bra"])])
def test_the_first_loop(body, first, opcodes):
    """From its first instruction to the jump back; jumps ahead and later loops do not count, nor do lost labels."""
    program, before = kernel(body), len(kernel("").instructions) - 1
    loop = program.loop()
    assert [program.instructions[i].opcode for i in loop] == opcodes
    assert not opcodes or loop.start == before + first


def test_where_an_instruction_comes_from():
    """.loc holds until the next one, and names those that inlined a function; line 0 is no place."""
    program = Program.parse('.file 1 "/some/where/outer.py"\n.file 2 "inner.py"\n' + text("""
        .loc 1 10 3
        mov.b32 %r10, 1;
        .loc 2 20 5, function_name $info, inlined_at 1 11 7
        mov.b32 %r10, 2;
        mov.b32 %r10, 3;
        .loc 1 0 0
        mov.b32 %r10, 4;
        .loc 7 5 0"""))
    assert [each.source for each in program.instructions[-5:]] == [
        (("outer.py", 10),), (("inner.py", 20), ("outer.py", 11)), (("inner.py", 20), ("outer.py", 11)), (),
        (("?", 5),)]


def test_registers_of_inner_braces():
    """A name within braces hides the outer one, in addresses as well, and ends with them."""
    out = words()
    report = run("""
        .reg .b32 same;
        .reg .b64 place;
        mov.b32 same, 1;
        mov.b64 place, %rd9;
        { .reg .b32 same; { .reg .b32 same; mov.b32 same, 7; } mov.b32 same, 2; }
        { .reg .b64 same; mov.b64 same, 3; }
        { .reg .b64 place; add.s64 place, %rd9, 128; st.global.b32 [place], same; }
        st.global.b32 [place], same;""", out := np.zeros(64, np.uint32))
    assert not report.findings and (out == 1).all()


@pytest.mark.parametrize("broken, message", {
    "mov.b32 %r10, 5": "does not end in one of ret",  # swallows the ret of the next line
    "MOV.b32 %r10, 5;": "line {}: 'MOV.b32 %r10, 5'; expected an instruction",
    "mov.b32 %r10,\n 5; 5;": "line {next}: '5'; expected an instruction",
    ".param .b32 x;": "line {}: '.param .b32 x'; expected registers or an instruction",
    ".reg .b32 %r<3>;": "line {}: %r is declared once more",
    "{ .reg .b32 x; .reg .b64 x; }": "line {}: x is declared once more",
    "{ .reg .b32 x<3>; }": "line {}: '.reg .b32 x<3>'; expected registers one by one",
    "$a: $b:\n $a:": "line {next}: the label $a once more",
    "bra $missing;": "line {}, `bra $missing`: the machine does not know bra to $missing",
    "{ mov.b32 %r10, 5;": "ends within its kernel",
    "@%p1 mov.b32 %r10, 5; @p mov.b32 %r10, 5;": "line {}: '@p mov.b32 %r10, 5'",
    ".extern .shared .b8 x[];": "a second array without a size; expected one",
    ".shared .pred x[3];": r".shared .pred x[3];'; expected numbers",
    ".shared .b32 x; { .shared .b32 x; }": "x is declared once more",
    ".shared .align 128 .b8 x[3];": "expected numbers in shared memory, aligned to 16 bytes",
    "ret; @%p1 ret; } .visible .entry other() { ret;": "2 kernels",
    ".reg .f16x3 x;": "does not know registers x of type f16x3",
    ".reg .b32 %r1<3>;": "does not know registers %r1 of type b32, or knows them already",
}.items())
def test_what_cannot_be_read_is_refused(broken, message):
    with pytest.raises(PTXError, match=re.escape(message.replace("{}", str(BODY)).replace("{next}", str(BODY + 1)))):
        run(broken)


def test_a_text_without_a_kernel_or_its_threads_is_refused():
    with pytest.raises(PTXError, match="0 kernels"):
        Program.parse(".version 8.3")
    for directive in ("", ".maxntid 32", ".reqntid 32, 2, 1"):
        with pytest.raises(PTXError, match=re.escape(f"by_hand says '{directive}' of its threads")):
            Program.parse(text("").replace(".reqntid 32", directive))
    with pytest.raises(PTXError, match=re.escape("parameter '.param .align 4 .b8 a[8]'")):
        Program.parse(text("").replace(".param .u64 a", ".param .align 4 .b8 a[8]"))
    with pytest.raises(PTXError, match="does not end"):
        Program.parse(text("").replace("    ret;", "    @%p1 ret;"))


def test_a_jump_to_where_the_program_has_ended_is_refused():
    program = Program.parse(text("bra $end;").replace("    ret;\n", "    ret;\n$end:\n"))
    with pytest.raises(PTXError, match=f"line {BODY}, `bra .end`: nothing is there"):
        run(program)


def test_a_program_without_an_instruction():
    """Its place stays, so that other indices and labels hold; it counts, and does nothing."""
    program, out = kernel("mov.b32 %r10, 1; mov.b32 %r10, 2; st.global.b32 [%rd9], %r10;"), words()
    index = program.where("mov.b32")[-1]
    shorter = program.without(index)
    assert len(shorter.instructions) == len(program.instructions) and str(shorter.instructions[index]) == "nop"
    run(shorter, out)
    assert (out == 1).all()


def refused(statements, message):
    """The last of some statements in one line stops the launch; the error has that line, the statement and a message.

    They may jump to ``$after``.
    """
    last = statements.removesuffix(";").split("; ")[-1]
    with pytest.raises(PTXError, match=rf"line {BODY}, `{re.escape(last)}`: .*{re.escape(message)}"):
        run(f"{statements}\n$after:", words())


# operands

def stored(body, value="%r10", dtype=np.uint32, threads=32, **options):
    """What a body leaves in a register, of each thread."""
    out = np.zeros(threads, dtype)
    size = out.itemsize
    body += f"\nmul.wide.u32 %rd10, %r0, {size}; add.s64 %rd10, %rd10, %rd0; st.global.b{8 * size} [%rd10], {value};"
    report = run(kernel(body, threads), out, **options)
    assert not report.findings, report.describe()
    return out


@pytest.mark.parametrize("opcode, literal, value", [
    ("mov.b32", "0", 0), ("mov.b32", "-1", 2**32 - 1), ("mov.u32", "4294967295", 2**32 - 1),
    ("mov.s32", "-5", 2**32 - 5),
    ("mov.b32", "0xffFF0001", 0xFFFF0001), ("mov.b32", "-0x10", 2**32 - 16), ("mov.b32", "12U", 12),
    ("mov.b32", "0x1FFFFFFFE", 0xFFFFFFFE), ("mov.b32", "0f3F800000", 0x3F800000),
    ("mov.f32", "0FFF800000", 0xFF800000)])
def test_numbers(opcode, literal, value):
    assert (stored(f"{opcode} %r10, {literal};") == value).all()


def test_numbers_of_64_bits():
    assert (stored("mov.b64 %rd11, -1;", "%rd11", np.int64) == -1).all()
    assert (stored("mov.b64 %rd11, 0xfedcba9876543210;", "%rd11", np.uint64) == 0xFEDCBA9876543210).all()
    assert (stored("mov.f64 %rd11, 0d3FF8000000000000;", "%rd11", np.float64) == 1.5).all()
    assert (stored("mov.b64 %rd11, 0D8000000000000000;", "%rd11", np.uint64) == 2**63).all()


@pytest.mark.parametrize("statement, message", {
    "mov.b32 %r10, 017;": "operand 017",  # octal
    "mov.b32 %r10, 0b11;": "operand 0b11",
    "mov.b32 %r10, 1.5;": "operand 1.5",
    "mov.b32 %r10, 0f3F80;": "operand 0f3F80",
    "mov.u32 %r10, 0f3F800000;": "0f3F800000 used as u32",
    "mov.b64 %rd10, 0f3F800000;": "0f3F800000 used as b64",
    "mov.b32 %r10, WARP_SZ;": "operand WARP_SZ",
    "add.f32 %r10, %r10, 1;": "operand 1 as f32",
    "mov.b32 %r10, %ntid.x;": "operand %ntid.x",
    "mov.b32 %r10, %warpid;": "operand %warpid",  # may change while a kernel runs
    "mov.b32 %r10, %tid.y;": "operand %tid.y",
    "mov.u64 %rd10, %tid.x;": "%tid.x used as u64",
    "mov.u16 %rs10, %tid.x;": "%tid.x used as u16",
    "mov.b32 %r10, nothing;": "operand nothing",
    "mov.u16 %rs10, shared_array;": "address shared_array used as u16",
    "add.f32 %r10, %r10, shared_array;": "address shared_array used as f32",
    "mov.b32 %r99, 1;": "%r99 is no register",
    "mov.b32 %r10, %r99;": "operand %r99",
    "mov.b32 %rd10, 1;": "register %rd10 of type b64 used as b32",
    "mov.b32 %p1, 1;": "register %p1 of type pred used as b32",
    "add.s32 %r10, %r11;": "2 operands; expected 3",
    "add.s32 %r10, %r11, {%r12, %r13};": "operand ('%r12', '%r13')",
    "mov.b32 %r10;": "1 operands; expected 2",
    "mov %r10, %r11;": "does not know mov",
    "mov.b32.x %r10, %r11;": "does not know mov.b32.x",
    "mov.b128 %rd10, %rd11;": "does not know mov.b128",
    "mov.f32 {%rs10, %rs11}, %r11;": "does not know mov.f32",
    "mov.b64 {%r10, %r11, %r12}, %rd11;": "3 parts of 64 bits",
    "mov.b64 {%r10, %r11}, {%r12, %r13};": "does not know mov.b64",
    "setp.lt.s32 %p1|%p2, %r10, %r11;": "%p1|%p2 is no register",
    "selp.b32 %r10, %r11, %r12, !%p1;": "operand !%p1",
    "shl.b32 %r10, %r11, %rs10;": "register %rs10 of type b16 used as u32",
}.items())
def test_operands_that_are_not_known(statement, message):
    refused(statement, message)


def test_registers_begin_with_a_pattern_that_nobody_expects():
    assert (stored("", "%r25") == POISON).all()
    assert (stored("selp.b32 %r10, 1, 0, %p7;") == 0).all()


def test_registers_are_packed_and_taken_apart():
    """The first part is the lower one; `_` takes none."""
    packed = stored("mov.b32 %r11, 0x11223344; mov.b32 %r12, 0x55667788; mov.b64 %rd11, {%r11, %r12};", "%rd11",
                    np.uint64)
    assert (packed == 0x5566778811223344).all()
    assert (stored("mov.b32 %r11, 0x11223344; mov.b32 {%rs11, %rs12}, %r11; cvt.u32.u16 %r10, %rs12;") == 0x1122).all()
    assert (stored("mov.b32 %r10, 7; mov.b64 {_, %r10}, 0x5566778811223344;") == 0x55667788).all()
    assert (stored("mov.b16 %rs11, 0x1122; mov.b32 %r10, {%rs11, %rs11};") == 0x11221122).all()
    assert (stored("mov.b64 {%rs10, %rs11, %rs12, %rs13}, 0x5566778811223344; mov.b32 %r10, {%rs13, %rs10};")
            == 0x33445566).all()


# memory

VECTORS = [(kind, count) for kind in ("b8", "u16", "b32", "f32", "s64", "f64") for count in (1, 2, 4)
           if int(kind[1:]) * count <= 128]


@pytest.mark.parametrize("kind, count", VECTORS)
def test_loads_and_stores(kind, count):
    """All widths, as vectors as well, from global to shared memory and back, at offsets below and above a register."""
    bits = int(kind[1:])
    size, family = bits // 8 * count, {8: "%rs", 16: "%rs", 32: "%r", 64: "%rd"}[bits]
    names = ", ".join(f"{family}{i}" for i in range(11, 11 + count))
    names, many = ("{" + names + "}", f".v{count}") if count > 1 else (names, "")
    source = np.random.default_rng(0).integers(0, 256, 32 * size, np.uint8)
    target = np.zeros_like(source)
    report = run(f"""
        mul.lo.s32 %r10, %r0, {size};
        cvt.u64.u32 %rd10, %r10;
        add.s32 %r10, %r10, %r2;
        add.s64 %rd18, %rd0, %rd10;
        add.s64 %rd19, %rd1, %rd10;
        add.s64 %rd18, %rd18, {5 * size};
        ld.global{many}.{kind} {names}, [%rd18+-{5 * size}];
        st.shared{many}.{kind} [%r10+{size}], {names};
        ld.shared::cta{many}.{kind} {names}, [%r10+{size:#x}];
        st.global{many}.{kind} [ %rd19 + 0 ], {names};""", source, target)
    assert not report.findings, report.describe()
    assert (source == target).all()
    assert report.counts.widths("ld.global") == {size: 32} and report.counts.total("st.global", of="bytes") == 32 * size


def test_loads_into_wider_registers():
    """Signed types repeat the sign, others leave zeros; what is stored is the lower part."""
    source = np.arange(-16, 16, dtype=np.int8)
    for kind, dtype in {"s8": np.int8, "u8": np.uint8, "b8": np.uint8}.items():
        for value, wide in {"%rs10": "2", "%r10": "4", "%rd10": "8"}.items():
            out = np.zeros(32, f"{'i' if kind == 's8' else 'u'}{wide}")
            run(f"""cvt.u64.u32 %rd11, %r0; add.s64 %rd12, %rd11, %rd1; ld.global.{kind} {value}, [%rd12];
                mul.lo.s64 %rd11, %rd11, {wide}; add.s64 %rd11, %rd11, %rd0;
                st.global.b{8 * int(wide)} [%rd11], {value};""", out, source)
            assert (out == source.view(dtype)).all()
    out = np.zeros(32, np.uint8)
    run("cvt.u64.u32 %rd11, %r0; add.s64 %rd11, %rd11, %rd0; mad.lo.s32 %r10, %r0, 257, 77777;"
        "st.global.u8 [%rd11], %r10;", out)
    assert (out == (np.arange(32) * 257 + 77777) % 256).all()


@pytest.mark.parametrize("statement, message", {
    "ld.global.b32 %rs10, [%rd0];": "register %rs10 of type b16 used as b32",
    "ld.global.f32 %rd10, [%rd0];": "register %rd10 of type b64 used as f32",
    "ld.global.v2.b32 {%r10}, [%rd0];": "1 registers; expected 2",
    "ld.global.b32 {%r10, %r11}, [%rd0];": "2 registers; expected 1",
    "ld.global.v4.b64 {%rd10, %rd11, %rd12, %rd13}, [%rd0];": "does not know ld.global.v4.b64",
    "ld.global.v8.b32 {%r10}, [%rd0];": "does not know ld.global.v8.b32",
    "ld.global.b128 %rd10, [%rd0];": "does not know ld.global.b128",
    "ld.global.nc.b32 %r10, [%rd0];": "does not know ld.global.nc.b32",
    "ld.volatile.global.b32 %r10, [%rd0];": "does not know ld.volatile.global.b32",
    "ld.acquire.gpu.global.b32 %r10, [%rd0];": "does not know ld.acquire",
    "ld.global.L1::evict_last.b32 %r10, [%rd0];": "does not know ld.global.L1::evict_last.b32",
    "ld.b32 %r10, [%rd0];": "does not know ld.b32",
    "ld.local.b32 %r10, [%rd0];": "does not know ld.local.b32",
    "ld.shared::cluster.b32 %r10, [%r2];": "does not know ld.shared::cluster.b32",
    "ld.global.b32 %r10, [%r2];": "register %r2 of type b32 used as u64",
    "ld.shared.b32 %r10, [%rd0];": "register %rd0 of type b64 used as u32",
    "ld.shared.b32 %r10, [16];": "does not know the address [16]",
    "ld.shared.b32 %r10, [%r2-4];": "does not know the address [%r2-4]",
    "ld.shared.b32 %r10, [%r2+%r3];": "does not know the address [%r2+%r3]",
    "ld.shared.b32 %r10, [%r2+four];": "operand four",
    "ld.shared.b32 %r10, %r2;": "does not know the address %r2",
    "ld.param.b32 %r10, [d];": "[d] is no parameter",
    "ld.param.b32 %r10, [a+4];": "[a+4] is no parameter",
    "ld.param.v2.b32 {%r10, %r11}, [a];": "[a] is no parameter",
    "st.param.b32 [a], %r10;": "expected 1 into global or shared memory",
    "st.global.v2.b32 [%rd0], {%r10};": "1 registers",
    "st.relaxed.gpu.global.b32 [%rd0], %r10;": "does not know st.relaxed",
    "st.global.b32 [%rd0];": "1 operands; expected 2",
    "atom.global.add.u32 %r10, [%rd0], 1;": "does not know atom.global.add.u32",
    "red.global.add.u32 [%rd0], 1;": "does not know red.global.add.u32",
    "membar.gl;": "does not know membar.gl",
    "fence.acq_rel.gpu;": "does not know fence.acq_rel.gpu",
    "call.uni (x), f, (y);": "does not know call.uni",
    "mbarrier.init.shared.b64 [%r2], 1;": "does not know mbarrier.init",
}.items())
def test_accesses_that_are_not_known(statement, message):
    refused(statement, message)


def test_parameters():
    """Whole numbers of both signs, floats, and what a load makes of them; a lower part, but no more than there is."""
    parameters = ("u64", "u32", "u64", "f32", "f64", "u32")
    body = """
        ld.param.{load}, [{name}];
        mul.wide.u32 %rd10, %r0, 8; add.s64 %rd10, %rd10, %rd0; st.global.b64 [%rd10], %rd11;"""
    given = [-5, 2**63 + 1, 1.5, -2.5, 2**32 - 7]
    for load, name, value in [("s32 %rd11", "b", 2**64 - 5), ("u32 %rd11", "b", 2**32 - 5),
                              ("b32 %rd11", "b", 2**32 - 5),
                              ("u64 %rd11", "c", 2**63 + 1), ("b32 %rd11", "c", 1), ("b32 %rd11", "d", 0x3FC00000),
                              ("b64 %rd11", "e", 0xC004000000000000), ("s32 %rd11", "f", 2**64 - 7),
                              ("s8 %rd11", "b", 2**64 - 5)]:
        out = np.zeros(32, np.uint64)
        run(kernel(body.format(load=load, name=name), parameters=parameters), out, *given)
        assert (out == value).all(), (load, name)
    with pytest.raises(PTXError, match="line .*the parameter b has 4 bytes"):
        run(kernel(body.format(load="b64 %rd11", name="b"), parameters=parameters), words(), *given)
    for wrong in (2**32, -2**31 - 1, 1.5):
        with pytest.raises(LaunchError, match=re.escape(f"b = {wrong}; expected a whole number of 32 bits")):
            run(kernel("", parameters=parameters), words(), wrong, *given[1:])
    with pytest.raises(LaunchError, match="6 parameters; expected as many arguments, not 1"):
        launch(kernel("", parameters=parameters), (1,), [words()])


# lanes of a warp

def shuffled(how, values, by, clamp):
    """As the PTX ISA has it."""
    out = []
    for lane, (b, c) in enumerate(zip(by, clamp, strict=True)):
        b, c, segment = b & 31, c & 31, c >> 8 & 31
        most, least = lane & segment | c & ~segment, lane & segment
        j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | b & ~segment}[how]
        there = j >= most if how == "up" else j <= most
        out.append(values[j if there else lane])
    return out


@pytest.mark.parametrize("how", ["up", "down", "bfly", "idx"])
def test_shuffles(how):
    """In whole warps and in segments of them, by numbers beyond 31, and by another one for each lane."""
    rng = np.random.default_rng(0)
    cases = [(np.full(32, b), np.full(32, c)) for b in (0, 1, 5, 16, 31, 33)
             for c in (0, 31, 7, 0x181F, 0x1C1F, 0x1F1F, 0x1000, 0x100F)]
    cases += [(rng.integers(0, 40, 32), rng.integers(0, 2**13, 32)) for _ in range(16)]
    by, clamp = (np.array(each, np.uint32) for each in zip(*cases, strict=True))
    out = np.zeros_like(by)
    report = run(f"""
        mad.lo.s32 %r10, %r1, 128, %r3; cvt.u64.u32 %rd10, %r10;
        add.s64 %rd11, %rd1, %rd10; ld.global.b32 %r11, [%rd11];
        add.s64 %rd11, %rd2, %rd10; ld.global.b32 %r12, [%rd11];
        mad.lo.s32 %r13, %r0, 3, 1;
        shfl.sync.{how}.b32 %r13, %r13, %r11, %r12, -1;
        add.s64 %rd11, %rd0, %rd10; st.global.b32 [%rd11], %r13;""", out, by, clamp, blocks=len(cases))
    assert not report.findings
    values = (3 * words() + 1).tolist()
    for case, b, c in zip(out, by.tolist(), clamp.tolist(), strict=True):
        assert case.tolist() == shuffled(how, values, b, c)


@pytest.mark.parametrize("kind", ["max.s32", "max.u32", "min.s32", "min.u32", "add.s32", "add.u32", "and.b32", "or.b32",
                                  "xor.b32"])
def test_reductions_of_a_warp(kind):
    name, dtype = kind.split(".")
    given = np.random.default_rng(1).integers(0, 2**32, 64, np.uint32)
    meaning = {"max": max, "min": min, "add": operator.add, "and": operator.and_, "or": operator.or_,
               "xor": operator.xor}[name]
    out = np.zeros(64, np.uint32)
    run(kernel(f"""add.s64 %rd10, %rd1, %rd8; ld.global.b32 %r10, [%rd10]; mov.b32 %r11, -1;
        redux.sync.{kind} %r10, %r10, %r11; st.global.b32 [%rd9], %r10;""", 64), out, given)
    seen = given.view(np.int32 if dtype == "s32" else np.uint32).tolist()
    for warp in (0, 1):
        expected = functools.reduce(meaning, seen[32 * warp:32 * warp + 32]) % 2**32
        assert (out[32 * warp:32 * warp + 32] == expected).all()


@pytest.mark.parametrize("kind", ["max.f32", "min.f32", "max.NaN.f32", "min.NaN.f32"])
def test_reductions_of_floats(kind):
    """Of GPUs since sm_100: a NaN does not count unless it is asked for, or nothing else is there."""
    given = np.random.default_rng(1).normal(size=(3, 32)).astype(np.float32)
    given[1, 7], given[2] = np.nan, np.nan
    out = np.zeros(96, np.float32)
    run(kernel(f"""add.s64 %rd10, %rd1, %rd8; ld.global.b32 %r10, [%rd10];
        redux.sync.{kind} %r10, %r10, -1; st.global.b32 [%rd9], %r10;""", 96), out, given)
    extreme = np.max if "max" in kind else np.min
    of_the_second = np.nan if "NaN" in kind else extreme(given[1, np.arange(32) != 7])
    assert np.array_equal(out, np.repeat([extreme(given[0]), of_the_second, np.nan], 32).astype(np.float32), True)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("order", [None, 0])
def test_matrices(count, order):
    """Matrix i has its 8 rows of 16 bytes where lanes 8i to 8i + 7 say; lane l has bytes 4 (l % 4) of row l // 4."""
    rng = np.random.default_rng(count)
    memory = rng.integers(0, 2**32, 256, np.uint32)  # 2 warps have 4 matrices each, of 8 rows of 4 words
    rows = np.concatenate([warp * 512 + 16 * rng.permutation(32) for warp in range(2)]).astype(np.uint32)
    names = ", ".join(f"%r{20 + i}" for i in range(count))
    store = "\n".join(f"st.global.b32 [%rd9+{256 * i}], %r{20 + i};" for i in range(count))
    out = np.zeros((count, 64), np.uint32)
    body = f"""
        mov.b32 %r10, 0;
    $copy:
        mad.lo.s32 %r11, %r10, 256, %r3; cvt.u64.u32 %rd10, %r11; add.s64 %rd10, %rd10, %rd1;
        add.s32 %r11, %r11, %r2;
        ld.global.b32 %r12, [%rd10]; st.shared.b32 [%r11], %r12;
        add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, 4; @%p1 bra $copy;
        add.s64 %rd10, %rd2, %rd8; ld.global.b32 %r12, [%rd10]; add.s32 %r12, %r12, %r2;
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{names}}}, [%r12];
        {store}"""
    report = run(kernel(body, 64), out, memory, rows, order=order)
    assert not report.findings, report.describe()
    lane = np.arange(64)
    for i in range(count):
        at = rows[lane // 32 * 32 + 8 * i + lane % 32 // 4] // 4 + lane % 4
        assert (out[i] == memory[at]).all()

    body = f"""
        add.s64 %rd10, %rd1, %rd8; {"".join(f"ld.global.b32 %r{20 + i}, [%rd10+{256 * i}];" for i in range(count))}
        add.s64 %rd10, %rd2, %rd8; ld.global.b32 %r12, [%rd10]; add.s32 %r12, %r12, %r2;
        stmatrix.sync.aligned.m8n8.x{count}.shared::cta.b16 [%r12], {{{names}}};
        bar.sync 0;
        mov.b32 %r10, 0;
    $copy:
        mad.lo.s32 %r11, %r10, 256, %r3; cvt.u64.u32 %rd10, %r11; add.s64 %rd10, %rd10, %rd0;
        add.s32 %r11, %r11, %r2;
        ld.shared.b32 %r12, [%r11]; st.global.b32 [%rd10], %r12;
        add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, 4; @%p1 bra $copy;"""
    back = np.zeros(256, np.uint32)
    report = run(kernel(body, 64), back, out, rows, order=order)
    kept = np.isin(np.arange(256) // 4 * 16, [rows[warp * 32:][:8 * count] for warp in range(2)])
    assert (back == np.where(kept, memory, POISON)).all()
    assert found(report) == ({("read before written", "ld")} if count < 4 else set())


@pytest.mark.parametrize("order", [None, 0])
def test_whole_warps_may_leave_out_what_whole_warps_do(order):
    """Of two warps one shuffles, reduces and moves matrices; nothing happens to the other one."""
    out = np.zeros((3, 64), np.uint32)
    report = run(kernel("""
        setp.ge.s32 %p1, %r0, 32;
        mov.b32 %r20, %r0; mov.b32 %r21, %r0; mov.b32 %r22, %r0;
        shl.b32 %r10, %r3, 2; add.s32 %r10, %r10, %r2;
        st.shared.v4.b32 [%r10], {%r0, %r0, %r0, %r0};
        bar.sync 0;
        @%p1 shfl.sync.bfly.b32 %r20, %r20, 1, 31, -1;
        @%p1 redux.sync.max.s32 %r21, %r21, -1;
        @%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r22}, [%r10];
        @%p1 stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r20};
        st.global.b32 [%rd9], %r20; st.global.b32 [%rd9+256], %r21;
        st.global.b32 [%rd9+512], %r22;""", 64), out, order=order)
    assert not report.findings, report.describe()
    lane = np.arange(32)
    assert (out[:, :32] == lane).all()
    assert (out[:, 32:] == [(lane ^ 1) + 32, np.full(32, 63), lane // 4 + 32]).all()


@pytest.mark.parametrize("statement, message", {
    "shfl.sync.up.b32 %r10, %r11, 1, 0, 0xffff;": "does not know the lanes 0xffff",
    "shfl.sync.up.b32 %r10|%p1, %r11, 1, 0, -1;": "%r10|%p1 is no register",
    "shfl.up.b32 %r10, %r11, 1, 0, -1;": "does not know shfl.up.b32",
    "shfl.sync.up.b32 %r10, %r11, 1, 0;": "4 operands; expected 5",
    "redux.sync.max.b32 %r10, %r11, -1;": "does not know redux.sync.max.b32",
    "redux.sync.and.s32 %r10, %r11, -1;": "does not know redux.sync.and.s32",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r10, [%r2];": "0 registers; expected 1",
    "redux.sync.add.f32 %r10, %r11, -1;": "does not know redux.sync.add.f32",
    "redux.sync.max.s32 %r10, %r11, 1;": "does not know the lanes 1",
    "mov.b32 %r12, 1; redux.sync.max.s32 %r10, %r11, %r12;": "it is of the lanes 0x1",
    "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10}, [%r2];": "1 registers; expected 2",
    "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r10}, [%r2];": "does not know ldmatrix",
    "ldmatrix.sync.aligned.m8n8.x1.b16 {%r10}, [%rd2];": "does not know ldmatrix",
    "stmatrix.sync.aligned.m8n8.x3.shared.b16 [%r2], {%r10};": "does not know stmatrix",
    "bar.warp.sync 1;": "does not know the lanes 1",
    "bar.warp.sync;": "does not know bar.warp.sync",
    "bar.sync 0, 64;": "does not know bar.sync",
    "bar.sync 1;": "does not know bar.sync",
    "bar.red.popc.u32 %r10, 0, %p1;": "does not know bar.red.popc.u32",
    "barrier.sync 0;": "does not know barrier.sync",
    "ret.uni;": "does not know ret.uni",
    "brx.idx %r1, x;": "does not know brx.idx",
    "bra $after, 1;": "2 operands; expected 1",
    "vote.sync.any.pred %p1, %p2, -1;": "does not know vote.sync",
    "elect.sync %r10|%p1, -1;": "does not know elect.sync",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10}, {%r11}, {%r12}, {%r13};": "does not know mma.sync",
    "cp.async.ca.shared.global [%r2], [%rd0], 12;": "does not know cp.async.ca.shared.global of 12 bytes",
    "cp.async.cg.shared.global [%r2], [%rd0], 8;": "does not know cp.async.cg.shared.global of 8 bytes",
    "cp.async.ca.shared.global [%r2], [%rd0], 16, %p1;": "register %p1 of type pred used as u32",
    "cp.async.ca.shared.global.L2::128B [%r2], [%rd0], 16;": "does not know cp.async.ca.shared.global.L2::128B",
    "cp.async.ca.shared.global [%r2], [%rd0], 16, 8;": "copies of 16 bytes that read [8",
    "cp.async.wait_all;": "does not know cp.async.wait_all",
    "cp.async.wait_group %r10;": "does not know cp.async.wait_group",
    "cp.async.bulk.commit_group;": "does not know cp.async.bulk.commit_group",
    "cp.async.mbarrier.arrive.shared.b64 [%r2];": "does not know cp.async.mbarrier",
}.items())
def test_what_lanes_do_together_and_the_machine_does_not_know(statement, message):
    refused(statement, message)


@pytest.mark.parametrize("statement", [
    "shfl.sync.bfly.b32 %r10, %r11, 1, 31, -1", "redux.sync.max.s32 %r10, %r11, -1", "bar.warp.sync -1",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2]", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r10}"])
@pytest.mark.parametrize("order", [None, 0])
def test_a_part_of_a_warp_may_not_do_what_whole_warps_do(statement, order):
    """By a guard, past a jump, and after others have left."""
    some = "setp.ne.s32 %p1, %r0, 33;"
    for body in (f"{some}\n@%p1 {statement};", f"{some} @!%p1 bra $past;\n{statement};\n$past:",
                 f"{some} @!%p1 ret;\n{statement};"):
        with pytest.raises(PTXError, match=rf"line {BODY + 1}, .*: some lanes of a warp execute it"):
            run(kernel(body, 64), order=order)


# asynchronous copies

COPY = """
    mul.lo.s32 %r10, %r0, {width};
    cvt.u64.u32 %rd10, %r10;
    add.s64 %rd11, %rd1, %rd10;
    add.s32 %r11, %r2, %r10;
"""


@pytest.mark.parametrize("how, width", [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_copies(how, width):
    """Odd lanes ask for nothing, and get zeros; what they would read need not exist."""
    source = np.random.default_rng(0).integers(0, 256, 31 * width, np.uint8)
    out = np.zeros((32, width), np.uint8)
    moved = f"v{width // 4}.b32" if width > 4 else "b32"
    names = ["%r20", "{%r20, %r21}", "{%r20, %r21, %r22, %r23}"][width // 8]
    report = run(COPY.format(width=width) + f"""
        and.b32 %r12, %r0, 1; setp.eq.s32 %p1, %r12, 0; selp.b32 %r12, {width}, 0, %p1;
        cp.async.{how}.shared.global [%r11+0], [%rd11+0], {width:#x}, %r12;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.{moved} {names}, [%r11];
        add.s64 %rd12, %rd0, %rd10; st.global.{moved} [%rd12], {names};""", out, source)
    assert not report.findings, report.describe()
    even = np.arange(32) % 2 == 0
    assert (out[~even] == 0).all() and (out[:31][even[:31]] == source.reshape(31, width)[even[:31]]).all()
    assert report.counts.total("cp", of="lanes") == 16 and report.counts.total("cp", of="bytes") == 16 * width


def test_a_copy_arrives_when_it_is_waited_for_and_not_before():
    source, out = words(first=100), np.zeros((2, 32), np.uint32)
    report = run(COPY.format(width=4) + """
        cp.async.ca.shared.global [%r11], [%rd11], 4;
        cp.async.commit_group;
        ld.shared.b32 %r20, [%r11];
        cp.async.wait_group 0;
        ld.shared.b32 %r21, [%r11];
        st.global.b32 [%rd9], %r20; st.global.b32 [%rd9+128], %r21;""", out, source)
    assert (out[0] == POISON).all() and (out[1] == source).all()
    assert found(report) == {("read before written", "ld"), ("not waited for", "ld", "cp")}


@pytest.mark.parametrize("latest", range(5))
def test_groups_of_copies(latest):
    """Four groups of two, one and no copies and a fifth that was not closed: all but the latest ones land."""
    begin = "cp.async.ca.shared.global [%r11+{}], [%rd11], 4;".format
    report = run(COPY.format(width=4) + f"""
        {begin(0)} {begin(128)} cp.async.commit_group;
        {begin(256)} cp.async.commit_group;
        cp.async.commit_group;
        {begin(384)} cp.async.commit_group;
        {begin(512)}
        cp.async.wait_group {latest};
        """ + "".join(f"ld.shared.b32 %r20, [%r11+{128 * i}];\n" for i in range(5)), words(), words())
    landed = [latest < 4, latest < 4, latest < 3, latest < 1, False]
    loads = report.program.where("ld.shared")
    flying = {each.at for each in report.findings.values() if each.kind == "not waited for" and each.other is not None}
    assert flying == {index for index, there in zip(loads, landed, strict=True) if not there}


@pytest.mark.parametrize("order", [None, 0])
def test_each_lane_has_its_own_groups(order):
    """Lanes up to 39 put two copies into one group, the others into two; all wait for all groups but one."""
    source, out = words(64), np.zeros(64, np.uint32)
    report = run(kernel(COPY.format(width=4) + """
        setp.ge.s32 %p1, %r0, 40;
        cp.async.ca.shared.global [%r11], [%rd11], 4;
        @%p1 cp.async.commit_group;
        cp.async.ca.shared.global [%r11+256], [%rd11], 4;
        cp.async.commit_group;
        cp.async.wait_group 1;
        ld.shared.b32 %r20, [%r11];
        st.global.b32 [%rd9], %r20;
        cp.async.wait_group 0;""", 64), out, source, order=order)
    assert (out == np.where(source < 40, POISON, source)).all()
    counts = {each.kind: each.count for each in report.findings.values()}
    assert counts == {"read before written": 40, "not waited for": 40}


def test_copies_end_with_their_block():
    """What the first block has not waited for does not arrive in the second one's memory."""
    report = run(COPY.format(width=4) + """
        setp.eq.s32 %p1, %r1, 0;
        @%p1 cp.async.ca.shared.global [%r11], [%rd11], 4;
        cp.async.commit_group;
        @%p1 ret;
        st.shared.b32 [%r11], 7;
        cp.async.wait_group 0;
        ld.shared.b32 %r20, [%r11];
        st.global.b32 [%rd9], %r20;""", out := words(), words(), blocks=2)
    (finding,) = report.findings.values()
    assert finding.kind == "not waited for"
    assert (finding.where, finding.count) == ("still under way where its block ends", 32)
    assert (out == 7).all()


# divergence

def test_loops_of_other_lengths_for_each_lane():
    """Steps of Collatz's sequence from each number, with a branch in the loop."""
    steps = []
    for n in range(64):
        steps.append(0)
        while n > 1:
            n = 3 * n + 1 if n % 2 else n // 2
            steps[-1] += 1
    for order in ORDERS:
        out = np.zeros(64, np.uint32)
        report = run(kernel("""
            mov.b32 %r10, %r0; mov.b32 %r11, 0;
            bra.uni $test;
        $loop:
            add.s32 %r11, %r11, 1;
            and.b32 %r12, %r10, 1; setp.eq.s32 %p1, %r12, 0;
            @%p1 bra $even;
            mad.lo.s32 %r10, %r10, 3, 1;
            bra.uni $test;
        $even:
            shr.u32 %r10, %r10, 1;
        $test:
            setp.gt.s32 %p2, %r10, 1;
            @%p2 bra $loop;
            shfl.sync.idx.b32 %r10, %r10, 1, 31, -1;
            st.global.b32 [%rd9], %r11;""", 64), out, order=order)
        assert not report.findings and out.tolist() == steps


@st.composite
def structured(draw, depth=3):
    """A program of assignments, branches and loops, as a tree."""
    def block(depth):
        kinds = ["assign", "if", "loop", "leave"] if depth else ["assign"]
        return [(kind, draw(st.integers(0, 2**16)),
                 *([block(depth - 1), block(depth - 1)] if kind in ("if", "loop") else []))
                for kind in draw(st.lists(st.sampled_from(kinds), max_size=3))]
    return block(depth)


def as_text(block, count=None):
    """PTX of a tree; %r10 and %r11 hold the two variables, and the number of a loop's rounds depends on them."""
    count = count if count is not None else iter(range(10**6))
    lines = []
    for kind, number, *inner in block:
        label = next(count)
        if kind == "assign":
            lines.append(f"mad.lo.u32 %r10, %r10, {number | 1}, %r11; shr.u32 %r12, %r10, 7; xor.b32 %r11, %r11, %r12;")
        elif kind == "leave":
            lines.append(f"and.b32 %r12, %r11, 7; setp.eq.u32 %p1, %r12, {number % 8}; @%p1 bra $out;")
        elif kind == "if":
            lines.append(f"and.b32 %r12, %r10, 3; setp.lt.u32 %p1, %r12, {number % 5}; @%p1 bra $then{label};")
            lines += [as_text(inner[1], count), f"bra $end{label};", f"$then{label}:", as_text(inner[0], count),
                      f"$end{label}:"]
        else:
            counter = f".reg .b32 %rounds{label};"
            lines += [counter, f"and.b32 %rounds{label}, %r11, {number % 4}; bra $test{label};", f"$loop{label}:"]
            lines += [as_text(inner[0], count), f"$test{label}: setp.gt.s32 %p1, %rounds{label}, 0;"]
            lines += [f"sub.s32 %rounds{label}, %rounds{label}, 1; @%p1 bra $loop{label};"]
    return "\n".join(lines)


class Left(Exception):
    """A lane leaves the program early."""


def as_python(block, x, y):
    for kind, number, *inner in block:
        if kind == "assign":
            x = (x * (number | 1) + y) % 2**32
            y ^= x >> 7
        elif kind == "leave" and y & 7 == number % 8:
            raise Left(x, y)
        elif kind == "if":
            x, y = as_python(inner[0] if x & 3 < number % 5 else inner[1], x, y)
        elif kind == "loop":
            for _ in range(y & number % 4):
                x, y = as_python(inner[0], x, y)
    return x, y


@given(structured(), st.sampled_from(ORDERS))
def test_lanes_go_their_own_ways_and_meet_again(block, order):
    """Random programs: each lane gets what it would get alone, and in the end whole warps can shuffle."""
    body = f"mov.b32 %r10, %r0; mul.lo.s32 %r11, %r0, 77;\n{as_text(block)}\n$out:\n"
    body += "shfl.sync.bfly.b32 %r12, %r10, 1, 31, -1; st.global.b32 [%rd9], %r10; st.global.b32 [%rd9+256], %r12;"
    out = np.zeros((2, 64), np.uint32)
    assert not run(kernel(body, 64), out, order=order).findings
    for lane in range(64):
        try:
            x, _ = as_python(block, lane, 77 * lane)
        except Left as left:
            x, _ = left.args
        assert out[0, lane] == x
    assert (out[1] == out[0][np.arange(64) ^ 1]).all()


def test_guards_on_any_instruction():
    """Each changes the register, or the memory, of every third lane, and nothing else."""
    picked = np.arange(64) % 3 == 0
    before = "rem.s32 %r10, %r0, 3; setp.eq.s32 %p1, %r10, 0; mov.b32 %r10, 5; st.shared.b32 [%r4], 9;"
    for guarded, value in {"add.s32 %r10, %r10, 1": 6, "mov.b32 %r10, 8": 8, "ld.shared.b32 %r10, [%r4]": 9,
                           "cvt.s32.s64 %r10, -3": 2**32 - 3, "ld.param.b32 %r10, [b]": 77,
                           "selp.b32 %r10, 3, 3, %p1": 3,
                           "mov.b64 {%r10, _}, 12": 12, "mov.b32 %r10, {7, 0}": 7, "bra $skip": 5, "ret": 0}.items():
        for guard, those in {"@%p1": picked, "@!%p1": ~picked}.items():
            out = np.zeros(64, np.uint32)
            after = "add.s32 %r10, %r10, 0;\n$skip:\nst.global.b32 [%rd9], %r10;"
            run(kernel(f"{before}\n{guard} {guarded};\n{after}", 64, ("u64", "u32")), out, 77)
            assert (out == np.where(those, value, 5)).all(), guarded
    out = np.zeros((2, 64), np.uint32)
    run(kernel(before + """
        @%p1 st.global.b32 [%rd9], 3;
        @!%p1 setp.eq.s32 %p1, %r0, %r0;
        selp.b32 %r10, 1, 0, %p1; st.global.b32 [%rd9+256], %r10;""", 64), out)
    assert (out == [np.where(picked, 3, 0), np.ones(64)]).all()


def test_a_uniform_jump_must_be_one():
    """Lanes of one warp may not part at bra.uni; warps may."""
    jump = "setp.lt.s32 %p1, %r0, {}; @%p1 bra.uni $end;\n$end:".format
    for order in ORDERS:
        assert not run(kernel(jump(32), 96), order=order).findings
        message = f"line {BODY}, `@%p1 bra.uni .end`: some lanes of a warp jump and others do not"
        with pytest.raises(PTXError, match=message):
            run(kernel(jump(33), 96), order=order)


# barriers, blocks, orders

EXCHANGE = """
    mov.b32 %r10, 0;
    mov.b32 %r11, %r0;
$loop:
    st.shared.b32 [%r4], %r11;
    bar.sync 0;
    mad.lo.s32 %r12, %r0, 37, 11; and.b32 %r12, %r12, 127; shl.b32 %r12, %r12, 2; add.s32 %r12, %r12, %r2;
    ld.shared.b32 %r13, [%r12];
    mad.lo.s32 %r11, %r11, 3, %r13;
    bar.sync 0;
    add.s32 %r10, %r10, 1;
    setp.lt.s32 %p1, %r10, 5;
    @%p1 bra $loop;
    mad.lo.s32 %r12, %r1, 128, %r0; add.s32 %r11, %r11, %r1;
    mul.wide.u32 %rd10, %r12, 4; add.s64 %rd10, %rd10, %rd0; st.global.b32 [%rd10], %r11;
"""


def exchanged():
    x, lane = np.arange(128, dtype=np.uint32), np.arange(128)
    for _ in range(5):
        x = 3 * x + x[(37 * lane + 11) % 128]
    return x + np.arange(3, dtype=np.uint32)[:, None]


def test_all_orders_have_the_same_results_for_a_right_kernel():
    """Threads of four warps read what others wrote, round by round, with two barriers in each; three blocks."""
    for order in ORDERS:
        out = np.zeros((3, 128), np.uint32)
        report = run(kernel(EXCHANGE, 128), out, blocks=3, order=order)
        assert not report.findings and (out == exchanged()).all()
        assert report.counts.total("bar.sync") == 3 * 4 * 10


def test_orders_differ_and_are_the_same_for_the_same_seed():
    """A kernel that is wrong shows who came last: another warp and another block for other seeds."""
    def last(order):
        out = np.zeros(2, np.uint32)
        run(kernel("shr.u32 %r10, %r0, 5; st.global.b32 [%rd0], %r10; st.global.b32 [%rd0+4], %r1;", 128), out,
            blocks=4, order=order)
        return out.tolist()
    assert last(None) == [3, 3]
    assert {tuple(last(seed)) for seed in range(40)} == {(warp, block) for warp in range(4) for block in range(4)}
    assert all(last(seed) == last(seed) for seed in range(4))


def test_blocks_in_three_directions():
    out = np.zeros((2, 3, 4, 32), np.uint32)
    for order in (None, 1):
        report = launch(kernel("""
            mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ctaid.y; mov.u32 %r12, %ctaid.z;
            mad.lo.s32 %r13, %r12, 3, %r11; mad.lo.s32 %r13, %r13, 4, %r10; mad.lo.s32 %r13, %r13, 32, %r0;
            mul.wide.u32 %rd10, %r13, 4; add.s64 %rd10, %rd10, %rd0;
            st.global.b32 [%rd10], %r13;"""), (4, 3, 2), [out, 0, 0], order=order)
        assert report.blocks == 24 and report.warps == 1 and (out.ravel() == np.arange(768)).all()
    assert report.describe() == "by_hand: nothing found in 24 blocks of 1 warp"


def test_registers_of_a_lane():
    assert (stored("mov.u32 %r10, %laneid;", threads=96) == np.arange(96) % 32).all()
    assert (stored("mov.u32 %r10, %tid.x;", threads=96) == np.arange(96)).all()


# counts

def counted(body, opcode, threads=32, **options):
    """Counters of an opcode in a kernel."""
    report = run(kernel(body, threads), np.zeros(8192, np.uint32), np.zeros(8192, np.uint32), shared=32768, **options)
    assert not {each.kind for each in report.findings.values()} - {"read before written", "race"}, report.describe()
    return {name: report.counts.total(opcode, of=name)
            for name in ("warps", "lanes", "bytes", "sectors", "wavefronts", "least_wavefronts")}


@pytest.mark.parametrize("stride, width, sectors", [
    (4, 4, 4), (8, 4, 8), (32, 4, 32), (128, 4, 32), (0, 4, 1), (8, 8, 8), (16, 16, 16), (2, 2, 2), (1, 1, 1),
    (64, 16, 32)])
def test_sectors_of_global_memory(stride, width, sectors):
    """Coalesced accesses touch as many sectors of 32 bytes as their bytes fill, strided ones one for each lane."""
    names = {1: "u8 %r11", 2: "u16 %r11", 4: "b32 %r11", 8: "b64 %rd11", 16: "v4.b32 {%r11, %r12, %r13, %r14}"}[width]
    body = f"mul.wide.u32 %rd10, %r0, {stride}; add.s64 %rd10, %rd10, %rd0; ld.global.{names}, [%rd10];"
    got = counted(body, "ld.global")
    assert got == {"warps": 1, "lanes": 32, "bytes": 32 * width, "sectors": sectors, "wavefronts": 0,
                   "least_wavefronts": 0}


def test_sectors_off_by_some_bytes_and_of_several_warps():
    """A warp's 128 bytes that begin within a sector touch five; each warp counts its own, as does each repetition."""
    assert counted("ld.global.b32 %r11, [%rd9+4];", "ld.global")["sectors"] == 5
    assert counted("ld.global.b32 %r11, [%rd9+32];", "ld.global")["sectors"] == 4
    assert counted("ld.global.b32 %r11, [%rd0];", "ld.global", 96)["sectors"] == 3
    for order in (None, 0):
        assert counted("ld.global.b32 %r11, [%rd9];" * 2, "ld.global", 96, blocks=2, order=order) == {
            "warps": 12, "lanes": 384, "bytes": 1536, "sectors": 48, "wavefronts": 0, "least_wavefronts": 0}


@pytest.mark.parametrize("stride, width, turns, least", [
    (4, 4, 1, 1),  # word by word
    (8, 4, 2, 1), (16, 4, 4, 1), (64, 4, 16, 1), (128, 4, 32, 1), (256, 4, 32, 1),  # conflicts
    (12, 4, 1, 1), (132, 4, 1, 1), (20, 4, 1, 1),  # odd strides have none
    (0, 4, 1, 1), (0, 16, 4, 4),  # one word for all; in turns of a quarter of the warp
    (2, 2, 1, 1), (1, 1, 1, 1), (128, 2, 32, 1),  # parts of words
    (8, 8, 2, 2), (16, 8, 4, 2), (128, 8, 32, 2), (136, 8, 2, 2),  # in halves of a warp
    (16, 16, 4, 4), (32, 16, 8, 4), (128, 16, 32, 4), (144, 16, 4, 4), (80, 16, 4, 4)])  # in quarters
def test_conflicts_of_banks(stride, width, turns, least):
    names = {1: "b8 {}, %rs11", 2: "b16 {}, %rs11", 4: "b32 {}, %r11", 8: "v2.b32 {}, {{%r11, %r12}}",
             16: "v4.b32 {}, {{%r11, %r12, %r13, %r14}}"}[width].format("[%r10]")
    got = counted(f"mad.lo.s32 %r10, %r0, {stride}, %r2; st.shared.{names};", "st.shared")
    assert (got["wavefronts"], got["least_wavefronts"], got["sectors"]) == (turns, least, 0)


def test_lanes_that_do_not_take_part_leave_their_turn():
    """Of 16 bytes each, lanes 0 to 7 have a turn, and lanes 8 to 15: one of each are two turns, two of one are one."""
    body = "setp.eq.s32 %p1, %r0, {}; setp.eq.s32 %p2, %r0, {}; or.pred %p1, %p1, %p2; shl.b32 %r10, %r3, 2; " \
           "add.s32 %r10, %r10, %r2; @%p1 st.shared.v4.b32 [%r10], {{%r11, %r12, %r13, %r14}};"
    for a, b, turns in [(0, 9, 2), (1, 6, 1), (7, 8, 2), (16, 23, 1)]:
        got = counted(body.format(a, b), "st.shared")
        assert (got["wavefronts"], got["least_wavefronts"], got["lanes"]) == (turns, turns, 2)


def test_conflicts_of_matrices():
    """Rows of 16 bytes one behind another, and 128 bytes apart: eight ways into the same banks."""
    for shift, turns in ((4, 4), (7, 32)):
        got = counted(f"and.b32 %r10, %r0, 31; shl.b32 %r10, %r10, {shift}; add.s32 %r10, %r10, %r2;"
                      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10], {%r11, %r12, %r13, %r14};", "stmatrix")
        assert (got["wavefronts"], got["least_wavefronts"], got["lanes"], got["bytes"]) == (turns, 4, 32, 512)


def test_widths_of_accesses():
    """How many lanes moved how many bytes at once; what no lane did is not there."""
    report = run(kernel("""
        setp.lt.s32 %p1, %r0, 10; setp.lt.s32 %p2, %r0, 0;
        ld.global.b32 %r10, [%rd9]; ld.global.b32 %r10, [%rd9];
        @%p1 ld.global.v2.b32 {%r10, %r11}, [%rd0+8];
        @%p2 ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd0];
        st.shared.b16 [%r4], %rs1;""", 64), words(64))
    assert report.counts.widths("ld.global") == {4: 128, 8: 10} and report.counts.widths("st") == {2: 64}
    assert report.counts.widths("ld.global", "st") == {2: 64, 4: 128, 8: 10} and report.counts.widths("cp") == {}


def test_executions_are_counted_by_warps():
    """Of a warp with some lanes in a loop, each round counts once; an instruction whose guard is false counts, too."""
    for order in (None, 0):
        report = run(kernel("""
            mov.b32 %r10, %r0;
        $loop:
            sub.s32 %r10, %r10, 1;
            setp.gt.s32 %p1, %r10, 0; @%p1 bra $loop;
            setp.lt.s32 %p2, %r0, 0;
            @%p2 mul.lo.s32 %r10, %r10, %r10;""", 64), order=order)
        assert [report.counts.total(name) for name in ("sub", "mul", "bra")] == [31 + 63, 2, 31 + 63]


# launches

def test_buffers():
    """Offsets, alignments, one array as two arguments, and a view of which some bytes do not exist."""
    data = np.arange(40, dtype=np.uint32)
    body = """ld.global.b32 %r10, [%rd9]; add.s64 %rd10, %rd1, %rd8; add.s32 %r10, %r10, 1000;
              st.global.b32 [%rd10], %r10; mul.wide.u32 %rd11, %r0, 8; add.s64 %rd11, %rd11, %rd2;
              st.global.b64 [%rd11], %rd1;"""
    for alignment in (0, 4, 20, 252):
        pointers, out = np.zeros(32, np.uint64), np.zeros(32, np.uint32)
        report = launch(kernel(body), (1,), [Buffer("in", data.view(np.uint8), 32, alignment),
                                             Buffer("out", out.view(np.uint8), 0, 12), pointers])
        assert not report.findings and (out == data[8:] + 1000).all() and (pointers % 256 == 12).all()
    for offset, kinds in ((128, set()), (64, {"race"})):  # one array as two arguments: disjoint parts of it, or not
        both = np.arange(80, dtype=np.uint32)
        report = launch(kernel(body), (1,), [Buffer("in", both.view(np.uint8)),
                                             Buffer("out", both.view(np.uint8), offset), pointers])
        assert (both[offset // 4:][:32] == np.arange(32) + 1000).all()
        assert {each.kind for each in report.findings.values()} == kinds
    with pytest.raises(LaunchError, match="b and a share a part of their memory"):
        launch(kernel(body), (1,), [both[:32], both[8:], pointers])
    with pytest.raises(LaunchError, match="a is no contiguous array"):
        launch(kernel(body), (1,), [both[::2], out, pointers])


def test_arrays_are_changed_where_the_kernel_wrote():
    data = np.full(64, 9, np.uint8)
    exists = np.arange(64) % 8 < 4
    unwritten = Buffer("half", data, exists=exists, written=False)
    report = launch(kernel("mul.wide.u32 %rd10, %r0, 8; add.s64 %rd10, %rd10, %rd0; setp.lt.s32 %p1, %r0, 7; "
                           "@%p1 st.global.b32 [%rd10], 0x01020304;"), (1,), [unwritten, 0, 0])
    assert not report.findings
    assert (data.reshape(8, 8)[:7, :4] == [4, 3, 2, 1]).all() and (data.reshape(8, 8)[:7, 4:] == 9).all()
    assert (data[56:] == 9).all()
    data = np.full(10, 9, np.uint8)  # the words that the kernel moves begin two bytes later
    buffer = Buffer("half a word further", data, offset=2, alignment=2, written=False)
    report = launch(kernel("setp.eq.s32 %p1, %r0, 0; @%p1 st.global.b32 [%rd0], 0x01020304;"), (1,), [buffer, 0, 0])
    assert not report.findings and data.tolist() == [9, 9, 4, 3, 2, 1, 9, 9, 9, 9]


def test_shared_memory_of_several_arrays():
    """Those of a fixed size come first; each begins where its alignment allows it, and no larger one."""
    source = text("mov.b32 %r10, one; mov.b32 %r11, two; mov.b32 %r12, shared_array; mov.b64 {%r10, %r13}, {0, 0};"
                  ).replace("mov.b64 {%r10, %r13}, {0, 0};", "shl.b32 %r11, %r11, 8; shl.b32 %r12, %r12, 16; "
                            "or.b32 %r10, %r10, %r11; or.b32 %r10, %r10, %r12; st.global.b32 [%rd9], %r10;")
    source = source.replace(".visible", ".shared .b16 one[10];\n.shared .align 4 .b8 two[4];\n.visible")
    report = run(Program.parse(source), out := words(), shared=100)
    assert (out == 2 | 36 << 8 | 48 << 16).all() and report.shared_bytes == 48 + 112


def test_shared_memory_that_is_declared_among_the_instructions():
    report = run(".shared .b32 own[32]; mov.b32 %r10, own; add.s32 %r10, %r10, %r3; st.shared.b32 [%r10], %r0;"
                 "ld.shared.b32 %r11, [%r10]; st.global.b32 [%rd9], %r11;", out := np.zeros(32, np.uint32), shared=0)
    assert not report.findings and (out == words()).all() and report.shared_bytes == 128


def test_launches_that_a_device_refuses():
    simple = kernel("")
    for threads in (31, 33, 1056):
        with pytest.raises(LaunchError, match=f"blocks of {threads} threads"):
            run(kernel("", threads))
    with pytest.raises(LaunchError, match="needs 232464 bytes of shared memory; the device has 232448"):
        run(simple, shared=SHARED_MEMORY["sm_90"] + 1, shared_limit=SHARED_MEMORY["sm_90"])
    assert run(simple, shared=SHARED_MEMORY["sm_90"], shared_limit=SHARED_MEMORY["sm_90"]).shared_bytes == 232448
    for grid in ((), (0,), (1, 65536), (1, 1, 1, 1), (-1,)):
        with pytest.raises(LaunchError, match=re.escape(f"grid = {grid}")):
            launch(simple, grid, [0, 0, 0])


@pytest.mark.parametrize("order", [None, 0])
def test_a_launch_without_end_is_given_up(order):
    endless = kernel("$loop: add.s32 %r10, %r10, 1; setp.eq.s32 %p1, %r0, 3; @%p1 bra $loop; bra $loop;", 64)
    with pytest.raises(LaunchError, match="as many instructions as its budget allows"):
        run(endless, order=order, budget=1000)
    once = kernel("", 64)
    needed = 2 * len(once.instructions)
    assert run(once, order=order, budget=needed).counts.warps.sum() == needed
    with pytest.raises(LaunchError, match="budget"):
        run(once, order=order, budget=needed - 1)


def test_what_stamps_cannot_count_is_refused(monkeypatch):
    """A moment of a warp, an instruction or an epoch that would be taken for another one."""
    loop = "mov.b32 %r10, 0; $loop: bar.warp.sync -1; add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, {}; @%p1 bra $loop;"
    assert not run(loop.format(1022)).findings
    with pytest.raises(PTXError, match=f"line {BODY}, `bar.warp.sync -1`: 1023 of them between two barriers"):
        run(loop.format(1023))
    assert not run(loop.replace("bar.warp", "bar.sync 0; bar.warp").format(1100)).findings
    long = kernel("mov.b32 %r10, 1;\n" * 2**16)
    with pytest.raises(LaunchError, match="the machine counts up to 65536"):
        run(long)
    monkeypatch.setattr(Limits, "EPOCHS", 8)  # of each block its barriers, its beginning and its end
    assert not run("bar.sync 0;", blocks=2).findings
    with pytest.raises(LaunchError, match="by_hand has 8 barriers and blocks; expected less"):
        run("bar.sync 0; bar.sync 0;", blocks=2)


def test_addresses_in_shared_memory_wrap():
    """At 32 bits, so that a step down and a step up cancel."""
    report = run("add.s32 %r10, %r4, -16; st.shared.b32 [%r10+16], %r0; ld.shared.b32 %r11, [%r4+-0];"
                 "st.global.b32 [%rd9], %r11;", out := words())
    assert not report.findings and (out == np.arange(32)).all()


def test_nan_has_the_bits_of_a_gpu():
    """0x7FFFFFFF, whatever the NaN was that went in."""
    given = np.array([0x7FC00001, 0xFFC00000, 0xFF800000] + 29 * [0], np.uint32)
    for opcode in ("add.f32", "mul.f32", "min.f32", "max.f32", "div.full.f32", "div.rn.f32"):
        out = given.copy()
        other = "0f7F800000" if opcode == "add.f32" else "0f7FC00002" if "m" in opcode else "0fFF800000"
        run(f"ld.global.b32 %r10, [%rd9]; {opcode} %r10, %r10, {other}; st.global.b32 [%rd9], %r10;", out)
        assert (out[:2] == 0x7FFFFFFF).all(), opcode


def test_a_mask_of_lanes_counts_where_lanes_execute_it():
    """Another warp's register may hold anything."""
    for order in ORDERS:
        report = run(kernel("""setp.lt.s32 %p1, %r0, 32; mov.b32 %r10, 1; @%p1 mov.b32 %r10, -1;
            @%p1 shfl.sync.idx.b32 %r11, %r0, 0, 31, %r10; @%p1 bar.warp.sync %r10;""", 64), order=order)
        assert not report.findings


BAD_BUFFERS = {
    "x: data is an array (4,) of int32; expected an array (n,) of uint8": {"data": np.zeros(4, np.int32)},
    "x: data is an array (2, 2) of uint8": {"data": np.zeros((2, 2), np.uint8)},
    "x: data is not contiguous, or must not be written": {"data": np.zeros(8, np.uint8)[::2]},
    "x: exists is an array (3,) of bool; expected 4 of bool": {
        "data": np.zeros(4, np.uint8), "exists": np.ones(3, bool)},
    "x: written is an array (4,) of int64": {"data": np.zeros(4, np.uint8), "written": np.ones(4, np.int64)},
}


@pytest.mark.parametrize("message", BAD_BUFFERS)
def test_invalid_buffers(message):
    with pytest.raises(LaunchError, match=re.escape(message)):
        Buffer("x", **BAD_BUFFERS[message])


def test_a_buffer_of_which_some_bytes_are_written():
    data = np.arange(8, dtype=np.uint8)
    buffer = Buffer("x", data, written=np.arange(8) < 4)
    report = launch(kernel("setp.lt.s32 %p1, %r0, 2; @%p1 ld.global.b32 %r10, [%rd9];"), (1,), [buffer, 0, 0])
    (finding,) = report.findings.values()
    assert finding.kind == "read before written" and finding.where == "byte 4 of x" and finding.threads == (1,)


def test_invalid_arguments():
    simple, number = kernel(""), kernel("", parameters=("f64",))
    for grid in (1, (2.0,), None, lambda meta: (1,), ()):
        with pytest.raises(LaunchError, match="expected a tuple of one to three numbers of blocks"):
            launch(simple, grid, [0, 0, 0])
    for value in (None, [1], "1"):
        with pytest.raises(LaunchError, match=re.escape(f"a = {value!r}; expected an array, a Buffer or a number")):
            launch(simple, (1,), [value, 0, 0])
    with pytest.raises(LaunchError, match="a = nan; expected a whole number of 64 bits"):
        launch(simple, (1,), [np.nan, 0, 0])
    with pytest.raises(LaunchError, match="a is an array; expected a number"):
        launch(number, (1,), [words()])
    with pytest.raises(LaunchError, match="shared_bytes = -5; expected 0 or more"):
        run(simple, shared=-5)
    frozen = words()
    frozen.flags.writeable = False
    with pytest.raises(LaunchError, match="a: data is not contiguous, or must not be written"):
        launch(simple, (1,), [frozen, 0, 0])
    with pytest.raises(PTXError, match=re.escape("parameter '.param .b128 a'")):
        kernel("", parameters=("b128",))
    with pytest.raises(PTXError, match=r"line \d+, `@%p99 .*%p99"):
        run("@%p99 mov.b32 %r10, 1;")

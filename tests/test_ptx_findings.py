"""What ptx_machine must find, in every order of warps and blocks, and what it must not report: one kernel for each.

The last part compares its verdict on random programs with all the orders that a GPU might take.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import ORDERS, found, kernel, run, text, words

from ptx_machine import KINDS, Buffer, Program, launch

#: Shared memory has a value everywhere, and what follows is not ordered by the barrier of its writing.
FILLED = "st.shared.b32 [%r4], 0; bar.sync 0;"
#: A copy of 4 bytes by each thread, on its way.
BEGIN = "cp.async.ca.shared.global [%r4], [%rd9], 4; cp.async.commit_group;"
#: Predicates of the threads 0, 1, 32 and 33.
SOME = "setp.eq.s32 %p1, %r0, 0; setp.eq.s32 %p2, %r0, 1; setp.eq.s32 %p3, %r0, 32; setp.eq.s32 %p4, %r0, 33;"
#: In %r10 the address of the neighbour's word: of the other lane, or of the other warp. Or that of a row of 16 bytes,
#: and in %r13 that of the neighbour's row.
LANE = "xor.b32 %r10, %r3, 4; add.s32 %r10, %r10, %r2;"
ROW = "and.b32 %r10, %r0, 7; shl.b32 %r10, %r10, 4; xor.b32 %r13, %r10, 16; add.s32 %r10, %r10, %r2;" \
      "add.s32 %r13, %r13, %r2;"
WARP = "xor.b32 %r10, %r3, 128; add.s32 %r10, %r10, %r2;"


def kinds(body, *arrays, threads=64, **options):
    """Kinds of findings, which must be the same in every order."""
    program = body if isinstance(body, Program) else kernel(body, threads)
    seen = []
    for order in ORDERS:
        report = run(program, *(each.copy() if isinstance(each, np.ndarray) else each for each in arrays), order=order,
                     **options)
        seen.append({each.kind for each in report.findings.values()})
        assert all(each.count > 0 and each.describe(program) for each in report.findings.values())
    assert all(each == seen[0] for each in seen), seen
    return seen[0]


# races

RACES = {
    "a lane reads what its neighbour writes": FILLED + LANE + "st.shared.b32 [%r4], 1; ld.shared.b32 %r11, [%r10];",
    "a warp reads what another writes": FILLED + WARP + "st.shared.b32 [%r4], 1; ld.shared.b32 %r11, [%r10];",
    "a lane writes what its neighbour reads": FILLED + LANE + "ld.shared.b32 %r11, [%r10]; st.shared.b32 [%r4], 1;",
    "a warp writes what another reads": FILLED + WARP + "ld.shared.b32 %r11, [%r10]; st.shared.b32 [%r4], 1;",
    "two values at once": "add.s32 %r11, %r0, 1; st.shared.b32 [%r2], %r11;",
    "two values at once, one of them there": FILLED + "st.shared.b32 [%r2], %r0;",
    "two values one after another": SOME + "@%p1 st.shared.b32 [%r2], 1; @%p2 st.shared.b32 [%r2], 2;",
    "two values of two warps": SOME + "@%p1 st.shared.b32 [%r2], 1; @%p3 st.shared.b32 [%r2], 2;",
    "one that is there, and another": FILLED + SOME + "@%p1 st.shared.b32 [%r2], 0; @%p3 st.shared.b32 [%r2], 1;",
    "one by all, another by one": FILLED + SOME + "st.shared.b32 [%r2], 0; @%p1 st.shared.b32 [%r2], 1;",
    "one by both, another by the one that came last": FILLED + SOME + """
        @%p1 st.shared.b32 [%r2], 0; @%p3 st.shared.b32 [%r2], 0; @%p3 st.shared.b32 [%r2], 1;""",
    "all lanes read what one of them writes": FILLED + SOME + "ld.shared.b32 %r11, [%r2]; @%p2 st.shared.b32 [%r2], 1;",
    "all lanes of the other warp read it": FILLED + SOME + """
        setp.ge.s32 %p5, %r0, 32; @%p5 ld.shared.b32 %r11, [%r2]; @%p2 st.shared.b32 [%r2], 1;""",
    "it reads, and another warp, and writes": FILLED + SOME + """
        @%p3 ld.shared.b32 %r11, [%r2]; @%p1 ld.shared.b32 %r11, [%r2]; @%p1 st.shared.b32 [%r2], 1;""",
    "another lane reads after the writer's own reading": FILLED + SOME + """
        @%p2 ld.shared.b32 %r11, [%r2]; @%p1 ld.shared.b32 %r11, [%r2]; @%p1 st.shared.b32 [%r2], 1;""",
    "two write the same, a third one reads it": FILLED + SOME + """
        @%p1 st.shared.b32 [%r2], 1; @%p2 st.shared.b32 [%r2], 1; @%p3 ld.shared.b32 %r11, [%r2];""",
    "two write the same, and one of them reads": FILLED + SOME + """
        @%p1 st.shared.b32 [%r2], 1; @%p3 st.shared.b32 [%r2], 1; @%p1 ld.shared.b32 %r11, [%r2];""",
    "all write the same and read it": FILLED + "st.shared.b32 [%r2], 1; ld.shared.b32 %r11, [%r2];",
    "back to the value that was there": FILLED + SOME + """
        @%p1 st.shared.b32 [%r2], 1; @%p1 st.shared.b32 [%r2], 0; @%p3 ld.shared.b32 %r11, [%r2];""",
    "half of what another writes": FILLED + SOME + """
        @%p1 st.shared.b64 [%r2+8], -1; @%p3 ld.shared.b32 %r11, [%r2+12];""",
    "one byte of a vector": FILLED + SOME + """
        @%p1 st.shared.v4.b32 [%r2], {1, 1, 1, 0x01000000}; @%p3 ld.shared.u8 %r11, [%r2+15];""",
    "a barrier of warps does not order two warps": FILLED + WARP + """
        st.shared.b32 [%r4], 1; bar.warp.sync -1; ld.shared.b32 %r11, [%r10];""",
    "the barrier of another warp orders nothing": FILLED + LANE + """
        setp.lt.s32 %p5, %r0, 32;
        st.shared.b32 [%r4], 1; @%p5 bar.warp.sync -1; @!%p5 ld.shared.b32 %r11, [%r10];""",
    "read before the barrier of a warp, and after it by the writer": FILLED + SOME + """
        @%p1 ld.shared.b32 %r11, [%r2]; bar.warp.sync -1; @%p2 ld.shared.b32 %r11, [%r2];
        @%p3 st.shared.b32 [%r2], 1;""",
    "two lanes after the barrier of their warp": FILLED + SOME + """
        @%p1 ld.shared.b32 %r11, [%r2]; bar.warp.sync -1; @%p1 ld.shared.b32 %r11, [%r2];
        @%p2 st.shared.b32 [%r2], 1;""",
    "threads of two warps read, and the one that had a barrier of its own writes": FILLED + SOME + """
        setp.ge.s32 %p5, %r0, 32; @%p5 bar.warp.sync -1; or.pred %p6, %p1, %p3;
        @%p6 ld.shared.b32 %r11, [%r2]; @%p3 st.shared.b32 [%r2], 1;""",
    "in global memory": "ld.global.b32 %r11, [%rd0]; " + SOME + "@%p3 st.global.b32 [%rd0], 77;",
    "a matrix that others write": FILLED + ROW + """
        st.shared.v4.b32 [%r10], {1, 1, 1, 1}; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r12}, [%r13];""",
    "a matrix over what others read": FILLED + ROW + """
        mov.b32 %r11, 5; ld.shared.b32 %r12, [%r10+12]; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r13], {%r11};""",
    "a copy that was waited for, but by another warp": FILLED + WARP + """
        cp.async.ca.shared.global [%r4], [%rd9], 4; cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;
        st.shared.b32 [%r10], 9;""",
}


@pytest.mark.parametrize("title", RACES)
def test_races(title):
    also = {"not waited for"} if "copy" in title else set()
    for order in ORDERS:
        report = run(kernel(RACES[title], 64), words(64), order=order)
        assert {"race"} <= {each.kind for each in report.findings.values()} <= {"race"} | also, order


NO_RACES = {
    "two write the same": FILLED + SOME + "@%p1 st.shared.b32 [%r2], 1; @%p3 st.shared.b32 [%r2], 1;",
    "all write the same at once, then another one": FILLED + """
        st.shared.b32 [%r2], 1; bar.sync 0; st.shared.b32 [%r2], 2;""",
    "the same where nothing was": "st.shared.b32 [%r2], 1;",
    "the same of other widths where half was there": SOME + """
        @%p1 st.shared.b32 [%r2], 1; @%p3 st.shared.v4.b32 [%r2], {1, 1, 1, 1};""",
    "reads what it wrote": "st.shared.b32 [%r4], 1; ld.shared.b32 %r11, [%r4]; st.shared.b32 [%r4], 2;"
                           "ld.shared.b32 %r11, [%r4];",
    "all read, one after another": FILLED + "ld.shared.b32 %r11, [%r2]; ld.shared.b32 %r11, [%r2];",
    "reads, and then others write what is there": FILLED + SOME + """
        ld.shared.b32 %r11, [%r2]; @%p1 st.shared.b32 [%r2], 0; @%p3 st.shared.b32 [%r2], 0;
        ld.shared.b32 %r11, [%r2];""",
    "a barrier between writing and reading": FILLED + WARP + """
        st.shared.b32 [%r4], 1; bar.sync 0; ld.shared.b32 %r11, [%r10]; bar.sync 0; st.shared.b32 [%r4], 2;""",
    "a barrier between two writings": SOME + "@%p1 st.shared.b32 [%r2], 1; bar.sync 0; @%p3 st.shared.b32 [%r2], 2;",
    "a barrier of the warp between writing and reading": FILLED + LANE + """
        st.shared.b32 [%r4], 1; bar.warp.sync -1; ld.shared.b32 %r11, [%r10]; bar.warp.sync 0xffffffff;
        st.shared.b32 [%r4], 2; bar.warp.sync -1; ld.shared.b32 %r11, [%r10];""",
    "a barrier of the warp between many readers and a writer": FILLED + """
        and.b32 %r10, %r3, 128; add.s32 %r10, %r10, %r2; and.b32 %r11, %r0, 31; setp.eq.s32 %p1, %r11, 9;
        ld.shared.b32 %r11, [%r10]; bar.warp.sync -1; @%p1 st.shared.b32 [%r10], 1; bar.warp.sync -1;
        ld.shared.b32 %r11, [%r10]; ld.shared.b32 %r11, [%r10];""",
    "a barrier of the warp whose lanes only have come": FILLED + LANE + """
        setp.lt.s32 %p5, %r0, 32; @!%p5 bra $end;
        st.shared.b32 [%r4], 1; bar.warp.sync -1; ld.shared.b32 %r11, [%r10];
        $end:""",
    "the same value before and after a barrier of the warp": FILLED + SOME + """
        @%p1 st.shared.b32 [%r2], 1; bar.warp.sync -1; @%p2 st.shared.b32 [%r2], 1; @%p1 ld.shared.b32 %r11, [%r2];""",
    "neighbouring bytes": """
        add.s32 %r10, %r0, %r2; st.shared.u8 [%r10], 1; ld.shared.u8 %r11, [%r10]; st.shared.u8 [%r10], %r11;""",
    "neighbouring words of two vectors": SOME + """
        @%p1 st.shared.v2.b32 [%r2], {1, 2}; @%p3 st.shared.v4.b32 [%r2+16], {3, 4, 5, 6};
        @%p2 st.shared.b64 [%r2+8], 7;""",
    "each thread its own word": "ld.global.b32 %r11, [%rd9]; add.s32 %r11, %r11, 1; st.global.b32 [%rd9], %r11;",
    "a matrix, by the lanes that have its addresses": FILLED + ROW + """
        setp.lt.s32 %p5, %r0, 8; setp.lt.s32 %p6, %r0, 32; mov.b32 %r11, 5;
        @%p5 st.shared.v4.b32 [%r10], {1, 1, 1, 1}; @%p6 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r12}, [%r10];
        @%p6 stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], {%r11}; @%p5 ld.shared.b32 %r12, [%r10];""",
    "a copy that all wait for, and a barrier": WARP + """
        cp.async.ca.shared.global [%r4], [%rd9], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
        ld.shared.b32 %r11, [%r10];""",
    "a copy read by the thread that waited": """
        cp.async.ca.shared.global [%r4], [%rd9], 4; cp.async.commit_group; cp.async.wait_group 0;
        ld.shared.b32 %r11, [%r4]; st.shared.b32 [%r4], 5;""",
    "a copy, and a barrier of the warp after its wait": LANE + """
        cp.async.ca.shared.global [%r4], [%rd9], 4; cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;
        ld.shared.b32 %r11, [%r10];""",
}


@pytest.mark.parametrize("title", NO_RACES)
def test_what_is_no_race(title):
    assert kinds(NO_RACES[title], words(64)) == set()


def test_what_a_race_says():
    """Both instructions with the lines of their source, the byte, who came later and who before, and how often."""
    source = '.file 1 "dir/some.py"\n' + text(FILLED + """
        .loc 1 12 0
        st.shared.b32 [%r4], 1;
        .loc 1 13 0
        setp.ge.s32 %p1, %r0, 40;
        @%p1 ld.shared.b32 %r11, [%r4+-128];""", 64)
    program = Program.parse(source)
    report = run(program, order=None)
    stored, read = program.where("st.shared")[-1], program.where("ld.shared")[0]
    assert list(report.findings) == [("race", read, stored)]
    line = 1 + source.split("\n").index("        @%p1 ld.shared.b32 %r11, [%r4+-128];")
    assert report.describe() == (
        f"race: `@%p1 ld.shared.b32 %r11, [%r4+-128]` (line {line}, some.py:13), byte 32 of shared_array; "
        f"after `st.shared.b32 [%r4], 1` (line {line - 3}, some.py:12); threads 40, 8; 24 times")
    lost = run(kernel(FILLED + "and.b32 %r10, %r0, 8; add.s32 %r10, %r10, %r2; st.shared.b32 [%r10], %r0;"))
    (finding,) = lost.findings.values()
    assert (finding.threads, finding.count) == ((0, 23), 30) and finding.at == finding.other  # 23 was last


# races of blocks

BLOCKS = """
    setp.eq.s32 %p1, %r1, 0; setp.eq.s32 %p2, %r1, 1; setp.eq.s32 %p3, %r0, 3;
    and.pred %p4, %p1, %p3; and.pred %p5, %p2, %p3;
"""
BLOCK_RACES = {
    "a block reads what another writes": "@%p4 st.global.b32 [%rd0], 7; @%p2 ld.global.b32 %r10, [%rd0];",
    "two values": "@%p3 st.global.b32 [%rd0], %r1;",
    "one that is there, and another": "@%p4 st.global.b32 [%rd0], 0; @%p5 st.global.b32 [%rd0], 1;",
    "half of it": "@%p4 st.global.b64 [%rd0+8], 7; @%p5 ld.global.b32 %r10, [%rd0+8];",
    "no barrier orders blocks": "@%p4 st.global.b32 [%rd0], 7; bar.sync 0; @%p5 ld.global.b32 %r10, [%rd0];",
    "two read, and one of them writes": "ld.global.b32 %r10, [%rd0]; bar.sync 0; @%p5 st.global.b32 [%rd0], 7;",
    "two write the same, and one reads it": "@%p3 st.global.b32 [%rd0], 7; @%p5 ld.global.b32 %r10, [%rd0];",
}
NO_BLOCK_RACES = {
    "each its own": "mad.lo.s32 %r10, %r1, 64, %r0; mul.wide.u32 %rd10, %r10, 4; add.s64 %rd10, %rd10, %rd0;"
                    "st.global.b32 [%rd10], 7; ld.global.b32 %r10, [%rd10];",
    "the same value": "@%p3 st.global.b32 [%rd0], 7;",
    "all read": "ld.global.b32 %r10, [%rd9];",
    "all read, and one writes what is there": "ld.global.b32 %r10, [%rd0]; @%p4 st.global.b32 [%rd0], 0;",
    "shared memory is another one for each block": "st.shared.b32 [%r4], %r1; ld.shared.b32 %r10, [%r4];",
}


@pytest.mark.parametrize("title", BLOCK_RACES)
def test_races_of_blocks(title):
    assert kinds(BLOCKS + BLOCK_RACES[title], words(256), blocks=3) == {"race of blocks"}


@pytest.mark.parametrize("title", NO_BLOCK_RACES)
def test_what_is_no_race_of_blocks(title):
    assert kinds(BLOCKS + NO_BLOCK_RACES[title], words(256), blocks=3) == set()


def test_two_launches_are_ordered():
    """What was written in one is read in the next one."""
    data = words(64)
    for body in ("st.global.b32 [%rd9], 7;", "@%p4 ld.global.b32 %r10, [%rd0]; ld.global.b32 %r10, [%rd9+-0];"):
        assert not run(kernel(BLOCKS + body, 64), data).findings
    assert (data == 7).all()


# addresses

def outside(body, *buffers, threads=32, shared=256, parameters=3, **options):
    """(kind, opcode, where, threads, count) of all findings, the same in every order."""
    seen = []
    for order in ORDERS:
        copies = [Buffer(each.name, each.data.copy(), each.offset, each.alignment, each.exists, each.written)
                  for each in buffers]
        report = launch(kernel(body, threads), (1,), [*copies, *[0] * (parameters - len(copies))], shared_bytes=shared,
                        order=order, **options)
        names = [each.opcode.split(".")[0] for each in report.program.instructions]
        seen.append([(each.kind, names[each.at], each.where, each.threads, each.count)
                     for each in report.findings.values()])
    assert all(each == seen[0] for each in seen)
    return seen[0]


ROWS = "mul.wide.u32 %rd10, %r0, 16; add.s64 %rd10, %rd10, %rd0;"  # of 16 bytes in the first buffer


def buffer(size, name="a", **options):
    return Buffer(name, np.arange(size, dtype=np.uint8), **options)


def test_out_of_bounds():
    """Where the first byte lies that is nobody's, for whom, and how many lanes did the same."""
    past, some = "1 byte past the end of {}".format, buffer(128)
    for body, buffers, where, thread, count in [
            ("ld.global.b32 %r10, [%rd9];", [buffer(120)], past("a"), 30, 2),
            ("ld.global.b32 %r10, [%rd9];", [buffer(123)], past("a") + ", for 4 bytes at byte 120 of a", 30, 2),
            ("st.global.b32 [%rd9+-8], %r0;", [some], "8 bytes before a", 0, 2),
            ("st.global.b32 [%rd9], %r0;", [buffer(132, offset=8)], past("a"), 31, 1),
            (ROWS + "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd10];", [buffer(504)],
             past("a") + ", for 16 bytes at byte 496 of a", 31, 1),
            ("st.shared.b32 [%r4+132], %r0;", [], past("shared_array"), 31, 1),
            ("ld.shared.b32 %r10, [%r4+256];", [], past("shared_array"), 0, 32),
            ("st.shared.b32 [%r4+-4], %r0;", [], "4 bytes before shared_array", 0, 1),
            ("ld.global.b32 %r10, [%rd1];", [], "address 0x0", 0, 32)]:
        assert outside(body, *buffers) == [("out of bounds", body.removeprefix(ROWS)[:2], where, (thread,), count)]
    assert outside("ld.global.b32 %r10, [%rd9];", some) == []
    nowhere = outside("st.shared.b32 [%r4], %r0;", shared=0)
    assert nowhere == [("out of bounds", "st", past("shared_array"), (0,), 32)]
    for body in ("ld.global.b32 %r10, [%rd1];", "neg.s64 %rd10, %rd9; ld.global.b32 %r10, [%rd10];"):  # far away
        assert [each[:2] for each in outside(body, some)] == [("out of bounds", "ld")]


def test_bytes_between_buffers_belong_to_nobody():
    """However their sizes and alignments are, the next bytes are not those of the neighbour."""
    for size, alignment in ((256, 0), (4, 252), (1000, 20)):
        found_there = outside(f"ld.global.b32 %r10, [%rd0+{size}]; ld.global.b32 %r10, [%rd1+-4];",
                              buffer(size, alignment=alignment), buffer(64, "b", alignment=4))
        assert [each[:3] for each in found_there] == [("out of bounds", "ld", "1 byte past the end of a"),
                                                      ("out of bounds", "ld", "4 bytes before b")]


def test_a_view_with_gaps():
    """Its elements exist, those between them do not; an access that touches a single byte of the gap is outside."""
    exists = np.arange(512) % 16 < 8
    view = buffer(512, exists=exists)
    for inside in ("st.global.b64 [%rd10], -1;", "ld.global.b32 %r10, [%rd10+4];", "ld.global.u8 %r10, [%rd10+7];"):
        assert outside(ROWS + inside, view) == []
    assert outside(ROWS + "ld.global.u8 %r10, [%rd10+8];", view) == [("out of bounds", "ld", "byte 8 of a", (0,), 32)]
    assert outside(ROWS + "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd10];", view) == [
        ("out of bounds", "ld", "byte 8 of a, for 16 bytes at byte 0 of a", (0,), 32)]
    uneven = buffer(512, exists=np.arange(512) % 16 < 7)
    assert outside(ROWS + "ld.global.b32 %r10, [%rd10];", uneven) == []
    (finding,) = outside(ROWS + "ld.global.b32 %r10, [%rd10+4];", uneven)
    assert finding[2] == "byte 7 of a, for 4 bytes at byte 4 of a"


def test_shared_arrays_end_where_they_say():
    """Up to the next multiple of 16 there is nothing, although the next array begins there."""
    source = text("st.shared.b32 [one+8], 1; st.shared.b32 [one+12], 1; st.shared.b32 [two], 1;").replace(
        ".visible", ".shared .align 16 .b8 one[12]; .shared .align 16 .b8 two[4];\n.visible")
    report = run(Program.parse(source))
    (finding,) = report.findings.values()
    assert (finding.kind, finding.where) == ("out of bounds", "1 byte past the end of one")


def test_copies_out_of_bounds():
    """From where nothing is, and to where nothing is; the good ones arrive, and the others change nothing."""
    wait = "cp.async.commit_group; cp.async.wait_group 0;"
    assert outside("cp.async.ca.shared.global [%r4], [%rd9+4], 4;" + wait, buffer(128)) == [
        ("out of bounds", "cp", "1 byte past the end of a", (31,), 1)]
    assert outside("cp.async.ca.shared.global [%r4+132], [%rd9], 4;" + wait, buffer(128)) == [
        ("out of bounds", "cp", "1 byte past the end of shared_array", (31,), 1)]
    assert outside("cp.async.ca.shared.global [%r4+-8], [%rd9], 4;" + wait + """
        setp.gt.s32 %p1, %r0, 1; @%p1 ld.shared.b32 %r10, [%r4+-8]; ld.shared.b32 %r11, [%r4+124];""", buffer(128)) == [
        ("out of bounds", "cp", "8 bytes before shared_array", (0,), 2),
        ("read before written", "ld", "byte 124 of shared_array", (0,), 32)]


def test_misaligned():
    """An address must be a multiple of all that is moved at once, not of an element."""
    def at(where, size):
        return ("misaligned", f"{size} bytes at byte {where}")

    for inside in ("ld.global.v2.b32 {%r10, %r11}, [%rd0+8];", "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd0+16];",
                   "st.shared.b16 [%r2+6], %rs1; st.shared.u8 [%r2+9], %rs1;"):
        assert outside(inside, buffer(128)) == []
    for body, which in {
            "ld.global.b32 %r10, [%rd0+2];": at("2 of a", 4),
            "ld.global.v2.b32 {%r10, %r11}, [%rd0+4];": at("4 of a", 8),
            "st.global.v4.b32 [%rd0+8], {%r10, %r10, %r10, %r10};": at("8 of a", 16),
            "ld.global.b16 %r10, [%rd0+1];": at("1 of a", 2),
            "st.shared.b64 [%r2+4], %rd1;": at("4 of shared_array", 8),
            "cp.async.cg.shared.global [%r2+8], [%rd0], 16;": at("8 of shared_array", 16),
            "cp.async.ca.shared.global [%r2], [%rd0+4], 8;": at("4 of a", 8),
            "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r10};": at("4 of shared_array", 16)}.items():
        got = outside(body, buffer(128))
        assert (got[0][0], got[0][2]) == which and {each[0] for each in got} <= {"misaligned", "race", "not waited for"}
    assert outside("ld.global.b32 %r10, [%rd9];", buffer(132, offset=2))[0] == (
        "misaligned", "ld", "4 bytes at byte 2 of a", (0,), 32)


def test_shared_arrays_are_aligned_as_they_say_and_no_better():
    """An address is a multiple of the alignment that was asked for; that it is one of more would be an accident."""
    for declared, fits in ((".align 4 .b8 x[16]", 4), (".b8 x[16]", 1), (".align 8 .b8 x[16]", 8), (".b32 x[4]", 4)):
        for size, moved in ((1, "u8"), (2, "u16"), (4, "b32"), (8, "b64")):
            source = text(f"st.shared.{moved} [x], {'%rd1' if size == 8 else '%r0'};").replace(
                ".visible", f".shared {declared};\n.visible")
            report = run(Program.parse(source.replace(".u16 [x], %r0", ".u16 [x], %rs1")), shared=0)
            assert ({each.kind for each in report.findings.values()} - {"race"} == set()) == (size <= fits), declared


# values that nobody has written

def test_read_before_written():
    none = "read before written"
    assert outside("ld.shared.b32 %r10, [%r4];") == [(none, "ld", "byte 0 of shared_array", (0,), 32)]
    assert outside("st.shared.b32 [%r4], 1; ld.shared.b32 %r10, [%r4];") == []
    assert outside("shl.b32 %r10, %r3, 1; add.s32 %r10, %r10, %r2; st.shared.b32 [%r10], 1;"
                   "ld.shared.b64 %rd10, [%r10];") == [(none, "ld", "byte 4 of shared_array", (0,), 32)]
    assert outside("st.shared.u8 [%r4], 1; ld.shared.u16 %r10, [%r4];")[0][:3] == (none, "ld", "byte 1 of shared_array")
    assert outside("ld.global.b32 %r10, [%rd9];", buffer(128, written=False)) == [(none, "ld", "byte 0 of a", (0,), 32)]
    assert outside("st.global.b32 [%rd9], 1; ld.global.b32 %r10, [%rd9];", buffer(128, written=False)) == []
    assert outside(BEGIN + "cp.async.wait_group 0;", buffer(128, written=False)) == [
        (none, "cp", "byte 0 of a", (0,), 32)]
    matrix = outside("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2];")
    assert matrix[0][:3] == (none, "ldmatrix", "byte 0 of shared_array")
    # when a block begins, its shared memory holds nothing, in whatever order the blocks run
    assert kinds("setp.ne.s32 %p1, %r1, 0; @%p1 st.shared.b32 [%r4], 1; @!%p1 ld.shared.b32 %r10, [%r4];",
                 blocks=2) == {none}


# asynchronous copies

NOT_WAITED_FOR = {
    "read by the thread itself": BEGIN + "ld.shared.b32 %r10, [%r4];",
    "read by another after a barrier": WARP + BEGIN + "bar.sync 0; ld.shared.b32 %r11, [%r10];",
    "written meanwhile": BEGIN + "st.shared.b32 [%r4], 1;",
    "copied again meanwhile": BEGIN + BEGIN,
    "waited for a group too few": BEGIN + "cp.async.wait_group 1; ld.shared.b32 %r10, [%r4];",
    "never put into a group": BEGIN.partition(";")[0] + "; cp.async.wait_group 0; ld.shared.b32 %r10, [%r4];",
    "a part of it": BEGIN + "ld.shared.u8 %r10, [%r4+3];",
    "by a matrix": BEGIN + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2];",
}


@pytest.mark.parametrize("title", NOT_WAITED_FOR)
def test_not_waited_for(title):
    for order in ORDERS:
        report = run(kernel(NOT_WAITED_FOR[title], 64), words(64), order=order)
        assert "not waited for" in {each.kind for each in report.findings.values()}
        assert {each.kind for each in report.findings.values()} <= {"not waited for", "read before written", "race"}
        assert "cp" in {name for each in found(report) if each[0] == "not waited for" for name in each[2:]}


def test_copies_that_are_waited_for():
    """Two in flight, each waited for when it is used; the memory of the first one is used again after a barrier."""
    assert kinds(WARP + """
        mov.b32 %r12, 0;
        cp.async.ca.shared.global [%r4], [%rd9], 4; cp.async.commit_group;
    $loop:
        cp.async.ca.shared.global [%r4+256], [%rd9], 4; cp.async.commit_group;
        cp.async.wait_group 1; bar.sync 0;
        ld.shared.b32 %r11, [%r10]; bar.sync 0;
        cp.async.ca.shared.global [%r4], [%rd9], 4; cp.async.commit_group;
        cp.async.wait_group 1; bar.sync 0;
        ld.shared.b32 %r11, [%r10+256]; bar.sync 0;
        add.s32 %r12, %r12, 1; setp.lt.s32 %p1, %r12, 3; @%p1 bra $loop;
        cp.async.wait_group 0;""", words(64)) == set()


def test_copies_under_way_where_a_block_ends():
    """Found for each lane of each block, in a group or not; a wait for all groups but one does not help."""
    for body in (BEGIN, BEGIN.partition(";")[0] + ";", BEGIN + "cp.async.wait_group 1;"):
        assert kinds(body, words(64), blocks=2) == {"not waited for"}
        (finding,) = run(kernel(body, 64), words(64), blocks=2).findings.values()
        assert (finding.where, finding.threads, finding.count) == ("still under way where its block ends", (0,), 128)
    assert kinds(BEGIN + "cp.async.wait_group 0;", words(64), blocks=2) == set()


def test_copies_over_what_others_still_read_or_have_just_written():
    for before in ("ld.shared.b32 %r11, [%r10];", "st.shared.b32 [%r10], 0;", "st.shared.b32 [%r10], 1;"):
        got = kinds(FILLED + WARP + before + BEGIN + "cp.async.wait_group 0;", words(64))
        assert "race" in got and got <= {"race", "not waited for"}
        late = kernel(FILLED + WARP + before + BEGIN + "bar.sync 0; cp.async.wait_group 0;", 64)
        for order in ORDERS:  # the barrier orders how it lands, and not how it begins
            assert "race" in {each.kind for each in run(late, words(64), order=order).findings.values()}
        assert kinds(FILLED + WARP + before + "bar.sync 0;" + BEGIN + "cp.async.wait_group 0;", words(64)) == set()


def test_what_a_copy_still_reads_must_not_change():
    """By the same thread or, after a barrier, by another warp; the copy takes the old value or the new one."""
    for then, writer in (("", "%rd9"), ("bar.sync 0;", "%rd10")):
        body = ("xor.b32 %r10, %r3, 128; cvt.u64.u32 %rd10, %r10; add.s64 %rd10, %rd10, %rd0;" + BEGIN + then
                + f"{{}} st.global.b32 [{writer}], 99; {{}} bar.sync 0;")
        assert kinds(body.format("", "cp.async.wait_group 0;"), words(64)) == {"not waited for"}
        assert kinds(body.format("cp.async.wait_group 0; bar.sync 0;", ""), words(64)) == set()
    twice = BEGIN + "cp.async.wait_group 0; bar.sync 0; st.global.b32 [%rd9], 99;"
    assert kinds(twice, words(64), blocks=2) == {"race of blocks"}


def test_what_is_still_read_is_known_for_each_copy():
    """One of two has arrived, of different places or of the same one."""
    other = "cp.async.ca.shared.global [%r4+256], [%rd9+256], 4; cp.async.commit_group;"
    for offset, expected in ((0, set()), (256, {"not waited for"})):
        body = BEGIN + other + f"cp.async.wait_group 1; st.global.b32 [%rd9+{offset}], 99; cp.async.wait_group 0;"
        assert kinds(body, words(128)) == expected
    same = SOME + """or.pred %p5, %p1, %p3; @%p5 cp.async.ca.shared.global [%r4], [%rd0], 4; cp.async.commit_group;
        @%p1 cp.async.wait_group 0; bar.sync 0; @%p1 st.global.b32 [%rd0], 99; bar.sync 0; cp.async.wait_group 0;"""
    assert kinds(same, words(64)) == {"not waited for"}


def test_what_a_block_did_not_wait_for_is_not_held_against_the_next_one():
    body = "setp.eq.s32 %p1, %r1, 0; @!%p1 bra $store;" + BEGIN + "ret; $store: st.global.b32 [%rd9], 99;"
    for order in ORDERS:
        report = run(kernel(body, 64), words(64), blocks=2, order=order)
        assert found(report) - {("race of blocks", "st", "cp"), ("race of blocks", "cp", "st")} == {
            ("not waited for", "cp")}


def test_copies_of_two_threads_to_one_place():
    """Of one instruction, in one warp or two; whoever waits for one of them has not waited for the other."""
    for other in (1, 32):
        body = f"""setp.eq.s32 %p1, %r0, 0; setp.eq.s32 %p2, %r0, {other}; or.pred %p3, %p1, %p2;
            @%p3 cp.async.ca.shared.global [%r2], [%rd9], 4; cp.async.commit_group;
            @%p1 cp.async.wait_group 0; bar.sync 0; @!%p1 cp.async.wait_group 0; bar.sync 0;"""
        for order in ORDERS:
            found = {each.kind for each in run(kernel(body, 64), words(64), order=order).findings.values()}
            assert {"race", "not waited for"} & found, order


def test_a_copy_of_what_is_there_is_a_change_all_the_same():
    """Its bytes are of no use to anybody before they are waited for, whatever they are."""
    body = FILLED + WARP + BEGIN + "cp.async.wait_group 0; {} ld.shared.b32 %r11, [%r10];"
    for order in ORDERS:
        report = run(kernel(body.format(""), 64), np.zeros(64, np.uint32), order=order)
        assert {"race", "not waited for"} & {each.kind for each in report.findings.values()}
    assert kinds(body.format("bar.sync 0;"), np.zeros(64, np.uint32)) == set()


# barriers

def test_barriers_that_are_not_reached():
    """By a guard, by those who have left, and by a part of a warp that waits at another one."""
    left = "barrier not reached"
    for body, where, thread in [
            ("setp.ne.s32 %p1, %r0, 40; @%p1 bar.sync 0;", "where 63 of 64 threads wait and the others have left",
             (40,)),
            ("setp.lt.s32 %p1, %r0, 32; @%p1 bar.sync 0;", "where 32 of 64 threads wait and the others have left",
             (32,)),
            ("setp.eq.s32 %p1, %r0, 7; @%p1 ret; bar.sync 0;", "where 63 of 64 threads wait and the others have left",
             (7,))]:
        for order in ORDERS:
            report = run(kernel(body, 64), order=order)
            (finding,) = report.findings.values()
            assert (finding.kind, finding.where, finding.threads) == (left, where, thread)
            assert report.program.instructions[finding.at].opcode == "bar.sync"
    halves = "setp.lt.s32 %p1, %r0, {}; @%p1 bra $one; bar.sync 0; bra $end;\n$one: bar.sync 0;\n$end:"
    for order in ORDERS:
        report = run(kernel(halves.format(40), 64), order=order)
        (finding,) = report.findings.values()
        one, other = report.program.where("bar.sync")
        assert (finding.kind, finding.where, finding.threads, {finding.at, finding.other}) == (
            left, "where a part of a warp waits", (40, 32), {one, other})
    assert kinds(halves.format(32)) == set()  # whole warps may
    assert kinds("bar.sync 0; setp.lt.s32 %p1, %r1, 1; @%p1 ret; bar.sync 0;", blocks=2) == set()  # whole blocks, too


def test_the_launch_goes_on_after_a_barrier_that_was_not_reached():
    """Those who wait are let go, so that all faults are found."""
    out = words(64)
    report = run(kernel("setp.ne.s32 %p1, %r0, 40; @%p1 bar.sync 0; st.global.b32 [%rd9], 5;"
                        "ld.shared.b32 %r10, [%r2];", 64), out)
    assert (out == 5).all()
    assert {each.kind for each in report.findings.values()} == {"barrier not reached", "read before written"}


# what is left out of a right kernel

RIGHT = """
    mov.b32 %r12, 0; mov.b32 %r13, 0;
    cp.async.ca.shared.global [%r4], [%rd9], 4;
    cp.async.commit_group;
$loop:
    cp.async.wait_group 0;
    bar.sync 0;
    mad.lo.s32 %r10, %r0, 37, 11; and.b32 %r10, %r10, 127; shl.b32 %r10, %r10, 2; add.s32 %r10, %r10, %r2;
    ld.shared.b32 %r11, [%r10];
    add.s32 %r13, %r13, %r11;
    bar.sync 0;
    cp.async.ca.shared.global [%r4], [%rd9], 4;
    cp.async.commit_group;
    st.shared.b32 [%r4+512], %r13;
    bar.warp.sync -1;
    xor.b32 %r10, %r3, 64; add.s32 %r10, %r10, %r2; ld.shared.b32 %r11, [%r10+512];
    xor.b32 %r13, %r13, %r11;
    add.s32 %r12, %r12, 1;
    setp.lt.s32 %p1, %r12, 3;
    @%p1 bra $loop;
    cp.async.wait_group 0;
    add.s64 %rd10, %rd1, %rd8; st.global.b32 [%rd10], %r13;
"""


def test_whatever_is_left_out_of_a_right_kernel_is_noticed():
    """Each barrier, each wait and each group but the last: the kernel with it is right, and without it wrong."""
    program = kernel(RIGHT, 128)
    source = words(128, 1) * 7919
    assert kinds(program, source, words(128)) == set()
    needed = program.where("bar.sync", "bar.warp.sync", "cp.async.wait_group", "cp.async.commit_group")
    assert len(needed) == 7
    for index in needed[:-1]:  # the last wait has no reader
        for order in ORDERS:
            report = run(program.without(index), source.copy(), words(128), order=order)
            seen = {each.kind for each in report.findings.values()}
            assert seen & {"race", "not waited for"}, (str(program.instructions[index]), order)
    for index in program.where("st.shared"):
        assert "read before written" in kinds(program.without(index), source, words(128))


# random programs against all orders

THREADS = (0, 1, 32)  # two lanes of one warp, and one of another


@st.composite
def schedules(draw):
    """Blocks, and steps: what each thread does to one word (nothing, a read, a write of 0 to 2), and what follows."""
    blocks = draw(st.sampled_from([1, 1, 2]))
    action = st.sampled_from([None, None, None, "read", "read", 0, 1, 2])
    steps = draw(st.lists(st.tuples(st.tuples(*[action] * (len(THREADS) * blocks)),
                                    st.sampled_from(["", "", "bar.sync", "warp 0", "warp 1", "both warps"])),
                          min_size=1, max_size=4))
    return blocks, steps


def as_kernel(blocks, steps):
    """The steps as PTX: in each a thread looks up what it does, in a table of a row for each step."""
    lines = ["shr.u32 %r10, %r0, 5; setp.eq.s32 %p8, %r10, 0;",
             "mad.lo.s32 %r10, %r1, 256, %r3; cvt.u64.u32 %rd10, %r10; add.s64 %rd10, %rd10, %rd1;"]
    for i, (_, then) in enumerate(steps):
        lines += [f"ld.global.s32 %r11, [%rd10+{i * blocks * 256}];",
                  "setp.eq.s32 %p1, %r11, 9; setp.lt.s32 %p2, %r11, 9;",
                  "@%p1 ld.global.b32 %r12, [%rd0];", "@%p2 st.global.b32 [%rd0], %r11;",
                  {"": "", "bar.sync": "bar.sync 0;", "both warps": "bar.warp.sync -1;",
                   "warp 0": "@%p8 bar.warp.sync -1;",
                   "warp 1": "@!%p8 bar.warp.sync -1;"}[then]]
    table = np.full((len(steps), blocks, 64), 10, np.int32)
    for i, (actions, _) in enumerate(steps):
        for who, action in enumerate(actions):
            if action is not None:
                table[i, who // len(THREADS), THREADS[who % len(THREADS)]] = 9 if action == "read" else action
    return kernel("\n".join(lines), 64), table


def accesses(blocks, steps):
    """(who, step, action) of all accesses, and a function that says whether one of two comes before the other."""
    done = [(who, i, action) for i, (actions, _) in enumerate(steps) for who, action in enumerate(actions)
            if action is not None]

    def ordered(one, other):
        (a, i, _), (b, j, _) = sorted((one, other), key=lambda each: each[1])
        (block, thread), (other_block, other_thread) = (divmod(who, len(THREADS)) for who in (a, b))
        if block != other_block:
            return False
        between = {then for _, then in steps[i:j]}
        warp, other_warp = THREADS[thread] // 32, THREADS[other_thread] // 32
        return a == b or "bar.sync" in between or (
            warp == other_warp and bool(between & {f"warp {warp}", "both warps"}))
    return done, ordered


def outcomes(done, ordered):
    """All values that each read can see, and that can be there in the end: by all orders of the accesses."""
    before = [[j for j in range(len(done)) if j != i and done[j][1] <= done[i][1] and ordered(done[i], done[j])
               and (done[j][1] < done[i][1])] for i in range(len(done))]
    seen, last, states, front = {}, set(), set(), [(frozenset(), 0)]
    while front:
        state = front.pop()
        if state in states:
            continue
        states.add(state)
        past, value = state
        if len(past) == len(done):
            last.add(value)
        for i, (_, _, action) in enumerate(done):
            if i not in past and past.issuperset(before[i]):
                if action == "read":
                    seen.setdefault(i, set()).add(value)
                front.append((past | {i}, value if action == "read" else action))
    return [*seen.values(), last]


@settings(max_examples=120)
@given(schedules())
def test_verdicts_on_random_programs(schedule):
    """Where an order matters to a value, a race is found, in all orders; where nothing can be wrong, in none."""
    blocks, steps = schedule
    done, ordered = accesses(blocks, steps)
    program, table = as_kernel(blocks, steps)
    pairs = [(a, b) for a, b in itertools.combinations(done, 2) if a[0] != b[0] and not ordered(a, b)]
    written = {action for _, _, action in done if action != "read"}
    harmful = any((a[2] == "read") != (b[2] == "read") and written != {0} or "read" not in (a[2], b[2]) and a[2] != b[2]
                  for a, b in pairs)
    matters = any(len(values) > 1 for values in outcomes(done, ordered))
    assert harmful or not matters
    for order in ORDERS[:3]:
        report = run(program, np.zeros(1, np.uint32), table, blocks=blocks, order=order)
        races = {each.kind for each in report.findings.values()}
        assert races <= {"race", "race of blocks"}
        if matters:
            assert races, (order, schedule)
        if not harmful:
            assert not races, (order, schedule, report.describe())


def test_every_kind_is_planted():
    """Each kind of finding has its tests above, by name."""
    with open(__file__) as file:
        source = file.read()
    assert all(f'"{kind}"' in source for kind in KINDS)

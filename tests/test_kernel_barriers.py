"""Each barrier and each wait of the compiled kernels is left out in turn, and the machine notices.

A barrier that nobody misses is superfluous, or its test too easy. So what is not missed in one case has to be missed in
another, or stand in a table with the reason.
"""

import inspect
from importlib.metadata import version

import pytest
from compiled_kernels import needs_compiler, on_the_machine, step
from packaging.version import Version
from test_compiled_kernels import batch

from ptx_machine import LaunchError, PTXError
from ptx_machine.compiling import has_triton
from reference_impl.torch_impl import triton_lattice, triton_vocabulary

torch = pytest.importorskip("torch")
pytestmark = [needs_compiler, pytest.mark.skipif(has_triton() and Version(version("triton")) < Version("3.9"), reason=(
    "Triton 3.7 and 3.8 set barriers that these kernels can do without"))]

#: Losses, types and sizes that bring out each form that the barriers take: sums within a warp and across warps, lanes
#: of one warp and of several, edges, more threads than entries, logits that are overwritten or not.
CASES = [(kind, dtype, V, T, U, overwrite) for overwrite in (True, False) for kind, dtype, V, T, U in (
    ("rnnt", torch.float32, 5, 2, 70), ("ctc", torch.bfloat16, 1025, 5, 3), ("rnnt", torch.float32, 5, 3, 34),
    ("ctc", torch.float32, 300, 72, 66), ("rnnt", torch.bfloat16, 1025, 3, 2), ("rnnt", torch.float64, 130, 3, 34),
    ("ctc", torch.float64, 500, 38, 34))]

#: What no case misses, by the line of source that it comes from. Triton ends a loop that reads ahead with a barrier,
#: and behind these the kernel ends: nothing is left to be kept apart.
AT_THE_END = {("rnnt_backward", "bar.sync", "for step in tl.range(0, last, num_stages=STAGES):"),
              ("ctc_backward", "bar.sync", "for step in tl.range(0, T_b, num_stages=STAGES):")}


def deletions(case):
    """For each barrier and each wait its place in the source, whether it is missed, and whether it is the end."""
    kind, dtype, V, T, U, overwrite = case
    with on_the_machine(record=True) as machine:
        losses, _ = step(kind, *batch(kind, V, dtype, T, U, B=1), overwrite_logits=overwrite)
    assert losses.isfinite().all()
    for launch in machine.launches:
        for index in launch.program.where("bar.", "cp.async.wait"):
            instruction = launch.program.instructions[index]
            place = launch.program.name, instruction.opcode, " < ".join(map(source, instruction.source))
            behind = {each.opcode for each in launch.program.instructions[index + 1:]}
            yield place, any(missed(launch, index, order) for order in (None, 0)), behind == {"ret"}


def missed(launch, index, order):
    """Whether a fault is reported without an instruction. Results do not count: an order may be lucky."""
    try:
        report, _ = launch.run(launch.program.without(index), order=order)
    except (LaunchError, PTXError):
        return True
    return bool(report.findings)


def source(place):
    """The text of a line of the kernels, or where it is."""
    file, line = place
    for module in (triton_lattice, triton_vocabulary):
        if inspect.getsourcefile(module).endswith(file):
            return inspect.getsource(module).splitlines()[line - 1].strip()
    return f"{file}:{line}"


def test_deletions_are_missed():
    """A lattice of two warps, overwritten logits: all but the last one, and one between entries of a thread's own."""
    found = list(deletions(CASES[0]))
    assert len(found) > 20
    not_missed = {place for place, missed, _ in found if not missed}
    assert not_missed <= AT_THE_END | {("rnnt_gradient", "bar.sync", "tl.debug_barrier() < _all_read(OVERWRITE)")}


@pytest.mark.exhaustive
def test_every_deletion_is_missed_or_at_the_end():
    places, ends = {}, {}
    for case in CASES:
        for place, missed, end in deletions(case):
            places[place] = places.get(place, False) or missed
            ends[place] = ends.get(place, True) and end
    never = {place for place, missed in places.items() if not missed}
    assert never == AT_THE_END
    assert all(ends[place] for place in never)

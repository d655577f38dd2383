"""Each barrier and each wait of the compiled kernels is left out in turn, and the machine notices.

A barrier that nobody misses is superfluous, or its test too easy. So what is not noticed in one case has to be noticed
in another, or stand in a table with the reason.
"""

import inspect

import pytest
from compiled_kernels import needs_compiler, on_the_machine, step
from test_compiled_kernels import batch

from ptx_machine import LaunchError, PTXError
from reference_impl.torch_impl import triton_lattice, triton_vocabulary

torch = pytest.importorskip("torch")
pytestmark = needs_compiler

#: Losses, types and sizes that bring out each form that the barriers take: sums within a warp and across warps, lanes
#: of one warp and of several, edges, more threads than entries, logits that are overwritten or not.
CASES = [(kind, dtype, V, T, U, overwrite) for overwrite in (True, False) for kind, dtype, V, T, U in (
    ("rnnt", torch.float32, 5, 2, 70), ("ctc", torch.bfloat16, 1025, 5, 3), ("rnnt", torch.float32, 5, 3, 34),
    ("ctc", torch.float32, 300, 72, 66), ("rnnt", torch.bfloat16, 1025, 3, 2), ("rnnt", torch.float64, 130, 3, 34),
    ("ctc", torch.float64, 500, 38, 34))]

#: Barriers that no case needs, by the line of source that they come from.
NEVER_MISSED = {}


def deletions(case):
    """(place in the source, whether it was noticed) for each barrier and each wait."""
    kind, dtype, V, T, U, overwrite = case
    with on_the_machine(record=True) as machine:
        losses, _ = step(kind, *batch(kind, V, dtype, T, U, B=1), overwrite_logits=overwrite)
    assert losses.isfinite().all()
    for launch in machine.launches:
        for index in launch.program.where("bar.", "cp.async.wait"):
            instruction = launch.program.instructions[index]
            place = launch.program.name, instruction.opcode, " < ".join(map(source, instruction.source))
            yield place, any(missed(launch, index, order) for order in (None, 0))


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


def test_deletions_are_noticed():
    """Two warps: nearly all."""
    noticed = [seen for _, seen in deletions(CASES[0])]
    assert len(noticed) > 20 and noticed.count(False) <= 4


@pytest.mark.slow
def test_every_deletion_is_noticed_or_explained():
    places = {}
    for case in CASES:
        for place, noticed in deletions(case):
            places.setdefault(place, []).append(noticed)
    never = {place for place, noticed in places.items() if not any(noticed)}
    assert never == set(NEVER_MISSED)

"""Each barrier and each wait of the compiled kernels is left out in turn, and the machine notices.

A barrier whose loss nobody notices is either superfluous or untested. Those of the last group are superfluous, and why
is asserted: nothing is left for a thread to do behind them.
"""

import pytest
from compiled_kernels import needs_compiler, on_the_machine, step
from test_compiled_kernels import batch

from ptx_machine import LaunchError, PTXError

torch = pytest.importorskip("torch")
pytestmark = needs_compiler
slow = pytest.mark.slow

#: Losses, types and sizes that bring out each form that the kernels' barriers take: one warp or several, rows that are
#: reduced within a warp or across, edges.
CASES = [("rnnt", torch.float32, 5, 3, 34), ("ctc", torch.bfloat16, 1025, 5, 3),
         *(pytest.param(case, marks=slow) for case in (
             ("rnnt", torch.float32, 5, 4, 70), ("ctc", torch.float32, 300, 78, 70),
             ("rnnt", torch.bfloat16, 1025, 3, 2), ("rnnt", torch.float64, 130, 3, 34),
             ("ctc", torch.float64, 500, 38, 34)))]


def outcome(case, **options):
    """Losses, gradient and reports of a step; of one that a device would refuse, the reason."""
    kind, dtype, V, T, U = case
    with on_the_machine(faults=True, **options) as machine:
        losses, gradient = step(kind, *batch(kind, V, dtype, T, U, B=1), overwrite_logits=True)
    return losses, gradient, machine.reports


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_deletion_is_noticed(case):
    losses, gradient, reports = outcome(case)
    assert losses.isfinite().all() and not any(report.findings for report in reports)
    deleted = 0
    for report in reports:
        program = report.program
        for index in program.where("bar.", "cp.async.wait"):
            def without(other, program=program, index=index):
                return other.without(index) if other.name == program.name else other
            noticed = any(found(case, without, order) for order in (None, 0))
            assert noticed != ends(program, index), (program.name, program.instructions[index])
            deleted += 1
    assert deleted > 10


def found(case, changed, order):
    """Whether a fault is reported. A result that differs does not count, for an order may be lucky."""
    try:
        return any(report.findings for report in outcome(case, changed=changed, order=order)[2])
    except (LaunchError, PTXError):
        return True


def ends(program, index):
    """Whether only the end follows."""
    return all(each.opcode in ("ret", "nop") for each in program.instructions[index + 1:])

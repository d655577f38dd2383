"""A machine that executes PTX on a CPU, slowly and suspiciously. It knows no loss, and needs only NumPy.

Triton's interpreter runs the source of a kernel, and sees no barrier, no warp, no shared memory. A GPU has all of them,
but does not say in which order it ran them. This machine runs the compiled kernel, in many orders of warps and blocks:
between two barriers the warps run one after another, or all in step. It tries no finer orders, and need not: whatever
depends on them is a race, and the machine reports races. It reports the other faults in ``KINDS`` as well.

What to read first: ``program`` (text to instructions), ``launching`` (one launch), ``lanes`` (one warp, step by step),
``memory`` (who touched what). ``instructions`` and ``arithmetic`` say what each opcode means; the machine refuses every
other one. ``compiling`` and ``triton_launches`` bring it Triton's kernels. The machine has no clock, and does not know
what ``ptxas`` makes of the PTX. Nor does it report a register that is read before it is written; there it holds a
pattern of bits.
"""

from .findings import KINDS, Finding
from .launching import SHARED_MEMORY, Buffer, LaunchError, Report, launch
from .program import Program, PTXError

__all__ = ["KINDS", "SHARED_MEMORY", "Buffer", "Finding", "LaunchError", "PTXError", "Program", "Report", "launch"]

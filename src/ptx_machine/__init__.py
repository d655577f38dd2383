"""A machine that executes PTX on a CPU, slowly and suspiciously. It knows no loss, and needs NumPy alone.

Triton's interpreter runs the source of a kernel, and sees no barrier, no warp, no shared memory. A GPU has all of them,
and does not say which order it took. This machine runs what the compiler made of a kernel, in many orders of warps and
blocks: from barrier to barrier the warps go one after another, or all in step. Finer orders are not tried, and need not
be: whatever depends on them is a race, which is reported. So is what else no kernel may do, of the kinds in ``KINDS``.

What to read first: ``program`` (text to instructions), ``launching`` (one launch), ``lanes`` (one warp, step by step),
``memory`` (who touched what). ``instructions`` and ``arithmetic`` say what each opcode means; what they do not know is
refused. It has no clock, knows nothing of what ``ptxas`` makes of the PTX, and does not report a register that is read
before it is written, which holds a pattern of bits.
"""

from .findings import KINDS, Finding
from .launching import SHARED_MEMORY, Buffer, LaunchError, Report, launch
from .program import Program, PTXError

__all__ = ["KINDS", "SHARED_MEMORY", "Buffer", "Finding", "LaunchError", "PTXError", "Program", "Report", "launch"]

"""How slow this machine is now, by a fixed amount of work; and limits of processor time that follow from that.

A limit says how much may be computed, in seconds of the machine on which the limits were set. Another machine may be
slower, and one that is busy takes more processor time for the same work: its cores share caches and are clocked down.
So the work is done and timed beside whatever is limited, in the same circumstances, again and again.
"""

from __future__ import annotations

import math
from time import thread_time  # this function, whatever a submission puts into its place later

__all__ = ["REFERENCE", "SLOWEST", "Used", "allowed", "slowness"]

#: Processor time of the work on the machine on which the limits were set, when nothing else runs there: two cores at
#: 2.9 GHz, Python 3.11, the least of 400 times.
REFERENCE = 0.0029
#: No machine is believed to be slower by more than this, so that what tampers with the work does not run for ever.
SLOWEST = 30.0
_ROUNDS = 100
_EVERY = 0.5  # seconds of processor time from one calibration to the next


def slowness() -> float:
    """How much longer the work takes now than on the machine of the limits; at least 1, since no limit gets tighter.

    Examples
    --------
    >>> 1 <= slowness() <= SLOWEST
    True
    """
    begin, values, total = thread_time(), list(range(1000)), 0
    for _ in range(_ROUNDS):
        for value in values:
            total += value ^ total & 255
    return min(max((thread_time() - begin) / REFERENCE, 1.0), SLOWEST)


class Used:
    """What was used of an allowance, in seconds of the machine of the limits.

    Parameters
    ----------
    clock : callable
        Processor time of what is limited, in seconds of this machine.
    own : bool
        If the clock is that of the thread that looks at it, which also does the work of the calibration: then that does
        not count.
    measure : callable
        What says how slow the machine is, if not :func:`slowness`.

    Examples
    --------
    >>> ticks = iter([0.0, 3.0, 5.0])
    >>> used = Used(lambda: next(ticks), measure=lambda: 2.0)
    >>> used(), used()
    (1.5, 2.5)
    """

    def __init__(self, clock, *, own=False, measure=None):
        self._clock, self._own, self._measure = clock, own, measure or slowness
        self._last, self._sum = clock(), 0.0

    def __call__(self, *, at_once=True):
        """The sum until now. Unless ``at_once``, what is too short for a calibration is left for the next time."""
        now = self._clock()
        if now - self._last >= (0.0 if at_once else _EVERY):
            self._sum += (now - self._last) / self._measure()
            self._last = self._clock() if self._own else now
        return self._sum


def allowed(seconds) -> int:
    """A limit that is set once and for all: twice what this machine needs now, since it may get busier."""
    return math.ceil(2 * seconds * slowness())

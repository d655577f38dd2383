"""Ends a cell of a submission that takes too much processor time, or sleeps for too long; seen from another process.

How busy the machine is, or how slow, does not change what a cell may take: that is counted in the submission's own
processor time, as `calibration.py` weighs it. The clock on the wall ends only what does not use any, and waits for what
never comes.
"""

from __future__ import annotations

import math
import signal
import threading
import time

from .calibration import Used
from .effort import clock_of

__all__ = ["Watch"]

_GLANCE = 0.1  # seconds from one look to the next
#: Processor time that a cell has to come to its end once it was interrupted: to leave a long call, to show its error.
_LAST_WORDS = 5.0
_LAST_PATIENCE = 600.0  # seconds on the clock for the same, if it sleeps


class Watch:
    """Looks after one cell from its making until :meth:`end`; interrupts the process, and kills it if that is no use.

    Outside Linux the processor time of another process cannot be read. There the clock on the wall alone counts here,
    and the process has a limit of its own.

    Parameters
    ----------
    process : subprocess.Popen
    seconds : float
        Processor time that the cell may take, in seconds of the machine of `calibration.py`.
    patience : float
        Seconds on the clock that it may take; only what sleeps gets there.
    end : float
        When there is no patience left at all, as `time.monotonic` tells it: for what sleeps a little in every cell.

    Attributes
    ----------
    interrupted, killed : bool
    """

    def __init__(self, process, *, seconds, patience, end=math.inf):
        self.interrupted = self.killed = False
        self._process, self._over = process, threading.Event()
        self._seconds, self._patience, self._end = seconds, patience, end
        try:
            self._clock = clock_of(process.pid)
        except OSError:
            self._clock = float  # always 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def no_longer_than(self, seconds):
        """All patience ends so many seconds from now, at the latest."""
        self._end = min(self._end, time.monotonic() + seconds)

    def end(self):
        """The cell has come to its end; whether it was interrupted does not change any more."""
        self._over.set()
        self._thread.join()

    def _look(self):
        if self._takes_all_of(self._seconds, self._patience):
            self.interrupted = True
            self._process.send_signal(signal.SIGINT)
            if self._takes_all_of(_LAST_WORDS, _LAST_PATIENCE):
                self.killed = True
                self._process.kill()

    def _takes_all_of(self, seconds, patience):
        """Wait until the cell has taken either of these; False if it ends before."""
        try:
            used, begin, end = Used(self._clock), self._clock(), time.monotonic() + patience
            while not self._over.wait(_GLANCE):
                # no machine is faster than that of the limits: until then there is nothing to weigh
                if self._clock() - begin >= seconds and used() >= seconds or (
                        time.monotonic() >= min(end, self._end)):
                    return True
                used(at_once=False)
        except OSError:  # the process has ended
            pass
        return False

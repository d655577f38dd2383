"""Processes that hang, for tests of what ends them: when they have begun, and whether all of them have ended."""

import os
import select


class Hanging:
    """``program`` is Python that says that it runs, and hangs for ten minutes; any number of processes may run it."""

    def __init__(self, folder):
        path = folder / "hanging"
        os.mkfifo(path)
        self._told = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.program = f"import os, time; os.write(os.open({str(path)!r}, os.O_WRONLY), b'1'); time.sleep(600)"

    def wait(self):
        """Until the next process has begun."""
        select.select([self._told], [], [])
        assert os.read(self._told, 1) == b"1", "a process ended before it could hang"

    def all_ended(self):
        """Whether all end within a minute: the last one that has the pipe open closes it. To be asked once."""
        try:
            return bool(select.select([self._told], [], [], 60)[0]) and os.read(self._told, 1) == b""
        finally:
            os.close(self._told)

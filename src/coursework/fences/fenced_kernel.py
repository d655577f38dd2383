"""How jupyter_client starts a submission's kernel behind the fences, and speaks to it. It runs no cell.

The sockets of the kernel are opened here, in a folder that it cannot see, and inherited by it: so it needs none of its
own, and what it can write is shared with nobody.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import zmq
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner
from traitlets.config import Config

__all__ = ["IPYTHON", "FencedKernelManager", "kernel_manager"]

_BARE = Path(__file__).with_name("bare.py")
#: Bytes of a part of a message that still comes through, to be measured and left out: somebody may display much.
_LARGEST = 2**30
#: Messages that wait until the grader reads them; more wait in the process that sends them.
_WAITING = 20
_CHANNELS = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")
#: What IPython would make for itself where it keeps its settings, if it could.
IPYTHON = ("profile_default/startup/README", "profile_default/security/README", "profile_default/log/README",
            "profile_default/pid/README", "profile_default/db/README", "nbextensions/README", "extensions/README",
            "README")


class FencedProvisioner(LocalProvisioner):
    """Starts the kernel by a `fenced.Fenced`, which is ``parent.fenced``."""

    async def launch_kernel(self, cmd, **_):
        """The command and surroundings are not the caller's, but those of the fences."""
        manager, fenced = self.parent, self.parent.fenced
        for name in IPYTHON:
            fenced.give(f"ipython/{name}", b"")
        ipython = str(fenced.given / "ipython")
        fenced.give("fences/bare.py", _BARE.read_bytes())
        connection = fenced.give("kernel.json", Path(manager.connection_file).read_bytes())
        with contextlib.ExitStack() as opened:
            sockets = {}
            for port in (self.connection_info[channel] for channel in _CHANNELS):
                line = opened.enter_context(socket.socket(socket.AF_UNIX))
                line.bind(f"{manager.ip}-{port}")
                line.listen()
                line.setblocking(False)
                sockets[port] = line.fileno()
            # the numbers of descriptors are the same in the process
            fenced.start("kernel", descriptors=[*sockets.values(), *manager.descriptors], sockets=sockets,
                         library=str(manager.library), ipython=ipython, surroundings=manager.surroundings,
                         modules=sorted(manager.modules),
                         arguments=["-f", str(connection), f"--ipython-dir={ipython}",
                                    "--HistoryManager.enabled=False"])
        self.process, self.pid, self.pgid, self.cwd = fenced.process, fenced.pid, None, fenced.folder
        return self.connection_info

    async def send_signal(self, signum):
        self.parent.fenced.send_signal(signum)

    async def kill(self, restart=False):
        self.parent.fenced.kill()


class FencedKernelClient(AsyncKernelClient):
    """Opens the two lines that are read; and hangs up on a message of which a part is larger than any honest one.

    What comes in on a line that nobody reads stays in the grader's memory. There is no heartbeat: the process is
    watched, and nonsense on that line would make the grader wait for ever.
    """

    _read = ("shell", "iopub")

    def start_channels(self, **_):
        super().start_channels(shell=True, iopub=True, stdin=False, hb=False, control=False)

    def stop_channels(self):
        """Only what was opened: to ask for another opens it."""
        for channel in (self._shell_channel, self._iopub_channel):
            if channel is not None and channel.is_alive():
                channel.stop()

    def _create_connected_socket(self, channel, identity=None):
        if channel not in self._read:
            raise ValueError(f"channel = {channel!r}; expected one of {', '.join(self._read)}")
        self.context.setsockopt(zmq.MAXMSGSIZE, _LARGEST)  # for the sockets that it makes from here on
        self.context.setsockopt(zmq.RCVHWM, _WAITING)
        return super()._create_connected_socket(channel, identity)


class FencedKernelManager(AsyncKernelManager):
    """A manager of the kernel in ``fenced``.

    ``library`` is the folder of ours that it imports from, ``modules`` are the names of all that it may import besides
    Python's own, ``descriptors`` what it inherits.
    """

    fenced = library = None
    modules, descriptors, surroundings = (), (), {}

    async def _async_pre_start_kernel(self, **options):
        if self.provisioner is None:
            self.provisioner = FencedProvisioner(kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self)
        return await super()._async_pre_start_kernel(**options)


def kernel_manager(fenced, *, library, modules, descriptors=(), surroundings=None, **options):
    """A manager whose kernel runs behind fences, with options of its class.

    `NotFenced` is raised when it is started and the fences cannot be.
    """
    config = Config({"KernelManager": {"transport": "ipc"}})
    manager = FencedKernelManager(kernel_name="python3", config=config, client_factory=FencedKernelClient, **options)
    manager.fenced, manager.library, manager.modules = fenced, library, modules
    manager.descriptors, manager.surroundings = list(descriptors), surroundings or {}
    lines = fenced.scratch / "lines"
    lines.mkdir()
    os.chmod(lines, 0o700)
    manager.connection_file = str(lines / "kernel.json")
    manager.ip = str(lines / "k")
    return manager

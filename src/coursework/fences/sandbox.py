"""The process of a submission, from its first line: raises the fences around itself, and becomes the kernel. No grader.

    python -I sandbox.py OPTIONS

OPTIONS is a JSON file that `fenced.py` writes. What can be raised depends on the machine, and is listed there; what is
listed and cannot be raised ends the process before anything foreign runs. It is copied, with `landlock.py`,
`seccomp.py`, `acts.py` and `bare.py`, to where submissions run, and imports nothing else of the project.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys

# --- memory, processor time, files, threads ---

#: Bytes of one file that a submission writes.
LARGEST_FILE = 16 * 2**20
#: Open files, sockets and pipes: each pipe is memory that no other limit counts.
OPEN_FILES = 256
#: Threads of a submission; a kernel has about ten.
THREADS = 256


def limit(address_space, seconds, alone):
    """Memory, processor time, and what else a submission has no use for much of."""
    threads = THREADS if alone else THREADS + _threads_of(os.getuid())
    for name, most in (("CORE", 0), ("FSIZE", LARGEST_FILE), ("NOFILE", OPEN_FILES), ("MSGQUEUE", 0), ("MEMLOCK", 0),
                       ("NPROC", threads), ("CPU", seconds), ("AS", address_space)):
        if (what := getattr(resource, f"RLIMIT_{name}", None)) is not None:
            with contextlib.suppress(ValueError, OSError):  # not on every Unix; whether it stands is tried
                resource.setrlimit(what, (most, most))


def _threads_of(user):
    """The threads that this user runs now, if they count against the limit: where the submission is one of them."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        with contextlib.suppress(OSError):  # it has ended
            if os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


# --- user and privileges ---

# linux/prctl.h, linux/capability.h, linux/sched.h
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITIES = 64  # more than there are
_LINUX_CAPABILITY_VERSION_3 = 0x20080522
_CLONE_NEWUSER = 0x10000000


def become(user):
    """Another user than root, for good; in a user namespace of its own, where the kernel allows that."""
    libc = ctypes.CDLL(None, use_errno=True)
    lose_capabilities(keep=True)
    try:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    except OSError as error:
        raise SystemExit(f"root cannot become user {user} here: {error}") from None
    if not sys.platform.startswith("linux"):
        return
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else what is written below would be root's
    if libc.unshare(_CLONE_NEWUSER) == 0:
        for name, line in ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{user} {user} 1"):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(line)


def lose_capabilities(*, keep=False):
    """All of them, and those that could be got again; with ``keep`` only the latter, to change the user afterwards."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    if not keep:
        header = (ctypes.c_uint32 * 2)(_LINUX_CAPABILITY_VERSION_3, 0)
        libc.capset(header, (ctypes.c_uint32 * 6)())
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


# --- one after the other ---


def raise_fences(options):
    """All that `options` names, in the order in which they leave each other possible."""
    import landlock
    import seccomp

    limit(options["address_space"], options["seconds"], options["alone"])
    if options["user"] is not None:
        become(options["user"])
    lose_capabilities()
    if options["dies_with_parent"]:  # again: to become another user has undone it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if options["landlock"]:
        landlock.raise_fence(options["landlock"], options["readable"], options["writable"], options["devices"])
    if options["seccomp"]:
        seccomp.raise_fence()


# --- behind the fences ---

_STDOUT, _STDERR = 1, 2  # unistd.h


def be_the_kernel(options):
    """The sockets through which it is spoken to were opened by the grader: here none can be."""
    import tempfile

    import zmq
    from ipykernel import iostream, kernelapp
    from IPython.core import interactiveshell

    def bind(self, zmq_socket, port):
        zmq_socket.setsockopt(zmq.USE_FD, options["sockets"][str(port)])
        zmq_socket.setsockopt(zmq.SNDHWM, 0)  # what the grader has not read yet waits here, and none of it is lost
        zmq_socket.bind(f"ipc://{self.ip}-{port}")
        return port

    def thread(*arguments, pipe, **named):
        return iostream.IOPubThread(*arguments, pipe=False, **named)  # the pipe for other processes is a socket

    tempfile.tempdir = options["folder"]  # it is asked for at every cell, and must not be looked for by writing
    interactiveshell.get_ipython_dir = lambda: options["ipython"]  # though it cannot be written
    kernelapp.IOPubThread = thread
    kernelapp.IPKernelApp._try_bind_socket = bind
    kernelapp.Heartbeat._try_bind_socket = lambda self: bind(self, self.socket, self.port)
    sys.argv[1:] = options["arguments"]
    kernelapp.IPKernelApp.launch_instance()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        options = json.load(file)
    beside = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, beside)
    import acts

    raise_fences(options)
    report = socket.socket(fileno=options["report"])
    report.send(b"the fences are raised")
    if options["task"] == "acts":
        report.send(json.dumps(acts.tried(options["fence"], options["victims"])).encode())
        return
    report.close()
    import bare

    sys.path.remove(beside)
    for name in ("acts", "bare", "landlock", "seccomp"):
        sys.modules.pop(name, None)
    sys.path.insert(0, options["library"])
    if options["task"] == "cells":
        bare.serve(options["cells"], *options["lines"])
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (_STDOUT, _STDERR):  # what the kernel itself has to say
        os.dup2(nowhere, stream)
    bare.only(options["modules"])
    be_the_kernel(options)


if __name__ == "__main__":
    main()

"""Starts the kernel in which a submission runs, fenced in. Run as a file, isolated, so that nothing else is imported.

    python -I sandbox.py LIBRARY BYTES SECONDS REPORT kernel arguments...

What is fenced in: memory (BYTES of address space), processor time (SECONDS) and the size of files; the network, by a
network namespace of its own; and the file system, by Landlock, which leaves the Python installation to be read and the
working folder to be written. The last two are Linux's, and not every container grants them: REPORT gets a line for each
fence that stands. ``make grade`` shows them.
"""

import ctypes
import os
import resource
import sys

FENCES = ("memory", "processor time", "network", "files")
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, list a folder
_ALL_OF_FIRST_VERSION = (1 << 13) - 1
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc/self", "/dev/null", "/dev/urandom",
           "/sys/devices/system/cpu")


def limit(address_space, seconds):
    """Memory, processor time, and what else a submission has no use for much of."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**24, 2**24))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))


def leave_the_network(libc):
    """A namespace without any interface; the kernel is spoken to through files."""
    return libc.unshare(_CLONE_NEWNET) == 0 or libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0


def leave_the_files(libc, readable, writable):
    """Landlock: from here on only these can be opened."""
    handled = ctypes.c_uint64(_ALL_OF_FIRST_VERSION)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.c_size_t(8), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    for paths, access in ((readable, _READ), (writable, _ALL_OF_FIRST_VERSION)):
        for path in filter(os.path.exists, paths):
            folder = os.path.isdir(path)
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = (ctypes.c_uint64 * 2)(access if folder else access & (1 << 0 | 1 << 1 | 1 << 2), 0)
            ctypes.memmove(ctypes.byref(rule, 8), ctypes.byref(ctypes.c_int32(handle)), 4)
            if libc.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0)):
                return False
            os.close(handle)
    return libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)) == 0


def main():
    library, address_space, seconds, report, *arguments = sys.argv[1:]
    libc, folder = ctypes.CDLL(None, use_errno=True), os.getcwd()
    keep = ("COURSEWORK_INPUTS", "HOME", "LANG", "PATH", "TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLBACKEND")
    for name in set(os.environ) - set(keep):
        del os.environ[name]
    sys.path.insert(0, library)
    sys.argv[1:] = arguments
    from ipykernel.kernelapp import IPKernelApp  # before the fences: it imports much

    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what the kernel itself has to say
        os.dup2(nowhere, stream)
    told = open(report, "w", encoding="utf-8")  # before the fences: it lies outside of them
    limit(int(address_space), int(seconds))
    readable = {sys.prefix, sys.base_prefix, library, os.environ["COURSEWORK_INPUTS"], *_SYSTEM}
    stands = True, True, leave_the_network(libc), leave_the_files(libc, sorted(readable), [folder, "/dev/shm"])
    with told:
        told.writelines(f"{name}\n" for name, stood in zip(FENCES, stands, strict=True) if stood)
    IPKernelApp.launch_instance()


if __name__ == "__main__":
    main()

"""Starts the kernel in which a submission runs, fenced in. Run as a file, isolated, so that nothing else is imported.

    python -I sandbox.py LIBRARY BYTES SECONDS REPORT kernel arguments...

What is fenced in: memory (BYTES of address space), processor time (SECONDS) and the size of files; the network, by a
network namespace of its own; the file system, by Landlock, which leaves the Python installation to be read and the
working folder to be written; and the process itself, by a filter of system calls, since a second process would have as
much memory and time again, and a clock that nobody reads. The last three are Linux's, and not every container grants
them: REPORT gets a line for each fence that stands. ``make grade`` shows them.
"""

import ctypes
import errno
import os
import resource
import sys

FENCES = ("memory", "processor time", "network", "files", "processes")
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, list a folder
_ALL_OF_FIRST_VERSION = (1 << 13) - 1
#: By machine: its number for the kernel, and those of the calls clone, and fork and vfork, where it has them.
_MACHINES = {"x86_64": (0xC000003E, 56, (57, 58)), "aarch64": (0xC00000B7, 220, ())}
_CLONE3, _CLONE_THREAD, _X32 = 435, 0x10000, 0x40000000
_ALLOW, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
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


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("if_true", ctypes.c_ubyte), ("if_not", ctypes.c_ubyte),
                ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("first", ctypes.POINTER(_Instruction)))


def stay_one_process(libc):
    """Seccomp: threads may be started, processes not. clone3 hides its flags; without it, the C library takes clone."""
    if os.uname().machine not in _MACHINES or sys.maxsize < 2**32:
        return False
    machine, clone, forks = _MACHINES[os.uname().machine]
    load, equal, at_least, any_bit, end = 0x20, 0x15, 0x35, 0x45, 0x06
    lines = [(load, 0, 0, 4), (equal, 1, 0, machine), (end, 0, 0, _REFUSE),  # the machine that the call is for
             (load, 0, 0, 0), (at_least, 0, 1, _X32), (end, 0, 0, _REFUSE),  # the number of the call
             (equal, 0, 1, _CLONE3), (end, 0, 0, _UNKNOWN)]
    for call in forks:
        lines += [(equal, 0, 1, call), (end, 0, 0, _REFUSE)]
    lines += [(equal, 0, 3, clone), (load, 0, 0, 16), (any_bit, 1, 0, _CLONE_THREAD), (end, 0, 0, _REFUSE),  # flags
              (end, 0, 0, _ALLOW)]
    program = _Program(len(lines), (_Instruction * len(lines))(*lines))
    return libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0


def main():
    library, address_space, seconds, report, *arguments = sys.argv[1:]
    libc, folder = ctypes.CDLL(None, use_errno=True), os.getcwd()
    keep = ("COURSEWORK_INPUTS", "HOME", "LANG", "PATH", "TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLBACKEND",
            "OPENBLAS_NUM_THREADS")
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
    stands = (True, True, leave_the_network(libc), leave_the_files(libc, sorted(readable), [folder, "/dev/shm"]),
              stay_one_process(libc))
    with told:
        told.writelines(f"{name}\n" for name, stood in zip(FENCES, stands, strict=True) if stood)
    IPKernelApp.launch_instance()


if __name__ == "__main__":
    main()

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

# --- memory, processor time, the size of files ---

#: Bytes of one file that a submission writes.
LARGEST_FILE = 16 * 2**20


def limit(address_space, seconds):
    """Memory, processor time, and what else a submission has no use for much of."""
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, LARGEST_FILE),
                       (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, address_space)):
        resource.setrlimit(what, (most, most))


# --- the network ---

# linux/sched.h
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000


def leave_the_network(libc):
    """A namespace without any interface; the kernel is spoken to through files."""
    return libc.unshare(_CLONE_NEWNET) == 0 or libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) == 0


# --- files ---

# linux/prctl.h; without new privileges, a process may fence itself in that is not root's
_PR_SET_NO_NEW_PRIVS = 38

# asm-generic/unistd.h: one number on every machine
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_ADD_RULE = 445
_SYS_LANDLOCK_RESTRICT_SELF = 446

# linux/landlock.h: kinds of access, LANDLOCK_ACCESS_FS_...
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_MAKE_SYM = 1 << 12  # the last one that every version of Landlock knows
_RULE_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ALL_OF_FIRST_VERSION = (_MAKE_SYM << 1) - 1
_MEANT_FOR_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE  # a rule about a file with any other is refused

#: What NumPy and the interpreter read, besides Python's own folders.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc/self", "/dev/null", "/dev/urandom",
           "/sys/devices/system/cpu")
_SHARED_MEMORY = "/dev/shm"


class _Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr, as the first version has it."""

    _fields_ = (("handled_access", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def leave_the_files(libc, readable, writable):
    """Landlock: from here on only these can be opened."""
    no_flags, asked = ctypes.c_uint32(0), _Ruleset(_ALL_OF_FIRST_VERSION)
    ruleset = libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(asked), ctypes.c_size_t(ctypes.sizeof(asked)),
                           no_flags)
    if ruleset < 0:
        return False
    for paths, access in ((readable, _READ), (writable, _ALL_OF_FIRST_VERSION)):
        for path in filter(os.path.exists, paths):
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = _PathBeneath(access if os.path.isdir(path) else access & _MEANT_FOR_A_FILE, handle)
            if libc.syscall(_SYS_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), no_flags):
                return False
            os.close(handle)
    return (libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            and libc.syscall(_SYS_LANDLOCK_RESTRICT_SELF, ruleset, no_flags) == 0)


# --- processes ---

# linux/prctl.h, linux/seccomp.h
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_ALLOW = 0x7FFF0000  # SECCOMP_RET_ALLOW
_ERRNO = 0x00050000  # SECCOMP_RET_ERRNO: the call is not made, and fails with the error in the lower bits
_REFUSE, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS

# linux/seccomp.h: where a filter finds what it asks for, in struct seccomp_data
_CALL = 0  # nr
_MACHINE = 4  # arch
_FLAGS_OF_CLONE = 16  # args[0], the half of it that comes first on these machines, which are little-endian

# linux/bpf_common.h: the instructions of a filter
_LOAD = 0x00 | 0x00 | 0x20  # BPF_LD | BPF_W | BPF_ABS: the word at this place
_IF_EQUAL = 0x05 | 0x10  # BPF_JMP | BPF_JEQ
_IF_AT_LEAST = 0x05 | 0x30  # BPF_JMP | BPF_JGE
_IF_ANY_BIT = 0x05 | 0x40  # BPF_JMP | BPF_JSET
_RETURN = 0x06  # BPF_RET

#: By machine: its number in linux/audit.h, and those of the calls clone, and fork and vfork where it has them, in
#: asm/unistd_64.h (x86_64) and asm-generic/unistd.h (aarch64).
_MACHINES = {"x86_64": (0xC000003E, 56, (57, 58)), "aarch64": (0xC00000B7, 220, ())}
_SYS_CLONE3 = 435  # asm-generic/unistd.h
_CLONE_THREAD = 0x00010000  # linux/sched.h
_X32_CALLS = 0x40000000  # asm/unistd.h, __X32_SYSCALL_BIT: from here on, x86_64 has the same calls once more


class _Instruction(ctypes.Structure):
    """struct sock_filter of linux/filter.h. A jump skips so many instructions."""

    _fields_ = (("code", ctypes.c_ushort), ("if_true", ctypes.c_ubyte), ("if_not", ctypes.c_ubyte),
                ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("first", ctypes.POINTER(_Instruction)))


def _filter(machine, clone, forks):
    """The instructions, each a code, how many to skip if it is true, how many if not, and a value."""
    lines = [(_LOAD, 0, 0, _MACHINE), (_IF_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _REFUSE),
             (_LOAD, 0, 0, _CALL), (_IF_AT_LEAST, 0, 1, _X32_CALLS), (_RETURN, 0, 0, _REFUSE),
             (_IF_EQUAL, 0, 1, _SYS_CLONE3), (_RETURN, 0, 0, _UNKNOWN)]
    for fork in forks:
        lines += [(_IF_EQUAL, 0, 1, fork), (_RETURN, 0, 0, _REFUSE)]
    return [*lines, (_IF_EQUAL, 0, 3, clone), (_LOAD, 0, 0, _FLAGS_OF_CLONE), (_IF_ANY_BIT, 1, 0, _CLONE_THREAD),
            (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]


def stay_one_process(libc):
    """Seccomp: threads may be started, processes not. clone3 hides its flags; without it, the C library takes clone."""
    if os.uname().machine not in _MACHINES or sys.maxsize < 2**32:
        return False
    lines = _filter(*_MACHINES[os.uname().machine])
    program = _Program(len(lines), (_Instruction * len(lines))(*lines))
    return (libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            and libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


# --- the kernel behind the fences ---

_STDOUT, _STDERR = 1, 2  # unistd.h
#: What a submission's process knows of its surroundings.
_KEPT_VARIABLES = ("COURSEWORK_INPUTS", "HOME", "LANG", "PATH", "TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR",
                   "MPLBACKEND", "OPENBLAS_NUM_THREADS")


def main():
    library, address_space, seconds, report, *arguments = sys.argv[1:]
    libc, folder = ctypes.CDLL(None, use_errno=True), os.getcwd()
    for name in set(os.environ) - set(_KEPT_VARIABLES):
        del os.environ[name]
    sys.path.insert(0, library)
    sys.argv[1:] = arguments
    from ipykernel.kernelapp import IPKernelApp  # before the fences: it imports much

    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (_STDOUT, _STDERR):  # what the kernel itself has to say
        os.dup2(nowhere, stream)
    told = open(report, "w", encoding="utf-8")  # before the fences: it lies outside of them
    limit(int(address_space), int(seconds))
    readable = {sys.prefix, sys.base_prefix, library, os.environ["COURSEWORK_INPUTS"], *_SYSTEM}
    stands = (True, True, leave_the_network(libc), leave_the_files(libc, sorted(readable), [folder, _SHARED_MEMORY]),
              stay_one_process(libc))
    with told:
        told.writelines(f"{name}\n" for name, stood in zip(FENCES, stands, strict=True) if stood)
    IPKernelApp.launch_instance()


if __name__ == "__main__":
    main()

"""Landlock around a submission: which files it can open, and that no signal leaves it. The other fences are elsewhere.

It asks for everything that the kernel's version of Landlock knows, up to the sixth: what the first one leaves open is
how a submission once emptied a gradebook, by truncation. It is imported where submissions run, so it needs nothing but
Python.
"""

import ctypes
import os
import struct
import sys

__all__ = ["raise_fence", "version"]

# linux/prctl.h
_PR_SET_NO_NEW_PRIVS = 38

# asm-generic/unistd.h: one number on every machine
_SYS_LANDLOCK_CREATE_RULESET = 444
_SYS_LANDLOCK_ADD_RULE = 445
_SYS_LANDLOCK_RESTRICT_SELF = 446

# linux/landlock.h
_CREATE_RULESET_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_RULE_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3  # LANDLOCK_ACCESS_FS_...
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILES = (0, (1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 15) - 1, (1 << 16) - 1)  # by version; the last goes on
_NETWORK = (1 << 0) | (1 << 1)  # since version 4: LANDLOCK_ACCESS_NET_BIND_TCP, _CONNECT_TCP
_SCOPES = (1 << 0) | (1 << 1)  # since version 6: LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, _SIGNAL

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_MEANT_FOR_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV  # others are refused in its rule
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE


class _Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr; older versions know its first 8 or 16 bytes."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


#: struct landlock_path_beneath_attr, which is packed: what is allowed, and the handle of the path.
_PATH_BENEATH = struct.Struct("=Qi")


def version() -> int:
    """The kernel's version of Landlock; 0 if it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    asked = ctypes.CDLL(None).syscall(_SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0),
                                      ctypes.c_uint32(_CREATE_RULESET_VERSION))
    return max(asked, 0)


def raise_fence(known, readable, writable, devices=()):
    """From here on only these can be opened: for this thread, and for those that it starts.

    Parameters
    ----------
    known : int
        The version, from `version`.
    readable, writable, devices : lists of paths
        Those that are not there are left out. Folders that are writable can be read, and so can devices.

    Raises
    ------
    OSError
        If the kernel does not take a rule.
    """
    libc, none = ctypes.CDLL(None, use_errno=True), ctypes.c_uint32(0)

    def done(result, what):
        if result < 0:
            raise OSError(ctypes.get_errno(), f"Landlock does not {what}")
        return result

    handled = _FILES[min(known, len(_FILES) - 1)]
    asked = _Ruleset(handled, _NETWORK if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    ruleset = done(libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(asked), ctypes.c_size_t(size), none),
                   "begin")
    for paths, access in ((readable, _READ), (writable, handled), (devices, _DEVICE)):
        for path in filter(os.path.exists, paths):
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = handled & (access if os.path.isdir(path) else access & _MEANT_FOR_A_FILE)
            rule = _PATH_BENEATH.pack(allowed, handle)
            done(libc.syscall(_SYS_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, none),
                 f"take a rule about {path}")
            os.close(handle)
    done(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "take the process")
    done(libc.syscall(_SYS_LANDLOCK_RESTRICT_SELF, ruleset, none), "take the process")
    os.close(ruleset)

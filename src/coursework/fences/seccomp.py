"""A filter of system calls, around a submission: which calls the kernel refuses it. No other fence.

It holds wherever there is Linux, whatever the rights of the grader are, and adds to the fences of `landlock.py` and
`bubblewrap.py` what they leave open: a second process, a second program, modes and times of files, sockets, messages
and memory that outlive a process, signals to others, and the less tried parts of the kernel. It is imported where
submissions run, so it needs nothing but Python.
"""

import ctypes
import errno
import os
import socket
import sys

__all__ = ["REFUSED", "stands_here", "raise_fence"]

# linux/prctl.h, linux/seccomp.h
_PR_SET_NO_NEW_PRIVS = 38  # without new privileges a process may fence itself in that is not root's
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_ALLOW = 0x7FFF0000  # SECCOMP_RET_ALLOW
_ERRNO = 0x00050000  # SECCOMP_RET_ERRNO: the call is not made, and fails with the error in the lower bits
_REFUSE, _UNKNOWN = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS

# linux/seccomp.h: where a filter finds what it asks for, in struct seccomp_data
_CALL = 0  # nr
_MACHINE = 4  # arch


def _argument(place):
    """Of args, the half that comes first on these machines, which are little-endian."""
    return 16 + 8 * place


# linux/bpf_common.h: the instructions of a filter
_LOAD = 0x00 | 0x00 | 0x20  # BPF_LD | BPF_W | BPF_ABS: the word at this place
_AND = 0x04 | 0x50  # BPF_ALU | BPF_AND
_IF_EQUAL = 0x05 | 0x10  # BPF_JMP | BPF_JEQ
_IF_MORE = 0x05 | 0x20  # BPF_JMP | BPF_JGT
_IF_ANY_BIT = 0x05 | 0x40  # BPF_JMP | BPF_JSET
_RETURN = 0x06  # BPF_RET

#: The machines that are known: their number in linux/audit.h. The numbers of calls below are in this order.
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

#: Calls that are refused whatever their arguments are, by what they would be used for, with their numbers in
#: asm/unistd_64.h (x86_64) and asm-generic/unistd.h (aarch64); None where a machine does not have the call.
REFUSED = {
    "another process, another program, the insides of one": {
        "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
        "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
        "process_mrelease": (448, 448), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
        "setsid": (112, 157), "setpgid": (109, 154)},
    "signals and priorities of others": {
        "pidfd_send_signal": (424, 424), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
        "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140), "sched_setparam": (142, 118),
        "sched_setattr": (314, 274), "sched_setaffinity": (203, 122), "ioprio_set": (251, 30)},
    "other namespaces and mounts": {
        "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
        "chroot": (161, 51), "mount_setattr": (442, 442), "move_mount": (429, 429), "open_tree": (428, 428),
        "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433)},
    "sockets; those that the grader has opened are handed in": {
        "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201)},
    "what outlives a process, or is memory that no limit counts": {
        "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
        "semtimedop": (220, 192), "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
        "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "mq_timedsend": (242, 182),
        "mq_timedreceive": (243, 183), "mq_notify": (244, 184), "mq_getsetattr": (245, 185),
        "memfd_create": (319, 279), "memfd_secret": (447, 447), "add_key": (248, 217), "request_key": (249, 218),
        "keyctl": (250, 219)},
    "modes, owners, times and attributes of files, which Landlock leaves open; devices": {
        "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None), "fchown": (93, 55),
        "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
        "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
        "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
        "mknod": (133, None), "mknodat": (259, 33)},
    "parts of the kernel that a submission has no use for": {
        "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "name_to_handle_at": (303, 264),
        "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "fanotify_mark": (301, 263),
        "quotactl": (179, 60), "quotactl_fd": (443, 443), "init_module": (175, 105), "finit_module": (313, 273),
        "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
        "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116),
        "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None),
        "modify_ldt": (154, None), "vhangup": (153, 58), "settimeofday": (164, 170), "clock_settime": (227, 112),
        "clock_adjtime": (305, 266), "adjtimex": (159, 171), "migrate_pages": (256, 238), "move_pages": (279, 239),
        "lookup_dcookie": (212, 18), "nfsservctl": (180, 42)},
}
#: Calls that are refused for some arguments only.
_CLONE, _CLONE3 = (56, 220), (435, 435)
_KILL, _TGKILL, _PRLIMIT = (62, 129), (234, 131), (302, 261)
_SET_SCHEDULER = (144, 119)
_PRCTL, _FCNTL, _IOCTL, _SOCKETPAIR = (157, 167), (72, 25), (16, 29), (53, 199)
#: The last call that was looked at; newer ones are unknown here, and so are those of x32, which begin at 2^30.
_LAST = 450  # set_mempolicy_home_node

_CLONE_THREAD = 0x00010000  # linux/sched.h
_PR_SET_PDEATHSIG = 1  # linux/prctl.h: that it ends with the grader
_F_SETOWN, _F_SETOWN_EX = 8, 15  # asm-generic/fcntl.h: who gets a signal when something can be read
_SCHED_OTHER = 0  # linux/sched.h: how everybody is scheduled; ZeroMQ asks for it for its own threads
_FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX = 0x8901, 0x8902, 0x5412, 0x541C  # asm-generic/sockios.h, ioctls.h
_KINDS_OF_SOCKETS = 0xF  # linux/net.h, SOCK_TYPE_MASK


class _Instruction(ctypes.Structure):
    """struct sock_filter of linux/filter.h. A jump skips so many instructions."""

    _fields_ = (("code", ctypes.c_ushort), ("if_true", ctypes.c_ubyte), ("if_not", ctypes.c_ubyte),
                ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("first", ctypes.POINTER(_Instruction)))


def _when(call, *rest):
    """The rest, if it is this call; it ends by an answer."""
    return [(_IF_EQUAL, 0, len(rest), call), *rest]


def _refused_for(place, *values):
    """Refuse if the argument is one of these, else allow."""
    lines = [(_LOAD, 0, 0, _argument(place))]
    for value in values:
        lines += [(_IF_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE)]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def _allowed_for(place, value):
    """Allow if the argument is this, else refuse."""
    return [(_LOAD, 0, 0, _argument(place)), (_IF_EQUAL, 1, 0, value), (_RETURN, 0, 0, _REFUSE),
            (_RETURN, 0, 0, _ALLOW)]


def _filter(machine, pid):
    """The instructions, each a code, how many to skip if it is true, how many if not, and a value."""
    number, column = _MACHINES[machine], list(_MACHINES).index(machine)
    lines = [(_LOAD, 0, 0, _MACHINE), (_IF_EQUAL, 1, 0, number), (_RETURN, 0, 0, _REFUSE),
             (_LOAD, 0, 0, _CALL), (_IF_MORE, 0, 1, _LAST), (_RETURN, 0, 0, _UNKNOWN),
             # clone3 hides its flags; without it, the C library takes clone
             *_when(_CLONE3[column], (_RETURN, 0, 0, _UNKNOWN))]
    for calls in REFUSED.values():
        for numbers in calls.values():
            if numbers[column] is not None:
                lines += _when(numbers[column], (_RETURN, 0, 0, _REFUSE))
    for call, rest in (
        (_CLONE, [(_LOAD, 0, 0, _argument(0)), (_IF_ANY_BIT, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _REFUSE),
                  (_RETURN, 0, 0, _ALLOW)]),
        (_KILL, _allowed_for(0, pid)), (_TGKILL, _allowed_for(0, pid)), (_PRLIMIT, _allowed_for(0, 0)),
        (_SET_SCHEDULER, _allowed_for(1, _SCHED_OTHER)),
        (_PRCTL, _refused_for(0, _PR_SET_PDEATHSIG)), (_FCNTL, _refused_for(1, _F_SETOWN, _F_SETOWN_EX)),
        (_IOCTL, _refused_for(1, _FIOSETOWN, _SIOCSPGRP, _TIOCSTI, _TIOCLINUX)),
        # a pair can reach nobody else, unless its ends may send to any address
        (_SOCKETPAIR, [(_LOAD, 0, 0, _argument(1)), (_AND, 0, 0, _KINDS_OF_SOCKETS),
                       (_IF_EQUAL, 1, 0, int(socket.SOCK_STREAM)), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]),
    ):
        lines += _when(call[column], *rest)
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def stands_here() -> bool:
    """If the filter is known for this machine; whether its kernel takes it is found out by trying."""
    return sys.platform.startswith("linux") and os.uname().machine in _MACHINES and sys.maxsize > 2**32


def raise_fence():
    """From here on: for this thread, and for those that it starts.

    Raises
    ------
    OSError
        If the kernel does not take it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    lines = _filter(os.uname().machine, os.getpid())
    program = _Program(len(lines), (_Instruction * len(lines))(*lines))
    if (libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            or libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")

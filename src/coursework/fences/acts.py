"""Forbidden acts, by the fence that has to stop them, tried in a process like a submission's. It judges nothing.

`probing.py` prepares what they aim at, starts them, and looks at it afterwards. Each act raises an error if it is
stopped. It is imported where submissions run, so it needs nothing but Python.
"""

import _thread
import contextlib
import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

__all__ = ["ACTS", "MARK", "tried"]

#: Stands where it must not be read.
MARK = "a mark that nobody behind the fences may read"
_MEGABYTE = bytes(2**20)
_libc = ctypes.CDLL(None, use_errno=True)


class Stopped(Exception):
    """The act did not fail, and did not do it either."""


def _call(result):
    """The result of a function of the C library; raises its error."""
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _system_call(name, *arguments):
    try:
        import seccomp  # beside it, where submissions run
    except ImportError:
        from . import seccomp

    for calls in seccomp.REFUSED.values():
        if name in calls:
            number = calls[name][list(seccomp._MACHINES).index(os.uname().machine)]
            return _call(_libc.syscall(number, *arguments))
    raise KeyError(name)


# --- memory ---


def allocate(aim):
    bytearray(aim["address_space"])


def map_memory(aim):
    mmap.mmap(-1, aim["address_space"]).close()


def raise_the_limit_of_memory(aim):
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    allocate(aim)


def make_a_file_of_memory(aim):
    os.close(os.memfd_create("memory"))


# --- time ---


def work_on(aim):
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while time.process_time() < aim["seconds"] + 2:
        pass


# --- processes ---


def _in_a_child(pid):
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def fork(aim):
    _in_a_child(os.fork())


def fork_by_another_call(aim):
    _in_a_child(_call(_libc.fork()))


def clone(aim):
    """Neither by the number of the call nor by the C library."""
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    _in_a_child(_call(_libc.syscall(number, ctypes.c_ulong(signal.SIGCHLD), None, None, None, None)))


def run_a_program(aim):
    subprocess.run([sys.executable, "-I", "-c", ""], check=True)


def spawn_a_program(aim):
    _in_a_child(os.posix_spawn(sys.executable, [sys.executable, "-I", "-c", ""], {}))


def start_threads(aim):
    """So many that the machine would feel it."""
    threading.stack_size(2**16)
    gate, count = threading.Lock(), 0
    gate.acquire()
    try:
        while count < aim["threads"]:
            _thread.start_new_thread(gate.acquire, ())  # `Thread.start` would wait for one that has no memory to begin
            count += 1
    except RuntimeError as error:
        raise Stopped(f"after {count} threads: {error}") from None
    finally:
        threading.stack_size(0)


# --- disk ---

_PLACES = (".", "/tmp", "/dev/shm", "/var/tmp", "/dev", "/run", "/")


def fill_the_disk(aim):
    """In all places together."""
    written, made = 0, []
    try:
        for place in _PLACES:
            with contextlib.suppress(OSError):
                for n in range(10**6):
                    made.append(os.path.join(place, f"coursework-filler-{os.getpid()}-{n}"))
                    with open(made[-1], "xb", buffering=0) as file:
                        for _ in range(8):
                            written += file.write(_MEGABYTE)
                            if written > aim["disk"]:
                                return
        raise Stopped(f"after {written} bytes")
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)


def make_files_without_number(aim):
    """Empty ones, which take the kernel's memory and no room on a disk."""
    made = []
    try:
        for place in (".", "/tmp", "/dev/shm"):
            with contextlib.suppress(OSError):
                while len(made) < aim["files"]:
                    path = os.path.join(place, f"coursework-empty-{os.getpid()}-{len(made)}")
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                    made.append(path)
        time.sleep(aim["until_counted"])
        if len(made) < aim["files"]:
            raise Stopped(f"after {len(made)} files")
    finally:
        for path in made:
            with contextlib.suppress(OSError):
                os.unlink(path)


# --- writing ---

_HERE = -100  # linux/fcntl.h, AT_FDCWD


def truncate(aim):
    os.truncate(aim["file"], 0)


def truncate_by_opening(aim):
    os.close(os.open(aim["file"], os.O_RDONLY | os.O_TRUNC))


def overwrite(aim):
    with open(aim["file"], "r+b") as file:
        file.write(b"other")


def append(aim):
    with open(aim["file"], "ab") as file:
        file.write(b"more")


def change_the_mode(aim):
    os.chmod(aim["file"], 0o600)


def change_the_time(aim):
    os.utime(aim["file"], (0, 0))


def change_the_mode_by_another_call(aim):
    _call(_libc.fchmodat(_HERE, aim["file"].encode(), 0o600, 0))


def change_the_time_by_another_call(aim):
    _call(_libc.utimes(aim["file"].encode(), None))


def change_an_attribute(aim):
    os.setxattr(aim["file"], "user.coursework", b"other")


def change_the_owner(aim):
    os.chown(aim["file"], 1, 1)


def link(aim):
    os.link(aim["file"], aim["file"] + "-linked")


def rename(aim):
    os.rename(aim["file"], aim["file"] + "-renamed")


def delete(aim):
    os.unlink(aim["file"])


def make_a_file(aim):
    with open(aim["file"] + "-made", "x", encoding="utf-8"):
        pass


def make_a_folder(aim):
    os.mkdir(aim["file"] + "-folder")


def make_a_link(aim):
    os.symlink("/", aim["file"] + "-link")


def open_the_courses_files_for_writing(aim):
    """Opened only, and closed again: these are real ones."""
    for path in aim["real"]:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            return
    raise Stopped


# --- reading ---


def _seen(text):
    if MARK not in text:
        raise Stopped


def read_a_file(aim):
    with open(aim["file"], encoding="utf-8") as file:
        _seen(file.read())


def list_a_folder(aim):
    os.listdir(os.path.dirname(aim["file"]))


def read_the_shadow_passwords(aim):
    with open("/etc/shadow", "rb") as file:
        file.read(1)


def read_the_courses_files(aim):
    for path in aim["real"]:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
            return
    raise Stopped


def read_the_environment_of_another(aim):
    with open(f"/proc/{aim['process']}/environ", encoding="utf-8") as file:
        _seen(file.read())


def read_the_command_of_another(aim):
    with open(f"/proc/{aim['process']}/cmdline", encoding="utf-8") as file:
        _seen(file.read())


def read_its_first_environment(aim):
    """What the grader's surroundings were, if they came along."""
    with open("/proc/self/environ", encoding="utf-8") as file:
        _seen(file.read())


def read_through_another(aim):
    with open(f"/proc/{aim['process']}/root{aim['file']}", encoding="utf-8") as file:
        _seen(file.read())


# --- network ---


def connect(aim):
    with socket.create_connection(("127.0.0.1", aim["tcp"])):
        pass


def send_a_datagram(aim):
    """Here is no error if it reaches nobody."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(b"datagram", ("127.0.0.1", aim["udp"]))
    raise Stopped


def speak_to_the_host_of_a_virtual_machine(aim):
    """There is such a network in virtual machines, and a network namespace does not hold it back."""
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


# --- sockets of files, and those with names that are in no folder ---


def connect_to_a_path(aim):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(aim["stream"])


def send_to_a_path(aim):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.sendto(b"datagram", aim["datagrams"])


def send_to_a_path_by_an_end_of_a_pair(aim):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        ours.sendto(b"datagram", aim["datagrams"])


def connect_to_a_name(aim):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("\0" + aim["abstract"])


# --- signals ---


def end_another(aim):
    os.kill(aim["process"], signal.SIGTERM)


def kill_another(aim):
    os.kill(aim["process"], signal.SIGKILL)


def kill_a_thread_of_another(aim):
    _call(_libc.tgkill(aim["process"], aim["process"], signal.SIGKILL))


def kill_another_by_a_handle(aim):
    handle = os.pidfd_open(aim["process"])
    signal.pidfd_send_signal(handle, signal.SIGKILL)


def queue_a_signal(aim):
    _call(_libc.sigqueue(aim["process"], signal.SIGTERM, None))


def have_the_kernel_signal_another(aim):
    """Whoever is named gets a signal when something can be read; here is no error if that is stopped."""
    import fcntl

    out, into = os.pipe()
    fcntl.fcntl(out, fcntl.F_SETOWN, aim["process"])
    fcntl.fcntl(out, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(into, b"now")
    raise Stopped


def signal_the_parent(aim):
    """Signal 0 does nothing, but is stopped as others are."""
    if os.getppid() == 0:
        raise Stopped("there is no parent here")
    os.kill(os.getppid(), 0)


def signal_the_grader(aim):
    os.kill(aim["grader"], 0)


def limit_another(aim):
    resource.prlimit(aim["process"], resource.RLIMIT_CORE, (0, 0))


def slow_another(aim):
    os.setpriority(os.PRIO_PROCESS, aim["process"], 10)


def trace_another(aim):
    attach = 16  # linux/ptrace.h, PTRACE_ATTACH
    _call(_libc.ptrace(attach, aim["process"], None, None))


# --- leftovers ---

_LEFT_IN = ("/dev/shm", "/tmp", "/var/tmp", "/run", "/run/lock", "/run/user", "/dev/mqueue", "/dev")
_KEY = 0x636F7572  # of what is shared by a number
_USERS_KEYRING = -4  # linux/keyctl.h, KEY_SPEC_USER_KEYRING
_IPC_CREAT, _SIZE = 0o1000, 64


def _left_paths(aim):
    return [os.path.join(place, "coursework-left") for place in (*_LEFT_IN, os.path.dirname(aim["left"]))]


def leave_files(aim):
    left = 0
    for path in _left_paths(aim):
        with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as file:
            left += file.write(MARK) > 0
    if not left:
        raise Stopped


def leave_shared_memory(aim):
    _call(_libc.shmget(_KEY, _SIZE, _IPC_CREAT | 0o666))


def leave_a_queue(aim):
    _call(_libc.msgget(_KEY, _IPC_CREAT | 0o666))


def leave_a_key(aim):
    _system_call("add_key", b"user", b"coursework-left", MARK.encode(), ctypes.c_size_t(len(MARK)),
                 ctypes.c_int(_USERS_KEYRING))


def find_files(aim):
    for path in _left_paths(aim):
        with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
            _seen(file.read())
            return
    raise Stopped


def find_shared_memory(aim):
    _call(_libc.shmget(_KEY, _SIZE, 0))


def find_a_queue(aim):
    _call(_libc.msgget(_KEY, 0))


def find_a_key(aim):
    search = 10  # linux/keyctl.h, KEYCTL_SEARCH
    _system_call("keyctl", search, ctypes.c_int(_USERS_KEYRING), b"user", b"coursework-left", ctypes.c_int(0))


def revoke_the_key(aim):
    """Afterwards, from outside."""
    search, revoke = 10, 3  # linux/keyctl.h, KEYCTL_SEARCH, KEYCTL_REVOKE
    key = _system_call("keyctl", search, ctypes.c_int(_USERS_KEYRING), b"user", b"coursework-left", ctypes.c_int(0))
    _system_call("keyctl", revoke, ctypes.c_int(key))


# --- privileges ---

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000  # linux/sched.h


def hold_capabilities(aim):
    """The bounding set alone is not looked at: it is of no use where no program can be run."""
    with open("/proc/self/status", encoding="utf-8") as file:
        held = [line.split() for line in file if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb"))]
    if not any(int(value, 16) for _, value in held):
        raise Stopped


def get_privileges_by_a_program(aim):
    """Programs with the privileges of others would give them."""
    no_new = 39  # linux/prctl.h, PR_GET_NO_NEW_PRIVS
    if _libc.prctl(no_new, 0, 0, 0, 0) == 1:
        raise Stopped


def become_root(aim):
    os.setuid(0)


def change_the_root_folder(aim):
    os.chroot("/")


def be_root_in_a_namespace(aim):
    _call(_libc.unshare(_CLONE_NEWUSER))


def have_mounts_of_its_own(aim):
    _call(_libc.unshare(_CLONE_NEWNS))


def name_the_machine(aim):
    """As it is named already."""
    socket.sethostname(socket.gethostname())


#: The acts that each fence has to stop, in the order in which they are tried.
ACTS = {
    "memory": (allocate, map_memory, make_a_file_of_memory, raise_the_limit_of_memory),
    "time": (work_on,),
    "processes": (fork, fork_by_another_call, clone, run_a_program, spawn_a_program, start_threads),
    "disk": (fill_the_disk,),
    "disk by number": (make_files_without_number,),
    "writing": (open_the_courses_files_for_writing, change_the_mode, change_the_mode_by_another_call, change_the_time,
                change_the_time_by_another_call, change_an_attribute, link, make_a_file, make_a_folder, make_a_link,
                append, overwrite, truncate_by_opening, truncate, change_the_owner, rename, delete),
    "reading": (read_a_file, list_a_folder, read_the_shadow_passwords, read_the_courses_files,
                read_the_environment_of_another, read_the_command_of_another, read_its_first_environment,
                read_through_another),
    "network": (connect, send_a_datagram, speak_to_the_host_of_a_virtual_machine),
    "sockets": (connect_to_a_path, send_to_a_path, send_to_a_path_by_an_end_of_a_pair, connect_to_a_name),
    "signals": (signal_the_parent, signal_the_grader, limit_another, slow_another, trace_another,
                have_the_kernel_signal_another, queue_a_signal, kill_another_by_a_handle, kill_a_thread_of_another,
                end_another, kill_another),
    "leftovers": (leave_files, leave_shared_memory, leave_a_queue, leave_a_key),
    "leftovers found": (find_files, find_shared_memory, find_a_queue, find_a_key),
    "privileges": (hold_capabilities, get_privileges_by_a_program, become_root, change_the_root_folder,
                   name_the_machine, have_mounts_of_its_own, be_root_in_a_namespace),
}


def tried(fence, aim) -> dict:
    """What came of each act of a fence: an empty text if it was possible, else why it was not."""
    found = {}
    for act in ACTS.get(fence, ()):
        try:
            act(aim)
            found[act.__name__] = ""
        except BaseException as error:  # whatever stops it
            number = errno.errorcode.get(getattr(error, "errno", None), "")
            found[act.__name__] = f"{type(error).__name__} {number} {error}".strip()[:200]
    return found

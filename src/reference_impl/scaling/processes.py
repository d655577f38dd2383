"""The processes of a run: this one among them, started by torchrun or alone, and several of them on this machine.

Nothing about training. A single process needs no process group, and gets none.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path

import torch
import torch.distributed as dist

from .. import _validation

__all__ = ["Process", "agreed", "joined", "run_processes", "this_process", "torchrun", "totals"]

_PATIENCE = 600.0  # seconds that a collective may take: one process may wait for another to read its data


@dataclass(frozen=True)
class Process:
    """One process of a run.

    Attributes
    ----------
    rank, world_size : int
        Its number, from 0, and how many there are.
    device : object
        Where it computes, a ``torch.device``.
    """

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")

    @property
    def leads(self) -> bool:
        """Whether it is the one that writes files."""
        return self.rank == 0


def this_process(device="cpu") -> Process:
    """This process in the group that it has joined, or as the only one.

    Examples
    --------
    >>> this_process()
    Process(rank=0, world_size=1, device=device(type='cpu'))
    """
    if not dist.is_initialized():
        return Process(device=torch.device(device))
    return Process(dist.get_rank(), dist.get_world_size(), torch.device(device))


@contextlib.contextmanager
def joined(device="cpu", *, store=None, rank=None, world_size=None, patience=_PATIENCE):
    """Join the other processes for the length of a ``with`` block: gloo on the CPU, NCCL on CUDA.

    What torchrun sets in the environment says who the others are. Without it, and without a store, this process is
    the only one, and no group is made.

    When torchrun starts killed processes again, it hands them the store in which the addresses of the killed ones
    still stand :claim:`torch-thread-135712`. So every start writes under a prefix of its own, the number of starts,
    which each machine counts for itself: with several machines set TORCH_DISABLE_SHARE_RDZV_TCP_STORE to 1 for
    torchrun, and no prefix is used.

    Parameters
    ----------
    device : "cpu" | "cuda"
        On CUDA a process takes the device of its local rank.
    store : path, optional
        A file through which processes of one machine find each other, instead of the environment.
    rank, world_size : int
        With ``store``.
    patience : float
        Seconds after which a collective gives up.

    Yields
    ------
    Process
    """
    _validation.check_choice("device", device, ("cpu", "cuda"))
    if store is None and "WORLD_SIZE" not in os.environ:
        yield Process(device=torch.device(device))
        return
    where = torch.device(device, int(os.environ.get("LOCAL_RANK", rank or 0))) if device == "cuda" else device
    url = "env://" if store is None else f"{Path(store).absolute().as_uri()}?rank={rank}&world_size={world_size}"
    meeting, rank, world_size = next(dist.rendezvous(url, timeout=timedelta(seconds=patience)))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        meeting = dist.PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", meeting)
    if device == "cuda":
        torch.cuda.set_device(where)
    dist.init_process_group({"cpu": "gloo", "cuda": "nccl"}[device], store=meeting, rank=rank, world_size=world_size,
                            timeout=timedelta(seconds=patience))
    try:
        yield this_process(where)
    finally:
        dist.destroy_process_group()


def totals(numbers):
    """Sums over all processes, which all of them must ask for.

    Parameters
    ----------
    numbers : (n,) tensor
        On the device of the process; int64 and float64 sums are exact as long as such numbers are.

    Returns
    -------
    list of n numbers

    Examples
    --------
    >>> totals(torch.tensor([3, 4]))
    [3, 4]
    """
    if dist.is_initialized():
        numbers = numbers.clone()
        dist.all_reduce(numbers)
    return numbers.tolist()


def agreed(name, value):
    """The value, if all processes hold the same one; else all of them raise. All must ask.

    Parameters
    ----------
    name : str
        For the message.
    value : str, int, tuple of these
        Small: every process sends it to every other one.

    Raises
    ------
    ValueError

    Examples
    --------
    >>> agreed("plan", "5a3f")
    '5a3f'
    """
    if dist.is_initialized():
        values = [None] * dist.get_world_size()
        dist.all_gather_object(values, value)
        other = next((rank for rank, each in enumerate(values) if each != values[0]), None)
        if other is not None:
            raise ValueError(f"{name} = {values[other]!r} on rank {other}; expected {values[0]!r}, as on rank 0")
    return value


def run_processes(function, world_size, *arguments, timeout=900.0):
    """Call a function in several processes on this machine, joined by gloo, and return what it returned in each.

    No port is chosen: the processes meet through a file. Each has one thread. If one fails, or time runs out, all are
    killed.

    Parameters
    ----------
    function : callable
        ``function(process, *arguments)``; of a module that the others can import, as are the arguments' types.
    world_size : int
    arguments
        Sent to every process.
    timeout : float
        Seconds for all of it.

    Returns
    -------
    list of ``world_size`` results

    Raises
    ------
    RuntimeError
        With the traceback of the first process that failed.
    """
    world_size = _validation.check_at_least("world_size", world_size, 1)
    with tempfile.TemporaryDirectory() as folder, _environment():
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=_child, args=(folder, rank, world_size, timeout, function, arguments),
                                     daemon=True) for rank in range(world_size)]
        try:
            for each in processes:
                each.start()
            late = _wait(processes, time.monotonic() + timeout)
        finally:
            for each in processes:
                if each.pid is not None:
                    each.kill()
                    each.join()
        outcomes = [_outcome(Path(folder), rank) for rank in range(world_size)]
        failed = [(rank, text) for rank, (done, text) in enumerate(outcomes) if not done]
        if failed:
            # a process that stops takes others with it, which then complain of a lost connection: first come, first
            rank, text = min(failed, key=lambda each: _when(Path(folder), each[0]))
            raise RuntimeError(f"the process of rank {rank} of {world_size} " + (
                f"failed:\n{text}" if text else f"did not end in {timeout} seconds" if late else "was killed"))
        return [result for _, result in outcomes]


def torchrun(world_size, module, arguments=(), *, restarts=0, timeout=900.0):
    """Run a program in several processes on this machine by torchrun, as on a cluster but for the addresses.

    Torchrun itself chooses a port that is free (``--standalone``). None of its processes is left when this returns.

    Parameters
    ----------
    world_size : int
    module : str
        As after ``python -m``.
    arguments : sequence of str
    restarts : int
        How often all processes are started again after one has failed.
    timeout : float
        Seconds; after them all is ended, and ``subprocess.TimeoutExpired`` raised.

    Returns
    -------
    status : int
        0, if all processes ended well.
    printed : str
        By all of them, errors included.

    """
    world_size = _validation.check_at_least("world_size", world_size, 1)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world_size),
               "--max-restarts", str(restarts), "-m", module, *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as printed, _environment():
        started = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        try:
            status = started.wait(timeout)
        finally:
            if started.poll() is None:
                started.terminate()  # it ends its processes, which are in sessions of their own
                started.wait(60.0)
        printed.seek(0)
        return status, printed.read()


@contextlib.contextmanager
def _environment():
    """One thread for each of the processes that are started here, and the loopback interface for what they say."""
    wanted = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if "GLOO_SOCKET_IFNAME" not in os.environ and Path("/sys/class/net/lo").exists():
        wanted["GLOO_SOCKET_IFNAME"] = "lo"  # a host's name may lead nowhere
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _child(folder, rank, world_size, timeout, function, arguments):
    torch.set_num_threads(1)
    try:
        with joined(store=Path(folder, "store"), rank=rank, world_size=world_size, patience=timeout) as process:
            result = True, function(process, *arguments)
    except BaseException:
        result = False, traceback.format_exc()
    partial = Path(folder, f"{rank}.part")
    partial.write_bytes(pickle.dumps(result))
    partial.rename(Path(folder, f"{rank}.pickle"))
    if not result[0]:
        os._exit(1)


def _wait(processes, deadline):
    """Until all have ended, or one with an error; True if time runs out."""
    running = {each.sentinel: each for each in processes}
    while running:
        ended = wait(running, timeout=max(0.0, deadline - time.monotonic()))
        if not ended:
            return True
        if any(running.pop(each).exitcode for each in ended):
            wait(running, timeout=2.0)  # so that others can say what they saw
            return False
    return False


def _outcome(folder, rank):
    path = folder / f"{rank}.pickle"
    return pickle.loads(path.read_bytes()) if path.exists() else (False, None)


def _when(folder, rank):
    path = folder / f"{rank}.pickle"
    return path.stat().st_mtime_ns if path.exists() else float("inf")

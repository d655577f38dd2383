"""Checkpoints: written whole or not at all, read only if nothing in them has changed, the last few kept. No training.

A file is a line that says what it is, a line with the SHA-256 of the rest, and the rest: what ``torch.save`` makes of a
dict of tensors and plain values. It is loaded without running any code that a file might bring.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import re
import signal
from pathlib import Path

import numpy as np
import torch

from .. import _validation

__all__ = ["Checkpoints", "DamagedCheckpoint", "digest_of", "random_state", "restore_random_state"]

_HEAD = b"reference_impl checkpoint 1\n"
_NAME = re.compile(r"step_(\d{9,})\.checkpoint")


class DamagedCheckpoint(ValueError):
    """A file that is no checkpoint, is not complete, or is not what was written."""


class Checkpoints:
    """The checkpoints of a run, in a folder that all its processes see.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    keep : int
        How many of the newest stay. With 1, nothing is left if the only one is damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = Checkpoints(folder, keep=2)
    ...     for step in (10, 20, 30):
    ...         path = checkpoints.save(step, {"weight": torch.full((2,), float(step))})
    ...     _ = path.write_bytes(path.read_bytes()[:-1])  # the newest loses its last byte
    ...     path, state, refused = checkpoints.newest()
    ...     [each.name for each in checkpoints.paths()], state["weight"].tolist(), len(refused)
    (['step_000000020.checkpoint', 'step_000000030.checkpoint'], [20.0, 20.0], 1)
    """

    def __init__(self, folder, *, keep=3):
        self.folder, self.keep = Path(folder), _validation.check_at_least("keep", keep, 1)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._read_back = False

    def save(self, step: int, state: dict, *, killed_halfway=False) -> Path:
        """Write a state, and delete what is older than the newest ``keep``.

        The bytes go into a temporary file, and are on the disk before it takes its name; so is the name, before this
        returns. Whenever the process ends, there is the whole file or none. The first state of a process is read back
        before it is written: one that could not be loaded is refused when it is made, not when it is needed.

        Parameters
        ----------
        step : int
        state : dict
            Of tensors, numbers, strings, None, and lists, tuples and dicts of these.
        killed_halfway : bool
            For a test of what this class promises: the process kills itself when half of the bytes are written.

        Returns
        -------
        path
        """
        step = _validation.check_at_least("step", step, 0)
        buffer = io.BytesIO()
        torch.save(state, buffer)
        payload = buffer.getvalue()
        if not self._read_back:
            _unpacked(payload, "state")
            self._read_back = True
        path = self.folder / f"step_{step:09}.checkpoint"
        temporary = path.with_suffix(f".{os.getpid()}.part")
        data = _HEAD + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
        with open(temporary, "wb") as file:
            if killed_halfway:
                file.write(data[:len(data) // 2])
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        self._sync_names()
        for old in self.paths()[:-self.keep]:
            old.unlink()
        for left in self.folder.glob("step_*.part"):  # of processes that were killed: the writer of today has none
            left.unlink()
        return path

    def paths(self) -> list[Path]:
        """The files with the name of a checkpoint, the oldest first."""
        found = {int(match[1]): path for path in self.folder.iterdir() if (match := _NAME.fullmatch(path.name))}
        return [found[step] for step in sorted(found)]

    def load(self, path) -> dict:
        """The state in a file.

        Raises
        ------
        DamagedCheckpoint
            Naming the file and what is wrong with it.
        """
        path = Path(path)
        data = path.read_bytes()
        if not data.startswith(_HEAD):
            raise DamagedCheckpoint(f"{path.name} begins with {data[:len(_HEAD)]!r}; expected {_HEAD!r}")
        digest, _, payload = data[len(_HEAD):].partition(b"\n")
        found = hashlib.sha256(payload).hexdigest()
        if found.encode() != digest:
            raise DamagedCheckpoint(f"{path.name} has {len(data)} bytes with SHA-256 {found}; "
                                    f"expected {digest[:64].decode(errors='replace')}, as its head says")
        return _unpacked(payload, path.name)

    def newest(self):
        """The newest checkpoint that is whole.

        Returns
        -------
        path : Path or None
        state : dict or None
        refused : list of str
            What is wrong with newer ones.
        """
        refused = []
        for path in reversed(self.paths()):
            try:
                return path, self.load(path), refused
            except DamagedCheckpoint as error:
                refused.append(str(error))
        return None, None, refused

    def _sync_names(self):
        """A new name is on the disk when its folder is."""
        if os.name == "nt":  # where folders cannot be opened
            return
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _unpacked(payload, name):
    try:
        return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception as error:
        raise DamagedCheckpoint(f"{name} cannot be loaded: {str(error).splitlines()[0]}; expected tensors, numbers, "
                                "strings, None, and lists, tuples and dicts of these") from error


def digest_of(tensors) -> str:
    """SHA-256 of names, dtypes, shapes and bits of tensors, as hexadecimal digits: equal for equal bits only.

    Parameters
    ----------
    tensors : mapping from names to tensors

    Examples
    --------
    >>> zero = {"a": torch.zeros(2)}
    >>> digest_of(zero) == digest_of({"a": torch.zeros(2)}), digest_of(zero) == digest_of({"a": -torch.zeros(2)})
    (True, False)
    """
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def random_state() -> dict:
    """Where the random numbers of Python, NumPy and torch stand in this process, those of its CUDA device included.

    Generators that a program made for itself are its own to save.

    Returns
    -------
    dict
        Of tensors and plain values, as :meth:`Checkpoints.save` takes it.

    Examples
    --------
    >>> def drawn():
    ...     return random.random(), float(np.random.rand()), torch.rand(1).item()
    >>> state = random_state()
    >>> first = drawn()
    >>> restore_random_state(state)
    >>> drawn() == first
    True
    """
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state()
    state = {"python": [version, list(words), gauss], "torch": torch.get_rng_state(),
             "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached]}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_random_state(state: dict) -> None:
    """Let the random numbers go on from where :func:`random_state` found them."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])

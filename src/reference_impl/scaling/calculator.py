"""What a loss takes: memory and processor time from B, T, U and V, predicted from what the code does. No GPU's times.

Memory is counted array by array, as the backends in ``torch_impl`` allocate them. Time is a sum of four terms whose
factors are fitted to measurements in ``data/``. Both are predictions, and the tests compare them with measurements.
"""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from dataclasses import dataclass

import numpy as np
import torch

from .. import _validation
from ..torch_impl import ctc_loss, rnnt_loss

__all__ = ["BACKENDS", "DTYPES", "LossMemory", "Speeds", "fitted_speeds", "measured_memory", "memory_of_loss",
           "seconds_of_loss"]

#: Which code runs: NumPy on the CPU, kernels on CUDA, or tensor operations where there are no kernels.
BACKENDS = ("numpy", "triton", "tensor")
#: Of the logits, with the bytes of one of them.
DTYPES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}

_BLOCK, _CHUNK = 65536, 32768  # numbers that the dense part, and the way back of RNN-T's lattice, handle at a time
_SPAN = 32  # steps between changes of exponents in the sweeps; up to 64, fewer for small weights


@dataclass(frozen=True)
class LossMemory:
    """Bytes that a loss adds to the logits, predicted.

    Attributes
    ----------
    logits : int
        Of the logits themselves, which are not counted below.
    forward : int
        At the peak of the forward pass.
    kept : int
        From the forward pass to the backward pass.
    backward : int
        At the peak of the backward pass, what was kept and the gradient included.
    """

    logits: int
    forward: int
    kept: int
    backward: int

    @property
    def peak(self) -> int:
        """The larger of both passes."""
        return max(self.forward, self.backward)


def memory_of_loss(loss, B, T, U, V, *, dtype="float32", backend="numpy", overwrite_logits=False) -> LossMemory:
    """The bytes that a loss and its gradient add to the logits, if all utterances have T frames and U labels.

    Small things are left out: targets, lengths, and what there is once for each utterance.

    Parameters
    ----------
    loss : "ctc" | "rnnt"
    B, T, U, V : int
    dtype : "float16" | "bfloat16" | "float32" | "float64"
        Of the logits.
    backend : "numpy" | "triton" | "tensor"
    overwrite_logits : bool
        As for the losses: the gradient takes the memory of the logits.

    Returns
    -------
    LossMemory

    Examples
    --------
    >>> memory = memory_of_loss("rnnt", 1, 1500, 300, 500)
    >>> memory.logits, round(memory.peak / memory.logits, 2)
    (903000000, 1.04)
    """
    _validation.check_choice("loss", loss, ("ctc", "rnnt"))
    _validation.check_choice("dtype", dtype, tuple(DTYPES))
    _validation.check_choice("backend", backend, BACKENDS)
    B, T, V = (_validation.check_at_least(name, size, 1) for name, size in (("B", B), ("T", T), ("V", V)))
    U = _validation.check_at_least("U", U, 0)
    size = DTYPES[dtype]
    logits = size * B * T * V * (1 if loss == "ctc" else U + 1)
    function = {"numpy": _numpy_bytes, "triton": _triton_bytes, "tensor": _tensor_bytes}[backend]
    return LossMemory(logits, *function(loss, B, T, U, V, size, logits, bool(overwrite_logits)))


def _numpy_bytes(loss, B, T, U, V, size, logits, overwrite):
    """``numpy_ops`` and ``sweeps``. One utterance at a time is widened, exponentiated, turned into a gradient."""
    lanes = 1 + B * (U + 1)
    steps = T + 1 if loss == "ctc" else T + U
    rows = T if loss == "ctc" else T * (U + 1)  # of one utterance
    half, c = size == 2, 8 if size == 8 else 4
    exps = 0 if half or overwrite else logits
    lattice = 16 * steps * lanes  # two float64 numbers for each lane
    # exponents, and for CTC the ratios of three moves, for each span
    spans = (8 + (24 if loss == "ctc" else 0)) * lanes * steps // _SPAN
    alpha = 0 if loss == "ctc" else 8 * steps * lanes + 8 * min(_CHUNK, steps * lanes)
    log_probs = 16 * (T * U + T if loss == "ctc" else rows) * 2  # with one temporary each
    one = logits // B
    widened = 4 * one if half else 0  # float32: of an utterance, while the last one's is still there
    block = 0 if exps else c * min(_BLOCK, one // size)
    forward = exps + 16 * B * rows + max(widened + block, lattice + spans + alpha + max(log_probs, widened))
    kept = exps + 8 * B * rows + lattice
    weights = 24 * T * U if loss == "ctc" else 40 * rows
    gradient = (0 if overwrite else logits) + widened + one if half else 0
    return forward, kept, kept + gradient + max(weights, 2 * block)


def _triton_bytes(loss, B, T, U, V, size, logits, overwrite):
    """``triton_backend``: what it allocates; the kernels themselves need no memory."""
    c = 8 if size == 8 else 4  # bytes of what is computed beside the logits
    gradient = 0 if overwrite else logits
    if loss == "rnnt":
        nodes = B * (T + U) * (U + 1)
        small = B * (8 + c)  # log Z, and the losses
        return (6 * c + 8) * nodes + small, 4 * c * nodes + 8 * B, (4 + 2) * c * nodes + 8 * B + gradient
    frames, states = B * T, B * T * (U + 1)
    weights = (c + 4) * (frames + frames * U)
    kept = 2 * c * frames + 5 * c * states + 2 * c * B + 8 * B
    return kept + weights + c * B, kept, kept + 2 * c * states + gradient


def _tensor_bytes(loss, B, T, U, V, size, logits, overwrite):
    """``tensor_ops``, ``log_probs`` and ``grid``. Sums of rows in float64 widen all logits at once."""
    c = 8 if size == 8 else 4
    numbers = logits // size
    arcs, rows, nodes, fronts = (3, 2 * U + 1, B * T * (2 * U + 1), T + 1) if loss == "ctc" else (
        2, U + 1, B * T * (U + 1), T + U + 1)
    chosen = 2 * U + 1 if loss == "ctc" else 2
    widened = c * numbers * (size == 2)
    softmax = c * numbers + (0 if c == 8 else 8 * numbers)  # exponentials, and the same in float64 to add them up
    gathered = (8 + 8 + 1) * B * T * (chosen if loss == "ctc" else 2 * (U + 1))  # index of CTC's states is a view
    grid = B * rows * fronts
    masses = (c + 8) * (B * T if loss == "ctc" else nodes)
    scores = 8 * arcs * nodes if loss == "ctc" else gathered * 8 // 17
    kept = masses + gathered * 8 // 17 + scores + nodes + 8 * arcs * grid
    forward = max(widened + softmax, masses + gathered + scores + 8 * (2 * arcs + 1) * grid)
    gradient = c * numbers + (logits if size == 2 and not overwrite else 0)
    if overwrite and size != 2:
        gradient = 0
    # the lattice's way back is over when the gradient is made, but for what flows to each arc
    return forward, kept, kept + max(8 * (arcs + 1) * grid + 8 * arcs * nodes, gradient + 8 * arcs * nodes)


def measured_memory(loss, B, T, U, V, *, dtype="float32", overwrite_logits=False, seed=0) -> dict:
    """The same, measured here, for the NumPy backend: the arrays that ``tracemalloc`` saw.

    The copies of half precision, and what tensor operations allocate, are out of its sight: their memory has to be
    that of a process, which ``benchmarks/scaling.py`` asks for.

    Parameters
    ----------
    loss, B, T, U, V, overwrite_logits
        As for :func:`memory_of_loss`.
    dtype : "float32" | "float64"
    seed : int

    Returns
    -------
    dict
        Bytes: "forward" and "backward", peaks, and "kept".

    Examples
    --------
    >>> found, said = measured_memory("ctc", 4, 50, 5, 2000), memory_of_loss("ctc", 4, 50, 5, 2000)
    >>> 0.9 < found["backward"] / said.backward < 1.1
    True
    """
    _validation.check_choice("dtype", dtype, ("float32", "float64"))
    _traced(loss, _problem(loss, 1, 2, 1, 3, dtype, 0), overwrite_logits)  # imports on the way are not the loss's
    return _traced(loss, _problem(loss, B, T, U, V, dtype, seed), overwrite_logits)


def _traced(loss, problem, overwrite):
    leaf, arguments = problem
    logits, function = leaf * 1, {"ctc": ctc_loss, "rnnt": rnnt_loss}[loss]
    with _numpy_memory() as now_and_peak:
        value = function(logits, *arguments, reduction="sum", backend="torch", overwrite_logits=overwrite)
        kept, forward = now_and_peak()
        torch.autograd.grad(value, leaf if overwrite else logits)
        return {"forward": forward, "kept": kept, "backward": now_and_peak()[1]}


@contextlib.contextmanager
def _numpy_memory():
    """A function that returns the bytes of NumPy's arrays made since here: now, and at the peak since it was called."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]

    def now_and_peak():
        found = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        return tuple(each - before for each in found)

    try:
        yield now_and_peak
    finally:
        tracemalloc.stop()


def _problem(loss, B, T, U, V, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    shape = (B, T, V) if loss == "ctc" else (B, T, U + 1, V)
    leaf = torch.randn(shape, generator=generator).to(getattr(torch, dtype)).requires_grad_()
    targets = torch.arange(U).remainder(max(V - 1, 1)).add(1).expand(B, U).contiguous()
    return leaf, (targets, torch.full((B,), T), torch.full((B,), U))


@dataclass(frozen=True)
class Speeds:
    """How long the NumPy backend takes for its parts: loss and gradient together, one thread, float32 logits.

    Attributes
    ----------
    logit : float
        Seconds for each of the logits: exponentials, sums, gradient.
    lane : float
        Seconds for each number of the lattice: two for each of U + 1 lanes, in T steps for CTC, T + U for RNN-T.
    step : float
        Seconds for each step of a sweep, however many lanes it has: the interpreter's share.
    call : float
        Seconds for each call.
    """

    logit: float
    lane: float
    step: float
    call: float


def _terms(loss, B, T, U, V):
    steps = T if loss == "ctc" else T + U
    return np.array([B * T * V * (1 if loss == "ctc" else U + 1), 2 * B * (U + 1) * steps, steps, 1], np.float64)


def fitted_speeds(rows) -> Speeds:
    """The speeds that explain measured times best: relative errors squared, no speed below 0.

    Parameters
    ----------
    rows : sequence of (loss, (B, T, U, V), seconds)
        Of both losses alike: the parts are the same code. At least four, of different shapes.

    Returns
    -------
    Speeds

    Examples
    --------
    >>> true = Speeds(3e-9, 2e-8, 1e-5, 1e-3)
    >>> shapes = [("ctc", (2, 60, 10, 28)), ("ctc", (16, 500, 60, 32)), ("rnnt", (16, 150, 40, 28)),
    ...           ("rnnt", (4, 300, 60, 500)), ("rnnt", (1, 1500, 300, 50))]
    >>> found = fitted_speeds([(loss, shape, seconds_of_loss(loss, *shape, speeds=true)) for loss, shape in shapes])
    >>> round(found.logit * 1e9, 6), round(found.call * 1e3, 6)
    (3.0, 1.0)
    """
    if len(rows) < 4:
        raise ValueError(f"rows has {len(rows)} entries; expected four at least, for there are four speeds")
    X = np.array([_terms(loss, *shape) / seconds for loss, shape, seconds in rows])
    best = None
    for count in range(1, 5):  # every choice of speeds that are not 0: there are fifteen
        for used in itertools.combinations(range(4), count):
            found = np.linalg.lstsq(X[:, used], np.ones(len(X)), rcond=None)[0]
            error = float(((X[:, used] @ found - 1) ** 2).sum())
            if (found >= 0).all() and (best is None or error < best[0]):
                best = error, used, found
    speeds = np.zeros(4)
    speeds[list(best[1])] = best[2]
    return Speeds(*speeds.tolist())


def seconds_of_loss(loss, B, T, U, V, *, speeds: Speeds) -> float:
    """How long loss and gradient take on one CPU core, predicted: each speed times what there is of it.

    Parameters
    ----------
    loss : "ctc" | "rnnt"
    B, T, U, V : int
    speeds : Speeds

    Returns
    -------
    float

    Examples
    --------
    >>> seconds_of_loss("ctc", 1, 10, 2, 5, speeds=Speeds(1.0, 0.0, 0.0, 0.5))
    50.5
    """
    _validation.check_choice("loss", loss, ("ctc", "rnnt"))
    return float(_terms(loss, B, T, U, V) @ np.array([speeds.logit, speeds.lane, speeds.step, speeds.call]))

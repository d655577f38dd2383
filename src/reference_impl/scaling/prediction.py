"""A training run on many GPUs, on paper: every number in it follows from assumptions with names. Nothing was measured.

It answers what dominates, and what does not fit, before anybody pays for a machine. Change an assumption and see. What
is left out makes a run longer than predicted: the part of attention that grows with the square of T, operations on
single numbers, reading data, evaluation, and whatever breaks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from .. import _validation
from ..measuring.kernel_shapes import lattice_bytes
from .calculator import memory_of_loss

__all__ = ["Assumptions", "Prediction", "predict"]


@dataclass(frozen=True)
class Assumptions:
    """What :func:`predict` takes for granted. Nobody measured any of these; they are round numbers to be replaced.

    Attributes
    ----------
    loss : str
        ``"ctc"`` or ``"rnnt"``.
    hours : float
        Of speech in the corpus.
    epochs : float
    utterance_seconds : float
        Of each utterance, as if all were equally long; ``padding`` and ``idle`` are for what they are not.
    frames_per_second : float
    stride : int
        Frames that the encoder merges into one, before most of its work.
    labels_per_second : float
    num_symbols : int
        V.
    padding : float
        Share of the frames of a batch that are padding.
    idle : float
        Share of the time in which a GPU waits for the largest batch of a step.
    gpus : int
    batch_seconds : float
        Of speech in a batch of one GPU.
    parameters : float
        Of the encoder, all of them used once in each of its frames.
    width : int
        H of the joiner, for RNN-T.
    flops : float
        Of a GPU in a second, at best.
    flops_share : float
        What a network makes of them.
    flops_per_use : float
        For each use of a parameter: a product and a sum, forward, and twice that backward.
    bandwidth : float
        Bytes that a GPU moves from and to its memory in a second, at best.
    bandwidth_share : float
        What a kernel makes of it.
    sweep_step : float
        Seconds for one step of a lattice's sweep, however few lanes it has.
    exchange : float
        Bytes that a GPU sends in a second, to all others together.
    overlap : float
        Share of the exchange that goes on while gradients are being computed.
    overhead : float
        Seconds of a step in which nothing else happens: loading, launching, the optimiser.
    logit_dtype : str
    gradient_bytes : float
        Of one parameter's gradient, as it is exchanged.
    bytes_per_parameter : float
        In memory: float32 weight, gradient and two moments of Adam.
    activations_per_frame : float
        Bytes that the encoder keeps of each of its frames for the backward pass.
    memory : float
        Bytes of a GPU.
    """

    loss: str = "rnnt"
    hours: float = 1000.0
    epochs: float = 30.0
    utterance_seconds: float = 12.0
    frames_per_second: float = 100.0
    stride: int = 4
    labels_per_second: float = 3.5
    num_symbols: int = 500
    padding: float = 0.1
    idle: float = 0.05
    gpus: int = 64
    batch_seconds: float = 240.0
    parameters: float = 80e6
    width: int = 512
    flops: float = 300e12
    flops_share: float = 0.2
    flops_per_use: float = 6.0
    bandwidth: float = 2e12
    bandwidth_share: float = 0.6
    sweep_step: float = 2e-6
    exchange: float = 20e9
    overlap: float = 0.5
    overhead: float = 0.05
    logit_dtype: str = "bfloat16"
    gradient_bytes: float = 4.0
    bytes_per_parameter: float = 16.0
    activations_per_frame: float = 400e3
    memory: float = 80e9


@dataclass(frozen=True)
class Prediction:
    """What follows from assumptions. Nothing here was measured, and ``str`` says so in every line.

    Attributes
    ----------
    assumptions : Assumptions
    shape : tuple
        (B, T, U, V) of a GPU's batch, padding included.
    steps : int
        Of an epoch.
    seconds : dict
        Of one step: "encoder", "joiner", "logits" (the passes over them), "lattice", "exchange" (what is not
        overlapped), "overhead"; "idle" is what these lose by waiting.
    bytes : dict
        Of one GPU: "parameters", "activations", "joiner", "logits", "loss" (what it adds to the logits, at its peak).
    """

    assumptions: Assumptions
    shape: tuple
    steps: int
    seconds: dict
    bytes: dict

    @property
    def hours(self) -> float:
        """Of the whole training, by the clock on the wall."""
        return self.assumptions.epochs * self.steps * sum(self.seconds.values()) / 3600

    @property
    def fits(self) -> bool:
        """Whether the memory of a GPU is enough."""
        return sum(self.bytes.values()) <= self.assumptions.memory

    def __str__(self):
        whole, memory = sum(self.seconds.values()), sum(self.bytes.values())
        lines = [f"{self.assumptions.hours:g} hours on {self.assumptions.gpus} GPUs, {self.assumptions.loss}: "
                 f"{self.hours:.2f} hours for {self.assumptions.epochs:g} epochs of {self.steps} steps",
                 f"(B, T, U, V) = {self.shape} on a GPU"]
        lines += [f"step: {1e3 * part:8.2f} ms {part / whole:6.1%}  {name}" for name, part in self.seconds.items()]
        lines += [f"memory: {part / 1e9:7.2f} GB {part / memory:6.1%}  {name}" for name, part in self.bytes.items()]
        lines.append(f"memory: {memory / 1e9:7.2f} GB of {self.assumptions.memory / 1e9:g}: "
                     + ("it fits" if self.fits else "it does not fit"))
        return "\n".join(f"predicted: {line}" for line in lines)


def predict(assumptions: Assumptions) -> Prediction:
    """Time and memory of a training run, from assumptions alone.

    The loss is that of the Triton kernels. Its time is what it moves, over the bandwidth: the logits twice and the
    gradient once, and what the lattice takes beside them, as :mod:`reference_impl.measuring.kernel_shapes` counts it;
    and the steps of the two sweeps, which follow one another. Its memory is that of :func:`.calculator.memory_of_loss`.
    The gradients travel by a ring, in which each GPU sends 2 (W - 1) / W times their bytes.

    Parameters
    ----------
    assumptions : Assumptions

    Returns
    -------
    Prediction

    Raises
    ------
    ValueError, TypeError
        Naming the assumption, its value and the rule.

    Examples
    --------
    >>> prediction = predict(Assumptions(hours=100.0, gpus=8))
    >>> prediction.shape, prediction.steps, prediction.fits
    ((20, 334, 42, 500), 188, True)
    >>> str(prediction).splitlines()[1]
    'predicted: (B, T, U, V) = (20, 334, 42, 500) on a GPU'
    """
    a = _checked(assumptions)
    B = max(1, round(a.batch_seconds / a.utterance_seconds))
    T = math.ceil(a.utterance_seconds * a.frames_per_second / a.stride / (1 - a.padding))
    U, V = max(1, round(a.utterance_seconds * a.labels_per_second)), a.num_symbols
    steps = math.ceil(a.hours * 3600 / (a.utterance_seconds * B * a.gpus))
    memory = memory_of_loss(a.loss, B, T, U, V, dtype=a.logit_dtype, backend="triton")
    joined = B * T * (U + 1 if a.loss == "rnnt" else 1)
    speed, rate = a.flops * a.flops_share, a.bandwidth * a.bandwidth_share
    lattice = B * sum(lattice_bytes(a.loss, T, U).values())
    sent = 2 * (a.gpus - 1) / a.gpus * a.parameters * a.gradient_bytes
    network = a.flops_per_use * B * T * a.parameters / speed
    seconds = {
        "encoder": network,
        # of CTC, where there is no joiner, the map to the logits
        "joiner": a.flops_per_use * joined * a.width * V / speed,
        "logits": 3 * memory.logits / rate,
        "lattice": lattice / rate + 2 * (T + (U if a.loss == "rnnt" else 0)) * a.sweep_step,
        "exchange": (1 - a.overlap) * sent / a.exchange,
        "overhead": a.overhead}
    seconds["idle"] = sum(seconds.values()) * a.idle / (1 - a.idle)
    size = memory.logits // (joined * V)
    held = {"parameters": a.parameters * a.bytes_per_parameter, "activations": B * T * a.activations_per_frame,
            "joiner": 2 * joined * a.width * size if a.loss == "rnnt" else 0,  # what the tanh takes, and what it gives
            "logits": memory.logits, "loss": memory.peak}
    return Prediction(a, (B, T, U, V), steps, seconds, held)


def _checked(assumptions):
    for each in fields(assumptions):
        value = getattr(assumptions, each.name)
        if each.name in ("stride", "gpus", "width", "num_symbols"):
            _validation.check_at_least(each.name, value, 1)
        elif each.name in ("padding", "idle", "overlap"):
            _validation.check_real(each.name, value, "0 <= share < 1", lambda share: 0 <= share < 1)
        elif each.name in ("flops_share", "bandwidth_share"):
            _validation.check_real(each.name, value, "0 < share <= 1", lambda share: 0 < share <= 1)
        elif each.name not in ("loss", "logit_dtype"):
            _validation.check_real(each.name, value, "a number > 0", lambda number: number > 0)
    _validation.check_choice("loss", assumptions.loss, ("ctc", "rnnt"))
    return assumptions

"""The training loop: steps from a plan, in any number of processes, that go on after an interruption to the same bits.

It chooses no network, no data and no optimiser; :mod:`.run` does. A step is that of the loop in one process,
:func:`reference_impl.networks.training.descend`.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from .. import _validation
from ..networks.training import descend
from .checkpoints import Checkpoints, digest_of, random_state, restore_random_state
from .gradients import UtteranceLosses, data_parallel, step_backward
from .precision import autocast_of, dtype_of
from .processes import agreed

__all__ = ["Kill", "Training", "train"]


@dataclass(frozen=True)
class Kill:
    """A rank that kills itself once, to see what is left of the run.

    Attributes
    ----------
    rank, step : int
        Which process, and in which step, counted from 1.
    where : str
        ``"backward"``: in the middle of that pass, with the others waiting for its gradients. ``"checkpoint"``: with
        half of the step's checkpoint written.
    """

    rank: int
    step: int
    where: str = "backward"

    def __post_init__(self):
        _validation.check_choice("where", self.where, ("backward", "checkpoint"))


class Training:
    """A training run in one process of several: its parts, its place in the data, and steps.

    Parameters
    ----------
    network : nn.Module
        On the device of ``process``; is given the dtype that ``precision`` asks for.
    losses : function
        As for :class:`.gradients.UtteranceLosses`.
    examples : sequence of Example
        The whole corpus, in every process.
    buckets : LengthBuckets
        Its batches of a step are divided evenly among the processes: their number is a multiple of theirs.
    optimiser_of : function
        Of the network: an optimiser and a schedule, whose ``step`` is called after each step.
    process : Process
    divisor, reduction
        As for :func:`.gradients.step_backward`.
    precision : "float64" | "float32" | "bfloat16"
    largest_norm : float
        As for :func:`reference_impl.networks.training.descend`.
    settings : dict of plain values, optional
        What else makes this run another one: a checkpoint of other settings is refused.

    Attributes
    ----------
    step, epoch, start : int
        Steps made, and the place in the data: step ``start`` of the epoch's plan is next.
    """

    def __init__(self, network, losses, examples, buckets, optimiser_of, process, *, divisor="utterances",
                 reduction="mean", precision="float32", largest_norm=5.0, settings=None):
        if buckets.batches_a_step % process.world_size:
            raise ValueError(f"batches_a_step = {buckets.batches_a_step}; expected a multiple of "
                             f"{process.world_size}, the number of processes")
        if not len(examples):
            raise ValueError("examples has no entries; expected one at least")
        self.network, self.examples, self.buckets, self.process = network, examples, buckets, process
        self.divisor, self.reduction, self.largest_norm = divisor, reduction, largest_norm
        self.settings = {"losses": losses.__name__, "divisor": divisor, "reduction": reduction, "precision": precision,
                         "largest_norm": largest_norm, "world_size": process.world_size,
                         "plan": agreed("plan", buckets.digest(0)), **(settings or {})}
        network.to(dtype_of(precision))
        self.losses_of = data_parallel(UtteranceLosses(network, losses, autocast=autocast_of(precision)), process)
        self.optimiser, self.schedule = optimiser_of(network)
        self.step = self.epoch = self.start = 0
        self._plan = None, []

    def make_step(self):
        """One step of the optimiser. Returns its :class:`.gradients.StepLoss`."""
        parts = self._next()
        step = descend(self.network, lambda: step_backward(self.losses_of, parts, self.process, divisor=self.divisor,
                                                           reduction=self.reduction),
                       self.optimiser, self.schedule, largest_norm=self.largest_norm)
        self.step += 1
        return step

    def _next(self):
        """The next batches of this process; the place moves on."""
        if self._plan[0] != self.epoch:
            self._plan = self.epoch, self.buckets.plan(self.epoch)
        steps, each = self._plan[1], self.buckets.batches_a_step // self.process.world_size
        mine = steps[self.start][self.process.rank * each:][:each]
        # another epoch may have another number of steps
        self.epoch, self.start = (self.epoch, self.start + 1) if self.start + 1 < len(steps) else (self.epoch + 1, 0)
        return [[self.examples[i] for i in batch] for batch in mine]

    def parameters_digest(self) -> str:
        """Of the parameters' bits, which all processes must have: all must ask."""
        return agreed("parameters", digest_of(dict(self.network.named_parameters())))

    def state(self) -> dict:
        """All that the next steps depend on, of all processes, which all must ask; as a checkpoint takes it."""
        self.parameters_digest()
        states = [random_state()]
        if dist.is_initialized():
            states = [None] * self.process.world_size
            dist.all_gather_object(states, random_state())
        return {"settings": self.settings, "step": self.step, "epoch": self.epoch, "start": self.start,
                "network": self.network.state_dict(), "optimiser": self.optimiser.state_dict(),
                "schedule": self.schedule.state_dict(), "random": states}

    def go_on_from(self, state: dict) -> None:
        """Take up a state.

        Raises
        ------
        ValueError
            If the run is another one: naming the first setting that differs.
        """
        for name in sorted({*self.settings, *state["settings"]}):
            if self.settings.get(name) != state["settings"].get(name):
                raise ValueError(f"{name} = {self.settings.get(name)!r}; expected {state['settings'].get(name)!r}, "
                                 "as in the checkpoint")
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.step, self.epoch, self.start = state["step"], state["epoch"], state["start"]
        restore_random_state(state["random"][self.process.rank])


def train(training: Training, folder, steps: int, *, checkpoint_every=10, keep=3, kill: Kill | None = None) -> str:
    """Train to a number of steps, from the newest checkpoint in a folder that is whole, or from the beginning.

    Rank 0 writes ``step_NNNNNNNNN.checkpoint``, a line of JSON for each step in ``metrics.jsonl`` (those after the
    checkpoint are taken out when a run goes on from it), starts and ends in ``events.jsonl``, which keeps all, and
    ``first_gradient.pt``, that of the first step (scaled down if it was), by which runs can be compared.

    Parameters
    ----------
    training : Training
    folder : path
        That all processes see.
    steps : int
        To be reached; nothing happens if they are made.
    checkpoint_every : int
        Steps from one checkpoint to the next; the last step has one in any case.
    keep : int
        Checkpoints that stay.
    kill : Kill, optional
        A rank that kills itself, if the folder does not say that it has done so.

    Returns
    -------
    str
        The digest of the parameters: two runs that end with the same one have the same bits.
    """
    folder, process = Path(folder), training.process
    checkpoint_every = _validation.check_at_least("checkpoint_every", checkpoint_every, 1)
    checkpoints = Checkpoints(folder, keep=keep)
    refused = _go_on(training, checkpoints)
    if process.leads:
        _keep_metrics(folder / "metrics.jsonl", training.step)
        _append(folder / "events.jsonl", event="start", step=training.step, world_size=process.world_size,
                refused=refused)
    while training.step < steps:
        began, number = time.perf_counter(), training.step + 1
        mine = kill if kill is not None and (kill.rank, kill.step) == (process.rank, number) else None
        if mine and mine.where == "backward" and _first_time(folder):
            next(training.network.parameters()).register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        epoch, rate = training.epoch, training.optimiser.param_groups[0]["lr"]
        step = training.make_step()
        if process.leads:
            _append(folder / "metrics.jsonl", step=number, epoch=epoch, loss=step.value, finite_loss=step.finite,
                    count=step.count, impossible=step.impossible, rate=rate, seconds=time.perf_counter() - began)
            if number == 1:
                torch.save({name: each.grad for name, each in training.network.named_parameters()},
                           folder / "first_gradient.pt")
        if number % checkpoint_every == 0 or number == steps:
            state = training.state()
            if process.leads:
                halfway = mine is not None and mine.where == "checkpoint" and _first_time(folder)
                checkpoints.save(number, state, killed_halfway=halfway)
    digest = training.parameters_digest()
    if process.leads:
        _append(folder / "events.jsonl", event="end", step=training.step, digest=digest)
    return digest


def _go_on(training, checkpoints):
    """Take up the newest whole checkpoint, which rank 0 chooses; returns what was wrong with newer ones."""
    path, state, refused = checkpoints.newest() if training.process.leads else (None, None, None)
    if dist.is_initialized():
        chosen = [path and path.name, refused]
        dist.broadcast_object_list(chosen)
        name, refused = chosen
        if name and state is None:
            state = checkpoints.load(checkpoints.folder / name)
    if state is not None:
        training.go_on_from(state)
    return refused


def _keep_metrics(path, step):
    """Lines up to a step: those after it will be written again. A line that was cut off goes, too."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line + "\n")
        except json.JSONDecodeError:
            break
    temporary = path.with_suffix(".part")
    temporary.write_text("".join(kept), encoding="utf-8")
    os.replace(temporary, path)


def _append(path, **entries):
    """A line of JSON, which has no infinity of its own: it is spelled out."""
    entries = {name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
               for name, value in entries.items()}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(entries, allow_nan=False) + "\n")


def _first_time(folder):
    try:
        (folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

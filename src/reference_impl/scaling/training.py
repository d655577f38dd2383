"""The training loop: steps from a plan, in any number of processes, that go on after an interruption to the same bits.

It chooses no network, no data and no optimiser; :mod:`.run` does.
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
from .checkpoints import Checkpoints, random_state, restore_random_state
from .equality import digest_of
from .gradients import UtteranceLosses, data_parallel, step_backward
from .precision import autocast_of, scaler_of
from .processes import agreed
from .utterances import collate

__all__ = ["Kill", "Training", "train"]


@dataclass(frozen=True)
class Kill:
    """A rank that kills itself once, to see what is left of the run.

    Attributes
    ----------
    rank, step : int
        Who, and in which step, counted from 1.
    where : "backward" | "checkpoint"
        In the middle of the backward pass, with the others waiting for its gradients; or with half of the step's
        checkpoint written.
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
    model : nn.Module
        As for :func:`.networks.logits_of`, on the device of ``process``.
    utterances : sequence of pairs
        The whole corpus, in every process.
    buckets : LengthBuckets
        Made for ``process.world_size``.
    optimiser : torch.optim.Optimizer
        Of the model's parameters.
    process : Process
    scheduler : optional
        Of learning rates; is stepped after each step, but not after one that the scaler left out.
    loss : "ctc" | "rnnt"
    divisor, reduction
        As for :func:`.gradients.step_backward`.
    precision : "float32" | "bfloat16" | "float16"
    accumulate : int
        Batches of a process in a step; the last step of an epoch may have fewer.
    clip : float, optional
        Longest gradient, in the Euclidean norm.
    settings : dict of plain values, optional
        Whatever a run that goes on must have in common with the one that was interrupted.

    Attributes
    ----------
    step, epoch, start : int
        Steps made, and the place in the data: batches ``start`` and up of an epoch are next.
    """

    def __init__(self, model, utterances, buckets, optimiser, process, *, scheduler=None, loss="ctc",
                 divisor="utterances", reduction="mean", precision="float32", accumulate=1, clip=None, settings=None):
        if buckets.world_size != process.world_size:
            raise ValueError(f"buckets.world_size = {buckets.world_size}; expected {process.world_size}, the number "
                             "of processes")
        self.accumulate = _validation.check_at_least("accumulate", accumulate, 1)
        self.model, self.utterances, self.buckets, self.process = model, utterances, buckets, process
        self.optimiser, self.scheduler, self.clip = optimiser, scheduler, clip
        self.divisor, self.reduction = divisor, reduction
        self.scaler = scaler_of(precision, process.device)
        self.settings = {"loss": loss, "divisor": divisor, "reduction": reduction, "precision": precision,
                         "accumulate": accumulate, "clip": clip, "world_size": process.world_size,
                         "plan": agreed("plan", buckets.digest(0)), **(settings or {})}
        self.losses_of = data_parallel(UtteranceLosses(model, loss, autocast=autocast_of(precision)), process)
        self.step = self.epoch = self.start = 0
        self._left, self._from = [], None

    def make_step(self):
        """One step of the optimiser. Returns its :class:`.gradients.StepLoss`."""
        batches = [collate([self.utterances[i] for i in batch]).to(self.process.device) for batch in self._next()]
        self.optimiser.zero_grad()
        step = step_backward(self.losses_of, batches, self.process, divisor=self.divisor, reduction=self.reduction,
                             scaler=self.scaler)
        if self.clip is not None:
            self.scaler.unscale_(self.optimiser)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        if self.scheduler is not None and self.scaler.get_scale() >= scale:  # else the optimiser made no step
            self.scheduler.step()
        self.step += 1
        return step

    def _next(self):
        """The next batches of this process; the place moves on."""
        if self._from != (self.epoch, self.start):
            self._left = self.buckets.batches(self.epoch, self.process.rank, self.start)
        if not self._left:
            raise ValueError("utterances = 0; expected a corpus with at least one")
        batches, self._left = self._left[:self.accumulate], self._left[self.accumulate:]
        self.epoch, self.start = (self.epoch, self.start + len(batches)) if self._left else (self.epoch + 1, 0)
        self._from = (self.epoch, self.start) if self._left else None
        return batches

    def state(self) -> dict:
        """All that the next steps depend on, of all processes, which all must ask; as a checkpoint takes it."""
        agreed("parameters", digest_of(dict(self.model.named_parameters())))
        states = [random_state()]
        if dist.is_initialized():
            states = [None] * self.process.world_size
            dist.all_gather_object(states, random_state())
        return {"settings": self.settings, "step": self.step, "epoch": self.epoch, "start": self.start,
                "model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(),
                "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
                "scaler": self.scaler.state_dict(), "random": states}

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
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.step, self.epoch, self.start = state["step"], state["epoch"], state["start"]
        self._from = None
        restore_random_state(state["random"][self.process.rank])


def train(training: Training, folder, steps: int, *, checkpoint_every=10, keep=3, kill: Kill | None = None) -> str:
    """Train to a number of steps, from the newest checkpoint in a folder that is whole, or from the beginning.

    Rank 0 writes ``step_NNNNNNNNN.checkpoint``, a line of JSON for each step in ``metrics.jsonl`` (those after the
    checkpoint are taken out when a run goes on from it), and starts and ends in ``events.jsonl``, which keeps all.

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
        hook = None
        if mine and mine.where == "backward" and _first_time(folder):
            hook = next(iter(training.model.parameters())).register_hook(_kill)
        epoch, scale = training.epoch, training.scaler.get_scale()
        rate = training.optimiser.param_groups[0]["lr"]
        step = training.make_step()
        if hook is not None:  # of a parameter that got no gradient
            hook.remove()
        if process.leads:
            _append(folder / "metrics.jsonl", step=number, epoch=epoch, loss=step.value, finite_loss=step.finite,
                    count=step.count, impossible=step.impossible, rate=rate, scale=scale,
                    seconds=time.perf_counter() - began)
        if number % checkpoint_every == 0 or number == steps:
            state = training.state()
            if process.leads:
                halfway = mine is not None and mine.where == "checkpoint" and _first_time(folder)
                checkpoints.save(number, state, killed_halfway=halfway)
    digest = agreed("parameters", digest_of(dict(training.model.named_parameters())))
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


def _kill(_):
    os.kill(os.getpid(), signal.SIGKILL)

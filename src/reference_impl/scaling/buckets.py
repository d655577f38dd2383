"""Which utterances make a batch, and which batches a step: a plan for an epoch, from lengths and a seed alone.

A plan is made without any exchange: every process makes the same one and takes its part of each step. It loads no data.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from dataclasses import dataclass

import numpy as np

from .. import _validation

__all__ = ["COSTS", "LengthBuckets", "PlanReport"]

#: What a batch costs, padding included: frames B T, or cells of the RNN-T grid B T (U + 1) V.
COSTS = ("frames", "cells")


class LengthBuckets:
    """Batches of utterances of similar lengths, within a budget, and as many of them in each step as are asked for.

    An utterance goes into the bucket k of its length, ratio^k <= T < ratio^(k+1), so less than 1 - 1/ratio of the
    frames of any batch are padding. For RNN-T there is a bucket for each such pair of ranges of T and U + 1. Within
    a bucket the order is random, and batches are cut off where the next utterance would exceed the budget.

    The batches of a step are divided among the processes: a step of four has four processes with a batch each, or two
    with two, or one with all four, and the gradient is the same, to rounding. A step lasts as long as the process that
    has most to do, so batches of similar cost make a step: no other way to put them together waits less. The steps are
    in random order. All that is random follows from ``seed`` and the epoch.

    Every utterance comes exactly once in an epoch, none is dropped and none repeated, and all steps have the same
    number of batches. Where the number of batches is no multiple of it, the largest are cut in two until it is. If none
    has two utterances to be divided, one step has empty batches; there, too, :func:`.gradients.step_backward` gives the
    gradient of the mean.

    Parameters
    ----------
    frame_lengths, label_lengths : (N,) ints
        T and U of the utterances.
    budget : int
        Most that a batch may cost.
    cost : "frames" | "cells"
        The largest T times B, or that times the largest U + 1 and ``num_symbols``.
    num_symbols : int
        V; for "cells".
    stride : int
        Frames that the network merges into one, for "cells": T counts as ceil(T / stride).
    batches_a_step : int
    ratio : float > 1
        Near 1 there is little padding, and there are many batches that a bucket has not filled. ``math.inf``: one
        bucket, whose batches have any lengths.
    seed : int
    shuffle : bool
        False: the order of lengths within a bucket and of the steps, the same in every epoch; for evaluation.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule, as for an utterance that alone exceeds the budget.

    Examples
    --------
    >>> buckets = LengthBuckets([5, 9, 5, 30, 8, 5], [1, 2, 1, 6, 2, 1], budget=30, ratio=2.0, batches_a_step=2, seed=1)
    >>> for step in buckets.plan(epoch=0):
    ...     print(step)
    [[3], [0, 2, 5]]
    [[1], [4]]
    """

    def __init__(self, frame_lengths, label_lengths, *, budget, cost="frames", num_symbols=None, stride=1,
                 batches_a_step=1, ratio=1.3, seed=0, shuffle=True):
        self.frame_lengths = _lengths("frame_lengths", frame_lengths)
        self.label_lengths = _lengths("label_lengths", label_lengths)
        if len(self.frame_lengths) != len(self.label_lengths):
            raise ValueError(f"label_lengths has {len(self.label_lengths)} entries; expected "
                             f"{len(self.frame_lengths)}, as many as frame_lengths")
        self.cost = _validation.check_choice("cost", cost, COSTS)
        if cost == "cells" and num_symbols is None:
            raise ValueError("num_symbols = None; expected V for cost = 'cells'")
        self.num_symbols = 1 if num_symbols is None else _validation.check_at_least("num_symbols", num_symbols, 1)
        self.stride = _validation.check_at_least("stride", stride, 1)
        self.budget = _validation.check_at_least("budget", budget, 1)
        self.batches_a_step = _validation.check_at_least("batches_a_step", batches_a_step, 1)
        self.seed, self.shuffle = _validation.check_at_least("seed", seed, 0), bool(shuffle)
        if not ratio > 1:
            raise ValueError(f"ratio = {ratio}; expected a number > 1, or math.inf")
        self.ratio = float(ratio)
        alone = self._cost(1, self.frame_lengths, self.label_lengths)
        if (alone > self.budget).any():
            i = int((alone > self.budget).argmax())
            raise ValueError(f"utterance {i} costs {alone[i]} {cost}; expected <= budget = {self.budget}")
        self._T, self._U = self.frame_lengths.tolist(), self.label_lengths.tolist()
        self._buckets = self._by_ranges()

    def plan(self, epoch: int) -> list[list[list[int]]]:
        """The steps of an epoch: in each so many batches, which are lists of utterances.

        Parameters
        ----------
        epoch : int

        Returns
        -------
        list of steps, of ``batches_a_step`` lists of ints
        """
        epoch = _validation.check_at_least("epoch", epoch, 0)
        rng = np.random.default_rng([self.seed, epoch])
        batches = self._divisible([batch for bucket in self._buckets for batch in self._cut(bucket, rng)])
        batches.sort(key=self._order)
        steps = [batches[i:i + self.batches_a_step] for i in range(0, len(batches), self.batches_a_step)]
        if self.shuffle:
            # within a step, too: the longest would else always be with the last process
            steps = [[step[i] for i in rng.permutation(len(step))] for step in steps]
            steps = [steps[i] for i in rng.permutation(len(steps))]
        return steps

    def report(self, epoch: int) -> PlanReport:
        """What the plan of an epoch costs."""
        plan = self.plan(epoch)
        batches = [batch for step in plan for batch in step if batch]
        T, U = self.frame_lengths, self.label_lengths
        frames = sum(len(batch) * int(T[batch].max()) for batch in batches)
        cells = sum(len(batch) * int(T[batch].max()) * (int(U[batch].max()) + 1) for batch in batches)
        costs = [[self._cost_of(batch) for batch in step] for step in plan]
        slowest = self.batches_a_step * sum(max(step) for step in costs)
        return PlanReport(
            utterances=sum(map(len, batches)), batches=len(batches), steps=len(plan),
            empty_batches=sum(not batch for step in plan for batch in step),
            largest_cost=max((max(step) for step in costs), default=0),
            padded_frames=_share(frames - int(T.sum()), frames),
            padded_cells=_share(cells - int((T * (U + 1)).sum()), cells),
            idle=_share(slowest - sum(map(sum, costs)), slowest))

    def digest(self, epoch: int) -> str:
        """Hexadecimal digits that differ if the plan does: processes compare them before they start."""
        return hashlib.sha256(repr(self.plan(epoch)).encode()).hexdigest()[:16]

    def _cost_of(self, batch):
        return self._cost(len(batch), max(self._T[i] for i in batch), max(self._U[i] for i in batch)) if batch else 0

    def _cost(self, utterances, frames, labels):
        """Of so many utterances, the longest of which have so many frames and labels."""
        if self.cost == "frames":
            return utterances * frames
        return utterances * -(-frames // self.stride) * (labels + 1) * self.num_symbols

    def _by_ranges(self):
        """Lists of utterances, in the order of lengths."""
        ranges = {length: self._range(length) for length in {*self._T, *(u + 1 for u in self._U)}}
        found = {}
        for i, (frames, labels) in enumerate(zip(self._T, self._U, strict=True)):
            found.setdefault((ranges[frames], ranges[labels + 1] * (self.cost == "cells")), []).append(i)
        return [found[key] for key in sorted(found)]

    def _range(self, length):
        """The k with ratio^k <= length < ratio^(k+1); -1 for 0. By comparison: a logarithm may be off by one."""
        if length == 0 or self.ratio == math.inf:
            return -int(length == 0)
        k = int(math.log(length) / math.log(self.ratio))
        while self.ratio ** k > length:
            k -= 1
        while self.ratio ** (k + 1) <= length:
            k += 1
        return k

    def _cut(self, bucket, rng):
        order = rng.permutation(len(bucket)).tolist() if self.shuffle else sorted(
            range(len(bucket)), key=lambda j: (self._T[bucket[j]], self._U[bucket[j]]))
        batch, frames, labels = [], 0, 0
        for i in (bucket[j] for j in order):
            longest = max(frames, self._T[i]), max(labels, self._U[i])
            if batch and self._cost(len(batch) + 1, *longest) > self.budget:
                yield batch
                batch, longest = [], (self._T[i], self._U[i])
            frames, labels = longest
            batch.append(i)
        if batch:
            yield batch

    def _divisible(self, batches):
        """As many batches as there are places for them: the largest are cut in two, then empty ones are added."""
        places = -(-len(batches) // self.batches_a_step) * self.batches_a_step
        whole = [(-self._cost_of(batch), batch) for batch in batches if len(batch) > 1]
        heapq.heapify(whole)
        batches = [batch for batch in batches if len(batch) < 2]
        while whole and len(whole) + len(batches) < places:
            _, batch = heapq.heappop(whole)
            for half in (batch[:len(batch) // 2], batch[len(batch) // 2:]):
                if len(half) > 1:
                    heapq.heappush(whole, (-self._cost_of(half), half))
                else:
                    batches.append(half)
        batches += [batch for _, batch in whole]
        return batches + [[]] * (places - len(batches))

    def _order(self, batch):
        return self._cost_of(batch), batch


@dataclass(frozen=True)
class PlanReport:
    """What the plan of an epoch costs, counted.

    Attributes
    ----------
    utterances, batches, steps, empty_batches : int
        Batches without utterances are not among ``batches``.
    largest_cost : int
        Of one batch, padding included; at most the budget.
    padded_frames, padded_cells : float
        Shares in [0, 1) of all frames B T, and of all nodes B T (U + 1) of the RNN-T grid, that are padding.
    idle : float
        Share in [0, 1) of the processes' time in which they wait for the largest batch of their step, if each has one
        and it takes as long as it costs.
    """

    utterances: int
    batches: int
    steps: int
    empty_batches: int
    largest_cost: int
    padded_frames: float
    padded_cells: float
    idle: float


def _share(part, whole):
    return part / whole if whole else 0.0


def _lengths(name, lengths):
    lengths = _validation.check_integers(name, np.asarray(lengths) if len(lengths) else [], 1, "(N,)")
    if len(lengths) and lengths.min() < 0:
        raise ValueError(f"{name}[{lengths.argmin()}] = {lengths.min()}; expected a length >= 0")
    return lengths

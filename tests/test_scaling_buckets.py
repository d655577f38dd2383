"""The plan of an epoch: every utterance once, in budget, as many batches in every step, the same whoever makes it."""

import math
from dataclasses import asdict

import numpy as np
import pytest
import torch

from reference_impl._padding import padded
from reference_impl.scaling import LengthBuckets

#: name -> (number of utterances, options)
CASES = {
    "frames": (97, {"budget": 600}),
    "cells": (97, {"budget": 9000, "cost": "cells", "num_symbols": 5, "stride": 2}),
    "no shuffling": (60, {"budget": 600, "shuffle": False}),
    "one bucket": (97, {"budget": 600, "ratio": math.inf}),
    "narrow buckets": (97, {"budget": 600, "ratio": 1.02}),
    "each one alone": (13, {"budget": 130}),
    "all in one batch": (9, {"budget": 10**9, "ratio": math.inf}),
    "one utterance": (1, {"budget": 600}),
    "none": (0, {"budget": 600}),
}


def corpus(count, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 9, count)
    return rng.integers(3, 14, count) * (labels + 1), labels


def made(name, batches_a_step=1, **others):
    count, options = CASES[name]
    return LengthBuckets(*corpus(count), batches_a_step=batches_a_step, **options | others), count


def cost_of(batch, frames, labels, options):
    """Written down once more: of what the padded arrays would hold."""
    if not batch:
        return 0
    T, U = max(frames[i] for i in batch), max(labels[i] for i in batch)
    if options.get("cost") == "cells":
        return len(batch) * math.ceil(T / options["stride"]) * (U + 1) * options["num_symbols"]
    return len(batch) * T


@pytest.mark.parametrize("batches_a_step", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("name", CASES)
def test_every_utterance_once_in_budget_and_as_many_batches_in_all_steps(name, batches_a_step):
    buckets, count = made(name, batches_a_step)
    frames, labels = corpus(count)
    for epoch in (0, 1, 5):
        plan = buckets.plan(epoch)
        assert sorted(i for step in plan for batch in step for i in batch) == list(range(count))
        assert all(len(step) == batches_a_step for step in plan)
        assert all(cost_of(batch, frames, labels, CASES[name][1]) <= CASES[name][1]["budget"]
                   for step in plan for batch in step)
        sizes = [len(batch) for step in plan for batch in step]
        assert 0 not in sizes or max(sizes) == 1, "only if nothing is left to divide"
        assert sizes.count(0) < batches_a_step


@pytest.mark.parametrize("name", CASES)
def test_the_same_plan_whoever_makes_it_and_another_in_each_epoch(name):
    buckets, count = made(name, 2, seed=4)
    again, _ = made(name, 2, seed=4)
    other, _ = made(name, 2, seed=5)
    assert buckets.plan(3) == again.plan(3) and buckets.digest(3) == again.digest(3)
    if count > 9 and name != "no shuffling":
        plans = [buckets.plan(epoch) for epoch in range(4)] + [other.plan(0)]
        assert all(plans[i] != plans[j] for i in range(5) for j in range(i))
        assert buckets.digest(0) != other.digest(0)
        batches = {str(sorted(map(sorted, sum(plan, [])))) for plan in plans}
        assert len(batches) > 1 or name in ("narrow buckets", "each one alone"), "whose buckets have a batch each"
    if name == "no shuffling":
        assert buckets.plan(0) == buckets.plan(1)


def test_a_plan_is_made_without_the_random_numbers_of_others():
    buckets, _ = made("frames", 2)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    plan = buckets.plan(0)
    np.random.seed(1)
    torch.manual_seed(1)
    assert buckets.plan(0) == plan
    np.random.set_state(("MT19937", before[0], 624))
    torch.set_rng_state(before[1])


@pytest.mark.parametrize("ratio", [1.05, 1.3, 2.0])
def test_the_padding_of_every_batch_is_bounded_by_the_ratio(ratio):
    """And the bound is not idle: without buckets most batches break it."""
    frames, labels = corpus(300, seed=1)
    shares = {}
    for each in (ratio, math.inf):
        plan = LengthBuckets(frames, labels, budget=600, ratio=each).plan(0)
        shares[each] = [1 - frames[batch].sum() / (len(batch) * frames[batch].max()) for step in plan for batch in step]
    assert max(shares[ratio]) < 1 - 1 / ratio
    assert np.mean(np.array(shares[math.inf]) > 1 - 1 / ratio) > 0.2


def test_cells_have_buckets_of_two_lengths():
    frames, labels = corpus(300, seed=1)
    plan = LengthBuckets(frames, labels, budget=10**5, cost="cells", num_symbols=5, ratio=1.5).plan(0)
    for batch in (batch for step in plan for batch in step):
        assert frames[batch].max() < 1.5 * frames[batch].min() + 1e-9
        assert labels[batch].max() + 1 < 1.5 * (labels[batch].min() + 1) + 1e-9


@pytest.mark.parametrize("ratio", [1.1, 1.25, 2.0, 3.0])
def test_ranges_begin_at_their_powers(ratio):
    """Where a logarithm is off by one bit, ratio^k would fall into the range below."""
    powers = sorted({math.ceil(ratio ** k) for k in range(40) if ratio ** k < 10**9})
    buckets = LengthBuckets(powers, [0] * len(powers), budget=10**12, ratio=ratio)
    for length in powers:
        k = buckets._range(length)
        assert ratio ** k <= length < ratio ** (k + 1)


@pytest.mark.parametrize("name", CASES)
def test_the_report_counts_what_the_padded_batches_hold(name):
    """Against batches that are made: zeros of a mask are counted."""
    count, options = CASES[name]
    frames, labels = corpus(count)
    buckets, _ = made(name, 3)
    report, plan = asdict(buckets.report(1)), buckets.plan(1)
    batches = [[padded([np.ones(lengths[i]) for i in batch])[0] for lengths in (frames, labels)]
               for step in plan for batch in step if batch]
    frame_padding = sum((each == 0).sum() for each, _ in batches)
    all_frames = sum(each.size for each, _ in batches)
    all_cells = sum(each.size * (targets.shape[1] + 1) for each, targets in batches)
    used_cells = sum(t * (u + 1) for t, u in zip(frames, labels, strict=True))
    costs = np.array([[cost_of(batch, frames, labels, options) for batch in step] for step in plan]).reshape(-1, 3)
    waiting = (costs.max(1, keepdims=True) - costs).sum()
    assert report == {
        "utterances": count, "batches": len(batches), "steps": len(plan), "empty_batches": 3 * len(plan) - len(batches),
        "largest_cost": costs.max(initial=0),
        "padded_frames": pytest.approx(frame_padding / max(all_frames, 1), rel=0, abs=1e-12),
        "padded_cells": pytest.approx(1 - used_cells / all_cells if all_cells else 0.0, rel=0, abs=1e-12),
        "idle": pytest.approx(waiting / max(3 * costs.max(1, initial=0).sum(), 1), rel=0, abs=1e-12)}


def test_buckets_and_steps_of_similar_batches_save_what_they_should():
    frames, labels = corpus(2000, seed=3)
    near, far = (LengthBuckets(frames, labels, budget=1000, ratio=ratio, batches_a_step=4).report(0)
                 for ratio in (1.2, math.inf))
    assert near.padded_frames < 0.1 < far.padded_frames
    assert near.steps < far.steps and near.largest_cost <= 1000


@pytest.mark.parametrize("batches_a_step", [2, 4])
def test_no_other_way_to_make_steps_of_the_batches_waits_less(batches_a_step):
    frames, labels = corpus(300, seed=3)
    buckets = LengthBuckets(frames, labels, budget=1000, batches_a_step=batches_a_step)
    costs = np.array([cost_of(batch, frames, labels, {}) for step in buckets.plan(0) for batch in step])
    rng = np.random.default_rng(0)

    def idle(order):
        slowest = batches_a_step * costs[order].reshape(-1, batches_a_step).max(1).sum()
        return 1 - costs.sum() / slowest

    others = [idle(rng.permutation(len(costs))) for _ in range(100)]
    assert buckets.report(0).idle < min(others)


@pytest.mark.parametrize("change, says", [
    ({"budget": 50}, "utterance 3 costs 66 frames; expected <= budget = 50"),
    ({"cost": "seconds"}, "cost = 'seconds'; expected one of 'frames', 'cells'"),
    ({"cost": "cells"}, "num_symbols = None; expected V for cost = 'cells'"),
    ({"ratio": 1.0}, "ratio = 1.0; expected a number > 1"),
    ({"ratio": math.nan}, "ratio = nan; expected a number > 1"),
    ({"batches_a_step": 0}, "batches_a_step = 0; expected batches_a_step >= 1"),
    ({"label_lengths": [1]}, "label_lengths has 1 entries; expected 4"),
    ({"frame_lengths": [1, 2, 3, -4]}, "frame_lengths[3] = -4; expected a length >= 0"),
    ({"frame_lengths": [1.5, 2.0, 3.0, 4.0]}, "frame_lengths has dtype float64; expected int32 or int64"),
])
def test_messages(change, says):
    options = {"frame_lengths": [5, 10, 12, 66], "label_lengths": [1, 2, 3, 4], "budget": 100} | change
    with pytest.raises((ValueError, TypeError)) as caught:
        LengthBuckets(options.pop("frame_lengths"), options.pop("label_lengths"), **options)
    assert str(caught.value).startswith(says)

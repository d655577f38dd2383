"""Training with a simple and a pruned loss: the objective is what it says, and what a band of all rows makes of it."""

import numpy as np
import pytest
import torch

from reference_impl.digits.strings import load_images, make_strings
from reference_impl.digits.transducer import DigitTransducer, train
from reference_impl.networks.objectives import PrunedLoss, full_loss, warm_up_scales
from reference_impl.torch_impl import arc_rnnt_loss, pruned_rnnt_loss
from reference_impl.torch_impl.pruning import band_of, cut_band

STRINGS = make_strings(*load_images(held_out=True), 5, np.random.default_rng(0))
BATCH = [torch.from_numpy(a) for a in (STRINGS.frames, STRINGS.frame_lengths, STRINGS.targets, STRINGS.target_lengths)]


def network():
    torch.manual_seed(0)
    return DigitTransducer(8, simple_joiner=True).eval()


def simple_scores_of(net):
    return net.simple(net.encode(*BATCH[:2])[0], net.predict(BATCH[2]), BATCH[2])


@pytest.mark.parametrize("rows", [2, 3, 99])
def test_objective(rows):
    """The two losses with the scales of the step; with all rows the second is the full loss."""
    net, objective = network(), PrunedLoss(rows, warm_steps=4, simple_scale=0.25)
    frames, frame_lengths, targets, target_lengths = BATCH
    lengths = frame_lengths, target_lengths
    R = min(rows, targets.shape[1] + 1)
    simple, first = band_of(*simple_scores_of(net), *lengths, R)
    pruned = pruned_rnnt_loss(cut_band(net(frames, frame_lengths, targets)[0], first, R), first, targets, *lengths)
    assert (pruned > full_loss(net, *BATCH)) == (rows < 99)
    assert rows < 99 or pruned.item() == pytest.approx(full_loss(net, *BATCH).item(), rel=1e-6)
    for of_simple, of_pruned in ((1.0, 0.1), (0.8125, 0.325), (0.625, 0.55), (0.4375, 0.775), (0.25, 1.0), (0.25, 1.0)):
        expected = of_simple * simple.mean() + of_pruned * pruned
        assert objective(net, *BATCH).item() == pytest.approx(expected.item(), rel=1e-5)


def test_who_learns_from_what():
    """The maps of the simple joiner from the simple loss alone; everything else from both."""
    net, found = network(), {}
    for name, scale in (("both", 0.5), ("pruned only", 0.0)):
        net.zero_grad()
        PrunedLoss(3, warm_steps=0, simple_scale=scale)(net, *BATCH).backward()
        found[name] = {n: p.grad.abs().max().item() for n, p in net.named_parameters()}
    assert all(value > 0 for value in found["both"].values())
    for name, value in found["pruned only"].items():
        assert (value == 0) == name.startswith("simple")
    net.zero_grad()
    losses, _ = band_of(*simple_scores_of(net), BATCH[1], BATCH[3], 3)
    losses.sum().backward()
    for name, parameter in net.named_parameters():
        assert (parameter.grad is None) == name.startswith("output"), name


def test_scales():
    assert warm_up_scales(7, 0) == warm_up_scales(100, 100) == (0.5, 1.0)
    assert warm_up_scales(1, 4, simple_scale=1.0) == (1.0, pytest.approx(0.325))


def test_training():
    net = network()
    values = [value for _, value in train(net, *load_images(held_out=False), steps=30, strings=4,
                                          loss=PrunedLoss(3, warm_steps=8))]
    assert np.mean(values[-5:]) < 0.5 * np.mean(values[:5])


def test_no_labels():
    """A batch of empty strings has one row, and the band is that row."""
    net = network()
    frames, lengths = BATCH[0][:2], BATCH[1][:2]
    nothing = torch.zeros(2, 0, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    objective = PrunedLoss(5, warm_steps=0)
    value = objective(net, frames, lengths, *nothing)
    scores = net.simple(net.encode(frames, lengths)[0], net.predict(nothing[0]), nothing[0])
    expected = 0.5 * arc_rnnt_loss(*scores, lengths, nothing[1]) + full_loss(net, frames, lengths, *nothing)
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)

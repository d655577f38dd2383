"""The small transducer: what each part sees, that training is reproducible, and that decoding is greedy."""

import numpy as np
import pytest
import torch

from reference_impl.digits.strings import load_images, make_strings
from reference_impl.digits.transducer import DigitTransducer, as_tensors, train
from reference_impl.networks.objectives import full_loss
from reference_impl.networks.transducer import decode

STRINGS = make_strings(*load_images(held_out=True), 6, np.random.default_rng(0))
FRAMES, TARGETS, *LENGTHS = as_tensors(STRINGS)


def network(seed=0, width=8):
    torch.manual_seed(seed)
    return DigitTransducer(width).eval()


def test_a_frame_sees_14_to_either_side():
    probe = torch.rand(1, 60, 8, requires_grad=True)
    network().encode(probe, None)[0][0, 30].sum().backward()
    assert probe.grad[0].abs().sum(-1).nonzero().ravel().tolist() == list(range(16, 45))


def test_a_row_sees_the_last_two_labels():
    """Row u is a function of labels u - 2 and u - 1, of their order too; none is not a label."""
    net = network()
    rows = net.predict(torch.tensor([[1, 2, 3, 4, 3, 4, 4]]))[0]
    assert rows.shape == (8, 8)
    torch.testing.assert_close(rows[4], rows[6], rtol=0, atol=0)  # after 3 4
    together = [rows[0], rows[1], rows[2], rows[4], rows[5], rows[7]]
    for i, row in enumerate(together):
        assert all((row - other).abs().max() > 1e-3 for other in together[:i])
    torch.testing.assert_close(net.predict(torch.tensor([[5]]))[0, 0], rows[0], rtol=0, atol=1e-6)


def test_the_joiner_takes_a_grid_or_a_band():
    net = network()
    with torch.no_grad():
        (encodings, _), predictions = net.encode(FRAMES, LENGTHS[0]), net.predict(TARGETS)
        grid, _ = net(FRAMES, LENGTHS[0], TARGETS)
        ranges = torch.randint(0, predictions.shape[1] - 2, FRAMES.shape[:2])[..., None] + torch.arange(3)
        b = torch.arange(len(FRAMES))[:, None, None]
        band = net.join(encodings[:, :, None], predictions[b, ranges])
    assert grid.shape == (*FRAMES.shape[:2], TARGETS.shape[1] + 1, 11)
    t = torch.arange(FRAMES.shape[1])[None, :, None]
    torch.testing.assert_close(band, grid[b, t, ranges], rtol=1e-5, atol=1e-6)


def test_the_joiner_is_a_tanh():
    net, f, g = network(), torch.randn(3, 8), torch.randn(3, 8)
    expected = torch.tanh(f + g) @ net.output.weight.T + net.output.bias
    torch.testing.assert_close(net.join(f, g), expected, rtol=1e-5, atol=1e-6)


def losses(seed=0, **options):
    net = network(width=16)
    torch.seed()  # torch's own random numbers must have no part in it
    return net, [value for _, value in train(net, *load_images(held_out=False), strings=4, seed=seed, **options)]


def test_training():
    """The same seed gives the same losses, another one others; the loss falls; the network is left in training mode."""
    net, values = losses(steps=40)
    assert len(values) == 40 and np.mean(values[-5:]) < 0.6 * np.mean(values[:5])
    assert net.training
    assert losses(steps=40)[1] == values
    assert losses(seed=1, steps=2)[1][0] != values[0]
    assert losses(steps=2, noise=0.0)[1][0] != values[0]


def test_training_stops_at_each_step():
    net = network(width=8)
    steps = train(net, *load_images(held_out=False), steps=3, strings=2)
    seen = [net.output.bias.detach().clone()]
    for step, _ in steps:
        assert step == len(seen)
        net.eval()  # somebody looks, and forgets to change it back
        assert (net.output.bias != seen[-1]).any()
        seen.append(net.output.bias.detach().clone())
    assert len(seen) == 4


def test_another_loss():
    def doubled(*batch):
        assert len(batch) == 5
        return 2 * full_loss(*batch)

    assert losses(steps=1, loss=doubled)[1][0] == 2 * losses(steps=1)[1][0]


def read_slowly(net, frames, most):
    """One string, from the definition: the whole text so far is handed to the predictor each time."""
    text, found = [], []
    encodings = net.encode(frames[None], None)[0][0]
    for t in range(len(frames)):
        for _ in range(most):
            logits = net.join(encodings[t], net.predict(torch.tensor([text], dtype=torch.int64).reshape(1, -1))[0, -1])
            if logits.argmax() == 0:
                break
            text.append(int(logits.argmax()))
            found.append((t, text[-1]))
    return found


@pytest.mark.parametrize("most", [1, 3])
def test_decoding_is_greedy(most):
    net = network(width=16)
    net.encoder[-1].weight.data *= 20  # so that what is best changes from frame to frame
    net.output.bias.data[0] += 1.0
    frames = FRAMES[:, :30]
    with torch.no_grad():
        slowly = [read_slowly(net, string, most) for string in frames]
    read = decode(net, frames, [30] * len(frames), most=most)
    assert read == slowly
    assert 0 < sum(map(len, read)) < 30 * most * len(frames), "neither all blank nor all labels"
    cut = decode(net, frames, [10] * len(frames), most=most)
    assert cut == [[(t, k) for t, k in string if t < 10] for string in slowly]

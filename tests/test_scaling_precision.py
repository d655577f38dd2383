"""Half precision: what the errors are, by where they are made, and what a scaler makes of utterances without a path."""

import numpy as np
import pytest
import torch

from reference_impl import ctc
from reference_impl.scaling import (
    FrameNetwork,
    Process,
    TransducerNetwork,
    UtteranceLosses,
    autocast_of,
    collate,
    flushed_shares,
    make_utterances,
    precision_errors,
    scaler_of,
    scaler_trace,
    step_backward,
)

#: Unit roundoff: half the distance from 1 to the next number.
UNIT = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
NETWORKS = {"ctc": FrameNetwork, "rnnt": TransducerNetwork}


@pytest.fixture(scope="module", params=["ctc", "rnnt"])
def errors(request):
    rows = precision_errors(loss=request.param, utterances=6)
    return {(row["where"], row["precision"]): row for row in rows}


def test_an_error_grows_with_the_unit_of_its_type(errors):
    """In each place by the order of the units: within a factor of 100 they are the units themselves, so to say."""
    for where in ("network", "loss inputs", "lattice", "sum"):
        found = [errors[where, precision]["gradient error"] for precision in ("float32", "float16", "bfloat16")]
        assert found == sorted(found) and found[0] < found[1] / 100


def test_the_loss_inputs_are_off_by_their_rounding(errors):
    """A logit z is off by |z| u at most, the loss of N rows by N |z| u; what is measured lies well below, as signs
    differ."""
    for precision, unit in UNIT.items():
        assert 0 < errors["loss inputs", precision]["gradient error"] < 10 * unit


def test_the_lattice_and_sums_are_what_cannot_be_in_half_precision(errors):
    """Alpha is a sum of T numbers, -100 nats or so: in bfloat16 its neighbours are half a nat away. The network's own
    products are better by orders of magnitude."""
    for where in ("lattice", "sum"):
        assert errors[where, "bfloat16"]["gradient error"] > 0.05 > 10 * errors["network", "bfloat16"]["gradient error"]
        assert errors[where, "float32"]["gradient error"] < 1e-4


def test_the_lattice_of_float64_is_the_explicit_reference():
    """What the study of rounding compares with: its posteriors, and the loss."""
    from reference_impl.scaling.precision import _by_lattice

    batch = collate(make_utterances(2, seed=0))
    logits = torch.randn(2, 30, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([30, 20])
    loss, posteriors = _by_lattice("ctc", logits, lengths, batch, torch.float64)
    labels = batch.targets[1, :batch.target_lengths[1]].numpy()
    log_probs = logits[1, :20].log_softmax(-1).numpy()
    assert loss.item() == pytest.approx(ctc.loss(log_probs, labels), rel=1e-12)
    sums = posteriors.reshape(20, -1).sum(1)
    torch.testing.assert_close(sums, torch.ones(20, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", NETWORKS)
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("float32_output", [True, False])
def test_what_stays_in_single_precision(loss, precision, float32_output):
    """Parameters, their gradients and the losses; of the logits the network decides."""
    seen = {}

    class Seen(NETWORKS[loss]):
        def forward(self, *arguments):
            logits, lengths = super().forward(*arguments)
            seen["logits"] = logits.dtype
            return logits, lengths

    torch.manual_seed(0)
    model = Seen(4, 6, float32_output=float32_output)
    model.encoder.second.register_forward_hook(lambda _, __, output: seen.update(hidden=output.dtype))
    losses = UtteranceLosses(model, loss, autocast=autocast_of(precision))(collate(make_utterances(3, seed=0)))
    losses.sum().backward()
    half = getattr(torch, precision)
    assert seen == {"hidden": half, "logits": torch.float32 if float32_output else half}
    assert losses.dtype == torch.float32
    assert {each.grad.dtype for each in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_scale_changes_no_gradient(precision):
    """A power of two, taken out again: to the last bit where nothing leaves the range."""
    gradients = []
    for scale in (1.0, 256.0):
        torch.manual_seed(0)
        model = FrameNetwork(4, 6)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
        losses_of = UtteranceLosses(model, autocast=torch.bfloat16)
        step_backward(losses_of, [collate(make_utterances(4, seed=0))], Process(), scaler=scaler)
        scaler.unscale_(optimiser)
        gradients.append(torch.cat([each.grad.flatten() for each in model.parameters()]))
    assert torch.equal(*gradients)


def test_the_scaler_is_for_float16():
    assert scaler_of("float16").is_enabled()
    assert not scaler_of("bfloat16").is_enabled() and not scaler_of("float32").is_enabled()


def test_our_infinite_losses_leave_the_scale_alone_and_others_halve_it():
    ours, others = scaler_trace(4), scaler_trace(4, loss="torch")
    assert all(row["loss"] == np.inf for row in (*ours, *others))
    assert [(row["scale"], row["skipped"]) for row in ours] == [(1024.0, False)] * 4
    assert [(row["scale"], row["skipped"]) for row in others] == [(1024.0 / 2**i, True) for i in range(4)]
    assert all(np.isfinite(row["largest gradient"]) for row in ours)
    assert all(np.isnan(row["largest gradient"]) for row in others)


def test_a_scale_saves_what_float16_would_flush_to_zero():
    """Below 2^-25 a number becomes 0, above 65504 infinite: counted against the gradient in float64."""
    rows = flushed_shares((1.0, 32.0, 1024.0, 2.0**27))
    zeros = [row["zero"] for row in rows]
    assert zeros[0] > 0.1 and zeros[:3] == sorted(zeros[:3], reverse=True) and zeros[2] < 1e-4
    assert [row["infinite"] > 0 for row in rows] == [False, False, False, True]


@pytest.mark.parametrize("call, says", [
    (lambda: autocast_of("float8"), "precision = 'float8'; expected one of 'float32', 'bfloat16', 'float16'"),
    (lambda: scaler_of("half"), "precision = 'half'; expected one of 'float32', 'bfloat16', 'float16'"),
    (lambda: scaler_trace(1, loss="theirs"), "loss = 'theirs'; expected one of 'ours', 'torch'"),
    (lambda: precision_errors(confidence=0.0), "confidence = 0.0; expected a number > 0"),
])
def test_messages(call, says):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == says


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_step_on_a_gpu(precision):
    """The gradient of autocast on a GPU against float64 on the CPU."""
    process = Process(device=torch.device("cuda"))
    found = []
    for device, dtype, autocast in (("cpu", torch.float64, None), ("cuda", torch.float32, autocast_of(precision))):
        torch.manual_seed(0)
        model = FrameNetwork(4, 6).to(device, dtype)
        batch = collate(make_utterances(4, seed=0)).to(torch.device(device)).to(dtype)
        step_backward(UtteranceLosses(model, autocast=autocast), [batch],
                      process if device == "cuda" else Process())
        found.append(torch.cat([each.grad.flatten().double().cpu() for each in model.parameters()]))
    assert float((found[1] - found[0]).abs().max()) < 10 * UNIT[precision] * float(found[0].abs().max())

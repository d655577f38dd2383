"""Half precision: what the errors are, by where they are made, and what a scaler makes of utterances without a path."""

import numpy as np
import pytest
import torch

from reference_impl import ctc
from reference_impl.scaling import (
    Process,
    UtteranceLosses,
    autocast_of,
    ctc_losses,
    dtype_of,
    flushed_shares,
    made_up,
    precision_errors,
    rnnt_losses,
    scaler_trace,
    step_backward,
)
from reference_impl.speech.batches import batch_of
from reference_impl.speech.networks import CTCNetwork, Transducer
from reference_impl.speech.training import as_tensors

#: Unit roundoff: half the distance from 1 to the next number.
UNIT = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}
NETWORKS = {"ctc": (CTCNetwork, ctc_losses), "rnnt": (Transducer, rnnt_losses)}


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
    products are off by a few roundings, and the more terms a sum has, the more it loses."""
    found = {where: errors[where, "bfloat16"]["gradient error"] for where in ("network", "lattice", "sum")}
    assert found["lattice"] > 0.5 > 10 * found["network"] and found["network"] < 10 * UNIT["bfloat16"]
    assert found["sum"] > 4 * UNIT["bfloat16"]
    for where in ("lattice", "sum"):
        assert errors[where, "float32"]["gradient error"] < 1e-3


def test_the_lattice_of_float64_is_the_explicit_reference():
    """What the study of rounding compares with: its posteriors, and the loss."""
    from reference_impl.scaling.precision import _by_lattice

    batch = [torch.tensor([90, 60]), torch.tensor([[5, 3, 0], [1, 2, 2]]), torch.tensor([2, 3])]
    logits = torch.randn(2, 30, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([30, 20])
    loss, posteriors = _by_lattice("ctc", logits, lengths, batch, torch.float64)
    labels = batch[1][1].numpy()
    log_probs = logits[1, :20].log_softmax(-1).numpy()
    assert loss.item() == pytest.approx(ctc.loss(log_probs, labels), rel=1e-12, abs=0)
    sums = posteriors.reshape(20, -1).sum(1)
    torch.testing.assert_close(sums, torch.ones(20, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("loss", NETWORKS)
def test_what_stays_in_single_precision(loss):
    """Parameters, their gradients and the losses; products and logits are in half precision."""
    seen = {}
    torch.manual_seed(0)
    constructor, losses_of = NETWORKS[loss]
    network = constructor(8, spacings=(1,), dropout=0.0)
    network.output.register_forward_hook(lambda _, given, output: seen.update(logits=output.dtype))
    network.encoder.layers[0].register_forward_hook(lambda _, given, output: seen.update(hidden=output.dtype))
    losses = UtteranceLosses(network, losses_of, autocast=torch.bfloat16)(*as_tensors(batch_of(made_up(3, seed=0))))
    losses.sum().backward()
    assert seen == {"hidden": torch.bfloat16, "logits": torch.bfloat16}
    assert losses.dtype == torch.float32
    assert {each.grad.dtype for each in network.parameters()} == {each.dtype for each in network.parameters()} == {
        torch.float32}


@pytest.mark.parametrize("loss", NETWORKS)
def test_the_loss_is_the_same_inside_of_autocast(loss):
    """It is no product of matrices: to the bit, value and gradient."""
    from reference_impl.torch_impl import ctc_loss, rnnt_loss

    shape = (2, 9, 5) if loss == "ctc" else (2, 9, 3, 5)
    logits, found = torch.randn(shape, generator=torch.Generator().manual_seed(0)), []
    for enabled in (False, True):
        leaf = logits.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            losses = {"ctc": ctc_loss, "rnnt": rnnt_loss}[loss](
                leaf, torch.tensor([[1, 2], [3, 0]]), torch.tensor([9, 5]), torch.tensor([2, 1]), reduction="none")
            losses.sum().backward()
        found.append((losses.detach(), leaf.grad))
    assert all(map(torch.equal, *found))


def test_what_each_precision_means():
    assert [(autocast_of(each), dtype_of(each)) for each in ("float64", "float32", "bfloat16")] == [
        (None, torch.float64), (None, torch.float32), (torch.bfloat16, torch.float32)]


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
    (lambda: autocast_of("float8"), "precision = 'float8'; expected one of 'float64', 'float32', 'bfloat16'"),
    (lambda: dtype_of("half"), "precision = 'half'; expected one of 'float64', 'float32', 'bfloat16'"),
    (lambda: precision_errors(loss="hmm"), "loss = 'hmm'; expected one of 'ctc', 'rnnt'"),
    (lambda: scaler_trace(1, loss="theirs"), "loss = 'theirs'; expected one of 'ours', 'torch'"),
    (lambda: precision_errors(confidence=0.0), "confidence = 0.0; expected a number > 0"),
])
def test_messages(call, says):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == says


@pytest.mark.cuda
def test_a_step_on_a_gpu():
    """The gradient of autocast on a GPU against float64 on the CPU."""
    found = []
    for device, precision in (("cpu", "float64"), ("cuda", "bfloat16")):
        torch.manual_seed(0)
        network = CTCNetwork(32, dropout=0.0).to(device, dtype_of(precision))
        losses_of = UtteranceLosses(network, ctc_losses, autocast=autocast_of(precision))
        step_backward(losses_of, [made_up(4, seed=0)], Process(device=torch.device(device)))
        found.append(torch.cat([each.grad.flatten().double().cpu() for each in network.parameters()]))
    assert float((found[1] - found[0]).abs().max()) < 10 * UNIT["bfloat16"] * float(found[0].abs().max())

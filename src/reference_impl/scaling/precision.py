"""Mixed precision: what may be computed in half, what stays in single, and how large each error is. It trains nothing.

The network's products may be in half precision. Four things are not: the parameters, which take small steps; what the
loss hands on; the lattice, which is float64 or float32 inside of every loss here; and whatever is added up over many
utterances, losses and gradients.
"""

from __future__ import annotations

import numpy as np
import torch

from .. import _validation, ctc, rnnt
from ..semiring import Semiring
from ..speech.batches import Example, batch_of
from ..speech.networks import CTCNetwork, Transducer
from ..speech.training import as_tensors
from ..torch_impl import ctc_loss, rnnt_loss
from .gradients import UtteranceLosses, ctc_losses, rnnt_losses
from .made_up import made_up

__all__ = ["PRECISIONS", "autocast_of", "dtype_of", "flushed_shares", "precision_errors", "scaler_trace"]

#: What a network may be trained in. For bfloat16 the parameters stay float32, and the products run under autocast.
PRECISIONS = ("float64", "float32", "bfloat16")

_LOSSES = {"ctc": (CTCNetwork, ctc_losses, ctc_loss, ctc), "rnnt": (Transducer, rnnt_losses, rnnt_loss, rnnt)}
_STUDIED = ("float32", "float16", "bfloat16")


def autocast_of(precision: str):
    """The dtype for autocast, for :class:`.gradients.UtteranceLosses`; None where there is none.

    Examples
    --------
    >>> autocast_of("bfloat16"), autocast_of("float32")
    (torch.bfloat16, None)
    """
    _validation.check_choice("precision", precision, PRECISIONS)
    return torch.bfloat16 if precision == "bfloat16" else None


def dtype_of(precision: str):
    """The dtype of the parameters.

    Examples
    --------
    >>> dtype_of("bfloat16"), dtype_of("float64")
    (torch.float32, torch.float64)
    """
    _validation.check_choice("precision", precision, PRECISIONS)
    return torch.float64 if precision == "float64" else torch.float32


def precision_errors(*, loss="ctc", confidence=1.0, utterances=12, seed=0) -> list[dict]:
    """How far loss and gradient are off where one thing at a time leaves float64, in three precisions.

    "network" runs the network under autocast (float32: all of it in float32). "loss inputs" rounds the logits alone.
    "lattice" runs the recursion of the explicit reference with logarithms of that precision, from log-probs of
    float64; its gradient is that with respect to the log-probs. "sum" adds the utterances' losses, and their gradients,
    one after the other in that precision, as an accumulator does that has it.

    Parameters
    ----------
    loss : "ctc" | "rnnt"
    confidence : float > 0
        Multiplies the weights of the last linear map.
    utterances : int
    seed : int

    Returns
    -------
    list of dicts
        "where", "precision"; "loss error", of the sum of the losses and relative to it; "gradient error", the largest
        absolute one over the largest absolute entry.

    Examples
    --------
    >>> rows = precision_errors(utterances=4)
    >>> worst = max(rows, key=lambda row: row["gradient error"])
    >>> worst["where"], worst["precision"]
    ('lattice', 'bfloat16')
    """
    _validation.check_choice("loss", loss, tuple(_LOSSES))
    confidence = _validation.check_real("confidence", confidence, "a number > 0", lambda value: value > 0)
    frames, *batch = as_tensors(batch_of(made_up(utterances, seed=seed, letters=(6, 12), frames_per_letter=(12, 24))))
    exact = _by_network(loss, confidence, frames.double(), batch, seed, None)
    with torch.no_grad():
        network = _network(loss, confidence, seed).double()
        logits, lengths = network(frames.double(), batch[0], *([batch[1]] if loss == "rnnt" else []))
    rows = []
    for precision in _STUDIED:
        dtype = getattr(torch, precision)
        rows += [
            _row("network", precision, exact,
                 _by_network(loss, confidence, frames, batch, seed, None if precision == "float32" else dtype)),
            _row("loss inputs", precision, _by_logits(loss, logits, lengths, batch),
                 _by_logits(loss, logits.to(dtype).double(), lengths, batch)),
            _row("lattice", precision, _by_lattice(loss, logits, lengths, batch, torch.float64),
                 _by_lattice(loss, logits, lengths, batch, dtype)),
            _row("sum", precision, _added(loss, logits, lengths, batch, torch.float64),
                 _added(loss, logits, lengths, batch, dtype))]
    return rows


def _row(where, precision, right, mine):
    losses, gradients = zip(right, mine, strict=True)
    return {"where": where, "precision": precision, "loss error": float(abs(losses[1] - losses[0]) / abs(losses[0])),
            "gradient error": float((gradients[1] - gradients[0]).abs().max() / gradients[0].abs().max())}


def _network(loss, confidence, seed):
    torch.manual_seed(seed)
    network = _LOSSES[loss][0](32, spacings=(1, 2), dropout=0.0)
    with torch.no_grad():
        network.output.weight *= confidence
    return network


def _by_network(loss, confidence, frames, batch, seed, autocast):
    """The sum of the losses, and the gradient with respect to all parameters."""
    network = _network(loss, confidence, seed).to(frames.dtype)
    losses = UtteranceLosses(network, _LOSSES[loss][1], autocast=autocast)(frames, *batch)
    losses.sum().backward()
    return losses.detach().double().sum(), torch.cat([each.grad.flatten().double() for each in network.parameters()])


def _by_logits(loss, logits, lengths, batch):
    """The same with respect to the logits."""
    leaf = logits.detach().clone().requires_grad_()
    losses = _LOSSES[loss][2](leaf, batch[1], lengths, batch[2], reduction="none")
    return losses.sum().detach(), torch.autograd.grad(losses.sum(), leaf)[0]


def _by_lattice(loss, logits, lengths, batch, dtype):
    """The same for the shortest utterance with respect to its log-probs, by alpha and beta with logarithms of a type.

    The products alpha beta / Z are taken in float64, as they are a posterior's last step; the recursions are not.
    """
    b = int(lengths.argmin())
    labels = batch[1][b, :batch[2][b]].numpy()
    used = logits[b, :lengths[b]] if loss == "ctc" else logits[b, :lengths[b], :len(labels) + 1]
    log_probs = used.log_softmax(-1).to(dtype)
    scores = np.empty(log_probs.shape, object)
    for index in np.ndindex(*log_probs.shape):  # an assignment of all of them would turn tensors into arrays
        scores[index] = log_probs[index]
    number = Semiring(str(dtype), torch.tensor(-torch.inf, dtype=dtype), torch.tensor(0.0, dtype=dtype),
                      torch.logaddexp, torch.add)
    module = _LOSSES[loss][3]
    log_z = module.Z(scores, labels, semiring=number).double()
    masses = (module.alpha(scores, labels, semiring=number), module.beta(scores, labels, semiring=number))
    alpha, beta = (torch.tensor([float(each) for each in mass.ravel()], dtype=torch.float64) for mass in masses)
    return -log_z, (alpha + beta - log_z).exp()


def _added(loss, logits, lengths, batch, dtype):
    """Losses and gradients of single utterances, added one after the other: sums over utterances and frames."""
    total, added = torch.zeros((), dtype=dtype), torch.zeros(logits.shape[-1], dtype=dtype)
    leaf = logits.detach().clone().requires_grad_()
    losses = _LOSSES[loss][2](leaf, batch[1], lengths, batch[2], reduction="none")
    gradient = torch.autograd.grad(losses.sum(), leaf)[0]
    for b in range(len(losses)):
        total += losses[b].detach().to(dtype)
        for frame in gradient[b, :lengths[b]].reshape(-1, logits.shape[-1]).to(dtype):
            added += frame  # the gradient of a bias of the last linear map
    return total.double(), added.double()


def scaler_trace(steps=5, *, loss="ours", scale=1024.0, seed=0) -> list[dict]:
    """Training in float16 with a GradScaler on batches in each of which one utterance has no alignment.

    Its loss is ``inf``, and so is the loss of the step, times any scale. With the losses of this package that is all:
    its gradient is 0, every entry is finite, and the scaler lets the step pass. Where an infinite loss brings a
    gradient of NaN :claim:`torch-ctc-nan`, the scaler finds it, leaves the step out, and halves its scale, which was
    not the reason; so it goes with every batch that has such an utterance, until small gradients are lost.

    Parameters
    ----------
    steps : int
    loss : "ours" | "torch"
        :func:`reference_impl.torch_impl.ctc_loss`, or the function of that name in ``torch.nn.functional``.
    scale : float
        To begin with.
    seed : int

    Returns
    -------
    list of dicts
        "step", "loss" before it, "scale" during it, "largest gradient" (not scaled) and whether it was "skipped".

    Examples
    --------
    >>> [(row["loss"], row["scale"], row["skipped"]) for row in scaler_trace(2)]
    [(inf, 1024.0, False), (inf, 1024.0, False)]
    >>> [(row["loss"], row["scale"], row["skipped"]) for row in scaler_trace(2, loss="torch")]
    [(inf, 1024.0, True), (inf, 512.0, True)]
    """
    _validation.check_choice("loss", loss, ("ours", "torch"))
    torch.manual_seed(seed)
    network, rows = CTCNetwork(16, spacings=(1,), dropout=0.0), []
    optimiser = torch.optim.SGD(network.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    function = {"ours": ctc_loss, "torch": _functional}[loss]
    for step in range(steps):
        examples = made_up(4, seed=seed + step)
        short = Example(examples[0].frames[:8], np.array([1] * 5), None)  # five labels alike in four frames
        frames, frame_lengths, targets, target_lengths = as_tensors(batch_of([*examples, short]))
        with torch.autocast("cpu", torch.float16):
            logits, lengths = network(frames, frame_lengths)
        value = function(logits.float(), targets, lengths, target_lengths, reduction="none").sum() / len(targets)
        optimiser.zero_grad()
        scaler.scale(value).backward()
        before, weight = scaler.get_scale(), network.output.weight.detach().clone()
        scaler.unscale_(optimiser)
        largest = max(float(each.grad.abs().max()) for each in network.parameters())
        scaler.step(optimiser)
        scaler.update()
        rows.append({"step": step, "loss": value.item(), "scale": before, "largest gradient": largest,
                     "skipped": torch.equal(weight, network.output.weight)})
    return rows


def _functional(logits, targets, logit_lengths, target_lengths, reduction):
    return torch.nn.functional.ctc_loss(logits.log_softmax(-1).transpose(0, 1), targets, logit_lengths, target_lengths,
                                        reduction=reduction)


def flushed_shares(scales=(1.0, 1024.0, 65536.0), *, count=1000, num_symbols=500, spread=2.0, seed=0) -> list[dict]:
    """How much of the gradient float16 loses, by the scale of the loss.

    The loss is given logits of float16, so its gradient is of that type too. The mean over ``count`` utterances, of
    which those here are a part, divides by it before the gradient is rounded.

    Parameters
    ----------
    scales : sequence of floats
    count : int
    num_symbols : int
        V, of random logits with standard deviation ``spread``.
    spread : float
    seed : int

    Returns
    -------
    list of dicts
        "scale"; "zero", the share of the entries that are 0 and should not be; "infinite", of those that overflow.

    Examples
    --------
    >>> [(row["scale"], round(row["zero"], 2), row["infinite"]) for row in flushed_shares((1.0, 65536.0))]
    [(1.0, 0.13, 0.0), (65536.0, 0.0, 0.0)]
    """
    rng = np.random.default_rng(seed)
    logits = torch.from_numpy(spread * rng.standard_normal((4, 50, num_symbols))).half()
    targets = torch.from_numpy(rng.integers(1, num_symbols, (4, 10)))
    rows = []
    for scale in scales:
        gradients = []
        for dtype in (torch.float64, torch.float16):
            leaf = logits.to(dtype).requires_grad_()
            losses = ctc_loss(leaf, targets, torch.full((4,), 50), torch.full((4,), 10), reduction="sum")
            gradients.append(torch.autograd.grad(losses * (scale / count), leaf)[0])
        right, mine = gradients
        rows.append({"scale": scale, "zero": float(((mine == 0) & (right != 0)).sum() / (right != 0).sum()),
                     "infinite": float(mine.isinf().sum() / (right != 0).sum())})
    return rows

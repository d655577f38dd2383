"""CTC under the names, arguments and layouts of :named:`torch`, computed by this package: rearranged, no more."""

from __future__ import annotations

import torch

from ... import _validation
from .. import losses
from ..derivatives import constant
from ..tracing import traced
from .calls import call, check_reduction, integers, lengths_of

__all__ = ["CTCLoss", "ctc_loss"]

_NAMES = {"logits": "log_probs", "logit_lengths": "input_lengths", "B": "N", "U": "S", "V": "C"}


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """CTC loss in nats, called as ``torch.nn.functional.ctc_loss`` :claim:`torch-ctc-signature, torch-ctc-mean`.

    Time comes first, the scores are log-probs, and "mean" divides by the target lengths.

    Parameters
    ----------
    log_probs : (T, N, C) or (T, C) tensor of float16, bfloat16, float32 or float64
        Log-probs, as from ``log_softmax``; any other scores are taken as they are.
    targets : (N, S) or (sum(target_lengths),) tensor of an integer type
        Labels in [0, C), none equal to ``blank``; padded, or concatenated. For (T, C) log-probs (S,) or (1, S).
    input_lengths, target_lengths : (N,) tensor of an integer type, or sequence of N ints
        Frames and labels of each utterance; for (T, C) log-probs a tensor may have no axis.
    blank : int
    reduction : "none" | "mean" | "sum"
        "mean" divides each loss by its target length, or by 1 if there is no label, and then takes the mean over N.
    zero_infinity : bool
        Loss 0 instead of ``inf`` where no alignment exists.

    Returns
    -------
    (N,) or scalar tensor
        A scalar for (T, C) log-probs, whatever the reduction. float64 for float64 log-probs, else float32.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule. On the CPU torch refuses most of the same arguments, by a
        ``RuntimeError`` or one of its kinds :claim:`torch-ctc-refuses`. It checks neither labels nor the type of
        targets (see the notes).

    Notes
    -----
    Up to rounding, losses are torch's. So is the gradient with respect to logits that feed a log-softmax, where an
    alignment exists and no logit is minus infinity :claim:`torch-ctc-agrees`. What differs, and why:

    - The gradient with respect to ``log_probs`` is -occupancy, the derivative of the loss. torch returns
      exp(log_probs) - occupancy, which is the gradient with respect to logits. The vector-Jacobian product of
      log-softmax maps both to the same gradient; anything else that reads or transforms the gradient of the log-probs
      (a temperature, a weighted sum of models, its norm, ``gradcheck``) needs the derivative
      :claim:`torch-ctc-gradient`.
    - Where no alignment exists the gradient is 0, since the loss is constant there. torch returns NaN, unless
      ``zero_infinity`` is set :claim:`torch-ctc-nan`.
    - A label outside [0, C), or equal to ``blank``, is a ``ValueError`` on the CPU, and on CUDA makes the loss of its
      own utterance NaN. torch's own code does not look at labels :claim:`torch-ctc-labels-unchecked`.
    - Targets of a floating-point type, which torch truncates, are a ``TypeError`` :claim:`torch-ctc-truncates`; bools
      are one, too.
    - Half precision works on the CPU too, and the lattice is float64 there. One of the lengths may be a tensor and the
      other any sequence of ints, and N = 0 or T = 0 is no error.
    - ``torch.compile`` and ``torch.export`` make one graph, of concatenated targets as well. A graph has no values to
      check: a bad label or length makes the loss of its utterance NaN, and lengths that do not cut concatenated targets
      apart make all losses NaN. The graph pads these to min(sum(target_lengths), T + 1) columns. Targets with (N, S)
      axes take less time and memory there.
    - ``torch.jit.script`` does not compile this function. ``torch.fx.symbolic_trace`` calls it after
      ``torch.fx.wrap("ctc_loss")`` in the module that imports it, and stops at it otherwise.

    Examples
    --------
    >>> log_probs = torch.full((2, 1, 2), 0.5, dtype=torch.float64).log().requires_grad_()
    >>> loss = ctc_loss(log_probs, torch.tensor([[1]]), (2,), (1,))
    >>> loss.backward()
    >>> round(torch.exp(-loss).item(), 12), (3 * log_probs.grad[:, 0]).round(decimals=12).tolist()
    (0.75, [[-1.0, -2.0], [-1.0, -2.0]])
    """
    check_reduction(reduction)
    _validation.check_bool("zero_infinity", zero_infinity)
    alone = isinstance(log_probs, torch.Tensor) and log_probs.dim() == 2
    scores = _batch_first(log_probs, alone)
    N = scores.shape[0]
    input_lengths = lengths_of("input_lengths", input_lengths, N)
    target_lengths = lengths_of("target_lengths", target_lengths, N)
    targets, label_lengths = _padded(integers("targets", targets), target_lengths, scores, blank)
    each = call(losses.ctc_loss, _NAMES, scores, targets, input_lengths, label_lengths, blank=blank, reduction="none",
                zero_infinity=zero_infinity, inputs="log_probs")
    if reduction == "mean":
        return (each / target_lengths.to(each.device).clamp(min=1)).mean()
    return each.sum() if reduction == "sum" or alone else each


def _batch_first(log_probs, alone):
    """(N, T, C), a view."""
    if not isinstance(log_probs, torch.Tensor):
        raise TypeError(f"log_probs is a {type(log_probs).__name__}; expected a torch.Tensor")
    if not alone:
        _validation.check_rank("log_probs", log_probs.shape, 3, "(T, N, C), or 2 axes (T, C)")
    return log_probs[None] if alone else log_probs.transpose(0, 1)


def _padded(targets, target_lengths, scores, blank):
    """(N, S) targets and their lengths, from padded or concatenated targets.

    A tracer has no values. It gets as many columns as an utterance with an alignment can need, and where the lengths do
    not cut ``targets`` apart, all of them become -1, which makes the losses NaN.
    """
    N, T, _ = scores.shape
    if targets.dim() != 1:
        _validation.check_rank("targets", targets.shape, 2, "(N, S), or 1 axis (sum(target_lengths),)")
        if targets.shape[0] != N:
            raise ValueError(f"targets has shape {tuple(targets.shape)}; expected N = {N} first, one row for each "
                             "utterance of log_probs (T, N, C)")
        return targets, target_lengths
    total, lengths = targets.shape[0], target_lengths.to(targets.device)
    ends = lengths.cumsum(0)
    if traced(targets) or targets.is_meta or lengths.is_meta:
        columns = min(total, T + 1)  # T + 1 labels have no alignment, nor have more
        apart = (lengths.sum() == total) & (lengths >= 0).all()
        target_lengths = torch.where(apart, lengths.clamp(max=columns), -1)
    else:
        columns = _check_concatenated(targets, lengths, scores, blank)
    index = (ends - lengths)[:, None] + torch.arange(columns, device=targets.device)
    return torch.nn.functional.pad(targets, (0, 1))[index.clamp(0, total)], target_lengths


def _check_concatenated(targets, lengths, scores, blank):
    """The largest length, of all cases inside ``vmap``.

    Labels are looked at where the loss does so: here their index is the caller's.
    """
    largest = [0]

    def check(*cases):
        for targets, lengths in zip(*cases, strict=True):
            lengths = lengths.tolist()
            for i, length in enumerate(lengths):
                _validation.check_size(f"target_lengths[{i}]", length, 0)
            if sum(lengths) != len(targets):
                raise ValueError(f"targets has {len(targets)} entries; expected sum(target_lengths) = {sum(lengths)}, "
                                 "since targets with one axis are concatenated")
            if scores.device.type == "cpu":
                call(_validation.check_targets, _NAMES, targets.tolist(), scores.shape[-1],
                     call(_validation.check_blank, _NAMES, blank, scores.shape[-1]))
            largest.extend(lengths)
        return cases[1].clone()

    constant(check, targets[None], lengths[None])
    return max(largest)


class CTCLoss(torch.nn.Module):
    """:func:`ctc_loss` as a module, made and called as ``torch.nn.CTCLoss``.

    Examples
    --------
    >>> CTCLoss(reduction="none")(torch.zeros(2, 3, 2), torch.ones(3, 1, dtype=torch.int64), (2, 2, 2), (1, 1, 1)).shape
    torch.Size([3])
    """

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__()
        self.blank, self.reduction, self.zero_infinity = blank, reduction, zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
                        self.zero_infinity)

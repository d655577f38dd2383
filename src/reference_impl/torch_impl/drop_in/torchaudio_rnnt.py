"""torchaudio.functional.rnnt_loss and torchaudio.transforms.RNNTLoss, computed by this package."""

from __future__ import annotations

import torch

from ... import _validation
from .. import losses
from .calls import check_reduction

__all__ = ["RNNTLoss", "rnnt_loss"]


def rnnt_loss(logits, targets, logit_lengths, target_lengths, blank=-1, clamp=-1, reduction="mean",
              fused_log_softmax=True):
    """RNN-T loss in nats, called as ``torchaudio.functional.rnnt_loss`` :claim:`torchaudio-blank`: the blank is last.

    Parameters
    ----------
    logits : (B, T, U+1, V) tensor of float16, bfloat16, float32 or float64
    targets : (B, U) tensor of int32 or int64
        Labels in [0, V), none equal to the blank.
    logit_lengths, target_lengths : (B,) tensors of int32 or int64
    blank : int
        A negative one counts from the end: -1 is V - 1.
    clamp : float
        Above 0 it cuts the entries of each utterance's gradient off at -clamp and clamp, before the upstream gradient
        is applied; otherwise nothing is cut.
    reduction : "none" | "mean" | "sum"
        "mean" is the mean over the batch.
    fused_log_softmax : bool
        False takes ``logits`` for log-probs; the gradient is then -occupancy.

    Returns
    -------
    (B,) or scalar tensor
        float64 for float64 logits, else float32.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule, where torchaudio raises a ``RuntimeError`` or nothing
        :claim:`torchaudio-checks`.

    Notes
    -----
    On the CPU, losses and gradients are torchaudio's :claim:`torchaudio-returned`. What differs, and why:

    - Masked logits make no NaN. In torchaudio one inner node without a way in or out makes loss or gradient NaN, even
      if alignments pass elsewhere :claim:`torchaudio-log-add, torchaudio-returned`. Where none exists, the loss here is
      ``inf`` and the gradient 0.
    - A label outside [0, V), or equal to the blank, is a ``ValueError`` on the CPU, and on CUDA makes the loss of its
      own utterance NaN. torchaudio does not look at labels :claim:`torchaudio-checks`.
    - bfloat16 and float64, int64 labels and lengths, tensors that are not contiguous, and a T longer than every
      utterance are accepted; torchaudio refuses them on the CPU :claim:`torchaudio-checks`.
    - The loss of float16 logits is float32, where torchaudio's is float16. The lattice is float64 on the CPU, where
      torchaudio's is float32, so results differ by its rounding :claim:`torchaudio-checks`.
    - ``torch.jit.script`` does not compile this function. ``torch.fx.symbolic_trace`` calls it after
      ``torch.fx.wrap("rnnt_loss")`` in the module that imports it, and stops at it otherwise.

    Examples
    --------
    >>> logits = torch.zeros(1, 2, 2, 2, dtype=torch.float64)
    >>> loss = rnnt_loss(logits, torch.tensor([[0]]), torch.tensor([2]), torch.tensor([1]))
    >>> round(torch.exp(-loss).item(), 12)
    0.25
    """
    check_reduction(reduction)
    blank = _validation.check_int("blank", blank)
    _validation.check_bool("fused_log_softmax", fused_log_softmax)
    if clamp not in (torch.inf, -torch.inf):
        clamp = _validation.check_real("clamp", clamp, "a number", lambda value: True)
    if blank < 0 and isinstance(logits, torch.Tensor) and logits.dim() == 4:
        blank += logits.shape[-1]
    return losses.rnnt_loss(logits, targets, logit_lengths, target_lengths, blank=blank, reduction=reduction,
                            inputs="logits" if fused_log_softmax else "log_probs",
                            clamp=clamp if 0 < clamp < torch.inf else None)


class RNNTLoss(torch.nn.Module):
    """:func:`rnnt_loss` as a module, made and called as ``torchaudio.transforms.RNNTLoss``.

    Examples
    --------
    >>> module = RNNTLoss(reduction="none")
    >>> module(torch.zeros(1, 2, 2, 2), torch.tensor([[0]]), torch.tensor([2]), torch.tensor([1])).shape
    torch.Size([1])
    """

    def __init__(self, blank=-1, clamp=-1.0, reduction="mean", fused_log_softmax=True):
        super().__init__()
        self.blank, self.clamp, self.reduction, self.fused_log_softmax = blank, clamp, reduction, fused_log_softmax

    def forward(self, logits, targets, logit_lengths, target_lengths):
        return rnnt_loss(logits, targets, logit_lengths, target_lengths, self.blank, self.clamp, self.reduction,
                         self.fused_log_softmax)

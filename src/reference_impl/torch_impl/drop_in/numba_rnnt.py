"""The RNN-T loss of :named:`warprnnt_numba` and :named:`NeMo`, computed by this package; with FastEmit and clamp."""

from __future__ import annotations

import torch

from ... import _validation
from .. import losses
from .calls import call, check_reduction

__all__ = ["RNNTLossNumba", "rnnt_loss"]

_NAMES = {"logits": "acts", "targets": "labels", "logit_lengths": "act_lens", "target_lengths": "label_lens"}


def rnnt_loss(acts, labels, act_lens, label_lens, blank=0, reduction="mean", fastemit_lambda=0.0, clamp=0.0):
    """RNN-T loss in nats, called as ``rnnt_loss`` of :named:`warprnnt_numba` and of :named:`NeMo`.

    Parameters
    ----------
    acts : (B, T, U+1, V) tensor of float16, bfloat16, float32 or float64
        Logits. Log-probs do as well, for the log-softmax of log-probs changes nothing.
    labels : (B, U) tensor of int32 or int64
        Labels in [0, V), none equal to ``blank``.
    act_lens, label_lens : (B,) tensors of int32 or int64
    blank : int
    reduction : "none" | "mean" | "sum" | None
        "mean" is the mean over the batch, and None means "none".
    fastemit_lambda : float >= 0
        Multiplies the posteriors of the label arcs by 1 + lambda in the backward pass.
    clamp : float >= 0
        Above 0 it cuts the entries of each utterance's gradient off at -clamp and clamp.

    Returns
    -------
    (B,) or (1,) tensor
        One axis in any case, as there; float64 for float64 ``acts``, else float32.

    Raises
    ------
    ValueError, TypeError
        Naming the argument, its value and the rule.

    Notes
    -----
    For finite logits, and targets no wider than needed, losses without FastEmit, and gradients with and without it,
    are those of their CPU code
    :claim:`warprnnt-numba-returned`.
    What differs, and why:

    - With ``fastemit_lambda`` > 0 the value is still -log Z. Theirs is multiplied by 1 + lambda, on the CPU only if a
      gradient is asked for, so that training and validation disagree
      :claim:`warprnnt-numba-cpu-cost, nemo-cpu-cost, warprnnt-numba-returned`. FastEmit's field is the gradient of
      neither; divide old training curves by 1 + lambda to compare.
    - ``clamp`` acts before the reduction and the upstream gradient, as in their GPU code. Their CPU code clamps after
      both, so that there the same bound cuts less from the mean of a larger batch
      :claim:`warprnnt-numba-gpu-clamp, warprnnt-numba-cpu-clamp, nemo-gpu-clamp, nemo-cpu-clamp`.
    - Where no alignment exists the gradient is 0, and not NaN, and the loss is ``inf``. In NeMo on the CPU it is NaN
      without FastEmit; in warprnnt_numba on the CPU it is ``inf``, unless a node has all its scores masked. Such a
      node makes loss and gradient NaN there even if alignments pass elsewhere.
    - NaN in the padding has no influence; on their CPU path it spreads to the gradient of the padding.
    - A label or a blank outside [0, V), or a label equal to the blank, is a ``ValueError`` (on CUDA a bad label makes
      the loss of its own utterance NaN). Their code takes a score of another node for it.
    - int64 labels and lengths, and a T longer than every utterance, are accepted. An unknown reduction is a
      ``ValueError``; there it counts as "none".
    - The loss of half precision is float32, and the lattice float64 on the CPU.

    Examples
    --------
    >>> acts = torch.zeros(1, 2, 2, 2, dtype=torch.float64)
    >>> loss = rnnt_loss(acts, torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]), fastemit_lambda=0.01)
    >>> torch.exp(-loss).round(decimals=12).tolist()
    [0.25]
    """
    check_reduction(reduction, ("none", "mean", "sum", None))
    clamp = _validation.check_real("clamp", clamp, "a finite number >= 0", lambda value: value >= 0)
    each = call(losses.rnnt_loss, _NAMES, acts, labels, act_lens, label_lens, blank=blank, reduction="none",
                fastemit_lambda=fastemit_lambda, clamp=clamp or None)
    return {"mean": torch.mean, "sum": torch.sum}[reduction](each)[None] if reduction in ("mean", "sum") else each


class RNNTLossNumba(torch.nn.Module):
    """:func:`rnnt_loss` as a module, made and called as ``RNNTLossNumba``; a ``clamp`` of 0 or less cuts nothing.

    Examples
    --------
    >>> module = RNNTLossNumba(reduction="sum")
    >>> module(torch.zeros(1, 2, 2, 2), torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1])).shape
    torch.Size([1])
    """

    def __init__(self, blank=0, reduction="mean", fastemit_lambda=0.0, clamp=-1):
        super().__init__()
        self.blank, self.reduction, self.fastemit_lambda = blank, reduction, fastemit_lambda
        self.clamp = max(_validation.check_real("clamp", clamp, "a finite number", lambda value: True), 0.0)

    def forward(self, acts, labels, act_lens, label_lens):
        return rnnt_loss(acts, labels, act_lens, label_lens, self.blank, self.reduction, self.fastemit_lambda,
                         self.clamp)

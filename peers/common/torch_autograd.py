"""What the adapters of losses with torch's autograd share: the gradient of a loss, twice, and the scores afterwards.

A second backward pass through a retained graph, and scores that may have been written to, show what a loss modifies.
"""

from __future__ import annotations

import torch


def ask(batch, loss, device="cpu", *, twice=True) -> dict:
    """The answer for ``loss(scores)``, losses of shape (B,) or a total, of a leaf that requires its gradient."""
    scores = torch.tensor(batch.scores, device=device, requires_grad=True)
    losses = loss(scores)
    if losses.shape == (1,) != batch.upstream.shape:  # some libraries give a total the shape (1,)
        losses = losses.sum()
    # weights belong to one loss for each utterance
    upstream = torch.tensor(batch.upstream, device=device).to(losses.dtype) if losses.ndim else None
    others = {}
    losses.backward(upstream, retain_graph=twice)
    gradient, scores.grad = scores.grad, None
    if twice:
        losses.backward(upstream)
        others["second_gradient"] = numbers(scores.grad)
    return batch.answer(numbers(losses), numbers(gradient), scores_after=numbers(scores), **others)


def numbers(tensor):
    """A copy in NumPy, wherever the tensor is."""
    return None if tensor is None else tensor.detach().cpu().double().numpy().copy()

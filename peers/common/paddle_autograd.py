"""The gradient of a loss in Paddle, twice, and the scores afterwards: see torch_autograd.py."""

import paddle


def ask(batch, loss) -> dict:
    """The answer for ``loss(scores)``, losses of shape (B,) or a total."""
    scores = paddle.to_tensor(batch.scores, stop_gradient=False)
    losses = loss(scores)
    upstream = paddle.to_tensor(batch.upstream) if losses.ndim else None
    gradients = []
    for _ in range(2):
        losses.backward(upstream, retain_graph=True)
        gradients.append(scores.grad.numpy().copy())
        scores.clear_grad()
    return batch.answer(losses.numpy(), gradients[0], second_gradient=gradients[1], scores_after=scores.numpy())

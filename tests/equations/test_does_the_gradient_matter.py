"""Checks of the equation of the chapter on whether the gradient matters: torch's Adam against means of gradients."""

import numpy as np
import pytest
import torch
from sides import first
from tex_to_python import Notation

from reference_impl.equations import Quantities, check_equation, computed

NOTATION = Notation({r"\varepsilon": "eps"})
QUANTITIES = Quantities(ends={
    "a smaller gradient": lambda c: c < 1,
    "a larger gradient": lambda c: c > 1,
    "the constant outweighs the gradient": lambda q, c, eps: eps > c * q,
    "the gradient outweighs the constant": lambda q, c, eps: eps < c * q,
    "one step": lambda n: n == 1,
    "several steps": lambda n: n > 1,
})
RATE, BETAS = 0.5, (0.9, 0.999)


@computed(kind="torch's optimiser")
def last_step(gradients, c, eps):
    """How far Adam moves a weight in the last of these steps, against the gradient, over the learning rate."""
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([weight], lr=RATE, betas=BETAS, eps=eps)
    for gradient in gradients:
        before = weight.item()
        weight.grad = torch.tensor([c * gradient], dtype=torch.float64)
        optimiser.step()
    return (before - weight.item()) / RATE


def mean(values, decay):
    """The weighted mean of some values, in which the last has the largest weight."""
    weights = decay ** np.arange(len(values))[::-1]
    return float((weights * values).sum() / weights.sum())


@pytest.mark.equation("eq-matter-adam")
def test_adam():
    """Steps that torch's Adam takes on multiplied gradients, against means of the gradients as they were."""
    def rhs(step, m, q, c, eps, n):
        return m / (q + eps / c)

    def cases():
        rng = np.random.default_rng(78)
        for n in (1, 2, 5):
            for c in (0.01, 0.3, 7.0):
                for eps in (1e-3, 0.2):
                    g = rng.normal(size=n)
                    m, q = mean(g, BETAS[0]), np.sqrt(mean(g**2, BETAS[1]))
                    yield last_step(g, c, eps), m, q, c, eps, n

    check_equation("eq-matter-adam", first, rhs, cases(), tolerance=1e-12)

"""One step of training, many, and the gradient of a step. It knows no data, no loss and no optimiser; needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn

__all__ = ["descend", "fit", "gradient_of", "take_step"]


def gradient_of(network: nn.Module, tensors, loss: Callable) -> torch.Tensor:
    """The gradient of all parameters, (P,) float64, at the weights and in the mode that the network has.

    Parameters
    ----------
    network, tensors, loss
        As for :func:`take_step`. With dropout, two gradients are comparable only after the same seed.

    Examples
    --------
    >>> layer = nn.Linear(2, 1, bias=False).double()
    >>> gradient_of(layer, [torch.tensor([[1.0, 3.0]]).double()], lambda network, row: 2 * network(row).sum()).tolist()
    [2.0, 6.0]
    """
    gradients = torch.autograd.grad(loss(network, *tensors), list(network.parameters()))
    return torch.cat([each.ravel().double() for each in gradients])


def descend(network: nn.Module, backward: Callable, optimiser, schedule=None, *, largest_norm=None):
    """One step down the gradient that ``backward()`` adds to the parameters; returns what that returns.

    This is the step of a process that trains alone, and of each that trains with others
    (:mod:`reference_impl.scaling`).

    Parameters
    ----------
    network : nn.Module
        Is changed in place, in training mode.
    backward : callable
        Of nothing.
    optimiser : torch.optim.Optimizer
    schedule : learning rate scheduler, optional
    largest_norm : float, optional
        The gradient of all parameters together is scaled down to this norm.
    """
    network.train()
    optimiser.zero_grad()
    value = backward()
    if largest_norm is not None:
        nn.utils.clip_grad_norm_(network.parameters(), largest_norm)
    optimiser.step()
    if schedule is not None:
        schedule.step()
    return value


def take_step(network: nn.Module, tensors, loss: Callable, optimiser, schedule=None, *, largest_norm=None) -> float:
    """One step down the gradient; returns the loss before it.

    Parameters
    ----------
    network, optimiser, schedule, largest_norm
        As for :func:`descend`.
    tensors : sequence of tensors
        A batch.
    loss : callable
        ``loss(network, *tensors)``, a scalar tensor.

    Examples
    --------
    >>> import torch
    >>> layer = nn.Linear(1, 1, bias=False)
    >>> _ = layer.weight.data.fill_(3.0)
    >>> descent = torch.optim.SGD(layer.parameters(), lr=0.25)
    >>> take_step(layer, [torch.ones(1)], lambda network, ones: network(ones).square().sum(), descent)
    9.0
    >>> layer.weight.item()
    1.5
    """
    def backward():
        value = loss(network, *tensors)
        value.backward()
        return value.item()

    return descend(network, backward, optimiser, schedule, largest_norm=largest_norm)


def fit(network: nn.Module, batches: Iterable, loss: Callable, optimiser, schedule=None, *, steps,
        largest_norm=None) -> Iterator[tuple[int, float]]:
    """Take steps, and stop after each: yields (step, loss before it), step = 1, 2, ..., ``steps``.

    A chapter looks in between. It may set the network to evaluation mode then; the next step sets it back.

    Parameters
    ----------
    network, loss, optimiser, schedule, largest_norm
        As for :func:`take_step`.
    batches : iterable of sequences of tensors
        At least ``steps`` of them.
    steps : int
    """
    batches = iter(batches)
    for step in range(1, steps + 1):
        yield step, take_step(network, next(batches), loss, optimiser, schedule, largest_norm=largest_norm)

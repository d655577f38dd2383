"""What the drop-in losses share: integers of any type, and error messages in the caller's names. No loss is here."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch

from ... import _validation

__all__ = ["call", "check_reduction", "integers", "lengths_of"]

_TAKEN = (torch.int32, torch.int64)  # by the losses
_INTEGERS = (*_TAKEN, torch.int8, torch.int16, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def call(loss, names, *arguments, **options):
    """Call a loss; whatever it raises names the arguments as the caller does, by the mapping ``names``."""
    try:
        return loss(*arguments, **options)
    except (TypeError, ValueError) as error:
        message = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), str(error))
        raise type(error)(message) from None


def check_reduction(reduction, choices=("none", "mean", "sum")):
    return _validation.check_choice("reduction", reduction, choices)


def integers(name, tensor):
    """A tensor of any integer type as int32 or int64, which the losses take."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}; expected a torch.Tensor")
    if tensor.dtype not in _INTEGERS:
        raise TypeError(f"{name} has dtype {tensor.dtype}; expected an integer type")
    return tensor if tensor.dtype in _TAKEN else tensor.long()


def lengths_of(name, lengths, size):
    """(N,) integers from a tensor or from a sequence of ints; a tensor without axes is one length."""
    if not isinstance(lengths, torch.Tensor):
        if not isinstance(lengths, Iterable):
            raise TypeError(f"{name} = {lengths!r}; expected a tensor of integers, or a sequence of ints")
        lengths = torch.tensor([_validation.check_int(f"{name}[{i}]", each) for i, each in enumerate(lengths)],
                               dtype=torch.int64, device="cpu")
    lengths = integers(name, lengths)
    if lengths.dim() == 0:
        lengths = lengths[None]
    if tuple(lengths.shape) != (size,):
        raise ValueError(f"{name} has shape {tuple(lengths.shape)}; expected (N,) = ({size},)")
    return lengths

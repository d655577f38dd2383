"""Large arrays that torch's operations go through, and bytes that they allocate, counted while they run. No times."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Passes", "memory_of"]


class Passes(TorchDispatchMode):
    """Counts the passes over large arrays that torch's operations make, backward ones included.

    One pass is ``size`` bytes read or written. An operation reads its arguments and writes its results; views move
    nothing, and an operation in place reads and writes what it changes. Arrays smaller than ``size`` are left out, and
    so is what an operation does inside of itself: the count is a lower bound.

    Parameters
    ----------
    size : int
        Bytes of the array in question, such as ``logits.nbytes``.

    Attributes
    ----------
    steps : list of (operation, reads, writes)
    allocated : int
        Bytes of the arrays, of any size, that were made with ``torch.empty`` and the like.

    Examples
    --------
    >>> x = torch.ones(1000)
    >>> with Passes(x.nbytes) as passes:
    ...     y = (x - 1.0).exp_()
    >>> passes.steps, passes.total
    ([('sub', 1.0, 1.0), ('exp_', 1.0, 1.0)], 4.0)
    """

    # they touch few entries of the large array
    _SPARSE = {"gather", "index_select", "scatter_add_", "scatter_add", "_ctc_loss"}
    _FILL = {"zero_", "fill_"}

    def __init__(self, size):
        super().__init__()
        self.size, self.steps, self.allocated = size, [], 0

    @property
    def total(self):
        return sum(reads + writes for _, reads, writes in self.steps)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        aliases = [each.alias_info for each in function._schema.returns]
        view = any(alias is not None and not alias.is_write for alias in aliases)
        if name.startswith("empty"):
            self.allocated += result.nbytes
        elif not view and name not in self._SPARSE:
            inputs = [] if name in self._FILL else tree_leaves((args, kwargs))
            reads, writes = self._passes(inputs), self._passes(tree_leaves(result))
            if reads + writes:
                self.steps.append((name, reads, writes))
        return result

    def _passes(self, leaves):
        sizes = [each.nbytes for each in leaves
                 if isinstance(each, torch.Tensor) and 0 not in each.stride()]
        return sum(size for size in sizes if size >= self.size) / self.size


def memory_of(loss, variable, given=()):
    """Bytes of what a loss and its gradient allocate with ``torch.empty`` and the like.

    Parameters
    ----------
    loss : callable
        Called without arguments; returns a tensor that depends on ``variable``.
    variable : tensor
    given : tensors
        Other arguments of the loss. What autograd keeps of them was there before, and does not count.

    Returns
    -------
    dict
        "forward", what is made there; "kept", what autograd holds for the backward pass; "backward", that and what is
        made in the backward pass.

    Examples
    --------
    >>> x = torch.ones(1000, requires_grad=True)
    >>> memory_of(lambda: (x.exp() * torch.empty(1000)).sum(), x)
    {'forward': 4000, 'kept': 8000, 'backward': 8000}
    """
    kept, places = [], {each.data_ptr() for each in (variable, *given)}

    def keep(tensor):
        if tensor.data_ptr() not in places:
            kept.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), Passes(1) as forward:
        result = loss()
    with Passes(1) as backward:
        torch.autograd.grad(result.sum(), variable)
    return {"forward": forward.allocated, "kept": sum(kept), "backward": sum(kept) + backward.allocated}

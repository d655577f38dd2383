"""The large arrays that torch's operations go through, counted while they run. It times nothing."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Passes"]


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

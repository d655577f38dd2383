"""Large arrays that torch's operations go through, and bytes that they allocate or hold, counted. No times."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["Passes", "gradient_and_memory", "memory_of"]


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


def gradient_and_memory(loss_of, scores, variable):
    """A gradient, and the bytes of all tensors that autograd holds on the way to it.

    These are what it keeps for the backward pass, what one step of this pass hands to the next, and the gradient
    itself. Tensors that share memory count once, and those in the memory of ``scores`` do not count.

    Parameters
    ----------
    loss_of : callable
        From ``scores`` to a tensor of one element.
    scores : tensor
        ``variable``, or computed from it.
    variable : tensor

    Returns
    -------
    gradient : tensor of the shape of ``variable``
    memory : int
        Bytes.

    Examples
    --------
    >>> x = torch.ones(1000, requires_grad=True)
    >>> gradient, memory = gradient_and_memory(lambda x: (2.0 * x.exp()).sum(), x, x)
    >>> memory  # exp(x), the gradient with respect to it, that with respect to x, and the 1.0 for the sum
    12004
    """
    held = []  # so that no memory is used twice

    def hold(tensor):
        held.append(tensor.detach())
        return tensor

    def hold_all(handed_on):
        held.extend(each.detach() for each in handed_on if each is not None)

    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        loss = loss_of(scores)
    steps, seen, hooks = [loss.grad_fn], {None}, []
    for step in steps:  # the list grows on the way
        if step not in seen:
            seen.add(step)
            hooks.append(step.register_prehook(hold_all))
            steps += [earlier for earlier, _ in step.next_functions]
    gradient = hold(torch.autograd.grad(loss, variable)[0])
    for hook in hooks:  # the scores outlive this call
        hook.remove()
    sizes = {}
    for tensor in held:  # an expanded tensor has more entries than memory
        storage = tensor.untyped_storage()
        size = min(tensor.nbytes, storage.nbytes())
        sizes[storage.data_ptr()] = max(size, sizes.get(storage.data_ptr(), 0))
    sizes.pop(scores.untyped_storage().data_ptr(), None)
    return gradient, sum(sizes.values())

"""fast_rnnt's functions in direct calls, for what no report shows. tests/test_calls.py judges what they return."""

import inspect

import fast_rnnt
import k2_arrays
import torch
from recording import question, record, sixteenths


@question
def returned_gradients():
    """mutual_information_recursion with return_grad, before and after a backward pass that is handed 2."""
    return {"regular": k2_arrays.gradients(fast_rnnt, True), "modified": k2_arrays.gradients(fast_rnnt, False)}


@question
def nan_in_the_blank():
    """mutual_information_recursion, with and without a NaN in py."""
    return k2_arrays.nan_in_the_blank(fast_rnnt)


@question
def no_path():
    """mutual_information_recursion, where no path exists."""
    return k2_arrays.no_path(fast_rnnt)


@question
def lengths():
    """rnnt_loss with more labels than frames, with as many, and with no label."""
    return k2_arrays.lengths(fast_rnnt)


@question
def windows():
    """get_rnnt_prune_ranges of utterances that fill their arrays."""
    return {"calls": [k2_arrays.ranges(fast_rnnt, 6, 9, 9, asked, regular=regular)
                      for regular in (True, False) for asked in (2, 3, 4, 7, 9)]}


@question
def too_few_frames_for_the_range():
    """get_rnnt_prune_ranges of 5 labels in 2 frames, in arrays of 2 frames and of 7."""
    return {"calls": [k2_arrays.ranges(fast_rnnt, 5, 2, axis, 2) for axis in (2, 7)]}


@question
def nan_in_the_padding():
    """rnnt_loss of two utterances, the second with NaN in its padding."""
    logits = torch.tensor(sixteenths(21, 2, 3, 3, 4))
    logits[1, 2:], logits[1, :, 2:] = float("nan"), float("nan")
    logits.requires_grad_()
    losses = fast_rnnt.rnnt_loss(logits, torch.tensor([[1, 2], [3, 1]]), 0,
                                 torch.tensor([[0, 0, 2, 3], [0, 0, 1, 2]]), reduction="none")
    losses.sum().backward()
    return {"logits": logits, "loss": losses, "gradient": logits.grad}


@question
def order_of_arguments():
    """The arguments of the four functions that make px and py."""
    functions = [fast_rnnt.get_rnnt_logprobs]
    there = inspect.getmodule(functions[0])  # the package has a function of the module's name
    functions += [getattr(there, f"get_rnnt_logprobs_{name}") for name in ("joint", "pruned", "smoothed")]
    return {function.__name__: list(inspect.signature(function).parameters) for function in functions}


record()

"""Calls that k2 and fast_rnnt share, on the arrays `px` and `py` of their recursion, for their `calls.py`."""

import torch
from recording import printed, raised, sixteenths

INFINITY = float("inf")


def arrays(seed, S, T, *, regular=True):
    """Scores of one utterance with S labels and T frames, in float64; the last column of a regular `px` is -inf."""
    px = torch.tensor(sixteenths(seed, 1, S, T + regular))
    if regular:
        px[:, :, T] = -INFINITY
    return px, torch.tensor(sixteenths(seed + 1, 1, S + 1, T))


def gradients(module, regular):
    """What `return_grad` hands out, and again after a backward pass with the upstream gradient 2."""
    px, py = (each.requires_grad_() for each in arrays(3, 2, 3, regular=regular))
    score, returned = module.mutual_information_recursion(px, py, return_grad=True)
    before = [each.clone() for each in returned]
    score.backward(torch.full((1,), 2.0, dtype=torch.float64))
    return {"px": px, "py": py, "score": score, "returned": before, "after_backward": [*returned],
            "backward": [px.grad, py.grad]}


def nan_in_the_blank(module):
    """The score, if the blank of row 1 in frame 1 has a NaN."""
    px, py = arrays(5, 2, 3)
    whole = module.mutual_information_recursion(px, py)
    spoiled = py.clone()
    spoiled[0, 1, 1] = float("nan")
    return {"px": px, "py": py, "score": whole, "score_with_a_nan": module.mutual_information_recursion(px, spoiled)}


def no_path(module):
    """Score, `return_grad` and what is printed: with paths, and with the first label impossible in every frame."""
    found = {}
    for name, regular in (("regular", True), ("modified", False)):
        px, py = arrays(7, 2, 3, regular=regular)
        _, with_paths = printed(module.mutual_information_recursion, px, py, return_grad=True)
        px[0, 0] = -INFINITY
        (score, returned), without = printed(module.mutual_information_recursion, px, py, return_grad=True)
        found[name] = {"score": score, "returned": [*returned], "printed": warning(without),
                       "printed_with_paths": warning(with_paths)}
    return found


def warning(text):
    """What was printed, without the file and line that k2 says before."""
    return text[max(text.find("Warning"), 0):].strip()


def lengths(module):
    """For each type, T frames and U labels: the loss and Z's logits, or the error; with 5 frames in another row, too.

    Without `boundary` the utterance has all T frames; with one, it lies in arrays of 5 frames.
    """
    found = []
    for kind in ("regular", "modified", "constrained"):
        for T, U, axis in ((2, 4, 2), (2, 4, 5), (4, 4, 4), (3, 0, 3)):
            logits = torch.tensor(sixteenths(10 * T + U, 1, axis, U + 1, 4))
            targets = torch.tensor([[1, 2, 2, 3][:U]], dtype=torch.int64)
            losses = []

            def loss(kind=kind, T=T, U=U, logits=logits, targets=targets, losses=losses):
                losses.append(module.rnnt_loss(logits, targets, 0, torch.tensor([[0, 0, U, T]]), rnnt_type=kind,
                                               reduction="none"))

            error = raised(loss)
            found.append({"type": kind, "T": T, "U": U, "frames": axis, "logits": logits[0], "targets": targets[0],
                          "loss": losses[0][0] if losses else None, "error": error})
    return {"calls": found}


def ranges(module, S, T, axis, asked, *, regular=True):
    """`get_rnnt_prune_ranges` of made-up arrays, for an utterance of T frames in arrays of `axis`."""
    px_grad = torch.tensor(sixteenths(S + T, 1, S, axis + regular)).abs()
    py_grad = torch.tensor(sixteenths(S + T + 1, 1, S + 1, axis)).abs()
    found = []
    error, text = printed(raised, lambda: found.append(module.get_rnnt_prune_ranges(
        px_grad, py_grad, torch.tensor([[0, 0, S, T]]), asked)))
    return {"S": S, "T": T, "frames": axis, "asked": asked, "regular": regular, "px_grad": px_grad[0],
            "py_grad": py_grad[0], "ranges": found[0][0] if found else None, "printed": warning(text), "error": error}

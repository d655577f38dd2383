"""k2's functions in direct calls, for what no report shows. tests/test_calls.py judges what they return."""

import k2
import k2_arrays
import torch
from k2.rnnt_loss import get_rnnt_logprobs_joint, get_rnnt_logprobs_pruned, get_rnnt_logprobs_smoothed
from recording import question, raised, record, sixteenths

TYPES = "regular", "modified", "constrained"


@question
def p():
    """mutual_information_forward: the array p that it fills, with a column more in px than in py, and without."""
    found = {}
    for name, regular in (("one_column_more", True), ("as_many_columns", False)):
        px, py = k2_arrays.arrays(1, 2, 3, regular=regular)
        p = torch.full((1, 3, 4), float("nan"), dtype=torch.float64)
        score = k2.mutual_information._k2.mutual_information_forward(px, py, None, p)
        found[name] = {"px": px, "py": py, "p": p, "score": score}
    return found


@question
def returned_gradients():
    """mutual_information_recursion with return_grad, before and after a backward pass that is handed 2."""
    return {"regular": k2_arrays.gradients(k2, True), "modified": k2_arrays.gradients(k2, False)}


@question
def nan_in_the_blank():
    """mutual_information_recursion, with and without a NaN in py."""
    return k2_arrays.nan_in_the_blank(k2)


@question
def no_path():
    """mutual_information_recursion, where no path exists."""
    return k2_arrays.no_path(k2)


@question
def arrays_of_a_type():
    """get_rnnt_logprobs_joint and rnnt_loss in each type, and in one that does not exist."""
    logits, targets = torch.tensor(sixteenths(11, 1, 3, 3, 4)), torch.tensor([[2, 1]])
    found = {}
    for kind in TYPES:
        px, py = get_rnnt_logprobs_joint(logits, targets, 0, rnnt_type=kind)
        found[kind] = {"returned_px": px, "returned_py": py, "score": k2.mutual_information_recursion(px, py),
                       "loss": k2.rnnt_loss(logits, targets, 0, rnnt_type=kind, reduction="none")}
    return {"logits": logits[0], "targets": targets[0], **found,
            "another": raised(k2.rnnt_loss, logits, targets, 0, rnnt_type="other")}


@question
def simple():
    """rnnt_loss_simple of two arrays, and rnnt_loss of their sums."""
    am, lm = torch.tensor(sixteenths(12, 1, 3, 4)), torch.tensor(sixteenths(13, 1, 3, 4))
    targets = torch.tensor([[2, 1]])
    return {"simple": k2.rnnt_loss_simple(lm, am, targets, 0, reduction="none"),
            "of_the_sums": k2.rnnt_loss(am[:, :, None] + lm[:, None], targets, 0, reduction="none")}


@question
def smoothed():
    """get_rnnt_logprobs_smoothed of a batch of two, with scales of 0.25 (lm) and 0.125 (am)."""
    am, lm = torch.tensor(sixteenths(14, 2, 3, 4)), torch.tensor(sixteenths(15, 2, 3, 4))
    targets = torch.tensor([[2, 1], [3, 3]])
    px, py = get_rnnt_logprobs_smoothed(lm, am, targets, 0, lm_only_scale=0.25, am_only_scale=0.125)
    return {"am": am, "lm": lm, "targets": targets, "returned_px": px, "returned_py": py}


@question
def delay_penalty():
    """The four losses with a delay penalty of 0.5 and of -0.5, and the arrays without one."""
    am, lm = torch.tensor(sixteenths(16, 1, 4, 5)), torch.tensor(sixteenths(17, 1, 3, 5))
    targets, boundary = torch.tensor([[2, 1]]), torch.tensor([[0, 0, 2, 4]])
    logits = am[:, :, None] + lm[:, None]
    windows = torch.tensor([[[0, 1], [0, 1], [1, 2], [1, 2]]])
    pruned = torch.stack([logits[:, t, windows[0, t]] for t in range(4)], dim=1)
    scales = {"lm_only_scale": 0.25, "am_only_scale": 0.125}
    calls = {
        "rnnt_loss": (k2.rnnt_loss, (logits, targets, 0), {}, get_rnnt_logprobs_joint(logits, targets, 0)),
        "rnnt_loss_simple": (k2.rnnt_loss_simple, (lm, am, targets, 0), {},
                             k2.get_rnnt_logprobs(lm, am, targets, 0)),
        "rnnt_loss_pruned": (k2.rnnt_loss_pruned, (pruned, targets, windows, 0, boundary), {},
                             get_rnnt_logprobs_pruned(pruned, targets, windows, 0, boundary)),
        "rnnt_loss_smoothed": (k2.rnnt_loss_smoothed, (lm, am, targets, 0), scales,
                               get_rnnt_logprobs_smoothed(lm, am, targets, 0, **scales)),
    }
    return {name: {"px": arrays[0], "py": arrays[1],
                   **{words: function(*given, delay_penalty=penalty, reduction="none", **options)
                      for words, penalty in (("loss", 0.5), ("loss_below_0", -0.5))}}
            for name, (function, given, options, arrays) in calls.items()}


@question
def lengths():
    """rnnt_loss with more labels than frames, with as many, and with no label."""
    return k2_arrays.lengths(k2)


@question
def windows():
    """get_rnnt_prune_ranges of utterances that fill their arrays."""
    return {"calls": [k2_arrays.ranges(k2, 6, 9, 9, asked, regular=regular)
                      for regular in (True, False) for asked in (2, 3, 4, 7, 9)]}


@question
def too_few_frames_for_the_range():
    """get_rnnt_prune_ranges of 5 labels in 2 frames, in arrays of 2 frames and of 7."""
    return {"calls": [k2_arrays.ranges(k2, 5, 2, axis, 2) for axis in (2, 7)]}


record()

"""torchaudio's RNN-T loss and its aligner in direct calls, for what no report shows; tests/test_calls.py judges."""

import re

import torch
import torchaudio
from recording import question, raised, record, sixteenths

LOSS = torchaudio.functional.rnnt_loss


def arguments(**changes):
    """Two utterances, the second one shorter in both directions."""
    given = {"logits": torch.tensor(sixteenths(21, 2, 3, 3, 4), dtype=torch.float32),
             "targets": int32((1, 2), (3, 1)), "logit_lengths": int32(3, 2), "target_lengths": int32(2, 1),
             "blank": 0, "reduction": "none"}
    return {**given, **changes}


def int32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


@question
def refusals():
    """rnnt_loss with an argument changed: what it raises, if anything; and the dtype of the losses."""
    logits = arguments()["logits"]
    changes = {
        "as it is": {},
        "float16 logits": {"logits": logits.half()}, "float64 logits": {"logits": logits.double()},
        "bfloat16 logits": {"logits": logits.bfloat16()},
        "int64 targets": {"targets": torch.tensor([[1, 2], [3, 1]])},
        "int64 logit_lengths": {"logit_lengths": torch.tensor([3, 2])},
        "int64 target_lengths": {"target_lengths": torch.tensor([2, 1])},
        "logits not contiguous": {"logits": logits.transpose(0, 1).contiguous().transpose(0, 1)},
        "three axes of logits": {"logits": logits[0]}, "one axis of targets": {"targets": int32(1, 2)},
        "one utterance of targets": {"targets": int32((1, 2))},
        "logits beyond the longest utterance": {"logit_lengths": int32(2, 2)},
        "rows beyond the longest target": {"target_lengths": int32(1, 1)},
        "an utterance beyond the logits": {"logit_lengths": int32(4, 2)},
        "an utterance without frames": {"logit_lengths": int32(3, 0)},
        "an utterance of -1 frames": {"logit_lengths": int32(3, -1)},
        "a target of -1 labels": {"target_lengths": int32(2, -1)},
        "a label of -1": {"targets": int32((1, -1), (3, 1))}, "a label of 4": {"targets": int32((1, 4), (3, 1))},
        "blank 4": {"blank": 4},
    }
    errors = {name: raised(LOSS, **arguments(**change)) for name, change in changes.items()}
    dtypes = {str(dtype): str(LOSS(**arguments(logits=logits.to(dtype))).dtype)
              for dtype in (torch.float32, torch.float16)}
    return {**{name: re.sub(r"compute, \S+, ", "", error) for name, error in errors.items()},  # without file and line
            "dtypes of losses": dtypes}


@question
def blanks():
    """The losses, by the blank; and without one."""
    given = arguments(targets=int32((1, 2), (0, 1)))
    del given["blank"]
    return {**{str(blank): LOSS(**given, blank=blank) for blank in (-1, 3)}, "default": LOSS(**given)}


@question
def label_that_is_the_blank():
    """Loss and gradient of an utterance of three frames with the target 0 1, whose blank is 0."""
    logits = torch.tensor(sixteenths(22, 1, 3, 3, 4), dtype=torch.float32, requires_grad=True)
    loss = LOSS(logits, int32((0, 1)), int32(3), int32(2), blank=0, reduction="none")
    loss.backward()
    return {"logits": logits[0], "targets": [0, 1], "loss": loss[0], "gradient": logits.grad[0]}


@question
def forward():
    """The operator below rnnt_loss, which returns losses and gradients; and the gradient after a backward pass of 2."""
    given = arguments()
    costs, gradient = torch.ops.torchaudio.rnnt_loss_forward(
        *(given[name] for name in ("logits", "targets", "logit_lengths", "target_lengths")), 0, -1.0, True)
    scores = given["logits"].clone().requires_grad_()
    losses = LOSS(**arguments(logits=scores))
    losses.backward(torch.tensor([2.0, 2.0]), retain_graph=True)
    first, scores.grad = scores.grad, None
    kept = first.clone()
    losses.backward(torch.tensor([2.0, 2.0]))
    return {"losses": costs, "gradient": gradient, "loss": losses, "of_backward": kept,
            "of_backward_again": scores.grad, "first_afterwards": first}


ALIGN = torchaudio.functional.forced_align


def aligned(log_probs, targets, blank=0):
    """What forced_align is given, and the path and the scores that it returns."""
    path, scores = ALIGN(log_probs[None], torch.tensor([targets]), blank=blank)
    return {"log_probs": log_probs, "targets": targets, "blank": blank, "path": path[0], "scores": scores[0]}


def log_probs_of(seed, *shape):
    return torch.tensor(sixteenths(seed, *shape)).log_softmax(dim=-1)


@question
def alignments():
    """forced_align of float64 log-probs: with a repeated label, without one frame to spare, with many ties, masked."""
    ties = torch.zeros(7, 3, dtype=torch.float64)
    masked = log_probs_of(25, 6, 3)
    masked[1:4, 1] = -torch.inf
    return {"a label twice": aligned(log_probs_of(23, 9, 4), [2, 1, 1, 3]),
            "no frame to spare": aligned(log_probs_of(24, 4, 4), [1, 1, 0], blank=2),
            "every path alike": aligned(ties, [1, 2, 2]), "masked": aligned(masked, [1, 2]),
            "a longer one": aligned(log_probs_of(26, 24, 6), [1, 2, 2, 3, 5, 4, 1])}


@question
def alignment_refusals():
    """forced_align with an argument changed: what it raises, if anything."""
    log_probs, targets = log_probs_of(27, 1, 5, 4), torch.tensor([[1, 2]])
    twice = {"log_probs": log_probs.repeat(2, 1, 1), "targets": targets.repeat(2, 1)}
    changes = {"as it is": {}, "two utterances": twice,
               "a target with the blank": {"targets": torch.tensor([[1, 0]])},
               "a label of 4": {"targets": torch.tensor([[1, 4]])},
               "a frame too few": {"targets": torch.tensor([[1, 1, 2, 2]])}}
    errors = {name: raised(ALIGN, **{"log_probs": log_probs, "targets": targets, "blank": 0, **change})
              for name, change in changes.items()}
    return {name: re.sub(r"\w+, /\S+, ", "", error) for name, error in errors.items()}


record()

"""warp-ctc through torch_baidu_ctc in direct calls, for what no report shows. tests/test_calls.py judges it."""

import torch
import torch_baidu_ctc
from recording import question, question_apart, record, sixteenths


def losses(logits, labels, frames, lengths):
    """Of activations (T, B, V), and the labels of all utterances in a row."""
    integers = [torch.tensor(each, dtype=torch.int32) for each in (labels, frames, lengths)]
    return torch_baidu_ctc.ctc_loss(logits, *integers, reduction="none", blank=0)


@question
def certain():
    """Loss and gradient of one frame that is certain of its label."""
    logits = torch.tensor([[[0.0, 200.0, 0.0]]], requires_grad=True)
    loss = losses(logits, [1], [1], [1])
    loss.sum().backward()
    return {"logits": logits[0, 0], "targets": [1], "loss": loss[0], "gradient": logits.grad[0, 0]}


@question_apart
def no_frames():
    """The losses of an utterance without frames, and of another: the first with a label, and with an empty target."""
    logits = torch.zeros(2, 2, 3)
    return {"T": [0, 2], "of_a_label": losses(logits, [1, 1], [0, 2], [1, 1]),
            "of_an_empty_target": losses(logits, [1], [0, 2], [0, 1])}


@question
def layout():
    """The losses of three utterances, each of its own length: activations by frame, utterance and symbol."""
    logits = torch.tensor(sixteenths(41, 4, 3, 4), dtype=torch.float32)
    return {"logits": logits, "labels": [1, 2, 3, 3, 1], "T": [4, 4, 2], "U": [2, 2, 1],
            "loss": losses(logits, [1, 2, 3, 3, 1], [4, 4, 2], [2, 2, 1])}


record()

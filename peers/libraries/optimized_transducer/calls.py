"""optimized_transducer's loss in direct calls, for what no report shows. tests/test_calls.py judges it."""

import optimized_transducer
import torch
from recording import question, record, sixteenths


def int32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


def loss(scores, target, **options):
    return optimized_transducer.transducer_loss(scores.reshape(-1, 4), int32(target), int32(3), int32(2), blank=0,
                                                reduction="sum", **options)


@question
def second_backward():
    """The gradient of a backward pass that is handed 2, and of a second one, with respect to log-probs."""
    log_probs = torch.tensor(sixteenths(22, 3, 3, 4), dtype=torch.float32).log_softmax(-1).requires_grad_()
    total = loss(log_probs, (1, 2), from_log_softmax=True)
    found = []
    for _ in range(2):
        total.backward(torch.full_like(total, 2.0), retain_graph=True)
        found.append(log_probs.grad.clone())
        log_probs.grad = None
    return {"first": found[0], "second": found[1]}


@question
def label_that_is_the_blank():
    """Loss and gradient of an utterance of three frames with the target 0 1, whose blank is 0."""
    logits = torch.tensor(sixteenths(22, 3, 3, 4), dtype=torch.float32)
    scores = logits.clone().requires_grad_()
    total = loss(scores, (0, 1), from_log_softmax=False)
    total.backward()
    return {"logits": logits, "targets": [0, 1], "loss": total, "gradient": scores.grad}


record()

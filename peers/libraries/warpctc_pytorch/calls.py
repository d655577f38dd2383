"""warpctc_pytorch's reductions in direct calls. tests/test_calls.py judges what they return."""

import torch
import warpctc_pytorch
from recording import question, record, sixteenths

T, TARGETS = (4, 4, 2), ([1, 2], [3, 3], [1])


def call(**options):
    """Losses of activations (T, B, V), and the gradient of their sum."""
    logits = torch.tensor(sixteenths(41, 4, 3, 4), dtype=torch.float32, requires_grad=True)
    integers = [torch.tensor(each, dtype=torch.int32) for each in (
        [label for target in TARGETS for label in target], T, [len(target) for target in TARGETS])]
    loss = warpctc_pytorch.CTCLoss(blank=0, **options)(logits, *integers).reshape(-1)
    loss.sum().backward()
    return {"logits": logits, "loss": loss, "gradient": logits.grad}


@question
def reductions():
    """Losses and gradient of three utterances without a reduction, and of each reduction."""
    plain = call(reduce=False)
    return {"logits": plain["logits"], "T": T, "targets": TARGETS, "losses": plain["loss"],
            "gradients": plain["gradient"], "default": call(), "length_average": call(length_average=True),
            "size_average": call(size_average=True)}


record()

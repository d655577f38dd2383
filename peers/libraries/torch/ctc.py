"""torch.nn.functional.ctc_loss. Arguments: the reduction, then any of zero_infinity, cuda, cudnn."""

import sys

import torch
from batches import batch
from torch_autograd import ask

from reference_impl.conformance import answer

reduction, *options = sys.argv[1:]
device = "cuda" if {"cuda", "cudnn"} & set(options) else "cpu"


def loss(inputs, precision):
    asked = batch(inputs, precision)
    # torch takes cuDNN if it is enabled and targets are int32, on the CPU, one after another, and the blank is 0
    integers = {"dtype": torch.int32} if "cudnn" in options else {"dtype": torch.int64, "device": device}
    T, U = torch.tensor(asked.logit_lengths, **integers), torch.tensor(asked.target_lengths, **integers)
    targets = torch.tensor(asked.targets, **integers)
    if "cudnn" in options:
        targets = torch.cat([row[:length] for row, length in zip(targets, U, strict=True)])

    def losses(log_probs):
        return torch.nn.functional.ctc_loss(log_probs.transpose(0, 1),  # (T, B, V)
                                            targets, T, U, blank=asked.blank, reduction=reduction,
                                            zero_infinity="zero_infinity" in options)

    with torch.backends.cudnn.flags(enabled="cudnn" in options):
        return ask(asked, losses, device)


answer(loss, name="torch.nn.functional.ctc_loss", version=torch.__version__, kind="ctc", scores="log_probs",
       precisions=["float32"] if "cudnn" in options else ["float32", "float64"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after"])

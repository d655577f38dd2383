"""warpctc_pytorch.CTCLoss, warp-ctc on the CPU. Argument: none, sum, size_average or length_average.

It takes logits as (T, B, V), float32, and the labels of all utterances one after another, without padding. Integers
are int32. Its losses have the shape (B, 1) without a reduction, and (1,) with one.
"""

import sys

import numpy as np
import torch
import warpctc_pytorch
from answering import answer
from batches import batch
from torch_autograd import ask

reduction, = sys.argv[1:]
options = {"none": {"reduce": False}, "sum": {}}.get(reduction, {reduction: True})


def loss(inputs, precision):
    asked = batch(inputs, precision)
    labels = np.concatenate([row[:length] for row, length in zip(asked.targets, asked.target_lengths)])  # noqa: B905
    integers = [torch.tensor(array, dtype=torch.int32)
                for array in (labels, asked.logit_lengths, asked.target_lengths)]

    def losses(logits):
        found = warpctc_pytorch.CTCLoss(blank=asked.blank, **options)(logits.transpose(0, 1), *integers)
        return found[:, 0] if reduction == "none" else found

    return ask(asked, losses)


answer(loss, name="warpctc_pytorch.CTCLoss", version=f"{warpctc_pytorch.__version__} on torch {torch.__version__}",
       kind="ctc", scores="logits", precisions=["float32"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after"])

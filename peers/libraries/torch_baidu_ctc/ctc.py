"""torch_baidu_ctc.ctc_loss, warp-ctc on the CPU. Arguments: the reduction, then average_frames or nothing.

It takes logits as (T, B, V), and the labels of all utterances one after another, without padding. Doubles are computed
in float32.
"""

import sys
from importlib.metadata import version

import numpy as np
import torch
import torch_baidu_ctc
from batches import batch
from torch_autograd import ask

from reference_impl.conformance import answer

reduction, *options = sys.argv[1:]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    labels = np.concatenate([row[:length] for row, length in zip(asked.targets, asked.target_lengths, strict=True)])
    integers = [torch.tensor(array, dtype=torch.int32)
                for array in (labels, asked.logit_lengths, asked.target_lengths)]

    def losses(logits):
        return torch_baidu_ctc.ctc_loss(logits.transpose(0, 1), *integers, average_frames="average_frames" in options,
                                        reduction=reduction, blank=asked.blank)

    return ask(asked, losses)


answer(loss, name="torch_baidu_ctc.ctc_loss (warp-ctc)", version=version("torch_baidu_ctc"), kind="ctc",
       scores="logits", precisions=["float32"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after"])

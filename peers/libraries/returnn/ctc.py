"""RETURNN's CTC losses for torch, native operators that are compiled at the first call. Argument: padded or packed.

ctc_loss takes padded logits, ctc_loss_packed the frames of all utterances one after another.
"""

import sys
from importlib.metadata import version

import numpy as np
import torch
from batches import batch
from returnn.torch.util import native_op
from torch_autograd import ask

from reference_impl.conformance import answer

way = sys.argv[1]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    T, U, targets = (torch.tensor(array, dtype=torch.int32)
                     for array in (asked.logit_lengths, asked.target_lengths, asked.targets))

    def losses(logits):
        if way == "padded":
            return native_op.ctc_loss(logits=logits, logits_seq_lens=T, targets=targets, targets_seq_lens=U,
                                      blank_index=asked.blank)
        packed = torch.cat([row[:length] for row, length in zip(logits, asked.logit_lengths, strict=True)])
        starts = torch.tensor(np.cumsum(asked.logit_lengths) - asked.logit_lengths, dtype=torch.int32)
        return native_op.ctc_loss_packed(logits=packed, seq_starts=starts, logits_seq_lens=T, targets=targets,
                                         targets_seq_lens=U, blank_index=asked.blank)

    return ask(asked, losses)


answer(loss, name=f"returnn.torch.util.native_op.ctc_loss{'_packed' if way == 'packed' else ''}",
       version=version("returnn"), kind="ctc", scores="logits", precisions=["float32"],
       can=["batch", "upstream", "second backward", "inputs after"])

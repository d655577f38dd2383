"""k2.rnnt_loss. Arguments: the reduction, then "no boundary" or nothing.

Its type is regular, the default: modified and constrained sum over other paths. Lengths are said by `boundary`;
without one every utterance has all frames and labels. rnnt_loss_simple, rnnt_loss_smoothed and rnnt_loss_pruned take
the scores of an encoder and a predictor, or of a window, and are no losses of the array that is asked about.
"""

import sys

import k2
import torch
from answering import answer
from batches import batch
from torch_autograd import ask

reduction, *options = sys.argv[1:]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    boundary = torch.zeros((len(asked.scores), 4), dtype=torch.int64)
    boundary[:, 2], boundary[:, 3] = torch.tensor(asked.target_lengths), torch.tensor(asked.logit_lengths)
    targets = torch.tensor(asked.targets)

    def losses(logits):
        return k2.rnnt_loss(logits, targets, termination_symbol=asked.blank, boundary=None if options else boundary,
                            reduction=reduction)

    return ask(asked, losses)


answer(loss, name="k2.rnnt_loss", version=f"{k2.__dev_version__} on torch {torch.__version__}", kind="rnnt",
       scores="logits", precisions=["float32", "float64"],
       can=[*([] if options else ["batch"]), *(["upstream"] if reduction == "none" else []), "second backward",
            "inputs after"])

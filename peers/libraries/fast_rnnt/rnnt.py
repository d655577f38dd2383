"""fast_rnnt.rnnt_loss, k2's RNN-T loss in a package of its own. Arguments: rnnt_loss, the reduction, "no boundary".

Lengths are said by `boundary`; without one every utterance has all frames and labels.
"""

import sys

import fast_rnnt
import torch
from batches import batch
from torch_autograd import ask

from reference_impl.conformance import answer

function, reduction, *options = sys.argv[1:]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    boundary = torch.zeros((len(asked.scores), 4), dtype=torch.int64)
    boundary[:, 2], boundary[:, 3] = torch.tensor(asked.target_lengths), torch.tensor(asked.logit_lengths)
    targets = torch.tensor(asked.targets)

    def losses(logits):
        return getattr(fast_rnnt, function)(logits, targets, termination_symbol=asked.blank,
                                            boundary=None if options else boundary, reduction=reduction)

    # a second backward pass through the same graph raises, since the first one writes over what forward kept
    return ask(asked, losses, twice=False)


answer(loss, name=f"fast_rnnt.{function}", version=fast_rnnt.__version__, kind="rnnt", scores="logits",
       precisions=["float32", "float64"],
       can=[*([] if options else ["batch"]), *(["upstream"] if reduction == "none" else []), "inputs after"])

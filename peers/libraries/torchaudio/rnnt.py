"""torchaudio.functional.rnnt_loss. Arguments: the reduction, logits or log_probs, then cuda or nothing.

With log_probs it is told not to apply log-softmax, by fused_log_softmax=False. Integers are int32.
"""

import sys

import torch
import torchaudio
from batches import batch
from torch_autograd import ask

from reference_impl.conformance import answer

reduction, scores, *options = sys.argv[1:]
device = "cuda" if "cuda" in options else "cpu"


def loss(inputs, precision):
    asked = batch(inputs, precision)
    integers = [torch.tensor(array, dtype=torch.int32, device=device)
                for array in (asked.targets, asked.logit_lengths, asked.target_lengths)]

    def losses(given):
        return torchaudio.functional.rnnt_loss(given, *integers, blank=asked.blank, reduction=reduction,
                                               fused_log_softmax=scores == "logits")

    return ask(asked, losses, device)


answer(loss, name="torchaudio.functional.rnnt_loss", version=f"{torchaudio.__version__} on torch {torch.__version__}",
       kind="rnnt", scores=scores, precisions=["float32"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after"])

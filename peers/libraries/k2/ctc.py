"""k2.ctc_loss over k2.ctc_graph and k2.DenseFsaVec. Arguments: the reduction, then output_beam if not the default 10.

The blank is symbol 0, so the symbols are renamed. Targets are a ragged tensor, the labels of all utterances one after
another and where each begins; scores are float32, as DenseFsaVec asserts. It takes a segment (utterance, first frame,
frames) for each utterance, and these must be in the order of falling length: the utterances are sorted, and the losses
sorted back.
"""

import sys

import k2
import numpy as np
import torch
from answering import answer
from batches import batch
from torch_autograd import ask

reduction, *beam = sys.argv[1:]
options = {"output_beam": float(beam[0])} if beam else {}


def loss(inputs, precision):
    asked = batch(inputs, precision).with_blank(0)
    order = np.argsort(-asked.logit_lengths, kind="stable")
    lengths = asked.target_lengths[order]
    labels = np.concatenate([asked.targets[b, :asked.target_lengths[b]] for b in order])
    begins = np.concatenate([[0], np.cumsum(lengths)])
    segments = np.stack([order, np.zeros_like(order), asked.logit_lengths[order]], axis=1)

    def losses(log_probs):
        shape = k2.ragged.create_ragged_shape2(row_splits=int32(begins))
        graphs = k2.ctc_graph(k2.RaggedTensor(shape, int32(labels)))
        found = k2.ctc_loss(graphs, k2.DenseFsaVec(log_probs, int32(segments)), reduction=reduction,
                            target_lengths=torch.tensor(lengths), **options)
        return found[torch.tensor(np.argsort(order))] if found.ndim else found

    return ask(asked, losses)


def int32(array):
    return torch.tensor(array, dtype=torch.int32)


answer(loss, name="k2.ctc_loss", version=f"{k2.__dev_version__} on torch {torch.__version__}", kind="ctc",
       scores="log_probs", precisions=["float32"],
       can=["batch", *(["upstream"] if reduction == "none" else []), "second backward", "inputs after"])

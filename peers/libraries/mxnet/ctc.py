"""MXNet's CTC losses. Argument: gluon or op.

gluon.loss.CTCLoss takes logits as (B, T, V), and the blank is the last symbol. The operator that it calls is
mx.nd.CTCLoss: it takes (T, B, V), and the blank is the first or the last symbol. The adapter
renames the symbols accordingly. Both compute in float32 only.
"""

import sys

import mxnet as mx
from batches import batch

from reference_impl.conformance import answer

way = sys.argv[1]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    if way == "gluon" or asked.blank:
        asked = asked.with_blank(-1)
    logits = mx.nd.array(asked.scores, dtype=precision)
    # labels and lengths of the scores' type, as in the documentation's examples
    targets, T, U = (mx.nd.array(array, dtype=precision)
                     for array in (asked.targets, asked.logit_lengths, asked.target_lengths))
    logits.attach_grad()
    with mx.autograd.record():
        if way == "gluon":
            losses = mx.gluon.loss.CTCLoss(layout="NTC", label_layout="NT")(logits, targets, T, U)
        else:
            losses = mx.nd.CTCLoss(logits.swapaxes(0, 1), targets, T, U, use_data_lengths=True,
                                   use_label_lengths=True, blank_label="last" if asked.blank else "first")
    losses.backward(mx.nd.array(asked.upstream, dtype=precision))
    return asked.answer(losses.asnumpy(), logits.grad.asnumpy(), scores_after=logits.asnumpy())


answer(loss, name="mxnet.gluon.loss.CTCLoss" if way == "gluon" else "mxnet.nd.CTCLoss", version=mx.__version__,
       kind="ctc", scores="logits", precisions=["float32"], can=["batch", "upstream", "inputs after"])

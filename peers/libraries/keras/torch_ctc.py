"""Keras' CTC losses on PyTorch. Argument: ops or loss; see common/keras_ctc_losses.py."""

import sys

from batches import batch
from keras_ctc_losses import about, losses, question
from torch_autograd import ask

from reference_impl.conformance import answer

way = sys.argv[1]


def loss(inputs, precision):
    asked = question(way, batch(inputs, precision))
    return ask(asked, lambda logits: losses(way, asked, logits))


answer(loss, **about(way), can=["batch", "upstream", "second backward", "inputs after"] if way == "ops"
       else ["second backward", "inputs after"])

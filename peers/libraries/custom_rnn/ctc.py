"""CTCLoss of custom-rnn, a teaching library in NumPy. Argument: log_probs or probabilities.

Its documentation says that it takes log-probs, (T, B, V), and what it says of alpha reads like probabilities. With
"log_probs" they are handed over as they are. With "probabilities" their exponentials are, and its gradient is
multiplied by these, which carries it to the log-probs. The loss is the mean over the batch.
"""

import sys
from importlib.metadata import version

import numpy as np
from batches import batch
from CTC import CTCLoss

from reference_impl.conformance import answer

way = sys.argv[1]


def loss(inputs, precision):
    asked = batch(inputs, precision)
    given = (np.exp(asked.scores) if way == "probabilities" else asked.scores).transpose(1, 0, 2)
    module = CTCLoss(BLANK=asked.blank)
    value = module(given, asked.targets, asked.logit_lengths, asked.target_lengths)
    gradient = module.backward().transpose(1, 0, 2)
    return asked.answer(value, gradient * np.exp(asked.scores) if way == "probabilities" else gradient)


answer(loss, name="custom-rnn CTCLoss", version=version("custom-rnn"), kind="ctc", scores="log_probs",
       precisions=["float64"], can=["batch"])

"""Training that scales: several processes with the gradient of one, batches of similar lengths, runs that go on.

It is no speech toolkit, and no loss is here. A data set is a sequence of pairs, frames (T, F) and labels (U,); a model
maps padded frames and their lengths to logits and theirs, for RNN-T with the padded targets besides; the losses are
those of :mod:`reference_impl.torch_impl`.

:mod:`.gradients` says what a step divides by, and derives it; :mod:`.equality` prints how far several processes are
from one. :mod:`.buckets` plans an epoch, :mod:`.checkpoints` writes what a run needs to go on to the same bits, and
:mod:`.precision` measures what half precision costs. :mod:`.calculator` has memory and time of a loss, and
:mod:`.prediction` those of a whole run, on paper. :mod:`.training` puts these together, and :mod:`.run` is the program:
``python -m reference_impl.scaling.run --steps 20 --out FOLDER``, alone or by torchrun.
"""

from .buckets import COSTS, LengthBuckets, PlanReport
from .calculator import (
    BACKENDS,
    DTYPES,
    LossMemory,
    Speeds,
    fitted_speeds,
    measured_memory,
    memory_of_loss,
    seconds_of_loss,
)
from .checkpoints import Checkpoints, DamagedCheckpoint, random_state, restore_random_state
from .equality import dealt_out, digest_of, equality_table, one_by_one
from .gradients import REDUCTIONS, StepLoss, UtteranceLosses, bias_of_the_mean_of_means, data_parallel, step_backward
from .networks import FrameNetwork, TransducerNetwork, influence_of_the_batch, logits_of
from .precision import PRECISIONS, autocast_of, flushed_shares, precision_errors, scaler_of, scaler_trace
from .prediction import Assumptions, Prediction, predict
from .processes import Process, agreed, joined, run_processes, this_process, totals
from .training import Kill, Training, train
from .utterances import DIVISORS, Batch, collate, count_of, make_utterances

__all__ = ["Assumptions", "BACKENDS", "Batch", "COSTS", "Checkpoints", "DIVISORS", "DTYPES", "DamagedCheckpoint",
           "FrameNetwork", "Kill", "LengthBuckets", "LossMemory", "PRECISIONS", "PlanReport", "Prediction", "Process",
           "REDUCTIONS", "Speeds", "StepLoss", "Training", "TransducerNetwork", "UtteranceLosses", "agreed",
           "autocast_of", "bias_of_the_mean_of_means", "collate", "count_of", "data_parallel", "dealt_out",
           "digest_of", "equality_table", "fitted_speeds", "flushed_shares", "influence_of_the_batch", "joined",
           "logits_of", "make_utterances", "measured_memory", "memory_of_loss", "one_by_one", "precision_errors",
           "predict", "random_state", "restore_random_state", "run_processes", "scaler_of", "scaler_trace",
           "seconds_of_loss", "step_backward", "this_process", "totals", "train"]

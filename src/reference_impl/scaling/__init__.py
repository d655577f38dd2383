"""Training that scales: several processes with the gradient of one, batches of similar lengths, runs that go on.

It is no speech toolkit, and no loss is here. Examples, batches and networks are those of the room ``speech``, the step
of an optimiser is that of ``networks``, and the losses are those of :mod:`reference_impl.torch_impl`.

:mod:`.gradients` says what a step divides by, and derives it. :mod:`.buckets` plans an epoch, :mod:`.checkpoints`
writes what a run needs to go on to the same bits, and :mod:`.precision` measures what half precision costs.
:mod:`.calculator` has memory and time of a loss, and :mod:`.prediction` those of a whole run, on paper.
:mod:`.training` puts these together, and :mod:`.run` is the program:
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
from .checkpoints import Checkpoints, DamagedCheckpoint, digest_of, random_state, restore_random_state
from .gradients import (
    DIVISORS,
    REDUCTIONS,
    StepLoss,
    UtteranceLosses,
    bias_of_the_mean_of_means,
    count_of,
    ctc_losses,
    data_parallel,
    rnnt_losses,
    step_backward,
)
from .made_up import made_up
from .precision import PRECISIONS, autocast_of, dtype_of, flushed_shares, precision_errors, scaler_trace
from .prediction import Assumptions, Prediction, predict
from .processes import Process, agreed, joined, run_processes, this_process, torchrun, totals
from .training import Kill, Training, train

__all__ = ["Assumptions", "BACKENDS", "COSTS", "Checkpoints", "DIVISORS", "DTYPES", "DamagedCheckpoint", "Kill",
           "LengthBuckets", "LossMemory", "PRECISIONS", "PlanReport", "Prediction", "Process", "REDUCTIONS", "Speeds",
           "StepLoss", "Training", "UtteranceLosses", "agreed", "autocast_of", "bias_of_the_mean_of_means", "count_of",
           "ctc_losses", "data_parallel", "digest_of", "dtype_of", "fitted_speeds", "flushed_shares", "joined",
           "made_up", "measured_memory", "memory_of_loss", "precision_errors", "predict", "random_state",
           "restore_random_state", "rnnt_losses", "run_processes", "scaler_trace", "seconds_of_loss", "step_backward",
           "this_process", "torchrun", "totals", "train"]

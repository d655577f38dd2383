r"""The program that trains: alone, or as one of the processes that torchrun starts. It has no code of its own to train.

    python -m reference_impl.scaling.run --steps 20 --out FOLDER
    python -m torch.distributed.run --standalone --nproc-per-node 2 \
        -m reference_impl.scaling.run --steps 20 --out FOLDER

Called again with the same arguments, it goes on where it was interrupted. FOLDER has to be one that all processes see.
"""

from __future__ import annotations

import argparse
import functools
import math
import random
import sys

import numpy as np
import torch

from ..speech.batches import examples
from ..speech.corpus import load
from ..speech.letters import NUM_SYMBOLS
from ..speech.networks import SUBSAMPLING, CTCNetwork, Transducer
from ..speech.training import optimiser_of
from .buckets import LengthBuckets
from .gradients import DIVISORS, REDUCTIONS, ctc_losses, rnnt_losses
from .made_up import made_up
from .precision import PRECISIONS
from .processes import joined
from .training import Kill, Training, train

__all__ = ["main"]

_LOSSES = {"ctc": (CTCNetwork, ctc_losses), "rnnt": (Transducer, rnnt_losses)}


def main(arguments=None):
    """Parse the command line, join the other processes, train; rank 0 prints the digest of the parameters.

    Parameters
    ----------
    arguments : list of str, optional
        Instead of those of the command line.
    """
    options = _parser().parse_args(arguments)
    if options.device == "cpu":
        torch.set_num_threads(1)  # processes share the cores, and the bits do not depend on their number
    with joined(options.device) as process:
        corpus = _corpus(options)
        network, losses = _LOSSES[options.loss]
        torch.manual_seed(options.seed)  # for the weights, which all start with those of rank 0
        model = network(options.width, dropout=options.dropout).to(process.device)
        for seed in (random.seed, np.random.seed, torch.manual_seed):  # for dropout and the like, which differ by rank
            seed(1000 * (options.seed + 1) + process.rank)
        settings = {name: getattr(options, name) for name in (
            "corpus", "utterances", "seed", "budget", "ratio", "width", "dropout", "rate", "steps")}
        training = Training(model, losses, corpus, _buckets(options, corpus, process.world_size),
                            functools.partial(optimiser_of, steps=options.steps, rate=options.rate), process,
                            divisor=options.divisor, reduction=options.reduction, precision=options.precision,
                            largest_norm=options.largest_norm, settings=settings)
        digest = train(training, options.out, options.steps, checkpoint_every=options.checkpoint_every,
                       keep=options.keep, kill=options.kill)
        if process.leads:
            print(f"{training.step} steps, {process.world_size} processes, parameters {digest}")


def _parser():
    parser = argparse.ArgumentParser(prog="python -m reference_impl.scaling.run", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, required=True, help="to be reached, those made before an interruption included")
    add("--out", required=True, metavar="FOLDER", help="for checkpoints, metrics.jsonl and events.jsonl")
    add("--loss", choices=tuple(_LOSSES), default="ctc")
    add("--corpus", metavar="FOLDER", help="data/speech of the book's repository; utterances are made up without it")
    add("--utterances", type=int, default=64)
    add("--seed", type=int, default=0, help="of data, weights, order and noise (default: 0)")
    add("--budget", type=int, help="most frames, or cells of the RNN-T grid, in a batch, padding included")
    add("--ratio", type=float, default=1.3, help="of the lengths in a bucket (default: 1.3)")
    add("--batches", type=int, help="in a step, of all processes together; a multiple of their number (default: it)")
    add("--divisor", choices=DIVISORS, default="utterances", help="of the mean")
    add("--reduction", choices=REDUCTIONS, default="mean", help='"mean of means" is the mistake')
    add("--precision", choices=PRECISIONS, default="float32")
    add("--width", type=int, default=32)
    add("--dropout", type=float, default=0.1)
    add("--rate", type=float, default=6e-3, help="highest learning rate (default: 0.006)")
    add("--largest-norm", type=float, default=5.0, help="of a gradient, which is scaled down to it (default: 5)")
    add("--checkpoint-every", type=int, default=10, metavar="STEPS")
    add("--keep", type=int, default=3, help="checkpoints that stay (default: 3)")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--kill", type=_kill, metavar="RANK:STEP:WHERE", help="a rank that kills itself, once; WHERE is backward or "
                                                              "checkpoint")
    return parser


def _kill(text):
    rank, step, where = text.split(":")
    return Kill(int(rank), int(step), where)


def _corpus(options):
    """Utterances made up, or so many of those of a corpus, from all of its voices."""
    if options.corpus is None:
        return made_up(options.utterances, seed=options.seed)
    heard = load("train", options.corpus)
    chosen = np.linspace(0, len(heard), min(options.utterances, len(heard)), endpoint=False).astype(int)
    return examples([heard[i] for i in chosen], seed=options.seed)


def _buckets(options, corpus, world_size):
    """A plan of the epochs; a budget that was not given is one for about eight of the longest utterances."""
    frames, labels = ([len(getattr(each, name)) for each in corpus] for name in ("frames", "labels"))
    grid, longest = {}, max(frames)
    if options.loss == "rnnt":
        grid = {"cost": "cells", "num_symbols": NUM_SYMBOLS, "stride": SUBSAMPLING}
        longest = math.ceil(longest / SUBSAMPLING) * (max(labels) + 1) * NUM_SYMBOLS
    return LengthBuckets(frames, labels, budget=options.budget or 8 * longest, ratio=options.ratio, seed=options.seed,
                         batches_a_step=options.batches or world_size, **grid)


if __name__ == "__main__":
    sys.exit(main())

r"""The program that trains: alone, or as one of the processes that torchrun starts. It has no code of its own to train.

    python -m reference_impl.scaling.run --steps 20 --out FOLDER
    python -m torch.distributed.run --standalone --nproc-per-node 2 \
        -m reference_impl.scaling.run --steps 20 --out FOLDER

Called again with the same arguments, it goes on where it was interrupted. FOLDER has to be one that all processes see.
"""

from __future__ import annotations

import argparse
import math
import random
import sys

import numpy as np
import torch

from .buckets import LengthBuckets
from .gradients import REDUCTIONS
from .networks import FrameNetwork, TransducerNetwork
from .precision import PRECISIONS
from .processes import joined
from .training import Kill, Training, train
from .utterances import DIVISORS, make_utterances

__all__ = ["main"]


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
        utterances, num_symbols = _corpus(options)
        frames, labels = ([len(each[i]) for each in utterances] for i in (0, 1))
        grid = {"cost": "cells", "num_symbols": num_symbols, "stride": 2} if options.loss == "rnnt" else {}
        buckets = LengthBuckets(frames, labels, budget=options.budget, ratio=options.ratio, seed=options.seed,
                                world_size=process.world_size, **grid)
        torch.manual_seed(options.seed)  # for the weights, which all start with those of rank 0
        network = FrameNetwork if options.loss == "ctc" else TransducerNetwork
        model = network(utterances[0][0].shape[1], num_symbols, width=options.width, dropout=options.dropout)
        model.to(process.device)
        for seed in (random.seed, np.random.seed, torch.manual_seed):  # for dropout and the like, which differ by rank
            seed(1000 * (options.seed + 1) + process.rank)
        optimiser = torch.optim.Adam(model.parameters(), lr=options.rate)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, options.steps)
        settings = {name: getattr(options, name) for name in (
            "data", "utterances", "seed", "budget", "ratio", "width", "dropout", "rate", "steps")}
        training = Training(model, utterances, buckets, optimiser, process, scheduler=scheduler, loss=options.loss,
                            divisor=options.divisor, reduction=options.reduction, precision=options.precision,
                            accumulate=options.accumulate, clip=options.clip, settings=settings)
        digest = train(training, options.out, options.steps, checkpoint_every=options.checkpoint_every,
                       keep=options.keep, kill=options.kill)
        if process.leads:
            print(f"{training.step} steps, {process.world_size} processes, parameters {digest}")


def _parser():
    parser = argparse.ArgumentParser(prog="python -m reference_impl.scaling.run", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--steps", type=int, required=True, help="to be reached, those made before an interruption included")
    add("--out", required=True, metavar="FOLDER", help="for checkpoints, metrics.jsonl and events.jsonl")
    add("--loss", choices=("ctc", "rnnt"), default="ctc")
    add("--data", choices=("made-up", "digits"), default="made-up", help="digits: strings of scanned digits")
    add("--utterances", type=int, default=64)
    add("--seed", type=int, default=0, help="of data, weights, order and noise (default: 0)")
    add("--budget", type=int, help="most frames, or cells of the RNN-T grid, in a batch, padding included")
    add("--ratio", type=float, default=1.3, help="of the lengths in a bucket (default: 1.3)")
    add("--accumulate", type=int, default=1, help="batches of each process in a step (default: 1)")
    add("--divisor", choices=DIVISORS, default="utterances", help="of the mean")
    add("--reduction", choices=REDUCTIONS, default="mean", help='"mean of means" is the mistake')
    add("--precision", choices=PRECISIONS, default="float32")
    add("--width", type=int, default=16)
    add("--dropout", type=float, default=0.1)
    add("--rate", type=float, default=0.01, help="highest learning rate, of Adam (default: 0.01)")
    add("--clip", type=float, help="longest gradient")
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
    """The utterances, and V; a budget that was not given is one for about eight of the longest."""
    if options.data == "made-up":
        utterances, num_symbols = make_utterances(options.utterances, seed=options.seed), 6
    else:
        from ..digits.strings import NUM_SYMBOLS, load_images, make_strings

        rng = np.random.default_rng(options.seed)
        strings = make_strings(*load_images(held_out=False), options.utterances, rng)
        utterances = [(strings.frames_of(b), strings.targets_of(b)) for b in range(len(strings))]
        num_symbols = NUM_SYMBOLS
    if options.budget is None:
        longest = [max(len(each[i]) for each in utterances) for i in (0, 1)]
        cells = math.ceil(longest[0] / 2) * (longest[1] + 1) * num_symbols
        options.budget = 8 * (longest[0] if options.loss == "ctc" else cells)
    return utterances, num_symbols


if __name__ == "__main__":
    sys.exit(main())

"""Trains one network with right gradients and with planted bugs, the same seeds for each, and reads unseen voices.

    python benchmarks/gradient_matters.py      # data/gradient_matters.json

Everything is synthetic: the number strings of data/speech. A run differs from the others of its seed in the loss alone:
first weights, order of batches, rooms and noise, dropout are the same. What each run learned is said by error rates and
by the right loss, on voices that are in no training utterance. Some ten minutes of a CPU core.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from speech_networks import DATA, NOISE_OF_TEST, about, rates, written
from tqdm import tqdm

from reference_impl import batched
from reference_impl.bug_bank.fast_bugs import FAST_BUGS
from reference_impl.networks import objectives
from reference_impl.speech import batches, corpus, networks, reading, training
from reference_impl.speech.corpus import number_strings

#: Whose gradient a run follows.
LOSSES = {"ours": objectives.mean_ctc_loss, "torch's own": objectives.torch_ctc_loss,
          **{name: partial(objectives.candidate_loss, candidate=bug) for name, bug in FAST_BUGS.items()}}
SIZE = 8


def run(found, loss, *, steps, seed):
    """A network trained by one loss, and what it said of itself in each step."""
    torch.manual_seed(seed)
    network = networks.CTCNetwork()
    drawn = batches.shuffled(found, SIZE, np.random.default_rng(seed))
    said = [value for _, value in training.train(network, drawn, loss, steps=steps)]
    return network, said


def right_loss(network, unseen):
    """The mean CTC loss on the unseen voices, nats a letter, whatever the network was trained with."""
    total = 0.0
    for logits, example in zip(reading.logits_of(network, unseen), unseen, strict=True):
        losses, _ = batched.ctc_loss(logits[None], example.labels[None], [len(logits)], [len(example.labels)])
        total += losses[0]
    return total / sum(len(example.labels) for example in unseen)


def distance(network, other):
    """Between the weights of two networks, in units of those of the second."""
    one, two = (torch.nn.utils.parameters_to_vector(each.parameters()).detach().double() for each in (network, other))
    return float((one - two).norm() / two.norm())


def measured(network, said, unseen):
    """What is kept of a run."""
    every = max(1, len(said) // 50)
    parts = [float(np.mean(said[first:first + every])) for first in range(0, len(said), every)]
    scored = rates(reading.scored(reading.read(network, unseen), unseen))
    return {"letters": scored["letters"], "words": scored["words"], "right loss": rounded(right_loss(network, unseen)),
            "said": [rounded(each) for each in parts], "steps a mean": every}


def rounded(value):
    """Four digits; None where it is no number, as JSON has none of those."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--limit", type=int, help="use so many utterances of each part only, to try this out")
    parser.add_argument("--output", type=Path, default=DATA / "gradient_matters.json")
    options = parser.parse_args()
    torch.set_num_threads(1)

    given, held_out = (number_strings(corpus.load(part, DATA / "speech"))[:options.limit] for part in ("train", "test"))
    found = batches.examples(given, copies=3, warp=0.05)
    unseen = batches.examples(held_out, seed=NOISE_OF_TEST)
    result = about(what="synthetic speech: what networks learn from right and from wrong CTC gradients",
                   command="python benchmarks/gradient_matters.py", steps=options.steps, seeds=options.seeds,
                   batch=SIZE, utterances={"training": len(given), "unseen voices": len(unseen)},
                   runs={name: [] for name in LOSSES})
    first = None
    for seed in range(options.seeds):
        for name, loss in tqdm(LOSSES.items(), desc=f"seed {seed}"):
            start = time.process_time()
            network, said = run(found, loss, steps=options.steps, seed=seed)
            kept = {"seed": seed, "processor seconds": round(time.process_time() - start),
                    **measured(network, said, unseen)}
            if name == "ours":
                ours = network
                first = ours if seed == 0 else first
                kept["weights from seed 0"] = rounded(distance(network, first))
            else:
                kept["weights from ours"] = rounded(distance(network, ours))
            result["runs"][name].append(kept)
            print(name, seed, kept["letters"]["rate"], kept["words"]["rate"], kept["right loss"], flush=True)
            written(options.output, result)


if __name__ == "__main__":
    main()

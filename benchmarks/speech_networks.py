"""Trains the networks that chapters on speech load, and compares transducers that were asked to be early.

    python benchmarks/speech_networks.py weights      # all words: data/speech_networks/*.npz and .json
    python benchmarks/speech_networks.py delays       # number strings, each objective, seeds: data/speech_delays.json

Everything is synthetic: the corpus of data/speech. Voices of validation and test are in no training utterance. Delays
are seconds from the true end of a word to its last letter. ``weights`` takes half an hour of a CPU core, and ``delays``
three quarters of one; it goes on where it was stopped: runs that its file has are not done again.
"""

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from reference_impl.networks import objectives
from reference_impl.speech import batches, corpus, networks, reading, stored, training
from reference_impl.speech.corpus import number_strings
from reference_impl.speech.delays import expected_delays

DATA = Path(__file__).parent.parent / "data"
#: What changes nothing in the network, and everything in what it is asked for: made anew for each run, since some count
#: its steps. Late penalties come when the network has begun to hear.
OBJECTIVES = {
    "full": lambda steps: objectives.full_loss,
    "FastEmit, lambda = 0.004": lambda steps: partial(objectives.full_loss, fastemit_lambda=0.004),
    "FastEmit, lambda = 0.01": lambda steps: partial(objectives.full_loss, fastemit_lambda=0.01),
    "FastEmit, lambda = 0.1": lambda steps: partial(objectives.full_loss, fastemit_lambda=0.1),
    "delay penalty 0.002": lambda steps: partial(objectives.delay_penalised_loss, penalty=0.002),
    "late delay penalty 0.01": lambda steps: objectives.LateDelayPenalty(0.01, 3 * steps // 5),
    "late delay penalty 0.05": lambda steps: objectives.LateDelayPenalty(0.05, 3 * steps // 5),
    "pruned, 5 rows": lambda steps: objectives.PrunedLoss(5, warm_steps=steps // 4),
}
NOISE_OF_TEST = 1
#: Bands in which a pruned transducer is measured.
ROWS = (2, 3, 5, 10)


def trained(network, found, objective, *, steps, seed, size=8, rate=6e-3, masks=False, show=""):
    """The network after ``steps`` steps, in evaluation mode, and the processor seconds that took."""
    rng = np.random.default_rng(seed)
    drawn = batches.shuffled(found, size, rng)
    if masks:
        drawn = (batches.masked(batch, rng, bands=6, frames=8) for batch in drawn)
    start = time.process_time()
    loop = training.train(network, drawn, objective, steps=steps, rate=rate)
    for _ in tqdm(loop, total=steps, desc=show, mininterval=10):
        pass
    return network, time.process_time() - start


def rates(heard):
    """What is kept of error rates and delays."""
    def kept(rate):
        return {"rate": round(rate.rate, 4), "low": round(rate.low, 4), "high": round(rate.high, 4),
                "of": rate.length, "edits": list(map(int, rate.counts))}

    quarters = np.percentile(heard.delays, [25, 50, 75]).round(4).tolist() if len(heard.delays) else []
    return {"letters": kept(heard.letters), "words": kept(heard.words),
            "delays": {"seconds": quarters, "of": len(heard.delays)}}


def about(**more):
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "python": platform.python_version(),
            "versions": {"torch": torch.__version__, "numpy": np.__version__}, **more}


def weights(folder, *, steps, limit):
    """Train both networks on all training voices; store their weights, and how well these read the others."""
    folder.mkdir(exist_ok=True)
    found = batches.examples(corpus.load("train", DATA / "speech")[:limit], copies=6, warp=0.1)
    unseen = {part: batches.examples(corpus.load(part, DATA / "speech")[:limit], seed=NOISE_OF_TEST)
              for part in ("validation", "test")}
    result = about(what="synthetic speech: error rates of the stored networks on voices that they have not heard",
                   command="python benchmarks/speech_networks.py weights", seed=0, steps=steps)
    kinds = {"ctc": (networks.CTCNetwork, objectives.mean_ctc_loss, 2e-2, stored.ctc_network),
             "transducer": (networks.Transducer, objectives.full_loss, 6e-3, stored.transducer_network)}
    for name, (kind, objective, rate, load) in kinds.items():
        torch.manual_seed(0)
        network, seconds = trained(kind(), found, objective, steps=steps, seed=0, rate=rate, masks=True,
                                   show=name)
        stored.store(network, folder / f"{name}.npz")
        network = load(folder)  # as a reader gets it, after rounding
        result[name] = {"parameters": sum(p.numel() for p in network.parameters()),
                        "processor seconds": round(seconds)}
        result[name] |= {part: rates(reading.scored(reading.read(network, examples), examples))
                         for part, examples in unseen.items()}
        print(name, json.dumps(result[name]), flush=True)
        written(folder / "results.json", result)


def measured(network, unseen):
    """How well a transducer reads these examples, how early, and what they cost it on the whole grid."""
    posteriors = reading.label_posteriors(network, unseen)
    expected = np.concatenate([expected_delays(each, example.utterance, reading.SECONDS_A_FRAME)
                               for each, example in zip(posteriors, unseen, strict=True)])
    return {**rates(reading.scored(reading.read(network, unseen), unseen)),
            "expected delays": {"seconds": np.percentile(expected, [25, 50, 75]).round(4).tolist(),
                                "mean": round(float(expected.mean()), 4), "of": len(expected)},
            "nats a letter": nats_a_letter(network, unseen, objectives.full_loss)}


def nats_a_letter(network, found, objective, size=32):
    """The loss of all examples, over their letters."""
    chunks = [found[first:first + size] for first in range(0, len(found), size)]
    total = sum(len(chunk) * objective(network, *training.as_tensors(batches.batch_of(chunk))).item()
                for chunk in chunks)
    return round(total / sum(len(each.labels) for each in found), 4)


def by_rows(network, found):
    """Nats a letter of the pruned loss alone, for bands of so many rows."""
    return {rows: nats_a_letter(network, found, objectives.PrunedLoss(rows, warm_steps=0, simple_scale=0.0))
            for rows in ROWS}


def delays(path, *, steps, seeds, limit):
    """Train a transducer for each objective and seed; keep error rates and delays on the unseen voices.

    Of one seed all objectives get the same first weights and the same batches.
    """
    given = number_strings(corpus.load("train", DATA / "speech"))[:limit]
    found = batches.examples(given, copies=3, warp=0.05)
    given = number_strings(corpus.load("test", DATA / "speech"))[:limit]
    unseen = batches.examples(given, seed=NOISE_OF_TEST)
    result = about(what="synthetic speech: error rates and delays of transducers, by what they were trained with",
                   command=f"python benchmarks/speech_networks.py delays --steps {steps} --seeds {seeds}", steps=steps,
                   seeds=seeds, utterances={"training": len(found), "unseen": len(unseen)},
                   seconds_a_frame=reading.SECONDS_A_FRAME, objectives={name: [] for name in OBJECTIVES})
    if path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
        if all(stored[key] == result[key] for key in ("steps", "versions", "utterances")):
            result["objectives"] |= {name: stored["objectives"].get(name, []) for name in OBJECTIVES}
    for seed in range(seeds):
        for name, make in OBJECTIVES.items():
            if any(run["seed"] == seed for run in result["objectives"][name]):
                continue
            objective = make(steps)
            pruned = isinstance(objective, objectives.PrunedLoss)
            torch.manual_seed(seed)
            network = networks.Transducer(simple_joiner=pruned)
            torch.manual_seed(seed)  # the same dropout, whether or not there is a simple joiner
            network, seconds = trained(network, found, objective, steps=steps, seed=seed, show=f"{name}, seed {seed}")
            run = {"seed": seed, "processor seconds": round(seconds), **measured(network, unseen)}
            if pruned:
                run["nats a letter by rows"] = by_rows(network, unseen)
            result["objectives"][name].append(run)
            print(name, json.dumps(run), flush=True)
            written(path, result)


def written(path, result):
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("weights", "delays"))
    parser.add_argument("--steps", type=int, help="(default: 4000 for weights, 1000 for delays)")
    parser.add_argument("--seeds", type=int, default=5, help="of delays (default: 5)")
    parser.add_argument("--limit", type=int, help="use so many utterances of each part only, to try this out")
    parser.add_argument("--output", type=Path, help="(default: in data/)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.what == "weights":
        weights(options.output or DATA / "speech_networks", steps=options.steps or 4000, limit=options.limit)
    else:
        delays(options.output or DATA / "speech_delays.json", steps=options.steps or 1000, seeds=options.seeds,
               limit=options.limit)


if __name__ == "__main__":
    main()

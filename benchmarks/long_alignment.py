"""90 minutes of synthetic speech aligned with its text: time, memory, and how far words lie from where they were said.

    python benchmarks/long_alignment.py                  # 90 minutes, and data/long_alignment.json
    python benchmarks/long_alignment.py --minutes 10

The utterances of the test voices in `data/speech` follow one another, each time in another room with other noise, until
the minutes are full; their texts have a space between them. The CTC network of `data/speech_networks` hears each
utterance by itself, and its log-probs (float32) go to a file, one utterance after another.

The alignment reads this file in a process of its own, which has neither torch nor the network. "most_memory_bytes" is
the most memory that this process ever held, by `resource.getrusage`: Python, NumPy, and what it read of the file are
part of it. "seconds" are on the clock, "processor_seconds" of the process, which has one thread.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from reference_impl import __version__, log_softmax
from reference_impl.alignment import (
    boundary_accuracy,
    boundary_errors,
    choose_block,
    long_ctc_best_path,
    predicted_bytes,
    span_times,
    word_spans,
)

ROOT = Path(__file__).parent.parent


def say(minutes, seed, folder):
    """Write log-probs, labels, the labels of each word or space, and the true times of the words into a folder."""
    import torch

    from reference_impl.speech import batches, corpus, letters, reading, stored

    torch.set_num_threads(1)
    frame_seconds, network = reading.SECONDS_A_FRAME, stored.ctc_network(ROOT / "data" / "speech_networks")
    utterances, wanted = corpus.load("test", ROOT / "data" / "speech"), 60 * minutes / frame_seconds
    frames, labels, lengths, times = 0, [], [], []
    with open(folder / "log_probs.f32", "wb") as file:
        while frames < wanted:
            found = batches.examples(utterances, seed=seed)
            for said, logits in zip(found, reading.logits_of(network, found), strict=True):
                if frames >= wanted:
                    break
                file.write(log_softmax(logits).astype(np.float32).tobytes())
                words = said.utterance.words
                times += [(frames * frame_seconds + word.start, frames * frame_seconds + word.end) for word in words]
                labels += [letters.SPACE] * bool(labels) + said.labels.tolist()
                lengths += [1] * bool(lengths) + [n for word in words for n in (len(word.name), 1)][:-1]
                frames += len(logits)
            seed += 1
    np.savez(folder / "text.npz", labels=labels, lengths=lengths, times=times, frame_seconds=frame_seconds,
             shape=(frames, letters.NUM_SYMBOLS))


def align(folder):
    """Align what a folder holds; what it took, and the errors of the boundaries."""
    text = dict(np.load(folder / "text.npz"))
    (T, V), labels = text["shape"].tolist(), text["labels"]
    log_probs = np.memmap(folder / "log_probs.f32", np.float32, "r", shape=(T, V))
    start, processor = time.perf_counter(), time.process_time()
    found = long_ctc_best_path(log_probs, labels)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    first, last = (frames[::2] for frames in word_spans(found.first, found.last, text["lengths"]))  # no spaces
    row = {"T": T, "U": len(labels), "V": V, "words": len(first), "minutes": T * float(text["frame_seconds"]) / 60,
           "block": choose_block(T, len(labels), V), "seconds": seconds, "processor_seconds": processor,
           "most_memory_bytes": most, "predicted_bytes": predicted_bytes(T, len(labels), V),
           "bytes_of_all_pointers": T * (2 * len(labels) + 1), "log_mass": found.log_mass}
    for name, ours, true in zip(("starts", "ends"), span_times(first, last, float(text["frame_seconds"])),
                                text["times"].T, strict=True):
        accuracy = boundary_accuracy(boundary_errors([ours], [true]), draws=1)
        row |= {f"{name}: {what}": estimate.value for what, estimate in accuracy.items()}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=90)
    parser.add_argument("--seed", type=int, default=0, help="of rooms and noise")
    parser.add_argument("--output", type=Path, default=ROOT / "data" / "long_alignment.json")
    parser.add_argument("--say", type=Path, help=argparse.SUPPRESS)  # what the two processes are asked
    parser.add_argument("--align", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.say:
        say(options.minutes, options.seed, options.say)
        return
    if options.align:
        print(json.dumps(align(options.align)))
        return
    asked = [sys.executable, __file__, "--minutes", str(options.minutes), "--seed", str(options.seed)]
    with tempfile.TemporaryDirectory() as folder:
        # a process counts what its parent held when it was started, so this one stays small
        subprocess.run([*asked, "--say", folder], check=True)
        done = subprocess.run([*asked, "--align", folder], check=True, stdout=subprocess.PIPE)
    row = json.loads(done.stdout)
    result = {
        "what": "reference_impl.alignment.long_ctc_best_path on synthetic speech: time, memory, errors in seconds",
        "command": f"python benchmarks/long_alignment.py --minutes {options.minutes:g} --seed {options.seed}",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"reference_impl": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
        "rows": [row],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, value in row.items():
        print(f"{name:24} {value:,.3f}" if isinstance(value, float) else f"{name:24} {value:,}")


if __name__ == "__main__":
    main()

"""Forced alignment of very long audio by `reference_impl.alignment`: time, memory, and distance from the truth.

    python benchmarks/long_alignment.py                    # T = 20,000: a table, and data/long_alignment.json
    python benchmarks/long_alignment.py --frames 270000    # 90 minutes in frames of 20 ms: some minutes on one core
    python benchmarks/long_alignment.py --log-probs l.npy --targets t.npy [--first f.npy --last e.npy]

Without files the log-probs are simulated. A random text is spoken at 4.15 frames a letter: a letter lasts one to three
frames, then blanks follow, at least one between two equal letters. In each frame the true symbol's score is raised, or
in some frames that of a wrong symbol, noise is added, and log-softmax makes log-probs of it. They go to a file, and the
alignment reads them from there through a memory map. Files of your own are read in the same way: log-probs (T, V) in
nats, targets (U,), and for the errors the true first and last frame of each label.

Each alignment is made twice, because tracemalloc takes time for every allocation. The first time seconds are taken,
wall-clock time and beside it processor time of the process, which has one thread, and "resident" is by how much the
most memory that the process ever had grew meanwhile, by the operating system. The second time "peak" is the most that
Python and NumPy allocated at a time, by tracemalloc, result included and pages of the memory map not. A band, if asked
for, lies around the straight line from the first frame to the last.
"""

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from reference_impl import __version__
from reference_impl.alignment import band_around, choose_block, long_ctc_best_path, predicted_bytes

FRAMES_A_LETTER = 4.15
CHUNK = 4096


def spoken(num_frames, num_symbols, rng):
    """Labels of a random text, and the first and last frame of each; symbol 0 is the blank."""
    U = int(num_frames / FRAMES_A_LETTER)
    targets = rng.integers(1, num_symbols, U)
    durations = rng.integers(1, 4, U)
    repeats = np.append(targets[1:] == targets[:-1], False)
    left = num_frames - durations.sum() - repeats.sum()
    blanks = rng.multinomial(left, np.full(U + 1, 1 / (U + 1)))  # before the first label, and after each
    after = blanks[1:] + repeats
    first = blanks[0] + np.append(0, (durations + after).cumsum()[:-1])
    return targets, first, first + durations - 1


def simulated(path, num_frames, num_symbols, raised, wrong, rng):
    """Write log-probs of a random text to a file; its labels, and the true spans."""
    targets, first, last = spoken(num_frames, num_symbols, rng)
    truth = np.zeros(num_frames, np.int64)
    for offset in range(3):
        still = first + offset <= last
        truth[first[still] + offset] = targets[still]
    misheard = rng.random(num_frames) < wrong
    heard = np.where(misheard, rng.integers(0, num_symbols, num_frames), truth)
    log_probs = np.lib.format.open_memmap(path, "w+", np.float32, (num_frames, num_symbols))
    for start in range(0, num_frames, CHUNK):
        scores = rng.standard_normal((min(CHUNK, num_frames - start), num_symbols), np.float32)
        scores[np.arange(len(scores)), heard[start:start + CHUNK]] += raised
        log_probs[start:start + CHUNK] = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    log_probs.flush()
    return targets, first, last


def measured(log_probs, targets, blank, block, num_labels):
    """The best path, and a row of what it took."""
    (T, V), U = log_probs.shape, len(targets)
    band = {}
    if num_labels:
        band = {"first_labels": band_around(np.arange(T) * U // T, num_labels, U), "num_labels": num_labels}
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, processor = time.perf_counter(), time.process_time()
    found = long_ctc_best_path(log_probs, targets, blank=blank, block=block, **band)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
    tracemalloc.start()
    again = long_ctc_best_path(log_probs, targets, blank=blank, block=block, **band)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    if not np.array_equal(found.path, again.path):
        raise RuntimeError("two alignments of the same log-probs differ")
    row = {"T": T, "U": U, "S": 2 * U + 1, "V": V, "band_labels": num_labels or None,
           "block": block or (None if num_labels else choose_block(T, U, V)),
           "seconds": seconds, "processor_seconds": processor, "peak_bytes": peak,
           "predicted_bytes": None if num_labels else predicted_bytes(T, U, V, block),
           "resident_growth_bytes": grown * (1 if sys.platform == "darwin" else 1024),
           "bytes_of_all_pointers": T * (2 * U + 1), "log_mass": found.log_mass}
    return found, row


def errors(found, first, last):
    """Distances of the labels' first and last frames from the true ones: shares, means and largest, in frames."""
    row = {}
    for name, ours, theirs in (("first", found.first, first), ("last", found.last, last)):
        distance = np.abs(ours - theirs)
        row |= {f"{name}_exact": float((distance == 0).mean()), f"{name}_within_1": float((distance <= 1).mean()),
                f"{name}_mean": float(distance.mean()), f"{name}_largest": int(distance.max())}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, nargs="*", default=[20000], help="T of each simulation (default: 20000)")
    parser.add_argument("--symbols", type=int, default=32, help="V of a simulation, blank included (default: 32)")
    parser.add_argument("--raised", type=float, default=4.0, help="nats by which the heard symbol's score is raised")
    parser.add_argument("--wrong", type=float, default=0.1, help="share of frames in which any symbol is heard")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log-probs", type=Path, help="a file .npy of your own, (T, V), nats")
    parser.add_argument("--targets", type=Path, help="a file .npy of its labels, (U,) ints")
    parser.add_argument("--first", type=Path, help="a file .npy of the labels' true first frames")
    parser.add_argument("--last", type=Path, help="a file .npy of the labels' true last frames")
    parser.add_argument("--blank", type=int, default=0)
    parser.add_argument("--block", type=int, help="frames of a block (default: the one with the least memory)")
    parser.add_argument("--band", type=int, help="labels of a band around the straight line (default: no band)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "long_alignment.json")
    options = parser.parse_args()
    if (options.log_probs is None) != (options.targets is None):
        parser.error("--log-probs and --targets belong together")

    print("      T       S  block   seconds processor   peak MB predicted  resident   first frame exact  largest error")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for T in [None] if options.log_probs else options.frames:
            rng, path = np.random.default_rng(options.seed), options.log_probs or Path(folder) / "log_probs.npy"
            if options.log_probs:
                targets, first, last = (each and np.load(each) for each in (
                    options.targets, options.first, options.last))
            else:
                targets, first, last = simulated(path, T, options.symbols, options.raised, options.wrong, rng)
            log_probs = np.load(path, mmap_mode="r")
            found, row = measured(log_probs, targets, options.blank, options.block, options.band)
            row["source"] = "file" if options.log_probs else "simulated"
            if first is not None and last is not None:
                row |= errors(found, first, last)
            rows.append(row)
            print(f"{row['T']:7} {row['S']:7} {row['block'] or '':>6} {row['seconds']:9.1f} "
                  f"{row['processor_seconds']:9.1f} {row['peak_bytes'] / 1e6:9.1f} "
                  f"{(row['predicted_bytes'] or 0) / 1e6:9.1f} {row['resident_growth_bytes'] / 1e6:9.1f} "
                  f"{row.get('first_exact', float('nan')):19.4f} {row.get('first_largest', ''):>14}", flush=True)
    result = {
        "what": "reference_impl.alignment.long_ctc_best_path: time, memory, and distance to the true spans in frames",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"reference_impl": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
        "simulation": None if options.log_probs else {
            "frames_a_letter": FRAMES_A_LETTER, "raised": options.raised, "wrong": options.wrong, "seed": options.seed},
        "rows": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

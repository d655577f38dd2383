"""CPU times of loss and gradient beside whatever peers are installed: float32, softmax included, one thread.

    python benchmarks/times_cpu.py                 # prints tables, writes data/cpu.json

Page faults decide rankings on large arrays, and one library's freed memory is another's fast buffer. So each contender
runs in a process of its own, pinned to one core, and the contenders take turns over several rounds. "Warm" processes
keep what they free (malloc is told not to give memory back); "default" ones leave that to the system. In the tables:
median and quartiles over all runs; the median over the rounds of the ratio to one np.exp pass plus one multiplication
in place over the same logits, taken in the same round; the rate at which three passes over the logits would have moved
in that time, as a fraction of a copy's, timed in the same run; and what the first step adds to the memory of the
process at its peak, in units of the logits (what a compiler needs is in it, too). Arguments are validated.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

THREADS = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}
STATES = {"warm": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**28)},
          "default": {}}
SHAPES = [("ctc", (2, 60, 10, 28)), ("ctc", (16, 500, 60, 32)), ("ctc", (32, 1500, 200, 1024)),
          ("rnnt", (2, 30, 10, 28)), ("rnnt", (16, 150, 40, 28)), ("rnnt", (4, 300, 60, 500)),
          ("rnnt", (1, 1500, 300, 50))]
# the most logits (CTC: times labels) that it is tried on: beyond, a run takes many seconds
SLOW = {"explicit loops": 10_000_000, "autograd": 50_000_000, "warprnnt_numba": 100_000}
BASELINE = "np.exp and multiply"


def worker(name, kind, shape, seconds):
    """Times of the runs of one contender in this process, after one or two that warm up; and its largest error."""
    import contenders
    import numpy as np
    import torch

    torch.set_num_threads(1)
    tiny = contenders.problem(kind, (1, 4, 2, 5))
    contenders.CONTENDERS[name][3](kind, *tiny, "cpu", torch.float32)[0]()  # libraries load what they need
    scores, targets = contenders.problem(kind, shape)
    step, fetch = contenders.CONTENDERS[name][3](kind, scores, targets, "cpu", torch.float32)
    peak_bytes = peak_memory(step)
    error = None
    if name != BASELINE:
        error = float(np.abs(np.asarray(fetch()) - contenders.exact_gradient(kind, scores, targets)).max())
    step()
    result = {"times": timed(step, seconds), "error": error, "peak_bytes": peak_bytes}
    if name == BASELINE:
        to = np.empty_like(scores)
        result["copy_times"] = timed(lambda: np.copyto(to, scores), seconds / 4)
    print(json.dumps(result))


def timed(step, seconds):
    """Seconds of each of the steps that are made in so long, and of three at least."""
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        times.append(time.perf_counter() - before)
    return times


def peak_memory(step):
    """Bytes that a step adds to the memory of this process, at the peak; None where the system does not tell."""
    def status(field):
        return 1024 * int(re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())[1])

    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is the present from here on
        before = status("VmRSS")
        step()
        return max(0, status("VmHWM") - before)
    except OSError:
        step()
        return None


def run(name, kind, shape, state, seconds):
    """The same in a process of its own, pinned to one core."""
    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    command = [sys.executable, __file__, "--worker", name, kind, *map(str, shape), "--seconds", str(seconds)]
    environment = {**os.environ, **THREADS, **STATES[state]}
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=pin)
    if done.returncode:
        raise RuntimeError(f"{name}, {kind}, {shape}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def bytes_of_logits(kind, shape):
    B, T, U, V = shape
    return 4 * B * T * (V if kind == "ctc" else (U + 1) * V)


def measure(kind, shape, names, state, rounds, seconds):
    """One row for each contender: all times, and the ratio of medians in each round to the baseline's."""
    import numpy as np

    taken, errors, ratios, peaks = ({name: [] for name in names} for _ in range(4))
    logits_bytes, copies = bytes_of_logits(kind, shape), []
    for turn in range(rounds):
        order = names if turn % 2 == 0 else names[::-1]
        medians = {}
        for name in order:
            result = run(name, kind, shape, state, seconds)
            taken[name] += result["times"]
            medians[name] = float(np.median(result["times"]))
            errors[name].append(result["error"])
            peaks[name].append(result["peak_bytes"])
            copies += result.get("copy_times", [])
        for name in names:
            ratios[name].append(medians[name] / medians[BASELINE])
    for name in names:
        q1, median, q3 = np.percentile(taken[name], [25, 50, 75]).tolist()
        peak = None if None in peaks[name] else float(np.median(peaks[name])) / logits_bytes
        yield {"loss": kind, "shape": dict(zip("BTUV", shape, strict=True)), "state": state, "contender": name,
               "median": median, "quartiles": [q1, q3], "runs": len(taken[name]), "rounds": rounds,
               "ratio_to_baseline": float(np.median(ratios[name])), "ratios": ratios[name],
               "gradient_error": errors[name][0], "logits_bytes": logits_bytes, "peak_bytes_over_logits": peak,
               "bytes_a_second_if_3_passes": 3 * logits_bytes / median,
               "copy_bytes_a_second": 2 * logits_bytes / float(np.median(copies))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="at least so long, and three runs, in each round")
    parser.add_argument("--shapes", type=int, nargs="*", default=range(len(SHAPES)), help="which of them, by number")
    parser.add_argument("--states", nargs="*", default=list(STATES), choices=list(STATES))
    parser.add_argument("--only", nargs="*", help="only these contenders, and the baseline")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "cpu.json")
    parser.add_argument("--worker", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, kind, *shape = options.worker
        return worker(name, kind, tuple(map(int, shape)), options.seconds)

    import contenders
    import numpy as np

    table, missing = [], {}
    for number in options.shapes:
        kind, shape = SHAPES[number]
        U, size = shape[2], bytes_of_logits(kind, shape) // 4
        names, absent = contenders.present(kind, "cpu")
        missing |= absent
        names = [name for name in names if size * (U if name == "explicit loops" and kind == "ctc" else 1)
                 <= SLOW.get(name, np.inf) and (options.only is None or name in (BASELINE, *options.only))]
        for state in options.states:
            print(f"{kind}, (B, T, U, V) = {shape}, {state} buffers")
            print("  contender                 median ms   quartiles ms        x exp pass   of copy   peak / N"
                  "   gradient error")
            for row in measure(kind, shape, names, state, options.rounds, options.seconds):
                table.append(row)
                q1, q3 = row["quartiles"]
                peak = row["peak_bytes_over_logits"]
                peak = "" if peak is None else f"{peak:.2f}"
                error = "" if row["gradient_error"] is None else f"{row['gradient_error']:.1e}"
                print(f"  {row['contender']:24} {1e3 * row['median']:10.2f}   {1e3 * q1:.2f} - {1e3 * q3:.2f}".ljust(58)
                      + f"{row['ratio_to_baseline']:10.2f}"
                      + f"{row['bytes_a_second_if_3_passes'] / row['copy_bytes_a_second']:10.3f}"
                      + f"{peak:>11} {error:>16}", flush=True)
    for name, package in missing.items():
        print(f"absent: {name} (no {package} here)")
    result = {"what": "seconds for loss and gradient, float32, softmax included, one thread, a process for each; "
                      "arguments validated",
              "date": datetime.now(UTC).date().isoformat(), "versions": contenders.versions(),
              "python": platform.python_version(),
              "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
              "absent": missing, "rows": table}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

"""How training scales here: throughput of several processes, shares of padding, and the calculator against measurement.

    python benchmarks/scaling.py                   # prints tables, writes data/scaling.json

Throughput is utterances a second of processes that each have a thread and batches within the same budget; the numbers
of processes take turns over several rounds, and the ratio is to one process in the same round. More processes than
cores cannot be faster, and whatever else the machine does is in it: the file says how busy it was. Memory is what the
first step adds to a process at its peak, in a process for each shape, as in times_cpu.py. Times are processor times of
one thread, which others can disturb less, beside what speeds fitted to data/cpu.json predict for shapes that are not
in that file.
"""

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from times_cpu import THREADS, peak_memory

ROOT = Path(__file__).parent.parent
MEMORY = [("ctc", (4, 400, 40, 4000), "float32", "numpy"), ("ctc", (8, 800, 100, 50), "float32", "numpy"),
          ("rnnt", (4, 300, 60, 500), "float32", "numpy"), ("rnnt", (1, 1000, 200, 50), "float32", "numpy"),
          ("ctc", (4, 400, 40, 2000), "float64", "numpy"), ("rnnt", (4, 300, 60, 250), "float64", "numpy"),
          ("ctc", (4, 1500, 100, 10000), "bfloat16", "numpy"), ("rnnt", (4, 300, 60, 1000), "bfloat16", "numpy"),
          ("ctc", (4, 400, 40, 4000), "float32", "tensor"), ("ctc", (8, 800, 100, 50), "float32", "tensor"),
          ("rnnt", (4, 150, 40, 1000), "float32", "tensor"), ("rnnt", (4, 150, 40, 500), "float64", "tensor"),
          ("rnnt", (4, 150, 40, 1000), "bfloat16", "tensor")]
TIMES = [("ctc", (8, 200, 30, 100)), ("ctc", (4, 400, 40, 4000)), ("ctc", (1, 1000, 100, 50)),
         ("rnnt", (4, 100, 20, 50)), ("rnnt", (8, 100, 30, 300)), ("rnnt", (2, 400, 80, 100))]
RATIOS = (1.1, 1.3, 2.0, None)  # None: one bucket


def leaf_and_arguments(loss, shape, dtype):
    import torch

    B, T, U, V = shape
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn((B, T, V) if loss == "ctc" else (B, T, U + 1, V), generator=generator)
    targets = torch.randint(1, V, (B, U), generator=generator)
    return logits.to(getattr(torch, dtype)).requires_grad_(), (targets, torch.full((B,), T), torch.full((B,), U))


def step_of(loss, shape, dtype="float32", backend="numpy"):
    """A function that computes loss and gradient of one problem."""
    import torch

    from reference_impl.torch_impl import ctc_loss, losses, rnnt_loss, tensor_ops

    torch.set_num_threads(1)
    if backend == "tensor":  # on the CPU they run for other losses and for second derivatives only
        losses._backend = lambda *_: tensor_ops
    function = {"ctc": ctc_loss, "rnnt": rnnt_loss}[loss]
    leaf, arguments = leaf_and_arguments(loss, shape, dtype)

    def step():
        leaf.grad = None
        function(leaf, *arguments, reduction="sum").backward()

    return step


def memory_worker(loss, B, T, U, V, dtype, backend):
    step_of(loss, (1, 4, 2, 5), dtype, backend)()  # what is loaded on the way is not the loss's
    print(json.dumps(peak_memory(step_of(loss, (B, T, U, V), dtype, backend))))


def time_worker(loss, B, T, U, V, seconds):
    import numpy as np

    step = step_of(loss, (B, T, U, V))
    step(), step()
    times, start = [], time.process_time()
    while len(times) < 5 or time.process_time() - start < seconds:
        before = time.process_time()
        step()
        times.append(time.process_time() - before)
    print(json.dumps(np.percentile(times, [25, 50, 75]).tolist()))


def worker(*arguments):
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, __file__, "--worker", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **THREADS})
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# --- throughput ---


def steps_made(process, seconds, width):
    """In each process: utterances and seconds of the steps that fit into so many seconds, after two that warm up."""
    import torch

    from reference_impl.scaling import LengthBuckets, Training, ctc_losses, made_up
    from reference_impl.speech.networks import CTCNetwork
    from reference_impl.speech.training import optimiser_of

    utterances = made_up(400, seed=0, letters=(5, 20), frames_per_letter=(4, 12))
    lengths = ([len(getattr(each, name)) for each in utterances] for name in ("frames", "labels"))
    torch.manual_seed(0)
    training = Training(CTCNetwork(width), ctc_losses, utterances,
                        LengthBuckets(*lengths, budget=2000, batches_a_step=process.world_size),
                        functools.partial(optimiser_of, steps=10**6), process)
    training.make_step(), training.make_step()
    count, start = 0, time.perf_counter()
    # as many steps in all processes, whose clocks may differ
    while time.perf_counter() - start < seconds or count == 0:
        count += sum(training.make_step().count for _ in range(5))
        if process.world_size > 1:
            going_on = torch.tensor([float(time.perf_counter() - start < seconds)])
            torch.distributed.broadcast(going_on, 0)
            if not going_on:
                break
    return count, time.perf_counter() - start


def throughput(world_sizes, rounds, seconds, width):
    from reference_impl.scaling import run_processes

    found = {world_size: [] for world_size in world_sizes}
    for turn in range(rounds):
        for world_size in world_sizes if turn % 2 == 0 else world_sizes[::-1]:
            (count, taken), *_ = run_processes(steps_made, world_size, seconds, width, timeout=1200.0)
            found[world_size].append(count / taken)
    for world_size in world_sizes:
        ratios = [mine / one for mine, one in zip(found[world_size], found[world_sizes[0]], strict=True)]
        yield {"processes": world_size, "utterances_a_second": found[world_size], "ratios": ratios,
               "ratio": sorted(ratios)[len(ratios) // 2], "width": width}


# --- padding ---


def corpora():
    """Lengths (frames, labels): of the synthetic speech, strings of digits and commands, and drawn with a long tail."""
    import numpy as np

    listed = (ROOT / "data" / "speech" / "utterances.jsonl").read_text(encoding="utf-8").splitlines()
    heard = [each for each in map(json.loads, listed) if each["part"] == "train"]
    rng = np.random.default_rng(0)
    seconds = np.clip(rng.lognormal(2.0, 0.7, 20000), 1.0, 30.0)
    labels = rng.poisson(3.5 * seconds)
    return {"synthetic speech": (np.array([1 + (each["samples"] - 200) // 80 for each in heard]),
                                 np.array([len(each["text"]) for each in heard])),
            "log-normal, 1 to 30 s": ((100 * seconds).astype(np.int64), labels)}


def padding(batches_a_step=4):
    import math

    from reference_impl.scaling import LengthBuckets

    for name, (frames, labels) in corpora().items():
        longest = 8 * int(frames.max())
        for cost, budget in (("frames", longest), ("cells", longest * int(labels.max() + 1))):
            for ratio in RATIOS:
                buckets = LengthBuckets(frames, labels, budget=budget, cost=cost, num_symbols=1,
                                        batches_a_step=batches_a_step, ratio=ratio or math.inf)
                yield {"corpus": name, "cost": cost, "budget": budget, "ratio": ratio,
                       "batches_a_step": batches_a_step,
                       **asdict(buckets.report(0))}


# --- the calculator ---


def memory_rows():
    from reference_impl.scaling import memory_of_loss

    for loss, shape, dtype, backend in MEMORY:
        said = memory_of_loss(loss, *shape, dtype=dtype, backend=backend)
        found = worker("memory", loss, *shape, dtype, backend)
        yield {"loss": loss, "shape": dict(zip("BTUV", shape, strict=True)), "dtype": dtype, "backend": backend,
               "logits_bytes": said.logits, "predicted": said.peak, "measured": found,
               "measured_over_predicted": None if found is None else found / said.peak}


def stored_times():
    rows = json.loads((ROOT / "data" / "cpu.json").read_text(encoding="utf-8"))["rows"]
    return [(row["loss"], tuple(row["shape"][name] for name in "BTUV"), row["median"]) for row in rows
            if row["contender"] == "tensor ops" and row["state"] == "default"]


def time_rows(speeds, seconds):
    from reference_impl.scaling import seconds_of_loss

    for loss, shape in TIMES:
        q1, median, q3 = worker("time", loss, *shape, seconds)
        said = seconds_of_loss(loss, *shape, speeds=speeds)
        yield {"loss": loss, "shape": dict(zip("BTUV", shape, strict=True)), "predicted": said, "measured": median,
               "quartiles": [q1, q3], "measured_over_predicted": median / said}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement of a time")
    parser.add_argument("--width", type=int, default=96, help="of the network whose training is timed")
    parser.add_argument("--output", type=Path, default=ROOT / "data" / "scaling.json")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        what, loss, *rest = options.worker
        shape = map(int, rest[:4])
        if what == "memory":
            return memory_worker(loss, *shape, *rest[4:])
        return time_worker(loss, *shape, float(rest[4]))

    import numpy as np
    import torch

    from reference_impl import __version__
    from reference_impl.scaling import fitted_speeds

    load = [os.getloadavg()[0]] if hasattr(os, "getloadavg") else [None]
    rows = []
    print("processes   utterances a second   ratio to one process")
    for row in throughput(options.processes, options.rounds, options.seconds, options.width):
        rows.append(row)
        print(f"{row['processes']:9} {float(np.median(row['utterances_a_second'])):21.1f} {row['ratio']:22.2f}",
              flush=True)
    shares = []
    print("corpus                 bounded by     ratio    batches   padded frames   padded cells   idle")
    for row in padding():
        shares.append(row)
        print(f"{row['corpus']:22} {row['cost']:10} {row['ratio'] or 'none':>9} {row['batches']:10} "
              f"{row['padded_frames']:15.1%} {row['padded_cells']:14.1%} {row['idle']:6.1%}", flush=True)
    memory = []
    print("loss  (B, T, U, V)            dtype      backend     predicted / N   measured / N   measured / predicted")
    for row in memory_rows():
        memory.append(row)
        found = row["measured"] or float("nan")
        print(f"{row['loss']:5} {str(tuple(row['shape'].values())):23} {row['dtype']:10} {row['backend']:10} "
              f"{row['predicted'] / row['logits_bytes']:14.2f} {found / row['logits_bytes']:14.2f} "
              f"{found / row['predicted']:22.2f}", flush=True)
    speeds, times = fitted_speeds(stored_times()), []
    print("loss  (B, T, U, V)            predicted ms   measured ms   measured / predicted")
    for row in time_rows(speeds, options.seconds):
        times.append(row)
        print(f"{row['loss']:5} {str(tuple(row['shape'].values())):23} {1e3 * row['predicted']:13.2f} "
              f"{1e3 * row['measured']:13.2f} {row['measured_over_predicted']:22.2f}", flush=True)
    load += [os.getloadavg()[0]] if hasattr(os, "getloadavg") else [None]
    result = {"what": "training in several processes: throughput, a thread for each; shares of padding; memory and "
                      "processor times of a loss beside what the calculator predicts",
              "date": datetime.now(UTC).date().isoformat(), "python": platform.python_version(),
              "versions": {"reference_impl": __version__, "torch": torch.__version__, "numpy": np.__version__},
              "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
              "load_before_and_after": load, "rounds": options.rounds, "rows": rows, "padding": shares,
              "memory": memory, "speeds": asdict(speeds), "times": times}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

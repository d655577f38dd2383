"""Time and memory of a training step of a joiner: the whole grid, and pruned RNN-T. float32.

    python benchmarks/pruning.py                   # on the CPU: prints tables, writes data/pruning.json

A step begins with what encoder and predictor hand to the joiner, (B, T, H) and (B, U+1, H), and ends with the gradients
with respect to these and to the joiner's weights: tanh joiner, loss, backward. "whole grid" is RNN-T; "simple" is the
simple joiner and its loss alone; "pruned Q" is all that pruned RNN-T does: simple loss, band, joiner on Q rows, pruned
loss. On the CPU each contender runs in a process of its own, pinned to one core, and the contenders take turns over
several rounds, as in times_cpu.py. In the tables: median and quartiles over all runs; the median over the rounds of the
ratio to the whole grid's median of the same round; and what the first step adds to the memory of the process at its
peak. The losses of two contenders are those of different lattices, and are stored to show that the steps were made:
inputs are random, so they say nothing about what pruning keeps. `gpu.py times` measures the same on CUDA, where memory
is what the allocator holds.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from times_cpu import THREADS, peak_memory, timed

SHAPES = [(8, 60, 10, 30, 128), (8, 150, 40, 500, 256), (4, 300, 60, 500, 256), (4, 150, 40, 2000, 256)]
ROWS = (3, 5, 10)
WHOLE = "whole grid"


def contenders():
    return [WHOLE, "simple", *(f"pruned {Q}" for Q in ROWS)]


def problem(shape, device):
    """What the joiner is given, its weights, labels and lengths; the same for every contender."""
    import torch

    B, T, U, V, H = shape
    generator = torch.Generator().manual_seed(0)

    def leaf(*size, scale=1.0):
        return (scale * torch.randn(*size, generator=generator)).to(device).requires_grad_()

    leaves = {"encodings": leaf(B, T, H), "predictions": leaf(B, U + 1, H), "output": leaf(V, H, scale=H**-0.5),
              "simple_encoder": leaf(V, H, scale=H**-0.5), "simple_predictor": leaf(V, H, scale=H**-0.5)}
    targets = torch.randint(1, V, (B, U), generator=generator).to(device)
    return leaves, targets, torch.full((B,), T).to(device), torch.full((B,), U).to(device)


def step_of(name, shape, device="cpu"):
    """A function that makes one step and returns the loss that it ends with."""
    import torch

    from reference_impl.torch_impl import pruned_rnnt_loss, rnnt_loss
    from reference_impl.torch_impl.pruning import band_of, rows_of_band, simple_scores

    leaves, targets, *lengths = problem(shape, device)
    encodings, predictions, output = (leaves[n] for n in ("encodings", "predictions", "output"))

    def join(rows):
        return torch.tanh(encodings[:, :, None] + rows) @ output.T

    def whole():
        return rnnt_loss(join(predictions[:, None]), targets, *lengths)

    def banded(Q):
        scores = simple_scores(encodings @ leaves["simple_encoder"].T, predictions @ leaves["simple_predictor"].T,
                               targets)
        simple, first = band_of(*scores, *lengths, min(Q or 2, predictions.shape[1]))
        if Q is None:
            return simple.mean()
        rows = min(Q, predictions.shape[1])
        logits = join(rows_of_band(predictions, first, rows))
        return simple.mean() + pruned_rnnt_loss(logits, first, targets, *lengths)

    def step():
        for leaf in leaves.values():
            leaf.grad = None
        loss = whole() if name == WHOLE else banded(None if name == "simple" else int(name.split()[1]))
        loss.backward()
        return loss

    return step


def worker(name, shape, seconds):
    import torch

    torch.set_num_threads(1)
    step_of(name, (1, 4, 2, 5, 4))()  # libraries load what they need
    step = step_of(name, shape)
    peak_bytes = peak_memory(step)
    loss = step().item()
    print(json.dumps({"times": timed(step, seconds), "loss": loss, "peak_bytes": peak_bytes}))


def run(name, shape, seconds):
    """The same in a process of its own, pinned to one core."""
    core = max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    command = [sys.executable, __file__, "--worker", name, *map(str, shape), "--seconds", str(seconds)]
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    done = subprocess.run(command, env={**os.environ, **THREADS}, capture_output=True, text=True, preexec_fn=pin)
    if done.returncode:
        raise RuntimeError(f"{name}, {shape}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_cuda(name, shape, seconds):
    """The same on the CUDA device, in this process."""
    import torch

    step = step_of(name, shape, "cuda")
    step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss = step().item()
    peak_bytes = torch.cuda.max_memory_allocated() - before
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return {"times": times, "loss": loss, "peak_bytes": peak_bytes}


def measure(shape, device, rounds, seconds):
    """One row for each contender: all times, and the ratio of medians in each round to the whole grid's."""
    import numpy as np

    names = contenders()
    taken, ratios, peaks, losses = ({name: [] for name in names} for _ in range(4))
    for turn in range(rounds):
        medians = {}
        for name in names if turn % 2 == 0 else names[::-1]:
            result = (run if device == "cpu" else run_cuda)(name, shape, seconds)
            taken[name] += result["times"]
            medians[name] = float(np.median(result["times"]))
            peaks[name].append(result["peak_bytes"])
            losses[name] = result["loss"]
        for name in names:
            ratios[name].append(medians[name] / medians[WHOLE])
    for name in names:
        q1, median, q3 = np.percentile(taken[name], [25, 50, 75]).tolist()
        yield {"device": device, "shape": dict(zip("BTUVH", shape, strict=True)), "contender": name, "median": median,
               "quartiles": [q1, q3], "runs": len(taken[name]), "rounds": rounds,
               "ratio_to_whole_grid": float(np.median(ratios[name])), "ratios": ratios[name],
               "peak_bytes": None if None in peaks[name] else float(np.median(peaks[name])), "loss": losses[name]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="at least so long, and three runs, in each round")
    parser.add_argument("--shapes", type=int, nargs="*", default=range(len(SHAPES)), help="which of them, by number")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "pruning.json")
    parser.add_argument("--worker", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, *shape = options.worker
        return worker(name, tuple(map(int, shape)), options.seconds)

    import numpy as np
    import torch

    table = []
    for number in options.shapes:
        shape = SHAPES[number]
        print(f"(B, T, U, V, H) = {shape}")
        print("  contender      median ms     quartiles ms   x whole grid    peak MB")
        for row in measure(shape, "cpu", options.rounds, options.seconds):
            table.append(row)
            q1, q3 = row["quartiles"]
            peak = "" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f}"
            print(f"  {row['contender']:12} {1e3 * row['median']:11.1f} {1e3 * q1:8.1f} - {1e3 * q3:.1f}".ljust(46)
                  + f"{row['ratio_to_whole_grid']:12.3f} {peak:>10}", flush=True)
    result = {"what": "seconds for one step of a joiner, from encodings and predictions to the gradients of all "
                      "weights: whole grid and pruned RNN-T, float32; on the CPU one thread, a process for each",
              "date": datetime.now(UTC).date().isoformat(),
              "versions": {"torch": torch.__version__, "numpy": np.__version__}, "python": platform.python_version(),
              "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
              "rows": table}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

"""CUDA times, memory and errors beside whatever peers are installed, against the bandwidth measured in the same run.

    python benchmarks/times_cuda.py                # prints tables, writes data/cuda.json
    python benchmarks/times_cuda.py --rehearse     # the same code on small shapes, on the CPU, kernels interpreted

Times are of loss and gradient, softmax included, between CUDA events, after warming up; the contenders take turns over
several rounds. The floor of a step is three passes over the logits (read them, read them again, write the gradient) at
the bandwidth of a device-to-device copy, which is measured between the rounds. Peak memory is what a step adds to what
is allocated before it.
"""

import argparse
import gc
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

if "--rehearse" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported

import contenders
import numpy as np
import torch

from reference_impl import __version__

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
SHAPES = [("rnnt", (32, 400, 100, 1024), "bf16"), ("rnnt", (32, 400, 100, 1024), "fp32"),
          ("rnnt", (32, 400, 100, 1025), "bf16"), ("rnnt", (16, 1000, 200, 512), "bf16"),
          ("rnnt", (16, 1000, 200, 512), "fp32"), ("rnnt", (16, 150, 40, 28), "fp32"),
          ("rnnt", (2, 2000, 500, 256), "bf16"), ("ctc", (32, 1000, 150, 1024), "fp32"),
          ("ctc", (32, 1000, 150, 1024), "bf16"), ("ctc", (32, 512, 100, 64), "fp32"),
          ("ctc", (32, 1000, 150, 1025), "fp32"), ("ctc", (8, 10000, 1000, 1024), "fp32")]
SMALL = [("rnnt", (2, 6, 3, 130), "bf16"), ("ctc", (2, 8, 3, 33), "fp32")]


def clock(step, device):
    """Seconds of one step."""
    if device == "cpu":
        from time import perf_counter
        before = perf_counter()
        step()
        return perf_counter() - before
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def copy_bandwidth(device, size=2**32):
    """Bytes a second that a copy reads and writes, the best of some."""
    source = torch.empty(size if device == "cuda" else 2**24, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = [clock(lambda: target.copy_(source), device) for _ in range(8)]
    return 2 * source.numel() / min(times)


def peak_memory(step, device):
    """Bytes that a step needs at its peak beyond what lies there before it; nothing is known of the CPU."""
    if device == "cpu":
        step()
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def graph_of(step):
    """A step captured in a CUDA graph: the same kernels without the time that Python takes to launch them."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def overwriting(kind, scores, targets, device, dtype):
    """Our kernels with the gradient over the logits, which are made anew each time and are not counted."""
    leaf = torch.tensor(scores, device=device, dtype=dtype).requires_grad_()
    integers = [torch.as_tensor(a, device=device) for a in (targets, *contenders.lengths_of(kind, scores, targets))]

    def step():
        logits = leaf * 1.0
        loss = contenders.LOSSES[kind](logits, *integers, reduction="sum", backend="triton", overwrite_logits=True)
        torch.autograd.grad(loss, logits)

    return step


def rows_of(kind, shape, dtype, device, rounds, repeats):
    """Each contender's times, its memory and its error, one row each."""
    scores, targets = contenders.problem(kind, shape)
    names, absent = contenders.present(kind, "cuda")
    logits_bytes = scores.size * torch.tensor([], dtype=DTYPES[dtype]).element_size()
    rounded = torch.tensor(scores[:1]).to(DTYPES[dtype]).float().numpy()
    exact = contenders.exact_gradient(kind, rounded, targets[:1])
    memory, error, failed = {}, {}, {}

    def prepared(name):
        return contenders.CONTENDERS[name][3](kind, scores, targets, device, DTYPES[dtype])

    for name in names:
        gc.collect()
        try:
            step, fetch = prepared(name)
            step()
            memory[name] = peak_memory(step, device)
            error[name] = float(np.abs(fetch()[:1] - exact).max())
        except Exception as reason:  # a peer that cannot do this shape or type is reported, and no reason to stop
            failed[name] = f"{type(reason).__name__}: {reason}"[:300]
        step = fetch = None
    names = [name for name in names if name not in failed]
    times, bandwidths = {name: [] for name in names}, []
    for turn in range(rounds):
        bandwidths.append(copy_bandwidth(device))
        for name in names if turn % 2 == 0 else names[::-1]:
            step, _ = prepared(name)
            for _ in range(2):
                step()
            times[name] += [clock(step, device) for _ in range(repeats)]
            if name == "triton, validate=False" and device == "cuda":
                replay = graph_of(step)
                times.setdefault("triton, CUDA graph", []).extend(clock(replay, device) for _ in range(repeats))
                replay = None
            step = None
            gc.collect()
    floor = 3 * logits_bytes / float(np.median(bandwidths))
    for name, taken in times.items():
        q1, median, q3 = np.percentile(taken, [25, 50, 75]).tolist()
        yield {"loss": kind, "shape": dict(zip("BTUV", shape, strict=True)), "dtype": dtype, "contender": name,
               "median": median, "quartiles": [q1, q3], "runs": len(taken), "floor": floor,
               "times_the_floor": median / floor, "bytes_a_second_if_3_passes": 3 * logits_bytes / median,
               "copy_bytes_a_second": float(np.median(bandwidths)), "logits_bytes": logits_bytes,
               "peak_bytes_over_logits": memory.get(name) and memory[name] / logits_bytes,
               "gradient_error": error.get(name)}
    if device == "cuda" and "triton" in names:
        leaf_step = overwriting(kind, scores, targets, device, DTYPES[dtype])
        leaf_step()
        yield {"loss": kind, "shape": dict(zip("BTUV", shape, strict=True)), "dtype": dtype,
               "contender": "triton, overwrite_logits", "median": None, "logits_bytes": logits_bytes,
               # the copy that is overwritten is one of these
               "peak_bytes_over_logits": peak_memory(leaf_step, device) / logits_bytes - 1}
    for name, reason in failed.items():
        yield {"loss": kind, "shape": dict(zip("BTUV", shape, strict=True)), "dtype": dtype, "contender": name,
               "median": None, "failed": reason}
    for name, package in absent.items():
        yield {"loss": kind, "shape": dict(zip("BTUV", shape, strict=True)), "dtype": dtype, "contender": name,
               "median": None, "absent": package}


def show(row):
    if "absent" in row:
        return f"  {row['contender']:28} absent: no {row['absent']} here"
    if "failed" in row:
        return f"  {row['contender']:28} failed: {row['failed'].splitlines()[0][:80]}"
    memory = row["peak_bytes_over_logits"]
    memory = "" if memory is None else f"{memory:8.2f}"
    if row["median"] is None:
        return f"  {row['contender']:28} {'':62} {memory}"
    q1, q3 = row["quartiles"]
    error = "" if row["gradient_error"] is None else f"{row['gradient_error']:.1e}"
    return (f"  {row['contender']:28} {1e3 * row['median']:10.3f}   {1e3 * q1:.3f} - {1e3 * q3:.3f}".ljust(66)
            + f"{row['times_the_floor']:8.2f} {row['bytes_a_second_if_3_passes'] / 1e9:9.0f} {memory:>8} {error:>9}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=10, help="timed steps of each contender in each round")
    parser.add_argument("--shapes", type=int, nargs="*", default=range(len(SHAPES)), help="which of them, by number")
    parser.add_argument("--rehearse", action="store_true", help="small shapes on the CPU; the times mean nothing")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "cuda.json")
    options = parser.parse_args()
    device = "cpu" if options.rehearse else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no CUDA device; --rehearse runs the same code on the CPU")
    name = "none, a rehearsal" if options.rehearse else torch.cuda.get_device_name()
    print(f"device: {name}")
    table = []
    for number in range(len(SMALL)) if options.rehearse else options.shapes:
        kind, shape, dtype = SMALL[number] if options.rehearse else SHAPES[number]
        print(f"{kind}, (B, T, U, V) = {shape}, {dtype}")
        print("  contender                     median ms   quartiles ms            x the floor   GB/s   memory   error")
        for row in rows_of(kind, shape, dtype, device, options.rounds, options.repeats):
            table.append(row)
            print(show(row), flush=True)
    result = {"what": "seconds for loss and gradient, softmax included; memory as multiples of the logits' bytes",
              "date": datetime.now(UTC).date().isoformat(), "device": name, "python": platform.python_version(),
              "versions": {"reference_impl": __version__, **contenders.versions(),
                           "cuda": torch.version.cuda or "none"}, "rows": table}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

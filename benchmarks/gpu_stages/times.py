"""Stage 4: times, memory and errors beside whatever peers are there, against the bandwidth measured in the same run.

Times are of loss and gradient, softmax included, between CUDA events, after warming up; the contenders take turns over
several rounds. The floor of a step is three passes over the logits (read them, read them again, write the gradient) at
the bandwidth of a device-to-device copy, which is measured in every round. Peak memory is what a step adds to what is
allocated before it.
"""

from __future__ import annotations

import gc
from time import perf_counter

import contenders
import numpy as np
import pruning
import torch

from .record import NotThere, Record, about, first_line, target

__all__ = ["run"]

WHAT = "seconds for loss and gradient, softmax included; memory as multiples of the logits' bytes"
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
# the shapes of the targets first
RNNT, CTC = ("rnnt", (32, 400, 100, 1024), "bf16"), ("ctc", (32, 1000, 150, 1024), "fp32")
SHAPES = [RNNT, CTC, ("rnnt", (32, 400, 100, 1024), "fp32"), ("ctc", (32, 512, 100, 64), "fp32"),
          ("rnnt", (16, 1000, 200, 512), "bf16"), ("rnnt", (32, 400, 100, 1025), "bf16"),
          ("ctc", (32, 1000, 150, 1024), "bf16"), ("rnnt", (16, 150, 40, 28), "fp32"),
          ("ctc", (32, 1000, 150, 1025), "fp32"), ("rnnt", (16, 1000, 200, 512), "fp32"),
          ("ctc", (8, 10000, 1000, 1024), "fp32"), ("rnnt", (2, 2000, 500, 256), "bf16")]
SMALL = [("rnnt", (2, 6, 3, 130), "bf16"), ("ctc", (2, 8, 3, 33), "fp32")]
OURS, UNCHECKED, GRAPH, OVER = "triton", "triton, validate=False", "triton, CUDA graph", "triton, overwrite_logits"
ROUNDS, REPEATS, SECONDS = 5, 10, 1.0  # of each contender in a round: so many steps, or steps for so long


def run(where, folder, options):
    """Run the stage on a `Device`; its status."""
    record = Record(folder / "cuda.json", about("times", WHAT, where), options.seconds, options.fresh)
    for kind in contenders.LOSSES:
        for name, package in contenders.present(kind, "cuda")[1].items():
            record.miss(package, f"{name} was not timed")
    small = bool(where.rehearsal)
    record.run({f"{kind}, {shape}, {dtype}": lambda case=(kind, shape, dtype): timed_shape(*case, where.tensors, small)
                for kind, shape, dtype in (SMALL if small else SHAPES)}, options.only)
    if not small:
        record.run({f"pruned, {shape}": lambda shape=shape: pruned(shape) for shape in pruning.SHAPES}, options.only,
                   table="pruning")
    record.result["targets"] = targets(record.result["rows"])
    return record.finish()


def targets(rows):
    """What the kernels were to reach, and what was measured."""
    def of(case, contender, key):
        return next((row[key] for row in rows if row["contender"] == contender and row.get(key)
                     and (row["loss"], tuple(row["shape"].values()), row["dtype"]) == case), None)

    ours = {case: f"{case[0]} {case[1]} {case[2]}" for case in (RNNT, CTC)}
    return [target(f"{ours[RNNT]}: times the three-pass floor", 1.3, of(RNNT, OURS, "times_the_floor")),
            *(target(f"{ours[case]}: share of the time of {peer}", limit,
                     (ratio := of(case, peer, "ratio_to_ours")) and 1 / ratio)
              for case, peer, limit in ((RNNT, "torchaudio", 1 / 3), (CTC, "torch ctc_loss", 1 / 2)))]


def clock(step, device):
    """Seconds of one step."""
    if device == "cpu":
        before = perf_counter()
        step()
        return perf_counter() - before
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    step()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def steps(step, device, repeats):
    """Seconds of each of some steps: of one at least, and of others as long as there is time."""
    taken = []
    while not taken or (len(taken) < repeats and sum(taken) < SECONDS):
        taken.append(clock(step, device))
    return taken


def copy_bandwidth(device):
    """Bytes a second that a copy reads and writes, the best of some."""
    source = torch.empty(2**32 if device == "cuda" else 2**24, dtype=torch.uint8, device=device)
    copy = torch.empty_like(source)
    return 2 * source.numel() / min(clock(lambda: copy.copy_(source), device) for _ in range(8))


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
    leaf = scores.detach().requires_grad_()
    integers = [torch.as_tensor(a, device=device) for a in (targets, *contenders.lengths_of(kind, scores, targets))]

    def step():
        logits = leaf * 1.0
        loss = contenders.LOSSES[kind](logits, *integers, reduction="sum", backend="triton", overwrite_logits=True)
        torch.autograd.grad(loss, logits)

    return step


def problem(kind, shape, dtype, device):
    """Random logits on the device, and targets; the gradient of the first utterance by tensor operations in float64."""
    B, T, U, V = shape
    size = (B, T, V) if kind == "ctc" else (B, T, U + 1, V)
    need = 4 * int(np.prod(size)) * DTYPES[dtype].itemsize  # ours; a peer that needs more is a failure in its row
    if device == "cuda" and torch.cuda.mem_get_info()[0] < need:
        raise NotThere(f"{need / 2**30:.0f} GiB of free GPU memory", f"{kind} {shape} {dtype} was not timed")
    generator = torch.Generator(device).manual_seed(0)
    scores = torch.randn(size, generator=generator, dtype=DTYPES[dtype], device=device)
    targets = np.random.default_rng(0).integers(1, V, (B, U))
    first = scores[:1].double().requires_grad_()
    integers = [torch.as_tensor(a, device=device) for a in (targets[:1], *contenders.lengths_of(kind, first, targets))]
    loss = contenders.LOSSES[kind](first, *integers, reduction="sum", backend="torch")
    return scores, targets, torch.autograd.grad(loss, first)[0]


def timed_shape(kind, shape, dtype, device, small=False):
    """Each contender's times, its memory and its error, one row each."""
    scores, targets, exact = problem(kind, shape, dtype, device)
    rounds, repeats = (1, 1) if small else (ROUNDS, REPEATS)
    names, absent = contenders.present(kind, "cuda")
    logits_bytes = scores.nbytes
    row = {"loss": kind, "shape": dict(zip("BTUV", shape, strict=True)), "dtype": dtype}
    memory, error, failed = {}, {}, {}

    def prepared(name):
        return contenders.CONTENDERS[name][3](kind, scores, targets, device, DTYPES[dtype])

    for name in names:
        step = fetch = None
        _free(device)
        try:
            step, fetch = prepared(name)
            step()
            memory[name] = peak_memory(step, device)
            error[name] = float((fetch()[:1].double() - exact).abs().max())
            if not np.isfinite(error[name]):
                raise ArithmeticError("the gradient is not finite")
        except Exception as reason:  # a peer that cannot do this shape or type is reported, and no reason to stop
            if name == OURS:
                raise
            failed[name] = first_line(reason)
    names = [name for name in names if name not in failed]
    times, bandwidths = {}, []
    for turn in range(rounds):
        bandwidths.append(copy_bandwidth(device))
        for name in names if turn % 2 == 0 else names[::-1]:
            step = fetch = None
            _free(device)
            step, _ = prepared(name)
            steps(step, device, 2)
            times.setdefault(name, []).append(steps(step, device, repeats))
            if name == UNCHECKED and device == "cuda" and GRAPH not in failed:
                try:
                    times.setdefault(GRAPH, []).append(steps(graph_of(step), device, repeats))
                except Exception as reason:
                    failed[GRAPH] = first_line(reason)
                    del times[GRAPH]
    step = None
    yield from _rows(row, times, bandwidths, logits_bytes, memory, error)
    if device == "cuda" and OURS in names:
        overwrite = overwriting(kind, scores, targets, device, DTYPES[dtype])
        overwrite()
        # the copy that is overwritten is one of these
        yield _shown({**row, "contender": OVER, "median": None, "logits_bytes": logits_bytes,
                      "peak_bytes_over_logits": peak_memory(overwrite, device) / logits_bytes - 1})
    for name, reason in failed.items():
        yield _shown({**row, "contender": name, "median": None, "failed": reason})
    for name, package in absent.items():
        yield _shown({**row, "contender": name, "median": None, "absent": package})


def _rows(row, times, bandwidths, logits_bytes, memory, error):
    """Medians and quartiles over all steps, and the medians over the rounds of what is compared within a round."""
    floor = 3 * logits_bytes / float(np.median(bandwidths))
    medians = {name: [float(np.median(taken)) for taken in rounds] for name, rounds in times.items()}
    for name, rounds in times.items():
        q1, median, q3 = np.percentile(np.concatenate(rounds), [25, 50, 75]).tolist()
        ratios = [one / ours for one, ours in zip(medians[name], medians[OURS], strict=True)]
        yield _shown({**row, "contender": name, "median": median, "quartiles": [q1, q3],
                      "runs": sum(map(len, rounds)), "rounds": len(rounds), "floor": floor,
                      "times_the_floor": median / floor, "ratio_to_ours": float(np.median(ratios)), "ratios": ratios,
                      "bytes_a_second_if_3_passes": 3 * logits_bytes / median,
                      "copy_bytes_a_second": float(np.median(bandwidths)), "logits_bytes": logits_bytes,
                      "peak_bytes_over_logits": memory.get(name) and memory[name] / logits_bytes,
                      "gradient_error": error.get(name)})


def pruned(shape):
    """A joiner's training step on the whole grid and on bands of rows, by `pruning`."""
    return pruning.measure(shape, "cuda", rounds=3, seconds=0.5)


def _free(device):
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def _shown(row):
    """The row, printed."""
    line = f"  {row['contender']:28}"
    if row["median"] is None:
        line += f"absent: no {row['absent']} here" if "absent" in row else row.get("failed", "")[:80]
    else:
        q1, q3 = row["quartiles"]
        line += (f"{1e3 * row['median']:10.3f} ms ({1e3 * q1:.3f} - {1e3 * q3:.3f}), {row['times_the_floor']:.2f} x "
                 f"floor, {row['ratio_to_ours']:.2f} x ours, error {row['gradient_error'] or 0:.1e}")
    if row.get("peak_bytes_over_logits") is not None:
        line += f", memory {row['peak_bytes_over_logits']:.2f}"
    print(line, flush=True)
    return row

"""The compiled Triton kernels, executed by ``ptx_machine``: agreement, faults, deleted barriers, counts per step.

    python benchmarks/execute_kernels.py          # prints tables, writes data/kernels_executed.json; some minutes

No GPU is needed or asked, and nothing is timed. Two utterances of each case are computed in several orders of warps and
blocks, once with every approximate instruction off by what is allowed, and compared with the tensor operations, whose
lattices are float64. Then each barrier and each wait is left out in turn. The cost of one step is the difference
between sweeps of two lengths, divided by the steps between them.
"""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path

import torch
import triton

from ptx_machine import LaunchError, PTXError
from ptx_machine.triton_launches import TritonLaunches
from reference_impl.measuring.kernels_on_machine import kernels_on_machine
from reference_impl.torch_impl import ctc_loss, rnnt_loss

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
#: Loss, type, V, T, U: one warp for a lattice and two, rows within a warp and across, edges.
CASES = [(kind, dtype, V, T, U) for dtype in TYPES for kind, V, T, U in (
    ("rnnt", 29, 4, 3), ("rnnt", 1025, 3, 2), ("rnnt", 5, 2, 70), ("ctc", 29, 8, 3), ("ctc", 1025, 4, 2),
    ("ctc", 300, 73, 70))]
ORDERS = (None, 0, 1, 2)
SWEEPS = [(kind, dtype, U) for kind in ("rnnt", "ctc") for dtype in ("fp32", "fp64") for U in (20, 100, 200)]


def step(kind, dtype, V, T, U, backend="triton", overwrite=False):
    """Losses and gradient of two utterances, the second shorter."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, T, V) if kind == "ctc" else (2, T, U + 1, V)
    leaf = torch.randn(shape, generator=generator, dtype=torch.float64).to(TYPES[dtype]).requires_grad_()
    targets = torch.stack([torch.randperm(max(V - 1, U), generator=generator)[:U] % (V - 1) + 1 for _ in range(2)])
    losses = {"ctc": ctc_loss, "rnnt": rnnt_loss}[kind](
        leaf * 1, targets, torch.tensor([T, T - 1]), torch.tensor([U, U - 1]), reduction="none", backend=backend,
        overwrite_logits=overwrite)
    losses.sum().backward()
    return losses.detach(), leaf.grad


def on_machine(case, overwrite=False, **options):
    """Losses and gradient by the compiled kernels, and the machine, which has the options."""
    with kernels_on_machine(TritonLaunches(**options)) as machine:
        return *step(*case, overwrite=overwrite), machine


def agreement(case):
    """A row for each kernel of one case."""
    losses, gradient = step(*case, backend="torch")
    largest, findings, machine = [0.0, 0.0], {}, None
    for options in (*({"order": order} for order in ORDERS), {"order": 3, "blur": 3}):
        ours, our_gradient, machine = on_machine(case, overwrite=True, record=True, **options)
        errors = ((ours - losses) / losses).abs().max().item(), (our_gradient - gradient).abs().max().item()
        largest = [max(pair) for pair in zip(largest, errors, strict=True)]
        for report in machine.reports:
            findings[report.program.name] = findings.get(report.program.name, 0) + len(report.findings)
    kind, dtype, V, T, U = case
    for launch, report in zip(machine.launches, machine.reports, strict=True):
        points = launch.program.where("bar.", "cp.async.wait")
        yield {"loss": kind, "dtype": dtype, "V": V, "T": T, "U": U, "kernel": launch.program.name,
               "warps": report.warps, "orders": len(ORDERS) + 1, "findings": findings[launch.program.name],
               "largest_relative_error_of_the_loss": largest[0], "largest_error_of_the_gradient": largest[1],
               "barriers_and_waits": len(points), "missed_when_left_out": sum(missed(launch, i) for i in points)}


def missed(launch, index):
    """Whether the machine reports a fault without an instruction, in one of two orders."""
    try:
        return any(launch.run(launch.program.without(index), order=order)[0].findings for order in (None, 0))
    except (LaunchError, PTXError):
        return True


def per_step(kind, dtype, U):
    """What one more frame, or front, costs in each sweep: the mean of the two utterances.

    Instructions, barriers and shuffles are counted per warp; bytes, sectors and wavefronts per utterance.
    """
    counted, frames = [], (U + 2, U + 6) if kind == "ctc" else (2, 6)
    for T in frames:
        *_, machine = on_machine((kind, dtype, U + 2 if kind == "ctc" else 4, T, U))
        counted.append({report.program.name: report for report in machine.reports})
    for name in (f"{kind}_forward", f"{kind}_backward"):
        few, many = (each[name] for each in counted)

        def more(*opcodes, of="warps", few=few, many=many):
            difference = many.counts.total(*opcodes, of=of) - few.counts.total(*opcodes, of=of)
            return difference / (2 * (frames[1] - frames[0]))  # of two utterances
        yield {"kernel": name, "dtype": dtype, "U": U, "warps": few.warps, "shared_bytes": few.shared_bytes,
               "instructions": more("") / few.warps, "barriers": more("bar.") / few.warps,
               "shuffles": more("shfl.") / few.warps, "bytes": more("ld.global", "st.global", "cp.async", of="bytes"),
               "sectors": more("ld.global", "st.global", "cp.async", of="sectors"),
               "shared_wavefronts": more("", of="wavefronts"),
               "shared_wavefronts_without_conflicts": more("", of="least_wavefronts")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "kernels_executed.json")
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first ones")
    parser.add_argument("--sweeps", type=int, default=len(SWEEPS), help="only the first ones")
    options = parser.parse_args()
    rows, steps = [], []
    print("loss dtype     V   T   U  kernel         warps  errors: loss, gradient  findings  barriers left out, missed")
    for case in CASES[:options.cases]:
        for row in agreement(case):
            rows.append(row)
            print(f"{row['loss']:4} {row['dtype']:5} {row['V']:5} {row['T']:3} {row['U']:3}  {row['kernel']:14} "
                  f"{row['warps']:5}  {row['largest_relative_error_of_the_loss']:13.1e}  "
                  f"{row['largest_error_of_the_gradient']:8.1e}  {row['findings']:8}  "
                  f"{row['barriers_and_waits']:17}  {row['missed_when_left_out']:6}", flush=True)
    print("\nper step: kernel, dtype, U, warps: instructions, barriers, shuffles of a warp; bytes, sectors; wavefronts")
    for sweep in SWEEPS[:options.sweeps]:
        for row in per_step(*sweep):
            steps.append(row)
            print(*row.values(), flush=True)
    result = {"what": "the Triton kernels, compiled for sm_90, executed by ptx_machine",
              "date": datetime.now(UTC).date().isoformat(),
              "versions": {"torch": torch.__version__, "triton": triton.__version__}, "rows": rows, "steps": steps}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

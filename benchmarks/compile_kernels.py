"""What the compiler makes of the Triton kernels for a Hopper GPU (sm_90), on any machine: no GPU is needed or asked.

    python benchmarks/compile_kernels.py           # prints a table, writes data/kernels_sm90.json

The launches are those of a real forward and backward pass, recorded instead of run, so each kernel is compiled with the
types, alignments and options that it would have. Registers and stack are read off the machine code; bytes of stack are
spilled registers, which cost time. Shared memory is what the launch has to ask for. Accesses are counted in the PTX, by
the bytes that a thread moves: rows of any size should move 16 at a time, but for their edges.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "0"  # read when triton is imported: this is about compiled kernels

import torch
import triton

from ptx_machine import Program
from ptx_machine.compiling import by_triton, specialised
from reference_impl.torch_impl import triton_backend, triton_lattice, triton_vocabulary

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64}
CASES = [("rnnt", "bf16", 100, 1024), ("rnnt", "bf16", 100, 1025), ("rnnt", "bf16", 100, 1000),
         ("rnnt", "fp32", 100, 500), ("rnnt", "fp32", 100, 1024),
         ("rnnt", "fp32", 40, 29), ("rnnt", "fp64", 100, 1024), ("rnnt", "bf16", 2048, 50000),
         ("ctc", "fp32", 150, 1024), ("ctc", "fp32", 100, 64), ("ctc", "bf16", 150, 1025), ("ctc", "bf16", 150, 5000),
         ("ctc", "fp64", 150, 1024),
         ("ctc", "fp32", 2048, 50001)]


class Recorder:
    """Stands in for a kernel, and keeps what it was launched with."""

    def __init__(self, kernel, launches):
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.launches.append((self.kernel, args, kwargs))


def launches(kind, dtype, U, V, normalise=True, options=None, integers=torch.int64):
    """The kernels of one step forward and back on two utterances of two frames, with their arguments.

    ``normalise`` is False for log-probs; ``options`` are FastEmit's lambda and the clamp, for RNN-T.
    """
    recorded, originals = [], []
    for module in (triton_vocabulary, triton_lattice):
        for name in module.__all__:
            originals.append((module, name, getattr(module, name)))
            setattr(module, name, Recorder(getattr(module, name), recorded))
    try:
        shape = (2, 2, V) if kind == "ctc" else (2, 2, U + 1, V)
        logits = torch.zeros(shape, dtype=TYPES[dtype], requires_grad=True)
        function, usual = {"ctc": (triton_backend.CTC, ()), "rnnt": (triton_backend.RNNT, (0.0, None))}[kind]
        lengths = torch.ones(2, U, dtype=integers), torch.tensor([2, 2]), torch.tensor([U, U])
        function.apply(logits, *lengths, 0, normalise, False, *(options or usual)).sum().backward()
    finally:
        for module, name, kernel in originals:
            setattr(module, name, kernel)
    return recorded


def compiled(kernel, args, kwargs):
    """A recorded launch as Triton would compile it."""
    specification, _ = specialised(kernel.arg_names, args, kwargs)
    return by_triton(kernel, specification)


def resources(kernel):
    """Registers and stack from the machine code; shared memory from Triton; accesses by width from the PTX."""
    cuobjdump = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        done = subprocess.run([cuobjdump, "-res-usage", file.name], capture_output=True, text=True, check=True)
    registers, stack = map(int, re.search(r"REG:(\d+) STACK:(\d+)", done.stdout).groups())
    program = Program.parse(kernel.asm["ptx"])
    return {"registers": registers, "stack_bytes": stack, "shared_bytes": kernel.metadata.shared,
            "loads": widths(program, "ld.global"), "stores": widths(program, "st.global"),
            "prefetches": bool(program.where("cp.async"))}


def widths(program, opcode):
    """How many instructions move how many bytes."""
    found = {}
    for i in program.where(opcode):
        vector, bits = re.search(r"(?:\.v(\d))?\.[a-z]+(\d+)$", program.instructions[i].opcode).groups()
        width = int(vector or 1) * int(bits) // 8
        found[width] = found.get(width, 0) + 1
    return {str(width): found[width] for width in sorted(found)}


def rows(cases):
    for kind, dtype, U, V in cases:
        for kernel, args, kwargs in launches(kind, dtype, U, V):
            yield {"loss": kind, "dtype": dtype, "U": U, "V": V, "kernel": kernel.__name__,
                   "warps": kwargs.get("num_warps", 4), **resources(compiled(kernel, args, kwargs))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "kernels_sm90.json")
    options = parser.parse_args()
    print("loss  dtype     U      V  kernel          warps  registers  spilled bytes  shared bytes  loads, stores")
    table = []
    for row in rows(CASES):
        table.append(row)
        print(f"{row['loss']:5} {row['dtype']:5} {row['U']:5} {row['V']:6}  {row['kernel']:15} {row['warps']:5} "
              f"{row['registers']:10} {row['stack_bytes']:14} {row['shared_bytes']:13}  {row['loads']} {row['stores']}")
    result = {"what": "the Triton kernels compiled for sm_90, read off the machine code",
              "date": datetime.now(UTC).date().isoformat(),
              "versions": {"torch": torch.__version__, "triton": triton.__version__}, "rows": table}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

"""Launches of all eight kernels that differ in what they do to memory; run by itself, or by compute-sanitizer.

    PYTHONPATH=src:benchmarks python benchmarks/gpu_stages/launches.py --device cuda [--planted memcheck]

Each line that it prints is a launch that has ended. With `--planted` a kernel follows that does what this tool of the
sanitizer looks for: a tool that does not find it has shown nothing about the others.
"""

import argparse

import torch
import triton
import triton.language as tl

from reference_impl.torch_impl import ctc_loss, rnnt_loss

# loss, type, (B, T, U, V), and what is not as usual
CASES = [("rnnt", "float32", (2, 5, 3, 131), {}), ("ctc", "float32", (2, 9, 3, 131), {}),
         ("rnnt", "bfloat16", (2, 4, 3, 1025), {"overwrite_logits": True}),
         ("ctc", "bfloat16", (2, 8, 3, 1025), {"overwrite_logits": True}),
         ("rnnt", "float32", (2, 6, 130, 17), {}), ("ctc", "float32", (1, 262, 130, 17), {}),
         ("rnnt", "float64", (2, 3, 2, 2051), {}), ("ctc", "float64", (2, 5, 2, 2051), {}),
         ("rnnt", "float16", (2, 4, 3, 64), {"inputs": "log_probs"}),
         ("ctc", "float16", (2, 8, 3, 64), {"inputs": "log_probs"}),
         ("rnnt", "float32", (2, 4, 3, 29), {"fastemit_lambda": 0.01, "clamp": 0.5, "integers": torch.int32}),
         ("ctc", "float32", (2, 8, 3, 29), {"blank": 28, "integers": torch.int32}),
         ("rnnt", "bfloat16", (3, 4, 3, 129), {"sliced": True}), ("ctc", "bfloat16", (3, 8, 3, 129), {"sliced": True}),
         ("rnnt", "float32", (1, 1, 0, 2), {}), ("ctc", "float32", (1, 1, 0, 2), {}),
         ("rnnt", "float32", (2, 3, 1030, 5), {}), ("ctc", "float32", (2, 4, 3, 5), {"impossible": True})]


def launch(kind, dtype, shape, options, device):
    """Forward and back on random logits; the second utterance is shorter both ways."""
    B, T, U, V = shape
    options = dict(options)
    integers, sliced = options.pop("integers", torch.int64), options.pop("sliced", False)
    lengths = torch.full((B,), T), torch.full((B,), U)
    if B > 1 and T > 1:
        lengths[0][1:] -= 1
        lengths[1][1:] -= min(U, 1)
    if options.pop("impossible", False):
        lengths[0][0] = 2  # two frames for three labels
    size = (B, T, V) if kind == "ctc" else (B, T, U + 1, V)
    generator = torch.Generator().manual_seed(0)
    leaf = torch.randn(*size[:-1], V + 2 * sliced, generator=generator).to(getattr(torch, dtype)).to(device)
    leaf.requires_grad_()
    logits = leaf[..., 1:-1] if sliced else leaf * 1
    targets = torch.randint(0, V - 1, (B, U), generator=generator)
    targets += (targets >= options.get("blank", 0)).long()  # any label but the blank
    arguments = [argument.to(integers).to(device) for argument in (targets, *lengths)]
    loss = {"ctc": ctc_loss, "rnnt": rnnt_loss}[kind](logits, *arguments, reduction="none", backend="triton", **options)
    loss.backward(torch.ones_like(loss))
    return loss, leaf.grad


@triton.jit
def planted_memcheck(x, out):
    tl.store(x + 1024 + tl.arange(0, 32), 1.0)  # the array ends there


@triton.jit
def planted_initcheck(x, out):
    i = tl.arange(0, 32)
    tl.store(out + i, tl.load(x + i))  # nobody has written x


@triton.jit
def planted_racecheck(x, out):
    i = tl.arange(0, 128)
    seen = tl.inline_asm_elementwise("{ .shared .b32 cell; st.shared.b32 [cell], $1; ld.shared.b32 $0, [cell]; }",
                                     "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + i, seen.to(tl.float32))  # which thread's number?


PLANTED = {"memcheck": planted_memcheck, "ptx_machine": planted_memcheck, "initcheck": planted_initcheck,
           "racecheck": planted_racecheck}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--planted", choices=PLANTED)
    options = parser.parse_args()
    from gpu_stages import machine  # here, because the process that compiles a planted kernel imports this file alone

    stand_in = machine.installed()
    for number, case in enumerate(CASES):
        loss, gradient = launch(*case, options.device)
        numbers = loss.detach().cpu().tolist()  # waits for the kernels
        print(f"launched {number}: {case[0]} {case[1]} {case[2]} {case[3]}: {numbers}", flush=True)
    if options.planted:
        print(f"planted: {options.planted}", flush=True)
        kernel = stand_in.kernel(PLANTED[options.planted]) if stand_in else PLANTED[options.planted]
        kernel[1,](torch.empty(1024, device=options.device), torch.zeros(128, device=options.device))
        if not stand_in:
            torch.cuda.synchronize()


if __name__ == "__main__":
    main()

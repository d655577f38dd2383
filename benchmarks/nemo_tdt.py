"""What a library's own TDT and multi-blank kernels return on small inputs, run by numba's simulator: no GPU is needed.

    pip download --no-deps nemo-toolkit==2.7.3 && unzip nemo_toolkit-2.7.3-py3-none-any.whl -d nemo-2.7.3
    python benchmarks/nemo_tdt.py nemo-2.7.3       # writes data/nemo_tdt.json; needs numpy, torch and numba

It times nothing. The simulator runs the kernels' Python source, on float64 arrays, for durations with 1 and without
it. Chapter 89 compares the results with this package, which is not used here. FastEmit (lambda = 0.5) is tried besides.
"""

import argparse
import importlib
import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # read when numba is imported

import numba
import numpy as np
import torch

RNNT_LOSS = "nemo.collections.asr.parts.numba.rnnt_loss.utils"
# seed, T, U, durations, sigma
TDT = [(0, 4, 2, [0, 1, 2], 0.0), (0, 4, 2, [0, 1, 2], 0.05), (1, 4, 2, [1, 2], 0.0), (5, 3, 2, [0, 1], 0.0),
       (2, 4, 2, [0, 2, 3], 0.0), (3, 5, 2, [0, 2, 3], 0.05), (4, 4, 2, [2, 3], 0.0)]
MULTI_BLANK = [(0, 4, 2, [2], 0.0), (1, 5, 2, [2, 4], 0.05), (2, 5, 2, [2, 4], 0.5)]
DIGITS = 13


def kernels(folder):
    """The module of the kernels; the packages around it are taken as folders, so that nothing else is imported."""
    package = ""
    for name in RNNT_LOSS.split("."):
        package = f"{package}.{name}".lstrip(".")
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [str(Path(folder, *package.split(".")))]
    module = importlib.import_module(f"{RNNT_LOSS}.cuda_utils.gpu_rnnt_kernel")
    module.GPU_RNNT_THREAD_SIZE = 8  # fewer simulated threads; the loop over the symbols goes on by as many
    return module


def inputs(seed, T, U, V, D):
    """Logits of symbols and of durations, and labels; the blank is the last symbol."""
    rng = np.random.default_rng(seed)
    logits, durations = rng.normal(size=(T, U + 1, V)), rng.normal(size=(T, U + 1, D))
    return logits, durations, rng.integers(0, 3, U)


def run(module, kind, logits, labels, sigma, frames, duration_log_probs=None, fastemit=0.0):
    """Loss, -log Z by the way back, gradients, beta: of one utterance, by the kernels "tdt" or "multiblank"."""
    (T, rows, V), extra = logits.shape, () if duration_log_probs is None else (duration_log_probs.ravel(),)
    denominators = -np.logaddexp.reduce(logits, -1).ravel()
    alphas, betas, forward, backward = np.zeros(T * rows), np.zeros(T * rows), np.zeros(1), np.zeros(1)
    lengths = np.array([T]), np.array([rows - 1]), labels[None], 1, T, rows, V, V - 1, np.array(frames), len(frames)
    given = logits.ravel(), *extra, denominators, sigma
    getattr(module, f"compute_{kind}_alphas_kernel")[1, rows](*given, alphas, forward, *lengths)
    getattr(module, f"compute_{kind}_betas_kernel")[1, rows](*given, betas, backward, *lengths)
    gradients = [np.zeros(logits.size), *(np.zeros(each.size) for each in extra)]
    getattr(module, f"compute_{kind}_grad_kernel")[T * rows, module.GPU_RNNT_THREAD_SIZE](
        *gradients, *given, alphas, betas, forward, *lengths, fastemit, 0.0)  # no clamp
    return -forward[0], -backward[0], gradients, betas.reshape(T, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="the unpacked wheel")
    arguments = parser.parse_args()
    module, version = kernels(arguments.folder), next(Path(arguments.folder).glob("nemo_toolkit-*.dist-info"), None)
    cases = []
    for kind, table in (("tdt", TDT), ("multiblank", MULTI_BLANK)):
        for seed, T, U, frames, sigma in table:
            V = 4 if kind == "tdt" else 4 + len(frames)
            logits, duration_logits, labels = inputs(seed, T, U, V, len(frames))
            log_probs = duration_logits - np.logaddexp.reduce(duration_logits, -1, keepdims=True)
            loss, back, gradients, betas = run(module, kind, logits, labels, sigma, frames,
                                               log_probs if kind == "tdt" else None)
            cases.append({"kind": kind, "seed": seed, "T": T, "U": U, "V": V, "frames": frames, "sigma": sigma,
                          "loss": float(loss), "loss_back": float(back), "last_beta": float(betas[-1, -1]),
                          "grad_logits": np.round(gradients[0], DIGITS).tolist()})
            if kind == "tdt":
                cases[-1]["grad_duration_log_probs"] = np.round(gradients[1], DIGITS).tolist()
                _, _, emphasised, _ = run(module, kind, logits, labels, sigma, frames, log_probs, fastemit=0.5)
                cases[-1]["changed_by_fastemit"] = [float(np.abs(one - other).max())
                                                    for one, other in zip(gradients, emphasised, strict=True)]
            print(f"{kind:10} {frames!s:10} sigma {sigma:4}: {loss:.6f}, back {back:.6f}")
    result = {"what": "NeMo's TDT and multi-blank kernels in numba's CUDA simulator, float64",
              "date": f"{datetime.now(UTC):%Y-%m-%d}", "python": platform.python_version(),
              "versions": {"nemo-toolkit": version.stem.split("-")[1] if version else arguments.folder,
                           "numba": numba.__version__, "numpy": np.__version__, "torch": torch.__version__},
              "cases": cases}
    path = Path(__file__).parent.parent / "data" / "nemo_tdt.json"
    lines = ",\n".join(f"  {json.dumps(case)}" for case in result.pop("cases"))
    head = json.dumps(result, indent=1).removesuffix("\n}")
    path.write_text(f'{head},\n "cases": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()

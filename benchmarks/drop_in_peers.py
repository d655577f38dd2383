"""What torchaudio and warprnnt_numba return on small inputs, on the CPU, for the drop-in losses to be compared with.

    pip install torchaudio warprnnt_numba numba       # torchaudio as its release fits torch
    python benchmarks/drop_in_peers.py                # writes data/drop_in_peers.json

It times nothing, and this package is not used here. torchaudio computes in float32, warprnnt_numba in float64 here.
"""

import inspect
import json
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numba
import numpy as np
import torch
import torchaudio
from warprnnt_numba.rnnt_loss import rnnt_pytorch as numba_rnnt

PADDED = {"seed": 0, "shape": [2, 3, 2, 4], "logit_lengths": [3, 2], "target_lengths": [2, 1], "blank": 0, "masked": []}
LAST = PADDED | {"seed": 1, "blank": 3, "logit_lengths": [2, 3], "target_lengths": [0, 2]}
NOWHERE = PADDED | {"seed": 2, "masked": [[1, 1, 1, 0]]}  # the last blank of the second utterance: on every path
ONE_ARC = PADDED | {"seed": 3, "masked": [[0, 1, 1, 0]]}
DEAD_NODE = PADDED | {"seed": 4, "masked": [[0, 0, 1, 0], [0, 1, 0, "label"]]}  # no way into t = 1, u = 1
NAN_PADDING = PADDED | {"seed": 5, "nan_in_padding": True}
ALIKE, WEIGHTED = [1.0, 1.0], [1.0, -2.0]
RUNS = {
    "torchaudio": [
        *[(PADDED, {"reduction": each}, WEIGHTED) for each in ("none", "sum", "mean")],
        (LAST, {"blank": -1}, ALIKE), (PADDED, {"fused_log_softmax": False}, ALIKE), (PADDED, {"clamp": 0.1}, WEIGHTED),
        (PADDED, {"clamp": 0.1, "reduction": "none"}, WEIGHTED), (PADDED, {"clamp": 0.0}, ALIKE),
        *[(each, {"reduction": "none"}, WEIGHTED) for each in (NOWHERE, ONE_ARC, DEAD_NODE, NAN_PADDING)]],
    "warprnnt_numba": [
        *[(PADDED, {"reduction": each}, WEIGHTED) for each in ("none", "sum", "mean", None)],
        (LAST, {}, ALIKE), (PADDED, {"fastemit_lambda": 0.5}, ALIKE),
        (PADDED, {"fastemit_lambda": 0.5, "reduction": "none"}, WEIGHTED),
        (PADDED, {"clamp": 0.1, "reduction": "none"}, ALIKE), (PADDED, {"clamp": 0.1}, ALIKE),
        *[(each, {"reduction": "none"}, WEIGHTED) for each in (NOWHERE, ONE_ARC, DEAD_NODE, NAN_PADDING)]]}
FUNCTIONS = {"torchaudio": torchaudio.functional.rnnt_loss, "warprnnt_numba": numba_rnnt.rnnt_loss}
CLASSES = {"torchaudio": torchaudio.transforms.RNNTLoss, "warprnnt_numba": numba_rnnt.RNNTLossNumba}
DIGITS = {"torchaudio": 8, "warprnnt_numba": 13}


def inputs(case):
    """Logits that are float32 numbers, and labels other than the blank."""
    B, T, U, V = case["shape"]
    rng = np.random.default_rng(case["seed"])
    logits = rng.normal(size=(B, T, U + 1, V)).astype(np.float32)
    labels = (case["blank"] + rng.integers(1, V, (B, U))) % V
    for b, t, u, k in case["masked"]:
        logits[b, t, u, labels[b, u] if k == "label" else k] = -np.inf
    for b, (t, u) in enumerate(zip(case["logit_lengths"], case["target_lengths"], strict=True)):
        if case.get("nan_in_padding"):
            logits[b, t:], logits[b, :, u + 1:] = np.nan, np.nan
    return logits, labels


def run(library, case, options, upstream):
    logits, labels = inputs(case)
    scores = torch.tensor(logits, dtype=torch.float32 if library == "torchaudio" else torch.float64)
    if not options.get("fused_log_softmax", True):
        scores = scores.log_softmax(-1)
    scores.requires_grad_()
    integers = [torch.tensor(each, dtype=torch.int32) for each in (
        labels, case["logit_lengths"], case["target_lengths"])]
    loss = FUNCTIONS[library](scores, *integers, **{"blank": case["blank"]} | options)
    weights = torch.tensor(upstream)[:loss.numel()].reshape(loss.shape).to(loss)
    return loss, torch.autograd.grad(loss, scores, weights)[0], FUNCTIONS[library](
        scores.detach(), *integers, **{"blank": case["blank"]} | options)


def written(values, digits):
    """Numbers of a tensor in a list, those that are not finite by their names."""
    return [round(each, digits) if np.isfinite(each) else str(each) for each in values.flatten().tolist()]


def parameters(function):
    return [[each.name, None if each.default is each.empty else [each.default]]
            for each in inspect.signature(function).parameters.values() if each.name != "self"]


def main():
    cases = []
    for library, runs in RUNS.items():
        for case, options, upstream in runs:
            loss, gradient, without = run(library, case, options, upstream)
            digits = DIGITS[library]
            cases.append({"library": library, "case": case, "options": options, "upstream": upstream,
                          "shape": list(loss.shape), "loss": written(loss, digits),
                          "loss_if_no_gradient_is_asked_for": written(without, digits),
                          "gradient": written(gradient, digits)})
            print(library, options, cases[-1]["loss"])
    head = {"what": "torchaudio's and warprnnt_numba's RNN-T losses on the CPU",
            "date": f"{datetime.now(UTC):%Y-%m-%d}", "python": platform.python_version(),
            "versions": {"torchaudio": torchaudio.__version__, "warprnnt_numba": version("warprnnt_numba"),
                         "numba": numba.__version__, "numpy": np.__version__, "torch": torch.__version__},
            "signatures": {name: {"function": parameters(FUNCTIONS[name]), "class": parameters(CLASSES[name].__init__),
                                  "forward": parameters(CLASSES[name].forward)} for name in FUNCTIONS}}
    path = Path(__file__).parent.parent / "data" / "drop_in_peers.json"
    lines = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    head = json.dumps(head, indent=1).removesuffix("\n}")
    path.write_text(f'{head},\n "cases": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()

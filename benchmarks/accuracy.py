"""How far float32 posteriors are from exact ones, for T up to 10,000, by method and by kind of logits.

    python benchmarks/accuracy.py                  # prints a table, writes data/accuracy.json

The truth is the same lattice with float64 mantissas and exponents, held against 50 digits of mpmath where that is
affordable. All methods get the same float32 log-probs, so what is compared is the lattice alone. Beside them: the
error that comes in with the logits, when they are rounded to float32 or bfloat16 before anything is computed. The
kernels are `measuring.number_types` bit for bit (tests/test_triton.py); `gpu.py accuracy` measures them on CUDA.
"""

import argparse
import json
import platform
from datetime import UTC, datetime
from pathlib import Path

import mpmath
import numpy as np
import torch
from accuracy_cases import FAMILIES, SIZES, ctc_logits, ctc_occupancy, rnnt_arcs, rnnt_log_probs, rnnt_logits

from reference_impl import __version__, ctc, log_softmax, rnnt
from reference_impl.measuring.number_types import ARITHMETICS, LOGARITHMS, ctc_posteriors, rnnt_posteriors
from reference_impl.semiring import REAL

METHODS = [("textbook alpha and beta", LOGARITHMS, "alpha and beta"),
           *((f"shares, {arithmetic.name}", arithmetic, "shares") for arithmetic in ARITHMETICS)]
BF16 = "bfloat16 logits"


def bfloat16(x):
    return torch.tensor(x).to(torch.bfloat16).double().numpy()


def rnnt_rows(family, T, U, seed):
    logits, rest = rnnt_logits(family, T, U, np.random.default_rng(seed))
    given = [x.astype(np.float32) for x in rnnt_log_probs(logits, rest)]
    rounded = {"float32 logits": logits.astype(np.float32), BF16: bfloat16(logits)}
    yield from compare(rnnt_arcs, given, {name: rnnt_log_probs(x, rest) for name, x in rounded.items()},
                       rnnt_log_probs(logits, rest), {})


def ctc_rows(family, T, U, seed):
    logits, targets = ctc_logits(family, T, U, np.random.default_rng(seed))
    given = log_softmax(logits).astype(np.float32)

    def occupancy(log_probs, **options):
        return ctc_occupancy(log_probs, targets, **options)

    def by_torch():
        scores = torch.tensor(given[:, None], requires_grad=True)
        loss = torch.nn.functional.ctc_loss(scores, torch.tensor(targets[None]), [T], [U], reduction="sum")
        gradient, = torch.autograd.grad(loss, scores)
        return -loss.item(), (torch.exp(scores.detach()) - gradient)[:, 0].double().numpy()

    rounded = {"float32 logits": logits.astype(np.float32), BF16: bfloat16(logits)}
    yield from compare(occupancy, given, {name: log_softmax(x.astype(np.float64)) for name, x in rounded.items()},
                       log_softmax(logits), {"torch ctc_loss": by_torch})


def compare(posteriors, given, rounded, unrounded, others):
    """Method, largest error of a posterior, error of log Z; then what rounding the logits alone does."""
    with np.errstate(all="ignore"):  # some of these methods are here because they overflow
        log_z, exact = posteriors(given, dtype=np.float64)
        for name, arithmetic, method in METHODS:
            yield name, *errors(posteriors(given, arithmetic=arithmetic, method=method), log_z, exact)
        for name, compute in others.items():
            yield name, *errors(compute(), log_z, exact)
        log_z, exact = posteriors(unrounded, dtype=np.float64)
        for name, log_probs in rounded.items():
            yield f"exact, on {name}", *errors(posteriors(log_probs, dtype=np.float64), log_z, exact)


def errors(result, log_z, exact):
    """NaN counts as an error of 1: no posterior is further off."""
    return float(np.nan_to_num(np.abs(result[1] - exact), nan=1.0).max()), float(abs(result[0] - log_z))


def against_mpmath(T=40, U=8, V=6):
    """Largest difference between float64 mantissas and exponents and 50 digits, over both losses."""
    worst = 0.0
    with mpmath.workdps(50):
        for kind, module in (("ctc", ctc), ("rnnt", rnnt)):
            rng = np.random.default_rng(0)
            shape = (T, V) if kind == "ctc" else (T, U + 1, V)
            log_probs, targets = log_softmax(3 * rng.standard_normal(shape)), rng.integers(1, V, U)
            probs = np.vectorize(lambda x: mpmath.exp(mpmath.mpf(float(x))), otypes=[object])(log_probs)
            alpha, beta, z = (f(probs, targets, semiring=REAL) for f in (module.alpha, module.beta, module.Z))
            if kind == "ctc":
                log_z, blanks, labels = ctc_posteriors(log_probs, targets, dtype=np.float64)
                node = alpha * beta / z
                worst = max(worst, *(abs(float(a - b)) for a, b in
                                     [*zip(node[:, ::2].flat, blanks.flat, strict=True),
                                      *zip(node[:, 1::2].flat, labels.flat, strict=True)]))
            else:
                label = np.concatenate([log_probs[:, np.arange(U), targets], np.zeros((T, 1))], axis=1)
                log_z, e_blank, e_label = rnnt_posteriors(log_probs[..., 0], label, dtype=np.float64)
                node = alpha * beta / z
                worst = max(worst, *(abs(float(a - b)) for a, b in
                                     zip(node.flat, (e_blank + e_label).flat, strict=True)))
            worst = max(worst, abs(float(mpmath.log(z)) - log_z) / abs(log_z))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, default=len(SIZES), help="only the first so many sizes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "accuracy.json")
    options = parser.parse_args()
    truth = against_mpmath()
    print(f"float64 mantissas and exponents against 50 digits: {truth:.1e}")
    table = []
    for kind, rows in (("rnnt", rnnt_rows), ("ctc", ctc_rows)):
        for family in FAMILIES:
            print(f"{kind}, {family}")
            for T, U in SIZES[:options.sizes]:
                for method, error, loss_error in rows(family, T, U, options.seed):
                    table.append({"loss": kind, "logits": family, "T": T, "U": U, "method": method,
                                  "posterior_error": error,
                                  "log_z_error": loss_error if np.isfinite(loss_error) else None})
                    print(f"  {T:6} {U:5}  {method:38} {error:9.1e}   log Z {loss_error:9.1e}", flush=True)
    result = {"what": "largest absolute error of float32 posteriors (arcs of RNN-T, symbols of CTC) and error of log Z",
              "date": datetime.now(UTC).date().isoformat(),
              "versions": {"reference_impl": __version__, "numpy": np.__version__, "torch": torch.__version__,
                           "python": platform.python_version()},
              "device": "cpu",
              "seed": options.seed, "float64_against_50_digits": truth, "rows": table}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()

"""How long `batched.rnnt_loss` takes on one long utterance in float32, and how exact it is; no comparison with others.

    python benchmarks/long_utterance.py            # prints a table, writes data/long_utterance.json

Every run fills fresh memory, and from some size on a machine may spend more time on finding that memory than on the
loss. So beside the wall-clock time stands the processor time, split in two: "user" is spent in the program, "system"
on its memory. If the cost is linear in T * U, the user time per logit stays the same from row to row: the last column,
the ratio to the row before, is about 1.
"""

import argparse
import json
import os
import platform
import resource
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from reference_impl import __version__, batched

SHAPES = [(300, 60), (450, 90), (600, 120), (900, 180), (1200, 240), (1500, 300)]
V = 500


def utterance(T, U, seed):
    """One utterance of random float32 logits, and the other arguments."""
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((1, T, U + 1, V), dtype=np.float32)
    return logits, rng.integers(1, V, size=(1, U)), np.array([T]), np.array([U])


def seconds(arguments):
    """Wall-clock, user and system seconds of one run."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    batched.rnnt_loss(*arguments)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter() - start, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def summary(T, U, runs, previous):
    """One row of the table; the ratio is of the user time per logit to that of the row before."""
    wall, user, system = (list(times) for times in zip(*runs, strict=True))
    q1, median, q3 = np.percentile(wall, [25, 50, 75]).tolist()
    per_logit = 1e9 * float(np.median(user)) / (T * (U + 1) * V)
    return {"T": T, "U": U, "V": V, "wall": wall, "user": user, "system": system, "median": median,
            "quartiles": [q1, q3], "user_median": float(np.median(user)), "system_median": float(np.median(system)),
            "user_nanoseconds_per_logit": per_logit,
            "ratio_to_previous": per_logit / previous["user_nanoseconds_per_logit"] if previous else None}


def exponent(rows):
    """The p of the power law, user time = c (T U)^p, that fits the rows best; 1 is linear."""
    cells = [row["T"] * (row["U"] + 1) for row in rows]
    return float(np.polyfit(np.log(cells), np.log([row["user_median"] for row in rows]), 1)[0])


def largest_gradient_error(T, U, seed):
    """Largest difference between the float32 gradient and the float64 one of the same float32 logits."""
    logits, *rest = utterance(T, U, seed)
    loss, gradient = batched.rnnt_loss(logits, *rest)
    exact_loss, exact = batched.rnnt_loss(logits.astype(np.float64), *rest)
    error = max(float(np.abs(gradient[0, t] - exact[0, t]).max()) for t in range(T))
    return error, float(exact_loss[0]), float(abs(loss[0] / exact_loss[0] - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of each shape (default: 7)")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="only the first so many shapes")
    parser.add_argument("--seed", type=int, default=0, help="of the random logits and labels (default: 0)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent.parent / "data" / "long_utterance.json")
    options = parser.parse_args()

    print(f"batched.rnnt_loss, float32, one utterance, V = {V}, {options.repeats} runs of each shape")
    print("    T    U   median s   quartiles s       user   system   user ns per logit   ratio to the row before")
    shapes = SHAPES[:options.shapes]
    times = {shape: [] for shape in shapes}
    for repeat in range(options.repeats + 1):  # shapes take turns, so that a busy moment of the machine hits them all
        for T, U in shapes:
            taken = seconds(utterance(T, U, options.seed))
            if repeat > 0:  # the first round warms up
                times[T, U].append(taken)
    rows = []
    for T, U in shapes:
        row = summary(T, U, times[T, U], rows[-1] if rows else None)
        rows.append(row)
        ratio = f"{row['ratio_to_previous']:.2f}" if row["ratio_to_previous"] else ""
        print(f"{T:5} {U:4} {row['median']:10.3f}   {row['quartiles'][0]:.3f} - {row['quartiles'][1]:.3f} "
              f"{row['user_median']:8.3f} {row['system_median']:8.3f} {row['user_nanoseconds_per_logit']:14.2f} "
              f"{ratio:>16}")
    power = exponent(rows) if len(rows) > 1 else None
    if power:
        print(f"user time grows like (T * U) to the power {power:.2f}")

    T, U = rows[-1]["T"], rows[-1]["U"]
    error, loss, loss_error = largest_gradient_error(T, U, options.seed)
    print(f"T = {T}, U = {U}: loss {loss:.3f} (relative error {loss_error:.1e}), largest gradient error {error:.2e}")
    result = {
        "what": "reference_impl.batched.rnnt_loss: loss and gradient of one utterance, float32, times in seconds",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"reference_impl": __version__, "numpy": np.__version__, "python": platform.python_version()},
        "machine": {"architecture": platform.machine(), "cores": os.cpu_count()},
        "repeats": options.repeats, "seed": options.seed, "rows": rows,
        "exponent_of_user_time": power,
        "largest": {"T": T, "U": U, "V": V, "loss": loss, "relative_loss_error": loss_error,
                    "gradient_error_against_float64": error},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
